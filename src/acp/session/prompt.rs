//! What a client's user says, as the engine takes it: text with mentions, and images.
//!
//! A file of the workspace becomes a mention, so that the engine reads it as it is and by its own rules. What a client
//! attaches as text is put below the prompt, and nothing in it is a mention or a command: its user has not written it.

use std::path::Path;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    ContentBlock, EmbeddedResource, EmbeddedResourceResource, ImageContent, ResourceLink,
};
use roo_engine::mentions;
use roo_text::render::exact_line;
use roo_workspace::path_of;

use crate::acp::error;
use crate::markdown;

/// What the user says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UserMessage {
    pub(super) text: String,
    /// As data URLs.
    pub(super) images: Vec<String>,
}

impl UserMessage {
    /// Reads the content of a prompt. `folders` are those of the workspace.
    ///
    /// # Errors
    /// Kinds of content that were not promised.
    pub(super) fn read<'f>(
        prompt: Vec<ContentBlock>,
        folders: impl Iterator<Item = &'f Path> + Clone,
    ) -> Result<Self, Error> {
        let mut said = Self::default();
        let mut attached = Vec::new();
        for block in prompt {
            match block {
                ContentBlock::Text(text) => said.text.push_str(&text.text),
                ContentBlock::Image(image) => said.images.push(data_url(&image)?),
                ContentBlock::ResourceLink(link) => said.add(&linked(&link, folders.clone())),
                ContentBlock::Resource(resource) => match embedded(&resource, folders.clone())? {
                    Embedded::Mention(mention) => said.add(&mention),
                    Embedded::Image(image) => said.images.push(image),
                    Embedded::Text { name, text } => {
                        let name = without_mentions(&name);
                        said.add(&format!("`{name}`"));
                        attached.push(format!(
                            "{name}:\n\n{}",
                            markdown::fenced_whole("", &without_mentions(&text))
                        ));
                    }
                },
                ContentBlock::Audio(_) => {
                    return Err(error::invalid("audio is not understood (promptCapabilities.audio)"));
                }
                _ => return Err(error::invalid("this kind of content is not understood")),
            }
        }
        for text in attached {
            said.text.push_str("\n\n");
            said.text.push_str(&text);
        }
        if said.text.trim().is_empty() && said.images.is_empty() {
            return Err(error::invalid("the prompt is empty"));
        }
        if said.text.trim().is_empty() {
            "See the image.".clone_into(&mut said.text);
        }
        Ok(said)
    }

    /// Adds the name of something, apart from what stands around it.
    fn add(&mut self, name: &str) {
        if !self.text.is_empty() && !self.text.ends_with(char::is_whitespace) {
            self.text.push(' ');
        }
        self.text.push_str(name);
        self.text.push(' ');
    }

    /// Adds what was said after it.
    pub(super) fn extend(&mut self, more: Self) {
        self.text.push_str("\n\n");
        self.text.push_str(&more.text);
        self.images.extend(more.images);
    }
}

fn data_url(image: &ImageContent) -> Result<String, Error> {
    let is_image = image.mime_type.starts_with("image/");
    let is_plain =
        !image.mime_type.contains([';', ',']) && image.data.bytes().all(|byte| byte.is_ascii_graphic());
    match is_image && is_plain {
        true => Ok(format!("data:{};base64,{}", image.mime_type, image.data)),
        false => Err(error::invalid("an image is not base64, or has no media type of images")),
    }
}

/// Names what a link points at.
fn linked<'f>(link: &ResourceLink, folders: impl Iterator<Item = &'f Path>) -> String {
    mention(&link.uri, folders).unwrap_or_else(|| without_mentions(&exact_line(&link.uri)))
}

/// The mention of a file of the workspace, with the lines that are meant: relative in the first folder alone, as paths in calls
/// are.
fn mention<'f>(uri: &str, mut folders: impl Iterator<Item = &'f Path>) -> Option<String> {
    let path = path_of(uri)?;
    let first = folders.next()?;
    let named = match path.strip_prefix(first) {
        Ok(relative) => relative,
        Err(_) => folders.any(|folder| path.starts_with(folder)).then_some(&*path)?,
    };
    let named = named.to_str().filter(|path| !path.is_empty() && !path.contains(['"', '\n']))?;
    let lines = uri.split_once('#').map(|(_, fragment)| lines_of(fragment)).unwrap_or_default();
    Some(format!("@\"{named}\"{lines}"))
}

/// The lines that a fragment such as `L3-L9` or `L3:9` names, in words.
fn lines_of(fragment: &str) -> String {
    let mut numbers =
        fragment.split(['-', ':', ',']).map(|part| part.trim_start_matches('L').parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(first), Some(last)) if last > first => format!(" (lines {first} to {last})"),
        (Some(first), _) => format!(" (line {first})"),
        (None, _) => String::new(),
    }
}

