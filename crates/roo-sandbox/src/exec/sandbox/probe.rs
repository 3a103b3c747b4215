//! Probe of the restrictions that this machine supports.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::confinement::{Access, Capture, Confinement, ConfinementError, Network, Staged, Substitute};
use super::helper_program::Helper;
use super::helper_protocol::{Active, JsonPath, LeftRunning, Mechanism, Order, Overlay, Variables};
use super::network::PrivateNetwork;
use super::sockets;
use crate::exec::environment::{Environment, NO_LAZY_FETCH};
use crate::exec::process::{self, Command, ExecError, Status};
use crate::exec::ready_helper::ReadyHelpers;
use crate::exec::shell::{Shell, shell};

/// Level of confinement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// Not at all: a command can do what its user can.
    L0,
    /// Grants, in force while a command runs.
    L2,
    /// That, and nothing of the workspace changes before the command has ended and what it did is judged.
    L3,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::L0 => "L0",
            Self::L2 => "L2",
            Self::L3 => "L3",
        })
    }
}

/// Minimum confinement for a command to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Required {
    /// Nothing: without a sandbox commands run unbounded.
    #[serde(rename = "none")]
    None,
    /// Grants and network.
    #[default]
    L2,
    /// That, and what lies within a grant: protected names and hidden files.
    #[serde(rename = "namespaces")]
    Namespaces,
}

/// Result of the probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Restrictions in force for every command; none without a sandbox.
    pub active: Option<Active>,
    /// Missing restrictions, each with its reason.
    pub missing: Vec<String>,
}

impl Probe {
    /// Returns the level of commands that aren't staged.
    pub fn level(&self) -> Level {
        if self.active.is_some() { Level::L2 } else { Level::L0 }
    }

    /// Returns whether protected names can't be written and hidden files not be read within a grant while a command
    /// runs.
    pub fn holds_within_grants(&self) -> bool {
        self.active.is_some_and(|active| active.mechanism == Mechanism::Namespaces)
    }

    /// # Errors
    /// [`ExecError::NoSandbox`] when less is held than has to be.
    pub fn check(&self, required: Required) -> Result<(), ExecError> {
        let met = match required {
            Required::None => true,
            Required::L2 => self.level() >= Level::L2,
            Required::Namespaces => self.holds_within_grants(),
        };
        if met { Ok(()) } else { Err(ExecError::NoSandbox(self.to_string())) }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level())?;
        if let Some(active) = &self.active {
            write!(f, " ({active})")?;
        }
        if !self.missing.is_empty() {
            write!(f, "; not available: {}", self.missing.join("; "))?;
        }
        Ok(())
    }
}

/// The sandbox of this machine.
#[derive(Clone, Debug)]
pub struct Sandbox {
    helper: Helper,
    ready: ReadyHelpers,
    probe: Probe,
}

impl Sandbox {
    /// Finds the best sandbox that works, by running a command in it that tries to break out. Takes
    /// some 20 ms, once.
    pub async fn find(helper: Helper) -> Self {
        if helper.is_none() {
            return Self::none("there is no program to hold it");
        }
        let mut probe = Probe::default();
        for mechanism in [Mechanism::Namespaces, Mechanism::Landlock] {
            match try_out(&helper, mechanism).await {
                Ok(active) => {
                    probe.missing.extend(gaps(&active));
                    probe.active = Some(active);
                    break;
                }
                Err(reason) => probe.missing.push(format!("{} ({reason})", name(mechanism))),
            }
        }
        Self { helper, ready: ReadyHelpers::default(), probe }
    }

    /// As [`Self::find`], with one mechanism only.
    pub async fn with(helper: Helper, mechanism: Mechanism) -> Self {
        let probe = match try_out(&helper, mechanism).await {
            Ok(active) => Probe { active: Some(active), missing: gaps(&active) },
            Err(reason) => Probe { active: None, missing: vec![format!("{} ({reason})", name(mechanism))] },
        };
        Self { helper, ready: ReadyHelpers::default(), probe }
    }

    /// None, for the reason.
    pub fn none(reason: impl Into<String>) -> Self {
        let probe = Probe { active: None, missing: vec![reason.into()] };
        Self { helper: Helper::own(), ready: ReadyHelpers::default(), probe }
    }

