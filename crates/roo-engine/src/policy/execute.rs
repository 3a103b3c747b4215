//! `execute_command`: what a command line would do, and whether it may without asking.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::action::{Execute, Native};
use super::check::Access;
use super::command::{self, AllowedBy, CommandVerdict, Summary};
use super::command_place::CommandPlace;
use super::confined_commands::{self, ConfinedPolicy};
use super::gate::{CallAssessment, Gate, Reason, Refusal, ToolCallContext};
use super::intent;
use super::plan::Plan;
use super::rule::RefusalRule;
use super::standing::{self, SandboxGrants};
use super::task_network::NetworkRules;
use roo_catalog::ExecuteCommand;
use roo_formats::config::RunContext;
use roo_formats::modes;
use roo_protocol::ids::{Digest, Urid};
use roo_protocol::rule::{RuleSubject, RuleVerdict};
use roo_text::render;
use roo_workspace::{Location, Purpose, read_disk};

/// The longest command in a title, in characters.
const TITLE: usize = 60;
/// The largest script whose text an approval is bound to, in bytes.
const SCRIPT: u64 = 16 << 20;

impl Gate {
    /// Returns the server's own answer instead of running the command. Such a command is a step of the modes' workflow
    /// whose result is known; in another directory it would mean something else.
    pub(crate) fn native(&self, execute: &ExecuteCommand, urid: &Urid) -> Option<Native> {
        let is_first_root = |directory: &str| {
            self.workspace().resolve(directory, Purpose::Directory).is_ok_and(|place| {
                matches!(place.location(), Location::Inside { root: 0 }) && place.relative().is_empty()
            })
        };
        let here = execute.cwd.as_deref().is_none_or(is_first_root);
        let line = execute.command.as_str();
        let task_directory = modes::task_directory(urid);
        if command::is_urid_recipe(line) {
            Some(Native::Urid(urid.clone()))
        } else if here && command::makes_directory(line, &task_directory) {
            Some(Native::TaskDirectory(task_directory))
        } else if here
            && self.settings().system_context.run == RunContext::Native
            && command::is_context_command(line, &self.settings().system_context.command)
        {
            Some(Native::SystemContext)
        } else {
            None
        }
    }

