//! `roo-lsp trace`: verification of the record of what agents did, and its content.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::path::{Component, Path, PathBuf};

use super::arguments::{Common, TraceCommand, TraceQuery, TraceShape};
use super::session::SessionContext;
use super::terminal;
use super::{CliError, Ending};
use roo_durable::create_named;
use roo_text::render::{self, counted};
use roo_trace::blame::{Attribution, Index};
use roo_trace::export::{self, Shape};
use roo_trace::query::{Filter, query};
use roo_trace::record::{Author, Record};
use roo_trace::verify::{CheckedFile, Copy, Report, verify};
use roo_workspace::{Purpose, to_utf8};

/// The largest file whose lines are told, in bytes.
const MAX_FILE_BYTES: u64 = 20 << 20;

/// Runs one of the subcommands of `trace`.
pub(super) fn trace(common: &Common, command: TraceCommand) -> Result<Ending, CliError> {
    let context = SessionContext::find(common)?;
    let state = context.state();
    let failed = |error: io::Error| CliError::Other(format!("can't read the trace: {error}"));
    let text = match command {
        TraceCommand::Verify { file, json } => {
            let copy = file.as_deref().map_or(Copy::OfFolder(&context.folder), Copy::File);
            let report = verify(state.path(), Some(copy)).map_err(|error| match &file {
                Some(file) => CliError::Other(format!("can't check {}: {error}", shown(file))),
                None => failed(error),
            })?;
            return tell(&report, json);
        }
        TraceCommand::Query(wanted) => {
            let (filter, json) = filter(&context, wanted)?;
            let records = query(state.path(), &filter).map_err(failed)?;
            records
                .iter()
                .map(|record| if json { line_of_json(record) } else { Ok(line_of(record)) })
                .collect()
        }
        TraceCommand::Blame { file, json } => {
            let (path, text) = read(&context.folder, &file)?;
            let mut index = Index::new(state.path());
            index.refresh().map_err(failed)?;
            let lines = index.lines(&path, &text);
            if json { lines.iter().map(line_of_json).collect() } else { Ok(blamed(&text, &lines)) }
        }
        TraceCommand::Export { shape, output } => {
            let shape = match shape {
                TraceShape::Canonical => Shape::Canonical,
                TraceShape::Challenge => Shape::Flat,
                TraceShape::GitAi => Shape::Note,
            };
            let folder = &context.folder;
            match output {
                None => {
                    let mut out = BufWriter::new(terminal::stdout());
                    export::export(state.path(), folder, shape, &mut out)?;
                    out.flush()?;
                }
                Some(path) => {
                    let written = create_named(&path).map(BufWriter::new).and_then(|mut out| {
                        export::export(state.path(), folder, shape, &mut out)?;
                        out.flush()
                    });
                    written
                        .map_err(|error| CliError::Other(format!("can't write {}: {error}", shown(&path))))?;
                }
            }
            Ok(String::new())
        }
    }?;
    terminal::stdout().write_all(text.as_bytes())?;
    // Both pass what they can't read, and believe what they can.
    if let Some(finding) = verify(state.path(), None).ok().and_then(|report| report.original.finding) {
        writeln!(
            terminal::stderr(),
            "roo-lsp: warning: the trace is not intact, so this may be wrong: {finding}; see roo-lsp trace verify"
        )?;
    }
    Ok(Ending::Done)
}

fn shown(path: &Path) -> String {
    render::exact_line(&path.to_string_lossy())
}

fn line_of_json<T: serde::Serialize>(value: &T) -> Result<String, CliError> {
    let json = serde_json_canonicalizer::to_string(value);
    json.map(|json| json + "\n").map_err(|error| CliError::Other(error.to_string()))
}

/// Prints the result of a check to standard output; the first problem is the error.
fn tell(report: &Report, json: bool) -> Result<Ending, CliError> {
    let mut out = terminal::stdout();
    if json {
        out.write_all(line_of_json(report)?.as_bytes())?;
        return Ok(if report.is_whole() { Ending::Done } else { Ending::Failed });
    }
    let verdict = |checked: &CheckedFile| if checked.finding.is_none() { "intact" } else { "not intact" };
    let (original, copy) = (&report.original, report.copy.as_ref());
    match &report.chain {
        None => writeln!(out, "no agent has done anything in this workspace yet: there is no trace")?,
        Some(chain) => {
            writeln!(out, "chain {chain}, newest record {}", report.newest)?;
            if let Some(key) = &report.key {
                writeln!(out, "signed by {key}")?;
            }
            let path = shown(&original.path);
            let records = counted(original.records, "record");
            let heads = counted(original.anchors, "signed head");
            writeln!(out, "the original in {path}: {records} and {heads} checked, {}", verdict(original))?;
        }
    }
    if let Some(copy) = copy {
        let records = counted(copy.records, "record");
        writeln!(out, "the copy {}: {records} checked, {}", shown(&copy.path), verdict(copy))?;
    }
    if let Some(finding) = &original.finding {
        return Err(CliError::Other(format!("the trace is not intact: {finding}")));
    }
    match copy.and_then(|copy| Some((copy, copy.finding.as_ref()?))) {
        None => Ok(Ending::Done),
        Some((copy, _)) if report.chain.is_none() => Err(CliError::Other(format!(
            "{} can't be verified: this machine has no original to compare it with",
            shown(&copy.path)
        ))),
        Some((copy, finding)) => {
            Err(CliError::Other(format!("the copy {} is not intact: {finding}", shown(&copy.path))))
        }
    }
}

