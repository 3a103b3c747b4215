//! Scripts of a project, by the names in its manifests. Values are not shown, and nothing is run.

use roo_text::render::{cut, exact_line};
use roo_workspace::{Contents, Purpose, ReadAccess, ReadError, Workspace};

/// The files that are read, at the top of a workspace folder. Of Makefiles the first one counts, as
/// for make.
pub(super) const MANIFESTS: &[&str] =
    &["package.json", "Cargo.toml", "pyproject.toml", "GNUmakefile", "makefile", "Makefile"];

/// The largest manifest, in bytes.
const SIZE: u64 = 1 << 20;
/// The most names of one kind.
const NAMES: usize = 60;
/// The longest name, in characters.
const NAME: usize = 100;

/// Names of one kind, such as targets.
type ScriptKind = (&'static str, Vec<String>);

/// One line for each kind of names in each manifest of a folder, and for each that can't be read.
pub(super) fn package_scripts(workspace: &Workspace, folder: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut makefile = false;
    for manifest in MANIFESTS {
        let is_makefile = manifest.eq_ignore_ascii_case("makefile") || *manifest == "GNUmakefile";
        if is_makefile && makefile {
            continue;
        }
        let kinds = match text(workspace, &format!("{folder}/{manifest}")) {
            Ok(None) => continue,
            Ok(Some(text)) => kinds(manifest, &text),
            Err(reason) => Err(reason),
        };
        makefile |= is_makefile;
        match kinds {
            Ok(kinds) => lines.extend(
                kinds
                    .into_iter()
                    .filter(|(_, names)| !names.is_empty())
                    .map(|(kind, names)| format!("{manifest}, {kind}: {}", joined(&names))),
            ),
            Err(reason) => lines.push(format!("{manifest} can't be read: {reason}")),
        }
    }
    lines
}

/// The text of a manifest: of its buffer where it is open; none where there is no such file.
fn text(workspace: &Workspace, path: &str) -> Result<Option<String>, String> {
    let file = workspace.resolve(path, Purpose::Read).map_err(|error| error.to_string())?;
    match workspace.read_access(&file) {
        ReadAccess::Free => {}
        ReadAccess::Ignored => return Ok(None),
        ReadAccess::Secret | ReadAccess::Outside => return Err("it points outside the workspace".to_owned()),
    }
    if let Some(document) = workspace.documents().at(file.absolute()) {
        return Ok(Some(document.text.to_string()));
    }
    match Contents::of_file(&file, SIZE) {
        Ok(Contents::Text(text)) => Ok(Some(text.text)),
        Ok(Contents::Binary { .. }) => Err("it is not text".to_owned()),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(exact_line(&error.to_string())),
    }
}

fn joined(names: &[String]) -> String {
    let mut shown: Vec<String> = names.iter().take(NAMES).map(|name| exact_line(&cut(name, NAME))).collect();
    if names.len() > NAMES {
        shown.push(format!("… {} more", names.len() - NAMES));
    }
    shown.join(", ")
}

fn kinds(manifest: &str, text: &str) -> Result<Vec<ScriptKind>, String> {
    match manifest {
        "package.json" => package_json(text),
        "Cargo.toml" => cargo(text),
        "pyproject.toml" => pyproject(text),
        _ => Ok(vec![("targets", targets(text))]),
    }
}

fn package_json(text: &str) -> Result<Vec<ScriptKind>, String> {
    let package: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let scripts = package.get("scripts").and_then(serde_json::Value::as_object);
    Ok(vec![("scripts", scripts.into_iter().flat_map(|scripts| scripts.keys().cloned()).collect())])
}

fn cargo(text: &str) -> Result<Vec<ScriptKind>, String> {
    let manifest = toml(text)?;
    let name = |of: &toml::Value| of.get("name").and_then(toml::Value::as_str).map(str::to_owned);
    let binaries = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    let members = manifest.get("workspace").and_then(|workspace| workspace.get("members"));
    let members = members.and_then(toml::Value::as_array).into_iter().flatten();
    Ok(vec![
        ("package", manifest.get("package").and_then(name).into_iter().collect()),
        ("workspace members", members.filter_map(|member| Some(member.as_str()?.to_owned())).collect()),
        ("binaries", binaries.filter_map(name).collect()),
    ])
}

fn pyproject(text: &str) -> Result<Vec<ScriptKind>, String> {
    let manifest = toml(text)?;
    let tables =
        [["project", "scripts"].as_slice(), &["project", "gui-scripts"], &["tool", "poetry", "scripts"]];
    let table = |path: &[&str]| {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(manifest.get(*first)?, |table, key| table.get(key))?.as_table()
    };
    let scripts = tables.into_iter().filter_map(table).flat_map(|table| table.keys().cloned());
    Ok(vec![("scripts", scripts.collect())])
}

fn toml(text: &str) -> Result<toml::Table, String> {
    text.parse::<toml::Table>().map_err(|error| exact_line(error.message()))
}

/// The targets of a Makefile that can be named on a command line: no patterns, no variables, nothing
/// that begins with a dot.
fn targets(text: &str) -> Vec<String> {
    let mut targets: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with(['\t', ' ', '#', '.'])) {
        let Some((names, rest)) = line.split_once(':') else { continue };
        let assigns = rest.trim_start_matches(':').starts_with('=') || names.contains(['=', '#']);
        if assigns || names.contains(['$', '%', '(']) {
            continue;
        }
        for name in names.split_whitespace() {
            if targets.len() <= 10 * NAMES && !targets.iter().any(|known| known == name) {
                targets.push(name.to_owned());
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(manifest: &str, text: &str) -> Vec<String> {
        let kinds = kinds(manifest, text).unwrap().into_iter();
        kinds
            .filter(|(_, names)| !names.is_empty())
            .map(|(kind, names)| format!("{kind}: {}", joined(&names)))
            .collect()
    }

    #[test]
    fn scripts_of_a_package() {
        assert_eq!(
            shown("package.json", r#"{"scripts": {"test": "x", "build\n\u202e": "y"}}"#),
            ["scripts: test, build<U+000A><U+202E>"]
        );
        assert_eq!(shown("package.json", "{}"), Vec::<String>::new());
        assert!(kinds("package.json", "{").unwrap_err().contains("EOF"));
    }

    #[test]
    fn members_and_binaries_of_a_crate() {
        let text = "\
# name = \"no\"
[package] # the root
name = 'tool'
description = \"\"\"
[[bin]]
name = \"in a string\"
\"\"\"

[workspace]
members = [
    \"crates/*\", # \"not this\"
    \"x]y\",
]
[[bin]]
name = \"one\"
[[ bin ]]
name = \"t\\\"wo\"
[dependencies]
name = \"no\"
";
        assert_eq!(
            shown("Cargo.toml", text),
            ["package: tool", "workspace members: crates/*, x]y", "binaries: one, t\"wo"]
        );
    }

    #[test]
    fn scripts_of_a_python_project() {
        let text = "[project]\nname = \"p\"\n[project.scripts]\nrun = \"p:main\"\n\"run-more\" = 'p:more'\n[tool.\"poetry\".scripts]\nx = \"y\"\n";
        assert_eq!(shown("pyproject.toml", text), ["scripts: run, run-more, x"]);
        assert!(kinds("pyproject.toml", "[project\n").is_err());
    }

    #[test]
    fn targets_that_can_be_named() {
        let text = ".PHONY: all\nCC := gcc\nA = b:c\nall test: build\n\techo x: y\nbuild::\n%.o: %.c\n$(X): y\n# a: b\ntest:\n";
        assert_eq!(shown("Makefile", text), ["targets: all, test, build"]);
    }

    #[test]
    fn long_lists_are_cut() {
        let text: String = (0..100).map(|n| format!("t{n}:\n")).collect();
        assert!(shown("Makefile", &text)[0].ends_with("t59, … 40 more"));
    }

    proptest! {
        #[test]
        fn no_manifest_is_too_strange(text in "([\\PC\n]|[\\[\\]\"'#=.:\\\\]|\"\"\"|name){0,60}") {
            for manifest in MANIFESTS {
                let _ = kinds(manifest, &text);
            }
        }
    }
}
