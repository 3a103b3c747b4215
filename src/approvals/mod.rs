//! approvals (being built)
