//! The one table of `roo/*` methods. Schemas, the documentation and the server's registration
//! are checked against it.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::changes::{ChangesListParams, ChangesListResult, ChangesUndoParams, ChangesUndoResult};
use super::checkpoint::{
    CheckpointDiffParams, CheckpointDiffResult, CheckpointListParams, CheckpointListResult,
    CheckpointRestoreParams, CheckpointRestoreResult, TaskEditParams,
};
use super::code::{CodeAskParams, CodeAskResult};
use super::context::{ContextGetResult, ContextRestoreParams};
use super::customization::{
    CommandListParams, CommandListResult, ModeListParams, ModeListResult, ModeSwitchParams, TrustGrantParams,
    TrustParams, TrustReport,
};
use super::editor::{EditorDiagnosticsParams, EditorDidChangeParams};
use super::event::EventParams;
use super::intent::{
    IntentChangeResult, IntentCreateParams, IntentExpandParams, IntentListParams, IntentListResult,
    IntentSelectParams, IntentUpdateParams,
};
use super::mcp::{
    McpEnableParams, McpListParams, McpListResult, McpLogResult, McpServerParams, McpToolsResult,
};
use super::model::{ModelListParams, ModelListResult};
use super::profile::{
    ProfileDeleteParams, ProfileDeleteResult, ProfileListParams, ProfileListResult, ProfileSaveParams,
    ProfileSaveResult, ProfileSelectParams, ProfileTestParams, ProfileTestResult,
};
use super::prompt::{PromptCompleteParams, PromptCompleteResult};
use super::rule::{RuleListParams, RuleListResult, RuleRevokeParams};
use super::settings::{
    AutoApproveGetParams, AutoApproveGetResult, OptionsDidChangeParams, SettingsChangedParams,
};
use super::task::*;
use super::trace::{TraceQueryParams, TraceQueryResult};
use super::tree::{TreeGetParams, TreeGetResult};

/// Direction of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The client asks the server.
    ClientToServer,
    /// The server asks the client, where the client offered it.
    ServerToClient,
    /// The server tells the client.
    Notification,
    /// The client tells the server.
    ClientNotification,
}

