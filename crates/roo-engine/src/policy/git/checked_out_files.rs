//! Protected files that git changed in the work tree, as by switching branches. What one holds may stay if a commit of the
//! user's holds it under its name, or the user had it there: see `known_commits.rs`.
//!
//! A command can write what git keeps, so objects are hashed before they are believed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::committed::{answer, bytes, lines};
use super::directories::GitDirectory;
use super::known_commits::{KnownCommits, RepositoryRecord};
use super::references;
use roo_text::names::fold;

/// The largest protected file that git may bring, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The most protected files that git may bring at once.
const MAX_FILES: usize = 2_000;
/// The most commits in which a content is looked for.
const COMMITS: usize = 2_000;
/// The most commits that are looked into of those that seem to hold it.
const CANDIDATES: usize = 8;
/// The mode of a link in a tree, of a directory, and of a file that can be run.
const LINK: &str = "120000";
const DIRECTORY: &str = "40000";
const PROGRAM: &str = "100755";

/// Returns whether a name, or one above it, is of git's own files or of what governs this server: an earlier version of that
/// would change what agents may do, and git brings none.
pub(in super::super) fn stays_closed(path: &Path) -> bool {
    path.components().any(|name| {
        let name = fold(&name.as_os_str().to_string_lossy());
        let is_own = name.starts_with(".roo") && !name.starts_with(".roorules");
        is_own || [".git", ".orchestration"].contains(&name.as_str())
    })
}

/// What protected files held, and where the heads were, when a command began.
#[derive(Debug, Default)]
pub struct WorkTreesBefore {
    /// The names of the blobs of protected files that git may change.
    held: BTreeMap<PathBuf, String>,
    heads: Vec<(GitDirectory, Option<String>)>,
}

/// A protected file that came to be another one.
pub(in super::super) struct CheckedOutFile {
    /// Absolute.
    pub(in super::super) path: PathBuf,
    /// True if something was there before.
    pub(in super::super) was_there: bool,
}

impl WorkTreesBefore {
    /// Records what is there before a command, which may change these protected files and directories.
    pub(in super::super) fn begin(
        directories: &[GitDirectory],
        opened: &[PathBuf],
        known: &KnownCommits,
        is_alone: bool,
        roots: &[PathBuf],
    ) -> io::Result<Self> {
        let files = files_below(opened);
        let held = match roots.first().filter(|_| !files.is_empty()) {
            Some(root) => blobs(root, roots, &files).unwrap_or_default(),
            None => BTreeMap::new(),
        };
        let contents =
            held.iter().filter_map(|(path, blob)| Some((path.clone(), format!("{} {blob}", mode_of(path)?))));
        known.begin(directories, is_alone, &contents.collect())?;
        let head = |directory: &GitDirectory| (directory.clone(), references::head(directory));
        Ok(Self { held, heads: directories.iter().map(head).collect() })
    }

    /// Returns those of the changed protected files that may stay as they are. Runs git.
    pub(in super::super) fn may_stay(
        &self,
        changed: Vec<CheckedOutFile>,
        known: &KnownCommits,
        roots: &[PathBuf],
        home: Option<&Path>,
    ) -> BTreeSet<PathBuf> {
        let mut by_top: BTreeMap<PathBuf, (GitDirectory, Vec<CheckedOutFile>)> = BTreeMap::new();
        for file in changed.into_iter().take(MAX_FILES) {
            let above = file.path.ancestors().skip(1).find(|above| above.is_dir());
            let Some((top, directory)) = above.and_then(|above| GitDirectory::with_top(above, home)) else {
                continue;
            };
            by_top.entry(top).or_insert_with(|| (directory, vec![])).1.push(file);
        }
        let mut stay = BTreeSet::new();
        for (top, (directory, files)) in by_top {
            // Whatever keeps git from answering, they are put back.
            let record = known.of(&directory);
            let mut trees = Trees { top: &top, roots, objects: HashMap::new() };
            stay.extend(self.may_stay_in(&directory, files, &record, &mut trees).unwrap_or_default());
        }
        stay
    }

