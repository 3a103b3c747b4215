//! Comments in which a model says that it left text out: `// ... rest of the code unchanged ...`.
//!
//! Only lines that are nothing but such a comment count. What is said in English only, and with few of its words.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

/// Openings of a comment in which text is left out, the longer ones first.
const OPENINGS: [&str; 11] = ["{/*", "<!--", "///", "//", "/*", "#", "--", ";", "%", "*", "'"];
const CLOSINGS: [&str; 3] = ["*/}", "*/", "-->"];
/// The only ones in a file of prose, where the others are headings and lists.
const PROSE_OPENING: &str = "<!--";
/// The longest comment that is looked at, in bytes.
const MAX_COMMENT_BYTES: usize = 200;

/// Phrases of a comment, without what decorates it.
struct Sayings {
    /// Phrases that are enough by themselves.
    plain: Regex,
    /// Phrases that count only between dots.
    dotted: Regex,
}

static SAYINGS: LazyLock<Sayings> = LazyLock::new(|| {
    let code = "(?:code|file|contents?|implementation|functions?|methods?|class|classes|component|module|script|program|\
                document|logic|imports?|body|styles?|markup|template)";
    let unchanged = "(?:(?:remains?|stays?|is|are|left|kept) )*(?:unchanged|untouched|unmodified|intact|omitted|the same|same \
                     as before|as before|as it was|as is)(?: for brevity| here)?";
    let old = "(?:rest|remainder|remaining|existing|previous|original|unchanged)";
    let place = "(?:here|goes here|go here|below|above|follows|continues)";
    let plain = [
        format!(
            "(?:the )?(?:rest|remainder) of (?:the |your |this |my |its )?(?:[a-z]+ ){{0,2}}{code}(?: {unchanged}| {place})?"
        ),
        format!("(?:the |all )?(?:{old}|other)(?: of)?(?: [a-z]+){{0,2}} {code} {unchanged}"),
        format!("(?:the )?(?:rest|everything else) {unchanged}"),
        format!(r"lines? \d+ ?(?:-|to|through) ?\d+ {unchanged}"),
        format!("(?:your |the |keep |insert |add )?{old} (?:[a-z]+ )?{code} {place}"),
        "(?:existing|previous|unchanged) code".to_owned(),
        "(?:[a-z]+ ){0,4}omitted for brevity".to_owned(),
        format!("(?:{old} )?code (?:omitted|snipped|elided|truncated)"),
    ];
    let dotted = [
        format!("(?:[a-z]+ ){{0,2}}(?:{old}|other|same|more|old)(?: [a-z]+){{0,3}} {code}(?: [a-z]+){{0,3}}"),
        format!("(?:the )?(?:{old}|same as before)(?: {place})?"),
        format!("(?:code|content) {place}|{unchanged}|snip"),
    ];
    let compile = |sayings: &[String]| {
        // The patterns are constants, tried by every test.
        #[expect(clippy::unwrap_used, reason = "constant patterns that compile")]
        Regex::new(&format!("^(?:{})$", sayings.join("|"))).unwrap()
    };
    Sayings { plain: compile(&plain), dotted: compile(&dotted) }
});

/// A line that stands for text that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omission {
    /// Its number, from 1.
    pub line: usize,
    /// Its text, without the blanks around it.
    pub text: String,
}

/// The first line of a new text that stands for what was left out, and was not in the text before.
pub fn find(path: &str, before: Option<&str>, after: &str) -> Option<Omission> {
    let ending = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_prose = matches!(ending.as_str(), "md" | "mdx" | "markdown" | "txt" | "rst" | "adoc");
    let mut lines = after.lines().map(str::trim).enumerate().filter(|(_, line)| is_omission(line, is_prose));
    let known = LazyLock::new(|| -> HashSet<&str> {
        before.into_iter().flat_map(str::lines).map(str::trim).collect()
    });
    let (index, line) = lines.find(|(_, line)| !known.contains(line))?;
    Some(Omission { line: index + 1, text: line.to_owned() })
}

