//! `codebase_search` as models, users and administrators meet it: through the real server and the real command line.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options};
use crate::support::model_server::{Answer, ModelServer};
use crate::support::project::Project;

const RETRY: &str =
    "/// Waits longer after each failure.\nfn retryDelay(attempt: u32) -> u64 {\n    1 << attempt\n}\n";

const DONE: &str = "    calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";

/// The directories of indexes below a state directory.
fn indexes(state: PathBuf) -> Vec<PathBuf> {
    let Ok(workspaces) = fs::read_dir(state.join("workspaces")) else { return vec![] };
    workspaces.map(|workspace| workspace.unwrap().path().join("index")).filter(|path| path.exists()).collect()
}

fn completes(client: &mut Client, prompt: &str) {
    client.start_task(prompt);
    let end = client.wait_for("the end", |message| {
        ["completed", "failed"].iter().any(|state| message["params"]["event"]["state"] == *state)
    });
    assert_eq!(end["params"]["event"]["state"], "completed", "{end}");
}

#[test]
fn a_model_finds_code_in_both_protocols_and_what_changes_meanwhile() {
    let script = r#"
turns:
  - calls: [{ tool: codebase_search, params: { query: delay between retries } }]
  - when: { contains: ["File path: src/net.rs\nScore: 1.00\nLines: 1-4\nCode Chunk:\n/// Waits longer after each failure."] }
    calls: [{ tool: write_to_file, params: { path: src/new.rs, content: "fn backoff_of_retries() {}\n" } }]
  - calls: [{ tool: codebase_search, params: { query: backoff, path: src } }]
  - when: { contains: "File path: src/new.rs" }
    calls: [{ tool: codebase_search, params: { query: unsaved marker } }]
  - when: { contains: "File path: src/open.rs" }
    calls: [{ tool: codebase_search, params: { query: hidden_function } }]
  - when: { contains: "No code found for the query: hidden_function" }
"#;
    for protocol in ["native", "xml"] {
        let home = Home::playing(&(script.to_owned() + DONE));
        let path = home.path("script.yaml");
        fs::write(
            home.config_file(),
            format!(
                "profiles:\n  default: {{ provider: scripted, script: {}, toolProtocol: {protocol} }}\nmode: code\n\
                 autoApprove: {{ write: true }}\n",
                path.display()
            ),
        )
        .unwrap();
        fs::create_dir(home.work("src")).unwrap();
        fs::create_dir(home.work("hidden")).unwrap();
        for (name, text) in [
            ("src/net.rs", RETRY),
            ("src/open.rs", "fn saved() {}\n"),
            (".rooignore", "hidden/\n"),
            ("hidden/a.rs", "fn hidden_function() {}\n"),
        ] {
            fs::write(home.work(name), text).unwrap();
        }
        let mut client = Client::start(&home, Options::typed());
        client.open(&home.work("src/open.rs"), "fn unsaved_marker() {}\n");
        assert_eq!(
            indexes(home.path("state/roo-lsp")),
            Vec::<PathBuf>::new(),
            "nothing is built before a search"
        );
        completes(&mut client, "Where is it?");
        assert_eq!(client.shut_down(), 0);
        assert_eq!(indexes(home.path("state/roo-lsp")).len(), 1);
    }
}

fn search(project: &Project, query: &str) -> Output {
    let params = json!({ "query": query }).to_string();
    project.run(&["tool", "codebase_search", "--mode=ask", "--params", &params])
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_command_line_shows_builds_and_removes_the_index() {
    let project = Project::new(&[("src/net.rs", RETRY)]);
    assert!(project.succeed(&["index", "status"]).starts_with("there is no index yet"));
    assert_eq!(project.succeed(&["index", "status", "--json"]), "null\n");
    let built = project.succeed(&["index", "build"]);
    assert!(built.starts_with("state    complete\nfiles    1 of 1\nchunks   1\nvectors  0\n"), "{built}");
    let status: Value = serde_json::from_str(&project.succeed(&["index", "status", "--json"])).unwrap();
    assert_eq!((&status["isComplete"], &status["files"]), (&json!(true), &json!(1)));
    let output = search(&project, "retry delay");
    assert!(output.status.success() && stdout(&output).contains("File path: src/net.rs"), "{output:?}");
    assert_eq!(project.succeed(&["index", "clear"]), "the index is removed\n");
    assert_eq!(project.succeed(&["index", "clear"]), "there was no index\n");
}

#[test]
fn a_damaged_index_is_built_anew_and_the_search_goes_on() {
    let project = Project::new(&[("src/net.rs", RETRY)]);
    project.succeed(&["index", "build"]);
    let all = indexes(project.beside("state/roo-lsp"));
    let [index] = &all[..] else { panic!("there is one index") };
    for file in fs::read_dir(index).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "sqlite") {
            fs::write(file, "no database at all").unwrap();
        }
    }
    let output = search(&project, "retry delay");
    let text = stdout(&output);
    assert!(output.status.success() && text.contains("File path: src/net.rs"), "{output:?}");
    assert!(text.contains("The index was damaged, so it was rebuilt."), "{text}");
    assert!(!stdout(&search(&project, "retry delay")).contains("damaged"), "it is whole again");
}

