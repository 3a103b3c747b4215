//! `roo-lsp ipc`: a server of Roo Code's IPC without an editor.

use std::io::Write as _;
use std::path::PathBuf;

use roo_formats::config::Layer;
use roo_text::render::exact_line;

use super::arguments::{Common, Ipc, Unattended};
use super::session::SessionContext;
use super::signals::{Signal, Signals};
use super::{CliError, Ending, run, terminal};
use crate::ipc::{IpcSocket, Setup, SocketError, WhenAsked};

/// The variable by which Roo Code and its clients name the socket.
const VARIABLE: &str = "ROO_CODE_IPC_SOCKET_PATH";

/// Serves until a signal.
pub(super) async fn ipc(common: Common, ipc: Ipc) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    check_folder(&context, common.workspace.is_some())?;
    let path = socket_path(ipc.socket)?;
    let mut signals = Signals::listen()?;
    let settings = context.live_settings(Layer::from_command_line(run::allowed(&ipc.allow)))?;
    let customization = context.customization_at_work()?;
    let mut reachable = vec![context.folder.clone()];
    // Commands may write where these lead.
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    reachable.extend(settings.newest().settings.sandbox.writable.iter().map(real));
    let socket = IpcSocket::bind(&path, &reachable).map_err(|error| match error {
        SocketError::Io { .. } => CliError::Other(error.to_string()),
        error => CliError::Usage(error.to_string()),
    })?;
    let engine = context.engine(settings)?;
    let when_asked = match ipc.on_ask {
        Unattended::Wait => WhenAsked::Wait,
        Unattended::Deny => WhenAsked::Deny,
        Unattended::Allow => WhenAsked::Allow,
    };
    let shown = exact_line(&socket.path().to_string_lossy());
    writeln!(terminal::stderr(), "roo-lsp: serving IPC at {shown}")?;
    let mut signal = None;
    let told_to_end = async { signal = Some(signals.next().await) };
    let setup = Setup { engine, customization, folder: context.folder, when_asked };
    crate::ipc::serve(socket, setup, told_to_end).await;
    Ok(match signal {
        None => Ending::Done,
        Some(Signal::Interrupt) => Ending::Interrupted,
        Some(Signal::Terminate) => Ending::Terminated,
    })
}

/// Lets no agents loose on a home directory because the server was started there.
fn check_folder(context: &SessionContext, is_named: bool) -> Result<(), CliError> {
    match context.directories.too_wide(&context.folder) {
        Some(what) if !is_named => Err(CliError::Usage(format!(
            "the workspace would be {}, which is {what}. Name one: roo-lsp --workspace DIRECTORY ipc",
            exact_line(&context.folder.to_string_lossy())
        ))),
        _ => Ok(()),
    }
}

fn socket_path(named: Option<PathBuf>) -> Result<PathBuf, CliError> {
    let of_variable = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    named.or_else(of_variable).ok_or_else(|| {
        CliError::Usage(format!("no socket is named: use --socket PATH, or the variable {VARIABLE}"))
    })
}