    fn may_stay_in(
        &self,
        directory: &GitDirectory,
        files: Vec<CheckedOutFile>,
        record: &RepositoryRecord,
        trees: &mut Trees<'_>,
    ) -> io::Result<Vec<PathBuf>> {
        let head = references::head(directory);
        let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        let now = blobs(trees.top, trees.roots, &paths)?;
        // What was there must not be lost: git has it.
        let before: BTreeSet<String> =
            files.iter().filter_map(|file| self.held.get(&file.path).cloned()).collect();
        let kept = trees.existing(&before)?;
        let before_head =
            self.heads.iter().find(|(known, _)| known == directory).and_then(|(_, head)| head.clone());
        let first = [head.clone(), before_head].into_iter().flatten().filter(|id| record.users.contains(id));
        let mut commits: Vec<String> = first.collect();
        commits.extend(record.users.iter().take(COMMITS).cloned());
        let mut stay = Vec::new();
        for file in files {
            let path = &file.path;
            let Some(relative) = path.strip_prefix(trees.top).ok().filter(|relative| is_plain(relative))
            else {
                continue;
            };
            let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
            let is_kept = !file.was_there || self.held.get(path).map_or(is_link, |blob| kept.contains(blob));
            if !is_kept {
                continue;
            }
            let is_fine = match (mode_of(path), now.get(path)) {
                (None, None) if path.symlink_metadata().is_err() => {
                    // It is gone as in the commit that is checked out.
                    let is_gone = |trees: &mut Trees<'_>, commit: &String| {
                        trees.entry(commit, relative).is_ok_and(|entry| entry.is_none())
                    };
                    let without = trees.candidates(&commits, relative, None)?;
                    head.as_ref().is_some_and(|head| is_gone(trees, head))
                        && without.iter().any(|commit| is_gone(trees, commit))
                }
                (Some(mode), Some(blob)) => {
                    let is_it = |(commit_mode, id): (String, String)| commit_mode == mode && id == *blob;
                    record.contents.contains(&(path.clone(), format!("{mode} {blob}")))
                        || trees.candidates(&commits, relative, Some(blob))?.iter().any(|commit| {
                            trees.entry(commit, relative).is_ok_and(|entry| entry.is_some_and(is_it))
                        })
                }
                _ => false,
            };
            if is_fine {
                stay.push(file.path);
            }
        }
        Ok(stay)
    }

    /// Returns the protected files that stayed as they were while git went on to another commit, in which they are others:
    /// to commit all that differs would take back what that commit changed.
    pub(in super::super) fn left_behind(
        &self,
        is_protected: &dyn Fn(&Path) -> bool,
        roots: &[PathBuf],
    ) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for (directory, before) in &self.heads {
            let (Some(before), Some(now)) = (before, references::head(directory)) else { continue };
            let mut tops = roots.iter().filter_map(|root| GitDirectory::with_top(root, None));
            let top = tops.find(|(_, found)| found == directory).map(|(top, _)| top);
            let Some(top) = top.filter(|_| *before != now) else { continue };
            let words = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", before, &now];
            let Ok(names) = bytes(&top, roots, &words, vec![]) else { continue };
            let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
            let changed: Vec<PathBuf> = names
                .map(|name| top.join(OsStr::from_bytes(name)))
                .filter(|path| is_protected(path))
                .take(MAX_FILES)
                .collect();
            let Ok(found) = blobs(&top, roots, &changed) else { continue };
            let mut trees = Trees { top: &top, roots, objects: HashMap::new() };
            for path in changed {
                let Ok(relative) = path.strip_prefix(&top) else { continue };
                let mut blob = |commit: &str| trees.entry(commit, relative).ok().flatten().map(|(_, id)| id);
                let held = found.get(&path).cloned();
                if held != blob(&now) && held == blob(before) {
                    left.push(path);
                }
            }
        }
        left
    }
}

/// The trees of a repository, whose objects are hashed before they are believed.
struct Trees<'a> {
    top: &'a Path,
    roots: &'a [PathBuf],
    objects: HashMap<String, Option<Vec<u8>>>,
}

