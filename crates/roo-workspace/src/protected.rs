//! Names of files that configure agents, git and editors, or that are run later. This module says which names are
//! protected and why; the gate decides whether one may be written.

use std::sync::{Arc, Mutex, PoisonError};

use cap_std::fs::Dir;

use super::rules_file::{self, Stamp};
use roo_text::name_patterns::NamePatterns;
use roo_text::names::fold;

/// The file at the top of a workspace folder that lists further protected names.
const PROTECTED_FILE: &str = ".rooprotected";

/// Kind of protection of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Not protected.
    None,
    /// It steers agents, git or editors, or the user protects it: writing asks, always.
    Tier1 {
        /// Source of the protection.
        by: ProtectedBy,
    },
    /// It is run later, in a build or a shell: writing is allowed in scope, and labelled.
    Tier2 {
        /// The name or pattern that matched.
        rule: &'static str,
    },
    /// Only the server's own intents and trace write there.
    Denied,
    /// The request's own task directory: writing never asks.
    OwnTaskDirectory,
}

/// Source of a name's protection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtectedBy {
    /// A built-in name or pattern.
    Name(&'static str),
    /// A pattern of the settings or of `.rooprotected`, and its source.
    Pattern(String),
}

/// Protected names of one workspace folder: the built-in names, and the patterns of the user's settings and of the
/// folder's `.rooprotected`. These only add to the built-in ones.
#[derive(Clone, Debug, Default)]
pub struct ProtectedNames {
    settings: Option<NamePatterns>,
    /// The patterns of the settings, as they are written.
    written: Vec<String>,
    folder: Arc<FolderPatterns>,
}

/// Content of a `.rooprotected`.
#[derive(Debug, Default)]
enum FolderPatterns {
    /// None; the file doesn't exist.
    #[default]
    None,
    Patterns(NamePatterns),
    /// It can't be read or parsed, and so protects everything: failing open would unprotect its files.
    Broken(String),
}

impl ProtectedNames {
    fn new(settings: &[String], folder: Arc<FolderPatterns>) -> Self {
        let written = settings.to_vec();
        if settings.is_empty() {
            return Self { settings: None, written, folder };
        }
        match NamePatterns::parse(settings.iter().map(String::as_str)) {
            Ok(patterns) => Self { settings: Some(patterns), written, folder },
            // Settings are checked when they are read.
            Err(_) => {
                let problem = "the setting `protected` is invalid".to_owned();
                Self { settings: None, written, folder: Arc::new(FolderPatterns::Broken(problem)) }
            }
        }
    }

    /// Returns whether the same patterns were read, so that both protect the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.written == other.written && Arc::ptr_eq(&self.folder, &other.folder)
    }

    /// The protection of a path relative to the folder; see [`protection`].
    pub fn protection(&self, relative: &str, own_urid: Option<&str>) -> Protection {
        match protection(relative, own_urid) {
            free @ (Protection::None | Protection::Tier2 { .. }) => self
                .added(relative)
                .map_or(free, |pattern| Protection::Tier1 { by: ProtectedBy::Pattern(pattern) }),
            protected => protected,
        }
    }

    /// Returns the pattern of the settings or of `.rooprotected` that covers a path.
    pub fn added(&self, relative: &str) -> Option<String> {
        if let Some(pattern) = self.settings.as_ref().and_then(|patterns| patterns.covering(relative)) {
            return Some(format!("`{pattern}` in your settings"));
        }
        match &*self.folder {
            FolderPatterns::None => None,
            FolderPatterns::Patterns(patterns) => {
                patterns.covering(relative).map(|pattern| format!("`{pattern}` in {PROTECTED_FILE}"))
            }
            FolderPatterns::Broken(problem) => Some(problem.clone()),
        }
    }
}

/// The `.rooprotected` of every root, each read again whenever it has changed.
pub(super) struct ProtectedFiles {
    roots: Vec<Mutex<(Option<Stamp>, Arc<FolderPatterns>)>>,
}

impl ProtectedFiles {
    /// For this many roots; nothing is read yet.
    pub(super) fn new(roots: usize) -> Self {
        Self { roots: std::iter::repeat_with(Mutex::default).take(roots).collect() }
    }

