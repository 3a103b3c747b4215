use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

/// A workspace `app`, with `app-evil` and `out` beside it.
struct Fixture {
    directory: tempfile::TempDir,
    roots: Roots,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["app/src/deep", "app-evil", "out"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        for name in ["app/src/main.rs", "app/README.md", "app-evil/x", "out/secret"] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let roots = Roots::open(&[directory.path().join("app")]).unwrap();
        Self { directory, roots }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    fn resolve(&self, text: &str) -> Result<Resolved, PathError> {
        self.roots.resolve(text, Purpose::Write)
    }

    fn inside(&self, text: &str) -> String {
        let resolved = self.resolve(text).unwrap();
        assert_eq!(resolved.location(), Location::Inside { root: 0 }, "{text}");
        resolved.relative().to_owned()
    }

    fn outside(&self, text: &str) -> PathBuf {
        let resolved = self.resolve(text).unwrap();
        assert_eq!(resolved.location(), Location::Outside, "{text}");
        resolved.absolute().to_path_buf()
    }
}

#[test]
fn plain_paths_lead_to_themselves() {
    let fixture = Fixture::new();
    assert_eq!(fixture.inside("src/main.rs"), "src/main.rs");
    assert_eq!(fixture.inside("./src//main.rs"), "src/main.rs");
    assert_eq!(fixture.inside("src/deep/../main.rs"), "src/main.rs");
    assert_eq!(fixture.roots.resolve(".", Purpose::List).unwrap().relative(), "");
}

#[test]
fn absolute_text_is_inside_exactly_when_its_place_is() {
    let fixture = Fixture::new();
    assert_eq!(fixture.inside(fixture.path("app/src/main.rs").to_str().unwrap()), "src/main.rs");
    let sibling = fixture.path("app-evil/x");
    assert_eq!(fixture.outside(sibling.to_str().unwrap()), sibling);
    assert_eq!(fixture.outside("/etc/passwd"), Path::new("/etc/passwd"));
}

#[test]
fn climbing_out_is_refused() {
    let fixture = Fixture::new();
    for text in
        ["../app-evil/x", "src/../../out", "src/./../..//out", "src/deep/../../../out/secret", "../../.."]
    {
        for purpose in [Purpose::Read, Purpose::Write, Purpose::List, Purpose::Directory] {
            let refused = fixture.roots.resolve(text, purpose);
            assert!(matches!(refused, Err(PathError::Escapes { .. })), "{text}: {refused:?}");
        }
    }
    // Missing directories can't be climbed out of either.
    assert!(matches!(fixture.resolve("a/b/../../../out/x"), Err(PathError::NotFound { .. })));
}

#[test]
fn climbing_out_and_back_in_stays_inside() {
    let fixture = Fixture::new();
    assert_eq!(fixture.inside("../app/src/main.rs"), "src/main.rs");
}

#[test]
fn links_are_judged_by_where_they_lead() {
    let fixture = Fixture::new();
    fixture.link("src", "app/code");
    fixture.link(fixture.path("app/src"), "app/absolute");
    fixture.link("../out", "app/docs");
    fixture.link("../../out/secret", "app/src/settings.json");

    assert_eq!(fixture.inside("code/main.rs"), "src/main.rs");
    assert_eq!(fixture.inside("absolute/main.rs"), "src/main.rs");
    assert_eq!(fixture.outside("docs/new.md"), fixture.path("out/new.md"));
    assert_eq!(fixture.outside("src/settings.json"), fixture.path("out/secret"));
    // `..` after a link climbs from where the link leads.
    assert_eq!(fixture.outside("docs/../app-evil/x"), fixture.path("app-evil/x"));
}

#[test]
fn links_that_lead_nowhere_are_refused() {
    let fixture = Fixture::new();
    fixture.link(fixture.path("out/created.ts"), "app/src/new.ts");
    fixture.link("b", "app/a");
    fixture.link("a", "app/b");
    assert!(matches!(fixture.resolve("src/new.ts"), Err(PathError::DanglingLink { .. })));
    assert!(matches!(fixture.resolve("src/new.ts/below"), Err(PathError::DanglingLink { .. })));
    assert!(matches!(fixture.resolve("a"), Err(PathError::LinkLoop { .. })));
    assert!(!fixture.path("out/created.ts").exists());
}

#[test]
fn what_is_missing_is_resolved_below_what_exists() {
    let fixture = Fixture::new();
    fixture.link("src", "app/code");
    let resolved = fixture.resolve("code/new/module/mod.rs").unwrap();
    assert_eq!(resolved.relative(), "src/new/module/mod.rs");
    assert_eq!(resolved.kind, FileKind::Missing);
    assert!(matches!(fixture.resolve("README.md/below"), Err(PathError::NotADirectory { .. })));
    assert!(matches!(fixture.resolve("new/"), Err(PathError::IsADirectory { .. })));
}

#[test]
fn nothing_is_expanded() {
    let fixture = Fixture::new();
    for text in ["~/.ssh/config", "$HOME/.ssh/config", "%USERPROFILE%/x"] {
        assert_eq!(fixture.inside(text), text);
    }
}

#[test]
fn texts_that_are_no_plain_path_are_refused() {
    let fixture = Fixture::new();
    let long = "a/".repeat(2100);
    for text in [
        "",
        "src/a\nb.ts",
        "src/\u{1b}[2Ka.ts",
        "src/\u{85}x",
        "src/\0",
        "file:///etc/passwd",
        "FILE:/etc/passwd",
        "https://example.org/x",
        r"\\server\share",
        r"\\?\C:\x",
        "//server/share",
        r"C:\x",
        "C:x",
        long.as_str(),
    ] {
        assert!(fixture.resolve(text).is_err(), "{text:?}");
    }
    // Names with a colon that are no URI are plain names here.
    assert_eq!(fixture.inside("std:vector.md"), "std:vector.md");
}

#[test]
fn disguised_protected_names_are_refused_and_plain_ones_resolve() {
    let fixture = Fixture::new();
    for text in
        [".roo./mcp.json", ".roo /mcp.json", ".roo::$DATA/mcp.json", ".g\u{200c}it/config", ".mcp.json."]
    {
        assert!(matches!(fixture.resolve(text), Err(PathError::Disguised { .. })), "{text:?}");
    }
    assert_eq!(fixture.inside(".ROO/mcp.json"), ".ROO/mcp.json");
    assert_eq!(fixture.inside("notes."), "notes.");
}

#[test]
fn backslashes_and_invisible_characters_are_flagged() {
    let fixture = Fixture::new();
    assert!(fixture.resolve(r"src\main.rs").unwrap().backslash());
    let turned = fixture.resolve("src/\u{202e}gnp.ts").unwrap();
    assert!(turned.invisible());
    assert_eq!(turned.display(), "src/<U+202E>gnp.ts");
    let plain = fixture.resolve("src/-rf").unwrap();
    assert!(!plain.backslash() && !plain.invisible());
}

#[test]
fn purposes_ask_for_the_right_kind() {
    let fixture = Fixture::new();
    let resolve = |text, purpose| fixture.roots.resolve(text, purpose);
    assert!(matches!(resolve("src", Purpose::Read), Err(PathError::IsADirectory { .. })));
    assert!(matches!(resolve("README.md", Purpose::List), Err(PathError::NotADirectory { .. })));
    assert!(matches!(resolve("missing", Purpose::Directory), Err(PathError::NotFound { .. })));
    assert!(matches!(resolve("/dev/null", Purpose::Read), Err(PathError::Special { .. })));
    assert_eq!(resolve("missing", Purpose::Read).unwrap().kind, FileKind::Missing);
}

#[test]
fn the_inner_of_nested_roots_owns_a_file() {
    let fixture = Fixture::new();
    let roots = Roots::open(&[fixture.path("app"), fixture.path("app/src")]).unwrap();
    let resolved = roots.resolve("src/main.rs", Purpose::Read).unwrap();
    assert_eq!(resolved.location(), Location::Inside { root: 1 });
    assert_eq!(resolved.relative(), "main.rs");
    assert_eq!(resolved.display(), fixture.path("app/src/main.rs").to_str().unwrap());
}

#[test]
fn without_a_root_only_absolute_paths_resolve() {
    let roots = Roots::open(&[]).unwrap();
    assert!(matches!(roots.resolve("a", Purpose::Read), Err(PathError::NoRoot { .. })));
    assert_eq!(roots.resolve("/etc/passwd", Purpose::Read).unwrap().location(), Location::Outside);
}

#[test]
fn a_directory_that_becomes_a_link_after_resolution_is_not_followed_even_inside() {
    let fixture = Fixture::new();
    let resolved = fixture.resolve("src/deep/new.txt").unwrap();
    fs::create_dir(fixture.path("app/src/.git")).unwrap();
    for target in [fixture.path("out").as_path(), Path::new(".git")] {
        let _ = fs::remove_dir(fixture.path("app/src/deep"));
        let _ = fs::remove_file(fixture.path("app/src/deep"));
        fixture.link(target, "app/src/deep");
        assert!(resolved.parent().is_err());
        assert!(resolved.parent_created().is_err());
    }
}

/// A step of a random tree: a directory, a file or a link, by small numbers for names.
fn step() -> impl Strategy<Value = (u8, Vec<u8>, Vec<u8>)> {
    (0..4_u8, prop::collection::vec(0..4_u8, 1..4), prop::collection::vec(0..7_u8, 1..5))
}

fn name(number: u8) -> &'static str {
    ["a", "b", "c", "d", "..", ".", "out"].get(usize::from(number)).copied().unwrap_or("a")
}

