//! `search_and_replace`: every occurrence of a text in one file.

use super::prelude::*;
use roo_text::edit::{Occurrences, Replacement};

/// Replaces a text; also Roo's later `edit` and `search_replace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchAndReplace {
    /// As the model wrote it.
    pub path: String,
    /// Changes of the file's text, one after another; at least one.
    pub replacements: Vec<Replacement>,
}

impl Declaration for SearchAndReplace {
    const SPEC: ToolSpec = ToolSpec {
        description: "Replaces every occurrence of a text, or of a regular expression, in one file, optionally \
                      within a range of lines.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            required(
                "search",
                Kind::Verbatim,
                "The text to find, or the regular expression when use_regex is true.",
            ),
            required(
                "replace",
                Kind::Verbatim,
                "The text to put in its place. With use_regex, $1 or ${name} stand for groups.",
            ),
            optional("start_line", Kind::Integer, "First line to look at, 1-based."),
            optional("end_line", Kind::Integer, "Last line to look at, included."),
            optional(
                "use_regex",
                Kind::Boolean,
                "Whether search is a regular expression; false when left out.",
            ),
            optional(
                "ignore_case",
                Kind::Boolean,
                "Whether upper and lower case are the same; false when left out.",
            ),
        ],
        legacy_parameters: &["file_path", "old_string", "new_string", "replace_all", "operations"],
        example: "<search_and_replace>\n<path>src/config.rs</path>\n<search>old_name</search>\n<replace>new_name</replace>\n</search_and_replace>",
        mistake: "A regular expression without use_regex: it is then looked for as plain text.",
        aliases: &["edit", "search_replace"],
        legacy_verbatim: &["old_string", "new_string"],
        hook_names: &["Edit", "MultiEdit"],
        ..ToolSpec::new(ToolName::SearchAndReplace, Group::Edit, Effect::Write)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let path = reader.path(if reader.get("file_path").is_some() { "file_path" } else { "path" })?;
        let replacements = match reader.get("operations") {
            Some(operations) => operations_of(reader, operations)?,
            // Roo's later tools of this kind name their parameters otherwise and want one occurrence.
            None if reader.get("old_string").is_some() => {
                let occurrences = match reader.boolean("replace_all")?.unwrap_or(false) {
                    true => Occurrences::All,
                    false => Occurrences::One,
                };
                vec![replacement(reader, "old_string", "new_string", occurrences)?]
            }
            None => vec![replacement(reader, "search", "replace", Occurrences::All)?],
        };
        Ok(Self { path, replacements })
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn shown(&self) -> Shown {
        // Clients show a call by its first change.
        let first = self.replacements.first();
        Shown::Tool(json!({
            "tool": "searchAndReplace",
            "path": self.path,
            "search": first.map(|first| &first.search),
            "replace": first.map(|first| &first.replace),
        }))
    }

    fn edited_files(&self) -> Vec<&str> {
        vec![&self.path]
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        let input = |replacement: &Replacement| {
            let fields = json!({
                "file_path": view.path(&self.path),
                "old_string": replacement.search,
                "new_string": replacement.replace,
                "replace_all": replacement.occurrences == Occurrences::All,
            });
            object(fields).into()
        };
        self.replacements.iter().map(input).collect()
    }

    fn rewrite(
        &self,
        changes: &[Option<Rewrite<'_>>],
        params: &Object,
    ) -> Result<Option<Object>, RewriteError> {
        let mut rewritten = params.clone();
        if self.replacements.len() == 1 && params.get("operations").is_none_or(Value::is_null) {
            let Some(Some(change)) = changes.first().filter(|change| change.as_ref().is_some_and(|it| !it.is_none()))
            else {
                return Ok(None);
            };
            self.take_back(change, &mut rewritten)?;
            return Ok((rewritten != *params).then_some(rewritten));
        }
        let mut path = self.path.clone();
        let mut operations = Vec::new();
        for (replacement, change) in self.replacements.iter().zip(changes) {
            let mut operation = operation(replacement);
            if let Some(change) = change.as_ref().filter(|change| !change.is_none()) {
                path = change.path("file_path", &self.path)?;
                operation.insert("search".to_owned(), change.text("old_string")?.into());
                operation.insert("replace".to_owned(), change.text("new_string")?.into());
                change.refuse(&["replace_all"])?;
            }
            operations.push(Value::Object(operation));
        }
        let is_changed = changes.iter().flatten().any(|change| !change.is_none());
        rewritten.insert("path".to_owned(), path.into());
        rewritten.remove("file_path");
        rewritten.insert("operations".to_owned(), operations.into());
        Ok(is_changed.then_some(rewritten))
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        let (old, new) = match params.contains_key("old_string") {
            true => ("old_string", "new_string"),
            false => ("search", "replace"),
        };
        let path = match params.contains_key("file_path") {
            true => "file_path",
            false => "path",
        };
        params.insert(path.to_owned(), change.path("file_path", &self.path)?.into());
        params.insert(old.to_owned(), change.text("old_string")?.into());
        params.insert(new.to_owned(), change.text("new_string")?.into());
        change.refuse(&["replace_all"])
    }

    fn hook_response(&self, view: &HookView<'_>, _text: &str, ok: bool) -> Value {
        json!({ "filePath": view.path(&self.path), "success": ok })
    }
}

