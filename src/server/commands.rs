//! Commands for any editor: `workspace/executeCommand`. Each command answers at once; a plain client is also shown what
//! came of it, for editors drop the answers of commands.
//!
//! Arguments are lenient: nothing, one text, or one object. Without an id, the newest task that fits is
//! meant; what waits for its user is found in branches too. But no field is passed over: one that is
//! misspelt would leave what was meant to the newest.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, Result};
use tower_lsp::ls_types::{ExecuteCommandParams, MessageType, ShowDocumentParams, Uri};

use super::answer_outcome::{answer_in_words, resume_after_answer};
use super::params::in_words;
use super::session::{MESSAGE, Session, WorkspaceServices};
use super::setup_questions::{self, SetupFields};
use super::task_document::{self, Sent};
use super::{browser, customization, engine_failure, failure, intake, restore_questions, review_diff};
use crate::view::{branch_name, outline};
use roo_engine::customization::Grant;
use roo_engine::engine::EngineError;
use roo_protocol::customization::{PendingKind, PendingTrust, TrustReport};
use roo_protocol::error::ErrorKind;
use roo_protocol::event::{OptionKind, Suggestion};
use roo_protocol::ids::{ApprovalId, CommandId, Digest, HunkId, QuestionId, TaskId};
use roo_protocol::review::{Hunk, HunkDecision};
use roo_protocol::task::{
    ALLOW_ONCE, ApprovalRespondParams, ContextItem, HistoryItem, PendingApproval, QuestionAnswerParams,
    REVIEW_ONCE, SendWhen, TaskForkParams, TaskForkResult, TaskSendParams, TaskSnapshot, TaskStartParams,
    TaskStartResult, TaskState,
};
use roo_protocol::tree::TreeNode;
use roo_text::render::{exact_line, one_line};
use roo_workspace::{file_uri, path_of};

/// The commands that are served.
pub(super) const NAMES: &[&str] = &[
    "roo.newTask",
    "roo.sendPrompt",
    "roo.openTask",
    "roo.send",
    "roo.approve",
    "roo.reviewInRefactorPreview",
    "roo.deny",
    "roo.answer",
    "roo.cancel",
    "roo.backgroundCommand",
    "roo.stopCommand",
    "roo.resume",
    "roo.fork",
    "roo.status",
    "roo.showDiff",
    "roo.showTree",
    "roo.openInBrowser",
    "roo.switchMode",
    "roo.selectProfile",
    "roo.restoreFiles",
    "roo.setUpModel",
    "roo.trust",
    "roo.trustWorkspace",
];

/// Outcome of a command.
struct CommandOutcome {
    /// For the client.
    value: Value,
    /// For the user of a plain client; none where something else shows it.
    message: Option<String>,
}

impl CommandOutcome {
    fn silent(value: Value) -> Self {
        Self { value, message: None }
    }

    fn told(value: Value, message: String) -> Self {
        Self { value, message: Some(message) }
    }
}

/// Allowed fields of a command's object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    task_id: Option<TaskId>,
    approval_id: Option<ApprovalId>,
    digest: Option<Digest>,
    question_id: Option<QuestionId>,
    option_id: Option<String>,
    hunk_ids: Vec<HunkId>,
    command_id: Option<CommandId>,
    text: Option<String>,
    mode: Option<String>,
    profile: Option<String>,
    when: SendWhen,
    seq: Option<u64>,
    images: Vec<String>,
}

impl Fields {
    /// Returns whether a task is meant: by its own id, by that of its request, or as any.
    fn means(&self, task: &TaskSnapshot) -> bool {
        self.task_id.as_ref().is_none_or(|id| *id == task.item.task_id || *id == task.root_id)
    }
}

/// Runs a command.
pub(super) async fn execute(session: &Arc<Session>, params: ExecuteCommandParams) -> Result<Value> {
    let outcome = match session.services().await {
        Ok(services) => run(session, services, &params).await,
        Err(error) => Err(error),
    };
    match &outcome {
        Ok(CommandOutcome { message: Some(message), .. }) => {
            tell(session, MessageType::INFO, message.clone())
        }
        Ok(_) => {}
        Err(error) => tell(session, MessageType::ERROR, error.message.clone().into_owned()),
    }
    outcome.map(|outcome| outcome.value)
}

/// Shows a plain client's user a message, without waiting for it.
fn tell(session: &Arc<Session>, kind: MessageType, message: String) {
    if !session.is_typed() {
        let this = Arc::clone(session);
        session.spawn(async move { this.tell(kind, &message).await });
    }
}

async fn run(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    params: &ExecuteCommandParams,
) -> Result<CommandOutcome> {
    let argument = params.arguments.first().unwrap_or(&Value::Null);
    check_fields(&params.command, argument)?;
    match params.command.as_str() {
        "roo.newTask" => new_task(session, services, argument).await,
        "roo.sendPrompt" => send_prompt(session, services, read(argument, "uri")?).await,
        "roo.openTask" => open_task(session, services, read(argument, "taskId")?).await,
        "roo.send" => send(services, read(argument, "text")?).await,
        "roo.approve" => respond(session, services, argument, OptionKind::AllowOnce).await,
        "roo.reviewInRefactorPreview" => {
            respond(session, services, &to_review(argument), OptionKind::AllowOnce).await
        }
        "roo.deny" => respond(session, services, argument, OptionKind::RejectOnce).await,
        "roo.answer" => answer(session, services, argument).await,
        "roo.cancel" => cancel(services, read(argument, "taskId")?).await,
        "roo.backgroundCommand" => background_command(services, read(argument, "taskId")?).await,
        "roo.stopCommand" => stop_command(services, read(argument, "commandId")?).await,
        "roo.resume" => resume(services, read(argument, "taskId")?).await,
        "roo.fork" => fork_task(session, services, read(argument, "taskId")?).await,
        "roo.status" => status(session, services).await,
        "roo.showDiff" => show_diff(session, services, read(argument, "approvalId")?).await,
        "roo.showTree" => show_tree(session, services, read(argument, "taskId")?).await,
        "roo.openInBrowser" => open_in_browser(session, services, read(argument, "taskId")?).await,
        "roo.switchMode" => switch_mode(services, read(argument, "mode")?).await,
        "roo.selectProfile" => select_profile(services, read(argument, "profile")?).await,
        "roo.restoreFiles" => restore_files(session, services, read(argument, "taskId")?),
        "roo.setUpModel" => Ok(set_up_model(session, services, read(argument, "provider")?)),
        "roo.trust" => trust(services).await,
        "roo.trustWorkspace" => trust_workspace(session, services, read(argument, "path")?).await,
        other => Err(Error::invalid_params(format!("there is no command '{other}'"))),
    }
}

