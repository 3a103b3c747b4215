//! `skill`: the instructions of a skill, read when the model asks for them.

use super::Outcome;
use crate::customization::{Skill, read_body};
use roo_protocol::event::ToolStatus;

/// Loads a skill.
pub async fn run(skill: Skill, arguments: Option<String>) -> Outcome {
    let work = move || {
        let summary = format!("Loaded the skill {}", skill.name);
        read_body(&skill).map(|body| (skill.result(arguments.as_deref(), &body), summary))
    };
    match tokio::task::spawn_blocking(work).await {
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
