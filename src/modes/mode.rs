//! What a mode is, and what it permits.

use std::path::{Component, Path};
use std::sync::OnceLock;

use regex::Regex;

use super::BUILT_IN;
use crate::catalog::{Group, TOOLS, ToolName};

/// A specialised agent.
#[derive(Debug)]
pub struct Mode {
    /// Names it in settings and on the wire.
    pub slug: &'static str,
    /// Marks it in prompts and trees.
    pub emoji: &'static str,
    /// For people.
    pub name: &'static str,
    /// Who the model is in this mode.
    pub role: &'static str,
    /// The groups that bring its tools, besides what every mode has.
    pub groups: &'static [Group],
    /// Which files its edits may touch; all when none.
    pub file_restriction: Option<FileRestriction>,
    /// How it works, step by step.
    pub instructions: &'static str,
}

/// Which files a mode may change.
#[derive(Debug)]
pub struct FileRestriction {
    /// A regular expression that a path relative to its root must match.
    pub pattern: &'static str,
    /// What it matches, for people.
    pub description: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

impl FileRestriction {
    /// A restriction to files whose path matches `pattern`.
    pub const fn new(pattern: &'static str, description: &'static str) -> Self {
        Self { pattern, description, compiled: OnceLock::new() }
    }

    /// Whether the file may be changed. A pattern that is no regular expression matches nothing.
    pub fn matches(&self, path: &str) -> bool {
        self.compiled
            .get_or_init(|| Regex::new(self.pattern).ok())
            .as_ref()
            .is_some_and(|regex| regex.is_match(path))
    }
}

/// No mode has this slug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("There is no mode '{slug}'. The modes are {}.", known.join(", "))]
pub struct UnknownMode {
    /// What was asked for.
    pub slug: String,
    /// What there is.
    pub known: Vec<&'static str>,
}

/// A mode does not permit a call. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeRefusal {
    /// The mode has no such tool.
    #[error("The mode '{mode}' does not have the tool {tool}. It has {}.", names(tools))]
    Tool {
        /// The mode's slug.
        mode: &'static str,
        /// What was called.
        tool: ToolName,
        /// What it has.
        tools: Vec<ToolName>,
    },
    /// The mode's edits may not touch the file.
    #[error(
        "The mode '{mode}' may change {description} only (pattern `{pattern}`), and '{path}' is not one of \
         them. Work within that, or end with what should be changed in this file."
    )]
    File {
        /// The mode's slug.
        mode: &'static str,
        /// What the pattern matches.
        description: &'static str,
        /// The mode's pattern.
        pattern: &'static str,
        /// The file.
        path: String,
    },
    /// The mode may only write notes.
    #[error(
        "The mode '{mode}' may write below `{task_directory}/` only, and '{path}' is not there. Put text that \
         you want to keep there, or end with what should be changed in this file."
    )]
    OutsideTaskDirectory {
        /// The mode's slug.
        mode: &'static str,
        /// The request's own directory.
        task_directory: String,
        /// The file.
        path: String,
    },
}

fn names(tools: &[ToolName]) -> String {
    tools.iter().map(|tool| tool.as_str()).collect::<Vec<_>>().join(", ")
}

/// The mode of this slug.
///
/// # Errors
/// [`UnknownMode`] with the slugs that there are.
pub fn find(slug: &str) -> Result<&'static Mode, UnknownMode> {
    BUILT_IN.iter().find(|mode| mode.slug == slug).ok_or_else(|| UnknownMode {
        slug: slug.to_owned(),
        known: BUILT_IN.iter().map(|mode| mode.slug).collect(),
    })
}

impl Mode {
    /// Its tools, in the order of the catalogue.
    pub fn tools(&self) -> Vec<ToolName> {
        TOOLS.iter().map(|spec| spec.name).filter(|&tool| self.has(tool)).collect()
    }

    /// Whether it has the tool. Every mode can write: its request's own directory is open to it.
    pub fn has(&self, tool: ToolName) -> bool {
        let group = tool.spec().group;
        group == Group::Always || tool == ToolName::WriteToFile || self.groups.contains(&group)
    }

    /// Whether it may call the tool at all.
    ///
    /// # Errors
    /// [`ModeRefusal::Tool`].
    pub fn permits(&self, tool: ToolName) -> Result<(), ModeRefusal> {
        if self.has(tool) {
            Ok(())
        } else {
            Err(ModeRefusal::Tool { mode: self.slug, tool, tools: self.tools() })
        }
    }

