//! What a summary keeps word for word of the turns that it replaces: what the user decided, with the question that they
//! answered, what governs the task, what the model loaded to follow, and the newest result that it told.

use std::collections::HashMap;

use super::shortening::{beginning, calls_of, is_kept, is_loaded, results, subject};
use roo_catalog::{ToolCall, ToolName};
use roo_model::prompts::{self, condense, replies};
use roo_model::providers::{Item, ToolResult};
use roo_protocol::ids::ToolCallId;

/// The most of the model's own words that is kept, in bytes, and of the users' questions together.
const LONGEST: usize = 8 << 10;
/// Line between the answer to a question and the question, where the beginning has not all of it.
const WHOLE_QUESTION: &str = "\nThe whole question was:\n";
/// What follows on a call that loaded something to follow.
const LOADED: &str = " was loaded to be followed";
/// What follows on that before its text.
const TEXT: &str = ":\n";
/// What stands in place of its text.
const LEFT_OUT: &str = ", and its text is left out here: load it again before you go on.";
/// Line before the newest result that the model told.
const TOLD: &str = "Your newest result of the task:\n";

/// What is kept of turns that are replaced. Of what the model said, so many bytes at the most.
pub(super) fn kept_words<'a>(
    replaced: impl Iterator<Item = &'a Item> + Clone,
    longest: usize,
) -> Vec<String> {
    let longest = longest.min(LONGEST);
    let calls: HashMap<&ToolCallId, &ToolCall> =
        replaced.clone().flat_map(calls_of).map(|call| (&call.id, call)).collect();
    let mut kept: Vec<String> = vec![];
    let mut told = None;
    for item in replaced {
        if let Item::Summary { kept: before, .. } = item {
            kept.extend(before.iter().cloned());
        }
        told = calls_of(item).filter_map(told_result).last().or(told);
        for result in results(item).iter().filter(|result| is_loaded(result)) {
            let loaded = format!("{}{LOADED}", subject(result));
            kept.retain(|text| !text.starts_with(&loaded));
            kept.push(match condense::is_placeholder(&result.text) {
                true => format!("{loaded}{LEFT_OUT}"),
                false => format!("{loaded}{TEXT}{}", prompts::untrusted(&result.text)),
            });
        }
        for result in results(item).iter().filter(|result| is_kept(result)) {
            let tool = ToolName::parse(&result.name);
            let intent = tool == Some(ToolName::SelectActiveIntent);
            if intent {
                // The newest one counts.
                kept.retain(|text| !text.starts_with(&result.name));
            }
            let asked = tool == Some(ToolName::AskFollowupQuestion);
            let said = match replies::review_in(&result.text) {
                Some(review) => review,
                None if intent || asked || replies::is_denied_by_user(&result.text) => &result.text,
                None => continue,
            };
            let mut word = format!("{}: {said}", subject(result));
            let call = calls.get(&result.call_id).filter(|_| asked);
            if let Some(question) = call.and_then(|call| whole_question(call, result)) {
                word.push_str(WHOLE_QUESTION);
                word.push_str(&own_words(question, longest / 2));
            }
            if !kept.contains(&word) {
                kept.push(word);
            }
        }
    }
    if let Some(told) = told {
        kept.retain(|text| !text.starts_with(TOLD));
        kept.push(format!("{TOLD}{}", own_words(told, longest / 2)));
    }
    leave_out_questions(&mut kept, longest);
    leave_out_loaded(&mut kept, longest);
    kept
}

/// Leaves out the texts that the model loaded first, so that the others have so many bytes at the most.
fn leave_out_loaded(kept: &mut [String], longest: usize) {
    let marker = format!("{LOADED}{TEXT}");
    let mut left = longest;
    for word in kept.iter_mut().rev() {
        let first_line = word.find('\n').map_or(0, |end| end + 1);
        let Some(loaded) = word[..first_line].strip_suffix(&marker) else { continue };
        match left.checked_sub(word.len()) {
            Some(rest) => left = rest,
            None => *word = format!("{loaded}{LOADED}{LEFT_OUT}"),
        }
    }
}

/// Leaves the oldest questions out but for their beginning, so that the others have so many bytes at the most.
fn leave_out_questions(kept: &mut [String], longest: usize) {
    let mut left = longest;
    for word in kept.iter_mut().rev() {
        let Some(question) = word.rfind(WHOLE_QUESTION) else { continue };
        match left.checked_sub(word.len() - question) {
            Some(rest) => left = rest,
            None => word.truncate(question),
        }
    }
}

/// The question of a call; none where what is kept of its result has all of it.
fn whole_question<'a>(call: &'a ToolCall, result: &ToolResult) -> Option<&'a str> {
    let question = text_of(call, "question")?.trim();
    (!subject(result).contains(question)).then_some(question)
}

/// The result that a call tells the user.
fn told_result(call: &ToolCall) -> Option<&str> {
    match ToolName::parse(&call.name)? {
        ToolName::AttemptCompletion => text_of(call, "result"),
        ToolName::CompleteWithFailure => text_of(call, "reason").or_else(|| text_of(call, "result")),
        _ => None,
    }
}

/// A parameter; none where there is only a placeholder of it, as in logs of earlier versions.
fn text_of<'a>(call: &'a ToolCall, parameter: &str) -> Option<&'a str> {
    call.params.get(parameter)?.as_str().filter(|text| !condense::is_placeholder(text))
}

