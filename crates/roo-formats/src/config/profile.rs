//! A model profile: which endpoint, which model, and how it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::argv::optional_argv;
use super::condense::{Condense, CondenseForm};
use super::model_catalogue::CatalogueModel;
use super::model_version::ModelVersion;
use super::price::Price;
use super::provider::{Provider, WireFormat};
use roo_catalog::{Group, TOOLS, ToolId, ToolName, ToolProtocol};
use roo_protocol::task::Usage;

/// One named way to reach a model. What is left out is the provider's own default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Provider that serves the model.
    pub provider: Provider,
    /// Format of requests, where it is not what the provider usually speaks: a gateway may speak several.
    #[serde(default)]
    pub wire_format: Option<WireFormat>,
    /// The endpoint. Anthropic's Messages take the host's root, with or without `/v1`; the others take everything up to and
    /// with the version, such as `/v1`.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The model's name at the endpoint.
    #[serde(default)]
    pub model: Option<String>,
    /// The environment variable that holds the key. Without it and without a command, the provider's
    /// usual variable (such as `ANTHROPIC_API_KEY`), for the provider's own endpoint only.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// A command (argv, no shell, at most 10 s) that prints the key. Wins over the environment.
    #[serde(default, deserialize_with = "optional_argv")]
    pub api_key_command: Option<Vec<String>>,
    /// Further HTTP headers; they win over our own.
    #[serde(default)]
    pub headers: Headers,
    /// Protocol in which the model is asked to call tools. When left out, native unless the catalogue rules it out.
    #[serde(default)]
    pub tool_protocol: Option<ToolProtocol>,
    /// Tools that this model gets besides the usual ones, where its mode has their group: `apply_patch`, `edit_file`,
    /// `run_slash_command`, `view_diff`. When left out, models from GPT-5 on and those of the Codex family get `apply_patch`, and a
    /// script gets all of them.
    #[serde(default)]
    pub included_tools: Option<Vec<String>>,
    /// Tools that this model does not get, whatever its mode has. What every mode needs stays: `write_to_file`
    /// and what steers the conversation.
    #[serde(default)]
    pub excluded_tools: Vec<String>,
    /// Number of tokens that a request and its answer may have together. When left out, the catalogue's figure. A conversation
    /// that would not fit is shortened.
    #[serde(default)]
    pub context_window: Option<u64>,
    /// Number of tokens that an answer may have.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// When earlier turns of a long conversation are replaced by a summary that a model writes; `off` for never.
    #[serde(default)]
    #[schemars(with = "CondenseForm")]
    pub condense: Condense,
    /// Amount of thinking before the model answers.
    #[serde(default)]
    pub reasoning: Option<Reasoning>,
    /// Sampling temperature.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Prices in US dollars for a million tokens. When left out, those that the catalogue knows for the provider's own
    /// endpoint; otherwise costs count as unknown.
    #[serde(default)]
    pub price_per_million: Option<Price>,
    /// Time limits for a silent endpoint.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Least time between the beginnings of two requests to the same host with the same key, in seconds. It counts for
    /// all tasks of a server together.
    #[serde(default)]
    pub rate_limit_seconds: u64,
    /// Number of requests to the same host with the same key that may begin within a minute, of all tasks of a server
    /// together.
    #[serde(default)]
    pub requests_per_minute: Option<NonZeroU32>,
    /// Number of tokens that requests to the same host with the same key may have within a minute, input and output, of
    /// all tasks of a server together. What is read from Anthropic's cache doesn't count, as it doesn't there.
    #[serde(default)]
    pub tokens_per_minute: Option<NonZeroU64>,
    /// The name of the profile that takes over for the rest of a request when the model of this one has failed five times
    /// in a row, or when its endpoint asks to wait for more than 30 seconds. Where the user chose the profile for a request, it stays.
    #[serde(default)]
    pub fallback: Option<String>,
    /// The script of the `scripted` provider.
    #[serde(default)]
    pub script: Option<PathBuf>,
}

