//! Programs that are reached at names of the loopback although they listen in another network.

use std::io;

use futures_util::future::BoxFuture;
use tokio::net::TcpStream;

/// Programs that listen at ports of a loopback that is not this machine's, such as those of commands.
pub trait Loopback: Send + Sync {
    /// Reports whether one listens at a port. Then the destination is allowed, and is not this machine's.
    fn listens_at(&self, port: u16) -> bool;

    /// Connects to it.
    ///
    /// # Errors
    /// It doesn't listen any more, or can't be reached.
    fn connect(&self, port: u16) -> BoxFuture<'_, io::Result<TcpStream>>;
}
