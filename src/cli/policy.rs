//! `roo-lsp policy`: what agents may do in this workspace, asked of the gate itself, and where that comes from.
//!
//! Nothing is done here but taking a standing rule back: no call runs, nothing is put into the trace, no intent is
//! accepted. Only the sandbox tries itself in a temporary directory where a verdict rests on it, as for any command.

use std::fmt::{Display, Write as _};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::arguments::{Allow, Common, PolicyCheck, PolicyCommand, PolicyFormat};
use super::run::allowed;
use super::session::{Judge, SessionContext};
use super::terminal::{self, TERMINAL_USER};
use super::{CliError, Ending, hooks};
use roo_catalog::{ToolCall, ToolName};
use roo_engine::hooks::{EventName, Hook};
use roo_engine::intent_store::{Binding, Orchestration};
use roo_engine::policy::{NamedAllowRule, PolicyDecision, command, decode_command};
use roo_formats::config::{Layer, Settings};
use roo_formats::intents::INTENTS_FILE;
use roo_formats::modes::Mode;
use roo_protocol::customization::{PendingKind, TrustReport};
use roo_protocol::ids::ToolCallId;
use roo_protocol::intent::IntentListResult;
use roo_protocol::rule::{RuleItem, RuleSubject};
use roo_sandbox::exec::ExecError;
use roo_text::render;
use roo_workspace::{Purpose, protected_names};

/// Runs one of the subcommands of `policy`.
pub(super) async fn policy(common: Common, command: PolicyCommand) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    match command {
        PolicyCommand::Check(asked) => check(&context, asked).await,
        PolicyCommand::Explain { allow, json } => explain(&context, &allow, json).await,
        PolicyCommand::Rules { json } => {
            let rules = rules(&context)?;
            let lines: Result<String, CliError> = rules
                .iter()
                .map(|rule| if json { line_of_json(rule) } else { Ok(rule_line(rule)) })
                .collect();
            match lines?.as_str() {
                "" if !json => terminal::stdout().write_all(b"no standing rules\n")?,
                lines => terminal::stdout().write_all(lines.as_bytes())?,
            }
            Ok(Ending::Done)
        }
        PolicyCommand::Presets { name } => {
            let text = match name {
                None => presets(&context.folder),
                Some(name) => match command::preset(&name) {
                    Some(preset) => preset.lines().iter().map(|line| format!("{line}\n")).collect(),
                    None => return Err(CliError::Other(command::unknown_preset(&name))),
                },
            };
            print(&text)?;
            Ok(Ending::Done)
        }
        PolicyCommand::Revoke { id } => {
            context.rules().revoke(&id).map_err(|error| CliError::Other(error.to_string()))?;
            writeln!(terminal::stdout(), "{} is revoked", render::exact_line(&id))?;
            Ok(Ending::Done)
        }
    }
}

/// All presets, a line each; those that the project in a folder has a use for are marked.
fn presets(folder: &Path) -> String {
    let suggested = command::suggested_presets(folder);
    let line = |preset: &command::Preset| {
        let mark = if suggested.iter().any(|fitting| fitting.name == preset.name) { "*" } else { " " };
        format!("{mark} {:<10} {}\n", preset.name, preset.about)
    };
    command::presets().iter().map(line).collect()
}

fn rules(context: &SessionContext) -> Result<Vec<RuleItem>, CliError> {
    context.rules().list().map_err(|error| CliError::Other(error.to_string()))
}

fn line_of_json<T: Serialize>(value: &T) -> Result<String, CliError> {
    let json = serde_json::to_string(value);
    json.map(|json| json + "\n").map_err(|error| CliError::Other(error.to_string()))
}

/// Who made a rule, for the user.
fn by_line(by: &str) -> std::borrow::Cow<'_, str> {
    if by == TERMINAL_USER { "you".into() } else { render::exact_line(by).into() }
}

/// A standing rule on one line.
fn rule_line(rule: &RuleItem) -> String {
    let day = jiff::Timestamp::from_millisecond(rule.created_at).map(|at| at.to_string()).unwrap_or_default();
    let day = day.get(..10).unwrap_or_default();
    format!("{:<4} {} ({day}, by {})\n", rule.rule_id, render::exact_line(&rule.text), by_line(&rule.by))
}

