//! The names of tools in both worlds: ours and those of the public contract. A matcher may use either.
//!
//! The rule for `tool_name`: of a tool's names, the contract's first and ours last, a hook is told the first
//! that its matcher matches. So `*` and `Bash` are told `Bash`, and `execute_command` is told
//! `execute_command`. `tool_input` is the same for both.

use roo_catalog::{TOOLS, ToolName, ToolSpec};

/// Tools of the contract that have no counterpart here.
const NEVER: &[&str] = &[
    "EnterPlanMode",
    "ExitPlanMode",
    "NotebookEdit",
    "NotebookRead",
    "PowerShell",
    "TaskCreate",
    "TaskUpdate",
    "WebFetch",
    "WebSearch",
];

/// All names of a tool: the contract's, then ours.
pub(super) fn names(tool: ToolName) -> Vec<&'static str> {
    tool.spec().hook_names.iter().copied().chain([tool.as_str()]).collect()
}

/// Returns whether a tool has this name, in either world.
fn has_name(spec: &ToolSpec, name: &str) -> bool {
    spec.name.as_str() == name || spec.hook_names.contains(&name)
}

/// All names of the tool that has this name in either world; the name alone when no tool has it.
pub(super) fn names_of(name: &str) -> Vec<String> {
    let found: Vec<&ToolSpec> = TOOLS.iter().filter(|spec| has_name(spec, name)).collect();
    let mut all: Vec<String> = Vec::new();
    let contract = found.iter().flat_map(|spec| spec.hook_names).copied();
    for known in contract.chain(found.iter().map(|spec| spec.name.as_str())) {
        if !all.iter().any(|there| there == known) {
            all.push(known.to_owned());
        }
    }
    // As it was asked for, where a matcher leaves the choice.
    match all.iter().position(|known| known == name) {
        Some(at) if found.iter().any(|spec| spec.hook_names.contains(&name)) => all.swap(0, at),
        Some(_) => {}
        None => all.push(name.to_owned()),
    }
    all
}

/// Returns whether a tool has this name, in either world.
pub(super) fn is_known(name: &str) -> bool {
    TOOLS.iter().any(|spec| has_name(spec, name))
}

/// Returns whether the contract has a tool of this name that we have not.
pub(super) fn never_comes(name: &str) -> bool {
    NEVER.contains(&name)
}

/// Every name that a matcher may use, with what else the tool is called.
pub fn all() -> Vec<(&'static str, String)> {
    let mut found: Vec<(&'static str, String)> = Vec::new();
    for spec in TOOLS {
        for alias in spec.hook_names {
            match found.iter_mut().find(|(known, _)| known == alias) {
                Some((_, about)) => about.push_str(&format!(", {}", spec.name)),
                None => found.push((alias, spec.name.to_string())),
            }
        }
    }
    let own = TOOLS.iter().map(|spec| (spec.name.as_str(), spec.hook_names.join(", ")));
    found.extend(own);
    found
}

/// The name of a tool of an MCP server.
pub fn mcp(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_its_names() {
        assert_eq!(names(ToolName::ApplyDiff), ["Edit", "MultiEdit", "apply_diff"]);
        assert_eq!(names(ToolName::SwitchMode), ["switch_mode"]);
    }

    #[test]
    fn a_name_of_either_world_leads_to_all() {
        assert_eq!(names_of("Bash"), ["Bash", "execute_command"]);
        assert_eq!(names_of("execute_command"), ["Bash", "execute_command"]);
        assert_eq!(names_of("Task"), ["Task", "Agent", "new_task"]);
        assert_eq!(
            names_of("Edit"),
            [
                "Edit",
                "MultiEdit",
                "apply_diff",
                "search_and_replace",
                "edit_file",
                "insert_content",
                "apply_patch",
            ]
        );
        assert_eq!(names_of("mcp__a__b"), ["mcp__a__b"]);
        assert!(
            is_known("apply_diff") && is_known("Grep") && !is_known("WebFetch") && never_comes("WebFetch")
        );
    }
}
