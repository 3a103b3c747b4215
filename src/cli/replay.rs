//! `roo-lsp replay`: a request derived anew from what its log recorded, and compared with it.

use std::io::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::arguments::{Common, Replay, ReplayFormat};
use super::notices::Notices;
use super::session::SessionContext;
use super::{CliError, Ending, tasks, terminal};
use roo_engine::engine::{ReplayDifference, ReplayedEvent};
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
        return tasks::go_on_in_fork(&context, request, from, &replay.view(), notices).await;
    }
    let text = match (replay.format, &outcome) {
        (ReplayFormat::Text, Ok(replayed)) => format!("identical, {} events\n", replayed.events),
        (ReplayFormat::Text, Err(difference)) => told(difference)?,
        (ReplayFormat::Json, Ok(replayed)) => {
            format!("{}\n", json!({ "identical": true, "events": replayed.events, "given": replayed.given }))
        }
        (ReplayFormat::Json, Err(difference)) => {
            format!("{}\n", json!({ "identical": false, "difference": difference }))
        }
    };
    terminal::stdout().write_all(text.as_bytes())?;
    Ok(if outcome.is_ok() { Ending::Done } else { Ending::Failed })
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
