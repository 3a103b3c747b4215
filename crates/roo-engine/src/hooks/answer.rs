//! Answer of one hook: from its exit code and what it printed to what counts of it.

use serde_json::{Map, Value};

use super::process::{FinishedHook, HookEnd};
use roo_formats::hooks::{EventName, Refusal};
use roo_model::prompts::untrusted;
use roo_text::render;

/// The longest reason or message, in bytes.
const TEXT_LIMIT: usize = 10_000;
/// The longest text that a hook adds to what a model reads, in bytes; also of all hooks of an event together.
pub(super) const CONTEXT_LIMIT: usize = 50 << 10;
/// The longest title, in characters.
const TITLE_LIMIT: usize = 200;

/// Decision of hooks, from weak to strong. What is refused is said by the event: see [`Refusal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The user need not be asked.
    Allow,
    /// The user is to be asked.
    Ask,
    /// It is refused.
    Deny,
}

impl Verdict {
    /// As the contract spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Accepted answer of one hook. Every text in it can be shown, and can't pass for a mark of ours.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HookAnswer {
    pub(super) verdict: Option<Verdict>,
    /// Reason; for the user, and for the model where the call is refused.
    pub(super) reason: Option<String>,
    /// The call's new input, in the contract's form.
    pub(super) rewrite: Option<Map<String, Value>>,
    /// For the model.
    pub(super) context: Option<String>,
    /// For the user.
    pub(super) warnings: Vec<String>,
    /// The task is to end, with this said to the user.
    pub(super) stop: Option<String>,
    /// In the place of the tool's result.
    pub(super) output: Option<Value>,
    pub(super) retry: bool,
    pub(super) title: Option<String>,
    pub(super) first_message: Option<String>,
}

/// Added to what went wrong in the sandbox, where that may be the reason.
const WITHHELD: &str = " (hooks run in the sandbox, without a network; `\"roo\": {\"sandbox\": false}` lets a hook of your \
                        own hooks file run outside of it)";

/// Returns whether errors read as if the sandbox had refused something.
fn looks_withheld(stderr: &str) -> bool {
    let stderr = stderr.to_lowercase();
    let signs = [
        "read-only file system",
        "permission denied",
        "operation not permitted",
        "unreachable",
        "could not resolve",
        "name resolution",
        "connection refused",
        "erofs",
        "eacces",
        "eperm",
        "enotfound",
    ];
    signs.iter().any(|sign| stderr.contains(sign))
}

/// Text of a hook as it may be shown: nothing hidden, nothing that passes for a mark of ours, and at most so
/// many bytes.
pub(super) fn clean(text: &str, limit: usize) -> String {
    let text = text.replace("\r\n", "\n");
    let text = text.trim();
    let kept = &text[..text.floor_char_boundary(limit)];
    let shown = render::visible(kept);
    let safe = untrusted(&shown);
    match text.len() - kept.len() {
        0 => safe.into_owned(),
        left_out => format!("{safe}\n… [{left_out} bytes left out]"),
    }
}

/// Describes the outcome of a hook for people.
pub(super) fn ending_in_words(ending: &HookEnd) -> String {
    match ending {
        HookEnd::Code(code) => format!("exit code {code}"),
        HookEnd::Signal(signal) => format!("killed by signal {signal}"),
        HookEnd::TimedOut => "it timed out".to_owned(),
        HookEnd::Cancelled => "cancelled".to_owned(),
        HookEnd::Failed(reason) => format!("it did not run: {reason}"),
    }
}

