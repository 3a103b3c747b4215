//! What a mode is told before a task begins: its system prompt and its tools, with all that the user
//! and the workspace bring. Reads the disk.

use crate::catalog::ToolName;
use crate::customization::{Customization, Skills};
use crate::exec::shell;
use crate::modes::{self, Mode, Modes};
use crate::parser::ToolProtocol;
use crate::prompts::{self, OverrideInput, RuleText, SkillEntry, SystemInput};
use crate::workspace::Workspace;

/// The system prompt of a mode, and the tools that it has here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// The prompt.
    pub system: String,
    /// The tools, in the order of the catalogue.
    pub tools: Vec<ToolName>,
}

impl Instructions {
    /// What a mode is told in this workspace.
    pub fn of(
        mode: &Mode,
        modes: &Modes,
        protocol: ToolProtocol,
        customization: &Customization,
        workspace: &Workspace,
    ) -> Self {
        let skills = customization.skills();
        let tools = available(mode, modes, &skills);
        let roots: Vec<String> = workspace.roots().paths().map(|path| path.display().to_string()).collect();
        let rules = customization.rules(&mode.slug);
        let rules: Vec<RuleText<'_>> =
            rules.iter().map(|rule| RuleText { heading: &rule.heading, text: &rule.text }).collect();
        if let Some(text) = customization.prompt_override(&mode.slug) {
            let system = prompts::override_prompt(
                &text,
                &OverrideInput {
                    workspace: roots.first().map(String::as_str).unwrap_or_default(),
                    mode: &mode.slug,
                    language: &language(),
                    shell: &shell().name(),
                    operating_system: std::env::consts::OS,
                    role: &mode.role,
                    custom_instructions: mode.custom_instructions.as_deref(),
                    rules: &rules,
                },
            );
            return Self { system, tools };
        }
        let skills = skills.of_mode(&mode.slug);
        let skills: Vec<SkillEntry<'_>> = skills
            .iter()
            .map(|skill| SkillEntry { name: &skill.name, description: &skill.description })
            .collect();
        let system = prompts::system(&SystemInput {
            mode,
            modes,
            entry: modes::ENTRY,
            tools: &tools,
            skills: &skills,
            protocol,
            roots: &roots,
            operating_system: std::env::consts::OS,
            shell: &shell().name(),
            rules: &rules,
        });
        Self { system, tools }
    }
}

/// A mode's tools without those for which there is nothing here: no skill, or nobody to delegate to.
fn available(mode: &Mode, modes: &Modes, skills: &Skills) -> Vec<ToolName> {
    let delegates = mode.can_delegate_to.iter().any(|slug| modes.find(slug).is_ok());
    let has_skills = !skills.of_mode(&mode.slug).is_empty();
    let mut tools = mode.tools();
    tools.retain(|tool| match tool {
        ToolName::NewTask => delegates,
        ToolName::Skill => has_skills,
        _ => true,
    });
    tools
}

/// The user's language by the environment, such as `de` or `pt-BR`.
fn language() -> String {
    let set = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(|name| std::env::var(name).ok());
    let name = set.unwrap_or_default();
    match name.split(['.', '@']).next().unwrap_or_default() {
        "" | "C" | "POSIX" => "en".to_owned(),
        name => name.replace('_', "-"),
    }
}
