use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use tempfile::TempDir;

use super::fixture::{leaping, standing};
use super::*;
use roo_catalog::ToolName;
use roo_formats::modes::FILE_LIMIT;
use roo_protocol::ids::Digest;

const MODE: &str =
    "customModes:\n  - slug: poet\n    name: ✒️ Poet\n    roleDefinition: You rhyme.\n    groups: [read]\n";
/// Gives the designer commands and all files.
const WIDER: &str = "customModes:\n  - slug: architect\n    name: Architect\n    roleDefinition: You do all.\n    \
                     groups: [read, edit, command]\n  - slug: poet\n    name: Poet\n    roleDefinition: You rhyme.\n    \
                     groups: []\n";

/// A workspace and a home of their own.
struct TestWorkspace {
    directory: TempDir,
    customization: Customization,
}

impl TestWorkspace {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["work", "home", "config"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let customization = leaping(open(directory.path()));
        Self { directory, customization }
    }

    fn trusted() -> Self {
        let place = Self::new();
        place.customization.grant(&Grant::Workspace).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // As editors do it: another file takes the name.
        let _ = fs::remove_file(&path);
        fs::write(path, text).unwrap();
    }

    fn source(&self, slug: &str) -> Option<Source> {
        self.customization.modes().find(slug).ok().map(|mode| mode.source)
    }

    fn problems(&self) -> Vec<String> {
        let start = format!("{}/", self.directory.path().canonicalize().unwrap().display());
        let shown = |problem: &FileProblem| problem.to_string().replace(&start, "");
        self.customization.problems().iter().map(shown).collect()
    }

    /// Headings and texts.
    fn rules(&self, slug: &str) -> Vec<(String, String)> {
        self.customization.rules(slug).into_iter().map(|rule| (rule.heading, rule.text)).collect()
    }

    fn headings(&self, slug: &str) -> Vec<String> {
        self.rules(slug).into_iter().map(|(heading, _)| heading).collect()
    }
}

fn directories(directory: &Path) -> Directories {
    Directories {
        config: directory.join("config"),
        state: directory.join("state"),
        home: Some(directory.join("home")),
        settings_file: None,
    }
}

fn open(directory: &Path) -> Customization {
    Customization::open(Setup {
        folders: vec![directory.join("work")],
        directories: directories(directory),
        state_directory: directory.join("state/workspaces/one"),
    })
    .unwrap()
}

mod mode_files {
    use super::*;

    #[test]
    fn the_workspace_comes_before_the_user_and_the_user_before_what_is_built_in() {
        let place = TestWorkspace::trusted();
        assert_eq!((place.source("code"), place.source("poet")), (Some(Source::BuiltIn), None));
        place.write("config/custom-modes.yaml", &MODE.replace("poet", "code"));
        assert_eq!(place.source("code"), Some(Source::Global));
        place.write("work/.roomodes", &MODE.replace("poet", "code"));
        assert_eq!(place.source("code"), Some(Source::Project));
        fs::remove_file(place.path("work/.roomodes")).unwrap();
        // The first look can't know that it is not being saved.
        assert_eq!(place.source("code"), Some(Source::Project));
        assert_eq!(place.source("code"), Some(Source::Global));
        assert_eq!(place.problems(), Vec::<String>::new());
    }

    #[test]
    fn narrowed_modes_stay_narrow_while_their_file_is_being_saved() {
        for name in ["config/custom-modes.yaml", "work/.roomodes"] {
            let TestWorkspace { directory, .. } = TestWorkspace::trusted();
            let (customization, clock) = standing(open(directory.path()));
            let place = TestWorkspace { directory, customization };
            let narrowed = MODE.replace("poet", "code");
            place.write(name, &format!("{narrowed}{}", MODE.replace("customModes:\n", "")));
            let source = place.source("code");
            assert!(source.is_some_and(|source| source != Source::BuiltIn), "{name}");
            for cut in ["", "customModes:\n", MODE] {
                fs::write(place.path(name), cut).unwrap();
                assert_eq!(place.source("code"), source, "{name} {cut:?}");
                assert!(place.customization.is_being_saved(), "{name} {cut:?}");
            }
            // What stays so is what the user wants.
            clock.fetch_add(2000, std::sync::atomic::Ordering::SeqCst);
            assert_eq!(place.source("code"), Some(Source::BuiltIn), "{name}");
            assert!(place.source("poet").is_some() && !place.customization.is_being_saved(), "{name}");
        }
    }

    #[test]
    fn a_users_modes_of_roo_code_are_there_under_their_own() {
        let place = TestWorkspace::new();
        let named = |name: &str| MODE.replace("Poet", name);
        let name = || place.customization.modes().find("poet").unwrap().name.clone();
        let of_roo_code =
            ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/custom_modes.yaml";
        place.write(&format!("home/{of_roo_code}"), &named("Old"));
        assert_eq!(name(), "Old");
        place.write("config/custom_modes.yaml", &named("Mine"));
        assert_eq!(name(), "Mine");
        place.write("config/custom-modes.yaml", &named("Newest"));
        assert_eq!(name(), "Newest");
    }

    #[test]
    fn the_last_good_modes_stay_while_a_newer_text_is_broken() {
        let place = TestWorkspace::trusted();
        place.write("work/.roomodes", MODE);
        assert_eq!(place.source("poet"), Some(Source::Project));
        place.write("work/.roomodes", "customModes:\n  - slug: [\n");
        assert_eq!(place.source("poet"), Some(Source::Project));
        let problems = place.problems();
        assert!(problems[0].starts_with("work/.roomodes:3:1: ") && problems[0].ends_with("stay in force"));
        place.write("work/.roomodes", "customModes: []\n");
        assert_eq!((place.source("poet"), place.problems().len()), (None, 0));
    }

    #[test]
    fn nothing_is_put_together_again_that_has_not_changed() {
        let place = TestWorkspace::trusted();
        place.write("work/.roomodes", &MODE.replace("[read]", "[reed]"));
        assert!(Arc::ptr_eq(&place.customization.modes(), &place.customization.modes()));
        assert_eq!(place.problems().len(), 1, "and its problems stay");
    }

    #[test]
    fn a_change_within_the_grain_of_time_is_seen() {
        let place = TestWorkspace::trusted();
        let path = place.path("work/.roomodes");
        for slug in ["poet", "bard", "poem", "rime"] {
            // In place, with the same length.
            fs::write(&path, MODE.replace("poet", slug)).unwrap();
            assert_eq!(place.source(slug), Some(Source::Project), "{slug}");
        }
    }

