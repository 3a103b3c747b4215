//! The run of a tool with the gate's permit, from what is kept before it to its report, and the end of a command that
//! goes on in the background. What the tool itself does is in [`crate::tools`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::change_saver::{ChangeSaver, tell_language_servers};
use super::settle_write::keep_replaced;
use crate::approvals::StandingRules;
use crate::engine::actor_message::Report;
use crate::engine::audit;
use crate::engine::caller::Caller;
use crate::engine::changes::ChangesSoFar;
use crate::engine::edit_problems::ProblemsBefore;
use crate::engine::effect_context::EffectContext;
use crate::engine::hook_dispatch::HookDispatch;
use crate::engine::journal::LiveId;
use crate::engine::reporter::Reporter;
use crate::engine::services::EngineServices;
use crate::engine::task::Task;
use crate::engine::tree::Tree;
use crate::policy::{AuditRecord, HookMessages, Permit, PlannedEdit};
use crate::tool_run::{CommandLimits, Outcome, ToolContext, missing_directories};
use crate::tools;
use roo_catalog::{Effect as ToolEffect, ToolCall, ToolName};
use roo_documents::Extractor;
use roo_formats::modes;
use roo_protocol::ids::{CommandId, Digest, TaskId, ToolCallId};
use roo_protocol::rule::{RuleSubject, RuleVerdict, SandboxAccess};
use roo_sandbox::exec::EnvironmentRules;
use roo_trace::record::{FileChange, Side};
use roo_workspace::Purpose;

/// Run of a tool, with what it needs of the state at its begin.
pub(super) struct ToolRun {
    call_id: ToolCallId,
    task: TaskId,
    permit: Option<Permit>,
    context: ToolContext,
    executes: bool,
    edit: Option<PlannedEdit>,
    audit_record: Option<AuditRecord>,
    is_restarted: bool,
    call: Option<ToolCall>,
    /// The files that the task has seen, or is about to, by their digests.
    seen: BTreeMap<String, Digest>,
    hook_dispatch: HookDispatch,
    /// True if the model is told of problems that an edit brings.
    tells_problems: bool,
}

impl ToolRun {
    pub(super) fn new(
        call_id: ToolCallId,
        task: &Task,
        tree: &Tree,
        permit: Option<Permit>,
        around: &EffectContext,
        reporter: &Reporter,
    ) -> Self {
        Self {
            permit,
            context: tool_context(&call_id, task, tree, around, reporter),
            executes: task.current_effect() == ToolEffect::Execute,
            edit: task.edit_in_progress().cloned(),
            audit_record: audit::begin(task, tree, &around.services),
            is_restarted: task.is_restarted(),
            call: task.call_as_it_runs().map(Cow::into_owned),
            seen: task.files.seen_by_next_request(),
            hook_dispatch: HookDispatch::new(task, around),
            tells_problems: around.services.knows_problems()
                && around.services.tools_of(&task.settings.profile).has(ToolName::Diagnostics),
            task: task.id.clone(),
            call_id,
        }
    }

