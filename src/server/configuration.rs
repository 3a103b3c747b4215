//! The settings of one connection: the user's file, the client's options, what the workspace takes away.
//! What is wrong with the file is shown in it by [`super::config_files`].
//!
//! The file is read again whenever settings are needed, so that what was written counts for the next turn. A layer that
//! can't be used leaves its last good state in force.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tower_lsp::Client;
use tower_lsp::ls_types::{ConfigurationItem, MessageType};

use roo_engine::policy::command;
use roo_formats::Severity;
use roo_formats::config::{self, Layer, Origin, Settings, SettingsProblem, SettingsSource};

/// Time limit for a client's answer to `workspace/configuration`.
const CONFIGURATION_DEADLINE: Duration = Duration::from_millis(500);

/// A layer as it was read, or what is wrong with it.
type ReadLayer = Result<Option<Layer>, SettingsProblem>;

/// The settings, and what is wrong with their layers.
#[derive(Clone)]
pub(super) struct Configured {
    /// Of the layers that can be used.
    pub(super) settings: Arc<Settings>,
    /// Settings of the user's own layers, before the workspace took something away.
    own: Arc<Settings>,
    /// Layers that can't be used.
    pub(super) errors: Vec<SettingsProblem>,
    /// Keys that mean nothing, and rules that can never apply.
    pub(super) warnings: Vec<SettingsProblem>,
    /// The layers that are used, weakest first: the file's, the options', and what only takes away.
    layers: UsedLayers,
}

/// The layers that are used.
#[derive(Clone, Default)]
struct UsedLayers {
    file: Option<Layer>,
    options: Option<Layer>,
    workspace: Option<Layer>,
}

impl Configured {
    /// The settings of the file alone. Reads the disk.
    pub(super) fn load(file: &Path) -> Self {
        Self::new(Layer::read(file), Ok(None), Ok(None), &UsedLayers::default())
    }

    /// The settings of the file alone, if it held this text.
    pub(super) fn from_text(file: &Path, text: &str) -> Self {
        Self::new(Layer::from_yaml(file, text), Ok(None), Ok(None), &UsedLayers::default())
    }

    /// A layer that is wrong is left out as a whole, its state from `before` takes its place, and the rest counts.
    fn new(file: ReadLayer, options: ReadLayer, workspace: ReadLayer, before: &UsedLayers) -> Self {
        let mut loading = Loading::default();
        let file = loading.add(file, before.file.as_ref());
        let options = loading.add(options, before.options.as_ref());
        let Loading { used, mut settings, mut warnings, unused, mut errors } = loading;
        warnings.extend(used.iter().flat_map(command::problems));
        warnings.extend(unused);
        let own = Arc::new(settings.clone());
        let mut tighten =
            |layer: &Layer| config::tighten_by(&mut settings, layer).map(|more| warnings.extend(more));
        let workspace = match workspace {
            Ok(None) => None,
            Ok(Some(layer)) => match tighten(&layer) {
                Ok(()) => Some(layer),
                Err(problem) => {
                    errors.push(problem);
                    // It was good before, with other settings below it perhaps.
                    before.workspace.clone().filter(|layer| tighten(layer).is_ok())
                }
            },
            Err(problem) => {
                errors.push(problem);
                before.workspace.clone().filter(|layer| tighten(layer).is_ok())
            }
        };
        let layers = UsedLayers { file, options, workspace };
        Self { settings: Arc::new(settings), own, errors, warnings, layers }
    }

    /// Returns what is wrong with the layers, the errors first.
    pub(super) fn problems(&self) -> impl Iterator<Item = &SettingsProblem> {
        self.errors.iter().chain(&self.warnings)
    }

    /// Returns the problems of the file.
    pub(super) fn file_problems(&self) -> impl Iterator<Item = &SettingsProblem> {
        self.problems().filter(|problem| matches!(problem.origin, Origin::File(_)))
    }

    /// Returns whether the user should look at the file.
    pub(super) fn has_file_errors(&self) -> Option<&PathBuf> {
        self.errors.iter().find_map(|problem| match &problem.origin {
            Origin::File(path) => Some(path),
            _ => None,
        })
    }

    /// Returns the value of a setting, such as `autoApprove.write`, and its origin, with the line in a file; none for
    /// the origin where nobody sets it.
    pub(super) fn find(&self, key: &str) -> (Value, Option<String>) {
        let pointer = format!("/{}", key.replace('.', "/"));
        let value_in = |settings: &Settings| {
            let all = serde_json::to_value(settings).unwrap_or_default();
            all.pointer(&pointer).cloned().unwrap_or_default()
        };
        let (value, own) = (value_in(&self.settings), value_in(&self.own));
        let UsedLayers { file, options, workspace } = &self.layers;
        let layers = if value == own { [options, file] } else { [workspace, &None] };
        let origin = layers.into_iter().flatten().find_map(|layer| layer.tells(key));
        (value, origin)
    }
}

