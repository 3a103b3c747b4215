//! Files that hold just what the newest commit of their repository holds. To hide them would keep nothing from a command,
//! which can have git show that commit, and git could neither compare nor commit them.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use roo_durable::Fingerprint;

use super::directories::GitDirectory;
use super::program::git;

/// The most files that are looked up; what is beyond counts as not committed.
const MAX_FILES: usize = 5_000;
/// The largest file that is compared, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Time limit for one answer of git.
const LIMIT: Duration = Duration::from_secs(10);

/// Finds files that are as they were committed, and remembers which of them git tracks.
#[derive(Default)]
pub(in super::super) struct CommittedFiles {
    /// By the top of a work tree.
    known: HashMap<PathBuf, Tracked>,
}

/// The files that an index knows, of those that were asked for.
struct Tracked {
    index: Fingerprint,
    asked: Vec<PathBuf>,
    tracked: Vec<PathBuf>,
}

impl CommittedFiles {
    /// Returns those of the files that git tracks and that hold what the newest commit holds under their name. A file that
    /// has another name is never one of them. Runs git, and takes no program of the workspace folders `roots`.
    pub(in super::super) fn unchanged(
        &mut self,
        files: &[PathBuf],
        roots: &[PathBuf],
        home: Option<&Path>,
    ) -> Vec<PathBuf> {
        let mut repositories: HashMap<&Path, Option<(PathBuf, GitDirectory)>> = HashMap::new();
        let mut by_top: BTreeMap<PathBuf, (GitDirectory, Vec<PathBuf>)> = BTreeMap::new();
        for file in files.iter().take(MAX_FILES) {
            let Some(parent) = file.parent().filter(|_| can_be_compared(file)) else { continue };
            let found = repositories.entry(parent).or_insert_with(|| GitDirectory::with_top(parent, home));
            let Some((top, directory)) = found.clone() else { continue };
            by_top.entry(top).or_insert_with(|| (directory, vec![])).1.push(file.clone());
        }
        self.known.retain(|top, _| by_top.contains_key(top));
        let unchanged = by_top.into_iter().map(|(top, (directory, files))| {
            // Whatever keeps git from answering, the files stay hidden.
            self.unchanged_in(&top, &directory, files, roots).unwrap_or_default()
        });
        unchanged.flatten().collect()
    }

    fn unchanged_in(
        &mut self,
        top: &Path,
        directory: &GitDirectory,
        files: Vec<PathBuf>,
        roots: &[PathBuf],
    ) -> io::Result<Vec<PathBuf>> {
        let tracked = self.tracked(top, directory, files, roots)?;
        if tracked.is_empty() {
            return Ok(vec![]);
        }
        let committed = blobs(top, roots, "HEAD", &tracked)?;
        let input = lines(tracked.iter().map(|path| path.as_os_str().as_bytes().to_vec()));
        // As they are on the disk: a filter of the repository's choosing is not run, and what it would take out of a
        // file was not committed.
        let output = answer(top, roots, &["hash-object", "--no-filters", "--stdin-paths"], input)?;
        let found = output.lines().map(Some).chain(std::iter::repeat(None));
        let unchanged = tracked.into_iter().zip(committed).zip(found);
        let is_same = |committed: &Option<String>, found: Option<&str>| {
            committed.as_deref().is_some_and(|committed| Some(committed) == found)
        };
        Ok(unchanged
            .filter(|((_, committed), found)| is_same(committed, *found))
            .map(|((path, _), _)| path)
            .collect())
    }

    /// Returns those of the files that the index knows. Git is asked once for each state of the index.
    fn tracked(
        &mut self,
        top: &Path,
        directory: &GitDirectory,
        files: Vec<PathBuf>,
        roots: &[PathBuf],
    ) -> io::Result<Vec<PathBuf>> {
        let Some(index) = Fingerprint::from_file(&directory.own.join("index")) else { return Ok(vec![]) };
        if let Some(known) = self.known.get(top)
            && known.index == index
            && known.asked == files
        {
            return Ok(known.tracked.clone());
        }
        let ids = blobs(top, roots, ":0", &files)?;
        let tracked: Vec<PathBuf> =
            files.iter().zip(ids).filter(|(_, id)| id.is_some()).map(|(path, _)| path.clone()).collect();
        self.known.insert(top.to_owned(), Tracked { index, asked: files, tracked: tracked.clone() });
        Ok(tracked)
    }
}

