//! What is known of programs: which run other programs, and which options turn a harmless one into a
//! writer or a launcher.
//!
//! The rules are the user's, so an unknown program is taken at the rule's word. Options count in any
//! position, also after `--`.

use super::git::git;
use super::knowledge::{Names, Options, knowledge, options};
use crate::workspace::{Protection, protection};

/// The most letters of options in one word behind which a path is looked for.
const LETTERS: usize = 32;

/// The name of a program: without its directory, its version and its case.
pub(super) fn name(program: &str) -> String {
    let file = program.rsplit('/').next().unwrap_or(program).to_ascii_lowercase();
    let stem = file.strip_suffix(".exe").unwrap_or(&file);
    let bare = stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if bare.is_empty() { stem.to_owned() } else { bare.to_owned() }
}

/// Whether a program runs what its arguments say.
pub(super) fn is_launcher(name: &str) -> bool {
    knowledge().launchers.has(name)
}

/// Whether a program takes a command line as an argument.
pub(super) fn evaluates(name: &str) -> bool {
    knowledge().evaluating.has(name)
}

/// Whether a launcher's command comes behind an operand of its own.
pub(super) fn has_operand(name: &str) -> bool {
    knowledge().with_operand.has(name)
}

/// Whether a program writes its arguments out.
pub(super) fn prints(name: &str) -> bool {
    knowledge().printers.has(name)
}

/// Whether a program is a part of the shell, by its exact name.
pub(super) fn is_builtin(program: &str) -> bool {
    knowledge().builtins.has(program)
}

/// Whether a program does no more with files than to read them.
pub(super) fn only_reads(name: &str) -> bool {
    knowledge().readers.has(name)
}

/// Whether a program runs a file that an argument names.
pub(super) fn runs_files(name: &str) -> bool {
    knowledge().file_runners.has(name)
}

/// The files that a build tool reads without being told.
pub(super) fn build_files(name: &str) -> impl Iterator<Item = &'static str> {
    options(name).into_iter().flat_map(|known| known.build_files.iter().map(String::as_str))
}

/// Whether a program shows the text of the files that its arguments name.
pub(super) fn shows(name: &str) -> bool {
    knowledge().showing.has(name)
}

/// Which words of a command are no files though they stand where files do: a script, or what is looked for.
pub(super) fn unread(name: &str, words: &[String]) -> Option<usize> {
    let first = |from: usize| (from..words.len()).find(|index| !words[*index].starts_with('-'));
    let (from, scripts) = match name {
        "git" => {
            let command = first(1).filter(|index| words[*index] == "grep")?;
            (command + 1, &knowledge().git.sought)
        }
        _ => (1, options(name)?.script_options.as_ref()?),
    };
    // Where an option brings it, the first operand is a file. A value of its own is judged like one.
    let is_given = words[from..].iter().any(|word| is_one_of(word, scripts.iter()));
    first(from).filter(|_| !is_given)
}

/// Whether a word may be the value of an option that brings a script.
pub(super) fn may_be_script(name: &str, words: &[String], index: usize) -> bool {
    options(name).is_some_and(|known| known.script_options.is_some()) && words[index - 1].starts_with('-')
}

/// Whether a program tells no more of files than whether they are there.
pub(super) fn only_names(name: &str) -> bool {
    knowledge().naming.has(name)
}

/// Whether a program tells no more of files than their names and sizes.
pub(super) fn only_lists(name: &str) -> bool {
    knowledge().listing.has(name)
}

/// What of a word may be a path by itself: the value behind an option's letters, in an assignment, or behind a
/// revision.
pub(super) fn parts(word: &str) -> impl Iterator<Item = &str> {
    let letters = if word.starts_with('-') && !word.starts_with("--") { word } else { "" };
    let attached = letters.char_indices().skip(2).take(LETTERS).map(|(at, _)| &letters[at..]);
    let marked = word.match_indices(['=', ':', ',', '@', ')']).map(|(at, _)| &word[at + 1..]);
    attached.chain(marked).filter(|part| !part.is_empty())
}

