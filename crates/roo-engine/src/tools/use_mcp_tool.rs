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
use roo_catalog::{Object, ServerTool, ServerToolName, ToolId, UseMcpTool};
use roo_protocol::event::ToolStatus;
use roo_text::render;

/// Has a server do something.
#[derive(Debug)]
struct CallServer {
    servers: Arc<dyn ServerTools>,
    tool: ServerToolName,
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
    let must_ask = (tool.annotations().destructive == Some(true)).then(|| Reason {
        rule: RefusalRule::Server.as_str(),
        text: "its server says that it may destroy something".to_owned(),
    });
    let shown = format!("{:#}", json!(arguments));
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
        allowed_by: gate.settings().auto_approve.mcp.then(|| "autoApprove.mcp".to_owned()),
        standing: None,
        alternative: None,
        plan: Plan::Nothing,
        action: Some(Box::new(CallServer {
            servers: Arc::clone(gate.server_tools()),
            tool: name.clone(),
            arguments,
        })),
    })
}

impl Action for CallServer {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match self.servers.call(&self.tool, self.arguments, &context.cancel).await {
                Ok(answer) => {
                    let (status, what) = match answer.failed {
                        true => (ToolStatus::Failed, "failed"),
                        false => (ToolStatus::Ok, "answered"),
                    };
                    let text = context.mask().masked(&answer.text).unwrap_or(answer.text);
                    let summary = format!("{} {what}", self.tool);
                    Outcome { images: answer.images, ..Outcome::new(status, text, summary) }
                }
                Err(error @ ServerToolError::Cancelled(_)) => Outcome::interrupted(error.to_string()),
                Err(error) => Outcome::failed(error.to_string()),
            }
        })
    }
}
