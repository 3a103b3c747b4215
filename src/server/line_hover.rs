//! Hover on a line that an agent wrote.

use std::sync::Arc;

use serde_json::{Value, json};
use tower_lsp::jsonrpc::Error;

use super::provenance::describe;
use super::session::Session;
use roo_protocol::task::Position;
use roo_workspace::{Purpose, path_of};

/// Builds the hover of a line; null for one that no agent wrote.
pub(super) async fn hovered(
    session: &Arc<Session>,
    uri: String,
    text: Arc<str>,
    position: Position,
) -> Result<Value, Error> {
    let services = Arc::clone(session.services().await?);
    let found = tokio::task::spawn_blocking(move || {
        let path = path_of(&uri)?;
        let place = services.engine.workspace().resolve(path.to_str()?, Purpose::Read).ok()?;
        services.provenance.line(services.directory.path(), &place.display(), &text, position.line as usize)
    });
    let found = found.await.map_err(|_| Error::internal_error())?;
    Ok(found.map_or(
        Value::Null,
        |attribution| json!({ "contents": session.hover_contents(&describe(&attribution)) }),
    ))
}