/// Returns whether a file can be what was committed: small, with no other name, and with one that git can be asked for.
fn can_be_compared(file: &Path) -> bool {
    let is_plain = file
        .symlink_metadata()
        .is_ok_and(|found| found.is_file() && found.nlink() == 1 && found.len() <= MAX_FILE_BYTES);
    // Git takes a carriage return at the end of a line for a part of the line's end.
    is_plain && !file.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

/// The object of each file in a revision, or in the index, which is `:0`.
fn blobs(
    top: &Path,
    roots: &[PathBuf],
    revision: &str,
    files: &[PathBuf],
) -> io::Result<Vec<Option<String>>> {
    let name = |file: &PathBuf| {
        let below = file.strip_prefix(top).map_err(io::Error::other)?;
        Ok([revision.as_bytes(), b":", below.as_os_str().as_bytes()].concat())
    };
    let names: Vec<Vec<u8>> = files.iter().map(name).collect::<io::Result<_>>()?;
    let input = lines(names.into_iter());
    let format = "--batch-check=%(objecttype) %(objectname)";
    let output = answer(top, roots, &["cat-file", format], input)?;
    let mut ids: Vec<Option<String>> =
        output.lines().map(|line| line.strip_prefix("blob ").map(str::to_owned)).collect();
    ids.resize(files.len(), None);
    Ok(ids)
}

/// An input of git of one line each.
pub(super) fn lines(lines: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let ended = |mut line: Vec<u8>| {
        line.push(b'\n');
        line
    };
    lines.flat_map(ended).collect()
}

/// What git prints for an input, also where it fails after a part of it.
///
/// # Errors
/// When it can't be run, and [`io::ErrorKind::TimedOut`] when it has not ended within [`LIMIT`].
pub(super) fn answer(top: &Path, roots: &[PathBuf], words: &[&str], input: Vec<u8>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(top, roots, words, input)?).into_owned())
}

