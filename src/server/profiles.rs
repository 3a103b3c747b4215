//! Profiles from a client's form: trying one, writing it to the user's settings file, taking it out again.

use super::session::{ProcessServices, WorkspaceServices};
use crate::live_settings::Configured;
use crate::model_setup::{Candidate, Draft, DraftError, EditedSettings, WriteError, environment, worked};
use roo_formats::config::{Settings, edit};
use roo_model::providers::{KeyStore, ModelError, Probe};
use roo_protocol::profile::{
    ProfileDeleteResult, ProfileSaveParams, ProfileSaveResult, ProfileTestParams, ProfileTestResult,
};

/// Reasons why a profile can't be tried, written or taken out.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProfileError {
    #[error("there is no profile '{0}'")]
    NotFound(String),
    #[error("{0}")]
    Draft(#[from] DraftError),
    #[error("the settings file can't be changed while it is invalid: {0}")]
    Broken(String),
    #[error("{0}")]
    Write(#[from] WriteError),
}

/// Makes one short request.
pub(super) async fn test(
    services: &WorkspaceServices,
    params: ProfileTestParams,
) -> Result<ProfileTestResult, ProfileError> {
    let settings = services.engine.settings();
    let name = params.profile.as_ref().unwrap_or(&settings.profile);
    let there = settings.profiles.get(name);
    if let Some(draft) = &params.draft {
        // A form that names no profile makes a new one.
        let draft = Draft::new(draft, there.filter(|_| params.profile.is_some()))?;
        return Ok(result(&draft.candidate, &draft.candidate.test().await));
    }
    let profile = there.ok_or_else(|| ProfileError::NotFound(name.clone()))?;
    let candidate = Candidate::new(profile.clone(), None);
    Ok(result(&candidate, &candidate.test().await))
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
    let file = &process.directories.config_file();
    let before = usable_settings(process)?;
    let draft = Draft::new(&draft, before.profiles.get(&name))?;
    // A layout that can't be edited is told before a request is paid for.
    let edit = |text: &str| edit::set_profile(text, &name, &draft.fields, is_default);
    EditedSettings::new(file, edit)?;
    let outcome = draft.candidate.test().await;
    let test = result(&draft.candidate, &outcome);
    if !test.works && !untested {
        let message = format!("{} Nothing was written.", test.message);
        return Ok(ProfileSaveResult { saved: false, message, test, warnings: vec![] });
    }
    // The file may have changed while the model was asked.
    let edited = EditedSettings::new(file, edit)?;
    draft.store_key(&KeyStore::new(&process.directories)).await?;
    edited.write()?;
    services.settings.read_whole();

    let settings = services.engine.settings();
    let mut warnings = Vec::new();
    if !test.works {
        warnings.push(format!("Its model did not answer: {}", test.message));
    }
    if let Some(variable) = draft.overriding_variable(&environment) {
        warnings.push(format!("{variable} is set and takes precedence over the stored key."));
    }
    let written = usable_settings(process)?;
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
pub(super) fn delete(
    process: &ProcessServices,
    services: &WorkspaceServices,
    name: &str,
) -> Result<ProfileDeleteResult, ProfileError> {
    let before = usable_settings(process)?;
    if !before.profiles.contains_key(name) {
        return Err(ProfileError::NotFound(name.to_owned()));
    }
    let others = || before.profiles.keys().filter(|other| *other != name);
    let usual = Settings::default().profile;
    let next = others().find(|other| **other == usual).or_else(|| others().next());
    EditedSettings::new(&process.directories.config_file(), |text| {
        edit::without_profile(text, name, next.map(String::as_str))
    })?
    .write()?;
    services.settings.read_whole();

    let settings = services.engine.settings();
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

/// The settings of the file alone, if all of it can be used.
fn usable_settings(process: &ProcessServices) -> Result<std::sync::Arc<Settings>, ProfileError> {
    let configured = Configured::load(&process.directories.config_file());
    match configured.errors.first() {
        Some(problem) => Err(ProfileError::Broken(problem.to_string())),
        None => Ok(configured.settings),
    }
}