/// Reads what a hook answered. `name` is what it is called in messages.
pub(super) fn read(event: EventName, name: &str, fail_closed: bool, ended: &FinishedHook) -> HookAnswer {
    let stdout = ended.stdout.text();
    let stderr = ended.stderr.text();
    let mut answer = HookAnswer::default();
    let HookEnd::Code(code) = ended.ending else {
        let problem = ending_in_words(&ended.ending);
        answer.failed(event, name, fail_closed, &problem);
        // Nobody asks any more, so nothing may come of it.
        if ended.ending == HookEnd::Cancelled && event == EventName::PreToolUse {
            answer.verdict = Some(Verdict::Deny);
            answer.warnings.clear();
        }
        return answer;
    };
    let parsed = parsed(event, &stdout);
    match parsed {
        Parsed::Object(fields) => answer = *fields,
        Parsed::Wrong(problem) if code != 2 => {
            answer.failed(event, name, fail_closed, &format!("its output can't be used: {problem}"));
            return answer;
        }
        Parsed::Wrong(_) => {}
        Parsed::Text if code == 0 => {
            let looks_like_json = stdout.trim_start().starts_with('{');
            if event.prints_context() && !stdout.trim().is_empty() {
                answer.context = Some(clean(&stdout, CONTEXT_LIMIT));
            } else if looks_like_json {
                let problem = match ended.stdout.cut {
                    true => "its output is too long",
                    false => "its output is not valid JSON",
                };
                answer.failed(event, name, fail_closed, problem);
            }
            if event.prints_context() && looks_like_json {
                answer
                    .warnings
                    .push(format!("The hook {name} printed something that looks like JSON but isn't valid."));
            }
        }
        Parsed::Text if code == 2 => {}
        Parsed::Text => {
            let first = render::first_line(stderr.trim_start());
            let said = if first.is_empty() { String::new() } else { format!(": {}", clean(first, 500)) };
            let hint = if ended.is_confined && looks_withheld(&stderr) { WITHHELD } else { "" };
            answer.failed(event, name, fail_closed, &format!("exit code {code}{said}{hint}"));
        }
    }
    if code == 2 {
        answer.refuse(event, name, &stderr);
    }
    if !event.heeds_universal() {
        (answer.stop, answer.warnings) = (
            None,
            match event {
                // What fails is told all the same, and what a hook says to the user by refusing.
                EventName::SessionEnd | EventName::PostCompact if code == 2 => answer.warnings,
                _ => vec![],
            },
        );
    }
    answer
}

impl HookAnswer {
    /// It could not judge.
    fn failed(&mut self, event: EventName, name: &str, fail_closed: bool, problem: &str) {
        if fail_closed && event == EventName::PreToolUse {
            self.verdict = Some(Verdict::Deny);
            self.reason = Some(format!("The hook {name} could not judge the call: {problem}"));
        } else {
            self.warnings.push(format!("The hook {name} failed: {problem}"));
        }
    }

    /// It exited with 2, which nothing that it printed overrides.
    fn refuse(&mut self, event: EventName, name: &str, stderr: &str) {
        let said = Some(clean(stderr, TEXT_LIMIT)).filter(|text| !text.is_empty());
        match event.refusal() {
            Refusal::Nothing => {}
            Refusal::TellUser => {
                let said = said.unwrap_or_else(|| "exit code 2".to_owned());
                self.warnings.push(format!("The hook {name} says: {said}"));
            }
            _ => {
                let refused_by_answer = self.verdict == Some(Verdict::Deny);
                self.verdict = Some(Verdict::Deny);
                if !(refused_by_answer && self.reason.is_some()) {
                    self.reason = Some(said.unwrap_or_else(|| format!("The hook {name} refused it.")));
                }
            }
        }
    }
}

/// Interpretation of standard output.
enum Parsed {
    Object(Box<HookAnswer>),
    /// An object that is not of the contract's form.
    Wrong(String),
    /// Anything else.
    Text,
}

fn parsed(event: EventName, stdout: &str) -> Parsed {
    let text = stdout.trim();
    if !text.starts_with('{') {
        return Parsed::Text;
    }
    let Ok(Value::Object(object)) = serde_json::from_str(text) else { return Parsed::Text };
    match fields(event, &object) {
        Ok(answer) => Parsed::Object(Box::new(answer)),
        Err(problem) => Parsed::Wrong(problem),
    }
}

type JsonObject = Map<String, Value>;

fn typed<'a, T>(
    object: &'a JsonObject,
    name: &str,
    what: &str,
    get: impl Fn(&'a Value) -> Option<T>,
) -> Result<Option<T>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => get(value).map(Some).ok_or_else(|| format!("`{name}` must be {what}")),
    }
}

fn text<'a>(object: &'a JsonObject, name: &str) -> Result<Option<&'a str>, String> {
    typed(object, name, "a text", Value::as_str)
}

fn flag(object: &JsonObject, name: &str) -> Result<bool, String> {
    typed(object, name, "true or false", Value::as_bool).map(Option::unwrap_or_default)
}

