//! Programs that are reached at names of the loopback although they listen in another network.

use std::io;

use futures_util::future::BoxFuture;
use tokio::net::TcpStream;

/// Programs that listen at ports of a loopback that is not this machine's, such as those of commands.
pub trait Loopback: Send + Sync {
    /// Connects to the one that listens at a port; none where no program does. Whoever is connected to is allowed, whatever
    /// the rules.
    ///
    /// # Errors
    /// One listens there and can't be reached.
    fn connect(&self, port: u16) -> BoxFuture<'_, io::Result<Option<TcpStream>>>;
}
