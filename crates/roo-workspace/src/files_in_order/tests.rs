use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::resolver::Purpose;
use crate::{Setup, Walk};
use roo_text::position::Encoding;

struct Fixture {
    directory: tempfile::TempDir,
    workspace: Workspace,
}

impl Fixture {
    fn new(files: impl IntoIterator<Item = String>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().join("work");
        fs::create_dir_all(&work).unwrap();
        for name in files {
            let path = work.join(&name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &name).unwrap();
        }
        let workspace = Workspace::open(Setup {
            folders: vec![work],
            state_directory: directory.path().join("state"),
            documents: Arc::default(),
            editor: None,
            encoding: Encoding::Utf8,
        })
        .unwrap();
        Self { directory, workspace }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("work").join(name)
    }

    fn top(&self) -> Resolved {
        self.workspace.resolve(".", Purpose::List).unwrap()
    }

    /// What a visitor finds, as far as it is taken.
    fn found<V: FileVisitor>(&self, visitor: &V, most: usize) -> Vec<V::Found> {
        let mut all = vec![];
        self.workspace.visit_files(
            &self.top(),
            |name| name == ".git",
            visitor,
            |found| {
                all.push(found);
                if all.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        all
    }

    /// The texts of the files that are found by a visitor that does something before each is read.
    fn texts(&self, before: impl Fn(&str) + Sync) -> Vec<String> {
        self.found(&Texts(before, AtomicUsize::new(0)), usize::MAX)
    }
}

/// Finds texts, or the error in place of one.
struct Texts<F>(F, AtomicUsize);

impl<F: Fn(&str) + Sync> FileVisitor for Texts<F> {
    type Worker = ();
    type Found = String;

    fn worker(&self) {}

    fn is_wanted(&self, path: &str) -> bool {
        !path.ends_with(".unwanted")
    }

    fn visit(&self, (): &mut (), file: &mut VisitedFile<'_>) -> Option<String> {
        self.1.fetch_add(1, Ordering::Relaxed);
        (self.0)(file.path());
        match file.read(64) {
            Ok(bytes) => bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()),
            Err(error) => Some(error.to_string()),
        }
    }

    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Directories of all sizes, between files.
fn names() -> impl Iterator<Item = String> {
    let directories = (0..40).map(|number| (format!("d{number}/e"), number * 5));
    let in_directories =
        directories.flat_map(|(path, files)| (0..files).map(move |file| format!("{path}/f{file}")));
    in_directories.chain((0..40).map(|number| format!("d{number}a"))).chain([
        "d7/e/f3.unwanted".to_owned(),
        "d7/a".to_owned(),
        "d7/z/y/x/w".to_owned(),
    ])
}

#[test]
fn files_come_in_the_order_of_a_walk() {
    let fixture = Fixture::new(names());
    fs::write(fixture.path(".rooignore"), "d3/\n/d20/e/f7\n").unwrap();
    fs::write(fixture.path("d10/.gitignore"), "f1*\n").unwrap();
    fs::write(fixture.path("d10/e/.ignore"), "!f12\n").unwrap();
    fs::write(fixture.path("d10/e/.env"), "A=1").unwrap();
    let walk = Walk { recursive: true, leave_out: |name| name == ".git" };
    let top = fixture.top();
    let walked: Vec<String> = walk
        .below(&top, fixture.workspace.rules(&top))
        .filter(|entry| entry.kind == FoundKind::File && entry.access == ReadAccess::Free)
        .map(|entry| entry.path)
        .filter(|path| !path.ends_with(".unwanted") && !path.contains("ignore"))
        .collect();
    assert!(walked.len() > 3000 && walked.contains(&"d10/e/f12".to_owned()));
    assert!(!walked.iter().any(|path| path.starts_with("d3/") || path == "d20/e/f7" || path == "d10/e/f13"));
    let mut texts = fixture.texts(|_| {});
    texts.retain(|text| !text.contains('\n'));
    assert_eq!(texts, walked, "each file holds its own path");
}

#[test]
fn what_is_enough_ends_the_search() {
    let fixture = Fixture::new(names());
    let all = fixture.texts(|_| {});
    let texts = Texts(|_: &str| {}, AtomicUsize::new(0));
    assert_eq!(fixture.found(&texts, 5), all[..5]);
    let begun = texts.1.into_inner();
    assert!(begun <= (AHEAD + THREADS) * BATCH && begun < all.len(), "{begun} of {}", all.len());
}

#[test]
fn a_cancelled_search_finds_nothing() {
    struct Cancelled;
    impl FileVisitor for Cancelled {
        type Worker = ();
        type Found = ();
        fn worker(&self) {}
        fn is_wanted(&self, _: &str) -> bool {
            true
        }
        fn visit(&self, (): &mut (), _: &mut VisitedFile<'_>) -> Option<()> {
            Some(())
        }
        fn is_cancelled(&self) -> bool {
            true
        }
    }
    assert!(Fixture::new(names()).found(&Cancelled, usize::MAX).is_empty());
}

#[test]
fn a_panic_of_one_thread_ends_all() {
    let fixture = Fixture::new(names());
    let panics = |path: &str| assert!(path != "d7/e/f3", "as it is meant to");
    let searched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fixture.texts(panics)));
    assert!(searched.is_err());
}