/// The fields that a command takes; none for a command that looks at no argument.
fn fields_of(command: &str) -> Option<&'static [&'static str]> {
    Some(match command {
        "roo.newTask" => &["prompt", "mode", "profile", "images", "context"],
        "roo.sendPrompt" => &["uri", "approvalId", "digest"],
        "roo.openTask"
        | "roo.cancel"
        | "roo.resume"
        | "roo.showTree"
        | "roo.openInBrowser"
        | "roo.backgroundCommand" => &["taskId"],
        "roo.stopCommand" => &["commandId", "taskId"],
        "roo.send" => &["text", "taskId", "images", "when"],
        "roo.approve" | "roo.deny" => &["approvalId", "digest", "taskId", "optionId", "text", "hunkIds"],
        "roo.reviewInRefactorPreview" => &["approvalId", "digest", "taskId", "text"],
        "roo.answer" => &["text", "questionId", "taskId", "images"],
        "roo.showDiff" => &["approvalId", "taskId"],
        "roo.switchMode" => &["mode", "taskId"],
        "roo.selectProfile" => &["profile", "taskId"],
        "roo.restoreFiles" => &["taskId", "seq"],
        "roo.fork" => &["taskId", "seq", "text"],
        "roo.setUpModel" => &["provider", "model", "baseUrl", "profile"],
        "roo.trustWorkspace" => &["path", "digest", "refuse"],
        _ => return None,
    })
}

/// Refuses what a command would pass over.
fn check_fields(command: &str, argument: &Value) -> Result<()> {
    let (Some(known), Value::Object(given)) = (fields_of(command), argument) else { return Ok(()) };
    match given.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => Err(Error::invalid_params(format!(
            "{command} has no parameter `{}`; its parameters are {}",
            one_line(field, 64),
            known.join(", ")
        ))),
        None => Ok(()),
    }
}

/// Reads an argument; a bare text stands for the field `main`.
fn read<T: DeserializeOwned>(argument: &Value, main: &str) -> Result<T> {
    let object = match argument {
        Value::Null => json!({}),
        Value::String(text) => json!({ main: text }),
        Value::Object(_) => argument.clone(),
        _ => return Err(Error::invalid_params("the argument must be one string or one object")),
    };
    serde_path_to_error::deserialize(object).map_err(|error| Error::invalid_params(in_words(&error)))
}

async fn new_task(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    argument: &Value,
) -> Result<CommandOutcome> {
    let has_prompt = match argument {
        Value::Null => false,
        Value::Object(fields) => fields.contains_key("prompt"),
        _ => true,
    };
    if !has_prompt {
        return write_request(session, services, read(argument, "prompt")?).await;
    }
    let params: TaskStartParams = read(argument, "prompt")?;
    begin(session, services, params).await
}

/// Fields of `roo.newTask` without a prompt.
#[derive(Debug, Deserialize)]
struct AboutFields {
    #[serde(default)]
    context: Vec<ContextItem>,
}

/// Opens the document in which a request is written.
async fn write_request(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    fields: AboutFields,
) -> Result<CommandOutcome> {
    let path = task_document::add_context(session, services, fields.context).await?;
    let advice = "describe the task, then run \"Roo: send the prompt\"".to_owned();
    Ok(opened(session, path, advice).await)
}

/// Shows a document, or tells where it is.
async fn opened(session: &Session, path: PathBuf, advice: String) -> CommandOutcome {
    let shown = show(session, &path, true).await;
    let value = json!({ "path": path, "shown": shown });
    if shown {
        return CommandOutcome::silent(value);
    }
    CommandOutcome::told(value, format!("open {}: {advice}", path.display()))
}

/// Starts a task, and shows its document to who is shown nothing else.
async fn begin(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    params: TaskStartParams,
) -> Result<CommandOutcome> {
    let title = one_line(&params.prompt, MESSAGE);
    let started = start(session, services, params).await?;
    if !session.is_typed() {
        let (this, services, task) = (Arc::clone(session), Arc::clone(services), started.task_id.clone());
        session.spawn(async move {
            match task_document::open(&this, &services, &task).await {
                Ok(path) => {
                    // Beside the file that the user is in, where the editor knows such a thing.
                    show(&this, &path, false).await;
                }
                Err(error) => tracing::warn!(%error, "a task document can't be shown"),
            }
        });
    }
    Ok(CommandOutcome::told(json!(started), format!("started: {title}")))
}

/// Fields of `roo.sendPrompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentFields {
    uri: String,
    /// The approval that is refused with these words.
    approval_id: Option<ApprovalId>,
    digest: Option<Digest>,
}

