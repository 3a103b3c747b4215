//! User hooks: programs of the user's that see, judge and change what agents do, by the public contract of
//! such hooks (events, matchers, JSON on standard input, exit codes, JSON answers).
//!
//! [`HookFile`] is the format, [`UserHooks`] the hooks that count; it has a method for each event, which runs
//! all that match at once and puts their answers together in an [`Outcome`]: the strictest wins. Which files
//! count, and whether a workspace's are trusted, is said in [`crate::customization`]; what comes of an outcome
//! is decided where the event happens.
//!
//! Where we differ from the contract: a hook runs in the sandbox of commands, without a network, unless a
//! user's own hook says otherwise by `roo.sandbox`; it sees named variables of the environment only (see
//! [`roo_sandbox::exec::Environment`]); `defer` asks the user; rewrites that contradict each other ask as well; a
//! hook's `roo.failClosed` refuses a call that the hook could not judge; hooks of other kinds than `command`
//! don't run; what a hook in the background answers has no effect.

mod answer;
mod condition;
mod env_file;
mod file;
mod import;
mod matcher;
mod missing_script;
mod outcome;
mod process;
mod run;
mod sandbox;
mod scripts;
mod tool_input;
mod tool_names;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::outcome::set_off;
use self::run::Firing;
use self::tool_input::Input;

pub use roo_formats::hooks::{Compared, EventName, Refusal};

pub use self::answer::Verdict;
pub use self::condition::Condition;
pub use self::env_file::EnvironmentFile;
pub use self::file::{FILE_LIMIT, Form, Hook, HookFile, HookPosition, Program, Source};
pub use self::import::{ImportError, Imported, import};
pub use self::matcher::{Matcher, MatcherError};
pub(crate) use self::missing_script::missing_script;
pub use self::outcome::{Outcome, Ran};
pub use self::sandbox::{HookBounds, HookOverlays, HookSandbox, Overlaid};
pub use self::scripts::scripts;
pub use self::tool_input::ToolUse;

pub use self::tool_names::{all as all_tool_names, mcp as mcp_tool_name};

/// Maximum number of times in a row that hooks may keep a task from ending.
pub(crate) const CONTINUATIONS: u32 = 8;

/// Permission mode of the task, in the words of the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PermissionMode {
    /// Changes need approval.
    #[default]
    Default,
    /// Changes of files don't ask.
    AcceptEdits,
    /// Nothing may be changed.
    Plan,
    /// Calls that would ask are refused.
    DontAsk,
    /// Nothing asks.
    BypassPermissions,
}

impl PermissionMode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}

/// The branch of a request in which something happens.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    /// The task's id.
    pub id: &'a str,
    /// The slug of its mode.
    pub mode: &'a str,
}

/// Request and workspace for which hooks run.
#[derive(Clone, Copy)]
pub struct HookContext<'a> {
    /// The request's id.
    pub session: &'a str,
    /// The branch; none for the request's own task.
    pub agent: Option<Agent<'a>>,
    /// The request's log.
    pub transcript: Option<&'a Path>,
    /// Permission mode of the task.
    pub permission_mode: PermissionMode,
    /// File in which SessionStart hooks may leave variables for commands; private to the user, outside the workspace.
    pub environment_file: Option<&'a Path>,
    /// Sandbox for hooks that don't run outside it.
    pub sandbox: &'a HookSandbox,
    /// The folders in which the task works, its working directory first; none for those of the hooks.
    pub folders: &'a [PathBuf],
    /// Runs the hooks that nobody waits for.
    pub unwaited: &'a TaskTracker,
    /// Ends the hooks, and with them their processes.
    pub cancel: &'a CancellationToken,
}

/// Outcome of hooks before a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct HookVerdict {
    /// The verdict with its reasons, and what the model and the user are told.
    pub outcome: Outcome,
    /// The call's new parameters; they are to be judged from the start, once.
    pub params: Option<Map<String, Value>>,
}

#[derive(Clone, Copy, Debug)]
pub struct ToolResult<'a> {
    /// Text for the model.
    pub text: &'a str,
    /// True if it succeeded.
    pub ok: bool,
    /// Duration of the call.
    pub took: Option<Duration>,
}

/// Outcome of hooks after a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct Reviewed {
    /// Messages for the user, and whether the task continues. Its contexts are in `addition`.
    pub outcome: Outcome,
    /// Replacement of the result for the model. It is data, as every result.
    pub result: Option<String>,
    /// Addition to the result for the model, set off.
    pub addition: Option<String>,
}

