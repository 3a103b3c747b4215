//! npm: a company's registry is asked and no other one, and its token is nowhere to be read.

use super::*;

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn the_users_registry_is_npms_and_the_token_is_not() {
    let workshop = Workshop::new(&[
        (
            "package.json",
            "{\"name\": \"app\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node --test\"}}\n",
        ),
        ("a.test.js", "require('node:test')('adds', () => require('node:assert').equal(1 + 1, 2));\n"),
        ("~/.npmrc", "registry=http://127.0.0.1:9/\n//127.0.0.1:9/:_authToken=npm_x7Kq2Lm9Zx4Tr0Vb8Nc1\n"),
    ])
    .with("npm");
    let told = workshop.both("npm config get registry && npm test 2>&1 | grep -c '^# pass 1'");
    assert!(told.contains("http://127.0.0.1:9/\n1"), "{told}");
    assert!(!told.contains("npm warn"), "{told}");
    let told = workshop.agent("cat ~/.npmrc; npm config get //127.0.0.1:9/:_authToken");
    assert!(told.contains("registry=http") && !told.contains("npm_x7"), "{told}");
    // As in a shell it asks that registry, and not the public one.
    workshop.both("npm view left-pad version --fetch-retries=0");
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn vitest_runs_beside_an_env_file_when_the_user_lets_it() {
    let test = "import { expect, test } from 'vitest';\n\
                test('greets', () => expect(import.meta.env.VITE_GREETING).toBe('hello'));\n";
    let workshop = Workshop::new(&[
        (
            "package.json",
            "{\"name\": \"app\", \"type\": \"module\", \"scripts\": {\"test\": \"vitest run\"}}\n",
        ),
        ("greeting.test.js", test),
        (".env", "VITE_GREETING=hello\n"),
    ])
    .with("npm");
    for project in ["shell", "agent"] {
        let done =
            Command::new("cp").arg("-r").arg(installed("node_modules")).arg(workshop.at(project)).status();
        assert!(done.unwrap().success());
    }
    workshop.hand_over();
    let told = workshop.agent("npm test");
    assert!(
        !told.contains("1 passed") && told.contains(".env can't be read (setting sandbox.readable)"),
        "{told}"
    );
    settings(&workshop, &format!("sandbox: {{readable: ['{}']}}\n", workshop.at("agent/.env").display()));
    let told = workshop.both("npm test");
    assert!(told.contains("1 passed"), "{told}");
    workshop.both("sed -i s/hello/goodbye/ greeting.test.js && npx vitest run");
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn the_users_own_package_leaves_out_what_is_this_machines() {
    let workshop =
        Workshop::new(&[("package.json", "{\"name\": \"app\", \"version\": \"1.0.0\"}\n"), ("index.js", "")])
            .with("npm");
    workshop.agent("true");
    assert!(workshop.at("agent/.orchestration").is_dir());
    let packed = workshop.shell_in("agent", "npm pack --dry-run --json | grep '\"path\"'").1;
    assert!(packed.contains("index.js") && !packed.contains("orchestration"), "{packed}");
}

/// More packages than it has connections: those that waited for one were asked for without end.
#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn npm_ci_of_many_packages_ends_where_the_registry_is_refused() {
    let names: Vec<String> = (1..=120).map(|number| format!("package-{number}")).collect();
    let needs = serde_json::Value::from_iter(names.iter().map(|name| (name.clone(), "1.0.0")));
    let package = serde_json::json!({ "name": "app", "version": "1.0.0", "dependencies": needs });
    let locked = |name: &String| {
        let url = format!("https://registry.npmjs.org/{name}/-/{name}-1.0.0.tgz");
        (format!("node_modules/{name}"), serde_json::json!({ "version": "1.0.0", "resolved": url }))
    };
    let mut packages = serde_json::Map::from_iter(names.iter().map(locked));
    packages.insert(String::new(), package.clone());
    let lock = serde_json::json!({
        "name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": packages,
    });
    let workshop =
        Workshop::new(&[("package.json", &package.to_string()), ("package-lock.json", &lock.to_string())])
            .with("npm");
    let told = workshop.agent("timeout 300 npm ci");
    assert!(told.contains("Exit code: 1\n"), "{told}");
    assert!(told.contains("registry.npmjs.org:443 can't be reached: no rule matches this host"), "{told}");
}
