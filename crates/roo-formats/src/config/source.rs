//! Settings while a program runs: asked for when they are needed, as a file may have changed since.

use std::sync::Arc;

use super::Settings;

/// Source of the settings that count.
pub trait SettingsSource: Send + Sync {
    /// Returns the settings as they count now. May read a file, so it is not for a thread of the runtime.
    fn settings(&self) -> Arc<Settings>;
}

/// Settings that stay as they are.
impl SettingsSource for Arc<Settings> {
    fn settings(&self) -> Arc<Settings> {
        Arc::clone(self)
    }
}
