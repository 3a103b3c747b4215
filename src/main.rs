//! The `roo-lsp` program: reads its arguments and hands over to [`roo_lsp::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    roo_lsp::cli::main()
}
