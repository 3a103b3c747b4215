//! What a page and its server say to each other. Pure.
//!
//! A page may do what a user does with requests: start, steer, answer, look back; and it may take away what agents have: standing
//! rules, trust, MCP servers. What widens what agents may do, such as to grant trust, settings, profiles with their keys and scopes
//! of intents, stays with editors and the command line.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Requests of a page that are passed on.
const REQUESTS: &[&str] = &[
    "roo/approval/list",
    "roo/approval/preview",
    "roo/approval/respond",
    "roo/autoApprove/get",
    "roo/changes/list",
    "roo/checkpoint/diff",
    "roo/checkpoint/list",
    "roo/checkpoint/restore",
    "roo/command/background",
    "roo/command/list",
    "roo/command/stop",
    "roo/context/get",
    "roo/context/restore",
    "roo/intent/list",
    SWITCH_SERVER,
    "roo/mcp/list",
    "roo/mcp/restart",
    "roo/mode/list",
    "roo/mode/switch",
    "roo/model/list",
    "roo/profile/list",
    "roo/profile/select",
    "roo/prompt/complete",
    "roo/question/answer",
    "roo/queue/delete",
    "roo/queue/edit",
    "roo/rule/list",
    "roo/rule/revoke",
    "roo/task/attach",
    "roo/task/cancel",
    "roo/task/delete",
    "roo/task/detach",
    "roo/task/fork",
    "roo/task/get",
    "roo/task/list",
    "roo/task/resume",
    "roo/task/send",
    "roo/task/start",
    "roo/trace/query",
    "roo/tree/get",
    "roo/trust/get",
    "roo/trust/revoke",
];
/// Switches an MCP server off; to switch one on is not done from a page.
const SWITCH_SERVER: &str = "roo/mcp/enable";
/// Notifications of the server that are passed on.
const NOTIFICATIONS: &[&str] =
    &["roo/event", "roo/mcp/changed", "roo/settings/changed", "window/showMessage"];
/// The code of a method that isn't there.
const METHOD_NOT_FOUND: i64 = -32601;
/// The id of `initialize`; those of pages begin after it.
pub(super) const INITIALIZE: u64 = 0;

/// A message of a page: a request, and nothing else.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageRequest {
    jsonrpc: String,
    id: u64,
    method: String,
    params: Map<String, Value>,
}

/// What becomes of a message of a page.
#[derive(Debug, PartialEq)]
pub(super) enum FromPage {
    /// The server gets this.
    Pass(String),
    /// The page gets this answer.
    Answer(String),
    /// It is no request: such a page is not ours.
    Invalid,
}

impl FromPage {
    /// Reads what a page says. What is passed on is rewritten, so that both sides read the same.
    pub(super) fn read(text: &str) -> Self {
        let Ok(request) = serde_json::from_str::<PageRequest>(text) else { return Self::Invalid };
        let PageRequest { jsonrpc, id, method, params } = request;
        if jsonrpc != "2.0" || id == INITIALIZE {
            return Self::Invalid;
        }
        let widens = method == SWITCH_SERVER && params.get("enabled") != Some(&Value::Bool(false));
        if REQUESTS.contains(&method.as_str()) && !widens {
            return Self::Pass(
                json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string(),
            );
        }
        let error = json!({ "code": METHOD_NOT_FOUND, "message": "this is not done from a browser" });
        Self::Answer(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string())
    }
}

/// What becomes of a message of the server.
#[derive(Debug, PartialEq)]
pub(super) enum FromServer {
    /// The page gets it as it is.
    Pass,
    /// The server gets this answer: a page is asked nothing.
    Answer(String),
    /// The server is there, and serves these methods.
    Initialized(Vec<String>),
    /// It is not for pages.
    Ignore,
}

/// The part of a message by which its kind is known.
#[derive(Deserialize)]
struct Head {
    id: Option<Value>,
    method: Option<String>,
}

impl FromServer {
    /// Reads what the server says.
    pub(super) fn read(body: &[u8]) -> Self {
        let Ok(head) = serde_json::from_slice::<Head>(body) else { return Self::Ignore };
        match (head.method, head.id) {
            (Some(_), Some(id)) => {
                let error = json!({ "code": METHOD_NOT_FOUND, "message": "a page is asked nothing" });
                Self::Answer(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string())
            }
            (Some(method), None) if NOTIFICATIONS.contains(&method.as_str()) => Self::Pass,
            (None, Some(id)) if id == INITIALIZE => Self::Initialized(served(body)),
            (None, Some(_)) => Self::Pass,
            _ => Self::Ignore,
        }
    }
}

