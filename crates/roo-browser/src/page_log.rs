//! What a page logged since somebody looked: its console, its errors, its requests. Bounded, however much a page writes.

use std::collections::{HashMap, VecDeque};

use roo_text::render::cut;

use crate::observation::{LogEntry, LogKind};

/// The most entries that are kept until somebody looks; the newest ones.
const ENTRIES: usize = 100;
/// The longest entry, in characters.
const ENTRY: usize = 1000;
/// The most requests that are followed at a time; the newest ones.
const REQUESTS: usize = 1000;
/// The longest address that is shown, in characters.
const ADDRESS: usize = 200;

/// Kinds of requests that are listed even where they succeed: the others are files of the page.
const LISTED: &[&str] = &["Document", "XHR", "Fetch"];

/// A request that has no response yet.
#[derive(Debug)]
struct OpenRequest {
    shown: String,
    is_listed: bool,
}

/// The log.
#[derive(Debug, Default)]
pub(crate) struct PageLog {
    entries: VecDeque<LogEntry>,
    left_out: u64,
    requests: HashMap<String, OpenRequest>,
    /// Their ids, the oldest first, and some of requests that are over.
    order: VecDeque<String>,
}

impl PageLog {
    /// Adds an entry. One that repeats the last is counted there.
    pub(crate) fn add(&mut self, kind: LogKind, text: &str) {
        let text = cut(text.trim_end(), ENTRY).into_owned();
        if let Some(last) = self.entries.back_mut()
            && last.kind == kind
            && last.text == text
        {
            last.times += 1;
            return;
        }
        if self.entries.len() == ENTRIES {
            self.entries.pop_front();
            self.left_out += 1;
        }
        self.entries.push_back(LogEntry { kind, text, times: 1 });
    }

    /// A request was sent.
    pub(crate) fn sent(&mut self, id: &str, method: &str, url: &str, kind: &str) {
        let shown = format!("{method} {}", cut(url, ADDRESS));
        let is_listed = LISTED.contains(&kind);
        // A redirect has the id of the request before.
        if self.requests.insert(id.to_owned(), OpenRequest { shown, is_listed }).is_none() {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > REQUESTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.requests.remove(&oldest);
        }
    }

    /// It was answered.
    pub(crate) fn answered(&mut self, id: &str, status: u16) {
        if let Some(request) = self.requests.remove(id)
            && (request.is_listed || status >= 400)
        {
            self.add(LogKind::Network, &format!("{} → {status}", request.shown));
        }
    }

    /// It was not answered.
    pub(crate) fn failed(&mut self, id: &str, error: &str) {
        if let Some(request) = self.requests.remove(id) {
            self.add(LogKind::Network, &format!("{} failed: {error}", request.shown));
        }
    }

    /// Forgets a request.
    pub(crate) fn forget(&mut self, id: &str) {
        self.requests.remove(id);
    }

    /// Takes the entries since the last time, and how many older ones were left out.
    pub(crate) fn take(&mut self) -> (Vec<LogEntry>, u64) {
        (self.entries.drain(..).collect(), std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_its_newest_entries_and_counts_the_rest() {
        let mut log = PageLog::default();
        for number in 0..10_000 {
            log.add(LogKind::Log, &format!("line {number}"));
        }
        let (entries, left_out) = log.take();
        assert_eq!((entries.len(), left_out), (ENTRIES, 9_900));
        assert_eq!(entries.last().unwrap().text, "line 9999");
        assert_eq!(log.take(), (vec![], 0));
    }

    #[test]
    fn requests_that_never_end_hide_no_later_one() {
        let mut log = PageLog::default();
        for number in 0..=REQUESTS {
            log.sent(&number.to_string(), "GET", "/stream", "Fetch");
        }
        log.sent("new", "GET", "/new", "Fetch");
        log.answered("new", 200);
        log.answered("0", 200);
        let (entries, _) = log.take();
        let texts: Vec<_> = entries.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!((texts, log.requests.len()), (vec!["GET /new → 200"], REQUESTS - 1));
    }

    #[test]
    fn an_entry_that_comes_again_is_counted_and_a_long_one_cut() {
        let mut log = PageLog::default();
        log.add(LogKind::Error, "x");
        log.add(LogKind::Error, "x");
        log.add(LogKind::Log, &"y".repeat(100_000));
        let (entries, _) = log.take();
        assert_eq!((entries[0].times, entries.len()), (2, 2));
        assert_eq!(entries[1].text.chars().count(), ENTRY);
    }

    #[test]
    fn of_requests_those_are_told_that_a_page_makes_itself_or_that_fail() {
        let mut log = PageLog::default();
        for (id, url, kind) in
            [("1", "/", "Document"), ("2", "/a.css", "Stylesheet"), ("3", "/b.png", "Image")]
        {
            log.sent(id, "GET", url, kind);
        }
        log.sent("4", "POST", "/api", "Fetch");
        log.answered("1", 200);
        log.answered("2", 200);
        log.answered("3", 404);
        log.failed("4", "net::ERR_FAILED");
        log.answered("9", 200);
        let (entries, _) = log.take();
        let texts: Vec<_> = entries.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!(texts, ["GET / → 200", "GET /b.png → 404", "POST /api failed: net::ERR_FAILED"]);
    }
}
