//! The embedded model: it plays a script, and needs neither key nor network.
//!
//! A script is YAML:
//!
//! ```yaml
//! turns:
//!   - mode: code                   # only in this mode; in any when left out
//!     when:                        # only if all of this holds for what came since the last answer
//!       contains: "not ok 2"       # a string or a list of strings that all occur
//!       notContains: "Bail out"    # a string or a list of strings that don't occur
//!       status: failed             # ok: all results; failed, denied, …: at least one
//!     thinking: "The bound is off by one."
//!     text: "I'll look at the bound."
//!     calls:
//!       - tool: read_file
//!         params: { path: lib.sh }
//!     raw: "<read_file>…"          # text sent as it is, after everything else
//!     chunk: 24                    # bytes of one delta
//!     delayMs: 0                   # pause before each delta
//!     usage: { tokensIn: 900, tokensOut: 80 }
//!     repeat: true                 # may be played again
//!   - fail: rateLimited            # fails after half of its deltas; the next request goes on
//! ```
//!
//! `{{urid}}` in a text or a parameter stands for the id of the request that is answered.
//!
//! The first turn of the mode that was not played yet, and whose `when` holds, is played. Which turns were
//! played follows from the conversation: the script is walked again along the answers that are there, so a
//! task that is resumed after a restart goes on where it was, and every task walks the script on its own.
//! Only a failure leaves no trace in a conversation; how often one has failed is remembered. The mode of
//! the request counts for the whole walk. Turns of the mode `condense` answer requests for a summary of earlier turns,
//! and no others do. If no turn fits, the request fails and says what was seen and
//! what was left.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::conversation::tags;
use super::{
    AccountId, Finish, Item, Items, Model, ModelError, ModelErrorKind, ModelRequest, Output, SAMPLING_MODE,
    SUMMARY_MODE,
};
use crate::parser::StreamEvent;
use crate::prompts::is_beginning;
use roo_catalog::{ToolId, ToolProtocol};
use roo_durable::read_named;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;
use roo_protocol::task::Usage;

/// The largest script, in bytes.
const MAX_SCRIPT_BYTES: u64 = 64 << 20;
/// Stands for the id of the request in a script.
const URID: &str = "{{urid}}";
/// Number of characters of what was seen that an error shows.
const SUMMARY_LIMIT: usize = 2000;

/// A checked script.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    turns: Vec<Turn>,
}

impl Script {
    /// Reads a script from its YAML text. `name` stands for it in errors.
    ///
    /// # Errors
    /// A configuration error with the line.
    pub fn parse(name: &str, yaml: &str) -> Result<Self, ModelError> {
        serde_yaml::from_str(yaml).map_err(|error| {
            ModelError::new(
                ModelErrorKind::Configuration,
                format!("The script {name} can't be used: {error}"),
            )
        })
    }

    /// Reads a script from a file.
    ///
    /// # Errors
    /// A configuration error if the file can't be read, or as [`Script::parse`].
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let text = read_named(path, MAX_SCRIPT_BYTES).map_err(|error| {
            ModelError::new(
                ModelErrorKind::Configuration,
                format!("The script {} (the profile's `script`) can't be read: {error}", path.display()),
            )
        })?;
        Self::parse(&path.display().to_string(), &text)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Turn {
    mode: Option<String>,
    #[serde(default)]
    when: When,
    thinking: Option<String>,
    text: Option<String>,
    #[serde(default)]
    calls: Vec<Call>,
    raw: Option<String>,
    #[serde(default = "default_chunk")]
    chunk: usize,
    #[serde(default)]
    delay_ms: u64,
    fail: Option<Failure>,
    usage: Option<Usage>,
    #[serde(default)]
    repeat: bool,
}

fn default_chunk() -> usize {
    24
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct When {
    contains: Texts,
    not_contains: Texts,
    status: Option<ToolStatus>,
}

/// One text or several.
#[derive(Clone, Debug, Default, PartialEq)]
struct Texts(Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a string or a list of strings")]
        enum OneOrMany {
            One(String),
            Many(Vec<String>),
        }
        Ok(Self(match OneOrMany::deserialize(deserializer)? {
            OneOrMany::One(text) => vec![text],
            OneOrMany::Many(texts) => texts,
        }))
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    #[serde(deserialize_with = "known_tool")]
    tool: String,
    #[serde(default)]
    params: Map<String, Value>,
}

fn known_tool<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    match ToolId::of_call(&name) {
        Some(_) => Ok(name),
        None => Err(serde::de::Error::custom(format!("there is no tool named '{name}'"))),
    }
}

/// Failures of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Failure {
    Unauthorized,
    Invalid,
    ContextWindow,
    RateLimited,
    Unavailable,
    Unreachable,
    TimedOut,
    Cut,
    Malformed,
}

