//! `read_file`: numbered lines of files, as `<files>` with one `<file>` each.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quick_xml::escape::partial_escape;

use super::{Outcome, ToolContext};
use crate::catalog::LineRange;
use crate::hooks::ReadTarget;
use crate::protocol::event::ToolStatus;
use crate::protocol::ids::Digest;
use crate::text::lines::number;
use crate::text::render::cut;
use crate::workspace::{Contents, FileText, ReadError, Resolved};

/// The most lines of one range.
const RANGE_LINES: usize = 2000;

/// The most characters of one line.
const LINE_CHARACTERS: usize = 2000;

/// The most text of one result, in bytes.
const RESULT_BYTES: usize = 256 << 10;

/// The largest image, in bytes.
const IMAGE_BYTES: usize = 5 << 20;

/// The most of all images of one result, in bytes.
const IMAGES_BYTES: usize = 20 << 20;

/// Reads files in the order asked for; one that can't be read doesn't hide the others.
pub async fn run(files: Vec<ReadTarget>, context: &ToolContext) -> Outcome {
    let mut result = Reading { budget: RESULT_BYTES, image_budget: IMAGES_BYTES, ..Reading::default() };
    result.text.push_str("<files>\n");
    for file in &files {
        if context.cancel.is_cancelled() {
            return Outcome::new(ToolStatus::Interrupted, "Reading was interrupted.", "Interrupted");
        }
        let path = partial_escape(&file.named);
        result.text.push_str(&format!("<file><path>{path}</path>\n"));
        match &file.path {
            Err(reason) => result.fail(reason),
            Ok(place) => match context.workspace.read(place).await {
                Ok(contents) => result.show(place, contents, &file.ranges),
                Err(error) => {
                    if let ReadError::NotFound { .. } = error {
                        result.seen.push((place.display(), None));
                    }
                    result.fail(&error.to_string());
                }
            },
        }
        result.text.push_str("</file>\n");
    }
    result.text.push_str("</files>");

    let read = files.len().saturating_sub(result.failed);
    let summary = match (files.as_slice(), result.failed) {
        ([file], 0) => format!("Read {}", file.named),
        ([file], _) => format!("Could not read {}", file.named),
        (files, 0) => format!("Read {} files", files.len()),
        (files, _) => format!("Read {read} of {} files", files.len()),
    };
    Outcome {
        status: if read == 0 { ToolStatus::Failed } else { ToolStatus::Ok },
        images: result.images,
        seen: result.seen,
        ..Outcome::new(ToolStatus::Ok, result.text, summary)
    }
}

#[derive(Default)]
struct Reading {
    text: String,
    images: Vec<String>,
    seen: Vec<(String, Option<Digest>)>,
    failed: usize,
    /// Bytes of text that still fit.
    budget: usize,
    /// Bytes of images that still fit.
    image_budget: usize,
}

impl Reading {
    fn fail(&mut self, reason: &str) {
        self.failed += 1;
        self.error(reason);
    }

    fn error(&mut self, reason: &str) {
        self.text.push_str(&format!("<error>{}</error>\n", partial_escape(reason)));
    }

    fn notice(&mut self, text: &str) {
        self.text.push_str(&format!("<notice>{}</notice>\n", partial_escape(text)));
    }

    fn show(&mut self, place: &Resolved, contents: Contents, ranges: &[LineRange]) {
        let digest = contents.digest();
        let shown = match contents {
            Contents::Binary { bytes, .. } => {
                self.binary(place, &bytes);
                false
            }
            Contents::Text(file) => self.lines(&file, ranges),
        };
        if shown {
            self.seen.push((place.display(), Some(digest)));
        }
    }

