//! `roo-lsp submit`: a request for a worker, followed to its result.

use std::collections::VecDeque;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use roo_durable::create_named;
use roo_protocol::event::{Event, EventParams};
use roo_protocol::ids::{Digest, TaskId};
use roo_protocol::task::{ApprovalRespondParams, QuestionAnswerParams};
use roo_text::render::{exact_line, visible};
use roo_workspace::{ProtectedNames, Protection};
use uuid::Uuid;

use super::arguments::{self, Common, Format};
use super::notices::Notices;
use super::run::Viewer;
use super::session::SessionContext;
use super::signals::{Signal, Signals};
use super::{CliError, Ending, nats, read_input, terminal};
use crate::nats::{NatsError, RequestEvent, Storage};
use crate::shell_word::shell_word;
use crate::view::Prompt;
use crate::worker::{
    self, ApplyError, Control, MAX_BUNDLE_BYTES, MAX_PATCH_BYTES, Reply, Source, Submission, SubmittedLimits,
    WorkOutcome, WorkResult,
};

/// Time after which an answer that did not count is asked for again, or sent again where no worker took it.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Submits a request and waits for its result, or follows an earlier one.
pub(super) async fn submit(
    common: Common,
    submit: arguments::Submit,
    notices: &Notices,
) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    let (request, prompt) = match &submit.request {
        Some(id) => (known_request(id)?, None),
        // While it is read, a signal ends the process by itself.
        None => (TaskId::new(Uuid::now_v7().to_string()), Some(read_prompt(&submit)?)),
    };
    let mut signals = Signals::listen()?;
    let mut may_be_known = prompt.is_none();
    let sent = async {
        let connection = nats::connect(&submit.nats, "roo-lsp submit").await?;
        let storage = Storage::open(&connection).await?;
        if let Some(prompt) = prompt {
            let submission = prepare(&context.folder, &submit, prompt, &storage, &request).await?;
            may_be_known = true;
            storage.submit(&submit.queue, &request, &submission).await?;
            writeln!(terminal::stderr(), "roo-lsp: submitted as {request}")?;
        }
        Ok::<_, CliError>(storage)
    };
    let storage = tokio::select! {
        sent = sent => sent?,
        signal = signals.next() => {
            let advice = match may_be_known {
                true => format!(
                    "stopped; the server may have the request: see it with: roo-lsp submit --request {request}"
                ),
                false => "stopped; nothing was submitted".to_owned(),
            };
            writeln!(terminal::stderr(), "roo-lsp: {advice}")?;
            return Ok(ending_by(signal));
        }
    };
    if submit.detach {
        writeln!(terminal::stdout(), "{request}")?;
        return Ok(Ending::Done);
    }
    let mut follow = Follow {
        viewer: Viewer::for_remote(submit.format, submit.on_ask, notices),
        storage: &storage,
        request: &request,
        shown: 0,
        waiting: VecDeque::new(),
        undelivered: None,
        tries_again: false,
    };
    let mut has_ended = false;
    let followed = async {
        let result = follow.until_result().await?;
        has_ended = true;
        let patch = fetch_patch(&storage, &result).await;
        Ok::<_, CliError>((result, patch))
    };
    let (result, patch) = tokio::select! {
        followed = followed => followed?,
        signal = signals.next() => {
            follow.viewer.clear()?;
            let how = if has_ended { "the result is kept" } else { "the request goes on" };
            writeln!(
                terminal::stderr(),
                "roo-lsp: {how}; see it again with: roo-lsp submit --request {request}"
            )?;
            return Ok(ending_by(signal));
        }
    };
    follow.viewer.clear()?;
    drop(follow);
    conclude(&context, &submit, result, patch).await
}

fn ending_by(signal: Signal) -> Ending {
    match signal {
        Signal::Interrupt => Ending::Interrupted,
        Signal::Terminate => Ending::Terminated,
    }
}

fn known_request(id: &str) -> Result<TaskId, CliError> {
    let known = Uuid::try_parse(id).map(|id| TaskId::new(id.to_string()));
    known
        .map_err(|_| CliError::Usage("--request takes the whole id that `roo-lsp submit` printed".to_owned()))
}

/// The prompt of a new request.
fn read_prompt(submit: &arguments::Submit) -> Result<String, CliError> {
    let prompt = match submit.prompt.as_deref().unwrap_or_default() {
        "-" => read_input()?,
        prompt => prompt.to_owned(),
    };
    match prompt.trim().is_empty() {
        true => Err(CliError::Usage("the prompt is empty; describe the task".to_owned())),
        false => Ok(prompt),
    }
}

