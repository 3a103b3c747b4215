//! Modes of another program, as a file of the user's own.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use crate::cli::dialogue::Dialogue;
use crate::cli::modes::own_delegation;
use crate::cli::session::SessionContext;
use crate::cli::{CliError, terminal};
use crate::configuration_file::ConfigurationFile;
use roo_durable::read_regular;
use roo_engine::customization::Grant;
use roo_formats::config::yaml;
use roo_formats::modes::{FILE_LIMIT, FileRestriction, Mode, ParsedModes, Source};
use roo_formats::{FileProblem, Problem, Severity};
use roo_text::render::exact_line;
use serde_json::{Value, json};

/// The file of the user's modes in the configuration directory.
const OWN_MODES: &str = "custom_modes.yaml";
/// The one that users write by hand. Its modes count before those of the other.
const HAND_WRITTEN: &str = "custom-modes.yaml";

/// Where a text with modes is from.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// It is the whole text of this file.
    File(&'a Path),
    /// It was put together from what this file has.
    PartOf(&'a Path),
}

impl Origin<'_> {
    fn path(&self) -> &Path {
        let (Self::File(path) | Self::PartOf(path)) = self;
        path
    }

    /// A problem with the text, as one of the file.
    fn problem(&self, mut problem: Problem) -> FileProblem {
        if let Self::PartOf(_) = self {
            problem.range = None;
        }
        FileProblem::new(self.path(), problem)
    }
}

/// Copies a file of modes, unless the user has others. Returns false if it, or one of its modes, can't be used.
pub(super) fn import_file(context: &SessionContext, source: &Path, dry_run: bool) -> Result<bool, CliError> {
    match read_regular(source, FILE_LIMIT as u64) {
        Ok(text) => import_text(context, Origin::File(source), &text, dry_run),
        Err(error) => {
            let shown = exact_line(&source.display().to_string());
            leave_out(&shown, &error.to_string()).map(|()| false)
        }
    }
}

/// Makes a text with modes the file of the user's own, unless they have others. Returns false if it, or one of its modes, can't be
/// used.
pub(super) fn import_text(
    context: &SessionContext,
    origin: Origin<'_>,
    text: &str,
    dry_run: bool,
) -> Result<bool, CliError> {
    let source = exact_line(&origin.path().display().to_string());
    let ParsedModes { modes, problems, .. } = match ParsedModes::parse(text, Source::Global) {
        Ok(parsed) => parsed,
        Err(problem) => {
            let problem = exact_line(&origin.problem(problem).to_string());
            return leave_out(&source, &problem).map(|()| false);
        }
    };
    let is_whole = !problems.iter().any(|problem| problem.severity == Severity::Error);
    for problem in problems {
        writeln!(terminal::stderr(), "roo-lsp: {}", exact_line(&origin.problem(problem).to_string()))?;
    }
    if !modes.is_empty() {
        let usable = if is_whole { None } else { usable_part(text) };
        write(context, &source, usable.as_deref().unwrap_or(text), &modes, dry_run)?;
        tell_overridden(context, &source, &modes)?;
    }
    Ok(is_whole)
}

/// Modes as the text of a file.
pub(super) fn mode_file(modes: &[&Value]) -> String {
    let file = json!({ "customModes": modes });
    // JSON is YAML too, if less readable.
    serde_yaml::to_string(&file).unwrap_or_else(|_| format!("{file:#}\n"))
}

/// A file with the modes of another that can be used: what is wrong with the others would be told at every start. None for a file
/// that is read only because its typing errors were fixed.
fn usable_part(text: &str) -> Option<String> {
    let file = yaml::parse(text).ok()?;
    let mut slugs = BTreeSet::new();
    let is_usable = |mode: &&Value| {
        let parsed = ParsedModes::parse(&mode_file(&[*mode]), Source::Global).unwrap_or_default();
        parsed.modes.into_iter().any(|mode| slugs.insert(mode.slug))
    };
    let usable: Vec<&Value> = file.get("customModes")?.as_array()?.iter().filter(is_usable).collect();
    Some(mode_file(&usable))
}

fn write(
    context: &SessionContext,
    source: &str,
    text: &str,
    modes: &[Mode],
    dry_run: bool,
) -> Result<(), CliError> {
    let path = context.directories.config.join(OWN_MODES);
    let own = exact_line(&path.display().to_string());
    let file = ConfigurationFile::open(path, FILE_LIMIT as u64)
        .map_err(|error| CliError::Other(format!("can't read {own}: {error}")))?;
    if file.text() == text || has_all(file.text(), modes) {
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

/// Returns whether a file of the user's own has all of these modes.
fn has_all(own: &str, modes: &[Mode]) -> bool {
    let own = ParsedModes::parse(own, Source::Global).map(|parsed| parsed.modes).unwrap_or_default();
    modes.iter().all(|mode| own.iter().any(|own| own.slug == mode.slug && says_the_same(own, mode)))
}

/// Compares what files of Roo Code say of a mode.
pub(super) fn says_the_same(one: &Mode, other: &Mode) -> bool {
    (one.name == other.name && one.description == other.description && one.when_to_use == other.when_to_use)
        && (one.role == other.role && one.custom_instructions == other.custom_instructions)
        && (one.groups == other.groups && pattern(one) == pattern(other))
}

/// The files that its edits may touch.
fn pattern(mode: &Mode) -> Option<&str> {
    mode.file_restriction.as_ref().map(FileRestriction::pattern)
}

/// Says in whose place modes of the user's other file count.
fn tell_overridden(context: &SessionContext, source: &str, modes: &[Mode]) -> Result<(), CliError> {
    let path = context.directories.config.join(HAND_WRITTEN);
    // What is wrong with that file is told wherever modes are read.
    let Ok(text) = read_regular(&path, FILE_LIMIT as u64) else { return Ok(()) };
    let Ok(own) = ParsedModes::parse(&text, Source::Global) else { return Ok(()) };
    let slugs: Vec<&str> = own.modes.iter().map(|mode| &*mode.slug).collect();
    let both: Vec<&str> = modes.iter().map(|mode| &*mode.slug).filter(|slug| slugs.contains(slug)).collect();
    if both.is_empty() {
        return Ok(());
    }
    let (own, both) = (exact_line(&path.display().to_string()), exact_line(&both.join(", ")));
    Ok(writeln!(
        terminal::stderr(),
        "roo-lsp: {own} stays as it is, and its modes count in place of those of {source}: {both}"
    )?)
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