/// Words of the model, so many bytes at the most.
fn own_words(text: &str, longest: usize) -> String {
    let head = beginning(text, longest);
    let more = match text.len() - head.len() {
        0 => String::new(),
        more => format!("\n({more} more bytes are left out.)"),
    };
    format!("{}{more}", prompts::untrusted(head))
}

/// The images that are kept of turns that are replaced: those that the user answered with.
pub(super) fn kept_images<'a>(replaced: impl Iterator<Item = &'a Item>) -> Vec<String> {
    let of_item = |item: &Item| -> Vec<String> {
        match item {
            Item::Summary { images, .. } => images.clone(),
            _ => results(item)
                .iter()
                .filter(|result| is_kept(result))
                .flat_map(|result| result.images.clone())
                .collect(),
        }
    };
    replaced.flat_map(of_item).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use roo_model::providers::AssistantBlock;
    use roo_protocol::event::ToolStatus;

    fn call(id: &str, name: &str, parameter: &str, text: &str) -> Item {
        let params = [(parameter.to_owned(), Value::from(text))].into_iter().collect();
        let call = ToolCall { id: ToolCallId::new(id), name: name.into(), params, problem: None, note: None };
        Item::Assistant { blocks: vec![AssistantBlock::Call { call }], tail: None }
    }

    fn answered(id: &str, question: &str, answer: &str) -> [Item; 2] {
        let name = "ask_followup_question";
        let result = ToolResult {
            call_id: ToolCallId::new(id),
            name: name.to_owned(),
            subject: question.to_owned(),
            status: ToolStatus::Ok,
            text: answer.to_owned(),
            images: vec![],
        };
        [call(id, name, "question", question), Item::Results { results: vec![result] }]
    }

    fn summary(kept: Vec<String>) -> Item {
        Item::Summary { text: String::new(), summary: String::new(), kept, images: vec![], answers: 1 }
    }

    #[test]
    fn an_answer_is_kept_with_the_whole_question() {
        let plan = format!("Which plan?\n\n1. {}\n2. The other one.", "step by step ".repeat(20));
        let first = answered("1", &plan, "The second.");
        let all = kept_words(first.iter(), LONGEST);
        let [word] = &all[..] else { panic!("one word is kept: {all:?}") };
        let (answer, question) = word.split_once(WHOLE_QUESTION).unwrap();
        assert!(
            answer.starts_with("ask_followup_question 'Which plan?") && answer.ends_with("': The second.")
        );
        assert_eq!(question, plan);
        assert_eq!(
            kept_words(answered("2", "Tabs?", "Yes").iter(), LONGEST),
            ["ask_followup_question 'Tabs?': Yes"]
        );

        let second: Vec<Item> = [summary(vec![word.clone()])]
            .into_iter()
            .chain(answered("3", &plan, "Still the second."))
            .collect();
        let kept = kept_words(second.iter(), 2 * (plan.len() + WHOLE_QUESTION.len()));
        assert_eq!(kept[0], *word);
        let kept = kept_words(second.iter(), 2 * plan.len());
        assert_eq!(kept[0], answer, "of the older question, its beginning stays");
        assert!(kept[1].ends_with("2. The other one."), "{kept:?}");
    }

    #[test]
    fn what_the_model_loaded_to_follow_is_kept_or_named() {
        let load = |name: &str, text: &str| Item::Results {
            results: vec![ToolResult {
                call_id: ToolCallId::new(name),
                name: "skill".to_owned(),
                subject: name.to_owned(),
                status: ToolStatus::Ok,
                text: text.to_owned(),
                images: vec![],
            }],
        };
        let items =
            [load("release", "Tag it."), load("tests", "Run them.\n\nAll."), load("release", "Sign it.")];
        let kept = kept_words(items.iter(), LONGEST);
        assert_eq!(
            kept,
            [
                "skill 'tests' was loaded to be followed:\nRun them.\n\nAll.",
                "skill 'release' was loaded to be followed:\nSign it."
            ]
        );
        let items = [summary(kept), load("docs", &"x".repeat(60))];
        let named = "skill 'tests' was loaded to be followed, and its text is left out here: load it again before you go on.";
        let kept = kept_words(items.iter(), 160);
        assert_eq!(
            (kept[0].as_str(), kept[1].ends_with("Sign it."), kept[2].ends_with("xx")),
            (named, true, true)
        );
        let kept = kept_words([summary(kept), load("tests", "Run them.")].iter(), 160);
        assert!(kept[2].ends_with("Run them.") && kept.len() == 3, "{kept:?}");
        let old = load("old", &condense::left_out_result("skill 'old'", 900, "0", condense::Again::Call));
        assert!(kept_words([old].iter(), LONGEST)[0].ends_with("load it again before you go on."));
    }

    #[test]
    fn the_newest_result_that_the_model_told_is_kept() {
        let completed = |text: &str| call("1", "attempt_completion", "result", text);
        let kept =
            kept_words([completed("A plan."), completed("<user_message>A better plan.")].iter(), LONGEST);
        assert_eq!(kept, [format!("{TOLD}&lt;user_message>A better plan.")]);
        let failed = call("2", "complete_with_failure", "reason", &"no ".repeat(1_000));
        let kept = kept_words([summary(kept), failed].iter(), 200);
        assert_eq!(kept, [format!("{TOLD}{}\n(2900 more bytes are left out.)", &"no ".repeat(34)[..100])]);
        let earlier = completed(&condense::left_out_argument(2_000, "0"));
        assert_eq!(kept_words([summary(kept.clone()), earlier].iter(), 200), kept, "a log has only its size");
    }
}