    #[test]
    fn a_pipe_a_large_file_and_a_link_out_of_the_workspace_are_refused_at_once() {
        let place = TestWorkspace::trusted();
        let path = place.path("work/.roomodes");
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, pipe, rustix::fs::Mode::RUSR, 0).unwrap();
        assert_eq!(place.source("poet"), None);
        assert!(place.problems()[0].contains("is neither a file nor a directory"), "{:?}", place.problems());

        place.write("work/.roomodes", &format!("{MODE}# {}\n", "x".repeat(FILE_LIMIT)));
        assert!(place.problems()[0].contains("at most 1048576 are read"), "{:?}", place.problems());

        place.write("elsewhere.yaml", MODE);
        fs::remove_file(&path).unwrap();
        symlink(place.path("elsewhere.yaml"), &path).unwrap();
        assert_eq!(place.source("poet"), None);
        assert!(place.problems()[0].contains("points outside the workspace"), "{:?}", place.problems());

        // The user's own files may be links.
        symlink(place.path("elsewhere.yaml"), place.path("config/custom-modes.yaml")).unwrap();
        assert_eq!(place.source("poet"), Some(Source::Global));
    }

    #[test]
    fn a_wrong_mode_and_a_missing_target_are_told_at_their_lines() {
        let place = TestWorkspace::trusted();
        let wrong = "  - slug: b\n    name: B\n    roleDefinition: C\n    groups: [poems]\n  - slug: c\n    name: C\n    \
                     roleDefinition: C\n    groups: []\n    canDelegateTo: [poet, nobody]\n";
        place.write("work/.roomodes", &format!("{MODE}{wrong}"));
        let problems = place.problems();
        assert!(problems[0].starts_with("work/.roomodes:9:14: there is no group 'poems'"), "{problems:?}");
        assert!(problems[1].starts_with("work/.roomodes:14:27: ") && problems[1].contains("'nobody'"));
        assert_eq!((problems.len(), place.source("poet")), (2, Some(Source::Project)));
    }
}

/// Generous for a busy machine; what these texts cost once was minutes.
const QUICKLY: std::time::Duration = std::time::Duration::from_secs(20);

#[test]
fn deep_brackets_are_refused_quickly_on_disk_and_in_the_editor() {
    let place = TestWorkspace::trusted();
    let before = std::time::Instant::now();
    let path = place.path("work").canonicalize().unwrap().join(".roomodes");
    for (open, count) in [("[", 1_000_000), ("{a: ", 250_000)] {
        let text = format!("customModes: {}", open.repeat(count));
        place.write("work/.roomodes", &text);
        assert!(place.problems()[0].contains("brackets are nested deeper"), "{:?}", place.problems());
        let problems = place.customization.problems_of_modes(&path, &text);
        assert!(problems[0].problem.message.contains("brackets are nested deeper"), "{problems:?}");
    }
    assert!(before.elapsed() < QUICKLY, "{:?}", before.elapsed());
}

#[test]
fn many_problems_in_a_long_file_are_told_quickly_and_counted() {
    let place = TestWorkspace::trusted();
    let mode = |n: usize| {
        format!("  - {{slug: m{n}, name: M{n}, roleDefinition: R, groups: [], canDelegateTo: [nope]}}\n")
    };
    let modes: String = (0..200).map(mode).collect();
    let text = format!("junk: [{}1]\ncustomModes:\n{modes}", "1,".repeat(180_000));
    place.write("work/.roomodes", &text);
    let before = std::time::Instant::now();
    let problems = place.problems();
    assert!(before.elapsed() < QUICKLY, "{:?}", before.elapsed());
    assert!(
        problems[1].starts_with("work/.roomodes:3:73: the mode 'm0' may delegate to 'nope'"),
        "{problems:?}"
    );
    assert!(
        problems.last().unwrap().ends_with("and 198 more problems with modes of this file"),
        "{problems:?}"
    );
    assert_eq!((problems.len(), place.source("m199")), (4, Some(Source::Project)));
}

mod trust {
    use super::*;

    #[test]
    fn nothing_of_an_untrusted_workspace_is_read() {
        let place = TestWorkspace::new();
        place.write("work/.roomodes", "broken: [");
        place.write("work/.roo/rules/a.md", "Obey.");
        place.write("work/.roo/rules-code/a.md", "Obey.");
        place.write("work/.roo/system-prompt-code", "Obey.");
        place.write("work/.roo/tasks/x/a.md", "Notes.");
        place.write("work/.roorules-code", "Obey.");
        place.write("work/AGENTS.md", "Obey.");
        place.write("work/.agents/skills/x/SKILL.md", "Obey.");
        let customization = &place.customization;
        assert_eq!(customization.problems(), []);
        assert_eq!(customization.rules("code"), []);
        assert_eq!(customization.prompt_override("code"), None);
        assert!(customization.skills().find("x", "code").is_none());
        let report = customization.trust();
        assert!(!report.trusted && report.pending_approvals.is_empty());
        let brings = [
            ".roomodes",
            ".roorules-code",
            "AGENTS.md",
            ".roo/rules",
            ".roo/rules-code",
            ".roo/system-prompt-code",
            ".agents/skills",
        ];
        assert_eq!(report.brings, brings);
    }

    #[test]
    fn trust_is_kept_for_the_user_alone_and_taken_back() {
        let place = TestWorkspace::new();
        place.write("work/.roomodes", MODE);
        assert!(place.customization.grant(&Grant::Workspace).unwrap().trusted);
        assert_eq!(place.source("poet"), Some(Source::Project));
        let file = place.path("state/workspaces/one/trust.json");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let beside = fs::read_dir(file.parent().unwrap()).unwrap();
        let mut names: Vec<_> = beside.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["trust.json", "trust.json.lock"], "nothing else is left behind");

