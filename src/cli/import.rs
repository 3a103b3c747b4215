//! `roo-lsp import`: profiles and settings that another program exported, written beside what the user has already.
//!
//! MCP servers have an import of their own, in `mcp`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::arguments::{Common, ImportRoo};
use super::session::{SessionContext, environment};
use super::{CliError, Ending, terminal};
use crate::configuration_file::read;
use crate::live_settings::Configured;
use crate::model_setup::{LockedSettings, ProfileName, WriteError};
use roo_formats::config::edit::{self, EditError, OtherFields, ProfileFields, ValueOutcome};
use roo_formats::roo_code::{ExportedProfile, ExportedSetting, ExportedSettings, FILE_LIMIT};
use roo_model::providers::{self, KeyState};
use roo_text::render::exact_line;

/// Where the instructions for all modes go, below the home directory.
const INSTRUCTIONS: &str = ".roo/rules/roo-code-custom-instructions.md";

/// What becomes of a settings file.
struct SettingsPlan {
    text: String,
    /// Names of profiles that are written.
    profiles: Vec<String>,
    /// The profile that becomes the default one.
    default: Option<String>,
    written: Vec<ExportedSetting>,
    /// What the file has already and keeps, in words.
    kept: Vec<String>,
}

/// Takes over an export of Roo Code. Fails if a profile was left out.
pub(super) fn import_roo(common: &Common, arguments: &ImportRoo) -> Result<Ending, CliError> {
    let context = SessionContext::find(common)?;
    let path = exact_line(&arguments.file.display().to_string());
    let exported = match read(&arguments.file, FILE_LIMIT) {
        Ok(Some(text)) => ExportedSettings::read(&text),
        Ok(None) => return Err(CliError::Usage(format!("there is no file {path}"))),
        Err(error) => return Err(CliError::Other(format!("can't read {path}: {error}"))),
    };
    let mut exported = exported.map_err(|error| CliError::Other(format!("{path}: {error}")))?;
    let mut left_out = exported.refused.clone();
    exported.profiles.retain(|profile| {
        let is_usable = profile.name.parse::<ProfileName>().is_ok();
        if !is_usable {
            left_out.push(format!("profile `{}`: give it a name of one short line first", profile.name));
        }
        is_usable
    });
    let is_whole = left_out.is_empty();
    left_out.append(&mut exported.left_out);

    let file = context.directories.config_file();
    let locked = LockedSettings::lock(file.clone())?;
    let before = locked.read()?;
    let plan = plan(&exported, before.text(), arguments)
        .map_err(|error| WriteError::Edit { file: file.clone(), error })?;
    if let Some(problem) = Configured::from_text(&file, &plan.text).errors.first() {
        return Err(CliError::Other(format!(
            "nothing was written, since the settings would not be valid: {problem}"
        )));
    }
    let instructions = instructions_file(&context, &exported)?;
    if !arguments.dry_run {
        if plan.text != before.text() {
            locked.edit(|now| self::plan(&exported, now.text(), arguments).map(|plan| plan.text))?;
        }
        if let Some((path, text)) = &instructions {
            write_new(path, text)
                .map_err(|error| CliError::Other(format!("can't write {}: {error}", path.display())))?;
        }
    }
    tell(&exported, &plan, &file, arguments, instructions.as_ref().map(|(path, _)| path.as_path()))?;
    for sentence in left_out.iter().chain(&plan.kept) {
        writeln!(terminal::stderr(), "roo-lsp: not taken over: {}", exact_line(sentence))?;
    }
    if !arguments.approvals && !exported.approvals.is_empty() {
        writeln!(
            terminal::stderr(),
            "roo-lsp: not taken over: what Roo Code allowed without asking; --approvals takes it over"
        )?;
    }
    Ok(if is_whole { Ending::Done } else { Ending::Failed })
}

