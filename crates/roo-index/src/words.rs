//! Words of texts and questions, as the index compares them: identifiers in their parts, without the words that every
//! text has. In scripts that are written without blanks, two characters that follow each other are a word.

/// The longest part of an identifier, in characters. What is longer is a digest or encoded data.
const MAX_PART_CHARS: usize = 32;

/// The longest identifier that is a word of its own besides its parts, in bytes.
const MAX_WHOLE_BYTES: usize = 64;

/// The beginning of a line that is looked at, in bytes: a longer one is generated.
const LINE: usize = 4 << 10;

/// Words that say nothing about a text, sorted.
const STOP_WORDS: &[&str] = &[
    "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "code", "could", "did", "do", "does", "else", "file", "find", "for", "from", "get", "gets", "had", "has",
    "have", "how", "if", "in", "into", "is", "it", "its", "me", "my", "no", "not", "of", "on", "one", "or",
    "our", "place", "places", "should", "show", "so", "some", "such", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "those", "to", "used", "uses", "using", "was", "we", "were", "what",
    "when", "where", "which", "who", "why", "will", "with", "would", "you", "your",
];

/// The beginning of a text, of this many bytes at most.
pub(crate) fn prefix(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

/// Appends the words of a text, each followed by a blank.
pub(crate) fn append_words(text: &str, words: &mut String) {
    for line in text.split('\n') {
        for identifier in prefix(line, LINE).split(|c: char| !c.is_alphanumeric() && c != '_') {
            append_identifier(identifier, words);
        }
    }
}

/// Returns the different words of a question in its order. One that consists of nothing but stop words has none.
pub(crate) fn question_words(question: &str) -> Vec<String> {
    let mut text = String::new();
    append_words(question, &mut text);
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        if !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    words
}

/// Appends an identifier by its runs of scripts with blanks and without.
fn append_identifier(identifier: &str, words: &mut String) {
    let mut rest = identifier;
    while let Some(first) = rest.chars().next() {
        let has_blanks = !is_unspaced(first);
        let end = rest.find(|c| is_unspaced(c) == has_blanks).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        match has_blanks {
            true => append_spaced(run, words),
            false => append_pairs(run, words),
        }
        rest = after;
    }
}

/// Reports whether a character is of a script whose words are not separated by blanks, or only together with their endings.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        // Thai and Lao, Myanmar, Khmer
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Hangul
        | '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{ac00}'..='\u{d7ff}' | '\u{ffa0}'..='\u{ffdc}'
        // Kana
        | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9f}'
        // Han
        | '\u{3005}'..='\u{3007}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Appends each two characters that follow each other, or the only one.
fn append_pairs(run: &str, words: &mut String) {
    let mut characters = run.chars();
    let Some(mut previous) = characters.next() else { return };
    if previous.len_utf8() == run.len() {
        words.extend([previous, ' ']);
    }
    for c in characters {
        words.extend([previous, c, ' ']);
        previous = c;
    }
}

/// Appends an identifier in its parts, and as a whole where it has several.
fn append_spaced(identifier: &str, words: &mut String) {
    let (mut count, start) = (0, words.len());
    for part in parts(identifier) {
        if part.chars().count() > MAX_PART_CHARS {
            words.truncate(start);
            return;
        }
        count += 1;
        append_word(part, words);
    }
    if count > 1 && identifier.len() <= MAX_WHOLE_BYTES {
        let before = words.len();
        words.extend(identifier.chars().filter(|&c| c != '_').flat_map(char::to_lowercase));
        words.push(' ');
        // A number with a unit, say.
        if words.len() - before < 5 {
            words.truncate(before);
        }
    }
}

fn append_word(part: &str, words: &mut String) {
    // Letters that stand alone name variables of a few lines.
    if part.len() < 2 {
        return;
    }
    let start = words.len();
    words.extend(part.chars().flat_map(char::to_lowercase));
    match STOP_WORDS.binary_search(&&words[start..]) {
        Ok(_) => words.truncate(start),
        Err(_) => words.push(' '),
    }
}

/// The parts of an identifier: `parseHTTPResponse_v2` has `parse`, `HTTP`, `Response`, `v2`.
fn parts(identifier: &str) -> impl Iterator<Item = &str> {
    identifier.split('_').flat_map(|piece| {
        let mut rest = piece;
        std::iter::from_fn(move || {
            let end = part_end(rest);
            let (part, after) = rest.split_at(end);
            rest = after;
            (!part.is_empty()).then_some(part)
        })
    })
}

/// The end of the first part of a name without underscores, in bytes.
fn part_end(name: &str) -> usize {
    let mut chars = name.char_indices();
    let Some((_, first)) = chars.next() else { return 0 };
    let (mut previous, mut previous_at) = (first, 0);
    // The name begins with a run of capitals.
    let mut capitals = first.is_uppercase();
    for (at, c) in chars {
        match (previous.is_uppercase(), c.is_uppercase()) {
            (false, true) => return at,
            // `HTTPResponse`: the last capital begins the next part.
            (true, false) if capitals && previous_at > 0 && c.is_lowercase() => return previous_at,
            (true, false) => capitals = false,
            _ => {}
        }
        (previous, previous_at) = (c, at);
    }
    name.len()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        question_words(text)
    }

    #[test]
    fn identifiers_have_their_parts_and_themselves() {
        assert_eq!(words("parseHTTPResponse_v2"), ["parse", "http", "response", "v2", "parsehttpresponsev2"]);
        assert_eq!(words("snake_case kebab-case"), ["snake", "case", "snakecase", "kebab"]);
        assert_eq!(words("XMLHttpRequest"), ["xml", "http", "request", "xmlhttprequest"]);
        assert_eq!(words("__init__ utf8 größeÄndern"), ["init", "utf8", "größe", "ändern", "größeändern"]);
    }

    #[test]
    fn scripts_without_blanks_have_pairs_of_characters() {
        assert_eq!(words("データの接続"), ["デー", "ータ", "タの", "の接", "接続"]);
        assert_eq!(words("値, set_接続先_Timeout"), ["値", "set", "接続", "続先", "timeout"]);
        assert_eq!(words("재시도는 ลองใหม่"), ["재시", "시도", "도는", "ลอ", "อง", "งใ", "ให", "หม"]);
        assert_eq!(words("производительность"), ["производительность"]);
    }

    #[test]
    fn what_says_nothing_is_no_word() {
        assert_eq!(words("Where is the retry of a request?"), ["retry", "request"]);
        assert_eq!(words("where is it"), Vec::<String>::new());
        assert_eq!(words(&format!("x {}", "0123456789abcdef".repeat(4))), Vec::<String>::new());
        assert!(STOP_WORDS.is_sorted());
    }

    proptest! {
        #[test]
        fn words_are_short_and_plain(text in "([a-zA-Z0-9_é ΣßÄ接デ\n.-]{1,4}){0,30}") {
            for word in words(&text) {
                prop_assert!(word.len() > 1 && word.len() <= 3 * MAX_WHOLE_BYTES, "{word}");
                prop_assert!(word.chars().all(|c| c != '"' && !c.is_whitespace()), "{word}");
            }
        }
    }
}
