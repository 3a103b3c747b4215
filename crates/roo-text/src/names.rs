//! File names as they compare. Pure; no path is looked up here.

use icu_normalizer::ComposingNormalizerBorrowed;

use super::render::is_invisible;

/// A name as the most lenient file system compares it: without case, without characters that some systems
/// skip, and with compatibility forms (full-width letters, ligatures) as the plain ones. By upper case first,
/// since `ſ` and `ı` meet `s` and `i` only there.
pub fn fold(name: &str) -> String {
    // Nearly all names, and there may be hundreds of thousands to compare.
    if name.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return name.to_ascii_lowercase();
    }
    ComposingNormalizerBorrowed::new_nfkc()
        .normalize(name)
        .chars()
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
        assert_eq!(fold("a\u{7f}B\0 ~"), fold("A\u{7f}b\0 ~"));
        let plain: String = (' '..='~').collect();
        assert_eq!(fold(&plain), fold(&format!("{plain}\u{feff}")), "the short way is the long one");
        assert_eq!(fold(".v\u{17f}code"), ".vscode");
        assert_eq!(fold(".\u{212a}iro"), ".kiro");
        assert_eq!(fold("\u{ff0e}\u{ff52}\u{ff4f}\u{ff4f}\u{ff0f}mcp.json"), ".roo/mcp.json");
        assert_eq!(fold("con\u{fb01}g \u{2460}"), "config 1");
    }
}
