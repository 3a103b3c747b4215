use std::time::Duration;

use super::*;
use roo_catalog::ToolName;

/// As users of Roo Code have it.
const OLD: &str = r#"
customModes:
  - slug: deployer
    name: 🚀 Deployer
    roleDefinition: >-
      You deploy.

      With care.
    whenToUse: |
      For releases.
    groups:
      - read
      - - edit
        - fileRegex: \.(ya?ml|md)$
          description: YAML and notes
      - browser
      - command
      - mcp
    source: project
    rulesFiles:
      - relativePath: a.md
        content: Be kind.
  - slug: docs
    name: Writer
    roleDefinition: "You write “prose” – with dashes."
    customInstructions: Short sentences.
    groups: [read, [edit, { fileRegex: "\\.md$" }], modes]
    canDelegateTo: [deployer, ask]
"#;

fn parse(text: &str) -> ParsedModes {
    ParsedModes::parse(text, Source::Project).unwrap()
}

/// Returns the problems, each with its line.
fn problems(text: &str) -> Vec<String> {
    let problems = match ParsedModes::parse(text, Source::Project) {
        Ok(parsed) => parsed.problems,
        Err(problem) => vec![problem],
    };
    let line = |problem: &Problem| problem.start().map_or(0, |at| at.line);
    problems.iter().map(|problem| format!("{}: {}", line(problem), problem.message)).collect()
}

/// A file with one mode, whose fields begin in line 2.
fn one(fields: &str) -> String {
    format!("customModes:\n  - {}\n", fields.replace('\n', "\n    "))
}

#[test]
fn a_file_of_old_is_read() {
    let ParsedModes { modes, problems, names_delegation } = parse(OLD);
    assert!(names_delegation);
    assert!(!parse(&OLD.replace("    canDelegateTo: [deployer, ask]\n", "")).names_delegation);
    assert_eq!(problems, []);
    let [deployer, docs] = modes.as_slice() else { panic!("{modes:?}") };
    assert_eq!((deployer.emoji.as_str(), deployer.name.as_str()), ("🚀", "Deployer"));
    assert_eq!(deployer.role, "You deploy.\nWith care.");
    assert_eq!(deployer.when_to_use.as_deref(), Some("For releases."));
    assert_eq!(deployer.source, Source::Project);
    assert!(deployer.has(ToolName::ExecuteCommand) && !deployer.has(ToolName::NewTask));
    let files = deployer.file_restriction.as_ref().unwrap();
    assert_eq!((files.pattern(), files.description.as_str()), (r"\.(ya?ml|md)$", "YAML and notes"));
    assert_eq!((docs.emoji.as_str(), docs.name.as_str()), (DEFAULT_EMOJI, "Writer"));
    assert_eq!(docs.role, "You write “prose” – with dashes.", "prose stays as it is");
    assert_eq!(docs.custom_instructions.as_deref(), Some("Short sentences."));
    assert_eq!(docs.can_delegate_to, ["deployer", "ask"]);
    assert!(docs.permits_file(ToolName::ApplyDiff, "a.rs", Some(".roo/tasks/x")).is_err());
}

/// Roo Code's modes have no such key, so every mode of such a file may delegate to every other.
#[test]
fn a_mode_that_can_not_be_used_names_delegation_too() {
    for value in ["[a]", "", "3", "[[x], 'b c']"] {
        let text = one(&format!("slug: a\nname: A\nroleDefinition: B\ngroups: []\ncanDelegateTo: {value}"));
        assert!(parse(&text).names_delegation, "{value}");
    }
    assert!(!parse(&one("slug: a\nname: A\nroleDefinition: B\ngroups: []")).names_delegation);
}

#[test]
fn a_wrong_entry_does_not_move_the_place_of_the_next_one() {
    let text = one("slug: a\nname: A\nroleDefinition: B\ngroups: []\ncanDelegateTo:\n- [x]\n- b c\n- code");
    assert_eq!(problems(&text), ["7: `canDelegateTo[0]` must be a string", "8: expected a mode's slug"]);
}

#[test]
fn json_is_read() {
    let text = r#"{
	"customModes": [{
		"slug": "docs",
		"name": "\ud83d\ude80 Docs",
		"roleDefinition": "You write.",
		"groups": ["read", ["edit", {"fileRegex": "\\.md$"}], "poems"]
	}, { "slug": "x", "name": "X", "roleDefinition": "Y", "groups": [] }]
}"#;
    let parsed = parse(text);
    assert_eq!(parsed.modes.iter().map(|mode| mode.slug.as_str()).collect::<Vec<_>>(), ["x"]);
    assert_eq!(parsed.problems[0].start().map(|at| at.line), Some(6), "{:?}", parsed.problems);
    let mended = parse(&text.replace(", \"poems\"", ""));
    assert_eq!((mended.modes[0].emoji.as_str(), mended.modes[0].name.as_str()), ("🚀", "Docs"));
}