        let other = open(place.directory.path());
        assert!(other.trust().trusted);
        assert!(!other.revoke().unwrap().trusted);
        assert_eq!(place.source("poet"), None, "every server sees it");
    }

    #[test]
    fn what_widens_a_mode_waits_for_an_approval_of_the_very_text() {
        let place = TestWorkspace::trusted();
        place.write("work/.roomodes", WIDER);
        assert_eq!(place.source("architect"), Some(Source::BuiltIn));
        assert_eq!(place.source("poet"), Some(Source::Project), "a new mode takes nothing from anybody");
        let problems = place.problems();
        let start = "work/.roomodes:2:11: the mode 'architect' would get more than it has: execute_command, \
                     read_command_output, send_command_input, stop_command, changing any file.";
        assert!(
            problems[0].starts_with(start) && problems[0].contains("--approve .roomodes"),
            "{problems:?}"
        );
        let pending = place.customization.trust().pending_approvals;
        assert_eq!(pending[0].path, ".roomodes");
        let seen = pending[0].digest;

        let grant = |digest| {
            place.customization.grant(&Grant::File { path: ".roomodes".to_owned(), digest: Some(digest) })
        };
        assert!(matches!(grant(Digest::of("other")), Err(TrustError::Changed { .. })));
        let left = grant(seen).unwrap().pending_approvals;
        // That none of its modes has a `canDelegateTo` is a question of its own.
        assert!(left.iter().all(|waiting| waiting.kind == PendingKind::Delegation), "{left:?}");
        let modes = place.customization.modes();
        assert!(modes.find("architect").unwrap().has(ToolName::ExecuteCommand));
        assert!(matches!(grant(seen), Err(TrustError::NothingPending { .. })));

        place.write("work/.roomodes", &format!("{WIDER}# changed\n"));
        assert_eq!(place.source("architect"), Some(Source::BuiltIn));
    }

    #[test]
    fn a_mode_of_the_users_own_is_not_widened_either() {
        let place = TestWorkspace::trusted();
        place.write("config/custom-modes.yaml", MODE);
        place.write("work/.roomodes", &MODE.replace("[read]", "[read, command]"));
        assert_eq!(place.source("poet"), Some(Source::Global));
        assert_eq!(place.customization.trust().pending_approvals.len(), 1);
    }

    #[test]
    fn an_approval_is_for_what_was_shown_and_not_for_what_widens_later() {
        let place = TestWorkspace::trusted();
        let poet = |groups: &str| MODE.replace("[read]", groups);
        place.write("config/custom-modes.yaml", &poet("[read, edit]"));
        place.write("work/.roomodes", &poet("[read, edit, command]"));
        let grant = Grant::File { path: ".roomodes".to_owned(), digest: None };
        assert!(place.customization.grant(&grant).unwrap().pending_approvals.is_empty());
        assert_eq!(place.source("poet"), Some(Source::Project));
        // The user takes something away from the mode, and the file stays as it is.
        place.write("config/custom-modes.yaml", MODE);
        assert_eq!(place.source("poet"), Some(Source::Global));
        let pending = place.customization.trust().pending_approvals;
        assert!(pending[0].widens[0].contains("changing any file"), "{pending:?}");
        place.write("config/custom-modes.yaml", &poet("[read, edit]"));
        assert_eq!(place.source("poet"), Some(Source::Project));
    }

    #[test]
    fn a_new_mode_to_which_the_users_modes_delegate_waits_for_an_approval() {
        let place = TestWorkspace::trusted();
        let lead = MODE.replace("poet", "lead").replace("Poet", "Lead");
        place.write("config/custom-modes.yaml", &format!("{lead}    canDelegateTo: [poet]\n"));
        place.write("work/.roomodes", MODE);
        assert_eq!(place.source("poet"), None);
        let widens = &place.customization.trust().pending_approvals[0].widens;
        assert_eq!(widens, &["the mode 'poet' is new, and lead may delegate to it"]);
        place.customization.grant(&Grant::File { path: ".roomodes".to_owned(), digest: None }).unwrap();
        assert_eq!(place.source("poet"), Some(Source::Project));
    }

    /// Two modes, none of which says to whom it may delegate.
    fn team() -> String {
        format!(
            "{MODE}{}",
            MODE.replace("customModes:\n", "").replace("poet", "critic").replace("Poet", "Critic")
        )
    }

    /// To whom a mode may delegate.
    fn targets(place: &TestWorkspace, slug: &str) -> Vec<String> {
        place.customization.modes().find(slug).unwrap().can_delegate_to.clone()
    }

    fn question(place: &TestWorkspace) -> Option<PendingTrust> {
        let pending = place.customization.trust().pending_approvals;
        pending.into_iter().find(|waiting| waiting.kind == PendingKind::Delegation)
    }

    #[test]
    fn the_modes_of_a_file_of_roo_code_may_delegate_to_each_other_if_the_user_says_so() {
        let place = TestWorkspace::new();
        place.write("work/.roomodes", &team());
        assert_eq!(place.customization.trust().delegation, None, "nothing is asked before there is trust");
        place.customization.grant(&Grant::Workspace).unwrap();
        let asked = question(&place).unwrap();
        assert!(asked.widens[0].ends_with("(none has `canDelegateTo`): poet, critic"), "{asked:?}");
        assert_eq!(targets(&place, "poet"), Vec::<String>::new(), "and without an answer all is as before");
        assert_eq!(place.problems(), Vec::<String>::new());

        let grant = Grant::File { path: ".roomodes".to_owned(), digest: Some(asked.digest) };
        let report = place.customization.grant(&grant).unwrap();
        let delegation = report.delegation.unwrap();
        assert_eq!(
            (delegation.allowed, delegation.modes),
            (Some(true), vec!["poet".into(), "critic".into()])
        );
        assert_eq!(report.pending_approvals, []);
        assert_eq!(
            (targets(&place, "poet"), targets(&place, "critic")),
            (vec!["critic".into()], vec!["poet".into()])
        );
        assert_eq!(targets(&place, "code"), ["debug"], "no other mode gets anything by it");
        let again = open(place.directory.path());
        assert_eq!(again.modes().find("poet").unwrap().can_delegate_to, ["critic"], "the answer is kept");

        place.write("work/.roomodes", &team().replace("You rhyme", "You write verse"));
        assert_eq!(
            (targets(&place, "poet"), question(&place).is_some()),
            (vec![], true),
            "for that text alone"
        );
        place.write("work/.roomodes", &team());
        assert_eq!(targets(&place, "poet"), ["critic"]);
        place.customization.revoke().unwrap();
        place.customization.grant(&Grant::Workspace).unwrap();
        assert_eq!(
            (targets(&place, "poet"), question(&place).is_some()),
            (vec![], true),
            "revoked with the trust"
        );
    }

    #[test]
    fn who_says_no_to_delegation_is_not_asked_again_and_can_change_their_mind() {
        let place = TestWorkspace::trusted();
        place.write("work/.roomodes", &team());
        let digest = question(&place).unwrap().digest;
        let other = Grant::RefusedDelegation { digest: Digest::of("other") };
        assert!(matches!(place.customization.grant(&other), Err(TrustError::Changed { .. })));
        place.customization.grant(&Grant::RefusedDelegation { digest }).unwrap();
        assert_eq!((question(&place), targets(&place, "poet")), (None, vec![]));
        place.customization.grant(&Grant::Delegation { allowed: true }).unwrap();
        assert_eq!(targets(&place, "poet"), ["critic"]);
        place.customization.grant(&Grant::Delegation { allowed: false }).unwrap();
        assert_eq!(targets(&place, "poet"), Vec::<String>::new());
    }

    #[test]
    fn files_that_say_who_delegates_and_single_modes_are_not_asked_about() {
        let place = TestWorkspace::trusted();
        for text in [MODE.to_owned(), format!("{}    canDelegateTo: []\n", team())] {
            place.write("work/.roomodes", &text);
            assert_eq!((question(&place), place.customization.trust().delegation), (None, None), "{text}");
            let answer = Grant::Delegation { allowed: true };
            assert!(matches!(place.customization.grant(&answer), Err(TrustError::NothingPending { .. })));
        }
    }

    #[test]
    fn a_mode_that_waits_for_its_approval_gets_no_delegation_by_the_team() {
        let place = TestWorkspace::trusted();
        place.write("work/.roomodes", WIDER);
        place.customization.grant(&Grant::Delegation { allowed: true }).unwrap();
        assert_eq!((targets(&place, "architect"), targets(&place, "poet")), (vec![], vec![]));
        place.customization.grant(&Grant::File { path: ".roomodes".to_owned(), digest: None }).unwrap();
        assert_eq!(
            (targets(&place, "architect"), targets(&place, "poet")),
            (vec!["poet".into()], vec!["architect".into()])
        );
    }

    /// A file as users of Roo Code have it: none of its keys says who delegates to whom.
    const OF_ROO_CODE: &str = r"customModes:
  - slug: conductor
    name: 🎼 Conductor
    roleDefinition: |-
      You are Roo, a strategic workflow orchestrator. You break down work and delegate it by `new_task`.
    whenToUse: Use this mode for work that spans several specialties.
    description: Coordinate specialists
    groups: []
    customInstructions: |-
      1. Break the task down into logical subtasks.
      2. Use the `new_task` tool with the mode that fits: test-writer or docs-writer.
    source: global
  - slug: test-writer
    name: 🧪 Test Writer
    roleDefinition: You are Roo, a testing specialist.
    groups:
      - read
      - browser
      - command
      - - edit
        - fileRegex: (__tests__/.*|.*\.test\.(ts|tsx)$)
          description: Test files
    source: global
  - slug: docs-writer
    name: ✍️ Docs Writer
    roleDefinition: You are Roo, a technical writer.
    groups: [read, [edit, { fileRegex: \.md$, description: Markdown }], mcp]
    source: global
