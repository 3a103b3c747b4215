//! `read_command_output`: what a command in the background has printed.

use super::prelude::*;
use roo_protocol::ids::CommandId;

/// Seconds to wait for a pattern or a port where the call doesn't say.
const READY: u64 = 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCommandOutput {
    /// The command. When none, the only one that runs in the background if there is something to wait for, else all.
    pub command: Option<CommandId>,
    /// A regular expression; its call returns when new output matches.
    pub until: Option<String>,
    /// A TCP port; its call returns when a program listens there.
    pub port: Option<u16>,
    /// Time to wait for that, or for its end, in seconds.
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
                "The command, such as `cmd-12`. When left out, all that run in the background are listed; with `until` or \
                 `port`, the only one.",
            ),
            optional(
                "timeout",
                Kind::Integer,
                "Seconds to wait for the command's end before its output is returned; 0 when left out, 30 with `until` or \
                 `port`.",
            ),
            optional(
                "until",
                Kind::Text,
                "A regular expression: returns as soon as new output matches.",
            ),
            optional(
                "port",
                Kind::Integer,
                "A TCP port: returns as soon as a program listens there.",
            ),
        ],
        legacy_parameters: &["artifact_id"],
        example: "<read_command_output>\n<command_id>cmd-12</command_id>\n<timeout>60</timeout>\n</read_command_output>",
        mistake: "Again and again without a timeout, to wait for the end of a build.",
        hook_names: &["BashOutput"],
        repetition: Repetition::Rest,
        ..ToolSpec::new(ToolName::ReadCommandOutput, Group::Command, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let command = command_id(reader)?;
        let until = reader.optional_text("until")?;
        let port = match reader.integer("port")?.map(u16::try_from) {
            None => None,
            Some(Ok(port @ 1..)) => Some(port),
            Some(_) => return Err(reader.bad("port", "it is no port number from 1 to 65535")),
        };
        let waits = until.is_some() || port.is_some();
        let timeout = reader.integer("timeout")?.map(|seconds| seconds as u64);
        Ok(Self { command, until, port, timeout: timeout.unwrap_or(if waits { READY } else { 0 }) })
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
