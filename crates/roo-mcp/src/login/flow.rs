//! A login from the server's address to credentials, in the steps that its user sees: what is known of it, the address to
//! open in the browser, and the end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::rand::{SecureRandom as _, SystemRandom};
use roo_formats::mcp::ResolvedRemote;
use roo_sandbox::egress::Resolve;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use url::Url;

use super::callback::Callback;
use super::credentials::{Credentials, OAuthClient, TokenEndpointAuthentication};
use super::discovery::Discovery;
use super::error::LoginError;
use super::token;
use super::web::{Web, host_of};
use crate::fault::short;
use crate::network::AddressPolicy;
use crate::services::ClientIdentity;

/// Time limit for the user's consent.
const CONSENT: Duration = Duration::from_secs(10 * 60);

/// What a login is to be for.
pub struct LoginRequest {
    pub server: ResolvedRemote,
    /// True if it is of the older transport: its address gives a stream of events, and takes no requests.
    pub sse: bool,
    /// Addresses that the owner of its configuration may name.
    pub policy: AddressPolicy,
    /// A client that is registered already.
    pub client: Option<GivenClient>,
    /// Scopes to ask for besides those that the server wants.
    pub scopes: Vec<String>,
    /// Port of the loopback for the browser's answer; none for whichever is free.
    pub port: Option<u16>,
}

/// A client that is registered already.
pub struct GivenClient {
    /// Its id, or the address of its metadata document.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<String>,
}

/// A login whose parties are known. Nobody but them was asked, and nothing was sent that could be misused.
pub struct DiscoveredLogin {
    discovery: Discovery,
    web: Web,
    client: Option<GivenClient>,
    client_name: String,
    port: Option<u16>,
}

/// A login that waits for its user in the browser.
pub struct PendingLogin {
    discovery: Discovery,
    web: Web,
    client: OAuthClient,
    callback: Callback,
    address: Url,
    state: String,
    verifier: String,
}

/// Answer to a registration (RFC 7591).
#[derive(Deserialize)]
struct Registration {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<TokenEndpointAuthentication>,
}

/// Asks a server who gives tokens for it, and that one how.
///
/// # Errors
/// See [`LoginError`].
pub async fn discover(
    request: LoginRequest,
    identity: &ClientIdentity,
    resolver: Arc<dyn Resolve>,
) -> Result<DiscoveredLogin, LoginError> {
    let LoginRequest { server, sse, policy, client, scopes, port } = request;
    let web = Web::new(&server.url, policy, resolver, identity.user_agent())?;
    let mut headers = HeaderMap::new();
    for (name, value) in &server.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    let discovery = Discovery::run(&web, &headers, sse, &scopes).await?;
    Ok(DiscoveredLogin { discovery, web, client, client_name: identity.name.clone(), port })
}

impl DiscoveredLogin {
    /// The authorization server.
    pub fn issuer(&self) -> &str {
        &self.discovery.issuer
    }

    /// The hosts that the login involves besides the server, each with its port where that is not the usual one.
    pub fn hosts(&self) -> BTreeSet<String> {
        let Discovery { authorization_endpoint, token_endpoint, registration_endpoint, .. } = &self.discovery;
        [authorization_endpoint, token_endpoint]
            .into_iter()
            .chain(registration_endpoint)
            .map(host_of)
            .collect()
    }

    /// Scopes that are asked for.
    pub fn scopes(&self) -> &[String] {
        &self.discovery.scopes
    }

    /// Registers the client if that is needed, and takes the port for the browser's answer.
    ///
    /// # Errors
    /// See [`LoginError`].
    pub async fn begin(self) -> Result<PendingLogin, LoginError> {
        let Self { discovery, web, client, client_name, port } = self;
        let callback = Callback::bind(port).await.map_err(LoginError::Listener)?;
        let redirect = callback.address();
        let client = match client {
            Some(client) => given(client, &discovery.authentications),
            None => register(&web, &discovery, &client_name, &redirect).await?,
        };
        let (state, verifier) = (random()?, random()?);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        let mut address = discovery.authorization_endpoint.clone();
        {
            let mut query = address.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", &client.id)
                .append_pair("redirect_uri", &redirect)
                .append_pair("state", &state)
                .append_pair("code_challenge", &challenge)
                .append_pair("code_challenge_method", "S256")
                .append_pair("resource", &discovery.resource);
            if !discovery.scopes.is_empty() {
                query.append_pair("scope", &discovery.scopes.join(" "));
            }
        }
        Ok(PendingLogin { discovery, web, client, callback, address, state, verifier })
    }
}

