//! Parts of a wire format over HTTP: its paths, headers, request body and stream. One file each.
//!
//! Connections, deadlines and HTTP errors are the business of `http`, the choice of a format that of `connect`.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use serde_json::Value;

use super::http::{Endpoint, Fault};
use super::listed::ListedModel;
use super::{Model, ModelError, ModelErrorKind, ModelRequest, Output};
use crate::parser::SseEvent;
use roo_formats::config::{Price, Profile, Reasoning};

/// One wire format.
pub(super) trait HttpFormat: Send + Sync {
    /// The path of a streaming request below the endpoint's base URL.
    fn path(&self, model: &str) -> String;

    /// The query of a streaming request.
    fn query(&self) -> Option<&'static str> {
        None
    }

    /// Headers of every request.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The header that carries the key.
    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    /// The body of a streaming request.
    fn body(&self, request: &ModelRequest, options: &RequestOptions) -> Value;

    /// A decoder for one answer.
    fn decoder(&self, prices: Price) -> Box<dyn Decoder>;

    /// The path, and the query, of the list of models below the endpoint's base URL.
    fn list_path(&self) -> (&'static str, Option<&'static str>) {
        ("/models", None)
    }

    /// The models in such a list; none for what is no list.
    fn listed(&self, document: &Value) -> Option<Vec<ListedModel>> {
        let models = document["data"].as_array()?.iter();
        Some(models.filter_map(ListedModel::of_openai).collect())
    }

    /// The kind of a refusal that HTTP's status doesn't tell.
    fn error_kind(&self, _status: u16, _body: &Value) -> Option<ModelErrorKind> {
        None
    }
}

/// Decoder of the events of one answer.
pub(super) trait Decoder: Send + Sync {
    /// Decodes one event. [`Output::Finished`] ends the stream.
    fn event(&mut self, event: &SseEvent, outputs: &mut VecDeque<Output>) -> Result<(), Fault>;

    /// The connection gives no more. Yields the rest and whether the answer is complete.
    fn end(&mut self, outputs: &mut VecDeque<Output>) -> bool;
}

/// Settings of a profile for its requests.
pub(super) struct RequestOptions {
    /// Provider and model: what thinking is bound to.
    pub(super) origin: String,
    /// The model's name at the endpoint.
    pub(super) model: String,
    /// The endpoint's host.
    pub(super) host: String,
    pub(super) max_tokens: Option<u64>,
    pub(super) reasoning: Option<Reasoning>,
    pub(super) temperature: Option<f64>,
    /// True if the catalogue knows the model to take a level of effort in place of a budget for thinking.
    pub(super) adaptive_thinking: bool,
    pub(super) prices: Price,
}

/// A model behind an HTTP endpoint.
pub(super) struct HttpModel {
    format: &'static dyn HttpFormat,
    endpoint: Arc<Endpoint>,
    options: RequestOptions,
}

impl HttpModel {
    pub(super) fn new(
        format: &'static dyn HttpFormat,
        profile: &Profile,
        model: &str,
        endpoint: Endpoint,
    ) -> Self {
        let options = RequestOptions {
            origin: origin(profile, model),
            model: model.to_owned(),
            host: endpoint.host().to_owned(),
            max_tokens: profile.max_tokens,
            reasoning: profile.reasoning,
            temperature: profile.temperature,
            adaptive_thinking: profile.known().is_some_and(|model| model.adaptive_thinking),
            prices: profile.prices().unwrap_or_default(),
        };
        Self { format, endpoint: Arc::new(endpoint), options }
    }
}

/// Provider and model. Thinking of another wire format than the provider's usual one can't be read by that one.
fn origin(profile: &Profile, model: &str) -> String {
    let provider = profile.provider.as_str();
    match profile.wire_format.filter(|format| *format != profile.provider.spec().wire_format) {
        Some(format) => format!("{provider}+{}/{model}", format.as_str()),
        None => format!("{provider}/{model}"),
    }
}

impl Model for HttpModel {
    fn origin(&self) -> &str {
        &self.options.origin
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Output, ModelError>> {
        let body = self.format.body(&request, &self.options);
        self.endpoint.ask(&body, self.format.decoder(self.options.prices))
    }
}
