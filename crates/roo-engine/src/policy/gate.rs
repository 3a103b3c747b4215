//! The gate: one fixed order of checks, from which every tool call gets its verdict.
//!
//! known tool → mode → parameters → paths → `.rooignore` → protected names → content → command rules
//! → user hooks → approval policy. The first check that refuses decides; what asks is asked last, so that nobody
//! is asked about a call that can't run. A permit is made here and nowhere else.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::action::{Action, Permit, Proposal, ReadTarget};
use super::bounds::Bounds;
use super::check::{self, Access, CheckContext};
use super::command::Repositories;
use super::escaped;
use super::git;
use super::plan::{Plan, PlannedWrite};
use super::standing;
use super::trace::Recorder;
use super::user_hooks::{self, HookDecision, HookMessages, UserHooksHere};
use super::{intent, protected, remote};
use crate::approvals::StandingRules;
use crate::customization::Customization;
use crate::hooks::EventName;
use crate::intent_store::{Binding, Orchestration};
use roo_catalog::{Effect, Invocation, ToolCall, ToolName};
use roo_formats::config::{Settings, ToolChoice};
use roo_formats::modes::{self, Mode, Modes};
use roo_protocol::ids::{Digest, Urid};
use roo_protocol::rule::{RuleSubject, SandboxAccess};
use roo_sandbox::exec::redaction::{self, TextMask};
use roo_sandbox::exec::{Environment, known_secrets};
use roo_text::omission::{self, Omission};
use roo_text::{blocks, diff, edit, render};
use roo_workspace::{FileEdit, Location, Protection, Purpose, ReadAccess, ReadError, Resolved, Workspace};

/// The longest command or list of paths in a title, in characters.
pub(super) const TITLE: usize = 60;

/// The most lines of a diff that a refusal shows.
const CHANGES: usize = 80;

/// What judgements rest on.
#[derive(Clone)]
pub struct PolicyContext {
    /// The files.
    pub workspace: Arc<Workspace>,
    /// The user's settings.
    pub settings: Arc<Settings>,
    /// What users and workspaces bring.
    pub customization: Arc<Customization>,
    /// The workspace's intents.
    pub orchestration: Arc<Orchestration>,
    /// What the user has allowed or refused for good.
    pub rules: Arc<StandingRules>,
    /// What bounds commands.
    pub bounds: Arc<Bounds>,
    /// Keeps the trace.
    pub recorder: Arc<Recorder>,
}

/// Judges the tool calls of one workspace.
pub struct Gate {
    policy_context: PolicyContext,
    /// What commands would find in git repositories.
    repositories: Arc<Repositories>,
}

/// Who makes a call, and what they know.
#[derive(Clone, Copy)]
pub struct ToolCallContext<'a> {
    /// The task's mode.
    pub mode: &'a Mode,
    /// The modes that there are.
    pub modes: &'a Modes,
    /// The model profile that the user chose for the request, whatever the mode.
    pub profile: Option<&'a str>,
    /// Which of the mode's tools the task's model gets.
    pub tools: &'a ToolChoice,
    /// Whether another task delegated it.
    pub is_branch: bool,
    /// How often the task has delegated since its user last said something.
    pub delegations: u32,
    /// The request.
    pub urid: &'a Urid,
    /// The whole-file digests that the task last saw, by path.
    pub seen: &'a BTreeMap<String, Digest>,
    /// The digest of the action that the user allowed; it counts for that action alone.
    pub approved: Option<Digest>,
    /// The intent that the task has bound.
    pub intent: Option<&'a Binding>,
    /// What the tasks above it had bound when they delegated: it never covers more than those.
    pub within: &'a [Binding],
    /// The user hooks that are asked; none where none are.
    pub hooks: Option<UserHooksHere<'a>>,
    /// What the task knows of offers to its user.
    pub offers: Offers<'a>,
}

/// What a task knows of the standing rules that its user may be offered for commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offers<'a> {
    /// The user has said that commands are to be asked about each time.
    pub declines_confined: bool,
    /// What the sandbox withheld from this very call before, and the user has not declined to grant.
    pub withheld: Option<&'a SandboxAccess>,
    /// The SSH key with which git did not sign for an earlier command of the task.
    pub signing_key: Option<&'a str>,
}

/// One file of an edit, before and after.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The file.
    pub file: Resolved,
    /// Its new name, if it gets one.
    pub moved_to: Option<Resolved>,
    /// Its text; none for a new file.
    pub before: Option<String>,
    /// Its new text; none for one that is deleted.
    pub after: Option<String>,
}

