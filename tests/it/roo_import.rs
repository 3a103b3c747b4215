//! `roo-lsp import roo`: an export of Roo Code's settings, taken over by the real program.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::support::project::Project;

fn export() -> Value {
    json!({
        "providerProfiles": {
            "currentApiConfigName": "work",
            "apiConfigs": {
                "work": {"id": "a1", "apiProvider": "anthropic", "apiModelId": "claude-sonnet-4-5", "apiKey": "sk-ant-0123"},
                "deep": {
                    "id": "a2", "apiProvider": "deepseek", "apiModelId": "deepseek-chat", "deepSeekApiKey": "sk-4567",
                },
                "local": {"id": "a3", "apiProvider": "ollama", "ollamaModelId": "qwen3:8b"},
            },
            "modeApiConfigs": {"architect": "a2"},
        },
        "globalSettings": {
            "autoApprovalEnabled": true, "alwaysAllowWrite": true, "alwaysAllowExecute": true,
            "allowedCommands": ["npm test"], "deniedCommands": ["git push"], "allowedMaxRequests": 500,
            "customInstructions": "Be brief.",
        },
    })
}

fn import(project: &Project, export: &Value, arguments: &[&str]) -> Output {
    let file = project.beside("roo-code-settings.json");
    fs::write(&file, export.to_string()).unwrap();
    project.run(&[&["import", "roo", file.to_str().unwrap()], arguments].concat())
}

