//! The files that configure MCP servers: which servers there are, and whether what a workspace's would start or connect to
//! was approved.
//!
//! A workspace's servers count as they were approved: by command, arguments, directory, variables, address and headers,
//! and by the text of every script of the workspace that a command names. When one of these changes, none of them
//! runs until they are approved again. What only narrows or delays calls (`timeout`, `disabledTools`) needs no approval.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::files::Files;
use super::script::{Script, ScriptState};
use super::trust::TrustState;
use super::{PROJECT_MCP, Scope};
use crate::hooks::{Program, scripts};
use roo_durable::Fingerprint;
use roo_formats::mcp::{ConfiguredServer, FILE_LIMIT, Level, ParsedServers, Server, Transport, merge};
use roo_formats::{FileProblem, Severity};
use roo_protocol::customization::{PendingKind, PendingTrust};
use roo_protocol::ids::Digest;

/// The most words of the commands of a file that may be files of the workspace.
const SCRIPTS_LIMIT: usize = 5000;

/// A server that is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    /// Entry of its file.
    pub configured: ConfiguredServer,
    /// True if it may run: it is the user's, or it was approved as it is now.
    pub is_approved: bool,
}

/// The files, and what they hold.
pub(super) struct McpFiles {
    user: McpFile,
    project: Option<McpFile>,
    root: Option<PathBuf>,
}

/// One file.
struct McpFile {
    path: PathBuf,
    scope: Scope,
    /// Of what was read last; none when that may have changed since without a trace.
    seen: Option<Option<Fingerprint>>,
    /// The text that `servers` came from.
    digest: Option<Digest>,
    servers: Vec<Server>,
    scripts: Vec<Script>,
    problems: Vec<FileProblem>,
}

impl McpFiles {
    pub(super) fn new(user: PathBuf, root: Option<&Path>) -> Self {
        Self {
            user: McpFile::new(user, Scope::Global),
            project: root.map(|root| McpFile::new(root.join(PROJECT_MCP), Scope::Project)),
            root: root.map(Path::to_owned),
        }
    }

    /// Returns whether the workspace has such a file.
    pub(super) fn project_file_exists(&self) -> bool {
        self.project.as_ref().is_some_and(|file| Fingerprint::from_file(&file.path).is_some())
    }

    /// Reads what may have changed. Of a workspace that isn't trusted nothing is read.
    pub(super) fn refresh(&mut self, files: &Files, trust: &TrustState) {
        self.user.refresh(files, None);
        if let Some(project) = &mut self.project {
            match trust.trusted {
                true => project.refresh(files, self.root.as_deref()),
                false => project.forget(),
            }
        }
    }

    /// The servers of both levels, by name.
    pub(super) fn servers(&self, trust: &TrustState) -> Vec<McpServer> {
        let parsed = |servers: &[Server]| ParsedServers { servers: servers.to_vec(), problems: vec![] };
        let project = self.project.as_ref();
        let of_project = project.map_or(&[][..], |file| &file.servers);
        let project_is_approved =
            project.is_some_and(|file| file.approval().is_some_and(|digest| is_approved(trust, digest)));
        let merged = merge(parsed(&self.user.servers), parsed(of_project));
        let servers = merged.into_iter().map(|configured| {
            let is_approved = configured.level == Level::User || project_is_approved;
            McpServer { configured, is_approved }
        });
        servers.collect()
    }

    /// The workspace's servers, if they wait for an approval.
    pub(super) fn pending(&self, trust: &TrustState) -> Option<PendingTrust> {
        let project = self.project.as_ref().filter(|_| trust.trusted)?;
        let digest = project.approval().filter(|digest| !is_approved(trust, *digest))?;
        let path = PROJECT_MCP.to_owned();
        Some(PendingTrust { path, digest, kind: PendingKind::File, widens: project.lines() })
    }

    /// Returns the problems of the files in use.
    pub(super) fn problems(&self, trust: &TrustState) -> Vec<FileProblem> {
        let mut problems = self.user.problems.clone();
        if let Some(project) = self.project.as_ref().filter(|_| trust.trusted) {
            problems.extend_from_slice(&project.problems);
            problems.extend(project.unreadable());
            if self.pending(trust).is_some() {
                let message = format!(
                    "no server of this file runs until you approve its current version: `roo-lsp trust --approve \
                     {PROJECT_MCP}`, or the command roo.trustWorkspace with this path"
                );
                problems.push(FileProblem::error(&project.path, None, message));
            }
        }
        problems
    }
}