#[test]
fn nothing_is_no_mode() {
    for text in ["", "# later\n", "customModes:\n", "customModes: []\n"] {
        assert!(parse(text).modes.is_empty() && parse(text).problems.is_empty(), "{text}");
    }
}

#[test]
fn every_mistake_is_told_at_its_line() {
    let fine = "slug: a\nname: A\nroleDefinition: B\ngroups: [read]";
    assert_eq!(problems(&one(fine)), Vec::<String>::new());
    let with = |from: &str, to: &str| problems(&one(&fine.replace(from, to)));
    for (from, to, expected) in [
        ("slug: a\n", "", "2: `slug` is missing"),
        ("slug: a", "slug: __proto__", "2: the slug '__proto__' may contain"),
        ("slug: a", "slug: 12", "2: `slug` must be a string"),
        ("name: A", "name: ''", "3: `name` must not be empty"),
        ("name: A", "name: [A]", "3: `name` must be a string"),
        ("roleDefinition: B", "roleDefinition: '  '", "4: `roleDefinition` must not be empty"),
        ("roleDefinition: B\n", "", "2: `roleDefinition` is missing"),
        ("\ngroups: [read]", "", "2: `groups` is missing"),
        ("groups: [read]", "groups: read", "5: `groups` must be a list"),
        ("groups: [read]", "groups:\n- read\n- poems", "7: there is no group 'poems'"),
        ("groups: [read]", "groups:\n- read\n- read", "7: duplicate group 'read'"),
        ("groups: [read]", "groups:\n- 7", "6: expected the name of a group"),
        ("groups: [read]", "groups:\n- [edit, x]", "6: expected a group and its options"),
        (
            "groups: [read]",
            "groups:\n- - edit\n  - fileRegex: '('",
            "7: the pattern '(' can't be used: Parsing error at position 1: Opening parenthesis without closing parenthesis",
        ),
        ("groups: [read]", "groups:\n- - edit\n  - fileRegex: '(\\w{900}){900}'", "it is too large"),
        ("groups: [read]", "groups:\n- - mcp\n  - servers: []", "7: `servers` names no server"),
        ("groups: [read]", "groups:\n- - mcp\n  - servers: git", "7: `servers` must be a list"),
        ("groups: [read]", "groups: []\ncanDelegateTo: code", "6: `canDelegateTo` must be a list"),
        (
            "groups: [read]",
            "groups: []\ncanDelegateTo:\n- code\n- [a]",
            "8: `canDelegateTo[1]` must be a string",
        ),
    ] {
        let found = with(from, to);
        assert!(found.len() == 1 && found[0].contains(expected), "{to}: {found:?}");
        assert_eq!(parse(&one(&fine.replace(from, to))).modes.len(), 0, "{to}");
    }
    for (text, expected) in [
        ("customModes: 3\n", "1: `customModes` must be a list"),
        ("modes: []\n", "0: `customModes` is missing"),
        ("- a\n", "0: expected `customModes:`"),
        ("customModes:\n  - slug: [\n", "did not find expected"),
        ("customModes:\n\t- slug: a\n", "2: "),
        ("customModes: []\ncustomModes: []\n", "2: duplicate key 'customModes'"),
        ("customModes:\n  - text\n", "2: expected a mode"),
    ] {
        let found = problems(text);
        assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
    }
}

#[test]
fn a_wrong_mode_leaves_the_others() {
    let text = format!("{OLD}  - slug: docs\n    name: Again\n    roleDefinition: X\n    groups: []\n");
    let parsed = parse(&text);
    assert_eq!(parsed.modes.len(), 2);
    assert_eq!(parsed.modes[1].name, "Writer");
    assert!(parsed.problems[0].message.contains("duplicate slug 'docs'"));
}

#[test]
fn what_means_nothing_is_a_warning() {
    let text = one(
        "slug: a\nname: A\nroleDefinition: B\ncolour: red\ngroups:\n- - read\n  - fileRegex: a\n    servers: [git]",
    );
    let parsed = parse(&text);
    assert_eq!(parsed.modes.len(), 1);
    assert!(parsed.problems.iter().all(|problem| problem.severity == Severity::Warning));
    assert_eq!(
        problems(&text),
        [
            "5: unknown key `colour`, ignored",
            "7: fileRegex applies only to the group edit; it has no effect here",
            "7: servers applies only to the group mcp; it has no effect here"
        ]
    );
}

#[test]
fn what_a_word_processor_did_is_undone_where_it_does_harm() {
    let text = "\u{feff}customModes:\r\n\u{a0} - slug: “a”\r\n    name: ‘A’\r\n    roleDefinition: B – C\r\n    \
                groups:\r\n    – read\u{200b}\r\n";
    let parsed = parse(text);
    assert_eq!(parsed.problems, []);
    assert_eq!((parsed.modes[0].slug.as_str(), parsed.modes[0].name.as_str()), ("a", "A"));
}

