//! The second reading: a line of known structure, by the shell's lexical rules alone.
//!
//! A grammar made for editors is lenient. Where it takes something for one word, and the shell for two,
//! a policy would judge what never runs. So the part of the language that can be allowed is read again,
//! character by character, and both readings must agree on where each word stands and which command it
//! belongs to. Whatever isn't known here to mean the same to bash and to a POSIX shell is an error.

use super::construct::{Document, Join};
use super::structure::{Assignment, Body, Item, List, Part, Redirect, Simple, Stage, Structure, Word};
use super::word::{AFTER_BARE_DOLLAR, Opaque, ends_word, is_unclear_blank, is_variable_name};
use super::{DEPTH, is_assignment};

/// Words that are no program's name where a command begins, and begin nothing that is read here.
const RESERVED: &[&str] = &[
    "!", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "function", "in", "select",
    "then", "}",
];

/// Redirections that mean the same everywhere, longer ones first, and `&>`, which only bash knows.
const OPERATORS: &[&str] = &["<<-", "<<", "<&", "&>>", "&>", ">>", ">&", ">|", "<", ">"];
/// Those that don't, or that can't be judged.
const OTHERS: &[&str] = &["<<<", "<>", "<(", ">("];

/// Characters that may follow a `$` that is only a dollar sign, within double quotes.
const AFTER_DOLLAR: &str = "\" |)/.,:;%^=&";

/// Reads a line. The error says what about it can't be judged, to follow "it".
pub(super) fn read(line: &str) -> Result<Structure, String> {
    // Behind `-c` a shell goes on looking for options.
    if line.starts_with(['-', '+']) {
        return Err("begins like an option of the shell".into());
    }
    let mut reader = StrictReader { line, at: 0, depth: 0, documents: Vec::new(), pending: Vec::new() };
    let (list, _) = reader.list(&[])?;
    let documents: Option<Vec<Document>> = reader.documents.into_iter().collect();
    let documents = documents.ok_or("has a here-document without an end")?;
    Ok(Structure { list, documents })
}

struct StrictReader<'a> {
    line: &'a str,
    at: usize,
    depth: usize,
    /// The here-documents so far; none where the text is still to come.
    documents: Vec<Option<Document>>,
    /// Those that begin with the next line.
    pending: Vec<Pending>,
}

