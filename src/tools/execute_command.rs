//! placeholder
pub async fn run(
    command: String,
    directory: crate::workspace::Resolved,
    timeout: Option<std::time::Duration>,
    context: &super::ToolContext,
) -> super::Outcome {
    super::Outcome::failed("x")
}
