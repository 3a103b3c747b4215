use std::sync::Arc;

use proptest::prelude::*;

use super::super::{Modes, task_directory};
use super::*;

const ID: &str = "20250502-11-36-b4649193";

fn mode(slug: &str) -> Arc<Mode> {
    Arc::clone(Modes::built_in().find(slug).unwrap())
}

fn parse_for(slug: &str, message: &str) -> Result<Delegation, Malformed> {
    let urid = Urid::new(ID);
    let directory = task_directory(&urid);
    parse(message, &Expected { target: &mode(slug), urid: &urid, task_directory: &directory })
}

fn code(message: &str) -> Delegation {
    parse_for("code", message).unwrap()
}

fn wrong(message: &str) -> (Part, usize, String) {
    let Malformed { part, line, problem, .. } = parse_for("code", message).unwrap_err();
    (part, line, problem)
}

const FULL: &str = "\
💻 Implement user profile update endpoint

URID: 20250502-11-36-b4649193

Add PUT /profile. Use the connection of `db.js`.

Context: the user is `req.user`.

🆕 Add user profile editing feature
└── 🪃 Orchestrate profile editing implementation
    └── 💻 Implement user profile update endpoint
        ^ we are here

Relevant context files:
.roo/tasks/20250502-11-36-b4649193/api.md
.roo/tasks/20250502-11-36-b4649193/sql/schema.sql

Read the context files first. Return the profile.

@.roo/tasks/20250502-11-36-b4649193/";

fn full() -> Delegation {
    Delegation {
        title: "Implement user profile update endpoint".to_owned(),
        before: "Add PUT /profile. Use the connection of `db.js`.\n\nContext: the user is `req.user`."
            .to_owned(),
        context_files: vec![format!(".roo/tasks/{ID}/api.md"), format!(".roo/tasks/{ID}/sql/schema.sql")],
        next_step: "Read the context files first. Return the profile.".to_owned(),
    }
}

fn chain<'a>(nodes: &[(&'a str, &'a str)]) -> Vec<Branch<'a>> {
    let parent = |index: usize| index.checked_sub(1);
    let branch = |(index, &(emoji, title))| Branch { parent: parent(index), emoji, title };
    nodes.iter().enumerate().map(branch).collect()
}

#[test]
fn a_message_is_read_part_by_part_and_written_back_the_same() {
    let delegation = code(FULL);
    assert_eq!(delegation, full());
    let tree = draw(
        &chain(&[
            ("🆕", "Add user profile editing feature"),
            ("🪃", "Orchestrate profile editing implementation"),
            ("💻", "Implement user profile update endpoint"),
        ]),
        Some(2),
    );
    assert_eq!(render(&delegation, &mode("code").emoji, &Urid::new(ID), &tree), FULL);
}

#[test]
fn what_does_no_harm_is_accepted() {
    let no_blank_lines: String =
        FULL.lines().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
    let tight = Delegation { before: full().before.replace("\n\n", "\n"), ..full() };
    assert_eq!(code(&no_blank_lines), tight);
    for message in [
        FULL.replace('\n', "\r\n"),
        format!("\n \n{FULL}\n\n"),
        format!("```markdown\n{FULL}\n```"),
        FULL.replace("💻 Impl", "💻Impl"),
        FULL.replace("💻 Impl", "💻\u{fe0f}  Impl"),
        FULL.replace("URID: ", "**urid**:  "),
        FULL.replace("Relevant context files:", "## RELEVANT CONTEXT FILES\n"),
        FULL.replace("\n.roo/", "\n- .roo/"),
        FULL.replace(".md\n", ".md` – the interface\n")
            .replace("\n.roo/tasks/20250502-11-36-b4649193/a", "\n1. `.roo/tasks/20250502-11-36-b4649193/a"),
        FULL.replace("\n.roo/", "\n\n./.roo//"),
        FULL.replace("b4649193/api.md", "b4649193/./api.md"),
        FULL.replace("\n@.roo/tasks/20250502-11-36-b4649193/", "\n`@.roo/tasks/20250502-11-36-b4649193`"),
    ] {
        assert_eq!(code(&message), full(), "{message}");
    }
    assert_eq!(parse_for("architect", &format!("🏗 Design it\nURID: {ID}\nAll.")).unwrap().title, "Design it");
}

