//! Finds the known word that a misspelt one was meant to be. Pure.

use rapidfuzz::distance::osa;

/// The longest word that is compared, in bytes: what is longer is no typo.
const MAX_WORD_BYTES: usize = 64;

/// The known word that `written` nearly is: one slip away, in a longer word two with the same first letter; `-`,
/// `_` and capitals count for nothing. None where it is one of them.
pub fn meant<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > MAX_WORD_BYTES {
        return None;
    }
    let plain = |word: &str| word.to_lowercase().replace(['-', '_'], "");
    let wanted = plain(written);
    let slips = |word: &str| {
        let word = plain(word);
        let slips = osa::distance(wanted.chars(), word.chars());
        let most = if word.len() > 6 && wanted.chars().next() == word.chars().next() { 2 } else { 1 };
        (slips <= most).then_some(slips)
    };
    let near = known.into_iter().filter(|word| *word != written);
    near.filter_map(|word| Some((slips(word)?, word))).min_by_key(|(slips, _)| *slips).map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["profile", "profiles", "mode", "modes", "autoApprove"];
        let meant = |written: &str| meant(written, known);
        assert_eq!(meant("profils"), Some("profile"));
        assert_eq!(meant("porfiles"), Some("profiles"));
        assert_eq!(meant("auto_approve"), Some("autoApprove"));
        assert_eq!(meant("mod"), Some("mode"));
        assert_eq!((meant("colour"), meant(&"m".repeat(100))), (None, None));
    }
}
