//! Logging in to servers over HTTP by OAuth: with an authorization server on the loopback, and with a browser that follows
//! redirects and asks nobody.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::BoxFuture;
use pretty_assertions::assert_eq;
use roo_formats::mcp::{ResolvedServer, Transport};
use roo_mcp::login::{
    CredentialKey, CredentialStore, Credentials, DiscoveredLogin, GivenClient, LoginError, LoginRequest,
    PendingLogin, StoreError, TokenEndpointAuthentication, discover,
};
use roo_mcp::{AddressPolicy, CallOptions, DesiredServer, DesiredState, Hub, HubServices};
use roo_sandbox::egress::{Resolve, SystemResolver};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;
use url::form_urlencoded;

use crate::http_server::*;
use crate::support::*;

/// What the authorization server knows, and what of it a test changes.
#[derive(Default)]
struct Authority {
    /// The challenge of the login that was begun last.
    challenge: String,
    /// The access token that the server takes, and the refresh token that is good for the next.
    access: String,
    refresh: String,
    given: usize,
    expires_in: Option<u64>,
    /// The code of the error of every refresh.
    refuses_refresh: Option<&'static str>,
    /// Fields of its metadata, and of those of the server, that are others than usual.
    metadata: Value,
    resource: Value,
    /// True if calls of tools need a scope that no token has.
    wants_scope: bool,
    /// The parameter `iss` of its answers in the browser.
    sender: Option<String>,
}

impl Authority {
    fn tokens(&mut self) -> Reply {
        self.given += 1;
        self.access = format!("access-{}", self.given);
        self.refresh = format!("refresh-{}", self.given);
        let mut tokens = json!({
            "access_token": self.access, "refresh_token": self.refresh, "token_type": "bearer",
        });
        if let Some(seconds) = self.expires_in {
            tokens["expires_in"] = seconds.into();
        }
        document(&tokens)
    }

    fn answer(&mut self, request: &Request) -> Reply {
        let own = format!("http://{}", request.header("host").unwrap());
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        match path {
            "/.well-known/oauth-authorization-server" => document(&with(
                json!({
                    "issuer": own, "authorization_endpoint": format!("{own}/authorize"),
                    "token_endpoint": format!("{own}/token"), "registration_endpoint": format!("{own}/register"),
                    "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                    "scopes_supported": ["read", "offline_access"],
                }),
                &self.metadata,
            )),
            "/register" => document(&json!({ "client_id": "client-1" })),
            "/authorize" => {
                let query = fields(query);
                self.challenge = query["code_challenge"].clone();
                let mut target = Url::parse(&query["redirect_uri"]).unwrap();
                target.query_pairs_mut().append_pair("code", "code-1").append_pair("state", &query["state"]);
                if let Some(sender) = &self.sender {
                    target.query_pairs_mut().append_pair("iss", sender);
                }
                reply("302 Found", &format!("location: {target}\r\n"), "")
            }
            "/token" => {
                let form = fields(&request.text);
                match form["grant_type"].as_str() {
                    "authorization_code" => {
                        let verified = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
                        match form["code"] == "code-1" && verified == self.challenge {
                            true => self.tokens(),
                            false => refused("invalid_grant"),
                        }
                    }
                    _ if self.refuses_refresh.is_some() => refused(self.refuses_refresh.unwrap()),
                    _ if form["refresh_token"] == self.refresh => self.tokens(),
                    _ => refused("invalid_grant"),
                }
            }
            _ => reply("404 Not Found", "", ""),
        }
    }
}

fn document(value: &Value) -> Reply {
    reply("200 OK", "content-type: application/json\r\n", value.to_string())
}

fn refused(code: &str) -> Reply {
    let body = json!({ "error": code, "error_description": "s3cret" }).to_string();
    reply("400 Bad Request", "content-type: application/json\r\n", body)
}

/// An object with other fields; those that are null are left out.
fn with(mut object: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().into_iter().flatten() {
        object[name.as_str()] = value.clone();
    }
    object.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    object
}

fn fields(query: &str) -> BTreeMap<String, String> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// A server that takes the tokens of an authorization server.
struct World {
    server: Server,
    authorization_server: Server,
    authority: Arc<Mutex<Authority>>,
    store: Arc<MemoryStore>,
}

