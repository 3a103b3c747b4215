//! What a model gets to see of a file: its lines, the text of a document, a definition, or the block around a line.

use roo_catalog::ReadRequest;
use roo_documents::{DocumentKind, Extractor};
use roo_syntax::definitions_of;
use roo_text::lines::LineRange;
use roo_text::render::one_line;
use roo_workspace::{Contents, Reading, Resolved};

/// The longest name in an answer, in characters.
const NAME: usize = 100;

/// Shows what is asked for of a file, or says why it can't.
pub(crate) async fn show(
    place: &Resolved,
    contents: Contents,
    wanted: &ReadRequest,
    reading: &mut Reading<'_>,
    extractor: &Extractor,
) {
    if let Some((kind, bytes)) = document(place, &contents) {
        return match extractor.text(kind, bytes).await {
            Ok(text) => {
                if let Some(ranges) = ranges(place, &text, wanted, reading) {
                    reading.show_document(place, contents.digest(), kind.name(), text, &ranges);
                }
            }
            Err(error) => reading.fail(&error.to_string()),
        };
    }
    let ranges = match &contents {
        Contents::Text(text) => ranges(place, &text.text, wanted, reading),
        Contents::Binary { .. } => Some(vec![]),
    };
    if let Some(ranges) = ranges {
        reading.show(place, contents, &ranges);
    }
}

/// The kind and content of a file that is a document.
fn document<'a>(place: &Resolved, contents: &'a Contents) -> Option<(DocumentKind, &'a [u8])> {
    let extension = place.absolute().extension()?.to_str()?;
    match (contents, DocumentKind::from_extension(extension)?) {
        (Contents::Binary { bytes, .. }, kind) => Some((kind, bytes.as_slice())),
        // A notebook is JSON and a PDF may be all ASCII: such documents are text too. Any other text with the extension of a
        // document is shown as it is.
        (Contents::Text(text), DocumentKind::Notebook) => {
            Some((DocumentKind::Notebook, text.text.as_bytes()))
        }
        (Contents::Text(text), DocumentKind::Pdf) if text.text.starts_with("%PDF-") => {
            Some((DocumentKind::Pdf, text.text.as_bytes()))
        }
        (Contents::Text(_), _) => None,
    }
}

/// The ranges of lines that are asked for; none where there are no such lines, which is said.
fn ranges(
    place: &Resolved,
    text: &str,
    wanted: &ReadRequest,
    reading: &mut Reading<'_>,
) -> Option<Vec<LineRange>> {
    let mut ranges = wanted.ranges.clone();
    if let Some(block) = wanted.block {
        let lines: Vec<&str> = text.lines().collect();
        match block.find(&lines) {
            Ok(range) => ranges.push(range),
            Err(error) => {
                reading.fail(&error.to_string());
                return None;
            }
        }
    }
    if let Some(symbol) = &wanted.symbol {
        let name = one_line(symbol, NAME);
        match definitions_of(&place.display(), text, symbol) {
            Ok(found) if found.is_empty() => {
                reading.fail(&format!(
                    "There is no definition of {name} here. list_code_definition_names lists those that there are."
                ));
                return None;
            }
            Ok(found) => ranges.extend(found),
            Err(error) => {
                reading.fail(&format!("{name} can't be looked up: {error}. Read lines of the file instead."));
                return None;
            }
        }
    }
    Some(ranges)
}