impl From<FileEdit> for Preview {
    fn from(edit: FileEdit) -> Self {
        Self {
            file: edit.file().clone(),
            moved_to: edit.moved_to().cloned(),
            before: edit.before().map(str::to_owned),
            after: edit.after().map(str::to_owned),
        }
    }
}

/// What the gate says of a call, and the key that goes with it.
#[derive(Debug)]
pub struct GateOutcome {
    /// The verdict.
    pub decision: PolicyDecision,
    /// The key to run an allowed call; none for one that only steers the conversation.
    pub permit: Option<Permit>,
    /// What user hooks said beside it.
    pub heard: HookMessages,
}

impl GateOutcome {
    /// A refusal that no call could have avoided.
    pub fn deny(rule: &str, reason: impl ToString) -> Self {
        let decision = PolicyDecision::Deny {
            rule: rule.to_owned(),
            reason: reason.to_string(),
            mistake: false,
            saves: false,
            detail: None,
        };
        Self { decision, permit: None, heard: HookMessages::default() }
    }
}

/// The gate's verdict on a call.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyDecision {
    /// It may run.
    Allow {
        /// The rule that decided.
        rule: String,
        /// Why.
        reason: String,
        /// What it will do.
        plan: Plan,
    },
    /// The user decides.
    Ask {
        /// The rule that decided.
        rule: String,
        /// Why.
        reason: String,
        /// Binds the answer to the action.
        digest: Digest,
        /// What is asked, in a few words.
        title: String,
        /// What it works on: a diff, a command line, a path.
        subject: String,
        /// What could be allowed or refused for good; none where each case needs a look.
        rule_subject: Option<RuleSubject>,
        /// What could be allowed for good instead: a preset of rules that would allow it, or access for such commands alone.
        alternative: Option<RuleSubject>,
    },
    /// It may not run.
    Deny {
        /// The rule that decided.
        rule: String,
        /// Why, worded for the model.
        reason: String,
        /// Whether the call itself was wrong, as against forbidden.
        mistake: bool,
        /// Whether it would have saved context that the request's branches share, and can't.
        saves: bool,
        /// The same for programs: a code, and what it is about.
        detail: Option<Value>,
    },
}

/// A refusal on the way to a verdict.
pub(super) struct Refusal {
    rule: &'static str,
    reason: String,
    mistake: bool,
    detail: Option<Value>,
}

impl Refusal {
    pub(super) fn mistake(rule: &'static str, reason: impl ToString) -> Self {
        Self { rule, reason: reason.to_string(), mistake: true, detail: None }
    }

    pub(super) fn forbidden(rule: &'static str, reason: impl ToString) -> Self {
        Self { rule, reason: reason.to_string(), mistake: false, detail: None }
    }

    /// Why, worded for the model.
    pub(super) fn into_reason(self) -> String {
        self.reason
    }

    /// Of a call that is no longer as its model made it.
    fn of_rewritten(self) -> Self {
        let reason = format!("A hook rewrote this call, and so it can't run: {}", self.reason);
        Self { reason, mistake: false, ..self }
    }

    /// With fields for programs.
    pub(super) fn detailed(self, detail: Value) -> Self {
        Self { detail: Some(detail), ..self }
    }
}

/// What has to be asked, the weightiest first.
pub(super) struct Reason {
    pub(super) rule: &'static str,
    pub(super) text: String,
}

/// What the checks came to.
enum Checked {
    /// It needs nobody's leave, unless a hook wants it asked.
    Free { rule: &'static str, reason: &'static str, action: Option<Box<Action>> },
    /// Policy decides.
    CallAssessment(Box<CallAssessment>),
}

/// A command that the task has started, and may look after.
fn own_command(action: Action) -> Checked {
    Checked::Free {
        rule: "background",
        reason: "it is about a command that the request has started itself",
        action: Some(Box::new(action)),
    }
}

/// A call as far as the checks have come.
pub(super) struct CallAssessment {
    /// What a permit is for; none for a call that only steers the conversation.
    pub(super) action: Option<Action>,
    /// What binds an approval: everything that makes the action this action.
    pub(super) identity: serde_json::Value,
    pub(super) title: String,
    pub(super) subject: String,
    /// Why the user must be asked whatever the policy says.
    pub(super) must_ask: Option<Reason>,
    /// Why policy alone does not allow it, where more can be told; a standing rule may.
    pub(super) undecided: Option<Reason>,
    /// The rule by which policy allows it.
    pub(super) allowed_by: Option<String>,
    /// What could be allowed or refused for good.
    pub(super) standing: Option<RuleSubject>,
    /// What could be allowed for good instead.
    pub(super) alternative: Option<RuleSubject>,
    pub(super) plan: Plan,
}

