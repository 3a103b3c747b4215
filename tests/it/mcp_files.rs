//! Files of MCP servers as `roo-lsp mcp add`, `remove` and `import` change them. No server is started.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Output;

use crate::support::project::Project;

fn told(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn own(project: &Project) -> String {
    fs::read_to_string(project.beside("config/roo-lsp/mcp.json")).unwrap_or_default()
}

#[test]
fn a_server_is_added_to_the_users_file_and_removed_again() {
    let project = Project::new(&[]);
    let before =
        "// mine\n{\n    \"mcpServers\": {\n        \"mail\": { \"command\": \"mail\" } // slow\n    }\n}\n";
    let file = project.beside("config/roo-lsp/mcp.json");
    fs::write(&file, before).unwrap();
    let added =
        project.succeed(&["mcp", "add", "my db", "--env", "PORT=80", "--env", "HOST", "--", "db", "-v"]);

    assert!(
        added.starts_with("my db: written to ") && added.contains("config/roo-lsp/mcp.json\n"),
        "{added}"
    );
    assert!(added.ends_with("next: roo-lsp mcp test 'my db'\n"), "{added}");
    insta::assert_snapshot!(own(&project), @r#"
    // mine
    {
        "mcpServers": {
            "mail": { "command": "mail" }, // slow
            "my db": {
                "command": "db",
                "args": [
                    "-v"
                ],
                "env": {
                    "HOST": "${env:HOST}",
                    "PORT": "80"
                }
            }
        }
    }
    "#);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let again = ["mcp", "add", "my db", "--", "other"];
    let refused = project.run(&again);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        told(&refused).contains("there is already a server `my db` with another entry; --replace"),
        "{refused:?}"
    );
    project.succeed(&["mcp", "add", "my db", "--replace", "--", "other"]);
    assert!(own(&project).contains("\"command\": \"other\"") && !own(&project).contains("\"PORT\""));

    assert!(project.succeed(&["mcp", "remove", "my db"]).starts_with("my db: removed from "));
    assert_eq!(own(&project), before);
    let missing = project.run(&["mcp", "remove", "my db"]);
    assert!(told(&missing).contains("there is no server `my db`; the file has mail"), "{missing:?}");
}

#[test]
fn a_server_of_the_workspace_holds_no_secret_and_says_what_to_do_next() {
    let project = Project::new(&[]);
    let add = ["mcp", "add", "api", "--project", "--url", "https://mcp.example.com/mcp", "--header"];
    let refused = project.run(&[&add[..], &["Authorization=Bearer abc"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(told(&refused).contains("headers.Authorization looks like a secret"), "{refused:?}");
    assert!(!told(&refused).contains("abc"), "{refused:?}");
    assert_eq!(project.read(".roo/mcp.json"), "");
    let added = project.succeed(&[&add[..], &["Authorization=Bearer ${env:TOKEN}"]].concat());
    let next = "next: roo-lsp trust, then roo-lsp trust --approve .roo/mcp.json, then roo-lsp mcp test api\n";
    assert_eq!(added, format!("api: written to .roo/mcp.json\n{next}"));
    insta::assert_snapshot!(project.read(".roo/mcp.json"), @r#"
    {
      "mcpServers": {
        "api": {
          "type": "streamable-http",
          "url": "https://mcp.example.com/mcp",
          "headers": {
            "Authorization": "Bearer ${env:TOKEN}"
          }
        }
      }
    }
    "#);
    // Neither was it trusted nor approved by that.
    assert_eq!(project.succeed(&["mcp", "list"]), "no MCP servers are configured here\n");
    let elsewhere = project.run(&["mcp", "remove", "api"]);
    assert!(told(&elsewhere).contains("--project removes it from the workspace's"), "{elsewhere:?}");
    project.succeed(&["mcp", "remove", "api", "--project"]);
    assert_eq!(project.read(".roo/mcp.json"), "{\n  \"mcpServers\": {\n  }\n}\n");
}

#[test]
fn nothing_is_written_into_a_file_that_is_broken_or_for_an_entry_that_is_wrong() {
    let project = Project::new(&[]);
    let nothing = project.run(&["mcp", "import", "--from", "vscode", "--from", "roo"]);
    let told_nothing = "there is nothing to import: no .vscode/mcp.json, no mcp_settings.json of Roo Code";
    assert!(nothing.status.code() == Some(1) && told(&nothing).contains(told_nothing), "{nothing:?}");
    for (arguments, why) in [
        (&["mcp", "add", "a", "--url", "ftp://example.com"][..], "must begin with `https://`"),
        (&["mcp", "add", " ", "--", "x"], "can't be used"),
        (
            &["mcp", "add", "a", "--env", "A=1", "--url", "https://example.com"],
            "belongs to servers with a `command`",
        ),
        (&["mcp", "add", "a", "--header", "A=1", "--", "x"], "belong to servers with a `url`"),
        (&["mcp", "add", "a"], "required"),
        (&["mcp", "add", "a", "--url", "https://example.com", "--", "x"], "cannot be used with"),
    ] {
        let output = project.run(arguments);
        assert!(output.status.code() == Some(2) && told(&output).contains(why), "{arguments:?}: {output:?}");
    }
    assert_eq!(own(&project), "");
    let broken = "{\n  \"mcpServers\": {,}\n}";
    fs::write(project.beside("config/roo-lsp/mcp.json"), broken).unwrap();
    let output = project.run(&["mcp", "add", "a", "--", "x"]);
    assert!(output.status.code() == Some(1) && told(&output).contains("mcp.json:2:"), "{output:?}");
    assert_eq!(own(&project), broken);
}

#[test]
fn a_link_of_the_users_stays_one_and_one_of_the_workspace_is_not_followed() {
    let project = Project::new(&[(".roo/rules/a.md", "x")]);
    let elsewhere = project.beside("dotfiles.json");
    fs::write(&elsewhere, "{}").unwrap();
    symlink(&elsewhere, project.beside("config/roo-lsp/mcp.json")).unwrap();
    project.succeed(&["mcp", "add", "a", "--", "x"]);
    assert!(project.beside("config/roo-lsp/mcp.json").is_symlink());
    let written = fs::read_to_string(&elsewhere).unwrap();
    assert!(written.contains("\"command\": \"x\""), "{written}");
    symlink(&elsewhere, project.folder().join(".roo/mcp.json")).unwrap();
    let output = project.run(&["mcp", "add", "b", "--project", "--", "x"]);
    assert!(output.status.code() == Some(1) && told(&output).contains("symlink"), "{output:?}");
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), written);
}

#[test]
fn servers_of_other_programs_are_taken_over_to_where_they_belong() {
    let project = Project::new(&[
        (
            ".mcp.json",
            r#"{"mcpServers": {"api": {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer s3cr3t-value"}}}}"#,
        ),
        (
            ".vscode/mcp.json",
            r#"{
            // VS Code
            "inputs": [{"type": "promptString", "id": "key"}],
            "servers": {"files": {"command": "npx", "args": ["files"], "env": {"API_KEY": "${input:key}"}}, "api": {"command": "other"}}
        }"#,
        ),
        (".cursor/mcp.json", "{"),
    ]);
    let roo = project.beside("home/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings");
    fs::create_dir_all(&roo).unwrap();
    let servers = r#"{"mcpServers": {"db": {"command": "db", "env": {"DB_PASSWORD": "hunter2"}, "alwaysAllow": ["query"]}}}"#;
    fs::write(roo.join("mcp_settings.json"), servers).unwrap();

    let tried = project.run(&["mcp", "import", "--dry-run"]);
    let shown = String::from_utf8(tried.stdout).unwrap();
    assert!(shown.contains("db: would be written to "), "{shown}");
    assert_eq!((own(&project), project.read(".roo/mcp.json")), (String::new(), String::new()));

    let output = project.run(&["mcp", "import"]);
    assert_eq!(output.status.code(), Some(1), "some were left out");
    let config = project.beside("config").display().to_string();
    let shown = String::from_utf8(output.stdout).unwrap().replace(&config, "~/.config");
    let shown = shown.replace(&project.beside("home").display().to_string(), "~");
    insta::assert_snapshot!(shown, @r#"
    api: written to .roo/mcp.json, from .mcp.json
      headers.Authorization is a secret in clear text and not copied; set API_AUTHORIZATION before roo-lsp starts
    api: left out: .vscode/mcp.json has another server of this name than the file before
    files: written to .roo/mcp.json, from .vscode/mcp.json
    db: written to ~/.config/roo-lsp/mcp.json, from ~/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json
      these calls ask, as `alwaysAllow` comes with --approvals only: query
      env.DB_PASSWORD is a secret in clear text in both files; '${env:DB_PASSWORD}' would keep it out
    next: roo-lsp trust, then roo-lsp trust --approve .roo/mcp.json, then roo-lsp mcp list
    "#);
    insta::assert_snapshot!(project.read(".roo/mcp.json"), @r#"
    {
      "mcpServers": {
        "api": {
          "type": "streamable-http",
          "url": "https://a.example/mcp",
          "headers": {
            "Authorization": "Bearer ${env:API_AUTHORIZATION}"
          }
        },
        "files": {
          "command": "npx",
          "args": [
            "files"
          ],
          "env": {
            "API_KEY": "${env:KEY}"
          }
        }
      }
    }
    "#);
    assert!(own(&project).contains("hunter2") && !own(&project).contains("alwaysAllow"));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains(".cursor/mcp.json:1:") && told.contains("set the environment variable `KEY`"),
        "{told}"
    );

    // What Claude Code keeps for its user in one file with everything else.
    let settings = project.beside("home/.claude.json");
    fs::write(&settings, r#"{"oauthAccount": {"token": "x"}, "projects": {}}"#).unwrap();
    project.succeed(&["mcp", "import", "--from", "claude-code", "--dry-run"]);
    let text = r#"{"oauthAccount": {"token": "x"}, "mcpServers": {"mine": {"command": "mine"}, "odd": {"command": 1}}}"#;
    fs::write(&settings, text).unwrap();
    let output = project.run(&["mcp", "import", "--from", "claude-code"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("mine: written to ") && own(&project).contains(r#""command": "mine""#), "{shown}");
    let problem = String::from_utf8(output.stderr).unwrap();
    assert!(problem.contains(".claude.json: ") && problem.contains("odd"), "{problem}");
    fs::write(&settings, text.replacen('{', "", 1)).unwrap();
    let broken = project.run(&["mcp", "import", "--from", "claude-code", "--dry-run"]);
    let told = String::from_utf8(broken.stderr).unwrap();
    assert!(broken.status.code() == Some(1) && told.contains(".claude.json: it is not valid JSON"), "{told}");
    fs::remove_file(settings).unwrap();

    let again = project.succeed(&["mcp", "import", "--from", "roo", "--from", "claude-code"]);
    assert!(again.contains("api: is in .roo/mcp.json already") && !again.contains("next:"), "{again}");
    project.write(".mcp.json", r#"{"mcpServers": {"api": {"command": "new"}}}"#);
    let kept = project.run(&["mcp", "import", "--from", "claude-code"]);
    assert!(String::from_utf8(kept.stdout).unwrap().contains("--replace takes the one of .mcp.json"));
    project.succeed(&["mcp", "import", "--from", "claude-code", "--replace"]);
    assert!(project.read(".roo/mcp.json").contains("\"command\": \"new\""));
}

#[test]
fn what_runs_unasked_in_roo_code_does_so_here_only_with_approvals() {
    let project = Project::new(&[]);
    let roo = project.beside("home/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings");
    fs::create_dir_all(&roo).unwrap();
    let servers = r#"{"mcpServers": {"db": {"command": "db", "alwaysAllow": ["query"]}}}"#;
    fs::write(roo.join("mcp_settings.json"), servers).unwrap();
    let import = |arguments: &[&str]| project.run(&[&["mcp", "import", "--from", "roo"], arguments].concat());
    let shown = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();

    assert!(import(&[]).status.success());
    assert!(own(&project).contains("\"db\"") && !own(&project).contains("alwaysAllow"), "{}", own(&project));
    // Both commands take the same, and find it there.
    for arguments in [&["mcp", "import", "--from", "roo"][..], &["import", "roo", "--yes"]] {
        let again = project.run(arguments);
        assert!(again.status.success() && shown(&again).contains("db: is in "), "{again:?}");
    }
    let approved = import(&["--approvals", "--replace"]);
    assert!(shown(&approved).contains("`alwaysAllow` lets these calls run unasked: query"), "{approved:?}");
    assert!(told(&approved).contains("alwaysAllowMcp was off"), "{approved:?}");
    assert!(own(&project).contains("alwaysAllow"), "{}", own(&project));
    // What users decide of a server makes it no other one.
    let again = import(&["--dry-run"]);
    assert!(again.status.success() && shown(&again).contains("db: is in "), "{again:?}");
    assert!(import(&["--replace"]).status.success() && !own(&project).contains("alwaysAllow"));
}
