//! Pages that a task's browser may open: those of the request's own servers freely, and others as the user allows their
//! host.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::browser_sandbox::is_served;
use super::context::ToolCallContext;
use super::decision::{AskReason, CallAssessment, CheckedCall, Refusal, TITLE};
use super::gate::Action;
use super::gate::Gate;
use super::intent;
use super::plan::Plan;
use super::rule::{AskRule, NamedAllowRule, RefusalRule};
use super::standing::SandboxGrants;
use super::task_network::{NetworkRules, destinations, with_page_host};
use crate::tool_run::TaskBrowser;
use roo_browser::{WebHost, find_program};
use roo_catalog::BrowserStep;
use roo_protocol::rule::RuleSubject;
use roo_sandbox::egress::{AddressClass, is_this_machine};
use roo_text::render;

/// A page that a call would open.
pub(crate) struct PageRequest<'a> {
    /// The step that opens it.
    pub(crate) step: &'a BrowserStep,
    pub(crate) url: &'a str,
    pub(crate) host: &'a WebHost,
}

/// Hosts that a browser reaches from the call on that opens a page.
pub(crate) struct PageGrant {
    /// The page's host, which its user allows for as long as the browser runs; none for what the request's own commands
    /// serve, since the port may be another program's once they have ended.
    pub(crate) allowed: Option<WebHost>,
    /// The others.
    pub(crate) rules: NetworkRules,
}

impl Gate {
    /// Returns the program of the browser. Reads the disk.
    ///
    /// # Errors
    /// There is none, or the settings want none, without a full stop.
    pub(crate) fn browser_program(&self) -> Result<PathBuf, String> {
        self.browser_search()?()
    }

    /// Returns the same, found on a thread that may block.
    ///
    /// # Errors
    /// As for [`Self::browser_program`].
    pub(crate) async fn find_browser_program(&self) -> Result<PathBuf, String> {
        let search = self.browser_search()?;
        // There is no such thread any more where the program ends.
        roo_durable::spawn_blocking(search).await.unwrap_or_else(|_| self.browser_program())
    }

    fn browser_search(&self) -> Result<impl FnOnce() -> Result<PathBuf, String> + Send + use<>, String> {
        let settings = &self.settings().browser;
        if !settings.enabled {
            return Err("the setting browser.enabled is off".to_owned());
        }
        let folders: Vec<PathBuf> = self.workspace().roots().paths().map(Path::to_path_buf).collect();
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let wanted = settings.program.clone();
        Ok(move || find_program(wanted.as_deref(), &search_path, &folders))
    }

    /// Returns the hosts that a browser reaches besides those that its user allows for it: those of commands.
    pub(crate) fn browser_network(&self, call_context: ToolCallContext<'_>) -> Result<NetworkRules, Refusal> {
        let grant = intent::grant(self.policy_context(), call_context)
            .map_err(|error| intent::refuse(&error, call_context.intent))?;
        let intents = grant.as_ref().map(|grant| grant.intents.as_slice()).unwrap_or_default();
        let unusable = |error| Refusal::forbidden(RefusalRule::SandboxNetwork, error);
        let rules = NetworkRules::new(&self.settings().sandbox.network, intents, false).map_err(unusable)?;
        let grants = SandboxGrants::from_rules(self.policy_context())?;
        rules.with_granted(&grants.allowed.hosts).map_err(unusable)
    }

    /// Assesses a call that opens a page. `action` makes what is done where it may be opened.
    pub(crate) async fn open_page(
        &self,
        call_context: ToolCallContext<'_>,
        request: PageRequest<'_>,
        action: impl FnOnce(PageGrant) -> Box<dyn Action> + Send,
    ) -> Result<CheckedCall, Refusal> {
        let PageRequest { step, url, host } = request;
        let rules = self.browser_network(call_context)?;
        if let Some(commands) = call_context.commands
            && is_served(commands, host).await
        {
            return Ok(CheckedCall::Free {
                rule: NamedAllowRule::Background,
                reason: "a command that the request has started itself serves the page",
                action: Some(action(PageGrant { allowed: None, rules })),
            });
        }
        let Reachable { class, is_named } = check_host(host, &rules)?;
        let is_open = |browser: &TaskBrowser| {
            browser.current().is_some_and(|browser| browser.is_open() && browser.destinations().allows(host))
        };
        let action = action(PageGrant { allowed: Some(host.clone()), rules });
        let is_launch = matches!(step, BrowserStep::Launch { .. });
        if !is_launch && call_context.browser.is_some_and(is_open) {
            return Ok(CheckedCall::Free {
                rule: NamedAllowRule::Browser,
                reason: "the user has allowed the browser this host",
                action: Some(action),
            });
        }
        let mut shown = url.to_owned();
        if matches!(class, Some(AddressClass::Loopback | AddressClass::ThisMachine)) {
            shown.push_str(
                "\n\nThis is a program on your machine that no command of this request serves. What the browser does \
                 there, it does to that program.",
            );
        }
        Ok(CallAssessment {
            identity: json!({ "tool": "browser_action", "action": step.name(), "url": url }),
            title: render::one_line(&format!("Open {host} in the browser"), TITLE),
            subject: render::visible(&shown).into_owned(),
            must_ask: None,
            undecided: Some(AskReason {
                rule: AskRule::Network,
                text: match class {
                    Some(class) => format!("the browser would open pages of {host}, which is {class}"),
                    None => format!("the browser would open pages of {host}"),
                },
            }),
            // The setting is about public hosts. Others are opened by a rule that names them or an answer about just that one.
            allowed_by: (self.settings().auto_approve.browser && (class.is_none() || is_named))
                .then(|| NamedAllowRule::BrowserSetting.into()),
            standing: Some(RuleSubject::BrowserPages { host: host.to_string() }),
            alternative: None,
            plan: Plan::Nothing,
            action: Some(action),
        }
        .into())
    }
}

/// A host whose pages a browser reaches if its user lets it.
struct Reachable {
    /// Its class; none for a public one, as far as that can be told without resolving its name.
    class: Option<AddressClass>,
    /// Whether the rules of commands name it already.
    is_named: bool,
}

/// Checks whether a browser by these rules reaches the pages of a host if its user lets it.
fn check_host(host: &WebHost, rules: &NetworkRules) -> Result<Reachable, Refusal> {
    let no_host = |error| Refusal::mistake(RefusalRule::Network, format!("{host} can't be opened: {error}."));
    let destinations = destinations(host).map_err(no_host)?;
    let opened = with_page_host(rules.hosts().clone(), host).map_err(no_host)?;
    let mut reasons = Vec::new();
    for destination in &destinations {
        match opened.check(destination) {
            Ok(_) => {
                let is_own = |address| is_this_machine(address).then_some(AddressClass::ThisMachine);
                let class = destination.closed_class().or_else(|| destination.address().and_then(is_own));
                let is_named = destinations.iter().all(|at| rules.hosts().check(at).is_ok());
                return Ok(Reachable { class, is_named });
            }
            Err(reason) => reasons.push(reason),
        }
    }
    let text = match reasons.first().filter(|_| rules.may_be_granted()) {
        Some(reason) => format!(
            "{host} can't be opened: {reason}. Only the user can open it, by naming it in the setting sandbox.network."
        ),
        None => format!(
            "The intent that you work for does not allow the network access to {host}. Open a page that it allows, or ask \
             the user."
        ),
    };
    Err(Refusal::mistake(RefusalRule::Network, text))
}
