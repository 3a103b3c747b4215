//! Embeddings: texts turned into vectors by an endpoint that speaks OpenAI's `POST /embeddings`, as Ollama, LM Studio,
//! llama.cpp, vLLM and many gateways do.
//!
//! See <https://platform.openai.com/docs/api-reference/embeddings/create>.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::connect::openai_endpoint;
use super::http::Endpoint;
use super::{ModelError, ModelErrorKind};
use roo_formats::config::Profile;

/// Path below the endpoint's base URL.
const PATH: &str = "/embeddings";

/// A model that turns texts into vectors.
pub struct Embeddings {
    endpoint: Arc<Endpoint>,
    model: String,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedding>,
}

/// The vector of one text.
#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl Embeddings {
    /// The model of a profile, with its endpoint and key as for any other model. Without network.
    ///
    /// `environment` reads an environment variable.
    ///
    /// # Errors
    /// A configuration error that names the profile's field and what to do.
    pub fn connect(
        profile: &Profile,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ModelError> {
        let (endpoint, model) =
            openai_endpoint(profile, ("has no embeddings", "embedding", "ollama"), environment)?;
        Ok(Self { endpoint: Arc::new(endpoint), model })
    }

    /// Name of the endpoint and the model, without credentials: vectors of different names can't be compared.
    pub fn name(&self) -> String {
        format!("{} {}", self.endpoint.shown_at(PATH), self.model)
    }

    /// Turns texts into vectors, one for each in their order.
    ///
    /// # Errors
    /// As for any request to a model.
    pub async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        let body = json!({ "model": self.model, "input": texts, "encoding_format": "float" });
        let answer = Arc::clone(&self.endpoint).post(PATH, body.to_string().into_bytes()).await?;
        let malformed = || {
            let text = format!(
                "{}: the answer has no vector for each text. Check `baseUrl` and the model's name, {}.",
                self.endpoint.shown_at(PATH),
                self.model
            );
            ModelError::new(ModelErrorKind::Malformed, text)
        };
        let answer: Answer = serde_json::from_value(answer).map_err(|_| malformed())?;
        let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts.len()];
        for Embedding { index, embedding } in answer.data {
            *vectors.get_mut(index).ok_or_else(malformed)? = Some(embedding);
        }
        vectors.into_iter().collect::<Option<_>>().ok_or_else(malformed)
    }
}
