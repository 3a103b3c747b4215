//! Reasons why a server does not run.

use std::borrow::Cow;
use std::time::Duration;

use crate::network::RefusedAddress;

/// Reasons why a server is not connected, or no longer. Says what to do; whose fault it is says the name it is shown with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// Its configuration can't be used.
    #[error("{0}")]
    Configuration(String),
    /// Its program did not start.
    #[error("its program can't be started: {0}")]
    Launch(String),
    /// Its program ended by itself.
    #[error("its program ended ({how}){}", last_words(.stderr))]
    Ended {
        /// With which code or by which signal.
        how: String,
        /// The last line of its standard error.
        stderr: Option<String>,
    },
    /// The connection ended.
    #[error("it closed the connection; restart it if it is needed")]
    Closed,
    /// Its session is over, by its own word.
    #[error("its session has expired")]
    Expired,
    /// It is silent.
    #[error(
        "it has not answered `initialize` within {} s, the limit for starting a server{}; check that it is an MCP server of \
         this transport",
        .waited.as_secs(), last_words(.stderr)
    )]
    NoAnswer {
        /// Time limit.
        waited: Duration,
        /// The last line of its standard error.
        stderr: Option<String>,
    },
    /// It has no version of the protocol in common with this client.
    #[error("it speaks no version of MCP that roo-lsp knows ({0}); update the server or roo-lsp")]
    Version(String),
    /// It refused to begin.
    #[error("it refused the connection: {0}")]
    Refused(String),
    /// It answered what the protocol does not have.
    #[error("it violates the protocol: {0}; report this to the server's authors")]
    Protocol(String),
    /// Its standard output is something else.
    #[error(
        "its standard output has something other than MCP messages, such as `{sample}`; it must write logs to standard error"
    )]
    Garbage {
        /// The beginning of it.
        sample: String,
    },
    /// A message that does not end.
    #[error("it sent a message of more than {limit} MiB; restart it, and request less at once")]
    Oversized {
        /// Maximum size of one message.
        limit: usize,
    },
    /// It wants to know who asks, and neither a login nor a header of the configuration tells.
    #[error(
        "run `roo-lsp mcp login {}`, or set the header `Authorization` in mcp.json{}",
        shell_word(.server), .last.as_ref().map(|reason| format!("; the last login is over: {reason}")).unwrap_or_default()
    )]
    NeedsLogin {
        server: String,
        /// What became of the last login, if there was one.
        last: Option<String>,
    },
    /// What a login gave can't be read or kept.
    #[error("its login can't be used: {0}")]
    Credentials(String),
    /// It knows who asks, or was told so by the configuration, and refuses.
    #[error(
        "it refuses the request (HTTP {status}); check the header `Authorization` in mcp.json, or the rights of its login"
    )]
    Unauthorized {
        /// 401 or 403.
        status: u16,
    },
    /// It wants more than the login permits.
    #[error(
        "its login does not permit this; log in again with `roo-lsp mcp login {} --scope '{scopes}'`", shell_word(.server)
    )]
    Scope {
        server: String,
        /// The scopes that it wants, separated by spaces.
        scopes: String,
    },
    /// It is at an address that is not connected to.
    #[error(transparent)]
    Address(#[from] RefusedAddress),
    /// It sends its clients elsewhere.
    #[error("it redirects to {0}, which is not followed; if that is right, write that address into mcp.json")]
    Redirect(String),
    /// Nothing answers.
    #[error("it can't be reached: {0}")]
    Unreachable(String),
    /// It answers with an error of HTTP.
    #[error("it can't be reached: HTTP {status}{}", reason(.body))]
    Http {
        status: u16,
        /// The text that came with it, cut where it is long.
        body: String,
    },
    /// It failed too often.
    #[error("{0}; it failed repeatedly and is no longer restarted automatically")]
    Repeated(Box<ServerFault>),
}

/// A name as it stands in a command that users copy: whoever wrote it must not write more of the command.
fn shell_word(name: &str) -> Cow<'_, str> {
    shlex::try_quote(name).unwrap_or(Cow::Borrowed("NAME"))
}

fn reason(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}

fn last_words(stderr: &Option<String>) -> String {
    stderr.as_ref().map(|line| format!(": `{line}`")).unwrap_or_default()
}

impl ServerFault {
    /// Reports whether it may be over without anything being done about it, as trouble of the network is.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Http { .. } | Self::Expired | Self::Closed)
    }

    /// Reports whether starting the server again can't help, because something has to be changed first.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::Configuration(_)
            | Self::Launch(_)
            | Self::Version(_)
            | Self::Refused(_)
            | Self::Garbage { .. }
            | Self::NeedsLogin { .. }
            | Self::Credentials(_)
            | Self::Unauthorized { .. }
            | Self::Scope { .. }
            | Self::Address(_)
            | Self::Redirect(_)
            | Self::Repeated(_) => true,
            Self::Ended { .. }
            | Self::Closed
            | Self::Expired
            | Self::NoAnswer { .. }
            | Self::Protocol(_)
            | Self::Oversized { .. }
            | Self::Unreachable(_)
            | Self::Http { .. } => false,
        }
    }
}

/// A text of a server, cut where it is too long to be shown.
pub(crate) fn short(text: &str) -> String {
    const MAX_CHARS: usize = 500;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}… [cut]", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_the_command_that_is_named() {
        for (name, word) in
            [("issues", "issues"), ("my issues", "'my issues'"), ("x; rm -rf ~", "'x; rm -rf ~'")]
        {
            let fault = ServerFault::NeedsLogin { server: name.to_owned(), last: None };
            let command = format!("run `roo-lsp mcp login {word}`, or set");
            assert!(fault.to_string().starts_with(&command), "{fault}");
            let fault = ServerFault::Scope { server: name.to_owned(), scopes: "read".to_owned() };
            let command = format!("log in again with `roo-lsp mcp login {word} --scope 'read'`");
            assert!(fault.to_string().ends_with(&command), "{fault}");
        }
    }
}
