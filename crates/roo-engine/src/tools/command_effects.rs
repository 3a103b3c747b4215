//! Effects of a command: the files that it changed, for the trace, and what it was not allowed to change, undone or
//! held for the user. What a staged command wrote is brought to the workspace here.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::policy::{
    Captured, CommandTurn, Confined, GitGuard, GitOutcome, GitUse, MadeRepositories, Signing, SigningMethod,
    TaskNetwork, Watch, WithheldGitChange, WorkTreesBefore,
};
use crate::tool_run::{BinaryContents, FileDetails};
use roo_durable::MAX_CONTENT_BYTES;
use roo_protocol::ids::Digest;
use roo_sandbox::changes::{
    Change, CommitOutcome, Kind, LeasedLayers, Recording, Stage, State, UndoFailure, UndoOutcome, UndoResult,
    What, Withheld, WithheldChange,
};
use roo_sandbox::egress::EgressDecision;
use roo_sandbox::exec::Environment;
use roo_sandbox::exec::sandbox::{BeforeImage, Confinement, Journal, SigningService, Substitute};
use roo_text::render::exact_line;
use roo_trace::record::{Author, CommitMade, FileChange, FileState, Side, Violation, ViolationAction};
use roo_workspace::{EDIT_LIMIT, Workspace, WriteMark, WrittenSince};

/// The largest file whose content is looked at, in bytes: what a checkpoint can keep.
const MAX_FILE_BYTES: u64 = MAX_CONTENT_BYTES;
/// The most that is held of the contents of all files which a command changed, in bytes. A checkpoint lacks what is beyond.
const HELD: u64 = 256 << 20;
/// The most that is held of files which a staged command is about to replace, in bytes.
const REPLACED: u64 = HELD / 2;
/// Time to wait for others' writes when a command has ended. An editor may ask its user about one.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most violations that a model is told one by one.
const TOLD: usize = 20;
/// The most violations that people are told by name.
const NAMED: usize = 3;

/// The files before a command.
pub(super) struct Before {
    watch: Box<Watch>,
    recording: Recording,
    /// Copies of files made before the command changes them; none where nothing can do that.
    captured: Option<Captured>,
    /// State of git directories before the command.
    git: Arc<GitGuard>,
    /// State of what git keeps and has in the work tree.
    work_trees: WorkTreesBefore,
    /// Through which it sees the directories of build tools.
    layers: LeasedLayers,
    /// The network that it joins.
    network: Option<Arc<TaskNetwork>>,
    /// Substitutes that it sees in place of configuration that holds secrets.
    configuration: Vec<Substitute>,
    /// Layers that the command writes; none where it writes the workspace.
    stage: Option<Stage>,
    /// Service that signs for git in it.
    signing: Option<(Signing, SigningService)>,
    /// The commands that run at the same time.
    turn: CommandTurn,
    /// From when on others' writes are not in the record.
    since: WriteMark,
    /// Time of its start.
    begun: SystemTime,
    /// Files that it was to see as they were committed, and that have changed since its bounds were made.
    hidden: Vec<PathBuf>,
}

#[derive(Default)]
pub(super) struct CommandEffects {
    /// Changes that it was allowed to make.
    pub(super) changes: Vec<FileChange>,
    /// The contents of those files that are no text, as far as they are known.
    pub(super) binaries: BinaryContents,
    /// What else is to be known of those files.
    pub(super) details: FileDetails,
    /// Changes that it was not allowed to make, and what became of them.
    pub(super) violations: Vec<Violation>,
    /// True if something that it was allowed to change did not get to the workspace.
    pub(super) incomplete: bool,
    /// For the model; empty when there is nothing to say.
    pub(super) told: String,
    /// The commits that it made.
    pub(super) commits: Vec<CommitMade>,
    /// Paths that it tried to change and the sandbox did not let it, as far as that was seen.
    pub(super) refused: Vec<PathBuf>,
    /// Findings about git.
    pub(super) git: GitUse,
    /// True if changes of git's own files were undone.
    pub(super) undid_git: bool,
    /// Reason why it is not known what it changed; none where it is.
    pub(super) unknown: Option<String>,
    /// Hosts that it tried to reach and the proxy did not let it.
    pub(super) refused_hosts: Vec<EgressDecision>,
    /// Sockets that it tried to connect to and was not let.
    pub(super) refused_sockets: Vec<PathBuf>,
    /// In a few words for people: what of its changes is not in the workspace; empty when all is.
    pub(super) short: String,
}

impl CommandEffects {
    /// Adds what a comparison of the whole workspace has found: the contents of changed files before, and changes where none
    /// were looked for.
    pub(super) fn complete(&mut self, (found, binaries): (Vec<FileChange>, BinaryContents)) {
        self.binaries.extend(binaries);
        if self.changes.is_empty() && self.violations.is_empty() {
            self.changes = found;
            return;
        }
        let mut found: HashMap<String, FileChange> =
            found.into_iter().map(|change| (change.path.clone(), change)).collect();
        for change in &mut self.changes {
            if let (Side::Opaque(_), Some(found)) = (&change.before, found.remove(&change.path)) {
                change.before = found.before;
            }
        }
    }
}

