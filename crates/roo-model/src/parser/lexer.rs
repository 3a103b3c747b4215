//! Cuts text into tags and what is between them. It knows what a tag looks like, not what it means.
//!
//! A tag is `<name>` or `</name>`, with white space before `>` if need be; only `<invoke …>` and
//! `<parameter …>` may have attributes, and `<function=…>` and `<parameter=…>` a name. Nothing else is buffered: not
//! `a < b`, not `<!--`.

use roo_text::work;

/// A tag longer than this is text. Bounds what is buffered.
const MAX_TAG_BYTES: usize = 256;

/// A piece of text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token<'a> {
    /// Text between tags, cut anywhere.
    Data(&'a str),
    /// A whole tag.
    Tag(Tag<'a>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Tag<'a> {
    /// As sent.
    pub(super) raw: &'a str,
    pub(super) name: &'a str,
    pub(super) closing: bool,
    /// The value of the attribute `name`, or what stands behind `=`.
    pub(super) attribute: Option<&'a str>,
}

impl<'a> Tag<'a> {
    fn parse(raw: &'a str) -> Option<Self> {
        let inner = raw.strip_prefix('<')?.strip_suffix('>')?;
        let (closing, inner) = match inner.strip_prefix('/') {
            Some(inner) => (true, inner),
            None => (false, inner),
        };
        let is_behind_name = |character| is_blank(character) || character == '=';
        let (name, attributes) = inner.split_at(inner.find(is_behind_name).unwrap_or(inner.len()));
        let attributes = attributes.trim_start();
        let attribute = if attributes.is_empty() {
            None
        } else if let Some(value) = attributes.strip_prefix('=') {
            Some(value.trim().trim_matches(['"', '\''])).filter(|value| !value.is_empty())
        } else {
            let value = attributes.strip_prefix("name")?.trim_start().strip_prefix('=')?.trim_start();
            let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
            Some(value.strip_prefix(quote)?.split_once(quote)?.0)
        };
        Some(Self { raw, name, closing, attribute })
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

/// Progress within the current tag.
#[derive(Clone, Copy, Debug)]
enum TagPart {
    Bracket,
    Slash,
    Name,
    Blank,
    Attributes,
}

enum LexerStep {
    Goes(TagPart),
    Ends,
    IsNone,
}

/// The state between two pieces.
#[derive(Debug)]
pub(super) struct Lexer {
    /// Possible beginning of a tag; empty when there is none.
    held: String,
    part: TagPart,
}

impl Lexer {
    pub(super) fn new() -> Self {
        Self { held: String::new(), part: TagPart::Bracket }
    }

    pub(super) fn push(&mut self, text: &str, mut sink: impl FnMut(Token<'_>)) {
        let mut rest = text;
        while !rest.is_empty() {
            rest = if self.held.is_empty() { self.data(rest, &mut sink) } else { self.tag(rest, &mut sink) };
        }
    }

    /// Returns the possible beginning of a tag.
    pub(super) fn held(&self) -> &str {
        &self.held
    }

    /// The beginning of a tag that was never completed. There is none in hand after that.
    pub(super) fn take_held(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    fn data<'a>(&mut self, text: &'a str, sink: &mut impl FnMut(Token<'_>)) -> &'a str {
        let (data, rest) = match text.split_once('<') {
            Some((data, rest)) => {
                self.held.push('<');
                self.part = TagPart::Bracket;
                (data, rest)
            }
            None => (text, ""),
        };
        work::add(data.len());
        if !data.is_empty() {
            sink(Token::Data(data));
        }
        rest
    }

    fn tag<'a>(&mut self, text: &'a str, sink: &mut impl FnMut(Token<'_>)) -> &'a str {
        for (at, character) in text.char_indices() {
            work::add(1);
            match self.step(character) {
                LexerStep::Goes(part) => {
                    self.part = part;
                    self.held.push(character);
                }
                LexerStep::Ends => {
                    self.held.push(character);
                    sink(match Tag::parse(&self.held) {
                        Some(tag) => Token::Tag(tag),
                        None => Token::Data(&self.held),
                    });
                    self.held.clear();
                    return text.get(at + character.len_utf8()..).unwrap_or_default();
                }
                LexerStep::IsNone => {
                    sink(Token::Data(&self.held));
                    self.held.clear();
                    return text.get(at..).unwrap_or_default();
                }
            }
        }
        ""
    }

    fn step(&self, character: char) -> LexerStep {
        let is_letter = character.is_ascii_alphabetic() || character == '_';
        match (self.part, character) {
            _ if self.held.len() >= MAX_TAG_BYTES => LexerStep::IsNone,
            (TagPart::Bracket, '/') => LexerStep::Goes(TagPart::Slash),
            (TagPart::Bracket | TagPart::Slash, _) if is_letter => LexerStep::Goes(TagPart::Name),
            (TagPart::Name, _) if is_letter || character.is_ascii_digit() => LexerStep::Goes(TagPart::Name),
            (TagPart::Name | TagPart::Blank | TagPart::Attributes, '>') => LexerStep::Ends,
            (TagPart::Name | TagPart::Blank, _) if is_blank(character) => LexerStep::Goes(TagPart::Blank),
            (TagPart::Blank, _) if is_letter && self.may_have_attributes() => {
                LexerStep::Goes(TagPart::Attributes)
            }
            (TagPart::Name, '=') if self.may_be_named() => LexerStep::Goes(TagPart::Attributes),
            (TagPart::Attributes, _) if !matches!(character, '<' | '\r' | '\n') => {
                LexerStep::Goes(TagPart::Attributes)
            }
            _ => LexerStep::IsNone,
        }
    }

    fn may_be_named(&self) -> bool {
        matches!(self.held.as_str(), "<function" | "<parameter")
    }

    fn may_have_attributes(&self) -> bool {
        matches!(self.held.trim_end(), "<invoke" | "<parameter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tags in brackets, data as it is.
    fn lex(text: &str) -> String {
        let mut lexer = Lexer::new();
        let mut shown = String::new();
        lexer.push(text, |token| match token {
            Token::Data(data) => shown.push_str(data),
            Token::Tag(Tag { name, closing, attribute, .. }) => {
                shown.push_str(&format!("[{}{name}", if closing { "/" } else { "" }));
                shown.push_str(&attribute.map_or("]".to_owned(), |value| format!(" {value}]")));
            }
        });
        shown + &lexer.take_held()
    }

    #[test]
    fn tags_and_only_tags_are_found() {
        for (text, expected) in [
            ("a<b>c</b>d", "a[b]c[/b]d"),
            ("<read_file >x</read_file\n>", "[read_file]x[/read_file]"),
            ("a < b && c > d", "a < b && c > d"),
            ("<<b>", "<[b]"),
            ("</ b>", "</ b>"),
            ("<1>", "<1>"),
            ("<b c>", "<b c>"),
            ("<é>", "<é>"),
            ("<b", "<b"),
            ("<invoke name=\"read_file\">", "[invoke read_file]"),
            ("<parameter  name = 'a b' string=\"true\">", "[parameter a b]"),
            ("<parameter other=\"x\">", "<parameter other=\"x\">"),
            ("<invoke name=\"x", "<invoke name=\"x"),
            ("<function=read_file>x</function>", "[function read_file]x[/function]"),
            ("<parameter=\"path\">", "[parameter path]"),
            ("<function=>", "[function]"),
            ("<invoke=a> </function=a> <function = a>", "<invoke=a> </function=a> <function = a>"),
            ("a<function=b\n>", "a<function=b\n>"),
        ] {
            assert_eq!(lex(text), expected);
        }
    }

    #[test]
    fn what_is_held_back_is_bounded() {
        let mut lexer = Lexer::new();
        let mut passed = 0;
        lexer.push(&format!("<read_file{}", " ".repeat(10_000)), |token| {
            passed += match token {
                Token::Data(data) => data.len(),
                Token::Tag(_) => panic!("no tag"),
            }
        });
        assert!(passed >= 10_000 - MAX_TAG_BYTES);
    }
}
