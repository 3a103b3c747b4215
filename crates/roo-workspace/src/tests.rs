use std::fs;
use std::os::unix::fs::symlink;

use futures_util::future::BoxFuture;

use super::*;
use roo_protocol::task::Range;
use roo_text::position::apply_change;

/// Behaviour of a fake editor.
#[derive(Clone, Copy)]
enum Behaviour {
    Applies,
    Refuses,
    /// Applies, and its user types on before anybody looks.
    AppliesAndTypes,
    /// Its user types first, and the editor doesn't mind the version.
    TypesAndApplies,
    /// Its user types first, and the editor minds the version.
    TypesAndRefuses,
    /// Reports success and does nothing.
    Lies,
    /// Applies with the line ends and the last line end it likes.
    AppliesItsOwnWay,
}

struct FakeEditor {
    documents: Arc<Documents>,
    behaviour: Behaviour,
    labels: Mutex<Vec<String>>,
}

impl FakeEditor {
    fn edit(&self, uri: &str, edits: &[(Range, String)]) {
        let version = self.documents.get(uri).unwrap().version + 1;
        let changes: Vec<Change> = edits
            .iter()
            .rev()
            .map(|(range, text)| Change { range: Some(*range), text: text.clone() })
            .collect();
        self.documents.change(uri, version, &changes, Encoding::Utf16).unwrap();
    }

    fn set(&self, uri: &str, text: impl FnOnce(&str) -> String) {
        let document = self.documents.get(uri).unwrap();
        let change = Change { range: None, text: text(&document.text) };
        self.documents.change(uri, document.version + 1, &[change], Encoding::Utf16).unwrap();
    }
}

impl Editor for FakeEditor {
    fn apply_edit<'a>(
        &'a self,
        label: &'a str,
        uri: &'a str,
        version: i32,
        edits: Vec<(Range, String)>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        let refused = || Err(EditRefused { reason: "no".to_owned() });
        self.labels.lock().unwrap().push(label.to_owned());
        assert_eq!(self.documents.get(uri).unwrap().version, version);
        let answer = match self.behaviour {
            Behaviour::Applies => {
                self.edit(uri, &edits);
                Ok(())
            }
            Behaviour::Refuses => refused(),
            Behaviour::AppliesAndTypes => {
                self.edit(uri, &edits);
                self.set(uri, |text| format!("{text}typed"));
                Ok(())
            }
            Behaviour::TypesAndApplies => {
                self.set(uri, |text| format!("typed{text}"));
                self.edit(uri, &edits);
                Ok(())
            }
            Behaviour::TypesAndRefuses => {
                self.set(uri, |text| format!("typed{text}"));
                refused()
            }
            Behaviour::Lies => Ok(()),
            Behaviour::AppliesItsOwnWay => {
                self.set(uri, |text| {
                    let mut text = text.to_owned();
                    for (range, new) in edits.iter().rev() {
                        apply_change(&mut text, Some(*range), new, Encoding::Utf16);
                    }
                    format!("{}\r\n", text.replace('\n', "\r\n"))
                });
                Ok(())
            }
        };
        Box::pin(std::future::ready(answer))
    }

    fn apply_all<'a>(
        &'a self,
        label: &'a str,
        changes: Vec<DocumentChange>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        Box::pin(async move {
            for change in changes {
                let DocumentChange::Text { uri, version, edits } = change else { panic!("{change:?}") };
                self.apply_edit(label, &uri, version.unwrap(), edits).await?;
            }
            Ok(())
        })
    }

    fn file_operations(&self) -> FileOperations {
        FileOperations::default()
    }

    fn save<'a>(&'a self, uris: &'a [String]) -> BoxFuture<'a, Vec<String>> {
        if let Behaviour::Refuses = self.behaviour {
            return Box::pin(std::future::ready(Vec::new()));
        }
        for uri in uris {
            fs::write(path_of(uri).unwrap(), &*self.documents.get(uri).unwrap().text).unwrap();
            self.documents.save(uri).unwrap();
        }
        Box::pin(std::future::ready(uris.to_vec()))
    }
}

struct Fixture {
    directory: tempfile::TempDir,
    workspace: Workspace,
}

