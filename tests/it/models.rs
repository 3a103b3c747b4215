//! Models as users meet them: `roo-lsp models`, `login`, `doctor` and `setup`, and `roo/model/list`, by the real program and
//! an endpoint on loopback.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::client::{Client, Home, Options};
use crate::support::model_server::{Answer, FORMATS, ModelServer, base_url, body};
use crate::support::project::Project;

const KEY: &str = "sk-0123456789abcdef";

fn document(value: Value) -> Answer {
    Answer::status(200, &["content-type: application/json"], value.to_string())
}

fn listed(names: &[&str]) -> Answer {
    document(json!({ "data": names.iter().map(|id| json!({ "id": id })).collect::<Vec<_>>() }))
}

fn refused() -> Answer {
    Answer::status(401, &[], json!({ "error": { "message": "Incorrect API key" } }).to_string())
}

fn hello() -> Answer {
    Answer::stream(body("openai", "native", "OK", &[]))
}

fn serve(runtime: &Runtime, answers: impl IntoIterator<Item = Answer>) -> (ModelServer, String) {
    let server = runtime.block_on(ModelServer::start(answers));
    let url = base_url("openai", &server.url());
    (server, url)
}

/// Runs the program with lines on its standard input.
fn answering(project: &Project, arguments: &[&str], lines: &str) -> Output {
    let mut command = project.program();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn assert_fails(output: &Output, words: &str) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains(words), "{words}: {output:?}");
}

fn profile(provider: &str, url: &str, model: &str) -> String {
    format!("profiles: {{ default: {{ provider: {provider}, baseUrl: '{url}', model: {model} }} }}\n")
}

