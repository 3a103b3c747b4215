//! `roo-lsp attach`: a live request of the daemon in a terminal. Whoever attaches is one client among others: the first answer
//! counts, and to leave ends nothing.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, BufRead as _, Write as _};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::arguments::{Attach, Common, Format};
use super::notices::Notices;
use super::notification::Notifier;
use super::resume_command;
use super::run::{Viewer, answer_of, approval_keys, approval_question, chosen_option, end_line, problem_of};
use super::session::SessionContext;
use super::signals::{Signal, Signals};
use super::terminal::{self, TERMINAL_USER};
use super::{CliError, Ending};
use crate::daemon::{self, DaemonPlace, FoundDaemon, FromRequest, LostDaemons, RequestClient, RequestStatus};
use crate::shell_word::shell_word;
use crate::view::{Prompt, newest_tree};
use roo_protocol::event::{DegradedUntil, Event, EventParams};
use roo_protocol::ids::TaskId;
use roo_protocol::task::{
    AnswerResult, ApprovalRespondParams, QuestionAnswerParams, SendWhen, TaskParams, TaskSendParams,
    TaskState,
};
use roo_text::render::{counted, exact_line, one_line};

/// Time that users need to see that something else is asked.
const REACTION: Duration = Duration::from_millis(500);
/// The longest title in a list, in characters.
const TITLE: usize = 60;
/// What a line begins with that is for the request and no answer.
const SAY: &str = "/say ";
const CANCEL: &str = "/cancel";
const DETACH: &str = "/detach";

/// Follows a request to its end, or until the user leaves it.
pub(super) async fn attach(common: Common, attach: Attach, notices: &Notices) -> Result<Ending, CliError> {
    // From the start, so that it is known what was typed before something was asked.
    let mut lines = read_lines();
    let context = SessionContext::find(&common)?;
    let found = daemon::find_resumed(&context.directories).await;
    let found = found.map_err(|error| CliError::Other(error.to_string()))?;
    let (place, request) = choose(Live::from_daemons(found), &context, attach.request.as_deref())?;
    let mut signals = Signals::listen()?;
    let client = RequestClient::connect(&place, &request.id, TERMINAL_USER, 0).await;
    let (client, newest) = client.map_err(|error| CliError::Other(error.to_string()))?;
    let view = Viewer::following(attach.format, notices);
    let mut attached = Attached {
        client,
        viewer: view,
        format: attach.format,
        root: request.id.clone(),
        seen: 0,
        newest,
        is_caught_up: newest == 0,
        waiting: VecDeque::new(),
        given: HashMap::new(),
        sent: HashSet::new(),
        is_asking: false,
        is_cancelling: false,
        shown: ShownPrompt::default(),
        notifier: Notifier::new(context.settings_to_look().daemon.notifications),
    };
    let mut lost = LostDaemons::default();
    let left = loop {
        let left = attached.follow(&mut lines, &mut signals).await;
        if !matches!(left, Ok(Left::Lost)) {
            break left;
        }
        attached.lose_daemon()?;
        let Attached { root, seen, .. } = &attached;
        let connect = || RequestClient::reconnect(&context.directories, &place, root, TERMINAL_USER, *seen);
        // Whoever leaves waits for no daemon.
        let next = tokio::select! {
            next = lost.replace(connect) => next,
            signal = signals.next() => break Ok(Left::by(signal)),
        };
        match next {
            Ok(Some((client, newest))) => attached.go_on(client, newest, &mut lines)?,
            Ok(None) => {
                let resume = resume_command::of_request(&request);
                break Err(CliError::Other(format!("the request is interrupted; continue with: {resume}")));
            }
            Err(error) => {
                break Err(CliError::Other(format!(
                    "there is no other daemon: {error}; the request can be resumed"
                )));
            }
        }
    };
    attached.viewer.clear()?;
    attached.notifier.finish().await;
    match left? {
        Left::Ended(ending) => Ok(ending),
        Left::Terminated => Ok(Ending::Terminated),
        Left::ByUser | Left::Lost => {
            let urid = request.urid;
            writeln!(
                terminal::stderr(),
                "roo-lsp: the request goes on; see it again with: roo-lsp attach {urid}"
            )?;
            Ok(Ending::Done)
        }
    }
}

/// Why a request is no longer followed.
enum Left {
    /// It has ended.
    Ended(Ending),
    /// The user leaves it as it is.
    ByUser,
    /// The process is asked to end.
    Terminated,
    /// The daemon was killed.
    Lost,
}

