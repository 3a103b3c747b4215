//! Keys, tokens and passwords taken out of text before a model, an event or a log gets it.
//!
//! A [`Redactor`] reads a text in pieces and gives it back with `[masked: GitHub token]` in place of what looks like
//! a secret, or is one of the [`ExactValues`] that a command was allowed to read. How the text is cut changes
//! nothing; memory is bounded, and time linear in the text. Control sequences have to be out of the text before
//! ([`super::Escapes`]), for they could cut a secret in two.
//!
//! This is care, not a boundary: a command can print what it knows in a form that nobody recognises. What must not be
//! known is hidden from commands by [`super::sandbox`].

mod anchors;
mod assignment;
mod cursor;
mod exact;
mod key;
mod patterns;
mod randomness;
#[cfg(test)]
mod tests;
mod token;
mod url;

use std::borrow::Cow;
use std::sync::Arc;

pub use exact::ExactValues;

use exact::ExactScanner;
use patterns::PatternScanner;

/// Masks secrets in one text that comes in pieces.
#[derive(Debug)]
pub struct Redactor {
    /// None where nothing is masked.
    scanners: Option<Scanners>,
}

#[derive(Debug)]
struct Scanners {
    exact: ExactScanner,
    patterns: PatternScanner,
}

impl Redactor {
    /// A redactor of one text. Without `enabled` it passes everything.
    pub fn new(enabled: bool, exact: &Arc<ExactValues>) -> Self {
        let scanners = || Scanners { exact: ExactScanner::new(exact), patterns: PatternScanner::default() };
        Self { scanners: enabled.then(scanners) }
    }

    /// Adds a piece and returns all that is decided by now. What may be the beginning of a secret stays until
    /// more comes, a few KiB at most and the longest exact value.
    pub fn push<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        match &mut self.scanners {
            None => Cow::Borrowed(text),
            Some(Scanners { exact, patterns }) => match exact.push(text) {
                Cow::Borrowed(text) => patterns.push(text),
                Cow::Owned(text) => Cow::Owned(patterns.push(&text).into_owned()),
            },
        }
    }

    /// Returns the rest.
    pub fn finish(self) -> String {
        let Some(Scanners { exact, mut patterns }) = self.scanners else { return String::new() };
        let mut rest = patterns.push(&exact.finish()).into_owned();
        rest.push_str(&patterns.finish());
        rest
    }
}

/// A text with its secrets masked.
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

/// Whether a text holds something that would be masked.
pub fn holds_secret(text: &str) -> bool {
    let mut patterns = PatternScanner::default();
    patterns.push(text);
    patterns.finish();
    patterns.masked()
}

/// A text without the logins in the URLs that stand in it; none where there is no login.
pub fn url_without_credentials(text: &str) -> Option<String> {
    url::without_user_information(text)
}

/// Whether a variable of this name is likely to hold a secret.
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
    let parts: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let has_secret =
        parts.iter().any(|part| PARTS.contains(part) || ENDS.iter().any(|end| part.ends_with(end)));
    let is_address =
        ["URL", "URI", "STRING"].iter().any(|end| parts.last().is_some_and(|last| last.ends_with(end)));
    let is_service =
        |part: &&str| SERVICES.iter().any(|service| part.starts_with(service) || part.ends_with(service));
    has_secret || name.ends_with("CONNECTION_STRING") || (is_address && parts.iter().any(is_service))
}
