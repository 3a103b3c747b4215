//! The second reading: lines of plain words, by the shell's lexical rules alone.
//!
//! A grammar made for editors is lenient. Where it takes something for one word, and the shell for two,
//! a policy would judge what never runs. So the part of the language that can be allowed is read again,
//! character by character, and both readings must agree on where each word stands and which command it
//! belongs to. Whatever isn't known here to mean the same to bash and to a POSIX shell is an error.

use std::ops::Range;

use super::is_assignment;
use super::script::{Document, Join};
use super::word;

/// Words that are no program's name where a command begins.
const RESERVED: &str =
    "! { } [[ ]] case coproc do done elif else esac fi for function if in select then time until while";

/// A line that is plain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plain {
    pub(super) commands: Vec<Command>,
}

/// A simple command, as the places of its words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) words: Vec<Range<usize>>,
    pub(super) redirects: Vec<Redirect>,
    pub(super) join: Option<Join>,
}

impl Command {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.redirects.is_empty()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) descriptor: String,
    pub(super) operator: &'static str,
    pub(super) target: Option<Range<usize>>,
    pub(super) document: Option<Document>,
}

/// Redirections that mean the same everywhere, longer ones first.
const OPERATORS: &[&str] = &["<<-", "<<", "<&", ">>", ">&", ">|", "<", ">"];
/// Those that don't, or that can't be judged.
const OTHERS: &[&str] = &["<<<", "<>", "<(", ">("];

/// Reads a plain line. The error says what about the line isn't plain.
pub(super) fn read(line: &str) -> Result<Plain, String> {
    // Behind `-c` a shell goes on looking for options.
    if line.starts_with(['-', '+']) {
        return Err("begins like an option of the shell".into());
    }
    let mut reader = Reader {
        line,
        at: 0,
        plain: Plain::default(),
        command: Command::default(),
        join: None,
        pending: Vec::new(),
    };
    reader.read()?;
    Ok(reader.plain)
}

