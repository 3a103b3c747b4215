//! A task as the servers see it that it calls: they may ask its user, and have its model asked (*sampling*). The latter asks
//! the user as well, and is bounded by a budget and by what the request may cost.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, oneshot};
use tokio_util::sync::CancellationToken;

use super::actor_message::Report;
use super::effect_context::EffectContext;
use super::hook_dispatch::{self, HookDispatch};
use super::reporter::Reporter;
use super::services::EngineServices;
use super::task::{Input, SAMPLING_REQUESTS, SamplingTally, Task};
use super::tree::{BudgetLeft, Tree};
use crate::server_tools::{
    CallingTask, DECLINE, SampledText, SamplingAnswer, SamplingError, SamplingRequest, ServerQuestion,
};
use roo_catalog::ToolProtocol;
use roo_model::parser::StreamEvent;
use roo_model::prompts::sampling::{self, SamplingInput};
use roo_model::providers::{
    Finish, Item, Items, Model, ModelError, ModelErrorKind, ModelRequest, Output, Rendered, SAMPLING_MODE,
};
use roo_protocol::task::Usage;
use roo_text::render::{one_line, visible};

/// The answers by which the user allows a request.
const ALLOW_ONCE: &str = "Allow this request";
const ALLOW_ALL: &str = "Allow all requests of this server in this task";

/// Fewest bytes of a token: what a request may take is rather overestimated.
const TOKEN_BYTES: usize = 2;
/// The longest answer that is read, in bytes for each token that it may have.
const ANSWER_BYTES: u64 = 16;
/// The longest name of a server in a question, in characters.
const NAME: usize = 200;

/// The task of a call.
pub(super) struct Caller {
    reporter: Reporter,
    services: Arc<EngineServices>,
    hook_dispatch: Arc<HookDispatch>,
    profile: String,
    cancel: CancellationToken,
    /// What is left, kept as it is used: a call's requests come one after another.
    left: Mutex<Left>,
}

/// What servers may still use.
struct Left {
    tally: SamplingTally,
    /// Of the whole request.
    budget: BudgetLeft,
}

impl Caller {
    pub(super) fn new(task: &Task, tree: &Tree, around: &EffectContext, reporter: &Reporter) -> Self {
        Self {
            reporter: reporter.clone(),
            services: Arc::clone(&around.services),
            hook_dispatch: Arc::new(HookDispatch::new(task, around)),
            profile: task.settings.profile.clone(),
            cancel: around.cancel.clone(),
            left: Mutex::new(Left { tally: task.sampling.clone(), budget: tree.budget_left(task) }),
        }
    }

    /// Tells hooks that the user is waited for. Nobody waits for them.
    fn notify(&self, message: String) {
        let (services, hook_dispatch) = (Arc::clone(&self.services), Arc::clone(&self.hook_dispatch));
        let cancel = self.cancel.clone();
        let unwaited = services.unwaited_hooks.others.clone();
        unwaited.spawn(async move {
            let told = async {
                let hooks = hook_dispatch::hooks_of(&services).await;
                hook_dispatch.notify_of_server(&hooks, &message).await;
            };
            tokio::select! {
                () = cancel.cancelled() => {}
                () = told => {}
            }
        });
    }

    /// Asks the user until the answer is one of those that are offered. Returns whether all requests of the server in this
    /// task are allowed; none where this one is not.
    async fn permission(&self, text: &str, withdrawn: &CancellationToken) -> Option<bool> {
        let suggestions = [ALLOW_ONCE, ALLOW_ALL, DECLINE].map(str::to_owned).to_vec();
        let mut note = String::new();
        loop {
            let question = ServerQuestion {
                text: format!("{text}{note}"),
                suggestions: suggestions.clone(),
                secret: false,
            };
            match self.ask(question, Box::pin(withdrawn.cancelled())).await?.as_str() {
                ALLOW_ONCE => return Some(false),
                ALLOW_ALL => return Some(true),
                DECLINE => return None,
                _ => note = format!("\n\nAnswer with one of: {}.", suggestions.join(", ")),
            }
        }
    }