    /// Runs the tool and reports. Not raced against the token: a tool knows best how to end, and what it did counts.
    pub(super) async fn run(self, around: EffectContext, reporter: Reporter) {
        let Self {
            call_id,
            task,
            permit,
            mut context,
            executes,
            edit,
            audit_record,
            is_restarted,
            call,
            seen,
            hook_dispatch,
            tells_problems,
        } = self;
        let descriptors = tokio::select! {
            biased;
            descriptors = around.services.descriptors.tool() => descriptors,
            // It ends at once.
            () = around.cancel.cancelled() => None,
        };
        let mut messages = HookMessages::default();
        let mut background = None;
        if executes {
            context.variables = hook_dispatch.environment().await.variables;
        }
        let context = Arc::new(context);
        let outcome = match permit {
            Some(permit) if *permit.call_id() == call_id => {
                let for_hooks = permit.for_hooks();
                if let Some(edit) = edit.as_ref().filter(|_| around.services.keeps_checkpoints()) {
                    keep_replaced(&task, edit, &around.services).await;
                }
                let made = match &edit {
                    Some(edit) if around.services.keeps_checkpoints() => {
                        directories_to_make(edit, &around.services).await
                    }
                    _ => vec![],
                };
                let before = match &edit {
                    Some(edit) if tells_problems => {
                        let look = ProblemsBefore::of(edit, &around.services);
                        around.cancel.run_until_cancelled(look).await.unwrap_or_default()
                    }
                    _ => ProblemsBefore::default(),
                };
                let begun = Instant::now();
                let mut outcome = permit.run(&context).await;
                let took = begun.elapsed();
                tell_language_servers(&outcome.changes, &around.services);
                leave_out_unseen(&mut outcome, &seen);
                let is_saved = !outcome.changes.is_empty() && around.services.keeps_checkpoints();
                let saver = is_saved.then(|| {
                    made.into_iter().for_each(|(path, number)| outcome.details.add_directories(path, number));
                    ChangeSaver::new(&task, &mut outcome, &context, &around.services)
                });
                let mut before_hooks = None;
                if let Some(saver) = &saver {
                    saver.save(outcome.changes.clone(), &mut outcome).await;
                    if hook_dispatch.hears_of_results().await {
                        before_hooks = saver.before_hooks(&outcome).await.zip(audit_record.clone());
                    }
                }
                // What runs on is put down when it ends.
                background = outcome.background.clone().map(|(id, _)| (id, audit_record.clone()));
                audit::done(audit_record, call.as_ref(), &mut outcome, is_restarted, &around.services).await;
                // Nothing of the outcome is lost where this is cut off.
                let _ = around.cancel.run_until_cancelled(before.tell(&mut outcome, &around.services)).await;
                if let Some(call) = for_hooks.as_ref().or(call.as_ref()) {
                    messages = hook_dispatch.after(call, &mut outcome, took).await;
                }
                if let (Some(saver), Some((before, audit_record))) = (saver, before_hooks) {
                    saver.save_changes_of_hooks(before, audit_record, &mut outcome).await;
                }
                outcome
            }
            // The gate's permit and this effect come together. Should a defect part them,
            // nothing may run.
            _ => Outcome::failed("Not run: its permit was lost. Make the call again."),
        };
        // What runs on in the background may do so for days.
        drop(descriptors);
        let saves = !outcome.saved.is_empty();
        reporter.send(Report::Ran(messages, outcome)).await;
        if saves {
            // Beside the next model request: the log is synced behind it, and that is waited for.
            let (services, request) = (Arc::clone(&around.services), task.root());
            drop(roo_durable::spawn_blocking(move || services.checkpoints.settle(&request)));
        }
        if let Some((id, audit_record)) = background {
            follow_command(id, &task, &context, audit_record, &around, &reporter).await;
        }
    }
}

fn tool_context(
    call_id: &ToolCallId,
    task: &Task,
    tree: &Tree,
    around: &EffectContext,
    reporter: &Reporter,
) -> ToolContext {
    let (journal, task_id) = (Arc::clone(&around.journal), task.id.clone());
    let live = LiveId::Tool(call_id.clone());
    let recorder = Arc::clone(&around.services.recorder);
    ToolContext {
        workspace: Arc::clone(&around.services.workspace),
        output: Arc::new(move |text: &str| journal.extend(&task_id, &live, text)),
        cancel: around.cancel.clone(),
        variables: BTreeMap::new(),
        environment: EnvironmentRules::new(around.services.settings.sandbox.env.clone()),
        redact_secrets: around.services.settings.redact_secrets,
        orchestration: Arc::clone(&around.services.orchestration),
        recent: Arc::new(move |intent| recorder.recent(intent)),
        overflow_stem: call_id.to_string(),
        task_directory: modes::task_directory(&task.urid),
        review: task.is_reviewed(),
        declined: declined(task, &around.services.rules),
        command_limits: CommandLimits {
            timeout: task.limits.command_timeout_sec.map(Duration::from_secs),
            foreground: Some(task.limits.background_after_sec)
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
        },
        command_id: CommandId::of_call(call_id),
        background: Arc::clone(&around.background),
        browser: Arc::clone(&around.browser),
        foreground: around.foreground.clone(),
        commands: Arc::clone(&around.services.commands),
        shadow: around.services.shadow.clone().filter(|_| around.services.commands.starts_processes()),
        extractor: Extractor::own(),
        changes: Arc::new(ChangesSoFar {
            directory: around.journal.directory().clone(),
            request: task.id.root(),
            workspace: Arc::clone(&around.services.workspace),
        }),
        caller: Arc::new(Caller::new(task, tree, around, reporter)),
    }
}

/// Returns the access that the user has declined to grant to commands, in this task or permanently.
fn declined(task: &Task, rules: &StandingRules) -> SandboxAccess {
    let mut declined = task.offers.declined().clone();
    // Rules that can't be read let no command run.
    for rule in rules.in_effect().unwrap_or_default() {
        if let (RuleSubject::SandboxAccess(paths), RuleVerdict::Deny) = (&rule.subject, rule.verdict) {
            declined.extend(paths);
        }
    }
    declined
}

