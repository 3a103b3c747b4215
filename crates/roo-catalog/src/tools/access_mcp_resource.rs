//! `access_mcp_resource`: reads what a server offers as a resource.

use super::prelude::*;

/// The longest address of a resource, in bytes.
const ADDRESS: usize = 8 << 10;

/// Reads a resource of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessMcpResource {
    /// Name of the server.
    pub server: String,
    /// Address of the resource, which the server may have listed or not.
    pub uri: String,
}

impl Declaration for AccessMcpResource {
    const SPEC: ToolSpec = ToolSpec {
        description: "Reads a resource of one of the servers that the user has connected, such as a document, a record \
                      or a schema. The resources are listed in the section about them; where a pattern is listed, fill \
                      in its placeholders.",
        parameters: &[
            required("server_name", Kind::Text, "The server."),
            required("uri", Kind::Text, "The resource's address."),
        ],
        example: "<access_mcp_resource>\n<server_name>notes</server_name>\n<uri>notes://releases/latest</uri>\n\
                  </access_mcp_resource>",
        mistake: "A path of the workspace: those are read with read_file.",
        needs: Needs::ServerResources,
        ..ToolSpec::new(ToolName::AccessMcpResource, Group::Mcp, Effect::External)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let (server, uri) = (reader.text("server_name")?, reader.text("uri")?);
        if uri.len() > ADDRESS {
            return Err(reader.bad("uri", format!("it has {} bytes, of which {ADDRESS} are allowed", uri.len())));
        }
        Ok(Self { server, uri })
    }

    fn subject(&self) -> String {
        format!("{} {}", self.server, self.uri)
    }

    fn shown(&self) -> Shown {
        Shown::Server(json!({ "type": "access_mcp_resource", "serverName": self.server, "uri": self.uri }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_any_text_within_a_bound() {
        let read = |uri: &str| {
            let params = object(json!({ "server_name": " notes ", "uri": uri }));
            AccessMcpResource::parse(&Reader { tool: ToolName::AccessMcpResource, params: &params })
        };
        let expected = AccessMcpResource { server: "notes".to_owned(), uri: "notes://a b".to_owned() };
        assert_eq!(read("\nnotes://a b\n"), Ok(expected));
        assert!(read("").is_err());
        assert!(read(&"a".repeat(ADDRESS + 1)).unwrap_err().to_string().contains("8193 bytes"));
    }
}
