//! Messages that a server sends unasked: notifications, log messages, and signs that something is wrong.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

#[expect(deprecated, reason = "servers of today ask for roots")]
use rmcp::model::{
    ClientConfig, ClientJsonRpcMessage, CreateMessageRequestMethod, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequestParams, ElicitResult, InputRequest, InputRequests, InputResponses,
    ListRootsResult, ProgressNotificationParam, ProgressToken, Root, ServerJsonRpcMessage,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, ErrorData};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use crate::call::CallOptions;
use crate::elicitation::{self, Answer, Elicitation, Wanted};
use crate::fault::ServerFault;
use crate::log::{LogSource, ServerLog};
use crate::sampling::{self, Sampled, Sampling, SamplingParts};

/// The most that a server asks the user during one call.
const ELICITATIONS: u32 = 20;

/// Signs that something is wrong with a connection, shared by its transport and those who wait for answers.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    signs: watch::Sender<Signs>,
    /// Cancelled when the transport is gone.
    closed: CancellationToken,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Signs {
    /// Messages that were too large to be read.
    pub oversized: u64,
    /// Answers to what was not asked.
    pub unexpected_answers: u64,
    /// Reason why the connection was given up.
    pub fault: Option<ServerFault>,
    /// Reason why a request was refused that was sent last of those that are. Whoever waits for its answer hears it first.
    pub refusal: Option<ServerFault>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Self { signs: watch::Sender::new(Signs::default()), closed: CancellationToken::new() }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Signs> {
        self.signs.subscribe()
    }

    pub(crate) fn now(&self) -> Signs {
        self.signs.borrow().clone()
    }

    /// Waits until the transport is gone.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Ties the end of the connection to a transport.
    pub(crate) fn watch<T>(&self, transport: T) -> Watched<T> {
        Watched { transport, _closed: self.closed.clone().drop_guard() }
    }

    pub(crate) fn oversized(&self) {
        self.signs.send_modify(|signs| signs.oversized += 1);
    }

    pub(crate) fn unexpected_answer(&self) {
        self.signs.send_modify(|signs| signs.unexpected_answers += 1);
    }

    /// The reason why the connection ends or was refused, if it was.
    pub(crate) fn fault(&self) -> Option<ServerFault> {
        let signs = self.signs.borrow();
        signs.fault.clone().or_else(|| signs.refusal.clone())
    }

    /// Notes why a request is refused.
    pub(crate) fn refuse(&self, fault: ServerFault) {
        self.signs.send_modify(|signs| signs.refusal = Some(fault));
    }

    /// Notes why the connection ends. The first reason counts.
    pub(crate) fn fail(&self, fault: ServerFault) {
        self.signs.send_modify(|signs| {
            signs.fault.get_or_insert(fault);
        });
    }
}

/// A transport whose end is noticed.
pub(crate) struct Watched<T> {
    transport: T,
    _closed: DropGuard,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.transport.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<ServerJsonRpcMessage>> + Send {
        self.transport.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.transport.close()
    }
}

/// Lists that have changed, by a server's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    pub tools: bool,
    pub resources: bool,
    pub prompts: bool,
}

impl Changed {
    pub(crate) fn any(self) -> bool {
        self.tools || self.resources || self.prompts
    }
}

/// Receives what a server sends unasked. However much comes, what is kept has a fixed size.
#[derive(Clone)]
pub(crate) struct Events {
    config: ClientConfig,
    folders: Arc<[PathBuf]>,
    changed: watch::Sender<Changed>,
    progress: ProgressReceivers,
    calls: Calls,
    log: ServerLog,
}

type ProgressReceivers = Arc<Mutex<HashMap<ProgressToken, mpsc::Sender<()>>>>;

impl Events {
    /// `folders` are the workspace folders that the server may know of.
    pub(crate) fn new(config: ClientConfig, folders: &[PathBuf], log: ServerLog) -> Self {
        Self {
            config,
            folders: folders.into(),
            changed: watch::Sender::new(Changed::default()),
            progress: Arc::default(),
            calls: Calls::default(),
            log,
        }
    }