#[test]
fn a_mode_in_a_built_in_place_keeps_what_the_format_has_no_word_for() {
    let text = one("slug: code\nname: Coder\nroleDefinition: B\ngroups: [read]");
    let mode = &parse(&text).modes[0];
    assert_eq!((mode.emoji.as_str(), mode.name.as_str()), ("💻", "Coder"));
    assert_eq!(mode.can_delegate_to, ["debug"]);
    assert!(mode.instructions.is_empty());
    let mode =
        &parse(&one("slug: code\nname: 🐢 C\nroleDefinition: B\ngroups: []\ncanDelegateTo: []")).modes[0];
    assert_eq!((mode.emoji.as_str(), mode.can_delegate_to.len()), ("🐢", 0));
    let mode = &parse(&one("slug: new-task\nname: T\nroleDefinition: B\ngroups: []")).modes[0];
    assert!(mode.delegates_once && mode.gathers_context);
}

#[test]
fn the_emoji_of_a_name_is_taken_off() {
    for (name, emoji, rest) in [
        ("🚀 Deployer", Some("🚀"), "Deployer"),
        ("🏗️Architect", Some("🏗️"), "Architect"),
        ("👩‍💻  Two  words", Some("👩‍💻"), "Two words"),
        ("✅ Done", Some("✅"), "Done"),
        ("Plain 🚀", None, "Plain 🚀"),
        ("Überprüfer", None, "Überprüfer"),
        ("🚀", Some("🚀"), ""),
    ] {
        assert_eq!(split_emoji(name), (emoji.map(str::to_owned), rest.to_owned()), "{name}");
    }
    assert_eq!(parse(&one("slug: go\nname: 🚀\nroleDefinition: B\ngroups: []")).modes[0].name, "go");
}

#[test]
fn a_mode_is_found_in_the_text() {
    let places = locate(OLD, &["docs", "poet", "deployer"].map(ModePart::Slug));
    let lines: Vec<Option<usize>> = places.into_iter().map(|at| Some(at?.start.line)).collect();
    assert_eq!(lines, [Some(23), None, Some(3)]);
}

/// Nine levels, each of nine times the one before.
fn bomb(start: &str) -> String {
    (b'a'..=b'h').zip(b'b'..=b'i').fold(start.to_owned(), |text, (from, to)| {
        let list = vec![format!("*{}", char::from(from)); 9].join(", ");
        format!("{text}{}: &{} [{list}]\n", char::from(to), char::from(to))
    })
}

/// Returns the processor time of this thread, independent of the machine's load.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

#[test]
fn bombs_fail_quickly() {
    let large = format!("customModes:\n  - slug: {}\n", "a".repeat(2 << 20));
    let grown = format!("a: &a {}\ncustomModes: [{}]\n", "x".repeat(500_000), "*a, ".repeat(2000));
    let merged = "a: &a\n  <<: *a\ncustomModes: []\n".to_owned();
    let deep = |open: &str| format!("customModes: {}", open.repeat(10_000));
    let many = format!("customModes: [{}]", "{slug: 1}, ".repeat(50_000));
    for text in [bomb("a: &a [x, x]\n"), large, grown, merged, deep("["), deep("{a: "), deep("- "), many] {
        let before = thread_time();
        let parsed = ParsedModes::parse(&text, Source::Project);
        let took = thread_time() - before;
        // 100 ms with optimisation.
        let limit = if cfg!(debug_assertions) { 1000 } else { 100 };
        assert!(took < Duration::from_millis(limit), "{text:.40}: {took:?}");
        assert!(parsed.is_err() || !parsed.unwrap().problems.is_empty(), "{text:.40}");
    }
}

