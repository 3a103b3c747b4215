//! The text of `mcp.json`: the object `mcpServers` with one entry a server, as Roo Code writes it.
//!
//! An entry that is wrong is left out with its problem, and the others stay.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::jsonc;
use super::server::{DEFAULT_TIMEOUT, Remote, Server, Stdio, ToolNames, Transport};
use super::template::Template;
use crate::config::yaml::Step;
use crate::declaration::{Declaration, MismatchKind, Text, did_you_mean, published};
use crate::problem::{Problem, Severity};
use crate::problem_list::ProblemList;
use roo_text::misspelling;
use roo_text::render::{exact_line, is_invisible};

/// The largest file, in bytes.
pub const FILE_LIMIT: usize = 1 << 20;
/// The most servers of a file.
const SERVERS_LIMIT: usize = 100;
/// The most problems of a file that are told one by one.
const PROBLEMS_LIMIT: usize = 50;
/// The longest name of a server, in characters.
const NAME_LIMIT: usize = 100;
/// The longest time that a call may take, in seconds.
const MAX_TIMEOUT_SECONDS: u64 = 3600;
/// The key of the list.
pub(super) const LIST: &str = "mcpServers";

/// The format of `mcp.json`.
pub static DECLARATION: LazyLock<Declaration> = LazyLock::new(Declaration::of::<ServerList>);

/// The JSON Schema of `mcp.json`, for editors.
pub fn schema() -> Value {
    published::<ServerList>()
}

/// MCP servers of a workspace or of a user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "MCP servers")]
pub struct ServerList {
    /// The servers by name.
    pub mcp_servers: BTreeMap<String, ServerEntry>,
}

/// One server as it is written. `command` makes it a program that is started, `url` a server that is reached by HTTP.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ServerEntry {
    /// Transport of the server. With `command` it is `stdio` anyway.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub server_type: Option<ServerType>,
    /// The program to start: a name that is searched in `PATH`, or a path. No shell reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The program's arguments.
    #[serde(default, deserialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Text>")]
    pub args: Vec<String>,
    /// Environment variables of the program, besides a minimal environment. `${env:NAME}` passes one on.
    #[serde(default, deserialize_with = "text_map", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Text>")]
    pub env: BTreeMap<String, String>,
    /// Working directory of the program; the workspace folder when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The address of a server that is reached by HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// HTTP headers of every request, such as `Authorization`.
    #[serde(default, deserialize_with = "text_map", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Text>")]
    pub headers: BTreeMap<String, String>,
    /// Does not start or connect the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Time limit of a call, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECONDS), extend("default" = 60))]
    pub timeout: Option<u64>,
    /// Tools that may be called unasked; `*` stands for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub always_allow: Vec<String>,
    /// Tools that the model does not get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled_tools: Vec<String>,
    /// Starts the server at its first call instead of with the session, once it is known what it offers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lazy: bool,
    /// Lets the server ask the task's model while it answers a call (sampling). Each request asks you. Counts in your own
    /// `mcp.json` only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sampling: bool,
    /// Folders that the program may write besides those of its own; relative paths begin at the workspace folder. Counts in your
    /// own `mcp.json` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// Files whose change restarts the program; relative paths begin at the workspace folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch_paths: Vec<String>,
}

impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments, variables, headers and the address may hold secrets.
        f.debug_struct("ServerEntry")
            .field("type", &self.server_type)
            .field("command", &self.command)
            .field("env", &self.env.keys())
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

/// Transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServerType {
    /// A program that speaks over its standard input and output.
    #[serde(rename = "stdio")]
    Stdio,
    /// Streamable HTTP, since version 2025-03-26 of the protocol.
    #[serde(rename = "streamable-http", alias = "http", alias = "streamableHttp", alias = "streamable_http")]
    StreamableHttp,
    /// HTTP with server-sent events, of version 2024-11-05.
    #[serde(rename = "sse")]
    Sse,
}

impl ServerType {
    /// The type that a server at this address most likely has.
    pub(super) fn of_address(url: &str) -> Self {
        let path = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        match path.ends_with("/sse") {
            true => Self::Sse,
            false => Self::StreamableHttp,
        }
    }
}