/// Ways in which a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself.
    Itself,
    /// Cut off: cancelled, timed out, or not observed.
    CutOff,
    /// Cut off for what it wrote. What of that is staged is not kept: it is what fills the disk.
    DiskFilled,
}

impl Before {
    /// Returns the port of its proxy; none where it has none.
    pub(super) fn proxy_port(&self) -> Option<u16> {
        self.network.as_ref()?.proxy_port()
    }

    /// Adds what git has to know of who signs for it.
    pub(super) fn with_signing(&self, environment: Environment) -> Environment {
        match &self.signing {
            Some((Signing { commits, tags, method: SigningMethod::Ssh(key) }, service)) => {
                environment.with_git_signing(key, &service.program(), *commits, *tags)
            }
            _ => environment,
        }
    }

    /// Returns whether the contents of files are kept before the command changes them.
    pub(super) fn keeps_contents(&self) -> bool {
        self.captured.is_some() || self.stage.is_some()
    }

    /// What the journal is to tell of repositories that the command makes; none where there is no journal.
    pub(super) fn made_repositories(&self) -> Option<MadeRepositories> {
        let captured = self.captured.as_ref()?;
        Some(MadeRepositories::new(captured.bounds.directory.clone()))
    }

    /// Returns the git directories that came up by the command, which still runs, and may not stay as they are now, with what
    /// the next look begins with.
    pub(super) async fn disallowed_repositories(
        &self,
        mut made: MadeRepositories,
    ) -> Option<(MadeRepositories, BTreeSet<PathBuf>)> {
        let git = Arc::clone(&self.git);
        let look = move || {
            let disallowed = git.disallowed_repositories(&mut made);
            (made, disallowed)
        };
        roo_durable::spawn_blocking(look).await.ok()
    }

    /// The bounds of the command.
    pub(super) fn bounds(&self, confined: &Confined) -> Confinement {
        let mut bounds = match (&self.stage, &self.watch.staging) {
            (Some(stage), Some(staging)) => {
                let absolute = |(root, path): (usize, PathBuf)| Some(self.watch.roots.get(root)?.join(path));
                let scratch: Vec<PathBuf> =
                    self.recording.scratch().into_iter().filter_map(absolute).collect();
                confined.staged(stage.layers(), &scratch, &staging.opened)
            }
            _ => confined.confinement.clone(),
        };
        bounds.hidden.extend(self.hidden.iter().cloned());
        bounds.capture = self.captured.as_ref().map(|captured| captured.bounds.clone());
        let is_hidden = |it: &Substitute| bounds.hidden.iter().any(|hidden| it.place.starts_with(hidden));
        let substitutes = self.git.substitutes().into_iter().filter(|it| !is_hidden(it));
        let substitutes: Vec<Substitute> = substitutes.collect();
        bounds.substitutes.extend(substitutes);
        bounds.substitutes.extend(self.configuration.iter().cloned());
        bounds.loopback = self.network.as_ref().map(|network| network.loopback.clone());
        bounds.staged.extend(self.layers.layers().iter().cloned());
        if confined.reaches_hosts() {
            bounds.read_only.extend(known_hosts());
        }
        if let Some((_, service)) = &self.signing {
            bounds.services.push(service.shared());
            bounds.substitutes.extend(service.substitute());
        }
        bounds
    }
}

/// The keys by which SSH knows hosts again, without which it connects to none. The user's own keys beside them stay hidden.
fn known_hosts() -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    home.join(".ssh/known_hosts").canonicalize().ok().filter(|path| path.is_file())
}

/// Records the files. `committed` are those that the command is to see as they were committed.
///
/// # Errors
/// Why what the command changes can't be kept track of; then it must not run.
pub(super) async fn before(
    watch: Box<Watch>,
    committed: Vec<PathBuf>,
    workspace: &Arc<Workspace>,
) -> Result<Before, String> {
    let turn = watch.in_flight.begin(&watch.scope);
    let (since, begun) = (workspace.mark(), SystemTime::now());
    let workspace = Arc::clone(workspace);
    let taken = roo_durable::spawn_blocking(move || {
        let recording = watch.begin(&workspace).map_err(|error| error.to_string())?;
        // An editor may have saved one, and the user may have taken a while to allow the command.
        let hidden = watch.no_longer_committed(&committed, &workspace).map_err(|error| error.to_string())?;
        let stage = watch.staging.as_ref().map(|staging| staging.begin(&watch.roots)).transpose();
        let stage =
            stage.map_err(|error| format!("the directory for what it writes can't be made: {error}"))?;
        let captured = watch.capture(&recording);
        let captured =
            captured.map_err(|error| format!("nothing can be kept of what it changes: {error}"))?;
        let git = watch.guard_git(captured.as_ref());
        let git = git.map_err(|error| format!("its git directories can't be read: {error}"))?;
        let git = Arc::new(git);
        let work_trees = watch.work_trees_before(captured.as_ref(), &turn);
        let work_trees = work_trees.map_err(|error| format!("what git has can't be recorded: {error}"))?;
        let layers = watch.lease_layers();
        let layers = layers
            .map_err(|error| format!("the layers over directories of build tools can't be made: {error}"))?;
        let network = watch.network();
        let network = network.map_err(|error| format!("its network can't be made: {error}"))?;
        let configuration = watch.substitutes(captured.as_ref());
        let configuration = configuration
            .map_err(|error| format!("what it sees of configuration can't be written: {error}"))?;
        let signing = watch.serve_signing();
        let signing = signing.map_err(|error| format!("nothing can sign for git: {error}"))?;
        Ok(Before {
            watch,
            recording,
            captured,
            git,
            work_trees,
            layers,
            network,
            configuration,
            stage,
            signing,
            turn,
            since,
            begun,
            hidden,
        })
    });
    // Only a runtime that is ending runs nothing more, and its command with it.
    match taken.await {
        Ok(before) => before,
        Err(_) => std::future::pending().await,
    }
}

