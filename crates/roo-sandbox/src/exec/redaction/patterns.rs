//! A scanner for secrets of known forms, in one pass over a text that comes in pieces.
//!
//! Anchors tell where a secret may begin. The recognizers of an anchor look ahead and decide, or ask for more text.
//! Text that is certain is returned at once.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::anchors::{AnchorSearch, Anchors};
use super::candidate::{AfterMask, BEFORE, Candidate, Secret};
use super::cursor::Incomplete;
use super::token::{self, TokenFormat};
use super::{assignment, key, url};

/// Length from which a candidate is examined again only when it has grown by a quarter, so that time is linear.
const LARGE: usize = 64;

static RECOGNIZERS: LazyLock<Recognizers> = LazyLock::new(Recognizers::new);

#[derive(Clone, Copy)]
enum Recognizer {
    Token(&'static TokenFormat, &'static str),
    JsonWebToken,
    Key,
    Url,
    Authorization,
    Bearer,
    Assignment(&'static str),
}

impl Recognizer {
    fn read(&self, candidate: &Candidate<'_>) -> Result<Option<Secret<'_>>, Incomplete> {
        match self {
            Self::Token(form, prefix) => form.read(prefix, candidate),
            Self::JsonWebToken => token::json_web_token(candidate),
            Self::Key => key::begin(candidate),
            Self::Url => url::credentials(candidate),
            Self::Authorization => assignment::authorization(candidate),
            Self::Bearer => assignment::bearer(candidate),
            Self::Assignment(name) => assignment::value(name, candidate),
        }
    }
}

/// All recognizers, by anchor.
struct Recognizers {
    anchors: Anchors,
    /// By the number of an anchor: its recognizers and those of its prefixes, the longest first.
    by_anchor: Vec<Vec<Recognizer>>,
}

impl Recognizers {
    fn new() -> Self {
        let mut all: Vec<(String, Recognizer)> = Vec::new();
        let mut add = |anchor: &str, recognizer| all.push((anchor.to_ascii_lowercase(), recognizer));
        for form in token::formats() {
            for prefix in &form.prefixes {
                add(prefix, Recognizer::Token(form, prefix));
            }
        }
        add("eyJ", Recognizer::JsonWebToken);
        add(key::BEGIN, Recognizer::Key);
        add("://", Recognizer::Url);
        add(assignment::AUTHORIZATION, Recognizer::Authorization);
        add(assignment::BEARER, Recognizer::Bearer);
        for name in assignment::NAMES {
            add(name, Recognizer::Assignment(name));
        }
        all.sort_by_key(|(anchor, _)| std::cmp::Reverse(anchor.len()));
        let anchors = Anchors::new(all.iter().map(|(anchor, _)| anchor.clone().into_bytes()), true);
        let beginnings = |text: &Vec<u8>| {
            let begins = all.iter().filter(|(anchor, _)| text.starts_with(anchor.as_bytes()));
            begins.map(|(_, recognizer)| *recognizer).collect()
        };
        let by_anchor = anchors.texts().iter().map(beginnings).collect();
        Self { anchors, by_anchor }
    }

    /// Returns the secret at a candidate that begins with an anchor.
    fn read(&self, anchor: usize, candidate: &Candidate<'_>) -> Result<Option<Secret<'_>>, Incomplete> {
        for recognizer in self.by_anchor.get(anchor).into_iter().flatten() {
            if let Some(secret) = recognizer.read(candidate)? {
                return Ok(Some(secret));
            }
        }
        Ok(None)
    }
}

/// A scanner that masks what looks like a secret.
#[derive(Debug)]
pub(super) struct PatternScanner {
    /// Text that is not certain.
    pending: Vec<u8>,
    /// The bytes in front of it.
    before: [u8; BEFORE],
    then: AfterMask,
    /// The length of `pending` from which it is examined again.
    again_at: usize,
    masked: bool,
    /// True if line ends are kept that are masked.
    keeps_lines: bool,
}

impl Default for PatternScanner {
    fn default() -> Self {
        Self {
            pending: Vec::new(),
            before: [b' '; BEFORE],
            then: AfterMask::Go,
            again_at: 0,
            masked: false,
            keeps_lines: false,
        }
    }
}

impl PatternScanner {
    /// Adds a piece and returns the text that is certain.
    pub(super) fn push<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if self.pending.is_empty() && self.then == AfterMask::Go {
            let bytes = text.as_bytes();
            if RECOGNIZERS.anchors.next(bytes, false) == AnchorSearch::Clear(bytes.len()) {
                self.before = before(self.before, bytes);
                return Cow::Borrowed(text);
            }
        }
        self.pending.extend_from_slice(text.as_bytes());
        if self.pending.len() < self.again_at && !text.contains('\n') {
            return Cow::Borrowed("");
        }
        Cow::Owned(self.decided(false))
    }

