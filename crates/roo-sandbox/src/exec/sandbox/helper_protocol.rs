//! Messages between the server and its helper, over one socket that is the helper's standard input: an [`Order`] there,
//! [`Message`]s back, and the end of what comes from the server when what is left is to end.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::confinement::{Access, Capture, Limits, Network, Substitute};

/// The longest order, in bytes.
const MAX_ORDER_BYTES: u32 = 64 << 20;

/// Mechanism that bounds a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mechanism {
    /// User, mount, process and network namespaces, and whatever else works on top.
    Namespaces,
    /// Landlock and a seccomp filter.
    Landlock,
}

/// Restrictions actually in force for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Active {
    /// The main one.
    pub mechanism: Mechanism,
    /// The version of Landlock in force; 0 when there is none.
    pub landlock: u8,
    /// True if system calls are filtered.
    pub seccomp: bool,
    /// True if `/proc` shows the command's own processes alone.
    pub own_proc: bool,
    /// True if processes are counted, whoever the user is.
    pub process_limit: bool,
    /// True if files are kept before a command changes them.
    #[serde(default)]
    pub supervised: bool,
}

impl Active {
    /// Returns the first restriction promised here and missing there, in words.
    pub(super) fn lacks(&self, other: &Self) -> Option<&'static str> {
        [
            (self.mechanism != other.mechanism, "its namespaces"),
            (self.landlock > other.landlock, "Landlock"),
            (self.seccomp && !other.seccomp, "the filter of system calls"),
            (self.own_proc && !other.own_proc, "a /proc of its own"),
            (self.process_limit && !other.process_limit, "the limit of processes"),
            (self.supervised && !other.supervised, "the supervisor"),
        ]
        .into_iter()
        .find_map(|(lacks, what)| lacks.then_some(what))
    }
}

impl fmt::Display for Active {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.mechanism == Mechanism::Namespaces {
            parts.push("namespaces".to_owned());
        }
        if self.landlock > 0 {
            parts.push(format!("Landlock {}", self.landlock));
        }
        if self.seccomp {
            parts.push("seccomp".to_owned());
        }
        if self.process_limit {
            parts.push("a limit of processes".to_owned());
        }
        if self.supervised {
            parts.push("a supervisor".to_owned());
        }
        f.write_str(&parts.join(", "))
    }
}

/// A path in JSON: text, or bytes where it is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonPath(pub PathBuf);

impl Serialize for JsonPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => self.0.as_os_str().as_bytes().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for JsonPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum JsonPathForm {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(Self(match JsonPathForm::deserialize(deserializer)? {
            JsonPathForm::Text(text) => text.into(),
            JsonPathForm::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }))
    }
}

/// A path as a [`JsonPath`] has it, for serde.
pub(super) mod path_bytes {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::JsonPath;

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        JsonPath(path.to_owned()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(JsonPath::deserialize(deserializer)?.0)
    }
}

/// An overlay over a folder: what is written goes to `upper`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Overlay {
    pub root: JsonPath,
    pub upper: JsonPath,
    pub work: JsonPath,
}

/// Names and values of a command's environment, which may hold secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Variables(Vec<(JsonPath, JsonPath)>);

impl Variables {
    pub(super) fn new<'a>(variables: impl Iterator<Item = (&'a OsStr, &'a OsStr)>) -> Self {
        Self(variables.map(|(name, value)| (JsonPath(name.into()), JsonPath(value.into()))).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.0.as_os_str(), value.0.as_os_str()))
    }
}

/// Names only.
impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// Command to run and its bounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub mechanism: Mechanism,
    /// Outer places first.
    pub places: Vec<(JsonPath, Access)>,
    /// Outer ones first.
    pub overlays: Vec<Overlay>,
    pub temp: Option<JsonPath>,
    pub substitutes: Vec<Substitute<JsonPath>>,
    pub capture: Option<Capture<JsonPath>>,
    /// Directories of sockets through which the server serves the command.
    pub services: Vec<JsonPath>,
    /// Sockets of other programs that the user lets the command connect to.
    pub sockets: Vec<JsonPath>,
    pub git_history: Vec<JsonPath>,
    /// Paths that only git itself writes.
    pub for_git: Vec<JsonPath>,
    /// Paths that are neither made nor removed nor replaced.
    pub fixed: Vec<JsonPath>,
    /// Paths that keep their place.
    pub in_place: Vec<JsonPath>,
    /// Paths that are visible below directories that are private or empty.
    pub visible: Vec<JsonPath>,
    pub network: Network,
    pub limits: Limits,
    /// User and group of the server, as which the command runs.
    pub user: u32,
    pub group: u32,
    /// Minimum restrictions.
    pub promised: Option<Active>,
    pub program: JsonPath,
    pub arguments: Vec<String>,
    pub environment: Variables,
    pub directory: JsonPath,
}

