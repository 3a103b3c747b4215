//! `use_mcp_tool`. A tool of a server that is called by its own name is judged as this one.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;

use super::{Outcome, ToolContext};
use crate::policy::{
    Action, CallAssessment, Checked, Gate, Permitted, Plan, Reason, Refusal, RefusalRule, TITLE, Tool,
    ToolCallContext, require_intent,
};
use crate::server_tools::{ServerToolError, ServerTools};
use roo_catalog::{Annotations, Object, ServerTool, ToolId, UseMcpTool};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;
use roo_text::render;
use roo_trace::record::ServerCall;

/// Has a server do something.
#[derive(Debug)]
struct CallServer {
    servers: Arc<dyn ServerTools>,
    /// As it was judged.
    tool: ServerTool,
    arguments: Object,
}

impl Tool for UseMcpTool {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<Checked, Refusal> {
        let Some(tool) = gate.server_tool(&self.tool.to_string()) else {
            return Err(Refusal::mistake(RefusalRule::Tool, ServerToolError::Gone(self.tool)));
        };
        judge(gate, call_context, &tool, self.arguments).map(Checked::from)
    }
}

/// Judges a call of a server's tool. What the server does with it nobody can bound, so the approval holds for these
/// arguments and for the tool as it is described now. What the server says of the tool can only add to what is asked.
fn judge(
    gate: &Gate,
    call_context: ToolCallContext<'_>,
    tool: &ServerTool,
    arguments: Object,
) -> Result<CallAssessment, Refusal> {
    let name = tool.name();
    call_context
        .mode
        .permits_server_tool(name)
        .map_err(|error| Refusal::mistake(RefusalRule::Mode, error))?;
    if !call_context.tools.has(ToolId::Server(name.clone())) {
        return Err(Refusal::mistake(RefusalRule::Mode, format!("The tool {name} is not one of yours.")));
    }
    require_intent(gate, call_context)?;
    let title = format!("Call {} of the server {}", name.tool(), name.server());
    let servers = gate.server_tools();
    let why = if servers.has_changed(tool) {
        Some("its server describes it differently than when you last allowed it")
    } else if tool.annotations().destructive == Some(true) {
        Some("its server says that it may destroy something")
    } else {
        None
    };
    let must_ask = why.map(|text| Reason { rule: RefusalRule::Server.as_str(), text: text.to_owned() });
    let allowed_by = match gate.settings().auto_approve.mcp {
        true => Some("autoApprove.mcp".to_owned()),
        false => servers.always_allows(name).then(|| "alwaysAllow of mcp.json".to_owned()),
    };
    let mut shown = format!("{:#}", json!(arguments));
    let claims = claims(tool);
    if !claims.is_empty() {
        shown.push_str(&format!("\n\nThe server claims, which nobody has checked: {}.", claims.join(", ")));
    }
    Ok(CallAssessment {
        identity: json!({
            "tool": name.to_string(),
            "described": tool.digest(),
            "arguments": arguments,
        }),
        title: render::one_line(&title, TITLE),
        subject: render::visible(&shown).into_owned(),
        must_ask,
        undecided: Some(Reason {
            rule: RefusalRule::Server.as_str(),
            text: "what a server does is not known before it is asked".to_owned(),
        }),
        allowed_by,
        standing: None,
        alternative: None,
        plan: Plan::Nothing,
        action: Some(Box::new(CallServer {
            servers: Arc::clone(gate.server_tools()),
            tool: tool.clone(),
            arguments,
        })),
    })
}

/// What a server says of its tool's effects.
fn claims(tool: &ServerTool) -> Vec<&'static str> {
    let Annotations { read_only, destructive, idempotent, open_world, .. } = tool.annotations();
    let claims = [
        (read_only, "it changes nothing", "it changes something"),
        (destructive, "it may destroy something", "it destroys nothing"),
        (idempotent, "a second call changes nothing more", "a second call has effects of its own"),
        (open_world, "it reaches other systems", "it reaches no other systems"),
    ];
    claims.into_iter().filter_map(|(claim, yes, no)| claim.map(|is| if is { yes } else { no })).collect()
}

impl Action for CallServer {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let name = self.tool.name().clone();
            let now = self.servers.find(&name.to_string());
            if now.is_some_and(|now| now.digest() != self.tool.digest()) {
                return Outcome::failed(format!(
                    "The server has just described {name} anew. Nothing was done: look at the tool, and call it again."
                ));
            }
            self.servers.keep_description(&self.tool).await;
            let arguments = Digest::of(json!(self.arguments).to_string());
            let made = ServerCall { tool: name.to_string(), arguments };
            let answered = self.servers.call(&name, self.arguments, &context.cancel).await;
            // Of what was not reached there is nothing to record.
            let server_call = match &answered {
                Err(ServerToolError::Gone(_) | ServerToolError::Unreachable { .. }) => None,
                _ => Some(made),
            };
            let outcome = match answered {
                Ok(answer) => {
                    let (status, what) = match answer.failed {
                        true => (ToolStatus::Failed, "failed"),
                        false => (ToolStatus::Ok, "answered"),
                    };
                    let text = context.mask().masked(&answer.text).unwrap_or(answer.text);
                    let summary = format!("{name} {what}");
                    Outcome { images: answer.images, ..Outcome::new(status, text, summary) }
                }
                Err(error @ ServerToolError::Cancelled(_)) => Outcome::interrupted(error.to_string()),
                Err(error) => Outcome::failed(error.to_string()),
            };
            Outcome { server_call, ..outcome }
        })
    }
}
