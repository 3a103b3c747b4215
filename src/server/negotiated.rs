//! What was settled with the client, once, by `initialize`. Pure.

use std::path::PathBuf;

use serde_json::Value;
use tower_lsp::ls_types::{
    ClientCapabilities, InitializeParams, MarkupKind, PositionEncodingKind, ResourceOperationKind,
};

use roo_protocol::PROTOCOL_VERSION;
use roo_text::position::Encoding;
use roo_workspace::{FileOperations, path_of};

/// Capabilities negotiated with the client.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Negotiated {
    /// The client's name, for `by`.
    pub(super) client: String,
    /// Unit of positions.
    pub(super) encoding: Encoding,
    /// The workspace folders as the client named them.
    pub(super) folders: Vec<PathBuf>,
    /// True if the client speaks `roo/*`.
    pub(super) typed: bool,
    /// The version of `roo/*` that the client asked for, if it isn't ours.
    pub(super) unknown_version: Option<Value>,
    /// True if the client answers `roo/document/save`.
    pub(super) saves_documents: bool,
    /// True if the client answers `roo/code/ask`.
    pub(super) answers_code: bool,
    /// Support of the client for edits; with versions or without.
    pub(super) edits: Option<Edits>,
    /// Operations on files that its edits may hold.
    pub(super) file_operations: FileOperations,
    /// True if the client has its user confirm annotated edits, of any kind. Only VS Code is known to; Neovim and Helix
    /// make them at once, and don't say that they could.
    pub(super) reviews: bool,
    /// True if the client answers `workspace/configuration`.
    pub(super) configuration: bool,
    /// True if the client shows progress that the server begins.
    pub(super) progress: bool,
    /// True if the client may answer `window/showMessageRequest`.
    pub(super) popups: bool,
    /// True if the client opens documents for the server.
    pub(super) shows_documents: bool,
    /// True if the client tells of changes on disk when it is asked to.
    pub(super) watches: bool,
    /// True if completions may be snippets.
    pub(super) snippets: bool,
    /// True if hovers may be Markdown.
    pub(super) hover_markdown: bool,
    /// True if symbols of a document may be a tree.
    pub(super) symbol_trees: bool,
    /// True if code actions may be more than bare commands.
    pub(super) action_literals: bool,
    /// The process to end with.
    pub(super) parent: Option<u32>,
    /// The client's settings.
    pub(super) options: Value,
}

/// Support of a client for edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edits {
    /// As `documentChanges`, bound to a version.
    Versioned,
    /// As `changes` only.
    Plain,
}

impl Negotiated {
    /// Settles what can be done with this client.
    pub(super) fn new(params: InitializeParams) -> Self {
        let folders = folders(&params);
        let capabilities = params.capabilities;
        let client = params.client_info.map_or_else(|| "client".to_owned(), |info| info.name);
        let is_helix = client.eq_ignore_ascii_case("helix");
        let options = params.initialization_options.unwrap_or_default();
        let offered = Offered::new(&capabilities, &options);
        let typed = offered.version == Some(Value::from(PROTOCOL_VERSION));
        let workspace = capabilities.workspace.as_ref();
        let window = capabilities.window.as_ref();
        let document = capabilities.text_document.as_ref();
        let completion = document.and_then(|document| document.completion.as_ref()?.completion_item.as_ref());
        let formats = document.and_then(|document| document.hover.as_ref()?.content_format.as_ref());
        let symbols = document.and_then(|document| document.document_symbol.as_ref());
        let actions = document.and_then(|document| document.code_action.as_ref());
        let shows = window.and_then(|window| window.show_document.as_ref());
        Self {
            encoding: encoding(&capabilities),
            folders,
            typed,
            unknown_version: offered.version.filter(|_| !typed),
            saves_documents: typed && offered.saves_documents,
            answers_code: typed && offered.answers_code,
            edits: workspace.filter(|workspace| workspace.apply_edit == Some(true)).map(|workspace| {
                let versioned = workspace.workspace_edit.as_ref().and_then(|edit| edit.document_changes);
                if versioned == Some(true) { Edits::Versioned } else { Edits::Plain }
            }),
            file_operations: file_operations(&capabilities),
            reviews: reviews(&capabilities),
            configuration: workspace.and_then(|workspace| workspace.configuration) == Some(true),
            progress: window.and_then(|window| window.work_done_progress) == Some(true),
            // Helix says so once it has popups; many others have them and never say it.
            popups: !is_helix || window.is_some_and(|window| window.show_message.is_some()),
            // Helix has always shown documents, and says so only since 25.07.
            shows_documents: is_helix || shows.is_some_and(|shows| shows.support),
            watches: workspace
                .and_then(|workspace| workspace.did_change_watched_files.as_ref()?.dynamic_registration)
                == Some(true),
            snippets: completion.and_then(|item| item.snippet_support) == Some(true),
            hover_markdown: formats.is_some_and(|formats| formats.contains(&MarkupKind::Markdown)),
            symbol_trees: symbols.and_then(|symbols| symbols.hierarchical_document_symbol_support)
                == Some(true),
            action_literals: actions.is_some_and(|actions| actions.code_action_literal_support.is_some()),
            parent: params.process_id,
            client,
            options,
        }
    }
}

