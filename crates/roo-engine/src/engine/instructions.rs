//! Instructions of a mode before a task begins: its system prompt and its tools, with all that the user and the
//! workspace bring. Reads the disk.

use std::sync::Arc;

use crate::customization::Customization;
use crate::intent_store::{Intents, Orchestration};
use roo_catalog::{
    Group, Needs, OfferedTool, ServerResources, ServerTool, TOOLS, ToolId, ToolName, ToolProtocol,
};
use roo_formats::config::{RequireIntent, ToolChoice};
use roo_formats::modes::{self, Mode, Modes};
use roo_model::prompts::{self, DeclaredIntents, OverrideInput, RuleText, SkillEntry, SystemInput};
use roo_sandbox::exec::shell;
use roo_workspace::Workspace;

/// The system prompt of a mode, and the tools that it has here.
#[derive(Clone, Debug, PartialEq)]
pub struct Instructions {
    /// The prompt.
    pub system: String,
    /// The tools, in the order of the catalogue, then those of servers.
    pub tools: Vec<OfferedTool>,
}

/// The workspace's intents, and which tools need one.
#[derive(Clone, Copy)]
pub struct Governed<'a> {
    /// The intents.
    pub orchestration: &'a Orchestration,
    /// Kinds of calls that need one.
    pub require: RequireIntent,
}

/// Choice of the tools for a mode's model.
#[derive(Clone, Copy)]
pub struct ToolSources<'a> {
    /// Choice of the mode's tools for the model.
    pub choice: &'a ToolChoice,
    pub server_tools: &'a [Arc<ServerTool>],
    /// Those for which a request has no room.
    pub further_server_tools: &'a [Arc<ServerTool>],
    pub server_resources: &'a [ServerResources],
    /// True if there is a language server.
    pub has_language_server: bool,
    /// True if an editor answers questions about code.
    pub has_code_editor: bool,
    /// True if there can be an index of the code.
    pub has_code_index: bool,
    /// True if there is a browser.
    pub has_browser: bool,
    /// True if a profile makes images.
    pub has_image_generation: bool,
}

impl<'a> ToolSources<'a> {
    /// The tools that need nothing but the workspace.
    pub fn built_in(choice: &'a ToolChoice) -> Self {
        Self {
            choice,
            server_tools: &[],
            further_server_tools: &[],
            server_resources: &[],
            has_language_server: false,
            has_code_editor: false,
            has_code_index: false,
            has_browser: false,
            has_image_generation: false,
        }
    }
}

/// Bytes of the definitions of tools that are sent beside the prompt.
pub(super) fn definitions_size(tools: &[OfferedTool], protocol: ToolProtocol) -> u64 {
    match protocol {
        ToolProtocol::Native => tools.iter().map(OfferedTool::definition_size).sum::<usize>() as u64,
        ToolProtocol::Xml => 0,
    }
}

impl Instructions {
    /// Gathers the instructions of a mode in this workspace.
    pub fn new(
        mode: &Mode,
        modes: &Modes,
        protocol: ToolProtocol,
        tools: ToolSources<'_>,
        customization: &Customization,
        governed: Governed<'_>,
        workspace: &Workspace,
    ) -> Self {
        let skills = customization.skills();
        let intents = active_intents(governed.orchestration);
        let ToolSources {
            choice,
            server_tools,
            further_server_tools,
            server_resources,
            has_language_server,
            has_code_editor,
            has_code_index,
            has_browser,
            has_image_generation,
        } = tools;
        let server_tools = offered_server_tools(mode, choice, server_tools);
        let has_further_tools = !offered_server_tools(mode, choice, further_server_tools).is_empty();
        let of_mode = |server: &&ServerResources| mode.permits_server(&server.server).is_ok();
        let server_resources: Vec<ServerResources> =
            server_resources.iter().filter(of_mode).cloned().collect();
        let here = SessionConditions {
            has_skills: !skills.for_mode(&mode.slug).is_empty(),
            delegates: mode.can_delegate_to.iter().any(|slug| modes.find(slug).is_ok()),
            governed: intents.is_some(),
            by_text: protocol == ToolProtocol::Xml && !server_tools.is_empty(),
            has_further_tools,
            has_resources: !server_resources.is_empty(),
            has_language_server,
            has_code_editor,
            has_code_index,
            has_browser,
            has_image_generation,
        };
        let tools = available(mode, choice, here);
        let mut offered: Vec<OfferedTool> = tools.iter().copied().map(OfferedTool::from).collect();
        if protocol == ToolProtocol::Native {
            offered.extend(server_tools.iter().cloned().map(OfferedTool::Server));
        }
        let roots: Vec<String> = workspace.roots().paths().map(|path| path.display().to_string()).collect();
        let rules = customization.rules(&mode.slug);
        let rules: Vec<RuleText<'_>> =
            rules.iter().map(|rule| RuleText { heading: &rule.heading, text: &rule.text }).collect();
        if let Some(text) = customization.prompt_override(&mode.slug) {
            let system = prompts::override_prompt(
                &text,
                &OverrideInput {
                    workspace: roots.first().map(String::as_str).unwrap_or_default(),
                    mode: &mode.slug,
                    language: &language(),
                    shell: &shell().name(),
                    operating_system: std::env::consts::OS,
                    role: &mode.role,
                    custom_instructions: mode.custom_instructions.as_deref(),
                    rules: &rules,
                },
            );
            return Self { system, tools: offered };
        }
        let skills = skills.for_mode(&mode.slug);
        let skills: Vec<SkillEntry<'_>> = skills
            .iter()
            .map(|skill| SkillEntry { name: &skill.name, description: &skill.description })
            .collect();
        let system = prompts::system(&SystemInput {
            mode,
            modes,
            entry: modes::ENTRY,
            tools: &tools,
            server_tools: &server_tools,
            server_resources: &server_resources,
            skills: &skills,
            intents: intents.as_deref().map(|active| DeclaredIntents {
                active,
                for_every_tool: governed.require == RequireIntent::All,
            }),
            protocol,
            roots: &roots,
            operating_system: std::env::consts::OS,
            shell: &shell().name(),
            rules: &rules,
        });
        Self { system, tools: offered }
    }
}