/// The submission as JSON, whose commit is among the files in NATS or in a repository that the worker clones.
async fn prepare(
    folder: &Path,
    submit: &arguments::Submit,
    prompt: String,
    storage: &Storage,
    request: &TaskId,
) -> Result<Vec<u8>, CliError> {
    let commit = worker::commit(folder, &submit.commit).await.map_err(other)?;
    let source = match &submit.repository {
        Some(url) => Source::Repository { url: url.clone() },
        None => {
            let scratch = ScratchDirectory::make()?;
            send_bundle(folder, &commit, &scratch.0, storage, request).await?
        }
    };
    let limits = SubmittedLimits { requests: submit.max_requests, cost_usd: submit.max_cost };
    let mut submission = Submission::new(request.clone(), source, commit, prompt);
    (submission.mode, submission.profile) = (submit.mode.clone(), submit.profile.clone());
    submission.limits = limits;
    serde_json::to_vec(&submission).map_err(other)
}

async fn send_bundle(
    folder: &Path,
    commit: &worker::CommitId,
    scratch: &Path,
    storage: &Storage,
    request: &TaskId,
) -> Result<Source, CliError> {
    let bundle = scratch.join("bundle");
    worker::bundle(folder, commit, scratch, &bundle).await.map_err(other)?;
    let content = tokio::fs::File::open(&bundle).await.map_err(other)?;
    let size = content.metadata().await.map_err(other)?.len();
    if size > MAX_BUNDLE_BYTES {
        return Err(CliError::Other(format!(
            "the history of this commit has {size} bytes as a bundle, more than the {MAX_BUNDLE_BYTES} that may be sent; let \
             the worker clone it: --repository URL"
        )));
    }
    let file = format!("{request}/bundle");
    storage.put(&file, content).await?;
    Ok(Source::Bundle { file })
}

