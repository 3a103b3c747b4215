//! Parts of a wire format over HTTP: its paths, headers, request body and stream. One file each.
//!
//! Connections, deadlines and HTTP errors are the business of `http`, the choice of a format that of `connect`.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::conversation::Message;
use super::fault::Fault;
use super::listed::ListedModel;
use super::{ModelErrorKind, ModelRequest, Output};
use crate::parser::SseEvent;
use roo_formats::config::{Price, Reasoning};

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

    /// A header with a list, of a streaming request to a model. The user's own header of that name stands before it.
    fn added_header(&self, _model: &str) -> Option<(&'static str, &'static str)> {
        None
    }

    /// The header that carries the key.
    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    /// The fields of a streaming request's body, in order. The list of messages has those that come before the
    /// conversation.
    fn frame(&self, request: &ModelRequest, options: &RequestOptions) -> Map<String, Value>;

    /// The field with the list of messages.
    fn messages_field(&self) -> &'static str;

    /// The entries of that list for one message. Nothing but the message, its mark and the profile's model counts, so
    /// that an entry stays as it is while the conversation grows.
    fn message(&self, message: Message<'_>, options: &RequestOptions, is_marked: bool) -> Vec<Value>;

    /// Number of the last user messages that are marked for the provider's cache.
    fn marked_messages(&self, _options: &RequestOptions) -> usize {
        0
    }

    /// Returns whether tails stay in the conversation; see [`Model::keeps_tails`](super::Model::keeps_tails).
    fn keeps_tails(&self, _options: &RequestOptions) -> bool {
        false
    }

    /// A decoder for one answer.
    fn decoder(&self, prices: Price) -> Box<dyn Decoder>;

    /// The path, and the query, of the list of models below the endpoint's base URL.
    fn list_path(&self) -> (&'static str, Option<&'static str>) {
        ("/models", None)
    }

    /// The models in such a list; none for what is no list.
    fn listed(&self, document: &Value) -> Option<Vec<ListedModel>> {
        let models = document["data"].as_array()?.iter();
        Some(models.filter_map(ListedModel::from_openai).collect())
    }

    /// The kind of a refusal that HTTP's status doesn't tell.
    fn error_kind(&self, _status: u16, _body: &Value) -> Option<ModelErrorKind> {
        None
    }
}

/// The fields of an object.
pub(super) fn fields(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Decoder of the events of one answer.
pub(super) trait Decoder: Send + Sync {
    /// Decodes one event. [`Output::Finished`] ends the stream.
    fn event(&mut self, event: SseEvent<'_>, outputs: &mut VecDeque<Output>) -> Result<(), Fault>;

    /// The connection gives no more. Yields the rest and whether the answer is complete.
    fn end(&mut self, outputs: &mut VecDeque<Output>) -> bool;

    /// Decodes an answer that is one document and no stream. Returns whether it is a complete answer.
    ///
    /// # Errors
    /// The document says what failed, or is not what the format says ([`ModelErrorKind::Malformed`]).
    fn document(&mut self, body: &str, outputs: &mut VecDeque<Output>) -> Result<bool, Fault> {
        self.event(SseEvent { event: None, data: body }, outputs)?;
        Ok(self.end(outputs))
    }
}

/// Settings of a profile for its requests.
#[derive(Clone)]
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
    pub(super) prices: Price,
}