    /// Returns the result of the probe.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    /// Returns whether commands can see directories through these layers, by trying it with all of them.
    ///
    /// # Errors
    /// Why not.
    pub async fn try_layers(&self, layers: &[Staged]) -> Result<(), String> {
        let confinement = Confinement { staged: layers.to_vec(), ..Confinement::default() };
        let command =
            Command { line: "true".to_owned(), directory: "/".into(), timeout: Some(TRIAL), handle: None };
        let (environment, cancel) = (Environment::inherited(), CancellationToken::new());
        let order = self.prepare(&command, &environment, &confinement).map_err(|error| error.to_string())?;
        let ran = process::run_ordered(&command, self.job(&order, None), |_| {}, &cancel).await;
        match ran {
            Ok((_, Status::Code(0), _)) => Ok(()),
            Ok((_, status, _)) => Err(format!("the trial ended with {status:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Tries whether writes to these folders can be staged in these private directories: the kernel and either
    /// file system may refuse. Takes some 10 ms a folder.
    ///
    /// # Errors
    /// Why not.
    pub async fn try_staging(&self, staged: &[Staged]) -> Result<(), String> {
        if !self.probe.holds_within_grants() {
            return Err(format!("it needs namespaces, but this machine only supports {}", self.probe));
        }
        let name = format!(".roo-lsp-trial-{}", uuid::Uuid::new_v4());
        for each in staged {
            let Staged { root, upper, .. } = each;
            // One by one: an upper directory serves once.
            let confinement = Confinement { staged: vec![each.clone()], ..Confinement::default() };
            let (line, directory) = (format!(": >{name}"), root.clone());
            let command = Command { line, directory, timeout: Some(TRIAL), handle: None };
            let order = self
                .prepare(&command, &Environment::inherited(), &confinement)
                .map_err(|error| error.to_string())?;
            let cancel = CancellationToken::new();
            let ran = process::run_ordered(&command, self.job(&order, None), |_| {}, &cancel).await;
            let (_, status, _) = ran.map_err(|error| match error {
                ExecError::Sandbox(reason) => reason,
                error => error.to_string(),
            })?;
            // Removing what can't be there fails, as it should.
            if fs::remove_file(root.join(&name)).is_ok() {
                return Err(format!("writes to {} are not redirected", root.display()));
            }
            if fs::remove_file(upper.join(&name)).is_err() {
                return Err(format!("{} can't be written (the trial ended with {status:?})", root.display()));
            }
        }
        Ok(())
    }

    /// An order to be carried out in a network that exists already or not.
    pub(in crate::exec) fn job<'a>(
        &'a self,
        order: &'a Order,
        loopback: Option<&'a PrivateNetwork>,
    ) -> process::Ordered<'a> {
        process::Ordered { helper: &self.helper, ready: &self.ready, order, loopback }
    }

    /// Makes a network for commands, with listeners at these ports. Waits for a helper, so not for a thread of the runtime.
    ///
    /// # Errors
    /// When it can't be made, as without namespaces.
    pub fn private_network(&self, ports: &[u16]) -> io::Result<PrivateNetwork> {
        if !self.probe.holds_within_grants() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        PrivateNetwork::make(&self.helper, ports)
    }

    /// Connects to a port of a network for commands, from outside. Waits for a helper, so not for a thread of the runtime.
    ///
    /// # Errors
    /// When it can't be done, and [`io::ErrorKind::ConnectionRefused`] when nothing listens there.
    pub fn connect(&self, network: &PrivateNetwork, port: u16) -> io::Result<std::net::TcpStream> {
        network.connect(&self.helper, port)
    }

    /// Builds the order for the helper.
    pub(in crate::exec) fn prepare(
        &self,
        command: &Command,
        environment: &Environment,
        confinement: &Confinement,
    ) -> Result<Order, ExecError> {
        let Some(active) = self.probe.active else {
            return Err(ExecError::NoSandbox(self.probe.to_string()));
        };
        if !confinement.staged.is_empty() && active.mechanism != Mechanism::Namespaces {
            return Err(ExecError::NoSandbox(format!(
                "staging needs namespaces, but only {} is available",
                self.probe
            )));
        }
        Ok(order(command, environment, shell(), confinement, active.mechanism, Some(active))?)
    }
}

fn name(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Namespaces => "namespaces",
        Mechanism::Landlock => "Landlock",
    }
}

/// Lists the restrictions that a working sandbox lacks.
fn gaps(active: &Active) -> Vec<String> {
    let gaps = [
        (active.mechanism == Mechanism::Landlock, "protected names and hidden files within grants"),
        (active.landlock == 0, "Landlock as a second layer"),
        (!active.seccomp, "the filter of system calls"),
        (!active.process_limit, "a limit of processes for root"),
    ];
    gaps.into_iter().filter(|(is_gap, _)| *is_gap).map(|(_, what)| what.to_owned()).collect()
}

fn order(
    command: &Command,
    environment: &Environment,
    shell: &Shell,
    confinement: &Confinement,
    mechanism: Mechanism,
    promised: Option<Active>,
) -> Result<Order, ConfinementError> {
    let mut places: Vec<_> =
        confinement.places()?.into_iter().map(|(path, access)| (JsonPath(path), access)).collect();
    if mechanism == Mechanism::Namespaces {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime = runtime.and_then(|directory| directory.canonicalize().ok());
        let is_open = |path: &PathBuf| {
            confinement.sockets.contains(path)
                || confinement.services.iter().any(|served| path.starts_with(served))
        };
        let meeting = sockets::reachable().into_iter().filter(|path| !is_open(path)).chain(runtime);
        places.extend(meeting.map(|path| (JsonPath(path), Access::None)));
        places.extend(confinement.sockets.iter().map(|path| (JsonPath(path.clone()), Access::Read)));
    }
    let mut overlays: Vec<Overlay> = confinement.staged.iter().map(overlay).collect();
    overlays.sort_by_key(|overlay| overlay.root.0.components().count());
    Ok(Order {
        mechanism,
        places,
        overlays,
        temp: confinement.temp.clone().map(JsonPath),
        substitutes: confinement.substitutes.iter().map(substitute).collect(),
        capture: confinement.capture.as_ref().map(capture),
        sockets: confinement.sockets.iter().cloned().map(JsonPath).collect(),
        services: confinement.services.iter().cloned().map(JsonPath).collect(),
        git_history: confinement.git_history.iter().cloned().map(JsonPath).collect(),
        for_git: confinement.for_git.iter().cloned().map(JsonPath).collect(),
        fixed: confinement.fixed.iter().cloned().map(JsonPath).collect(),
        in_place: confinement.in_place.iter().cloned().map(JsonPath).collect(),
        visible: confinement.visible.iter().cloned().map(JsonPath).collect(),
        network: confinement.network,
        limits: confinement.limits,
        user: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
        promised,
        program: JsonPath(shell.program().to_owned()),
        arguments: shell.arguments(&command.line).map(str::to_owned).collect(),
        environment: Variables::new(within(environment, confinement, mechanism).variables()),
        directory: JsonPath(command.directory.clone()),
    })
}

fn overlay(Staged { root, upper, work }: &Staged) -> Overlay {
    let place = |path: &PathBuf| JsonPath(path.clone());
    Overlay { root: place(root), upper: place(upper), work: place(work) }
}

fn substitute(Substitute { place, source, is_writable }: &Substitute) -> Substitute<JsonPath> {
    Substitute { place: JsonPath(place.clone()), source: JsonPath(source.clone()), is_writable: *is_writable }
}

fn capture(Capture { directory, roots, except, repositories }: &Capture) -> Capture<JsonPath> {
    let places = |paths: &[PathBuf]| paths.iter().cloned().map(JsonPath).collect();
    Capture {
        directory: JsonPath(directory.clone()),
        roots: places(roots),
        except: places(except),
        repositories: places(repositories),
    }
}

/// The environment within: caches and temporary files go where they can be written.
fn within(environment: &Environment, confinement: &Confinement, mechanism: Mechanism) -> Environment {
    let mut environment = environment.clone();
    environment.remove("XDG_RUNTIME_DIR");
    if confinement.network == Network::On {
        environment.remove(NO_LAZY_FETCH);
    }
    if rustix::process::geteuid().is_root() {
        // Root within has no right to give files away, and tar takes it for a failure.
        environment.set("TAR_OPTIONS", "--no-same-owner");
    }
    match (mechanism, &confinement.temp) {
        (Mechanism::Landlock, Some(temp)) => environment.set("TMPDIR", temp),
        _ => environment.set("TMPDIR", "/tmp"),
    }
    for (variable, value) in &confinement.variables {
        // Options go behind those that there are.
        let options = environment.get(variable).filter(|_| value.as_encoded_bytes().starts_with(b"-"));
        let value = match options {
            Some(options) => [options, value].join(OsStr::new(" ")),
            None => value.clone(),
        };
        environment.set(variable, value);
    }
    if mechanism == Mechanism::Namespaces
        && let Some(path) = environment.get("PATH")
    {
        let path = without_covered(path);
        environment.set("PATH", path);
    }
    environment
}

/// A search path whose entries lead past the directories that are covered, in which some managers of toolchains keep links
/// to the programs of a shell.
fn without_covered(path: &OsStr) -> OsString {
    let is_covered = |entry: &Path| COVERED.iter().any(|covered| entry.starts_with(covered));
    let entries = std::env::split_paths(path).map(|entry| match entry.canonicalize() {
        Ok(real) if is_covered(&entry) && !is_covered(&real) => real,
        _ => entry,
    });
    std::env::join_paths(entries).unwrap_or_else(|_| path.to_owned())
}

/// Directories that are empty or private in a mount tree of one's own.
const COVERED: &[&str] = &["/run", "/var/run", "/tmp", "/var/tmp"];

/// Runs a command in a sandbox that tries what it must not, and looks at what came of it.
async fn try_out(helper: &Helper, mechanism: Mechanism) -> Result<Active, String> {
    let trial = Trial::new().map_err(|error| format!("no temporary directory to probe it in: {error}"))?;
    let (active, status, _) = trial.run(helper, mechanism).await.map_err(|error| match error {
        ExecError::Sandbox(reason) => reason,
        error => error.to_string(),
    })?;
    match status {
        Status::Code(0) => trial.check().map(|()| active),
        status => Err(format!("the trial ended with {status:?}")),
    }
}

/// A directory to try a sandbox on.
struct Trial(PathBuf);

/// Prefix of the names of such directories, before a UUID.
const TRIAL_NAME: &str = "roo-lsp-trial-";

/// After this long nobody uses one any more: whoever made it was killed.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

impl Trial {
    fn new() -> io::Result<Self> {
        let place = std::env::temp_dir().canonicalize()?;
        Self::sweep(&place, SystemTime::now());
        let name = format!("{TRIAL_NAME}{}", uuid::Uuid::new_v4());
        let trial = Self(place.join(name));
        fs::DirBuilder::new().mode(0o700).create(&trial.0)?;
        for directory in ["in/protected", "in/hidden", "out", "hidden", "temp"] {
            fs::create_dir_all(trial.0.join(directory))?;
        }
        for secret in ["in/hidden/secret", "hidden/secret"] {
            fs::write(trial.0.join(secret), "secret")?;
        }
        Ok(trial)
    }

