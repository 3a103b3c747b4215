//! A model whose answers and failures follow from the seed. It may call any tool in any state, and what it writes into
//! files is made of lines that nobody else writes, so that each can be found again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use roo_durable::simulated_disk::Random;
use roo_formats::config::Profile;
use roo_model::parser::StreamEvent;
use roo_model::providers::{
    AccountId, AssistantBlock, Finish, Item, Items, Model, ModelError, ModelErrorKind, ModelRequest,
    ModelSource, Output, SUMMARY_MODE, Script, Scripted, ToolResult,
};
use roo_protocol::event::ToolStatus;
use roo_protocol::task::Usage;
use serde_json::{Value, json};

use super::plan::{Part, Plan, numbers};
use super::world::Witness;

/// The files that there are from the start.
pub const FILES: [&str; 4] = ["one.txt", "two.txt", "src/three.txt", "src/four.txt"];

/// Number of requests after which a model does nothing but complete, whatever the plan says.
const MAX_REQUESTS: usize = 60;

/// The model of a seed, for all profiles and lives.
#[derive(Debug)]
pub struct PlannedModel {
    plan: Plan,
    witness: Witness,
    account: AccountId,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: Random,
    requests: usize,
    lines: usize,
    commands: usize,
}

/// The source that has it.
pub struct OneModel(pub Arc<PlannedModel>);

impl ModelSource for OneModel {
    fn connect(&self, _: &Profile) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::<PlannedModel>::clone(&self.0))
    }
}

