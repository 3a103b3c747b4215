//! Steps in a real Chromium, which asks a server of the test for every address: it is the browser's proxy.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use roo_browser::{
    Browser, BrowserError, BrowserProcess, Destinations, LaunchOptions, LaunchedBrowser, LogEntry, LogKind,
    Observation, SecretMask, WebHost, find_program,
};
use roo_catalog::{BrowserStep, BrowserTarget, ElementRef, ScreenPoint, ScreenSize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// Masks nothing.
struct NoMask;

impl SecretMask for NoMask {
    fn whole<'a>(&self, text: &'a str) -> Cow<'a, str> {
        text.into()
    }

    fn beginning<'a>(&self, text: &'a str) -> Cow<'a, str> {
        text.into()
    }
}

const VIEWPORT: ScreenSize = ScreenSize { width: 900, height: 600 };

const PAGE: &str = r#"<!doctype html><title>Todos</title>
<h1>Todos</h1>
<input aria-label="What to do?">
<button onclick="add()">Add</button>
<a href="http://other.test/">Elsewhere</a>
<a href="/second">Second</a>
<ul></ul>
<div style="height:3000px"></div>
<button onclick="console.warn('found it')">Far below</button>
<script>
function add() {
  const item = document.createElement('li');
  item.textContent = document.querySelector('input').value;
  document.querySelector('ul').append(item);
  console.log('added', item.textContent);
  if (item.textContent === 'wrong') missing();
}
</script>"#;

fn page(host: &str, path: &str) -> Option<(&'static str, String)> {
    let html = |body: &str| Some(("200 OK", format!("<!doctype html><title>{path}</title>{body}")));
    match (host, path) {
        ("other.test", _) => html("<h1>Another host</h1>"),
        (_, "/") => Some(("200 OK", PAGE.to_owned())),
        (_, "/second") => html("<h1>The second page</h1>"),
        (_, "/leaves") => html("<script>location = 'http://other.test/'</script>"),
        (_, "/redirects") => Some(("302 Found\r\nLocation: http://other.test/obey", String::new())),
        (_, "/opens") => html("<button onclick=\"window.open('/second')\">Open</button>"),
        (_, "/hangs") => html("<button onclick=\"for (;;) {}\">Hang</button>"),
        (_, "/floods") => {
            html("<script>for (let i = 0; i < 20000; i++) console.log('line ' + i)</script>flooded")
        }
        (_, "/dialog") => html("<button onclick=\"console.log(confirm('Sure?'))\">Ask</button>"),
        (_, "/select") => html(
            "<select aria-label=Size onchange=\"console.log('changed', this.value, {size: this.value, all: [1, 2]})\">\
             <option>small</option><option>large</option><option disabled>none</option></select>\
             <button>After</button>",
        ),
        (_, "/choices") => html(
            "<style>.hidden { position: absolute; opacity: 0; width: 0; height: 0 }\
             .clipped { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip: rect(0, 0, 0, 0) }\
             .outside { position: absolute; left: -9999px }</style><form onchange=\"console.log(event.target.id)\">\
             <label><input type=checkbox id=a class=hidden> Styled</label><label for=b>Clipped</label>\
             <input type=checkbox id=b class=clipped><input type=radio id=c class=outside aria-label=Outside>\
             <label><input type=checkbox id=d> Plain</label>\
             <label><input type=checkbox id=e class=hidden disabled> Never</label></form>",
        ),
        (_, "/fields") => html(
            "<input aria-label=Address value=\"https://example.com/a/very/long/path\">\
             <input type=email aria-label=Mail value=somebody@example.com><input type=number aria-label=Count value=123>\
             <textarea aria-label=Lines>first line\nsecond line</textarea>\
             <div contenteditable role=textbox aria-label=Rich>some <b>bold</b> text</div>",
        ),
        (_, "/download") => html("<a href=\"data:application/octet-stream,x\" download=\"x\">Load</a>"),
        (_, "/frame") => html("<iframe title=\"Inner\" src=\"/second\"></iframe>"),
        (_, "/missing") => Some(("404 Not Found", "gone".to_owned())),
        (_, "/empty") => Some(("500 Internal Server Error", String::new())),
        (_, "/file") => {
            Some(("200 OK\r\nContent-Disposition: attachment; filename=\"a.bin\"", "x".to_owned()))
        }
        (_, "/never") => None,
        _ => Some(("200 OK", String::new())),
    }
}