impl Left {
    fn by(signal: Signal) -> Self {
        match signal {
            Signal::Interrupt => Self::ByUser,
            Signal::Terminate => Self::Terminated,
        }
    }
}

/// The live requests, as far as daemons tell.
#[derive(Default)]
struct Live {
    requests: Vec<(DaemonPlace, RequestStatus)>,
    /// Why a daemon, which may have others, can't be asked.
    problem: Option<String>,
}

impl Live {
    fn from_daemons(found: Vec<FoundDaemon>) -> Self {
        let mut live = Self::default();
        for FoundDaemon { place, status } in found {
            match status {
                Ok(status) => live.requests.extend(status.requests.into_iter().map(|it| (place.clone(), it))),
                Err(error) => live.problem = Some(error.to_string()),
            }
        }
        live
    }
}

/// The request that is meant: the one of this name, or the only one of the workspace.
fn choose(
    live: Live,
    context: &SessionContext,
    name: Option<&str>,
) -> Result<(DaemonPlace, RequestStatus), CliError> {
    let is_meant = |request: &RequestStatus| match name {
        Some(name) => {
            !name.is_empty()
                && (request.urid.as_str().starts_with(name) || request.id.as_str().starts_with(name))
        }
        None => request.folders.contains(&context.folder),
    };
    let Live { requests, problem } = live;
    let (mut meant, others): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|(_, request)| is_meant(request));
    if let (true, Some(problem)) = (meant.is_empty(), problem) {
        return Err(CliError::Other(format!("a daemon can't be asked: {problem}")));
    }
    match (meant.len(), name) {
        (1, _) => meant.pop().ok_or_else(|| CliError::Other("no request is live".to_owned())),
        (0, Some(name)) => {
            let none_is_meant = match others.is_empty() {
                true => "no request is live in a daemon. ".to_owned(),
                false => {
                    let name = exact_line(name);
                    format!("no live request is named '{name}'; these are:{}\n", listed(&others))
                }
            };
            let name = shell_word(name);
            Err(CliError::Other(format!(
                "{none_is_meant}roo-lsp tasks show {name} says where it stands; one that has stopped goes on by roo-lsp tasks \
                 resume {name}"
            )))
        }
        (0, None) if others.is_empty() => Err(CliError::Other(
            "no request is live in a daemon; editors that start the server with --daemon have them, and \
             roo-lsp run --detach begins one there"
                .to_owned(),
        )),
        (0, None) => Err(CliError::Other(format!(
            "no request of this workspace is live; name one of:{}",
            listed(&others)
        ))),
        _ => Err(CliError::Other(format!("several requests are live; name one of:{}", listed(&meant)))),
    }
}

fn listed(requests: &[(DaemonPlace, RequestStatus)]) -> String {
    let line = |(_, request): &(DaemonPlace, RequestStatus)| {
        format!("\n  {}  {}", exact_line(request.urid.as_str()), one_line(&request.title, TITLE))
    };
    requests.iter().map(line).collect()
}

/// A line of standard input.
struct Typed {
    line: String,
    /// When it was there.
    at: Instant,
}

/// The lines of standard input. The thread that reads them can't be ended; the process can.
fn read_lines() -> mpsc::UnboundedReceiver<Typed> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(Typed { line, at: Instant::now() }).is_err() {
                return;
            }
        }
    });
    lines
}

/// What the user was asked last, and since when: so that no line answers what they had not seen when they typed it.
#[derive(Default)]
struct ShownPrompt {
    prompt: Option<(PromptKey, Instant)>,
    /// When a prompt was taken away that the user had not answered.
    withdrawn: Option<Instant>,
}

/// A prompt's id, and what it is about: the same id may come to stand for something else.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PromptKey(String, Option<String>);

impl PromptKey {
    fn new(prompt: &Prompt) -> Self {
        let digest = match prompt {
            Prompt::Approval(approval) => Some(approval.digest.to_string()),
            Prompt::Question(_) => None,
        };
        Self(prompt.id().to_owned(), digest)
    }
}

impl ShownPrompt {
    /// A prompt is shown, for the first time or once more.
    fn show(&mut self, key: PromptKey, now: Instant) {
        if self.prompt.as_ref().is_none_or(|(shown, _)| *shown != key) {
            self.prompt = Some((key, now));
        }
    }

    /// The user has answered it.
    fn answered(&mut self) {
        self.prompt = None;
    }

    /// Something has happened; `first` is what waits for the user by now.
    fn follow(&mut self, first: Option<PromptKey>, now: Instant) {
        if self.prompt.as_ref().is_some_and(|(shown, _)| first.as_ref() != Some(shown)) {
            self.prompt = None;
            self.withdrawn = Some(now);
        }
    }

