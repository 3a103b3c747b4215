//! `roo-lsp helix-config`: what Helix needs to know of the server. Helix knows no wildcard, and a list of
//! servers takes the place of its own: so every language is written out, with the servers that it has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde::Deserialize;

use super::arguments::HelixConfig;
use super::terminal;
use super::{CliError, Ending};

/// Key macros, for Helix's `config.toml`.
const KEYS: &str = include_str!("../../editors/helix/config.toml");

/// The languages of task documents and of the diffs of approvals, which are always written.
const DOCUMENTS: &[&str] = &["diff", "markdown"];
/// The name of the server in Helix's configuration.
const SERVER: &str = "roo-lsp";

/// The servers that Helix 25.01 and 25.07 start for the usual languages.
const DEFAULTS: &[(&str, &[&str])] = &[
    ("awk", &["awk-language-server"]),
    ("bash", &["bash-language-server"]),
    ("c", &["clangd"]),
    ("c-sharp", &["omnisharp"]),
    ("clojure", &["clojure-lsp"]),
    ("cmake", &["cmake-language-server"]),
    ("cpp", &["clangd"]),
    ("css", &["vscode-css-language-server"]),
    ("dart", &["dart"]),
    ("diff", &[]),
    ("dockerfile", &["docker-langserver"]),
    ("elixir", &["elixir-ls"]),
    ("elm", &["elm-language-server"]),
    ("erlang", &["erlang-ls", "elp"]),
    ("fish", &[]),
    ("fsharp", &["fsharp-ls"]),
    ("gleam", &["gleam"]),
    ("go", &["gopls", "golangci-lint-lsp"]),
    ("graphql", &["graphql-language-service"]),
    ("haskell", &["haskell-language-server"]),
    ("hcl", &["terraform-ls"]),
    ("html", &["vscode-html-language-server", "superhtml"]),
    ("java", &["jdtls"]),
    ("javascript", &["typescript-language-server"]),
    ("json", &["vscode-json-language-server"]),
    ("jsonc", &["vscode-json-language-server"]),
    ("jsx", &["typescript-language-server"]),
    ("julia", &["julia"]),
    ("kotlin", &["kotlin-language-server"]),
    ("latex", &["texlab"]),
    ("lua", &["lua-language-server"]),
    ("make", &[]),
    ("markdown", &["marksman", "markdown-oxide"]),
    ("nix", &["nil", "nixd"]),
    ("ocaml", &["ocamllsp"]),
    ("odin", &["ols"]),
    ("perl", &["perlnavigator"]),
    ("php", &["intelephense"]),
    ("prisma", &["prisma-language-server"]),
    ("protobuf", &["bufls", "pbkit"]),
    ("python", &["ruff", "jedi", "pylsp"]),
    ("r", &["r"]),
    ("ruby", &["solargraph"]),
    ("rust", &["rust-analyzer"]),
    ("scala", &["metals"]),
    ("scss", &["vscode-css-language-server"]),
    ("sql", &[]),
    ("svelte", &["svelteserver"]),
    ("swift", &["sourcekit-lsp"]),
    ("toml", &["taplo"]),
    ("tsx", &["typescript-language-server"]),
    ("typescript", &["typescript-language-server"]),
    ("typst", &["tinymist", "typst-lsp"]),
    ("vue", &["vuels"]),
    ("xml", &[]),
    ("yaml", &["yaml-language-server", "ansible-language-server"]),
    ("zig", &["zls"]),
];

pub(super) fn helix_config(arguments: &HelixConfig) -> Result<Ending, CliError> {
    let text = if arguments.keys {
        KEYS.to_owned()
    } else {
        let (own, problem) = own_languages();
        if let Some(problem) = problem {
            writeln!(terminal::stderr(), "roo-lsp: {problem}; Helix's default servers are used instead")?;
        }
        if own.has_server {
            writeln!(terminal::stderr(), "roo-lsp: what your languages.toml has already is left out")?;
        }
        languages(&arguments.languages, &own).map_err(CliError::Usage)?
    };
    terminal::stdout().write_all(text.as_bytes())?;
    Ok(Ending::Done)
}