fn is_omission(line: &str, is_prose: bool) -> bool {
    if line.len() > MAX_COMMENT_BYTES {
        return false;
    }
    let opening = OPENINGS.iter().find(|opening| line.starts_with(**opening));
    let is_comment = opening.is_some_and(|opening| !is_prose || *opening == PROSE_OPENING);
    // Some models leave the comment out, but not the dots.
    if !is_comment && (is_prose || !line.starts_with(['.', '…', '[', '('])) {
        return false;
    }
    let text = opening.filter(|_| is_comment).and_then(|opening| line.strip_prefix(opening)).unwrap_or(line);
    let text = CLOSINGS.iter().find_map(|closing| text.strip_suffix(closing)).unwrap_or(text);
    let decoration = |c: char| !c.is_alphanumeric();
    let words = text.trim_matches(decoration);
    let (before, after) = text.split_once(words).unwrap_or_default();
    let is_dotted =
        !words.is_empty() && [before, after].iter().any(|ends| ends.contains("...") || ends.contains('…'));
    let said: Vec<String> = words.split_whitespace().map(str::to_ascii_lowercase).collect();
    let said = said.join(" ");
    SAYINGS.plain.is_match(&said) && (is_comment || is_dotted) || is_dotted && SAYINGS.dotted.is_match(&said)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(path: &str, text: &str) -> bool {
        find(path, None, text).is_some()
    }

    #[test]
    fn comments_that_stand_for_text_are_found() {
        for line in [
            "// rest of code unchanged",
            "// ... rest of the code remains the same ...",
            "    // ... existing code ...",
            "# ... (rest of the file unchanged) ...",
            "/* previous code */",
            "{/* ... existing JSX code ... */}",
            "<!-- rest of the content goes here -->",
            "// The rest of your existing code here",
            "// Lines 1-50 remain unchanged",
            "// remaining methods omitted for brevity",
            "-- other functions stay the same",
            "... existing code ...",
            "[... rest of the implementation ...]",
            "// … unchanged …",
            "# everything else is unchanged",
            "// ... other methods ...",
            "// ... code continues ...",
            " * ... rest of class ...",
            "; existing code here",
        ] {
            assert!(found("a.rs", &format!("fn a() {{}}\n{line}\n")), "{line}");
        }
        let omission = find("a.rs", None, "a\n  // ... existing code ...\n").unwrap();
        assert_eq!((omission.line, omission.text.as_str()), (2, "// ... existing code ..."));
    }

    #[test]
    fn code_and_other_comments_are_not() {
        for line in [
            "// The existing code relies on this order.",
            "// other methods",
            "# Rest of the arguments",
            "// previous value is unchanged",
            "// the same code as in parse()",
            "# ...",
            "...",
            "x = ...",
            "let rest = code.remaining();",
            "\"// ... existing code ...\"",
            "// See the rest of the documentation for more.",
            "#[test]",
            "* unchanged",
            "// unchanged",
            "#include \"rest.h\"",
            "    pass  # existing code",
            "// TODO: remove the existing code here once the migration of all users is over",
        ] {
            assert!(!found("a.py", line), "{line}");
        }
    }

    #[test]
    fn headings_and_lists_of_prose_are_not() {
        for line in [
            "# Rest of the code",
            "* existing code here",
            "... existing code ...",
            "// ... existing code ...",
        ] {
            assert!(!found("README.md", line), "{line}");
        }
        assert!(found("README.md", "<!-- rest of the document unchanged -->"));
    }

    #[test]
    fn what_the_file_says_already_may_stay() {
        let line = "// ... existing code ...";
        assert_eq!(find("a.rs", Some(&format!("a\n    {line}\nb\n")), &format!("a\n{line}\nc\n")), None);
        assert!(find("a.rs", Some("a\nb\n"), &format!("a\n{line}\n")).is_some());
    }

    proptest! {
        #[test]
        fn nothing_panics(line in "[-/#*<!. a-z…(\\[]{0,12}(rest of|existing|code|unchanged|[. é…]){0,4}[-*/>} .]{0,4}", path in "[a.md]{0,5}") {
            let _ = find(&path, None, &line);
        }
    }
}