async fn send_prompt(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    fields: DocumentFields,
) -> Result<CommandOutcome> {
    if let Some(approval_id) = fields.approval_id {
        let text = task_document::written(session, &fields.uri).await?;
        let argument = json!({ "approvalId": approval_id, "digest": fields.digest, "text": text });
        let outcome = respond(session, services, &argument, OptionKind::RejectOnce).await?;
        task_document::take(session, &fields.uri, text).await;
        return Ok(outcome);
    }
    match task_document::send_prompt(session, services, &fields.uri).await? {
        Sent::Told(task) => Ok(CommandOutcome::silent(json!({ "taskId": task }))),
        Sent::Started(params) => {
            let outcome = begin(session, services, params).await?;
            let (this, services) = (Arc::clone(session), Arc::clone(services));
            session.spawn(async move { task_document::empty_new_request(&this, &services).await });
            Ok(outcome)
        }
    }
}

async fn open_task(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    fields: Fields,
) -> Result<CommandOutcome> {
    let task = named_or_newest(services, fields.task_id, "to open", |_| true).await?;
    let path = task_document::open(session, services, &task).await?;
    Ok(opened(session, path, "the task is written there".to_owned()).await)
}

/// Starts a task; a client that knows events is attached to it.
pub(super) async fn start(
    session: &Arc<Session>,
    services: &WorkspaceServices,
    params: TaskStartParams,
) -> Result<TaskStartResult> {
    let started = services.engine.start(params).map_err(|error| engine_failure(&error, None))?;
    if session.is_typed() {
        let follower = services.engine.follow(&started.task_id, 0).await;
        let follower = follower.map_err(|error| engine_failure(&error, Some(&started.task_id)))?;
        session.subscriptions.begin(session.recipient(), follower, intake::answered());
    }
    Ok(started)
}

pub(super) async fn fork(
    session: &Arc<Session>,
    services: &WorkspaceServices,
    params: TaskForkParams,
) -> Result<TaskForkResult> {
    let task = params.task_id.clone();
    let forked = services.engine.fork(params).await.map_err(|error| engine_failure(&error, Some(&task)))?;
    if session.is_typed() && forked.folder.is_none() {
        let follower = services.engine.follow(&forked.task_id, 0).await;
        let follower = follower.map_err(|error| engine_failure(&error, Some(&forked.task_id)))?;
        session.subscriptions.begin(session.recipient(), follower, intake::answered());
    }
    Ok(forked)
}

async fn send(services: &WorkspaceServices, fields: Fields) -> Result<CommandOutcome> {
    let Some(text) = fields.text.filter(|text| !text.trim().is_empty()) else {
        return Err(Error::invalid_params("roo.send needs a `text`"));
    };
    let task_id = match fields.task_id {
        Some(task) => task,
        None => {
            let request = newest(services, "to talk to", |_| true).await?;
            // What one says next is for who has asked.
            let asking = nodes_in(services, &request, TaskState::Waiting).await.into_iter().next();
            asking.map_or(request.task_id, |node| node.id)
        }
    };
    let params = TaskSendParams { task_id: task_id.clone(), text, images: fields.images, when: fields.when };
    services.engine.send(params).await.map_err(|error| engine_failure(&error, Some(&task_id)))?;
    Ok(CommandOutcome::silent(json!({ "taskId": task_id })))
}

async fn respond(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    argument: &Value,
    kind: OptionKind,
) -> Result<CommandOutcome> {
    // A bare text is an approval's id, which begins with its request's, or else words for the model.
    let is_id = argument
        .as_str()
        .and_then(|text| text.split_once('.'))
        .is_some_and(|(request, _)| uuid::Uuid::try_parse(request).is_ok());
    let fields: Fields = read(argument, if is_id { "approvalId" } else { "text" })?;
    let mut waiting = pending_approvals(services, &fields).await?;
    let others = waiting.split_off(1.min(waiting.len()));
    let Some((root, approval)) = waiting.pop() else { return Err(no_approval()) };
    let option = match fields.option_id.clone() {
        Some(id) => id,
        None => match approval.options.iter().find(|option| option.kind == kind) {
            Some(option) => option.id.clone(),
            None => {
                return Err(Error::invalid_params(
                    "the approval has no such option; give the optionId of one that it has",
                ));
            }
        },
    };
    // To refuse what one has not seen does no harm, and what is chosen in a preview is seen there.
    let allows_unseen = option != REVIEW_ONCE
        && approval.options.iter().all(|known| known.id != option || known.kind.allows());
    if fields.digest.is_none() && allows_unseen {
        check_seen(session, &approval, &others)?;
    }
    if let Some(scope) =
        approval.options.iter().find(|known| known.id == option).and_then(|it| it.scope.as_ref())
        && !session.is_typed()
        && !session.shown_approvals.tell_scope(&approval, &option)
    {
        let message =
            format!("nothing was answered yet. {scope} Run the command again if that is what you want");
        return Err(failure(ErrorKind::Mismatch, message, None, "Show the scope before the answer is sent."));
    }
    if !fields.hunk_ids.is_empty() {
        return decide_hunks(session, services, &root, approval, &option, fields).await;
    }
    // Who allows the rest has decided on these before; who refuses the whole refuses them too.
    let allows_once =
        approval.options.iter().any(|known| known.id == option && known.kind == OptionKind::AllowOnce);
    let params = ApprovalRespondParams {
        opened: session.shown_approvals.has_in_full(&approval),
        approval_id: approval.approval_id.clone(),
        digest: fields.digest.unwrap_or(approval.digest),
        option_id: option,
        text: fields.text,
        hunks: if allows_once { session.review_drafts.answers(&approval) } else { vec![] },
    };
    submit_answer(session, services, &root, &approval.title, params).await
}

/// Answers an approval, and resumes its request where that is interrupted. `title` names the approval.
async fn submit_answer(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    root: &TaskId,
    title: &str,
    params: ApprovalRespondParams,
) -> Result<CommandOutcome> {
    let approval_id = params.approval_id.clone();
    let answer = customization::respond(session, services, params).await;
    let answer = answer.map_err(|error| engine_failure(&error, None))?;
    // An answer that was refused leaves the decisions, to be sent again.
    session.review_drafts.forget(&approval_id);
    let goes_on = resume_after_answer(session, services, root, &answer).await;
    Ok(CommandOutcome::told(json!(answer), answer_in_words(&answer, title, goes_on)))
}

