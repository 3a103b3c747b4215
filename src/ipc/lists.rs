//! Answers of Roo Code's API to questions about slash commands, modes and models.

use roo_engine::customization::Customization;
use roo_formats::config::{Profile, Settings};
use serde_json::{Map, Value, json};

/// The slash commands. Reads the disk.
pub(super) fn commands(customization: &Customization) -> Value {
    let commands = customization.commands().into_iter().map(|command| {
        let mut item = json!({ "name": command.name, "source": command.source.as_str() });
        let path = command.path.map(|path| path.to_string_lossy().into_owned());
        let optional = [
            ("filePath", path),
            ("description", command.description),
            ("argumentHint", command.argument_hint),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                item[key] = value.into();
            }
        }
        item
    });
    commands.collect()
}

/// The modes. Reads the disk.
pub(super) fn modes(customization: &Customization, settings: &Settings) -> Value {
    let modes = customization.mode_list(settings).modes.into_iter();
    modes.map(|mode| json!({ "slug": mode.slug, "name": mode.name })).collect()
}

/// The models of the user's profiles by their names, with what is known of them (`ModelInfo`). A window of 0 tokens is not known.
pub(super) fn models(settings: &Settings) -> Value {
    let models =
        settings.profiles.values().filter_map(|profile| Some((profile.model.clone()?, model(profile))));
    Value::Object(models.collect::<Map<_, _>>())
}

fn model(profile: &Profile) -> Value {
    let known = profile.known();
    let mut info = json!({
        "contextWindow": profile.context_window().unwrap_or_default(),
        "supportsPromptCache": profile.prices().is_some_and(|price| price.cache_read > 0.0),
        "supportsImages": known.is_some_and(|model| model.images),
    });
    if let Some(tokens) = profile.max_tokens.or_else(|| Some(known?.output)) {
        info["maxTokens"] = tokens.into();
    }
    if let Some(price) = profile.prices() {
        for (key, amount) in [
            ("inputPrice", price.input),
            ("outputPrice", price.output),
            ("cacheReadsPrice", price.cache_read),
            ("cacheWritesPrice", price.cache_write),
        ] {
            info[key] = amount.into();
        }
    }
    info
}
