//! The system prompt of a task.

use super::system_input::SystemInput;
use super::{delegation, sections, tool_use};

/// Composes the prompt. Equal inputs give equal bytes.
pub fn system(input: &SystemInput<'_>) -> String {
    let sections = [
        Some(sections::header(input)),
        Some(sections::process(input)),
        Some(delegation::team(input)),
        sections::task_directory(input),
        delegation::message(input),
        sections::intents(input),
        Some(tool_use::tool_use(input)),
        sections::server_resources(input),
        sections::skills(input),
        Some(sections::capabilities(input)),
        delegation::targets(input),
        delegation::switches(input),
        Some(sections::rules(input)),
        Some(sections::error_handling(input)),
        Some(sections::output_format(input)),
        Some(sections::system_information(input)),
        sections::custom_instructions(input.mode.custom_instructions.as_deref(), input.rules),
        Some(sections::objective()),
    ];
    let mut prompt = sections.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    prompt.push('\n');
    prompt
}