/// Compares, and undoes what was not allowed. All processes of the command are dead. `wants_signature` says whether git could
/// not sign what it was told to.
pub(super) async fn after(
    before: Before,
    ended: Ended,
    wants_signature: bool,
    workspace: &Arc<Workspace>,
) -> CommandEffects {
    // What a write has under way is nobody's change yet, and must not be undone.
    let held = tokio::time::timeout(PATIENCE, workspace.hold_writes()).await;
    if !matches!(held, Ok(Ok(_))) {
        tracing::warn!("what a command changed is looked at while others may write");
    }
    let workspace = Arc::clone(workspace);
    let compared = roo_durable::spawn_blocking(move || {
        let _held = held;
        let Before {
            watch,
            recording,
            captured,
            git,
            work_trees,
            layers,
            network,
            stage,
            signing,
            turn,
            since,
            begun,
            ..
        } = before;
        drop(layers);
        let others = OtherWriters { begun, written: workspace.written_since(&since), turn };
        let journal = captured.as_ref().map(Captured::journal).transpose();
        let (journal, unreadable) = match journal {
            Ok(journal) => (journal.unwrap_or_default(), None),
            Err(error) => {
                (Journal::default(), Some(format!("what was kept of files before it can't be read: {error}")))
            }
        };
        // Otherwise nothing kept the command from a configuration that others replaced meanwhile.
        let exposed = match journal.is_carried_out() {
            true => GitOutcome::default(),
            false => git.settle_exposed(&watch.store),
        };
        let settled = exposed.and(git.settle(&watch.store, &journal));
        let scratch = recording.scratch_now().into_iter();
        let scratch = scratch.filter_map(|(root, path)| Some(watch.roots.get(root)?.join(path)));
        let built = git.settle_build_output(&scratch.collect::<Vec<_>>(), begun, &journal, &watch.store);
        let (mut effects, repositories) = match stage {
            Some(stage) if ended == Ended::DiskFilled => {
                drop(stage);
                (CommandEffects { incomplete: true, ..CommandEffects::default() }, GitOutcome::default())
            }
            Some(stage) => land(&watch, &recording, &stage, &git, ended),
            None => compare(&watch, &recording, &journal, (&git, &work_trees), &others),
        };
        tell_left_behind(&watch.work_trees_after(&work_trees), &watch, &mut effects);
        effects.git = watch.git_use(&settled, wants_signature, signing.is_some());
        tell_git(repositories.and(settled).and(built), &watch.roots, &mut effects);
        tell_signed(signing.as_ref(), &mut effects);
        effects.refused = journal.refused;
        effects.refused_sockets = journal.refused_sockets;
        effects.refused_hosts = network.map(|network| network.refused()).unwrap_or_default();
        effects.unknown = effects.unknown.or(unreadable);
        effects
    });
    // Only a defect ends it otherwise, and then nobody has looked.
    compared.await.unwrap_or_else(|error| CommandEffects {
        unknown: Some(error.to_string()),
        ..CommandEffects::default()
    })
}

/// Other writers to the workspace.
struct OtherWriters {
    /// Time when the command began.
    begun: SystemTime,
    written: WrittenSince,
    turn: CommandTurn,
}

impl OtherWriters {
    /// Returns whether a change is known to be somebody else's: a task's edit, or what the editor has saved.
    fn made(&self, path: &Path, change: &Change) -> bool {
        let Some(after) = &change.after else { return self.written.left(path, None) };
        if after.kind != Kind::File {
            return change.what == What::Created && self.written.is_below(path);
        }
        let read = || (after.size <= EDIT_LIMIT).then(|| fs::read(path).ok()).flatten().map(Digest::of);
        let now = after.digest.or_else(read);
        now.is_some() && self.written.left(path, now)
    }
}

