//! Servers from the files of other programs, turned into the format of `mcp.json`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::file::{Reader, ServerEntry, ServerList, ServerType, server_objects};
use crate::config::yaml::Step;
use crate::problem::{Problem, Severity};

/// A program whose file of servers can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignFormat {
    /// `.mcp.json` and `~/.claude.json` of Claude Code.
    ClaudeCode,
    /// `.vscode/mcp.json` of VS Code.
    VsCode,
    /// `.cursor/mcp.json` of Cursor.
    Cursor,
    /// `mcp_settings.json` of Roo Code.
    RooCode,
}

/// Servers of another program's file, ready to be written into `mcp.json`.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The servers.
    pub list: ServerList,
    /// Problems with what could not be carried over, or not as it was.
    pub problems: Vec<Problem>,
}

impl ForeignFormat {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// A text that is too large, no JSON, or has no servers.
    pub fn read(self, text: &str) -> Result<Imported, Problem> {
        let lists: &[&'static str] = match self {
            Self::VsCode => &["servers", "mcpServers"],
            Self::ClaudeCode | Self::Cursor | Self::RooCode => &["mcpServers"],
        };
        let (list, servers) = server_objects(text, lists)?;
        let mut reader = Reader::new(text, list);
        let mut entries = BTreeMap::new();
        for (name, value) in servers {
            if let Some(entry) = self.entry(&mut reader, &name, value) {
                entries.insert(name, entry);
            }
        }
        Ok(Imported { list: ServerList { mcp_servers: entries }, problems: reader.problems.finish() })
    }

    fn entry(self, reader: &mut Reader<'_>, name: &str, mut value: Value) -> Option<ServerEntry> {
        if let Some(object) = value.as_object_mut() {
            self.leave_out(reader, name, object);
        }
        self.convert_references(reader, name, &mut value, &mut Vec::new());
        let mut entry = reader.entry(name, &value)?;
        if entry.server_type.is_none() {
            // These programs try both.
            entry.server_type = entry.url.as_deref().map(ServerType::of_address);
        }
        // What our own file would say of it.
        reader.check(name, entry.clone()).map(|_| entry)
    }

    /// Takes out what has no meaning here.
    fn leave_out(self, reader: &mut Reader<'_>, name: &str, object: &mut Map<String, Value>) {
        let without_meaning: &[(&str, &str)] = match self {
            Self::RooCode => &[],
            Self::ClaudeCode => &[
                ("headersHelper", "write the header's value with `${env:NAME}`"),
                ("oauth", "signing in is done when the server asks for it"),
            ],
            Self::VsCode | Self::Cursor => &[
                ("envFile", "write the variables into `env`"),
                ("dev", "name files to watch in `watchPaths`"),
                ("auth", "signing in is done when the server asks for it"),
                ("sandbox", "servers run in the sandbox of roo-lsp"),
                ("sandboxEnabled", "servers run in the sandbox of roo-lsp"),
            ],
        };
        for (key, advice) in without_meaning {
            if object.contains_key(*key) {
                let message = format!("`{key}` is not carried over: {advice}");
                reader.problem(Severity::Warning, name, &[Step::Name((*key).to_owned())], message);
                object.remove(*key);
            }
        }
    }