/// One call: a tool and its parameters.
type Call = (&'static str, Value);

impl PlannedModel {
    pub fn new(plan: &Plan, witness: Witness) -> Self {
        let script = Script::parse("none", "turns: []").unwrap();
        let state = State { random: numbers(plan.seed, Part::Model), requests: 0, lines: 0, commands: 0 };
        Self {
            plan: plan.clone(),
            witness,
            account: Scripted::new(script).account(),
            state: Mutex::new(state),
        }
    }

    /// What comes of a request: outputs, each with the wait before it.
    fn answer(&self, request: &ModelRequest) -> Vec<(Duration, Result<Output, ModelError>)> {
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.requests += 1;
        let answers = request.items.iter().filter(|item| matches!(item, Item::Assistant { .. })).count();
        let is_late = state.requests > MAX_REQUESTS;
        let mut events = vec![];
        if state.random.one_in(4) {
            events.push(StreamEvent::Thinking("I think.".to_owned()));
            events.push(StreamEvent::ThinkingEnd(None));
        }
        if state.random.one_in(2) || request.mode == SUMMARY_MODE {
            events.push(StreamEvent::Text("I'll go on.".to_owned()));
        }
        let calls = match request.mode.as_str() {
            SUMMARY_MODE => vec![],
            _ if is_late || answers >= self.plan.answers => vec![completion(answers)],
            _ => self.calls(state, request, answers),
        };
        let names: Vec<&str> = calls.iter().map(|(tool, _)| *tool).collect();
        self.witness.tell(format!("request {} in mode {}: {names:?}", state.requests, request.mode));
        for (index, (tool, params)) in (0..).zip(&calls) {
            let id = format!("call-{}-{index}", state.requests);
            events.push(StreamEvent::CallStart { index, id, name: (*tool).to_owned() });
            let mut arguments = params.to_string();
            if self.plan.malformed_calls.happens(&mut state.random) && !is_late {
                let half = (0..=arguments.len() / 2).rev().find(|at| arguments.is_char_boundary(*at));
                arguments.truncate(half.unwrap_or_default());
            }
            let middle = arguments.len() / 2;
            let pieces = match arguments.is_char_boundary(middle) {
                true => vec![arguments[..middle].to_owned(), arguments[middle..].to_owned()],
                false => vec![arguments],
            };
            events.extend(pieces.into_iter().map(|text| StreamEvent::CallArguments { index, text }));
            events.push(StreamEvent::CallEnd { index });
        }
        let random = &mut state.random;
        let wait = |random: &mut Random| Duration::from_millis([0, 0, 1, 40, 900][random.below(5)]);
        let mut outputs: Vec<_> =
            events.into_iter().map(|event| (wait(random), Ok(Output::Event(event)))).collect();
        if self.plan.model_faults.happens(random) && !is_late {
            outputs.truncate(random.below(outputs.len() + 1));
            let (after, kind) = match random.below(9) {
                0 => (0, Some(ModelErrorKind::RateLimited(None))),
                1 => (5, Some(ModelErrorKind::RateLimited(Some(Duration::from_secs(20))))),
                2 => (5, Some(ModelErrorKind::Unavailable(None))),
                3 => (0, Some(ModelErrorKind::Unreachable)),
                4 => (300_000, Some(ModelErrorKind::TimedOut)),
                5 => (0, Some(ModelErrorKind::Malformed)),
                6 => (0, Some(ModelErrorKind::Invalid)),
                7 => (0, Some(ModelErrorKind::ContextWindow)),
                // It ends without a word.
                _ => return outputs,
            };
            let kind = kind.unwrap();
            let error = ModelError { kind, message: format!("The model fails by plan: {kind:?}.") };
            outputs.push((Duration::from_millis(after), Err(error)));
            return outputs;
        }
        let usage = Usage { tokens_in: 100, tokens_out: 10, ..Usage::default() };
        outputs.push((Duration::ZERO, Ok(Output::Usage(usage))));
        let finish = match random.below(30) {
            0 => Finish::Length,
            1 => Finish::Refused,
            _ => Finish::Done,
        };
        outputs.push((Duration::ZERO, Ok(Output::Finished(if is_late { Finish::Done } else { finish }))));
        outputs
    }

    fn calls(&self, state: &mut State, request: &ModelRequest, answers: usize) -> Vec<Call> {
        let offers = |name: &str| request.tools.iter().any(|tool| tool.name() == name);
        if offers("new_task") && state.random.one_in(if answers == 0 { 2 } else { 4 }) {
            return self.delegations(state, request);
        }
        let count = 1 + state.random.below(3);
        let mut calls: Vec<Call> = (0..count).map(|_| self.call(state, request)).collect();
        if answers > 0 && state.random.one_in(8) {
            calls.push(completion(answers));
        }
        calls
    }

    /// Branches, which run at the same time.
    fn delegations(&self, state: &mut State, request: &ModelRequest) -> Vec<Call> {
        let mode = match request.mode.as_str() {
            "orchestrator" => ["code", "debug", "architect"][state.random.below(3)],
            _ => "debug",
        };
        let emoji = match mode {
            "code" => "💻",
            "debug" => "🪲",
            _ => "🏗️",
        };
        let urid = urid(&request.items);
        let count = 1 + state.random.below(3);
        let branch = |number: usize| {
            let message = format!("{emoji} Branch {number}\n\nURID: {urid}\n\nDo part {number}.\n");
            ("new_task", json!({ "mode": mode, "message": message }))
        };
        (1..=count).map(branch).collect()
    }

    fn line(&self, state: &mut State) -> String {
        state.lines += 1;
        let line = format!("model {}", state.lines);
        self.witness.seen().by_model.insert(line.clone());
        line
    }

    fn call(&self, state: &mut State, request: &ModelRequest) -> Call {
        let path = FILES[state.random.below(FILES.len())];
        let known = last_known(&request.items, path);
        match state.random.below(14) {
            0 | 1 => ("read_file", json!({ "files": [{ "path": path }] })),
            2 => {
                let files = FILES.map(|path| json!({ "path": path }));
                ("read_file", json!({ "files": files }))
            }
            3 => ("list_files", json!({ "path": ".", "recursive": true })),
            4 => {
                let line = self.line(state);
                let path = format!("new-{}.txt", state.lines);
                ("write_to_file", json!({ "path": path, "content": format!("{line}\nend\n") }))
            }
            5 => {
                // As the conversation has it: every line that it was shown stays.
                let line = self.line(state);
                let known = known.unwrap_or_default();
                let content: String = known.into_iter().chain([line]).map(|line| line + "\n").collect();
                ("write_to_file", json!({ "path": path, "content": content }))
            }
            6 | 7 => {
                let line = self.line(state);
                ("insert_content", json!({ "path": path, "line": state.random.below(3), "content": line }))
            }
            8 => {
                let own =
                    known.and_then(|lines| lines.into_iter().rev().find(|line| line.starts_with("model ")));
                let (old, new) = (own.unwrap_or_else(|| "begin".to_owned()), self.line(state));
                (
                    "search_and_replace",
                    json!({ "path": path, "search": format!("{old}\n"), "replace": format!("{new}\n") }),
                )
            }
            9 => {
                let (first, second) = (self.line(state), self.line(state));
                let other = FILES[state.random.below(FILES.len())];
                let patch = format!(
                    "*** Begin Patch\n*** Add File: patched-{}.txt\n+{first}\n*** Update File: {other}\n@@\n begin\n+{second}\n\
                     *** End Patch\n",
                    state.lines
                );
                ("apply_patch", json!({ "patch": patch }))
            }
            10 | 11 => {
                state.commands += 1;
                ("execute_command", json!({ "command": format!("job {}", state.commands) }))
            }
            12 => match state.random.below(3) {
                0 => ("update_todo_list", json!({ "todos": "[x] one\n[-] two\n" })),
                1 => {
                    let mode = ["code", "debug", "nowhere"][state.random.below(3)];
                    ("switch_mode", json!({ "mode_slug": mode }))
                }
                _ => ("no_such_tool", json!({ "x": 1 })),
            },
            _ => {
                let follow_up = json!([{ "text": "this" }, { "text": "that" }]);
                ("ask_followup_question", json!({ "question": "Which?", "follow_up": follow_up }))
            }
        }
    }
}

fn completion(answers: usize) -> Call {
    ("attempt_completion", json!({ "result": format!("Done after {answers} answers.") }))
}

/// The id of the request, which the first message of every task names.
fn urid(items: &Items) -> String {
    let first = items.iter().find_map(|item| match item {
        Item::User { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let lines = first.unwrap_or_default().lines();
    lines.filter_map(|line| line.strip_prefix("URID: ")).next_back().unwrap_or_default().trim().to_owned()
}

/// The lines of a file as the conversation has them last as a whole: in the result of a read, or in the call that wrote
/// them. None if it doesn't.
fn last_known(items: &Items, path: &str) -> Option<Vec<String>> {
    let results = items.iter().rev().filter_map(|item| match item {
        Item::Results { results } => Some(results.iter().rev()),
        _ => None,
    });
    results.flatten().find_map(|result| last_read(result, path).or_else(|| last_written(items, result, path)))
}

fn last_read(result: &ToolResult, path: &str) -> Option<Vec<String>> {
    let head = format!("<file><path>{path}</path>\n<content lines=\"1-");
    let (_, shown) = result.text.split_once(&head)?;
    let (_, content) = shown.split_once(">\n")?;
    let (content, _) = content.split_once("</content>")?;
    content.lines().map(|line| Some(line.split_once(" | ")?.1.to_owned())).collect()
}

fn last_written(items: &Items, result: &ToolResult, path: &str) -> Option<Vec<String>> {
    if result.name != "write_to_file" || result.status != ToolStatus::Ok {
        return None;
    }
    let blocks = items.iter().filter_map(|item| match item {
        Item::Assistant { blocks, .. } => Some(blocks),
        _ => None,
    });
    let call = blocks.flatten().find_map(|block| match block {
        AssistantBlock::Call { call } if call.id == result.call_id => Some(call),
        _ => None,
    })?;
    let content = call.params.get("content")?.as_str()?;
    (call.params.get("path")? == path).then(|| content.lines().map(str::to_owned).collect())
}

impl Model for PlannedModel {
    fn origin(&self) -> &str {
        "simulated/model"
    }

    fn account(&self) -> AccountId {
        self.account
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Output, ModelError>> {
        let outputs = self.answer(&request);
        stream::iter(outputs)
            .then(|(wait, output)| async move {
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                output
            })
            .boxed()
    }
}