/// Serves every host, as a proxy. Returns its port, and the addresses that were asked for.
async fn serve() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let (reader, mut writer) = stream.into_split();
                let mut lines = BufReader::new(reader).lines();
                let Ok(Some(first)) = lines.next_line().await else { return };
                while let Ok(Some(line)) = lines.next_line().await
                    && !line.is_empty()
                {}
                let address = first.split(' ').nth(1).unwrap_or_default().to_owned();
                seen.lock().unwrap().push(address.clone());
                let rest = address.strip_prefix("http://").unwrap_or_default();
                let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                match page(host, path) {
                    Some((status, body)) => {
                        let answer = format!(
                            "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
                             Connection: close\r\n\r\n{body}",
                            body.len()
                        );
                        let _ = writer.write_all(answer.as_bytes()).await;
                    }
                    None => std::future::pending().await,
                }
            });
        }
    });
    (port, asked)
}

struct Running {
    child: Child,
    _profile: tempfile::TempDir,
}

impl BrowserProcess for Running {
    fn end(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.child.kill().await.unwrap();
        })
    }
}

struct Fixture {
    browser: Browser,
    asked: Arc<Mutex<Vec<String>>>,
    pid: u32,
}

impl Fixture {
    async fn start() -> Self {
        let (proxy, asked) = serve().await;
        let profile = tempfile::tempdir().unwrap();
        let options = LaunchOptions {
            profile: profile.path().to_owned(),
            proxy,
            viewport: VIEWPORT,
            is_confined: true,
        };
        let program = find_program(None, &std::env::var_os("PATH").unwrap(), &[]).unwrap();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (stderr, writer) = io::pipe().unwrap();
        let child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&0 0</dev/null", "sh"])
            .arg(program)
            .args(options.arguments())
            .arg("about:blank")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::from(writer))
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pid = child.id().unwrap();
        let (reader, writer) = tokio::net::UnixStream::from_std(ours).unwrap().into_split();
        let destinations = Destinations::default();
        let site = url::Url::parse("http://site.test/").unwrap();
        destinations.allow(WebHost::from_url(&site).unwrap());
        let stderr = tokio::net::unix::pipe::Receiver::from_owned_fd(OwnedFd::from(stderr)).unwrap();
        let launched = LaunchedBrowser {
            reader: Box::new(reader),
            writer: Box::new(writer),
            stderr: Box::new(stderr),
            process: Box::new(Running { child, _profile: profile }),
        };
        Self { browser: Browser::start(launched, VIEWPORT, destinations).await.unwrap(), asked, pid }
    }

    async fn does(&self, step: BrowserStep) -> Observation {
        self.browser.perform(&step, &NoMask).await.unwrap()
    }

    async fn opens(&self, path: &str) -> Observation {
        self.does(BrowserStep::Navigate { url: format!("http://site.test{path}") }).await
    }

    async fn clicks(&self, seen: &Observation, name: &str) -> Observation {
        self.does(BrowserStep::Click(BrowserTarget::Element(named(seen, name)))).await
    }
}

/// The ref of the element whose line has this.
fn named(seen: &Observation, name: &str) -> ElementRef {
    let elements = seen.elements.as_deref().unwrap();
    let line =
        elements.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {elements}"));
    line.split(['[', ']']).find_map(|part| part.strip_prefix("ref=")).unwrap().parse().unwrap()
}

fn of_kind(log: &[LogEntry], kind: LogKind) -> Vec<&str> {
    log.iter().filter(|entry| entry.kind == kind).map(|entry| entry.text.as_str()).collect()
}

