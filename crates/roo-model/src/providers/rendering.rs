//! Cache of a conversation in the form in which it is sent, so that a request costs what is new in it.
//!
//! How a message looks is the business of each wire format, and which messages items become that of `conversation`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::conversation::{self, Cut, Message, SentCalls};
use super::http_format::{HttpFormat, RequestOptions};
use super::{Item, ModelRequest};
use roo_catalog::ToolProtocol;

/// Cache of one conversation, as rendered for its requests. Belongs to whoever makes them; without it, or after another
/// model was asked, all of the conversation is rendered again.
#[derive(Clone, Debug, Default)]
pub struct Rendered(Arc<Mutex<Option<Rendering>>>);

impl Rendered {
    /// The body of a request, as its wire format has it.
    pub(super) fn body(
        &self,
        format: &dyn HttpFormat,
        request: &ModelRequest,
        options: &RequestOptions,
    ) -> Vec<u8> {
        let mut kept = self.kept();
        let rendering = match kept.take() {
            Some(rendering) if rendering.fits(request, options) => rendering,
            _ => Rendering::new(request, options),
        };
        let rendering = kept.insert(rendering);
        let open = rendering.continue_with(format, request, options);
        assemble(format, request, options, &[&rendering.text, &open])
    }

    fn kept(&self) -> MutexGuard<'_, Option<Rendering>> {
        // Should rendering have panicked, what is kept may be half of it.
        self.0.lock().unwrap_or_else(|poisoned| {
            self.0.clear_poison();
            let mut kept = PoisonError::into_inner(poisoned);
            *kept = None;
            kept
        })
    }
}

/// A conversation in the form of one wire format.
#[derive(Debug)]
struct Rendering {
    /// Protocol that it was rendered for.
    protocol: ToolProtocol,
    leaves_out_images: bool,
    origin: String,
    /// The items of the newest request.
    items: Vec<Arc<Item>>,
    /// Entries of the list of messages, with commas between them: those that no later item changes.
    text: String,
    /// The cuts up to the end of that text, and where they are in it.
    cuts: Vec<(Cut, usize)>,
    sent: SentCalls,
}

impl Rendering {
    fn new(request: &ModelRequest, options: &RequestOptions) -> Self {
        Self {
            protocol: request.protocol,
            leaves_out_images: request.leaves_out_images,
            origin: options.origin.clone(),
            items: Vec::new(),
            text: String::new(),
            cuts: vec![(Cut::default(), 0)],
            sent: SentCalls::default(),
        }
    }

    fn fits(&self, request: &ModelRequest, options: &RequestOptions) -> bool {
        self.protocol == request.protocol
            && self.leaves_out_images == request.leaves_out_images
            && self.origin == options.origin
    }

    /// Renders what is new. Returns the entries that are not kept: those that the next items may change.
    fn continue_with(
        &mut self,
        format: &dyn HttpFormat,
        request: &ModelRequest,
        options: &RequestOptions,
    ) -> String {
        let users = |messages: &[Message<'_>]| {
            messages.iter().filter(|message| matches!(message, Message::User(_))).count()
        };
        let marks = format.marked_messages(options);
        let keeps_tails = format.keeps_tails(options);
        self.forget_changed(request);
        let (messages, cuts) = loop {
            let from = self.last_cut();
            let rendered = conversation::messages(request, &self.origin, &from, &mut self.sent, keeps_tails);
            // Where items were removed, a message that is kept without its mark may be among the marked ones again.
            if users(&rendered.0) >= marks || self.cuts.len() <= 1 {
                break rendered;
            }
            self.cuts.pop();
        };
        // Marked messages are rendered again without their mark.
        let kept = cuts.iter().rposition(|cut| users(&messages[cut.messages..]) >= marks);
        let mut cuts = cuts[..kept.map_or(0, |last| last + 1)].iter().peekable();
        let mut unmarked = users(&messages).saturating_sub(marks);
        let mut open = String::new();
        for (index, message) in messages.into_iter().enumerate() {
            let is_user = matches!(message, Message::User(_));
            let is_marked = is_user && unmarked == 0;
            unmarked = unmarked.saturating_sub(usize::from(is_user));
            let text = if cuts.peek().is_some() { &mut self.text } else { &mut open };
            for entry in format.message(message, options, is_marked) {
                append(text, &entry);
            }
            if let Some(cut) = cuts.next_if(|cut| cut.messages == index + 1) {
                self.cuts.push((*cut, self.text.len()));
            }
        }
        open
    }