fn flags(allow: &Allow) -> Option<Layer> {
    let keys = allowed(allow);
    (!keys.is_empty()).then(|| Layer::from_command_line(keys))
}

/// A question, as it stands on a line of input.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    tool: Option<String>,
    params: Option<Map<String, Value>>,
    command: Option<String>,
    cwd: Option<String>,
    #[serde(default)]
    network: bool,
    read: Option<String>,
    write: Option<String>,
}

/// Question of `policy check`.
#[derive(Debug)]
enum PolicyQuestion {
    Tool { name: String, params: Map<String, Value> },
    Command { line: String, cwd: Option<String>, network: bool },
    Read(String),
    Write(String),
}

impl Question {
    fn read_from(line: &[u8]) -> Result<PolicyQuestion, String> {
        let question: Self = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        question.asked()
    }

    /// # Errors
    /// When there isn't exactly one question, in words.
    fn asked(self) -> Result<PolicyQuestion, String> {
        let Self { tool, params, command, cwd, network, read, write } = self;
        if tool.is_none() && params.is_some() {
            return Err("`params` belong to a `tool`".to_owned());
        }
        if command.is_none() && (cwd.is_some() || network) {
            return Err("`cwd` and `network` belong to a `command`".to_owned());
        }
        match (tool, command, read, write) {
            (Some(name), None, None, None) => {
                Ok(PolicyQuestion::Tool { name, params: params.unwrap_or_default() })
            }
            (None, Some(line), None, None) => Ok(PolicyQuestion::Command { line, cwd, network }),
            (None, None, Some(path), None) => Ok(PolicyQuestion::Read(path)),
            (None, None, None, Some(path)) => Ok(PolicyQuestion::Write(path)),
            _ => Err("expected exactly one of `tool`, `command`, `read` and `write`".to_owned()),
        }
    }
}

impl PolicyQuestion {
    /// The call that the question is about.
    async fn call(&self, judge: &Judge) -> ToolCall {
        let call = |tool: ToolName, params: Value| {
            let params = match params {
                Value::Object(params) => params,
                _ => Map::new(),
            };
            (tool.as_str().to_owned(), params)
        };
        let (name, params) = match self {
            Self::Tool { name, params } => (name.clone(), params.clone()),
            Self::Command { line, cwd, network } => {
                let mut params = json!({ "command": line, "network": network });
                if let Some(cwd) = cwd {
                    params["cwd"] = cwd.as_str().into();
                }
                call(ToolName::ExecuteCommand, params)
            }
            Self::Read(path) => call(ToolName::ReadFile, json!({ "files": [{ "path": path }] })),
            Self::Write(path) => {
                let content = other_text(judge, path).await;
                call(ToolName::WriteToFile, json!({ "path": path, "content": content }))
            }
        };
        let mut call = ToolCall { id: ToolCallId::new("call_1"), name, params, problem: None, note: None };
        decode_command(&mut call);
        call
    }

    /// For people.
    fn shown(&self) -> String {
        let (what, of) = match self {
            Self::Tool { name, .. } => ("tool", name),
            Self::Command { line, .. } => ("run", line),
            Self::Read(path) => ("read", path),
            Self::Write(path) => ("write", path),
        };
        format!("{what} {}", render::exact_line(of))
    }
}

/// A text that a file doesn't hold, to stand for whatever may be written.
async fn other_text(judge: &Judge, path: &str) -> &'static str {
    let Ok(path) = judge.workspace.resolve(path, Purpose::Write) else { return "a\n" };
    match judge.workspace.read_for_edit(&path).await {
        Ok(file) if file.text.trim_end() == "a" => "b\n",
        _ => "a\n",
    }
}

/// A verdict, as it is printed.
#[derive(Debug, Serialize)]
struct PolicyAnswer {
    verdict: &'static str,
    rule: String,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Value>,
    /// The standing rule that the user would be offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    always: Option<String>,
    /// The same for a preset of rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<String>,
    /// Level of the sandbox for the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    /// The hooks that would be asked about calls that their matchers fit, and were not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hooks: Vec<String>,
}