#[test]
fn what_the_catalogue_knows_is_listed_without_a_network() {
    let project = Project::new(&[]);
    let models = project.succeed(&["models", "--provider", "gemini", "--offline"]);
    assert!(models.contains("gemini-2.5-pro  "), "{models}");
    let json: Value =
        serde_json::from_str(&project.succeed(&["models", "--provider", "anthropic", "--offline", "--json"]))
            .unwrap();
    let sonnet = json.as_array().unwrap().iter().find(|model| model["id"] == "claude-sonnet-4-5").unwrap();
    assert_eq!(sonnet["contextWindow"], 200_000);
    assert_eq!(sonnet["pricePerMillion"]["output"], 15.0);
    let unknown = project.run(&["models", "--provider", "opnai"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    assert!(text(&unknown.stderr).contains("a similar value exists: 'openai'"), "{unknown:?}");
}

#[test]
fn an_endpoint_lists_its_models_with_what_it_and_the_catalogue_say() {
    let runtime = Runtime::new().unwrap();
    let pricing = json!({ "prompt": "0.0000025", "completion": "0.00001" });
    let answer = document(json!({ "data": [
        { "id": "vendor/routed", "context_length": 131_072, "pricing": pricing },
        { "id": "served", "max_model_len": 32_768 },
        { "id": "behind-a-gateway", "max_input_tokens": 128_000, "max_output_tokens": 16_384 },
        { "id": "on-this-machine", "meta": { "n_ctx_train": 4096 } },
        { "id": "gpt-5", "object": "model" },
    ] }));
    let (mut server, url) = serve(&runtime, [answer]);
    let project = Project::new(&[]);
    project.configure(&profile("openai", &url, "served"));
    let models = project.succeed(&["models"]);
    let lines: Vec<&str> = models.lines().collect();
    assert_eq!(lines[0], "vendor/routed  131k tokens, $2.5 in, $10 out per million");
    assert_eq!(lines[1], "served  32k tokens");
    assert_eq!(lines[2], "behind-a-gateway  128k tokens");
    assert_eq!(lines[3], "on-this-machine  4096 tokens");
    assert!(lines[4].starts_with("gpt-5  400k tokens"), "{models}");
    assert_eq!(runtime.block_on(server.request()).line, "GET /v1/models");
}

#[test]
fn every_format_has_its_list() {
    let runtime = Runtime::new().unwrap();
    let anthropic = json!({ "data": [{ "type": "model", "id": "m", "max_input_tokens": 9000 }] });
    let gemini = json!({ "models": [
        { "name": "models/m", "inputTokenLimit": 9000, "supportedGenerationMethods": ["generateContent"] },
        { "name": "models/embedding", "supportedGenerationMethods": ["embedContent"] },
    ] });
    let openai = json!({ "data": [{ "id": "m", "max_model_len": 9000 }] });
    for (provider, answer, line) in [
        ("anthropic", anthropic, "GET /v1/models?limit=1000"),
        ("gemini", gemini, "GET /v1beta/models?pageSize=1000"),
        ("openai", openai.clone(), "GET /v1/models"),
        ("openai-responses", openai, "GET /v1/models"),
    ] {
        let mut server = runtime.block_on(ModelServer::start([document(answer)]));
        let project = Project::new(&[]);
        project.configure(&profile(provider, &base_url(provider, &server.url()), "m"));
        assert_eq!(project.succeed(&["models"]), "m  9000 tokens\n", "{provider}");
        assert_eq!(runtime.block_on(server.request()).line, line);
    }
}

#[test]
fn clients_get_the_same_list() {
    let runtime = Runtime::new().unwrap();
    let (_server, url) = serve(&runtime, [listed(&["gpt-5", "own"]), refused()]);
    let home = Home::new();
    fs::write(home.config_file(), profile("openai", &url, "own")).unwrap();
    let mut client = Client::start(&home, Options::typed());
    let models = client.request("roo/model/list", json!({}));
    assert_eq!(models["models"][0]["contextWindow"], 400_000);
    assert_eq!(models["models"][1], json!({ "id": "own" }));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn the_doctor_fails_where_a_task_would_fail_and_says_what_to_do() {
    let runtime = Runtime::new().unwrap();
    let missing = || Answer::status(404, &[], json!({ "error": { "message": "no such model" } }).to_string());
    let page = Answer::status(200, &["content-type: text/html"], "<html>Welcome</html>");
    let cases: [(Vec<Answer>, i32, &str); 5] = [
        (vec![hello()], 0, "ok   model of default: qwen answered in "),
        (vec![refused()], 1, "Check the profile's key."),
        (vec![missing(), listed(&["qwen3", "llama4"])], 1, "has no model qwen; did you mean qwen3?"),
        (vec![missing(), listed(&["a", "b"])], 1, "has no model qwen; it has a, b."),
        (vec![page.clone(), page], 1, "is not an event stream"),
    ];
    for (answers, code, words) in cases {
        let (_server, url) = serve(&runtime, answers);
        let project = Project::new(&[]);
        project.configure(&profile("openai", &url, "qwen"));
        let output = project.run(&["doctor"]);
        assert_eq!(output.status.code(), Some(code), "{words}: {output:?}");
        assert!(text(&output.stdout).contains(words), "{words}: {output:?}");
    }
    let (_server, url) = serve(&runtime, [hello()]);
    let project = Project::new(&[]);
    project.configure(&profile("openai", &url, "gpt-5"));
    assert!(project.succeed(&["doctor"]).contains(", window of 400k tokens\n"), "the catalogue knows it");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let project = Project::new(&[]);
    project.configure(&profile("openai", &format!("http://{closed}/v1"), "qwen"));
    let output = project.run(&["doctor"]);
    assert!(output.status.code() == Some(1) && text(&output.stdout).contains("no connection"), "{output:?}");
    assert!(project.succeed(&["doctor", "--offline"]).contains("note models: not asked"));
}

#[test]
fn every_format_is_tried_by_the_doctor() {
    let runtime = Runtime::new().unwrap();
    for (provider, _) in FORMATS.iter().filter(|(_, protocol)| *protocol == "native") {
        let mut server =
            runtime.block_on(ModelServer::start([Answer::stream(body(provider, "native", "OK", &[]))]));
        let project = Project::new(&[]);
        project.configure(&profile(provider, &base_url(provider, &server.url()), "m"));
        assert!(project.succeed(&["doctor"]).contains("m answered in "), "{provider}");
        let sent = runtime.block_on(server.request()).body;
        assert!(sent["tools"].is_null(), "{sent}");
    }
}

#[test]
fn a_key_is_stored_once_the_endpoint_has_taken_it_and_used_from_then_on() {
    let runtime = Runtime::new().unwrap();
    let (mut server, url) = serve(&runtime, [refused(), listed(&["m"]), hello()]);
    let project = Project::new(&[]);
    let login = ["login", "openai", "--base-url", &url];
    let wrong = answering(&project, &login, "sk-wrong-wrong\n");
    assert_fails(&wrong, "The key was not stored");
    assert!(!text(&wrong.stderr).contains("sk-wrong"), "{wrong:?}");
    let keys = project.beside("state/roo-lsp/keys");
    assert!(!keys.exists());

    let right = answering(&project, &login, &format!("{KEY}\n"));
    assert!(right.status.success() && text(&right.stdout).contains("the endpoint accepts it"), "{right:?}");
    assert!(!format!("{right:?}").contains(KEY));
    let file = fs::read_dir(&keys).unwrap().next().unwrap().unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    project.configure(&profile("openai", &url, "m"));
    project.succeed(&["doctor"]);
    let sent: Vec<_> = (0..3).map(|_| runtime.block_on(server.request())).collect();
    assert_eq!(sent[2].line, "POST /v1/chat/completions");
    assert_eq!(sent[2].headers["authorization"], format!("Bearer {KEY}"));

    let removed = project.succeed(&["login", "openai", "--base-url", &url, "--remove"]);
    assert!(removed.contains("removed"), "{removed}");
    assert_eq!(fs::read_dir(&keys).unwrap().count(), 0);
}

#[test]
fn what_is_no_key_is_not_stored() {
    let project = Project::new(&[]);
    assert_fails(&answering(&project, &["login", "anthropic", "--offline"], "two words\n"), "not a key");
    assert_fails(&answering(&project, &["login", "anthropic", "--offline"], ""), "the input ended");
    assert_fails(&answering(&project, &["login", "ollama"], ""), "ollama needs no key");
    let stored = answering(&project, &["login", "anthropic", "--offline"], &format!("{KEY}\n"));
    assert!(text(&stored.stdout).contains("not tested"), "{stored:?}");
}

/// The `secret-tool` of a keyring that is a directory: what it stores is named by the attributes that it gets.
pub const KEYRING: &str = r#"#!/bin/sh
command=$1; shift
case $1 in --label) shift 2 ;; esac
file=$(dirname "$0")/../keyring-$(printf '%s' "$*" | tr -c 'a-z0-9\n' '_')
case $command in
store) cat >"$file" ;;
lookup) cat "$file" 2>/dev/null ;;
clear) rm "$file" 2>/dev/null ;;
esac
"#;

