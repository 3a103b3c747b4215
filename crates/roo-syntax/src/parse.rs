//! A text as a tree, within bounds of length and work that are the same on every machine.

use std::borrow::Cow;
use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

use super::grammar::Language;
use roo_text::bash_grammar::for_bash_grammar;

/// The longest text that is parsed, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 1 << 20;

/// Returns a text's tree, perhaps with errors in it; none when the text is too long or too much work.
pub fn parse(language: Language, text: &str) -> Option<Tree> {
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    // Its scanner crashes on several here-documents.
    if language == Language::Bash && text.matches("<<").count() > 1 {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).ok()?;
    // The parser asks after each hundred steps; plain code takes a few steps for each byte at most. The bound is in
    // steps, so that the same text has the same answer on every machine.
    let mut left = 1000 + text.len() / 8;
    let mut asked = |_: &ParseState| {
        left = left.saturating_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut asked);
    let text = match language {
        Language::Bash => for_bash_grammar(text),
        _ => Cow::Borrowed(text),
    };
    let bytes = text.as_bytes();
    let mut rest = |offset: usize, _| bytes.get(offset..).unwrap_or_default();
    parser.parse_with_options(&mut rest, None, Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_behind_a_brace_ends_the_program() {
        for c in (1_u32..=0x0010_ffff).step_by(61).filter_map(char::from_u32) {
            assert!(parse(Language::Bash, &format!("echo {{{c} {{1{c} {{1..2{c}\n")).is_some(), "{c:?}");
        }
    }
}
