//! Places outside of the workspace that are looked at without a question: where build tools keep the sources of
//! dependencies, and what the user's settings open to commands. What is hidden from commands isn't free, whatever it lies in.

use std::path::{Path, PathBuf};

use super::context::PolicyContext;
use super::{tool_configuration, tool_homes};
use roo_formats::config::Directories;
use roo_sandbox::exec::sandbox::credentials;
use roo_workspace::{ReadAccess, Rules};

/// Directories of build tools that a user has configured by hand, below the home directory.
const CONFIGURED: &[&str] = &[".dotnet/corefx", ".gradle/init.d", ".nuget/NuGet", ".sbt/0.13", ".sbt/1.0"];

/// The places as they are now, by their real paths.
pub(super) struct FreePlaces {
    /// Directories of build tools. What lies directly in one may be configuration.
    tools: Vec<PathBuf>,
    /// Paths that the user's settings name.
    named: Vec<PathBuf>,
    /// Files and directories with credentials and configuration, and the server's own.
    closed: Vec<PathBuf>,
}

impl FreePlaces {
    /// Finds the places. Reads the disk.
    pub(super) fn find(policy_context: &PolicyContext) -> Self {
        let lookup = |name: &str| std::env::var_os(name);
        let home = policy_context.bounds.home();
        let sandbox = &policy_context.settings.sandbox;
        let named = sandbox.readable.iter().chain(&sandbox.writable);
        let mut closed = credentials(home.as_deref());
        closed.extend(home.iter().flat_map(|home| tool_configuration::files(home)));
        let configured = home.iter().flat_map(|home| CONFIGURED.iter().map(move |name| home.join(name)));
        closed.extend(configured.filter_map(|place| place.canonicalize().ok()));
        if let Ok(Directories { config, state, .. }) = Directories::from_environment(lookup) {
            closed.extend([config, state].iter().filter_map(|directory| directory.canonicalize().ok()));
        }
        Self {
            tools: home.map(|home| tool_homes::tool_directories(&home, lookup)).unwrap_or_default(),
            named: named.filter_map(|path| path.canonicalize().ok()).collect(),
            closed,
        }
    }

    /// Returns whether a real path is one of them, where the sandbox keeps from a reader what is hidden below it.
    pub(super) fn contain(&self, place: &Path) -> bool {
        if self.named.iter().any(|named| named == place) {
            return true;
        }
        !self.closed.iter().any(|closed| place.starts_with(closed))
            && (self.is_of_tools(place) || self.is_named(place))
    }

    /// Returns whether a real path is one of them with all below it.
    pub(super) fn contain_all_of(&self, place: &Path) -> bool {
        self.contain(place) && !self.closed.iter().any(|closed| closed.starts_with(place) && closed != place)
    }

    fn is_of_tools(&self, place: &Path) -> bool {
        let mut below = self.tools.iter().filter_map(|tool| place.strip_prefix(tool).ok());
        below.any(|below| {
            let is_directly_in_it = below.components().count() == 1 && !place.is_dir();
            below != Path::new("") && !is_directly_in_it && !is_secret(below, place)
        })
    }

    fn is_named(&self, place: &Path) -> bool {
        let mut below = self.named.iter().filter_map(|named| place.strip_prefix(named).ok());
        below.any(|below| !is_secret(below, place))
    }
}

/// Returns whether a path is likely to hold a secret by its name.
fn is_secret(below: &Path, place: &Path) -> bool {
    let access = below.to_str().map(|below| Rules::default().access(below, place.is_dir()));
    access.is_none_or(|access| access == ReadAccess::Secret)
}