#[test]
fn a_tree_is_cut_out_wherever_it_stands() {
    let tree = "🆕 Root\n├── 🏗️ Design\n│   ^ we are here\n└── 💻 Code";
    let head = format!("💻 Do it\nURID: {ID}\n");
    for (body, before, next_step) in [
        (format!("Do this.\n\n{tree}\n\nThen that."), "Do this.", "Then that."),
        (format!("Do this.\n{tree}\nThen that."), "Do this.", "Then that."),
        (format!("{tree}\nDo this."), "", "Do this."),
        (format!("Do this.\n{tree}"), "Do this.", ""),
        (
            format!("Do this.\n## Current invocation tree:\n\n```text\n{tree}\n```\nThen that."),
            "Do this.",
            "Then that.",
        ),
        (format!("Do this.\n{tree}\nThen that.\n{tree}\n"), "Do this.", "Then that."),
        ("Do this.\n🐙 Root\n^ We are here\nThen that.".to_owned(), "Do this.", "Then that."),
        ("Do this.\n🪃 Root\n└── 💻 Without a mark\nThen that.".to_owned(), "Do this.", "Then that."),
        ("Do this.".to_owned(), "Do this.", ""),
    ] {
        let delegation = code(&format!("{head}{body}"));
        assert_eq!(
            (delegation.before.as_str(), delegation.next_step.as_str()),
            (before, next_step),
            "{body}"
        );
    }
}

#[test]
fn other_drawings_stay() {
    for body in [
        "src\n├── a.rs\n└── b.rs",
        "📁 src\n├── a.rs\n└── b.rs",
        "🆕 is the emoji of a mode.\nWe are here.",
        "```\n💻 x\n```",
    ] {
        assert_eq!(code(&format!("💻 Do it\nURID: {ID}\n\n{body}")).before, body);
    }
}

#[test]
fn without_files_there_is_neither_list_nor_marker() {
    let message = format!("💻 Do it\nURID: {ID}\n\nAll of it.");
    let delegation = code(&message);
    assert_eq!(delegation.context_files, Vec::<String>::new());
    assert_eq!(
        render(&delegation, &mode("code").emoji, &Urid::new(ID), ""),
        message.replace("URID", "\nURID")
    );
    let none = code(&format!("💻 Do it\nURID: {ID}\n\nAll of it.\n\nRelevant context files: none\n\nGo."));
    assert_eq!((none.before.as_str(), none.next_step.as_str()), ("All of it.", "Go."));
}

#[test]
fn a_wrong_part_is_named_with_its_line() {
    let words = "one two three four five six seven eight nine";
    for (message, part, line, problem) in [
        (String::new(), Part::Header, 1, "missing"),
        (FULL.replace("💻 Impl", "🪲 Impl"), Part::Header, 1, "`💻 <short description>`"),
        (format!("\n💻 {words}\nURID: {ID}\nAll."), Part::Header, 2, "has 9 words"),
        (format!("💻\nURID: {ID}\nAll."), Part::Header, 1, "description is missing"),
        ("💻 Do it".to_owned(), Part::Urid, 1, ID),
        ("💻 Do it\n\nAll of it.".to_owned(), Part::Urid, 3, ID),
        (FULL.replace("URID: 2025", "URID: 2024"), Part::Urid, 3, "'20240502-11-36-b4649193' is not"),
        (format!("💻 Do it\nURID: {ID}\n"), Part::Body, 2, "missing"),
        (format!("💻 Do it\nURID: {ID}\n\n🆕 Root\n^ we are here"), Part::Body, 4, "missing"),
        (FULL.replace("/api.md", "/../api.md"), Part::ContextFiles, 15, "is not a file inside"),
        (
            FULL.replace(".roo/tasks/20250502-11-36-b4649193/api.md", "src/api.md"),
            Part::ContextFiles,
            15,
            "'src/api.md'",
        ),
        (FULL.replace("\n.roo", "\n/.roo"), Part::ContextFiles, 15, "is not a file inside"),
        (FULL.replace("b4649193/api.md", "b4649193/"), Part::ContextFiles, 15, "is not a file inside"),
        (FULL.replace("b4649193/api.md", "b4649194/api.md"), Part::ContextFiles, 15, "is not a file inside"),
        (
            format!("💻 Do it\nURID: {ID}\nAll.\nRelevant context files:\n\nWhat I found out"),
            Part::ContextFiles,
            4,
            "names no file",
        ),
        (
            FULL.replace("\n@.roo", "\nSee .roo"),
            Part::Marker,
            20,
            "the last line is `@.roo/tasks/20250502-11-36-b4649193/`",
        ),
        (
            FULL.replace("\n@.roo/tasks/2025", "\n@.roo/tasks/2024"),
            Part::Marker,
            20,
            "not the directory of this request",
        ),
        (format!("{FULL}\nThank you."), Part::Marker, 20, "must be the last line"),
        (
            format!("💻 Do it\nURID: {ID}\nAll.\n@.roo/tasks/{ID}/"),
            Part::Marker,
            4,
            "only where context files are listed",
        ),
    ] {
        let found = wrong(&message);
        assert_eq!((found.0, found.1), (part, line), "{message}\n{found:?}");
        assert!(found.2.contains(problem), "{found:?}");
    }
}

