//! `.rooignore` and secrets: one function decides for all readers what may be read.
//!
//! A root's `.rooignore` (syntax of `.gitignore`) is read again whenever it has changed. One that can't be read or
//! parsed hides the whole root: failing open would expose what it protects. Its patterns match without regard to case on
//! every system, as in Roo Code, whose users rely on `secrets/` for `Secrets/` too.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::fs::Dir;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::links::{self, HiddenLinks, LinkedFile};
use super::read_access::ReadAccess;
use super::resolver::{Location, Resolved};
use super::rules_file::{self, Stamp};
use roo_text::names::fold;

/// Name of the file of ignore rules in a root.
pub const NAME: &str = ".rooignore";

/// The ignore rules of every root.
pub struct Ignores {
    roots: Vec<Mutex<Cached>>,
}

#[derive(Default)]
struct Cached {
    stamp: Option<Stamp>,
    rules: Arc<Rules>,
    hidden: Option<Arc<HiddenLinks>>,
}

/// The rules of one root at one moment.
#[derive(Default)]
pub struct Rules {
    matcher: Option<Gitignore>,
    problem: Option<String>,
}

impl Rules {
    /// The access to a path relative to the rules' root.
    pub fn access(&self, relative: &str, is_directory: bool) -> ReadAccess {
        let folded = fold(relative);
        if self.is_ignored(relative, &folded, is_directory) {
            ReadAccess::Ignored
        } else if is_secret(&folded) {
            ReadAccess::Secret
        } else {
            ReadAccess::Free
        }
    }

    /// The access to a name in a directory that is not ignored itself, nor is one above it. `relative` is the whole
    /// path.
    pub(super) fn access_in(
        &self,
        directory: &SecretPlaces,
        relative: &str,
        is_directory: bool,
    ) -> ReadAccess {
        let name = relative.rsplit('/').next().unwrap_or_default();
        let folded = if is_folded(name) { Cow::Borrowed(name) } else { Cow::Owned(fold(name)) };
        let is_rules = directory.is_root && folded == NAME;
        let is_ignored =
            |matcher: &Gitignore| matcher.matched(&*without_case(relative), is_directory).is_ignore();
        if self.problem.is_some() || is_rules || self.matcher.as_ref().is_some_and(is_ignored) {
            ReadAccess::Ignored
        } else if directory.is_secret(&folded) {
            ReadAccess::Secret
        } else {
            ReadAccess::Free
        }
    }

    /// Returns whether there are none, but for the names of secrets.
    pub fn is_empty(&self) -> bool {
        self.matcher.is_none() && self.problem.is_none()
    }

    fn is_ignored(&self, relative: &str, folded: &str, is_directory: bool) -> bool {
        // The matcher panics on absolute paths. None is expected here, and none would be free.
        if self.problem.is_some() || folded == NAME || Path::new(relative).has_root() {
            return true;
        }
        let Some(matcher) = self.matcher.as_ref().filter(|_| !relative.is_empty()) else { return false };
        let relative = without_case(relative);
        // From the top down: as in git, what is below an ignored directory can't be had back by a `!`.
        let above = relative.match_indices('/').map(|(end, _)| (end, true));
        above
            .chain([(relative.len(), is_directory)])
            .any(|(end, is_directory)| matcher.matched(&relative[..end], is_directory).is_ignore())
    }

    fn read(root: &Dir) -> Self {
        let rules = match rules_file::read(root, NAME) {
            Ok(None) => return Self::default(),
            Ok(Some(text)) => compile(&text),
            Err(error) => Err(format!("it can't be read: {error}")),
        };
        match rules {
            Ok(matcher) => Self { matcher: Some(matcher), problem: None },
            Err(problem) => Self { matcher: None, problem: Some(problem) },
        }
    }
}

impl Ignores {
    /// For this many roots; nothing is read yet.
    pub fn new(roots: usize) -> Self {
        Self { roots: std::iter::repeat_with(Mutex::default).take(roots).collect() }
    }

    /// The current rules of the root that a place is in; none outside.
    pub(super) fn rules(&self, place: &Resolved) -> Option<Arc<Rules>> {
        let Location::Inside { root } = place.location() else { return None };
        let mut cached = self.roots.get(root)?.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = rules_file::stamp(place.base(), NAME);
        if cached.stamp != Some(stamp) {
            *cached = Cached { stamp: Some(stamp), rules: Arc::new(Rules::read(place.base())), hidden: None };
        }
        Some(Arc::clone(&cached.rules))
    }

