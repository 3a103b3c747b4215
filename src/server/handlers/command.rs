//! `roo/command/*`.

use tower_lsp::jsonrpc::Result;

use super::{Params, Server};
use crate::customization::SlashCommand;
use crate::protocol::customization::{CommandItem, CommandListParams, CommandListResult};
use crate::server::customization;

pub(super) async fn list(
    server: &Server,
    Params(CommandListParams {}): Params<CommandListParams>,
) -> Result<CommandListResult> {
    let house = server.session.typed().await?;
    let commands = customization::ask(house, |customization| customization.commands()).await?;
    Ok(CommandListResult { commands: commands.into_iter().map(item).collect() })
}

fn item(command: SlashCommand) -> CommandItem {
    let SlashCommand { name, description, argument_hint, mode, source, .. } = command;
    CommandItem { name, description, argument_hint, mode, source: source.as_str().to_owned() }
}
