//! Names that steer agents, git and editors, or that run later. Whether a protected name may be
//! written is decided by the gate; here is only what protects it.

use crate::text::names::fold;

/// How a name is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Not at all.
    None,
    /// It steers agents, git or editors: writing asks, always.
    Tier1 {
        /// The name or pattern that matched.
        rule: &'static str,
    },
    /// It runs later, in a build or a shell: writing is allowed in scope, and labelled.
    Tier2 {
        /// The name or pattern that matched.
        rule: &'static str,
    },
    /// Only the server's own intents and trace write there.
    Denied,
    /// The request's own task directory: writing never asks.
    OwnTaskDirectory,
}

/// The protection of a path relative to its root, `/` separated. It binds at any depth, for names
/// that don't exist yet as well, and whatever the spelling.
///
/// `own_urid` is the request's: what is below `.roo/tasks/<own_urid>/` is its own, unless a
/// protected name comes again below that.
pub fn protection(relative: &str, own_urid: Option<&str>) -> Protection {
    if let Some(urid) = own_urid.filter(|urid| !urid.is_empty())
        && let Some(rest) = relative
            .strip_prefix(".roo/tasks/")
            .and_then(|path| path.strip_prefix(urid))
            .and_then(|path| path.strip_prefix('/'))
        && !rest.is_empty()
    {
        return match protection(rest, None) {
            Protection::None | Protection::Tier2 { .. } => Protection::OwnTaskDirectory,
            protected => protected,
        };
    }

    let names: Vec<String> = relative.split('/').map(plain).collect();
    if names.iter().any(|name| name == ".orchestration") {
        return Protection::Denied;
    }
    if let Some(rule) = names.iter().find_map(|name| find(TIER_1, name)) {
        return Protection::Tier1 { rule };
    }
    let pairs = || names.iter().zip(names.iter().skip(1));
    if pairs().any(|(directory, name)| directory == ".github" && name == "copilot-instructions.md") {
        return Protection::Tier1 { rule: COPILOT };
    }
    if let Some(rule) = names.iter().find_map(|name| find(TIER_2, name)) {
        return Protection::Tier2 { rule };
    }
    for (directory, name) in pairs() {
        let rule = match (directory.as_str(), name.as_str()) {
            (".github", "workflows") => WORKFLOWS,
            ("venv" | ".venv" | "env" | ".env" | "virtualenv", "bin" | "scripts") => VIRTUAL_ENVIRONMENT,
            (".config", "fish") => FISH,
            _ => continue,
        };
        return Protection::Tier2 { rule };
    }
    Protection::None
}

/// For people: the names and patterns that only the server writes, those of [`Protection::Tier1`] and those of
/// [`Protection::Tier2`].
pub fn protected_names() -> [Vec<&'static str>; 3] {
    let of = |names: &[&'static str], places: &[&'static str]| [names, places].concat();
    [
        of(&[".orchestration/**"], &[]),
        of(TIER_1, &[COPILOT]),
        of(TIER_2, &[WORKFLOWS, VIRTUAL_ENVIRONMENT, FISH]),
    ]
}

/// Whether a path relative to its root is a git directory, or below one.
pub(crate) fn is_git(relative: &str) -> bool {
    relative.split('/').any(|name| matches!(plain(name).as_str(), ".git" | "git~1"))
}

/// Whether a name is spelled so that some system takes it for another one: with a trailing dot or
/// space, a stream suffix or invisible characters.
pub(super) fn is_disguised(name: &str) -> bool {
    plain(name) != fold_visible(name)
}

/// A name without what Windows drops from its end, folded.
fn plain(name: &str) -> String {
    let name = name.split(':').next().unwrap_or(name);
    // Folded first, for an invisible character may hide a trailing dot.
    fold(name).trim_end_matches(['.', ' ']).to_owned()
}

fn fold_visible(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Patterns are lower case; one `*` at most, at either end.
fn find(patterns: &'static [&'static str], name: &str) -> Option<&'static str> {
    patterns.iter().copied().find(|pattern| {
        if let Some(begin) = pattern.strip_suffix('*') {
            name.starts_with(begin)
        } else if let Some(end) = pattern.strip_prefix('*') {
            name.ends_with(end)
        } else {
            name == *pattern
        }
    })
}

const COPILOT: &str = ".github/copilot-instructions.md";
const WORKFLOWS: &str = ".github/workflows/**";
const VIRTUAL_ENVIRONMENT: &str = "virtual environment bin/**";
const FISH: &str = ".config/fish/**";

