//! Secrets that are known by their name: `DB_PASSWORD=…`, `"clientSecret": "…"`, `Authorization: Bearer …`.

use super::candidate::{AfterMask, Candidate, Secret};
use super::cursor::{Cursor, Incomplete};
use super::randomness::{is_placeholder, looks_random};

/// Endings of names whose values are secrets, in lower case.
pub(super) const NAMES: [&str; 41] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "credentials",
    "_auth",
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "access_key",
    "access-key",
    "secretkey",
    "secret_key",
    "secret-key",
    "privatekey",
    "private_key",
    "private-key",
    "accountkey",
    "account_key",
    "account-key",
    "encryptionkey",
    "encryption_key",
    "encryption-key",
    "signingkey",
    "signing_key",
    "signing-key",
    "sharedkey",
    "shared_key",
    "sharedaccesskey",
    "masterkey",
    "master_key",
    "master-key",
    "servicekey",
    "service_key",
    "clientkey",
    "client_key",
    "sessionkey",
];

/// The header, and the word in front of a token, in lower case.
pub(super) const AUTHORIZATION: &str = "authorization";
pub(super) const BEARER: &str = "bearer ";

/// Words in front of credentials.
const SCHEMES: [&str; 8] = ["basic", "bearer", "token", "apikey", "api-key", "key", "dpop", "oauth"];

/// Length of the part of a value that is examined.
const VALUE: usize = 1024;
/// The most blanks around an operator.
const BLANKS: usize = 16;
/// The most bytes of a type between a name and its value.
const TYPE: usize = 40;

