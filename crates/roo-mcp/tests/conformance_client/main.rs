//! The client that the conformance suite drives: it connects to the address in its last argument, and calls every tool
//! once with arguments that fit. What the server asks meanwhile is answered by its defaults.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use roo_formats::mcp::{ResolvedRemote, ResolvedServer, ToolNames, Transport};
use roo_mcp::{
    AddressPolicy, Answer, CallOptions, ClientIdentity, DesiredServer, DesiredState, Elicitation, FormField,
    Hub, HubServices, PlainLauncher, ToolDescription, Wanted,
};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().next_back() else { return ExitCode::FAILURE };
    match run(url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "{problem}");
            ExitCode::FAILURE
        }
    }
}

async fn run(url: String) -> Result<(), String> {
    let launcher = Arc::new(PlainLauncher::new(BTreeMap::new(), std::env::temp_dir()));
    let identity = ClientIdentity { name: "roo-lsp".to_owned(), version: "0".to_owned() };
    let hub = Hub::new(HubServices::new(launcher, identity));
    let server = ResolvedServer {
        name: "suite".to_owned(),
        transport: Transport::StreamableHttp(ResolvedRemote { url, headers: BTreeMap::new() }),
        timeout: Duration::from_secs(20),
    };
    let state = DesiredState::Running {
        server,
        policy: AddressPolicy::User,
        disabled_tools: ToolNames::default(),
        sandbox: Box::default(),
        files: 0,
    };
    hub.configure(vec![DesiredServer { name: "suite".to_owned(), state }]);
    hub.settled(Duration::from_secs(20)).await;
    let status = hub.statuses().borrow().get("suite").cloned();
    let catalog = status.as_ref().and_then(|status| status.catalog()).ok_or_else(|| format!("{status:?}"))?;
    for tool in &catalog.tools {
        let (questions, asked) = mpsc::channel(4);
        let options = CallOptions { questions: Some(questions), ..CallOptions::default() };
        let called = tokio::select! {
            called = hub.call_tool("suite", &tool.name, fitting(tool), &options) => called,
            never = answer_by_defaults(asked) => never,
        };
        called.map_err(|error| error.to_string())?;
    }
    hub.shutdown().await;
    Ok(())
}

/// Answers forms by their defaults, without end.
async fn answer_by_defaults<T>(mut asked: mpsc::Receiver<Elicitation>) -> T {
    while let Some(Elicitation { wanted, answer, .. }) = asked.recv().await {
        let answered = match wanted {
            Wanted::Form(fields) => {
                let value =
                    |field: &FormField| Some((field.name.clone(), field.read(field.default.as_ref()?).ok()?));
                Answer::Accepted(fields.iter().filter_map(value).collect())
            }
            Wanted::Visit { .. } => Answer::Declined,
        };
        // The server took its question back.
        let _ = answer.send(answered);
    }
    std::future::pending().await
}

/// Arguments that fit a tool's schema.
fn fitting(tool: &ToolDescription) -> Map<String, Value> {
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    let value = |schema: &Value| match schema["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        _ => json!("text"),
    };
    properties.into_iter().flatten().map(|(name, schema)| (name.clone(), value(schema))).collect()
}