#[test]
fn a_key_in_the_keyring_is_used_by_the_profile_of_setup_and_by_the_line_that_login_prints() {
    let runtime = Runtime::new().unwrap();
    let (mut server, url) = serve(&runtime, [refused(), listed(&["m"]), listed(&["m"]), hello()]);
    let project = Project::new(&[]);
    fs::create_dir(project.beside("bin")).unwrap();
    let program = project.beside("bin/secret-tool");
    fs::write(&program, KEYRING).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", project.beside("bin").display(), std::env::var("PATH").unwrap());
    let answering = |arguments: &[&str], lines: &str| {
        let mut command = project.program();
        command.env("PATH", &path).args(arguments).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };

    let setup = ["setup", "--provider", "openai", "--base-url", &url, "--keyring"];
    let output = answering(&setup, &format!("{KEY}\n1\n"));
    assert!(output.status.success(), "{output:?}");
    let command =
        format!("[\"secret-tool\",\"lookup\",\"service\",\"roo-lsp\",\"endpoint\",\"openai {url}\"]");
    let written = fs::read_to_string(project.beside("config/roo-lsp/config.yaml")).unwrap();
    assert!(written.contains("secret-tool") && !written.contains(KEY), "{written}");
    assert!(!project.beside("state/roo-lsp/keys").exists());
    for _ in 0..4 {
        runtime.block_on(server.request());
    }
    server.push(hello());
    let doctor = answering(&["doctor"], "");
    assert!(text(&doctor.stdout).contains("ok   model of default"), "{doctor:?}");
    let sent = runtime.block_on(server.request());
    assert_eq!(sent.headers["authorization"], format!("Bearer {KEY}"));

    let login = ["login", "openai", "--base-url", &url, "--keyring", "--offline"];
    assert_fails(&answering(&login, "two words\n"), "not a key");
    let stored = answering(&login, &format!("{KEY}\n"));
    let expected = format!(
        "key of openai: not tested; stored in the keyring\nA profile uses it by:\n  apiKeyCommand: {command}\n"
    );
    assert_eq!(text(&stored.stdout), expected, "{stored:?}");
    for outcome in ["removed", "there was none"] {
        let removed = answering(&["login", "openai", "--base-url", &url, "--keyring", "--remove"], "");
        assert_eq!(text(&removed.stdout), format!("key of openai: {outcome}\n"), "{removed:?}");
    }
}

#[test]
fn setup_leads_from_nothing_to_a_model_that_answers() {
    let runtime = Runtime::new().unwrap();
    let names = ["qwen3:8b", "llama4", "gpt-oss:20b"];
    let answers = [refused(), refused(), listed(&names), listed(&names), hello()];
    let (mut server, url) = serve(&runtime, answers);
    let project = Project::new(&[]);
    project.configure("# mine\nmode: code   # the usual\n");
    let arguments = ["setup", "--provider", "openai", "--base-url", &url];
    let output = answering(&project, &arguments, &format!("sk-wrong-wrong\n{KEY}\ngpt\n"));
    assert!(output.status.success(), "{output:?}");
    let told = text(&output.stderr);
    assert!(told.contains("  2  llama4") && told.contains("gpt-oss:20b answered in "), "{told}");
    assert!(text(&output.stdout).starts_with("profile default: gpt-oss:20b of openai, written to "));
    let written = fs::read_to_string(project.beside("config/roo-lsp/config.yaml")).unwrap();
    let expected = format!(
        "# mine\nmode: code   # the usual\nprofile: default\nprofiles:\n  default:\n    provider: openai\n    \
         baseUrl: \"{url}\"\n    model: \"gpt-oss:20b\"\n"
    );
    assert_eq!(written, expected);
    let last = (0..5).map(|_| runtime.block_on(server.request())).last().unwrap();
    assert_eq!(last.headers["authorization"], format!("Bearer {KEY}"));
    assert!(!format!("{output:?}").contains(KEY) && !written.contains(KEY));

    server.push(hello());
    assert!(project.succeed(&["doctor"]).contains("ok   model of default"));
}

