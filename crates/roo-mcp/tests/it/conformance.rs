//! The official conformance suite for clients.

use std::process::Command;

use crate::real_servers::installed;

const NO_USER: &str = "there is no user who logs in: it is for services";

/// The scenarios of the suite, and why some are not passed.
const SCENARIOS: &[(&str, Option<&str>)] = &[
    ("initialize", None),
    ("tools_call", None),
    ("sse-retry", None),
    ("elicitation-sep1034-client-defaults", None),
    ("auth/metadata-default", None),
    ("auth/metadata-var1", None),
    ("auth/metadata-var2", None),
    ("auth/metadata-var3", None),
    ("auth/basic-cimd", None),
    ("auth/scope-from-www-authenticate", None),
    ("auth/scope-from-scopes-supported", None),
    ("auth/scope-omitted-when-undefined", None),
    ("auth/scope-step-up", None),
    ("auth/scope-retry-limit", None),
    ("auth/token-endpoint-auth-basic", None),
    ("auth/token-endpoint-auth-post", None),
    ("auth/token-endpoint-auth-none", None),
    ("auth/pre-registration", None),
    ("auth/2025-03-26-oauth-metadata-backcompat", None),
    ("auth/2025-03-26-oauth-endpoint-fallback", None),
    ("auth/resource-mismatch", None),
    ("auth/offline-access-scope", None),
    ("auth/offline-access-not-supported", None),
    ("auth/client-credentials-jwt", Some(NO_USER)),
    ("auth/client-credentials-basic", Some(NO_USER)),
    ("auth/cross-app-access-complete-flow", Some(NO_USER)),
];

fn suite(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(installed("node_modules/node/bin/node"))
        .arg(installed("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.success(), text)
}

#[test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
fn every_scenario_of_the_suite_is_listed() {
    let (_, text) = suite(&["list", "--client"]);
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split_whitespace().next());
    let listed: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
    let mut unlisted: Vec<&str> = names.collect();
    assert!(unlisted.len() > 20, "{text}");
    unlisted.retain(|name| !listed.contains(name));
    assert!(unlisted.is_empty(), "{unlisted:?}");
}

#[test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
fn the_scenarios_without_an_exception_are_passed() {
    for (name, exception) in SCENARIOS {
        if exception.is_some() {
            continue;
        }
        let client = env!("CARGO_BIN_EXE_mcp-conformance-client");
        let (passed, text) = suite(&["client", "--command", client, "--scenario", name]);
        assert!(passed, "{name}: {text}");
    }
}
