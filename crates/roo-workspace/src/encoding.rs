//! Encodings of text files: found out when a file is read, and kept when it is written.
//!
//! A file that is no UTF-8 and has no byte order mark doesn't say what it is, so its encoding is a guess. A wrong guess shows
//! wrong letters and damages nothing: what is read is only ever written back by the same encoding, and only where
//! that gives exactly the bytes that were read.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use serde::{Deserialize, Serialize};

/// Number of bytes of a file that are looked at to tell text from other content.
const PROBE: usize = 8 << 10;

/// Number of bytes of a file by which its encoding is guessed.
const GUESSED_BY: usize = 1 << 20;

/// Of 100 characters of a text in UTF-16 without a byte order mark, so many are at least ASCII. Other texts of that kind count as
/// binary, as do binary files that hold a few characters.
const ASCII_OF_100: usize = 75;

/// Encoding of a file's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "EncodingRecord", try_from = "EncodingRecord")]
pub struct TextEncoding {
    charset: &'static Encoding,
    byte_order_mark: bool,
}

/// An encoding as logs name it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EncodingRecord {
    /// Its name in the Encoding Standard.
    charset: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    byte_order_mark: bool,
}

impl From<TextEncoding> for EncodingRecord {
    fn from(encoding: TextEncoding) -> Self {
        let TextEncoding { charset, byte_order_mark } = encoding;
        Self { charset: charset.name().to_owned(), byte_order_mark }
    }
}

impl TryFrom<EncodingRecord> for TextEncoding {
    type Error = UnknownEncoding;

    fn try_from(record: EncodingRecord) -> Result<Self, UnknownEncoding> {
        let EncodingRecord { charset, byte_order_mark } = record;
        match Encoding::for_label_no_replacement(charset.as_bytes()) {
            Some(charset) => Ok(Self { charset, byte_order_mark }),
            None => Err(UnknownEncoding(charset)),
        }
    }
}

/// A name that the Encoding Standard doesn't have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no encoding of the Encoding Standard")]
pub struct UnknownEncoding(String);

/// A character that an encoding doesn't have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnencodableCharacter(pub char);

impl TextEncoding {
    /// UTF-8 without a byte order mark.
    pub const UTF_8: Self = Self { charset: UTF_8, byte_order_mark: false };

    /// Returns whether it is UTF-8, with a byte order mark or without.
    pub fn is_utf8(self) -> bool {
        self.charset == UTF_8
    }

    /// Returns its name in the Encoding Standard, such as `windows-1252`.
    pub fn name(self) -> &'static str {
        self.charset.name()
    }

    /// Encodes a text as the content of a file, with the byte order mark that the file had.
    ///
    /// # Errors
    /// The first character that the encoding doesn't have.
    pub fn encode(self, text: &str) -> Result<Vec<u8>, UnencodableCharacter> {
        const MARK: &str = "\u{feff}";
        let marked = match self.byte_order_mark && !text.starts_with(MARK) {
            true => format!("{MARK}{text}"),
            false => text.to_owned(),
        };
        if self.charset == UTF_8 {
            return Ok(marked.into_bytes());
        }
        if self.charset == UTF_16LE {
            return Ok(marked.encode_utf16().flat_map(u16::to_le_bytes).collect());
        }
        if self.charset == UTF_16BE {
            return Ok(marked.encode_utf16().flat_map(u16::to_be_bytes).collect());
        }
        let (bytes, _, is_lossy) = self.charset.encode(&marked);
        // Some write another character in place of one that they lack: Shift_JIS a backslash for a yen sign.
        let decoded = self.charset.decode_without_bom_handling_and_without_replacement(&bytes);
        match (is_lossy, decoded) {
            (false, Some(decoded)) if decoded == marked => Ok(bytes.into_owned()),
            _ => Err(UnencodableCharacter(self.unencodable(&marked))),
        }
    }

    fn unencodable(self, text: &str) -> char {
        let is_missing = |c: &char| {
            let mut buffer = [0; 4];
            let one: &str = c.encode_utf8(&mut buffer);
            let (bytes, _, is_lossy) = self.charset.encode(one);
            is_lossy || self.charset.decode_without_bom_handling(&bytes).0 != one
        };
        text.chars().find(is_missing).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

/// A text and how it was encoded.
pub(super) struct Decoded {
    /// Text, without a byte order mark.
    pub(super) text: String,
    pub(super) encoding: TextEncoding,
    /// True if encoding the text doesn't give the bytes that were read.
    pub(super) lossy: bool,
}

/// Returns the text of a file in UTF-8, whatever its encoding; its bytes where it is no text.
pub fn to_utf8(bytes: Vec<u8>) -> Vec<u8> {
    match decode(bytes) {
        Ok(decoded) => decoded.text.into_bytes(),
        Err(bytes) => bytes,
    }
}

/// As [`to_utf8`], for a content that is read in place: nearly all files are UTF-8.
pub fn as_utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    let is_marked = || Encoding::for_bom(bytes).is_some();
    match !is_marked() && !has_nul(bytes) && std::str::from_utf8(bytes).is_ok() {
        true => Cow::Borrowed(bytes),
        false => Cow::Owned(to_utf8(bytes.to_vec())),
    }
}