fn compare(
    watch: &Watch,
    recording: &Recording,
    journal: &Journal,
    (git, work_trees): (&GitGuard, &WorkTreesBefore),
    others: &OtherWriters,
) -> (CommandEffects, GitOutcome) {
    let mut found = recording.changes(&*watch.scope, journal);
    let new_repositories = judge_new_repositories(watch, git, &mut found.changes);
    watch.allow_checked_out(work_trees, &mut found.changes);
    found.changes.retain(|change| {
        watch.roots.get(change.root).is_none_or(|root| !others.made(&root.join(&change.path), change))
    });
    watch.leave_out_server_files(others.begun, &mut found.changes);
    // What another command may have done is not undone, and the user is to hear of it.
    let is_unclear =
        |change: &Change| change.is_violation() && others.turn.may_be_anothers(change.root, &change.path);
    let (unclear, own) = std::mem::take(&mut found.changes).into_iter().partition(is_unclear);
    found.changes = own;
    let unclear: Vec<Change> = unclear;
    // What it was allowed to change may be another one's work, and then the trace tells of it there.
    let state_of = |change: &Change| {
        let path = watch.roots.get(change.root)?.join(&change.path);
        Some((path, change.after.as_ref().and_then(|after| after.digest)))
    };
    found.changes.retain(|change| {
        change.is_violation()
            || state_of(change).is_none_or(|(path, digest)| !others.turn.is_as_left(&path, digest))
    });
    let is_allowed = |change: &Change| !change.is_violation();
    let bare_repositories = settle_bare_repositories(watch, git, journal, is_allowed, &mut found.changes);
    let mut settled = recording.restore(&found, &watch.store, journal);
    let allowed: Vec<&Change> = {
        let place = |change: &Change| (change.root, change.path.clone());
        let restored = settled.iter().filter(|one| one.is_restored());
        // What was moved to where it may not be is back, and so no change.
        let is_back: HashSet<(usize, PathBuf)> = restored.map(|one| place(&one.change)).collect();
        let is_left = |change: &&Change| !change.is_violation() && !is_back.contains(&place(change));
        found.changes.iter().filter(is_left).collect()
    };
    others.turn.leaves(&allowed.iter().copied().filter_map(state_of).collect::<Vec<_>>());
    settled.extend(unclear.into_iter().map(|change| UndoResult {
        change,
        outcome: UndoOutcome::NotUndone { why: UndoFailure::ChangedMeanwhile, kept: None },
    }));
    let mut effects = CommandEffects { unknown: found.unknown.take(), ..CommandEffects::default() };
    let kept = KeptContents::new(watch, journal);
    let mut contents = ChangedContents::new(watch);
    effects.changes = contents.all_traced(&allowed, |change| kept.content(change));
    effects.binaries = contents.binaries;
    effects.details = contents.details;
    let mut told: Vec<String> = Vec::new();
    for UndoResult { change, outcome } in &settled {
        let path = exact_line(&change.path.to_string_lossy());
        let (action, words) = match outcome {
            UndoOutcome::Restored { moved: Some(moved) } => (
                ViolationAction::Restored,
                format!(
                    "it was undone; what the command wrote is kept in {}",
                    exact_line(&moved.to_string_lossy())
                ),
            ),
            UndoOutcome::Restored { moved: None } if !change.is_violation() => (
                ViolationAction::Restored,
                "it could not be moved to its new place, so it is back in the old one".to_owned(),
            ),
            UndoOutcome::Restored { moved: None } => (ViolationAction::Restored, "it was undone".to_owned()),
            UndoOutcome::NotUndone { why, kept } => {
                let why = match why {
                    UndoFailure::ChangedMeanwhile => "somebody else may have changed it meanwhile".to_owned(),
                    UndoFailure::NotKept => "its earlier content was not saved".to_owned(),
                    UndoFailure::Failed(error) => error.clone(),
                };
                let kept = kept.as_ref().map(|kept| exact_line(&kept.to_string_lossy()));
                let kept = kept.map(|kept| format!("; its earlier content is in {kept}")).unwrap_or_default();
                (ViolationAction::Held, format!("it could not be undone ({why}){kept}; ask the user"))
            }
        };
        let name = if change.path.to_str().is_none() { " (its name is not UTF-8)" } else { "" };
        if told.len() < TOLD {
            told.push(format!("\n- {path}{name}: {words}"));
        }
        if change.is_violation() {
            effects.violations.push(Violation {
                path: change.path.to_string_lossy().into_owned(),
                before: state(change.before.as_ref()),
                after: state(change.after.as_ref()),
                action,
            });
        }
    }
    if !settled.is_empty() {
        effects.short = violations_in_short(&settled);
        let more = settled.len().saturating_sub(told.len());
        let more = if more > 0 { format!("\n- and {more} more") } else { String::new() };
        effects.told.push_str(&format!(
            "\nScope Violation: the command changed what it may not change:{}{more}",
            told.concat()
        ));
    }
    (effects, new_repositories.and(bare_repositories))
}

