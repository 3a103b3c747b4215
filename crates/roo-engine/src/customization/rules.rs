//! Rules for agents: `.roo/rules-<slug>/`, `.roo/rules/`, the single files of old, and `AGENTS.md`. Names and
//! order are Roo Code's.

use std::fmt;
use std::path::{Path, PathBuf};

use super::access::Withheld;
use super::directory::without_hidden;
use super::files::{Below, Files};
use super::{Scope, hidden_characters};
use roo_formats::FileProblem;
use roo_formats::modes::is_slug;
use roo_formats::roo_code::INSTRUCTIONS_FILE;
use roo_text::render::exact_line;

/// The most text that all rules of a mode may have together, in bytes.
const LIMIT: usize = 256 << 10;
/// Number of left-out files that are named.
const NAMED: usize = 20;
/// One text of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFile {
    /// Heading with kind and source, in one line.
    pub heading: String,
    /// Not empty, without blank lines around.
    pub text: String,
}

/// The rules of a mode. `project` is the first folder of a trusted workspace.
pub(super) fn load(files: &Files, home: Option<&Path>, project: Option<&Path>, slug: &str) -> Vec<RuleFile> {
    if !is_slug(slug) {
        return vec![];
    }
    let mut rules = RuleLoader::new(files, home, project);
    rules.directories_or_files(&format!("-{slug}"));
    rules.agents();
    rules.directories_or_files("");
    rules.finish()
}

/// Returns the problems of the rules of these modes.
pub(super) fn problems<'a>(
    files: &Files,
    home: Option<&Path>,
    project: Option<&Path>,
    slugs: impl Iterator<Item = &'a str>,
) -> Vec<FileProblem> {
    let mut rules = RuleLoader::new(files, home, project);
    rules.agents();
    rules.directories_or_files("");
    for slug in slugs {
        // Each mode has the space to itself.
        (rules.found, rules.left) = (vec![], LIMIT);
        rules.directories_or_files(&format!("-{slug}"));
    }
    rules.problems.truncate(NAMED);
    rules.problems
}

/// Returns the problems of a rules file that held this text.
pub fn problems_of(path: &Path, text: &str) -> Vec<FileProblem> {
    let (_, hidden) = without_hidden(text);
    hidden.map(|_| hidden_characters(path, hidden)).into_iter().collect()
}

struct RuleLoader<'a> {
    files: &'a Files,
    home: Option<&'a Path>,
    project: Option<&'a Path>,
    found: Vec<RuleFile>,
    /// Number of files in `found` beside which the single files of old don't count.
    displacing: usize,
    /// In bytes.
    left: usize,
    left_out: Vec<String>,
    problems: Vec<FileProblem>,
}

impl<'a> RuleLoader<'a> {
    fn new(files: &'a Files, home: Option<&'a Path>, project: Option<&'a Path>) -> Self {
        let (found, left_out, problems) = (vec![], vec![], vec![]);
        Self { files, home, project, found, displacing: 0, left: LIMIT, left_out, problems }
    }

    /// The directories `rules<ending>`; where they hold nothing, the single files of old.
    fn directories_or_files(&mut self, ending: &str) {
        let before = self.displacing;
        if let Some(home) = self.home {
            self.directory(&home.join(".roo").join(format!("rules{ending}")), Scope::Global);
        }
        let Some(project) = self.project else { return };
        self.directory(&project.join(".roo").join(format!("rules{ending}")), Scope::Project);
        for name in [format!(".roorules{ending}"), format!(".clinerules{ending}")] {
            if self.displacing > before {
                return;
            }
            let path = project.join(name);
            // The walk reports one that leads out of the workspace.
            if path.is_dir() {
                self.directory(&path, Scope::Project);
            } else {
                self.file(&path, Scope::Project, "Rules from");
            }
        }
    }

    fn agents(&mut self) {
        let Some(project) = self.project else { return };
        if !self.file(&project.join("AGENTS.md"), Scope::Project, "Agent rules from") {
            self.file(&project.join("AGENT.md"), Scope::Project, "Agent rules from");
        }
        self.file(&project.join("AGENTS.local.md"), Scope::Project, "Local agent rules from");
    }

