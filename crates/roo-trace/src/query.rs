//! Finding records.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use super::directory::TraceDirectory;
use super::history::{self, Position};
use super::record::{Outcome, Record};

/// Filter for records. The default matches all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this intent.
    pub intent: Option<String>,
    /// Of this task or its branches; the beginning of its id is enough.
    pub task: Option<String>,
    /// Of this request; the beginning of its URID is enough.
    pub urid: Option<String>,
    /// In this mode.
    pub mode: Option<String>,
    /// By this model: its full name, or the part after the provider.
    pub model: Option<String>,
    /// About this file, or files below this directory, by the path that records have of it; empty for the workspace folder.
    pub path: Option<String>,
    /// With this outcome.
    pub outcome: Option<Outcome>,
    /// Not before this, in milliseconds since the Unix epoch.
    pub since: Option<i64>,
    /// Before this, in milliseconds since the Unix epoch.
    pub until: Option<i64>,
    /// Only the newest ones, this many.
    pub limit: Option<usize>,
}

impl Filter {
    /// Returns whether a record matches.
    pub fn matches(&self, record: &Record) -> bool {
        let Some(own) = record.own() else { return false };
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let begins = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| found.starts_with(wanted))
        };
        let model = |wanted: &str| {
            own.model.as_deref().is_some_and(|model| {
                model == wanted || model.split_once('/').is_some_and(|(_, name)| name == wanted)
            })
        };
        let below = |wanted: &str, path: &str| {
            if wanted.is_empty() {
                return !path.starts_with('/');
            }
            let rest = path.strip_prefix(wanted.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let about = |wanted: &str| {
            let changed = record.files.iter().map(|file| file.path.as_str()).chain(own.old_path.as_deref());
            let violated = own.violations.iter().map(|violation| violation.path.as_str());
            let requested = own.requested.iter().flat_map(|requested| &requested.paths).map(String::as_str);
            changed.chain(violated).chain(requested).any(|path| below(wanted, path))
        };
        is(&self.intent, own.intent_id.as_deref())
            && begins(&self.task, &own.task)
            && begins(&self.urid, &own.urid)
            && is(&self.mode, Some(&own.mode))
            && self.model.as_deref().is_none_or(model)
            && self.path.as_deref().is_none_or(about)
            && self.outcome.is_none_or(|outcome| outcome == own.outcome)
            && self.since.is_none_or(|since| record.at().is_some_and(|at| at >= since))
            && self.until.is_none_or(|until| record.at().is_some_and(|at| at < until))
    }

    /// Texts that the line of every matching record contains, so that most lines need not be parsed.
    fn needles(&self) -> Vec<String> {
        let words = [&self.intent, &self.task, &self.urid, &self.mode, &self.model];
        let plain = |text: &&String| {
            text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\')
        };
        words.into_iter().flatten().filter(plain).cloned().collect()
    }
}

/// Finds the matching records, oldest first. Lines that are not records are skipped; [`super::verify`] reports them.
///
/// # Errors
/// When the trace can't be read.
pub fn query(state_directory: &Path, filter: &Filter) -> io::Result<Vec<Record>> {
    let directory = TraceDirectory::new(state_directory);
    let needles = filter.needles();
    let limit = filter.limit.unwrap_or(usize::MAX);
    let mut segments = directory.segments()?;
    let mut found: VecDeque<Record> = VecDeque::new();
    // The newest segments first, so that the newest records need not all be read.
    while let Some(segment) = segments.pop().filter(|_| found.len() < limit) {
        let mut own = VecDeque::new();
        let room = limit - found.len();
        history::lines(&directory, Position { segment, offset: 0 }, |at, line| {
            if at.segment != segment {
                return ControlFlow::Break(());
            }
            let text = std::str::from_utf8(line).unwrap_or_default();
            if needles.iter().all(|needle| text.contains(needle.as_str()))
                && let Ok(record) = Record::read(line)
                && filter.matches(&record)
            {
                own.push_back(record);
                if own.len() > room {
                    own.pop_front();
                }
            }
            ControlFlow::Continue(())
        })?;
        own.append(&mut found);
        found = own;
    }
    Ok(found.into())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{LedgerFixture, draft, entry, wrote};
    use super::super::ledger::Limits;
    use super::super::record::{Draft, Entry};
    use super::*;

    fn fixture() -> LedgerFixture {
        let fixture = LedgerFixture::new();
        let ledger = fixture.ledger_with(Limits { segment: 3000, copy: 1 << 20 });
        let other = |number: i64| {
            draft(&Entry {
                at: entry().at + number * 1000,
                mode: "ask".to_owned(),
                model: None,
                intent: None,
                outcome: Outcome::Denied,
                ..entry()
            })
        };
        let drafts: Vec<Draft> = (0..6)
            .map(|number| if number % 2 == 0 { other(number) } else { wrote("src/a.rs", "", "fn a() {}\n") })
            .collect();
        drafts.iter().for_each(|draft| drop(ledger.append(std::slice::from_ref(draft)).unwrap()));
        fixture
    }

    fn seqs(fixture: &LedgerFixture, filter: Filter) -> Vec<u64> {
        let found = query(&fixture.state(), &filter).unwrap();
        found.iter().map(|record| record.own().unwrap().seq).collect()
    }

    #[test]
    fn filters_choose_records() {
        let fixture = fixture();
        let text = |text: &str| Some(text.to_owned());
        let all = Filter::default;
        assert_eq!(seqs(&fixture, all()), [1, 2, 3, 4, 5, 6]);
        assert_eq!(seqs(&fixture, Filter { limit: Some(2), ..all() }), [5, 6]);
        assert_eq!(seqs(&fixture, Filter { intent: text("INT-001"), ..all() }), [2, 4, 6]);
        assert_eq!(seqs(&fixture, Filter { intent: text("INT-001"), limit: Some(2), ..all() }), [4, 6]);
        assert_eq!(seqs(&fixture, Filter { mode: text("ask"), ..all() }), [1, 3, 5]);
        assert_eq!(seqs(&fixture, Filter { model: text("claude-sonnet-4-5"), ..all() }), [2, 4, 6]);
        assert_eq!(seqs(&fixture, Filter { path: text("src"), ..all() }), [2, 4, 6]);
        assert_eq!(seqs(&fixture, Filter { path: text("sr"), ..all() }), [0; 0]);
        assert_eq!(seqs(&fixture, Filter { path: text(""), ..all() }), [2, 4, 6]);
        assert_eq!(seqs(&fixture, Filter { path: text("/"), ..all() }), [0; 0]);
        assert_eq!(seqs(&fixture, Filter { outcome: Some(Outcome::Denied), ..all() }), [1, 3, 5]);
        assert_eq!(seqs(&fixture, Filter { task: text("0198f0c2"), urid: text("2025"), ..all() }).len(), 6);
        let since = entry().at + 2000;
        assert_eq!(seqs(&fixture, Filter { since: Some(since), ..all() }), [3, 5]);
        assert_eq!(seqs(&fixture, Filter { until: Some(since), mode: text("ask"), ..all() }), [1]);
    }

    #[test]
    fn without_a_trace_nothing_is_found() {
        assert_eq!(query(&LedgerFixture::new().state(), &Filter::default()).unwrap(), []);
    }
}
