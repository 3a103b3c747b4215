//! The client of a connection: what it can do, and the one way on which anything is sent to it.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    ClientCapabilities, ContentBlock, ContentChunk, Notice, NoticeSeverity, ReadTextFileRequest, SessionId,
    SessionNotification, SessionUpdate, TextContent, WriteTextFileRequest,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Client as ClientRole, Error, ErrorCode, JsonRpcResponse, UntypedMessage, is_connection_terminated,
    is_incoming_transport_closed,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::lines::Backlog;
use crate::markdown::inert;
use crate::masking::Mask;

/// Clients that tell of a file what is on disk, and write over what their users have not saved: they are not asked for files.
const BLIND_TO_UNSAVED_TEXT: [&str; 1] = ["CodeCompanion.nvim"];

/// What a client says of itself by `initialize`.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientInfo {
    pub(super) capabilities: ClientCapabilities,
    /// The client's name, for `by`.
    pub(super) name: String,
}

/// The client of a connection.
#[derive(Clone)]
pub(super) struct Client {
    connection: ConnectionTo<ClientRole>,
    info: Arc<ClientInfo>,
    backlog: Arc<Backlog>,
}

impl Client {
    pub(super) fn new(
        connection: ConnectionTo<ClientRole>,
        info: Arc<ClientInfo>,
        backlog: Arc<Backlog>,
    ) -> Self {
        Self { connection, info, backlog }
    }

    /// The name for `by`.
    pub(super) fn name(&self) -> &str {
        &self.info.name
    }

    /// Returns whether files are read and written through it.
    pub(super) fn has_files(&self) -> bool {
        let fs = &self.info.capabilities.fs;
        let is_blind = BLIND_TO_UNSAVED_TEXT.iter().any(|name| name.eq_ignore_ascii_case(self.name()));
        fs.read_text_file && fs.write_text_file && !is_blind
    }

    /// Returns whether it shows forms.
    pub(super) fn shows_forms(&self) -> bool {
        self.info.capabilities.elicitation.as_ref().is_some_and(|elicitation| elicitation.form.is_some())
    }

    /// Returns whether it shows how a conversation is shortened.
    pub(super) fn shows_compaction(&self) -> bool {
        self.info.capabilities.session.as_ref().is_some_and(|session| session.compaction.is_some())
    }

    fn shows_notices(&self) -> bool {
        self.info.capabilities.session.as_ref().is_some_and(|session| session.notices.is_some())
    }

    /// Waits until the client has read most of what was sent.
    pub(super) async fn drained(&self) {
        self.backlog.drained().await;
    }

    /// Tells an update of a session.
    pub(super) fn update(&self, session: &SessionId, update: SessionUpdate, mask: &Mask) {
        self.backlog.add();
        let is_image = matches!(&update, SessionUpdate::UserMessageChunk(chunk) if matches!(chunk.content, ContentBlock::Image(_)));
        let nothing = Mask::default();
        let mask = if is_image { &nothing } else { mask };
        let sent = masked("session/update", SessionNotification::new(session.clone(), update), mask)
            .and_then(|message| self.connection.send_notification(message));
        if let Err(error) = sent {
            tracing::debug!(%error, "a client was not told of an update");
        }
    }

    /// Tells the user something about a session that is no part of its conversation.
    pub(super) fn notice(&self, session: &SessionId, severity: NoticeSeverity, text: &str, mask: &Mask) {
        let update = match self.shows_notices() {
            true => SessionUpdate::Notice(Notice::new(severity, text)),
            false => SessionUpdate::AgentThoughtChunk(ContentChunk::new(ContentBlock::Text(
                TextContent::new(inert(text) + "\n\n"),
            ))),
        };
        self.update(session, update, mask);
    }

    /// Answers a request.
    pub(super) fn respond<T: JsonRpcResponse>(&self, responder: Responder<T>, answer: Result<T, Error>) {
        self.backlog.add();
        if let Err(error) = responder.respond_with_result(answer) {
            tracing::debug!(%error, "a client was not answered");
        }
    }

    /// Asks the client's user. None where that was over before, of which the client is told, or where the client has gone.
    pub(super) async fn ask<R: DeserializeOwned>(
        &self,
        method: &str,
        question: impl Serialize,
        mask: &Mask,
        over: &CancellationToken,
    ) -> Option<Result<R, Error>> {
        let question = match masked(method, question, mask) {
            Ok(question) => question,
            Err(error) => return Some(Err(error)),
        };
        self.backlog.add();
        // To drop it is to cancel it.
        let asked = self.connection.send_request(question).block_task();
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            () = over.cancelled() => return None,
        };
        if answer.as_ref().is_err_and(is_over) {
            return None;
        }
        Some(answer.and_then(|answer| serde_json::from_value(answer).map_err(Error::into_internal_error)))
    }

    /// Reads a file as the client has it; none where there is none.
    pub(super) async fn read(&self, request: ReadTextFileRequest) -> Result<Option<String>, Error> {
        self.backlog.add();
        match self.connection.send_request(request).block_task().await {
            Ok(answer) => Ok(Some(answer.content)),
            Err(error) if error.code == ErrorCode::RESOURCE_NOT_FOUND => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Has the client write a file.
    pub(super) async fn write(&self, request: WriteTextFileRequest) -> Result<(), Error> {
        self.backlog.add();
        self.connection.send_request(request).block_task().await.map(drop)
    }
}

/// Returns whether a request has no answer because the connection is over. Whoever has gone has answered nothing.
fn is_over(error: &Error) -> bool {
    is_incoming_transport_closed(error) || is_connection_terminated(error)
}

/// A message with masks in place of secrets.
fn masked(method: &str, params: impl Serialize, mask: &Mask) -> Result<UntypedMessage, Error> {
    let mut params = serde_json::to_value(params).map_err(Error::into_internal_error)?;
    mask.apply_to_texts(&mut params);
    UntypedMessage::new(method, params)
}
