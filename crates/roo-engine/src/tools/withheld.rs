//! Access that the sandbox withheld from a command that failed on it: found in what the sandbox saw refused and in
//! errors of the output, explained to the model and to people, with what the user may grant.
//!
//! An error is a reason to explain, never to open anything: grants are the user's answers, see
//! [`crate::approvals`].

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use crate::policy::{GitUse, Signing, SigningMethod, caches};
use roo_protocol::rule::SandboxAccess;
use roo_sandbox::egress::{EgressDecision, HostPattern, Preset, Reason};
use roo_sandbox::exec::sandbox::{Confinement, Network, credentials, never_granted};
use roo_text::render::exact_line;
use roo_workspace::{Protection, Purpose, ReadAccess, Workspace, protection};

/// Words with which programs report what they could not do with a file, in lower case.
const FILE_ERRORS: [(&str, Error); 10] = [
    ("read-only file system", Error::ReadOnly),
    ("erofs", Error::ReadOnly),
    ("device or resource busy", Error::ReadOnly),
    ("ebusy", Error::ReadOnly),
    ("permission denied", Error::Forbidden),
    ("eacces", Error::Forbidden),
    ("operation not permitted", Error::Forbidden),
    ("eperm", Error::Forbidden),
    ("no such file or directory", Error::Missing),
    ("enoent", Error::Missing),
];
/// Words with which git reports that it could not write to a repository, without a reason.
const UNPACK_ERRORS: &[&str] = &["unpacker error", "unable to create temporary object directory"];
/// Words with which they report a network that isn't there.
const NETWORK_ERRORS: &[&str] = &[
    "could not resolve host",
    "couldn't resolve host",
    "could not resolve proxy",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "name or service not known",
    "nodename nor servname provided",
    "failed to lookup address",
    "getaddrinfo",
    "enotfound",
    "eai_again",
    "network is unreachable",
    "enetunreach",
    "no route to host",
    "ehostunreach",
    "dns error",
    "no such host",
];
/// Words with which they report that nobody listens, on a loopback of the sandbox's own.
const REFUSED_CONNECTIONS: &[&str] = &[
    "connection refused",
    "econnrefused",
    "connect call failed",
    "couldn't connect to server",
    "could not connect to server",
    "can't connect to mysql server",
    "can't connect to server",
];
/// The answer of the proxy to a host that is refused, as programs print it.
const PROXY_REFUSAL: &str = "403 Refused by the sandbox";
/// Words with which programs report that they did not reach a host, without its name.
const HOST_ERRORS: &[&str] = &[
    "403",
    "forbidden",
    "refused",
    "proxy",
    "tunnel",
    "connect",
    "network",
    "fetch",
    "download",
    "timed out",
    "unreachable",
];
/// A port of the loopback in an error, as in `127.0.0.1:5432`, `localhost port 5432` and `('127.0.0.1', 5432)`.
static LOOPBACK_PORT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let host = r"(?:localhost|127\.0\.0\.1|\[::1\]|::1)";
    let separator = r#"(?::|["')]{0,2}(?: \([\d.:]+\))?(?:,\s*|,?\s*port["']?\s*[:=]?\s*))"#;
    Regex::new(&format!(r"{host}{separator}(\d{{1,5}})\b")).ok()
});
/// Words with which Chromium reports that it can't build its own sandbox.
const CHROMIUM_ERRORS: &[&str] = &["no usable sandbox", "failed to move to new namespace"];
/// Words with which git and `gh` report that they have no login for a host.
const PASSWORD_ERRORS: &[&str] = &[
    "could not read username",
    "could not read password",
    "terminal prompts disabled",
    "authentication failed for",
    "gh auth login",
];
/// Files that hold a login for a host, by their last names.
const LOGINS: &[&str] = &[".config/gh", ".git-credentials", "git/credentials"];
/// Words with which SSH reports that a host accepts no key.
const KEY_ERRORS: &[&str] = &["permission denied (publickey"];
/// Words with which SSH reports that it doesn't know the host.
const HOST_KEY_ERRORS: &[&str] = &["host key verification failed"];
/// Words with which they report a variable that they need.
const VARIABLE_ERRORS: &[&str] = &[
    "not set",
    "unset",
    "not defined",
    "undefined",
    "unbound variable",
    "missing",
    "required",
    "must be set",
    "must set",
    "not provided",
    "not found",
    "keyerror",
];
/// The most paths that are named.
const PATHS: usize = 8;
/// The most lines of output that are looked at, from its end.
const LINES: usize = 2000;
/// The most errors in which paths are looked for.
const ERRORS: usize = 40;

/// Errors that a line of output reports about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Error {
    ReadOnly,
    Forbidden,
    Missing,
}

impl Error {
    fn in_line(lowered: &str) -> Option<Self> {
        FILE_ERRORS.iter().find(|(words, _)| reports(lowered, words)).map(|(_, error)| *error)
    }
}

/// Explanation of what a command ran into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Explanation {
    /// For the model; empty where there is nothing to say.
    pub(super) text: String,
    /// In a few words for people; empty as well.
    pub(super) summary: String,
    /// Access that the user may be asked to grant.
    pub(super) grantable: SandboxAccess,
}

/// Data on a command that has ended.
pub(super) struct Ended<'a> {
    /// Confinement that bounded it.
    pub(super) confinement: &'a Confinement,
    /// True if it ended with the exit code 0.
    pub(super) succeeded: bool,
    /// True if it only shows what there is, and needs neither a network nor variables: its output may quote any error.
    pub(super) only_shows: bool,
    /// Paths that it tried to change and could not, as the sandbox saw it.
    pub(super) refused: &'a [PathBuf],
    /// Hosts that it tried to reach and the proxy did not let it.
    pub(super) refused_hosts: &'a [EgressDecision],
    /// Sockets that it tried to connect to and was not let.
    pub(super) refused_sockets: &'a [PathBuf],
    /// True if granting hosts would change that.
    pub(super) may_be_granted_hosts: bool,
    /// True if it could reach some host.
    pub(super) reaches_hosts: bool,
    /// Returns whether a program outside of the sandbox listens at a port of this machine's loopback.
    pub(super) machine_listens: &'a dyn Fn(u16) -> bool,
    /// The socket of the user's SSH agent, if one runs.
    pub(super) agent: Option<PathBuf>,
    /// Returns whether the user has a variable of this name that the command does not see, and may be given.
    pub(super) withheld_variable: &'a dyn Fn(&str) -> bool,
    pub(super) output: &'a str,
    /// Access that the user has refused to grant.
    pub(super) declined: &'a SandboxAccess,
    /// Findings about git.
    pub(super) git: &'a GitUse,
}

