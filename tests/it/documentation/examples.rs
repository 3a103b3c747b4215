//! Every example is checked by what would read it: settings, modes, intents and hooks by their readers, messages by the
//! protocol's schema, command lines by the program's own definition of them.
//!
//! | block | how it is checked |
//! |---|---|
//! | `yaml settings`, `json settings` | as `config.yaml` |
//! | `yaml modes`, `yaml intents`, `json hooks` | as such a file |
//! | `yaml cassette` | as a cassette |
//! | `markdown command`, `markdown skill` | their front matter |
//! | `toml languages` | as Helix's `languages.toml` that names only servers that are there |
//! | `json roo/<method>` | as the parameters of that method; `json event` as those of `roo/event` |
//! | `json initialize` | as `initializationOptions` |
//! | `sh` | options and subcommands of `roo-lsp`, and the files, scripts and benches of the repository, exist |
//! | `sh run` | that, and it succeeds in an empty project |
//! | `text demo` | each line is printed by `roo-lsp demo`, in this order; `…` stands for anything |
//! | anything `unchecked: <reason>` | not at all |

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;
use roo_formats::front_matter::{CommandKeys, FrontMatter, Keys, SkillKeys};
use serde_json::{Value, json};

use super::markdown::Block;
use super::{all_pages, assert_none};
use crate::support::project::Project;

/// Programs of others that examples may call. What they are given is not checked.
const OTHERS: [&str; 7] = ["cat", "code", "cp", "export", "git", "man", "mkdir"];

/// Checks an example.
fn check(block: &Block) -> Result<(), String> {
    if let Some(reason) = block.check.strip_prefix("unchecked:") {
        return if reason.trim().is_empty() {
            Err("no reason why it is not checked".to_owned())
        } else {
            Ok(())
        };
    }
    let text = block.text.as_str();
    match (block.language.as_str(), block.check.as_str()) {
        ("yaml" | "json", "settings") => settings(text),
        ("yaml", "modes") => {
            let file = roo_formats::modes::ParsedModes::parse(text, roo_formats::modes::Source::Global);
            let problems = file.map_err(|problem| problem.to_string())?.problems;
            first(problems.iter().map(ToString::to_string))
        }
        ("yaml", "intents") => {
            let file =
                roo_formats::intents::IntentFile::parse(text).map_err(|problem| problem.to_string())?;
            first(
                file.problems
                    .iter()
                    .map(ToString::to_string)
                    .chain(file.invalid.into_iter().map(|one| one.why)),
            )
        }
        ("yaml", "cassette") => serde_yaml::from_str::<roo_engine::engine::cassette::Cassette>(text)
            .map(|_| ())
            .map_err(|error| error.to_string()),
        ("json", "hooks") => {
            use roo_engine::hooks::{Form, HookFile, Source};
            let file =
                HookFile::parse(text, Form::Hooks, Source::User).map_err(|problem| problem.to_string())?;
            first(file.problems.iter().map(ToString::to_string))
        }
        ("json", "initialize") => initialization_options(text),
        ("json", "event") => message("roo/event", text),
        ("json", method) if method.starts_with("roo/") => message(method, text),
        ("markdown", "command") => front_matter::<CommandKeys>(text),
        ("markdown", "skill") => front_matter::<SkillKeys>(text),
        ("toml", "languages") => languages(text),
        ("sh", "") => command_lines(text),
        ("sh", "run") => command_lines(text).and_then(|()| run(text)),
        ("text", "demo") => in_order(&DEMO, text),
        (language, check) => Err(format!("nothing checks a block of `{language}` marked `{check}`")),
    }
}

fn first(mut problems: impl Iterator<Item = String>) -> Result<(), String> {
    problems.next().map_or(Ok(()), Err)
}

fn settings(text: &str) -> Result<(), String> {
    let layer = roo_formats::config::Layer::from_yaml(Path::new("config.yaml"), text);
    let layer = layer.map_err(|problem| problem.to_string())?;
    let loaded = roo_formats::config::load(layer).map_err(|problem| problem.to_string())?;
    first(loaded.warnings.iter().map(ToString::to_string))
}

