//! Content of tools, resources and prompts, bounded and in types of our own.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{self, ContentBlock};
use serde_json::Value;

/// The most parts of a result.
const PARTS: usize = 1000;
/// The most text of a result, in bytes.
const TEXT: usize = 4 << 20;
/// The most bytes of one image, recording or file.
const MEDIA: usize = 8 << 20;
/// The most bytes of all media of a result together.
const ALL_MEDIA: usize = 16 << 20;
/// The longest address or name, in bytes.
const NAME: usize = 8 << 10;

#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// True if the server calls it an error of the tool.
    pub is_error: bool,
    /// The parts, in order.
    pub parts: Vec<Content>,
    /// The result as JSON, where the tool has an output schema.
    pub structured: Option<Value>,
    /// Content that was left out.
    pub omitted: Omitted,
}

/// One part of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Text(String),
    /// A picture.
    Image(Media),
    /// A recording.
    Audio(Media),
    /// A resource with its content.
    Resource(ResourceContent),
    /// A resource that can be read.
    Link(ResourceLink),
}

/// Bytes and what they are.
#[derive(Clone, PartialEq, Eq)]
pub struct Media {
    /// The type that the server claims, such as `image/png`.
    pub mime_type: String,
    /// The bytes.
    pub data: Arc<[u8]>,
}

impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Media({}, {} bytes)", self.mime_type, self.data.len())
    }
}

/// A resource with its content.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceContent {
    Text {
        /// Its address.
        uri: String,
        mime_type: Option<String>,
        text: String,
    },
    /// Bytes.
    Blob {
        /// Its address.
        uri: String,
        /// The bytes.
        media: Media,
    },
}

/// A resource that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceLink {
    /// Its address.
    pub uri: String,
    pub name: String,
    pub description: Option<String>,
    pub mime_type: Option<String>,
}

/// Parts that were left out of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Omitted {
    pub parts: usize,
    /// Bytes of text.
    pub text: usize,
    /// Bytes of images, recordings and files, as they would be decoded.
    pub media: usize,
    /// True if the structured content was too large.
    pub structured: bool,
    /// Those of the parts whose images, recordings or files are not written in base64.
    pub undecodable: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PromptMessage {
    /// In whose name.
    pub speaker: Speaker,
    /// Content of the message.
    pub content: Content,
}

/// In whose name a prompt's message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// The user's.
    User,
    /// The model's.
    Assistant,
}

/// Space that is left for a result.
struct Budget {
    parts: usize,
    text: usize,
    media: usize,
    omitted: Omitted,
}

impl Budget {
    fn new() -> Self {
        Self { parts: PARTS, text: TEXT, media: ALL_MEDIA, omitted: Omitted::default() }
    }

    fn part(&mut self) -> bool {
        if self.parts == 0 {
            self.omitted.parts += 1;
            return false;
        }
        self.parts -= 1;
        true
    }

    fn text(&mut self, mut text: String) -> String {
        if text.len() > self.text {
            let end = text.floor_char_boundary(self.text);
            self.omitted.text += text.len() - end;
            text.truncate(end);
        }
        self.text -= text.len();
        text
    }

    /// The bytes; none when they are too many or no base64.
    fn media(&mut self, encoded: &str, mime_type: Option<String>) -> Option<Media> {
        // Before anything is decoded.
        let size = encoded.len() / 4 * 3;
        if size > MEDIA.min(self.media) {
            self.omitted.media += size;
            return None;
        }
        let Ok(data) = decode(encoded) else {
            self.omitted.undecodable += 1;
            return None;
        };
        self.media -= data.len().min(self.media);
        let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
        Some(Media { mime_type: short(mime_type), data: data.into() })
    }

    fn resource(&mut self, contents: model::ResourceContents) -> Option<ResourceContent> {
        match contents {
            model::ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                let (uri, mime_type) = (short(uri), mime_type.map(short));
                Some(ResourceContent::Text { uri, mime_type, text: self.text(text) })
            }
            model::ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let media = self.media(&blob, mime_type)?;
                Some(ResourceContent::Blob { uri: short(uri), media })
            }
            _ => None,
        }
    }

    fn content(&mut self, block: ContentBlock) -> Option<Content> {
        if !self.part() {
            return None;
        }
        let content = match block {
            ContentBlock::Text(text) => Some(Content::Text(self.text(text.text))),
            ContentBlock::Image(image) => self.media(&image.data, Some(image.mime_type)).map(Content::Image),
            ContentBlock::Audio(audio) => self.media(&audio.data, Some(audio.mime_type)).map(Content::Audio),
            ContentBlock::Resource(embedded) => self.resource(embedded.resource).map(Content::Resource),
            ContentBlock::ResourceLink(link) => Some(Content::Link(ResourceLink {
                uri: short(link.uri),
                name: short(link.name),
                description: link.description.map(|text| self.text(text)),
                mime_type: link.mime_type.map(short),
            })),
            _ => None,
        };
        if content.is_none() {
            self.omitted.parts += 1;
        }
        content
    }
}

/// The bytes of base64, which may be broken into lines, as many encoders write it, or be a `data:` URL.
fn decode(encoded: &str) -> Result<Vec<u8>, base64::DecodeError> {
    let data_url = encoded.trim_start().strip_prefix("data:").and_then(|url| url.split_once(";base64,"));
    let encoded = data_url.map_or(encoded, |(_, data)| data);
    let digits: Vec<u8> = encoded.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64_STANDARD.decode(digits)
}

