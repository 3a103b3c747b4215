use std::fs;

use super::*;
use roo_text::position::Encoding;
use roo_workspace::Setup;

struct Fixture {
    directory: tempfile::TempDir,
    workspace: Arc<Workspace>,
}

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("w");
        fs::create_dir(&root).unwrap();
        for (name, text) in files {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        }
        let workspace = Arc::new(open(&directory, vec![root]));
        Self { directory, workspace }
    }

    fn tree(&self, limits: Limits) -> String {
        let root = self.workspace.resolve(".", Purpose::List).unwrap();
        let drawn = files::tree(&self.workspace, &root, limits, Instant::now() + limits.time);
        drawn.trim_start_matches("```text\n").replace("\n```", "")
    }
}

fn open(directory: &tempfile::TempDir, folders: Vec<std::path::PathBuf>) -> Workspace {
    Workspace::open(Setup {
        folders,
        state_directory: directory.path().join("state"),
        documents: Arc::default(),
        editor: None,
        encoding: Encoding::Utf16,
    })
    .unwrap()
}

#[test]
fn the_tree_leaves_out_what_is_ignored() {
    let fixture = Fixture::new(&[
        (".gitignore", "*.log\n/build/\n"),
        (".rooignore", "private/\n"),
        (".git/HEAD", ""),
        (".roo/tasks/20250101-00-00-00000000/a.md", ""),
        ("build/out", ""),
        ("a.log", ""),
        ("node_modules/p/index.js", ""),
        ("private/x", ""),
        ("src/deep/er/b.rs", ""),
        ("src/deep/b.log", ""),
        ("src/a\n.rs", ""),
        ("zoo.md", ""),
    ]);
    insta::assert_snapshot!(fixture.tree(Limits::default()), @r"
    .
    ├── .gitignore
    ├── .roo/
    │   └── tasks/ (not shown)
    ├── node_modules/ (not shown)
    ├── src/
    │   ├── a<U+000A>.rs
    │   └── deep/
    │       └── er/
    │           └── b.rs
    └── zoo.md
    ");
}

#[test]
fn what_is_cut_off_lies_deep() {
    let fixture = Fixture::new(&[("a/1/x", ""), ("a/1/y", ""), ("a/2/z", ""), ("b/3/w", ""), ("c", "")]);
    insta::assert_snapshot!(fixture.tree(Limits { entries: 7, ..Limits::default() }), @r"
    .
    ├── a/
    │   ├── 1/
    │   │   ├── x
    │   │   └── … 1 more
    │   └── 2/ (not shown)
    ├── b/
    │   └── 3/ (not shown)
    └── c
    ");
    insta::assert_snapshot!(fixture.tree(Limits { depth: 1, ..Limits::default() }), @r"
    .
    ├── a/ (not shown)
    ├── b/ (not shown)
    └── c
    ");
    insta::assert_snapshot!(fixture.tree(Limits { time: Duration::ZERO, ..Limits::default() }), @r"
    . (not shown)

    This took too long and is incomplete.
    ");
}

#[test]
fn one_directory_does_not_take_the_room_of_all() {
    let names: Vec<String> = (0..100).map(|n| format!("a/{n}")).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), "")).chain([("b/x", "")]).collect();
    let tree = Fixture::new(&files).tree(Limits::default());
    assert!(tree.contains("│   ├── 79\n│   └── … 20 more\n└── b/\n    └── x"), "{tree}");
}

#[tokio::test]
async fn every_part_is_there() {
    let fixture = Fixture::new(&[
        ("package.json", r#"{"scripts": {"test": "touch ran"}}"#),
        ("Cargo.toml", "[package]\nname = \"x\"\n"),
        ("Makefile", "all:\n\ttouch ran\n"),
    ]);
    let text = system_context(&fixture.workspace, Limits::default()).await;
    let root = fixture.directory.path().canonicalize().unwrap().join("w");
    for part in [
        &format!("## Working directory\n\n{}\n", root.display()),
        "├── Cargo.toml\n",
        "- Operating system: ",
        "- Processors: ",
        "- not found: ",
        "- package.json, scripts: test\n- Cargo.toml, package: x\n- Makefile, targets: all\n",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!root.join("ran").exists());
}

#[tokio::test]
async fn a_part_that_is_missing_says_why() {
    let fixture = Fixture::new(&[("package.json", "{"), ("pyproject.toml", "\0")]);
    std::os::unix::fs::symlink("/etc/passwd", fixture.directory.path().join("w/Makefile")).unwrap();
    let text = system_context(&fixture.workspace, Limits::default()).await;
    for part in [
        "- package.json can't be read: EOF",
        "- pyproject.toml can't be read: it is not text",
        "- Makefile can't be read: it points outside the workspace",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let none = Arc::new(open(&fixture.directory, Vec::new()));
    let text = system_context(&none, Limits::default()).await;
    assert!(text.contains("None: no workspace folder is open.") && text.contains("- Processors: "), "{text}");
    assert!(text.contains("there is no package.json, no Cargo.toml"), "{text}");
}
