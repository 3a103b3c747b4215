//! Pages that a browser opens, judged with one that is open already: it is none but its side of the protocol.

use futures_util::future::BoxFuture;
use roo_browser::{Browser, BrowserProcess, Destinations, LaunchedBrowser, WebHost};
use roo_catalog::ScreenSize;
use roo_sandbox::egress::HostRules;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

use super::*;
use crate::tool_run::BrowserNetwork;

struct NoProcess;

impl BrowserProcess for NoProcess {
    fn end(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

struct NoNetwork;

impl BrowserNetwork for NoNetwork {
    fn renew(&self, _: &HostRules) {}
}

/// Answers what a browser is asked while it starts.
async fn answer(stream: DuplexStream) {
    let mut stream = BufReader::new(stream);
    let mut message = Vec::new();
    while stream.read_until(0, &mut message).await.unwrap_or_default() > 0 {
        let asked: Value = serde_json::from_slice(message.strip_suffix(b"\0").unwrap()).unwrap();
        let mut answers =
            vec![json!({ "id": asked["id"], "result": { "frameTree": { "frame": { "id": "t" } } } })];
        if asked["method"] == "Target.setAutoAttach" && asked["sessionId"].is_null() {
            let page = json!({ "sessionId": "s", "targetInfo": { "targetId": "t", "type": "page" } });
            answers.push(json!({ "method": "Target.attachedToTarget", "params": page }));
        }
        for answer in answers {
            stream.write_all(format!("{answer}\0").as_bytes()).await.unwrap();
        }
        message.clear();
    }
}

impl Fixture {
    /// Opens a browser whose user has allowed it these hosts. Returns its other side, which ends with what is returned.
    async fn open(&mut self, hosts: &[&str]) -> tokio_util::task::AbortOnDropHandle<()> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let answering = tokio::spawn(answer(theirs));
        let (reader, writer) = tokio::io::split(ours);
        let launched = LaunchedBrowser {
            reader: Box::new(reader),
            writer: Box::new(writer),
            stderr: Box::new(tokio::io::empty()),
            process: Box::new(NoProcess),
        };
        let destinations = Destinations::default();
        for host in hosts {
            let url = url::Url::parse(&format!("http://{host}/")).unwrap();
            destinations.allow(WebHost::from_url(&url).unwrap());
        }
        let viewport = ScreenSize { width: 900, height: 600 };
        let browser = Browser::start(launched, viewport, destinations).await.unwrap();
        self.browser.put(Arc::new(browser), Arc::new(NoNetwork));
        tokio_util::task::AbortOnDropHandle::new(answering)
    }

    async fn opens(&self, host: &str, verdict: &str) -> String {
        let params = json!({ "action": "navigate", "url": format!("http://{host}/") });
        let (got, reason) = self.verdict("browser_action", params).await;
        assert_eq!(got, verdict, "{host}: {reason}");
        reason
    }
}

/// Hosts that are this machine, or in no public network.
const CLOSED: &[&str] = &[
    "localhost:3000",
    "app.localhost:3000",
    "127.0.0.1:3000",
    "127.0.0.2",
    "0.0.0.0:3000",
    "[::1]:3000",
    "[::ffff:127.0.0.1]",
    "10.1.2.3",
    "192.168.1.1",
    "169.254.169.254",
    "[fd00:ec2::254]",
    "100.100.100.200",
];

#[tokio::test]
async fn the_setting_opens_public_hosts_and_no_other_unless_a_rule_of_the_user_names_it() {
    let auto_approve = AutoApprove { browser: true, ..AutoApprove::default() };
    let mut fixture = Fixture::with(&[], auto_approve);
    let _answering = fixture.open(&[]).await;
    fixture.opens("example.com", "allow autoApprove.browser").await;
    for host in CLOSED {
        fixture.opens(host, "ask network").await;
    }
    let reason = fixture.opens("169.254.169.254", "ask network").await;
    assert!(reason.contains("a metadata service"), "{reason}");
    let reason = fixture.opens("metadata.google.internal", "deny network").await;
    assert!(reason.contains("sandbox.network") && !reason.contains("intent"), "{reason}");
    let pages = RuleSubject::BrowserPages { host: "10.1.2.3".to_owned() };
    fixture.gate.policy_context.rules.add(RuleVerdict::Allow, pages, "x", 1).unwrap();
    assert!(
        fixture
            .verdict("browser_action", json!({ "action": "navigate", "url": "10.1.2.3" }))
            .await
            .0
            .starts_with("allow ")
    );
    fixture.set(|settings| settings.sandbox.network = vec!["192.168.1.1".to_owned()]);
    fixture.opens("192.168.1.1", "allow autoApprove.browser").await;
}

#[tokio::test]
async fn an_intent_bounds_a_browser_that_is_open_already() {
    let mut fixture = Fixture::new(&[]);
    let _answering = fixture.open(&["example.com"]).await;
    fixture.opens("example.com", "allow browser").await;
    fixture.opens("other.example", "ask network").await;

    let mut fixture = governed();
    fixture.bind("INT-001");
    let _answering = fixture.open(&["example.com"]).await;
    let reason = fixture.opens("example.com", "deny network").await;
    assert!(reason.starts_with("The intent that you work for"), "{reason}");
    fixture.rewrite("name: JWT", "name: JWT\n    network: [example.com]");
    fixture.bind("INT-001");
    fixture.opens("example.com", "allow browser").await;
    fixture.opens("other.example", "deny network").await;
}

#[tokio::test]
async fn nobody_is_asked_about_a_step_in_a_browser_that_has_ended() {
    let mut fixture = Fixture::new(&[]);
    let answering = fixture.open(&["example.com"]).await;
    fixture.opens("other.example", "ask network").await;
    drop(answering);
    let browser = fixture.browser.current().unwrap();
    while browser.is_open() {
        tokio::task::yield_now().await;
    }
    let reason = fixture.opens("other.example", "deny parameters").await;
    assert!(reason.starts_with("The browser was closed: the browser has ended"), "{reason}");
}
