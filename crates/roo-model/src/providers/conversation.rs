//! From neutral items to alternating messages: the part of rendering that all wire formats share.
//!
//! Here every call gets exactly one result, identifiers become what providers accept, and in the XML
//! protocol calls and results turn into text. Equal beginnings of a conversation give equal beginnings
//! of the rendered messages; that is what prompt caches need, and it lets rendering continue where it
//! stopped ([`Cut`]). Which messages are kept rendered is the business of `rendering`.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{AssistantBlock, Item, ModelRequest, ToolResult};
use roo_catalog::{OfferedTool, TagSpace, ToolCall, ToolName, ToolProtocol, tag_space};
use roo_protocol::event::ToolStatus;

/// The longest identifier that every provider takes.
const ID_LIMIT: usize = 40;
/// The longest tool name that every provider takes.
const NAME_LIMIT: usize = 64;

/// One message; user and assistant take turns.
#[derive(Debug, PartialEq)]
pub(super) enum Message<'a> {
    User(UserMessage<'a>),
    /// Never empty, and never of thinking alone.
    Assistant(Vec<AssistantPart<'a>>),
}

/// Message of the user's side.
#[derive(Debug, Default, PartialEq)]
pub(super) struct UserMessage<'a> {
    /// Results of native calls; providers want them before all else.
    pub(super) results: Vec<CallResult<'a>>,
    pub(super) parts: Vec<UserPart<'a>>,
    /// The part that changes with every request: in the last message, and where tails are kept.
    pub(super) tail: Option<&'a str>,
}

/// The result of one native call.
#[derive(Debug, PartialEq)]
pub(super) struct CallResult<'a> {
    pub(super) id: String,
    /// The tool's name as it was sent with the call.
    pub(super) name: String,
    pub(super) text: Cow<'a, str>,
    pub(super) is_error: bool,
    pub(super) images: Vec<Image<'a>>,
}

#[derive(Debug, PartialEq)]
pub(super) enum UserPart<'a> {
    Text(Cow<'a, str>),
    Image(Image<'a>),
}

/// An image from a base64 data URL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Image<'a> {
    pub(super) url: &'a str,
    pub(super) media_type: &'a str,
    pub(super) data: &'a str,
}

