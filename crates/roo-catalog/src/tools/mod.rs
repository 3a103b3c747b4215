//! The tools, one file each: what a call of it holds, how it is read, what models and clients read of it, and how
//! hooks see it. What it does is in `roo_engine::tools`.
//!
//! To add one: a file here, and a line in the list of `tool_name.rs`. A file is named as its tool.

use crate::declaration::{Declaration, Shown};
use crate::hook_view::{HookInput, HookView, Object, Rewrite, RewriteError};
use crate::reader::{InvalidCall, Reader};
use crate::spec::ToolSpec;
use crate::tool_name::{ToolName, with_tools};
use serde_json::Value;

pub use find_references::SymbolAt;

mod prelude {
    pub(super) use crate::declaration::{Declaration, Shown};
    pub(super) use crate::hook_view::{
        HookInput, HookView, Object, Rewrite, RewriteError, file_hook_inputs, object, take_back_file, wrong,
    };
    pub(super) use crate::reader::{InvalidCall, Reader};
    pub(super) use crate::spec::{
        Effect, Group, Kind, Needs, Repetition, Structured, ToolSpec, optional, required,
    };
    pub(super) use crate::tool_name::ToolName;
    pub(super) use serde::{Deserialize, Serialize};
    pub(super) use serde_json::{Value, json};
}

/// Declares what is made from the list of tools. The first argument is a dollar sign, for the macro that this one defines.
macro_rules! tools {
    ($d:tt $($tool:ident: $module:ident,)*) => {
        $(
            mod $module;
            pub use $module::$tool;
        )*

        impl ToolName {
            pub(crate) fn read(self, reader: &Reader<'_>) -> Result<Invocation, InvalidCall> {
                match self {
                    $(Self::$tool => $tool::parse(reader).map(Invocation::$tool),)*
                }
            }
        }

        /// All tools, in the order of [`ToolName`] and of prompts.
        pub static TOOLS: &[ToolSpec] = &[$($tool::SPEC,)*];

        /// A well-formed call.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Invocation {
            $(
                #[doc = concat!("`", stringify!($module), "`")]
                $tool($tool),
            )*
        }

        $(
            impl From<$tool> for Invocation {
                fn from(call: $tool) -> Self {
                    Self::$tool(call)
                }
            }
        )*

        /// Evaluates an expression with what a call holds, whichever tool it is of: how other crates give all tools a
        /// trait of their own.
        #[macro_export]
        macro_rules! with_call {
            ($d invocation:expr, $d call:ident => $d body:expr) => {
                match $d invocation {
                    $($crate::Invocation::$tool($d call) => $d body,)*
                }
            };
        }
    };
}

with_tools! { $ tools }

pub use browser_action::{BrowserStep, BrowserTarget, ElementRef, ScreenPoint, ScreenSize};
pub use fetch_instructions::InstructedTask;
pub use read_file::ReadRequest;
pub use send_command_input::CommandKey;

impl ToolName {
    /// The tool of this name, or of a name that Roo used for it.
    pub fn parse(name: &str) -> Option<Self> {
        TOOLS
            .iter()
            .find(|spec| spec.name.as_str() == name || spec.aliases.contains(&name))
            .map(|spec| spec.name)
    }

    /// Its entry in the table.
    pub fn spec(self) -> &'static ToolSpec {
        // Names and table come from one list.
        &TOOLS[self as usize]
    }
}

impl Invocation {
    pub fn tool(&self) -> ToolName {
        fn name<T: Declaration>(_: &T) -> ToolName {
            T::SPEC.name
        }
        with_call!(self, call => name(call))
    }

    /// Returns the object of the call, for people: a path, a command, a question.
    pub fn subject(&self) -> String {
        with_call!(self, call => call.subject())
    }

    /// Returns the kind as which clients show it.
    pub fn shown(&self) -> Shown {
        with_call!(self, call => call.shown())
    }

    /// The files that it would change, as the model named them.
    pub fn edited_files(&self) -> Vec<&str> {
        with_call!(self, call => call.edited_files())
    }