    /// Returns the names protected in a root. `settings` are the user's patterns.
    pub(super) fn names(&self, index: usize, root: &Dir, settings: &[String]) -> ProtectedNames {
        let Some(cached) = self.roots.get(index) else {
            return ProtectedNames::new(settings, Arc::default());
        };
        let mut cached = cached.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = rules_file::stamp(root, PROTECTED_FILE);
        if cached.0 != Some(stamp) {
            *cached = (Some(stamp), Arc::new(FolderPatterns::read(root)));
        }
        ProtectedNames::new(settings, Arc::clone(&cached.1))
    }
}

impl FolderPatterns {
    fn read(root: &Dir) -> Self {
        let broken = |why: String| Self::Broken(format!("all of it, because {PROTECTED_FILE} {why}"));
        match rules_file::read(root, PROTECTED_FILE) {
            Ok(None) => Self::None,
            Ok(Some(text)) => match NamePatterns::parse(text.lines()) {
                Ok(patterns) => Self::Patterns(patterns),
                Err(errors) => {
                    let line = errors.first().map_or(0, |error| error.line) + 1;
                    broken(format!("can't be parsed in line {line}"))
                }
            },
            Err(error) => broken(format!("can't be read: {error}")),
        }
    }
}

/// The protection of a path relative to its root, `/` separated, by the built-in names. It binds at any depth,
/// for names that don't exist yet as well, and whatever the spelling.
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

    // Folded before it is taken apart: some characters become dots and slashes only then.
    let names: Vec<String> = fold(relative).split('/').map(plain).collect();
    if names.iter().any(|name| name == ".orchestration") {
        return Protection::Denied;
    }
    let installed = names.iter().position(|name| INSTALLED.contains(&name.as_str()));
    let (own, brought) = names.split_at(installed.map_or(names.len(), |at| at + 1));
    let rule = own.iter().find_map(|name| find(TIER_1, name)).or_else(|| find_below(TIER_1_BELOW, own));
    let rule = rule.or_else(|| brought.iter().find_map(|name| find(TIER_1_INSTALLED, name)));
    if let Some(rule) = rule {
        return Protection::Tier1 { by: ProtectedBy::Name(rule) };
    }
    let later = names.iter().find_map(|name| find(TIER_2, name)).or_else(|| find_below(TIER_2_BELOW, &names));
    later.map_or(Protection::None, |rule| Protection::Tier2 { rule })
}

/// For people: the names and patterns that only the server writes, those of [`Protection::Tier1`] and those of
/// [`Protection::Tier2`].
pub fn protected_names() -> [Vec<&'static str>; 3] {
    let of = |names: &[&'static str], below: &[NamesWithin]| {
        let mut all = names.to_vec();
        all.extend(below.iter().map(|below| below.rule));
        all
    };
    [vec![".orchestration/**"], of(TIER_1, TIER_1_BELOW), of(TIER_2, TIER_2_BELOW)]
}

/// Returns whether a path relative to its root is a git directory, or below one.
pub fn is_git(relative: &str) -> bool {
    fold(relative).split('/').any(|name| matches!(plain(name).as_str(), ".git" | "git~1"))
}

/// Returns whether a name is spelled so that some system takes it for another one: with a trailing dot or space, a
/// stream suffix or invisible characters.
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

/// Names that are protected only in a directory of a certain name.
struct NamesWithin {
    directories: &'static [&'static str],
    names: &'static [&'static str],
    /// For people.
    rule: &'static str,
}

