//! Progress notifications to a caller that waits.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};

/// Whom to tell of the progress of a call.
pub(super) struct ProgressReport {
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

impl ProgressReport {
    /// None for a caller that doesn't want to be told.
    pub(super) fn wanted(context: &RequestContext<RoleServer>) -> Option<Self> {
        Some(Self { token: context.meta.get_progress_token()?, peer: context.peer.clone() })
    }

    /// Tells a line. `step` grows with each.
    pub(super) async fn send(&self, step: u64, line: String) {
        // Far below what a double can't count.
        #[expect(clippy::cast_precision_loss)]
        let told = ProgressNotificationParam::new(self.token.clone(), step as f64).with_message(line);
        if let Err(error) = self.peer.notify_progress(told).await {
            tracing::debug!(%error, "a caller was not told of progress");
        }
    }
}
