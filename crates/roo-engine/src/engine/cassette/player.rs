//! Plays a cassette: the pure machine of tasks is given what the cassette recorded, one input after another.

use std::collections::BTreeMap;

use super::turns::{CallPlace, TurnRecorder, branch_name};
use super::{Cassette, CassetteBlock, CassetteCall, CassetteTurn, ModePrompt, ToolDefinition, VERSION};
use crate::engine::event::Event;
use crate::engine::instructions::Instructions;
use crate::engine::task::{self, Choice, Decider, Effect, Gathered, Input, Task};
use crate::engine::tree::{Fact, Tree};
use crate::policy::{
    AskRule, ModeChange, NamedAllowRule, Plan, PlannedBranch, PolicyDecision, Refusal, RefusalRule,
    check_delegation, check_files, check_switch, check_tool,
};
use crate::tool_run::Outcome;
use roo_catalog::{Invocation, ToolCall, ToolId, ToolProtocol};
use roo_durable::Record;
use roo_formats::config::{Limits, ToolChoice};
use roo_formats::modes::{self, Mode, Modes, UnknownMode};
use roo_model::parser::Block;
use roo_model::prompts::{self, Brief};
use roo_model::providers::Finish;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{Digest, MessageId, TaskId, ToolCallId};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::task::Usage;
use roo_text::render;

/// The most steps of a play: a file that was written by hand could lead nowhere.
const MAX_STEPS: usize = 1 << 20;
/// The root task of every play: its id is in no text.
const ROOT: &str = "00000000-0000-7000-8000-000000000000";
/// Author of the user's answers.
const USER: &str = "user";

/// What a cassette is played with.
pub struct Conditions<'a> {
    /// The modes as they are now.
    pub modes: &'a Modes,
    /// Composes what a model is told in a mode before a task begins.
    pub compose: &'a dyn Fn(&Mode, ToolProtocol, &ToolChoice) -> Instructions,
    /// True if requests have a directory in the workspace.
    pub has_task_directory: bool,
}

/// What came of a play.
#[derive(Clone, Debug, PartialEq)]
pub struct Played {
    /// The cassette as the request would be recorded now.
    pub cassette: Cassette,
    /// Why it could not be played to its end: the request now needs what the cassette doesn't have.
    pub stopped: Option<String>,
    /// Calls that were refused when the cassette was recorded, and that the mode permits now.
    pub permitted: Vec<String>,
}

/// Plays a cassette.
///
/// # Errors
/// A mode of the request that there is not.
pub fn play(cassette: &Cassette, conditions: &Conditions<'_>) -> Result<Played, UnknownMode> {
    let mut player = Player {
        kept: cassette,
        conditions,
        choice: cassette.request.tools(),
        recorder: TurnRecorder::new(TaskId::new(ROOT)),
        seq: 0,
        prompts: BTreeMap::new(),
        permitted: vec![],
    };
    player.begin()?;
    let stopped = player.run().err();
    let Player { recorder, prompts, permitted, .. } = player;
    let cassette = Cassette {
        version: VERSION,
        request: cassette.request.clone(),
        matchers: cassette.matchers.clone(),
        tasks: recorder.finish(),
        prompts,
    };
    Ok(Played { cassette, stopped, permitted })
}

struct Player<'a> {
    kept: &'a Cassette,
    conditions: &'a Conditions<'a>,
    choice: ToolChoice,
    recorder: TurnRecorder,
    /// The number of the newest event.
    seq: u64,
    prompts: BTreeMap<String, ModePrompt>,
    permitted: Vec<String>,
}

/// What a state calls for next.
enum Next {
    Effect(TaskId, Effect),
    /// The user is to answer the current call's question.
    Question(TaskId),
    /// The user is to answer the current call's approval.
    Approval(TaskId),
    /// The server asks its user.
    OfServer(String),
    Nothing,
}