    /// Removes the user's own directories of trials that ended before they could.
    fn sweep(place: &Path, now: SystemTime) {
        let own = rustix::process::geteuid().as_raw();
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix(TRIAL_NAME));
            let is_trial = id.is_some_and(|id| uuid::Uuid::try_parse(id).is_ok());
            // Through no link, neither here nor in the removal.
            let Some(found) = is_trial.then(|| entry.path().symlink_metadata().ok()).flatten() else {
                continue;
            };
            let age = found.modified().ok().and_then(|at| now.duration_since(at).ok());
            if found.is_dir() && found.uid() == own && age.is_some_and(|age| age > ABANDONED) {
                // Leftovers of a trial do no harm.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    async fn run(
        &self,
        helper: &Helper,
        mechanism: Mechanism,
    ) -> Result<(Active, Status, LeftRunning), ExecError> {
        let at = |name: &str| self.0.join(name);
        let confinement = Confinement {
            writable: vec![at("in")],
            read_only: vec![at("in/protected"), at("out")],
            hidden: vec![at("in/hidden"), at("hidden")],
            temp: Some(at("temp")),
            ..Confinement::default()
        };
        let within_grants = match mechanism {
            Mechanism::Namespaces => {
                "echo x >in/protected/x; cat in/hidden/secret >>in/read; \
                 [ \"$(grep -c : /proc/net/dev)\" = 1 ] || exit 9; "
            }
            Mechanism::Landlock => "",
        };
        let line = format!(
            "exec 2>/dev/null; echo x >out/x; cat hidden/secret >>in/read; {within_grants}\
             echo x >\"$TMPDIR/x\" || exit 8; echo x >in/x"
        );
        let command = Command { line, directory: self.0.clone(), timeout: Some(TRIAL), handle: None };
        let environment = Environment::inherited();
        let order = order(&command, &environment, shell(), &confinement, mechanism, None)?;
        let job = process::Ordered { helper, ready: &ReadyHelpers::default(), order: &order, loopback: None };
        process::run_ordered(&command, job, |_| {}, &CancellationToken::new()).await
    }

