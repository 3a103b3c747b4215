//! `use_mcp_tool`: a tool of a server, where models call tools by text. By native calls each of them is a function of
//! its own.

use super::prelude::*;
use crate::tool_id::ServerToolName;

/// Calls a tool of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseMcpTool {
    /// Server and tool.
    pub tool: ServerToolName,
    /// Arguments of the tool.
    pub arguments: Object,
}

impl Declaration for UseMcpTool {
    const SPEC: ToolSpec = ToolSpec {
        description: "Calls a tool of one of the servers that the user has connected. Which there are, and what each \
                      takes, is listed below, or found by search_mcp_tools where you have it.",
        parameters: &[
            required("server_name", Kind::Text, "The server."),
            required("tool_name", Kind::Text, "Its tool."),
            optional("arguments", Kind::Text, "What the tool gets: a JSON object that fits its schema."),
        ],
        example: "<use_mcp_tool>\n<server_name>notes</server_name>\n<tool_name>find</tool_name>\n<arguments>\n{ \"text\": \
                  \"release\" }\n</arguments>\n</use_mcp_tool>",
        mistake: "A server or a tool that was neither listed nor found.",
        needs: Needs::ServerTools,
        ..ToolSpec::new(ToolName::UseMcpTool, Group::Mcp, Effect::External)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let (server, tool) = (reader.text("server_name")?, reader.text("tool_name")?);
        let tool = ServerToolName::new(&server, &tool)
            .map_err(|error| reader.bad("server_name", error.to_string()))?;
        let no_object = |what: String| reader.bad("arguments", format!("expected a JSON object, {what}"));
        let arguments = match reader.get("arguments") {
            None => Object::new(),
            Some(Value::Object(arguments)) => arguments.clone(),
            Some(Value::String(text)) if text.trim().is_empty() => Object::new(),
            Some(Value::String(text)) => {
                serde_json::from_str(text).map_err(|error| no_object(format!("which this is not: {error}")))?
            }
            Some(other) => return Err(no_object(format!("got {other}"))),
        };
        Ok(Self { tool, arguments })
    }

    fn subject(&self) -> String {
        self.tool.to_string()
    }

    fn shown(&self) -> Shown {
        Shown::of_server_tool(&self.tool, &self.arguments)
    }

    /// A hook sees the tool itself, however it was called.
    fn hook_inputs(&self, _view: &HookView<'_>) -> Vec<HookInput> {
        vec![HookInput { also_named: Some(self.tool.hook_name()), fields: self.arguments.clone() }]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        let mut arguments = change.after.clone();
        arguments.remove("roo");
        params.insert("arguments".to_owned(), arguments.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(params: Value) -> Result<UseMcpTool, InvalidCall> {
        let params = params.as_object().unwrap();
        UseMcpTool::parse(&Reader { tool: ToolName::UseMcpTool, params })
    }

    #[test]
    fn arguments_are_an_object_or_its_text() {
        let call = |arguments: Value| {
            read(json!({ "server_name": "notes", "tool_name": "find", "arguments": arguments }))
        };
        let expected = UseMcpTool {
            tool: ServerToolName::new("notes", "find").unwrap(),
            arguments: object(json!({ "text": "x" })),
        };
        assert_eq!(call(json!({ "text": "x" })).as_ref(), Ok(&expected));
        assert_eq!(call(json!("\n{ \"text\": \"x\" }\n")).as_ref(), Ok(&expected));
        for empty in [json!(null), json!(""), json!(" \n"), json!({})] {
            assert_eq!(call(empty).unwrap().arguments, Object::new());
        }
        for wrong in [json!("[]"), json!("text"), json!(1), json!([])] {
            assert!(call(wrong).unwrap_err().to_string().contains("expected a JSON object"));
        }
        assert!(read(json!({ "server_name": "a/b", "tool_name": "c" })).is_err());
    }
}
