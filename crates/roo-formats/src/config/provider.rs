//! The providers that a profile can name, one entry each. Settings, their schema, completion and `doctor`
//! read this table.
//!
//! What a wire format looks like on the network is the business of `roo_model::providers`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Formats of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WireFormat {
    /// Anthropic's Messages.
    AnthropicMessages,
    /// OpenAI's Chat Completions.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// OpenAI's Responses, without storing anything at the endpoint.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Gemini's `generateContent`.
    Gemini,
    /// None: the model is played from a file.
    #[serde(skip)]
    Script,
}

impl WireFormat {
    /// Its name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic-messages",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Script => "script",
        }
    }
}

/// Data on a provider, known before any request.
#[derive(Debug)]
pub struct ProviderSpec {
    /// The name in settings.
    pub name: &'static str,
    /// A sentence for settings files.
    pub description: &'static str,
    /// Format that it speaks.
    pub wire_format: WireFormat,
    /// The endpoint when a profile names none; empty without a network.
    pub base_url: &'static str,
    /// The environment variable in which its users usually keep their key.
    pub key_variable: Option<&'static str>,
    /// The provider whose models these are too, in another wire format.
    pub same_models_as: Option<&'static str>,
    /// Path below the endpoint's URL that tells about a key, if the endpoint lists its models to anybody.
    pub key_path: Option<&'static str>,
    /// True if its models cost nothing.
    pub free: bool,
}

impl ProviderSpec {
    /// A server that its users usually run on their own machine.
    const fn on_this_machine(name: &'static str, description: &'static str, base_url: &'static str) -> Self {
        Self {
            name,
            description,
            wire_format: WireFormat::OpenAiChat,
            base_url,
            key_variable: None,
            same_models_as: None,
            key_path: None,
            free: true,
        }
    }

    /// The name under which its key and its models are known.
    pub fn owner(&self) -> &'static str {
        self.same_models_as.unwrap_or(self.name)
    }

    /// The endpoint for requests in a format when a profile names none: the formats of others have paths of their own.
    pub fn base_url_for(&self, format: WireFormat) -> Cow<'static, str> {
        match (self.wire_format, format) {
            (WireFormat::AnthropicMessages, WireFormat::OpenAiChat | WireFormat::OpenAiResponses) => {
                format!("{}/v1", self.base_url).into()
            }
            (WireFormat::Gemini, WireFormat::OpenAiChat | WireFormat::OpenAiResponses) => {
                format!("{}/openai", self.base_url).into()
            }
            (WireFormat::OpenAiChat | WireFormat::OpenAiResponses, WireFormat::Gemini) => {
                format!("{}/v1beta", self.base_url.trim_end_matches("/v1")).into()
            }
            _ => self.base_url.into(),
        }
    }

    /// Returns whether the endpoint is on this machine when a profile names none.
    pub fn is_local(&self) -> bool {
        self.base_url.starts_with("http://127.0.0.1:")
    }
}

/// All providers, in the order in which they are offered.
pub static PROVIDERS: &[ProviderSpec] = TABLE;

