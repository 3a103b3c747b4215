//! `new_task`: opens a branch. The branch itself is the task machine's.

use std::path::Path;

use serde_json::json;

use crate::policy::{
    CallAssessment, CheckedCall, Gate, Plan, PlannedBranch, Refusal, RefusalRule, Tool, ToolCallContext,
    check_delegation, named_mode, rights_of_mode,
};
use roo_catalog::{Group, NewTask};
use roo_formats::modes::{self, Mode};
use roo_protocol::rule::RuleSubject;
use roo_text::render;
use roo_workspace::{Location, Purpose};

/// The longest title of a question, in characters.
const TITLE: usize = 80;

impl Tool for NewTask {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let (mode, call) = (call_context.mode, self);
        let (target, delegation) =
            check_delegation(&call, mode, call_context.modes, call_context.delegations, call_context.urid)?;
        let task_directory = modes::task_directory(call_context.urid);
        check_context_files(gate, &delegation.context_files, &task_directory)?;
        let settings = gate.settings();
        let (name, profile) = match call_context.profile {
            Some(name) => (name, settings.profiles.get(name)),
            None => settings.profile_of(&target.slug),
        };
        let profile = profile.ok_or_else(|| {
            let text = format!(
                "The mode '{}' can't work: there is no model profile '{name}'. Only the user can define it; ask \
                 for it, or end with what is missing.",
                target.slug
            );
            Refusal::forbidden(RefusalRule::Profile, text)
        })?;
        let title = format!("Delegate to {}: {}", named_mode(target), delegation.title);
        Ok(CheckedCall::from(CallAssessment {
            action: None,
            identity: json!({
                "tool": "new_task",
                "mode": rights_of_mode(target),
                "message": call.message,
                "todos": call.todos,
            }),
            title: render::one_line(&title, TITLE),
            subject: render::visible(&subject_of(&call)).into_owned(),
            must_ask: None,
            undecided: None,
            allowed_by: gate.delegation_rule(),
            standing: Some(RuleSubject::Delegation),
            alternative: None,
            plan: Plan::Branch(Box::new(PlannedBranch {
                mode: target.slug.clone(),
                emoji: target.emoji.clone(),
                profile: name.to_owned(),
                protocol: profile.tool_protocol(),
                delegation,
                task_directory: Some(task_directory).filter(|own| gate.workspace().has_place_for(own)),
                todos: call.todos,
                worktree: call_context.opens_parallel_branches && may_write(target) && gate.makes_worktrees(),
            })),
        }))
    }
}

/// Returns whether a mode can change files, by edits or by commands.
fn may_write(mode: &Mode) -> bool {
    [Group::Edit, Group::Command].iter().any(|group| mode.groups.contains(group))
}

/// Checks that the files exist which a brief tells others to read.
fn check_context_files(gate: &Gate, files: &[String], directory: &str) -> Result<(), Refusal> {
    let mut missing = Vec::new();
    for file in files {
        // A link to elsewhere is no context of this request, whatever is there.
        let there = gate.resolve(file, Purpose::Read).is_ok_and(|path| {
            matches!(path.location(), Location::Inside { root: 0 })
                && Path::new(path.relative()).starts_with(directory)
                && path.is_file()
        });
        if !there {
            missing.push(file.as_str());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!(
        "The message lists context files that can't be read: {}. Save them with write_to_file first, or take \
         them off the list.",
        missing.join(", ")
    );
    Err(Refusal::mistake(RefusalRule::Context, text))
}

/// Returns the text about a delegation for the user: all that the branch will be told.
fn subject_of(call: &NewTask) -> String {
    let mut subject = call.message.trim().to_owned();
    if !call.todos.is_empty() {
        subject.push_str("\n\nTo do:");
        for (entry, status) in &call.todos {
            subject.push_str(&format!("\n{} {entry}", status.mark()));
        }
    }
    subject
}
