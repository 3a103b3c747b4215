//! Pages that a task's browser may open: those of the request's own servers freely, and others as the user allows their
//! host.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::action::Action;
use super::context::ToolCallContext;
use super::decision::{AskReason, CallAssessment, CheckedCall, Refusal, TITLE};
use super::gate::Gate;
use super::intent;
use super::plan::Plan;
use super::rule::{AskRule, NamedAllowRule, RefusalRule};
use super::standing::SandboxGrants;
use super::task_network::NetworkRules;
use roo_browser::{WebHost, find_program};
use roo_protocol::rule::RuleSubject;
use roo_text::render;

/// A page that a call would open.
pub(crate) struct PageRequest<'a> {
    /// What the call does there, in one word.
    pub(crate) verb: &'a str,
    pub(crate) url: &'a str,
    pub(crate) host: &'a WebHost,
}

impl Gate {
    /// Returns the program of the browser. Reads the disk.
    ///
    /// # Errors
    /// There is none, or the settings want none, without a full stop.
    pub(crate) fn browser_program(&self) -> Result<PathBuf, String> {
        let settings = &self.settings().browser;
        if !settings.enabled {
            return Err("the setting browser.enabled is off".to_owned());
        }
        let folders: Vec<PathBuf> = self.workspace().roots().paths().map(Path::to_path_buf).collect();
        let search = std::env::var_os("PATH").unwrap_or_default();
        find_program(settings.program.as_deref(), &search, &folders)
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

    /// Assesses a call that opens a page.
    pub(crate) fn open_page(
        &self,
        call_context: ToolCallContext<'_>,
        request: PageRequest<'_>,
        action: Box<dyn Action>,
    ) -> Result<CheckedCall, Refusal> {
        let PageRequest { verb, url, host } = request;
        let is_own =
            |port: u16| call_context.commands.is_some_and(|commands| commands.serving(port).is_some());
        if host.is_loopback() && host.ports().into_iter().any(is_own) {
            return Ok(CheckedCall::Free {
                rule: NamedAllowRule::Background,
                reason: "a command that the request has started itself serves the page",
                action: Some(action),
            });
        }
        let is_open = |browser: &roo_browser::TaskBrowser| {
            browser.current().is_some_and(|browser| browser.is_open() && browser.destinations().allows(host))
        };
        if verb != "launch" && call_context.browser.is_some_and(is_open) {
            return Ok(CheckedCall::Free {
                rule: NamedAllowRule::Browser,
                reason: "the user has allowed the browser this host",
                action: Some(action),
            });
        }
        if !self.browser_network(call_context)?.permits_page_host(host) {
            let text = format!(
                "The intent that you work for does not allow the network access to {host}. Open a page that it allows, \
                 or ask the user."
            );
            return Err(Refusal::mistake(RefusalRule::Network, text));
        }
        let mut shown = url.to_owned();
        if host.is_loopback() {
            shown.push_str(
                "\n\nThis is a program on your machine that no command of this request serves. What the browser does \
                 there, it does to that program.",
            );
        }
        Ok(CallAssessment {
            identity: json!({ "tool": "browser_action", "action": verb, "url": url }),
            title: render::one_line(&format!("Open {host} in the browser"), TITLE),
            subject: render::visible(&shown).into_owned(),
            must_ask: None,
            undecided: Some(AskReason {
                rule: AskRule::Network,
                text: format!("the browser would open pages of {host}"),
            }),
            allowed_by: self.settings().auto_approve.browser.then(|| NamedAllowRule::BrowserSetting.into()),
            standing: Some(RuleSubject::BrowserPages { host: host.to_string() }),
            alternative: None,
            plan: Plan::Nothing,
            action: Some(action),
        }
        .into())
    }
}
