//! The providers of Roo Code, and what they are here. Endpoints are those that its own handlers use.

use serde_json::{Map, Value};

/// A provider of Roo Code whose models can be reached.
pub(super) struct RooProvider {
    /// Its name there.
    pub(super) roo: &'static str,
    /// Its name here.
    pub(super) here: &'static str,
    /// The key of the model's name.
    pub(super) model: &'static str,
    /// The key of another endpoint.
    url: Option<&'static str>,
    /// The usual endpoint, where it is not that of the provider here.
    usual: Option<&'static str>,
    /// Path that an address here ends with and one of Roo Code's may leave out.
    version: &'static str,
}

/// A provider that speaks like OpenAI at an address of its own.
const fn compatible(roo: &'static str, model: &'static str, usual: &'static str) -> RooProvider {
    RooProvider { roo, here: "openai", model, url: None, usual: Some(usual), version: "" }
}

/// The same, where another address can be set.
const fn movable(
    roo: &'static str,
    model: &'static str,
    url: &'static str,
    usual: &'static str,
) -> RooProvider {
    RooProvider { url: Some(url), ..compatible(roo, model, usual) }
}

/// A provider that there is here too.
const fn known(
    roo: &'static str,
    here: &'static str,
    model: &'static str,
    url: &'static str,
    version: &'static str,
) -> RooProvider {
    RooProvider { roo, here, model, url: Some(url), usual: None, version }
}

/// The key of the model's name that most providers share.
const MODEL: &str = "apiModelId";

const PROVIDERS: &[RooProvider] = &[
    known("anthropic", "anthropic", MODEL, "anthropicBaseUrl", ""),
    known("openai", "openai", "openAiModelId", "openAiBaseUrl", ""),
    known("openai-native", "openai-responses", MODEL, "openAiNativeBaseUrl", "/v1"),
    known("openrouter", "openrouter", "openRouterModelId", "openRouterBaseUrl", ""),
    known("gemini", "gemini", MODEL, "googleGeminiBaseUrl", "/v1beta"),
    known("ollama", "ollama", "ollamaModelId", "ollamaBaseUrl", "/v1"),
    known("lmstudio", "lm-studio", "lmStudioModelId", "lmStudioBaseUrl", "/v1"),
    known("litellm", "litellm", "litellmModelId", "litellmBaseUrl", "/v1"),
    movable("deepseek", MODEL, "deepSeekBaseUrl", "https://api.deepseek.com"),
    movable("deepinfra", "deepInfraModelId", "deepInfraBaseUrl", "https://api.deepinfra.com/v1/openai"),
    movable("doubao", MODEL, "doubaoBaseUrl", "https://ark.cn-beijing.volces.com/api/v3"),
    movable("moonshot", MODEL, "moonshotBaseUrl", "https://api.moonshot.ai/v1"),
    movable("minimax", MODEL, "minimaxBaseUrl", "https://api.minimax.io/v1"),
    movable("requesty", "requestyModelId", "requestyBaseUrl", "https://router.requesty.ai/v1"),
    compatible("mistral", MODEL, "https://api.mistral.ai/v1"),
    compatible("xai", MODEL, "https://api.x.ai/v1"),
    compatible("groq", MODEL, "https://api.groq.com/openai/v1"),
    compatible("cerebras", MODEL, "https://api.cerebras.ai/v1"),
    compatible("sambanova", MODEL, "https://api.sambanova.ai/v1"),
    compatible("fireworks", MODEL, "https://api.fireworks.ai/inference/v1"),
    compatible("featherless", MODEL, "https://api.featherless.ai/v1"),
    compatible("chutes", MODEL, "https://llm.chutes.ai/v1"),
    compatible("baseten", MODEL, "https://inference.baseten.co/v1"),
    compatible("unbound", "unboundModelId", "https://api.getunbound.ai/v1"),
    compatible("huggingface", "huggingFaceModelId", "https://router.huggingface.co/v1"),
    compatible("io-intelligence", "ioIntelligenceModelId", "https://api.intelligence.io.solutions/api/v1"),
    compatible("vercel-ai-gateway", "vercelAiGatewayModelId", "https://ai-gateway.vercel.sh/v1"),
    compatible("zai", MODEL, "https://api.z.ai/api/paas/v4"),
];

/// The provider of that name.
pub(super) fn find(roo: &str) -> Option<&'static RooProvider> {
    PROVIDERS.iter().find(|provider| provider.roo == roo)
}

/// Why a provider's models can't be reached, for those that Roo Code had.
pub(super) fn reason_against(roo: &str) -> Option<&'static str> {
    Some(match roo {
        "bedrock" => "Amazon Bedrock is not supported; a LiteLLM gateway can stand before it",
        "vertex" => "Vertex AI is not supported; the provider `gemini` takes a key of Google AI Studio",
        "vscode-lm" => "the models of VS Code can be used in VS Code only",
        "claude-code" | "gemini-cli" | "openai-codex" | "qwen-code" => {
            "it logs in as another program; use a key of the model's provider"
        }
        "roo" => "the service was shut down",
        "glama" | "human-relay" | "fake-ai" => "Roo Code itself gave this provider up",
        _ => return None,
    })
}

