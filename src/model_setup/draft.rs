//! A form's profile, as settings.

use roo_formats::config::edit::{OtherFields, ProfileFields};
use roo_formats::config::{Profile, profile_of};
use roo_protocol::profile::{DraftField, KeySource, ProfileDraft};
use serde_json::{Map, Value, json};

use super::{Candidate, KeyPlace, keyring};

/// The fields that a form has, but for those of the key.
const FIELDS: [&str; 8] = [
    "model",
    "baseUrl",
    "wireFormat",
    "toolProtocol",
    "reasoning",
    "contextWindow",
    "maxTokens",
    "pricePerMillion",
];

/// Reasons why a form's profile is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DraftError {
    #[error(
        "'{0}' is not the name of an environment variable; name the variable that holds the key, not the key"
    )]
    Variable(String),
    #[error("the command for the key names no program")]
    Command,
    #[error("{0}")]
    Field(String),
}

/// A form's profile, with what it changes in the settings file.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) candidate: Candidate,
    pub(crate) place: KeyPlace,
    /// What is written of the profile.
    pub(crate) fields: ProfileFields,
}

impl Draft {
    /// What a form makes of a profile of the settings file, or of none. Nothing is left of a profile of another provider or
    /// address: what it sends to its endpoint, such as headers and keys, is not for that of the form.
    pub(crate) fn new(draft: &ProfileDraft, before: Option<&Profile>) -> Result<Self, DraftError> {
        let kept = before.filter(|before| has_same_endpoint(draft, before));
        let others = if before.is_some() && kept.is_none() { OtherFields::Drop } else { OtherFields::Keep };
        let given = serde_json::to_value(draft).unwrap_or_default();
        let mut named = vec![("provider".to_owned(), given["provider"].clone())];
        let in_form = FIELDS.into_iter().filter_map(|field| Some((field, given.get(field)?)));
        named.extend(in_form.map(|(field, value)| (field.to_owned(), without_zeros(field, value))));
        let mut place = KeyPlace::File;
        let (variable, command, key) = match &draft.key {
            DraftField::Kept => (None, None, None),
            DraftField::Removed => (Some(Value::Null), Some(Value::Null), None),
            DraftField::Set(KeySource::Environment { variable }) => {
                if !is_variable(variable) {
                    // It may be the key itself.
                    let shown: String = variable.chars().take(4).collect();
                    return Err(DraftError::Variable(format!("{shown}…")));
                }
                (Some(variable.as_str().into()), Some(Value::Null), None)
            }
            DraftField::Set(KeySource::Command { command }) => {
                if command.first().is_none_or(|program| program.trim().is_empty()) {
                    return Err(DraftError::Command);
                }
                (Some(Value::Null), Some(json!(command)), None)
            }
            DraftField::Set(KeySource::Keyring { key }) => {
                place = KeyPlace::Keyring;
                (Some(Value::Null), None, Some(key.trim().to_owned()))
            }
            DraftField::Set(KeySource::File { key }) => {
                (Some(Value::Null), Some(Value::Null), Some(key.trim().to_owned()))
            }
        };
        named.extend(variable.map(|variable| ("apiKeyEnv".to_owned(), variable)));
        named.extend(command.map(|command| ("apiKeyCommand".to_owned(), command)));
        let mut profile = read(&named, kept)?;
        if place == KeyPlace::Keyring {
            let command = keyring::lookup(&profile);
            named.push(("apiKeyCommand".to_owned(), json!(command)));
            profile.api_key_command = Some(command);
        }
        leave_to_catalogue(&mut named, &mut profile);
        let fields = ProfileFields { named, others };
        Ok(Self { candidate: Candidate::new(profile, key), place, fields })
    }

    /// Returns the variable from which the key is taken in place of a stored one.
    pub(crate) fn overriding_variable(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Option<&'static str> {
        let Candidate { profile, key } = &self.candidate;
        let variable = profile.provider.spec().key_variable.filter(|_| profile.base_url.is_none())?;
        let is_set = environment(variable).is_some_and(|value| !value.trim().is_empty());
        (key.is_some() && self.place == KeyPlace::File && is_set).then_some(variable)
    }
}

/// Returns whether a form is about the endpoint of a profile.
fn has_same_endpoint(draft: &ProfileDraft, before: &Profile) -> bool {
    let is_same_address = match &draft.base_url {
        DraftField::Kept => true,
        DraftField::Removed => before.base_url.is_none(),
        DraftField::Set(url) => before.base_url.as_ref() == Some(url),
    };
    draft.provider == before.provider.as_str() && is_same_address
}

/// Leaves out a context window of the form that the catalogue has: a copy in the settings file would stay when that changes.
fn leave_to_catalogue(fields: &mut [(String, Value)], profile: &mut Profile) {
    let known = profile.known().map(|model| Value::from(model.window));
    let in_form = fields.iter_mut().find(|(key, _)| key == "contextWindow");
    if let Some((_, window)) = in_form.filter(|(_, window)| Some(window) == known.as_ref()) {
        *window = Value::Null;
        profile.context_window = None;
    }
}

