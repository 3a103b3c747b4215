//! `roo-lsp mcp add` and `remove`: one server of a file.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use super::{login, secrets};
use crate::cli::arguments::McpAdd;
use crate::cli::session::SessionContext;
use crate::cli::{CliError, Ending, terminal};
use crate::configuration_file::ConfigurationFile;
use crate::mcp::Logins;
use crate::shell_word::shell_word;
use roo_engine::customization::{GLOBAL_MCP, PROJECT_MCP};
use roo_formats::mcp::edit::{EditError, SameName, server, with_server, without_server};
use roo_formats::mcp::{FILE_LIMIT, Level, ParsedServers, ServerEntry, ServerList, ServerType};
use roo_formats::{Problem, Severity};
use roo_text::render::exact_line;

/// A file of servers, to be edited.
pub(super) struct ServerFile {
    file: ConfigurationFile,
    level: Level,
    /// As it is to be written.
    text: String,
}

impl ServerFile {
    pub(super) fn open(context: &SessionContext, level: Level) -> Result<Self, CliError> {
        let path = match level {
            Level::User => context.directories.config.join(GLOBAL_MCP),
            Level::Workspace => context.folder.join(PROJECT_MCP),
        };
        let shown = exact_line(&path.to_string_lossy());
        let file = ConfigurationFile::open(path, FILE_LIMIT as u64)
            .map_err(|error| CliError::Other(format!("can't read {shown}: {error}")))?;
        let text = file.text().to_owned();
        Ok(Self { file, level, text })
    }

    /// The file as users write it.
    pub(super) fn shown(&self) -> String {
        match self.level {
            Level::User => exact_line(&self.file.path().to_string_lossy()),
            Level::Workspace => PROJECT_MCP.to_owned(),
        }
    }

    /// The entry of a server in the text.
    pub(super) fn entry(&self, name: &str) -> Option<ServerEntry> {
        server(&self.text, name)
    }

    /// Adds a server to the text. Returns whether that changed anything.
    pub(super) fn add(
        &mut self,
        name: &str,
        entry: &ServerEntry,
        same_name: SameName,
    ) -> Result<bool, EditError> {
        let edited = with_server(&self.text, name, entry, same_name)?;
        let is_new = edited.is_some();
        self.text = edited.unwrap_or_else(|| std::mem::take(&mut self.text));
        Ok(is_new)
    }

    /// Writes the text, if it was changed.
    pub(super) fn write(&self, context: &SessionContext) -> Result<(), CliError> {
        if self.text == self.file.text() {
            return Ok(());
        }
        let written = self.file.replace(&context.folder, &self.text);
        written.map_err(|error| CliError::Other(format!("can't write {}: {error}", self.shown())))
    }

    /// Turns an error of an edit into one of the command.
    fn failed(&self, error: &EditError) -> CliError {
        let advice = match error {
            EditError::Exists(_) => "; --replace puts the new one in its place",
            _ => "",
        };
        let place = match error {
            EditError::Unreadable(Problem { range: Some(range), .. }) => {
                format!(":{}:{}", range.start.line, range.start.column)
            }
            _ => String::new(),
        };
        CliError::Other(exact_line(&format!("{}{place}: {error}{advice}", self.shown())))
    }
}

/// Says what has to be done before servers of a level run.
pub(super) fn next_steps(context: &SessionContext, level: Level, test: &str) -> Result<(), CliError> {
    let mut steps = Vec::new();
    if level == Level::Workspace {
        if !context.customization()?.trust().trusted {
            steps.push("roo-lsp trust".to_owned());
        }
        steps.push(format!("roo-lsp trust --approve {PROJECT_MCP}"));
    }
    steps.push(test.to_owned());
    writeln!(terminal::stdout(), "next: {}", steps.join(", then "))?;
    Ok(())
}

/// The problems that `mcp.json` would have with an entry.
fn problems(name: &str, entry: &ServerEntry) -> Vec<Problem> {
    let list = ServerList { mcp_servers: BTreeMap::from([(name.to_owned(), entry.clone())]) };
    // Neither texts nor memory have errors.
    let text = serde_json::to_string(&list).unwrap_or_default();
    ParsedServers::parse(&text).map_or_else(|problem| vec![problem], |parsed| parsed.problems)
}

