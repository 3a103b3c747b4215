//! The web front end: a page on a loopback address, and a WebSocket over which the page speaks `roo/*`.
//!
//! A page is the view of VS Code with a small host of its own (`editors/vscode/src/web/`); it is compiled in. Each WebSocket is a
//! client of the language server, whose `initialize` is written here and whose methods are a list (`page_methods`): a page can
//! do what the views of an editor do, and neither choose folders and settings nor steer the server itself.
//!
//! Nothing listens before a user asks for it. Served are pages of this server alone (`origins`), to those who know its token
//! (`access`). How a connection gets its engine is for the caller, by [`Connect`].

mod access;
mod assets;
mod origins;
mod page_methods;
mod relay;
mod server;

pub(crate) use origins::PublicOrigin;
pub(crate) use relay::Connect;
pub(crate) use server::{PageAddress, WebServer};
