//! Facts that the server looks up for the model before it is asked: what user hooks say to the user's messages, facts
//! about the system, and what the messages mention.

use std::time::Duration;

use super::hook_dispatch::HookDispatch;
use super::services::EngineServices;
use super::task::{Gather, Gathered};
use crate::mentions::{self, Expanded, MentionRoom, Sources};
use crate::project_info::{self, Limits};
use roo_documents::Extractor;
use roo_model::prompts;
use roo_sandbox::exec::redaction::TextMask;
use roo_sandbox::exec::{Environment, known_secrets};
use roo_text::render::exact_line;

/// Time limit for the list of files, for which the first request waits.
const LISTING: Duration = Duration::from_millis(300);

/// Looks it up for a task in a mode. What messages mention is bounded. What can't be had is said in the text.
pub(super) async fn gather(
    gather: &Gather,
    (mode, room): (&str, MentionRoom),
    services: &EngineServices,
    hook_dispatch: &HookDispatch,
) -> Gathered {
    let mut gathered = Gathered::default();
    let mut parts = hook_dispatch.before_turn(gather, &mut gathered).await;
    let is_refused = |text: &String| {
        let of_text = gather.prompts.iter().filter(|prompt| prompt.text == *text);
        of_text.into_iter().any(|prompt| gathered.refused.iter().any(|(id, _)| *id == prompt.id))
    };
    let messages: Vec<&String> = gather.messages.iter().filter(|text| !is_refused(text)).collect();
    if gather.system {
        let limits = Limits { time: LISTING, ..Limits::default() };
        let context = project_info::system_context(&services.workspace, limits).await;
        parts.push(prompts::system_context(&context));
    }
    if messages.is_empty() {
        // As between the turns of a task with hooks.
        gathered.text = parts.join("\n\n");
        return gathered;
    }
    let commands = services.customization.commands();
    let skills = services.customization.skills();
    let skills = skills.for_mode(mode);
    let diagnostics = services.workspace.diagnostics();
    let environment = Environment::inherited();
    let mask = TextMask::new(services.settings.redact_secrets, || {
        known_secrets(&environment, services.workspace.roots().paths(), &[])
    });
    let sources = Sources {
        workspace: &services.workspace,
        commands: &commands,
        skills: &skills,
        servers: services.gate.server_tools().as_ref(),
        trusted: services.customization.is_trusted(),
        diagnostics: diagnostics.as_deref(),
        index: services.gate.has_code_index().then(|| services.gate.code_index()),
        environment: &environment,
        mask: &mask,
        room,
        extractor: &Extractor::own(),
    };
    let mut commands_of_user = vec![];
    for message in messages {
        let expanded = mentions::expand(message, &sources).await;
        let command = expanded.commands();
        if !command.is_empty() {
            commands_of_user.push(command);
        }
        let text = expanded.text();
        if !text.is_empty() {
            parts.push(text);
        }
        let Expanded { mode, images, seen, notes, .. } = expanded;
        // The user may have mistyped what they mention.
        gathered.warnings.extend(notes.iter().map(|note| exact_line(note)));
        gathered.images.extend(images);
        gathered.seen.extend(seen);
        // A command may name a mode that isn't there; its text counts all the same.
        gathered.mode = mode.and_then(|slug| services.mode_change(&slug).ok()).or(gathered.mode);
    }
    gathered.commands = commands_of_user.join("\n\n");
    gathered.text = parts.join("\n\n");
    gathered
}
