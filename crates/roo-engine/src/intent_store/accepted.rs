//! The versions of intents that the user has accepted, kept outside of the workspace: a change that
//! allows more is measured against them, whoever made it.

use std::collections::BTreeMap;
use std::io;

use serde_json::Value;

use roo_durable::PrivateFile;
use roo_formats::intents::Intent;

/// The largest file that is read, in bytes.
const LIMIT: u64 = 4 << 20;

pub(super) struct Accepted {
    file: PrivateFile,
}

impl Accepted {
    pub(super) fn new(file: PrivateFile) -> Self {
        Self { file }
    }

    /// The version that was accepted last; none when there is none.
    ///
    /// # Errors
    /// One that can't be read: nobody knows then what the user has accepted.
    pub(super) fn get(&self, id: &str) -> io::Result<Option<Intent>> {
        let Some(entry) = self.read()?.remove(id) else { return Ok(None) };
        let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "it is no accepted intent");
        Intent::from_governing(entry).filter(|intent| intent.id == id).map(Some).ok_or_else(unreadable)
    }

    pub(super) fn put(&self, intent: &Intent) -> io::Result<()> {
        let _lock = self.file.lock()?;
        let mut all = self.read()?;
        let governing = intent.governing();
        if all.get(&intent.id) == Some(&governing) {
            return Ok(());
        }
        all.insert(intent.id.clone(), governing);
        self.file.replace(&serde_json::to_vec_pretty(&all)?)
    }

    fn read(&self) -> io::Result<BTreeMap<String, Value>> {
        match self.file.read(LIMIT)? {
            Some(bytes) => Ok(serde_json::from_slice(&bytes)?),
            None => Ok(BTreeMap::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use roo_durable::simulated_disk::{SimulatedDisk, assert_old_or_new};
    use roo_formats::intents::IntentFile;

    #[test]
    fn a_loss_of_power_or_a_full_disk_leaves_what_was_accepted_before_or_after() {
        let accepted_on = |disk: &SimulatedDisk| {
            Accepted::new(PrivateFile::on(Arc::new(disk.clone()), "/state/intents.json"))
        };
        let text = "active_intents:\n  - {id: A, name: a, status: TODO, owned_scope: [a]}\n  - {id: B, name: b, status: TODO, owned_scope: [b]}\n";
        let intents = IntentFile::parse(text).unwrap().intents;
        assert_old_or_new(
            |disk| accepted_on(disk).put(&intents[0]).unwrap(),
            |disk| accepted_on(disk).put(&intents[1]),
            |disk| ["A", "B"].map(|id| accepted_on(disk).get(id).unwrap().is_some()),
        );
    }

    #[test]
    fn what_several_accept_at_once_is_all_kept() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("accepted.json");
        let entries: String =
            (0..24).map(|n| format!("  - {{id: I{n}, name: n, status: TODO, owned_scope: [a]}}\n")).collect();
        let intents = IntentFile::parse(&format!("active_intents:\n{entries}")).unwrap().intents;
        let start = std::sync::Barrier::new(intents.len());
        std::thread::scope(|threads| {
            for intent in &intents {
                threads.spawn(|| {
                    let accepted = Accepted::new(PrivateFile::new(file.clone()));
                    start.wait();
                    accepted.put(intent).unwrap();
                });
            }
        });
        let accepted = Accepted::new(PrivateFile::new(file));
        let lost: Vec<&str> = intents
            .iter()
            .map(|it| it.id.as_str())
            .filter(|id| accepted.get(id).unwrap().is_none())
            .collect();
        assert_eq!(lost, Vec::<&str>::new());
    }
}