impl Gate {
    /// A gate over a workspace.
    pub fn new(mut policy_context: PolicyContext) -> Self {
        let roots: Vec<PathBuf> = policy_context.workspace.roots().paths().map(Path::to_path_buf).collect();
        let hooks: Vec<String> = roots.iter().flat_map(|root| git::patterns_of_hooks(root, &roots)).collect();
        if !hooks.is_empty() {
            Arc::make_mut(&mut policy_context.settings).protected.extend(hooks);
        }
        Self { policy_context, repositories: Arc::default() }
    }

    /// Has git leave out what the server makes in the first workspace folder for this machine alone.
    pub fn exclude_private_files(&self) {
        self.policy_context.bounds.exclude_private_files(&self.policy_context.workspace);
    }

    pub(super) fn repositories(&self) -> &Arc<Repositories> {
        &self.repositories
    }

    pub(super) fn workspace(&self) -> &Workspace {
        &self.policy_context.workspace
    }

    pub(super) fn policy_context(&self) -> &PolicyContext {
        &self.policy_context
    }

    pub(super) fn orchestration(&self) -> &Orchestration {
        &self.policy_context.orchestration
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.policy_context.settings
    }

    /// What an edit would make of its files as they are now, for who is asked about it; none for what is no
    /// edit, and for one that doesn't fit any more.
    pub async fn preview(&self, call: &ToolCall, seen: &BTreeMap<String, Digest>) -> Option<Vec<Preview>> {
        let invocation = roo_catalog::parse(call).ok()?;
        if let Invocation::ApplyPatch(patch) = &invocation {
            let proposed = self.propose_patch(patch, seen).await.ok()?;
            return Some(proposed.edits.into_iter().map(Preview::from).collect());
        }
        let named = path_of_edit(&invocation);
        if named.is_empty() {
            return None;
        }
        let path = self.resolve(named, Purpose::Write).ok()?;
        let Proposal { path: file, before, after, .. } = self.propose(path, seen, &invocation).await.ok()?;
        Some(vec![Preview { file, moved_to: None, before, after: Some(after) }])
    }

    /// Judges one call. Reads files, and changes nothing itself; what user hooks do is theirs.
    pub async fn judge(&self, call: &ToolCall, subject: ToolCallContext<'_>) -> GateOutcome {
        let batch = subject.hooks.is_some_and(|here| here.hooks.has(EventName::PostToolBatch));
        let mut heard = HookMessages { batch, ..HookMessages::default() };
        match self.check(call, subject, &mut heard).await {
            Ok((decision, permit)) => GateOutcome { decision, permit, heard },
            Err(Refusal { rule, mut reason, mistake, detail }) => {
                // It may show lines of a file.
                reason = self.mask().masked(&reason).unwrap_or(reason);
                if let Some(here) = subject.hooks.filter(|_| !mistake)
                    && self.after_refusal(call, (rule, &reason), here, &mut heard).await
                {
                    reason.push_str("\nA hook says that you may try it again.");
                }
                // A call that doesn't run has no other parameters than its own.
                heard.params = None;
                // A text that doesn't fit the file says nothing of whether the place can be written.
                let saves = rule != "content" && self.would_save(call, subject.urid);
                let decision = PolicyDecision::Deny { rule: rule.to_owned(), reason, mistake, saves, detail };
                GateOutcome { decision, permit: None, heard }
            }
        }
    }

    async fn check(
        &self,
        call: &ToolCall,
        subject: ToolCallContext<'_>,
        heard: &mut HookMessages,
    ) -> Result<(PolicyDecision, Option<Permit>), Refusal> {
        let mut checked = self.prepare(call, subject).await?;
        let Some(here) = subject.hooks else {
            return self.verdict(call, checked, HookDecision::Nothing, subject, heard).await;
        };
        let said = self.before_call(call, here, heard).await?;
        // The call as it runs is judged from the start, but for the hooks, which have said their word.
        let rewritten = heard.params.clone().map(|params| ToolCall { params, ..call.clone() });
        if let Some(rewritten) = &rewritten {
            checked = self.prepare(rewritten, subject).await.map_err(Refusal::of_rewritten)?;
        }
        let call = rewritten.as_ref().unwrap_or(call);
        let decided = self.verdict(call, checked, said, subject, heard).await?;
        if let (PolicyDecision::Allow { .. }, _) = &decided {
            self.before_end(call, here, heard).await?;
        }
        Ok(decided)
    }

