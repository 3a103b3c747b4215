//! The channels of an instance: it registers, says at intervals that it lives, and carries out what is said to it, until
//! it is told to end.

use std::sync::Arc;
use std::time::Duration;

use roo_protocol::ids::TaskId;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::command::{self, InstanceCommand, TaskCommand};
use super::requests::{CommandError, Requests, Setup};
use crate::nats::{Connection, IncomingMessage, NatsError, Subscription};

/// An instance that listens.
pub(crate) struct Bridge {
    connection: Connection,
    requests: Arc<Requests>,
    heartbeat: Duration,
    end: CancellationToken,
    commands: Subscription,
    states: Subscription,
    // `task.<id>.command`, `task.<id>.join` and `task.<id>.leave`; what this instance tells has other names.
    task_commands: Subscription,
    joins: Subscription,
    leaves: Subscription,
}

impl Bridge {
    /// Listens to the subjects of an instance from now on.
    ///
    /// # Errors
    /// [`NatsError`] when they can't be listened to.
    pub(crate) async fn open(connection: Connection, setup: Setup) -> Result<Self, NatsError> {
        let subject = |rest: &str| connection.prefix().bridge(&setup.instance, rest);
        let commands = connection.subscribe(subject("command")).await?;
        let states = connection.subscribe(subject("state")).await?;
        let task_commands = connection.subscribe(subject("task.*.command")).await?;
        let joins = connection.subscribe(subject("task.*.join")).await?;
        let leaves = connection.subscribe(subject("task.*.leave")).await?;
        connection.flush().await;
        let (heartbeat, end) = (setup.heartbeat, CancellationToken::new());
        let requests = Requests::new(setup, connection.clone(), end.clone());
        Ok(Self { connection, requests, heartbeat, end, commands, states, task_commands, joins, leaves })
    }

    /// Serves until it is told to end. Then all requests are left to be resumed.
    pub(crate) async fn serve(mut self, told_to_end: impl Future<Output = ()>) {
        let work = TaskTracker::new();
        announce(&self.requests, "register").await;
        let mut heartbeats = tokio::time::interval(self.heartbeat);
        // The first one is at once, and registering was one.
        heartbeats.tick().await;
        tokio::pin!(told_to_end);
        loop {
            let (channel, message) = tokio::select! {
                biased;
                () = &mut told_to_end => break,
                _ = heartbeats.tick() => {
                    announce(&self.requests, "heartbeat").await;
                    continue;
                }
                message = self.commands.next() => (Channel::Instance, message),
                message = self.states.next() => (Channel::State, message),
                message = self.task_commands.next() => (Channel::Task, message),
                message = self.joins.next() => (Channel::Join, message),
                message = self.leaves.next() => (Channel::Leave, message),
            };
            let Some(message) = message else { break };
            let (requests, connection) = (Arc::clone(&self.requests), self.connection.clone());
            // What takes long holds up nobody else.
            work.spawn(async move {
                let done = carry_out(&requests, channel, &message).await;
                answer(&connection, &message, done).await;
            });
        }
        work.close();
        work.wait().await;
        self.end.cancel();
        announce(&self.requests, "unregister").await;
        self.requests.shut_down().await;
        self.connection.flush().await;
    }
}

/// Where a message came in.
#[derive(Clone, Copy)]
enum Channel {
    Instance,
    State,
    Task,
    Join,
    Leave,
}

async fn carry_out(
    requests: &Arc<Requests>,
    channel: Channel,
    message: &IncomingMessage,
) -> Result<Value, CommandError> {
    let task = || {
        let word = message.subject.rsplit('.').nth(1).unwrap_or_default();
        TaskId::new(branch_id(word))
    };
    match channel {
        Channel::Instance => {
            requests.instance_command(command::parse::<InstanceCommand>(&message.payload)?).await
        }
        Channel::State => requests.record().await,
        Channel::Task => {
            requests.task_command(&task(), command::parse::<TaskCommand>(&message.payload)?).await
        }
        Channel::Join => requests.join_task(&task()).await,
        Channel::Leave => requests.leave_task(&task()).await,
    }
}

/// The id of a task, of its word in a subject: the dot in the id of a branch is written `_`, as dots divide subjects.
fn branch_id(word: &str) -> String {
    word.replace('_', ".")
}

async fn answer(connection: &Connection, message: &IncomingMessage, done: Result<Value, CommandError>) {
    let answer = match done {
        Ok(result) => json!({ "success": true, "result": result }),
        Err(error) => {
            tracing::warn!("a command on {} was refused: {error}", message.subject);
            json!({ "success": false, "error": error.to_string() })
        }
    };
    if let Err(error) = connection.answer(message, answer.to_string().into_bytes()).await {
        tracing::warn!("a command was not answered: {error}");
    }
}

/// Tells the record of the instance.
async fn announce(requests: &Arc<Requests>, what: &str) {
    let told = async {
        let record = requests.record().await?;
        requests.publish(what, &record).await.map_err(CommandError::from)
    };
    if let Err(error) = told.await {
        tracing::warn!("the instance could not {what}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_one_word_of_a_subject() {
        assert_eq!(
            branch_id("0190a5c0-0000-7000-8000-000000000001_12"),
            "0190a5c0-0000-7000-8000-000000000001.12"
        );
        assert_eq!(branch_id("0190a5c0-0000-7000-8000-000000000001"), "0190a5c0-0000-7000-8000-000000000001");
    }
}
