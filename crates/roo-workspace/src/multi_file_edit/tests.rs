use std::fs;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;

use super::*;
use crate::{Change, Documents, FileOperations, Purpose, Setup, file_uri};
use roo_protocol::task::Range;
use roo_text::position::Encoding;

/// Behaviour of an editor for one part of an edit.
type PartBehaviour = fn(&FakeEditor, &DocumentChange) -> bool;

/// An editor that does with each part of an edit what a test says.
struct FakeEditor {
    documents: Arc<Documents>,
    does: FileOperations,
    part: PartBehaviour,
    /// True if it says that all is done.
    answer: bool,
    asked: Mutex<Vec<Vec<DocumentChange>>>,
    /// Action that runs at the same time.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl FakeEditor {
    fn apply(&self, uri: &str, edits: &[(Range, String)]) {
        let document = self.documents.get(uri).unwrap();
        let edits = edits.iter().rev();
        let changes: Vec<Change> =
            edits.map(|(range, text)| Change { range: Some(*range), text: text.clone() }).collect();
        self.documents.change(uri, document.version + 1, &changes, Encoding::Utf16).unwrap();
    }

    fn all(&self, change: &DocumentChange) -> bool {
        if let DocumentChange::Text { uri, edits, .. } = change {
            self.apply(uri, edits);
        }
        true
    }

    /// As Neovim does with a buffer that is newer than the edit.
    fn all_but_b(&self, change: &DocumentChange) -> bool {
        match change {
            DocumentChange::Text { uri, .. } if uri.ends_with("b.txt") => true,
            change => self.all(change),
        }
    }

    fn none(&self, _: &DocumentChange) -> bool {
        false
    }
}

impl Editor for FakeEditor {
    fn apply_edit<'a>(
        &'a self,
        _: &'a str,
        uri: &'a str,
        _: i32,
        edits: Vec<(Range, String)>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        self.apply(uri, &edits);
        Box::pin(std::future::ready(Ok(())))
    }

    fn apply_all<'a>(
        &'a self,
        _: &'a str,
        changes: Vec<DocumentChange>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        let mut done = true;
        for change in &changes {
            done &= (self.part)(self, change);
        }
        self.asked.lock().unwrap().push(changes);
        if let Some(meanwhile) = self.meanwhile.lock().unwrap().take() {
            meanwhile();
        }
        let answer = match done && self.answer {
            true => Ok(()),
            false => Err(EditRefused { reason: "no".to_owned() }),
        };
        Box::pin(std::future::ready(answer))
    }

    fn file_operations(&self) -> FileOperations {
        self.does
    }

    fn save<'a>(&'a self, _: &'a [String]) -> BoxFuture<'a, Vec<String>> {
        Box::pin(std::future::ready(vec![]))
    }
}

struct Fixture {
    directory: tempfile::TempDir,
    documents: Arc<Documents>,
    editor: Option<Arc<FakeEditor>>,
    workspace: Workspace,
}

impl Fixture {
    /// `a.txt` and `b.txt` are open with unsaved text, `c.txt` and `d.txt` are closed.
    fn new(part: Option<PartBehaviour>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap().join("w");
        fs::create_dir(&root).unwrap();
        let documents = Arc::new(Documents::default());
        for name in ["a.txt", "b.txt", "c.txt", "d.txt"] {
            fs::write(root.join(name), "old\n").unwrap();
        }
        for name in ["a.txt", "b.txt"] {
            documents.open(&file_uri(&root.join(name)), 1, "unsaved\n");
        }
        let editor = part.map(|part| {
            Arc::new(FakeEditor {
                documents: Arc::clone(&documents),
                does: FileOperations::default(),
                part,
                answer: true,
                asked: Mutex::default(),
                meanwhile: Mutex::default(),
            })
        });
        let workspace = Workspace::open(Setup {
            folders: vec![root],
            state_directory: directory.path().join("state"),
            documents: Arc::clone(&documents),
            editor: editor.clone().map(|editor| editor as Arc<dyn Editor>),
            encoding: Encoding::Utf16,
        })
        .unwrap();
        Self { directory, documents, editor, workspace }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("w").join(name)
    }

    fn update(&self, name: &str, before: &str) -> FileEdit {
        let file = self.workspace.resolve(name, Purpose::Write).unwrap();
        FileEdit::Update { file, before: before.into(), after: "new\n".into() }
    }

    /// Two open files and two closed ones.
    fn edits(&self) -> Vec<FileEdit> {
        vec![
            self.update("a.txt", "unsaved\n"),
            self.update("c.txt", "old\n"),
            self.update("b.txt", "unsaved\n"),
            self.update("d.txt", "old\n"),
        ]
    }