/// A here-document whose text is still to come.
struct Pending {
    index: usize,
    end: String,
    quoted: bool,
    /// True if tabs at the beginning of its lines don't count.
    tabs: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListEnd {
    Line,
    Bracket,
    Word(&'static str),
}

impl StrictReader<'_> {
    fn rest(&self) -> &str {
        &self.line[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Goes over blanks, comments and continued lines.
    fn blanks(&mut self) -> Result<(), String> {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.rest().starts_with("\\\n") => {
                    // Without a blank before it, it joins what stands on both lines.
                    if self.at > 0 && !self.line[..self.at].ends_with([' ', '\t', '\n']) {
                        return Err("continues a word or an operator on another line".into());
                    }
                    self.at += 2;
                }
                Some('#') => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                _ => return Ok(()),
            }
        }
    }

    /// Goes over blanks and line ends, with the documents that begin there.
    fn lines(&mut self) -> Result<(), String> {
        loop {
            self.blanks()?;
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.at += 1;
            self.texts()?;
        }
    }

    /// Reads pipelines up to one of these words, or to a closing bracket or the line's end where there are none.
    /// What ends the list is read as well.
    fn list(&mut self, ends: &[&'static str]) -> Result<(List, ListEnd), String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("is nested too deeply".into());
        }
        let is_outermost = self.depth == 1;
        let mut list = List::default();
        let mut join = None;
        // Whether something must stand between the last command and the next one.
        let mut is_separated = true;
        let end = loop {
            if is_separated {
                self.lines()?
            } else {
                self.blanks()?
            }
            match self.peek() {
                None if is_outermost => break ListEnd::Line,
                None => return Err("ends within a bracket or a compound command".into()),
                Some(')') if ends.is_empty() && !is_outermost => {
                    self.at += 1;
                    break ListEnd::Bracket;
                }
                Some(_) if is_separated => {}
                Some('\n') => {
                    self.at += 1;
                    self.texts()?;
                    (join, is_separated) = (Some(Join::Sequence), true);
                    continue;
                }
                Some(_) => {
                    let rest = self.rest();
                    let (length, operator) = match () {
                        () if rest.starts_with("&&") => (2, Join::And),
                        () if rest.starts_with("||") => (2, Join::Or),
                        () if rest.starts_with(";;") || rest.starts_with(";&") => {
                            return Err("holds `;;` or `;&`".into());
                        }
                        () if rest.starts_with(';') => (1, Join::Sequence),
                        () if rest.starts_with('&') => {
                            return Err("holds `&`, which starts a command in the background".into());
                        }
                        () if rest.starts_with(['(', ')']) => {
                            return Err("holds a bracket outside of quotes".into());
                        }
                        () => return Err("holds words behind a compound command".into()),
                    };
                    self.at += length;
                    (join, is_separated) = (Some(operator), true);
                    continue;
                }
            }
            let word = self.raw_word();
            if let Some(end) = ends.iter().find(|end| **end == word) {
                self.at += end.len();
                break ListEnd::Word(end);
            }
            let item = self.pipeline(join.take().filter(|_| !list.items.is_empty()))?;
            list.items.push(item);
            is_separated = false;
        };
        if matches!(join, Some(Join::And | Join::Or)) {
            return Err("ends with an operator".into());
        }
        if list.items.is_empty() && end != ListEnd::Line {
            return Err("holds a compound command with nothing in it".into());
        }
        self.depth -= 1;
        Ok((list, end))
    }

    /// The unquoted text up to the next blank or operator, without reading it.
    fn raw_word(&self) -> &str {
        let rest = self.rest();
        rest.split(ends_word).next().unwrap_or_default()
    }

    fn pipeline(&mut self, join: Option<Join>) -> Result<Item, String> {
        let is_negated = self.raw_word() == "!";
        if is_negated {
            self.at += 1;
            self.blanks()?;
        }
        let mut stages = vec![self.stage()?];
        loop {
            self.blanks()?;
            let rest = self.rest();
            if rest.starts_with("|&") {
                return Err("holds `|&`".into());
            }
            if !rest.starts_with('|') || rest.starts_with("||") {
                return Ok(Item { join, is_negated, stages });
            }
            self.at += 1;
            self.lines()?;
            stages.push(self.stage()?);
        }
    }

    fn stage(&mut self) -> Result<Stage, String> {
        let body = match self.peek() {
            Some('(') => {
                // Two of them may begin arithmetic.
                if self.rest().starts_with("((") {
                    return Err("holds two brackets in a row".into());
                }
                self.at += 1;
                Body::Subshell(self.list(&[])?.0)
            }
            _ => match self.raw_word() {
                "{" => {
                    self.at += 1;
                    Body::Group(self.list(&["}"])?.0)
                }
                "for" => self.for_loop()?,
                "if" => self.condition()?,
                word @ ("while" | "until") => {
                    self.at += word.len();
                    let condition = self.list(&["do"])?.0;
                    Body::While { condition, body: self.list(&["done"])?.0 }
                }
                word if RESERVED.contains(&word) => return Err(format!("holds the reserved word `{word}`")),
                _ => return self.simple(),
            },
        };
        let mut redirects = Vec::new();
        loop {
            self.blanks()?;
            match self.descriptor()? {
                Some(descriptor) => redirects.push(self.redirect(descriptor)?),
                None => return Ok(Stage { body, redirects }),
            }
        }
    }

    fn for_loop(&mut self) -> Result<Body, String> {
        self.at += "for".len();
        self.blanks()?;
        let variable = self.raw_word().to_owned();
        if !is_variable_name(&variable) {
            return Err("holds a loop without a plain variable".into());
        }
        self.at += variable.len();
        self.lines()?;
        // Without words it goes through the shell's own arguments.
        if self.raw_word() != "in" {
            return Err("holds a loop that goes through nothing".into());
        }
        self.at += "in".len();
        let mut words = Vec::new();
        loop {
            self.blanks()?;
            match self.peek() {
                Some('\n' | ';') => {
                    self.at += 1;
                    break;
                }
                Some(c) if !ends_word(c) => words.push(self.word()?),
                _ => return Err("holds a loop whose words can't be told".into()),
            }
        }
        if !self.pending.is_empty() {
            return Err("has a loop behind a here-document".into());
        }
        self.lines()?;
        if self.raw_word() != "do" {
            return Err("holds a loop without `do`".into());
        }
        self.at += "do".len();
        Ok(Body::For { variable, words, body: self.list(&["done"])?.0 })
    }

    fn condition(&mut self) -> Result<Body, String> {
        self.at += "if".len();
        let mut branches = Vec::new();
        loop {
            let condition = self.list(&["then"])?.0;
            let (body, end) = self.list(&["elif", "else", "fi"])?;
            branches.push((condition, body));
            let otherwise = match end {
                ListEnd::Word("elif") => continue,
                ListEnd::Word("else") => Some(self.list(&["fi"])?.0),
                _ => None,
            };
            return Ok(Body::If { branches, otherwise });
        }
    }

    fn simple(&mut self) -> Result<Stage, String> {
        let (mut simple, mut redirects) = (Simple::default(), Vec::new());
        loop {
            self.blanks()?;
            if let Some(descriptor) = self.descriptor()? {
                redirects.push(self.redirect(descriptor)?);
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('(') => return Err("holds a bracket outside of quotes".into()),
                _ => {}
            }
            let mut word = self.word()?;
            if simple.words.is_empty()
                && let bracket @ ("[" | "[[") = &self.line[word.range.clone()]
            {
                // Alone it is no pattern.
                word.parts = vec![Part::Text(bracket.to_owned())];
            }
            match simple.words.is_empty().then(|| self.assignment(&word)).transpose()?.flatten() {
                Some(assignment) => simple.assignments.push(assignment),
                None => simple.words.push(word),
            }
        }
        if simple.words.is_empty() && simple.assignments.is_empty() && redirects.is_empty() {
            return Err("has an operator with no command before it".into());
        }
        Ok(Stage { body: Body::Simple(simple), redirects })
    }

    /// The variable that a word before any program sets, if it does.
    fn assignment(&self, word: &Word) -> Result<Option<Assignment>, String> {
        let raw = &self.line[word.range.clone()];
        if !is_assignment(raw) {
            return Ok(None);
        }
        let (name, _) = raw.split_once('=').unwrap_or_default();
        let mut parts = word.parts.iter();
        let first = match parts.next() {
            Some(Part::Text(text)) => text.strip_prefix(name).and_then(|text| text.strip_prefix('=')),
            _ => None,
        };
        let Some(first) = first.filter(|_| !name.ends_with('+')) else {
            return Err("adds to a variable".into());
        };
        let first = (!first.is_empty()).then(|| Part::Text(first.to_owned()));
        let value = first.into_iter().chain(parts.cloned()).collect();
        Ok(Some(Assignment { name: name.to_owned(), range: word.range.clone(), value }))
    }

    /// The file descriptor of a redirection that begins here; none where none does.
    fn descriptor(&self) -> Result<Option<String>, String> {
        let rest = self.rest();
        if rest.starts_with(['<', '>']) || rest.starts_with("&>") {
            return Ok(Some(String::new()));
        }
        let raw = self.raw_word();
        if !rest[raw.len()..].starts_with(['<', '>']) {
            return Ok(None);
        }
        match raw.as_bytes() {
            [b'0'..=b'9'] => Ok(Some(raw.to_owned())),
            [b'{', ..] => Err("may hold a variable for a file descriptor".into()),
            digits if digits.iter().all(u8::is_ascii_digit) => {
                Err("holds a number that may be a file descriptor".into())
            }
            _ => Ok(None),
        }
    }

    fn redirect(&mut self, descriptor: String) -> Result<Redirect, String> {
        self.at += descriptor.len();
        if let Some(other) = OTHERS.iter().find(|other| self.rest().starts_with(**other)) {
            return Err(format!("holds `{other}`"));
        }
        let Some(&operator) = OPERATORS.iter().find(|operator| self.rest().starts_with(**operator)) else {
            return Err("holds an unknown redirection".into());
        };
        self.at += operator.len();
        self.at += self.rest().len() - self.rest().trim_start_matches(' ').len();
        let target = self.word()?;
        if target.range.is_empty() {
            return Err("has a redirection that leads nowhere".into());
        }
        let raw = &self.line[target.range.clone()];
        let mut document = None;
        match operator {
            "<&" | ">&" if !matches!(raw.as_bytes(), [b'0'..=b'9' | b'-']) => {
                return Err(format!("holds `{operator}{raw}`"));
            }
            "<<" | "<<-" => {
                let Some((end, quoted)) = delimiter(raw) else {
                    return Err("has a here-document whose end isn't a plain name".into());
                };
                let index = self.documents.len();
                let end = end.to_owned();
                self.pending.push(Pending { index, end, quoted, tabs: operator == "<<-" });
                self.documents.push(None);
                document = Some(index);
            }
            _ => {}
        }
        if self.rest().starts_with(['<', '>']) && raw.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("holds redirections that run together".into());
        }
        Ok(Redirect { descriptor, operator, target, document })
    }

