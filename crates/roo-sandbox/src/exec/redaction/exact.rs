//! Masking of known values, such as those of secret environment variables.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::anchors::{AnchorSearch, Anchors};
use super::randomness::looks_random;
use super::{holds_secret, is_secret_name, url};
use roo_durable::read_regular;

/// Length of the shortest value that is masked. A shorter one occurs by chance.
const MIN_VALUE_BYTES: usize = 8;
/// The largest file of variables that is read, in bytes.
const VARIABLE_FILE: u64 = 256 << 10;
/// Length of the part of a value that is masked.
const MAX_MASKED_BYTES: usize = 64 * 1024;

/// A set of values to mask, with the names for their masks.
#[derive(Clone, Default)]
pub struct ExactValues {
    /// Values by their first bytes, the longest first.
    by_head: HashMap<[u8; MIN_VALUE_BYTES], Vec<Value>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Value {
    value: Vec<u8>,
    name: String,
}

impl fmt::Debug for ExactValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExactValues").field("count", &self.len()).finish()
    }
}

impl ExactValues {
    /// Adds a value, to be masked as `[masked: <name>]`. Returns false if it is shorter than 8 bytes and ignored.
    pub fn add(&mut self, name: &str, value: &str) -> bool {
        let bytes = value.as_bytes();
        let bytes = bytes.get(..MAX_MASKED_BYTES).unwrap_or(bytes);
        let Some(head) = bytes.first_chunk::<MIN_VALUE_BYTES>() else { return false };
        let values = self.by_head.entry(*head).or_default();
        if !values.iter().any(|known| known.value == bytes) {
            let place = values.partition_point(|known| known.value.len() >= bytes.len());
            values.insert(place, Value { value: bytes.to_vec(), name: name.to_owned() });
        }
        true
    }

    /// Adds a variable's value if its name or form shows that it is a secret, and the password in it if it is a URL.
    /// Masking other values, such as a port or `production`, would make output unreadable.
    pub(crate) fn add_variable(&mut self, name: &str, value: &str) {
        let value = value.trim();
        if is_secret_name(name) || holds_secret(value) || looks_random(value.as_bytes()) {
            self.add(name, value);
        }
        if let Some(password) = url::password(value) {
            self.add(name, password);
        }
    }

    /// Adds the secrets of a text with one `NAME=value` a line, as in `.env` files.
    pub(crate) fn add_dotenv(&mut self, text: &str) {
        for line in text.lines() {
            let line = line.trim();
            let Some((name, value)) = line.strip_prefix("export ").unwrap_or(line).split_once('=') else {
                continue;
            };
            let (name, value) = (name.trim(), value.trim());
            let is_name =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if is_name {
                self.add_variable(name, unquoted(value));
            }
        }
    }

    /// Adds the secrets of a file with one `NAME=value` a line; of one that can't be read, none.
    pub fn add_variable_file(&mut self, file: &Path) {
        if let Ok(text) = read_regular(file, VARIABLE_FILE) {
            self.add_dotenv(&text);
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.by_head.values().map(Vec::len).sum()
    }

    /// Reports whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.by_head.is_empty()
    }

    /// Finds the longest value with which a text begins.
    fn at(&self, text: &[u8], last: bool) -> ValueMatch<'_> {
        let candidates = text.first_chunk().and_then(|head| self.by_head.get(head));
        for candidate in candidates.into_iter().flatten() {
            if text.starts_with(&candidate.value) {
                return ValueMatch::Value(candidate);
            }
            if !last && candidate.value.starts_with(text) {
                return ValueMatch::Unknown;
            }
        }
        ValueMatch::Nothing
    }
}

/// Returns the content of a quoted value, or an unquoted one without its comment.
fn unquoted(value: &str) -> &str {
    for quote in ['"', '\'', '`'] {
        if let Some((content, _)) = value.strip_prefix(quote).and_then(|rest| rest.rsplit_once(quote)) {
            return content;
        }
    }
    value.split_once(" #").map_or(value, |(content, _)| content.trim_end())
}

enum ValueMatch<'a> {
    Value(&'a Value),
    Nothing,
    Unknown,
}

/// A scanner that masks exact values.
#[derive(Debug)]
pub(super) struct ExactScanner {
    values: Arc<ExactValues>,
    heads: Anchors,
    /// The possible beginning of a value.
    pending: Vec<u8>,
    /// True if line ends are kept that are masked.
    keeps_lines: bool,
}

impl ExactScanner {
    pub(super) fn new(values: &Arc<ExactValues>) -> Self {
        let heads = Anchors::new(values.by_head.keys().map(|head| head.to_vec()), false);
        Self { values: Arc::clone(values), heads, pending: Vec::new(), keeps_lines: false }
    }

    pub(super) fn keep_lines(&mut self) {
        self.keeps_lines = true;
    }

    pub(super) fn push<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if self.pending.is_empty()
            && self.heads.next(text.as_bytes(), false) == AnchorSearch::Clear(text.len())
        {
            return Cow::Borrowed(text);
        }
        self.pending.extend_from_slice(text.as_bytes());
        Cow::Owned(self.decided(false))
    }

    pub(super) fn finish(mut self) -> String {
        self.decided(true)
    }

    fn decided(&mut self, last: bool) -> String {
        let mut decided = Vec::new();
        let mut text = self.pending.as_slice();
        loop {
            let (plain, anchored) = match self.heads.next(text, last) {
                AnchorSearch::Found(at, _) => (at, true),
                AnchorSearch::Clear(at) => (at, false),
            };
            let (before, rest) = text.split_at(plain);
            decided.extend_from_slice(before);
            text = rest;
            if !anchored {
                break;
            }
            match self.values.at(text, last) {
                ValueMatch::Value(found) => {
                    decided.extend_from_slice(format!("[masked: {}]", found.name).as_bytes());
                    let lines = found.value.iter().filter(|byte| self.keeps_lines && **byte == b'\n');
                    decided.extend(lines);
                    text = text.get(found.value.len()..).unwrap_or_default();
                }
                ValueMatch::Nothing => {
                    let (byte, rest) = text.split_at(1.min(text.len()));
                    decided.extend_from_slice(byte);
                    text = rest;
                }
                ValueMatch::Unknown => break,
            }
        }
        let left = text.len();
        self.pending.drain(..self.pending.len() - left);
        // Values and the text between them are valid UTF-8, except after a value that was cut at the limit.
        String::from_utf8(decided)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}