/// What may be the command line that is written together with its option, as in `-S'ls a'`.
pub(super) fn attached(word: &str) -> impl Iterator<Item = &str> {
    let long = word.strip_prefix("--");
    let value = long.and_then(|word| word.split_once('=')).map(|(_, value)| value);
    let letters = word.strip_prefix('-').filter(|_| long.is_none());
    let cluster = letters.and_then(|letters| letters.split_once(['S', 'c'])).map(|(_, value)| value);
    value.into_iter().chain(cluster)
}

/// Whether a word may stand before a command.
pub(super) fn is_keyword(word: &str) -> bool {
    knowledge().keywords.has(word)
}

/// Whether a program takes commands behind options.
pub(super) fn is_finder(name: &str) -> bool {
    knowledge().finders.has(name)
}

/// Whether the word after this option of `find` or `fd` begins a command.
pub(super) fn begins_command(name: &str, option: &str) -> bool {
    match name {
        "find" | "gfind" => matches!(option, "-exec" | "-execdir" | "-ok" | "-okdir"),
        "fd" | "fdfind" => matches!(option, "-x" | "-X" | "--exec" | "--exec-batch"),
        _ => false,
    }
}

/// Why a command that a rule matches is still not allowed by it. `fed` says that its input comes from the
/// line itself, and `directory` where it runs, when elsewhere.
pub(super) fn objection(
    rule: &[String],
    words: &[String],
    fed: bool,
    directory: Option<&str>,
) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    let further = words.get(rule.len()..)?;
    let name = name(program);
    if is_launcher(&name) || knowledge().escaping.has(&name) {
        return Some(format!("`{name}` can run any program, so no rule allows it"));
    }
    let asks_about_itself = matches!(arguments, [only] if matches!(only.as_str(), "--version" | "--help"));
    if knowledge().runners.has(&name)
        && !asks_about_itself
        && rule.iter().skip(1).all(|word| word.starts_with('-'))
    {
        return Some(format!("`{name}` runs what it is given, so a rule must also name that"));
    }
    if fed && (knowledge().runners.has(&name) || evaluates(&name)) {
        return Some(format!("`{name}` may run what it is given as input"));
    }
    let steers = |word: &str| {
        names_protected(word)
            || directory.is_some_and(|directory| names_protected(&format!("{directory}/{word}")))
    };
    // A script of `sed` is judged by itself.
    let script = match name.as_str() {
        "sed" | "gsed" if rule.iter().skip(1).all(|word| word.starts_with('-')) => {
            further.iter().find(|word| !word.starts_with('-'))
        }
        _ => None,
    };
    let known = options(&name);
    let has = |options: fn(&Options) -> &Names, word: &str| {
        known.is_some_and(|known| is_one_of(word, options(known).iter()))
    };
    for word in further {
        if has(|known| &known.risky, word) {
            return Some(format!("`{word}` can make `{name}` run a program or write a file"));
        }
        if has(|known| &known.following, word) {
            return Some(format!(
                "`{word}` makes `{name}` follow links, which may lead out of the workspace"
            ));
        }
        if word.contains('`') || word.contains("$(") {
            return Some(format!("`{word}` holds a command that `{name}` could run"));
        }
        if !only_reads(&name) && steers(word) {
            return Some(format!("`{word}` steers agents or tools"));
        }
        if leads_outside(word) && !script.is_some_and(|script| std::ptr::eq(script, word)) {
            return Some(format!("`{word}` may lead out of the workspace"));
        }
    }
    match name.as_str() {
        "git" => git(rule.len() == 1, arguments, further),
        "go" => further
            .iter()
            .find(|word| matches!(word.split('=').next(), Some("-o" | "--o")))
            .map(|word| format!("`{word}` makes `go` write a file")),
        "sed" | "gsed" => sed(rule, further),
        "tee" => {
            further.iter().find(|word| !word.starts_with('-')).map(|word| format!("`tee` writes to `{word}`"))
        }
        "uniq" | "guniq" | "xxd" => further
            .iter()
            .rfind(|word| !word.starts_with('-'))
            .filter(|_| arguments.iter().filter(|word| !word.starts_with('-')).count() > 1)
            .map(|word| format!("`{name}` may write to `{word}`")),
        "make" | "gmake" => further
            .iter()
            .find(|word| word.contains('='))
            .map(|word| format!("`{word}` sets a variable, which can hold a command")),
        _ => None,
    }
}

