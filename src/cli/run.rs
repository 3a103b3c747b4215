//! `roo-lsp run`: one request without an editor, with all its branches.

use std::collections::{HashSet, VecDeque};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat, tell};
use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::arguments::{Allow, Common, Format, OnAsk, Run, View, Words};
use super::dialogue::Dialogue;
use super::notices::Notices;
use super::resume_command;
use super::session::{SessionContext, check_profile};
use super::signals::{Signal, Signals};
use super::terminal;
use super::transcript::TerminalTranscript;
use super::tree_footer::Footer;
use super::{CliError, Ending, modes, read_input};
use crate::view::{Prompt, newest_tree, waits_for_user};
use roo_engine::customization::Customization;
use roo_engine::engine::{Decider, Engine, Follower};
use roo_engine::server_tools::DECLINE;
use roo_formats::config::{Layer, Settings};
use roo_protocol::event::{ApprovalOption, Event, EventParams, OptionKind, QuestionKind, Suggestion};
use roo_protocol::ids::{TaskId, Urid};
use roo_protocol::task::{
    ALLOW_ALWAYS, ALLOW_COMMANDS, ALLOW_EVERYWHERE, ALLOW_PRESET, AnswerResult, ApprovalRespondParams,
    PendingApproval, PendingQuestion, QuestionAnswerParams, REJECT_ALWAYS, TaskStartParams, TaskStartResult,
    TaskState,
};
use roo_protocol::tree::TreeNode;
use roo_text::render;

/// The profile that `--script` stands for.
pub(super) const SCRIPT_PROFILE: &str = "script";

/// Time for which a request that can't be saved waits for disk space, where nobody is there to free some.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of entries of a folder that are named in a question about it.
const NAMED_ENTRIES: usize = 8;
/// The longest part of a suggestion that is shown, in characters.
const SHOWN: usize = 60;
/// Time between two looks at the clock while something works.
const TICK: Duration = Duration::from_secs(1);

/// Runs a request to its end.
pub(super) async fn run(common: Common, run: Run, notices: &Notices) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    let is_named = common.workspace.is_some();
    run_request(&context, is_named, run, notices).await.map(|request| request.ending)
}

/// A request that this process has run.
pub(super) struct FinishedRun {
    pub(super) engine: Engine,
    pub(super) request: TaskId,
    pub(super) ending: Ending,
}

/// Runs a request to its end, and says how it can go on where it hasn't come there. `is_named`: whether the user has named
/// the workspace.
pub(super) async fn run_request(
    context: &SessionContext,
    is_named: bool,
    run: Run,
    notices: &Notices,
) -> Result<FinishedRun, CliError> {
    let reads_input = run.reads_input();
    confirm_wide_folder(context, is_named, !reads_input)?;
    let settings = context.live_settings(Layer::from_command_line(flags(&run.view)))?;
    let profile = run.profile();
    let customization = context.customization_at_work()?;
    check(&settings.newest().settings, &customization, run.mode.as_deref(), profile.as_deref())?;
    let prompt = prompt_of(&run)?;
    let signals = Signals::listen()?;
    let engine = context.engine(settings)?;
    let TaskStartResult { task_id, urid } =
        engine.start(TaskStartParams { prompt, mode: run.mode, profile, ..TaskStartParams::default() })?;
    let follower = engine.follow(&task_id, 0).await?;
    let viewer = Viewer::new(&run.view, !reads_input, notices);
    let outcome = Watch::new(&engine, task_id.clone(), viewer, signals).follow(follower, vec![]).await;
    engine.shutdown().await;
    engine.end_servers().await;
    let resume = resume_command::in_context(urid.as_str(), context, &run.view);
    let ending = conclude(&urid, &resume, outcome?)?;
    Ok(FinishedRun { engine, request: task_id, ending })
}

/// Returns whether a file or a pipe at standard input has something that nobody has read. A pipe that is filled later isn't
/// waited for: it may be one that never is.
fn has_unread_input() -> bool {
    let stdin = io::stdin();
    let Ok(found) = fstat(&stdin) else { return false };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {
            tell(&stdin).is_ok_and(|at| i64::try_from(at).is_ok_and(|at| at < found.st_size))
        }
        FileType::Fifo => has_input_within(&Timespec::default()),
        _ => false,
    }
}

/// Returns whether standard input can be read, now or within this time.
fn has_input_within(time: &Timespec) -> bool {
    let stdin = io::stdin();
    let mut descriptors = [PollFd::new(&stdin, PollFlags::IN)];
    let looked = poll(&mut descriptors, Some(time));
    looked.is_ok() && descriptors.iter().any(|stdin| stdin.revents().contains(PollFlags::IN))
}