impl Failure {
    fn error(self) -> ModelError {
        let kind = match self {
            Self::Unauthorized => ModelErrorKind::Unauthorized,
            Self::Invalid => ModelErrorKind::Invalid,
            Self::ContextWindow => ModelErrorKind::ContextWindow,
            Self::RateLimited => ModelErrorKind::RateLimited(None),
            Self::Unavailable => ModelErrorKind::Unavailable(None),
            Self::Unreachable => ModelErrorKind::Unreachable,
            Self::TimedOut => ModelErrorKind::TimedOut,
            Self::Cut => ModelErrorKind::Cut,
            Self::Malformed => ModelErrorKind::Malformed,
        };
        ModelError::new(kind, format!("The script lets this request fail: {self:?}."))
    }
}

/// A model that plays a script.
#[derive(Debug)]
pub struct Scripted {
    script: Script,
    /// Number of failures that each conversation has met.
    failures: Mutex<HashMap<Digest, usize>>,
}

impl Scripted {
    /// A model that plays this script.
    pub fn new(script: Script) -> Self {
        Self { script, failures: Mutex::default() }
    }

    /// The turn that answers this request, which has so many answers in it already.
    fn choose<'a>(&'a self, request: &'a ModelRequest) -> Result<(&'a Turn, usize), ModelError> {
        let mut walk = Walk::new(&self.script.turns, &request.mode);
        let mut begin = 0;
        let mut answers = 0;
        let items = request.items.shared();
        for (index, item) in items.iter().enumerate() {
            match &**item {
                Item::Assistant { .. } => {
                    walk.next(&Situation::from_items(&items[begin..index]), None);
                    begin = index + 1;
                    answers += 1;
                }
                Item::Summary { answers: replaced, .. } => {
                    walk.skip(*replaced);
                    answers += replaced;
                }
                Item::User { .. } | Item::Results { .. } => {}
            }
        }
        let situation = Situation::from_items(&items[begin..]);
        let left = walk.left();
        // Not the whole conversation: what is cut from it after a failure must not make it another one.
        let place = Digest::of(format!("{} {answers} {:?}", request.mode, items.first()));
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failures.get(&place).copied().unwrap_or(0);
        let Some(turn) = walk.next(&situation, Some(failed)) else {
            let message = format!(
                "The script has no turn for what happened in mode '{}'.\nLast seen: {}\nTurns left:{left}",
                request.mode,
                situation.summary()
            );
            return Err(ModelError::new(ModelErrorKind::Configuration, message));
        };
        if turn.fail.is_some() {
            failures.insert(place, failed + 1);
        }
        Ok((turn, answers))
    }
}

impl Model for Scripted {
    fn origin(&self) -> &str {
        "scripted/script"
    }

