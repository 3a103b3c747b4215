//! Pairs of texts, and what became of the first in the second.

use super::*;

#[track_caller]
fn refactoring(path: &str, before: &str, after: &str) {
    assert_eq!(
        class_of(path, before, after),
        (MutationClass::AstRefactor, Basis::Ast),
        "{before}\n=>\n{after}"
    );
    assert_eq!(class_of(path, after, before).0, MutationClass::AstRefactor, "and back");
}

#[track_caller]
fn evolution(path: &str, before: &str, after: &str) {
    let expected = (MutationClass::IntentEvolution, Basis::Ast);
    assert_eq!(class_of(path, before, after), expected, "{before}\n=>\n{after}");
    assert_eq!(class_of(path, after, before).0, MutationClass::IntentEvolution, "and back");
}

#[test]
fn rust_comments_and_white_space() {
    let before = "fn f(a: u32) -> u32 {\n    a + 1\n}\n";
    refactoring("a.rs", before, "/// Adds.\nfn f(a: u32)->u32 { /* one */ a+1 }\n");
    refactoring("a.rs", "const A: &str = \"a b\";", "const A : &str=\"a b\";");
    evolution("a.rs", "const A: &str = \"a b\";", "const A: &str = \"a  b\";");
    evolution("a.rs", "const A: &str = r#\"a b\"#;", "const A: &str = r#\"a  b\"#;");
    evolution("a.rs", "const A: &str = \"a\\n b\";", "const A: &str = \"a\\n  b\";");
    evolution("a.rs", before, &before.replace("+ 1", "+ 2"));
    evolution("a.rs", before, &before.replace('+', "-"));
    evolution("a.rs", before, &before.replace("u32", "u64"));
}

#[test]
fn rust_locals() {
    refactoring(
        "a.rs",
        "fn f(a: u32) -> u32 { let b = a; b + a }",
        "fn f(x: u32) -> u32 { let y = x; y + x }",
    );
    refactoring(
        "a.rs",
        "fn f(v: &[u8]) { for a in v { if let Some(b) = g(a) { h(b) } } }",
        "fn f(list: &[u8]) { for item in list { if let Some(found) = g(item) { h(found) } } }",
    );
    refactoring(
        "a.rs",
        "fn f(o: Option<u8>) -> u8 { match o { Some(n) | Ok(n) if n > 1 => n, _ => 0 } }",
        "fn f(opt: Option<u8>) -> u8 { match opt { Some(k) | Ok(k) if k > 1 => k, _ => 0 } }",
    );
    refactoring("a.rs", "fn f() { g(|a, (b, c)| a + b + c) }", "fn f() { g(|x, (y, z)| x + y + z) }");
    refactoring("a.rs", "fn f(a: u8) { println!(\"{}\", a) }", "fn f(b: u8) { println!(\"{}\", b) }");
    refactoring(
        "a.rs",
        "fn f(p: P) -> u8 { let P { x, y: z } = p; x + z }",
        "fn f(q: P) -> u8 { let P { x, y: w } = q; x + w }",
    );
    // The local is another one.
    evolution("a.rs", "fn f(a: u8, b: u8) -> u8 { a - b }", "fn f(a: u8, b: u8) -> u8 { b - a }");
    // Outside and inside change places: the right side of a `let` does not see it.
    evolution("a.rs", "fn f() { let x = x(); g(x) }", "fn f() { let y = y(); g(y) }");
    evolution(
        "a.rs",
        "fn f() { let a = 1; { let a = 2; } g(a) }",
        "fn f() { let a = 1; { let b = 2; } g(b) }",
    );
    evolution("a.rs", "fn f(x: u8) -> P { P { x } }", "fn f(y: u8) -> P { P { y } }");
    evolution("a.rs", "fn f(x: S) { m!(x.x) }", "fn f(y: S) { m!(y.y) }");
    // The text of the macro names the local.
    evolution("a.rs", "fn f(a: u8) { println!(\"{a}\") }", "fn f(b: u8) { println!(\"{b}\") }");
    // A constant in a pattern is no local.
    evolution(
        "a.rs",
        "fn f(a: u8) { match a { MIN => 1, _ => 2 } }",
        "fn f(a: u8) { match a { MAX => 1, _ => 2 } }",
    );
    // A captured name.
    evolution("a.rs", "fn f(a: u8) -> u8 { a + b }", "fn f(b: u8) -> u8 { b + b }");
}

