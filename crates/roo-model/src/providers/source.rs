//! Where the models of profiles come from.

use std::sync::Arc;

use super::image_generation::ConfiguredImages;
use super::{ImageModel, Model, ModelError, ModelErrorKind, connect};
use roo_formats::config::{ImageApi, Profile};

/// Connects profiles with models. Tests have one whose models follow a plan.
pub trait ModelSource: Send + Sync {
    /// The model of a profile; see [`connect`].
    ///
    /// # Errors
    /// As [`connect`].
    fn connect(&self, profile: &Profile) -> Result<Arc<dyn Model>, ModelError>;

    /// The model of a profile that makes images, asked in this way. Without network.
    ///
    /// # Errors
    /// A configuration error that names the profile's field and what to do.
    fn connect_images(&self, _profile: &Profile, _api: ImageApi) -> Result<Arc<dyn ImageModel>, ModelError> {
        Err(ModelError::new(ModelErrorKind::Configuration, "There are no models here that make images."))
    }
}

/// The models that profiles name, with keys from this process's environment.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConfiguredModels;

impl ModelSource for ConfiguredModels {
    fn connect(&self, profile: &Profile) -> Result<Arc<dyn Model>, ModelError> {
        connect(profile, &|name| std::env::var(name).ok())
    }

    fn connect_images(&self, profile: &Profile, api: ImageApi) -> Result<Arc<dyn ImageModel>, ModelError> {
        let images = ConfiguredImages::connect(profile, api, &|name| std::env::var(name).ok())?;
        Ok(Arc::new(images))
    }
}
