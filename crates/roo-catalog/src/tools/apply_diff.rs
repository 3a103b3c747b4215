//! `apply_diff`: SEARCH/REPLACE blocks in one file.

use super::prelude::*;
use crate::reader::{elements, unescape};
use roo_text::blocks::{self, Block};

/// Changes parts of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyDiff {
    /// As the model wrote it.
    pub path: String,
    /// SEARCH/REPLACE blocks.
    pub diff: String,
}

impl Declaration for ApplyDiff {
    const SPEC: ToolSpec = ToolSpec {
        description: "Changes parts of a file by SEARCH/REPLACE blocks; use it rather than write_to_file unless \
                      most of the file changes. Each SEARCH part must be found in the file exactly once (or \
                      at its start line) and is replaced by the REPLACE part. Put all changes to one file \
                      into one call.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            required(
                "diff",
                Kind::Verbatim,
                "One or more blocks: `<<<<<<< SEARCH`, optionally `:start_line:N`, `-------`, the old lines, \
                 `=======`, the new lines, `>>>>>>> REPLACE`. A line of the file that looks like one of these markers \
                 is written with a backslash before it.",
            ),
        ],
        legacy_parameters: &["args"],
        own_format: Some("diff"),
        example: "<apply_diff>\n<path>src/math.rs</path>\n<diff>\n<<<<<<< SEARCH\n:start_line:12\n-------\n    a - b\n=======\n    a + b\n\
                  >>>>>>> REPLACE\n</diff>\n</apply_diff>",
        mistake: "SEARCH lines written from memory: read the file first and copy its lines exactly.",
        hook_names: &["Edit", "MultiEdit"],
        ..ToolSpec::new(ToolName::ApplyDiff, Group::Edit, Effect::Write)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let (path, diff) = match reader.get("args") {
            Some(args) if reader.get("diff").is_none() => nested_diff(reader, args)?,
            _ => (reader.path("path")?, reader.verbatim("diff")?),
        };
        Ok(Self { path, diff })
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "appliedDiff", "path": self.path, "diff": self.diff }))
    }

    fn edited_files(&self) -> Vec<&str> {
        vec![&self.path]
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        let blocks = blocks::parse(&self.diff).unwrap_or_default();
        vec![object(edit_input(view.path(&self.path), &blocks, &self.diff)).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.insert("path".to_owned(), change.path("file_path", &self.path)?.into());
        if let Some(diff) = rewritten_diff(change, &blocks::parse(&self.diff).unwrap_or_default())? {
            params.insert("diff".to_owned(), diff.into());
        }
        // The nested form would say it a second time.
        if params.remove("args").is_some() && !params.contains_key("diff") {
            params.insert("diff".to_owned(), self.diff.as_str().into());
        }
        Ok(())
    }

    fn hook_response(&self, view: &HookView<'_>, _text: &str, ok: bool) -> Value {
        json!({ "filePath": view.path(&self.path), "success": ok })
    }
}

/// The nested form of Roo's multi-file experiment, for one file.
fn nested_diff(reader: &Reader<'_>, args: &Value) -> Result<(String, String), InvalidCall> {
    let text = args.as_str().ok_or_else(|| reader.bad("args", "expected text"))?;
    let files: Vec<&str> = elements(text, "file").collect();
    let [file] = files.as_slice() else {
        return Err(reader.bad("args", "expected exactly one <file>; make one call for each file"));
    };
    let path = elements(file, "path").next().map(|path| unescape(path.trim())).unwrap_or_default();
    if path.is_empty() {
        return Err(reader.missing("path"));
    }
    let mut diff = String::new();
    for part in elements(file, "diff") {
        let content = elements(part, "content").next().unwrap_or(part).trim();
        let start = elements(part, "start_line").next().map(str::trim);
        let content = content.trim_matches('\n');
        match start {
            Some(line) if !content.contains(":start_line:") => {
                diff.push_str(&content.replacen(
                    "<<<<<<< SEARCH\n",
                    &format!("<<<<<<< SEARCH\n:start_line:{line}\n-------\n"),
                    1,
                ));
            }
            _ => diff.push_str(content),
        }
        diff.push('\n');
    }
    if diff.is_empty() {
        return Err(reader.missing("diff"));
    }
    Ok((path, diff))
}

