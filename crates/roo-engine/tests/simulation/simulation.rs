//! A simulated world from the beginning of a request to its end, over all lives of its server.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Once};
use std::time::Duration;

use roo_durable::simulated_disk::{Fault, Random, SimulatedDisk};
use roo_durable::{OneThread, Record, RequestDirectory, WorkspaceDirectory, read_from};
use roo_engine::customization::{Customization, Setup as CustomizationSetup};
use roo_engine::engine::clock::Clock as _;
use roo_engine::engine::event::Event;
use roo_engine::engine::{Engine, Setup};
use roo_engine::server_tools::NoServerTools;
use roo_formats::config::{Directories, Settings};
use roo_protocol::ids::TaskId;
use roo_sandbox::exec::sandbox::Helper;
use roo_workspace::{Documents, Editor, Setup as WorkspaceSetup, Workspace};
use rustix::io::Errno;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::editor::{ENCODING, PlannedEditor};
use super::model::{FILES, OneModel, PlannedModel};
use super::plan::{End, Life, Part, Plan, numbers};
use super::promises::{self, Evidence};
use super::shell::PlannedShell;
use super::user::{LifeEnd, User};
use super::world::{Place, Witness, WorldClock};

/// Time that a server may take to end.
const SHUTDOWN: Duration = Duration::from_secs(60);
/// Time after which nothing runs any more of what was cancelled: a write waits for an editor for 40 seconds at most, and
/// several of one file wait for each other.
const AFTERMATH: Duration = Duration::from_secs(900);

/// The loss of power, which ends whatever calls the disk.
struct PowerLost;

thread_local! {
    /// The messages of panics since a simulation began.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps the messages of panics in tasks, which nobody would see, for their simulation.
fn keep_panics() {
    static KEPT: Once = Once::new();
    KEPT.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = Backtrace::capture();
            PANICS.with_borrow_mut(|panics| panics.push(format!("{panic}\n{place}")));
            // A simulation tells of them itself.
            if std::thread::current().name().is_some() {
                before(panic);
            }
        }));
    });
}

/// What a simulation came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    seeds: u64,
    events: u64,
    power_losses: u64,
    /// Events that were lost with the power, unacknowledged.
    lost: u64,
    kills: u64,
    shutdowns: u64,
    commands: u64,
    edits: u64,
    branches: u64,
    restores: u64,
    user_edits: u64,
    /// The log at the end, a record a line, and the files; of a single seed.
    outcome: Vec<String>,
}

impl Report {
    pub fn add(&mut self, other: &Self) {
        self.seeds += 1;
        self.events += other.events;
        self.power_losses += other.power_losses;
        self.lost += other.lost;
        self.kills += other.kills;
        self.shutdowns += other.shutdowns;
        self.commands += other.commands;
        self.edits += other.edits;
        self.branches += other.branches;
        self.restores += other.restores;
        self.user_edits += other.user_edits;
    }

    /// The same seed leads to the same log, byte by byte.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, again: &Self) -> Result<(), String> {
        let lines = self.outcome.iter().zip(&again.outcome);
        if let Some((one, other)) = lines.clone().find(|(one, other)| one != other) {
            return Err(format!("the same seed has led to two outcomes:\n{one}\n{other}"));
        }
        match self.outcome.len() == again.outcome.len() {
            true => Ok(()),
            false => Err("the same seed has led to logs of two lengths".to_owned()),
        }
    }

    #[track_caller]
    pub fn assert_eventful(&self) {
        let counts = [
            self.power_losses,
            self.kills,
            self.shutdowns,
            self.commands,
            self.edits,
            self.branches,
            self.restores,
            self.user_edits,
        ];
        assert!(counts.iter().all(|count| *count > self.seeds / 50), "too little happens: {self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} seeds without a problem: {} events, {} losses of power ({} events lost), {} kills, {} shutdowns, {} commands, {} edits, {} \
             branches, {} restores, {} edits by users",
            self.seeds,
            self.events,
            self.power_losses,
            self.lost,
            self.kills,
            self.shutdowns,
            self.commands,
            self.edits,
            self.branches,
            self.restores,
            self.user_edits
        )
    }
}

