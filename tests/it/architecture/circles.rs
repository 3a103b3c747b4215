//! Which module of a crate names which other, and the circles that they form.
//!
//! A module names another where a path in its code leads to what that one defines, also by a re-export of a module
//! between them. What is compiled for tests alone doesn't count, nor do calls of methods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::{expand, sources};

static USE_ITEM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^\s*(?:pub(?:\([\w: ]+\))? )?use ([^;]+);").unwrap());
static VISIBILITY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"pub\(in [^)]*\)").unwrap());
static WRITTEN_PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+(?:::\w+)+").unwrap());

/// The path of a module below its crate; that of the crate itself is empty.
type ModulePath = Vec<String>;

/// The modules of a crate.
struct Modules(BTreeMap<ModulePath, Module>);

struct Module {
    code: String,
    imports: Vec<Import>,
}

/// An import, or a re-export: a name in the module that stands for a path.
struct Import {
    path: Vec<String>,
    name: String,
}

/// Whether a module may take from the modules around it, which declare it: from its parent, that one's parent and so on.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum FromParents {
    Allowed,
    Counted,
}

/// A circle of the modules below one module of a crate, as in `a → b → a`; none where there is none.
pub(super) fn circle_below(crate_sources: &str, module: &str, from_parents: FromParents) -> Option<String> {
    Modules::of_sources(sources(crate_sources), crate_sources).circle_below(module, from_parents)
}

impl Modules {
    fn of_sources(files: Vec<(String, String)>, directory: &str) -> Self {
        let module = |(file, code): (String, String)| {
            let below = file.strip_prefix(directory).unwrap().trim_start_matches('/').trim_end_matches(".rs");
            let mut path: ModulePath = below.split('/').map(str::to_owned).collect();
            path.pop_if(|name| matches!(name.as_str(), "mod" | "lib" | "main"));
            let code = without_tests(&code);
            (path, Module { imports: imports(&code), code })
        };
        Self(files.into_iter().map(module).collect())
    }

    fn circle_below(&self, module: &str, from_parents: FromParents) -> Option<String> {
        let above: ModulePath =
            module.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let inside = |path: &ModulePath| path.starts_with(&above);
        let counts = |path: &ModulePath, named: &ModulePath| {
            inside(named) && (from_parents == FromParents::Counted || !path.starts_with(named))
        };
        let graph: BTreeMap<_, BTreeSet<_>> = self
            .0
            .keys()
            .filter(|path| inside(path))
            .map(|path| {
                (path.clone(), self.named_by(path).into_iter().filter(|named| counts(path, named)).collect())
            })
            .collect();
        let (mut known, mut way) = (BTreeSet::new(), vec![]);
        let circle = graph.keys().find_map(|path| circle_from(path, &graph, &mut known, &mut way))?;
        let shown = circle.iter().map(|path| path.join("::")).collect::<Vec<_>>();
        Some(shown.join(" → "))
    }

    /// The modules that define what a module names.
    fn named_by(&self, module: &ModulePath) -> BTreeSet<ModulePath> {
        let Module { code, imports } = &self.0[module];
        let absolute = |path: &[String]| self.absolute(module, path);
        let imported = imports.iter().filter_map(|import| absolute(&import.path));
        let body = USE_ITEM.replace_all(code, "");
        let body = VISIBILITY.replace_all(&body, "pub");
        let written = WRITTEN_PATH.find_iter(&body).filter_map(|path| {
            let path: Vec<String> = path.as_str().split("::").map(str::to_owned).collect();
            let alias = imports.iter().find(|import| import.name == path[0]);
            absolute(&path).or_else(|| Some([absolute(&alias?.path)?, path[1..].to_vec()].concat()))
        });
        imported
            .chain(written)
            .filter_map(|path| self.definition(&path, 0))
            .filter(|found| found != module)
            .collect()
    }

    /// A path from the crate's root; none for what is of another crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        match path[0].as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => {
                let up = path.iter().take_while(|name| *name == "super").count();
                Some([module.get(..module.len().checked_sub(up)?)?, &path[up..]].concat())
            }
            child => {
                self.0.contains_key(&[module, &[child.to_owned()]].concat()).then(|| [module, path].concat())
            }
        }
    }

    /// The module that defines what a path leads to; none where it leads to a module as such.
    fn definition(&self, path: &[String], depth: usize) -> Option<ModulePath> {
        let length = (0..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(length);
        let name = rest.first()?;
        let re_exports = self.0[module].imports.iter().filter(|import| import.name == *name);
        let through = |import: &Import| {
            let target = [self.absolute(module, &import.path)?, rest[1..].to_vec()].concat();
            (target != path && depth < 8).then(|| self.definition(&target, depth + 1))
        };
        re_exports.filter_map(through).next().unwrap_or_else(|| Some(module.to_vec()))
    }
}