    /// Runs all checks but for the hooks and the approval policy.
    async fn prepare(&self, call: &ToolCall, subject: ToolCallContext<'_>) -> Result<Checked, Refusal> {
        let mode = subject.mode;
        let names = || {
            let tools = mode.tools_with(subject.tools);
            tools.iter().map(|tool| tool.as_str()).collect::<Vec<_>>().join(", ")
        };
        let Some(tool) = ToolName::parse(&call.name) else {
            let text = format!("There is no tool named '{}'. You have {}.", call.name, names());
            return Err(Refusal::mistake("tool", text));
        };
        mode.permits(tool).map_err(|error| Refusal::mistake("mode", error))?;
        if !subject.tools.has(tool) {
            let names = names();
            let text = format!("The tool {tool} is not one of yours. You have {names}.");
            return Err(Refusal::mistake("mode", text));
        }
        intent::check_every_tool(&self.policy_context, subject, tool)?;
        let invocation = roo_catalog::parse(call).map_err(|error| Refusal::mistake("parameters", error))?;
        let mut judged = match invocation {
            Invocation::NewTask(call) => self.delegate(call, subject)?,
            Invocation::SwitchMode(call) => self.switch_mode(&call, subject)?,
            _ if tool.spec().effect == Effect::Control => {
                return Ok(Checked::Free {
                    rule: "conversation",
                    reason: "it only steers the conversation",
                    action: None,
                });
            }
            Invocation::ReadFile(read) => self.read(subject, read)?,
            Invocation::ListFiles(list) => {
                let directory = self.resolve(&list.path, Purpose::List)?;
                self.look(subject, tool, directory, list.recursive.to_string(), |directory| Action::List {
                    directory,
                    recursive: list.recursive,
                })?
            }
            Invocation::SearchFiles(search) => {
                let directory = self.resolve(&search.path, Purpose::List)?;
                let what = format!("{} {:?}", search.regex, search.file_pattern);
                self.look(subject, tool, directory, what, |directory| Action::Search {
                    directory,
                    regex: search.regex,
                    file_pattern: search.file_pattern,
                })?
            }
            Invocation::Skill(skill) => return self.skill(mode, skill),
            Invocation::SelectActiveIntent(select) => self.select_intent(&select.intent_id)?,
            Invocation::RequestScopeExpansion(request) => self.expand_intent(subject, request).await?,
            Invocation::ExecuteCommand(command) => {
                if let Some(native) = self.native(&command, subject.urid) {
                    return Ok(Checked::Free {
                        rule: "native",
                        reason: "the server answers it itself; nothing is run",
                        action: Some(Box::new(Action::Native(native))),
                    });
                }
                self.execute(subject, command).await?
            }
            Invocation::ReadCommandOutput(read) => {
                return Ok(own_command(Action::ReadCommand {
                    command: read.command,
                    timeout: Duration::from_secs(read.timeout),
                }));
            }
            Invocation::StopCommand(stop) => return Ok(own_command(Action::StopCommand(stop.command))),
            Invocation::ApplyPatch(patch) => self.patch(subject, &patch).await?,
            edit => self.edit(mode, subject, &edit).await?,
        };
        if let Some(note) = &call.note {
            judged.subject.push_str(&format!("\n{note}"));
        }
        standing::apply(&self.policy_context, &mut judged)?;
        Ok(Checked::CallAssessment(Box::new(judged)))
    }

