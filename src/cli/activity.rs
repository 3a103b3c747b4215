//! What the tasks of a request are at while nothing is printed, for the line at the bottom of a terminal. Pure.

use crate::view::{Update, shortening_line};
use roo_protocol::ids::TaskId;
use roo_protocol::task::TaskState;
use roo_text::durations;
use roo_text::render::one_line;

/// A shorter time is not worth a line, in milliseconds.
const UNNOTICED: i64 = 1000;
/// The most characters of what a task is at.
const LENGTH: usize = 60;

/// The tasks that wait for something which takes time.
#[derive(Debug, Default)]
pub(super) struct Activities(Vec<Activity>);

#[derive(Debug)]
struct Activity {
    task: TaskId,
    doing: Doing,
    /// Begin, in milliseconds since the Unix epoch.
    since: i64,
}

#[derive(Clone, Debug)]
enum Doing {
    /// A model, a command or another tool works.
    Works(String),
    /// A model request is made at this time.
    Waits(i64),
}

impl Activities {
    /// Takes in what has happened at a time.
    pub(super) fn apply(&mut self, task: &TaskId, at: i64, update: &Update<'_>) {
        let doing = match update {
            Update::ModelAsked => Some(Doing::Works("the model works".to_owned())),
            Update::CallStarted { target, .. } => {
                Some(Doing::Works(one_line(&format!("{} {}", target.name, target.subject), LENGTH)))
            }
            Update::ContextShortening { method } => Some(Doing::Works(shortening_line(*method).to_owned())),
            Update::RetryScheduled { at, .. } => Some(Doing::Waits(*at)),
            Update::AnswerVoid { .. }
            | Update::CallFinished { .. }
            | Update::CallRefused { .. }
            | Update::CommandBackgrounded { .. }
            | Update::ApprovalRequested(_)
            | Update::QuestionAsked(_)
            | Update::ContextShortened { .. }
            | Update::ContextKept { .. } => None,
            Update::State { state, .. } if *state != TaskState::Running => None,
            _ => return,
        };
        self.0.retain(|activity| activity.task != *task);
        self.0.extend(doing.map(|doing| Activity { task: task.clone(), doing, since: at }));
    }

    /// Returns whether there is something that takes time.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The line for this time: what has taken longest, and how long; none where that is not worth one. `name` is that of a
    /// branch.
    pub(super) fn line(&self, now: i64, name: impl Fn(&TaskId) -> Option<String>) -> Option<String> {
        let longest = self.0.first()?;
        let what = match &longest.doing {
            Doing::Waits(due) => format!("the next attempt follows in {}", durations::in_words(due - now)),
            Doing::Works(_) if now - longest.since < UNNOTICED => return None,
            Doing::Works(what) => {
                let whole_seconds = (now - longest.since) / 1000 * 1000;
                format!("{what} · {}", durations::in_words(whole_seconds))
            }
        };
        let who = name(&longest.task).map(|name| format!("{name}: ")).unwrap_or_default();
        let more = match self.0.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more at work)"),
        };
        Some(format!("… {who}{what}{more}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::RequestView;

    /// What is shown at so many seconds after these events, which come at the second of their place.
    fn line(events: &[(&str, Value)], seconds: i64) -> Option<String> {
        let (mut view, mut activities) = (RequestView::default(), Activities::default());
        for (second, (task, event)) in (0..).zip(events) {
            let params = json!({ "rootId": "t", "taskId": task, "at": second * 1000, "event": event });
            let params = serde_json::from_value(params).unwrap();
            if let Some(update) = view.apply(&params) {
                activities.apply(&params.task_id, params.at, &update);
            }
        }
        activities.line(seconds * 1000, |task| (!task.is_root()).then(|| "🐞 Fix".to_owned()))
    }

    fn asked() -> Value {
        json!({ "type": "message", "message": { "id": "r1", "say": "api_req_started", "text": "{\"request\":1}" } })
    }

    fn started(call: &str, subject: &str) -> Value {
        json!({ "type": "tool.started", "toolCallId": call, "name": "execute_command", "subject": subject })
    }

    fn finished(call: &str) -> Value {
        json!({ "type": "tool.finished", "toolCallId": call, "status": "ok", "summary": "done" })
    }

    #[test]
    fn what_works_is_shown_with_a_clock() {
        assert_eq!(line(&[("t", asked())], 0), None, "not at once");
        assert_eq!(line(&[("t", asked())], 12).unwrap(), "… the model works · 12 s");
        let call = [("t", asked()), ("t", started("c", "make"))];
        assert_eq!(line(&call, 62).unwrap(), "… execute_command make · 1 min 1 s");
        let [asked, started] = call;
        assert_eq!(line(&[asked, started, ("t", finished("c"))], 9), None);
    }

    #[test]
    fn a_wait_counts_down() {
        let retry = json!({ "type": "retry.scheduled", "at": 30_000, "attempt": 2, "reason": "status 429" });
        let line = line(&[("t", asked()), ("t", retry)], 20).unwrap();
        assert_eq!(line, "… the next attempt follows in 10 s");
    }

    #[test]
    fn branches_are_counted_and_the_longest_is_named() {
        let events = [("t.1", asked()), ("t.2", started("c", "make"))];
        assert_eq!(line(&events, 5).unwrap(), "… 🐞 Fix: the model works · 5 s (and 1 more at work)");
    }

    #[test]
    fn who_waits_for_the_user_is_not_at_work() {
        let question = json!({
            "type": "question.asked", "questionId": "q", "kind": "followup", "text": "?", "suggestions": [],
        });
        assert_eq!(line(&[("t", asked()), ("t", question)], 60), None);
    }
}
