//! The conversation with the model.
//!
//! What the program puts around the user's words (`<user_message>`, before that `<task>`, `<feedback>` and `<answer>`) is
//! taken off, and environment details, which were true then, are left out. Messages that a truncation hid are there again, as
//! the reader has bounds of its own; its markers are not.

use serde_json::{Map, Value, json};

use super::item::count;
use super::{
    AnswerPart, CONVERSATION_FILES, InputPart, PastCall, PastContent, PastMessage, PastResult, TaskError,
    is_time,
};

/// Tags around the user's words, the newest first.
const WORDS: [&str; 4] = ["user_message", "task", "feedback", "answer"];
/// Tag around facts of the moment.
const ENVIRONMENT: &str = "environment_details";
/// Beginnings of the headings that name the folder, up to the folder. ` Files` follows it.
const FOLDER_HEADINGS: [&str; 2] = ["# Current Workspace Directory (", "# Current Working Directory ("];
/// Prefix of data URLs.
const DATA: &str = "data:";

/// A conversation, and what its environment details say.
pub(super) struct Conversation {
    pub(super) messages: Vec<PastMessage>,
    /// The workspace folder.
    pub(super) folder: Option<String>,
    /// The slug of the mode, by the last of them.
    pub(super) mode: Option<String>,
}

impl Conversation {
    /// Reads the file. What is of no known kind is left out.
    pub(super) fn read(value: &Value) -> Result<Self, TaskError> {
        let messages = value.as_array().or_else(|| value.get("messages")?.as_array());
        let messages = messages.ok_or(TaskError::Shape { file: CONVERSATION_FILES[0] })?;
        let mut read = Self { messages: vec![], folder: None, mode: None };
        for message in messages.iter().filter_map(Value::as_object) {
            if message.get("isTruncationMarker") == Some(&json!(true)) {
                continue;
            }
            let content = read.content(message);
            let at = i64::try_from(count(message.get("ts"))).ok().filter(is_time);
            read.messages.extend(content.map(|content| PastMessage { at, content }));
        }
        read.set_first_words();
        Ok(read)
    }

    fn content(&mut self, message: &Map<String, Value>) -> Option<PastContent> {
        let role = message.get("role").and_then(Value::as_str)?;
        let only;
        let blocks = match message.get("content")? {
            Value::String(text) => {
                only = [json!({ "type": "text", "text": text })];
                &only[..]
            }
            Value::Array(blocks) => blocks.as_slice(),
            _ => return None,
        };
        let is_summary = message.get("isSummary") == Some(&json!(true)) && message.contains_key("condenseId");
        match role {
            _ if is_summary => {
                let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
                let texts: Vec<String> = texts.map(|text| self.without_environment(text)).collect();
                let text = texts.join("\n\n").trim().to_owned();
                (!text.is_empty()).then_some(PastContent::Summary(text))
            }
            "user" | "tool" => {
                let parts: Vec<InputPart> = blocks.iter().flat_map(|block| self.input(block)).collect();
                (!parts.is_empty()).then_some(PastContent::Input(parts))
            }
            "assistant" => {
                let parts: Vec<AnswerPart> = blocks.iter().filter_map(answer).collect();
                (!parts.is_empty()).then_some(PastContent::Answer(parts))
            }
            _ => None,
        }
    }

    fn input(&mut self, block: &Value) -> Vec<InputPart> {
        match kind(block) {
            "text" => match block.get("text").and_then(Value::as_str) {
                Some(text) => input_texts(&self.without_environment(text)),
                None => vec![],
            },
            "image" => image(block).map(InputPart::Image).into_iter().collect(),
            "tool_result" => vec![InputPart::Result(PastResult {
                is_error: block.get("is_error") == Some(&json!(true)),
                ..self.result(block.get("tool_use_id"), block.get("content"))
            })],
            "tool-result" => {
                let output = block.get("output");
                let (kind, value) = match output.and_then(Value::as_object) {
                    Some(output) => (output.get("type").and_then(Value::as_str), output.get("value")),
                    None => (None, output),
                };
                let result = self.result(block.get("toolCallId"), value);
                let is_error = kind.is_some_and(|kind| kind.starts_with("error"))
                    || result.text.trim_start().starts_with("[ERROR]");
                vec![InputPart::Result(PastResult { is_error, ..result })]
            }
            _ => vec![],
        }
    }

