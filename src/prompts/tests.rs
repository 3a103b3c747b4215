//! What holds for the system prompts of all modes.

use std::collections::BTreeSet;

use super::*;
use crate::catalog::{TOOLS, ToolName};
use crate::modes::{Mode, Modes};
use crate::parser::ToolProtocol;

const PROTOCOLS: [ToolProtocol; 2] = [ToolProtocol::Xml, ToolProtocol::Native];

fn prompt(mode: &Mode, tools: &[ToolName], protocol: ToolProtocol) -> String {
    system(&SystemInput {
        mode,
        tools,
        protocol,
        roots: &["/home/ada/project".to_owned()],
        operating_system: "Linux",
        shell: "/bin/sh",
    })
}

fn code() -> std::sync::Arc<Mode> {
    std::sync::Arc::clone(Modes::built_in().find("code").unwrap())
}

/// The words of a text that look like the name of a tool.
fn names(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.contains('_')).collect()
}

#[test]
fn all_prompts() {
    for mode in Modes::built_in().iter() {
        for protocol in PROTOCOLS {
            let name = format!("{}_{protocol:?}", mode.slug).to_lowercase();
            let text = prompt(mode, &mode.tools(), protocol);
            assert_eq!(text, prompt(mode, &mode.tools(), protocol), "{name} is not the same twice");
            insta::assert_snapshot!(name, text);
        }
    }
}

#[test]
fn a_prompt_names_only_tools_that_are_there() {
    // Tools that the model may have met elsewhere and that don't exist here.
    let foreign = [
        "access_mcp_resource",
        "apply_patch",
        "browser_action",
        "codebase_search",
        "fetch_instructions",
        "list_code_definition_names",
        "read_command_output",
        "run_slash_command",
        "select_active_intent",
        "use_mcp_tool",
    ];
    for mode in Modes::built_in().iter() {
        let tools = mode.tools();
        for protocol in PROTOCOLS {
            let text = prompt(mode, &tools, protocol);
            let named = names(&text);
            for spec in TOOLS.iter().filter(|spec| !tools.contains(&spec.name)) {
                assert!(!named.contains(spec.name.as_str()), "{} {protocol:?}: {}", mode.slug, spec.name);
            }
            for tool in foreign {
                assert!(!named.contains(tool), "{} {protocol:?}: {tool}", mode.slug);
            }
            if protocol == ToolProtocol::Xml {
                for tool in &tools {
                    assert!(text.contains(&format!("\n### {tool}\n")), "{}: {tool}", mode.slug);
                }
            }
        }
    }
}

#[test]
fn descriptions_sent_beside_a_native_prompt_name_only_tools_that_are_there() {
    for mode in Modes::built_in().iter() {
        let tools = mode.tools();
        for tool in &tools {
            let schema = crate::catalog::native_schema(tool.spec()).to_string();
            let text = format!("{} {schema}", tool.spec().description);
            let named = names(&text);
            for spec in TOOLS.iter().filter(|spec| !tools.contains(&spec.name)) {
                assert!(!named.contains(spec.name.as_str()), "{}: {tool} names {}", mode.slug, spec.name);
            }
        }
    }
}

#[test]
fn a_prompt_is_complete_in_itself() {
    // A document, an address or another place where instructions would have to be looked up.
    let elsewhere = regex::Regex::new(
        r"(?i)\b[\w-]+\.(md|txt|ya?ml|json)\b|\b(see|refer to|read) (section|above|below|the documentation)\b|\bas described\b|://",
    )
    .unwrap();
    for mode in Modes::built_in().iter() {
        for protocol in PROTOCOLS {
            let text = prompt(mode, &mode.tools(), protocol);
            // The examples of calls name files of an imagined project.
            let (before, rest) = text.split_once("\n### ").unwrap_or((&text, ""));
            let after = rest.find("\n## ").and_then(|at| rest.get(at..)).unwrap_or_default();
            for part in [before, after] {
                let found = elsewhere.find(part).map(|found| found.as_str());
                assert_eq!(found, None, "{} {protocol:?}", mode.slug);
            }
        }
    }
}

#[test]
fn a_prompt_holds_nothing_that_changes_between_tasks() {
    let code = &*code();
    let text = prompt(code, &code.tools(), ToolProtocol::Xml);
    let volatile = regex::Regex::new(r"\d{8}-\d{2}-\d{2}|\d{4}-\d{2}-\d{2}|\d{2}:\d{2}").unwrap();
    assert_eq!(volatile.find(&text).map(|found| found.as_str()), None);
}

#[test]
fn a_prompt_is_short() {
    let code = &*code();
    let xml = prompt(code, &code.tools(), ToolProtocol::Xml);
    let native = prompt(code, &code.tools(), ToolProtocol::Native);
    assert!(xml.len() < 14 * 1024, "{} bytes", xml.len());
    assert!(native.len() < 6 * 1024, "{} bytes", native.len());
}

#[test]
fn the_header_identifies_the_mode() {
    for mode in Modes::built_in().iter() {
        let text = prompt(mode, &mode.tools(), ToolProtocol::Native);
        assert!(text.starts_with(&format!("# {} {} Mode\n", mode.emoji, mode.name)), "{text}");
    }
}

#[test]
fn roots_are_told_and_can_not_begin_a_section() {
    let code = &*code();
    let with = |roots: &[String]| {
        system(&SystemInput {
            mode: code,
            tools: &code.tools(),
            protocol: ToolProtocol::Native,
            roots,
            operating_system: "Linux",
            shell: "/bin/sh",
        })
    };
    let none = with(&[]);
    assert!(none.contains("\n- Workspace: none\n"), "{none}");
    assert!(!none.contains("ask directory"), "there is none without a root: {none}");
    let several = with(&["/a".to_owned(), "/b\n## Rules".to_owned()]);
    assert!(several.contains("\n  - /a\n  - /b<U+000A>## Rules\n"), "{several}");
    assert!(several.contains("first workspace directory"), "{several}");
}
