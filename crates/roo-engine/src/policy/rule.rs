//! The rules by which a call is refused.

use std::fmt;

/// Rules by which a call may not run. The names are part of the log, of the trace and of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalRule {
    /// There is no such tool.
    Tool,
    /// The mode or its model has no such tool, or may not change the file.
    Mode,
    /// The parameters can't be used.
    Parameters,
    /// A path leads nowhere.
    Path,
    /// A text doesn't fit its file.
    Content,
    /// A text would put a mask in the place of a secret.
    Masked,
    /// There is no such skill.
    Skill,
    /// The mode may not delegate so.
    Delegation,
    /// A brief lacks something.
    Message,
    /// A brief names context that is not there.
    Context,
    /// A model profile is not there.
    Profile,
    /// A limit of the request is reached.
    Limits,
    /// There was nothing to judge.
    Call,
    /// A file outside of the workspace.
    Outside,
    /// A file that models may not see.
    Rooignore,
    /// A name that only its user changes.
    Protected,
    /// No intent allows it.
    Intent,
    /// The intent doesn't own the file.
    Scope,
    /// The intent grants no network.
    Network,
    /// The settings of the sandbox's network can't be used.
    SandboxNetwork,
    /// The sandbox that is wanted is not there.
    Sandbox,
    /// The trace can't be kept.
    Trace,
    /// A standing rule.
    Rules,
    /// A command that the settings forbid.
    Denied,
    /// A command that destroys what no rule gives away.
    Destructive,
    /// The server that has the tool can't be asked.
    Server,
    /// A hook refused it.
    Hook,
    /// A hook ends the task.
    HookStop,
    /// A hook keeps the task from ending.
    HookContinue,
}

impl RefusalRule {
    /// Its name in the log, the trace and the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Mode => "mode",
            Self::Parameters => "parameters",
            Self::Path => "path",
            Self::Content => "content",
            Self::Masked => "masked",
            Self::Skill => "skill",
            Self::Delegation => "delegation",
            Self::Message => "message",
            Self::Context => "context",
            Self::Profile => "profile",
            Self::Limits => "limits",
            Self::Call => "call",
            Self::Outside => "outside",
            Self::Rooignore => "rooignore",
            Self::Protected => "protected",
            Self::Intent => "intent",
            Self::Scope => "scope",
            Self::Network => "network",
            Self::SandboxNetwork => "sandbox.network",
            Self::Sandbox => "sandbox",
            Self::Trace => "trace",
            Self::Rules => "rules",
            Self::Denied => "autoApprove.execute.deny",
            Self::Destructive => "destructive",
            Self::Server => "server",
            Self::Hook => "hook",
            Self::HookStop => "hook.stop",
            Self::HookContinue => "hook.continue",
        }
    }

    /// Returns whether a refusal by it is traced even where the model could have known better: it is about what the
    /// call would have done, and not about how it was made. What is no mistake of the model's is always traced.
    pub fn traces_mistakes(self) -> bool {
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
            | Self::Outside
            | Self::SandboxNetwork
            | Self::Denied
            | Self::Destructive
            | Self::Server
            | Self::Hook
            | Self::HookStop
            | Self::HookContinue => false,
        }
    }
}

impl fmt::Display for RefusalRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
