//! Standing rules: permanent answers of the user. A refusal counts always; a permission only where
//! the settings alone would ask, never for what is asked whatever the settings say.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::command;
use super::context::{PolicyContext, ToolCallContext};
use super::decision::{CallAssessment, Refusal};
use super::rule::{AllowRule, RefusalRule};
use roo_formats::config::{Settings, VariablePattern};
use roo_protocol::rule::{RuleSubject, RuleVerdict, SandboxAccess};

/// Applies the rules that are about just this kind of call. Those about commands are judged with the
/// user's settings.
pub(super) fn apply(policy_context: &PolicyContext, judged: &mut CallAssessment) -> Result<(), Refusal> {
    let Some(
        subject @ (RuleSubject::Edits
        | RuleSubject::Reads
        | RuleSubject::Delegation
        | RuleSubject::BrowserPages { .. }),
    ) = judged.standing.as_ref()
    else {
        return Ok(());
    };
    // What can't be read grants nothing; what was refused must not run either.
    let rules =
        policy_context.rules.in_effect().map_err(|error| Refusal::forbidden(RefusalRule::Rules, error))?;
    let of = |verdict| rules.iter().find(|rule| rule.verdict == verdict && rule.subject == *subject);
    if let Some(rule) = of(RuleVerdict::Deny) {
        let text = format!("The user has permanently refused {}. Find another way or ask.", subject.text());
        return Err(Refusal::forbidden(RefusalRule::Rules, text)
            .detailed(serde_json::json!({ "code": "STANDING_RULE", "ruleId": rule.rule_id })));
    }
    if judged.allowed_by.is_none()
        && let Some(rule) = of(RuleVerdict::Allow)
    {
        judged.allowed_by = Some(AllowRule::Standing(rule.rule_id.clone()));
    }
    Ok(())
}

/// The command rules: those of the settings, and those that the user has made since.
pub(super) fn commands(policy_context: &PolicyContext) -> Result<roo_formats::config::Execute, Refusal> {
    let mut rules = policy_context.settings.auto_approve.execute.clone();
    for rule in
        policy_context.rules.in_effect().map_err(|error| Refusal::forbidden(RefusalRule::Rules, error))?
    {
        match (rule.verdict, rule.subject) {
            (RuleVerdict::Allow, RuleSubject::Commands { commands }) => rules.allow.extend(commands),
            (RuleVerdict::Deny, RuleSubject::Commands { commands }) => rules.deny.extend(commands),
            (RuleVerdict::Allow, RuleSubject::Preset { preset, .. }) => rules.presets.push(preset),
            _ => {}
        }
    }
    Ok(rules)
}

/// The user's standing answers about what the sandbox withholds.
#[derive(Default)]
pub(super) struct SandboxGrants {
    pub(super) allowed: SandboxAccess,
    /// Additional access of certain commands, by the words with which they begin.
    by_command: Vec<(Vec<Vec<String>>, SandboxAccess)>,
    pub(super) denied: SandboxAccess,
    /// The network, for commands that ask for it; none where the user is to be asked.
    pub(super) network: Option<RuleVerdict>,
}

impl SandboxGrants {
    /// Reads them from the standing rules.
    pub(super) fn from_rules(policy_context: &PolicyContext) -> Result<Self, Refusal> {
        let mut grants = Self::default();
        for rule in
            policy_context.rules.in_effect().map_err(|error| Refusal::forbidden(RefusalRule::Rules, error))?
        {
            match (rule.subject, rule.verdict) {
                (RuleSubject::SandboxAccess(access), RuleVerdict::Allow) => grants.allowed.extend(&access),
                (RuleSubject::SandboxAccess(access), RuleVerdict::Deny) => grants.denied.extend(&access),
                (RuleSubject::CommandAccess { commands, access }, RuleVerdict::Allow) => {
                    grants.by_command.push((commands, *access));
                }
                // Whoever refused it once more has the last word.
                (RuleSubject::Network, RuleVerdict::Deny) => grants.network = Some(RuleVerdict::Deny),
                (RuleSubject::Network, allow) => grants.network = grants.network.or(Some(allow)),
                _ => {}
            }
        }
        grants.allowed.remove(&grants.denied);
        Ok(grants)
    }

    /// Adds what is granted to commands of which a line consists. `is_of` tells whether it consists of such.
    pub(super) fn for_line(mut self, is_of: impl Fn(&[Vec<String>]) -> bool) -> Self {
        for (commands, access) in std::mem::take(&mut self.by_command) {
            if is_of(&commands) {
                self.allowed.extend(&access);
            }
        }
        self.allowed.remove(&self.denied);
        self
    }

    /// Returns the access that was withheld from a call before, or from one that signs, or that it names, and its user has
    /// neither granted nor refused.
    pub(super) fn offered(
        &self,
        call_context: ToolCallContext<'_>,
        line: &str,
        named: &SandboxAccess,
    ) -> Option<SandboxAccess> {
        let mut access = call_context.offers.withheld.cloned().unwrap_or_default();
        let key = call_context.offers.signing_key.filter(|_| command::may_sign(line));
        access.extend(&SandboxAccess {
            signing_keys: key.map(str::to_owned).into_iter().collect(),
            ..SandboxAccess::default()
        });
        access.extend(named);
        access.remove(&self.allowed);
        access.remove(&self.denied);
        if let Some(declined) = call_context.offers.declined {
            access.remove(declined);
        }
        (!access.is_empty()).then_some(access)
    }
}

/// The policy_context with these paths and variables open to commands, as if the settings opened them.
pub(super) fn opened(policy_context: &PolicyContext, access: &SandboxAccess) -> PolicyContext {
    if access.is_empty() {
        return policy_context.clone();
    }
    // What was granted is what was there under that name, not what a link leads to by now.
    let real = |paths: &[String]| -> Vec<PathBuf> {
        let paths = paths.iter().map(PathBuf::from);
        paths.filter(|path| path.canonicalize().is_ok_and(|real| real.as_path() == Path::new(path))).collect()
    };
    let mut settings = Settings::clone(&policy_context.settings);
    settings.sandbox.readable.extend(real(&access.readable));
    settings.sandbox.writable.extend(real(&access.writable));
    settings.sandbox.sockets.extend(real(&access.sockets));
    settings.sandbox.signing_keys.extend(access.signing_keys.iter().cloned());
    // What the user leaves out by a pattern stays out.
    let named = access.variables.iter().filter_map(|name| name.parse().ok());
    settings
        .sandbox
        .env
        .extend(named.filter(|pattern: &VariablePattern| pattern.is_exact() && !pattern.excludes()));
    PolicyContext { settings: Arc::new(settings), ..policy_context.clone() }
}
