//! The patch format, read.
//!
//! ```text
//! *** Begin Patch
//! *** Add File: <path>        then its lines, each after a +
//! *** Delete File: <path>
//! *** Update File: <path>     optionally: *** Move to: <path>
//! @@ [a line above]           then lines after ' ', '-' or '+'; optionally: *** End of File
//! *** End Patch
//! ```

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// A patch: what happens to which files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// In its order; at least one.
    pub files: Vec<FilePatch>,
}

/// Change of a patch to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// As the model wrote it; not empty.
    pub path: String,
    /// The line of its header in the patch, from 1.
    pub line: usize,
    pub change: PatchOf,
}

/// Change to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchOf {
    /// It is created.
    Add {
        /// Its whole text, with LF.
        text: String,
    },
    /// It is deleted.
    Delete,
    /// It changes, or its name does.
    Update {
        /// Its new name, as the model wrote it.
        moved_to: Option<String>,
        /// In their order; at least one, unless the file is moved.
        hunks: Vec<Hunk>,
    },
}

/// One place that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Its first line in the patch, from 1.
    pub line: usize,
    /// Lines that stand somewhere above the place, the outermost first.
    pub contexts: Vec<String>,
    /// Kept, removed and added lines; at least one is removed or added.
    pub lines: Vec<HunkLine>,
    /// True if the place is the end of the file.
    pub at_end: bool,
}

/// One line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    /// Kind of change.
    pub mark: Mark,
    /// Without its mark and its end.
    pub text: String,
}

/// Kind of change of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It stays as it is.
    Keep,
    /// It goes.
    Remove,
    /// It comes.
    Insert,
}

/// A patch that can't be read. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Line {line} of the patch can't be read: {problem}")]
pub struct FormatError {
    /// In the patch, from 1.
    pub line: usize,
    /// Problem and remedy.
    pub problem: String,
}

/// Reads a patch. A here-document or a code fence around it doesn't count.
///
/// # Errors
/// [`FormatError`], for the first line that is wrong.
pub fn parse(patch: &str) -> Result<Patch, FormatError> {
    let mut reader = PatchReader::new(patch);
    let wrapper = reader.begin()?;
    let mut files = Vec::new();
    loop {
        reader.skip_blank();
        let Some((line, text)) = reader.next() else {
            return Err(reader.at_end(format!("it is cut off. End it with `{END}`")));
        };
        if text.trim() == END {
            reader.end(wrapper)?;
            break;
        }
        files.push(reader.file(line, text)?);
    }
    if files.is_empty() {
        return Err(reader.at_end("it names no file".to_owned()));
    }
    Ok(Patch { files })
}

/// Wrapper of a model around a patch.
#[derive(Clone, Copy, PartialEq)]
enum Wrapper<'a> {
    Nothing,
    /// A here-document, or a code fence, that ends with this line.
    UpTo(&'a str),
}

struct PatchReader<'a> {
    lines: Vec<&'a str>,
    /// Number of lines read.
    read: usize,
}

impl<'a> PatchReader<'a> {
    fn new(patch: &'a str) -> Self {
        Self { lines: patch.lines().collect(), read: 0 }
    }