/// Decodes the content of a file; gives it back where it is no text.
pub(super) fn decode(bytes: Vec<u8>) -> Result<Decoded, Vec<u8>> {
    if let Some((charset, length)) = Encoding::for_bom(&bytes) {
        let encoding = TextEncoding { charset, byte_order_mark: true };
        let decoded = decode_by(encoding, &bytes, length);
        // A few binary formats begin with these bytes, too.
        let is_text = if charset == UTF_8 { !has_nul(&bytes) } else { !decoded.lossy };
        if is_text {
            return Ok(decoded);
        }
    }
    if has_nul(&bytes) {
        return match utf16_without_mark(&bytes) {
            Some(charset) => {
                let decoded = decode_by(TextEncoding { charset, byte_order_mark: false }, &bytes, 0);
                if decoded.lossy { Err(bytes) } else { Ok(decoded) }
            }
            None => Err(bytes),
        };
    }
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return Ok(Decoded { text, encoding: TextEncoding::UTF_8, lossy: false }),
        Err(error) => error.into_bytes(),
    };
    // PDF says itself that it is no text, though some have no such byte.
    if bytes.starts_with(b"%PDF-") || bytes.iter().take(PROBE).any(|&byte| is_control(byte)) {
        return Err(bytes);
    }
    Ok(decode_by(TextEncoding { charset: guess(&bytes), byte_order_mark: false }, &bytes, 0))
}

/// Decodes what follows the first bytes of a content.
fn decode_by(encoding: TextEncoding, bytes: &[u8], skip: usize) -> Decoded {
    let rest = bytes.get(skip..).unwrap_or_default();
    let (text, has_errors) = encoding.charset.decode_without_bom_handling(rest);
    let text = text.into_owned();
    let lossy = has_errors || encoding.encode(&text).as_deref() != Ok(bytes);
    Decoded { text, encoding, lossy }
}

fn has_nul(bytes: &[u8]) -> bool {
    memchr::memchr(0, bytes.get(..PROBE).unwrap_or(bytes)).is_some()
}

/// Returns whether a byte is a control character that no text has. Escape begins the sequences of ISO-2022-JP.
fn is_control(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0x1a | 0x1b)
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    let begin = bytes.get(..GUESSED_BY).unwrap_or(bytes);
    detector.feed(begin, begin.len() == bytes.len());
    detector.guess(None, Utf8Detection::Deny)
}

