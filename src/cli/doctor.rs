//! `roo-lsp doctor`: is everything in place?

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::arguments::{Common, Doctor};
use super::models::thousands;
use super::session::{SessionContext, check_profile, environment};
use super::terminal;
use super::{CliError, Ending};
use crate::model_setup::worked;
use roo_engine::customization::{Customization, GLOBAL_HOOKS, GLOBAL_MCP};
use roo_engine::engine::{FrameShare, Governed, Instructions, ToolSources, instructions_share};
use roo_engine::intent_store::{Intents, Orchestration};
use roo_engine::server_tools::ServerTools as _;
use roo_formats::Severity;
use roo_formats::config::{BrowserSettings, Directories, Loaded, Profile, SandboxLevel, Settings};
use roo_formats::intents::INTENTS_FILE;
use roo_formats::modes::Modes;
use roo_mcp::ServerStatus;
use roo_model::providers::probe;
use roo_sandbox::exec::shell;
use roo_text::render::counted;
use roo_trace::verify::verify;

/// The largest trace that is checked on the way, in bytes.
const MAX_TRACE_BYTES: u64 = 32 << 20;
/// Time limit for MCP servers to start.
const SERVERS: Duration = Duration::from_secs(20);

/// Prints what was found, one line a check; fails where a task would fail.
pub(super) fn doctor(common: &Common, arguments: &Doctor) -> Result<Ending, CliError> {
    let context = SessionContext::find(common)?;
    let mut report = Report::default();
    report.good("version", env!("CARGO_PKG_VERSION"));
    check_workspace(&context.folder, &context.directories, &mut report);
    report.check("state directory", writable(context.state().path()));

    let customization = context.customization()?;
    let file = &context.directories.config_file();
    let mut level = SandboxLevel::default();
    match context.load(None) {
        Err(problem) => report.bad("settings", &problem.to_string()),
        Ok(Loaded { settings, warnings }) => {
            if file.exists() {
                report.good("settings", &file.display().to_string());
            } else {
                report.note("settings", &format!("{} does not exist; the defaults apply", file.display()));
                let other = file.with_extension("yml");
                if other.exists() {
                    let name = file.file_name().unwrap_or_default().display();
                    report.note("settings", &format!("there is {}; the name is {name}", other.display()));
                }
            }
            for warning in &warnings {
                report.note("settings", &warning.to_string());
            }
            level = settings.sandbox.level;
            check_settings(&settings, &customization.modes(), &mut report);
            check_windows(&context, &settings, &customization, &mut report)?;
            check_rules(&context, &mut report);
            check_browser(&settings.browser, &context.folder, &mut report);
            match arguments.offline {
                true => report.note("models", "not asked whether they answer"),
                false => super::block_on(async {
                    check_models(&settings, &mut report).await;
                    check_servers(&context, settings, &mut report).await
                })??,
            }
        }
    }
    check_customization(&customization, &mut report);
    check_intents(&context, &mut report)?;
    check_trace(context.state().path(), &mut report);
    let bounds = context.bounds();
    let withheld = bounds.withheld_changes();
    match std::fs::read_dir(&withheld).into_iter().flatten().count() {
        0 => {}
        count => report.note(
            "withheld",
            &format!(
                "{count} in {}: what commands wrote and were not to change, or what could not be brought to the \
                 workspace; each is removed after 30 days",
                withheld.display()
            ),
        ),
    }
    for journal in unfinished_journals(context.state().path()) {
        let text = format!(
            "{} lists files of one change that could not be completed; what is missing is beside them, as \
             .roo-lsp-*.tmp. Delete the list when they are as you want them",
            journal.display()
        );
        report.note("unfinished", &text);
    }
    report.check("shell", known_shell());
    let folders = std::slice::from_ref(&context.folder);
    super::block_on(async {
        match bounds.sandbox().await.probe() {
            probe if probe.missing.is_empty() => report.good("sandbox", &probe.to_string()),
            probe => report.note("sandbox", &probe.to_string()),
        }
        match bounds.try_staging(folders).await {
            Ok(()) => report.good("staged commands", "L3 works in this workspace"),
            Err(reason) if level == SandboxLevel::Staged => report.bad("staged commands", &reason),
            Err(reason) => report.note("staged commands", &format!("not available here: {reason}")),
        }
    })?;
    terminal::stdout().write_all(report.text.as_bytes())?;
    Ok(if report.failed { Ending::Failed } else { Ending::Done })
}

#[derive(Default)]
struct Report {
    text: String,
    failed: bool,
}

