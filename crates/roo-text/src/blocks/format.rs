//! From the text of a diff to its blocks.

use crate::{entities, lines, render};

/// Searched lines and their replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of the diff on which it begins, from 1.
    pub line: usize,
    /// First line of the searched lines according to the model, from 1.
    pub start_line: Option<usize>,
    /// True if the whole diff was HTML-escaped and these are its decoded lines.
    pub decoded: bool,
    /// The lines to find.
    pub search: Vec<String>,
    /// The lines to put there; none to delete.
    pub replace: Vec<String>,
}

/// Reasons why a diff has no readable blocks. The text is for the model: it says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// No block begins anywhere.
    #[error("The diff has no SEARCH/REPLACE block. {LAYOUT}")]
    NoBlock,
    /// A marker, or what looks like one, where another is due.
    #[error(
        "Line {line} of the diff is `{found}` where `{expected}` was expected. If that line is text of the \
         file, write a backslash before it: `\\{found}`. {LAYOUT}"
    )]
    Unexpected {
        /// The line of the diff, from 1.
        line: usize,
        /// Found text.
        found: String,
        /// The marker that was due.
        expected: &'static str,
    },
    /// A block begins in the middle of a line.
    #[error(
        "The marker on line {line} of the diff is indented; markers stand at the start of a line. {LAYOUT}"
    )]
    Indented {
        /// The line of the diff, from 1.
        line: usize,
    },
    /// A line marker among the new lines.
    #[error(
        "Line {line} of the diff is `{found}` inside a REPLACE part. Line markers stand only before the \
         searched lines; if that line is text of the file, write a backslash before it: `\\{found}`. {LAYOUT}"
    )]
    LineMarker {
        /// The line of the diff, from 1.
        line: usize,
        /// Found text.
        found: String,
    },
    /// A line marker without a line number.
    #[error(
        "Line {line} of the diff is `{found}`, which names no line: write a number from 1, or leave it out."
    )]
    BadLine {
        /// The line of the diff, from 1.
        line: usize,
        /// Found text.
        found: String,
    },
    /// The diff ends inside a block.
    #[error("The block that begins on line {line} of the diff has no `{expected}`. {LAYOUT}")]
    Incomplete {
        /// First line of the block, from 1.
        line: usize,
        /// The marker that is missing.
        expected: &'static str,
    },
}

const SEARCH: &str = "<<<<<<< SEARCH";
const DIVIDER: &str = "=======";
const REPLACE: &str = ">>>>>>> REPLACE";
const RULE: &str = "-------";
const LINE_MARKERS: [&str; 2] = [":start_line:", ":end_line:"];
const LAYOUT: &str = "A block looks like this:
<<<<<<< SEARCH
:start_line:10
-------
the lines as they are in the file
=======
the lines to put there
>>>>>>> REPLACE";

/// Position of the reader in a block.
enum BlockState {
    Outside,
    Search { block: Block, header: bool },
    Replace(Block),
}

/// Reads the blocks of a diff. Text between blocks is skipped, and with it a code fence or CDATA
/// section around the diff. A REPLACE part of one empty line counts as none. A diff whose markers are
/// HTML-escaped is decoded.
///
/// # Errors
/// [`FormatError`], worded for the model.
pub fn parse(diff: &str) -> Result<Vec<Block>, FormatError> {
    let error = match parse_plain(diff) {
        Err(error) if diff.contains("&lt;&lt;&lt;&lt;&lt;&lt;&lt; SEARCH") => error,
        other => return other,
    };
    let decoded = entities::decode(diff).and_then(|decoded| parse_plain(&decoded).ok());
    let mut blocks = decoded.ok_or(error)?;
    blocks.iter_mut().for_each(|block| block.decoded = true);
    Ok(blocks)
}