/// Recognizes the secret value after a name.
pub(super) fn value(name: &str, candidate: &Candidate<'_>) -> Result<Option<Secret<'static>>, Incomplete> {
    let mut cursor = candidate.cursor();
    for _ in 0..name.len() {
        cursor.skip();
    }
    let Some(operator) = operator(&mut cursor)? else { return Ok(None) };
    let quote = quote(&mut cursor)?;
    let mut ahead = cursor.clone();
    let begin = ahead.at();
    let secret = random_value(&mut ahead, quote)?;
    let is_code = quote.is_none() && is_code(ahead.since(begin), operator);
    if secret.is_some() && !is_code {
        return Ok(secret);
    }
    // `token: string = "…"`: what stood after the colon was a type.
    if operator == b':' && quote.is_none() {
        cursor.run(TYPE, |byte| byte.is_ascii_alphanumeric() || b"_.&'<>[]?| ".contains(&byte))?;
        if cursor.byte(b'=')? {
            cursor.run(BLANKS, is_blank)?;
            let quote = self::quote(&mut cursor)?;
            if quote.is_some() {
                return random_value(&mut cursor, quote);
            }
        }
    }
    Ok(None)
}

/// Recognizes the credentials of an `Authorization` header.
pub(super) fn authorization(candidate: &Candidate<'_>) -> Result<Option<Secret<'static>>, Incomplete> {
    let mut cursor = candidate.cursor();
    for _ in 0..AUTHORIZATION.len() {
        cursor.skip();
    }
    if operator(&mut cursor)?.is_none() {
        return Ok(None);
    }
    quote(&mut cursor)?;
    let begin = cursor.at();
    let mut ahead = cursor.clone();
    ahead.run(16, |byte| byte.is_ascii_alphanumeric() || byte == b'-')?;
    let has_scheme = SCHEMES.iter().any(|scheme| ahead.since(begin).eq_ignore_ascii_case(scheme.as_bytes()));
    if has_scheme && ahead.run(BLANKS, is_blank)? > 0 {
        return credentials(&mut ahead, |value| value.len() >= 8 && is_encoded(value));
    }
    credentials(&mut cursor, looks_random)
}

/// Recognizes a token behind `Bearer` outside of a header.
pub(super) fn bearer(candidate: &Candidate<'_>) -> Result<Option<Secret<'static>>, Incomplete> {
    let mut cursor = candidate.cursor();
    for _ in 0..BEARER.len() {
        cursor.skip();
    }
    if !candidate.begins_word() {
        return Ok(None);
    }
    credentials(&mut cursor, |value| value.len() >= 16 && looks_random(value))
}

fn credentials(
    cursor: &mut Cursor<'_>,
    is_secret: impl Fn(&[u8]) -> bool,
) -> Result<Option<Secret<'static>>, Incomplete> {
    let begin = cursor.at();
    let length = cursor.run(VALUE, |byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte))?;
    let found = cursor.since(begin);
    let then = if length == VALUE { AfterMask::SkipValue(None) } else { AfterMask::Go };
    let secret = !is_placeholder(found) && is_secret(found);
    Ok(secret.then(|| Secret { mask: begin..cursor.at(), name: "authorization", then }))
}

/// Reports whether a text is not a plain word: it has a digit, or a capital among small letters.
fn is_encoded(value: &[u8]) -> bool {
    let has = |is_kind: fn(&u8) -> bool| value.iter().any(is_kind);
    let inner_capital = value.iter().skip(1).any(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    has(u8::is_ascii_alphabetic) && (has(u8::is_ascii_digit) || inner_capital)
}

/// Skips the end of a name and an operator, which it returns; none if the name goes on or nothing is assigned.
fn operator(cursor: &mut Cursor<'_>) -> Result<Option<u8>, Incomplete> {
    cursor.run(3, |byte| b"\"'`]\\".contains(&byte))?;
    cursor.run(BLANKS, is_blank)?;
    let Some(first @ (b':' | b'=')) = cursor.peek()? else { return Ok(None) };
    cursor.skip();
    match (first, cursor.peek()?) {
        // A path, as `token::Kind`.
        (b':', Some(b':')) => return Ok(None),
        (b':', Some(b'=')) | (b'=', Some(b'=' | b'>')) => cursor.skip(),
        _ => {}
    }
    // `===`
    cursor.byte(b'=')?;
    cursor.run(BLANKS, is_blank)?;
    Ok(Some(first))
}

/// Skips an opening quote, which may be escaped, and returns it.
fn quote(cursor: &mut Cursor<'_>) -> Result<Option<u8>, Incomplete> {
    let mut ahead = cursor.clone();
    // A prefix, as in `b"…"`.
    ahead.run(1, |byte| b"bBrRuUfF".contains(&byte))?;
    ahead.byte(b'\\')?;
    match ahead.peek()? {
        Some(quote @ (b'"' | b'\'' | b'`')) => {
            ahead.skip();
            *cursor = ahead;
            Ok(Some(quote))
        }
        _ => Ok(None),
    }
}

/// Returns the value at the cursor if it looks like a secret.
fn random_value(cursor: &mut Cursor<'_>, quote: Option<u8>) -> Result<Option<Secret<'static>>, Incomplete> {
    let begin = cursor.at();
    let length = cursor.run(VALUE, |byte| is_value(byte, quote))?;
    let is_cut = length == VALUE;
    // What is called, indexed or formatted is code.
    let is_code = quote.is_none() && !is_cut && cursor.peek()?.is_some_and(|byte| b"([{$".contains(&byte));
    let then = if is_cut { AfterMask::SkipValue(quote) } else { AfterMask::Go };
    let is_secret = !is_code && looks_random(cursor.since(begin));
    Ok(is_secret.then(|| Secret { mask: begin..cursor.at(), name: "secret", then }))
}

/// Reports whether a value without quotes is an identifier: a type, or something that holds a secret.
fn is_code(value: &[u8], operator: u8) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_path = |separator: u8| {
        value.contains(&separator)
            && value.split(|byte| *byte == separator).all(|part| {
                part.iter().all(is_name) && part.first().is_none_or(|first| !first.is_ascii_digit())
            })
    };
    let is_type = || {
        let digits = value.split(|byte| !byte.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let numbers: Vec<usize> = digits.map(<[u8]>::len).collect();
        let word = value.split(|byte| !byte.is_ascii_lowercase()).map(<[u8]>::len).max();
        value.iter().all(is_name) && (numbers.iter().sum::<usize>() <= 2 || word >= Some(5))
    };
    is_path(b'.') || is_path(b':') || (operator == b':' && is_type())
}

/// Reports whether a byte belongs to a value in these quotes, or without quotes.
pub(super) fn is_value(byte: u8, quote: Option<u8>) -> bool {
    match quote {
        Some(quote) => byte != quote && byte != b'\\' && byte != b'\n' && byte != b'\r',
        None => byte.is_ascii_graphic() && !b"\"'`<>,;&|()[]{}\\".contains(&byte) || byte >= 0x80,
    }
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}
