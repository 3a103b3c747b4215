//! What a client says about settings, and what its user is told of them. Which settings count is in
//! [`crate::live_settings`]; what is wrong with the file is shown in it by [`super::config_files`].

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use tower_lsp::Client;
use tower_lsp::ls_types::{ConfigurationItem, MessageType};

use crate::live_settings::Configured;
use roo_formats::Severity;
use roo_formats::config::{Origin, SettingsProblem};

/// Time limit for a client's answer to `workspace/configuration`.
const CONFIGURATION_DEADLINE: Duration = Duration::from_millis(500);

/// Asks the client for what the workspace says; none where it has no answer.
pub(super) async fn asked_of(client: &Client) -> Option<Value> {
    let item = ConfigurationItem { scope_uri: None, section: Some("roo".to_owned()) };
    let answer = tokio::time::timeout(CONFIGURATION_DEADLINE, client.configuration(vec![item])).await;
    match answer {
        Ok(Ok(answers)) => Some(answers.into_iter().next().unwrap_or_default()),
        Ok(Err(error)) => {
            tracing::info!(%error, "the client sent no settings in answer to workspace/configuration");
            None
        }
        Err(_) => {
            tracing::warn!("the client did not answer workspace/configuration in time");
            None
        }
    }
}

/// Tells a client's user what is wrong with settings, each problem once.
#[derive(Default)]
pub(super) struct SettingsReport {
    told: HashSet<String>,
}

impl SettingsReport {
    /// Shows as messages what is wrong elsewhere than in the file.
    pub(super) async fn tell(&mut self, configured: &Configured, client: &Client) {
        let problems: Vec<(String, &SettingsProblem)> =
            configured.problems().map(|problem| (problem.to_string(), problem)).collect();
        // What was put right and comes back is told again.
        self.told.retain(|told| problems.iter().any(|(text, _)| text == told));
        for (text, problem) in problems {
            if !self.told.insert(text.clone()) {
                continue;
            }
            tracing::warn!("{text}");
            if matches!(problem.origin, Origin::File(_)) {
                continue;
            }
            if problem.problem.severity == Severity::Error {
                client.show_message(MessageType::ERROR, format!("roo settings: {text}")).await;
            } else {
                client.log_message(MessageType::WARNING, format!("roo settings: {text}")).await;
            }
        }
    }

    /// Returns whether the user is to be told of errors in the file; once, until there are other ones.
    pub(super) fn is_new(&self, configured: &Configured) -> bool {
        let in_file = |problem: &&SettingsProblem| matches!(problem.origin, Origin::File(_));
        let mut errors = configured.errors.iter().filter(in_file);
        errors.any(|problem| !self.told.contains(&problem.to_string()))
    }
}