/// Whether a word is one of the options, with a value, in a cluster of letters or abbreviated.
pub(super) fn is_one_of<'a>(word: &str, mut options: impl Iterator<Item = &'a str>) -> bool {
    options.any(|option| {
        if let Some(long) = option.strip_prefix("--") {
            // GNU programs take any beginning of a long option for the option.
            word.strip_prefix("--")
                .and_then(|word| word.split('=').next())
                .is_some_and(|given| !given.is_empty() && long.starts_with(given))
        } else if option.len() == 2 {
            word.strip_prefix('-')
                .is_some_and(|letters| !letters.starts_with('-') && letters.contains(&option[1..]))
        } else {
            word.split('=').next() == Some(option)
        }
    })
}

/// Whether a word names what is protected, also as the value of an option.
pub(super) fn names_protected(word: &str) -> bool {
    word.split(['=', ':', ',', '@'])
        .any(|value| matches!(protection(value, None), Protection::Tier1 { .. } | Protection::Denied))
}

/// Whether a word names an absolute path or goes up, also as the value of an option.
pub(super) fn leads_outside(word: &str) -> bool {
    // Which letters of a cluster are options, and where a value begins, isn't known.
    let cluster = word.strip_prefix('-').unwrap_or("");
    cluster
        .split_once('/')
        .is_some_and(|(letters, _)| letters.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        || cluster.split('/').any(|component| component.ends_with(".."))
        || word
            .split(['=', ':', ',', '@'])
            .any(|value| value.starts_with('/') || value.split('/').any(|component| component == ".."))
}

/// Its scripts can run programs and write files; only the simplest commands are known not to. A script
/// that the rule itself names is the user's.
fn sed(rule: &[String], further: &[String]) -> Option<String> {
    let harmless = ["-n", "-E", "-r", "--quiet", "--silent", "--regexp-extended"];
    if let Some(option) =
        further.iter().find(|word| word.starts_with('-') && !harmless.contains(&word.as_str()))
    {
        return Some(format!("`{option}` can make `sed` run a program or write a file"));
    }
    if rule.iter().skip(1).any(|word| !word.starts_with('-')) {
        return None;
    }
    let script = further.iter().find(|word| !word.starts_with('-'))?;
    // A `;` within an expression is not looked for: then no piece is a command.
    let harmless = script.split(';').all(|piece| is_harmless_in_sed(piece.trim_matches(' ')));
    (!harmless).then(|| format!("`{script}` is a script that can make `sed` run a program or write a file"))
}

/// Whether a command of `sed` only prints, deletes, ends, or replaces plain text in what is printed.
fn is_harmless_in_sed(command: &str) -> bool {
    if command.contains(['\n', '[']) {
        return false;
    }
    let mut rest = command;
    for _ in 0..2 {
        let Some(behind) = behind_address(rest) else { return false };
        rest = behind;
        match rest.strip_prefix(',') {
            Some(second) if rest.len() < command.len() => rest = second,
            _ => break,
        }
    }
    match rest.strip_prefix("s/") {
        None => matches!(rest, "p" | "d" | "q" | "="),
        Some(parts) => {
            let mut parts = parts.split('/');
            let plain = |part: Option<&str>| part.is_some_and(|part| !part.ends_with('\\'));
            plain(parts.next())
                && plain(parts.next())
                && parts.next().is_some_and(|flags| {
                    flags.bytes().all(|flag| matches!(flag, b'g' | b'i' | b'I' | b'p' | b'0'..=b'9'))
                })
                && parts.next().is_none()
        }
    }
}

/// What follows an address of a line, if there is one: a number, `$`, or an expression.
fn behind_address(text: &str) -> Option<&str> {
    if let Some(expression) = text.strip_prefix('/') {
        let (inside, behind) = expression.split_once('/')?;
        return Some(behind).filter(|_| !inside.ends_with('\\'));
    }
    Some(text.strip_prefix('$').unwrap_or_else(|| text.trim_start_matches(|c: char| c.is_ascii_digit())))
}
