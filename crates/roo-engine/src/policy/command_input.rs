//! `send_command_input`: whether what is typed to a running program may be typed without asking.
//!
//! What a program makes of a text is its own matter: `rm -rf .` deletes where a shell reads it. So no rule for commands
//! allows input, those that forbid count as for a command line, and the rest asks. Nobody is asked only where commands run
//! unasked because the sandbox holds them, and the program was started in just the sandbox that a command of this task
//! would get.

use serde_json::json;

use super::command_place::CommandPlace;
use super::confined_commands::{self, ConfinedPolicy};
use super::context::ToolCallContext;
use super::decision::{AskReason, CallAssessment, Refusal, TITLE};
use super::execute::Consent;
use super::gate::{Action, Gate};
use super::place_check::Access;
use super::plan::Plan;
use super::rule::AskRule;
use super::standing;
use crate::tool_run::RunningCommand;
use roo_catalog::{CommandKey, SendCommandInput};
use roo_text::render;
use roo_workspace::Purpose;

impl Gate {
    /// Assesses what is typed to a running command: what it could do there, and what policy says of that.
    pub(crate) async fn command_input(
        &self,
        call_context: ToolCallContext<'_>,
        input: &SendCommandInput,
        running: &RunningCommand,
        action: Box<dyn Action>,
    ) -> Result<CallAssessment, Refusal> {
        let text = input.input.as_str();
        let directory = self.resolve(".", Purpose::Directory)?;
        let must_ask = self.examine(call_context, &directory, Access::Run)?;
        let sandbox = self.command_sandbox().await?;
        let grant = self.command_grant(call_context, false)?;
        let must_ask = must_ask
            .or_else(|| sandbox.asks())
            .or_else(|| confined_commands::asks_always(self.policy_context(), grant.as_ref()));
        let rules = standing::commands(self.policy_context())?;
        let search = std::env::var_os("PATH").unwrap_or_default();
        let finder = self.policy_context().bounds.finder(self.workspace()).await;
        let here = CommandPlace::new(self.policy_context(), call_context, &directory, search, finder)
            .concealed(sandbox.holds_within_grants)
            .with(std::sync::Arc::clone(self.repositories()));
        // For what it forbids; what it allows is meant for another shell.
        self.apply_command_rules(&rules, text, &here, &mut Consent::default())?;

        let mut reason =
            "what is typed to a running program can be a command, and rules for commands don't allow input"
                .to_owned();
        let mut allowed_by = None;
        // With any other key, the text may be a part of what only later input completes.
        let is_whole = input.key == CommandKey::Enter;
        // Another task of the request may have started it, with other rights.
        let is_held = sandbox.holds_within_grants && running.held == Some(self.bounds_of(grant.as_ref()));
        if must_ask.is_none() && is_held && is_whole {
            match (
                confined_commands::confined(self.policy_context(), call_context)?,
                self.input_leaves(call_context, &directory, text),
            ) {
                (_, Some(leaves)) => reason = leaves,
                (ConfinedPolicy::Run(rule), None) => allowed_by = Some(rule),
                (ConfinedPolicy::Ask | ConfinedPolicy::Offer(_), None) => {}
            }
        }
        let key = input.key.as_str();
        let shown =
            format!("{text}\n(then the key: {key}; at the terminal of {}: {})", running.id, running.line);
        Ok(CallAssessment {
            identity: json!({
                "tool": "send_command_input",
                "command": running.id,
                "line": running.line,
                "input": text,
                "key": key,
                "sandbox": sandbox.level,
            }),
            title: format!("Type at {}: {}", running.id, render::one_line(text, TITLE)),
            subject: render::visible(&shown).into_owned(),
            must_ask,
            undecided: Some(AskReason { rule: AskRule::Command, text: reason }),
            allowed_by,
            standing: None,
            alternative: None,
            plan: Plan::Nothing,
            action: Some(action),
        })
    }
}