/// The numbers of the directories that an edit is about to make with new files, right above them.
async fn directories_to_make(edit: &PlannedEdit, services: &Arc<EngineServices>) -> Vec<(String, u32)> {
    let new = edit.places().into_iter().filter(|(_, before, _)| before.is_none());
    let new: Vec<String> = new.map(|(path, ..)| path.to_owned()).collect();
    if new.is_empty() {
        return vec![];
    }
    let workspace = Arc::clone(&services.workspace);
    let look = move || {
        let number = |path: String| {
            let place = workspace.resolve(&path, Purpose::Write).ok()?;
            Some((path, missing_directories(place.absolute())))
        };
        new.into_iter().filter_map(number).collect()
    };
    // Only a runtime that is ending runs nothing more.
    roo_durable::spawn_blocking(look).await.unwrap_or_default()
}

/// Leaves out of what the task has seen the files that it changed without having seen their text before: the rest of it may
/// be the user's, and whoever replaces all of it must have read it.
fn leave_out_unseen(outcome: &mut Outcome, seen: &BTreeMap<String, Digest>) {
    let Outcome { changes, seen: now, .. } = outcome;
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let seen_digest = |path: &String| seen.get(path);
    for FileChange { path, old_path, before, .. } in changes {
        // What the user made of an edit is a further change of the same file.
        if !known.insert(path) {
            continue;
        }
        let was_seen = match before {
            Side::Absent => true,
            Side::Text { text, digest } => {
                seen_digest(old_path.as_ref().unwrap_or(path)).is_some_and(|seen| {
                    // A byte order mark is part of what is seen on disk, and of no text.
                    seen == digest || *seen == Digest::of(format!("\u{feff}{text}"))
                })
            }
            Side::Opaque(digest) => seen_digest(old_path.as_ref().unwrap_or(path)) == Some(digest),
        };
        if !was_seen {
            now.retain(|(name, digest)| name != path || digest.is_none());
        }
    }
}

/// Waits for the end of a command in the background, puts down what it did, and reports it.
async fn follow_command(
    id: CommandId,
    task: &TaskId,
    context: &Arc<ToolContext>,
    audit_record: Option<AuditRecord>,
    around: &EffectContext,
    reporter: &Reporter,
) {
    let Some(command) = around.background.get(&id) else { return };
    let Some(job) = command.take_job() else { return };
    let mut outcome = tools::outcome_of(&command.line, job.await);
    tell_language_servers(&outcome.changes, &around.services);
    if !outcome.changes.is_empty() && around.services.keeps_checkpoints() {
        let (changes, context) = (outcome.changes.clone(), Arc::clone(context));
        let (services, task) = (Arc::clone(&around.services), task.clone());
        // What a command removed is text in UTF-8, or kept by its bytes.
        let (details, binaries) =
            (std::mem::take(&mut outcome.details), std::mem::take(&mut outcome.binaries));
        let save = move || services.checkpoints.save(&task, &changes, &details, &binaries, &context.mask());
        outcome.saved = roo_durable::spawn_blocking(save).await.unwrap_or_default();
    }
    audit::done(audit_record, None, &mut outcome, false, &around.services).await;
    reporter.send_end_of_command(id.clone(), outcome).await;
    // Only now: who waits for its end goes on when it is known.
    around.background.remove(&id);
}

#[cfg(test)]
mod tests {
    use roo_trace::record::Author;

    use super::*;

    #[test]
    fn what_was_changed_unread_is_not_seen() {
        let change = |path: &str, before: Side| FileChange {
            path: path.to_owned(),
            old_path: None,
            before,
            after: Side::text("after"),
            author: Author::Ai,
        };
        let (old, after) = (Digest::of("old"), Digest::of("after"));
        let paths = ["new", "read", "unread", "changed since"];
        let mut outcome = Outcome {
            changes: vec![
                change("new", Side::Absent),
                change("read", Side::text("old")),
                change("unread", Side::text("old")),
                change("changed since", Side::text("newer")),
            ],
            seen: paths.map(|path| (path.to_owned(), Some(after))).to_vec(),
            ..Outcome::failed("")
        };
        let seen = BTreeMap::from([("read".to_owned(), old), ("changed since".to_owned(), old)]);
        leave_out_unseen(&mut outcome, &seen);
        assert_eq!(outcome.seen, [("new".to_owned(), Some(after)), ("read".to_owned(), Some(after))]);
    }
}
