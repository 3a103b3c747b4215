//! The pages of a browser, as its events tell of them: which there are, whether they are loading, and what they logged.
//!
//! A fold without input or output: [`State::fold`] takes an event and returns the calls that it leads to.

use std::collections::HashSet;

use serde_json::json;

use crate::observation::LogKind;
use crate::page_log::PageLog;
use crate::protocol::{Attached, Event, LoadingFailed, Notice, RequestPaused, auto_attach};
use crate::secret_mask::KeptText;
use crate::snapshot::Refs;
use roo_catalog::ScreenSize;

/// The most pages at a time; one more is closed as it opens.
const PAGES: usize = 8;

/// Page of a browser.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) session: String,
    /// Its target, which has the name of its main frame too.
    pub(crate) target: String,
    /// Address of its document.
    pub(crate) url: String,
    pub(crate) is_crashed: bool,
    /// Reason why its document didn't come through the proxy.
    pub(crate) failure: Option<&'static str>,
    /// Address to which it led and was stopped.
    pub(crate) stopped_at: Option<KeptText>,
    /// Frames that are loading.
    loading: HashSet<String>,
    /// Requests that run.
    requests: HashSet<String>,
    pub(crate) refs: Refs,
}

/// State of a browser.
#[derive(Debug)]
pub(crate) struct State {
    /// The one that was opened last is the one that is used.
    pages: Vec<Page>,
    pub(crate) log: PageLog,
    pub(crate) viewport: ScreenSize,
    /// Pages that are about to open.
    opening: u32,
    /// True if the next dialog that asks something is accepted.
    pub(crate) accepts_dialog: bool,
    /// Changes of what is loading, for whoever waits for the end of it.
    pub(crate) changes: u64,
}

impl State {
    pub(crate) fn new(viewport: ScreenSize) -> Self {
        let log = PageLog::default();
        Self { pages: Vec::new(), log, viewport, opening: 0, accepts_dialog: false, changes: 0 }
    }

    /// Returns the page that is used; none before the first one opens, and after the last one is closed.
    pub(crate) fn page(&mut self) -> Option<&mut Page> {
        self.pages.last_mut()
    }

    /// Reports whether the page is still loading something.
    pub(crate) fn is_busy(&self) -> bool {
        let is_busy = |page: &Page| !page.loading.is_empty() || !page.requests.is_empty();
        self.opening > 0 || self.pages.last().is_none_or(is_busy)
    }

    /// Reports whether a document is still loading.
    pub(crate) fn is_loading(&self) -> bool {
        self.pages.last().is_none_or(|page| !page.loading.is_empty())
    }

    fn page_of(&mut self, session: Option<&str>) -> Option<&mut Page> {
        let session = session?;
        self.pages.iter_mut().find(|page| page.session == session)
    }

    /// Returns whether a frame is a page itself, and not one within it.
    pub(crate) fn is_page(&mut self, session: Option<&str>, frame: &str) -> bool {
        self.page_of(session).is_some_and(|page| page.target == frame)
    }