const TABLE: &[ProviderSpec] = &[
    ProviderSpec {
        name: "anthropic",
        description: "Anthropic's Messages.",
        wire_format: WireFormat::AnthropicMessages,
        base_url: "https://api.anthropic.com",
        key_variable: Some("ANTHROPIC_API_KEY"),
        same_models_as: None,
        key_path: None,
        free: false,
    },
    ProviderSpec {
        name: "openai",
        description: "OpenAI's Chat Completions, as many servers speak it. From GPT-5.4 on, OpenAI's own endpoint is asked by Responses.",
        wire_format: WireFormat::OpenAiChat,
        base_url: "https://api.openai.com/v1",
        key_variable: Some("OPENAI_API_KEY"),
        same_models_as: None,
        key_path: None,
        free: false,
    },
    ProviderSpec {
        name: "openai-responses",
        description: "OpenAI's Responses, which keep a model's reasoning between requests.",
        wire_format: WireFormat::OpenAiResponses,
        base_url: "https://api.openai.com/v1",
        key_variable: Some("OPENAI_API_KEY"),
        same_models_as: Some("openai"),
        key_path: None,
        free: false,
    },
    ProviderSpec {
        name: "gemini",
        description: "Google's Gemini.",
        wire_format: WireFormat::Gemini,
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        key_variable: Some("GEMINI_API_KEY"),
        same_models_as: None,
        key_path: None,
        free: false,
    },
    ProviderSpec {
        name: "openrouter",
        description: "OpenRouter, a gateway to the models of many makers.",
        wire_format: WireFormat::OpenAiChat,
        base_url: "https://openrouter.ai/api/v1",
        key_variable: Some("OPENROUTER_API_KEY"),
        same_models_as: None,
        key_path: Some("/key"),
        free: false,
    },
    ProviderSpec::on_this_machine("ollama", "Ollama on this machine.", "http://127.0.0.1:11434/v1"),
    ProviderSpec::on_this_machine("lm-studio", "LM Studio on this machine.", "http://127.0.0.1:1234/v1"),
    ProviderSpec::on_this_machine(
        "llama-cpp",
        "llama.cpp's server on this machine.",
        "http://127.0.0.1:8080/v1",
    ),
    ProviderSpec::on_this_machine("vllm", "vLLM on this machine.", "http://127.0.0.1:8000/v1"),
    ProviderSpec {
        name: "litellm",
        description: "A LiteLLM gateway on this machine.",
        wire_format: WireFormat::OpenAiChat,
        base_url: "http://127.0.0.1:4000/v1",
        key_variable: Some("LITELLM_API_KEY"),
        same_models_as: None,
        key_path: None,
        free: false,
    },
    ProviderSpec {
        name: "scripted",
        description: "A model played from a script, without a network.",
        wire_format: WireFormat::Script,
        base_url: "",
        key_variable: None,
        same_models_as: None,
        key_path: None,
        free: false,
    },
];

const NAMES: [&str; TABLE.len()] = {
    let mut names = [""; TABLE.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = TABLE[index].name;
        index += 1;
    }
    names
};

/// One of [`PROVIDERS`].
#[derive(Clone, Copy)]
pub struct Provider(&'static ProviderSpec);

impl Provider {
    /// The provider of that name.
    pub fn find(name: &str) -> Option<Self> {
        PROVIDERS.iter().find(|spec| spec.name == name).map(Self)
    }

    /// All of them, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        PROVIDERS.iter().map(Self)
    }

    /// Its entry.
    pub fn spec(self) -> &'static ProviderSpec {
        self.0
    }

    /// Its name in settings.
    pub fn as_str(self) -> &'static str {
        self.0.name
    }
}

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for Provider {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        Self::find(&name).ok_or_else(|| D::Error::unknown_variant(&name, &NAMES))
    }
}

impl JsonSchema for Provider {
    fn schema_name() -> Cow<'static, str> {
        "Provider".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let entry = |spec: &ProviderSpec| json_schema!({ "type": "string", "const": spec.name, "description": spec.description });
        let entries: Vec<Schema> = PROVIDERS.iter().map(entry).collect();
        json_schema!({ "oneOf": entries, "description": "Who serves the model." })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_entry_is_complete_and_its_name_is_found() {
        let names: BTreeSet<&str> = PROVIDERS.iter().map(|spec| spec.name).collect();
        assert_eq!(names.len(), PROVIDERS.len(), "a name stands twice");
        for spec in PROVIDERS {
            assert_eq!(Provider::find(spec.name).unwrap().as_str(), spec.name);
            assert!(spec.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", spec.name);
            assert!(spec.description.ends_with('.'), "{}", spec.name);
            let has_endpoint = spec.base_url.starts_with("http");
            assert_eq!(has_endpoint, spec.wire_format != WireFormat::Script, "{}", spec.name);
        }
    }
}