    /// Whether it may call the tool on this file. `path` is resolved and relative to its root, with
    /// `/` between its parts; `task_directory` is the request's own, see [`super::task_directory`].
    ///
    /// # Errors
    /// [`ModeRefusal`], worded for the model.
    pub fn permits_file(&self, tool: ToolName, path: &str, task_directory: &str) -> Result<(), ModeRefusal> {
        self.permits(tool)?;
        if tool.spec().group != Group::Edit {
            return Ok(());
        }
        if tool == ToolName::WriteToFile && is_below(path, task_directory) {
            return Ok(());
        }
        if !self.groups.contains(&Group::Edit) {
            return Err(ModeRefusal::OutsideTaskDirectory {
                mode: self.slug,
                task_directory: task_directory.to_owned(),
                path: path.to_owned(),
            });
        }
        match &self.file_restriction {
            Some(restriction) if !restriction.matches(path) => Err(ModeRefusal::File {
                mode: self.slug,
                description: restriction.description,
                pattern: restriction.pattern,
                path: path.to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// Whether a path goes down from a directory: part by part, and never up again.
fn is_below(path: &str, directory: &str) -> bool {
    Path::new(path).strip_prefix(directory).is_ok_and(|rest| {
        rest.components().next().is_some()
            && rest.components().all(|part| matches!(part, Component::Normal(_)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = ".roo/tasks/20250307-09-05-0a1b2c3d";

    fn mode(slug: &str) -> &'static Mode {
        find(slug).unwrap()
    }

    #[test]
    fn each_mode_has_the_documented_tools() {
        let all = ["new-task", "orchestrator", "architect", "code", "debug", "ask"];
        let who_has = |tool: ToolName| -> Vec<&str> {
            BUILT_IN.iter().filter(|mode| mode.has(tool)).map(|mode| mode.slug).collect()
        };
        for spec in TOOLS {
            let expected: &[&str] = match spec.name {
                ToolName::ApplyDiff | ToolName::InsertContent | ToolName::SearchAndReplace => {
                    &["architect", "code", "debug"]
                }
                ToolName::ExecuteCommand => &["new-task", "code", "debug"],
                _ => &all,
            };
            assert_eq!(who_has(spec.name), expected, "{}", spec.name);
        }
    }

    #[test]
    fn a_tool_of_another_mode_is_refused_with_what_there_is() {
        let refusal = mode("ask").permits(ToolName::ExecuteCommand).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "The mode 'ask' does not have the tool execute_command. It has read_file, write_to_file, \
             list_files, search_files, ask_followup_question, update_todo_list, attempt_completion, \
             complete_with_failure."
        );
    }

    #[test]
    fn architect_changes_markdown_only() {
        let permits = |tool, path| mode("architect").permits_file(tool, path, OWN);
        assert_eq!(permits(ToolName::ApplyDiff, "docs/plan.md"), Ok(()));
        assert_eq!(permits(ToolName::ReadFile, "src/main.rs"), Ok(()));
        for path in ["src/main.rs", "plan.md.sh", "plan.mdx", "md", "a.md\n.rs"] {
            let refusal = permits(ToolName::WriteToFile, path).unwrap_err().to_string();
            for part in ["'architect'", r"`\.md$`", path] {
                assert!(refusal.contains(part), "{refusal}");
            }
        }
    }

    #[test]
    fn every_mode_writes_whole_files_in_its_own_task_directory() {
        for mode in &BUILT_IN {
            let permits = |tool, path: &str| mode.permits_file(tool, path, OWN).is_ok();
            assert!(permits(ToolName::WriteToFile, &format!("{OWN}/notes/a.json")), "{}", mode.slug);
        }
        let ask = |path: &str| mode("ask").permits_file(ToolName::WriteToFile, path, OWN);
        for path in [
            "src/main.rs",
            ".roo/tasks/20250307-09-05-ffffffff/a.md",
            ".roo/tasks/20250307-09-05-0a1b2c3dx/a.md",
            ".roo/tasks/20250307-09-05-0a1b2c3d/../../rules.md",
            OWN,
        ] {
            let refusal = ask(path).unwrap_err().to_string();
            assert!(
                refusal.contains(path) && refusal.contains(OWN) && refusal.contains("'ask'"),
                "{refusal}"
            );
        }
        // Block edits have no such grant.
        let edit = mode("architect").permits_file(ToolName::ApplyDiff, &format!("{OWN}/a.json"), OWN);
        assert!(matches!(edit, Err(ModeRefusal::File { .. })));
    }

    #[test]
    fn code_changes_any_file() {
        assert_eq!(mode("code").permits_file(ToolName::WriteToFile, "src/main.rs", OWN), Ok(()));
    }

    #[test]
    fn a_pattern_that_is_no_regex_lets_nothing_pass() {
        let restriction = FileRestriction::new("(", "nothing");
        assert!(!restriction.matches("("));
    }

    #[test]
    fn an_unknown_slug_lists_the_known_ones() {
        assert_eq!(
            find("coder").unwrap_err().to_string(),
            "There is no mode 'coder'. The modes are new-task, orchestrator, architect, code, debug, ask."
        );
    }
}