/// The servers of a file, and what is wrong with the others.
#[derive(Clone, Debug, Default)]
pub struct ParsedServers {
    /// Those that can be used, in the order of the file; each name once.
    pub servers: Vec<Server>,
    /// In the order of the file.
    pub problems: Vec<Problem>,
}

impl ParsedServers {
    /// Reads the text of a file: JSON, in which comments and trailing commas are allowed. An empty file has no servers.
    ///
    /// # Errors
    /// A text that is too large, no JSON, or has no object `mcpServers`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let list = server_objects(text, &[LIST])?.1;
        let mut reader = Reader::new(text, LIST);
        let servers = reader.servers(&list);
        Ok(Self { servers, problems: reader.problems.finish() })
    }
}

/// The first of these objects that a text has, with its name. An empty text has none and is no error.
pub(super) fn server_objects(
    text: &str,
    lists: &[&'static str],
) -> Result<(&'static str, serde_json::Map<String, Value>), Problem> {
    let first = lists.first().copied().unwrap_or(LIST);
    if text.len() > FILE_LIMIT {
        let message =
            format!("the file has more than {FILE_LIMIT} bytes; remove everything that is not a server");
        return Err(Problem::error(None, message));
    }
    let value = jsonc::parse(text)?;
    let Value::Object(mut root) = value else {
        return match value {
            Value::Null => Ok((first, serde_json::Map::new())),
            _ => Err(Problem::error(None, format!("expected an object with the key `{first}`"))),
        };
    };
    let Some(list) = lists.iter().copied().find(|list| root.contains_key(*list)) else {
        let Some(written) = misspelling_of(first, root.keys()) else {
            return Err(Problem::error(None, format!("there is no key `{first}` with servers by name")));
        };
        let position = jsonc::locate(text, &[Step::Name(written.clone())]);
        let message = format!("unknown key `{}`{}", exact_line(written), did_you_mean(Some(first)));
        return Err(Problem::error_at(text, position, message).with_suggestion(Some(first)));
    };
    match root.remove(list) {
        Some(Value::Object(servers)) => Ok((list, servers)),
        _ => {
            let position = jsonc::locate(text, &[Step::Key(list.to_owned())]);
            Err(Problem::error_at(text, position, format!("`{list}` must be an object with servers by name")))
        }
    }
}

/// The one of the written keys that `known` was meant by.
fn misspelling_of<'a>(known: &str, mut written: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    written.find(|key| misspelling::meant(key, [known]).is_some())
}