impl World {
    async fn new(authority: Authority) -> Self {
        let authority = Arc::new(Mutex::new(authority));
        let this = Arc::clone(&authority);
        let authorization_server = Server::start(move |request| this.lock().unwrap().answer(request)).await;
        let (this, issuer) = (Arc::clone(&authority), authorization_server.url(""));
        let server = Server::start(move |request| {
            let authority = this.lock().unwrap();
            let own = format!("http://{}", request.header("host").unwrap());
            let place = format!("{own}/.well-known/oauth-protected-resource/mcp");
            let known = json!({ "resource": format!("{own}/mcp"), "authorization_servers": [issuer] });
            let is_valid = request.header("authorization") == Some(&format!("Bearer {}", authority.access));
            match request.path.as_str() {
                "/.well-known/oauth-protected-resource/mcp" => document(&with(known, &authority.resource)),
                "/mcp" if is_valid && authority.wants_scope && request.rpc() == "tools/call" => {
                    let challenge = "Bearer error=\"insufficient_scope\", scope=\"write; `x`\"";
                    reply("403 Forbidden", &format!("www-authenticate: {challenge}\r\n"), "")
                }
                "/mcp" if is_valid && !authority.access.is_empty() => ordinary(request),
                _ => {
                    let challenge = format!("Bearer resource_metadata=\"{place}\", scope=\"read\"");
                    reply("401 Unauthorized", &format!("www-authenticate: {challenge}\r\n"), "")
                }
            }
        })
        .await;
        Self { server, authorization_server, authority, store: Arc::default() }
    }

    fn url(&self) -> String {
        self.server.url("/mcp")
    }

    fn key(&self) -> CredentialKey {
        CredentialKey::new(&self.url(), None)
    }

    async fn discovered(&self, client: Option<GivenClient>) -> Result<DiscoveredLogin, LoginError> {
        let request = LoginRequest {
            server: remote(&self.url(), &[]),
            sse: false,
            policy: AddressPolicy::User,
            client,
            scopes: vec![],
            port: None,
        };
        discover(request, &identity(), Arc::new(SystemResolver)).await
    }

    async fn begun(&self) -> Result<PendingLogin, LoginError> {
        self.discovered(None).await?.begin().await
    }

    /// A login by a user who consents.
    async fn login(&self) -> Result<Credentials, LoginError> {
        let pending = self.begun().await?;
        let browser = tokio::spawn(browse(pending.address().to_string()));
        let credentials = pending.finish().await;
        assert_eq!(browser.await.unwrap().0, 200);
        credentials
    }

    /// A hub that has the server, with what logins to it gave.
    fn hub(&self, key: CredentialKey) -> Hub {
        let launcher = FakeLauncher::new(|_, _| async {});
        let services = HubServices::new(launcher, identity());
        let hub = Hub::new(services.with_credentials(Arc::clone(&self.store) as _));
        let server = ResolvedServer {
            transport: Transport::StreamableHttp(remote(&self.url(), &[])),
            ..stdio("s", "", &[])
        };
        let DesiredServer { name, state } = running(server);
        let DesiredState::Running { server, policy, disabled_tools, sandbox, files, .. } = state else {
            unreachable!()
        };
        let credentials = Some(key);
        let state = DesiredState::Running {
            server,
            policy,
            credentials,
            disabled_tools,
            sampling: false,
            lazy: false,
            prefers_initialize: false,
            sandbox,
            files,
        };
        hub.configure(vec![DesiredServer { name, state }]);
        hub
    }

    /// A hub that is logged in and connected.
    async fn logged_in(&self) -> Hub {
        self.store.put(&self.key(), self.login().await.unwrap());
        let hub = self.hub(self.key());
        connected(&hub, "s").await;
        hub
    }

    /// The forms of the requests for tokens.
    fn token_requests(&self) -> Vec<BTreeMap<String, String>> {
        let requests = self.authorization_server.requests();
        requests
            .iter()
            .filter(|request| request.path == "/token")
            .map(|request| fields(&request.text))
            .collect()
    }
}

