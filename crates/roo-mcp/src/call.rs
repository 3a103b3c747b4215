//! Requests to a server, and their errors.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::elicitation::Elicitation;
use crate::fault::ServerFault;
use crate::sampling::Sampling;

/// Something that is asked of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A call of this tool.
    Tool(String),
    /// Reading the resource at this address.
    Resource(String),
    /// Getting this prompt.
    Prompt(String),
    /// Completing this argument.
    Completion(String),
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(name) => write!(f, "the tool `{name}`"),
            Self::Resource(uri) => write!(f, "the resource `{uri}`"),
            Self::Prompt(name) => write!(f, "the prompt `{name}`"),
            Self::Completion(argument) => write!(f, "the completion of `{argument}`"),
        }
    }
}

/// Owner of an argument that a user is writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionOf {
    /// The prompt of this name.
    Prompt(String),
    /// The pattern of resources with this address.
    Template(String),
}

/// Argument that a user is writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionRequest {
    /// What it is an argument of.
    pub of: CompletionOf,
    /// Its name.
    pub argument: String,
    /// Its value, as far as it is written.
    pub value: String,
    /// Values of other arguments that are written already.
    pub known: BTreeMap<String, String>,
}

/// Values that a server proposes for an argument. Untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The values, in the server's order, without those that are too long or that a line can't hold.
    pub values: Vec<String>,
    /// True if there are more for what is written so far.
    pub has_more: bool,
}

/// Options of a request.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// Gives it up when cancelled, and tells the server.
    pub cancel: CancellationToken,
    /// Receives what the server asks the user meanwhile. Where there is none, or it is full, the user is said to decline; so
    /// they are after 20 questions, and while other calls wait at the server, since a question does not name its call.
    pub questions: Option<mpsc::Sender<Elicitation>>,
    /// Receives what the server asks a model meanwhile, under the same conditions and counted with the questions. Servers
    /// that are not let are refused before.
    pub samplings: Option<mpsc::Sender<Sampling>>,
}

/// Reasons why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no such server.
    #[error("there is no MCP server `{server}`{}", known(.servers))]
    UnknownServer {
        /// The name.
        server: String,
        /// The servers that there are.
        servers: Vec<String>,
    },
    /// The server is not connected. Nothing was sent.
    #[error("MCP server `{server}` is not connected ({status}); nothing was sent")]
    NotConnected {
        server: String,
        /// Its state, with the reason.
        status: String,
    },
    /// The server has no such tool. Nothing was sent.
    #[error("MCP server `{server}` has no tool `{tool}`{}", known(.tools))]
    UnknownTool {
        server: String,
        /// The name.
        tool: String,
        /// The tools that there are.
        tools: Vec<String>,
    },
    /// The tool is switched off. Nothing was sent.
    #[error("the tool `{tool}` of MCP server `{server}` is switched off (`disabledTools` in mcp.json)")]
    DisabledTool { server: String, tool: String },
    /// The server refused.
    #[error("MCP server `{server}` refused {operation}: {message} (code {code})")]
    Refused {
        server: String,
        /// Request.
        operation: Operation,
        /// Its reason, in its own words.
        message: String,
        /// The code of JSON-RPC, or the status of HTTP.
        code: i32,
    },
    /// There was no answer in time. The server was told to give it up, and may have done it all the same.
    #[error(
        "MCP server `{server}` has not answered {operation} within its `timeout` of {} s{}; its effects are unknown. Set a longer `timeout` in mcp.json if it needs more time",
        .after.as_secs(),
        if *.unexpected_answers { ", and it answered something that was not asked" } else { "" }
    )]
    Timeout {
        server: String,
        /// Request.
        operation: Operation,
        /// Time limit that passed.
        after: Duration,
        /// True if it answered under another id meanwhile.
        unexpected_answers: bool,
    },
    /// The caller gave it up. The server was told, and may have done it all the same.
    #[error("{operation} of MCP server `{server}` was cancelled; its effects are unknown")]
    Cancelled {
        server: String,
        /// Request.
        operation: Operation,
    },
    /// The server wants another login, or another header. It did nothing.
    #[error("MCP server `{server}` did not do {operation}: {}{fault}", if matches!(.fault, ServerFault::NeedsLogin { .. }) { "it needs a login: " } else { "" })]
    Forbidden {
        server: String,
        /// Request.
        operation: Operation,
        /// What it wants.
        fault: ServerFault,
    },
    /// The server didn't know the session any more. It did nothing.
    #[error(
        "MCP server `{server}` did not do {operation}, as its session had expired. It is being connected again; repeat the request"
    )]
    SessionExpired {
        server: String,
        /// Request.
        operation: Operation,
    },
    /// The connection ended in between. It is not asked again.
    #[error(
        "{operation} of MCP server `{server}` was interrupted: {fault}. Its effects are unknown, and it was not repeated"
    )]
    Interrupted {
        server: String,
        /// Request.
        operation: Operation,
        /// Failure.
        fault: ServerFault,
    },
    /// The server sent something that was too large while the answer was waited for.
    #[error(
        "MCP server `{server}` answered {operation} with a message of more than {limit} MiB, which is not read; ask for less at once"
    )]
    Oversized {
        server: String,
        /// Request.
        operation: Operation,
        /// The limit, in MiB.
        limit: usize,
    },
    /// The server wants something before it goes on, and does not get it.
    #[error(
        "MCP server `{server}` wants more for {operation}, and does not get it: {reason}. Its effects are unknown"
    )]
    Unfulfilled {
        server: String,
        /// Request.
        operation: Operation,
        reason: String,
    },
    /// The answer is of another kind than asked for, or of one that is not supported.
    #[error("MCP server `{server}` answered {operation} with {what}")]
    Unsupported {
        server: String,
        /// Request.
        operation: Operation,
        /// Its answer.
        what: String,
    },
}

fn known(names: &[String]) -> String {
    const SHOWN: usize = 20;
    if names.is_empty() {
        return "; there are none".to_owned();
    }
    let list: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let rest = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    format!("; there are {}{rest}", list.join(", "))
}
