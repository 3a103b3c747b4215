//! `roo/profile/*`.

use tower_lsp::jsonrpc::Result;

use super::task::done;
use super::{Params, Server};
use roo_protocol::profile::{ProfileItem, ProfileListParams, ProfileListResult, ProfileSelectParams};
use roo_protocol::task::Done;

pub(super) async fn list(
    server: &Server,
    Params(ProfileListParams {}): Params<ProfileListParams>,
) -> Result<ProfileListResult> {
    let settings = server.session.typed().await?.engine.settings();
    let profiles = settings.profiles.iter().map(|(name, profile)| ProfileItem {
        name: name.clone(),
        is_default: *name == settings.profile,
        provider: profile.provider.as_str().to_owned(),
        model: profile.model.clone(),
    });
    Ok(ProfileListResult { profiles: profiles.collect() })
}

pub(super) async fn select(server: &Server, Params(params): Params<ProfileSelectParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    done(services.engine.select_profile(&params.task_id, &params.profile).await, &params.task_id)
}
