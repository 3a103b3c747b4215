//! `roo-lsp models`: what an endpoint offers, and what the catalogue knows.

use std::fmt::Write as _;
use std::io::Write as _;

use super::arguments::{Common, Models};
use super::session::{SessionContext, environment};
use super::terminal;
use super::{CliError, Ending};
use roo_formats::config::{Price, Profile};
use roo_model::providers;
use roo_protocol::model::ModelItem;
use roo_text::render;

/// Prints a line for each model.
pub(super) fn models(common: &Common, arguments: &Models) -> Result<Ending, CliError> {
    let profile = match arguments.provider {
        Some(provider) => Profile::new(provider),
        None => {
            let settings = SessionContext::find(common)?.settings(None)?;
            let name = arguments.profile.as_ref().unwrap_or(&settings.profile);
            let named = settings.find_profile(name).cloned();
            named.map_err(|unknown| CliError::Other(format!("{unknown}; `--provider` needs no profile")))?
        }
    };
    let models = match arguments.offline {
        true => providers::known_models(&profile),
        false => super::block_on(providers::offered_models(&profile, &environment))?
            .map_err(|error| CliError::Other(error.to_string()))?,
    };
    let text = if arguments.json {
        serde_json::to_string(&models).map_err(|error| CliError::Other(error.to_string()))? + "\n"
    } else {
        models.iter().fold(String::new(), |mut text, model| {
            // Writing to a string can't fail.
            let _ = writeln!(text, "{}", line(model));
            text
        })
    };
    terminal::stdout().write_all(text.as_bytes())?;
    Ok(Ending::Done)
}

/// A model with what is known of it.
pub(super) fn line(model: &ModelItem) -> String {
    let mut facts = Vec::new();
    facts.extend(model.context_window.map(|tokens| format!("{} tokens", thousands(tokens))));
    if let Some(price) = &model.price_per_million {
        let price = Price { input: price.input, output: price.output, ..Price::default() };
        facts.push(match price.input + price.output {
            0.0 => "free".to_owned(),
            _ => format!("${} in, ${} out per million", price.input, price.output),
        });
    }
    if model.images == Some(true) {
        facts.push("images".to_owned());
    }
    if model.reasoning == Some(true) {
        facts.push("reasoning".to_owned());
    }
    if model.native_tools == Some(false) {
        facts.push("no native tools".to_owned());
    }
    let id = render::exact_line(&model.id);
    if facts.is_empty() { id.to_string() } else { format!("{id}  {}", facts.join(", ")) }
}

/// A number of tokens, rounded down for people.
pub(super) fn thousands(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        _ if count.is_multiple_of(1_000_000) => format!("{}M", count / 1_000_000),
        _ => format!("{}k", count / 1000),
    }
}