/// A change as these parameters name it.
fn replacement(
    reader: &Reader<'_>,
    search: &'static str,
    replace: &'static str,
    occurrences: Occurrences,
) -> Result<Replacement, InvalidCall> {
    let (searched, replace) = (reader.verbatim(search)?, reader.verbatim(replace)?);
    if searched.is_empty() {
        return Err(reader.bad(search, "it is empty"));
    }
    Ok(Replacement {
        search: searched,
        replace,
        range: reader.range("start_line", reader.integer("start_line")?, reader.integer("end_line")?)?,
        use_regex: reader.boolean("use_regex")?.unwrap_or(false),
        ignore_case: reader.boolean("ignore_case")?.unwrap_or(false),
        occurrences,
    })
}

/// Several changes in one call: a list of objects, or its JSON as text.
fn operations_of(reader: &Reader<'_>, operations: &Value) -> Result<Vec<Replacement>, InvalidCall> {
    let parsed;
    let operations = match operations {
        Value::String(text) => {
            parsed = serde_json::from_str(text)
                .map_err(|error| reader.bad("operations", format!("not a JSON list: {error}")))?;
            &parsed
        }
        operations => operations,
    };
    let list = operations.as_array().filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| reader.bad("operations", "expected a list of objects with search and replace"))?;
    let read = |operation: &Value| {
        let params = operation
            .as_object()
            .ok_or_else(|| reader.bad("operations", "expected a list of objects with search and replace"))?;
        replacement(&Reader { tool: reader.tool, params }, "search", "replace", Occurrences::All)
    };
    list.iter().map(read).collect()
}

/// A change as one of several is written.
fn operation(replacement: &Replacement) -> Object {
    let Replacement { search, replace, range, use_regex, ignore_case, .. } = replacement;
    let mut fields = object(json!({
        "search": search, "replace": replace, "use_regex": use_regex, "ignore_case": ignore_case,
    }));
    if let Some(range) = range {
        fields.insert("start_line".to_owned(), range.start.into());
        if range.end < usize::MAX {
            fields.insert("end_line".to_owned(), range.end.into());
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Invocation, ToolCall, parse};
    use roo_protocol::ids::ToolCallId;

    fn read(params: Value) -> Result<SearchAndReplace, String> {
        let Value::Object(params) = params else { panic!("parameters are an object") };
        let name = "search_and_replace".to_owned();
        let call = ToolCall { id: ToolCallId::new("c"), name, params, problem: None, note: None };
        match parse(&call) {
            Ok(Invocation::SearchAndReplace(call)) => Ok(call),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn several_changes_come_as_operations() {
        let operations = json!([
            { "search": "a", "replace": "b", "start_line": 2, "end_line": "5" },
            { "search": "c.", "replace": "", "use_regex": true, "ignore_case": "true" },
        ]);
        for operations in [operations.clone(), operations.to_string().into()] {
            let call = read(json!({ "path": "a.rs", "operations": operations })).unwrap();
            let [first, second] = &*call.replacements else { panic!("{call:?}") };
            assert_eq!((first.search.as_str(), first.range.unwrap().end), ("a", 5));
            assert!(second.use_regex && second.ignore_case && second.replace.is_empty());
        }
        for (operations, error) in [
            (json!([]), "expected a list"),
            (json!("["), "not a JSON list"),
            (json!([{ "search": "", "replace": "" }]), "it is empty"),
            (json!([{ "search": "a" }]), "lacks the parameter 'replace'"),
        ] {
            let found = read(json!({ "path": "a.rs", "operations": operations })).unwrap_err();
            assert!(found.contains(error), "{found}");
        }
    }
}
