//! The settings of one connection: the user's file, the client's options, what the workspace takes away.
//! What is wrong with the file is shown in it by [`super::config_files`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tower_lsp::Client;
use tower_lsp::ls_types::{ConfigurationItem, DiagnosticSeverity, MessageType};

use roo_engine::policy::command;
use roo_formats::config::{self, Layer, Origin, Problem, Settings};

/// Time limit for a client's answer to `workspace/configuration`.
const CONFIGURATION_DEADLINE: Duration = Duration::from_millis(500);

/// The settings, and what is wrong with their layers.
pub(super) struct Configured {
    /// Of the layers that can be used.
    pub(super) settings: Settings,
    /// Layers that can't be used.
    pub(super) errors: Vec<Problem>,
    /// Keys that mean nothing, and rules that can never apply.
    pub(super) warnings: Vec<Problem>,
}

impl Configured {
    /// The settings of the file and of the client's options. A layer that is wrong is left out as a
    /// whole, and the rest counts. Reads the disk.
    pub(super) fn load(file: &Path, options: &Value) -> Self {
        Self::from_layers([Layer::read(file), Layer::from_initialization_options(options)])
    }

    /// The settings of the file alone, if it held this text.
    pub(super) fn of_text(file: &Path, text: &str) -> Self {
        Self::from_layers([Layer::from_yaml(file, text)])
    }

    fn from_layers(layers: impl IntoIterator<Item = Result<Option<Layer>, Problem>>) -> Self {
        let mut configured = Self { settings: Settings::default(), errors: vec![], warnings: vec![] };
        let mut used: Vec<Layer> = Vec::new();
        for layer in layers {
            match layer {
                Ok(None) => {}
                Ok(Some(layer)) => match config::load(used.iter().cloned().chain([layer.clone()])) {
                    Ok(loaded) => {
                        used.push(layer);
                        configured.settings = loaded.settings;
                        configured.warnings = loaded.warnings;
                        configured.warnings.extend(used.iter().flat_map(command::problems));
                    }
                    Err(problem) => configured.errors.push(problem),
                },
                Err(problem) => configured.errors.push(problem),
            }
        }
        configured
    }

    /// Takes away what the workspace says, asked of the client.
    pub(super) async fn tighten(&mut self, client: &Client) {
        let item = ConfigurationItem { scope_uri: None, section: Some("roo".to_owned()) };
        let answer = tokio::time::timeout(CONFIGURATION_DEADLINE, client.configuration(vec![item])).await;
        let answer = match answer {
            Ok(Ok(answers)) => answers.into_iter().next().unwrap_or_default(),
            Ok(Err(error)) => {
                tracing::info!(%error, "the client sent no settings in answer to workspace/configuration");
                return;
            }
            Err(_) => {
                tracing::warn!("the client did not answer workspace/configuration in time");
                return;
            }
        };
        match Layer::from_workspace(&answer) {
            Ok(None) => {}
            Ok(Some(layer)) => match config::tighten_by(&mut self.settings, &layer) {
                Ok(warnings) => self.warnings.extend(warnings),
                Err(problem) => self.errors.push(problem),
            },
            Err(problem) => self.errors.push(problem),
        }
    }

    fn problems(&self) -> impl Iterator<Item = (&Problem, DiagnosticSeverity)> {
        let errors = self.errors.iter().map(|problem| (problem, DiagnosticSeverity::ERROR));
        errors.chain(self.warnings.iter().map(|problem| (problem, DiagnosticSeverity::WARNING)))
    }

    /// Returns the problems of the file.
    pub(super) fn of_file(&self) -> impl Iterator<Item = (&Problem, DiagnosticSeverity)> {
        self.problems().filter(|(problem, _)| matches!(problem.origin, Origin::File(_)))
    }

    /// Shows as messages what is wrong elsewhere than in the file.
    pub(super) async fn report(&self, client: &Client) {
        for (problem, severity) in self.problems() {
            tracing::warn!("{problem}");
            if matches!(problem.origin, Origin::File(_)) {
                continue;
            }
            if severity == DiagnosticSeverity::ERROR {
                client.show_message(MessageType::ERROR, format!("roo settings: {problem}")).await;
            } else {
                client.log_message(MessageType::WARNING, format!("roo settings: {problem}")).await;
            }
        }
    }

    /// Returns whether the user should look at the file.
    pub(super) fn has_file_errors(&self) -> Option<&PathBuf> {
        self.errors.iter().find_map(|problem| match &problem.origin {
            Origin::File(path) => Some(path),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn load(file: &str, options: Value) -> Configured {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, file).unwrap();
        Configured::load(&path, &options)
    }

    #[test]
    fn a_broken_file_leaves_the_options_in_force() {
        let configured = load("mode: [\n", json!({ "roo": { "limits": { "depth": 2 } } }));
        assert_eq!(configured.settings.limits.depth, 2);
        assert!(configured.has_file_errors().is_some());
    }

    #[test]
    fn broken_options_leave_the_file_in_force() {
        let configured = load("limits: { depth: 3 }\nfoo: 1\n", json!({ "roo": { "limits": 1 } }));
        assert_eq!(configured.settings.limits.depth, 3);
        assert_eq!(configured.errors[0].origin, Origin::InitializationOptions);
        assert_eq!(configured.warnings[0].path, "foo");
    }
}