    fn account(&self) -> AccountId {
        AccountId::of_scripts()
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Output, ModelError>> {
        let (turn, answers) = match self.choose(&request) {
            Ok(chosen) => chosen,
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let events = turn.events(request.protocol, answers, urid(&request.items));
        let mut outputs: VecDeque<_> = events.into_iter().map(|event| Ok(Output::Event(event))).collect();
        match turn.fail {
            Some(failure) => {
                outputs.truncate(outputs.len() / 2);
                outputs.push_back(Err(failure.error()));
            }
            None => {
                outputs.extend(turn.usage.map(|usage| Ok(Output::Usage(usage))));
                outputs.push_back(Ok(Output::Finished(Finish::Done)));
            }
        }
        let delay = Duration::from_millis(turn.delay_ms);
        stream::unfold(outputs, move |mut outputs| async move {
            let output = outputs.pop_front()?;
            if !delay.is_zero() && matches!(output, Ok(Output::Event(_))) {
                tokio::time::sleep(delay).await;
            }
            Some((output, outputs))
        })
        .boxed()
    }
}

impl Turn {
    fn is_of_mode(&self, mode: &str) -> bool {
        // A summary is no turn of a mode, and neither is the answer for a server.
        let is_mode = !matches!(mode, SUMMARY_MODE | SAMPLING_MODE);
        self.mode.as_deref().map_or(is_mode, |own| own == mode)
    }

    fn fits(&self, mode: &str, situation: &Situation) -> bool {
        let When { contains, not_contains, status } = &self.when;
        let occurs = |text: &String| situation.text.contains(text.as_str());
        self.is_of_mode(mode)
            && contains.0.iter().all(occurs)
            && !not_contains.0.iter().any(occurs)
            && status.is_none_or(|status| situation.ended(status))
    }

    /// Returns the events of the turn, in the protocol of the request.
    fn events(&self, protocol: ToolProtocol, answers: usize, urid: &str) -> Vec<StreamEvent> {
        let pieces = |text: &str| pieces(&text.replace(URID, urid), self.chunk);
        let mut events = Vec::new();
        if let Some(thinking) = &self.thinking {
            events.extend(pieces(thinking).map(StreamEvent::Thinking));
            events.push(StreamEvent::ThinkingEnd(None));
        }
        match protocol {
            ToolProtocol::Xml => {
                let calls = self.calls.iter().map(|call| tags(&call.tool, &call.params));
                let texts: Vec<_> =
                    self.text.iter().cloned().chain(calls).chain(self.raw.iter().cloned()).collect();
                events.extend(pieces(&texts.join("\n\n")).map(StreamEvent::Text));
            }
            ToolProtocol::Native => {
                events.extend(self.text.iter().flat_map(|text| pieces(text)).map(StreamEvent::Text));
                for (index, call) in (0_u32..).zip(&self.calls) {
                    let id = format!("scripted-{answers}-{index}");
                    events.push(StreamEvent::CallStart { index, id, name: call.tool.clone() });
                    let arguments = Value::Object(call.params.clone()).to_string();
                    events.extend(pieces(&arguments).map(|text| StreamEvent::CallArguments { index, text }));
                    events.push(StreamEvent::CallEnd { index });
                }
                events.extend(self.raw.iter().flat_map(|text| pieces(text)).map(StreamEvent::Text));
            }
        }
        events
    }
}

/// The id of the request, which the first message of every task names.
fn urid(items: &Items) -> &str {
    let first = items.iter().find_map(|item| match item {
        Item::User { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let lines = first.unwrap_or_default().lines();
    lines.filter_map(|line| line.strip_prefix("URID: ")).next_back().unwrap_or_default().trim()
}

/// Pieces of at most so many bytes, but never less than a character.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = String> + use<> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for c in text.chars() {
        if !piece.is_empty() && piece.len() + c.len_utf8() > size {
            pieces.push(std::mem::take(&mut piece));
        }
        piece.push(c);
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces.into_iter()
}

/// The way through the script so far.
struct Walk<'a> {
    turns: &'a [Turn],
    mode: &'a str,
    played: Vec<bool>,
}

impl<'a> Walk<'a> {
    fn new(turns: &'a [Turn], mode: &'a str) -> Self {
        Self { turns, mode, played: vec![false; turns.len()] }
    }

    /// The turn that is played now. So many failures lie behind; all of them where an answer came of it.
    fn next(&mut self, situation: &Situation, mut failures: Option<usize>) -> Option<&'a Turn> {
        for (turn, played) in self.turns.iter().zip(&mut self.played) {
            if *played || !turn.fits(self.mode, situation) {
                continue;
            }
            *played = !turn.repeat;
            match (&turn.fail, &mut failures) {
                (Some(_), None) => {}
                (Some(_), Some(left)) if *left > 0 && !turn.repeat => *left -= 1,
                _ => return Some(turn),
            }
        }
        None
    }

    /// Skips turns whose answers are in the conversation no more, in the order of the script.
    fn skip(&mut self, answers: usize) {
        let mode = self.mode;
        let answering = self.turns.iter().zip(&mut self.played).filter(|(turn, played)| {
            !**played && turn.is_of_mode(mode) && turn.fail.is_none() && !turn.repeat
        });
        answering.take(answers).for_each(|(_, played)| *played = true);
    }

    /// The turns that could still be played, a line each.
    fn left(&self) -> String {
        let mut lines = String::new();
        for (number, (turn, played)) in (1..).zip(self.turns.iter().zip(&self.played)) {
            if !played {
                let mode = turn.mode.as_deref().unwrap_or("any");
                lines.push_str(&format!("\n  {number}: mode {mode}, when {}", turn.when));
            }
        }
        if lines.is_empty() { " none".to_owned() } else { lines }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "contains {:?}, notContains {:?}", self.contains.0, self.not_contains.0)?;
        match self.status {
            Some(status) => write!(f, ", status {status:?}"),
            None => Ok(()),
        }
    }
}

/// Messages since the last answer.
struct Situation {
    text: String,
    statuses: Vec<ToolStatus>,
}

impl Situation {
    fn from_items(items: &[Arc<Item>]) -> Self {
        let mut texts = Vec::new();
        let mut statuses = Vec::new();
        for item in items {
            match &**item {
                // What a task is told of the workspace is known only after its first answer, and steers no script.
                Item::User { text, .. } if is_beginning(text) => {}
                Item::User { text, .. } | Item::Summary { text, .. } => texts.push(text.as_str()),
                Item::Results { results } => {
                    texts.extend(results.iter().map(|result| result.text.as_str()));
                    statuses.extend(results.iter().map(|result| result.status));
                }
                Item::Assistant { .. } => {}
            }
        }
        Self { text: texts.join("\n"), statuses }
    }

