//! The MCP servers that are configured: the user's, and a workspace's, which may run as they were approved.
//!
//! An approval is about command, arguments, directory, variables, address and headers. What only narrows or delays calls
//! (`timeout`, `disabledTools`) needs none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::files::Files;
use super::program_files::{ProgramFiles, Programs};
use super::trust::TrustState;
use super::{PROJECT_MCP, Scope};
use crate::hooks::{Program, scripts};
use roo_formats::mcp::{ConfiguredServer, FILE_LIMIT, Level, ParsedServers, Server, Transport, merge};
use roo_formats::{FileProblem, Problem, Severity};
use roo_protocol::customization::PendingTrust;
use roo_protocol::ids::Digest;

/// A server that is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    /// Entry of its file.
    pub configured: ConfiguredServer,
    /// True if it may run: it is the user's, or it was approved as it is now.
    pub is_approved: bool,
}

/// The files, and what they hold.
pub(super) struct McpFiles(ProgramFiles<Servers>);

/// The servers of a file.
struct Servers(Vec<Server>);

impl McpFiles {
    pub(super) fn new(user: PathBuf, root: Option<&Path>) -> Self {
        Self(ProgramFiles::new(user, root))
    }

    /// Returns whether it matters if the workspace is trusted.
    pub(super) fn depends_on_trust(&self) -> bool {
        self.0.depends_on_trust()
    }

    /// Reads what may have changed. Of a workspace that isn't trusted nothing is read. `now` is in milliseconds since the Unix
    /// epoch.
    pub(super) fn refresh(&mut self, files: &Files, trust: &TrustState, now: i64) {
        self.0.refresh(files, trust.trusted, now);
    }

    /// The servers of both levels, by name.
    pub(super) fn servers(&self, trust: &TrustState) -> Vec<McpServer> {
        let parsed = |servers: Option<&Servers>| ParsedServers {
            servers: servers.map(|servers| servers.0.clone()).unwrap_or_default(),
            problems: vec![],
        };
        let project_is_approved = self.0.project_is_approved(trust);
        let merged = merge(parsed(self.0.user()), parsed(self.0.project()));
        let servers = merged.into_iter().map(|configured| {
            let is_approved = configured.level == Level::User || project_is_approved;
            McpServer { configured, is_approved }
        });
        servers.collect()
    }

    /// The workspace's servers, if they wait for an approval.
    pub(super) fn pending(&self, trust: &TrustState) -> Option<PendingTrust> {
        self.0.pending(trust)
    }

    /// Returns the problems of the files in use.
    pub(super) fn problems(&self, trust: &TrustState) -> Vec<FileProblem> {
        self.0.problems(trust)
    }

    /// Returns whether a file may be being saved.
    pub(super) fn is_being_saved(&self) -> bool {
        self.0.is_being_saved()
    }
}

/// Returns the problems of a file of servers that held this text.
pub fn problems_of(path: &Path, text: &str) -> Vec<FileProblem> {
    let problems = match ParsedServers::parse(text) {
        Ok(parsed) => parsed.problems,
        Err(problem) => vec![problem],
    };
    problems.into_iter().map(|problem| FileProblem::new(path, problem)).collect()
}

impl Servers {
    /// The servers that would run.
    fn enabled(&self) -> impl Iterator<Item = &Server> {
        self.0.iter().filter(|server| !server.disabled)
    }
}

impl Programs for Servers {
    const PROJECT: &'static str = PROJECT_MCP;
    const LIMIT: usize = FILE_LIMIT;
    const ONE: &'static str = "server";
    const WAITING: Severity = Severity::Information;
    const STAY: &'static str = "the servers of its last valid version stay connected";

    fn parse(text: &str, _: Scope) -> Result<(Self, Vec<Problem>), Problem> {
        let parsed = ParsedServers::parse(text)?;
        Ok((Self(parsed.servers), parsed.problems))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn scripts(&self, root: &Path) -> BTreeSet<PathBuf> {
        self.0.iter().flat_map(|server| named(server, root)).collect()
    }

    fn approval(&self, _: Digest, scripts: &[(&Path, Digest)]) -> Option<Digest> {
        let servers: Vec<Value> = self.enabled().map(Server::identity).collect();
        (!servers.is_empty()).then(|| Digest::of(json!([servers, scripts]).to_string()))
    }

    fn lines(&self) -> Vec<String> {
        self.enabled().map(line).collect()
    }
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
