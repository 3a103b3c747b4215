//! The effect that shortens a conversation: hooks are asked, and a model for a summary.

use futures_util::StreamExt as _;

use super::effect_context::EffectContext;
use super::hook_dispatch::{CompactTrigger, HookDispatch};
use super::services::EngineServices;
use super::task::{Compaction, CompactionOutcome, RequestFrame, Task, replaced_turns, turns};
use roo_catalog::ToolProtocol;
use roo_formats::config::Profile;
use roo_model::parser::StreamEvent;
use roo_model::prompts::condense;
use roo_model::providers::{
    Finish, Item, Items, ModelError, ModelErrorKind, ModelRequest, Output, Rendered, SUMMARY_MODE,
};
use roo_protocol::context::ShorteningMethod;
use roo_protocol::task::Usage;

/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: usize = 256 << 10;
/// Bytes of a token, for a model that nothing is known of: fewer than in most texts.
const TOKEN_BYTES: u64 = 2;
/// Tokens of the conversation that go into a request for a summary where the window of its model isn't known.
const USUAL_WINDOW: u64 = 128_000;

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

/// A shortening, with what it needs of the state at its begin.
pub(super) struct CompactionRun {
    compaction: Compaction,
    hook_dispatch: HookDispatch,
    /// The turns to summarise, as text, and the profile of the model that is asked.
    request: Option<(String, String)>,
}

impl CompactionRun {
    pub(super) fn new(compaction: Compaction, task: &Task, around: &EffectContext) -> Self {
        let profiles = &around.services.settings.profiles;
        let own = &task.settings.profile;
        let named = profiles.get(own).and_then(|profile| profile.condense.profile.as_ref());
        let profile = named.unwrap_or(own).clone();
        let window = profiles.get(&profile).and_then(Profile::context_window).unwrap_or(USUAL_WINDOW);
        // Half of the window is left for the answer, and for texts with more tokens.
        let longest = usize::try_from(window / 2 * TOKEN_BYTES).unwrap_or(usize::MAX);
        let is_summary = compaction.method == ShorteningMethod::Summary;
        let replaced = is_summary
            .then(|| replaced_turns(&task.conversation, &task.context))
            .flatten()
            .map(|replaced| replaced.items);
        let request = replaced.map(|items| (turns(&items, longest), profile));
        Self { compaction, hook_dispatch: HookDispatch::new(task, around), request }
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
        let outcome = match (self.compaction.method, &self.request) {
            (ShorteningMethod::Placeholders | ShorteningMethod::Outline, _) => CompactionOutcome::Agreed,
            (ShorteningMethod::Summary, None) => {
                CompactionOutcome::Failed("There is too little to summarise.".to_owned())
            }
            (ShorteningMethod::Summary, Some((turns, profile))) => {
                let begun = match services.queue(profile, turns.len() as u64 / TOKEN_BYTES) {
                    Some(queued) => Some(queued.begin().await),
                    None => None,
                };
                let _connection = services.descriptors.model().await;
                let summarised = summary(turns, profile, services, &mut used).await;
                if let Some(begun) = begun {
                    begun.used(services.rated_tokens(profile, &used));
                    if let Err(error) = &summarised {
                        begun.failed(error);
                    }
                }
                match summarised {
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

/// Asks a model for a summary. What was used is left in `used` even when it fails.
async fn summary(
    turns: &str,
    profile: &str,
    services: &EngineServices,
    used: &mut Usage,
) -> Result<String, ModelError> {
    let model = services.model(profile)?;
    let asked = Item::User { text: condense::summary_request(turns), images: vec![] };
    let request = ModelRequest {
        system: condense::summary_system().into(),
        items: Items::from(vec![asked]),
        rendered: Rendered::default(),
        tail: None,
        tools: [].into(),
        // No tools are declared.
        protocol: ToolProtocol::Xml,
        mode: SUMMARY_MODE.to_owned(),
    };
    let unusable =
        |problem: &str| ModelError { kind: ModelErrorKind::Malformed, message: problem.to_owned() };
    let mut stream = model.stream(request);
    let mut text = String::new();
    while let Some(output) = stream.next().await {
        match output? {
            Output::Event(StreamEvent::Text(piece)) if text.len() + piece.len() <= LONGEST_ANSWER => {
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
    Err(unusable("the model's answer was cut off before its end"))
}
