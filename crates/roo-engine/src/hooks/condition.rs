//! The `if` of a hook: one permission rule of the public contract, such as `Bash(git *)` or `Edit(src/**)`.
//!
//! It saves processes and guards nothing: where it can't be told whether a call fits, the hook runs.

use std::path::Path;

use globset::GlobBuilder;
use serde_json::Value;

/// For which calls a hook runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    text: String,
}

impl Condition {
    /// Reads a rule. What is no rule lets every call pass.
    pub fn parse(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name of the tool that it asks for; none where every call passes, and for tools of servers.
    pub(super) fn built_in_tool(&self) -> Option<&str> {
        let (tool, rule) = self.parts();
        rule.map(|_| tool).filter(|tool| !is_of_server(tool))
    }

    /// The name of the tool, and the rule in the brackets behind it; no rule where they are not closed.
    fn parts(&self) -> (&str, Option<&str>) {
        match self.text.split_once('(') {
            Some((tool, rest)) => (tool.trim(), rest.trim_end().strip_suffix(')').map(str::trim)),
            None => (self.text.trim(), Some("")),
        }
    }

    /// Returns whether a call may fit: by the names of its tool and its input in the contract's form. `roots` are
    /// the directories from which paths are meant.
    pub fn fits(&self, names: &[&str], input: &Value, roots: &[&Path]) -> bool {
        let (tool, rule) = self.parts();
        let Some(rule) = rule else { return true };
        // Rules for reading and editing bind all tools that read or edit.
        let stands_for = |name: &&str| match tool {
            "Edit" => matches!(*name, "Edit" | "MultiEdit" | "Write" | "NotebookEdit"),
            "Read" => matches!(*name, "Read" | "Grep" | "Glob" | "LS"),
            // A server stands for all of its tools, and only in names of servers' tools does `*` mean something.
            tool if is_of_server(tool) => {
                glob(tool, name) || name.strip_prefix(tool).is_some_and(|rest| rest.starts_with("__"))
            }
            tool => *name == tool,
        };
        if !names.iter().any(stands_for) {
            return false;
        }
        if matches!(rule, "" | "*") {
            return true;
        }
        let text = |field: &str| input.get(field).and_then(Value::as_str);
        if let Some(command) = text("command") {
            return commands(command, rule);
        }
        if let Some(path) = text("file_path").or_else(|| text("path")) {
            return path_fits(Path::new(path), rule, roots);
        }
        text("subagent_type").is_none_or(|kind| glob(rule, kind))
    }
}

fn is_of_server(tool: &str) -> bool {
    tool.starts_with("mcp__")
}

/// Returns whether one of the commands in a line may fit.
fn commands(line: &str, rule: &str) -> bool {
    let rule = rule.strip_suffix(":*").map_or_else(|| rule.to_owned(), |start| format!("{start} *"));
    let parts = line.split(['\n', ';', '|', '&', '(', ')', '`', '{', '}']);
    let fits = |command: &str| {
        let command = without_assignments(command.trim());
        glob(&rule, command) || rule.strip_suffix(" *").is_some_and(|start| command == start)
    };
    // What a substitution or a variable becomes is not known, where more than the program's name is asked for.
    let is_name_alone = rule.strip_suffix(" *").unwrap_or(&rule).split_whitespace().count() <= 1;
    parts.into_iter().any(fits) || (!is_name_alone && line.contains(['$', '`']))
}

/// A command without the variables that are set before it.
fn without_assignments(command: &str) -> &str {
    let mut rest = command;
    while let Some((word, behind)) = rest.split_once(char::is_whitespace) {
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        if !is_assignment {
            break;
        }
        rest = behind.trim_start();
    }
    rest
}

/// Returns whether a text is what a pattern says, in which `*` stands for anything. In linear time and memory.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    true
}

