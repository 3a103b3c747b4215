//! One word of a command line: where it ends, and what is left of it when its quotes are removed.
//!
//! Only what means the same to bash and to a POSIX shell has a value; everything else is opaque.

/// Value of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Exactly this text.
    Literal(String),
    /// The names of files that a pattern fits, or the pattern itself where none does.
    Pattern(Pattern),
    /// Value that only the shell can know.
    Opaque(Opaque),
}

/// A word with wildcards and nothing else that the shell replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The word without its quotes.
    pub text: String,
    /// Common prefix of all names that it stands for.
    pub prefix: String,
}

/// Reasons why the value of a word isn't known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opaque {
    /// `$name`, `${…}`, arithmetic.
    Expansion,
    /// `$(…)`, backticks, `<(…)`.
    Substitution,
    /// `{a,b}` or `{1..9}`.
    Brace,
    /// `~`, which stands for a home directory.
    Tilde,
    /// A form that not every shell knows.
    Dialect,
    /// A line that is continued within the word.
    Continued,
    /// A quote without its end.
    Unclosed,
    /// A character that some systems take for a blank.
    Blank,
    /// No word at all.
    Syntax,
}

impl Opaque {
    /// Describes it, to follow "it holds".
    pub fn what(self) -> &'static str {
        match self {
            Self::Expansion => "an expansion",
            Self::Substitution => "a substitution, which runs another command",
            Self::Brace => "a brace expansion",
            Self::Tilde => "`~`, which stands for a directory outside",
            Self::Dialect => "a form that shells read differently",
            Self::Continued => "a line that is continued within a word",
            Self::Unclosed => "a quote that is never closed",
            Self::Blank => "a character that some systems treat as a blank",
            Self::Syntax => "syntax that can't be judged",
        }
    }
}

impl Value {
    /// The value of a whole word as it is written.
    pub(super) fn from_raw(raw: &str) -> Self {
        match first(raw) {
            Ok((length, value)) if length == raw.len() && length > 0 => value,
            // What follows the word's end is an operator, as in `<(a)`.
            Ok(_) if raw.starts_with(['<', '>']) => Self::Opaque(Opaque::Substitution),
            Ok(_) => Self::Opaque(Opaque::Syntax),
            Err(opaque) => Self::Opaque(opaque),
        }
    }
}

/// Returns whether a character ends a word that is not in quotes.
pub(super) fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')')
}

/// Returns whether a character is a blank on some systems, or holds a byte that is one.
pub(super) fn is_unclear_blank(c: char) -> bool {
    let is_blank_byte = |byte| matches!(byte, 0x85 | 0xa0);
    !c.is_ascii() && (c.is_whitespace() || c.encode_utf8(&mut [0; 4]).bytes().any(is_blank_byte))
}

/// Returns whether a text can be the name of a variable.
pub(super) fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Characters that may follow a `$` that is only a dollar sign, within double quotes.
const AFTER_DOLLAR: &str = "\" |)/.,:;%^=&";

/// The same outside of quotes.
pub(super) const AFTER_BARE_DOLLAR: &str = " \n;|&/.,:";

/// The word at the beginning of a text: its length in bytes and its value.
pub(super) fn first(text: &str) -> Result<(usize, Value), Opaque> {
    let (mut value, mut prefix) = (String::new(), None);
    // A brace expansion has a list or a range between its braces.
    let (mut braces, mut listed) = (0_usize, false);
    let mut chars = text.char_indices().peekable();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            c if ends_word(c) => {
                end = at;
                break;
            }
            '\\' => match chars.next() {
                None => return Err(Opaque::Unclosed),
                Some((_, '\n')) => return Err(Opaque::Continued),
                Some((_, c)) => value.push(c),
            },
            '\'' => loop {
                match chars.next() {
                    None => return Err(Opaque::Unclosed),
                    Some((_, '\'')) => break,
                    Some((_, c)) => value.push(c),
                }
            },
            '"' => double_quoted(&mut chars, &mut value)?,
            '$' => match chars.peek() {
                None => value.push(c),
                Some((_, next)) if AFTER_BARE_DOLLAR.contains(*next) => value.push(c),
                Some((_, '(')) => return Err(parenthesis(&chars)),
                Some((_, '\'' | '"')) => return Err(Opaque::Dialect),
                Some(_) => return Err(Opaque::Expansion),
            },
            '`' => return Err(Opaque::Substitution),
            '~' if value.is_empty() || value.ends_with(['=', ':']) => return Err(Opaque::Tilde),
            '#' if at == 0 => return Err(Opaque::Syntax),
            '*' | '?' | '[' => {
                prefix.get_or_insert(value.len());
                value.push(c);
            }
            '{' => {
                braces += 1;
                value.push(c);
            }
            '}' => {
                braces = braces.saturating_sub(1);
                value.push(c);
            }
            c if is_unclear_blank(c) => return Err(Opaque::Blank),
            c => {
                listed |= braces > 0 && (c == ',' || (c == '.' && value.ends_with('.')));
                value.push(c);
            }
        }
    }
    if listed {
        return Err(Opaque::Brace);
    }
    Ok((
        end,
        match prefix {
            None => Value::Literal(value),
            Some(length) => Value::Pattern(Pattern { prefix: value[..length].to_owned(), text: value }),
        },
    ))
}

