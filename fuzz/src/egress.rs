//! The proxy of sandboxed commands: whatever a client sends, only hosts that a rule names are looked up, and nothing
//! is connected to that the rules close.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use roo_sandbox::egress::{Egress, HostRules, Resolve, Verdict};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::Input;

const PIECES: [&str; 40] = [
    "GET ",
    "CONNECT ",
    "POST ",
    "http://",
    "HTTP://",
    "https://",
    "a.test",
    "A.TEST.",
    "b.test",
    "evil.test",
    "127.0.0.1",
    "[::1]",
    "0x7f.1",
    "2130706433",
    "localhost",
    ":80",
    ":443",
    ":",
    "/",
    "?",
    "#",
    "@",
    "%2e",
    "%40",
    ".",
    "\\",
    " HTTP/1.1",
    " HTTP/1.0",
    "\r\n",
    "\n",
    "\r\n\r\n",
    "Host: evil.test",
    "Host: a.test",
    "Transfer-Encoding: chunked",
    "Content-Length: 5",
    "Connection: Upgrade",
    "Upgrade: x",
    "\u{5}\u{1}\0",
    "\u{5}\u{1}\0\u{3}\u{6}a.test\0P",
    "\u{5}\u{1}\0\u{3}\u{9}evil.test\0P",
];

/// Resolves to an address that no rule opens, and remembers what it was asked for.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl Resolve for Asked {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        self.0.lock().unwrap().push(name.to_owned());
        Box::pin(std::future::ready(Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])))
    }
}

/// The property.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut sent = Vec::new();
    while !input.is_empty() {
        match usize::from(input.byte()) {
            choice if choice < 224 => sent.extend_from_slice(PIECES[choice % PIECES.len()].as_bytes()),
            choice => sent.extend_from_slice(input.bytes(choice - 223)),
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let rules = ["a.test", "b.test"].iter().map(|pattern| pattern.parse().unwrap());
        let rules = rules.fold(HostRules::default(), HostRules::allow);
        let (_, rules) = watch::channel(Arc::new(rules));
        let (report, mut decisions) = mpsc::unbounded_channel();
        let (asked, cancel) = (Arc::new(Asked::default()), CancellationToken::new());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let resolver = Arc::clone(&asked) as Arc<dyn Resolve>;
        let served =
            tokio::spawn(Egress::new(rules, report).with_resolver(resolver).serve(listener, cancel.clone()));
        let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        // The proxy may have hung up.
        let _ = client.write_all(&sent).await;
        let _ = client.shutdown().await;
        let _ = client.read_to_end(&mut Vec::new()).await;
        cancel.cancel();
        served.await.unwrap().unwrap();
        for name in asked.0.lock().unwrap().iter() {
            assert!(matches!(name.as_str(), "a.test" | "b.test"), "{name} was looked up");
        }
        while let Ok(decision) = decisions.try_recv() {
            assert_eq!(decision.verdict, Verdict::Refused, "{decision:?}");
        }
    });
}