    async fn verdict(
        &self,
        call: &ToolCall,
        checked: Checked,
        said: HookDecision,
        subject: ToolCallContext<'_>,
        heard: &mut HookMessages,
    ) -> Result<(PolicyDecision, Option<Permit>), Refusal> {
        let allow = |(rule, reason): (String, &str), plan: Plan, action: Option<Action>| {
            let decision = PolicyDecision::Allow { rule, reason: reason.to_owned(), plan };
            (decision, action.map(|action| Permit::new(call.id.clone(), action)))
        };
        let mut judged = match (checked, &said) {
            (Checked::CallAssessment(judged), _) => *judged,
            (Checked::Free { action, .. }, HookDecision::Ask(_)) => {
                of_free(call, action.map(|action| *action))
            }
            (Checked::Free { rule, reason, action }, _) => {
                let action = action.map(|action| *action);
                return Ok(allow((rule.to_owned(), reason), Plan::Nothing, action));
            }
        };
        let mut why = "the user's settings allow it without asking";
        match said {
            HookDecision::Nothing => {}
            HookDecision::Ask(reason) => judged.must_ask = judged.must_ask.or(Some(reason)),
            HookDecision::Allow if judged.allowed_by.is_none() => {
                judged.allowed_by = Some(user_hooks::RULE.to_owned());
                why = "a hook of the user's allows it";
            }
            HookDecision::Allow => {}
        }
        let digest = Digest::of(judged.identity.to_string());
        if subject.approved == Some(digest) {
            let by_user = ("approval".to_owned(), "the user allowed exactly this");
            return Ok(allow(by_user, judged.plan, judged.action));
        }
        let must_ask = match (judged.must_ask, judged.allowed_by) {
            (None, Some(rule)) => return Ok(allow((rule, why), judged.plan, judged.action)),
            (must_ask, _) => must_ask,
        };
        if let Some(here) = subject.hooks
            && self.permission(call, here, heard).await?
            && must_ask.is_none()
        {
            let by_hook = (user_hooks::RULE.to_owned(), "a hook of the user's answered for them");
            return Ok(allow(by_hook, judged.plan, judged.action));
        }
        // What asks whatever the settings say asks whatever a rule says, but for a rule about just that.
        let about_that =
            matches!(judged.standing, Some(RuleSubject::Network | RuleSubject::SandboxAccess(_)));
        let offers_rule = must_ask.is_none() || about_that;
        let reason = must_ask
            .or(judged.undecided)
            .unwrap_or(Reason { rule: "policy", text: "the settings don't allow it without asking".into() });
        let rule_subject = judged.standing.filter(|_| offers_rule);
        let has_alternative =
            matches!(rule_subject, None | Some(RuleSubject::Commands { .. } | RuleSubject::SandboxAccess(_)));
        let alternative = judged.alternative.filter(|_| offers_rule && has_alternative);
        let decision = PolicyDecision::Ask {
            rule: reason.rule.to_owned(),
            reason: reason.text,
            digest,
            title: match rule_subject.as_ref().and_then(RuleSubject::question) {
                Some(question) => format!("{question} {}", judged.title),
                None => judged.title,
            },
            subject: match &judged.action {
                // The diff of a large file takes a while, so it is made only for who is asked.
                Some(Action::Write(proposal)) => shown(proposal),
                Some(Action::WriteAll(proposal)) => super::patch::shown(proposal),
                _ => judged.subject,
            },
            rule_subject,
            alternative,
        };
        Ok((decision, None))
    }

    pub(super) fn resolve(&self, path: &str, purpose: Purpose) -> Result<Resolved, Refusal> {
        self.policy_context.workspace.resolve(path, purpose).map_err(|error| Refusal::mistake("path", error))
    }

    /// Runs the checks over a place that a call leads to; what has to be asked of it.
    pub(super) fn examine(
        &self,
        subject: ToolCallContext<'_>,
        place: &Resolved,
        access: Access,
    ) -> Result<Option<Reason>, Refusal> {
        check::check(&CheckContext { policy_context: &self.policy_context, subject, place, access })
    }

    /// Whether the task may know what is there only once the user allowed it.
    pub(super) fn needs_permission_to_read(&self, path: &Resolved) -> bool {
        !self.policy_context.settings.auto_approve.read
            || self.policy_context.workspace.read_access(path) != ReadAccess::Free
    }

    fn read_rule(&self) -> Option<String> {
        self.policy_context.settings.auto_approve.read.then(|| "autoApprove.read".to_owned())
    }

    fn read(
        &self,
        subject: ToolCallContext<'_>,
        read: roo_catalog::ReadFile,
    ) -> Result<CallAssessment, Refusal> {
        let single = read.files.len() == 1;
        let mut files = Vec::new();
        let mut must_ask = None;
        let mut names = Vec::new();
        for file in read.files {
            let checked = self.resolve(&file.path, Purpose::Read).and_then(|path| {
                let reason = self.examine(subject, &path, Access::Look)?;
                Ok((path, reason))
            });
            // One unreadable file must not hide the others.
            let path = match checked {
                Err(refusal) if single => return Err(refusal),
                Err(refusal) => Err(refusal.reason),
                Ok((path, reason)) => {
                    names.push(path.display());
                    must_ask = must_ask.or(reason);
                    Ok(path)
                }
            };
            files.push(ReadTarget { path, named: file.path, ranges: file.ranges });
        }
        let subject = names.join("\n");
        Ok(CallAssessment {
            identity: json!({ "tool": "read_file", "paths": names }),
            action: Some(Action::Read { files }),
            title: format!("Read {}", render::one_line(&names.join(", "), TITLE)),
            subject: render::visible(&subject).into_owned(),
            must_ask,
            undecided: None,
            allowed_by: self.read_rule(),
            standing: Some(RuleSubject::Reads),
            alternative: None,
            plan: Plan::Nothing,
        })
    }

