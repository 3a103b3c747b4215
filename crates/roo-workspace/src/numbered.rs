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

/// The most characters of a line that is asked for alone.
pub const ONE_LINE_CHARACTERS: usize = 50_000;

/// The most cut lines that a notice names.
const NAMED_LINES: usize = 10;

/// The fewest characters of a line that some tool cuts: searches show less of a line than reading it does.
const MIN_CUT_CHARS: usize = 400;

/// The length of the pieces by which the end of a cut line is found again, in characters, and their number. Several, as
/// what a model copies may have a change.
const PIECE: usize = 40;
const PIECES: usize = 5;

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
    /// True if there was no room for some of the wanted lines.
    pub is_cut: bool,
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
        Self { text, images, seen, failed: 0, is_cut: false, budget, image_budget, mask }
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
        let whole = [LineRange { start: 1, end: usize::MAX }];
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
        let most = if range.start == range.end { ONE_LINE_CHARACTERS } else { LINE_CHARACTERS };
        let mut text = String::new();
        let mut cut_lines = Vec::new();
        let mut last = start - 1;
        for whole in lines.iter().take(end).skip(start - 1).take(RANGE_LINES) {
            let line = cut(whole, most);
            // A number and its bar count, too.
            let size = line.len() + 12;
            if size > self.budget {
                break;
            }
            self.budget -= size;
            last += 1;
            if line.len() != whole.len() {
                cut_lines.push((last, whole.chars().count()));
            }
            text.push_str(&line);
            text.push('\n');
        }
        if last >= start {
            self.text.push_str(&format!(
                "<content lines=\"{start}-{last}\">\n{}</content>\n",
                number(&text, start)
            ));
        }
        if !cut_lines.is_empty() {
            self.notice(&cut_notice(&cut_lines, most));
        }
        if last < end {
            self.is_cut = true;
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

/// Notice of lines that are cut, by their numbers and lengths in characters.
fn cut_notice(lines: &[(usize, usize)], most: usize) -> String {
    let named: Vec<String> = lines
        .iter()
        .take(NAMED_LINES)
        .map(|(line, length)| format!("line {line} (it has {length})"))
        .collect();
    let more = match lines.len().saturating_sub(NAMED_LINES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let rest = match (lines, most) {
        (_, ONE_LINE_CHARACTERS) => {
            "Look for more of it with search_files, which shows what is around a match, or with a command such as `cut`."
                .to_owned()
        }
        ([(line, _), ..], _) => format!(
            "Read a line alone (line_range {line}-{line}) to get up to {ONE_LINE_CHARACTERS} characters of it."
        ),
        ([], _) => String::new(),
    };
    format!(
        "Cut at {most} characters, and marked by … at the end: {}{more}. {rest} Don't write such a line back: the file would lose \
         the rest of it.",
        named.join(", ")
    )
}

/// Returns the number of the first line of a new text that was copied from where a tool had cut it: it ends in `…`, and a
/// line of the text before goes on there.
pub fn copied_cut_line(before: &str, after: &str) -> Option<usize> {
    let mut ends = after.lines().enumerate().filter_map(|(index, line)| {
        let shown: Vec<char> = line.trim_end().strip_suffix('…')?.chars().collect();
        (shown.len() + 1 >= MIN_CUT_CHARS).then_some((index, line, shown))
    });
    ends.find_map(|(index, line, shown)| {
        let pieces: Vec<String> =
            shown.rchunks(PIECE).take(PIECES).map(|piece| piece.iter().collect()).collect();
        let goes_on =
            |known: &str| known.len() > MIN_CUT_CHARS && pieces.iter().any(|piece| known.contains(piece));
        let is_new = before.lines().all(|known| known != line);
        (is_new && before.lines().any(goes_on)).then_some(index + 1)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_that_was_copied_as_it_was_cut_is_found() {
        let long: String = (0..1000).map(|number| format!("{number},")).collect();
        let before = format!("a\n{long}\nb\n");
        let shown = cut(&long, LINE_CHARACTERS).into_owned();
        assert_eq!(copied_cut_line(&before, &format!("a\n{shown}\nb\n")), Some(2));
        // Changes elsewhere in it, and beside its end.
        assert_eq!(copied_cut_line(&before, &format!("x{}\r\n", shown.replace("0,1,2", "0,7,2"))), Some(1));
        let (rest, end) = shown.split_at(shown.len() - 10);
        assert_eq!(copied_cut_line(&before, &format!("{rest}x{end}")), Some(1));
        // As a search shows it.
        assert_eq!(copied_cut_line(&before, &cut(&long, 500)), Some(1));
    }

    #[test]
    fn other_lines_that_end_in_dots_are_not() {
        let long = format!("{}…", "word ".repeat(200));
        assert_eq!(copied_cut_line(&long, &format!("new\n{long}")), None, "it is there already");
        assert_eq!(copied_cut_line("a\n", &long), None, "it is a new line");
        assert_eq!(copied_cut_line(&"loading ".repeat(100), "loading…"), None, "it is short");
    }

    proptest! {
        #[test]
        fn what_is_cut_of_any_line_is_known_again(line in "[a-z0-9é]{2001,2200}", change in 0_usize..1900) {
            let mut shown: Vec<char> = cut(&line, LINE_CHARACTERS).chars().collect();
            shown[change] = '-';
            prop_assert_eq!(copied_cut_line(&line, &shown.iter().collect::<String>()), Some(1));
            prop_assert_eq!(copied_cut_line(&line, &line.replace('a', "b")), None);
        }
    }
}