    /// Takes an event of a session, and returns the calls that it leads to.
    pub(crate) fn fold(&mut self, session: Option<&str>, event: Event) -> Vec<Notice> {
        match event {
            Event::Attached(attached) => {
                self.changes += 1;
                return self.attach(attached);
            }
            Event::Detached { session } => {
                self.changes += 1;
                self.pages.retain(|page| page.session != session);
                // What nobody sees is not painted.
                let next = self.pages.last().map(|page| page.session.as_str());
                return next
                    .map(|next| Notice::new(Some(next), "Page.bringToFront", json!({})))
                    .into_iter()
                    .collect();
            }
            Event::WindowOpen => {
                self.changes += 1;
                self.opening += 1;
            }
            Event::Crashed => {
                self.changes += 1;
                if let Some(page) = self.page_of(session) {
                    page.is_crashed = true;
                    page.loading.clear();
                    page.requests.clear();
                }
                self.log.add(LogKind::Error, "The page has crashed.");
            }
            Event::RequestPaused(request) => return self.judge(session, &request),
            Event::DialogOpening { kind, message, default_text } => {
                // A page that asks before it is left is left.
                let accepts = matches!(kind.as_str(), "alert" | "beforeunload")
                    || std::mem::take(&mut self.accepts_dialog);
                let what = if accepts { "accepted" } else { "declined" };
                self.log.add(LogKind::Refused, &format!("a dialog ({kind}) was {what}: {message}"));
                return vec![Notice::new(
                    session,
                    "Page.handleJavaScriptDialog",
                    json!({ "accept": accepts, "promptText": default_text }),
                )];
            }
            Event::DownloadWillBegin { url } => {
                self.log.add(LogKind::Refused, &format!("a download was refused: {url}"));
            }
            Event::FrameNavigated(frame) => {
                if frame.parent_id.is_none()
                    && let Some(page) = self.page_of(session)
                {
                    page.refs.clear();
                    page.is_crashed = false;
                    page.requests.clear();
                    page.url = frame.unreachable_url.unwrap_or(frame.url);
                }
                self.changes += 1;
            }
            Event::NavigatedWithinDocument { frame, url } => {
                if let Some(page) = self.page_of(session).filter(|page| page.target == frame) {
                    page.url = url;
                }
                self.changes += 1;
            }
            Event::StartedLoading { frame } => {
                self.changes += 1;
                if let Some(page) = self.page_of(session) {
                    page.loading.insert(frame);
                }
            }
            Event::StoppedLoading { frame } => {
                self.changes += 1;
                if let Some(page) = self.page_of(session) {
                    page.loading.remove(&frame);
                }
            }
            Event::RequestWillBeSent(sent) => {
                // Streams stay open for as long as the page does.
                if !matches!(sent.kind.as_str(), "EventSource" | "WebSocket" | "Ping" | "Preflight")
                    && !sent.request.url.starts_with("data:")
                {
                    self.changes += 1;
                    if let Some(page) = self.page_of(session) {
                        page.requests.insert(sent.request_id.clone());
                    }
                    self.log.sent(&sent.request_id, &sent.request.method, &sent.request.url, &sent.kind);
                }
            }
            Event::ResponseReceived(received) => {
                let failure = received.proxy_error();
                match failure {
                    Some(error) => self.log.failed(&received.request_id, error),
                    None => self.log.answered(&received.request_id, received.response.status),
                }
                if received.kind == "Document"
                    && let Some(page) = self.page_of(session).filter(|page| page.target == received.frame_id)
                {
                    page.failure = failure;
                }
            }
            Event::LoadingFinished { request } => {
                self.log.forget(&request);
                self.end_request(session, &request);
            }
            Event::LoadingFailed(LoadingFailed { request_id, error_text, canceled }) => {
                // One that the page itself gave up says nothing.
                match canceled {
                    true => self.log.forget(&request_id),
                    false => self.log.failed(&request_id, &error_text),
                }
                self.end_request(session, &request_id);
            }
            Event::Console { kind, text, place } => {
                let kind = match kind.as_str() {
                    "error" | "assert" => LogKind::Error,
                    "warning" => LogKind::Warning,
                    // They write nothing of their own.
                    "clear" | "endGroup" | "profile" | "profileEnd" => return vec![],
                    _ => LogKind::Log,
                };
                match (kind, place.is_empty()) {
                    (LogKind::Log, _) | (_, true) => self.log.add(kind, &text),
                    (_, false) => self.log.add(kind, &format!("{text} ({place})")),
                }
            }
            Event::Exception { text } => self.log.add(LogKind::Error, &text),
            // Requests that fail are in the log of the network.
            Event::Entry { source, .. } if source == "network" => {}
            Event::Entry { level, text, .. } => {
                let kind = match level.as_str() {
                    "error" => LogKind::Error,
                    "warning" => LogKind::Warning,
                    _ => LogKind::Log,
                };
                self.log.add(kind, &text);
            }
        }
        vec![]
    }

    /// Waits no longer for pages that were about to open, such as one that the browser didn't make.
    pub(crate) fn give_up_opening(&mut self) {
        self.opening = 0;
    }

    fn end_request(&mut self, session: Option<&str>, request: &str) {
        if let Some(page) = self.page_of(session)
            && page.requests.remove(request)
        {
            self.changes += 1;
        }
    }

    /// Sets up a page or a frame that waits for it.
    fn attach(&mut self, Attached { session_id, target_info }: Attached) -> Vec<Notice> {
        let call = |method, params| Notice::new(Some(&session_id), method, params);
        let is_page = target_info.kind == "page";
        if is_page {
            self.opening = self.opening.saturating_sub(1);
        }
        if is_page && self.pages.len() >= PAGES {
            self.log.add(LogKind::Refused, "a new page was closed: too many are open");
            let close = json!({ "targetId": target_info.target_id });
            return vec![Notice::new(None, "Target.closeTarget", close)];
        }
        let documents = json!([{ "urlPattern": "*", "resourceType": "Document", "requestStage": "Request" }]);
        let mut calls = vec![
            call("Page.enable", json!({})),
            call("Runtime.enable", json!({})),
            call("Log.enable", json!({})),
            call("Network.enable", json!({})),
            call("Fetch.enable", json!({ "patterns": documents })),
        ];
        if is_page {
            let ScreenSize { width, height } = self.viewport;
            let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
            calls.push(call("DOM.enable", json!({})));
            calls.push(call("Emulation.setDeviceMetricsOverride", size));
            calls
                .push(call("Page.setInterceptFileChooserDialog", json!({ "enabled": true, "cancel": true })));
            self.pages.push(Page {
                session: session_id.clone(),
                target: target_info.target_id,
                url: String::new(),
                is_crashed: false,
                failure: None,
                stopped_at: None,
                loading: HashSet::new(),
                requests: HashSet::new(),
                refs: Refs::default(),
            });
        }
        calls.push(auto_attach(Some(&session_id)));
        calls.push(call("Runtime.runIfWaitingForDebugger", json!({})));
        calls
    }