    /// Returns whether a line was typed before the user could see what is asked now.
    fn is_too_new_for(&self, typed: Instant) -> bool {
        let is_unseen = self.prompt.as_ref().is_some_and(|(_, since)| typed < *since);
        is_unseen || self.withdrawn.is_some_and(|withdrawn| typed < withdrawn + REACTION)
    }
}

/// A request, as this terminal shows it.
struct Attached {
    client: RequestClient,
    viewer: Viewer,
    format: Format,
    root: TaskId,
    /// The number of the newest event that was shown.
    seen: u64,
    /// The number of the newest event when this client came.
    newest: u64,
    /// What was asked before that has been told by now, with its answers.
    is_caught_up: bool,
    /// What waits for an answer, oldest first.
    waiting: VecDeque<Prompt>,
    /// What was answered, by the number of the answer; it waits again if that is refused.
    given: HashMap<i64, Prompt>,
    /// What else was sent and has no answer yet, by the number of that.
    sent: HashSet<i64>,
    /// A prompt stands at the end of the last line.
    is_asking: bool,
    /// True if the user has cancelled the request: then nothing that waits is asked any more.
    is_cancelling: bool,
    shown: ShownPrompt,
    notifier: Notifier,
}

impl Attached {
    /// Shows what happens and sends what the user types.
    async fn follow(
        &mut self,
        lines: &mut mpsc::UnboundedReceiver<Typed>,
        signals: &mut Signals,
    ) -> Result<Left, CliError> {
        let mut input_is_open = true;
        self.ask()?;
        loop {
            tokio::select! {
                came = self.client.next() => {
                    let Ok(came) = came else { return Ok(Left::Lost) };
                    let Some(came) = came else {
                        return Err(CliError::Other("the daemon has ended; the request can be resumed".to_owned()));
                    };
                    if let Some(ending) = self.take(came)? {
                        return Ok(Left::Ended(ending));
                    }
                }
                // Nothing that was typed before answers a question that was not shown.
                typed = lines.recv(), if input_is_open && self.is_caught_up => match typed {
                    None => input_is_open = false,
                    Some(Typed { line, at }) => {
                        self.is_asking = false;
                        let line = line.trim();
                        if line == DETACH {
                            return Ok(Left::ByUser);
                        }
                        let is_command = line == CANCEL || line.starts_with(SAY);
                        if !is_command && self.shown.is_too_new_for(at) {
                            self.drop_line(line)?;
                        } else {
                            self.hear(line)?;
                        }
                    }
                },
                signal = signals.next() => return Ok(Left::by(signal)),
            }
        }
    }

    /// The daemon was killed. What it has not confirmed waits again: whether it was done, the events of the request tell.
    fn lose_daemon(&mut self) -> Result<(), CliError> {
        end_line(&mut self.is_asking)?;
        self.viewer.clear()?;
        let mut out = terminal::stderr();
        writeln!(out, "roo-lsp: the daemon ended unexpectedly; another one is looked for")?;
        if !std::mem::take(&mut self.sent).is_empty() {
            writeln!(out, "roo-lsp: whether it got what you sent last is not known")?;
        }
        let mut given: Vec<(i64, Prompt)> = std::mem::take(&mut self.given).into_iter().collect();
        given.sort_by_key(|(number, _)| *number);
        for (_, prompt) in given.into_iter().rev() {
            self.waiting.push_front(prompt);
        }
        Ok(())
    }

    /// Goes on with another daemon, which tells what comes behind the events that were shown.
    fn go_on(
        &mut self,
        client: RequestClient,
        newest: u64,
        lines: &mut mpsc::UnboundedReceiver<Typed>,
    ) -> Result<(), CliError> {
        self.client = client;
        self.newest = newest;
        self.is_cancelling = false;
        self.is_caught_up = self.seen >= newest;
        let mut out = terminal::stderr();
        writeln!(out, "roo-lsp: another daemon has taken over")?;
        // It may have been meant for a question that is no longer the one that waits.
        let mut unsent = 0;
        while lines.try_recv().is_ok() {
            unsent += 1;
        }
        if unsent > 0 {
            writeln!(out, "roo-lsp: {} typed meanwhile and not sent", counted(unsent, "line"))?;
        }
        Ok(())
    }