/// Explains what the sandbox withheld from a command, as far as its errors tell.
pub(super) fn explain(ended: &Ended<'_>, workspace: &Workspace, home: Option<&Path>) -> Explanation {
    let lines: Vec<String> = ended.output.lines().rev().take(LINES).map(str::to_owned).collect();
    let lowered: Vec<String> = lines.iter().map(|line| line.to_lowercase()).collect();
    let says = |errors: &[&str]| lowered.iter().any(|line| errors.iter().any(|error| reports(line, error)));
    let errors: Vec<(&str, Error)> = lines
        .iter()
        .zip(&lowered)
        .filter_map(|(line, lowered)| Some((line.as_str(), Error::in_line(lowered)?)))
        .take(ERRORS)
        .collect();
    let is_offline = !ended.only_shows
        && ended.confinement.network == Network::Off
        && (says(NETWORK_ERRORS) || says(REFUSED_CONNECTIONS));
    // What else it reports then are services of a desktop, which it does without.
    let is_chromium = !ended.only_shows && !ended.succeeded && says(CHROMIUM_ERRORS);
    let is_offline = is_offline && !is_chromium;
    let ports = match is_offline && says(REFUSED_CONNECTIONS) {
        true => loopback_ports(ended.output),
        false => BTreeSet::new(),
    };
    let variables = match ended.only_shows {
        true => BTreeSet::new(),
        false => variables(&lines, &lowered, ended.withheld_variable),
    };
    // Programs that succeed without a host or a socket, such as one that looks for news about itself, have not needed it.
    let is_missed = |name: &str| !ended.succeeded || ended.output.contains(name);
    // One that failed may have looked for such news too, and failed for another reason.
    let misses_any_host = ended.output.contains(PROXY_REFUSAL)
        || (!ended.succeeded
            && (ended.output.trim().is_empty()
                || [HOST_ERRORS, NETWORK_ERRORS, REFUSED_CONNECTIONS].iter().any(|errors| says(errors))));
    let is_missed_host =
        |host: &&EgressDecision| misses_any_host || ended.output.contains(&host.host.to_string());
    let hosts: Vec<&EgressDecision> = ended.refused_hosts.iter().filter(is_missed_host).collect();
    let mut sockets = outside_sockets(ended.refused_sockets);
    sockets.retain(|socket| socket.file_name().is_some_and(|name| is_missed(&name.to_string_lossy())));
    let wants_login = |errors: &[&str]| !ended.only_shows && !ended.succeeded && says(errors);
    let logins = [PASSWORD_ERRORS, KEY_ERRORS, HOST_KEY_ERRORS].map(wants_login);
    let unwritable = unwritable(ended, &lines, &errors, says(UNPACK_ERRORS));
    let nothing_else = !is_chromium
        && unwritable.is_empty()
        && !logins.contains(&true)
        && hosts.is_empty()
        && sockets.is_empty()
        && variables.is_empty()
        && *ended.git == GitUse::default();
    if errors.is_empty() && !is_offline && nothing_else {
        return Explanation::default();
    }
    let home = home.and_then(|home| home.canonicalize().ok());
    let credentials = credentials(home.as_deref());
    let places = NamedPlaces { workspace, home, credentials };
    let mut found = Findings {
        places: &places,
        declined: ended.declined,
        lines: vec![],
        names: vec![],
        hidden: vec![],
        advice: None,
        grantable: SandboxAccess::default(),
    };
    // The client of a container engine does without its configuration.
    let is_needed = |hidden: &&PathBuf| sockets.is_empty() || !hidden.ends_with(".docker");
    for hidden in ended.confinement.hidden.iter().filter(is_needed) {
        let names = places.names(hidden);
        let holds_login = logins[0] && LOGINS.iter().any(|name| hidden.ends_with(name));
        if holds_login || errors.iter().any(|(line, error)| names.are_in(line, *error)) {
            found.hide(hidden);
        }
    }
    if is_chromium {
        found.chromium();
    }
    let [needs_password, needs_key, needs_host_key] = logins;
    if needs_password {
        found.password();
    }
    if needs_key {
        found.key(ended.agent.as_deref(), &ended.confinement.sockets);
    }
    if needs_host_key {
        found.host_key();
    }
    found.git(ended.git, &ended.confinement.hidden);
    let mut told = BTreeSet::new();
    // What a debugger tries in `/proc` it does without, and no setting opens it.
    for path in unwritable.into_iter().filter(|path| !path.starts_with("/proc")) {
        // Who may not see it can't write it either.
        if found.hidden.iter().any(|hidden| path.starts_with(hidden)) {
            continue;
        }
        let place = places.to_grant(&path).unwrap_or_else(|| path.clone());
        if told.insert(place.clone()) {
            found.unwritable(&path, &place);
        }
    }
    for host in &hosts {
        found.host(host, ended.may_be_granted_hosts);
    }
    for name in variables {
        found.variable(name);
    }
    for socket in &sockets {
        let is_closed = ended.confinement.hidden.iter().any(|hidden| socket.starts_with(hidden));
        found.socket(socket, is_closed);
    }
    for port in ports.iter().copied().filter(|port| (ended.machine_listens)(*port)) {
        found.machine_port(port, ended.may_be_granted_hosts);
    }
    // Where it is known which hosts, ports or sockets, no more is to be said.
    if is_offline && hosts.is_empty() && sockets.is_empty() {
        if says(NETWORK_ERRORS) {
            found.no_network(ended.reaches_hosts);
        } else if ports.is_empty() {
            found.no_machine_ports();
        }
    }
    found.finish()
}

/// Returns whether a line in lower case holds the words of an error, where a word begins: `ModuleNotFoundError` is no
/// `ENOTFOUND`, and `FilePermission` no `EPERM`.
fn reports(lowered: &str, words: &str) -> bool {
    let mut places = lowered.match_indices(words);
    places.any(|(at, _)| !lowered[..at].ends_with(|before: char| before.is_alphanumeric()))
}

/// The ports of the loopback that an output names.
fn loopback_ports(output: &str) -> BTreeSet<u16> {
    let text = output.to_lowercase();
    let named = LOOPBACK_PORT.iter().flat_map(|pattern| pattern.captures_iter(&text));
    named
        .filter_map(|found| found.get(1)?.as_str().parse().ok())
        .filter(|port| *port != 0)
        .take(PATHS)
        .collect()
}

/// The sockets among what a command was not connected to, by their real paths: programs try many names.
fn outside_sockets(refused: &[PathBuf]) -> BTreeSet<PathBuf> {
    let is_socket = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    refused.iter().filter_map(|path| path.canonicalize().ok()).filter(is_socket).collect()
}

