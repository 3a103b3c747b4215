//! Checks of modes in calls that delegate or change the mode.

use serde_json::json;

use super::gate::Gate;
use super::rule::{AllowRule, NamedAllowRule};
use roo_formats::config::BranchWorktrees;
use roo_formats::modes::{FileRestriction, Mode, Source};

impl Gate {
    /// The setting that lets tasks delegate without asking.
    pub(crate) fn delegation_rule(&self) -> Option<AllowRule> {
        self.settings().auto_approve.delegate.then(|| NamedAllowRule::Delegate.into())
    }

    /// Returns whether branches that work at the same time get git worktrees.
    pub(crate) fn makes_worktrees(&self) -> bool {
        self.settings().delegation.worktrees == BranchWorktrees::Auto
    }
}

/// A mode as a question names it. A name alone can be that of another one.
pub(crate) fn named(mode: &Mode) -> String {
    match mode.source {
        Source::BuiltIn => format!("{} {}", mode.emoji, mode.name),
        source => format!("{} {} ({}, {})", mode.emoji, mode.name, mode.slug, source.as_str()),
    }
}

/// All that an approval allows with a mode: should its file change meanwhile, it is another one.
pub(crate) fn rights(mode: &Mode) -> serde_json::Value {
    let mut rights = json!({
        "slug": mode.slug,
        "source": mode.source.as_str(),
        "role": mode.role,
        "instructions": [&mode.instructions, mode.custom_instructions.as_deref().unwrap_or_default()],
        "tools": mode.tools().iter().map(|tool| tool.as_str()).collect::<Vec<_>>(),
        "files": mode.file_restriction.as_ref().map(FileRestriction::pattern),
        "delegates": mode.can_delegate_to,
    });
    if let Some(servers) = &mode.mcp_servers {
        rights["servers"] = json!(servers);
    }
    rights
}