/// The hooks that count, as they were when they were asked for.
#[derive(Clone, Debug, Default)]
pub struct UserHooks {
    root: Option<PathBuf>,
    hooks: Vec<Hook>,
    fault: Option<String>,
}

impl UserHooks {
    /// Hooks in the order of configuration: the user's first. `root` is the first workspace folder, in which
    /// they run.
    pub fn new(root: Option<PathBuf>, hooks: Vec<Hook>) -> Self {
        Self { root, hooks, fault: None }
    }

    /// The same, where hooks are missing that a file was meant to bring, and why.
    pub(crate) fn with_fault(self, fault: Option<String>) -> Self {
        Self { fault, ..self }
    }

    /// Reason why hooks are missing that a file was meant to bring, and what to do. Any of them may guard something, so
    /// nothing may run without them.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// In the order of configuration.
    pub fn hooks(&self) -> &[Hook] {
        &self.hooks
    }

    /// Returns whether there is any hook for an event. Where there is none, its method answers at once.
    pub fn has(&self, event: EventName) -> bool {
        self.hooks.iter().any(|hook| hook.event == event)
    }

    /// Returns whether any hook runs in the sandbox.
    pub(crate) fn need_sandbox(&self) -> bool {
        self.hooks.iter().any(|hook| !hook.is_unconfined)
    }

    fn root(&self) -> &Path {
        self.root.as_deref().unwrap_or(Path::new("/"))
    }

    /// The folder in which a task works.
    fn folder<'a>(&'a self, hook_context: &HookContext<'a>) -> &'a Path {
        hook_context.folders.first().map_or(self.root(), PathBuf::as_path)
    }

    /// Before a tool call, when it has passed command policy and before the user is asked. A rewrite that
    /// can't be understood has the user asked about the call as it is.
    pub async fn pre_tool(&self, tool: &ToolUse<'_>, hook_context: &HookContext<'_>) -> HookVerdict {
        let own = json!({ "tool_use_id": tool.call.id.as_str() });
        self.judge(EventName::PreToolUse, tool, own, hook_context).await
    }

    /// Before the user is asked about a call. [`Verdict::Allow`] and [`Verdict::Deny`] stand for their answer.
    pub(crate) async fn permission_request(
        &self,
        tool: &ToolUse<'_>,
        hook_context: &HookContext<'_>,
    ) -> HookVerdict {
        self.judge(EventName::PermissionRequest, tool, json!({}), hook_context).await
    }

    async fn judge(
        &self,
        event: EventName,
        tool: &ToolUse<'_>,
        own: Value,
        hook_context: &HookContext<'_>,
    ) -> HookVerdict {
        if !self.has(event) {
            return HookVerdict { outcome: Outcome::nothing(event), params: None };
        }
        let inputs = tool.inputs(self.folder(hook_context));
        let mut outcome = self.fire(event, inputs.clone(), own, hook_context).await;
        let params = match tool.rewritten(self.folder(hook_context), &inputs, &outcome.rewrites) {
            Ok(params) => params,
            Err(error) => {
                if !outcome.is_refused() {
                    outcome.verdict = Some(Verdict::Ask);
                    outcome.allowed_by = None;
                    outcome.reasons =
                        vec![format!("A hook's `updatedInput` can't be applied to the call: {error}.")];
                }
                None
            }
        };
        HookVerdict { outcome, params }
    }

    /// After a call was refused without asking. See [`Outcome::retry`].
    pub(crate) async fn permission_denied(
        &self,
        tool: &ToolUse<'_>,
        reason: &str,
        hook_context: &HookContext<'_>,
    ) -> Outcome {
        let event = EventName::PermissionDenied;
        if !self.has(event) {
            return Outcome::nothing(event);
        }
        let own = json!({ "tool_use_id": tool.call.id.as_str(), "reason": reason });
        self.fire(event, tool.inputs(self.folder(hook_context)), own, hook_context).await
    }

