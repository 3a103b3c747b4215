//! `search_mcp_tools`: finds tools of servers for which a request has no room.

use super::prelude::*;

/// The longest text that is searched for, in bytes.
const QUERY: usize = 1 << 10;

/// Searches the tools of servers that are not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchMcpTools {
    /// Words of what the tool is to do.
    pub query: String,
    /// The server; none for all.
    pub server: Option<String>,
}

impl Declaration for SearchMcpTools {
    const SPEC: ToolSpec = ToolSpec {
        description: "Searches those tools of connected servers that are not listed, since there are too many. Returns names, \
                      descriptions and schemas of those that fit best; call one with use_mcp_tool.",
        parameters: &[
            required("query", Kind::Text, "Words of the name, or of what the tool is to do."),
            optional("server_name", Kind::Text, "The server; all of them when left out."),
        ],
        example: "<search_mcp_tools>\n<query>create issue</query>\n</search_mcp_tools>",
        mistake: "A query that names no purpose, such as `tools`.",
        needs: Needs::FurtherServerTools,
        ..ToolSpec::new(ToolName::SearchMcpTools, Group::Mcp, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let query = reader.text("query")?;
        if query.len() > QUERY {
            return Err(reader.bad("query", format!("it has more than {QUERY} bytes")));
        }
        Ok(Self { query, server: reader.optional_text("server_name")? })
    }

    fn subject(&self) -> String {
        self.query.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "searchMcpTools", "query": self.query, "serverName": self.server }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_a_text_within_a_bound() {
        let read = |params: Value| {
            let params = object(params);
            SearchMcpTools::parse(&Reader { tool: ToolName::SearchMcpTools, params: &params })
        };
        let expected = SearchMcpTools { query: "create issue".to_owned(), server: Some("git".to_owned()) };
        assert_eq!(read(json!({ "query": "\ncreate issue\n", "server_name": "git" })), Ok(expected));
        assert_eq!(read(json!({ "query": "issue" })).unwrap().server, None);
        assert!(read(json!({ "query": " " })).is_err());
        assert!(read(json!({ "query": "a".repeat(QUERY + 1) })).unwrap_err().to_string().contains("1024 bytes"));
    }
}
