//! Settings while a program runs: the user's file, options from elsewhere, what the workspace takes away.
//!
//! The file is looked at again whenever settings are needed, so that what was written counts for the next turn. A layer that
//! can't be used leaves its last good state in force.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use roo_durable::SAVING;
use roo_engine::engine::clock::Clock;
use roo_engine::policy::command;
use roo_formats::config::{self, Layer, Origin, Settings, SettingsFile, SettingsProblem, SettingsSource};

/// A layer as it was read, or what is wrong with it.
pub(crate) type ReadLayer = Result<Option<Layer>, SettingsProblem>;

/// The settings, and what is wrong with their layers.
#[derive(Clone)]
pub(crate) struct Configured {
    /// Of the layers that can be used.
    pub(crate) settings: Arc<Settings>,
    /// Settings of the user's own layers, before the workspace took something away.
    own: Arc<Settings>,
    /// Layers that can't be used.
    pub(crate) errors: Vec<SettingsProblem>,
    /// Reason why no agent may work: layers that can't be used, of which no earlier state is in force.
    pub(crate) fault: Option<String>,
    /// Keys that mean nothing, and rules that can never apply.
    pub(crate) warnings: Vec<SettingsProblem>,
    /// The layers that are used, weakest first: the file's, the options', and what only takes away.
    layers: UsedLayers,
}

/// What was said of settings elsewhere than in the user's file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SaidSettings {
    /// Options of the user's own.
    pub(crate) options: Value,
    /// What the workspace says, which only takes away.
    pub(crate) workspace: Value,
}

#[derive(Clone, Default)]
struct UsedLayers {
    file: Option<Layer>,
    options: Option<Layer>,
    workspace: Option<Layer>,
}

impl Configured {
    /// The settings of the file alone. Reads the disk.
    pub(crate) fn load(file: &Path) -> Self {
        Self::new(&Layer::read(file), &Ok(None), &Ok(None), &UsedLayers::default())
    }

    /// The settings of the file alone, if it held this text.
    pub(crate) fn from_text(file: &Path, text: &str) -> Self {
        Self::new(&Layer::from_yaml(file, text), &Ok(None), &Ok(None), &UsedLayers::default())
    }

    /// A layer that is wrong is left out as a whole, its state from `before` takes its place, and the rest counts.
    fn new(file: &ReadLayer, options: &ReadLayer, workspace: &ReadLayer, before: &UsedLayers) -> Self {
        let mut loading = Loading::default();
        let file = loading.add(file, before.file.as_ref());
        let options = loading.add(options, before.options.as_ref());
        let Loading { used, mut settings, mut warnings, unused, mut errors, mut missing } = loading;
        // What a client tells of itself was negotiated; it makes no difference to agents, nor to whoever shares their engine.
        (settings.protocol_version, settings.document_save, settings.code_ask) = (None, false, false);
        warnings.extend(used.iter().flat_map(command::problems));
        warnings.extend(unused);
        let own = Arc::new(settings.clone());
        let mut tighten =
            |layer: &Layer| config::tighten_by(&mut settings, layer).map(|more| warnings.extend(more));
        let tightened = match workspace {
            Ok(Some(layer)) => tighten(layer).map(|()| Some(layer.clone())),
            Ok(None) => Ok(None),
            Err(problem) => Err(problem.clone()),
        };
        let workspace = tightened.unwrap_or_else(|problem| {
            // It was good before, with other settings below it perhaps.
            let last = before.workspace.clone().filter(|layer| tighten(layer).is_ok());
            missing.extend(last.is_none().then(|| problem.clone()));
            errors.push(problem);
            last
        });
        let layers = UsedLayers { file, options, workspace };
        Self { settings: Arc::new(settings), own, errors, fault: fault_of(&missing), warnings, layers }
    }