    pub(crate) async fn execute(
        &self,
        call_context: ToolCallContext<'_>,
        execute: ExecuteCommand,
    ) -> Result<CallAssessment, Refusal> {
        let directory = self.resolve(execute.cwd.as_deref().unwrap_or("."), Purpose::Directory)?;
        let must_ask = self.examine(call_context, &directory, Access::Run)?;
        let wanted = self.settings().sandbox.level;
        // Fail closed: what is wanted and not there means that nothing runs.
        let roots: Vec<_> = self.workspace().roots().paths().map(Path::to_path_buf).collect();
        let held = self.policy_context().bounds.check(wanted, &roots).await;
        let held = held.map_err(|error| Refusal::forbidden(RefusalRule::Sandbox, error))?;
        let level = match held {
            None => "none".to_owned(),
            Some(held) => held.level.to_string(),
        };
        let unbounded = held.is_some_and(|held| held.probe.active.is_none());
        let grant = intent::grant(self.policy_context(), call_context)
            .map_err(|error| intent::refuse(&error, call_context.intent))?;
        if let Some(intent) =
            grant.as_ref().and_then(|grant| grant.intents.iter().find(|intent| intent.network.is_empty()))
            && execute.network
        {
            let text = format!("{} grants no network. Go on without it, or ask the user.", intent.id);
            return Err(Refusal::mistake(RefusalRule::Network, text));
        }
        let intents = grant.as_ref().map(|grant| grant.intents.as_slice()).unwrap_or_default();
        let network = NetworkRules::new(&self.settings().sandbox.network, intents, execute.network).map_err(
            |error| Refusal::forbidden(RefusalRule::SandboxNetwork, format!("No command runs: {error}.")),
        )?;
        let must_ask = must_ask.or_else(|| {
            unbounded.then(|| Reason {
                rule: "sandbox",
                text: "this machine has no sandbox, so the command could do all that you can".to_owned(),
            })
        });
        let must_ask =
            must_ask.or_else(|| confined_commands::asks_always(self.policy_context(), grant.as_ref()));
        let (mut standing, mut undecided) = (None, None);
        let grants = SandboxGrants::from_rules(self.policy_context())?;
        let must_ask = match (must_ask, grants.network) {
            (_, Some(RuleVerdict::Deny)) if execute.network => {
                let text = "The user has permanently refused commands the network. Go on without it, or ask.";
                return Err(Refusal::forbidden(RefusalRule::Rules, text));
            }
            (None, None) if execute.network => {
                standing = Some(RuleSubject::Network);
                Some(Reason { rule: "network", text: "it wants to reach the network".to_owned() })
            }
            (must_ask, _) => must_ask,
        };
        let rules = standing::commands(self.policy_context())?;
        let is_concealed = held.is_some_and(|held| held.probe.holds_within_grants());
        let search = std::env::var_os("PATH").unwrap_or_default();
        let finder = self.policy_context().bounds.finder().await;
        let here = CommandPlace::new(self.policy_context(), call_context, &directory, search, finder)
            .concealed(is_concealed)
            .with(Arc::clone(self.repositories()));
        let line = execute.command.as_str();
        let mut alternative = None;
        let mut allowed_by = match command::judge(&rules, line, &here) {
            CommandVerdict::Allow { by } => Some(told(&by)),
            CommandVerdict::Deny { rule } => {
                let text = format!(
                    "The user's settings forbid commands with `{}`. Don't try it in another form; find another \
                     way or ask.",
                    rule.join(" ")
                );
                return Err(Refusal::forbidden(RefusalRule::Denied, text));
            }
            CommandVerdict::Destroys { what } => {
                let text = format!(
                    "The command {what}. No rule and no answer allows that. Name what is really to be changed."
                );
                return Err(Refusal::forbidden(RefusalRule::Destructive, text));
            }
            CommandVerdict::Hidden { reason } => {
                return Err(Refusal::forbidden(RefusalRule::Rooignore, reason));
            }
            CommandVerdict::TooDeep => {
                let text = "The command is nested too deeply to be checked against what the user's settings \
                            forbid. Write it as separate, plain commands.";
                return Err(Refusal::mistake(RefusalRule::Denied, text));
            }
            CommandVerdict::Ask { reason } => {
                let commands = || command::rules_for(&rules, line, &here);
                standing = standing.or_else(|| Some(RuleSubject::Commands { commands: commands()? }));
                let project = self.workspace().roots().paths().next();
                let suggested = project.map(command::suggested_presets).unwrap_or_default();
                alternative = command::preset_for(&rules, &suggested, line, &here).map(|preset| {
                    RuleSubject::Preset { preset: preset.name.to_owned(), about: preset.about.to_owned() }
                });
                undecided = Some(Reason { rule: "command", text: reason });
                None
            }
        };
        let is_held = held.is_some_and(|held| held.probe.holds_within_grants());
        let mut brings = None;
        if is_held && must_ask.is_none() && allowed_by.is_none() {
            let confined = confined_commands::confined(self.policy_context(), call_context)?;
            match (confined, self.leaves(call_context, &directory, line)) {
                (ConfinedPolicy::Ask, _) => {}
                (_, Some(reason)) => undecided = Some(Reason { rule: "command", text: reason }),
                (ConfinedPolicy::Run(rule), None) => allowed_by = Some(rule),
                // What is offered is said to reach no network.
                (ConfinedPolicy::Offer(_), None) if execute.network => {}
                (ConfinedPolicy::Offer(offer), None) => {
                    if let RuleSubject::TrustAndConfinedCommands { brings: named } = &offer {
                        brings = Some(named.clone());
                    }
                    standing = Some(offer);
                    let text = "commands of this project could run in the sandbox without asking: there they can write \
                                what the task may change, and reach no network";
                    undecided = Some(Reason { rule: "command", text: text.to_owned() });
                }
            }
        }
        let place = directory.display();
        let summary = command::summarize(line, &here);
        let mut shown = format!("{line}\n(in {place})");
        tell_steps(&mut shown, line, &summary);
        tell_pinned(&mut shown, &summary.paths);
        let context = &self.settings().system_context;
        let is_context =
            context.run == RunContext::Shell && command::is_context_command(line, &context.command);
        let parts = if is_context { command::independent_parts(line) } else { vec![] };
        if !parts.is_empty() {
            shown.push_str("\nEach part runs by itself, also where one before it fails.");
        }
        if execute.network {
            shown.push_str(&format!("\nIt may reach the network: {}.", network.shown.join(", ")));
        }
        shown.push_str(&format!("\nSandbox: {level}"));
        if let Some(brings) = &brings {
            tell_trust(&mut shown, brings);
        }
        let shared_hosts = grants.allowed.hosts.clone();
        let grants = grants.for_line(|commands| command::consists_of(commands, line, &here));
        // A question is asked about one thing: what else asks comes first.
        let offered = grants.offered(call_context, line).filter(|_| must_ask.is_none());
        let mut opened = grants.allowed;
        let must_ask = match &offered {
            None => must_ask,
            Some(access) => {
                opened.extend(access);
                standing = Some(RuleSubject::SandboxAccess(Box::new(access.clone())));
                alternative = command::shortest_commands(line, &here).map(|commands| {
                    RuleSubject::CommandAccess { commands, access: Box::new(access.clone()) }
                });
                shown.push_str(&format!(
                    "\nThe sandbox withheld this before; it would let the command {access}."
                ));
                let text = format!("the sandbox does not let commands {access}, and the task has needed it");
                Some(Reason { rule: "sandbox", text })
            }
        };
        opened.sort();
        let own_hosts: Vec<String> =
            opened.hosts.iter().filter(|host| !shared_hosts.contains(host)).cloned().collect();
        let network = network
            .with_granted(&shared_hosts)
            .and_then(|network| network.with_own(&own_hosts))
            .map_err(|error| Refusal::forbidden(RefusalRule::Rules, format!("No command runs: {error}.")))?;
        let policy_context = standing::opened(self.policy_context(), &opened);
        policy_context.bounds.make_trace_directory(&policy_context).await;
        let confined = policy_context.bounds.of(&policy_context, call_context, grant.as_ref(), network).await;
        // Fail closed: what can't be looked at may hold what a command must not see.
        let confined = confined.map_err(|error| {
            let text = format!("The workspace can't be read, so no command runs: {error}. Ask the user.");
            Refusal::forbidden(RefusalRule::Sandbox, text)
        })?;
        let unsaved = self.workspace().dirty_documents().await;
        if !unsaved.is_empty() {
            shown.push_str("\nUnsaved; save it now if the command should see it:");
            unsaved.iter().for_each(|document| shown.push_str(&format!("\n  {}", document.path)));
        }
        // Fail closed: what nobody keeps track of can't be undone, nor told of in the trace.
        let watch = policy_context
            .bounds
            .watch(&policy_context, call_context, grant.as_ref(), confined.as_ref())
            .await;
        let watch = watch.map_err(|error| {
            let text = format!("Changes by commands can't be tracked, so none runs: {error}. Ask the user.");
            Refusal::forbidden(RefusalRule::Sandbox, text)
        })?;
        Ok(CallAssessment {
            identity: json!({
                "tool": "execute_command",
                "command": line,
                "directory": place,
                "timeout": execute.timeout,
                "network": execute.network,
                "sandbox": level,
                // What it may write is a part of what is allowed.
                "grants": confined.as_ref().map(|confined| &confined.confinement.writable),
                // The same whether it is offered or has been granted meanwhile.
                "opened": opened,
                // What the user allows is what these hold now.
                "scripts": self.scripts(&summary),
            }),
            title: format!("Run {}", render::one_line(line, TITLE)),
            subject: render::visible(&shown).into_owned(),
            must_ask,
            undecided,
            allowed_by,
            standing,
            alternative,
            plan: Plan::Nothing,
            action: Some(Box::new(Execute {
                command: execute.command,
                parts,
                directory,
                timeout: execute.timeout.map(Duration::from_secs),
                confined: confined.map(Box::new),
                watch: watch.map(Box::new),
            })),
        })
    }

