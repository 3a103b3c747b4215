//! Warnings beside the work, for people.
//!
//! With `ROO_LSP_LOG`, and in the server, these are log lines with time and target. Otherwise each is one plain
//! sentence, shown once: in the transcript of a request where one is printed, else on standard error.

use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, registry};

use super::terminal;
use crate::daemon::LogFile;
use crate::nats::LOG_DIRECTIVE;

/// The variable that asks for log lines, such as `debug` or `roo_engine=trace`.
const VARIABLE: &str = "ROO_LSP_LOG";
/// Prefix of the names of this program's crates.
const OURS: &str = "roo_";
/// The most notices that are remembered, so that none is told twice.
const MAX_NOTICES: usize = 1000;

/// Notices, and who tells them.
#[derive(Clone, Default)]
pub(super) struct Notices(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    told: HashSet<String>,
    /// Notices that wait for a transcript; none where none is printed.
    waiting: Option<Vec<String>>,
}

impl Notices {
    /// Begins to listen. `serves`: whether this is the server, whose standard error is an editor's log.
    pub(super) fn listen(serves: bool) -> Self {
        let notices = Self::default();
        if serves || std::env::var_os(VARIABLE).is_some() {
            let lines = tracing_subscriber::fmt().with_env_filter(filter("warn")).with_ansi(false);
            lines.with_writer(terminal::stderr).init();
        } else {
            registry().with(notices.clone()).init();
        }
        notices
    }

    /// Begins to listen, and writes log lines into this file; without one, to standard error.
    pub(super) fn listen_into(log: Option<LogFile>) -> Self {
        let Some(log) = log else { return Self::listen(true) };
        let lines = tracing_subscriber::fmt().with_env_filter(filter("warn,roo_lsp=info")).with_ansi(false);
        lines.with_writer(Mutex::new(log)).init();
        Self::default()
    }

    /// From now on a transcript shows them, by [`Self::take`].
    pub(super) fn begin_transcript(&self) {
        self.lock().waiting.get_or_insert_default();
    }

    /// Takes the notices for the transcript.
    pub(super) fn take(&self) -> Vec<String> {
        self.lock().waiting.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The transcript is over.
    pub(super) fn end_transcript(&self) {
        let rest = self.lock().waiting.take();
        rest.into_iter().flatten().for_each(|notice| print(&notice));
    }

    fn tell(&self, notice: String) {
        let mut inner = self.lock();
        if inner.told.len() >= MAX_NOTICES || !inner.told.insert(notice.clone()) {
            return;
        }
        match &mut inner.waiting {
            Some(waiting) => waiting.push(notice),
            None => print(&notice),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes log lines: what the variable says, or else from this level on.
fn filter(level: &str) -> EnvFilter {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new(level));
    // What they tell below that are messages of servers, which may hold secrets.
    let directives = ["rmcp=warn", LOG_DIRECTIVE].into_iter().filter_map(|directive| directive.parse().ok());
    directives.fold(filter, EnvFilter::add_directive)
}

fn print(notice: &str) {
    // A note that can't be written changes nothing.
    let _ = writeln!(terminal::stderr(), "roo-lsp: {notice}");
}

impl<S: Subscriber> Layer<S> for Notices {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN || !metadata.target().starts_with(OURS) {
            return;
        }
        let mut sentence = Sentence::default();
        event.record(&mut sentence);
        self.tell(sentence.text());
    }
}

/// An event in words: what happened, to what, and why.
#[derive(Default)]
struct Sentence {
    message: String,
    details: Vec<String>,
    reason: Option<String>,
}

impl Sentence {
    fn text(self) -> String {
        let mut text = self.message;
        if !self.details.is_empty() {
            // Writing to a string can't fail.
            let _ = write!(text, " ({})", self.details.join(", "));
        }
        match self.reason {
            Some(reason) => format!("{text}: {reason}"),
            None => text,
        }
    }
}

impl Visit for Sentence {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        match field.name() {
            "message" => self.message = value,
            "error" | "problem" | "damage" => self.reason = Some(value),
            _ => self.details.push(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(log: impl FnOnce()) -> Vec<String> {
        let notices = Notices::default();
        notices.begin_transcript();
        tracing::subscriber::with_default(registry().with(notices.clone()), log);
        notices.take()
    }

    #[test]
    fn a_warning_is_one_plain_sentence_and_told_once() {
        let found = told(|| {
            for _ in 0..2 {
                tracing::warn!(problem = %"it is a link", "the workspace has no copy of the trace");
                tracing::error!(path = %"/w/a", error = %"no room", "a file can't be kept");
            }
            tracing::info!("nobody asked");
            tracing::warn!(target: "hyper", "not ours");
        });
        assert_eq!(
            found,
            ["the workspace has no copy of the trace: it is a link", "a file can't be kept (/w/a): no room",]
        );
    }
}