fn find_below(places: &'static [NamesWithin], names: &[String]) -> Option<&'static str> {
    // A name may consist of several.
    let begins = |below: &[String], name: &str| {
        let parts: Vec<&str> = name.split('/').collect();
        below.len() >= parts.len() && below.iter().zip(parts).all(|(own, part)| own == part)
    };
    (1..names.len()).find_map(|at| {
        let (above, below) = names.split_at(at);
        let directory = above.last().map(String::as_str).unwrap_or_default();
        let mut places = places.iter().filter(|place| place.directories.contains(&directory));
        places.find(|place| place.names.iter().any(|name| begins(below, name))).map(|place| place.rule)
    })
}

const TIER_1_BELOW: &[NamesWithin] = &[
    NamesWithin {
        directories: &[".github"],
        names: &[
            "copilot-instructions.md",
            "instructions",
            "prompts",
            "chatmodes",
            "agents",
            "skills",
            "hooks",
        ],
        rule: ".github/{copilot-instructions.md,instructions,prompts,chatmodes,agents,skills,hooks}",
    },
    // Configuration by which other version control runs programs.
    NamesWithin { directories: &[".hg"], names: &["hgrc", "hgrc-not-shared"], rule: ".hg/hgrc" },
    NamesWithin { directories: &[".jj"], names: &["repo/config.toml"], rule: ".jj/repo/config.toml" },
    NamesWithin { directories: &[".sl"], names: &["config"], rule: ".sl/config" },
];

const TIER_2_BELOW: &[NamesWithin] = &[
    NamesWithin {
        directories: &[".github", ".gitea", ".forgejo"],
        names: &["workflows", "actions"],
        rule: ".github/{workflows,actions}/**",
    },
    NamesWithin {
        directories: &["venv", ".venv", "env", ".env", "virtualenv"],
        names: &["bin", "scripts"],
        rule: "virtual environment bin/**",
    },
    NamesWithin { directories: &[".config"], names: &["fish"], rule: ".config/fish/**" },
];

const TIER_1: &[&str] = &[
    // Ours.
    ".roo",
    ".roomodes",
    ".roorules*",
    ".rooignore",
    ".rooprotected",
    // Editors.
    ".vscode",
    "*.code-workspace",
    ".idea",
    ".zed",
    ".rules",
    ".helix",
    ".nvim.lua",
    ".nvimrc",
    ".exrc",
    ".vimrc",
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".fleet",
    "*.sublime-project",
    // Git, and what runs on its operations.
    ".git",
    "git~1",
    ".gitmodules",
    ".gitattributes",
    ".husky",
    ".pre-commit-config.yaml",
    // Servers of tools for agents.
    ".mcp.json",
    ".mcp",
    "mcp.json",
    "mcp_settings.json",
    "mcp_config.json",
    "*_mcp_settings.json",
    // Other agents.
    "agents.md",
    "agents.local.md",
    "agents.override.md",
    "agent.md",
    ".agents",
    "claude.md",
    "claude.local.md",
    ".claude*",
    "gemini.md",
    ".gemini*",
    "qwen.md",
    ".qwen*",
    "warp.md",
    ".warp",
    ".cursor*",
    ".codex",
    ".amazonq",
    ".kiro",
    ".kilocode*",
    ".windsurf*",
    ".cline*",
    "opencode.json",
    "opencode.jsonc",
    ".opencode*",
    "crush.json",
    ".crush*",
    ".continue*",
    ".aider*",
    ".goose*",
    ".junie*",
    ".trae*",
    ".augment*",
    ".openhands",
    ".factory",
];

/// Directories of installed packages, which contain configuration of their own development that no program uses.
const INSTALLED: &[&str] = &["node_modules", "bower_components", "site-packages"];

/// Names protected even in installed packages: git and roo-lsp look for it at any depth.
const TIER_1_INSTALLED: &[&str] =
    &[".roo", ".roomodes", ".roorules*", ".rooignore", ".rooprotected", ".git", "git~1"];

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
    "mise.toml",
    ".mise.toml",
    "flake.nix",
    "shell.nix",
    ".devcontainer",
    "dockerfile*",
    "*.pth",
    ".gitlab-ci.yml",
    ".circleci",
    ".buildkite",
    ".travis.yml",
    ".drone.yml",
    ".woodpecker*",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "jenkinsfile",
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

    /// Or `npm install` could not finish before there is a `.gitignore`.
    #[test]
    fn what_installed_packages_bring_is_free_but_for_git_and_roo() {
        for path in [
            "node_modules/a/.vscode/settings.json",
            "node_modules/a/.gitattributes",
            "web/node_modules/@x/y/.github/instructions/a.md",
            "v/lib/python3.11/site-packages/p/AGENTS.md",
        ] {
            assert_eq!(tier(path), 0, "{path}");
        }
        for path in [
            "node_modules/a/.git/config",
            "node_modules/.roo/rules/a.md",
            "node_modules",
            ".vscode/node_modules/a",
        ] {
            assert_eq!(tier(path), u8::from(path != "node_modules"), "{path}");
        }
        assert_eq!(tier("node_modules/.orchestration/active_intents.yaml"), 3);
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
            ".github/instructions/rust.instructions.md",
            ".github/prompts/x.prompt.md",
            "opencode.json",
            ".opencode/agent/x.md",
            ".continue/config.yaml",
            ".continuerules",
            ".aider.conf.yml",
            ".goosehints",
            ".junie/guidelines.md",
            ".trae/rules/project_rules.md",
            ".augment/rules/x.md",
            ".augment-guidelines",
            ".rules",
            "WARP.md",
            "sub/QWEN.md",
            ".qwen/settings.json",
            "AGENTS.override.md",
            "mcp.json",
            "cline_mcp_settings.json",
            ".hg/hgrc",
            "sub/.jj/repo/config.toml",
            ".sl/config",
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
            ".github/actions/x/action.yml",
            ".gitlab-ci.yml",
            ".circleci/config.yml",
            "mise.toml",
            "sub/.mise.toml",
            "flake.nix",
            "shell.nix",
        ] {
            assert_eq!(tier(path), 2, "{path}");
        }
    }

    #[test]
    fn plain_sources_are_not_protected() {
        for path in [
            "src/main.rs",
            "roo/notes.md",
            "docs/git.md",
            ".github/README.md",
            "src/agents.rs",
            "rules",
            "instructions/x",
            ".jj/repo/op_heads/heads/x",
            ".hg/dirstate",
            "repo/config.toml",
            "",
        ] {
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
            // Compatibility forms, also of the dot, the slash and the colon.
            "\u{ff0e}\u{ff52}\u{ff4f}\u{ff4f}/mcp.json",
            "\u{ff0e}roo\u{ff0f}mcp.json",
            ".roo\u{ff1a}x/mcp.json",
            "A\u{ff27}ENTS.md",
            ".\u{1d420}it/config",
        ] {
            assert_eq!(tier(path), 1, "{path}");
        }
    }

    fn names(settings: &[&str], rooprotected: Option<&str>) -> ProtectedNames {
        let directory = tempfile::tempdir().unwrap();
        if let Some(text) = rooprotected {
            std::fs::write(directory.path().join(PROTECTED_FILE), text).unwrap();
        }
        let root = Dir::open_ambient_dir(directory.path(), cap_std::ambient_authority()).unwrap();
        let settings: Vec<String> = settings.iter().map(|pattern| (*pattern).to_owned()).collect();
        ProtectedFiles::new(1).names(0, &root, &settings)
    }

    #[test]
    fn users_and_workspaces_protect_more_names_and_take_none_away() {
        let names =
            names(&["infra/", "!.roo", "!deploy.sh"], Some("/deploy.sh\n!infra/\n!.vscode\nMakefile\n"));
        for path in ["infra/main.tf", "INFRA/x", "deploy.sh", "Makefile", ".roo/x", ".vscode/tasks.json"] {
            assert!(matches!(names.protection(path, None), Protection::Tier1 { .. }), "{path}");
        }
        assert_eq!(names.protection("src/main.rs", None), Protection::None);
        assert_eq!(names.protection("package.json", None), Protection::Tier2 { rule: "package.json" });
        assert_eq!(names.protection(".orchestration/x", None), Protection::Denied);
        assert_eq!(names.added("infra/a").as_deref(), Some("`infra/` in your settings"));
        assert_eq!(names.added("deploy.sh").as_deref(), Some("`/deploy.sh` in .rooprotected"));
    }

    #[test]
    fn a_file_of_protected_names_that_can_not_be_understood_protects_everything_but_the_own_task_directory() {
        let names = names(&[], Some("fine\nbroken{\n"));
        let by =
            ProtectedBy::Pattern("all of it, because .rooprotected can't be parsed in line 2".to_owned());
        assert_eq!(names.protection("src/main.rs", None), Protection::Tier1 { by });
        assert_eq!(names.protection(".roo/tasks/U/x", Some("U")), Protection::OwnTaskDirectory);
    }

    #[test]
    fn a_file_of_protected_names_is_read_again_when_it_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let root = Dir::open_ambient_dir(directory.path(), cap_std::ambient_authority()).unwrap();
        let files = ProtectedFiles::new(1);
        assert_eq!(files.names(0, &root, &[]).protection("a", None), Protection::None);
        std::fs::write(directory.path().join(PROTECTED_FILE), "a").unwrap();
        assert!(matches!(files.names(0, &root, &[]).protection("a", None), Protection::Tier1 { .. }));
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
        let by = ProtectedBy::Name(".roo");
        assert_eq!(protection(".roo/tasks//notes.md", Some("")), Protection::Tier1 { by });
    }
}
