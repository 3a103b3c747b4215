//! Secrets in clear text among the values of a server's entry, and references in their place.
//!
//! Found are values whose name says that they are secret, and those that look like a token. This prevents accidents: a secret
//! in another form is not found.

use roo_formats::mcp::ServerEntry;
use roo_sandbox::exec::redaction::{holds_secret, is_secret_name, url_without_credentials};

/// Words that come before a secret in a header.
const SCHEMES: [&str; 4] = ["Bearer ", "Basic ", "Token ", "token "];

/// A secret in clear text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClearSecret {
    /// Place of the value in the entry, such as `headers.Authorization`. Never the value.
    pub place: String,
    /// The variable of the environment that can hold it.
    pub variable: String,
}

/// Replaces secrets in clear text by references to variables. Returns what was replaced.
pub(super) fn replace_by_references(server: &str, entry: &mut ServerEntry) -> Vec<ClearSecret> {
    let mut found = Vec::new();
    let mut note = |place: String, variable: String| {
        let reference = format!("${{env:{variable}}}");
        found.push(ClearSecret { place, variable });
        reference
    };
    for (name, value) in &mut entry.env {
        if is_clear(name, value) {
            *value = note(format!("env.{name}"), constant(name));
        }
    }
    for (name, value) in &mut entry.headers {
        if is_clear(name, value) {
            let scheme = SCHEMES.into_iter().find(|scheme| value.starts_with(scheme)).unwrap_or_default();
            let reference = note(format!("headers.{name}"), constant(&format!("{server}_{name}")));
            *value = format!("{scheme}{reference}");
        }
    }
    let mut flag = String::new();
    for (index, argument) in entry.args.iter_mut().enumerate() {
        let place = format!("args[{index}]");
        let previous = std::mem::take(&mut flag);
        match argument.split_once('=').filter(|(name, _)| name.starts_with('-')) {
            Some((name, value)) if is_clear(name, value) => {
                let reference = note(place, constant(&format!("{server}_{name}")));
                *argument = format!("{name}={reference}");
            }
            Some(_) if !holds_secret(argument) => {}
            None if argument.starts_with('-') && !holds_secret(argument) => flag.clone_from(argument),
            _ if is_clear(&previous, argument) || has_credentials(argument) => {
                let name = if previous.is_empty() { "secret" } else { &previous };
                *argument = note(place, constant(&format!("{server}_{name}")));
            }
            _ => {}
        }
    }
    if let Some(url) = &mut entry.url
        && (has_credentials(url) || has_secret_in_query(url) || holds_secret(url))
    {
        *url = note("url".to_owned(), constant(&format!("{server}_url")));
    }
    found
}

/// Reports whether a value is a secret that is not a reference.
pub(in crate::cli) fn is_clear(name: &str, value: &str) -> bool {
    let mut literal = value.to_owned();
    while let Some((start, end)) =
        literal.find("${").and_then(|start| Some((start, start + literal[start..].find('}')? + 1)))
    {
        literal.replace_range(start..end, "");
    }
    let scheme = SCHEMES.into_iter().find_map(|scheme| literal.strip_prefix(scheme));
    let literal = scheme.unwrap_or(&literal).trim();
    let is_scheme = SCHEMES.iter().any(|scheme| scheme.trim() == literal);
    let is_secret = is_secret_name(name) || name.to_ascii_lowercase().ends_with("authorization");
    !literal.is_empty() && !is_scheme && (is_secret || holds_secret(literal))
}

/// Reports whether an address has a user name or a password that is not a reference.
pub(in crate::cli) fn has_credentials(url: &str) -> bool {
    let before_host = url.split('@').next().unwrap_or_default();
    url_without_credentials(url).is_some() && !before_host.contains("${")
}

fn has_secret_in_query(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    query.split('&').filter_map(|pair| pair.split_once('=')).any(|(name, value)| is_clear(name, value))
}

/// A name for a variable: capital letters, digits and underscores.
fn constant(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        match c.is_ascii_alphanumeric() {
            true => name.push(c.to_ascii_uppercase()),
            false if !name.is_empty() && !name.ends_with('_') => name.push('_'),
            false => {}
        }
    }
    let name = name.trim_end_matches('_');
    match name.chars().next() {
        Some(first) if !first.is_ascii_digit() => name.to_owned(),
        _ => format!("MCP_{name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn replaced(entry: Value) -> (Value, Vec<String>) {
        let mut entry = serde_json::from_value(entry).unwrap();
        let found = replace_by_references("my-api", &mut entry);
        let found = found.into_iter().map(|secret| format!("{} {}", secret.place, secret.variable));
        (serde_json::to_value(&entry).unwrap(), found.collect())
    }

    #[test]
    fn secrets_in_clear_text_become_references() {
        let (entry, found) = replaced(json!({
            "command": "x",
            "args": ["--api-key", "abc", "--token=def", "--port", "80", "postgres://u:p@db/x", "--verbose"],
            "env": { "GITHUB_TOKEN": "abc", "PORT": "80" },
        }));
        let expected = json!({
            "command": "x",
            "args": ["--api-key", "${env:MY_API_API_KEY}", "--token=${env:MY_API_TOKEN}", "--port", "80",
                     "${env:MY_API_SECRET}", "--verbose"],
            "env": { "GITHUB_TOKEN": "${env:GITHUB_TOKEN}", "PORT": "80" },
        });
        assert_eq!(entry, expected);
        let places = [
            "env.GITHUB_TOKEN GITHUB_TOKEN",
            "args[1] MY_API_API_KEY",
            "args[2] MY_API_TOKEN",
            "args[5] MY_API_SECRET",
        ];
        assert_eq!(found, places);
        let (entry, found) = replaced(json!({
            "url": "https://mcp.example.com/?api_key=abc",
            "headers": { "Authorization": "Bearer abc", "X-Api-Key": "abc", "Accept": "*/*" },
        }));
        let expected = json!({
            "url": "${env:MY_API_URL}",
            "headers": { "Authorization": "Bearer ${env:MY_API_AUTHORIZATION}", "X-Api-Key": "${env:MY_API_X_API_KEY}",
                         "Accept": "*/*" },
        });
        assert_eq!((entry, found.len()), (expected, 3));
    }

    #[test]
    fn references_are_no_secrets() {
        let entry = json!({
            "command": "x",
            "args": ["--token", "${env:T}", "--key=${env:K}", "postgres://u:${env:P}@db"],
            "env": { "API_KEY": "${env:API_KEY}", "TOKEN": "" },
        });
        assert_eq!(replaced(entry.clone()), (entry, vec![]));
        let entry = json!({ "url": "https://mcp.example.com/?key=${env:K}", "headers": { "Authorization": "Bearer ${env:T}" } });
        assert_eq!(replaced(entry.clone()), (entry, vec![]));
    }
}
