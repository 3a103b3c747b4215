//! What is known of git: which of its commands run programs that a repository chooses, and which show what was
//! committed under a name that may not be read.

use super::knowledge::{Names, knowledge};
use super::programs::is_one_of;

/// Why a command of git is not allowed by a rule that matches it.
pub(super) fn git(bare_rule: bool, arguments: &[String], further: &[String]) -> Option<String> {
    let position = arguments.iter().position(|word| !word.starts_with('-'));
    let (global, command) = arguments.split_at(position.unwrap_or(arguments.len()));
    let harmless = ["--no-pager", "--no-optional-locks", "--version", "--help"];
    if let Some(option) =
        global.iter().find(|word| further.contains(word) && !harmless.contains(&word.as_str()))
    {
        return Some(format!("`{option}` before the command of git can change what it runs"));
    }
    let command = command.first().map_or("", String::as_str);
    if bare_rule && !command.is_empty() && !knowledge().git.plain.has(command) {
        return Some(format!("`git {command}` needs a rule that names it"));
    }
    if let Some(objection) = git_drivers(command, arguments) {
        return Some(objection);
    }
    let letters: &[&str] = match command {
        "archive" | "format-patch" => &["-o"],
        "clone" => &["-c", "-u"],
        "diff" | "grep" | "log" | "show" => &["-O"],
        "rebase" => &["-x"],
        _ => return None,
    };
    let risky = further.iter().find(|word| is_one_of(word, letters.iter().copied()))?;
    Some(format!("`{risky}` can make `git {command}` run a program or write a file"))
}

/// Whether a command of git can run a program that the repository's configuration names.
fn git_drivers(command: &str, arguments: &[String]) -> Option<String> {
    if knowledge().git.drivers.has(command) {
        return Some(format!("`git {command}` can run programs that the repository's configuration names"));
    }
    let mut operands = arguments.iter().map(String::as_str).skip_while(|word| *word != command).skip(1);
    let has = |options: &Names| operands.clone().any(|word| is_one_of(word, options.iter()));
    let needed: &[&str] = match command {
        // Of one file's text, and of nothing else: this shows no change.
        "cat-file" if !operands.clone().any(|word| matches!(word, "-e" | "-s" | "-t")) => {
            return Some("`git cat-file` can show what was committed under any name".into());
        }
        "show" if operands.clone().all(is_text_of_revision) && operands.clone().count() == 1 => &[],
        "diff" | "diff-index" | "diff-tree" | "show" if is_outline(operands.clone()) => &[],
        "diff" | "diff-files" | "diff-index" | "diff-tree" | "show" | "whatchanged" => {
            &["--no-ext-diff", "--no-textconv"]
        }
        "log" | "reflog" | "rev-list" | "shortlog" if has(&knowledge().git.patch) => {
            &["--no-ext-diff", "--no-textconv"]
        }
        "status" if operands.clone().any(|word| is_one_of(word, ["-v", "--verbose"].into_iter())) => {
            return Some(
                "`git status` with changes can run programs that the repository's configuration names".into(),
            );
        }
        "annotate" | "blame" => &["--no-textconv"],
        _ => return None,
    };
    // Further on they could be the value of another option, or a path.
    let first: Vec<&str> = operands.by_ref().take(needed.len()).collect();
    (!needed.iter().all(|option| first.contains(option))).then(|| {
        let needed = needed.join(" ");
        format!("`git {command}` can run programs that the repository's configuration names; begin it with `git {command} {needed}`")
    })
}

/// Whether the arguments of `git diff` ask for an outline, and for nothing that could be more.
fn is_outline<'a>(operands: impl Iterator<Item = &'a str>) -> bool {
    let known = &knowledge().git;
    let options: Vec<&str> =
        operands.take_while(|word| *word != "--").filter(|word| word.starts_with('-')).collect();
    options.iter().any(|word| known.outline.has(word))
        && options.iter().all(|word| known.outline.has(word) || known.beside_outline.has(word))
}

/// Whether this is `<revision>:<path>`, as against a revision found by a text.
fn is_text_of_revision(word: &str) -> bool {
    word.split_once(':').is_some_and(|(revision, _)| !revision.is_empty())
        && !word.starts_with('-')
        && !word.contains(['^', '{'])
}

/// Why a search of git may find what was committed and may not be read: it looks at more than the files.
pub(super) fn searches_revision(arguments: &[String], is_there: impl Fn(&str) -> bool) -> Option<String> {
    let command = arguments.iter().position(|word| !word.starts_with('-'))?;
    let words = arguments.get(command + 1..).filter(|_| arguments[command] == "grep")?;
    if let Some(word) = words.iter().find(|word| is_one_of(word, ["--cached"].into_iter())) {
        return Some(format!("`{word}` makes `git grep` search what was added and not the files"));
    }
    let is_operand = |word: &&String| !word.starts_with('-');
    let given = words.iter().any(|word| is_one_of(word, knowledge().git.sought.iter()));
    // What the last `--` is followed by are files, but where it stands before all.
    let end = words
        .iter()
        .rposition(|word| word == "--")
        .filter(|end| given || words[..*end].iter().any(|word| is_operand(&word)));
    // In a cluster of letters it isn't known where a value begins.
    let is_cluster = |word: &String| {
        word.len() > 2 && is_one_of(word, ["-A", "-B", "-C", "-O", "-e", "-f", "-m"].into_iter())
    };
    let is_clear = !words.iter().any(is_cluster);
    let (mut is_value, mut is_sought) = (false, given);
    for word in &words[..end.unwrap_or(words.len())] {
        if std::mem::take(&mut is_value) {
            continue;
        }
        if !is_operand(&word) {
            is_value = is_clear && matches!(word.as_str(), "-A" | "-B" | "-C" | "-e" | "-f" | "-m");
        } else if !std::mem::replace(&mut is_sought, true) {
            // What is looked for.
        } else {
            let is_magic = [":!", ":^", ":("].iter().any(|begin| word.starts_with(begin));
            let is_pattern = word.contains(['*', '?', '[']) && !word.contains([':', '^', '{', '@']);
            if !(is_magic || is_pattern || (end.is_none() && is_there(word))) {
                return Some(format!("`{word}` may be a revision, which `git grep` would search"));
            }
        }
    }
    None
}
