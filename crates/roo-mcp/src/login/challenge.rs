//! What a server says when it wants a login: the header `WWW-Authenticate` (RFC 9110, RFC 6750, RFC 9728).

/// A challenge of the scheme `Bearer`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Address of the server's metadata.
    pub resource_metadata: Option<String>,
    /// Scopes that are wanted.
    pub scope: Vec<String>,
}

impl Challenge {
    /// The first challenge of the scheme `Bearer` in the values of the header.
    pub(crate) fn parse<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        values.into_iter().find_map(Self::of_value)
    }

    /// A value may hold several challenges: a word that no `=` follows begins the next one.
    fn of_value(value: &str) -> Option<Self> {
        let mut found: Option<Self> = None;
        let mut rest = value;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            if word.is_empty() {
                return found;
            }
            let Some(value) = after.trim_start().strip_prefix('=') else {
                if found.is_some() {
                    return found;
                }
                if word.eq_ignore_ascii_case("Bearer") {
                    found = Some(Self::default());
                }
                rest = after;
                continue;
            };
            let (value, after) = value_of(value.trim_start());
            rest = after;
            if let Some(challenge) = &mut found {
                if word.eq_ignore_ascii_case("resource_metadata") {
                    challenge.resource_metadata = Some(value);
                } else if word.eq_ignore_ascii_case("scope") {
                    challenge.scope = value.split_whitespace().map(str::to_owned).collect();
                }
            }
        }
    }
}

/// The value that a text begins with, quoted or not, and the text behind it.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: &str) -> Option<(Option<String>, String)> {
        let challenge = Challenge::parse([value])?;
        Some((challenge.resource_metadata, challenge.scope.join("+")))
    }

    #[test]
    fn the_challenge_of_bearer_tokens_is_read() {
        let url = || Some("https://a/b?c=d,e".to_owned());
        for (value, expected) in [
            (r#"Bearer resource_metadata="https://a/b?c=d,e""#, Some((url(), ""))),
            (
                r#"bearer realm="x y", Scope="a  b", resource_metadata = "https://a/b?c=d,e""#,
                Some((url(), "a+b")),
            ),
            (r#"Basic realm="Bearer scope=x", Bearer scope=a"#, Some((None, "a"))),
            (r#"Bearer scope="a", DPoP scope="b""#, Some((None, "a"))),
            (r#"Bearer scope="a\"b"#, Some((None, "a\"b"))),
            ("Bearer", Some((None, ""))),
            ("Bearer =", None),
            ("Negotiate abc==, Bearer scope=a", Some((None, "a"))),
            (r#"Basic realm="x""#, None),
            ("", None),
        ] {
            let expected = expected.map(|(url, scope)| (url, scope.to_owned()));
            assert_eq!(parsed(value), expected, "{value}");
        }
    }
}