/// Takes those git directories that came up and are as git makes them for what a command may make, and puts away the
/// others whole.
fn judge_new_repositories(watch: &Watch, git: &GitGuard, changes: &mut Vec<Change>) -> GitOutcome {
    let mut outcome = GitOutcome::default();
    let is_new = |change: &Change| {
        change.what == What::Created && change.path.ends_with(".git") && change.is_violation()
    };
    let found = changes.iter().filter(|change| is_new(change)).filter_map(|change| {
        let place = (change.root, change.path.clone());
        Some((place, watch.roots.get(change.root)?.join(&change.path)))
    });
    for ((root, path), absolute, because) in git.judge_new(found.collect()) {
        let is_settled = because.is_empty()
            || match watch.store.quarantine(&absolute) {
                Ok(kept) => {
                    outcome.withheld.push(WithheldGitChange { path: path.clone(), because, kept });
                    true
                }
                // It is reported as what could not be undone.
                Err(_) => false,
            };
        if is_settled {
            changes.retain(|change| !(is_new(change) && change.root == root && change.path == path));
        }
    }
    outcome
}

/// Undoes what may not stay of those changes to repositories without a `.git` that are judged, and leaves it out of the changes.
fn settle_bare_repositories(
    watch: &Watch,
    git: &GitGuard,
    journal: &Journal,
    is_judged: impl Fn(&Change) -> bool,
    changes: &mut Vec<Change>,
) -> GitOutcome {
    let absolute = |change: &Change| Some(watch.roots.get(change.root)?.join(&change.path));
    let judged = changes.iter().filter(|change| is_judged(change));
    let changed = judged.filter_map(|change| Some((absolute(change)?, change.before.is_some())));
    let outcome = git.settle_bare(&changed.collect::<Vec<_>>(), journal, &watch.store);
    changes.retain(|change| {
        !outcome.withheld.iter().any(|undone| Some(&undone.path) == absolute(change).as_ref())
    });
    outcome
}

/// A path as it is below a workspace folder, or in full.
fn below_roots<'a>(path: &'a Path, roots: &[PathBuf]) -> &'a Path {
    roots.iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path)
}

/// Adds the protected files that are not as in the commit that git went to.
fn tell_left_behind(left: &[PathBuf], watch: &Watch, effects: &mut CommandEffects) {
    if left.is_empty() {
        return;
    }
    let shown = |path: &PathBuf| exact_line(&below_roots(path, &watch.roots).to_string_lossy());
    let mut lines: String = left.iter().take(TOLD).map(|path| format!("\n- {}", shown(path))).collect();
    if let Some(more) = left.len().checked_sub(TOLD).filter(|more| *more > 0) {
        lines.push_str(&format!("\n- and {more} more"));
    }
    effects.told.push_str(&format!(
        "\ngit went to another commit, but these protected files are as they were before, so git takes them for changed: to \
         commit them would take back what the other commit changed. Ask the user to bring them up with `git restore`, and \
         leave them out of commits until then. git brings protected files by itself where the user's own branches, remote \
         branches or tags hold them as they were before agents' commands, and none of what governs this server:{lines}"
    ));
    effects.incomplete = true;
    if effects.short.is_empty() {
        effects.short = "protected files are not as in the new commit".to_owned();
    }
}

/// Adds what was signed.
fn tell_signed(signing: Option<&(Signing, SigningService)>, effects: &mut CommandEffects) {
    let Some((Signing { method: SigningMethod::Ssh(key), .. }, service)) = signing else { return };
    let count = service.signed();
    if count > 0 {
        let key = exact_line(&key.key);
        effects.told.push_str(&format!("\nSigned with the user's key {key}: {count} (commits and tags)."));
    }
}

/// Adds what became of git directories.
fn tell_git(outcome: GitOutcome, roots: &[PathBuf], effects: &mut CommandEffects) {
    let GitOutcome { withheld, failed, commits, .. } = outcome;
    effects.commits.extend(commits);
    let mut violation = |path: &Path, action: ViolationAction| {
        effects.violations.push(Violation {
            path: path.to_string_lossy().into_owned(),
            before: FileState::Absent,
            after: FileState::Absent,
            action,
        });
    };
    let mut lines = String::new();
    for WithheldGitChange { path, because, kept } in &withheld {
        violation(path, ViolationAction::Restored);
        let kept = match kept {
            Some(kept) => format!(
                "; what the command wrote is kept for the user in {}",
                exact_line(&kept.to_string_lossy())
            ),
            None => String::new(),
        };
        let because = exact_line(&because.join(", "));
        lines.push_str(&format!("\n- {}: {because}{kept}", exact_line(&path.to_string_lossy())));
    }
    for (path, error) in &failed {
        violation(path, ViolationAction::Held);
        lines.push_str(&format!(
            "\n- {}: could not be restored ({error}); ask the user",
            exact_line(&path.to_string_lossy())
        ));
    }
    if lines.is_empty() {
        return;
    }
    effects.undid_git = true;
    effects.told.push_str(&format!(
        "\nThese changes of git's own files were undone, because they can make git run programs, talk to others or \
         name another author. The user can make them:{lines}"
    ));
    if effects.short.is_empty() {
        let paths = withheld.iter().map(|change| &change.path).chain(failed.iter().map(|(path, _)| path));
        let names = paths.take(NAMED).map(|path| exact_line(&below_roots(path, roots).to_string_lossy()));
        let names = names.collect::<Vec<_>>().join(", ");
        let count = withheld.len() + failed.len();
        let more = if count > NAMED { ", …" } else { "" };
        effects.short = format!("{count} of git's files undone: {names}{more}");
    }
}