    /// Returns the inputs of hooks: one thing for most calls, one for each file for calls of several.
    pub fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        with_call!(self, call => call.hook_inputs(view))
    }

    /// The parameters after hooks have changed these inputs; none where nothing changes.
    ///
    /// # Errors
    /// When a change can't be brought back to the tool's parameters.
    pub fn rewrite(
        &self,
        changes: &[Option<Rewrite<'_>>],
        params: &Object,
    ) -> Result<Option<Object>, RewriteError> {
        with_call!(self, call => call.rewrite(changes, params))
    }

    /// Returns the tool's answer in the form of the hook contract.
    pub fn hook_response(&self, view: &HookView<'_>, text: &str, ok: bool) -> Value {
        with_call!(self, call => call.hook_response(view, text, ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::native_schema;

    #[test]
    fn the_table_is_in_the_order_of_the_names() {
        for (index, spec) in TOOLS.iter().enumerate() {
            assert_eq!(spec.name as usize, index, "{}", spec.name);
            assert_eq!(spec.name.spec().name, spec.name);
        }
    }

    #[test]
    fn no_name_leads_to_two_tools() {
        let names = TOOLS.iter().flat_map(|spec| spec.aliases.iter().copied().chain([spec.name.as_str()]));
        let mut names: Vec<&str> = names.collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn every_native_schema_is_valid_and_closed() {
        for spec in TOOLS {
            let schema = native_schema(spec);
            jsonschema::meta::validate(&schema).unwrap();
            assert_eq!(schema["additionalProperties"], false, "{}", spec.name);
        }
    }

    #[test]
    fn native_calls_are_shown_right_and_wrong_where_a_wrong_one_costs_most() {
        let described = |tool: ToolName| tool.spec().native_description().into_owned();
        let diff = described(ToolName::ApplyDiff);
        let (_, shown) = diff.split_once("\n\nRight, as `diff`:\n").unwrap();
        let (right, wrong) = shown.split_once("\n\nWrong: ").unwrap();
        assert!(right.starts_with("<<<<<<< SEARCH\n:start_line:12\n") && right.ends_with(">>>>>>> REPLACE"));
        assert_eq!(wrong, ToolName::ApplyDiff.spec().mistake);
        assert!(described(ToolName::ApplyPatch).contains("\n\nRight, as `patch`:\n*** Begin Patch\n"));
        let write = described(ToolName::WriteToFile);
        assert!(
            write.contains("\n\nWrong: Content with a placeholder") && !write.contains("Right"),
            "{write}"
        );
        assert_eq!(described(ToolName::ReadFile), ToolName::ReadFile.spec().description);
        // Of the tools that models have unless their profile says otherwise; a token has about four bytes.
        let usual = TOOLS.iter().filter(|spec| !spec.is_opt_in);
        let added: usize = usual.map(|spec| spec.native_description().len() - spec.description.len()).sum();
        assert!(added < 800, "{added} bytes");
    }

    #[test]
    fn formats_of_parameters_have_an_example() {
        for spec in TOOLS {
            let Some(name) = spec.own_format else { continue };
            assert!(spec.parameters.iter().any(|parameter| parameter.name == name), "{}", spec.name);
            assert!(crate::reader::elements(spec.example, name).next().is_some(), "{}", spec.name);
        }
    }

    /// One call of each tool, with what every front end makes of it: the subject is shown by plain LSP and Neovim, `words` by VS
    /// Code, whose tests read the same file.
    const CALLS: &str = include_str!("../../../../tests/fixtures/calls.json");

    #[test]
    fn every_tool_is_shown_in_words() {
        let mut calls: Vec<Value> = serde_json::from_str(CALLS).unwrap();
        let named: Vec<&str> = calls.iter().map(|call| call["tool"].as_str().unwrap()).collect();
        let tools: Vec<&str> = TOOLS.iter().map(|spec| spec.name.as_str()).collect();
        assert!(
            tools.iter().all(|tool| named.contains(tool)),
            "tests/fixtures/calls.json has no call of {:?}",
            tools.iter().filter(|tool| !named.contains(tool)).collect::<Vec<_>>()
        );
        for call in &mut calls {
            let name = call["tool"].as_str().unwrap().to_owned();
            let params = call["params"].as_object().unwrap().clone();
            let sent = crate::ToolCall {
                id: roo_protocol::ids::ToolCallId::new("call_1"),
                name,
                params,
                problem: None,
                note: None,
            };
            let read = crate::parse(&sent).unwrap();
            call["subject"] = read.subject().into();
            call["shown"] = match read.shown() {
                Shown::Command(line) => serde_json::json!({ "command": line }),
                Shown::Tool(value) => serde_json::json!({ "tool": value }),
                Shown::Server(value) => serde_json::json!({ "server": value }),
            };
            // What only ends a task is shown by its result.
            let ends = matches!(read.tool(), ToolName::AttemptCompletion | ToolName::CompleteWithFailure);
            assert!(ends || !read.subject().is_empty(), "{}", sent.name);
        }
        if std::env::var_os("UPDATE_EVENTS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/calls.json");
            std::fs::write(path, serde_json::to_string_pretty(&calls).unwrap() + "\n").unwrap();
            return;
        }
        let recorded: Vec<Value> = serde_json::from_str(CALLS).unwrap();
        for (recorded, call) in recorded.iter().zip(&calls) {
            assert_eq!(
                recorded, call,
                "tests/fixtures/calls.json is out of date; run UPDATE_EVENTS=1 cargo test -p roo-catalog shown_in_words"
            );
        }
    }

    #[test]
    fn names_that_roo_used_still_find_their_tool() {
        assert_eq!(ToolName::parse("write_file"), Some(ToolName::WriteToFile));
        assert_eq!(ToolName::parse("edit"), Some(ToolName::SearchAndReplace));
        assert_eq!(ToolName::parse("rm_rf"), None);
    }
}
