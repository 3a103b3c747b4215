//! `read_file`: lines of text files.

use super::prelude::*;
use crate::reader::{elements, unescape};
use roo_text::lines::LineRange;

/// One file to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRequest {
    /// As the model wrote it.
    pub path: String,
    /// The ranges; the whole file when empty.
    pub ranges: Vec<LineRange>,
}

/// Reads files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    /// At least one.
    pub files: Vec<ReadRequest>,
}

impl Declaration for ReadFile {
    const SPEC: ToolSpec = ToolSpec {
        description: "Reads one or more text files and returns their lines, numbered. Unsaved text of open \
                      editors is what you get. Read every file you need in one call; give line ranges for \
                      large files. At most 2000 lines come back per range, and the result says how to go on.",
        parameters: &[required(
            "args",
            Kind::Structured(&FILES),
            "The files: each `<file>` holds one `<path>` and any number of `<line_range>start-end</line_range>` \
             (1-based, both ends included).",
        )],
        legacy_parameters: &["path", "start_line", "end_line", "offset", "limit", "files", "mode"],
        example: "<read_file>\n<args>\n<file>\n<path>src/main.rs</path>\n</file>\n<file>\n<path>src/lib.rs</path>\n\
                  <line_range>1-80</line_range>\n</file>\n</args>\n</read_file>",
        mistake: "A directory as path: use list_files to see what a directory holds.",
        hook_names: &["Read"],
        ..ToolSpec::new(ToolName::ReadFile, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { files: files(reader)? })
    }

    fn subject(&self) -> String {
        self.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({
            "tool": "readFile",
            "path": self.files.first().map(|file| &file.path),
            "batchFiles": self.files.iter().map(|file| json!({ "path": file.path })).collect::<Vec<_>>(),
        }))
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        self.files.iter().map(|file| input_of(file, view).into()).collect()
    }

    fn rewrite(
        &self,
        changes: &[Option<Rewrite<'_>>],
        _params: &Object,
    ) -> Result<Option<Object>, RewriteError> {
        let mut entries = Vec::new();
        let mut any = false;
        for (file, change) in self.files.iter().zip(changes) {
            let mut path = file.path.clone();
            let mut ranges: Vec<(usize, usize)> =
                file.ranges.iter().map(|range| (range.start, range.end)).collect();
            if let Some(change) = change
                && !change.is_none()
            {
                any = true;
                path = change.path("file_path", &file.path)?;
                if change.differs("offset") || change.differs("limit") {
                    ranges = range_of(change)?.into_iter().collect();
                }
            }
            let mut entry = json!({ "path": path });
            if !ranges.is_empty() {
                let pairs = ranges.iter().map(|(start, end)| json!([start, end]));
                entry["line_ranges"] = pairs.collect();
            }
            entries.push(entry);
        }
        Ok(any.then(|| object(json!({ "files": entries }))))
    }

    fn hook_response(&self, view: &HookView<'_>, text: &str, _ok: bool) -> Value {
        let first = self.files.first().map(|file| view.path(&file.path));
        json!({ "type": "text", "file": { "filePath": first, "content": text } })
    }
}

/// Form of files in native calls.
const FILES: Structured = Structured {
    name: Some("files"),
    // The XML wording speaks of tags.
    description: Some("The files to read."),
    schema: || {
        json!({
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "The file, relative to the workspace." },
                    "line_ranges": {
                        "type": "array",
                        "description": "Ranges of lines, 1-based, both ends included; the whole file when left out.",
                        "items": { "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2 },
                    },
                },
                "required": ["path"],
                "additionalProperties": false,
            },
        })
    },
};

/// The shapes of `read_file`: nested `args`, `files` as JSON, and `path` with a range.
fn files(reader: &Reader<'_>) -> Result<Vec<ReadRequest>, InvalidCall> {
    let files = if let Some(args) = reader.get("args") {
        match args {
            Value::String(text) => files_from_xml(reader, text)?,
            other => files_from_json(reader, other)?,
        }
    } else if let Some(files) = reader.get("files") {
        match files {
            Value::String(text) => {
                let value = serde_json::from_str(text)
                    .map_err(|error| reader.bad("files", format!("not a JSON list: {error}")))?;
                files_from_json(reader, &value)?
            }
            other => files_from_json(reader, other)?,
        }
    } else {
        let path = reader.optional_text("path")?.ok_or(reader.missing("args"))?;
        let (start, end) = match (reader.integer("offset")?, reader.integer("limit")?) {
            (None, None) => (reader.integer("start_line")?, reader.integer("end_line")?),
            (offset, limit) => {
                let start = offset.unwrap_or(1);
                (Some(start), limit.map(|limit| start.saturating_add(limit.max(1)) - 1))
            }
        };
        vec![ReadRequest { path, ranges: reader.range("start_line", start, end)?.into_iter().collect() }]
    };
    if files.is_empty() {
        return Err(reader.missing("args"));
    }
    Ok(files)
}