/// Layers over each other, on the way.
#[derive(Default)]
struct Loading {
    used: Vec<Layer>,
    settings: Settings,
    warnings: Vec<SettingsProblem>,
    /// Warnings of layers that are left out: a misspelt key may be why another one is missing.
    unused: Vec<SettingsProblem>,
    errors: Vec<SettingsProblem>,
}

impl Loading {
    /// Puts a layer over the others, or else the one that was there before. Returns the one that is used.
    fn add(&mut self, layer: ReadLayer, before: Option<&Layer>) -> Option<Layer> {
        let problem = match layer {
            Ok(None) => return None,
            Ok(Some(layer)) => match self.put(&layer) {
                Ok(()) => return Some(layer),
                Err(problem) => {
                    self.unused.extend(layer.warnings());
                    problem
                }
            },
            Err(problem) => problem,
        };
        self.errors.push(problem);
        before.filter(|layer| self.put(layer).is_ok()).cloned()
    }

    fn put(&mut self, layer: &Layer) -> Result<(), SettingsProblem> {
        let loaded = config::load(self.used.iter().chain([layer]).cloned())?;
        self.used.push(layer.clone());
        self.settings = loaded.settings;
        self.warnings = loaded.warnings;
        Ok(())
    }
}

/// Asks the client for what the workspace says; none where it has no answer.
pub(super) async fn asked_of(client: &Client) -> Option<Value> {
    let item = ConfigurationItem { scope_uri: None, section: Some("roo".to_owned()) };
    let answer = tokio::time::timeout(CONFIGURATION_DEADLINE, client.configuration(vec![item])).await;
    match answer {
        Ok(Ok(answers)) => Some(answers.into_iter().next().unwrap_or_default()),
        Ok(Err(error)) => {
            tracing::info!(%error, "the client sent no settings in answer to workspace/configuration");
            None
        }
        Err(_) => {
            tracing::warn!("the client did not answer workspace/configuration in time");
            None
        }
    }
}

/// The settings of a connection while it lives.
pub(super) struct LiveSettings {
    file: PathBuf,
    state: Mutex<LiveState>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
}

struct LiveState {
    /// The file as it was read last; none while it can't be read, as where there is none.
    text: Option<String>,
    options: Value,
    /// The client's answer to `workspace/configuration`, or what it said unasked.
    workspace: Value,
    configured: Arc<Configured>,
}

impl LiveSettings {
    /// The settings of the file, of the client's options, and of what the workspace says. Reads the disk.
    pub(super) fn load(file: PathBuf, options: Value, workspace: Value) -> Self {
        let text = config::read_settings(&file);
        let configured = configure(&file, &text, &options, &workspace, &UsedLayers::default());
        let state = LiveState { text: text.ok().flatten(), options, workspace, configured };
        Self { file, state: Mutex::new(state), changes: watch::Sender::new(0) }
    }

    /// Returns the settings and what is wrong with them, as they are now. Reads the disk.
    pub(super) fn configured(&self) -> Arc<Configured> {
        let mut state = self.lock();
        let text = config::read_settings(&self.file);
        if !matches!(&text, Ok(text) if *text == state.text) {
            self.renew(&mut state, text);
        }
        Arc::clone(&state.configured)
    }

    /// Returns the same as they were read last.
    pub(super) fn newest(&self) -> Arc<Configured> {
        Arc::clone(&self.lock().configured)
    }

    /// Takes the client's options as they are now.
    pub(super) fn set_options(&self, options: Value) {
        let mut state = self.lock();
        state.options = options;
        self.renew(&mut state, config::read_settings(&self.file));
    }

    /// Takes what the workspace says now.
    pub(super) fn set_workspace(&self, workspace: Value) {
        let mut state = self.lock();
        if state.workspace != workspace {
            state.workspace = workspace;
            self.renew(&mut state, config::read_settings(&self.file));
        }
    }

    /// Returns what tells of changes.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn renew(&self, state: &mut LiveState, text: Result<Option<String>, SettingsProblem>) {
        let before = &state.configured;
        let configured = configure(&self.file, &text, &state.options, &state.workspace, &before.layers);
        let is_other = configured.settings != before.settings
            || configured.errors != before.errors
            || configured.warnings != before.warnings;
        state.text = text.ok().flatten();
        state.configured = configured;
        if is_other {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SettingsSource for LiveSettings {
    fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.configured().settings)
    }
}

fn configure(
    file: &Path,
    text: &Result<Option<String>, SettingsProblem>,
    options: &Value,
    workspace: &Value,
    before: &UsedLayers,
) -> Arc<Configured> {
    let layer = match text {
        Ok(None) => Ok(None),
        Ok(Some(text)) => Layer::from_yaml(file, text),
        Err(problem) => Err(problem.clone()),
    };
    let options = Layer::from_initialization_options(options);
    Arc::new(Configured::new(layer, options, Layer::from_workspace(workspace), before))
}

/// Tells a client's user what is wrong with settings, each problem once.
#[derive(Default)]
pub(super) struct SettingsReport {
    told: HashSet<String>,
}

