//! `roo-lsp import roo FILE`: profiles, settings, instructions and modes that Roo Code exported, written beside what the user has
//! already. Keys are asked for again.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use super::modes::{self, Origin, mode_file, says_the_same};
use super::unasked::servers_with_lists;
use crate::cli::arguments::{Common, ImportRoo};
use crate::cli::mcp::secrets::{has_credentials, is_clear};
use crate::cli::session::{SessionContext, environment};
use crate::cli::{CliError, Ending, terminal};
use crate::configuration_file::{ConfigurationFile, read};
use crate::live_settings::Configured;
use crate::model_setup::{LockedSettings, ProfileName, UsableSettings, WriteError};
use crate::shell_word::shell_word;
use roo_engine::customization::GLOBAL_MCP;
use roo_engine::policy::command;
use roo_formats::config::edit::{self, EditError, OtherFields, ProfileFields, ValueOutcome};
use roo_formats::modes::{ParsedModes, Source};
use roo_formats::roo_code::places::RULES;
use roo_formats::roo_code::{
    ExportedProfile, ExportedSetting, ExportedSettings, FILE_LIMIT, INSTRUCTIONS_FILE,
};
use roo_model::providers::{self, KeyState};
use roo_text::render::exact_line;
use serde::Deserialize as _;
use serde_json::{Value, json};

/// Changes of a settings file.
struct SettingsPlan {
    /// The text of the file with them.
    text: String,
    /// Names of profiles that are written.
    profiles: Vec<String>,
    /// The profile that becomes the default one.
    default: Option<String>,
    written: Vec<ExportedSetting>,
    /// Sentences on what the file has already, and keeps.
    kept: Vec<String>,
}

/// Imports an exported file. Fails if a profile or a mode was left out that its user can fix; what has no counterpart here is only
/// told.
pub(super) fn import(common: &Common, arguments: &ImportRoo, source: &Path) -> Result<Ending, CliError> {
    let context = SessionContext::find(common)?;
    let path = exact_line(&source.display().to_string());
    let exported = match read(source, FILE_LIMIT) {
        Ok(Some(text)) => ExportedSettings::read(&text),
        Ok(None) => return Err(CliError::Usage(format!("there is no file {path}"))),
        Err(error) => return Err(CliError::Other(format!("can't read {path}: {error}"))),
    };
    let mut exported = exported.map_err(|error| CliError::Other(format!("{path}: {error}")))?;
    let unusable =
        exported.profiles.iter().filter_map(|profile| Some((profile.name.clone(), unusable(profile)?)));
    for (name, reason) in unusable.collect::<Vec<_>>() {
        exported.leave_out_profile(&name, reason);
    }
    exported.profiles.iter_mut().for_each(leave_credentials);
    leave_rules_without_effect(&mut exported);

    if exported.asked_for_mcp {
        let servers = context.directories.config.join(GLOBAL_MCP);
        let unasked = servers_with_lists(&servers);
        if !unasked.is_empty() {
            exported.left_out.push(format!(
                "`alwaysAllowMcp`: it was off, so that every MCP tool asked; here the lists `alwaysAllow` in {} count by themselves, \
                 until you remove them: {}",
                servers.display(),
                unasked.join(", ")
            ));
        }
    }

    let file = context.directories.config_file();
    let locked = LockedSettings::lock(file.clone())?;
    let before = locked.read()?;
    let plan_of = |before: &UsableSettings| {
        let plan = plan(&exported, before, arguments);
        plan.map_err(|error| WriteError::Edit { file: file.clone(), error })
    };
    let mut plan = plan_of(&before)?;
    if let Some(problem) = Configured::from_text(&file, &plan.text).errors.first() {
        return Err(CliError::Other(format!(
            "nothing was written, since the settings would not be valid: {problem}"
        )));
    }
    if !arguments.dry_run && plan.text != before.text() {
        let edited = locked.edit(|now| self::plan(&exported, now, arguments).map(|plan| plan.text))?;
        plan = plan_of(&edited)?;
    }
    let instructions = instructions(&context, &exported, &mut plan.kept)?;
    if !arguments.dry_run
        && let Some((file, text)) = &instructions
    {
        file.replace(&context.folder, text)
            .map_err(|error| CliError::Other(format!("can't write {}: {error}", file.path().display())))?;
    }
    let instructions = instructions.as_ref().map(|(file, _)| file.path());
    let new_modes = new_modes(&context, &exported, &mut plan.kept)?;
    let are_modes_whole = match &new_modes {
        Some(text) => modes::import_text(&context, Origin::PartOf(source), text, arguments.dry_run)?,
        None => true,
    };
    tell(&exported, &plan, &file, arguments, (instructions, new_modes.is_some()))?;
    tell_what_differs(&exported, &plan, arguments)?;
    if !arguments.approvals && !are_set(&plan.text, &exported.approvals)? {
        writeln!(
            terminal::stderr(),
            "roo-lsp: not imported: what Roo Code was allowed to do without asking; --approvals imports it"
        )?;
    }
    if !arguments.dry_run && new_modes.is_some() {
        modes::ask_delegation(&context)?;
    }
    let is_whole = exported.refused.is_empty() && are_modes_whole;
    Ok(if is_whole { Ending::Done } else { Ending::Failed })
}