/// What a browser comes to at an address: the status and the page.
async fn browse(address: String) -> (u16, String) {
    let client = reqwest::Client::builder().no_proxy();
    let client = client.tls_certs_only(std::iter::empty::<reqwest::Certificate>()).build().unwrap();
    let response = client.get(address).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[derive(Default)]
struct MemoryStore {
    credentials: Mutex<BTreeMap<String, Credentials>>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl MemoryStore {
    fn put(&self, key: &CredentialKey, credentials: Credentials) {
        self.credentials.lock().unwrap().insert(key.to_string(), credentials);
    }

    fn get(&self, key: &CredentialKey) -> Option<Credentials> {
        self.credentials.lock().unwrap().get(&key.to_string()).cloned()
    }
}

impl CredentialStore for MemoryStore {
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Credentials>, StoreError>> {
        Box::pin(async move { Ok(self.get(key)) })
    }

    fn replace<'a>(
        &'a self,
        key: &'a CredentialKey,
        credentials: &'a Credentials,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.put(key, credentials.clone());
            Ok(())
        })
    }

    fn lock<'a>(&'a self, _: &'a CredentialKey) -> BoxFuture<'a, Result<Box<dyn Send>, StoreError>> {
        Box::pin(async move { Ok(Box::new(Arc::clone(&self.lock).lock_owned().await) as Box<dyn Send>) })
    }
}