impl Run {
    /// The profile that the flags name.
    pub(super) fn profile(&self) -> Option<String> {
        self.profile.clone().or_else(|| self.view.script.is_some().then(|| SCRIPT_PROFILE.to_owned()))
    }
}

/// The description of the task.
pub(super) fn prompt_of(run: &Run) -> Result<String, CliError> {
    let reads_input = run.reads_input();
    let prompt = match run.prompt.as_str() {
        "-" => read_input()?,
        prompt if reads_input => format!("{}\n\n{}", prompt.trim_end(), read_input()?),
        prompt => prompt.to_owned(),
    };
    if !reads_input && has_unread_input() {
        let advice = "standard input is not read; to send it along, write `-` behind the prompt";
        writeln!(terminal::stderr(), "roo-lsp: {advice}")?;
    }
    match prompt.trim().is_empty() {
        true => Err(CliError::Usage("the prompt is empty; describe the task".to_owned())),
        false => Ok(prompt),
    }
}

/// Lets no agents loose on a home directory because somebody forgot to go into a project: on a terminal it asks, elsewhere
/// it refuses. Whoever names the directory means it, and is told what that is.
pub(super) fn confirm_wide_folder(
    context: &SessionContext,
    is_named: bool,
    stdin_free: bool,
) -> Result<(), CliError> {
    let Some(what) = context.directories.too_wide(&context.folder) else { return Ok(()) };
    let folder = render::exact_line(&context.folder.to_string_lossy());
    if is_named {
        writeln!(terminal::stderr(), "roo-lsp: {folder} is {what}; agents work on all of it")?;
        return Ok(());
    }
    if stdin_free && io::stdin().is_terminal() && io::stderr().is_terminal() {
        let dialogue = Dialogue::new();
        let holds = render::exact_line(&in_short(&context.folder));
        dialogue.tell(format!(
            "{folder} is {what}: {holds}. Agents would work on all of it. Better go into a project."
        ))?;
        let answer = dialogue.ask("Work there all the same? [y/N]")?.to_lowercase();
        return match answer.as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(CliError::Usage("nothing was started".to_owned())),
        };
    }
    Err(CliError::Usage(format!(
        "the workspace would be {folder}, which is {what}. Go into a project, or name it: --workspace DIRECTORY"
    )))
}

/// What a folder holds, in a few words: the number of its entries and some of their names.
fn in_short(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let count = names.len();
    names.truncate(NAMED_ENTRIES);
    match count {
        0 => "it is empty".to_owned(),
        count if count <= NAMED_ENTRIES => names.join(", "),
        count => format!("{} and {} more", names.join(", "), count - NAMED_ENTRIES),
    }
}

/// Ends a line that is open on standard error.
pub(super) fn end_line(is_open: &mut bool) -> io::Result<()> {
    match std::mem::take(is_open) {
        true => writeln!(io::stderr()),
        false => Ok(()),
    }
}

/// Says how a request that waits or was stopped can go on: by the command line `resume`.
pub(super) fn conclude(urid: &Urid, resume: &str, outcome: WatchOutcome) -> Result<Ending, CliError> {
    if matches!(outcome.ending, Ending::Interrupted | Ending::Terminated) {
        writeln!(terminal::stderr(), "roo-lsp: stopped; continue with: {resume}")?;
    }
    let waiting: Vec<String> = outcome.waiting.iter().map(OpenQuestion::in_words).collect();
    if !waiting.is_empty() && outcome.ending == Ending::Waiting {
        let asked = |is: fn(&Prompt) -> bool| outcome.waiting.iter().any(|waiting| is(&waiting.asked));
        let flags = [
            ("--on-ask=allow or --on-ask=deny", asked(|asked| matches!(asked, Prompt::Approval(_)))),
            ("--answer=TEXT", asked(|asked| matches!(asked, Prompt::Question(_)))),
        ];
        let flags: Vec<&str> = flags.iter().filter(|(_, asked)| *asked).map(|(flag, _)| *flag).collect();
        let (what, flags) = (waiting.join(" and "), flags.join(" and "));
        for waiting in &outcome.waiting {
            if let Prompt::Question(PendingQuestion { kind: QuestionKind::ChangesUnknown, text, .. }) =
                &waiting.asked
            {
                writeln!(terminal::stderr(), "roo-lsp: {}", render::visible(text))?;
            }
        }
        writeln!(
            terminal::stderr(),
            "roo-lsp: {urid} waits for {what}; continue with: {resume} (without a terminal, answer by {flags})"
        )?;
    }
    Ok(outcome.ending)
}

