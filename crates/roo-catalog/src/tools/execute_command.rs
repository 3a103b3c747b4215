//! `execute_command`: a command line for the shell.

use super::prelude::*;

/// Runs a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecuteCommand {
    /// A command line for the shell.
    pub command: String,
    /// As the model wrote it; the first root when none.
    pub cwd: Option<String>,
    /// Time to wait for its end, in seconds, at least 1.
    pub timeout: Option<u64>,
    /// True if it is to reach the network.
    pub network: bool,
    /// True if it is to go on in the background as soon as it has printed something.
    pub background: bool,
    /// True if it is to run in a terminal.
    pub pty: bool,
}

impl Declaration for ExecuteCommand {
    const SPEC: ToolSpec = ToolSpec {
        description: "Runs a command line with bash (or /bin/sh) in the workspace and returns its output and exit code. \
                      Standard input is closed. Every call is a fresh shell: a `cd` does not last. What it may not change is \
                      read-only, and the network is off unless you ask for it. A command that runs on for long goes \
                      to the background by itself: start servers and watchers without `&`.",
        parameters: &[
            required("command", Kind::Text, "The command line."),
            optional(
                "cwd",
                Kind::Text,
                "The directory to run in, relative to the workspace; its top when left out.",
            ),
            optional(
                "timeout",
                Kind::Integer,
                "Seconds to wait for its end; then it goes to the background and runs on. Give one to a build or a \
                 test run that takes longer than the user's setting, which counts when left out.",
            ),
            optional(
                "background",
                Kind::Boolean,
                "`true` for what runs on, such as a server: the call returns its id and first output.",
            ),
            optional(
                "pty",
                Kind::Boolean,
                "`true` for what needs a terminal, such as a REPL: send_command_input types there.",
            ),
            optional(
                "network",
                Kind::Boolean,
                "`true` when it must reach the network, which is off otherwise; the user is asked.",
            ),
        ],
        example: "<execute_command>\n<command>cargo test --quiet</command>\n</execute_command>",
        mistake: "An interactive program without `pty`: nothing can answer it.",
        hook_names: &["Bash"],
        ..ToolSpec::new(ToolName::ExecuteCommand, Group::Command, Effect::Execute)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self {
            command: reader.text("command")?,
            cwd: reader.optional_text("cwd")?,
            timeout: match reader.integer("timeout")? {
                Some(0) | None => None,
                Some(seconds) => Some(seconds as u64),
            },
            network: reader.boolean("network")?.unwrap_or(false),
            background: reader.boolean("background")?.unwrap_or(false),
            pty: reader.boolean("pty")?.unwrap_or(false),
        })
    }

    fn subject(&self) -> String {
        self.command.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Command(self.command.clone())
    }

    fn hook_inputs(&self, _view: &HookView<'_>) -> Vec<HookInput> {
        let mut fields = json!({ "command": self.command });
        if let Some(seconds) = self.timeout {
            fields["timeout"] = seconds.saturating_mul(1000).into();
        }
        vec![object(fields).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.insert("command".to_owned(), change.text("command")?.into());
        if change.differs("timeout") {
            match change.after.get("timeout").map(Value::as_f64) {
                None => {
                    params.remove("timeout");
                }
                // In milliseconds there, and here in whole seconds.
                Some(Some(milliseconds)) if (1.0..=1e12).contains(&milliseconds) => {
                    let seconds = (milliseconds / 1000.0).ceil();
                    params.insert("timeout".to_owned(), json!(seconds as u64));
                }
                Some(_) => return Err(wrong("timeout", "a number of milliseconds")),
            }
        }
        Ok(())
    }

    fn hook_response(&self, _view: &HookView<'_>, text: &str, _ok: bool) -> Value {
        json!({ "stdout": text, "stderr": "", "interrupted": false, "isImage": false })
    }
}
