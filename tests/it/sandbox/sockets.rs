//! Unix sockets with a path: a command reaches those that commands of its request have bound, and no others.

use std::os::unix::net::UnixListener;

use roo_sandbox::exec::sandbox::PrivateNetwork;

use super::*;

/// A client that says what becomes of its connection.
fn connect(path: &str) -> String {
    format!(
        "python3 -c 'import socket
s = socket.socket(socket.AF_UNIX)
try: s.connect(\"{path}\"); print(\"connected\")
except OSError as error: print(type(error).__name__)'"
    )
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_socket_that_was_bound_by_a_relative_path_is_not_reached() {
    let fixture = Fixture::new().await;
    std::env::set_current_dir(fixture.at("ws")).unwrap();
    let _listener = UnixListener::bind("relative.sock").unwrap();
    for path in ["relative.sock", "./src/../relative.sock", fixture.at("ws/relative.sock").to_str().unwrap()]
    {
        fixture.check(&connect(path), "PermissionError").await;
    }
    fixture.check(&format!("ln -s ../relative.sock src/l; {}", connect("src/l")), "PermissionError").await;
    fixture
        .check(&format!("exec 3<.; {}", connect("/proc/self/fd/3/relative.sock")), "PermissionError")
        .await;
    fixture.check(&format!("mv relative.sock src/moved; {}", connect("src/moved")), "PermissionError").await;
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_socket_that_was_bound_after_the_start_is_not_reached() {
    let fixture = Fixture::new().await;
    std::process::Command::new("mkfifo").arg(fixture.at("ws/go")).status().unwrap();
    let line = format!("echo ready; read x <go; {}", connect("late.sock"));
    let (mut listener, mut output) = (None, String::new());
    let on_output = |text: &str| {
        output.push_str(text);
        if listener.is_none() && output.contains("ready") {
            listener = Some(UnixListener::bind(fixture.at("ws/late.sock")).unwrap());
            fs::write(fixture.at("ws/go"), "go\n").unwrap();
        }
    };
    let (command, environment, confinement) =
        (fixture.command(&line), fixture.environment(), fixture.confinement());
    let cancel = CancellationToken::new();
    exec::run_confined(&command, &environment, &fixture.sandbox, &confinement, on_output, &cancel)
        .await
        .unwrap();
    assert_eq!(output, "ready\nPermissionError\n");
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_socket_of_another_network_is_not_reached() {
    let fixture = Fixture::new().await;
    let server = "import socket, sys\ns = socket.socket(socket.AF_UNIX); s.bind('other.sock'); s.listen()\n\
                  print('bound', flush=True); sys.stdin.read()";
    let mut server = std::process::Command::new("unshare")
        .args(["-Urn", "python3", "-c", server])
        .current_dir(fixture.at("ws"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut bound = String::new();
    let mut printed = std::io::BufReader::new(server.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut printed, &mut bound).unwrap();
    assert_eq!(bound, "bound\n");
    fixture.check(&connect("other.sock"), "PermissionError").await;
    drop(server.stdin.take());
    server.wait().unwrap();
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_process_that_can_not_be_looked_at_reaches_no_socket() {
    let fixture = Fixture::new().await;
    // One that is known by its path at the start is hidden from every process.
    std::env::set_current_dir(fixture.at("ws")).unwrap();
    let _listener = UnixListener::bind("agent.sock").unwrap();
    let line = "python3 -c 'import ctypes, socket
ctypes.CDLL(None).prctl(4, 0)
try: socket.socket(socket.AF_UNIX).connect(\"agent.sock\"); print(\"connected\")
except OSError as error: print(type(error).__name__)'";
    fixture.check(line, "PermissionError").await;
}

/// Where a message goes would only be known from memory.
#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn there_are_no_unix_sockets_for_datagrams() {
    let fixture = Fixture::new().await;
    for make in [
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    ] {
        let line = format!("python3 -c 'import socket; {make}' 2>&1 | tail -1");
        fixture.check(&line, "PermissionError: [Errno 1] Operation not permitted").await;
    }
    fixture
        .check(
            "python3 -c 'import socket; socket.socketpair(); socket.socketpair(type=socket.SOCK_SEQPACKET)'",
            "",
        )
        .await;
}

const SERVER: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(\"bound\", flush=True)
while True:
    c, _ = s.accept(); c.sendall(b\"hello\"); c.close()";

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_commands_own_sockets_are_reached_wherever_they_are() {
    let fixture = Fixture::new().await;
    for path in ["src/own.sock", "/tmp/own.sock", fixture.at("ws/absolute.sock").to_str().unwrap()] {
        let line = format!(
            "rm -f src/out; python3 -c '{SERVER}' {path} >src/out & while ! grep -q bound src/out; do :; done 2>/dev/null; \
             python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{path}\"); print(s.recv(9))'"
        );
        fixture.check(&line, "b'hello'").await;
    }
    let abstract_name = "python3 -c 'import socket
s = socket.socket(socket.AF_UNIX); s.bind(\"\\0own\"); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect(\"\\0own\"); print(\"met\")'";
    fixture.check(abstract_name, "met").await;
    assert_eq!(fixture.sh_with_network(abstract_name).await, (Status::Code(0), "met\n".to_owned()));
    let asynchronous = "python3 -c 'import asyncio
async def main():
    async def serve(reader, writer): writer.write(b\"hello\"); writer.close()
    await asyncio.start_unix_server(serve, \"src/a.sock\")
    reader, _ = await asyncio.open_unix_connection(\"src/a.sock\"); print(await reader.read())
asyncio.run(main())'";
    fixture.check(asynchronous, "b'hello'").await;
}

/// A server in the background and the next command.
#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn commands_of_one_network_reach_each_others_sockets() {
    let fixture = Fixture::new().await;
    let network = fixture.sandbox.private_network(&[]).unwrap();
    let within = |network: Option<&PrivateNetwork>| Confinement {
        loopback: network.cloned(),
        ..fixture.confinement()
    };
    let other = fixture.sandbox.private_network(&[]).unwrap();
    let command = fixture.command(&format!("python3 -c '{SERVER}' src/server.sock"));
    let (cancel, bound) = (CancellationToken::new(), CancellationToken::new());
    let (confinement, environment) = (within(Some(&network)), fixture.environment());
    let server = exec::run_confined(
        &command,
        &environment,
        &fixture.sandbox,
        &confinement,
        |_| bound.cancel(),
        &cancel,
    );
    let clients = async {
        bound.cancelled().await;
        let connect = fixture.command(&connect("src/server.sock"));
        let mut found = Vec::new();
        for network in [Some(&network), Some(&other), None] {
            found.push(fixture.run(&connect, &within(network)).await.unwrap().1);
        }
        cancel.cancel();
        found
    };
    let (_, found) = tokio::join!(server, clients);
    assert_eq!(found, ["connected\n", "PermissionError\n", "PermissionError\n"]);
}

/// A connection that has to be waited for keeps nobody else from going on.
#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn a_full_server_holds_up_its_clients_alone() {
    let fixture = Fixture::new().await;
    let line = "python3 -c 'import os, socket, threading, time
s = socket.socket(socket.AF_UNIX); s.bind(\"src/s\"); s.listen(0)
ready = threading.Semaphore(0)
def client():
    ready.release(); socket.socket(socket.AF_UNIX).connect(\"src/s\")
for _ in range(8): threading.Thread(target=client, daemon=True).start(); ready.acquire()
n = socket.socket(socket.AF_UNIX); n.setblocking(False)
try:
    while True: n = socket.socket(socket.AF_UNIX); n.setblocking(False); n.connect(\"src/s\")
except BlockingIOError: print(\"full\")
open(\"src/written\", \"w\").write(\"x\"); print(\"written\", flush=True); os._exit(0)'";
    fixture.check(line, "full\nwritten").await;
}

#[tokio::test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
async fn the_users_agent_for_keys_is_not_reached() {
    let fixture = Fixture::new().await;
    std::env::set_current_dir(fixture.at("home")).unwrap();
    let _agent = UnixListener::bind("agent").unwrap();
    let line = format!(
        "export SSH_AUTH_SOCK={}; ssh-add -l 2>&1 || true; {}",
        fixture.at("home/agent").display(),
        connect(fixture.at("home/agent").to_str().unwrap())
    );
    let (_, output) = fixture.sh(&line).await;
    assert!(output.ends_with("PermissionError\n"), "{output}");
    assert!(!output.contains("SHA256"), "{output}");
}
