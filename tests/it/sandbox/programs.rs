//! Confined programs that are talked to over their standard streams.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use super::*;
use roo_sandbox::exec::{ConfinedProgram, ProgramChannel};

fn argv(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[tokio::test]
async fn a_program_is_talked_to_and_ends_with_its_input() {
    for fixture in [Fixture::new().await, Fixture::with_landlock().await] {
        let script = "read -r line; echo \"$line, $1\"; echo trouble >&2; \
                      echo x 2>/dev/null >../out/escaped || echo refused; cat >/dev/null";
        let words = argv(&["bash", "-c", script, "-", "it's \"quoted\" $HOME"]);
        let (directory, confinement, environment) =
            (fixture.at("ws"), fixture.confinement(), fixture.environment());
        let started = ConfinedProgram::start(
            &words,
            ProgramChannel::StandardStreams,
            &directory,
            &environment,
            &fixture.sandbox,
            &confinement,
        );
        let (mut program, streams) = started.await.unwrap();
        let (reader, mut writer) = streams.socket.into_split();
        let mut lines = BufReader::new(reader).lines();
        writer.write_all(b"hello\n").await.unwrap();
        let talk = async {
            let first = lines.next_line().await.unwrap();
            assert_eq!(first.as_deref(), Some("hello, it's \"quoted\" $HOME"));
            assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("refused"));
            // The end of its input.
            drop(writer);
            assert_eq!(program.ended().await.unwrap(), Status::Code(0));
        };
        tokio::time::timeout(PATIENCE, talk).await.unwrap();
        let mut errors = String::new();
        let mut stderr = streams.stderr;
        stderr.read_to_string(&mut errors).await.unwrap();
        assert_eq!(errors, "trouble\n");
        assert!(!fixture.at("out/escaped").exists());
        program.end().await;
    }
}

#[tokio::test]
async fn what_a_program_started_ends_with_it_however_deaf_it_is() {
    let fixture = Fixture::new().await;
    let words =
        argv(&["bash", "-c", "trap '' TERM; setsid sleep 1000000 & echo started; while :; do sleep 1; done"]);
    let confinement = Confinement { temp: None, ..fixture.confinement() };
    let (directory, environment) = (fixture.at("ws"), fixture.environment());
    let started = ConfinedProgram::start(
        &words,
        ProgramChannel::StandardStreams,
        &directory,
        &environment,
        &fixture.sandbox,
        &confinement,
    );
    let (program, streams) = started.await.unwrap();
    let mut reader = BufReader::new(streams.socket);
    let mut line = String::new();
    tokio::time::timeout(PATIENCE, reader.read_line(&mut line)).await.unwrap().unwrap();
    assert_eq!(line, "started\n");
    tokio::time::timeout(PATIENCE, program.end()).await.unwrap();
    // Nobody holds the other end any more.
    let rest = tokio::time::timeout(PATIENCE, reader.read_to_string(&mut line)).await;
    assert!(rest.is_ok(), "it is still there");
}

#[tokio::test]
async fn a_program_can_be_talked_to_over_descriptors_of_their_own() {
    let fixture = Fixture::new().await;
    let script = "read -r line <&3; echo noise; echo \"$line, too\" >&4; read -r line || echo 'no input' >&2";
    let (words, confinement) = (argv(&["bash", "-c", script]), fixture.confinement());
    let (directory, environment) = (fixture.at("ws"), fixture.environment());
    let channel = ProgramChannel::Descriptors3And4;
    let started =
        ConfinedProgram::start(&words, channel, &directory, &environment, &fixture.sandbox, &confinement);
    let (program, streams) = started.await.unwrap();
    let (reader, mut writer) = streams.socket.into_split();
    writer.write_all(b"hello\n").await.unwrap();
    let (mut said, mut errors, mut stderr) = (String::new(), String::new(), streams.stderr);
    let mut reader = BufReader::new(reader);
    let talk = async {
        reader.read_to_string(&mut said).await.unwrap();
        stderr.read_to_string(&mut errors).await.unwrap();
    };
    tokio::time::timeout(PATIENCE, talk).await.unwrap();
    assert_eq!((said.as_str(), errors.as_str()), ("hello, too\n", "noise\nno input\n"));
    program.end().await;
}