/// What begins with a `$` and the parenthesis that comes next.
fn parenthesis(chars: &Chars<'_>) -> Opaque {
    let mut ahead = chars.clone().map(|(_, c)| c);
    match (ahead.next(), ahead.next()) {
        (Some('('), Some('(')) => Opaque::Expansion,
        _ => Opaque::Substitution,
    }
}

type Chars<'a> = std::iter::Peekable<std::str::CharIndices<'a>>;

/// Reads on after a double quote up to its end.
fn double_quoted(chars: &mut Chars<'_>, value: &mut String) -> Result<(), Opaque> {
    loop {
        let (_, c) = chars.next().ok_or(Opaque::Unclosed)?;
        match c {
            '"' => return Ok(()),
            '\\' => match chars.next().ok_or(Opaque::Unclosed)?.1 {
                c @ ('"' | '\\' | '$' | '`') => value.push(c),
                '\n' => return Err(Opaque::Continued),
                c => value.extend(['\\', c]),
            },
            '$' => match chars.peek() {
                Some((_, next)) if AFTER_DOLLAR.contains(*next) => value.push(c),
                Some((_, '(')) => return Err(parenthesis(chars)),
                _ => return Err(Opaque::Expansion),
            },
            '`' => return Err(Opaque::Substitution),
            c => value.push(c),
        }
    }
}

/// Returns the visible text of a word that may be opaque: quotes are removed, expansions stay as they are written but
/// for `$IFS`, which is where a word comes apart.
pub(super) fn visible(raw: &str) -> String {
    let mut seen = String::with_capacity(raw.len());
    let mut chars = raw.char_indices().peekable();
    let mut quoted = false;
    while let Some((at, c)) = chars.next() {
        let rest = &raw[at..];
        match c {
            '\'' if !quoted => {
                while let Some((_, c)) = chars.next_if(|(_, c)| *c != '\'') {
                    seen.push(c);
                }
                chars.next();
            }
            '"' => quoted = !quoted,
            '\\' => match chars.next() {
                None | Some((_, '\n')) => {}
                Some((_, c)) => {
                    if quoted && !matches!(c, '"' | '\\' | '$' | '`') {
                        seen.push('\\');
                    }
                    seen.push(c);
                }
            },
            '$' if !quoted && rest.starts_with("$'") => {
                chars.next();
                ansi_c(&mut chars, &mut seen);
            }
            '$' if !quoted && rest.starts_with("$\"") => {}
            '$' if !quoted && (rest.starts_with("${IFS}") || is_ifs(rest)) => {
                let length = if rest.starts_with("${") { "{IFS}".len() } else { "IFS".len() };
                chars.by_ref().take(length).for_each(drop);
                seen.push(' ');
            }
            c => seen.push(c),
        }
    }
    seen
}

fn is_ifs(text: &str) -> bool {
    text.strip_prefix("$IFS")
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

/// Reads on behind `$'` up to its end.
fn ansi_c(chars: &mut Chars<'_>, seen: &mut String) {
    while let Some((_, c)) = chars.next() {
        match c {
            '\'' => return,
            '\\' => {
                let Some((_, c)) = chars.next() else { return };
                let mut number = |radix: u32, most: usize, first: u32| {
                    let mut code = first;
                    for _ in 0..most {
                        let Some((_, digit)) = chars.next_if(|(_, c)| c.is_digit(radix)) else { break };
                        code = code.wrapping_mul(radix).wrapping_add(digit.to_digit(radix).unwrap_or(0));
                    }
                    char::from_u32(code)
                };
                match c {
                    'n' => seen.push('\n'),
                    't' => seen.push('\t'),
                    'r' => seen.push('\r'),
                    'x' => seen.extend(number(16, 2, 0)),
                    'u' => seen.extend(number(16, 4, 0)),
                    'U' => seen.extend(number(16, 8, 0)),
                    '0'..='7' => seen.extend(number(8, 2, c.to_digit(8).unwrap_or(0))),
                    c => seen.push(c),
                }
            }
            c => seen.push(c),
        }
    }
}
