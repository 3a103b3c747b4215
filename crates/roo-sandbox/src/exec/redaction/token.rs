//! Tokens with a documented format: a fixed prefix and a number of characters of a kind. The formats are data, in
//! `tokens.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::candidate::{AfterMask, Candidate, Secret};
use super::characters::Characters;
use super::cursor::Incomplete;

static DATA: LazyLock<Data> =
    LazyLock::new(|| toml::from_str(include_str!("tokens.toml")).unwrap_or_default());

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    /// Year and month in which the formats were last compared with their sources.
    #[cfg_attr(not(test), expect(dead_code, reason = "for who reads the file"))]
    checked: String,
    #[serde(rename = "token")]
    tokens: Vec<TokenFormat>,
}

/// The format of a kind of token.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenFormat {
    /// The name in the mask.
    pub(super) name: String,
    /// The possible prefixes.
    pub(super) prefixes: Vec<String>,
    /// The kind of characters behind the prefix.
    characters: Characters,
    /// The least number of characters.
    least: usize,
    /// The largest number of characters; none for no limit.
    most: Option<usize>,
    /// The prefix is not masked, because it is no secret.
    #[serde(default)]
    keep_prefix: bool,
    /// A text that the first `least` characters contain.
    #[serde(default)]
    contains: String,
    /// The URL of the documentation.
    #[cfg_attr(not(test), expect(dead_code, reason = "for who reads the file"))]
    source: String,
}

/// Returns the formats of tokens.
pub(super) fn formats() -> &'static [TokenFormat] {
    &DATA.tokens
}

impl TokenFormat {
    /// Recognizes a token of this format and prefix.
    pub(super) fn read<'a>(
        &'a self,
        prefix: &str,
        candidate: &Candidate<'_>,
    ) -> Result<Option<Secret<'a>>, Incomplete> {
        let mut cursor = candidate.cursor();
        if !candidate.begins_word() || !cursor.literal(prefix)? {
            return Ok(None);
        }
        let begin = cursor.at();
        let needed = self.most.map_or(self.least, |most| most.saturating_add(1));
        let count = cursor.run(needed, |byte| self.characters.has(byte))?;
        let inside = cursor.since(begin);
        let contains = self.contains.is_empty()
            || inside.windows(self.contains.len()).any(|part| part == self.contains.as_bytes());
        if count < self.least || self.most.is_some_and(|most| count > most) || !contains {
            return Ok(None);
        }
        let from = if self.keep_prefix { begin } else { 0 };
        let then = if self.most.is_some() { AfterMask::Go } else { AfterMask::Skip(self.characters) };
        Ok(Some(Secret { mask: from..cursor.at(), name: &self.name, then }))
    }
}

/// Recognizes a JSON web token (RFC 7519): parts in Base64 with dots between, the first of which is JSON.
pub(super) fn json_web_token(candidate: &Candidate<'_>) -> Result<Option<Secret<'static>>, Incomplete> {
    /// Characters of a header at most.
    const HEADER: usize = 2048;
    /// Characters of a part at least.
    const PART: usize = 16;
    let part = |byte: u8| Characters::Dashed.has(byte);
    let mut cursor = candidate.cursor();
    if !candidate.begins_word()
        || !cursor.literal("eyJ")?
        || cursor.run(HEADER, part)? < PART
        || !cursor.byte(b'.')?
    {
        return Ok(None);
    }
    if cursor.run(PART, part)? < PART {
        return Ok(None);
    }
    Ok(Some(Secret {
        mask: 0..cursor.at(),
        name: "JSON web token",
        then: AfterMask::Skip(Characters::Dotted),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_can_be_read() {
        let data: Data = toml::from_str(include_str!("tokens.toml")).unwrap();
        assert!(regex::Regex::new(r"^20\d\d-\d\d$").unwrap().is_match(&data.checked));
        assert!(data.tokens.len() > 40);
        for form in &data.tokens {
            assert!(!form.prefixes.is_empty() && form.source.starts_with("https://"), "{}", form.name);
            assert!(
                form.prefixes.iter().all(|prefix| prefix.len() >= 3 && prefix.is_ascii()),
                "{}",
                form.name
            );
            assert!(
                (8..=200).contains(&form.least) && form.most.is_none_or(|most| most >= form.least),
                "{}",
                form.name
            );
        }
    }
}
