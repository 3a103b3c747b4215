//! `roo-lsp ipc`: a server of Roo Code's IPC without an editor.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use roo_formats::config::{Layer, Settings};
use roo_text::render::exact_line;

use super::arguments::{Common, Ipc, Unattended};
use super::session::SessionContext;
use super::signals::{Signal, Signals};
use super::{CliError, Ending, run, terminal};
use crate::ipc::{IpcSocket, Setup, SocketError, VARIABLE, WhenAsked, reachable, socket_path};

/// Serves until a signal.
pub(super) async fn ipc(common: Common, ipc: Ipc) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    context.refuse_wide_folder(common.workspace.is_some(), "ipc")?;
    let mut signals = Signals::listen()?;
    let live = context.live_settings(Layer::from_command_line(run::allowed(&ipc.allow)))?;
    let settings = Arc::clone(&live.newest().settings);
    let path = named(ipc.socket, &settings)?;
    let customization = context.customization_at_work()?;
    let folders = std::slice::from_ref(&context.folder);
    let socket = IpcSocket::bind(&path, &reachable(folders, &settings)).map_err(refused)?;
    let engine = Arc::new(context.engine(live)?);
    let when_asked = match ipc.on_ask {
        Unattended::Wait => WhenAsked::Wait,
        Unattended::Deny => WhenAsked::Deny,
        Unattended::Allow => WhenAsked::Allow,
    };
    let shown = exact_line(&socket.path().to_string_lossy());
    writeln!(terminal::stderr(), "roo-lsp: serving IPC at {shown}")?;
    let mut signal = None;
    let told_to_end = async { signal = Some(signals.next().await) };
    let setup = Setup { engine: Arc::clone(&engine), customization, folder: context.folder, when_asked };
    crate::ipc::serve(socket, setup, told_to_end).await;
    // Requests are left to be resumed.
    engine.shutdown().await;
    engine.end_servers().await;
    Ok(match signal {
        None => Ending::Done,
        Some(Signal::Interrupt) => Ending::Interrupted,
        Some(Signal::Terminate) => Ending::Terminated,
    })
}

/// The path of the command line, or else of the environment or the settings.
fn named(of_option: Option<PathBuf>, settings: &Settings) -> Result<PathBuf, CliError> {
    let path = match of_option {
        Some(path) => Some(path),
        None => socket_path(settings).map_err(refused)?,
    };
    path.ok_or_else(|| {
        CliError::Usage(format!(
            "no socket is named: use --socket PATH, the variable {VARIABLE} or the setting ipcSocket"
        ))
    })
}

fn refused(error: SocketError) -> CliError {
    match error {
        SocketError::Io { .. } => CliError::Other(error.to_string()),
        error => CliError::Usage(error.to_string()),
    }
}