impl Report {
    fn line(&mut self, mark: &str, what: &str, text: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.text, "{mark} {what}: {text}");
    }

    fn good(&mut self, what: &str, text: &str) {
        self.line("ok  ", what, text);
    }

    fn note(&mut self, what: &str, text: &str) {
        self.line("note", what, text);
    }

    fn bad(&mut self, what: &str, text: &str) {
        self.failed = true;
        self.line("FAIL", what, text);
    }

    fn check(&mut self, what: &str, outcome: Result<String, String>) {
        match outcome {
            Ok(text) => self.good(what, &text),
            Err(text) => self.bad(what, &text),
        }
    }
}

fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

/// Finds the shell that runs commands.
fn known_shell() -> Result<String, String> {
    let shell = shell();
    match shell.program().exists() {
        true => Ok(shell.name().into_owned()),
        false => Err(format!("there is no bash, and no {} to run commands", shell.name())),
    }
}

/// The journals of changes of several files that could be brought to neither side.
fn unfinished_journals(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_stopped =
        |path: &PathBuf| path.extension().is_some_and(|kind| kind.to_string_lossy().starts_with("stopped-"));
    let mut journals: Vec<PathBuf> = entries.filter(is_stopped).collect();
    journals.sort();
    journals
}

/// Checks that the state directory can be made and written.
fn writable(path: &Path) -> Result<String, String> {
    let probe = path.join(".doctor");
    // A full disk takes an empty file, and some take bytes that they can't keep.
    let write = || {
        let mut file = std::fs::File::create(&probe)?;
        file.write_all(&[0; 4096])?;
        file.sync_all()
    };
    let written = std::fs::create_dir_all(path).and_then(|()| write());
    let removed = std::fs::remove_file(&probe);
    match written.and(removed) {
        Ok(()) => Ok(path.display().to_string()),
        Err(error) => Err(format!("{} can't be written: {error}", path.display())),
    }
}

/// Checks that agents can write there.
fn check_workspace(folder: &Path, directories: &Directories, report: &mut Report) {
    if let Some(what) = directories.too_wide(folder) {
        return report
            .note("workspace", &format!("{} is {what}: agents would work on all of it", folder.display()));
    }
    match rustix::fs::access(folder, rustix::fs::Access::WRITE_OK) {
        Ok(()) => report.good("workspace", &folder.display().to_string()),
        Err(error) => {
            let text = format!("{} can't be written ({error}): agents can only read here", folder.display());
            report.note("workspace", &text);
        }
    }
}

/// Checks the file of intents; while none of it counts, agents change nothing.
fn check_intents(context: &SessionContext, report: &mut Report) -> Result<(), CliError> {
    let intents = context.intents()?;
    for problem in intents.problems() {
        match problem.problem.severity {
            Severity::Error => report.bad("intents", &problem.to_string()),
            Severity::Warning | Severity::Information => report.note("intents", &problem.to_string()),
        }
    }
    match intents {
        Intents::Present { file, .. } if !file.intents.is_empty() => {
            report.good("intents", &file.intents.len().to_string());
        }
        Intents::Present { .. } | Intents::Broken(_) => {
            report.bad("intents", &format!("no intent of {INTENTS_FILE} counts, so agents change nothing"));
        }
        Intents::Absent => {}
    }
    Ok(())
}

/// Checks that the trace is intact, where that takes little time.
fn check_trace(state: &Path, report: &mut Report) {
    let files = std::fs::read_dir(state.join("trace")).into_iter().flatten().flatten();
    let size: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    if size > MAX_TRACE_BYTES {
        let text = format!("{} MiB; roo-lsp trace verify checks whether it is intact", size >> 20);
        return report.note("trace", &text);
    }
    match verify(state, None) {
        Err(error) => report.bad("trace", &format!("it can't be read: {error}")),
        Ok(checked) => match checked.original.finding {
            Some(finding) => {
                let text = format!("it is not intact: {finding}; see roo-lsp trace verify");
                report.bad("trace", &text);
            }
            None if checked.chain.is_none() => {}
            None => report.good("trace", &format!("{}, intact", counted(checked.original.records, "record"))),
        },
    }
}

