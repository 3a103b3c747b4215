//! roo-lsp
fn main() {}
