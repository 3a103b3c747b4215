//! workspace (being built)
mod names;
mod protected;
mod resolver;
mod uri;
pub use names::visible;
pub use protected::{Protection, protection};
pub use resolver::{Location, PathError, Purpose, Resolved, RootError, Roots};
pub use uri::{file_uri, path_of};
/// The files.
pub struct Workspace {}
