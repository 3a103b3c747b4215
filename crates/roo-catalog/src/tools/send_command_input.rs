//! `send_command_input`: what is typed at the terminal of a command in the background.

use super::prelude::*;
use super::read_command_output::command_id;
use roo_protocol::ids::CommandId;

/// Types at the terminal of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendCommandInput {
    pub command: CommandId,
    /// Text to type; may be empty.
    pub input: String,
    /// The key that is pressed after it.
    pub key: CommandKey,
}

/// Keys of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKey {
    None,
    /// Enter, which ends a line.
    Enter,
    /// Ctrl-C, which interrupts what runs.
    CtrlC,
    /// Ctrl-D, which ends the input.
    CtrlD,
    Tab,
    Escape,
    /// The arrow up.
    Up,
    /// The arrow down.
    Down,
}

impl CommandKey {
    const ALL: &[Self] = &[
        Self::Enter,
        Self::CtrlC,
        Self::CtrlD,
        Self::Tab,
        Self::Escape,
        Self::Up,
        Self::Down,
        Self::None,
    ];

    /// Its name in calls.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Enter => "enter",
            Self::CtrlC => "ctrl-c",
            Self::CtrlD => "ctrl-d",
            Self::Tab => "tab",
            Self::Escape => "escape",
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    /// What a terminal sends for it.
    pub fn bytes(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            // As a terminal sends it; the line discipline makes a newline of it where a program reads lines.
            Self::Enter => b"\r",
            Self::CtrlC => b"\x03",
            Self::CtrlD => b"\x04",
            Self::Tab => b"\t",
            Self::Escape => b"\x1b",
            Self::Up => b"\x1b[A",
            Self::Down => b"\x1b[B",
        }
    }
}

impl SendCommandInput {
    /// Returns whether it only interrupts the program or ends its input.
    pub fn only_ends(&self) -> bool {
        self.input.is_empty() && matches!(self.key, CommandKey::CtrlC | CommandKey::CtrlD)
    }
}

impl Declaration for SendCommandInput {
    const SPEC: ToolSpec = ToolSpec {
        description: "Types at the terminal of a command that you started with `pty`, and returns what it prints then.",
        parameters: &[
            required("command_id", Kind::Text, "The command, such as `cmd-12`."),
            optional("input", Kind::Verbatim, "The text to type."),
            optional(
                "key",
                Kind::Text,
                "The key after it: `enter` when left out, `ctrl-c`, `ctrl-d`, `tab`, `escape`, `up`, `down`, `none`.",
            ),
        ],
        example: "<send_command_input>\n<command_id>cmd-12</command_id>\n<input>print(1 + 1)</input>\n</send_command_input>",
        mistake: "A command of the shell, to a program that is none.",
        repetition: Repetition::New,
        ..ToolSpec::new(ToolName::SendCommandInput, Group::Command, Effect::Execute)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let key = match reader.optional_text("key")? {
            None => CommandKey::Enter,
            Some(name) => {
                let name = name.to_ascii_lowercase();
                let found = CommandKey::ALL.iter().find(|key| key.as_str() == name);
                let names: Vec<&str> = CommandKey::ALL.iter().map(|key| key.as_str()).collect();
                *found.ok_or_else(|| reader.bad("key", format!("it is none of {}", names.join(", "))))?
            }
        };
        let input = match reader.get("input") {
            Some(_) => reader.verbatim("input")?,
            None => String::new(),
        };
        Ok(Self { command: command_id(reader)?.ok_or(reader.missing("command_id"))?, input, key })
    }

    fn subject(&self) -> String {
        format!("{}: {}", self.command, self.input)
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({
            "tool": "sendCommandInput",
            "commandId": self.command,
            "input": self.input,
            "key": self.key.as_str(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Invocation, ToolCall, parse};
    use roo_protocol::ids::ToolCallId;

    fn read(tool: &str, params: Value) -> Result<Invocation, String> {
        let Value::Object(params) = params else { panic!("parameters are an object") };
        let call = ToolCall { id: ToolCallId::new("c"), name: tool.to_owned(), params, problem: None, note: None };
        parse(&call).map_err(|error| error.to_string())
    }

    #[test]
    fn enter_is_pressed_unless_the_call_names_another_key() {
        let key = |params| match read("send_command_input", params) {
            Ok(Invocation::SendCommandInput(call)) => (call.input.clone(), call.key, call.only_ends()),
            other => panic!("{other:?}"),
        };
        let typed = json!({ "command_id": "cmd-1", "input": " a " });
        assert_eq!(key(typed), (" a ".to_owned(), CommandKey::Enter, false));
        assert_eq!(key(json!({ "command_id": "cmd-1", "key": "Ctrl-C" })), (String::new(), CommandKey::CtrlC, true));
        let text_first = json!({ "command_id": "cmd-1", "input": "rm x", "key": "ctrl-d" });
        assert!(!key(text_first).2, "the text is more than an end");
        let error = read("send_command_input", json!({ "command_id": "cmd-1", "key": "f1" })).unwrap_err();
        assert!(error.contains("enter, ctrl-c, ctrl-d"), "{error}");
    }

    /// Tags hold text, and native calls have types.
    #[test]
    fn both_protocols_say_what_runs_on_and_what_is_awaited() {
        let of_tags = json!({ "command": "x", "background": "true", "pty": "true" });
        let native = json!({ "command": "x", "background": true, "pty": true });
        let Ok(Invocation::ExecuteCommand(call)) = read("execute_command", native.clone()) else { panic!() };
        assert!(call.background && call.pty);
        assert_eq!(read("execute_command", of_tags), read("execute_command", native));
        let of_tags = json!({ "command_id": "cmd-1", "until": "ready", "port": "80" });
        let native = json!({ "command_id": "cmd-1", "until": "ready", "port": 80 });
        let Ok(Invocation::ReadCommandOutput(call)) = read("read_command_output", native.clone()) else { panic!() };
        assert_eq!((call.until.as_deref(), call.port, call.timeout), (Some("ready"), Some(80), 30));
        assert_eq!(read("read_command_output", of_tags), read("read_command_output", native));
        assert!(read("read_command_output", json!({ "command_id": "cmd-1", "port": 65536 })).is_err());
        let only = read("read_command_output", json!({ "until": "ready" }));
        let Ok(Invocation::ReadCommandOutput(call)) = only else { panic!() };
        assert_eq!((&call.command, call.timeout), (&None, 30));
    }
}
