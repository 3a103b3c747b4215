//! `run_slash_command`: the text of a slash command, read when the model asks for it. Where no command has the name, a skill
//! of the mode that has it is loaded.

use futures_util::future::BoxFuture;

use super::skill;
use crate::customization::SlashCommand;
use crate::policy::{
    Action, CheckedCall, Gate, NamedAllowRule, Permitted, Refusal, RefusalRule, Tool, ToolCallContext,
};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::RunSlashCommand;
use roo_protocol::event::ToolStatus;
use roo_text::render::one_line;

/// The longest list of commands, in characters.
const NAMES: usize = 1000;

/// Loads the text of a command.
#[derive(Debug)]
struct LoadCommand {
    command: SlashCommand,
    arguments: Option<String>,
}

impl Tool for RunSlashCommand {
    /// A command is what the user put there to be given to models, so nobody is asked. What its text wants done is asked
    /// about as ever.
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let customization = &gate.policy_context().customization;
        let commands = customization.commands();
        let Some(command) = commands.iter().find(|command| command.name == self.command) else {
            if let Some(skill) = customization.skills().find(&self.command, &call_context.mode.slug) {
                return Ok(loading(skill::Load { skill: skill.clone(), arguments: self.arguments }));
            }
            let names: Vec<String> = commands.iter().map(|command| format!("/{}", command.name)).collect();
            let text = format!(
                "There is no command '/{}'. The commands are {}.",
                one_line(&self.command, NAMES),
                one_line(&names.join(", "), NAMES)
            );
            return Err(Refusal::mistake(RefusalRule::Skill, text));
        };
        Ok(loading(LoadCommand { command: command.clone(), arguments: self.arguments }))
    }
}

fn loading(action: impl Action + 'static) -> CheckedCall {
    CheckedCall::Free {
        rule: NamedAllowRule::Skill,
        reason: "it only loads instructions that were put there for models",
        action: Some(Box::new(action)),
    }
}

impl Action for LoadCommand {
    fn run<'a>(self: Box<Self>, _: Permitted, _: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { run(&self.command, self.arguments.as_deref()) })
    }
}

/// Returns a command with what Roo tells of one.
fn run(command: &SlashCommand, arguments: Option<&str>) -> Outcome {
    let SlashCommand { name, description, argument_hint, mode, source, .. } = command;
    let mut text = format!("Command: /{name}\n");
    let facts = [("Description", description), ("Argument hint", argument_hint), ("Mode", mode)];
    for (heading, value) in facts {
        if let Some(value) = value {
            text.push_str(&format!("{heading}: {value}\n"));
        }
    }
    if let Some(arguments) = arguments {
        text.push_str(&format!("Provided arguments: {}\n", one_line(arguments, NAMES)));
    }
    let body = command.text(arguments.unwrap_or_default());
    text.push_str(&format!("Source: {}\n\n--- Command Content ---\n\n{body}", source.as_str()));
    Outcome::new(ToolStatus::Ok, text, format!("Loaded the command /{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_formats::modes::Source;

    #[test]
    fn a_command_comes_with_its_arguments_in_place() {
        let command = SlashCommand {
            name: "deploy".to_owned(),
            description: Some("Deploys".to_owned()),
            argument_hint: Some("<host>".to_owned()),
            mode: Some("code".to_owned()),
            body: "Deploy to $1.".to_owned(),
            source: Source::Project,
            path: None,
        };
        let outcome = run(&command, Some("staging"));
        assert_eq!(outcome.summary, "Loaded the command /deploy");
        insta::assert_snapshot!(outcome.text, @r"
        Command: /deploy
        Description: Deploys
        Argument hint: <host>
        Mode: code
        Provided arguments: staging
        Source: project

        --- Command Content ---

        Deploy to staging.
        ");
    }

    #[test]
    fn a_command_of_roo_code_comes_as_it_is_written() {
        let command = SlashCommand {
            name: "tidy".to_owned(),
            description: None,
            argument_hint: None,
            mode: None,
            body: "Run `git branch | awk '{print $1}'`. It costs $5.".to_owned(),
            source: Source::Project,
            path: None,
        };
        let text = run(&command, None).text;
        assert!(text.ends_with("\n\nRun `git branch | awk '{print $1}'`. It costs $5."), "{text}");
    }
}