    fn ended(&self, status: ToolStatus) -> bool {
        match status {
            ToolStatus::Ok => {
                !self.statuses.is_empty() && self.statuses.iter().all(|ended| *ended == ToolStatus::Ok)
            }
            other => self.statuses.contains(&other),
        }
    }

    /// For an error: the end of the text, which is where outputs say what came of them.
    fn summary(&self) -> String {
        let (mark, begin) = match self.text.char_indices().rev().nth(SUMMARY_LIMIT) {
            Some((begin, _)) => ("…", begin),
            None => ("", 0),
        };
        format!("{:?} {mark}{}", self.statuses, &self.text[begin..])
    }
}

#[cfg(test)]
mod tests {

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::providers::Rendered;
    use crate::providers::{AssistantBlock, ToolResult};
    use roo_protocol::ids::ToolCallId;

    fn scripted(yaml: &str) -> Scripted {
        Scripted::new(Script::parse("test.yaml", yaml).unwrap())
    }

    fn user(text: &str) -> Item {
        Item::User { text: text.into(), images: Vec::new() }
    }

    fn answer() -> Item {
        Item::Assistant { blocks: vec![AssistantBlock::Text { text: "…".into() }], tail: None }
    }

    fn result(status: ToolStatus, text: &str) -> Item {
        Item::Results {
            results: vec![ToolResult {
                call_id: ToolCallId::new("1"),
                name: "execute_command".into(),
                subject: "sh test.sh".into(),
                status,
                text: text.into(),
                images: Vec::new(),
            }],
        }
    }

    fn request(protocol: ToolProtocol, items: &[Item]) -> ModelRequest {
        ModelRequest {
            system: "".into(),
            items: items.to_vec().into(),
            rendered: Rendered::default(),
            tail: Some("not ok 9".into()),
            tools: Arc::new([]),
            protocol,
            mode: "code".into(),
            max_tokens: None,
            leaves_out_images: false,
        }
    }

    async fn ask(
        model: &Scripted,
        protocol: ToolProtocol,
        items: &[Item],
    ) -> Vec<Result<Output, ModelError>> {
        model.stream(request(protocol, items)).collect().await
    }

    /// The text that is said, or the error.
    async fn said(model: &Scripted, items: &[Item]) -> Result<String, String> {
        let mut text = String::new();
        for output in ask(model, ToolProtocol::Native, items).await {
            match output {
                Ok(Output::Event(StreamEvent::Text(piece))) => text.push_str(&piece),
                Ok(_) => {}
                Err(error) => return Err(error.message),
            }
        }
        Ok(text)
    }

    const SCRIPT: &str = r#"
turns:
  - { mode: architect, text: not mine }
  - { text: first }
  - { when: { contains: [not ok, "2"], status: failed }, text: it fails }
  - { when: { contains: ok, notContains: not ok, status: ok }, text: it works }
"#;

    #[tokio::test]
    async fn turns_follow_what_really_happened() {
        let model = scripted(SCRIPT);
        let fails = result(ToolStatus::Failed, "ok 1\nnot ok 2");
        let works = result(ToolStatus::Ok, "ok 1\nok 2");
        let items = [user("go"), answer(), fails, answer(), works];
        assert_eq!(said(&model, &items[..1]).await.unwrap(), "first");
        assert_eq!(said(&model, &items[..3]).await.unwrap(), "it fails");
        assert_eq!(said(&model, &items).await.unwrap(), "it works");
        // A model that knows nothing of the earlier requests goes on at the same place.
        assert_eq!(said(&scripted(SCRIPT), &items).await.unwrap(), "it works");
    }

