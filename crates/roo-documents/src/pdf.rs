//! PDF documents, page by page.

use crate::text::BoundedText;

pub(crate) fn read(bytes: &[u8], text: &mut BoundedText) -> Result<(), String> {
    let pages = pdf_extract::extract_text_from_mem_by_pages(bytes).map_err(|error| error.to_string())?;
    if pages.iter().all(|page| page.trim().is_empty()) {
        return Err(match pages.len() {
            0 => "it has no page that can be read".to_owned(),
            1 => "it has no text on its page, which may be scanned".to_owned(),
            count => format!("it has no text on its {count} pages, which may be scanned"),
        });
    }
    for (index, page) in pages.iter().enumerate() {
        if text.is_full() {
            break;
        }
        text.begin_part(&format!("Page {}", index + 1));
        let mut was_empty = true;
        for line in page.lines().map(str::trim_end) {
            // Space between paragraphs comes as many empty lines.
            if line.is_empty() && was_empty {
                continue;
            }
            was_empty = line.is_empty();
            text.push(line);
            text.push("\n");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use crate::{DocumentKind, extract};

    /// A document with these lines, one a page.
    pub(crate) fn document(pages: &[&str]) -> Vec<u8> {
        let mut objects = vec!["<< /Type /Catalog /Pages 2 0 R >>".to_owned(), String::new()];
        let font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>";
        let mut kids = vec![];
        for page in pages {
            let stream = format!("BT /F1 12 Tf 72 720 Td ({page}) Tj ET");
            let content = objects.len() + 2;
            kids.push(format!("{} 0 R", objects.len() + 1));
            objects.push(format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {content} 0 R \
                 /Resources << /Font << /F1 {font} >> >> >>"
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
    fn what_has_no_text_says_so() {
        let error = |bytes: &[u8]| extract(DocumentKind::Pdf, bytes).unwrap_err().to_string();
        assert!(error(b"%PDF-1.4\nnothing").starts_with("The PDF document can't be read: "));
        assert_eq!(
            error(&document(&[" "])),
            "The PDF document can't be read: it has no text on its page, which may be scanned."
        );
    }
}
