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

/// Time after which a user is told that the client's answer to `workspace/configuration` is waited for.
const SLOW: Duration = Duration::from_secs(3);
/// Time limit for that answer from then on.
const DEADLINE: Duration = Duration::from_secs(60);

/// A client that does not say what the workspace refuses.
#[derive(Debug, thiserror::Error)]
#[error("the editor does not answer workspace/configuration, so what the workspace refuses is not known")]
pub(super) struct Unanswered;

/// Asks the client for what the workspace says; none where it has nothing to say. Where the answer is `slow`, the user is told
/// that, in these words.
pub(super) async fn asked_of(client: &Client, slow: Option<&str>) -> Result<Option<Value>, Unanswered> {
    let item = ConfigurationItem { scope_uri: None, section: Some("roo".to_owned()) };
    let mut asked = std::pin::pin!(client.configuration(vec![item]));
    let answer = match tokio::time::timeout(SLOW, &mut asked).await {
        Ok(answer) => answer,
        Err(_) => {
            if let Some(message) = slow {
                client.show_message(MessageType::WARNING, message).await;
            }
            tokio::time::timeout(DEADLINE, asked).await.map_err(|_| Unanswered)?
        }
    };
    match answer {
        Ok(answers) => Ok(Some(answers.into_iter().next().unwrap_or_default())),
        Err(error) => {
            tracing::info!(%error, "the client sent no settings in answer to workspace/configuration");
            Ok(None)
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

#[cfg(test)]
mod tests {
    use futures_util::{SinkExt as _, StreamExt as _};
    use serde_json::json;
    use tokio::time::Instant;
    use tower_lsp::jsonrpc::{Request, Response, Result};
    use tower_lsp::ls_types::{InitializeParams, InitializeResult};
    use tower_lsp::{ClientSocket, LanguageServer, LspService};
    use tower_service::Service as _;

    use super::*;

    struct Connected(Client);

    impl LanguageServer for Connected {
        async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
            Ok(InitializeResult::default())
        }

        async fn shutdown(&self) -> Result<()> {
            Ok(())
        }
    }

    /// Asks a client, and gives its end, which has got the question.
    async fn asked() -> (LspService<Connected>, ClientSocket, Request, AnswerTask) {
        let (mut service, mut socket) = LspService::new(Connected);
        let initialize = Request::build("initialize").params(json!({ "capabilities": {} })).id(1).finish();
        service.call(initialize).await.unwrap();
        let client = service.inner().0.clone();
        let answer = tokio::spawn(async move { asked_of(&client, Some("the editor is slow")).await });
        let question = socket.next().await.unwrap();
        assert_eq!(question.method(), "workspace/configuration");
        (service, socket, question, answer)
    }

    type AnswerTask = tokio::task::JoinHandle<std::result::Result<Option<Value>, Unanswered>>;

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_counts_and_the_user_is_told_that_it_is_waited_for() {
        let (_service, mut socket, question, answer) = asked().await;
        let begun = Instant::now();
        let told = socket.next().await.unwrap();
        assert_eq!(told.params().unwrap()["message"], "the editor is slow");
        assert_eq!(begun.elapsed(), SLOW);
        tokio::time::sleep(DEADLINE - Duration::from_secs(1)).await;
        let id = question.id().unwrap().clone();
        socket.send(Response::from_ok(id, json!([{ "mode": "ask" }]))).await.unwrap();
        assert_eq!(answer.await.unwrap().unwrap(), Some(json!({ "mode": "ask" })));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_answers_is_given_up() {
        let (_service, mut socket, _, answer) = asked().await;
        let begun = Instant::now();
        socket.next().await.unwrap();
        assert!(answer.await.unwrap().is_err());
        assert_eq!(begun.elapsed(), SLOW + DEADLINE);
    }
}
