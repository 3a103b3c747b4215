//! Summary of a command line for whoever is asked about it: nothing left out, nothing that hides.

use super::place::{Place, Program};
use super::programs;
use roo_shell::{Command, Script};
use roo_text::render;

/// Number of changes of directory that are followed.
const DIRECTORIES: usize = 8;

/// A command line taken apart, in its order and in full. All texts are safe to show on one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Its simple commands.
    pub steps: Vec<Step>,
    /// Notes on the line as a whole.
    pub notes: Vec<String>,
    /// The characters in it that hide or reorder text, each once. A line with any is never approved unasked.
    pub needs_attention: Vec<char>,
    /// The files of the workspace that it runs, relative to their root, as far as that can be seen.
    pub paths: Vec<String>,
}

/// A simple command of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Its words as they are written, one blank between them.
    pub text: String,
    /// The file that its program is, where that is known.
    pub program: Option<String>,
    /// Its redirections, each with operator and target.
    pub redirects: Vec<String>,
    /// Notes on how it is reached, and what can't be known of it.
    pub notes: Vec<String>,
}

impl Summary {
    /// The summary as lines: one a command, one a redirection, one a note.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            let mut line = format!("{}. {}", index + 1, step.text);
            if let Some(program) = &step.program {
                line.push_str(&format!("  [{program}]"));
            }
            if !step.notes.is_empty() {
                line.push_str(&format!("  ({})", step.notes.join(", ")));
            }
            lines.push(line);
            lines.extend(step.redirects.iter().map(|redirect| format!("   {redirect}")));
        }
        lines.extend(self.notes.iter().map(|note| format!("Note: {note}")));
        lines
    }
}

/// Takes a command line apart for an approval.
pub fn summarize(line: &str, place: &dyn Place) -> Summary {
    let script = roo_shell::read(line);
    let mut summary = Summary::default();
    // Names behind a `cd` are meant from there, as far as it is known.
    let mut directories = vec![String::new()];
    for command in &script.commands {
        summary.steps.push(step(line, command, place));
        for path in directories.iter().flat_map(|directory| scripts(command, directory, place)) {
            if !summary.paths.contains(&path) {
                summary.paths.push(path);
            }
        }
        if let [cd, .., to] = command.words.as_slice()
            && cd.literal() == Some("cd")
            && directories.len() < DIRECTORIES
        {
            let from = directories.last().map_or("", String::as_str);
            directories.push(format!("{from}{}/", to.visible));
        }
    }
    if script.is_incomplete() {
        // Better seen twice than not at all.
        let rough = roo_shell::scan(line).commands.into_iter().map(|words| Step {
            text: render::exact_line(&words.join(" ")),
            notes: vec!["as far as it can be seen".to_owned()],
            ..Step::default()
        });
        summary.steps.extend(rough);
    }
    let hidden = roo_shell::deceptive_characters(line).filter(|c| *c != '\t');
    for c in hidden {
        if !summary.needs_attention.contains(&c) {
            summary.needs_attention.push(c);
        }
    }
    summary.notes = notes(&script);
    summary
}

fn notes(script: &Script) -> Vec<String> {
    let mut notes: Vec<String> = script.problems.iter().map(ToString::to_string).collect();
    if script.is_incomplete() {
        notes.push(
            "not all of it can be taken apart, so there may be more commands; read the full text".to_owned(),
        );
    }
    notes
}

fn step(line: &str, command: &Command, place: &dyn Place) -> Step {
    let raw = |range: &std::ops::Range<usize>| line.get(range.clone()).unwrap_or_default();
    let words = command
        .assignments
        .iter()
        .map(String::as_str)
        .chain(command.words.iter().map(|word| raw(&word.range)));
    let text = render::exact_line(&words.collect::<Vec<_>>().join(" "));
    let mut notes: Vec<String> = command.ways.iter().map(|way| way.note().to_owned()).collect();
    notes.dedup();
    let mut program = None;
    match command.words.first() {
        None => {}
        Some(word) => match word.literal() {
            None => notes.push("its program isn't known".to_owned()),
            Some(name) if programs::is_builtin(name) => program = Some("the shell's own".to_owned()),
            Some(name) => match place.program(name) {
                Program::Installed(file) => program = Some(render::exact_line(&file.to_string_lossy())),
                Program::Workspace(file) => {
                    program = Some(render::exact_line(&format!("{file}, of the workspace")));
                }
                Program::Missing => notes.push("no such program is installed".to_owned()),
            },
        },
    }
    let redirects = command
        .redirects
        .iter()
        .map(|redirect| {
            let target = redirect.target.as_ref().map_or("", |word| raw(&word.range));
            let lines = redirect.document.as_ref().map_or(String::new(), |document| {
                format!(" ({} lines of text)", document.text.lines().count())
            });
            render::exact_line(&format!("{}{} {target}{lines}", redirect.descriptor, redirect.operator))
        })
        .collect();
    Step { text, program, redirects, notes }
}

