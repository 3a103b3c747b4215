//! Definitions of code by their names, for whoever looks for a name in many files.
//!
//! [`super::definitions_of`] finds more for a name in one file: headings, keys, and lines that only mention it.

use std::ops::ControlFlow;

use roo_text::lines::LineRange;
use tree_sitter::Node;

use super::definitions::{MAX_DEFINITIONS, SyntaxError, each, parsed, signature, with_decorators};
use super::grammar::Language;

/// The most parts of a name, such as two in `Parser::parse`.
const PARTS: usize = 8;

/// A definition of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    pub name: String,
    /// Names of the definitions around it, the outermost first.
    pub around: Vec<String>,
    /// Its lines, with decorators.
    pub lines: LineRange,
    /// The line that names it.
    pub signature: String,
}

/// A name as people write it: `parse`, `Parser::parse`, `Parser.parse()` or `Parser#parse`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SymbolName {
    around: Vec<String>,
    last: String,
}

impl SymbolName {
    /// Reads a name; none for a text that is no name of code.
    pub fn parse(text: &str) -> Option<Self> {
        let mut around = segments(text.strip_suffix("()").unwrap_or(text))?;
        let last = around.pop()?;
        Some(Self { around, last })
    }

    /// The last part: the name of the definition itself.
    pub fn last(&self) -> &str {
        &self.last
    }

    /// Returns whether a definition has this name.
    pub fn is_of(&self, symbol: &Symbol) -> bool {
        let mut around = symbol.around.iter();
        symbol.name == self.last && self.around.iter().all(|part| around.any(|known| known == part))
    }
}

/// Whether the definitions of a file are those of code, by its name: neither keys of data nor headings.
pub fn is_code(path: &str) -> bool {
    Language::from_path(path).is_some_and(|language| !language.is_data())
}

/// The definitions of a file of code whose own names are wanted, in the order of the text, at most 1,000.
///
/// # Errors
/// [`SyntaxError`] for a file that can't be parsed, and for one that is no code.
pub fn symbols(path: &str, text: &str, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Symbol>, SyntaxError> {
    let language = Language::from_path(path).filter(|language| !language.is_data());
    let language = language.ok_or(SyntaxError::UnknownLanguage)?;
    let (outline, tree) = parsed(language, text)?;
    let lines: Vec<&str> = text.split('\n').collect();
    let mut found: Vec<Symbol> = Vec::new();
    // The definitions that the next one may be in, each with its end.
    let mut open: Vec<(usize, String)> = Vec::new();
    each(language, &tree, |node| {
        open.retain(|(end, _)| *end > node.start_byte());
        // The definitions around it, but for those of the same node.
        let outer = open.len();
        for name in names(node, outline.text()) {
            let Some(mut own) = segments(name) else { continue };
            let Some(name) = own.pop() else { continue };
            if is_wanted(&name) {
                let range = outline.lines_of(node);
                let around = open.iter().take(outer).map(|(_, name)| name.clone());
                found.push(Symbol {
                    name: name.clone(),
                    around: around.chain(receiver(node, outline.text())).chain(own).collect(),
                    lines: with_decorators(&lines, range),
                    signature: signature(&lines, range),
                });
            }
            open.push((node.end_byte(), name));
        }
        if found.len() >= MAX_DEFINITIONS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.truncate(MAX_DEFINITIONS);
    Ok(found)
}

/// The parts of a name; none where one of them is no identifier.
fn segments(name: &str) -> Option<Vec<String>> {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '$'))
            && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
    };
    // A private name of JavaScript begins with a `#`, and a method of Ruby may end with a mark.
    let name = name.trim().trim_start_matches('#').trim_end_matches(['?', '!', '=']);
    let name = name.replace("::", ".").replace([':', '#', '\\'], ".");
    let parts: Vec<String> = name.split('.').map(str::to_owned).collect();
    (parts.len() <= PARTS && parts.iter().all(|part| is_part(part))).then_some(parts)
}

/// The names that a definition gives, as they are written.
fn names<'t>(node: Node<'_>, text: &'t str) -> Vec<&'t str> {
    let written = |node: Node<'_>| text.get(node.byte_range());
    let field = |name| node.child_by_field_name(name);
    match node.kind() {
        // The type whose members these are, without its parameters.
        "impl_item" => {
            let name = field("type").and_then(written);
            return name.and_then(|name| name.split('<').next()).into_iter().collect();
        }
        // Several in one, and the variable of a function.
        "assignment_statement" | "const_declaration" | "type_declaration" => {
            let mut cursor = node.walk();
            let inner: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
            return inner
                .into_iter()
                .filter_map(|inner| written(inner.child_by_field_name("name")?))
                .collect();
        }
        _ => {}
    }
    if let Some(name) = field("name").or_else(|| field("property")) {
        return written(name).into_iter().collect();
    }
    if let Some(declarator) = field("declarator") {
        // A type that is defined and named at once has two names.
        let own = field("type").and_then(|own| own.child_by_field_name("name"));
        let own = own.filter(|_| node.kind() == "type_definition");
        return [own, Some(innermost(declarator))].into_iter().flatten().filter_map(written).collect();
    }
    let mut cursor = node.walk();
    let identifier = node.named_children(&mut cursor).find(|child| child.kind().ends_with("identifier"));
    identifier.and_then(written).into_iter().collect()
}

