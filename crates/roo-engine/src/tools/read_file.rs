//! `read_file`: numbered lines of files, as `<files>` with one `<file>` each.

use futures_util::future::BoxFuture;
use quick_xml::escape::partial_escape;
use serde_json::json;

use crate::file_contents;
use crate::policy::{
    Access, Action, CallAssessment, CheckedCall, Gate, Permitted, Plan, Refusal, TITLE, Tool, ToolCallContext,
};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::{ReadFile, ReadRequest};
use roo_protocol::event::ToolStatus;
use roo_protocol::rule::RuleSubject;
use roo_text::render;
use roo_workspace::{IMAGES_BYTES, Purpose, ReadError, Reading, Resolved};

/// The most text of one result, in bytes.
const RESULT_BYTES: usize = 256 << 10;

/// One file to read.
#[derive(Debug)]
struct ReadTarget {
    /// The file, or why it can't be read; one unreadable file doesn't hide the others.
    path: Result<Resolved, String>,
    /// As the model wrote it.
    request: ReadRequest,
}

/// Reads files.
#[derive(Debug)]
struct Read {
    /// In the order asked for.
    files: Vec<ReadTarget>,
}

impl Tool for ReadFile {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let single = self.files.len() == 1;
        let mut files = Vec::new();
        let mut must_ask = None;
        let mut names = Vec::new();
        for file in self.files {
            let checked = gate.resolve(&file.path, Purpose::Read).and_then(|path| {
                let reason = gate.examine(call_context, &path, Access::Look)?;
                Ok((path, reason))
            });
            // One unreadable file must not hide the others.
            let path = match checked {
                Err(refusal) if single => return Err(refusal),
                Err(refusal) => Err(refusal.into_reason()),
                Ok((path, reason)) => {
                    names.push(path.display());
                    must_ask = must_ask.or(reason);
                    Ok(path)
                }
            };
            files.push(ReadTarget { path, request: file });
        }
        let shown = names.join("\n");
        Ok(CheckedCall::from(CallAssessment {
            identity: json!({ "tool": "read_file", "paths": names }),
            action: Some(Box::new(Read { files })),
            title: format!("Read {}", render::one_line(&names.join(", "), TITLE)),
            subject: render::visible(&shown).into_owned(),
            must_ask,
            undecided: None,
            allowed_by: gate.read_rule(),
            standing: Some(RuleSubject::Reads),
            alternative: None,
            plan: Plan::Nothing,
        }))
    }
}

impl Action for Read {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(run(self.files, context))
    }
}

