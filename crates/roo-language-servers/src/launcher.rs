//! Starting a language server's program. How that is done is the caller's choice.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::preset::InstalledServer;

/// Starts the programs of language servers.
pub trait Launcher: Send + Sync + 'static {
    /// Reports whether servers may be started now. Reads the disk.
    fn may_launch(&self) -> bool;

    /// Starts a program in the workspace folder, or says why it can't be started (without a full stop).
    fn launch<'a>(&'a self, server: &'a InstalledServer) -> BoxFuture<'a, Result<LaunchedServer, String>>;
}

/// A program that was started.
pub struct LaunchedServer {
    /// Its standard input. Dropped when it is to end.
    pub stdin: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Its standard output.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Its standard error.
    pub stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// A directory of its own that it may write, and that is kept from one run to the next.
    pub cache: Option<PathBuf>,
    pub process: Box<dyn ServerProcess>,
}

/// A running program and everything that it started. Dropping it kills all of that.
pub trait ServerProcess: Send + Sync {
    /// Ends the program and what it started. Lets it end by itself for a moment.
    fn end(self: Box<Self>) -> BoxFuture<'static, ()>;
}
