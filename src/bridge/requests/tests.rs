//! What is told over NATS, by a server that only keeps what is published.

use super::*;
use crate::bridge::plain_server::{PlainServer, setup};
use crate::scripted_engine::ScriptedEngine;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn of_two_commands_that_join_a_task_at_a_time_one_tells_its_events() {
    let PlainServer { connection, mut published, .. } = PlainServer::start().await;
    let script = "turns: [{ calls: [{ tool: attempt_completion, params: { result: Done. } }] }]\n";
    let scripted = ScriptedEngine::new(script, json!({}));
    let engine = Arc::clone(&scripted.engine);
    let end = CancellationToken::new();
    let requests = Requests::new(setup(&scripted), connection.clone(), end.clone());
    let params = TaskStartParams { prompt: "Do it.".to_owned(), ..TaskStartParams::default() };
    let task = engine.start(params).unwrap().task_id;

    // Both commands have found it not joined.
    let (one, other) = (engine.follow(&task, 0).await.unwrap(), engine.follow(&task, 0).await.unwrap());
    let (one, other) = tokio::join!(requests.join(&task, one, 0), requests.join(&task, other, 0));
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(requests.work.len(), 1, "one follows it");

    let mut events = vec![];
    loop {
        let (subject, message) = published.recv().await.unwrap();
        let is_end = message["type"] == "taskCompleted";
        events.push((subject, message));
        if is_end {
            break;
        }
    }
    end.cancel();
    requests.shut_down().await;
    connection.flush().await;
    events.extend(std::iter::from_fn(|| published.try_recv().ok()));
    let count = |is_it: &dyn Fn(&(String, Value)) -> bool| events.iter().filter(|event| is_it(event)).count();
    assert_eq!(count(&|(subject, _)| subject.ends_with(".joined")), 1);
    for kind in ["taskCreated", "taskStarted", "taskCompleted"] {
        assert_eq!(count(&|(_, message)| message["type"] == kind), 1, "{kind}: {events:?}");
    }
}