    #[tokio::test]
    async fn a_broken_engine_fails_loudly() {
        let model = scripted(SCRIPT);
        let items = [user("go"), answer(), result(ToolStatus::Ok, "nothing happened")];
        let error = said(&model, &items).await.unwrap_err();
        assert!(error.contains("mode 'code'"), "{error}");
        assert!(error.contains("[Ok] nothing happened"), "{error}");
        assert!(error.contains("\n  4: mode any, when contains [\"ok\"]"), "{error}");
        assert!(!error.contains("\n  2:"), "a turn that was played is not left: {error}");
    }

    #[tokio::test]
    async fn a_repeating_turn_serves_again_and_others_serve_once() {
        let model = scripted("turns:\n  - { text: once }\n  - { text: always, repeat: true }\n");
        let items = [user("a"), answer(), user("b"), answer(), user("c")];
        assert_eq!(said(&model, &items[..1]).await.unwrap(), "once");
        assert_eq!(said(&model, &items[..3]).await.unwrap(), "always");
        assert_eq!(said(&model, &items).await.unwrap(), "always");
    }

    #[tokio::test]
    async fn a_failure_comes_once_in_the_middle_and_the_next_request_goes_on() {
        let yaml = "turns:\n  - { text: abcd, chunk: 1, fail: cut }\n  - { fail: rateLimited }\n  - { text: done }\n  - { text: more }\n";
        let model = scripted(yaml);
        let items = [user("go")];
        let outputs = ask(&model, ToolProtocol::Native, &items).await;
        assert_eq!(outputs.len(), 3);
        assert_eq!(outputs.last().unwrap().as_ref().unwrap_err().kind, ModelErrorKind::Cut);
        let outputs = ask(&model, ToolProtocol::Native, &items).await;
        let kind = outputs.last().unwrap().as_ref().unwrap_err().kind;
        assert_eq!(kind, ModelErrorKind::RateLimited(None));
        assert_eq!(said(&model, &items).await.unwrap(), "done");
        // After an answer, the failures before it no longer count.
        assert_eq!(said(&scripted(yaml), &[user("go"), answer(), user("on")]).await.unwrap(), "more");
    }

    const CALL: &str = r#"
turns:
  - thinking: é
    text: So
    calls: [{ tool: insert_content, params: { path: a.rs, line: 0, content: "x é\n" } }]
    chunk: 1
    usage: { tokensIn: 5 }
"#;

    #[tokio::test]
    async fn a_call_is_native_or_tags_as_the_request_wants_it() {
        let model = scripted(CALL);
        let mut text = String::new();
        let mut arguments = String::new();
        let mut rest = Vec::new();
        for output in ask(&model, ToolProtocol::Native, &[user("go")]).await {
            match output.unwrap() {
                Output::Event(StreamEvent::Text(piece)) => text.push_str(&piece),
                Output::Event(StreamEvent::CallArguments { text, .. }) => arguments.push_str(&text),
                other => rest.push(other),
            }
        }
        assert_eq!(text, "So");
        assert_eq!(arguments, r#"{"path":"a.rs","line":0,"content":"x é\n"}"#);
        let (id, name) = ("scripted-0-0".into(), "insert_content".into());
        assert_eq!(
            rest,
            [
                Output::Event(StreamEvent::Thinking("é".into())),
                Output::Event(StreamEvent::ThinkingEnd(None)),
                Output::Event(StreamEvent::CallStart { index: 0, id, name }),
                Output::Event(StreamEvent::CallEnd { index: 0 }),
                Output::Usage(Usage { tokens_in: 5, ..Usage::default() }),
                Output::Finished(Finish::Done),
            ]
        );
        let mut text = String::new();
        for output in ask(&model, ToolProtocol::Xml, &[user("go")]).await {
            if let Output::Event(StreamEvent::Text(piece)) = output.unwrap() {
                text.push_str(&piece);
            }
        }
        assert_eq!(
            text,
            "So\n\n<insert_content>\n<path>a.rs</path>\n<line>0</line>\n<content>\nx é\n\n</content>\n</insert_content>"
        );
    }

    #[test]
    fn a_wrong_script_is_refused_with_the_line() {
        for (yaml, words) in [
            ("turns:\n  - text: a\n  - calls:\n      - tool: fly\n", ["no tool named 'fly'", "line 4"]),
            ("turns:\n  - text: a\n    fial: cut\n", ["fial", "line 3"]),
            ("turns:\n  - when: { contains: { a: 1 } }\n", ["a string or a list of strings", "line 2"]),
            ("turns:\n  - text: [\n", ["test.yaml", "line"]),
        ] {
            let error = Script::parse("test.yaml", yaml).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Configuration);
            for words in words {
                assert!(error.message.contains(words), "{words}: {error}");
            }
        }
    }
}
