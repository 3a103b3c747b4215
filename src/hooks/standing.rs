//! Standing rules: answers that the user has given for good. A refusal counts always; a permission only where
//! the settings alone would ask, never for what is asked whatever the settings say.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::command;
use super::gate::{Grounds, Judged, Refusal, Subject};
use crate::config::Settings;
use crate::protocol::rule::{RuleSubject, RuleVerdict, SandboxPaths};

/// Applies the rules that are about just this kind of call. Those about commands are judged with the
/// user's settings.
pub(super) fn apply(grounds: &Grounds, judged: &mut Judged) -> Result<(), Refusal> {
    let Some(subject @ (RuleSubject::Edits | RuleSubject::Reads | RuleSubject::Delegation)) =
        judged.standing.as_ref()
    else {
        return Ok(());
    };
    // What can't be read grants nothing; what was refused must not run either.
    let rules = grounds.rules.list().map_err(|error| Refusal::forbidden("rules", error))?;
    let of = |verdict| rules.iter().find(|rule| rule.verdict == verdict && rule.subject == *subject);
    if let Some(rule) = of(RuleVerdict::Deny) {
        let text = format!("The user has refused {} for good. Find another way or ask.", subject.text());
        return Err(Refusal::forbidden("rules", text)
            .detailed(serde_json::json!({ "code": "STANDING_RULE", "ruleId": rule.rule_id })));
    }
    if judged.allowed_by.is_none()
        && let Some(rule) = of(RuleVerdict::Allow)
    {
        judged.allowed_by = Some(format!("rule {}", rule.rule_id));
    }
    Ok(())
}

/// The command rules: those of the settings, and those that the user has made since.
pub(super) fn commands(grounds: &Grounds) -> Result<crate::config::Execute, Refusal> {
    let mut rules = grounds.settings.auto_approve.execute.clone();
    for rule in grounds.rules.list().map_err(|error| Refusal::forbidden("rules", error))? {
        match (rule.verdict, rule.subject) {
            (RuleVerdict::Allow, RuleSubject::Commands { commands }) => rules.allow.extend(commands),
            (RuleVerdict::Deny, RuleSubject::Commands { commands }) => rules.deny.extend(commands),
            (RuleVerdict::Allow, RuleSubject::Preset { preset, .. }) => rules.presets.push(preset),
            _ => {}
        }
    }
    Ok(rules)
}

/// What the user has said for good about what the sandbox withholds.
#[derive(Default)]
pub(super) struct SandboxGrants {
    pub(super) allowed: SandboxPaths,
    pub(super) denied: SandboxPaths,
    /// The network, for commands that ask for it; none where the user is to be asked.
    pub(super) network: Option<RuleVerdict>,
}

impl SandboxGrants {
    /// Reads them from the standing rules.
    pub(super) fn of(grounds: &Grounds) -> Result<Self, Refusal> {
        let mut grants = Self::default();
        for rule in grounds.rules.list().map_err(|error| Refusal::forbidden("rules", error))? {
            match (rule.subject, rule.verdict) {
                (RuleSubject::SandboxPaths(paths), RuleVerdict::Allow) => grants.allowed.extend(&paths),
                (RuleSubject::SandboxPaths(paths), RuleVerdict::Deny) => grants.denied.extend(&paths),
                // Who refused it once more has the last word.
                (RuleSubject::Network, RuleVerdict::Deny) => grants.network = Some(RuleVerdict::Deny),
                (RuleSubject::Network, allow) => grants.network = grants.network.or(Some(allow)),
                _ => {}
            }
        }
        grants.allowed.remove(&grants.denied);
        Ok(grants)
    }

    /// What was withheld from a call before, or from one that signs, and its user has neither granted nor refused.
    pub(super) fn offered(&self, subject: Subject<'_>, line: &str) -> Option<SandboxPaths> {
        let mut paths = subject.offers.withheld.cloned().unwrap_or_default();
        let key = subject.offers.signing_key.filter(|_| command::may_sign(line));
        paths.extend(&SandboxPaths {
            signing_keys: key.map(str::to_owned).into_iter().collect(),
            ..SandboxPaths::default()
        });
        paths.remove(&self.allowed);
        paths.remove(&self.denied);
        (!paths.is_empty()).then_some(paths)
    }
}

/// The grounds with these paths open to commands, as if the settings opened them.
pub(super) fn opened(grounds: &Grounds, paths: &SandboxPaths) -> Grounds {
    if paths.is_empty() {
        return grounds.clone();
    }
    // What was granted is what was there under that name, not what a link leads to by now.
    let real = |paths: &[String]| -> Vec<PathBuf> {
        let paths = paths.iter().map(PathBuf::from);
        paths.filter(|path| path.canonicalize().is_ok_and(|real| real.as_path() == Path::new(path))).collect()
    };
    let mut settings = Settings::clone(&grounds.settings);
    settings.sandbox.readable.extend(real(&paths.readable));
    settings.sandbox.writable.extend(real(&paths.writable));
    settings.sandbox.signing_keys.extend(paths.signing_keys.iter().cloned());
    Grounds { settings: Arc::new(settings), ..grounds.clone() }
}