/// Reads the answer fields of the contract.
fn fields(event: EventName, object: &JsonObject) -> Result<HookAnswer, String> {
    let mut answer = HookAnswer::default();
    let goes_on = typed(object, "continue", "true or false", Value::as_bool)?.unwrap_or(true);
    let stop_reason = text(object, "stopReason")?;
    // Accepted, and without effect in the contract as here.
    flag(object, "suppressOutput")?;
    text(object, "terminalSequence")?;
    if !goes_on {
        answer.stop = Some(clean(stop_reason.unwrap_or_default(), TEXT_LIMIT));
    }
    if let Some(message) = text(object, "systemMessage")?.filter(|text| !text.trim().is_empty()) {
        answer.warnings.push(clean(message, TEXT_LIMIT));
    }
    let reason = text(object, "reason")?;
    match text(object, "decision")? {
        None => {}
        Some("block") => match event.refusal() {
            Refusal::Nothing | Refusal::TellUser => {}
            _ => {
                answer.verdict = Some(Verdict::Deny);
                answer.reason = reason.map(|reason| clean(reason, TEXT_LIMIT));
            }
        },
        // The older form for calls.
        Some("approve") if event == EventName::PreToolUse => {
            answer.verdict = Some(Verdict::Allow);
            answer.reason = reason.map(|reason| clean(reason, TEXT_LIMIT));
        }
        Some("approve") => {}
        Some(_) => return Err("`decision` must be `block`".to_owned()),
    }
    if let Some(specific) = typed(object, "hookSpecificOutput", "an object", Value::as_object)? {
        let name = text(specific, "hookEventName")?;
        if name != Some(event.as_str()) {
            return Err(format!("`hookSpecificOutput.hookEventName` must be `{event}`"));
        }
        specific_fields(event, specific, &mut answer)?;
    }
    Ok(answer)
}

fn specific_fields(event: EventName, object: &JsonObject, answer: &mut HookAnswer) -> Result<(), String> {
    let context = text(object, "additionalContext")?.filter(|text| !text.trim().is_empty());
    let title = text(object, "sessionTitle")?;
    let first_message = text(object, "initialUserMessage")?;
    let rewrite = typed(object, "updatedInput", "an object", Value::as_object)?;
    let decision = typed(object, "decision", "an object", Value::as_object)?;
    let permission = text(object, "permissionDecision")?;
    let permission_reason = text(object, "permissionDecisionReason")?;
    let retry = flag(object, "retry")?;
    if event.takes_context()
        && let Some(context) = context
    {
        let context = clean(context, CONTEXT_LIMIT);
        match event.refusal() {
            // What is said at the end is said to go on with.
            Refusal::GoOn => {
                answer.verdict = Some(Verdict::Deny);
                let reasons = answer.reason.iter().map(String::as_str).chain([context.as_str()]);
                answer.reason = Some(reasons.collect::<Vec<_>>().join("\n"));
            }
            _ => answer.context = Some(context),
        }
    }
    match event {
        EventName::PreToolUse => {
            let verdict = match permission {
                None => None,
                Some("allow") => Some(Verdict::Allow),
                Some("deny") => Some(Verdict::Deny),
                // Whoever defers wants somebody to decide later: here that is the user, whenever they do.
                Some("ask" | "defer") => Some(Verdict::Ask),
                Some(_) => return Err("`permissionDecision` must be allow, deny, ask or defer".to_owned()),
            };
            if verdict.is_some() {
                answer.verdict = verdict;
                answer.reason = permission_reason.map(|reason| clean(reason, TEXT_LIMIT));
            }
            if permission != Some("defer") {
                answer.rewrite = rewrite.cloned();
            } else {
                answer.context = None;
            }
        }
        EventName::PermissionRequest => {
            if let Some(decision) = decision {
                permission_fields(decision, answer)?;
            }
        }
        EventName::PermissionDenied => answer.retry = retry,
        EventName::PostToolUse => {
            let output = object.get("updatedToolOutput").or_else(|| object.get("updatedMCPToolOutput"));
            answer.output = output.filter(|value| !value.is_null()).cloned();
        }
        EventName::SessionStart | EventName::UserPromptSubmit => {
            let title = title.map(|title| render::one_line(title, TITLE_LIMIT));
            answer.title = title.filter(|title| !title.is_empty());
            if event == EventName::SessionStart {
                answer.first_message = first_message.map(|message| clean(message, CONTEXT_LIMIT));
            }
        }
        _ => {}
    }
    Ok(())
}

/// The `decision` of a hook that answers in the user's place.
fn permission_fields(decision: &JsonObject, answer: &mut HookAnswer) -> Result<(), String> {
    let message = text(decision, "message")?.map(|message| clean(message, TEXT_LIMIT));
    let interrupt = flag(decision, "interrupt")?;
    let rewrite = typed(decision, "updatedInput", "an object", Value::as_object)?;
    let rules = typed(decision, "updatedPermissions", "a list", Value::as_array)?;
    match text(decision, "behavior")? {
        Some("allow") => {
            answer.verdict = Some(Verdict::Allow);
            answer.rewrite = rewrite.cloned();
            if rules.is_some_and(|rules| !rules.is_empty()) {
                answer.warnings.push(
                    "A hook tried to change permissions; only the user's settings can do that.".to_owned(),
                );
            }
        }
        Some("deny") => {
            answer.verdict = Some(Verdict::Deny);
            if interrupt {
                answer.stop = Some(message.clone().unwrap_or_default());
            }
            answer.reason = message;
        }
        _ => return Err("`decision.behavior` must be allow or deny".to_owned()),
    }
    Ok(())
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
