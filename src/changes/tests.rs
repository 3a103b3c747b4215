//! Real files. What a command does is done by the test itself.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Instant, SystemTime};

use pretty_assertions::assert_eq;

use super::*;

/// `src/` is in scope, `.vscode`, `.roo` and git's own are protected, `scratch/` is nobody's.
struct Rules;

impl Scope for Rules {
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

struct Fixture {
    directory: tempfile::TempDir,
    store: Store,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("kept"), limits).unwrap();
        let fixture = Self { directory, store };
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

    fn take(&self) -> Snapshot {
        Snapshot::take(&[self.at("")], &Rules, &self.store, BUDGET).unwrap()
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

/// What happened, in short.
fn told(changes: &Changes) -> Vec<String> {
    assert_eq!(changes.unknown, None);
    let line = |change: &Change| {
        let from = change.renamed_from.as_ref().map(|from| format!(" from {}", from.display()));
        let what = format!("{:?} {:?}", change.what, change.allowed);
        format!("{} {what}{}", change.path.display(), from.unwrap_or_default())
    };
    changes.changes.iter().map(line).collect()
}

fn outcomes(settled: &[Settled]) -> Vec<String> {
    let mut lines: Vec<String> = settled
        .iter()
        .map(|settled| {
            let outcome = match &settled.settlement {
                Settlement::Restored { .. } => "restored".to_owned(),
                Settlement::Held { why, kept } => format!("held: {why:?}, kept: {}", kept.is_some()),
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
    assert!(before.diff(&Rules, BUDGET).is_clean());
    // Touched, and written anew as it was.
    fs::File::open(fixture.at("docs/one.md"))
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    fs::write(fixture.at("docs/two.md"), "two").unwrap();
    fixture.put(".git/objects/ef/01", "another blob");
    fixture.put(".git/index", "x");
    fixture.put("scratch/x", "x");
    assert_eq!(told(&before.diff(&Rules, BUDGET)), [""; 0]);
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
    let changes = before.diff(&Rules, BUDGET);
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
    use crate::protocol::ids::Digest;
    assert_eq!(digest(&change("docs/one.md").before), Some(Digest::of("one")));
    assert_eq!(digest(&change("src/a.rs").after), Some(Digest::of("other")));
    assert_eq!(change("AGENTS.md").after.as_ref().unwrap().mode, 0o755);
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
    let changes = before.diff(&Rules, BUDGET);
    let settled = before.restore(&changes, &fixture.store);
    assert!(
        settled.iter().all(|settled| matches!(settled.settlement, Settlement::Restored { .. })),
        "{settled:#?}"
    );
    assert_eq!(fixture.everything(), expected);
    assert_eq!(fixture.at("docs/one.md").metadata().unwrap().modified().unwrap(), times);
    assert!(before.diff(&Rules, BUDGET).is_clean());
    // What the command made is not lost.
    let mcp = settled.iter().find(|settled| settled.change.path.ends_with("mcp.json")).unwrap();
    let Settlement::Restored { moved: Some(moved) } = &mcp.settlement else { panic!("{mcp:?}") };
    assert_eq!(fs::read_to_string(moved).unwrap(), "{}");
}

#[test]
fn what_is_in_scope_is_not_touched() {
    let fixture = Fixture::new();
    let before = fixture.take();
    fixture.put("src/a.rs", "other");
    fs::create_dir(fixture.at("src/empty")).unwrap();
    let changes = before.diff(&Rules, BUDGET);
    assert!(changes.is_clean());
    assert_eq!(before.restore(&changes, &fixture.store), []);
    assert_eq!(fixture.read("src/a.rs"), "other");
}

#[test]
fn what_somebody_else_wrote_meanwhile_is_held() {
    let fixture = Fixture::new();
    let before = fixture.take();
    fixture.put("docs/one.md", "by the command");
    fixture.put("docs/new.md", "by the command");
    fs::remove_file(fixture.at("docs/two.md")).unwrap();
    let changes = before.diff(&Rules, BUDGET);
    fixture.put("docs/one.md", "by the user, after that");
    fixture.put("docs/new.md", "by the user");
    fixture.put("docs/two.md", "by the user");
    let settled = before.restore(&changes, &fixture.store);
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
    let Settlement::Held { kept: Some(kept), .. } = &one.settlement else { panic!("{one:?}") };
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
    let changes = before.diff(&Rules, BUDGET);
    fs::rename(fixture.at("docs"), fixture.at("aside")).unwrap();
    symlink(&outside, fixture.at("docs")).unwrap();
    for settled in before.restore(&changes, &fixture.store) {
        assert!(matches!(settled.settlement, Settlement::Held { .. }), "{settled:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("one.md")).unwrap(), "outside");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // Nor is what it leads to taken for the workspace.
    let found = told(&before.diff(&Rules, BUDGET));
    assert!(found.contains(&"docs Modified OutOfScope".to_owned()), "{found:?}");
    assert!(found.contains(&"docs/one.md Deleted OutOfScope".to_owned()), "{found:?}");
}

#[test]
fn a_file_that_was_only_moved_comes_back_even_if_it_was_not_kept() {
    let fixture = Fixture::new();
    fixture.put("unkept/large.bin", "large");
    fixture.put("unkept/other.bin", "other");
    fixture.put("unkept/gone.bin", "gone");
    let before = fixture.take();
    fs::rename(fixture.at("unkept/large.bin"), fixture.at("unkept/renamed.bin")).unwrap();
    fs::rename(fixture.at("unkept/other.bin"), fixture.at("src/other.bin")).unwrap();
    fs::remove_file(fixture.at("unkept/gone.bin")).unwrap();
    let settled = before.restore(&before.diff(&Rules, BUDGET), &fixture.store);
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
fn build_output_that_git_ignores_is_left_out_and_new_rules_hide_nothing() {
    let fixture = Fixture::new();
    fixture.put(".gitignore", "/target\n*.log\n");
    let before = fixture.take();
    fixture.put("target/debug/x", "x");
    fixture.put("build.log", "ignored files are compared as well");
    fixture.put(".gitignore", "/target\n/dist\n");
    fixture.put("dist/x", "x");
    let found = told(&before.diff(&Rules, BUDGET));
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
        let found = told(&before.diff(&Rules, BUDGET));
        assert_eq!(found, [format!("{name} Modified OutOfScope")]);
    }
}

#[test]
fn what_takes_too_long_or_can_not_be_read_is_unknown() {
    let fixture = Fixture::new();
    let before = fixture.take();
    let changes = before.diff(&Rules, Duration::ZERO);
    assert!(!changes.is_clean() && changes.changes.is_empty());
    assert!(changes.unknown.unwrap().contains("too many"));
    let error = Snapshot::take(&[fixture.at("")], &Rules, &fixture.store, Duration::ZERO).err().unwrap();
    assert!(matches!(error, ChangesError::TooMany { .. }), "{error}");
    let error = Snapshot::take(&[fixture.at("missing")], &Rules, &fixture.store, BUDGET).err().unwrap();
    assert!(matches!(error, ChangesError::Io { .. }), "{error}");
    if !rustix::process::geteuid().is_root() {
        fs::create_dir(fixture.at("src/closed")).unwrap();
        fs::set_permissions(fixture.at("src/closed"), fs::Permissions::from_mode(0o0)).unwrap();
        let changes = before.diff(&Rules, BUDGET);
        assert!(changes.unknown.unwrap().contains("src/closed"));
    }
}

#[test]
fn what_is_kept_stays_within_its_limits_and_is_not_read_twice() {
    let fixture = Fixture::with(Limits { file: 8, total: 40 });
    fixture.put("docs/large", "more than eight");
    // Old enough that their times tell.
    let settle = || std::thread::sleep(Duration::from_millis(25));
    settle();
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
    let settled = first.restore(&first.diff(&Rules, BUDGET), &fixture.store);
    assert_eq!(outcomes(&settled), ["docs/large held: NotKept, kept: false"]);
    drop(first);
    for n in 0..20 {
        fixture.put("docs/one.md", &format!("v{n}"));
        let before = fixture.take();
        fs::remove_file(fixture.at("docs/one.md")).unwrap();
        let settled = before.restore(&before.diff(&Rules, BUDGET), &fixture.store);
        assert_eq!(outcomes(&settled), ["docs/one.md restored"], "{n}");
        assert!(kept(&fixture) <= 40, "{}", kept(&fixture));
    }
    // Opened anew, it knows what it has and throws away what was half written, but not by a server that lives.
    let half = |name: &str| fs::File::create(fixture.directory.path().join(name)).unwrap();
    half("kept/x.new").set_modified(SystemTime::now() - Duration::from_secs(90_000)).unwrap();
    half("kept/y.new");
    let again = Store::open(fixture.directory.path().join("kept"), Limits { file: 8, total: 40 }).unwrap();
    assert!(!fixture.directory.path().join("kept/x.new").exists());
    assert!(fixture.directory.path().join("kept/y.new").exists());
    assert_eq!(again.content(crate::protocol::ids::Digest::of("v19")), Some(b"v19".to_vec()));
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
fn protected_names_that_exist_are_named_for_the_sandbox() {
    let fixture = Fixture::new();
    symlink("docs", fixture.at(".roo")).unwrap();
    let found = fixture.take().protected(&Rules);
    let expected: Vec<PathBuf> =
        [".git", ".vscode", "AGENTS.md"].map(|name| fixture.at("").join(name)).into();
    assert_eq!(found, expected);
}

#[test]
fn many_directories_side_by_side_and_in_each_other_need_few_handles() {
    let fixture = Fixture::new();
    for n in 0..2000 {
        fs::create_dir(fixture.at(&format!("src/{n}"))).unwrap();
    }
    let deep = "d/".repeat(200);
    fixture.put(&format!("src/{deep}x"), "x");
    let begun = Instant::now();
    let before = fixture.take();
    assert!(before.len() > 2200, "{} in {:?}", before.len(), begun.elapsed());
    assert!(before.diff(&Rules, BUDGET).is_clean());
}