/// Finds what would fail the task at its first request.
pub(super) fn check(
    settings: &Settings,
    customization: &Customization,
    mode: Option<&str>,
    profile: Option<&str>,
) -> Result<(), CliError> {
    if let Some(slug) = mode {
        let unknown = |error| CliError::Usage(format!("{error}{}", modes::waiting(customization)));
        customization.modes().find(slug).map_err(unknown)?;
    }
    let default = settings.profile_of(mode.unwrap_or(&settings.mode)).0;
    match (settings.find_profile(profile.unwrap_or(default)), profile) {
        (Ok(profile), _) => check_profile(profile).map_err(|error| CliError::Other(error.to_string())),
        (Err(unknown), Some(_)) => Err(CliError::Usage(unknown.to_string())),
        // The engine says so, before the task comes to be.
        (Err(_), None) => Ok(()),
    }
}

/// The settings that the flags stand for.
pub(super) fn flags(view: &View) -> Map<String, Value> {
    let mut keys = Map::new();
    if let Some(script) = &view.script {
        keys.insert("profiles".into(), json!({ SCRIPT_PROFILE: scripted_profile(script) }));
    }
    keys.extend(allowed(&view.allow));
    keys
}

/// The settings that stand for what the flags allow.
pub(super) fn allowed(allow: &Allow) -> Map<String, Value> {
    let mut approve = Map::new();
    if allow.allow_write {
        approve.insert("write".into(), true.into());
    }
    if !allow.allow_command.is_empty() {
        let rules: Vec<&[String]> = allow.allow_command.iter().map(|Words(words)| words.as_slice()).collect();
        approve.insert("execute".into(), json!({ "allow": rules }));
    }
    if approve.is_empty() {
        return approve;
    }
    Map::from_iter([("autoApprove".to_owned(), Value::Object(approve))])
}

/// A profile that plays a script.
pub(super) fn scripted_profile(script: &Path) -> Value {
    json!({ "provider": "scripted", "script": script })
}

/// Source of answers when permission is asked.
#[derive(Clone)]
pub(super) struct Answerer {
    /// The author of its answers.
    pub(super) by: Decider,
    pub(super) on_ask: OnAsk,
    /// Approvals that it always leaves waiting.
    pub(super) leaves: fn(&PendingApproval) -> bool,
}

impl Answerer {
    /// The user of the command line, or the flag that speaks for them.
    fn user(on_ask: OnAsk) -> Self {
        let by = match on_ask {
            OnAsk::Ask => Decider::Terminal,
            OnAsk::Deny => Decider::Unattended,
            OnAsk::Allow => "--on-ask allow".into(),
        };
        Self { by, on_ask, leaves: |_| false }
    }
}

/// Display of a task, and answers to its questions.
pub(super) struct Viewer {
    format: Format,
    answerer: Answerer,
    /// To the questions that come next.
    answers: VecDeque<String>,
    terminal: bool,
    transcript: TerminalTranscript,
    /// The tree at the bottom, on a terminal.
    footer: Option<Footer>,
    /// Warnings beside the request.
    notices: Notices,
    /// The time of the newest event or of the last look at the clock, in milliseconds since the Unix epoch.
    now: i64,
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.notices.end_transcript();
    }
}

impl Viewer {
    /// A viewer on this process's standard streams. `stdin_free`: whether nothing else reads it.
    pub(super) fn new(view: &View, stdin_free: bool, notices: &Notices) -> Self {
        let mut viewer = Self::answered_by(view.format, Answerer::user(view.on_ask), stdin_free, notices);
        viewer.answers = view.answer.clone().into();
        viewer
    }

    /// The same, with another one to answer.
    pub(super) fn answered_by(
        format: Format,
        answerer: Answerer,
        stdin_free: bool,
        notices: &Notices,
    ) -> Self {
        if format == Format::Text {
            notices.begin_transcript();
        }
        let terminal = stdin_free && io::stderr().is_terminal() && io::stdin().is_terminal();
        let footer = (terminal::moves_cursor() && format == Format::Text).then(Footer::default);
        let mut transcript = TerminalTranscript::new(terminal::has_colours(), footer.is_none());
        if !matches!(answerer.on_ask, OnAsk::Ask) {
            transcript.leave_out_offers();
        }
        Self {
            format,
            answerer,
            answers: VecDeque::new(),
            terminal,
            transcript,
            footer,
            notices: notices.clone(),
            now: 0,
        }
    }

    /// A viewer that answers nothing itself.
    pub(super) fn following(format: Format, notices: &Notices) -> Self {
        Self::answered_by(format, Answerer::user(OnAsk::Ask), true, notices)
    }

    /// A viewer of a request that runs on another machine, where no answer from here makes a rule.
    pub(super) fn for_remote(format: Format, on_ask: OnAsk, notices: &Notices) -> Self {
        let mut viewer = Self::answered_by(format, Answerer::user(on_ask), true, notices);
        viewer.transcript.leave_out_offers();
        viewer
    }

