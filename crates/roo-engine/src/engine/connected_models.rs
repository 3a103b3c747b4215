//! The models that the profiles of one state of the settings are connected with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use roo_model::providers::{Model, ModelError};

/// Models by the names of their profiles, made when first needed: a scripted one reads its file.
#[derive(Default)]
pub(super) struct ConnectedModels(Mutex<HashMap<String, Arc<dyn Model>>>);

impl ConnectedModels {
    /// Returns the model of a profile, which is made if there is none yet.
    ///
    /// # Errors
    /// That of making it.
    pub(super) fn get_or_connect(
        &self,
        profile: &str,
        connect: impl FnOnce() -> Result<Arc<dyn Model>, ModelError>,
    ) -> Result<Arc<dyn Model>, ModelError> {
        let mut models = self.models();
        if let Some(model) = models.get(profile) {
            return Ok(Arc::clone(model));
        }
        let model = connect()?;
        models.insert(profile.to_owned(), Arc::clone(&model));
        Ok(model)
    }

    /// Has the next request make the model of a profile again.
    pub(super) fn forget(&self, profile: &str) {
        self.models().remove(profile);
    }

    fn models(&self) -> MutexGuard<'_, HashMap<String, Arc<dyn Model>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use roo_formats::config::Profile;
    use roo_model::providers;

    use super::*;

    #[test]
    fn a_model_is_kept_until_it_is_forgotten_and_has_the_key_of_the_time_when_it_was_made() {
        let profile: Profile =
            serde_json::from_value(serde_json::json!({ "provider": "openai", "model": "m" })).unwrap();
        let models = ConnectedModels::default();
        let account = |key: &str| {
            let environment = |name: &str| (name == "OPENAI_API_KEY").then(|| key.to_owned());
            models.get_or_connect("main", || providers::connect(&profile, &environment)).unwrap().account()
        };
        let old = account("sk-old");
        assert!(account("sk-new") == old);
        models.forget("main");
        assert!(account("sk-new") != old);
    }
}