/// Checks that what the settings name is there, and can be used as far as that shows without a request.
fn check_settings(settings: &Settings, modes: &Modes, report: &mut Report) {
    report.check("mode", known_mode(modes, &settings.mode));
    if settings.profiles.is_empty() {
        report.check("profiles", Err("none, so no task can begin; run roo-lsp setup".to_owned()));
    } else {
        report.check("default profile", known_profile(settings, &settings.profile));
    }
    for (slug, mode) in &settings.modes {
        let profile = mode.profile.as_deref();
        let known = known_mode(modes, slug);
        report.check(
            &format!("modes.{slug}"),
            known.and_then(|_| profile.map_or(Ok("as it is".into()), |name| known_profile(settings, name))),
        );
    }
    let in_use = profiles_in_use(settings);
    for (name, profile) in &settings.profiles {
        let usable = check_profile(profile).map(|()| shown(profile)).map_err(|error| error.to_string());
        let subject = format!("profile {name}");
        match usable {
            Err(problem) if !in_use.contains(name.as_str()) => {
                report.note(&subject, &format!("nothing uses it. {problem}"));
            }
            usable => report.check(&subject, usable),
        }
    }
    let approve = &settings.auto_approve;
    report.good(
        "without asking",
        &format!(
            "read: {}, write: {}, commands: {} rules, presets: {}",
            yes(approve.read),
            yes(approve.write),
            approve.execute.allow.len(),
            match approve.execute.presets.as_slice() {
                [] => "none".to_owned(),
                presets => presets.join(", "),
            }
        ),
    );
}

/// The profiles that something of the settings leads to.
fn profiles_in_use(settings: &Settings) -> BTreeSet<&str> {
    let mut open: Vec<&str> = settings.modes.values().filter_map(|mode| mode.profile.as_deref()).collect();
    open.push(&settings.profile);
    open.extend(settings.index.embeddings.as_deref());
    open.extend(settings.image_generation.profile.as_deref());
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        let Some((name, profile)) = settings.profiles.get_key_value(name) else { continue };
        if found.insert(name.as_str()) {
            open.extend(profile.fallback.as_deref());
            open.extend(profile.condense.profile.as_deref());
        }
    }
    found
}

/// Checks that the windows of models have room for a conversation beside the instructions of the modes.
fn check_windows(
    context: &SessionContext,
    settings: &Settings,
    customization: &Customization,
    report: &mut Report,
) -> Result<(), CliError> {
    let modes = customization.modes_by(settings);
    let workspace = context.workspace()?;
    let orchestration = Orchestration::new(Arc::clone(&workspace), context.state().path());
    let governed = Governed { orchestration: &orchestration, require: settings.intents.require };
    // By profile: the mode that needs most of its window.
    let mut largest: BTreeMap<&str, (&str, FrameShare)> = BTreeMap::new();
    for mode in modes.iter() {
        let (name, Some(profile)) = settings.profile_of(&mode.slug) else { continue };
        if profile.context_window().is_none() {
            continue;
        }
        let choice = profile.tools();
        let tools = ToolSources {
            has_code_index: settings.index.enabled,
            has_image_generation: settings.generates_images(),
            ..ToolSources::built_in(&choice)
        };
        let protocol = profile.tool_protocol();
        let instructions =
            Instructions::new(mode, &modes, protocol, tools, customization, governed, &workspace);
        let Some(share) = instructions_share(profile, &instructions) else { continue };
        let known = largest.entry(name).or_insert((&mode.slug, share));
        if known.1.most < share.most {
            *known = (&mode.slug, share);
        }
    }
    for (name, (mode, FrameShare { least, most, allowed, window })) in largest {
        let what = format!("window of {name}");
        let text = format!(
            "the system prompt and the tools of the mode {mode} have {} to {} tokens, and a request may have {} in the \
             window of {}",
            thousands(least),
            thousands(most),
            thousands(allowed),
            thousands(window)
        );
        let advice = "use a model with a larger window, or raise `contextWindow` if the model takes more";
        if least >= allowed {
            report.bad(&what, &format!("{text}: there is no room for a conversation; {advice}"));
        } else if most > allowed / 2 {
            report.note(&what, &format!("{text}: there is little room for a conversation; {advice}"));
        }
    }
    Ok(())
}

/// Checks that there is a browser for agents.
fn check_browser(settings: &BrowserSettings, folder: &Path, report: &mut Report) {
    if !settings.enabled {
        return report.note("browser", "off by browser.enabled");
    }
    let search = std::env::var_os("PATH").unwrap_or_default();
    match roo_browser::find_program(settings.program.as_deref(), &search, &[folder.to_owned()]) {
        Ok(program) => report.good("browser", &program.display().to_string()),
        // Whoever names one wants it.
        Err(reason) if settings.program.is_some() => report.bad("browser", &reason),
        Err(reason) => report.note("browser", &reason),
    }
}

/// Tells what standing rules allow beside the settings.
fn check_rules(context: &SessionContext, report: &mut Report) {
    match context.rules().list() {
        Err(error) => report.bad("standing rules", &error.to_string()),
        Ok(rules) if rules.is_empty() => {}
        Ok(rules) => {
            let texts: Vec<String> =
                rules.iter().map(|rule| format!("{} {}", rule.rule_id, rule.text)).collect();
            report.good("standing rules", &texts.join("; "));
        }
    }
    if let Some(notice) = context.rules().notice() {
        report.note("standing rules", &notice);
    }
}

