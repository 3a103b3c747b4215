//! Verdicts of the gate as a request's log has them. What decides on a call is [`super::PolicyDecision`]; this only
//! remembers how it was decided.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::rule::{AllowRule, AskRule, RefusalRule};
use roo_protocol::event::Verdict;

/// Verdict of the gate with the rule that decided, written as the two fields `verdict` and `rule`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", content = "rule", rename_all = "camelCase")]
pub enum RecordedVerdict {
    /// It may run.
    Allow(RecordedRule<AllowRule>),
    /// The user decides.
    Ask(RecordedRule<AskRule>),
    /// It may not run.
    Deny(RecordedRule<RefusalRule>),
}

/// Rule as a log has it. Another version of the program may have rules that this one doesn't know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedRule<R> {
    /// A rule of this version.
    Known(R),
    /// The spelling of any other.
    Unknown(String),
}

impl RecordedVerdict {
    /// The verdict alone.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Allow(_) => Verdict::Allow,
            Self::Ask(_) => Verdict::Ask,
            Self::Deny(_) => Verdict::Deny,
        }
    }

    /// The spelling of the rule.
    pub fn rule(&self) -> String {
        match self {
            Self::Allow(rule) => rule.to_string(),
            Self::Ask(rule) => rule.to_string(),
            Self::Deny(rule) => rule.to_string(),
        }
    }
}

impl From<AllowRule> for RecordedVerdict {
    fn from(rule: AllowRule) -> Self {
        Self::Allow(RecordedRule::Known(rule))
    }
}

impl From<AskRule> for RecordedVerdict {
    fn from(rule: AskRule) -> Self {
        Self::Ask(RecordedRule::Known(rule))
    }
}

impl From<RefusalRule> for RecordedVerdict {
    fn from(rule: RefusalRule) -> Self {
        Self::Deny(RecordedRule::Known(rule))
    }
}

impl<R: fmt::Display> fmt::Display for RecordedRule<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(rule) => rule.fmt(f),
            Self::Unknown(spelling) => f.write_str(spelling),
        }
    }
}

impl<R: fmt::Display> Serialize for RecordedRule<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, R: FromStr> Deserialize<'de> for RecordedRule<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spelling = String::deserialize(deserializer)?;
        Ok(spelling.parse().map_or_else(|_| Self::Unknown(spelling), Self::Known))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::policy::rule::{CommandRules, NamedAllowRule};

    /// All spellings that any version has written, by verdict. A rule may be added; none may be taken away or spelled
    /// another way.
    const ALLOW: &[&str] = &[
        "",
        "alwaysAllow of mcp.json",
        "approval",
        "autoApprove.browser",
        "autoApprove.delegate",
        "autoApprove.execute.allow cargo test, ls, autoApprove.execute.presets git-read, node",
        "autoApprove.execute.allow ls",
        "autoApprove.execute.mode",
        "autoApprove.execute.presets git-read",
        "autoApprove.mcp",
        "autoApprove.read",
        "autoApprove.write",
        "background",
        "browser",
        "conversation",
        "delegation.worktrees",
        "hook",
        "instructions",
        "intents",
        "native",
        "own task directory",
        "rule r1",
        "rule u12",
        "skill",
    ];
    const ASK: &[&str] = &[
        "autoApprove.execute.mode",
        "command",
        "escaped",
        "hook",
        "intent",
        "mode",
        "network",
        "outside",
        "path",
        "policy",
        "protected",
        "remote",
        "sandbox",
        "secret",
        "server",
    ];
    const DENY: &[&str] = &[
        "autoApprove.execute.deny",
        "call",
        "content",
        "context",
        "defect",
        "delegation",
        "destructive",
        "hook",
        "hook.continue",
        "hook.stop",
        "intent",
        "limits",
        "masked",
        "message",
        "mode",
        "network",
        "outside",
        "parameters",
        "path",
        "profile",
        "protected",
        "rooignore",
        "rules",
        "sandbox",
        "sandbox.network",
        "scope",
        "server",
        "settings",
        "skill",
        "tool",
        "trace",
    ];

    fn read(verdict: &str, rule: &str) -> RecordedVerdict {
        serde_json::from_value(serde_json::json!({ "verdict": verdict, "rule": rule })).unwrap()
    }

    fn is_known(recorded: &RecordedVerdict) -> bool {
        match recorded {
            RecordedVerdict::Allow(rule) => matches!(rule, RecordedRule::Known(_)),
            RecordedVerdict::Ask(rule) => matches!(rule, RecordedRule::Known(_)),
            RecordedVerdict::Deny(rule) => matches!(rule, RecordedRule::Known(_)),
        }
    }

    #[test]
    fn every_spelling_of_any_version_is_read_and_written_as_it_was() {
        for (verdict, spellings) in [("allow", ALLOW), ("ask", ASK), ("deny", DENY)] {
            for spelling in spellings {
                let recorded = read(verdict, spelling);
                assert!(is_known(&recorded), "{verdict} {spelling}");
                let written = serde_json::to_string(&recorded).unwrap();
                assert_eq!(written, format!(r#"{{"verdict":"{verdict}","rule":"{spelling}"}}"#));
            }
        }
    }

    #[test]
    fn every_rule_has_a_spelling_of_its_own_in_the_lists() {
        let allow: BTreeSet<&str> = NamedAllowRule::ALL.iter().map(|rule| rule.as_str()).collect();
        let with_data = |spelling: &&&str| {
            !matches!(spelling.parse(), Ok(AllowRule::Commands(_) | AllowRule::Standing(_)))
        };
        assert_eq!(allow, ALLOW.iter().filter(with_data).copied().collect());
        let ask: BTreeSet<&str> = AskRule::ALL.iter().map(|rule| rule.as_str()).collect();
        assert_eq!(ask, ASK.iter().copied().collect());
        let deny: BTreeSet<&str> = RefusalRule::ALL.iter().map(|rule| rule.as_str()).collect();
        assert_eq!(deny, DENY.iter().copied().collect());
        assert_eq!(allow.len() + ask.len() + deny.len(), {
            NamedAllowRule::ALL.len() + AskRule::ALL.len() + RefusalRule::ALL.len()
        });
    }

    #[test]
    fn a_rule_of_another_version_keeps_its_spelling() {
        let recorded = read("deny", "curfew");
        assert_eq!(recorded, RecordedVerdict::Deny(RecordedRule::Unknown("curfew".to_owned())));
        assert_eq!(serde_json::to_string(&recorded).unwrap(), r#"{"verdict":"deny","rule":"curfew"}"#);
    }

    proptest! {
        #[test]
        fn any_spelling_is_written_as_it_was_read(rule in r#"(rule |autoApprove\.execute\.(allow|presets) )?\PC*"#) {
            for verdict in ["allow", "ask", "deny"] {
                prop_assert_eq!(read(verdict, &rule).rule(), rule.clone());
            }
        }

        #[test]
        fn rules_for_commands_are_read_as_they_were_made(
            rules in proptest::collection::vec("[a-z, .]{1,12}", 0..3),
            presets in proptest::collection::vec("[a-z-]{1,8}", 0..3),
        ) {
            let presets: Vec<&str> = presets.iter().map(String::as_str).collect();
            let made = RecordedVerdict::from(AllowRule::Commands(CommandRules::new(&rules, &presets)));
            prop_assert_eq!(read("allow", &made.rule()), made);
        }
    }
}