#[test]
fn a_refusal_for_want_of_a_key_names_the_variable_that_is_not_set() {
    let runtime = Runtime::new().unwrap();
    let (_server, url) = serve(&runtime, [refused()]);
    let project = Project::new(&[]);
    project.configure(&format!(
        "profiles:\n  default: {{ provider: openai, baseUrl: \"{url}\", model: m, apiKeyEnv: TEAM_KEY }}\n"
    ));
    let told = text(&project.run(&["doctor"]).stdout);
    assert!(told.contains("No key was sent, because the environment variable TEAM_KEY is not set"), "{told}");
}

#[test]
fn setup_refuses_an_address_before_it_asks_anything() {
    let project = Project::new(&[]);
    for command in [&["setup", "--provider"][..], &["login"]] {
        let output =
            answering(&project, &[command, &["openai", "--base-url", "127.0.0.1:8765/v1"]].concat(), "");
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains("--base-url is not a URL"), "{output:?}");
        assert!(!told.contains("Key of"), "{told}");
    }
}

#[test]
fn setup_refuses_a_name_before_it_asks_anything() {
    let output = answering(&Project::new(&[]), &["setup", "--profile", " mine"], "");
    let told = text(&output.stderr);
    assert!(output.status.code() == Some(2) && told.contains("a profile's name is one line"), "{output:?}");
    assert!(!told.contains("Who serves the model?"), "{told}");
}

#[test]
fn setup_says_what_is_wrong_with_a_key_and_which_profile_counts() {
    let runtime = Runtime::new().unwrap();
    let answers = [refused(), listed(&["qwen"]), listed(&["qwen"]), hello()];
    let (_server, url) = serve(&runtime, answers);
    let project = Project::new(&[]);
    project.configure("profile: mine\nprofiles:\n  mine: { provider: openai, model: m }\n");
    let arguments = ["setup", "--provider", "openai", "--base-url", &url, "--profile", "other"];
    let output = answering(&project, &arguments, &format!("\ntwo words\n{KEY}\n1\n"));
    assert!(output.status.success(), "{output:?}");
    let told = text(&output.stderr);
    assert!(told.contains("No key was given.") && told.contains("That is not a key"), "{told}");
    assert!(!told.contains("ROO_LSP_CANDIDATE_KEY") && !told.contains("status 401"), "{told}");
    let printed = text(&output.stdout);
    assert!(printed.contains("Requests use other from now on; before, they used mine."), "{printed}");
}

#[test]
fn setup_writes_nothing_before_a_model_has_answered() {
    let runtime = Runtime::new().unwrap();
    let broken = Answer::status(400, &[], json!({ "error": { "message": "no chat" } }).to_string());
    let (_server, url) = serve(&runtime, [listed(&["m"]), listed(&["m"]), broken, listed(&["m"])]);
    let project = Project::new(&[]);
    let before = fs::read_to_string(project.beside("config/roo-lsp/config.yaml")).unwrap();
    let output = answering(&project, &["setup", "--provider", "vllm", "--base-url", &url], "1\n");
    assert_fails(&output, "no chat");
    assert_fails(&output, "nothing was changed");
    assert_eq!(fs::read_to_string(project.beside("config/roo-lsp/config.yaml")).unwrap(), before);
}