impl Trees<'_> {
    /// Those of the objects that the repository has.
    fn existing(&self, ids: &BTreeSet<String>) -> io::Result<BTreeSet<String>> {
        if ids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let input = lines(ids.iter().map(|id| id.clone().into_bytes()));
        let found =
            answer(self.top, self.roots, &["cat-file", "--batch-check=%(objecttype) %(objectname)"], input)?;
        Ok(found.lines().filter_map(|line| line.strip_prefix("blob ")).map(str::to_owned).collect())
    }

    /// A few of the commits that seem to hold a blob under a name, or nothing.
    fn candidates(&self, commits: &[String], path: &Path, blob: Option<&str>) -> io::Result<Vec<String>> {
        if path.as_os_str().as_bytes().contains(&b'\n') {
            return Ok(vec![]);
        }
        let name = |commit: &String| [commit.as_bytes(), b":", path.as_os_str().as_bytes()].concat();
        let input = lines(commits.iter().map(name));
        let found = answer(self.top, self.roots, &["cat-file", "--batch-check=%(objectname)"], input)?;
        let seems = |line: &str| blob.map_or_else(|| line.ends_with(" missing"), |blob| line == blob);
        let seeming = commits.iter().zip(found.lines()).filter(|(_, line)| seems(line));
        Ok(seeming.map(|(commit, _)| commit.clone()).take(CANDIDATES).collect())
    }

    /// Mode and object of a path in a commit; none where it has none.
    fn entry(&mut self, commit: &str, path: &Path) -> io::Result<Option<(String, String)>> {
        let text = self.object("commit", commit)?;
        let text = String::from_utf8_lossy(text);
        let tree = text.lines().next().and_then(|line| line.strip_prefix("tree "));
        let mut at = (DIRECTORY.to_owned(), tree.ok_or(io::ErrorKind::InvalidData)?.to_owned());
        for name in path.components() {
            if at.0 != DIRECTORY {
                return Ok(None);
            }
            let size = at.1.len() / 2;
            let tree = self.object("tree", &at.1)?;
            match entry(tree, name.as_os_str().as_bytes(), size) {
                Some(found) => at = found,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The content of an object that is what its name says.
    fn object(&mut self, kind: &str, id: &str) -> io::Result<&[u8]> {
        if !self.objects.contains_key(id) {
            let content = bytes(self.top, self.roots, &["cat-file", kind, id], vec![])?;
            let words = ["hash-object", "-t", kind, "--literally", "--stdin"];
            let hash = answer(self.top, self.roots, &words, content.clone())?;
            self.objects.insert(id.to_owned(), Some(content).filter(|_| hash.trim() == id));
        }
        let found = self.objects.get(id).and_then(Option::as_deref);
        found.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Mode and object of a name in a tree: `<mode> <name>\0<object>`, one after another.
fn entry(tree: &[u8], name: &[u8], size: usize) -> Option<(String, String)> {
    let mut rest = tree;
    while let Some(end) = rest.iter().position(|&byte| byte == 0) {
        let (head, object) = (rest.get(..end)?, rest.get(end + 1..end + 1 + size)?);
        let blank = head.iter().position(|&byte| byte == b' ')?;
        if head.get(blank + 1..)? == name {
            let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
            let id = object.iter().flat_map(digits).flatten().collect();
            return Some((String::from_utf8_lossy(head.get(..blank)?).into_owned(), id));
        }
        rest = rest.get(end + 1 + size..)?;
    }
    None
}

/// The mode that a file or link has in a tree; none where git gives it no such permissions.
fn mode_of(path: &Path) -> Option<&'static str> {
    let found = path.symlink_metadata().ok()?;
    match found.mode() {
        _ if found.is_symlink() => Some(LINK),
        mode if !found.is_file() || mode & 0o7002 != 0 => None,
        mode if mode & 0o100 != 0 => Some(PROGRAM),
        _ => Some("100644"),
    }
}

/// The names of the blobs that files and links would be, without any filter. What is neither is left out.
fn blobs(top: &Path, roots: &[PathBuf], paths: &[PathBuf]) -> io::Result<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    let mut files = Vec::new();
    for path in paths {
        match path.symlink_metadata() {
            Ok(kind) if kind.is_symlink() => {
                let target = fs::read_link(path)?.into_os_string().into_encoded_bytes();
                let id = answer(top, roots, &["hash-object", "--stdin"], target)?;
                found.insert(path.clone(), id.trim().to_owned());
            }
            Ok(kind) if kind.is_file() && kind.nlink() == 1 && kind.len() <= MAX_FILE_BYTES => {
                files.push(path)
            }
            _ => {}
        }
    }
    files.retain(|path| !path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\r')));
    let input = lines(files.iter().map(|path| path.as_os_str().as_bytes().to_vec()));
    let ids = match files.is_empty() {
        true => String::new(),
        false => answer(top, roots, &["hash-object", "--no-filters", "--stdin-paths"], input)?,
    };
    if ids.lines().count() != files.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    found.extend(files.into_iter().cloned().zip(ids.lines().map(str::to_owned)));
    Ok(found)
}

/// The files and links among these places and below them.
fn files_below(places: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = places.to_vec();
    while let Some(path) = open.pop().filter(|_| found.len() < MAX_FILES) {
        match path.symlink_metadata() {
            Ok(kind) if kind.is_dir() => {
                open.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
            }
            Ok(_) => found.push(path),
            Err(_) => {}
        }
    }
    found
}

fn is_plain(relative: &Path) -> bool {
    relative.components().all(|part| matches!(part, Component::Normal(_)))
}
