//! File names as they compare and as people see them. Pure; no path is looked up here.

use std::fmt::Write as _;

/// Whether a character takes no space of its own or turns the direction of text, so that a name with
/// it doesn't look like what it is.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(u32::from(c),
        0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
        | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164
        | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF9..=0xFFFB | 0xE0000..=0xE0FFF)
}

/// Text as it may be shown: control and invisible characters become `<U+XXXX>`.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            // Writing to a string can't fail.
            let _ = write!(shown, "<U+{:04X}>", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A name as the most lenient file system compares it: without case, without characters that some
/// systems skip. By upper case first, since `ſ` and `ı` meet `s` and `i` only there.
pub(super) fn fold(name: &str) -> String {
    name.chars()
        .filter(|&c| !is_invisible(c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_some_file_system_takes_for_one_fold_to_one() {
        for name in [".ROO", ".Roo", ".r\u{200c}oo", ".roo\u{feff}"] {
            assert_eq!(fold(name), ".roo");
        }
        assert_eq!(fold(".v\u{17f}code"), ".vscode");
        assert_eq!(fold(".\u{212a}iro"), ".kiro");
    }

    #[test]
    fn what_can_not_be_seen_is_spelled_out() {
        assert_eq!(visible("src/\u{202e}gnp.ts"), "src/<U+202E>gnp.ts");
        assert_eq!(visible("a\nb\u{1b}[2K"), "a<U+000A>b<U+001B>[2K");
        assert_eq!(visible("häuser/日本.md"), "häuser/日本.md");
    }
}
