//! `codebase_search`: the parts of the code that a question is about.

use super::prelude::*;

/// The longest question, in bytes.
const QUERY: usize = 1 << 10;

/// Searches the code index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodebaseSearch {
    /// The question, in any words.
    pub query: String,
    /// A file or directory, as the model wrote it; none for the whole workspace.
    pub path: Option<String>,
}

impl Declaration for CodebaseSearch {
    const SPEC: ToolSpec = ToolSpec {
        description: "Finds the parts of the code that a question is about, the best first. Use it first to find your \
                      way; use search_files for every place of an exact text.",
        parameters: &[
            required("query", Kind::Text, "What the code does, with the names it may use."),
            optional("path", Kind::Text, "The directory or file to search; the whole workspace when left out."),
        ],
        example: "<codebase_search>\n<query>retry delay of failed requests</query>\n<path>src</path>\n</codebase_search>",
        mistake: "A regular expression as query: use search_files.",
        hook_names: &["Grep"],
        needs: Needs::CodeIndex,
        ..ToolSpec::new(ToolName::CodebaseSearch, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let query = reader.text("query")?;
        if query.len() > QUERY {
            return Err(reader.bad("query", format!("it has more than {QUERY} bytes")));
        }
        Ok(Self { query, path: reader.optional_text("path")? })
    }

    fn subject(&self) -> String {
        match &self.path {
            Some(path) => format!("{} in {path}", self.query),
            None => self.query.clone(),
        }
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "codebaseSearch", "query": self.query, "path": self.path }))
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        let path = view.path(self.path.as_deref().unwrap_or("."));
        vec![object(json!({ "pattern": self.query, "path": path, "output_mode": "content" })).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.insert("query".to_owned(), change.text("pattern")?.into());
        match change.after.get("path") {
            Some(_) => {
                let path = change.path("path", self.path.as_deref().unwrap_or("."))?;
                params.insert("path".to_owned(), path.into());
            }
            None => drop(params.remove("path")),
        }
        change.refuse(&["glob"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Invocation, ToolCall, parse};
    use roo_protocol::ids::ToolCallId;

    fn read(params: Value) -> Result<Invocation, String> {
        let Value::Object(params) = params else { panic!("parameters are an object") };
        let name = "codebase_search".to_owned();
        let call = ToolCall { id: ToolCallId::new("c"), name, params, problem: None, note: None };
        parse(&call).map_err(|error| error.to_string())
    }

    #[test]
    fn a_question_may_name_a_place() {
        let search = |query: &str, path: Option<&str>| {
            Ok(CodebaseSearch { query: query.to_owned(), path: path.map(str::to_owned) }.into())
        };
        assert_eq!(read(json!({ "query": " where? \n" })), search("where?", None));
        assert_eq!(read(json!({ "query": "a", "path": "src" })), search("a", Some("src")));
        assert_eq!(read(json!({ "query": "a", "path": Value::Null })), search("a", None));
        assert!(read(json!({ "path": "src" })).unwrap_err().contains("lacks the parameter 'query'"));
        assert!(read(json!({ "query": "a".repeat(QUERY) })).is_ok());
        assert!(read(json!({ "query": "a".repeat(QUERY + 1) })).unwrap_err().contains("1024 bytes"));
    }
}