/// Returns whether a settings file has all of these values.
fn are_set(text: &str, settings: &[ExportedSetting]) -> Result<bool, CliError> {
    let values: Vec<_> = settings.iter().map(|setting| (&*setting.path, &setting.value)).collect();
    let (_, outcomes) =
        edit::set_values(text, &values, false).map_err(|error| CliError::Other(error.to_string()))?;
    Ok(outcomes.iter().all(|outcome| matches!(outcome, ValueOutcome::Same)))
}

/// The exported modes that the user doesn't have, as a file of modes; none where there is none.
fn new_modes(
    context: &SessionContext,
    exported: &ExportedSettings,
    kept: &mut Vec<String>,
) -> Result<Option<String>, CliError> {
    if exported.modes.is_empty() {
        return Ok(None);
    }
    let known = context.customization()?.modes();
    let own = |slug: &str| known.get(slug).filter(|mode| mode.source == Source::Global);
    let slug = |mode: &Value| mode.get("slug").and_then(Value::as_str).map(str::to_owned);
    let is_new = |mode: &&Value| slug(mode).is_none_or(|slug| own(&slug).is_none());
    let (new, others): (Vec<&Value>, Vec<&Value>) = exported.modes.iter().partition(is_new);
    let others = ParsedModes::parse(&mode_file(&others), Source::Global);
    for mode in others.map(|parsed| parsed.modes).unwrap_or_default() {
        if own(&mode.slug).is_some_and(|own| !says_the_same(own, &mode)) {
            kept.push(format!("mode `{}`: you have another one of that slug", mode.slug));
        }
    }
    Ok((!new.is_empty()).then(|| mode_file(&new)))
}

/// Reason why a profile can't be written.
fn unusable(ExportedProfile { name, profile, .. }: &ExportedProfile) -> Option<&'static str> {
    if name.parse::<ProfileName>().is_err() {
        return Some("its name must be one short line");
    }
    let url = profile.base_url.as_deref().unwrap_or_default();
    has_credentials(url).then_some("its address holds a password; remove it, and use `roo-lsp login`")
}

/// Takes headers that are credentials out of a profile.
fn leave_credentials(ExportedProfile { fields, remarks, .. }: &mut ExportedProfile) {
    let headers = fields.iter_mut().find(|(key, _)| key == "headers");
    let Some(headers) = headers.and_then(|(_, headers)| headers.as_object_mut()) else { return };
    headers.retain(|header, value| {
        let is_clear = is_clear(header, value.as_str().unwrap_or_default());
        if is_clear {
            remarks.push(format!(
                "the header `{header}` holds a credential and was left out; use `roo-lsp login`, or set the header by hand"
            ));
        }
        !is_clear
    });
    if headers.is_empty() {
        fields.retain(|(key, _)| key != "headers");
    }
}

/// Takes those rules out of what was allowed that no command can match here.
fn leave_rules_without_effect(exported: &mut ExportedSettings) {
    let rules = |settings: &[ExportedSetting], key: &str| {
        let rules = settings.iter().find(|setting| setting.path == ["autoApprove", "execute", key]);
        rules.and_then(|rules| Vec::<Vec<String>>::deserialize(&rules.value).ok()).unwrap_or_default()
    };
    let denied = rules(&exported.settings, "deny");
    let (mut kept, left_out_before) = (vec![], exported.left_out_approvals.len());
    for words in rules(&exported.approvals, "allow") {
        match command::rule_problem(&words, &denied) {
            None => kept.push(words),
            Some(problem) => {
                let sentence = format!("`{}` of `allowedCommands`: {problem}", words.join(" "));
                exported.left_out_approvals.push(sentence);
            }
        }
    }
    if exported.left_out_approvals.len() == left_out_before {
        return;
    }
    let is_rules = |setting: &ExportedSetting| setting.path == ["autoApprove", "execute", "allow"];
    exported.approvals.retain(|setting| !is_rules(setting) || !kept.is_empty());
    if let Some(setting) = exported.approvals.iter_mut().find(|setting| is_rules(setting)) {
        setting.value = json!(kept);
    }
}

