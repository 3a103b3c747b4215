//! `read_file`: lines of text files.

use super::prelude::*;
use crate::reader::{elements, unescape, whole_number};
use roo_text::indented_block::IndentedBlock;
use roo_text::lines::LineRange;

/// The most lines of a block, where a call says nothing.
const BLOCK_LINES: usize = 2000;

/// One file to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRequest {
    /// As the model wrote it.
    pub path: String,
    /// The ranges; the whole file when nothing else is asked for.
    pub ranges: Vec<LineRange>,
    /// The block around a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<IndentedBlock>,
    /// The definition of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
}

impl ReadRequest {
    /// Lines of a file, or all of it.
    pub fn lines(path: impl Into<String>, ranges: Vec<LineRange>) -> Self {
        Self { path: path.into(), ranges, block: None, symbol: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    /// At least one.
    pub files: Vec<ReadRequest>,
}

impl Declaration for ReadFile {
    const SPEC: ToolSpec = ToolSpec {
        description: "Reads one or more files and returns their lines, numbered: text, with what is unsaved in open \
                      editors, and the text of PDF, office documents and notebooks; images come as images. Read every \
                      file you need in one call; for large files give line ranges, or a `symbol` to read its definition. \
                      At most 2000 lines come back per range, and the result says how to go on.",
        parameters: &[required(
            "args",
            Kind::Structured(&FILES),
            "The files: each `<file>` holds one `<path>` and any number of `<line_range>start-end</line_range>` \
             (1-based, both ends included), or one `<symbol>name</symbol>`, or \
             `<indentation><anchor_line>n</anchor_line></indentation>` for the block around a line.",
        )],
        legacy_parameters: &[
            "path", "file_path", "start_line", "end_line", "line_range", "offset", "limit", "files", "mode", "indentation",
        ],
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
            if let Some(symbol) = &file.symbol {
                entry["symbol"] = symbol.as_str().into();
            }
            if let Some(IndentedBlock { anchor, levels, siblings, header, most }) = file.block {
                entry["indentation"] = json!({
                    "anchor_line": anchor, "max_levels": levels, "include_siblings": siblings,
                    "include_header": header, "max_lines": most,
                });
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
                    "symbol": { "type": "string", "description": "Name of a definition to read." },
                    "indentation": {
                        "type": "object",
                        "description": "Reads the block around a line, by indentation.",
                        "properties": {
                            "anchor_line": { "type": "integer" },
                            "max_levels": { "type": "integer", "description": "Levels to go out; 0 for all." },
                        },
                        "required": ["anchor_line"],
                        "additionalProperties": false,
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
    let files = match ["args", "files"].into_iter().find_map(|name| Some((name, reader.get(name)?))) {
        Some((name, Value::String(text))) => files_from_text(reader, name, text)?,
        Some((_, list)) => files_from_json(reader, list)?,
        None => file_from_parameters(reader)?.into_iter().collect(),
    };
    if files.is_empty() {
        let problem = "no file is named. A function call names them in `files`, a call in tags in <args>";
        return Err(reader.bad("files", problem));
    }
    Ok(files)
}

/// The one file that the parameters of the call name themselves.
fn file_from_parameters(reader: &Reader<'_>) -> Result<Option<ReadRequest>, InvalidCall> {
    let path = match reader.optional_text("path")? {
        None => reader.optional_text("file_path")?,
        path => path,
    };
    let Some(path) = path else { return Ok(None) };
    let is_block = reader.optional_text("mode")?.is_some_and(|mode| mode == "indentation");
    if is_block || reader.get("indentation").is_some() {
        let (offset, limit) = (reader.integer("offset")?, reader.integer("limit")?);
        let wanted = reader.get("indentation").cloned().unwrap_or_default();
        let block = block_from_json(reader, &wanted, offset, limit)?;
        return Ok(Some(ReadRequest { block: Some(block), ..ReadRequest::lines(path, vec![]) }));
    }
    Ok(Some(ReadRequest::lines(path, ranges(reader)?)))
}

/// Files in tags or in JSON.
fn files_from_text(reader: &Reader<'_>, name: &str, text: &str) -> Result<Vec<ReadRequest>, InvalidCall> {
    if text.contains('<') || text.trim().is_empty() {
        return files_from_xml(reader, text);
    }
    let value = serde_json::from_str(text)
        .map_err(|error| reader.bad(name, format!("neither tags nor a JSON list: {error}")))?;
    files_from_json(reader, &value)
}

fn files_from_xml(reader: &Reader<'_>, text: &str) -> Result<Vec<ReadRequest>, InvalidCall> {
    let files: Vec<&str> = elements(text, "file").collect();
    let files = match files.is_empty() && text.contains("<path>") {
        true => vec![text],
        false => files,
    };
    files.into_iter().flat_map(by_path).map(|file| file_from_xml(reader, file)).collect()
}

/// The parts of a text that has several paths: each begins with one.
fn by_path(text: &str) -> Vec<&str> {
    let starts: Vec<usize> = text.match_indices("<path>").map(|(start, _)| start).collect();
    if starts.len() < 2 {
        return vec![text];
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).collect()
}

fn file_from_xml(reader: &Reader<'_>, file: &str) -> Result<ReadRequest, InvalidCall> {
    let path = elements(file, "path").next().map(|path| unescape(path.trim())).unwrap_or_default();
    if path.is_empty() {
        return Err(reader.bad("args", "a <file> without a <path>"));
    }
    let mut fields = Object::new();
    for name in ["offset", "limit", "start_line", "end_line"] {
        fields.extend(elements(file, name).next().map(|value| (name.to_owned(), value.into())));
    }
    let listed = ["line_range", "line_ranges"].into_iter().flat_map(|name| elements(file, name));
    fields.insert("line_ranges".to_owned(), listed.map(Value::from).collect());
    let symbol = elements(file, "symbol").next().map(|symbol| unescape(symbol.trim()));
    let block = elements(file, "indentation").next().map(|wanted| {
        let tags = ["anchor_line", "max_levels", "include_siblings", "include_header", "max_lines"];
        let fields = tags
            .iter()
            .filter_map(|tag| Some(((*tag).to_owned(), Value::from(elements(wanted, tag).next()?.trim()))));
        block_from_json(reader, &Value::Object(fields.collect()), None, None)
    });
    Ok(ReadRequest {
        path,
        ranges: ranges(&Reader { tool: reader.tool, params: &fields })?,
        block: block.transpose()?,
        symbol: named(symbol),
    })
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
    let named_by = |name| file.get(name).and_then(Value::as_str).map(str::trim);
    let path = file.as_str().map(str::trim).or(named_by("path")).or(named_by("file_path"));
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return Err(reader.bad("files", "a file without a path"));
    };
    let none = Object::new();
    let fields = Reader { tool: reader.tool, params: file.as_object().unwrap_or(&none) };
    let block = match fields.get("indentation") {
        None => None,
        Some(wanted) => Some(block_from_json(reader, wanted, None, None)?),
    };
    let symbol = named_by("symbol").map(str::to_owned);
    Ok(ReadRequest { path: path.to_owned(), ranges: ranges(&fields)?, block, symbol: named(symbol) })
}

/// The lines of a file, by the fields of its entry: ranges, `offset` and `limit`, or `start_line` and `end_line`.
fn ranges(entry: &Reader<'_>) -> Result<Vec<LineRange>, InvalidCall> {
    if let Some(listed) = ["line_ranges", "line_range"].into_iter().find_map(|name| entry.get(name)) {
        let ranges = ranges_from_json(entry, listed)?;
        if !ranges.is_empty() {
            return Ok(ranges);
        }
    }
    let (start, end) = match (entry.integer("offset")?, entry.integer("limit")?) {
        (None, None) => {
            let to_end = entry.get("end_line").and_then(Line::read) == Some(Line::Last);
            (entry.integer("start_line")?, if to_end { None } else { entry.integer("end_line")? })
        }
        (offset, limit) => {
            let start = offset.unwrap_or(1);
            (Some(start), limit.map(|limit| start.saturating_add(limit.max(1)) - 1))
        }
    };
    Ok(entry.range("start_line", start, end)?.into_iter().collect())
}

/// A line as ranges name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Number(usize),
    /// The last one of the file: -1.
    Last,
}

impl Line {
    fn read(value: &Value) -> Option<Self> {
        let number = match value {
            Value::Number(number) if number.as_i64() == Some(-1) => return Some(Self::Last),
            Value::Number(_) => whole_number(value)?,
            Value::String(text) if text.trim() == "-1" => return Some(Self::Last),
            Value::String(text) => text.trim().parse().ok()?,
            _ => return None,
        };
        usize::try_from(number).ok().map(Self::Number)
    }
}

/// Ranges: a list of them, or one.
fn ranges_from_json(reader: &Reader<'_>, value: &Value) -> Result<Vec<LineRange>, InvalidCall> {
    match value {
        Value::String(text) => ranges_from_text(reader, text),
        Value::Array(list) => match list.as_slice() {
            // One range written without the outer list.
            [start, end] if [start, end].into_iter().all(|line| Line::read(line).is_some()) => {
                Ok(vec![range_between(reader, value, Line::read(start), Line::read(end))?])
            }
            list => {
                let read = |range: &Value| match range {
                    Value::Array(pair) => match pair.as_slice() {
                        [start, end] => {
                            Ok(vec![range_between(reader, range, Line::read(start), Line::read(end))?])
                        }
                        _ => Err(no_range(reader, range)),
                    },
                    range => ranges_from_json(reader, range),
                };
                Ok(list.iter().map(read).collect::<Result<Vec<_>, _>>()?.concat())
            }
        },
        Value::Object(object) => {
            let line = |name| object.get(name).and_then(Line::read);
            Ok(vec![range_between(reader, value, line("start"), line("end"))?])
        }
        one => Ok(vec![range_between(reader, value, Line::read(one), Line::read(one))?]),
    }
}

/// Ranges as text: `1-80`, `7`, `90-`, several with commas, or JSON.
fn ranges_from_text(reader: &Reader<'_>, text: &str) -> Result<Vec<LineRange>, InvalidCall> {
    let text = text.trim();
    if text.starts_with(['[', '{'])
        && let Ok(value) = serde_json::from_str(text)
    {
        return ranges_from_json(reader, &value);
    }
    let read = |text: &str| {
        let value = Value::from(text.trim());
        let (start, end) = match text.split_once('-') {
            None => (Line::read(&value), Line::read(&value)),
            Some((start, end)) if end.trim().is_empty() => (Line::read(&start.into()), Some(Line::Last)),
            Some((start, end)) => (Line::read(&start.into()), Line::read(&end.into())),
        };
        range_between(reader, &value, start, end)
    };
    text.split(',').filter(|range| !range.trim().is_empty()).map(read).collect()
}

fn range_between(
    reader: &Reader<'_>,
    sent: &Value,
    start: Option<Line>,
    end: Option<Line>,
) -> Result<LineRange, InvalidCall> {
    let end = match end {
        Some(Line::Number(end)) => Some(end),
        Some(Line::Last) => Some(usize::MAX),
        None => None,
    };
    match (start, end) {
        (Some(Line::Number(start)), Some(end)) => {
            Ok(reader.range("line_ranges", Some(start), Some(end))?.unwrap_or(LineRange { start, end }))
        }
        _ => Err(no_range(reader, sent)),
    }
}

fn no_range(reader: &Reader<'_>, sent: &Value) -> InvalidCall {
    let problem = match sent {
        Value::String(text) => format!("expected start-end, such as 1-80, got '{text}'"),
        sent => format!("expected [start, end], got {sent}"),
    };
    reader.bad("line_ranges", problem)
}

fn named(symbol: Option<String>) -> Option<String> {
    symbol.filter(|symbol| !symbol.is_empty())
}

/// A block as Roo names it. Without a line of its own it is around `offset`.
fn block_from_json(
    reader: &Reader<'_>,
    wanted: &Value,
    offset: Option<usize>,
    limit: Option<usize>,
) -> Result<IndentedBlock, InvalidCall> {
    let parsed;
    let wanted = match wanted {
        Value::String(text) => {
            parsed = serde_json::from_str(text).unwrap_or_default();
            &parsed
        }
        wanted => wanted,
    };
    let none = Object::new();
    let fields = Reader { tool: reader.tool, params: wanted.as_object().unwrap_or(&none) };
    let anchor = fields.integer("anchor_line")?.or(offset).unwrap_or(1);
    if anchor == 0 {
        return Err(fields.bad("anchor_line", "lines are counted from 1"));
    }
    let most = fields.integer("max_lines")?.unwrap_or(BLOCK_LINES).min(limit.unwrap_or(BLOCK_LINES));
    Ok(IndentedBlock {
        anchor,
        levels: fields.integer("max_levels")?.unwrap_or(0),
        siblings: fields.boolean("include_siblings")?.unwrap_or(false),
        header: fields.boolean("include_header")?.unwrap_or(true),
        most: most.clamp(1, BLOCK_LINES),
    })
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