fn initialization_options(text: &str) -> Result<(), String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let layer = roo_formats::config::Layer::from_initialization_options(&value["initializationOptions"]);
    let layer = layer.map_err(|problem| problem.to_string())?.ok_or("no initializationOptions of ours")?;
    let loaded = roo_formats::config::load([layer]).map_err(|problem| problem.to_string())?;
    first(loaded.warnings.iter().map(ToString::to_string))
}

fn message(method: &str, text: &str) -> Result<(), String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let protocol = roo_protocol::method::protocol_schema();
    let params =
        protocol["methods"].get(method).ok_or(format!("there is no method {method}"))?["params"].clone();
    // The types accept fields that they don't know, for newer peers; an example has none.
    let mut schema = json!({ "allOf": [params], "$defs": protocol["$defs"] });
    if let Some(name) = schema["allOf"][0]["$ref"].as_str().map(str::to_owned) {
        let definition = schema.pointer_mut(name.trim_start_matches('#')).unwrap();
        if definition["properties"].is_object() {
            definition["additionalProperties"] = false.into();
        }
    }
    let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string())?;
    validator.validate(&value).map_err(|error| error.to_string())
}

fn front_matter<T: Keys>(text: &str) -> Result<(), String> {
    let (front, body) = FrontMatter::<T>::split(text).map_err(|fault| fault.to_string())?;
    first(front.problems.iter().map(ToString::to_string))?;
    let declared = T::declaration().root().keys();
    let yaml =
        text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).map_or("", |(yaml, _)| yaml);
    let value: serde_yaml::Value = serde_yaml::from_str(yaml).map_err(|error| error.to_string())?;
    for (key, _) in value.as_mapping().ok_or("no front matter")? {
        let key = key.as_str().unwrap_or_default();
        if !declared.iter().any(|declared| declared.name == key && declared.is_suggested) {
            return Err(format!("`{key}` is no key of this front matter"));
        }
    }
    if body.trim().is_empty() { Err("no text behind the front matter".to_owned()) } else { Ok(()) }
}

fn languages(text: &str) -> Result<(), String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    if let Some(key) = table.keys().find(|key| !matches!(key.as_str(), "language" | "language-server")) {
        return Err(format!("`{key}` is no part of languages.toml"));
    }
    let languages = table.get("language").and_then(toml::Value::as_array).ok_or("no [[language]]")?;
    let servers = languages.iter().filter_map(|language| language.get("language-servers")?.as_array());
    let unknown = servers.flatten().find(|server| server.as_str() != Some("roo-lsp"));
    unknown.map_or(Ok(()), |server| Err(format!("{server:?} is not this server")))
}

