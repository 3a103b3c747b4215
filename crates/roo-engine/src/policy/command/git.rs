//! Knowledge of git: which of its commands run programs that a repository chooses, and which show what was committed
//! under a name that may not be read.

use super::deny;
use super::knowledge::{Names, knowledge};
use super::programs::is_one_of;
use super::repository::Repository;

/// Commands of git that another place may answer.
const REMOTE: &[&str] = &["archive", "clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule"];

/// Commands of git that make what can be signed.
const SIGNING: &[&str] = &["am", "cherry-pick", "commit", "merge", "pull", "rebase", "revert", "tag"];

/// Commands of git that change the work tree.
const CHANGE_WORK_TREES: &[&str] = &[
    "am",
    "bisect",
    "checkout",
    "cherry-pick",
    "clone",
    "merge",
    "mv",
    "pull",
    "read-tree",
    "rebase",
    "reset",
    "restore",
    "revert",
    "rm",
    "stash",
    "submodule",
    "switch",
    "worktree",
];

/// Returns whether git changes the work tree by a command line, as far as the line shows.
pub(in crate::policy) fn changes_work_tree(line: &str) -> bool {
    let commands = CHANGE_WORK_TREES.iter().map(|command| vec!["git".to_owned(), (*command).to_owned()]);
    deny::runs(&commands.collect::<Vec<_>>(), line)
}

/// Returns whether a command line looks as if git made commits or tags by it: reason to ask about signing, and to allow
/// nothing.
pub(in crate::policy) fn may_sign(line: &str) -> bool {
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '-')).peekable();
    words.any(|word| word == "git") && words.any(|word| SIGNING.contains(&word))
}

/// Context of a command besides its words.
pub(super) struct Context<'a> {
    /// True if the rule names git alone.
    pub(super) bare_rule: bool,
    /// Its words that the rule doesn't name.
    pub(super) further: &'a [&'a str],
    /// The repository that it works on.
    pub(super) repository: &'a dyn Fn() -> Repository,
}

/// Returns the reason why a command of git is not allowed by a rule that matches it.
pub(super) fn objection(words: &[String], context: &Context<'_>) -> Option<String> {
    let arguments = words.get(1..)?;
    let position = arguments.iter().position(|word| !word.starts_with('-'));
    let (global, command) = arguments.split_at(position.unwrap_or(arguments.len()));
    let harmless = ["--version", "--help"];
    let is_further = |word: &&String| context.further.contains(&word.as_str());
    if let Some(option) = global.iter().find(|word| is_further(word) && !harmless.contains(&word.as_str())) {
        return Some(format!("`{option}` before the command of git can change what it runs"));
    }
    let (command, operands) =
        command.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    if context.bare_rule && !command.is_empty() && !knowledge().git.plain.has(command) {
        return Some(format!("`git {command}` needs a rule that names it"));
    }
    if knowledge().git.launchers.has(command) {
        return Some(format!("`git {command}` can run any program, so no rule allows it"));
    }
    if let Some(objection) = chosen(command, operands, &(context.repository)()) {
        return Some(objection);
    }
    let letters: &[&str] = match command {
        "apply" => &["--unsafe-paths"],
        "archive" | "format-patch" => &["-o"],
        "clone" => &["-c", "-u"],
        "diff" | "grep" | "log" | "show" => &["-O"],
        "rebase" => &["-x"],
        _ => &[],
    };
    if let Some(risky) = context.further.iter().find(|word| is_one_of(word, letters.iter().copied())) {
        return Some(format!("`{risky}` can make `git {command}` run a program or write a file"));
    }
    if let Some(address) = operands.iter().find(|word| REMOTE.contains(&command) && word.contains("::")) {
        return Some(format!("`{address}` may name a program that git runs to reach it"));
    }
    if command == "submodule" && operands.iter().any(|word| word == "foreach") {
        return Some("`git submodule foreach` can run any program, so no rule allows it".to_owned());
    }
    None
}

/// Returns the reason why a command runs a program that the repository has chosen, or shows what isn't its own.
fn chosen(command: &str, operands: &[String], repository: &Repository) -> Option<String> {
    let known = &knowledge().git;
    let names = |what: &str| {
        Some(format!("`git {command}` may run what the repository's own configuration sets: {what}"))
    };
    let compares = known.comparing.has(command) || known.drivers.has(command);
    if let Some(filter) = repository.filters.as_ref().filter(|_| compares) {
        return names(filter);
    }
    if let Some(programs) = &repository.programs
        && (known.drivers.has(command) || shows_changes(command, operands))
    {
        match proof(command, operands) {
            Some([]) => {}
            Some(needed) => {
                let needed = needed.join(" ");
                let so = names(programs).unwrap_or_default();
                return Some(format!("{so}; begin it with `git {command} {needed}`"));
            }
            None => return names(programs),
        }
    }
    if let Some(hooks) = repository.hooks.as_ref().filter(|_| known.drivers.has(command)) {
        return names(hooks);
    }
    let is_known = known.plain.has(command) || known.drivers.has(command);
    if !is_known && repository.aliases.iter().any(|alias| alias == command) {
        return names(&format!("`alias.{command}`"));
    }
    // Of one file's text, and of nothing else: this shows no change.
    if command == "cat-file" && !operands.iter().any(|word| matches!(word.as_str(), "-e" | "-s" | "-t")) {
        return Some("`git cat-file` can show what was committed under any name".to_owned());
    }
    let has_paths = || operands.iter().any(|word| !word.starts_with('-'));
    let beside = operands.iter().any(|word| is_one_of(word, ["--no-index"].into_iter()));
    (command == "diff" && (beside || (repository.top.is_none() && has_paths())))
        .then(|| "`git diff` of files that no repository holds may show any of them".to_owned())
}

