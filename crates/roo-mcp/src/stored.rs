//! What a server offered when it was last connected, in the form in which it is stored. It is read as a server's own lists
//! are: nothing in it is trusted more.

use rmcp::model;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalog::{ENTRIES, Resource, ResourceTemplate, ServerCatalog};
use crate::tool::{ToolDescription, take_in};

/// The lists, as the protocol has them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    tools: Vec<model::Tool>,
    resources: Vec<model::Resource>,
    resource_templates: Vec<model::ResourceTemplate>,
    /// Our own, as the next connection begins with it.
    #[serde(default)]
    prefers_initialize: bool,
}

impl ServerCatalog {
    /// Its tools, resources and patterns of resources, and how it is connected, to be stored. Prompts are not: they are offered by servers that run.
    pub fn to_stored(&self) -> Value {
        let entry =
            |address: (&str, &str), name: &str, description: &Option<String>, mime: &Option<String>| {
                let (key, uri) = address;
                json!({ key: uri, "name": name, "description": description, "mimeType": mime })
            };
        let resource = |Resource { uri, name, description, mime_type }: &Resource| {
            entry(("uri", uri), name, description, mime_type)
        };
        let template = |template: &ResourceTemplate| {
            let ResourceTemplate { uri_template, name, description, mime_type } = template;
            entry(("uriTemplate", uri_template), name, description, mime_type)
        };
        json!({
            "tools": self.tools.iter().map(stored_tool).collect::<Vec<_>>(),
            "resources": self.resources.iter().map(resource).collect::<Vec<_>>(),
            "resourceTemplates": self.resource_templates.iter().map(template).collect::<Vec<_>>(),
            "prefersInitialize": self.prefers_initialize,
        })
    }

    /// Reads what [`Self::to_stored`] has written; none where it is something else.
    pub fn from_stored(stored: &Value) -> Option<Self> {
        let Stored { tools, resources, resource_templates, prefers_initialize } =
            Stored::deserialize(stored).ok()?;
        let (tools, _) = take_in(tools);
        Some(Self {
            tools,
            resources: resources.into_iter().take(ENTRIES).map(Resource::from).collect(),
            resource_templates: resource_templates
                .into_iter()
                .take(ENTRIES)
                .map(ResourceTemplate::from)
                .collect(),
            prefers_initialize,
            ..Self::default()
        })
    }
}

/// A tool as a server would list it.
fn stored_tool(tool: &ToolDescription) -> Value {
    let hints = tool.hints;
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": *tool.input_schema,
        "outputSchema": tool.output_schema.as_deref(),
        "annotations": {
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(tools: Value) -> Vec<ToolDescription> {
        take_in(serde_json::from_value(tools).unwrap()).0
    }

    fn catalog() -> ServerCatalog {
        let tools = json!([
            {
                "name": "find", "title": "Find", "description": "Finds.",
                "inputSchema": { "type": "object", "properties": { "q": { "type": "string" } } },
                "outputSchema": { "type": "object" },
                "annotations": { "readOnlyHint": true, "destructiveHint": false },
            },
            { "name": "add", "inputSchema": { "type": "object" } },
        ]);
        let resource = Resource {
            uri: "notes://today".to_owned(),
            name: "today".to_owned(),
            description: None,
            mime_type: Some("text/plain".to_owned()),
        };
        let template = ResourceTemplate {
            uri_template: "notes://{day}".to_owned(),
            name: "a day".to_owned(),
            description: Some("Its notes.".to_owned()),
            mime_type: None,
        };
        ServerCatalog {
            tools: listed(tools),
            resources: vec![resource],
            resource_templates: vec![template],
            prefers_initialize: true,
            ..ServerCatalog::default()
        }
    }

    #[test]
    fn what_is_stored_reads_back_with_the_same_digests() {
        let text = catalog().to_stored().to_string();
        assert_eq!(ServerCatalog::from_stored(&serde_json::from_str(&text).unwrap()), Some(catalog()));
    }

    #[test]
    fn what_a_server_could_not_offer_is_not_read_for_it() {
        let mut stored = catalog().to_stored();
        stored["tools"][0]["inputSchema"] = json!({ "$ref": "http://127.0.0.1:1/s.json" });
        let read = ServerCatalog::from_stored(&stored).unwrap();
        assert_eq!(read.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["add"]);
        for wrong in
            [json!(null), json!({}), json!({ "tools": [1], "resources": [], "resourceTemplates": [] })]
        {
            assert_eq!(ServerCatalog::from_stored(&wrong), None);
        }
    }
}