    /// Writes references as `${env:NAME}`.
    fn convert_references(
        self,
        reader: &mut Reader<'_>,
        name: &str,
        value: &mut Value,
        path: &mut Vec<Step>,
    ) {
        match value {
            Value::String(text) => {
                let (converted, problems) = self.convert_text(text);
                *text = converted;
                for problem in problems {
                    reader.problem(Severity::Warning, name, path, problem);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    path.push(Step::Index(index));
                    self.convert_references(reader, name, item, path);
                    path.pop();
                }
            }
            Value::Object(entries) => {
                for (key, item) in entries {
                    path.push(Step::Key(key.clone()));
                    self.convert_references(reader, name, item, path);
                    path.pop();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn convert_text(self, text: &str) -> (String, Vec<String>) {
        let mut converted = String::new();
        let mut problems = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((reference, behind)) = after.split_once('}') else { break };
            converted.push_str(before);
            converted.push_str(&self.convert_reference(reference, &mut problems));
            rest = behind;
        }
        converted.push_str(rest);
        (converted, problems)
    }

    fn convert_reference(self, reference: &str, problems: &mut Vec<String>) -> String {
        let is_name = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        match self {
            Self::ClaudeCode => {
                let (name, default) = reference
                    .split_once(":-")
                    .map_or((reference, None), |(name, default)| (name, Some(default)));
                if !is_name(name) {
                    return format!("${{{reference}}}");
                }
                if default.is_some() {
                    problems.push(format!(
                        "`${{{reference}}}` has a default, which is not carried over: set `{name}`, or write the value"
                    ));
                }
                // What Claude Code calls the folder.
                if name == "CLAUDE_PROJECT_DIR" {
                    return "${workspaceFolder}".to_owned();
                }
                format!("${{env:{name}}}")
            }
            Self::VsCode | Self::Cursor => match reference.strip_prefix("input:") {
                Some(id) if is_name(&id.replace('-', "_")) => {
                    let name = id.replace('-', "_").to_uppercase();
                    problems.push(format!(
                        "`${{{reference}}}` asks the user, which mcp.json can't: set the environment variable `{name}`"
                    ));
                    format!("${{env:{name}}}")
                }
                _ if reference == "userHome" => "${env:HOME}".to_owned(),
                _ if reference == "pathSeparator" || reference == "/" => "/".to_owned(),
                _ => format!("${{{reference}}}"),
            },
            Self::RooCode => format!("${{{reference}}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(format: ForeignFormat, text: &str) -> (Value, Vec<String>) {
        let imported = format.read(text).unwrap();
        let messages = imported.problems.iter().map(|problem| problem.message.clone()).collect();
        (serde_json::to_value(&imported.list).unwrap(), messages)
    }

    #[test]
    fn servers_of_claude_code_are_converted() {
        let (list, problems) = import(
            ForeignFormat::ClaudeCode,
            r#"{"mcpServers": {
                "api": {"type": "http", "url": "${API_URL}/mcp", "headers": {"Authorization": "Bearer ${API_KEY}"}},
                "db": {"command": "${CLAUDE_PROJECT_DIR}/db", "args": ["--port", "${PORT:-8080}"]}
            }}"#,
        );
        let expected = serde_json::json!({ "mcpServers": {
            "api": { "type": "streamable-http", "url": "${env:API_URL}/mcp",
                     "headers": { "Authorization": "Bearer ${env:API_KEY}" } },
            "db": { "command": "${workspaceFolder}/db", "args": ["--port", "${env:PORT}"] },
        }});
        assert_eq!(list, expected);
        let [default] = problems.as_slice() else { panic!("{problems:?}") };
        assert!(default.contains("`${PORT:-8080}` has a default"), "{default}");
    }

    #[test]
    fn servers_of_vs_code_are_converted() {
        let (list, problems) = import(
            ForeignFormat::VsCode,
            r#"{
                // VS Code allows comments.
                "inputs": [{"type": "promptString", "id": "api-key", "password": true}],
                "servers": {
                    "github": {"type": "http", "url": "https://api.githubcopilot.com/mcp/",
                               "headers": {"Authorization": "Bearer ${input:api-key}"}},
                    "files": {"type": "stdio", "command": "npx", "args": ["-y", "s", "${workspaceFolder}"],
                              "envFile": "${workspaceFolder}/.env"},
                }
            }"#,
        );
        let expected = serde_json::json!({ "mcpServers": {
            "files": { "type": "stdio", "command": "npx", "args": ["-y", "s", "${workspaceFolder}"] },
            "github": { "type": "streamable-http", "url": "https://api.githubcopilot.com/mcp/",
                        "headers": { "Authorization": "Bearer ${env:API_KEY}" } },
        }});
        assert_eq!(list, expected);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("set the environment variable `API_KEY`"), "{problems:?}");
        assert!(problems[1].contains("`envFile` is not carried over"), "{problems:?}");
    }

    #[test]
    fn servers_of_cursor_are_converted() {
        let (list, problems) = import(
            ForeignFormat::Cursor,
            r#"{"mcpServers": {
                "one": {"url": "https://example.com/mcp", "headers": {"X": "${env:X}"}},
                "two": {"command": "python", "args": ["${userHome}/server.py"]},
                "three": {"args": []},
                "four": {"url": "https://example.com/sse?team=a"}
            }}"#,
        );
        let expected = serde_json::json!({ "mcpServers": {
            "one": { "type": "streamable-http", "url": "https://example.com/mcp", "headers": { "X": "${env:X}" } },
            "two": { "command": "python", "args": ["${env:HOME}/server.py"] },
            "four": { "type": "sse", "url": "https://example.com/sse?team=a" },
        }});
        assert_eq!(list, expected);
        assert!(problems[0].starts_with("server `three`: expected `command` for a program"), "{problems:?}");
    }

    #[test]
    fn the_file_of_roo_code_stays_as_it_is() {
        let text = r#"{"mcpServers": {"a": {"command": "a", "args": ["${env:B}"], "alwaysAllow": ["*"], "timeout": 5}}}"#;
        let (list, problems) = import(ForeignFormat::RooCode, text);
        assert_eq!((list, problems), (serde_json::from_str(text).unwrap(), vec![]));
    }

    #[test]
    fn what_is_imported_is_read_without_problems() {
        let text = r#"{"mcpServers": {"a": {"url": "https://example.com", "headers": {"K": "${K}"}}, "b": {"command": "b"}}}"#;
        let imported = ForeignFormat::ClaudeCode.read(text).unwrap();
        let written = serde_json::to_string_pretty(&imported.list).unwrap();
        let parsed = super::super::ParsedServers::parse(&written).unwrap();
        assert_eq!((parsed.servers.len(), parsed.problems), (2, vec![]));
    }
}
