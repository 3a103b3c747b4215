//! Modes of another program, as a file of the user's own.

use std::io::Write as _;
use std::path::Path;

use crate::cli::dialogue::Dialogue;
use crate::cli::modes::own_delegation;
use crate::cli::session::SessionContext;
use crate::cli::{CliError, terminal};
use crate::configuration_file::ConfigurationFile;
use roo_durable::read_regular;
use roo_engine::customization::Grant;
use roo_formats::FileProblem;
use roo_formats::modes::{FILE_LIMIT, ParsedModes, Source};
use roo_text::render::exact_line;

/// The file of the user's modes in the configuration directory.
const OWN_MODES: &str = "custom_modes.yaml";

/// Copies a file of modes, unless the user has others. Returns false for one that can't be read.
pub(super) fn import_file(context: &SessionContext, source: &Path, dry_run: bool) -> Result<bool, CliError> {
    let shown = exact_line(&source.display().to_string());
    let text = match read_regular(source, FILE_LIMIT as u64) {
        Ok(text) => text,
        Err(error) => return leave_out(&shown, &error.to_string()).map(|()| false),
    };
    match ParsedModes::parse(&text, Source::Global) {
        Ok(parsed) if parsed.modes.is_empty() => Ok(true),
        Ok(_) => import_text(context, &shown, &text, dry_run).map(|()| true),
        Err(problem) => {
            leave_out(&shown, &exact_line(&FileProblem::new(source, problem).to_string())).map(|()| false)
        }
    }
}

/// Makes a text with modes the file of the user's own, unless they have others. `source`: where it is from, for people.
pub(super) fn import_text(
    context: &SessionContext,
    source: &str,
    text: &str,
    dry_run: bool,
) -> Result<(), CliError> {
    let path = context.directories.config.join(OWN_MODES);
    let own = exact_line(&path.display().to_string());
    let file = ConfigurationFile::open(path, FILE_LIMIT as u64)
        .map_err(|error| CliError::Other(format!("can't read {own}: {error}")))?;
    if file.text() == text {
        return Ok(());
    }
    if !file.text().trim().is_empty() {
        return leave_out(source, &format!("{own} has others; copy what you want of them into it"));
    }
    if !dry_run {
        file.replace(&context.folder, text)
            .map_err(|error| CliError::Other(format!("can't write {own}: {error}")))?;
    }
    let done = if dry_run { "would be written to" } else { "written to" };
    Ok(writeln!(terminal::stdout(), "modes: {done} {own}, from {source}")?)
}

/// Asks whether the user's own modes may delegate to each other as they could where they are from, if nobody has answered. Who can't
/// answer now is told how to.
pub(super) fn ask_delegation(context: &SessionContext) -> Result<(), CliError> {
    let customization = context.customization()?;
    let Some(team) = customization.trust().own_delegation.filter(|team| team.allowed.is_none()) else {
        return Ok(());
    };
    let dialogue = Dialogue::new();
    if !dialogue.is_with_person() {
        let question = own_delegation(&customization).unwrap_or_default();
        return dialogue
            .tell(question.lines().map(|line| format!("roo-lsp: {line}")).collect::<Vec<_>>().join("\n"));
    }
    let modes = exact_line(&team.modes.join(", "));
    let answer = dialogue.ask(&format!(
        "May your own modes delegate to each other, as in Roo Code? None has canDelegateTo: {modes} [yes, no, or Enter for later]"
    ))?;
    let allowed = match answer.to_lowercase().as_str() {
        "y" | "yes" => true,
        "n" | "no" => false,
        _ => return Ok(()),
    };
    let granted = customization.grant(&Grant::OwnDelegation { allowed: Some(allowed) });
    granted.map(drop).map_err(|error| CliError::Other(error.to_string()))
}

fn leave_out(source: &str, reason: &str) -> Result<(), CliError> {
    Ok(writeln!(terminal::stderr(), "roo-lsp: not imported: modes of {source}: {reason}")?)
}