    /// Forgets what was rendered after the last cut before the first item that is another one now.
    fn forget_changed(&mut self, request: &ModelRequest) {
        let pairs = self.items.iter().zip(request.items.shared());
        let common = pairs.take_while(|(one, other)| Arc::ptr_eq(one, other)).count();
        self.items.truncate(common);
        self.items.extend_from_slice(&request.items.shared()[common..]);
        // A cut also depends on the kind of the item behind it. The first one depends on nothing.
        while self.cuts.len() > 1 && self.cuts.last().is_some_and(|(cut, _)| cut.items >= common) {
            self.cuts.pop();
        }
    }

    /// The cut where rendering continues. Forgets what was rendered behind it.
    fn last_cut(&mut self) -> Cut {
        let (cut, length) = self.cuts.last().copied().unwrap_or_default();
        self.text.truncate(length);
        cut
    }
}

/// Appends an entry of a list.
fn append(text: &mut String, entry: &Value) {
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(&json_text(entry));
}

/// As its `Display` writes it, without a call through a formatter for each piece of a long text.
fn json_text(value: &Value) -> String {
    // The names of its fields are texts, so nothing can fail.
    serde_json::to_string(value).unwrap_or_default()
}

/// The body of a request with these entries in its list of messages.
fn assemble(
    format: &dyn HttpFormat,
    request: &ModelRequest,
    options: &RequestOptions,
    entries: &[&str],
) -> Vec<u8> {
    let frame = format.frame(request, options);
    let length: usize = entries.iter().map(|entries| entries.len()).sum();
    // Tools and the system prompt take some ten kilobytes.
    let mut body = Vec::with_capacity(length + (64 << 10));
    body.push(b'{');
    for (index, (field, value)) in frame.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(Value::from(field.as_str()).to_string().as_bytes());
        body.push(b':');
        let text = json_text(value);
        match value {
            Value::Array(first) if field == format.messages_field() => {
                body.extend_from_slice(text.strip_suffix(']').unwrap_or_default().as_bytes());
                let mut is_first = first.is_empty();
                for entries in entries.iter().filter(|entries| !entries.is_empty()) {
                    if !std::mem::take(&mut is_first) {
                        body.push(b',');
                    }
                    body.extend_from_slice(entries.as_bytes());
                }
                body.push(b']');
            }
            _ => body.extend_from_slice(text.as_bytes()),
        }
    }
    body.push(b'}');
    body
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{AssistantBlock, Items, ToolResult, anthropic, gemini, openai, responses};
    use super::*;
    use roo_catalog::{ToolCall, ToolName};
    use roo_formats::config::{Price, Reasoning};
    use roo_protocol::event::ToolStatus;
    use roo_protocol::ids::ToolCallId;

    const FORMATS: [(&str, &dyn HttpFormat); 6] = [
        ("anthropic/m", &anthropic::Messages),
        ("openai/m", &openai::ChatCompletions),
        ("openai+openai-responses/m", &responses::Responses),
        ("gemini/gemini-3-pro", &gemini::GenerateContent),
        // These keep tails.
        ("anthropic/claude-opus-5-5", &anthropic::Messages),
        ("openai+openai-responses/gpt-6.2-sol", &responses::Responses),
    ];

    fn options(origin: &str) -> RequestOptions {
        RequestOptions {
            origin: origin.to_owned(),
            model: origin.split_once('/').map_or("m", |(_, model)| model).to_owned(),
            host: "api.openai.com".into(),
            max_tokens: Some(4096),
            reasoning: Some(Reasoning::Low),
            temperature: None,
            prices: Price::default(),
        }
    }

    /// A request without a system prompt and tools.
    fn request(items: Items, tail: Option<String>) -> ModelRequest {
        ModelRequest {
            system: "".into(),
            items,
            rendered: Rendered::default(),
            tail,
            tools: Arc::new([]),
            protocol: ToolProtocol::Native,
            mode: "code".into(),
            max_tokens: None,
            leaves_out_images: false,
        }
    }

    /// What happens to a conversation between two requests, or such a request.
    #[derive(Clone, Debug)]
    enum Step {
        Push(Item),
        /// The results before an item become stubs.
        Reduce(usize),
        /// The newest item is taken back.
        Remove,
        Request {
            tail: Option<String>,
            protocol: ToolProtocol,
            system: String,
            format: Option<usize>,
        },
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![Just(String::new()), Just(" \n".to_owned()), "[a-z\"\\\\é\n]{1,12}"]
    }

    fn images() -> impl Strategy<Value = Vec<String>> {
        let image = prop_oneof![Just("data:image/png;base64,AAAA"), Just("https://example.com/a.png")];
        prop::collection::vec(image.prop_map(str::to_owned), 0..2)
    }

    fn id() -> impl Strategy<Value = ToolCallId> {
        prop_oneof!["[ab.]", "x{38,42}"].prop_map(ToolCallId::new)
    }

    fn block() -> impl Strategy<Value = AssistantBlock> {
        let origin = prop_oneof![Just("other/m"), Just("anthropic/m"), Just("gemini/gemini-3-pro")];
        prop_oneof![
            text().prop_map(|text| AssistantBlock::Text { text }),
            origin.prop_map(|origin| AssistantBlock::Thinking {
                text: "hm".into(),
                opaque: Some(json!({ "type": "thinking", "callSignature": "s" })),
                origin: origin.into(),
            }),
            (id(), text()).prop_map(|(id, path)| AssistantBlock::Call {
                call: ToolCall {
                    id,
                    name: "read_file".into(),
                    params: json!({ "path": path }).as_object().cloned().unwrap(),
                    problem: None,
                    note: None,
                },
            }),
        ]
    }

    fn result() -> impl Strategy<Value = ToolResult> {
        let status = prop_oneof![Just(ToolStatus::Ok), Just(ToolStatus::Failed), Just(ToolStatus::Skipped)];
        (id(), status, text(), images()).prop_map(|(call_id, status, text, images)| ToolResult {
            call_id,
            name: "read_file".into(),
            subject: "a".into(),
            status,
            text,
            images,
        })
    }

    fn item() -> impl Strategy<Value = Item> {
        prop_oneof![
            (text(), images()).prop_map(|(text, images)| Item::User { text, images }),
            (prop::collection::vec(block(), 1..4), prop::option::of(text())).prop_map(|(blocks, tail)| {
                Item::Assistant { blocks, tail: tail.map(String::into_boxed_str) }
            }),
            prop::collection::vec(result(), 0..4).prop_map(|results| Item::Results { results }),
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        let protocol = prop_oneof![9 => Just(ToolProtocol::Native), 1 => Just(ToolProtocol::Xml)];
        let system = prop_oneof![Just(String::new()), Just("You are a tester.".to_owned())];
        // Another model is asked now and then.
        let format = prop::option::weighted(0.1, 0..FORMATS.len());
        prop_oneof![
            6 => item().prop_map(Step::Push),
            1 => (0_usize..12).prop_map(Step::Reduce),
            1 => Just(Step::Remove),
            4 => (prop::option::of(text()), protocol, system, format)
                .prop_map(|(tail, protocol, system, format)| Step::Request { tail, protocol, system, format }),
        ]
    }

    /// As the engine does it: what doesn't change is shared.
    fn reduce(items: &mut Items, before: usize) {
        for index in 0..before.min(items.len()) {
            let Some(Item::Results { results }) = items.get(index) else { continue };
            if results.iter().any(|result| result.text.len() > 4 || !result.images.is_empty()) {
                let stub = |result: &ToolResult| ToolResult {
                    text: "stub".into(),
                    images: vec![],
                    ..result.clone()
                };
                let results = results.iter().map(stub).collect();
                items.replace(index, Item::Results { results });
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_continued_equals_what_is_rendered_at_once(
            steps in prop::collection::vec(step(), 1..40),
            first in 0..FORMATS.len(),
        ) {
            let rendered = Rendered::default();
            let mut items = Items::default();
            for step in steps {
                match step {
                    Step::Push(item) => items.push(item),
                    Step::Reduce(before) => reduce(&mut items, before),
                    Step::Remove => _ = items.remove(items.len().saturating_sub(1)),
                    Step::Request { tail, protocol, system, format } => {
                        let (origin, format) = FORMATS[format.unwrap_or(first)];
                        let request = ModelRequest {
                            system: system.into(),
                            items: items.clone(),
                            rendered: rendered.clone(),
                            tail,
                            tools: Arc::new([ToolName::ReadFile.into()]),
                            protocol,
                            mode: "code".into(),
                            max_tokens: None,
                            leaves_out_images: false,
                        };
                        let continued = rendered.body(format, &request, &options(origin));
                        let at_once = Rendered::default().body(format, &request, &options(origin));
                        prop_assert_eq!(String::from_utf8(continued), String::from_utf8(at_once.clone()));
                        let body: Value = serde_json::from_slice(&at_once)?;
                        prop_assert_eq!(at_once, body.to_string().into_bytes(), "it is JSON as serde writes it");
                    }
                }
            }
        }
    }

    #[test]
    fn a_message_that_is_among_the_marked_ones_again_is_rendered_anew() {
        let user = |text: &str| Item::User { text: text.into(), images: vec![] };
        let answer = |text: &str| Item::Assistant {
            blocks: vec![AssistantBlock::Text { text: text.into() }],
            tail: None,
        };
        // The tail is a user message of its own here, and the next request has none.
        let mut request = request(
            vec![user("a"), answer("x"), user("b"), answer("y")].into(),
            Some("The time is 12:00.".into()),
        );
        let (origin, format) = FORMATS[0];
        let rendered = Rendered::default();
        rendered.body(format, &request, &options(origin));
        request.tail = None;
        let continued = rendered.body(format, &request, &options(origin));
        let at_once = Rendered::default().body(format, &request, &options(origin));
        assert_eq!(String::from_utf8(continued), String::from_utf8(at_once));
    }

    #[test]
    fn a_model_that_checks_what_came_before_gets_each_tail_again_where_it_was() {
        let (origin, format) = ("anthropic/claude-opus-5-5", &anthropic::Messages);
        let user = |text: &str| Item::User { text: text.into(), images: vec![] };
        let answer = |text: &str, tail: &str| Item::Assistant {
            blocks: vec![
                AssistantBlock::Thinking {
                    text: String::new(),
                    opaque: Some(json!({ "type": "thinking", "thinking": "", "signature": text })),
                    origin: origin.into(),
                },
                AssistantBlock::Text { text: text.into() },
            ],
            tail: Some(tail.into()),
        };
        let ask = |items: &Items, tail: &str| -> Vec<Value> {
            let request = request(items.clone(), Some(tail.into()));
            let body = request.rendered.body(format, &request, &options(origin));
            let mut body: Value = serde_json::from_slice(&body).unwrap();
            let mut messages = std::mem::take(body["messages"].as_array_mut().unwrap());
            for block in messages.iter_mut().flat_map(|message| message["content"].as_array_mut().unwrap()) {
                // Where the provider's cache ends isn't part of the conversation.
                block.as_object_mut().unwrap().remove("cache_control");
            }
            messages
        };
        let mut items = Items::from(vec![user("a")]);
        let mut before = ask(&items, "It is 12:00.");
        for turn in 0..6 {
            items.push(answer(&format!("answer {turn}"), &format!("It is 12:0{turn}.")));
            items.push(user(&format!("user {turn}")));
            let messages = ask(&items, &format!("It is 12:0{}.", turn + 1));
            assert_eq!(messages[..before.len()], before, "turn {turn}");
            before = messages;
        }
        assert_eq!(before.last().unwrap()["content"][1]["text"], "It is 12:06.");
    }

    /// Removes the mark of the cache, which is no part of what a model reads. A text alone is the same as a list of it.
    fn without_mark(message: &mut Value) {
        for part in message["content"].as_array_mut().into_iter().flatten() {
            part.as_object_mut().unwrap().remove("cache_control");
        }
        if message["content"].is_string() {
            message["content"] = json!([{ "type": "text", "text": message["content"] }]);
        }
    }

    #[test]
    fn so_does_one_that_is_asked_by_another_format() {
        let responses =
            ("openai+openai-responses/gpt-6.2-sol", &responses::Responses as &dyn HttpFormat, "input");
        let gateway =
            ("openrouter/anthropic/claude-opus-5.5", &openai::ChatCompletions as &dyn HttpFormat, "messages");
        for (origin, format, field) in [responses, gateway] {
            let mut items = Items::from(vec![Item::User { text: "a".into(), images: vec![] }]);
            let mut before = Vec::<Value>::new();
            for turn in 0..4 {
                let tail = format!("It is 12:0{turn}.");
                let request = ModelRequest {
                    system: "You are a tester.".into(),
                    ..request(items.clone(), Some(tail.clone()))
                };
                let body = request.rendered.body(format, &request, &options(origin));
                let body: Value = serde_json::from_slice(&body).unwrap();
                let mut sent = body[field].as_array().unwrap().clone();
                sent.iter_mut().for_each(without_mark);
                assert_eq!(sent[..before.len()], before, "{origin}, turn {turn}");
                assert!(sent.last().unwrap().to_string().contains(&tail));
                before = sent;
                let reasoning = AssistantBlock::Thinking {
                    text: String::new(),
                    opaque: Some(json!({ "type": "reasoning", "id": "rs_1", "summary": [] })),
                    origin: origin.into(),
                };
                let text = AssistantBlock::Text { text: format!("answer {turn}") };
                items.push(Item::Assistant { blocks: vec![reasoning, text], tail: Some(tail.into()) });
                items.push(Item::User { text: format!("user {turn}"), images: vec![] });
            }
        }
    }

    /// Bytes of the entries that each of the requests of a long conversation renders.
    #[test]
    fn a_request_renders_what_is_new_however_long_the_conversation_is() {
        const TURNS: usize = 300;
        for (origin, format) in FORMATS {
            let options = options(origin);
            let mut rendering = None;
            let mut items = Items::default();
            let mut work = Vec::new();
            for turn in 0..TURNS {
                let call_id = ToolCallId::new(format!("call_{turn:04}"));
                let call = ToolCall {
                    id: call_id.clone(),
                    name: "read_file".into(),
                    params: json!({ "path": "a" }).as_object().cloned().unwrap(),
                    problem: None,
                    note: None,
                };
                items.push(Item::Assistant { blocks: vec![AssistantBlock::Call { call }], tail: None });
                let text = "x".repeat(1000);
                let (name, subject) = ("read_file".into(), "a".into());
                let result =
                    ToolResult { call_id, name, subject, status: ToolStatus::Ok, text, images: vec![] };
                items.push(Item::Results { results: vec![result] });
                let request = request(items.clone(), None);
                let rendering = rendering.get_or_insert_with(|| Rendering::new(&request, &options));
                let before = rendering.text.len();
                let open = rendering.continue_with(format, &request, &options);
                work.push(rendering.text.len() - before + open.len());
            }
            // The first requests have less before them.
            let work = &work[4..];
            assert!(work.iter().all(|bytes| *bytes == work[0]), "{origin}: {work:?}");
        }
    }
}
