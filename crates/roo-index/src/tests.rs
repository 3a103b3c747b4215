//! The index over real files, as its users have it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use pretty_assertions::assert_eq;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::*;
use roo_text::position::Encoding;
use roo_workspace::{Purpose, Setup, Workspace, file_uri};

struct Fixture {
    directory: tempfile::TempDir,
    workspace: Arc<Workspace>,
    index: CodeIndex,
}

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::with_embedder(files, Arc::new(|| None))
    }

    fn with_embedder(files: &[(&str, &str)], embedders: EmbedderSource) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("w");
        fs::create_dir(&root).unwrap();
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let workspace = workspace(&directory, vec![root]);
        let index = CodeIndex::new(Arc::clone(&workspace), directory.path().join("state/index"), embedders);
        Self { directory, workspace, index }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("w").join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn database(&self) -> PathBuf {
        self.directory.path().join("state/index/index.sqlite")
    }

    /// The files in the index, and the number under which each was taken in.
    fn indexed_files(&self) -> BTreeMap<String, i64> {
        let store = self.index_directory().open_existing().unwrap().unwrap();
        let root = store.root(&self.path("").canonicalize().unwrap()).unwrap().unwrap();
        store.files(root).unwrap().into_iter().map(|(path, file)| (path, file.id)).collect()
    }

    /// Another index over the same files, as another process would have it.
    fn other(&self) -> CodeIndex {
        let directory = self.directory.path().join("state/index");
        CodeIndex::new(Arc::clone(&self.workspace), directory, Arc::new(|| None))
    }

    fn index_directory(&self) -> store::IndexDirectory {
        store::IndexDirectory::new(self.directory.path().join("state/index"))
    }

    async fn findings(&self, text: &str) -> Findings {
        ask(&self.index, text, None).await.unwrap()
    }

    /// The results as `path:first-last`.
    async fn find(&self, text: &str) -> Vec<String> {
        shown(&self.findings(text).await)
    }

    async fn find_below(&self, path: &str, text: &str) -> Result<Vec<String>, SearchError> {
        let place = self.workspace.resolve(path, Purpose::List);
        let place = place.or_else(|_| self.workspace.resolve(path, Purpose::Read)).unwrap();
        Ok(shown(&ask(&self.index, text, Some(place)).await?))
    }
}

fn workspace(directory: &tempfile::TempDir, folders: Vec<PathBuf>) -> Arc<Workspace> {
    let setup = Setup {
        folders,
        state_directory: directory.path().join("state"),
        documents: Arc::default(),
        editor: None,
        encoding: Encoding::Utf16,
    };
    Arc::new(Workspace::open(setup).unwrap())
}

fn shown(findings: &Findings) -> Vec<String> {
    let line =
        |chunk: &FoundChunk| format!("{}:{}-{}", chunk.file.display(), chunk.lines.start, chunk.lines.end);
    findings.chunks.iter().map(line).collect()
}

fn no_mask() -> Mask {
    Arc::new(|_| None)
}

/// Masks one password.
fn mask() -> Mask {
    Arc::new(|text| text.contains("hunter2secret").then(|| text.replace("hunter2secret", "[masked: token]")))
}

async fn ask(
    index: &CodeIndex,
    text: &str,
    place: Option<roo_workspace::Resolved>,
) -> Result<Findings, SearchError> {
    ask_masked(index, text, place, no_mask()).await
}

async fn ask_masked(
    index: &CodeIndex,
    text: &str,
    place: Option<roo_workspace::Resolved>,
    mask: Mask,
) -> Result<Findings, SearchError> {
    let question = Question { text: text.to_owned(), place, limit: 10 };
    index.search(question, mask, &CancellationToken::new(), &|_, _| ()).await
}

#[tokio::test]
async fn texts_without_blanks_between_words_are_found_by_their_parts() {
    let fixture = Fixture::new(&[
        ("db.py", "# データベース接続の再試行回数とその待ち時間\nretries = 3\n"),
        ("ui.py", "# 画面の配色\ncolor = 1\n"),
    ]);
    for question in ["データベース", "再試行", "接続を再試行する"] {
        assert_eq!(fixture.find(question).await.first().map(String::as_str), Some("db.py:1-2"), "{question}");
    }
    assert_eq!(fixture.find("配色").await, ["ui.py:1-2"]);
}