/// What a declarator of C names in the end.
fn innermost(mut declarator: Node<'_>) -> Node<'_> {
    while let Some(inner) = declarator.child_by_field_name("declarator").or_else(|| {
        let is_around = matches!(declarator.kind(), "parenthesized_declarator" | "reference_declarator");
        is_around.then(|| declarator.named_child(0)).flatten()
    }) {
        declarator = inner;
    }
    declarator
}

/// The type that a method of Go is of.
fn receiver(node: Node<'_>, text: &str) -> Option<String> {
    let receiver = text.get(node.child_by_field_name("receiver")?.byte_range())?;
    let named = receiver.split('[').next()?.trim_end_matches([')', ' ']);
    let name = named.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// The definitions as `start-end around.name`.
    fn shown(path: &str, text: &str) -> Vec<String> {
        let line = |symbol: Symbol| {
            let name = symbol.around.into_iter().chain([symbol.name]).collect::<Vec<_>>().join(".");
            format!("{}-{} {name}", symbol.lines.start, symbol.lines.end)
        };
        symbols(path, text, |_| true).unwrap().into_iter().map(line).collect()
    }

    #[test]
    fn definitions_have_their_names_and_those_around_them() {
        let check =
            |path: &str, text: &str, expected: &[&str]| assert_eq!(shown(path, text), expected, "{path}");
        check(
            "a.rs",
            "pub struct A<T>(T);\nimpl<T> A<T> {\n    fn new() {}\n}\nimpl B for C { const D: u8 = 1; }\nmacro_rules! e { () => {} }\n",
            &["1-1 A", "2-4 A", "3-3 A.new", "5-5 C", "5-5 C.D", "6-6 e"],
        );
        check(
            "a.py",
            "@cached\nclass A(B):\n    @property\n    async def b(self): pass\ndef c(): pass\n",
            &["1-4 A", "3-4 A.b", "5-5 c"],
        );
        check(
            "a.ts",
            "export class A<T> extends B {\n  c = () => 1;\n  d(e: E) {}\n}\nexport const f = async () => {};\nconst { g } = () => 1;\ndeclare module \"x\" {}\n",
            &["1-4 A", "2-2 A.c", "3-3 A.d", "5-5 f"],
        );
        check("a.js", "class A { #b() {}\n c = () => 1; }\n", &["1-2 A", "1-1 A.b", "2-2 A.c"]);
        check(
            "a.go",
            "package a\ntype ( X struct{}; Y = int )\nconst A = 1\nfunc (b *B[T]) D() {}\nfunc E() {}\n",
            &["2-2 X", "2-2 Y", "3-3 A", "4-4 B.D", "5-5 E"],
        );
        check(
            "A.java",
            "class A extends B {\n  A() {}\n  int c() { return 1; }\n}\n",
            &["1-4 A", "2-2 A.A", "3-3 A.c"],
        );
        check(
            "a.c",
            "typedef struct b { int d; } *e_t;\nstruct f *g(void);\nint *(*h)(int);\nstatic int *i(void) { return 0; }\n",
            &["1-1 b", "1-1 e_t", "2-2 g", "3-3 h", "4-4 i"],
        );
        check("a.sh", "a() { b; }\n", &["1-1 a"]);
        check(
            "a.lua",
            "M.c = function() end\nfunction M:e() end\nreturn { f = function() end }\n",
            &["1-1 M.c", "2-2 M.e", "3-3 f"],
        );
    }

    #[cfg(feature = "more-languages")]
    #[test]
    fn more_languages_have_names_where_they_are_built_in() {
        assert_eq!(
            shown("a.swift", "extension A: B {\n  func c() {}\n}\nactor D {}\n"),
            ["1-3 A", "2-2 A.c", "4-4 D"]
        );
        assert_eq!(
            shown("a.scala", "object A {\n  def b(c: Int) = c\n}\ntrait D\n"),
            ["1-3 A", "2-2 A.b", "4-4 D"]
        );
        assert_eq!(
            shown("a.cpp", "class A {\n  int b();\n};\nint A::b() { return 1; }\n"),
            ["1-3 A", "2-2 A.b", "4-4 A.b"]
        );
        assert_eq!(shown("a.rb", "module A\n  def b?\n  end\nend\n"), ["1-4 A", "2-3 A.b"]);
    }

    #[test]
    fn a_name_is_found_exactly_or_not_at_all() {
        let text = "struct Parser;\nimpl Parser {\n    fn parse(parser: Parser) {}\n}\nfn parse() {}\n";
        let all = symbols("a.rs", text, |_| true).unwrap();
        let lines = |name: &str| -> Vec<usize> {
            let name = SymbolName::parse(name).unwrap();
            all.iter().filter(|symbol| name.is_of(symbol)).map(|symbol| symbol.lines.start).collect()
        };
        assert_eq!(lines("Parser"), [1, 2]);
        assert_eq!(lines("parse()"), [3, 5]);
        for name in ["Parser::parse", "Parser.parse", "Parser#parse"] {
            assert_eq!(lines(name), [3], "{name}");
        }
        // Words that stand in definitions and are none.
        for name in ["struct", "impl", "fn", "parser", "Pars"] {
            assert_eq!(lines(name), [0; 0], "{name}");
        }
        for text in ["", "a b", "a/b", "1a", "a.", "a..b", "::", "()", "a-b", "@a", "a@b"] {
            assert_eq!(SymbolName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn data_and_text_have_no_symbols() {
        for path in ["a.json", "a.toml", "a.yml", "a.md", "a.txt"] {
            assert!(!is_code(path), "{path}");
            assert_eq!(symbols(path, "a: 1", |_| true), Err(SyntaxError::UnknownLanguage), "{path}");
        }
        assert!(is_code("src/a.rs") && is_code("a.tsx"));
    }
}