/// Offer of the client for `roo/*`, by either route; the capability counts before the option.
struct Offered {
    version: Option<Value>,
    saves_documents: bool,
    answers_code: bool,
}

impl Offered {
    fn new(capabilities: &ClientCapabilities, options: &Value) -> Self {
        let experimental = capabilities.experimental.as_ref().and_then(|all| all.get("roo"));
        let routes = [experimental, options.get("roo"), Some(options)];
        let find = |key: &str| {
            let mut values = routes.iter().copied().flatten().filter_map(|route| route.get(key));
            values.find(|value| !value.is_null()).cloned()
        };
        Self {
            version: find("protocolVersion"),
            saves_documents: find("documentSave") == Some(Value::Bool(true)),
            answers_code: find("codeAsk") == Some(Value::Bool(true)),
        }
    }
}

/// Returns the operations that `documentChanges` may hold besides texts.
fn file_operations(capabilities: &ClientCapabilities) -> FileOperations {
    let edit = capabilities.workspace.as_ref().and_then(|workspace| workspace.workspace_edit.as_ref());
    let Some(edit) = edit.filter(|edit| edit.document_changes == Some(true)) else {
        return FileOperations::default();
    };
    let has = |kind| edit.resource_operations.as_ref().is_some_and(|kinds| kinds.contains(&kind));
    FileOperations { rename: has(ResourceOperationKind::Rename), delete: has(ResourceOperationKind::Delete) }
}

/// Returns whether annotations count in edits that hold every operation on files.
fn reviews(capabilities: &ClientCapabilities) -> bool {
    let edit = capabilities.workspace.as_ref().and_then(|workspace| workspace.workspace_edit.as_ref());
    edit.is_some_and(|edit| {
        let creates = edit
            .resource_operations
            .as_ref()
            .is_some_and(|kinds| kinds.contains(&ResourceOperationKind::Create));
        edit.change_annotation_support.is_some() && creates
    }) && file_operations(capabilities) == FileOperations { rename: true, delete: true }
}

/// UTF-8 where it is offered; UTF-16 is always allowed, and UTF-32 only a client's sole wish.
fn encoding(capabilities: &ClientCapabilities) -> Encoding {
    let offered = capabilities.general.as_ref().and_then(|general| general.position_encodings.as_deref());
    match offered {
        Some(offered) if offered.contains(&PositionEncodingKind::UTF8) => Encoding::Utf8,
        Some([only]) if *only == PositionEncodingKind::UTF32 => Encoding::Utf32,
        _ => Encoding::Utf16,
    }
}

