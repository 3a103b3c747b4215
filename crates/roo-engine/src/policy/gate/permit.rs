//! Exact actions, and the one-use key to run one.

use std::any::Any;
use std::fmt::Debug;

use futures_util::future::BoxFuture;

use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::ToolCall;
use roo_protocol::ids::ToolCallId;

/// Action that a tool call would take, with every path resolved. Each kind is in the file of its tool.
pub trait Action: Any + Debug + Send + Sync {
    /// Does it. Only a permit has what this takes.
    fn run<'a>(self: Box<Self>, permitted: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome>;

    /// Returns the text that is shown to whoever is asked; none where its assessment says it. Made only when somebody
    /// is asked, as the diff of a large file takes a while.
    fn shown(&self) -> Option<String> {
        None
    }

    /// Returns the call as which user hooks see it, where that is another one than the model's.
    fn for_hooks(&self) -> Option<ToolCall> {
        None
    }
}

/// Proof that a permit was given up for what runs now.
#[derive(Debug)]
pub struct Permitted(());

/// The gate's one-use key to run one exact action: it can be neither cloned nor stored, and what makes one is visible
/// to the gate alone.
#[derive(Debug)]
pub struct Permit {
    call_id: ToolCallId,
    action: Box<dyn Action>,
}

impl Permit {
    pub(super) fn new(call_id: ToolCallId, action: Box<dyn Action>) -> Self {
        Self { call_id, action }
    }

    /// The call that may run.
    pub fn call_id(&self) -> &ToolCallId {
        &self.call_id
    }

    /// Returns the call as which user hooks see it, where that is another one than the model's.
    pub fn for_hooks(&self) -> Option<ToolCall> {
        self.action.for_hooks()
    }

    /// Gives up the permit, and does what it allows.
    pub async fn run(self, context: &ToolContext) -> Outcome {
        self.action.run(Permitted(()), context).await
    }

    /// The action, where it is of this kind.
    #[cfg(test)]
    pub(crate) fn into_action<T: Action>(self) -> Option<T> {
        let action: Box<dyn Any> = self.action;
        action.downcast().ok().map(|action| *action)
    }
}
