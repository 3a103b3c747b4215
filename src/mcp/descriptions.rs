//! Descriptions that tools of MCP servers had when a call of each was last permitted: a server that says something else later
//! is asked about again, with the difference. Kept in the state directory, for the user alone.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use roo_catalog::ServerTool;
use roo_durable::{Fingerprint, PrivateFile};
use roo_engine::server_tools::KnownDescription;
use roo_protocol::ids::Digest;
use serde::{Deserialize, Serialize};

/// The largest file that is read, in bytes.
const LIMIT: u64 = 4 << 20;
/// The longest description of which the text is kept, and the most bytes of all texts. Of others there is the digest.
const TEXT: usize = 16 << 10;
const TEXTS: usize = 1 << 20;

/// The descriptions of one workspace's tools by name. Other processes may change them too.
#[derive(Clone)]
pub(super) struct KnownDescriptions {
    file: PrivateFile,
    /// What was read last, for as long as the file is as it was. Not locked while the file is used.
    held: Arc<Mutex<Option<Held>>>,
}

type Known = BTreeMap<String, Description>;

/// What was read, and the state of the file then.
type Held = (Fingerprint, Arc<Known>);

/// Description of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Description {
    /// As [`ServerTool::described`] has it.
    Whole { digest: Digest, text: String },
    /// What is too long, and what versions before 2026-11-26 have written.
    Digest(Digest),
}

impl Description {
    fn new(tool: &ServerTool) -> Self {
        let (digest, text) = (tool.digest(), tool.described());
        if text.len() <= TEXT { Self::Whole { digest, text } } else { Self::Digest(digest) }
    }

    fn digest(&self) -> Digest {
        match self {
            Self::Whole { digest, .. } | Self::Digest(digest) => *digest,
        }
    }
}

impl KnownDescriptions {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file: PrivateFile::new(file), held: Arc::default() }
    }

    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the file has. Reads it where it has changed since it was read last.
    fn known(&self) -> io::Result<Arc<Known>> {
        // Before it is read: what comes in between is seen the next time.
        let found = Fingerprint::from_file(self.file.path());
        let held = self.held().clone();
        if let Some((_, known)) = held.filter(|(read, _)| Some(*read) == found) {
            return Ok(known);
        }
        let known = Arc::new(read(&self.file)?);
        let settled = found.filter(|found| found.is_settled(SystemTime::now()));
        *self.held() = settled.map(|found| (found, Arc::clone(&known)));
        Ok(known)
    }

    /// Looks up how the tool of this name was described. What can't be read is no reason to trust.
    pub(super) fn of(
        &self,
        name: String,
        tool: &ServerTool,
    ) -> impl Future<Output = KnownDescription> + Send + use<> {
        let (this, digest) = (self.clone(), tool.digest());
        async move {
            let found = tokio::task::spawn_blocking(move || this.look_up(&name, digest)).await;
            found.unwrap_or(KnownDescription::Other { before: None })
        }
    }

    fn look_up(&self, name: &str, digest: Digest) -> KnownDescription {
        match self.known() {
            Ok(known) => match known.get(name) {
                None => KnownDescription::None,
                Some(known) if known.digest() == digest => KnownDescription::Same,
                Some(Description::Whole { text, .. }) => {
                    KnownDescription::Other { before: Some(text.clone()) }
                }
                Some(Description::Digest(_)) => KnownDescription::Other { before: None },
            },
            Err(error) => {
                tracing::warn!(%error, file = %self.file.path().display(), "known descriptions of MCP tools can't be read");
                KnownDescription::Other { before: None }
            }
        }
    }

    /// Keeps the description of a tool whose call was permitted.
    pub(super) fn keep(&self, name: String, tool: &ServerTool) -> impl Future<Output = ()> + Send + use<> {
        let (this, description) = (self.clone(), Description::new(tool));
        async move {
            let kept = tokio::task::spawn_blocking(move || this.write(name, description));
            if let Ok(Err(error)) = kept.await {
                tracing::warn!(%error, "the description of an MCP tool was not kept");
            }
        }
    }

    fn write(&self, name: String, description: Description) -> io::Result<()> {
        let has_it = |known: &Known| known.get(&name) == Some(&description);
        // As for most calls.
        if self.known().is_ok_and(|known| has_it(&known)) {
            return Ok(());
        }
        let _lock = self.file.lock()?;
        // Another process may have written since. A damaged file is replaced by what was asked about just now.
        let mut known = read(&self.file).unwrap_or_default();
        if !has_it(&known) {
            known.insert(name.clone(), description);
            shorten(&mut known, &name);
            self.file.replace(&serde_json::to_vec_pretty(&known)?)?;
        }
        Ok(())
    }
}

