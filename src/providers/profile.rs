//! Model profiles as the settings write them, and the way from a profile to a [`Model`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::anthropic::Anthropic;
use super::http::Endpoint;
use super::key::{Key, KeyCommand, Secret, is_usable};
use super::openai::OpenAi;
use super::scripted::{Script, Scripted};
use super::{Model, ModelError, ModelErrorKind};
use crate::parser::ToolProtocol;
use crate::protocol::task::Usage;

/// One model and how to reach it. Unknown fields are ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// The wire format.
    pub provider: Provider,
    /// Where the endpoint is; the provider's own when absent. Anthropic: the host's root. OpenAI: up to
    /// and with `/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The model's name at the endpoint. Required but for `scripted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The environment variable that holds the key. When absent, and no command is given, the provider's
    /// usual variable (`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`), for the provider's own endpoint only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// A program with arguments that prints the key; no shell, at most 10 s. Wins over the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_command: Option<Vec<String>>,
    /// Further request headers; they win over our own.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// How tools are called.
    #[serde(default)]
    pub tool_protocol: ToolProtocol,
    /// Tokens that fit into one request and its answer.
    #[serde(default = "default_context_window")]
    pub context_window: u64,
    /// Tokens of one answer at most; the provider's own limit when absent (Anthropic: 8192).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// How much the model thinks; its own default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// Sampling temperature. Left out where a model refuses it: thinking models have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Prices, for the cost of requests.
    #[serde(default)]
    pub price_per_million: Prices,
    /// How long to wait.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The script of a `scripted` model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<PathBuf>,
}

fn default_context_window() -> u64 {
    128_000
}

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions, and the many endpoints that speak it.
    OpenAi,
    /// The embedded model that plays a script.
    Scripted,
}

impl Provider {
    fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Scripted => "scripted",
        }
    }
}

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reasoning {
    /// Not at all.
    None,
    /// As little as the model can.
    Minimal,
    /// Little.
    Low,
    /// As much as fits most work.
    Medium,
    /// Much.
    High,
    /// As much as the model can.
    Xhigh,
}

/// Request headers. Only their names are ever shown: a value may be a key.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Headers(pub BTreeMap<String, String>);

impl Headers {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn authenticate(&self) -> bool {
        self.0.keys().any(|name| {
            ["authorization", "x-api-key", "api-key"].iter().any(|known| name.eq_ignore_ascii_case(known))
        })
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Prices {
    /// Input that no cache served.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the provider's cache.
    pub cache_read: f64,
    /// Input written to the provider's cache.
    pub cache_write: f64,
}

impl Prices {
    /// What these tokens cost, in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let millionths = usage.tokens_in as f64 * self.input
            + usage.tokens_out as f64 * self.output
            + usage.cache_reads as f64 * self.cache_read
            + usage.cache_writes as f64 * self.cache_write;
        millionths / 1e6
    }
}

/// How long to wait for an endpoint, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// From the request to the first byte of the answer.
    pub first_byte_sec: u64,
    /// From one byte to the next.
    pub idle_sec: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { first_byte_sec: 60, idle_sec: 120 }
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
    let (root, variable) = match profile.provider {
        Provider::Anthropic => ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        Provider::OpenAi => ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        Provider::Scripted => {
            let path = profile.script.as_deref().ok_or_else(|| {
                lacks("script", "set it to the YAML file with the turns that the model plays")
            })?;
            return Ok(Arc::new(Scripted::new(Script::read(path)?)));
        }
    };
    let model = profile.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| lacks("model", "set it to the model's name at the endpoint"))?;
    let mut endpoint = Endpoint::new(profile, root, model)?;
    endpoint.set_key(key(profile, &endpoint, variable, environment)?);
    let origin = format!("{}/{model}", profile.provider.as_str());
    Ok(match profile.provider {
        Provider::Anthropic => Arc::new(Anthropic::new(profile, origin, model, endpoint)),
        _ => Arc::new(OpenAi::new(profile, origin, model, endpoint)),
    })
}

fn key(
    profile: &Profile,
    endpoint: &Endpoint,
    usual_variable: &str,
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
        None => profile.base_url.is_none().then_some(usual_variable),
    };
    let value = variable.and_then(environment);
    match value.as_deref().map(str::trim).filter(|value| !value.is_empty()) {
        Some(value) if is_usable(value) => Ok(Key::Given(Secret::new(value))),
        Some(_) => Err(ModelError::new(
            ModelErrorKind::Configuration,
            format!(
                "The environment variable {} (the profile's `apiKeyEnv`) holds no usable key: a key is one \
                 line of visible ASCII characters.",
                variable.unwrap_or_default()
            ),
        )),
        None if endpoint.is_loopback() || profile.headers.authenticate() => Ok(Key::None),
        None => Err(match variable {
            Some(variable) => ModelError::new(
                ModelErrorKind::Configuration,
                format!(
                    "No key for {}: the environment variable {variable} is not set. Set it, or name another \
                     one in the profile's `apiKeyEnv`, or a program that prints the key in `apiKeyCommand`.",
                    endpoint.shown()
                ),
            ),
            None => lacks(
                "apiKeyEnv",
                "name the environment variable that holds the endpoint's key, or give `apiKeyCommand`",
            ),
        }),
    }
}

fn lacks(field: &str, remedy: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, format!("The model profile lacks `{field}`: {remedy}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
    fn the_settings_of_the_documentation_are_read_and_written_back() {
        let settings = json!({
            "provider": "anthropic", "baseUrl": "http://127.0.0.1:8080", "model": "name",
            "apiKeyEnv": "NAME", "headers": { "x-team": "secret-team" }, "toolProtocol": "xml",
            "contextWindow": 200_000, "maxTokens": 8192, "reasoning": "medium",
            "pricePerMillion": { "input": 3.0, "output": 15.0, "cacheRead": 0.3, "cacheWrite": 3.75 },
            "timeouts": { "firstByteSec": 60, "idleSec": 120 }
        });
        let read = profile(settings.clone());
        assert_eq!(serde_json::to_value(&read).unwrap(), settings);
        assert!(!format!("{read:?}").contains("secret-team"));
    }

    #[test]
    fn a_short_profile_has_defaults_and_unknown_fields_do_no_harm() {
        let read = profile(json!({ "provider": "openai", "model": "m", "fromTheFuture": 1 }));
        assert_eq!(read.timeouts, Timeouts { first_byte_sec: 60, idle_sec: 120 });
        assert_eq!(read.tool_protocol, ToolProtocol::Native);
        assert_eq!(read.context_window, 128_000);
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
        let empty = json!({ "provider": "openai", "model": "m", "apiKeyCommand": [] });
        assert!(error(empty, &nothing).contains("`apiKeyCommand`"));
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
    fn tokens_have_their_price() {
        let prices = Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
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
