//! `roo/profile/*`.

use tower_lsp::jsonrpc::{Error, Result};

use super::task::done;
use super::{Params, Server};
use crate::model_setup::WriteError;
use crate::server::failure;
use crate::server::profiles;
use roo_formats::config::edit::EditError;
use roo_formats::config::{Price, Profile};
use roo_protocol::error::ErrorKind;
use roo_protocol::model_price::ModelPrice;
use roo_protocol::profile::{
    ProfileDeleteParams, ProfileDeleteResult, ProfileItem, ProfileListParams, ProfileListResult,
    ProfileSaveParams, ProfileSaveResult, ProfileSelectParams, ProfileTestParams, ProfileTestResult,
};
use roo_protocol::task::Done;

pub(super) async fn list(
    server: &Server,
    Params(ProfileListParams {}): Params<ProfileListParams>,
) -> Result<ProfileListResult> {
    let settings = server.session.typed().await?.engine.settings().await;
    let profiles =
        settings.profiles.iter().map(|(name, profile)| item(name, profile, *name == settings.profile));
    Ok(ProfileListResult { profiles: profiles.collect() })
}

fn item(name: &str, profile: &Profile, is_default: bool) -> ProfileItem {
    ProfileItem {
        name: name.to_owned(),
        is_default,
        provider: profile.provider.as_str().to_owned(),
        model: profile.model.clone(),
        context_window: profile.context_window(),
        max_tokens: profile.max_tokens.or_else(|| Some(profile.known()?.output)),
        price_per_million: profile.prices().map(price),
    }
}

/// Prices as clients get them.
fn price(price: Price) -> ModelPrice {
    let Price { input, output, cache_read, cache_write } = price;
    ModelPrice { input, output, cache_read, cache_write }
}

pub(super) async fn select(server: &Server, Params(params): Params<ProfileSelectParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    done(services.engine.select_profile(&params.task_id, &params.profile).await, &params.task_id)
}

/// Asks the model, which answers soon or not at all.
pub(super) async fn test(
    server: &Server,
    Params(params): Params<ProfileTestParams>,
) -> Result<ProfileTestResult> {
    let services = server.session.typed().await?;
    profiles::test(&server.session.process, services, params).await.map_err(|error| refused(&error))
}

pub(super) async fn save(
    server: &Server,
    Params(params): Params<ProfileSaveParams>,
) -> Result<ProfileSaveResult> {
    let services = server.session.typed().await?;
    profiles::save(&server.session.process, services, params).await.map_err(|error| refused(&error))
}

pub(super) async fn delete(
    server: &Server,
    Params(params): Params<ProfileDeleteParams>,
) -> Result<ProfileDeleteResult> {
    let services = server.session.typed().await?;
    profiles::delete(&server.session.process, services, &params.profile)
        .await
        .map_err(|error| refused(&error))
}

pub(super) fn refused(error: &profiles::ProfileError) -> Error {
    use profiles::ProfileError;
    if let ProfileError::Name(error) = error {
        return Error::invalid_params(error.to_string());
    }
    let (kind, hint) = match error {
        ProfileError::NotFound(_) => (ErrorKind::NotFound, "Name one of roo/profile/list."),
        ProfileError::Draft(_) | ProfileError::Name(_) => (ErrorKind::Configuration, "Correct the profile."),
        ProfileError::Write(WriteError::Broken(_)) => {
            (ErrorKind::Configuration, "Correct the settings file first.")
        }
        ProfileError::Write(WriteError::Saved(_)) => (ErrorKind::Mismatch, "Save it again."),
        ProfileError::Write(WriteError::Edit { error: EditError::Changed | EditError::Exists, .. }) => {
            (ErrorKind::Mismatch, "Look at the profile in the settings file, then save it again.")
        }
        ProfileError::Write(_) => {
            (ErrorKind::Storage, "Edit the settings file by hand, or check that it can be written.")
        }
    };
    failure(kind, error.to_string(), None, hint)
}
