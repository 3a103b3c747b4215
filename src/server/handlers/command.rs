//! `roo/command/*`.

use tower_lsp::jsonrpc::Result;

use super::task::done;
use super::{Params, Server};
use crate::server::customization;
use roo_engine::customization::CONDENSE;
use roo_engine::customization::{Skill, SlashCommand};
use roo_formats::modes::Source;
use roo_protocol::customization::{CommandItem, CommandListParams, CommandListResult};
use roo_protocol::task::{CommandStopParams, Done, TaskParams};

pub(super) async fn list(
    server: &Server,
    Params(CommandListParams {}): Params<CommandListParams>,
) -> Result<CommandListResult> {
    let services = server.session.typed().await?;
    let mut commands = customization::ask(services, |customization| {
        let commands = customization.commands();
        let skills = customization.skills();
        let skills = skills.beside_commands(&commands).into_iter().map(item_of_skill);
        let mut items: Vec<CommandItem> = skills.collect();
        items.extend(commands.into_iter().map(item));
        items.sort_by(|one, other| one.name.cmp(&other.name));
        items
    })
    .await?;
    let place = commands.partition_point(|command| command.name.as_str() < CONDENSE);
    if commands.get(place).is_none_or(|command| command.name != CONDENSE) {
        commands.insert(place, condense());
    }
    commands.extend(customization::server_prompts(services).await?);
    Ok(CommandListResult { commands })
}

pub(super) async fn background(server: &Server, Params(params): Params<TaskParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    done(services.engine.background_command(&params.task_id).await, &params.task_id)
}

pub(super) async fn stop(server: &Server, Params(params): Params<CommandStopParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    let CommandStopParams { task_id, command_id } = params;
    done(services.engine.stop_command(&task_id, command_id).await, &task_id)
}

/// The command that the engine carries out itself.
fn condense() -> CommandItem {
    CommandItem {
        name: CONDENSE.to_owned(),
        description: Some("Summarises earlier turns of the conversation to make room".to_owned()),
        argument_hint: None,
        mode: None,
        source: Source::BuiltIn.as_str().to_owned(),
    }
}

fn item_of_skill(skill: &Skill) -> CommandItem {
    CommandItem {
        name: skill.name.clone(),
        description: Some(skill.description.clone()),
        argument_hint: None,
        mode: None,
        source: skill.source().as_str().to_owned(),
    }
}

fn item(command: SlashCommand) -> CommandItem {
    let SlashCommand { name, description, argument_hint, mode, source, .. } = command;
    CommandItem { name, description, argument_hint, mode, source: source.as_str().to_owned() }
}