/// What the user's own `languages.toml` says.
#[derive(Default)]
struct OwnLanguages {
    /// The servers that the user has chosen, by language, each as it is written in TOML.
    servers: BTreeMap<String, Vec<String>>,
    /// Whether it says how our server is started. TOML refuses to be told twice.
    has_server: bool,
    /// The languages that have our server.
    served: BTreeSet<String>,
}

/// Reads the user's own `languages.toml`; what is wrong with it, if it can't be read.
fn own_languages() -> (OwnLanguages, Option<String>) {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    let Some(path) = config.map(|config| config.join("helix/languages.toml")) else {
        return (OwnLanguages::default(), None);
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => match read(&text) {
            Ok(own) => (own, None),
            Err(error) => {
                let problem = format!("{} is not valid TOML: {}", path.display(), error.message());
                (OwnLanguages::default(), Some(problem))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => (OwnLanguages::default(), None),
        Err(error) => (OwnLanguages::default(), Some(format!("{} can't be read: {error}", path.display()))),
    }
}

fn read(text: &str) -> Result<OwnLanguages, toml::de::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "kebab-case", default)]
    struct HelixLanguages {
        language: Vec<Language>,
        language_server: toml::Table,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "kebab-case", default)]
    struct Language {
        name: String,
        language_servers: Option<Vec<toml::Value>>,
    }
    let file: HelixLanguages = toml::from_str(text)?;
    let mut own =
        OwnLanguages { has_server: file.language_server.contains_key(SERVER), ..OwnLanguages::default() };
    for Language { name, language_servers } in file.language {
        let Some(servers) = language_servers else { continue };
        if servers.iter().any(is_own) {
            own.served.insert(name.clone());
        }
        own.servers.insert(name, servers.iter().filter(|server| !is_own(server)).map(written).collect());
    }
    Ok(own)
}

fn is_own(server: &toml::Value) -> bool {
    server.as_str().or_else(|| server.get("name")?.as_str()) == Some(SERVER)
}