    async fn write(&self) -> Result<Vec<ChangedFile>, WriteError> {
        self.workspace.write_all(&self.edits(), "label").await
    }

    fn buffer(&self, name: &str) -> String {
        self.documents.at(&self.path(name)).unwrap().text.to_string()
    }

    /// Returns the content of the buffers and the disk, and further files.
    fn holds(&self) -> Vec<String> {
        let mut all: Vec<String> = ["a.txt", "b.txt"].map(|name| self.buffer(name)).to_vec();
        all.extend(["c.txt", "d.txt"].map(|name| fs::read_to_string(self.path(name)).unwrap()));
        let names = fs::read_dir(self.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        all.push(names.count().to_string());
        all
    }
}

const BEFORE: [&str; 5] = ["unsaved\n", "unsaved\n", "old\n", "old\n", "4"];

#[tokio::test]
async fn buffers_and_files_change_together_by_one_request() {
    let fixture = Fixture::new(Some(FakeEditor::all));
    let changed = fixture.write().await.unwrap();
    assert_eq!(fixture.holds(), ["new\n", "new\n", "new\n", "new\n", "4"]);
    assert_eq!(changed.len(), 4);
    assert!(changed.iter().all(|one| one.after == Some(Digest::of("new\n"))));
    assert_eq!(fixture.editor.as_ref().unwrap().asked.lock().unwrap().len(), 1);
    assert_eq!(fs::read_to_string(fixture.path("a.txt")).unwrap(), "old\n", "nobody saves for the user");
}

#[tokio::test]
async fn an_editor_that_refuses_leaves_all_as_it_was() {
    let fixture = Fixture::new(Some(FakeEditor::none));
    let error = fixture.write().await.unwrap_err();
    assert!(matches!(error, WriteError::Refused { .. }), "{error}");
    assert_eq!(fixture.holds(), BEFORE);
}

#[tokio::test(start_paused = true)]
async fn an_editor_that_does_a_part_takes_it_back() {
    let fixture = Fixture::new(Some(FakeEditor::all_but_b));
    let error = fixture.write().await.unwrap_err();
    assert!(matches!(error, WriteError::Refused { .. }), "{error}");
    assert_eq!(fixture.holds(), BEFORE);
}

#[tokio::test]
async fn a_file_that_changes_while_the_editor_is_asked_undoes_everything() {
    let fixture = Fixture::new(Some(FakeEditor::all));
    let place = fixture.path("d.txt");
    let typed = move || fs::write(place, "somebody's\n").unwrap();
    *fixture.editor.as_ref().unwrap().meanwhile.lock().unwrap() = Some(Box::new(typed));
    let error = fixture.write().await.unwrap_err();
    assert!(matches!(&error, WriteError::Stale { path, .. } if path == "d.txt"), "{error}");
    let mut expected = BEFORE.map(str::to_owned);
    expected[3] = "somebody's\n".to_owned();
    assert_eq!(fixture.holds(), expected);
}

#[tokio::test(start_paused = true)]
async fn text_typed_meanwhile_stays_and_is_reported() {
    let fixture = Fixture::new(Some(FakeEditor::all));
    let (place, documents) = (fixture.path("d.txt"), Arc::clone(&fixture.documents));
    let a = file_uri(&fixture.path("a.txt"));
    let typed = move || {
        fs::write(place, "somebody's\n").unwrap();
        let version = documents.get(&a).unwrap().version + 1;
        let whole = Change { range: None, text: "new\nand typed\n".to_owned() };
        documents.change(&a, version, &[whole], Encoding::Utf16).unwrap();
    };
    *fixture.editor.as_ref().unwrap().meanwhile.lock().unwrap() = Some(Box::new(typed));
    let error = fixture.write().await.unwrap_err();
    assert!(matches!(&error, WriteError::Unsettled { files } if *files == ["a.txt"]), "{error}");
    assert_eq!(fixture.buffer("a.txt"), "new\nand typed\n");
    assert_eq!((fixture.buffer("b.txt").as_str(), &fixture.holds()[2]), ("unsaved\n", &"old\n".to_owned()));
}

/// Two editors that hold other unsaved text of `a.txt` each. The one that typed last is not the one whose text was read.
struct TwoEditors {
    fixture: Fixture,
    read: Arc<FakeEditor>,
    other: Arc<FakeEditor>,
    _attached: [crate::Attachment; 2],
}

impl TwoEditors {
    fn new() -> Self {
        let fixture = Fixture::new(None);
        let uri = file_uri(&fixture.path("a.txt"));
        fixture.documents.close(&uri).unwrap();
        let attach = |text: &str| {
            let documents = Arc::new(Documents::default());
            let editor = Arc::new(FakeEditor {
                documents: Arc::clone(&documents),
                does: FileOperations::default(),
                part: FakeEditor::all,
                answer: true,
                asked: Mutex::default(),
                meanwhile: Mutex::default(),
            });
            documents.open(&uri, 1, text);
            let taking = Arc::clone(&editor) as Arc<dyn Editor>;
            let attached =
                crate::AttachedEditor { documents, editor: Some(taking), encoding: Encoding::Utf16 };
            (editor, fixture.documents.attach(attached))
        };
        let ((read, one), (other, two)) = (attach("read\n"), attach("typed last\n"));
        Self { fixture, read, other, _attached: [one, two] }
    }