/// Says what was imported in another form, and what wasn't.
fn tell_what_differs(
    exported: &ExportedSettings,
    plan: &SettingsPlan,
    arguments: &ImportRoo,
) -> Result<(), CliError> {
    let mut out = terminal::stderr();
    let written = exported.profiles.iter().filter(|profile| plan.profiles.contains(&profile.name));
    let of_profiles = written.flat_map(|ExportedProfile { name, remarks, .. }| {
        remarks.iter().map(move |remark| format!("profile `{name}`: {remark}"))
    });
    let of_settings = plan.written.iter().filter_map(|setting| {
        let remark = setting.remark.as_ref()?;
        Some(format!("{}: {remark}", setting.path.join(".")))
    });
    for sentence in of_profiles.chain(of_settings) {
        writeln!(out, "roo-lsp: imported, but not as it was: {}", exact_line(&sentence))?;
    }
    let approvals = exported.left_out_approvals.iter().filter(|_| arguments.approvals);
    let left_out = exported.refused.iter().chain(&exported.left_out).chain(approvals);
    for sentence in left_out.chain(&plan.kept) {
        writeln!(out, "roo-lsp: not imported: {}", exact_line(sentence))?;
    }
    Ok(())
}

/// The settings file with what was exported.
fn plan(
    exported: &ExportedSettings,
    before: &UsableSettings,
    arguments: &ImportRoo,
) -> Result<SettingsPlan, EditError> {
    let replace = arguments.replace;
    let mut text = before.text().to_owned();
    let (mut profiles, mut default, mut kept) = (Vec::new(), None, Vec::new());
    // One may be named, or meant by its usual name.
    let has_default = before.settings.profiles.contains_key(&before.settings.profile);
    for ExportedProfile { name, fields, .. } in &exported.profiles {
        if let Some(there) = edit::profile(&text, name)?.filter(|_| !replace) {
            if there != Value::Object(fields.iter().cloned().collect()) {
                kept.push(format!("profile `{name}`: there is one of that name; --replace replaces it"));
            }
            continue;
        }
        let fields = ProfileFields { named: fields.clone(), others: OtherFields::Drop };
        let is_default = exported.current.as_ref() == Some(name) && (replace || !has_default);
        let with = edit::set_profile(&text, name, &fields, is_default)?;
        if with == text {
            continue;
        }
        text = with;
        profiles.push(name.clone());
        default = default.or_else(|| is_default.then(|| name.clone()));
    }
    let mut settings: Vec<ExportedSetting> = exported.settings.clone();
    if arguments.approvals {
        settings.extend(exported.approvals.iter().cloned());
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

/// The file for the instructions for all modes, and its text; none where there is nothing to write.
fn instructions(
    context: &SessionContext,
    exported: &ExportedSettings,
    kept: &mut Vec<String>,
) -> Result<Option<(ConfigurationFile, String)>, CliError> {
    let (Some(text), Some(home)) = (&exported.custom_instructions, &context.directories.home) else {
        return Ok(None);
    };
    let path = home.join(RULES).join(INSTRUCTIONS_FILE);
    let file = ConfigurationFile::open(path.clone(), FILE_LIMIT)
        .map_err(|error| CliError::Other(format!("can't read {}: {error}", path.display())))?;
    let text = format!("{text}\n");
    if !file.text().is_empty() {
        if file.text() != text {
            kept.push(format!("instructions for all modes: {} has others", path.display()));
        }
        return Ok(None);
    }
    Ok(Some((file, text)))
}

/// Says what was written, and how the profiles get their keys.
fn tell(
    exported: &ExportedSettings,
    plan: &SettingsPlan,
    file: &Path,
    arguments: &ImportRoo,
    (instructions, has_modes): (Option<&Path>, bool),
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
    let done = if arguments.dry_run { "would be written to" } else { "written to" };
    let changes_settings = !written.is_empty() || !plan.written.is_empty();
    if changes_settings {
        writeln!(out, "{done} {}", file.display())?;
    }
    if let Some(path) = instructions {
        writeln!(out, "instructions for all modes: {done} {}", path.display())?;
    }
    if !changes_settings && instructions.is_none() && !has_modes {
        writeln!(out, "there is nothing to import")?;
    }
    let needs_key = |profile: &&&ExportedProfile| {
        profile.has_key
            && !matches!(providers::key_state(&profile.profile, &environment), Ok(KeyState::Present))
    };
    let logins: BTreeSet<String> = written
        .iter()
        .filter(needs_key)
        .map(|ExportedProfile { profile, .. }| {
            let place = profile.base_url.as_ref().map(|url| format!(" --base-url {}", shell_word(url)));
            format!("roo-lsp login {}{}", profile.provider.spec().owner(), place.unwrap_or_default())
        })
        .collect();
    if !logins.is_empty() {
        writeln!(out, "API keys are not imported. Store them with:")?;
    }
    for login in logins {
        writeln!(out, "  {login}")?;
    }
    Ok(())
}