/// Returns the paths that the output says could not be written: what the sandbox saw refused and an error names, or, of a
/// command that failed, any line by its whole path; without any, all that it saw, and what is printed.
fn unwritable(
    ended: &Ended<'_>,
    lines: &[String],
    errors: &[(&str, Error)],
    unpack_failed: bool,
) -> BTreeSet<PathBuf> {
    let is_named = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let whole = path.to_string_lossy();
        errors.iter().any(|(line, error)| *error != Error::Missing && contains_name(line, &name))
            || (!ended.succeeded && lines.iter().any(|line| contains_name(line, &whole)))
    };
    let named: BTreeSet<PathBuf> = ended.refused.iter().filter(is_named).cloned().collect();
    if !named.is_empty() {
        return named;
    }
    let read_only = errors.iter().filter(|(_, error)| *error == Error::ReadOnly);
    let mut found: BTreeSet<PathBuf> = read_only.clone().flat_map(|(line, _)| absolute_paths(line)).collect();
    if read_only.count() > 0 || (!ended.succeeded && unpack_failed) {
        found.extend(ended.refused.iter().cloned());
    }
    found
}

/// Names that programs may use for a path.
struct PathNames {
    /// From the root or the home directory.
    whole: Vec<String>,
    /// From the workspace folder.
    inside: Option<String>,
    /// The last part, where that is distinctive.
    own: Option<String>,
}

impl PathNames {
    /// Returns whether a line of output names the path or what is below it.
    fn are_in(&self, line: &str, error: Error) -> bool {
        // A bare name may be that of another file, above all where none was found.
        let own = self.own.iter().filter(|_| error == Error::Forbidden);
        self.whole.iter().any(|name| contains_name(line, name))
            || self.inside.iter().chain(own).any(|name| contains_relative(line, name))
    }
}

/// Names of places, and what may be done about them.
struct NamedPlaces<'a> {
    workspace: &'a Workspace,
    home: Option<PathBuf>,
    /// Files in which the user and the machine keep credentials.
    credentials: Vec<PathBuf>,
}

impl NamedPlaces<'_> {
    /// Returns the names that programs may use for a path.
    fn names(&self, path: &Path) -> PathNames {
        let mut whole = vec![path.to_string_lossy().into_owned()];
        if let Some(below) = self.home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
            whole.push(format!("~/{}", below.display()));
        }
        let mut roots = self.workspace.roots().paths();
        let inside = roots.find_map(|root| path.strip_prefix(root).ok());
        let own = path.file_name().map(|name| name.to_string_lossy().into_owned());
        PathNames {
            whole,
            inside: inside.map(|inside| inside.to_string_lossy().into_owned()),
            own: own.filter(|name| name.starts_with('.')),
        }
    }

    fn shown(&self, path: &Path) -> String {
        let roots = self.workspace.roots().paths();
        let inside = roots.filter_map(|root| path.strip_prefix(root).ok()).next();
        let below_home = || self.home.as_ref().and_then(|home| path.strip_prefix(home).ok());
        let text = match inside {
            Some(inside) if !inside.as_os_str().is_empty() => inside.display().to_string(),
            _ => match below_home() {
                Some(below) => format!("~/{}", below.display()),
                None => path.display().to_string(),
            },
        };
        exact_line(&text)
    }

    /// Returns whether a hidden path is one that its user may open for commands: a secret or credentials, not what
    /// `.rooignore` names nor what is the server's own.
    fn may_be_read(&self, path: &Path) -> bool {
        if self.credentials.iter().any(|known| known == path) {
            return !never_granted(self.home.as_deref()).iter().any(|known| known == path);
        }
        let place = path.to_str().and_then(|text| self.workspace.resolve(text, Purpose::Read).ok());
        place.is_some_and(|place| self.workspace.read_access(&place) == ReadAccess::Secret)
    }

    /// The directory outside of the workspace that would have to be opened for a path to be written; none where that would
    /// open more than a cache: other programs may run or trust what is there.
    fn to_grant(&self, path: &Path) -> Option<PathBuf> {
        let place = path.ancestors().skip(1).find(|above| above.is_dir())?.canonicalize().ok()?;
        let home = self.home.as_ref()?;
        let mut caches = caches(home, |name| std::env::var_os(name)).into_iter();
        let below = caches.find_map(|cache| place.strip_prefix(cache).ok().map(Path::to_path_buf))?;
        let is_workspace =
            self.workspace.roots().paths().any(|root| root.starts_with(&place) || place.starts_with(root));
        let is_protected = below.to_str().is_none_or(|below| {
            matches!(protection(below, None), Protection::Tier1 { .. } | Protection::Denied)
        });
        let is_secret =
            self.credentials.iter().any(|known| place.starts_with(known) || known.starts_with(&place));
        (!is_workspace && !is_protected && !is_secret).then_some(place)
    }

    /// Returns the reason why a path of the workspace can't be written.
    fn why_protected(&self, path: &Path) -> Option<&'static str> {
        let root = self.workspace.roots().paths().find_map(|root| path.strip_prefix(root).ok());
        Some(match protection(root?.to_str()?, None) {
            Protection::Tier1 { .. } | Protection::Denied => "it is protected; edits of it ask",
            _ => "it is not what this task may change",
        })
    }
}

/// Findings on the way to an explanation.
struct Findings<'a> {
    places: &'a NamedPlaces<'a>,
    declined: &'a SandboxAccess,
    lines: Vec<String>,
    names: Vec<String>,
    /// Hidden paths that are told.
    hidden: Vec<PathBuf>,
    /// What the model can do by itself.
    advice: Option<&'static str>,
    grantable: SandboxAccess,
}

