//! text (being built)