fn short(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(NAME));
    text
}

impl ToolResult {
    pub(crate) fn new(result: model::CallToolResult) -> Self {
        let mut budget = Budget::new();
        let parts = result.content.into_iter().filter_map(|block| budget.content(block)).collect();
        let structured = result.structured_content.filter(|value| {
            // Counted as it would be written, without keeping that.
            let mut size = Counter(0);
            let fits = serde_json::to_writer(&mut size, value).is_ok() && size.0 <= TEXT;
            budget.omitted.structured = !fits;
            fits
        });
        Self { is_error: result.is_error.unwrap_or(false), parts, structured, omitted: budget.omitted }
    }
}

/// Counts what is written.
struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the content of a resource, and what was left out of it.
pub(crate) fn resource_contents(result: model::ReadResourceResult) -> (Vec<ResourceContent>, Omitted) {
    let mut budget = Budget::new();
    let contents = result
        .contents
        .into_iter()
        .filter_map(|contents| {
            let resource = if budget.part() { budget.resource(contents) } else { return None };
            if resource.is_none() {
                budget.omitted.parts += 1;
            }
            resource
        })
        .collect();
    (contents, budget.omitted)
}

/// The messages of a prompt, and what of them was left out.
pub(crate) fn prompt_messages(result: model::GetPromptResult) -> (Vec<PromptMessage>, Omitted) {
    let mut budget = Budget::new();
    let messages = result
        .messages
        .into_iter()
        .filter_map(|message| {
            let speaker = match message.role {
                model::Role::Assistant => Speaker::Assistant,
                model::Role::User => Speaker::User,
            };
            Some(PromptMessage { speaker, content: budget.content(message.content)? })
        })
        .collect();
    (messages, budget.omitted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(value: Value) -> ToolResult {
        ToolResult::new(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn every_kind_of_part_is_read() {
        let result = result(json!({
            "content": [
                { "type": "text", "text": "hello" },
                { "type": "image", "data": "aGk=", "mimeType": "image/png" },
                { "type": "audio", "data": "aGk=", "mimeType": "audio/wav" },
                { "type": "resource", "resource": { "uri": "a://b", "text": "c" } },
                { "type": "resource", "resource": { "uri": "a://d", "mimeType": "x/y", "blob": "aGk=" } },
                { "type": "resource_link", "uri": "a://e", "name": "e" },
            ],
            "structuredContent": { "a": 1 },
            "isError": true,
        }));
        let media = |mime_type: &str| Media { mime_type: mime_type.to_owned(), data: (*b"hi").into() };
        let link = ResourceLink { uri: "a://e".into(), name: "e".into(), description: None, mime_type: None };
        let text = ResourceContent::Text { uri: "a://b".into(), mime_type: None, text: "c".into() };
        assert_eq!(
            result.parts,
            [
                Content::Text("hello".into()),
                Content::Image(media("image/png")),
                Content::Audio(media("audio/wav")),
                Content::Resource(text),
                Content::Resource(ResourceContent::Blob { uri: "a://d".into(), media: media("x/y") }),
                Content::Link(link),
            ]
        );
        assert_eq!((result.is_error, result.structured), (true, Some(json!({ "a": 1 }))));
        assert_eq!(result.omitted, Omitted::default());
    }

    #[test]
    fn base64_may_be_broken_into_lines_or_be_a_data_url() {
        for data in
            ["aGVs\nbG8=\n", "aGVs\r\n bG8=", "data:image/png;base64,aGVsbG8=", " data:;base64,aGVs\nbG8="]
        {
            let image = json!({ "type": "image", "data": data, "mimeType": "image/png" });
            let result = result(json!({ "content": [image] }));
            let expected = Media { mime_type: "image/png".to_owned(), data: (*b"hello").into() };
            assert_eq!(result.parts, [Content::Image(expected)], "{data:?}");
            assert_eq!(result.omitted, Omitted::default());
        }
        let wrong =
            json!({ "type": "image", "data": "data:image/svg+xml,<svg/>", "mimeType": "image/svg+xml" });
        let result = result(json!({ "content": [wrong] }));
        let expected = Omitted { parts: 1, undecodable: 1, ..Omitted::default() };
        assert_eq!((result.parts.len(), result.omitted), (0, expected));
    }

    #[test]
    fn what_is_too_large_is_left_out_and_counted() {
        let long = "é".repeat(TEXT);
        let image = "A".repeat(MEDIA * 2);
        let many: Vec<Value> = (0..PARTS).map(|_| json!({ "type": "text", "text": "x" })).collect();
        let large = result(json!({ "content": [
            { "type": "text", "text": long },
            { "type": "text", "text": "more" },
            { "type": "image", "data": image, "mimeType": "image/png" },
            { "type": "image", "data": "no base64!", "mimeType": "image/png" },
        ], "structuredContent": { "a": long } }));
        assert_eq!(large.parts, [Content::Text("é".repeat(TEXT / 2)), Content::Text(String::new())]);
        assert_eq!((large.omitted.parts, large.omitted.undecodable, large.omitted.text), (2, 1, TEXT + 4));
        assert!(large.omitted.media > MEDIA && large.omitted.structured && large.structured.is_none());

        let mut content = many;
        content.push(json!({ "type": "text", "text": "last" }));
        let many = result(json!({ "content": content }));
        assert_eq!((many.parts.len(), many.omitted.parts), (PARTS, 1));
    }
}