    /// Reads the here-documents that begin with this line.
    fn texts(&mut self) -> Result<(), String> {
        let line = self.line;
        for Pending { index, end, quoted, tabs } in std::mem::take(&mut self.pending) {
            let start = self.at;
            let stop = loop {
                let rest = &line[self.at..];
                if rest.is_empty() {
                    return Err("has a here-document without an end".into());
                }
                let text = rest.split('\n').next().unwrap_or_default();
                let stop = self.at;
                self.at = (self.at + text.len() + 1).min(line.len());
                if (if tabs { text.trim_start_matches('\t') } else { text }) == end {
                    break stop;
                }
            };
            let text = line[start..stop].to_owned();
            if !quoted && text.contains(['$', '`', '\\']) {
                return Err("has a here-document that the shell expands".into());
            }
            if let Some(document) = self.documents.get_mut(index) {
                *document = Some(Document { text, quoted });
            }
        }
        Ok(())
    }

    /// Reads a word, which may be empty where something else begins.
    fn word(&mut self) -> Result<Word, String> {
        let start = self.at;
        let mut parts = Parts::default();
        while let Some(c) = self.peek() {
            if ends_word(c) {
                break;
            }
            let is_first = self.at == start;
            self.at += c.len_utf8();
            match c {
                '\\' => match self.next()? {
                    '\n' => return Err(holds(Opaque::Continued)),
                    c => parts.push(c),
                },
                '\'' => loop {
                    match self.next()? {
                        '\'' => break parts.touch(),
                        c => parts.push(c),
                    }
                },
                '"' => self.double_quoted(&mut parts)?,
                '$' => match self.peek() {
                    // Behind an expansion bash no longer lets the word fall apart.
                    next if parts.is_literal() && next.is_none_or(|c| AFTER_BARE_DOLLAR.contains(c)) => {
                        parts.push('$');
                    }
                    None | Some(' ' | '\n' | ';' | '|' | '&' | '\'' | '"') => {
                        return Err(holds(Opaque::Dialect));
                    }
                    Some(_) => {
                        let part = self.expansion(false)?;
                        parts.expansion(part);
                    }
                },
                '`' => return Err(holds(Opaque::Substitution)),
                '~' if parts.may_begin_tilde() => return Err(holds(Opaque::Tilde)),
                '#' if is_first => return Err(holds(Opaque::Syntax)),
                '*' | '?' | '[' => parts.wildcard(c),
                c if is_unclear_blank(c) => return Err(holds(Opaque::Blank)),
                c => parts.unquoted(c),
            }
        }
        if parts.is_listed {
            return Err(holds(Opaque::Brace));
        }
        let range = start..self.at;
        if self.line[range.clone()].contains('\n') && !self.pending.is_empty() {
            return Err("has a line break in quotes before a here-document".into());
        }
        Ok(Word { range, parts: parts.parts })
    }

