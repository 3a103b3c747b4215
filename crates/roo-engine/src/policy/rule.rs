//! The rules by which calls may run, ask or are refused. Each has one spelling, which is part of the log, of the trace and
//! of the protocol. A log of another version may have rules that are not here: see [`super::recorded_verdict`].

use std::fmt;
use std::str::FromStr;

/// No rule of this kind has that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown rule")]
pub struct UnknownRule;

/// Declares rules that are known by their name alone, each with its spelling.
macro_rules! named_rules {
    ($(#[$enum_doc:meta])* $name:ident { $($(#[$doc:meta])+ $variant:ident = $spelling:literal,)+ }) => {
        $(#[$enum_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])+ $variant,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name in the log, the trace and the protocol.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $spelling,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownRule;

            fn from_str(spelling: &str) -> Result<Self, UnknownRule> {
                match spelling {
                    $($spelling => Ok(Self::$variant),)+
                    _ => Err(UnknownRule),
                }
            }
        }
    };
}

/// Rule by which a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowRule {
    /// One that is known by its name alone.
    Named(NamedAllowRule),
    /// The settings allow the commands of the line.
    Commands(CommandRules),
    /// A standing rule of the user, by its id.
    Standing(String),
}

named_rules! {
    /// Rule by which a call may run, known by its name alone.
    NamedAllowRule {
        /// The user allowed exactly this.
        Approval = "approval",
        /// One of the user's hooks allows it.
        Hook = "hook",
        /// It only steers the conversation.
        Conversation = "conversation",
        /// It is about a command that the request has started itself.
        Background = "background",
        /// It is a step in the task's browser, at a host that the user has allowed it.
        Browser = "browser",
        /// It returns instructions that the server brings.
        Instructions = "instructions",
        /// It loads a skill.
        Skill = "skill",
        /// The server answers it itself instead of running a command.
        Native = "native",
        /// The intent may be bound as it is.
        Intents = "intents",
        /// It writes the request's own task directory.
        OwnTaskDirectory = "own task directory",
        /// It changes the work tree of a branch, and the merge is judged.
        Worktree = "delegation.worktrees",
        /// The setting for looks at files.
        Read = "autoApprove.read",
        /// The setting for edits.
        Write = "autoApprove.write",
        /// The setting for delegation and for switches of modes.
        Delegate = "autoApprove.delegate",
        /// The setting for tools of servers.
        Mcp = "autoApprove.mcp",
        /// The setting for pages in the browser.
        BrowserSetting = "autoApprove.browser",
        /// The server's entry in `mcp.json`.
        McpFile = "alwaysAllow of mcp.json",
        /// The setting for commands that stay in the sandbox.
        ExecuteMode = "autoApprove.execute.mode",
    }
}

/// Settings that allow the commands of a line, as text: rules first, then presets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRules(String);

named_rules! {
    /// Rule by which the user is asked about a call.
    AskRule {
        /// Nothing allows it without asking.
        Policy = "policy",
        /// The rules for commands don't allow the line.
        Command = "command",
        /// The settings want every command to be asked about.
        ExecuteMode = "autoApprove.execute.mode",
        /// A command wants the network.
        Network = "network",
        /// The sandbox is not there, or withheld something before.
        Sandbox = "sandbox",
        /// An intent wants it, or would allow more than the user accepted.
        Intent = "intent",
        /// A name that only its user changes.
        Protected = "protected",
        /// A file that may hold secrets.
        Secret = "secret",
        /// A file outside of the workspace.
        Outside = "outside",
        /// A name that could fool a reader or another system.
        Path = "path",
        /// A text that other programs would fetch something by.
        Remote = "remote",
        /// A text that looks escaped.
        Escaped = "escaped",
        /// A subtask wants the rights of another mode.
        Mode = "mode",
        /// A tool of a server, whose effects are not known.
        Server = "server",
        /// A hook wants it asked.
        Hook = "hook",
    }
}

