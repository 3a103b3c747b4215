//! The list of the tools, and their names.

use std::fmt;

/// Gives the list of all tools to a macro: the type of what a call holds, and the file of it in `tools/`. The order is that
/// of [`ToolName`] and of prompts. The first argument is a dollar sign, for macros that define others.
macro_rules! with_tools {
    ($d:tt $then:ident) => {
        $then! { $d
            ReadFile: read_file,
            WriteToFile: write_to_file,
            ApplyDiff: apply_diff,
            SearchAndReplace: search_and_replace,
            EditFile: edit_file,
            InsertContent: insert_content,
            ApplyPatch: apply_patch,
            GenerateImage: generate_image,
            ListFiles: list_files,
            SearchFiles: search_files,
            CodebaseSearch: codebase_search,
            ListCodeDefinitionNames: list_code_definition_names,
            FindReferences: find_references,
            GoToDefinition: go_to_definition,
            Hover: hover,
            WorkspaceSymbols: workspace_symbols,
            Diagnostics: diagnostics,
            CodeActions: code_actions,
            ApplyCodeAction: apply_code_action,
            RenameSymbol: rename_symbol,
            ViewDiff: view_diff,
            ExecuteCommand: execute_command,
            ReadCommandOutput: read_command_output,
            SendCommandInput: send_command_input,
            StopCommand: stop_command,
            BrowserAction: browser_action,
            AskFollowupQuestion: ask_followup_question,
            UpdateTodoList: update_todo_list,
            SwitchMode: switch_mode,
            Skill: skill,
            RunSlashCommand: run_slash_command,
            FetchInstructions: fetch_instructions,
            SelectActiveIntent: select_active_intent,
            RequestScopeExpansion: request_scope_expansion,
            NewTask: new_task,
            AttemptCompletion: attempt_completion,
            CompleteWithFailure: complete_with_failure,
            SearchMcpTools: search_mcp_tools,
            UseMcpTool: use_mcp_tool,
            AccessMcpResource: access_mcp_resource,
        }
    };
}
pub(crate) use with_tools;

macro_rules! names {
    ($d:tt $($tool:ident: $module:ident,)*) => {
        /// A tool of the server's own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ToolName {
            $(
                #[doc = concat!("`", stringify!($module), "`")]
                $tool,
            )*
        }

        impl ToolName {
            /// The name on the wire and in prompts.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$tool => stringify!($module),)*
                }
            }
        }
    };
}

with_tools! { $ names }

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
