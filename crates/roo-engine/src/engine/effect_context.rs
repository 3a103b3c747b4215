//! What an effect works with.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::journal::Journal;
use super::services::EngineServices;
use crate::tool_run::{BackgroundCommands, ForegroundControl, TaskBrowser};

pub(super) struct EffectContext {
    pub(super) services: Arc<EngineServices>,
    pub(super) journal: Arc<Journal>,
    pub(super) cancel: CancellationToken,
    /// The commands of the request that run in the background.
    pub(super) background: Arc<BackgroundCommands>,
    /// The task's browser.
    pub(super) browser: Arc<TaskBrowser>,
    /// Steers the command that the effect runs.
    pub(super) foreground: ForegroundControl,
}