impl Profile {
    /// A provider with everything that follows from it, and no model yet.
    pub fn new(provider: Provider) -> Self {
        Self {
            provider,
            wire_format: None,
            base_url: None,
            model: None,
            api_key_env: None,
            api_key_command: None,
            headers: Headers::default(),
            tool_protocol: None,
            included_tools: None,
            excluded_tools: Vec::new(),
            context_window: None,
            max_tokens: None,
            condense: Condense::default(),
            reasoning: None,
            temperature: None,
            price_per_million: None,
            timeouts: Timeouts::default(),
            rate_limit_seconds: 0,
            requests_per_minute: None,
            tokens_per_minute: None,
            fallback: None,
            script: None,
        }
    }

    /// Returns the format of its requests.
    pub fn wire_format(&self) -> WireFormat {
        let usual = || match self.needs_responses() {
            true => WireFormat::OpenAiResponses,
            false => self.provider.spec().wire_format,
        };
        self.wire_format.unwrap_or_else(usual)
    }

    /// Returns whether the model is one that calls tools at OpenAI only by the Responses API, unless it is kept from thinking.
    /// Other endpoints translate for themselves.
    fn needs_responses(&self) -> bool {
        let version = self.model.as_deref().and_then(ModelVersion::parse_gpt);
        self.provider.as_str() == "openai"
            && self.base_url.is_none()
            && version.is_some_and(|version| version >= ModelVersion::new(5, 4))
    }

    /// Returns the catalogue's entry of its model.
    pub fn known(&self) -> Option<&'static CatalogueModel> {
        CatalogueModel::find(self.provider, self.model.as_deref()?.trim())
    }

    /// Returns the protocol in which the model is asked to call tools.
    pub fn tool_protocol(&self) -> ToolProtocol {
        let known = || self.known().filter(|model| !model.native_tools).map(|_| ToolProtocol::Xml);
        self.tool_protocol.or_else(known).unwrap_or_default()
    }

    /// Returns the number of tokens that a request and its answer may have together, where that is known.
    pub fn context_window(&self) -> Option<u64> {
        self.context_window.or_else(|| Some(self.known()?.window))
    }

    /// Returns the prices of tokens, where they are known. Another endpoint than the provider's own has prices of its
    /// own.
    pub fn prices(&self) -> Option<Price> {
        let known = || match self.provider.spec().free {
            true => Some(Price::default()),
            false => self.known().map(|model| model.price),
        };
        self.price_per_million.or_else(|| self.base_url.is_none().then(known)?)
    }

    /// Returns the number of tokens by which a request counts towards `tokensPerMinute`.
    pub fn rated_tokens(&self, usage: &Usage) -> u64 {
        let cached = match self.wire_format() {
            WireFormat::AnthropicMessages => 0,
            WireFormat::OpenAiChat
            | WireFormat::OpenAiResponses
            | WireFormat::Gemini
            | WireFormat::Script => usage.cache_reads,
        };
        [usage.tokens_out, usage.cache_writes, cached].into_iter().fold(usage.tokens_in, u64::saturating_add)
    }

    /// Returns whether the model is played from a file.
    pub fn plays_script(&self) -> bool {
        self.wire_format() == WireFormat::Script
    }

    /// Returns the choice of tools for its model.
    pub fn tools(&self) -> ToolChoice {
        let named = |names: &[String]| names.iter().filter_map(|name| ToolId::of_call(name)).collect();
        let included = match &self.included_tools {
            Some(names) => named(names),
            // A script calls what it calls.
            None if self.plays_script() => return ToolChoice::all(),
            None if self.model.as_deref().is_some_and(patches) => {
                BTreeSet::from([ToolId::from(ToolName::ApplyPatch)])
            }
            None => BTreeSet::new(),
        };
        let mut excluded: BTreeSet<ToolId> = named(&self.excluded_tools);
        excluded.retain(|tool| {
            tool.built_in().map(ToolName::spec).is_none_or(|spec| {
                matches!(spec.group, Group::Read | Group::Edit | Group::Command | Group::Mcp)
                    && !spec.is_in_every_mode
            })
        });
        ToolChoice { included, excluded }
    }
}