#[tokio::test]
#[ignore = "needs Chromium; ./scripts/test runs it"]
async fn a_page_is_used_by_refs_and_by_points_and_its_console_is_read() {
    let fixture = Fixture::start().await;
    let seen = fixture.opens("/").await;
    assert_eq!((seen.url.as_str(), seen.title.as_str()), ("http://site.test/", "Todos"));
    assert!(seen.screenshot.as_ref().unwrap().starts_with("/9j/"), "a JPEG file");
    assert!(seen.elements.as_ref().unwrap().contains("- heading \"Todos\" [level=1]"), "{:?}", seen.elements);
    assert_eq!(of_kind(&seen.log, LogKind::Network), ["GET http://site.test/ → 200"]);

    let field = BrowserTarget::Element(named(&seen, "What to do?"));
    let typed = fixture.does(BrowserStep::Type { text: "Buy mi–lk".to_owned(), into: Some(field) }).await;
    assert!(typed.elements.as_ref().unwrap().contains("[focused]: Buy mi–lk"), "{:?}", typed.elements);
    let added = fixture.clicks(&typed, "button \"Add\"").await;
    assert_eq!(of_kind(&added.log, LogKind::Log), ["added Buy mi–lk"]);
    assert!(added.elements.as_ref().unwrap().contains("text: Buy mi–lk"), "{:?}", added.elements);
    assert_eq!(named(&added, "button \"Add\""), named(&seen, "button \"Add\""), "refs stay the same");

    fixture.does(BrowserStep::Click(field)).await;
    fixture.does(BrowserStep::Press { key: "Control+A".to_owned() }).await;
    fixture.does(BrowserStep::Type { text: "wrong".to_owned(), into: None }).await;
    let marked = fixture.does(BrowserStep::Screenshot).await;
    assert!(marked.screenshot.is_some() && !marked.elements.as_ref().unwrap().contains("roo"));
    let (x, y) = marked.mouse.unwrap();
    // The button is right of the field, in a picture of twice the size.
    let of = Some(ScreenSize { width: 1800, height: 1200 });
    let point = ScreenPoint { x: (x + 110) * 2, y: y * 2, of };
    let failed = fixture.does(BrowserStep::Click(BrowserTarget::Point(point))).await;
    let errors = of_kind(&failed.log, LogKind::Error);
    assert!(errors[0].contains("ReferenceError: missing is not defined"), "{:?}", failed.log);

    let far = fixture.clicks(&failed, "Far below").await;
    assert_eq!(of_kind(&far.log, LogKind::Warning).len(), 1, "{:?}", far.log);
    let up = fixture.does(BrowserStep::ScrollUp).await;
    assert_eq!((up.elements, up.viewport), (None, VIEWPORT));
    let size = ScreenSize { width: 400, height: 300 };
    assert_eq!(fixture.does(BrowserStep::Resize(size)).await.viewport, size);
    fixture.browser.close().await;
    assert!(!std::path::Path::new(&format!("/proc/{}", fixture.pid)).exists());
}

#[tokio::test]
#[ignore = "needs Chromium; ./scripts/test runs it"]
async fn a_text_is_typed_behind_what_a_field_holds() {
    let fixture = Fixture::start().await;
    let mut seen = fixture.opens("/fields").await;
    for (name, text, expected) in [
        ("Address", "NEW", ": https://example.com/a/very/long/pathNEW"),
        ("Mail", ".org", ": somebody@example.com.org"),
        ("Count", "45", "spinbutton \"Count\" [ref=e3] [focused]: 12345"),
        ("Lines", "!", ": first line ⏎ second line!"),
        ("Rich", "!", ": some bold text!"),
    ] {
        let into = Some(BrowserTarget::Element(named(&seen, name)));
        seen = fixture.does(BrowserStep::Type { text: text.to_owned(), into }).await;
        let elements = seen.elements.as_deref().unwrap();
        assert!(elements.contains(expected), "{name}: {elements}");
    }
}