/// The world of a plan.
pub struct Simulation {
    plan: Plan,
    disk: SimulatedDisk,
    random: Random,
    clock: Arc<WorldClock>,
    model: Arc<PlannedModel>,
    shell: Arc<PlannedShell>,
    editor: Option<Arc<PlannedEditor>>,
    user: User,
    witness: Witness,
    report: Report,
    place: Place,
}

impl Simulation {
    /// Lives all lives of a plan, and checks what must hold.
    ///
    /// # Errors
    /// What doesn't hold, with the story of how it came to that.
    pub fn run(plan: Plan) -> Result<Report, String> {
        keep_panics();
        PANICS.take();
        let mut simulation = Self::new(plan);
        let lived = simulation.live_all();
        let panics = PANICS.take();
        let problem = match lived {
            Ok(()) if panics.is_empty() => return Ok(simulation.report),
            Ok(()) => "something panicked".to_owned(),
            Err(problem) => problem,
        };
        let story = simulation.witness.seen().story.join("\n  ");
        let log = simulation.log_in_words();
        Err(format!("{problem}\n{}\nThe story:\n  {story}\nThe log:\n{log}", panics.join("\n")))
    }

    fn new(plan: Plan) -> Self {
        let place = Place::new(plan.seed);
        let folder = place.folder();
        for name in FILES {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "begin\nend\n").unwrap();
        }
        let witness = Witness::default();
        let editor =
            plan.has_editor.then(|| Arc::new(PlannedEditor::new(folder.clone(), &plan, witness.clone())));
        if let Some(editor) = &editor {
            editor.toggle(FILES[0]);
        }
        Self {
            disk: SimulatedDisk::new(),
            random: numbers(plan.seed, Part::Disk),
            clock: Arc::new(WorldClock::new(plan.seed)),
            model: Arc::new(PlannedModel::new(&plan, witness.clone())),
            shell: Arc::new(PlannedShell::new(folder.clone(), &plan, witness.clone())),
            user: User::new(&plan, folder, editor.clone(), witness.clone()),
            editor,
            witness,
            report: Report::default(),
            place,
            plan,
        }
    }

    fn live_all(&mut self) -> Result<(), String> {
        for life in self.plan.lives.clone() {
            let end = self.live(life)?;
            let before = self.records();
            match end {
                LifeEnd::Wrong(problem) => return Err(problem),
                LifeEnd::PowerLost => {
                    self.report.power_losses += 1;
                    self.witness.tell("the power is lost");
                    let is_torn = self.is_torn();
                    self.disk = self.disk.after_power_loss(self.disk.operations(), &mut self.random);
                    if let Some(editor) = &self.editor {
                        editor.lose_power();
                    }
                    let after = self.records();
                    promises::survives(&before, is_torn, &after, self.user.promised)?;
                    self.report.lost += before.len().saturating_sub(after.len()) as u64;
                    self.user.seen = self.user.promised;
                }
                LifeEnd::Killed | LifeEnd::ShutDown | LifeEnd::Finished => {
                    if let LifeEnd::Killed = end {
                        self.report.kills += 1;
                        self.witness.tell("the server is killed");
                    }
                    if let LifeEnd::ShutDown = end {
                        self.report.shutdowns += 1;
                        self.witness.tell("the server ends");
                    }
                    let last = before.last().map_or(0, |record| record.seq);
                    if self.user.seen > last {
                        return Err(format!(
                            "event {} was seen, and event {last} is the last",
                            self.user.seen
                        ));
                    }
                    if end == LifeEnd::Finished {
                        break;
                    }
                }
            }
        }
        self.recover();
        self.check()
    }

    /// Lives one life of a server.
    fn live(&mut self, life: Life) -> Result<LifeEnd, String> {
        let _one_thread = OneThread::new();
        let runtime = runtime();
        let power = CancellationToken::new();
        self.witness.begin_life(&self.disk, &self.place);
        self.disk.plan(faults(life, self.random.clone(), power.clone()));
        // Another life has other faults.
        self.random.next();
        let lived = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(async {
                self.clock.begin_life();
                let engine = self.engine();
                let end = tokio::select! {
                    biased;
                    () = power.cancelled() => LifeEnd::PowerLost,
                    end = self.user.live(&engine, life.end) => end,
                };
                let lives_on = match end {
                    LifeEnd::ShutDown => false,
                    LifeEnd::Finished => !self.random.one_in(2),
                    _ => return end,
                };
                let after = async {
                    match lives_on {
                        true => {
                            tokio::time::sleep(AFTERMATH).await;
                            promises::leaves_nothing(&self.place.folder(), self.directory().path())
                        }
                        false => {
                            let ended = timeout(SHUTDOWN, engine.shutdown()).await;
                            ended.map_err(|_| "the server does not end".to_owned())
                        }
                    }
                };
                tokio::select! {
                    biased;
                    () = power.cancelled() => LifeEnd::PowerLost,
                    after = after => after.map_or_else(LifeEnd::Wrong, |()| end),
                }
            })
        }));
        {
            let _inside = runtime.enter();
            self.clock.end_life();
        }
        // Nothing of the server does anything any more.
        self.disk.stop_at(0);
        drop(runtime);
        self.disk.heal();
        match lived {
            Ok(end) => Ok(end),
            Err(panic) if panic.is::<PowerLost>() => Ok(LifeEnd::PowerLost),
            Err(panic) => resume_unwind(panic as Box<dyn Any + Send>),
        }
    }

    fn directory(&self) -> WorkspaceDirectory {
        WorkspaceDirectory::on(Arc::new(self.disk.clone()), &self.place.state(), &self.place.folder())
    }

    /// The workspace as a server that begins sees it.
    fn workspace(&self) -> Workspace {
        let documents = Arc::new(Documents::default());
        if let Some(editor) = &self.editor {
            editor.connect(Arc::clone(&documents));
        }
        let workspace = Workspace::open(WorkspaceSetup {
            folders: vec![self.place.folder()],
            state_directory: self.directory().path().to_owned(),
            documents,
            editor: self.editor.clone().map(|editor| editor as Arc<dyn Editor>),
            encoding: ENCODING,
        });
        workspace.unwrap()
    }

    /// Does what the next server would do with a change of several files that the last one was killed within, or did not wait
    /// for when it ended.
    fn recover(&self) {
        let _one_thread = OneThread::new();
        runtime().block_on(self.workspace().settle());
    }

    fn engine(&self) -> Engine {
        let (folder, directory) = (self.place.folder(), self.directory());
        let directories = Directories {
            config: self.place.path().join("config"),
            // There is none, so that no space is reserved in it.
            state: self.place.path().join("nowhere/state"),
            home: None,
            settings_file: None,
        };
        let customization = Customization::open(CustomizationSetup {
            folders: vec![folder],
            directories: directories.clone(),
            state_directory: directory.path().to_owned(),
        });
        let clock = Arc::clone(&self.clock);
        Engine::new(Setup {
            settings: Arc::new(Arc::new(self.settings())),
            workspace: Arc::new(self.workspace()),
            customization: Arc::new(customization.unwrap().with_clock(move || clock.now())),
            directory,
            directories,
            helper: Helper::none(),
            clock: Arc::<WorldClock>::clone(&self.clock),
            models: Arc::new(OneModel(Arc::clone(&self.model))),
            commands: Arc::<PlannedShell>::clone(&self.shell),
            server_tools: Arc::new(NoServerTools),
            language_servers: Arc::new(roo_language_servers::LanguageServers::none()),
            code_index: Arc::new(roo_index::CodeIndex::none()),
        })
    }

    fn settings(&self) -> Settings {
        let settings = json!({
            "mode": "code",
            "profiles": { "default": { "provider": "scripted", "script": "/nowhere/script.yaml" } },
            "autoApprove": { "write": self.plan.free_edits, "delegate": self.plan.free_delegation },
            "sandbox": { "level": "off" },
            "limits": {
                "requests": self.plan.request_limit,
                "backgroundAfterSec": self.plan.background_after,
                "depth": 3,
                "branches": 12,
            },
        });
        serde_json::from_value(settings).unwrap()
    }

    fn request(&self, task: &TaskId) -> RequestDirectory {
        self.directory().request(task)
    }

    /// The records of the request; none where it has no log.
    fn records(&self) -> Vec<Record<Event>> {
        let Some(task) = self.user.task() else { return vec![] };
        read_from(&self.request(task), 0, usize::MAX).map(|(records, _)| records).unwrap_or_default()
    }

    /// Whether something follows the last line of the log.
    fn is_torn(&self) -> bool {
        let log = self.user.task().and_then(|task| self.disk.bytes(&self.request(task).log()));
        log.is_some_and(|bytes| bytes.last().is_some_and(|byte| *byte != b'\n'))
    }

    fn check(&mut self) -> Result<(), String> {
        let records = self.records();
        let Some(root) = self.user.task().cloned() else { return Err("there is no request".to_owned()) };
        let seen = self.witness.seen();
        let directory = self.directory();
        let folder = self.place.folder();
        let evidence = Evidence {
            root: &root,
            records: &records,
            seen: &seen,
            editor: self.editor.as_deref(),
            folder: &folder,
            state: directory.path(),
        };
        let files = evidence.check()?;
        let report = &mut self.report;
        report.events = records.len() as u64;
        report.commands = seen.executed.values().map(|count| u64::from(*count)).sum();
        report.user_edits = seen.by_user.values().map(|lines| lines.len() as u64).sum();
        let count = |is: fn(&Event) -> bool| records.iter().filter(|record| is(&record.event)).count() as u64;
        report.edits = count(|event| matches!(event, Event::EditApplied { .. }));
        report.branches = count(|event| matches!(event, Event::Delegated { .. }));
        report.restores = count(|event| matches!(event, Event::RestoreFinished { done: true, .. }));
        let told = |record: &Record<Event>| serde_json::to_string(record).unwrap();
        report.outcome = records.iter().map(told).collect();
        report.outcome.extend(files.iter().map(|(name, text)| format!("{name}: {text}")));
        Ok(())
    }

    fn log_in_words(&self) -> String {
        let line = |record: &Record<Event>| {
            let text = serde_json::to_string(&record.event).unwrap();
            let cut = text.char_indices().nth(300).map_or(text.len(), |(at, _)| at);
            let task = record.task_id.as_str();
            let task = task.split_once('.').map_or("", |(_, branch)| branch);
            format!("  {} {} [{task}] {}", record.seq, record.at, &text[..cut])
        };
        self.records().iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// A runtime for one life, on this thread and in simulated time.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        // So that nothing happens after the power is lost.
        .event_interval(1)
        .build()
        .unwrap()
}

