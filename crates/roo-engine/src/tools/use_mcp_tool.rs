//! `use_mcp_tool`. A tool of a server that is called by its own name is judged as this one.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::server_call;
use crate::policy::{
    Action, AskReason, AskRule, CallAssessment, CheckedCall, Gate, NamedAllowRule, Permitted, Plan, Refusal,
    RefusalRule, TITLE, Tool, ToolCallContext, require_intent_for_server,
};
use crate::server_tools::{KnownDescription, ServerToolError, ServerTools};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::{Annotations, Object, ServerTool, ServerToolName, ToolId, UseMcpTool};
use roo_text::{diff, render};

/// Has a server do something.
#[derive(Debug)]
struct CallServer {
    servers: Arc<dyn ServerTools>,
    /// As it was judged.
    tool: ServerTool,
    arguments: Object,
}

impl Tool for UseMcpTool {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        check(gate, call_context, &self.tool)?;
        // What is known of a server that is starting is not what it says now, so it is judged when it has started.
        let started = gate.server_tools().connected(self.tool.server()).await;
        started.map_err(|error| Refusal::forbidden(RefusalRule::Tool, error))?;
        let Some(tool) = gate.server_tool(&self.tool.to_string()).await else {
            return Err(Refusal::mistake(RefusalRule::Tool, ServerToolError::Gone(self.tool)));
        };
        Ok(CheckedCall::from(judge(gate, &tool, self.arguments).await))
    }
}

/// Checks whether the task may call a tool of this name at all. No server is started before that.
fn check(gate: &Gate, call_context: ToolCallContext<'_>, name: &ServerToolName) -> Result<(), Refusal> {
    call_context
        .mode
        .permits_server_tool(name)
        .map_err(|error| Refusal::mistake(RefusalRule::Mode, error))?;
    if !call_context.tools.has(ToolId::Server(name.clone())) {
        return Err(Refusal::mistake(
            RefusalRule::Mode,
            format!("The tool {name} is not one of yours. Call one of the tools that you were given."),
        ));
    }
    require_intent_for_server(gate.policy_context(), call_context, name.server(), Some(name.tool()))
}

/// Judges a call of a server's tool. What the server does with it nobody can bound, so the approval holds for these
/// arguments and for the tool as it is described now. What the server says of the tool can only add to what is asked.
async fn judge(gate: &Gate, tool: &ServerTool, arguments: Object) -> CallAssessment {
    let name = tool.name();
    let title = format!("Call {} of the server {}", name.tool(), name.server());
    let servers = gate.server_tools();
    let known = servers.known_description(tool).await;
    let why = if matches!(known, KnownDescription::Other { .. }) {
        Some("its server describes it differently than when you last allowed it")
    } else if tool.annotations().destructive == Some(true) {
        Some("its server says that it may destroy something")
    } else if gate.hold_secret(vec![texts(&arguments)]).await {
        Some("its arguments hold what looks like a secret, which the server would get")
    } else {
        None
    };
    let must_ask = why.map(|text| AskReason { rule: AskRule::Server, text: text.to_owned() });
    let allowed_by = match gate.settings().auto_approve.mcp {
        true => Some(NamedAllowRule::Mcp.into()),
        false => servers.always_allows(name).then(|| NamedAllowRule::McpFile.into()),
    };
    let mut shown = format!("{:#}", json!(arguments));
    let claims = claims(tool);
    if !claims.is_empty() {
        shown.push_str(&format!("\n\nThe server claims, which nobody has checked: {}.", claims.join(", ")));
    }
    shown.push_str(&description(tool, known));
    CallAssessment {
        identity: json!({
            "tool": name.to_string(),
            "described": tool.digest(),
            "arguments": arguments,
        }),
        title: render::one_line(&title, TITLE),
        subject: render::visible(&shown).into_owned(),
        must_ask,
        undecided: Some(server_call::unknown_effects()),
        allowed_by,
        standing: None,
        alternative: None,
        plan: Plan::Nothing,
        action: Some(Box::new(CallServer {
            servers: Arc::clone(gate.server_tools()),
            tool: tool.clone(),
            arguments,
        })),
    }
}

/// All texts of the arguments, names among them, each on lines of its own, as they would reach the server.
fn texts(arguments: &Object) -> String {
    fn add_object(object: &Object, texts: &mut String) {
        for (name, value) in object {
            texts.extend([name, "\n"]);
            add(value, texts);
        }
    }
    fn add(value: &Value, texts: &mut String) {
        match value {
            Value::String(text) => texts.extend([text, "\n"]),
            Value::Array(values) => values.iter().for_each(|value| add(value, texts)),
            Value::Object(object) => add_object(object, texts),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut texts = String::new();
    add_object(arguments, &mut texts);
    texts
}

/// What the question shows of a tool's description: all of it before the first call, and later what has changed.
fn description(tool: &ServerTool, known: KnownDescription) -> String {
    match known {
        KnownDescription::Same => String::new(),
        KnownDescription::None => {
            format!(
                "\n\nYou have not allowed this tool before. Its server describes it:\n{}",
                tool.description()
            )
        }
        KnownDescription::Other { before: Some(before) } => format!(
            "\n\nChanges of the description:\n{}",
            diff::unified(&before, &tool.described(), &tool.name().to_string())
        ),
        KnownDescription::Other { before: None } => {
            format!("\n\nIts server describes it now:\n{}", tool.described())
        }
    }
}

/// Returns a server's claims about its tool's effects.
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
            let made = server_call::recorded(name.to_string(), &self.arguments);
            // It may have been restarted since the call was judged.
            if let Err(error) = server_call::started(&*self.servers, name.server(), context).await {
                return server_call::outcome(Err(error), made, &name.to_string(), context).await;
            }
            let now = self.servers.tool(&name.to_string()).await;
            if now.is_some_and(|now| now.digest() != self.tool.digest()) {
                return Outcome::failed(format!(
                    "The server has just changed its description of {name}. Nothing was done: read the new \
                     description, then call the tool again."
                ));
            }
            self.servers.keep_description(&self.tool).await;
            let answered = self.servers.call(&name, self.arguments, &context.cancel, &*context.caller).await;
            server_call::outcome(answered, made, &name.to_string(), context).await
        })
    }
}