impl RooProvider {
    /// The endpoint to be written; none for the usual one of the provider here.
    pub(super) fn base_url(&self, config: &Map<String, Value>) -> Option<String> {
        let set =
            self.url.and_then(|key| super::text(config, key)).map(|url| url.trim().trim_end_matches('/'));
        match set {
            Some(url) if self.roo == "openai" && is_azure(url, config) => Some(azure(url, config)),
            Some(url) => {
                let path = url
                    .split_once("://")
                    .map_or("", |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
                Some(if path.is_empty() { format!("{url}{}", self.version) } else { url.to_owned() })
            }
            None if self.roo == "zai" => Some(zai(config).to_owned()),
            None => self.usual.map(str::to_owned),
        }
    }
}

/// Returns whether Roo Code took an address for one of Azure.
fn is_azure(url: &str, config: &Map<String, Value>) -> bool {
    config.get("openAiUseAzure") == Some(&true.into()) || host(url).ends_with(".azure.com")
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', ':']).next().unwrap_or_default()
}

/// The address of a model at Azure: it has the deployment in its path and the version of the API in its query.
fn azure(url: &str, config: &Map<String, Value>) -> String {
    let (url, query) = url.split_once('?').map_or((url, None), |(url, query)| (url, Some(query)));
    let url = url.trim_end_matches('/');
    let url = url.strip_suffix("/chat/completions").unwrap_or(url);
    if url.ends_with("/openai/v1") {
        return url.to_owned();
    }
    // The versions that Roo Code asks for where none is set.
    let (path, version) = if host(url).ends_with(".services.ai.azure.com") {
        ("/models".to_owned(), "2024-05-01-preview")
    } else {
        let model = super::text(config, "openAiModelId").unwrap_or_default();
        (format!("/deployments/{model}"), "2024-08-01-preview")
    };
    let path = if url.contains("/deployments/") || url.ends_with(&path) { String::new() } else { path };
    let version = super::text(config, "azureApiVersion").unwrap_or(version);
    let query = match query {
        Some(query) if query.contains("api-version=") => query.to_owned(),
        Some(query) => format!("{query}&api-version={version}"),
        None => format!("api-version={version}"),
    };
    format!("{url}{path}?{query}")
}

/// Z.ai has four endpoints; which one is meant stands in `zaiApiLine`.
fn zai(config: &Map<String, Value>) -> &'static str {
    match super::text(config, "zaiApiLine") {
        Some("international_api") => "https://api.z.ai/api/paas/v4",
        Some("china_coding") => "https://open.bigmodel.cn/api/coding/paas/v4",
        Some("china_api") => "https://open.bigmodel.cn/api/paas/v4",
        _ => "https://api.z.ai/api/coding/paas/v4",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Provider;

    #[test]
    fn every_provider_is_one_here() {
        for provider in PROVIDERS {
            assert!(Provider::find(provider.here).is_some(), "{}", provider.roo);
            assert!(reason_against(provider.roo).is_none(), "{}", provider.roo);
        }
    }

    #[test]
    fn an_address_of_azure_has_deployment_and_version() {
        let of = |config: Value| find("openai").unwrap().base_url(config.as_object().unwrap()).unwrap();
        let with = |url: &str| json!({ "openAiBaseUrl": url, "openAiModelId": "d", "azureApiVersion": "2025-01-01" });
        let expected = "https://x.openai.azure.com/openai/deployments/d?api-version=2025-01-01";
        for url in [
            "https://x.openai.azure.com/openai",
            "https://x.openai.azure.com/openai/deployments/d/",
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2025-01-01",
        ] {
            assert_eq!(of(with(url)), expected, "{url}");
        }
        let own = json!({ "openAiBaseUrl": "https://llm.corp/openai", "openAiModelId": "d", "openAiUseAzure": true });
        assert_eq!(of(own), "https://llm.corp/openai/deployments/d?api-version=2024-08-01-preview");
        let inference =
            of(json!({ "openAiBaseUrl": "https://x.services.ai.azure.com", "openAiModelId": "d" }));
        assert_eq!(inference, "https://x.services.ai.azure.com/models?api-version=2024-05-01-preview");
        assert_eq!(of(with("https://x.openai.azure.com/openai/v1/")), "https://x.openai.azure.com/openai/v1");
    }

    #[test]
    fn an_address_without_a_path_gets_the_version() {
        let url = |roo: &str, config: Value| find(roo).unwrap().base_url(config.as_object().unwrap());
        for (roo, config, expected) in [
            ("ollama", json!({"ollamaBaseUrl": "http://gpu:11434/"}), Some("http://gpu:11434/v1")),
            ("ollama", json!({"ollamaBaseUrl": "http://gpu:11434/v1"}), Some("http://gpu:11434/v1")),
            ("ollama", json!({"ollamaBaseUrl": ""}), None),
            ("openai", json!({"openAiBaseUrl": "https://api.example.com"}), Some("https://api.example.com")),
            ("groq", json!({}), Some("https://api.groq.com/openai/v1")),
            ("zai", json!({"zaiApiLine": "china_api"}), Some("https://open.bigmodel.cn/api/paas/v4")),
        ] {
            assert_eq!(url(roo, config.clone()).as_deref(), expected, "{roo} {config}");
        }
    }
}