/// The same, whatever the bytes.
pub(super) fn bytes(top: &Path, roots: &[PathBuf], words: &[&str], input: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut child = git(top, roots)?
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    // It answers while it reads; what it doesn't read any more needs no answer.
    let writer = thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut text));
        // Nobody waits for it any more, if it took too long.
        let _ = ended.send(read.map(|_| text));
    });
    // What it opens may have no end, as a pipe that was put in the place of the index.
    let Ok(text) = end.recv_timeout(LIMIT) else {
        let killed = child.kill();
        // It may be waiting for a file system that doesn't answer.
        thread::spawn(move || child.wait());
        killed?;
        return Err(io::ErrorKind::TimedOut.into());
    };
    let _ = writer.join();
    child.wait()?;
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    struct Repository {
        place: tempfile::TempDir,
        files: CommittedFiles,
    }

    impl Repository {
        fn new() -> Self {
            let repository = Self { place: tempfile::tempdir().unwrap(), files: CommittedFiles::default() };
            repository.git("init -q w");
            repository
        }

        fn at(&self, name: &str) -> PathBuf {
            self.place.path().canonicalize().unwrap().join("w").join(name)
        }

        fn put(&self, name: &str, text: &str) {
            fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
            fs::write(self.at(name), text).unwrap();
        }

        fn git(&self, line: &str) {
            let directory = if self.at("").exists() { self.at("") } else { self.place.path().to_owned() };
            let own = ["-c", "user.name=ada", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
            let done =
                Command::new("git").args(own).args(line.split(' ')).current_dir(directory).output().unwrap();
            assert!(done.status.success(), "{line}: {done:?}");
        }

        fn unchanged(&mut self, names: &[&str]) -> Vec<String> {
            let top = self.at("");
            let files: Vec<PathBuf> = names.iter().map(|name| self.at(name)).collect();
            let found = self.files.unchanged(&files, std::slice::from_ref(&top), Some(Path::new("/home")));
            found.iter().map(|path| path.strip_prefix(&top).unwrap().to_str().unwrap().to_owned()).collect()
        }
    }

    const NAMES: &[&str] = &[".env.test", "certs/a b.pem", ".env"];

    #[test]
    fn a_file_counts_as_committed_while_it_holds_what_the_newest_commit_holds() {
        let mut repository = Repository::new();
        for name in NAMES {
            repository.put(name, &format!("{name}\n"));
        }
        assert_eq!(repository.unchanged(NAMES), [""; 0], "there is no commit");
        repository.git("add .env.test certs");
        assert_eq!(repository.unchanged(NAMES), [""; 0], "it is only going to be committed");
        repository.git("commit -qm one");
        assert_eq!(repository.unchanged(NAMES), [".env.test", "certs/a b.pem"]);
        repository.put(".env.test", "a secret that is not committed\n");
        assert_eq!(repository.unchanged(NAMES), ["certs/a b.pem"]);
        repository.git("add .env.test");
        assert_eq!(repository.unchanged(NAMES), ["certs/a b.pem"], "the index is no commit");
        repository.git("commit -qm two");
        assert_eq!(repository.unchanged(NAMES), [".env.test", "certs/a b.pem"]);
        repository.git("rm -q --cached .env.test");
        assert_eq!(repository.unchanged(NAMES), ["certs/a b.pem"], "git tracks it no more");
        repository.git("commit -qm three");
        assert_eq!(repository.unchanged(NAMES), ["certs/a b.pem"]);
        assert_eq!(repository.unchanged(&[]), [""; 0]);
    }

    #[test]
    fn another_name_of_a_file_or_a_link_does_not_count() {
        let mut repository = Repository::new();
        repository.put(".env.test", "x\n");
        repository.put("private", "y\n");
        fs::hard_link(repository.at("private"), repository.at(".env.linked")).unwrap();
        std::os::unix::fs::symlink(".env.test", repository.at(".env.link")).unwrap();
        repository.git("add -A");
        repository.git("commit -qm one");
        assert_eq!(repository.unchanged(&[".env.test", ".env.linked", ".env.link"]), [".env.test"]);
    }

    #[test]
    fn a_name_that_git_reads_as_another_one_does_not_count() {
        let mut repository = Repository::new();
        repository.put(".env.test", "x\n");
        repository.git("add -A");
        repository.git("commit -qm one");
        repository.put(".env.test\r", "SECRET=1\n");
        assert_eq!(repository.unchanged(&[".env.test", ".env.test\r"]), [".env.test"]);
    }

    #[test]
    fn a_git_that_does_not_end_keeps_the_files_hidden() {
        let mut repository = Repository::new();
        repository.put(".env.test", "x\n");
        repository.git("add -A");
        repository.git("commit -qm one");
        let index = repository.at(".git/index");
        fs::remove_file(&index).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &index, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        assert_eq!(repository.unchanged(&[".env.test"]), [""; 0]);
    }

    #[test]
    fn what_a_filter_takes_out_of_a_file_was_not_committed() {
        let mut repository = Repository::new();
        repository.put(".gitattributes", ".env.test filter=without\n");
        repository.git("config filter.without.clean true");
        repository.put(".env.test", "SECRET=1\n");
        repository.git("add -A");
        repository.git("commit -qm one");
        assert_eq!(repository.unchanged(&[".env.test"]), [""; 0]);
    }

    #[test]
    fn each_file_is_compared_in_its_own_repository() {
        let mut repository = Repository::new();
        repository.git("init -q inner");
        repository.put("inner/.env", "x\n");
        repository.git("-C inner add .env");
        repository.git("-C inner commit -qm one");
        repository.put(".env", "x\n");
        assert_eq!(repository.unchanged(&["inner/.env", ".env"]), ["inner/.env"]);
    }
}