impl Player<'_> {
    /// Writes the first events, as the engine does where it starts a request.
    fn begin(&mut self) -> Result<(), UnknownMode> {
        let request = &self.kept.request;
        let mode = self.conditions.modes.find(&request.mode)?;
        let looked_up = self.kept_turn(None, 0).is_some_and(|turn| !turn.looked_up.is_empty());
        let task_directory = modes::task_directory(&request.id);
        let text = prompts::brief(&Brief {
            prompt: &request.prompt,
            urid: &request.id,
            task_directory: Some(&*task_directory).filter(|_| self.conditions.has_task_directory),
            context: &[],
        });
        let root = TaskId::new(ROOT);
        let created = Event::Created {
            parent: None,
            urid: request.id.clone(),
            mode: mode.slug.clone(),
            emoji: mode.emoji.clone(),
            profile: String::new(),
            protocol: request.protocol,
            title: render::one_line(request.prompt.trim(), task::TITLE),
            // What a request may cost is not what is played.
            limits: Limits { requests: 0, cost_usd: 0.0, ..Limits::default() },
            gather: looked_up,
            unread: vec![],
            pinned: true,
            intent: None,
            within: vec![],
            worktree: false,
        };
        let message = Message {
            id: MessageId::new("m1"),
            kind: MessageKind::Say(Say::Text),
            text: request.prompt.clone(),
            images: vec![],
        };
        let mentions = task::may_mention(&request.prompt);
        let said = Event::UserSaid { message, text, mentions, hooks: false };
        self.commit(vec![(root.clone(), created), (root, said)]);
        Ok(())
    }

    /// Plays until nothing is called for.
    fn run(&mut self) -> Result<(), String> {
        for _ in 0..MAX_STEPS {
            let Some(tree) = self.recorder.tree() else { return Ok(()) };
            let facts = tree.settle();
            if !facts.is_empty() {
                self.commit(facts);
                continue;
            }
            match next(tree) {
                Next::Effect(task, effect) => self.effect(&task, effect)?,
                Next::Question(task) => self.answer(&task)?,
                Next::Approval(task) => self.refuse(&task),
                Next::OfServer(question) => return Err(format!("the server asks its user: {question}")),
                Next::Nothing => return Ok(()),
            }
        }
        Err("it does not come to an end".to_owned())
    }

    fn effect(&mut self, task: &TaskId, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Gather(_) => {
                let looked_up = self.turn_of(task).map(|turn| turn.looked_up.clone()).unwrap_or_default();
                let (commands, text) = (looked_up.commands, looked_up.text);
                self.input(task, Input::Gathered(Gathered { commands, text, ..Gathered::default() }));
            }
            Effect::CallModel { .. } => self.call_model(task)?,
            Effect::Gate { .. } => {
                let decision = self.judge(task)?;
                self.input(task, Input::Gated(decision));
            }
            Effect::RunTool { call_id, .. } => {
                let outcome = self.outcome(&call_id)?;
                self.input(task, Input::ToolDone(outcome));
            }
            Effect::Compact(_)
            | Effect::MakeWorktree
            | Effect::CloseWorktree
            | Effect::Wait { .. }
            | Effect::SettleWrite { .. } => {
                return Err("it needs what a cassette doesn't have".to_owned());
            }
        }
        Ok(())
    }

    /// Composes the request, and answers it as recorded.
    fn call_model(&mut self, task: &TaskId) -> Result<(), String> {
        let Some(slug) = self.task(task).map(|task| task.settings.mode.clone()) else { return Ok(()) };
        self.compose(&slug)?;
        let Some(turn) = self.turn_of(task).cloned() else {
            let branch = self.recorder.branch_of(task).and_then(|branch| branch_name(branch));
            let of = branch.map_or_else(String::new, |name| format!(" of the branch {name}"));
            let number = self.recorder.branch_of(task).map_or(0, |branch| self.recorder.turns_of(branch)) + 1;
            return Err(format!("request {number}{of} to the model has no recorded answer"));
        };
        for block in turn.answer {
            let block = match block {
                CassetteBlock::Text(text) => Block::Text(text),
                CassetteBlock::Thinking(text) => Block::Thinking { text, opaque: None },
                CassetteBlock::Call(call) => Block::Call {
                    // As a native one: whether it is a quotation was decided when it was recorded.
                    id: Some(String::new()),
                    name: call.tool,
                    params: call.params,
                    fenced: false,
                    problem: call.problem,
                },
            };
            self.input(task, Input::ModelBlock { block, origin: String::new() });
        }
        let finish = turn.finish.unwrap_or(Finish::Done);
        self.input(
            task,
            Input::ModelEnded { finish, used: Usage::default(), frame: None, tail: None, beginning: None },
        );
        Ok(())
    }

    fn compose(&mut self, slug: &str) -> Result<(), String> {
        if self.prompts.contains_key(slug) {
            return Ok(());
        }
        let mode = self.conditions.modes.find(slug).map_err(|unknown| unknown.to_string())?;
        let protocol = self.kept.request.protocol;
        let Instructions { system, tools } = (self.conditions.compose)(mode, protocol, &self.choice);
        let definitions = tools.iter().filter(|_| protocol == ToolProtocol::Native).map(|tool| {
            let (description, parameters) = (tool.description().into_owned(), tool.schema().clone());
            (tool.name().to_owned(), ToolDefinition { description, parameters })
        });
        let prompt = ModePrompt {
            definitions: definitions.collect(),
            tools: tools.iter().map(|tool| tool.name().to_owned()).collect(),
            system,
        };
        self.prompts.insert(slug.to_owned(), prompt);
        Ok(())
    }

    /// Decides on the current call as the mode does now. What else decided is taken as recorded.
    fn judge(&mut self, id: &TaskId) -> Result<PolicyDecision, String> {
        let Some(task) = self.task(id) else { return Err("a task is missing".to_owned()) };
        let Some(call) = task.call_to_judge() else { return Err("a call is missing".to_owned()) };
        let Some(kept) = self.kept_call(&call.id) else {
            return Err(format!("the call of {} was not recorded", call.name));
        };
        let plan = match self.plan(task, &call) {
            Ok(plan) => plan,
            Err(refusal) => return Ok(refusal.into_decision()),
        };
        if let Some(rule) = &kept.denied {
            let rule = rule.parse().unwrap_or(RefusalRule::Denied);
            let decision = PolicyDecision::Deny {
                rule,
                reason: kept.result.clone().unwrap_or_default(),
                mistake: kept.status == Some(ToolStatus::Failed),
                saves: false,
                detail: None,
            };
            if is_of_mode(rule) {
                let subject = render::one_line(&call.subject(), 80);
                let text = format!("{} {subject} was refused ({rule}), and is permitted now", call.name);
                self.permitted.push(text);
            }
            return Ok(decision);
        }
        if kept.refused.is_some() {
            return Ok(PolicyDecision::Ask {
                rule: AskRule::Policy,
                reason: String::new(),
                digest: Digest::of(""),
                title: String::new(),
                subject: String::new(),
                rule_subject: None,
                alternative: None,
            });
        }
        let rule = NamedAllowRule::Approval.into();
        Ok(PolicyDecision::Allow { rule, reason: String::new(), plan })
    }

    /// The plan of a call, or the reason why the mode doesn't permit it.
    fn plan(&self, task: &Task, call: &ToolCall) -> Result<Plan, Refusal> {
        let modes = self.conditions.modes;
        let mode =
            modes.find(&task.settings.mode).map_err(|error| Refusal::mistake(RefusalRule::Mode, error))?;
        let tool = check_tool(call, call.tool(), mode, &self.choice)?;
        let ToolId::BuiltIn(tool) = tool else { return Ok(Plan::Nothing) };
        let invocation =
            roo_catalog::parse(call).map_err(|error| Refusal::mistake(RefusalRule::Parameters, error))?;
        Ok(match invocation {
            Invocation::NewTask(call) => {
                let delegations = task.guard.delegations();
                let (target, delegation) = check_delegation(&call, mode, modes, delegations, &task.urid)?;
                let directory = modes::task_directory(&task.urid);
                Plan::Branch(Box::new(PlannedBranch {
                    mode: target.slug.clone(),
                    emoji: target.emoji.clone(),
                    profile: String::new(),
                    protocol: self.kept.request.protocol,
                    delegation,
                    task_directory: Some(directory).filter(|_| self.conditions.has_task_directory),
                    todos: call.todos,
                    // A play changes no files.
                    worktree: false,
                }))
            }
            Invocation::SwitchMode(call) => {
                let target = check_switch(&call, mode, modes)?;
                let mode = Some((target.slug.clone(), target.emoji.clone()));
                Plan::Mode(ModeChange { mode, profile: None })
            }
            invocation => {
                check_files(tool, &invocation, mode, &task.urid)?;
                Plan::Nothing
            }
        })
    }

    /// What a tool did when the cassette was recorded.
    fn outcome(&self, id: &ToolCallId) -> Result<Outcome, String> {
        let kept = self.kept_call(id).and_then(|kept| Some((kept, kept.status?)));
        let Some((kept, status)) = kept else { return Err("a call has no recorded result".to_owned()) };
        let text = kept.result.clone().unwrap_or_default();
        let known = |path: &String| (path.clone(), Some(Digest::of("")));
        Ok(Outcome { seen: kept.seen.iter().map(known).collect(), ..Outcome::new(status, text, "") })
    }

    fn answer(&mut self, task: &TaskId) -> Result<(), String> {
        let call = self.task(task).and_then(Task::current_call);
        let answer = call.and_then(|call| self.kept_call(&call.id)).and_then(|kept| kept.answered.clone());
        let Some(text) = answer else {
            return Err("a question to the user has no recorded answer".to_owned());
        };
        self.input(task, Input::Answer { text, images: vec![], by: USER.into() });
        Ok(())
    }

    fn refuse(&mut self, task: &TaskId) {
        let call = self.task(task).and_then(Task::current_call);
        let refused = call.and_then(|call| self.kept_call(&call.id)).and_then(|kept| kept.refused.clone());
        let refused = refused.unwrap_or_default();
        let by = if refused.unattended { Decider::Unattended } else { USER.into() };
        self.input(
            task,
            Input::Respond { option_id: Choice::RejectOnce, text: refused.feedback, review: None, by },
        );
    }

    fn task(&self, id: &TaskId) -> Option<&Task> {
        self.recorder.tree()?.task(id)
    }

    /// The recorded turn that answers the next request of a task.
    fn turn_of(&self, task: &TaskId) -> Option<&CassetteTurn> {
        let branch = self.recorder.branch_of(task)?;
        self.kept_turn(branch_name(branch).as_deref(), self.recorder.turns_of(branch))
    }

    fn kept_turn(&self, branch: Option<&str>, turn: usize) -> Option<&CassetteTurn> {
        self.kept.task(branch)?.turns.get(turn)
    }

    fn kept_call(&self, id: &ToolCallId) -> Option<&CassetteCall> {
        let CallPlace { branch, turn, block } = self.recorder.place_of(id)?;
        match self.kept_turn(branch_name(branch).as_deref(), *turn)?.answer.get(*block)? {
            CassetteBlock::Call(call) => Some(call),
            CassetteBlock::Text(_) | CassetteBlock::Thinking(_) => None,
        }
    }

    fn input(&mut self, task: &TaskId, input: Input) {
        let facts = self.recorder.tree().map(|tree| tree.decide(task, input, 0));
        self.commit(facts.unwrap_or_default());
    }

    fn commit(&mut self, facts: Vec<Fact>) {
        for (task_id, event) in facts {
            self.seq += 1;
            self.recorder.add(&Record { seq: self.seq, at: 0, task_id, event });
        }
    }
}

/// Returns whether a mode alone decides by this rule.
fn is_of_mode(rule: RefusalRule) -> bool {
    use RefusalRule::{Delegation, Message, Mode, Parameters, Tool};
    matches!(rule, Tool | Mode | Parameters | Delegation | Message)
}

/// What the first task calls for that calls for anything.
fn next(tree: &Tree) -> Next {
    for task in tree.tasks() {
        if let Some(effect) = task::wanted(task) {
            return Next::Effect(task.id.clone(), effect);
        }
        if task.approval().is_some() {
            return Next::Approval(task.id.clone());
        }
        match task.question() {
            Some(_) if task.current_call().is_some() => return Next::Question(task.id.clone()),
            Some(question) => return Next::OfServer(question.text.clone()),
            None => {}
        }
    }
    Next::Nothing
}
