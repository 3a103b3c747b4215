//! What a page logged since somebody looked: its console, its errors, its requests. Bounded, however much a page writes.

use std::collections::{HashMap, VecDeque};

use roo_text::render::cut;

use crate::observation::{LogEntry, LogKind};
use crate::secret_mask::{KeptText, SecretMask};

/// The most entries that are kept until somebody looks; the newest ones.
const ENTRIES: usize = 100;
/// The longest entry, in characters.
const ENTRY: usize = 1000;
/// The most requests that are followed at a time; the newest ones.
const REQUESTS: usize = 1000;
/// The longest method and address of a request that are shown, in characters.
const REQUEST: usize = 200;
/// The longest reason why a request failed, in characters.
const REASON: usize = 100;

/// Kinds of requests that are listed even where they succeed: the others are files of the page.
const LISTED: &[&str] = &["Document", "XHR", "Fetch"];

/// A request that has no response yet.
#[derive(Debug)]
struct OpenRequest {
    /// Its method and address.
    line: KeptText,
    is_listed: bool,
}

/// An entry until somebody looks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeptEntry {
    kind: LogKind,
    text: KeptText,
    /// What follows the text, from the browser itself.
    outcome: String,
    /// Times that it came in a row.
    times: u64,
}

impl KeptEntry {
    /// Makes what is shown of it.
    pub(crate) fn shown(&self, mask: &dyn SecretMask) -> LogEntry {
        let most = if self.kind == LogKind::Network { REQUEST } else { ENTRY };
        let text = self.text.shown(mask, most) + &self.outcome;
        LogEntry { kind: self.kind, text, times: self.times }
    }
}

#[derive(Debug, Default)]
pub(crate) struct PageLog {
    entries: VecDeque<KeptEntry>,
    left_out: u64,
    requests: HashMap<String, OpenRequest>,
    /// Their ids, the oldest first, and some of requests that are over.
    order: VecDeque<String>,
}

impl PageLog {
    /// Adds an entry. One that repeats the last is counted there.
    pub(crate) fn add(&mut self, kind: LogKind, text: &str) {
        self.push(kind, KeptText::new(text.trim_end()), String::new());
    }

    fn push(&mut self, kind: LogKind, text: KeptText, outcome: String) {
        if let Some(last) = self.entries.back_mut()
            && (last.kind, &last.text, &last.outcome) == (kind, &text, &outcome)
        {
            last.times += 1;
            return;
        }
        if self.entries.len() == ENTRIES {
            self.entries.pop_front();
            self.left_out += 1;
        }
        self.entries.push_back(KeptEntry { kind, text, outcome, times: 1 });
    }

    /// A request was sent.
    pub(crate) fn sent(&mut self, id: &str, method: &str, url: &str, kind: &str) {
        let line = KeptText::new(&format!("{method} {url}"));
        let is_listed = LISTED.contains(&kind);
        // A redirect has the id of the request before.
        if self.requests.insert(id.to_owned(), OpenRequest { line, is_listed }).is_none() {
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
            self.push(LogKind::Network, request.line, format!(" → {status}"));
        }
    }

    /// It was not answered.
    pub(crate) fn failed(&mut self, id: &str, error: &str) {
        if let Some(request) = self.requests.remove(id) {
            self.push(LogKind::Network, request.line, format!(" failed: {}", cut(error, REASON)));
        }
    }

    /// Forgets a request.
    pub(crate) fn forget(&mut self, id: &str) {
        self.requests.remove(id);
    }

    /// Takes the entries since the last time, and how many older ones were left out.
    pub(crate) fn take(&mut self) -> (Vec<KeptEntry>, u64) {
        (self.entries.drain(..).collect(), std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret_mask::tests::{OneSecret, SECRET};

    fn shown(log: &mut PageLog) -> (Vec<LogEntry>, u64) {
        let (entries, left_out) = log.take();
        (entries.iter().map(|entry| entry.shown(&OneSecret)).collect(), left_out)
    }

    #[test]
    fn a_flood_keeps_its_newest_entries_and_counts_the_rest() {
        let mut log = PageLog::default();
        for number in 0..10_000 {
            log.add(LogKind::Log, &format!("line {number}"));
        }
        let (entries, left_out) = shown(&mut log);
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
        let (entries, _) = shown(&mut log);
        let texts: Vec<_> = entries.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!((texts, log.requests.len()), (vec!["GET /new → 200"], REQUESTS - 1));
    }

    #[test]
    fn an_entry_that_comes_again_is_counted_and_a_long_one_cut() {
        let mut log = PageLog::default();
        log.add(LogKind::Error, "x");
        log.add(LogKind::Error, "x");
        log.add(LogKind::Log, &"y".repeat(100_000));
        let (entries, _) = shown(&mut log);
        assert_eq!((entries[0].times, entries.len()), (2, 2));
        assert_eq!(entries[1].text.chars().count(), ENTRY);
    }

    #[test]
    fn secrets_are_masked_before_an_entry_is_cut_and_a_request_keeps_its_outcome() {
        let mut log = PageLog::default();
        log.add(LogKind::Log, &format!("{}{SECRET}", "x".repeat(ENTRY - 10)));
        log.sent("1", "GET", &format!("/{}?key={SECRET}", "y".repeat(REQUEST - 16)), "Fetch");
        log.answered("1", 404);
        let (entries, _) = shown(&mut log);
        let texts: Vec<_> = entries.iter().map(|entry| entry.text.as_str()).collect();
        assert!(texts.iter().all(|text| !text.contains("hunter")), "{texts:?}");
        assert!(texts[0].ends_with("[masked]") && texts[1].ends_with("… → 404"), "{texts:?}");
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
        let (entries, _) = shown(&mut log);
        let texts: Vec<_> = entries.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!(texts, ["GET / → 200", "GET /b.png → 404", "POST /api failed: net::ERR_FAILED"]);
    }
}
