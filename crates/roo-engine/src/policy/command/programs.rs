//! Knowledge of programs: which run other programs, and which options turn a harmless one into a writer or a launcher.
//!
//! The rules are the user's, so an unknown program is taken at the rule's word. Options count in any
//! position, also after `--`.

use super::knowledge::{knowledge, options};
use roo_workspace::{Protection, protection};

/// The most letters of options in one word behind which a path is looked for.
const LETTERS: usize = 32;

/// The name of a program: without its directory, its version and its case.
pub(super) fn name(program: &str) -> String {
    let file = program.rsplit('/').next().unwrap_or(program).to_ascii_lowercase();
    let stem = file.strip_suffix(".exe").unwrap_or(&file);
    let bare = stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    // Only what is installed by version: `command500` is a program of its own.
    if comes_by_version(bare) { bare.to_owned() } else { stem.to_owned() }
}

fn comes_by_version(name: &str) -> bool {
    let known = knowledge();
    let is_risky = || options(name).is_some_and(|options| options.risky.iter().next().is_some());
    known.runners.has(name) || known.escaping.has(name) || is_risky()
}

/// Returns whether a program runs what its arguments say, by the name that it really has: none of them comes in
/// versions.
pub(super) fn launches(program: &str) -> bool {
    let file = program.rsplit('/').next().unwrap_or(program).to_ascii_lowercase();
    is_launcher(file.strip_suffix(".exe").unwrap_or(&file))
}

/// Returns whether a program runs what its arguments say.
pub(super) fn is_launcher(name: &str) -> bool {
    knowledge().launchers.has(name)
}

/// Returns whether a program takes a command line as an argument.
pub(super) fn evaluates(name: &str) -> bool {
    knowledge().evaluating.has(name)
}

/// Returns whether a launcher's command comes behind an operand of its own.
pub(super) fn has_operand(name: &str) -> bool {
    knowledge().with_operand.has(name)
}

/// Returns whether a program writes its arguments out.
pub(super) fn prints(name: &str) -> bool {
    knowledge().printers.has(name)
}

/// Returns whether a program is a part of the shell, by its exact name.
pub(super) fn is_builtin(program: &str) -> bool {
    knowledge().builtins.has(program)
}

/// Returns whether a program does no more with files than to read them.
pub(super) fn only_reads(name: &str) -> bool {
    knowledge().readers.has(name)
}

/// Returns whether a program runs a file that an argument names.
pub(super) fn runs_files(name: &str) -> bool {
    knowledge().file_runners.has(name)
}

/// The files that a build tool reads without being told.
pub(super) fn build_files(name: &str) -> impl Iterator<Item = &'static str> {
    options(name).into_iter().flat_map(|known| known.build_files.iter().map(String::as_str))
}

/// Returns whether a program shows the text of the files that its arguments name.
pub(super) fn shows(name: &str) -> bool {
    knowledge().showing.has(name)
}

/// Returns the index of a word of a command that is no file though it stands where files do: a script, or what is looked for.
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

/// Returns whether a word may be the value of an option that brings a script.
pub(super) fn may_be_script(name: &str, words: &[String], index: usize) -> bool {
    options(name).is_some_and(|known| known.script_options.is_some()) && words[index - 1].starts_with('-')
}

/// Returns whether a program tells no more of files than whether they are there.
pub(super) fn only_names(name: &str) -> bool {
    knowledge().naming.has(name)
}

/// Returns whether a program tells no more of files than their names and sizes.
pub(super) fn only_lists(name: &str) -> bool {
    knowledge().listing.has(name)
}

/// Returns the parts of a word that may be paths by themselves: the value after an option's letters, in an assignment,
/// or behind a revision.
pub(super) fn parts(word: &str) -> impl Iterator<Item = &str> {
    let letters = if word.starts_with('-') && !word.starts_with("--") { word } else { "" };
    let attached = letters.char_indices().skip(2).take(LETTERS).map(|(at, _)| &letters[at..]);
    let marked = word.match_indices(['=', ':', ',', '@', ')']).map(|(at, _)| &word[at + 1..]);
    attached.chain(marked).filter(|part| !part.is_empty())
}

