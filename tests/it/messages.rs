//! Every message that the code can show to people, listed by crate, so that they can be read from top to bottom and a
//! change of wording is seen in review: errors, diagnostics, refusals, titles and notes of approvals. The lists are found
//! in the source by the places where messages are made; `{…}` stands for what is filled in. What models are given to read
//! (prompts, results of tools, replies, reminders) is listed in the same way, by the files that write it.
//! `INSTA_UPDATE=always cargo test --test it messages` writes the lists again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Beginnings of code that makes a message: an attribute or a call, or the assignment of a text.
const PLACES: &str = r"(?x)
    \#\[error\(
    | \bCliError::(?:Other|Usage)\(
    | \b(?:File)?Problem::error(?:_at)?\(
    | \bproblems\s*\.(?:error|warning|suggest|add)\(
    | \bself\s*\.(?:error|problem|refuse|note)\(
    | \b(?:Refusal|CheckFinding)::\w+\(
    | \bfailure\(
    | \bErr\(
    | \b(?:title|text|reason|message|warning):\s
    | \blet\s(?:message|text|reason|note|title|notice|advice|hint|why)\b[^;=]*=";

/// Files and directories whose texts models read.
const FOR_MODELS: &[&str] = &[
    "crates/roo-catalog/src/call.rs",
    "crates/roo-catalog/src/reader.rs",
    "crates/roo-catalog/src/tools",
    "crates/roo-engine/src/engine/context.rs",
    "crates/roo-engine/src/engine/gather.rs",
    "crates/roo-engine/src/engine/task",
    "crates/roo-engine/src/engine/tree.rs",
    "crates/roo-engine/src/mentions",
    "crates/roo-engine/src/project_info",
    "crates/roo-engine/src/tool_run",
    "crates/roo-engine/src/tools",
    "crates/roo-model/src/parser",
    "crates/roo-model/src/prompts",
    "crates/roo-text/src/blocks",
    "crates/roo-text/src/patch",
    "src/mcp",
];

/// Code without tests, comments and characters.
fn production(source: &str) -> String {
    let production = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: Vec<&str> = production.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let characters = Regex::new(r"'(?:\\.|[^\\'])'").unwrap();
    characters.replace_all(&code.join("\n"), "' '").into_owned()
}

/// Literals with words, each once.
fn with_words<'a>(literals: impl Iterator<Item = &'a str>) -> Vec<String> {
    let continued = Regex::new(r"\\\n\s*").unwrap();
    let words = Regex::new(r"[a-z]{3}.* ").unwrap();
    let mut found: Vec<String> = Vec::new();
    for literal in literals {
        let text = continued.replace_all(literal, "").into_owned();
        if text.len() > 11 && words.is_match(&text) && !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// The texts of a source file for people, in their order.
fn messages(source: &str) -> Vec<String> {
    let code = production(source);
    let all = all_literals(&code);
    let places = Regex::new(PLACES).unwrap();
    // What looks like a place within a text is none.
    let places =
        places.find_iter(&code).filter(|place| !all.iter().any(|text| text.contains(&place.start())));
    let of_place = |place: regex::Match<'_>| literals(&code[place.end()..], place.as_str().ends_with('('));
    with_words(places.flat_map(of_place))
}

/// All texts of a source file.
fn all_texts(source: &str) -> Vec<String> {
    let code = production(source);
    with_words(all_literals(&code).into_iter().map(|text| &code[text]))
}

/// Where the string literals of code are, without their quotes.
fn all_literals(code: &str) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(quote) = code[at..].find('"') {
        let begin = at + quote + 1;
        let end = if code[..begin - 1].ends_with("r#") {
            code[begin..].find("\"#").map_or(code.len(), |length| begin + length)
        } else {
            end_of_literal(code, begin)
        };
        found.push(begin..end);
        at = code.len().min(end + 1);
    }
    found
}

/// The string literals up to the end of a call whose arguments begin here, or else of a statement.
fn literals(code: &str, is_call: bool) -> Vec<&str> {
    let (mut found, mut depth, mut at) = (Vec::new(), usize::from(is_call), 0);
    while let Some(byte) = code.as_bytes().get(at) {
        match byte {
            b'"' => {
                let end = end_of_literal(code, at + 1);
                found.extend(code.get(at + 1..end));
                at = end;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth <= usize::from(is_call) => break,
            b')' | b']' | b'}' => depth -= 1,
            b';' if depth == 0 => break,
            _ => {}
        }
        at += 1;
    }
    found
}

/// The index of the quote that ends a literal.
fn end_of_literal(code: &str, mut at: usize) -> usize {
    loop {
        match code.as_bytes().get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return at.min(code.len()),
            Some(_) => at += 1,
        }
    }
}

fn sources(path: &Path, with_prompts: bool, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        found.push(path.to_owned());
        return;
    }
    let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if entry.is_dir() {
            let is_left_out = ["tests", "target", "benches"].contains(&name.as_str());
            if !is_left_out && (with_prompts || name != "prompts") {
                sources(&entry, with_prompts, found);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "fixture.rs" {
            found.push(entry);
        }
    }
}

/// The texts of files, listed by crate.
fn lists(files: &[PathBuf], texts: fn(&str) -> Vec<String>) -> BTreeMap<String, String> {
    let package = crate::support::package();
    let mut lists: BTreeMap<String, String> = BTreeMap::new();
    for file in files {
        let found = texts(&fs::read_to_string(file).unwrap());
        if found.is_empty() {
            continue;
        }
        let name = file.strip_prefix(&package).unwrap().to_string_lossy().into_owned();
        let mut parts = name.split('/');
        let area = match (parts.next(), parts.next()) {
            (Some("crates"), Some(name)) => name,
            _ => "roo-lsp",
        };
        let list = lists.entry(area.to_owned()).or_default();
        writeln!(list, "\n{name}").unwrap();
        found.iter().for_each(|text| writeln!(list, "  {text}").unwrap());
    }
    lists
}

#[test]
fn messages_to_people_are_listed() {
    let package = crate::support::package();
    let mut files = Vec::new();
    sources(&package.join("crates"), false, &mut files);
    sources(&package.join("src"), false, &mut files);
    let lists = lists(&files, messages);
    assert!(lists.len() > 10, "only {:?}", lists.keys());
    for (area, list) in lists {
        insta::assert_snapshot!(format!("messages_{area}"), list);
    }
}

#[test]
fn texts_for_models_are_listed() {
    let package = crate::support::package();
    let mut files = Vec::new();
    for path in FOR_MODELS {
        let path = package.join(path);
        let file = path.with_extension("rs");
        assert!(path.exists() || file.exists(), "{} is gone", path.display());
        [path, file].iter().filter(|path| path.exists()).for_each(|path| sources(path, true, &mut files));
    }
    files.sort();
    files.dedup();
    for (area, list) in lists(&files, all_texts) {
        insta::assert_snapshot!(format!("texts_for_models_{area}"), list);
    }
}

#[test]
fn all_texts_of_a_file_are_found() {
    let source = "fn f() {\n    let x = \"a \\\"word\\\" or \\\n        two\";\n    // no \"third text here\"\n    g('\"', \"name\", \
                  r#\"say \"more\" than that\"#);\n}\n#[cfg(test)]\nmod tests {\n    const T: &str = \"in a test only\";\n";
    assert_eq!(all_texts(source), ["a \\\"word\\\" or two", "say \"more\" than that"]);
}

#[test]
fn texts_are_found_where_messages_are_made() {
    let source = "/// An \"unknown file\" here.\n#[error(\"{path} can't be read: {source}\", .path.display())]\nfn f() {\n    \
                  let message = format!(\"the file has more than {LIMIT} \\\n        bytes\");\n    log(\"it is not \
                  listed\"); say(\"its text: {}\", code, \"not one either\");\n    problems.error(&[key(\"a b\")], \"`a` must be { '\\\"' } a list\".to_owned());\n}\n";
    let expected = ["{path} can't be read: {source}", "the file has more than {LIMIT} bytes"];
    assert_eq!(messages(source)[..2], expected);
    assert_eq!(messages(source).len(), 3);
}