/// How the disk behaves in a life.
fn faults(
    life: Life,
    mut random: Random,
    power: CancellationToken,
) -> impl FnMut(usize, &'static str) -> Option<Fault> + Send + 'static {
    let (no_space, io) = (Errno::NOSPC.raw_os_error(), Errno::IO.raw_os_error());
    move |call, name| {
        if let End::PowerLoss { call: last } = life.end
            && call >= last
        {
            power.cancel();
            if std::thread::panicking() {
                return Some(Fault::Errno(io));
            }
            // Whatever calls the disk gets no answer.
            resume_unwind(Box::new(PowerLost));
        }
        if call >= life.disk.until {
            return None;
        }
        if life.disk.full.is_some_and(|(from, to)| (from..to).contains(&call)) {
            return match name {
                "append" if random.one_in(2) => Some(Fault::Short),
                "write" | "append" | "mkdir" | "create" => Some(Fault::Errno(no_space)),
                _ => None,
            };
        }
        match name {
            "append" if life.disk.write.happens(&mut random) => {
                Some(if random.one_in(2) { Fault::Short } else { Fault::Errno(io) })
            }
            "write" if life.disk.write.happens(&mut random) => Some(Fault::Errno(io)),
            "sync" if life.disk.sync.happens(&mut random) => {
                Some(if random.one_in(2) { Fault::SyncLost } else { Fault::Errno(io) })
            }
            _ => None,
        }
    }
}