async fn call(hub: &Hub) -> Result<(), String> {
    let called = hub.call_tool("s", "echo", arguments(json!({})), &CallOptions::default()).await;
    called.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_user_logs_in_and_requests_have_the_token() {
    let world = World::new(Authority::default()).await;
    let hub = world.hub(world.key());
    let told = needs_login(&hub, "s").await;
    assert_eq!(told, "run `roo-lsp mcp login s`, or set the header `Authorization` in mcp.json");
    let refused = call(&hub).await.unwrap_err();
    assert!(refused.contains("is not connected (needs login: run `roo-lsp mcp login s`"), "{refused}");

    let found = world.discovered(None).await.unwrap();
    assert_eq!(found.issuer(), world.authorization_server.url(""));
    assert_eq!(Vec::from_iter(found.hosts()), [world.authorization_server.address.to_string()]);
    assert_eq!(found.scopes(), ["read", "offline_access"]);
    let asked = world.authorization_server.requests();
    assert_eq!(
        asked.iter().map(|request| &*request.path).collect::<Vec<_>>(),
        ["/.well-known/oauth-authorization-server"]
    );

    let credentials = world.login().await.unwrap();
    let asked = world.authorization_server.requests();
    let registered = &asked.iter().find(|request| request.path == "/register").unwrap().body;
    assert_eq!(registered["token_endpoint_auth_method"], "none");
    assert_eq!(registered["grant_types"], json!(["authorization_code", "refresh_token"]));
    let redirect = registered["redirect_uris"][0].as_str().unwrap();
    assert!(redirect.starts_with("http://127.0.0.1:"), "{redirect}");
    let opened = asked.iter().find_map(|request| request.path.strip_prefix("/authorize?")).unwrap();
    let opened = fields(opened);
    assert_eq!(opened["resource"], world.url());
    assert_eq!(opened["code_challenge_method"], "S256");
    assert_eq!((&*opened["scope"], &*opened["client_id"]), ("read offline_access", "client-1"));
    let form = world.token_requests().remove(0);
    assert_eq!((&*form["resource"], &*form["redirect_uri"]), (&*world.url(), redirect));

    world.store.put(&world.key(), credentials);
    assert!(hub.restart("s").await);
    connected(&hub, "s").await;
    call(&hub).await.unwrap();
    let calls = world.server.requests();
    let last = calls.iter().rfind(|request| request.rpc() == "tools/call").unwrap();
    assert_eq!(last.header("authorization"), Some("Bearer access-1"));
    let log: String = hub.log("s").unwrap().lines().into_iter().map(|line| line.text).collect();
    assert!(!log.contains("access-1"), "{log}");
}

#[tokio::test]
async fn a_token_is_refreshed_once_when_it_ends_or_is_refused() {
    let world = World::new(Authority { expires_in: Some(3600), ..Authority::default() }).await;
    let hub = world.logged_in().await;
    world.authority.lock().unwrap().access = "revoked".to_owned();
    call(&hub).await.unwrap();
    assert_eq!(world.store.get(&world.key()).unwrap().refresh_token.as_deref(), Some("refresh-2"));
    let forms = world.token_requests();
    assert_eq!(
        (forms.len(), &*forms[1]["refresh_token"], &*forms[1]["resource"]),
        (2, "refresh-1", &*world.url())
    );

    // One that has ended is not even sent.
    let mut over = world.store.get(&world.key()).unwrap();
    over.expiry.as_mut().unwrap().at = 1;
    world.store.put(&world.key(), over);
    let hub = world.hub(world.key());
    connected(&hub, "s").await;
    assert_eq!(world.token_requests().len(), 3);
    let sent = world.server.requests();
    let initialized = sent.iter().rfind(|request| request.rpc() == "initialize").unwrap();
    assert_eq!(initialized.header("authorization"), Some("Bearer access-3"));
}

#[tokio::test]
async fn a_refresh_that_is_refused_needs_a_login_and_repeats_nothing() {
    let world = World::new(Authority::default()).await;
    let hub = world.logged_in().await;
    {
        let mut authority = world.authority.lock().unwrap();
        authority.access = "revoked".to_owned();
        authority.refuses_refresh = Some("invalid_grant");
    }
    let refused = call(&hub).await.unwrap_err();
    assert!(
        refused.starts_with("MCP server `s` did not do the tool `echo`: it needs a login: run"),
        "{refused}"
    );
    let told = status(&hub, "s", |status| status.label() == "needs login").await;
    let told = format!("{told:?} {refused}");
    assert!(told.contains("it can't be refreshed (invalid_grant)") && !told.contains("s3cret"), "{told}");
    assert_eq!(world.token_requests().len(), 2);
    let calls = world.server.requests();
    assert_eq!(calls.iter().filter(|request| request.rpc() == "tools/call").count(), 1);
}

#[tokio::test]
async fn a_call_that_the_login_does_not_permit_names_the_scope_and_ends_nothing() {
    let world = World::new(Authority { wants_scope: true, ..Authority::default() }).await;
    let hub = world.logged_in().await;
    assert_eq!(
        call(&hub).await.unwrap_err(),
        "MCP server `s` did not do the tool `echo`: its login does not permit this; log in again with `roo-lsp mcp login \
         s --scope 'write; x'`"
    );
    world.authority.lock().unwrap().wants_scope = false;
    call(&hub).await.unwrap();
    assert_eq!(world.token_requests().len(), 1);
}

#[tokio::test]
async fn an_authorization_server_that_fails_ends_no_login() {
    let world = World::new(Authority::default()).await;
    let hub = world.logged_in().await;
    {
        let mut authority = world.authority.lock().unwrap();
        authority.access = "revoked".to_owned();
        // No refusal: its answer is none of the protocol.
        authority.refresh = "gone".to_owned();
        authority.refuses_refresh = None;
    }
    let credentials = world.store.get(&world.key()).unwrap();
    let nowhere = Credentials { token_endpoint: "http://127.0.0.1:1/token".to_owned(), ..credentials };
    world.store.put(&world.key(), nowhere.clone());
    call(&hub).await.unwrap_err();
    let (fault, retry) = failed(&hub, "s").await;
    assert!(fault.starts_with("it can't be reached: 127.0.0.1:1 can't be reached"), "{fault}");
    assert!(retry.is_some());
    assert_eq!(world.store.get(&world.key()), Some(nowhere));
}

#[tokio::test]
async fn what_another_process_refreshed_is_used() {
    let world = World::new(Authority::default()).await;
    let hub = world.logged_in().await;
    let other = {
        let mut authority = world.authority.lock().unwrap();
        authority.tokens();
        let credentials = world.store.get(&world.key()).unwrap();
        Credentials {
            access_token: authority.access.clone(),
            refresh_token: Some(authority.refresh.clone()),
            ..credentials
        }
    };
    world.store.put(&world.key(), other);
    call(&hub).await.unwrap();
    assert_eq!(world.token_requests().len(), 1);
}

#[tokio::test]
async fn another_address_under_the_same_name_has_no_token() {
    let world = World::new(Authority::default()).await;
    let hub = world.logged_in().await;
    hub.shutdown().await;
    let other = World::new(Authority::default()).await;
    other.authority.lock().unwrap().access = world.authority.lock().unwrap().access.clone();
    let hub =
        World { store: Arc::clone(&world.store), ..other }.hub(CredentialKey::new(&other_url(&world), None));
    needs_login(&hub, "s").await;
}

fn other_url(world: &World) -> String {
    world.server.url("/other")
}

#[tokio::test]
async fn a_login_with_parties_that_do_not_fit_is_refused() {
    for (resource, metadata, expected) in [
        (
            json!({ "resource": "https://evil.example/mcp" }),
            json!({}),
            "are those of another server, https://evil.example/mcp",
        ),
        (json!({ "authorization_servers": [] }), json!({}), "has no metadata of an authorization server"),
        (
            json!({ "authorization_servers": ["http://auth.example.com"] }),
            json!({}),
            "http://auth.example.com: it is not encrypted",
        ),
        (json!({ "authorization_servers": ["http://169.254.169.254"] }), json!({}), "http://169.254.169.254"),
        (
            json!({}),
            json!({ "issuer": "https://evil.example" }),
            "are those of another authorization server, https://evil.example",
        ),
        (
            json!({}),
            json!({ "code_challenge_methods_supported": ["plain"] }),
            "does not support PKCE with S256",
        ),
        (json!({}), json!({ "code_challenge_methods_supported": null }), "does not support PKCE with S256"),
        (json!({}), json!({ "response_types_supported": ["token"] }), "does not support authorization codes"),
        (
            json!({}),
            json!({ "authorization_endpoint": "file:///etc/passwd" }),
            "names an address for the browser that is not used",
        ),
        (
            json!({}),
            json!({ "token_endpoint": "http://auth.example.com/token" }),
            "names an address for tokens that is not used",
        ),
        (json!({}), json!({ "registration_endpoint": null }), "lets no client register itself"),
    ] {
        let world = World::new(Authority { resource, metadata, ..Authority::default() }).await;
        let error = match world.begun().await {
            Ok(_) => panic!("{expected}"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(world.token_requests().len(), 0);
    }
}

#[tokio::test]
async fn the_metadata_of_the_server_are_its_own() {
    let elsewhere = Server::start(|_| document(&json!({}))).await;
    let place = elsewhere.url("/metadata");
    let server = Server::start(move |_| {
        let challenge = format!("www-authenticate: Bearer resource_metadata=\"{place}\"\r\n");
        reply("401 Unauthorized", &challenge, "")
    })
    .await;
    let request = LoginRequest {
        server: remote(&server.url("/mcp"), &[]),
        sse: false,
        policy: AddressPolicy::User,
        client: None,
        scopes: vec![],
        port: None,
    };
    let error = discover(request, &identity(), Arc::new(SystemResolver)).await.err().unwrap().to_string();
    assert!(error.ends_with("it is of another server"), "{error}");
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_server_of_the_older_transport_is_asked_for_its_stream() {
    let authority: Arc<Mutex<Authority>> = Arc::default();
    let issuer = Server::start(move |request| authority.lock().unwrap().answer(request)).await;
    let named = issuer.url("");
    let server = Server::start(move |request| {
        let own = format!("http://{}", request.header("host").unwrap());
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/sse") => {
                let challenge = format!("www-authenticate: Bearer resource_metadata=\"{own}/metadata\"\r\n");
                reply("401 Unauthorized", &challenge, "")
            }
            ("GET", "/metadata") => {
                document(&json!({ "resource": format!("{own}/sse"), "authorization_servers": [named] }))
            }
            // As the reference implementation answers requests to the address of its stream.
            _ => reply("404 Not Found", "", ""),
        }
    })
    .await;
    let request = LoginRequest {
        server: remote(&server.url("/sse"), &[]),
        sse: true,
        policy: AddressPolicy::User,
        client: None,
        scopes: vec![],
        port: None,
    };
    let found = discover(request, &identity(), Arc::new(SystemResolver)).await.unwrap();
    assert_eq!(found.issuer(), issuer.url(""));
    assert!(server.requests().iter().all(|request| request.method == "GET"));
}

/// Has every name lead to this machine.
struct Rebound;

impl Resolve for Rebound {
    fn resolve<'a>(&'a self, _: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(vec![([127, 0, 0, 1], port).into()]) })
    }
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_not_asked() {
    for policy in [AddressPolicy::User, AddressPolicy::Workspace] {
        let server = remote("https://mcp.example.com/mcp", &[]);
        let request = LoginRequest { server, sse: false, policy, client: None, scopes: vec![], port: None };
        let error = discover(request, &identity(), Arc::new(Rebound)).await.err().unwrap().to_string();
        assert!(error.contains("DNS rebinding"), "{error}");
    }
}

