//! cli (being built)
