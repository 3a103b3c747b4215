//! Commands that would show what `.rooignore` hides: to ask about them would be to ask for nothing, for the file stays
//! hidden whatever the answer.
//!
//! Only programs count that are known to read what they are given. What others do with a name isn't known.

use super::allow::text_of;
use super::knowledge::knowledge;
use super::place::Place;
use super::programs;
use super::value::join;
use roo_shell::Script;

/// Programs that show files to people.
const PAGERS: &[&str] = &["less", "more", "most"];

/// Returns the reason why a line can't show what it is meant to show, worded for the model.
pub(super) fn reads(script: &Script, place: &dyn Place) -> Option<String> {
    // Where a line leads is followed as far as it says so in plain words.
    let mut directory = String::new();
    let ignored = |directory: &str, path: &str| {
        let path = text_of(directory, path);
        place.is_there(&path).then(|| place.ignored(&path)).flatten()
    };
    for command in &script.commands {
        for redirect in command.redirects.iter().filter(|redirect| redirect.operator == "<") {
            let target = redirect.target.as_ref().and_then(|word| word.literal());
            if let Some(reason) = target.and_then(|path| ignored(&directory, path)) {
                return Some(reason);
            }
        }
        let mut words: Vec<&str> = command.words.iter().map_while(|word| word.literal()).collect();
        if words.first().is_some_and(|first| knowledge().wrappers.has(&programs::name(first))) {
            let program = words.iter().position(|word| shows(&programs::name(word)));
            words.drain(..program.unwrap_or(0));
        }
        let Some((program, rest)) = words.split_first() else { continue };
        let name = programs::name(program);
        if name == "cd" {
            let [to] = rest else { continue };
            if let Some(reason) = ignored(&directory, to) {
                return Some(reason);
            }
            directory = join(&directory, to, place.directory())?;
            continue;
        }
        if !shows(&name) {
            continue;
        }
        let texts: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let unread = programs::unread(&name, &texts);
        let operands = words.iter().enumerate().skip(1);
        let operands = operands.filter(|(index, word)| !word.starts_with('-') && Some(*index) != unread);
        if let Some(reason) = operands.filter_map(|(_, path)| ignored(&directory, path)).next() {
            return Some(reason);
        }
    }
    None
}

fn shows(name: &str) -> bool {
    programs::shows(name) || PAGERS.contains(&name)
}
