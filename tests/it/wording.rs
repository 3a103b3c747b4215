//! The project's private words stay gone from what others read: documentation, messages, comments, and the names of modules
//! and types. Each pattern names one word in the sense that was private, so that its ordinary uses need no exception.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// Phrases that no page and no message may hold, each with what to write.
const PHRASES: &[(&str, &str)] = &[
    (r"\b(?:houses?|storeys?)\b", "runtime, services, layer"),
    (r"\b(?:the|a|this|another|each) (?:room|floor|door)s?\b", "module, crate, layer, front end, disk space"),
    (r"\bdeeds?\b", "audit record, action"),
    (r"\b(?:the|its|whose) surroundings\b", "context, environment"),
    (r"\baftermath\b", "effects"),
    (r"\bmeans nothing here\b", "unknown key, ignored"),
    (r"\bmend(?:s|ed|ing)?\b", "fix, repair"),
    (r"\bstands? still\b", "is paused"),
    (r"\b(?:kept|held|holds?) back\b", "withheld, reserved"),
    (r"\b(?:is|are) told (?:as|with the)\b", "is shown as, is reported with"),
    (r"\btaken back\b", "undone, revoked, removed"),
    (r"\bfor ever\b", "forever"),
    (r"\banew\b", "again, recreate, restart, from the beginning"),
    (r"\b(?:takes?|taken|took) down\b", "record"),
    (r"\bthe begin\b", "the beginning, the start"),
    (r"\bat the least\b", "at least"),
    (r"\blikest\b", "most similar"),
    (r"\bslips? of the hand\b", "typo"),
    (r"\bhinders?\b", "prevent, block"),
    (r"\bthe story of a (?:run|request)\b", "output, transcript"),
    (r"\blies? behind (?:a link|one)\b", "goes through a symlink"),
    (r"\bSay something to\b", "Message the agent"),
    (r"\bWhat is to be done\?", "Describe a task"),
    (r"\bA word with it\b", "Add feedback"),
    (r"\b(?:refused?|decided|allowed|answers?) for good\b", "always, permanently"),
];

/// The same, compiled once for all files.
static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compiled = |(pattern, instead): &(&str, &'static str)| {
        (Regex::new(&format!("(?i){pattern}")).unwrap(), *instead)
    };
    PHRASES.iter().map(compiled).collect()
});

/// Names that no module may have.
const MODULES: &[&str] = &[
    "aftermath",
    "deed",
    "forms",
    "house",
    "orchestration",
    "order",
    "outside",
    "room",
    "several",
    "story",
    "surroundings",
    "under_way",
    "written",
];

/// Names that no type may have.
const TYPES: &str = r"(?m)^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type) (Aftermath|Asking|Deed|Grounds|Heard|House|Judged|Judgement|Kin|Mail|Room|Said|Scene|Setting|Storey|Story|Surroundings)\b";