/// What was printed, with the places of the fixture left out.
fn printed(project: &Project, output: &Output) -> String {
    let text =
        [&*output.stdout, &*output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    text.replace(project.beside("").to_str().unwrap(), "")
}

fn settings(project: &Project) -> String {
    fs::read_to_string(project.beside("config/roo-lsp/config.yaml")).unwrap()
}

#[test]
fn profiles_and_settings_are_written_beside_what_is_there() {
    let project = Project::new(&[]);
    project.configure("# mine\nmode: code\nlimits:\n  requests: 100\n");
    let dry = import(&project, &export(), &["--dry-run"]);
    assert!(dry.status.success(), "{dry:?}");
    assert_eq!(settings(&project), "# mine\nmode: code\nlimits:\n  requests: 100\n");
    assert!(!project.beside("home/.roo").exists());

    let output = import(&project, &export(), &[]);
    assert!(output.status.success(), "{output:?}");
    insta::assert_snapshot!(printed(&project, &output));
    insta::assert_snapshot!(settings(&project));
    let rules = project.beside("home/.roo/rules/roo-code-custom-instructions.md");
    assert_eq!(fs::read_to_string(rules).unwrap(), "Be brief.\n");
    let prompt = project.succeed(&["prompt", "code"]);
    assert!(prompt.contains("Be brief."), "{prompt}");
    let doctor = printed(&project, &project.run(&["doctor", "--offline"]));
    assert!(doctor.contains("default profile: work") && doctor.contains("modes.architect: deep"), "{doctor}");

    let again = import(&project, &export(), &[]);
    assert!(printed(&project, &again).starts_with("there is nothing to import\n"), "{again:?}");
}

#[test]
fn approvals_are_taken_over_when_asked() {
    let project = Project::new(&[]);
    project.configure("");
    let output = import(&project, &export(), &["--approvals"]);
    assert!(output.status.success() && !printed(&project, &output).contains("--approvals"), "{output:?}");
    let written = settings(&project);
    assert!(written.contains("allow: [[npm, test]]") && written.contains("write: true"), "{written}");
    project.succeed(&["policy", "check", "--command", "npm test"]);
    assert_eq!(project.run(&["policy", "check", "--command", "git push"]).status.code(), Some(1));
    // What is there already is not told as left out.
    let again = import(&project, &export(), &[]);
    assert!(!printed(&project, &again).contains("--approvals"), "{again:?}");
}

#[test]
fn modes_of_an_export_become_the_users_own_once() {
    let project = Project::new(&[]);
    project.configure("");
    let mode = |slug: &str, source: &str| {
        json!({
            "slug": slug, "name": slug, "roleDefinition": "You help.", "groups": ["read", ["edit", {"fileRegex": "\\.md$"}]],
            "source": source,
        })
    };
    let modes = json!([mode("poet", "global"), mode("team", "project")]);
    let export = json!({ "globalSettings": { "customModes": modes } });
    let output = import(&project, &export, &[]);
    let told = printed(&project, &output);
    assert!(output.status.success() && told.contains("modes: written to "), "{told}");
    let written = fs::read_to_string(project.beside("config/roo-lsp/custom_modes.yaml")).unwrap();
    assert!(written.starts_with("customModes:\n- slug: poet\n  name: poet\n"), "{written}");
    assert!(told.contains("the modes team of a project: they count from its .roomodes"), "{told}");
    let listed = project.succeed(&["modes"]);
    assert!(listed.contains("poet") && !listed.contains("team"), "{listed}");
    project.succeed(&["modes", "check"]);
    let again = import(&project, &export, &[]);
    assert!(printed(&project, &again).starts_with("there is nothing to import\n"), "{again:?}");
    // So are they as another file writes them, such as Roo Code's own.
    let storage = project.beside("rooveterinaryinc.roo-cline");
    fs::create_dir_all(storage.join("settings")).unwrap();
    let same = "customModes:\n- slug: poet\n  name: poet\n  roleDefinition: You help.\n  groups: [read, [edit, {fileRegex: \\.md$}]]\n";
    fs::write(storage.join("settings/custom_modes.yaml"), same).unwrap();
    let told = printed(&project, &project.run(&["import", "roo", storage.to_str().unwrap()]));
    assert!(!told.contains("not imported: modes"), "{told}");
    // One of the same slug stays, and that is said where it differs.
    let mut other = mode("poet", "global");
    other["roleDefinition"] = json!("You rhyme.");
    let changed =
        printed(&project, &import(&project, &json!({ "globalSettings": { "customModes": [other] } }), &[]));
    assert!(changed.contains("mode `poet`: you have another one of that slug"), "{changed}");
    // Others of the user's own stay.
    let more =
        json!({ "globalSettings": { "customModes": [mode("poet", "global"), mode("critic", "global")] } });
    let kept = printed(&project, &import(&project, &more, &[]));
    assert!(kept.contains("custom_modes.yaml has others"), "{kept}");
    assert!(!project.succeed(&["modes"]).contains("critic"));
}

#[test]
fn a_profile_that_is_there_stays_unless_it_is_to_be_replaced() {
    let project = Project::new(&[]);
    project.configure("profile: work\nprofiles:\n  work:\n    provider: ollama\n    model: mine\n");
    let kept = import(&project, &export(), &[]);
    assert!(printed(&project, &kept).contains("profile `work`: there is one of that name"), "{kept:?}");
    assert!(settings(&project).contains("model: mine"));
    import(&project, &export(), &["--replace"]);
    assert!(!settings(&project).contains("model: mine") && settings(&project).contains("claude-sonnet-4-5"));
}

#[test]
fn what_changed_on_the_way_is_told_of_profiles_that_are_written() {
    let project = Project::new(&[]);
    project.configure("");
    let thinks = json!({
        "apiProvider": "anthropic", "apiModelId": "claude-sonnet-4-5", "enableReasoningEffort": true,
        "modelMaxThinkingTokens": 8192,
    });
    let export = json!({"providerProfiles": {"apiConfigs": {"default": thinks}}});
    let told = printed(&project, &import(&project, &export, &[]));
    let remark = "roo-lsp: imported, but not as it was: profile `default`: its budget of 8192 tokens for thinking became \
                  `reasoning: medium`\n";
    assert!(told.contains(remark) && !told.contains("not imported"), "{told}");

    project.configure("profiles:\n  default:\n    provider: ollama\n    model: mine\n");
    let kept = import(&project, &export, &[]);
    let told = printed(&project, &kept);
    assert!(kept.status.success() && !told.contains("8192"), "{told}");
    assert!(told.contains("not imported: profile `default`: there is one of that name"), "{told}");
}

#[test]
fn a_command_whose_rule_would_never_apply_is_left_out_with_its_reason() {
    let project = Project::new(&[]);
    project.configure("");
    let mut export = export();
    export["globalSettings"]["allowedCommands"] = json!(["npm test", "cargo", "git push", "echo \"a b\""]);
    let asked = printed(&project, &import(&project, &export, &["--dry-run"]));
    assert!(!asked.contains("allowedCommands"), "nothing of it was asked for: {asked}");
    let told = printed(&project, &import(&project, &export, &["--approvals"]));
    for reason in [
        "not imported: `cargo` of `allowedCommands`: this rule never applies: `cargo` runs what it is given",
        "the preset `cargo` has the usual ones",
        "not imported: `git push` of `allowedCommands`: this rule never applies: the rule [git, push] denies all of it",
        "not imported: `echo \"a b\"` of `allowedCommands`",
    ] {
        assert!(told.contains(reason), "{reason} is missing in {told}");
    }
    assert!(settings(&project).contains("allow: [[npm, test]]"), "{}", settings(&project));
}

#[test]
fn rules_that_never_apply_are_told_where_rules_count() {
    let project = Project::new(&[]);
    project.configure("autoApprove:\n  execute:\n    allow: [[cargo]]\n");
    for (arguments, is_told) in [
        (&["tasks", "list"][..], false),
        (&["modes"], false),
        (&["models"], false),
        (&["policy", "check", "--command", "ls"], true),
        (&["policy", "explain"], true),
        (&["doctor", "--offline"], true),
        (&["run", "x"], true),
    ] {
        let told = printed(&project, &project.run(arguments));
        assert_eq!(told.contains("this rule never applies"), is_told, "{arguments:?}: {told}");
    }
}

#[test]
fn no_credential_reaches_the_settings() {
    let project = Project::new(&[]);
    let gateway = json!({
        "apiProvider": "openai", "openAiModelId": "m", "openAiBaseUrl": "https://gateway.example/v1",
        "openAiApiKey": "sk-0123", "openAiHeaders": {"X-Team": "blue", "X-Auth": "Bearer 4567", "Api-Key": "89ab"},
    });
    let named = json!({"apiProvider": "openai", "openAiModelId": "m", "openAiBaseUrl": "https://me:cdef@b.example/v1"});
    let profiles = json!({"apiConfigs": {"gateway": gateway, "named": named}});
    let output = import(&project, &json!({ "providerProfiles": profiles }), &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = printed(&project, &output) + &settings(&project);
    for secret in ["sk-0123", "4567", "89ab", "cdef"] {
        assert!(!told.contains(secret), "{secret}: {told}");
    }
    assert!(told.contains("X-Team: blue") && told.contains("header `Api-Key` holds a credential"), "{told}");
    assert!(told.contains("profile `named`: its address holds a password"), "{told}");
}

#[test]
fn what_can_not_be_used_is_said_and_changes_nothing() {
    let project = Project::new(&[]);
    let before = settings(&project);
    let bedrock = json!({"providerProfiles": {"apiConfigs": {"aws": {"apiProvider": "bedrock"}}}});
    let output = import(&project, &bedrock, &[]);
    // There is nothing that its user could mend.
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        printed(&project, &output).contains("not imported: profile `aws`: Amazon Bedrock is not supported"),
        "{output:?}"
    );
    let odd = json!({"apiProvider": "openai", "openAiModelId": "x", "reasoningEffort": "odd"});
    let output = import(&project, &json!({"providerProfiles": {"apiConfigs": {"odd": odd}}}), &[]);
    assert!(output.status.code() == Some(1) && settings(&project) == before, "{output:?}");
    let other = import(&project, &json!({"apiKey": "sk-0123"}), &[]);
    assert!(other.status.code() == Some(1) && !printed(&project, &other).contains("sk-0123"), "{other:?}");
    let missing = project.run(&["import", "roo", "gone.json"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    project.configure("limits: 3\n");
    let broken = import(&project, &export(), &[]);
    assert!(broken.status.code() == Some(1) && settings(&project) == "limits: 3\n", "{broken:?}");
    project.configure(&before);
}

#[test]
fn denied_commands_refuse_here_only_what_was_refused_there() {
    let project = Project::new(&[]);
    project.configure("");
    let export = json!({"globalSettings": {
        "autoApprovalEnabled": true, "alwaysAllowExecute": true,
        "allowedCommands": ["git status"], "deniedCommands": ["git", "npm publish", "rm -r"],
    }});
    let output = import(&project, &export, &[]);
    let told = printed(&project, &output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("`git` of `deniedCommands`: Roo Code allowed `git status` all the same"), "{told}");
    let remark =
        "roo-lsp: imported, but not as it was: autoApprove.execute.deny: Roo Code refused whatever begins";
    assert!(told.contains(remark) && told.contains("refuse whole words: `npm publish`, `rm -r`"), "{told}");
    let again = printed(&project, &self::import(&project, &export, &[]));
    assert!(!again.contains("not as it was"), "nothing was imported: {again}");
    let code = |command: &str| project.run(&["policy", "check", "--command", command]).status.code();
    assert_eq!(code("npm publish"), Some(1));
    assert_ne!(code("git status"), Some(1));
}

#[test]
fn everything_asks_where_approvals_were_off() {
    let project = Project::new(&[("a.txt", "a")]);
    project.configure("");
    let export = json!({"globalSettings": {"autoApprovalEnabled": false, "alwaysAllowReadOnly": true}});
    let output = import(&project, &export, &["--approvals"]);
    assert!(output.status.success(), "{output:?}");
    let written = settings(&project);
    assert!(written.contains("read: false") && written.contains("delegate: false"), "{written}");
}

#[test]
fn a_switch_for_mcp_tools_does_not_let_all_of_them_run() {
    let project = Project::new(&[]);
    project.configure("");
    let with = |mcp: bool| {
        let export = json!({"globalSettings": {"autoApprovalEnabled": true, "alwaysAllowMcp": mcp}});
        let output = import(&project, &export, &["--approvals"]);
        assert!(output.status.success(), "{output:?}");
        printed(&project, &output)
    };
    let on = with(true);
    assert!(
        on.contains("there is nothing to import") && on.contains("`alwaysAllowMcp`: it let those"),
        "{on}"
    );
    assert!(!settings(&project).contains("mcp"), "{}", settings(&project));

    // Lists that count here, though they did not there, are named.
    assert!(!with(false).contains("alwaysAllow"));
    let servers =
        r#"{"mcpServers": {"db": {"command": "db", "alwaysAllow": ["query"]}, "mail": {"command": "mail"}}}"#;
    fs::write(project.beside("config/roo-lsp/mcp.json"), servers).unwrap();
    let off = with(false);
    assert!(
        off.contains("`alwaysAllowMcp`: it was off") && off.contains("until you remove them: db\n"),
        "{off}"
    );
    assert!(!with(true).contains("it was off"));
}

#[test]
fn only_the_modes_of_an_unusable_profile_lose_theirs() {
    let project = Project::new(&[]);
    project.configure("");
    let named = json!({
        "id": "a1", "apiProvider": "openai", "openAiModelId": "m", "openAiBaseUrl": "https://me:secret@b.example/v1",
    });
    let used = json!({"id": "a2", "apiProvider": "ollama", "ollamaModelId": "m"});
    let export = json!({"providerProfiles": {
        "apiConfigs": {"named": named, "used": used}, "modeApiConfigs": {"code": "a1", "ask": "a2"},
    }});
    let output = import(&project, &export, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let written = settings(&project);
    assert!(written.contains("profile: used") && !written.contains("named"), "{written}");
}

#[test]
fn a_mode_that_can_not_be_used_is_said_and_fails_the_import() {
    let project = Project::new(&[]);
    project.configure("");
    let storage = project.beside("rooveterinaryinc.roo-cline");
    fs::create_dir_all(storage.join("tasks")).unwrap();
    fs::create_dir_all(storage.join("settings")).unwrap();
    let own = project.beside("config/roo-lsp/custom_modes.yaml");
    let put = |modes: &str| fs::write(storage.join("settings/custom_modes.yaml"), modes).unwrap();
    let import = || project.run(&["import", "roo", storage.to_str().unwrap()]);

    put("customModes:\n  - slug: poet\n    groups: [read]\n");
    let output = import();
    let told = printed(&project, &output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("rooveterinaryinc.roo-cline/settings/custom_modes.yaml:2:"), "{told}");
    assert!(!own.exists());

    // The others of a file are imported all the same.
    let critic = "  - slug: critic\n    name: Critic\n    roleDefinition: You judge.\n    groups: [read]\n";
    put(&format!("customModes:\n  - slug: poet\n    groups: [read]\n{critic}"));
    let output = import();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(project.succeed(&["modes"]).contains("critic"));
    project.succeed(&["modes", "check"]);

    // An export has no lines of that file.
    fs::remove_file(&own).unwrap();
    let poet = json!({"slug": "poet", "name": "Poet", "roleDefinition": "You rhyme.", "groups": ["read"]});
    let modes = json!([{"slug": "broken", "groups": ["read"]}, poet]);
    let broken = json!({ "globalSettings": { "customModes": modes } });
    for _ in 0..2 {
        let output = self::import(&project, &broken, &[]);
        let told = printed(&project, &output);
        assert!(output.status.code() == Some(1) && told.contains("roo-code-settings.json: "), "{told}");
        let listed = project.succeed(&["modes"]);
        assert!(listed.contains("poet") && !listed.contains("broken"), "{listed}");
        // Nothing is told of it at every start.
        project.succeed(&["modes", "check"]);
    }
}

#[test]
fn modes_of_the_users_other_file_are_named_that_count_in_place_of_imported_ones() {
    let project = Project::new(&[]);
    project.configure("");
    let mode =
        |slug: &str| json!({"slug": slug, "name": slug, "roleDefinition": "You help.", "groups": ["read"]});
    let file = json!({ "customModes": [mode("poet")] }).to_string();
    fs::write(project.beside("config/roo-lsp/custom-modes.yaml"), file).unwrap();
    let storage = project.beside("rooveterinaryinc.roo-cline");
    fs::create_dir_all(storage.join("settings")).unwrap();
    let imported = json!({ "customModes": [mode("poet"), mode("critic")] }).to_string();
    fs::write(storage.join("settings/custom_modes.yaml"), imported).unwrap();
    let output = project.run(&["import", "roo", storage.to_str().unwrap()]);
    let told = printed(&project, &output);
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("custom-modes.yaml stays as it is, and its modes count in place of those of "),
        "{told}"
    );
    assert!(told.contains("custom_modes.yaml: poet\n"), "{told}");
}

#[test]
fn a_directory_that_can_not_be_read_leaves_the_others() {
    let project = Project::new(&[]);
    project.configure("");
    let storage = |editor: &str| {
        let path = format!("home/.config/{editor}/User/globalStorage/rooveterinaryinc.roo-cline");
        let storage = project.beside(&path);
        fs::create_dir_all(storage.join("settings")).unwrap();
        storage
    };
    let modes = json!({ "customModes": [{"slug": "poet", "name": "Poet", "roleDefinition": "You.", "groups": ["read"]}] });
    let broken = storage("Cursor");
    fs::write(broken.join("tasks"), "no directory").unwrap();
    let alone = project.run(&["import", "roo", "--yes"]);
    assert_eq!(alone.status.code(), Some(1), "{alone:?}");
    assert!(printed(&project, &alone).starts_with("Nothing was imported.\n"), "{alone:?}");

    fs::write(storage("VSCodium").join("settings/custom_modes.yaml"), modes.to_string()).unwrap();
    let output = project.run(&["import", "roo", "--yes"]);
    let told = printed(&project, &output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("roo-lsp: not imported: can't read ") && told.contains("Cursor"), "{told}");
    assert!(project.succeed(&["modes"]).contains("poet"));
    // Whoever names it is told at once.
    let named = project.run(&["import", "roo", broken.to_str().unwrap()]);
    assert!(named.status.code() == Some(1) && !printed(&project, &named).contains("imported"), "{named:?}");
}
