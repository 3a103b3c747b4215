//! Profiles from a client's form: trying one, writing it to the user's settings file, taking it out again.

use std::sync::Arc;

use super::session::{ProcessServices, WorkspaceServices};
use crate::model_setup::{
    self, Candidate, Draft, DraftError, InvalidName, LockedSettings, ProfileEdit, ProfileName,
    UsableSettings, WriteError, environment, worked,
};
use roo_formats::config::Settings;
use roo_formats::config::edit::{self, EditError};
use roo_model::providers::{KeyStore, ModelError, Probe};
use roo_protocol::profile::{
    ProfileDeleteResult, ProfileDraft, ProfileSaveParams, ProfileSaveResult, ProfileTestParams,
    ProfileTestResult,
};

/// Reasons why a profile can't be tried, written or taken out.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProfileError {
    #[error("there is no profile '{0}'")]
    NotFound(String),
    #[error("{0}")]
    Draft(#[from] DraftError),
    #[error("{0}")]
    Name(#[from] InvalidName),
    #[error("{0}")]
    Write(#[from] WriteError),
}

async fn usable_settings(process: &ProcessServices) -> Result<UsableSettings, ProfileError> {
    let file = process.directories.config_file();
    on_disk(move || Ok(UsableSettings::read(&file)?)).await
}

/// Does what may wait for the disk.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProfileError> + Send + 'static,
) -> Result<T, ProfileError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(WriteError::Interrupted.into()))
}

/// Makes one short request, to what [`save`] would write where there is a form.
pub(super) async fn test(
    process: &ProcessServices,
    services: &WorkspaceServices,
    params: ProfileTestParams,
) -> Result<ProfileTestResult, ProfileError> {
    if let Some(draft) = &params.draft {
        let draft = draft_of(process, draft, params.profile.as_deref()).await?;
        return Ok(result(&draft.candidate, &draft.candidate.test().await));
    }
    let settings = services.engine.settings().await;
    let name = params.profile.as_ref().unwrap_or(&settings.profile);
    let profile = settings.profiles.get(name).ok_or_else(|| ProfileError::NotFound(name.clone()))?;
    let candidate = Candidate::new(profile.clone(), None);
    Ok(result(&candidate, &candidate.test().await))
}

/// What a form makes of the profile of this name in the settings file; a form that names none makes a new one.
pub(super) async fn draft_of(
    process: &ProcessServices,
    draft: &ProfileDraft,
    name: Option<&str>,
) -> Result<Draft, ProfileError> {
    let before = match name {
        Some(name) => usable_settings(process).await?.settings.profiles.get(name).cloned(),
        None => None,
    };
    Ok(Draft::new(draft, before.as_ref())?)
}

fn result(candidate: &Candidate, outcome: &Result<Probe, ModelError>) -> ProfileTestResult {
    match outcome {
        Ok(probe) => {
            let model = candidate.profile.model.as_deref().unwrap_or("The model");
            ProfileTestResult {
                works: true,
                message: format!("{}.", worked(model, probe)),
                took_ms: u64::try_from(probe.took.as_millis()).ok(),
                cost_usd: candidate.profile.prices().map(|_| probe.usage.cost_usd),
            }
        }
        Err(error) => {
            ProfileTestResult { works: false, message: error.to_string(), took_ms: None, cost_usd: None }
        }
    }
}

/// Writes a profile to the settings file, if its model answers or the user wants it all the same.
pub(super) async fn save(
    process: &ProcessServices,
    services: &WorkspaceServices,
    params: ProfileSaveParams,
) -> Result<ProfileSaveResult, ProfileError> {
    let ProfileSaveParams { profile: name, draft, is_default, untested } = params;
    let profile_name: ProfileName = name.parse()?;
    let file = process.directories.config_file();
    let before = usable_settings(process).await?;
    let draft = Draft::new(&draft, before.settings.profiles.get(&name))?;
    // A layout that can't be edited is told before a request is paid for.
    let told = |error| WriteError::Edit { file: file.clone(), error };
    let profile_before = edit::profile(before.text(), &name).map_err(told)?;
    let fields = draft.fields.clone();
    let edit = ProfileEdit { name: profile_name, fields, is_default, before: profile_before };
    edit.apply(before.text()).map_err(told)?;
    let outcome = draft.candidate.test().await;
    let test = result(&draft.candidate, &outcome);
    if !test.works && !untested {
        let message = format!("{} Nothing was written.", test.message);
        return Ok(ProfileSaveResult { saved: false, message, test, warnings: vec![] });
    }
    let store = KeyStore::new(&process.directories);
    // The user may have edited the profile while the model was asked: then it is left as it is.
    model_setup::save(&file, edit, &draft.candidate, draft.place, &store).await?;
    let (live, written) = (Arc::clone(&services.settings), file.clone());
    let written = on_disk(move || {
        live.read_whole();
        Ok(UsableSettings::read(&written)?.settings)
    })
    .await?;

    let settings = services.engine.settings().await;
    let mut warnings = Vec::new();
    if !test.works {
        warnings.push(format!("Its model did not answer: {}", test.message));
    }
    if let Some(variable) = draft.overriding_variable(&environment) {
        warnings.push(format!("{variable} is set and takes precedence over the stored key."));
    }
    if settings.profiles.get(&name) != written.profiles.get(&name) {
        warnings.push(format!("Your editor's settings define a profile {name} too, which takes precedence."));
    }
    if is_default && settings.profile != name {
        warnings.push(format!(
            "Your editor's settings name another profile, {}, which takes precedence.",
            settings.profile
        ));
    }
    let message = format!("Profile {name} is written to {}.", file.display());
    Ok(ProfileSaveResult { saved: true, message, test, warnings })
}

/// Takes a profile out of the settings file. Where modes work with it by default, another one takes its place.
pub(super) async fn delete(
    process: &ProcessServices,
    services: &WorkspaceServices,
    name: &str,
) -> Result<ProfileDeleteResult, ProfileError> {
    let (file, profile) = (process.directories.config_file(), name.to_owned());
    let live = Arc::clone(&services.settings);
    let before = on_disk(move || {
        let locked = LockedSettings::lock(file)?;
        let before = locked.edit(|before| {
            let others = || before.settings.profiles.keys().filter(|other| **other != profile);
            let usual = Settings::default().profile;
            let next = others().find(|other| **other == usual).or_else(|| others().next());
            edit::without_profile(before.text(), &profile, next.map(String::as_str))
        });
        let before = before.map_err(|error| match error {
            WriteError::Edit { error: EditError::Missing, .. } => ProfileError::NotFound(profile),
            error => error.into(),
        })?;
        live.read_whole();
        Ok(before.settings)
    })
    .await?;

    let settings = services.engine.settings().await;
    let mut warnings = Vec::new();
    if !settings.profiles.contains_key(&settings.profile) {
        warnings.push("There is no default profile now, so no request can begin.".to_owned());
    } else if before.profile == name {
        warnings.push(format!("Requests use the profile {} from now on.", settings.profile));
    }
    let modes = settings.modes.iter().filter(|(_, mode)| mode.profile.as_deref() == Some(name));
    warnings.extend(
        modes.map(|(mode, _)| format!("The mode {mode} is set to this profile, and can't begin without it.")),
    );
    if settings.profiles.contains_key(name) {
        warnings.push(format!("Your editor's settings define a profile {name} too, which is still there."));
    }
    Ok(ProfileDeleteResult { warnings })
}