/// The settings file with what was exported.
fn plan(exported: &ExportedSettings, before: &str, arguments: &ImportRoo) -> Result<SettingsPlan, EditError> {
    let replace = arguments.replace;
    let mut text = before.to_owned();
    let (mut profiles, mut kept) = (Vec::new(), Vec::new());
    for profile in &exported.profiles {
        let fields = ProfileFields { named: profile.fields.clone(), others: OtherFields::Drop };
        if edit::profile(&text, &profile.name)?.is_some() && !replace {
            let now = edit::set_profile(&text, &profile.name, &fields, false)?;
            if now != text {
                kept.push(format!(
                    "profile `{}`: there is one of that name; --replace replaces it",
                    profile.name
                ));
            }
            continue;
        }
        text = edit::set_profile(&text, &profile.name, &fields, false)?;
        profiles.push(profile.name.clone());
    }
    let mut settings: Vec<ExportedSetting> = exported.settings.clone();
    if arguments.approvals {
        settings.extend(exported.approvals.iter().cloned());
    }
    // The default one is set where there is none yet: one may be named, or meant by its usual name.
    let has_default = {
        let settings = Configured::from_text(Path::new(""), before).settings;
        settings.profiles.contains_key(&settings.profile)
    };
    let default =
        exported.current.clone().filter(|name| profiles.contains(name) && (replace || !has_default));
    if let Some(name) = &default {
        let fields = ProfileFields { named: Vec::new(), others: OtherFields::Keep };
        text = edit::set_profile(&text, name, &fields, true)?;
    }
    let values: Vec<_> = settings.iter().map(|setting| (&*setting.path, &setting.value)).collect();
    let (text, outcomes) = edit::set_values(&text, &values, replace)?;
    let mut written = Vec::new();
    for (setting, outcome) in settings.into_iter().zip(outcomes) {
        match outcome {
            ValueOutcome::Set => written.push(setting),
            ValueOutcome::Same => {}
            ValueOutcome::Kept => {
                kept.push(format!("{}: your settings have another value", setting.path.join(".")));
            }
        }
    }
    Ok(SettingsPlan { text, profiles, default, written, kept })
}

/// The file for the instructions for all modes, and its text; none where there are none, or where it is there already.
fn instructions_file(
    context: &SessionContext,
    exported: &ExportedSettings,
) -> Result<Option<(PathBuf, String)>, CliError> {
    let (Some(text), Some(home)) = (&exported.custom_instructions, &context.directories.home) else {
        return Ok(None);
    };
    let path = home.join(INSTRUCTIONS);
    match path.symlink_metadata() {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some((path, format!("{text}\n")))),
        Err(error) => Err(CliError::Other(format!("can't look at {}: {error}", path.display()))),
    }
}

/// Writes a file that isn't there yet.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::File::create_new(path)?.write_all(text.as_bytes())
}

/// Says what was written, and how the profiles get their keys.
fn tell(
    exported: &ExportedSettings,
    plan: &SettingsPlan,
    file: &Path,
    arguments: &ImportRoo,
    instructions: Option<&Path>,
) -> Result<(), CliError> {
    let mut out = terminal::stdout();
    let written: Vec<&ExportedProfile> =
        exported.profiles.iter().filter(|profile| plan.profiles.contains(&profile.name)).collect();
    for ExportedProfile { name, profile, .. } in &written {
        let model = profile.model.as_deref().unwrap_or("no model");
        let place = profile.base_url.as_ref().map(|url| format!(" at {url}")).unwrap_or_default();
        let default = if plan.default.as_ref() == Some(name) { ", the default one" } else { "" };
        let line = format!("profile {name}: {model} of {}{place}{default}", profile.provider.as_str());
        writeln!(out, "{}", exact_line(&line))?;
    }
    for setting in &plan.written {
        let line = format!("{}: {}", setting.path.join("."), setting.value);
        writeln!(out, "{}", exact_line(&line))?;
    }
    if let Some(path) = instructions {
        writeln!(out, "instructions for all modes: {}", path.display())?;
    }
    let is_empty = written.is_empty() && plan.written.is_empty() && instructions.is_none();
    let (done, file) = (if arguments.dry_run { "would be written to" } else { "written to" }, file.display());
    match is_empty {
        true => writeln!(out, "there is nothing to take over")?,
        false => writeln!(out, "{done} {file}")?,
    }
    let needs_key = |profile: &&&ExportedProfile| {
        profile.had_key
            && !matches!(providers::key_state(&profile.profile, &environment), Ok(KeyState::Present))
    };
    let logins: BTreeSet<String> = written
        .iter()
        .filter(needs_key)
        .map(|ExportedProfile { profile, .. }| {
            let place = profile.base_url.as_ref().map(|url| format!(" --base-url {url}")).unwrap_or_default();
            format!("roo-lsp login {}{place}", profile.provider.spec().owner())
        })
        .collect();
    if !logins.is_empty() {
        writeln!(out, "Keys are not taken over. Give each again:")?;
    }
    for login in logins {
        writeln!(out, "  {}", exact_line(&login))?;
    }
    Ok(())
}
