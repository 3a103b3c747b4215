//! The one browser that a task may have, and its network.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use roo_browser::Browser;
use roo_sandbox::egress::HostRules;

/// Network of a browser, which policy makes.
pub trait BrowserNetwork: Send + Sync {
    /// Has the browser reach what these rules allow, its user's hosts as far as they let it, and nothing else.
    fn renew(&self, rules: &HostRules);
}

/// The browser of a task, from one launch to the next. Dropping it ends the browser.
#[derive(Default)]
pub struct TaskBrowser(Mutex<Option<Launched>>);

struct Launched {
    browser: Arc<Browser>,
    network: Arc<dyn BrowserNetwork>,
}

impl std::fmt::Debug for TaskBrowser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TaskBrowser").field(&self.current()).finish()
    }
}

impl TaskBrowser {
    fn slot(&self) -> MutexGuard<'_, Option<Launched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the browser that was launched last, which may have ended; none after it was closed.
    pub fn current(&self) -> Option<Arc<Browser>> {
        self.slot().as_ref().map(|launched| Arc::clone(&launched.browser))
    }

    /// Puts a browser in the place of the last, which the caller has closed.
    pub fn put(&self, browser: Arc<Browser>, network: Arc<dyn BrowserNetwork>) {
        *self.slot() = Some(Launched { browser, network });
    }

    /// Has the browser reach what these rules allow, if there is one: see [`BrowserNetwork::renew`].
    pub fn renew(&self, rules: &HostRules) {
        let network = self.slot().as_ref().map(|launched| Arc::clone(&launched.network));
        if let Some(network) = network {
            network.renew(rules);
        }
    }

    /// Ends the browser, if there is one. Reports whether there was. Nothing of it is left when this returns.
    pub async fn close(&self) -> bool {
        let launched = self.slot().take();
        match launched {
            Some(launched) => {
                launched.browser.close().await;
                true
            }
            None => false,
        }
    }
}
