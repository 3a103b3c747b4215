//! The secrets that commands and tools may come across by their values: those of variables, and of files for them.

use std::path::{Path, PathBuf};

use super::Environment;
use super::redaction::ExactValues;

/// Files from which programs take variables.
const VARIABLE_FILES: &[&str] =
    &[".env", ".env.local", ".env.development", ".env.development.local", ".env.test", ".env.production"];

/// Collects the secret values of an environment, and of the variable files at the top of some folders. Files that are hidden
/// are left out: who can't read them can't show their values. Reads the disk.
pub fn known_secrets<'a>(
    environment: &Environment,
    folders: impl Iterator<Item = &'a Path>,
    hidden: &[PathBuf],
) -> ExactValues {
    let mut secrets = ExactValues::default();
    for (name, value) in environment.variables() {
        secrets.add_variable(&name.to_string_lossy(), &value.to_string_lossy());
    }
    for folder in folders {
        let files = VARIABLE_FILES.iter().map(|name| folder.join(name));
        for file in files.filter(|file| !hidden.iter().any(|hidden| file.starts_with(hidden))) {
            secrets.add_variable_file(&file);
        }
    }
    secrets
}
