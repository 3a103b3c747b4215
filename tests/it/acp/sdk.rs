//! The client side of the protocol's own SDK, over a whole session.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, LoadSessionRequest, NewSessionRequest, PermissionOptionKind,
    PromptRequest, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionNotification, SessionUpdate, SetSessionModeRequest, StopReason,
    TextContent,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, ByteStreams, on_receive_notification, on_receive_request};
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use super::{DONE, WRITES, playing};
use crate::support::client::DEADLINE;

#[tokio::test]
async fn the_sdks_client_drives_a_whole_session() {
    let project = playing(&format!("{WRITES}{DONE}"));
    let mut command = project.program();
    command.arg("acp").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    let transport =
        ByteStreams::new(agent.stdin.take().unwrap().compat_write(), agent.stdout.take().unwrap().compat());
    let updates: Arc<Mutex<Vec<SessionUpdate>>> = Arc::default();
    let (told, folder) = (Arc::clone(&updates), project.folder());
    let client = agent_client_protocol::Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _: ConnectionTo<Agent>| {
                told.lock().unwrap().push(notification.update);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest,
                        responder: Responder<RequestPermissionResponse>,
                        _: ConnectionTo<Agent>| {
                let once =
                    request.options.iter().find(|option| option.kind == PermissionOptionKind::AllowOnce);
                let chosen = SelectedPermissionOutcome::new(once.unwrap().option_id.clone());
                responder.respond(RequestPermissionResponse::new(RequestPermissionOutcome::Selected(chosen)))
            },
            on_receive_request!(),
        );
    let stopped = client
        .connect_with(transport, async |agent: ConnectionTo<Agent>| {
            agent.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            let session = agent.send_request(NewSessionRequest::new(folder.clone())).block_task().await?;
            let id = session.session_id;
            agent.send_request(SetSessionModeRequest::new(id.clone(), "code")).block_task().await?;
            let prompt = vec![ContentBlock::Text(TextContent::new("Write it."))];
            let answer = agent.send_request(PromptRequest::new(id.clone(), prompt)).block_task().await?;
            agent.send_request(LoadSessionRequest::new(id, folder)).block_task().await?;
            Ok(answer.stop_reason)
        })
        .await
        .unwrap();
    assert_eq!(stopped, StopReason::EndTurn);
    assert_eq!(project.read("a.txt"), "one\ntwo\n");
    let updates = std::mem::take(&mut *updates.lock().unwrap());
    let count = |is_it: fn(&SessionUpdate) -> bool| updates.iter().filter(|update| is_it(update)).count();
    assert_eq!(
        count(|update| matches!(update, SessionUpdate::ToolCall(_))),
        2,
        "it is told again when it is loaded"
    );
    assert_eq!(count(|update| matches!(update, SessionUpdate::UserMessageChunk(_))), 1);
    let ended = tokio::time::timeout(DEADLINE, agent.wait()).await.expect("the agent ends");
    assert!(ended.unwrap().success());
}
