//! What a mode alone says of a call: whether it has the tool, whether the parameters can be read, to whom it may
//! delegate, into which mode it may go, and which files it may change by their names. Reads no disk.

use std::path::{Component, Path};

use super::decision::Refusal;
use super::rule::RefusalRule;
use roo_catalog::{Invocation, NewTask, SwitchMode, ToolCall, ToolId, ToolName};
use roo_formats::config::ToolChoice;
use roo_formats::modes::delegation::{self, Delegation, Expected};
use roo_formats::modes::{self, Mode, Modes};
use roo_model::prompts::replies;
use roo_protocol::ids::Urid;
use roo_text::render::exact_line;

/// Checks that a call names a tool which there is, and which the mode and its model have. `tool` is the one that it names
/// here, which is returned.
pub(crate) fn check_tool(
    call: &ToolCall,
    tool: Option<ToolId>,
    mode: &Mode,
    choice: &ToolChoice,
) -> Result<ToolId, Refusal> {
    let names = || {
        let tools = mode.tools_with(choice);
        tools.iter().map(|tool| tool.as_str()).collect::<Vec<_>>().join(", ")
    };
    let Some(tool) = tool else {
        let text = format!("There is no tool named '{}'. You have {}.", call.name, names());
        return Err(Refusal::mistake(RefusalRule::Tool, text));
    };
    let permitted = match &tool {
        ToolId::BuiltIn(tool) => mode.permits(*tool),
        ToolId::Server(tool) => mode.permits_server_tool(tool),
    };
    permitted.map_err(|error| Refusal::mistake(RefusalRule::Mode, error))?;
    if !choice.has(tool.clone()) {
        let names = names();
        let text = format!("The tool {tool} is not one of yours. You have {names}.");
        return Err(Refusal::mistake(RefusalRule::Mode, text));
    }
    Ok(tool)
}

/// Checks a delegation, and reads its brief. Whether the files are there that it names is not looked at.
pub(crate) fn check_delegation<'m>(
    call: &NewTask,
    mode: &Mode,
    modes: &'m Modes,
    delegations: u32,
    urid: &Urid,
) -> Result<(&'m Mode, Delegation), Refusal> {
    if !mode.can_delegate_to.contains(&call.mode) {
        let text = format!(
            "The mode '{}' can't delegate to '{}'. It may delegate to {}.",
            mode.slug,
            exact_line(&call.mode),
            mode.can_delegate_to.join(", ")
        );
        return Err(Refusal::mistake(RefusalRule::Delegation, text));
    }
    let target = modes.find(&call.mode).map_err(|error| Refusal::mistake(RefusalRule::Mode, error))?;
    if mode.delegates_once && delegations > 0 {
        return Err(Refusal::mistake(RefusalRule::Delegation, replies::delegated_before()));
    }
    let task_directory = modes::task_directory(urid);
    let expected = Expected { target, urid, task_directory: &task_directory };
    let delegation = delegation::parse(&call.message, &expected)
        .map_err(|error| Refusal::mistake(RefusalRule::Message, error))?;
    Ok((target, delegation))
}

/// Checks a switch of modes, and returns the new one.
pub(crate) fn check_switch<'m>(
    call: &SwitchMode,
    mode: &Mode,
    modes: &'m Modes,
) -> Result<&'m Mode, Refusal> {
    let target = modes.find(&call.mode).map_err(|error| Refusal::mistake(RefusalRule::Mode, error))?;
    if target.slug == mode.slug {
        let text = format!("This is the mode '{}' already; go on with the work.", target.slug);
        return Err(Refusal::mistake(RefusalRule::Mode, text));
    }
    Ok(target)
}

/// Checks the files that a call would change, by the names that it gives them. Names that lead out of the workspace say
/// nothing of the mode.
pub(crate) fn check_files(
    tool: ToolName,
    invocation: &Invocation,
    mode: &Mode,
    urid: &Urid,
) -> Result<(), Refusal> {
    let task_directory = modes::task_directory(urid);
    for named in invocation.edited_files() {
        let Some(path) = plain(named) else { continue };
        mode.permits_file(tool, &path, Some(&task_directory))
            .map_err(|error| Refusal::mistake(RefusalRule::Mode, error))?;
    }
    Ok(())
}

/// A relative path without `.`; none for one that is absolute or goes up.
fn plain(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => return None,
        }
    }
    Some(parts.join("/"))
}