struct Reader<'a> {
    line: &'a str,
    at: usize,
    plain: Plain,
    command: Command,
    /// The operator that the next command stands behind.
    join: Option<Join>,
    /// Here-documents that begin with the next line: which redirection of which command.
    pending: Vec<(usize, usize)>,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.line[self.at..]
    }

    fn read(&mut self) -> Result<(), String> {
        while let Some(c) = self.rest().chars().next() {
            match c {
                ' ' | '\t' => self.at += 1,
                '\\' if self.rest().starts_with("\\\n") => {
                    // Without a blank before it, it joins what stands on both lines.
                    if self.at > 0 && !self.line[..self.at].ends_with([' ', '\t', '\n']) {
                        return Err("continues a word or an operator on another line".into());
                    }
                    self.at += 2;
                }
                '\n' => {
                    self.at += 1;
                    self.documents()?;
                    if !self.command.is_empty() {
                        self.end(Join::Sequence)?;
                    }
                }
                '#' => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                ';' => self.operator(&[";;", ";&"], ";", Join::Sequence)?,
                '&' if self.rest().starts_with("&&") => self.operator(&[], "&&", Join::And)?,
                '&' => return Err("holds `&`, which starts a command in the background or redirects".into()),
                '|' if self.rest().starts_with("||") => self.operator(&[], "||", Join::Or)?,
                '|' => self.operator(&["|&"], "|", Join::Pipe)?,
                '(' | ')' => return Err("holds a bracket outside of quotes".into()),
                '<' | '>' => self.redirect(String::new())?,
                _ => self.word()?,
            }
        }
        self.documents()?;
        match self.join {
            Some(Join::And | Join::Or | Join::Pipe) if self.command.is_empty() => {
                Err("ends with an operator".into())
            }
            _ if self.command.is_empty() => Ok(()),
            _ => self.end(Join::Sequence),
        }
    }

    /// Reads an operator that ends a command.
    fn operator(&mut self, others: &[&str], operator: &str, join: Join) -> Result<(), String> {
        if let Some(other) = others.iter().find(|other| self.rest().starts_with(**other)) {
            return Err(format!("holds `{other}`"));
        }
        self.at += operator.len();
        self.end(join)
    }

    fn end(&mut self, join: Join) -> Result<(), String> {
        if self.command.is_empty() {
            return Err("has an operator with no command before it".into());
        }
        let mut command = std::mem::take(&mut self.command);
        command.join = self.join.replace(join);
        self.plain.commands.push(command);
        Ok(())
    }

    fn word(&mut self) -> Result<(), String> {
        let (length, _) = word::first(self.rest()).map_err(|opaque| format!("holds {}", opaque.what()))?;
        let range = self.at..self.at + length;
        let raw = &self.line[range.clone()];
        if raw.contains('\n') && !self.pending.is_empty() {
            return Err("has a line break in quotes before a here-document".into());
        }
        if self.line[range.end..].starts_with(['<', '>']) {
            match raw.as_bytes() {
                [b'0'..=b'9'] => {
                    let descriptor = raw.to_owned();
                    self.at = range.end;
                    return self.redirect(descriptor);
                }
                [b'{', ..] => return Err("may hold a variable for a file descriptor".into()),
                digits if digits.iter().all(u8::is_ascii_digit) => {
                    return Err("holds a number that may be a file descriptor".into());
                }
                _ => {}
            }
        }
        if self.command.words.is_empty() {
            if is_assignment(raw) {
                return Err("sets a variable".into());
            }
            if RESERVED.split(' ').any(|reserved| reserved == raw) {
                return Err(format!("holds the reserved word `{raw}`"));
            }
        }
        self.at = range.end;
        self.command.words.push(range);
        Ok(())
    }

    fn redirect(&mut self, descriptor: String) -> Result<(), String> {
        let operator = OPERATORS.iter().find(|operator| self.rest().starts_with(**operator));
        if let Some(other) = OTHERS.iter().find(|other| self.rest().starts_with(**other)) {
            return Err(format!("holds `{other}`"));
        }
        let Some(&operator) = operator else { return Err("holds an unknown redirection".into()) };
        self.at += operator.len();
        self.at += self.rest().len() - self.rest().trim_start_matches(' ').len();
        let (length, _) = word::first(self.rest()).map_err(|opaque| format!("holds {}", opaque.what()))?;
        if length == 0 {
            return Err("has a redirection that leads nowhere".into());
        }
        let target = self.at..self.at + length;
        let raw = &self.line[target.clone()];
        match operator {
            "<&" | ">&" if !matches!(raw.as_bytes(), [b'0'..=b'9' | b'-']) => {
                return Err(format!("holds `{operator}{raw}`"));
            }
            "<<" | "<<-" if delimiter(raw).is_none() => {
                return Err("has a here-document whose end isn't a plain name".into());
            }
            _ => {}
        }
        if operator.starts_with("<<") {
            self.pending.push((self.plain.commands.len(), self.command.redirects.len()));
        }
        self.at = target.end;
        if self.rest().starts_with(['<', '>']) && raw.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("holds redirections that run together".into());
        }
        self.command.redirects.push(Redirect { descriptor, operator, target: Some(target), document: None });
        Ok(())
    }

    /// Reads the here-documents that begin with this line.
    fn documents(&mut self) -> Result<(), String> {
        for (command, redirect) in std::mem::take(&mut self.pending) {
            let line = self.line;
            let redirects = match self.plain.commands.get_mut(command) {
                Some(command) => &mut command.redirects,
                None => &mut self.command.redirects,
            };
            let Some(redirect) = redirects.get_mut(redirect) else { return Err("is inconsistent".into()) };
            let raw = redirect.target.clone().map_or("", |target| &line[target]);
            let Some((end, quoted)) = delimiter(raw) else { return Err("is inconsistent".into()) };
            let tabs = redirect.operator == "<<-";
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
            redirect.document = Some(Document { text, quoted });
        }
        Ok(())
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
