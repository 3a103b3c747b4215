//! `roo/command/*`.

use tower_lsp::jsonrpc::Result;

use super::task::done;
use super::{Params, Server};
use crate::server::customization;
use roo_engine::customization::SlashCommand;
use roo_protocol::customization::{CommandItem, CommandListParams, CommandListResult};
use roo_protocol::task::{CommandStopParams, Done, TaskParams};

pub(super) async fn list(
    server: &Server,
    Params(CommandListParams {}): Params<CommandListParams>,
) -> Result<CommandListResult> {
    let services = server.session.typed().await?;
    let commands = customization::ask(services, |customization| customization.commands()).await?;
    Ok(CommandListResult { commands: commands.into_iter().map(item).collect() })
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

fn item(command: SlashCommand) -> CommandItem {
    let SlashCommand { name, description, argument_hint, mode, source, .. } = command;
    CommandItem { name, description, argument_hint, mode, source: source.as_str().to_owned() }
}