/// Worst verdict, for the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worst {
    Allow,
    Ask,
    Deny,
}

/// Task that makes the call.
struct Asker<'a> {
    judge: &'a Judge,
    mode: &'a Mode,
    intent: Option<Binding>,
    format: PolicyFormat,
    /// Hooks that would be asked.
    hooks: Vec<String>,
}

async fn check(context: &SessionContext, asked: PolicyCheck) -> Result<Ending, CliError> {
    let settings = context.settings_for_policy(flags(&asked.allow))?;
    let judge = context.judge(settings, context.bounds().only_looking())?;
    let asker = Asker {
        judge: &judge,
        mode: judge.mode(&asked.mode).map_err(|error| CliError::Usage(error.to_string()))?,
        intent: judge
            .bound(asked.intent.as_deref())
            .map_err(|refusal| CliError::Usage(refusal.to_string()))?,
        format: asked.format,
        hooks: context
            .customization()?
            .user_hooks()
            .hooks()
            .iter()
            .filter(|hook| matches!(hook.event, EventName::PreToolUse | EventName::PermissionRequest))
            .map(Hook::shown)
            .collect(),
    };
    let params = asked.params.as_deref().map(serde_json::from_str).transpose();
    let question = Question {
        tool: asked.tool.map(|tool| tool.as_str().to_owned()),
        params: params.map_err(|error| CliError::Usage(format!("--params is not a JSON object: {error}")))?,
        command: asked.command,
        cwd: asked.cwd,
        network: asked.network,
        read: asked.read,
        write: asked.write,
    };
    let worst = match question.asked() {
        Ok(question) => asker.answer(&question).await?,
        // The arguments hold one question at most: there is none.
        Err(_) if asked.input.is_none() && io::stdin().is_terminal() => return Err(no_question()),
        Err(_) => match asker.answer_input().await? {
            Some(worst) => worst,
            // A list of questions may be empty; a call without any is a mistake.
            None if asked.input.is_some() => Worst::Allow,
            None => return Err(no_question()),
        },
    };
    Ok(match worst {
        Worst::Allow => Ending::Done,
        Worst::Ask => Ending::Waiting,
        Worst::Deny => Ending::Failed,
    })
}

fn no_question() -> CliError {
    CliError::Usage(
        "there is nothing to check: give --command, --read, --write or --tool, or questions on standard input \
         (roo-lsp policy check --help)"
            .to_owned(),
    )
}

impl Asker<'_> {
    /// Answers line by line, each at once. None when there is no line.
    async fn answer_input(&self) -> Result<Option<Worst>, CliError> {
        let (mut worst, mut malformed) = (None, 0);
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        loop {
            line.clear();
            if input.read_until(b'\n', &mut line).map_err(CliError::Input)? == 0 {
                break;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            match Question::read_from(&line) {
                Ok(question) => worst = worst.max(Some(self.answer(&question).await?)),
                Err(error) => {
                    malformed += 1;
                    let text = match self.format {
                        PolicyFormat::Json => line_of_json(&json!({ "error": error }))?,
                        PolicyFormat::Text => format!("error  {}\n", render::exact_line(&error)),
                    };
                    print(&text)?;
                }
            }
        }
        match malformed {
            0 => Ok(worst),
            1 => Err(CliError::Usage("one question can't be parsed".to_owned())),
            count => Err(CliError::Usage(format!("{count} questions can't be parsed"))),
        }
    }

    async fn answer(&self, question: &PolicyQuestion) -> Result<Worst, CliError> {
        let (worst, answer) = self.judge(question).await;
        let text = match self.format {
            PolicyFormat::Json => line_of_json(&answer)?,
            PolicyFormat::Text => in_words(question, &answer),
        };
        print(&text)?;
        Ok(worst)
    }

    async fn judge(&self, question: &PolicyQuestion) -> (Worst, PolicyAnswer) {
        let call = question.call(self.judge).await;
        let decision = self.judge.judge(&call, self.mode, self.intent.as_ref(), None).await.decision;
        let is_command = call.name == ToolName::ExecuteCommand.as_str();
        let answer = |verdict, rule: &dyn Display, reason| PolicyAnswer {
            verdict,
            rule: rule.to_string(),
            reason,
            detail: None,
            always: None,
            preset: None,
            sandbox: None,
            // What policy refuses reaches no hook.
            hooks: if verdict == "deny" { vec![] } else { self.hooks.clone() },
        };
        // What doesn't run isn't bounded by anything.
        let is_bounded = match &decision {
            PolicyDecision::Allow { rule, .. } => *rule != NamedAllowRule::Native.into(),
            PolicyDecision::Ask { .. } => true,
            PolicyDecision::Deny { .. } => false,
        };
        let (worst, mut answer) = match decision {
            PolicyDecision::Allow { rule, reason, .. } => (Worst::Allow, answer("allow", &rule, reason)),
            PolicyDecision::Ask { rule, reason, rule_subject, alternative, .. } => {
                let always = |subject: RuleSubject| format!("Always allow {}", subject.text());
                let preset = alternative.filter(|other| matches!(other, RuleSubject::Preset { .. }));
                let (always, preset) = (rule_subject.map(always), preset.map(always));
                (Worst::Ask, PolicyAnswer { always, preset, ..answer("ask", &rule, reason) })
            }
            PolicyDecision::Deny { rule, reason, detail, .. } => {
                (Worst::Deny, PolicyAnswer { detail, ..answer("deny", &rule, reason) })
            }
        };
        if is_command && is_bounded {
            let wanted = self.judge.settings.sandbox.level;
            let roots: Vec<_> = self.judge.workspace.roots().paths().map(Path::to_path_buf).collect();
            let held = self.judge.bounds.check(wanted, &roots).await;
            answer.sandbox =
                held.ok().map(|held| held.map_or("none".to_owned(), |held| held.level.to_string()));
        }
        (worst, answer)
    }
}