fn is_approved(trust: &TrustState, digest: Digest) -> bool {
    trust.approved.contains(&(PROJECT_MCP.to_owned(), digest))
}

/// Returns the problems of a file of servers that held this text.
pub fn problems_of(path: &Path, text: &str) -> Vec<FileProblem> {
    let problems = match ParsedServers::parse(text) {
        Ok(parsed) => parsed.problems,
        Err(problem) => vec![problem],
    };
    problems.into_iter().map(|problem| FileProblem::new(path, problem)).collect()
}

impl McpFile {
    fn new(path: PathBuf, scope: Scope) -> Self {
        Self { path, scope, seen: None, digest: None, servers: vec![], scripts: vec![], problems: vec![] }
    }

    /// The servers that would run.
    fn enabled(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|server| !server.disabled)
    }

    /// Of all that an approval is about; none when there is nothing to approve, or something of it can't be known.
    fn approval(&self) -> Option<Digest> {
        if self.enabled().next().is_none() || self.scripts.len() > SCRIPTS_LIMIT {
            return None;
        }
        let servers: Vec<Value> = self.enabled().map(identity).collect();
        let mut scripts = Vec::new();
        for script in &self.scripts {
            match &script.state {
                ScriptState::Missing => {}
                ScriptState::Known(digest) => scripts.push(json!([script.path, digest])),
                ScriptState::Unreadable(_) => return None,
            }
        }
        Some(Digest::of(json!([servers, scripts]).to_string()))
    }

    /// Lists what would be started or connected to, one line each, with the scripts.
    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.enabled().map(line).collect();
        let known = self.scripts.iter().filter_map(|script| match &script.state {
            ScriptState::Known(digest) => Some((script.path.display(), *digest)),
            _ => None,
        });
        lines.extend(known.map(|(path, digest)| format!("with {path} as it is now, {digest}")));
        lines
    }

    fn unreadable(&self) -> impl Iterator<Item = FileProblem> {
        let too_many = (self.scripts.len() > SCRIPTS_LIMIT).then(|| {
            let message = "no server of this file runs, because its commands name too many files; name fewer";
            FileProblem::error(&self.path, None, message.to_owned())
        });
        let unreadable = self.scripts.iter().take(SCRIPTS_LIMIT).filter_map(|script| match &script.state {
            ScriptState::Unreadable(reason) => {
                let name = script.path.display();
                let message =
                    format!("no server of this file runs, because '{name}' can't be read: {reason}");
                Some(FileProblem::error(&self.path, None, message))
            }
            _ => None,
        });
        too_many.into_iter().chain(unreadable)
    }

    fn forget(&mut self) {
        *self = Self::new(std::mem::take(&mut self.path), self.scope);
    }

    fn refresh(&mut self, files: &Files, root: Option<&Path>) {
        self.refresh_file(files, root);
        if let Some(root) = root {
            for script in self.scripts.iter_mut().take(SCRIPTS_LIMIT) {
                script.refresh(root);
            }
        }
    }

    fn refresh_file(&mut self, files: &Files, root: Option<&Path>) {
        // Taken before reading, so that a change in between is seen the next time.
        let found = Fingerprint::from_file(&self.path);
        if self.seen == Some(found) {
            return;
        }
        self.seen = found.is_none_or(|found| found.is_settled(SystemTime::now())).then_some(found);
        match files.text(&self.path, self.scope, FILE_LIMIT as u64) {
            Ok(None) => self.hold(None, ParsedServers::default(), root),
            Ok(Some(text)) if self.digest == Some(text.digest) => {}
            Ok(Some(text)) => match ParsedServers::parse(&text.text) {
                Ok(parsed) => self.hold(Some(text.digest), parsed, root),
                Err(problem) => self.broken(FileProblem::new(&self.path, problem)),
            },
            Err(error) => {
                // It may become readable although it stays the same.
                self.seen = None;
                self.broken(FileProblem::error(&self.path, None, error.to_string()));
            }
        }
    }

    fn hold(&mut self, digest: Option<Digest>, parsed: ParsedServers, root: Option<&Path>) {
        self.digest = digest;
        self.problems =
            parsed.problems.into_iter().map(|problem| FileProblem::new(&self.path, problem)).collect();
        self.servers = parsed.servers;
        let named: BTreeSet<PathBuf> = root
            .map(|root| self.servers.iter().flat_map(|server| named(server, root)).collect())
            .unwrap_or_default();
        self.scripts = named.into_iter().map(Script::new).collect();
    }

    /// The user's servers go on as they were last good. A workspace's are no longer what was approved.
    fn broken(&mut self, mut problem: FileProblem) {
        self.digest = None;
        if self.scope == Scope::Project {
            self.servers.clear();
            self.scripts.clear();
        } else if !self.servers.is_empty() {
            problem.problem.message.push_str("; the servers of its last valid version stay connected");
        }
        debug_assert_eq!(problem.problem.severity, Severity::Error);
        self.problems = vec![problem];
    }
}

