//! The channels of an instance: it registers, says at intervals that it lives, and carries out what is said to it, until
//! it is told to end.

use std::sync::Arc;
use std::time::Duration;

use roo_protocol::ids::TaskId;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::command::{self, InstanceCommand, TaskCommand};
use super::requests::{CommandError, Requests, Setup};
use crate::nats::{Connection, IncomingMessage, NatsError, Subscription};

/// Time for commands that are under way at the end, and then for telling of the end. A server that is away would keep both longer.
const GRACE: Duration = Duration::from_secs(5);

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
        // While the server is away, what is told it waits until it is back; the end doesn't.
        tokio::select! {
            biased;
            () = told_to_end => {}
            () = self.listen(&work) => {}
        }
        work.close();
        if timeout(GRACE, work.wait()).await.is_err() {
            tracing::warn!("commands that were under way are not answered");
        }
        self.end.cancel();
        work.wait().await;
        self.requests.shut_down().await;
        self.take_leave().await;
    }

    /// Registers, and has what comes in carried out, until the connection is closed.
    async fn listen(&mut self, work: &TaskTracker) {
        announce(&self.requests, "register").await;
        let mut heartbeats = tokio::time::interval(self.heartbeat);
        // Those that a server was away for are over.
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once, and registering was one.
        heartbeats.tick().await;
        loop {
            let (channel, message) = tokio::select! {
                biased;
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
            let Some(message) = message else { return };
            let (requests, connection) = (Arc::clone(&self.requests), self.connection.clone());
            // What takes long holds up nobody else.
            work.spawn(self.end.clone().run_until_cancelled_owned(async move {
                let done = carry_out(&requests, channel, &message).await;
                answer(&connection, &message, done).await;
            }));
        }
    }

    /// Tells the server that the instance ends. Where that is away, the missing heartbeat tells.
    async fn take_leave(&self) {
        let told = async {
            announce(&self.requests, "unregister").await;
            self.connection.flush().await;
        };
        tokio::select! {
            () = told => {}
            () = self.connection.lost() => {}
            () = sleep(GRACE) => {}
        }
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
    use tokio::sync::oneshot;

    use super::*;
    use crate::bridge::plain_server::{PlainServer, setup};
    use crate::scripted_engine::ScriptedEngine;

    /// No end of a bridge may take longer than this.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn it_ends_while_its_server_is_away_and_takes_nothing_more() {
        let server = PlainServer::start().await;
        let scripted = ScriptedEngine::new("turns: []\n", json!({}));
        let connection = server.connection.clone();
        let setup = Setup { heartbeat: Duration::from_millis(10), ..setup(&scripted) };
        let bridge = Bridge::open(connection.clone(), setup).await.unwrap();
        let (tell, told) = oneshot::channel::<()>();
        let serving = tokio::spawn(bridge.serve(async {
            let _ = told.await;
        }));
        server.end();
        let is_taken = async || {
            let message = connection.publish("roo.other".to_owned(), vec![]);
            timeout(Duration::from_secs(1), message).await.is_ok()
        };
        while is_taken().await {}
        tell.send(()).unwrap();
        timeout(PATIENCE, serving).await.expect("it ends").unwrap();
    }

    #[test]
    fn a_branch_is_one_word_of_a_subject() {
        assert_eq!(
            branch_id("0190a5c0-0000-7000-8000-000000000001_12"),
            "0190a5c0-0000-7000-8000-000000000001.12"
        );
        assert_eq!(branch_id("0190a5c0-0000-7000-8000-000000000001"), "0190a5c0-0000-7000-8000-000000000001");
    }
}
