//! `roo-lsp doctor`: is everything in place?

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use super::arguments::Common;
use super::session::Surroundings;
use super::{CliError, Ending};
use crate::config::{Layer, Profile, Provider};

/// Prints what was found, one line a check; fails when something has to be mended.
pub(super) fn doctor(common: &Common) -> Result<Ending, CliError> {
    let surroundings = Surroundings::find(common)?;
    let mut report = Report::default();
    report.good("version", env!("CARGO_PKG_VERSION"));
    report.good("workspace", &surroundings.folder.display().to_string());
    report.check("state directory", writable(surroundings.state().path()));

    let file = &surroundings.config_file;
    match Layer::read(file) {
        Ok(None) => report.note("settings", &format!("{} is not there; the defaults hold", file.display())),
        Ok(Some(_)) => report.good("settings", &file.display().to_string()),
        // Said below, with the settings as a whole.
        Err(_) => {}
    }
    match surroundings.settings(None) {
        Err(error) => report.bad("settings", &error.to_string()),
        Ok(settings) => {
            if settings.profiles.is_empty() {
                report.note("profiles", "none; a task needs one, see the README");
            }
            for (name, profile) in &settings.profiles {
                report.check(&format!("profile {name}"), usable(profile));
            }
            let approve = &settings.auto_approve;
            report.good(
                "without asking",
                &format!(
                    "read: {}, write: {}, commands: {} rules",
                    yes(approve.read),
                    yes(approve.write),
                    approve.execute.allow.len()
                ),
            );
        }
    }
    report.check(
        "shell",
        if Path::new("/bin/sh").exists() {
            Ok("/bin/sh".into())
        } else {
            Err("there is no /bin/sh to run commands".into())
        },
    );
    report.note("sandbox", "none yet: a command that is allowed can do what you can");
    io::stdout().write_all(report.text.as_bytes())?;
    Ok(if report.failed { Ending::Failed } else { Ending::Done })
}

#[derive(Default)]
struct Report {
    text: String,
    failed: bool,
}

impl Report {
    fn line(&mut self, mark: &str, what: &str, text: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.text, "{mark} {what}: {text}");
    }

    fn good(&mut self, what: &str, text: &str) {
        self.line("ok  ", what, text);
    }

    fn note(&mut self, what: &str, text: &str) {
        self.line("note", what, text);
    }

    fn bad(&mut self, what: &str, text: &str) {
        self.failed = true;
        self.line("FAIL", what, text);
    }

    fn check(&mut self, what: &str, outcome: Result<String, String>) {
        match outcome {
            Ok(text) => self.good(what, &text),
            Err(text) => self.bad(what, &text),
        }
    }
}

fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

/// Whether the state directory can be made and written.
fn writable(path: &Path) -> Result<String, String> {
    let probe = path.join(".doctor");
    let outcome = std::fs::create_dir_all(path)
        .and_then(|()| std::fs::write(&probe, b""))
        .and_then(|()| std::fs::remove_file(&probe));
    match outcome {
        Ok(()) => Ok(path.display().to_string()),
        Err(error) => Err(format!("{} can't be written: {error}", path.display())),
    }
}

/// Whether a profile has all it needs; asks no endpoint.
fn usable(profile: &Profile) -> Result<String, String> {
    if profile.provider == Provider::Scripted {
        return match &profile.script {
            Some(script) if script.exists() => Ok(format!("plays {}", script.display())),
            Some(script) => Err(format!("the script {} is not there", script.display())),
            None => Err("it has no script".into()),
        };
    }
    let Some(model) = &profile.model else { return Err("it names no model".into()) };
    if let Some(name) = &profile.api_key_env
        && std::env::var_os(name).is_none_or(|key| key.is_empty())
    {
        return Err(format!("the environment variable {name} with its key is not set"));
    }
    Ok(model.clone())
}