#[test]
fn rust_definitions_that_move() {
    let (a, b) = ("#[inline]\nfn a() { b() }\n", "/// Says b.\npub fn b() { c::d() }\n");
    refactoring("a.rs", &format!("{a}{b}"), &format!("{b}{a}"));
    refactoring(
        "a.rs",
        "impl S { fn a(&self) { 1 } fn b(&self) { 2 } }\nstruct S;",
        "struct S;\nimpl S { fn b(&self) { 2 } fn a(&self) { 1 } }",
    );
    // An attribute that moves to another function.
    evolution("a.rs", "#[test]\nfn a() {}\nfn b() {}", "fn a() {}\n#[test]\nfn b() {}");
    // Steps don't move.
    evolution("a.rs", "fn f() { a(); b(); }", "fn f() { b(); a(); }");
    // Fields and variants have an order.
    evolution("a.rs", "enum E { A, B }", "enum E { B, A }");
    // A method that moves to another type.
    evolution("a.rs", "impl A { fn f() {} }\nimpl B {}", "impl A {}\nimpl B { fn f() {} }");
    evolution("a.rs", a, &format!("{a}{b}"));
}

#[test]
fn rust_private_definitions_that_are_renamed() {
    let before =
        "fn helper(a: u8) -> u8 { if a > 0 { helper(a - 1) } else { 0 } }\npub fn run() { helper(3) }\n";
    refactoring("a.rs", before, &before.replace("helper", "count_down"));
    let moved = "pub fn run() { count_down(3) }\nfn count_down(n: u8) -> u8 { if n > 0 { count_down(n - 1) } else { 0 } }\n";
    refactoring("a.rs", before, moved);
    refactoring(
        "a.rs",
        "struct P { x: u8 }\nfn f(p: P) -> P { p }",
        "struct Q { x: u8 }\nfn f(p: Q) -> Q { p }",
    );
    // The exported name, the one without a body of its own, the one that is not used everywhere.
    evolution("a.rs", before, &before.replace("run", "start"));
    evolution("a.rs", before, &before.replacen("helper", "count_down", 1));
    evolution("a.rs", before, &before.replace("helper(3)", "count_down(3)"));
    // It takes the name of something that is used.
    evolution("a.rs", "fn a() {}\npub fn run() { a(); b() }", "fn b() {}\npub fn run() { b(); b() }");
    evolution("a.rs", "#[no_mangle]\nfn a() {}", "#[no_mangle]\nfn b() {}");
    // Two that change their bodies.
    evolution("a.rs", "fn a() { 1 }\nfn b() { 2 }", "fn a() { 2 }\nfn b() { 1 }");
}

#[test]
fn typescript() {
    let before = "export function f(a: number): number {\n  const b = a * 2;\n  return b;\n}\n";
    refactoring(
        "a.ts",
        before,
        "// doubled\nexport function f(x: number): number { const y = x * 2;\n\n return y; }\n",
    );
    evolution("a.ts", before, &before.replace("* 2", "* 3"));
    evolution("a.ts", before, &before.replace("): number", "): string"));
    evolution("a.ts", before, &before.replace("function f", "function g"));
    evolution("a.ts", before, &before.replace("export ", ""));
    evolution("a.ts", before, &format!("{before}export const c = 1;\n"));
    refactoring(
        "a.ts",
        "import x from 'y';\nfunction helper(a) { return a }\nexport const f = () => helper(1);",
        "import x from 'y';\nexport const f = () => inner(1);\nfunction inner(a) { return a }",
    );
    // A script without modules is seen by others.
    evolution("a.js", "function helper() { return 1 }\nhelper()", "function other() { return 1 }\nother()");
    evolution(
        "a.js",
        "function helper() { return 1 }\nexport { helper };",
        "function other() { return 1 }\nexport { other };",
    );
    evolution("a.ts", "class A { constructor(private a: B) {} }", "class A { constructor(private b: B) {} }");
    refactoring(
        "a.ts",
        "class A { a() { return 1 } b() { return 2 } }",
        "class A { b() { return 2 } a() { return 1 } }",
    );
    evolution("a.ts", "class A { x = f(); y = g() }", "class A { y = g(); x = f() }");
    evolution("a.ts", "class A { @log a() {} b() {} }", "class A { a() {} @log b() {} }");
}

