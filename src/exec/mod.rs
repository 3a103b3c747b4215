//! exec (being built)
