//! Changes of a git configuration: which of them only say how a work tree or a branch is kept, and make git neither run
//! a program nor talk to somebody else.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::program::git;
use roo_sandbox::exec::Environment;

/// Keys that may have any value, in lower case.
const PLAIN: &[&str] = &[
    "color.ui",
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.logallrefupdates",
    "core.precomposeunicode",
    "core.repositoryformatversion",
    "core.safecrlf",
    "core.symlinks",
    "fetch.prune",
    "gc.auto",
    "merge.conflictstyle",
    "merge.ff",
    "pull.ff",
    "pull.rebase",
    "rebase.autosquash",
    "rebase.autostash",
    "rerere.enabled",
];

/// Keys that may be set where they are not.
const IF_MISSING: &[&str] = &["user.email", "user.name"];

/// The values of a configuration, by key; the same key may have several.
pub(super) type Values = BTreeMap<String, Vec<String>>;

/// Reads a configuration as git reads it, without what it includes. Runs git, but none of the workspace folders `roots`.
///
/// # Errors
/// When git can't be run, or can't read it.
pub(super) fn read(file: &Path, roots: &[PathBuf]) -> io::Result<Values> {
    if !file.metadata()?.is_file() {
        // Git would wait for whoever writes to a pipe.
        return Err(io::Error::other("it is no file"));
    }
    let output = git(Path::new("/"), roots)?
        .args(["config", "--no-includes", "--list", "--null", "--file"])
        .arg(file)
        .envs(Environment::inherited().cautious_git().variables())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let mut values = Values::new();
    for entry in String::from_utf8_lossy(&output.stdout).split_terminator('\0') {
        // A key without a value means true.
        let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
        values.entry(key.to_owned()).or_default().push(value.to_owned());
    }
    Ok(values)
}

/// The keys of which a change may not stay, each once: none where all may.
///
/// `before` is none for the configuration of a new repository, which may name where it came from.
pub(super) fn objections(before: Option<&Values>, after: &Values) -> Vec<String> {
    let nothing = Values::new();
    let was = before.unwrap_or(&nothing);
    let changed = after.iter().filter(|(key, values)| was.get(*key) != Some(values)).map(|(key, _)| key);
    let gone = was.keys().filter(|key| !after.contains_key(*key));
    let mut objections: Vec<String> = changed
        .filter(|key| !may_be_set(key, before, after))
        .chain(gone.filter(|key| !may_be_removed(key)))
        .cloned()
        .collect();
    objections.sort();
    objections
}

/// The keys of the configuration of a new work tree that may not stay. It may have what `others` of the repository have:
/// git copies that.
pub(super) fn objections_to_work_tree(others: &[Values], values: &Values) -> Vec<String> {
    let is_copied = |key: &String| others.iter().any(|other| other.get(key) == values.get(key));
    let mut objections = objections(Some(&Values::new()), values);
    objections.retain(|key| !is_copied(key));
    objections
}

fn may_be_set(key: &str, before: Option<&Values>, after: &Values) -> bool {
    let values = after.get(key).map(Vec::as_slice).unwrap_or_default();
    let (section, name, variable) = split(key);
    if PLAIN.contains(&key)
        || (IF_MISSING.contains(&key) && before.is_none_or(|before| !before.contains_key(key)))
    {
        return true;
    }
    match (section, name, variable) {
        ("core", None, "bare") => before.is_none() && values == ["false"],
        ("branch", Some(_), "merge" | "rebase" | "description") => true,
        ("branch", Some(_), "remote") => values.iter().all(|remote| {
            let known = before.unwrap_or(after);
            remote == "." || known.contains_key(&format!("remote.{remote}.url"))
        }),
        ("remote", Some(_), "url") => before.is_none() && values.iter().all(|url| is_plain_url(url)),
        ("remote", Some(_), "fetch" | "tagopt" | "partialclonefilter") => before.is_none(),
        ("remote", Some(_), "promisor") => before.is_none() && values == ["true"],
        ("extensions", None, "partialclone") => {
            before.is_none()
                && values.iter().all(|remote| after.contains_key(&format!("remote.{remote}.url")))
        }
        ("advice", None, _) => true,
        ("submodule", Some(_), "active") => true,
        ("submodule", Some(_), "url") => values.iter().all(|url| is_plain_url(url)),
        ("extensions", None, "objectformat" | "refstorage") => before.is_none(),
        _ => false,
    }
}

fn may_be_removed(key: &str) -> bool {
    let (section, name, _) = split(key);
    PLAIN.contains(&key) || (matches!(section, "branch" | "submodule") && name.is_some())
}

/// Section, name and variable of a key. A name may hold dots.
fn split(key: &str) -> (&str, Option<&str>, &str) {
    let (section, rest) = key.split_once('.').unwrap_or((key, ""));
    match rest.rsplit_once('.') {
        Some((name, variable)) => (section, Some(name), variable),
        None => (section, None, rest),
    }
}

