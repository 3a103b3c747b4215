//! The tools, resources and prompts of servers that the user has connected: which there are now, calling a tool, reading a
//! resource, and getting a prompt. Which servers those are and how they are reached is not known here.

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use serde::{Deserialize, Serialize};

use roo_catalog::{Object, ServerResources, ServerTool, ServerToolName};

use crate::server_prompts::ServerPrompts;

/// What a server gets of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SampledText {
    /// The model's answer.
    Answer(String),
    /// The reason why there is none.
    Failure(String),
}

/// Source of servers' tools, resources and prompts.
pub trait ServerTools: Debug + Send + Sync {
    /// The tools that there are now, in an order that doesn't change by itself: they are a part of every request. Those of a
    /// server that is starting may be the ones that it had when it was last connected.
    fn list(&self) -> Vec<Arc<ServerTool>>;

    /// The tools for which a request has no room. Models find them by a search, and call them as the others.
    fn further(&self) -> Vec<Arc<ServerTool>> {
        vec![]
    }

    /// Looks up the tool that a call names, listed or not, by the name for models or as `server/tool`. Blocks no thread of the
    /// runtime.
    fn tool<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<Arc<ServerTool>>> {
        let found = self.list().into_iter().chain(self.further()).find(|tool| tool.is_named(name));
        Box::pin(std::future::ready(found))
    }

    /// Takes note of what has changed in the configuration of servers since tools were listed last. Blocks no thread of the
    /// runtime.
    fn refreshed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// The resources of the servers that have any, in an order that doesn't change by itself: by the configuration as it was
    /// looked at last, when tools were listed or by [`ServerTools::refreshed`].
    fn resources(&self) -> Vec<ServerResources> {
        vec![]
    }

    /// The prompts of the servers that are switched on, for users to write in messages. Blocks no thread of the runtime.
    fn prompts(&self) -> BoxFuture<'_, Vec<ServerPrompts>> {
        Box::pin(std::future::ready(vec![]))
    }

    /// Waits, a bounded time, until a server can be called that is being started, or that is started by this. What is listed of
    /// it then is what it says itself.
    ///
    /// # Errors
    /// It can't be called.
    fn connected<'a>(&'a self, _server: &'a str) -> BoxFuture<'a, Result<(), ServerToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the names of the servers that are being started.
    fn starting(&self) -> Vec<String> {
        vec![]
    }

    /// Reports whether the user lets calls of a tool run without asking.
    fn always_allows(&self, _tool: &ServerToolName) -> bool {
        false
    }

    /// How a tool was described when a call of it was last permitted here. Where that was otherwise, the user is asked,
    /// whatever allows the call.
    fn known_description<'a>(&'a self, _tool: &'a ServerTool) -> BoxFuture<'a, KnownDescription> {
        Box::pin(std::future::ready(KnownDescription::Same))
    }

    /// Keeps how a tool is described whose call was permitted.
    fn keep_description<'a>(&'a self, _tool: &'a ServerTool) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Ends all servers that were started. When this returns, no program of theirs is left.
    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Calls a tool. It is called at most once for each permit, and ends soon when it is cancelled. Meanwhile the server may
    /// ask the user.
    fn call<'a>(
        &'a self,
        tool: &'a ServerToolName,
        arguments: Object,
        cancel: &'a CancellationToken,
        task: &'a dyn CallingTask,
    ) -> BoxFuture<'a, Result<ServerAnswer, ServerToolError>>;

    /// Reads a resource. It is asked for at most once for each permit, and ends soon when it is cancelled.
    fn read_resource<'a>(
        &'a self,
        server: &'a str,
        _uri: &'a str,
        _cancel: &'a CancellationToken,
        _task: &'a dyn CallingTask,
    ) -> BoxFuture<'a, Result<ServerAnswer, ServerToolError>> {
        let reason = "it is not connected".to_owned();
        Box::pin(async move { Err(ServerToolError::Unreachable { server: server.to_owned(), reason }) })
    }

    /// Gets the text of a prompt that the user asked for. The answer is not marked as the server's.
    fn get_prompt<'a>(
        &'a self,
        server: &'a str,
        _prompt: &'a str,
        _arguments: Object,
    ) -> BoxFuture<'a, Result<ServerAnswer, ServerToolError>> {
        let reason = "it is not connected".to_owned();
        Box::pin(async move { Err(ServerToolError::Unreachable { server: server.to_owned(), reason }) })
    }

    /// Gets a resource that the user pointed at. The answer is not marked as the server's.
    fn get_resource<'a>(
        &'a self,
        server: &'a str,
        _uri: &'a str,
    ) -> BoxFuture<'a, Result<ServerAnswer, ServerToolError>> {
        let reason = "it is not connected".to_owned();
        Box::pin(async move { Err(ServerToolError::Unreachable { server: server.to_owned(), reason }) })
    }
}