#[test]
fn a_file_that_is_replaced_after_its_directory_was_listed_leads_nowhere() {
    let fixture = Fixture::new(["a", "b", "c", "d", "e"].map(str::to_owned));
    let outside = fixture.directory.path().join("outside");
    fs::write(&outside, "outside").unwrap();
    let texts = fixture.texts(|path| {
        let path = fixture.path(path);
        match path.file_name().unwrap().to_str().unwrap() {
            "a" => {
                fs::remove_file(&path).unwrap();
                symlink(&outside, &path).unwrap();
            }
            "b" => {
                use rustix::fs::{CWD, FileType, Mode, mknodat};
                fs::remove_file(&path).unwrap();
                mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            }
            "c" => fs::remove_file(&path).unwrap(),
            "d" => fs::write(&path, "d".repeat(65)).unwrap(),
            _ => {}
        }
    });
    let not_a_file = |name: &str| format!("{name} is not a regular file, so it can't be read.");
    let too_large = "d has 65 bytes, and at most 64 are read: use a command for parts of it.";
    let expected = [
        not_a_file("a"),
        not_a_file("b"),
        "c does not exist.".to_owned(),
        too_large.to_owned(),
        "e".to_owned(),
    ];
    assert_eq!(texts, expected);
}

#[test]
fn no_link_is_followed_and_a_file_is_hidden_by_any_of_its_names() {
    let fixture = Fixture::new([".env", "a/hidden", "b", "c/d"].map(str::to_owned));
    let outside = fixture.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("x"), "outside").unwrap();
    fs::write(fixture.path(".rooignore"), "hidden\n").unwrap();
    fs::hard_link(fixture.path("a/hidden"), fixture.path("seen")).unwrap();
    fs::hard_link(fixture.path(".env"), fixture.path("settings")).unwrap();
    fs::hard_link(fixture.path("b"), fixture.path("b2")).unwrap();
    symlink(&outside, fixture.path("e")).unwrap();
    symlink(outside.join("x"), fixture.path("f")).unwrap();
    assert_eq!(fixture.texts(|_| {}), ["b", "b", "c/d"]);

    // A directory, before it is listed or after that.
    let replaced = AtomicBool::new(false);
    let texts = fixture.texts(|_| {
        if !replaced.swap(true, Ordering::Relaxed) {
            fs::rename(fixture.path("c"), fixture.directory.path().join("c")).unwrap();
            symlink(&outside, fixture.path("c")).unwrap();
        }
    });
    assert!(!texts.contains(&"outside".to_owned()), "{texts:?}");
}

#[test]
fn files_are_read_whole_whatever_their_size_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut buffer = vec![];
    for length in [0, 1, 100, BUFFER + 1, 3] {
        fs::write(&path, vec![b'x'; length]).unwrap();
        for size in [0, 1, length, length + 7] {
            let mut file = File::open(&path).unwrap();
            let read = read_into(&mut buffer, &mut file, size as u64, 2 << 20).unwrap();
            // A file that has grown since is read until there is no more, or as far as it was known.
            assert!(read == length || read == size && size < length, "{length} {size} {read}");
        }
        assert!(buffer.len() <= 2 * (length + 8));
    }
    let mut file = File::open(&path).unwrap();
    assert!(matches!(read_into(&mut buffer, &mut file, 1, 2), Err(EntryError::TooLarge { size: 3 })));
}
