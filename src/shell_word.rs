//! Words of command lines that are shown for users to type.

use roo_text::render::exact_line;

/// The text as one word for a shell, on one line.
pub(crate) fn shell_word(text: &str) -> String {
    let quoted = shlex::try_quote(text).map_or_else(|_| text.to_owned(), |quoted| quoted.into_owned());
    exact_line(&quoted)
}
