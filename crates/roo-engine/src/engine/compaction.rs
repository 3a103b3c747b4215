//! The effect that shortens a conversation: hooks are asked, and a model for a summary.

use std::time::Duration;

use futures_util::StreamExt as _;

use super::effect_context::EffectContext;
use super::hook_dispatch::{CompactTrigger, HookDispatch};
use super::instructions::{Instructions, definitions_size};
use super::services::EngineServices;
use super::task::{
    Compaction, CompactionOutcome, FrameShare, RequestFrame, Task, longest_summary, spoken_before, turns,
};
use roo_catalog::ToolProtocol;
use roo_formats::config::Profile;
use roo_model::parser::StreamEvent;
use roo_model::prompts::condense;
use roo_model::providers::{
    Finish, Item, Items, Model, ModelError, ModelErrorKind, ModelRequest, Output, Rendered, SUMMARY_MODE,
};
use roo_protocol::context::ShorteningMethod;
use roo_protocol::task::Usage;

/// The longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 256 << 10;
/// Bytes of a token, for a model that nothing is known of: fewer than in most texts.
const TOKEN_BYTES: u64 = 2;
/// Bytes of a request for a summary beside the turns.
const INSTRUCTIONS: u64 = 2_500;

/// Bytes of a word with the space behind it, about.
const WORD: usize = 8;
/// The fewest and the most words that a model may be asked for.
const MIN_WORDS: usize = 100;
const MAX_WORDS: usize = 1_000;
/// The time before each further attempt, where the endpoint doesn't say it.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// The longest time that an endpoint may ask to wait. After more, there is no summary.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// What a profile says of the length of requests.
pub(super) fn limits(profile: &Profile) -> RequestFrame {
    RequestFrame {
        window: profile.context_window(),
        answer: profile.max_tokens,
        threshold: profile.condense.threshold,
        condense: profile.condense.is_on,
        ..RequestFrame::default()
    }
}

/// Estimates how much of the window of a profile's model these instructions take; none where the window isn't known.
pub fn instructions_share(profile: &Profile, instructions: &Instructions) -> Option<FrameShare> {
    let frame = RequestFrame {
        system: instructions.system.len() as u64,
        tools: definitions_size(&instructions.tools, profile.tool_protocol()),
        ..limits(profile)
    };
    frame.share()
}

/// A shortening, with what it needs of the state at its begin.
pub(super) struct CompactionRun {
    compaction: Compaction,
    hook_dispatch: HookDispatch,
    /// The models that are asked for a summary, one after another until there is one; none where there is too little
    /// to summarise.
    requests: Vec<SummaryRequest>,
}

struct SummaryRequest {
    /// The profile of the model.
    profile: String,
    /// The turns to summarise, as far as they fit its window.
    turns: String,
    /// The most words that the summary may have.
    words: usize,
}

impl CompactionRun {
    pub(super) fn new(compaction: Compaction, task: &Task, around: &EffectContext) -> Self {
        let profiles = &around.services.settings.profiles;
        let own = &task.settings.profile;
        let named = profiles.get(own).and_then(|profile| profile.condense.profile.as_ref());
        let is_summary = compaction.method == ShorteningMethod::Summary;
        let cut = compaction.cut.filter(|_| is_summary);
        let spoken = cut.map(|cut| spoken_before(task, cut));
        let longest = longest_summary(&task.context, &task.conversation);
        let words = (longest / WORD).clamp(MIN_WORDS, MAX_WORDS);
        let request = |profile: &String| {
            let limits = profiles.get(profile).map(limits).unwrap_or_default();
            let longest = task.context.summary_request_bytes(limits, profile == own);
            let longest = usize::try_from(longest.saturating_sub(INSTRUCTIONS)).unwrap_or(usize::MAX);
            let turns = turns(spoken.as_ref()?, longest);
            Some(SummaryRequest { profile: profile.clone(), turns, words })
        };
        // The task's own model is used where the other one isn't available.
        let asked = named.into_iter().chain(named.is_none_or(|named| named != own).then_some(own));
        let requests = asked.filter_map(request).collect();
        Self { compaction, hook_dispatch: HookDispatch::new(task, around), requests }
    }