    /// The access to a file by its real path, for every reader.
    pub fn access(&self, place: &Resolved) -> ReadAccess {
        let Some(rules) = self.rules(place) else { return ReadAccess::Outside };
        let access = rules.access(place.relative(), place.is_directory());
        self.with_other_names(place, &rules, access)
    }

    /// The access to a file that the program itself looks for at this very name, such as `AGENTS.md`. The rules say what
    /// the tools of models may read, so they don't hide that name; what protects a secret holds, and so do the rules for
    /// another name of the file.
    pub fn access_at_known_name(&self, place: &Resolved) -> ReadAccess {
        let Some(rules) = self.rules(place) else { return ReadAccess::Outside };
        let access = match fold(place.relative()) {
            name if name == NAME => ReadAccess::Ignored,
            name if is_secret(&name) => ReadAccess::Secret,
            _ => ReadAccess::Free,
        };
        self.with_other_names(place, &rules, access)
    }

    /// The access to a file of which this is known by its own name.
    fn with_other_names(&self, place: &Resolved, rules: &Rules, access: ReadAccess) -> ReadAccess {
        if access != ReadAccess::Free || !place.is_file() {
            return access;
        }
        let found = fs::symlink_metadata(place.absolute()).ok();
        let linked = found.as_ref().and_then(links::several_names);
        linked.map_or(ReadAccess::Free, |linked| self.by_other_names(place, rules, &linked))
    }

    /// The access to a file whose own name is free, by its other names below its root.
    pub(super) fn by_other_names(&self, place: &Resolved, rules: &Rules, file: &LinkedFile) -> ReadAccess {
        let Location::Inside { root } = place.location() else { return ReadAccess::Outside };
        let Some(cached) = self.roots.get(root) else { return ReadAccess::Outside };
        let known = cached.lock().unwrap_or_else(PoisonError::into_inner).hidden.clone();
        if let Some(access) = known.and_then(|hidden| hidden.access(file)) {
            return access;
        }
        let depth = place.relative().split('/').count();
        let Some(top) = place.absolute().ancestors().nth(depth) else { return ReadAccess::Free };
        let hidden = Arc::new(HiddenLinks::below(top, |name| rules.access(name, false)));
        let access = hidden.access_now(file);
        cached.lock().unwrap_or_else(PoisonError::into_inner).hidden = Some(hidden);
        access
    }

    /// Returns the reason why a place is ignored, in words for the model.
    pub(super) fn reason(&self, place: &Resolved) -> String {
        match self.rules(place).and_then(|rules| rules.problem.clone()) {
            Some(problem) => format!(
                "The workspace's {NAME} hides everything, because {problem}. Ask the user to correct or remove it."
            ),
            None => format!(
                "The workspace's {NAME} hides it from you. Continue without it, or ask the user to change {NAME}."
            ),
        }
    }
}

fn compile(text: &str) -> Result<Gitignore, String> {
    let mut builder = GitignoreBuilder::new("");
    let failed = |error: ignore::Error| format!("it can't be parsed: {error}");
    builder.case_insensitive(true).map_err(failed)?;
    if let Some((line, error)) = add_lines(&mut builder, text).into_iter().next() {
        return Err(format!("line {line} can't be parsed: {error}"));
    }
    builder.build().map_err(failed)
}

/// Adds the valid patterns. Returns the invalid ones with their lines, from 1.
fn add_lines(builder: &mut GitignoreBuilder, text: &str) -> Vec<(usize, ignore::Error)> {
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    let mut add = |line: &str| {
        // A range of characters may be none without case.
        match builder.add_line(None, &without_case(line)) {
            Ok(_) => None,
            Err(_) => builder.add_line(None, line).err(),
        }
    };
    lines.filter_map(|(index, line)| Some((index + 1, add(line)?))).collect()
}

/// A pattern or a path with characters beyond ASCII in lower case: the matcher takes no notice of the case of others alone.
fn without_case(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let lower = |c: char| {
        let mut lower = c.to_lowercase();
        match (lower.next(), lower.next()) {
            (Some(lower), None) if !c.is_ascii() => lower,
            _ => c,
        }
    };
    Cow::Owned(text.chars().map(lower).collect())
}

