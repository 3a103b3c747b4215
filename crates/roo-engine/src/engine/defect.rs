//! What a task is told when an effect of its own panics: that it failed, so that nobody waits for a report that never comes.
//! Which code is at fault stands on standard error, or in the daemon's log.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use super::actor_message::Report;
use super::reporter::Reporter;
use super::task::{CompactionOutcome, Effect, Gathered, Input, Remedy, Task};
use crate::policy::{GateOutcome, RefusalRule};
use crate::tool_run::Outcome;
use roo_model::prompts::replies;
use roo_protocol::ids::Digest;
use roo_protocol::task::Usage;

/// Runs an effect, and reports its panic.
pub(super) async fn reported(run: impl Future<Output = ()>, reporter: &Reporter) {
    if let Err(panic) = AssertUnwindSafe(run).catch_unwind().await {
        reporter.send(Report::Panicked(words_of(panic.as_ref()))).await;
    }
}

/// The words of a panic, as a sentence for the user.
pub(super) fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it gave no reason");
    format!("A defect of roo-lsp, which you can report: {words}.")
}

/// The input that a task gets in place of an effect's report.
pub(super) fn input_for(effect: &Effect, task: &Task, problem: String) -> Input {
    match effect {
        Effect::CallModel { .. } => {
            Input::ModelFailed { message: problem, remedy: Remedy::Ask, used: Usage::default(), frame: None }
        }
        Effect::Compact(_) => {
            Input::Compacted { outcome: CompactionOutcome::Failed(problem), used: Usage::default() }
        }
        // Whether a hook would have refused the message isn't known.
        Effect::Gather(_) => Input::Gathered(Gathered { stop: Some(problem), ..Gathered::default() }),
        Effect::MakeWorktree => Input::WorktreeMade(Err(problem)),
        Effect::CloseWorktree => Input::WorktreeClosed { kept: Some(problem) },
        Effect::Wait { .. } => Input::RetryDue,
        Effect::Gate { .. } => Input::Gated(GateOutcome::deny(RefusalRule::Defect, problem).decision),
        Effect::RunTool { .. } => {
            let told = format!("{problem} {}", replies::interrupted(task.current_effect()));
            Input::ToolDone(Outcome::interrupted(told))
        }
        // Neither the state before the write nor that after it.
        Effect::SettleWrite { write, .. } => {
            let unknown = write.places().iter().map(|_| Some(Digest::of(&problem))).collect();
            Input::WriteSettled(unknown, vec![])
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::engine::actor_message::ActorMessage;
    use roo_protocol::ids::TaskId;

    #[tokio::test]
    async fn a_panic_is_a_report_and_an_end_is_none() {
        let (sender, mut mailbox) = mpsc::channel(1);
        let reporter = Reporter::new(sender, TaskId::new("t"), 1);
        reported(async {}, &reporter).await;
        assert!(mailbox.is_empty());
        reported(async { panic!("{} is no digit", 'x') }, &reporter).await;
        let Some(ActorMessage::Report { report, .. }) = mailbox.recv().await else { panic!("no report") };
        let Report::Panicked(problem) = *report else { panic!("another report") };
        assert_eq!(problem, "A defect of roo-lsp, which you can report: x is no digit.");
    }
}
