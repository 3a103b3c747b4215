//! File names as they compare and as people see them. Pure; no path is looked up here.

use crate::text::render::{self, is_invisible};

/// A name as it may be shown, on one line: control and invisible characters become `<U+XXXX>`.
pub fn visible(name: &str) -> String {
    render::visible(name).replace('\n', "<U+000A>").replace('\t', "<U+0009>")
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
