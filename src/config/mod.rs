//! config (being built)
