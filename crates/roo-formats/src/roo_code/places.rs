//! Where Roo Code keeps what it has: in a directory of each editor, below the user's home directory.

use std::path::{Path, PathBuf};

/// Its directory in that of an editor.
const STORAGE: &str = "User/globalStorage/rooveterinaryinc.roo-cline";
/// The directories in which editors of this machine keep theirs.
const OF_EDITORS: [&str; 2] = [".config", "Library/Application Support"];
/// Their names there. Those of the first one are read where they are.
const EDITORS: [&str; 5] = ["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];
/// Those of editors that are reached from elsewhere.
const REMOTE_EDITORS: [&str; 4] =
    [".vscode-server/data", ".cursor-server/data", ".windsurf-server/data", ".local/share/code-server"];

/// Names of the file of the user's modes, the newest first. JSON is read as YAML.
pub const MODES: [&str; 2] = ["settings/custom_modes.yaml", "settings/cline_custom_modes.json"];
/// Names of the file of MCP servers, the newest first.
pub const SERVERS: [&str; 2] = ["settings/mcp_settings.json", "settings/cline_mcp_settings.json"];
/// The directory of tasks.
pub const TASKS: &str = "tasks";
/// The directory of the user's rules, below the home directory: this program's too.
pub const RULES: &str = ".roo/rules";

/// The directories that Roo Code has, or would have.
pub fn storages(home: &Path) -> Vec<PathBuf> {
    let local = OF_EDITORS.iter().flat_map(|base| EDITORS.map(|editor| home.join(base).join(editor)));
    let all = local.chain(REMOTE_EDITORS.map(|place| home.join(place)));
    all.map(|editor| editor.join(STORAGE)).collect()
}

/// Those of them whose modes count where they are, without an import: VS Code's on this machine.
pub fn storages_in_use(home: &Path) -> [PathBuf; 2] {
    OF_EDITORS.map(|base| home.join(base).join(EDITORS[0]).join(STORAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_where_it_is_is_among_what_is_imported() {
        let home = Path::new("/home/ada");
        let all = storages(home);
        assert_eq!(all.len(), OF_EDITORS.len() * EDITORS.len() + REMOTE_EDITORS.len());
        for storage in storages_in_use(home) {
            assert!(all.contains(&storage), "{}", storage.display());
        }
        assert!(
            all.contains(&home.join(".vscode-server/data/User/globalStorage/rooveterinaryinc.roo-cline"))
        );
    }
}
