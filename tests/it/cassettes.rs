//! `roo-lsp cassette` over the real program: a request is kept as a file, and the file says what a change does to it.

use crate::support::project::Project;

const FILE: &str = "cassettes/milk.yaml";

const SCRIPT: &str = r#"
turns:
  - text: "I look."
    calls: [{ tool: read_file, params: { path: notes.txt } }, { tool: execute_command, params: { command: "echo milk >> notes.txt; pwd" } }]
  - text: "I forgot the call."
  - calls: [{ tool: attempt_completion, params: { result: "Milk is on the list." } }]
"#;

/// A key that is none, in the form of one.
const KEY: &str = concat!("ghp", "_0123456789abcdefghijABCDEFGHIJ012345");

fn files() -> [(&'static str, String); 2] {
    [
        ("notes.txt", format!("bread\ntoken = {KEY}\n")),
        (".roo/rules/team.md", "Answer in English.\n".to_owned()),
    ]
}

fn project() -> Project {
    let project = Project::new(&[]);
    for (name, text) in files() {
        project.write(name, &text);
    }
    project
}

/// A project with a recorded cassette.
fn recorded(script: &str, more: &[&str]) -> Project {
    let project = project();
    let script = project.script(script);
    let mut command = project.program();
    command.args(["cassette", "record", FILE, "--script"]).arg(script).args(more);
    let output = command.args(["--", "Add milk."]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    project
}

/// Checks the cassette, and returns what was printed, and whether it is as recorded.
fn check(project: &Project, more: &[&str]) -> (String, bool) {
    let output = project.run(&[&["cassette", "check", FILE], more].concat());
    assert!(output.stderr.is_empty(), "{output:?}");
    (String::from_utf8(output.stdout).unwrap(), output.status.code() == Some(0))
}

#[test]
fn a_cassette_plays_as_recorded_on_another_machine_where_nothing_is_run() {
    let project = recorded(SCRIPT, &["--on-ask=allow"]);
    let cassette = project.read(FILE);
    let folder = project.folder();
    assert!(
        cassette.contains("echo milk >> notes.txt") && cassette.contains("[masked: GitHub token]"),
        "{cassette}"
    );
    assert!(!cassette.contains(KEY) && !cassette.contains(folder.to_str().unwrap()), "{cassette}");
    assert!(cassette.contains("Workspace directory: {{workspace}}"), "{cassette}");

    let elsewhere = self::project();
    elsewhere.write(FILE, &cassette);
    let notes = elsewhere.read("notes.txt");
    assert_eq!(check(&elsewhere, &[]), (format!("{FILE}: as recorded\n"), true));
    assert_eq!(elsewhere.read("notes.txt"), notes, "no tool is run");
    assert_eq!(elsewhere.read(FILE), cassette);
    assert!(elsewhere.logs().is_empty(), "no request is made");
}

#[test]
fn a_change_of_a_prompt_is_shown_as_a_diff_and_can_be_taken_over() {
    let project = recorded(SCRIPT, &["--on-ask=allow"]);
    project.write(".roo/rules/team.md", "Answer in German.\n");
    let (told, same) = check(&project, &[]);
    assert!(!same);
    assert!(told.starts_with("--- a/system prompt of the mode code\n"), "{told}");
    assert!(told.contains("\n-Answer in English.\n+Answer in German.\n"), "{told}");
    assert!(
        told.ends_with(&format!("{FILE}: 1 difference; --update takes them over if they are meant\n")),
        "{told}"
    );

    let (told, same) = check(&project, &["--update"]);
    assert!(same && told.ends_with(&format!("{FILE}: updated\n")), "{told}");
    assert_eq!(check(&project, &[]), (format!("{FILE}: as recorded\n"), true));
}

#[test]
fn a_call_that_a_mode_permits_no_more_is_a_difference() {
    let project = recorded(SCRIPT, &["--on-ask=allow"]);
    project.write(
        ".roomodes",
        "customModes:\n  - slug: code\n    name: Code\n    roleDefinition: You read.\n    groups: [read]\n",
    );
    let (told, same) = check(&project, &[]);
    assert!(!same);
    assert!(told.contains("\n--- a/call 2 of answer 1: execute_command\n"), "{told}");
    assert!(told.contains("\n-status: ok\n") && told.contains("\n+denied: mode\n"), "{told}");
    assert!(!told.contains("call 1 of answer 1"), "reading is permitted as before: {told}");
}

#[test]
fn branches_questions_and_refusals_are_played_too() {
    let script = r#"
turns:
  - mode: orchestrator
    when: { contains: "Add milk." }
    calls:
      - { tool: new_task, params: { mode: code, message: "💻 Write it\n\nURID: {{urid}}\n\nWrite milk.\n" } }
      - { tool: new_task, params: { mode: debug, message: "🪲 Ask for it\n\nURID: {{urid}}\n\nAsk for milk.\n" } }
  - mode: code
    when: { contains: "Write milk." }
    calls: [{ tool: execute_command, params: { command: "touch milk" } }]
  - mode: code
    calls: [{ tool: complete_with_failure, params: { reason: "Not allowed." } }]
  - mode: debug
    when: { contains: "Ask for milk." }
    calls: [{ tool: ask_followup_question, params: { question: "Which?", follow_up: [{ text: Oat. }, { text: Rice. }] } }]
  - mode: debug
    when: { contains: "Oat." }
    calls: [{ tool: switch_mode, params: { mode_slug: nowhere } }]
  - mode: debug
    calls: [{ tool: attempt_completion, params: { result: "Oat it is." } }]
  - mode: orchestrator
    when: { contains: "Oat it is." }
    calls: [{ tool: attempt_completion, params: { result: "Partly." } }]
"#;
    let project = project();
    let path = project.script(script);
    project.configure(&format!(
        "mode: orchestrator\nprofiles:\n  default: {{ provider: scripted, script: {path:?}, toolProtocol: xml }}\nautoApprove: {{ delegate: true }}\n"
    ));
    let recorded =
        project.run(&["cassette", "record", FILE, "--on-ask=deny", "--answer=Oat.", "--", "Add milk."]);
    assert!(recorded.status.success(), "{recorded:?}");
    let cassette = project.read(FILE);
    for part in [
        "- branch: '1'\n",
        "- branch: '2'\n",
        "refused:\n        unattended: true\n",
        "answered: Oat.\n",
        "denied: mode\n",
        "end: failed\n",
        "end: completed\n",
        "protocol: xml\n",
    ] {
        assert!(cassette.contains(part), "{part:?} is missing in {cassette}");
    }
    assert_eq!(check(&project, &[]), (format!("{FILE}: as recorded\n"), true));

    // A mode that was refused then, and would be another one now.
    project.write(
        ".roomodes",
        "customModes:\n  - slug: nowhere\n    name: Nowhere\n    roleDefinition: You wait.\n    groups: [read]\n",
    );
    let (told, same) = check(&project, &["--update"]);
    assert!(!same && told.contains("was refused (mode), and is permitted now\n"), "{told}");
    assert_eq!(project.read(FILE), cassette, "what can't be played to its end is not taken over");
}

#[test]
fn a_request_that_has_ended_is_kept_without_running_it_again() {
    let project = project();
    project.script(SCRIPT);
    let script = project.beside("script.yaml");
    let mut run = project.program();
    run.args(["run", "Add milk.", "--on-ask=allow", "--script"]).arg(&script);
    assert!(run.output().unwrap().status.success());
    let notes = project.read("notes.txt");
    let [log] = project.logs().try_into().unwrap();
    let id = log.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let told = project.succeed(&["cassette", "record", FILE, "--request", id]);
    assert_eq!(told, format!("{FILE}: recorded, 3 requests to the model\n"));
    assert_eq!(project.read("notes.txt"), notes);
    assert_eq!(check(&project, &[]), (format!("{FILE}: as recorded\n"), true));

    let again = project.run(&["cassette", "record", FILE, "--request", id]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8(again.stderr).unwrap().contains("--force"));
    project.succeed(&["cassette", "record", FILE, "--force", "--request", id]);
}

#[test]
fn a_file_that_appears_during_the_run_is_not_overwritten() {
    let project = project();
    let script = project.script(&format!(
        r#"
turns:
  - calls: [{{ tool: execute_command, params: {{ command: "mkdir -p cassettes; echo mine > {FILE}" }} }}]
  - calls: [{{ tool: attempt_completion, params: {{ result: "Done." }} }}]
"#
    ));
    let mut command = project.program();
    command.args(["cassette", "record", FILE, "--on-ask=allow", "--script"]).arg(script);
    let output = command.args(["--", "Go."]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("--force"));
    assert_eq!(project.read(FILE), "mine\n");
}

#[cfg(unix)]
#[test]
fn a_cassette_is_replaced_at_once_where_its_link_points_to() {
    let project = recorded(SCRIPT, &["--on-ask=allow"]);
    std::os::unix::fs::symlink(project.folder().join(FILE), project.folder().join("link.yaml")).unwrap();
    project.write(".roo/rules/team.md", "Answer in German.\n");
    project.succeed(&["cassette", "check", "link.yaml", "--update"]);
    assert!(project.read(FILE).contains("Answer in German."));
    assert!(project.folder().join("link.yaml").is_symlink());
    let files = std::fs::read_dir(project.folder().join("cassettes")).unwrap();
    assert_eq!(files.count(), 1, "nothing is left beside it");
}

#[test]
fn a_model_has_the_tools_of_its_profile_wherever_it_is_played() {
    let script = r#"
turns:
  - calls: [{ tool: apply_patch, params: { patch: "*** Begin Patch\n*** Add File: milk.txt\n+milk\n*** End Patch" } }]
  - calls: [{ tool: attempt_completion, params: { result: "Done." } }]
"#;
    let project = recorded(script, &["--allow-write"]);
    let cassette = project.read(FILE);
    assert!(
        cassette.contains("  includedTools:\n") && cassette.contains("<operation>created</operation>"),
        "{cassette}"
    );
    assert_eq!(check(&project, &[]), (format!("{FILE}: as recorded\n"), true));
    project.write(FILE, &cassette.replacen("  - apply_patch\n", "", 1));
    let (told, same) = check(&project, &[]);
    assert!(!same && told.contains("\n-status: ok\n"), "{told}");
}

#[test]
fn a_request_that_waits_for_its_user_is_not_kept() {
    let project = project();
    let script = project.script(SCRIPT);
    let mut command = project.program();
    command.args(["cassette", "record", FILE, "--script"]).arg(script).args(["--", "Add milk."]);
    assert_eq!(command.output().unwrap().status.code(), Some(3));
    let [log] = project.logs().try_into().unwrap();
    let id = log.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let output = project.run(&["cassette", "record", FILE, "--request", id]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("can't be kept as a cassette") && !project.folder().join(FILE).exists(), "{told}");
}

#[test]
fn a_request_without_a_recorded_answer_ends_the_play() {
    let project = recorded(SCRIPT, &["--on-ask=allow"]);
    let cassette = project.read(FILE);
    let begin = cassette.find("  - mode: code\n    answer:\n    - text: I forgot the call.\n").unwrap();
    let end = cassette.find("  end: completed\n").unwrap();
    let short = format!("{}{}", &cassette[..begin], &cassette[end..]);
    project.write(FILE, &short);
    let (told, same) = check(&project, &["--update"]);
    assert!(!same);
    assert!(told.contains("request 2 to the model has no recorded answer\n"), "{told}");
    assert!(told.ends_with("; it was not updated, record it again\n"), "{told}");
    assert_eq!(project.read(FILE), short);
}

#[test]
fn what_a_matcher_finds_may_vary() {
    let project = recorded(SCRIPT, &["--on-ask=allow"]);
    let cassette = project.read(FILE).replace("tasks:\n", "matchers:\n  language: English|German\ntasks:\n");
    project.write(FILE, &cassette.replace("Answer in English.", "Answer in {{language}}."));
    assert_eq!(check(&project, &[]), (format!("{FILE}: as recorded\n"), true));
    project.write(".roo/rules/team.md", "Answer in German.\n");
    assert_eq!(check(&project, &[]), (format!("{FILE}: as recorded\n"), true));

    project.write(FILE, &cassette.replace("English|German", "'('"));
    let output = project.run(&["cassette", "check", FILE]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("the matcher 'language' can't be used"));
}

#[test]
fn a_file_that_is_no_cassette_is_named_with_the_line() {
    let project = project();
    project.write(FILE, "version: 1\ntasks: []\nprompts: {}\nrequest:\n  prompt: 3\n  nodes: []\n");
    let output = project.run(&["cassette", "check", FILE]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(FILE) && told.contains("line"), "{told}");
    let output = project.run(&["cassette", "check", "missing.yaml", FILE]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("missing.yaml can't be read") && told.contains(FILE), "all are looked at: {told}");
}