    /// Returns what is wrong with the layers, the errors first.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &SettingsProblem> {
        self.errors.iter().chain(&self.warnings)
    }

    /// Returns the problems of the file.
    pub(crate) fn file_problems(&self) -> impl Iterator<Item = &SettingsProblem> {
        self.problems().filter(|problem| matches!(problem.origin, Origin::File(_)))
    }

    /// Returns whether the user should look at the file.
    pub(crate) fn has_file_errors(&self) -> Option<&PathBuf> {
        self.errors.iter().find_map(|problem| match &problem.origin {
            Origin::File(path) => Some(path),
            _ => None,
        })
    }

    /// Returns what was said of settings elsewhere than in the file and counts: options, and what the workspace takes away. What
    /// is loaded with both is configured the same while the file is.
    pub(crate) fn said(&self) -> SaidSettings {
        let values = |layer: &Option<Layer>| match layer {
            Some(layer) => json!({ "roo": layer.values() }),
            None => Value::Null,
        };
        SaidSettings { options: values(&self.layers.options), workspace: values(&self.layers.workspace) }
    }

    /// Returns the value of a setting, such as `autoApprove.write`, and its origin, with the line in a file; none for
    /// the origin where nobody sets it.
    pub(crate) fn find(&self, key: &str) -> (Value, Option<String>) {
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
    /// Those of the errors that leave nothing of their layer in force.
    missing: Vec<SettingsProblem>,
}

/// Returns the reason why nothing runs while layers are not in force.
fn fault_of(missing: &[SettingsProblem]) -> Option<String> {
    let problems: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let origins: Vec<String> = missing.iter().map(|problem| problem.origin.to_string()).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "{}; no agent runs until you correct this, because settings that may refuse something are not in force: those of {}",
            problems.join("; "),
            origins.join(" and of ")
        )
    })
}

impl Loading {
    /// Puts a layer over the others, or else the one that was there before. Returns the one that is used.
    fn add(&mut self, layer: &ReadLayer, before: Option<&Layer>) -> Option<Layer> {
        let problem = match layer {
            Ok(None) => return None,
            Ok(Some(layer)) => match self.put(layer) {
                Ok(()) => return Some(layer.clone()),
                Err(problem) => {
                    self.unused.extend(layer.warnings());
                    problem
                }
            },
            Err(problem) => problem.clone(),
        };
        self.errors.push(problem.clone());
        let last = before.filter(|layer| self.put(layer).is_ok()).cloned();
        self.missing.extend(last.is_none().then_some(problem));
        last
    }

    fn put(&mut self, layer: &Layer) -> Result<(), SettingsProblem> {
        let loaded = config::load(self.used.iter().chain([layer]).cloned())?;
        self.used.push(layer.clone());
        self.settings = loaded.settings;
        self.warnings = loaded.warnings;
        Ok(())
    }
}

/// The settings while a program runs.
pub(crate) struct LiveSettings {
    clock: Arc<dyn Clock>,
    /// Held while it is read.
    file: Mutex<SettingsFile>,
    state: Mutex<LiveState>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
    /// The file may be being saved.
    saving: Notify,
}

struct LiveState {
    file: ReadLayer,
    options: ReadLayer,
    workspace: ReadLayer,
    configured: Arc<Configured>,
}

impl LiveSettings {
    /// The settings of the file, of options from elsewhere, and of what the workspace says. Reads the disk.
    pub(crate) fn load(file: PathBuf, options: ReadLayer, workspace: &Value, clock: Arc<dyn Clock>) -> Self {
        let file = SettingsFile::read(file);
        let (of_file, workspace) = (layer_of(&file), Layer::from_workspace(workspace));
        let configured = Configured::new(&of_file, &options, &workspace, &UsedLayers::default());
        let state = LiveState { file: of_file, options, workspace, configured: Arc::new(configured) };
        Self {
            clock,
            file: Mutex::new(file),
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
            saving: Notify::new(),
        }
    }

    /// Returns the settings and what is wrong with them, as they are now. Reads the disk apart from the runtime's threads.
    pub(crate) async fn read(self: &Arc<Self>) -> Arc<Configured> {
        let this = Arc::clone(self);
        // While the process ends, what was read last will do.
        tokio::task::spawn_blocking(move || this.read_blocking()).await.unwrap_or_else(|_| self.newest())
    }

