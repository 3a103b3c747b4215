//! `roo-lsp tasks checkpoints` and `roo-lsp tasks restore`: going back to earlier states of a task's files and
//! conversation.

use std::fmt::Write as _;

use super::CliError;
use super::arguments::{Restore, RestoreWhatArgument};
use super::dialogue::Dialogue;
use super::terminal::TERMINAL_USER;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use roo_engine::engine::Engine;
use roo_protocol::checkpoint::{
    CheckpointListResult, CheckpointRestoreParams, CheckpointRestoreResult, FileChangeKind, RestoreConflicts,
    RestoreScope, RestoreWhat,
};
use roo_protocol::ids::TaskId;
use roo_protocol::task::TaskState;
use roo_text::render;

/// Author of restores.
const BY: &str = TERMINAL_USER;
/// The longest summary of a checkpoint, in characters.
const SUMMARY: usize = 100;

/// Lists checkpoints: a line each, and a line for each of its files.
pub(super) fn table(list: &CheckpointListResult) -> String {
    let mut text = String::new();
    if list.checkpoints.is_empty() {
        text.push_str("No checkpoints: no change of files is recorded for this task.\n");
    }
    for checkpoint in &list.checkpoints {
        let at = Timestamp::from_millisecond(checkpoint.at).unwrap_or(Timestamp::UNIX_EPOCH);
        let at = at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
        let summary = render::one_line(&checkpoint.summary, SUMMARY);
        // Writing to a string can't fail.
        let _ = writeln!(text, "{:>6}  {at}  {summary}", checkpoint.seq);
        for file in &checkpoint.files {
            let change = match file.change {
                FileChangeKind::Created => "creates",
                FileChangeKind::Changed => "changes",
                FileChangeKind::Deleted => "deletes",
            };
            let why = file.left_out.as_ref().map(|why| format!(" (can't be restored: {why})"));
            let path = render::exact_line(&file.path);
            let _ = writeln!(text, "        {change} {path}{}", why.unwrap_or_default());
        }
    }
    if let Some(notice) = &list.notice {
        let _ = writeln!(text, "{notice}");
    }
    text
}

/// Restores what was before an event, after a question. Returns what is to be printed.
pub(super) async fn restore(engine: &Engine, task: TaskId, given: Restore) -> Result<String, CliError> {
    let params = CheckpointRestoreParams {
        task_id: task,
        seq: given.seq,
        what: match given.what {
            RestoreWhatArgument::Files => RestoreWhat::Files,
            RestoreWhatArgument::Conversation => RestoreWhat::Conversation,
            RestoreWhatArgument::Both => RestoreWhat::Both,
        },
        scope: if given.task_alone { RestoreScope::Task } else { RestoreScope::Subtree },
        preview: true,
        conflicts: if given.mark_conflicts { RestoreConflicts::Mark } else { RestoreConflicts::Keep },
        digest: None,
    };
    let preview = engine.restore(params.clone(), BY).await?;
    let shown = in_words(&preview);
    let is_nothing = preview.files.is_empty() && preview.conversation.is_none();
    if given.preview || is_nothing {
        return Ok(shown);
    }
    if !given.yes {
        let dialogue = Dialogue::new();
        dialogue.tell(&shown)?;
        let answer = dialogue.ask("Restore this? [y/N]")?;
        if !["y", "yes"].contains(&answer.to_lowercase().as_str()) {
            return Ok("Nothing was restored.\n".to_owned());
        }
    }
    let mut params = CheckpointRestoreParams { digest: Some(preview.digest), ..params };
    let state = engine.get(&params.task_id.root()).await?.item.state;
    if params.what != RestoreWhat::Files && state == TaskState::Interrupted {
        // A conversation goes back only when nothing goes on from its end.
        engine.cancel_and_wait(&params.task_id.root()).await?;
        let now = engine.restore(params.clone(), BY).await?;
        if (&now.files, &now.conflicts, &now.left_out)
            == (&preview.files, &preview.conflicts, &preview.left_out)
        {
            params.digest = Some(now.digest);
        }
    }
    let restored = engine.restore(CheckpointRestoreParams { preview: false, ..params }, BY).await?;
    let mut text = kept(&restored);
    for branch in &restored.ended_branches {
        if let Some(worktree) = &branch.worktree {
            let (title, path) = (render::one_line(&branch.title, SUMMARY), render::exact_line(worktree));
            // Writing to a string can't fail.
            let _ = writeln!(
                text,
                "# the worktree of the branch \"{title}\" is kept, with changes that are not merged: {path}"
            );
        }
    }
    let files = count(restored.files.len(), "file", "files");
    let (what, done) = match given.what {
        RestoreWhatArgument::Files => ("files", files),
        RestoreWhatArgument::Conversation => ("conversation", "Conversation".to_owned()),
        RestoreWhatArgument::Both => ("both", format!("{files} and the conversation")),
    };
    // Writing to a string can't fail.
    let _ = writeln!(text, "{done} restored.");
    if let Some(seq) = restored.restored_as {
        let task = render::exact_line(&given.task);
        let _ = writeln!(text, "To undo this: roo-lsp tasks restore {task} {seq} --what {what}");
    }
    Ok(text)
}

fn count(count: usize, one: &str, several: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {several}") }
}

fn in_words(preview: &CheckpointRestoreResult) -> String {
    let mut text = String::new();
    for file in &preview.files {
        text.push_str(&render::visible(&file.diff));
    }
    text.push_str(&kept(preview));
    if let Some(conversation) = &preview.conversation {
        let dropped = count(
            usize::try_from(conversation.dropped).unwrap_or(usize::MAX),
            "message or result",
            "messages and results",
        );
        // Writing to a string can't fail.
        let _ = writeln!(text, "# the model no longer sees {dropped}");
    }
    for branch in &preview.ended_branches {
        let title = render::one_line(&branch.title, SUMMARY);
        let worktree = branch.worktree.as_deref().map(render::exact_line);
        let stays = worktree.map(|path| format!("; what it has not merged stays in {path}"));
        let _ = writeln!(text, "# the branch \"{title}\" ends{}", stays.unwrap_or_default());
    }
    if text.is_empty() {
        text.push_str("Nothing to restore.\n");
    }
    text
}

/// The files that don't go back to what they were, with the reasons.
fn kept(restored: &CheckpointRestoreResult) -> String {
    let mut text = String::new();
    for conflict in &restored.conflicts {
        let outcome = match conflict.marked {
            true => "both versions are written, between conflict markers",
            false => "it stays as it is",
        };
        let path = render::exact_line(&conflict.path);
        // Writing to a string can't fail.
        let _ = writeln!(text, "# {path}: {}; {outcome}", conflict.reason);
    }
    for file in &restored.left_out {
        let _ = writeln!(text, "# {} stays as it is: {}", render::exact_line(&file.path), file.reason);
    }
    text
}