/// All of a server that decides what runs or is connected to.
fn identity(server: &Server) -> Value {
    let text = |template: &dyn std::fmt::Display| template.to_string();
    let transport = match &server.transport {
        Transport::Stdio(stdio) => {
            let args: Vec<String> = stdio.args.iter().map(|arg| text(arg)).collect();
            let env: Vec<(&String, String)> =
                stdio.env.iter().map(|(name, value)| (name, text(value))).collect();
            json!(["stdio", text(&stdio.command), args, stdio.directory.as_ref().map(|d| text(d)), env])
        }
        Transport::StreamableHttp(remote) | Transport::Sse(remote) => {
            let kind = if matches!(server.transport, Transport::Sse(_)) { "sse" } else { "streamable-http" };
            let headers: Vec<(&String, String)> =
                remote.headers.iter().map(|(name, value)| (name, text(value))).collect();
            json!([kind, text(&remote.url), headers])
        }
    };
    json!([server.name, transport])
}

/// Describes what a server would start or connect to, and what it would see of the user's environment.
fn line(server: &Server) -> String {
    let name = &server.name;
    let mut line = match &server.transport {
        Transport::Stdio(stdio) => {
            let words: Vec<String> =
                std::iter::once(&stdio.command).chain(&stdio.args).map(ToString::to_string).collect();
            let words = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "));
            let mut line = format!("MCP server {name} would start `{words}`");
            if let Some(directory) = &stdio.directory {
                line.push_str(&format!(" in {directory}"));
            }
            if !stdio.env.is_empty() {
                let set: Vec<String> =
                    stdio.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
                line.push_str(&format!(" with {}", set.join(", ")));
            }
            line
        }
        Transport::StreamableHttp(remote) | Transport::Sse(remote) => {
            let mut line = format!("MCP server {name} would connect to {}", remote.url);
            if !remote.headers.is_empty() {
                let names: Vec<&str> = remote.headers.keys().map(String::as_str).collect();
                line.push_str(&format!(" with the headers {}", names.join(", ")));
            }
            line
        }
    };
    let variables: Vec<&str> = server.variables().into_iter().collect();
    if !variables.is_empty() {
        line.push_str(&format!("; it gets {} from your environment", variables.join(", ")));
    }
    line
}

/// The files of the workspace that a server's command names.
fn named(server: &Server, root: &Path) -> BTreeSet<PathBuf> {
    let Transport::Stdio(stdio) = &server.transport else { return BTreeSet::new() };
    let below = root.display().to_string();
    let filled =
        |template: &dyn std::fmt::Display| template.to_string().replace("${workspaceFolder}", &below);
    let words = std::iter::once(&stdio.command).chain(&stdio.args).map(|word| filled(word));
    // Words are looked for in the workspace and in the directory that the program starts in, as behind `cd`.
    let directory = stdio.directory.as_ref().map(|directory| filled(directory));
    let program = "cd".to_owned();
    let arguments = std::iter::once(directory.unwrap_or_else(|| ".".to_owned())).chain(words).collect();
    scripts(&Program::Direct { program, arguments }, root)
}

#[cfg(test)]
#[path = "mcp_files_tests.rs"]
mod tests;
