//! What the gate checks of calls that delegate or change the mode.

use std::path::Path;

use serde_json::json;

use super::gate::{CallAssessment, Gate, Reason, Refusal, ToolCallContext};
use super::plan::{ModeChange, Plan, PlannedBranch};
use roo_catalog::{NewTask, SwitchMode};
use roo_formats::modes::delegation::{self, Expected};
use roo_formats::modes::{self, FileRestriction, Mode, Source};
use roo_model::prompts::replies;
use roo_protocol::rule::RuleSubject;
use roo_text::render::{self, exact_line};
use roo_workspace::{Location, Purpose};

/// The longest title of a question, in characters.
const TITLE: usize = 80;

impl Gate {
    pub(super) fn delegate(
        &self,
        call: NewTask,
        subject: ToolCallContext<'_>,
    ) -> Result<CallAssessment, Refusal> {
        let mode = subject.mode;
        if !mode.can_delegate_to.contains(&call.mode) {
            return Err(Refusal::mistake("delegation", not_allowed(mode, &call.mode)));
        }
        let target = subject.modes.find(&call.mode).map_err(|error| Refusal::mistake("mode", error))?;
        if mode.delegates_once && subject.delegations > 0 {
            return Err(Refusal::mistake("delegation", replies::delegated_before()));
        }
        let task_directory = modes::task_directory(subject.urid);
        let expected = Expected { target, urid: subject.urid, task_directory: &task_directory };
        let delegation = delegation::parse(&call.message, &expected)
            .map_err(|error| Refusal::mistake("message", error))?;
        self.check_context_files(&delegation.context_files, &task_directory)?;
        let settings = self.settings();
        let (name, profile) = match subject.profile {
            Some(name) => (name, settings.profiles.get(name)),
            None => settings.profile_of(&target.slug),
        };
        let profile = profile.ok_or_else(|| {
            let text = format!(
                "The mode '{}' can't work: there is no model profile '{name}'. Only the user can define it; ask \
                 for it, or end with what is missing.",
                target.slug
            );
            Refusal::forbidden("profile", text)
        })?;
        let title = format!("Delegate to {}: {}", named(target), delegation.title);
        Ok(CallAssessment {
            action: None,
            identity: json!({
                "tool": "new_task",
                "mode": rights(target),
                "message": call.message,
                "todos": call.todos,
            }),
            title: render::one_line(&title, TITLE),
            subject: render::visible(&subject_of(&call)).into_owned(),
            must_ask: None,
            undecided: None,
            allowed_by: self.delegation_rule(),
            standing: Some(RuleSubject::Delegation),
            alternative: None,
            plan: Plan::Branch(Box::new(PlannedBranch {
                mode: target.slug.clone(),
                emoji: target.emoji.clone(),
                profile: name.to_owned(),
                protocol: profile.tool_protocol(),
                delegation,
                task_directory: Some(task_directory).filter(|own| self.workspace().has_place_for(own)),
                todos: call.todos,
            })),
        })
    }

    /// What a brief tells others to read must be there.
    fn check_context_files(&self, files: &[String], directory: &str) -> Result<(), Refusal> {
        let mut missing = Vec::new();
        for file in files {
            // A link to elsewhere is no context of this request, whatever is there.
            let there = self.resolve(file, Purpose::Read).is_ok_and(|path| {
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
        Err(Refusal::mistake("context", text))
    }

    pub(super) fn switch_mode(
        &self,
        call: &SwitchMode,
        subject: ToolCallContext<'_>,
    ) -> Result<CallAssessment, Refusal> {
        let mode = subject.modes.find(&call.mode).map_err(|error| Refusal::mistake("mode", error))?;
        if mode.slug == subject.mode.slug {
            let text = format!("This is the mode '{}' already; go on with the work.", mode.slug);
            return Err(Refusal::mistake("mode", text));
        }
        let title = format!("Switch from {} to {}", subject.mode.name, named(mode));
        Ok(CallAssessment {
            action: None,
            identity: json!({ "tool": "switch_mode", "from": subject.mode.slug, "to": rights(mode) }),
            title: render::one_line(&title, TITLE),
            subject: render::visible(call.reason.as_deref().unwrap_or_default()).into_owned(),
            // Whoever delegated the task chose what it may do.
            must_ask: subject.is_branch.then(|| Reason {
                rule: "mode",
                text: "a subtask wants the rights of another mode".to_owned(),
            }),
            undecided: None,
            allowed_by: self.delegation_rule(),
            standing: Some(RuleSubject::Delegation),
            alternative: None,
            plan: Plan::Mode(ModeChange::into_mode(mode, self.settings())),
        })
    }

    fn delegation_rule(&self) -> Option<String> {
        self.settings().auto_approve.delegate.then(|| "autoApprove.delegate".to_owned())
    }
}

/// A mode as a question names it. A name alone can be that of another one.
fn named(mode: &Mode) -> String {
    match mode.source {
        Source::BuiltIn => format!("{} {}", mode.emoji, mode.name),
        source => format!("{} {} ({}, {})", mode.emoji, mode.name, mode.slug, source.as_str()),
    }
}

/// All that an approval allows with a mode: should its file change meanwhile, it is another one.
fn rights(mode: &Mode) -> serde_json::Value {
    json!({
        "slug": mode.slug,
        "source": mode.source.as_str(),
        "role": mode.role,
        "instructions": [&mode.instructions, mode.custom_instructions.as_deref().unwrap_or_default()],
        "tools": mode.tools().iter().map(|tool| tool.as_str()).collect::<Vec<_>>(),
        "files": mode.file_restriction.as_ref().map(FileRestriction::pattern),
        "delegates": mode.can_delegate_to,
    })
}

/// What a user is shown of a delegation: all that the branch will be told.
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

fn not_allowed(mode: &Mode, target: &str) -> String {
    format!(
        "The mode '{}' can't delegate to '{}'. It may delegate to {}.",
        mode.slug,
        exact_line(target),
        mode.can_delegate_to.join(", ")
    )
}
