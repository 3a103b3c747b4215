//! The one browser that a task may have.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::browser::Browser;

/// The browser of a task, from one launch to the next. Dropping it ends the browser.
#[derive(Debug, Default)]
pub struct TaskBrowser(Mutex<Option<Arc<Browser>>>);

impl TaskBrowser {
    fn slot(&self) -> MutexGuard<'_, Option<Arc<Browser>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the browser that was launched last, which may have ended; none after it was closed.
    pub fn current(&self) -> Option<Arc<Browser>> {
        self.slot().clone()
    }

    /// Puts a browser in the place of the last, which the caller has closed.
    pub fn put(&self, browser: Arc<Browser>) {
        *self.slot() = Some(browser);
    }

    /// Ends the browser, if there is one. Reports whether there was. Nothing of it is left when this returns.
    pub async fn close(&self) -> bool {
        let browser = self.slot().take();
        match browser {
            Some(browser) => {
                browser.close().await;
                true
            }
            None => false,
        }
    }
}
