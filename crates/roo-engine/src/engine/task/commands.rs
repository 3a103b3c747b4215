//! Commands in the background that a task looks after.

use crate::engine::event::BackgroundCommand;
use roo_model::prompts::{self, replies};
use roo_protocol::ids::CommandId;

/// Commands in the background, and what its model is to be told of those that have ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandsInBackground {
    running: Vec<BackgroundCommand>,
    /// Texts for the model.
    ended: Vec<String>,
}

impl CommandsInBackground {
    /// The commands that run.
    pub fn running(&self) -> &[BackgroundCommand] {
        &self.running
    }

    /// Finds a command that runs.
    pub fn find(&self, id: &CommandId) -> Option<&BackgroundCommand> {
        self.running.iter().find(|command| command.id == *id)
    }

    pub(super) fn begin(&mut self, command: BackgroundCommand) {
        self.running.push(command);
    }

    pub(super) fn end(&mut self, id: &CommandId, text: &str) {
        let place = self.running.iter().position(|command| command.id == *id);
        if let Some(command) = place.map(|place| self.running.remove(place)) {
            self.ended.push(prompts::ended_command(&command.id, &command.line, text));
        }
    }

    /// Ends all with the server.
    pub(super) fn interrupt(&mut self) {
        for command in std::mem::take(&mut self.running) {
            let text = replies::command_ended_with_server();
            self.ended.push(prompts::ended_command(&command.id, &command.line, &text));
        }
    }

    /// Takes the text that tells the model of those that have ended; none where none has.
    pub(super) fn take_ended(&mut self) -> Option<String> {
        (!self.ended.is_empty()).then(|| prompts::ended_commands(&std::mem::take(&mut self.ended)))
    }

    /// Takes over the running commands of a branch.
    pub(in crate::engine) fn adopt(&mut self, branch: &mut Self) {
        self.running.append(&mut branch.running);
    }
}
