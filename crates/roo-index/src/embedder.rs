//! Models that turn texts into vectors, as far as the index knows them: how one is reached is the caller's.

use std::sync::Arc;

use futures_util::future::BoxFuture;

/// A model that turns texts into vectors.
pub trait Embedder: Send + Sync {
    /// Name of the endpoint and its model. Vectors of different names are never compared.
    fn name(&self) -> String;

    /// Turns texts into vectors, one for each in their order.
    ///
    /// The error says what happened and what to do, without a full stop.
    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, String>>;
}

/// Returns the embedder that the settings configure at the moment; none where they configure none. The error says why it
/// can't be used.
pub type EmbedderSource = Arc<dyn Fn() -> Option<Result<Arc<dyn Embedder>, String>> + Send + Sync>;