#[test]
fn setup_asks_for_the_address_where_no_server_listens() {
    let runtime = Runtime::new().unwrap();
    let (_server, url) = serve(&runtime, [listed(&["m"]), listed(&["m"]), hello()]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let project = Project::new(&[]);
    let arguments = ["setup", "--provider", "vllm", "--base-url", &format!("http://{closed}/v1")];
    let output = answering(&project, &arguments, &format!("\n{url}\n1\n"));
    assert!(output.status.success(), "{output:?}");
    let told = text(&output.stderr);
    assert_eq!(told.matches("nothing listens there. Check the address").count(), 2, "{told}");
    let written = fs::read_to_string(project.beside("config/roo-lsp/config.yaml")).unwrap();
    assert!(written.contains(&url), "{written}");
}

#[test]
fn setup_asks_again_for_an_address_that_is_none_or_another_servers() {
    let runtime = Runtime::new().unwrap();
    let page = Answer::status(404, &[], "no such page");
    let (mut server, url) = serve(&runtime, [page, listed(&["m"]), listed(&["m"]), hello()]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let project = Project::new(&[]);
    let arguments = ["setup", "--provider", "vllm", "--base-url", &format!("http://{closed}/v1")];
    let host = url.strip_prefix("http://").and_then(|url| url.split('/').next()).unwrap();
    let answers = format!("ftp://{host}\nhttp://{host}/elsewhere\n{host}\n1\n");
    let output = answering(&project, &arguments, &answers);
    assert!(output.status.success(), "{output:?}");
    let told = text(&output.stderr);
    let question = "Its address, such as http://127.0.0.1:8000/v1, or nothing to";
    assert_eq!(told.matches(question).count(), 3, "{told}");
    assert!(told.contains("The address has the scheme ftp") && !told.contains("baseUrl"), "{told}");
    let written = fs::read_to_string(project.beside("config/roo-lsp/config.yaml")).unwrap();
    assert!(written.contains(&format!("http://{host}/v1\"")), "{written}");
    let tried: Vec<_> = (0..2).map(|_| runtime.block_on(server.request()).line).collect();
    assert_eq!(tried, ["GET /elsewhere/models", "GET /v1/models"]);
}

#[test]
fn setup_asks_for_the_provider_by_number_or_name() {
    let project = Project::new(&[]);
    let output = answering(&project, &["setup"], "nobody\n");
    let told = text(&output.stderr);
    assert!(
        told.contains("Who serves the model?") && told.contains("There is no provider 'nobody'"),
        "{told}"
    );
    for provider in ["anthropic", "openai", "gemini", "openrouter", "ollama", "litellm"] {
        assert!(told.contains(&format!("  {provider} ")), "{provider}: {told}");
    }
    assert!(!told.contains("scripted"), "{told}");
    assert_eq!(output.status.code(), Some(1));
}

/// A client's form, and the endpoint that it is about.
fn form(url: &str, model: &str) -> Value {
    let key = json!({ "from": "file", "key": KEY });
    json!({ "provider": "openai", "baseUrl": url, "model": model, "key": key })
}

#[test]
fn a_form_lists_tests_and_saves_a_profile_that_the_next_task_uses() {
    let runtime = Runtime::new().unwrap();
    let done =
        Answer::stream(body("openai", "native", "", &[("attempt_completion", json!({ "result": "Hi." }))]));
    let (mut server, url) = serve(&runtime, [listed(&["m", "n2"]), hello(), hello(), done]);
    let home = Home::new();
    fs::write(home.config_file(), "# mine\nmode: code # the usual\n").unwrap();
    let mut client = Client::start(&home, Options::typed());
    let offered = client.request("roo/model/list", json!({ "draft": form(&url, "") }));
    assert_eq!(offered["models"][1]["id"], "n2");
    let tested = client.request("roo/profile/test", json!({ "draft": form(&url, "m") }));
    assert_eq!(tested["works"], true);
    assert!(tested["message"].as_str().unwrap().starts_with("m answered in "), "{tested}");
    let saved = json!({ "profile": "work", "draft": form(&url, "m"), "isDefault": true });
    let saved = client.request("roo/profile/save", saved);
    assert_eq!((&saved["saved"], &saved["warnings"]), (&json!(true), &json!([])), "{saved}");
    let written = fs::read_to_string(home.config_file()).unwrap();
    let expected = format!(
        "# mine\nmode: code # the usual\nprofile: work\nprofiles:\n  work:\n    provider: openai\n    model: m\n    \
         baseUrl: \"{url}\"\n"
    );
    assert_eq!(written, expected);
    client.start_task("Say hello.");
    client.state("completed");
    for _ in 0..4 {
        assert_eq!(runtime.block_on(server.request()).headers["authorization"], format!("Bearer {KEY}"));
    }
    let told: String = client.seen.iter().map(Value::to_string).collect();
    assert!(!told.contains(KEY));

    // A form for the same profile leaves what it does not name.
    server.push(hello());
    let other =
        json!({ "profile": "work", "draft": { "provider": "openai", "model": "n2", "maxTokens": 4000 } });
    assert_eq!(client.request("roo/profile/save", other)["saved"], true);
    let changed = expected.replace("model: m", "model: n2") + "    maxTokens: 4000\n";
    assert_eq!(fs::read_to_string(home.config_file()).unwrap(), changed);
    let item = client.request("roo/profile/list", json!({}))["profiles"][0].clone();
    assert_eq!(
        (&item["name"], &item["model"], &item["maxTokens"]),
        (&json!("work"), &json!("n2"), &json!(4000))
    );

    let deleted = client.request("roo/profile/delete", json!({ "profile": "work" }));
    assert_eq!(deleted["warnings"], json!(["There is no default profile now, so no request can begin."]));
    assert_eq!(fs::read_to_string(home.config_file()).unwrap(), "# mine\nmode: code # the usual\n");
    assert_eq!(
        client.refused("roo/task/start", json!({ "prompt": "Hello" }))["data"]["kind"],
        "configuration"
    );
    assert_eq!(
        client.refused("roo/profile/delete", json!({ "profile": "work" }))["data"]["kind"],
        "notFound"
    );
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn nothing_is_saved_that_does_not_work_unless_the_user_wants_it_and_is_told() {
    let runtime = Runtime::new().unwrap();
    let (_server, url) = serve(&runtime, [refused(), refused()]);
    let home = Home::new();
    let mut client = Client::start(&home, Options::typed());
    let before = "mode: code\n";
    fs::write(home.config_file(), before).unwrap();
    let mut params = json!({ "profile": "work", "draft": form(&url, "m") });
    let saved = client.request("roo/profile/save", params.clone());
    assert_eq!(saved["saved"], false);
    let message = saved["message"].as_str().unwrap();
    assert!(message.contains("Incorrect API key") && message.ends_with("Nothing was written."), "{message}");
    assert_eq!(fs::read_to_string(home.config_file()).unwrap(), before);
    assert!(!home.path("state/roo-lsp/keys").exists(), "no key is stored");
    params["untested"] = true.into();
    let saved = client.request("roo/profile/save", params);
    assert_eq!(saved["saved"], true);
    assert!(saved["warnings"][0].as_str().unwrap().starts_with("Its model did not answer: "), "{saved}");
    assert!(fs::read_to_string(home.config_file()).unwrap().contains("  work:\n    provider: openai\n"));

    let mut refuse = |params: Value, words: &str| {
        let error = client.refused("roo/profile/save", params);
        assert!(error["message"].as_str().unwrap().contains(words), "{words}: {error}");
    };
    refuse(json!({ "profile": " ", "draft": form(&url, "m") }), "one line");
    refuse(
        json!({ "profile": "a", "draft": { "provider": "opnai" } }),
        "provider must be one of `anthropic`",
    );
    let pasted = json!({ "from": "environment", "variable": KEY });
    refuse(json!({ "profile": "a", "draft": { "provider": "openai", "key": pasted } }), "not the key");
    fs::write(home.config_file(), "mode: [\n").unwrap();
    refuse(json!({ "profile": "a", "draft": form(&url, "m") }), "can't be changed while it is invalid");
    fs::write(home.config_file(), "profiles: { a: { provider: openai } }\n").unwrap();
    refuse(json!({ "profile": "a", "draft": form(&url, "m") }), "too unusual");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_form_with_another_address_sends_and_keeps_nothing_of_the_old_profile() {
    let runtime = Runtime::new().unwrap();
    let (mut server, url) = serve(&runtime, [hello(), hello(), listed(&["m"])]);
    let home = Home::new();
    let before = "profiles:\n  work: # mine\n    provider: openai\n    baseUrl: https://models.example/v1\n    model: m\n    \
                  apiKeyCommand: [echo, sk-old-secret]\n    headers: { x-team: old-secret }\n    temperature: 0.5\n    \
                  maxTokens: 777777\n";
    fs::write(home.config_file(), before).unwrap();
    let mut client = Client::start(&home, Options::typed());
    let draft = json!({ "provider": "openai", "baseUrl": url, "model": "m" });
    let tested = client.request("roo/profile/test", json!({ "profile": "work", "draft": draft }));
    assert_eq!(tested["works"], true, "{tested}");
    let saved = client.request("roo/profile/save", json!({ "profile": "work", "draft": draft }));
    assert_eq!(saved["saved"], true, "{saved}");
    client.request("roo/model/list", json!({ "profile": "work", "draft": draft }));
    for _ in 0..3 {
        let sent = runtime.block_on(server.request());
        let text = format!("{:?} {}", sent.headers, sent.body);
        assert!(
            !text.contains("old-secret") && !text.contains("temperature") && !text.contains("777777"),
            "{text}"
        );
    }
    let written = fs::read_to_string(home.config_file()).unwrap();
    let expected =
        format!("profiles:\n  work: # mine\n    provider: openai\n    baseUrl: \"{url}\"\n    model: m\n");
    assert_eq!(written, expected);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_form_removes_the_fields_that_it_sends_as_null() {
    let runtime = Runtime::new().unwrap();
    let (_server, url) = serve(&runtime, [hello()]);
    let home = Home::new();
    let profile = |more: &str| {
        format!("profiles:\n  work:\n    provider: vllm\n    baseUrl: {url} # here\n    model: m\n{more}")
    };
    fs::write(home.config_file(), profile("    maxTokens: 77\n    apiKeyEnv: OTHER\n    temperature: 0.5\n"))
        .unwrap();
    let mut client = Client::start(&home, Options::typed());
    let draft = json!({ "provider": "vllm", "maxTokens": null, "key": null, "reasoning": null });
    let saved = client.request("roo/profile/save", json!({ "profile": "work", "draft": draft }));
    assert_eq!(saved["saved"], true, "{saved}");
    assert_eq!(fs::read_to_string(home.config_file()).unwrap(), profile("    temperature: 0.5\n"));
    assert_eq!(client.shut_down(), 0);
}

/// A client whose keyring edits the settings file while it is unlocked, by a command in which `$CONFIG` is the file.
fn with_keyring(home: &Home, edit: &str) -> Client {
    fs::create_dir_all(home.path("bin")).unwrap();
    let program = home.path("bin/secret-tool");
    fs::write(
        &program,
        format!("#!/bin/sh\ncat >/dev/null\nCONFIG='{}'\n{edit}\n", home.config_file().display()),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", home.path("bin").display(), std::env::var("PATH").unwrap());
    Client::start(home, Options { environment: vec![("PATH", path)], ..Options::typed() })
}

#[test]
fn what_the_user_writes_while_the_keyring_is_unlocked_is_kept() {
    let runtime = Runtime::new().unwrap();
    let (_server, url) = serve(&runtime, [hello(), hello()]);
    let draft = json!({
        "provider": "openai", "baseUrl": url, "model": "m", "key": { "from": "keyring", "key": KEY },
    });
    let params = json!({ "profile": "work", "draft": draft });

    let home = Home::new();
    fs::write(home.config_file(), "mode: code\n").unwrap();
    let mut client = with_keyring(&home, "echo 'redactSecrets: true # mine' >> \"$CONFIG\"");
    let saved = client.request("roo/profile/save", params.clone());
    assert_eq!(saved["saved"], true, "{saved}");
    let written = fs::read_to_string(home.config_file()).unwrap();
    assert!(written.starts_with("mode: code\nredactSecrets: true # mine\nprofiles:\n  work:\n"), "{written}");
    assert_eq!(client.shut_down(), 0);

    // What the user wrote is the profile itself: the model that was asked is not the one that would be written.
    let home = Home::new();
    let theirs = "profiles: # theirs\n  work:\n    provider: ollama\n";
    let mut client = with_keyring(&home, &format!("printf '{}' > \"$CONFIG\"", theirs.replace('\n', "\\n")));
    let refused = client.refused("roo/profile/save", params);
    assert!(
        refused["message"].as_str().unwrap().contains("there is already a profile of that name"),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(home.config_file()).unwrap(), theirs);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn another_profile_takes_the_place_of_a_deleted_one_that_was_the_default_by_its_name() {
    let home = Home::new();
    let spare = "  spare:\n    provider: ollama\n    model: qwen3\n";
    let before = format!("# mine\nprofiles:\n  default:\n    provider: ollama\n    model: m\n{spare}");
    fs::write(home.config_file(), before).unwrap();
    let mut client = Client::start(&home, Options::typed());
    let deleted = client.request("roo/profile/delete", json!({ "profile": "default" }));
    assert_eq!(deleted["warnings"], json!(["Requests use the profile spare from now on."]));
    let expected = format!("# mine\nprofile: spare\nprofiles:\n{spare}");
    assert_eq!(fs::read_to_string(home.config_file()).unwrap(), expected);
    assert_eq!(client.request("roo/profile/list", json!({}))["profiles"][0]["isDefault"], true);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn questions_write_the_context_window_that_the_endpoint_tells() {
    let runtime = Runtime::new().unwrap();
    let models = || {
        let known = json!({ "id": "gpt-5", "max_model_len": 1000 });
        document(json!({ "data": [{ "id": "m", "max_model_len": 32_768 }, known] }))
    };
    let (_server, url) = serve(&runtime, [models(), hello(), models(), hello()]);
    let home = Home::new();
    let mut client = Client::start(&home, Options::plain());
    client.command("roo.setUpModel", json!({ "provider": "vllm", "baseUrl": url }));
    let popup = client.popup();
    client.reply(&popup, json!({ "title": "m" }));
    client.message("Profile default is written to");
    client.command(
        "roo.setUpModel",
        json!({ "provider": "vllm", "baseUrl": url, "model": "m", "profile": "named" }),
    );
    client.message("Profile named is written to");
    let written = fs::read_to_string(home.config_file()).unwrap();
    assert_eq!(written.matches("    contextWindow: 32768\n").count(), 2, "{written}");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn questions_about_a_profile_that_is_there_go_to_its_address() {
    let runtime = Runtime::new().unwrap();
    let (_server, url) = serve(&runtime, [listed(&["m"]), hello()]);
    let home = Home::new();
    let before = format!("profiles:\n  mine:\n    provider: vllm\n    baseUrl: \"{url}\"\n    model: old\n");
    fs::write(home.config_file(), &before).unwrap();
    let mut client = Client::start(&home, Options::plain());
    client.command("roo.setUpModel", json!({ "provider": "vllm", "profile": " mine" }));
    client.message("a profile's name is one line");
    client.command("roo.setUpModel", json!({ "provider": "vllm", "profile": "mine" }));
    let popup = client.popup();
    assert_eq!(popup["params"]["actions"], json!([{ "title": "Cancel" }, { "title": "m" }]));
    client.reply(&popup, json!({ "title": "m" }));
    client.message("Profile mine is written to");
    let written = fs::read_to_string(home.config_file()).unwrap();
    assert!(written.contains(&format!("baseUrl: \"{url}\"\n    model: m\n")), "{written}");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn the_doctor_tells_of_a_fallback_that_is_not_there() {
    let project = Project::new(&[]);
    project.configure("profiles:\n  default: { provider: vllm, model: m, fallback: spar }\n  spare: { provider: vllm, model: n }\n");
    let told = text(&project.run(&["doctor", "--offline"]).stdout);
    assert!(
        told.contains("note settings: ")
            && told.contains("profiles.default.fallback: there is no profile `spar`"),
        "{told}"
    );
}

#[test]
fn a_profile_that_fails_again_and_again_gives_way_to_its_fallback() {
    gives_way_to_its_fallback((0..5).map(|_| Answer::status(503, &[], "busy")).collect());
}

#[test]
fn a_profile_whose_endpoint_asks_for_a_long_wait_gives_way_at_once() {
    gives_way_to_its_fallback(vec![Answer::status(429, &["retry-after: 300"], "slow down")]);
}

/// A request is completed by the fallback of a profile whose endpoint answers this.
fn gives_way_to_its_fallback(answers: Vec<Answer>) {
    let runtime = Runtime::new().unwrap();
    let (_broken, url) = serve(&runtime, answers);
    let done =
        Answer::stream(body("openai", "native", "", &[("attempt_completion", json!({ "result": "Hi." }))]));
    let (_spare, spare) = serve(&runtime, [done]);
    let home = Home::new();
    let profiles = format!(
        "profiles:\n  default: {{ provider: vllm, baseUrl: '{url}', model: m, fallback: spare }}\n  \
         spare: {{ provider: vllm, baseUrl: '{spare}', model: n }}\n"
    );
    fs::write(home.config_file(), profiles).unwrap();
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Say hello.");
    assert_eq!(client.event("mode.switched")["event"]["profile"], "spare");
    client.wait_for("the other profile", |message| message.to_string().contains("the profile spare is used"));
    client.state("completed");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn an_editor_without_forms_is_led_to_a_model_by_questions() {
    let runtime = Runtime::new().unwrap();
    let (_server, url) = serve(&runtime, [listed(&["m", "n2"]), hello()]);
    let home = Home::new();
    fs::write(home.config_file(), "mode: code\n").unwrap();
    let mut client = Client::start(&home, Options::plain());
    client.command("roo.setUpModel", json!({ "provider": "vllm", "baseUrl": url }));
    let popup = client.popup();
    assert_eq!(
        popup["params"]["actions"],
        json!([{ "title": "Cancel" }, { "title": "m" }, { "title": "n2" }])
    );
    client.reply(&popup, json!({ "title": "n2" }));
    client.message("Profile default is written to");
    let written = fs::read_to_string(home.config_file()).unwrap();
    let expected = format!(
        "mode: code\nprofile: default\nprofiles:\n  default:\n    provider: vllm\n    model: n2\n    baseUrl: \"{url}\"\n"
    );
    assert_eq!(written, expected);
    client.command("roo.setUpModel", json!("openai"));
    client.message("openai needs a key: run `roo-lsp login openai` in a terminal, or set OPENAI_API_KEY");
    client.command("roo.setUpModel", json!("opnai"));
    client.message("there is no provider 'opnai'");
    client.command("roo.setUpModel", Value::Null);
    let popup = client.popup();
    assert_eq!(popup["params"]["message"], "roo: Who serves the model?");
    client.reply(&popup, json!({ "title": "Cancel" }));
    assert_eq!(fs::read_to_string(home.config_file()).unwrap(), expected);
    assert_eq!(client.shut_down(), 0);
}
