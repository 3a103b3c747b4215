//! What is told over NATS, by a server that only keeps what is published.

use std::path::Path;

use roo_durable::WorkspaceDirectory;
use roo_engine::customization::Setup as CustomizationSetup;
use roo_engine::engine::clock::SystemClock;
use roo_formats::config::{Directories, Layer, load};
use roo_text::position::Encoding;
use roo_workspace::{Setup as WorkspaceSetup, Workspace};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::mcp::McpServers;
use crate::nats::Server;
use crate::workspace_engine::workspace_engine;
use crate::workspace_parts::WorkspaceParts;

/// The subjects and messages that were published.
type Published = mpsc::UnboundedReceiver<(String, Value)>;

/// A connection to a server that takes one client and whatever it publishes.
async fn connection() -> (Connection, Published) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (told, published) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        serve(client, &told).await;
    });
    let server = Server {
        address: format!("nats://{address}").parse().unwrap(),
        prefix: "roo".parse().unwrap(),
        credentials: None,
        authorities: None,
        certificate: None,
        plaintext: true,
    };
    (Connection::open(&server, "test").await.unwrap(), published)
}

async fn serve(client: TcpStream, told: &mpsc::UnboundedSender<(String, Value)>) {
    let (input, mut output) = client.into_split();
    let mut input = BufReader::new(input);
    let info =
        json!({ "server_id": "s", "version": "2.10.0", "proto": 1, "headers": true, "max_payload": 1 << 20 });
    output.write_all(format!("INFO {info}\r\n").as_bytes()).await.unwrap();
    let mut line = String::new();
    while input.read_line(&mut line).await.is_ok_and(|length| length > 0) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.as_slice() {
            ["PING"] => output.write_all(b"PONG\r\n").await.unwrap(),
            ["PUB", subject, .., size] => {
                let mut payload = vec![0; size.parse::<usize>().unwrap() + 2];
                input.read_exact(&mut payload).await.unwrap();
                payload.truncate(payload.len() - 2);
                let _ = told.send((subject.to_owned(), serde_json::from_slice(&payload).unwrap()));
            }
            _ => {}
        }
        line.clear();
    }
}

/// An engine whose model plays a script, in a folder below a directory.
fn engine(directory: &Path, script: &str) -> (Arc<Engine>, Arc<Customization>, PathBuf) {
    let path = |name: &str| directory.join(name);
    std::fs::create_dir(path("work")).unwrap();
    std::fs::write(path("script.yaml"), script).unwrap();
    let profile = json!({ "provider": "scripted", "script": path("script.yaml") });
    let keys = json!({ "profiles": { "default": profile } });
    let layer = Layer::from_command_line(keys.as_object().unwrap().clone());
    let settings = Arc::new(load([layer]).unwrap().settings);
    let directories =
        Directories { config: path("config"), state: path("state"), home: None, settings_file: None };
    let folder = path("work");
    let state = WorkspaceDirectory::new(&directories.state, &folder);
    let customization = Customization::open(CustomizationSetup {
        folders: vec![folder.clone()],
        directories: directories.clone(),
        state_directory: state.path().to_owned(),
    });
    let workspace = Workspace::open(WorkspaceSetup {
        folders: vec![folder.clone()],
        state_directory: state.path().to_owned(),
        documents: Arc::default(),
        editor: None,
        encoding: Encoding::Utf8,
    });
    let customization = Arc::new(customization.unwrap());
    let parts = WorkspaceParts {
        settings: Arc::new(settings),
        workspace: Arc::new(workspace.unwrap()),
        customization: Arc::clone(&customization),
        directory: state,
        directories,
    };
    let mcp = Arc::new(McpServers::new(parts.clone()));
    (Arc::new(workspace_engine(parts, Arc::new(SystemClock), mcp)), customization, folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn of_two_commands_that_join_a_task_at_a_time_one_tells_its_events() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let (connection, mut published) = connection().await;
    let script = "turns: [{ calls: [{ tool: attempt_completion, params: { result: Done. } }] }]\n";
    let (engine, customization, folder) = engine(&root, script);
    let setup = Setup {
        engine: Arc::clone(&engine),
        customization,
        folder,
        instance: "desk".to_owned(),
        takes_approvals: false,
        heartbeat: Duration::from_secs(30),
    };
    let end = CancellationToken::new();
    let requests = Requests::new(setup, connection.clone(), end.clone());
    let params = TaskStartParams { prompt: "Do it.".to_owned(), ..TaskStartParams::default() };
    let task = engine.start(params).unwrap().task_id;

    // Both commands have found it not joined.
    let (one, other) = (engine.follow(&task, 0).await.unwrap(), engine.follow(&task, 0).await.unwrap());
    let (one, other) = tokio::join!(requests.join(&task, one, 0), requests.join(&task, other, 0));
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(requests.work.len(), 1, "one follows it");

    let mut events = vec![];
    loop {
        let (subject, message) = published.recv().await.unwrap();
        let is_end = message["type"] == "taskCompleted";
        events.push((subject, message));
        if is_end {
            break;
        }
    }
    end.cancel();
    requests.shut_down().await;
    connection.flush().await;
    events.extend(std::iter::from_fn(|| published.try_recv().ok()));
    let count = |is_it: &dyn Fn(&(String, Value)) -> bool| events.iter().filter(|event| is_it(event)).count();
    assert_eq!(count(&|(subject, _)| subject.ends_with(".joined")), 1);
    for kind in ["taskCreated", "taskStarted", "taskCompleted"] {
        assert_eq!(count(&|(_, message)| message["type"] == kind), 1, "{kind}: {events:?}");
    }
}