";

    #[test]
    fn the_users_own_modes_of_roo_code_may_delegate_in_every_workspace_if_the_user_says_so() {
        let place = TestWorkspace::new();
        let file =
            "home/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/custom_modes.yaml";
        place.write(file, OF_ROO_CODE);
        assert_eq!(place.problems(), Vec::<String>::new());
        assert_eq!(targets(&place, "conductor"), Vec::<String>::new(), "until there is an answer");
        // The workspace is not trusted, and it isn't about it.
        let asked = question(&place).unwrap();
        assert!(asked.path.ends_with("/custom_modes.yaml"), "{asked:?}");
        let report = place.customization.trust();
        let modes = vec!["conductor".to_owned(), "docs-writer".to_owned(), "test-writer".to_owned()];
        assert_eq!((report.trusted, report.delegation), (false, None));
        assert_eq!(report.own_delegation.unwrap().modes, modes);

        let grant = Grant::File { path: asked.path, digest: Some(asked.digest) };
        let report = place.customization.grant(&grant).unwrap();
        assert_eq!((report.trusted, report.pending_approvals), (false, vec![]), "nothing else is granted");
        assert_eq!(targets(&place, "conductor"), ["docs-writer", "test-writer"]);
        assert_eq!(targets(&place, "docs-writer"), ["conductor", "test-writer"]);
        assert_eq!(targets(&place, "code"), ["debug"], "no other mode gets anything by it");
        let other = Customization::open(Setup {
            folders: vec![],
            directories: directories(place.directory.path()),
            state_directory: place.path("other"),
        });
        assert_eq!(
            other.unwrap().modes().find("conductor").unwrap().can_delegate_to.len(),
            2,
            "elsewhere too"
        );

        // What is written in a mode is its user's own; another mode is another question.
        place.write(file, &OF_ROO_CODE.replace("a testing specialist", "a tester"));
        assert_eq!(targets(&place, "conductor"), ["docs-writer", "test-writer"]);
        place.write(file, &OF_ROO_CODE.replace("docs-writer", "book-writer"));
        assert_eq!((targets(&place, "conductor"), question(&place).is_some()), (vec![], true));
        place.write(file, OF_ROO_CODE);
        place.customization.grant(&Grant::OwnDelegation { allowed: None }).unwrap();
        assert_eq!((targets(&place, "conductor"), question(&place).is_some()), (vec![], true), "taken back");
    }

    #[test]
    fn who_says_no_for_their_own_modes_is_not_asked_again_and_what_a_file_says_counts() {
        let place = TestWorkspace::new();
        place.write("config/custom-modes.yaml", OF_ROO_CODE);
        let digest = question(&place).unwrap().digest;
        place.customization.grant(&Grant::RefusedDelegation { digest }).unwrap();
        assert_eq!((question(&place), targets(&place, "conductor")), (None, vec![]));
        place.customization.grant(&Grant::OwnDelegation { allowed: Some(true) }).unwrap();
        assert_eq!(targets(&place, "conductor"), ["docs-writer", "test-writer"]);
        // The workspace's trust is another matter, and takes nothing back.
        place.customization.grant(&Grant::Workspace).unwrap();
        place.customization.revoke().unwrap();
        assert_eq!(targets(&place, "conductor"), ["docs-writer", "test-writer"]);
        place.write("config/custom-modes.yaml", &format!("{OF_ROO_CODE}    canDelegateTo: [conductor]\n"));
        assert_eq!(
            (targets(&place, "conductor"), targets(&place, "docs-writer")),
            (vec![], vec!["conductor".into()])
        );
        assert_eq!((question(&place), place.customization.trust().own_delegation), (None, None));
        let answer = Grant::OwnDelegation { allowed: Some(true) };
        assert!(matches!(place.customization.grant(&answer), Err(TrustError::NothingPending { .. })));
    }

    #[test]
    fn a_mode_that_looks_like_another_is_refused_or_told() {
        let place = TestWorkspace::trusted();
        place.write("config/custom-modes.yaml", MODE);
        let other = |slug: &str, name: &str| {
            let entry = MODE.strip_prefix("customModes:\n").unwrap();
            entry.replace("poet", slug).replace("✒️ Poet", name)
        };
        let modes = [other("Code", "Other"), other("POET", "Another"), other("builder", "CODE")].concat();
        place.write("work/.roomodes", &format!("customModes:\n{modes}"));
        assert_eq!(place.source("Code"), None);
        assert_eq!((place.source("POET"), place.source("builder")), (None, Some(Source::Project)));
        insta::assert_snapshot!(place.problems().join("\n"), @r"
        work/.roomodes:2:11: the slug 'Code' looks like that of the mode 'code', so this mode is ignored; choose another slug
        work/.roomodes:6:11: the slug 'POET' looks like that of the mode 'poet', so this mode is ignored; choose another slug
        work/.roomodes:10:11: the mode 'builder' has the same name as the mode 'code'; choose another name
        ");
        let severities: Vec<Severity> =
            place.customization.problems().iter().map(|problem| problem.problem.severity).collect();
        assert_eq!(severities, [Severity::Error, Severity::Error, Severity::Warning]);
    }

    #[test]
    fn the_built_in_modes_that_are_replaced_are_named_before_there_is_trust() {
        let place = TestWorkspace::new();
        place.write(
            "work/.roomodes",
            &format!("{MODE}{}", MODE.replace("customModes:\n", "").replace("poet", "new-task")),
        );
        let brings = || place.customization.trust().brings;
        assert_eq!(brings(), [".roomodes (replaces new-task)"]);
        assert_eq!((place.source("new-task"), place.source("poet")), (Some(Source::BuiltIn), None));
        place.customization.grant(&Grant::Workspace).unwrap();
        assert_eq!(brings(), [".roomodes (replaces new-task)"]);
        place.write("work/.roomodes", MODE);
        assert_eq!(brings(), [".roomodes"]);
    }

    #[test]
    fn another_directory_at_the_same_path_is_not_trusted() {
        let place = TestWorkspace::trusted();
        place.write("work/.roomodes", MODE);
        assert_eq!(place.source("poet"), Some(Source::Project));
        fs::rename(place.path("work"), place.path("old")).unwrap();
        place.write("work/.roomodes", MODE);
        assert!(!place.customization.trust().trusted);
        let again = open(place.directory.path());
        assert!(!again.trust().trusted);
        let problems: Vec<String> =
            again.problems().iter().map(|problem| problem.problem.message.clone()).collect();
        assert!(problems[0].contains("another directory"), "{problems:?}");
        again.grant(&Grant::Workspace).unwrap();
        assert!(again.trust().trusted && again.problems().is_empty());
    }

    #[test]
    fn an_override_that_only_tightens_needs_no_approval() {
        let place = TestWorkspace::trusted();
        place.write("work/.roomodes", &MODE.replace("poet", "code"));
        assert_eq!((place.source("code"), place.problems().len()), (Some(Source::Project), 0));
    }

    #[test]
    fn nothing_can_be_approved_in_an_untrusted_workspace() {
        let place = TestWorkspace::new();
        place.write("work/.roomodes", WIDER);
        let grant = Grant::File { path: ".roomodes".to_owned(), digest: None };
        let error = place.customization.grant(&grant).unwrap_err().to_string();
        assert_eq!(error, "'.roomodes' can't be approved: a workspace must be trusted first");
    }

    #[test]
    fn what_does_not_wait_for_an_approval_is_told_why() {
        let place = TestWorkspace::trusted();
        let why = |path: &str| {
            let grant = Grant::File { path: path.to_owned(), digest: None };
            place.customization.grant(&grant).map(drop).unwrap_err().to_string()
        };
        assert_eq!(why(".roomodes"), "nothing in '.roomodes' waits for approval: there is no such file");
        place.write("work/.roomodes", MODE);
        assert_eq!(
            why(".roomodes"),
            "nothing in '.roomodes' waits for approval: it contains nothing that needs approval"
        );
        place.write("work/.roomodes", "customModes: [");
        assert!(
            why(".roomodes").starts_with("'.roomodes' can't be approved until it is fixed: "),
            "{}",
            why(".roomodes")
        );
        place.write("work/.roomodes", WIDER);
        place.customization.grant(&Grant::File { path: ".roomodes".to_owned(), digest: None }).unwrap();
        assert_eq!(
            why(".roomodes"),
            "nothing in '.roomodes' waits for approval: its current version is approved already"
        );
        for path in ["../work/.roomodes", "AGENTS.md"] {
            assert_eq!(
                why(path),
                format!(
                    "nothing in '{path}' waits for approval: use exactly `.roomodes`, `.roo/hooks.json` or `.roo/mcp.json`"
                )
            );
        }
    }

    #[test]
    fn a_damaged_file_is_no_trust() {
        for text in ["", "{}", "{\"version\":1,\"root\":\"sha256:00\",\"trusted\":true,\"approved\":[]}"] {
            let place = TestWorkspace::trusted();
            place.write("work/.roomodes", MODE);
            place.write("state/workspaces/one/trust.json", text);
            assert_eq!(place.source("poet"), None, "{text}");
            assert!(!place.customization.trust().trusted);
            assert!(place.problems()[0].contains("the workspace is untrusted"), "{:?}", place.problems());
            place.customization.grant(&Grant::Workspace).unwrap();
            assert_eq!((place.source("poet"), place.problems().len()), (Some(Source::Project), 0));
        }
    }

    #[test]
    fn the_trust_of_one_workspace_is_none_for_another() {
        let place = TestWorkspace::trusted();
        let stored = fs::read_to_string(place.path("state/workspaces/one/trust.json")).unwrap();
        let other = TestWorkspace::new();
        other.write("state/workspaces/one/trust.json", &stored);
        assert!(!other.customization.trust().trusted);
    }

    #[test]
    fn without_a_folder_there_is_nothing_to_trust() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let directories =
            Directories { config: path.clone(), state: path.clone(), home: None, settings_file: None };
        let setup = Setup { folders: vec![], directories, state_directory: path };
        let customization = Customization::open(setup).unwrap();
        assert!(matches!(customization.grant(&Grant::Workspace), Err(TrustError::NoFolder)));
        assert_eq!(customization.trust(), TrustReport::default());
        assert_eq!(customization.modes().iter().count(), 6);
    }
}

