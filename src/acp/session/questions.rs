//! Approvals and questions as requests to the client. Nothing is decided here: a choice is an answer to one approval or
//! question, which the engine checks.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction, ElicitationContentValue,
    ElicitationFormMode, ElicitationSchema, ElicitationSessionScope, EnumOption, PermissionOption,
    PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SessionId, StringPropertySchema, ToolCall, ToolCallId, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use agent_client_protocol::{Error, ErrorCode};
use roo_protocol::approval::OptionKind;
use roo_protocol::customization::TrustReport;
use roo_protocol::question::QuestionKind;
use roo_protocol::task::{PendingApproval, PendingQuestion, REVIEW_ONCE};
use roo_text::render::one_line;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::tool_calls::{meta, previews, text};
use crate::acp::client::Client;
use crate::acp::workspace::Workspace;
use crate::markdown;
use crate::masking::Mask;

/// The methods of the protocol.
const PERMISSION: &str = "session/request_permission";
const ELICITATION: &str = "elicitation/create";
/// Fields of a form: the answer, and a choice beside it.
const FIELD: &str = "answer";
const CHOICE: &str = "choice";
/// The longest label of an option, in characters.
const LABEL: usize = 120;
/// The option by which a question is answered in words.
const IN_WORDS: &str = "in_words";
/// Kinds of two options of which one allows more than a call: to trust the workspace, to spend beyond a limit. Clients that allow
/// everything without their users take what allows something once.
const NARROW: PermissionOptionKind = PermissionOptionKind::AllowOnce;
const WIDE: PermissionOptionKind = PermissionOptionKind::AllowAlways;
/// The options of the question about trust.
pub(super) const TRUST: &str = "trust";
const NO_TRUST: &str = "no_trust";

/// What came of a question to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The id of an option.
    Chosen(String),
    /// The answer in words.
    Text(String),
    /// The user wants to answer by what they say next.
    Later,
    /// The user has cancelled the turn.
    Cancelled,
    /// The client can't ask.
    Unable(String),
}

/// A client that asks for one session.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) client: Client,
    pub(super) session: SessionId,
    pub(super) mask: Mask,
    /// The question has its answer, or there is none any more.
    pub(super) over: CancellationToken,
}

impl Asker {
    /// Asks for permission. None where that was over before.
    pub(super) async fn approval(
        &self,
        workspace: &Workspace,
        approval: &PendingApproval,
        call: ToolCallId,
        fields: ToolCallUpdateFields,
    ) -> Option<Reply> {
        // An edit that no longer fits leads to a new question.
        let files = workspace.engine.masked_preview(&approval.approval_id).await.unwrap_or_default();
        let mut content = previews(files);
        if content.is_empty() && !approval.subject.is_empty() {
            content.push(text(&markdown::fenced_whole("", &approval.subject)));
        }
        if !approval.reason.is_empty() {
            content.push(text(&approval.reason));
        }
        let scope = |option: &roo_protocol::approval::ApprovalOption| {
            Some(text(&format!("**{}**: {}", option.name, option.scope.as_ref()?)))
        };
        content.extend(approval.options.iter().filter_map(scope));
        let fields = fields
            .title(markdown::without_images(&approval.title))
            .status(ToolCallStatus::Pending)
            .content(content);
        // What is picked in an editor is picked there.
        let options = approval.options.iter().filter(|option| option.id != REVIEW_ONCE);
        let options = options
            .map(|option| PermissionOption::new(option.id.clone(), option.name.clone(), kind(option.kind)));
        let meta = meta(json!({ "approvalId": approval.approval_id, "digest": approval.digest }));
        let call = ToolCallUpdate::new(call, fields);
        let request = RequestPermissionRequest::new(self.session.clone(), call, options.collect()).meta(meta);
        self.permission(request).await
    }

    /// Asks a question of a task. None where that was over before.
    pub(super) async fn question(&self, question: &PendingQuestion) -> Option<Reply> {
        if question.secret {
            return Some(Reply::Unable("the protocol has no field for secrets".to_owned()));
        }
        if self.client.shows_forms() {
            return self.form(question).await;
        }
        if question.suggestions.is_empty() {
            return Some(Reply::Later);
        }
        let options = question.suggestions.iter().enumerate().map(|(number, suggestion)| {
            // The last one of the engine's own is to stop, and that of a server's to decline.
            let is_last = number + 1 == question.suggestions.len();
            let kind = match question.kind {
                QuestionKind::Followup => PermissionOptionKind::AllowOnce,
                QuestionKind::AutoApprovalMaxReqReached if is_last => NARROW,
                QuestionKind::AutoApprovalMaxReqReached => WIDE,
                _ if is_last => PermissionOptionKind::RejectOnce,
                _ => PermissionOptionKind::AllowOnce,
            };
            let label = one_line(&self.mask.masked(suggestion.label()), LABEL);
            PermissionOption::new(number.to_string(), label, kind)
        });
        let in_words =
            PermissionOption::new(IN_WORDS, "Answer in the chat", PermissionOptionKind::RejectOnce);
        let options = options.chain((question.kind == QuestionKind::Followup).then_some(in_words));
        let fields = ToolCallUpdateFields::new()
            .kind(ToolKind::Other)
            .status(ToolCallStatus::Pending)
            .title(one_line(&question.text, LABEL))
            .content(vec![text(&question.text)]);
        let call = ToolCallUpdate::new(question_call(question), fields);
        let meta = meta(json!({ "questionId": question.question_id, "kind": question.kind }));
        let request = RequestPermissionRequest::new(self.session.clone(), call, options.collect()).meta(meta);
        Some(match self.permission(request).await? {
            Reply::Chosen(option) if option == IN_WORDS => Reply::Later,
            Reply::Chosen(option) => {
                let number: Option<usize> = option.parse().ok();
                match number.and_then(|number| question.suggestions.get(number)) {
                    Some(suggestion) => Reply::Text(suggestion.text.clone()),
                    None => Reply::Later,
                }
            }
            reply => reply,
        })
    }

