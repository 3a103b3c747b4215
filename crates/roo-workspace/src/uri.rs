//! `file:` URIs and paths. Pure.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The `file:` URI of an absolute path, of the path's bytes whether they are UTF-8 or not. Escaped is all that editors escape; the
/// URL standard leaves `[` and others, which no URI of LSP's may have.
pub fn file_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_bytes().iter().copied() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte))
            }
            _ => {
                uri.push('%');
                for digit in [byte >> 4, byte & 15] {
                    uri.extend(
                        char::from_digit(u32::from(digit), 16).map(|digit| digit.to_ascii_uppercase()),
                    );
                }
            }
        }
    }
    uri
}

/// The path of a `file:` URI of this machine; none for other schemes and hosts, or what isn't UTF-8
/// after decoding.
pub fn path_of(uri: &str) -> Option<PathBuf> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => {
            let (host, _) = rest.split_at(rest.find('/')?);
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return None;
            }
            rest.get(host.len()..)?
        }
    };
    if !path.starts_with('/') {
        return None;
    }
    let path = path.split(['?', '#']).next()?;
    let decoded = decode(path)?;
    if decoded.contains('\0') {
        return None;
    }
    Some(PathBuf::from(decoded))
}

/// Undoes percent-encoding; none where it is broken.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn every_spelling_of_a_uri_gives_one_path() {
        let path = Path::new("/home/a b/ä#?%/x:y.rs");
        assert_eq!(file_uri(path), "file:///home/a%20b/%C3%A4%23%3F%25/x%3Ay.rs");
        for uri in [
            "file:///home/a%20b/%C3%A4%23%3F%25/x%3Ay.rs",
            "file:///home/a%20b/%c3%a4%23%3f%25/x:y.rs",
            "FILE://localhost/home/a b/ä%23%3F%25/x:y.rs",
            "file:/home/a%20b/ä%23%3F%25/x:y.rs",
        ] {
            assert_eq!(path_of(uri).as_deref(), Some(path), "{uri}");
        }
    }

    #[test]
    fn a_path_that_is_not_utf_8_has_a_uri_of_its_own() {
        let path = Path::new(OsStr::from_bytes(b"/a/\xff\xe4.rs"));
        assert_eq!(file_uri(path), "file:///a/%FF%E4.rs");
        let replaced = path.to_string_lossy().into_owned();
        assert_ne!(file_uri(path), file_uri(Path::new(&replaced)));
        assert_eq!(path_of(&file_uri(path)), None, "and is no path that anything here can name");
    }

    #[test]
    fn what_may_not_stand_in_a_uri_is_escaped() {
        let path = Path::new("/pages/[id]|^{x}.tsx");
        assert_eq!(file_uri(path), "file:///pages/%5Bid%5D%7C%5E%7Bx%7D.tsx");
        assert_eq!(path_of(&file_uri(path)).as_deref(), Some(path));
    }

    #[test]
    fn what_is_no_file_of_this_machine_has_no_path() {
        for uri in [
            "untitled:Untitled-1",
            "https://example.org/a",
            "file://server/share/a",
            "file:relative",
            "file:///a%2",
            "file:///a%zz",
            "file:///%ff",
            "file:///a%00b",
            "file:",
            "",
        ] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
    }
}
