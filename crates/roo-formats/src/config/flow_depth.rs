//! Limit on the nesting of brackets in YAML, checked in one pass before the library reads it: the library's own limit
//! comes after a scan that takes quadratic time on deep brackets.

use crate::text_range::Position;

/// Maximum nesting of brackets.
pub(super) const LIMIT: usize = 128;

/// State of the scanner between brackets, where indentation has no meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScannerState {
    /// Something may begin.
    Start,
    /// Behind a `-` that begins something.
    Dash,
    Plain,
    /// In plain text, after a blank: a `#` begins a comment here.
    PlainBlank,
    /// In plain text, after a colon that may end it.
    PlainColon,
    Comment,
    Single,
    /// Behind a quote that ends the text, unless another follows.
    SingleQuote,
    Double,
    /// Behind a backslash.
    Escape,
    Anchor,
    /// Behind the `!`.
    TagStart,
    Tag,
    /// Between `!<` and `>`.
    Verbatim,
}

/// Returns the position at which brackets are nested deeper than [`LIMIT`], if they are.
///
/// Which bracket opens something and which is but text depends on all that stands before it. So every
/// opening bracket counts as one that might, all of them are followed at once, and of those in the same
/// state the deepest stands for the others: never less than the truth, and seldom more.
pub(super) fn too_deep(text: &str) -> Option<Position> {
    deeper_than(LIMIT, text)
}