fn parse_plain(diff: &str) -> Result<Vec<Block>, FormatError> {
    let mut blocks = Vec::new();
    let mut state = BlockState::Outside;
    for (index, text) in lines::lines(diff).map(|line| line.text).enumerate() {
        let line = index + 1;
        let marker = Marker::read(text);
        let unexpected = |expected| {
            let found = render::one_line(text, 60);
            Err(FormatError::Unexpected { line, found, expected })
        };
        state = match (state, marker) {
            (BlockState::Outside, Some(Marker::Search)) => {
                let block = Block { line, start_line: None, decoded: false, search: vec![], replace: vec![] };
                BlockState::Search { block, header: true }
            }
            (BlockState::Outside, Some(_)) => return unexpected(SEARCH),
            (BlockState::Outside, None)
                if matches!(Marker::read(text.trim_start()), Some(Marker::Search)) =>
            {
                return Err(FormatError::Indented { line });
            }
            (BlockState::Outside, None) => BlockState::Outside,

            (BlockState::Search { block, .. }, Some(Marker::Divider)) => BlockState::Replace(block),
            (BlockState::Search { .. }, Some(_)) => return unexpected(DIVIDER),
            (BlockState::Search { mut block, header: true }, None) => match Header::read(text) {
                Some(Header::Start(number)) => {
                    block.start_line = Some(number.ok_or_else(|| bad_line(line, text))?).filter(|n| *n > 0);
                    BlockState::Search { block, header: true }
                }
                Some(Header::End) => BlockState::Search { block, header: true },
                Some(Header::Rule) => BlockState::Search { block, header: false },
                None => {
                    block.search.push(unescape(text));
                    BlockState::Search { block, header: false }
                }
            },
            (BlockState::Search { mut block, header: false }, None) => {
                block.search.push(unescape(text));
                BlockState::Search { block, header: false }
            }

            (BlockState::Replace(mut block), Some(Marker::Replace)) => {
                if matches!(block.replace.as_slice(), [only] if only.is_empty()) {
                    block.replace.clear();
                }
                blocks.push(block);
                BlockState::Outside
            }
            (BlockState::Replace(_), Some(_)) => return unexpected(REPLACE),
            (BlockState::Replace(_), None) if starts_with_any(text.trim_start(), &LINE_MARKERS) => {
                return Err(FormatError::LineMarker { line, found: render::one_line(text, 60) });
            }
            (BlockState::Replace(mut block), None) => {
                block.replace.push(unescape(text));
                BlockState::Replace(block)
            }
        };
    }
    match state {
        BlockState::Outside if blocks.is_empty() => Err(FormatError::NoBlock),
        BlockState::Outside => Ok(blocks),
        BlockState::Search { block, .. } => {
            Err(FormatError::Incomplete { line: block.line, expected: DIVIDER })
        }
        BlockState::Replace(block) => Err(FormatError::Incomplete { line: block.line, expected: REPLACE }),
    }
}

/// Kind of marker at the left margin.
enum Marker {
    Search,
    Divider,
    Replace,
    /// The marker of a merge conflict, or a misspelt one of ours.
    Foreign,
}

impl Marker {
    fn read(line: &str) -> Option<Self> {
        let line = line.trim_end();
        // A CDATA section around the diff, and a marker closed like a tag, are habits of some models.
        let opening = line.strip_prefix("<![CDATA[").unwrap_or(line);
        let closing = line.strip_suffix("]]>").map_or(line, str::trim_end);
        match line {
            DIVIDER => Some(Self::Divider),
            _ if opening.strip_suffix('>').unwrap_or(opening) == SEARCH => Some(Self::Search),
            _ if closing == REPLACE => Some(Self::Replace),
            _ if starts_with_any(line, &["<<<<<<<", ">>>>>>>"]) => Some(Self::Foreign),
            _ => None,
        }
    }
}

/// Content of a line between the SEARCH marker and the searched lines.
enum Header {
    /// None when it is no number.
    Start(Option<usize>),
    /// The end of the searched lines is known from their count.
    End,
    Rule,
}

impl Header {
    fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        let [start, end] = LINE_MARKERS;
        match line.strip_prefix(start) {
            Some(number) => Some(Self::Start(number.trim().parse().ok())),
            None if line.starts_with(end) => Some(Self::End),
            None => (line == RULE).then_some(Self::Rule),
        }
    }
}

fn bad_line(line: usize, text: &str) -> FormatError {
    FormatError::BadLine { line, found: render::one_line(text, 60) }
}

/// Takes away the backslash that keeps a line from being a marker.
fn unescape(line: &str) -> String {
    let body = line.trim_start();
    let indentation = line.len() - body.len();
    let bare = body.trim_start_matches('\\');
    let escaped = bare.len() < body.len()
        && (indentation == 0 && starts_with_any(bare, &["<<<<<<<", DIVIDER, ">>>>>>>", RULE])
            || starts_with_any(bare, &LINE_MARKERS));
    match (escaped, line.get(..indentation), body.get(1..)) {
        (true, Some(indentation), Some(rest)) => format!("{indentation}{rest}"),
        _ => line.to_owned(),
    }
}

fn starts_with_any(line: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| line.starts_with(prefix))
}