/// Checks that the models that tasks would use answer.
async fn check_models(settings: &Settings, report: &mut Report) {
    let modes = settings.modes.values().filter_map(|mode| mode.profile.as_ref());
    let used: BTreeSet<&String> = modes.chain([&settings.profile]).collect();
    let used = used.into_iter().filter_map(|name| settings.profiles.get_key_value(name));
    // What lacks something has been told already.
    let usable = used.filter(|(_, profile)| !profile.plays_script() && check_profile(profile).is_ok());
    let probes = usable.map(async |(name, profile)| (name, profile, probe(profile, &environment).await));
    for (name, profile, outcome) in join_all(probes).await {
        let model = profile.model.as_deref().unwrap_or_default();
        let window =
            profile.context_window().map(|tokens| format!(", window of {} tokens", thousands(tokens)));
        let outcome = outcome.map(|probe| worked(model, &probe) + &window.unwrap_or_default());
        let outcome = outcome.map_err(|error| error.to_string());
        report.check(&format!("model of {name}"), outcome);
    }
}

/// Starts the MCP servers and reports those that can't be used; tasks work without them.
async fn check_servers(
    context: &SessionContext,
    settings: Settings,
    report: &mut Report,
) -> Result<(), CliError> {
    let servers = context.mcp_servers(settings)?;
    let listed = servers.report();
    let names: Vec<&str> = listed.iter().map(|server| server.name.as_str()).collect();
    for server in servers.settled(&names, SERVERS).await {
        let reason = match &server.status {
            ServerStatus::Failed { fault, .. } => fault.to_string(),
            ServerStatus::NeedsLogin(fault) => format!("needs login: {fault}"),
            ServerStatus::NotStarted | ServerStatus::Starting => {
                format!("it has not answered within {} s; see roo-lsp mcp test", SERVERS.as_secs())
            }
            ServerStatus::Disabled | ServerStatus::WaitingForApproval | ServerStatus::Connected(_) => {
                continue;
            }
        };
        report.note(&format!("MCP server {}", server.name), &reason);
    }
    servers.shut_down().await;
    Ok(())
}

/// Checks the files that steer agents, and reports what is left out without trust.
fn check_customization(customization: &Customization, report: &mut Report) {
    report.good("modes", &customization.modes().iter().count().to_string());
    for problem in customization.problems() {
        let what = match problem.file.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
            GLOBAL_HOOKS => "hooks",
            GLOBAL_MCP => "MCP servers",
            "trust.json" => "trust",
            name if name.contains("modes") => "modes",
            _ => "files that steer agents",
        };
        match problem.problem.severity {
            Severity::Error => report.bad(what, &problem.to_string()),
            Severity::Warning | Severity::Information => report.note(what, &problem.to_string()),
        }
    }
    let servers = customization.mcp_servers();
    if !servers.is_empty() {
        let waiting = servers.iter().filter(|server| !server.is_approved).count();
        let text =
            format!("{} configured, {waiting} waiting for approval; see roo-lsp mcp list", servers.len());
        report.good("MCP servers", &text);
    }
    let trust = customization.trust();
    match (trust.trusted, trust.brings.join(", ")) {
        (_, brings) if brings.is_empty() => {}
        (true, brings) => report.good("trusted", &brings),
        (false, brings) => report.note("not trusted", &format!("{brings}; see roo-lsp trust")),
    }
    let teams = [(&trust.delegation, "trust --delegation"), (&trust.own_delegation, "modes delegation")];
    for (team, command) in teams {
        let Some(team) = team else { continue };
        let modes = team.modes.join(", ");
        let answered = |told: &str| format!("{modes} {told} to each other, as you answered");
        match team.allowed {
            Some(true) => report.good("delegation", &answered("may delegate")),
            Some(false) => report.good("delegation", &answered("may not delegate")),
            None => {
                let question = format!("may {modes} delegate to each other, as in Roo Code?");
                let answer = format!("Answer with roo-lsp {command} allow, or refuse");
                report.note("delegation", &format!("{question} {answer}"));
            }
        }
    }
}

fn known_mode(modes: &Modes, slug: &str) -> Result<String, String> {
    modes.find(slug).map(|mode| mode.slug.clone()).map_err(|error| error.to_string())
}

fn known_profile(settings: &Settings, name: &str) -> Result<String, String> {
    settings.find_profile(name).map(|_| name.to_owned()).map_err(|error| error.to_string())
}

fn shown(profile: &Profile) -> String {
    match (&profile.model, &profile.script) {
        (_, Some(script)) if profile.plays_script() => format!("plays {}", script.display()),
        (model, _) => model.clone().unwrap_or_default(),
    }
}
