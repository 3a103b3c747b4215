//! A server that misbehaves, over pipes in memory and in paused time.

use std::path::PathBuf;
use std::sync::Mutex as SyncMutex;
use std::sync::atomic::AtomicUsize;

use futures_util::future::BoxFuture;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::changed_file::DiskChange;
use crate::launcher::{LaunchedServer, ServerProcess};
use crate::location::Location;
use crate::message_frames::{Frames, send_message};

/// What the fake does with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Doesn't answer.
    Hang,
    /// Doesn't answer, and says that it is loading.
    Load,
    /// Ends, with a word on standard error.
    Die,
    /// Sends thousands of messages that nobody asked for before it answers.
    Flood,
    /// Sends what is no message.
    Garbage,
    /// Answers with an error.
    Refuse,
}

struct Fake {
    fault: SyncMutex<Fault>,
    encoding: &'static str,
    answer: Value,
    /// Problems that it is asked for, with one action for each range and one for all; none where it has neither.
    problems: Option<Value>,
    /// Notifications that it sends unasked, each so many milliseconds after its start.
    unasked: Vec<(u64, Value)>,
    launches: AtomicUsize,
    alive: Arc<AtomicUsize>,
    received: SyncMutex<Vec<Value>>,
}

impl Fake {
    fn new(fault: Fault) -> Arc<Self> {
        Self::with(fault, "utf-16", Value::Null)
    }

    fn with(fault: Fault, encoding: &'static str, answer: Value) -> Arc<Self> {
        Arc::new(Self::unshared(fault, encoding, answer))
    }

    fn with_problems(problems: Value) -> Arc<Self> {
        Arc::new(Self { problems: Some(problems), ..Self::unshared(Fault::None, "utf-16", Value::Null) })
    }

    fn telling(unasked: &[(u64, Value)]) -> Arc<Self> {
        Arc::new(Self { unasked: unasked.to_vec(), ..Self::unshared(Fault::None, "utf-16", Value::Null) })
    }

    fn unshared(fault: Fault, encoding: &'static str, answer: Value) -> Self {
        Self {
            fault: SyncMutex::new(fault),
            encoding,
            answer,
            problems: None,
            unasked: vec![],
            launches: AtomicUsize::new(0),
            alive: Arc::default(),
            received: SyncMutex::default(),
        }
    }

    fn servers(self: &Arc<Self>) -> LanguageServers {
        self.installed_as(InstalledServer::fake())
    }

    fn installed_as(self: &Arc<Self>, server: InstalledServer) -> LanguageServers {
        let launcher = Arc::new(FakeLauncher(Arc::clone(self)));
        LanguageServers::new(&["/w".into()], vec![server], launcher)
    }

    fn heal(&self) {
        *self.fault.lock().unwrap() = Fault::None;
    }

    fn launches(&self) -> usize {
        self.launches.load(Ordering::SeqCst)
    }

    fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    /// The parameters of the messages of a method.
    fn received(&self, method: &str) -> Vec<Value> {
        let received = self.received.lock().unwrap();
        received.iter().filter(|message| message["method"] == method).map(|it| it["params"].clone()).collect()
    }