    /// A skill is what the user put there for models to read, so nobody is asked.
    fn skill(&self, mode: &Mode, wanted: roo_catalog::Skill) -> Result<Checked, Refusal> {
        let skills = self.policy_context.customization.skills();
        let Some(skill) = skills.find(&wanted.name, &mode.slug) else {
            let known: Vec<&str> =
                skills.of_mode(&mode.slug).iter().map(|skill| skill.name.as_str()).collect();
            let text = match known.as_slice() {
                [] => "There are no skills here.".to_owned(),
                known => format!("There is no skill '{}'. The skills are {}.", wanted.name, known.join(", ")),
            };
            return Err(Refusal::mistake("skill", text));
        };
        Ok(Checked::Free {
            rule: "skill",
            reason: "it only loads instructions that were put there for models",
            action: Some(Box::new(Action::Skill { skill: skill.clone(), arguments: wanted.arguments })),
        })
    }

    fn look(
        &self,
        subject: ToolCallContext<'_>,
        tool: ToolName,
        directory: Resolved,
        what: String,
        action: impl FnOnce(Resolved) -> Action,
    ) -> Result<CallAssessment, Refusal> {
        let must_ask = self.examine(subject, &directory, Access::Look)?;
        let title = if tool == ToolName::ListFiles { "List" } else { "Search" };
        let subject = directory.display();
        Ok(CallAssessment {
            identity: json!({ "tool": title, "path": subject, "what": what }),
            title: format!("{title} {}", render::one_line(&subject, TITLE)),
            subject: render::visible(&subject).into_owned(),
            action: Some(action(directory)),
            must_ask,
            undecided: None,
            allowed_by: self.read_rule(),
            standing: Some(RuleSubject::Reads),
            alternative: None,
            plan: Plan::Nothing,
        })
    }

    async fn edit(
        &self,
        mode: &Mode,
        subject: ToolCallContext<'_>,
        invocation: &Invocation,
    ) -> Result<CallAssessment, Refusal> {
        let tool = invocation.tool();
        let path = self.resolve(path_of_edit(invocation), Purpose::Write)?;
        let task_directory = modes::task_directory(subject.urid);
        // Requests live in the first root; a directory of that name elsewhere is like any other.
        let is_first = matches!(path.location(), Location::Inside { root: 0 });
        mode.permits_file(tool, path.relative(), is_first.then_some(task_directory.as_str()))
            .map_err(|error| Refusal::mistake("mode", error))?;
        let own = protected::of_place(&self.policy_context, subject, &path);
        let inside = matches!(path.location(), Location::Inside { .. });
        let must_ask = self.examine(subject, &path, Access::Write)?;
        let shared = own == Protection::OwnTaskDirectory;
        let granted = inside && shared && must_ask.is_none();
        let mut proposal = self.propose(path, subject.seen, invocation).await?;
        let must_ask = must_ask.or_else(|| remote::ask(proposal.before.as_deref(), &proposal.after));
        let escaped = escaped::ask(proposal.path.relative(), proposal.before.as_deref(), &proposal.after);
        if escaped.is_some() {
            let lines = proposal.notice.iter().map(String::as_str).chain([escaped::NOTICE]);
            proposal.notice = Some(lines.collect::<Vec<_>>().join("\n"));
        }
        let must_ask = must_ask.or(escaped);
        let before = proposal.before.as_deref().map(Digest::of);
        let after = Digest::of(&proposal.after);
        let name = proposal.path.display();
        let label = match &own {
            Protection::Tier2 { rule } if inside => format!(" (runs later: {rule})"),
            _ => String::new(),
        };
        let title = format!("{} {name}{label}", if before.is_some() { "Edit" } else { "Create" });
        let allowed_by = if granted {
            Some("own task directory".to_owned())
        } else {
            self.policy_context.settings.auto_approve.write.then(|| "autoApprove.write".to_owned())
        };
        Ok(CallAssessment {
            identity: json!({ "tool": "write", "path": name, "before": before, "after": after }),
            // Shown from the action.
            subject: String::new(),
            title,
            must_ask,
            undecided: None,
            allowed_by,
            // Context for the request's own branches is free.
            standing: (!granted).then_some(RuleSubject::Edits),
            alternative: None,
            plan: Plan::Write(PlannedWrite { path: name, before, after, shared }),
            action: Some(Action::Write(proposal)),
        })
    }

