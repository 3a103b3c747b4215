//! Which characters are pictures: what the emoji of a mode is made of, in its name and in the tree of a delegation.

/// Returns whether a character is a picture by itself: a symbol or a pictograph. What trees are drawn with (U+2500 to U+259F),
/// mathematical signs and Braille are none.
pub(super) fn is_pictograph(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{24ff}'
        | '\u{25a0}'..='\u{27bf}' | '\u{2900}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1faff}')
}

/// Returns whether a character is a picture or a part of one: joiner, presentation selector, the frame of a key.
pub(super) fn is_part_of_pictograph(c: char) -> bool {
    is_pictograph(c) || matches!(c, '\u{200d}' | '\u{20e3}' | '\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_told_from_letters_and_from_what_trees_are_drawn_with() {
        for c in "©®‼⁉™ℹ↔⌚Ⓜ▪☀✒➰⤴⬅〰〽㊗㊙🃏🎼🪄🫡".chars() {
            assert!(is_pictograph(c) && is_part_of_pictograph(c), "{c}");
        }
        for c in "aé1#*├└│─═█⟶⠿あ字".chars() {
            assert!(!is_part_of_pictograph(c), "{c}");
        }
        for c in "\u{200d}\u{20e3}\u{fe0f}".chars() {
            assert!(!is_pictograph(c) && is_part_of_pictograph(c), "{c:?}");
        }
    }
}
