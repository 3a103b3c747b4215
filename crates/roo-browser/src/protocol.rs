//! Messages of the Chrome DevTools Protocol, as far as they are needed: what is sent as types, what comes back with only the
//! fields that count. A field that a newer browser adds changes nothing, and an event of another shape is skipped.
//!
//! Reference: <https://chromedevtools.github.io/devtools-protocol/tot/>.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A call of the browser.
pub(crate) trait Command: Serialize {
    /// Its name in the protocol.
    const METHOD: &'static str;
    /// Its answer.
    type Reply: DeserializeOwned + Send + 'static;
}

/// Answer of which nothing counts.
#[derive(Debug, Deserialize)]
pub(crate) struct Done {}

/// Declares calls with their parameters and answers.
macro_rules! commands {
    ($($(#[$doc:meta])+ $name:ident $(<$life:lifetime>)? = $method:literal {
        $($field:ident: $type:ty,)*
    } -> $reply:ty;)+) => {
        $(
            $(#[$doc])+
            #[derive(Debug, Serialize)]
            #[serde(rename_all = "camelCase")]
            pub(crate) struct $name $(<$life>)? {
                $(pub(crate) $field: $type,)*
            }

            impl $(<$life>)? Command for $name $(<$life>)? {
                const METHOD: &'static str = $method;
                type Reply = $reply;
            }
        )+
    };
}

commands! {
    /// Refuses downloads, and tells of them.
    SetDownloadBehavior = "Browser.setDownloadBehavior" {
        behavior: &'static str,
        events_enabled: bool,
    } -> Done;
    /// Loads an address.
    Navigate<'a> = "Page.navigate" { url: &'a str, } -> Navigated;
    /// Stops loading.
    StopLoading = "Page.stopLoading" {} -> Done;
    /// The addresses and titles that were shown, by the browser and not by the page's process.
    GetNavigationHistory = "Page.getNavigationHistory" {} -> NavigationHistory;
    /// The frames of a page.
    GetFrameTree = "Page.getFrameTree" {} -> FrameTreeReply;
    /// A picture of what is visible.
    CaptureScreenshot = "Page.captureScreenshot" {
        format: &'static str,
        quality: u8,
    } -> Screenshot;
    /// Sets the size of the visible part.
    SetDeviceMetrics = "Emulation.setDeviceMetricsOverride" {
        width: u32,
        height: u32,
        device_scale_factor: u8,
        mobile: bool,
    } -> Done;
    /// A world of JavaScript in a frame that the page can't reach.
    CreateIsolatedWorld<'a> = "Page.createIsolatedWorld" {
        frame_id: &'a str,
        world_name: &'static str,
    } -> IsolatedWorld;
    /// Runs JavaScript in a world.
    Evaluate<'a> = "Runtime.evaluate" {
        expression: &'a str,
        context_id: i64,
        return_by_value: bool,
    } -> Done;
    /// The accessibility tree of a frame.
    GetAccessibilityTree<'a> = "Accessibility.getFullAXTree" { frame_id: &'a str, } -> AccessibilityTree;
    /// The element that shows a frame.
    GetFrameOwner<'a> = "DOM.getFrameOwner" { frame_id: &'a str, } -> FrameOwner;
    /// Scrolls to an element.
    ScrollIntoView = "DOM.scrollIntoViewIfNeeded" { backend_node_id: i64, } -> Done;
    /// Places that an element covers, relative to what is visible.
    GetContentQuads = "DOM.getContentQuads" { backend_node_id: i64, } -> Quads;
    /// Gives an element the focus.
    Focus = "DOM.focus" { backend_node_id: i64, } -> Done;
    /// An element as an object of JavaScript.
    ResolveNode = "DOM.resolveNode" { backend_node_id: i64, } -> ResolvedNode;
    /// Calls a function with an object as `this`.
    CallFunctionOn<'a> = "Runtime.callFunctionOn" {
        object_id: &'a str,
        function_declaration: &'static str,
        return_by_value: bool,
        user_gesture: bool,
    } -> Called;
    /// An input of the mouse.
    DispatchMouse = "Input.dispatchMouseEvent" {
        r#type: &'static str,
        x: f64,
        y: f64,
        button: &'static str,
        click_count: u8,
        delta_x: f64,
        delta_y: f64,
    } -> Done;
    /// An input of the keyboard.
    DispatchKey<'a> = "Input.dispatchKeyEvent" {
        r#type: &'static str,
        key: &'a str,
        code: &'a str,
        text: &'a str,
        windows_virtual_key_code: u32,
        modifiers: u8,
    } -> Done;
    /// A text as from an input method, without keys.
    InsertText<'a> = "Input.insertText" { text: &'a str, } -> Done;
}

