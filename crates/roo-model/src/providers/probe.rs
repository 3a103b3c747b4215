//! One short request to a model, to see whether a task could work with it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::{Item, ModelError, ModelErrorKind, ModelRequest, Output, Rendered, connect, list_models};
use crate::parser::StreamEvent;
use roo_catalog::ToolProtocol;
use roo_formats::config::{Profile, Timeouts};
use roo_protocol::task::Usage;
use roo_text::misspelling;
use roo_text::render::one_line;

/// Number of tokens that the answer may have: enough for a model that thinks before it speaks, and cheap.
const MAX_ANSWER_TOKENS: u64 = 256;

/// Longest silence where the profile sets no limit. Someone waits for the result, and the request is short; a server may
/// have to load the model first.
const SILENCE_SEC: u64 = 120;

/// Number of models that a message names.
const SOME: usize = 8;

/// Result of a short request.
#[derive(Clone, Debug)]
pub struct Probe {
    /// From sending the request to the end of the answer.
    pub took: Duration,
    /// Usage. The cost is 0 where prices are unknown.
    pub usage: Usage,
}

/// Asks a profile's model to say a word, the way a task would ask it.
///
/// # Errors
/// What would end a task. Where the endpoint does not have the model, the error names some that it has.
pub async fn probe(
    profile: &Profile,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<Probe, ModelError> {
    match ask(profile, environment).await {
        Err(error) if error.kind == ModelErrorKind::Invalid => {
            Err(unknown_model(profile, environment).await.unwrap_or(error))
        }
        outcome => outcome,
    }
}

/// The error for a model that the endpoint's list doesn't have; none where it has it, or there is no list.
async fn unknown_model(
    profile: &Profile,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Option<ModelError> {
    let model = profile.model.as_deref()?.trim();
    let listed = list_models(profile, environment).await.ok()?;
    if listed.iter().any(|listed| listed.id == model) {
        return None;
    }
    let names: Vec<&str> = listed.iter().map(|model| model.id.as_str()).collect();
    let offer = match (misspelling::meant(model, names.iter().copied()), names.as_slice()) {
        (Some(near), _) => format!("did you mean {near}?"),
        (None, []) => "it lists none.".to_owned(),
        (None, few) if few.len() <= SOME => format!("it has {}.", few.join(", ")),
        (None, many) => {
            format!("it has {} others; roo-lsp models lists them.", many.len())
        }
    };
    let text = format!("The endpoint of {} has no model {model}; {offer}", profile.provider.as_str());
    Some(ModelError::new(ModelErrorKind::Invalid, one_line(&text, 1000)))
}

/// The profile of a short request.
fn short(profile: &Profile) -> Profile {
    let limit = |seconds: Option<u64>| seconds.or(Some(SILENCE_SEC));
    let Timeouts { first_byte_sec, idle_sec } = profile.timeouts;
    let timeouts = Timeouts { first_byte_sec: limit(first_byte_sec), idle_sec: limit(idle_sec) };
    Profile { max_tokens: Some(MAX_ANSWER_TOKENS), reasoning: None, timeouts, ..profile.clone() }
}

async fn ask(
    profile: &Profile,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<Probe, ModelError> {
    let model = connect(&short(profile), environment)?;
    let request = ModelRequest {
        system: "".into(),
        items: vec![Item::User { text: "Answer with the word OK.".to_owned(), images: Vec::new() }].into(),
        rendered: Rendered::default(),
        tail: None,
        tools: Arc::new([]),
        protocol: ToolProtocol::Xml,
        mode: String::new(),
        max_tokens: None,
        leaves_out_images: false,
    };
    let begun = Instant::now();
    let mut usage = Usage::default();
    let mut stream = model.stream(request);
    while let Some(output) = stream.next().await {
        match output? {
            Output::Usage(newest) => usage = newest,
            Output::Finished(_) => return Ok(Probe { took: begun.elapsed(), usage }),
            Output::Event(
                StreamEvent::Text(_)
                | StreamEvent::Thinking(_)
                | StreamEvent::ThinkingEnd(_)
                | StreamEvent::CallStart { .. }
                | StreamEvent::CallArguments { .. }
                | StreamEvent::CallEnd { .. },
            ) => {}
        }
    }
    Err(ModelError::new(ModelErrorKind::Cut, format!("{}: the answer had no end", model.origin())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_probe_waits_two_minutes_unless_the_profile_says_how_long() {
        let limits = |timeouts| {
            let profile = json!({ "provider": "ollama", "model": "m", "timeouts": timeouts });
            let Timeouts { first_byte_sec, idle_sec } =
                short(&serde_json::from_value(profile).unwrap()).timeouts;
            (first_byte_sec, idle_sec)
        };
        assert_eq!(limits(json!({})), (Some(120), Some(120)));
        assert_eq!(limits(json!({ "firstByteSec": 900, "idleSec": 5 })), (Some(900), Some(5)));
    }
}
