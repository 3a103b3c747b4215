//! `roo-lsp mcp import`: servers of other programs, taken over.
//!
//! What a file of the workspace names came with the workspace, so it goes into `.roo/mcp.json`, where it waits for trust and
//! approval; only what was the user's own becomes the user's own.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

use super::edit::{ServerFile, next_steps, shown};
use super::secrets;
use crate::cli::arguments::McpProgram;
use crate::cli::session::SessionContext;
use crate::cli::{CliError, Ending, terminal};
use crate::configuration_file::read;
use roo_formats::mcp::edit::{EditError, SameName};
use roo_formats::mcp::{FILE_LIMIT, ForeignFormat, Level, ServerEntry};
use roo_formats::roo_code::places;
use roo_formats::{FileProblem, Problem, Severity};
use roo_text::render::exact_line;
use serde_json::{Value, json};

/// The key of servers in files of Claude Code.
const SERVERS: &str = "mcpServers";

/// The longest file that has much besides servers, in bytes.
const SETTINGS_LIMIT: u64 = 64 << 20;

/// A file that may have servers.
struct SourceFile {
    path: PathBuf,
    format: ForeignFormat,
    level: Level,
    holds: Holds,
}

/// Content of a file.
#[derive(Clone, Copy)]
enum Holds {
    Servers,
    /// Everything that a program keeps, servers among it or not.
    Settings,
}

impl SourceFile {
    /// The text with the servers; none if there is no file, or it has none.
    fn read(&self) -> Result<Option<String>, Box<dyn Error>> {
        match self.holds {
            Holds::Servers => read(&self.path, FILE_LIMIT as u64),
            Holds::Settings => {
                let Some(text) = read(&self.path, SETTINGS_LIMIT)? else { return Ok(None) };
                // What else is in it is nobody's business, an error of the parser's would show some of it.
                let settings: Value = serde_json::from_str(&text).map_err(|_| "it is not valid JSON")?;
                let servers = settings.get(SERVERS).filter(|servers| **servers != json!({}));
                Ok(servers.map(|servers| json!({ SERVERS: servers }).to_string()))
            }
        }
    }

    /// A problem with the file. Positions are those of its text only where that is read whole.
    fn problem(&self, mut problem: Problem) -> FileProblem {
        if matches!(self.holds, Holds::Settings) {
            problem.range = None;
        }
        FileProblem::new(&self.path, problem)
    }
}

/// The files of a program, for people.
fn places_of(program: McpProgram) -> &'static str {
    match program {
        McpProgram::ClaudeCode => ".mcp.json here or servers in .claude.json in the home directory",
        McpProgram::VsCode => ".vscode/mcp.json",
        McpProgram::Cursor => ".cursor/mcp.json here or in the home directory",
        McpProgram::Roo => "mcp_settings.json of Roo Code",
    }
}

/// The files of a program.
fn files(context: &SessionContext, program: McpProgram) -> Vec<SourceFile> {
    let holds = Holds::Servers;
    let folder = |name: &str, format| SourceFile {
        path: context.folder.join(name),
        format,
        level: Level::Workspace,
        holds,
    };
    let home = context.directories.home.as_ref();
    match program {
        McpProgram::ClaudeCode => {
            let own = home.map(|home| SourceFile {
                path: home.join(".claude.json"),
                format: ForeignFormat::ClaudeCode,
                level: Level::User,
                holds: Holds::Settings,
            });
            [folder(".mcp.json", ForeignFormat::ClaudeCode)].into_iter().chain(own).collect()
        }
        McpProgram::VsCode => vec![folder(".vscode/mcp.json", ForeignFormat::VsCode)],
        McpProgram::Cursor => {
            let own = home.map(|home| home.join(".cursor/mcp.json"));
            let own =
                own.map(|path| SourceFile { path, format: ForeignFormat::Cursor, level: Level::User, holds });
            [folder(".cursor/mcp.json", ForeignFormat::Cursor)].into_iter().chain(own).collect()
        }
        McpProgram::Roo => {
            let Some(home) = home else { return vec![] };
            let newest = |storage: PathBuf| {
                let mut files = places::SERVERS.iter().map(|name| storage.join(name));
                files.find(|path| path.is_file())
            };
            places::storages(home).into_iter().filter_map(newest).map(of_roo_code).collect()
        }
    }
}