/// A way from a module back to one that it came by.
fn circle_from(
    module: &ModulePath,
    graph: &BTreeMap<ModulePath, BTreeSet<ModulePath>>,
    known: &mut BTreeSet<ModulePath>,
    way: &mut Vec<ModulePath>,
) -> Option<Vec<ModulePath>> {
    if let Some(begin) = way.iter().position(|before| before == module) {
        return Some([&way[begin..], std::slice::from_ref(module)].concat());
    }
    if !known.insert(module.clone()) {
        return None;
    }
    way.push(module.clone());
    let circle = graph[module].iter().find_map(|named| circle_from(named, graph, known, way));
    way.pop();
    circle
}

fn imports(code: &str) -> Vec<Import> {
    let mut paths = vec![];
    USE_ITEM.captures_iter(code).for_each(|found| expand("", &found[1], &mut paths));
    let import = |text: &String| {
        let (path, alias) = text.split_once(" as ").unwrap_or((text.as_str(), ""));
        let mut path: Vec<String> = path.split("::").map(|name| name.trim().to_owned()).collect();
        path.pop_if(|name| name == "self");
        let name = if alias.is_empty() { path.last()?.clone() } else { alias.trim().to_owned() };
        Some(Import { path, name })
    };
    paths.iter().filter_map(import).collect()
}

/// Code without comments and without what is compiled for tests alone.
fn without_tests(code: &str) -> String {
    let mut lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut kept = String::new();
    while let Some(line) = lines.next() {
        let indent = &line[..line.len() - line.trim_start().len()];
        if !line.trim_start().starts_with("#[cfg(test)]") {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        let mut item = lines.by_ref().skip_while(|line| line.trim_start().starts_with("#["));
        if item.next().is_some_and(|first| !first.ends_with([';', '}', ','])) {
            item.find(|line| line.strip_prefix(indent).is_some_and(|rest| rest.starts_with(['}', ')'])));
        }
    }
    kept
}

#[test]
fn circles_of_modules_are_found_through_re_exports_and_inline_paths() {
    let circle = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(file, code)| (format!("src/{file}"), (*code).to_owned()));
        Modules::of_sources(files.collect(), "src").circle_below("", FromParents::Counted)
    };
    let two = "a → b → a";
    assert_eq!(circle(&[("a.rs", "use super::b::B;"), ("b.rs", "fn f() { crate::a::g(); }")]).unwrap(), two);
    let re_exported =
        [("mod.rs", "pub use b::B;\nmod b;"), ("a.rs", "use crate::B;"), ("b.rs", "use super::a::A;")];
    assert_eq!(circle(&re_exported).unwrap(), "b → a → b");
    let by_module =
        [("a.rs", "use super::{b, c};\nfn f() { b::g(); }"), ("b.rs", "use super::a::{A as Other};")];
    assert_eq!(circle(&by_module).unwrap(), two);
    let parent = [("a.rs", "use self::b::B;\npub struct A;"), ("a/b.rs", "use super::A;\npub struct B;")];
    assert_eq!(circle(&parent).unwrap(), "a → a::b → a");
}

#[test]
fn tests_comments_and_parents_that_only_declare_make_no_circle() {
    let code = "use super::a::A;\n#[cfg(test)]\nuse super::c::C;\n// use super::c::D;\n#[cfg(test)]\n#[derive(Debug)]\nstruct T {\n    \
                c: super::c::C,\n}\nstruct B;";
    let files = [
        ("mod.rs", "mod a;\nmod b;\nmod c;\npub use c::C;\nuse b::B;"),
        ("a.rs", "pub struct A;"),
        ("b.rs", code),
        ("c.rs", "use super::b::B;\n"),
    ];
    let files = files.map(|(file, code)| (format!("src/{file}"), code.to_owned()));
    assert_eq!(Modules::of_sources(files.into(), "src").circle_below("", FromParents::Counted), None);
}

#[test]
fn a_child_may_take_from_its_parents_and_closes_a_circle_with_their_siblings() {
    let circle = |parent: &str| {
        let files = [
            ("mod.rs", "mod a;\nmod c;"),
            ("a.rs", parent),
            ("a/b.rs", "use super::A;\nuse crate::c::C;\npub struct B;"),
            ("c.rs", "use crate::a::A;\npub struct C;"),
        ];
        let files = files.map(|(file, code)| (format!("src/{file}"), code.to_owned()));
        Modules::of_sources(files.into(), "src").circle_below("", FromParents::Allowed)
    };
    assert_eq!(circle("mod b;\npub struct A;"), None, "the parent only declares its child");
    let uses = "mod b;\nuse self::b::B;\npub struct A;";
    assert_eq!(circle(uses).unwrap(), "a → a::b → c → a");
}