    /// The new text that an edit leads to, from the text as it is now.
    async fn propose(
        &self,
        path: Resolved,
        seen: &BTreeMap<String, Digest>,
        invocation: &Invocation,
    ) -> Result<Proposal, Refusal> {
        let unread = self.needs_permission_to_read(&path) && !seen.contains_key(&path.display());
        let of_existing = matches!(invocation, Invocation::ApplyDiff(_) | Invocation::SearchAndReplace(_));
        if unread && of_existing {
            return Err(unread_refusal(&path.display()));
        }
        let current = match self.policy_context.workspace.read_for_edit(&path).await {
            Ok(file) => Some(file),
            Err(ReadError::NotFound { .. }) => None,
            Err(_) if unread => return Err(unread_refusal(&path.display())),
            Err(error) => return Err(Refusal::mistake("content", error)),
        };
        let name = path.display();
        if unread && current.is_some() {
            return Err(unread_refusal(&name));
        }
        let missing = || {
            let text = format!("{name} does not exist. Use write_to_file to create it.");
            Refusal::mistake("content", text)
        };
        let mut notice = None;
        let before = current.as_ref().map(|file| file.text.as_str());
        let after = match invocation {
            Invocation::WriteToFile(write) => {
                if let Some(file) = &current {
                    match seen.get(&name) {
                        Some(digest) if *digest == file.digest => {}
                        Some(known) => {
                            let changes = self.changes_since(*known, &file.text, &name);
                            let text = format!(
                                "{name} has changed since you read it. Read it again, and write it with these \
                                 changes kept.{changes}"
                            );
                            return Err(Refusal::mistake("content", text));
                        }
                        None => {
                            let text = format!(
                                "{name} exists, and you have not read it. Read it before you replace its text."
                            );
                            return Err(Refusal::mistake("content", text));
                        }
                    }
                }
                edit::whole(before, &write.content).map_err(|error| Refusal::mistake("content", error))?
            }
            Invocation::ApplyDiff(apply) => {
                let text = before.ok_or_else(missing)?;
                let parsed =
                    blocks::parse(&apply.diff).map_err(|error| Refusal::mistake("content", error))?;
                let applied = blocks::apply(text, &parsed, blocks::Threshold::default())
                    .map_err(|error| of_masked(&apply.diff, Refusal::mistake("content", error)))?;
                notice = block_notice(&applied);
                applied.text
            }
            Invocation::SearchAndReplace(search) => {
                let text = before.ok_or_else(missing)?;
                let replaced = edit::replace(text, &search.replacement).map_err(|error| {
                    of_masked(&search.replacement.search, Refusal::mistake("content", error))
                })?;
                notice = replaced.notice();
                replaced.text
            }
            Invocation::InsertContent(insert) => edit::insert(before, insert.line, &insert.content)
                .map_err(|error| Refusal::mistake("content", error))?,
            // Only edits come here.
            _ => return Err(missing()),
        };
        if matches!(invocation, Invocation::WriteToFile(_) | Invocation::ApplyDiff(_))
            && let Some(left_out) = omission::find(&name, before, &after)
        {
            return Err(omission_refusal(&left_out));
        }
        self.refuse_masks(&name, before, &after)?;
        if before == Some(after.as_str()) {
            let text = format!("{name} already holds this text; nothing was changed.");
            return Err(Refusal::mistake("content", text));
        }
        let before = current.map(|file| file.text);
        Ok(Proposal { path, before, after, notice })
    }

    fn mask(&self) -> TextMask {
        TextMask::new(self.settings().redact_secrets, || {
            known_secrets(&Environment::inherited(), self.workspace().roots().paths(), &[])
        })
    }

    /// Refuses a text with the mask of a secret: the model has it from what it read, and the file would lose the secret.
    pub(super) fn refuse_masks(&self, name: &str, before: Option<&str>, after: &str) -> Result<(), Refusal> {
        let Some(mask) = redaction::new_mask(before, after).filter(|_| self.settings().redact_secrets) else {
            return Ok(());
        };
        let text = format!(
            "The new text of {name} holds `{mask}`. That is a mask: it stands for a secret that you are not shown, and \
             the file would lose it. Leave lines with a mask as they are, and change only others (apply_diff, \
             insert_content). If such a line must change, ask the user to do it."
        );
        Err(Refusal::mistake("masked", text))
    }

