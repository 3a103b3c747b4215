//! A form's profile, as settings.

use roo_formats::config::Profile;
use roo_model::providers::KeyStore;
use roo_protocol::profile::{KeySource, ProfileDraft};
use serde_json::{Map, Value, json};

use super::{Candidate, KeyPlace, WriteError, keyring, store_key};

/// The longest name of a profile, in characters.
const NAME: usize = 64;
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
    #[error("a profile's name is one line of at most {NAME} characters")]
    Name,
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
pub(crate) struct Draft {
    pub(crate) candidate: Candidate,
    place: KeyPlace,
    /// The fields of the profile that are set, or removed where they are `null`.
    pub(crate) fields: Vec<(String, Value)>,
}

impl Draft {
    /// What a form makes of a profile, or of none.
    pub(crate) fn new(draft: &ProfileDraft, before: Option<&Profile>) -> Result<Self, DraftError> {
        let before = before.filter(|before| before.provider.as_str() == draft.provider);
        let given = serde_json::to_value(draft).unwrap_or_default();
        let mut fields = vec![("provider".to_owned(), given["provider"].clone())];
        for field in FIELDS {
            match &given[field] {
                Value::Null if before.is_some() => {}
                value => fields.push((field.to_owned(), without_zeros(field, value))),
            }
        }
        let mut place = KeyPlace::File;
        let (variable, command, key) = match &draft.key {
            None if before.is_some() => (None, None, None),
            None => (Some(Value::Null), Some(Value::Null), None),
            Some(KeySource::Environment { variable }) => {
                if !is_variable(variable) {
                    // It may be the key itself.
                    let shown: String = variable.chars().take(4).collect();
                    return Err(DraftError::Variable(format!("{shown}…")));
                }
                (Some(variable.as_str().into()), Some(Value::Null), None)
            }
            Some(KeySource::Command { command }) => {
                if command.first().is_none_or(|program| program.trim().is_empty()) {
                    return Err(DraftError::Command);
                }
                (Some(Value::Null), Some(json!(command)), None)
            }
            Some(KeySource::Keyring { key }) => {
                place = KeyPlace::Keyring;
                (Some(Value::Null), None, Some(key.trim().to_owned()))
            }
            Some(KeySource::File { key }) => {
                (Some(Value::Null), Some(Value::Null), Some(key.trim().to_owned()))
            }
        };
        fields.extend(variable.map(|variable| ("apiKeyEnv".to_owned(), variable)));
        fields.extend(command.map(|command| ("apiKeyCommand".to_owned(), command)));
        let mut profile = read(&fields, before)?;
        if place == KeyPlace::Keyring {
            let command = keyring::lookup(&profile);
            fields.push(("apiKeyCommand".to_owned(), json!(command)));
            profile.api_key_command = Some(command);
        }
        Ok(Self { candidate: Candidate::new(profile, key), place, fields })
    }

    /// Stores the key, if the form has one.
    pub(crate) async fn store_key(&self, store: &KeyStore) -> Result<(), WriteError> {
        store_key(&self.candidate, self.place, store).await
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

/// Checks the name of a profile.
pub(crate) fn check_name(name: &str) -> Result<(), DraftError> {
    let is_usable = !name.trim().is_empty()
        && name.trim() == name
        && name.chars().count() <= NAME
        && !name.chars().any(char::is_control);
    if is_usable { Ok(()) } else { Err(DraftError::Name) }
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
    serde_path_to_error::deserialize(Value::Object(all)).map_err(|error| {
        let field = error.path().to_string();
        DraftError::Field(match field.as_str() {
            "." => error.inner().to_string(),
            field => format!("{field}: {}", error.inner()),
        })
    })
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
        draft.fields.iter().filter(|(_, value)| !value.is_null()).cloned().collect::<Map<_, _>>().into()
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

    #[test]
    fn what_a_form_leaves_out_stays_unless_the_provider_is_another_one() {
        let before: Profile = serde_json::from_value(json!({
            "provider": "openai", "model": "gpt-4", "baseUrl": "https://models.example/v1", "apiKeyEnv": "A_KEY",
            "temperature": 0.5,
        }))
        .unwrap();
        let same = made(json!({ "provider": "openai", "model": "gpt-5" }), Some(&before));
        assert_eq!(same.candidate.profile.base_url, before.base_url);
        assert_eq!(same.candidate.profile.api_key_env, before.api_key_env);
        assert_eq!(same.fields.len(), 2);
        let other = made(json!({ "provider": "ollama", "model": "qwen3" }), Some(&before));
        assert_eq!((&other.candidate.profile.base_url, &other.candidate.profile.api_key_env), (&None, &None));
        assert!(other.fields.contains(&("baseUrl".to_owned(), Value::Null)));
    }

    #[test]
    fn what_can_not_be_is_named() {
        let refused = |value: Value| Draft::new(&draft(value), None).err().unwrap().to_string();
        let pasted = json!({ "from": "environment", "variable": "sk-0123456789" });
        let told = refused(json!({ "provider": "openai", "key": pasted }));
        assert!(told.contains("not the key") && !told.contains("0123"), "{told}");
        assert!(refused(json!({ "provider": "opnai" })).starts_with("provider: unknown variant `opnai`"));
        let price = json!({ "input": -1.0, "output": 1.0, "cacheRead": 0.0, "cacheWrite": 0.0 });
        assert!(
            refused(json!({ "provider": "openai", "pricePerMillion": price }))
                .starts_with("pricePerMillion.input")
        );
        for name in ["", " a", "a\nb", &"x".repeat(65)] {
            assert_eq!(check_name(name), Err(DraftError::Name), "{name:?}");
        }
        assert_eq!(check_name("my profile"), Ok(()));
    }
}
