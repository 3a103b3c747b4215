//! placeholder
pub async fn run(
    directory: crate::workspace::Resolved,
    regex: String,
    file_pattern: Option<String>,
    context: &super::ToolContext,
) -> super::Outcome {
    super::Outcome::failed("x")
}