impl Fixture {
    fn with(behaviour: Option<Behaviour>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("w")).unwrap();
        let documents = Arc::new(Documents::default());
        let editor = behaviour.map(|behaviour| -> Arc<dyn Editor> {
            Arc::new(FakeEditor { documents: Arc::clone(&documents), behaviour, labels: Mutex::default() })
        });
        let workspace = Workspace::open(Setup {
            folders: vec![directory.path().join("w")],
            state_directory: directory.path().join("state"),
            documents,
            editor,
            encoding: Encoding::Utf16,
        })
        .unwrap();
        Self { directory, workspace }
    }

    fn new(behaviour: Behaviour) -> Self {
        Self::with(Some(behaviour))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("w").join(name)
    }

    /// A file that is open, and its URI.
    fn open(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        let uri = file_uri(&self.path(name));
        self.workspace.documents.open(&uri, 1, text);
        uri
    }

    fn target(&self, name: &str) -> Resolved {
        self.workspace.resolve(name, Purpose::Write).unwrap()
    }

    async fn write(
        &self,
        name: &str,
        expected: Option<&str>,
        after: &str,
    ) -> Result<WrittenFile, WriteError> {
        self.workspace.write(&self.target(name), expected.map(Digest::of), after, "test").await
    }

    fn buffer(&self, uri: &str) -> String {
        self.workspace.documents.get(uri).unwrap().text.to_string()
    }

    fn disk(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

#[tokio::test]
async fn an_open_file_is_read_and_edited_in_its_buffer() {
    let fixture = Fixture::new(Behaviour::Applies);
    let uri = fixture.open("a.rs", "one\n");
    let change = Change { range: None, text: "ünsaved\n".to_owned() };
    fixture.workspace.documents.change(&uri, 2, &[change], Encoding::Utf16).unwrap();

    let read = fixture.workspace.read_for_edit(&fixture.target("a.rs")).await.unwrap();
    assert_eq!(read.text, "ünsaved\n");
    let written = fixture.write("a.rs", Some("ünsaved\n"), "ünsaved, edited\n").await.unwrap();
    assert_eq!(
        written,
        WrittenFile {
            uri: uri.clone(),
            before: Some(read.digest),
            after: Digest::of("ünsaved, edited\n"),
            is_as_given: true
        }
    );
    assert_eq!(fixture.buffer(&uri), "ünsaved, edited\n");
    assert_eq!(fixture.disk("a.rs"), "one\n");
}

#[tokio::test]
async fn bytes_are_written_as_they_are_over_what_was_expected() {
    let fixture = Fixture::new(Behaviour::Applies);
    let write = async |name: &str, expected: Option<&[u8]>, after: &[u8]| {
        fixture.workspace.write_bytes(&fixture.target(name), expected.map(Digest::of), after.to_vec()).await
    };
    let (one, two) = (b"\x89PNG\0\xff".as_slice(), b"\0\xfe".as_slice());
    let (written, replaced) = write("deep/a.png", None, one).await.unwrap();
    assert_eq!((written.before, written.after, replaced), (None, Digest::of(one), None));
    assert_eq!(fs::read(fixture.path("deep/a.png")).unwrap(), one);
    assert!(matches!(write("deep/a.png", None, two).await, Err(WriteError::Exists { .. })));
    let stale = write("deep/a.png", Some(two), two).await.unwrap_err();
    assert!(matches!(stale, WriteError::Stale { actual, .. } if actual == Some(Digest::of(one))), "{stale}");
    let missing = write("b.png", Some(one), two).await.unwrap_err();
    assert!(matches!(missing, WriteError::Stale { actual: None, .. }), "{missing}");
    let (written, replaced) = write("deep/a.png", Some(one), two).await.unwrap();
    assert_eq!((written.before, written.after), (Some(Digest::of(one)), Digest::of(two)));
    assert_eq!(replaced.as_deref(), Some(one));
    assert_eq!(fs::read(fixture.path("deep/a.png")).unwrap(), two);
    // Text in an editor is not replaced by what is none.
    fixture.open("c.png", "text");
    let refused = write("c.png", Some(b"text"), two).await.unwrap_err();
    assert!(matches!(refused, WriteError::Refused { .. }), "{refused}");
    assert_eq!(fixture.disk("c.png"), "text");
}

#[tokio::test]
async fn a_link_to_an_open_file_is_that_file() {
    let fixture = Fixture::new(Behaviour::Applies);
    let uri = fixture.open("a.rs", "one");
    symlink("a.rs", fixture.path("link.rs")).unwrap();
    fixture.write("link.rs", Some("one"), "two").await.unwrap();
    assert_eq!((fixture.buffer(&uri), fixture.disk("a.rs")), ("two".to_owned(), "one".to_owned()));
}

#[tokio::test]
async fn text_that_was_typed_since_the_read_is_stale() {
    let fixture = Fixture::new(Behaviour::Applies);
    let uri = fixture.open("a.rs", "typed");
    let error = fixture.write("a.rs", Some("read"), "new").await.unwrap_err();
    assert!(matches!(error, WriteError::Stale { actual, .. } if actual == Some(Digest::of("typed"))));
    assert!(matches!(fixture.write("a.rs", None, "new").await, Err(WriteError::Exists { .. })));
    assert_eq!(fixture.buffer(&uri), "typed");
}

#[tokio::test]
async fn a_refusal_is_reported_with_its_reason_or_as_stale() {
    let fixture = Fixture::new(Behaviour::Refuses);
    fixture.open("a.rs", "old");
    let error = fixture.write("a.rs", Some("old"), "new").await.unwrap_err();
    assert!(matches!(&error, WriteError::Refused { reason, .. } if reason == "no"));

    let fixture = Fixture::new(Behaviour::TypesAndRefuses);
    let uri = fixture.open("a.rs", "old");
    let error = fixture.write("a.rs", Some("old"), "new").await.unwrap_err();
    assert!(matches!(error, WriteError::Stale { actual, .. } if actual == Some(Digest::of("typedold"))));
    assert_eq!(fixture.buffer(&uri), "typedold");
}

#[tokio::test]
async fn typing_right_after_the_edit_does_not_make_it_fail() {
    let fixture = Fixture::new(Behaviour::AppliesAndTypes);
    let uri = fixture.open("a.rs", "old");
    assert_eq!(fixture.write("a.rs", Some("old"), "new").await.unwrap().after, Digest::of("new"));
    assert_eq!(fixture.buffer(&uri), "newtyped");
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_does_not_show_is_unconfirmed() {
    for (behaviour, left) in [(Behaviour::Lies, "old"), (Behaviour::TypesAndApplies, "newedold")] {
        let fixture = Fixture::new(behaviour);
        let uri = fixture.open("a.rs", "old");
        let error = fixture.write("a.rs", Some("old"), "new").await.unwrap_err();
        let actual = Digest::of(fixture.buffer(&uri));
        assert!(matches!(error, WriteError::Unconfirmed { actual: found, .. } if found == Some(actual)));
        assert_eq!(fixture.buffer(&uri), left);
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_editors_the_one_that_was_asked_says_what_became_of_the_edit() {
    let fixture = Fixture::with(None);
    fs::write(fixture.path("a.rs"), "disk").unwrap();
    let uri = file_uri(&fixture.path("a.rs"));
    let attached = |text: &str| {
        let documents = Arc::new(Documents::default());
        let editor: Arc<dyn Editor> = Arc::new(FakeEditor {
            documents: Arc::clone(&documents),
            behaviour: Behaviour::Lies,
            labels: Mutex::default(),
        });
        documents.open(&uri, 1, text);
        let editor = AttachedEditor { documents, editor: Some(editor), encoding: Encoding::Utf16 };
        fixture.workspace.documents.attach(editor)
    };
    let (_asked, _other) = (attached("read by the task"), attached("typed since in the other"));
    let error = fixture.write("a.rs", Some("read by the task"), "new").await.unwrap_err();
    let actual = Some(Digest::of("read by the task"));
    assert!(matches!(error, WriteError::Unconfirmed { actual: found, .. } if found == actual), "{error:?}");
}

#[tokio::test]
async fn an_editor_may_care_for_line_ends_itself() {
    let fixture = Fixture::new(Behaviour::AppliesItsOwnWay);
    fixture.open("a.rs", "old");
    let written = fixture.write("a.rs", Some("old"), "new\nlines").await.unwrap();
    assert_eq!(written.after, Digest::of("new\r\nlines\r\n"));
}

#[tokio::test]
async fn a_file_that_is_open_but_yet_to_be_written_is_edited() {
    let fixture = Fixture::new(Behaviour::Applies);
    let uri = file_uri(&fixture.path("new.rs"));
    fixture.workspace.documents.open(&uri, 1, "");
    fixture.write("new.rs", None, "text").await.unwrap();
    assert_eq!(fixture.buffer(&uri), "text");
    assert!(!fixture.path("new.rs").exists());
}

#[tokio::test]
async fn without_an_editor_only_saved_documents_are_written() {
    let fixture = Fixture::with(None);
    let uri = fixture.open("a.rs", "old");
    fixture.write("a.rs", Some("old"), "new").await.unwrap();
    assert_eq!(fixture.disk("a.rs"), "new");
    let change = Change { range: None, text: "typed".to_owned() };
    fixture.workspace.documents.change(&uri, 2, &[change], Encoding::Utf16).unwrap();
    assert!(matches!(fixture.write("a.rs", Some("new"), "newer").await, Err(WriteError::Unsaved { .. })));
}

#[tokio::test]
async fn ignored_files_are_neither_read_nor_written() {
    let fixture = Fixture::with(None);
    fs::write(fixture.path(".rooignore"), "hidden.txt\n").unwrap();
    fs::write(fixture.path("hidden.txt"), "x").unwrap();
    let read = fixture.workspace.read(&fixture.target("hidden.txt")).await;
    assert!(matches!(read, Err(ReadError::Ignored { .. })));
    let write = fixture.write("hidden.txt", Some("x"), "y").await;
    assert!(matches!(write, Err(WriteError::Unreadable(ReadError::Ignored { .. }))));
    assert_eq!(fixture.disk("hidden.txt"), "x");
}

#[tokio::test]
async fn writers_of_one_file_take_turns_and_only_one_wins() {
    let fixture = Fixture::with(None);
    fs::write(fixture.path("a.txt"), "0").unwrap();
    let texts: Vec<String> = (1..=8).map(|number| number.to_string()).collect();
    let writes = texts.iter().map(|text| fixture.write("a.txt", Some("0"), text));
    let results = futures_util::future::join_all(writes).await;
    let won: Vec<_> = results.iter().flatten().collect();
    assert_eq!(won.len(), 1);
    assert_eq!(won[0].after, Digest::of(fixture.disk("a.txt")));
    assert!(
        results
            .iter()
            .filter_map(|result| result.as_ref().err())
            .all(|error| { matches!(error, WriteError::Stale { .. }) })
    );
}

#[tokio::test]
async fn unsaved_documents_of_the_workspace_are_saved() {
    let fixture = Fixture::new(Behaviour::Applies);
    let documents = Arc::clone(fixture.workspace.documents());
    let uri = fixture.open("b.rs", "old");
    fixture.open("saved.rs", "same");
    documents.open(&file_uri(&fixture.directory.path().join("outside.rs")), 1, "unsaved");
    documents.open("untitled:Untitled-1", 1, "unsaved");
    let set = |version, text: &str| {
        let change = Change { range: None, text: text.to_owned() };
        documents.change(&uri, version, &[change], Encoding::Utf16).unwrap();
    };

    set(2, "typed");
    set(3, "old");
    assert_eq!(fixture.workspace.dirty_documents().await, []);
    set(4, "typed");
    let dirty = fixture.workspace.dirty_documents().await;
    assert_eq!(dirty.iter().map(|document| &document.uri).collect::<Vec<_>>(), [&uri]);
    assert_eq!(fixture.workspace.save_dirty().await, []);
    assert_eq!(fixture.disk("b.rs"), "typed");
}

#[tokio::test]
async fn text_that_an_editor_brings_back_unsaved_counts() {
    let fixture = Fixture::with(None);
    fs::write(fixture.path("a.rs"), "disk").unwrap();
    fixture.workspace.documents.open(&file_uri(&fixture.path("a.rs")), 1, "kept from yesterday");
    assert_eq!(fixture.workspace.dirty_documents().await.len(), 1);
}

#[tokio::test]
async fn a_save_by_the_user_is_waited_for_but_not_for_ever() {
    let fixture = Fixture::new(Behaviour::Refuses);
    let uri = fixture.open("a.rs", "old");
    let documents = Arc::clone(fixture.workspace.documents());
    let change = |version| {
        let change = Change { range: None, text: "typed".to_owned() };
        documents.change(&uri, version, &[change], Encoding::Utf16).unwrap();
    };
    change(2);
    let save = async {
        tokio::task::yield_now().await;
        fs::write(fixture.path("a.rs"), "typed").unwrap();
        documents.save(&uri).unwrap();
    };
    assert_eq!(tokio::join!(fixture.workspace.save_dirty(), save).0, []);

    fs::write(fixture.path("a.rs"), "other").unwrap();
    change(3);
    documents.change(&uri, 4, &[Change { range: None, text: "again".to_owned() }], Encoding::Utf16).unwrap();
    tokio::time::pause();
    let remaining = fixture.workspace.save_dirty().await;
    assert_eq!(remaining.len(), 1);
}

#[test]
fn no_directory_is_created_through_a_link() {
    let fixture = Fixture::with(None);
    let make = || fixture.workspace.create_directory(".roo/tasks/one");
    for (link, target) in [(".roo", "../out"), (".roo", "inside"), (".roo/tasks", "../../out")] {
        let made = ["out", "w/inside"].map(|name| fixture.directory.path().join(name));
        made.iter().for_each(|path| fs::create_dir_all(path).unwrap());
        let link = fixture.path(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, &link).unwrap();
        assert!(matches!(make(), Err(DirectoryError::Elsewhere { .. })), "{link:?} to {target}");
        assert!(!fixture.workspace.has_place_for(".roo/tasks/one"), "{link:?} to {target}");
        for path in &made {
            assert_eq!(fs::read_dir(path).unwrap().count(), 0, "{link:?} to {target}");
        }
        fs::remove_file(&link).unwrap();
    }
    assert!(fixture.workspace.has_place_for(".roo/tasks/one"));
    assert!(make().unwrap());
    assert!(!make().unwrap(), "it is there already");
}

/// An editor that is asked for its text of a file, and takes its time for an edit.
struct AskedEditor {
    documents: Arc<Documents>,
    asked: Mutex<Vec<FilePurpose>>,
    begun: tokio::sync::Notify,
    may_apply: tokio::sync::Notify,
}

impl Editor for AskedEditor {
    fn refresh<'a>(&'a self, path: &'a Path, purpose: FilePurpose) -> BoxFuture<'a, ()> {
        self.asked.lock().unwrap().push(purpose);
        let uri = file_uri(path);
        match purpose {
            FilePurpose::Write => self.documents.open(&uri, 1, fs::read_to_string(path).unwrap()),
            // It is saved.
            FilePurpose::Read => drop(self.documents.close(&uri)),
        }
        Box::pin(std::future::ready(()))
    }

    fn apply_edit<'a>(
        &'a self,
        _label: &'a str,
        uri: &'a str,
        version: i32,
        edits: Vec<(Range, String)>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        Box::pin(async move {
            self.begun.notify_one();
            self.may_apply.notified().await;
            let changes: Vec<Change> =
                edits.into_iter().rev().map(|(range, text)| Change { range: Some(range), text }).collect();
            let refused = |error: DocumentError| EditRefused { reason: error.to_string() };
            self.documents.change(uri, version + 1, &changes, Encoding::Utf16).map_err(refused)
        })
    }

    fn apply_all<'a>(
        &'a self,
        _label: &'a str,
        _changes: Vec<DocumentChange>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        Box::pin(std::future::ready(Err(EditRefused { reason: "it changes one file at a time".to_owned() })))
    }

    fn file_operations(&self) -> FileOperations {
        FileOperations::default()
    }

    fn save<'a>(&'a self, _uris: &'a [String]) -> BoxFuture<'a, Vec<String>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

#[tokio::test]
async fn who_reads_a_file_while_an_editor_writes_it_does_not_disturb_that() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("w")).unwrap();
    fs::write(directory.path().join("w/a.txt"), "old").unwrap();
    let documents = Arc::new(Documents::default());
    let editor = Arc::new(AskedEditor {
        documents: Arc::clone(&documents),
        asked: Mutex::default(),
        begun: tokio::sync::Notify::new(),
        may_apply: tokio::sync::Notify::new(),
    });
    let workspace = Workspace::open(Setup {
        folders: vec![directory.path().join("w")],
        state_directory: directory.path().join("state"),
        documents,
        editor: Some(Arc::<AskedEditor>::clone(&editor)),
        encoding: Encoding::Utf16,
    })
    .unwrap();
    let target = workspace.resolve("a.txt", Purpose::Write).unwrap();
    let others = async {
        editor.begun.notified().await;
        workspace.read(&target).await.unwrap();
        workspace.dirty_documents().await;
        editor.may_apply.notify_one();
    };
    let write = workspace.write(&target, Some(Digest::of("old")), "new", "test");
    let (written, ()) = tokio::join!(write, others);
    assert_eq!(written.unwrap().after, Digest::of("new"));
    assert_eq!(*editor.asked.lock().unwrap(), [FilePurpose::Write, FilePurpose::Read], "the writer's own");
}