/// Prices as people write them: those of a cache are left out where there is none.
fn without_zeros(field: &str, value: &Value) -> Value {
    match value {
        Value::Object(prices) if field == "pricePerMillion" => {
            let needed = |(key, price): &(&String, &Value)| {
                !key.starts_with("cache") || price.as_f64().is_some_and(|price| price != 0.0)
            };
            prices.iter().filter(needed).map(|(key, price)| (key.clone(), price.clone())).collect()
        }
        value => value.clone(),
    }
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The profile that these fields make of the one before.
fn read(fields: &[(String, Value)], before: Option<&Profile>) -> Result<Profile, DraftError> {
    let before = before.and_then(|before| serde_json::to_value(before).ok());
    let mut all = match before {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    all.extend(fields.iter().cloned());
    all.retain(|_, value| !value.is_null());
    profile_of(&all).map_err(DraftError::Field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(value: Value) -> ProfileDraft {
        serde_json::from_value(value).unwrap()
    }

    fn made(value: Value, before: Option<&Profile>) -> Draft {
        Draft::new(&draft(value), before).unwrap_or_else(|error| panic!("{error}"))
    }

    fn set(draft: &Draft) -> Value {
        let fields = draft.fields.named.iter().filter(|(_, value)| !value.is_null());
        fields.cloned().collect::<Map<_, _>>().into()
    }

    #[test]
    fn a_key_is_named_and_never_written() {
        let by = |key: Value| made(json!({ "provider": "openai", "model": "gpt-5", "key": key }), None);
        let env = by(json!({ "from": "environment", "variable": "TEAM_KEY" }));
        assert_eq!(set(&env), json!({ "provider": "openai", "model": "gpt-5", "apiKeyEnv": "TEAM_KEY" }));
        let command = by(json!({ "from": "command", "command": ["pass", "openai"] }));
        assert_eq!(set(&command)["apiKeyCommand"], json!(["pass", "openai"]));
        let keyring = by(json!({ "from": "keyring", "key": "sk-secret" }));
        let looked_up = json!(["secret-tool", "lookup", "service", "roo-lsp", "endpoint", "openai"]);
        assert_eq!(set(&keyring)["apiKeyCommand"], looked_up);
        let file = by(json!({ "from": "file", "key": "sk-secret" }));
        assert_eq!(set(&file), json!({ "provider": "openai", "model": "gpt-5" }));
        for draft in [keyring, file] {
            assert_eq!(draft.candidate.key.as_deref(), Some("sk-secret"));
            assert!(!format!("{:?}", draft.fields).contains("secret-key"));
        }
        assert!(!format!("{:?}", KeySource::File { key: "sk-secret".to_owned() }).contains("secret"));
    }

    fn saved() -> Profile {
        serde_json::from_value(json!({
            "provider": "openai", "model": "gpt-4", "baseUrl": "https://models.example/v1", "apiKeyEnv": "A_KEY",
            "temperature": 0.5, "headers": { "x-team": "secret" }, "maxTokens": 100,
        }))
        .unwrap()
    }

    #[test]
    fn what_a_form_leaves_out_stays_and_null_removes_it() {
        let url = saved().base_url;
        for form in [json!({ "provider": "openai" }), json!({ "provider": "openai", "baseUrl": url })] {
            let same = made(form, Some(&saved()));
            assert_eq!((&same.candidate.profile, same.fields.others), (&saved(), OtherFields::Keep));
        }
        let form = json!({ "provider": "openai", "model": "gpt-5", "maxTokens": null, "key": null });
        let cleared = made(form, Some(&saved()));
        let Profile { model, max_tokens, api_key_env, temperature, .. } = cleared.candidate.profile;
        assert_eq!(
            (model.as_deref(), max_tokens, api_key_env, temperature),
            (Some("gpt-5"), None, None, Some(0.5))
        );
        for field in ["maxTokens", "apiKeyEnv", "apiKeyCommand"] {
            assert!(cleared.fields.named.contains(&(field.to_owned(), Value::Null)), "{field}");
        }
    }

    #[test]
    fn nothing_of_a_profile_is_sent_to_another_endpoint() {
        for form in [
            json!({ "provider": "openrouter", "model": "m" }),
            json!({ "provider": "openai", "model": "m", "baseUrl": "https://other.example/v1" }),
            json!({ "provider": "openai", "model": "m", "baseUrl": null }),
        ] {
            let other = made(form.clone(), Some(&saved()));
            let alone = made(form, None);
            assert_eq!(other.candidate.profile, alone.candidate.profile);
            assert_eq!((other.fields.others, other.fields.named), (OtherFields::Drop, alone.fields.named));
        }
    }

    #[test]
    fn a_window_of_the_catalogue_is_not_copied() {
        let form = |window: u64| json!({ "provider": "anthropic", "model": "claude-sonnet-4-5", "contextWindow": window });
        let same = made(form(200_000), None);
        assert_eq!((same.candidate.profile.context_window, set(&same).get("contextWindow")), (None, None));
        assert_eq!(set(&made(form(1_000_000), None))["contextWindow"], 1_000_000);
    }

    #[test]
    fn what_can_not_be_is_named() {
        let refused = |value: Value| Draft::new(&draft(value), None).err().unwrap().to_string();
        let pasted = json!({ "from": "environment", "variable": "sk-0123456789" });
        let told = refused(json!({ "provider": "openai", "key": pasted }));
        assert!(told.contains("not the key") && !told.contains("0123"), "{told}");
        assert!(refused(json!({ "provider": "opnai" })).starts_with("provider must be one of `anthropic`, "));
        let price = json!({ "input": -1.0, "output": 1.0, "cacheRead": 0.0, "cacheWrite": 0.0 });
        assert!(
            refused(json!({ "provider": "openai", "pricePerMillion": price }))
                .starts_with("pricePerMillion.input")
        );
    }
}
