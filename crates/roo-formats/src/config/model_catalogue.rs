//! Catalogue of single models, known before any request: window, limits, prices and abilities, from `models.toml`.
//!
//! An entry belongs to a provider, as the same model can have other prices and limits elsewhere. What a profile says
//! itself goes first, and so does what an endpoint says of its models.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;

use super::{Price, Provider};

/// One model at one provider.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CatalogueModel {
    /// Provider that serves it.
    pub provider: Provider,
    /// Its name there.
    pub id: String,
    /// Number of tokens that a request and its answer may have together.
    pub window: u64,
    /// Number of tokens that an answer may have.
    pub output: u64,
    /// US dollars for a million tokens.
    pub price: Price,
    /// True if it sees images.
    pub images: bool,
    /// True if it can think before it answers.
    pub reasoning: bool,
    /// True if it calls tools natively.
    pub native_tools: bool,
    /// Source of the figures: the name of an entry in `sources`, and the path below it.
    pub source: String,
    /// The day of the source, such as `2026-07-02`.
    pub date: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers of the file; a test checks it"))]
    sources: BTreeMap<String, String>,
    models: Vec<CatalogueModel>,
}

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| toml::from_str(include_str!("models.toml")).unwrap_or_default());

static BY_NAME: LazyLock<HashMap<(&str, &str), &CatalogueModel>> = LazyLock::new(|| {
    let key = |model: &'static CatalogueModel| ((model.provider.as_str(), model.id.as_str()), model);
    CATALOGUE.models.iter().map(key).collect()
});

impl CatalogueModel {
    /// Finds a model, if it is known.
    pub fn find(provider: Provider, id: &str) -> Option<&'static Self> {
        BY_NAME.get(&(provider.spec().owner(), id)).copied()
    }

    /// The models of a provider, in the order of the file.
    pub fn for_provider(provider: Provider) -> impl Iterator<Item = &'static Self> {
        let owner = provider.spec().owner();
        CATALOGUE.models.iter().filter(move |model| model.provider.as_str() == owner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn catalogue() -> Catalogue {
        toml::from_str(include_str!("models.toml")).unwrap()
    }

    #[test]
    fn every_entry_is_there_once_and_has_a_source() {
        let Catalogue { sources, models } = catalogue();
        assert!(models.len() > 100, "{}", models.len());
        let mut seen = HashSet::new();
        for model in &models {
            let name = format!("{}/{}", model.provider.as_str(), model.id);
            assert!(seen.insert(name.clone()), "{name} stands twice");
            let (source, path) = model.source.split_once('/').unwrap();
            assert!(sources[source].starts_with("https://") && !path.is_empty(), "{name}");
            let date: jiff::civil::Date = model.date.parse().unwrap();
            assert!(date >= jiff::civil::date(2025, 1, 1), "{name}: {date}");
        }
    }

    #[test]
    fn the_figures_are_plausible() {
        for model in &catalogue().models {
            let name = format!("{}/{}", model.provider.as_str(), model.id);
            assert!((4_000..=20_000_000).contains(&model.window), "{name}: {}", model.window);
            assert!((1_000..=model.window).contains(&model.output), "{name}: {}", model.output);
            let Price { input, output, cache_read, cache_write } = model.price;
            for price in [input, output, cache_read, cache_write] {
                assert!((0.0..=1000.0).contains(&price), "{name}: {price}");
            }
            assert!(output >= input, "{name}: an answer costs at least what a request costs");
            assert!(cache_read <= input, "{name}: reading a cache is no dearer than not having one");
            assert!(cache_write <= input * 2.0, "{name}: {cache_write}");
        }
    }

    #[test]
    fn a_model_is_found_under_its_provider_only() {
        let find = |provider, id| CatalogueModel::find(Provider::find(provider).unwrap(), id);
        let sonnet = find("anthropic", "claude-sonnet-4-5").unwrap();
        assert_eq!((sonnet.window, sonnet.price.input), (200_000, 3.0));
        assert!(find("openai", "claude-sonnet-4-5").is_none());
        assert_eq!(
            find("openai-responses", "gpt-5").unwrap().id,
            "gpt-5",
            "the same models, in another format"
        );
    }
}