    pub(super) fn keep_lines(&mut self) {
        self.keeps_lines = true;
    }

    /// Leaves a part of the text out, perhaps but for its line ends.
    fn leave_out(&self, text: &[u8], decided: &mut Vec<u8>) {
        if self.keeps_lines {
            decided.extend(text.iter().filter(|byte| **byte == b'\n'));
        }
    }

    /// Returns the rest.
    pub(super) fn finish(&mut self) -> String {
        self.decided(true)
    }

    /// Returns the length of the withheld text.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.pending.len()
    }

    /// Reports whether something was masked.
    pub(super) fn masked(&self) -> bool {
        self.masked
    }

    fn decided(&mut self, last: bool) -> String {
        let pending = std::mem::take(&mut self.pending);
        let mut decided = Vec::with_capacity(pending.len());
        let mut at = 0;
        while self.step(&pending, &mut at, &mut decided, last) {}
        let (done, rest) = pending.split_at(at.min(pending.len()));
        self.before = before(self.before, done);
        self.again_at = if rest.len() < LARGE { 0 } else { rest.len() + rest.len() / 4 };
        self.pending = rest.to_vec();
        // Cuts are next to ASCII characters.
        String::from_utf8(decided)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Processes a part of the text from `at` on. Returns whether there is more to process.
    fn step(&mut self, pending: &[u8], at: &mut usize, decided: &mut Vec<u8>, last: bool) -> bool {
        let text = pending.get(*at..).unwrap_or_default();
        let skipped = match self.then {
            AfterMask::Go => return self.read(pending, at, decided, last),
            AfterMask::Skip(kind) => text.iter().take_while(|byte| kind.has(**byte)).count(),
            AfterMask::SkipValue(quote) => {
                text.iter().take_while(|byte| assignment::is_value(**byte, quote)).count()
            }
            AfterMask::Key { in_line } => match key::next(text, in_line, last) {
                Ok(Some(length)) => {
                    self.then = AfterMask::Key { in_line: true };
                    self.leave_out(text.get(..length).unwrap_or_default(), decided);
                    *at += length;
                    return true;
                }
                Ok(None) => {
                    self.then = AfterMask::Go;
                    return true;
                }
                Err(Incomplete) => return false,
            },
        };
        self.leave_out(text.get(..skipped).unwrap_or_default(), decided);
        *at += skipped;
        if *at < pending.len() {
            self.then = AfterMask::Go;
        }
        *at < pending.len()
    }

    fn read(&mut self, pending: &[u8], at: &mut usize, decided: &mut Vec<u8>, last: bool) -> bool {
        let text = pending.get(*at..).unwrap_or_default();
        let (plain, anchor) = match RECOGNIZERS.anchors.next(text, last) {
            AnchorSearch::Found(place, anchor) => (place, Some(anchor)),
            AnchorSearch::Clear(place) => (place, None),
        };
        let (plain, text) = text.split_at(plain.min(text.len()));
        decided.extend_from_slice(plain);
        *at += plain.len();
        let Some(anchor) = anchor else { return false };
        let before = before(self.before, pending.get(..*at).unwrap_or_default());
        match RECOGNIZERS.read(anchor, &Candidate { before, text, last }) {
            Ok(Some(Secret { mask, name, then })) => {
                decided.extend_from_slice(text.get(..mask.start).unwrap_or_default());
                decided.extend_from_slice(format!("[masked: {name}]").as_bytes());
                self.leave_out(text.get(mask.clone()).unwrap_or_default(), decided);
                *at += mask.end;
                self.then = then;
                self.masked = true;
            }
            Ok(None) => {
                decided.extend_from_slice(text.get(..1).unwrap_or_default());
                *at += 1;
            }
            Err(Incomplete) => return false,
        }
        true
    }
}

/// Returns the last bytes of a text, given those in front of it.
fn before(earlier: [u8; BEFORE], text: &[u8]) -> [u8; BEFORE] {
    match text.last_chunk() {
        Some(end) => *end,
        None => {
            let mut end = earlier;
            end.rotate_left(text.len());
            for (place, byte) in end.iter_mut().rev().zip(text.iter().rev()) {
                *place = *byte;
            }
            end
        }
    }
}