    /// Shows what came. Returns the ending of the request.
    fn take(&mut self, came: FromRequest) -> Result<Option<Ending>, CliError> {
        let params = match came {
            FromRequest::Event(params) => params,
            FromRequest::Answer(number, answer) => {
                self.take_answer(number, answer)?;
                return Ok(None);
            }
        };
        if let Some(nodes) = newest_tree([&*params]) {
            self.viewer.learn(nodes);
        }
        self.viewer.show_below(&params, &mut self.is_asking)?;
        let asked = self.waiting.front().map(PromptKey::new);
        match &params.event {
            Event::ApprovalRequested { approval } => {
                self.wait_for(Prompt::Approval(approval.clone()), &approval.title);
            }
            Event::QuestionAsked { question } => {
                self.wait_for(Prompt::Question(question.clone()), &question.text);
            }
            Event::ServerDegraded { until: Some(DegradedUntil::Attached), .. } => {
                return Err(CliError::Other(format!(
                    "the request can't be followed any more; see it again with: roo-lsp attach {}",
                    self.root
                )));
            }
            Event::ApprovalResolved { approval_id, .. } => self.settle(approval_id.as_str()),
            Event::QuestionAnswered { question_id, .. } => self.settle(question_id.as_str()),
            _ => {}
        }
        if asked != self.waiting.front().map(PromptKey::new) {
            // It is answered elsewhere, or something else is asked now.
            end_line(&mut self.is_asking)?;
        }
        self.seen = self.seen.max(params.seq.unwrap_or_default());
        self.is_caught_up |= params.seq.is_some_and(|seq| seq >= self.newest);
        if self.is_caught_up
            && let Some(ending) = self.ending(&params)?
        {
            return Ok(Some(ending));
        }
        self.follow_prompts();
        self.ask()?;
        Ok(None)
    }

    /// The ending of the request, if this event is its end. The result is printed.
    fn ending(&mut self, params: &EventParams) -> Result<Option<Ending>, CliError> {
        let Event::TaskState { state, result, .. } = &params.event else { return Ok(None) };
        if params.task_id != self.root || !state.is_final() {
            return Ok(None);
        }
        if let (Some(result), Format::Text) = (result, self.format) {
            writeln!(terminal::stdout(), "{result}")?;
        }
        let text = result.as_deref().unwrap_or_else(|| state.as_str());
        self.notifier.notify("roo: a request has ended", text);
        Ok(Some(match state {
            TaskState::Completed => Ending::Done,
            TaskState::Cancelled => Ending::Interrupted,
            _ => Ending::Failed,
        }))
    }

    /// Takes the answer to what was sent under a number. What it refuses waits again, before everything else.
    fn take_answer(&mut self, number: i64, answer: Result<Value, String>) -> Result<(), CliError> {
        self.sent.remove(&number);
        let given = self.given.remove(&number);
        let problem = match (&given, answer) {
            (_, Err(problem)) => {
                self.is_cancelling = false;
                self.waiting_again(given);
                Some(problem)
            }
            (Some(_), Ok(answer)) => match serde_json::from_value::<AnswerResult>(answer) {
                Ok(AnswerResult { waits: true, .. }) => {
                    self.waiting_again(given);
                    // It is asked once more, in the place of what was shown meanwhile.
                    end_line(&mut self.is_asking)?;
                    None
                }
                Ok(answer) => problem_of(&answer),
                Err(_) => None,
            },
            (None, Ok(_)) => None,
        };
        if let Some(problem) = problem {
            end_line(&mut self.is_asking)?;
            writeln!(terminal::stderr(), "roo-lsp: {}", exact_line(&problem))?;
        }
        self.follow_prompts();
        self.ask()
    }

    fn waiting_again(&mut self, prompt: Option<Prompt>) {
        if let Some(prompt) = prompt {
            self.waiting.push_front(prompt);
        }
    }

    /// A prompt has its answer, or is void.
    fn settle(&mut self, id: &str) {
        self.waiting.retain(|prompt| prompt.id() != id);
        self.given.retain(|_, prompt| prompt.id() != id);
    }

    /// Something asks its user. What was asked before this client came is no news.
    fn wait_for(&mut self, prompt: Prompt, text: &str) {
        if self.is_caught_up {
            self.notifier.notify("roo: a request asks something", text);
        }
        // After the end of a daemon it may be asked again.
        self.waiting.retain(|waiting| waiting.id() != prompt.id());
        self.waiting.push_back(prompt);
    }

    /// Sends the answer to what has waited longest, and asks the next.
    fn give(&mut self, method: &str, answer: &impl Serialize) -> Result<(), CliError> {
        if let Some(prompt) = self.waiting.pop_front() {
            self.shown.answered();
            let number = self.client.send(method, answer);
            self.given.insert(number, prompt);
        }
        self.ask()
    }