/// Decides on single hunks of an edit. The approval is answered when each has its decision.
async fn decide_hunks(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    root: &TaskId,
    approval: PendingApproval,
    option: &str,
    fields: Fields,
) -> Result<CommandOutcome> {
    let files = services.engine.preview(&approval.approval_id).await;
    let files = files.map_err(|error| engine_failure(&error, None))?;
    let all: Vec<&Hunk> = files.iter().flat_map(|file| &file.hunks).collect();
    let kind = approval.options.iter().find(|known| known.id == option).map(|known| known.kind);
    let decision = match (kind, fields.text) {
        (Some(OptionKind::RejectOnce), text) => HunkDecision::Refuse { text },
        (Some(OptionKind::AllowOnce), None) => HunkDecision::Accept,
        (Some(OptionKind::AllowOnce), Some(text)) if fields.hunk_ids.len() == 1 => {
            HunkDecision::Edit { text }
        }
        (Some(OptionKind::AllowOnce), Some(_)) => {
            return Err(Error::invalid_params(
                "`text` replaces the lines of one change: give one of `hunkIds`",
            ));
        }
        _ => return Err(Error::invalid_params("single changes can only be allowed or denied once")),
    };
    let mut chosen = Vec::new();
    for id in &fields.hunk_ids {
        let found = all.iter().find(|hunk| hunk.hunk_id == *id).map(|hunk| Hunk::clone(hunk));
        chosen.push(found.ok_or_else(|| nothing(&format!("the approval has no change '{id}'")))?);
    }
    session.review_drafts.decide(&approval, &chosen, &decision);
    let answers = session.review_drafts.answers(&approval);
    let is_open = |hunk: &&Hunk| answers.iter().all(|answer| answer.hunk_id != hunk.hunk_id);
    let open: Vec<&HunkId> = all.iter().copied().filter(is_open).map(|hunk| &hunk.hunk_id).collect();
    if !open.is_empty() {
        let value =
            json!({ "accepted": false, "decided": all.len() - open.len(), "of": all.len(), "open": open });
        let left = open.len();
        let what = one_line(&approval.title, MESSAGE);
        let text = format!("{} of {} changes are decided, {left} left: {what}", all.len() - left, all.len());
        return Ok(CommandOutcome::told(value, text));
    }
    let params = ApprovalRespondParams {
        opened: session.shown_approvals.has_in_full(&approval),
        approval_id: approval.approval_id.clone(),
        digest: fields.digest.unwrap_or(approval.digest),
        option_id: ALLOW_ONCE.to_owned(),
        text: None,
        hunks: answers,
    };
    submit_answer(session, services, root, &approval.title, params).await
}

/// Refuses to allow what the user has not seen. A client that says no digest means the one approval that waits,
/// and that only as it was shown.
fn check_seen(
    session: &Session,
    approval: &PendingApproval,
    others: &[(TaskId, PendingApproval)],
) -> Result<()> {
    let refused = |message: String, hint| Err(failure(ErrorKind::Mismatch, message, None, hint));
    if !others.is_empty() {
        let message = format!(
            "nothing was allowed: {} approvals wait, so answer in the task document (roo.openTask)",
            others.len() + 1
        );
        return refused(message, "Give the approvalId of one and the digest that was shown.");
    }
    if session.shown_approvals.has(approval) {
        return Ok(());
    }
    let what = one_line(&approval.title, MESSAGE);
    // A plain client's user reads this; another client has shown nothing yet.
    if !session.is_typed() {
        session.shown_approvals.note(approval);
    }
    let message =
        format!("nothing was allowed yet: you had not seen {what}. Run the command again to allow it");
    refused(message, "Give the digest that was shown.")
}

/// An answer by what its user will choose in their editor.
fn to_review(argument: &Value) -> Value {
    let mut fields = match argument {
        Value::String(id) => json!({ "approvalId": id }),
        Value::Object(_) => argument.clone(),
        _ => json!({}),
    };
    fields["optionId"] = REVIEW_ONCE.into();
    fields
}

async fn answer(session: &Session, services: &WorkspaceServices, argument: &Value) -> Result<CommandOutcome> {
    let fields: Fields = match argument {
        Value::Number(_) | Value::Bool(_) => Fields::default(),
        _ => read(argument, "text")?,
    };
    let fits = |task: &TaskSnapshot| {
        task.question
            .as_ref()
            .is_some_and(|question| fields.question_id.as_ref().is_none_or(|id| *id == question.question_id))
            && fields.means(task)
    };
    let waiting = waiting(services, fits).await?.map(|waiting| waiting.task);
    let Some((root, question)) = waiting.and_then(|task| Some((task.root_id, task.question?))) else {
        return Err(nothing("no question waits for an answer"));
    };
    let text = bare_answer(argument, &question.suggestions).or(fields.text);
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
        return Err(Error::invalid_params("roo.answer needs a `text` or the number of a suggestion"));
    };
    let params = QuestionAnswerParams { question_id: question.question_id, text, images: fields.images };
    let answer = services.engine.answer(params, session.client_name()).await;
    let answer = answer.map_err(|error| engine_failure(&error, None))?;
    let goes_on = resume_after_answer(session, services, &root, &answer).await;
    Ok(CommandOutcome::told(json!(answer), answer_in_words(&answer, &question.text, goes_on)))
}

