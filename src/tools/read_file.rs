//! placeholder
pub async fn run(files: Vec<crate::hooks::ReadTarget>, context: &super::ToolContext) -> super::Outcome {
    super::Outcome::failed("x")
}