/// An edit of one file. What looks for words in it finds all of them in the two strings.
pub(super) fn edit_input(path: Value, blocks: &[Block], diff: &str) -> Value {
    if blocks.is_empty() {
        return json!({ "file_path": path, "old_string": "", "new_string": diff });
    }
    let pairs: Vec<(String, String)> =
        blocks.iter().map(|block| (block.search.join("\n"), block.replace.join("\n"))).collect();
    let join = |part: fn(&(String, String)) -> &String| {
        pairs.iter().map(part).cloned().collect::<Vec<_>>().join("\n")
    };
    let edits = pairs.iter().map(|(old, new)| json!({ "old_string": old, "new_string": new }));
    json!({
        "file_path": path,
        "old_string": join(|pair| &pair.0),
        "new_string": join(|pair| &pair.1),
        "replace_all": false,
        "edits": edits.collect::<Vec<_>>(),
    })
}

/// The new diff; none when the edits stay.
fn rewritten_diff(change: &Rewrite<'_>, blocks: &[Block]) -> Result<Option<String>, RewriteError> {
    let pair = |value: &Object| {
        let text = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
        text("old_string").zip(text("new_string"))
    };
    let pairs: Vec<(String, String)> = if change.differs("edits") && change.after.contains_key("edits") {
        let edits = change.after.get("edits").and_then(Value::as_array);
        let edits = edits.map(|edits| edits.iter().map(|edit| edit.as_object().and_then(pair)).collect());
        let pairs: Option<Vec<(String, String)>> = edits.flatten();
        pairs.ok_or_else(|| wrong("edits", "a list of `old_string` and `new_string`"))?
    } else if change.differs("old_string") || change.differs("new_string") {
        if blocks.len() > 1 {
            let message = "an edit of several places can be changed only by `updatedInput.edits`";
            return Err(RewriteError(message.to_owned()));
        }
        vec![pair(change.after).ok_or_else(|| wrong("old_string", "a string, as `new_string`"))?]
    } else {
        return Ok(None);
    };
    let line = |index: usize| blocks.get(index).and_then(|block| block.start_line);
    let diff = pairs.iter().enumerate().map(|(index, (old, new))| block(old, new, line(index)));
    Ok(Some(diff.collect::<Vec<_>>().join("\n\n")))
}

/// One SEARCH/REPLACE block.
fn block(old: &str, new: &str, line: Option<usize>) -> String {
    let line = line.map(|line| format!(":start_line:{line}\n-------\n")).unwrap_or_default();
    let part = |text: &str| match text {
        "" => String::new(),
        text => text.split('\n').map(|line| escaped(line) + "\n").collect(),
    };
    format!("<<<<<<< SEARCH\n{line}{}=======\n{}>>>>>>> REPLACE", part(old), part(new))
}

/// A line that can't be taken for a marker: the reader takes one backslash away where one would be.
fn escaped(line: &str) -> String {
    let body = line.trim_start();
    let bare = body.trim_start_matches('\\');
    let is_marker =
        ["<<<<<<<", "=======", ">>>>>>>", "-------"].iter().any(|marker| bare.starts_with(marker));
    let is_line_marker = [":start_line:", ":end_line:"].iter().any(|marker| bare.starts_with(marker));
    let indentation = line.get(..line.len() - body.len()).unwrap_or_default();
    match (is_marker && indentation.is_empty()) || is_line_marker {
        true => format!("{indentation}\\{body}"),
        false => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_block_says_what_was_put_into_it(old in "[a\\\\<=>:_\\n-]{1,30}", new in "[a\\\\<=>: \\n-]{0,30}", marker in 0usize..6) {
            let markers = ["<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "-------", " :start_line:4", "\\======="];
            let old = format!("{}\n{old}", markers[marker]);
            let blocks = blocks::parse(&block(&old, &new, Some(7))).unwrap();
            prop_assert_eq!(blocks.len(), 1);
            prop_assert_eq!(blocks[0].search.join("\n"), old);
            // A part of one empty line counts as none.
            let expected = if new.is_empty() { vec![] } else { new.split('\n').map(str::to_owned).collect::<Vec<_>>() };
            prop_assert_eq!(&blocks[0].replace, &expected);
            prop_assert_eq!(blocks[0].start_line, Some(7));
        }
    }
}
