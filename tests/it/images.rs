//! `generate_image` in the real server: who is asked, what is sent where, and what becomes of the picture.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options};
use crate::support::model_server::{Answer, ModelServer};
use crate::support::project::Project;

const FOX: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR a red fox";
const HAT: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR a red fox with a hat";

const SCRIPT: &str = "
turns:
  - calls: [{ tool: generate_image, params: { prompt: a red fox, path: assets/fox.png } }]
  - when: { contains: \"Wrote assets/fox.png: image/png\" }
    calls: [{ tool: generate_image, params: { prompt: with a hat, path: assets/hat.png, image: assets/fox.png } }]
  - when: { contains: \"Wrote assets/hat.png: image/png\" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
";

fn answer(body: &Value) -> Answer {
    Answer::status(200, &["content-type: application/json"], body.to_string())
}

/// A home whose models are the scripted one and a painter at this endpoint.
fn home(script: &str, painter: &str, more: &str) -> Home {
    let home = Home::playing(script);
    let path = home.path("script.yaml");
    let settings = format!(
        "mode: code\nimageGeneration: {{ profile: painter }}\nprofiles:\n  painter: {painter}\n  default: {{ provider: scripted, \
         script: {}{more}",
        path.display()
    );
    fs::write(home.config_file(), settings).unwrap();
    home
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_made_changed_and_shown_in_both_protocols() {
    for protocol in ["native", "xml"] {
        let made = |bytes: &[u8]| answer(&json!({ "data": [{ "b64_json": STANDARD.encode(bytes) }] }));
        let mut server = ModelServer::start([made(FOX), made(HAT)]).await;
        let painter = format!(
            "{{ provider: openai, baseUrl: '{}/v1', model: dall-e-3, apiKeyCommand: [echo, key] }}",
            server.url()
        );
        let home = home(SCRIPT, &painter, &format!(", toolProtocol: {protocol} }}\n"));
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Draw a fox.");
        let asked = client.answer_until_completed(|_| "allow_once");
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(asked[0].0.contains("Generate assets/fox.png"), "{asked:?}");
        for part in ["To assets/fox.png", "/v1/images/generations dall-e-3", "a red fox"] {
            assert!(asked[0].1.contains(part), "{asked:?}");
        }
        assert!(asked[1].1.contains("From assets/fox.png, which is sent there"), "{asked:?}");

        let sent = server.request().await;
        assert_eq!(sent.line, "POST /v1/images/generations");
        assert_eq!(sent.headers["authorization"], "Bearer key");
        assert_eq!(
            sent.body,
            json!({ "model": "dall-e-3", "prompt": "a red fox", "n": 1, "response_format": "b64_json" })
        );
        let sent = server.request().await.body;
        assert_eq!(sent["image"], format!("data:image/png;base64,{}", STANDARD.encode(FOX)));

        assert_eq!(fs::read(home.work("assets/fox.png")).unwrap(), FOX);
        assert_eq!(fs::read(home.work("assets/hat.png")).unwrap(), HAT);
        let events = client.numbered(&task).into_iter().map(|event| event["event"].clone());
        let finished: Vec<Value> = events.filter(|event| event["type"] == "tool.finished").collect();
        assert_eq!(finished[0]["images"], json!([format!("data:image/png;base64,{}", STANDARD.encode(FOX))]));
        let trace = fs::read_to_string(home.work(".orchestration/agent_trace.jsonl")).unwrap();
        assert!(trace.contains("assets/fox.png") && trace.contains("assets/hat.png"), "{trace}");
        assert!(!trace.contains("a red fox"), "{trace}");
        assert_eq!(client.shut_down(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_brings_a_picture_back_or_deletes_it() {
    let script = "
turns:
  - calls: [{ tool: generate_image, params: { prompt: a red fox, path: assets/fox.png } }]
  - when: { contains: \"Wrote assets/fox.png: image/png\" }
    calls: [{ tool: generate_image, params: { prompt: with a hat, path: assets/fox.png } }]
  - when: { contains: \"Wrote assets/fox.png: image/png\" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
";
    let made = |bytes: &[u8]| answer(&json!({ "data": [{ "b64_json": STANDARD.encode(bytes) }] }));
    let server = ModelServer::start([made(FOX), made(HAT)]).await;
    let painter = format!(
        "{{ provider: openai, baseUrl: '{}/v1', model: dall-e-3, apiKeyCommand: [echo, key] }}",
        server.url()
    );
    let home = home(script, &painter, " }\nautoApprove: { write: true }\n");
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Draw a fox.");
    client.answer_until_completed(|_| "allow_once");
    let fox = home.work("assets/fox.png");
    assert_eq!(fs::read(&fox).unwrap(), HAT);

    let listed = client.request("roo/checkpoint/list", json!({ "taskId": task }));
    let checkpoints = listed["checkpoints"].as_array().unwrap();
    let files: Vec<&Value> = checkpoints.iter().map(|checkpoint| &checkpoint["files"][0]).collect();
    assert_eq!(files[0], &json!({ "path": "assets/fox.png", "change": "created" }));
    assert_eq!(files[1], &json!({ "path": "assets/fox.png", "change": "changed" }));
    let restore = |client: &mut Client, seq: &Value| {
        let params = json!({ "taskId": task, "seq": seq, "what": "files", "preview": true });
        let preview = client.request("roo/checkpoint/restore", params);
        let params = json!({ "taskId": task, "seq": seq, "what": "files", "digest": preview["digest"] });
        let restored = client.request("roo/checkpoint/restore", params);
        (preview["files"][0].clone(), restored["restoredAs"].clone())
    };
    let (file, _) = restore(&mut client, &checkpoints[1]["seq"]);
    assert_eq!(file["before"], format!("(image/png, {} bytes)\n", HAT.len()));
    assert_eq!(file["after"], format!("(image/png, {} bytes)\n", FOX.len()));
    assert_eq!(file["diff"], "Binary files a/assets/fox.png and b/assets/fox.png differ\n");
    assert_eq!(fs::read(&fox).unwrap(), FOX);
    let (file, restored_as) = restore(&mut client, &checkpoints[0]["seq"]);
    assert_eq!(file["diff"], "Binary files a/assets/fox.png and /dev/null differ\n");
    assert!(!fox.exists());
    // A restore is undone like any change.
    restore(&mut client, &restored_as);
    assert_eq!(fs::read(&fox).unwrap(), FOX);
    // What the user made of it since stays.
    fs::write(&fox, b"\x89PNG\r\n\x1a\n mine").unwrap();
    let params = json!({ "taskId": task, "seq": checkpoints[0]["seq"], "what": "files", "preview": true });
    let preview = client.request("roo/checkpoint/restore", params);
    assert_eq!(preview["files"], json!([]));
    assert_eq!(preview["conflicts"][0]["reason"], "it was changed since it was created");
    assert_eq!(client.shut_down(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_puts_the_picture_into_its_answer_and_what_is_none_is_not_written() {
    let script = "
turns:
  - calls: [{ tool: generate_image, params: { prompt: a fox, path: fox.png } }]
  - when: { contains: the model answered in words alone }
    calls: [{ tool: generate_image, params: { prompt: a fox, path: fox.png } }]
  - when: { contains: so it can't be named fox.png }
    calls: [{ tool: generate_image, params: { prompt: a fox, path: fox.jpg } }]
  - when: { contains: \"Wrote fox.jpg: image/jpeg\" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
";
    let jpeg = b"\xff\xd8\xff\xe0 a fox";
    let url = format!("data:image/jpeg;base64,{}", STANDARD.encode(jpeg));
    let words = json!({ "choices": [{ "message": { "content": "I can't." } }] });
    let image = json!({ "type": "image_url", "image_url": { "url": url } });
    let made = json!({ "choices": [{ "message": { "content": "Here.", "images": [image] } }] });
    let mut server = ModelServer::start([answer(&words), answer(&made), answer(&made)]).await;
    let painter = format!(
        "{{ provider: openrouter, baseUrl: '{}/api/v1', model: google/gemini-2.5-flash-image }}",
        server.url()
    );
    let home = home(script, &painter, " }\nautoApprove: { write: true }\n");
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Draw a fox.");
    let asked = client.answer_until_completed(|_| "allow_once");
    assert!(asked.is_empty(), "writes are allowed: {asked:?}");
    let sent = server.request().await;
    assert_eq!(sent.line, "POST /api/v1/chat/completions");
    assert_eq!(sent.body["modalities"], json!(["image", "text"]));
    assert_eq!(sent.body["messages"], json!([{ "role": "user", "content": "a fox" }]));
    assert!(!home.work("fox.png").exists());
    assert_eq!(fs::read(home.work("fox.jpg")).unwrap(), jpeg);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn without_a_profile_for_it_no_image_is_offered_or_made() {
    let project = Project::new(&[("a.txt", "a\n")]);
    let painter = "profiles:\n  painter: { provider: openai, baseUrl: 'http://127.0.0.1:9/v1', model: m }\n";
    for (settings, is_offered) in [
        ("mode: code\n".to_owned(), false),
        (format!("{painter}imageGeneration: {{ profile: painter }}\n"), true),
        ("imageGeneration: { profile: painter }\n".to_owned(), false),
    ] {
        project.configure(&settings);
        let prompt = project.succeed(&["prompt", "code", "--protocol", "xml"]);
        assert_eq!(prompt.contains("### generate_image\n"), is_offered, "{settings}");
    }
    let params = json!({ "prompt": "a fox", "path": "fox.png" }).to_string();
    let refused = |settings: &str| {
        project.configure(settings);
        let output = project.run(&["tool", "generate_image", "--mode=code", "--params", &params]);
        assert!(!output.status.success(), "{output:?}");
        [output.stdout, output.stderr].concat().iter().map(|byte| char::from(*byte)).collect::<String>()
    };
    let told = refused("mode: code\n");
    assert!(told.contains("the setting `imageGeneration.profile` names no profile"), "{told}");
    let told = refused("imageGeneration: { profile: painter }\n");
    assert!(told.contains("there is no profile 'painter'"), "{told}");
    assert!(!project.folder().join("fox.png").exists());
}
