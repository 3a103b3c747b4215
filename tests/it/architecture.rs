//! The layout is the architecture: a module imports only from lower floors.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The floors, from the ground up.
const FLOORS: &[&[&str]] = &[
    &["protocol", "catalog", "text"],
    &["config", "modes", "parser", "prompts"],
    &["workspace", "exec", "providers", "store", "hooks"],
    &["tools", "engine"],
    &["server", "cli"],
];

/// What may be imported on the same floor.
const NEIGHBOURS: &[(&str, &str)] = &[
    ("catalog", "protocol"),
    ("text", "protocol"),
    ("text", "catalog"),
    ("config", "parser"),
    ("prompts", "modes"),
    ("prompts", "config"),
    ("hooks", "workspace"),
    ("engine", "tools"),
    ("cli", "server"),
];

/// Rooms that do no input or output and know no clock.
const PURE: &[&str] = &["protocol", "catalog", "text", "parser", "modes", "prompts"];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
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

/// The rooms that a piece of code names.
fn imports(code: &str) -> Vec<String> {
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for part in code.split("crate::").skip(1) {
        if let Some(group) = part.strip_prefix('{') {
            let group = group.split("};").next().unwrap_or_default();
            found.extend(
                group.split(',').filter_map(|item| item.trim().split("::").next()).map(str::to_owned),
            );
        } else {
            found.push(part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    found.retain(|room| FLOORS.iter().any(|floor| floor.contains(&room.as_str())));
    found
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

#[test]
fn pure_rooms_touch_neither_disk_nor_clock_nor_process() {
    let forbidden =
        ["std::fs::", "std::process", "tokio::", "SystemTime::now", "Zoned::now", "std::env::var"];
    for (room, files) in rooms() {
        for (file, code) in files {
            if PURE.contains(&room.as_str()) {
                for name in forbidden {
                    assert!(!code.contains(name), "{} uses {name}", file.display());
                }
            }
        }
    }
    let machine = fs::read_to_string(source().join("engine/task.rs")).unwrap();
    for name in forbidden {
        assert!(!machine.contains(name), "the task machine uses {name}");
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

#[test]
fn the_readme_lists_every_method() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    for method in roo_lsp::protocol::method::METHODS {
        assert!(readme.contains(&format!("`{}`", method.name)), "{} is missing in the README", method.name);
    }
}