#[tokio::test]
async fn files_in_other_encodings_are_found_and_shown_as_text() {
    let fixture = Fixture::new(&[]);
    fs::write(fixture.path("latin.txt"), b"la carte du caf\xe9 d'\xe9t\xe9\n").unwrap();
    let wide = "\u{feff}der gebrühte Tee\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    fs::write(fixture.path("wide.txt"), wide).unwrap();
    for (word, name, text) in [
        ("café", "latin.txt:1-1", "la carte du café d'été\n"),
        ("gebrühte", "wide.txt:1-1", "der gebrühte Tee\n"),
    ] {
        let findings = fixture.findings(word).await;
        assert_eq!(shown(&findings), [name]);
        assert_eq!(findings.chunks[0].text, text);
    }
}

const RETRY: &str =
    "/// Waits longer after each failure.\nfn retryDelay(attempt: u32) -> u64 {\n    1 << attempt\n}\n";
const LOGIN: &str = "def check_password(user, password):\n    return user.verify(password)\n";

#[tokio::test]
async fn files_that_have_a_name_are_known_without_a_search() {
    let fixture = Fixture::new(&[
        ("a.rs", "fn retry_delay() {}\n"),
        ("b.rs", "fn other() {}\n"),
        ("hidden.rs", "fn retry_delay() {}\n"),
    ]);
    let files = |name: &str| -> Vec<String> {
        fixture.index.files_with(name).iter().map(|file| file.display()).collect()
    };
    assert_eq!(files("retry_delay"), [""; 0], "nothing is indexed by looking");
    fixture.find("delay of retries").await;
    let mut found = files("retry_delay");
    found.sort();
    assert_eq!(found, ["a.rs", "hidden.rs"]);
    fixture.put(".rooignore", "hidden.rs\n");
    assert_eq!(files("retry_delay"), ["a.rs"]);
    assert_eq!(files("unknown"), [""; 0]);
    assert_eq!(CodeIndex::none().files_with("retry_delay").len(), 0);
}

#[tokio::test]
async fn a_question_finds_code_by_the_parts_of_its_names() {
    let fixture =
        Fixture::new(&[("src/net.rs", RETRY), ("app/login.py", LOGIN), ("notes.txt", "nothing here\n")]);
    let findings = fixture.findings("where is the delay between retries computed?").await;
    assert_eq!(shown(&findings), ["src/net.rs:1-4"]);
    assert_eq!((findings.chunks[0].text.as_str(), findings.chunks[0].score), (RETRY, 1.0));
    assert_eq!(findings.notes, Vec::<String>::new());
    assert_eq!(fixture.find("verify a user's password").await, ["app/login.py:1-2"]);
    assert_eq!(fixture.find("login").await, ["app/login.py:1-2"], "by its path");
    assert_eq!(fixture.find("unicorns").await, Vec::<String>::new());
    assert!(matches!(ask(&fixture.index, "where is it", None).await, Err(SearchError::NoWords)));
}

#[tokio::test]
async fn nothing_is_made_before_a_search() {
    let fixture = Fixture::new(&[("a.rs", RETRY)]);
    assert!(fixture.index.is_offered());
    assert_eq!(fixture.index.status().unwrap(), None);
    assert!(!fixture.database().exists());
    fixture.find("retry").await;
    let status = fixture.index.status().unwrap().unwrap();
    assert_eq!((status.files, status.total, status.chunks, status.is_complete), (1, 1, 1, true));
    assert_eq!(fs::metadata(fixture.database()).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fixture.index.clear().unwrap() && !fixture.index.clear().unwrap());
    assert_eq!(fixture.index.status().unwrap(), None);
    assert!(!CodeIndex::none().is_offered());
}

#[tokio::test]
async fn what_changes_on_disk_is_found_at_once_and_what_is_gone_is_not() {
    let fixture = Fixture::new(&[("a.rs", RETRY), ("b.py", LOGIN)]);
    assert_eq!(fixture.find("password").await, ["b.py:1-2"]);
    fixture.put("b.py", "def logout(session):\n    session.close()\n");
    fixture.put("c.rs", "fn password_of(user: u8) {}\n");
    assert_eq!(fixture.find("password").await, ["c.rs:1-1"]);
    assert_eq!(fixture.find("close the session").await, ["b.py:1-2"]);
    fs::remove_file(fixture.path("c.rs")).unwrap();
    assert_eq!(fixture.find("password").await, Vec::<String>::new());
    assert_eq!(fixture.index.status().unwrap().unwrap().files, 2);
}

