//! What the project depends on: licences and sources as `deny.toml` says, and no crate that needs a newer Rust than
//! `rust-version` promises; none that its crate does not use. Advisories need a network and are for cargo-deny.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use ignore::WalkBuilder;
use regex::Regex;
use serde_json::Value;

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").expect("tests are run by cargo");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        // What other systems need is not downloaded here.
        .args(["--filter-platform", &host()])
        .current_dir(crate::support::package())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The target that the tests are built for, by its name in Rust.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

fn rules() -> toml::Table {
    fs::read_to_string(crate::support::package().join("deny.toml")).unwrap().parse().unwrap()
}

fn texts(value: &toml::Value) -> BTreeSet<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Whether a licence expression can be met by these licences.
fn is_met(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    // The old form of `OR`.
    let expression = expression.replace('/', " OR ");
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "_WITH_");
    let words: Vec<String> = spaced.split_whitespace().map(|word| word.replace("_WITH_", " WITH ")).collect();
    let mut rest: &[String] = &words;
    either(&mut rest, allowed) && rest.is_empty()
}

fn either(words: &mut &[String], allowed: &BTreeSet<&str>) -> bool {
    let mut met = all(words, allowed);
    while words.first().is_some_and(|word| word == "OR") {
        *words = &words[1..];
        met |= all(words, allowed);
    }
    met
}

fn all(words: &mut &[String], allowed: &BTreeSet<&str>) -> bool {
    let mut met = one(words, allowed);
    while words.first().is_some_and(|word| word == "AND") {
        *words = &words[1..];
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut &[String], allowed: &BTreeSet<&str>) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    *words = rest;
    if first != "(" {
        return allowed.contains(first.as_str());
    }
    let met = either(words, allowed);
    match words.split_first() {
        Some((close, rest)) if close == ")" => {
            *words = rest;
            met
        }
        _ => false,
    }
}

#[test]
fn licences_are_read() {
    let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]);
    for met in ["MIT", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND ISC", "GPL-3.0 OR Apache-2.0 WITH LLVM-exception"]
    {
        assert!(is_met(met, &allowed), "{met}");
    }
    for unmet in ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(GPL-3.0 AND MIT) OR BSD-3-Clause", "", "(MIT"]
    {
        assert!(!is_met(unmet, &allowed), "{unmet}");
    }
}

#[test]
fn dependencies_are_what_deny_toml_allows() {
    let (metadata, rules) = (metadata(), rules());
    let licences = texts(&rules["licenses"]["allow"]);
    let denied: Vec<&str> =
        rules["bans"]["deny"].as_array().unwrap().iter().map(|ban| ban["name"].as_str().unwrap()).collect();
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or_default();
        used.extend(licences.iter().filter(|allowed| licence.contains(**allowed)).copied());
        if !is_met(licence, &licences) {
            problems.push(format!("{name}: the licence `{licence}`"));
        }
        if denied.contains(&name) {
            problems.push(format!("{name} is denied"));
        }
        let source = package["source"].as_str();
        let known = |source: &str| {
            source
                .strip_prefix("registry+")
                .is_some_and(|registry| texts(&rules["sources"]["allow-registry"]).contains(registry))
        };
        if source.is_some_and(|source| !known(source)) {
            problems.push(format!("{name}: the source {}", source.unwrap_or_default()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(used, licences, "deny.toml allows a licence that nothing has");
}

/// The text of all source files of a crate.
fn source_text(package: &Path) -> String {
    let parts = ["src", "tests", "benches"].map(|part| package.join(part));
    let files = parts.iter().flat_map(|part| WalkBuilder::new(part).build()).filter_map(Result::ok);
    let files = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "rs"));
    files.map(|file| fs::read_to_string(file.path()).unwrap()).collect()
}

#[test]
fn each_dependency_is_used_by_the_crate_that_names_it() {
    let metadata = metadata();
    let mut unused = Vec::new();
    for package in
        metadata["packages"].as_array().unwrap().iter().filter(|package| package["source"].is_null())
    {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let text = source_text(manifest.parent().unwrap());
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["rename"].as_str().or(dependency["name"].as_str()).unwrap();
            let word = Regex::new(&format!(r"\b{}\b", name.replace('-', "_"))).unwrap();
            if !word.is_match(&text) {
                unused.push(format!("{name} of {}", package["name"].as_str().unwrap()));
            }
        }
    }
    assert!(unused.is_empty(), "not used: {}", unused.join(", "));
}

#[test]
fn no_dependency_needs_a_newer_rust_than_is_promised() {
    let version = |package: &Value| -> Option<(u32, u32)> {
        let mut parts = package["rust_version"].as_str()?.split('.').map(|part| part.parse().unwrap());
        Some((parts.next()?, parts.next()?))
    };
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let promised = packages.iter().find(|package| package["name"] == "roo-lsp").and_then(version).unwrap();
    let newer: Vec<&str> = packages
        .iter()
        .filter(|package| version(package).is_some_and(|needed| needed > promised))
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    assert!(newer.is_empty(), "newer than {promised:?}: {newer:?}");
    // What the pages tell a user to install.
    let told = format!("{}.{}", promised.0, promised.1);
    for page in ["README.md", "CONTRIBUTING.md", "docs/src/installation.md"] {
        let text = fs::read_to_string(crate::support::package().join(page)).unwrap();
        assert!(
            text.contains(&format!("{told} or newer")),
            "{page} names another version of Rust than {told}"
        );
    }
}