impl<'a> Image<'a> {
    fn parse(url: &'a str) -> Option<Self> {
        let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
        (media_type.starts_with("image/") && !data.is_empty()).then_some(Self { url, media_type, data })
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum AssistantPart<'a> {
    Text(Cow<'a, str>),
    /// The provider's own block, made by the model that is asked now.
    Thinking(&'a Value),
    Call {
        id: String,
        name: String,
        params: &'a Map<String, Value>,
    },
}

/// A tool as it is declared for native calls.
pub(super) struct ToolDeclaration {
    pub(super) name: String,
    pub(super) description: String,
    /// The JSON Schema of its parameters.
    pub(super) parameters: Value,
}

/// The tools that a request declares; none in the XML protocol.
pub(super) fn declared_tools(request: &ModelRequest) -> Vec<ToolDeclaration> {
    if request.protocol != ToolProtocol::Native {
        return Vec::new();
    }
    let declare = |tool: &OfferedTool| ToolDeclaration {
        name: tool.name().to_string(),
        description: tool.description().into_owned(),
        parameters: tool.schema().clone(),
    };
    request.tools.iter().map(declare).collect()
}

/// A place between two items of a conversation where everything before is rendered: the answer before it is
/// closed, and what follows begins a message of the user's side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    /// Number of items before it.
    pub(super) items: usize,
    /// Number of messages before it, of those that were rendered together.
    pub(super) messages: usize,
    /// Number of calls before it.
    calls: usize,
    /// The first of these calls that has no result yet.
    first_unanswered: usize,
}

/// The calls of a conversation as they are sent.
#[derive(Debug, Default)]
pub(super) struct SentCalls {
    calls: Vec<SentCall>,
    /// Sent ids, which must be unique.
    taken: HashSet<String>,
}

#[derive(Debug)]
struct SentCall {
    /// The engine's id.
    own_id: String,
    /// The id that is sent.
    id: String,
    name: String,
}

impl SentCalls {
    /// Forgets the calls behind a cut.
    pub(super) fn return_to(&mut self, cut: &Cut) {
        for call in self.calls.drain(cut.calls.min(self.calls.len())..) {
            self.taken.remove(&call.id);
        }
    }

    fn add(&mut self, call: &ToolCall) -> (String, String) {
        let (id, name) = (self.unique(call.id.as_str()), portable(&call.name, NAME_LIMIT));
        let own_id = call.id.as_str().to_owned();
        self.calls.push(SentCall { own_id, id: id.clone(), name: name.clone() });
        (id, name)
    }

    fn unique(&mut self, id: &str) -> String {
        let wanted = portable(id, ID_LIMIT);
        let mut id = wanted.clone();
        let mut number = 2_u32;
        while !self.taken.insert(id.clone()) {
            let suffix = format!("_{number}");
            id = format!("{}{suffix}", portable(&wanted, ID_LIMIT - suffix.len()));
            number += 1;
        }
        id
    }
}

/// The messages of the items behind a cut, and the further cuts between them. Thinking is kept where `origin` made
/// it. `sent` has the calls before the cut, and gets those behind it.
pub(super) fn messages<'a>(
    request: &'a ModelRequest,
    origin: &str,
    from: &Cut,
    sent: &mut SentCalls,
    keeps_tails: bool,
) -> (Vec<Message<'a>>, Vec<Cut>) {
    sent.return_to(from);
    let mut builder = Builder {
        protocol: request.protocol,
        leaves_out_images: request.leaves_out_images,
        messages: Vec::new(),
        user: UserMessage::default(),
        assistant: Vec::new(),
        first_call: sent.calls.len(),
        unanswered: (from.first_unanswered..sent.calls.len()).collect(),
        sent,
    };
    let mut cuts = Vec::new();
    for (index, item) in request.items.iter().enumerate().skip(from.items) {
        match item {
            Item::User { text, images } => {
                cuts.extend(builder.cut(index));
                builder.text(Cow::Borrowed(text));
                builder.images(images);
            }
            Item::Summary { text, images, .. } => {
                cuts.extend(builder.cut(index));
                builder.text(Cow::Borrowed(text));
                builder.images(images);
            }
            Item::Results { results } if results.is_empty() => {}
            Item::Results { results } => {
                cuts.extend(builder.cut(index));
                results.iter().for_each(|result| builder.result(result));
            }
            Item::Assistant { blocks, tail } => {
                if let Some(tail) = tail.as_ref().filter(|_| keeps_tails) {
                    builder.tail(tail);
                }
                builder.assistant(blocks, origin);
            }
        }
    }
    (builder.finish(request.tail.as_deref()), cuts)
}

/// Collects a user message and the answer to it before both are closed: an answer of foreign thinking
/// alone vanishes, and its neighbours become one message.
struct Builder<'a, 's> {
    protocol: ToolProtocol,
    leaves_out_images: bool,
    messages: Vec<Message<'a>>,
    user: UserMessage<'a>,
    assistant: Vec<AssistantPart<'a>>,
    sent: &'s mut SentCalls,
    /// The first of the sent calls that is one of `assistant`.
    first_call: usize,
    /// The calls of the answer before, as long as they have no result; indices of sent calls.
    unanswered: Vec<usize>,
}

impl<'a> Builder<'a, '_> {
    /// Closes the model's answer before an item of the user's side, if there is one to close.
    fn cut(&mut self, items: usize) -> Option<Cut> {
        let first_unanswered = self.first_call;
        if !self.close_answer() {
            return None;
        }
        let (messages, calls) = (self.messages.len(), self.sent.calls.len());
        Some(Cut { items, messages, calls, first_unanswered })
    }

    /// The request that was answered next had this tail.
    fn tail(&mut self, tail: &'a str) {
        self.close_answer();
        self.user.tail = Some(tail).filter(|tail| !tail.trim().is_empty());
    }

    /// What follows is the user's. An answer that is not sent leaves the message before it open, and its tail with it.
    fn continue_user(&mut self) {
        self.close_answer();
        self.user.tail = None;
    }

    fn text(&mut self, text: Cow<'a, str>) {
        self.continue_user();
        // Providers refuse blocks without visible text.
        if !text.trim().is_empty() {
            self.user.parts.push(UserPart::Text(text));
        }
    }

    fn images(&mut self, urls: &'a [String]) {
        if let Some(note) = self.instead_of_images(urls.len()) {
            return self.text(Cow::Owned(note));
        }
        for url in urls {
            match Image::parse(url) {
                Some(image) => self.user.parts.push(UserPart::Image(image)),
                None => self.text(Cow::Borrowed("(An image is left out: it is no base64 data URL.)")),
            }
        }
    }

