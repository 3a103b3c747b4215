//! What looks like a secret, found in one pass over a text that comes in pieces.
//!
//! Anchors say where something may begin; a recogniser looks closer, and decides or asks for more. What is certain
//! is given out at once.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use super::anchors::{Anchors, Next};
use super::cursor::{Cursor, More};
use super::token::{self, Characters, Form};
use super::{assignment, key, url};

/// Bytes in front of a place that tell whether a word begins there.
const BEFORE: usize = 3;
/// Bytes of a candidate from which on it is looked at again only when a quarter more has come.
const LARGE: usize = 64;

static RECOGNISERS: LazyLock<Recognisers> = LazyLock::new(Recognisers::new);

/// A secret at a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Secret<'a> {
    /// What is masked, counted from the place.
    pub(super) mask: Range<usize>,
    /// What stands in its stead.
    pub(super) name: &'a str,
    /// What follows.
    pub(super) then: Then,
}

/// What becomes of the text behind a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It is read as usual.
    Go,
    /// Characters of this kind are left out.
    Skip(Characters),
    /// The rest of a value in these quotes, or in none, is left out.
    SkipValue(Option<u8>),
    /// The rest of a private key is left out.
    Key {
        /// Whether its last line goes on.
        in_line: bool,
    },
}

/// Where a recogniser looks.
pub(super) struct Place<'a> {
    before: [u8; BEFORE],
    text: &'a [u8],
    last: bool,
}

impl<'a> Place<'a> {
    pub(super) fn cursor(&self) -> Cursor<'a> {
        Cursor::new(self.text, self.last)
    }

    /// Whether no word goes on here. A letter or digit in front that belongs to an escape is none.
    pub(super) fn begins_word(&self) -> bool {
        match self.before {
            [_, b'\\', b'n' | b'r' | b't'] => true,
            [b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
            [.., last] => !last.is_ascii_alphanumeric(),
        }
    }
}

#[derive(Clone, Copy)]
enum Recogniser {
    Token(&'static Form, &'static str),
    JsonWebToken,
    Key,
    Url,
    Authorization,
    Bearer,
    Assignment(&'static str),
}

impl Recogniser {
    fn read(&self, place: &Place<'_>) -> Result<Option<Secret<'_>>, More> {
        match self {
            Self::Token(form, prefix) => form.read(prefix, place),
            Self::JsonWebToken => token::json_web_token(place),
            Self::Key => key::begin(place),
            Self::Url => url::credentials(place),
            Self::Authorization => assignment::authorization(place),
            Self::Bearer => assignment::bearer(place),
            Self::Assignment(name) => assignment::value(name, place),
        }
    }
}

/// All recognisers by what they begin with.
struct Recognisers {
    anchors: Anchors,
    /// By the number of an anchor: those of the anchor and of each other one with which it begins, the longest
    /// first.
    by_anchor: Vec<Vec<Recogniser>>,
}

impl Recognisers {
    fn new() -> Self {
        let mut all: Vec<(String, Recogniser)> = Vec::new();
        let mut add = |anchor: &str, recogniser| all.push((anchor.to_ascii_lowercase(), recogniser));
        for form in token::forms() {
            for prefix in &form.prefixes {
                add(prefix, Recogniser::Token(form, prefix));
            }
        }
        add("eyJ", Recogniser::JsonWebToken);
        add(key::BEGIN, Recogniser::Key);
        add("://", Recogniser::Url);
        add(assignment::AUTHORIZATION, Recogniser::Authorization);
        add(assignment::BEARER, Recogniser::Bearer);
        for name in assignment::NAMES {
            add(name, Recogniser::Assignment(name));
        }
        all.sort_by_key(|(anchor, _)| std::cmp::Reverse(anchor.len()));
        let anchors = Anchors::new(all.iter().map(|(anchor, _)| anchor.clone().into_bytes()), true);
        let beginnings = |text: &Vec<u8>| {
            let begins = all.iter().filter(|(anchor, _)| text.starts_with(anchor.as_bytes()));
            begins.map(|(_, recogniser)| *recogniser).collect()
        };
        let by_anchor = anchors.texts().iter().map(beginnings).collect();
        Self { anchors, by_anchor }
    }

