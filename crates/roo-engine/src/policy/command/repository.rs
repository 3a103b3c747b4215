//! Programs that a git repository's own configuration would run, read by git itself and from nowhere but the
//! repository.
//!
//! The user's own configuration is not looked at: what it names, the user has chosen. Which settings name no program is
//! said in `programs.toml`; any other counts as if it did.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use super::knowledge::knowledge;
use roo_durable::read_regular;
use roo_protocol::ids::Digest;

/// The largest file of a configuration that is read, in bytes.
const CONFIGURATION: u64 = 1 << 20;
/// The largest index that is looked at for submodules, in bytes.
const INDEX: u64 = 64 << 20;
/// The most submodules that are looked at.
const SUBMODULES: usize = 32;
/// The most configurations that are remembered.
const REMEMBERED: usize = 64;

/// Sections and settings whose programs run only for certain commands, not wherever files are compared.
const ELSEWHERE: &[&str] = &[
    "core.askpass",
    "core.attributesfile",
    "core.editor",
    "core.excludesfile",
    // Every command is run without.
    "core.fsmonitor",
    "core.gitproxy",
    "core.pager",
    "core.sshcommand",
    "credential.",
    "diff.",
    "difftool.",
    "gc.",
    "gpg.",
    "merge.",
    "mergetool.",
    "pager.",
    "remote.",
    "sequence.",
    "trailer.",
    "url.",
];

/// Programs that a repository would run of its own choosing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repository {
    /// A setting that names a program, or why it isn't known whether one does.
    pub programs: Option<String>,
    /// A setting of a filter, which runs wherever git compares files.
    pub filters: Option<String>,
    /// A hook, or the setting that says where hooks are.
    pub hooks: Option<String>,
    /// The names that it gives to commands of its own.
    pub aliases: Vec<String>,
    /// The directory that holds its work tree, where that is known.
    pub top: Option<String>,
}

impl Repository {
    fn unknown(why: impl ToString) -> Self {
        let why = Some(why.to_string());
        Self { programs: why.clone(), filters: why.clone(), hooks: why, ..Self::default() }
    }

    /// Both together.
    fn and(self, other: Self) -> Self {
        Self {
            programs: self.programs.or(other.programs),
            filters: self.filters.or(other.filters),
            hooks: self.hooks.or(other.hooks),
            aliases: [self.aliases, other.aliases].concat(),
            top: self.top,
        }
    }
}

/// Reads repositories, and remembers what their configurations say by their bytes.
#[derive(Debug, Default)]
pub struct Repositories {
    known: Mutex<HashMap<Digest, Arc<Vec<GitSetting>>>>,
}

/// A setting as git reads it: its name in lower case but for the part between the first and the last dot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GitSetting {
    name: String,
    value: String,
}

impl Repositories {
    /// The repository that git would find from a directory; one without any program where there is none.
    pub fn find(&self, directory: &Path, git: &Path) -> Repository {
        let Some((top, metadata)) =
            directory.ancestors().find_map(|above| Some((above, metadata(above).transpose()?)))
        else {
            return Repository::default();
        };
        let found = metadata.map_err(|error| error.to_string());
        let found = found.and_then(|metadata| self.read(top, &metadata, git));
        let found = found.unwrap_or_else(Repository::unknown);
        // It may say that its work tree is elsewhere.
        let top = top.to_str().map(str::to_owned).filter(|_| found.programs.is_none());
        Repository { top, ..found }
    }

    fn read(&self, top: &Path, own: &Path, git: &Path) -> Result<Repository, String> {
        let failed =
            |what: &'static str| move |error: io::Error| format!("its {what} can't be read: {error}");
        let common = match read_regular(&own.join("commondir"), CONFIGURATION) {
            Ok(path) => own.join(path.trim_end_matches('\n')),
            Err(error) if error.kind() == io::ErrorKind::NotFound => own.to_path_buf(),
            Err(error) => return Err(failed("commondir")(error)),
        };
        // Git goes on looking further up where it is none.
        let is_one = own.join("HEAD").symlink_metadata().is_ok()
            && ["objects", "refs"].iter().all(|name| common.join(name).is_dir());
        if !is_one {
            return Err("its `.git` is not a repository".to_owned());
        }
        let mut repository = Repository::default();
        let mut seen = self.configuration(&common.join("config"), git)?;
        seen.extend(self.configuration(&own.join("config.worktree"), git)?);
        for setting in &seen {
            repository = repository.and(setting.judge(top, own));
        }
        repository.hooks = repository.hooks.or(hook_in(&common.join("hooks")));
        let index = match read_bytes(&own.join("index"), INDEX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(repository),
            Err(error) => return Err(failed("index")(error)),
        };
        let submodules = submodules(&index, uses_sha256(&seen)).ok_or("its index can't be understood")?;
        if submodules.len() > SUBMODULES {
            return Err("it has too many submodules".to_owned());
        }
        // Git looks into those that are checked out.
        for path in submodules {
            let top = top.join(path);
            if let Some(own) = metadata(&top).map_err(|error| error.to_string())? {
                repository = repository.and(self.read(&top, &own, git)?);
            }
        }
        Ok(repository)
    }

