//! Who connects, over what, and what is never shown.

use std::process::{Command, Stdio};

use super::{Broker, DONE, playing, submit, text, worker};

#[test]
fn without_a_server_nothing_is_connected_to() {
    let project = playing(DONE);
    let checkouts = project.beside("checkouts");
    let checkouts = checkouts.to_str().unwrap();
    for arguments in [&["bridge"][..], &["worker", "--directory", checkouts], &["submit", "Do it."]] {
        let output = project.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("no NATS server is named"), "{output:?}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named_without_its_password() {
    let project = playing(DONE);
    let output = project.run(&["submit", "Do it.", "--server", "nats://me:hunter2@127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("127.0.0.1:1") && !said.contains("hunter2"), "{said}");
}

#[test]
fn what_is_in_a_credentials_file_is_not_shown() {
    let project = playing(DONE);
    let credentials = project.beside("user.creds");
    std::fs::write(&credentials, "-----BEGIN NATS USER JWT-----\nhunter2\n------END NATS USER JWT------\n")
        .unwrap();
    let credentials = credentials.to_str().unwrap();
    let output =
        project.run(&["submit", "Do it.", "--server", "nats://127.0.0.1:1", "--credentials", credentials]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("user.creds") && !said.contains("hunter2"), "{said}");
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn a_password_is_in_no_log_and_no_message() {
    let broker = Broker::with(&["--user", "me", "--pass", "hunter2"]);
    let project = playing(DONE);
    let wrong = format!("nats://me:hunter3@127.0.0.1:{}", broker.port);
    let output = project.run(&["submit", "Do it.", "--server", &wrong]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("authorization violation") && !said.contains("hunter"), "{said}");
    let right = format!("nats://me:hunter2@127.0.0.1:{}", broker.port);
    let mut command = project.program();
    command.args(["submit", "Do it.", "--detach"]).env("NATS_URL", right).env("ROO_LSP_LOG", "trace");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stderr);
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
#[ignore = "needs nats-server and openssl; ./scripts/test runs it"]
fn a_server_with_tls_is_reached_by_its_authority_alone() {
    let project = playing(DONE);
    let (certificate, key) = (project.beside("server.pem"), project.beside("server.key"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=nats", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let broker = Broker::with(&["--tls", "--tlscert", certificate, "--tlskey", key]);
    let refused = submit(&project, &broker, &["Do it.", "--detach"]);
    assert_eq!(refused.status.code(), Some(1), "the authority is none of the system's: {refused:?}");
    let worker = worker(&project, &broker, &["--ca", certificate]);
    let done = submit(&project, &broker, &["Do it.", "--ca", certificate]);
    assert!(done.status.success(), "{done:?}");
    drop(worker);
}
