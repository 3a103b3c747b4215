//! Passwords in URLs: `https://user:password@host`.

use super::cursor::More;
use super::patterns::{Place, Secret, Then};
use super::randomness::{is_placeholder, looks_random};

/// Bytes of an authority that are looked at.
const AUTHORITY: usize = 512;

/// The secret in the authority that follows `://`.
pub(super) fn credentials(place: &Place<'_>) -> Result<Option<Secret<'static>>, More> {
    let mut cursor = place.cursor();
    if !cursor.literal("://")? {
        return Ok(None);
    }
    let begin = cursor.at();
    // Every byte is read until it is clear where the authority ends: a password may hold an `@`.
    let length = cursor.run(AUTHORITY, is_authority)?;
    if length == AUTHORITY {
        return Ok(None);
    }
    let secret = secret(cursor.since(begin));
    Ok(secret.map(|(from, to)| Secret {
        mask: begin + from..begin + to,
        name: "password in a URL",
        then: Then::Go,
    }))
}

/// Where in an authority the secret stands.
fn secret(authority: &[u8]) -> Option<(usize, usize)> {
    let end = authority.iter().rposition(|byte| *byte == b'@')?;
    let user_information = authority.get(..end)?;
    match user_information.iter().position(|byte| *byte == b':') {
        Some(colon) => {
            let (user, password) = (user_information.get(..colon)?, user_information.get(colon + 1..)?);
            let is_secret = !password.is_empty() && password != user && !is_stock(password);
            is_secret.then_some((colon + 1, end))
        }
        None => looks_random(user_information).then_some((0, end)),
    }
}

/// The password in a text that is a URL.
pub(super) fn password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let length = rest.bytes().take_while(|byte| is_authority(*byte)).count();
    let (from, to) = secret(rest.get(..length)?.as_bytes())?;
    rest.get(from..to)
}

/// A text without user information in its URLs; none where there is none.
pub(super) fn without_user_information(text: &str) -> Option<String> {
    let mut parts = text.split("://");
    let mut without = parts.next().unwrap_or_default().to_owned();
    let mut found = false;
    for part in parts {
        let length = part.bytes().take_while(|byte| is_authority(*byte) && *byte != b',').count();
        let end = part.get(..length).and_then(|authority| authority.rfind('@')).map_or(0, |at| at + 1);
        found |= end > 0;
        without.push_str("://");
        without.push_str(part.get(end..).unwrap_or_default());
    }
    found.then_some(without)
}

/// Whether a password is one of those that examples have.
fn is_stock(password: &[u8]) -> bool {
    let stock = ["password", "passwd", "pass", "pwd", "secret", "token", "user", "x-oauth-basic"];
    is_placeholder(password) || stock.iter().any(|word| password.eq_ignore_ascii_case(word.as_bytes()))
}

fn is_authority(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"/?#\"'`<>\\".contains(&byte) || byte >= 0x80
}
