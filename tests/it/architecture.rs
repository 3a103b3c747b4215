//! The layout is the architecture: a module imports only from lower floors.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The floors, from the ground up.
const FLOORS: &[&[&str]] = &[
    &["protocol", "catalog", "text", "store"],
    &["config", "modes", "intents", "parser", "prompts", "shell"],
    &[
        "workspace",
        "egress",
        "exec",
        "providers",
        "customization",
        "hooks",
        "surroundings",
        "mentions",
        "orchestration",
        "approvals",
        "trace",
        "user_hooks",
        "changes",
    ],
    &["tools", "engine"],
    &["server", "cli"],
];

/// What may be imported on the same floor.
const NEIGHBOURS: &[(&str, &str)] = &[
    ("catalog", "protocol"),
    ("text", "protocol"),
    ("catalog", "text"),
    ("store", "protocol"),
    ("config", "parser"),
    ("modes", "config"),
    ("intents", "config"),
    ("intents", "modes"),
    ("prompts", "modes"),
    ("prompts", "parser"),
    ("customization", "workspace"),
    ("customization", "store"),
    ("hooks", "workspace"),
    ("hooks", "customization"),
    ("hooks", "orchestration"),
    ("changes", "exec"),
    ("hooks", "changes"),
    ("hooks", "trace"),
    ("hooks", "exec"),
    ("hooks", "egress"),
    ("hooks", "approvals"),
    ("hooks", "store"),
    ("hooks", "user_hooks"),
    ("approvals", "store"),
    ("orchestration", "workspace"),
    ("orchestration", "store"),
    ("surroundings", "workspace"),
    ("surroundings", "exec"),
    ("mentions", "workspace"),
    ("mentions", "exec"),
    ("mentions", "customization"),
    ("engine", "tools"),
    ("cli", "server"),
    ("customization", "user_hooks"),
    ("user_hooks", "exec"),
];

/// Rooms that do no input or output and know no clock.
const PURE: &[&str] = &["protocol", "catalog", "text", "parser", "modes", "intents", "prompts", "shell"];

/// What those rooms don't name, whether in full or by an import.
const IMPURE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
    "Timestamp::now",
    "Zoned::now",
    "tokio",
];

fn source() -> PathBuf {
    crate::support::package().join("src")
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The text of every source file of a room, without its tests.
fn rooms() -> BTreeMap<String, Vec<(PathBuf, String)>> {
    let mut rooms: BTreeMap<String, Vec<(PathBuf, String)>> = BTreeMap::new();
    let mut files = Vec::new();
    rust_files(&source(), &mut files);
    for file in files {
        let relative = file.strip_prefix(source()).unwrap().to_owned();
        let Some(room) = relative.iter().next().and_then(|room| room.to_str()) else { continue };
        let is_test = relative.components().any(|part| part.as_os_str() == "tests")
            || relative.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
        if room.ends_with(".rs") || is_test {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
        rooms.entry(room.to_owned()).or_default().push((relative, code));
    }
    rooms
}

fn floor(room: &str) -> usize {
    FLOORS.iter().position(|floor| floor.contains(&room)).unwrap_or_else(|| {
        panic!("the room {room} stands on no floor: add it to the table and to ARCHITECTURE.md")
    })
}

/// Every path in a piece of code, imports in full: `use std::{fs, io::Read};` names `std::fs` and
/// `std::io::Read`.
fn names(code: &str) -> Vec<String> {
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let path = Regex::new(r"\w+(?:::\w+)+").unwrap();
    let import = Regex::new(r"(?m)^\s*(?:pub(?:\(\w+\))? )?use ([^;]+);").unwrap();
    let mut found: Vec<String> = path.find_iter(&code).map(|path| path.as_str().to_owned()).collect();
    for statement in import.captures_iter(&code) {
        expand("", &statement[1], &mut found);
    }
    found
}

/// The paths in an import, or in one pair of its braces.
fn expand(start: &str, list: &str, found: &mut Vec<String>) {
    let mut depth = 0;
    let apart = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    for item in list.split(apart).map(str::trim).filter(|item| !item.is_empty()) {
        match item.split_once('{') {
            Some((head, inner)) => expand(&format!("{start}{head}"), inner.trim_end_matches('}'), found),
            None => found.push(format!("{start}{item}")),
        }
    }
}

/// The rooms that a piece of code names.
fn imports(code: &str) -> Vec<String> {
    let rooms = FLOORS.concat();
    let names = names(code).into_iter();
    let room = |name: String| Some(name.strip_prefix("crate::")?.split("::").next()?.to_owned());
    names.filter_map(room).filter(|room| rooms.contains(&room.as_str())).collect()
}

#[test]
fn names_are_found_wherever_they_stand() {
    let code = "use std::{fs, io::{self, Read}};\n// use tokio::time;\npub(crate) use crate::text::{\n    lines,\n    render as r,\n};\n\
                fn f() { std::env::var(x); }\n";
    for name in ["std::fs", "std::io::Read", "crate::text::lines", "std::env::var"] {
        assert!(names(code).iter().any(|found| found == name), "{name}: {:?}", names(code));
    }
    assert!(!names(code).iter().any(|found| found.starts_with("tokio")));
    assert!(imports(code).iter().all(|room| room == "text") && !imports(code).is_empty());
}

#[test]
fn imports_point_down_the_floors() {
    let mut wrong = Vec::new();
    for (room, files) in rooms() {
        for (file, code) in files {
            for import in imports(&code) {
                let down = floor(&import) < floor(&room);
                let allowed = import == room || NEIGHBOURS.contains(&(room.as_str(), import.as_str()));
                if !down && !allowed {
                    wrong.push(format!("{} imports {import}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_server_knows_the_lsp_crate() {
    for (room, files) in rooms() {
        for (file, code) in files {
            assert!(room == "server" || !code.contains("tower_lsp"), "{} names tower_lsp", file.display());
        }
    }
}

#[test]
fn only_the_command_line_prints() {
    for (room, files) in rooms() {
        for (file, code) in files {
            let prints = code.contains("io::stdout()") || code.contains("println!");
            assert!(matches!(room.as_str(), "cli" | "server") || !prints, "{} prints", file.display());
        }
    }
}

/// The files of the engine that are pure.
const MACHINE: [&str; 6] = ["task", "task/branch", "task/decide", "task/results", "task/settle", "tree"];

#[test]
fn pure_rooms_touch_neither_disk_nor_clock_nor_process() {
    let machine = MACHINE.iter().map(|name| {
        let path = PathBuf::from(format!("engine/{name}.rs"));
        let code = fs::read_to_string(source().join(&path)).unwrap();
        (path, code)
    });
    let pure = rooms().into_iter().filter(|(room, _)| PURE.contains(&room.as_str()));
    let files = pure.flat_map(|(_, files)| files).chain(machine);
    for (file, code) in files {
        for name in names(&code) {
            let forbidden = IMPURE.iter().find(|impure| {
                name.strip_prefix(**impure).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            });
            assert_eq!(forbidden, None, "{} uses {name}", file.display());
        }
    }
}

#[test]
fn permits_are_made_by_the_gate_alone() {
    for (_, files) in rooms() {
        for (file, code) in files {
            let makes = code.contains("Permit::new(");
            assert!(!makes || file == Path::new("hooks/gate.rs"), "{} makes a permit", file.display());
        }
    }
}
