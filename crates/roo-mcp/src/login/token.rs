//! Requests for tokens: for the code that the browser brought, and for a refresh token.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::StatusCode;
use serde::Deserialize;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::credentials::{Expiry, OAuthClient, TokenEndpointAuthentication};
use super::error::LoginError;
use super::web::{Web, host_of};

/// The longest lifetime that is believed, in seconds: ten years.
const MAX_LIFETIME_SECONDS: u64 = 10 * 365 * 24 * 3600;

/// Tokens as they are given.
pub(super) struct Tokens {
    pub access: String,
    pub refresh: Option<String>,
    pub scope: Option<String>,
    pub expiry: Option<Expiry>,
}

/// Reasons why no tokens are given.
#[derive(Debug)]
pub(super) enum TokenError {
    /// They will not be, however often they are asked for. Holds the code of the reason.
    Refused(String),
    /// It may be otherwise later.
    Failed(LoginError),
}

impl TokenError {
    /// The error of a login at this address.
    pub(super) fn of_login(self, endpoint: &Url) -> LoginError {
        match self {
            Self::Refused(reason) => LoginError::NoToken { host: host_of(endpoint), reason },
            Self::Failed(error) => error,
        }
    }
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    scope: Option<String>,
    #[serde(default)]
    expires_in: Option<Lifetime>,
}

/// A number of seconds, which some servers write as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lifetime {
    Number(f64),
    Text(String),
}

#[derive(Deserialize)]
struct ErrorResponse {
    error: String,
}

/// Asks for tokens by the fields of a grant.
pub(super) async fn request(
    web: &Web,
    endpoint: &Url,
    client: &OAuthClient,
    grant: &[(&str, &str)],
) -> Result<Tokens, TokenError> {
    let (body, header) = form(client, grant);
    let send = |http: &reqwest::Client| {
        let request = http
            .post(endpoint.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(body);
        match header {
            Some(header) => request.header(AUTHORIZATION, header),
            None => request,
        }
    };
    let reply = web.send(endpoint, send).await.map_err(TokenError::Failed)?;
    let without = |reason: &str| {
        TokenError::Failed(LoginError::NoToken { host: host_of(endpoint), reason: reason.to_owned() })
    };
    if !reply.status.is_success() {
        let status = format!("HTTP {}", reply.status.as_u16());
        return Err(match final_refusal(reply.status, &reply.body) {
            true => TokenError::Refused(refusal(&reply.body).unwrap_or(status)),
            false => without(&status),
        });
    }
    // Some answer with an error as if it were none.
    if let Some(code) = refusal(&reply.body) {
        return Err(TokenError::Refused(code));
    }
    let Ok(given) = serde_json::from_slice::<TokenResponse>(&reply.body) else {
        return Err(without("its answer does not follow the protocol"));
    };
    if !given.token_type.eq_ignore_ascii_case("Bearer") {
        return Err(without("it gives tokens of another kind than `Bearer`"));
    }
    if given.access_token.is_empty() || !given.access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(without("its token can't be sent"));
    }
    Ok(Tokens {
        expiry: given.expires_in.and_then(|lifetime| expiry(&lifetime, now())),
        access: given.access_token,
        refresh: given.refresh_token.filter(|token| !token.is_empty()),
        scope: given.scope,
    })
}

/// The fields of a request, and the header by which the client proves itself if it does so.
fn form(client: &OAuthClient, grant: &[(&str, &str)]) -> (String, Option<String>) {
    let mut form = Serializer::new(String::new());
    form.extend_pairs(grant);
    let secret = client.secret.as_deref().unwrap_or_default();
    let mut header = None;
    match client.authentication {
        TokenEndpointAuthentication::None => {
            form.append_pair("client_id", &client.id);
        }
        TokenEndpointAuthentication::ClientSecretPost => {
            form.append_pair("client_id", &client.id).append_pair("client_secret", secret);
        }
        TokenEndpointAuthentication::ClientSecretBasic => {
            let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encoded(&client.id), encoded(secret));
            header = Some(format!("Basic {}", STANDARD.encode(pair)));
        }
    }
    (form.finish(), header)
}

/// Returns whether an error is the authorization server's decision. Any other may be that of what stands before it, such as a proxy
/// that shows a page, and the login is still good.
fn final_refusal(status: StatusCode, body: &[u8]) -> bool {
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => false,
        StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED => true,
        status => status.is_client_error() && error_code(body).is_some(),
    }
}

/// The code of an error, if there is one.
fn error_code(body: &[u8]) -> Option<String> {
    let ErrorResponse { error } = serde_json::from_slice(body).ok()?;
    let is_code = error.len() <= 60 && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_code.then_some(error)
}

/// The code of an error. Its description is left out: it could hold anything, what was sent included.
fn refusal(body: &[u8]) -> Option<String> {
    let ErrorResponse { .. } = serde_json::from_slice(body).ok()?;
    Some(error_code(body).unwrap_or_else(|| "it does not say why".to_owned()))
}

fn expiry(lifetime: &Lifetime, now: u64) -> Option<Expiry> {
    let seconds = match lifetime {
        Lifetime::Number(seconds) => *seconds,
        Lifetime::Text(text) => text.trim().parse().ok()?,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts of floats stop at the bounds"
    )]
    let lifetime = (seconds as u64).min(MAX_LIFETIME_SECONDS);
    Some(Expiry { lifetime, at: now.saturating_add(lifetime) })
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_bounds() {
        let of = |lifetime| expiry(&lifetime, 100).map(|expiry| (expiry.lifetime, expiry.at));
        assert_eq!(of(Lifetime::Number(3600.0)), Some((3600, 3700)));
        assert_eq!(of(Lifetime::Text("3600".to_owned())), Some((3600, 3700)));
        assert_eq!(of(Lifetime::Number(-5.0)), Some((0, 100)));
        assert_eq!(of(Lifetime::Number(f64::MAX)).map(|(lifetime, _)| lifetime), Some(MAX_LIFETIME_SECONDS));
        assert_eq!(of(Lifetime::Text("soon".to_owned())), None);
    }

    #[test]
    fn of_an_error_the_code_alone_is_told() {
        assert_eq!(
            refusal(br#"{"error":"invalid_grant","error_description":"rt-123"}"#).unwrap(),
            "invalid_grant"
        );
        assert_eq!(refusal(br#"{"error":"token rt-123 is bad"}"#).unwrap(), "it does not say why");
        assert_eq!(refusal(b"<html>"), None);
    }

    #[test]
    fn what_does_not_come_from_the_authorization_server_is_no_refusal() {
        let code = r#"{"error":"invalid_grant"}"#;
        let html = "<html>Sign in to the hotel's network";
        for (status, body, is_final) in [
            (400, code, true),
            (400, html, true),
            (401, "", true),
            (403, code, true),
            (403, html, false),
            (403, r#"{"error":"Access denied by policy"}"#, false),
            (404, "", false),
            (407, html, false),
            (408, code, false),
            (429, code, false),
            (502, code, false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(final_refusal(status, body.as_bytes()), is_final, "{status} {body}");
        }
    }
}
