//! One configured server, and what becomes of it when its variables are filled in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::template::Template;

/// Time limit of a call where the file sets none.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// A server as it is configured, with variables not yet filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name, unique in a file.
    pub name: String,
    /// Transport.
    pub transport: Transport<Stdio, Remote>,
    /// True if it is neither started nor connected.
    pub disabled: bool,
    /// Time limit of a call.
    pub timeout: Duration,
    /// Tools that may be called unasked.
    pub always_allow: ToolNames,
    /// Tools that the model does not get.
    pub disabled_tools: ToolNames,
    /// True if it may ask a task's model, where the user's own configuration says so.
    pub sampling: bool,
    /// True if it is started at its first call, once it is known what it offers.
    pub lazy: bool,
}

/// Transport of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport<P = Stdio, R = Remote> {
    /// By the standard input and output of a program.
    Stdio(P),
    /// By streamable HTTP.
    StreamableHttp(R),
    /// By HTTP with server-sent events, as before version 2025-03-26.
    Sse(R),
}

/// A program to start, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stdio {
    /// The program: a name for `PATH`, or a path.
    pub command: Template,
    /// Its arguments.
    pub args: Vec<Template>,
    /// Variables besides the minimal environment.
    pub env: BTreeMap<String, Template>,
    /// Working directory; the workspace folder when none.
    pub directory: Option<Template>,
    /// Folders that it may write, where the user's own configuration says so.
    pub writable: Vec<Template>,
    /// Files whose change restarts it.
    pub watched: Vec<Template>,
}

/// A server to connect to, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its address.
    pub url: Template,
    /// Headers of every request.
    pub headers: BTreeMap<String, Template>,
}

/// Names of tools in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolNames {
    /// All of them: `*`.
    All,
    /// These.
    Named(BTreeSet<String>),
}

impl ToolNames {
    pub(super) fn new(names: Vec<String>) -> Self {
        if names.iter().any(|name| name == "*") {
            Self::All
        } else {
            Self::Named(names.into_iter().collect())
        }
    }

    /// Reports whether a tool is meant.
    pub fn contains(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(tool),
        }
    }
}

impl Default for ToolNames {
    fn default() -> Self {
        Self::Named(BTreeSet::new())
    }
}

/// Environment variables of the user that a server may have by `${env:NAME}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every one: the user's own configuration.
    All,
    /// Those of these names: a workspace's configuration, as far as the user granted it.
    Granted(BTreeSet<String>),
}

/// Sources of the values for references.
pub struct Variables<'a> {
    /// The user's environment.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Variables that may be used.
    pub access: &'a Access,
    /// The workspace folder.
    pub workspace: &'a str,
}

/// Reasons why references can't be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// Variables that are not set.
    #[error(
        "MCP server `{server}`: the environment has no {}; set it before roo-lsp starts, or take the reference out of mcp.json",
        quoted(.names)
    )]
    Missing {
        /// The server.
        server: String,
        /// Their names.
        names: BTreeSet<String>,
    },
    /// Variables of the user that the workspace's configuration asks for and has no grant for.
    #[error(
        "MCP server `{server}` of the workspace asks for {} from your environment; grant it, or configure the server in your own mcp.json",
        quoted(.names)
    )]
    NotGranted {
        /// The server.
        server: String,
        /// Their names.
        names: BTreeSet<String>,
    },
}

fn quoted(names: &BTreeSet<String>) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A server with everything filled in: what runs. Equal values behave equally.
#[derive(Clone, PartialEq, Eq)]
pub struct ResolvedServer {
    /// Its name.
    pub name: String,
    /// Transport.
    pub transport: Transport<ResolvedStdio, ResolvedRemote>,
    /// Time limit of a call.
    pub timeout: Duration,
}

/// A program to start.
#[derive(Clone, PartialEq, Eq)]
pub struct ResolvedStdio {
    /// The program: a name for `PATH`, or a path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables besides the minimal environment.
    pub env: BTreeMap<String, String>,
    /// Working directory; the workspace folder when none.
    pub directory: Option<String>,
    /// Folders that it may write.
    pub writable: Vec<String>,
    /// Files whose change restarts it.
    pub watched: Vec<String>,
}

