//! `run_slash_command`: the instructions of a slash command.

use super::prelude::*;

/// Loads the text of a slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSlashCommand {
    /// Its name, without the slash.
    pub command: String,
    /// What follows it.
    pub arguments: Option<String>,
}

impl Declaration for RunSlashCommand {
    const SPEC: ToolSpec = ToolSpec {
        description: "Loads the instructions of a slash command of the user's or the project's, such as `init`, as if the user \
                      had written it. Follow them.",
        parameters: &[
            required("command", Kind::Text, "The command's name, with or without the slash."),
            optional("args", Kind::Text, "What the command is to be used on."),
        ],
        example: "<run_slash_command>\n<command>init</command>\n</run_slash_command>",
        mistake: "A command line: use execute_command.",
        is_opt_in: true,
        hook_names: &["SlashCommand"],
        ..ToolSpec::new(ToolName::RunSlashCommand, Group::Always, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let command = reader.text("command")?;
        let command = command.strip_prefix('/').unwrap_or(&command).to_owned();
        Ok(Self { command, arguments: reader.optional_text("args")? })
    }

    fn subject(&self) -> String {
        format!("/{}", self.command)
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "runSlashCommand", "command": self.command, "args": self.arguments }))
    }

    fn hook_inputs(&self, _view: &HookView<'_>) -> Vec<HookInput> {
        let line = match &self.arguments {
            Some(arguments) => format!("/{} {arguments}", self.command),
            None => format!("/{}", self.command),
        };
        vec![object(json!({ "command": line })).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        let line = change.text("command")?;
        let (command, arguments) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
        params.insert("command".to_owned(), command.trim_start_matches('/').into());
        match arguments.trim() {
            "" => params.remove("args"),
            arguments => params.insert("args".to_owned(), arguments.into()),
        };
        Ok(())
    }
}