    /// The call by which a question is shown, if it is asked as for permission.
    pub(super) fn shown_call(&self, question: &PendingQuestion) -> Option<ToolCall> {
        let is_one = !question.secret && !self.client.shows_forms() && !question.suggestions.is_empty();
        let title = one_line(&question.text, LABEL);
        is_one.then(|| ToolCall::new(question_call(question), title).kind(ToolKind::Other))
    }

    async fn form(&self, question: &PendingQuestion) -> Option<Reply> {
        let text = || StringPropertySchema::new().title("Answer");
        let choice = || {
            let choices =
                question.suggestions.iter().map(|one| EnumOption::new(one.text.clone(), one.label()));
            StringPropertySchema::new().title("Answer").one_of(choices.collect::<Vec<_>>())
        };
        let schema = ElicitationSchema::new();
        let schema = match question.kind {
            _ if question.suggestions.is_empty() => schema.property(FIELD, text(), true),
            QuestionKind::Followup => {
                let suggested: Vec<String> = question.suggestions.iter().map(|one| one.label()).collect();
                let about = format!("Suggested: {}. Any other text will do too.", suggested.join("; "));
                schema.property(FIELD, text().description(about), true)
            }
            // A server may ask for one of these, or for any text.
            QuestionKind::McpElicitation => schema
                .property(CHOICE, choice().description("One of these"), false)
                .property(FIELD, text().description("Or in words, which count before the choice"), false),
            _ => schema.property(FIELD, choice(), true),
        };
        let mode = ElicitationFormMode::new(ElicitationSessionScope::new(self.session.clone()), schema);
        let request = CreateElicitationRequest::new(mode, question.text.clone());
        let answer: Result<CreateElicitationResponse, Error> =
            self.client.ask(ELICITATION, request, &self.mask, &self.over).await?;
        Some(match answer {
            Ok(answer) => match answer.action {
                ElicitationAction::Accept(accepted) => {
                    let mut content = accepted.content.unwrap_or_default();
                    let answers = [FIELD, CHOICE].map(|field| content.remove(field));
                    let given = answers.into_iter().find_map(|answer| match answer {
                        Some(ElicitationContentValue::String(text)) if !text.trim().is_empty() => Some(text),
                        _ => None,
                    });
                    given.map_or(Reply::Later, Reply::Text)
                }
                _ => Reply::Later,
            },
            Err(error) => failed(&error),
        })
    }

    /// Asks whether the workspace is to be trusted. None where that was over before.
    pub(super) async fn trust(&self, workspace: &Arc<Workspace>, report: &TrustReport) -> Option<Reply> {
        let brings: Vec<String> = report.brings.iter().map(|path| format!("- {path}")).collect();
        let about = format!(
            "{} brings files by which it steers agents:\n\n{}\n\nThey have no effect unless you trust it. You can also do so \
             later: `roo-lsp --workspace {} trust`",
            workspace.folder().display(),
            brings.join("\n"),
            workspace.folder_in_shell(),
        );
        let fields = ToolCallUpdateFields::new()
            .kind(ToolKind::Other)
            .status(ToolCallStatus::Pending)
            .title(TRUST_TITLE)
            .content(vec![text(&about)]);
        let options = vec![
            PermissionOption::new(NO_TRUST, "Go on without trust", NARROW),
            PermissionOption::new(TRUST, "Trust this workspace", WIDE),
        ];
        let call = ToolCallUpdate::new(ToolCallId::new(TRUST_CALL), fields);
        let request = RequestPermissionRequest::new(self.session.clone(), call, options);
        self.permission(request).await
    }

    async fn permission(&self, request: RequestPermissionRequest) -> Option<Reply> {
        let answer: Result<RequestPermissionResponse, Error> =
            self.client.ask(PERMISSION, request, &self.mask, &self.over).await?;
        Some(match answer {
            Ok(answer) => match answer.outcome {
                RequestPermissionOutcome::Selected(selected) => {
                    Reply::Chosen(selected.option_id.0.to_string())
                }
                _ => Reply::Cancelled,
            },
            Err(error) => failed(&error),
        })
    }
}

/// Id and title of the call by which the question about trust is shown.
pub(super) const TRUST_CALL: &str = "trust";
pub(super) const TRUST_TITLE: &str = "Trust this workspace?";

fn question_call(question: &PendingQuestion) -> ToolCallId {
    ToolCallId::new(question.question_id.as_str())
}

fn failed(error: &Error) -> Reply {
    match error.code {
        ErrorCode::REQUEST_CANCELLED => Reply::Cancelled,
        _ => Reply::Unable(error.message.clone()),
    }
}

fn kind(kind: OptionKind) -> PermissionOptionKind {
    match kind {
        OptionKind::AllowOnce => PermissionOptionKind::AllowOnce,
        OptionKind::AllowAlways => PermissionOptionKind::AllowAlways,
        OptionKind::RejectOnce => PermissionOptionKind::RejectOnce,
        OptionKind::RejectAlways => PermissionOptionKind::RejectAlways,
    }
}