impl Order {
    /// As it is sent: length and JSON.
    pub(crate) fn frame(&self) -> io::Result<Vec<u8>> {
        let json = serde_json::to_vec(self)?;
        let length = u32::try_from(json.len()).ok().filter(|length| *length <= MAX_ORDER_BYTES);
        let length = length.ok_or_else(|| io::Error::other("it contains too many paths"))?;
        let mut frame = length.to_le_bytes().to_vec();
        frame.extend(json);
        Ok(frame)
    }

    /// Returns the directories that receive the command's writes.
    pub(crate) fn writable(&self) -> impl Iterator<Item = &Path> {
        let places = self.places.iter().filter(|(_, access)| *access == Access::Write);
        let staged = self.overlays.iter().map(|overlay| &overlay.upper);
        places.map(|(place, _)| place).chain(&self.temp).chain(staged).map(|place| place.0.as_path())
    }

    /// Returns the restrictions in force before any is applied.
    pub(crate) fn nothing(&self) -> Active {
        Active {
            mechanism: self.mechanism,
            landlock: 0,
            seccomp: false,
            own_proc: false,
            process_limit: false,
            supervised: false,
        }
    }

    pub(super) fn read(mut from: impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length).min(MAX_ORDER_BYTES);
        let mut json = vec![0; usize::try_from(length).unwrap_or_default()];
        from.read_exact(&mut json)?;
        Ok(serde_json::from_slice(&json)?)
    }
}

/// Message of the helper, one a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Message {
    /// The bounds are in force and the shell runs.
    Started(Active),
    /// It does not run.
    Failed(Stage, String),
    /// The shell ended.
    Ended(End),
    /// Processes that the shell left running are ended now.
    Left(LeftRunning),
}

/// The processes that a shell left running at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftRunning {
    /// Number of processes.
    pub count: usize,
    /// Programs with their first argument, of some of them.
    pub names: Vec<String>,
}

/// Stage at which a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Stage {
    Sandbox,
    Shell,
}

/// End of a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum End {
    Code(i32),
    Signal(i32),
}

impl Message {
    pub(super) fn send(&self, mut to: impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        to.write_all(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_what_was_promised_is_told() {
        let full = Active {
            mechanism: Mechanism::Namespaces,
            landlock: 7,
            seccomp: true,
            own_proc: true,
            process_limit: true,
            supervised: true,
        };
        assert_eq!(full.lacks(&full), None);
        assert_eq!(full.lacks(&Active { mechanism: Mechanism::Landlock, ..full }), Some("its namespaces"));
        assert_eq!(full.lacks(&Active { landlock: 6, ..full }), Some("Landlock"));
        assert_eq!(full.lacks(&Active { seccomp: false, ..full }), Some("the filter of system calls"));
        assert_eq!(full.lacks(&Active { process_limit: false, ..full }), Some("the limit of processes"));
        assert_eq!(Active { landlock: 0, own_proc: false, ..full }.lacks(&full), None);
    }

    #[test]
    fn an_order_arrives_as_it_was_sent_whatever_its_paths() {
        let odd = OsString::from_vec(b"/w/\xff\n".to_vec());
        let order = Order {
            mechanism: Mechanism::Namespaces,
            places: vec![(JsonPath("/w".into()), Access::Write), (JsonPath(odd.into()), Access::None)],
            overlays: vec![Overlay {
                root: JsonPath("/w".into()),
                upper: JsonPath("/s/u".into()),
                work: JsonPath("/s/w".into()),
            }],
            temp: None,
            substitutes: vec![Substitute {
                place: JsonPath("/w/.git/config".into()),
                source: JsonPath("/s/config".into()),
                is_writable: true,
            }],
            capture: Some(Capture {
                directory: JsonPath("/s/c".into()),
                roots: vec![],
                except: vec![],
                repositories: vec![],
            }),
            services: vec![JsonPath("/s/signing".into())],
            sockets: vec![JsonPath("/run/db.sock".into())],
            git_history: vec![JsonPath("/w/.git/objects".into())],
            for_git: vec![JsonPath("/w/CLAUDE.md".into())],
            fixed: vec![JsonPath("/w/config.yaml".into())],
            in_place: vec![JsonPath("/w/a/AGENTS.md".into())],
            visible: vec![JsonPath("/tmp/second".into())],
            network: Network::Off,
            limits: Limits::default(),
            user: 1000,
            group: 100,
            promised: None,
            program: JsonPath("/bin/sh".into()),
            arguments: vec!["-c".into(), "echo €".into()],
            environment: Variables::new([(OsStr::new("HOME"), OsStr::from_bytes(b"/home/\xff"))].into_iter()),
            directory: JsonPath("/w".into()),
        };
        assert_eq!(Order::read(&*order.frame().unwrap()).unwrap(), order);
        let frame = order.frame().unwrap();
        assert!(Order::read(&frame[..frame.len() - 1]).is_err());
    }
}
