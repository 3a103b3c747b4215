//! What a file defines: functions, types and their members, headings, keys.

use std::ops::ControlFlow;

use roo_text::lines::LineRange;
use tree_sitter::{Node, Tree};

use super::grammar::{Language, Role};
use super::markdown;
use super::outline::Outline;
use super::parse::{MAX_TEXT_BYTES, parse};

/// The most definitions of a file.
pub(super) const MAX_DEFINITIONS: usize = 1000;

/// Reasons why the definitions of a file can't be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// No grammar fits the name.
    #[error("definitions of this kind of file are not known")]
    UnknownLanguage,
    /// Over 1 MiB, or code that no parser gets through in reasonable time.
    #[error("the file is too large or too involved to be parsed")]
    TooMuch,
}

/// Whether the definitions of a file can be told, by its name.
pub fn is_supported(path: &str) -> bool {
    is_markdown(path) || Language::from_path(path).is_some()
}

/// The lines of every definition of a file in the order of the text, at most 1,000. Code that is being written, with errors
/// in it, has those that can be made out.
///
/// # Errors
/// [`SyntaxError`] for a file that can't be parsed.
pub fn definitions(path: &str, text: &str) -> Result<Vec<LineRange>, SyntaxError> {
    if is_markdown(path) {
        return Ok(markdown::sections(text).into_iter().take(MAX_DEFINITIONS).collect());
    }
    let language = Language::from_path(path).ok_or(SyntaxError::UnknownLanguage)?;
    let (outline, tree) = parsed(language, text)?;
    let mut found = Vec::new();
    each(language, &tree, |node| {
        let lines = outline.lines_of(node);
        // A type that is defined and named at once is one definition.
        if found.last() != Some(&lines) {
            found.push(lines);
        }
        if found.len() == MAX_DEFINITIONS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    Ok(found)
}

/// A text as far as it has definitions, and its tree.
pub(super) fn parsed(language: Language, text: &str) -> Result<(Outline<'_>, Tree), SyntaxError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(SyntaxError::TooMuch);
    }
    let outline = Outline::new(language, text);
    let tree = parse(language, outline.text()).ok_or(SyntaxError::TooMuch)?;
    Ok((outline, tree))
}

/// Looks at every definition of a tree in the order of the text, until that is enough.
pub(super) fn each<'t>(
    language: Language,
    tree: &'t Tree,
    mut look: impl FnMut(Node<'t>) -> ControlFlow<()>,
) {
    let mut todo = vec![(tree.root_node(), 0)];
    while let Some((node, level)) = todo.pop() {
        let role = language.role(node);
        if role.is_some() && look(node).is_break() {
            return;
        }
        let level = level + usize::from(role.is_some());
        if role == Some(Role::Inner) || level >= language.levels() {
            continue;
        }
        let mut cursor = node.walk();
        let first = todo.len();
        todo.extend(node.named_children(&mut cursor).map(|child| (child, level)));
        todo[first..].reverse();
    }
}

/// The lines of the definitions of a name, such as `parse`, `Parser::parse` or `Parser.parse`, in the order of the text. A line that
/// only mentions the name counts where no definition begins with it.
///
/// # Errors
/// [`SyntaxError`] for a file that can't be parsed.
pub fn definitions_of(path: &str, text: &str, name: &str) -> Result<Vec<LineRange>, SyntaxError> {
    let all = definitions(path, text)?;
    let lines: Vec<&str> = text.split('\n').collect();
    let parts: Vec<&str> =
        name.split([':', '.', '#']).map(str::trim).filter(|part| !part.is_empty()).collect();
    let Some((last, around)) = parts.split_last() else { return Ok(vec![]) };
    let is_within = |inner: &LineRange, name: &str| {
        let encloses =
            |outer: &&LineRange| outer != &inner && outer.start <= inner.start && inner.end <= outer.end;
        all.iter().filter(encloses).any(|outer| has_word(&signature(&lines, *outer), name))
    };
    let named = |has_name: &dyn Fn(&str) -> bool| -> Vec<LineRange> {
        let fits = |range: &&LineRange| {
            has_name(&signature(&lines, **range)) && around.iter().all(|name| is_within(range, name))
        };
        all.iter().filter(fits).map(|range| with_decorators(&lines, *range)).collect()
    };
    let defined = named(&|signature| has_word(head(signature), last));
    Ok(if defined.is_empty() { named(&|signature| has_word(signature, last)) } else { defined })
}

/// A definition with the decorators directly before it.
pub(super) fn with_decorators(lines: &[&str], range: LineRange) -> LineRange {
    let before = lines.get(..range.start - 1).unwrap_or_default().iter().rev();
    let decorators = before.take_while(|line| line.trim_start().starts_with('@')).count();
    LineRange { start: range.start - decorators, end: range.end }
}

/// The first line of a definition that is neither an attribute nor a comment.
pub(super) fn signature(lines: &[&str], range: LineRange) -> String {
    let own = lines.get(range.start - 1..range.end.min(lines.len())).unwrap_or_default();
    let is_before = |line: &&&str| {
        let line = line.trim();
        line.is_empty() || line.starts_with(['@', '/']) || line.starts_with("#[") || line.starts_with('*')
    };
    own.iter()
        .find(|line| !is_before(line))
        .or(own.first())
        .map(|line| (*line).to_owned())
        .unwrap_or_default()
}

/// The part of a signature that has the name that it defines: what is before parameters, a body, a value or a type.
fn head(signature: &str) -> &str {
    // Go names the receiver of a method first.
    let behind_receiver = signature.trim_start().strip_prefix("func (").and_then(|rest| rest.split_once(')'));
    let rest = behind_receiver.map_or(signature, |(_, rest)| rest);
    let end = rest.find(['(', '{', '=', ';', '<']).filter(|end| *end > 0).unwrap_or(rest.len());
    // A key may be quoted, and a type stands behind what it is of.
    let head = rest.get(..end).unwrap_or_default();
    head.split_once(": ").map_or(head, |(name, _)| name)
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

fn is_markdown(path: &str) -> bool {
    path.ends_with(".md") || path.ends_with(".markdown")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    /// The definitions of a file as `start-end first line`.
    fn shown(path: &str, text: &str) -> Vec<String> {
        let lines: Vec<&str> = text.lines().collect();
        let line = |range: LineRange| format!("{}-{} {}", range.start, range.end, lines[range.start - 1]);
        definitions(path, text).unwrap().into_iter().map(line).collect()
    }

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(shown(path, text), expected, "{path}");
    }

    #[test]
    fn code_is_known_by_its_types_functions_and_methods() {
        check(
            "a.rs",
            "use a::b;\n\npub struct A {\n    b: u8,\n}\n\nimpl A {\n    fn new() -> Self {\n        fn inner() {}\n        todo!()\n    }\n}\n\nmod m;\nconst C: u8 = 1;\nmacro_rules! x { () => {} }\n",
            &[
                "3-5 pub struct A {",
                "7-12 impl A {",
                "8-11     fn new() -> Self {",
                "14-14 mod m;",
                "15-15 const C: u8 = 1;",
                "16-16 macro_rules! x { () => {} }",
            ],
        );
        check(
            "a.py",
            "import a\n\nclass A:\n    @property\n    def b(self):\n        return 1\n\nasync def c():\n    pass\n",
            &["3-6 class A:", "5-6     def b(self):", "8-9 async def c():"],
        );
        check(
            "a.ts",
            "export class A {\n  b() {}\n  c = () => 1;\n}\nexport const d = async () => {\n  const e = () => 1;\n};\nconst f = 1;\ninterface G { h: string }\ntype I = 1;\nenum J { K }\nnamespace L {\n  export function m() {}\n}\n",
            &[
                "1-4 export class A {",
                "2-2   b() {}",
                "3-3   c = () => 1;",
                "5-7 export const d = async () => {",
                "9-9 interface G { h: string }",
                "10-10 type I = 1;",
                "11-11 enum J { K }",
                "12-14 namespace L {",
                "13-13   export function m() {}",
            ],
        );
        check(
            "a.jsx",
            "export default function A() {\n  return <b/>;\n}\n",
            &["1-3 export default function A() {"],
        );
        check("a.tsx", "const A = () => <b>c</b>;\n", &["1-1 const A = () => <b>c</b>;"]);
        check(
            "a.go",
            "package a\n\ntype B struct {\n\tc int\n}\n\nfunc (b *B) D() {\n}\n\nfunc E() {}\n",
            &["3-5 type B struct {", "7-8 func (b *B) D() {", "10-10 func E() {}"],
        );
        check(
            "A.java",
            "package a;\n\npublic class A {\n  A() {}\n  int b() { return 1; }\n  enum C { D }\n}\nrecord E(int f) {}\n",
            &[
                "3-7 public class A {",
                "4-4   A() {}",
                "5-5   int b() { return 1; }",
                "6-6   enum C { D }",
                "8-8 record E(int f) {}",
            ],
        );
        check(
            "a.c",
            "#include <a.h>\nstruct b { int c; };\ntypedef struct { int d; } e_t;\nstruct b *f(void);\nint g(struct b *h) {\n  return 0;\n}\nint i;\n",
            &[
                "2-2 struct b { int c; };",
                "3-3 typedef struct { int d; } e_t;",
                "4-4 struct b *f(void);",
                "5-7 int g(struct b *h) {",
            ],
        );
        check("a.sh", "a() {\n  b\n}\nfunction c { d; }\n", &["1-3 a() {", "4-4 function c { d; }"]);
        check(
            "a.lua",
            "local function a() end\nfunction M.b() end\nM.c = function()\nend\nlocal d = 1\nreturn { e = function() end }\n",
            &[
                "1-1 local function a() end",
                "2-2 function M.b() end",
                "3-4 M.c = function()",
                "6-6 return { e = function() end }",
            ],
        );
    }

    #[cfg(feature = "more-languages")]
    #[test]
    fn more_languages_are_known_where_they_are_built_in() {
        check(
            "a.cpp",
            "namespace a {\nclass B {\n  int c();\n  void d() {}\n};\ntemplate <class T> T e(T f) { return f; }\n}\n",
            &[
                "1-7 namespace a {",
                "2-5 class B {",
                "3-3   int c();",
                "4-4   void d() {}",
                "6-6 template <class T> T e(T f) { return f; }",
            ],
        );
        check(
            "a.cs",
            "namespace A;\npublic class B {\n  public int C { get; }\n  void D() {}\n}\n",
            &["1-1 namespace A;", "2-5 public class B {", "3-3   public int C { get; }", "4-4   void D() {}"],
        );
        check(
            "a.rb",
            "module A\n  class B\n    def c\n    end\n  end\nend\n",
            &["1-6 module A", "2-5   class B", "3-4     def c"],
        );
        check(
            "a.php",
            "<?php\nclass A {\n  function b() {}\n}\nfunction c() {}\n",
            &["2-4 class A {", "3-3   function b() {}", "5-5 function c() {}"],
        );
        check(
            "a.kt",
            "class A {\n  fun b() {}\n}\nfun c() = 1\n",
            &["1-3 class A {", "2-2   fun b() {}", "4-4 fun c() = 1"],
        );
        check(
            "a.scala",
            "package a\ntrait A {\n  def b: Int\n  type C\n}\ncase class D(e: Int) extends A {\n  def b: Int = {\n    def inner() = 1\n    1\n  }\n  val f = 2\n}\nobject D {\n  def apply() = new D(1)\n}\nenum G:\n  case H, I\n  def j = 1\nextension (s: String)\n  def k = s\ndef l(x: Int): Int = x\n",
            &[
                "2-5 trait A {",
                "3-3   def b: Int",
                "4-4   type C",
                "6-12 case class D(e: Int) extends A {",
                "7-10   def b: Int = {",
                "13-15 object D {",
                "14-14   def apply() = new D(1)",
                "16-18 enum G:",
                "18-18   def j = 1",
                "19-20 extension (s: String)",
                "20-20   def k = s",
                "21-21 def l(x: Int): Int = x",
            ],
        );
        check(
            "a.swift",
            "import A\npublic class B<T>: C {\n  let d = 1\n  var e: Int { return 2 }\n  init(f: Int) {}\n  func g() -> Int {\n    func inner() {}\n    return 1\n  }\n  enum H { case i }\n}\nprotocol J {\n  associatedtype K\n  func l()\n}\nextension B: J {\n  static func l() {}\n}\nactor M {}\ntypealias N = B\nfunc o(_ p: Int) -> Int { 1 }\n",
            &[
                "2-11 public class B<T>: C {",
                "4-4   var e: Int { return 2 }",
                "5-5   init(f: Int) {}",
                "6-9   func g() -> Int {",
                "10-10   enum H { case i }",
                "12-15 protocol J {",
                "13-13   associatedtype K",
                "14-14   func l()",
                "16-18 extension B: J {",
                "17-17   static func l() {}",
                "19-19 actor M {}",
                "20-20 typealias N = B",
                "21-21 func o(_ p: Int) -> Int { 1 }",
            ],
        );
        check(
            "a.zig",
            "const A = struct {\n    fn b() void {}\n};\nfn c() void {}\n",
            &["1-3 const A = struct {", "2-2     fn b() void {}", "4-4 fn c() void {}"],
        );
    }

    #[test]
    fn data_is_known_by_its_keys_of_two_levels_and_text_by_its_headings() {
        check(
            "a.json",
            "{\n  \"a\": {\n    \"b\": { \"c\": 1 }\n  },\n  \"d\": []\n}\n",
            &["2-4   \"a\": {", "3-3     \"b\": { \"c\": 1 }", "5-5   \"d\": []"],
        );
        check("a.yml", "a:\n  b:\n    c: 1\nd: [e]\n", &["1-3 a:", "2-3   b:", "4-4 d: [e]"]);
        check(
            "a.toml",
            "a = 1\n[b]\nc = 2\n\n[[d]]\ne = 3\n",
            &["1-1 a = 1", "2-4 [b]", "3-3 c = 2", "5-6 [[d]]", "6-6 e = 3"],
        );
        check(
            "a.md",
            "# A\n\ntext\n\n## B\n\n```sh\n# no heading\n```\n\nC\n=\nend",
            &["1-10 # A", "5-10 ## B", "11-13 C"],
        );
    }

    #[test]
    fn a_definition_is_found_by_its_name_and_what_is_around_it() {
        let check = |path: &str, text: &str, name: &str, expected: &[(usize, usize)]| {
            let found = definitions_of(path, text, name).unwrap();
            let found: Vec<(usize, usize)> = found.iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(found, expected, "{name} in {path}");
        };
        let rust = "struct A;\nimpl A {\n    fn new(b: B) -> Self {\n        A\n    }\n}\nstruct B;\nimpl B {\n    /// Doc.\n    fn new() {}\n}\n";
        check("a.rs", rust, "new", &[(3, 5), (10, 10)]);
        check("a.rs", rust, "A::new", &[(3, 5)]);
        check("a.rs", rust, "B::new", &[(10, 10)]);
        check("a.rs", rust, "B", &[(7, 7), (8, 11)]);
        check("a.rs", rust, "none", &[]);
        check("a.rs", rust, "::", &[]);
        let python = "class A:\n    @property\n    def area(self) -> int:\n        return 1\n";
        check("a.py", python, "A.area", &[(2, 4)]);
        check("a.go", "package a\n\nfunc (b *B) D(e E) {\n}\n", "D", &[(3, 4)]);
        check("a.ts", "export const f = async () => {};\nclass C<T> {\n  d(f: F) {}\n}\n", "f", &[(1, 1)]);
        check("a.md", "# A\n\n## How to start\ntext\n", "start", &[(3, 4)]);
        check("a.json", "{\n  \"scripts\": { \"test\": \"run\" }\n}\n", "test", &[(2, 2)]);
    }

    #[test]
    fn code_with_errors_has_what_can_be_made_out() {
        check("a.rs", "fn a( {\n\nfn b() {}\n", &["3-3 fn b() {}"]);
        assert_eq!(definitions("a.rs", &"x".repeat(2 << 20)), Err(SyntaxError::TooMuch));
        assert_eq!(definitions("a.exe", ""), Err(SyntaxError::UnknownLanguage));
        assert_eq!(definitions("Makefile", ""), Err(SyntaxError::UnknownLanguage));
        assert_eq!(definitions("a.rs", ""), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn every_definition_is_within_its_text(
            name in prop::sample::select(vec!["a.rs", "a.py", "a.tsx", "a.ts", "a.go", "a.c", "A.java", "a.md", "a.json", "a.yml", "a.toml", "a.lua", "a.sh"]),
            text in "(fn |def |class |function |new |[a-z]{1,3}|//|/\\*|\\*/|[(){}\\[\\]:;=\"'`$/#\\\\é\n -]){0,60}",
        ) {
            let count = text.split_inclusive('\n').count();
            for range in definitions(name, &text).unwrap_or_default() {
                prop_assert!(1 <= range.start && range.start <= range.end && range.end <= count, "{range:?}");
            }
        }
    }
}