#[tokio::test]
async fn an_answer_of_another_authorization_server_is_refused() {
    let named = json!({ "authorization_response_iss_parameter_supported": true });
    for (metadata, sender) in [(json!({}), Some("https://evil.example".to_owned())), (named, None)] {
        let world = World::new(Authority { metadata, sender, ..Authority::default() }).await;
        let error = world.login().await.unwrap_err().to_string();
        assert!(error.starts_with("the answer in the browser came from "), "{error}");
        assert!(world.token_requests().is_empty());
    }
}

#[tokio::test]
async fn an_answer_with_another_state_is_turned_away_and_the_login_goes_on() {
    let world = World::new(Authority::default()).await;
    let pending = world.begun().await.unwrap();
    let opened = fields(pending.address().query().unwrap());
    let (address, redirect) = (pending.address().to_string(), opened["redirect_uri"].clone());
    let login = tokio::spawn(pending.finish());
    for (address, status) in [
        (format!("{redirect}?code=evil&state=guessed"), 400),
        (format!("{redirect}?code=evil"), 400),
        (redirect.replace("callback", "?code=evil"), 404),
        (redirect.replace("127.0.0.1", "localhost"), 404),
    ] {
        assert_eq!(browse(address.clone()).await.0, status, "{address}");
    }
    assert_eq!(browse(address).await.0, 200);
    assert_eq!(login.await.unwrap().unwrap().access_token, "access-1");
    assert_eq!(world.token_requests()[0]["code"], "code-1");
}

