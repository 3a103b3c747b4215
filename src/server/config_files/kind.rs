//! Recognises configuration files. By their paths alone: to ask costs nothing, whatever is open.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::cursor::{self, Cursor};
use roo_engine::customization::{GLOBAL_HOOKS, GLOBAL_MCP, Scope};
use roo_formats::config::Directories;
use roo_formats::{front_matter, mcp};
use roo_text::lines::BOM;

const IGNORE: &str = ".rooignore";
const PROTECTED: &str = ".rooprotected";

/// Kind of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfigFileKind {
    /// Modes, as YAML or JSON.
    Modes(Scope),
    /// A slash command: Markdown with front matter.
    Command,
    /// A skill: Markdown with front matter.
    Skill,
    /// Rules: Markdown without front matter.
    Rules,
    /// Files that agents may not see: patterns as in `.gitignore`.
    Ignore,
    /// Files that agents change only with approval: patterns as in `.gitignore`.
    Protected,
    /// Hooks, as JSON.
    Hooks(Scope),
    /// MCP servers, as JSON with comments.
    McpServers,
    /// The user's settings.
    Settings,
    /// The workspace's intents.
    Intents,
}

impl ConfigFileKind {
    /// Returns what a cursor at a byte offset touches, and whether that is JSON; none where nothing is declared.
    pub(super) fn cursor_at(self, text: &str, offset: usize) -> Option<(Cursor, bool)> {
        let region = match self {
            Self::Modes(_) | Self::Hooks(_) | Self::McpServers | Self::Settings | Self::Intents => {
                text.len() - text.strip_prefix(BOM).unwrap_or(text).len()..text.len()
            }
            Self::Command | Self::Skill => front_matter::region(text)?,
            Self::Rules | Self::Ignore | Self::Protected => return None,
        };
        let mut yaml = Cow::Borrowed(text.get(region.clone())?);
        let within = offset.checked_sub(region.start).filter(|within| *within <= yaml.len())?;
        if self == Self::McpServers {
            if mcp::comments(&yaml).iter().any(|comment| comment.start < within && within <= comment.end) {
                return None;
            }
            yaml = Cow::Owned(mcp::without_comments(&yaml).into_owned());
        }
        let mut cursor = cursor::find(&yaml, within)?;
        cursor.token = cursor.token.start + region.start..cursor.token.end + region.start;
        let is_json =
            matches!(self, Self::Hooks(_) | Self::McpServers) || yaml.trim_start().starts_with(['{', '[']);
        Some((cursor, is_json))
    }
}

/// A file of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigFile {
    pub(super) kind: ConfigFileKind,
    /// As [`roo_engine::customization`] names it: below the real root or the user's directories.
    pub(super) path: PathBuf,
}

/// Locations of configuration files.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The workspace folders: as the client names them, and where they really are.
    folders: Vec<(PathBuf, PathBuf)>,
    home: Option<(PathBuf, PathBuf)>,
    config: (PathBuf, PathBuf),
    settings: PathBuf,
    /// The files that bring modes to a user.
    global_modes: Vec<PathBuf>,
}

impl Places {
    /// Asks the disk once where the folders and directories really are.
    pub(super) fn new(folders: &[PathBuf], directories: &Directories, global_modes: Vec<PathBuf>) -> Self {
        let usable = folders.iter().filter_map(|folder| Some((folder.clone(), folder.canonicalize().ok()?)));
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        Self {
            folders: usable.filter(|(_, real)| real.is_dir()).collect(),
            home: directories.home.as_ref().map(|home| (home.clone(), real(home))),
            config: (directories.config.clone(), real(&directories.config)),
            settings: directories.config_file(),
            global_modes,
        }
    }

    /// The lists of patterns of every workspace folder.
    pub(super) fn pattern_files(&self) -> impl Iterator<Item = ConfigFile> {
        self.folders.iter().flat_map(|(_, real)| {
            [(ConfigFileKind::Ignore, IGNORE), (ConfigFileKind::Protected, PROTECTED)]
                .map(|(kind, name)| ConfigFile { kind, path: real.join(name) })
        })
    }

    /// The file of ours at a path; none when it is something else.
    pub(super) fn find(&self, path: &Path) -> Option<ConfigFile> {
        for (index, (named, real)) in self.folders.iter().enumerate() {
            let Some(below) = below(path, named, real) else { continue };
            let kind = match in_folder(below) {
                Some(kind @ (ConfigFileKind::Ignore | ConfigFileKind::Protected)) => kind,
                // What the others bring has no effect.
                Some(kind) if index == 0 => kind,
                _ => continue,
            };
            return Some(ConfigFile { kind, path: real.join(below) });
        }
        let (config, real) = &self.config;
        // By the name that the user's directory has elsewhere.
        let named = below(path, config, real).map_or_else(|| path.to_owned(), |below| config.join(below));
        if named == self.settings {
            return Some(ConfigFile { kind: ConfigFileKind::Settings, path: named });
        }
        if self.global_modes.contains(&named) {
            return Some(ConfigFile { kind: ConfigFileKind::Modes(Scope::Global), path: named });
        }
        if named == config.join(GLOBAL_HOOKS) {
            return Some(ConfigFile { kind: ConfigFileKind::Hooks(Scope::Global), path: named });
        }
        if named == config.join(GLOBAL_MCP) {
            return Some(ConfigFile { kind: ConfigFileKind::McpServers, path: named });
        }
        let (home, real) = self.home.as_ref()?;
        let below = below(path, home, real)?;
        let kind = in_folder(below).filter(|kind| {
            matches!(kind, ConfigFileKind::Command | ConfigFileKind::Skill | ConfigFileKind::Rules)
        })?;
        Some(ConfigFile { kind, path: home.join(below) })
    }
}