    /// Takes the newest tree.
    pub(super) fn learn(&mut self, nodes: &[TreeNode]) {
        self.transcript.learn(nodes);
    }

    /// Returns whether the clock at the bottom goes on.
    fn ticks(&self) -> bool {
        self.footer.is_some() && self.transcript.is_at_work() && !self.transcript.is_open()
    }

    /// Draws the clock at the bottom again.
    fn tick(&mut self, now: i64) -> io::Result<()> {
        self.now = now;
        self.print("", true)
    }

    /// Shows an event.
    pub(super) fn show(&mut self, params: &EventParams) -> io::Result<()> {
        self.show_below(params, &mut false)
    }

    /// Shows an event below a line that may be open, such as a prompt, and ends that line first. It stays open where there is
    /// nothing to show.
    pub(super) fn show_below(&mut self, params: &EventParams, is_line_open: &mut bool) -> io::Result<()> {
        self.now = params.at;
        match self.format {
            Format::Ndjson => {
                let mut line = serde_json::to_vec(params)?;
                line.push(b'\n');
                end_line(is_line_open)?;
                terminal::stdout().write_all(&line)
            }
            Format::Text => {
                let mut text = self.transcript.notices(&self.notices.take());
                text.push_str(&self.transcript.format_event(params));
                if text.is_empty() && *is_line_open {
                    // The tree is drawn with what is shown next.
                    return Ok(());
                }
                end_line(is_line_open)?;
                self.print(&text, matches!(params.event, Event::TreeChanged { .. }))
            }
        }
    }

    /// Prints above the tree at the bottom, which is redrawn if it changed.
    fn print(&mut self, text: &str, tree_changed: bool) -> io::Result<()> {
        if text.is_empty() && !tree_changed {
            return Ok(());
        }
        let mut out = io::stderr().lock();
        if let Some(footer) = &mut self.footer {
            // There is none while a line is unfinished.
            out.write_all(footer.erase().as_bytes())?;
            out.write_all(text.as_bytes())?;
            if !self.transcript.is_open() {
                let activity = self.transcript.activity(self.now);
                out.write_all(footer.draw(self.transcript.nodes(), activity.as_deref()).as_bytes())?;
            }
        } else {
            out.write_all(text.as_bytes())?;
        }
        out.flush()
    }

    /// Takes away the tree at the bottom, so that something else can be written there.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        match &mut self.footer {
            Some(footer) => io::stderr().lock().write_all(footer.erase().as_bytes()),
            None => Ok(()),
        }
    }

    /// Leaves the tree as it is in the end: what follows is written below it.
    fn finish(&mut self, nodes: &[TreeNode]) -> io::Result<()> {
        self.transcript.learn(nodes);
        if self.format == Format::Ndjson {
            return Ok(());
        }
        self.clear()?;
        self.footer = None;
        let tree = self.transcript.tree();
        io::stderr().lock().write_all(tree.as_bytes())
    }

    /// Returns whether somebody at the terminal decides.
    fn asks_user(&self) -> bool {
        self.terminal && matches!(self.answerer.on_ask, OnAsk::Ask)
    }

    /// Returns whether somebody at the terminal answers this.
    pub(super) fn asks_user_about(&self, prompt: &Prompt) -> bool {
        match prompt {
            // What was meant for a question of the model is no answer to a server.
            Prompt::Question(question) if question.kind != QuestionKind::McpElicitation => self.terminal,
            Prompt::Question(_) | Prompt::Approval(_) => self.asks_user(),
        }
    }

    /// The option to choose, and the words that go with it; none leaves the question waiting.
    pub(super) async fn choose(&self, approval: &PendingApproval) -> Option<(String, Option<String>)> {
        if (self.answerer.leaves)(approval) {
            return None;
        }
        let options = &approval.options;
        let of_kind =
            |kind| options.iter().find(|option| option.kind == kind).map(|option| option.id.clone());
        match self.answerer.on_ask {
            OnAsk::Allow => of_kind(OptionKind::AllowOnce).map(|option| (option, None)),
            OnAsk::Deny => of_kind(OptionKind::RejectOnce).map(|option| (option, None)),
            OnAsk::Ask if self.terminal => {
                let keys = approval_keys(approval);
                discard_typed();
                loop {
                    let line = ask(approval_question(&keys)).await?;
                    if let Some((option, words)) = chosen_option(&keys, &line) {
                        return Some((option.id.clone(), words));
                    }
                    let known: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
                    // The question comes again in any case.
                    let _ = writeln!(terminal::stderr(), "  Answer with one of {}.", known.join(", "));
                }
            }
            OnAsk::Ask => None,
        }
    }

    /// The answer to a question; none leaves it waiting.
    ///
    /// # Errors
    /// An answer of the command line that is the number of no suggestion, where nobody at the terminal can give another one.
    pub(super) async fn answer(
        &mut self,
        question: &PendingQuestion,
    ) -> Result<Option<String>, NoSuchSuggestion> {
        // What was meant for a question of the model is no leave to go on.
        // Nor is it for a server.
        let for_server = question.kind == QuestionKind::McpElicitation;
        let asks = self.terminal && !(for_server && self.answerer.on_ask != OnAsk::Ask);
        let fits = |answer: &String| {
            if for_server {
                return false;
            }
            let answer = answer_of(answer.trim(), question);
            let is_suggestion = |answer: String| question.suggestions.iter().any(|it| it.text == answer);
            question.kind != QuestionKind::ChangesUnknown || answer.is_ok_and(is_suggestion)
        };
        if asks {
            discard_typed();
        }
        loop {
            let given = self.answers.front().is_some_and(fits).then(|| self.answers.pop_front()).flatten();
            let line = match given {
                Some(answer) => answer,
                None if asks => match ask_text("  > ").await {
                    Some(line) => line,
                    None => return Ok(None),
                },
                // The call goes on, and whoever made it is told.
                None if for_server => return Ok(Some(DECLINE.to_owned())),
                None => return Ok(None),
            };
            if line.trim().is_empty() {
                continue;
            }
            match answer_of(line.trim(), question) {
                Ok(answer) => return Ok(Some(answer)),
                // The question comes again in any case.
                Err(problem) if asks => {
                    let _ = writeln!(terminal::stderr(), "  {problem}");
                }
                Err(problem) => return Err(problem),
            }
        }
    }
}

