//! `read_command_output`: what a command in the background has printed.

use super::prelude::*;
use roo_protocol::ids::CommandId;

/// Reads the output of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCommandOutput {
    /// The command; all that run in the background when none.
    pub command: Option<CommandId>,
    /// Time to wait for its end, in seconds.
    pub timeout: u64,
}

impl Declaration for ReadCommandOutput {
    const SPEC: ToolSpec = ToolSpec {
        description: "Returns what a command in the background has printed since you last read it. You are told the \
                      end of a command without asking.",
        parameters: &[
            optional(
                "command_id",
                Kind::Text,
                "The command, such as `cmd-12`; all that run in the background are listed when left out.",
            ),
            optional(
                "timeout",
                Kind::Integer,
                "Seconds to wait for the command's end before its output is returned; 0 when left out.",
            ),
        ],
        legacy_parameters: &["artifact_id"],
        example: "<read_command_output>\n<command_id>cmd-12</command_id>\n<timeout>60</timeout>\n</read_command_output>",
        mistake: "Again and again without a timeout, to wait for the end of a build.",
        hook_names: &["BashOutput"],
        ..ToolSpec::new(ToolName::ReadCommandOutput, Group::Command, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { command: command_id(reader)?, timeout: reader.integer("timeout")?.unwrap_or(0) as u64 })
    }

    fn subject(&self) -> String {
        self.command.as_ref().map(CommandId::to_string).unwrap_or_default()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "readCommandOutput", "commandId": self.command }))
    }

    fn hook_inputs(&self, _view: &HookView<'_>) -> Vec<HookInput> {
        vec![object(json!({ "bash_id": self.command })).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.insert("command_id".to_owned(), change.text("bash_id")?.into());
        Ok(())
    }
}

/// The command that a call is about.
pub(super) fn command_id(reader: &Reader<'_>) -> Result<Option<CommandId>, InvalidCall> {
    let text = match reader.optional_text("command_id")? {
        Some(text) => Some(text),
        // Roo named the file of the output.
        None => reader.optional_text("artifact_id")?,
    };
    Ok(text.map(|text| CommandId::new(text.strip_suffix(".txt").unwrap_or(&text))))
}
