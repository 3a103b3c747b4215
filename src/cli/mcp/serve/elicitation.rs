//! Questions of tasks as questions of the protocol to the user of the client (*elicitation*), where the command line says so.
//! An answer counts as the calling agent's own: a host may give it by itself, so permissions are never asked for here.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext};
use tokio_util::sync::CancellationToken;

use super::status::OpenQuestion;

/// Time limit for an answer.
const ANSWER: Duration = Duration::from_secs(10 * 60);
/// The field of the form.
const FIELD: &str = "answer";

/// A client whose user can be asked while it waits for a call.
pub(super) struct ClientUser {
    peer: Peer<RoleServer>,
    cancelled: CancellationToken,
}

impl ClientUser {
    /// None if the client shows no forms.
    pub(super) fn from_context(context: &RequestContext<RoleServer>) -> Option<Self> {
        let modes = context.peer.peer_info()?.capabilities.elicitation.clone()?;
        // A client that names no modes means forms.
        let shows_forms = modes.form.is_some() || modes.url.is_none();
        shows_forms.then(|| Self { peer: context.peer.clone(), cancelled: context.ct.clone() })
    }

    /// Returns the answer to a question; none if there is none, whatever the reason.
    pub(super) async fn ask(&self, question: &OpenQuestion) -> Option<String> {
        let suggested = (!question.suggestions.is_empty())
            .then(|| format!("Suggested: {}. Any other text will do too.", question.suggestions.join("; ")));
        let schema = ElicitationSchema::builder().required_string_with(FIELD, |field| match suggested {
            Some(suggested) => field.title("Answer").description(suggested),
            None => field.title("Answer"),
        });
        let params = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: question.text.clone(),
            requested_schema: schema.build().ok()?,
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let mut handle = match sent {
            Ok(handle) => handle,
            Err(error) => {
                tracing::debug!(%error, "a client's user can't be asked");
                return None;
            }
        };
        let reason = tokio::select! {
            biased;
            answer = &mut handle.rx => {
                return match answer {
                    Ok(Ok(ClientResult::ElicitResult(result))) if result.action == ElicitationAction::Accept => {
                        Some(result.content?.get(FIELD)?.as_str()?.to_owned())
                    }
                    _ => None,
                };
            }
            () = self.cancelled.cancelled() => "nobody waits for the task any more",
            () = tokio::time::sleep(ANSWER) => "there was no answer",
        };
        // A client that has gone needs no word.
        let _ = handle.cancel(Some(reason.to_owned())).await;
        None
    }
}