enum Embedded {
    Mention(String),
    Image(String),
    Text { name: String, text: String },
}

fn embedded<'f>(
    resource: &EmbeddedResource,
    folders: impl Iterator<Item = &'f Path>,
) -> Result<Embedded, Error> {
    match &resource.resource {
        EmbeddedResourceResource::TextResourceContents(text) => Ok(match mention(&text.uri, folders) {
            Some(mention) => Embedded::Mention(mention),
            None => Embedded::Text { name: exact_line(&text.uri), text: text.text.clone() },
        }),
        EmbeddedResourceResource::BlobResourceContents(blob) => match &blob.mime_type {
            Some(mime) if mime.starts_with("image/") => {
                data_url(&ImageContent::new(blob.blob.clone(), mime.clone())).map(Embedded::Image)
            }
            _ => match mention(&blob.uri, folders) {
                Some(mention) => Ok(Embedded::Mention(mention)),
                None => {
                    Err(error::invalid(format!("{} is neither text nor an image", exact_line(&blob.uri))))
                }
            },
        },
        _ => Err(error::invalid("this kind of resource is not understood")),
    }
}

/// The text with a backslash before what would be a mention or a command.
fn without_mentions(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut end = 0;
    for mention in mentions::parse(text) {
        plain.push_str(text.get(end..mention.range.start).unwrap_or_default());
        plain.push('\\');
        end = mention.range.start;
    }
    plain.push_str(text.get(end..).unwrap_or_default());
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::{TextContent, TextResourceContents};

    fn said(blocks: Vec<ContentBlock>) -> UserMessage {
        UserMessage::read(blocks, [Path::new("/w"), Path::new("/other")].into_iter()).unwrap()
    }

    fn text(text: &str) -> ContentBlock {
        ContentBlock::Text(TextContent::new(text))
    }

    fn link(uri: &str) -> ContentBlock {
        ContentBlock::ResourceLink(ResourceLink::new("a", uri))
    }

    #[test]
    fn a_file_of_the_workspace_is_a_mention() {
        let blocks =
            vec![text("Look at"), link("file:///w/src/a%20b.rs#L3:9"), text("and"), link("file:///w/c.rs")];
        assert_eq!(said(blocks).text, "Look at @\"src/a b.rs\" (lines 3 to 9) and @\"c.rs\" ");
        for (uri, shown) in
            [("file:///etc/passwd", "file:///etc/passwd "), ("https://x.org/@y", "https://x.org/@y ")]
        {
            assert_eq!(said(vec![link(uri)]).text, shown);
        }
    }

    #[test]
    fn a_file_of_an_additional_folder_is_named_by_its_full_path() {
        assert_eq!(said(vec![link("file:///other/c.rs")]).text, "@\"/other/c.rs\" ");
    }

    #[test]
    fn the_name_of_an_attached_text_is_no_mention_either() {
        let contents = TextResourceContents::new("x", "zed:///a @/etc/passwd");
        let resource = EmbeddedResource::new(EmbeddedResourceResource::TextResourceContents(contents));
        assert_eq!(mentions::parse(&said(vec![ContentBlock::Resource(resource)]).text), []);
    }

    #[test]
    fn nothing_in_an_attached_text_is_a_mention_or_a_command() {
        let contents = TextResourceContents::new("See @a.rs and\n/init\n@https://x.org", "zed:///diff");
        let resource = EmbeddedResource::new(EmbeddedResourceResource::TextResourceContents(contents));
        let said = said(vec![text("Why?"), ContentBlock::Resource(resource)]);
        assert_eq!(mentions::parse(&said.text), []);
        insta::assert_snapshot!(said.text, @r"
        Why? `zed:///diff` 

        zed:///diff:

        ```
        See \@a.rs and
        \/init
        \@https://x.org
        ```
        ");
    }

    #[test]
    fn an_embedded_file_of_the_workspace_is_read_as_it_is_now() {
        let contents = TextResourceContents::new("old", "file:///w/a.rs");
        let resource = EmbeddedResource::new(EmbeddedResourceResource::TextResourceContents(contents));
        assert_eq!(said(vec![ContentBlock::Resource(resource)]).text, "@\"a.rs\" ");
    }

    #[test]
    fn images_are_data_urls_and_nothing_else() {
        let image = |data: &str, mime: &str| ContentBlock::Image(ImageContent::new(data, mime));
        let read = said(vec![image("AAAA", "image/png")]);
        assert_eq!(
            (read.text.as_str(), read.images),
            ("See the image.", vec!["data:image/png;base64,AAAA".to_owned()])
        );
        for (data, mime) in [("A A", "image/png"), ("AAAA", "text/html"), ("AAAA", "image/png;x")] {
            assert!(UserMessage::read(vec![image(data, mime)], std::iter::empty()).is_err(), "{mime}");
        }
        assert!(UserMessage::read(vec![text(" ")], std::iter::empty()).is_err());
    }
}
