//! Word, PowerPoint and OpenDocument files: XML in a zip archive. Text, headings, lists and tables are read; what only says how
//! they look is not.

use std::io::{BufReader, Cursor, Read as _};

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use zip::ZipArchive;

use crate::text::BoundedText;

/// The most of one part of a document, in bytes once it is unpacked.
const PART: u64 = 512 << 20;

/// The part that names the slides of a presentation.
const PRESENTATION: &str = "ppt/presentation.xml";

type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

pub(crate) fn read_word(bytes: &[u8], text: &mut BoundedText) -> Result<(), String> {
    let mut archive = open(bytes)?;
    read_part(&mut archive, "word/document.xml", text)?;
    for (part, name) in [("word/footnotes.xml", "Footnotes"), ("word/comments.xml", "Comments")] {
        if archive.index_for_name(part).is_some() {
            text.begin_part(name);
            read_part(&mut archive, part, text)?;
        }
    }
    Ok(())
}

pub(crate) fn read_open_document(bytes: &[u8], text: &mut BoundedText) -> Result<(), String> {
    read_part(&mut open(bytes)?, "content.xml", text)
}

pub(crate) fn read_presentation(bytes: &[u8], text: &mut BoundedText) -> Result<(), String> {
    let mut archive = open(bytes)?;
    let ids = slide_ids(&mut archive)?;
    let parts = relationships(&mut archive, PRESENTATION)?;
    if ids.is_empty() {
        return Err("it has no slides".to_owned());
    }
    for (number, id) in (1..).zip(ids) {
        if text.is_full() {
            break;
        }
        let slide = parts.iter().find(|part| part.id == id);
        let slide = slide.ok_or_else(|| format!("slide {number} has no part"))?.target.clone();
        text.begin_part(&format!("Slide {number}"));
        read_part(&mut archive, &slide, text)?;
        let notes = relationships(&mut archive, &slide)?.into_iter().find(|part| part.kind == "notesSlide");
        if let Some(notes) = notes {
            text.end_line();
            text.push("Notes:\n");
            read_part(&mut archive, &notes.target, text)?;
        }
    }
    Ok(())
}

/// The ids of a presentation's slides, in the order in which they are shown.
fn slide_ids(archive: &mut Archive<'_>) -> Result<Vec<String>, String> {
    let mut ids = vec![];
    walk_part(archive, PRESENTATION, |event| {
        if let Event::Start(tag) | Event::Empty(tag) = event
            && tag.local_name().as_ref() == "sldId"
        {
            // The one of the relationship has a prefix, unlike the slide's own.
            let mut attributes = tag.attributes().flatten();
            let id = attributes.find(|attribute| {
                attribute.key.local_name().as_ref() == "id" && attribute.key.prefix().is_some()
            });
            ids.extend(id.map(|id| id.value.into_owned()));
        }
        true
    })?;
    Ok(ids)
}

/// What one part of a document says of another.
struct Relationship {
    id: String,
    /// The last word of its type, such as `notesSlide`.
    kind: String,
    /// The other part.
    target: String,
}

/// The other parts that a part names: section 6.5 of the Open Packaging Conventions (ECMA-376, part 2).
fn relationships(archive: &mut Archive<'_>, part: &str) -> Result<Vec<Relationship>, String> {
    let (directory, name) = part.rsplit_once('/').unwrap_or(("", part));
    let list = format!("{directory}/_rels/{name}.rels");
    let mut found = vec![];
    if archive.index_for_name(&list).is_none() {
        return Ok(found);
    }
    walk_part(archive, &list, |event| {
        if let Event::Start(tag) | Event::Empty(tag) = event
            && tag.local_name().as_ref() == "Relationship"
            && attribute(tag, "TargetMode").as_deref() != Some("External")
            && let (Some(id), Some(kind), Some(target)) =
                (attribute(tag, "Id"), attribute(tag, "Type"), attribute(tag, "Target"))
        {
            let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
            found.push(Relationship { id, kind, target: part_at(directory, &target) });
        }
        true
    })?;
    Ok(found)
}

/// The name of a part to which a path leads from a directory of the archive.
fn part_at(directory: &str, path: &str) -> String {
    let mut names: Vec<&str> = if path.starts_with('/') { vec![] } else { directory.split('/').collect() };
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}

fn open(bytes: &[u8]) -> Result<Archive<'_>, String> {
    ZipArchive::new(Cursor::new(bytes)).map_err(|error| format!("it is not a zip archive: {error}"))
}

fn read_part(archive: &mut Archive<'_>, name: &str, text: &mut BoundedText) -> Result<(), String> {
    let mut walk = Walk { text, cells: 0, is_run: false, paragraphs: 0, left_out: 0 };
    walk_part(archive, name, |event| {
        walk.take(event);
        !walk.text.is_full()
    })?;
    walk.text.end_line();
    Ok(())
}

