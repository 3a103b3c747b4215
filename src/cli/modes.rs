//! `roo-lsp modes`: which modes there are, where they come from, and what is wrong with their files.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use super::arguments::{Common, ModesCommand, OwnDelegationAnswer};
use super::session::{SessionContext, note_untrusted};
use super::terminal;
use super::{CliError, Ending};
use crate::configuration_file::file_at;
use roo_catalog::Group;
use roo_engine::customization::{Customization, Grant, PROJECT_MODES, TrustError};
use roo_formats::modes::{FILE_LIMIT, Mode, Modes, ParsedModes, Source};
use roo_formats::{FileProblem, Severity};
use roo_text::render;
use roo_workspace::read_disk;

/// The longest name in a list, in characters.
const NAME: usize = 60;

/// Returns advice where a mode that is missing may be one that waits for trust.
pub(super) fn waiting(customization: &Customization) -> &'static str {
    let report = customization.trust();
    if report.trusted || report.brings.is_empty() {
        return "";
    }
    " Files of this workspace have no effect until it is trusted: run `roo-lsp trust`."
}

/// Runs one of the subcommands of `modes`.
pub(super) fn modes(common: &Common, command: Option<ModesCommand>) -> Result<Ending, CliError> {
    if let Some(ModesCommand::Check { file: Some(file) }) = &command {
        return check_file(file);
    }
    let context = SessionContext::find(common)?;
    let customization = context.customization()?;
    let settings = context.settings_to_look();
    match command {
        None | Some(ModesCommand::List) => {
            terminal::stdout().write_all(list(&customization.modes_by(&settings)).as_bytes())?;
            tell(&customization)?;
            Ok(Ending::Done)
        }
        Some(ModesCommand::Show { slug }) => {
            let modes = customization.modes_by(&settings);
            let mode = modes
                .find(&slug)
                .map_err(|error| CliError::Usage(format!("{error}{}", waiting(&customization))))?;
            terminal::stdout().write_all(show(mode).as_bytes())?;
            Ok(Ending::Done)
        }
        Some(ModesCommand::Delegation { answer }) => {
            if let Some(answer) = answer {
                let allowed = match answer {
                    OwnDelegationAnswer::Allow => Some(true),
                    OwnDelegationAnswer::Refuse => Some(false),
                    OwnDelegationAnswer::Ask => None,
                };
                let granted = customization.grant(&Grant::OwnDelegation { allowed });
                granted.map_err(|error: TrustError| CliError::Other(error.to_string()))?;
            }
            let text = own_delegation(&customization);
            let nothing = "there is nothing to ask: several modes of your own of which none has canDelegateTo would be asked about";
            writeln!(terminal::stdout(), "{}", text.as_deref().unwrap_or(nothing))?;
            Ok(Ending::Done)
        }
        Some(ModesCommand::Check { .. }) => {
            let modes = customization.modes_by(&settings);
            let own = context.folder.join(PROJECT_MODES);
            let checked =
                check(&customization.problems(), &modes.iter().map(|mode| &**mode).collect::<Vec<_>>())?;
            if customization.trust().trusted || !own.is_file() {
                return Ok(checked);
            }
            writeln!(
                terminal::stderr(),
                "roo-lsp: {PROJECT_MODES} has no effect until the workspace is trusted (`roo-lsp trust`); it is checked anyway"
            )?;
            Ok(match check_file(&own)? {
                Ending::Done => checked,
                worse => worse,
            })
        }
    }
}

/// Says whether the user's own modes may delegate to each other, and how to answer where nobody has; none where there is nothing to
/// ask.
pub(super) fn own_delegation(customization: &Customization) -> Option<String> {
    let team = customization.trust().own_delegation?;
    let (path, modes) = (render::exact_line(&team.path), render::exact_line(&team.modes.join(", ")));
    Some(match team.allowed {
        None => format!(
            "question: may your own modes delegate to each other, as in Roo Code? None has canDelegateTo: {modes} ({path})\n\
             answer with: roo-lsp modes delegation allow, or refuse"
        ),
        Some(true) => format!("may delegate to each other, as you allowed: {modes}"),
        Some(false) => format!("may not delegate to each other, as you answered: {modes}"),
    })
}

/// Problems, and what of the workspace is left out, on standard error.
fn tell(customization: &Customization) -> Result<(), CliError> {
    let mut out = terminal::stderr();
    for problem in customization.problems() {
        writeln!(out, "roo-lsp: {}", render::exact_line(&problem.to_string()))?;
    }
    if customization.trust().own_delegation.is_some_and(|team| team.allowed.is_none()) {
        let question = own_delegation(customization).unwrap_or_default();
        question.lines().try_for_each(|line| writeln!(out, "roo-lsp: {line}"))?;
    }
    note_untrusted(customization)
}

