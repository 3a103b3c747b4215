//! Files as models see them: numbered lines, cut to what fits, with notices of what was left out.

use quick_xml::escape::partial_escape;

use super::encoding::TextEncoding;
use super::file::{Contents, FileText};
use super::image::{IMAGE_BYTES, ImageType};
use super::resolver::Resolved;
use roo_protocol::ids::Digest;
use roo_text::lines::LineRange;
use roo_text::lines::number;
use roo_text::render::cut;

/// Notice for the model about a file in which something is masked.
const MASKED: &str = "What looks like a secret in this file is shown as [masked: …]. The file itself holds the secret. Don't write a \
                      mask into a file: leave such lines as they are.";

/// The most lines of one range.
const RANGE_LINES: usize = 2000;

/// The most characters of one line.
const LINE_CHARACTERS: usize = 2000;

/// The most of all images of one result, in bytes.
pub const IMAGES_BYTES: usize = 20 << 20;

/// Masks the secrets of a text, with unchanged line numbers; none if there are none.
pub(crate) type MaskText<'a> = dyn Fn(&str) -> Option<String> + Send + Sync + 'a;

/// Text read for a model so far.
pub struct Reading<'a> {
    /// For the model.
    pub text: String,
    /// Images as data URLs.
    pub images: Vec<String>,
    /// Digests of the files that were shown at least in part, by [`Resolved::display`].
    pub seen: Vec<(String, Option<Digest>)>,
    /// Files that could not be read.
    pub failed: usize,
    /// Bytes of text that still fit.
    budget: usize,
    /// Bytes of images that still fit.
    pub image_budget: usize,
    mask: &'a MaskText<'a>,
}

impl<'a> Reading<'a> {
    /// With room for so many bytes of files' text and of images; the tags around it come in addition.
    pub fn new(budget: usize, image_budget: usize, mask: &'a MaskText<'a>) -> Self {
        let (text, images, seen) = (String::new(), Vec::new(), Vec::new());
        Self { text, images, seen, failed: 0, budget, image_budget, mask }
    }

    /// Says that a file can't be read.
    pub fn fail(&mut self, reason: &str) {
        self.failed += 1;
        self.error(reason);
    }

    fn error(&mut self, reason: &str) {
        self.text.push_str(&format!("<error>{}</error>\n", partial_escape(reason)));
    }

    fn notice(&mut self, text: &str) {
        self.text.push_str(&format!("<notice>{}</notice>\n", partial_escape(text)));
    }

    /// Shows a file: some ranges of its lines, or all of it when there are none.
    pub fn show(&mut self, place: &Resolved, contents: Contents, ranges: &[LineRange]) {
        let digest = contents.digest();
        let shown = match contents {
            Contents::Binary { bytes, .. } => {
                self.binary(place, &bytes);
                // Nothing else is known of it.
                true
            }
            Contents::Text(file) => self.lines(&file, ranges),
        };
        if shown {
            self.seen.push((place.display(), Some(digest)));
        }
    }

    /// Shows the text of a document that is no text file: some ranges of its lines, or all of it when there are none.
    pub fn show_document(
        &mut self,
        place: &Resolved,
        digest: Digest,
        kind: &str,
        text: String,
        ranges: &[LineRange],
    ) {
        self.notice(&format!(
            "This text was extracted from a file of this kind: {kind}. The line numbers refer to the text, not to the file; don't \
             use them to edit it."
        ));
        let text = FileText { text, digest, encoding: TextEncoding::UTF_8, lossy: false };
        if self.lines(&text, ranges) {
            self.seen.push((place.display(), Some(digest)));
        }
    }

    /// Returns whether anything of the text was shown.
    fn lines(&mut self, file: &FileText, ranges: &[LineRange]) -> bool {
        if file.lossy {
            self.notice("The file's encoding is not known: what could not be read is shown as U+FFFD, and it can't be edited.");
        } else if !file.encoding.is_utf8() {
            self.notice(&format!("The file is encoded in {}. Edits keep that.", file.encoding.name()));
        }
        let masked = (self.mask)(&file.text);
        let lines: Vec<&str> = masked.as_deref().unwrap_or(&file.text).lines().collect();
        if lines.is_empty() {
            self.text.push_str("<content/>\n");
            self.notice("The file is empty.");
            return true;
        }
        let whole = [LineRange { start: 1, end: lines.len() }];
        let mut shown = false;
        let ranges = if ranges.is_empty() { &whole } else { ranges };
        for range in ranges {
            shown |= self.range(&lines, *range);
        }
        if masked.is_some() {
            // Even if the part with the secret isn't shown: lines after it may be edited.
            self.notice(MASKED);
        }
        shown
    }

    fn range(&mut self, lines: &[&str], range: LineRange) -> bool {
        let (start, end) = (range.start.max(1), range.end.min(lines.len()));
        if start > lines.len() {
            self.error(&format!("There is no line {start}: the file has {} lines.", lines.len()));
            return false;
        }
        let mut text = String::new();
        let mut last = start - 1;
        for line in lines.iter().take(end).skip(start - 1).take(RANGE_LINES) {
            let line = cut(line, LINE_CHARACTERS);
            // A number and its bar count, too.
            let size = line.len() + 12;
            if size > self.budget {
                break;
            }
            self.budget -= size;
            last += 1;
            text.push_str(&line);
            text.push('\n');
        }
        if last >= start {
            self.text.push_str(&format!(
                "<content lines=\"{start}-{last}\">\n{}</content>\n",
                number(&text, start)
            ));
        }
        if last < end {
            let next = last + 1;
            let until = end.min(last.saturating_add(RANGE_LINES));
            let shown = match last < start {
                true => "Nothing of it is shown, because this result is full".to_owned(),
                false => format!("Lines {start}-{last} of {} are shown", lines.len()),
            };
            self.notice(&format!("{shown}. To go on, read the line_range {next}-{until} in another call."));
        }
        last >= start
    }

    fn binary(&mut self, place: &Resolved, bytes: &[u8]) {
        let extension = place.absolute().extension().and_then(|name| name.to_str()).unwrap_or_default();
        let extension = extension.to_ascii_lowercase();
        // A name may lie, and APIs refuse a request for good in which the type differs from the bytes.
        match ImageType::of_bytes(bytes) {
            Some(_) if bytes.len() > IMAGE_BYTES.min(self.image_budget) => {
                self.notice(&format!(
                    "The image is not shown: it has {} bytes, and at most {IMAGE_BYTES} per image and \
                     {IMAGES_BYTES} at once are.",
                    bytes.len()
                ));
            }
            Some(image_type) => {
                self.image_budget -= bytes.len();
                self.images.push(image_type.data_url(bytes));
                self.notice("The image is attached to this result.");
            }
            None => self.text.push_str(&format!(
                "<binary_file format=\"{}\">{} bytes, not shown</binary_file>\n",
                quick_xml::escape::escape(&extension),
                bytes.len()
            )),
        }
    }
}