/// Hands over what is in a part, until `take` returns false.
fn walk_part(
    archive: &mut Archive<'_>,
    name: &str,
    mut take: impl FnMut(&Event<'_>) -> bool,
) -> Result<(), String> {
    let part = archive.by_name(name).map_err(|error| format!("its part {name} can't be read: {error}"))?;
    let mut reader = Reader::from_reader(BufReader::new(part.take(PART)));
    let mut buffer = vec![];
    loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Eof) => return Ok(()),
            Ok(event) if take(&event) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(format!("its part {name} is damaged: {error}")),
        }
    }
}

/// A walk through the XML of one part. Elements are known by their local names, which mean the same in all of the formats.
struct Walk<'a> {
    text: &'a mut BoundedText,
    /// Number of cells of tables around.
    cells: usize,
    /// True within a run of text, in formats that have such.
    is_run: bool,
    /// Number of paragraphs around, in formats whose text is directly in one.
    paragraphs: usize,
    /// Number of elements around, from one that is left out with all that is in it.
    left_out: usize,
}

impl Walk<'_> {
    fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(tag) if self.left_out > 0 || is_left_out(tag.local_name().as_ref()) => {
                self.left_out += 1;
            }
            Event::End(_) if self.left_out > 0 => self.left_out -= 1,
            _ if self.left_out > 0 => {}
            Event::Start(tag) => self.begin(tag),
            Event::Empty(tag) => {
                self.begin(tag);
                self.end(tag.local_name().as_ref());
            }
            Event::End(tag) => self.end(tag.local_name().as_ref()),
            Event::Text(text) if self.is_text() => self.text.push(&text.xml10_content()),
            Event::CData(text) if self.is_text() => self.text.push(&text.xml10_content()),
            Event::GeneralRef(reference) if self.is_text() => {
                let name = reference.xml10_content();
                match reference.resolve_char_ref() {
                    Ok(Some(c)) => self.text.push(c.encode_utf8(&mut [0; 4])),
                    _ => self.text.push(match &*name {
                        "amp" => "&",
                        "lt" => "<",
                        "gt" => ">",
                        "quot" => "\"",
                        "apos" => "'",
                        _ => "",
                    }),
                }
            }
            _ => {}
        }
    }

    fn is_text(&self) -> bool {
        self.is_run || self.paragraphs > 0
    }

    fn begin(&mut self, tag: &BytesStart<'_>) {
        // OpenDocument has its text in paragraphs, the others in runs of paragraphs.
        let is_open_document = tag.name().as_ref().starts_with("text:");
        match tag.local_name().as_ref() {
            "t" => self.is_run = true,
            "p" if is_open_document => self.paragraphs += 1,
            "h" if is_open_document => {
                self.paragraphs += 1;
                self.heading(attribute(tag, "outline-level").as_deref());
            }
            "pStyle" => {
                let style = attribute(tag, "val").unwrap_or_default();
                match style.to_ascii_lowercase().strip_prefix("heading") {
                    Some(level) => self.heading(Some(level)),
                    None if style == "Title" => self.heading(Some("1")),
                    None => {}
                }
            }
            "numPr" | "list-item" => self.text.push("- "),
            "tc" | "table-cell" => self.cells += 1,
            // A tab in a run, not the settings of tabs of a paragraph.
            "tab" if attribute(tag, "pos").is_none() && attribute(tag, "position").is_none() => {
                self.text.push("\t");
            }
            "br" | "cr" | "line-break" => self.end_of_line(),
            "s" if is_open_document => self.text.push(" "),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.is_run = false,
            "p" | "h" => {
                self.paragraphs = self.paragraphs.saturating_sub(1);
                self.end_of_line();
            }
            "tc" | "table-cell" => {
                self.cells = self.cells.saturating_sub(1);
                self.text.push("| ");
            }
            "tr" | "table-row" => self.text.end_line(),
            _ => {}
        }
    }

    /// Ends a line. A row of a table is one line, whatever its cells hold.
    fn end_of_line(&mut self) {
        self.text.push(if self.cells > 0 { " " } else { "\n" });
    }

    fn heading(&mut self, level: Option<&str>) {
        let level = level.and_then(|level| level.trim().parse::<usize>().ok()).unwrap_or(1);
        self.text.push(&"#".repeat(level.clamp(1, 6)));
        self.text.push(" ");
    }
}

