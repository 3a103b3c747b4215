//! One browser from its start to its end, and the steps that are done in it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use roo_catalog::{BrowserStep, BrowserTarget, ElementRef, ScreenPoint, ScreenSize};
use roo_text::render::{cut, one_line};

use crate::connection::{CallError, Connection};
use crate::destinations::{Destinations, WebHost};
use crate::key::KeyPress;
use crate::launch::{BrowserProcess, LaunchedBrowser};
use crate::marks;
use crate::observation::{LogEntry, Observation};
use crate::protocol::{
    CallFunctionOn, CaptureScreenshot, Command, CreateIsolatedWorld, DispatchKey, DispatchMouse, Evaluate,
    Event, Focus, FrameTree, GetAccessibilityTree, GetContentQuads, GetFrameOwner, GetFrameTree,
    GetNavigationHistory, InsertText, NOTHING_ANSWERS, Navigate, Notice, RequestPaused, ResolveNode,
    ScrollIntoView, SetDeviceMetrics, SetDownloadBehavior, StopLoading, auto_attach,
};
use crate::secret_mask::SecretMask;
use crate::snapshot::{FrameTrees, Snapshot, snapshot};
use crate::state::State;

/// Time for a browser to start.
const START: Duration = Duration::from_secs(60);
/// Time for an answer. A page that is busy for longer counts as hung.
const CALL: Duration = Duration::from_secs(20);
/// Time for a host to answer, and then for the page to be loaded.
const LOAD: Duration = Duration::from_secs(30);
/// Time for what a step has set in motion to come to an end.
const BUSY: Duration = Duration::from_secs(4);
/// Time without any change after which a page counts as at rest.
const QUIET: Duration = Duration::from_millis(300);
/// Time for a picture. A page that has painted nothing yet gives none.
const PICTURE: Duration = Duration::from_secs(8);
/// Quality of pictures, of 100.
const QUALITY: u8 = 80;
/// Texts of more characters are put in as a whole rather than by keys.
const BY_KEYS: usize = 500;
/// The end of what a browser wrote to its standard error that is kept, in bytes.
const STDERR: usize = 4096;
/// The longest address of a page that failed to load, and of one to which it leads, in characters.
const ADDRESS: usize = 200;
const OTHER_ADDRESS: usize = 500;
/// Selects an option of a closed list, and clicks a checkbox or a radio button that a page hides behind a picture of its own: a
/// mouse can't meet them. It returns how that went, in a word.
const CHOOSE_HIDDEN: &str = "function () {
  const isOption = this instanceof HTMLOptionElement;
  const isButton = this instanceof HTMLInputElement && ['checkbox', 'radio'].includes(this.type);
  const select = isOption && this.closest('select');
  if (!this.isConnected || !(select || isButton)) return 'other';
  const place = this.getBoundingClientRect();
  const isOutside = place.right + scrollX <= 0 || place.bottom + scrollY <= 0;
  if (place.width > 1 && place.height > 1 && !isOutside) return 'other';
  if (select?.disabled || this.matches(':disabled')) return 'disabled';
  if (isButton) {
    (this.labels[0] ?? this).click();
    return 'done';
  }
  if (select.multiple) this.selected = !this.selected;
  else if (this.selected) return 'done';
  else this.selected = true;
  for (const kind of ['input', 'change']) select.dispatchEvent(new Event(kind, { bubbles: true, composed: true }));
  return 'done';
}";
/// Moves the caret to the end of the field that has the focus.
const CARET_TO_END: &str =
    "function () { this.ownerDocument.getSelection()?.modify('move', 'forward', 'documentboundary'); }";
/// The most frames of a page whose elements are looked at.
const FRAMES: usize = 10;

/// Reasons why a step was not done. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrowserError {
    /// The browser could not be started.
    #[error("The browser did not start: {0}.")]
    Start(String),
    /// The step can't be done; the browser is as it was.
    #[error("{0}")]
    Step(String),
    /// A page was not loaded, since it leads to a host that it may not lead to; the browser is as it was.
    #[error("{url} was not loaded: it leads to another host, and was stopped. To go there, use navigate.")]
    LeadsElsewhere {
        /// Address of the page.
        url: String,
        /// Address to which it leads: words of the page's, and not for the model to take as others.
        to: String,
    },
    /// A page was not loaded; the browser is as it was. The log is the page's words, as in [`Observation`].
    #[error("{reason}")]
    NotLoaded {
        /// For the model.
        reason: String,
        /// What was logged since the step before.
        log: Vec<LogEntry>,
        /// Older entries that were left out.
        left_out: u64,
    },
    /// The browser is gone.
    #[error("The browser was closed: {0}. Launch it again to go on.")]
    Ended(String),
}