/// Returns the texts that may be a command line written together with its option, as in `-S'ls a'`.
pub(super) fn attached(word: &str) -> impl Iterator<Item = &str> {
    let long = word.strip_prefix("--");
    let value = long.and_then(|word| word.split_once('=')).map(|(_, value)| value);
    let letters = word.strip_prefix('-').filter(|_| long.is_none());
    let cluster = letters.and_then(|letters| letters.split_once(['S', 'c'])).map(|(_, value)| value);
    value.into_iter().chain(cluster)
}

/// Returns whether a word may stand before a command.
pub(super) fn is_keyword(word: &str) -> bool {
    knowledge().keywords.has(word)
}

/// Returns whether a program takes commands behind options.
pub(super) fn is_finder(name: &str) -> bool {
    knowledge().finders.has(name)
}

/// Returns whether the word after this option of `find` or `fd` begins a command.
pub(super) fn begins_command(name: &str, option: &str) -> bool {
    match name {
        "find" | "gfind" => matches!(option, "-exec" | "-execdir" | "-ok" | "-okdir"),
        "fd" | "fdfind" => matches!(option, "-x" | "-X" | "--exec" | "--exec-batch"),
        _ => false,
    }
}

/// Returns the reason why a command of one of these programs is not allowed. The rule names the first so many of its
/// words.
pub(super) fn special(name: &str, rule: &[String], words: &[String], named: usize) -> Option<String> {
    let further = words.get(named..)?;
    let is_operand = |word: &&String| !word.starts_with('-');
    match name {
        "go" => further
            .iter()
            .find(|word| matches!(word.split('=').next(), Some("-o" | "--o")))
            .map(|word| format!("`{word}` makes `go` write a file")),
        "sed" | "gsed" => sed(rule, further),
        "awk" | "gawk" | "mawk" | "nawk" => awk(further),
        "uniq" | "guniq" | "xxd" => further
            .iter()
            .rfind(is_operand)
            .filter(|_| words[1..].iter().filter(is_operand).count() > 1)
            .map(|word| format!("`{name}` may write to `{word}`")),
        "make" | "gmake" => further
            .iter()
            .find(|word| word.contains('=') && !is_verbosity(word))
            .map(|word| format!("`{word}` sets a variable, which can hold a command")),
        "cmake" => further
            .iter()
            .find(|word| is_risky_for_cmake(word))
            .map(|word| format!("`{word}` can make `cmake` run a program")),
        "jq" => further
            .iter()
            .find(|word| {
                ["env", "ENV", "import", "include", "input_filename", "$__prog"]
                    .iter()
                    .any(|part| word.contains(part))
            })
            .map(|word| format!("`{word}` may show variables or other files")),
        _ => None,
    }
}

