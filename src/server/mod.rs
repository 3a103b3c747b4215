//! server (being built)
/// x
pub async fn serve_stdio(_config: Option<std::path::PathBuf>) -> std::io::Result<i32> {
    Ok(0)
}