/// Reads files in the order asked for; one that can't be read doesn't hide the others.
async fn run(files: Vec<ReadTarget>, context: &ToolContext) -> Outcome {
    let mask = context.read_mask().await;
    let mask = |text: &str| mask.masked(text);
    let mut result = Reading::new(RESULT_BYTES, IMAGES_BYTES, &mask);
    result.text.push_str("<files>\n");
    for file in &files {
        if context.cancel.is_cancelled() {
            return interrupted();
        }
        let path = partial_escape(&file.request.path);
        result.text.push_str(&format!("<file><path>{path}</path>\n"));
        match &file.path {
            Err(reason) => result.fail(reason),
            Ok(place) => match context.workspace.read(place).await {
                Ok(contents) => {
                    let show =
                        file_contents::show(place, contents, &file.request, &mut result, &context.extractor);
                    if context.cancel.run_until_cancelled(show).await.is_none() {
                        return interrupted();
                    }
                }
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
        ([file], 0) => format!("Read {}", file.request.path),
        ([file], _) => format!("Could not read {}", file.request.path),
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

fn interrupted() -> Outcome {
    Outcome::new(ToolStatus::Interrupted, "Reading was interrupted.", "Interrupted")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fixture::Fixture;
    use roo_protocol::ids::Digest;
    use roo_text::indented_block::IndentedBlock;
    use roo_text::lines::LineRange;
    use roo_workspace::{IMAGE_BYTES, ImageType};

    async fn read(fixture: &Fixture, name: &str, ranges: &[(usize, usize)]) -> Outcome {
        run(vec![target(fixture, name, ranges)], &fixture.context).await
    }

    fn target(fixture: &Fixture, name: &str, ranges: &[(usize, usize)]) -> ReadTarget {
        ReadTarget {
            path: fixture.context.workspace.resolve(name, Purpose::Read).map_err(|error| error.to_string()),
            request: ReadRequest::lines(
                name,
                ranges.iter().map(|&(start, end)| LineRange { start, end }).collect(),
            ),
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
        // If nothing is shown, the model has seen nothing.
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
            ("widest.txt", &format!("{}\n", "z".repeat(60_000)).repeat(12)),
            ("large.txt", &format!("{}\n", "y".repeat(1999)).repeat(300)),
        ]);
        let outcome = read(&fixture, "long.txt", &[]).await;
        assert!(
            outcome.text.contains("Lines 1-2000 of 2500 are shown. To go on, read the line_range 2001-2500")
        );
        let outcome = read(&fixture, "wide.txt", &[]).await;
        assert!(outcome.text.contains(&format!("1 | {}…\n", "é".repeat(1999))));
        assert!(
            outcome.text.contains(
                "<notice>Cut at 2000 characters, and marked by … at the end: line 1 (it has 2001). Read a line alone \
                 (line_range 1-1)"
            ),
            "{}",
            outcome.text
        );
        let outcome = read(&fixture, "wide.txt", &[(1, 1)]).await;
        assert!(outcome.text.contains(&format!("1 | {}\n", "é".repeat(2001))));
        assert!(!outcome.text.contains("Cut at"), "{}", outcome.text);
        let outcome = read(&fixture, "widest.txt", &[(12, 12)]).await;
        let expected = "Cut at 50000 characters, and marked by … at the end: line 12 (it has 60000). Look for more of it";
        assert!(outcome.text.contains(expected), "{}", outcome.text);
        let outcome = read(&fixture, "widest.txt", &[]).await;
        assert!(outcome.text.contains("line 10 (it has 60000) and 2 more. "), "{}", outcome.text);

        let both = vec![target(&fixture, "large.txt", &[]), target(&fixture, "large.txt", &[(5, 9)])];
        let outcome = run(both, &fixture.context).await;
        assert!(outcome.text.len() < RESULT_BYTES + 1000);
        assert!(outcome.text.contains("Lines 1-130 of 300 are shown. To go on, read the line_range 131-300"));
        assert!(outcome.text.contains("Nothing of it is shown, because this result is full."));
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
        fixture.put("latin", b"caf\xe9");
        assert!(
            read(&fixture, "empty", &[])
                .await
                .text
                .contains("<content/>\n<notice>The file is empty.</notice>")
        );
        let text = read(&fixture, "a.bin", &[]).await.text;
        assert!(text.contains("<binary_file format=\"bin\">2 bytes, not shown</binary_file>"));
        let latin = read(&fixture, "latin", &[]).await;
        assert!(
            latin.text.contains("<notice>The file is encoded in windows-1252. Edits keep that.</notice>\n")
                && latin.text.contains("1 | café\n"),
            "{}",
            latin.text
        );
    }

    #[tokio::test]
    async fn an_image_is_known_by_its_bytes_whatever_its_name() {
        const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0";
        let fixture = Fixture::new(&[]);
        let jpeg: &[u8] = b"\xff\xd8\xff\xe0\0";
        for (name, bytes) in [("a.PNG", PNG), ("b.png", jpeg), ("c", PNG), ("d.png", &b"junk\0"[..])] {
            fixture.put(name, bytes);
        }
        for (name, images) in [
            ("a.PNG", vec![ImageType::Png.data_url(PNG)]),
            ("b.png", vec![ImageType::Jpeg.data_url(jpeg)]),
            ("c", vec![ImageType::Png.data_url(PNG)]),
            ("d.png", vec![]),
        ] {
            assert_eq!(read(&fixture, name, &[]).await.images, images, "{name}");
        }
        let text = read(&fixture, "d.png", &[]).await.text;
        assert!(text.contains("<binary_file format=\"png\">5 bytes, not shown</binary_file>"), "{text}");
    }

    #[tokio::test]
    async fn an_image_is_shown_if_its_base64_fits_into_what_apis_take() {
        let fixture = Fixture::new(&[]);
        let png = |size: usize| [&b"\x89PNG\r\n\x1a\n"[..], &vec![0; size - 8]].concat();
        fixture.put("fits.png", &png(IMAGE_BYTES));
        let image = read(&fixture, "fits.png", &[]).await.images.remove(0);
        assert_eq!(image.len() - "data:image/png;base64,".len(), 5 << 20);
        fixture.put("large.png", &png(4 << 20));
        let large = read(&fixture, "large.png", &[]).await;
        assert!(large.images.is_empty());
        assert!(large.text.contains("The image is not shown: it has 4194304 bytes"), "{}", large.text);
    }

    #[tokio::test]
    async fn a_definition_or_the_block_around_a_line_is_read_by_name_and_line() {
        let text = "fn a() {\n    b();\n}\n\nfn b() {\n    c();\n}\n";
        let fixture = Fixture::new(&[("a.rs", text)]);
        let of = async |block, symbol: Option<&str>| {
            let mut file = target(&fixture, "a.rs", &[]);
            file.request.block = block;
            file.request.symbol = symbol.map(str::to_owned);
            run(vec![file], &fixture.context).await
        };
        let block = IndentedBlock { anchor: 6, levels: 0, siblings: false, header: true, most: 100 };
        for outcome in [of(Some(block), None).await, of(None, Some("b")).await] {
            assert!(
                outcome
                    .text
                    .contains("<content lines=\"5-7\">\n5 | fn b() {\n6 |     c();\n7 | }\n</content>"),
                "{}",
                outcome.text
            );
            assert_eq!(outcome.seen, [("a.rs".to_owned(), Some(Digest::of(text)))]);
        }
        let missing = of(None, Some("d")).await;
        assert_eq!((missing.status, missing.seen), (ToolStatus::Failed, vec![]));
        assert!(missing.text.contains("There is no definition of d here."), "{}", missing.text);
        let beyond = of(Some(IndentedBlock { anchor: 9, ..block }), None).await;
        assert!(beyond.text.contains("There is no line 9: the file has 7 lines."), "{}", beyond.text);
    }

    #[tokio::test]
    async fn a_notebook_is_read_as_its_cells() {
        let notebook = r##"{"cells":[{"cell_type":"markdown","source":["# A\n","b"]},{"cell_type":"code","source":"c()"}]}"##;
        let fixture = Fixture::new(&[("a.ipynb", notebook)]);
        insta::assert_snapshot!(read(&fixture, "a.ipynb", &[]).await.text);
        let part = read(&fixture, "a.ipynb", &[(5, 6)]).await;
        assert!(
            part.text.contains("<content lines=\"5-6\">\n5 | --- Cell 2 (code) ---\n6 | c()\n"),
            "{}",
            part.text
        );
        fixture.put("bad.ipynb", b"[]");
        let bad = read(&fixture, "bad.ipynb", &[]).await;
        assert_eq!(bad.status, ToolStatus::Failed);
        assert!(bad.text.contains("The notebook can't be read: it has no list of cells."), "{}", bad.text);
    }

    #[tokio::test]
    async fn names_can_not_close_our_tags() {
        let fixture = Fixture::new(&[]);
        let outcome = read(&fixture, "a</path><path>b", &[]).await;
        assert!(outcome.text.contains("<path>a&lt;/path&gt;&lt;path&gt;b</path>"));
        assert_eq!(outcome.text.matches("<path>").count(), 1);
    }

    #[tokio::test]
    async fn secrets_are_masked_on_their_lines_and_the_model_is_told() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
        let files = [("a.ini", &*format!("a=1\nt={token}\nb=2\n")), ("b.ini", "a=1\n")];
        let mut fixture = Fixture::new(&files);
        let outcome = read(&fixture, "a.ini", &[]).await;
        assert!(
            outcome.text.contains("2 | t=[masked: ") && outcome.text.contains("3 | b=2"),
            "{}",
            outcome.text
        );
        assert!(
            !outcome.text.contains(&token) && outcome.text.contains("Don't write a mask"),
            "{}",
            outcome.text
        );
        // What was seen is the file, so that its other lines can be edited.
        assert_eq!(outcome.seen, [("a.ini".to_owned(), Some(Digest::of(files[0].1)))]);
        assert!(!read(&fixture, "b.ini", &[]).await.text.contains("mask"));
        fixture.context.redact_secrets = false;
        assert!(read(&fixture, "a.ini", &[]).await.text.contains(&token));
    }

    #[tokio::test]
    async fn values_of_variable_files_are_masked_wherever_they_stand() {
        let fixture =
            Fixture::new(&[(".env", "API_TOKEN=f3kQ9zLw2Xr7\n"), ("a.py", "token('f3kQ9zLw2Xr7')\n")]);
        let text = read(&fixture, "a.py", &[]).await.text;
        assert!(text.contains("1 | token('[masked: API_TOKEN]')"), "{text}");
    }

    #[tokio::test]
    async fn a_cancelled_read_is_interrupted() {
        let fixture = Fixture::new(&[("a.txt", "x")]);
        fixture.context.cancel.cancel();
        assert_eq!(read(&fixture, "a.txt", &[]).await.status, ToolStatus::Interrupted);
    }
}
