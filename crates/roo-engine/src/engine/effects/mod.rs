//! Effects: what the state of a task calls for, such as a request to its model or the run of a tool. Each runs as a task
//! of its own, reports to its actor, and ends when its token is cancelled.
//!
//! An effect decides nothing of what a task does next: that is for the machine, which gets its report.

mod answer;
mod call_model;
mod change_saver;
mod gate;
mod run_tool;
mod settle_write;

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use self::call_model::Turn;
use self::gate::GateRequest;
use self::run_tool::ToolRun;
use self::settle_write::{found_after, save_settled};
use super::actor_message::Report;
use super::effect_context::EffectContext;
use super::hook_dispatch::HookDispatch;
use super::reporter::Reporter;
use super::task::{Effect, Input, Task};
use super::tree::Tree;
use super::{audit, compaction, defect, gather, worktrees};
use crate::mentions::MentionRoom;
use crate::policy::Permit;
use roo_model::providers::Rendered;

/// Starts an effect. It reports once at its end, also if that is a panic, unless it is cancelled before.
#[must_use = "whoever cancels an effect may want to wait for its end"]
pub(super) fn start(
    effect: Effect,
    task: &Task,
    tree: &Tree,
    permit: Option<Permit>,
    rendered: Rendered,
    around: EffectContext,
    reporter: Reporter,
) -> JoinHandle<()> {
    let at_fault = reporter.clone();
    let run: BoxFuture<'static, ()> = match effect {
        Effect::CallModel { .. } => {
            let turn = Turn::new(task, tree, rendered);
            let hook_dispatch = HookDispatch::new(task, &around);
            Box::pin(async move {
                let run = async {
                    let begun = turn.wait(&around.services, &reporter).await;
                    let _connection = around.services.descriptors.model().await;
                    turn.run(begun, &around, &reporter, &hook_dispatch).await;
                };
                unless_cancelled(&around.cancel, run).await.unwrap_or_default();
            })
        }
        Effect::Compact(of) => {
            let compaction = compaction::CompactionRun::new(of, task, &around);
            Box::pin(async move {
                let run = async {
                    let (outcome, used) = compaction.run(&around.services).await;
                    Input::Compacted { outcome, used }
                };
                report_unless_cancelled(&around.cancel, run, &reporter).await;
            })
        }
        Effect::Gather(gather) => {
            let hook_dispatch = HookDispatch::new(task, &around);
            let mode = task.settings.mode.clone();
            let profile = around.services.settings.profiles.get(&task.settings.profile);
            let limits = profile.map(compaction::limits).unwrap_or_default();
            let room = task.context.lookup_room(limits, task.conversation.size());
            let room =
                room.map_or_else(MentionRoom::default, |room| MentionRoom::within(room.each, room.all));
            Box::pin(async move {
                let run = async {
                    let _descriptors = around.services.descriptors.tool().await;
                    let services = &around.services;
                    Input::Gathered(gather::gather(&gather, (&mode, room), services, &hook_dispatch).await)
                };
                report_unless_cancelled(&around.cancel, run, &reporter).await;
            })
        }
        Effect::Wait { due } => Box::pin(async move {
            let left = u64::try_from(due - around.services.clock.now()).unwrap_or(0);
            let run = async {
                tokio::time::sleep(Duration::from_millis(left)).await;
                Input::RetryDue
            };
            report_unless_cancelled(&around.cancel, run, &reporter).await;
        }),
        Effect::MakeWorktree => {
            let wanted = worktrees::WantedWorktree::new(task, &around.services);
            Box::pin(async move {
                let made = wanted.make(&around.services, &around.cancel).await;
                match around.cancel.is_cancelled() {
                    true => wanted.discard(&around.services).await,
                    false => reporter.send(Report::Last(Input::WorktreeMade(made))).await,
                }
            })
        }
        Effect::CloseWorktree => {
            let closing = worktrees::ClosingWorktree::new(task, &around.services);
            Box::pin(async move {
                let Some(closing) = closing else { return };
                let run = async { Input::WorktreeClosed { kept: closing.close(&around.services).await } };
                report_unless_cancelled(&around.cancel, run, &reporter).await;
            })
        }
        Effect::Gate { mode, approved, review, .. } => {
            let request = GateRequest::new(task, tree, mode, (approved, review), &around);
            Box::pin(async move {
                let run = async {
                    let _descriptors = around.services.descriptors.tool().await;
                    request.run(&around.services, &reporter).await;
                };
                unless_cancelled(&around.cancel, run).await.unwrap_or_default();
            })
        }
        Effect::RunTool { call_id, .. } => {
            let run = ToolRun::new(call_id, task, tree, permit, &around, &reporter);
            Box::pin(run.run(around, reporter))
        }
        Effect::SettleWrite { write, .. } => {
            let audit_record = (audit::begin(task, tree, &around.services), audit::author_of(task));
            let task = task.id.clone();
            Box::pin(async move {
                let found = found_after(&around.services.workspace, &write).await;
                audit::settled(audit_record, &write, &found, &around.services).await;
                let saved = match around.services.keeps_checkpoints() {
                    true => save_settled(&task, &write, &found, &around.services).await,
                    false => vec![],
                };
                reporter.send(Report::Last(Input::WriteSettled(found, saved))).await;
            })
        }
    };
    tokio::spawn(async move { defect::reported(run, &at_fault).await })
}

/// Runs until it is done or cancelled; none if that comes first. Where both are at once, it is cancelled: so a replay has
/// the same.
async fn unless_cancelled<T>(cancel: &CancellationToken, run: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        done = run => Some(done),
    }
}

/// The same, and reports the end.
async fn report_unless_cancelled(
    cancel: &CancellationToken,
    run: impl Future<Output = Input>,
    reporter: &Reporter,
) {
    if let Some(input) = unless_cancelled(cancel, run).await {
        reporter.send(Report::Last(input)).await;
    }
}

/// Waits for a look at the disk. While the process ends there is no result: none may be taken for an answer, since the log
/// would have it after a restart.
async fn unless_ending<T>(read: JoinHandle<T>) -> Result<T, JoinError> {
    match read.await {
        Err(error) if error.is_cancelled() => std::future::pending().await,
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_look_that_the_end_of_the_process_cuts_off_has_no_result() {
        // As the runtime does with what has not begun when it ends.
        let read = tokio::spawn(std::future::pending::<()>());
        read.abort();
        tokio::task::yield_now().await;
        assert!(read.is_finished());
        // An approval that is being judged stays open: a refusal would be in the log, by nobody.
        assert!(unless_ending(read).now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_look_that_fails_or_succeeds_has_its_result() {
        assert_eq!(unless_ending(roo_durable::spawn_blocking(|| 1)).await.unwrap(), 1);
        let failed = roo_durable::spawn_blocking(|| std::panic::resume_unwind(Box::new("defect")));
        assert!(unless_ending::<()>(failed).await.unwrap_err().is_panic());
    }
}
