//! placeholder
pub async fn run(proposal: crate::hooks::Proposal, context: &super::ToolContext) -> super::Outcome {
    super::Outcome::failed("x")
}
