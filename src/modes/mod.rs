//! modes (being built)
