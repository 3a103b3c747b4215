//! Real files. What a command does is done by the test itself.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pretty_assertions::assert_eq;

use super::record::is_fresh;
use super::*;
use crate::exec::sandbox::Journal;

/// `src/` is in scope, `.vscode`, `.roo` and git's own are protected, `scratch/` is nobody's.
struct TestScope;

impl Scope for TestScope {
    fn allowed(&self, _root: usize, path: &Path) -> Allowed {
        let first = path.iter().next().and_then(|name| name.to_str()).unwrap_or_default();
        match first {
            "src" => Allowed::InScope,
            "scratch" => Allowed::Scratch,
            ".vscode" | ".roo" | ".git" | "AGENTS.md" => Allowed::Protected,
            _ => Allowed::OutOfScope,
        }
    }

    fn keep(&self, root: usize, path: &Path) -> Keep {
        match self.allowed(root, path) {
            Allowed::InScope | Allowed::Scratch => Keep::Nothing,
            // As if out of every grant.
            _ if path.starts_with("unkept") => Keep::Nothing,
            _ => Keep::Content,
        }
    }
}

/// The same, where the files in scope are looked at too.
struct KeepsMode;

impl Scope for KeepsMode {
    fn allowed(&self, root: usize, path: &Path) -> Allowed {
        TestScope.allowed(root, path)
    }

    fn keep(&self, _root: usize, _path: &Path) -> Keep {
        Keep::Content
    }
}

impl Marker for TestScope {
    fn mark(&self, path: &Path, _: Kind) -> Mark {
        match self.allowed(0, path) {
            Allowed::Protected => Mark::Protected,
            _ if path.ends_with("secret") => Mark::Hidden,
            _ => Mark::None,
        }
    }
}

struct Fixture {
    directory: tempfile::TempDir,
    store: Store,
    index: Arc<FileIndex>,
    marker: Arc<TestScope>,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("kept"), limits).unwrap();
        let (index, marker) = (Arc::default(), Arc::new(TestScope));
        let fixture = Self { directory, store, index, marker };
        for (name, text) in [
            ("src/a.rs", "a"),
            ("docs/one.md", "one"),
            ("docs/two.md", "two"),
            (".vscode/settings.json", "{}"),
            (".git/HEAD", "ref: refs/heads/main"),
            (".git/refs/heads/objects", "123"),
            (".git/objects/ab/cd", "blob"),
            (".git/hooks/pre-push.sample", ""),
            ("AGENTS.md", "be good"),
        ] {
            fixture.put(name, text);
        }
        symlink("one.md", fixture.at("docs/link")).unwrap();
        fixture
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join("w").join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_else(|error| error.kind().to_string())
    }

    fn roots(&self) -> Vec<IndexedRoot> {
        let marker: Arc<dyn Marker> = Arc::clone(&self.marker) as _;
        vec![IndexedRoot { path: self.at("").components().collect(), marker }]
    }

    fn take(&self) -> Recording {
        self.index.begin(&self.roots(), &TestScope, &self.store).unwrap()
    }

    /// Builds a fixture in which the kernel can't report changes.
    fn that_walks(self) -> Self {
        Self { index: Arc::new(FileIndex::walking()), ..self }
    }

    /// All below the workspace: names, with contents, targets and permissions.
    fn everything(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut waiting = vec![self.at("")];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let meta = path.symlink_metadata().unwrap();
                let content = if meta.is_symlink() {
                    fs::read_link(&path).unwrap().display().to_string()
                } else if meta.is_file() {
                    fs::read_to_string(&path).unwrap()
                } else {
                    String::new()
                };
                found.push(format!("{} {:o} {content}", path.display(), meta.permissions().mode()));
                if meta.is_dir() {
                    waiting.push(path);
                }
            }
        }
        found.sort();
        found
    }
}

trait Compare {
    /// Returns the changes where nothing supervised them.
    fn diff(&self) -> Changes;
    fn undo(&self, changes: &Changes, store: &Store) -> Vec<UndoResult>;
}