/// Text of a file that others see: all of a page, and the string literals and comments of code.
fn shown(name: &str, text: &str) -> String {
    let literal = match name.rsplit('.').next() {
        Some("rs") => r#""(?:[^"\\]|\\.)*""#,
        Some("ts" | "lua") => r#""[^"\n]*"|'[^'\n]*'|`[^`\n]*`"#,
        _ => return text.to_owned(),
    };
    let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String = production
        .lines()
        .filter(|line| !line.trim_start().starts_with("//") && !line.trim_start().starts_with("--"))
        .map(|line| line.replace(r#"'"'"#, "' '") + "\n")
        .collect();
    let literals = Regex::new(&format!("(?s){literal}")).unwrap();
    let mut texts: Vec<&str> = literals.find_iter(&code).map(|found| found.as_str()).collect();
    texts.extend(production.lines().filter_map(comment));
    texts.join("\n")
}

/// The text of a line that is a comment or documentation.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let markers = ["///", "//!", "//", "---", "--", "/**", "* "];
    markers.into_iter().find_map(|marker| line.strip_prefix(marker))
}

/// The private words of a file, each with what to write instead.
fn private_words(name: &str, text: &str) -> Vec<String> {
    let shown = Regex::new(r"(?:\\?\s)+").unwrap().replace_all(&shown(name, text), " ").into_owned();
    let mut found = Vec::new();
    for (pattern, instead) in &*PATTERNS {
        let hits =
            pattern.find_iter(&shown).map(|hit| format!("{name}: '{}'; write: {instead}", hit.as_str()));
        found.extend(hits);
    }
    if name.ends_with(".rs") {
        let types = Regex::new(TYPES).unwrap();
        found.extend(types.captures_iter(text).map(|hit| format!("{name}: a type named {}", &hit[1])));
        let is_private = |part: &str| MODULES.contains(&part.trim_end_matches(".rs"));
        found.extend(
            name.split('/').filter(|part| is_private(part)).map(|part| format!("{name}: a module {part}")),
        );
    }
    found
}

/// Every file below a path of the repository that users, client authors or contributors read, by its name there.
fn public_files(path: &Path, found: &mut Vec<String>) {
    let name = path.strip_prefix(crate::support::package()).unwrap().to_string_lossy().into_owned();
    if path.is_dir() {
        let part = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if ["node_modules", "out", "dist", "bench", "target"].contains(&part.as_str()) {
            return;
        }
        let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| public_files(entry, found));
        return;
    }
    let is_text = [".md", ".rs", ".ts", ".lua", ".txt", "package.json"].iter().any(|end| name.ends_with(end))
        || (name.starts_with("schemas/") && name.ends_with(".json"));
    let is_test =
        name.split('/').any(|part| part == "test" || part.trim_end_matches(".rs").ends_with("tests"));
    if is_text && !is_test {
        found.push(name);
    }
}

#[test]
fn public_places_have_no_private_words() {
    let package = crate::support::package();
    let mut files = Vec::new();
    for path in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/src",
        "schemas",
    ] {
        public_files(&package.join(path), &mut files);
    }
    for path in ["crates", "src", "editors"] {
        public_files(&package.join(path), &mut files);
    }
    assert!(files.len() > 300, "only {} files were found", files.len());
    let found: Vec<String> = files
        .iter()
        .flat_map(|name| private_words(name, &fs::read_to_string(package.join(name)).unwrap()))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn private_words_are_found_where_others_read_them() {
    for (name, text) in [
        ("docs/src/a.md", "The task stands\nstill until that is mended."),
        ("src/a.rs", "fn f() { error(\"the file lies \\\n    behind a link\") }"),
        ("src/a.rs", "fn f() { format!(\"`{key}` means nothing here and is ignored\") }"),
        ("editors/a/b.ts", "ask(`What is to be done? ${label}`)"),
        ("editors/a/b.lua", "ask('A word with it')"),
        ("docs/src/a.md", "A branch that waits is told as paused, for ever."),
        ("src/a.rs", "pub(super) struct Surroundings {"),
        ("src/cli/story.rs", "//! Lines for a terminal."),
        ("src/a.rs", "/// Returns whether the task stands\n/// still.\nfn is_paused() {}"),
        ("src/a.rs", "//! Text that is held back."),
        ("src/a.rs", "fn f() {\n    // The task stands still until\n    // that is mended.\n}"),
        ("editors/a/b.ts", "  /** The server is started anew. */"),
        ("editors/a/b.lua", "--- Text from the begin of a line."),
        ("crates/roo-text/src/several.rs", "//! Several edits."),
        ("crates/roo-text/src/aftermath/mod.rs", "//! Effects."),
    ] {
        assert!(!private_words(name, text).is_empty(), "{name}: {text}");
    }
    for (name, text) in [
        ("docs/src/a.md", "In order to make room, several files are written outside of the workspace."),
        ("docs/src/a.md", "The kept background stands for good measure."),
        ("src/a.rs", "// Recommended: amend the beginning, at least.\nstruct Settings;"),
        ("src/a.rs", "let deed = house(room);"),
    ] {
        assert_eq!(private_words(name, text), Vec::<String>::new());
    }
}