    async fn sample_for(
        &self,
        request: SamplingRequest,
        withdrawn: &CancellationToken,
    ) -> Result<SamplingAnswer, SamplingError> {
        let request = shown(request);
        let mut left = self.left.lock().await;
        let begin = prompt_of(&request);
        let tokens = (begin.len() + sampling::system().len()) / TOKEN_BYTES;
        let tokens = (tokens as u64).saturating_add(request.max_tokens);
        if let Some(reason) = left.tally.refusal(tokens).or_else(|| spent(left.budget)) {
            return Err(SamplingError::Spent(reason));
        }
        // Whatever the user is asked about must be possible.
        let model =
            self.services.model(&self.profile).map_err(|error| SamplingError::Failed(error.message))?;
        let allow_all = match left.tally.allows(&request.server) {
            true => false,
            false => {
                let text = question(&request, &self.profile, left.tally.requests(), tokens);
                self.permission(&text, withdrawn).await.ok_or(SamplingError::Declined)?
            }
        };
        if withdrawn.is_cancelled() || self.cancel.is_cancelled() {
            return Err(SamplingError::Withdrawn);
        }
        left.tally.begin(&request.server, tokens, allow_all);
        left.budget.requests = left.budget.requests.map(|requests| requests.saturating_sub(1));
        let server = request.server.clone();
        let asked = transcript(&request);
        let started = Input::SamplingStarted { server: server.clone(), asked, tokens, allow_all };
        self.reporter.send(Report::Progress(started)).await;
        let mut used = Usage::default();
        let answered = tokio::select! {
            biased;
            () = withdrawn.cancelled() => Err(SamplingError::Withdrawn),
            () = self.cancel.cancelled() => Err(SamplingError::Withdrawn),
            answered = self.answer(&*model, begin, request.max_tokens, tokens, &mut used) => {
                answered.map_err(|error| SamplingError::Failed(error.message))
            }
        };
        // What was cut off may have taken more than is known yet.
        let told = used.tokens_in + used.tokens_out + used.cache_reads + used.cache_writes;
        let taken = Some(told).filter(|told| *told > 0 && answered.is_ok());
        left.tally.end(taken);
        left.budget.cost_usd = left.budget.cost_usd.map(|cost| (cost - used.cost_usd.max(0.0)).max(0.0));
        let outcome = match &answered {
            Ok(answer) => SampledText::Answer(answer.text.clone()),
            Err(error) => SampledText::Failure(error.to_string()),
        };
        self.reporter.send(Report::Progress(Input::SamplingEnded { server, taken, outcome, used })).await;
        answered
    }

    /// Asks the model. What was used is left in `used` even when it fails.
    async fn answer(
        &self,
        model: &dyn Model,
        prompt: String,
        max_tokens: u64,
        tokens: u64,
        used: &mut Usage,
    ) -> Result<SamplingAnswer, ModelError> {
        let request = ModelRequest {
            system: sampling::system().into(),
            items: Items::from(vec![Item::User { text: prompt, images: vec![] }]),
            rendered: Rendered::default(),
            tail: None,
            tools: [].into(),
            // No tools are declared.
            protocol: ToolProtocol::Xml,
            mode: SAMPLING_MODE.to_owned(),
            max_tokens: Some(max_tokens),
            leaves_out_images: false,
        };
        let begun = match self.services.queue(&self.profile, tokens) {
            Some(queued) => Some(queued.begin().await),
            None => None,
        };
        let _connection = self.services.descriptors.model().await;
        let outcome = read_answer(model, request, max_tokens, used).await;
        self.services.ended(&self.profile, begun, used, outcome.as_ref().err());
        outcome
    }
}

impl CallingTask for Caller {
    fn ask<'a>(
        &'a self,
        question: ServerQuestion,
        withdrawn: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            self.notify(question.text.clone());
            let (sender, answer) = oneshot::channel();
            self.reporter.send(Report::ServerAsked(question, sender)).await;
            tokio::select! {
                biased;
                answer = answer => answer.ok(),
                () = withdrawn => {
                    self.reporter.send(Report::Progress(Input::ServerQuestionOver)).await;
                    None
                }
            }
        })
    }

    fn sample<'a>(
        &'a self,
        request: SamplingRequest,
        withdrawn: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<SamplingAnswer, SamplingError>> {
        Box::pin(async move {
            let over = CancellationToken::new();
            let sampled = self.sample_for(request, &over);
            tokio::pin!(sampled);
            tokio::select! {
                biased;
                answered = &mut sampled => answered,
                () = withdrawn => {
                    over.cancel();
                    sampled.await
                }
            }
        })
    }
}

