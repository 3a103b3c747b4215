//! The judge of commands: what it allows without asking holds nothing that a shell would make something else
//! of, and a denied program is found in it.

use roo_lsp::config::Execute;
use roo_lsp::hooks::command::{CommandVerdict, Entry, Place, Program, Repository, judge, summarize};
use roo_lsp::shell;

use crate::Input;

const PIECES: [&str; 40] = [
    "git", "status", " ", " ", "'", "\"", "\\", "$(", ")", "`", "$", "{", "}", "a", "*", "?", "[", "]", "~", "#", "!",
    ";", "|", "&", "<", ">", "\n", "\r", "=", "$'", "\u{a0}", "é", " && ", " | ", "2>&1", "/dev/null", "<<E\n", "\nE\n",
    "cd ", "-",
];

/// Somewhere where everything is installed and may be written.
struct Anywhere;

impl Place for Anywhere {
    fn directory(&self) -> &str {
        "/w"
    }

    fn inside(&self, path: &str) -> Result<(), String> {
        Err(path.to_owned())
    }

    fn enterable(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn is_same(&self, _: &str, _: &str) -> bool {
        false
    }

    fn unreadable_below(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(vec![])
    }

    fn below(&self, _: &str) -> Result<Vec<Entry>, String> {
        Ok(vec![])
    }

    fn repository(&self, _: &str) -> Repository {
        Repository::default()
    }

    fn ignored(&self, _: &str) -> Option<String> {
        None
    }

    fn writable(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn readable(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn within(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn reachable(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn recorded(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn is_there(&self, _: &str) -> bool {
        true
    }

    fn is_directory(&self, _: &str) -> bool {
        false
    }

    fn matching(&self, pattern: &str, _: usize) -> Result<Vec<String>, String> {
        Ok(vec![pattern.to_owned()])
    }

    fn program(&self, name: &str) -> Program {
        Program::Installed(format!("/bin/{name}").into())
    }

    fn script(&self, _: &str) -> Option<String> {
        None
    }
}

/// The property.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut line = String::from(if input.byte() % 4 == 0 { "" } else { "git " });
    while !input.is_empty() {
        match usize::from(input.byte()) {
            choice if choice < 224 => line.push_str(PIECES[choice % PIECES.len()]),
            choice => line.push_str(&String::from_utf8_lossy(input.bytes(choice - 223))),
        }
    }
    let script = shell::read(&line);
    for word in script.commands.iter().flat_map(|command| &command.words) {
        assert!(line.get(word.range.clone()).is_some(), "{line:?}: a word lies outside of the line");
    }
    let _ = summarize(&line, &Anywhere).lines();
    let rule = |word: &str| vec![word.to_owned()];
    let rules = Execute { allow: vec![rule("git"), rule("a"), rule("cd")], ..Execute::default() };
    if let CommandVerdict::Allow { .. } = judge(&rules, &line, &Anywhere) {
        assert!(!line.chars().any(|c| c != '\n' && shell::is_deceptive(c)), "{line:?} deceives");
        assert!(script.commands.len() <= shell::PLAIN_COMMANDS, "{line:?} holds too many commands");
        for command in &script.commands {
            let Some(program) = command.words.first().and_then(|word| word.literal()) else {
                panic!("{line:?} runs a program that isn't known");
            };
            let denying = Execute { deny: vec![rule(program)], ..rules.clone() };
            let verdict = judge(&denying, &line, &Anywhere);
            assert!(matches!(verdict, CommandVerdict::Deny { .. }), "{line:?}: {program} is not found");
        }
    }
}
