//! Popups: a message with buttons, of which a client has one at a time.

use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower_lsp::jsonrpc::{Error, Id, Request};
use tower_lsp::ls_types::notification::Cancel;
use tower_lsp::ls_types::{
    CancelParams, MessageActionItem, MessageType, NumberOrString, ShowMessageRequestParams,
};
use tower_service::Service as _;

use super::session::Session;

/// How long a popup waits for another one to be closed before its user is told that it waits. Some clients never close one
/// whose user doesn't, nor take it away.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// What is told of a question that its user has called for.
pub(super) const ANOTHER_IS_OPEN: &str =
    "roo: another question is still open in your editor; this one comes when that is answered or closed";

/// `window/showMessageRequest`, taken away when it is settled. Returns when the client has let go of it. `meanwhile` is told
/// where another popup stays open.
pub(super) async fn show_popup(
    session: &Session,
    typ: MessageType,
    message: String,
    choices: Vec<String>,
    settled: &CancellationToken,
    meanwhile: Option<&str>,
) -> Result<Option<MessageActionItem>, Error> {
    let actions = choices.into_iter().map(|title| MessageActionItem { title, properties: [].into() });
    let Some(_turn) = turn(session, settled, meanwhile).await else { return Ok(None) };
    let params = ShowMessageRequestParams { typ, message, actions: Some(actions.collect()) };
    let id = session.client.next_request_id();
    let params = serde_json::to_value(params).map_err(|_| Error::internal_error())?;
    let request = Request::build("window/showMessageRequest").params(params).id(id.clone()).finish();
    let mut answer = session.client.clone().call(request);
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        () = settled.cancelled() => {
            if let Id::Number(id) = id
                && let Ok(id) = i32::try_from(id)
            {
                let params = CancelParams { id: NumberOrString::Number(id) };
                session.client.send_notification::<Cancel>(params).await;
            }
            // Whether it takes the popup away or not, the client has to answer.
            answer.await
        }
    };
    let Ok(Some(answer)) = answer else { return Err(Error::internal_error()) };
    let (_, answer) = answer.into_parts();
    serde_json::from_value(answer?).map_err(|_| Error::internal_error())
}

/// Waits until no other popup is open; none where it is settled before.
async fn turn<'a>(
    session: &'a Session,
    settled: &CancellationToken,
    meanwhile: Option<&str>,
) -> Option<MutexGuard<'a, ()>> {
    let mut turn = std::pin::pin!(settled.run_until_cancelled(session.popup_turn.lock()));
    if let Ok(turn) = timeout(PATIENCE, &mut turn).await {
        return turn;
    }
    if let Some(meanwhile) = meanwhile {
        session.client.show_message(MessageType::INFO, meanwhile).await;
    }
    turn.await
}