/// Returns whether a model is of a family that was taught to write patches.
fn patches(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    ModelVersion::parse_gpt(model).is_some_and(|version| version >= ModelVersion::new(5, 0))
        || name.contains("codex")
}

/// Choice of a mode's tools for a model. Names of tools that don't exist here change nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolChoice {
    included: BTreeSet<ToolId>,
    excluded: BTreeSet<ToolId>,
}

impl ToolChoice {
    /// Returns the tools that every model gets, and the opt-in tools as well.
    pub fn all() -> Self {
        let opt_in = TOOLS.iter().filter(|spec| spec.is_opt_in).map(|spec| spec.name.into());
        Self { included: opt_in.collect(), excluded: BTreeSet::new() }
    }

    /// A choice of opt-in tools that are included, and of tools that are excluded. Names of tools that don't exist change
    /// nothing.
    pub fn of_names(included: &[String], excluded: &[String]) -> Self {
        let named = |names: &[String]| names.iter().filter_map(|name| ToolId::of_call(name)).collect();
        Self { included: named(included), excluded: named(excluded) }
    }

    /// The names of the opt-in tools that are included, and of the tools that are excluded.
    pub fn names(&self) -> (Vec<String>, Vec<String>) {
        let names = |tools: &BTreeSet<ToolId>| tools.iter().map(ToString::to_string).collect();
        (names(&self.included), names(&self.excluded))
    }

    /// Returns whether the model gets the tool, if its mode has it.
    pub fn has(&self, tool: impl Into<ToolId>) -> bool {
        let tool = tool.into();
        let is_opt_in = tool.built_in().is_some_and(|tool| tool.spec().is_opt_in);
        let included = !is_opt_in || self.included.contains(&tool);
        included && !self.excluded.contains(&tool)
    }
}

/// Levels of a model's thinking, from none to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reasoning {
    /// Not at all.
    None,
    /// As little as the model can.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// Very much.
    Xhigh,
    /// As much as the model can.
    Max,
}

/// HTTP headers by name. Values may be credentials, so [`fmt::Debug`] shows the names only.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Headers(pub BTreeMap<String, String>);