/// One method of the protocol.
pub struct Method {
    /// Its name on the wire.
    pub name: &'static str,
    /// Direction in which it is sent.
    pub direction: Direction,
    /// The schema of its parameters.
    params: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of its result; none for a notification.
    result: Option<fn(&mut SchemaGenerator) -> Schema>,
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const fn request<P: JsonSchema, R: JsonSchema>(name: &'static str) -> Method {
    Method {
        name,
        direction: Direction::ClientToServer,
        params: schema_of::<P>,
        result: Some(schema_of::<R>),
    }
}

const fn told_by_client<P: JsonSchema>(name: &'static str) -> Method {
    Method { name, direction: Direction::ClientNotification, params: schema_of::<P>, result: None }
}

/// All methods of this version.
pub const METHODS: &[Method] = &[
    request::<TaskStartParams, TaskStartResult>("roo/task/start"),
    request::<TaskSendParams, Done>("roo/task/send"),
    request::<TaskForkParams, TaskForkResult>("roo/task/fork"),
    request::<TaskParams, Done>("roo/task/cancel"),
    request::<TaskParams, Done>("roo/task/resume"),
    request::<TaskEditParams, CheckpointRestoreResult>("roo/task/edit"),
    request::<TaskAttachParams, TaskAttachResult>("roo/task/attach"),
    request::<TaskParams, Done>("roo/task/detach"),
    request::<TaskListParams, TaskListResult>("roo/task/list"),
    request::<TaskParams, TaskSnapshot>("roo/task/get"),
    request::<TaskParams, TaskDeleteResult>("roo/task/delete"),
    request::<QueueEditParams, Done>("roo/queue/edit"),
    request::<QueueDeleteParams, Done>("roo/queue/delete"),
    request::<ApprovalRespondParams, AnswerResult>("roo/approval/respond"),
    request::<ApprovalListParams, ApprovalListResult>("roo/approval/list"),
    request::<ApprovalPreviewParams, ApprovalPreviewResult>("roo/approval/preview"),
    request::<QuestionAnswerParams, AnswerResult>("roo/question/answer"),
    request::<ChangesListParams, ChangesListResult>("roo/changes/list"),
    request::<ChangesUndoParams, ChangesUndoResult>("roo/changes/undo"),
    request::<CheckpointListParams, CheckpointListResult>("roo/checkpoint/list"),
    request::<CheckpointDiffParams, CheckpointDiffResult>("roo/checkpoint/diff"),
    request::<CheckpointRestoreParams, CheckpointRestoreResult>("roo/checkpoint/restore"),
    request::<TreeGetParams, TreeGetResult>("roo/tree/get"),
    request::<ModeListParams, ModeListResult>("roo/mode/list"),
    request::<ModeSwitchParams, Done>("roo/mode/switch"),
    request::<ProfileListParams, ProfileListResult>("roo/profile/list"),
    request::<ProfileSelectParams, Done>("roo/profile/select"),
    request::<ProfileTestParams, ProfileTestResult>("roo/profile/test"),
    request::<ProfileSaveParams, ProfileSaveResult>("roo/profile/save"),
    request::<ProfileDeleteParams, ProfileDeleteResult>("roo/profile/delete"),
    request::<ModelListParams, ModelListResult>("roo/model/list"),
    request::<CommandListParams, CommandListResult>("roo/command/list"),
    request::<PromptCompleteParams, PromptCompleteResult>("roo/prompt/complete"),
    request::<TaskParams, ContextGetResult>("roo/context/get"),
    request::<TaskParams, Done>("roo/context/condense"),
    request::<ContextRestoreParams, Done>("roo/context/restore"),
    request::<TaskParams, Done>("roo/command/background"),
    request::<CommandStopParams, Done>("roo/command/stop"),
    request::<TrustParams, TrustReport>("roo/trust/get"),
    request::<TrustGrantParams, TrustReport>("roo/trust/grant"),
    request::<TrustParams, TrustReport>("roo/trust/revoke"),
    request::<IntentListParams, IntentListResult>("roo/intent/list"),
    request::<IntentSelectParams, Done>("roo/intent/select"),
    request::<IntentCreateParams, Done>("roo/intent/create"),
    request::<IntentUpdateParams, IntentChangeResult>("roo/intent/update"),
    request::<IntentExpandParams, IntentChangeResult>("roo/intent/expand"),
    request::<RuleListParams, RuleListResult>("roo/rule/list"),
    request::<RuleRevokeParams, Done>("roo/rule/revoke"),
    request::<TraceQueryParams, TraceQueryResult>("roo/trace/query"),
    request::<McpListParams, McpListResult>("roo/mcp/list"),
    request::<McpServerParams, McpToolsResult>("roo/mcp/tools"),
    request::<McpServerParams, McpLogResult>("roo/mcp/log"),
    request::<McpServerParams, Done>("roo/mcp/restart"),
    request::<McpEnableParams, Done>("roo/mcp/enable"),
    request::<AutoApproveGetParams, AutoApproveGetResult>("roo/autoApprove/get"),
    told_by_client::<OptionsDidChangeParams>("roo/options/didChange"),
    told_by_client::<EditorDidChangeParams>("roo/editor/didChange"),
    told_by_client::<EditorDiagnosticsParams>("roo/editor/diagnostics"),
    Method {
        name: "roo/document/save",
        direction: Direction::ServerToClient,
        params: schema_of::<DocumentSaveParams>,
        result: Some(schema_of::<DocumentSaveResult>),
    },
    Method {
        name: "roo/code/ask",
        direction: Direction::ServerToClient,
        params: schema_of::<CodeAskParams>,
        result: Some(schema_of::<CodeAskResult>),
    },
    Method {
        name: "roo/event",
        direction: Direction::Notification,
        params: schema_of::<EventParams>,
        result: None,
    },
    Method {
        name: "roo/settings/changed",
        direction: Direction::Notification,
        params: schema_of::<SettingsChangedParams>,
        result: None,
    },
    Method {
        name: "roo/mcp/changed",
        direction: Direction::Notification,
        params: schema_of::<McpListResult>,
        result: None,
    },
];

/// The JSON Schema of the whole protocol: `methods` by name, and the types in `$defs`.
pub fn protocol_schema() -> Value {
    let mut generator = SchemaGenerator::default();
    let mut methods = Map::new();
    for method in METHODS {
        let mut entry = json!({
            "direction": match method.direction {
                Direction::ClientToServer => "clientToServer",
                Direction::ServerToClient => "serverToClient",
                Direction::Notification => "notification",
                Direction::ClientNotification => "clientNotification",
            },
            "params": (method.params)(&mut generator),
        });
        if let Some(result) = method.result {
            entry["result"] = result(&mut generator).into();
        }
        methods.insert(method.name.to_owned(), entry);
    }
    // The data of failed requests belongs to no method's result.
    generator.subschema_for::<super::ErrorData>();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "roo-lsp protocol",
        "protocolVersion": super::PROTOCOL_VERSION,
        "methods": methods,
        "$defs": generator.take_definitions(true),
    })
}