#[test]
fn what_cannot_be_seen_is_left_out_of_texts_and_told() {
    let fields = "slug: a\nname: \"👩\u{200d}💻 Co\u{200b}der\"\nroleDefinition: \"Be\\e kind\u{e0041}.\"\n\
                  whenToUse: o\u{202e}k\ncustomInstructions: ⚠\u{fe0f} Care\n\
                  groups: [[edit, {fileRegex: x, description: \"a\u{200b}b\"}]]";
    let ParsedModes { modes, problems: told, .. } = parse(&one(fields));
    let lines: Vec<Option<usize>> = told.iter().map(|problem| Some(problem.start()?.line)).collect();
    assert_eq!(lines, [Some(3), Some(4), Some(5), Some(7)], "{told:?}");
    assert!(told.iter().all(|problem| problem.severity == Severity::Warning), "{told:?}");
    let mode = &modes[0];
    assert_eq!(
        (mode.emoji.as_str(), mode.name.as_str(), mode.role.as_str()),
        ("👩\u{200d}💻", "Coder", "Be kind.")
    );
    assert_eq!(
        (mode.when_to_use.as_deref(), mode.custom_instructions.as_deref()),
        (Some("ok"), Some("⚠ Care"))
    );
    assert_eq!(mode.file_restriction.as_ref().unwrap().description, "ab");

    let slug = one("slug: \"co\u{e0041}de\"\nname: A\nroleDefinition: B\ngroups: []");
    assert!(problems(&slug)[0].starts_with("2: the slug 'co<U+E0041>de'"), "{:?}", problems(&slug));
    let invisible = one("slug: a\nname: A\nroleDefinition: \"\u{200b}\"\ngroups: []");
    assert!(parse(&invisible).modes.is_empty());
    assert!(problems(&invisible).iter().any(|told| told.contains("must have visible characters")));
    let pattern = one("slug: a\nname: A\nroleDefinition: B\ngroups: [[edit, {fileRegex: \"a\u{e0041}\"}]]");
    assert!(
        problems(&pattern)[0].starts_with("5: the pattern contains invisible characters"),
        "{:?}",
        problems(&pattern)
    );
}

#[test]
fn names_and_emojis_are_short() {
    let named =
        |name: &str| problems(&one(&format!("slug: a\nname: '{name}'\nroleDefinition: B\ngroups: []")));
    assert_eq!(named(&format!("👩\u{200d}👩\u{200d}👧\u{200d}👦 {}", "n".repeat(NAME_LIMIT))), [""; 0]);
    assert_eq!(named(&"n".repeat(NAME_LIMIT + 1)), ["3: `name` has more than 100 characters; shorten it"]);
    assert_eq!(named(&"🚀".repeat(9)), ["3: `name` begins with more than one emoji; keep one"]);
    // What shapes an emoji is none by itself: so it makes no second mode of a name.
    let joined = one("slug: a\nname: \"\\u200dCode\"\nroleDefinition: B\ngroups: []");
    let mode = &parse(&joined).modes[0];
    assert_eq!((mode.name.as_str(), mode.emoji.as_str()), ("Code", DEFAULT_EMOJI));
}

#[test]
fn a_mode_has_a_limited_number_of_targets() {
    let targets: Vec<String> = (0..MODES_LIMIT + 1).map(|n| format!("m{n}")).collect();
    let of = |targets: &[String]| {
        one(&format!(
            "slug: a\nname: A\nroleDefinition: B\ngroups: []\ncanDelegateTo: [{}]",
            targets.join(", ")
        ))
    };
    assert_eq!(problems(&of(&targets)), ["6: `canDelegateTo` has more than 200 entries"]);
    assert_eq!(parse(&of(&targets[1..])).modes[0].can_delegate_to.len(), MODES_LIMIT);
}

#[test]
fn problems_are_counted_when_there_are_many() {
    let text = format!("customModes: [{}]", "{slug: a}, ".repeat(100));
    let parsed = parse(&text);
    assert_eq!(parsed.problems.len(), PROBLEMS_LIMIT + 1);
    let last = &parsed.problems[PROBLEMS_LIMIT].message;
    assert!(last.starts_with("and ") && last.contains("more problems"), "{last}");
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_strange(text in r#"(customModes:|slug: |groups: |\[edit, |fileRegex: |[-\]\[{}"'&*!|>\n “–🚀a]){0,30}"#) {
        let _ = ParsedModes::parse(&text, Source::Global);
    }
}

#[test]
fn the_group_mcp_may_name_its_servers() {
    let own = "slug: a\nname: A\nroleDefinition: B\ngroups:\n- read\n- - mcp\n  - servers: [git, issues]";
    let ParsedModes { modes, problems, .. } = parse(&one(own));
    assert_eq!(problems, []);
    let mode = &modes[0];
    let tool = |server| roo_catalog::ServerToolName::new(server, "log").unwrap();
    assert_eq!(mode.permits_server_tool(&tool("git")), Ok(()));
    assert_eq!(
        mode.permits_server_tool(&tool("mail")).unwrap_err().to_string(),
        "The mode 'a' does not have the MCP server 'mail'. It has git, issues."
    );
    let all = Mode { mcp_servers: None, ..mode.clone() };
    let without = Mode { groups: vec![Group::Read], ..all.clone() };
    let git = Mode { mcp_servers: Some(["git".to_owned()].into()), ..mode.clone() };
    for (wide, narrow, more) in [
        (&all, &without, "MCP servers"),
        (&all, mode, "MCP servers"),
        (mode, &without, "the MCP servers git, issues"),
        (mode, &git, "the MCP servers issues"),
    ] {
        assert_eq!(wide.beyond(narrow).pop().as_deref(), Some(more));
        assert!(!narrow.beyond(wide).iter().any(|more| more.contains("MCP")));
    }
}