/// A value as TOML has it on one line.
fn written(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => quoted(text),
        toml::Value::Array(values) => {
            format!("[{}]", values.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        toml::Value::Table(table) => {
            let pairs = table.iter().map(|(key, value)| format!("{key} = {}", written(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(value) => value.to_string(),
        toml::Value::Datetime(time) => time.to_string(),
    }
}

fn quoted(text: &str) -> String {
    // TOML reads the escapes of JSON.
    serde_json::Value::from(text).to_string()
}

/// The blocks for these languages, or for all that are known.
/// What the user's file has already is left out, so that they can be added to it.
fn languages(wanted: &[String], own: &OwnLanguages) -> Result<String, String> {
    let mut names: Vec<&str> = match wanted {
        [] => DEFAULTS.iter().map(|(name, _)| *name).chain(own.servers.keys().map(String::as_str)).collect(),
        wanted => wanted.iter().map(String::as_str).chain(DOCUMENTS.iter().copied()).collect(),
    };
    names.sort_unstable();
    names.dedup();
    let mut text = if own.has_server {
        String::new()
    } else {
        format!(
            "# What `roo-lsp helix-config` prints belongs in languages.toml beside Helix's config.toml.\n\n\
             [language-server.{SERVER}]\ncommand = \"{SERVER}\"\nargs = [\"serve\"]\n"
        )
    };
    for name in names.into_iter().filter(|name| !own.served.contains(*name)) {
        let defaults = DEFAULTS.iter().find(|(known, _)| *known == name);
        let servers = match (own.servers.get(name), defaults) {
            (Some(own), _) => own.clone(),
            (None, Some((_, servers))) => servers.iter().map(|server| quoted(server)).collect(),
            (None, None) => {
                let known: Vec<&str> = DEFAULTS.iter().map(|(known, _)| *known).collect();
                return Err(format!(
                    "Helix's default servers for '{name}' are not known. Give it `language-servers` in your own \
                     languages.toml first, and they are kept. Known are: {}",
                    known.join(", ")
                ));
            }
        };
        // Behind the others: where Helix asks one server alone, it asks the first.
        let servers: Vec<String> = servers.into_iter().chain([quoted(SERVER)]).collect();
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "\n[[language]]\nname = {}\nlanguage-servers = [{}]\n",
            quoted(name),
            servers.join(", ")
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_language_keeps_its_servers() {
        let text = languages(&names(&["python", "sql"]), &OwnLanguages::default()).unwrap();
        insta::assert_snapshot!(text, @r#"
        # What `roo-lsp helix-config` prints belongs in languages.toml beside Helix's config.toml.

        [language-server.roo-lsp]
        command = "roo-lsp"
        args = ["serve"]

        [[language]]
        name = "diff"
        language-servers = ["roo-lsp"]

        [[language]]
        name = "markdown"
        language-servers = ["marksman", "markdown-oxide", "roo-lsp"]

        [[language]]
        name = "python"
        language-servers = ["ruff", "jedi", "pylsp", "roo-lsp"]

        [[language]]
        name = "sql"
        language-servers = ["roo-lsp"]
        "#);
    }

    #[test]
    fn what_the_user_has_chosen_stays() {
        let own = read(
            r#"
            [[language]]
            name = "python"
            language-servers = [{ name = "pylsp", except-features = ["format"] }, "ty"]
            [[language]]
            name = "mine"
            language-servers = ["mine"]
            [[language]]
            name = "rust"
            auto-format = true
            "#,
        )
        .unwrap();
        let text = languages(&names(&["python", "mine", "rust"]), &own).unwrap();
        let lists: Vec<&str> = text.lines().filter(|line| line.starts_with("language-servers")).collect();
        assert_eq!(
            lists,
            [
                r#"language-servers = ["roo-lsp"]"#,
                r#"language-servers = ["marksman", "markdown-oxide", "roo-lsp"]"#,
                r#"language-servers = ["mine", "roo-lsp"]"#,
                r#"language-servers = [{ except-features = ["format"], name = "pylsp" }, "ty", "roo-lsp"]"#,
                r#"language-servers = ["rust-analyzer", "roo-lsp"]"#,
            ]
        );
        // What is printed is read again as it was meant.
        assert_eq!(read(&text).unwrap().servers["python"], own.servers["python"]);
    }

    #[test]
    fn languages_are_added_to_those_that_are_there() {
        let first = languages(&names(&["rust"]), &OwnLanguages::default()).unwrap();
        let more = languages(&names(&["rust", "python"]), &read(&first).unwrap()).unwrap();
        insta::assert_snapshot!(more, @r#"

        [[language]]
        name = "python"
        language-servers = ["ruff", "jedi", "pylsp", "roo-lsp"]
        "#);
        let both = read(&format!("{first}{more}")).unwrap();
        assert_eq!(both.served.iter().collect::<Vec<_>>(), ["diff", "markdown", "python", "rust"]);
        assert_eq!(languages(&names(&["python"]), &both).unwrap(), "");
    }

    #[test]
    fn a_language_of_which_nothing_is_known_would_lose_its_servers() {
        let error = languages(&names(&["klingon"]), &OwnLanguages::default()).unwrap_err();
        assert!(error.starts_with("Helix's default servers for 'klingon' are not known."), "{error}");
    }

    #[test]
    fn the_files_of_the_package_are_what_is_printed() {
        let all = languages(&[], &OwnLanguages::default()).unwrap();
        let file = include_str!("../../editors/helix/languages.toml");
        assert!(file == all, "run: roo-lsp helix-config > editors/helix/languages.toml");
        assert!(toml::from_str::<toml::Value>(KEYS).unwrap()["keys"]["normal"]["space"]["o"].is_table());
    }
}