    /// Lets a document load, or stops it: a page leads only to where its user allowed it.
    fn judge(&mut self, session: Option<&str>, request: &RequestPaused) -> Vec<Notice> {
        let url = request.request.url.as_str();
        let page = self.page_of(session).filter(|page| page.target == request.frame_id);
        let Some(page) = page.filter(|_| !request.is_allowed) else {
            let params = json!({ "requestId": request.request_id });
            return vec![Notice::new(session, "Fetch.continueRequest", params)];
        };
        page.stopped_at = Some(KeptText::new(url));
        // A page that was opened for this alone.
        let is_new = matches!(page.url.as_str(), "" | "about:blank");
        let target = page.target.clone();
        let text = format!(
            "the page tried to go to {url}, which is another host. It was stopped: to go there, use navigate"
        );
        self.log.add(LogKind::Refused, &text);
        let params = json!({ "requestId": request.request_id, "errorReason": "Aborted" });
        let mut calls = vec![Notice::new(session, "Fetch.failRequest", params)];
        if is_new && self.pages.len() > 1 {
            calls.push(Notice::new(None, "Target.closeTarget", json!({ "targetId": target })));
        }
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret_mask::tests::OneSecret;
    use serde_json::Value;

    fn state() -> State {
        let mut state = State::new(ScreenSize { width: 900, height: 600 });
        happen(&mut state, None, "Target.attachedToTarget", attached("s1", "t1", "page"));
        state
    }

    fn attached(session: &str, target: &str, kind: &str) -> Value {
        json!({ "sessionId": session, "targetInfo": { "targetId": target, "type": kind }, "waitingForDebugger": true })
    }

    fn happen(state: &mut State, session: Option<&str>, method: &str, params: Value) -> Vec<Notice> {
        state.fold(session, Event::read(method, params).unwrap())
    }

    fn document(url: &str, frame: &str) -> Value {
        json!({ "requestId": "r", "frameId": frame, "resourceType": "Document", "request": { "url": url, "method": "GET" } })
    }

    #[test]
    fn a_page_is_set_up_before_it_runs() {
        let mut state = State::new(ScreenSize { width: 900, height: 600 });
        let calls = happen(&mut state, None, "Target.attachedToTarget", attached("s1", "t1", "page"));
        let methods: Vec<_> = calls.iter().map(|call| call.method).collect();
        assert_eq!(methods.last(), Some(&"Runtime.runIfWaitingForDebugger"));
        for needed in ["Fetch.enable", "Page.setInterceptFileChooserDialog", "Target.setAutoAttach"] {
            assert!(methods.contains(&needed), "{needed}");
        }
        assert!(calls.iter().all(|call| call.session.as_deref() == Some("s1")));
    }

    #[test]
    fn a_page_that_goes_to_another_host_is_stopped_and_what_it_shows_within_is_not() {
        let mut state = state();
        let mut asked = |url: &str, frame: &str, is_allowed: bool| {
            let event = Event::read("Fetch.requestPaused", document(url, frame)).unwrap();
            let Event::RequestPaused(mut request) = event else { panic!("{event:?}") };
            request.is_allowed = is_allowed;
            state.fold(Some("s1"), Event::RequestPaused(request)).remove(0).method
        };
        assert_eq!(asked("http://localhost:3000/next", "t1", true), "Fetch.continueRequest");
        assert_eq!(asked("https://evil.example/", "t1", false), "Fetch.failRequest");
        assert_eq!(asked("http://localhost:3001/", "t1", false), "Fetch.failRequest");
        assert_eq!(asked("https://video.example/", "frame", false), "Fetch.continueRequest");
        assert_eq!(state.page().unwrap().stopped_at, Some(KeptText::new("http://localhost:3001/")));
        let (entries, _) = state.log.take();
        assert_eq!(entries.len(), 2);
        let first = entries[0].shown(&OneSecret);
        assert!(first.text.contains("https://evil.example/"), "{first:?}");
    }

    #[test]
    fn the_page_that_opened_last_is_used_until_it_closes_and_too_many_are_closed() {
        let mut state = state();
        for number in 2..=PAGES {
            let name = format!("s{number}");
            happen(&mut state, None, "Target.attachedToTarget", attached(&name, "t", "page"));
        }
        let surplus = happen(&mut state, None, "Target.attachedToTarget", attached("s9", "t9", "page"));
        assert_eq!((surplus[0].method, &surplus[0].params["targetId"]), ("Target.closeTarget", &json!("t9")));
        assert_eq!(state.page().unwrap().session, format!("s{PAGES}"));
        let last = json!({ "sessionId": format!("s{PAGES}") });
        happen(&mut state, None, "Target.detachedFromTarget", last);
        assert_eq!(state.page().unwrap().session, format!("s{}", PAGES - 1));
    }

    #[test]
    fn a_page_that_opens_another_one_is_waited_for() {
        let mut state = state();
        happen(
            &mut state,
            Some("s1"),
            "Page.windowOpen",
            json!({ "url": "http://localhost:3000/", "userGesture": true }),
        );
        assert!(state.is_busy());
        happen(&mut state, None, "Target.attachedToTarget", attached("s2", "t2", "page"));
        assert!(!state.is_busy());
        happen(&mut state, Some("s2"), "Page.windowOpen", json!({ "url": "http://localhost:3000/" }));
        state.give_up_opening();
        assert!(!state.is_busy(), "not every window comes");
    }

    #[test]
    fn a_page_is_busy_until_its_documents_and_requests_are_there() {
        let mut state = state();
        assert!(!state.is_busy());
        let frame = json!({ "frameId": "t1" });
        happen(&mut state, Some("s1"), "Page.frameStartedLoading", frame.clone());
        let request = |id: &str, kind: &str| json!({ "requestId": id, "type": kind, "request": { "url": "http://localhost:3000/a", "method": "GET" } });
        happen(&mut state, Some("s1"), "Network.requestWillBeSent", request("1", "Fetch"));
        happen(&mut state, Some("s1"), "Network.requestWillBeSent", request("2", "EventSource"));
        assert!(state.is_loading());
        happen(&mut state, Some("s1"), "Page.frameStoppedLoading", frame);
        assert!(state.is_busy() && !state.is_loading());
        happen(&mut state, Some("s1"), "Network.loadingFinished", json!({ "requestId": "1" }));
        assert!(!state.is_busy(), "a stream is not waited for");
    }

    #[test]
    fn dialogs_are_answered_and_told() {
        let mut state = state();
        let mut opened = |kind: &str| {
            let params = json!({ "type": kind, "message": "Sure?", "url": "http://localhost:3000/" });
            happen(&mut state, Some("s1"), "Page.javascriptDialogOpening", params)[0].params["accept"].clone()
        };
        assert_eq!(
            ["alert", "confirm", "prompt", "beforeunload"].map(&mut opened),
            [true, false, false, true]
        );
        let declined = state.log.take().0[1].shown(&OneSecret);
        assert_eq!(declined.text, "a dialog (confirm) was declined: Sure?");
    }

    #[test]
    fn one_dialog_is_accepted_where_a_step_says_so() {
        let mut state = state();
        state.accepts_dialog = true;
        let mut opened = |kind: &str| {
            let params = json!({ "type": kind, "message": "Sure?", "defaultPrompt": "x" });
            happen(&mut state, Some("s1"), "Page.javascriptDialogOpening", params).remove(0).params
        };
        assert_eq!(opened("alert")["accept"], true, "it asks nothing");
        assert_eq!(opened("prompt"), json!({ "accept": true, "promptText": "x" }));
        assert_eq!(opened("confirm")["accept"], false, "there was one before");
        let (entries, _) = state.log.take();
        assert_eq!(entries[1].shown(&OneSecret).text, "a dialog (prompt) was accepted: Sure?");
    }

    #[test]
    fn another_page_has_other_elements() {
        let mut state = state();
        let named = state.page().unwrap().refs.name_of(1);
        let within = json!({ "frame": { "id": "f", "parentId": "t1", "url": "http://localhost:3000/f" } });
        happen(&mut state, Some("s1"), "Page.frameNavigated", within);
        assert_eq!(state.page().unwrap().refs.node(named), Some(1));
        let next = json!({ "frame": { "id": "t1", "url": "http://localhost:3000/next" } });
        happen(&mut state, Some("s1"), "Page.frameNavigated", next);
        assert_eq!(state.page().unwrap().refs.node(named), None);
    }
}