    /// The files below a directory, by their own names.
    fn directory(&mut self, directory: &Path, scope: Scope) {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let Below { files: mut paths, mut refused } = self.files.below(directory, scope);
        refused.sort();
        for path in refused {
            self.leave_out(&path, &Withheld::Outside);
        }
        paths.retain(|path| !is_leftover(&name(path)));
        paths.sort_by_cached_key(|path| (name(path), path.clone()));
        for path in paths {
            self.file(&path, scope, "Rules from");
        }
    }

    /// Takes a file, if there is one with something in it; whether there is.
    fn file(&mut self, path: &Path, scope: Scope, what: &str) -> bool {
        let text = match self.files.text(path, scope, LIMIT as u64) {
            Ok(None) => return false,
            Ok(Some(text)) => {
                self.problems.extend(problems_of(path, &text.text));
                without_hidden(&text.text).0.trim().to_owned()
            }
            Err(error) => {
                self.leave_out(path, &error);
                return true;
            }
        };
        if text.is_empty() {
            return false;
        }
        match self.left.checked_sub(text.len()) {
            Some(left) => {
                self.left = left;
                // In Roo Code they are no rules, so they leave the single files of old in force.
                let imported = self.home.map(|home| home.join(".roo/rules").join(INSTRUCTIONS_FILE));
                self.displacing += usize::from(imported.as_deref() != Some(path));
                self.found.push(RuleFile { heading: format!("{what} {}", self.shown(path)), text });
            }
            None => {
                let message = format!(
                    "these rules are left out: all rules of a mode may have {} KiB together",
                    LIMIT >> 10
                );
                self.problems.push(FileProblem::error(path, None, message));
                self.left_out.push(format!("{} (too long)", self.shown(path)));
            }
        }
        true
    }

    /// Tells user and model of rules that can't be read.
    fn leave_out(&mut self, path: &Path, reason: &dyn fmt::Display) {
        let message = format!("these rules are left out: {reason}");
        self.problems.push(FileProblem::error(path, None, message));
        self.left_out.push(format!("{} ({reason})", self.shown(path)));
    }

    /// A path as people write it.
    fn shown(&self, path: &Path) -> String {
        let below = |base: Option<&Path>| base.and_then(|base| path.strip_prefix(base).ok());
        let shown = match (below(self.project), below(self.home)) {
            (Some(relative), _) => relative.to_owned(),
            (None, Some(relative)) => PathBuf::from("~").join(relative),
            (None, None) => path.to_owned(),
        };
        exact_line(&shown.to_string_lossy())
    }

    fn finish(mut self) -> Vec<RuleFile> {
        if !self.left_out.is_empty() {
            let named =
                self.left_out.iter().take(NAMED).map(|name| format!("- {name}\n")).collect::<String>();
            let more = self.left_out.len().saturating_sub(NAMED);
            let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
            let text = format!(
                "All rules together may have {} KiB, and each must be readable text. Left out:\n{named}{more}",
                LIMIT >> 10
            );
            self.found.push(RuleFile {
                heading: "Rules that were left out".to_owned(),
                text: text.trim_end().to_owned(),
            });
        }
        self.found
    }
}

/// Returns whether a name, in lower case, is one that programs leave behind.
fn is_leftover(name: &str) -> bool {
    const ENDINGS: &[&str] = &[
        ".ds_store",
        ".bak",
        ".cache",
        ".crdownload",
        ".db",
        ".dmp",
        ".dump",
        ".eslintcache",
        ".lock",
        ".log",
        ".old",
        ".part",
        ".partial",
        ".pyc",
        ".pyo",
        ".stackdump",
        ".swo",
        ".swp",
        ".temp",
        ".tmp",
    ];
    name == "thumbs.db" || ENDINGS.iter().any(|ending| name.ends_with(ending))
}
