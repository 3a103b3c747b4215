//! Notifications to the user of a terminal that may not be in sight: by an escape sequence that the terminal shows, or by a program
//! of the desktop.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::task::JoinSet;

use roo_formats::config::Notifications;
use roo_text::render::{one_line, visible};

/// The program of desktops of Linux.
const PROGRAM: &str = "notify-send";
/// Time limit for it, as a desktop may not answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// The longest title and text, in characters.
const TITLE: usize = 60;
const TEXT: usize = 200;

/// Notifies by the way that the user has chosen.
pub(super) struct Notifier {
    way: Notifications,
    /// Programs that show a notification.
    running: JoinSet<()>,
}

impl Notifier {
    pub(super) fn new(way: Notifications) -> Self {
        Self { way, running: JoinSet::new() }
    }

    /// Notifies the user. Nothing waits for it, and a failure is logged.
    pub(super) fn notify(&mut self, title: &str, text: &str) {
        while self.running.try_join_next().is_some() {}
        let (title, text) = (visible(&one_line(title, TITLE)).into_owned(), one_line(text, TEXT));
        let text = visible(&text).into_owned();
        if self.way == Notifications::NotifySend {
            self.running.spawn(async move {
                if let Err(error) = run_program(&title, &text).await {
                    tracing::warn!(%error, "{PROGRAM} did not show a notification");
                }
            });
        } else if let Some(sequence) = escape_sequence(self.way, &title, &text)
            && io::stderr().is_terminal()
        {
            let mut out = io::stderr().lock();
            // Whoever has closed the terminal sees none.
            let _ = out.write_all(sequence.as_bytes()).and_then(|()| out.flush());
        }
    }

    /// Waits for the last notifications.
    pub(super) async fn finish(mut self) {
        while self.running.join_next().await.is_some() {}
    }
}

/// The escape sequence of a notification, of text without control characters.
fn escape_sequence(way: Notifications, title: &str, text: &str) -> Option<String> {
    match way {
        Notifications::Off | Notifications::NotifySend => None,
        Notifications::Osc9 => Some(format!("\u{1b}]9;{title}: {text}\u{7}")),
        // A semicolon ends the title.
        Notifications::Osc777 => Some(format!("\u{1b}]777;notify;{};{text}\u{7}", title.replace(';', ","))),
    }
}

async fn run_program(title: &str, text: &str) -> io::Result<()> {
    // Desktops read the text as markup.
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut command = Command::new(PROGRAM);
    command.args(["--app-name=roo-lsp", "--", title, &text]).kill_on_drop(true);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let status = tokio::time::timeout(DEADLINE, child.wait()).await.map_err(io::Error::from)??;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("it ended with {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_title_or_text_ends_the_sequence() {
        let hostile = "a;b\u{7}c\u{1b}\\";
        let shown = visible(hostile);
        let sequence = |way| escape_sequence(way, &shown, &shown);
        assert_eq!(
            sequence(Notifications::Osc9).unwrap(),
            "\u{1b}]9;a;b<U+0007>c<U+001B>\\: a;b<U+0007>c<U+001B>\\\u{7}"
        );
        assert_eq!(
            sequence(Notifications::Osc777).unwrap(),
            "\u{1b}]777;notify;a,b<U+0007>c<U+001B>\\;a;b<U+0007>c<U+001B>\\\u{7}"
        );
        assert_eq!(sequence(Notifications::Off), None);
    }
}
