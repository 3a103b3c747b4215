//! The filtering proxy under real programs: curl, git, pip, npm and cargo, against servers on loopback that a rule
//! names. The programs find the proxy by the variables that commands get; one has a network namespace of its own.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use roo_sandbox::egress::{Egress, EgressDecision, EgressSummary, HostRules, Resolve, proxy_environment};
use rustix::cmsg_space;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Every name is this machine.
struct Loopback;

impl Resolve for Loopback {
    fn resolve<'a>(&'a self, _: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(std::future::ready(Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])))
    }
}

/// A server of files, a proxy that may reach it, and a place for programs to work in.
struct Fixture {
    directory: TempDir,
    /// The port of the server of files.
    port: u16,
    /// Requests that it got: method, target and `Host`.
    requests: Arc<Mutex<Vec<String>>>,
    proxy: u16,
    decisions: mpsc::UnboundedReceiver<EgressDecision>,
    cancel: CancellationToken,
    served: JoinHandle<io::Result<EgressSummary>>,
}

impl Fixture {
    /// With rules that name a host, and nothing else.
    async fn naming(host: &str) -> Self {
        Self::serving(std::net::TcpListener::bind("127.0.0.1:0").unwrap(), host).await
    }

    async fn serving(listener: std::net::TcpListener, host: &str) -> Self {
        let directory = TempDir::new().unwrap();
        for name in ["files", "work", "home"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let requests = Arc::default();
        let port = serve_files(directory.path().join("files"), Arc::clone(&requests)).await;
        let rules = HostRules::default().allow(host.parse().unwrap()).allow("127.0.0.1".parse().unwrap());
        let (_, rules) = watch::channel(Arc::new(rules));
        let proxy = listener.local_addr().unwrap().port();
        let (report, decisions) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let egress = Egress::new(rules, report).with_resolver(Arc::new(Loopback));
        let served = tokio::spawn(egress.serve(listener, cancel.clone()));
        Self { directory, port, requests, proxy, decisions, cancel, served }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Runs a program with nothing but the variables by which it finds the proxy.
    async fn try_run(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Output {
        let program = program.as_ref();
        let own = ["PATH", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "PYENV_ROOT"];
        let own = own.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let home = self.path("home");
        // Some look for news about themselves now and then.
        let quiet = [("npm_config_update_notifier", "false"), ("PIP_DISABLE_PIP_VERSION_CHECK", "1")];
        Command::new(program)
            .args(arguments)
            .current_dir(self.path("work"))
            .env_clear()
            .envs(own)
            .envs(proxy_environment(self.proxy, |_| None))
            .envs([
                ("HOME", home.as_os_str()),
                ("CARGO_HOME", home.as_os_str()),
                ("LANG", "C.UTF-8".as_ref()),
            ])
            .envs(quiet)
            .kill_on_drop(true)
            .output()
            .await
            .unwrap_or_else(|error| panic!("{} is needed: {error}", program.display()))
    }

    async fn run(&self, program: impl AsRef<Path>, arguments: &[&str]) -> String {
        let output = self.try_run(program, arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// The decisions of the proxy, after its end.
    async fn end(mut self) -> Vec<String> {
        self.cancel.cancel();
        self.served.await.unwrap().unwrap();
        let mut decided = Vec::new();
        while let Some(decision) = self.decisions.recv().await {
            decided.push(format!("{:?} {}", decision.verdict, decision.host));
        }
        decided
    }
}

/// Serves the files of a directory, and `PUT` bodies back. Returns its port.
async fn serve_files(directory: PathBuf, requests: Arc<Mutex<Vec<String>>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (directory, requests) = (directory.clone(), Arc::clone(&requests));
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let host =
                    request.headers().get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
                requests.lock().unwrap().push(format!("{} {} {host}", request.method(), request.uri()));
                let path = directory.join(request.uri().path().trim_start_matches('/'));
                async move {
                    let body = match request.method().as_str() {
                        "PUT" => request.into_body().collect().await.ok().map(|body| body.to_bytes()),
                        _ if path.is_dir() => std::fs::read(path.join("index.html")).ok().map(Bytes::from),
                        _ => std::fs::read(path).ok().map(Bytes::from),
                    };
                    // pip reads no index that doesn't say what it is.
                    let (found, kind) = (body.is_some(), HeaderValue::from_static("text/html"));
                    let mut response = Response::new(Full::new(body.unwrap_or_default()));
                    response.headers_mut().insert(CONTENT_TYPE, kind);
                    if !found {
                        *response.status_mut() = StatusCode::NOT_FOUND;
                    }
                    Ok::<_, Infallible>(response)
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn curl_reaches_a_host_that_a_rule_names_by_each_protocol() {
    let fixture = Fixture::naming("files.test").await;
    let large: Vec<u8> = (0..4_000_000_u32).map(|number| (number / 7 % 251) as u8).collect();
    fixture.put("files/large", &large);
    let url = format!("http://files.test:{}/large", fixture.port);
    let socks = format!("socks5h://127.0.0.1:{}", fixture.proxy);
    for options in [&[][..], &["--proxytunnel"], &["--proxy", &socks], &["--http1.0"]] {
        let arguments = [&["-sS", "--fail", "-o", "got", &url], options].concat();
        fixture.run("curl", &arguments).await;
        assert!(std::fs::read(fixture.path("work/got")).unwrap() == large, "{options:?}");
    }
    // A body in chunks there and back.
    let upload = ["-sS", "--fail", "-T", "-", "-o", "back", &url];
    let command = format!("curl {} <got", upload.map(|word| format!("'{word}'")).join(" "));
    fixture.run("sh", &["-c", &command]).await;
    assert!(std::fs::read(fixture.path("work/back")).unwrap() == large);
    assert_eq!(fixture.end().await, ["Allowed files.test"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn curl_is_told_which_host_the_sandbox_refused() {
    let fixture = Fixture::naming("files.test").await;
    fixture.put("files/a", "content");
    let port = fixture.port;
    let answer = fixture.run("curl", &["-sS", &format!("http://other.test:{port}/a")]).await;
    assert!(answer.contains(&format!("refused the connection to other.test:{port}")), "{answer}");
    let output = fixture.try_run("curl", &["-sS", "-v", "https://other.test/a"]).await;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("403 Refused by the sandbox of roo-lsp"), "{told}");
    let socks = format!("socks5h://127.0.0.1:{}", fixture.proxy);
    let output = fixture.try_run("curl", &["-sS", "--proxy", &socks, "http://other.test/a"]).await;
    assert!(!output.status.success(), "{output:?}");
    // One connection to the proxy, two hosts; and another host in the header than in the URL.
    let (allowed, refused) = (format!("http://files.test:{port}/a"), format!("http://127.0.0.2:{port}/a"));
    let answer = fixture
        .run(
            "curl",
            &["-sS", "--noproxy", "", "-H", "Host: other.test", &allowed, &refused, "-w", "|%{http_code}|"],
        )
        .await;
    assert!(answer.starts_with("content|200|") && answer.ends_with("|403|"), "{answer}");
    assert_eq!(fixture.requests(), [format!("GET /a files.test:{port}")]);
    assert_eq!(
        fixture.end().await,
        [
            "Refused other.test",
            "Refused other.test",
            "Refused other.test",
            "Allowed files.test",
            "Refused 127.0.0.2"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn what_is_on_the_commands_own_loopback_does_not_go_by_the_proxy() {
    let fixture = Fixture::naming("files.test").await;
    fixture.put("files/a", "content");
    for host in ["127.0.0.1", "localhost", "0.0.0.0"] {
        let answer = fixture.run("curl", &["-sS4", &format!("http://{host}:{}/a", fixture.port)]).await;
        assert_eq!(answer, "content");
    }
    assert_eq!(fixture.end().await, [""; 0]);
}

/// Passes a listener of its own network namespace to standard input, reads a port from there, and asks for files on it.
#[cfg(target_os = "linux")]
const WITHOUT_NETWORK: &str = r#"
import fcntl, socket, struct, subprocess
channel = socket.socket(fileno=0)
set_flags, up = 0x8914, 1
fcntl.ioctl(socket.socket(), set_flags, struct.pack('16sh22x', b'lo', up))
listener = socket.create_server(('127.0.0.1', 0))
socket.send_fds(channel, [b'.'], [listener.fileno()])
proxy = 'http://127.0.0.1:%d' % listener.getsockname()[1]
listener.close()
port = channel.recv(10).decode()
for options in ['--noproxy', '*', 'http://127.0.0.1'], ['http://files.test'], ['http://other.test']:
    curl = ['curl', '-sS', '--stderr', '-', '--proxy', proxy, *options[:-1], f'{options[-1]}:{port}/a']
    print(subprocess.run(curl, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout.splitlines()[0])
"#;

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_command_without_a_network_reaches_hosts_by_a_listener_in_its_namespace() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let child = Command::new("unshare")
        .args(["--map-root-user", "--net", "python3", "-c", WITHOUT_NETWORK])
        .stdin(std::os::fd::OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(&ours, &mut [io::IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let Some(RecvAncillaryMessage::ScmRights(mut handles)) = control.drain().next() else {
        panic!("a listener")
    };
    let fixture = Fixture::serving(handles.next().unwrap().into(), "files.test").await;
    fixture.put("files/a", "content");
    (&ours).write_all(fixture.port.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().await.unwrap();
    let lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    let [direct, allowed, refused] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(direct.contains("Failed to connect") || direct.contains("Couldn't connect"), "{direct}");
    assert_eq!(allowed, "content");
    assert!(refused.contains("refused the connection to other.test"), "{refused}");
    assert_eq!(fixture.end().await, ["Allowed files.test", "Refused other.test"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn git_clones() {
    let fixture = Fixture::naming("git.test").await;
    fixture.put("work/origin/a.txt", "content");
    let make = "cd origin && git init -q && git add . && git -c user.name=a -c user.email=a@a commit -q -m one && \
                git clone -q --bare . ../../files/origin.git && git -C ../../files/origin.git update-server-info";
    fixture.run("sh", &["-c", make]).await;
    let url = |host: &str| format!("http://{host}:{}/origin.git", fixture.port);
    fixture.run("git", &["clone", "-q", &url("git.test"), "clone"]).await;
    assert_eq!(std::fs::read_to_string(fixture.path("work/clone/a.txt")).unwrap(), "content");
    let output = fixture.try_run("git", &["clone", "-q", &url("other.test"), "other"]).await;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("403"), "{told}");
    assert_eq!(fixture.end().await, ["Allowed git.test", "Refused other.test"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn pip_installs() {
    let fixture = Fixture::naming("pypi.test").await;
    fixture.run("python3", &["-m", "venv", "venv"]).await;
    // A wheel is an archive with a record of what it holds.
    let wheel = "import sys, zipfile\n\
        z = zipfile.ZipFile(sys.argv[1], 'w')\n\
        z.writestr('demo.py', 'answer = 42\\n')\n\
        z.writestr('demo-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n')\n\
        z.writestr('demo-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        z.writestr('demo-1.0.dist-info/RECORD', 'demo.py,,\\n')\n\
        z.close()\n";
    fixture.put("work/wheel.py", wheel);
    fixture.put(
        "files/simple/demo/index.html",
        "<a href='/files/demo-1.0-py3-none-any.whl'>demo-1.0-py3-none-any.whl</a>",
    );
    fixture.put("files/files/.keep", "");
    fixture.run("python3", &["wheel.py", "../files/files/demo-1.0-py3-none-any.whl"]).await;
    let index = format!("http://pypi.test:{}/simple/", fixture.port);
    let (pip, python) = (fixture.path("work/venv/bin/pip"), fixture.path("work/venv/bin/python"));
    fixture.run(&pip, &["install", "-q", "--index-url", &index, "--trusted-host", "pypi.test", "demo"]).await;
    assert_eq!(fixture.run(&python, &["-c", "import demo; print(demo.answer)"]).await, "42\n");
    assert_eq!(fixture.end().await, ["Allowed pypi.test"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn npm_installs() {
    let fixture = Fixture::naming("npm.test").await;
    fixture.put(
        "work/demo/package.json",
        json!({ "name": "demo", "version": "1.0.0", "main": "index.js" }).to_string(),
    );
    fixture.put("work/demo/index.js", "module.exports = 42;\n");
    fixture.put("files/demo/-/.keep", "");
    fixture.run("npm", &["pack", "--silent", "./demo", "--pack-destination", "../files/demo/-"]).await;
    let registry = format!("http://npm.test:{}/", fixture.port);
    let tarball = format!("{registry}demo/-/demo-1.0.0.tgz");
    let version = json!({ "name": "demo", "version": "1.0.0", "dist": { "tarball": tarball } });
    let versions = BTreeMap::from([("1.0.0", version)]);
    let packument = json!({ "name": "demo", "dist-tags": { "latest": "1.0.0" }, "versions": versions });
    fixture.put("files/demo/index.html", packument.to_string());
    fixture.put("work/app/package.json", "{}");
    let command = format!("cd app && npm install --silent --no-audit --no-fund --registry {registry} demo");
    fixture.run("sh", &["-c", &command]).await;
    assert_eq!(fixture.run("node", &["-p", "require('./app/node_modules/demo')"]).await, "42\n");
    assert_eq!(fixture.end().await, ["Allowed npm.test"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cargo_fetches() {
    let fixture = Fixture::naming("crates.test").await;
    fixture.put(
        "work/demo-1.0.0/Cargo.toml",
        "[package]\nname = \"demo\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
    );
    fixture.put("work/demo-1.0.0/src/lib.rs", "");
    fixture.put("files/dl/demo/1.0.0/.keep", "");
    fixture.run("tar", &["czf", "../files/dl/demo/1.0.0/download", "demo-1.0.0"]).await;
    let archive = std::fs::read(fixture.path("files/dl/demo/1.0.0/download")).unwrap();
    let checksum: String = Sha256::digest(&archive).iter().map(|byte| format!("{byte:02x}")).collect();
    let registry = format!("http://crates.test:{}", fixture.port);
    fixture.put(
        "files/index/config.json",
        json!({ "dl": format!("{registry}/dl") })
            .to_string()
            .replace("/dl\"", "/dl/{crate}/{version}/download\""),
    );
    let entry = json!({
        "name": "demo", "vers": "1.0.0", "deps": [], "cksum": checksum, "features": {}, "yanked": false,
    });
    fixture.put("files/index/de/mo/demo", entry.to_string());
    fixture.put(
        "work/app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
         [dependencies]\ndemo = { version = \"1\", registry = \"demo\" }\n",
    );
    fixture.put("work/app/src/lib.rs", "");
    fixture.put(
        "work/app/.cargo/config.toml",
        format!("[registries.demo]\nindex = \"sparse+{registry}/index/\"\n"),
    );
    let cargo = std::env::var("CARGO").expect("cargo runs the tests");
    fixture.run("sh", &["-c", &format!("cd app && '{cargo}' fetch --quiet")]).await;
    let fetched = fixture.requests().iter().filter(|request| request.contains("/dl/demo/1.0.0")).count();
    assert_eq!(fetched, 1, "{:?}", fixture.requests());
    assert_eq!(fixture.end().await, ["Allowed crates.test"]);
}