#[tokio::test]
async fn a_login_is_given_up_after_many_answers_of_others() {
    let world = World::new(Authority::default()).await;
    let pending = world.begun().await.unwrap();
    let redirect = fields(pending.address().query().unwrap())["redirect_uri"].clone();
    let login = tokio::spawn(pending.finish());
    for _ in 0..21 {
        assert_eq!(browse(format!("{redirect}?code=evil&state=guessed")).await.0, 400);
    }
    let error = login.await.unwrap().unwrap_err().to_string();
    assert_eq!(error, "the login was given up after 20 answers that don't belong to it");
}

#[tokio::test]
async fn a_user_who_refuses_is_told_why_there_is_no_login() {
    let world = World::new(Authority::default()).await;
    let pending = world.begun().await.unwrap();
    let opened = fields(pending.address().query().unwrap());
    let answer = format!(
        "{}?error=access_denied&error_description=No&state={}",
        opened["redirect_uri"], opened["state"]
    );
    let (page, login) = tokio::join!(browse(answer), pending.finish());
    assert_eq!(login.unwrap_err().to_string(), "the login was refused: access_denied: No");
    assert!(page.1.contains("The login was refused."), "{}", page.1);
}

#[tokio::test]
async fn a_client_that_is_registered_already_proves_itself() {
    for (metadata, secret, authentication) in [
        (json!({}), None, TokenEndpointAuthentication::None),
        (json!({}), Some("a:b"), TokenEndpointAuthentication::ClientSecretBasic),
        (
            json!({ "token_endpoint_auth_methods_supported": ["client_secret_post"] }),
            Some("a:b"),
            TokenEndpointAuthentication::ClientSecretPost,
        ),
    ] {
        let metadata = with(metadata, &json!({ "registration_endpoint": null }));
        let world = World::new(Authority { metadata, ..Authority::default() }).await;
        let client = GivenClient { id: "mine".to_owned(), secret: secret.map(str::to_owned) };
        let pending = world.discovered(Some(client)).await.unwrap().begin().await.unwrap();
        let browser = tokio::spawn(browse(pending.address().to_string()));
        let credentials = pending.finish().await.unwrap();
        browser.await.unwrap();
        assert_eq!(credentials.client.authentication, authentication);
        let requests = world.authorization_server.requests();
        let sent = requests.iter().find(|request| request.path == "/token").unwrap();
        let form = fields(&sent.text);
        let found = (
            form.get("client_id").map(String::as_str),
            form.get("client_secret").map(String::as_str),
            // mine:a%3Ab
            sent.header("authorization"),
        );
        assert_eq!(
            found,
            match authentication {
                TokenEndpointAuthentication::None => (Some("mine"), None, None),
                TokenEndpointAuthentication::ClientSecretPost => (Some("mine"), secret, None),
                TokenEndpointAuthentication::ClientSecretBasic =>
                    (None, None, Some("Basic bWluZTphJTNBYg==")),
            }
        );
    }
}
