//! What the pages mention in code, such as `limits.depth` or `roo/task/start`, exists.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;
use serde_json::Value;

use super::examples::subcommand;
use super::markdown::Page;
use super::{all_pages, assert_none, page};
use crate::support::client::{Client, Home, Options};
use crate::support::project::Project;

/// The names that pages may mention.
struct Known {
    /// Methods of the protocol.
    methods: BTreeSet<String>,
    /// Commands of the server and of the editors' clients, and settings of VS Code.
    dotted: BTreeSet<String>,
    settings: Value,
}

impl Known {
    fn read() -> Self {
        let methods = roo_protocol::method::METHODS.iter().map(|method| method.name.to_owned()).collect();
        let mut dotted: BTreeSet<String> = server_commands().into_iter().collect();
        let manifest = crate::support::package().join("editors/vscode/package.json");
        let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
        let contributes = &manifest["contributes"];
        for command in contributes["commands"].as_array().unwrap() {
            dotted.insert(command["command"].as_str().unwrap().to_owned());
        }
        for group in contributes["configuration"].as_array().unwrap() {
            dotted.extend(group["properties"].as_object().unwrap().keys().cloned());
        }
        Self { methods, dotted, settings: roo_formats::config::settings_schema() }
    }

    /// Whether a path of keys is one of the settings. `*` and `<name>` stand for any key of a map.
    fn has_setting(&self, path: &str) -> bool {
        let mut at = &self.settings;
        for key in path.split('.') {
            let own = at["properties"].get(key);
            let Some(next) = own.or_else(|| at.get("additionalProperties")) else { return false };
            let resolved =
                next["$ref"].as_str().and_then(|to| self.settings.pointer(to.trim_start_matches('#')));
            at = resolved.unwrap_or(next);
        }
        true
    }

    /// Why code in the text is wrong; none when it is right, or nothing that can be known.
    fn problem(&self, code: &str) -> Option<String> {
        let is = |pattern: &str| Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(code));
        if code.starts_with("roo-lsp ") {
            return mentioned_command(code).err();
        }
        if is(r"^roo/[a-zA-Z]+(/[a-zA-Z]+)?$") {
            return (!self.methods.contains(code)).then(|| "there is no such method".to_owned());
        }
        if is(r"^roo\.[a-zA-Z][\w.]*$") {
            let known = self.dotted.contains(code)
                || self.dotted.iter().any(|name| name.starts_with(&format!("{code}.")));
            return (!known).then(|| "there is no such command or setting of VS Code".to_owned());
        }
        if is(r"^(autoApprove|limits|sandbox|profiles|modes|intents|systemContext)(\.[a-zA-Z*<>]+)+$") {
            return (!self.has_setting(code)).then(|| "there is no such setting".to_owned());
        }
        None
    }
}

/// The commands that the server offers to every client.
fn server_commands() -> Vec<String> {
    let home = Home::new();
    let client = Client::start(&home, Options::plain());
    let commands = client.server["capabilities"]["executeCommandProvider"]["commands"].clone();
    assert_eq!(client.shut_down(), 0);
    commands.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Looks whether the subcommand and the flags of a command in the text exist. It may leave out what is required, and
/// stand for several (`tasks list|show`).
fn mentioned_command(code: &str) -> Result<(), String> {
    let words: Vec<&str> = code.split_whitespace().skip(1).collect();
    let root = roo_lsp::cli::command();
    let (command, rest) = subcommand(&root, &words)?;
    let taken = |name: &str| {
        command
            .get_arguments()
            .chain(root.get_arguments().filter(|argument| argument.is_global_set()))
            .any(|argument| argument.get_long() == Some(name))
    };
    for word in rest {
        let flag = word.strip_prefix("--").map(|flag| flag.split('=').next().unwrap_or(flag));
        let flag = flag.filter(|flag| !matches!(*flag, "" | "help" | "version"));
        if flag.is_some_and(|flag| !taken(flag)) {
            return Err(format!("{} has no option {word}", command.get_name()));
        }
    }
    Ok(())
}

fn problems_of(page: &Page, known: &Known) -> Vec<String> {
    let wrong = page.code.iter().filter_map(|(line, code)| Some((line, code, known.problem(code)?)));
    wrong
        .map(|(line, code, problem)| format!("{}:{line}: `{code}`: {problem}", page.path.display()))
        .collect()
}

#[test]
fn names_in_the_text_exist() {
    let known = Known::read();
    let pages = all_pages();
    // A changelog also names what was.
    let pages = pages.iter().filter(|page| page.path != Path::new("CHANGELOG.md"));
    assert_none(&pages.flat_map(|page| problems_of(page, &known)).collect::<Vec<_>>());
}

#[test]
fn names_that_are_gone_are_found() {
    let known = Known::read();
    for right in [
        "limits.depth",
        "profiles.*.toolProtocol",
        "modes.<slug>.profile",
        "roo/task/start",
        "roo/*",
        "roo.newTask",
        "roo.server.path",
        "roo-lsp tasks show <id>.<number>",
        "roo-lsp trust --approve .roomodes",
        "roo-lsp run --workspace DIRECTORY",
    ] {
        assert_eq!(known.problem(right), None, "{right}");
    }
    for wrong in [
        "limits.depht",
        "profiles.*.toolsProtocol",
        "modes.<slug>.color",
        "roo/task/begin",
        "roo.newTasks",
        "roo.server.paths",
        "roo-lsp task show",
        "roo-lsp tasks draw",
        "roo-lsp trust --accept .roomodes",
    ] {
        assert!(known.problem(wrong).is_some(), "{wrong}");
    }
}

#[test]
fn client_authors_find_every_method_and_command() {
    let clients = page(&crate::support::package().join("docs/src/clients.md"));
    let has = |name: &str| clients.code.iter().any(|(_, code)| code == name);
    let methods = roo_protocol::method::METHODS.iter().map(|method| method.name.to_owned());
    let missing: Vec<String> = methods.chain(server_commands()).filter(|name| !has(name)).collect();
    assert_none(&missing);
}

#[test]
fn lists_in_the_pages_are_complete() {
    let root = crate::support::package();
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let presets: toml::Table = read("crates/roo-sandbox/src/egress/presets.toml").parse().unwrap();
    let hosts = presets["preset"].as_array().unwrap().iter().map(|preset| preset["name"].as_str().unwrap());
    let commands = Project::new(&[]).succeed(&["policy", "presets"]);
    let commands =
        commands.lines().map(|line| line.trim_start_matches(['*', ' ']).split(' ').next().unwrap());
    let modes = Project::new(&[]).succeed(&["modes"]);
    let modes =
        modes.lines().filter(|line| line.contains("built-in")).map(|line| line.split(' ').next().unwrap());
    let enforced = roo_formats::intents::Enforced::ALL.map(|one| one.as_str());
    let wanted: [(&str, Vec<&str>); 4] = [
        ("docs/src/network.md", hosts.collect()),
        ("docs/src/command-rules.md", commands.collect()),
        ("docs/src/modes.md", modes.collect()),
        ("docs/src/intents.md", enforced.to_vec()),
    ];
    let mut missing = Vec::new();
    for (path, names) in wanted {
        assert!(names.len() > 2, "{path}: {names:?}");
        let text = read(path);
        let words: BTreeSet<&str> =
            text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_'))).collect();
        missing
            .extend(names.iter().filter(|name| !words.contains(*name)).map(|name| format!("{path}: {name}")));
    }
    assert_none(&missing);
}
