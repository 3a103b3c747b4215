//! store (being built)