#[test]
fn more_files_than_anyone_reads_are_refused() {
    let files: String = (0..=MAX_FILES).map(|n| format!(".roo/tasks/{ID}/{n}.md\n")).collect();
    let message = format!("💻 Do it\nURID: {ID}\nAll.\nRelevant context files:\n{files}@.roo/tasks/{ID}/");
    assert_eq!(wrong(&message).0, Part::ContextFiles);
}

#[test]
fn an_error_shows_a_message_that_would_do() {
    let error = parse_for("architect", "Design it").unwrap_err();
    insta::assert_snapshot!(error, @r"
    The message of new_task is malformed: line 1, the header line: it does not begin with the emoji of the mode. Expected `🏗️ <short description>`: the emoji of the mode 'architect', then 1 to 8 words.

    A correct message for this mode and this request (the invocation tree is drawn for you; leave out the list and the last line when there are no context files):

    🏗️ Describe the task in few words

    URID: 20250502-11-36-b4649193

    What is to be done, with every detail, prerequisite and requirement.

    Relevant context files:
    .roo/tasks/20250502-11-36-b4649193/analysis.md

    Read the context files first, then say what you did and how you checked it.

    @.roo/tasks/20250502-11-36-b4649193/
    ");
    let (_, example) =
        error.to_string().split_once(":\n\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert_eq!(
        parse_for("architect", &example).unwrap().context_files,
        [format!(".roo/tasks/{ID}/analysis.md")]
    );
}

#[test]
fn the_reader_stands_below_its_branch() {
    let branch = |parent, emoji, title| Branch { parent, emoji, title };
    let branches = [
        branch(None, "🆕", "Refactor user authentication module"),
        branch(Some(0), "🪃", "Orchestrate the refactoring process"),
        branch(Some(1), "🏗️", "Design new authentication flow"),
        branch(Some(1), "💻", "Implement JWT token generation"),
        branch(Some(3), "🪲", "Fix token expiration logic error"),
        branch(Some(1), "💻", "Complete entire authentication flow"),
        branch(Some(5), "🪲", "Debug failing login test case"),
    ];
    let expected = "\
🆕 Refactor user authentication module
└── 🪃 Orchestrate the refactoring process
    ├── 🏗️ Design new authentication flow
    ├── 💻 Implement JWT token generation
    │   └── 🪲 Fix token expiration logic error
    └── 💻 Complete entire authentication flow
        └── 🪲 Debug failing login test case
            ^ we are here";
    assert_eq!(draw(&branches, Some(6)), expected);
    // The mark comes before the children, whose line goes on beside it.
    let here = draw(&branches, Some(3));
    assert!(here.contains("generation\n    │   ^ we are here\n    │   └── 🪲"), "{here}");
    assert!(draw(&branches, Some(0)).contains("module\n^ we are here\n└── "));
}

#[test]
fn the_hierarchy_of_the_built_in_modes() {
    let branch = |parent, emoji, title| Branch { parent, emoji, title };
    let branches = [
        branch(None, "🆕", "Task"),
        branch(Some(0), "🪃", "Orchestrator"),
        branch(Some(1), "🏗️", "Architect"),
        branch(Some(1), "💻", "Code"),
        branch(Some(3), "🪲", "Debug"),
        branch(Some(1), "🪲", "Debug"),
    ];
    let expected = "\
🆕 Task
└── 🪃 Orchestrator
    ├── 🏗️ Architect
    ├── 💻 Code
    │   └── 🪲 Debug
    └── 🪲 Debug";
    assert_eq!(draw(&branches, None), expected);
}

#[test]
fn a_title_can_draw_nothing() {
    let title = "Fix\n└── 💻 Forged\u{202e}\u{1b}[2J";
    let drawn = draw(&chain(&[("\u{202e}🏗️\n", title), ("💻", "")]), Some(7));
    assert_eq!(drawn, "🏗️ Fix ⏎ └── 💻 Forged<U+202E><U+001B>[2J\n└── 💻");
    let long = "x".repeat(5 * MAX_TITLE_CHARS);
    assert_eq!(draw(&chain(&[("💻", &long)]), None).chars().count(), 2 + MAX_TITLE_CHARS);
}

#[test]
fn a_branch_without_a_parent_before_it_is_a_root() {
    let branch = |parent| Branch { parent, emoji: "💻", title: "x" };
    assert_eq!(draw(&[branch(Some(1)), branch(Some(9)), branch(Some(0))], None), "💻 x\n└── 💻 x\n💻 x");
    assert_eq!(draw(&[], Some(0)), "");
}

/// Lines that mean something in a message, and some that nearly do.
fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z 💻🆕`#:*@./│├└-]{0,12}",
        1 => prop::sample::select(vec![
            "", "```", "🆕 Root", "🐙 Root", "└── 🪃 Branch", "│   ^ we are here", "^ we are here",
            "Invocation tree:", "Relevant context files:", "**Relevant context files**: none",
            "- Relevant context files", "Relevant context files: `.roo/tasks/20250502-11-36-b4649193/c.md`",
            "none", "None.", ".roo/tasks/20250502-11-36-b4649193/a.md", "- `.roo/tasks/20250502-11-36-b4649193/b c.md`: notes",
            "`@.roo/tasks/20250502-11-36-b4649193/x/ /.`", "Read on.", "x.md", "URID: 20250502-11-36-b4649193",
        ]).prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn no_input_is_too_strange(message in any::<String>(), lines in prop::collection::vec(fragment(), 0..12)) {
        let _ = parse_for("code", &message);
        let _ = parse_for("code", &lines.join("\n"));
    }

    #[test]
    fn a_message_written_anew_says_the_same(
        lines in prop::collection::vec(fragment(), 1..12), end in "\r?\n", marker in any::<bool>(), title in "\\PC{1,20}"
    ) {
        let mut message = format!("💻 {title}{end}URID: {ID}{end}{}", lines.join(&end));
        if marker {
            message.push_str(&format!("\n@.roo/tasks/{ID}/"));
        }
        if let Ok(delegation) = parse_for("code", &message) {
            let tree = draw(&chain(&[("🆕", "Root"), ("💻", &delegation.title)]), Some(1));
            let again = render(&delegation, &mode("code").emoji, &Urid::new(ID), &tree);
            prop_assert!(again.contains(&tree));
            prop_assert_eq!(code(&again), delegation, "{}", again);
        }
    }

    #[test]
    fn every_branch_has_its_line(parents in prop::collection::vec(prop::option::of(0usize..12), 0..12)) {
        let branches: Vec<Branch<'_>> =
            parents.iter().map(|&parent| Branch { parent, emoji: "💻", title: "x" }).collect();
        let here = branches.len().checked_sub(1);
        let expected = branches.len() + here.iter().count();
        prop_assert_eq!(draw(&branches, here).lines().count(), expected);
    }
}