    /// Returns the same to callers that may block.
    pub(crate) fn read_blocking(&self) -> Arc<Configured> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.refresh(self.clock.now()) {
            self.renew(|state| state.file = layer_of(&file));
        }
        if file.is_being_saved() {
            self.saving.notify_one();
        }
        self.newest()
    }

    /// Reads the file, which the caller has just written: all of it counts.
    pub(crate) fn read_whole(&self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.refresh_whole() {
            self.renew(|state| state.file = layer_of(&file));
        }
    }

    /// Returns the same as they were read last.
    pub(crate) fn newest(&self) -> Arc<Configured> {
        Arc::clone(&self.lock().configured)
    }

    /// Takes the client's options as they are now.
    pub(crate) fn set_options(&self, options: &Value) {
        self.renew(|state| state.options = Layer::from_initialization_options(options));
    }

    /// Takes what the workspace says now.
    pub(crate) fn set_workspace(&self, workspace: &Value) {
        self.renew(|state| state.workspace = Layer::from_workspace(workspace));
    }

    /// Returns what tells of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Reads the file once more whenever it may have been read while it was being saved, for those who learn of changes by
    /// [`LiveSettings::changes`]. Never ends.
    pub(crate) async fn follow_saving(self: Arc<Self>) {
        loop {
            self.saving.notified().await;
            tokio::time::sleep(SAVING).await;
            self.read().await;
        }
    }

    fn renew(&self, change: impl FnOnce(&mut LiveState)) {
        let mut state = self.lock();
        change(&mut state);
        let before = Arc::clone(&state.configured);
        let configured = Configured::new(&state.file, &state.options, &state.workspace, &before.layers);
        let is_other = configured.settings != before.settings
            || configured.fault != before.fault
            || configured.errors != before.errors
            || configured.warnings != before.warnings;
        state.configured = Arc::new(configured);
        drop(state);
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
        Arc::clone(&self.read_blocking().settings)
    }

    fn fault(&self) -> Option<String> {
        self.newest().fault.clone()
    }
}

