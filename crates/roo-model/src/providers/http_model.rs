//! Models behind an endpoint over HTTP.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use roo_formats::config::Profile;

use super::http::Endpoint;
use super::http_format::{HttpFormat, RequestOptions};
use super::{AccountId, Model, ModelError, ModelRequest, Output};

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
            prices: profile.prices().unwrap_or_default(),
        };
        Self { format, endpoint: Arc::new(endpoint), options }
    }
}

/// Provider and model. Thinking of another wire format than the provider's usual one can't be read by that one.
fn origin(profile: &Profile, model: &str) -> String {
    let provider = profile.provider.as_str();
    let format = profile.wire_format();
    match format == profile.provider.spec().wire_format {
        true => format!("{provider}/{model}"),
        false => format!("{provider}+{}/{model}", format.as_str()),
    }
}

impl Model for HttpModel {
    fn origin(&self) -> &str {
        &self.options.origin
    }

    fn account(&self) -> AccountId {
        self.endpoint.account()
    }

    fn keeps_tails(&self) -> bool {
        self.format.keeps_tails(&self.options)
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Output, ModelError>> {
        let most = self.options.max_tokens.into_iter().chain(request.max_tokens).min();
        let options = RequestOptions { max_tokens: most, ..self.options.clone() };
        let body = request.rendered.body(self.format, &request, &options);
        self.endpoint.ask(body, self.format.decoder(self.options.prices))
    }
}
