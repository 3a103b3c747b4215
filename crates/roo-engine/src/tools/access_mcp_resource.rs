//! `access_mcp_resource`. Asked as a call of a server's tool is: what a server does when it is read, nobody can bound.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;

use super::server_call;
use crate::policy::{
    Action, AskReason, AskRule, CallAssessment, CheckedCall, Gate, NamedAllowRule, Permitted, Plan, Refusal,
    RefusalRule, TITLE, Tool, ToolCallContext, require_intent_for_server,
};
use crate::server_tools::ServerTools;
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::{AccessMcpResource, Object};
use roo_text::render;

/// Method by which servers are asked, as the trace names the call.
const METHOD: &str = "resources/read";

/// Reads a resource.
#[derive(Debug)]
struct Read {
    servers: Arc<dyn ServerTools>,
    resource: AccessMcpResource,
}

impl Tool for AccessMcpResource {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let mode = call_context.mode;
        mode.permits_server(&self.server).map_err(|error| Refusal::mistake(RefusalRule::Mode, error))?;
        require_intent_for_server(gate.policy_context(), call_context, &self.server, None)?;
        let servers = gate.server_tools();
        servers.refreshed().await;
        gate.started(&self.server).await;
        let offering = servers.resources().into_iter().map(|server| server.server);
        let offering: Vec<String> = offering.filter(|server| mode.permits_server(server).is_ok()).collect();
        if !offering.contains(&self.server) {
            let known = match offering.is_empty() {
                true => "no server offers any now".to_owned(),
                false => format!("these do: {}", offering.join(", ")),
            };
            return Err(Refusal::mistake(
                RefusalRule::Tool,
                format!("The server '{}' offers no resources; {known}.", self.server),
            ));
        }
        let must_ask =
            gate.hold_secret(vec![self.uri.clone(), decoded(&self.uri).into_owned()]).await.then(|| {
                AskReason {
                    rule: AskRule::Server,
                    text: "its address holds what looks like a secret, which the server would get".to_owned(),
                }
            });
        let title = format!("Read {} from the server {}", self.uri, self.server);
        let allowed_by = gate.settings().auto_approve.mcp.then(|| NamedAllowRule::Mcp.into());
        Ok(CheckedCall::from(CallAssessment {
            identity: json!({ "server": self.server, "resource": self.uri }),
            title: render::one_line(&title, TITLE),
            subject: render::visible(&self.uri).into_owned(),
            must_ask,
            undecided: Some(server_call::unknown_effects()),
            allowed_by,
            standing: None,
            alternative: None,
            plan: Plan::Nothing,
            action: Some(Box::new(Read { servers: Arc::clone(servers), resource: self })),
        }))
    }
}

/// An address without its percent-encoding, as a server reads it.
fn decoded(uri: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(uri).decode_utf8_lossy()
}

impl Action for Read {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let AccessMcpResource { server, uri } = &self.resource;
            let arguments = Object::from_iter([("uri".to_owned(), uri.clone().into())]);
            let made = server_call::recorded(format!("{server}/{METHOD}"), &arguments);
            if let Err(error) = server_call::started(&*self.servers, server, context).await {
                return server_call::outcome(Err(error), made, uri, context).await;
            }
            let read = self.servers.read_resource(server, uri, &context.cancel, &*context.caller).await;
            server_call::outcome(read, made, &format!("{uri} of {server}"), context).await
        })
    }
}