    /// A result of this content, as of a call that was successful.
    fn result(&mut self, call: Option<&Value>, content: Option<&Value>) -> PastResult {
        let (mut texts, mut images) = (Vec::new(), Vec::new());
        match content {
            Some(Value::String(text)) => texts.push(self.without_environment(text)),
            Some(Value::Array(blocks)) => {
                for block in blocks {
                    let text = block.get("text").or_else(|| block.get("value")).and_then(Value::as_str);
                    texts.extend(text.map(|text| self.without_environment(text)));
                    images.extend(image(block).filter(|_| kind(block) == "image"));
                }
            }
            Some(Value::Null) | None => {}
            Some(other) => texts.push(other.to_string()),
        }
        let call = call.and_then(Value::as_str).unwrap_or_default().to_owned();
        PastResult { call, text: texts.join("\n\n"), images, is_error: false }
    }

    /// A text without environment details, of which is kept what says where the task is at work.
    fn without_environment(&mut self, text: &str) -> String {
        let (open, close) = (format!("<{ENVIRONMENT}>"), format!("</{ENVIRONMENT}>"));
        // Further on, the words quote some.
        let Some(start) = text.find(&open).filter(|start| *start == 0 || text[..*start].ends_with('\n'))
        else {
            return text.to_owned();
        };
        let end = text[start..].find(&close).map_or(text.len(), |end| start + end + close.len());
        let details = &text[start..end];
        if self.folder.is_none() {
            self.folder = FOLDER_HEADINGS.iter().find_map(|heading| {
                let (_, rest) = details.split_once(heading)?;
                let (folder, _) = rest.lines().next()?.rsplit_once(") Files")?;
                Some(folder.to_owned())
            });
        }
        let slug = details.split_once("<slug>").and_then(|(_, rest)| rest.split_once("</slug>"));
        if let Some((slug, _)) = slug.filter(|(slug, _)| !slug.trim().is_empty()) {
            self.mode = Some(slug.trim().to_owned());
        }
        format!("{}{}", text[..start].trim_end(), &text[end..])
    }