/// Returns whether an address names a transport of git's own, and not a program.
fn is_plain_url(url: &str) -> bool {
    if url.starts_with('-') || url.contains("::") || url.chars().any(char::is_control) {
        return false;
    }
    match url.split_once("://") {
        Some((scheme, rest)) => {
            ["https", "http", "ssh", "git", "file"].contains(&scheme) && !rest.starts_with('-')
        }
        // A path, or `host:path` of SSH.
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Values {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path(), &[]).unwrap()
    }

    const BEFORE: &str = "[core]\nbare = false\n[remote \"origin\"]\nurl = https://host/x\nfetch = +refs/heads/*:a\n\
                          [branch \"main\"]\nremote = origin\nmerge = refs/heads/main\n[alias]\nst = status\n";

    #[track_caller]
    fn check(change: impl FnOnce(String) -> String, expected: &[&str]) {
        let after = change(BEFORE.to_owned());
        assert_eq!(objections(Some(&values(BEFORE)), &values(&after)), expected, "{after}");
    }

    #[test]
    fn what_says_how_branches_are_kept_may_change() {
        let more = |text: &'static str| move |before: String| before + text;
        check(more(""), &[]);
        check(more("[branch \"a.b\"]\nremote = origin\nmerge = refs/heads/a.b\nrebase = true\n"), &[]);
        check(more("[branch \"local\"]\nremote = .\n[core]\nignoreCase = true\n[user]\nname = x\n"), &[]);
        check(more("[submodule \"a/b\"]\nactive = true\nurl = ../b\n"), &[]);
        let without_branch = |before: String| {
            before.replace("[branch \"main\"]\nremote = origin\nmerge = refs/heads/main\n", "")
        };
        check(without_branch, &[]);
    }

    #[test]
    fn what_runs_programs_or_moves_trust_may_not() {
        let more = |text: &'static str| move |before: String| before + text;
        check(
            more("[core]\nhooksPath = x\nfsmonitor = x\neditor = x\n"),
            &["core.editor", "core.fsmonitor", "core.hookspath"],
        );
        check(more("[alias]\nco = !sh\n[include]\npath = x\n"), &["alias.co", "include.path"]);
        check(
            more("[filter \"x\"]\nclean = x\n[diff \"x\"]\ntextconv = x\n"),
            &["diff.x.textconv", "filter.x.clean"],
        );
        check(more("[remote \"up\"]\nurl = https://elsewhere\n"), &["remote.up.url"]);
        check(more("[branch \"new\"]\nremote = https://elsewhere\n"), &["branch.new.remote"]);
        check(
            more("[branch \"new\"]\npushRemote = x\n[url \"https://x\"]\ninsteadOf = y\n"),
            &["branch.new.pushremote", "url.https://x.insteadof"],
        );
        check(
            more("[submodule \"a\"]\nupdate = !x\nurl = ext::sh\n"),
            &["submodule.a.update", "submodule.a.url"],
        );
        check(more("[credential]\nhelper = x\n[http]\nproxy = x\n"), &["credential.helper", "http.proxy"]);
        check(|before| before.replace("https://host/x", "https://evil/x"), &["remote.origin.url"]);
        check(|before| before.replace("bare = false", "bare = true"), &["core.bare"]);
        check(|before| before.replace("[alias]\nst = status\n", ""), &["alias.st"]);
        check(
            more("[remote \"origin\"]\npushurl = https://evil/x\nuploadpack = x\n"),
            &["remote.origin.pushurl", "remote.origin.uploadpack"],
        );
    }

    #[test]
    fn a_new_repository_may_say_where_it_came_from() {
        let new =
            "[core]\nrepositoryformatversion = 0\nfilemode = true\nbare = false\nlogallrefupdates = true\n";
        assert_eq!(objections(None, &values(new)), [""; 0]);
        let cloned = format!(
            "{new}[remote \"origin\"]\nurl = git@host:x\nfetch = a\n[branch \"main\"]\nremote = origin\n"
        );
        assert_eq!(objections(None, &values(&cloned)), [""; 0]);
        let partial = format!(
            "{cloned}[remote \"origin\"]\ntagOpt = --no-tags\npromisor = true\npartialclonefilter = blob:none\n\
             [extensions]\npartialClone = origin\n[advice]\ndetachedHead = false\n"
        );
        assert_eq!(objections(None, &values(&partial)), [""; 0]);
        let elsewhere = format!("{new}worktree = /home/you\n[extensions]\npartialClone = other\n");
        assert_eq!(objections(None, &values(&elsewhere)), ["core.worktree", "extensions.partialclone"]);
        let hostile = format!("{new}fsmonitor = x\n[remote \"origin\"]\nurl = ext::sh -c x\n");
        assert_eq!(objections(None, &values(&hostile)), ["core.fsmonitor", "remote.origin.url"]);
    }

    #[test]
    fn a_configuration_that_git_can_not_read_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[core\n").unwrap();
        assert!(read(file.path(), &[]).is_err());
        std::fs::write(file.path(), "[include]\npath = /nonexistent\n").unwrap();
        assert_eq!(read(file.path(), &[]).unwrap()["include.path"], ["/nonexistent"]);
    }
}