mod rules {
    use super::*;

    #[test]
    fn they_come_in_one_order() {
        let place = TestWorkspace::trusted();
        for name in [
            "home/.roo/rules/all.md",
            "home/.roo/rules-code/mine.md",
            "work/.roo/rules-code/z/A.md",
            "work/.roo/rules-code/b.md",
            "work/.roo/rules/c.md",
            "work/.roo/rules-ask/other.md",
            "work/.roorules-code",
            "work/.roorules",
            "work/AGENTS.md",
            "work/AGENT.md",
            "work/AGENTS.local.md",
        ] {
            place.write(name, &format!("\n{name}\n\n"));
        }
        place.write("work/.roo/rules/empty.md", " \n");
        place.write("work/.roo/rules/left.bak", "old");
        place.write("work/.roo/rules/Thumbs.db", "old");
        insta::assert_snapshot!(place.headings("code").join("\n"), @r"
        Rules from ~/.roo/rules-code/mine.md
        Rules from .roo/rules-code/z/A.md
        Rules from .roo/rules-code/b.md
        Agent rules from AGENTS.md
        Local agent rules from AGENTS.local.md
        Rules from ~/.roo/rules/all.md
        Rules from .roo/rules/c.md
        ");
        assert_eq!(place.rules("code")[0].1, "home/.roo/rules-code/mine.md");
        assert_eq!(place.rules("../code"), []);
    }

    #[test]
    fn single_files_of_old_count_where_no_directory_holds_any() {
        let place = TestWorkspace::trusted();
        place.write("work/.roorules-code", "Mode.");
        place.write("work/.clinerules-code", "Older.");
        place.write("work/.clinerules/a.md", "All.");
        place.write("work/AGENT.md", "Agents.");
        let headings =
            ["Rules from .roorules-code", "Agent rules from AGENT.md", "Rules from .clinerules/a.md"];
        assert_eq!(place.headings("code"), headings);
    }

    #[test]
    fn imported_instructions_leave_the_single_files_of_old_in_force() {
        let place = TestWorkspace::trusted();
        place.write("home/.roo/rules/roo-code-custom-instructions.md", "Imported.");
        place.write("work/.roorules", "Old.");
        let imported = "Rules from ~/.roo/rules/roo-code-custom-instructions.md";
        assert_eq!(place.headings("code"), [imported, "Rules from .roorules"]);
        place.write("home/.roo/rules/own.md", "Own.");
        assert_eq!(place.headings("code"), ["Rules from ~/.roo/rules/own.md", imported]);
        // A file of that name elsewhere is a rule like any other.
        fs::remove_file(place.path("home/.roo/rules/own.md")).unwrap();
        place.write("work/.roo/rules/roo-code-custom-instructions.md", "Project.");
        let of_project = "Rules from .roo/rules/roo-code-custom-instructions.md";
        assert_eq!(place.headings("code"), [imported, of_project]);
    }

    #[test]
    fn links_are_followed_but_never_out_of_the_workspace() {
        let place = TestWorkspace::trusted();
        place.write("work/shared/a.md", "Shared.");
        place.write("secret/key.md", "Secret.");
        fs::create_dir_all(place.path("work/.roo/rules")).unwrap();
        let link =
            |to: &str, name: &str| symlink(place.path(to), place.path("work/.roo/rules").join(name)).unwrap();
        link("work/shared", "shared");
        link("secret", "directory");
        link("secret/key.md", "file.md");
        link("work/.roo/rules", "circle");
        link("nowhere", "dangling");
        symlink(place.path("secret/key.md"), place.path("work/AGENTS.md")).unwrap();
        let rules = place.rules("code");
        assert_eq!(rules[0], ("Rules from .roo/rules/shared/a.md".to_owned(), "Shared.".to_owned()));
        assert!(rules.iter().all(|(_, text)| !text.contains("Secret.")), "{rules:?}");
        let left_out: Vec<&str> = rules[1].1.lines().skip(1).collect();
        let why = "(it is a symlink that points outside the workspace; put the text itself there)";
        assert_eq!(
            left_out,
            ["AGENTS.md", ".roo/rules/directory", ".roo/rules/file.md"].map(|name| format!("- {name} {why}"))
        );
        let told: Vec<String> = place.problems();
        let of = |name: &str| told.iter().filter(|told| told.starts_with(&format!("work/{name}: "))).count();
        assert_eq!(
            (told.len(), of("AGENTS.md"), of(".roo/rules/directory"), of(".roo/rules/file.md")),
            (3, 1, 1, 1),
            "{told:?}"
        );

        // What is the user's own may be anywhere.
        fs::create_dir(place.path("home/.roo")).unwrap();
        symlink(place.path("secret"), place.path("home/.roo/rules")).unwrap();
        assert!(place.rules("code").iter().any(|(_, text)| text == "Secret."));
    }

    #[test]
    fn links_lead_to_nothing_that_may_not_be_read() {
        let place = TestWorkspace::trusted();
        place.write("work/.rooignore", "priv.txt\n");
        for name in ["work/.env", "work/priv.txt", "work/.git/config"] {
            place.write(name, "hunter2");
        }
        place.write("work/shared.md", "Shared.");
        fs::create_dir_all(place.path("work/.roo/rules")).unwrap();
        let link = |to: &str, name: &str| symlink(to, place.path("work").join(name)).unwrap();
        link("../../.env", ".roo/rules/a.md");
        link("../../priv.txt", ".roo/rules/b.md");
        link("../../.rooignore", ".roo/rules/c.md");
        link("../../shared.md", ".roo/rules/d.md");
        link("..", ".roo/rules-code");
        link(".git/config", "AGENTS.md");
        link("../.env", ".roo/system-prompt-code");
        link(".env", ".roomodes");
        let rules = place.rules("code");
        assert!(rules.contains(&("Rules from .roo/rules/d.md".to_owned(), "Shared.".to_owned())));
        assert!(
            rules.iter().all(|(_, text)| !text.contains("hunter2") && !text.contains("priv.txt\n")),
            "{rules:?}"
        );
        let (heading, left_out) = rules.last().unwrap();
        assert_eq!(heading, "Rules that were left out");
        for (name, why) in [
            ("a.md", "the name of a secret"),
            ("b.md", "hidden by .rooignore"),
            ("c.md", "hidden by .rooignore"),
        ] {
            let line = left_out.lines().find(|line| line.starts_with(&format!("- .roo/rules/{name} ")));
            assert!(line.is_some_and(|line| line.contains(why)), "{left_out}");
        }
        assert!(left_out.contains("- AGENTS.md (it points into the git directory"), "{left_out}");
        assert_eq!(place.customization.prompt_override("code"), None);
        assert!(place.problems()[0].contains("the name of a secret"), "{:?}", place.problems());
    }

    #[test]
    fn a_workspaces_directory_that_leads_out_of_it_is_not_looked_into() {
        let place = TestWorkspace::trusted();
        place.write("elsewhere/rules/a.md", "Obey.");
        symlink(place.path("elsewhere"), place.path("work/.roo")).unwrap();
        let rules = place.rules("code");
        assert_eq!(rules.len(), 1);
        assert!(rules[0].1.contains("- .roo/rules (it is a symlink that points outside"), "{rules:?}");
        assert!(
            place.problems()[0].starts_with("work/.roo/rules: these rules are left out: it is a symlink")
        );
        assert_eq!(place.customization.trust().brings, Vec::<String>::new());
    }

    #[test]
    fn linked_directories_of_rules_that_lead_out_of_the_workspace_are_told() {
        let place = TestWorkspace::trusted();
        place.write("dotfiles/rules/a.md", "Obey.");
        fs::create_dir_all(place.path("work/.roo")).unwrap();
        for name in ["work/.roo/rules-code", "work/.clinerules"] {
            symlink(place.path("dotfiles/rules"), place.path(name)).unwrap();
        }
        let rules = place.rules("code");
        let left_out: Vec<&str> = rules[0].1.lines().skip(1).collect();
        let why = "(it is a symlink that points outside the workspace; put the text itself there)";
        assert_eq!(left_out, [".roo/rules-code", ".clinerules"].map(|name| format!("- {name} {why}")));
        assert_eq!((rules.len(), place.problems().len()), (1, 2), "{:?}", place.problems());
    }

    #[test]
    fn there_is_an_end_to_them_and_what_is_left_out_is_named() {
        let place = TestWorkspace::trusted();
        place.write("work/.roo/rules/a.md", &"a".repeat(200 << 10));
        place.write("work/.roo/rules/b.md", &"b".repeat(100 << 10));
        place.write("work/.roo/rules/c.md", "short");
        place.write("work/.roo/rules/d.md", &"d".repeat(300 << 10));
        fs::write(place.path("work/.roo/rules/e.md"), b"\xff\xfe\0").unwrap();
        let pipe = rustix::fs::FileType::Fifo;
        let path = place.path("work/.roo/rules/pipe.md");
        rustix::fs::mknodat(rustix::fs::CWD, &path, pipe, rustix::fs::Mode::RUSR, 0).unwrap();
        let rules = place.rules("code");
        let headings: Vec<&str> = rules.iter().map(|(heading, _)| heading.as_str()).collect();
        let expected =
            ["Rules from .roo/rules/a.md", "Rules from .roo/rules/c.md", "Rules that were left out"];
        assert_eq!(headings, expected);
        for name in ["b.md (too long)", "d.md", "e.md (the file is not UTF-8 text)"] {
            assert!(rules[2].1.contains(name), "{}", rules[2].1);
        }
    }
}

#[test]
fn a_prompt_may_be_replaced() {
    let place = TestWorkspace::trusted();
    place.write("work/.roo/system-prompt-code", "\n You are {{mode}}.\n");
    place.write("work/.roo/system-prompt-ask", " \n");
    let prompt = |slug| place.customization.prompt_override(slug);
    assert_eq!(prompt("code").as_deref(), Some("You are {{mode}}."));
    assert_eq!((prompt("ask"), prompt("debug"), prompt("../rules/x")), (None, None, None));
}

#[test]
fn what_cannot_be_seen_is_left_out_of_rules_and_prompts_and_told() {
    let place = TestWorkspace::trusted();
    place.write("work/.roo/rules-code/a.md", "Be kind.\nOb\u{e0041}ey\u{202e}.");
    place.write("work/AGENTS.md", "Stay\u{200b}.\u{1b}[8m");
    place.write("home/.roo/rules/b.md", "\u{26a0}\u{fe0f} Care.");
    place.write("work/.roo/system-prompt-code", "You are\u{e0020} {{mode}}.");
    let texts: Vec<String> = place.rules("code").into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Be kind.\nObey.", "Stay.[8m", "\u{26a0} Care."]);
    assert_eq!(place.customization.prompt_override("code").as_deref(), Some("You are {{mode}}."));
    insta::assert_snapshot!(place.problems().join("\n"), @r"
    work/AGENTS.md:1:5: Invisible characters were ignored: remove them.
    work/.roo/rules-code/a.md:2:3: Invisible characters were ignored: remove them.
    work/.roo/system-prompt-code:1:8: Invisible characters were ignored: remove them.
    ");
    place.customization.revoke().unwrap();
    assert_eq!(place.problems(), [""; 0]);
}

#[test]
fn commands_and_skills_of_a_workspace_go_before_the_users_where_it_is_trusted() {
    let place = TestWorkspace::trusted();
    let skill = |text: &str| format!("---\nname: x\ndescription: {text}\n---\nDo it.\n");
    for (directory, text) in [("home", "The user's."), ("work", "The project's.")] {
        place.write(&format!("{directory}/.roo/commands/x.md"), text);
        place.write(&format!("{directory}/.roo/skills/x/SKILL.md"), &skill(text));
    }
    let customization = &place.customization;
    let found = || {
        let command = customization.commands().into_iter().find(|command| command.name == "x").unwrap();
        (command.body, customization.skills().find("x", "code").unwrap().description.clone())
    };
    assert_eq!(found(), ("The project's.".to_owned(), "The project's.".to_owned()));
    customization.revoke().unwrap();
    assert_eq!(found(), ("The user's.".to_owned(), "The user's.".to_owned()));
}

#[test]
fn commands_and_skills_lead_to_nothing_that_may_not_be_read() {
    let place = TestWorkspace::trusted();
    place.write("work/.rooignore", "priv/\n");
    place.write("work/.env", "hunter2");
    place.write("work/.git/hooks/a.md", "hunter2");
    let skill = |name: &str| format!("---\nname: {name}\ndescription: hunter2\n---\nhunter2\n");
    place.write("work/priv/hidden/SKILL.md", &skill("hidden"));
    place.write("work/.roo/commands/own.md", "Mine.");
    place.write("work/.roo/skills/swapped/SKILL.md", &skill("swapped"));
    let link = |to: &str, name: &str| symlink(to, place.path("work/.roo").join(name)).unwrap();
    link("../../.env", "commands/x.md");
    link("../../.git/hooks/a.md", "commands/y.md");
    link("../../priv/hidden", "skills/hidden");
    let customization = &place.customization;
    let names: Vec<String> = customization.commands().into_iter().map(|command| command.name).collect();
    assert_eq!(names, ["init", "own"]);
    let skills = customization.skills();
    assert!(skills.find("hidden", "code").is_none());
    let start = "work/.roo";
    assert_eq!(
        place.problems(),
        [
            format!("{start}/commands/x.md: it has the name of a secret, or leads to a file that has"),
            format!("{start}/commands/y.md: it points into the git directory; put the text itself there"),
            format!("{start}/skills/hidden/SKILL.md: it leads to a file that is hidden by .rooignore"),
        ]
    );
    // The instructions are asked for later than the description.
    fs::remove_file(place.path("work/.roo/skills/swapped/SKILL.md")).unwrap();
    link("../../../priv/hidden/SKILL.md", "skills/swapped/SKILL.md");
    let error = read_body(skills.find("swapped", "code").unwrap()).unwrap_err().to_string();
    assert!(error.contains("hidden by .rooignore"), "{error}");
}

#[test]
fn modes_count_as_soon_as_nothing_hides_what_they_lead_to() {
    let place = TestWorkspace::trusted();
    place.write("work/private/modes.yaml", MODE);
    symlink("private/modes.yaml", place.path("work/.roomodes")).unwrap();
    place.write("work/.rooignore", "private/\n");
    let hidden = place.source("poet");
    assert_eq!(
        place.problems(),
        ["work/.roomodes: it leads to a file that is hidden by .rooignore".to_owned()]
    );
    fs::remove_file(place.path("work/.rooignore")).unwrap();
    assert_eq!((hidden, place.source("poet")), (None, Some(Source::Project)));
    assert!(place.problems().is_empty(), "{:?}", place.problems());
}

#[test]
fn rooignore_limits_tools_and_not_what_steers_agents() {
    let place = TestWorkspace::trusted();
    place.write("work/.roomodes", MODE);
    place.write("work/AGENTS.md", "Agents.");
    place.write("work/.roo/rules/a.md", "Rule.");
    place.write("work/.roo/system-prompt-code", "You are {{mode}}.");
    place.write("work/.roo/commands/x.md", "Command.");
    place.write("work/.roo/skills/x/SKILL.md", "---\nname: x\ndescription: Skill\n---\nDo it.\n");
    place.write("work/.roo/mcp.json", r#"{ "mcpServers": { "notes": { "command": "notes" } } }"#);
    place.write("work/.roo/rules/.env", "hunter2");
    let customization = &place.customization;
    let at_first = place.problems();
    // The last one can't be understood, so that it hides everything from tools.
    for patterns in [".roo/\n", "*.md\n*.json\n", ".*\n", "*\n", "a{b\n"] {
        place.write("work/.rooignore", patterns);
        assert_eq!(place.source("poet"), Some(Source::Project), "{patterns}");
        let headings = place.headings("code");
        assert_eq!(
            headings,
            ["Agent rules from AGENTS.md", "Rules from .roo/rules/a.md", "Rules that were left out"],
            "{patterns}"
        );
        assert!(place.rules("code")[2].1.contains("- .roo/rules/.env (it has the name of a secret"));
        assert!(customization.prompt_override("code").is_some(), "{patterns}");
        assert!(customization.commands().iter().any(|command| command.name == "x"), "{patterns}");
        assert_eq!(read_body(customization.skills().find("x", "code").unwrap()).unwrap(), "Do it.");
        assert_eq!(customization.mcp_servers().len(), 1, "{patterns}");
        assert_eq!(place.problems(), at_first, "{patterns}");
    }
}

#[test]
fn clients_are_told_modes_and_problems() {
    let place = TestWorkspace::trusted();
    place.write("work/.roomodes", &format!("{MODE}    colour: red\n"));
    let settings = Settings { mode: "poet".to_owned(), ..Settings::default() };
    let list = place.customization.mode_list(&settings);
    assert_eq!(list.default_mode, "poet");
    let poet = list.modes.last().unwrap();
    assert_eq!((poet.slug.as_str(), poet.emoji.as_str(), poet.source.as_str()), ("poet", "✒️", "project"));
    assert!(poet.tools.contains(&"read_file".to_owned()));
    assert_eq!((list.problems[0].line, list.problems[0].error), (Some(6), false));
}

#[test]
fn a_text_is_checked_as_if_it_were_the_files_and_counts_for_nothing() {
    let place = TestWorkspace::new();
    let path = place.path("work").canonicalize().unwrap().join(".roomodes");
    let problems = place.customization.problems_of_modes(&path, WIDER);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].problem.message.starts_with("the mode 'architect' would get more than it has"),
        "{}",
        problems[0]
    );
    assert_eq!(place.source("poet"), None);
    assert!(place.problems().is_empty());
}

#[test]
fn only_a_trusted_workspace_is_read_for_its_mistakes_but_for_what_always_counts() {
    let place = TestWorkspace::new();
    let work = place.path("work").canonicalize().unwrap();
    place.write("work/.roo/rules/a.md", "Be kind.");
    place.write("work/.rooignore", "*.log");
    let text = |name: &str| place.customization.text_of(&work.join(name));
    assert_eq!((text(".roo/rules/a.md"), text(".rooignore")), (None, Some("*.log".to_owned())));
    place.customization.grant(&Grant::Workspace).unwrap();
    assert_eq!(text(".roo/rules/a.md"), Some("Be kind.".to_owned()));
}
