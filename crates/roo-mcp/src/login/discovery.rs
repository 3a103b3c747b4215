//! What a server and its authorization server say of themselves: who gives tokens for the server, where, and how.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use url::Url;

use super::challenge::Challenge;
use super::credentials::TokenEndpointAuthentication;
use super::error::LoginError;
use super::web::Web;
use crate::fault::short;

/// The least that a server answers without doing anything.
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
/// Scope that an authorization server wants for refresh tokens, if it lists it.
const OFFLINE: &str = "offline_access";

/// Everything that is known of a login before it begins.
#[derive(Debug)]
pub(super) struct Discovery {
    /// The authorization server.
    pub issuer: String,
    /// The server, as the authorization server is to know it.
    pub resource: String,
    /// Scopes to ask for.
    pub scopes: Vec<String>,
    /// Where the user consents.
    pub authorization_endpoint: Url,
    /// Where tokens are given.
    pub token_endpoint: Url,
    /// Where clients register, if they can.
    pub registration_endpoint: Option<Url>,
    /// How clients may prove to be themselves; empty if it is not said.
    pub authentications: Vec<TokenEndpointAuthentication>,
    /// True if answers in the browser name their sender (RFC 9207).
    pub names_sender: bool,
}

/// Metadata of a protected resource (RFC 9728).
#[derive(Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Metadata of an authorization server (RFC 8414, or OpenID Connect Discovery).
#[derive(Deserialize)]
struct ServerMetadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    response_types_supported: Option<Vec<String>>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl Discovery {
    /// Asks the server, and the authorization server that it names. `headers` are those of every request to the server, `sse`
    /// says that it is of the older transport, and `scopes` are those that the user wants besides.
    pub(super) async fn run(
        web: &Web,
        headers: &HeaderMap,
        sse: bool,
        scopes: &[String],
    ) -> Result<Self, LoginError> {
        let server = web.server();
        let (challenge, is_refused) = challenge(web, headers, sse).await?;
        let named = match &challenge.resource_metadata {
            Some(address) => {
                let url = web.allow("the server", "its metadata", address)?;
                if url.origin() != server.origin() {
                    return Err(LoginError::Named {
                        owner: "the server".to_owned(),
                        what: "its metadata",
                        address: short(url.origin().ascii_serialization().as_str()),
                        reason: "it is of another server".to_owned(),
                    });
                }
                let found = web.document::<ResourceMetadata>(&url).await?;
                Some(found.ok_or_else(|| no_metadata(&url, "the server"))?)
            }
            None => resource_metadata(web).await?,
        };
        let Some(metadata) = named else {
            // As before version 2025-06-18: the server is its own authorization server.
            let issuer = server.origin().ascii_serialization();
            let known = server_metadata(web, &issuer).await?;
            return match known {
                Some(known) => {
                    // It names itself, and may be any part of its origin.
                    let named =
                        Url::parse(&known.issuer).ok().filter(|named| named.origin() == server.origin());
                    let issuer = if named.is_some() { known.issuer.clone() } else { issuer };
                    Self::new(web, &issuer, server.to_string(), &known, challenge.scope, scopes)
                }
                None if is_refused => Self::without_metadata(web, &issuer, challenge.scope, scopes),
                None => Err(LoginError::NotNeeded),
            };
        };
        check_resource(server, &metadata.resource)?;
        let Some(issuer) = metadata.authorization_servers.first() else {
            return Err(LoginError::NoMetadata {
                address: server.origin().ascii_serialization(),
                what: "an authorization server",
            });
        };
        let url = web.allow("the server", "its authorization server", issuer)?;
        let known = server_metadata(web, issuer).await?;
        let known = known.ok_or_else(|| no_metadata(&url, "an authorization server"))?;
        let wanted = if challenge.scope.is_empty() { metadata.scopes_supported } else { challenge.scope };
        Self::new(web, issuer, metadata.resource, &known, wanted, scopes)
    }

    fn new(
        web: &Web,
        issuer: &str,
        resource: String,
        known: &ServerMetadata,
        wanted: Vec<String>,
        more: &[String],
    ) -> Result<Self, LoginError> {
        if !is_same_issuer(issuer, &known.issuer) {
            return Err(LoginError::WrongIssuer { expected: short(issuer), named: short(&known.issuer) });
        }
        let lacks = |what| LoginError::Unsupported { issuer: short(issuer), what };
        if known
            .response_types_supported
            .as_ref()
            .is_some_and(|types| !types.iter().any(|kind| kind == "code"))
        {
            return Err(lacks("authorization codes"));
        }
        if !known.code_challenge_methods_supported.iter().any(|method| method == "S256") {
            return Err(lacks("PKCE with S256"));
        }
        let allow = |what, address: &str| web.allow(&short(issuer), what, address);
        let mut scopes = joined(wanted, more);
        if !scopes.is_empty() && known.scopes_supported.iter().any(|scope| scope == OFFLINE) {
            scopes = joined(scopes, &[OFFLINE.to_owned()]);
        }
        Ok(Self {
            issuer: known.issuer.clone(),
            resource,
            scopes,
            authorization_endpoint: allow("the browser", &known.authorization_endpoint)?,
            token_endpoint: allow("tokens", &known.token_endpoint)?,
            registration_endpoint: match &known.registration_endpoint {
                Some(address) => Some(allow("registration", address)?),
                None => None,
            },
            authentications: known
                .token_endpoint_auth_methods_supported
                .iter()
                .filter_map(|name| serde_json::from_value(name.as_str().into()).ok())
                .collect(),
            names_sender: known.authorization_response_iss_parameter_supported,
        })
    }

