//! Version of a model, told from its name: what decides how it is asked where the catalogue doesn't know it, since models are
//! younger than the catalogue and gateways give them names of their own.

/// Version of a model within its family, such as 5.2 of `gpt-5.2-codex`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelVersion {
    major: u32,
    minor: u32,
}

impl ModelVersion {
    /// A version.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The version of a name such as `gpt-5.2-codex` or `openai/gpt-6-sol`; none for other families and for `gpt-4o`.
    pub fn parse_gpt(name: &str) -> Option<Self> {
        Self::leading(words(last_part(name).to_ascii_lowercase().strip_prefix("gpt-")?))
    }

    /// The version of a name such as `gemini-3-pro-preview`; none for other families and for `gemini-flash-latest`.
    pub fn parse_gemini(name: &str) -> Option<Self> {
        Self::leading(words(last_part(name).to_ascii_lowercase().strip_prefix("gemini-")?))
    }

    /// The version of a name such as `claude-opus-4-8`, `us.anthropic.claude-opus-4-8-v1:0` or
    /// `claude-3-7-sonnet-20250219`; none for other families and for `claude-opus-latest`.
    pub fn parse_claude(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        // Gateways put other words before it too.
        let (_, version) = name.split_once("claude-")?;
        Self::leading(words(version).skip_while(|word| number(word).is_none()))
    }

    fn leading<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut numbers = words.map_while(number);
        Some(Self { major: numbers.next()?, minor: numbers.next().unwrap_or(0) })
    }
}

/// The model's own name, where an endpoint puts that of the maker before it.
fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric())
}

/// A part of a version; a longer number is a date.
fn number(word: &str) -> Option<u32> {
    word.parse().ok().filter(|number| *number < 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_any_form_of_the_name() {
        let claude = ModelVersion::parse_claude;
        let gpt = ModelVersion::parse_gpt;
        let gemini = ModelVersion::parse_gemini;
        for (found, name, version) in [
            (claude("claude-3-7-sonnet-20250219"), "3.7", Some((3, 7))),
            (claude("claude-3-5-haiku-latest"), "3.5", Some((3, 5))),
            (claude("claude-opus-4-20250514"), "4", Some((4, 0))),
            (claude("claude-opus-4-1-20250805"), "4.1", Some((4, 1))),
            (claude("anthropic/claude-opus-4.7-fast"), "4.7", Some((4, 7))),
            (claude("us.anthropic.claude-opus-4-8-v1:0"), "4.8", Some((4, 8))),
            (claude("claude-sonnet-4-5@20250929"), "4.5", Some((4, 5))),
            (claude("claude-opus-5[1m]"), "5", Some((5, 0))),
            (claude("Claude-Opus-5-5"), "5.5", Some((5, 5))),
            (claude("bedrock-claude-sonnet-4-5"), "with a prefix", Some((4, 5))),
            (claude("claude-opus-latest"), "latest", None),
            (claude("gpt-5"), "no Claude", None),
            (gpt("gpt-5.2-codex"), "5.2", Some((5, 2))),
            (gpt("openai/gpt-6-sol"), "6", Some((6, 0))),
            (gpt("gpt-4.1-2025-04-14"), "4.1", Some((4, 1))),
            (gpt("gpt-4o-2024-05-13"), "4o", None),
            (gpt("gpt-oss-120b"), "oss", None),
            (gpt("my-gpt-5-like"), "another family", None),
            (gemini("models/gemini-2.5-pro"), "2.5", Some((2, 5))),
            (gemini("gemini-4-neon"), "4", Some((4, 0))),
            (gemini("gemini-flash-latest"), "latest", None),
        ] {
            assert_eq!(found, version.map(|(major, minor)| ModelVersion { major, minor }), "{name}");
        }
    }
}
