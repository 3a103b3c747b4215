//! `roo-lsp replay`: a request derived again from what its log recorded, and compared with it.

use std::io::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::arguments::{Common, Replay, ReplayFormat};
use super::notices::Notices;
use super::session::SessionContext;
use super::{CliError, Ending, tasks, terminal};
use roo_engine::engine::{ReplayDifference, Replayed, ReplayedEvent};
use roo_text::diff;

/// Replays a request. Nothing is written or run, and no model is asked, but by the fork in which it may go on.
pub(super) async fn replay(common: Common, replay: Replay, notices: &Notices) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    let engine = context.engine(Arc::new(Arc::new(context.settings_to_look())))?;
    let request = tasks::find(&engine, &replay.request).await?.root();
    let outcome = engine.replay(&request).await?;
    if let Some(from) = replay.from
        && outcome.as_ref().err().is_none_or(|difference| difference.seq > from)
    {
        drop(engine);
        return tasks::resume_in_fork(&context, request, from, &replay.view(), notices).await;
    }
    let text = match (replay.format, &outcome) {
        (ReplayFormat::Text, Ok(Replayed { imported: 0, events, .. })) => {
            format!("identical, {events} events\n")
        }
        (ReplayFormat::Text, Ok(Replayed { imported, events, .. })) => imported_text(*imported, *events),
        (ReplayFormat::Text, Err(difference)) => told(difference)?,
        (ReplayFormat::Json, Ok(replayed)) => {
            // Of what was imported alone, nothing is derived that could be the same.
            let identical = (replayed.imported < replayed.events).then_some(true);
            let mut told =
                json!({ "identical": identical, "events": replayed.events, "given": replayed.given });
            if replayed.imported > 0 {
                told["imported"] = replayed.imported.into();
            }
            format!("{told}\n")
        }
        (ReplayFormat::Json, Err(difference)) => {
            format!("{}\n", json!({ "identical": false, "difference": difference }))
        }
    };
    terminal::stdout().write_all(text.as_bytes())?;
    Ok(if outcome.is_ok() { Ending::Done } else { Ending::Failed })
}

/// What can be said of a request that was imported.
fn imported_text(imported: u64, events: u64) -> String {
    let from_elsewhere =
        format!("events 1 to {imported} were imported from another program and can't be replayed");
    match events - imported {
        0 => format!("{from_elsewhere}\n"),
        own => format!("{from_elsewhere}; identical, {own} events since\n"),
    }
}

/// The difference for people: both events as a diff.
fn told(difference: &ReplayDifference) -> Result<String, CliError> {
    let ReplayDifference { seq, expected, got } = difference;
    let shown = |event: &Option<ReplayedEvent>| match event {
        Some(event) => serde_json::to_string_pretty(event).map(|text| text + "\n"),
        None => Ok(String::new()),
    };
    let wrong = |error: serde_json::Error| CliError::Other(error.to_string());
    let (recorded, replayed) = (shown(expected).map_err(wrong)?, shown(got).map_err(wrong)?);
    let what = match (expected, got) {
        (Some(_), Some(_)) => "is recorded (-) other than the replay derives it (+)",
        (Some(_), None) => "is recorded, and nothing in the log leads to it",
        (None, _) => "is missing in the log",
    };
    Ok(format!("event {seq} {what}\n{}", diff::unified(&recorded, &replayed, &format!("event {seq}"))))
}
