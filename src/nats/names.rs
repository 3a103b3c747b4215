//! Names of subjects and streams. Everything is below one prefix, so that one account can hold several installations, and
//! permissions of users can be said of single subjects.

use std::fmt;
use std::str::FromStr;

use roo_protocol::ids::TaskId;

use super::error::NatsError;

/// The longest name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// What all subjects begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(String);

impl FromStr for Prefix {
    type Err = NatsError;

    fn from_str(text: &str) -> Result<Self, NatsError> {
        let is_name = text.len() <= MAX_NAME_BYTES && text.split('.').all(is_word);
        if is_name { Ok(Self(text.to_owned())) } else { Err(NatsError::Name(text.to_owned())) }
    }
}

/// The name of a work queue: one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueName(String);

impl FromStr for QueueName {
    type Err = NatsError;

    fn from_str(text: &str) -> Result<Self, NatsError> {
        let is_name = text.len() <= MAX_NAME_BYTES && is_word(text);
        if is_name { Ok(Self(text.to_owned())) } else { Err(NatsError::Name(text.to_owned())) }
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

impl Prefix {
    /// A subject of an instance of the bridge; see `bridge`.
    pub(crate) fn bridge(&self, instance: &str, rest: &str) -> String {
        format!("{}.bridge.{instance}.{rest}", self.0)
    }

    /// What is said to a request while a worker has it.
    pub(crate) fn control(&self, request: &TaskId) -> String {
        format!("{}.control.{request}", self.0)
    }

    /// Work for the workers of a queue.
    pub(super) fn work(&self, queue: &QueueName) -> String {
        format!("{}.work.{queue}", self.0)
    }

    /// The log of a request.
    pub(super) fn log(&self, request: &TaskId) -> String {
        format!("{}.log.{request}", self.0)
    }

    /// The events of a request, for those who follow it.
    pub(super) fn events(&self, request: &TaskId) -> String {
        format!("{}.request.{request}.event", self.0)
    }

    /// The result of a request.
    pub(super) fn result(&self, request: &TaskId) -> String {
        format!("{}.request.{request}.result", self.0)
    }

    /// What everybody sees of a request: events and result.
    pub(super) fn request(&self, request: &TaskId) -> String {
        format!("{}.request.{request}.*", self.0)
    }

    /// The stream of work, and its subjects.
    pub(super) fn work_stream(&self) -> (String, Vec<String>) {
        (self.stored("WORK"), vec![format!("{}.work.*", self.0)])
    }

    /// The stream of requests, and its subjects.
    pub(super) fn request_stream(&self) -> (String, Vec<String>) {
        (self.stored("REQUESTS"), vec![format!("{}.log.*", self.0), format!("{}.request.*.*", self.0)])
    }

    /// The bucket of files.
    pub(super) fn bucket(&self) -> String {
        self.stored("FILES")
    }

    fn stored(&self, what: &str) -> String {
        format!("{}_{what}", self.0.replace('.', "_").to_uppercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_below_the_prefix() {
        let prefix: Prefix = "team-a.roo".parse().unwrap();
        let request = TaskId::new("r1");
        assert_eq!(prefix.bridge("i1", "event"), "team-a.roo.bridge.i1.event");
        assert_eq!(prefix.work(&"gpu".parse().unwrap()), "team-a.roo.work.gpu");
        assert_eq!(prefix.log(&request), "team-a.roo.log.r1");
        assert_eq!(prefix.request_stream().0, "TEAM-A_ROO_REQUESTS");
    }

    #[test]
    fn names_with_wildcards_spaces_or_empty_words_are_refused() {
        for name in ["", ".", "a.", "a..b", "a.*", "a.>", "a b", "ä", &"a".repeat(65)] {
            assert!(name.parse::<Prefix>().is_err(), "{name}");
            assert!(name.parse::<QueueName>().is_err(), "{name}");
        }
        assert!("a.b".parse::<QueueName>().is_err());
    }
}
