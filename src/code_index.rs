//! The code index for the engine: where it is kept, and which endpoint makes its vectors.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use roo_formats::config::{Profile, SettingsSource};
use roo_index::{CodeIndex, Embedder};
use roo_model::providers::{Embeddings, ModelErrorKind};
use roo_text::render::exact_line;

use crate::model_setup::environment;
use crate::workspace_parts::WorkspaceParts;

/// Name of its directory in the state of a workspace.
const DIRECTORY: &str = "index";

/// Times to wait before a request that the endpoint had no time for is made again, where it doesn't say how long.
const WAITS: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(8)];

/// The longest time that an endpoint may have a request wait.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The index of a workspace. Nothing is read or made by that.
pub(crate) fn code_index(parts: &WorkspaceParts) -> CodeIndex {
    let configured =
        ConfiguredEmbedder { settings: Arc::clone(&parts.settings), connected: Mutex::default() };
    let directory = parts.directory.path().join(DIRECTORY);
    CodeIndex::new(Arc::clone(&parts.workspace), directory, Arc::new(move || configured.embedder()))
}

/// Finds the embedder that the user's settings name, for each use: they may change while the program runs.
struct ConfiguredEmbedder {
    settings: Arc<dyn SettingsSource>,
    /// The last one, so that its connection is used again.
    connected: Mutex<Option<(Profile, Arc<dyn Embedder>)>>,
}

impl ConfiguredEmbedder {
    /// The embedder that the settings name now. Reads the disk.
    fn embedder(&self) -> Option<Result<Arc<dyn Embedder>, String>> {
        let settings = self.settings.settings();
        let name = settings.index.embeddings.as_ref()?;
        let Some(profile) = settings.profiles.get(name) else {
            return Some(Err(format!(
                "there is no profile '{}', which `index.embeddings` names in the settings",
                exact_line(name)
            )));
        };
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, embedder)) = connected.as_ref().filter(|(known, _)| known == profile) {
            return Some(Ok(Arc::clone(embedder)));
        }
        Some(match Embeddings::connect(profile, &environment) {
            Ok(embeddings) => {
                let embedder: Arc<dyn Embedder> = Arc::new(Endpoint(embeddings));
                *connected = Some((profile.clone(), Arc::clone(&embedder)));
                Ok(embedder)
            }
            Err(error) => Err(without_stop(&error.to_string())),
        })
    }
}

/// An endpoint with a model for embeddings.
struct Endpoint(Embeddings);

impl Endpoint {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, String> {
        let mut waits = WAITS.iter();
        loop {
            let error = match self.0.embed(texts).await {
                Ok(vectors) => return Ok(vectors),
                Err(error) => error,
            };
            let may_pass =
                matches!(error.kind, ModelErrorKind::RateLimited(_) | ModelErrorKind::Unavailable(_));
            let Some(wait) = waits.next().filter(|_| may_pass) else {
                return Err(without_stop(&error.to_string()));
            };
            tokio::time::sleep(error.kind.retry_after().unwrap_or(*wait).min(MAX_WAIT)).await;
        }
    }
}

impl Embedder for Endpoint {
    fn name(&self) -> String {
        self.0.name()
    }

    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, String>> {
        Box::pin(async move { Self::embed(self, &texts).await })
    }
}

fn without_stop(text: &str) -> String {
    text.trim_end_matches('.').to_owned()
}