#[test]
fn javascript_locals() {
    refactoring(
        "a.js",
        "const f = (a) => { let b = a; return `${b}!` }",
        "const f = (x) => { let y = x; return `${y}!` }",
    );
    refactoring(
        "a.js",
        "function f({ a, b: c }, ...d) { for (const e of d) { try { g(a, c, e) } catch (h) { i(h) } } }",
        "function f({ a, b: x }, ...y) { for (const z of y) { try { g(a, x, z) } catch (w) { i(w) } } }",
    );
    refactoring(
        "a.jsx",
        "function F(p) { return <div a={p}>hi {p}</div> }",
        "function F(q) { return <div a={q}>hi {q}</div> }",
    );
    // A property's name is no local's.
    evolution("a.js", "function f(a) { return { a } }", "function f(b) { return { b } }");
    evolution("a.js", "function f({ a }) { return a }", "function f({ b }) { return b }");
    evolution("a.js", "function f(a) { return a.a }", "function f(b) { return b.b }");
    // The inner one is meant, then the outer one.
    evolution(
        "a.js",
        "function f(a) { { let a = 1; return a } }",
        "function f(a) { { let b = 1; return a } }",
    );
    // `var` is the function's, wherever it stands.
    refactoring(
        "a.js",
        "function f() { if (x) { var a = 1 } return a }",
        "function f() { if (x) { var b = 1 } return b }",
    );
    // Names can be read.
    evolution("a.js", "function f(a) { return eval('a') }", "function f(b) { return eval('a') }");
    evolution("a.js", "x = `a  b`", "x = `a b`");
    evolution("a.js", "x = /a b/", "x = /a  b/");
    // A line end that ends a statement.
    evolution("a.js", "function f() { return g() }", "function f() { return\ng() }");
    evolution("a.jsx", "x = <p>a b</p>", "x = <p>a c</p>");
}

#[test]
fn python() {
    let before = "def f(a):\n    b = a + 1\n    return b\n";
    refactoring("a.py", before, "def f(a):\n\n    # one more\n    total = a + 1\n    return total\n");
    refactoring("a.py", before, "def f(a):\n  b = (a\n) + 1\n  return b\n".replace("(a\n)", "a").as_str());
    // Callers may name a parameter.
    evolution("a.py", before, "def f(x):\n    b = x + 1\n    return b\n");
    // The depth of a line decides when it is done.
    evolution("a.py", "if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n");
    refactoring(
        "a.py",
        "def f():\n    return [x for x in y if x]\n",
        "def f():\n    return [z for z in y if z]\n",
    );
    refactoring(
        "a.py",
        "def f():\n    return sorted(y, key=lambda p: p.a)\n",
        "def f():\n    return sorted(y, key=lambda q: q.a)\n",
    );
    evolution("a.py", "def f():\n    global n\n    n = 1\n", "def f():\n    global m\n    m = 1\n");
    evolution(
        "a.py",
        "def f():\n    n = 1\n    return f'{n=}'\n",
        "def f():\n    m = 1\n    return f'{m=}'\n",
    );
    refactoring(
        "a.py",
        "def f():\n    n = 1\n    return f'{n} a'\n",
        "def f():\n    m = 1\n    return f'{m} a'\n",
    );
    evolution("a.py", "def f():\n    return f'a {n}'\n", "def f():\n    return f'a  {n}'\n");
    evolution(
        "a.py",
        "def f():\n    n = 1\n    return locals()\n",
        "def f():\n    m = 1\n    return locals()\n",
    );
    evolution("a.py", "def f():\n    x.a = 1\n", "def f():\n    x.b = 1\n");
    evolution("a.py", "def f():\n    return g(a=1)\n", "def f():\n    return g(b=1)\n");
    // Used before it is assigned: the same local all the same.
    evolution("a.py", "def f():\n    print(n)\n    n = 1\n", "def f():\n    print(n)\n    m = 1\n");
    refactoring(
        "a.py",
        "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n = 1\n    g()\n    return n\n",
        "def f():\n    m = 0\n    def g():\n        nonlocal m\n        m = 1\n    g()\n    return m\n",
    );
    refactoring(
        "a.py",
        "def _a():\n    return 1\n\ndef b():\n    return _a()\n",
        "def b():\n    return _one()\n\ndef _one():\n    return 1\n",
    );
    evolution("a.py", "def a():\n    return 1\n", "def b():\n    return 1\n");
    refactoring(
        "a.py",
        "class A:\n    def a(self):\n        pass\n    @x\n    def b(self):\n        pass\n",
        "class A:\n    @x\n    def b(self):\n        pass\n    def a(self):\n        pass\n",
    );
    // The last one of a name counts.
    evolution(
        "a.py",
        "def a():\n    return 1\ndef a():\n    return 2\n",
        "def a():\n    return 2\ndef a():\n    return 1\n",
    );
    evolution("a.py", "def f():\n    \"Says a.\"\n", "def f():\n    \"Says b.\"\n");
}