    async fn serve(self: Arc<Self>, stdin: DuplexStream, mut stdout: DuplexStream, mut stderr: DuplexStream) {
        let mut stdin = Frames::new(stdin);
        let (begun, mut unasked) = (Instant::now(), self.unasked.iter().peekable());
        loop {
            let due = unasked.peek().map(|(after, _)| begun + Duration::from_millis(*after));
            let message = tokio::select! {
                biased;
                () = tokio::time::sleep_until(due.unwrap_or(begun)), if due.is_some() => {
                    if let Some((_, notification)) = unasked.next() {
                        send_message(&mut stdout, notification).await.unwrap();
                    }
                    continue;
                }
                message = stdin.next_message() => message,
            };
            let Ok(Some(message)) = message else { return };
            self.received.lock().unwrap().push(message.clone());
            if message["id"].is_null() {
                continue;
            }
            let fault = *self.fault.lock().unwrap();
            let is_question =
                message["method"].as_str().is_some_and(|method| method.starts_with("textDocument/"));
            let mut result = json!({ "result": self.answer });
            if message["method"] == "initialize" {
                let provider = self.problems.as_ref().map(|_| json!({}));
                let capabilities =
                    json!({ "positionEncoding": self.encoding, "diagnosticProvider": provider });
                result = json!({ "result": { "capabilities": capabilities } });
            }
            match (message["method"].as_str(), &self.problems) {
                (Some("textDocument/diagnostic"), Some(problems)) => {
                    result = json!({ "result": { "items": problems } });
                }
                (Some("textDocument/codeAction"), Some(_)) => {
                    let title = format!("Fix {}", message["params"]["range"]["start"]["character"]);
                    result = json!({ "result": [{ "title": title, "edit": {} }, { "title": "Fix all", "edit": {} }] });
                }
                _ => {}
            }
            match fault {
                _ if !is_question => {}
                Fault::None => {}
                Fault::Hang => continue,
                Fault::Load => {
                    let value = json!({ "token": 1, "value": { "kind": "begin", "title": "x" } });
                    send_message(&mut stdout, &json!({ "method": "$/progress", "params": value }))
                        .await
                        .unwrap();
                    continue;
                }
                Fault::Die => {
                    stderr.write_all(b"loading\nout of memory\n\n").await.unwrap();
                    // As pipes have no order between them.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    return;
                }
                Fault::Flood => {
                    for number in 0..5000 {
                        let note = json!({ "method": "$/x", "params": { "text": "x".repeat(500) } });
                        send_message(&mut stdout, &note).await.unwrap();
                        let stranger = json!({ "id": 100_000 + number, "result": "nobody asked" });
                        send_message(&mut stdout, &stranger).await.unwrap();
                    }
                }
                Fault::Garbage => {
                    stdout.write_all(b"Content-Length: 3\r\n\r\n}}}").await.unwrap();
                    continue;
                }
                Fault::Refuse => result = json!({ "error": { "code": 1, "message": "no\nproject" } }),
            }
            result["id"] = message["id"].clone();
            if send_message(&mut stdout, &result).await.is_err() {
                return;
            }
        }
    }
}

struct FakeLauncher(Arc<Fake>);

impl Launcher for FakeLauncher {
    fn may_launch(&self) -> bool {
        true
    }

    fn launch<'a>(&'a self, _: &'a InstalledServer) -> BoxFuture<'a, Result<LaunchedServer, String>> {
        self.0.launches.fetch_add(1, Ordering::SeqCst);
        self.0.alive.fetch_add(1, Ordering::SeqCst);
        let (stdin, input) = duplex(1 << 16);
        let (output, stdout) = duplex(1 << 16);
        let (errors, stderr) = duplex(1 << 16);
        tokio::spawn(Arc::clone(&self.0).serve(input, output, errors));
        let process = Box::new(FakeProcess(Arc::clone(&self.0.alive)));
        let launched = LaunchedServer {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            cache: Some("/cache".into()),
            process,
        };
        Box::pin(async { Ok(launched) })
    }
}

struct FakeProcess(Arc<AtomicUsize>);

impl ServerProcess for FakeProcess {
    fn end(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(self) })
    }
}

