//! The `roo-lsp` program: reads its arguments and hands over to [`roo_lsp::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    // A helper of the sandbox must have one thread, so this comes first of all.
    if let Some(code) = roo_sandbox::exec::sandbox::enter() {
        return code;
    }
    // Likewise the process that reads a document.
    if let Some(code) = roo_documents::enter() {
        return code;
    }
    roo_lsp::cli::main()
}
