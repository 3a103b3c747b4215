//! Completion by MCP servers: arguments behind `/server:prompt`, and addresses of resources behind `@server:`. Servers that
//! complete arguments are asked for their values; what they say is offered as it is, and never used by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use roo_engine::mentions::{MentionKind, parse};
use roo_engine::server_prompts::{ServerPrompt, command_word};
use roo_mcp::{CompletionOf, CompletionRequest, ServerCatalog, ServerStatus, Statuses};
use tower_lsp::jsonrpc::{Error, Result};

use super::{PromptCompletion, item};
use crate::mcp::McpServers;
use crate::server::services::WorkspaceServices;
use roo_protocol::prompt::{PromptItem, PromptItemKind};

/// The most resources of a server that are offered.
const RESOURCES: usize = 200;
/// The most patterns of a server whose variables it is asked for at once.
const PATTERNS: usize = 4;

/// The servers and what they offer; none in a workspace that is not trusted, where nothing of them is used.
async fn servers(services: &WorkspaceServices) -> Result<Statuses> {
    let (customization, mcp) = (Arc::clone(&services.customization), Arc::clone(&services.mcp));
    // Reads the disk, and starts servers within the runtime.
    let listed = tokio::task::spawn_blocking(move || {
        customization.is_trusted().then(|| {
            mcp.refresh();
            mcp.changes().borrow().clone()
        })
    });
    Ok(listed.await.map_err(|_| Error::internal_error())?.unwrap_or_default())
}

/// Finds a connected server by its name as mentions have it.
fn named<'a>(statuses: &'a Statuses, word: &str) -> Option<(&'a str, &'a ServerCatalog)> {
    let mut named = statuses.iter().filter(|(name, _)| command_word(name) == word);
    named.find_map(|(name, status)| Some((name.as_str(), &**status.catalog()?)))
}

/// Completes the argument of a server's prompt at the end of a text; none where there is no such thing.
pub(super) async fn argument(services: &WorkspaceServices, text: &str) -> Result<Option<PromptCompletion>> {
    let line = text.rsplit('\n').next().unwrap_or_default();
    let mut prompts = parse(line).into_iter().filter_map(|mention| match mention.kind {
        MentionKind::ServerPrompt { server, prompt } => Some((server, prompt, mention.range.end)),
        _ => None,
    });
    let Some((server, prompt, end)) = prompts.next_back() else { return Ok(None) };
    let Some(written) = line.get(end..).filter(|written| written.starts_with(char::is_whitespace)) else {
        return Ok(None);
    };
    let statuses = servers(services).await?;
    let Some((server, catalog)) = named(&statuses, &server) else { return Ok(None) };
    let prompts = crate::mcp::prompts_of(catalog);
    let Some(prompt) = prompts.iter().find(|known| command_word(&known.name) == prompt) else {
        return Ok(None);
    };
    let Some(argument) = prompt.argument_in_progress(written) else { return Ok(None) };
    let wanted = CompletionRequest {
        of: CompletionOf::Prompt(prompt.name.clone()),
        argument: argument.name.clone(),
        value: argument.value.clone(),
        known: argument.known.clone(),
    };
    let found = completed(services, server, catalog, wanted).await;
    let items = found
        .iter()
        .map(|value| item(ServerPrompt::written(&argument, value), PromptItemKind::Keyword, &argument.name));
    // What the server proposes depends on all that is written.
    Ok(Some(PromptCompletion {
        replaced: written.get(argument.start..).unwrap_or_default().to_owned(),
        items: items.collect(),
        is_incomplete: catalog.completes_arguments,
    }))
}

/// Completes `@server:address`, where `typed` is what stands behind the `@`, and whether there may be more; nothing if no
/// server is named yet or any more.
pub(super) async fn resources(services: &WorkspaceServices, typed: &str) -> Result<(Vec<PromptItem>, bool)> {
    let statuses = servers(services).await?;
    let Some((word, address)) = typed.split_once(':') else {
        let offers = |status: &ServerStatus| {
            let catalog = status.catalog();
            catalog.is_some_and(|found| !found.resources.is_empty() || !found.resource_templates.is_empty())
        };
        let offering =
            statuses.iter().filter(|(_, status)| offers(status)).map(|(name, _)| command_word(name));
        let fitting = offering.filter(|word| word.to_lowercase().contains(&typed.to_lowercase()));
        let items: Vec<PromptItem> = fitting
            .map(|word| item(format!("@{word}:"), PromptItemKind::Keyword, "resources of the MCP server"))
            .collect();
        let is_incomplete = !items.is_empty();
        return Ok((items, is_incomplete));
    };
    let Some((server, catalog)) = named(&statuses, word) else { return Ok((vec![], false)) };
    let offered =
        |address: &str, about: &str| item(format!("@{word}:{address}"), PromptItemKind::Keyword, about);
    let fits = |uri: &str| {
        uri.to_lowercase().contains(&address.to_lowercase()) && !uri.contains(char::is_whitespace)
    };
    let fitting = catalog.resources.iter().filter(|resource| fits(&resource.uri));
    let mut items: Vec<PromptItem> =
        fitting.take(RESOURCES).map(|resource| offered(&resource.uri, &resource.name)).collect();
    let mut asked = 0;
    for template in &catalog.resource_templates {
        match place_in(&template.uri_template, address) {
            Some(Place::Literal(end)) => items.push(offered(end, &template.name)),
            Some(Place::Variable { name, written, value, known, behind }) if asked < PATTERNS => {
                asked += 1;
                let of = CompletionOf::Template(template.uri_template.clone());
                let wanted = CompletionRequest { of, argument: name, value, known };
                for value in completed(services, server, catalog, wanted).await {
                    let found = offered(&format!("{written}{}{behind}", encoded(&value)), &template.name);
                    if items.iter().all(|item| item.text != found.text) {
                        items.push(found);
                    }
                }
            }
            Some(Place::Variable { .. }) | None => {}
        }
    }
    Ok((items, true))
}