#[tokio::test]
#[ignore = "needs Chromium; ./scripts/test runs it"]
async fn a_checkbox_that_is_hidden_for_its_styling_is_clicked() {
    let fixture = Fixture::start().await;
    let mut seen = fixture.opens("/choices").await;
    for (name, id) in [
        ("checkbox \"Styled\"", "a"),
        ("checkbox \"Clipped\"", "b"),
        ("radio \"Outside\"", "c"),
        ("checkbox \"Plain\"", "d"),
    ] {
        seen = fixture.clicks(&seen, name).await;
        assert_eq!(of_kind(&seen.log, LogKind::Log), [id], "{name}");
        let line = seen.elements.as_deref().unwrap().lines().find(|line| line.contains(name)).unwrap();
        assert!(line.contains("[checked]"), "{line}");
    }
    let click = BrowserStep::Click(BrowserTarget::Element(named(&seen, "checkbox \"Never\"")));
    let error = fixture.browser.perform(&click, &NoMask).await.unwrap_err();
    assert!(error.to_string().contains("is disabled"), "{error}");
}

#[tokio::test]
#[ignore = "needs Chromium; ./scripts/test runs it"]
async fn a_page_leads_to_no_other_host_by_itself() {
    let fixture = Fixture::start().await;
    let seen = fixture.opens("/").await;
    let clicked = fixture.clicks(&seen, "link \"Elsewhere\"").await;
    assert_eq!(clicked.url, "http://site.test/");
    let refused = of_kind(&clicked.log, LogKind::Refused);
    assert!(refused[0].contains("http://other.test/"), "{:?}", clicked.log);
    let left = fixture
        .browser
        .perform(&BrowserStep::Navigate { url: "http://site.test/leaves".to_owned() }, &NoMask)
        .await;
    let redirects = BrowserStep::Navigate { url: "http://site.test/redirects".to_owned() };
    let error = fixture.browser.perform(&redirects, &NoMask).await.unwrap_err();
    let expected = BrowserError::LeadsElsewhere {
        url: "http://site.test/redirects".to_owned(),
        to: "http://other.test/obey".to_owned(),
    };
    assert_eq!(error, expected);
    // The page was there before it tried to leave.
    assert_eq!(left.unwrap().url, "http://site.test/leaves");
    assert!(!fixture.asked.lock().unwrap().iter().any(|asked| asked.contains("other.test")));
    let second = fixture.opens("/second").await;
    assert_eq!(second.url, "http://site.test/second");
    for local in ["file:///etc/passwd", "chrome://version"] {
        let opened = fixture.browser.perform(&BrowserStep::Navigate { url: local.to_owned() }, &NoMask).await;
        let shown = opened.map(|seen| seen.elements.unwrap_or_default());
        assert!(!shown.as_ref().is_ok_and(|text| text.contains("root:")), "{local}: {shown:?}");
    }
}

#[tokio::test]
#[ignore = "needs Chromium; ./scripts/test runs it"]
async fn what_a_page_opens_by_itself_is_followed_or_refused() {
    let fixture = Fixture::start().await;
    let seen = fixture.opens("/opens").await;
    let opened = fixture.clicks(&seen, "Open").await;
    assert_eq!(opened.url, "http://site.test/second");
    let seen = fixture.opens("/dialog").await;
    let asked = fixture.clicks(&seen, "Ask").await;
    assert_eq!(of_kind(&asked.log, LogKind::Log), ["false"]);
    assert_eq!(of_kind(&asked.log, LogKind::Refused), ["a dialog (confirm) was declined: Sure?"]);
    let seen = fixture.opens("/download").await;
    let refused = fixture.clicks(&seen, "Load").await;
    assert!(
        of_kind(&refused.log, LogKind::Refused)[0].starts_with("a download was refused"),
        "{:?}",
        refused.log
    );
    let framed = fixture.opens("/frame").await;
    assert!(
        framed.elements.as_ref().unwrap().contains("  - heading \"The second page\""),
        "{:?}",
        framed.elements
    );
    let missing = fixture.opens("/missing").await;
    assert_eq!(of_kind(&missing.log, LogKind::Network)[0], "GET http://site.test/missing → 404");
}

