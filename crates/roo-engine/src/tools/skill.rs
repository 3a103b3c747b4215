//! `skill`: the instructions of a skill, read when the model asks for them.

use futures_util::future::BoxFuture;

use crate::customization::{Skill, read_body};
use crate::policy::{
    Action, CheckedCall, Gate, NamedAllowRule, Permitted, Refusal, RefusalRule, Tool, ToolCallContext,
};
use crate::tool_run::{Outcome, ToolContext};
use roo_protocol::event::ToolStatus;

/// Loads the instructions of a skill.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) skill: Skill,
    /// Text that the skill is to be used on.
    pub(crate) arguments: Option<String>,
}

impl Tool for roo_catalog::Skill {
    /// A skill is what the user put there for models to read, so nobody is asked.
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let mode = call_context.mode;
        let skills = gate.policy_context().customization.skills();
        let Some(skill) = skills.find(&self.name, &mode.slug) else {
            let known: Vec<&str> =
                skills.for_mode(&mode.slug).iter().map(|skill| skill.name.as_str()).collect();
            let text = match known.as_slice() {
                [] => "There are no skills here. Do the work without one.".to_owned(),
                known => format!("There is no skill '{}'. The skills are {}.", self.name, known.join(", ")),
            };
            return Err(Refusal::mistake(RefusalRule::Skill, text));
        };
        Ok(CheckedCall::Free {
            rule: NamedAllowRule::Skill,
            reason: "it only loads instructions that were put there for models",
            action: Some(Box::new(Load { skill: skill.clone(), arguments: self.arguments })),
        })
    }
}

impl Action for Load {
    fn run<'a>(self: Box<Self>, _: Permitted, _: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(run(self.skill, self.arguments))
    }
}

/// Loads a skill.
async fn run(skill: Skill, arguments: Option<String>) -> Outcome {
    let work = move || {
        let summary = format!("Loaded the skill {}", skill.name);
        read_body(&skill).map(|body| (skill.result(arguments.as_deref(), &body), summary))
    };
    match roo_durable::spawn_blocking(work).await {
        Ok(Ok((text, summary))) => Outcome::new(ToolStatus::Ok, text, summary),
        Ok(Err(error)) => Outcome::failed(error.to_string()),
        Err(_) => Outcome::interrupted("Loading the skill was interrupted."),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::customization::{Scope, Skills};

    #[tokio::test]
    async fn a_skill_is_loaded_or_says_why_not() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".roo/skills/release");
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("SKILL.md");
        fs::write(&file, "---\nname: release\ndescription: Releases\n---\nTag it.\n").unwrap();
        let (skills, _) = Skills::load(&[(home.path().to_path_buf(), Scope::Global)]);
        let skill = skills.find("release", "code").unwrap();

        let outcome = run(skill.clone(), Some("v2".to_owned())).await;
        assert_eq!((outcome.status, outcome.summary.as_str()), (ToolStatus::Ok, "Loaded the skill release"));
        assert!(outcome.text.contains("Provided arguments: v2\n"), "{}", outcome.text);
        assert!(outcome.text.ends_with("--- Skill Instructions ---\n\nTag it."), "{}", outcome.text);

        fs::remove_file(file).unwrap();
        let outcome = run(skill.clone(), None).await;
        assert_eq!(outcome.status, ToolStatus::Failed);
        assert!(outcome.text.contains("'release' can't be loaded"), "{}", outcome.text);
    }
}