    /// The scripts of the workspace that a command runs, with what they hold: in the editor where they are open,
    /// so that saving one, as is advised, makes it no other.
    fn scripts(&self, summary: &Summary) -> Vec<(String, Option<Digest>)> {
        let held = |path: &String| {
            let place = self.workspace().resolve(path, Purpose::Read).ok()?;
            if let Some(open) = self.workspace().documents().at(place.absolute()) {
                return Some(Digest::of(&*open.text));
            }
            Some(Digest::of(read_disk(&place, SCRIPT).ok()?))
        };
        summary.paths.iter().map(|path| (path.clone(), held(path))).collect()
    }
}

/// Says how far an approval goes where a command runs files of the workspace.
fn tell_pinned(shown: &mut String, scripts: &[String]) {
    if scripts.is_empty() {
        return;
    }
    let scripts: Vec<String> = scripts.iter().map(|path| render::exact_line(path)).collect();
    shown.push_str(&format!(
        "\nAn approval counts for what is in these files now: {}. It doesn't cover what they load or run in their turn \
         (imports, included files, build scripts), which may still change.",
        scripts.join(", ")
    ));
}

/// Says what trust in the workspace's folder means.
fn tell_trust(shown: &mut String, brings: &[String]) {
    shown.push_str(
        "\nTrusting this folder lets what it brings steer agents: modes, rules, prompts, commands, skills. ",
    );
    if brings.is_empty() {
        shown.push_str("It brings nothing of that kind now.");
    } else {
        let brings: Vec<String> = brings.iter().map(|path| render::exact_line(path)).collect();
        shown.push_str(&format!("It brings {}.", brings.join(", ")));
    }
    shown.push_str(
        " Hooks, and modes that may do more than yours, still wait for an approval of their own. \
         `roo-lsp trust --revoke` revokes it.",
    );
}