/// The files of the workspace that a command runs: its program, what an interpreter is given, and what a
/// build tool reads by itself.
fn scripts(command: &Command, directory: &str, place: &dyn Place) -> Vec<String> {
    let mut found = Vec::new();
    let from = |path: &str| match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{directory}{path}"),
    };
    let mut words = command.words.iter().filter_map(|word| word.literal()).peekable();
    let Some(program) = words.peek() else { return found };
    let program = if program.contains('/') { from(program) } else { (*program).to_owned() };
    if let Program::Workspace(file) = place.program(&program) {
        found.push(file);
    }
    // Behind a launcher the program may be any of the words.
    let names: Vec<String> =
        command.words.iter().filter_map(|word| word.literal()).map(programs::name).collect();
    let build_files = names.iter().flat_map(|name| programs::build_files(name));
    found.extend(build_files.filter_map(|file| place.script(&from(file))));
    if names.iter().any(|name| programs::runs_files(name)) {
        found.extend(
            words.skip(1).filter(|word| !word.starts_with('-')).filter_map(|word| place.script(&from(word))),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::Somewhere;
    use super::*;

    fn lines(line: &str) -> Vec<String> {
        summarize(line, &Somewhere).lines()
    }

    #[test]
    fn every_command_and_target_is_told_in_full_and_in_order() {
        assert_eq!(
            lines("cat <<'E' | tee a.txt 2>&1 && (./run.sh \"$x\" &)\n1\n2\nE\nA=1 make  -s > 'o ut' "),
            [
                "1. cat  [/bin/cat]",
                "   << 'E' (2 lines of text)",
                "2. tee a.txt  [/bin/tee]",
                "   2>& 1",
                "3. ./run.sh \"$x\"  [run.sh, of the workspace]  (in a subshell, in the background)",
                "4. A=1 make -s  [/bin/make]",
                "   > 'o ut'",
                "Note: it holds a subshell",
                "Note: it holds an expansion: `\"$x\"`",
                "Note: it holds `&`, which starts a command in the background",
                "Note: it sets a variable",
            ]
        );
    }

    #[test]
    fn what_padding_and_hidden_characters_hide_is_told() {
        let padded = format!("grep a b;{}touch c", " ".repeat(10_000));
        assert_eq!(lines(&padded), ["1. grep a b  [/bin/grep]", "2. touch c  [/bin/touch]"]);
        let padded = format!("ls{}rm -r x", "\n".repeat(200));
        assert_eq!(lines(&padded)[1], "2. rm -r x  [/bin/rm]");
        let hidden = summarize("ls 'a\u{202e}b' # \u{e0041}\u{200b}", &Somewhere);
        assert_eq!(hidden.needs_attention, ['\u{202e}', '\u{e0041}', '\u{200b}']);
        assert_eq!(hidden.steps[0].text, "ls 'a<U+202E>b'");
        assert!(summarize("ls\n'é'", &Somewhere).needs_attention.is_empty());
    }

    #[test]
    fn what_cannot_be_taken_apart_is_said() {
        let more =
            "Note: not all of it can be taken apart, so there may be more commands; read the full text";
        for line in ["ls )(", &"x; ".repeat(10_000), "a\0b", &format!("{}x", "$(".repeat(100))] {
            assert_eq!(lines(line).last().map(String::as_str), Some(more), "{line}");
        }
    }

    #[test]
    fn scripts_of_the_workspace_are_named_for_the_digest() {
        for (line, paths) in [
            ("./run.sh a && ./run.sh", &["run.sh"][..]),
            ("bash -e run.sh x", &["run.sh"]),
            ("sudo sh ./run.sh", &["run.sh"]),
            (". ./run.sh", &["run.sh"]),
            ("make check", &["Makefile"]),
            ("cat run.sh", &[]),
            ("cd scripts && sh ci.sh", &["scripts/ci.sh"]),
            ("cd scripts; ./ci.sh", &["scripts/ci.sh"]),
            ("echo $(python run.sh)", &["run.sh"]),
        ] {
            assert_eq!(summarize(line, &Somewhere).paths, paths, "{line}");
        }
    }
}