impl PendingLogin {
    /// The address that the user opens in the browser.
    pub fn address(&self) -> &Url {
        &self.address
    }

    /// Waits for the user's consent, ten minutes at most, and gets the tokens.
    ///
    /// # Errors
    /// See [`LoginError`].
    pub async fn finish(self) -> Result<Credentials, LoginError> {
        let Self { discovery, web, client, callback, state, verifier, .. } = self;
        let redirect = callback.address();
        let answer = timeout(CONSENT, callback.answer(&state)).await;
        let answer = answer.unwrap_or(Err(LoginError::NoAnswer(CONSENT)))?;
        let is_from_it = match &answer.sender {
            Some(sender) => *sender == discovery.issuer,
            None => !discovery.names_sender,
        };
        if !is_from_it {
            let named = answer.sender.as_deref().map(short);
            return Err(LoginError::WrongSender { expected: short(&discovery.issuer), named });
        }
        let code = answer.code.map_err(LoginError::Refused)?;
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &redirect),
            ("code_verifier", &verifier),
            ("resource", &discovery.resource),
        ];
        let endpoint = &discovery.token_endpoint;
        let tokens = token::request(&web, endpoint, &client, &grant).await;
        let tokens = tokens.map_err(|error| error.of_login(endpoint))?;
        let asked = (!discovery.scopes.is_empty()).then(|| discovery.scopes.join(" "));
        Ok(Credentials {
            token_endpoint: endpoint.to_string(),
            issuer: discovery.issuer,
            resource: discovery.resource,
            client,
            // Without a word everything was granted that was asked for.
            scope: tokens.scope.or(asked),
            access_token: tokens.access,
            refresh_token: tokens.refresh,
            expiry: tokens.expiry,
        })
    }
}

/// A client that its user registered.
fn given(client: GivenClient, known: &[TokenEndpointAuthentication]) -> OAuthClient {
    let GivenClient { id, secret } = client;
    let authentication = match &secret {
        None => TokenEndpointAuthentication::None,
        Some(_) if only_in_the_body(known) => TokenEndpointAuthentication::ClientSecretPost,
        Some(_) => TokenEndpointAuthentication::ClientSecretBasic,
    };
    OAuthClient { id, secret, authentication }
}

fn only_in_the_body(known: &[TokenEndpointAuthentication]) -> bool {
    known.contains(&TokenEndpointAuthentication::ClientSecretPost)
        && !known.contains(&TokenEndpointAuthentication::ClientSecretBasic)
}

/// Registers this program with the authorization server.
async fn register(
    web: &Web,
    discovery: &Discovery,
    name: &str,
    redirect: &str,
) -> Result<OAuthClient, LoginError> {
    let issuer = || short(&discovery.issuer);
    let Some(endpoint) = &discovery.registration_endpoint else {
        return Err(LoginError::NoRegistration { issuer: issuer() });
    };
    let known = &discovery.authentications;
    // A program on the user's machine keeps no secret from them, so it has one only where it must.
    let wanted = match known.is_empty() || known.contains(&TokenEndpointAuthentication::None) {
        true => TokenEndpointAuthentication::None,
        false if only_in_the_body(known) => TokenEndpointAuthentication::ClientSecretPost,
        false => TokenEndpointAuthentication::ClientSecretBasic,
    };
    let mut metadata = json!({
        "client_name": name,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted,
        "application_type": "native",
    });
    if !discovery.scopes.is_empty() {
        metadata["scope"] = discovery.scopes.join(" ").into();
    }
    let send = |client: &reqwest::Client| {
        client
            .post(endpoint.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(metadata.to_string())
    };
    let reply = web.send(endpoint, send).await?;
    let failed = |reason: String| LoginError::Registration { issuer: issuer(), reason };
    if !reply.status.is_success() {
        return Err(failed(format!("HTTP {}", reply.status.as_u16())));
    }
    let registered = serde_json::from_slice::<Registration>(&reply.body);
    let Ok(Registration { client_id, client_secret, token_endpoint_auth_method }) = registered else {
        return Err(failed("its answer does not follow the protocol".to_owned()));
    };
    let secret = client_secret.filter(|secret| !secret.is_empty());
    let authentication = token_endpoint_auth_method.unwrap_or(wanted);
    if secret.is_none() && authentication != TokenEndpointAuthentication::None {
        return Err(failed("it gave no secret".to_owned()));
    }
    Ok(OAuthClient { id: client_id, secret, authentication })
}

/// A text of 256 random bits.
fn random() -> Result<String, LoginError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| LoginError::Random)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