    /// After a tool call, whether it succeeded or failed.
    pub(crate) async fn post_tool(
        &self,
        tool: &ToolUse<'_>,
        result: ToolResult<'_>,
        hook_context: &HookContext<'_>,
    ) -> Reviewed {
        let event = if result.ok { EventName::PostToolUse } else { EventName::PostToolUseFailure };
        if !self.has(event) {
            return Reviewed { outcome: Outcome::nothing(event), result: None, addition: None };
        }
        let response = tool_input::response(tool, self.folder(hook_context), result.text, result.ok);
        let mut own = json!({ "tool_use_id": tool.call.id.as_str() });
        if result.ok {
            own["tool_response"] = response.clone();
        } else {
            own["error"] = result.text.into();
            own["is_interrupt"] = false.into();
        }
        if let Some(took) = result.took {
            own["duration_ms"] = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).into();
        }
        let mut outcome = self.fire(event, tool.inputs(self.folder(hook_context)), own, hook_context).await;
        let result = outcome.output.as_ref().and_then(|output| {
            let text = tool_input::response_text(output, &response);
            text.map(|text| answer::clean(&text, process::OUTPUT_LIMIT))
        });
        if outcome.output.is_some() && result.is_none() {
            outcome
                .warnings
                .push("A hook's `updatedToolOutput` is neither text nor a result of this tool.".to_owned());
        }
        let said = outcome.reasons.iter().filter(|_| outcome.is_refused()).chain(&outcome.contexts);
        let said: Vec<&str> = said.map(String::as_str).collect();
        let addition = (!said.is_empty()).then(|| set_off(event, &said.join("\n\n")));
        Reviewed { outcome, result, addition }
    }

    /// After all calls of one answer, each with the text of its result. [`Outcome::is_refused`] means that the
    /// model is not asked again.
    pub(crate) async fn post_batch(
        &self,
        calls: &[(ToolUse<'_>, &str)],
        hook_context: &HookContext<'_>,
    ) -> Outcome {
        let event = EventName::PostToolBatch;
        if !self.has(event) {
            return Outcome::nothing(event);
        }
        let calls = calls.iter().flat_map(|(tool, text)| {
            tool.inputs(self.folder(hook_context)).into_iter().map(move |input| {
                json!({
                    "tool_name": input.names.first(),
                    "tool_input": input.fields,
                    "tool_use_id": tool.call.id.as_str(),
                    "tool_response": text,
                })
            })
        });
        let own = json!({ "tool_calls": calls.collect::<Vec<_>>() });
        self.fire(event, vec![], own, hook_context).await
    }

    /// Before a prompt reaches the model. Where it is refused, the model never sees it, and the reason is for
    /// the user alone.
    pub(crate) async fn prompt_submitted(&self, prompt: &str, hook_context: &HookContext<'_>) -> Outcome {
        self.fire(EventName::UserPromptSubmit, vec![], json!({ "prompt": prompt }), hook_context).await
    }

    /// Before a request ends. Where that is refused, it goes on, and the reasons are for the model: see
    /// [`Outcome::reason`]. `is_going_on` says whether it goes on already because of a hook, which may be so at
    /// most `CONTINUATIONS` times in a row.
    pub async fn stop(
        &self,
        last_message: &str,
        is_going_on: bool,
        hook_context: &HookContext<'_>,
    ) -> Outcome {
        self.fire(EventName::Stop, vec![], ending(last_message, is_going_on), hook_context).await
    }

    /// Runs the hooks for a request that ended because its model failed. `error` is one of the contract's words.
    pub(crate) async fn stop_failure(
        &self,
        error: &str,
        details: &str,
        hook_context: &HookContext<'_>,
    ) -> Outcome {
        let own = json!({ "error": error, "error_details": details, "last_assistant_message": details });
        self.fire(EventName::StopFailure, named(error), own, hook_context).await
    }

    /// Runs the hooks for a branch that begins; [`HookContext::agent`] says which.
    pub(crate) async fn subagent_start(&self, hook_context: &HookContext<'_>) -> Outcome {
        self.fire(EventName::SubagentStart, agent(hook_context), json!({}), hook_context).await
    }

    /// Before a branch ends; as [`UserHooks::stop`].
    pub(crate) async fn subagent_stop(
        &self,
        last_message: &str,
        is_going_on: bool,
        hook_context: &HookContext<'_>,
    ) -> Outcome {
        let mut own = ending(last_message, is_going_on);
        own["agent_transcript_path"] = transcript(hook_context);
        self.fire(EventName::SubagentStop, agent(hook_context), own, hook_context).await
    }

    /// Before a conversation is shortened: by its user (`manual`) or because it is too long (`auto`). Where that is
    /// refused, it stays as long as it is.
    pub(crate) async fn pre_compact(
        &self,
        trigger: &str,
        instructions: &str,
        hook_context: &HookContext<'_>,
    ) -> Outcome {
        let own = json!({ "trigger": trigger, "custom_instructions": instructions });
        self.fire(EventName::PreCompact, named(trigger), own, hook_context).await
    }

    /// After a conversation was shortened to this.
    pub(crate) async fn post_compact(
        &self,
        trigger: &str,
        summary: &str,
        hook_context: &HookContext<'_>,
    ) -> Outcome {
        let own = json!({ "trigger": trigger, "compact_summary": summary });
        self.fire(EventName::PostCompact, named(trigger), own, hook_context).await
    }

    /// Runs the hooks for a notification of the user. `kind` is one of the contract's words, such as
    /// `permission_prompt`.
    pub async fn notification(
        &self,
        kind: &str,
        title: &str,
        message: &str,
        hook_context: &HookContext<'_>,
    ) -> Outcome {
        let own = json!({ "message": message, "title": title, "notification_type": kind });
        self.fire(EventName::Notification, named(kind), own, hook_context).await
    }

    /// Runs the hooks for a request that begins (`startup`) or resumes (`resume`).
    pub(crate) async fn session_start(
        &self,
        source: &str,
        model: Option<&str>,
        hook_context: &HookContext<'_>,
    ) -> Outcome {
        let mut own = json!({ "source": source });
        if let Some(model) = model {
            own["model"] = model.into();
        }
        self.fire(EventName::SessionStart, named(source), own, hook_context).await
    }

    /// Runs the hooks for a request that has ended. `reason` is one of the contract's words, mostly `other`.
    pub(crate) async fn session_end(&self, reason: &str, hook_context: &HookContext<'_>) -> Outcome {
        self.fire(EventName::SessionEnd, named(reason), json!({ "reason": reason }), hook_context).await
    }

    /// An event just as it is given, in the contract's form: for people who try their hooks. What it lacks of
    /// what every event has is added.
    pub async fn try_out(
        &self,
        event: EventName,
        given: Map<String, Value>,
        hook_context: &HookContext<'_>,
    ) -> Outcome {
        let text = |field: &str| given.get(field).and_then(Value::as_str).unwrap_or_default();
        let inputs = match event.compared() {
            Compared::Tool => {
                let fields = given.get("tool_input").and_then(Value::as_object).cloned().unwrap_or_default();
                vec![Input { names: tool_names::names_of(text("tool_name")), fields }]
            }
            Compared::Mode => named(text("agent_type")),
            Compared::Word(_) => {
                let fields = ["source", "reason", "trigger", "notification_type", "error"];
                named(fields.map(text).into_iter().find(|word| !word.is_empty()).unwrap_or_default())
            }
            Compared::Nothing => vec![],
        };
        self.fire(event, inputs, Value::Object(given), hook_context).await
    }

    async fn fire(
        &self,
        event: EventName,
        mut inputs: Vec<Input>,
        own: Value,
        hook_context: &HookContext<'_>,
    ) -> Outcome {
        if !self.has(event) {
            return Outcome::nothing(event);
        }
        if inputs.is_empty() {
            inputs.push(Input { names: vec![], fields: Map::new() });
        }
        let mut common = Map::new();
        let mut set = |name: &str, value: Value| {
            common.insert(name.to_owned(), value);
        };
        set("session_id", hook_context.session.into());
        set("transcript_path", transcript(hook_context));
        set("cwd", self.folder(hook_context).to_string_lossy().into());
        set("permission_mode", hook_context.permission_mode.as_str().into());
        if let Some(agent) = hook_context.agent {
            set("agent_id", agent.id.into());
            set("agent_type", agent.mode.into());
        }
        if let Value::Object(own) = own {
            common.extend(own);
        }
        let HookContext { environment_file, transcript, sandbox, unwaited, cancel, .. } = *hook_context;
        // Work trees may lie in the project, and the other way round.
        let folders = hook_context.folders.iter().map(PathBuf::as_path).chain(self.root.as_deref()).collect();
        let firing = Firing {
            event,
            inputs,
            common,
            transcript,
            environment_file,
            sandbox,
            unwaited,
            folders,
            cancel,
        };
        run::fire(&self.hooks, self.root(), firing).await
    }
}

fn transcript(hook_context: &HookContext<'_>) -> Value {
    hook_context.transcript.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default().into()
}

/// Returns the value for a matcher that is compared with a word.
fn named(word: &str) -> Vec<Input> {
    vec![Input { names: vec![word.to_owned()], fields: Map::new() }]
}

fn agent(hook_context: &HookContext<'_>) -> Vec<Input> {
    named(hook_context.agent.map(|agent| agent.mode).unwrap_or_default())
}

fn ending(last_message: &str, is_going_on: bool) -> Value {
    json!({
        "stop_hook_active": is_going_on,
        "last_assistant_message": last_message,
        "background_tasks": [],
        "session_crons": [],
    })
}

#[cfg(test)]
mod tests;