    /// Asks what has waited longest. What was asked before this client came may have its answer, which is yet to be told.
    fn ask(&mut self) -> Result<(), CliError> {
        let Some(prompt) =
            self.waiting.front().filter(|_| self.is_caught_up && !self.is_asking && !self.is_cancelling)
        else {
            return Ok(());
        };
        self.shown.show(PromptKey::new(prompt), Instant::now());
        self.viewer.clear()?;
        let text = match prompt {
            Prompt::Approval(approval) => approval_question(&approval_keys(approval)),
            Prompt::Question(_) => "  > ".to_owned(),
        };
        let mut out = io::stderr().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        self.is_asking = true;
        Ok(())
    }

    fn follow_prompts(&mut self) {
        self.shown.follow(self.waiting.front().map(PromptKey::new), Instant::now());
    }

    /// Says that a line was not sent, and asks once more.
    fn drop_line(&mut self, line: &str) -> Result<(), CliError> {
        let why = "not sent, as it was typed before you could see what is asked now";
        writeln!(terminal::stderr(), "roo-lsp: '{}' was {why}", one_line(line, TITLE))?;
        self.ask()
    }

    /// Takes a line of the user: a command, an answer to what is asked, or words for the agent.
    fn hear(&mut self, line: &str) -> Result<(), CliError> {
        if line == CANCEL {
            let params = TaskParams { task_id: self.root.clone() };
            self.sent.insert(self.client.send("roo/task/cancel", &params));
            self.is_cancelling = true;
            return Ok(());
        }
        let words = line.strip_prefix(SAY).map(str::trim);
        match (words, self.waiting.front()) {
            (Some(text), _) => self.say(text),
            (None, Some(Prompt::Approval(approval))) => {
                let keys = approval_keys(approval);
                match chosen_option(&keys, line) {
                    Some((option, text)) => {
                        let answer = ApprovalRespondParams { text, ..approval.answer(option.id.clone()) };
                        self.give("roo/approval/respond", &answer)?;
                    }
                    None => {
                        let known: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
                        writeln!(terminal::stderr(), "  Answer with one of {}.", known.join(", "))?;
                        self.ask()?;
                    }
                }
            }
            (None, Some(Prompt::Question(question))) if !line.is_empty() => match answer_of(line, question) {
                Ok(text) => {
                    let question_id = question.question_id.clone();
                    let answer = QuestionAnswerParams { question_id, text, images: vec![] };
                    self.give("roo/question/answer", &answer)?;
                }
                Err(problem) => {
                    writeln!(terminal::stderr(), "  {problem}")?;
                    self.ask()?;
                }
            },
            (None, Some(Prompt::Question(_))) => self.ask()?,
            (None, None) if line.is_empty() => {}
            (None, None) => self.say(line),
        }
        Ok(())
    }

    fn say(&mut self, text: &str) {
        let (task_id, text) = (self.root.clone(), text.to_owned());
        let params = TaskSendParams { task_id, text, images: vec![], when: SendWhen::default() };
        self.sent.insert(self.client.send("roo/task/send", &params));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, digest: &str) -> PromptKey {
        PromptKey(id.to_owned(), Some(digest.to_owned()))
    }

    #[test]
    fn a_line_answers_what_was_shown_when_it_was_typed() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut shown = ShownPrompt::default();
        assert!(!shown.is_too_new_for(start), "nothing is asked");
        shown.show(key("a1", "d"), after(100));
        assert!(shown.is_too_new_for(after(99)));
        assert!(!shown.is_too_new_for(after(101)));
        // It is printed once more, below what has happened.
        shown.show(key("a1", "d"), after(200));
        assert!(!shown.is_too_new_for(after(150)));
        // The next one is asked when the user has answered this one.
        shown.answered();
        shown.follow(Some(key("a2", "d")), after(300));
        shown.show(key("a2", "d"), after(300));
        assert!(shown.is_too_new_for(after(299)) && !shown.is_too_new_for(after(301)));
    }

    #[test]
    fn a_line_that_comes_as_its_prompt_is_taken_away_answers_nothing_else() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        for next in [Some(key("a2", "d")), Some(key("a1", "other")), None] {
            let mut shown = ShownPrompt::default();
            shown.show(key("a1", "d"), start);
            shown.follow(Some(key("a1", "d")), after(500));
            assert!(!shown.is_too_new_for(after(600)));
            shown.follow(next.clone(), after(1000));
            if let Some(next) = next {
                shown.show(next, after(1000));
            }
            assert!(shown.is_too_new_for(after(1400)));
            assert!(!shown.is_too_new_for(after(1600)));
        }
    }
}