/// Returns whether an element holds what readers don't see: text that tracked changes delete or move away (in OpenDocument kept in
/// one place), and what stands in for an element before it in programs that don't know that.
fn is_left_out(name: &str) -> bool {
    matches!(name, "del" | "moveFrom" | "tracked-changes" | "Fallback")
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let attributes = tag.attributes().flatten();
    let mut named = attributes.filter(|attribute| attribute.key.local_name().as_ref() == name);
    named.next().map(|attribute| attribute.value.into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use pretty_assertions::assert_eq;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use crate::{DocumentKind, TEXT, extract};

    /// An archive with these parts.
    fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = ZipWriter::new(std::io::Cursor::new(vec![]));
        for (name, text) in parts {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn word(body: &str) -> Vec<u8> {
        let xml =
            format!("<?xml version=\"1.0\"?><w:document xmlns:w=\"w\"><w:body>{body}</w:body></w:document>");
        archive(&[("word/document.xml", &xml)])
    }

    #[test]
    fn a_word_document_has_headings_lists_and_tables() {
        let body = "<w:p><w:pPr><w:pStyle w:val=\"Heading2\"/><w:tabs><w:tab w:pos=\"1\"/></w:tabs></w:pPr><w:r><w:t>Aims &amp; ends</w:t></w:r></w:p>\
                    <w:p><w:r><w:t>One</w:t></w:r><w:r><w:tab/><w:t xml:space=\"preserve\"> two&#233;</w:t><w:br/><w:t>three</w:t></w:r></w:p>\
                    <w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>item</w:t></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>\
                    <w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>";
        let text = extract(DocumentKind::Word, &word(body)).unwrap();
        assert_eq!(text, "## Aims & ends\nOne\t twoé\nthree\n- item\na | b |\n");
    }

    #[test]
    fn slides_and_open_documents_are_read_too() {
        let slide = |text: &str| format!("<p:sld><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>");
        let related = |relationships: &[(&str, &str, &str)]| {
            let all = relationships.iter().map(|(id, kind, target)| {
                format!("<Relationship Id=\"{id}\" Type=\"http://example.org/{kind}\" Target=\"{target}\"/>")
            });
            format!("<Relationships>{}</Relationships>", all.collect::<String>())
        };
        let order = "<p:presentation><p:sldIdLst><p:sldId id=\"256\" r:id=\"r7\"/><p:sldId id=\"257\" r:id=\"r2\"/></p:sldIdLst>\
                     </p:presentation>";
        let parts = related(&[
            ("r1", "slideMaster", "slideMasters/slideMaster1.xml"),
            ("r2", "slide", "slides/slide1.xml"),
            ("r7", "slide", "/ppt/slides/slide12.xml"),
        ]);
        let notes = related(&[
            ("r1", "slideLayout", "../slideLayouts/slideLayout1.xml"),
            ("r2", "notesSlide", "../notesSlides/notesSlide1.xml"),
        ]);
        let slides = archive(&[
            ("ppt/presentation.xml", order),
            ("ppt/_rels/presentation.xml.rels", &parts),
            ("ppt/slides/slide1.xml", &slide("Second")),
            ("ppt/slides/slide12.xml", &slide("First")),
            ("ppt/slides/_rels/slide12.xml.rels", &notes),
            ("ppt/notesSlides/notesSlide1.xml", &slide("Say this")),
        ]);
        assert_eq!(
            extract(DocumentKind::Presentation, &slides).unwrap(),
            "--- Slide 1 ---\nFirst\nNotes:\nSay this\n\n--- Slide 2 ---\nSecond\n"
        );
        let content = "<office:document-content><text:h text:outline-level=\"2\">Title</text:h>\
                       <text:p>a<text:s/>b<text:line-break/>c &lt;</text:p></office:document-content>";
        let document = archive(&[("content.xml", content)]);
        assert_eq!(extract(DocumentKind::OpenDocument, &document).unwrap(), "## Title\na b\nc <\n");
    }

    #[test]
    fn deleted_text_and_fallbacks_are_left_out() {
        let body = "<w:p><w:r><w:t>kept </w:t></w:r><w:moveFrom><w:r><w:t>moved</w:t><w:tab/></w:r></w:moveFrom>\
                    <w:del><w:r><w:tab/><w:delText>gone</w:delText><w:br/></w:r></w:del>\
                    <w:ins><w:r><w:t>new</w:t></w:r></w:ins></w:p>\
                    <w:p><w:pPr><w:rPr><w:del w:id=\"1\"/></w:rPr></w:pPr><mc:AlternateContent>\
                    <mc:Choice><w:r><w:t>once</w:t></w:r></mc:Choice><mc:Fallback><w:r><w:t>once</w:t></w:r></mc:Fallback>\
                    </mc:AlternateContent></w:p>";
        assert_eq!(extract(DocumentKind::Word, &word(body)).unwrap(), "kept new\nonce\n");
        let content = "<office:document-content><office:text><text:tracked-changes><text:changed-region><text:deletion>\
                       <text:p>gone</text:p></text:deletion></text:changed-region></text:tracked-changes>\
                       <text:p>a<text:change text:change-id=\"1\"/>b</text:p></office:text></office:document-content>";
        let document = archive(&[("content.xml", content)]);
        assert_eq!(extract(DocumentKind::OpenDocument, &document).unwrap(), "ab\n");
    }

    #[test]
    fn what_unpacks_to_much_is_cut_off() {
        let body = format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", "x".repeat(40 << 20));
        let bomb = word(&body);
        assert!(bomb.len() < 1 << 20);
        let text = extract(DocumentKind::Word, &bomb).unwrap();
        assert!(text.len() < TEXT + 200 && text.ends_with("is longer than what is read of it.)\n"));
    }

    #[test]
    fn what_is_damaged_says_so() {
        let error = |bytes: &[u8]| extract(DocumentKind::Word, bytes).unwrap_err().to_string();
        assert!(error(b"PK").starts_with("The Word document can't be read: it is not a zip archive"));
        assert!(error(&archive(&[("other", "")])).contains("its part word/document.xml can't be read"));
        assert!(error(&word("</w:oops>")).contains("is damaged"));
    }
}
