//! The network of commands: hosts that the user names, by a proxy, and nothing else.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::*;

/// Serves a directory of files on a port of this machine, until the test ends.
pub(super) fn serve(directory: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or_default();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or("/").trim_matches('/').to_owned();
            let path = directory.join(path);
            let body = fs::read(if path.is_dir() { path.join("index.html") } else { path });
            let (status, body) = body.map_or((404, vec![]), |body| (200, body));
            let head = format!(
                "HTTP/1.1 {status} x\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    port
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn only_hosts_that_the_user_names_are_reached() {
    let workshop = Workshop::new(&[("served/hello", "hello from the machine")]);
    let port = serve(workshop.at("agent/served"));
    let line =
        format!("curl -sS --max-time 20 http://127.0.0.1:{port}/hello; curl -sS http://other.example/");
    let told = workshop.agent(&line);
    assert!(!told.contains("hello from"), "what listens on this machine is out of reach: {told}");
    assert!(told.contains("other.example:80 can't be reached: no rule matches this host"), "{told}");
    settings(&workshop, &format!("sandbox: {{network: [cargo, '127.0.0.1:{port}']}}\n"));
    let told = workshop.agent(&line);
    assert!(told.contains("hello from the machine"), "{told}");
    assert!(told.contains("other.example:80") && told.contains("sandbox.network"), "{told}");
    settings(&workshop, "sandbox: {network: ['https://x/']}\n");
    let told = workshop.agent("true");
    assert!(told.contains("sandbox.network: `https://x/` is not a host"), "{told}");
}

/// What git starts as its `ssh` connects by this, as OpenSSH takes no notice of the variables that name a proxy.
#[test]
fn git_gets_an_ssh_that_connects_by_the_proxy() {
    let workshop = Workshop::new(&[
        ("served/hello", "hello from the machine"),
        ("~/.ssh/known_hosts", "127.0.0.1 ssh-ed25519 known\n"),
        ("~/.ssh/id_ed25519", "canary\n"),
    ]);
    let port = serve(workshop.at("agent/served"));
    let line = format!(
        "eval \"set -- $GIT_SSH_COMMAND\"; line=$(printf %s \"${{3#ProxyCommand=}}\" | sed 's/%h/127.0.0.1/; s/%p/{port}/'); \
         printf 'GET /hello HTTP/1.0\\r\\n\\r\\n' | sh -c \"$line\"; ls ~/.ssh; cat ~/.ssh/known_hosts ~/.ssh/id_ed25519"
    );
    let told = workshop.agent(&line);
    assert!(told.contains("refused the connection to 127.0.0.1") && !told.contains("hello from"), "{told}");
    assert!(!told.contains("ssh-ed25519 known") && !told.contains("canary"), "{told}");
    settings(&workshop, &format!("sandbox: {{network: ['127.0.0.1:{port}']}}\n"));
    let told = workshop.agent(&line);
    assert!(told.contains("hello from the machine") && told.contains("ssh-ed25519 known"), "{told}");
    assert!(
        !told.contains("canary") && !told.contains("Permission denied"),
        "only what is shown is there: {told}"
    );
}

/// A company's registry on this machine, with a package and a token.
#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn npm_installs_from_a_companys_registry() {
    let workshop = Workshop::new(&[
        ("package.json", "{\"name\": \"app\", \"version\": \"1.0.0\"}\n"),
        ("~/ours/package.json", "{\"name\": \"ours\", \"version\": \"1.2.3\", \"main\": \"x.js\"}\n"),
        ("~/ours/x.js", "module.exports = 'from the company';\n"),
        ("~/served/ours.json", ""),
    ])
    .with("npm");
    assert_eq!(workshop.shell("cd ../home/ours && npm pack -s --pack-destination ../served").0, 0);
    let port = serve(workshop.at("home/served"));
    let package = format!(
        "{{\"name\": \"ours\", \"dist-tags\": {{\"latest\": \"1.2.3\"}}, \"versions\": {{\"1.2.3\": {{\"name\": \"ours\", \
         \"version\": \"1.2.3\", \"main\": \"x.js\", \"dist\": {{\"tarball\": \"http://127.0.0.1:{port}/ours-1.2.3.tgz\"}}}}}}}}"
    );
    workshop.write("home", "served/ours", &package);
    workshop.write(
        "home",
        ".npmrc",
        &format!("registry=http://127.0.0.1:{port}/\n//127.0.0.1:{port}/:_authToken=npm_secret1\n"),
    );
    settings(&workshop, &format!("sandbox: {{network: ['127.0.0.1:{port}']}}\n"));
    let told = workshop.both("npm install -s ours && node -e \"console.log(require('ours'))\"");
    assert!(told.contains("from the company"), "{told}");
    workshop.same("cat package.json package-lock.json");
}