/// The request as the user is shown it, which is how the model gets it: nothing that can't be seen is allowed unseen.
fn shown(request: SamplingRequest) -> SamplingRequest {
    let visible = |text: String| visible(&text).into_owned();
    SamplingRequest {
        server: one_line(&request.server, NAME),
        system: request.system.map(visible),
        messages: request
            .messages
            .into_iter()
            .map(|mut message| {
                message.text = visible(message.text);
                message
            })
            .collect(),
        max_tokens: request.max_tokens,
    }
}

fn prompt_of(request: &SamplingRequest) -> String {
    let messages: Vec<(bool, &str)> =
        request.messages.iter().map(|message| (message.by_model, message.text.as_str())).collect();
    sampling::request(&SamplingInput {
        server: &request.server,
        system: request.system.as_deref(),
        messages: &messages,
        max_tokens: request.max_tokens,
    })
}

/// The reason why a request has nothing left for servers.
fn spent(budget: BudgetLeft) -> Option<String> {
    let is_spent = budget.requests == Some(0) || budget.cost_usd.is_some_and(|cost| cost <= 0.0);
    is_spent.then(|| "the limit of the user's request is reached".to_owned())
}

/// The server's words. No line of them passes for one of ours.
fn transcript(request: &SamplingRequest) -> String {
    let system = request.system.iter().map(|text| ("System prompt", text));
    let messages = request
        .messages
        .iter()
        .map(|message| (if message.by_model { "Assistant" } else { "User" }, &message.text));
    let part = |(whose, text): (&str, &String)| {
        let lines: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
        format!("{whose}:\n{}", lines.join("\n"))
    };
    system.chain(messages).map(part).collect::<Vec<_>>().join("\n\n")
}

fn question(request: &SamplingRequest, profile: &str, before: u32, tokens: u64) -> String {
    let SamplingRequest { server, max_tokens, .. } = request;
    format!(
        "The MCP server {server} wants the model of this task to write a text for it.\n\n{}\n\nThe model (profile {profile}) gets \
         this and nothing of your task; the server gets the answer, of at most {max_tokens} tokens. All of it takes at most \
         about {tokens} tokens, at your cost. It is request {} of at most {SAMPLING_REQUESTS} in this task.",
        transcript(request),
        before.saturating_add(1)
    )
}

/// Reads an answer. What was used is left in `used` even when it fails.
async fn read_answer(
    model: &dyn Model,
    request: ModelRequest,
    max_tokens: u64,
    used: &mut Usage,
) -> Result<SamplingAnswer, ModelError> {
    let longest = usize::try_from(max_tokens.saturating_mul(ANSWER_BYTES)).unwrap_or(usize::MAX);
    let (mut text, mut thought) = (String::new(), 0);
    let mut stream = model.stream(request);
    let answer = |text, is_cut| SamplingAnswer { text, model: model.origin().to_owned(), is_cut };
    while let Some(output) = stream.next().await {
        match output? {
            Output::Event(StreamEvent::Text(piece)) => text.push_str(&piece),
            Output::Event(StreamEvent::Thinking(piece)) => thought += piece.len(),
            Output::Event(_) => {}
            Output::Usage(newest) => *used = newest,
            Output::Finished(Finish::Done) => return Ok(answer(text, false)),
            Output::Finished(Finish::Length) => return Ok(answer(text, true)),
            Output::Finished(Finish::Refused) => {
                let message = "the provider refused to answer".to_owned();
                return Err(ModelError { kind: ModelErrorKind::Invalid, message });
            }
        }
        // Of a model that knows no limit.
        if text.len() + thought > longest {
            text.truncate(text.floor_char_boundary(longest));
            return Ok(answer(text, true));
        }
    }
    let message = "the model's answer was cut off before its end".to_owned();
    Err(ModelError { kind: ModelErrorKind::Cut, message })
}