/// The subcommand that words name, and the words behind it.
pub fn subcommand<'a, 'w>(
    root: &'a clap::Command,
    words: &'w [&'w str],
) -> Result<(&'a clap::Command, &'w [&'w str]), String> {
    let mut command = root;
    let mut rest = words;
    while let [word, behind @ ..] = rest {
        if word.starts_with(['-', '<']) || !command.has_subcommands() {
            break;
        }
        command = command
            .find_subcommand(word)
            .ok_or_else(|| format!("{} has no subcommand {word}", command.get_name()))?;
        rest = behind;
    }
    Ok((command, rest))
}

/// Checks every command of a script.
fn command_lines(text: &str) -> Result<(), String> {
    let script = roo_shell::read(text);
    if script.is_incomplete() || script.commands.is_empty() {
        return Err(format!("no shell script: {:?}", script.problems));
    }
    let mut directory = PathBuf::new();
    for command in &script.commands {
        let words: Vec<&str> = command.words.iter().map(|word| word.visible.as_str()).collect();
        let Some((program, arguments)) = words.split_first() else { continue };
        match *program {
            "roo-lsp" => ours(arguments)?,
            "cargo" => cargo(arguments)?,
            "cd" => directory.push(arguments.first().ok_or("cd to nowhere")?),
            "npm" => npm(&directory, arguments)?,
            path if path.contains('/') => in_repository(&directory.join(path))?,
            other if OTHERS.contains(&other) => {}
            other => return Err(format!("nothing is known of `{other}`")),
        }
    }
    Ok(())
}

fn ours(arguments: &[&str]) -> Result<(), String> {
    let words = std::iter::once("roo-lsp").chain(arguments.iter().copied());
    match roo_lsp::cli::command().try_get_matches_from(words) {
        Ok(_) => Ok(()),
        Err(error) if !error.use_stderr() => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn cargo(arguments: &[&str]) -> Result<(), String> {
    let (own, behind) = match arguments.iter().position(|word| *word == "--") {
        Some(at) => (&arguments[..at], Some(&arguments[at + 1..])),
        None => (arguments, None),
    };
    let Some(name) = own.first() else { return Err("cargo without a subcommand".to_owned()) };
    if !["bench", "build", "clippy", "deny", "doc", "fmt", "install", "nextest", "run", "test"].contains(name)
    {
        return Err(format!("nothing is known of `cargo {name}`"));
    }
    let package = own.windows(2).find_map(|pair| match pair {
        ["-p", name] => Some(Path::new("crates").join(name)),
        _ => None,
    });
    let package = package.unwrap_or_default();
    for pair in own.windows(2) {
        match pair {
            ["--bench", name] => in_repository(&package.join(format!("benches/{name}.rs")))?,
            ["--test", name] => in_repository(&package.join(format!("tests/{name}/main.rs")))?,
            _ => {}
        }
    }
    match (name, behind) {
        (&"run", Some(ours_)) => ours(ours_),
        _ => Ok(()),
    }
}

fn npm(directory: &Path, arguments: &[&str]) -> Result<(), String> {
    let ["run", script, ..] = arguments else { return Ok(()) };
    let manifest = crate::support::package().join(directory).join("package.json");
    let manifest =
        std::fs::read(manifest).map_err(|error| format!("npm in {}: {error}", directory.display()))?;
    let manifest: Value = serde_json::from_slice(&manifest).map_err(|error| error.to_string())?;
    match manifest["scripts"].get(script) {
        Some(_) => Ok(()),
        None => Err(format!("there is no npm script `{script}` in {}", directory.display())),
    }
}

fn in_repository(path: &Path) -> Result<(), String> {
    let is_there = crate::support::package().join(path).is_file();
    if is_there { Ok(()) } else { Err(format!("{} is not there", path.display())) }
}

/// Runs a script in an empty project, with the program in the search path.
fn run(text: &str) -> Result<(), String> {
    let project =
        Project::new(&[("src/main.rs", "fn main() {}\n"), ("Cargo.toml", "[package]\nname = \"x\"\n")]);
    // As for a user who has a model.
    project.configure(&format!(
        "profiles: {{ default: {{ provider: scripted, script: {} }} }}\n",
        project.beside("script.yaml").display()
    ));
    std::fs::write(project.beside("script.yaml"), "turns: []\n").map_err(|error| error.to_string())?;
    let program = Path::new(env!("CARGO_BIN_EXE_roo-lsp")).parent().unwrap();
    let search = std::env::join_paths(
        std::iter::once(program.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", text])
        .env_clear()
        .env("PATH", search.unwrap())
        .env("HOME", project.beside("home"))
        .env("XDG_CONFIG_HOME", project.beside("config"))
        .env("XDG_STATE_HOME", project.beside("state"))
        .current_dir(project.folder())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(format!("{}", String::from_utf8_lossy(&output.stderr))) }
}

/// What the demo prints.
static DEMO: LazyLock<String> = LazyLock::new(|| {
    let output = Project::new(&[]).run(&["demo"]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
});

/// Whether the lines of an excerpt stand in a text in the same order.
fn in_order(text: &str, excerpt: &str) -> Result<(), String> {
    let mut lines = text.lines().map(str::trim);
    for wanted in excerpt.lines().map(str::trim).filter(|line| !matches!(*line, "" | "…")) {
        if !lines.any(|line| line == wanted) {
            return Err(format!("not printed, or not in this order: {wanted}"));
        }
    }
    Ok(())
}

#[test]
fn every_example_is_valid() {
    let mut problems = Vec::new();
    for block in all_pages().iter().flat_map(|page| &page.blocks) {
        if let Err(problem) = check(block) {
            problems.push(format!("{}: {problem}", block.place));
        }
    }
    assert_none(&problems);
}

fn example(info: &str, text: &str) -> Block {
    let (language, check) = info.split_once(' ').unwrap_or((info, ""));
    Block {
        place: String::new(),
        language: language.to_owned(),
        check: check.to_owned(),
        text: text.to_owned(),
    }
}

#[test]
fn stale_examples_are_found() {
    for (info, right, wrong) in [
        ("yaml settings", "limits: { depth: 3 }", "limits: { depht: 3 }"),
        ("yaml settings", "sandbox: { level: staged }", "sandbox: { level: level3 }"),
        ("json settings", r#"{ "mode": "code" }"#, r#"{ "moode": "code" }"#),
        (
            "yaml modes",
            "customModes:\n  - { slug: a, name: A, roleDefinition: R, groups: [read] }",
            "customModes:\n  - { slug: a, name: A, roleDefinition: R, groups: [reed] }",
        ),
        (
            "yaml intents",
            "active_intents: [{ id: I-1, name: N, status: PENDING, owned_scope: [a] }]",
            "active_intents: [{ id: I-1, name: N, status: PENDING, owned_scopes: [a] }]",
        ),
        (
            "json hooks",
            r#"{ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "x" }] }] } }"#,
            r#"{ "hooks": { "Stopp": [{ "hooks": [{ "type": "command", "command": "x" }] }] } }"#,
        ),
        (
            "json initialize",
            r#"{ "initializationOptions": { "roo": { "protocolVersion": 1 } } }"#,
            r#"{ "initializationOptions": { "roo": { "protocolVersions": 1 } } }"#,
        ),
        ("json roo/task/attach", r#"{ "taskId": "*" }"#, r#"{ "taskId": "*", "after": 3 }"#),
        ("json roo/task/attach", r#"{ "taskId": "*" }"#, "{}"),
        ("markdown command", "---\nmode: code\n---\nDo it.\n", "---\nmodes: code\n---\nDo it.\n"),
        ("toml languages", "[[language]]\nname = \"x\"\n", "[[lang]]\nname = \"x\"\n"),
        ("sh", "git diff | roo-lsp run - --mode ask", "git diff | roo-lsp run - --modus ask"),
        ("sh", "roo-lsp tasks tree X # now", "roo-lsp tasks draw X"),
        ("sh", "cargo run --release -- demo", "cargo run --release -- demos"),
        ("sh", "cargo bench --bench parser", "cargo bench --bench parsers"),
        ("sh", "./scripts/test", "./scripts/tests"),
        ("sh", "cd editors/vscode && npm run package -- --server x", "cd editors/vscode && npm run pack"),
        ("sh", "cat a", "rm a"),
        ("sh run", "roo-lsp policy presets cargo", "roo-lsp policy presets cargoo"),
        ("lua unchecked: needs Neovim", "x", ""),
    ] {
        assert_eq!(check(&example(info, right)), Ok(()), "{info}: {right}");
        if !wrong.is_empty() {
            assert!(check(&example(info, wrong)).is_err(), "{info}: {wrong}");
        }
    }
    assert!(check(&example("lua", "x")).is_err() && check(&example("lua unchecked:", "x")).is_err());
    assert!(check(&example("", "x")).is_err());
    assert!(in_order("a\nb\nc\n", "a\n…\nc").is_ok() && in_order("a\nb\nc\n", "c\na").is_err());
}

/// An example with one word changed, so that nothing reads it any more; none where that can't be done by rule.
fn broken(block: &Block, first_key: &Regex) -> Option<Block> {
    let text = match (block.language.as_str(), block.check.as_str()) {
        (_, check) if check.starts_with("unchecked") => return None,
        ("yaml" | "json", _) => {
            let end = first_key.captures(&block.text)?.get(1)?.end();
            [&block.text[..end], "Gone", &block.text[end..]].concat()
        }
        ("sh", _) if block.text.contains("roo-lsp ") => block.text.replacen("roo-lsp ", "roo-lsp --gone ", 1),
        _ => return None,
    };
    Some(Block { text, ..block.clone() })
}

#[test]
fn no_example_of_the_pages_passes_when_it_is_broken() {
    let first_key = Regex::new(r#"(?m)^[\s{-]*"?([a-zA-Z_]+)"?\s*:"#).unwrap();
    let pages = all_pages();
    let blocks = pages.iter().flat_map(|page| &page.blocks);
    let broken: Vec<Block> = blocks.filter_map(|block| broken(block, &first_key)).collect();
    assert!(broken.len() >= 30, "only {} examples are tried", broken.len());
    let passed = broken.iter().filter(|block| check(block).is_ok());
    assert_none(&passed.map(|block| format!("{}: {}", block.place, block.text)).collect::<Vec<_>>());
}