/// Reads entries and collects what is wrong with them.
pub(super) struct Reader<'a> {
    /// The key of the object with the servers.
    list: &'static str,
    pub problems: ProblemList<'a>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, list: &'static str) -> Self {
        Self { list, problems: ProblemList::new(text, jsonc::locate, PROBLEMS_LIMIT) }
    }

    fn servers(&mut self, list: &serde_json::Map<String, Value>) -> Vec<Server> {
        let mut servers = Vec::new();
        for (name, value) in list {
            if servers.len() == SERVERS_LIMIT {
                let message = format!("the file has more than {SERVERS_LIMIT} servers; the rest is ignored");
                self.problem(Severity::Error, name, &[], message);
                break;
            }
            servers.extend(self.server(name, value));
        }
        servers
    }

    fn server(&mut self, name: &str, value: &Value) -> Option<Server> {
        if !is_name(name) {
            let message = format!(
                "the name `{}` can't be used: expected 1 to {NAME_LIMIT} visible characters",
                exact_line(name)
            );
            self.problem(Severity::Error, name, &[], message);
            return None;
        }
        let entry = self.entry(name, value)?;
        self.check(name, entry)
    }

    /// An entry with the types of its declaration.
    pub(super) fn entry(&mut self, name: &str, value: &Value) -> Option<ServerEntry> {
        if !value.is_object() {
            let message = "expected an object with `command` or `url`".to_owned();
            self.problem(Severity::Error, name, &[], message);
            return None;
        }
        let part = DECLARATION.at(&[LIST, name].map(|key| Step::Key(key.to_owned())))?;
        let mismatches = part.mismatches(value, None);
        let is_wrong = mismatches.iter().any(|mismatch| mismatch.kind == MismatchKind::Value);
        for mismatch in mismatches {
            // A time beyond its bounds is brought within them.
            if mismatch.kind != MismatchKind::Bounds {
                let suggestion = mismatch.suggestion.as_deref();
                self.suggest(mismatch.kind.severity(), name, &mismatch.path, mismatch.message, suggestion);
            }
        }
        if is_wrong {
            return None;
        }
        // What is left is words that aren't allowed.
        let entry = serde_path_to_error::deserialize(value);
        let entry = entry.map_err(|error: serde_path_to_error::Error<serde_json::Error>| {
            let key = error.path().to_string();
            let written = value.get(&key).and_then(Value::as_str);
            let part = part.step(&Step::Key(key.clone()));
            let suggestion = written.and_then(|written| part?.meant(written));
            let suggestion = suggestion.as_deref();
            let message = format!("`{key}`: {}{}", error.into_inner(), did_you_mean(suggestion));
            self.suggest(Severity::Error, name, &[Step::Key(key)], message, suggestion);
        });
        entry.ok()
    }

    /// Checks the keys of an entry together.
    pub(super) fn check(&mut self, name: &str, entry: ServerEntry) -> Option<Server> {
        let transport = match (&entry.command, &entry.url) {
            (Some(_), Some(_)) => {
                self.refuse(name, "url", "`command` and `url` exclude each other; keep one")
            }
            (None, None) => {
                self.problem(
                    Severity::Error,
                    name,
                    &[],
                    "expected `command` for a program to start, or `type` and `url` for a server to connect to".to_owned(),
                );
                None
            }
            (Some(command), None) => self.stdio(name, command, &entry),
            (None, Some(url)) => self.remote(name, url, &entry),
        }?;
        let timeout = match entry.timeout {
            None => DEFAULT_TIMEOUT,
            Some(seconds) => {
                let taken = seconds.clamp(1, MAX_TIMEOUT_SECONDS);
                if taken != seconds {
                    let message =
                        format!("`timeout` is in seconds, from 1 to {MAX_TIMEOUT_SECONDS}; {taken} is used");
                    self.problem(Severity::Warning, name, &[Step::Key("timeout".to_owned())], message);
                }
                Duration::from_secs(taken)
            }
        };
        Some(Server {
            name: name.to_owned(),
            transport,
            disabled: entry.disabled,
            timeout,
            always_allow: ToolNames::new(entry.always_allow),
            disabled_tools: ToolNames::new(entry.disabled_tools),
            sampling: entry.sampling,
            lazy: entry.lazy,
        })
    }

    fn stdio(&mut self, name: &str, command: &str, entry: &ServerEntry) -> Option<Transport> {
        if entry.server_type.is_some_and(|kind| kind != ServerType::Stdio) {
            return self.refuse(name, "type", "a server with `command` has the type `stdio`");
        }
        if !entry.headers.is_empty() {
            return self.refuse(name, "headers", "`headers` belong to servers with a `url`");
        }
        if command.trim().is_empty() {
            return self.refuse(name, "command", "`command` is empty; name the program to start");
        }
        if entry.args.is_empty() && command.split_whitespace().nth(1).is_some() {
            let message =
                "`command` names one program and is not split by a shell: put the arguments into `args`";
            self.problem(Severity::Warning, name, &[Step::Key("command".to_owned())], message.to_owned());
        }
        if let Some(variable) = entry.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let message = format!("`{}` is not the name of an environment variable", exact_line(variable));
            return self.refuse(name, "env", &message);
        }
        let key = |key: &str| Step::Key(key.to_owned());
        Some(Transport::Stdio(Stdio {
            command: self.template(name, &[key("command")], command),
            args: self.templates(name, "args", &entry.args),
            env: self.template_map(name, "env", &entry.env),
            directory: entry.cwd.as_deref().map(|cwd| self.template(name, &[key("cwd")], cwd)),
            writable: self.templates(name, "writable", &entry.writable),
            watched: self.templates(name, "watchPaths", &entry.watch_paths),
        }))
    }

    fn remote(&mut self, name: &str, url: &str, entry: &ServerEntry) -> Option<Transport> {
        for (key, is_there) in [
            ("args", !entry.args.is_empty()),
            ("env", !entry.env.is_empty()),
            ("cwd", entry.cwd.is_some()),
            ("writable", !entry.writable.is_empty()),
            ("watchPaths", !entry.watch_paths.is_empty()),
        ] {
            if is_there {
                return self.refuse(name, key, &format!("`{key}` belongs to servers with a `command`"));
            }
        }
        let is_http = ["http://", "https://", "${env:"].iter().any(|begin| url.starts_with(begin));
        if !is_http {
            return self.refuse(name, "url", "`url` must begin with `https://` or `http://`");
        }
        let kind = match entry.server_type {
            Some(ServerType::Stdio) => {
                return self.refuse(
                    name,
                    "type",
                    "a server with `url` has the type `streamable-http` or `sse`",
                );
            }
            Some(kind) => kind,
            None => {
                let kind = ServerType::of_address(url);
                let word = if kind == ServerType::Sse { "sse" } else { "streamable-http" };
                let message =
                    format!("`type` is missing; `\"type\": \"{word}\"` is assumed because of the address");
                self.problem(Severity::Warning, name, &[Step::Key("url".to_owned())], message);
                kind
            }
        };
        let remote = Remote {
            url: self.template(name, &[Step::Key("url".to_owned())], url),
            headers: self.template_map(name, "headers", &entry.headers),
        };
        Some(match kind {
            ServerType::Sse => Transport::Sse(remote),
            ServerType::Stdio | ServerType::StreamableHttp => Transport::StreamableHttp(remote),
        })
    }

    fn template(&mut self, name: &str, path: &[Step], text: &str) -> Template {
        let (template, problems) = Template::parse(text);
        for problem in problems {
            self.problem(Severity::Warning, name, path, problem.to_string());
        }
        template
    }

    fn templates(&mut self, name: &str, key: &str, texts: &[String]) -> Vec<Template> {
        let path = |index| [Step::Key(key.to_owned()), Step::Index(index)];
        texts.iter().enumerate().map(|(index, text)| self.template(name, &path(index), text)).collect()
    }

    fn template_map(
        &mut self,
        name: &str,
        key: &str,
        texts: &BTreeMap<String, String>,
    ) -> BTreeMap<String, Template> {
        let path = |inner: &str| [Step::Key(key.to_owned()), Step::Key(inner.to_owned())];
        texts.iter().map(|(inner, text)| (inner.clone(), self.template(name, &path(inner), text))).collect()
    }

    fn refuse<T>(&mut self, name: &str, key: &str, message: &str) -> Option<T> {
        self.problem(Severity::Error, name, &[Step::Key(key.to_owned())], message.to_owned());
        None
    }

    pub(super) fn problem(&mut self, severity: Severity, server: &str, path: &[Step], message: String) {
        self.suggest(severity, server, path, message, None);
    }

    fn suggest(
        &mut self,
        severity: Severity,
        server: &str,
        path: &[Step],
        message: String,
        suggestion: Option<&str>,
    ) {
        let server_key =
            if path.is_empty() { Step::Name(server.to_owned()) } else { Step::Key(server.to_owned()) };
        let path = [&[Step::Key(self.list.to_owned()), server_key], path].concat();
        let message = format!("server `{}`: {message}", exact_line(server));
        self.problems.suggest(severity, &path, message, suggestion);
    }
}

fn is_name(name: &str) -> bool {
    !name.trim().is_empty()
        && name.chars().count() <= NAME_LIMIT
        && !name.chars().any(|c| c.is_control() || is_invisible(c))
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Vec::<Text>::deserialize(deserializer)?.into_iter().map(String::from).collect())
}

fn text_map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = BTreeMap::<String, Text>::deserialize(deserializer)?;
    Ok(map.into_iter().map(|(key, text)| (key, text.into())).collect())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