    /// Takes the first text for the prompt where nothing says what the user said.
    fn set_first_words(&mut self) {
        let Some(PastMessage { content: PastContent::Input(parts), .. }) = self.messages.first_mut() else {
            return;
        };
        if parts.iter().any(|part| matches!(part, InputPart::Words(_))) {
            return;
        }
        if let Some(part) = parts.iter_mut().find(|part| matches!(part, InputPart::Text(_)))
            && let InputPart::Text(text) = part
        {
            *part = InputPart::Words(std::mem::take(text));
        }
    }
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The user's words in a text, and the rest of it.
pub(super) fn input_texts(text: &str) -> Vec<InputPart> {
    let text = text.trim();
    let found = WORDS.iter().find_map(|tag| {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        // Some versions put a sentence before the words.
        let follows_text = matches!(*tag, "user_message" | "feedback");
        let begins = |start: &usize| *start == 0 || follows_text && text[..*start].ends_with('\n');
        let start = text.find(&open).filter(begins)?;
        let inner = start + open.len();
        // The words may name the tag themselves.
        let end = text.rfind(&close).filter(|end| *end >= inner)?;
        Some((&text[..start], &text[inner..end], &text[end + close.len()..]))
    });
    let Some((before, words, after)) = found else {
        return told(text).into_iter().collect();
    };
    let words =
        Some(words.trim()).filter(|words| !words.is_empty()).map(|words| InputPart::Words(words.to_owned()));
    told(before).into_iter().chain(words).chain(told(after)).collect()
}

/// What the program told the model, unless it is empty.
fn told(text: &str) -> Option<InputPart> {
    let text = text.trim();
    (!text.is_empty()).then(|| InputPart::Text(text.to_owned()))
}

/// The part of an answer that a block is, in the shape of Anthropic's messages or the AI SDK's; none for what is empty or unknown.
pub(crate) fn answer(block: &Value) -> Option<AnswerPart> {
    let text = |key: &str| {
        let text = block.get(key)?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    match kind(block) {
        "text" => text("text").map(AnswerPart::Text),
        "reasoning" | "thinking" => text("text").or_else(|| text("thinking")).map(AnswerPart::Thinking),
        "tool_use" => call(text("id"), text("name"), block.get("input")),
        "tool-call" => call(text("toolCallId"), text("toolName"), block.get("input")),
        _ => None,
    }
}

fn call(id: Option<String>, name: Option<String>, input: Option<&Value>) -> Option<AnswerPart> {
    let params = input.and_then(Value::as_object).cloned().unwrap_or_default();
    Some(AnswerPart::Call(PastCall { id: id.unwrap_or_default(), name: name?, params }))
}

/// The data URL of an image.
pub(crate) fn image(block: &Value) -> Option<String> {
    let field = |object: &Value, key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(source) = block.get("source") {
        let (kind, data) = (field(source, "media_type")?, field(source, "data")?);
        return Some(format!("{DATA}{kind};base64,{data}"));
    }
    let data = field(block, "image")?;
    if data.starts_with(DATA) {
        return Some(data);
    }
    Some(format!("{DATA}{};base64,{data}", field(block, "mediaType")?))
}

/// Writes the conversation as the newest versions with an array have it.
pub(super) fn to_json(messages: &[PastMessage], created_at: i64) -> Value {
    let mut written: Vec<Value> = vec![];
    let mut at = created_at;
    for (index, message) in messages.iter().enumerate() {
        at = message.at.unwrap_or(at);
        let (role, blocks) = match &message.content {
            PastContent::Input(parts) => ("user", parts.iter().filter_map(input_block).collect::<Vec<_>>()),
            PastContent::Answer(parts) => ("assistant", parts.iter().map(answer_block).collect()),
            PastContent::Summary(text) => {
                let id = format!("summary-{index}");
                for hidden in written.iter_mut().filter(|message| message.get("condenseParent").is_none()) {
                    hidden["condenseParent"] = id.as_str().into();
                }
                let content = [json!({ "type": "text", "text": text })];
                written.push(
                    json!({ "role": "user", "content": content, "ts": at, "isSummary": true, "condenseId": id }),
                );
                continue;
            }
        };
        // Endpoints want turns to alternate.
        let last = written.last_mut().filter(|last| last["role"] == role && last.get("isSummary").is_none());
        match last.and_then(|last| last["content"].as_array_mut()) {
            Some(content) => content.extend(blocks),
            None => written.push(json!({ "role": role, "content": blocks, "ts": at })),
        }
    }
    Value::Array(written)
}

fn input_block(part: &InputPart) -> Option<Value> {
    Some(match part {
        InputPart::Words(words) => {
            let tag = WORDS[0];
            json!({ "type": "text", "text": format!("<{tag}>\n{words}\n</{tag}>") })
        }
        InputPart::Text(text) => json!({ "type": "text", "text": text }),
        InputPart::Image(url) => image_block(url)?,
        InputPart::Result(PastResult { call, text, images, is_error }) => {
            let images: Vec<Value> = images.iter().filter_map(|url| image_block(url)).collect();
            let content = match images.is_empty() {
                true => json!(text),
                false => {
                    let texts = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
                    Value::Array(texts.into_iter().chain(images).collect())
                }
            };
            let mut block = json!({ "type": "tool_result", "tool_use_id": call, "content": content });
            if *is_error {
                block["is_error"] = true.into();
            }
            block
        }
    })
}

/// The block of an image; none for an address that isn't its data.
fn image_block(url: &str) -> Option<Value> {
    let (kind, data) = url.strip_prefix(DATA)?.split_once(";base64,")?;
    Some(json!({ "type": "image", "source": { "type": "base64", "media_type": kind, "data": data } }))
}

fn answer_block(part: &AnswerPart) -> Value {
    match part {
        AnswerPart::Text(text) => json!({ "type": "text", "text": text }),
        AnswerPart::Thinking(text) => json!({ "type": "reasoning", "text": text, "summary": [] }),
        AnswerPart::Call(PastCall { id, name, params }) => {
            json!({ "type": "tool_use", "id": id, "name": name, "input": params })
        }
    }
}
