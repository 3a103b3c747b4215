//! Popups: a message with buttons, of which a client has one at a time.

use tokio_util::sync::CancellationToken;
use tower_lsp::jsonrpc::{Error, Id, Request};
use tower_lsp::ls_types::notification::Cancel;
use tower_lsp::ls_types::{
    CancelParams, MessageActionItem, MessageType, NumberOrString, ShowMessageRequestParams,
};
use tower_service::Service as _;

use super::session::Session;

/// `window/showMessageRequest`, taken away when it is settled. Returns when the client has let go of it.
pub(super) async fn show_popup(
    session: &Session,
    typ: MessageType,
    message: String,
    choices: Vec<String>,
    settled: &CancellationToken,
) -> Result<Option<MessageActionItem>, Error> {
    let actions = choices.into_iter().map(|title| MessageActionItem { title, properties: [].into() });
    // What else asks waits too.
    let _turn = session.popup_turn.lock().await;
    if settled.is_cancelled() {
        return Ok(None);
    }
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