/// The longest question on one line, in characters: a terminal would break a longer one within words.
const MAX_QUESTION_CHARS: usize = 80;

/// The keys by which an approval is answered on a terminal, with their options.
pub(super) fn approval_keys(approval: &PendingApproval) -> Vec<(&'static str, &ApprovalOption)> {
    let options = &approval.options;
    let with_key = |(id, key): &(&str, &'static str)| {
        options.iter().find(|option| option.id == *id).map(|option| (*key, option))
    };
    let once = |kind, key| options.iter().find(|option| option.kind == kind).map(|it| (key, it));
    once(OptionKind::AllowOnce, "y")
        .into_iter()
        .chain(KEYS.iter().filter_map(with_key))
        .chain(once(OptionKind::RejectOnce, "n"))
        .collect()
}

/// The question that names the keys.
pub(super) fn approval_question(keys: &[(&str, &ApprovalOption)]) -> String {
    // The user sees in full what would hold for good.
    let shown: Vec<String> =
        keys.iter().map(|(key, option)| format!("{key}: {}", render::visible(&option.name))).collect();
    let line = format!("  Allow? [{}; Enter: n; n WORDS tells the agent why] ", shown.join(", "));
    if line.chars().count() <= MAX_QUESTION_CHARS {
        return line;
    }
    format!("  Allow? [{}\n          Enter: n; n WORDS tells the agent why] ", shown.join("\n          "))
}

