//! `execute_command`: what a command line would do, and whether it may without asking.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::action::{CommandSession, Execute, Native};
use super::bounds::BoundsRequest;
use super::command::{self, AllowedBy, CommandVerdict, Summary};
use super::command_place::CommandPlace;
use super::confined::Confined;
use super::confined_commands::{self, ConfinedPolicy, Leaving};
use super::context::{PolicyContext, ToolCallContext};
use super::decision::{AskReason, CallAssessment, Refusal};
use super::gate::Gate;
use super::grant::Grant;
use super::intent;
use super::place_check::Access;
use super::plan::Plan;
use super::rule::{AllowRule, AskRule, CommandRules, RefusalRule};
use super::standing::{self, SandboxGrants};
use super::task_network::NetworkRules;
use super::watch::Watch;
use roo_catalog::ExecuteCommand;
use roo_formats::config::{Execute as ExecuteRules, ExecuteMode, RunContext};
use roo_formats::intents::Intent;
use roo_formats::modes;
use roo_protocol::ids::{Digest, Urid};
use roo_protocol::rule::{RuleSubject, RuleVerdict, SandboxAccess, TRUST_EXPLANATION};
use roo_sandbox::exec::sandbox::Confinement;
use roo_text::render;
use roo_workspace::{Location, Purpose, Resolved, read_disk};

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

    /// Assesses a command: what it would do, and what policy says of that.
    pub(crate) async fn execute(
        &self,
        call_context: ToolCallContext<'_>,
        execute: ExecuteCommand,
    ) -> Result<CallAssessment, Refusal> {
        let line = execute.command.as_str();
        let directory = self.resolve(execute.cwd.as_deref().unwrap_or("."), Purpose::Directory)?;
        let must_ask = self.examine(call_context, &directory, Access::Run)?;
        let sandbox = self.command_sandbox().await?;
        let grant = self.command_grant(call_context, execute.network)?;
        let network = self.command_network(grant.as_ref(), execute.network)?;
        let must_ask = must_ask
            .or_else(|| sandbox.asks())
            .or_else(|| confined_commands::asks_always(self.policy_context(), grant.as_ref()));
        let mut consent = Consent { must_ask, ..Consent::default() };
        let grants = SandboxGrants::from_rules(self.policy_context())?;
        consent.apply_network_answer(execute.network, grants.network)?;
        let rules = standing::commands(self.policy_context())?;
        let search = std::env::var_os("PATH").unwrap_or_default();
        let finder = self.policy_context().bounds.finder(self.workspace()).await;
        let here = CommandPlace::new(self.policy_context(), call_context, &directory, search, finder)
            .concealed(sandbox.holds_within_grants)
            .with(Arc::clone(self.repositories()));
        self.apply_command_rules(&rules, line, &here, &mut consent)?;
        let named = match sandbox.holds_within_grants {
            true => self.apply_confined_policy(call_context, &directory, &execute, &here, &mut consent)?,
            false => SandboxAccess::default(),
        };

        let summary = command::summarize(line, &here);
        let parts = self.independent_parts(line);
        let mut shown = describe(line, &directory, &summary, &parts);
        if execute.pty {
            shown.push_str("\nIt runs in a terminal, where the model can type; what it types asks too, unless commands run \
                            unasked in this sandbox.");
        }
        describe_sandbox(&mut shown, execute.network.then_some(&network), &sandbox, &consent);
        let shared_hosts = grants.allowed.hosts.clone();
        let mut shared = grants.allowed.clone();
        shared.sort();
        let grants = grants.for_line(|commands| command::consists_of(commands, line, &here));
        // A question is asked about one thing: what else asks comes first.
        let offered = grants.offered(call_context, line, &named).filter(|_| consent.must_ask.is_none());
        let mut opened = grants.allowed;
        if let Some(access) = offered {
            let why = match named.is_empty() {
                true => "withheld this before",
                false => "hides what the line names",
            };
            shown.push_str(&format!("\nThe sandbox {why}; it would let the command {access}."));
            opened.extend(&access);
            let why = if named.is_empty() { "but the task needed it" } else { "and the line names it" };
            consent.offer_access(access, why, command::shortest_commands(line, &here));
        }
        opened.sort();
        let is_held = sandbox.holds_within_grants && !execute.network && opened == shared;
        let held = is_held.then(|| self.bounds_of(grant.as_ref()));

        let network = granted_network(network, &opened.hosts, &shared_hosts)?;
        // What is judged at the end of a command would be open for as long as one in the background runs.
        let changes_work_tree = command::changes_work_tree(line) && !execute.background;
        let (confined, watch) =
            self.command_bounds(call_context, grant.as_ref(), (&opened, changes_work_tree), network).await?;
        if let Some(confined) = &confined {
            consent.tell_changeable(&confined.confinement);
        }
        let unsaved = self.workspace().dirty_documents().await;
        if !unsaved.is_empty() {
            shown.push_str("\nUnsaved; save it now if the command should see it:");
            unsaved.iter().for_each(|document| shown.push_str(&format!("\n  {}", document.path)));
        }
        Ok(CallAssessment {
            identity: json!({
                "tool": "execute_command",
                "command": line,
                "directory": directory.display(),
                "timeout": execute.timeout,
                "network": execute.network,
                "background": execute.background,
                "pty": execute.pty,
                "sandbox": sandbox.level,
                // What it may write is a part of what is allowed.
                "grants": confined.as_ref().map(|confined| &confined.confinement.writable),
                // The same whether it is offered or has been granted meanwhile.
                "opened": opened,
                // What the user allows is what these hold now.
                "scripts": self.scripts(&summary),
            }),
            title: format!("Run {}", render::one_line(line, TITLE)),
            subject: render::visible(&shown).into_owned(),
            must_ask: consent.must_ask,
            undecided: consent.undecided,
            allowed_by: consent.allowed_by,
            standing: consent.standing,
            alternative: consent.alternative,
            plan: Plan::Nothing,
            action: Some(Box::new(Execute {
                command: execute.command,
                parts,
                directory,
                timeout: execute.timeout.map(Duration::from_secs),
                session: CommandSession { background: execute.background, pty: execute.pty, held },
                confined: confined.map(Box::new),
                watch: watch.map(Box::new),
            })),
        })
    }

    /// Returns the sandbox that the settings want. Without it nothing runs.
    pub(super) async fn command_sandbox(&self) -> Result<CommandSandbox, Refusal> {
        let roots: Vec<_> = self.workspace().roots().paths().map(Path::to_path_buf).collect();
        let held = self.policy_context().bounds.check(self.settings().sandbox.level, &roots).await;
        let held = held.map_err(|error| Refusal::forbidden(RefusalRule::Sandbox, error))?;
        Ok(CommandSandbox {
            level: held.map_or_else(|| "none".to_owned(), |held| held.level.to_string()),
            is_missing: held.is_some_and(|held| held.probe.active.is_none()),
            holds_within_grants: held.is_some_and(|held| held.probe.holds_within_grants()),
        })
    }

    /// Returns the paths that the command's task may change, and refuses the network where an intent grants none.
    pub(super) fn command_grant(
        &self,
        call_context: ToolCallContext<'_>,
        wants_network: bool,
    ) -> Result<Option<Grant>, Refusal> {
        let grant = intent::grant(self.policy_context(), call_context)
            .map_err(|error| intent::refuse(&error, call_context.intent))?;
        let mut intents = grant.iter().flat_map(|grant| &grant.intents);
        match intents.find(|intent| intent.network.is_empty()) {
            Some(intent) if wants_network => {
                let text = format!("{} grants no network. Go on without it, or ask the user.", intent.id);
                Err(Refusal::mistake(RefusalRule::Network, text))
            }
            _ => Ok(grant),
        }
    }

    /// Identifies the bounds of a command that wants nothing of its own: the folders, and what its task's intents grant.
    pub(super) fn bounds_of(&self, grant: Option<&Grant>) -> Digest {
        let roots: Vec<_> = self.workspace().roots().paths().collect();
        let intents = grant.map(|grant| {
            let granted = |intent: &Intent| json!([intent.id, intent.owned_scope, intent.network]);
            grant.intents.iter().map(granted).collect::<Vec<_>>()
        });
        Digest::of(json!({ "folders": roots, "intents": intents }).to_string())
    }

    /// Returns the hosts that the command may reach, by the settings and its task's intents.
    fn command_network(&self, grant: Option<&Grant>, wants_network: bool) -> Result<NetworkRules, Refusal> {
        let intents = grant.map(|grant| grant.intents.as_slice()).unwrap_or_default();
        NetworkRules::new(&self.settings().sandbox.network, intents, wants_network).map_err(|error| {
            Refusal::forbidden(RefusalRule::SandboxNetwork, format!("No command runs: {error}."))
        })
    }

    /// Judges the line by the user's rules for commands.
    pub(super) fn apply_command_rules(
        &self,
        rules: &ExecuteRules,
        line: &str,
        here: &CommandPlace<'_>,
        consent: &mut Consent,
    ) -> Result<(), Refusal> {
        match command::judge(rules, line, here) {
            CommandVerdict::Allow { by } => {
                consent.allowed_by = Some(allow_rule(&by));
                Ok(())
            }
            CommandVerdict::Deny { rule } => {
                let text = format!(
                    "The user's settings forbid commands with `{}`. Don't try it in another form; find another \
                     way or ask.",
                    rule.join(" ")
                );
                Err(Refusal::forbidden(RefusalRule::Denied, text))
            }
            CommandVerdict::Destroys { what } => {
                let text = format!(
                    "The command {what}. No rule or answer can allow that. Name exactly what is to be changed."
                );
                Err(Refusal::forbidden(RefusalRule::Destructive, text))
            }
            CommandVerdict::Hidden { reason } => Err(Refusal::forbidden(RefusalRule::Rooignore, reason)),
            CommandVerdict::TooDeep => {
                let text = "The command is nested too deeply to be checked against what the user's settings \
                            forbid. Write it as separate, plain commands.";
                Err(Refusal::mistake(RefusalRule::Denied, text))
            }
            CommandVerdict::Ask { reason } => {
                let commands = || command::rules_for(rules, line, here);
                let standing = consent.standing.take();
                consent.standing = standing.or_else(|| Some(RuleSubject::Commands { commands: commands()? }));
                let project = self.workspace().roots().paths().next();
                let suggested = project.map(command::suggested_presets).unwrap_or_default();
                consent.alternative = command::preset_for(rules, &suggested, line, here).map(|preset| {
                    RuleSubject::Preset { preset: preset.name.to_owned(), about: preset.about.to_owned() }
                });
                consent.undecided = Some(AskReason { rule: AskRule::Command, text: reason });
                Ok(())
            }
        }
    }

    /// Applies the policy for commands that stay in the sandbox, where no rule and no question decides. Returns the hidden
    /// secrets that the line names, where it runs with or without them.
    fn apply_confined_policy(
        &self,
        call_context: ToolCallContext<'_>,
        directory: &Resolved,
        execute: &ExecuteCommand,
        here: &CommandPlace<'_>,
        consent: &mut Consent,
    ) -> Result<SandboxAccess, Refusal> {
        if consent.must_ask.is_some() || consent.allowed_by.is_some() {
            return Ok(SandboxAccess::default());
        }
        let confined = confined_commands::confined(self.policy_context(), call_context)?;
        // Where the user hasn't let commands run, a secret asks about the line.
        let here = matches!(confined, ConfinedPolicy::Run(_)).then_some(here);
        let (leaving, named) = self.leaves(call_context, directory, &execute.command, here);
        let named = if leaving.is_none() { named } else { SandboxAccess::default() };
        match (confined, leaving) {
            (ConfinedPolicy::Ask, _) => {}
            (ConfinedPolicy::Run(_), Some(Leaving::Fails { advice, .. })) => {
                return Err(Refusal::forbidden(RefusalRule::Sandbox, advice));
            }
            (_, Some(leaving)) => {
                consent.undecided = Some(AskReason { rule: AskRule::Command, text: leaving.into_reason() });
            }
            (ConfinedPolicy::Run(rule), None) => consent.allowed_by = Some(rule),
            // What is offered is said to reach no network.
            (ConfinedPolicy::Offer(_), None) if execute.network => {}
            (ConfinedPolicy::Offer(offer), None) => {
                consent.standing = Some(offer);
                let text = match self.settings().auto_approve.execute.mode {
                    Some(ExecuteMode::Confined) => {
                        "the user's settings let commands run in the sandbox without asking, but only in a trusted \
                         folder, and this one isn't"
                    }
                    _ => {
                        "commands of this project could run in the sandbox without asking: there they can write what \
                         the task may change, and reach no network"
                    }
                };
                // The user looks for the reason why the rules alone don't allow it.
                let text = match consent.undecided.take() {
                    Some(asked) if asked.rule == AskRule::Command => format!("{}; {text}", asked.text),
                    _ => text.to_owned(),
                };
                consent.undecided = Some(AskReason { rule: AskRule::Command, text });
            }
        }
        Ok(named)
    }

    /// Returns the parts of the system context's command; none of any other.
    fn independent_parts(&self, line: &str) -> Vec<String> {
        let context = &self.settings().system_context;
        match context.run == RunContext::Shell && command::is_context_command(line, &context.command) {
            true => command::independent_parts(line),
            false => vec![],
        }
    }

    /// Makes the bounds of the command, and the watch over what it changes. What can't be looked at may hold what a
    /// command must not see, and what nobody keeps track of can't be undone: then none runs.
    async fn command_bounds(
        &self,
        call_context: ToolCallContext<'_>,
        grant: Option<&Grant>,
        (opened, changes_work_tree): (&SandboxAccess, bool),
        network: NetworkRules,
    ) -> Result<(Option<Confined>, Option<Watch>), Refusal> {
        let policy_context = standing::opened(self.policy_context(), opened);
        let PolicyContext { workspace, settings, bounds, recorder, .. } = &policy_context;
        bounds.make_trace_directory(workspace, &settings.sandbox, recorder).await;
        let request =
            BoundsRequest { workspace, settings, urid: call_context.urid, grant, changes_work_tree };
        let confined = bounds.command(&request, network).await.map_err(|error| {
            let text = format!("The workspace can't be read, so no command runs: {error}. Ask the user.");
            Refusal::forbidden(RefusalRule::Sandbox, text)
        })?;
        let watch = bounds.watch(&request, recorder, confined.as_ref()).await.map_err(|error| {
            let text = format!("Changes by commands can't be tracked, so none runs: {error}. Ask the user.");
            Refusal::forbidden(RefusalRule::Sandbox, text)
        })?;
        Ok((confined, watch))
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

/// Sandbox in which a command is to run.
pub(super) struct CommandSandbox {
    /// Level, as users are shown it.
    pub(super) level: String,
    /// True if the machine has none, and the settings let commands run without.
    is_missing: bool,
    /// True if it holds what is protected or hidden within what a command may write.
    pub(super) holds_within_grants: bool,
}

impl CommandSandbox {
    pub(super) fn asks(&self) -> Option<AskReason> {
        self.is_missing.then(|| AskReason {
            rule: AskRule::Sandbox,
            text: "this machine has no sandbox, so the command could do all that you can".to_owned(),
        })
    }
}

/// Policy on a command, as far as its steps have come. The fields are those of [`CallAssessment`].
#[derive(Default)]
pub(super) struct Consent {
    must_ask: Option<AskReason>,
    undecided: Option<AskReason>,
    allowed_by: Option<AllowRule>,
    standing: Option<RuleSubject>,
    alternative: Option<RuleSubject>,
}

impl Consent {
    /// Applies the user's standing answer about the network to a command that wants to reach it.
    fn apply_network_answer(
        &mut self,
        wants_network: bool,
        answer: Option<RuleVerdict>,
    ) -> Result<(), Refusal> {
        match answer {
            _ if !wants_network => Ok(()),
            Some(RuleVerdict::Deny) => {
                let text = "The user has permanently refused commands the network. Go on without it, or ask.";
                Err(Refusal::forbidden(RefusalRule::Rules, text))
            }
            None if self.must_ask.is_none() => {
                self.standing = Some(RuleSubject::Network);
                let text = "it wants to reach the network".to_owned();
                self.must_ask = Some(AskReason { rule: AskRule::Network, text });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Asks about access that the sandbox withheld, for all commands or for those of this line.
    fn offer_access(&mut self, access: SandboxAccess, why: &str, commands: Option<Vec<Vec<String>>>) {
        let text = format!("the sandbox does not let commands {access}, {why}");
        self.must_ask = Some(AskReason { rule: AskRule::Sandbox, text });
        self.alternative = commands
            .map(|commands| RuleSubject::CommandAccess { commands, access: Box::new(access.clone()) });
        self.standing = Some(RuleSubject::SandboxAccess(Box::new(access)));
    }

    /// Says what of the files that are offered the command could change as well, as it may write where they are.
    fn tell_changeable(&mut self, confinement: &Confinement) {
        let (Some(asked), Some(RuleSubject::SandboxAccess(access))) = (&mut self.must_ask, &self.standing)
        else {
            return;
        };
        let is_below =
            |path: &str, places: &[PathBuf]| places.iter().any(|place| Path::new(path).starts_with(place));
        let is_changeable =
            |path: &&String| is_below(path, &confinement.writable) && !is_below(path, &confinement.read_only);
        let changeable: Vec<String> =
            access.readable.iter().filter(is_changeable).map(|path| format!("`{path}`")).collect();
        if !changeable.is_empty() {
            asked.text.push_str(&format!("; it could change {} too", changeable.join(", ")));
        }
    }
}

/// Returns the hosts that the command may reach with those that the user has granted: to all commands of the request, and
/// to this one.
fn granted_network(
    network: NetworkRules,
    granted: &[String],
    shared: &[String],
) -> Result<NetworkRules, Refusal> {
    let own: Vec<String> = granted.iter().filter(|host| !shared.contains(host)).cloned().collect();
    network
        .with_granted(shared)
        .and_then(|network| network.with_own(&own))
        .map_err(|error| Refusal::forbidden(RefusalRule::Rules, format!("No command runs: {error}.")))
}

/// Describes a command to whoever is asked about it: what it does, and what an approval covers.
fn describe(line: &str, directory: &Resolved, summary: &Summary, parts: &[String]) -> String {
    let mut shown = format!("{line}\n(in {})", directory.display());
    describe_steps(&mut shown, line, summary);
    describe_pinned_scripts(&mut shown, &summary.paths);
    if !parts.is_empty() {
        shown.push_str("\nEach part runs by itself, also where one before it fails.");
    }
    shown
}

/// Describes where a command is going to run: with this network, if it wants any, and in this sandbox.
fn describe_sandbox(
    shown: &mut String,
    network: Option<&NetworkRules>,
    sandbox: &CommandSandbox,
    consent: &Consent,
) {
    if let Some(network) = network {
        shown.push_str(&format!("\nIt may reach the network: {}.", network.shown.join(", ")));
    }
    shown.push_str(&format!("\nSandbox: {}", sandbox.level));
    if let Some(RuleSubject::TrustAndConfinedCommands { brings }) = &consent.standing {
        describe_trust(shown, brings);
    }
}

/// Says how far an approval goes where a command runs files of the workspace.
fn describe_pinned_scripts(shown: &mut String, scripts: &[String]) {
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
fn describe_trust(shown: &mut String, brings: &[String]) {
    shown.push_str(&format!("\n{TRUST_EXPLANATION}: modes, rules, prompts, commands, skills. "));
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

/// Returns the rule of an allowed command: the settings that allow it.
fn allow_rule(by: &[AllowedBy]) -> AllowRule {
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
    AllowRule::Commands(CommandRules::new(&rules, &presets))
}

/// Lists what a line does, where it does more than it says at a glance.
fn describe_steps(shown: &mut String, line: &str, summary: &Summary) {
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