#[tokio::test]
async fn an_unsaved_text_counts_in_the_place_of_its_file() {
    let fixture = Fixture::new(&[("a.rs", RETRY)]);
    assert_eq!(fixture.find("delay").await, ["a.rs:1-4"]);
    let documents = fixture.workspace.documents();
    documents.open(&file_uri(&fixture.path("a.rs")), 1, "fn unsaved() {}\n");
    assert_eq!(fixture.find("unsaved").await, ["a.rs:1-1"]);
    assert_eq!(fixture.find("delay").await, Vec::<String>::new());
    documents.close(&file_uri(&fixture.path("a.rs"))).unwrap();
    assert_eq!(fixture.find("delay").await, ["a.rs:1-4"]);
}

#[tokio::test]
async fn what_may_not_be_read_does_not_come_out_whenever_that_was_said() {
    let secret = "fn launch_code() {}\n";
    let files = [
        ("open.rs", secret),
        ("kept/a.rs", secret),
        ("kept/b.rs", secret),
        ("git/c.rs", secret),
        (".env", "launch_code=1\n"),
    ];
    let fixture = Fixture::new(&files);
    assert_eq!(
        fixture.find("launch").await,
        ["git/c.rs:1-1", "kept/a.rs:1-1", "kept/b.rs:1-1", "open.rs:1-1"]
    );
    // The index has them, and nobody brings it up to date.
    let lock = fixture.index_directory().lock().unwrap();
    fixture.put(".rooignore", "kept/\n");
    fixture.put(".gitignore", "/git\n");
    let findings = fixture.findings("launch").await;
    assert_eq!(shown(&findings), ["open.rs:1-1"]);
    assert!(findings.notes[0].contains("is being built"), "{:?}", findings.notes);
    drop(lock);
    assert_eq!(fixture.find("launch").await, ["open.rs:1-1"]);
    assert_eq!(fixture.index.status().unwrap().unwrap().files, 2, "open.rs and .gitignore");
    fs::remove_file(fixture.path(".rooignore")).unwrap();
    fs::hard_link(fixture.path(".env"), fixture.path("copy.rs")).unwrap();
    assert_eq!(fixture.find("launch").await, ["kept/a.rs:1-1", "kept/b.rs:1-1", "open.rs:1-1"]);
}