    /// Sees lists that change from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<Changed> {
        self.changed.subscribe()
    }

    /// Takes the changes since the last call.
    pub(crate) fn take_changes(&self) -> Changed {
        self.changed.send_replace(Changed::default())
    }

    pub(crate) fn note_change(&self, note: impl FnOnce(&mut Changed)) {
        self.changed.send_modify(note);
    }

    /// Tells `receiver` when a request makes progress, until the registration is dropped.
    pub(crate) fn follow(&self, token: ProgressToken, receiver: mpsc::Sender<()>) -> Following {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), receiver);
        Following { progress: Arc::clone(&self.progress), token }
    }

    /// Notes that a call waits for its answer. The user, and the model, are asked by way of its options meanwhile.
    pub(crate) fn ask_during(&self, options: &CallOptions) -> QuestionRegistration {
        let open = watch::Sender::new(0);
        let subscriber = open.subscribe();
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let number = calls.last().map_or(0, |call| call.number + 1);
        let way =
            WayBack { questions: options.questions.clone(), samplings: options.samplings.clone(), open };
        calls.push(WaitingCall { number, way, asked: 0 });
        QuestionRegistration { calls: Arc::clone(&self.calls), number, open: subscriber }
    }

    /// Counts a question for the call that it is about.
    ///
    /// # Errors
    /// Says why nobody is asked.
    fn way_back(&self, about: About) -> Result<WayBack, String> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let call = match about {
            About::Call(number) => calls.iter_mut().find(|call| call.number == number),
            // Where several wait, the question could appear in the task of another one, so that it is for none of them.
            About::Unnamed if calls.len() > 1 => {
                return Err("several calls wait, and it does not say which one asks".to_owned());
            }
            About::Unnamed => calls.first_mut(),
        };
        let call = call.ok_or("no call waits for its answer")?;
        if call.asked == ELICITATIONS {
            return Err(format!("the call has asked {ELICITATIONS} times"));
        }
        call.asked += 1;
        Ok(call.way.clone())
    }

    /// Has the user asked; none if the question was given up.
    async fn elicit(
        &self,
        params: ElicitRequestParams,
        about: About,
        withdrawn: CancellationToken,
    ) -> Option<Answer> {
        let (message, wanted) = match Wanted::read(params) {
            Ok(asked) => asked,
            Err(problem) => {
                self.log.add(LogSource::Hub, &format!("the user was not asked: {problem}"));
                return Some(Answer::Declined);
            }
        };
        let way = self.way_back(about);
        let way = way.and_then(|way| match &way.questions {
            Some(questions) => Ok((questions.clone(), way.open)),
            None => Err("the request is none that may ask".to_owned()),
        });
        let (receiver, open) = match way {
            Ok(way) => way,
            Err(problem) => {
                self.log.add(LogSource::Hub, &format!("the user was not asked, as {problem}: {message}"));
                return Some(Answer::Declined);
            }
        };
        let (sender, answer) = oneshot::channel();
        self.log.add(LogSource::Hub, &format!("the user is asked: {message}"));
        let _open = OpenQuestion::new(open);
        if receiver.try_send(Elicitation { message, wanted, answer: sender }).is_err() {
            return Some(Answer::Declined);
        }
        let answer = tokio::select! {
            answer = answer => answer.ok(),
            () = withdrawn.cancelled() => None,
        };
        let what = match answer {
            Some(Answer::Accepted(_) | Answer::Visited) => "answered",
            Some(Answer::Declined) => "declined",
            None => "did not answer",
        };
        self.log.add(LogSource::Hub, &format!("the user {what}"));
        answer
    }

    /// Has a model asked.
    #[expect(deprecated, reason = "servers of today sample")]
    async fn sample(
        &self,
        params: CreateMessageRequestParams,
        about: About,
        withdrawn: CancellationToken,
    ) -> Result<CreateMessageResult, ErrorData> {
        if self.config.capabilities.sampling.is_none() {
            self.log
                .add(LogSource::Hub, "no model was asked: `sampling` is not on for it in your own mcp.json");
            return Err(ErrorData::method_not_found::<CreateMessageRequestMethod>());
        }
        let outcome = self.sampled(params, about, withdrawn).await;
        let what = match &outcome {
            Ok(_) => "a model has answered".to_owned(),
            Err(reason) => format!("no model has answered: {reason}"),
        };
        self.log.add(LogSource::Hub, &what);
        outcome.map(sampling::result).map_err(|reason| sampling::rejected(&reason))
    }

    #[expect(deprecated, reason = "servers of today sample")]
    async fn sampled(
        &self,
        params: CreateMessageRequestParams,
        about: About,
        withdrawn: CancellationToken,
    ) -> Result<Sampled, String> {
        let SamplingParts { system, messages, max_tokens } = SamplingParts::read(params)?;
        let way = self.way_back(about)?;
        let receiver = way.samplings.ok_or("the request is none that may ask")?;
        let _open = OpenQuestion::new(way.open);
        let (sender, answer) = oneshot::channel();
        let sampling = Sampling { system, messages, max_tokens, answer: sender };
        receiver.try_send(sampling).map_err(|_| "nobody answers, or too many requests wait")?;
        tokio::select! {
            answer = answer => answer.unwrap_or_else(|_| Err("the call is over".to_owned())),
            () = withdrawn.cancelled() => Err("it was withdrawn".to_owned()),
        }
    }

    /// Gets what a server wants before it goes on with a request.
    ///
    /// # Errors
    /// Says what it does not get.
    pub(crate) async fn give(
        &self,
        requests: InputRequests,
        asking: &QuestionRegistration,
    ) -> Result<InputResponses, String> {
        let about = About::Call(asking.number);
        // Whoever drops this withdraws the question.
        let withdrawn = CancellationToken::new();
        let mut responses = InputResponses::new();
        if requests.len() > ELICITATIONS as usize {
            return Err(format!("it asks more than {ELICITATIONS} things at once"));
        }
        for (name, request) in requests {
            let response = match request {
                InputRequest::Elicitation(request) => {
                    let answer = self.elicit(request.params, about, withdrawn.clone()).await;
                    serde_json::to_value(elicitation::result(answer))
                }
                InputRequest::CreateMessage(request) => {
                    let sampled = self.sample(request.params, about, withdrawn.clone()).await;
                    serde_json::to_value(sampled.map_err(|error| error.message.into_owned())?)
                }
                InputRequest::ListRoots(_) if self.config.capabilities.roots.is_some() => {
                    serde_json::to_value(self.roots())
                }
                _ => return Err("it asks for what it was not offered".to_owned()),
            };
            responses.insert(name, response.map_err(|error| error.to_string())?);
        }
        Ok(responses)
    }

    #[expect(deprecated, reason = "servers of today ask for roots")]
    fn roots(&self) -> ListRootsResult {
        let roots = self.folders.iter().filter_map(|folder| {
            let root = Root::new(Url::from_directory_path(folder).ok()?);
            Some(match folder.file_name() {
                Some(name) => root.with_name(name.to_string_lossy()),
                None => root,
            })
        });
        ListRootsResult::new(roots.collect())
    }
}