    /// Asks hooks and the model.
    pub(super) async fn run(self, services: &EngineServices) -> (CompactionOutcome, Usage) {
        let mut used = Usage::default();
        let trigger = match self.compaction.is_manual {
            true => CompactTrigger::Manual,
            false => CompactTrigger::Automatic,
        };
        if let Some(refusal) = self.hook_dispatch.before_shortening(trigger).await {
            return (CompactionOutcome::Refused(refusal), used);
        }
        let outcome = match (self.compaction.method, &*self.requests) {
            (ShorteningMethod::Placeholders | ShorteningMethod::Outline, _) => CompactionOutcome::Agreed,
            (ShorteningMethod::Summary, []) => {
                CompactionOutcome::Failed("There is too little to summarise.".to_owned())
            }
            (ShorteningMethod::Summary, requests) => {
                match first_summary(requests, services, &mut used).await {
                    Ok(text) => CompactionOutcome::Summary(text),
                    Err(error) => CompactionOutcome::Failed(format!("There is no summary: {error}")),
                }
            }
        };
        let told = match &outcome {
            CompactionOutcome::Summary(text) => text.as_str(),
            CompactionOutcome::Agreed => {
                "The results of earlier calls are left out; the model can make the calls again."
            }
            CompactionOutcome::Refused(_) | CompactionOutcome::Failed(_) => return (outcome, used),
        };
        self.hook_dispatch.shortened(trigger, told).await;
        (outcome, used)
    }
}

/// Asks one model after another for a summary, each again where it may answer then. What was used is added to `used`
/// even when all fail. The error is that of the last one.
async fn first_summary(
    requests: &[SummaryRequest],
    services: &EngineServices,
    used: &mut Usage,
) -> Result<String, ModelError> {
    let mut outcome =
        Err(ModelError { kind: ModelErrorKind::Configuration, message: "no model can be asked".to_owned() });
    for request in requests {
        for wait in WAITS.into_iter().map(Some).chain([None]) {
            outcome = summary(request, services, used).await;
            match (&outcome, wait) {
                (Err(error), Some(wait)) if error.kind.is_retryable() => {
                    let wait = error.kind.retry_after().unwrap_or(wait);
                    if wait > MAX_WAIT {
                        break;
                    }
                    tokio::time::sleep(wait).await;
                }
                (Err(_), _) => break,
                (Ok(_), _) => return outcome,
            }
        }
    }
    outcome
}

/// Asks a model for a summary.
async fn summary(
    asked: &SummaryRequest,
    services: &EngineServices,
    used: &mut Usage,
) -> Result<String, ModelError> {
    let SummaryRequest { profile, turns, words } = asked;
    let model = services.model(profile)?;
    let question = Item::User { text: condense::summary_request(turns, *words), images: vec![] };
    let request = ModelRequest {
        system: condense::summary_system().into(),
        items: Items::from(vec![question]),
        rendered: Rendered::default(),
        tail: None,
        tools: [].into(),
        // No tools are declared.
        protocol: ToolProtocol::Xml,
        mode: SUMMARY_MODE.to_owned(),
        max_tokens: None,
        leaves_out_images: false,
    };
    let mut newest = Usage::default();
    let begun = match services.queue(profile, turns.len() as u64 / TOKEN_BYTES) {
        Some(queued) => Some(queued.begin().await),
        None => None,
    };
    let _connection = services.descriptors.model().await;
    let outcome = summary_text(&*model, request, &mut newest).await;
    services.ended(profile, begun, &newest, outcome.as_ref().err());
    *used += newest;
    outcome
}

/// Reads the text of an answer. What was used is left in `used` even when it fails.
async fn summary_text(
    model: &dyn Model,
    request: ModelRequest,
    used: &mut Usage,
) -> Result<String, ModelError> {
    // To ask for the same again would give the same.
    let unusable = |message: &str| ModelError { kind: ModelErrorKind::Invalid, message: message.to_owned() };
    let mut stream = model.stream(request);
    let mut text = String::new();
    while let Some(output) = stream.next().await {
        match output? {
            Output::Event(StreamEvent::Text(piece)) if text.len() + piece.len() <= MAX_ANSWER_BYTES => {
                text.push_str(&piece);
            }
            Output::Event(StreamEvent::Text(_)) => return Err(unusable("the model's answer is too long")),
            Output::Event(_) => {}
            Output::Usage(newest) => *used = newest,
            Output::Finished(Finish::Done) => return Ok(text),
            Output::Finished(Finish::Length) => {
                return Err(unusable("the model's answer reached the output limit"));
            }
            Output::Finished(Finish::Refused) => return Err(unusable("the provider refused to answer")),
        }
    }
    let message = "the model's answer was cut off before its end".to_owned();
    Err(ModelError { kind: ModelErrorKind::Cut, message })
}
