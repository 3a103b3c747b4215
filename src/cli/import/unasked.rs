//! Lists of tools of MCP servers that run without asking (`alwaysAllow`). In Roo Code they count only while one switch is on
//! (`alwaysAllowMcp`), here by themselves.

use std::path::Path;

use crate::configuration_file::read;
use roo_formats::mcp::{FILE_LIMIT, ForeignFormat};

/// Names of the servers of a file that have such a list. None where it can't be read, which is told where servers are.
pub(super) fn servers_with_lists(file: &Path) -> Vec<String> {
    let Ok(Some(text)) = read(file, FILE_LIMIT as u64) else { return vec![] };
    let Ok(imported) = ForeignFormat::RooCode.read(&text) else { return vec![] };
    let servers = imported.list.mcp_servers.into_iter();
    servers.filter(|(_, entry)| !entry.always_allow.is_empty()).map(|(name, _)| name).collect()
}