fn below<'a>(path: &'a Path, named: &Path, real: &Path) -> Option<&'a Path> {
    path.strip_prefix(named).or_else(|_| path.strip_prefix(real)).ok()
}

/// Returns the kind of a path below a workspace folder or a home directory.
fn in_folder(below: &Path) -> Option<ConfigFileKind> {
    let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
    let of_mode = |name: &str, group: &str| {
        let rest = name.strip_prefix(group);
        rest.is_some_and(|rest| rest.is_empty() || (rest.len() > 1 && rest.starts_with('-')))
    };
    match parts?.as_slice() {
        [".roomodes"] => Some(ConfigFileKind::Modes(Scope::Project)),
        [IGNORE] => Some(ConfigFileKind::Ignore),
        [PROTECTED] => Some(ConfigFileKind::Protected),
        [".orchestration", "active_intents.yaml"] => Some(ConfigFileKind::Intents),
        [".roo", "hooks.json"] => Some(ConfigFileKind::Hooks(Scope::Project)),
        [".roo", "mcp.json"] => Some(ConfigFileKind::McpServers),
        [".roo", "commands", file] if file.ends_with(".md") => Some(ConfigFileKind::Command),
        [".roo" | ".agents", group, name, "SKILL.md"]
            if of_mode(group, "skills") && !name.starts_with('.') =>
        {
            Some(ConfigFileKind::Skill)
        }
        [".roo", group, _, ..] if of_mode(group, "rules") => Some(ConfigFileKind::Rules),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        let pair = |named: &str, real: &str| (PathBuf::from(named), PathBuf::from(real));
        Places {
            folders: vec![pair("/link", "/w"), pair("/second", "/second")],
            home: Some(pair("/home/ada/", "/home/ada")),
            config: pair("/home/ada/.config/roo-lsp", "/dotfiles/roo"),
            settings: PathBuf::from("/home/ada/.config/roo-lsp/config.yaml"),
            global_modes: vec![PathBuf::from("/home/ada/.config/roo-lsp/custom-modes.yaml")],
        }
    }

    fn found(path: &str) -> Option<(ConfigFileKind, String)> {
        let file = places().find(Path::new(path))?;
        Some((file.kind, file.path.display().to_string()))
    }

    #[test]
    fn files_are_known_by_their_place() {
        let check = |path: &str, kind: ConfigFileKind, named: &str| {
            assert_eq!(found(path), Some((kind, named.to_owned())), "{path}");
        };
        check("/w/.roomodes", ConfigFileKind::Modes(Scope::Project), "/w/.roomodes");
        check(
            "/w/.orchestration/active_intents.yaml",
            ConfigFileKind::Intents,
            "/w/.orchestration/active_intents.yaml",
        );
        check("/link/.roomodes", ConfigFileKind::Modes(Scope::Project), "/w/.roomodes");
        check("/w/.roo/commands/a.md", ConfigFileKind::Command, "/w/.roo/commands/a.md");
        check("/w/.roo/rules/a/b.md", ConfigFileKind::Rules, "/w/.roo/rules/a/b.md");
        check("/w/.roo/rules-code/x.txt", ConfigFileKind::Rules, "/w/.roo/rules-code/x.txt");
        check(
            "/w/.agents/skills-code/a/SKILL.md",
            ConfigFileKind::Skill,
            "/w/.agents/skills-code/a/SKILL.md",
        );
        check("/link/.roo/mcp.json", ConfigFileKind::McpServers, "/w/.roo/mcp.json");
        check("/link/.roo/hooks.json", ConfigFileKind::Hooks(Scope::Project), "/w/.roo/hooks.json");
        check("/second/.rooignore", ConfigFileKind::Ignore, "/second/.rooignore");
        check("/second/.rooprotected", ConfigFileKind::Protected, "/second/.rooprotected");
        check("/home/ada/.roo/skills/a/SKILL.md", ConfigFileKind::Skill, "/home/ada/.roo/skills/a/SKILL.md");
        let (modes, settings, hooks) = ("custom-modes.yaml", "config.yaml", "hooks.json");
        for directory in ["/home/ada/.config/roo-lsp", "/dotfiles/roo"] {
            let named = |name: &str| format!("/home/ada/.config/roo-lsp/{name}");
            check(&format!("{directory}/{modes}"), ConfigFileKind::Modes(Scope::Global), &named(modes));
            check(&format!("{directory}/{settings}"), ConfigFileKind::Settings, &named(settings));
            check(&format!("{directory}/{hooks}"), ConfigFileKind::Hooks(Scope::Global), &named(hooks));
        }
    }

    #[test]
    fn everything_else_is_none_of_ours() {
        for path in [
            "/w/src/main.rs",
            "/w/sub/.roomodes",
            "/second/.roomodes",
            "/second/.orchestration/active_intents.yaml",
            "/w/.orchestration/other.yaml",
            "/second/.roo/hooks.json",
            "/w/hooks.json",
            "/w/.roo/hooks/hooks.json",
            "/home/ada/.roo/hooks.json",
            "/w/.roo/commands/sub/a.md",
            "/w/.roo/commands/a.txt",
            "/w/.roo/rulesets/a.md",
            "/w/.roo/rules",
            "/w/.roo/rules-/a.md",
            "/w/.roo/skills/SKILL.md",
            "/home/ada/.roomodes",
            "/elsewhere/custom-modes.yaml",
        ] {
            assert_eq!(found(path), None, "{path}");
        }
    }
}