/// A private directory for temporary files, which is removed with what is in it.
struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    fn make() -> Result<Self, CliError> {
        use std::os::unix::fs::DirBuilderExt as _;

        let path = std::env::temp_dir().join(format!("roo-lsp-{}", Uuid::new_v4().simple()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(other)?;
        Ok(Self(path))
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // What is left of it is in the directory of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn other(error: impl std::fmt::Display) -> CliError {
    CliError::Other(error.to_string())
}

/// A request that is followed.
struct Follow<'a> {
    viewer: Viewer,
    storage: &'a Storage,
    request: &'a TaskId,
    /// The number of the newest event that was shown. One may come twice.
    shown: u64,
    /// What is to be answered here, oldest first.
    waiting: VecDeque<Prompt>,
    /// An answer that no worker was there to take.
    undelivered: Option<(Prompt, Control)>,
    /// The oldest prompt is answered again after a pause.
    tries_again: bool,
}

/// Reasons why an answer did not count.
enum AnswerFailure {
    /// No worker had the request, or none replied.
    NoReply,
    /// `waits`: whether another answer would count.
    Refused { problem: String, waits: bool },
}

impl Follow<'_> {
    /// Shows what happens, and answers what is asked, until there is a result. What has its answer among the events that there
    /// are is not asked.
    async fn until_result(&mut self) -> Result<WorkResult, CliError> {
        let mut feed = self.storage.follow(self.request);
        loop {
            let event = tokio::select! {
                event = feed.next() => Some(event),
                () = tokio::time::sleep(RETRY_PAUSE), if self.tries_again => None,
            };
            match event {
                Some(RequestEvent::Result(bytes)) => return serde_json::from_slice(&bytes).map_err(other),
                Some(RequestEvent::Event(bytes)) => self.take(&bytes)?,
                None => {}
            }
            if feed.is_caught_up() {
                self.answer_waiting().await?;
            }
        }
    }

    /// Shows an event, and notes what it asks or answers.
    fn take(&mut self, event: &[u8]) -> Result<(), CliError> {
        // One of a newer worker is left out.
        let Ok(params) = serde_json::from_slice::<EventParams>(event) else { return Ok(()) };
        let seq = params.seq.unwrap_or_default();
        if seq <= self.shown {
            return Ok(());
        }
        self.shown = seq;
        self.viewer.show(&params)?;
        match params.event {
            Event::ApprovalRequested { mut approval } => {
                approval.options.retain(worker::counts_once);
                self.wait_for(Prompt::Approval(approval));
            }
            Event::QuestionAsked { question } => self.wait_for(Prompt::Question(question)),
            Event::ApprovalResolved { approval_id, .. } => self.settle(approval_id.as_str()),
            Event::QuestionAnswered { question_id, .. } => self.settle(question_id.as_str()),
            _ => {}
        }
        Ok(())
    }

    fn wait_for(&mut self, prompt: Prompt) {
        // A worker that takes over asks again.
        match self.waiting.iter_mut().find(|waiting| waiting.id() == prompt.id()) {
            Some(waiting) => *waiting = prompt,
            None => self.waiting.push_back(prompt),
        }
    }

    fn settle(&mut self, id: &str) {
        self.waiting.retain(|waiting| waiting.id() != id);
        if self.waiting.is_empty() {
            (self.undelivered, self.tries_again) = (None, false);
        }
    }

    /// Answers what waits, up to the first answer that counts: what came of it is told before the next one is asked.
    async fn answer_waiting(&mut self) -> Result<(), CliError> {
        self.tries_again = false;
        while let Some(prompt) = self.waiting.front().cloned() {
            let undelivered = self.undelivered.take().filter(|(asked, _)| *asked == prompt);
            let is_repeated = undelivered.is_some();
            let control = match undelivered {
                Some((_, control)) => Some(control),
                None => self.ask(&prompt).await?,
            };
            let Some(control) = control else {
                self.waiting.pop_front();
                continue;
            };
            match self.say(&control).await {
                Ok(()) => {
                    self.waiting.pop_front();
                    return Ok(());
                }
                Err(AnswerFailure::NoReply) => {
                    if !is_repeated {
                        let advice =
                            "no worker has the request now; the answer is sent again until one has it";
                        writeln!(terminal::stderr(), "roo-lsp: {advice}")?;
                    }
                    (self.undelivered, self.tries_again) = (Some((prompt, control)), true);
                    return Ok(());
                }
                Err(AnswerFailure::Refused { problem, waits }) => {
                    // One that is repeated may have counted before, without a reply.
                    if waits || !is_repeated {
                        let problem = visible(&problem);
                        writeln!(terminal::stderr(), "roo-lsp: the answer did not count: {problem}")?;
                    }
                    if waits && self.viewer.asks_user_about(&prompt) {
                        self.tries_again = true;
                        return Ok(());
                    }
                    self.waiting.pop_front();
                }
            }
        }
        Ok(())
    }

    /// The answer to a prompt; none leaves it to somebody else.
    async fn ask(&mut self, prompt: &Prompt) -> Result<Option<Control>, CliError> {
        self.viewer.clear()?;
        Ok(match prompt {
            Prompt::Approval(approval) => self.viewer.choose(approval).await.map(|(option_id, text)| {
                Control::Approval(ApprovalRespondParams { text, ..approval.answer(option_id) })
            }),
            Prompt::Question(question) => {
                let question_id = question.question_id.clone();
                let text = self.viewer.answer(question).await.ok().flatten();
                text.map(|text| Control::Answer(QuestionAnswerParams { question_id, text, images: vec![] }))
            }
        })
    }

    async fn say(&self, control: &Control) -> Result<(), AnswerFailure> {
        let connection = self.storage.connection();
        let subject = connection.prefix().control(self.request);
        let unreadable =
            |error: serde_json::Error| AnswerFailure::Refused { problem: error.to_string(), waits: false };
        let bytes = serde_json::to_vec(control).map_err(unreadable)?;
        let reply = connection.request(subject, bytes).await.map_err(|error| match error {
            NatsError::Failed { .. } => AnswerFailure::NoReply,
            error => AnswerFailure::Refused { problem: error.to_string(), waits: true },
        })?;
        let Reply { error, waits } = serde_json::from_slice(&reply).map_err(unreadable)?;
        error.map_or(Ok(()), |problem| Err(AnswerFailure::Refused { problem, waits }))
    }
}

/// The patch of a result; none where no file was changed.
async fn fetch_patch(storage: &Storage, result: &WorkResult) -> Result<Option<Vec<u8>>, CliError> {
    let Some(patch) = &result.patch else { return Ok(None) };
    let bytes = storage.file(&patch.file, MAX_PATCH_BYTES).await?;
    match Digest::of(&bytes) == patch.digest {
        true => Ok(Some(bytes)),
        false => Err(CliError::Other("the patch is not the one that the worker has made".to_owned())),
    }
}