#[test]
fn go() {
    let before = "package p\n\nfunc F(a int) (int, error) {\n\tb, err := g(a)\n\tif err != nil {\n\t\treturn 0, err\n\t}\n\treturn b, nil\n}\n";
    let renamed = before
        .replace("b, ", "n, ")
        .replace("err", "problem")
        .replace("(a int)", "(x int)")
        .replace("g(a)", "g(x)")
        .replace("problemor", "error");
    refactoring("a.go", before, &renamed);
    refactoring("a.go", before, &before.replace("\tb, err", "\t// ask\n\n\tb, err"));
    evolution("a.go", before, &before.replace("!=", "=="));
    evolution("a.go", before, &before.replace("func F", "func G"));
    evolution("a.go", before, &before.replace("a int", "a int64"));
    refactoring(
        "a.go",
        "package p\nfunc a() int { return 1 }\nfunc B() int { return a() }\n",
        "package p\nfunc B() int { return one() }\nfunc one() int { return 1 }\n",
    );
    refactoring(
        "a.go",
        "package p\nfunc f(v []int) {\n\tfor i, e := range v {\n\t\tswitch t := e.(type) {\n\t\tcase int:\n\t\t\tg(i, t)\n\t\t}\n\t}\n}\n",
        "package p\nfunc f(list []int) {\n\tfor n, item := range list {\n\t\tswitch v := item.(type) {\n\t\tcase int:\n\t\t\tg(n, v)\n\t\t}\n\t}\n}\n",
    );
    refactoring(
        "a.go",
        "package p\nfunc f(x int) P { return P{x: x} }\n",
        "package p\nfunc f(y int) P { return P{x: y} }\n",
    );
    evolution(
        "a.go",
        "package p\nfunc f(x int) P { return P{x: x} }\n",
        "package p\nfunc f(x int) P { return P{y: x} }\n",
    );
    evolution("a.go", "//go:build linux\n\npackage p\n", "//go:build darwin\n\npackage p\n");
    // A second `:=` of the same scope assigns; in another scope it makes a new one.
    evolution(
        "a.go",
        "package p\nfunc f() int {\n\ta, b := g()\n\t{\n\t\ta, c := g()\n\t\th(a, c)\n\t}\n\treturn a + b\n}\n",
        "package p\nfunc f() int {\n\ta, b := g()\n\t{\n\t\td, c := g()\n\t\th(a, c)\n\t}\n\treturn a + b\n}\n",
    );
    evolution("a.go", "package p\nvar s = `a  b`\n", "package p\nvar s = `a b`\n");
}

#[test]
fn bash() {
    refactoring(
        "a.sh",
        "#!/bin/sh\nf() {\n  echo a  b # says\n}\nf\n",
        "#!/bin/sh\n# says\nf() {\n    echo a b\n}\n\nf\n",
    );
    evolution("a.sh", "#!/bin/sh\necho a\n", "#!/bin/bash\necho a\n");
    evolution("a.sh", "echo \"a  b\"\n", "echo \"a b\"\n");
    evolution("a.sh", "echo $a\n", "echo $b\n");
    evolution("a.sh", "cat <<E\na  b\nE\n", "cat <<E\na b\nE\n");
    evolution("a.sh", "a b\n", "ab\n");
    evolution("a.sh", "f() { local a=1; echo $a; }\n", "f() { local b=1; echo $b; }\n");
    refactoring("a.sh", "a() { b; }\nc() { d; }\na\n", "c() { d; }\na() { b; }\na\n");
}

