//! Private keys in PEM and PGP armor: the lines between `-----BEGIN … PRIVATE KEY-----` and its end, also where they
//! are quoted, escaped, numbered or part of a diff.

use super::candidate::{AfterMask, Candidate, Secret};
use super::cursor::{Cursor, Incomplete};

/// The beginning of the first line.
pub(super) const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END";

/// Length from which a run of content is a line of a key.
const LINE: usize = 20;
/// The most bytes between two lines: quotes, line ends, line numbers.
const GAP: usize = 120;
/// The most bytes of a header line, such as `DEK-Info`.
const HEADER: usize = 120;

/// Recognizes the beginning of a key that is followed by content. The first line alone is no secret.
pub(super) fn begin(candidate: &Candidate<'_>) -> Result<Option<Secret<'static>>, Incomplete> {
    let mut cursor = candidate.cursor();
    if !cursor.literal(BEGIN)? {
        return Ok(None);
    }
    let label = cursor.at();
    cursor.run(40, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ')?;
    let label = cursor.since(label);
    if !(label.ends_with(b"PRIVATE KEY") || label.ends_with(b"PRIVATE KEY BLOCK"))
        || !cursor.literal("-----")?
    {
        return Ok(None);
    }
    let begin = cursor.at();
    Ok(match part(&mut cursor)? {
        KeyPart::Line => Some(Secret {
            mask: begin..cursor.at(),
            name: "private key",
            then: AfterMask::Key { in_line: true },
        }),
        KeyPart::Other => None,
    })
}

/// Returns the length of the next piece of a key's content; none if the key has ended.
pub(super) fn next(text: &[u8], in_line: bool, last: bool) -> Result<Option<usize>, Incomplete> {
    let mut cursor = Cursor::new(text, last);
    if in_line {
        let length = text.iter().take_while(|byte| is_content(**byte)).count();
        if length > 0 {
            return Ok(Some(length));
        }
    }
    Ok(match part(&mut cursor)? {
        KeyPart::Line => Some(cursor.at()),
        KeyPart::Other => None,
    })
}

enum KeyPart {
    /// A line of the key, or the beginning of a long one.
    Line,
    Other,
}

/// Reads the next line of a key and the gap in front of it.
fn part(cursor: &mut Cursor<'_>) -> Result<KeyPart, Incomplete> {
    let begin = cursor.at();
    loop {
        gap(cursor)?;
        let from = cursor.at();
        if from - begin > 2 * (GAP + HEADER) {
            return Ok(KeyPart::Other);
        }
        let count = cursor.run(LINE, is_content)?;
        if count == LINE {
            return Ok(KeyPart::Line);
        }
        let found = cursor.since(from).to_vec();
        let next = cursor.peek()?;
        let is_number = count > 0 && count <= 6 && found.iter().all(u8::is_ascii_digit);
        // The arrow in front of numbered lines is no ASCII.
        if is_number && next.is_some_and(|byte| b" \t|:".contains(&byte) || byte >= 0x80) {
            continue;
        }
        if count > 0 && matches!(next, Some(b'-' | b':')) && header(cursor)? {
            continue;
        }
        // The last line is short, and the checksum of PGP shorter.
        let mut ahead = cursor.clone();
        gap(&mut ahead)?;
        let is_last = count > 0 && (found.ends_with(b"=") || ahead.literal(END)? || found.starts_with(b"="));
        return Ok(if is_last { KeyPart::Line } else { KeyPart::Other });
    }
}

/// Skips characters between lines.
fn gap(cursor: &mut Cursor<'_>) -> Result<(), Incomplete> {
    let mut at_line_begin = false;
    for _ in 0..GAP {
        match cursor.peek()? {
            Some(b'\n' | b'\r') => at_line_begin = true,
            Some(b'\\') => {
                cursor.skip();
                at_line_begin |= matches!(cursor.peek()?, Some(b'n' | b'r'));
                if !matches!(cursor.peek()?, Some(b'n' | b'r' | b't' | b'\\' | b'"' | b'\n')) {
                    continue;
                }
            }
            Some(b'-' | b'+') if at_line_begin => {
                // A diff, or the end of the key.
                if cursor.clone().literal(END)? {
                    return Ok(());
                }
                at_line_begin = false;
            }
            Some(
                b' '
                | b'\t'
                | b'"'
                | b'\''
                | b'`'
                | b','
                | b'|'
                | b'>'
                | b'#'
                | b':'
                | b'*'
                | b'.'
                | b';'
                | 0x80..,
            ) => {}
            _ => return Ok(()),
        }
        cursor.skip();
    }
    Ok(())
}

/// Skips the rest of a header line whose name has begun. Returns whether it is one.
fn header(cursor: &mut Cursor<'_>) -> Result<bool, Incomplete> {
    let mut ahead = cursor.clone();
    ahead.run(20, |byte| byte.is_ascii_alphabetic() || byte == b'-')?;
    if !ahead.literal(": ")? {
        return Ok(false);
    }
    ahead.run(HEADER, |byte| byte != b'\n' && byte != b'\\')?;
    *cursor = ahead;
    Ok(true)
}

fn is_content(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}