/// Brings to the workspace what a staged command may change, and returns what became of repositories without a `.git`.
fn land(
    watch: &Watch,
    recording: &Recording,
    stage: &Stage,
    git: &GitGuard,
    ended: Ended,
) -> (CommandEffects, GitOutcome) {
    let staged = match stage.changes(recording, &*watch.scope) {
        Ok(staged) => staged,
        Err(error) => {
            let kept = match stage.keep(&watch.store) {
                Ok(kept) => format!("it is kept for the user in {}", exact_line(&kept.to_string_lossy())),
                Err(error) => format!("it can't be kept either: {error}"),
            };
            let told = format!(
                "\nNone of the command's changes have reached the workspace ({error}); {kept}. Run a smaller \
                 command, or ask the user."
            );
            let short = "none of its changes reached the workspace".to_owned();
            let effects = CommandEffects { told, short, incomplete: true, ..CommandEffects::default() };
            return (effects, GitOutcome::default());
        }
    };
    // These are in the workspace until they are replaced.
    let mut replaced: HashMap<(usize, PathBuf), Vec<u8>> = HashMap::new();
    let mut left = REPLACED;
    for change in staged.wanted().filter(|change| change.before.is_some()) {
        let absolute = watch.roots.get(change.root).map(|root| root.join(&change.path));
        if let Some(bytes) = absolute.and_then(|path| content(&path, left)) {
            left -= bytes.len() as u64;
            replaced.insert((change.root, change.path.clone()), bytes);
        }
    }
    let CommitOutcome { mut committed, withheld, kept } =
        staged.commit(stage, recording, &watch.store, ended == Ended::Itself);
    let is_new = |change: &Change| change.before.is_none();
    let bare_repositories = settle_bare_repositories(watch, git, &Journal::default(), is_new, &mut committed);
    let mut contents = ChangedContents::new(watch);
    let known = |change: &Change| replaced.remove(&(change.root, change.path.clone()));
    let mut effects = CommandEffects {
        changes: contents.all_traced(&committed.iter().collect::<Vec<_>>(), known),
        told: tell_withheld(&withheld, kept.as_deref(), ended),
        short: match withheld.len() {
            0 => String::new(),
            count => format!("{} withheld", changes(count)),
        },
        incomplete: withheld.iter().any(|withheld| withheld.why != Withheld::NotAllowed),
        ..CommandEffects::default()
    };
    // What the settings open was written at once.
    let opened = watch.staging.iter().flat_map(|staging| &staging.opened);
    let opened: Vec<_> =
        opened.filter(|opened| watch.roots.iter().any(|root| opened.starts_with(root))).collect();
    if !opened.is_empty() {
        let found = recording.changes(&*watch.scope, &Journal::default());
        let is_opened = |change: &&Change| {
            let absolute = watch.roots.get(change.root).map(|root| root.join(&change.path));
            absolute.is_some_and(|absolute| opened.iter().any(|opened| absolute.starts_with(opened)))
        };
        let opened: Vec<&Change> = found.changes.iter().filter(is_opened).collect();
        effects.changes.extend(contents.all_traced(&opened, |_| None));
    }
    effects.binaries = contents.binaries;
    effects.details = contents.details;
    let not_allowed = withheld.iter().filter(|withheld| withheld.why == Withheld::NotAllowed);
    effects.violations.extend(not_allowed.map(|WithheldChange { change, .. }| Violation {
        path: change.path.to_string_lossy().into_owned(),
        before: state(change.before.as_ref()),
        after: state(change.after.as_ref()),
        action: ViolationAction::Withheld,
    }));
    (effects, bare_repositories)
}

/// Names the first of the changes that a command was not allowed to make, for people.
fn violations_in_short(settled: &[UndoResult]) -> String {
    let settled: Vec<&UndoResult> = settled.iter().filter(|one| one.change.is_violation()).collect();
    let held = settled.iter().filter(|one| matches!(one.outcome, UndoOutcome::NotUndone { .. })).count();
    let held = match held {
        0 => String::new(),
        held if held == settled.len() => " and could not be undone".to_owned(),
        held => format!(" and {held} could not be undone"),
    };
    let names = settled.iter().take(NAMED).map(|one| exact_line(&one.change.path.to_string_lossy()));
    let names = names.collect::<Vec<_>>().join(", ");
    let more = if settled.len() > NAMED { ", …" } else { "" };
    format!("{} not allowed{held}: {names}{more}", changes(settled.len()))
}