fn of_roo_code(path: PathBuf) -> SourceFile {
    SourceFile { path, format: ForeignFormat::RooCode, level: Level::User, holds: Holds::Servers }
}

/// How servers are taken.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Taking {
    /// Nothing is written.
    pub(in crate::cli) dry_run: bool,
    /// They come in the place of others that have their names.
    pub(in crate::cli) replace: bool,
    /// Calls that their file lets run unasked (`alwaysAllow`) do so here too.
    pub(in crate::cli) approvals: bool,
}

/// What came of files of servers.
#[derive(Default)]
struct Taken {
    /// The number of files.
    found: usize,
    left_out: bool,
}

/// Takes over the servers of files of Roo Code. Returns whether all were.
pub(in crate::cli) fn import_roo_servers(
    context: &SessionContext,
    files: Vec<PathBuf>,
    taking: Taking,
) -> Result<bool, CliError> {
    let sources: Vec<SourceFile> = files.into_iter().map(of_roo_code).collect();
    Ok(!take_all(context, &sources, taking)?.left_out)
}

/// Takes servers over. Fails if one was left out.
pub(super) fn import(
    context: &SessionContext,
    from: &[McpProgram],
    taking: Taking,
) -> Result<Ending, CliError> {
    let all = [McpProgram::ClaudeCode, McpProgram::VsCode, McpProgram::Cursor, McpProgram::Roo];
    let programs: Vec<McpProgram> =
        all.into_iter().filter(|program| from.is_empty() || from.contains(program)).collect();
    let sources: Vec<SourceFile> = programs.iter().flat_map(|program| files(context, *program)).collect();
    let Taken { found, left_out } = take_all(context, &sources, taking)?;
    if found == 0 {
        let names: Vec<&str> = programs.iter().map(|program| places_of(*program)).collect();
        return Err(CliError::Other(format!("there is nothing to import: no {}", names.join(", no "))));
    }
    if taking.dry_run {
        writeln!(terminal::stderr(), "roo-lsp: nothing was written; leave out --dry-run to write it")?;
    }
    Ok(if left_out { Ending::Failed } else { Ending::Done })
}

/// Takes over the servers of these files, and says what has to be done before they run.
fn take_all(context: &SessionContext, sources: &[SourceFile], taking: Taking) -> Result<Taken, CliError> {
    let mut targets = [Target::open(context, Level::User)?, Target::open(context, Level::Workspace)?];
    let Taken { mut found, mut left_out } = Taken::default();
    let mut counts_by_itself = false;
    for source in sources {
        let path = shown(context, &source.path);
        let text = match source.read() {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(error) => {
                left_out = true;
                writeln!(terminal::stderr(), "roo-lsp: can't read {path}: {error}")?;
                continue;
            }
        };
        found += 1;
        let imported = match source.format.read(&text) {
            Ok(imported) => imported,
            Err(problem) => {
                left_out = true;
                let problem = source.problem(problem);
                writeln!(terminal::stderr(), "roo-lsp: {}", exact_line(&problem.to_string()))?;
                continue;
            }
        };
        for problem in imported.problems {
            left_out |= problem.severity == Severity::Error;
            let problem = source.problem(problem);
            writeln!(terminal::stderr(), "roo-lsp: {}", exact_line(&problem.to_string()))?;
        }
        let Some(target) = targets.iter_mut().find(|target| target.level == source.level) else { continue };
        for (name, entry) in imported.list.mcp_servers {
            let has_list = source.format == ForeignFormat::RooCode && !entry.always_allow.is_empty();
            let added = target.added.len();
            left_out |= !target.take(&path, &name, entry, taking)?;
            counts_by_itself |= has_list && target.added.len() > added;
        }
    }
    if taking.approvals && counts_by_itself {
        // The switch is in the editor's database, and in an export.
        writeln!(
            terminal::stderr(),
            "roo-lsp: `alwaysAllow` of a server counts by itself here. If Roo Code asked about MCP tools all the same (alwaysAllowMcp \
             was off), import them once more with --replace and without --approvals"
        )?;
    }
    if !taking.dry_run {
        targets.iter().try_for_each(|target| target.file.write(context))?;
        let is_changed = |target: &&Target| !target.added.is_empty();
        // The workspace's last: what follows for it is all that follows.
        if let Some(target) = targets.iter().rfind(is_changed) {
            next_steps(context, target.level, "roo-lsp mcp list")?;
        }
    }
    Ok(Taken { found, left_out })
}