impl Findings<'_> {
    fn hide(&mut self, path: &Path) {
        self.hidden.push(path.to_path_buf());
        let shown = self.places.shown(path);
        let text = path.to_str().filter(|_| self.places.may_be_read(path)).map(str::to_owned);
        let how = match &text {
            None => "can't be read: it is closed to commands",
            Some(text) if self.declined.readable.contains(text) => "can't be read: the user has refused that",
            Some(_) => "can't be read (setting sandbox.readable)",
        };
        self.lines.push(format!("{shown} {how}"));
        self.names.push(shown);
        self.grantable.readable.extend(text.filter(|text| !self.declined.readable.contains(text)));
    }

    fn unwritable(&mut self, path: &Path, place: &Path) {
        if let Some(why) = self.places.why_protected(path) {
            let shown = self.places.shown(path);
            self.lines.push(format!("{shown} can't be written: {why}"));
            self.names.push(shown);
            return;
        }
        let shown = self.places.shown(place);
        let text = self.places.to_grant(path).and_then(|place| Some(place.to_str()?.to_owned()));
        let how = match &text {
            Some(text) if self.declined.writable.contains(text) => {
                "can't be written: the user has refused that"
            }
            _ => "can't be written (setting sandbox.writable)",
        };
        self.lines.push(format!("{shown} {how}"));
        self.names.push(shown);
        self.grantable.writable.extend(text.filter(|text| !self.declined.writable.contains(text)));
    }

    fn git(&mut self, git: &GitUse, hidden: &[PathBuf]) {
        let hooks = git.hooks.iter().filter_map(|hooks| hooks.canonicalize().ok());
        for hooks in hooks.filter(|hooks| hidden.iter().any(|hidden| hooks.starts_with(hidden))) {
            let shown = self.places.shown(&hooks);
            self.lines.push(format!("git's hooks in {shown} did not run: they can't be read"));
            self.names.push(format!("git's hooks in {shown}"));
        }
        if let Some(signing) = &git.unsigned {
            self.unsigned(signing);
        }
    }

    fn chromium(&mut self) {
        self.advice = Some(
            "Chromium can't build its own sandbox within that of commands. Run it with --no-sandbox: the command's sandbox holds it.",
        );
        self.names.push("Chromium's own sandbox".into());
    }

    fn password(&mut self) {
        self.lines.push(
            "logins at git hosts: commands can't use the user's. The user can run this themselves, open what holds the login, such \
             as ~/.config/gh or ~/.git-credentials (setting sandbox.readable), or pass on a token (setting sandbox.env)"
                .into(),
        );
        self.names.push("logins at git hosts".into());
    }

    /// Keys of SSH are never opened; an agent signs with them.
    fn key(&mut self, agent: Option<&Path>, open: &[PathBuf]) {
        const KEYS: &str = "keys of SSH: commands can't read them. The user can run this themselves";
        self.lines.push(match agent {
            Some(agent) if open.iter().any(|socket| socket == agent) => {
                "keys of SSH: the user's agent holds none that this host accepts".to_owned()
            }
            Some(_) => format!("{KEYS}, or let commands use their SSH agent"),
            None => format!("{KEYS}, or start an SSH agent before roo-lsp and let commands use it"),
        });
        self.names.push("keys of SSH".to_owned());
        if let Some(agent) = agent.filter(|agent| !open.iter().any(|socket| socket == agent)) {
            self.socket(agent, false);
        }
    }

    fn host_key(&mut self) {
        self.lines.push(
            "new hosts of SSH: commands see ~/.ssh/known_hosts, once a host is allowed, and can't add to it. The user can connect \
             to this host once themselves"
                .into(),
        );
        self.names.push("new hosts of SSH".into());
    }

    fn unsigned(&mut self, signing: &Signing) {
        let what = match (signing.commits, signing.tags) {
            (true, true) => "commits and tags (commit.gpgSign, tag.gpgSign)",
            (true, false) => "commits (commit.gpgSign)",
            (false, true) => "tags (tag.gpgSign)",
            (false, false) => "what it is told to",
        };
        let how = match &signing.method {
            SigningMethod::Ssh(key) => {
                let shown = self.places.shown(Path::new(&key.key));
                if self.declined.signing_keys.contains(&key.key) {
                    format!("with {shown}: the user has refused that")
                } else {
                    self.grantable.signing_keys.push(key.key.clone());
                    format!(
                        "with {shown} (setting sandbox.signingKeys). The user is asked to grant that with the next command \
                         that makes a commit or a tag: `git commit --amend --no-edit` signs the last commit"
                    )
                }
            }
            SigningMethod::UnknownSshKey => {
                "with a key of SSH, but user.signingKey doesn't name one in full, \
                                             so that it can't be granted"
                    .to_owned()
            }
            SigningMethod::Other(format) => format!(
                "with keys of gpg.format {}, which can't be granted; the user can sign the commits themselves: \
                 `git rebase --exec 'git commit --amend --no-edit --gpg-sign' BASE`",
                exact_line(format)
            ),
        };
        self.lines.push(format!("signatures: git's configuration signs {what} {how}"));
        self.names.push("signing".to_owned());
    }

    /// A host is offered by its name, never one that is closed for what it leads to. The hosts of a package manager are
    /// offered together: it needs the others next.
    fn host(&mut self, refused: &EgressDecision, may_be_granted: bool) {
        let shown = exact_line(&format!("{}:{}", refused.host, refused.port));
        let own = refused.own_server();
        let is_offered = may_be_granted && refused.reason == Reason::NoRule && own.is_none();
        let exact = refused.grant();
        let has_declined = |pattern: &HostPattern| self.declined.hosts.contains(&pattern.to_string());
        let is_declined = is_offered && exact.iter().any(has_declined);
        let preset = exact.first().and_then(Preset::with_host);
        let offered = preset.map_or(exact.as_slice(), |preset| preset.hosts.as_slice());
        let offered = offered.iter().filter(|pattern| is_offered && !is_declined && !has_declined(pattern));
        let offered: Vec<String> = offered.map(ToString::to_string).collect();
        self.lines.push(match own {
            _ if is_declined => format!("{shown} can't be reached: the user has refused that"),
            Some(own) => format!(
                "{shown} can't be reached by the proxy: {}; a server that a command has started is at {own}",
                refused.reason
            ),
            None => format!("{shown} can't be reached: {} (setting sandbox.network)", refused.reason),
        });
        self.names.push(shown);
        for host in offered {
            if !self.grantable.hosts.contains(&host) {
                self.grantable.hosts.push(host);
            }
        }
    }

    /// A port at which a program of this machine listens: that one is not in the loopback of commands.
    fn machine_port(&mut self, port: u16, may_be_granted: bool) {
        let host = format!("127.0.0.1:{port}");
        let is_declined = self.declined.hosts.contains(&host);
        self.lines.push(match is_declined {
            true => format!("{host} can't be reached: the user has refused that"),
            false => format!(
                "{host} can't be reached: it is this machine's, and commands have a loopback of their own (setting \
                 sandbox.network)"
            ),
        });
        self.names.push(host.clone());
        self.grantable.hosts.extend(Some(host).filter(|_| may_be_granted && !is_declined));
    }

    fn no_machine_ports(&mut self) {
        self.lines.push(
            "servers of this machine: the commands of a request share a loopback of their own. The parameter network \
             doesn't change that; the setting sandbox.network opens a port, such as 127.0.0.1:5432"
                .into(),
        );
        self.names.push("connections to other processes".into());
    }

    /// A host that isn't known was asked for without the proxy.
    fn no_network(&mut self, reaches_hosts: bool) {
        let text = match reaches_hosts {
            true => {
                "hosts that are not asked of the proxy: a program reaches the hosts of sandbox.network by the variables \
                 HTTPS_PROXY and ALL_PROXY alone"
            }
            false => "the network is off: call it again with the parameter network, and the user is asked",
        };
        self.lines.push(text.into());
        self.names.push("the network".into());
    }

    /// A socket is offered by its path, but not one among what commands must not see.
    fn socket(&mut self, path: &Path, is_closed: bool) {
        if self.grantable.sockets.iter().any(|known| Path::new(known) == path) {
            return;
        }
        let shown = self.places.shown(path);
        let text = path.to_str().filter(|_| !is_closed).map(str::to_owned);
        let is_declined = text.as_ref().is_some_and(|text| self.declined.sockets.contains(text));
        self.lines.push(match (&text, is_declined) {
            (None, _) => format!("the socket {shown} is closed to commands"),
            (_, true) => format!("the socket {shown} can't be connected to: the user has refused that"),
            (_, false) => format!("the socket {shown} can't be connected to (setting sandbox.sockets)"),
        });
        self.names.push(format!("the socket {shown}"));
        self.grantable.sockets.extend(text.filter(|_| !is_declined));
    }

    fn variable(&mut self, name: String) {
        let is_declined = self.declined.variables.contains(&name);
        self.lines.push(match is_declined {
            true => format!("the variable {name} is not passed on: the user has refused that"),
            false => format!("the variable {name} is set, but not passed on (setting sandbox.env)"),
        });
        self.names.push(format!("the variable {name}"));
        self.grantable.variables.extend(Some(name).filter(|_| !is_declined));
    }

    fn finish(mut self) -> Explanation {
        let advice = self.advice.map(|advice| format!("\n{advice}")).unwrap_or_default();
        let summary = self.summary();
        if self.lines.is_empty() {
            return Explanation { text: advice, summary, grantable: SandboxAccess::default() };
        }
        let more = self.lines.len().saturating_sub(PATHS);
        self.lines.truncate(PATHS);
        let mut text = format!("\nThe sandbox withheld from this command:\n- {}", self.lines.join("\n- "));
        if more > 0 {
            text.push_str(&format!("\n- and {more} more"));
        }
        text.push_str("\nOnly the user can allow that: don't try to get around it.");
        // What signs is offered with the next command that makes a commit, whatever that is.
        if !(SandboxAccess { signing_keys: vec![], ..self.grantable.clone() }).is_empty() {
            text.push_str(
                " If the task needs it, make exactly this call once more, and the user is asked to grant it.",
            );
        }
        text.push_str(&advice);
        self.grantable.truncate(PATHS);
        Explanation { text, summary, grantable: self.grantable }
    }

    fn summary(&self) -> String {
        match self.names.as_slice() {
            [one] => format!("the sandbox withheld {one}"),
            [one, rest @ ..] => format!("the sandbox withheld {one} and {} more", rest.len()),
            [] => String::new(),
        }
    }
}

