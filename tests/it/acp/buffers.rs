//! Files of a client that reads and writes them itself.

use std::collections::HashMap;
use std::fs;

use serde_json::{Value, json};

use super::client::Client;
use super::{DONE, configure, playing};
use crate::support::project::Project;

/// An editor: texts of files that it has loaded, and that it does not load again when the disk has others.
struct Buffers<'p> {
    project: &'p Project,
    unsaved: HashMap<String, String>,
    /// It answers for a file that isn't there as for an empty one.
    knows_no_missing: bool,
    /// Files that were written through it.
    written: Vec<String>,
}

impl<'p> Buffers<'p> {
    fn new(project: &'p Project, unsaved: &[(&str, &str)]) -> Self {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        let unsaved = unsaved.iter().map(owned).collect();
        Self { project, unsaved, knows_no_missing: false, written: vec![] }
    }

    fn name(&self, message: &Value) -> String {
        let path = message["params"]["path"].as_str().unwrap();
        let folder = self.project.folder();
        path.strip_prefix(folder.to_str().unwrap()).unwrap().trim_start_matches('/').to_owned()
    }

    /// Answers what the agent wants of files, until a message comes that fits.
    #[track_caller]
    fn serve(&mut self, client: &mut Client, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = client.wait_for(|message| {
                is_it(message) || message["method"].as_str().is_some_and(|method| method.starts_with("fs/"))
            });
            match message["method"].as_str() {
                Some("fs/read_text_file") if !is_it(&message) => self.read(client, &message),
                Some("fs/write_text_file") if !is_it(&message) => self.write(client, &message),
                _ => return message,
            }
        }
    }

    fn read(&self, client: &mut Client, message: &Value) {
        let name = self.name(message);
        let text = self
            .unsaved
            .get(&name)
            .cloned()
            .or_else(|| fs::read_to_string(self.project.folder().join(&name)).ok())
            .or_else(|| self.knows_no_missing.then(String::new));
        match text {
            Some(text) => client.answer(message, json!({ "content": text })),
            None => {
                let error = json!({ "code": -32002, "message": "Resource not found" });
                client.write(&json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
            }
        }
    }

    fn write(&mut self, client: &mut Client, message: &Value) {
        let name = self.name(message);
        self.project.write(&name, message["params"]["content"].as_str().unwrap());
        self.unsaved.remove(&name);
        self.written.push(name);
        client.answer(message, json!({}));
    }

    /// Answers until a turn is over, and returns the reason.
    #[track_caller]
    fn until_end(&mut self, client: &mut Client, prompt: i64) -> String {
        let answer = self.serve(client, |message| message["id"] == prompt && message.get("method").is_none());
        answer["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

fn with_files() -> Value {
    json!({ "fs": { "readTextFile": true, "writeTextFile": true } })
}

/// A client with this unsaved text that has sent a prompt: the client, its texts, and the number of the prompt.
fn begin<'p>(project: &'p Project, unsaved: &[(&str, &str)], prompt: &str) -> (Client, Buffers<'p>, i64) {
    let mut client = Client::initialized(project, with_files());
    let session = client.new_session(project);
    let prompt = client.say(&session, prompt);
    (client, Buffers::new(project, unsaved), prompt)
}

/// Reads the file, replaces a line in it, and is done.
const EDITS: &str = "  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - when: { contains: two unsaved }
    calls: [{ tool: search_and_replace, params: { path: a.txt, search: one, replace: ONE } }]
";

#[test]
fn unsaved_text_is_the_truth_and_an_edit_is_the_editors() {
    let project = playing("");
    configure(&project, &format!("{EDITS}{DONE}"), "autoApprove: { write: true }\n");
    project.write("a.txt", "one\ntwo\n");
    let (mut client, mut buffers, prompt) = begin(&project, &[("a.txt", "one\ntwo unsaved\n")], "Edit it.");
    assert_eq!(buffers.until_end(&mut client, prompt), "end_turn");
    assert_eq!(buffers.written, ["a.txt"]);
    assert_eq!(project.read("a.txt"), "ONE\ntwo unsaved\n");
    let changed: Value =
        serde_json::from_str(project.succeed(&["trace", "query", "--json"]).lines().last().unwrap_or("{}"))
            .unwrap();
    assert!(changed.is_object(), "the trace has it");
    assert!(client.leave().success());
}

#[test]
fn what_its_user_types_while_permission_waits_is_not_overwritten() {
    let project = playing(&format!("{EDITS}{DONE}"));
    project.write("a.txt", "one\ntwo\n");
    let (mut client, mut buffers, prompt) = begin(&project, &[("a.txt", "one\ntwo unsaved\n")], "Edit it.");
    let asked = buffers.serve(&mut client, |message| message["method"] == "session/request_permission");
    let diff = &asked["params"]["toolCall"]["content"][0];
    assert_eq!(
        (&diff["oldText"], &diff["newText"]),
        (&json!("one\ntwo unsaved\n"), &json!("ONE\ntwo unsaved\n"))
    );
    buffers.unsaved.insert("a.txt".to_owned(), "one, typed\ntwo unsaved\n".to_owned());
    client.choose(&asked, "allow_once");
    // Its question was about another text, so it is asked again, or told that the file has changed.
    loop {
        let message = buffers.serve(&mut client, |message| {
            message["method"] == "session/request_permission"
                || (message["id"] == prompt && message.get("method").is_none())
        });
        if message.get("method").is_none() {
            break;
        }
        client.choose(&message, "reject_once");
    }
    assert_eq!(buffers.unsaved["a.txt"], "one, typed\ntwo unsaved\n");
    assert_eq!((buffers.written.len(), project.read("a.txt").as_str()), (0, "one\ntwo\n"));
    assert!(client.leave().success());
}

#[test]
fn a_new_file_is_written_to_disk_and_a_saved_one_through_the_editor() {
    let project = playing("");
    let turns = "  - calls: [{ tool: write_to_file, params: { path: new.txt, content: x } }]
  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - calls: [{ tool: write_to_file, params: { path: a.txt, content: \"changed\\n\" } }]
";
    configure(&project, &format!("{turns}{DONE}"), "autoApprove: { write: true }\n");
    project.write("a.txt", "one\n");
    let (mut client, mut buffers, prompt) = begin(&project, &[], "Write it.");
    assert_eq!(buffers.until_end(&mut client, prompt), "end_turn");
    assert_eq!((project.read("new.txt").as_str(), project.read("a.txt").as_str()), ("x", "changed\n"));
    assert_eq!(buffers.written, ["a.txt"]);
    assert!(client.leave().success());
}

#[test]
fn what_is_unsaved_is_saved_before_a_command_runs() {
    let project = playing("");
    let turns = "  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - calls: [{ tool: execute_command, params: { command: cat a.txt } }]
";
    configure(
        &project,
        &format!("{turns}{DONE}"),
        "autoApprove: { execute: { mode: rules, allow: [[cat]] } }\n",
    );
    project.write("a.txt", "one\n");
    let (mut client, mut buffers, prompt) = begin(&project, &[("a.txt", "unsaved\n")], "Show it.");
    assert_eq!(buffers.until_end(&mut client, prompt), "end_turn");
    assert_eq!(project.read("a.txt"), "unsaved\n");
    let shown = client.updates("tool_call_update").pop().unwrap();
    assert!(shown["content"].to_string().contains("unsaved"), "{shown:#}");
    assert!(client.leave().success());
}

#[test]
fn a_client_that_refuses_to_write_loses_nothing() {
    let project = playing("");
    configure(&project, &format!("{EDITS}{DONE}"), "autoApprove: { write: true }\n");
    project.write("a.txt", "one\ntwo\n");
    let (mut client, mut buffers, prompt) = begin(&project, &[("a.txt", "one\ntwo unsaved\n")], "Edit it.");
    let write = buffers.serve(&mut client, |message| message["method"] == "fs/write_text_file");
    let error = json!({ "code": -32603, "message": "The buffer is read-only" });
    client.write(&json!({ "jsonrpc": "2.0", "id": write["id"], "error": error }));
    assert_eq!(buffers.until_end(&mut client, prompt), "end_turn");
    assert_eq!(
        (project.read("a.txt").as_str(), buffers.unsaved["a.txt"].as_str()),
        ("one\ntwo\n", "one\ntwo unsaved\n")
    );
    let failed =
        client.updates("tool_call_update").into_iter().find(|update| update["status"] == "failed").unwrap();
    assert!(failed.to_string().contains("read-only"), "{failed:#}");
    assert!(client.leave().success());
}

/// Commands that change files are allowed, and edits.
const ALLOWED: &str = "autoApprove: { write: true, execute: { mode: rules, allow: [[cat], [cp], [rm]] } }\n";

#[test]
fn a_client_that_is_blind_to_unsaved_text_is_not_asked_for_files() {
    let project = playing("");
    let turns = "  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - when: { contains: two }
    calls: [{ tool: search_and_replace, params: { path: a.txt, search: one, replace: ONE } }]
";
    configure(&project, &format!("{turns}{DONE}"), "autoApprove: { write: true }\n");
    project.write("a.txt", "one\ntwo\n");
    let mut client = Client::start(&project);
    client.initialize_as("CodeCompanion.nvim", with_files());
    let session = client.new_session(&project);
    // It would write over what its user has typed in the buffer.
    assert_eq!(client.prompt(&session, "Edit it."), "end_turn");
    assert_eq!(project.read("a.txt"), "ONE\ntwo\n");
    assert!(client.unread.iter().all(|message| !message.to_string().contains("\"fs/")));
    assert!(client.leave().success());
}

#[test]
fn what_a_command_has_written_counts_where_the_client_still_has_the_text_before() {
    let project = playing("");
    let turns = "  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - calls: [{ tool: execute_command, params: { command: cp b.txt a.txt } }]
  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - when: { contains: from b }
    calls: [{ tool: execute_command, params: { command: cat a.txt } }]
  - when: { contains: from b }
    calls: [{ tool: search_and_replace, params: { path: a.txt, search: from, replace: not from } }]
";
    configure(&project, &format!("{turns}{DONE}"), ALLOWED);
    project.write("a.txt", "one\n");
    project.write("b.txt", "from b\n");
    let (mut client, mut buffers, prompt) = begin(&project, &[("a.txt", "one\n")], "Copy it.");
    assert_eq!(buffers.until_end(&mut client, prompt), "end_turn");
    assert_eq!(project.read("a.txt"), "not from b\n");
    assert_eq!(buffers.written, ["a.txt"], "the edit is the editor's, and nothing else is written by it");
    assert!(client.leave().success());
}

#[test]
fn a_file_that_a_command_has_removed_stays_removed() {
    let project = playing("");
    let turns = "  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - calls: [{ tool: execute_command, params: { command: rm a.txt } }]
  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - calls: [{ tool: execute_command, params: { command: cat b.txt } }]
";
    configure(&project, &format!("{turns}{DONE}"), ALLOWED);
    project.write("a.txt", "one\n");
    project.write("b.txt", "two\n");
    let (mut client, mut buffers, prompt) = begin(&project, &[("a.txt", "one\n")], "Remove it.");
    assert_eq!(buffers.until_end(&mut client, prompt), "end_turn");
    assert!(!project.folder().join("a.txt").exists());
    assert_eq!(buffers.written, [""; 0]);
    assert!(client.leave().success());
}

#[test]
fn what_a_command_has_written_is_not_overwritten_by_a_text_of_unknown_age() {
    let project = playing("");
    // The file was never read before the command, so nobody knows whether the client's text is typed or old.
    let turns = "  - calls: [{ tool: execute_command, params: { command: cp b.txt a.txt } }]
  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - when: { contains: from b }
    calls: [{ tool: execute_command, params: { command: cat a.txt } }]
  - when: { contains: from b }
    calls: [{ tool: search_and_replace, params: { path: a.txt, search: from, replace: not from } }]
";
    configure(&project, &format!("{turns}{DONE}"), ALLOWED);
    project.write("a.txt", "one\n");
    project.write("b.txt", "from b\n");
    let (mut client, mut buffers, prompt) = begin(&project, &[("a.txt", "typed, or old\n")], "Copy it.");
    assert_eq!(buffers.until_end(&mut client, prompt), "end_turn");
    assert_eq!(project.read("a.txt"), "not from b\n");
    assert_eq!(buffers.unsaved["a.txt"], "typed, or old\n", "what may be typed is kept too");
    assert!(client.leave().success());
}

#[test]
fn what_is_typed_while_a_command_writes_the_file_is_not_saved_over_that() {
    let project = playing("");
    let turns = "  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - calls: [{ tool: execute_command, params: { command: cp b.txt a.txt } }]
  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - when: { contains: typed }
    calls: [{ tool: execute_command, params: { command: cat a.txt } }]
";
    configure(
        &project,
        &format!("{turns}{DONE}"),
        "autoApprove: { execute: { mode: rules, allow: [[cat]] } }\n",
    );
    project.write("a.txt", "one\n");
    project.write("b.txt", "from b\n");
    let (mut client, mut buffers, prompt) = begin(&project, &[], "Copy it.");
    let asked = buffers.serve(&mut client, |message| message["method"] == "session/request_permission");
    buffers.unsaved.insert("a.txt".to_owned(), "one, typed\n".to_owned());
    client.choose(&asked, "allow_once");
    assert_eq!(buffers.until_end(&mut client, prompt), "end_turn");
    assert_eq!(
        (project.read("a.txt").as_str(), buffers.unsaved["a.txt"].as_str()),
        ("from b\n", "one, typed\n")
    );
    assert_eq!(buffers.written, [""; 0]);
    assert!(client.leave().success());
}

#[test]
fn a_file_that_is_not_there_is_not_an_empty_one() {
    let project = playing("");
    let turns = "  - calls: [{ tool: read_file, params: { path: new.txt } }]
  - calls: [{ tool: write_to_file, params: { path: new.txt, content: x } }]
";
    configure(&project, &format!("{turns}{DONE}"), "autoApprove: { write: true }\n");
    let (mut client, mut buffers, prompt) = begin(&project, &[], "Write it.");
    buffers.knows_no_missing = true;
    assert_eq!(buffers.until_end(&mut client, prompt), "end_turn");
    assert_eq!(project.read("new.txt"), "x");
    assert_eq!(buffers.written, [""; 0], "new files are written to disk");
    let updates = client.updates("tool_call_update");
    let failed: Vec<&Value> = updates.iter().filter(|update| update["status"] == "failed").collect();
    assert_eq!(failed.len(), 1, "it can't be read: {updates:#?}");
    assert!(client.leave().success());
}

#[test]
fn a_client_that_does_not_answer_in_time_is_left_alone_and_its_user_is_told() {
    let project = playing("");
    let turns = "  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - when: { contains: on disk }
    calls: [{ tool: search_and_replace, params: { path: a.txt, search: one, replace: ONE } }]
";
    configure(&project, &format!("{turns}{DONE}"), "autoApprove: { write: true }\n");
    project.write("a.txt", "one on disk\n");
    let mut client = Client::initialized(&project, with_files());
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Edit it.");
    client.wait_for(|message| message["method"] == "fs/read_text_file");
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert_eq!(project.read("a.txt"), "ONE on disk\n");
    let told = client.text("agent_thought_chunk");
    assert_eq!(told.matches("save yours").count(), 1, "{told}");
    assert!(client.leave().success());
}
