//! The environment that language servers, commands and models of a client get, as far as it matters who shares it.
//!
//! The engine takes it from its process. So clients share a daemon if they have the same one, and no command of one client
//! runs with what another one has set.

use std::ffi::{OsStr, OsString};

use roo_protocol::ids::Digest;

/// Variables that belong to one terminal, window or login. They differ between the clients of one user and steer no work.
const OF_ONE_TERMINAL: &[&str] = &[
    "_",
    "ALACRITTY_LOG",
    "ALACRITTY_SOCKET",
    "ALACRITTY_WINDOW_ID",
    "ATUIN_HISTORY_ID",
    "ATUIN_SESSION",
    // Electron sets it, for its windows.
    "CHROME_DESKTOP",
    "COLORTERM",
    "COLUMNS",
    "DESKTOP_STARTUP_ID",
    "GIO_LAUNCHED_DESKTOP_FILE",
    "GIO_LAUNCHED_DESKTOP_FILE_PID",
    "GNOME_TERMINAL_SCREEN",
    "GNOME_TERMINAL_SERVICE",
    "GPG_TTY",
    "HELIX_RUNTIME",
    "INSIDE_EMACS",
    "INVOCATION_ID",
    "ITERM_SESSION_ID",
    "JOURNAL_STREAM",
    "KITTY_PID",
    "KITTY_WINDOW_ID",
    "LC_TERMINAL",
    "LC_TERMINAL_VERSION",
    "LINES",
    "MYVIMRC",
    "NVIM",
    "NVIM_LOG_FILE",
    "OLDPWD",
    "ORIGINAL_XDG_CURRENT_DESKTOP",
    "PTYXIS_PROFILE",
    "PTYXIS_VERSION",
    "PWD",
    "SECURITYSESSIONID",
    "SHLVL",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "STARSHIP_SESSION_KEY",
    "STARSHIP_SHELL",
    "STY",
    "SYSTEMD_EXEC_PID",
    "TERM",
    "TERMINATOR_DBUS_NAME",
    "TERMINATOR_DBUS_PATH",
    "TERMINATOR_UUID",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID",
    "TILIX_ID",
    "TMUX",
    "TMUX_PANE",
    "VIM",
    "VIMRUNTIME",
    "VTE_VERSION",
    "WEZTERM_PANE",
    "WEZTERM_UNIX_SOCKET",
    "WINDOW",
    "WINDOWID",
    "WINDOWPATH",
    "WT_PROFILE_ID",
    "WT_SESSION",
    "XDG_ACTIVATION_TOKEN",
    "XDG_SESSION_ID",
    "ZELLIJ",
    "ZELLIJ_PANE_ID",
];
/// Beginnings of the names of more such variables.
const OF_ONE_WINDOW: &[&str] = &["ELECTRON_", "KONSOLE_", "P9K_", "VSCODE_", "_P9K_"];

/// The variables that count. Any that isn't known to belong to one terminal does: a key, a proxy, a search path.
#[derive(Clone, Debug)]
pub(crate) struct SessionEnvironment(Vec<(OsString, OsString)>);

impl SessionEnvironment {
    /// The variables of these that count.
    pub(crate) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut counted: Vec<_> = variables.into_iter().filter(|(name, _)| counts(name)).collect();
        counted.sort();
        Self(counted)
    }

    /// Returns the variables, by their names.
    pub(super) fn variables(&self) -> &[(OsString, OsString)] {
        &self.0
    }

    /// Returns a name for all that have these variables. Their values can't be told from it.
    pub(super) fn digest(&self) -> String {
        let mut bytes = Vec::new();
        for (name, value) in &self.0 {
            for part in [name, value] {
                let part = part.as_encoded_bytes();
                bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
                bytes.extend_from_slice(part);
            }
        }
        Digest::of(&bytes).hex()
    }
}

fn counts(name: &OsStr) -> bool {
    let is_of = |name: &str| {
        OF_ONE_TERMINAL.contains(&name) || OF_ONE_WINDOW.iter().any(|prefix| name.starts_with(prefix))
    };
    !name.to_str().is_some_and(is_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(variables: &[(&str, &str)]) -> String {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        SessionEnvironment::new(variables).digest()
    }

    #[test]
    fn terminals_of_one_user_share_an_environment() {
        let one = digest(&[("PATH", "/bin"), ("TERM", "xterm"), ("SHLVL", "1"), ("VSCODE_PID", "7")]);
        let other = digest(&[("TERM", "dumb"), ("PATH", "/bin"), ("PWD", "/home/ada")]);
        assert_eq!(one, other);
        let window = digest(&[("PATH", "/bin"), ("CHROME_DESKTOP", "code.desktop"), ("VSCODE_CWD", "/")]);
        assert_eq!(one, window);
        let tab = [
            ("PATH", "/bin"),
            ("GNOME_TERMINAL_SCREEN", "/org/gnome/1"),
            ("STARSHIP_SESSION_KEY", "7"),
            ("_P9K_TTY", "2"),
        ];
        assert_eq!(one, digest(&tab));
    }

    #[test]
    fn what_programs_and_models_read_makes_another_environment() {
        let usual = digest(&[("PATH", "/bin")]);
        for other in [
            &[("PATH", "/bin:/opt/bin")] as &[_],
            &[("PATH", "/bin"), ("OPENAI_API_KEY", "k")],
            &[("PATH", "/bin"), ("ANY_NAME", "")],
            &[],
        ] {
            assert_ne!(digest(other), usual, "{other:?}");
        }
        assert_ne!(digest(&[("A", "BC")]), digest(&[("AB", "C")]));
    }
}