/// A server to connect to.
#[derive(Clone, PartialEq, Eq)]
pub struct ResolvedRemote {
    /// Its address.
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
}

impl Server {
    /// The environment variables that it refers to by `${env:NAME}`.
    pub fn variables(&self) -> BTreeSet<&str> {
        let templates: Vec<&Template> = match &self.transport {
            Transport::Stdio(stdio) => {
                let texts = stdio.args.iter().chain(stdio.env.values()).chain(&stdio.directory);
                texts.chain(&stdio.writable).chain(&stdio.watched).chain([&stdio.command]).collect()
            }
            Transport::StreamableHttp(remote) | Transport::Sse(remote) => {
                remote.headers.values().chain([&remote.url]).collect()
            }
        };
        templates.into_iter().flat_map(Template::variables).collect()
    }

    /// All of it that decides what runs or is connected to, with references as they are written. May hold secrets.
    pub fn identity(&self) -> Value {
        let text = |template: &Template| template.to_string();
        let texts = |map: &BTreeMap<String, Template>| -> Vec<(String, String)> {
            map.iter().map(|(name, value)| (name.clone(), text(value))).collect()
        };
        let transport = match &self.transport {
            Transport::Stdio(stdio) => {
                let args: Vec<String> = stdio.args.iter().map(text).collect();
                let directory = stdio.directory.as_ref().map(text);
                json!(["stdio", text(&stdio.command), args, directory, texts(&stdio.env)])
            }
            Transport::StreamableHttp(remote) | Transport::Sse(remote) => {
                let is_sse = matches!(self.transport, Transport::Sse(_));
                let kind = if is_sse { "sse" } else { "streamable-http" };
                json!([kind, text(&remote.url), texts(&remote.headers)])
            }
        };
        json!([self.name, transport])
    }

    /// Fills in the references, each string by itself: a value is never read as JSON or as another reference.
    ///
    /// # Errors
    /// A variable that is not set, or that a workspace's server was not granted.
    pub fn resolve(&self, variables: &Variables<'_>) -> Result<ResolvedServer, ResolveError> {
        if let Access::Granted(granted) = variables.access {
            let names: BTreeSet<String> = self
                .variables()
                .into_iter()
                .filter(|name| !granted.contains(*name))
                .map(str::to_owned)
                .collect();
            if !names.is_empty() {
                return Err(ResolveError::NotGranted { server: self.name.clone(), names });
            }
        }
        let mut missing = BTreeSet::new();
        let mut fill =
            |template: &Template| template.fill(variables.environment, variables.workspace, &mut missing);
        let transport = match &self.transport {
            Transport::Stdio(stdio) => Transport::Stdio(ResolvedStdio {
                command: fill(&stdio.command),
                args: stdio.args.iter().map(&mut fill).collect(),
                env: stdio.env.iter().map(|(name, value)| (name.clone(), fill(value))).collect(),
                directory: stdio.directory.as_ref().map(&mut fill),
                writable: stdio.writable.iter().map(&mut fill).collect(),
                watched: stdio.watched.iter().map(&mut fill).collect(),
            }),
            Transport::StreamableHttp(remote) => Transport::StreamableHttp(remote.fill(&mut fill)),
            Transport::Sse(remote) => Transport::Sse(remote.fill(&mut fill)),
        };
        if missing.is_empty() {
            Ok(ResolvedServer { name: self.name.clone(), transport, timeout: self.timeout })
        } else {
            Err(ResolveError::Missing { server: self.name.clone(), names: missing })
        }
    }
}

impl Remote {
    fn fill(&self, mut fill: impl FnMut(&Template) -> String) -> ResolvedRemote {
        ResolvedRemote {
            url: fill(&self.url),
            headers: self.headers.iter().map(|(name, value)| (name.clone(), fill(value))).collect(),
        }
    }
}

// Values may be secrets.
impl fmt::Debug for ResolvedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolvedServer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for ResolvedStdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolvedStdio")
            .field("command", &self.command)
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ResolvedRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolvedRemote").field("headers", &self.headers.keys()).finish_non_exhaustive()
    }
}