    fn edits(&self) -> [FileEdit; 2] {
        [self.fixture.update("a.txt", "read\n"), self.fixture.update("c.txt", "old\n")]
    }

    /// The text of `a.txt` in both.
    fn texts(&self) -> [String; 2] {
        let uri = file_uri(&self.fixture.path("a.txt"));
        [&self.read, &self.other].map(|editor| editor.documents.get(&uri).unwrap().text.to_string())
    }
}

#[tokio::test]
async fn the_document_that_was_edited_says_what_became_of_a_file_that_two_editors_have() {
    let two = TwoEditors::new();
    let changed = two.fixture.workspace.write_all(&two.edits(), "label").await.unwrap();
    assert_eq!(changed[0].after, Some(Digest::of("new\n")));
    assert_eq!(two.texts(), ["new\n", "typed last\n"]);
}

#[tokio::test(start_paused = true)]
async fn an_edit_is_taken_back_in_the_editor_that_made_it() {
    let two = TwoEditors::new();
    let place = two.fixture.path("c.txt");
    let written = move || fs::write(place, "somebody's\n").unwrap();
    *two.read.meanwhile.lock().unwrap() = Some(Box::new(written));
    let error = two.fixture.workspace.write_all(&two.edits(), "label").await.unwrap_err();
    assert!(matches!(&error, WriteError::Stale { path, .. } if path == "c.txt"), "{error}");
    assert_eq!(two.texts(), ["read\n", "typed last\n"]);
}

#[tokio::test]
async fn unsaved_text_that_no_editor_can_change_refuses_the_whole() {
    let fixture = Fixture::new(None);
    let error = fixture.write().await.unwrap_err();
    assert!(matches!(error, WriteError::Unsaved { .. }), "{error}");
    assert_eq!(fixture.holds(), BEFORE);
    // An editor that edits may still not delete.
    let fixture = Fixture::new(Some(FakeEditor::all));
    let file = fixture.workspace.resolve("a.txt", Purpose::Write).unwrap();
    let edits = [fixture.update("c.txt", "old\n"), FileEdit::Delete { file, before: "unsaved\n".into() }];
    let error = fixture.workspace.write_all(&edits, "label").await.unwrap_err();
    assert!(matches!(error, WriteError::Unsaved { .. }), "{error}");
    assert_eq!(fixture.holds(), BEFORE);
}

#[tokio::test]
async fn every_file_must_be_what_its_edit_was_made_from() {
    for (name, before) in [("a.txt", "old\n"), ("c.txt", "older\n"), ("gone.txt", "x\n")] {
        let fixture = Fixture::new(Some(FakeEditor::all));
        let mut edits = fixture.edits();
        edits.retain(|edit| edit.file().display() != name);
        edits.push(fixture.update(name, before));
        let error = fixture.workspace.write_all(&edits, "label").await.unwrap_err();
        assert!(matches!(error, WriteError::Stale { .. }), "{name}: {error}");
        assert_eq!(fixture.holds(), BEFORE, "{name}");
    }
    let fixture = Fixture::new(Some(FakeEditor::all));
    let file = fixture.workspace.resolve("c.txt", Purpose::Write).unwrap();
    let edits = [fixture.update("a.txt", "unsaved\n"), FileEdit::create(file, "x".into())];
    let error = fixture.workspace.write_all(&edits, "label").await.unwrap_err();
    assert!(matches!(error, WriteError::Exists { .. }), "{error}");
    assert_eq!(fixture.holds(), BEFORE);
}

#[tokio::test]
async fn a_byte_order_mark_goes_along_with_a_moved_file() {
    let fixture = Fixture::new(None);
    fs::write(fixture.path("c.txt"), "\u{feff}old\r\n").unwrap();
    let resolve = |name| fixture.workspace.resolve(name, Purpose::Write).unwrap();
    let moved = FileEdit::Move {
        from: resolve("c.txt"),
        to: resolve("deep/e.txt"),
        before: "old\r\n".into(),
        after: "new\r\n".into(),
    };
    fixture.workspace.write_all(&[moved], "label").await.unwrap();
    assert_eq!(fs::read_to_string(fixture.path("deep/e.txt")).unwrap(), "\u{feff}new\r\n");
    assert!(!fixture.path("c.txt").exists());
}

#[tokio::test]
async fn a_removed_file_comes_back_with_every_byte_whatever_its_encoding() {
    let wide: Vec<u8> = "\u{feff}Straße\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let all = [
        (b"Stra\xdfe und B\xfccher\n".to_vec(), "Straße und Bücher\n"),
        (wide, "Straße\r\n"),
        ("\u{feff}Straße\n".into(), "Straße\n"),
        ("Straße\n".into(), "Straße\n"),
    ];
    for (bytes, text) in all {
        let fixture = Fixture::new(None);
        let resolve = |name| fixture.workspace.resolve(name, Purpose::Write).unwrap();
        let content = |name| fs::read(fixture.path(name)).ok();
        fs::write(fixture.path("c.txt"), &bytes).unwrap();
        let deleted = FileEdit::Delete { file: resolve("c.txt"), before: text.into() };
        let moved = FileEdit::Move {
            from: resolve("c.txt"),
            to: resolve("e.txt"),
            before: text.into(),
            after: text.into(),
        };
        for edit in [deleted, moved] {
            let changed = fixture.workspace.write_all(std::slice::from_ref(&edit), "label").await.unwrap();
            assert_eq!(content("c.txt"), None);
            let inverse = edit.inverse(changed[0].removed_encoding.unwrap());
            fixture.workspace.write_all(&[inverse], "label").await.unwrap();
            assert_eq!((content("c.txt"), content("e.txt")), (Some(bytes.clone()), None));
        }
    }
    let fixture = Fixture::new(Some(FakeEditor::all));
    let changed = fixture.write().await.unwrap();
    assert!(changed.iter().all(|file| file.removed_encoding.is_none()), "nothing was deleted or moved");
}

