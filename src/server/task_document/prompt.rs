//! The part of a task document that is its user's: what stands below `## Prompt`. Pure.

use std::ops::Range;

/// The heading behind which the user writes.
pub(super) const HEADING: &str = "\n## Prompt\n";

/// Returns the offset of the user's part of a text. What the server has written is known by its text; where the user
/// has changed that, by the last heading; where that is gone too, all that differs is the user's.
pub(super) fn start(text: &str, written: &[&str]) -> usize {
    let ours = |written: &&&str| !written.is_empty() && text.starts_with(**written);
    if let Some(known) = written.iter().filter(ours).map(|known| known.len()).max() {
        return known;
    }
    if let Some(heading) = text.rfind(HEADING) {
        return heading + HEADING.len();
    }
    if let Some(rest) = text.strip_prefix(&HEADING[1..]) {
        return text.len() - rest.len();
    }
    written.iter().map(|known| common_prefix(text, known)).max().unwrap_or_default()
}

/// Returns the user's text.
pub(super) fn user_text(text: &str, written: &[&str]) -> String {
    text.get(start(text, written)..).unwrap_or_default().trim().to_owned()
}

/// The one edit that makes one text the other, as bytes of the old one; none when they are the same. Both
/// ends that they share stay as they are.
pub(super) fn edit(old: &str, new: &str) -> Option<(Range<usize>, String)> {
    if old == new {
        return None;
    }
    let prefix = common_prefix(old, new);
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
    let mut suffix =
        old_rest.bytes().rev().zip(new_rest.bytes().rev()).take_while(|(old, new)| old == new).count();
    while !old_rest.is_char_boundary(old_rest.len() - suffix) {
        suffix -= 1;
    }
    Some((prefix..old.len() - suffix, new_rest[..new_rest.len() - suffix].to_owned()))
}

fn common_prefix(one: &str, other: &str) -> usize {
    let mut prefix = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    while !one.is_char_boundary(prefix) {
        prefix -= 1;
    }
    // Between CR and LF is no position of an editor.
    if one[..prefix].ends_with('\r') {
        prefix -= 1;
    }
    prefix
}

/// A prompt that begins with a slash and a word that names a mode: the word, and the rest.
pub(super) fn mode_of(prompt: &str, is_mode: impl Fn(&str) -> bool) -> (Option<&str>, &str) {
    let Some(behind) = prompt.strip_prefix('/') else { return (None, prompt) };
    let end = behind.find(char::is_whitespace).unwrap_or(behind.len());
    let (word, rest) = behind.split_at(end);
    if is_mode(word) { (Some(word), rest.trim_start()) } else { (None, prompt) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WRITTEN: &str = "# A\n\ntext\n\n## Prompt\n";

    #[test]
    fn what_stands_behind_the_servers_text_is_the_users() {
        assert_eq!(user_text(&format!("{WRITTEN}\ndo it\n"), &[WRITTEN]), "do it");
        // Even a heading like the server's.
        assert_eq!(user_text(&format!("{WRITTEN}a\n\n## Prompt\nb"), &[WRITTEN]), "a\n\n## Prompt\nb");
        // The newest text may still be on its way.
        assert_eq!(user_text(&format!("{WRITTEN}x"), &["", "# other"]), "x");
        assert_eq!(user_text("# A\n\n## Prompt\nx", &[WRITTEN, "# A\n\n## Prompt\n"]), "x");
    }

    #[test]
    fn who_changed_the_servers_text_loses_nothing_behind_it() {
        assert_eq!(user_text("# B\nmine\n\n## Prompt\ndo it", &[WRITTEN]), "do it");
        assert_eq!(user_text("## Prompt\ndo it", &[WRITTEN]), "do it");
        assert_eq!(user_text("# A\n\ntextdo it", &[WRITTEN]), "do it");
    }

    #[test]
    fn a_word_that_names_a_mode_is_taken() {
        let is_mode = |word: &str| word == "code";
        assert_eq!(mode_of("/code do\nit", is_mode), (Some("code"), "do\nit"));
        assert_eq!(mode_of("/code", is_mode), (Some("code"), ""));
        assert_eq!(mode_of("/init here", is_mode), (None, "/init here"));
        assert_eq!(mode_of("use /code", is_mode), (None, "use /code"));
    }

    proptest! {
        #[test]
        fn an_edit_makes_the_new_text(old in "[aä\r\n🦀]{0,12}", new in "[aä\r\n🦀]{0,12}") {
            let mut text = old.clone();
            match edit(&old, &new) {
                Some((range, inserted)) => text.replace_range(range, &inserted),
                None => prop_assert_eq!(&old, &new),
            }
            prop_assert_eq!(text, new);
        }

        #[test]
        fn what_the_user_typed_stays(user in "[a# \nPrompt]{0,20}", more in "[a\n]{0,9}") {
            let old = format!("{WRITTEN}{user}");
            let grown = format!("# A\n\ntext{more}\n\n## Prompt\n");
            let new = format!("{grown}{}", &old[start(&old, &[WRITTEN])..]);
            let (range, inserted) = edit(&old, &new).unwrap_or_default();
            let mut text = old.clone();
            text.replace_range(range, &inserted);
            prop_assert!(text.ends_with(&user) && text.starts_with(&grown));
        }
    }
}
