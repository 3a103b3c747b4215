//! Where the models of profiles come from.

use std::sync::Arc;

use super::{Model, ModelError, connect};
use roo_formats::config::Profile;

/// Connects profiles with models. Tests have one whose models follow a plan.
pub trait ModelSource: Send + Sync {
    /// The model of a profile; see [`connect`].
    ///
    /// # Errors
    /// As [`connect`].
    fn connect(&self, profile: &Profile) -> Result<Arc<dyn Model>, ModelError>;
}

/// The models that profiles name, with keys from this process's environment.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConfiguredModels;

impl ModelSource for ConfiguredModels {
    fn connect(&self, profile: &Profile) -> Result<Arc<dyn Model>, ModelError> {
        connect(profile, &|name| std::env::var(name).ok())
    }
}