fn filter(context: &SessionContext, wanted: TraceQuery) -> Result<(Filter, bool), CliError> {
    let TraceQuery { intent, task, urid, mode, model, path, outcome, since, until, limit, json } = wanted;
    let path = path.map(|path| as_recorded(context, &path)).transpose()?;
    Ok((Filter { intent, task, urid, mode, model, path, outcome, since, until, limit }, json))
}

/// A path as records have it: from the workspace folder, or in full outside of it. Empty for the folder.
fn as_recorded(context: &SessionContext, path: &str) -> Result<String, CliError> {
    let named = Path::new(path);
    if named.is_relative() && !named.components().any(|part| part == Component::ParentDir) {
        let parts = named.components().filter(|part| *part != Component::CurDir);
        return Ok(parts.collect::<PathBuf>().to_string_lossy().into_owned());
    }
    let mut full = PathBuf::new();
    for part in context.folder.join(named).components() {
        match part {
            Component::ParentDir => {
                full.pop();
            }
            part => full.push(part),
        }
    }
    let (workspace, full) = (context.workspace()?, full.to_string_lossy());
    let purposes = [Purpose::Read, Purpose::Write, Purpose::Directory];
    let place = purposes.into_iter().find_map(|purpose| workspace.resolve(&full, purpose).ok());
    let place =
        place.ok_or_else(|| CliError::Usage(format!("{} can't be the path of a record", shown(named))))?;
    let recorded = place.display();
    Ok(if recorded == "." { String::new() } else { recorded })
}

/// A record on one line.
pub(super) fn line_of(record: &Record) -> String {
    let Some(own) = record.own() else { return String::new() };
    let mut line =
        format!("{:>6}  {}  {:<9}  {}", own.seq, record.timestamp, own.outcome.as_str(), own.tool_call);
    for file in &record.files {
        // Writing to a string can't fail.
        let _ = write!(line, "  {}", file.path);
        if file
            .conversations
            .iter()
            .filter_map(|it| it.contributor.as_ref())
            .any(|it| it.kind == Author::Human)
        {
            line.push_str(" (you)");
        }
    }
    for path in own.requested.iter().flat_map(|requested| &requested.paths) {
        let _ = write!(line, "  {path}");
    }
    if let Some(code) = own.command.as_ref().and_then(|command| command.exit_code) {
        let _ = write!(line, "  exit code {code}");
    }
    if let Some(commit) = &own.commit {
        let _ = write!(line, "  {} {}", commit.action, commit.id.get(..10).unwrap_or(&commit.id));
    }
    if let Some(call) = &own.server_call {
        let _ = write!(line, "  {}", call.tool);
    }
    if let Some(class) = own.mutation_class {
        let _ = write!(line, "  {}", class.as_str());
    }
    if own.executes_later.is_some() {
        line.push_str("  executes-later");
    }
    let words =
        [own.intent_id.as_deref(), Some(own.mode.as_str()), own.model.as_deref(), Some(own.urid.as_str())];
    for word in words.into_iter().flatten() {
        let _ = write!(line, "  {word}");
    }
    render::exact_line(&line) + "\n"
}

/// A file's name as the trace has it, and its text.
fn read(folder: &Path, file: &Path) -> Result<(String, String), CliError> {
    let failed = |error: io::Error| CliError::Other(format!("can't read {}: {error}", shown(file)));
    let full = file.canonicalize().map_err(failed)?;
    let found = full.metadata().map_err(failed)?;
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return Err(failed(io::Error::other("it is not a regular file of at most 20 MiB")));
    }
    let text = String::from_utf8(to_utf8(std::fs::read(&full).map_err(failed)?));
    let text = text.map_err(|_| failed(io::Error::other("it is no text")))?;
    let path = full.strip_prefix(folder).unwrap_or(&full);
    Ok((path.to_string_lossy().into_owned(), text))
}

/// The lines of a file with who wrote them; nothing stands before those that no agent wrote.
fn blamed(text: &str, lines: &[Option<std::sync::Arc<Attribution>>]) -> String {
    let of = |found: &Attribution| {
        let (who, model) = match found.author {
            Author::Human => (Some("you in".to_owned()), None),
            _ => (None, found.model.clone()),
        };
        let words = [
            Some(found.seq.to_string()),
            found.intent.clone(),
            who,
            Some(found.mode.clone()),
            model,
            Some(found.at.get(..10).unwrap_or_default().to_owned()),
        ];
        render::exact_line(&words.into_iter().flatten().collect::<Vec<_>>().join(" "))
    };
    let names: Vec<String> =
        lines.iter().map(|found| found.as_ref().map_or_else(String::new, |found| of(found))).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let mut shown = String::new();
    for (name, line) in names.iter().zip(roo_text::lines::lines(text)) {
        // Writing to a string can't fail.
        let _ = writeln!(shown, "{name:<width$} | {}", render::visible(line.text));
    }
    shown
}