    fn next(&mut self) -> Result<char, String> {
        let c = self.peek().ok_or_else(|| holds(Opaque::Unclosed))?;
        self.at += c.len_utf8();
        Ok(c)
    }

    /// Reads on after a double quote up to its end.
    fn double_quoted(&mut self, parts: &mut Parts) -> Result<(), String> {
        parts.touch();
        loop {
            match self.next()? {
                '"' => return Ok(()),
                '\\' => match self.next()? {
                    c @ ('"' | '\\' | '$' | '`') => parts.push(c),
                    '\n' => return Err(holds(Opaque::Continued)),
                    c => {
                        parts.push('\\');
                        parts.push(c);
                    }
                },
                '$' => match self.peek() {
                    Some(next) if AFTER_DOLLAR.contains(next) => parts.push('$'),
                    None => return Err(holds(Opaque::Unclosed)),
                    Some(_) => {
                        let part = self.expansion(true)?;
                        parts.expansion(part);
                    }
                },
                '`' => return Err(holds(Opaque::Substitution)),
                c => parts.push(c),
            }
        }
    }

    /// Reads on after a dollar sign.
    fn expansion(&mut self, quoted: bool) -> Result<Part, String> {
        let rest = self.rest();
        if rest.starts_with('?') {
            self.at += 1;
            return Ok(Part::Status);
        }
        if rest.starts_with("((") {
            return Err(holds(Opaque::Expansion));
        }
        if rest.starts_with('(') {
            self.at += 1;
            // The texts of documents would stand within the brackets.
            if !self.pending.is_empty() {
                return Err("has a substitution behind a here-document".into());
            }
            let (list, _) = self.list(&[])?;
            if !self.pending.is_empty() {
                return Err("has a here-document without an end".into());
            }
            return Ok(Part::Substitution { list, quoted });
        }
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, length) = match rest.strip_prefix('{') {
            Some(inner) => {
                let name = inner.split('}').next().unwrap_or_default();
                (name, name.len() + 2)
            }
            None => {
                let name = rest.split(|c| !is_of_name(c)).next().unwrap_or_default();
                (name, name.len())
            }
        };
        if !is_variable_name(name) || self.at + length > self.line.len() {
            return Err(holds(Opaque::Expansion));
        }
        let name = name.to_owned();
        self.at += length;
        Ok(Part::Variable { name, quoted })
    }
}