    fn check(&self) -> Result<(), String> {
        let is_there = |name: &str| self.0.join(name).exists();
        let read = fs::read_to_string(self.0.join("in/read")).unwrap_or_default();
        let leaks = [
            (!is_there("in/x"), "a grant can't be written"),
            (!is_there("temp/x"), "temporary files are not in the private directory"),
            (is_there("out/x"), "files outside of the grants can be written"),
            (is_there("in/protected/x"), "protected files can be written"),
            (read.contains("secret"), "hidden files can be read"),
        ];
        leaks.into_iter().find_map(|(leaks, what)| leaks.then(|| Err(what.to_owned()))).unwrap_or(Ok(()))
    }
}

/// Time limit of a trial, generous for a busy machine.
const TRIAL: std::time::Duration = std::time::Duration::from_secs(10);

impl Drop for Trial {
    fn drop(&mut self) {
        // Leftovers of a trial do no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_and_not_held_says_why() {
        let none = Sandbox::none("the kernel has neither");
        assert!(none.probe().check(Required::None).is_ok());
        let error = none.probe().check(Required::L2).unwrap_err().to_string();
        assert!(error.contains("the kernel has neither"), "{error}");

        let landlock = Active {
            mechanism: Mechanism::Landlock,
            landlock: 6,
            seccomp: true,
            own_proc: false,
            process_limit: true,
            supervised: false,
        };
        let probe = Probe { active: Some(landlock), missing: gaps(&landlock) };
        assert!(probe.check(Required::L2).is_ok() && probe.check(Required::Namespaces).is_err());
        assert_eq!(
            probe.to_string(),
            "L2 (Landlock 6, seccomp, a limit of processes); not available: protected names and hidden files within grants"
        );
    }