named_rules! {
    /// Rule by which a call may not run.
    RefusalRule {
        /// There is no such tool.
        Tool = "tool",
        /// The mode or its model has no such tool, or may not change the file.
        Mode = "mode",
        /// The parameters can't be used.
        Parameters = "parameters",
        /// A path leads nowhere.
        Path = "path",
        /// A text doesn't fit its file.
        Content = "content",
        /// A text would put a mask in the place of a secret.
        Masked = "masked",
        /// There is no such skill.
        Skill = "skill",
        /// The mode may not delegate so.
        Delegation = "delegation",
        /// A brief lacks something.
        Message = "message",
        /// A brief names context that is not there.
        Context = "context",
        /// A model profile is not there.
        Profile = "profile",
        /// A limit of the request is reached.
        Limits = "limits",
        /// There was nothing to judge.
        Call = "call",
        /// The gate itself failed.
        Defect = "defect",
        /// A file outside of the workspace.
        Outside = "outside",
        /// A file that models may not see.
        Rooignore = "rooignore",
        /// A name that only its user changes.
        Protected = "protected",
        /// No intent allows it.
        Intent = "intent",
        /// The intent doesn't own the file.
        Scope = "scope",
        /// The intent grants no network.
        Network = "network",
        /// The settings of the sandbox's network can't be used.
        SandboxNetwork = "sandbox.network",
        /// The sandbox that is wanted is not there.
        Sandbox = "sandbox",
        /// The trace can't be kept.
        Trace = "trace",
        /// A standing rule.
        Rules = "rules",
        /// A command that the settings forbid.
        Denied = "autoApprove.execute.deny",
        /// A command that destroys what no rule gives away.
        Destructive = "destructive",
        /// The server that has the tool can't be asked.
        Server = "server",
        /// Settings that may refuse it are not in force.
        Settings = "settings",
        /// A hook refused it.
        Hook = "hook",
        /// A hook ends the task.
        HookStop = "hook.stop",
        /// A hook keeps the task from ending.
        HookContinue = "hook.continue",
    }
}

impl RefusalRule {
    /// Returns whether a refusal by it is traced even where the model could have known better: it is about what the
    /// call would have done, and not about how it was made. What is no mistake of the model's is always traced.
    pub(crate) fn traces_mistakes(self) -> bool {
        match self {
            Self::Rooignore
            | Self::Protected
            | Self::Intent
            | Self::Scope
            | Self::Network
            | Self::Sandbox
            | Self::Trace
            | Self::Rules => true,
            Self::Tool
            | Self::Mode
            | Self::Parameters
            | Self::Path
            | Self::Content
            | Self::Masked
            | Self::Skill
            | Self::Delegation
            | Self::Message
            | Self::Context
            | Self::Profile
            | Self::Limits
            | Self::Call
            | Self::Defect
            | Self::Outside
            | Self::SandboxNetwork
            | Self::Denied
            | Self::Destructive
            | Self::Server
            | Self::Settings
            | Self::Hook
            | Self::HookStop
            | Self::HookContinue => false,
        }
    }
}

const ALLOW: &str = "autoApprove.execute.allow ";
const PRESETS: &str = "autoApprove.execute.presets ";
const STANDING: &str = "rule ";

impl CommandRules {
    /// The words of the user's own rules, and names of presets.
    pub(super) fn new(rules: &[String], presets: &[&str]) -> Self {
        let parts = [(ALLOW, rules.join(", ")), (PRESETS, presets.join(", "))];
        let parts = parts.iter().filter(|(_, named)| !named.is_empty());
        let parts: Vec<String> = parts.map(|(key, named)| format!("{key}{named}")).collect();
        Self(parts.join(", "))
    }
}

impl From<NamedAllowRule> for AllowRule {
    fn from(rule: NamedAllowRule) -> Self {
        Self::Named(rule)
    }
}

impl fmt::Display for AllowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(rule) => rule.fmt(f),
            Self::Commands(CommandRules(text)) => f.write_str(text),
            Self::Standing(id) => write!(f, "{STANDING}{id}"),
        }
    }
}

impl FromStr for AllowRule {
    type Err = UnknownRule;

    fn from_str(spelling: &str) -> Result<Self, UnknownRule> {
        if let Some(id) = spelling.strip_prefix(STANDING) {
            Ok(Self::Standing(id.to_owned()))
        } else if spelling.is_empty() || spelling.starts_with(ALLOW) || spelling.starts_with(PRESETS) {
            Ok(Self::Commands(CommandRules(spelling.to_owned())))
        } else {
            spelling.parse().map(Self::Named)
        }
    }
}