/// Says how the request ended, and brings its patch to the user.
async fn conclude(
    context: &SessionContext,
    submit: &arguments::Submit,
    result: WorkResult,
    patch: Result<Option<Vec<u8>>, CliError>,
) -> Result<Ending, CliError> {
    let how = match result.outcome {
        WorkOutcome::Completed => None,
        WorkOutcome::Failed => Some("it failed"),
        WorkOutcome::Cancelled => Some("it was cancelled"),
        WorkOutcome::Unanswered => Some("it stopped"),
        WorkOutcome::Refused => Some("it was not begun"),
    };
    match (submit.format, how) {
        (Format::Ndjson, _) => {
            let line = serde_json::to_string(&result).map_err(other)?;
            writeln!(terminal::stdout(), "{line}")?;
        }
        (Format::Text, None) => writeln!(terminal::stdout(), "{}", visible(&result.text))?,
        (Format::Text, Some(how)) => {
            writeln!(terminal::stderr(), "roo-lsp: {how}: {}", visible(&result.text))?;
        }
    }
    if let Some(patch) = patch? {
        deliver(context, submit, &result, &patch).await?;
    } else if how.is_none() {
        writeln!(terminal::stderr(), "roo-lsp: it changed no file")?;
    }
    Ok(match result.outcome {
        WorkOutcome::Completed => Ending::Done,
        WorkOutcome::Unanswered => Ending::Waiting,
        WorkOutcome::Failed | WorkOutcome::Cancelled | WorkOutcome::Refused => Ending::Failed,
    })
}

/// The names that are protected in the workspace.
fn protected_names(context: &SessionContext) -> Result<ProtectedNames, CliError> {
    let settings = context.settings(None)?;
    Ok(context.workspace()?.protected(0, &settings.protected))
}

/// The command that applies a patch in a file. Its paths are those of the repository's top: below that, git passes over all that
/// are elsewhere without a word.
async fn apply_command(folder: &Path, patch: &Path) -> String {
    let word = |path: &Path| shell_word(&path.to_string_lossy());
    let patch = std::path::absolute(patch).unwrap_or_else(|_| patch.to_owned());
    match worker::repository_top(folder).await {
        Ok(top) => format!("git -C {} apply {}", word(&top), word(&patch)),
        // Of a repository elsewhere, as `--repository` names one.
        Err(_) => format!("git apply {}, at the top of its repository", word(&patch)),
    }
}

/// Applies a patch, or leaves it in a file where that isn't wanted, where it doesn't fit, and where it changes what the user would
/// be asked about if an agent did so here.
async fn deliver(
    context: &SessionContext,
    submit: &arguments::Submit,
    result: &WorkResult,
    patch: &[u8],
) -> Result<(), CliError> {
    let output = submit.output.clone();
    let output = output.unwrap_or_else(|| PathBuf::from(format!("{}.patch", result.request)));
    let shown = exact_line(&output.to_string_lossy());
    let write = || {
        create_named(&output)
            .and_then(|mut file| file.write_all(patch))
            .map_err(|error| CliError::Other(format!("can't write {}: {error}", output.display())))
    };
    if !submit.apply || result.outcome != WorkOutcome::Completed {
        write()?;
        let command = apply_command(&context.folder, &output).await;
        writeln!(terminal::stderr(), "roo-lsp: the changes are in {shown}; apply them with: {command}")?;
        return Ok(());
    }
    let names = protected_names(context).or_else(|error| {
        write()?;
        Err(error)
    })?;
    let is_protected = |path: &Path| {
        // What is beside the folder, in the same repository, is protected by its name too.
        let relative = context.folder.ancestors().find_map(|above| path.strip_prefix(above).ok());
        let relative = relative.unwrap_or(path).to_string_lossy();
        matches!(names.protection(&relative, None), Protection::Tier1 { .. } | Protection::Denied)
    };
    match worker::apply(&context.folder, patch, is_protected).await {
        Ok(changed) => {
            for path in changed {
                writeln!(terminal::stderr(), "roo-lsp: changed {}", exact_line(&path))?;
            }
            if submit.output.is_some() { write() } else { Ok(()) }
        }
        Err(error @ ApplyError::NeedsReview(_)) => {
            write()?;
            let command = apply_command(&context.folder, &output).await;
            Err(CliError::Other(format!(
                "the changes were not applied: {}. They are in {shown}; apply them with: {command}",
                exact_line(&error.to_string())
            )))
        }
        Err(error) => {
            write()?;
            Err(CliError::Other(format!("the changes were not applied: {error}. They are in {shown}")))
        }
    }
}