    /// The next line without reading it.
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.read).copied()
    }

    /// The next line and its number.
    fn next(&mut self) -> Option<(usize, &'a str)> {
        let text = self.peek()?;
        self.read += 1;
        Some((self.read, text))
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.read += 1;
        }
    }

    fn at_end(&self, problem: String) -> FormatError {
        FormatError { line: self.lines.len().max(1), problem }
    }

    fn begin(&mut self) -> Result<Wrapper<'a>, FormatError> {
        let mut wrapper = Wrapper::Nothing;
        loop {
            self.skip_blank();
            let wrong = |line| FormatError { line, problem: format!("a patch begins with `{BEGIN}`") };
            let Some((line, text)) = self.next() else { return Err(wrong(1)) };
            let text = text.trim();
            if text == BEGIN {
                return Ok(wrapper);
            }
            wrapper = match (wrapper, text.split_once("<<")) {
                (Wrapper::Nothing, Some((_, word))) => {
                    Wrapper::UpTo(word.trim_start_matches('-').trim().trim_matches(['\'', '"']))
                }
                (Wrapper::Nothing, None) if text.starts_with("```") => Wrapper::UpTo("```"),
                _ => return Err(wrong(line)),
            };
        }
    }

    /// Nothing may follow a patch but the end of what is around it.
    fn end(&mut self, wrapper: Wrapper<'_>) -> Result<(), FormatError> {
        let mut open = wrapper;
        loop {
            self.skip_blank();
            match self.next() {
                None => return Ok(()),
                Some((_, text)) if Wrapper::UpTo(text.trim()) == open => open = Wrapper::Nothing,
                Some((line, _)) => {
                    let problem = format!("nothing may follow `{END}`. Put all files into one patch");
                    return Err(FormatError { line, problem });
                }
            }
        }
    }

    fn file(&mut self, line: usize, header: &str) -> Result<FilePatch, FormatError> {
        let path = |rest: &str| match rest.trim() {
            "" => Err(FormatError { line, problem: "the header names no file".to_owned() }),
            path => Ok(path.to_owned()),
        };
        let header = header.trim_end();
        if let Some(rest) = header.strip_prefix(ADD) {
            return Ok(FilePatch { path: path(rest)?, line, change: self.added()? });
        }
        if let Some(rest) = header.strip_prefix(DELETE) {
            return Ok(FilePatch { path: path(rest)?, line, change: PatchOf::Delete });
        }
        let Some(rest) = header.strip_prefix(UPDATE) else {
            let problem = format!(
                "each file begins with a header: `{ADD} <path>`, `{DELETE} <path>` or `{UPDATE} <path>`"
            );
            return Err(FormatError { line, problem });
        };
        let name = path(rest)?;
        let moved = self.peek().and_then(|text| text.trim_end().strip_prefix(MOVE));
        let moved_to = match moved {
            Some(rest) => {
                self.read += 1;
                Some(path(rest)?)
            }
            None => None,
        };
        let hunks = self.hunks()?;
        if hunks.is_empty() && moved_to.is_none() {
            return Err(FormatError { line, problem: "nothing is changed in this file".to_owned() });
        }
        Ok(FilePatch { path: name, line, change: PatchOf::Update { moved_to, hunks } })
    }

    fn added(&mut self) -> Result<PatchOf, FormatError> {
        let mut text = String::new();
        while let Some(line) = self.peek() {
            if let Some(added) = line.strip_prefix('+') {
                text.push_str(added);
                text.push('\n');
            } else if is_header(line) || line.trim().is_empty() {
                break;
            } else {
                let problem = "each line of a new file begins with `+`".to_owned();
                return Err(FormatError { line: self.read + 1, problem });
            }
            self.read += 1;
        }
        let blank = self.read + 1;
        self.skip_blank();
        if self.peek().is_some_and(|line| line.starts_with('+')) {
            let problem = "each line of a new file begins with `+`, an empty one too".to_owned();
            return Err(FormatError { line: blank, problem });
        }
        Ok(PatchOf::Add { text })
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, FormatError> {
        let mut hunks: Vec<Hunk> = Vec::new();
        let mut open: Option<Hunk> = None;
        while let Some(text) = self.peek() {
            if is_header(text) {
                break;
            }
            self.read += 1;
            let line = self.read;
            let new = || Hunk { line, contexts: vec![], lines: vec![], at_end: false };
            if let Some(context) = context_of(text) {
                // Several above each other name one place.
                let hunk = match open.take() {
                    Some(hunk) if hunk.lines.is_empty() => open.insert(hunk),
                    before => {
                        before.map(|hunk| close(hunk, &mut hunks)).transpose()?;
                        open.insert(new())
                    }
                };
                hunk.contexts.extend(context.map(str::to_owned));
                continue;
            }
            if text.trim_end() == END_OF_FILE {
                let Some(hunk) = open.take().filter(|hunk| !hunk.lines.is_empty()) else {
                    let problem = format!("`{END_OF_FILE}` must follow the lines of a hunk");
                    return Err(FormatError { line, problem });
                };
                close(Hunk { at_end: true, ..hunk }, &mut hunks)?;
                continue;
            }
            let (mark, rest) = match text.split_at_checked(1) {
                Some((" ", rest)) => (Mark::Keep, rest),
                Some(("-", rest)) => (Mark::Remove, rest),
                Some(("+", rest)) => (Mark::Insert, rest),
                _ if text.is_empty() => (Mark::Keep, ""),
                _ => {
                    let problem =
                        "each line of a hunk begins with a blank, `-` or `+`, and each hunk with `@@`";
                    return Err(FormatError { line, problem: problem.to_owned() });
                }
            };
            // What is blank between two files belongs to neither.
            if open.is_none() && text.trim().is_empty() {
                continue;
            }
            open.get_or_insert_with(new).lines.push(HunkLine { mark, text: rest.to_owned() });
        }
        open.map(|hunk| close(hunk, &mut hunks)).transpose()?;
        Ok(hunks)
    }
}

fn close(hunk: Hunk, hunks: &mut Vec<Hunk>) -> Result<(), FormatError> {
    if hunk.lines.iter().all(|line| line.mark == Mark::Keep) {
        let problem = "this hunk changes nothing: mark lines with `-` or `+`".to_owned();
        return Err(FormatError { line: hunk.line, problem });
    }
    hunks.push(hunk);
    Ok(())
}

fn is_header(line: &str) -> bool {
    let line = line.trim_end();
    line == END || [ADD, DELETE, UPDATE].iter().any(|header| line.starts_with(header))
}

/// The context that a line names, if it begins a hunk. Line numbers, as other formats have them, say nothing
/// here.
fn context_of(line: &str) -> Option<Option<&str>> {
    let rest = line.strip_prefix("@@")?;
    let context = rest.strip_prefix(' ').unwrap_or(rest).trim_end();
    let numbers = context.strip_prefix('-').and_then(|rest| rest.split_once(" @@"));
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, ',' | ' ' | '+' | '-');
    match numbers {
        Some((numbers, _)) if numbers.contains('+') && numbers.chars().all(is_number) => Some(None),
        _ => Some(Some(context).filter(|context| !context.trim().is_empty())),
    }
}
