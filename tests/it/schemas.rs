//! The schemas in `schemas/` are those of the types. `UPDATE_SCHEMAS=1 cargo test` rewrites them.

use std::collections::BTreeSet;

use serde_json::Value;

fn check(name: &str, schema: &Value) {
    let path = crate::support::package().join("schemas").join(name);
    let wanted = format!("{schema:#}\n");
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "schemas/{name} does not match the types; run UPDATE_SCHEMAS=1 cargo test --test it schemas"
    );
    jsonschema::meta::validate(schema).unwrap();
}

#[test]
fn the_protocol_has_its_schema() {
    check("roo-protocol.json", &roo_protocol::method::protocol_schema());
}

#[test]
fn the_settings_have_their_schema() {
    check("settings.json", &roo_formats::config::settings_schema());
}

#[test]
fn mode_files_have_their_schema() {
    check("modes.json", &roo_formats::modes::schema());
}

#[test]
fn the_file_of_intents_has_its_schema() {
    check("intents.json", &roo_formats::intents::schema());
}

#[test]
fn hooks_files_have_their_schema() {
    check("hooks.json", &roo_formats::hooks::schema());
}

#[test]
fn files_of_mcp_servers_have_their_schema() {
    check("mcp.json", &roo_formats::mcp::schema());
}

/// VS Code checks files by the schemas that the manifest of its extension names.
#[test]
fn every_schema_of_a_file_is_wired_in_vs_code_and_every_wired_one_exists() {
    let package = crate::support::package();
    let manifest = std::fs::read(package.join("editors/vscode/package.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let wired = ["jsonValidation", "yamlValidation"].map(|key| &manifest["contributes"][key]);
    let wired: BTreeSet<&str> = wired
        .into_iter()
        .flat_map(|list| list.as_array().unwrap())
        .map(|entry| entry["url"].as_str().and_then(|url| url.strip_prefix("./dist/schemas/")).unwrap())
        .collect();
    let files = std::fs::read_dir(package.join("schemas")).unwrap();
    let mut files: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    // Messages of the protocol and lines of the trace, which nobody writes by hand.
    for machine in ["roo-protocol.json", "agent-trace-record.json"] {
        assert!(files.remove(machine), "{machine}");
    }
    assert_eq!(wired, files.iter().map(String::as_str).collect());
}
