//! prompts (being built)
