//! The command line by which a request goes on, as a user can paste it where they are.

use std::path::Path;

use super::arguments::View;
use super::session::SessionContext;
use crate::daemon::RequestStatus;
use crate::shell_word::shell_word;

/// Goes on with a request that the daemon had.
pub(super) fn of_request(request: &RequestStatus) -> String {
    let urid = request.urid.as_str();
    match request.folders.first() {
        Some(folder) => in_folder(urid, folder),
        None => format!("roo-lsp tasks resume {urid}"),
    }
}

/// Goes on with a request of a workspace folder.
fn in_folder(id: &str, folder: &Path) -> String {
    let mut line = format!("roo-lsp tasks resume {id}");
    let is_here =
        std::env::current_dir().and_then(|here| here.canonicalize()).is_ok_and(|here| here == folder);
    if !is_here {
        add(&mut line, "--workspace", folder);
    }
    line
}

/// Goes on with a request in the context of this process, with the flags that the user has given.
pub(super) fn in_context(id: &str, context: &SessionContext, view: &View) -> String {
    let mut line = in_folder(id, &context.folder);
    if let Some(file) = &context.directories.settings_file {
        add(&mut line, "--config", file);
    }
    if let Some(script) = &view.script {
        add(&mut line, "--script", script);
    }
    line
}

fn add(line: &mut String, flag: &str, path: &Path) {
    line.push_str(&format!(" {flag} {}", shell_word(&path.to_string_lossy())));
}