    /// What is sent in place of images; none where they are sent.
    fn instead_of_images(&self, count: usize) -> Option<String> {
        let images = if count == 1 { "An image is" } else { "Images are" };
        (self.leaves_out_images && count > 0)
            .then(|| format!("({images} left out: this model takes no images.)"))
    }

    fn result(&mut self, result: &'a ToolResult) {
        self.continue_user();
        let is_its_call = |index: &usize| self.sent.calls[*index].own_id == result.call_id.as_str();
        let Some(place) = self.unanswered.iter().position(is_its_call) else {
            // In the XML protocol, and where the call was dropped from the conversation.
            self.text(Cow::Owned(format!("{} Result:\n{}", header(result), body(result))));
            self.images(&result.images);
            return;
        };
        let SentCall { id, name, .. } = &self.sent.calls[self.unanswered.remove(place)];
        let (id, name) = (id.clone(), name.clone());
        let is_error =
            matches!(result.status, ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Interrupted);
        let (text, images) = match self.instead_of_images(result.images.len()) {
            Some(note) => (Cow::Owned(format!("{}\n{note}", body(result))), Vec::new()),
            None => (body(result), result.images.iter().filter_map(|url| Image::parse(url)).collect()),
        };
        self.user.results.push(CallResult { id, name, text, is_error, images });
    }

    fn assistant(&mut self, blocks: &'a [AssistantBlock], origin: &str) {
        for block in blocks {
            match block {
                AssistantBlock::Text { text } => self.answer_text(Cow::Borrowed(text)),
                AssistantBlock::Thinking { opaque: Some(own), origin: maker, .. } if maker == origin => {
                    self.assistant.push(AssistantPart::Thinking(own));
                }
                AssistantBlock::Thinking { .. } => {}
                AssistantBlock::Call { call } if self.protocol == ToolProtocol::Native => {
                    let (id, name) = self.sent.add(call);
                    self.assistant.push(AssistantPart::Call { id, name, params: &call.params });
                }
                AssistantBlock::Call { call } => {
                    self.answer_text(Cow::Owned(tags(&call.name, &call.params)));
                }
            }
        }
    }

    fn answer_text(&mut self, text: Cow<'a, str>) {
        if text.trim().is_empty() {
            return;
        }
        match self.assistant.last_mut() {
            Some(AssistantPart::Text(before)) => {
                let before = before.to_mut();
                before.push_str("\n\n");
                before.push_str(&text);
            }
            _ => self.assistant.push(AssistantPart::Text(text)),
        }
    }

    /// Ends the model's answer: what follows is the user's. Returns whether there was one to be sent.
    fn close_answer(&mut self) -> bool {
        let assistant = std::mem::take(&mut self.assistant);
        if assistant.iter().all(|part| matches!(part, AssistantPart::Thinking(_))) {
            return false;
        }
        self.close_user(None);
        self.messages.push(Message::Assistant(assistant));
        self.unanswered = (self.first_call..self.sent.calls.len()).collect();
        self.first_call = self.sent.calls.len();
        true
    }

    fn close_user(&mut self, tail: Option<&'a str>) {
        for index in self.unanswered.drain(..) {
            let SentCall { id, name, .. } = &self.sent.calls[index];
            let (id, name) = (id.clone(), name.clone());
            let text = Cow::Borrowed("The call was interrupted before it gave a result.");
            self.user.results.push(CallResult { id, name, text, is_error: true, images: Vec::new() });
        }
        let user = std::mem::take(&mut self.user);
        let user = UserMessage { tail: tail.or(user.tail), ..user };
        if user != UserMessage::default() {
            self.messages.push(Message::User(user));
        }
    }