/// The call that a request of a server is about.
#[derive(Clone, Copy, Debug)]
enum About {
    /// The one that waits: messages name none.
    Unnamed,
    /// The one that it came in answer to.
    Call(u64),
}

/// How a call's user and model are asked.
#[derive(Clone)]
struct WayBack {
    questions: Option<mpsc::Sender<Elicitation>>,
    samplings: Option<mpsc::Sender<Sampling>>,
    /// The number of questions that are not answered.
    open: watch::Sender<u32>,
}

/// A call that waits for its answer.
struct WaitingCall {
    number: u64,
    way: WayBack,
    /// The number of questions so far, also of those that were withdrawn.
    asked: u32,
}

type Calls = Arc<Mutex<Vec<WaitingCall>>>;

/// The registration of a call that waits for its answer.
pub(crate) struct QuestionRegistration {
    calls: Calls,
    number: u64,
    /// The number of questions that the user has not answered.
    pub open: watch::Receiver<u32>,
}

impl Drop for QuestionRegistration {
    fn drop(&mut self) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|call| call.number != self.number);
    }
}

/// A question that the user has not answered.
struct OpenQuestion(watch::Sender<u32>);

impl OpenQuestion {
    fn new(open: watch::Sender<u32>) -> Self {
        open.send_modify(|open| *open += 1);
        Self(open)
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// The registration of a receiver of progress.
pub(crate) struct Following {
    progress: ProgressReceivers,
    token: ProgressToken,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.token);
    }
}

impl ClientHandler for Events {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    #[expect(deprecated, reason = "servers of today ask for roots")]
    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.roots())
    }

    #[expect(deprecated, reason = "servers of today sample")]
    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.sample(params, About::Unnamed, context.ct).await
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(elicitation::result(self.elicit(params, About::Unnamed, context.ct).await))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let receivers = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(receiver) = receivers.get(&params.progress_token) {
            // One that waits to be taken says as much as several.
            let _ = receiver.try_send(());
        }
    }

    #[expect(deprecated, reason = "servers of today send log messages")]
    async fn on_logging_message(
        &self,
        params: rmcp::model::LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = match &params.data {
            serde_json::Value::String(text) => text.clone(),
            data => data.to_string(),
        };
        let logger = params.logger.map(|name| format!("{name}: ")).unwrap_or_default();
        self.log.add(LogSource::Message, &format!("{:?}: {logger}{text}", params.level));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note_change(|changed| changed.tools = true);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note_change(|changed| changed.resources = true);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note_change(|changed| changed.prompts = true);
    }
}