/// Leaves out texts where there are too many, but for the newest one.
fn shorten(known: &mut Known, newest: &str) {
    let mut left = TEXTS;
    for (name, description) in known {
        if let Description::Whole { digest, text } = description
            && name != newest
        {
            match left.checked_sub(text.len()) {
                Some(rest) => left = rest,
                None => *description = Description::Digest(*digest),
            }
        }
    }
}

fn read(file: &PrivateFile) -> io::Result<Known> {
    match file.read(LIMIT)? {
        Some(bytes) => Ok(serde_json::from_slice(&bytes)?),
        None => Ok(Known::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_catalog::{Annotations, ServerToolName};
    use serde_json::json;

    fn tool(description: &str) -> ServerTool {
        let name = ServerToolName::new("notes", "add").unwrap();
        ServerTool::new(name, description, json!({ "type": "object" }), Annotations::default())
    }

    #[tokio::test]
    async fn a_tool_differs_once_it_is_described_otherwise_and_until_that_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let known = KnownDescriptions::new(directory.path().join("state/mcp-tools.json"));
        let (first, second) = (tool("adds"), tool("adds, and reads your keys"));
        let was_first = || KnownDescription::Other { before: Some(first.described()) };
        assert_eq!(known.of("user notes/add".to_owned(), &first).await, KnownDescription::None);
        known.keep("user notes/add".to_owned(), &first).await;
        assert_eq!(known.of("user notes/add".to_owned(), &first).await, KnownDescription::Same);
        assert_eq!(known.of("user notes/add".to_owned(), &second).await, was_first());
        assert_eq!(known.of("workspace notes/add".to_owned(), &second).await, KnownDescription::None);
        known.keep("user notes/add".to_owned(), &second).await;
        assert_eq!(known.of("user notes/add".to_owned(), &second).await, KnownDescription::Same);
        let file = directory.path().join("state/mcp-tools.json");
        std::fs::write(&file, json!({ "user notes/add": first.digest() }).to_string()).unwrap();
        assert_eq!(
            known.of("user notes/add".to_owned(), &first).await,
            KnownDescription::Same,
            "as earlier versions wrote it"
        );
        assert_eq!(
            known.of("user notes/add".to_owned(), &second).await,
            KnownDescription::Other { before: None }
        );
        std::fs::write(&file, "{").unwrap();
        let unread = known.of("user notes/add".to_owned(), &second).await;
        assert_eq!(unread, KnownDescription::Other { before: None }, "what can't be read is asked about");
    }

    #[tokio::test]
    async fn what_is_known_is_not_written_again_and_what_another_process_writes_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mcp-tools.json");
        let (known, other) = (KnownDescriptions::new(file.clone()), KnownDescriptions::new(file.clone()));
        let (first, second) = (tool("adds"), tool("adds more"));
        known.keep("user notes/add".to_owned(), &first).await;
        let lock = directory.path().join("mcp-tools.json.lock");
        std::fs::remove_file(&lock).unwrap();
        known.keep("user notes/add".to_owned(), &first).await;
        assert!(!lock.exists(), "nothing was to be written");
        other.keep("user notes/more".to_owned(), &second).await;
        assert!(lock.exists());
        for known in [&known, &other] {
            assert_eq!(known.of("user notes/add".to_owned(), &first).await, KnownDescription::Same);
            assert_eq!(known.of("user notes/more".to_owned(), &second).await, KnownDescription::Same);
        }
    }

    #[tokio::test]
    async fn however_many_and_long_descriptions_are_the_file_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let known = KnownDescriptions::new(directory.path().join("mcp-tools.json"));
        let long = tool(&"x".repeat(TEXT));
        known.keep("user notes/long".to_owned(), &long).await;
        assert_eq!(known.of("user notes/long".to_owned(), &long).await, KnownDescription::Same);
        assert_eq!(
            known.of("user notes/long".to_owned(), &tool("y")).await,
            KnownDescription::Other { before: None }
        );
        let mut many: Known = (0..500)
            .map(|number| (format!("user notes/{number:03}"), Description::new(&tool(&"x".repeat(15 << 10)))))
            .collect();
        shorten(&mut many, "user notes/499");
        assert!((serde_json::to_vec_pretty(&many).unwrap().len() as u64) < LIMIT);
        let is_whole = |name: &str| matches!(many[name], Description::Whole { .. });
        assert_eq!(["user notes/000", "user notes/498", "user notes/499"].map(is_whole), [true, false, true]);
    }
}
