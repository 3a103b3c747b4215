//! The prompts of servers, as users write them.

use roo_engine::server_prompts::{PromptArgument, ServerPrompt, ServerPrompts};
use roo_mcp::{Prompt, ServerStatus, Statuses};
use roo_text::render::one_line;

/// The longest description, in characters.
const DESCRIPTION: usize = 300;

/// The prompts of the servers that are switched on, in the order of the servers' names.
pub(super) fn offered(statuses: &Statuses) -> Vec<ServerPrompts> {
    let is_on = |status: &ServerStatus| !matches!(status, ServerStatus::Disabled);
    let servers = statuses.iter().filter(|(_, status)| is_on(status));
    let prompts = servers.map(|(server, status)| ServerPrompts {
        server: server.clone(),
        prompts: match status.catalog() {
            Some(catalog) => Ok(catalog.prompts.iter().map(of_server).collect()),
            None => Err(status.label().to_owned()),
        },
    });
    prompts.collect()
}

/// A prompt as its user writes it.
pub(super) fn of_server(prompt: &Prompt) -> ServerPrompt {
    let description = prompt.description.as_ref().or(prompt.title.as_ref());
    let arguments = prompt.arguments.iter();
    ServerPrompt {
        name: prompt.name.clone(),
        description: description.map(|text| one_line(text, DESCRIPTION)),
        arguments: arguments
            .map(|argument| PromptArgument { name: argument.name.clone(), required: argument.required })
            .collect(),
    }
}
