//! Requests about a document that the service itself answers: how their parameters are read, and how an
//! answer is given at once or later. What the answers are is said by `config_files`, `code_actions` and
//! `task_document`.

use std::borrow::Cow;
use std::future::Future;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower_lsp::ExitedError;
use tower_lsp::jsonrpc::{Error, Id, Request, Response};

/// The answer to a request of the service.
pub(super) type Answer = BoxFuture<'static, Result<Option<Response>, ExitedError>>;

/// LSP's identifier of a document.
#[derive(Deserialize)]
pub(super) struct TextDocument {
    pub(super) uri: String,
}

/// A request with the parameters that its kind has.
pub(super) struct DocumentRequest<P> {
    pub(super) method: Cow<'static, str>,
    pub(super) params: P,
    id: Id,
}

impl<P> DocumentRequest<P> {
    /// Answers with what is known already.
    pub(super) fn answer(self, result: Value) -> Answer {
        ready(Ok(Some(Response::from_ok(self.id, result)))).boxed()
    }

    /// Answers when something is found.
    pub(super) fn answer_with<F>(self, find: impl FnOnce(Cow<'static, str>, P) -> F) -> Answer
    where
        F: Future<Output = Result<Value, Error>> + Send + 'static,
    {
        let (id, found) = (self.id, find(self.method, self.params));
        async move {
            Ok(Some(match found.await {
                Ok(result) => Response::from_ok(id, result),
                Err(error) => Response::from_error(id, error),
            }))
        }
        .boxed()
    }
}

/// Reads a request. The error is the answer to one that can't be: a refusal, or nothing to a notification.
pub(super) fn read<P: DeserializeOwned>(request: Request) -> Result<DocumentRequest<P>, Answer> {
    let (method, id, params) = request.into_parts();
    let Some(id) = id else { return Err(ready(Ok(None)).boxed()) };
    match serde_json::from_value(params.unwrap_or_default()) {
        Ok(params) => Ok(DocumentRequest { method, params, id }),
        Err(error) => {
            let refusal = Response::from_error(id, Error::invalid_params(error.to_string()));
            Err(ready(Ok(Some(refusal))).boxed())
        }
    }
}