/// The option that a line chooses, and the words that go with it; none where it fits none.
pub(super) fn chosen_option<'a>(
    keys: &[(&str, &'a ApprovalOption)],
    line: &str,
) -> Option<(&'a ApprovalOption, Option<String>)> {
    let (given, words) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let given = match given.to_lowercase().as_str() {
        "" | "no" => "n".to_owned(),
        "yes" => "y".to_owned(),
        "always" => "a".to_owned(),
        given => given.to_owned(),
    };
    // Only a refusal takes words.
    let words = Some(words.trim()).filter(|words| !words.is_empty()).map(str::to_owned);
    let fits = |key: &str| given == key && (words.is_none() || key == "n");
    let (_, option) = keys.iter().find(|(key, _)| fits(key))?;
    Some((option, words))
}

/// The suggestion of this number, or the words as they are. A number with more digits than those of the suggestions have, such as
/// that of a port, is no choice among them.
///
/// # Errors
/// The number of no suggestion.
pub(super) fn answer_of(line: &str, question: &PendingQuestion) -> Result<String, NoSuchSuggestion> {
    let suggestions = &question.suggestions;
    let chosen = line.parse::<usize>().ok().and_then(|n| suggestions.get(n.checked_sub(1)?));
    if let Some(suggestion) = chosen {
        return Ok(suggestion.text.clone());
    }
    // A server may ask for a number, and suggest nothing but to decline.
    let is_choice = !suggestions.is_empty()
        && question.kind != QuestionKind::McpElicitation
        && line.len() <= suggestions.len().to_string().len()
        && line.bytes().all(|byte| byte.is_ascii_digit());
    match is_choice && suggestions.iter().all(|suggestion| suggestion.text != line) {
        true => Err(NoSuchSuggestion::new(line, suggestions)),
        false => Ok(line.to_owned()),
    }
}

/// A number in place of an answer that is the number of no suggestion.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no suggestion {number}, only {suggestions}; add a word to answer with the number itself")]
pub(super) struct NoSuchSuggestion {
    number: String,
    /// Those that there are, with their numbers.
    suggestions: String,
}

impl NoSuchSuggestion {
    fn new(number: &str, suggestions: &[Suggestion]) -> Self {
        let numbered = (1..).zip(suggestions);
        let numbered =
            numbered.map(|(number, it)| format!("{number}: {}", render::one_line(&it.text, SHOWN)));
        Self { number: number.to_owned(), suggestions: numbered.collect::<Vec<_>>().join(", ") }
    }
}

/// Why an answer did not count; none where it did.
pub(super) fn problem_of(answer: &AnswerResult) -> Option<String> {
    (!answer.accepted && !answer.waits).then(|| match answer.by.as_str() {
        "" => "that question is no longer open".to_owned(),
        by => format!("{by} has already answered that"),
    })
}

/// Discards what was typed at the terminal before something is asked: it answers nothing that was not shown. Of what isn't a
/// terminal, nothing is discarded.
fn discard_typed() {
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
}

/// Time within which the next line comes if several are pasted at once; nobody types that fast.
const PASTED: Timespec = Timespec { tv_sec: 0, tv_nsec: 30_000_000 };

/// Asks for a further line of a text that was pasted.
const FURTHER_LINE: &str = "  (an empty line ends it) > ";

/// Asks on the terminal for a line; none at the end of input.
async fn ask(prompt: String) -> Option<String> {
    tokio::task::spawn_blocking(move || read_line(&prompt)).await.ok()?
}

/// Asks on the terminal for a text; none at the end of input. It is one line, or what is pasted in several.
async fn ask_text(prompt: &'static str) -> Option<String> {
    let read = move || {
        let mut text = read_line(prompt)?;
        let mut has_more = has_input_within(&PASTED);
        let mut is_over = !has_more;
        // The last line of a paste waits for the key Enter, so its end is an empty line that comes alone.
        while !is_over && let Some(line) = read_line(if has_more { "" } else { FURTHER_LINE }) {
            let was_pasted = has_more;
            has_more = has_input_within(&PASTED);
            is_over = line.trim().is_empty() && !was_pasted && !has_more;
            text.push_str(&line);
        }
        Some(text)
    };
    tokio::task::spawn_blocking(read).await.ok()?
}

fn read_line(prompt: &str) -> Option<String> {
    let mut out = io::stderr().lock();
    out.write_all(prompt.as_bytes()).and_then(|()| out.flush()).ok()?;
    drop(out);
    let mut line = String::new();
    (io::stdin().lock().read_line(&mut line).ok()? > 0).then_some(line)
}

/// Result of waiting for something.
enum WaitResult<T> {
    /// It came.
    This(T),
    /// The user wants the task to end.
    Cancelled,
    /// The user wants no more, or the process shall end.
    End(Ending),
}

/// The keys of permanent answers, by their ids.
const KEYS: &[(&str, &str)] = &[
    (ALLOW_ALWAYS, "a"),
    (ALLOW_COMMANDS, "c"),
    (ALLOW_EVERYWHERE, "e"),
    (ALLOW_PRESET, "p"),
    (REJECT_ALWAYS, "d"),
];

/// Handling of signals that end a task.
struct Stop<'a> {
    engine: &'a Engine,
    task: TaskId,
    signals: Signals,
    cancelled: bool,
}

impl Stop<'_> {
    /// Waits for something, or for a signal. The first interrupt ends the task in good order, the second
    /// one ends the wait for that.
    async fn wait_for<T>(&mut self, wanted: impl Future<Output = T>) -> Result<WaitResult<T>, CliError> {
        let signal = tokio::select! {
            wanted = wanted => return Ok(WaitResult::This(wanted)),
            signal = self.signals.next() => signal,
        };
        match signal {
            Signal::Terminate => Ok(WaitResult::End(Ending::Terminated)),
            Signal::Interrupt if self.cancelled => Ok(WaitResult::End(Ending::Interrupted)),
            Signal::Interrupt => {
                self.cancelled = true;
                self.engine.cancel(&self.task).await?;
                Ok(WaitResult::Cancelled)
            }
        }
    }
}

/// Question of a task that nobody has answered.
pub(super) struct OpenQuestion {
    pub(super) task: TaskId,
    /// Name of its branch; none for the request's own task.
    branch: Option<String>,
    pub(super) asked: Prompt,
}

impl OpenQuestion {
    fn in_words(&self) -> String {
        let what = match self.asked {
            Prompt::Approval(_) => "permission",
            Prompt::Question(_) => "an answer",
        };
        match &self.branch {
            Some(branch) => format!("{what} ({branch})"),
            None => what.to_owned(),
        }
    }
}

