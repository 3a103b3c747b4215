//! Kinds of characters that secrets consist of.

use serde::Deserialize;

/// Kinds of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Characters {
    /// Letters and digits.
    Alphanumeric,
    /// And `_`.
    Word,
    /// And `-`.
    Dashed,
    /// And `.`.
    Dotted,
    /// Letters, digits, `_`, `-` and `/`.
    Path,
    /// Letters, digits and `_-=`.
    Padded,
    /// Letters, digits and `+/=`.
    Base64,
    /// `A` to `Z`, `2` to `7`.
    Base32,
    /// Digits and `a` to `f`.
    Hex,
}

impl Characters {
    pub(super) fn has(self, byte: u8) -> bool {
        let more: &[u8] = match self {
            Self::Alphanumeric => b"",
            Self::Word => b"_",
            Self::Dashed => b"_-",
            Self::Dotted => b"_-.",
            Self::Path => b"_-/",
            Self::Padded => b"_-=",
            Self::Base64 => b"+/=",
            Self::Base32 => return matches!(byte, b'A'..=b'Z' | b'2'..=b'7'),
            Self::Hex => return matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        };
        byte.is_ascii_alphanumeric() || more.contains(&byte)
    }
}
