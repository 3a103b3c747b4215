//! The server's capabilities: what `initialize` answers to a client. Pure.

use serde_json::json;
use tower_lsp::ls_types::{
    CodeActionOptions, CodeActionProviderCapability, CompletionOptions, DocumentLinkOptions,
    ExecuteCommandOptions, HoverProviderCapability, InitializeResult, OneOf, PositionEncodingKind,
    SaveOptions, ServerCapabilities, ServerInfo, TextDocumentSyncCapability, TextDocumentSyncKind,
    TextDocumentSyncOptions, TextDocumentSyncSaveOptions, WorkDoneProgressOptions,
    WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
};

use super::negotiated::Negotiated;
use super::{code_actions, commands, intake};
use roo_language_servers::message_frames::BODY_LIMIT;
use roo_protocol::PROTOCOL_VERSION;
use roo_protocol::method::METHODS;
use roo_text::position::Encoding;

/// Builds the result of `initialize`.
pub(super) fn answer(negotiated: &Negotiated) -> InitializeResult {
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::INCREMENTAL),
        save: Some(TextDocumentSyncSaveOptions::SaveOptions(SaveOptions { include_text: Some(false) })),
        ..TextDocumentSyncOptions::default()
    };
    let capabilities = ServerCapabilities {
        position_encoding: Some(match negotiated.encoding {
            Encoding::Utf8 => PositionEncodingKind::UTF8,
            Encoding::Utf16 => PositionEncodingKind::UTF16,
            Encoding::Utf32 => PositionEncodingKind::UTF32,
        }),
        text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: commands::names().map(str::to_owned).collect(),
            ..ExecuteCommandOptions::default()
        }),
        // For files of ours; any other document gets nothing, at once.
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(["[", "\"", "@", "/"].map(str::to_owned).to_vec()),
            ..CompletionOptions::default()
        }),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        // In task documents alone.
        document_symbol_provider: Some(OneOf::Left(true)),
        document_link_provider: Some(DocumentLinkOptions {
            resolve_provider: None,
            work_done_progress_options: WorkDoneProgressOptions::default(),
        }),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(code_actions::KINDS.iter().map(|kind| (*kind).into()).collect()),
            ..CodeActionOptions::default()
        })),
        workspace: Some(WorkspaceServerCapabilities {
            workspace_folders: Some(WorkspaceFoldersServerCapabilities {
                supported: Some(true),
                // To say that the server has to be restarted for them.
                change_notifications: Some(OneOf::Left(true)),
            }),
            file_operations: None,
        }),
        experimental: negotiated.typed.then(|| {
            json!({ "roo": {
                "protocolVersion": PROTOCOL_VERSION,
                "methods": METHODS.iter().map(|method| method.name).collect::<Vec<_>>(),
                "limits": { "messageBytes": BODY_LIMIT, "unansweredRequests": intake::CONCURRENCY },
            } })
        }),
        ..ServerCapabilities::default()
    };
    InitializeResult {
        capabilities,
        server_info: Some(ServerInfo {
            name: "roo-lsp".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
        ..InitializeResult::default()
    }
}
