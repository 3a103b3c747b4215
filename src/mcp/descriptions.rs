//! Descriptions that tools of MCP servers had when a call of each was last permitted: a server that says something else later
//! is asked about again. Kept in the state directory, for the user alone.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use roo_durable::PrivateFile;
use roo_protocol::ids::Digest;

/// The largest file that is read, in bytes.
const LIMIT: u64 = 4 << 20;

/// The descriptions of one workspace's tools, as digests by name.
pub(super) struct KnownDescriptions {
    file: PrivateFile,
}

type Known = BTreeMap<String, Digest>;

impl KnownDescriptions {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file: PrivateFile::new(file) }
    }

    /// Reports whether a tool is known by another description. What can't be read is no reason to trust.
    pub(super) fn differs(&self, tool: &str, digest: Digest) -> bool {
        match read(&self.file) {
            Ok(known) => known.get(tool).is_some_and(|known| *known != digest),
            Err(error) => {
                tracing::warn!(%error, file = %self.file.path().display(), "known descriptions of MCP tools can't be read");
                true
            }
        }
    }

    /// Keeps the description of a tool whose call was permitted.
    pub(super) fn keep(&self, tool: String, digest: Digest) -> impl Future<Output = ()> + Send + use<> {
        let file = self.file.clone();
        async move {
            let kept = tokio::task::spawn_blocking(move || {
                let lock = file.lock()?;
                // A damaged file begins anew with what was asked about just now.
                let mut known = read(&file).unwrap_or_default();
                if known.get(&tool) != Some(&digest) {
                    known.insert(tool, digest);
                    file.replace(&serde_json::to_vec_pretty(&known)?)?;
                }
                drop(lock);
                io::Result::Ok(())
            });
            if let Ok(Err(error)) = kept.await {
                tracing::warn!(%error, "the description of an MCP tool was not kept");
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

    #[tokio::test]
    async fn a_tool_differs_once_it_is_described_otherwise_and_until_that_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let known = KnownDescriptions::new(directory.path().join("state/mcp-tools.json"));
        let (first, second) = (Digest::of("adds"), Digest::of("adds, and reads your keys"));
        assert!(!known.differs("user notes/add", first));
        known.keep("user notes/add".to_owned(), first).await;
        assert!(!known.differs("user notes/add", first));
        assert!(known.differs("user notes/add", second));
        assert!(!known.differs("workspace notes/add", second));
        known.keep("user notes/add".to_owned(), second).await;
        assert!(!known.differs("user notes/add", second));
        std::fs::write(directory.path().join("state/mcp-tools.json"), "{").unwrap();
        assert!(known.differs("user notes/add", second), "what can't be read is asked about");
    }
}