    /// Whether a call that is refused was to save context for the request's branches.
    fn would_save(&self, call: &ToolCall, urid: &Urid) -> bool {
        let Ok(Invocation::WriteToFile(write)) = roo_catalog::parse(call) else { return false };
        let root = self.policy_context.workspace.roots().paths().next();
        let named = Path::new(&write.path);
        let named = root.and_then(|root| named.strip_prefix(root).ok()).unwrap_or(named);
        // By its name alone: where it leads may be what can't be found out.
        let mut below = Vec::new();
        for part in named.components() {
            match part {
                Component::Normal(part) => below.push(part),
                Component::CurDir => {}
                Component::ParentDir if below.pop().is_some() => {}
                _ => return false,
            }
        }
        below.iter().collect::<PathBuf>().starts_with(modes::task_directory(urid))
    }

    /// What has changed in a file since somebody read it, as far as that is known.
    pub(super) fn changes_since(&self, known: Digest, text: &str, name: &str) -> String {
        let Some(old) = self.policy_context.workspace.recall(known) else { return String::new() };
        let diff = diff::unified(&old, text, name);
        let mut shown: Vec<&str> = diff.lines().take(CHANGES).collect();
        if diff.lines().count() > CHANGES {
            shown.push("(more)");
        }
        format!("\n\nWhat changed since:\n{}", shown.join("\n"))
    }
}

/// A call that needs nobody's leave, but for a hook that wants it asked.
fn of_free(call: &ToolCall, action: Option<Action>) -> CallAssessment {
    let params = Value::Object(call.params.clone());
    CallAssessment {
        action,
        identity: json!({ "tool": call.name, "parameters": params }),
        title: format!("Call {}", render::one_line(&call.name, TITLE)),
        subject: render::visible(&format!("{params:#}")).into_owned(),
        must_ask: None,
        undecided: None,
        allowed_by: None,
        standing: None,
        alternative: None,
        plan: Plan::Nothing,
    }
}

/// What a write changes, for who is asked about it.
fn shown(proposal: &Proposal) -> String {
    let diff = diff::of_file(proposal.before.as_deref(), &proposal.after, &proposal.path.display());
    render::visible(&diff).into_owned()
}

/// The file that an edit names; none, which leads nowhere, for what is no edit.
fn path_of_edit(invocation: &Invocation) -> &str {
    match invocation {
        Invocation::WriteToFile(edit) => &edit.path,
        Invocation::ApplyDiff(edit) => &edit.path,
        Invocation::SearchAndReplace(edit) => &edit.path,
        Invocation::InsertContent(edit) => &edit.path,
        _ => "",
    }
}

/// To an edit of a file that the task may not have read. One text for all cases: whether the file is
/// there, or holds what the edit looks for, would tell what reading it tells, without asking.
pub(super) fn unread_refusal(name: &str) -> Refusal {
    let text = format!(
        "{name} can't be edited before you have read it, and reading it needs the user's permission: call read_file \
         first."
    );
    Refusal::mistake("content", text)
}

/// To an edit that looks for a mask, which is in no file.
fn of_masked(searched: &str, refusal: Refusal) -> Refusal {
    if !redaction::holds_mask(searched) {
        return refusal;
    }
    let reason = format!(
        "{}\nA mask such as [masked: …] stands for a secret that you are not shown; the file itself holds the secret. \
         Search for other lines.",
        refusal.reason
    );
    Refusal { reason, ..refusal }
}

/// To an edit that leaves text out and says so in a comment: the file would lose it.
fn omission_refusal(left_out: &Omission) -> Refusal {
    let text = format!(
        "Line {} of the new text, `{}`, stands for text that you left out, and the file would lose it. Write all of it, or \
         change only the lines that change. If the file is to have this very line, add it with insert_content.",
        left_out.line,
        render::one_line(&left_out.text, TITLE),
    );
    Refusal::mistake("content", text)
}

/// What the model should know about blocks that did not fit exactly, or not at all.
fn block_notice(applied: &blocks::Applied) -> Option<String> {
    let mut lines: Vec<String> = applied.applied.iter().filter_map(blocks::AppliedBlock::notice).collect();
    if !applied.failed.is_empty() {
        lines.push(format!("{} blocks were NOT applied; the others were:", applied.failed.len()));
        lines.extend(applied.failed.iter().map(ToString::to_string));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests;
