//! Masking of keys, tokens and passwords in text before it reaches a model, an event or a log.
//!
//! A [`Redactor`] reads a text in pieces and gives it back with `[masked: GitHub token]` in place of what looks like
//! a secret, or is one of the [`ExactValues`] that a command was allowed to read. How the text is cut changes
//! nothing; memory is bounded, and time linear in the text.
//!
//! ```
//! use std::sync::Arc;
//!
//! use roo_sandbox::exec::redaction::{ExactValues, Redactor};
//! use roo_sandbox::exec::Escapes;
//!
//! let mut exact = ExactValues::default();
//! exact.add_variable("DATABASE_URL", "postgres://app:blue-Horse7@localhost/app");
//! exact.add_dotenv("API_TOKEN=\"f3kQ9zLw2Xr7\"\nPORT=8080\n");
//! let exact = Arc::new(exact);
//!
//! let (mut escapes, mut redactor) = (Escapes::default(), Redactor::new(true, &exact));
//! let mut shown = String::new();
//! for piece in ["port 8080, token f3kQ\u{1b}[0m", "9zLw2Xr7\n"] {
//!     shown.push_str(&redactor.push(&escapes.plain(piece)));
//! }
//! shown.push_str(&redactor.finish());
//! assert_eq!(shown, "port 8080, token [masked: API_TOKEN]\n");
//! ```
//!
//! - **Order**: remove control sequences first ([`super::Escapes`]), since they could cut a secret in two, and give the
//!   result of [`Redactor::push`] to everything that shows, stores or logs the text. A [`super::Collector`] resolves
//!   them itself and takes a redactor of its own ([`super::Collector::with_redactor`]).
//! - **Streams**: one [`Redactor`] for each text. [`Redactor::push`] withholds a possible beginning of a secret;
//!   [`Redactor::finish`] returns it and must be called at the end, also after a failure, or the end of the text is lost.
//! - **Exact values**: `ExactValues::add_variable` for each variable that a command sees and
//!   `ExactValues::add_dotenv` for each file of secrets that it may read. Both skip values that are no secrets.
//!   One set serves any number of redactors.
//! - **Whole texts**: [`redact`] for one that is at hand, [`TextMask`] for files.
//!
//! This prevents accidents and is no security boundary: a command can print a secret in another form. Secrets that a
//! command must not have are hidden from it by [`super::sandbox`].

mod anchors;
mod assignment;
mod candidate;
mod characters;
mod cursor;
mod exact;
mod key;
mod mask;
mod patterns;
mod randomness;
#[cfg(test)]
mod tests;
mod token;
mod url;

use std::borrow::Cow;
use std::sync::Arc;

pub use exact::ExactValues;
pub use mask::{TextMask, holds_mask, new_mask};

use exact::ExactScanner;
use patterns::PatternScanner;

/// A filter that masks the secrets of one text, which comes in pieces.
#[derive(Debug)]
pub struct Redactor {
    /// None if nothing is to be masked.
    scanners: Option<Scanners>,
}

#[derive(Debug)]
struct Scanners {
    exact: ExactScanner,
    patterns: PatternScanner,
}

impl Redactor {
    /// Creates a redactor for one text. If not `enabled`, it passes everything.
    pub fn new(enabled: bool, exact: &Arc<ExactValues>) -> Self {
        let scanners = || Scanners { exact: ExactScanner::new(exact), patterns: PatternScanner::default() };
        Self { scanners: enabled.then(scanners) }
    }

    /// Leaves each line of the text where it was: a mask over several lines is followed by as many empty ones.
    #[must_use]
    pub(crate) fn keeping_lines(mut self) -> Self {
        if let Some(Scanners { exact, patterns }) = &mut self.scanners {
            exact.keep_lines();
            patterns.keep_lines();
        }
        self
    }

    /// Adds a piece and returns the text that is certain. The possible beginning of a secret is withheld: at most a few
    /// KiB, and the length of the longest exact value.
    pub fn push<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        match &mut self.scanners {
            None => Cow::Borrowed(text),
            Some(Scanners { exact, patterns }) => match exact.push(text) {
                Cow::Borrowed(text) => patterns.push(text),
                Cow::Owned(text) => Cow::Owned(patterns.push(&text).into_owned()),
            },
        }
    }

    /// Returns the withheld rest.
    pub fn finish(self) -> String {
        let Some(Scanners { exact, mut patterns }) = self.scanners else { return String::new() };
        let mut rest = patterns.push(&exact.finish()).into_owned();
        rest.push_str(&patterns.finish());
        rest
    }
}

/// Masks the secrets of a whole text.
pub fn redact<'a>(text: &'a str, exact: &Arc<ExactValues>) -> Cow<'a, str> {
    let mut redactor = Redactor::new(true, exact);
    let begin = redactor.push(text);
    let rest = redactor.finish();
    if rest.is_empty() {
        return begin;
    }
    match begin {
        Cow::Borrowed(begin) if text.strip_prefix(begin) == Some(rest.as_str()) => Cow::Borrowed(text),
        begin => Cow::Owned(begin.into_owned() + &rest),
    }
}

/// Reports whether a text holds something that looks like a secret.
pub fn holds_secret(text: &str) -> bool {
    let mut patterns = PatternScanner::default();
    patterns.push(text);
    patterns.finish();
    patterns.masked()
}

/// Removes user names and passwords from the URLs in a text. Returns none if there are none.
pub fn url_without_credentials(text: &str) -> Option<String> {
    url::without_user_information(text)
}

/// Reports whether a variable of this name is likely to hold a secret.
pub fn is_secret_name(name: &str) -> bool {
    /// Ends of a part of a name.
    const ENDS: [&str; 12] = [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "PASS",
        "PWD",
        "KEY",
        "CREDENTIAL",
        "CREDENTIALS",
        "AUTH",
        "COOKIE",
    ];
    /// Whole parts.
    const PARTS: [&str; 8] = ["TOKENS", "SECRETS", "PASSWORDS", "KEYS", "PAT", "DSN", "PRIVATE", "SIGNATURE"];
    /// Services that are reached by an address with a password in it.
    const SERVICES: [&str; 19] = [
        "AMQP",
        "BROKER",
        "CACHE",
        "CELERY",
        "CLICKHOUSE",
        "CLOUDAMQP",
        "DATABASE",
        "DB",
        "ELASTICSEARCH",
        "JDBC",
        "MARIADB",
        "MONGO",
        "MONGODB",
        "MYSQL",
        "PG",
        "POSTGRES",
        "POSTGRESQL",
        "RABBITMQ",
        "REDIS",
    ];
    let name = name.to_ascii_uppercase();
    // These hold the names of git's settings.
    if name.starts_with("GIT_CONFIG_KEY_") {
        return false;
    }
    let parts: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let has_secret =
        parts.iter().any(|part| PARTS.contains(part) || ENDS.iter().any(|end| part.ends_with(end)));
    let is_address =
        ["URL", "URI", "STRING"].iter().any(|end| parts.last().is_some_and(|last| last.ends_with(end)));
    let is_service =
        |part: &&str| SERVICES.iter().any(|service| part.starts_with(service) || part.ends_with(service));
    has_secret || name.ends_with("CONNECTION_STRING") || (is_address && parts.iter().any(is_service))
}