/// The variables that lines of output say are missing, and are there.
fn variables(lines: &[String], lowered: &[String], is_withheld: &dyn Fn(&str) -> bool) -> BTreeSet<String> {
    let says = |lowered: &&String| VARIABLE_ERRORS.iter().any(|words| lowered.contains(words));
    let saying = lines.iter().zip(lowered).filter(|(_, lowered)| says(lowered)).take(ERRORS);
    let words = saying.flat_map(|(line, _)| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    let is_name = |word: &&str| {
        word.len() > 2
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    words.filter(is_name).filter(|name| is_withheld(name)).take(PATHS).map(str::to_owned).collect()
}

/// Returns whether a line holds a name that is no part of a longer one.
fn contains_name(line: &str, name: &str) -> bool {
    occurrences(line, name).next().is_some()
}

/// The same for a name that does not begin at the root: it is not the end of another path.
fn contains_relative(line: &str, name: &str) -> bool {
    occurrences(line, name).any(|before| {
        !before.ends_with('/')
            || before
                .strip_suffix("./")
                .is_some_and(|rest| !rest.ends_with(['.', '/']) && !rest.ends_with(continues))
    })
}

/// Returns the text before each occurrence of a name.
fn occurrences<'a>(line: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(name).filter(|_| !name.is_empty()).filter_map(move |(at, _)| {
        let before = line.get(..at)?;
        let mut after = line.get(at + name.len()..)?.chars();
        let (next, then) = (after.next(), after.next());
        // A sentence may end after a name.
        let ends = !next.is_some_and(continues) || (next == Some('.') && !then.is_some_and(continues));
        (!before.ends_with(continues) && ends).then_some(before)
    })
}