const TIER_1: &[&str] = &[
    ".roo",
    ".roomodes",
    ".roorules*",
    ".rooignore",
    ".rooprotected",
    ".vscode",
    "*.code-workspace",
    ".idea",
    ".git",
    "git~1",
    ".gitmodules",
    ".gitattributes",
    ".husky",
    ".pre-commit-config.yaml",
    ".mcp.json",
    ".claude",
    ".cursor",
    ".codex",
    ".gemini",
    ".zed",
    ".amazonq",
    ".kiro",
    ".windsurf*",
    ".cline*",
    ".agents",
    "agents.md",
    "agent.md",
    "claude.md",
    "gemini.md",
    ".cursorrules",
];

const TIER_2: &[&str] = &[
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.lock",
    "cargo.lock",
    "poetry.lock",
    "pdm.lock",
    "pipfile.lock",
    "uv.lock",
    "gemfile.lock",
    "composer.lock",
    "go.sum",
    "flake.lock",
    ".npmrc",
    ".yarnrc*",
    "makefile",
    "gnumakefile",
    "build.rs",
    ".cargo",
    "conftest.py",
    "setup.py",
    ".envrc",
    ".devcontainer",
    "dockerfile*",
    "*.pth",
    ".profile",
    ".login",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(relative: &str) -> u8 {
        match protection(relative, None) {
            Protection::Tier1 { .. } => 1,
            Protection::Tier2 { .. } => 2,
            Protection::Denied => 3,
            Protection::None | Protection::OwnTaskDirectory => 0,
        }
    }

    #[test]
    fn what_steers_agents_git_and_editors_is_tier_1_at_any_depth() {
        for path in [
            ".roo/mcp.json",
            ".roo",
            ".roomodes",
            ".roorules-code",
            ".git",
            ".git/hooks/pre-commit",
            "sub/.git/config",
            "packages/a/AGENTS.md",
            "project.code-workspace",
            ".github/copilot-instructions.md",
            ".clinerules/x.md",
        ] {
            assert_eq!(tier(path), 1, "{path}");
        }
    }

    #[test]
    fn what_runs_later_is_tier_2() {
        for path in [
            "package.json",
            "crates/a/build.rs",
            ".cargo/config.toml",
            ".github/workflows/ci.yml",
            "Dockerfile.dev",
            ".venv/bin/python",
            "Makefile",
            "site/evil.pth",
        ] {
            assert_eq!(tier(path), 2, "{path}");
        }
    }

    #[test]
    fn plain_sources_are_not_protected() {
        for path in ["src/main.rs", "roo/notes.md", "docs/git.md", ".github/README.md", "src/agents.rs", ""] {
            assert_eq!(tier(path), 0, "{path}");
        }
    }

    #[test]
    fn spelling_does_not_help() {
        for path in [
            ".ROO/mcp.json",
            ".Git/hooks/pre-commit",
            ".VSCode/Settings.JSON",
            ".roo./mcp.json",
            ".roo /mcp.json",
            ".roo::$INDEX_ALLOCATION/mcp.json",
            ".g\u{200c}it/config",
            ".git.\u{200c}/config",
            "GIT~1/config",
        ] {
            assert_eq!(tier(path), 1, "{path}");
        }
    }

    #[test]
    fn the_orchestration_directory_is_the_servers_alone() {
        assert_eq!(protection(".orchestration/agent_trace.jsonl", None), Protection::Denied);
        assert_eq!(protection(".Orchestration", None), Protection::Denied);
        assert_eq!(protection(".roo/tasks/U/.orchestration/x", Some("U")), Protection::Denied);
    }

    #[test]
    fn only_the_own_task_directory_is_granted_and_only_below_it() {
        let urid = Some("20260102-03-04-abcdef01");
        let own = |path: &str| protection(path, urid) == Protection::OwnTaskDirectory;
        assert!(own(".roo/tasks/20260102-03-04-abcdef01/notes.md"));
        assert!(own(".roo/tasks/20260102-03-04-abcdef01/sub/package.json"));
        assert!(!own(".roo/tasks/20260102-03-04-abcdef01"));
        assert!(!own(".roo/tasks/20260102-03-04-abcdef012/notes.md"));
        assert!(!own(".roo/tasks/20260102-03-04-ffffffff/notes.md"));
        assert!(!own(".ROO/tasks/20260102-03-04-abcdef01/notes.md"));
        assert!(!own(".roo/tasks/20260102-03-04-abcdef01/.git/hooks/pre-commit"));
        assert_eq!(protection(".roo/tasks//notes.md", Some("")), Protection::Tier1 { rule: ".roo" });
    }
}