#[test]
fn without_a_tree_the_text_decides() {
    let class = |path, before, after| class_of(path, before, after);
    assert_eq!(class("a.md", "a b\n", "a\n  b\n"), (MutationClass::AstRefactor, Basis::Text));
    assert_eq!(class("a.md", "a b\n", "a c\n"), (MutationClass::IntentEvolution, Basis::Text));
    assert_eq!(class("a.rs", "fn f( {\n", "fn f(\n{\n"), (MutationClass::AstRefactor, Basis::Text));
    assert_eq!(class("a.rs", "fn f( {\n", "fn g( {\n"), (MutationClass::IntentEvolution, Basis::Text));
    assert_eq!(class("a.py", "if (:\n  a\n", "if (:\na\n"), (MutationClass::IntentEvolution, Basis::Text));
    let long = format!("{}fn f() {{}}\n", "// much\n".repeat(140_000));
    assert_eq!(class("a.rs", &long, &format!("{long}\n")), (MutationClass::AstRefactor, Basis::Text));
}

#[test]
fn a_new_file_is_new_behaviour() {
    let change = |before, after, same| FileMutation {
        path: "a.rs",
        old_path: None,
        before,
        after,
        same,
        written: &[(1, 1)],
    };
    let made = analyse(&change(None, Some("fn f() {}\n"), false), &ComparableForms::default());
    assert_eq!((made.class, made.symbols), (MutationClass::IntentEvolution, vec!["f".to_owned()]));
    assert_eq!(
        analyse(&change(Some("fn f() {}\n"), None, false), &ComparableForms::default()).class,
        MutationClass::IntentEvolution
    );
}

#[test]
fn any_depth_has_an_answer() {
    for depth in [100, 5_000, 100_000] {
        let nested = |end: &str| format!("fn f() {{ {}{end}{} }}", "(".repeat(depth), ")".repeat(depth));
        let (class, _) = class_of("a.rs", &nested("1"), &nested("2"));
        assert_eq!(class, MutationClass::IntentEvolution, "{depth}");
        let (class, _) = class_of("a.rs", &nested("1"), &nested(" 1"));
        assert_eq!(class, MutationClass::AstRefactor, "{depth}");
    }
}

#[test]
fn symbols_are_the_innermost_definitions_that_were_touched() {
    let text = "struct A;\nimpl A {\n    fn one(&self) {}\n    fn two(&self) {\n        x()\n    }\n}\nfn free() {}\n";
    let touched = |written: &[(usize, usize)]| {
        let change = FileMutation {
            path: "a.rs",
            old_path: None,
            before: Some(""),
            after: Some(text),
            same: false,
            written,
        };
        analyse(&change, &ComparableForms::default()).symbols
    };
    assert_eq!(touched(&[(5, 5)]), ["A.two"]);
    assert_eq!(touched(&[(1, 1), (8, 8)]), ["A", "free"]);
    assert_eq!(touched(&[(3, 4)]), ["A.one", "A.two"]);
    let python = "class A:\n    @x\n    def f(self):\n        pass\n";
    let change = FileMutation {
        path: "a.py",
        old_path: None,
        before: Some(""),
        after: Some(python),
        same: false,
        written: &[(4, 4)],
    };
    assert_eq!(analyse(&change, &ComparableForms::default()).symbols, ["A.f"]);
    let script = "export class A {\n  f() {\n    return 1\n  }\n}\n";
    let change = FileMutation {
        path: "a.ts",
        old_path: None,
        before: Some(""),
        after: Some(script),
        same: false,
        written: &[(3, 3)],
    };
    assert_eq!(analyse(&change, &ComparableForms::default()).symbols, ["A.f"]);
    let go = "package p\nfunc (a *A) F() {\n\tg()\n}\n";
    let change = FileMutation {
        path: "a.go",
        old_path: None,
        before: Some(""),
        after: Some(go),
        same: false,
        written: &[(3, 3)],
    };
    assert_eq!(analyse(&change, &ComparableForms::default()).symbols, ["F"]);
}