fn files_from_xml(reader: &Reader<'_>, text: &str) -> Result<Vec<ReadRequest>, InvalidCall> {
    let mut files = Vec::new();
    for file in elements(text, "file") {
        let path = elements(file, "path").next().map(|path| unescape(path.trim())).unwrap_or_default();
        if path.is_empty() {
            return Err(reader.bad("args", "a <file> without a <path>"));
        }
        let mut ranges = Vec::new();
        for range in elements(file, "line_range") {
            ranges.push(range_text(reader, range)?);
        }
        files.push(ReadRequest { path, ranges });
    }
    Ok(files)
}

fn range_text(reader: &Reader<'_>, text: &str) -> Result<LineRange, InvalidCall> {
    let parsed = text.trim().split_once('-').and_then(|(start, end)| {
        Some((start.trim().parse::<usize>().ok()?, end.trim().parse::<usize>().ok()?))
    });
    let (start, end) = parsed.ok_or_else(|| {
        reader.bad("line_range", format!("expected start-end, such as 1-80, got '{}'", text.trim()))
    })?;
    // Both ends are given, so there is a range.
    Ok(reader.range("line_range", Some(start), Some(end))?.unwrap_or(LineRange { start, end }))
}

fn files_from_json(reader: &Reader<'_>, value: &Value) -> Result<Vec<ReadRequest>, InvalidCall> {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        Value::Object(object) => match object.get("file") {
            Some(Value::Array(list)) => list.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => std::slice::from_ref(value),
        },
        _ => return Err(reader.bad("files", "expected a list of files")),
    };
    list.iter().map(|file| file_from_json(reader, file)).collect()
}

fn file_from_json(reader: &Reader<'_>, file: &Value) -> Result<ReadRequest, InvalidCall> {
    let path = match file {
        Value::String(path) => path.as_str(),
        _ => file.get("path").and_then(Value::as_str).unwrap_or_default(),
    }
    .trim();
    if path.is_empty() {
        return Err(reader.bad("files", "a file without a path"));
    }
    let ranges = match file.get("line_ranges").or_else(|| file.get("line_range")) {
        None | Some(Value::Null) => vec![],
        Some(Value::Array(list)) => {
            // One range written without the outer list.
            if list.len() == 2 && list.iter().all(Value::is_u64) {
                vec![range_from_json(reader, &Value::Array(list.clone()))?]
            } else {
                list.iter().map(|range| range_from_json(reader, range)).collect::<Result<_, _>>()?
            }
        }
        Some(one) => vec![range_from_json(reader, one)?],
    };
    Ok(ReadRequest { path: path.to_owned(), ranges })
}

fn range_from_json(reader: &Reader<'_>, value: &Value) -> Result<LineRange, InvalidCall> {
    let line =
        |value: Option<&Value>| value.and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let (start, end) = match value {
        Value::String(text) => return range_text(reader, text),
        Value::Array(pair) if pair.len() == 2 => (line(pair.first()), line(pair.get(1))),
        Value::Object(object) => (line(object.get("start")), line(object.get("end"))),
        _ => (None, None),
    };
    reader.range("line_ranges", start, end)?
        .filter(|_| start.is_some() && end.is_some())
        .ok_or_else(|| reader.bad("line_ranges", format!("expected [start, end], got {value}")))
}

/// One file as the contract shows it.
fn input_of(file: &ReadRequest, view: &HookView<'_>) -> Object {
    let mut fields = object(json!({ "file_path": view.path(&file.path) }));
    if let Some(range) = file.ranges.first() {
        fields.insert("offset".to_owned(), range.start.into());
        if range.end < usize::MAX {
            fields.insert("limit".to_owned(), (range.end - range.start + 1).into());
        }
    }
    fields
}

/// The lines that a rewrite asks for; none for all.
fn range_of(change: &Rewrite<'_>) -> Result<Option<(usize, usize)>, RewriteError> {
    let number = |field: &str| match change.after.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| wrong(field, "a whole number")),
    };
    let (offset, limit) = (number("offset")?, number("limit")?);
    if offset.is_none() && limit.is_none() {
        return Ok(None);
    }
    let start = offset.unwrap_or(1).max(1);
    let end = limit.map_or(usize::MAX, |limit| start.saturating_add(limit.max(1)) - 1);
    // As large as a range in JSON may be.
    Ok(Some((start, end.min(1 << 40))))
}