fn changes(count: usize) -> String {
    if count == 1 { "1 change was".to_owned() } else { format!("{count} changes were") }
}

/// Returns the text for the model about what did not reach the workspace.
fn tell_withheld(withheld: &[WithheldChange], kept: Option<&Path>, ended: Ended) -> String {
    let mut text = String::new();
    let mut list = |head: &str, chosen: &dyn Fn(&Withheld) -> bool| {
        let lines: Vec<_> = withheld.iter().filter(|withheld| chosen(&withheld.why)).collect();
        if lines.is_empty() {
            return;
        }
        text.push_str(head);
        for WithheldChange { change, why } in lines.iter().take(TOLD) {
            let what = match why {
                Withheld::NotAllowed | Withheld::Unfinished => "",
                Withheld::ChangedMeanwhile => ": somebody else changed it since the command began",
                Withheld::Moved => ": it could not be moved to its new place, so it is still in the old one",
                Withheld::LeadsOut => ": a symlink to a place outside the task's scope",
                Withheld::Special => ": a device, pipe or socket, or a program that would run as its owner",
                Withheld::ThereAlready => ": it is there already",
                Withheld::Failed(error) => &format!(": {error}"),
            };
            text.push_str(&format!("\n- {}{what}", exact_line(&change.path.to_string_lossy())));
        }
        if let Some(more) = lines.len().checked_sub(TOLD).filter(|more| *more > 0) {
            text.push_str(&format!("\n- and {more} more"));
        }
    };
    let is_violation = |why: &Withheld| *why == Withheld::NotAllowed;
    match ended {
        Ended::Itself => {
            let head = "\nScope Violation: the command changed what it may not change. This has not reached the \
                        workspace:";
            list(head, &is_violation);
            list("\nThese changes could not be applied to the workspace:", &|why| !is_violation(why));
        }
        Ended::CutOff | Ended::DiskFilled => {
            list("\nThe command did not end by itself, so none of this has reached the workspace:", &|_| {
                true
            });
        }
    }
    if let Some(kept) = kept {
        text.push_str(&format!(
            "\nWhat the command wrote of that is kept for the user in {}, which you can't see. Ask them if it \
             is needed.",
            exact_line(&kept.to_string_lossy())
        ));
    }
    text
}

fn state(state: Option<&State>) -> FileState {
    match state {
        None => FileState::Absent,
        Some(state) => FileState::Present(digest(state)),
    }
}

/// The digest of a state; where the content was not looked at, one of what is known of it.
fn digest(state: &State) -> Digest {
    state.digest.unwrap_or_else(|| {
        Digest::of(format!("{:?} {} {}", state.kind, state.mode.unwrap_or_default(), state.size))
    })
}

/// Returns whether a file may be executed by its owner.
fn is_executable(state: &State) -> bool {
    state.kind == Kind::File && state.mode.is_some_and(|mode| mode & 0o100 != 0)
}

/// The contents of the files that a command changed, as far as they can be held.
struct ChangedContents<'a> {
    watch: &'a Watch,
    /// In bytes.
    left: u64,
    /// Those that are no text.
    binaries: BinaryContents,
    /// What else is to be known of the files.
    details: FileDetails,
    /// Directories that were made.
    made: HashSet<(usize, PathBuf)>,
}

impl<'a> ChangedContents<'a> {
    fn new(watch: &'a Watch) -> Self {
        let (binaries, details) = (BinaryContents::default(), FileDetails::default());
        Self { watch, left: HELD, binaries, details, made: HashSet::new() }
    }

    /// The changes of files. One that was only moved is one change, as its old place has no content any more. `replaced` gives a
    /// content that may be what the file held before.
    fn all_traced(
        &mut self,
        changes: &[&Change],
        mut replaced: impl FnMut(&Change) -> Option<Vec<u8>>,
    ) -> Vec<FileChange> {
        let is_directory = |state: &State| state.kind == Kind::Directory;
        let made = changes
            .iter()
            .filter(|change| change.what == What::Created && change.after.as_ref().is_some_and(is_directory));
        self.made.extend(made.map(|change| (change.root, change.path.clone())));
        let deleted: HashMap<(usize, &Path), &Change> = (changes.iter())
            .filter(|change| change.what == What::Deleted)
            .map(|change| ((change.root, change.path.as_path()), *change))
            .collect();
        let sources = changes.iter().map(|change| Some((change.root, change.renamed_from.as_deref()?)));
        let sources: Vec<_> = sources.map(|source| deleted.get(&source?).copied()).collect();
        let moved: HashSet<(usize, &Path)> =
            sources.iter().flatten().map(|gone| (gone.root, gone.path.as_path())).collect();
        let mut traced = Vec::new();
        for (change, source) in changes.iter().zip(sources) {
            traced.extend(match source {
                Some(gone) => self.traced_move(change, gone),
                None if moved.contains(&(change.root, change.path.as_path())) => None,
                None => self.traced(change, &mut replaced),
            });
        }
        traced
    }

