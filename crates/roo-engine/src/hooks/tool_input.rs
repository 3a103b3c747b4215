//! Form of a tool call in the public contract, and what a rewrite of it means for ours.
//!
//! Every input has besides `roo`, with our tool and its parameters as they are. A rewrite that changes
//! `roo.parameters` replaces all of them; else the contract's fields are converted to ours. Which fields a tool has is in
//! its file in `roo_catalog`.

use std::path::Path;

use serde_json::{Value, json};

use super::tool_names;
use roo_catalog::{
    HookInput, HookView, Invocation, Object, RealPath, Rewrite, RewriteError, ServerToolName, ToolCall,
};

/// A tool call that hooks are asked about.
#[derive(Clone, Copy)]
pub struct ToolUse<'a> {
    /// As the model made it.
    pub call: &'a ToolCall,
    /// Call in our own form; none for a tool of an MCP server.
    pub invocation: Option<&'a Invocation>,
    /// The tool of a server, where it is called by its own name.
    pub server_tool: Option<&'a ServerToolName>,
    /// Resolver of its paths: absolute, with links followed.
    pub real_path: RealPath<'a>,
}

/// One thing that hooks are asked about. Most calls are one; a call that reads several files is one for each.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Input {
    /// The tool's names, in the order of preference.
    pub(super) names: Vec<String>,
    /// In the contract's form.
    pub(super) fields: Object,
}

impl<'a> ToolUse<'a> {
    fn view(&self, root: &'a Path) -> HookView<'a> {
        HookView { root, real_path: self.real_path, params: &self.call.params }
    }

    /// Returns the inputs of hooks for this call.
    pub(super) fn inputs(&self, root: &Path) -> Vec<Input> {
        let Some(invocation) = self.invocation else {
            // A tool of a server: its input is its own.
            let name = self.server_tool.map_or_else(|| self.call.name.clone(), ServerToolName::hook_name);
            return vec![Input { names: vec![name], fields: self.call.params.clone() }];
        };
        let roo = json!({ "tool": invocation.tool().as_str(), "parameters": self.call.params });
        let input = |HookInput { also_named, mut fields }| {
            fields.insert("roo".to_owned(), roo.clone());
            let names = tool_names::names(invocation.tool()).into_iter().map(str::to_owned);
            Input { names: also_named.into_iter().chain(names).collect(), fields }
        };
        invocation.hook_inputs(&self.view(root)).into_iter().map(input).collect()
    }

    /// Our parameters after a rewrite of these inputs; none where nothing changes.
    pub(super) fn rewritten(
        &self,
        root: &Path,
        before: &[Input],
        after: &[Option<Object>],
    ) -> Result<Option<Object>, RewriteError> {
        let params = &self.call.params;
        let Some(invocation) = self.invocation else {
            return Ok(after.first().cloned().flatten().filter(|changed| changed != params));
        };
        let own = |fields: &Object| fields.get("roo").and_then(|roo| roo.get("parameters")).cloned();
        for (input, changed) in before.iter().zip(after) {
            let Some(changed) = changed else { continue };
            match (own(&input.fields), own(changed)) {
                (Some(old), Some(Value::Object(new))) if old != Value::Object(new.clone()) => {
                    return Ok((new != *params).then_some(new));
                }
                _ => {}
            }
        }
        let changes = before.iter().zip(after).map(|(before, after)| {
            after.as_ref().map(|after| Rewrite { root, before: &before.fields, after })
        });
        invocation.rewrite(&changes.collect::<Vec<_>>(), params)
    }
}

/// Returns a tool's answer in the contract's form, with the text that the model reads under `roo`.
pub(super) fn response(tool: &ToolUse<'_>, root: &Path, text: &str, ok: bool) -> Value {
    let mut response = match tool.invocation {
        Some(invocation) => invocation.hook_response(&tool.view(root), text, ok),
        None => json!({ "content": text }),
    };
    response["roo"] = json!({ "text": text, "ok": ok });
    response
}

/// The text that a hook puts in the place of a tool's result; none when it can't be told.
pub(super) fn response_text(value: &Value, before: &Value) -> Option<String> {
    if let Value::String(text) = value {
        return Some(text.clone());
    }
    let changed = |path: &str| {
        let new = value.pointer(path).and_then(Value::as_str)?;
        (before.pointer(path).and_then(Value::as_str) != Some(new)).then(|| new.to_owned())
    };
    if let Some(text) = changed("/roo/text") {
        return Some(text);
    }
    if let Some(out) = value.get("stdout").and_then(Value::as_str) {
        let errors = value.get("stderr").and_then(Value::as_str).filter(|text| !text.is_empty());
        return Some(errors.map_or_else(|| out.to_owned(), |errors| format!("{out}\n{errors}")));
    }
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
    text("/content").or_else(|| text("/file/content")).or_else(|| text("/text"))
}

#[cfg(test)]
#[path = "tool_input_tests.rs"]
mod tests;
