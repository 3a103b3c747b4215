//! `roo-lsp completions`: what a shell needs to complete the command line.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::arguments::Arguments;

/// The script for a shell.
pub(super) fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "roo-lsp", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        // clap_complete 4.6 sets one name for a subcommand of a program with `-` in its name, and asks for another.
        Shell::Bash => script.replace("roo__subcmd__lsp__", "roo__lsp__"),
        _ => script,
    }
}
