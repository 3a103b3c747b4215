//! Bytes to text, across the borders of the pieces they come in.

/// Decodes UTF-8 that comes in pieces. What isn't UTF-8 becomes U+FFFD, exactly as if all bytes had
/// come at once.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Bytes not handed out yet; between calls at most the first three bytes of a character.
    pending: Vec<u8>,
}

impl Decoder {
    /// Everything that is decided by now.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let begun = (1..=self.pending.len().min(3)).find(|&count| {
            std::str::from_utf8(&self.pending[self.pending.len() - count..])
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        });
        let complete = self.pending.len() - begun.unwrap_or(0);
        let text = String::from_utf8_lossy(&self.pending[..complete]).into_owned();
        self.pending.drain(..complete);
        text
    }

    /// Decodes the rest when no more bytes come.
    pub(super) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> String {
        let mut decoder = Decoder::default();
        let mut text: String = pieces.iter().map(|piece| decoder.decode(piece)).collect();
        text.push_str(&decoder.finish());
        text
    }

    #[test]
    fn a_character_cut_in_the_middle_is_whole_again() {
        assert_eq!(decode(&[b"\xe2", b"\x82", b"\xac!"]), "€!");
    }

    #[test]
    fn a_character_that_never_ends_becomes_one_replacement() {
        assert_eq!(decode(&[b"a\xf0\x9f", b"\x98"]), "a\u{fffd}");
    }

    #[test]
    fn text_is_handed_out_as_soon_as_it_is_decided() {
        assert_eq!(Decoder::default().decode(b"ab\xc3"), "ab");
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(
            bytes in prop::collection::vec(
                prop::sample::select(b"a\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff\xed".to_vec()), 0..40),
            size in 1usize..6,
        ) {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(decode(&pieces), String::from_utf8_lossy(&bytes));
        }
    }
}
