//! `ask_followup_question`: a question to the user.

use super::prelude::*;
use crate::reader::unescape;
use roo_protocol::event::Suggestion;

/// Asks the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskFollowupQuestion {
    pub question: String,
    /// Suggested answers; may be empty when a model left them out.
    pub suggestions: Vec<Suggestion>,
}

impl Declaration for AskFollowupQuestion {
    const SPEC: ToolSpec = ToolSpec {
        description: "Asks the user a question and waits for the answer. The only way to ask: plain text waits \
                      for nobody. Use it only for what you can't find out yourself.",
        parameters: &[
            required("question", Kind::Text, "The question, clear and specific."),
            required(
                "follow_up",
                Kind::Structured(&SUGGESTIONS),
                "Two to four suggested answers, each complete and usable as it is.",
            ),
        ],
        example: "<ask_followup_question>\n<question>Which database should the tests use?</question>\n<follow_up>\n\
                  <suggest>SQLite in memory</suggest>\n<suggest>The local PostgreSQL</suggest>\n</follow_up>\n</ask_followup_question>",
        mistake: "Suggestions with gaps for the user to fill in.",
        precedes_intent: true,
        hook_names: &["AskUserQuestion"],
        ..ToolSpec::new(ToolName::AskFollowupQuestion, Group::Always, Effect::Control)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { question: reader.text("question")?, suggestions: suggestions(reader)? })
    }

    fn subject(&self) -> String {
        self.question.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "askFollowupQuestion", "question": self.question }))
    }

    fn hook_inputs(&self, _view: &HookView<'_>) -> Vec<HookInput> {
        let options = self.suggestions.iter().map(|suggestion| json!({ "label": suggestion.text }));
        let fields = json!({ "questions": [{
            "question": self.question,
            "header": "Question",
            "options": options.collect::<Vec<_>>(),
            "multiSelect": false,
        }] });
        vec![object(fields).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        let questions = change.after.get("questions").and_then(Value::as_array);
        let Some([question]) = questions.map(Vec::as_slice) else {
            return Err(wrong("questions", "a list of one question"));
        };
        if change.after.contains_key("answers") {
            return Err(RewriteError("a question is answered by the user alone".to_owned()));
        }
        let text = question.get("question").and_then(Value::as_str);
        let text = text.ok_or_else(|| wrong("question", "a text"))?;
        params.insert("question".to_owned(), text.into());
        let options = question.get("options").and_then(Value::as_array);
        let label = |option: &Value| {
            option.get("label").and_then(Value::as_str).map(|label| json!({ "text": label }))
        };
        let labels = options.into_iter().flatten().map(label).collect::<Option<Vec<_>>>();
        let labels = labels.ok_or_else(|| wrong("options", "a list of labels"))?;
        params.insert("follow_up".to_owned(), labels.into());
        Ok(())
    }
}

/// Form of suggestions in native calls.
const SUGGESTIONS: Structured = Structured {
    name: None,
    description: None,
    schema: || {
        json!({
            "type": "array",
            "minItems": 2,
            "maxItems": 4,
            "items": {
                "type": "object",
                "properties": { "text": { "type": "string" }, "mode": { "type": "string" } },
                "required": ["text"],
                "additionalProperties": false,
            },
        })
    },
};

fn suggestions(reader: &Reader<'_>) -> Result<Vec<Suggestion>, InvalidCall> {
    let Some(value) = reader.get("follow_up") else { return Err(reader.missing("follow_up")) };
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(list @ Value::Array(_)) => suggestions_from_json(reader, &list),
            _ => suggestions_from_xml(reader, text),
        },
        other => suggestions_from_json(reader, other),
    }
}

fn suggestions_from_json(reader: &Reader<'_>, value: &Value) -> Result<Vec<Suggestion>, InvalidCall> {
    let list = value.as_array().ok_or_else(|| reader.bad("follow_up", "expected a list of suggestions"))?;
    let mut suggestions = Vec::new();
    for item in list {
        let text =
            item.as_str().or_else(|| item.get("text")?.as_str()).or_else(|| item.get("answer")?.as_str());
        let text = text.ok_or_else(|| reader.bad("follow_up", "a suggestion without text"))?;
        let mode = item.get("mode").and_then(Value::as_str).filter(|mode| !mode.is_empty());
        suggestions.push(Suggestion { text: text.to_owned(), mode: mode.map(str::to_owned) });
    }
    Ok(suggestions)
}

fn suggestions_from_xml(reader: &Reader<'_>, text: &str) -> Result<Vec<Suggestion>, InvalidCall> {
    let mut suggestions = Vec::new();
    for part in text.split("<suggest").skip(1) {
        let Some((attributes, rest)) = part.split_once('>') else { continue };
        let Some((answer, _)) = rest.split_once("</suggest>") else {
            return Err(reader.bad("follow_up", "a <suggest> without </suggest>"));
        };
        let mode = attributes
            .split_once("mode=")
            .map(|(_, value)| value.trim().trim_matches(['"', '\'']))
            .filter(|mode| !mode.is_empty())
            .map(str::to_owned);
        let text = unescape(answer.trim());
        if !text.is_empty() {
            suggestions.push(Suggestion { text, mode });
        }
    }
    if suggestions.is_empty() && !text.trim().is_empty() {
        return Err(reader.bad("follow_up", "expected <suggest>…</suggest> elements"));
    }
    Ok(suggestions)
}