#[tokio::test]
#[ignore = "needs Chromium; ./scripts/test runs it"]
async fn why_a_page_was_not_loaded_is_in_the_log_of_its_failure() {
    let fixture = Fixture::start().await;
    fixture.opens("/second").await;
    for (path, kind, expected) in [
        ("/empty", LogKind::Network, "GET http://site.test/empty → 500"),
        ("/file", LogKind::Refused, "a download was refused: http://site.test/file"),
    ] {
        let navigate = BrowserStep::Navigate { url: format!("http://site.test{path}") };
        let error = fixture.browser.perform(&navigate, &NoMask).await.unwrap_err();
        let BrowserError::NotLoaded { reason, log, .. } = error else { panic!("{error:?}") };
        assert!(reason.starts_with(&format!("http://site.test{path} was not loaded: net::ERR_")), "{reason}");
        assert!(of_kind(&log, kind).contains(&expected), "{log:?}");
    }
    let seen = fixture.does(BrowserStep::Snapshot).await;
    assert_eq!(seen.log, [], "it was told with the failure");
}

#[tokio::test]
#[ignore = "needs Chromium; ./scripts/test runs it"]
async fn an_option_of_a_closed_list_is_selected_and_a_dialog_accepted() {
    let fixture = Fixture::start().await;
    let seen = fixture.opens("/select").await;
    let selected = fixture.clicks(&seen, "option \"large\"").await;
    let logged = of_kind(&selected.log, LogKind::Log);
    assert_eq!(logged, ["changed large {size: \"large\", all: Array(2)}"]);
    assert!(selected.elements.as_deref().unwrap().contains(": large"), "{:?}", selected.elements);
    let click = |name| BrowserStep::Click(BrowserTarget::Element(named(&seen, name)));
    let error = fixture.browser.perform(&click("option \"none\""), &NoMask).await.unwrap_err();
    assert!(error.to_string().contains("is disabled"), "{error}");

    let seen = fixture.opens("/dialog").await;
    fixture.browser.accept_next_dialog(true);
    let asked = fixture.clicks(&seen, "button \"Ask\"").await;
    assert_eq!(of_kind(&asked.log, LogKind::Refused), ["a dialog (confirm) was accepted: Sure?"]);
    assert_eq!(of_kind(&asked.log, LogKind::Log), ["true"]);
    let asked = fixture.clicks(&seen, "button \"Ask\"").await;
    assert_eq!(of_kind(&asked.log, LogKind::Log), ["false"], "it was about one dialog");
}

#[tokio::test]
#[ignore = "needs Chromium; ./scripts/test runs it"]
async fn a_page_that_floods_or_never_comes_leaves_the_browser_usable() {
    let fixture = Fixture::start().await;
    let flooded = fixture.opens("/floods").await;
    assert!(
        flooded.log.len() <= 100 && flooded.left_out > 19_000,
        "{} {}",
        flooded.log.len(),
        flooded.left_out
    );
    let never = BrowserStep::Navigate { url: "http://site.test/never".to_owned() };
    let error = fixture.browser.perform(&never, &NoMask).await.unwrap_err();
    assert!(
        matches!(&error, BrowserError::NotLoaded { reason, .. } if reason.contains("did not answer within 30 seconds")),
        "{error}"
    );
    assert_eq!(fixture.opens("/second").await.url, "http://site.test/second");
    let gone = BrowserStep::Click(BrowserTarget::Element(ElementRef(999)));
    assert!(matches!(fixture.browser.perform(&gone, &NoMask).await, Err(BrowserError::Step(_))));
}

#[tokio::test]
#[ignore = "needs Chromium; ./scripts/test runs it"]
async fn a_page_that_hangs_and_a_browser_that_dies_end_with_a_reason() {
    let fixture = Fixture::start().await;
    let seen = fixture.opens("/hangs").await;
    let click = BrowserStep::Click(BrowserTarget::Element(named(&seen, "Hang")));
    let error = fixture.browser.perform(&click, &NoMask).await.unwrap_err();
    assert!(matches!(&error, BrowserError::Ended(text) if text.contains("has not answered")), "{error}");
    assert!(!fixture.browser.is_open());

    let fixture = Fixture::start().await;
    fixture.opens("/").await;
    std::process::Command::new("kill").args(["-9", &fixture.pid.to_string()]).status().unwrap();
    let look = tokio::time::timeout(
        Duration::from_secs(60),
        fixture.browser.perform(&BrowserStep::Snapshot, &NoMask),
    )
    .await;
    assert!(matches!(look.unwrap(), Err(BrowserError::Ended(_))));
}