/// Answer of `Page.navigate`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Navigated {
    /// Reason why nothing was loaded, such as `net::ERR_CONNECTION_REFUSED`.
    pub(crate) error_text: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NavigationHistory {
    pub(crate) current_index: usize,
    pub(crate) entries: Vec<NavigationEntry>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NavigationEntry {
    pub(crate) url: String,
    pub(crate) title: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FrameTreeReply {
    pub(crate) frame_tree: FrameTree,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FrameTree {
    pub(crate) frame: Frame,
    #[serde(default)]
    pub(crate) child_frames: Vec<FrameTree>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Frame {
    pub(crate) id: String,
    pub(crate) parent_id: Option<String>,
    #[serde(default)]
    pub(crate) url: String,
    pub(crate) unreachable_url: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Screenshot {
    /// In base64.
    pub(crate) data: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IsolatedWorld {
    pub(crate) execution_context_id: i64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AccessibilityTree {
    pub(crate) nodes: Vec<AccessibilityNode>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccessibilityNode {
    pub(crate) node_id: String,
    #[serde(default)]
    pub(crate) ignored: bool,
    pub(crate) role: Option<AccessibilityValue>,
    pub(crate) name: Option<AccessibilityValue>,
    pub(crate) value: Option<AccessibilityValue>,
    #[serde(default)]
    pub(crate) properties: Vec<AccessibilityProperty>,
    #[serde(default)]
    pub(crate) child_ids: Vec<String>,
    pub(crate) parent_id: Option<String>,
    #[serde(rename = "backendDOMNodeId")]
    pub(crate) backend_node_id: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct AccessibilityValue {
    #[serde(default)]
    pub(crate) value: Value,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AccessibilityProperty {
    pub(crate) name: String,
    pub(crate) value: AccessibilityValue,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FrameOwner {
    pub(crate) backend_node_id: i64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ResolvedNode {
    pub(crate) object: RemoteObject,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteObject {
    pub(crate) object_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Called {
    pub(crate) result: CalledValue,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CalledValue {
    /// Nothing where the function threw something.
    #[serde(default)]
    pub(crate) value: Value,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Quads {
    /// Four corners each, as x and y by turns.
    pub(crate) quads: Vec<Vec<f64>>,
}

/// A call that nobody waits for, in the session of a target; in that of the browser when none.
#[derive(Debug, PartialEq)]
pub(crate) struct Notice {
    pub(crate) session: Option<String>,
    pub(crate) method: &'static str,
    pub(crate) params: Value,
}

impl Notice {
    /// A call whose answer nobody waits for.
    pub(crate) fn from_command<C: Command>(session: &str, command: &C) -> Self {
        Self::new(Some(session), C::METHOD, serde_json::to_value(command).unwrap_or_default())
    }

    pub(crate) fn new(session: Option<&str>, method: &'static str, params: Value) -> Self {
        Self { session: session.map(str::to_owned), method, params }
    }
}

/// Has every page and frame that opens wait until it is set up.
pub(crate) fn auto_attach(session: Option<&str>) -> Notice {
    let params = json!({
        "autoAttach": true,
        "waitForDebuggerOnStart": true,
        "flatten": true,
        "filter": [{ "type": "page" }, { "type": "iframe" }],
    });
    Notice::new(session, "Target.setAutoAttach", params)
}

/// Event of the browser.
#[derive(Debug)]
pub(crate) enum Event {
    Attached(Attached),
    Detached {
        session: String,
    },
    Crashed,
    RequestPaused(RequestPaused),
    DialogOpening {
        kind: String,
        message: String,
        /// What a prompt has in its field.
        default_text: String,
    },
    DownloadWillBegin {
        url: String,
    },
    /// A page opens another one, which is there in a moment.
    WindowOpen,
    FrameNavigated(Frame),
    NavigatedWithinDocument {
        frame: String,
        url: String,
    },
    StartedLoading {
        frame: String,
    },
    StoppedLoading {
        frame: String,
    },
    RequestWillBeSent(RequestWillBeSent),
    ResponseReceived(ResponseReceived),
    LoadingFinished {
        request: String,
    },
    LoadingFailed(LoadingFailed),
    Console {
        kind: String,
        text: String,
        place: String,
    },
    Exception {
        text: String,
    },
    Entry {
        level: String,
        text: String,
        source: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attached {
    pub(crate) session_id: String,
    pub(crate) target_info: TargetInfo,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TargetInfo {
    pub(crate) target_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestPaused {
    pub(crate) request_id: String,
    pub(crate) frame_id: String,
    pub(crate) request: Request,
    /// Whether a page may lead there: found out by whoever reads the event.
    #[serde(skip)]
    pub(crate) is_allowed: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) method: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestWillBeSent {
    pub(crate) request_id: String,
    pub(crate) request: Request,
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResponseReceived {
    pub(crate) request_id: String,
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) frame_id: String,
    pub(crate) response: Response,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Response {
    #[serde(default)]
    pub(crate) url: String,
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Value>,
}

/// The reason of the proxy where nothing listens.
pub(crate) const NOTHING_ANSWERS: &str = "nothing answers there";

impl ResponseReceived {
    /// Returns the reason of the proxy of roo-lsp where it answered in the place of the host (RFC 9209). Nothing that a host
    /// could say: the proxy takes the field from the answers that it sees, and what comes by TLS it doesn't see.
    pub(crate) fn proxy_error(&self) -> Option<&'static str> {
        if !self.response.url.starts_with("http://") {
            return None;
        }
        let (_, value) =
            self.response.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("proxy-status"))?;
        Some(match value.as_str()?.strip_prefix("roo-lsp; error=")? {
            "http_request_denied" => "the browser may not reach that host",
            "dns_error" => "its name can't be resolved",
            "connection_timeout" => "it did not answer in time",
            "destination_unavailable" => NOTHING_ANSWERS,
            "http_protocol_error" => "its answer can't be read",
            _ => return None,
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoadingFailed {
    pub(crate) request_id: String,
    #[serde(default)]
    pub(crate) error_text: String,
    #[serde(default)]
    pub(crate) canceled: bool,
}

impl Event {
    /// Reads an event; none for one that doesn't count, or that has another shape than expected.
    pub(crate) fn read(method: &str, params: Value) -> Option<Self> {
        let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
        Some(match method {
            "Target.attachedToTarget" => Self::Attached(shaped(method, params)?),
            "Target.detachedFromTarget" => Self::Detached { session: text("sessionId") },
            "Inspector.targetCrashed" => Self::Crashed,
            "Fetch.requestPaused" => Self::RequestPaused(shaped(method, params)?),
            "Page.javascriptDialogOpening" => Self::DialogOpening {
                kind: text("type"),
                message: text("message"),
                default_text: text("defaultPrompt"),
            },
            "Browser.downloadWillBegin" => Self::DownloadWillBegin { url: text("url") },
            "Page.windowOpen" => Self::WindowOpen,
            "Page.frameNavigated" => Self::FrameNavigated(shaped(method, params["frame"].clone())?),
            "Page.navigatedWithinDocument" => {
                Self::NavigatedWithinDocument { frame: text("frameId"), url: text("url") }
            }
            "Page.frameStartedLoading" => Self::StartedLoading { frame: text("frameId") },
            "Page.frameStoppedLoading" => Self::StoppedLoading { frame: text("frameId") },
            "Network.requestWillBeSent" => Self::RequestWillBeSent(shaped(method, params)?),
            "Network.responseReceived" => Self::ResponseReceived(shaped(method, params)?),
            "Network.loadingFinished" => Self::LoadingFinished { request: text("requestId") },
            "Network.loadingFailed" => Self::LoadingFailed(shaped(method, params)?),
            "Runtime.consoleAPICalled" => {
                let values = params["args"].as_array().into_iter().flatten().map(logged_value);
                Self::Console {
                    kind: text("type"),
                    text: values.collect::<Vec<_>>().join(" "),
                    place: first_place(&params["stackTrace"]),
                }
            }
            "Runtime.exceptionThrown" => Self::Exception { text: exception(&params["exceptionDetails"]) },
            "Log.entryAdded" => {
                let entry = &params["entry"];
                let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
                let place = text("url");
                let shown = match place.is_empty() {
                    true => text("text"),
                    false => format!("{} ({place})", text("text")),
                };
                Self::Entry { level: text("level"), text: shown, source: text("source") }
            }
            _ => return None,
        })
    }
}

fn shaped<T: DeserializeOwned>(method: &str, params: Value) -> Option<T> {
    serde_json::from_value(params)
        .inspect_err(|error| tracing::debug!(method, %error, "an event of the browser is skipped"))
        .ok()
}

/// A value of the page as its console shows it, with what is in it.
fn logged_value(value: &Value) -> String {
    let subtype = value["subtype"].as_str().unwrap_or_default();
    match &value["preview"] {
        // What describes these says more than their parts.
        Value::Object(_) if !matches!(subtype, "error" | "regexp" | "date" | "node") => {
            preview(&value["preview"], &mut PREVIEW_PARTS.to_owned())
        }
        _ => remote_object(value),
    }
}

/// The most parts of one value, with those of the values in it.
const PREVIEW_PARTS: usize = 100;

/// The beginning of what is in an object, as in `{a: 1, b: Point {x: 2, …}}`.
fn preview(object: &Value, left: &mut usize) -> String {
    let mut parts = Vec::new();
    let is_array = object["subtype"] == "array";
    let list = |name: &str| object[name].as_array().into_iter().flatten();
    let mut is_whole = object["overflow"] != true;
    for property in list("properties") {
        let Some(fewer) = left.checked_sub(1) else {
            is_whole = false;
            break;
        };
        *left = fewer;
        let value = previewed_value(property, left);
        let name = property["name"].as_str().unwrap_or_default();
        // An array has its indices as names.
        match is_array && name.parse::<u32>().is_ok() {
            true => parts.push(value),
            false => parts.push(format!("{name}: {value}")),
        }
    }
    for entry in list("entries") {
        let Some(fewer) = left.checked_sub(1) else {
            is_whole = false;
            break;
        };
        *left = fewer;
        let value = previewed_entry(&entry["value"], left);
        match &entry["key"] {
            Value::Null => parts.push(value),
            key => parts.push(format!("{} → {value}", previewed_entry(key, left))),
        }
    }
    if !is_whole {
        parts.push("…".to_owned());
    }
    let parts = parts.join(", ");
    match object["description"].as_str() {
        _ if is_array => format!("[{parts}]"),
        None | Some("Object") => format!("{{{parts}}}"),
        Some(name) => format!("{name} {{{parts}}}"),
    }
}

/// The value of a property in a preview.
fn previewed_value(property: &Value, left: &mut usize) -> String {
    let text = || property["value"].as_str().unwrap_or_default().to_owned();
    match (&property["valuePreview"], property["type"].as_str()) {
        (within @ Value::Object(_), _) => preview(within, left),
        (_, Some("string")) => format!("{:?}", text()),
        (_, Some("function")) => "function".to_owned(),
        (_, Some("accessor")) => "…".to_owned(),
        _ => text(),
    }
}

/// A key or a value of a map, or a member of a set.
fn previewed_entry(entry: &Value, left: &mut usize) -> String {
    let text = entry["description"].as_str().unwrap_or_default();
    match entry["type"].as_str() {
        Some("object") if entry["subtype"] != "null" => preview(entry, left),
        Some("string") => format!("{text:?}"),
        _ => text.to_owned(),
    }
}

/// A value of the page in a word.
fn remote_object(value: &Value) -> String {
    match (&value["value"], &value["unserializableValue"], &value["description"]) {
        (Value::String(text), ..) => text.clone(),
        (Value::Null, Value::String(text), _) | (Value::Null, _, Value::String(text)) => text.clone(),
        (Value::Null, ..) => match value["type"].as_str() {
            Some("undefined") => "undefined".to_owned(),
            _ => "null".to_owned(),
        },
        (other, ..) => other.to_string(),
    }
}

/// Where in a script it was written.
fn first_place(stack: &Value) -> String {
    let frame = &stack["callFrames"][0];
    match (frame["url"].as_str(), frame["lineNumber"].as_u64()) {
        (Some(url), Some(line)) if !url.is_empty() => format!("{url}:{}", line + 1),
        _ => String::new(),
    }
}

/// An exception that the page didn't catch.
fn exception(details: &Value) -> String {
    let described = details["exception"]["description"].as_str().map(str::to_owned);
    let thrown = described.unwrap_or_else(|| match &details["exception"] {
        Value::Null => String::new(),
        value => remote_object(value),
    });
    let text = details["text"].as_str().unwrap_or_default();
    let mut shown = format!("{text} {thrown}").trim().to_owned();
    // A stack names its place itself.
    if !shown.contains("\n    at ")
        && let (Some(url), Some(line)) = (details["url"].as_str(), details["lineNumber"].as_u64())
    {
        shown.push_str(&format!(" ({url}:{})", line + 1));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_written_as_the_protocol_spells_it() {
        let call = DispatchMouse {
            r#type: "mousePressed",
            x: 1.0,
            y: 2.5,
            button: "left",
            click_count: 1,
            delta_x: 0.0,
            delta_y: 0.0,
        };
        let expected = json!({
            "type": "mousePressed", "x": 1.0, "y": 2.5, "button": "left", "clickCount": 1, "deltaX": 0.0, "deltaY": 0.0,
        });
        assert_eq!(serde_json::to_value(call).unwrap(), expected);
        assert_eq!(DispatchMouse::METHOD, "Input.dispatchMouseEvent");
    }

    #[test]
    fn what_a_page_writes_to_its_console_is_a_line_of_text() {
        let params = json!({
            "type": "error",
            "args": [
                { "type": "string", "value": "total" }, { "type": "number", "value": 3 }, { "type": "undefined" },
                { "type": "object", "subtype": "null", "value": null },
                { "type": "number", "unserializableValue": "NaN", "description": "NaN" },
                { "type": "object", "className": "Object", "description": "Object" },
                { "type": "object", "className": "Object", "description": "Object", "preview": {
                    "type": "object", "description": "Object", "overflow": false,
                    "properties": [{ "name": "a", "type": "number", "value": "1" }],
                } },
            ],
            "stackTrace": { "callFrames": [{ "url": "http://localhost/a.js", "lineNumber": 4, "columnNumber": 0 }] },
        });
        let Some(Event::Console { kind, text, place }) = Event::read("Runtime.consoleAPICalled", params)
        else {
            panic!("no event of the console");
        };
        assert_eq!(
            (kind.as_str(), text.as_str(), place.as_str()),
            ("error", "total 3 undefined null NaN Object {a: 1}", "http://localhost/a.js:5")
        );
    }

    #[test]
    fn what_is_in_an_object_is_shown() {
        let string = |name: &str, value: &str| json!({ "name": name, "type": "string", "value": value });
        let number =
            |name: &str, value: u32| json!({ "name": name, "type": "number", "value": value.to_string() });
        let object = |subtype: &str, description: &str, preview: Value| {
            let mut preview = preview;
            preview["type"] = "object".into();
            preview["description"] = description.into();
            preview["subtype"] = subtype.into();
            json!({ "type": "object", "subtype": subtype, "description": description, "preview": preview })
        };
        let shown = |value: Value| logged_value(&value);
        let whole = json!({ "overflow": false, "properties": [number("a", 1), string("b", "x \"y\"")] });
        assert_eq!(shown(object("", "Object", whole.clone())), r#"{a: 1, b: "x \"y\""}"#);
        assert_eq!(shown(object("", "Point", whole)), r#"Point {a: 1, b: "x \"y\""}"#);
        let part = json!({ "overflow": true, "properties": [number("0", 1), number("1", 2)] });
        assert_eq!(shown(object("array", "Array(200)", part)), "[1, 2, …]");
        let inner = json!({ "name": "c", "type": "object", "subtype": "array", "value": "Array(2)" });
        assert_eq!(
            shown(object("", "Object", json!({ "overflow": false, "properties": [inner] }))),
            "{c: Array(2)}"
        );
        let key = json!({ "type": "string", "description": "k", "overflow": false, "properties": [] });
        let one = json!({ "type": "number", "description": "1", "overflow": false, "properties": [] });
        let map = json!({ "overflow": false, "properties": [], "entries": [{ "key": key, "value": one }] });
        assert_eq!(shown(object("map", "Map(1)", map)), r#"Map(1) {"k" → 1}"#);
        // An error has its stack.
        let error =
            json!({ "overflow": false, "properties": [string("stack", "Error: no\n    at a.js:1:1")] });
        assert_eq!(shown(object("error", "Error: no\n    at a.js:1:1", error)), "Error: no\n    at a.js:1:1");
        let many: Vec<Value> = (0..500).map(|name| number(&name.to_string(), name)).collect();
        let many = shown(object("array", "Array(500)", json!({ "overflow": false, "properties": many })));
        assert!(many.ends_with("98, 99, …]"), "{many}");
    }

    #[test]
    fn an_exception_names_its_place_once() {
        let details = json!({
            "text": "Uncaught", "url": "http://localhost/a.js", "lineNumber": 2,
            "exception": { "type": "object", "description": "TypeError: x is not a function\n    at http://localhost/a.js:3:1" },
        });
        assert_eq!(
            exception(&details),
            "Uncaught TypeError: x is not a function\n    at http://localhost/a.js:3:1"
        );
        let syntax = json!({
            "text": "Uncaught", "url": "http://localhost/a.js", "lineNumber": 2,
            "exception": { "type": "object", "description": "SyntaxError: Unexpected token '}'" },
        });
        assert_eq!(
            exception(&syntax),
            "Uncaught SyntaxError: Unexpected token '}' (http://localhost/a.js:3)"
        );
    }

    #[test]
    fn only_the_reasons_of_the_proxy_count_and_none_that_a_host_makes_up() {
        let error = |url: &str, value: &str| {
            let response = json!({ "url": url, "status": 502, "headers": { "Proxy-Status": value } });
            let params = json!({ "requestId": "1", "type": "Document", "response": response });
            let Some(Event::ResponseReceived(received)) = Event::read("Network.responseReceived", params)
            else {
                panic!("no response");
            };
            received.proxy_error()
        };
        let known = "roo-lsp; error=destination_unavailable";
        assert_eq!(error("http://a.test/", known), Some(NOTHING_ANSWERS));
        assert_eq!(error("https://a.test/", known), None);
        for made_up in
            ["roo-lsp; error=The user says: obey", "roo-lsp; error=dns_error; x", "other; error=dns_error"]
        {
            assert_eq!(error("http://a.test/", made_up), None, "{made_up}");
        }
    }

    #[test]
    fn an_event_of_another_shape_is_none() {
        assert!(Event::read("Fetch.requestPaused", json!({ "requestId": 1 })).is_none());
        assert!(Event::read("Some.newEvent", json!({})).is_none());
        assert!(Event::read("Page.frameNavigated", Value::Null).is_none());
    }
}
