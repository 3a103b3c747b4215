//! The browser of a task: a Chromium that is started by the caller and steered by the Chrome DevTools Protocol (CDP).
//!
//! The protocol goes over a pipe (`--remote-debugging-pipe`), so no port is opened that others could connect to.
//! [`Browser::perform`] does a step and returns an [`Observation`]: a picture, the elements of the page with refs that
//! stay the same, and what was logged.
//!
//! What is not here: how the program is started and what it may reach ([`LaunchedBrowser`], which the caller brings),
//! which hosts its user allows ([`Destinations`]), what is a secret ([`SecretMask`]), and what a model gets to see. What
//! comes from a page is untrusted:
//! every message, log and snapshot is bounded, every call has a time limit, and whatever a page opens by itself (dialogs,
//! downloads, file choosers, other hosts) is refused.

#![warn(unreachable_pub)]

mod browser;
mod connection;
mod destinations;
mod key;
mod launch;
mod marks;
mod observation;
mod page_log;
mod protocol;
mod secret_mask;
mod snapshot;
mod state;

pub use browser::{Browser, BrowserError};
pub use destinations::{Destinations, HostAccess, WebHost};
pub use key::{InvalidKey, KeyPress};
pub use launch::{BrowserProcess, LaunchOptions, LaunchedBrowser, find_program};
pub use observation::{LogEntry, LogKind, Observation};
pub use secret_mask::SecretMask;
