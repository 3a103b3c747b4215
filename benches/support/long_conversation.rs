//! A task that reads files turn after turn, at an endpoint that refuses long requests: the task has to shorten its
//! conversation again and again.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};

use super::Outcome;
use super::answer::{Call, Protocol, Wire, response};
use super::endpoint::{Endpoint, Request};
use super::program::{Home, Running};

/// Longest body that the endpoint takes, in bytes.
pub const MAX_BODY_BYTES: usize = 800_000;
/// What only requests for a summary say.
const SUMMARY: &[u8] = b"You summarise the work of a coding agent";
/// Number of different files.
const FILES: usize = 200;
/// Bytes of a delta.
const DELTA: usize = 24;

/// The endpoint, and a home for the program that talks to it.
pub struct LongConversation {
    /// Home of the program.
    pub home: Home,
    endpoint: Endpoint,
    wire: Wire,
    protocol: Protocol,
    /// Number of requests that were refused.
    pub refused: usize,
    /// Number of requests for a summary.
    pub summaries: usize,
    /// Length of the longest body that was taken.
    pub longest: usize,
}

impl LongConversation {
    /// A workspace with files of this size.
    pub fn new(wire: Wire, protocol: Protocol, file: usize) -> Outcome<Self> {
        let endpoint = Endpoint::start()?;
        let home = Home::new(&endpoint.url(), wire, protocol, json!({}))?;
        for n in 0..FILES {
            fs::write(home.work().join(format!("file_{n}.rs")), source(n, file))?;
        }
        Ok(Self { home, endpoint, wire, protocol, refused: 0, summaries: 0, longest: 0 })
    }

    /// The same, where the settings know the window of the model, in tokens.
    pub fn in_window(wire: Wire, protocol: Protocol, file: usize, window: u64) -> Outcome<Self> {
        let conversation = Self::new(wire, protocol, file)?;
        let mut settings: Value = serde_json::from_slice(&fs::read(conversation.home.settings())?)?;
        settings["profiles"]["default"]["contextWindow"] = window.into();
        fs::write(conversation.home.settings(), settings.to_string())?;
        Ok(conversation)
    }

    /// The next request that is short enough. Longer ones are refused, and those for a summary get one.
    pub fn request(&mut self) -> Outcome<Request> {
        loop {
            let request = self.endpoint.request()?;
            if request.body.windows(SUMMARY.len()).any(|words| words == SUMMARY) {
                self.summaries += 1;
                // Its text needs to be no call.
                let text = Call { name: "summary", parameters: &[("state", "The files so far are read.")] };
                request.answer(&response(self.wire, Protocol::Xml, 0, &text, DELTA))?;
            } else if request.body.len() <= MAX_BODY_BYTES {
                self.longest = self.longest.max(request.body.len());
                return Ok(request);
            } else {
                self.refused += 1;
                request.answer(&refusal(self.wire))?;
            }
        }
    }

    /// Answers a request with the call of a turn.
    pub fn answer(&self, request: &Request, turn: usize) -> Outcome<Instant> {
        let path = format!("file_{}.rs", turn % FILES);
        let call = Call { name: "read_file", parameters: &[("path", &path)] };
        Ok(request.answer(&response(self.wire, self.protocol, turn, &call, DELTA))?)
    }

    /// Lets the model complete the task.
    pub fn finish(&self, mut program: Running, request: &Request) -> Outcome {
        let done = Call { name: "attempt_completion", parameters: &[("result", "Done.")] };
        request.answer(&response(self.wire, self.protocol, usize::MAX, &done, DELTA))?;
        let status = program.0.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the task failed: {status}").into()) }
    }
}

/// Lines as code has them, different in each file.
fn source(number: usize, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 80);
    for n in 0.. {
        if text.len() >= bytes {
            break;
        }
        text += &format!("    let value_{number}_{n} = list[{n}] < limit && \"a\\tb\" != name;\n");
    }
    text
}

/// A conversation that is too long, as the endpoints say it.
fn refusal(wire: Wire) -> Vec<u8> {
    let body = match wire {
        Wire::Anthropic => json!({
            "type": "error",
            "error": { "type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum" },
        }),
        Wire::OpenAi => json!({
            "error": { "code": "context_length_exceeded", "message": "This model's maximum context length is exceeded." },
        }),
    };
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