/// Writes a server.
pub(super) fn add(context: &SessionContext, added: McpAdd) -> Result<Ending, CliError> {
    let McpAdd { name, project, env, header, url, replace, command } = added;
    let level = if project { Level::Workspace } else { Level::User };
    let mut words = command.into_iter();
    let entry = ServerEntry {
        server_type: url.as_deref().map(type_of),
        command: words.next(),
        args: words.collect(),
        env: env.into_iter().collect(),
        url,
        headers: header.into_iter().collect(),
        ..ServerEntry::default()
    };
    for problem in problems(&name, &entry) {
        if problem.severity == Severity::Error {
            return Err(CliError::Usage(exact_line(&problem.message)));
        }
        writeln!(terminal::stderr(), "roo-lsp: {}", exact_line(&problem.message))?;
    }
    let empty = entry.env.iter().chain(&entry.headers).filter(|(_, value)| value.is_empty());
    for (key, _) in empty {
        writeln!(
            terminal::stderr(),
            "roo-lsp: {} is empty; write a reference in single quotes, or a shell replaces it",
            exact_line(key)
        )?;
    }
    let secrets = secrets::replace_by_references(&name, &mut entry.clone());
    for secret in &secrets {
        let (place, variable) = (exact_line(&secret.place), &secret.variable);
        if level == Level::Workspace {
            return Err(CliError::Usage(format!(
                "{place} looks like a secret, and {PROJECT_MCP} is for everybody with access to the workspace: \
                 write '${{env:{variable}}}' and set {variable}"
            )));
        }
        writeln!(
            terminal::stderr(),
            "roo-lsp: {place} looks like a secret and is written in clear text; \
             '${{env:{variable}}}' would keep it out of the file"
        )?;
    }
    let mut file = ServerFile::open(context, level)?;
    let same_name = if replace { SameName::Replace } else { SameName::Keep };
    let is_new = file.add(&name, &entry, same_name).map_err(|error| file.failed(&error))?;
    file.write(context)?;
    let (name, shown) = (exact_line(&name), file.shown());
    match is_new {
        true => writeln!(terminal::stdout(), "{name}: written to {shown}")?,
        false => writeln!(terminal::stdout(), "{name}: is in {shown} already, as it was to be written")?,
    }
    next_steps(context, level, &format!("roo-lsp mcp test {}", shell_word(&name)))?;
    Ok(Ending::Done)
}

/// Removes a server.
pub(super) fn remove(context: &SessionContext, name: &str, project: bool) -> Result<Ending, CliError> {
    let level = if project { Level::Workspace } else { Level::User };
    let mut file = ServerFile::open(context, level)?;
    file.text = without_server(&file.text, name).map_err(|error| {
        let elsewhere = match (&error, level) {
            (EditError::Missing { .. }, Level::User) if is_in(context, Level::Workspace, name) => {
                "; --project removes it from the workspace's .roo/mcp.json"
            }
            (EditError::Missing { .. }, Level::Workspace) if is_in(context, Level::User, name) => {
                "; without --project it is removed from your own mcp.json"
            }
            _ => "",
        };
        match file.failed(&error) {
            CliError::Other(message) => CliError::Other(format!("{message}{elsewhere}")),
            other => other,
        }
    })?;
    file.write(context)?;
    writeln!(terminal::stdout(), "{}: removed from {}", exact_line(name), file.shown())?;
    let logins = Logins::new(&context.directories).named(name, &login::root(context)?);
    if logins.is_ok_and(|keys| !keys.is_empty()) {
        let name = shell_word(name);
        writeln!(terminal::stderr(), "roo-lsp: its login is kept; roo-lsp mcp logout {name} removes it")?;
    }
    Ok(Ending::Done)
}

fn is_in(context: &SessionContext, level: Level, name: &str) -> bool {
    ServerFile::open(context, level).is_ok_and(|file| without_server(&file.text, name).is_ok())
}

/// The transport that an address of a new server is for.
fn type_of(url: &str) -> ServerType {
    let path = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    if path.ends_with("/sse") { ServerType::Sse } else { ServerType::StreamableHttp }
}

/// Path of a file for people; the workspace's relative to it.
pub(super) fn shown(context: &SessionContext, path: &std::path::Path) -> String {
    let path: PathBuf = path.strip_prefix(&context.folder).unwrap_or(path).to_owned();
    exact_line(&path.to_string_lossy())
}