/// Result of watching a request.
pub(super) struct WatchOutcome {
    pub(super) ending: Ending,
    /// Unanswered questions.
    pub(super) waiting: Vec<OpenQuestion>,
}

/// Shows a request and answers what its tasks ask.
pub(super) struct Watch<'a> {
    viewer: Viewer,
    stop: Stop<'a>,
    waiting: Vec<OpenQuestion>,
    /// Approvals and questions that were answered here, while the tree does not know it yet.
    answered: HashSet<String>,
}

impl<'a> Watch<'a> {
    /// A watch over a request of this engine.
    pub(super) fn new(engine: &'a Engine, task: TaskId, viewer: Viewer, signals: Signals) -> Self {
        Self {
            viewer,
            stop: Stop { engine, task, signals, cancelled: false },
            waiting: vec![],
            answered: HashSet::new(),
        }
    }

    /// Follows the request to its end, or until nothing in it goes on without an answer. `pending` are
    /// questions that wait since before: each is asked once its task goes on.
    pub(super) async fn follow(
        mut self,
        follower: Follower,
        pending: Vec<EventParams>,
    ) -> Result<WatchOutcome, CliError> {
        let ending = self.watch(follower, pending).await;
        self.viewer.clear()?;
        Ok(WatchOutcome { ending: ending?, waiting: self.waiting })
    }

    async fn watch(
        &mut self,
        mut follower: Follower,
        mut pending: Vec<EventParams>,
    ) -> Result<Ending, CliError> {
        let engine = self.stop.engine;
        // Until when nobody is there to see to the disk.
        let mut patience: Option<Instant> = None;
        loop {
            patience = match follower.trouble() {
                Some(reason) if !self.viewer.terminal => {
                    let patience = *patience.get_or_insert_with(|| Instant::now() + PATIENCE);
                    if patience <= Instant::now() {
                        return Err(self.gives_up(&follower, &reason));
                    }
                    Some(patience)
                }
                _ => None,
            };
            let tick = self.viewer.ticks().then(|| Instant::now() + TICK);
            let next = async {
                match patience.into_iter().chain(tick).min() {
                    Some(end) => timeout_at(end, follower.next(|| engine.now())).await.ok(),
                    None => Some(follower.next(|| engine.now()).await),
                }
            };
            let batch = match self.stop.wait_for(next).await? {
                WaitResult::This(Some(batch)) => batch?,
                WaitResult::This(None) => {
                    self.viewer.tick(engine.now())?;
                    continue;
                }
                WaitResult::Cancelled => continue,
                WaitResult::End(ending) => return Ok(ending),
            };
            if let Some(nodes) = newest_tree(batch.iter().map(AsRef::as_ref)) {
                self.viewer.transcript.learn(nodes);
            }
            for params in batch {
                let runs = matches!(params.event, Event::TaskState { state: TaskState::Running, .. });
                let asked_again = pending.iter().position(|asked| runs && asked.task_id == params.task_id);
                let asked_again = asked_again.map(|place| pending.remove(place));
                for params in [Some(params.as_ref()), asked_again.as_ref()].into_iter().flatten() {
                    if let Some(ending) = self.take(params).await? {
                        return Ok(ending);
                    }
                }
            }
            let nodes = self.viewer.transcript.nodes();
            let waits = !self.waiting.is_empty() && self.answered.is_empty() && pending.is_empty();
            if waits && waits_for_user(nodes) {
                // What is followed may be a little behind; then the rest is looked at too.
                let now = engine.resumable(&self.stop.task).await?;
                if now.seq <= follower.position() && waits_for_user(&now.nodes) {
                    return Ok(Ending::Waiting);
                }
            }
        }
    }

    /// Returns the reason why a request is left that can't go on, where nobody sees to it.
    fn gives_up(&self, follower: &Follower, reason: &str) -> CliError {
        let root = follower.root();
        let advice = match follower.published() {
            0 => "nothing was saved; fix this, then start it again".to_owned(),
            _ => format!("fix this, then continue with: roo-lsp tasks resume {root}"),
        };
        CliError::Other(format!(
            "the request was stopped: {reason} No terminal is attached to ask for help: {advice}"
        ))
    }