/// The modes with what tells them apart.
fn list(modes: &Modes) -> String {
    let common: Vec<_> = {
        let mut modes = modes.iter();
        let mut common = modes.next().map(|mode| mode.tools()).unwrap_or_default();
        modes.for_each(|mode| common.retain(|&tool| mode.has(tool)));
        common
    };
    let width = modes.iter().map(|mode| mode.slug.len()).max().unwrap_or_default();
    let mut text = String::new();
    for mode in modes.iter() {
        let name = render::one_line(&format!("{} {}", mode.emoji, mode.name), NAME);
        // Writing to a string can't fail.
        let _ = writeln!(text, "{:<width$}  {:<8}  {name}", mode.slug, mode.source.as_str());
        let own: Vec<&str> = mode
            .tools()
            .into_iter()
            .filter(|tool| !common.contains(tool))
            .map(|tool| tool.as_str())
            .collect();
        let mut detail = |what: &str, items: String| {
            if !items.is_empty() {
                let _ = writeln!(text, "{:<width$}  {what}: {items}", "");
            }
        };
        detail("tools", own.join(", "));
        detail("changes only", files(mode));
        detail("MCP servers", servers(mode).unwrap_or_default());
        detail("delegates to", mode.can_delegate_to.join(", "));
    }
    let common: Vec<&str> = common.iter().map(|tool| tool.as_str()).collect();
    let _ = writeln!(text, "Every mode has {}.", common.join(", "));
    text
}

/// Returns the files that it may change; empty for all that its tools reach.
fn files(mode: &Mode) -> String {
    mode.file_restriction.as_ref().map_or_else(String::new, |files| {
        render::exact_line(&format!("{} ({})", files.pattern(), files.description))
    })
}

/// Returns the MCP servers that it may use, if they are limited.
fn servers(mode: &Mode) -> Option<String> {
    let servers: Vec<&str> = mode.mcp_servers.as_ref()?.iter().map(String::as_str).collect();
    Some(render::exact_line(&servers.join(", ")))
}

/// A mode as a document.
fn show(mode: &Mode) -> String {
    let line = |text: &str| render::one_line(text, NAME);
    let list = |items: Vec<&str>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let mut text = format!("# {} {}\n\n", line(&mode.emoji), line(&mode.name));
    let _ = writeln!(text, "- Slug: {}\n- Source: {}", mode.slug, mode.source.as_str());
    let _ = writeln!(text, "- Tools: {}", list(mode.tools().iter().map(|tool| tool.as_str()).collect()));
    if !mode.groups.contains(&Group::Edit) {
        let _ = writeln!(text, "- Writes: notes in the directory of its request alone, `.roo/tasks/<URID>/`");
    }
    if mode.file_restriction.is_some() {
        let _ = writeln!(text, "- Changes only: {}", files(mode));
    }
    if let Some(servers) = servers(mode) {
        let _ = writeln!(text, "- MCP servers: {servers}");
    }
    let targets = mode.can_delegate_to.iter().map(String::as_str).collect();
    let _ = writeln!(text, "- Delegates to: {}", list(targets));
    let parts = [
        ("Description", mode.description.as_deref()),
        ("When to use", mode.when_to_use.as_deref()),
        ("Role", Some(mode.role.as_str())),
        ("Steps", Some(mode.instructions.as_str())),
        ("Custom instructions", mode.custom_instructions.as_deref()),
    ];
    for (title, part) in parts {
        if let Some(part) = part.filter(|part| !part.is_empty()) {
            let _ = write!(text, "\n## {title}\n\n{}\n", render::visible(part));
        }
    }
    text
}

/// The text of a file, wherever it is; no pipe is waited for.
fn read(path: &Path) -> Result<String, Box<dyn Error>> {
    Ok(String::from_utf8(read_disk(&file_at(path)?, FILE_LIMIT as u64)?)?)
}

/// Looks at one file, wherever it is.
fn check_file(path: &Path) -> Result<Ending, CliError> {
    let text = read(path).map_err(|error| {
        CliError::Other(format!("can't read {}: {error}", render::exact_line(&path.to_string_lossy())))
    })?;
    let (problems, modes) = match ParsedModes::parse(&text, Source::Project) {
        Ok(parsed) => (parsed.problems, parsed.modes),
        Err(problem) => (vec![problem], vec![]),
    };
    let problems = problems.into_iter().map(|problem| FileProblem::new(path, problem));
    check(&problems.collect::<Vec<_>>(), &modes.iter().collect::<Vec<_>>())
}

fn check(problems: &[FileProblem], modes: &[&Mode]) -> Result<Ending, CliError> {
    let mut out = terminal::stdout();
    for problem in problems {
        let severity = match problem.problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Information => "note",
        };
        writeln!(out, "{severity}: {}", render::exact_line(&problem.to_string()))?;
    }
    let own: Vec<&&Mode> = modes.iter().filter(|mode| mode.source != Source::BuiltIn).collect();
    if !own.is_empty() && own.iter().all(|mode| mode.can_delegate_to.is_empty()) {
        writeln!(
            out,
            "note: none of your modes may delegate, as none has `canDelegateTo`; in Roo Code every mode could. Allow it for this workspace's with `roo-lsp trust --delegation allow`, for your own with `roo-lsp modes delegation allow`, or set modes.<slug>.canDelegateTo."
        )?;
    }
    match modes.len() {
        1 => writeln!(out, "1 mode")?,
        count => writeln!(out, "{count} modes")?,
    }
    let wrong = problems.iter().any(|problem| problem.problem.severity == Severity::Error);
    Ok(if wrong { Ending::Failed } else { Ending::Done })
}