    fn finish(mut self, tail: Option<&'a str>) -> Vec<Message<'a>> {
        self.close_answer();
        self.close_user(tail.filter(|tail| !tail.trim().is_empty()));
        self.messages
    }
}

/// An identifier of letters, digits, `_` and `-` only, as Anthropic and OpenAI demand.
fn portable(text: &str, limit: usize) -> String {
    let accepted = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let text: String = text.chars().map(accepted).take(limit).collect();
    if text.is_empty() { "_".to_owned() } else { text }
}

fn header(result: &ToolResult) -> String {
    if result.subject.is_empty() {
        format!("[{}]", result.name)
    } else {
        format!("[{} for '{}']", result.name, result.subject)
    }
}

/// Returns the text of a result for the model, in both protocols.
fn body(result: &ToolResult) -> Cow<'_, str> {
    let said = !result.text.trim().is_empty();
    let (sentence, tag) = match result.status {
        ToolStatus::Ok if said => return Cow::Borrowed(&result.text),
        ToolStatus::Ok => return Cow::Borrowed("(The tool gave no output.)"),
        ToolStatus::Skipped if said => return Cow::Borrowed(&result.text),
        ToolStatus::Skipped => return Cow::Borrowed("The call was not run."),
        ToolStatus::Failed => ("The call failed.", "error"),
        ToolStatus::Denied => ("The call was refused; it had no effect.", "feedback"),
        ToolStatus::Interrupted => {
            ("The call was interrupted; whether it had an effect is not known.", "output")
        }
    };
    if said {
        Cow::Owned(format!("{sentence}\n<{tag}>\n{}\n</{tag}>", result.text))
    } else {
        Cow::Borrowed(sentence)
    }
}

