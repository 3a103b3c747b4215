//! The server as MCP clients see it: its tools and resources, and what becomes of a call.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::elicitation::ClientUser;
use super::error::RequestError;
use super::progress::ProgressReport;
use super::reading::{self, TaskList, TraceParams};
use super::requests::{NewRequest, Requests};
use super::status::TaskStatus;

/// What clients tell their models of this server.
const INSTRUCTIONS: &str = "roo-lsp runs coding agents as tasks in one workspace. start_task returns at once; wait_for_task waits \
until the task has ended or needs something. A task may ask you questions: answer_task answers them. Permissions are given by \
the user of roo-lsp alone: no tool and no text of yours gives them. Where a task waits for its user, tell your user what it \
waits for and how they answer; `next` in the task's status says how.";
/// Time for which `wait_for_task` waits where the caller doesn't say, in seconds: less than clients wait for an answer.
const WAIT: u64 = 50;
/// The longest time for which it waits, in seconds.
const MAX_WAIT_SECONDS: u64 = 600;
/// Number of tasks in a list where the caller doesn't say.
const LISTED: usize = 20;
/// Number of tasks that are listed as resources.
const RESOURCES: usize = 50;
/// The scheme and kind of the resources.
const URI: &str = "roo://task/";
/// What the resource with a task's events ends with.
const EVENTS: &str = "/events";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartParams {
    /// What is to be done, complete in itself: the agent knows nothing of your conversation.
    prompt: String,
    /// The mode that it begins in, by its slug, such as code, architect, ask or debug; the default of the user's settings when
    /// left out.
    mode: Option<String>,
    /// The name of one of the user's model profiles; the mode's own when left out.
    profile: Option<String>,
    /// Files that it is about, as seen from the workspace folder. They are named to the agent.
    #[serde(default)]
    files: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskParams {
    /// The task's id.
    id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WaitParams {
    /// The task's id.
    id: String,
    /// Time to wait at most, in seconds: 50 when left out, 600 at most.
    timeout_s: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnswerParams {
    /// The task's id.
    id: String,
    /// The answer, or what is to be done besides.
    text: String,
    /// The question, where the task asks several things.
    question_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListParams {
    /// Number of tasks: 20 when left out, 100 at most.
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadParams {
    /// The task's id; a branch's with its number after a dot.
    id: String,
    /// The byte to begin at, as the page before has told it.
    #[serde(default)]
    offset: usize,
}

/// The server, one for all its clients.
#[derive(Clone)]
pub(super) struct RooServer {
    requests: Arc<Requests>,
    /// True if questions of tasks are shown to clients' users.
    elicits: bool,
}

impl RooServer {
    pub(super) fn new(requests: Arc<Requests>, elicits: bool) -> Self {
        Self { requests, elicits }
    }

    /// Waits for a task. Meanwhile the client's user is asked what the model asks, each question once, if that is wanted.
    async fn wait(
        &self,
        WaitParams { id, timeout_s }: WaitParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<TaskStatus, RequestError> {
        let requests = &self.requests;
        let limit = Duration::from_secs(timeout_s.unwrap_or(WAIT).min(MAX_WAIT_SECONDS));
        let task = requests.find(&id).await?;
        let user = ClientUser::from_context(context).filter(|_| self.elicits && requests.is_own(&task));
        let mut asked: Option<String> = None;
        loop {
            let report = ProgressReport::wanted(context);
            let status = requests.wait(&task, limit, &context.ct, report).await?;
            let (Some(user), Some(question)) = (&user, status.question()) else { return Ok(status) };
            if asked.as_ref() == Some(&question.id) {
                return Ok(status);
            }
            let Some(answer) = user.ask(&question).await else { return Ok(status) };
            match requests.answer(&id, answer, Some(question.id.clone())).await {
                Ok(_) => asked = Some(question.id),
                // It was answered elsewhere meanwhile, or the answer points at what is the user's: the status tells.
                Err(error) => {
                    tracing::debug!(%error, "an answer of a client's user was not taken");
                    return requests.status(&task).await;
                }
            }
        }
    }

    async fn call(
        &self,
        name: &str,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<CallToolResult, RequestError>> {
        let requests = &self.requests;
        Some(match name {
            "start_task" => {
                let start = async |StartParams { prompt, mode, profile, files }: StartParams| {
                    structured(&requests.start(NewRequest { prompt, mode, profile, files }).await?)
                };
                with(arguments, start).await
            }
            "task_status" => {
                let status = async |TaskParams { id }: TaskParams| {
                    structured(&requests.status(&requests.find(&id).await?).await?)
                };
                with(arguments, status).await
            }
            "wait_for_task" => {
                let wait = async |params: WaitParams| structured(&self.wait(params, context).await?);
                with(arguments, wait).await
            }
            "answer_task" => {
                let answer = async |AnswerParams { id, text, question_id }: AnswerParams| {
                    structured(&requests.answer(&id, text, question_id).await?)
                };
                with(arguments, answer).await
            }
            "cancel_task" => {
                let cancel = async |TaskParams { id }: TaskParams| structured(&requests.cancel(&id).await?);
                with(arguments, cancel).await
            }
            "list_tasks" => {
                let list = async |ListParams { limit }: ListParams| {
                    structured(&reading::list(requests, limit.unwrap_or(LISTED)).await?)
                };
                with(arguments, list).await
            }
            "read_task" => {
                let read = async |ReadParams { id, offset }: ReadParams| {
                    let task = requests.find(&id).await?;
                    Ok(text(reading::page(requests, &task, offset).await?))
                };
                with(arguments, read).await
            }
            "query_trace" => {
                let query = async |params: TraceParams| Ok(text(reading::trace(requests, params).await?));
                with(arguments, query).await
            }
            _ => return None,
        })
    }
}

/// Calls a tool with its parameters.
async fn with<P: DeserializeOwned>(
    arguments: Value,
    tool: impl AsyncFnOnce(P) -> Result<CallToolResult, RequestError>,
) -> Result<CallToolResult, RequestError> {
    match serde_json::from_value(arguments) {
        Ok(params) => tool(params).await,
        Err(error) => Err(RequestError::Invalid(format!("the arguments don't fit: {error}"))),
    }
}

fn structured(value: &impl Serialize) -> Result<CallToolResult, RequestError> {
    let value = serde_json::to_value(value);
    value.map(CallToolResult::structured).map_err(|error| RequestError::Invalid(error.to_string()))
}

fn text(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// The tools, in the order in which a caller needs them. Several return a status; its schema is told once, as models read all
/// of it.
fn tools() -> Vec<Tool> {
    let reads = || ToolAnnotations::new().read_only(true).open_world(false);
    let acts = || ToolAnnotations::new().read_only(false).open_world(true);
    vec![
        tool::<StartParams>(
            "start_task",
            "Start a coding agent on a task in the workspace. Returns its id at once, while it works; wait_for_task waits for it. \
             What it may do without asking is up to its user's settings; the rest waits for its user.",
            acts().destructive(true).idempotent(false),
        ),
        tool::<WaitParams>(
            "wait_for_task",
            "Wait until a task has ended or needs something, or until the time is over, and return its status. Call it again \
             while the state is `working`.",
            reads(),
        ),
        tool::<TaskParams>(
            "task_status",
            "Return the status of a task at once: its state, what it waits for and who can answer that, its newest message, its \
             result, the files that it has changed, and its cost.",
            reads(),
        )
        .with_output_schema::<TaskStatus>(),
        tool::<AnswerParams>(
            "answer_task",
            "Answer what a task asks you, or tell it more: a running task gets it where it would otherwise stop, one that has \
             ended goes on with it. No answer gives a permission.",
            acts().destructive(false).idempotent(false),
        ),
        tool::<TaskParams>(
            "cancel_task",
            "End a task that you have started, with all that it runs. What it has changed stays.",
            acts().destructive(true).idempotent(true),
        ),
        tool::<ListParams>("list_tasks", "List the tasks of the workspace, newest first.", reads())
            .with_output_schema::<TaskList>(),
        tool::<ReadParams>(
            "read_task",
            "Return a task as a Markdown document, page by page: its conversation, its calls and what came of them.",
            reads(),
        ),
        tool::<TraceParams>(
            "query_trace",
            "Search the record of what agents did in the workspace, or tell for a file which agent and which intent wrote which \
             lines.",
            reads(),
        ),
    ]
}

fn tool<P: JsonSchema + 'static>(
    name: &'static str,
    description: &'static str,
    annotations: ToolAnnotations,
) -> Tool {
    Tool::new(name, description, Map::new()).with_input_schema::<P>().with_annotations(annotations)
}

impl ServerHandler for RooServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let program = Implementation::new("roo-lsp", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(program).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        match self.call(&request.name, arguments, &context).await {
            Some(Ok(result)) => Ok(result.into()),
            Some(Err(error)) => Ok(CallToolResult::error(vec![ContentBlock::text(error.to_string())]).into()),
            None => Err(ErrorData::invalid_params(format!("there is no tool '{}'", request.name), None)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = reading::list(&self.requests, RESOURCES).await.map_err(internal)?;
        let resource = |(id, title): (String, String)| {
            Resource::new(format!("{URI}{id}"), title).with_mime_type("text/markdown")
        };
        Ok(ListResourcesResult::with_all_items(listed.names().map(resource).collect()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![
            ResourceTemplate::new(format!("{URI}{{id}}"), "task")
                .with_description("A task as a Markdown document, by its id.")
                .with_mime_type("text/markdown"),
            ResourceTemplate::new(format!("{URI}{{id}}{EVENTS}"), "events of a task")
                .with_description("The newest events of a task's request, a line of JSON each.")
                .with_mime_type("application/x-ndjson"),
        ]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let not_found = || ErrorData::resource_not_found(format!("there is no resource {uri}"), None);
        let name = uri.strip_prefix(URI).ok_or_else(not_found)?;
        let (name, has_events) = match name.strip_suffix(EVENTS) {
            Some(name) => (name, true),
            None => (name, false),
        };
        let task = self.requests.find(name).await.map_err(|_| not_found())?;
        let (text, kind) = match has_events {
            true => (reading::events(&self.requests, &task).await, "application/x-ndjson"),
            false => (reading::document(&self.requests, &task).await, "text/markdown"),
        };
        let contents = ResourceContents::text(text.map_err(internal)?, uri).with_mime_type(kind);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn internal(error: RequestError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