    /// Returns whether anything of the text was shown.
    fn lines(&mut self, file: &FileText, ranges: &[LineRange]) -> bool {
        if file.lossy {
            self.notice("The file is not valid UTF-8: what could not be read is shown as U+FFFD, and it can't be edited.");
        }
        let lines: Vec<&str> = file.text.lines().collect();
        if lines.is_empty() {
            self.text.push_str("<content/>\n");
            self.notice("The file is empty.");
            return true;
        }
        let whole = [LineRange { start: 1, end: lines.len() }];
        let mut shown = false;
        for range in if ranges.is_empty() { &whole } else { ranges } {
            shown |= self.range(&lines, *range);
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
                true => "Nothing of it is shown, for this result is full".to_owned(),
                false => format!("Lines {start}-{last} of {} are shown", lines.len()),
            };
            self.notice(&format!("{shown}. To go on, read the line_range {next}-{until} in another call."));
        }
        last >= start
    }

    fn binary(&mut self, place: &Resolved, bytes: &[u8]) {
        let extension = place.absolute().extension().and_then(|name| name.to_str()).unwrap_or_default();
        let extension = extension.to_ascii_lowercase();
        match image_type(&extension) {
            Some(_) if bytes.len() > IMAGE_BYTES.min(self.image_budget) => {
                self.notice(&format!(
                    "The image is not shown: it has {} bytes, and at most {IMAGE_BYTES} per image and \
                     {IMAGES_BYTES} per call are.",
                    bytes.len()
                ));
            }
            Some(image_type) => {
                self.image_budget -= bytes.len();
                self.images.push(format!("data:{image_type};base64,{}", STANDARD.encode(bytes)));
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

/// The types of image that models take.
fn image_type(extension: &str) -> Option<&'static str> {
    Some(match extension {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fixture::Fixture;
    use crate::workspace::Purpose;

    async fn read(fixture: &Fixture, name: &str, ranges: &[(usize, usize)]) -> Outcome {
        run(vec![target(fixture, name, ranges)], &fixture.context).await
    }

    fn target(fixture: &Fixture, name: &str, ranges: &[(usize, usize)]) -> ReadTarget {
        ReadTarget {
            path: fixture.context.workspace.resolve(name, Purpose::Read).map_err(|error| error.to_string()),
            named: name.to_owned(),
            ranges: ranges.iter().map(|&(start, end)| LineRange { start, end }).collect(),
        }
    }

    #[tokio::test]
    async fn a_whole_file_comes_numbered_with_its_digest() {
        let fixture = Fixture::new(&[("src/a.rs", "one\ntwo\n")]);
        let outcome = read(&fixture, "src/a.rs", &[]).await;
        assert_eq!(outcome.status, ToolStatus::Ok);
        assert_eq!(
            outcome.text,
            "<files>\n<file><path>src/a.rs</path>\n<content lines=\"1-2\">\n1 | one\n2 | two\n</content>\n</file>\n</files>"
        );
        assert_eq!(outcome.seen, [("src/a.rs".to_owned(), Some(Digest::of("one\ntwo\n")))]);
        assert_eq!(outcome.summary, "Read src/a.rs");
    }

    #[tokio::test]
    async fn a_slice_is_seen_as_the_whole_file() {
        let text: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        let fixture = Fixture::new(&[("a.txt", &text)]);
        let outcome = read(&fixture, "a.txt", &[(2, 3), (19, usize::MAX), (30, 40)]).await;
        assert!(outcome.text.contains("<content lines=\"2-3\">\n2 | line 2\n3 | line 3\n</content>"));
        assert!(outcome.text.contains("<content lines=\"19-20\">\n19 | line 19\n20 | line 20\n</content>"));
        assert!(outcome.text.contains("<error>There is no line 30: the file has 20 lines.</error>"));
        assert_eq!(outcome.seen, [("a.txt".to_owned(), Some(Digest::of(&text)))]);
        // Nothing shown is nothing seen.
        assert_eq!(read(&fixture, "a.txt", &[(30, 40)]).await.seen, []);
    }

    #[tokio::test]
    async fn a_missing_file_hides_no_other() {
        let fixture = Fixture::new(&[("a.txt", "here")]);
        let files = vec![
            target(&fixture, "missing.txt", &[]),
            target(&fixture, "../out", &[]),
            target(&fixture, "a.txt", &[]),
        ];
        let outcome = run(files, &fixture.context).await;
        assert_eq!((outcome.status, outcome.summary.as_str()), (ToolStatus::Ok, "Read 1 of 3 files"));
        assert!(outcome.text.contains("<error>missing.txt does not exist.</error>"));
        assert!(outcome.text.contains("1 | here"));
        assert_eq!(outcome.seen[0], ("missing.txt".to_owned(), None));
        assert_eq!(read(&fixture, "missing.txt", &[]).await.status, ToolStatus::Failed);
    }

    #[tokio::test]
    async fn long_files_and_lines_are_cut_and_say_how_to_go_on() {
        let fixture = Fixture::new(&[
            ("long.txt", &"x\n".repeat(2500)),
            ("wide.txt", &"é".repeat(2001)),
            ("large.txt", &format!("{}\n", "y".repeat(1999)).repeat(300)),
        ]);
        let outcome = read(&fixture, "long.txt", &[]).await;
        assert!(
            outcome.text.contains("Lines 1-2000 of 2500 are shown. To go on, read the line_range 2001-2500")
        );
        let outcome = read(&fixture, "wide.txt", &[]).await;
        assert!(outcome.text.contains(&format!("1 | {}…\n", "é".repeat(1999))));

        let both = vec![target(&fixture, "large.txt", &[]), target(&fixture, "large.txt", &[(5, 9)])];
        let outcome = run(both, &fixture.context).await;
        assert!(outcome.text.len() < RESULT_BYTES + 1000);
        assert!(outcome.text.contains("Lines 1-130 of 300 are shown. To go on, read the line_range 131-300"));
        assert!(outcome.text.contains("Nothing of it is shown, for this result is full."));
    }

    #[tokio::test]
    async fn unsaved_text_is_what_is_read() {
        let fixture = Fixture::new(&[("a.txt", "disk")]);
        fixture.open("a.txt", "buffer");
        let outcome = read(&fixture, "a.txt", &[]).await;
        assert!(outcome.text.contains("1 | buffer"));
        assert_eq!(outcome.seen[0].1, Some(Digest::of("buffer")));
    }

    #[tokio::test]
    async fn what_is_no_plain_text_says_so() {
        let fixture = Fixture::new(&[("empty", "")]);
        fixture.put("a.bin", b"\0\0");
        fixture.put("a.PNG", b"\x89PNG\0");
        fixture.put("latin", b"caf\xe9");
        assert!(
            read(&fixture, "empty", &[])
                .await
                .text
                .contains("<content/>\n<notice>The file is empty.</notice>")
        );
        let text = read(&fixture, "a.bin", &[]).await.text;
        assert!(text.contains("<binary_file format=\"bin\">2 bytes, not shown</binary_file>"));
        let image = read(&fixture, "a.PNG", &[]).await;
        assert_eq!(image.images, ["data:image/png;base64,iVBORwA="]);
        assert!(read(&fixture, "latin", &[]).await.text.contains("not valid UTF-8"));
    }

    #[tokio::test]
    async fn names_can_not_close_our_tags() {
        let fixture = Fixture::new(&[]);
        let outcome = read(&fixture, "a</path><path>b", &[]).await;
        assert!(outcome.text.contains("<path>a&lt;/path&gt;&lt;path&gt;b</path>"));
        assert_eq!(outcome.text.matches("<path>").count(), 1);
    }

    #[tokio::test]
    async fn a_cancelled_read_is_interrupted() {
        let fixture = Fixture::new(&[("a.txt", "x")]);
        fixture.context.cancel.cancel();
        assert_eq!(read(&fixture, "a.txt", &[]).await.status, ToolStatus::Interrupted);
    }
}
