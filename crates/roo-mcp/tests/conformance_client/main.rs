//! The client that the conformance suite drives: it connects to the address in its last argument, and calls every tool
//! once with arguments that fit. What the server asks meanwhile is answered by its defaults. Where it wants a login, the
//! user consents at once; twice at most.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use roo_formats::mcp::{ResolvedRemote, ResolvedServer, ToolNames, Transport};
use roo_mcp::login::{
    CredentialKey, CredentialStore, Credentials, GivenClient, LoginRequest, StoreError, discover,
};
use roo_mcp::{
    AddressPolicy, Answer, CallError, CallOptions, ClientIdentity, DesiredServer, DesiredState, Elicitation,
    FormField, Hub, HubServices, PlainLauncher, ServerCatalog, ServerFault, ServerStatus, ToolDescription,
    Wanted,
};
use roo_sandbox::egress::SystemResolver;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

/// Time limit for the server.
const LIMIT: Duration = Duration::from_secs(20);
/// The metadata document by which the suite knows a client that has one.
const METADATA_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

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
    let store = Arc::new(Store::default());
    let services = HubServices::new(launcher, identity()).with_credentials(Arc::clone(&store) as _);
    let hub = Hub::new(services);
    let server = ResolvedServer {
        name: "suite".to_owned(),
        transport: Transport::StreamableHttp(ResolvedRemote { url: url.clone(), headers: BTreeMap::new() }),
        timeout: LIMIT,
    };
    let state = DesiredState::Running {
        server: Box::new(server),
        policy: AddressPolicy::User,
        credentials: Some(CredentialKey::new(&url, None)),
        disabled_tools: ToolNames::default(),
        sampling: false,
        lazy: false,
        prefers_initialize: false,
        sandbox: Box::default(),
        files: 0,
    };
    hub.configure(vec![DesiredServer { name: "suite".to_owned(), state }]);
    let catalog = match connected(&hub).await {
        ServerStatus::NeedsLogin(_) => {
            log_in(&hub, &store, &url, vec![]).await?;
            catalog_of(connected(&hub).await)?
        }
        status => catalog_of(status)?,
    };
    for tool in &catalog.tools {
        match call(&hub, tool).await {
            Err(CallError::Forbidden { fault: ServerFault::Scope { scopes, .. }, .. }) => {
                let scopes = scopes.split_whitespace().map(str::to_owned).collect();
                log_in(&hub, &store, &url, scopes).await?;
                catalog_of(connected(&hub).await)?;
                call(&hub, tool).await
            }
            called => called,
        }
        .map_err(|error| error.to_string())?;
    }
    hub.shutdown().await;
    Ok(())
}

fn identity() -> ClientIdentity {
    ClientIdentity { name: "roo-lsp".to_owned(), version: "0".to_owned() }
}

async fn connected(hub: &Hub) -> ServerStatus {
    hub.settled(LIMIT).await;
    hub.statuses().borrow().get("suite").cloned().unwrap_or(ServerStatus::Disabled)
}

fn catalog_of(status: ServerStatus) -> Result<Arc<ServerCatalog>, String> {
    status.catalog().cloned().ok_or_else(|| format!("{status:?}"))
}

async fn call(hub: &Hub, tool: &ToolDescription) -> Result<(), CallError> {
    let (questions, asked) = mpsc::channel(4);
    let options = CallOptions { questions: Some(questions), ..CallOptions::default() };
    let called = tokio::select! {
        called = hub.call_tool("suite", &tool.name, fitting(tool), &options) => called,
        never = answer_by_defaults(asked) => never,
    };
    called.map(drop)
}

/// Logs in with a browser that consents, and connects again.
async fn log_in(hub: &Hub, store: &Store, url: &str, scopes: Vec<String>) -> Result<(), String> {
    let request = LoginRequest {
        server: ResolvedRemote { url: url.to_owned(), headers: BTreeMap::new() },
        sse: false,
        policy: AddressPolicy::User,
        client: given_client(),
        scopes,
        port: None,
    };
    let found = discover(request, &identity(), Arc::new(SystemResolver)).await;
    let pending =
        found.map_err(|error| error.to_string())?.begin().await.map_err(|error| error.to_string())?;
    let address = pending.address().to_string();
    let browser = async {
        let client = reqwest::Client::builder().no_proxy();
        let client = client.tls_certs_only(std::iter::empty::<reqwest::Certificate>()).build();
        let client = client.map_err(|error| error.to_string())?;
        client.get(address).send().await.map_err(|error| error.to_string())
    };
    let (opened, finished) = tokio::join!(browser, pending.finish());
    opened?;
    let credentials = finished.map_err(|error| error.to_string())?;
    *store.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(credentials);
    hub.restart("suite").await;
    Ok(())
}

/// The client that the suite has registered for the scenario.
fn given_client() -> Option<GivenClient> {
    if std::env::var("MCP_CONFORMANCE_SCENARIO").as_deref() == Ok("auth/basic-cimd") {
        return Some(GivenClient { id: METADATA_DOCUMENT.to_owned(), secret: None });
    }
    let context: Value = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT").ok()?).ok()?;
    let field = |name: &str| context[name].as_str().map(str::to_owned);
    Some(GivenClient { id: field("client_id")?, secret: field("client_secret") })
}

/// Keeps the credentials of the one server.
#[derive(Default)]
struct Store(Mutex<Option<Credentials>>);

impl CredentialStore for Store {
    fn load<'a>(&'a self, _: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Credentials>, StoreError>> {
        Box::pin(async move { Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()) })
    }

    fn replace<'a>(
        &'a self,
        _: &'a CredentialKey,
        credentials: &'a Credentials,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(credentials.clone());
            Ok(())
        })
    }

    fn lock<'a>(&'a self, _: &'a CredentialKey) -> BoxFuture<'a, Result<Box<dyn Send>, StoreError>> {
        Box::pin(async { Ok(Box::new(()) as Box<dyn Send>) })
    }
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
