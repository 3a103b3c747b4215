//! `roo/model/*`.

use tower_lsp::jsonrpc::{Error, Result};

use super::profile::refused;
use super::{Params, Server};
use crate::model_setup::environment;
use crate::server::failure;
use crate::server::profiles::draft_of;
use roo_formats::config::{Profile, Provider};
use roo_model::providers::{ModelError, ModelErrorKind, offered_models};
use roo_protocol::error::ErrorKind;
use roo_protocol::model::{ModelListParams, ModelListResult};

/// Asks the endpoint, which answers soon or not at all.
pub(super) async fn list(
    server: &Server,
    Params(params): Params<ModelListParams>,
) -> Result<ModelListResult> {
    let settings = server.session.typed().await?.engine.settings().await;
    if let Some(draft) = &params.draft {
        let draft = draft_of(&server.session.process, draft, params.profile.as_deref()).await;
        let draft = draft.map_err(|error| refused(&error))?;
        let models = draft.candidate.offered_models().await.map_err(told)?;
        return Ok(ModelListResult { models });
    }
    let profile = match &params.provider {
        Some(name) => Provider::find(name).map(Profile::new),
        None => settings.profiles.get(params.profile.as_ref().unwrap_or(&settings.profile)).cloned(),
    };
    let profile = profile.ok_or_else(|| {
        let message = "there is no such profile or provider".to_owned();
        failure(ErrorKind::NotFound, message, None, "Name one of roo/profile/list, or a provider.")
    })?;
    let models = offered_models(&profile, &environment).await.map_err(told)?;
    Ok(ModelListResult { models })
}

fn told(error: ModelError) -> Error {
    let kind = match error.kind {
        ModelErrorKind::Configuration | ModelErrorKind::Unauthorized | ModelErrorKind::Invalid => {
            ErrorKind::Configuration
        }
        _ => ErrorKind::Overloaded,
    };
    failure(kind, error.message, None, "Check the profile's key and endpoint, and ask again.")
}