/// A file that servers are taken into.
struct Target {
    file: ServerFile,
    level: Level,
    /// Names of the servers that this command put into it.
    added: BTreeSet<String>,
}

impl Target {
    fn open(context: &SessionContext, level: Level) -> Result<Self, CliError> {
        Ok(Self { file: ServerFile::open(context, level)?, level, added: BTreeSet::new() })
    }

    /// Takes a server, and says so. Returns whether the file has it now.
    fn take(
        &mut self,
        source: &str,
        name: &str,
        mut entry: ServerEntry,
        Taking { dry_run, replace, approvals }: Taking,
    ) -> Result<bool, CliError> {
        let mut out = terminal::stdout();
        let (shown, target) = (exact_line(name), self.file.shown());
        let unasked = entry.always_allow.join(", ");
        // What this command has just written must not be lost either, no more than what was there.
        let same_name = match replace && !self.added.contains(name) {
            true => SameName::Replace,
            false => SameName::Keep,
        };
        // What users decide here stays in an entry that stays, and makes it no other one.
        let own = match same_name {
            SameName::Keep => self.file.entry(name).unwrap_or_default(),
            SameName::Replace => ServerEntry::default(),
        };
        if !approvals {
            entry.always_allow = own.always_allow;
        }
        (entry.sampling, entry.writable) = (own.sampling, own.writable);
        let secrets = match self.level {
            Level::User => secrets::replace_by_references(name, &mut entry.clone()),
            Level::Workspace => secrets::replace_by_references(name, &mut entry),
        };
        match self.file.add(name, &entry, same_name) {
            Ok(true) => {
                self.added.insert(name.to_owned());
                let done = if dry_run { "would be written" } else { "written" };
                writeln!(out, "{shown}: {done} to {target}, from {source}")?;
            }
            Ok(false) => {
                writeln!(out, "{shown}: is in {target} already, as in {source}")?;
                return Ok(true);
            }
            Err(EditError::Exists(_)) if self.added.contains(name) => {
                writeln!(
                    out,
                    "{shown}: left out: {source} has another server of this name than the file before"
                )?;
                return Ok(false);
            }
            Err(error @ EditError::Exists(_)) => {
                writeln!(out, "{shown}: left out: {target}: {error}; --replace takes the one of {source}")?;
                return Ok(false);
            }
            Err(error) => {
                writeln!(out, "{shown}: left out: {target}: {}", exact_line(&error.to_string()))?;
                return Ok(false);
            }
        }
        if self.level == Level::User && !unasked.is_empty() {
            let unasked = exact_line(&unasked);
            match approvals {
                true => writeln!(out, "  `alwaysAllow` lets these calls run unasked: {unasked}")?,
                false => writeln!(
                    out,
                    "  these calls ask, as `alwaysAllow` comes with --approvals only: {unasked}"
                )?,
            }
        }
        for secret in secrets {
            let (place, variable) = (exact_line(&secret.place), secret.variable);
            match self.level {
                Level::User => writeln!(
                    out,
                    "  {place} is a secret in clear text in both files; '${{env:{variable}}}' would keep it out"
                )?,
                Level::Workspace => writeln!(
                    out,
                    "  {place} is a secret in clear text and not copied; set {variable} before roo-lsp starts"
                )?,
            }
        }
        Ok(true)
    }
}
