//! All answers to one event, put together: the strictest wins, whatever the order in which they came.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::answer::{CONTEXT_LIMIT, HookAnswer, Verdict};
use super::file::Source;
use roo_formats::hooks::EventName;

type JsonObject = Map<String, Value>;

/// Outcome of an event. Every text in it is a hook's: it can be shown and can't pass for a mark of ours, but it is data
/// all the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub event: EventName,
    /// The hooks that ran, in the order of configuration.
    pub ran: Vec<Ran>,
    /// The strictest verdict; none when no hook has one. [`Verdict::Deny`] means what
    /// [`EventName::refusal`] says.
    pub verdict: Option<Verdict>,
    /// Source that allowed the call if the verdict is [`Verdict::Allow`]: the user's, when one of the user's own hooks
    /// allows it.
    pub allowed_by: Option<Source>,
    /// Reasons of the hooks that have this verdict.
    pub reasons: Vec<String>,
    /// For the model, in the order of configuration.
    pub contexts: Vec<String>,
    /// For the user.
    pub warnings: Vec<String>,
    /// The task is to end, with this said to the user; it may be empty. Comes before the verdict.
    pub stop: Option<String>,
    /// True if the model may be told to try a refused call again.
    pub retry: bool,
    /// A title for the request.
    pub title: Option<String>,
    /// A first message of the user.
    pub first_message: Option<String>,
    /// The new inputs, in the contract's form; none where they stay.
    pub(super) rewrites: Vec<Option<JsonObject>>,
    /// In the place of the tool's result.
    pub(super) output: Option<Value>,
}

/// A hook that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Description of the hook for people.
    pub hook: String,
    /// Owner of the hook.
    pub source: Source,
    /// Description of how it ended.
    pub ended: String,
    /// Decision.
    pub verdict: Option<Verdict>,
}

/// Answer of one hook, and its rank among the others.
#[derive(Clone, Debug)]
pub(super) struct RankedAnswer {
    /// The number of the hook, in the order of configuration.
    pub(super) hook: usize,
    /// The number of the input that it was asked about.
    pub(super) input: usize,
    pub(super) source: Source,
    pub(super) shown: String,
    pub(super) ended: String,
    pub(super) answer: HookAnswer,
}

impl Outcome {
    /// Nothing came of it: no hook ran.
    pub fn nothing(event: EventName) -> Self {
        Self::merged(event, &[], vec![])
    }

    /// Returns whether it is refused, whatever that means for the event.
    pub fn is_refused(&self) -> bool {
        self.verdict == Some(Verdict::Deny)
    }

    /// The reasons as one text.
    pub fn reason(&self) -> String {
        self.reasons.join("\n")
    }

    /// Returns the additions for the model, set off from all else, if any.
    pub(crate) fn for_model(&self) -> Option<String> {
        (!self.contexts.is_empty()).then(|| set_off(self.event, &self.contexts.join("\n\n")))
    }

    /// Puts answers together that came in any order.
    pub(super) fn merged(event: EventName, inputs: &[JsonObject], mut given: Vec<RankedAnswer>) -> Self {
        given.sort_by_key(|given| (given.hook, given.input));
        let answers = || given.iter().map(|given| &given.answer);
        let mut conflict = false;
        let rewrites: Vec<Option<JsonObject>> = inputs
            .iter()
            .enumerate()
            .map(|(number, input)| {
                let of_input = given.iter().filter(|given| given.input == number);
                let rewrites: Vec<&JsonObject> =
                    of_input.filter_map(|given| given.answer.rewrite.as_ref()).collect();
                joined(input, &rewrites).unwrap_or_else(|Conflict| {
                    conflict = true;
                    None
                })
            })
            .collect();
        let mut verdict = verdict(inputs.len().max(1), &given);
        let mut reasons: Vec<String> = Vec::new();
        if conflict && verdict != Some(Verdict::Deny) {
            verdict = Some(Verdict::Ask);
            reasons.push(
                "Hooks rewrite the call in different ways, so the model's call is kept unchanged.".to_owned(),
            );
        }
        for reason in answers().filter(|answer| answer.verdict == verdict).filter_map(|a| a.reason.as_ref()) {
            if verdict.is_some() && !reason.is_empty() && !reasons.contains(reason) {
                reasons.push(reason.clone());
            }
        }
        let allows =
            |source| given.iter().any(|g| g.source == source && g.answer.verdict == Some(Verdict::Allow));
        let allowed_by = (verdict == Some(Verdict::Allow))
            .then(|| if allows(Source::User) { Source::User } else { Source::Workspace });
        let stops: Vec<&String> = answers().filter_map(|answer| answer.stop.as_ref()).collect();
        let stop = stops.iter().find(|reason| !reason.is_empty()).or(stops.first()).map(|&s| s.clone());
        let rewrites = match verdict {
            Some(Verdict::Deny) => vec![None; inputs.len()],
            _ if conflict => vec![None; inputs.len()],
            _ => rewrites,
        };
        let last = |part: fn(&HookAnswer) -> Option<&String>| {
            given.iter().rev().find_map(|g| part(&g.answer)).cloned()
        };
        Self {
            event,
            verdict,
            allowed_by,
            reasons,
            contexts: within_limit(answers().filter_map(|answer| answer.context.as_ref())),
            warnings: once(answers().flat_map(|answer| &answer.warnings)),
            stop,
            retry: answers().any(|answer| answer.retry),
            title: last(|answer| answer.title.as_ref()),
            first_message: last(|answer| answer.first_message.as_ref()),
            rewrites,
            output: given.iter().rev().find_map(|given| given.answer.output.clone()),
            ran: given
                .into_iter()
                .map(|given| Ran {
                    hook: given.shown,
                    source: given.source,
                    ended: given.ended,
                    verdict: given.answer.verdict,
                })
                .collect(),
        }
    }