    /// Shows an event, and answers it if it asks something.
    async fn take(&mut self, params: &EventParams) -> Result<Option<Ending>, CliError> {
        let ends = matches!(&params.event, Event::TaskState { state, .. } if state.is_final());
        if ends && params.task_id.is_root() {
            let nodes = self.stop.engine.tree(&params.task_id).await?.nodes;
            self.viewer.finish(&nodes)?;
        }
        self.viewer.show(params)?;
        match &params.event {
            // It is void by now.
            Event::ApprovalRequested { .. } | Event::QuestionAsked { .. } if self.stop.cancelled => {}
            Event::ApprovalRequested { approval } => {
                if self.viewer.asks_user() && !self.still_waits(&params.task_id, approval).await {
                    return Ok(None);
                }
                self.viewer.clear()?;
                let (option_id, text) = match self.stop.wait_for(self.viewer.choose(approval)).await? {
                    WaitResult::This(Some(chosen)) => chosen,
                    WaitResult::This(None) => {
                        self.leave(params, Prompt::Approval(approval.clone()))?;
                        return Ok(None);
                    }
                    WaitResult::Cancelled => return self.unanswered(None),
                    WaitResult::End(ending) => return self.unanswered(Some(ending)),
                };
                let id = approval.approval_id.to_string();
                let answer = ApprovalRespondParams { text, ..approval.answer(option_id) };
                let answer = self.stop.engine.respond(answer, self.viewer.answerer.by.clone()).await?;
                if answer.accepted {
                    self.answered.insert(id);
                } else if let Some(problem) = problem_of(&answer) {
                    writeln!(terminal::stderr(), "roo-lsp: {}", render::exact_line(&problem))?;
                }
            }
            Event::QuestionAsked { question } => {
                self.viewer.clear()?;
                loop {
                    let text = match self.stop.wait_for(self.viewer.answer(question)).await? {
                        WaitResult::This(Ok(Some(text))) => text,
                        WaitResult::This(Err(problem)) => {
                            let task = &self.stop.task;
                            return Err(CliError::Usage(format!(
                                "{problem}. The task waits; answer by: roo-lsp tasks resume {task} --answer=TEXT"
                            )));
                        }
                        WaitResult::This(Ok(None)) => {
                            self.leave(params, Prompt::Question(question.clone()))?;
                            return Ok(None);
                        }
                        WaitResult::Cancelled => return self.unanswered(None),
                        WaitResult::End(ending) => return self.unanswered(Some(ending)),
                    };
                    let question_id = question.question_id.clone();
                    let id = question_id.to_string();
                    let answer = QuestionAnswerParams { question_id, text, images: vec![] };
                    let answer = self.stop.engine.answer(answer, self.viewer.answerer.by.clone()).await?;
                    if answer.waits {
                        continue;
                    }
                    if answer.accepted {
                        self.answered.insert(id);
                    }
                    break;
                }
            }
            Event::ApprovalResolved { approval_id, .. } => self.settle(approval_id.as_str()),
            Event::QuestionAnswered { question_id, .. } => self.settle(question_id.as_str()),
            Event::TaskState { state, result, .. } if state.is_final() && params.task_id.is_root() => {
                if let (Some(result), Format::Text) = (result, self.viewer.format) {
                    writeln!(terminal::stdout(), "{result}")?;
                }
                return Ok(Some(match state {
                    TaskState::Completed => Ending::Done,
                    TaskState::Cancelled => Ending::Interrupted,
                    _ => Ending::Failed,
                }));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Returns whether an approval that was asked still waits. While another one was before the user, a standing rule that
    /// they made may have decided it, or it may have been asked again and answered. One that is being judged again is asked
    /// again if it has to be.
    async fn still_waits(&self, task: &TaskId, asked: &PendingApproval) -> bool {
        // Where that can't be told, the answer is refused if it comes too late.
        let Ok(now) = self.stop.engine.resumable(&self.stop.task).await else { return true };
        let is_waiting = now.nodes.iter().any(|node| node.id == *task && node.state == TaskState::Waiting);
        let is_same = |waiting: &PendingApproval| {
            waiting.approval_id == asked.approval_id && waiting.digest == asked.digest
        };
        is_waiting && now.approvals.iter().any(|(_, waiting)| is_same(waiting))
    }

    /// An approval or a question has its answer, or is void.
    fn settle(&mut self, id: &str) {
        self.answered.remove(id);
        self.waiting.retain(|waiting| waiting.asked.id() != id);
    }

    /// Nobody answers this; other branches may still go on.
    fn leave(&mut self, params: &EventParams, asked: Prompt) -> Result<(), CliError> {
        self.unanswered(None)?;
        let (task, branch) = (params.task_id.clone(), self.viewer.transcript.name(&params.task_id));
        // It may be asked again under the same id.
        self.waiting.retain(|waiting| waiting.asked.id() != asked.id());
        self.waiting.push(OpenQuestion { task, branch, asked });
        Ok(())
    }

    /// Leaves a prompt's line.
    fn unanswered(&self, ending: Option<Ending>) -> Result<Option<Ending>, CliError> {
        if self.viewer.terminal {
            writeln!(io::stderr())?;
        }
        Ok(ending)
    }
}