fn deeper_than(limit: usize, text: &str) -> Option<Position> {
    if text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() <= limit {
        return None;
    }
    let (mut line, mut column) = (1, 1);
    // Each state at most once.
    let (mut followed, mut next) = (Vec::<(ScannerState, usize)>::new(), Vec::<(ScannerState, usize)>::new());
    for c in text.chars() {
        let opened = matches!(c, '[' | '{').then_some((ScannerState::Start, 1));
        for (state, depth) in followed.drain(..).map(|(state, depth)| step(state, depth, c)).chain(opened) {
            match next.iter_mut().find(|(known, _)| *known == state) {
                _ if depth == 0 => {}
                _ if depth > limit => return Some(Position { line, column }),
                Some((_, known)) => *known = depth.max(*known),
                None => next.push((state, depth)),
            }
        }
        std::mem::swap(&mut followed, &mut next);
        (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    None
}

/// Advances the scanner by one character.
fn step(state: ScannerState, depth: usize, c: char) -> (ScannerState, usize) {
    let next = match state {
        ScannerState::Start => return start(depth, c),
        ScannerState::Plain => return plain(depth, c),
        ScannerState::PlainBlank if c == '#' => ScannerState::Comment,
        ScannerState::PlainBlank => return plain(depth, c),
        ScannerState::Dash | ScannerState::PlainColon if is_blank(c) => ScannerState::Start,
        ScannerState::Dash | ScannerState::PlainColon => return plain(depth, c),
        ScannerState::Comment if is_break(c) => ScannerState::Start,
        ScannerState::Comment => ScannerState::Comment,
        ScannerState::Single if c == '\'' => ScannerState::SingleQuote,
        ScannerState::Single => ScannerState::Single,
        ScannerState::SingleQuote if c == '\'' => ScannerState::Single,
        ScannerState::SingleQuote => return start(depth, c),
        ScannerState::Double if c == '"' => ScannerState::Start,
        ScannerState::Double if c == '\\' => ScannerState::Escape,
        ScannerState::Double | ScannerState::Escape => ScannerState::Double,
        ScannerState::Anchor if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => ScannerState::Anchor,
        ScannerState::Anchor => return start(depth, c),
        ScannerState::TagStart if c == '<' => ScannerState::Verbatim,
        ScannerState::TagStart | ScannerState::Tag if is_blank(c) || c == ',' => ScannerState::Start,
        ScannerState::TagStart | ScannerState::Tag => ScannerState::Tag,
        ScannerState::Verbatim if c == '>' => ScannerState::Start,
        ScannerState::Verbatim => ScannerState::Verbatim,
    };
    (next, depth)
}

/// Handles a character at a position where a value may begin.
fn start(depth: usize, c: char) -> (ScannerState, usize) {
    let next = match c {
        '[' | '{' => return (ScannerState::Start, depth + 1),
        ']' | '}' => return (ScannerState::Start, depth - 1),
        '#' => ScannerState::Comment,
        '\'' => ScannerState::Single,
        '"' => ScannerState::Double,
        '&' | '*' => ScannerState::Anchor,
        '!' => ScannerState::TagStart,
        '-' => ScannerState::Dash,
        ',' | ':' | '?' => ScannerState::Start,
        _ if is_blank(c) => ScannerState::Start,
        _ => ScannerState::Plain,
    };
    (next, depth)
}

/// In plain text.
fn plain(depth: usize, c: char) -> (ScannerState, usize) {
    match c {
        '[' | '{' | ']' | '}' | ',' => start(depth, c),
        ':' => (ScannerState::PlainColon, depth),
        _ if is_blank(c) => (ScannerState::PlainBlank, depth),
        _ => (ScannerState::Plain, depth),
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t') || is_break(c)
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::yaml;

    /// Between brackets: a text with how deep it nests.
    fn flow() -> impl Strategy<Value = (String, usize)> {
        let scalar = prop::sample::select(vec![
            "x",
            "it's",
            "a b",
            // Every comment ends with its line: what follows must count for the depth.
            "a #b\n",
            "\"[ \\\" ]\"",
            "'[ '' ]'",
            "'#'",
            "-x",
            "a:b",
            "? b",
            "&a '}'",
            "1 # ]'\n",
            "\n x",
            "\"#\"",
            "a'b \"c",
            "?x",
            "\"]\"",
            "-]x",
            "x&'y",
        ]);
        let leaf = scalar.prop_map(|text| (text.to_owned(), 0));
        leaf.prop_recursive(6, 40, 4, |inner| {
            let comma = prop::sample::select(vec![",", ", ", " , # ]}\n", ",\r\n "]);
            (prop::collection::vec(inner, 0..4), comma, any::<bool>()).prop_map(|(parts, comma, list)| {
                let depth = parts.iter().map(|(_, depth)| depth).max().map_or(0, |depth| *depth) + 1;
                let part = |(index, (text, _)): (usize, &(String, usize))| {
                    if list { text.clone() } else { format!("'k{index}]': {text}") }
                };
                let parts: Vec<String> = parts.iter().enumerate().map(part).collect();
                let parts = parts.join(comma);
                (if list { format!("[{parts} ]") } else { format!("{{{parts} }}") }, depth)
            })
        })
    }

    fn nested(open: &str, close: &str, depth: usize) -> String {
        format!("a: {}x{}", open.repeat(depth), close.repeat(depth))
    }

    #[test]
    fn brackets_may_nest_as_deep_as_the_limit() {
        assert_eq!(too_deep(&nested("[", "]", LIMIT)), None);
        let at = |column| Some(Position { line: 1, column });
        assert_eq!(too_deep(&nested("[", "]", LIMIT + 1)), at(4 + LIMIT));
        assert_eq!(too_deep(&nested("{b: ", "}", LIMIT + 1)), at(4 + 4 * LIMIT));
    }

    #[test]
    fn closing_brackets_that_are_text_close_nothing() {
        for open in [
            "[ \"]\", ",
            "[ \"\\\"]\", ",
            "[ '] '']', ",
            "[ # ]\n",
            "[ a #]\r",
            "[ # it's ]\u{2028}",
            "[!<]>, ",
            "[!a ']', ",
            "{ ? ']' : ",
            "{a'b: ']]', c: ",
            "[&x ']', ",
            "{\"a\":']', b: ",
            "[- ']', ",
            "[-'x, ",
        ] {
            assert!(too_deep(&nested(open, "", LIMIT + 1)).is_some(), "{open}");
        }
        // What looks like an open quote before it hides nothing either.
        let text = format!("a: x\n  'y\nb: {}", "[".repeat(LIMIT + 1));
        assert!(too_deep(&text).is_some());
    }

    proptest! {
        #[test]
        fn no_nesting_is_overlooked(
            before in prop::sample::select(vec!["", "a: x\n  'y\n", "a: |\n  \"[\n", "a: \"]\"\n", "# '[\n", "- [\n"]),
            (text, depth) in flow(),
        ) {
            let text = format!("{before}b: {text}");
            if depth > 0 && yaml::parse(&text).is_ok() {
                prop_assert!(deeper_than(depth - 1, &text).is_some(), "{depth} {text}");
            }
        }
    }

    #[test]
    fn many_brackets_side_by_side_are_not_deep() {
        for one in [
            "  - groups: [read, [edit, { fileRegex: '[a-z]\\.md$', description: \"it's [x\" }]]\n",
            "{\"slug\": \"a\", \"text\": \"don't [see](this) \\\" [x]\", \"groups\": [\"read\"]},\n",
            "    - [ ] a task, that isn't done # [see above]\n",
            "    It's an array: `int[] a = {1, 2};` and `[[nested]]`.\n",
        ] {
            assert_eq!(too_deep(&one.repeat(2000)), None, "{one}");
        }
    }
}