/// Reads an answer that is neither text nor object, as clients make of what is typed where they read arguments as JSON: the
/// number of a suggestion, or else what was typed.
fn bare_answer(argument: &Value, suggestions: &[Suggestion]) -> Option<String> {
    let place = argument.as_u64().and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
    match (place.and_then(|place| suggestions.get(place)), argument) {
        (Some(suggestion), _) => Some(suggestion.text.clone()),
        (None, Value::Number(_) | Value::Bool(_)) => Some(argument.to_string()),
        (None, _) => None,
    }
}

async fn cancel(services: &WorkspaceServices, fields: Fields) -> Result<CommandOutcome> {
    let task = named_or_newest(services, fields.task_id, "at work to cancel", is_at_work).await?;
    services.engine.cancel(&task).await.map_err(|error| engine_failure(&error, Some(&task)))?;
    Ok(CommandOutcome::silent(json!({ "taskId": task })))
}

/// Returns whether a request is at work. What was interrupted long ago is not what somebody wants to steer now.
fn is_at_work(item: &HistoryItem) -> bool {
    !item.state.is_final() && item.state != TaskState::Interrupted
}

async fn background_command(services: &WorkspaceServices, fields: Fields) -> Result<CommandOutcome> {
    let task = named_or_newest(services, fields.task_id, "at work", is_at_work).await?;
    let sent = services.engine.background_command(&task).await;
    sent.map_err(|error| engine_failure(&error, Some(&task)))?;
    Ok(CommandOutcome::silent(json!({ "taskId": task })))
}

async fn stop_command(services: &WorkspaceServices, fields: Fields) -> Result<CommandOutcome> {
    let Some(command) = fields.command_id else {
        return Err(Error::invalid_params(
            "roo.stopCommand needs the commandId of a command in the background",
        ));
    };
    let task = named_or_newest(services, fields.task_id, "at work", is_at_work).await?;
    let stopped = services.engine.stop_command(&task, command.clone()).await;
    stopped.map_err(|error| engine_failure(&error, Some(&task)))?;
    Ok(CommandOutcome::silent(json!({ "taskId": task, "commandId": command })))
}

async fn resume(services: &WorkspaceServices, fields: Fields) -> Result<CommandOutcome> {
    let stopped = |item: &HistoryItem| {
        matches!(item.state, TaskState::Interrupted | TaskState::Cancelled | TaskState::Failed)
    };
    let task = match fields.task_id {
        Some(task) => task,
        // After a crash somebody may be just opening what it has left.
        None => {
            let items = services.engine.list_settled().await.map_err(|error| engine_failure(&error, None))?;
            let newest = items.into_iter().find(stopped);
            newest.ok_or_else(|| nothing("there is no task to resume"))?.task_id
        }
    };
    services.engine.resume(&task).await.map_err(|error| engine_failure(&error, Some(&task)))?;
    Ok(CommandOutcome::told(json!({ "taskId": task }), "the task continues".to_owned()))
}

async fn fork_task(
    session: &Arc<Session>,
    services: &WorkspaceServices,
    fields: Fields,
) -> Result<CommandOutcome> {
    let task_id = match fields.task_id {
        Some(task) => task,
        None => newest(services, "to fork", |_| true).await?.task_id,
    };
    let params = TaskForkParams { task_id, seq: fields.seq, prompt: fields.text, worktree: false };
    let TaskForkResult { task_id, urid, seq, .. } = fork(session, services, params).await?;
    let told = format!("{urid} is forked at event {seq}");
    Ok(CommandOutcome::told(json!({ "taskId": task_id, "urid": urid, "seq": seq }), told))
}