/// The methods of an answer to `initialize` that pages may use.
fn served(body: &[u8]) -> Vec<String> {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let methods = answer.pointer("/result/capabilities/experimental/roo/methods").and_then(Value::as_array);
    let names = methods.into_iter().flatten().filter_map(Value::as_str);
    names.filter(|name| REQUESTS.contains(name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use roo_protocol::method::METHODS;

    use super::*;

    #[test]
    fn every_method_that_pages_use_is_one_of_the_protocol() {
        for name in REQUESTS {
            assert!(METHODS.iter().any(|method| method.name == *name), "{name}");
        }
    }

    #[test]
    fn what_widens_what_agents_may_do_is_not_done_from_a_page() {
        for method in [
            "initialize",
            "shutdown",
            "exit",
            "workspace/executeCommand",
            "workspace/didChangeConfiguration",
            "textDocument/didOpen",
            "roo/options/didChange",
            "roo/trust/grant",
            "roo/profile/save",
            "roo/intent/expand",
            "roo/mcp/enable",
            "roo/task/edit",
            "roo/editor/didChange",
        ] {
            let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {} }).to_string();
            let FromPage::Answer(answer) = FromPage::read(&text) else { panic!("{method}") };
            assert!(answer.contains("-32601"), "{answer}");
        }
    }

    #[test]
    fn a_page_takes_away_what_agents_have() {
        let read = |method: &str, params: Value| {
            FromPage::read(
                &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string(),
            )
        };
        for (method, params) in [
            ("roo/rule/revoke", json!({ "ruleId": "r" })),
            ("roo/trust/revoke", json!({})),
            ("roo/mcp/restart", json!({ "server": "s" })),
            ("roo/mcp/enable", json!({ "server": "s", "enabled": false })),
        ] {
            assert!(matches!(read(method, params), FromPage::Pass(_)), "{method}");
        }
        for enabled in [json!(true), json!("false"), Value::Null] {
            let on = read("roo/mcp/enable", json!({ "server": "s", "enabled": enabled }));
            assert!(matches!(on, FromPage::Answer(_)), "{enabled}");
        }
    }

    #[test]
    fn a_page_sends_requests_and_nothing_else() {
        let passed = r#"{"jsonrpc":"2.0","id":1,"method":"roo/task/list","params":{}}"#;
        assert_eq!(FromPage::read(passed), FromPage::Pass(passed.to_owned()));
        for invalid in [
            "",
            "[]",
            "{}",
            r#"{"jsonrpc":"2.0","method":"roo/task/list","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":0,"method":"roo/task/list","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":"1","method":"roo/task/list","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"roo/task/list","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"roo/task/list","method":"exit","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"roo/task/list","params":{},"result":1}"#,
        ] {
            assert_eq!(FromPage::read(invalid), FromPage::Invalid, "{invalid}");
        }
    }

    #[test]
    fn a_page_hears_answers_and_what_it_shows() {
        for passed in [
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            r#"{"jsonrpc":"2.0","method":"roo/event","params":{}}"#,
        ] {
            assert_eq!(FromServer::read(passed.as_bytes()), FromServer::Pass, "{passed}");
        }
        let asks = br#"{"jsonrpc":"2.0","id":1,"method":"workspace/applyEdit","params":{}}"#;
        assert!(matches!(FromServer::read(asks), FromServer::Answer(_)));
        for ignored in [r#"{"jsonrpc":"2.0","method":"window/logMessage","params":{}}"#, "[]", ""] {
            assert_eq!(FromServer::read(ignored.as_bytes()), FromServer::Ignore, "{ignored}");
        }
        let methods = json!(["roo/task/start", "roo/trust/grant"]);
        let capabilities = json!({ "experimental": { "roo": { "methods": methods } } });
        let answer =
            json!({ "jsonrpc": "2.0", "id": 0, "result": { "capabilities": capabilities } }).to_string();
        let initialized = FromServer::Initialized(vec!["roo/task/start".to_owned()]);
        assert_eq!(FromServer::read(answer.as_bytes()), initialized);
    }
}
