//! What servers want of a task while they answer its call: answers of its user (*elicitation*), and of its model (*sampling*).

use std::pin::pin;

use futures_util::future::{Either, select};
use roo_engine::server_tools::{CallingTask, SamplingMessage, SamplingRequest};
use roo_mcp::{CallOptions, Elicitation, Sampled, Sampling};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::elicitation::Dialog;

/// The most requests of a call that wait for their turn, of each kind.
const WAITING: usize = 4;

/// The receiving ends of what a server wants during a call.
pub(super) struct Requests {
    questions: mpsc::Receiver<Elicitation>,
    samplings: mpsc::Receiver<Sampling>,
}

/// One request.
enum Request {
    Question(Elicitation),
    Sampling(Sampling),
}

impl Requests {
    /// Options of a call that is given up with `cancel`, and what its server wants meanwhile.
    pub(super) fn of_call(cancel: &CancellationToken) -> (CallOptions, Self) {
        let (to_user, questions) = mpsc::channel(WAITING);
        let (to_model, samplings) = mpsc::channel(WAITING);
        let options =
            CallOptions { cancel: cancel.clone(), questions: Some(to_user), samplings: Some(to_model) };
        (options, Self { questions, samplings })
    }

    /// Answers one request after another, while a call waits for its answer. A model that is asked then is given up, and what
    /// it has used is recorded before this returns.
    pub(super) async fn answered_by<T>(
        mut self,
        task: &dyn CallingTask,
        server: &str,
        call: impl Future<Output = T>,
    ) -> T {
        let over = CancellationToken::new();
        let answer = async {
            while let Some(request) = self.next(&over).await {
                match request {
                    Request::Question(elicitation) => {
                        tokio::select! {
                            biased;
                            () = over.cancelled() => {}
                            () = Dialog { user: task, server, elicitation }.run() => {}
                        }
                    }
                    Request::Sampling(sampling) => sample(task, server, sampling, &over).await,
                }
            }
        };
        match select(pin!(call), pin!(answer)).await {
            Either::Left((answered, answer)) => {
                over.cancel();
                answer.await;
                answered
            }
            // It ends when the call can make no more requests.
            Either::Right(((), call)) => call.await,
        }
    }

    /// The next request; none when the call is over.
    async fn next(&mut self, over: &CancellationToken) -> Option<Request> {
        tokio::select! {
            biased;
            () = over.cancelled() => None,
            Some(elicitation) = self.questions.recv() => Some(Request::Question(elicitation)),
            Some(sampling) = self.samplings.recv() => Some(Request::Sampling(sampling)),
            else => None,
        }
    }
}

async fn sample(task: &dyn CallingTask, server: &str, sampling: Sampling, over: &CancellationToken) {
    let Sampling { system, messages, max_tokens, mut answer } = sampling;
    let messages = messages
        .into_iter()
        .map(|message| SamplingMessage { by_model: message.by_model, text: message.text });
    let request =
        SamplingRequest { server: server.to_owned(), system, messages: messages.collect(), max_tokens };
    let withdrawn = async {
        tokio::select! {
            () = over.cancelled() => {}
            () = answer.closed() => {}
        }
    };
    let sampled = task.sample(request, Box::pin(withdrawn)).await;
    let sampled = sampled
        .map(|answer| Sampled { text: answer.text, model: answer.model, is_cut: answer.is_cut })
        .map_err(|error| error.to_string());
    // The server took its request back.
    let _ = answer.send(sampled);
}
