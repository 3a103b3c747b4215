//! Models that a profile can choose from, with what its endpoint and the catalogue say of each.

use super::listed::ListedModel;
use super::{ModelError, list_models};
use roo_formats::config::{CatalogueModel, Profile};
use roo_protocol::model::ModelItem;
use roo_protocol::model_price::ModelPrice;

/// The models that a profile's endpoint offers, each with what the endpoint says of it and the catalogue knows besides.
///
/// # Errors
/// As for [`list_models`].
pub async fn offered_models(
    profile: &Profile,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<Vec<ModelItem>, ModelError> {
    let listed = list_models(profile, environment).await?;
    Ok(listed.into_iter().map(|model| item(profile, model)).collect())
}

/// The models that the catalogue has of a profile's provider, without asking anybody.
pub fn known_models(profile: &Profile) -> Vec<ModelItem> {
    let named = |known: &CatalogueModel| ListedModel { id: known.id.clone(), ..ListedModel::default() };
    CatalogueModel::for_provider(profile.provider).map(|known| item(profile, named(known))).collect()
}

fn item(profile: &Profile, listed: ListedModel) -> ModelItem {
    let profile = Profile { model: Some(listed.id.clone()), price_per_million: None, ..profile.clone() };
    let known = profile.known();
    let price = listed.price.or_else(|| profile.prices());
    ModelItem {
        id: listed.id,
        context_window: listed.window.or(known.map(|known| known.window)),
        max_tokens: listed.output.or(known.map(|known| known.output)),
        price_per_million: price.map(|price| ModelPrice {
            input: price.input,
            output: price.output,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
        }),
        images: known.map(|known| known.images),
        reasoning: known.map(|known| known.reasoning),
        native_tools: known.map(|known| known.native_tools),
    }
}