#[tokio::test]
async fn a_file_that_became_a_link_is_not_followed() {
    let fixture = Fixture::new(&[("a.rs", RETRY)]);
    assert_eq!(fixture.find("delay").await, ["a.rs:1-4"]);
    let outside = fixture.directory.path().join("outside.rs");
    fs::rename(fixture.path("a.rs"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, fixture.path("a.rs")).unwrap();
    let _lock = fixture.index_directory().lock().unwrap();
    assert_eq!(fixture.find("delay").await, Vec::<String>::new());
}

#[tokio::test]
async fn secrets_are_neither_shown_nor_found() {
    let fixture = Fixture::new(&[("a.py", "token = 'hunter2secret'\n")]);
    let search = async |text: &str| ask_masked(&fixture.index, text, None, mask()).await.unwrap();
    assert_eq!(search("token").await.chunks[0].text, "token = '[masked: token]'\n");
    assert!(search("hunter2secret").await.chunks.is_empty());
}

#[tokio::test]
async fn a_secret_that_was_none_when_its_file_was_indexed_can_not_be_guessed() {
    let password = "password_of = 'hunter2secret'\n";
    let fixture = Fixture::new(&[("a.py", password), ("b.py", "password_of = user.password_of_user\n")]);
    // Whoever asks first masks nothing.
    assert_eq!(fixture.find("hunter2secret").await, ["a.py:1-1"]);
    let search = async |text: &str| ask_masked(&fixture.index, text, None, mask()).await.unwrap();
    let scores = |findings: &Findings| -> Vec<(String, f64)> {
        let chunks = findings.chunks.iter();
        chunks.map(|chunk| (chunk.file.display(), chunk.score)).collect()
    };
    let guessed = search("password hunter2secret").await;
    assert_eq!(scores(&guessed), scores(&search("password wrong2guess").await), "the order tells nothing");
    assert!(guessed.chunks.iter().all(|chunk| !chunk.text.contains("hunter2")), "{guessed:?}");
    assert!(search("hunter2secret").await.chunks.is_empty());
    // And in the other direction, as with two processes that know other secrets.
    assert_eq!(fixture.find("password").await.len(), 2);
}

#[tokio::test]
async fn a_search_can_be_of_a_directory_or_a_file() {
    let fixture = Fixture::new(&[("a/x.rs", RETRY), ("a/y.rs", RETRY), ("ab/x.rs", RETRY)]);
    assert_eq!(fixture.find_below("a", "delay").await.unwrap(), ["a/x.rs:1-4", "a/y.rs:1-4"]);
    assert_eq!(fixture.find_below("a/y.rs", "delay").await.unwrap(), ["a/y.rs:1-4"]);
    assert_eq!(fixture.find_below(".", "delay").await.unwrap().len(), 3);
    assert!(matches!(fixture.find_below("/", "delay").await, Err(SearchError::Outside)));
}

#[tokio::test]
async fn a_damaged_index_is_built_anew_and_that_is_told() {
    let fixture = Fixture::new(&[("a.rs", RETRY)]);
    fixture.find("delay").await;
    let whole = fs::read(fixture.database()).unwrap();
    let mut torn = whole.clone();
    torn[100..].fill(0x5a);
    let mut other_version = whole.clone();
    // The header's user version.
    other_version[60..64].copy_from_slice(&7_u32.to_be_bytes());
    let cases: [(&[u8], bool); 5] = [
        (b"no database at all", true),
        (&torn, true),
        (&whole[..4096], true),
        (b"", false),
        (&other_version, false),
    ];
    for (bytes, is_told) in cases {
        for suffix in ["-wal", "-shm"] {
            let _ =
                fs::remove_file(fixture.directory.path().join(format!("state/index/index.sqlite{suffix}")));
        }
        fs::write(fixture.database(), bytes).unwrap();
        let findings = fixture.findings("delay").await;
        assert_eq!(shown(&findings), ["a.rs:1-4"]);
        let told = ["The index was damaged, so it was rebuilt.".to_owned()];
        assert_eq!(findings.notes, if is_told { &told[..] } else { &[] }, "{} bytes", bytes.len());
        assert_eq!(fixture.findings("delay").await.notes, Vec::<String>::new());
    }
}

#[tokio::test]
async fn others_write_to_the_index_while_a_pass_reads_files() {
    let fixture = Fixture::new(&[("a.rs", RETRY), ("b.py", LOGIN)]);
    let directory = fixture.index_directory();
    let written = Arc::new(AtomicUsize::new(0));
    // It is asked about each file that is read, on the thread of the pass. A writer that has to wait fails in the end.
    let mask: Mask = {
        let written = Arc::clone(&written);
        Arc::new(move |_: &str| -> Option<String> {
            let store = directory.open_existing().unwrap().unwrap();
            store.change().unwrap().commit().unwrap();
            written.fetch_add(1, Ordering::SeqCst);
            None
        })
    };
    assert_eq!(fixture.index.build(mask, &CancellationToken::new(), &|_, _| ()).await.unwrap(), None);
    assert_eq!(written.load(Ordering::SeqCst), 2);
    assert_eq!(fixture.find("password").await, ["b.py:1-2"]);
}

#[tokio::test]
async fn two_servers_search_and_build_at_once() {
    let files: Vec<(String, String)> = (0..300)
        .map(|number| {
            (format!("d{}/f{number}.rs", number % 7), RETRY.replace("retry", &format!("retry{number}")))
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let fixture = Fixture::new(&files);
    let other = fixture.other();
    for round in 0..4 {
        fixture.put("new.rs", &format!("fn round_marker{round}() {{}}\n"));
        let question = format!("round marker{round}");
        let (one, two) = tokio::join!(ask(&fixture.index, &question, None), ask(&other, &question, None));
        for findings in [one.unwrap(), two.unwrap()] {
            let is_told = !findings.notes.is_empty();
            assert!(is_told || shown(&findings) == ["new.rs:1-1"], "{findings:?}");
        }
    }
    assert_eq!(fixture.find("delay retry123").await[0], "d4/f123.rs:1-4");
    let status = other.status().unwrap().unwrap();
    assert_eq!((status.files, status.chunks, status.is_complete), (301, 301, true));
}

#[tokio::test]
async fn a_build_that_is_cancelled_stops_and_the_next_goes_on() {
    let files: Vec<(String, String)> =
        (0..200).map(|number| (format!("f{number}.rs"), RETRY.repeat(40))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let fixture = Fixture::new(&files);
    let cancel = CancellationToken::new();
    let stopped = {
        let report = |done, _| {
            if done > 0 {
                cancel.cancel();
            }
        };
        fixture.index.build(no_mask(), &cancel, &report).await
    };
    assert!(matches!(stopped, Err(SearchError::Cancelled)), "{stopped:?}");
    let status = fixture.index.status().unwrap().unwrap();
    assert!(0 < status.files && status.files < 200 && !status.is_complete, "{status:?}");
    let first = fixture.indexed_files();
    assert_eq!(fixture.index.build(no_mask(), &CancellationToken::new(), &|_, _| ()).await.unwrap(), None);
    let all = fixture.indexed_files();
    assert_eq!((all.len(), first.iter().find(|(path, id)| all.get(*path) != Some(id))), (200, None));
    assert!(fixture.index.status().unwrap().unwrap().is_complete);
}

#[tokio::test]
async fn an_unfinished_index_says_what_may_be_missing() {
    let fixture = Fixture::new(&[("a.rs", RETRY), ("b.rs", RETRY)]);
    fixture.find("delay").await;
    let directory = fixture.index_directory();
    let lock = directory.lock().unwrap();
    let opened = directory.open(&lock).unwrap();
    let changes = opened.change().unwrap();
    changes.set(store::Fact::Complete, 0).unwrap();
    changes.set(store::Fact::Total, 5).unwrap();
    changes.commit().unwrap();
    let findings = fixture.findings("delay").await;
    assert_eq!(shown(&findings), ["a.rs:1-4", "b.rs:1-4"]);
    let expected = "The index is 40 % complete, so results may be missing (the index of this workspace is being built, \
                    perhaps by another roo-lsp process). Search again later, or use search_files.";
    assert_eq!(findings.notes, [expected]);
}

#[tokio::test]
async fn a_file_is_read_once_for_all_of_its_chunks() {
    let fixture = Fixture::new(&[("a.txt", &"delay = 1\n".repeat(130))]);
    fixture.find("delay").await;
    let masked = Arc::new(AtomicUsize::new(0));
    // What is read is masked, once each time.
    let mask: Mask = {
        let masked = Arc::clone(&masked);
        Arc::new(move |_: &str| -> Option<String> {
            masked.fetch_add(1, Ordering::SeqCst);
            None
        })
    };
    let place = fixture.workspace.resolve("a.txt", Purpose::Read).unwrap();
    let findings = ask_masked(&fixture.index, "delay", Some(place), mask).await.unwrap();
    let mut found = shown(&findings);
    found.sort_unstable();
    assert_eq!(found, ["a.txt:1-60", "a.txt:121-130", "a.txt:61-120"]);
    assert_eq!(masked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn generated_large_and_binary_files_have_nothing_to_find() {
    let fixture = Fixture::new(&[
        ("Cargo.lock", "delay = 1\n"),
        ("app.min.js", "delay()\n"),
        ("binary.rs", "delay\0"),
        ("large.rs", &"delay ".repeat(300_000)),
        ("long.rs", &format!("fn delay() {{ \"{}\" }}\n", "x y ".repeat(5_000))),
    ]);
    assert_eq!(fixture.find("delay").await, ["long.rs:1-1"]);
    assert_eq!(fixture.index.status().unwrap().unwrap().files, 2);
}

/// Knows that cars are vehicles, and counts what it is asked.
#[derive(Default)]
struct Vehicles {
    asked: Mutex<Vec<String>>,
    failures: AtomicUsize,
    /// Permits to answer about code, one for each request; none where it answers at once.
    held: Option<Semaphore>,
}

impl Vehicles {
    fn source(self: &Arc<Self>) -> EmbedderSource {
        let embedder = Arc::clone(self);
        Arc::new(move || Some(Ok(Arc::<Self>::clone(&embedder))))
    }

    /// The number of functions that it was asked about.
    fn functions(&self) -> usize {
        self.asked.lock().unwrap().iter().filter(|text| text.contains("def")).count()
    }
}

impl Embedder for Vehicles {
    fn name(&self) -> String {
        "test/vehicles".to_owned()
    }

    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, String>> {
        Box::pin(async move {
            let left = self.failures.load(Ordering::SeqCst);
            if left > 0 {
                self.failures.store(left - 1, Ordering::SeqCst);
                return Err("the endpoint is down".to_owned());
            }
            self.asked.lock().unwrap().extend(texts.iter().cloned());
            if let Some(held) = self.held.as_ref().filter(|_| texts[0].contains("def")) {
                held.acquire().await.unwrap().forget();
            }
            let about = |text: &String, words: &[&str]| {
                f32::from(u8::from(words.iter().any(|word| text.contains(word))))
            };
            let vector =
                |text: &String| vec![about(text, &["car", "vehicle"]), about(text, &["tree", "plant"]), 0.1];
            Ok(texts.iter().map(vector).collect())
        })
    }
}

#[tokio::test]
async fn vectors_find_what_no_word_does_and_are_made_once_for_a_text() {
    let embedder = Arc::new(Vehicles::default());
    let files = [("a.py", "def drive(car):\n    pass\n"), ("b.py", "def grow(tree):\n    pass\n")];
    let fixture = Fixture::with_embedder(&files, embedder.source());
    assert_eq!(fixture.find("vehicle").await[0], "a.py:1-2");
    assert_eq!(fixture.find("plant").await[0], "b.py:1-2");
    assert_eq!(embedder.functions(), 2);
    fs::rename(fixture.path("a.py"), fixture.path("c.py")).unwrap();
    assert_eq!(fixture.find("vehicle").await[0], "c.py:1-2");
    assert_eq!(embedder.functions(), 2, "the text has not changed");
    fs::rename(fixture.path("c.py"), fixture.directory.path().join("c.py")).unwrap();
    assert_eq!(fixture.find("vehicle").await, ["b.py:1-2"]);
    assert_eq!(fixture.index.status().unwrap().unwrap().vectors, 1);
    fs::rename(fixture.directory.path().join("c.py"), fixture.path("c.py")).unwrap();
    assert_eq!(fixture.find("vehicle").await[0], "c.py:1-2");
    assert_eq!(embedder.functions(), 2, "as with another branch of the repository");
    assert_eq!(fixture.index.status().unwrap().unwrap().vectors, 2);
    embedder.failures.store(2, Ordering::SeqCst);
    fixture.put("d.py", "def vehicle_of(owner):\n    pass\n");
    let findings = fixture.findings("vehicle").await;
    assert_eq!(shown(&findings), ["d.py:1-2"]);
    assert_eq!(findings.notes, ["Ranked by words alone: the endpoint is down."]);
    embedder.failures.store(1, Ordering::SeqCst);
    fixture.put("e.py", "def owner_of(vehicle):\n    pass\n");
    let findings = fixture.findings("plant").await;
    let note = "Some of the code has no embedding yet, so results may be missing: the endpoint is down.";
    assert_eq!(findings.notes, [note], "the question has a vector");
}

#[tokio::test]
async fn while_vectors_are_made_what_changes_is_found() {
    let embedder = Arc::new(Vehicles { held: Some(Semaphore::new(0)), ..Vehicles::default() });
    let fixture = Fixture::with_embedder(&[("a.py", "def drive(car):\n    pass\n")], embedder.source());
    let cancel = CancellationToken::new();
    let build = fixture.index.build(no_mask(), &cancel, &|_, _| ());
    let search = async {
        while embedder.functions() == 0 {
            tokio::task::yield_now().await;
        }
        fixture.put("c.py", "def steer(wheel):\n    pass\n");
        let findings = fixture.findings("steer").await;
        assert_eq!(shown(&findings), ["c.py:1-2"]);
        assert!(findings.notes[0].starts_with("Embeddings are still being computed"), "{:?}", findings.notes);
        // Another process is not kept from building either.
        drop(fixture.index_directory().lock().unwrap());
        embedder.held.as_ref().unwrap().add_permits(10);
    };
    let (built, ()) = tokio::join!(build, search);
    assert_eq!(built.unwrap(), None);
    assert_eq!(embedder.functions(), 2, "no text was sent twice");
    assert_eq!(fixture.index.status().unwrap().unwrap().vectors, 2);
}

#[tokio::test]
async fn an_index_that_is_rebuilt_while_vectors_are_made_gets_all_of_them() {
    let embedder = Arc::new(Vehicles { held: Some(Semaphore::new(0)), ..Vehicles::default() });
    let fixture = Fixture::with_embedder(&[("b.py", "def drive(car):\n    pass\n")], embedder.source());
    let cancel = CancellationToken::new();
    let build = fixture.index.build(no_mask(), &cancel, &|_, _| ());
    let rebuild = async {
        while embedder.functions() == 0 {
            tokio::task::yield_now().await;
        }
        assert!(fixture.index.clear().unwrap());
        // Its path is before that of the file whose vector is being made.
        fixture.put("a.py", "def steer(wheel):\n    pass\n");
        let rebuilt = fixture.other().build(no_mask(), &CancellationToken::new(), &|_, _| ()).await;
        assert_eq!(rebuilt.unwrap(), None);
        embedder.held.as_ref().unwrap().add_permits(10);
    };
    let (built, ()) = tokio::join!(build, rebuild);
    assert_eq!(built.unwrap(), None);
    assert_eq!(embedder.functions(), 2, "no text was sent twice");
    assert_eq!(fixture.index.status().unwrap().unwrap().vectors, 2);
}

#[tokio::test]
async fn an_embedder_gets_questions_without_secrets() {
    let embedder = Arc::new(Vehicles::default());
    let fixture = Fixture::with_embedder(&[("a.py", "def drive(car):\n    pass\n")], embedder.source());
    ask_masked(&fixture.index, "who drives with hunter2secret", None, mask()).await.unwrap();
    let asked = embedder.asked.lock().unwrap().clone();
    assert_eq!(asked[1..], ["who drives with [masked: token]"]);
}

#[tokio::test]
async fn an_open_file_is_hidden_by_its_other_names_too() {
    let embedder = Arc::new(Vehicles::default());
    let fixture = Fixture::with_embedder(&[(".env", "launch_code=1\n")], embedder.source());
    fs::hard_link(fixture.path(".env"), fixture.path("copy.py")).unwrap();
    let documents = fixture.workspace.documents();
    documents.open(&file_uri(&fixture.path("copy.py")), 1, "launch_code = 2\n");
    assert_eq!(fixture.find("launch").await, Vec::<String>::new());
    assert_eq!(*embedder.asked.lock().unwrap(), ["launch"], "the question alone");
    assert_eq!(fixture.index.status().unwrap().unwrap().chunks, 0);
}

#[tokio::test]
async fn what_another_workspace_has_in_the_same_index_takes_no_place() {
    let fixture = Fixture::new(&[("a.rs", &RETRY.replace("attempt", "attempt_of_this_request"))]);
    let other = fixture.directory.path().join("other");
    fs::create_dir(&other).unwrap();
    for number in 0..250 {
        fs::write(other.join(format!("{number}.rs")), format!("fn retryDelay() {{ {number} }}\n")).unwrap();
    }
    let both = workspace(&fixture.directory, vec![fixture.path(""), other]);
    let both = CodeIndex::new(both, fixture.directory.path().join("state/index"), Arc::new(|| None));
    assert_eq!(ask(&both, "retry delay", None).await.unwrap().chunks.len(), 10);
    assert_eq!(both.status().unwrap().unwrap().chunks, 251);
    assert_eq!(fixture.find("retry delay").await, ["a.rs:1-4"]);
    let status = fixture.index.status().unwrap().unwrap();
    assert_eq!((status.files, status.chunks), (1, 1));
}

#[tokio::test]
async fn what_is_read_of_one_moment_does_not_change_meanwhile() {
    let fixture = Fixture::new(&[("a.rs", RETRY)]);
    fixture.find("delay").await;
    let directory = fixture.index_directory();
    let store = directory.open_existing().unwrap().unwrap();
    let moment = store.one_moment().unwrap();
    let find = || {
        let words = ["delay".to_owned()];
        let bounds = store::WordSearchBounds { found: 10, ranked: 100, ranked_by_common: 100 };
        store.with_words(&words, &store::Scope::Roots(vec![1]), bounds).unwrap().chunks
    };
    let before = find();
    assert_eq!(before.len(), 1);
    let other = directory.open(&directory.lock().unwrap()).unwrap();
    let changes = other.change().unwrap();
    changes.remove_root(1).unwrap();
    changes.commit().unwrap();
    assert_eq!(find(), before);
    drop(moment);
    assert_eq!(find(), []);
}

#[tokio::test]
async fn where_every_word_is_common_those_with_all_of_them_are_ranked() {
    let texts = (0..8).map(|number| match number {
        5 => (format!("src/{number}.rs"), "fn retry() { delay(); socket() }\n"),
        6 => ("other/6.rs".to_owned(), "fn delay() { socket(); retry(); more() }\n"),
        number if number % 2 == 0 => (format!("src/{number}.rs"), "fn retry() { delay() }\n"),
        number => (format!("src/{number}.rs"), "fn socket() { delay() }\n"),
    });
    let texts: Vec<(String, &str)> = texts.collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let fixture = Fixture::new(&texts);
    fixture.find("delay").await;
    let store = fixture.index_directory().open_existing().unwrap().unwrap();
    let find = |words: &[&str], scope: &store::Scope, found, ranked| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let bounds = store::WordSearchBounds { found, ranked, ranked_by_common: 2 };
        let matches = store.with_words(&words, scope, bounds).unwrap();
        let files: Vec<String> = matches.chunks.iter().map(|ranked| ranked.chunk.path.clone()).collect();
        (files, matches.is_partial)
    };
    let all = store::Scope::Roots(vec![1]);
    let part = store::Scope::Below { root: 1, path: "other".to_owned() };
    let words = ["retry", "delay", "socket", "absent"];
    let (both, other) = ("src/5.rs".to_owned(), "other/6.rs".to_owned());
    // All that have one of them are few enough.
    let (files, is_partial) = find(&words, &all, 10, 100);
    assert_eq!((files.len(), is_partial), (8, false));
    // Each is in four or more, and two have all of them.
    assert_eq!(find(&words, &all, 2, 3), (vec![both.clone(), other.clone()], false));
    // The rest is of those with one of them that come first.
    let (files, is_partial) = find(&words, &all, 4, 3);
    assert_eq!((&files[..2], is_partial), (&[both, other.clone()][..], true));
    assert!(files.len() > 2 && files.len() <= 4, "{files:?}");
    // Those with all of them are more than are ranked, too.
    let (files, is_partial) = find(&["delay"], &all, 10, 3);
    assert_eq!((files.len(), is_partial), (2, true));
    // What is outside of the scope takes nobody's place.
    assert_eq!(find(&["delay"], &part, 10, 3).0, std::slice::from_ref(&other));
    assert_eq!(find(&words, &part, 1, 3), (vec![other], false));
    assert_eq!(find(&["absent"], &all, 10, 3), (vec![], false));
}

#[tokio::test]
async fn a_pass_that_panics_is_told_and_keeps_nobody_waiting() {
    let fixture = Fixture::new(&[("a.rs", RETRY)]);
    let broken: Mask = Arc::new(|_: &str| -> Option<String> { panic!("a mask that fails") });
    let findings = tokio::time::timeout(
        Duration::from_secs(60),
        ask_masked(&fixture.index, "delay", None, Arc::clone(&broken)),
    );
    let findings = findings.await.unwrap().unwrap();
    assert!(findings.notes[0].contains("failed unexpectedly"), "{:?}", findings.notes);
    let built = fixture.index.build(broken, &CancellationToken::new(), &|_, _| ()).await;
    assert!(built.unwrap_err().to_string().contains("failed unexpectedly"));
    fixture.index.shut_down().await;
    assert_eq!(fixture.find("delay").await, ["a.rs:1-4"]);
}
