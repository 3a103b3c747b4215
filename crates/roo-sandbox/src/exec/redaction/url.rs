//! Passwords in URLs: `https://user:password@host`.

use super::candidate::{AfterMask, Candidate, Secret};
use super::cursor::Incomplete;
use super::randomness::{is_placeholder, looks_random};

/// Length from which an authority is not examined.
const AUTHORITY: usize = 512;

/// Recognizes the secret in the authority that follows `://`.
pub(super) fn credentials(candidate: &Candidate<'_>) -> Result<Option<Secret<'static>>, Incomplete> {
    let mut cursor = candidate.cursor();
    if !cursor.literal("://")? {
        return Ok(None);
    }
    let begin = cursor.at();
    // A password may hold an `@`: the last one of the authority counts.
    let length = cursor.run(AUTHORITY, is_authority)?;
    if length == AUTHORITY {
        return Ok(None);
    }
    let secret = secret(cursor.since(begin));
    Ok(secret.map(|(from, to)| Secret {
        mask: begin + from..begin + to,
        name: "password in a URL",
        then: AfterMask::Go,
    }))
}

/// Returns the range of the secret in an authority.
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

/// Returns the password in a URL.
pub(super) fn password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let length = rest.bytes().take_while(|byte| is_authority(*byte)).count();
    let (from, to) = secret(rest.get(..length)?.as_bytes())?;
    rest.get(from..to)
}

/// Removes user information from the URLs in a text. Returns none if there is none.
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

/// Reports whether a password is one that examples use.
fn is_stock(password: &[u8]) -> bool {
    let stock = ["password", "passwd", "pass", "pwd", "secret", "token", "user", "x-oauth-basic"];
    is_placeholder(password) || stock.iter().any(|word| password.eq_ignore_ascii_case(word.as_bytes()))
}

fn is_authority(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"/?#\"'`<>\\".contains(&byte) || byte >= 0x80
}
