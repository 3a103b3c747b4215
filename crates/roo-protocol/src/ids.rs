//! Identifiers. Each is its own type, so that one can't stand where another is meant.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps an identifier made elsewhere (drawn by the engine, read from a log or a client).
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

string_id! {
    /// One task: one mode at work with its own context. A root task's id is also its request's id.
    TaskId
}
string_id! {
    /// One tool call of a task. Unique within the request, whatever the provider sent.
    ToolCallId
}
string_id! {
    /// One command that runs in the background, `cmd-` and a number. Unique within the request.
    CommandId
}
string_id! {
    /// One durable question for permission, bound to one exact action.
    ApprovalId
}
string_id! {
    /// One change of a proposed edit, `h` and a number. Unique within the approval.
    HunkId
}
string_id! {
    /// One recorded change of a file, `c` with the number of its event and its own. Unique within the request.
    ChangeId
}
string_id! {
    /// One durable question of a task to its user.
    QuestionId
}
string_id! {
    /// One message of a task as clients show it; later versions of a message keep its id.
    MessageId
}
string_id! {
    /// The id of a user request, `YYYYMMDD-HH-MM-xxxxxxxx`: local time and 8 hex digits of a random UUID.
    Urid
}

impl TaskId {
    /// The request that the task belongs to: a branch's id is its request's, a dot, and a number.
    pub fn root(&self) -> Self {
        Self(self.0.split('.').next().unwrap_or_default().to_owned())
    }

    /// Returns whether this is a request's own task, and no branch of it.
    pub fn is_root(&self) -> bool {
        !self.0.contains('.')
    }
}

impl CommandId {
    /// The id of the command that a call runs.
    pub fn of_call(call: &ToolCallId) -> Self {
        let text = call.as_str();
        Self(format!("cmd-{}", text.strip_prefix("call_").unwrap_or(text)))
    }
}

/// A SHA-256 digest, written as `sha256:<64 hex digits>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes.as_ref()).into())
    }

    /// The digest of these pieces, one after another.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// A digest that was kept as bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hex digits without the prefix, as used in file names.
    pub fn hex(&self) -> String {
        use fmt::Write as _;
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            // Writing to a string can't fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Reads 64 hex digits, with or without the `sha256:` prefix. In upper case they are refused: a text that was changed
    /// must not mean the same.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        if hex.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16).filter(|_| !c.is_ascii_uppercase());
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("expected sha256:<64 hex digits>"))
    }
}

impl JsonSchema for Digest {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^sha256:[0-9a-f]{64}$",
            "description": "A SHA-256 digest."
        })
    }
}

impl ApprovalId {
    /// Returns its number among the events of its request, which is the order in which approvals were asked for.
    pub fn number(&self) -> u64 {
        let number = self.as_str().rsplit_once(".a").map(|(_, number)| number.parse());
        number.and_then(Result::ok).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_what_it_writes() {
        let digest = Digest::of("hello");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        assert_eq!(Digest::parse(&digest.hex()), Some(digest));
        assert_eq!(digest.hex(), "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
        assert_eq!(Digest::parse(&digest.hex().to_uppercase()), None);
        assert_eq!(Digest::parse("sha256:12"), None);
        assert_eq!(Digest::parse(&"é".repeat(32)), None);
    }
}