    /// The settings of one file; none where it isn't there.
    fn configuration(&self, file: &Path, git: &Path) -> Result<Vec<GitSetting>, String> {
        let text = match read_regular(file, CONFIGURATION) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(format!("its configuration can't be read: {error}")),
        };
        let digest = Digest::of(&text);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(settings) = known().get(&digest) {
            return Ok(settings.to_vec());
        }
        let settings =
            parse(&text, git).map_err(|error| format!("its configuration can't be read: {error}"))?;
        let mut known = known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(digest, Arc::new(settings.clone()));
        Ok(settings)
    }
}

impl GitSetting {
    /// Returns the programs that it would run in a repository whose work tree and metadata lie here.
    fn judge(&self, top: &Path, own: &Path) -> Repository {
        let Self { name, value } = self;
        let known = &knowledge().git;
        let pattern = self.patterns();
        let is_one = |list: &super::knowledge::Names| pattern.iter().any(|pattern| list.has(pattern));
        if let Some(alias) = name.strip_prefix("alias.") {
            return Repository { aliases: vec![alias.to_owned()], ..Repository::default() };
        }
        if name == "core.hookspath" {
            return Repository { hooks: Some(format!("`{name}`")), ..Repository::default() };
        }
        let is_harmless = is_one(&known.settings)
            || (is_one(&known.addresses) && is_plain_address(value))
            || pattern.iter().any(|name| known.chosen.get(name).is_some_and(|chosen| chosen.has(value)))
            || (name == "core.worktree" && own.join(value).canonicalize().ok() == top.canonicalize().ok());
        if is_harmless {
            return Repository::default();
        }
        let programs = Some(format!("`{name}`"));
        let is_elsewhere = |section: &&str| name.starts_with(*section);
        let is_filter = !ELSEWHERE.iter().any(is_elsewhere);
        Repository { filters: programs.clone().filter(|_| is_filter), programs, ..Repository::default() }
    }

    /// The entries of a list that mean this setting.
    fn patterns(&self) -> Vec<String> {
        let (section, rest) = self.name.split_once('.').unwrap_or((&self.name, ""));
        match rest.rsplit_once('.') {
            Some((_, key)) => vec![format!("{section}.*.{key}"), format!("{section}.*.*")],
            None => vec![self.name.clone(), format!("{section}.*")],
        }
    }
}

/// Returns whether a setting of the command line names no program. Its name may be in any case.
pub(super) fn is_harmless_setting(name: &str, value: &str) -> bool {
    let Some((section, rest)) = name.split_once('.') else { return false };
    let name = match rest.rsplit_once('.') {
        Some((between, key)) => {
            format!("{}.{between}.{}", section.to_ascii_lowercase(), key.to_ascii_lowercase())
        }
        None => name.to_ascii_lowercase(),
    };
    let setting = GitSetting { name, value: value.to_owned() };
    let nowhere = Path::new("");
    !setting.name.starts_with("alias.")
        && setting.name != "core.worktree"
        && setting.judge(nowhere, nowhere) == Repository::default()
}

/// The metadata of a repository whose work tree begins at a directory; none where none does.
fn metadata(directory: &Path) -> io::Result<Option<PathBuf>> {
    let path = directory.join(".git");
    match fs::metadata(&path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            match path.symlink_metadata() {
                Ok(_) => Err(io::Error::other("`.git` is a broken symlink")),
                Err(_) => Ok(None),
            }
        }
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => Ok(Some(path)),
        Ok(_) => {
            let text = read_regular(&path, CONFIGURATION)?;
            let to = text.strip_prefix("gitdir: ").map(|to| to.trim_end_matches(['\n', '\r']));
            let to = to.ok_or_else(|| io::Error::other("`.git` doesn't say where the repository is"))?;
            Ok(Some(directory.join(to)))
        }
    }
}

/// The settings of a text, as git understands it; nothing else is read.
fn parse(text: &str, git: &Path) -> io::Result<Vec<GitSetting>> {
    let mut child = Command::new(git)
        .args(["config", "--file", "-", "--no-includes", "--null", "--list"])
        .current_dir("/")
        .env_clear()
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    // It reads all before it answers.
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(io::Error::other("git can't parse it"));
    }
    let text = String::from_utf8(output.stdout).map_err(io::Error::other)?;
    // Without a `=` it counts as true.
    let setting = |entry: &str| {
        let (name, value) = entry.split_once('\n').unwrap_or((entry, "true"));
        GitSetting { name: name.to_owned(), value: value.to_owned() }
    };
    Ok(text.split_terminator('\0').map(setting).collect())
}