fn holds(opaque: Opaque) -> String {
    format!("holds {}", opaque.what())
}

/// The parts of a word that is being read.
#[derive(Default)]
struct Parts {
    parts: Vec<Part>,
    /// The last character of its text; none at its beginning.
    last: Option<char>,
    /// Number of open braces, and whether there is a list or a range between them.
    braces: usize,
    is_listed: bool,
}

impl Parts {
    /// Adds a character that stands for itself.
    fn push(&mut self, c: char) {
        self.last = Some(c);
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.push(c),
            _ => self.parts.push(Part::Text(c.into())),
        }
    }

    /// Adds an unquoted character that stands for itself but where it makes a list of words.
    fn unquoted(&mut self, c: char) {
        match c {
            '{' => self.braces += 1,
            '}' => self.braces = self.braces.saturating_sub(1),
            ',' => self.is_listed |= self.braces > 0,
            '.' => self.is_listed |= self.braces > 0 && self.last == Some('.'),
            _ => {}
        }
        self.push(c);
    }

    fn wildcard(&mut self, c: char) {
        self.last = Some(c);
        self.parts.push(Part::Wildcard(c));
    }

    fn expansion(&mut self, part: Part) {
        // Whatever it stands for, no tilde behind it stands for a directory.
        self.last = Some('$');
        self.parts.push(part);
    }

    /// Notes that there are quotes, which make a word also of nothing.
    fn touch(&mut self) {
        if self.parts.is_empty() {
            self.parts.push(Part::Text(String::new()));
        }
    }

    fn is_literal(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_) | Part::Wildcard(_)))
    }

    fn may_begin_tilde(&self) -> bool {
        matches!(self.last, None | Some('=' | ':'))
    }
}

/// The name that ends a here-document, and whether it is quoted.
fn delimiter(raw: &str) -> Option<(&str, bool)> {
    let quoted = |quote| raw.strip_prefix(quote)?.strip_suffix(quote);
    let (name, is_quoted) = match quoted('\'').or_else(|| quoted('"')) {
        Some(name) => (name, true),
        None => (raw, false),
    };
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    plain.then_some((name, is_quoted))
}
