//! `stop_command`: the end of a command in the background.

use super::prelude::*;
use roo_protocol::ids::CommandId;
use super::read_command_output::command_id;

/// Ends a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopCommand {
    pub command: CommandId,
}

impl Declaration for StopCommand {
    const SPEC: ToolSpec = ToolSpec {
        description: "Ends a command in the background, with all its processes. Commands that still run when the task \
                      ends are ended with it.",
        parameters: &[required("command_id", Kind::Text, "The command, such as `cmd-12`.")],
        legacy_parameters: &["artifact_id"],
        example: "<stop_command>\n<command_id>cmd-12</command_id>\n</stop_command>",
        mistake: "`kill` or `pkill` in execute_command: each command sees its own processes alone.",
        hook_names: &["KillShell"],
        ..ToolSpec::new(ToolName::StopCommand, Group::Command, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { command: command_id(reader)?.ok_or(reader.missing("command_id"))? })
    }

    fn subject(&self) -> String {
        self.command.to_string()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "stopCommand", "commandId": self.command }))
    }

    fn hook_inputs(&self, _view: &HookView<'_>) -> Vec<HookInput> {
        vec![object(json!({ "shell_id": self.command })).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.insert("command_id".to_owned(), change.text("shell_id")?.into());
        Ok(())
    }
}