#[tokio::test]
async fn bytes_change_together_with_texts_and_are_taken_back_with_them() {
    let fixture = Fixture::new(None);
    let (png, jpeg): (Arc<[u8]>, Arc<[u8]>) = (b"\x89PNG\0\xff"[..].into(), b"\xff\xd8\xff\0"[..].into());
    let edit = |name: &str, before: Option<&Arc<[u8]>>, after: Option<&Arc<[u8]>>| BytesEdit {
        file: fixture.workspace.resolve(name, Purpose::Write).unwrap(),
        before: before.cloned(),
        after: after.cloned(),
    };
    let disk = |name: &str| fs::read(fixture.path(name)).ok();
    fs::write(fixture.path("old.png"), &png).unwrap();
    fs::write(fixture.path("gone.png"), &png).unwrap();
    let texts = [fixture.update("c.txt", "old\n")];
    let stale = [edit("old.png", Some(&png), Some(&jpeg)), edit("gone.png", Some(&jpeg), None)];
    let error = fixture.workspace.write_all_with(&texts, &stale, "x").await.unwrap_err();
    assert!(matches!(error, WriteError::Stale { .. }), "{error}");
    let exists = [edit("gone.png", None, Some(&jpeg))];
    let error = fixture.workspace.write_all_with(&[], &exists, "x").await.unwrap_err();
    assert!(matches!(error, WriteError::Exists { .. }), "{error}");
    assert_eq!((disk("old.png").as_deref(), disk("c.txt").as_deref()), (Some(&*png), Some(&b"old\n"[..])));
    let open = [edit("a.txt", Some(&b"old\n"[..].into()), None)];
    let error = fixture.workspace.write_all_with(&[], &open, "x").await.unwrap_err();
    assert!(matches!(error, WriteError::Refused { .. }), "{error}");

    let bytes = [
        edit("old.png", Some(&png), Some(&jpeg)),
        edit("gone.png", Some(&png), None),
        edit("deep/new.png", None, Some(&png)),
    ];
    let changed = fixture.workspace.write_all_with(&texts, &bytes, "x").await.unwrap();
    assert_eq!(changed.len(), 1, "of the texts");
    let now = ["old.png", "gone.png", "deep/new.png", "c.txt"].map(disk);
    assert_eq!(now.each_ref().map(Option::as_deref), [Some(&*jpeg), None, Some(&*png), Some(&b"new\n"[..])]);
    let back = bytes.map(BytesEdit::inverse);
    fixture.workspace.write_all_with(&[], &back, "x").await.unwrap();
    let now = ["old.png", "gone.png", "deep/new.png"].map(disk);
    assert_eq!(now.each_ref().map(Option::as_deref), [Some(&*png), Some(&*png), None]);
}