    /// The addresses of version 2025-03-26 for servers without metadata.
    fn without_metadata(
        web: &Web,
        issuer: &str,
        wanted: Vec<String>,
        more: &[String],
    ) -> Result<Self, LoginError> {
        let endpoint = |what, path: &str| web.allow("the server", what, &format!("{issuer}/{path}"));
        Ok(Self {
            issuer: issuer.to_owned(),
            resource: web.server().to_string(),
            scopes: joined(wanted, more),
            authorization_endpoint: endpoint("the browser", "authorize")?,
            token_endpoint: endpoint("tokens", "token")?,
            registration_endpoint: Some(endpoint("registration", "register")?),
            authentications: vec![],
            names_sender: false,
        })
    }
}

/// What the server says to a request without a login, and whether it refuses it.
async fn challenge(web: &Web, headers: &HeaderMap, sse: bool) -> Result<(Challenge, bool), LoginError> {
    let address = web.server().clone();
    let request = |client: &reqwest::Client| match sse {
        true => client.get(address).headers(headers.clone()).header(ACCEPT, "text/event-stream"),
        false => client
            .post(address)
            .headers(headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(PING),
    };
    let (status, challenges) = web.probe(web.server(), request).await?;
    let is_refused = status == StatusCode::UNAUTHORIZED;
    let values = challenges.iter().map(String::as_str);
    let challenge = if is_refused { Challenge::parse(values) } else { None };
    Ok((challenge.unwrap_or_default(), is_refused))
}

/// The metadata of the server, where it does not say itself where they are.
async fn resource_metadata(web: &Web) -> Result<Option<ResourceMetadata>, LoginError> {
    const PLACE: &str = "/.well-known/oauth-protected-resource";
    let path = web.server().path().trim_end_matches('/');
    let mut places = vec![format!("{PLACE}{path}")];
    if !path.is_empty() {
        places.push(PLACE.to_owned());
    }
    for place in places {
        if let Some(found) = web.document(&at(web.server(), &place)).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The metadata of an authorization server; none if there are none at the usual places.
async fn server_metadata(web: &Web, issuer: &str) -> Result<Option<ServerMetadata>, LoginError> {
    const OAUTH: &str = "/.well-known/oauth-authorization-server";
    const OPENID: &str = "/.well-known/openid-configuration";
    let issuer = web.allow("the server", "its authorization server", issuer)?;
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![format!("{OAUTH}{path}"), format!("{OPENID}{path}")];
    if !path.is_empty() {
        places.push(format!("{path}{OPENID}"));
    }
    for place in places {
        if let Some(found) = web.document(&at(&issuer, &place)).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Another path of the same origin.
fn at(url: &Url, path: &str) -> Url {
    let mut other = url.clone();
    other.set_path(path);
    other.set_query(None);
    other
}

fn no_metadata(url: &Url, what: &'static str) -> LoginError {
    LoginError::NoMetadata { address: short(at(url, url.path()).as_str()), what }
}

/// Checks that metadata are of the server, or of a part of its origin that the server lies in.
fn check_resource(server: &Url, resource: &str) -> Result<(), LoginError> {
    let wrong = || LoginError::WrongResource {
        named: short(resource),
        server: short(at(server, server.path()).as_str()),
    };
    let named = Url::parse(resource).map_err(|_| wrong())?;
    let part = named.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(part);
    let is_in_it = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_whole = named.query().is_none() || named.query() == server.query();
    match named.origin() == server.origin() && is_in_it && is_whole && named.fragment().is_none() {
        true => Ok(()),
        false => Err(wrong()),
    }
}

/// Compares two names of authorization servers. A `/` at the end is no difference: many servers write it in one place only.
fn is_same_issuer(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Scopes with more of them, each once.
fn joined(mut scopes: Vec<String>, more: &[String]) -> Vec<String> {
    for scope in more {
        if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_are_of_the_server_or_of_what_it_lies_in() {
        let server = Url::parse("https://mcp.example.com/team/mcp").unwrap();
        for resource in [
            "https://mcp.example.com/team/mcp",
            "https://mcp.example.com/team/mcp/",
            "https://mcp.example.com/team",
            "https://mcp.example.com",
        ] {
            assert!(check_resource(&server, resource).is_ok(), "{resource}");
        }
        for resource in [
            "https://mcp.example.com/team/mcp/more",
            "https://mcp.example.com/tea",
            "https://mcp.example.com/other",
            "https://mcp.example.com:8443/team/mcp",
            "http://mcp.example.com/team/mcp",
            "https://mcp.example.com.evil.example/team/mcp",
            "https://mcp.example.com/team?tenant=2",
            "urn:mcp",
            "",
        ] {
            assert!(check_resource(&server, resource).is_err(), "{resource}");
        }
    }
}