impl Compare for Recording {
    fn diff(&self) -> Changes {
        self.changes(&TestScope, &Journal::default())
    }

    fn undo(&self, changes: &Changes, store: &Store) -> Vec<UndoResult> {
        self.restore(changes, store, &Journal::default())
    }
}

/// Summarises the changes.
fn told(changes: &Changes) -> Vec<String> {
    assert_eq!(changes.unknown, None);
    let line = |change: &Change| {
        let from = change.renamed_from.as_ref().map(|from| format!(" from {}", from.display()));
        let what = format!("{:?} {:?}", change.what, change.allowed);
        format!("{} {what}{}", change.path.display(), from.unwrap_or_default())
    };
    changes.changes.iter().map(line).collect()
}

fn outcomes(settled: &[UndoResult]) -> Vec<String> {
    let mut lines: Vec<String> = settled
        .iter()
        .map(|settled| {
            let outcome = match &settled.outcome {
                UndoOutcome::Restored { .. } => "restored".to_owned(),
                UndoOutcome::NotUndone { why, kept } => format!("held: {why:?}, kept: {}", kept.is_some()),
            };
            format!("{} {outcome}", settled.change.path.display())
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn a_command_that_changes_nothing_leaves_nothing_to_tell() {
    let fixture = Fixture::new();
    let before = fixture.take();
    assert!(before.diff().is_clean());
    // Touched, and rewritten as it was.
    fs::File::open(fixture.at("docs/one.md"))
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    fs::write(fixture.at("docs/two.md"), "two").unwrap();
    fixture.put(".git/objects/ef/01", "another blob");
    fixture.put(".git/index", "x");
    fixture.put("scratch/x", "x");
    assert_eq!(told(&before.diff()), [""; 0]);
}

#[test]
fn every_kind_of_change_is_told_with_what_it_was() {
    let fixture = Fixture::new();
    let before = fixture.take();
    fixture.put("src/new.rs", "new");
    fixture.put("src/a.rs", "other");
    fs::remove_file(fixture.at("docs/one.md")).unwrap();
    fs::rename(fixture.at("docs/two.md"), fixture.at("docs/Two.md")).unwrap();
    fs::set_permissions(fixture.at("AGENTS.md"), fs::Permissions::from_mode(0o755)).unwrap();
    fixture.put(".roo/mcp.json", "{}");
    fixture.put(".git/hooks/pre-commit", "#!/bin/sh");
    fixture.put(".git/refs/heads/objects", "456");
    fs::remove_file(fixture.at("docs/link")).unwrap();
    symlink("/etc/passwd", fixture.at("docs/link")).unwrap();
    let changes = before.diff();
    assert_eq!(
        told(&changes),
        [
            ".git/hooks/pre-commit Created Protected",
            ".git/refs/heads/objects Modified Protected",
            ".roo Created Protected",
            ".roo/mcp.json Created Protected",
            "AGENTS.md Modified Protected",
            "docs/Two.md Created OutOfScope from docs/two.md",
            "docs/link Modified OutOfScope",
            "docs/one.md Deleted OutOfScope",
            "docs/two.md Deleted OutOfScope",
            "src/a.rs Modified InScope",
            "src/new.rs Created InScope",
        ]
    );
    let change = |path: &str| changes.changes.iter().find(|change| change.path == Path::new(path)).unwrap();
    let digest = |state: &Option<State>| state.as_ref().and_then(|state| state.digest);
    use roo_protocol::ids::Digest;
    assert_eq!(digest(&change("docs/one.md").before), Some(Digest::of("one")));
    assert_eq!(digest(&change("src/a.rs").after), Some(Digest::of("other")));
    assert_eq!(change("AGENTS.md").after.as_ref().unwrap().mode, Some(0o755));
}

#[test]
fn what_was_not_allowed_is_undone_and_what_was_stays() {
    let fixture = Fixture::new();
    let expected = fixture.everything();
    let times = fixture.at("docs/one.md").metadata().unwrap().modified().unwrap();
    let before = fixture.take();
    fixture.put("docs/one.md", "changed");
    fs::remove_file(fixture.at("docs/two.md")).unwrap();
    fs::remove_file(fixture.at("docs/link")).unwrap();
    fs::create_dir(fixture.at("docs/two.md")).unwrap();
    fixture.put("docs/two.md/in", "in");
    fs::remove_file(fixture.at("AGENTS.md")).unwrap();
    symlink("/etc/passwd", fixture.at("AGENTS.md")).unwrap();
    fs::remove_dir_all(fixture.at(".vscode")).unwrap();
    fixture.put(".vscode", "a file");
    fixture.put(".roo/deep/mcp.json", "{}");
    fixture.put(".git/hooks/pre-commit", "#!/bin/sh");
    fs::set_permissions(fixture.at(".git/HEAD"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(fixture.at("docs"), fs::Permissions::from_mode(0o700)).unwrap();
    let changes = before.diff();
    let settled = before.undo(&changes, &fixture.store);
    assert!(
        settled.iter().all(|settled| matches!(settled.outcome, UndoOutcome::Restored { .. })),
        "{settled:#?}"
    );
    assert_eq!(fixture.everything(), expected);
    assert_eq!(fixture.at("docs/one.md").metadata().unwrap().modified().unwrap(), times);
    assert!(before.diff().is_clean());
    // What the command made is not lost.
    let mcp = settled.iter().find(|settled| settled.change.path.ends_with("mcp.json")).unwrap();
    let UndoOutcome::Restored { moved: Some(moved) } = &mcp.outcome else { panic!("{mcp:?}") };
    assert_eq!(fs::read_to_string(moved).unwrap(), "{}");
}

#[test]
fn what_is_in_scope_is_not_touched() {
    let fixture = Fixture::new();
    let before = fixture.take();
    fixture.put("src/a.rs", "other");
    fs::create_dir(fixture.at("src/empty")).unwrap();
    let changes = before.diff();
    assert!(changes.is_clean());
    assert_eq!(before.undo(&changes, &fixture.store), []);
    assert_eq!(fixture.read("src/a.rs"), "other");
}

#[test]
fn what_somebody_else_wrote_meanwhile_is_held() {
    let fixture = Fixture::new();
    let before = fixture.take();
    fixture.put("docs/one.md", "by the command");
    fixture.put("docs/new.md", "by the command");
    fs::remove_file(fixture.at("docs/two.md")).unwrap();
    let changes = before.diff();
    fixture.put("docs/one.md", "by the user, after that");
    fixture.put("docs/new.md", "by the user");
    fixture.put("docs/two.md", "by the user");
    let settled = before.undo(&changes, &fixture.store);
    assert_eq!(
        outcomes(&settled),
        [
            "docs/new.md held: ChangedMeanwhile, kept: false",
            "docs/one.md held: ChangedMeanwhile, kept: true",
            "docs/two.md held: ChangedMeanwhile, kept: true",
        ]
    );
    assert_eq!(fixture.read("docs/one.md"), "by the user, after that");
    assert_eq!(
        (fixture.read("docs/new.md"), fixture.read("docs/two.md")),
        ("by the user".into(), "by the user".into())
    );
    let one = settled.iter().find(|settled| settled.change.path.ends_with("one.md")).unwrap();
    let UndoOutcome::NotUndone { kept: Some(kept), .. } = &one.outcome else { panic!("{one:?}") };
    assert_eq!(fs::read_to_string(kept).unwrap(), "one");
    let left: Vec<String> =
        fixture.everything().into_iter().filter(|line| line.contains(".roo-lsp-")).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_link_that_is_swapped_in_leads_nothing_astray() {
    let fixture = Fixture::new();
    let outside = fixture.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("one.md"), "outside").unwrap();
    let before = fixture.take();
    fixture.put("docs/one.md", "by the command");
    fixture.put("docs/new.md", "by the command");
    let changes = before.diff();
    fs::rename(fixture.at("docs"), fixture.at("aside")).unwrap();
    symlink(&outside, fixture.at("docs")).unwrap();
    for settled in before.undo(&changes, &fixture.store) {
        assert!(matches!(settled.outcome, UndoOutcome::NotUndone { .. }), "{settled:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("one.md")).unwrap(), "outside");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // Nor is what it leads to taken for the workspace.
    let found = told(&before.diff());
    assert!(found.contains(&"docs Modified OutOfScope".to_owned()), "{found:?}");
    assert!(found.contains(&"docs/one.md Deleted OutOfScope".to_owned()), "{found:?}");
}

#[test]
fn a_file_that_was_only_moved_comes_back_even_if_it_was_not_kept() {
    let fixture = Fixture::new().that_walks();
    fixture.put("unkept/large.bin", "large");
    fixture.put("unkept/other.bin", "other");
    fixture.put("unkept/gone.bin", "gone");
    let before = fixture.take();
    fs::rename(fixture.at("unkept/large.bin"), fixture.at("unkept/renamed.bin")).unwrap();
    fs::rename(fixture.at("unkept/other.bin"), fixture.at("src/other.bin")).unwrap();
    fs::remove_file(fixture.at("unkept/gone.bin")).unwrap();
    let settled = before.undo(&before.diff(), &fixture.store);
    assert_eq!(
        outcomes(&settled),
        [
            "unkept/gone.bin held: NotKept, kept: false",
            "unkept/large.bin restored",
            "unkept/other.bin restored",
            "unkept/renamed.bin restored",
        ]
    );
    assert_eq!(
        (fixture.read("unkept/large.bin"), fixture.read("unkept/other.bin")),
        ("large".into(), "other".into())
    );
}

#[test]
fn a_file_that_was_moved_to_where_it_may_not_be_is_back_where_it_was() {
    for fixture in [Fixture::new(), Fixture::new().that_walks()] {
        fixture.put("src/one", "1");
        fixture.put("src/two", "2");
        fixture.put("src/taken", "3");
        fixture.put("src/kept", "4");
        fixture.put("src/d/deep/x", "x");
        fixture.put("src/d/y", "y");
        symlink("one", fixture.at("src/link")).unwrap();
        fs::set_permissions(fixture.at("src/d"), fs::Permissions::from_mode(0o750)).unwrap();
        let expected = fixture.everything();
        // Whose earlier content nobody has, so that only the file itself can come back.
        let before = fixture.index.begin(&fixture.roots(), &KeepsMode, &fixture.store).unwrap();
        let rename = |from: &str, to: &str| fs::rename(fixture.at(from), fixture.at(to)).unwrap();
        rename("src/one", "docs/moved");
        rename("src/two", "docs/two.md");
        rename("src/link", "docs/link2");
        rename("src/d", "docs/d");
        let settled = before.undo(&before.diff(), &fixture.store);
        assert!(settled.iter().all(UndoResult::is_restored), "{settled:#?}");
        let named: Vec<String> =
            outcomes(&settled).into_iter().filter(|line| line.starts_with("src/")).collect();
        assert_eq!(
            named,
            [
                "src/d/deep/x restored",
                "src/d/y restored",
                "src/link restored",
                "src/one restored",
                "src/two restored"
            ]
        );
        assert_eq!(fixture.everything(), expected);
        // One whose name is taken stays away, and one that is at an allowed place as well is not lost.
        rename("src/taken", "docs/taken");
        fixture.put("src/taken", "new");
        fs::hard_link(fixture.at("src/kept"), fixture.at("src/kept too")).unwrap();
        rename("src/kept", "docs/kept");
        before.undo(&before.diff(), &fixture.store);
        assert_eq!((fixture.read("src/taken"), fixture.read("src/kept too")), ("new".into(), "4".into()));
        assert!(!fixture.at("src/kept").exists() && !fixture.at("docs/taken").exists());
    }
}

#[test]
fn a_file_that_was_removed_stays_so_whatever_else_has_its_content() {
    for fixture in [Fixture::new(), Fixture::new().that_walks()] {
        fixture.put("src/template.md", "text");
        fixture.put("src/other.md", "text");
        let before = fixture.index.begin(&fixture.roots(), &KeepsMode, &fixture.store).unwrap();
        fs::remove_file(fixture.at("src/template.md")).unwrap();
        fixture.put("docs/made.md", "text");
        let settled = before.undo(&before.diff(), &fixture.store);
        assert_eq!(outcomes(&settled), ["docs/made.md restored"]);
        assert!(!fixture.at("src/template.md").exists() && !fixture.at("docs/made.md").exists());
    }
}

#[test]
fn build_output_that_git_ignores_is_left_out_and_new_rules_hide_nothing() {
    let fixture = Fixture::new();
    fixture.put(".gitignore", "/target\n*.log\n");
    let before = fixture.take();
    fixture.put("target/debug/x", "x");
    fixture.put("build.log", "ignored files are compared as well");
    fixture.put(".gitignore", "/target\n/dist\n");
    fixture.put("dist/x", "x");
    let found = told(&before.diff());
    assert_eq!(
        found,
        [
            ".gitignore Modified OutOfScope",
            "build.log Created OutOfScope",
            "dist Created OutOfScope",
            "dist/x Created OutOfScope",
        ]
    );
}

#[test]
fn a_file_written_in_the_same_moment_with_the_same_size_is_noticed() {
    let fixture = Fixture::new();
    for n in 0..50 {
        let name = format!("docs/{n}");
        fixture.put(&name, "aaa");
        let time = fixture.at(&name).metadata().unwrap().modified().unwrap();
        let before = fixture.take();
        fixture.put(&name, "bbb");
        fs::File::open(fixture.at(&name)).unwrap().set_modified(time).unwrap();
        let found = told(&before.diff());
        assert_eq!(found, [format!("{name} Modified OutOfScope")]);
    }
}

#[test]
fn what_can_not_be_read_is_unknown() {
    let fixture = Fixture::new();
    let before = fixture.take();
    let root = IndexedRoot { path: fixture.at("missing"), ..fixture.roots().remove(0) };
    let error = Arc::new(FileIndex::default()).begin(&[root], &TestScope, &fixture.store).err().unwrap();
    assert!(matches!(error, ChangesError::Io { .. }), "{error}");
    if !rustix::process::geteuid().is_root() {
        fs::create_dir(fixture.at("src/closed")).unwrap();
        fs::set_permissions(fixture.at("src/closed"), fs::Permissions::from_mode(0o0)).unwrap();
        let changes = before.diff();
        assert!(changes.unknown.unwrap().contains("src/closed"));
    }
}

/// Time of the last change of a file, which nobody can set.
fn changed(path: &Path) -> (i64, i64) {
    let found = path.metadata().unwrap();
    (found.ctime(), found.ctime_nsec())
}

#[test]
fn what_is_kept_stays_within_its_limits_and_is_not_read_twice() {
    let fixture = Fixture::with(Limits { file: 8, total: 40 });
    fixture.put("docs/large", "more than eight");
    // Until the times of all files would tell a later change.
    while is_fresh(changed(&fixture.at("docs/large"))) {
        std::thread::yield_now();
    }
    let first = fixture.take();
    let kept = |fixture: &Fixture| {
        let mut total = 0;
        for entry in fs::read_dir(fixture.directory.path().join("kept")).unwrap().flatten() {
            let meta = entry.metadata().unwrap();
            if meta.is_file() {
                assert_eq!(meta.permissions().mode() & 0o777, 0o600);
                total += meta.len();
            }
        }
        total
    };
    assert!(kept(&fixture) <= 40, "{}", kept(&fixture));
    fs::remove_file(fixture.at("docs/large")).unwrap();
    let settled = first.undo(&first.diff(), &fixture.store);
    assert_eq!(outcomes(&settled), ["docs/large held: NotKept, kept: false"]);
    drop(first);
    for n in 0..20 {
        fixture.put("docs/one.md", &format!("v{n}"));
        let before = fixture.take();
        fs::remove_file(fixture.at("docs/one.md")).unwrap();
        let settled = before.undo(&before.diff(), &fixture.store);
        assert_eq!(outcomes(&settled), ["docs/one.md restored"], "{n}");
        assert!(kept(&fixture) <= 40, "{}", kept(&fixture));
    }
    // Reopened, it knows what it has and throws away what was half written, but not by a server that lives.
    let half = |name: &str| fs::File::create(fixture.directory.path().join(name)).unwrap();
    half("kept/x.new").set_modified(SystemTime::now() - Duration::from_secs(90_000)).unwrap();
    half("kept/y.new");
    let again = Store::open(fixture.directory.path().join("kept"), Limits { file: 8, total: 40 }).unwrap();
    assert!(!fixture.directory.path().join("kept/x.new").exists());
    assert!(fixture.directory.path().join("kept/y.new").exists());
    assert_eq!(again.content(roo_protocol::ids::Digest::of("v19")), Some(b"v19".to_vec()));
}

#[test]
fn a_content_that_a_loss_of_power_has_damaged_is_kept_anew() {
    let mut fixture = Fixture::new();
    drop(fixture.take());
    let kept = fixture.store.path(roo_protocol::ids::Digest::of("one"));
    assert_eq!(fs::read_to_string(&kept).unwrap(), "one");
    fs::write(&kept, "\0\0\0").unwrap();
    fixture.store = Store::open(fixture.directory.path().join("kept"), Limits::default()).unwrap();
    let before = fixture.take();
    fs::remove_file(fixture.at("docs/one.md")).unwrap();
    let settled = before.undo(&before.diff(), &fixture.store);
    assert_eq!(outcomes(&settled), ["docs/one.md restored"]);
}

#[test]
fn what_is_kept_for_the_user_is_kept_for_a_month() {
    let fixture = Fixture::new();
    let kept = fixture.directory.path().join("kept");
    let place = fixture.store.place_for(Path::new("command"));
    fs::create_dir(&place).unwrap();
    fs::write(place.join("file"), "x").unwrap();
    fs::write(kept.join("moved/of another program"), "x").unwrap();
    let in_days = |days: u64| SystemTime::now() + Duration::from_secs(days * 24 * 60 * 60);
    Store::forget_old(&kept, in_days(29)).unwrap();
    assert!(place.join("file").exists());
    Store::forget_old(&kept, in_days(31)).unwrap();
    assert!(!place.exists() && kept.join("moved/of another program").exists());
}

#[test]
fn places_that_mean_something_are_named_for_the_sandbox() {
    let fixture = Fixture::new();
    fixture.put("src/secret/deep", "x");
    fixture.put(".vscode/AGENTS.md", "x");
    fixture.put(".gitignore", "/target\n");
    fixture.put("target/x", "x");
    symlink("docs", fixture.at(".roo")).unwrap();
    let at = |names: &[&str]| names.iter().map(|name| fixture.at(name)).collect::<Vec<_>>();
    let found = fixture.index.places(&fixture.roots()).unwrap();
    assert_eq!(found.protected, at(&[".git", ".vscode", "AGENTS.md"]));
    assert_eq!((found.hidden, found.scratch), (at(&["src/secret"]), at(&["target"])));
    fs::remove_file(fixture.at("AGENTS.md")).unwrap();
    fs::rename(fixture.at("src/secret"), fixture.at("docs/secret")).unwrap();
    fs::remove_file(fixture.at(".roo")).unwrap();
    fixture.put(".roo/deep/x", "x");
    let found = fixture.index.places(&fixture.roots()).unwrap();
    assert_eq!(found.protected, at(&[".git", ".roo", ".vscode"]));
    assert_eq!(found.hidden, at(&["docs/secret"]));
}

#[test]
fn many_directories_side_by_side_and_in_each_other_need_few_handles() {
    let fixture = Fixture::new();
    for n in 0..2000 {
        fs::create_dir(fixture.at(&format!("src/{n}"))).unwrap();
    }
    let deep = "d/".repeat(200);
    fixture.put(&format!("src/{deep}x"), "x");
    let before = fixture.take();
    assert!(fixture.index.len() > 2200, "{}", fixture.index.len());
    assert!(before.diff().is_clean());
}

#[test]
fn every_kind_of_change_is_noticed_however_it_is_looked_for() {
    for fixture in [Fixture::new(), Fixture::new().that_walks()] {
        for name in ["docs/a/b/c", "docs/a/d", "docs/swap", "docs/same", "docs/mode", "docs/append"] {
            fixture.put(name, name);
        }
        let before = fixture.take();
        fs::rename(fixture.at("docs/a"), fixture.at("docs/moved")).unwrap();
        fixture.put("docs/moved/b/new", "n");
        fs::remove_file(fixture.at("docs/swap")).unwrap();
        fs::create_dir(fixture.at("docs/swap")).unwrap();
        fixture.put("docs/same", "docs/same");
        fs::set_permissions(fixture.at("docs/mode"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(fixture.at("docs/append"), "more").unwrap();
        fixture.put("docs/short-lived", "x");
        fs::remove_file(fixture.at("docs/short-lived")).unwrap();
        assert_eq!(
            told(&before.diff()),
            [
                "docs/a Deleted OutOfScope",
                "docs/a/b Deleted OutOfScope",
                "docs/a/b/c Deleted OutOfScope",
                "docs/a/d Deleted OutOfScope",
                "docs/append Modified OutOfScope",
                "docs/mode Modified OutOfScope",
                "docs/moved Created OutOfScope",
                "docs/moved/b Created OutOfScope",
                "docs/moved/b/c Created OutOfScope from docs/a/b/c",
                "docs/moved/b/new Created OutOfScope",
                "docs/moved/d Created OutOfScope from docs/a/d",
                "docs/swap Modified OutOfScope",
            ]
        );
    }
}

#[test]
fn more_than_the_kernel_can_tell_is_found_by_a_walk() {
    let fixture = Fixture::new();
    let before = fixture.take();
    let most: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    for n in 0..most {
        fs::write(fixture.at(&format!("src/{}", n % 100)), n.to_string()).unwrap();
        fs::remove_file(fixture.at(&format!("src/{}", n % 100))).unwrap();
    }
    fixture.put("docs/one.md", "changed");
    fixture.put(".vscode/tasks.json", "{}");
    // What was written in the moment before may be told as well, where nobody knows how it was.
    let violations = |before: &Recording| {
        let mut changes = before.diff();
        changes.changes.retain(Change::is_violation);
        told(&changes)
    };
    let expected = [".vscode/tasks.json Created Protected", "docs/one.md Modified OutOfScope"];
    assert_eq!(violations(&before), expected);
    // And from there on as before.
    fixture.put("docs/two.md", "changed");
    assert_eq!(violations(&before), [&expected[..], &["docs/two.md Modified OutOfScope"]].concat());
}

#[test]
fn recordings_side_by_side_see_what_happens_in_their_time() {
    let fixture = Fixture::new();
    let first = fixture.take();
    fixture.put("docs/one.md", "1");
    let second = fixture.take();
    fixture.put("docs/two.md", "2");
    let both = ["docs/one.md Modified OutOfScope", "docs/two.md Modified OutOfScope"];
    assert_eq!(told(&first.diff()), both);
    drop(first);
    assert_eq!(told(&second.diff()), both[1..]);
}

#[test]
fn a_recording_whose_folders_are_no_longer_indexed_does_not_tell_that_nothing_changed() {
    let fixture = Fixture::new();
    let recording = fixture.take();
    fixture.put("docs/one.md", "changed");
    let marker: Arc<dyn Marker> = Arc::clone(&fixture.marker) as _;
    let other = IndexedRoot { path: fixture.at("src"), marker };
    let _other = fixture.index.begin(&[other], &TestScope, &fixture.store).unwrap();
    let unknown = recording.diff().unknown.unwrap();
    assert!(unknown.contains("listed again"), "{unknown}");
    // Nor that all is known once its folders are back.
    fixture.index.places(&fixture.roots()).unwrap();
    assert!(recording.diff().unknown.is_some());
}