/// The settings that allow a command.
fn told(by: &[AllowedBy]) -> String {
    let rules: Vec<String> = by
        .iter()
        .filter_map(|by| match by {
            AllowedBy::Rule(words) => Some(words.join(" ")),
            AllowedBy::Preset(_) => None,
        })
        .collect();
    let presets: Vec<&str> = by
        .iter()
        .filter_map(|by| match by {
            AllowedBy::Preset(name) => Some(*name),
            AllowedBy::Rule(_) => None,
        })
        .collect();
    let parts = [("allow", rules.join(", ")), ("presets", presets.join(", "))];
    let parts = parts.iter().filter(|(_, named)| !named.is_empty());
    let parts: Vec<String> = parts.map(|(key, named)| format!("autoApprove.execute.{key} {named}")).collect();
    parts.join(", ")
}

/// Lists what a line does, where it does more than it says at a glance.
fn tell_steps(shown: &mut String, line: &str, summary: &Summary) {
    let plain = summary.steps.len() == 1
        && summary.notes.is_empty()
        && summary.steps.iter().all(|step| step.redirects.is_empty() && step.text == line);
    if !plain {
        shown.push_str("\nWhat it does:");
        summary.lines().iter().for_each(|step| shown.push_str(&format!("\n  {step}")));
    }
    if !summary.needs_attention.is_empty() {
        shown.push_str("\nIt holds characters that hide or reorder text; they are shown as <U+…>.");
    }
}
