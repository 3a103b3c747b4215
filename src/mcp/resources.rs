//! The resources of servers, as far as models are told of them.

use std::sync::Arc;

use roo_catalog::{ListedResource, ServerResources};
use roo_mcp::ServerCatalog;
use roo_text::render::one_line;

/// The most resources and patterns of one server that are listed: the list is a part of every request.
const LISTED: usize = 50;
/// The most bytes of addresses, names and descriptions of all servers together.
const BUDGET: usize = 16 << 10;
/// The longest address that is listed, in bytes.
const ADDRESS: usize = 1 << 10;
/// The longest name and the longest description that are listed, in characters.
const NAME: usize = 200;
const DESCRIPTION: usize = 300;

/// The resources of the servers that have any, in the order of the servers' names, as far as the budget goes.
pub(super) fn offered(catalogs: &[(&str, Arc<ServerCatalog>)]) -> Vec<ServerResources> {
    let mut left = BUDGET;
    let of_servers = catalogs.iter().map(|(server, catalog)| of_server(server, catalog, &mut left));
    of_servers.filter(|server| !server.listed.is_empty() || server.left_out > 0).collect()
}

fn of_server(server: &str, catalog: &ServerCatalog, left: &mut usize) -> ServerResources {
    let listed = |uri: &str, name: &str, description: Option<&str>, is_pattern| ListedResource {
        uri: uri.to_owned(),
        name: one_line(name, NAME),
        description: description.map(|text| one_line(text, DESCRIPTION)),
        is_pattern,
    };
    let resources = catalog
        .resources
        .iter()
        .map(|resource| listed(&resource.uri, &resource.name, resource.description.as_deref(), false));
    let patterns = catalog.resource_templates.iter().map(|template| {
        listed(&template.uri_template, &template.name, template.description.as_deref(), true)
    });
    // Few patterns say more than many resources, so a long list doesn't take their place.
    let (patterns, resources): (Vec<_>, Vec<_>) = (patterns.collect(), resources.collect());
    let of_resources = LISTED.saturating_sub(patterns.len().min(LISTED / 2));
    let all = resources.len() + patterns.len();
    let mut listed = Vec::new();
    for resource in resources.into_iter().take(of_resources).chain(patterns.into_iter().take(LISTED)) {
        let description = resource.description.as_ref().map_or(0, String::len);
        let size = resource.uri.len() + resource.name.len() + description;
        if listed.len() == LISTED || resource.uri.len() > ADDRESS {
            continue;
        }
        let Some(rest) = left.checked_sub(size) else { continue };
        *left = rest;
        listed.push(resource);
    }
    ServerResources { server: server.to_owned(), left_out: all - listed.len(), listed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_mcp::{Resource, ResourceTemplate};

    fn catalog(resources: usize, patterns: usize) -> ServerCatalog {
        let resource = |number: usize| Resource {
            uri: format!("notes://{number}"),
            name: format!("note {number}"),
            description: None,
            mime_type: None,
        };
        let pattern = |number: usize| ResourceTemplate {
            uri_template: format!("notes://{{id}}/{number}"),
            name: "a part".to_owned(),
            description: None,
            mime_type: None,
        };
        ServerCatalog {
            resources: (0..resources).map(resource).collect(),
            resource_templates: (0..patterns).map(pattern).collect(),
            ..ServerCatalog::default()
        }
    }

    #[test]
    fn a_long_list_is_cut_and_keeps_patterns() {
        let mut left = BUDGET;
        let of = of_server("notes", &catalog(1000, 3), &mut left);
        assert_eq!((of.listed.len(), of.left_out), (LISTED, 953));
        assert_eq!(of.listed.iter().filter(|one| one.is_pattern).count(), 3);
        assert!(left < BUDGET);
    }

    #[test]
    fn a_long_description_takes_no_room_from_others() {
        let mut catalog = catalog(3, 0);
        catalog.resources[0].description = Some("words ".repeat(BUDGET));
        let of = of_server("notes", &catalog, &mut 2000);
        assert_eq!((of.listed.len(), of.left_out), (3, 0));
        assert!(of.listed[0].description.as_ref().is_some_and(|text| text.chars().count() <= DESCRIPTION));
    }

    #[test]
    fn a_spent_budget_lists_nothing_and_says_so() {
        let of = of_server("notes", &catalog(2, 0), &mut 4);
        assert_eq!((of.listed.len(), of.left_out), (0, 2));
    }
}