fn layer_of(file: &SettingsFile) -> ReadLayer {
    match file.text() {
        Ok(None) => Ok(None),
        Ok(Some(text)) => Layer::from_yaml(file.path(), text),
        Err(problem) => Err(problem.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use jiff::Zoned;
    use roo_engine::engine::clock::SystemClock;
    use uuid::Uuid;

    use super::*;

    fn load(file: &str, options: Value) -> Configured {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, file).unwrap();
        let options = Layer::from_initialization_options(&options);
        let live = LiveSettings::load(path, options, &Value::Null, Arc::new(SystemClock));
        Configured::clone(&live.newest())
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

    #[test]
    fn what_was_said_can_be_said_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, "limits: { depth: 3 }\n").unwrap();
        let load = |options: &Value, workspace: &Value| {
            let options = Layer::from_initialization_options(options);
            LiveSettings::load(path.clone(), options, workspace, Arc::new(SystemClock)).newest()
        };
        for (options, workspace) in [
            (Value::Null, Value::Null),
            (json!({ "roo": { "mode": "ask" }, "other": 1 }), Value::Null),
            (
                json!({ "autoApprove": { "write": true } }),
                json!({ "limits": { "depth": 1 }, "mode": "code" }),
            ),
        ] {
            let first = load(&options, &workspace);
            let said = first.said();
            assert_eq!(
                load(&said.options, &said.workspace).settings,
                first.settings,
                "{options} {workspace}"
            );
        }
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
            let live = LiveSettings::load(path.clone(), Ok(None), &Value::Null, Arc::new(SystemClock));
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
    }

    #[test]
    fn a_file_that_is_broken_while_it_counts_leaves_its_last_good_state_in_force() {
        let written = Written::new("autoApprove: { execute: { deny: [[rm]] } }\n");
        // None is shorter than the one before, so that each counts at once.
        for broken in [
            "mode: [ # and nothing else of what was there\n",
            "limits: 3 # and nothing else of what was there\n",
        ] {
            written.write(broken);
            assert_eq!(written.live.settings().auto_approve.execute.deny, [["rm"]], "{broken}");
            assert!(written.live.newest().has_file_errors().is_some(), "{broken}");
        }
        written.write("mode: code # and nothing else of what was there before\n");
        assert!(written.live.settings().auto_approve.execute.deny.is_empty());
        assert!(written.live.newest().errors.is_empty());
    }

    #[test]
    fn a_file_that_is_being_saved_leaves_its_last_state_in_force() {
        let written = Written::new("autoApprove: { execute: { deny: [[rm]] } }\n");
        let changes = written.live.changes();
        written.write("");
        assert_eq!(written.live.settings().auto_approve.execute.deny, [["rm"]]);
        std::fs::remove_file(&written.path).unwrap();
        assert_eq!(written.live.settings().auto_approve.execute.deny, [["rm"]]);
        // Nobody is told of a problem.
        assert_eq!(*changes.borrow(), 0);
        // Whoever has written it knows that it is whole.
        written.write("");
        written.live.read_whole();
        assert!(written.live.settings().auto_approve.execute.deny.is_empty());
    }

    /// A clock by which two seconds pass from one look to the next.
    struct Leaping(AtomicI64);

    impl Clock for Leaping {
        fn now(&self) -> i64 {
            self.0.fetch_add(2000, Ordering::SeqCst)
        }

        fn zoned(&self) -> Zoned {
            SystemClock.zoned()
        }

        fn random(&self) -> Uuid {
            SystemClock.random()
        }

        fn ordered(&self) -> Uuid {
            SystemClock.ordered()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_of_a_file_counts_without_anybody_asking_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, "mode: ask\n").unwrap();
        let clock = Arc::new(Leaping(AtomicI64::new(0)));
        let live = Arc::new(LiveSettings::load(path.clone(), Ok(None), &Value::Null, clock));
        let mut changes = live.changes();
        tokio::spawn(Arc::clone(&live).follow_saving());
        std::fs::remove_file(&path).unwrap();
        live.read().await;
        changes.changed().await.unwrap();
        assert_eq!(live.newest().settings.mode, Settings::default().mode);
    }

    #[test]
    fn what_the_workspace_says_takes_away_and_gives_nothing() {
        let written = Written::new("autoApprove: { write: true }\n");
        written
            .live
            .set_workspace(&json!({ "autoApprove": { "write": false, "mcp": true }, "mode": "architect" }));
        let settings = written.live.settings();
        assert!(!settings.auto_approve.write && !settings.auto_approve.mcp);
        assert_eq!(settings.mode, Settings::default().mode);
        let origin = |key| written.live.newest().find(key).1;
        assert_eq!(origin("autoApprove.write").unwrap(), "workspace/configuration");
        assert_eq!(origin("autoApprove.mcp"), None, "it was off before");
        // A value that can't be read does not lift what was taken away.
        written.live.set_workspace(&json!({ "autoApprove": 3 }));
        assert!(!written.live.settings().auto_approve.write);
        written.live.set_workspace(&Value::Null);
        assert!(written.live.settings().auto_approve.write);
        assert!(origin("autoApprove.write").unwrap().ends_with("config.yaml:1"));
    }

    #[test]
    fn a_layer_that_was_never_good_lets_nothing_run() {
        let written = Written::new("autoApprove: { execute: { deny: [rm] } }\n");
        let fault = || written.live.fault().unwrap_or_default();
        assert!(fault().contains("config.yaml:1:") && fault().contains("no agent runs"), "{}", fault());
        assert!(written.live.settings().auto_approve.execute.deny.is_empty());
        // One that was good stays in force, so that nothing is missing.
        written.write("autoApprove: { execute: { deny: [[rm]] } }\n");
        assert_eq!((written.live.settings().auto_approve.execute.deny.len(), fault()), (1, String::new()));
        written.write("autoApprove: { execute: { deny: [rm, and more] } }\n");
        assert_eq!((written.live.settings().auto_approve.execute.deny.len(), fault()), (1, String::new()));
        written.live.set_options(&json!({ "roo": 3 }));
        written.live.set_workspace(&json!({ "autoApprove": 3 }));
        assert!(
            fault().ends_with("those of initializationOptions and of workspace/configuration"),
            "{}",
            fault()
        );
        written.live.set_options(&Value::Null);
        written.live.set_workspace(&Value::Null);
        assert_eq!(fault(), "");
    }

    #[test]
    fn options_replace_those_before() {
        let written = Written::new("mode: code\n");
        written.live.set_options(&json!({ "roo": { "mode": "architect", "limits": { "depth": 2 } } }));
        assert_eq!(written.live.settings().limits.depth, 2);
        written.live.set_options(&json!({ "roo": { "mode": "ask" } }));
        let settings = written.live.settings();
        assert_eq!(
            (settings.mode.as_str(), settings.limits.depth),
            ("ask", Settings::default().limits.depth)
        );
    }
}