    /// The secret at a place where an anchor stands.
    fn read(&self, anchor: usize, place: &Place<'_>) -> Result<Option<Secret<'_>>, More> {
        for recogniser in self.by_anchor.get(anchor).into_iter().flatten() {
            if let Some(secret) = recogniser.read(place)? {
                return Ok(Some(secret));
            }
        }
        Ok(None)
    }
}

/// Masks what looks like a secret in a text that comes in pieces.
#[derive(Debug)]
pub(super) struct PatternScanner {
    /// What is not decided.
    pending: Vec<u8>,
    /// What stood before it.
    before: [u8; BEFORE],
    then: Then,
    /// The length from which on it is worth to look at `pending` again.
    again_at: usize,
    masked: bool,
}

impl Default for PatternScanner {
    fn default() -> Self {
        Self { pending: Vec::new(), before: [b' '; BEFORE], then: Then::Go, again_at: 0, masked: false }
    }
}

impl PatternScanner {
    /// Adds a piece and returns what is decided.
    pub(super) fn push<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if self.pending.is_empty() && self.then == Then::Go {
            let bytes = text.as_bytes();
            if RECOGNISERS.anchors.next(bytes, false) == Next::Nothing(bytes.len()) {
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

    /// Returns the rest.
    pub(super) fn finish(&mut self) -> String {
        self.decided(true)
    }

    /// Bytes that are not decided.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.pending.len()
    }

    /// Whether something was masked.
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
        // Texts are cut where ASCII stands.
        String::from_utf8(decided)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Decides on some of the text from `at` on. Returns whether there is more to do.
    fn step(&mut self, pending: &[u8], at: &mut usize, decided: &mut Vec<u8>, last: bool) -> bool {
        let text = pending.get(*at..).unwrap_or_default();
        let skipped = match self.then {
            Then::Go => return self.read(pending, at, decided, last),
            Then::Skip(kind) => text.iter().take_while(|byte| kind.has(**byte)).count(),
            Then::SkipValue(quote) => {
                text.iter().take_while(|byte| assignment::is_value(**byte, quote)).count()
            }
            Then::Key { in_line } => match key::next(text, in_line, last) {
                Ok(Some(length)) => {
                    self.then = Then::Key { in_line: true };
                    *at += length;
                    return true;
                }
                Ok(None) => {
                    self.then = Then::Go;
                    return true;
                }
                Err(More) => return false,
            },
        };
        *at += skipped;
        if *at < pending.len() {
            self.then = Then::Go;
        }
        *at < pending.len()
    }

    fn read(&mut self, pending: &[u8], at: &mut usize, decided: &mut Vec<u8>, last: bool) -> bool {
        let text = pending.get(*at..).unwrap_or_default();
        let (plain, anchor) = match RECOGNISERS.anchors.next(text, last) {
            Next::Anchor(place, anchor) => (place, Some(anchor)),
            Next::Nothing(place) => (place, None),
        };
        let (plain, text) = text.split_at(plain.min(text.len()));
        decided.extend_from_slice(plain);
        *at += plain.len();
        let Some(anchor) = anchor else { return false };
        let before = before(self.before, pending.get(..*at).unwrap_or_default());
        match RECOGNISERS.read(anchor, &Place { before, text, last }) {
            Ok(Some(Secret { mask, name, then })) => {
                decided.extend_from_slice(text.get(..mask.start).unwrap_or_default());
                decided.extend_from_slice(format!("[masked: {name}]").as_bytes());
                *at += mask.end;
                self.then = then;
                self.masked = true;
            }
            Ok(None) => {
                decided.extend_from_slice(text.get(..1).unwrap_or_default());
                *at += 1;
            }
            Err(More) => return false,
        }
        true
    }
}

/// The last bytes of a text, given those in front of it.
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