impl Headers {
    /// Returns whether one of them carries a credential.
    pub fn authenticate(&self) -> bool {
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

/// Time limits for a silent endpoint, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// Until the first byte of the answer. When left out, 600 for a server of your own (a local provider, or an address
    /// on this machine or in a private network) and 300 for any other.
    pub first_byte_sec: Option<u64>,
    /// Between two bytes of it. When left out, the same: a model may think for minutes without a sign.
    pub idle_sec: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(profile: serde_json::Value) -> ToolChoice {
        let profile: Profile = serde_json::from_value(profile).unwrap();
        profile.tools()
    }

    #[test]
    fn a_patch_is_for_models_that_were_taught_it_or_whose_profile_says_so() {
        let has = |profile| tools(profile).has(ToolName::ApplyPatch);
        for model in ["gpt-5", "gpt-5.1-mini", "GPT-5-Codex", "openai/gpt-6-sol", "codex-mini-latest"] {
            assert!(has(serde_json::json!({ "provider": "openai", "model": model })), "{model}");
        }
        for model in ["gpt-4.1", "claude-sonnet-4-5", "my-gpt-5-like"] {
            assert!(!has(serde_json::json!({ "provider": "openai", "model": model })), "{model}");
        }
        let named = |tools: &[&str]| {
            has(serde_json::json!({ "provider": "openai", "model": "gpt-5", "includedTools": tools }))
        };
        assert!(named(&["apply_patch", "edit_file"]));
        assert!(!named(&[]), "what the profile says counts");
        assert!(!ToolChoice::default().has(ToolName::ApplyPatch));
    }

    #[test]
    fn openai_is_asked_by_responses_where_a_model_calls_tools_by_nothing_else() {
        let format = |more: serde_json::Value| {
            let mut profile = serde_json::json!({ "provider": "openai" });
            profile.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            serde_json::from_value::<Profile>(profile).unwrap().wire_format()
        };
        for model in ["gpt-5.4", "gpt-5.5-pro", "gpt-6.2-sol"] {
            assert_eq!(format(serde_json::json!({ "model": model })), WireFormat::OpenAiResponses, "{model}");
        }
        for model in ["gpt-5.3-codex", "gpt-4.1", "o4-mini"] {
            assert_eq!(format(serde_json::json!({ "model": model })), WireFormat::OpenAiChat, "{model}");
        }
        for own in [
            serde_json::json!({ "model": "gpt-6-sol", "baseUrl": "https://models.example.com/v1" }),
            serde_json::json!({ "model": "gpt-6-sol", "wireFormat": "openai-chat" }),
        ] {
            assert_eq!(format(own.clone()), WireFormat::OpenAiChat, "{own}");
        }
    }

    #[test]
    fn what_the_catalogue_knows_counts_where_the_profile_says_nothing() {
        let profile = |value| serde_json::from_value::<Profile>(value).unwrap();
        let named = profile(serde_json::json!({ "provider": "anthropic", "model": "claude-sonnet-4-5" }));
        assert_eq!(named.prices().unwrap().output, 15.0);
        assert_eq!((named.context_window(), named.tool_protocol()), (Some(200_000), ToolProtocol::Native));
        let own = profile(serde_json::json!({
            "provider": "anthropic", "model": "claude-sonnet-4-5", "contextWindow": 1_000_000,
            "pricePerMillion": { "input": 6 }, "toolProtocol": "xml",
        }));
        assert_eq!(own.prices().unwrap(), Price { input: 6.0, ..Price::default() });
        assert_eq!((own.context_window(), own.tool_protocol()), (Some(1_000_000), ToolProtocol::Xml));
        let elsewhere = profile(serde_json::json!({
            "provider": "anthropic", "model": "claude-sonnet-4-5", "baseUrl": "https://models.example",
        }));
        assert_eq!(elsewhere.prices(), None);
        assert_eq!(elsewhere.context_window(), Some(200_000));
        let local = profile(serde_json::json!({ "provider": "ollama", "model": "qwen3" }));
        assert_eq!((local.prices(), local.context_window()), (Some(Price::default()), None));
        let unknown = profile(serde_json::json!({ "provider": "openai", "model": "gpt-0" }));
        assert_eq!((unknown.prices(), unknown.context_window()), (None, None));
    }

    #[test]
    fn tokens_of_a_cache_count_where_the_provider_counts_them() {
        let usage =
            Usage { tokens_in: 1, tokens_out: 10, cache_reads: 100, cache_writes: 1000, cost_usd: 0.0 };
        let rated = |provider: &str| {
            let profile = serde_json::json!({ "provider": provider });
            serde_json::from_value::<Profile>(profile).unwrap().rated_tokens(&usage)
        };
        assert_eq!((rated("anthropic"), rated("openai")), (1011, 1111));
    }

    #[test]
    fn limits_that_let_nothing_through_are_refused() {
        let profile = |key: &str, value: i64| {
            serde_json::from_value::<Profile>(serde_json::json!({ "provider": "openai", key: value }))
        };
        for key in ["requestsPerMinute", "tokensPerMinute"] {
            assert!(
                profile(key, 0).is_err() && profile(key, -1).is_err() && profile(key, 1).is_ok(),
                "{key}"
            );
        }
        assert!(profile("rateLimitSeconds", -1).is_err() && profile("rateLimitSeconds", 0).is_ok());
    }

    #[test]
    fn what_every_mode_needs_is_not_excluded() {
        let all: Vec<&str> = TOOLS.iter().map(|spec| spec.name.as_str()).collect();
        let left = tools(serde_json::json!({ "provider": "openai", "excludedTools": all }));
        assert!(!left.has(ToolName::ApplyDiff) && !left.has(ToolName::ExecuteCommand));
        for tool in [ToolName::WriteToFile, ToolName::AttemptCompletion, ToolName::SelectActiveIntent] {
            assert!(left.has(tool), "{tool}");
        }
    }
}
