//! What a Claude model takes, told from its name: how it is asked to think, how long its answers may be, and whether it
//! refuses a conversation that has changed.
//!
//! Source: <https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking> and `/preserved-thinking`.

use roo_formats::config::{ModelVersion, Reasoning};
use serde_json::{Value, json};

/// Family of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// Thinks before every answer from version 5 on.
    Fable,
    Other,
}

/// A Claude model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claude {
    family: Family,
    version: ModelVersion,
}

impl Claude {
    /// Version of a name without one, such as `claude-opus-latest`.
    const UNNAMED: ModelVersion = ModelVersion::new(5, 5);

    /// The model of a name, whatever an endpoint puts around it. None for other models.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        if !name.contains("claude-") {
            return None;
        }
        let is_fable = ["fable", "mythos"].iter().any(|family| name.contains(family));
        let family = if is_fable { Family::Fable } else { Family::Other };
        Some(Self { family, version: ModelVersion::parse_claude(&name).unwrap_or(Self::UNNAMED) })
    }

    /// Returns whether it is told how hard to try, and decides by itself how much to think: it takes neither a budget nor a
    /// temperature.
    pub(super) fn thinks_by_effort(self) -> bool {
        self.version >= ModelVersion::new(4, 7)
    }

    /// Returns whether its thinking counts only as long as all that came before it is as it was: the system prompt, the
    /// tools and the messages.
    pub(super) fn checks_prefix(self) -> bool {
        self.version >= ModelVersion::new(5, 1)
    }

    /// Tokens of an answer for which it is asked where a profile says nothing. Every model of the version allows them; for
    /// older ones the API refuses requests that leave less in the window.
    pub(super) fn answer_tokens(self) -> Option<u64> {
        match self.version {
            version if version >= ModelVersion::new(4, 7) => Some(64_000),
            version if version >= ModelVersion::new(4, 5) => Some(32_000),
            _ => None,
        }
    }

    /// The field `thinking` of a request to a model that thinks by effort, and the effort; none for its own default.
    pub(super) fn thinking(self, reasoning: Option<Reasoning>) -> (Option<Value>, Option<&'static str>) {
        let always_thinks = self.family == Family::Fable || self.checks_prefix();
        let by_default = self.version >= ModelVersion::new(5, 0);
        match reasoning {
            Some(Reasoning::None) if !by_default => return (None, None),
            Some(Reasoning::None) if !always_thinks => return (Some(json!({ "type": "disabled" })), None),
            None if !by_default => return (None, None),
            _ => {}
        }
        // Without `display`, nothing of it can be shown.
        let mut thinking = json!({ "type": "adaptive", "display": "summarized" });
        if self.checks_prefix() {
            // A mode has its own system prompt, and a long conversation is shortened. Otherwise the request is refused then.
            thinking["block_binding"] = json!({ "prefix_mismatch_behavior": "drop_block" });
        }
        (Some(thinking), reasoning.map(effort))
    }
}

fn effort(reasoning: Reasoning) -> &'static str {
    match reasoning {
        Reasoning::None | Reasoning::Minimal | Reasoning::Low => "low",
        Reasoning::Medium => "medium",
        Reasoning::High => "high",
        Reasoning::Xhigh => "xhigh",
        Reasoning::Max => "max",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_is_asked_to_think_in_the_form_that_it_takes() {
        let asked = |name: &str, reasoning| {
            let model = Claude::from_name(name).unwrap();
            assert!(model.thinks_by_effort(), "{name}");
            let (thinking, effort) = model.thinking(reasoning);
            let kind = thinking.as_ref().map(|thinking| thinking["type"].as_str().unwrap().to_owned());
            let is_bound = thinking.is_some_and(|thinking| !thinking["block_binding"].is_null());
            (kind, effort, is_bound)
        };
        let adaptive = || Some("adaptive".to_owned());
        // They think where they are asked to.
        assert_eq!(asked("claude-opus-4-8", None), (None, None, false));
        assert_eq!(asked("claude-opus-4-8", Some(Reasoning::None)), (None, None, false));
        assert_eq!(asked("claude-opus-4-8", Some(Reasoning::High)), (adaptive(), Some("high"), false));
        // They think unless they are asked not to.
        assert_eq!(asked("claude-sonnet-5", None), (adaptive(), None, false));
        let disabled = Some("disabled".to_owned());
        assert_eq!(asked("claude-sonnet-5", Some(Reasoning::None)), (disabled, None, false));
        // They always think.
        assert_eq!(asked("claude-fable-5", Some(Reasoning::None)), (adaptive(), Some("low"), false));
        for name in ["claude-fable-5-1", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"] {
            assert_eq!(asked(name, None), (adaptive(), None, true), "{name}");
            assert_eq!(asked(name, Some(Reasoning::None)), (adaptive(), Some("low"), true), "{name}");
        }
        assert_eq!(asked("~anthropic/claude-opus-latest", None), (adaptive(), None, true));
        assert_eq!(Claude::from_name("gpt-5.1"), None);
        for name in ["claude-3-7-sonnet-20250219", "claude-haiku-4-5", "claude-opus-4-6"] {
            assert!(!Claude::from_name(name).unwrap().thinks_by_effort(), "{name}");
        }
    }
}