async fn status(session: &Session, services: &WorkspaceServices) -> Result<CommandOutcome> {
    let items = list(services).await?;
    let count = |state| items.iter().filter(|item| item.state == state).count();
    let at_work = [TaskState::Running, TaskState::Paused, TaskState::Interrupted];
    let mut parts: Vec<String> = at_work
        .into_iter()
        .map(|state| (count(state), state.as_str()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let asks = |task: &TaskSnapshot| task.approval.is_some() || task.question.is_some();
    if let Some(WaitingTask { task, branch }) = waiting(services, asks).await? {
        let asks = match (&task.approval, &task.question) {
            (Some(approval), _) => {
                session.shown_approvals.note(approval);
                let what = one_line(&approval.title, MESSAGE);
                format!("{what} (roo.approve, roo.deny, roo.showDiff)")
            }
            (None, Some(question)) => format!("{} (roo.answer)", question.text),
            (None, None) => String::new(),
        };
        let who = branch.map(|branch| format!("{branch}: ")).unwrap_or_default();
        parts.push(format!("{} waiting: {who}{asks}", count(TaskState::Waiting).max(1)));
    }
    let mut text = if parts.is_empty() { "nothing is running".to_owned() } else { parts.join(", ") };
    let live = [TaskState::Running, TaskState::Waiting, TaskState::Paused];
    for item in items.iter().filter(|item| live.contains(&item.state)) {
        // Deleted in between, or one task alone: there is nothing to add.
        if let Ok(tree) = services.engine.tree(&item.task_id).await
            && tree.nodes.len() > 1
        {
            text = format!("{text}\n{}", outline(&tree.nodes));
        }
    }
    Ok(CommandOutcome::told(json!({ "text": text, "items": items }), text.clone()))
}

async fn show_diff(
    session: &Session,
    services: &WorkspaceServices,
    fields: Fields,
) -> Result<CommandOutcome> {
    let (task, approval) = pending_approval(services, &fields).await?;
    let (path, shown) = open_details(session, services, &task, &approval).await?;
    let value = json!({ "path": path, "shown": shown });
    if shown {
        return Ok(CommandOutcome::silent(value));
    }
    Ok(CommandOutcome::told(value, format!("the details are in {}", path.display())))
}

async fn show_tree(
    session: &Session,
    services: &WorkspaceServices,
    fields: Fields,
) -> Result<CommandOutcome> {
    let task = named_or_newest(services, fields.task_id, "to show", |_| true).await?;
    let tree = services.engine.tree(&task).await.map_err(|error| engine_failure(&error, Some(&task)))?;
    let path = write_beside(services, &task, "tree.txt", &format!("{}\n", tree.text)).await?;
    let shown = show(session, &path, true).await;
    let value = json!({ "nodes": tree.nodes, "text": tree.text, "path": path, "shown": shown });
    if shown {
        return Ok(CommandOutcome::silent(value));
    }
    Ok(CommandOutcome::told(value, format!("the tree is in {}", path.display())))
}

/// Opens the page for a browser, which is served from now on, or tells its address.
async fn open_in_browser(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    fields: Fields,
) -> Result<CommandOutcome> {
    let address = browser::address(session, services, fields.task_id.as_ref()).await;
    let address = address.map_err(|error| {
        let message = format!("the page for a browser can't be served: {error}");
        failure(ErrorKind::Storage, message, None, "Run `roo-lsp web` in a terminal.")
    })?;
    let shown = show_outside(session, &address).await;
    let value = json!({ "address": address, "shown": shown });
    if shown {
        return Ok(CommandOutcome::silent(value));
    }
    Ok(CommandOutcome::told(value, format!("open {address}")))
}

async fn switch_mode(services: &WorkspaceServices, fields: Fields) -> Result<CommandOutcome> {
    let Some(mode) = fields.mode else {
        let modes = customization::ask(services, |customization| customization.modes()).await?;
        let slugs: Vec<&str> = modes.iter().map(|mode| mode.slug.as_str()).collect();
        let message = format!("roo.switchMode needs the slug of a mode: {}", slugs.join(", "));
        return Err(Error::invalid_params(message));
    };
    let task = named_or_newest(services, fields.task_id, "to switch", |_| true).await?;
    services.engine.switch_mode(&task, &mode).await.map_err(|error| engine_failure(&error, Some(&task)))?;
    let value = json!({ "taskId": task, "mode": mode });
    Ok(CommandOutcome::told(value, format!("the next turn of the task is in the mode {mode}")))
}

async fn select_profile(services: &WorkspaceServices, fields: Fields) -> Result<CommandOutcome> {
    let Some(profile) = fields.profile else {
        let settings = services.engine.settings().await;
        let names: Vec<&str> = settings.profiles.keys().map(String::as_str).collect();
        let message = format!("roo.selectProfile needs the name of a profile: {}", names.join(", "));
        return Err(Error::invalid_params(message));
    };
    let task = named_or_newest(services, fields.task_id, "to change", |_| true).await?;
    let selected = services.engine.select_profile(&task, &profile).await;
    selected.map_err(|error| engine_failure(&error, Some(&task)))?;
    let value = json!({ "taskId": task, "profile": profile });
    Ok(CommandOutcome::told(value, format!("the task continues with the profile {profile}")))
}

/// Begins to ask: questions may stand for long.
fn restore_files(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    fields: Fields,
) -> Result<CommandOutcome> {
    let (Some(task), Some(seq)) = (fields.task_id, fields.seq) else {
        return Err(Error::invalid_params(
            "roo.restoreFiles needs `taskId` and `seq`, the number of a checkpoint or message",
        ));
    };
    let (this, services) = (Arc::clone(session), Arc::clone(services));
    session.spawn(async move { restore_questions::run(&this, &services, task, seq).await });
    Ok(CommandOutcome::silent(json!({})))
}

fn set_up_model(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    fields: SetupFields,
) -> CommandOutcome {
    let (this, services) = (Arc::clone(session), Arc::clone(services));
    session.spawn(async move { setup_questions::run(&this, &services, fields).await });
    CommandOutcome::silent(json!({}))
}

async fn trust(services: &WorkspaceServices) -> Result<CommandOutcome> {
    let report = customization::ask(services, |customization| customization.trust()).await?;
    let brings = report.brings.join(", ");
    let text = match &report {
        TrustReport { trusted: true, .. } => format!("this workspace is trusted{}", what_waits(&report)),
        _ if brings.is_empty() => "this workspace has no files that need trust".to_owned(),
        _ => format!("not trusted, so these have no effect: {brings} (roo.trustWorkspace)"),
    };
    Ok(CommandOutcome::told(json!(report), text))
}

/// Says which files still wait for an answer of the user, and how to give it; empty where none does.
fn what_waits(report: &TrustReport) -> String {
    let waiting = report.pending_approvals.iter().map(|PendingTrust { path, kind, widens, .. }| {
        let (path, widens) = (exact_line(path), widens.join("; "));
        match kind {
            PendingKind::File => format!(
                "; {path} waits for approval: {widens} (roo.trustWorkspace with this path says how to approve it)"
            ),
            PendingKind::Delegation => {
                format!("; a question about {path}: {widens}? (roo.trustWorkspace with this path says how to answer)")
            }
        }
    });
    waiting.collect()
}

/// Fields of `roo.trustWorkspace`: nothing for the workspace as a whole, else a file.
#[derive(Debug, Deserialize)]
struct TrustFields {
    path: Option<String>,
    digest: Option<Digest>,
    /// The answer no, for delegation among the modes of a file.
    #[serde(default)]
    refuse: bool,
}

async fn trust_workspace(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    fields: TrustFields,
) -> Result<CommandOutcome> {
    let (grant, text) = match fields.path {
        None => (Grant::Workspace, "this workspace is trusted".to_owned()),
        Some(path) => {
            // What nobody has seen is not approved: the digest says which text was.
            if fields.digest.is_none() {
                return Ok(show_pending(services, &path));
            }
            match fields.digest.filter(|_| fields.refuse) {
                Some(digest) => (
                    Grant::RefusedDelegation { digest },
                    format!("the modes of {path} may not delegate to each other"),
                ),
                None => {
                    let text = format!("{path} is approved in its current version");
                    (Grant::File { path, digest: fields.digest }, text)
                }
            }
        }
    };
    let report = customization::grant(session, services, grant).await?;
    let text = text + &what_waits(&report);
    Ok(CommandOutcome::told(json!(report), text))
}

/// Describes the pending approval of a file, and how to give it.
fn show_pending(services: &WorkspaceServices, path: &str) -> CommandOutcome {
    let report = services.customization.trust();
    let of_path = report.pending_approvals.iter().filter(|pending| pending.path == path);
    let text = |PendingTrust { digest, kind, widens, .. }: &PendingTrust| {
        let widens = widens.join("; ");
        match kind {
            PendingKind::File => format!(
                "{path} waits for approval: {widens}. To approve its current version, run roo.trustWorkspace with its path and the digest {digest}"
            ),
            PendingKind::Delegation => format!(
                "a question about {path}: {widens}? To allow it, run roo.trustWorkspace with its path and the digest {digest}, and with `refuse: true` for no"
            ),
        }
    };
    let texts: Vec<String> = of_path.map(text).collect();
    let text = match texts.is_empty() {
        true => format!("nothing in {path} waits for approval"),
        false => texts.join("; "),
    };
    CommandOutcome::told(json!(report), text)
}

/// Writes what an approval is about to a file beside its request's log: of files a unified diff, which the
/// lines of its head don't hinder. Opens it; whether the editor did.
pub(super) async fn open_details(
    session: &Session,
    services: &WorkspaceServices,
    task: &TaskId,
    approval: &PendingApproval,
) -> Result<(PathBuf, bool)> {
    let files = services.engine.masked_preview(&approval.approval_id).await.unwrap_or_default();
    let roots: Vec<PathBuf> = services.engine.workspace().roots().paths().map(PathBuf::from).collect();
    let name_of = |uri: &str| {
        let path = path_of(uri).unwrap_or_else(|| PathBuf::from(uri));
        let below = roots.iter().find_map(|root| path.strip_prefix(root).ok());
        below.unwrap_or(&path).to_string_lossy().into_owned()
    };
    let (subject, advice) = match files.iter().any(|file| !file.hunks.is_empty()) {
        false => (approval.subject.clone(), ""),
        true => (
            review_diff::render(&files, name_of),
            "# Code actions accept or refuse the change at the cursor. Its + lines may be changed first.\n",
        ),
    };
    let (title, reason) = (&approval.title, &approval.reason);
    let text = format!("# {title}\n# {reason}\n{advice}\n{}\n", subject.trim_end());
    let path = write_beside(services, task, &document_name(&approval.approval_id), &text).await?;
    let shown = show(session, &path, true).await;
    // Where an editor opens nothing, its user is told the path.
    session.shown_approvals.note_in_full(approval);
    Ok((path, shown))
}

fn document_name(approval: &ApprovalId) -> String {
    format!("approval-{approval}.diff")
}

/// The path that [`open_details`] writes to for an approval; none where the id names no task.
pub(super) fn document_of(services: &WorkspaceServices, approval: &ApprovalId) -> Option<PathBuf> {
    let (task, _) = approval.as_str().rsplit_once('.')?;
    let request = services.directory.request(&TaskId::new(task).root());
    Some(request.path().join(document_name(approval)))
}

/// Writes a file beside the log of the request that a task belongs to.
async fn write_beside(
    services: &WorkspaceServices,
    task: &TaskId,
    name: &str,
    text: &str,
) -> Result<PathBuf> {
    let path = services.directory.request(&task.root()).path().join(name);
    match tokio::fs::write(&path, text).await {
        Ok(()) => Ok(path),
        Err(error) => {
            let message = format!("can't write {}: {error}", path.display());
            Err(failure(ErrorKind::Storage, message, Some(task.clone()), "Check the state directory."))
        }
    }
}

/// Opens a file in the editor, in the user's sight or beside it; whether it did.
pub(super) async fn show(session: &Session, path: &std::path::Path, take_focus: bool) -> bool {
    if !session.negotiated().is_some_and(|negotiated| negotiated.shows_documents) {
        return false;
    }
    let Ok(uri) = file_uri(path).parse::<Uri>() else { return false };
    let params = ShowDocumentParams { uri, external: None, take_focus: Some(take_focus), selection: None };
    session.client.show_document(params).await.unwrap_or(false)
}

/// Has the client open an address in the user's browser; whether it did.
async fn show_outside(session: &Session, address: &str) -> bool {
    if !session.negotiated().is_some_and(|negotiated| negotiated.shows_documents) {
        return false;
    }
    let Ok(uri) = address.parse::<Uri>() else { return false };
    let params = ShowDocumentParams { uri, external: Some(true), take_focus: Some(true), selection: None };
    session.client.show_document(params).await.unwrap_or(false)
}

async fn list(services: &WorkspaceServices) -> Result<Vec<HistoryItem>> {
    let list = services.engine.list(None).await.map_err(|error| engine_failure(&error, None))?;
    Ok(list.items)
}

/// The newest request that fits.
async fn newest(
    services: &WorkspaceServices,
    what: &str,
    fits: impl Fn(&HistoryItem) -> bool,
) -> Result<HistoryItem> {
    let items = list(services).await?;
    items.into_iter().find(|item| fits(item)).ok_or_else(|| nothing(&format!("there is no task {what}")))
}

/// The task that is named, or else the newest request that fits.
async fn named_or_newest(
    services: &WorkspaceServices,
    named: Option<TaskId>,
    what: &str,
    fits: impl Fn(&HistoryItem) -> bool,
) -> Result<TaskId> {
    match named {
        Some(task) => Ok(task),
        None => Ok(newest(services, what, fits).await?.task_id),
    }
}

/// A task that waits for its user.
struct WaitingTask {
    task: TaskSnapshot,
    /// The name of the branch; none for the request's own task.
    branch: Option<String>,
}

/// The newest task that waits and fits, whichever branch it is: those that run before those that are
/// interrupted.
async fn waiting(
    services: &WorkspaceServices,
    fits: impl Fn(&TaskSnapshot) -> bool,
) -> Result<Option<WaitingTask>> {
    Ok(all_waiting(services, fits, 1).await?.into_iter().next())
}

/// The tasks that wait and fit, newest first and at most so many. Those that are interrupted only where none runs.
async fn all_waiting(
    services: &WorkspaceServices,
    fits: impl Fn(&TaskSnapshot) -> bool,
    most: usize,
) -> Result<Vec<WaitingTask>> {
    let items = list(services).await?;
    let mut found = Vec::new();
    for state in [TaskState::Waiting, TaskState::Interrupted] {
        if !found.is_empty() {
            break;
        }
        for item in items.iter().filter(|item| item.state == state) {
            for node in nodes_in(services, item, state).await {
                match services.engine.get(&node.id).await {
                    Ok(task) if fits(&task) => {
                        let branch = node.parent_id.is_some().then(|| branch_name(&node));
                        found.push(WaitingTask { task, branch });
                        if found.len() == most {
                            return Ok(found);
                        }
                    }
                    // Deleted in between, perhaps by another server.
                    Ok(_) | Err(EngineError::NotFound { .. }) => {}
                    Err(error) => tracing::warn!(task = %node.id, %error, "a task can't be read"),
                }
            }
        }
    }
    Ok(found)
}

/// The tasks of a request that are in a state, parents before children.
async fn nodes_in(services: &WorkspaceServices, request: &HistoryItem, state: TaskState) -> Vec<TreeNode> {
    match services.engine.tree(&request.task_id).await {
        Ok(tree) => tree.nodes.into_iter().filter(|node| node.state == state).collect(),
        Err(EngineError::NotFound { .. }) => vec![],
        Err(error) => {
            tracing::warn!(task = %request.task_id, %error, "a tree can't be read");
            vec![]
        }
    }
}

async fn pending_approval(
    services: &WorkspaceServices,
    fields: &Fields,
) -> Result<(TaskId, PendingApproval)> {
    pending_approvals(services, fields).await?.into_iter().next().ok_or_else(no_approval)
}

/// The approvals that may be meant, the newest first.
async fn pending_approvals(
    services: &WorkspaceServices,
    fields: &Fields,
) -> Result<Vec<(TaskId, PendingApproval)>> {
    let fits = |task: &TaskSnapshot| {
        task.approval
            .as_ref()
            .is_some_and(|approval| fields.approval_id.as_ref().is_none_or(|id| *id == approval.approval_id))
            && fields.means(task)
    };
    let found = all_waiting(services, fits, usize::MAX).await?.into_iter().map(|waiting| waiting.task);
    Ok(found.filter_map(|task| Some((task.root_id, task.approval?))).collect())
}

fn no_approval() -> Error {
    nothing("no approval waits for an answer")
}

fn nothing(message: &str) -> Error {
    failure(ErrorKind::NotFound, message.to_owned(), None, "roo.status lists them.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_an_object_or_nothing_is_read() {
        let fields: Fields = read(&json!("hello"), "text").unwrap();
        assert_eq!(fields.text.as_deref(), Some("hello"));
        let fields: Fields = read(&json!({ "taskId": "t", "other": 1 }), "text").unwrap();
        assert_eq!(fields.task_id, Some(TaskId::new("t")));
        let fields: Fields = read(&Value::Null, "text").unwrap();
        assert!(fields.text.is_none());
    }

    #[test]
    fn a_number_is_the_place_of_a_suggestion_or_the_answer_itself() {
        let suggestion = |text: &str| Suggestion { text: text.to_owned(), mode: None };
        let suggestions = ["80", "443"].map(suggestion);
        let cases = [
            (json!(1), Some("80")),
            (json!(2), Some("443")),
            (json!(0), Some("0")),
            (json!(3), Some("3")),
            (json!(8080), Some("8080")),
            (json!(-1), Some("-1")),
            (json!(3.5), Some("3.5")),
            (json!(true), Some("true")),
            (json!("1"), None),
            (json!({ "text": "1" }), None),
            (Value::Null, None),
        ];
        for (argument, text) in cases {
            assert_eq!(bare_answer(&argument, &suggestions).as_deref(), text, "{argument}");
        }
    }

    #[test]
    fn every_command_that_acts_takes_its_own_fields_alone() {
        for command in NAMES.iter().filter(|name| !matches!(**name, "roo.status" | "roo.trust")) {
            assert!(fields_of(command).is_some(), "{command}");
            assert!(check_fields(command, &json!({ "taskID": "t" })).is_err(), "{command}");
            assert!(
                check_fields(command, &Value::Null).is_ok() && check_fields(command, &json!("t")).is_ok()
            );
        }
        for (command, argument) in [
            (
                "roo.approve",
                json!({ "approvalId": "t.a1", "digest": null, "optionId": "allow_once", "text": "x", "taskId": "t" }),
            ),
            ("roo.send", json!({ "taskId": "t", "text": "x", "when": "now", "images": [] })),
            ("roo.newTask", json!({ "prompt": "x", "context": [], "mode": "ask" })),
            ("roo.trustWorkspace", json!({ "path": ".roomodes", "digest": null })),
        ] {
            assert!(check_fields(command, &argument).is_ok(), "{command}");
        }
    }

    #[test]
    fn anything_else_is_an_error_of_the_arguments() {
        for argument in [json!(1), json!([]), json!({ "text": 1 })] {
            let error = read::<Fields>(&argument, "text").unwrap_err();
            assert_eq!(error.code.code(), -32602, "{argument}");
        }
    }
}
