//! Standing rules: answers that the user has given for good. A refusal counts always; a permission only where
//! the settings alone would ask, never for what is asked whatever the settings say.

use super::gate::{Grounds, Judged, Refusal};
use crate::protocol::rule::{RuleSubject, RuleVerdict};

/// Applies the rules that are about just this kind of call. Those about commands are judged with the
/// user's settings.
pub(super) fn apply(grounds: &Grounds, judged: &mut Judged) -> Result<(), Refusal> {
    let is_of_commands =
        |it: &&RuleSubject| matches!(it, RuleSubject::Commands { .. } | RuleSubject::Preset { .. });
    let Some(subject) = judged.standing.as_ref().filter(|it| !is_of_commands(it)) else {
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