/// Returns whether a command shows how files changed, for which programs may run.
fn shows_changes(command: &str, operands: &[String]) -> bool {
    let has = |options: &Names| operands.iter().any(|word| is_one_of(word, options.iter()));
    match command {
        "annotate" | "blame" | "cat-file" | "diff" | "diff-files" | "diff-index" | "diff-tree" | "show"
        | "whatchanged" => true,
        "log" | "reflog" | "rev-list" | "shortlog" => has(&knowledge().git.patch),
        "status" => operands.iter().any(|word| is_one_of(word, ["-v", "--verbose"].into_iter())),
        _ => false,
    }
}

/// The options with which a command runs no program that a repository chooses; an empty list where it has them, or
/// needs none. None where nothing helps.
fn proof(command: &str, operands: &[String]) -> Option<&'static [&'static str]> {
    let operands = || operands.iter().map(String::as_str);
    let needed: &[&str] = match command {
        "cat-file" => &[],
        "show" if operands().all(is_text_of_revision) && operands().count() == 1 => &[],
        "diff" | "diff-index" | "diff-tree" | "show" if is_outline(operands()) => &[],
        "diff" | "diff-files" | "diff-index" | "diff-tree" | "log" | "reflog" | "rev-list" | "shortlog"
        | "show" | "whatchanged" => &["--no-ext-diff", "--no-textconv"],
        "annotate" | "blame" => &["--no-textconv"],
        _ => return None,
    };
    // Further on they could be the value of another option, or a path.
    let first: Vec<&str> = operands().take(needed.len()).collect();
    let is_proven = needed.iter().all(|option| first.contains(option));
    Some(if is_proven { &[] } else { needed })
}

/// The indices of words that are texts, whatever they look like: messages of commits and tags.
pub(super) fn texts(name: &str, words: &[String]) -> Vec<usize> {
    let command = words.iter().skip(1).position(|word| !word.starts_with('-')).map(|at| at + 1);
    let Some(command) = command.filter(|_| name == "git") else { return vec![] };
    let has_message = matches!(words[command].as_str(), "commit" | "merge" | "notes" | "stash" | "tag");
    let mut found = Vec::new();
    let mut is_text = false;
    for (index, word) in words.iter().enumerate().skip(command + 1).filter(|_| has_message) {
        if std::mem::take(&mut is_text) {
            found.push(index);
        } else if word == "--" {
            break;
        } else if word == "--message" || ends_with_message(word) {
            is_text = true;
        } else if word.starts_with("--message=") {
            found.push(index);
        }
    }
    found
}

/// Returns whether the last letter of a cluster is `-m`, and no letter before it takes a value.
fn ends_with_message(word: &str) -> bool {
    let letters = word.strip_prefix('-').and_then(|letters| letters.strip_suffix('m'));
    letters.is_some_and(|letters| letters.chars().all(|letter| "anqsv".contains(letter)))
}

/// Returns whether the arguments of `git diff` ask for an outline, and for nothing that could be more.
fn is_outline<'a>(operands: impl Iterator<Item = &'a str>) -> bool {
    let known = &knowledge().git;
    let options: Vec<&str> =
        operands.take_while(|word| *word != "--").filter(|word| word.starts_with('-')).collect();
    options.iter().any(|word| known.outline.has(word))
        && options.iter().all(|word| known.outline.has(word) || known.beside_outline.has(word))
}

/// Returns whether this is `<revision>:<path>`, as against a revision found by a text.
fn is_text_of_revision(word: &str) -> bool {
    word.split_once(':').is_some_and(|(revision, _)| !revision.is_empty())
        && !word.starts_with('-')
        && !word.contains(['^', '{'])
}

/// Returns whether a search of git looks at files that it doesn't keep.
pub(super) fn searches_more_than_tracked(arguments: &[String]) -> bool {
    let more = ["--untracked", "--no-index", "--no-exclude-standard", "--recurse-submodules"];
    arguments.iter().any(|word| word == "grep")
        && arguments.iter().any(|word| is_one_of(word, more.into_iter()))
}

/// Returns the reason why a search of git may find what was committed and may not be read: it looks at more than the
/// files.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_changes_the_work_tree_where_it_runs_such_a_command_of_git() {
        for line in [
            "git stash",
            "cd x && git -C y checkout main",
            "/usr/bin/git -c a.b=c switch main",
            "(git pull; make)",
            "for b in a b; do git merge $b; done",
            "timeout 5 git rebase main",
            "FOO=1 env BAR=2 git reset --hard",
            "bash -c 'git cherry-pick x'",
            "echo $(git stash pop)",
            "git branch | xargs -n1 git worktree add",
        ] {
            assert!(changes_work_tree(line), "{line}");
        }
        for line in [
            "echo git stash >/dev/null; python3 w.py",
            "python3 w.py git checkout",
            "grep -rn 'git merge' docs",
            "git log --oneline merge",
            "git commit -m 'git stash'",
            "git status && make",
            "# git stash",
        ] {
            assert!(!changes_work_tree(line), "{line}");
        }
    }
}