/// At once, for whoever asks line by line.
fn print(text: &str) -> Result<(), CliError> {
    let mut out = terminal::stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn in_words(question: &PolicyQuestion, answer: &PolicyAnswer) -> String {
    let mut text = format!("{:<5}  {}\n", answer.verdict, question.shown());
    let mut line = |what: &str, told: &str| {
        // Writing to a string can't fail.
        let told: Vec<_> = told.lines().map(render::exact_line).collect();
        let _ = writeln!(text, "       {what}: {}", told.join("\n         "));
    };
    line(&answer.rule, &answer.reason);
    if let Some(always) = &answer.always {
        line("offers", always);
    }
    if let Some(sandbox) = &answer.sandbox {
        line("sandbox", sandbox);
    }
    for hook in &answer.hooks {
        line("not asked here", &format!("the hook {hook}"));
    }
    text
}

/// A setting with where it comes from.
#[derive(Serialize)]
struct EffectiveSetting {
    key: String,
    value: Value,
    origin: String,
}

/// Sandbox of the machine compared with the settings.
#[derive(Serialize)]
struct SandboxReport {
    wanted: Value,
    /// Level of the sandbox; none where no command may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<String>,
    /// Restrictions in force, and those that are not available.
    machine: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
struct HookReport {
    source: &'static str,
    hook: String,
    runs: bool,
}

/// All that counts in a workspace.
#[derive(Serialize)]
struct Explanation {
    workspace: String,
    settings: Vec<EffectiveSetting>,
    sandbox: SandboxReport,
    intents: IntentListResult,
    rooignore: bool,
    rooprotected: bool,
    trust: TrustReport,
    hooks: Vec<HookReport>,
    rules: Vec<RuleItem>,
    /// Unknown keys in the settings.
    problems: Vec<String>,
    protected: Protected,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Protected {
    /// Only the server writes there.
    server_only: Vec<&'static str>,
    /// Writing always asks.
    always_asks: Vec<&'static str>,
    /// Writing is as free as that of other files, and says that it runs later.
    runs_later: Vec<&'static str>,
}

/// The most protected names on a line.
const NAMES: usize = 6;
/// The parts of the settings that are policy.
const POLICY: [&str; 6] = ["autoApprove", "protected", "intents", "sandbox", "redactSecrets", "limits"];

async fn explain(context: &SessionContext, allow: &Allow, json: bool) -> Result<Ending, CliError> {
    let flags = flags(allow);
    let layers = context.layers(flags.clone()).map_err(super::SessionError::from)?;
    let settings = context.settings_for_policy(flags)?;
    let customization = context.customization()?;
    let orchestration = Orchestration::new(context.workspace()?, context.state().path());
    let [server_only, always_asks, runs_later] = protected_names();
    let explanation = Explanation {
        workspace: context.folder.to_string_lossy().into_owned(),
        settings: effective(&settings, &layers),
        sandbox: sandbox(context, &settings).await,
        intents: orchestration.list(),
        rooignore: context.folder.join(".rooignore").is_file(),
        rooprotected: context.folder.join(".rooprotected").is_file(),
        trust: customization.trust(),
        hooks: hooks::all(&customization)
            .into_iter()
            .map(|(hook, runs)| HookReport { source: hook.source.as_str(), hook: hook.shown(), runs })
            .collect(),
        rules: rules(context)?,
        problems: layers.iter().flat_map(command::problems).map(|problem| problem.to_string()).collect(),
        protected: Protected { server_only, always_asks, runs_later },
    };
    let text = if json { line_of_json(&explanation)? } else { explanation.in_words() };
    print(&text)?;
    Ok(Ending::Done)
}

/// Every policy setting, with the strongest layer that sets it.
fn effective(settings: &Settings, layers: &[Layer]) -> Vec<EffectiveSetting> {
    let mut found = Vec::new();
    // Plain data with text keys: writing it can't fail.
    let all = serde_json::to_value(settings).unwrap_or_default();
    for part in POLICY {
        collect(part.to_owned(), &all[part], layers, &mut found);
    }
    found
}

fn collect(key: String, value: &Value, layers: &[Layer], found: &mut Vec<EffectiveSetting>) {
    if let Value::Object(keys) = value {
        return keys.iter().for_each(|(name, value)| collect(format!("{key}.{name}"), value, layers, found));
    }
    let origin = layers.iter().rev().find_map(|layer| layer.tells(&key));
    let origin = origin.unwrap_or_else(|| "default".to_owned());
    found.push(EffectiveSetting { key, value: value.clone(), origin });
}

async fn sandbox(context: &SessionContext, settings: &Settings) -> SandboxReport {
    let bounds = context.bounds().only_looking();
    let wanted = settings.sandbox.level;
    let checked = bounds.check(wanted, std::slice::from_ref(&context.folder)).await;
    let probe = bounds.sandbox().await.probe();
    let level =
        checked.as_ref().ok().map(|held| held.map_or("none".to_owned(), |held| held.level.to_string()));
    SandboxReport {
        wanted: serde_json::to_value(wanted).unwrap_or_default(),
        level,
        machine: probe.to_string(),
        problem: checked.err().map(|error: ExecError| error.to_string()),
    }
}

impl Explanation {
    /// Short lines for people.
    fn in_words(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, told: &str| {
            // Writing to a string can't fail.
            let _ = writeln!(text, "{what:<32} {}", render::exact_line(told));
        };
        line("workspace", &self.workspace);
        for EffectiveSetting { key, value, origin } in &self.settings {
            line(key, &format!("{}  ({origin})", written(value)));
        }
        line("sandbox", &self.sandbox.in_words());
        self.tell_intents(&mut line);
        line(".rooignore", if self.rooignore { "hides files from agents" } else { "there is none" });
        let more = if self.rooprotected { "protects more names" } else { "there is none" };
        line(".rooprotected", more);
        self.tell_trust(&mut line);
        for hook in &self.hooks {
            let state = if hook.runs { "runs" } else { "waits for approval" };
            line("hook", &format!("{} ({}, {state})", hook.hook, hook.source));
        }
        if self.hooks.is_empty() {
            line("hooks", "none");
        }
        for problem in &self.problems {
            line("problem", problem);
        }
        for rule in &self.rules {
            line(&format!("rule {}", rule.rule_id), &format!("{} (by {})", rule.text, by_line(&rule.by)));
        }
        if self.rules.is_empty() {
            line("rules", "none");
        }
        let Protected { server_only, always_asks, runs_later } = &self.protected;
        for (what, names) in [
            ("only the server writes", server_only),
            ("writing always asks", always_asks),
            ("labelled as running later", runs_later),
        ] {
            for (number, names) in names.chunks(NAMES).enumerate() {
                line(if number == 0 { what } else { "" }, &names.join("  "));
            }
        }
        text
    }

    fn tell_intents(&self, line: &mut impl FnMut(&str, &str)) {
        let IntentListResult { governed, intents, problems } = &self.intents;
        if !governed {
            return line("intents", &format!("none; without {INTENTS_FILE} the whole workspace is in scope"));
        }
        line("intents", &format!("{INTENTS_FILE} governs: nothing is changed without an intent of it"));
        for intent in intents {
            let state = if intent.selectable { "" } else { ", can't be selected" };
            let scope = intent.owned_scope.join(", ");
            line(
                &format!("intent {}", intent.intent_id),
                &format!("{} ({}{state}): {scope}", intent.name, intent.status),
            );
            for more in &intent.loosened {
                line("", &format!("allows more than you have accepted: {more}"));
            }
        }
        for problem in problems {
            line("intents", &format!("problem: {problem}"));
        }
    }

    fn tell_trust(&self, line: &mut impl FnMut(&str, &str)) {
        let TrustReport { trusted, brings, pending_approvals, delegation, own_delegation } = &self.trust;
        let state = if *trusted { "trusted" } else { "not trusted" };
        let told = match (brings.is_empty(), trusted) {
            (true, _) => format!("{state}; the workspace has no files that steer agents"),
            (false, true) => format!("{state}; these steer agents: {}", brings.join(", ")),
            (false, false) => format!("{state}; these have no effect: {}", brings.join(", ")),
        };
        line("trust", &told);
        for file in pending_approvals.iter().filter(|file| file.kind == PendingKind::File) {
            line("", &format!("{} waits for approval: {}", file.path, file.widens.join("; ")));
        }
        for (team, command) in [(delegation, "trust --delegation"), (own_delegation, "modes delegation")] {
            let Some(team) = team else { continue };
            let told = match team.allowed {
                Some(true) => "may delegate to each other, as you allowed".to_owned(),
                Some(false) => "may not delegate to each other, as you answered".to_owned(),
                None => {
                    format!("may not delegate to each other until you allow it (roo-lsp {command} allow)")
                }
            };
            line("", &format!("the modes {} {told}", team.modes.join(", ")));
        }
    }
}

impl SandboxReport {
    fn in_words(&self) -> String {
        match (&self.problem, self.level.as_deref()) {
            (Some(problem), _) => format!("no command runs: {problem}"),
            (None, Some("none")) => format!("off, though this machine has {}", self.machine),
            (None, Some("L3")) => format!("L3: every command is staged, in {}", self.machine),
            (None, Some("L0")) => format!("every command asks: {}", self.machine),
            (None, _) => self.machine.clone(),
        }
    }
}

/// A setting's value, for people.
fn written(value: &Value) -> String {
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(entries) if entries.is_empty() => "none".to_owned(),
        Value::Array(entries) => {
            let entry = |entry: &Value| match entry {
                Value::Array(words) => {
                    let words = words.iter().map(|word| word.as_str().unwrap_or_default());
                    format!("`{}`", words.collect::<Vec<_>>().join(" "))
                }
                other => written(other),
            };
            entries.iter().map(entry).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_exactly_one_question() {
        let asked = |line: &str| Question::read_from(line.as_bytes());
        assert!(matches!(asked(r#"{"read": "a"}"#), Ok(PolicyQuestion::Read(path)) if path == "a"));
        assert!(matches!(
            asked(r#"{"command": "ls", "network": true}"#),
            Ok(PolicyQuestion::Command { network: true, cwd: None, .. })
        ));
        for line in [
            "",
            "{",
            "{}",
            r#"["read"]"#,
            r#"{"read": 1}"#,
            r#"{"read": "a", "write": "a"}"#,
            r#"{"tool": "read_file", "command": "ls"}"#,
            r#"{"read": "a", "cwd": "b"}"#,
            r#"{"command": "ls", "params": {}}"#,
            r#"{"reed": "a"}"#,
            r#"{"tool": "read_file", "params": []}"#,
        ] {
            assert!(asked(line).is_err(), "{line}");
        }
    }
}