/// Returns whether an address is reached by what git brings along.
fn is_plain_address(address: &str) -> bool {
    match address.split_once("://") {
        Some((scheme, _)) => matches!(scheme, "file" | "git" | "http" | "https" | "ssh"),
        // `<name>::<address>` names a program for it.
        None => !address.contains("::") && !address.starts_with('-'),
    }
}

/// A hook in a directory of hooks.
fn hook_in(directory: &Path) -> Option<String> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(format!("hooks that can't be read ({error})")),
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.ends_with(".sample")).min().map(|name| format!("the hook `{name}`"))
}

fn read_bytes(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = roo_durable::open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::other("it is too large")),
        false => Ok(bytes),
    }
}

fn uses_sha256(settings: &[GitSetting]) -> bool {
    settings.iter().any(|setting| setting.name == "extensions.objectformat" && setting.value == "sha256")
}

/// The paths in an index that are other repositories; none where it can't be understood.
fn submodules(index: &[u8], is_sha256: bool) -> Option<Vec<String>> {
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let version = number(4)?;
    let entries = number(8)?;
    let hash = if is_sha256 { 32 } else { 20 };
    let (mut at, mut found, mut last) = (12, Vec::new(), Vec::new());
    for _ in 0..entries {
        let start = at;
        let mode = number(at + 24)?;
        let flags = at + 40 + hash;
        let is_extended = index.get(flags)? & 0x40 != 0;
        at = flags + 2 + if is_extended { 2 } else { 0 };
        match version {
            2 | 3 => {
                let length = index.get(at..)?.iter().position(|byte| *byte == 0)?;
                last = index.get(at..at + length)?.to_vec();
                // Padded with one to eight bytes.
                at = start + (at + length - start + 8) / 8 * 8;
            }
            4 => {
                let (removed, length) = variable_number(index.get(at..)?)?;
                at += length;
                let length = index.get(at..)?.iter().position(|byte| *byte == 0)?;
                last.truncate(last.len().checked_sub(removed)?);
                last.extend_from_slice(index.get(at..at + length)?);
                at += length + 1;
            }
            _ => return None,
        }
        if mode & 0o170_000 == 0o160_000 {
            found.push(String::from_utf8(last.clone()).ok()?);
        }
    }
    // A part of it may lie in another file.
    let end = index.len().checked_sub(hash)?;
    while at + 8 <= end {
        if index.get(at..at + 4)? == b"link" {
            return None;
        }
        at += 8 + usize::try_from(number(at + 4)?).ok()?;
    }
    Some(found)
}

