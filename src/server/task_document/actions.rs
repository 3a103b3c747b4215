//! Code actions of a task document: answer what waits, send the prompt, steer the request.

use std::sync::Arc;

use serde_json::{Value, json};
use tower_lsp::jsonrpc::Result;

use super::{DocumentPosition, steerable, symbols};
use crate::server::code_actions::{Action, Effect, QUICK_FIX, wire};
use crate::server::customization::ask;
use crate::server::session::Session;
use crate::view::{BackgroundCommand, Prompt};
use roo_protocol::task::TaskState;
use roo_text::render::one_line;

/// The longest answer in a title, in characters.
const TITLE: usize = 60;

/// `textDocument/codeAction`. Editors take the first one at a stray key, so it is a harmless one.
pub(super) async fn actions(session: &Arc<Session>, place: &DocumentPosition) -> Result<Value> {
    let start = place.prompt_start();
    let offset = place.positions().offset(place.range.end);
    let has_prompt = place.text.get(start..).is_some_and(|prompt| !prompt.trim().is_empty());
    let mut actions = Vec::new();
    let send = || action("Roo: send the prompt".to_owned(), "roo.sendPrompt", json!({ "uri": place.uri }));
    if has_prompt && offset >= start {
        actions.push(send());
    }
    let Some(document) = &place.document else {
        return Ok(wire(session, actions));
    };
    let rendering = place.rendering().unwrap_or_default();
    let modes = ask(session.services().await?, |customization| {
        customization.modes().iter().map(|mode| (mode.slug.clone(), mode.name.clone())).collect::<Vec<_>>()
    });
    let modes = modes.await?;
    let transcript = document.transcript();
    let view = transcript.view();
    let mut prompts: Vec<(usize, &Prompt)> = view
        .prompts()
        .map(|(_, prompt)| {
            let heading = symbols::heading_of(&rendering, prompt.id());
            (heading.map_or(usize::MAX, |heading| offset.abs_diff(heading.start)), prompt)
        })
        .collect();
    // The nearest one first.
    prompts.sort_by_key(|(distance, _)| *distance);
    if has_prompt {
        for (_, prompt) in &prompts {
            if let Prompt::Approval(approval) = prompt {
                let (id, digest) = (&approval.approval_id, approval.digest);
                let title = format!("Roo: refuse with these words: {}", one_line(&approval.title, TITLE));
                let argument = json!({ "uri": place.uri, "approvalId": id, "digest": digest });
                actions.push(action(title, "roo.sendPrompt", argument));
            }
        }
    }
    for (_, prompt) in prompts {
        answers(session, prompt, &mut actions);
    }
    if has_prompt && offset < start {
        actions.push(send());
    }
    if let Some(root) = view.root() {
        let task = json!({ "taskId": root.id });
        let (cancels, resumes) = steerable(root.state);
        if resumes {
            actions.push(action("Roo: resume the request".to_owned(), "roo.resume", task.clone()));
        }
        actions.push(action("Roo: show the tree".to_owned(), "roo.showTree", task.clone()));
        actions.push(action("Roo: open in browser".to_owned(), "roo.openInBrowser", task.clone()));
        // While it runs, a restore would be refused.
        if (root.state.is_final() || root.state == TaskState::Interrupted)
            && let Some(seq) = transcript.restore_point(&rendering, offset)
        {
            let argument = json!({ "taskId": root.id, "seq": seq });
            actions.push(action(
                "Roo: restore files to before this".to_owned(),
                "roo.restoreFiles",
                argument,
            ));
        }
        let here = symbols::task_at(&rendering, offset).filter(|task| **task != root.id);
        if let Some(branch) = here.and_then(|task| view.task(task))
            && steerable(branch.state).0
        {
            let title = format!("Roo: cancel {} alone", one_line(&branch.name(), TITLE));
            actions.push(action(title, "roo.cancel", json!({ "taskId": branch.id })));
        }
        if let Some(task) = view.runs_command() {
            let title = "Roo: move the running command to the background".to_owned();
            actions.push(action(title, "roo.backgroundCommand", json!({ "taskId": task })));
        }
        for BackgroundCommand { id, line } in view.commands() {
            let title = format!("Roo: stop {id}: {}", one_line(line, TITLE));
            let argument = json!({ "taskId": root.id, "commandId": id });
            actions.push(action(title, "roo.stopCommand", argument));
        }
        if cancels {
            actions.push(action("Roo: cancel the request".to_owned(), "roo.cancel", task));
        }
        for (slug, name) in modes.iter().filter(|(slug, _)| *slug != root.mode) {
            let title = format!("Roo: switch to the mode {}", one_line(name, TITLE));
            let argument = json!({ "taskId": root.id, "mode": slug });
            actions.push(action(title, "roo.switchMode", argument));
        }
    }
    Ok(wire(session, actions))
}

fn answers(session: &Session, prompt: &Prompt, actions: &mut Vec<Action>) {
    match prompt {
        Prompt::Approval(approval) => {
            let what = one_line(&approval.title, TITLE);
            let id = &approval.approval_id;
            actions.push(action(format!("Roo: show {what}"), "roo.showDiff", json!({ "approvalId": id })));
            let reviews = session.negotiated().is_some_and(|negotiated| negotiated.reviews);
            if reviews && approval.reviewable {
                let title = format!("Roo: choose in the Refactor Preview: {what}");
                let argument = json!({ "approvalId": id, "digest": approval.digest });
                actions.push(action(title, "roo.reviewInRefactorPreview", argument));
            }
            for option in approval.answers(session.shown_approvals.has_in_full(approval)) {
                let argument = json!({ "approvalId": id, "digest": approval.digest, "optionId": option.id });
                let title = format!("Roo: {}: {what}", one_line(&option.name, TITLE));
                actions.push(action(title, "roo.approve", argument));
            }
        }
        Prompt::Question(question) => {
            for (number, suggestion) in (1..).zip(&question.suggestions) {
                let title = format!("Roo: answer {number}: {}", one_line(&suggestion.label(), TITLE));
                let argument = json!({ "questionId": question.question_id, "text": suggestion.text });
                actions.push(action(title, "roo.answer", argument));
            }
        }
    }
}

fn action(title: String, command: &'static str, argument: Value) -> Action {
    let effect = Effect::Command { name: command, argument };
    Action { title, kind: QUICK_FIX, effect, fixes: None }
}
