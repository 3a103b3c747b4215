//! PDF documents, page by page.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Document, OutputError, PlainTextOutput, output_doc_page};

use crate::UNKNOWN_TO_READER;
use crate::text::BoundedText;

pub(crate) fn read(bytes: &[u8], text: &mut BoundedText) -> Result<(), String> {
    let document = open(bytes).map_err(|error| error.to_string())?;
    let numbers: Vec<u32> = document.get_pages().into_keys().collect();
    let (mut has_text, mut are_all_read) = (false, true);
    for number in &numbers {
        if text.is_full() {
            break;
        }
        let (page, is_read) = page_text(&document, *number);
        has_text |= !page.trim().is_empty();
        are_all_read &= is_read;
        text.begin_part(&format!("Page {number}"));
        push_lines(&page, text);
        match (is_read, page.trim().is_empty()) {
            (true, _) => {}
            (false, true) => text.push("(This page can't be read.)\n"),
            (false, false) => text.push("(The rest of this page can't be read.)\n"),
        }
    }
    match (has_text, are_all_read, numbers.len()) {
        (true, ..) => Ok(()),
        (_, _, 0) => Err("it has no page that can be read".to_owned()),
        (_, false, _) => Err(UNKNOWN_TO_READER.to_owned()),
        (_, _, 1) => Err("it has no text on its page, which may be scanned".to_owned()),
        (_, _, count) => Err(format!("it has no text on its {count} pages, which may be scanned")),
    }
}

fn open(bytes: &[u8]) -> Result<Document, OutputError> {
    let mut document = Document::load_mem(bytes)?;
    // Without a password it may still forbid to be printed or changed.
    if document.is_encrypted() {
        document.decrypt("")?;
    }
    Ok(document)
}

/// The text of a page as far as it can be read, and whether that is all of it. The reader panics at what it doesn't know, such
/// as the encoding of a font.
fn page_text(document: &Document, number: u32) -> (String, bool) {
    let mut page = String::new();
    let mut read = || output_doc_page(document, &mut PlainTextOutput::new(&mut page), number);
    let is_read = matches!(catch_unwind(AssertUnwindSafe(&mut read)), Ok(Ok(())));
    (page, is_read)
}

/// Adds the lines of a page. Space between paragraphs comes as many empty lines, of which one is kept.
fn push_lines(page: &str, text: &mut BoundedText) {
    let mut was_empty = true;
    for line in page.lines().map(str::trim_end) {
        if line.is_empty() && was_empty {
            continue;
        }
        was_empty = line.is_empty();
        text.push(line);
        text.push("\n");
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use crate::{DocumentKind, extract};

    /// Within a line, what follows is in a font whose encoding the reader doesn't know.
    const UNKNOWN_FONT: &str = ") Tj /F2 12 Tf (";

    /// A document with these lines, one a page.
    pub(crate) fn document(pages: &[&str]) -> Vec<u8> {
        let mut objects = vec!["<< /Type /Catalog /Pages 2 0 R >>".to_owned(), String::new()];
        let fonts = "/F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> \
                     /F2 << /Type /Font /Subtype /Type0 /BaseFont /Song /Encoding /UniGB-UCS2-H \
                     /DescendantFonts [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Song >>] >>";
        let mut kids = vec![];
        for page in pages {
            let stream = format!("BT /F1 12 Tf 72 720 Td ({page}) Tj ET");
            let content = objects.len() + 2;
            kids.push(format!("{} 0 R", objects.len() + 1));
            objects.push(format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {content} 0 R \
                 /Resources << /Font << {fonts} >> >> >>"
            ));
            objects.push(format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()));
        }
        objects[1] = format!("<< /Type /Pages /Count {} /Kids [{}] >>", kids.len(), kids.join(" "));
        let mut file = "%PDF-1.4\n".to_owned();
        let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
        for (index, object) in objects.iter().enumerate() {
            table.push_str(&format!("{:010} 00000 n \n", file.len()));
            file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", index + 1));
        }
        let start = file.len();
        let size = objects.len() + 1;
        format!("{file}{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n")
            .into_bytes()
    }

    #[test]
    fn pages_come_one_after_another() {
        let text = extract(DocumentKind::Pdf, &document(&["Hello world", "The second page"])).unwrap();
        assert_eq!(text, "--- Page 1 ---\nHello world\n\n--- Page 2 ---\nThe second page\n");
    }

    #[test]
    fn a_page_that_can_not_be_read_loses_no_other() {
        let mixed = format!("Mixed {UNKNOWN_FONT}xy");
        let text = extract(DocumentKind::Pdf, &document(&["Hello", UNKNOWN_FONT, &mixed, "End"])).unwrap();
        assert_eq!(
            text,
            "--- Page 1 ---\nHello\n\n--- Page 2 ---\n(This page can't be read.)\n\n--- Page 3 ---\nMixed\n\
             (The rest of this page can't be read.)\n\n--- Page 4 ---\nEnd\n"
        );
        let error = extract(DocumentKind::Pdf, &document(&[UNKNOWN_FONT, " "])).unwrap_err().to_string();
        assert!(error.ends_with("made in a way that its reader doesn't know."), "{error}");
    }

    #[test]
    fn what_has_no_text_says_so() {
        let error = |bytes: &[u8]| extract(DocumentKind::Pdf, bytes).unwrap_err().to_string();
        assert!(error(b"%PDF-1.4\nnothing").starts_with("The PDF document can't be read: "));
        assert_eq!(
            error(&document(&[" "])),
            "The PDF document can't be read: it has no text on its page, which may be scanned."
        );
    }
}