    /// A file that has the content at its new place that it had at its old one.
    fn traced_move(&mut self, change: &Change, gone: &Change) -> Option<FileChange> {
        let moved = self.traced(change, |_| None)?;
        let old_path = match change.root {
            0 => gone.path.clone(),
            root => self.watch.roots.get(root)?.join(&gone.path),
        };
        let old_path = old_path.to_string_lossy().into_owned();
        if gone.before.as_ref().is_some_and(is_executable) {
            self.details.add_executable(old_path.clone());
        }
        Some(FileChange { before: moved.after.clone(), old_path: Some(old_path), ..moved })
    }

    /// A change of a file; none for directories. `replaced` gives a content that may be what the file held before.
    fn traced(
        &mut self,
        change: &Change,
        replaced: impl FnOnce(&Change) -> Option<Vec<u8>>,
    ) -> Option<FileChange> {
        let is_told =
            |state: &Option<State>| state.as_ref().is_some_and(|state| state.kind != Kind::Directory);
        if !is_told(&change.before) && !is_told(&change.after) {
            return None;
        }
        let absolute = self.watch.roots.get(change.root)?.join(&change.path);
        let state_after = change.after.as_ref().filter(|state| state.kind != Kind::Directory);
        let now = match state_after {
            Some(state) if state.kind != Kind::Link => content(&absolute, self.left),
            _ => None,
        };
        self.left = self.left.saturating_sub(now.as_ref().map_or(0, |bytes| bytes.len() as u64));
        let before = match change.before.as_ref().filter(|state| state.kind != Kind::Directory) {
            None => Side::Absent,
            Some(State { kind: Kind::Link, target: Some(target), .. }) => {
                self.binaries.link(target.as_slice())
            }
            Some(state) if state.size > self.left => Side::Opaque(digest(state)),
            Some(state) => match earlier(self.watch, state, replaced(change), now.as_deref()) {
                Some(bytes) => {
                    self.left = self.left.saturating_sub(bytes.len() as u64);
                    self.binaries.side(bytes)
                }
                None => Side::Opaque(digest(state)),
            },
        };
        let after = match (state_after, now) {
            (None, _) => Side::Absent,
            (Some(_), Some(bytes)) => self.binaries.side(bytes),
            (Some(state), None) if state.kind == Kind::Link => match fs::read_link(&absolute) {
                Ok(target) => self.binaries.link(target.as_os_str().as_bytes()),
                Err(_) => Side::Opaque(digest(state)),
            },
            (Some(state), None) => Side::Opaque(digest(state)),
        };
        let named = if change.root == 0 { change.path.clone() } else { absolute };
        let path = named.to_string_lossy().into_owned();
        if after == Side::Absent && change.before.as_ref().is_some_and(is_executable) {
            self.details.add_executable(path.clone());
        }
        let is_made = |above: &&Path| self.made.contains(&(change.root, above.to_path_buf()));
        let directories = change.path.ancestors().skip(1).take_while(is_made).count();
        self.details.add_directories(path.clone(), u32::try_from(directories).unwrap_or_default());
        Some(FileChange { path, old_path: None, before, after, author: Author::Ai })
    }
}

/// The contents that a supervisor kept of files before the command wrote them.
struct KeptContents<'a> {
    watch: &'a Watch,
    journal: &'a Journal,
    images: HashMap<&'a Path, &'a BeforeImage>,
}

impl<'a> KeptContents<'a> {
    fn new(watch: &'a Watch, journal: &'a Journal) -> Self {
        let mut images = HashMap::new();
        for image in journal.images.iter().filter(|image| image.content.is_some()) {
            images.entry(image.path.as_path()).or_insert(image);
        }
        Self { watch, journal, images }
    }

    fn content(&self, change: &Change) -> Option<Vec<u8>> {
        let absolute = self.watch.roots.get(change.root)?.join(&change.path);
        let image = self.images.get(absolute.as_path()).filter(|image| image.size <= MAX_FILE_BYTES)?;
        self.journal.content(image)
    }
}

/// What a file held, where that is known: what was read before it was replaced, what is kept, or what is still there
/// because the command only added to it.
fn earlier(watch: &Watch, state: &State, replaced: Option<Vec<u8>>, now: Option<&[u8]>) -> Option<Vec<u8>> {
    let wanted = state.digest.filter(|_| state.kind == Kind::File && state.size <= MAX_FILE_BYTES)?;
    let is_it = |bytes: &[u8]| Digest::of(bytes) == wanted;
    if let Some(bytes) = replaced.filter(|bytes| is_it(bytes)) {
        return Some(bytes);
    }
    let begin = || now?.get(..usize::try_from(state.size).ok()?).filter(|begin| is_it(begin));
    begin().map(<[u8]>::to_vec).or_else(|| watch.store.content(wanted))
}

/// The content of a file of at most so many bytes.
fn content(path: &Path, most: u64) -> Option<Vec<u8>> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > MAX_FILE_BYTES.min(most) {
        return None;
    }
    fs::read(path).ok()
}