/// A call as XML-like tags.
pub(super) fn tags(name: &str, params: &Map<String, Value>) -> String {
    let tool = ToolName::parse(name);
    let mut text = format!("<{name}>\n");
    for (parameter, value) in params {
        let value = match value {
            Value::String(value) => Cow::Borrowed(value.as_str()),
            other => Cow::Owned(other.to_string()),
        };
        // The parser takes these from the value again.
        let (first, last) = match tool.map_or(TagSpace::Blank, |tool| tag_space(tool, parameter)) {
            TagSpace::Blank => ("", ""),
            TagSpace::Newlines => ("\n", "\n"),
            TagSpace::FirstNewline => ("\n", ""),
        };
        text.push_str(&format!("<{parameter}>{first}{value}{last}</{parameter}>\n"));
    }
    text.push_str(&format!("</{name}>"));
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::super::Rendered;
    use super::*;
    use roo_protocol::ids::ToolCallId;

    fn user(text: &str) -> Item {
        Item::User { text: text.into(), images: Vec::new() }
    }

    fn call(id: &str) -> AssistantBlock {
        let params = json!({ "path": "a.rs" }).as_object().cloned().unwrap();
        let call = ToolCall {
            id: ToolCallId::new(id),
            name: "list_files".into(),
            params,
            problem: None,
            note: None,
        };
        AssistantBlock::Call { call }
    }

    fn answer(blocks: impl Into<Vec<AssistantBlock>>) -> Item {
        Item::Assistant { blocks: blocks.into(), tail: None }
    }

    fn result(id: &str, status: ToolStatus, text: &str) -> ToolResult {
        ToolResult {
            call_id: ToolCallId::new(id),
            name: "list_files".into(),
            subject: "a.rs".into(),
            status,
            text: text.into(),
            images: Vec::new(),
        }
    }

    fn results(results: impl Into<Vec<ToolResult>>) -> Item {
        Item::Results { results: results.into() }
    }

    fn request(protocol: ToolProtocol, items: Vec<Item>) -> ModelRequest {
        ModelRequest {
            system: "".into(),
            items: items.into(),
            rendered: Rendered::default(),
            tail: None,
            tools: Arc::new([]),
            protocol,
            mode: "code".into(),
            max_tokens: None,
            leaves_out_images: false,
        }
    }

    fn all_messages(request: &ModelRequest) -> Vec<Message<'_>> {
        messages(request, "p/m", &Cut::default(), &mut SentCalls::default(), false).0
    }

    /// Each message on a line: role, result ids with `!` for errors, and how many other parts.
    fn outline(items: Vec<Item>) -> Vec<String> {
        let request = request(ToolProtocol::Native, items);
        let line = |message: Message<'_>| match message {
            Message::User(user) => {
                let ids = user
                    .results
                    .iter()
                    .map(|result| format!("{}{} ", result.id, if result.is_error { "!" } else { "" }));
                format!("user {}+{}", ids.collect::<String>(), user.parts.len())
            }
            Message::Assistant(parts) => {
                let ids = parts.iter().map(|part| match part {
                    AssistantPart::Call { id, .. } => format!(" {id}"),
                    AssistantPart::Text(_) => " text".to_owned(),
                    AssistantPart::Thinking(_) => " thinking".to_owned(),
                });
                format!("assistant{}", ids.collect::<String>())
            }
        };
        all_messages(&request).into_iter().map(line).collect()
    }

    #[test]
    fn every_call_gets_exactly_one_result() {
        let items = vec![
            user("go"),
            answer([call("a"), call("b")]),
            results([result("b", ToolStatus::Ok, "1"), result("b", ToolStatus::Ok, "again")]),
            answer([call("c")]),
        ];
        assert_eq!(outline(items), ["user +1", "assistant a b", "user b a! +1", "assistant c", "user c! +0"]);
    }

    #[test]
    fn ids_become_portable_and_stay_unique() {
        let long = "x".repeat(60);
        let items = vec![
            answer([call("a.b"), call("a/b"), call("é"), call(""), call(&long), call(&long)]),
            results([result("a/b", ToolStatus::Failed, "no")]),
        ];
        let x = "x".repeat(40);
        let y = format!("{}_2", "x".repeat(38));
        assert_eq!(
            outline(items),
            [format!("assistant a_b a_b_2 _ __2 {x} {y}"), format!("user a_b_2! a_b! _! __2! {x}! {y}! +0")]
        );
    }

    #[test]
    fn an_answer_of_foreign_or_lone_thinking_vanishes_and_its_neighbours_merge() {
        let thinking = |origin: &str| AssistantBlock::Thinking {
            text: "hm".into(),
            opaque: Some(json!({ "type": "thinking" })),
            origin: origin.into(),
        };
        let items = vec![
            user("a"),
            answer([thinking("other/m")]),
            user("b"),
            answer([thinking("p/m")]),
            user("c"),
            answer([thinking("other/m"), AssistantBlock::Text { text: "yes".into() }]),
            user("d"),
            answer([thinking("p/m"), AssistantBlock::Text { text: "yes".into() }]),
        ];
        assert_eq!(outline(items), ["user +3", "assistant text", "user +1", "assistant thinking text"]);
    }

    #[test]
    fn a_result_comes_before_what_the_user_said_meanwhile() {
        let items = vec![answer([call("a")]), user("stop"), results([result("a", ToolStatus::Ok, "1")])];
        assert_eq!(outline(items), ["assistant a", "user a +1"]);
    }

    #[test]
    fn a_result_says_how_it_ended() {
        let text = |status, text| body(&result("a", status, text)).into_owned();
        assert_eq!(text(ToolStatus::Ok, "out"), "out");
        assert_eq!(text(ToolStatus::Ok, " \n"), "(The tool gave no output.)");
        assert_eq!(text(ToolStatus::Failed, "why"), "The call failed.\n<error>\nwhy\n</error>");
        assert_eq!(text(ToolStatus::Denied, ""), "The call was refused; it had no effect.");
        assert_eq!(
            text(ToolStatus::Denied, "not now"),
            "The call was refused; it had no effect.\n<feedback>\nnot now\n</feedback>"
        );
    }

    #[test]
    fn in_the_xml_protocol_calls_and_results_are_text() {
        let params = json!({ "path": "a.rs", "content": "x\n", "line": 3 }).as_object().cloned().unwrap();
        let call = ToolCall {
            id: ToolCallId::new("1"),
            name: "insert_content".into(),
            params,
            problem: None,
            note: None,
        };
        let items = vec![
            answer([AssistantBlock::Text { text: "So:".into() }, AssistantBlock::Call { call }]),
            results([result("1", ToolStatus::Ok, "done")]),
        ];
        let request = request(ToolProtocol::Xml, items);
        let rendered = all_messages(&request);
        let tags = "So:\n\n<insert_content>\n<path>a.rs</path>\n<content>\nx\n\n</content>\n<line>3</line>\n</insert_content>";
        let text = "[list_files for 'a.rs'] Result:\ndone";
        assert_eq!(
            rendered,
            [
                Message::Assistant(vec![AssistantPart::Text(tags.into())]),
                Message::User(UserMessage {
                    parts: vec![UserPart::Text(text.into())],
                    ..UserMessage::default()
                }),
            ]
        );
    }

    #[test]
    fn what_can_not_be_sent_is_left_out_or_said() {
        let images = vec!["data:image/png;base64,AAAA".to_owned(), "https://example.com/a.png".to_owned()];
        let items = vec![Item::User { text: "  ".into(), images }];
        let request = ModelRequest { tail: Some(" ".into()), ..request(ToolProtocol::Native, items) };
        let rendered = all_messages(&request);
        let [Message::User(user)] = rendered.as_slice() else { panic!("{rendered:?}") };
        assert!(matches!(user.parts[..], [UserPart::Image(_), UserPart::Text(_)]));
        assert_eq!(user.tail, None);
    }
}