/// The order of bytes in which a content without a byte order mark is UTF-16: every other byte of most characters is zero.
fn utf16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    let (mut little, mut big, mut pairs) = (0, 0, 0);
    for pair in bytes.get(..PROBE).unwrap_or(bytes).chunks_exact(2) {
        pairs += 1;
        match *pair {
            [low, 0] if low != 0 && !is_control(low) => little += 1,
            [0, low] if low != 0 && !is_control(low) => big += 1,
            [0, 0] => return None,
            _ => {}
        }
    }
    match (little, big) {
        (little, 0) if little * 100 >= pairs * ASCII_OF_100 => Some(UTF_16LE),
        (0, big) if big * 100 >= pairs * ASCII_OF_100 => Some(UTF_16BE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(bytes: &[u8]) -> Decoded {
        decode(bytes.to_vec()).unwrap_or_else(|_| panic!("no text: {bytes:?}"))
    }

    fn utf16(text: &str, bytes: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn what_is_common_is_recognised_and_comes_back_as_it_was() {
        let german = "Die Größe für Straßen ändert sich; natürlich müssen wir das prüfen.\n";
        let japanese = "これは日本語のテキストです。設定ファイルを読み込みます。\n";
        let russian = "Это текст на русском языке, и его нужно прочитать.\n";
        for (name, text) in [
            ("windows-1252", german),
            ("Shift_JIS", japanese),
            ("EUC-JP", japanese),
            ("windows-1251", russian),
            ("KOI8-R", russian),
        ] {
            let charset = Encoding::for_label(name.as_bytes()).unwrap();
            let (bytes, _, _) = charset.encode(text);
            let found = decoded(&bytes);
            assert_eq!((found.text.as_str(), found.lossy), (text, false), "{name}");
            assert_eq!(found.encoding.encode(&found.text).unwrap(), bytes.as_ref(), "{name}");
            assert!(!found.encoding.is_utf8());
        }
        for (name, bytes) in [
            ("UTF-8", format!("\u{feff}{german}").into_bytes()),
            ("UTF-8", german.as_bytes().to_vec()),
            ("UTF-16LE", utf16(&format!("\u{feff}{german}"), u16::to_le_bytes)),
            ("UTF-16BE", utf16(&format!("\u{feff}{german}"), u16::to_be_bytes)),
            ("UTF-16LE", utf16(german, u16::to_le_bytes)),
            ("UTF-16BE", utf16(german, u16::to_be_bytes)),
        ] {
            let found = decoded(&bytes);
            assert_eq!((found.encoding.name(), found.text.as_str(), found.lossy), (name, german, false));
            assert_eq!(found.encoding.encode(german).unwrap(), bytes);
        }
    }

    #[test]
    fn what_is_no_text_stays_bytes() {
        for bytes in [
            &b"\x89PNG\r\n\x1a\n\0\0"[..],
            b"\0\0",
            b"a\x01\xff\xfe",
            b"\xef\xbb\xbfa\0b",
            b"ab\0",
            b"x\0\x01\x02",
        ] {
            assert!(decode(bytes.to_vec()).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn what_an_encoding_lacks_is_named() {
        let latin = decoded(b"Stra\xdfe und B\xfccher\n").encoding;
        assert_eq!(latin.name(), "windows-1252");
        assert_eq!(latin.encode("a → ß"), Err(UnencodableCharacter('→')));
        assert_eq!(latin.encode("ß€").unwrap(), b"\xdf\x80");
        let japanese = TextEncoding { charset: encoding_rs::SHIFT_JIS, byte_order_mark: false };
        assert_eq!(
            japanese.encode("100\u{a5}"),
            Err(UnencodableCharacter('\u{a5}')),
            "it would become a backslash"
        );
    }

    #[test]
    fn an_encoding_is_recorded_by_its_name() {
        for (bytes, record) in [
            (b"Stra\xdfe und B\xfccher\n".to_vec(), r#"{"charset":"windows-1252"}"#),
            (utf16("\u{feff}a\n", u16::to_le_bytes), r#"{"charset":"UTF-16LE","byteOrderMark":true}"#),
            (b"a\n".to_vec(), r#"{"charset":"UTF-8"}"#),
        ] {
            let encoding = decoded(&bytes).encoding;
            assert_eq!(serde_json::to_string(&encoding).unwrap(), record);
            assert_eq!(serde_json::from_str::<TextEncoding>(record).unwrap(), encoding);
        }
        let error = serde_json::from_str::<TextEncoding>(r#"{"charset":"utf-7"}"#).unwrap_err();
        assert!(
            error.to_string().starts_with("\"utf-7\" is no encoding of the Encoding Standard"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn what_can_be_encoded_is_read_back_as_it_was(
            text in "[ -~\u{a0}-\u{17f}\u{2010}-\u{2040}\u{20ac}\u{3040}-\u{30ff}\u{4e00}-\u{4e40}\u{ff00}-\u{ffef}]{0,20}",
            name in prop::sample::select(vec![
                "windows-1252", "windows-1251", "koi8-r", "shift_jis", "euc-jp", "iso-2022-jp", "gbk", "gb18030", "big5",
                "euc-kr", "macintosh",
            ]),
        ) {
            let charset = Encoding::for_label(name.as_bytes()).unwrap();
            let encoding = TextEncoding { charset, byte_order_mark: false };
            if let Ok(bytes) = encoding.encode(&text) {
                let decoded = decode_by(encoding, &bytes, 0);
                prop_assert_eq!(decoded.text, text);
            }
        }

        #[test]
        fn what_is_not_lossy_comes_back_byte_for_byte(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(Decoded { text, encoding, lossy: false }) = decode(bytes.clone()) {
                prop_assert_eq!(encoding.encode(&text), Ok(bytes));
            }
        }

        #[test]
        fn utf_8_is_always_read_as_such(text in "[^\0\u{feff}]{0,40}") {
            let found = decoded(text.as_bytes());
            prop_assert!(found.encoding.is_utf8() && !found.lossy);
            prop_assert_eq!(found.text, text);
        }
    }
}