/// Returns whether a path may be one that a rule means: as in a `.gitignore` of one of these directories. A rule of several
/// names may mean any path outside of them.
fn path_fits(path: &Path, rule: &str, roots: &[&Path]) -> bool {
    let (rule, paths) = match rule.strip_prefix("//") {
        Some(absolute) => (absolute, vec![path.strip_prefix("/").unwrap_or(path)]),
        None if rule.starts_with('~') => return true,
        None => {
            let below = roots.iter().filter_map(|root| path.strip_prefix(root).ok()).collect();
            (rule.trim_start_matches("./").trim_start_matches('/'), below)
        }
    };
    let is_name = !rule.contains('/');
    let paths = match paths.is_empty() {
        true if is_name => vec![path],
        true => return true,
        false => paths,
    };
    let anywhere = if is_name { format!("**/{rule}") } else { rule.to_owned() };
    match GlobBuilder::new(&anywhere).literal_separator(true).build() {
        Ok(glob) => {
            let glob = glob.compile_matcher();
            paths.iter().any(|path| glob.is_match(path))
        }
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns whether a call fits in a work tree of a project.
    fn fits(rule: &str, names: &[&str], input: &Value) -> bool {
        Condition::parse(rule).fits(names, input, &["/w-branches/b-1", "/w"].map(Path::new))
    }

    fn bash(rule: &str, command: &str) -> bool {
        fits(rule, &["Bash", "execute_command"], &json!({ "command": command }))
    }

    fn edit(rule: &str, path: &str) -> bool {
        fits(rule, &["Write", "write_to_file"], &json!({ "file_path": path }))
    }

    #[test]
    fn every_command_of_a_line_is_looked_at() {
        assert!(bash("Bash(git *)", "FOO=bar git push") && bash("Bash(git *)", "npm test && git push"));
        assert!(bash("Bash(rm *)", "echo $(rm -rf /)") && bash("Bash(rm *)", "echo `rm x`"));
        assert!(!bash("Bash(rm *)", "echo $(date)") && !bash("Bash(git *)", "gitk"));
        assert!(bash("Bash(git push *)", "echo $(date)"));
        assert!(bash("Bash(git:*)", "git status") && bash("Bash(git *)", "git"));
        assert!(bash("Bash(npm run build)", "npm run build") && !bash("Bash(npm run build)", "npm run"));
        assert!(bash("Bash", "x") && bash("Bash(*)", "x") && bash("execute_command(x *)", "x y"));
        assert!(!bash("Edit(*.rs)", "x"));
    }

    #[test]
    fn a_server_stands_for_its_tools() {
        let names = |rule: &str| {
            let tools = ["mcp__github__create", "mcp__github__get_issue", "mcp__github_two__get", "Bash"];
            tools.into_iter().filter(|tool| fits(rule, &[*tool], &json!({}))).collect::<Vec<_>>()
        };
        let both = ["mcp__github__create", "mcp__github__get_issue"];
        assert_eq!(names("mcp__github"), both);
        assert_eq!(names("mcp__github__*"), both);
        assert_eq!(names("mcp__github(*)"), both);
        assert_eq!(names("mcp__github__get_*"), both[1..]);
        assert_eq!(names("mcp__github__create"), both[..1]);
        assert_eq!(names("mcp__git"), [""; 0]);
        assert_eq!(names("Ba*"), [""; 0]);
    }

    #[test]
    fn paths_are_compared_from_the_project() {
        assert!(edit("Edit(*.ts)", "/w/a/b.ts") && !edit("Edit(*.ts)", "/w/a/b.rs"));
        assert!(edit("Edit(src/**)", "/w/src/a/b.ts") && !edit("Edit(src/**)", "/w/x/src/b.ts"));
        assert!(edit("Edit(**/src/**)", "/w/x/src/b.ts") && edit("Write(/src/*)", "/w/src/b"));
        assert!(edit("Edit(//etc/**)", "/etc/hosts"));
        assert!(edit("Edit(*.ts)", "/elsewhere/b.ts") && !edit("Edit(*.ts)", "/elsewhere/b.rs"));
        // The rule may be meant for another project.
        assert!(edit("Edit(src/**)", "/w-2/src/b.ts") && edit("Edit(src/**)", "/w-2/x/b.ts"));
    }

    #[test]
    fn paths_of_a_work_tree_are_compared_from_there() {
        assert!(edit("Edit(src/**)", "/w-branches/b-1/src/b.ts"));
        assert!(!edit("Edit(src/**)", "/w-branches/b-1/docs/b.ts"));
        assert!(!edit("Edit(*.ts)", "/w-branches/b-1/src/b.rs"));
    }

    #[test]
    fn in_doubt_the_hook_runs() {
        assert!(bash("Bash(git *", "ls") && edit("Edit([)", "/w/a"));
        assert!(Condition::parse("Agent(x)").fits(&["Agent"], &json!({}), &[]));
        assert!(!Condition::parse("Agent(x)").fits(&["Agent"], &json!({ "subagent_type": "y" }), &[]));
    }

    proptest::proptest! {
        #[test]
        fn a_pattern_of_a_text_fits_it(text in "[a-c ]{0,12}", cut in 0usize..12) {
            let cut = cut.min(text.len());
            let pattern = format!("{}*{}", &text[..cut], &text[cut..]);
            proptest::prop_assert!(glob(&pattern, &text));
            proptest::prop_assert_eq!(glob(&text, &text), true);
        }

        #[test]
        fn no_condition_is_too_strange(rule in r"[A-Z()a-c*/\[\]{}: $]{0,30}", line in r"[a-c*/ $()`;|&=]{0,30}") {
            let _ = bash(&rule, &line);
            let _ = edit(&rule, &line);
        }
    }
}
