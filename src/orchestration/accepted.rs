//! The versions of intents that the user has accepted, kept outside of the workspace: a change that
//! allows more is measured against them, whoever made it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::intents::{Intent, IntentFile};
use crate::store::private_file;

/// The largest file that is read, in bytes.
const LIMIT: u64 = 4 << 20;

pub(super) struct Accepted {
    file: PathBuf,
    /// One change at a time.
    changing: Mutex<()>,
}

impl Accepted {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, changing: Mutex::default() }
    }

    /// The version that was accepted last; none when there is none, or none that can be read: then the
    /// user is not asked about a change but no more is granted than the file says.
    pub(super) fn get(&self, id: &str) -> Option<Intent> {
        let mut entry = self.read().ok()?.remove(id)?;
        entry["status"] = "PENDING".into();
        let text = json!({ "active_intents": [entry] }).to_string();
        IntentFile::parse(&text).ok()?.intents.pop()
    }

    pub(super) fn put(&self, intent: &Intent) -> io::Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.read()?;
        let governing = intent.governing();
        if all.get(&intent.id) == Some(&governing) {
            return Ok(());
        }
        all.insert(intent.id.clone(), governing);
        private_file::replace(&self.file, &serde_json::to_vec_pretty(&all)?)
    }

    fn read(&self) -> io::Result<BTreeMap<String, Value>> {
        match private_file::read(&self.file, LIMIT)? {
            Some(bytes) => Ok(serde_json::from_slice(&bytes)?),
            None => Ok(BTreeMap::new()),
        }
    }
}
