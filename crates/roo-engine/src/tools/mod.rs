//! The tools: one file each, with how its calls are judged and what a permitted one does. To add one: a file here, and
//! its line below. What models read of it is in `roo_catalog`.
//!
//! Tools that only steer the conversation (questions, to-do list, completion) are transitions of
//! the task in [`crate::engine`].

mod access_mcp_resource;
mod apply_code_action;
mod apply_diff;
mod apply_patch;
mod attempt_completion;
mod browser_action;
mod code_actions;
mod code_edit;
pub(crate) mod code_question;
mod codebase_search;
mod command_effects;
mod context_command;
mod conversation;
mod diagnostics;
mod edit;
mod edit_file;
mod execute_command;
mod fetch_instructions;
mod find_references;
#[cfg(test)]
mod fixture;
mod generate_image;
mod go_to_definition;
mod hover;
mod insert_content;
mod list_code_definition_names;
mod list_files;
mod native;
mod new_task;
mod npm;
mod patch_call;
mod read_command_output;
mod read_file;
mod rename_symbol;
mod request_scope_expansion;
mod run_slash_command;
mod search_and_replace;
mod search_files;
mod search_mcp_tools;
mod select_active_intent;
mod send_command_input;
mod server_call;
pub(crate) mod skill;
mod stop_command;
mod switch_mode;
mod unmasked_lines;
mod use_mcp_tool;
mod view_diff;
mod withheld;
mod workspace_symbols;
mod write_to_file;

pub(crate) use self::codebase_search::codebase_search_result;
pub(crate) use self::execute_command::outcome_of;
