//! server (being built)