/// The invalid patterns in the text of a `.rooignore`, each with its line, from 1.
pub fn ignore_problems(text: &str) -> Vec<(usize, String)> {
    let problems = add_lines(&mut GitignoreBuilder::new(""), text).into_iter();
    problems.map(|(line, error)| (line, error.to_string())).collect()
}

/// For fuzz targets: whether rules ignore a path; none when they can't be understood.
#[cfg(feature = "fuzzing")]
pub fn is_ignored(rules: &str, relative: &str, is_directory: bool) -> Option<bool> {
    let rules = Rules { matcher: Some(compile(rules).ok()?), problem: None };
    Some(rules.is_ignored(relative, &fold(relative), is_directory))
}

/// Returns whether a path relative to its root, folded, is likely to hold a secret.
fn is_secret(folded: &str) -> bool {
    let (directory, name) =
        folded.rsplit_once('/').map_or((None, folded), |(above, name)| (Some(above), name));
    SecretPlaces::from_folded(directory).is_secret(name)
}

/// What a directory means for the names in it.
pub(super) struct SecretPlaces {
    /// True for a root itself.
    is_root: bool,
    /// True if all below is likely to hold secrets.
    is_secret: bool,
    /// True below packages that others made.
    is_package: bool,
    /// A name that is likely to hold a secret in this directory only.
    own: Option<&'static str>,
}

impl SecretPlaces {
    /// Of a directory relative to its root; empty for the root.
    pub(super) fn new(directory: &str) -> Self {
        let folded = fold(directory);
        Self::from_folded(Some(folded.as_str()).filter(|folded| !folded.is_empty()))
    }

    fn from_folded(directory: Option<&str>) -> Self {
        let names = || directory.into_iter().flat_map(|directory| directory.split('/'));
        let own = |name: &str| match name {
            ".config" => Some("gcloud"),
            ".docker" => Some("config.json"),
            _ => None,
        };
        let mut pairs = names().zip(names().skip(1));
        let is_secret = names().any(|name| matches!(name, ".ssh" | ".aws" | ".azure" | ".gnupg" | ".kube"))
            || pairs.any(|(above, name)| own(above) == Some(name));
        Self {
            is_root: directory.is_none(),
            is_secret,
            is_package: names().any(|name| matches!(name, "site-packages" | "node_modules")),
            own: names().next_back().and_then(own),
        }
    }

    /// Returns whether a folded name in the directory is likely to hold a secret.
    fn is_secret(&self, name: &str) -> bool {
        // Certificates that packages bring for everybody, also where git doesn't ignore the packages.
        if name == "cacert.pem" && self.is_package {
            return false;
        }
        let key = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"].iter().any(|begin| name.starts_with(begin))
            // Other keys have names of one's own choice, without an extension; sources have one.
            || (name.starts_with("id_") && !name.contains('.'));
        (name.starts_with(".env") && !is_template(name))
            || [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore"].iter().any(|end| name.ends_with(end))
            || key
            || matches!(
                name,
                ".npmrc" | ".netrc" | "_netrc" | ".pypirc" | ".pgpass" | ".git-credentials" | ".htpasswd"
            )
            || self.own == Some(name)
            || self.is_secret
    }
}

/// Returns whether folding a name gives the name itself, as for nearly all names.
fn is_folded(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b' '..=b'~') && !byte.is_ascii_uppercase())
}

