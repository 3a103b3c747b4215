//! Settings while a program runs: asked for when they are needed, as a file may have changed since.

use std::sync::Arc;

use super::Settings;

/// Source of the settings that count.
pub trait SettingsSource: Send + Sync {
    /// Returns the settings as they count now. May read a file, so it is not for a thread of the runtime.
    fn settings(&self) -> Arc<Settings>;

    /// Returns the reason why no agent may work by the settings that were read last: a layer of them is not in force, which may
    /// be there to refuse something.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// Settings that stay as they are.
impl SettingsSource for Arc<Settings> {
    fn settings(&self) -> Arc<Settings> {
        Arc::clone(self)
    }
}
