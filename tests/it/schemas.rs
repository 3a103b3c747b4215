//! The schemas in `schemas/` are those of the types. `UPDATE_SCHEMAS=1 cargo test` writes them anew.

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