/// Returns whether a character is part of a name.
fn continues(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// The absolute paths in a line of output.
fn absolute_paths(line: &str) -> Vec<PathBuf> {
    let parts =
        line.split(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '(' | ')' | ',' | ':'));
    let paths = parts.filter(|part| part.len() > 1 && part.starts_with('/') && !part.starts_with("//"));
    paths.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::policy::command::only_shows;
    use crate::tools::fixture::Fixture;
    use roo_sandbox::egress::{AddressClass, Host, Verdict};

    /// A workspace with a secret, an ignored file and a protected one, and a home beside it.
    struct Case {
        fixture: Fixture,
        home: PathBuf,
    }

    impl Case {
        fn new() -> Self {
            let files = [(".env", "A=1"), ("private/x", "x"), (".rooignore", "private\n"), ("a.rs", "")];
            let fixture = Fixture::new(&files);
            let home = fixture.path("../home");
            for directory in [
                ".aws",
                ".cache/own",
                ".cargo/bin",
                ".cargo/registry/cache",
                ".config/tool",
                ".local/share/direnv/allow",
                ".local/state/mise/trusted-configs",
                ".oh-my-zsh/custom",
                ".rustup/toolchains/stable",
                ".vim/plugin",
                ".vscode-server/extensions",
                "projects/other",
            ] {
                fs::create_dir_all(home.join(directory)).unwrap();
            }
            let home = home.canonicalize().unwrap();
            Self { fixture, home }
        }

        fn root(&self) -> PathBuf {
            self.fixture.path(".").canonicalize().unwrap()
        }

        fn explain(&self, output: &str, refused: &[PathBuf], declined: &SandboxAccess) -> Explanation {
            let confinement = Confinement {
                hidden: vec![self.root().join(".env"), self.root().join("private"), self.home.join(".aws")],
                ..Confinement::default()
            };
            let ended = Ended { refused, output, declined, ..ended(&confinement) };
            explain(&ended, &self.fixture.context.workspace, Some(&self.home))
        }

        fn told(&self, output: &str) -> (String, SandboxAccess) {
            let Explanation { text, grantable, .. } = self.explain(output, &[], &SandboxAccess::default());
            (text.lines().filter(|line| line.starts_with("- ")).collect::<Vec<_>>().join("\n"), grantable)
        }

        fn readable(&self, path: &Path) -> SandboxAccess {
            SandboxAccess { readable: vec![path.to_str().unwrap().to_owned()], ..SandboxAccess::default() }
        }
    }

    /// Returns a command that printed nothing, of a user with two variables of their own.
    fn ended(confinement: &Confinement) -> Ended<'_> {
        static NOTHING: LazyLock<(SandboxAccess, GitUse)> = LazyLock::new(Default::default);
        Ended {
            confinement,
            succeeded: false,
            only_shows: false,
            refused: &[],
            refused_hosts: &[],
            refused_sockets: &[],
            may_be_granted_hosts: true,
            reaches_hosts: false,
            machine_listens: &|port| port == 5432,
            agent: None,
            withheld_variable: &|name| matches!(name, "STRIPE_API_KEY" | "DATABASE_URL"),
            output: "",
            declined: &NOTHING.0,
            git: &NOTHING.1,
        }
    }

    fn refused(host: &str, reason: Reason) -> EgressDecision {
        EgressDecision { host: Host::parse(host).unwrap(), port: 443, verdict: Verdict::Refused, reason }
    }

    #[test]
    fn hosts_that_no_rule_names_are_offered_and_closed_ones_only_told() {
        let case = Case::new();
        let confinement = Confinement::default();
        let hosts = [
            refused("registry.example.com", Reason::NoRule),
            refused("metadata.google.internal", Reason::ClosedName(AddressClass::Metadata)),
        ];
        let workspace = &case.fixture.context.workspace;
        let explained = |may_be_granted_hosts, declined: &SandboxAccess| {
            let ended =
                Ended { refused_hosts: &hosts, may_be_granted_hosts, declined, ..ended(&confinement) };
            explain(&ended, workspace, Some(&case.home))
        };
        let offered = explained(true, &SandboxAccess::default());
        let access =
            SandboxAccess { hosts: vec!["registry.example.com:443".into()], ..SandboxAccess::default() };
        assert_eq!(offered.grantable, access);
        assert!(
            offered.text.contains("- registry.example.com:443 can't be reached: no rule matches this host (setting sandbox.network)\n- metadata"),
            "{}",
            offered.text
        );
        // An intent stands against it.
        assert_eq!(explained(false, &SandboxAccess::default()).grantable, SandboxAccess::default());
        let declined = explained(true, &access);
        assert_eq!(declined.grantable, SandboxAccess::default());
        assert!(declined.text.contains("registry.example.com:443 can't be reached: the user has refused"));
    }

    #[test]
    fn a_hidden_file_that_a_command_would_write_is_told_once() {
        let case = Case::new();
        let output = "bash: .env: Permission denied";
        let explained = case.explain(output, &[case.root().join(".env")], &SandboxAccess::default());
        let told: Vec<&str> = explained.text.lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(told, ["- .env can't be read (setting sandbox.readable)"]);
    }

    #[test]
    fn what_can_not_be_opened_in_proc_is_not_told() {
        let case = Case::new();
        let output = "warning: opening /proc/self/mem file failed: Read-only file system (30)";
        let explained = case.explain(output, &["/proc/self/mem".into()], &SandboxAccess::default());
        assert_eq!(explained, Explanation::default());
    }

    #[test]
    fn a_command_that_succeeded_has_missed_only_what_its_output_names() {
        let case = Case::new();
        let confinement = Confinement::default();
        let hosts = [refused("news.example.com", Reason::NoRule)];
        let path = case.home.join("agent.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let sockets = [path];
        let offered = |succeeded, output: &str| {
            let ended = Ended {
                succeeded,
                output,
                refused_hosts: &hosts,
                refused_sockets: &sockets,
                ..ended(&confinement)
            };
            let access = explain(&ended, &case.fixture.context.workspace, Some(&case.home)).grantable;
            (access.hosts.len(), access.sockets.len())
        };
        assert_eq!(offered(false, ""), (1, 1));
        assert_eq!(offered(true, "ok"), (0, 0));
        assert_eq!(offered(true, "warning: news.example.com can't be reached"), (1, 0));
        assert_eq!(offered(true, "no agent at ~/agent.sock"), (0, 1));
        assert_eq!(offered(true, "curl: (56) CONNECT tunnel: 403 Refused by the sandbox of roo-lsp"), (1, 0));
        // A command that failed for another reason was not stopped by a host that it names.
        assert_eq!(offered(false, "3 tests failed").0, 0);
        assert_eq!(offered(false, "TypeError: fetch failed").0, 1);
    }

    #[test]
    fn a_server_of_the_commands_is_told_by_its_own_address() {
        let case = Case::new();
        let confinement = Confinement::default();
        let address = "0.0.0.0".parse().unwrap();
        let hosts = [refused("0.0.0.0", Reason::ClosedAddress { address, class: AddressClass::Loopback })];
        let ended = Ended { refused_hosts: &hosts, ..ended(&confinement) };
        let found = explain(&ended, &case.fixture.context.workspace, Some(&case.home));
        assert!(
            found.text.contains("a server that a command has started is at localhost:443"),
            "{}",
            found.text
        );
        assert_eq!(found.grantable, SandboxAccess::default());
    }

    #[test]
    fn the_hosts_of_a_package_manager_are_offered_together() {
        let case = Case::new();
        let confinement = Confinement::default();
        let hosts = [refused("index.crates.io", Reason::NoRule), refused("static.crates.io", Reason::NoRule)];
        let offered = |declined: &SandboxAccess| {
            let ended = Ended { refused_hosts: &hosts, declined, ..ended(&confinement) };
            explain(&ended, &case.fixture.context.workspace, Some(&case.home)).grantable.hosts
        };
        let cargo =
            ["index.crates.io:443", "static.crates.io:443", "crates.io:443", "static.rust-lang.org:443"];
        assert_eq!(offered(&SandboxAccess::default()), cargo);
        let declined =
            SandboxAccess { hosts: vec!["static.crates.io:443".into()], ..SandboxAccess::default() };
        assert_eq!(offered(&declined), [cargo[0], cargo[2], cargo[3]]);
    }

    #[test]
    fn variables_are_offered_where_the_output_says_that_they_are_missing() {
        let case = Case::new();
        let confinement = Confinement::default();
        let found = |output: &str| {
            let ended = Ended { output, ..ended(&confinement) };
            explain(&ended, &case.fixture.context.workspace, Some(&case.home)).grantable.variables
        };
        for output in [
            "Error: STRIPE_API_KEY is not set",
            "KeyError: 'STRIPE_API_KEY'",
            "build.sh: line 3: STRIPE_API_KEY: unbound variable",
            "error: environment variable `STRIPE_API_KEY` not defined at compile time",
            "Missing required environment variable: STRIPE_API_KEY=...",
        ] {
            assert_eq!(found(output), ["STRIPE_API_KEY"], "{output}");
        }
        for output in [
            "using STRIPE_API_KEY",
            "1 test failed",
            "OTHER_KEY is not set",
            "MY_STRIPE_API_KEY is not set",
            "could not connect to the database",
        ] {
            assert_eq!(found(output), [""; 0], "{output}");
        }
    }

    #[test]
    fn a_hidden_file_that_an_error_names_is_told_with_its_setting() {
        let case = Case::new();
        let env = case.root().join(".env");
        for output in [
            "cat: .env: Permission denied".to_owned(),
            "Error: EACCES: permission denied, open '.env'".to_owned(),
            format!("Error: EACCES: permission denied, open '{}'", env.display()),
            "PermissionError: [Errno 13] Permission denied: './.env'".to_owned(),
            "could not load ./.env: permission denied.".to_owned(),
        ] {
            let expected = "- .env can't be read (setting sandbox.readable)";
            assert_eq!(case.told(&output), (expected.to_owned(), case.readable(&env)), "{output}");
        }
        for output in [
            "cat: .env.example: Permission denied",
            "cat: /elsewhere/.env: No such file or directory",
            "cat: /elsewhere/.env: Permission denied",
            "cat: x.env: Permission denied",
            "loaded .env",
            "dotenv: ENOENT: no such file or directory, open 'packages/a/.env'",
        ] {
            assert_eq!(case.told(output), (String::new(), SandboxAccess::default()), "{output}");
        }
    }

    #[test]
    fn credentials_are_told_by_their_place_at_home() {
        let case = Case::new();
        let aws = case.home.join(".aws");
        let output = format!("open {}/config: permission denied", aws.display());
        let expected = "- ~/.aws can't be read (setting sandbox.readable)".to_owned();
        assert_eq!(case.told(&output), (expected.clone(), case.readable(&aws)));
        assert_eq!(case.told("~/.aws/credentials: No such file or directory").0, expected);
    }

    #[test]
    fn keys_and_passwords_are_told_and_not_offered() {
        let case = Case::new();
        let ssh = case.home.join(".ssh");
        fs::create_dir(&ssh).unwrap();
        let confinement = Confinement { hidden: vec![ssh.clone()], ..Confinement::default() };
        let output = format!("{}/id_ed25519: Permission denied", ssh.display());
        let declined = SandboxAccess::default();
        let ended = Ended { output: &output, declined: &declined, ..ended(&confinement) };
        let found = explain(&ended, &case.fixture.context.workspace, Some(&case.home));
        assert!(found.text.contains("- ~/.ssh can't be read: it is closed to commands"), "{}", found.text);
        assert_eq!(found.grantable, SandboxAccess::default());
    }

    #[test]
    fn what_rooignore_names_is_told_and_not_offered() {
        let case = Case::new();
        assert_eq!(
            case.told("cat: private/x: Permission denied"),
            ("- private can't be read: it is closed to commands".to_owned(), SandboxAccess::default())
        );
    }

    #[test]
    fn what_could_not_be_written_is_told_with_the_directory_that_a_grant_would_open() {
        let case = Case::new();
        let registry = case.home.join(".cargo/registry/cache");
        let refused = [registry.join("new.crate"), registry.join("other.crate"), registry.join("gone/deep")];
        let found =
            case.explain("error: Read-only file system (os error 30)", &refused, &SandboxAccess::default());
        assert!(
            found.text.contains(
                "\n- ~/.cargo/registry/cache can't be written (setting sandbox.writable)\nOnly the user"
            ),
            "{}",
            found.text
        );
        let writable = vec![registry.to_str().unwrap().to_owned()];
        assert_eq!(found.grantable, SandboxAccess { writable, ..SandboxAccess::default() });
        assert_eq!(found.summary, "the sandbox withheld ~/.cargo/registry/cache");
    }

    #[test]
    fn nothing_is_offered_that_would_open_more_than_a_cache() {
        let case = Case::new();
        let (home, root) = (&case.home, case.root());
        for path in [
            home.join("new"),
            home.join(".bashrc"),
            home.join(".cargo/config.toml"),
            home.join(".config/tool/x"),
            home.join(".cargo/bin/x"),
            home.join(".aws/x"),
            home.join(".cargo/new"),
            home.join(".local/share/direnv/allow/x"),
            home.join(".local/state/mise/trusted-configs/x"),
            home.join(".vim/plugin/x.vim"),
            home.join(".oh-my-zsh/custom/x.zsh"),
            home.join(".vscode-server/extensions/x"),
            home.join(".rustup/toolchains/stable/x"),
            home.join("projects/other/x"),
            home.join(".cache/own/x"),
            root.join(".git/hooks/pre-commit"),
            root.join("a.rs"),
            root.join("../x"),
            "/usr/local/lib/x".into(),
            "/etc/x".into(),
        ] {
            let found = case.explain("EROFS", std::slice::from_ref(&path), &SandboxAccess::default());
            assert!(found.text.contains("can't be written"), "{}: {}", path.display(), found.text);
            assert_eq!(found.grantable, SandboxAccess::default(), "{}", path.display());
        }
    }

    #[test]
    fn of_what_was_refused_only_what_an_error_names_is_told() {
        let case = Case::new();
        let cache = case.home.join(".cargo/registry/cache");
        let refused = [cache.join("one"), case.home.join(".config/tool/two")];
        let told = |output: &str| case.explain(output, &refused, &SandboxAccess::default()).summary;
        assert_eq!(
            told("can't write one: Read-only file system"),
            "the sandbox withheld ~/.cargo/registry/cache"
        );
        // Programs try much that they can do without.
        assert_eq!(told("1 test failed"), "");
    }

    #[test]
    fn a_failed_command_has_missed_what_its_output_names_in_full() {
        let case = Case::new();
        let root = case.home.join("projects/other");
        let refused = [root.join("node_modules"), root.join("package-lock.json")];
        let told = |output: &str| case.explain(output, &refused, &SandboxAccess::default()).text;
        let output =
            format!("npm error ENOENT: no such file or directory, mkdir '{}/node_modules'", root.display());
        let text = told(&output);
        assert!(
            text.contains("- ~/projects/other/node_modules can't be written (setting sandbox.writable)"),
            "{text}"
        );
        assert!(!text.contains("package-lock.json"), "{text}");
        let output = "remote: fatal: unable to create temporary object directory\n ! [remote rejected] main -> main (unpacker error)";
        assert!(told(output).contains("package-lock.json can't be written"), "{}", told(output));
        assert_eq!(told("npm error ENOENT: no such file or directory, open 'node_modules'"), "");
    }

    #[test]
    fn a_read_only_file_system_in_the_output_stands_in_for_what_was_not_seen() {
        let case = Case::new();
        let path = case.home.join(".cargo/registry/cache/x");
        let output = format!("failed to open `{}`: Read-only file system (os error 30)", path.display());
        assert_eq!(
            case.told(&output).0,
            "- ~/.cargo/registry/cache can't be written (setting sandbox.writable)"
        );
    }

    #[test]
    fn what_the_user_has_refused_is_not_offered_again() {
        let case = Case::new();
        let declined = case.readable(&case.root().join(".env"));
        let found = case.explain("cat: .env: Permission denied", &[], &declined);
        assert!(found.text.contains(".env can't be read: the user has refused that"), "{}", found.text);
        assert!(!found.text.contains("once more"), "{}", found.text);
        assert_eq!(found.grantable, SandboxAccess::default());
    }

    #[test]
    fn a_network_that_is_off_is_told_where_something_looked_for_it() {
        let case = Case::new();
        for output in [
            "curl: (6) Could not resolve host: example.org",
            "npm error getaddrinfo EAI_AGAIN registry.npmjs.org",
            "connect: Network is unreachable",
        ] {
            assert!(case.told(output).0.contains("the network is off"), "{output}");
        }
        let confinement = Confinement::default();
        let output = "ssh: Could not resolve hostname github.com: Temporary failure in name resolution";
        let ended = Ended { reaches_hosts: true, output, ..ended(&confinement) };
        let text = explain(&ended, &case.fixture.context.workspace, Some(&case.home)).text;
        assert!(text.contains("not asked of the proxy") && !text.contains("the network is off"), "{text}");
    }

    #[test]
    fn a_port_at_which_this_machine_listens_is_offered() {
        let case = Case::new();
        let access = SandboxAccess { hosts: vec!["127.0.0.1:5432".into()], ..SandboxAccess::default() };
        for output in [
            "connect ECONNREFUSED 127.0.0.1:5432",
            "Error: connect ECONNREFUSED ::1:5432",
            "curl: (7) Failed to connect to localhost port 5432 after 0 ms: Couldn't connect to server",
            "curl: (7) Failed to connect to 127.0.0.1 port 5432 after 0 ms: Could not connect to server",
            "psql: error: connection to server at \"localhost\" (127.0.0.1), port 5432 failed: Connection refused",
            "dial tcp 127.0.0.1:5432: connect: connection refused",
            "HTTPConnectionPool(host='localhost', port=5432): Max retries exceeded: [Errno 111] Connection refused",
            "ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 5432)",
            "AggregateError [ECONNREFUSED]:\n  address: '127.0.0.1',\n  port: 5432",
        ] {
            let (told, grantable) = case.told(output);
            assert!(told.contains("- 127.0.0.1:5432 can't be reached"), "{output}: {told}");
            assert_eq!(grantable, access, "{output}");
        }
        // Neither this machine nor a command has such a server: the sandbox withheld nothing.
        assert_eq!(case.told("connect ECONNREFUSED 127.0.0.1:8123").0, "");
        assert!(case.told("Connection refused").0.contains("doesn't change that"));
    }

    #[test]
    fn chromium_is_to_run_without_its_own_sandbox() {
        let case = Case::new();
        for output in [
            "[0101/101010.1:FATAL:zygote_host_impl_linux.cc(128)] No usable sandbox! If you are running on Ubuntu 23.10+",
            "Failed to move to new namespace: PID namespaces supported, Network namespace supported, but failed: errno = \
             Operation not permitted\nFailed to connect to the bus: Connection refused",
        ] {
            let found = case.explain(output, &[], &SandboxAccess::default());
            let told = "Run it with --no-sandbox: the command's sandbox holds it.";
            assert!(found.text.ends_with(told) && !found.text.contains("withheld"), "{}", found.text);
            assert_eq!(found.grantable, SandboxAccess::default());
        }
    }

    #[test]
    fn what_git_needs_to_log_in_is_told_with_what_the_user_can_do() {
        let case = Case::new();
        let gh = case.home.join(".config/gh");
        fs::create_dir_all(&gh).unwrap();
        let agent = case.home.join("agent.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&agent).unwrap();
        let confinement = Confinement { hidden: vec![gh.clone()], ..Confinement::default() };
        let with_agent = Confinement { sockets: vec![agent.clone()], ..confinement.clone() };
        let explained = |confinement: &Confinement, succeeded, output: &str| {
            let ended = Ended { output, succeeded, agent: Some(agent.clone()), ..ended(confinement) };
            explain(&ended, &case.fixture.context.workspace, Some(&case.home))
        };
        let output = "fatal: could not read Username for 'https://github.com': terminal prompts disabled";
        let found = explained(&confinement, false, output);
        assert!(found.text.contains("- logins at git hosts"), "{}", found.text);
        assert_eq!(found.grantable, case.readable(&gh));
        assert_eq!(explained(&confinement, true, output), Explanation::default());
        let output =
            "git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.";
        let found = explained(&confinement, false, output);
        assert!(found.text.contains("let commands use their SSH agent"), "{}", found.text);
        assert_eq!(found.grantable.sockets, [agent.to_str().unwrap()]);
        let found = explained(&with_agent, false, output);
        assert!(found.text.contains("holds none that this host accepts"), "{}", found.text);
        assert_eq!(found.grantable, SandboxAccess::default());
        let found = explained(&confinement, false, "Host key verification failed.");
        assert!(found.text.contains("connect to this host once themselves"), "{}", found.text);
    }

    #[test]
    fn a_code_within_another_word_is_no_error() {
        let case = Case::new();
        for output in [
            "ModuleNotFoundError: No module named 'src'",
            "FileNotFoundError: [Errno 2] a.txt",
            "HostNotFoundException",
            "role .env needs FilePermission",
        ] {
            assert_eq!(case.told(output).0, "", "{output}");
        }
    }

    #[test]
    fn what_only_shows_text_may_quote_errors() {
        let case = Case::new();
        let confinement = Confinement::default();
        let output =
            "a.rs: STRIPE_API_KEY is not set\nb.rs: could not resolve host\nc.rs: connection refused";
        let told = |line: &str| {
            let ended = Ended { output, only_shows: only_shows(line), ..ended(&confinement) };
            explain(&ended, &case.fixture.context.workspace, Some(&case.home)).text
        };
        for line in
            ["grep -rn 'connection refused' src | head -20", "cat a.rs b.rs", "git log -p -3 && git diff"]
        {
            assert_eq!(told(line), "", "{line}");
        }
        for line in ["cargo test 2>&1 | tail -20", "cat a.rs && ./run"] {
            let told = told(line);
            assert!(told.contains("STRIPE_API_KEY") && told.contains("the network is off"), "{line}: {told}");
        }
    }

    #[test]
    fn without_an_error_nothing_is_told() {
        let case = Case::new();
        let refused = [case.home.join(".cargo/registry/cache/x")];
        let confinement = Confinement::default();
        let declined = SandboxAccess::default();
        let ended = Ended {
            refused: &refused,
            output: "reads .env and .aws",
            declined: &declined,
            ..ended(&confinement)
        };
        let found = explain(&ended, &case.fixture.context.workspace, Some(&case.home));
        assert_eq!(found, Explanation::default());
    }
}