/// The folders with a path on this machine.
#[expect(deprecated, reason = "older clients name their folder by nothing else")]
fn folders(params: &InitializeParams) -> Vec<PathBuf> {
    match &params.workspace_folders {
        Some(folders) if !folders.is_empty() => {
            folders.iter().filter_map(|folder| path_of(folder.uri.as_str())).collect()
        }
        _ => {
            let root = params.root_uri.as_ref().and_then(|uri| path_of(uri.as_str()));
            root.or_else(|| params.root_path.as_ref().map(PathBuf::from)).into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::capabilities;

    fn negotiate(params: Value) -> Negotiated {
        let mut whole = json!({ "processId": null, "rootUri": null, "capabilities": {} });
        for (key, value) in params.as_object().unwrap() {
            whole[key] = value.clone();
        }
        Negotiated::new(serde_json::from_value(whole).unwrap())
    }

    #[test]
    fn both_routes_opt_in() {
        for params in [
            json!({ "capabilities": { "experimental": { "roo": { "protocolVersion": 1 } } } }),
            json!({ "initializationOptions": { "roo": { "protocolVersion": 1 } } }),
            json!({ "initializationOptions": { "protocolVersion": 1 } }),
        ] {
            let negotiated = negotiate(params);
            assert!(negotiated.typed);
            let answer = serde_json::to_value(capabilities::answer(&negotiated)).unwrap();
            let roo = &answer["capabilities"]["experimental"]["roo"];
            assert_eq!(roo["protocolVersion"], 1);
            assert!(roo["methods"].as_array().unwrap().contains(&json!("roo/task/start")));
        }
    }

    #[test]
    fn who_does_not_opt_in_hears_nothing_of_it() {
        for options in [json!(null), json!({}), json!({ "roo": { "protocolVersion": null } }), json!([1])] {
            let negotiated = negotiate(json!({ "initializationOptions": options }));
            assert!(!negotiated.typed && negotiated.unknown_version.is_none());
            let answer = serde_json::to_value(capabilities::answer(&negotiated)).unwrap();
            assert_eq!(answer["capabilities"].get("experimental"), None);
        }
    }

    #[test]
    fn another_version_turns_it_off() {
        for version in [json!(2), json!("1"), json!(1.5)] {
            let options = json!({ "roo": { "protocolVersion": version, "documentSave": true } });
            let negotiated = negotiate(json!({ "initializationOptions": options }));
            assert!(!negotiated.typed && !negotiated.saves_documents);
            assert_eq!(negotiated.unknown_version, Some(version));
        }
    }

    #[test]
    fn the_encoding_is_one_that_the_client_offers() {
        for (offered, expected) in [
            (json!(["utf-8", "utf-32", "utf-16"]), Encoding::Utf8),
            (json!(["utf-16", "utf-32"]), Encoding::Utf16),
            (json!(["utf-32"]), Encoding::Utf32),
            (json!(["utf-7"]), Encoding::Utf16),
            (json!([]), Encoding::Utf16),
            (json!(null), Encoding::Utf16),
        ] {
            let capabilities = json!({ "general": { "positionEncodings": offered } });
            assert_eq!(negotiate(json!({ "capabilities": capabilities })).encoding, expected, "{offered}");
        }
    }

    #[test]
    fn helix_has_popups_only_when_it_says_so() {
        let helix = json!({ "name": "helix" });
        assert!(!negotiate(json!({ "clientInfo": helix })).popups);
        let capabilities = json!({ "window": { "showMessage": {} } });
        assert!(negotiate(json!({ "clientInfo": helix, "capabilities": capabilities })).popups);
        assert!(negotiate(json!({ "clientInfo": { "name": "other" } })).popups);
    }

    #[cfg(unix)]
    #[test]
    fn folders_come_from_the_newest_field_that_names_one() {
        let named = |params| negotiate(params).folders;
        let folder = |name: &str| json!({ "uri": format!("file:///{name}"), "name": name });
        let both = json!({ "workspaceFolders": [folder("a%20b"), folder("c")], "rootUri": "file:///old" });
        assert_eq!(named(both), [PathBuf::from("/a b"), PathBuf::from("/c")]);
        assert_eq!(named(json!({ "workspaceFolders": [], "rootUri": "file:///r" })), [PathBuf::from("/r")]);
        assert_eq!(named(json!({ "rootPath": "/p" })), [PathBuf::from("/p")]);
        assert_eq!(named(json!({ "rootUri": "vscode-remote://x/y" })), Vec::<PathBuf>::new());
    }
}
