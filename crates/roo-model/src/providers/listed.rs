//! Models as an endpoint lists them, with what it says of each.

use serde_json::Value;

use roo_formats::config::Price;

/// One model that an endpoint offers. What the endpoint doesn't say is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedModel {
    /// Its name in requests.
    pub id: String,
    /// Number of tokens that a request and its answer may have together.
    pub window: Option<u64>,
    /// Number of tokens that an answer may have.
    pub output: Option<u64>,
    /// US dollars for a million tokens.
    pub price: Option<Price>,
}

impl ListedModel {
    /// An entry of OpenAI's list, with what OpenRouter, vLLM, LiteLLM and llama.cpp add to it.
    pub(super) fn from_openai(entry: &Value) -> Option<Self> {
        let count = |values: &[&Value]| values.iter().find_map(|value| value.as_u64());
        Some(Self {
            id: entry["id"].as_str()?.to_owned(),
            window: count(&[
                &entry["context_length"],
                &entry["max_model_len"],
                &entry["max_input_tokens"],
                &entry["meta"]["n_ctx_train"],
            ]),
            output: count(&[&entry["top_provider"]["max_completion_tokens"], &entry["max_output_tokens"]]),
            price: openrouter_price(&entry["pricing"]),
        })
    }

    /// An entry of Anthropic's list.
    pub(super) fn from_anthropic(entry: &Value) -> Option<Self> {
        let count = |value: &Value| value.as_u64().filter(|count| *count > 0);
        Some(Self {
            id: entry["id"].as_str()?.to_owned(),
            window: count(&entry["max_input_tokens"]),
            output: count(&entry["max_tokens"]),
            price: None,
        })
    }

    /// An entry of Gemini's list, if it answers `generateContent`.
    pub(super) fn from_gemini(entry: &Value) -> Option<Self> {
        let methods = entry["supportedGenerationMethods"].as_array()?;
        if !methods.iter().any(|method| method == "generateContent") {
            return None;
        }
        let name = entry["name"].as_str()?;
        Some(Self {
            id: name.strip_prefix("models/").unwrap_or(name).to_owned(),
            window: entry["inputTokenLimit"].as_u64(),
            output: entry["outputTokenLimit"].as_u64(),
            price: None,
        })
    }
}

/// OpenRouter gives dollars for one token, as text.
fn openrouter_price(pricing: &Value) -> Option<Price> {
    let million = |name: &str| Some(pricing[name].as_str()?.parse::<f64>().ok()? * 1e6);
    Some(Price {
        input: million("prompt")?,
        output: million("completion")?,
        cache_read: million("input_cache_read").unwrap_or_default(),
        cache_write: million("input_cache_write").unwrap_or_default(),
    })
}
