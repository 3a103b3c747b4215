//! The judge of commands: what it allows without asking holds nothing that a shell would make something else
//! of, and a denied program is found in it.

use roo_formats::config::Execute;
use roo_engine::policy::command::{CommandVerdict, NoDisk, judge, summarize};

use crate::Input;

const PIECES: [&str; 40] = [
    "git", "status", " ", " ", "'", "\"", "\\", "$(", ")", "`", "$", "{", "}", "a", "*", "?", "[", "]", "~", "#", "!",
    ";", "|", "&", "<", ">", "\n", "\r", "=", "$'", "\u{a0}", "é", " && ", " | ", "2>&1", "/dev/null", "<<E\n", "\nE\n",
    "cd ", "-",
];

/// Everything is installed and may be written.
const ANYWHERE: NoDisk = NoDisk { is_writable: true };

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
    let script = roo_shell::read(&line);
    for word in script.commands.iter().flat_map(|command| &command.words) {
        assert!(line.get(word.range.clone()).is_some(), "{line:?}: a word lies outside of the line");
    }
    let _ = summarize(&line, &ANYWHERE).lines();
    let rule = |word: &str| vec![word.to_owned()];
    let rules = Execute { allow: vec![rule("git"), rule("a"), rule("cd")], ..Execute::default() };
    if let CommandVerdict::Allow { .. } = judge(&rules, &line, &ANYWHERE) {
        assert_eq!(roo_shell::deceptive_characters(&line).next(), None, "{line:?} deceives");
        assert!(script.commands.len() <= roo_shell::PLAIN_COMMANDS, "{line:?} holds too many commands");
        for command in &script.commands {
            // Only assigns variables: no program runs.
            let Some(word) = command.words.first() else { continue };
            let Some(program) = word.literal() else { panic!("{line:?} runs a program that isn't known") };
            let denying = Execute { deny: vec![rule(program)], ..rules.clone() };
            let verdict = judge(&denying, &line, &ANYWHERE);
            assert!(matches!(verdict, CommandVerdict::Deny { .. }), "{line:?}: {program} is not found");
        }
    }
}