/// A number as the fourth version of the index has it, and its length.
fn variable_number(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = usize::from(bytes.first()? & 0x7f);
    let mut length = 1;
    while bytes.get(length - 1)? & 0x80 != 0 {
        value = ((value + 1) << 7) | usize::from(bytes.get(length)? & 0x7f);
        length += 1;
        if length > 5 {
            return None;
        }
    }
    Some((value, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository in a directory of its own, made by git.
    struct Fixture {
        directory: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let fixture = Self { directory: tempfile::tempdir().unwrap() };
            fixture.git(&["init", "-q"]);
            fixture
        }

        fn git_in(&self, below: &str, arguments: &[&str]) {
            let output = Command::new("git")
                .args([
                    "-c",
                    "user.name=a",
                    "-c",
                    "user.email=a@example.org",
                    "-c",
                    "protocol.file.allow=always",
                ])
                .args(arguments)
                .current_dir(self.directory.path().join(below))
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .output()
                .unwrap();
            assert!(output.status.success(), "{arguments:?}: {output:?}");
        }

        fn git(&self, arguments: &[&str]) {
            self.git_in("", arguments);
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn find_in(&self, below: &str) -> Repository {
            let directory: PathBuf = self.directory.path().join(below).components().collect();
            Repositories::default().find(&directory, Path::new("git"))
        }

        fn find(&self) -> Repository {
            self.find_in("")
        }

        /// The first thing that it would run.
        fn runs(&self) -> Option<String> {
            let Repository { programs, hooks, .. } = self.find();
            programs.or(hooks)
        }
    }

    #[test]
    fn a_repository_as_git_makes_it_runs_nothing() {
        let fixture = Fixture::new();
        for setting in [
            ["remote.origin.url", "git@example.org:a/b.git"],
            ["remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"],
            ["branch.main.merge", "refs/heads/main"],
            ["user.email", "a@example.org"],
            ["pull.rebase", "true"],
            ["core.fsmonitor", "true"],
        ] {
            fixture.git(&["config", setting[0], setting[1]]);
        }
        fixture.write("a", "");
        fixture.git(&["add", "a"]);
        fixture.git(&["commit", "-q", "-m", "a"]);
        let top = fixture.directory.path().to_str().map(str::to_owned);
        assert_eq!(fixture.find(), Repository { top, ..Repository::default() });
        assert_eq!(fixture.find_in("missing/below").programs, None);
    }

    #[test]
    fn settings_that_name_programs_are_told() {
        for (name, value) in [
            ("filter.x.clean", "./x"),
            ("filter.x.process", "./x"),
            ("diff.external", "./x"),
            ("diff.x.textconv", "./x"),
            ("diff.x.command", "./x"),
            ("merge.x.driver", "./x"),
            ("core.sshCommand", "./x"),
            ("core.pager", "./x"),
            ("core.fsmonitor", "./x"),
            ("core.attributesFile", "x"),
            ("core.worktree", "/"),
            ("credential.helper", "./x"),
            ("remote.origin.uploadpack", "./x"),
            ("remote.origin.url", "ext::./x"),
            ("remote.origin.url", "x::y"),
            ("remote.origin.url", "x://y"),
            ("url.x::.insteadOf", "https://"),
            ("submodule.x.update", "!./x"),
            ("gc.recentObjectsHook", "./x"),
            ("include.path", "x"),
            ("includeIf.gitdir:/.path", "x"),
            ("trailer.x.command", "./x"),
            ("future.thing", "x"),
        ] {
            let fixture = Fixture::new();
            fixture.git(&["config", name, value]);
            let found = fixture.find().programs;
            let (begin, end) = (name.split('.').next().unwrap(), name.rsplit('.').next().unwrap());
            let told = found.as_deref().unwrap_or_default().to_ascii_lowercase();
            assert!(
                told.contains(&begin.to_ascii_lowercase()) && told.contains(&end.to_ascii_lowercase()),
                "{name}: {found:?}"
            );
        }
    }

    #[test]
    fn hooks_and_aliases_are_told_apart_from_programs() {
        let fixture = Fixture::new();
        fixture.git(&["config", "alias.lg", "!./x"]);
        fixture.git(&["config", "core.hooksPath", ".husky"]);
        let Repository { programs, hooks, aliases, .. } = fixture.find();
        assert_eq!((programs, hooks.as_deref()), (None, Some("`core.hookspath`")));
        assert_eq!(aliases, ["lg"]);
        let fixture = Fixture::new();
        assert_eq!(fixture.runs(), None);
        fixture.write(".git/hooks/pre-commit", "");
        assert_eq!(fixture.runs().as_deref(), Some("the hook `pre-commit`"));
    }

    #[test]
    fn work_trees_and_submodules_are_found() {
        let fixture = Fixture::new();
        fixture.write("a", "");
        fixture.git(&["add", "a"]);
        fixture.git(&["commit", "-q", "-m", "a"]);
        fixture.git(&["worktree", "add", "-q", "tree"]);
        assert_eq!(fixture.find_in("tree").programs, None);
        fixture.git(&["config", "filter.x.clean", "./x"]);
        assert_eq!(fixture.find_in("tree").filters.as_deref(), Some("`filter.x.clean`"));

        let outer = Fixture::new();
        let from = fixture.directory.path().to_str().unwrap();
        outer.git(&["submodule", "--quiet", "add", from, "sub"]);
        assert_eq!(outer.runs(), None);
        assert_eq!(outer.find_in("sub").programs, None);
        for version in ["2", "4"] {
            outer.git(&["update-index", "--index-version", version]);
            outer.git_in("sub", &["config", "filter.y.clean", "./y"]);
            assert_eq!(outer.runs().as_deref(), Some("`filter.y.clean`"), "version {version}");
            outer.git_in("sub", &["config", "--unset", "filter.y.clean"]);
            assert_eq!(outer.runs(), None, "version {version}");
        }
        outer.git(&["update-index", "--split-index"]);
        assert!(outer.runs().is_some());
    }

    #[test]
    fn a_repository_that_can_not_be_read_counts_as_one_that_runs_programs() {
        let fixture = Fixture::new();
        fixture.write(".git/config", "[core\n");
        assert!(fixture.runs().is_some());
        fs::remove_file(fixture.directory.path().join(".git/config")).unwrap();
        let pipe = fixture.directory.path().join(".git/config");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        assert!(fixture.runs().is_some());
        fs::remove_dir_all(fixture.directory.path().join(".git")).unwrap();
        fixture.write(".git", "nonsense");
        assert!(fixture.runs().is_some());
    }

    #[test]
    fn settings_of_the_command_line_are_known_in_any_case() {
        assert!(is_harmless_setting("Color.UI", "false") && is_harmless_setting("user.name", "a"));
        for name in ["core.pager", "alias.x", "core.worktree", "Core.HooksPath", "diff.external", "x", ""] {
            assert!(!is_harmless_setting(name, ""), "{name}");
        }
    }
}