/// Description of a tool when a call of it was last permitted, beside the one that it has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownDescription {
    /// No call was permitted yet.
    None,
    Same,
    /// It was another one.
    Other {
        /// The earlier one, as [`ServerTool::described`] has it; none where it is not kept.
        before: Option<String>,
    },
}

/// Question of a server to the user, while it answers a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerQuestion {
    /// The question. It names the server.
    pub text: String,
    /// Suggested answers.
    pub suggestions: Vec<String>,
    /// True if the answer may be a secret: it is not kept.
    pub secret: bool,
}

/// The task that a server is called for: its user, and its model.
pub trait CallingTask: Send + Sync {
    /// Returns the user's answer; none if it is withdrawn before, or the task ends. One question waits at a time.
    fn ask<'a>(
        &'a self,
        question: ServerQuestion,
        withdrawn: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Option<String>>;

    /// Has the task's model asked, if its user allows it. What was used is recorded when this returns, so whoever waits for
    /// it withdraws it rather than dropping it.
    fn sample<'a>(
        &'a self,
        _request: SamplingRequest,
        _withdrawn: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<SamplingAnswer, SamplingError>> {
        Box::pin(std::future::ready(Err(SamplingError::Declined)))
    }
}

/// Request of a server to the model of the task that calls it (*sampling*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingRequest {
    pub server: String,
    /// The system prompt that it wants.
    pub system: Option<String>,
    /// The conversation that it wants continued.
    pub messages: Vec<SamplingMessage>,
    /// The most tokens of the answer.
    pub max_tokens: u64,
}

/// Message of a [`SamplingRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingMessage {
    /// True if the server presents it as a model's words.
    pub by_model: bool,
    pub text: String,
}

/// Answer of a model for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingAnswer {
    pub text: String,
    /// Provider and model.
    pub model: String,
    /// True if it reached the limit of tokens.
    pub is_cut: bool,
}

/// Reasons why a server gets no answer of a model. The text is for the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SamplingError {
    /// The user refused, or nobody could be asked.
    #[error("the user declined")]
    Declined,
    /// Nothing is left of what servers may use in a task, or of what the request may cost.
    #[error("{0}; the model was not asked")]
    Spent(String),
    /// The model gave none.
    #[error("the model gave no answer: {0}")]
    Failed(String),
    /// It is not waited for any more.
    #[error("the request was withdrawn")]
    Withdrawn,
}

/// The suggested answer by which the user refuses to tell a server anything.
pub const DECLINE: &str = "Decline";

/// No task: nobody answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTask;

impl CallingTask for NoTask {
    fn ask<'a>(&'a self, _: ServerQuestion, _: BoxFuture<'a, ()>) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerAnswer {
    /// For the model.
    pub text: String,
    /// Images as data URLs.
    pub images: Vec<String>,
    /// True if the tool says that it failed.
    pub failed: bool,
}

/// Reasons why a server gave no answer. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerToolError {
    /// There is no such tool any more.
    #[error("There is no tool {0} any more: its server is gone, or offers it no longer.")]
    Gone(ServerToolName),
    /// The server was not reached, so nothing happened.
    #[error("The server '{server}' was not reached: {reason}. Nothing was done.")]
    Unreachable {
        server: String,
        /// Reason, without a full stop.
        reason: String,
    },
    /// The server was asked and gave no answer.
    #[error("The server '{server}' gave no answer: {reason}. What it did is not known.")]
    Unanswered {
        server: String,
        /// Reason, without a full stop.
        reason: String,
    },
    /// The call was cancelled.
    #[error("The call was cancelled. What the server '{0}' did is not known.")]
    Cancelled(String),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NoServerTools;

impl ServerTools for NoServerTools {
    fn list(&self) -> Vec<Arc<ServerTool>> {
        vec![]
    }

    fn call<'a>(
        &'a self,
        tool: &'a ServerToolName,
        _: Object,
        _: &'a CancellationToken,
        _: &'a dyn CallingTask,
    ) -> BoxFuture<'a, Result<ServerAnswer, ServerToolError>> {
        Box::pin(async { Err(ServerToolError::Gone(tool.clone())) })
    }
}