/// A running browser. Dropping it ends it.
pub struct Browser {
    connection: Connection,
    state: Arc<Mutex<State>>,
    changes: watch::Receiver<u64>,
    destinations: Destinations,
    process: tokio::sync::Mutex<Option<Box<dyn BrowserProcess>>>,
    /// Place of the mouse. Held during a step: there is one at a time.
    mouse: tokio::sync::Mutex<Option<(f64, f64)>>,
    /// Reason why it was given up.
    given_up: Mutex<Option<String>>,
}

impl std::fmt::Debug for Browser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browser").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.connection.end();
    }
}

/// The session and the main frame of the page that is used.
struct CurrentPage {
    session: String,
    frame: String,
}

impl Browser {
    /// Takes over a browser that was started, and waits until it has its first page. Its pages lead only to
    /// `destinations`.
    ///
    /// # Errors
    /// It ended, or had no page in time. Then it is ended.
    pub async fn start(
        launched: LaunchedBrowser,
        viewport: ScreenSize,
        destinations: Destinations,
    ) -> Result<Self, BrowserError> {
        let LaunchedBrowser { reader, writer, stderr, process } = launched;
        let state = Arc::new(Mutex::new(State::new(viewport)));
        let (sender, mut changes) = watch::channel(0);
        let (folded, allowed) = (Arc::clone(&state), destinations.clone());
        let on_event = move |session: Option<&str>, method: &str, params| {
            let (session, event) = (session.map(str::to_owned), Event::read(method, params));
            let (state, destinations, sender) = (Arc::clone(&folded), allowed.clone(), sender.clone());
            async move {
                let Some(mut event) = event else { return vec![] };
                // What frames within a page load is judged by the network alone.
                let is_of_page = |request: &RequestPaused| {
                    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                    state.is_page(session.as_deref(), &request.frame_id)
                };
                if let Event::RequestPaused(request) = &mut event
                    && is_of_page(request)
                {
                    request.is_allowed = destinations.allows_address(&request.request.url).await;
                }
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let notices = state.fold(session.as_deref(), event);
                let changes = state.changes;
                drop(state);
                sender.send_if_modified(|known| std::mem::replace(known, changes) != changes);
                notices
            }
        };
        let connection = Connection::start(reader, writer, on_event);
        let errors = Arc::new(Mutex::new(VecDeque::new()));
        tokio::spawn(keep_end(stderr, Arc::clone(&errors)));
        connection.notify(&auto_attach(None));
        let refuse = SetDownloadBehavior { behavior: "deny", events_enabled: true };
        let has_page = async {
            connection.call(None, &refuse, START).await.map_err(|error| error.to_string())?;
            let mut known = changes.clone();
            let session = || {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                state.page().map(|page| page.session.clone())
            };
            tokio::select! {
                biased;
                () = connection.ended().cancelled() => return Err("it ended at once".to_owned()),
                there = known.wait_for(|_| session().is_some()) => drop(there),
            }
            // Answered once the whole setup of the page is in force.
            let asked = connection.call(session().as_deref(), &GetFrameTree {}, START).await;
            asked.map(drop).map_err(|error| error.to_string())
        };
        let started = timeout(START, has_page).await;
        let started =
            started.unwrap_or_else(|_| Err(format!("it was not ready within {} seconds", START.as_secs())));
        if let Err(reason) = started {
            connection.end();
            process.end().await;
            let errors: Vec<u8> =
                errors.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
            let said = String::from_utf8_lossy(&errors);
            let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let said = if said.is_empty() { String::new() } else { format!(" ({})", one_line(said, 300)) };
            return Err(BrowserError::Start(format!("{reason}{said}")));
        }
        changes.borrow_and_update();
        Ok(Self {
            connection,
            state,
            changes,
            destinations,
            process: tokio::sync::Mutex::new(Some(process)),
            mouse: tokio::sync::Mutex::default(),
            given_up: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the hosts that its pages may lead to.
    pub fn destinations(&self) -> &Destinations {
        &self.destinations
    }

    fn address(&self) -> Option<String> {
        self.state().page().map(|page| page.url.clone()).filter(|url| !url.is_empty())
    }

    /// Returns the host of the page that is shown; none where it comes from no host, and after the browser has ended.
    pub fn host(&self) -> Option<WebHost> {
        let address = self.address().filter(|_| self.is_open())?;
        WebHost::from_url(&url::Url::parse(&address).ok()?)
    }

    /// Reports whether it is still there.
    pub fn is_open(&self) -> bool {
        !self.connection.ended().is_cancelled()
    }

    /// Returns why no step can be done in it; none while one can.
    pub fn end_reason(&self) -> Option<BrowserError> {
        let ended = self.connection.end_reason()?;
        let given_up = self.given_up.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(BrowserError::Ended(given_up.unwrap_or(ended)))
    }

    /// Ends it with everything that it started. Returns when nothing of it is left, whoever ends it.
    pub async fn close(&self) {
        self.connection.end();
        // Held to the end, so that a second call waits for it too.
        let mut process = self.process.lock().await;
        if let Some(process) = process.take() {
            process.end().await;
        }
    }

    /// Says whether the next dialog of a page that asks something is accepted. It holds until it is said again.
    pub fn accept_next_dialog(&self, accepts: bool) {
        self.state().accepts_dialog = accepts;
    }

    /// Does a step, and looks at what came of it. Secrets are masked in what is cut. May be dropped in between: the browser
    /// stays as it is then.
    ///
    /// # Errors
    /// [`BrowserError::Step`] where it can't be done, and [`BrowserError::Ended`] where the browser has ended, its page has
    /// crashed, or the page does not answer any more; then the browser is ended.
    pub async fn perform(
        &self,
        step: &BrowserStep,
        mask: &dyn SecretMask,
    ) -> Result<Observation, BrowserError> {
        let mut mouse = self.mouse.lock().await;
        let done = self.step(step, &mut mouse, mask).await;
        let error = match done {
            Ok(observation) => return Ok(observation),
            Err(StepError::Refused(error)) if self.is_open() && !self.has_crashed() => return Err(error),
            Err(StepError::Refused(_)) if self.is_open() => "its page has crashed".to_owned(),
            Err(StepError::Refused(error)) => error.to_string(),
            Err(StepError::Ended(text)) => text,
        };
        // The first one counts: later ones follow from it.
        let reason =
            self.given_up.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error).clone();
        self.close().await;
        Err(BrowserError::Ended(reason))
    }

    fn has_crashed(&self) -> bool {
        self.state().page().is_some_and(|page| page.is_crashed)
    }

    fn page(&self) -> Result<CurrentPage, StepError> {
        match self.state().page() {
            Some(page) if page.is_crashed => Err(StepError::Ended("its page has crashed".to_owned())),
            Some(page) => Ok(CurrentPage { session: page.session.clone(), frame: page.target.clone() }),
            None => Err(StepError::Ended("it has no page any more".to_owned())),
        }
    }

    async fn call<C: Command>(&self, page: &CurrentPage, command: &C) -> Result<C::Reply, StepError> {
        let called = self.connection.call(Some(&page.session), command, CALL).await;
        called.map_err(StepError::from)
    }

    async fn step(
        &self,
        step: &BrowserStep,
        mouse: &mut Option<(f64, f64)>,
        mask: &dyn SecretMask,
    ) -> Result<Observation, StepError> {
        let page = self.page()?;
        let (mut has_picture, mut has_elements) = (true, true);
        match step {
            BrowserStep::Launch { url } | BrowserStep::Navigate { url } => {
                self.load(&page, url, mask).await?
            }
            BrowserStep::Click(target) => {
                if !self.choose_hidden(&page, *target).await? {
                    let point = self.point(&page, *target).await?;
                    self.click(&page, point, mouse).await?;
                }
            }
            BrowserStep::Hover(target) => {
                let point = self.point(&page, *target).await?;
                *mouse = Some(point);
                self.mouse_event(&page, "mouseMoved", point, 0.0).await?;
                has_elements = false;
            }
            BrowserStep::Type { text, into } => {
                if let Some(target) = into {
                    let point = self.point(&page, *target).await?;
                    self.click(&page, point, mouse).await?;
                    if let BrowserTarget::Element(element) = target {
                        // A click on its label, say, leads elsewhere. What can't have the focus has got the click.
                        let _ = self.call(&page, &Focus { backend_node_id: self.node(*element)? }).await;
                        // The click has put the caret into the middle of the text that is there.
                        self.call_on(&page, *element, CARET_TO_END).await?;
                    }
                }
                self.type_text(&page, text).await?;
            }
            BrowserStep::Press { key } => {
                let key: KeyPress = key.parse().map_err(|error| StepError::refused(format!("{error}")))?;
                self.press(&page, &key).await?;
            }
            BrowserStep::ScrollDown | BrowserStep::ScrollUp => {
                let ScreenSize { width, height } = self.state().viewport;
                let sign = if *step == BrowserStep::ScrollDown { 1.0 } else { -1.0 };
                let point = mouse.unwrap_or((f64::from(width) / 2.0, f64::from(height) / 2.0));
                self.mouse_event(&page, "mouseWheel", point, sign * f64::from(height)).await?;
                has_elements = false;
            }
            BrowserStep::Resize(size) => {
                let ScreenSize { width, height } = *size;
                let metrics = SetDeviceMetrics { width, height, device_scale_factor: 1, mobile: false };
                self.call(&page, &metrics).await?;
                self.state().viewport = *size;
                has_elements = false;
            }
            BrowserStep::Screenshot => {}
            BrowserStep::Snapshot => has_picture = false,
            BrowserStep::Close => return Err(StepError::refused("It is closed by its task.")),
        }
        self.settle(Instant::now()).await;
        // A step may have opened a page, or closed one.
        let page = self.page()?;
        let elements = match has_elements {
            true => Some(self.elements(&page, mask).await?),
            false => None,
        };
        let screenshot = match (has_picture, elements.as_ref().filter(|_| *step == BrowserStep::Screenshot)) {
            (false, _) => None,
            (true, None) => self.picture(&page).await?,
            (true, Some(elements)) => self.marked_picture(&page, elements).await?,
        };
        let history = self.call(&page, &GetNavigationHistory {}).await?;
        let shown = history.entries.into_iter().nth(history.current_index);
        let (url, title) = shown.map(|shown| (shown.url, shown.title)).unwrap_or_default();
        let (viewport, is_loading) = {
            let state = self.state();
            (state.viewport, state.is_loading())
        };
        let (log, left_out) = self.take_log(mask);
        Ok(Observation {
            url,
            title,
            viewport,
            mouse: mouse.map(|(x, y)| (x.round() as u32, y.round() as u32)),
            screenshot,
            elements: elements.map(|elements| elements.lines.join("\n")),
            log,
            left_out,
            is_loading,
        })
    }

    /// Takes what was logged since the last time, and the number of older entries that were left out.
    fn take_log(&self, mask: &dyn SecretMask) -> (Vec<LogEntry>, u64) {
        let (log, left_out) = self.state().log.take();
        (log.iter().map(|entry| entry.shown(mask)).collect(), left_out)
    }

    /// Loads an address, and waits until it is there.
    async fn load(&self, page: &CurrentPage, url: &str, mask: &dyn SecretMask) -> Result<(), StepError> {
        if let Some(page) = self.state().page() {
            (page.failure, page.stopped_at) = (None, None);
        }
        let loaded = self.connection.call(Some(&page.session), &Navigate { url }, LOAD).await;
        let failed = match loaded {
            Ok(loaded) => loaded.error_text,
            Err(CallError::Silent(_)) => {
                self.call(page, &StopLoading {}).await?;
                Some(format!("it did not answer within {} seconds", LOAD.as_secs()))
            }
            Err(error) => return Err(error.into()),
        };
        let (failure, stopped_at) =
            self.state().page().map(|page| (page.failure, page.stopped_at.take())).unwrap_or_default();
        let Some(reason) = failed.or_else(|| failure.map(str::to_owned)) else { return Ok(()) };
        let shown = cut(&mask.whole(url), ADDRESS).into_owned();
        if let Some(to) = stopped_at {
            let (url, to) = (shown, to.shown(mask, OTHER_ADDRESS));
            return Err(StepError::Refused(BrowserError::LeadsElsewhere { url, to }));
        }
        let hint = match reason.as_str() {
            NOTHING_ANSWERS => " Is the server running?",
            "net::ERR_TUNNEL_CONNECTION_FAILED" => " The proxy of roo-lsp got no connection to the host.",
            _ => "",
        };
        // The log may tell more, such as the status of an empty answer; it comes a moment later.
        let _ = timeout(BUSY, self.settle(Instant::now())).await;
        let (log, left_out) = self.take_log(mask);
        let reason = format!("{shown} was not loaded: {reason}.{hint}");
        Err(StepError::Refused(BrowserError::NotLoaded { reason, log, left_out }))
    }

    /// Waits until nothing changes any more, but not for long.
    async fn settle(&self, begun: Instant) {
        let mut changes = self.changes.clone();
        let mut loaded = begun;
        loop {
            changes.borrow_and_update();
            let (is_loading, is_busy) = {
                let state = self.state();
                (state.is_loading(), state.is_busy())
            };
            let now = Instant::now();
            if is_loading {
                loaded = now;
            }
            let until = match (is_loading, is_busy) {
                (true, _) => begun + LOAD,
                (false, true) => loaded + BUSY,
                (false, false) => (now + QUIET).min(loaded + BUSY),
            };
            tokio::select! {
                biased;
                () = self.connection.ended().cancelled() => return,
                () = sleep_until(until) => {
                    self.state().give_up_opening();
                    return;
                }
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    fn node(&self, element: ElementRef) -> Result<i64, StepError> {
        let node = self.state().page().and_then(|page| page.refs.node(element));
        node.ok_or_else(|| {
            StepError::refused(format!(
                "There is no element {element} on this page. Refs are those of the last list of elements; `snapshot` \
                 makes a new one."
            ))
        })
    }

    /// Finds the point to click of a target, and scrolls there.
    async fn point(&self, page: &CurrentPage, target: BrowserTarget) -> Result<(f64, f64), StepError> {
        let viewport = self.state().viewport;
        let element = match target {
            BrowserTarget::Element(element) => element,
            BrowserTarget::Point(ScreenPoint { x, y, of }) => {
                let seen = of.unwrap_or(viewport);
                let scale =
                    |value: u32, from: u32, to: u32| f64::from(value) * f64::from(to) / f64::from(from);
                let point = (scale(x, seen.width, viewport.width), scale(y, seen.height, viewport.height));
                let is_inside = point.0 <= f64::from(viewport.width) && point.1 <= f64::from(viewport.height);
                return match is_inside {
                    true => Ok(point),
                    false => Err(StepError::refused(format!(
                        "{target} is outside of what is visible, which is {viewport} pixels. Scroll first."
                    ))),
                };
            }
        };
        let backend_node_id = self.node(element)?;
        let gone = |error: StepError| match error {
            StepError::Refused(_) => StepError::refused(format!(
                "{element} is not visible, or not on the page any more. `snapshot` lists the elements that are there."
            )),
            ended => ended,
        };
        self.call(page, &ScrollIntoView { backend_node_id }).await.map_err(gone)?;
        let quads = self.call(page, &GetContentQuads { backend_node_id }).await.map_err(gone)?.quads;
        match marks::around(&quads) {
            Some([left, top, width, height]) => Ok((left + width / 2.0, top + height / 2.0)),
            None => Err(gone(StepError::refused(""))),
        }
    }

    /// Clicks an option, a checkbox or a radio button that has no place on the page. Returns false for anything else.
    async fn choose_hidden(&self, page: &CurrentPage, target: BrowserTarget) -> Result<bool, StepError> {
        let BrowserTarget::Element(element) = target else { return Ok(false) };
        match self.call_on(page, element, CHOOSE_HIDDEN).await?.as_deref() {
            Some("done") => Ok(true),
            Some("disabled") => Err(StepError::refused(format!("{element} is disabled."))),
            _ => Ok(false),
        }
    }

    /// Calls a function of JavaScript with an element as its `this`. Returns the word that it returns, if it returns one; none
    /// where the element is not on the page any more.
    async fn call_on(
        &self,
        page: &CurrentPage,
        element: ElementRef,
        function: &'static str,
    ) -> Result<Option<String>, StepError> {
        let backend_node_id = self.node(element)?;
        let called = async {
            let resolved = self.call(page, &ResolveNode { backend_node_id }).await?;
            let call = CallFunctionOn {
                object_id: &resolved.object.object_id.unwrap_or_default(),
                function_declaration: function,
                return_by_value: true,
                user_gesture: true,
            };
            self.call(page, &call).await
        };
        match called.await {
            Ok(called) => Ok(called.result.value.as_str().map(str::to_owned)),
            Err(StepError::Refused(_)) => Ok(None),
            Err(ended) => Err(ended),
        }
    }

    async fn click(
        &self,
        page: &CurrentPage,
        point: (f64, f64),
        mouse: &mut Option<(f64, f64)>,
    ) -> Result<(), StepError> {
        *mouse = Some(point);
        self.mouse_event(page, "mouseMoved", point, 0.0).await?;
        let release = self.unless_done(page, &mouse_input("mouseReleased", point, 0.0));
        self.mouse_event(page, "mousePressed", point, 0.0).await?;
        let released = self.mouse_event(page, "mouseReleased", point, 0.0).await;
        release.done();
        match released {
            // The click closed the page.
            Err(StepError::Refused(_)) if self.page().is_ok_and(|now| now.session != page.session) => Ok(()),
            released => released,
        }
    }

    /// Has a call made without waiting for it where a step ends before it is done, such as one that is cancelled.
    fn unless_done<C: Command>(&self, page: &CurrentPage, command: &C) -> UnlessDone<'_> {
        UnlessDone {
            connection: &self.connection,
            notice: Some(Notice::from_command(&page.session, command)),
        }
    }

    async fn mouse_event(
        &self,
        page: &CurrentPage,
        kind: &'static str,
        point: (f64, f64),
        delta_y: f64,
    ) -> Result<(), StepError> {
        self.call(page, &mouse_input(kind, point, delta_y)).await.map(drop)
    }

    async fn type_text(&self, page: &CurrentPage, text: &str) -> Result<(), StepError> {
        let text = text.replace("\r\n", "\n");
        if text.chars().count() > BY_KEYS {
            return self.call(page, &InsertText { text: &text }).await.map(drop);
        }
        let mut buffer = [0; 4];
        for character in text.chars() {
            let key = match character {
                '\n' => "Enter".parse().ok(),
                '\t' => "Tab".parse().ok(),
                character => KeyPress::typing(character),
            };
            match key {
                Some(key) => self.press(page, &key).await?,
                None => {
                    let text = &*character.encode_utf8(&mut buffer);
                    self.call(page, &InsertText { text }).await?;
                }
            }
        }
        Ok(())
    }

    async fn press(&self, page: &CurrentPage, key: &KeyPress) -> Result<(), StepError> {
        let event = |kind, text| DispatchKey {
            r#type: kind,
            key: &key.key,
            code: &key.code,
            text,
            windows_virtual_key_code: key.number,
            modifiers: key.modifiers,
        };
        let down = if key.text.is_empty() { "rawKeyDown" } else { "keyDown" };
        let release = self.unless_done(page, &event("keyUp", ""));
        self.call(page, &event(down, &key.text)).await?;
        self.call(page, &event("keyUp", "")).await?;
        release.done();
        Ok(())
    }

    /// Reads the elements of the page and of the frames in it.
    async fn elements(&self, page: &CurrentPage, mask: &dyn SecretMask) -> Result<Snapshot, StepError> {
        let command = GetAccessibilityTree { frame_id: &page.frame };
        let tree = match self.connection.call(Some(&page.session), &command, CALL).await {
            Err(CallError::TooLong) => {
                let lines = vec!["(The page has too many elements to list them.)".to_owned()];
                return Ok(Snapshot { lines, ..Snapshot::default() });
            }
            tree => tree?,
        };
        let frames = self.call(page, &GetFrameTree {}).await?;
        let mut inner = Vec::new();
        children(&frames.frame_tree, &mut inner);
        let mut trees = FrameTrees::new();
        for frame_id in inner.into_iter().take(FRAMES) {
            // A frame with a process of its own is not seen from here, and one may be gone by now.
            let owner = self.call(page, &GetFrameOwner { frame_id }).await;
            let nodes = self.call(page, &GetAccessibilityTree { frame_id }).await;
            match (owner, nodes) {
                (Err(StepError::Ended(reason)), _) | (_, Err(StepError::Ended(reason))) => {
                    return Err(StepError::Ended(reason));
                }
                (Ok(owner), Ok(nodes)) => drop(trees.insert(owner.backend_node_id, nodes.nodes)),
                _ => {}
            }
        }
        let mut state = self.state();
        let Some(known) = state.page().filter(|known| known.session == page.session) else {
            return Ok(Snapshot::default());
        };
        Ok(snapshot(&tree.nodes, &trees, &mut known.refs, mask))
    }

    /// Takes a picture; none where the page paints nothing.
    async fn picture(&self, page: &CurrentPage) -> Result<Option<String>, StepError> {
        let capture = CaptureScreenshot { format: "jpeg", quality: QUALITY };
        match self.connection.call(Some(&page.session), &capture, PICTURE).await {
            Ok(taken) => Ok(Some(taken.data)),
            Err(CallError::Silent(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a picture on which the elements that are visible have their refs.
    async fn marked_picture(
        &self,
        page: &CurrentPage,
        elements: &Snapshot,
    ) -> Result<Option<String>, StepError> {
        let ScreenSize { width, height } = self.state().viewport;
        let mut marked = Vec::new();
        for (name, node) in &elements.named {
            if marked.len() == marks::MAX_MARKS {
                break;
            }
            let quads = match self.call(page, &GetContentQuads { backend_node_id: *node }).await {
                Ok(quads) => quads.quads,
                Err(StepError::Refused(_)) => continue,
                Err(ended) => return Err(ended),
            };
            let is_visible = |[left, top, w, h]: &marks::Rectangle| {
                *left < f64::from(width) && *top < f64::from(height) && left + w > 0.0 && top + h > 0.0
            };
            if let Some(place) = marks::around(&quads).filter(is_visible) {
                marked.push((*name, place));
            }
        }
        let world = CreateIsolatedWorld { frame_id: &page.frame, world_name: "roo-lsp" };
        let world = self.call(page, &world).await?.execution_context_id;
        let (drawing, removing) = (marks::drawing(&marked), marks::removing());
        let script = |expression| Evaluate { expression, context_id: world, return_by_value: true };
        let remove = self.unless_done(page, &script(&removing));
        self.call(page, &script(&drawing)).await?;
        let picture = self.picture(page).await;
        self.call(page, &script(&removing)).await?;
        remove.done();
        picture
    }
}

/// A call that is made when this is dropped, unless it is done.
struct UnlessDone<'a> {
    connection: &'a Connection,
    notice: Option<Notice>,
}

impl UnlessDone<'_> {
    fn done(mut self) {
        self.notice = None;
    }
}

impl Drop for UnlessDone<'_> {
    fn drop(&mut self) {
        if let Some(notice) = &self.notice {
            self.connection.notify(notice);
        }
    }
}

fn mouse_input(kind: &'static str, (x, y): (f64, f64), delta_y: f64) -> DispatchMouse {
    let is_click = matches!(kind, "mousePressed" | "mouseReleased");
    let (button, click_count) = if is_click { ("left", 1) } else { ("none", 0) };
    DispatchMouse { r#type: kind, x, y, button, click_count, delta_x: 0.0, delta_y }
}

/// Reason why a part of a step failed.
#[derive(Debug)]
enum StepError {
    /// It can't be done.
    Refused(BrowserError),
    /// The browser has ended or is of no use any more.
    Ended(String),
}

impl StepError {
    fn refused(text: impl Into<String>) -> Self {
        Self::Refused(BrowserError::Step(text.into()))
    }
}

impl From<CallError> for StepError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(text) => {
                Self::refused(format!("The browser refused it: {}.", one_line(&text, 300)))
            }
            CallError::TooLong => Self::refused("The page is too large for that."),
            CallError::Silent(_) | CallError::Ended(_) => Self::Ended(error.to_string()),
        }
    }
}

/// The frames within a frame.
fn children<'a>(tree: &'a FrameTree, found: &mut Vec<&'a str>) {
    for child in &tree.child_frames {
        if found.len() < FRAMES {
            found.push(&child.frame.id);
            children(child, found);
        }
    }
}

/// Reads a stream to its end, and keeps the last of it.
async fn keep_end(mut stream: impl AsyncRead + Unpin, kept: Arc<Mutex<VecDeque<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(count) = stream.read(&mut buffer).await
        && count > 0
    {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&buffer[..count]);
        let surplus = kept.len().saturating_sub(STDERR);
        kept.drain(..surplus);
    }
}