#[test]
fn a_user_turns_the_index_off() {
    let project = Project::new(&[("src/net.rs", RETRY)]);
    project.configure("index: { enabled: false }\n");
    let output = search(&project, "retry");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).contains("There is no code index here. Use search_files."), "{output:?}");
    let output = project.run(&["index", "build"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("`index.enabled` is false"), "{output:?}");
    for (settings, is_offered) in [("{}\n", true), ("index: { enabled: false }\n", false)] {
        project.configure(settings);
        let prompt = project.succeed(&["prompt", "code", "--protocol", "xml"]);
        assert_eq!(prompt.contains("### codebase_search\n"), is_offered, "{settings}");
    }
    assert_eq!(indexes(project.beside("state/roo-lsp")), Vec::<PathBuf>::new());
}

#[test]
fn a_build_that_is_killed_goes_on_from_there() {
    let project = Project::new(&[]);
    let body: String = (0..120).map(|line| format!("    let value_{line} = call_{line}();\n")).collect();
    for number in 0..600 {
        project.write(
            &format!("d{}/f{number}.rs", number % 9),
            &format!("fn function_{number}() {{\n{body}}}\n"),
        );
    }
    let mut command = project.program();
    let mut child =
        command.args(["index", "build"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(progress.next().unwrap().unwrap().ends_with("of 600 files"));
    child.kill().unwrap();
    child.wait().unwrap();
    let status: Value = serde_json::from_str(&project.succeed(&["index", "status", "--json"])).unwrap();
    assert!(status["files"].as_u64().unwrap() > 0, "{status}");
    assert!(project.succeed(&["index", "build"]).contains("files    600 of 600\n"));
    let output = search(&project, "function_577");
    assert!(stdout(&output).contains("File path: d1/f577.rs"), "{output:?}");
}

fn vectors(of: &[[f32; 2]]) -> Answer {
    let data = of.iter().enumerate().map(|(index, vector)| json!({ "index": index, "embedding": vector }));
    let body = json!({ "data": data.collect::<Vec<_>>() }).to_string();
    Answer::status(200, &["content-type: application/json"], body)
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_sent_to_the_endpoint_that_the_user_names_secrets_masked() {
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
    let project = Project::new(&[
        ("car.py", &format!("def drive(car):\n    token = '{token}'\n")),
        ("tree.py", "def grow(tree):\n    pass\n"),
        ("hidden.py", "def hide():\n    pass\n"),
        (".rooignore", "hidden.py\n.rooignore\n"),
    ]);
    let mut server = ModelServer::start([vectors(&[[1.0, 0.0], [0.0, 1.0]]), vectors(&[[1.0, 0.1]])]).await;
    let settings = format!(
        "profiles:\n  small: {{ provider: openai, baseUrl: '{}/v1', model: minilm, apiKeyCommand: [echo, key] }}\nindex: \
         {{ embeddings: small }}\n",
        server.url()
    );
    project.configure(&settings);
    let output = search(&project, "vehicle");
    assert!(stdout(&output).contains("Results:\n\nFile path: car.py"), "{output:?}");
    let sent = server.request().await;
    assert_eq!(sent.line, "POST /v1/embeddings");
    assert_eq!(
        (sent.headers["authorization"].as_str(), &sent.body["model"]),
        ("Bearer key", &json!("minilm"))
    );
    let texts = sent.body["input"].to_string();
    assert!(texts.contains("def drive(car)") && texts.contains("[masked: "), "{texts}");
    assert!(!texts.contains(&token) && !texts.contains("hide"), "{texts}");
    assert_eq!(server.request().await.body["input"], json!(["vehicle"]));
    // The vectors are there, and the endpoint is not.
    assert!(project.succeed(&["index", "build"]).contains("vectors  2\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_fails_leaves_the_order_by_words() {
    let project = Project::new(&[("src/net.rs", RETRY)]);
    let failing =
        || Answer::status(401, &["content-type: application/json"], r#"{"error":{"message":"no"}}"#);
    let server = ModelServer::start([failing(), failing()]).await;
    project.configure(&format!(
        "profiles:\n  small: {{ provider: openai, baseUrl: '{}/v1', model: m }}\nindex: {{ embeddings: small }}\n",
        server.url()
    ));
    let output = search(&project, "retry delay");
    let text = stdout(&output);
    assert!(text.contains("File path: src/net.rs"), "{output:?}");
    assert!(text.contains("(Ranked by words alone: ") && text.contains("status 401"), "{text}");
    project.configure("index: { embeddings: none }\n");
    let output = search(&project, "retry delay");
    assert!(stdout(&output).contains("there is no profile 'none'"), "{output:?}");
}