impl Drop for FakeProcess {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn place(text: &str, offset: usize) -> Place {
    Place { document: Document { path: "/w/a.rs".into(), text: text.into() }, offset }
}

/// Asks about `a` of a file.
async fn reply(servers: &LanguageServers, question: Question) -> Result<Reply, LanguageServerError> {
    servers.ask(question, &place("fn a() {}", 3), &[], &CancellationToken::new()).await
}

async fn ask(servers: &LanguageServers) -> Result<Answer, LanguageServerError> {
    reply(servers, Question::References).await.map(|reply| reply.answer)
}

fn progress(token: &str, kind: &str) -> Value {
    json!({ "method": "$/progress", "params": { "token": token, "value": { "kind": kind, "title": "x" } } })
}

fn status(quiescent: bool, health: &str, message: Option<&str>) -> Value {
    let params = json!({ "health": health, "quiescent": quiescent, "message": message });
    json!({ "method": "experimental/serverStatus", "params": params })
}

const NOTHING: Answer = Answer::Locations(vec![]);

fn complete(answer: Answer) -> Reply {
    Reply { answer, is_loading: false, is_unchecked: false, trouble: None }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_started_once_for_all_questions_and_stopped_at_the_end() {
    let fake = Fake::new(Fault::None);
    let servers = fake.servers();
    assert_eq!(fake.launches(), 0, "nobody asked");
    assert_eq!((ask(&servers).await, ask(&servers).await), (Ok(NOTHING), Ok(NOTHING)));
    assert_eq!((fake.launches(), fake.alive()), (1, 1));
    assert_eq!(fake.received("textDocument/didOpen").len(), 1);
    servers.shut_down().await;
    assert_eq!(fake.alive(), 0);
    assert_eq!(fake.received("shutdown").len(), 1, "in order");
    assert_eq!(ask(&servers).await, Err(LanguageServerError::Cancelled));
    assert_eq!(fake.launches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_nobody_asks_is_stopped_and_started_again_by_the_next_question() {
    let fake = Fake::new(Fault::None);
    let servers = fake.servers();
    ask(&servers).await.unwrap();
    tokio::time::sleep(IDLE + Duration::from_secs(5)).await;
    assert_eq!(fake.alive(), 0);
    ask(&servers).await.unwrap();
    assert_eq!((fake.launches(), fake.alive()), (2, 1));
    drop(servers);
    assert_eq!(fake.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn positions_are_in_the_unit_that_was_agreed_on() {
    let before = "'äß𝒳";
    let units = [("utf-8", before.len()), ("utf-16", before.encode_utf16().count()), ("utf-32", 4)];
    for (encoding, character) in units {
        let fake = Fake::with(Fault::None, encoding, Value::Null);
        let (text, cancel) = (format!("x\n{before}' a"), CancellationToken::new());
        let place = place(&text, 2 + before.len());
        let asked = fake.servers().ask(Question::Hover, &place, &[], &cancel).await;
        assert_eq!(asked.unwrap().answer, Answer::Text(String::new()));
        let position = &fake.received("textDocument/hover")[0]["position"];
        assert_eq!(position, &json!({ "line": 1, "character": character }), "{encoding}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_stopped_and_starts_again_after_a_pause() {
    let fake = Fake::new(Fault::Hang);
    let servers = fake.servers();
    let begun = Instant::now();
    assert_eq!(ask(&servers).await, Err(LanguageServerError::Hangs("fake-server")));
    assert_eq!(begun.elapsed().as_secs(), ANSWER.as_secs());
    assert_eq!(fake.alive(), 0);
    fake.heal();
    assert_eq!(ask(&servers).await, Err(LanguageServerError::Pausing("fake-server")));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(ask(&servers).await, Ok(NOTHING));
    assert_eq!(fake.launches(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_loads_for_long_is_left_alone() {
    let fake = Fake::new(Fault::Load);
    let servers = fake.servers();
    assert_eq!(ask(&servers).await, Err(LanguageServerError::Loading("fake-server")));
    assert_eq!((fake.launches(), fake.alive()), (1, 1));
    fake.heal();
    let reply = reply(&servers, Question::References).await;
    assert_eq!(reply, Ok(Reply { is_loading: true, ..complete(NOTHING) }), "asked all the same");
    let renamed = self::reply(&servers, Question::Rename("b".to_owned())).await;
    assert_eq!(renamed, Err(LanguageServerError::Loading("fake-server")), "it would leave uses out");
    assert_eq!(fake.received("textDocument/rename"), Vec::<Value>::new());
}

/// The seconds after which a server that tells this answers the first question, and its reply.
async fn first_reply(unasked: &[(u64, Value)]) -> (u64, Reply) {
    let fake = Fake::telling(unasked);
    let (servers, begun) = (fake.servers(), Instant::now());
    let reply = reply(&servers, Question::References).await.unwrap();
    (begun.elapsed().as_secs(), reply)
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_until_the_server_has_loaded_the_project() {
    let complete = complete(NOTHING);
    let first = first_reply(&[(700, progress("load", "begin")), (9000, progress("load", "end"))]).await;
    assert_eq!(first, (9, complete.clone()), "work that begins after the question");
    // Progress pauses between two parts and goes on with checks; the status counts.
    let told = [
        (10, status(false, "ok", None)),
        (20, progress("fetch", "begin")),
        (30, progress("fetch", "end")),
        (6000, progress("check", "begin")),
        (7000, status(true, "ok", None)),
    ];
    assert_eq!(first_reply(&told).await, (7, complete.clone()));
    let (after, reply) = first_reply(&[]).await;
    assert_eq!((after, reply), (1, complete), "one that says nothing of the kind");
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_a_part_of_the_project_says_so() {
    let (after, reply) = first_reply(&[(10, status(false, "ok", None))]).await;
    assert_eq!((after, reply.is_loading), (30, true));
    let broken = status(true, "error", Some("failed to load\nCargo.toml"));
    let (_, reply) = first_reply(&[(10, status(false, "ok", Some("loading"))), (20, broken)]).await;
    assert_eq!((reply.is_loading, reply.trouble), (false, Some("failed to load ⏎ Cargo.toml".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_again_and_again_is_given_up() {
    let fake = Fake::new(Fault::Die);
    let servers = fake.servers();
    for _ in 0..5 {
        let error = ask(&servers).await.unwrap_err();
        let reason = Some("out of memory".to_owned());
        assert_eq!(error, LanguageServerError::Died { server: "fake-server", reason });
        assert_eq!(fake.alive(), 0);
        tokio::time::sleep(Duration::from_secs(300)).await;
    }
    assert!(!servers.are_offered());
    assert_eq!(ask(&servers).await, Err(LanguageServerError::NoServer));
    assert_eq!(fake.launches(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_sends_unasked_is_left_unread_and_what_is_no_message_ends_it() {
    let fake = Fake::new(Fault::Flood);
    assert_eq!(ask(&fake.servers()).await, Ok(NOTHING));
    let fake = Fake::new(Fault::Garbage);
    let servers = fake.servers();
    let error = ask(&servers).await.unwrap_err();
    assert_eq!(error, LanguageServerError::Died { server: "fake-server", reason: None });
    assert_eq!(fake.alive(), 0);
    let fake = Fake::new(Fault::Refuse);
    let servers = fake.servers();
    let reason = "no ⏎ project".to_owned();
    assert_eq!(ask(&servers).await, Err(LanguageServerError::Refused { server: "fake-server", reason }));
    assert_eq!(fake.alive(), 1, "an error is an answer");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_question_ends_at_once_and_the_server_goes_on() {
    let fake = Fake::new(Fault::Hang);
    let (servers, cancel) = (fake.servers(), CancellationToken::new());
    let place = place("fn a() {}", 3);
    let question = servers.ask(Question::References, &place, &[], &cancel);
    let stop = async {
        // Behind the time that a server has to say that it loads.
        tokio::time::sleep(Duration::from_secs(5)).await;
        cancel.cancel();
    };
    assert_eq!(tokio::join!(question, stop).0, Err(LanguageServerError::Cancelled));
    fake.heal();
    assert_eq!(ask(&servers).await, Ok(NOTHING));
    assert_eq!(fake.received("$/cancelRequest").len(), 1);
    assert_eq!(fake.launches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_sees_the_text_as_it_is_and_no_document_that_is_not_asked_about() {
    let fake = Fake::with(
        Fault::None,
        "utf-16",
        json!([{ "uri": "file:///w/b.rs", "range": { "start": { "line": 4 } } }]),
    );
    let servers = fake.servers();
    let cancel = CancellationToken::new();
    let other = Document { path: "/w/b.rs".into(), text: "b".into() };
    let foreign = Document { path: "/w/c.py".into(), text: "c".into() };
    let answer = servers.ask(Question::Definition, &place("one", 0), &[other, foreign], &cancel).await;
    let found = Answer::Locations(vec![Location { path: PathBuf::from("/w/b.rs"), line: 4 }]);
    assert_eq!(answer.unwrap().answer, found);
    assert_eq!(fake.received("textDocument/didOpen").len(), 2);
    servers.ask(Question::Definition, &place("two", 0), &[], &cancel).await.unwrap();
    let changed = fake.received("textDocument/didChange");
    assert_eq!(changed[0]["contentChanges"], json!([{ "text": "two" }]));
    assert_eq!(fake.received("textDocument/didClose")[0]["textDocument"]["uri"], "file:///w/b.rs");
    let python = Place { document: Document { path: "/w/c.py".into(), text: "c".into() }, offset: 0 };
    let asked = servers.ask(Question::Hover, &python, &[], &cancel).await;
    assert_eq!(asked, Err(LanguageServerError::NoServer));
}

#[tokio::test(start_paused = true)]
async fn a_server_is_told_of_what_changed_on_disk_before_the_next_question() {
    let changed = |path: &str, change| ChangedFile { path: path.into(), change };
    let fake = Fake::new(Fault::None);
    let servers = fake.servers();
    servers.changed(&[changed("/w/before.rs", DiskChange::Created)]);
    ask(&servers).await.unwrap();
    let told = || fake.received("workspace/didChangeWatchedFiles");
    assert_eq!(told(), Vec::<Value>::new(), "it has read the disk since");
    servers
        .changed(&[changed("/w/b.rs", DiskChange::Created), changed("/w/Cargo.toml", DiskChange::Changed)]);
    servers.changed(&[
        changed("/w/b.rs", DiskChange::Changed),
        changed("/w/gone.rs", DiskChange::Deleted),
        changed("/w/again.rs", DiskChange::Deleted),
        changed("/w/again.rs", DiskChange::Created),
    ]);
    ask(&servers).await.unwrap();
    let event = |path: &str, number: u8| json!({ "uri": format!("file://{path}"), "type": number });
    let events =
        [event("/w/Cargo.toml", 2), event("/w/again.rs", 2), event("/w/b.rs", 1), event("/w/gone.rs", 3)];
    assert_eq!(told(), [json!({ "changes": events })]);
    let methods =
        fake.received.lock().unwrap().iter().map(|message| message["method"].clone()).collect::<Vec<_>>();
    let at = |method: &str| methods.iter().rposition(|sent| sent == method).unwrap();
    assert!(at("workspace/didChangeWatchedFiles") < at("textDocument/references"), "{methods:?}");
    ask(&servers).await.unwrap();
    assert_eq!(told().len(), 1, "once");
}

#[tokio::test(start_paused = true)]
async fn actions_are_asked_for_at_each_range_of_a_line_that_has_problems() {
    let at = |line: u64, start: u64, message: &str| {
        let range = json!({
            "start": { "line": line, "character": start }, "end": { "line": line, "character": start + 2 },
        });
        json!({ "range": range, "message": message })
    };
    let problems = [at(0, 0, "one"), at(0, 3, "two"), at(0, 3, "three"), at(1, 5, "elsewhere")];
    let fake = Fake::with_problems(problems.into());
    let servers = fake.servers();
    let cancel = CancellationToken::new();
    let answer = servers.ask(Question::Actions, &place("fn a() {}\n", 3), &[], &cancel).await;
    let Ok(Reply { answer: Answer::Actions(actions), .. }) = answer else { panic!("{answer:?}") };
    let titles: Vec<&str> = actions.iter().map(|action| action.title.as_str()).collect();
    assert_eq!(titles, ["Fix 0", "Fix all", "Fix 3"]);
    let contexts = fake.received("textDocument/codeAction");
    let counts = contexts.iter().map(|params| params["context"]["diagnostics"].as_array().unwrap().len());
    assert_eq!(counts.collect::<Vec<_>>(), [1, 2]);
}

/// Problems of a saved file by a server that sends these unasked, and is asked for others.
async fn checked_problems(text: &str, saved: &str, unasked: &[(u64, Value)]) -> (Arc<Fake>, PathBuf, Reply) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap().join("a.rs");
    std::fs::write(&path, saved).unwrap();
    let asked = json!([{ "range": range(0, 3), "severity": 1, "code": "E0107", "message": "by the server" }]);
    let place_in = |uri: &str| unasked.iter().map(|(after, sent)| (*after, sent_about(sent, uri))).collect();
    let unasked: Vec<(u64, Value)> = place_in(&roo_workspace::file_uri(&path));
    let fake = Arc::new(Fake {
        problems: Some(asked),
        unasked,
        ..Fake::unshared(Fault::None, "utf-16", Value::Null)
    });
    let servers = fake.installed_as(InstalledServer::fake_with_compiler());
    let place = Place { document: Document { path: path.clone(), text: text.into() }, offset: 0 };
    let asked = servers.ask(Question::CheckedProblems, &place, &[], &CancellationToken::new()).await;
    (fake, path, asked.unwrap())
}

fn range(line: u64, character: u64) -> Value {
    let at = json!({ "line": line, "character": character });
    json!({ "start": at, "end": at })
}

/// A notification about a document.
fn sent_about(sent: &Value, uri: &str) -> Value {
    let mut sent = sent.clone();
    if sent["method"] == "textDocument/publishDiagnostics" {
        sent["params"]["uri"] = uri.into();
    }
    sent
}

fn published(problems: Value) -> Value {
    json!({ "method": "textDocument/publishDiagnostics", "params": { "diagnostics": problems } })
}

fn messages(reply: &Reply) -> Vec<&str> {
    let Answer::Problems { found, .. } = &reply.answer else { panic!("{reply:?}") };
    found.iter().map(|problem| problem.message.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_compiler_finds_in_a_saved_file_is_among_its_problems() {
    let by_compiler = json!([
        { "range": range(0, 0), "severity": 1, "code": "E0107", "message": "the same by the compiler" },
        { "range": range(1, 0), "severity": 1, "code": "E0382", "message": "use of moved value" },
        { "range": range(1, 4), "severity": 4, "code": "E0382", "message": "original diagnostic" },
    ]);
    let text = "fn a() {}\nfn b() {}\n";
    let unasked = [
        (200, progress("rust-analyzer/flycheck/0", "begin")),
        (5000, progress("rust-analyzer/flycheck/0", "end")),
        (5001, published(by_compiler)),
    ];
    let (fake, path, reply) = checked_problems(text, text, &unasked).await;
    assert_eq!(messages(&reply), ["by the server (E0107)", "use of moved value (E0382)"]);
    assert!(!reply.is_unchecked);
    let saved = &fake.received("textDocument/didSave")[0]["textDocument"]["uri"];
    assert_eq!(*saved, roo_workspace::file_uri(&path));
    let options = &fake.received("initialize")[0]["initializationOptions"];
    assert_eq!(*options, json!({ "cargo": { "targetDir": "/cache/target" } }));
}

#[tokio::test(start_paused = true)]
async fn problems_without_a_compilers_check_say_so() {
    let text = "fn a() {}\n";
    // From before, about a text that was another one.
    let old = (100, published(json!([{ "range": range(0, 0), "severity": 1, "message": "old" }])));
    let begun = (200, progress("rust-analyzer/flycheck/0", "begin"));
    let (_, _, reply) = checked_problems(text, text, &[old.clone(), begun]).await;
    assert_eq!((messages(&reply), reply.is_unchecked), (vec!["by the server (E0107)"], true), "it goes on");
    let (_, _, reply) = checked_problems(text, text, &[]).await;
    assert!(reply.is_unchecked, "it never began");
    let (fake, _, reply) = checked_problems(text, "fn b() {}\n", &[old]).await;
    assert_eq!(
        (messages(&reply), reply.is_unchecked),
        (vec!["by the server (E0107)"], true),
        "it is not saved"
    );
    assert_eq!(fake.received("textDocument/didSave"), Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_its_settings_gets_them() {
    let section = |name: &str| json!({ "section": name });
    let items = json!({ "items": [section("rust-analyzer"), section("editor")] });
    let asks = json!({ "id": 7, "method": "workspace/configuration", "params": items });
    let (fake, ..) = checked_problems("a", "b", &[(1, asks)]).await;
    let received = fake.received.lock().unwrap();
    let answer = received.iter().find(|message| message["id"] == 7 && message["method"].is_null()).unwrap();
    assert_eq!(answer["result"], json!([{ "cargo": { "targetDir": "/cache/target" } }, null]));
}