/// Returns whether a file of variables is one that projects commit to show which there are, as `.env.example`.
fn is_template(name: &str) -> bool {
    [".example", ".sample", ".template", ".dist"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::resolver::{Purpose, Roots};

    struct Fixture {
        directory: tempfile::TempDir,
        roots: Roots,
        ignores: Ignores,
    }

    impl Fixture {
        fn new(rules: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            fs::create_dir_all(directory.path().join("build/out")).unwrap();
            fs::write(directory.path().join(NAME), rules).unwrap();
            let roots = Roots::open(&[directory.path().to_path_buf()]).unwrap();
            Self { directory, roots, ignores: Ignores::new(1) }
        }

        fn access(&self, text: &str) -> ReadAccess {
            self.ignores.access(&self.roots.resolve(text, Purpose::Read).unwrap())
        }

        fn reason(&self, text: &str) -> String {
            self.ignores.reason(&self.roots.resolve(text, Purpose::Read).unwrap())
        }
    }

    #[test]
    fn rules_hide_what_they_name_and_all_below() {
        let fixture = Fixture::new("build/\n*.log\n!keep.log\n");
        assert_eq!(fixture.access("build/out/x.rs"), ReadAccess::Ignored);
        assert_eq!(fixture.access("src/a.log"), ReadAccess::Ignored);
        assert_eq!(fixture.access("src/keep.log"), ReadAccess::Free);
        assert_eq!(fixture.access("src/main.rs"), ReadAccess::Free);
        assert_eq!(fixture.access(NAME), ReadAccess::Ignored);
        assert_eq!(fixture.access("/etc/passwd"), ReadAccess::Outside);
    }

    #[test]
    fn rules_match_without_regard_to_case() {
        let fixture =
            Fixture::new("Secrets/\n*.PEM.txt\n/docs/Été.md\nlog[a-c].txt\n!KEEP.pem.txt\n[Ё-я].md\n");
        for name in ["secrets/a", "SECRETS/a", "deep/Secrets/a", "a.pem.txt", "docs/éTÉ.MD", "LOGB.TXT"] {
            assert_eq!(fixture.access(name), ReadAccess::Ignored, "{name}");
        }
        for name in ["keep.pem.txt", "Keep.PEM.txt", "secret/a", "logd.txt"] {
            assert_eq!(fixture.access(name), ReadAccess::Free, "{name}");
        }
        // Walks judge names one by one.
        let rules = compile("Secrets/\n").unwrap();
        let rules = Rules { matcher: Some(rules), problem: None };
        let in_root = SecretPlaces::new("");
        assert_eq!(rules.access_in(&in_root, "SECRETS", true), ReadAccess::Ignored);
        assert_eq!(rules.access_in(&in_root, "SECRETS", false), ReadAccess::Free);
    }

    #[test]
    fn what_is_below_a_hidden_directory_can_not_be_had_back() {
        let fixture = Fixture::new("build/\n!keep.log\n!build/out/x.rs\n*.md\n!/src/\n");
        assert_eq!(fixture.access("build/keep.log"), ReadAccess::Ignored);
        assert_eq!(fixture.access("build/out/x.rs"), ReadAccess::Ignored);
        assert_eq!(fixture.access("src/a.md"), ReadAccess::Ignored);
        assert_eq!(fixture.access("keep.log"), ReadAccess::Free);
    }

    #[test]
    fn a_link_does_not_get_around_the_rules() {
        let fixture = Fixture::new("hidden.txt\n");
        fs::write(fixture.directory.path().join("hidden.txt"), "x").unwrap();
        symlink("hidden.txt", fixture.directory.path().join("notes.txt")).unwrap();
        symlink(".env", fixture.directory.path().join("settings.txt")).unwrap();
        fs::write(fixture.directory.path().join(".env"), "x").unwrap();
        assert_eq!(fixture.access("notes.txt"), ReadAccess::Ignored);
        assert_eq!(fixture.access("settings.txt"), ReadAccess::Secret);
    }

    #[test]
    fn a_second_name_does_not_get_around_the_rules() {
        let fixture = Fixture::new("build/\n");
        let at = |name: &str| fixture.directory.path().join(name);
        fs::write(at("build/key.txt"), "x").unwrap();
        fs::write(at("free.txt"), "x").unwrap();
        fs::hard_link(at("free.txt"), at("also.txt")).unwrap();
        assert_eq!(fixture.access("free.txt"), ReadAccess::Free);
        fs::hard_link(at("build/key.txt"), at("notes.txt")).unwrap();
        assert_eq!(fixture.access("notes.txt"), ReadAccess::Ignored);
        fs::write(at(".env"), "x").unwrap();
        fs::hard_link(at(".env"), at("settings.txt")).unwrap();
        assert_eq!(fixture.access("settings.txt"), ReadAccess::Secret);
        fs::hard_link(at(".env"), at("build/env")).unwrap();
        assert_eq!(fixture.access("settings.txt"), ReadAccess::Ignored);
        fs::remove_file(at("build/key.txt")).unwrap();
        assert_eq!(fixture.access("notes.txt"), ReadAccess::Free, "the only name is this one");
    }

    #[test]
    fn rules_do_not_hide_what_the_program_itself_looks_for_but_secrets_stay_secrets() {
        let fixture = Fixture::new(".roo/\n*.md\nprivate.txt\n");
        let at = |name: &str| fixture.directory.path().join(name);
        fs::create_dir_all(at(".roo/rules")).unwrap();
        for name in [".roo/rules/a.md", ".roo/.env", "private.txt"] {
            fs::write(at(name), "x").unwrap();
        }
        let known = |text: &str| {
            fixture.ignores.access_at_known_name(&fixture.roots.resolve(text, Purpose::Read).unwrap())
        };
        assert_eq!(fixture.access(".roo/rules/a.md"), ReadAccess::Ignored);
        assert_eq!(known(".roo/rules/a.md"), ReadAccess::Free);
        assert_eq!(known("AGENTS.md"), ReadAccess::Free, "it need not be there");
        assert_eq!(known(".roo/.env"), ReadAccess::Secret);
        assert_eq!(known(NAME), ReadAccess::Ignored);
        assert_eq!(known("/etc/passwd"), ReadAccess::Outside);
        fs::hard_link(at("private.txt"), at(".roo/rules/b.md")).unwrap();
        assert_eq!(known(".roo/rules/b.md"), ReadAccess::Ignored, "it has another name");
    }

    #[test]
    fn changed_rules_hold_at_once() {
        let fixture = Fixture::new("a.txt\n");
        assert_eq!(fixture.access("b.txt"), ReadAccess::Free);
        fs::write(fixture.directory.path().join(NAME), "a.txt\nb.txt\n").unwrap();
        assert_eq!(fixture.access("b.txt"), ReadAccess::Ignored);
        fs::remove_file(fixture.directory.path().join(NAME)).unwrap();
        assert_eq!(fixture.access("b.txt"), ReadAccess::Free);
    }

    #[test]
    fn changed_rules_hold_whatever_their_time_says() {
        let fixture = Fixture::new("a.txt\n");
        let path = fixture.directory.path().join(NAME);
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(fixture.access("b.txt"), ReadAccess::Free);
        fs::remove_file(&path).unwrap();
        fs::write(fixture.directory.path().join("other"), "b.txt\n").unwrap();
        fs::rename(fixture.directory.path().join("other"), &path).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert_eq!(fixture.access("b.txt"), ReadAccess::Ignored);
    }

    #[test]
    fn rules_that_can_not_be_read_or_understood_hide_everything_and_say_so() {
        let fixture = Fixture::new("ok\na{b\n");
        assert_eq!(fixture.access("src/main.rs"), ReadAccess::Ignored);
        assert!(fixture.reason("src/main.rs").contains("line 2"));
        let lines: Vec<usize> =
            ignore_problems("a{b\nok\n[z-a]\n").into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 3]);

        let path = fixture.directory.path().join(NAME);
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(fixture.reason("src/main.rs").contains("can't be read"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(fixture.access("src/main.rs"), ReadAccess::Ignored);
        fs::remove_dir(&path).unwrap();
        symlink("missing", &path).unwrap();
        assert_eq!(fixture.access("src/main.rs"), ReadAccess::Ignored);
    }

    #[test]
    fn secrets_are_known_by_name() {
        for path in [
            ".env",
            "app/.env.local",
            ".env.example.local",
            ".envrc",
            "certs/Server.PEM",
            "tls.key",
            "id_rsa",
            "keys/id_ed25519.bak",
            "id_github",
            ".npmrc",
            "home/.ssh/config",
            ".aws/credentials",
            ".config/gcloud/credentials.db",
            ".docker/config.json",
            "certs/cacert.pem",
            ".venv/lib/site-packages/app/server.pem",
        ] {
            assert!(is_secret(&fold(path)), "{path}");
        }
        for path in [
            "src/environment.rs",
            "src/id_generator.rs",
            "monkey.rs",
            "docs/.config/x",
            "keys.md",
            "",
            ".env.example",
            "app/.Env.local.Sample",
            ".env.template",
            ".env.dist",
            ".venv/lib/site-packages/certifi/cacert.pem",
        ] {
            assert!(!is_secret(&fold(path)), "{path}");
        }
    }
}