/// Conditions of this session on which the use of tools depends.
#[derive(Clone, Copy)]
struct SessionConditions {
    has_skills: bool,
    delegates: bool,
    /// The workspace has intents.
    governed: bool,
    /// There are tools of servers, and they are called by text.
    by_text: bool,
    /// There are more of them than a request has room for.
    has_further_tools: bool,
    /// Servers offer resources.
    has_resources: bool,
    has_language_server: bool,
    has_code_editor: bool,
    has_code_index: bool,
    has_browser: bool,
    has_image_generation: bool,
}

/// A mode's tools without those for which there is nothing here: no skill, or nobody to delegate to.
fn available(mode: &Mode, choice: &ToolChoice, here: SessionConditions) -> Vec<ToolName> {
    let mut tools = mode.tools_with(choice);
    let further = TOOLS.iter().filter(|spec| match spec.group {
        Group::Intents => here.governed,
        Group::Mcp => mode.has(spec.name) && choice.has(spec.name),
        _ => false,
    });
    tools.extend(further.map(|spec| spec.name));
    tools.sort_unstable();
    tools.retain(|tool| match tool.spec().needs {
        Needs::DelegationTarget => here.delegates,
        Needs::Skills => here.has_skills,
        Needs::ServerTools => here.by_text || here.has_further_tools,
        Needs::FurtherServerTools => here.has_further_tools,
        Needs::ServerResources => here.has_resources,
        Needs::LanguageServer => here.has_language_server,
        Needs::CodeAnswers => here.has_language_server || here.has_code_editor,
        Needs::CodeIndex => here.has_code_index,
        Needs::Browser => here.has_browser,
        Needs::ImageGeneration => here.has_image_generation,
        Needs::Nothing => true,
    });
    tools
}

/// The tools of servers that a mode and its model get.
fn offered_server_tools(mode: &Mode, choice: &ToolChoice, tools: &[Arc<ServerTool>]) -> Vec<Arc<ServerTool>> {
    let has = |tool: &&Arc<ServerTool>| {
        mode.permits_server_tool(tool.name()).is_ok() && choice.has(ToolId::Server(tool.name().clone()))
    };
    tools.iter().filter(has).cloned().collect()
}

/// The intents that may be selected, each as its id and name; none where the workspace has no intents.
fn active_intents(orchestration: &Orchestration) -> Option<Vec<(String, String)>> {
    match orchestration.intents() {
        Intents::Absent => None,
        // What is wrong is told to whoever tries to change something.
        Intents::Broken(_) => Some(vec![]),
        Intents::Present { file, ignored } => {
            let active = file
                .intents
                .iter()
                .filter(|intent| intent.status.is_selectable() && !ignored.contains(&intent.id));
            Some(active.map(|intent| (intent.id.clone(), intent.name.clone())).collect())
        }
    }
}

/// The user's language by the environment, such as `de` or `pt-BR`.
fn language() -> String {
    let set = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(|name| std::env::var(name).ok());
    let name = set.unwrap_or_default();
    match name.split(['.', '@']).next().unwrap_or_default() {
        "" | "C" | "POSIX" => "en".to_owned(),
        name => name.replace('_', "-"),
    }
}
