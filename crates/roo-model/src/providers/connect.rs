//! The way from a profile to a [`Model`].

use std::sync::Arc;

use super::anthropic::Messages;
use super::gemini::GenerateContent;
use super::http::Endpoint;
use super::http_format::HttpFormat;
use super::http_model::HttpModel;
use super::key::{Key, KeyCommand, StoredKey};
use super::key_store::KeyStore;
use super::listed::ListedModel;
use super::openai::ChatCompletions;
use super::responses::Responses;
use super::scripted::{Script, Scripted};
use super::secret::{Secret, is_usable};
use super::{Model, ModelError, ModelErrorKind};
use roo_formats::config::{Profile, WireFormat};

/// The code behind each wire format: the one place that lists them. None for a script.
pub(super) fn http_format(format: WireFormat) -> Option<&'static dyn HttpFormat> {
    match format {
        WireFormat::AnthropicMessages => Some(&Messages),
        WireFormat::OpenAiChat => Some(&ChatCompletions),
        WireFormat::OpenAiResponses => Some(&Responses),
        WireFormat::Gemini => Some(&GenerateContent),
        WireFormat::Script => None,
    }
}

/// The model of a profile. Cheap, and without network: the HTTP client is made, and a key command is
/// run, by the first request. Connections and the key live as long as the model, so keep it.
///
/// `environment` reads an environment variable.
///
/// # Errors
/// A configuration error that names the profile's field and what to do.
pub fn connect(
    profile: &Profile,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Model>, ModelError> {
    let Some(format) = http_format(profile.wire_format()) else {
        let path = profile
            .script
            .as_deref()
            .ok_or_else(|| lacks("script", "set it to the YAML file with the turns that the model plays"))?;
        return Ok(Arc::new(Scripted::new(Script::read(path)?)));
    };
    let model = profile.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| lacks("model", "set it to the model's name at the endpoint"))?;
    let endpoint = endpoint(format, profile, model, environment)?;
    Ok(Arc::new(HttpModel::new(format, profile, model, endpoint)))
}

