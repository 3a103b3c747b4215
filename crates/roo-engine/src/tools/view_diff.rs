//! `view_diff`: what the request has changed, from what was recorded of its calls.

use futures_util::future::BoxFuture;
use serde_json::json;

use crate::policy::{
    Access, Action, CallAssessment, CheckedCall, Gate, Permitted, Plan, Refusal, Tool, ToolCallContext,
};
use crate::tool_run::{Outcome, RequestDiff, ToolContext};
use roo_catalog::ViewDiff;
use roo_protocol::event::ToolStatus;
use roo_protocol::rule::RuleSubject;
use roo_text::render;
use roo_workspace::Purpose;

/// The most text of a result, in bytes.
const RESULT_BYTES: usize = 128 << 10;

#[derive(Debug)]
struct ShowChanges {
    /// The file; none for all.
    path: Option<String>,
}

impl Tool for ViewDiff {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let (mut must_ask, mut path) = (None, None);
        if let Some(named) = &self.path {
            let place = gate.resolve(named, Purpose::Read)?;
            must_ask = gate.examine(call_context, &place, Access::Look)?;
            path = Some(place.display());
        }
        let shown = path.clone().unwrap_or_else(|| "all files".to_owned());
        Ok(CheckedCall::from(CallAssessment {
            identity: json!({ "tool": "view_diff", "path": path }),
            action: Some(Box::new(ShowChanges { path })),
            title: format!("Show the changes of {shown}"),
            subject: render::visible(&shown).into_owned(),
            must_ask,
            undecided: None,
            allowed_by: gate.read_rule(),
            standing: Some(RuleSubject::Reads),
            alternative: None,
            plan: Plan::Nothing,
        }))
    }
}

impl Action for ShowChanges {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let found = context.changes.diff(self.path.as_deref());
            match context.cancel.run_until_cancelled(found).await {
                Some(Ok(diff)) => shown(&diff),
                Some(Err(error)) => Outcome::failed(format!("The changes can't be read: {error}")),
                None => Outcome::interrupted("Reading the changes was interrupted."),
            }
        })
    }
}

fn shown(RequestDiff { text: diff, files }: &RequestDiff) -> Outcome {
    if diff.is_empty() {
        let text = "This request has not changed anything so far.";
        return Outcome::new(ToolStatus::Ok, text, "No changes");
    }
    let summary = format!("Changes of {}", render::counted(*files, "file"));
    let kept = &diff[..diff.floor_char_boundary(RESULT_BYTES)];
    let text = match kept.len() < diff.len() {
        true => format!("{kept}\n(The diff is cut off here. Name a file by `path` to see its changes.)"),
        false => kept.to_owned(),
    };
    Outcome::new(ToolStatus::Ok, text, summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_diff_is_cut_and_says_how_to_see_the_rest() {
        assert_eq!(shown(&RequestDiff::default()).text, "This request has not changed anything so far.");
        let text = "--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@ c1.1 apply_diff\n-a\n+++ b\n".to_owned();
        assert_eq!(shown(&RequestDiff { text, files: 1 }).summary, "Changes of 1 file");
        let text = format!("--- a/a\n+++ b/a\n{}", "+ä\n".repeat(RESULT_BYTES));
        let long = shown(&RequestDiff { text, files: 1 });
        assert!(long.text.len() < RESULT_BYTES + 100 && long.text.ends_with("to see its changes.)"));
    }
}