    #[test]
    fn what_trials_left_behind_goes_with_a_later_one() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let name = |end: &str| format!("{TRIAL_NAME}0198f0c2-77aa-7c3e-9f51-2a4f6f0e9b1{end}");
        fs::create_dir_all(at(&name("0")).join("in/hidden")).unwrap();
        fs::create_dir(at("out")).unwrap();
        fs::write(at("out/kept"), "").unwrap();
        std::os::unix::fs::symlink(at("out"), at(&name("0")).join("link")).unwrap();
        std::os::unix::fs::symlink(at("out"), at(&name("1"))).unwrap();
        fs::create_dir(at("roo-lsp-trial-mine")).unwrap();
        let now = SystemTime::now();
        Trial::sweep(place.path(), now + ABANDONED / 2);
        assert!(at(&name("0")).exists(), "it may be in use");
        Trial::sweep(place.path(), now + ABANDONED * 2);
        assert!(!at(&name("0")).exists());
        assert!(at(&name("1")).is_symlink() && at("roo-lsp-trial-mine").exists() && at("out/kept").exists());
    }

    #[test]
    fn caches_and_temporary_files_go_where_they_can_be_written() {
        let environment = Environment::chosen([("XDG_RUNTIME_DIR".into(), "/run/user/1".into())]);
        let confinement = Confinement {
            temp: Some("/t".into()),
            variables: vec![("GOCACHE", "/c/go".into())],
            ..Confinement::default()
        };
        let value = |environment: &Environment, wanted: &str| {
            let mut variables = environment.variables();
            variables.find(|(name, _)| *name == wanted).map(|(_, value)| value.to_string_lossy().into_owned())
        };
        let inside = within(&environment, &confinement, Mechanism::Namespaces);
        assert_eq!(value(&inside, "TMPDIR").as_deref(), Some("/tmp"));
        assert_eq!(value(&inside, "GOCACHE").as_deref(), Some("/c/go"));
        assert_eq!(value(&inside, "XDG_RUNTIME_DIR"), None);
        assert_eq!(value(&inside, NO_LAZY_FETCH).as_deref(), Some("1"));
        let inside = within(&environment, &confinement, Mechanism::Landlock);
        assert_eq!(value(&inside, "TMPDIR").as_deref(), Some("/t"));
        let options = Confinement { variables: vec![("MAVEN_OPTS", "-Da=b".into())], ..confinement.clone() };
        let environment = Environment::chosen([("MAVEN_OPTS".into(), "-Xmx1g".into())]);
        let inside = within(&environment, &options, Mechanism::Namespaces);
        assert_eq!(value(&inside, "MAVEN_OPTS").as_deref(), Some("-Xmx1g -Da=b"));
        let online = Confinement { network: Network::On, ..confinement };
        assert_eq!(value(&within(&environment, &online, Mechanism::Namespaces), NO_LAZY_FETCH), None);
    }

    #[test]
    fn a_search_path_leads_past_what_is_covered() {
        // As fnm has it: a link for each shell, to the programs of one version.
        let shells = tempfile::tempdir_in("/tmp").unwrap();
        let versions = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
        std::os::unix::fs::symlink(&versions, shells.path().join("17")).unwrap();
        let path = std::env::join_paths([
            shells.path().join("17/src"),
            shells.path().join("absent"),
            "/usr/bin".into(),
        ]);
        let shown = std::env::split_paths(&without_covered(&path.unwrap())).collect::<Vec<_>>();
        assert_eq!(shown, [versions.join("src"), shells.path().join("absent"), "/usr/bin".into()]);
    }
}