fn text(numbers: &[u8]) -> String {
    numbers.iter().map(|&number| name(number)).collect::<Vec<_>>().join("/")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// In any tree of links, a path is inside exactly if what the system finds there is.
    #[test]
    fn inside_means_inside(
        steps in prop::collection::vec(step(), 1..14),
        asked in prop::collection::vec(prop::collection::vec(0..7_u8, 1..6), 1..12),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let root = top.join("root");
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(top.join("out/a")).unwrap();
        for (kind, place, target) in &steps {
            let place = root.join(text(place));
            // Steps that can't be done in this tree are left out.
            let _ = match kind {
                0 => fs::create_dir_all(&place),
                1 => fs::write(&place, "x"),
                2 => symlink(text(target), &place),
                _ => symlink(top.join(text(target)), &place),
            };
        }
        let roots = Roots::open(std::slice::from_ref(&root)).unwrap();
        for numbers in &asked {
            for text in [text(numbers), root.join(text(numbers)).to_str().unwrap().to_owned()] {
                for purpose in [Purpose::Read, Purpose::Write, Purpose::List] {
                    let Ok(resolved) = roots.resolve(&text, purpose) else { continue };
                    let inside = resolved.location() == Location::Inside { root: 0 };
                    prop_assert_eq!(resolved.absolute().starts_with(&root), inside);
                    if let Ok(found) = root.join(&text).canonicalize() {
                        prop_assert_eq!(resolved.absolute(), found.as_path());
                    }
                    if inside && !resolved.relative().is_empty() {
                        // The names are real: no link is among them.
                        let mut path = root.clone();
                        for name in resolved.relative().split('/') {
                            path.push(name);
                            prop_assert!(!path.is_symlink(), "{} has a link", path.display());
                        }
                    }
                }
            }
        }
    }
}
