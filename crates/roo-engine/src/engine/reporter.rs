//! The channel by which effects report to the actor that started them.

use tokio::sync::mpsc;

use super::actor_message::{ActorMessage, Report};
use crate::tool_run::Outcome;
use roo_protocol::ids::{CommandId, TaskId};

/// Channel for an effect's reports.
#[derive(Clone)]
pub(super) struct Reporter {
    sender: mpsc::Sender<ActorMessage>,
    task: TaskId,
    generation: u64,
}

impl Reporter {
    pub(super) fn new(sender: mpsc::Sender<ActorMessage>, task: TaskId, generation: u64) -> Self {
        Self { sender, task, generation }
    }

    pub(super) async fn send(&self, report: Report) {
        // An actor that has ended needs no report.
        let (task, generation) = (self.task.clone(), self.generation);
        let _ = self.sender.send(ActorMessage::Report { task, generation, report: Box::new(report) }).await;
    }

    pub(super) async fn send_end_of_command(&self, id: CommandId, outcome: Outcome) {
        let _ = self.sender.send(ActorMessage::CommandEnded(id, Box::new(outcome))).await;
    }
}
