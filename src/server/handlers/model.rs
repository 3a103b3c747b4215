//! `roo/model/*`.

use tower_lsp::jsonrpc::Result;

use super::{Params, Server};
use crate::server::failure;
use roo_formats::config::{Profile, Provider};
use roo_model::providers::{ModelError, ModelErrorKind, offered_models};
use roo_protocol::error::ErrorKind;
use roo_protocol::model::{ModelListParams, ModelListResult};

/// Asks the endpoint, which answers soon or not at all.
pub(super) async fn list(
    server: &Server,
    Params(params): Params<ModelListParams>,
) -> Result<ModelListResult> {
    let settings = server.session.typed().await?.engine.settings();
    let profile = match &params.provider {
        Some(name) => Provider::find(name).map(Profile::new),
        None => settings.profiles.get(params.profile.as_ref().unwrap_or(&settings.profile)).cloned(),
    };
    let profile = profile.ok_or_else(|| {
        let message = "there is no such profile or provider".to_owned();
        failure(ErrorKind::NotFound, message, None, "Name one of roo/profile/list, or a provider.")
    })?;
    let models = offered_models(&profile, &|name| std::env::var(name).ok()).await.map_err(told)?;
    Ok(ModelListResult { models })
}

fn told(error: ModelError) -> tower_lsp::jsonrpc::Error {
    let kind = match error.kind {
        ModelErrorKind::Configuration | ModelErrorKind::Unauthorized | ModelErrorKind::Invalid => {
            ErrorKind::Configuration
        }
        _ => ErrorKind::Overloaded,
    };
    failure(kind, error.message, None, "Check the profile's key and endpoint, and ask again.")
}
