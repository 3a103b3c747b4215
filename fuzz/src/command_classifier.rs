//! The judge of commands: what it allows without asking is nothing but literal words, so that no shell makes
//! anything else of it.

use roo_lsp::config::Execute;
use roo_lsp::fuzzing::{CommandVerdict, judge};

use crate::Input;

const PIECES: [&str; 32] = [
    "git", "status", " ", " ", "'", "\"", "\\", "$(", ")", "`", "$", "{", "}", "a", "*", "?", "[", "]", "~",
    "#", "!", ";", "|", "&", "<", ">", "\n", "\r", "=", "$'", "\u{a0}", "é",
];

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
    let rules = Execute { allow: vec![vec!["git".into()], vec!["a".into()]], deny: vec![] };
    if let CommandVerdict::Allow { rule } = judge(&rules, &line) {
        assert!(!expands(&line), "{line:?} is not literal");
        let words = shlex(&line);
        assert!(words.starts_with(&rule), "{line:?} is {words:?}");
    }
}

/// Whether a POSIX shell would do more with a line than split it into words.
fn expands(line: &str) -> bool {
    let mut characters = line.chars();
    let mut quote = None;
    let mut begins_word = true;
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('"'), '$' | '`') => return true,
            (Some('"') | None, '\\') => {
                // Before the end of a line it joins two.
                if matches!(characters.next(), None | Some('\n')) {
                    return true;
                }
            }
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '$' | '`' | ';' | '|' | '&' | '<' | '>' | '(' | ')' | '*' | '?' | '[' | '\n') => {
                return true;
            }
            (None, '#' | '~') if begins_word => return true,
            (None, _) => {}
        }
        begins_word = quote.is_none() && matches!(character, ' ' | '\t');
    }
    quote.is_some()
}

/// The words of a literal line.
fn shlex(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (vec![], None::<String>, None);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), character) if open == character => quote = None,
            (Some('"'), '\\') => match characters.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => word.get_or_insert_default().push(next),
                next => word.get_or_insert_default().extend(std::iter::once('\\').chain(next)),
            },
            (None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}