/// The values that a server proposes. None where it doesn't tell soon: that is in its log. The server is told when this is
/// dropped.
async fn completed(
    services: &WorkspaceServices,
    server: &str,
    catalog: &ServerCatalog,
    wanted: CompletionRequest,
) -> Vec<String> {
    if !catalog.completes_arguments {
        return vec![];
    }
    McpServers::complete(&services.mcp, server.to_owned(), wanted).await
}

/// A value as it stands in an address (RFC 6570).
fn encoded(value: &str) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Where in a pattern of addresses a text ends.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    /// In a part that is always the same: the address up to the next variable.
    Literal(&'a str),
    Variable {
        name: String,
        /// The text before the variable.
        written: &'a str,
        /// Its value, as far as it is written.
        value: String,
        /// The values of the variables before it.
        known: BTreeMap<String, String>,
        /// What is always the same behind it.
        behind: &'a str,
    },
}

/// Finds the end of a text in a pattern (RFC 6570). None if it doesn't fit, or if what it ends in is more than a plain
/// variable.
fn place_in<'a>(template: &'a str, text: &'a str) -> Option<Place<'a>> {
    let (mut template_at, mut text_at) = (0, 0);
    let mut known = BTreeMap::new();
    loop {
        let rest = text.get(text_at..)?;
        let (literal, variable) = template
            .get(template_at..)?
            .split_once('{')
            .map_or((template.get(template_at..)?, None), |(literal, behind)| {
                (literal, behind.split_once('}'))
            });
        if let Some(after) = rest.strip_prefix(literal) {
            let (name, behind) = variable?;
            if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
                return None;
            }
            text_at += literal.len();
            template_at += literal.len() + name.len() + 2;
            let next = behind.split('{').next().unwrap_or_default();
            match (!next.is_empty()).then(|| after.find(next)).flatten() {
                Some(end) => {
                    known.insert(name.to_owned(), after.get(..end)?.to_owned());
                    text_at += end;
                }
                // A plain variable has no slash in its value.
                None if after.contains('/') => return None,
                None => {
                    let (name, value) = (name.to_owned(), after.to_owned());
                    let written = text.get(..text_at)?;
                    return Some(Place::Variable { name, written, value, known, behind: next });
                }
            }
        } else if literal.starts_with(rest) && known.is_empty() {
            return Some(Place::Literal(template.get(..literal.len())?));
        } else {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_encoded_in_an_address() {
        assert_eq!(encoded("a b/é.txt~"), "a%20b%2F%C3%A9.txt~");
    }

    #[test]
    fn the_end_of_a_text_is_found_in_a_pattern() {
        let template = "db://{table}/rows/{id}.json";
        for text in ["", "d", "db:/"] {
            assert_eq!(place_in(template, text), Some(Place::Literal("db://")), "{text}");
        }
        let variable = |text| match place_in(template, text) {
            Some(Place::Variable { name, written, value, known, behind }) => {
                let known: Vec<String> =
                    known.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("{written}|{name}={value}|{behind} {}", known.join(" "))
            }
            other => format!("{other:?}"),
        };
        assert_eq!(variable("db://"), "db://|table=|/rows/ ");
        assert_eq!(variable("db://us"), "db://|table=us|/rows/ ");
        assert_eq!(variable("db://users/rows/4"), "db://users/rows/|id=4|.json table=users");
        for nothing in ["x", "db://users/cells/4", "db://users/rows/4.json", "db://users/rows/4/5"] {
            assert_eq!(place_in(template, nothing), None, "{nothing}");
        }
        assert_eq!(place_in("db://{?query}", "db://"), None);
        assert_eq!(place_in("db://{open", "db://x"), None);
    }
}