    /// As JSON, for people who try their hooks.
    pub fn to_json(&self) -> Value {
        let ran = self.ran.iter().map(|ran| {
            let verdict = ran.verdict.map(Verdict::as_str);
            json!({ "hook": ran.hook, "source": ran.source.as_str(), "ended": ran.ended, "verdict": verdict })
        });
        let mut value = json!({
            "event": self.event.as_str(),
            "hooks": ran.collect::<Vec<_>>(),
            "verdict": self.verdict.map(Verdict::as_str),
        });
        let mut add = |name: &str, part: Value| {
            let is_empty = part.is_null() || part == json!([]) || part == json!(false);
            if !is_empty {
                value[name] = part;
            }
        };
        add("allowedBy", self.allowed_by.map(Source::as_str).into());
        add("reasons", self.reasons.clone().into());
        let rewrite = self.rewrites.iter().flatten().next();
        add("updatedInput", rewrite.cloned().map_or(Value::Null, Value::Object));
        add("context", self.contexts.clone().into());
        add("warnings", self.warnings.clone().into());
        add("stop", self.stop.clone().into());
        add("retry", self.retry.into());
        add("title", self.title.clone().into());
        add("firstMessage", self.first_message.clone().into());
        add("updatedToolOutput", self.output.clone().unwrap_or_default());
        value
    }
}

/// Text of hooks within what a model reads.
pub(super) fn set_off(event: EventName, text: &str) -> String {
    format!("<hook_output event=\"{event}\">\n{text}\n</hook_output>")
}

/// The strictest verdict. What is about several inputs is allowed only when each of them is.
fn verdict(inputs: usize, given: &[RankedAnswer]) -> Option<Verdict> {
    let mut strictest: BTreeMap<usize, Verdict> = BTreeMap::new();
    for given in given {
        if let Some(verdict) = given.answer.verdict {
            let known = strictest.entry(given.input).or_insert(verdict);
            *known = verdict.max(*known);
        }
    }
    let worst = strictest.values().copied().max()?;
    (worst > Verdict::Allow || strictest.len() == inputs).then_some(worst)
}

/// Two hooks want a field to be different things.
struct Conflict;

/// One rewrite that is all of them: each may change fields that no other changes otherwise.
fn joined(input: &JsonObject, rewrites: &[&JsonObject]) -> Result<Option<JsonObject>, Conflict> {
    let mut changes: BTreeMap<&str, Option<&Value>> = BTreeMap::new();
    for rewrite in rewrites {
        for field in
            input.keys().chain(rewrite.keys()).filter(|field| input.get(*field) != rewrite.get(*field))
        {
            let new = rewrite.get(field);
            if changes.insert(field, new).is_some_and(|known| known != new) {
                return Err(Conflict);
            }
        }
    }
    if changes.is_empty() {
        return Ok(None);
    }
    let mut joined = input.clone();
    for (field, new) in changes {
        match new {
            Some(value) => joined.insert(field.to_owned(), value.clone()),
            None => joined.remove(field),
        };
    }
    Ok(Some(joined))
}

/// The texts in their order, until there are too many bytes.
fn within_limit<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    let (mut kept, mut left) = (Vec::new(), CONTEXT_LIMIT);
    let mut left_out = 0;
    for text in texts {
        // What is cut off says so in a few words, which may stand beyond the limit.
        match left.checked_sub(text.len().min(CONTEXT_LIMIT)) {
            Some(rest) if left_out == 0 => {
                left = rest;
                kept.push(text.clone());
            }
            _ => left_out += text.len(),
        }
    }
    if left_out > 0 {
        kept.push(format!("… [{left_out} bytes of other hooks left out]"));
    }
    kept
}

/// Each text once, in their order.
fn once<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for text in texts {
        if !kept.contains(text) {
            kept.push(text.clone());
        }
    }
    kept
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