impl SettingsReport {
    /// Shows as messages what is wrong elsewhere than in the file.
    pub(super) async fn tell(&mut self, configured: &Configured, client: &Client) {
        let problems: Vec<(String, &SettingsProblem)> =
            configured.problems().map(|problem| (problem.to_string(), problem)).collect();
        // What was put right and comes back is told again.
        self.told.retain(|told| problems.iter().any(|(text, _)| text == told));
        for (text, problem) in problems {
            if !self.told.insert(text.clone()) {
                continue;
            }
            tracing::warn!("{text}");
            if matches!(problem.origin, Origin::File(_)) {
                continue;
            }
            if problem.problem.severity == Severity::Error {
                client.show_message(MessageType::ERROR, format!("roo settings: {text}")).await;
            } else {
                client.log_message(MessageType::WARNING, format!("roo settings: {text}")).await;
            }
        }
    }

    /// Returns whether the user is to be told of errors in the file; once, until there are other ones.
    pub(super) fn is_new(&self, configured: &Configured) -> bool {
        let in_file = |problem: &&SettingsProblem| matches!(problem.origin, Origin::File(_));
        let mut errors = configured.errors.iter().filter(in_file);
        errors.any(|problem| !self.told.contains(&problem.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn load(file: &str, options: Value) -> Configured {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, file).unwrap();
        let live = LiveSettings::load(path, options, Value::Null);
        Configured::clone(&live.configured())
    }

    #[test]
    fn a_broken_file_leaves_the_options_in_force() {
        let configured = load("mode: [\n", json!({ "roo": { "limits": { "depth": 2 } } }));
        assert_eq!(configured.settings.limits.depth, 2);
        assert!(configured.has_file_errors().is_some());
    }

    #[test]
    fn broken_options_leave_the_file_in_force() {
        let configured = load("limits: { depth: 3 }\nfoo: 1\n", json!({ "roo": { "limits": 1 } }));
        assert_eq!(configured.settings.limits.depth, 3);
        assert_eq!(configured.errors[0].origin, Origin::InitializationOptions);
        assert_eq!(configured.warnings[0].path, "foo");
    }

    /// A file that can be written again.
    struct Written {
        live: LiveSettings,
        path: PathBuf,
        _directory: tempfile::TempDir,
    }

    impl Written {
        fn new(text: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("config.yaml");
            std::fs::write(&path, text).unwrap();
            let live = LiveSettings::load(path.clone(), Value::Null, Value::Null);
            Self { live, path, _directory: directory }
        }

        fn write(&self, text: &str) {
            std::fs::write(&self.path, text).unwrap();
        }
    }

    #[test]
    fn a_written_file_counts_from_then_on() {
        let written = Written::new("mode: code\n");
        let changes = written.live.changes();
        written.write("mode: architect\n");
        assert_eq!(written.live.settings().mode, "architect");
        assert_eq!(written.live.settings().mode, "architect");
        assert_eq!(*changes.borrow(), 1);
        std::fs::remove_file(&written.path).unwrap();
        assert_eq!(written.live.settings().mode, Settings::default().mode);
    }

    #[test]
    fn a_file_that_is_broken_while_it_counts_leaves_its_last_good_state_in_force() {
        let written = Written::new("autoApprove: { execute: { deny: [[rm]] } }\n");
        for broken in ["mode: [\n", "limits: 3\n"] {
            written.write(broken);
            assert_eq!(written.live.settings().auto_approve.execute.deny, [["rm"]], "{broken}");
            assert!(written.live.configured().has_file_errors().is_some(), "{broken}");
        }
        written.write("mode: code\n");
        assert!(written.live.settings().auto_approve.execute.deny.is_empty());
        assert!(written.live.configured().errors.is_empty());
    }

    #[test]
    fn what_the_workspace_says_takes_away_and_gives_nothing() {
        let written = Written::new("autoApprove: { write: true }\n");
        written
            .live
            .set_workspace(json!({ "autoApprove": { "write": false, "mcp": true }, "mode": "architect" }));
        let settings = written.live.settings();
        assert!(!settings.auto_approve.write && !settings.auto_approve.mcp);
        assert_eq!(settings.mode, Settings::default().mode);
        let origin = |key| written.live.configured().find(key).1;
        assert_eq!(origin("autoApprove.write").unwrap(), "workspace/configuration");
        assert_eq!(origin("autoApprove.mcp"), None, "it was off before");
        // A value that can't be read does not lift what was taken away.
        written.live.set_workspace(json!({ "autoApprove": 3 }));
        assert!(!written.live.settings().auto_approve.write);
        written.live.set_workspace(Value::Null);
        assert!(written.live.settings().auto_approve.write);
        assert!(origin("autoApprove.write").unwrap().ends_with("config.yaml:1"));
    }

    #[test]
    fn options_replace_those_before() {
        let written = Written::new("mode: code\n");
        written.live.set_options(json!({ "roo": { "mode": "architect", "limits": { "depth": 2 } } }));
        assert_eq!(written.live.settings().limits.depth, 2);
        written.live.set_options(json!({ "roo": { "mode": "ask" } }));
        let settings = written.live.settings();
        assert_eq!(
            (settings.mode.as_str(), settings.limits.depth),
            ("ask", Settings::default().limits.depth)
        );
    }
}