/// The models that a profile's endpoint says it has, in its order. The profile needs no model for that.
///
/// # Errors
/// What keeps a request from the endpoint, and an endpoint that has no such list.
pub async fn list_models(
    profile: &Profile,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<Vec<ListedModel>, ModelError> {
    let Some(format) = http_format(profile.wire_format()) else { return Ok(Vec::new()) };
    let endpoint = Arc::new(endpoint(format, profile, "", environment)?);
    let document = Arc::clone(&endpoint).list().await?;
    format.listed(&document).ok_or_else(|| endpoint.no_list())
}

/// Asks a profile's endpoint whether it takes the key. The profile needs no model for that.
///
/// # Errors
/// As for [`list_models`]; [`ModelErrorKind::Unauthorized`] for a key that is refused.
pub async fn check_key(
    profile: &Profile,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<(), ModelError> {
    let Some(format) = http_format(profile.wire_format()) else { return Ok(()) };
    match profile.provider.spec().key_path {
        None => list_models(profile, environment).await.map(drop),
        Some(path) => {
            let mut endpoint = endpoint(format, profile, "", environment)?;
            endpoint.list_at(path);
            Arc::new(endpoint).list().await.map(drop)
        }
    }
}

/// Knowledge about the key of a profile's endpoint without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// One is needed, and there is none.
    Missing,
    /// There is none, and the endpoint may need none.
    NotNeeded,
    /// There is one.
    Present,
}

/// Returns what is known of the key of a profile's endpoint.
///
/// # Errors
/// A `baseUrl` that is no URL.
pub fn key_state(
    profile: &Profile,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<KeyState, ModelError> {
    let Some(format) = http_format(profile.wire_format()) else { return Ok(KeyState::NotNeeded) };
    let endpoint = Endpoint::new(format, profile, "")?;
    Ok(match key(profile, &endpoint, environment) {
        Ok(Key::None) => KeyState::NotNeeded,
        Ok(Key::Given(_) | Key::Stored(_) | Key::Command(_)) => KeyState::Present,
        Err(_) => KeyState::Missing,
    })
}

/// The endpoint and the model of a profile that is used for something else than conversations, by OpenAI's API. In errors,
/// `lack` is such as "has no embeddings", `kind` the kind of model, and `example` a provider that has one.
///
/// # Errors
/// A configuration error that names the profile's field and what to do.
pub(super) fn openai_endpoint(
    profile: &Profile,
    (lack, kind, example): (&str, &str, &str),
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(Endpoint, String), ModelError> {
    let configuration = |message: String| ModelError::new(ModelErrorKind::Configuration, message);
    if !matches!(profile.wire_format(), WireFormat::OpenAiChat | WireFormat::OpenAiResponses) {
        return Err(configuration(format!(
            "The profile's `provider` {lack} that can be used: take `openai`, `{example}` or another one that is \
             OpenAI-compatible."
        )));
    }
    let model = profile.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| {
        configuration(format!(
            "The model profile lacks `model`: set it to the {kind} model's name at the endpoint."
        ))
    })?;
    Ok((endpoint(&ChatCompletions, profile, model, environment)?, model.to_owned()))
}

pub(super) fn endpoint(
    format: &'static dyn HttpFormat,
    profile: &Profile,
    model: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Endpoint, ModelError> {
    let mut endpoint = Endpoint::new(format, profile, model)?;
    let key = key(profile, &endpoint, environment)?;
    if matches!(key, Key::None)
        && let Some(variable) = &profile.api_key_env
    {
        endpoint.lacks_key(format!(
            "the environment variable {}is not set: set it, or run {}",
            shown(variable).unwrap_or_else(|| "that the profile's `apiKeyEnv` names ".to_owned()),
            login_command(profile)
        ));
    }
    endpoint.set_key(key);
    Ok(endpoint)
}

fn key(
    profile: &Profile,
    endpoint: &Endpoint,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Key, ModelError> {
    if let Some(argv) = &profile.api_key_command {
        let command = KeyCommand::new(argv)
            .ok_or_else(|| lacks("apiKeyCommand", "give it a program that prints the key, or remove it"))?;
        return Ok(Key::Command(command));
    }
    // A usual key is never sent to an endpoint that its owner did not name it for.
    let variable = match &profile.api_key_env {
        Some(variable) => Some(variable.as_str()),
        None => profile.provider.spec().key_variable.filter(|_| profile.base_url.is_none()),
    };
    let value = variable.and_then(environment);
    let given = value.as_deref().map(str::trim).filter(|value| !value.is_empty());
    if given.is_none()
        && let Some(store) = KeyStore::from_environment(environment)
        && let Some(secret) = store.read(profile)
    {
        return Ok(Key::Stored(StoredKey::new(store.file(profile), secret)));
    }
    match given {
        Some(value) if is_usable(value) => Ok(Key::Given(Secret::new(value))),
        Some(_) => Err(ModelError::new(
            ModelErrorKind::Configuration,
            format!(
                "The environment variable {}(the profile's `apiKeyEnv`) holds no usable key: a key is one \
                 line of visible ASCII characters.",
                variable.and_then(shown).unwrap_or_default()
            ),
        )),
        None if endpoint.is_loopback() || profile.headers.authenticate() => Ok(Key::None),
        None => Err(match variable {
            Some(variable) => ModelError::new(
                ModelErrorKind::Configuration,
                format!(
                    "No key for {}: the environment variable {}is not set. Set it, or {}name another \
                     one in the profile's `apiKeyEnv`, or a program that prints the key in `apiKeyCommand`.",
                    endpoint.shown(),
                    shown(variable).unwrap_or_else(|| "that the profile's `apiKeyEnv` names ".to_owned()),
                    match (&profile.base_url, profile.provider.spec().key_variable) {
                        (Some(_), _) | (None, Some(_)) => format!("run {}, or ", login_command(profile)),
                        (None, None) => String::new(),
                    },
                ),
            ),
            None => lacks(
                "apiKeyEnv",
                &format!(
                    "name the environment variable that holds the endpoint's key, or give `apiKeyCommand`, or run {}",
                    login_command(profile)
                ),
            ),
        }),
    }
}

/// The command that keeps a key for the endpoint of a profile.
fn login_command(profile: &Profile) -> String {
    let command = format!("roo-lsp login {}", profile.provider.as_str());
    let Some(base_url) = &profile.base_url else { return command };
    // It may hold a password.
    let is_plain =
        |url: &str| url.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":/.-_".contains(&byte));
    match is_plain(base_url) {
        true => format!("{command} --base-url {base_url}"),
        false => format!("{command} with --base-url"),
    }
}

/// A variable's name and a space; none for what could as well be a key in the wrong place.
fn shown(variable: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    (variable.contains('_') && variable.len() <= 64 && variable.chars().all(is_name))
        .then(|| format!("{variable} "))
}

fn lacks(field: &str, remedy: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, format!("The model profile lacks `{field}`: {remedy}."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use roo_formats::config::Price;
    use roo_protocol::task::Usage;

    fn profile(value: serde_json::Value) -> Profile {
        serde_json::from_value(value).unwrap()
    }

    fn error(value: serde_json::Value, environment: &dyn Fn(&str) -> Option<String>) -> String {
        match connect(&profile(value), environment) {
            Err(error) => {
                assert_eq!(error.kind, ModelErrorKind::Configuration);
                error.message
            }
            Ok(model) => panic!("connected to {}", model.origin()),
        }
    }

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let missing = error(json!({ "provider": "anthropic" }), &nothing);
        assert_eq!(missing, "The model profile lacks `model`: set it to the model's name at the endpoint.");
        let missing = error(json!({ "provider": "anthropic", "model": "m" }), &nothing);
        assert!(missing.contains("ANTHROPIC_API_KEY is not set") && missing.contains("apiKeyCommand"));
        let missing = error(json!({ "provider": "scripted" }), &nothing);
        assert!(missing.contains("`script`"), "{missing}");
        let wrong = error(json!({ "provider": "openai", "model": "m", "baseUrl": "ftp://x" }), &nothing);
        assert!(wrong.contains("`baseUrl`"), "{wrong}");
    }

    #[test]
    fn a_key_in_the_place_of_a_variables_name_is_not_repeated() {
        for key in ["sk-123", "gsk_abc", "AKIA0123456789"] {
            let wrong = json!({ "provider": "openai", "model": "m", "apiKeyEnv": key });
            for environment in [&nothing as &dyn Fn(&str) -> Option<String>, &|_| Some("a b".to_owned())] {
                let told = error(wrong.clone(), environment);
                assert!(!told.contains(key) && told.contains("`apiKeyEnv`"), "{told}");
            }
        }
        let named = json!({ "provider": "openai", "model": "m", "apiKeyEnv": "TEAM_KEY" });
        assert!(error(named, &nothing).contains("TEAM_KEY is not set"));
    }

    #[test]
    fn the_usual_key_goes_to_the_providers_own_endpoint_only() {
        let set = |_: &str| Some("sk-123".to_owned());
        assert!(connect(&profile(json!({ "provider": "openai", "model": "m" })), &set).is_ok());
        let elsewhere = json!({ "provider": "openai", "model": "m", "baseUrl": "https://models.example/v1" });
        assert!(error(elsewhere, &set).contains("`apiKeyEnv`"));
    }

    #[test]
    fn loopback_and_own_credentials_need_no_key() {
        for url in
            ["http://localhost:1", "http://127.8.9.1:1", "http://[::1]:1", "http://[::ffff:127.0.0.1]:1"]
        {
            let local = json!({ "provider": "anthropic", "model": "m", "baseUrl": url });
            assert!(connect(&profile(local), &nothing).is_ok(), "{url}");
        }
        let own = json!({
            "provider": "openai", "model": "m", "baseUrl": "https://models.example/v1",
            "headers": { "Authorization": "Bearer x" }
        });
        assert!(connect(&profile(own), &nothing).is_ok());
        let not_local = json!({ "provider": "openai", "model": "m", "baseUrl": "http://localhost.example" });
        assert!(connect(&profile(not_local), &nothing).is_err());
    }

    #[test]
    fn a_stored_key_serves_where_the_named_variable_is_not_set() {
        let state = tempfile::tempdir().unwrap();
        let directory = state.path().to_str().unwrap().to_owned();
        let environment = |name: &str| {
            matches!(name, "HOME" | "XDG_STATE_HOME" | "XDG_CONFIG_HOME").then(|| directory.clone())
        };
        let local = json!({
            "provider": "openai", "model": "m", "baseUrl": "http://127.0.0.1:8765/v1", "apiKeyEnv": "TEAM_KEY"
        });
        let local = profile(local);
        assert_eq!(key_state(&local, &environment).unwrap(), KeyState::NotNeeded);
        KeyStore::from_environment(&environment).unwrap().store(&local, "sk-stored").unwrap();
        assert_eq!(key_state(&local, &environment).unwrap(), KeyState::Present);
        assert!(connect(&local, &environment).is_ok());
    }

    #[test]
    fn an_address_without_a_scheme_is_no_base_url() {
        for url in ["127.0.0.1:8765/v1", "localhost:8765/v1", "models.example"] {
            let wrong = profile(json!({ "provider": "openai", "baseUrl": url }));
            let error = key_state(&wrong, &nothing).unwrap_err();
            assert!(error.message.contains("`baseUrl`"), "{url}: {error}");
        }
    }

    #[test]
    fn tokens_have_their_price() {
        let prices = Price { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
        let usage = Usage {
            tokens_in: 1000,
            tokens_out: 100,
            cache_reads: 10_000,
            cache_writes: 2000,
            ..Usage::default()
        };
        assert!((prices.cost(&usage) - 0.015).abs() < 1e-9);
    }
}