/// Returns whether a word sets a variable of `make` that only says how much is printed.
pub(super) fn is_verbosity(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, value)| {
        matches!(name, "V" | "VERBOSE" | "Q") && value.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Returns whether a word sets more than a switch of the project, or makes `cmake` something else than a build tool.
fn is_risky_for_cmake(word: &str) -> bool {
    let switches = [
        "ON",
        "OFF",
        "TRUE",
        "FALSE",
        "YES",
        "NO",
        "0",
        "1",
        "Release",
        "Debug",
        "RelWithDebInfo",
        "MinSizeRel",
    ];
    if let Some(definition) = word.strip_prefix("-D") {
        let Some((name, value)) = definition.split_once('=') else { return true };
        let name = name.split(':').next().unwrap_or_default();
        let is_number = value.len() < 8 && value.bytes().all(|byte| byte.is_ascii_digit());
        return !(switches.contains(&value) || (is_number && name.ends_with("_STANDARD")));
    }
    let is_other = |option: &&str| {
        word == *option || word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
    };
    [
        "-C",
        "-E",
        "-P",
        "-T",
        "-U",
        "--graphviz",
        "--install",
        "--open",
        "--toolchain",
        "--workflow",
        "--debugger",
    ]
    .iter()
    .any(is_other)
        || word.starts_with("-C")
        || word.starts_with("-T")
}

/// Returns whether a word of `[` or `test` can only be compared, whatever it is: a test of several parts reads some
/// words as operators.
pub(super) fn is_plain_test(words: &[&str], index: usize) -> bool {
    let words = match words {
        ["[", inner @ .., "]"] | ["test", inner @ ..] => inner,
        _ => return false,
    };
    let index = index - 1;
    let is_unary = |word: &str| matches!(word, "-d" | "-e" | "-f" | "-n" | "-r" | "-s" | "-w" | "-x" | "-z");
    let is_binary =
        |word: &str| matches!(word, "=" | "==" | "!=" | "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge");
    match words {
        ["!", unary, _] => is_unary(unary) && index == 2,
        [unary, _] => is_unary(unary) && index == 1,
        [_, binary, _] => is_binary(binary) && index != 1,
        _ => false,
    }
}

/// Returns the word that is a script of `sed`, which is judged by itself.
pub(super) fn script_of_sed(name: &str, words: &[String], named: usize) -> Option<usize> {
    let is_judged =
        matches!(name, "sed" | "gsed") && words[1..named].iter().all(|word| word.starts_with('-'));
    (named..words.len()).find(|index| is_judged && !words[*index].starts_with('-'))
}

/// Returns whether a command of `sed` only reads, by a script that is judged.
pub(super) fn is_reading_sed(name: &str, words: &[String], named: usize) -> bool {
    let is_reading = |word: &String| matches!(word.as_str(), "-n" | "-E" | "-r");
    script_of_sed(name, words, named).is_some() && words[1..named].iter().all(is_reading)
}

/// Returns whether a word is one of the options, with a value, in a cluster of letters or abbreviated.
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

/// Returns whether a word names what is protected, also as the value of an option.
pub(super) fn names_protected(word: &str) -> bool {
    word.split(['=', ':', ',', '@'])
        .any(|value| matches!(protection(value, None), Protection::Tier1 { .. } | Protection::Denied))
}

/// Returns whether the letters of a short option may be followed by a path that leads elsewhere: which of them are
/// options, and where a value begins, isn't known.
pub(super) fn leads_outside_in_cluster(word: &str) -> bool {
    let cluster = word.strip_prefix('-').unwrap_or("");
    cluster
        .split_once('/')
        .is_some_and(|(letters, _)| letters.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        || cluster.split('/').any(|component| component.ends_with(".."))
}

/// The absolute paths and those that go up in a word, also as the value of an option.
pub(super) fn climbing(word: &str) -> impl Iterator<Item = &str> {
    word.split(['=', ':', ',', '@'])
        .filter(|value| value.starts_with('/') || value.split('/').any(|component| component == ".."))
}

/// Its scripts can run programs, write files and read others. Of those that the rule doesn't name only the ones are
/// known not to that hold none of the words for it.
fn awk(further: &[String]) -> Option<String> {
    let mut words = further.iter();
    let script = loop {
        match words.next()?.as_str() {
            "-F" | "-v" => _ = words.next(),
            word if word.starts_with("-F") || word.starts_with("-v") => {}
            option if option.starts_with('-') => {
                return Some(format!("`{option}` can make `awk` run another script"));
            }
            script => break script,
        }
    };
    let names_more = ["@", "ARG", "ENVIRON", "PROCINFO", "SYMTAB", "getline", "system"];
    // Only what is printed can be piped or written elsewhere.
    let printed = script.find("print").map_or("", |at| &script[at..]).replace("||", "");
    (names_more.iter().any(|word| script.contains(word)) || printed.contains(['|', '>']))
        .then(|| "its script may run programs, or write or read other files".to_owned())
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

/// Returns whether a command of `sed` only prints, deletes, ends, or replaces plain text in what is printed.
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

/// Returns what follows an address of a line, if there is one: a number, `$`, or an expression.
fn behind_address(text: &str) -> Option<&str> {
    if let Some(expression) = text.strip_prefix('/') {
        let (inside, behind) = expression.split_once('/')?;
        return Some(behind).filter(|_| !inside.ends_with('\\'));
    }
    Some(text.strip_prefix('$').unwrap_or_else(|| text.trim_start_matches(|c: char| c.is_ascii_digit())))
}
