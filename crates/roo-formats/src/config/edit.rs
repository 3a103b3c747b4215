//! Writes profiles into the text of a settings file and takes them out, with all that the user wrote beside them.

use serde_json::{Map, Value};

use super::Settings;
use super::yaml::Step;
use crate::yaml_edit::{UnusualLayout, YamlEdit};

/// The text can't be edited so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It is no settings file.
    #[error("the file is not a YAML mapping; fix it first")]
    Unreadable,
    /// There is a profile of that name.
    #[error("there is already a profile of that name")]
    Exists,
    /// There is no profile of that name.
    #[error("the file has no profile of that name")]
    Missing,
    /// The profile is not the one that was edited.
    #[error("the profile has changed in the file meanwhile, so it was left as it is; save it again")]
    Changed,
    /// The value is written in a form that can't be edited line by line, such as `profiles: { … }`.
    #[error("the layout of the file is too unusual to be edited automatically; change the profile by hand")]
    Unusual,
}

impl From<UnusualLayout> for EditError {
    fn from(UnusualLayout: UnusualLayout) -> Self {
        Self::Unusual
    }
}

/// What becomes of the fields of a profile that are not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherFields {
    /// They stay as they are, with their comments.
    Keep,
    /// They are removed.
    Drop,
}

/// Fields of a profile to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileFields {
    /// The fields that are set, or removed where the value is `null`.
    pub named: Vec<(String, Value)>,
    /// The fields that the profile has besides.
    pub others: OtherFields,
}

/// Returns the profile of that name as the text has it, if it has one.
///
/// # Errors
/// See [`EditError`].
pub fn profile(text: &str, name: &str) -> Result<Option<Value>, EditError> {
    Ok(settings(text)?.get(&path(name)).cloned())
}

/// The text of a settings file with these fields of a profile, which is added if there is none of that name. `is_default`
/// makes the profile the one that modes without one of their own work with.
///
/// # Errors
/// See [`EditError`]; the text is then to be left as it is.
pub fn set_profile(
    text: &str,
    name: &str,
    fields: &ProfileFields,
    is_default: bool,
) -> Result<String, EditError> {
    let mut file = settings(text)?;
    if is_default {
        set_default(&mut file, name)?;
    }
    let before = match file.get(&path(name)) {
        Some(Value::Object(before)) if !before.is_empty() => before.clone(),
        Some(Value::Object(_) | Value::Null) | None => Map::new(),
        Some(_) => return Err(EditError::Unreadable),
    };
    let is_set = |(_, value): &&(String, Value)| !value.is_null();
    let set: Vec<(String, Value)> = fields.named.iter().filter(is_set).cloned().collect();
    if before.is_empty() {
        file.set_mapping(&path(name), &set)?;
        return Ok(file.into_text());
    }
    let field = |key: &str| [&path(name)[..], &[key.into()]].concat();
    for (key, value) in &set {
        if before.get(key) != Some(value) {
            file.set(&field(key), value, None)?;
        }
    }
    let is_removed = |key: &&String| match fields.named.iter().find(|(name, _)| name == *key) {
        Some((_, value)) => value.is_null(),
        None => fields.others == OtherFields::Drop,
    };
    for key in before.keys().filter(is_removed) {
        file.remove(&field(key))?;
    }
    Ok(file.into_text())
}

/// The text of a settings file without a profile. `next` is the profile that takes its place where it is the default one;
/// none where it is the last.
///
/// # Errors
/// See [`EditError`]; the text is then to be left as it is.
pub fn without_profile(text: &str, name: &str, next: Option<&str>) -> Result<String, EditError> {
    let mut file = settings(text)?;
    if file.get(&path(name)).is_none() {
        return Err(EditError::Missing);
    }
    file.remove(&path(name))?;
    // A file that names no default one means the profile of this name.
    let usual = Settings::default().profile;
    let named = file.get(&["profile".into()]).filter(|named| !named.is_null());
    if named.map_or(name == usual, |named| named == name) {
        match next {
            Some(next) => set_default(&mut file, next)?,
            None if named.is_some() => file.remove(&["profile".into()])?,
            None => {}
        }
    }
    Ok(file.into_text())
}

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueOutcome {
    /// It is written.
    Set,
    /// It was there already.
    Same,
    /// Another one is there, and stays.
    Kept,
}

/// The text of a settings file with values at their paths, and what became of each. Other values stay unless `replace` says
/// otherwise.
///
/// # Errors
/// See [`EditError`]; the text is then to be left as it is.
pub fn set_values(
    text: &str,
    values: &[(&[String], &Value)],
    replace: bool,
) -> Result<(String, Vec<ValueOutcome>), EditError> {
    let mut file = settings(text)?;
    let mut outcomes = Vec::new();
    for (keys, value) in values {
        let path: Vec<Step> = keys.iter().map(|key| Step::Key(key.clone())).collect();
        outcomes.push(match file.get(&path) {
            Some(before) if before == *value => ValueOutcome::Same,
            Some(before) if !before.is_null() && !replace => ValueOutcome::Kept,
            _ => {
                file.set(&path, value, None)?;
                ValueOutcome::Set
            }
        });
    }
    Ok((file.into_text(), outcomes))
}

fn path(profile: &str) -> [Step; 2] {
    ["profiles".into(), profile.into()]
}

/// The settings of a text, which stand at its margin.
fn settings(text: &str) -> Result<YamlEdit, EditError> {
    let file = YamlEdit::new(text).map_err(|_| EditError::Unreadable)?;
    match file.get(&[]) {
        // Those below `roo` would count, and those at the margin would not.
        Some(Value::Object(keys)) if keys.contains_key("roo") => Err(EditError::Unusual),
        Some(Value::Object(_) | Value::Null) => Ok(file),
        _ => Err(EditError::Unreadable),
    }
}

fn set_default(file: &mut YamlEdit, name: &str) -> Result<(), EditError> {
    let key = ["profile".into()];
    if file.get(&key).is_none_or(|before| before != name) {
        file.set(&key, &name.into(), Some("profiles"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::config::yaml;

    fn ollama() -> [(&'static str, Value); 2] {
        [("provider", "ollama".into()), ("model", "qwen3:8b".into())]
    }

    /// The text with these fields of a profile, which becomes the default one.
    fn with_profile(text: &str, name: &str, fields: &[(&str, Value)]) -> Result<String, EditError> {
        let named = fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        set_profile(text, name, &ProfileFields { named, others: OtherFields::Keep }, true)
    }

    #[test]
    fn a_new_file_is_the_profile_alone() {
        let text = "profile: default\nprofiles:\n  default:\n    provider: ollama\n    model: \"qwen3:8b\"\n";
        assert_eq!(with_profile("", "default", &ollama()).unwrap(), text);
    }

    #[test]
    fn comments_order_and_indentation_stay() {
        let before = "# mine\nmode: code   # the usual\nprofile: main # best\n\nprofiles:\n    # by day\n    main:\n        \
                      provider: anthropic # paid\n        model: claude-sonnet-4-5\n\n# the end\nlimits: { costUsd: 2 }\n";
        let after = with_profile(before, "local", &ollama()).unwrap();
        let expected = before.replace("profile: main # best", "profile: local # best").replace(
            "    model: claude-sonnet-4-5\n",
            "    model: claude-sonnet-4-5\n    local:\n      provider: ollama\n      model: \"qwen3:8b\"\n",
        );
        assert_eq!(after, expected);
    }

    #[test]
    fn line_endings_stay() {
        let after = with_profile("mode: code\r\n", "local", &ollama()[..1]).unwrap();
        assert_eq!(
            after,
            "mode: code\r\nprofile: local\r\nprofiles:\r\n  local:\r\n    provider: ollama\r\n"
        );
    }

    #[test]
    fn values_are_set_where_there_is_none_yet() {
        let path = |keys: &str| keys.split('.').map(str::to_owned).collect::<Vec<String>>();
        let (requests, deny) = (path("limits.requests"), path("autoApprove.execute.deny"));
        let (count, commands) = (json!(500), json!([["git", "push"]]));
        let values = [(&*requests, &count), (&*deny, &commands)];
        let text = "limits:\n  requests: 100 # enough\n";
        let execute = "autoApprove:\n  execute:\n    deny: [[git, push]]\n";
        let (kept, set) = (ValueOutcome::Kept, ValueOutcome::Set);
        assert_eq!(set_values(text, &values, false).unwrap(), (format!("{text}{execute}"), vec![kept, set]));
        let replaced = format!("{}{execute}", text.replace("100", "500"));
        assert_eq!(set_values(text, &values, true).unwrap(), (replaced.clone(), vec![set, set]));
        assert_eq!(set_values(&replaced, &values, false).unwrap(), (replaced, vec![ValueOutcome::Same; 2]));
    }

    #[test]
    fn what_can_not_be_changed_by_lines_is_left() {
        for (text, error) in [
            ("profiles: { main: { provider: openai } }\n", EditError::Unusual),
            ("roo: { mode: code }\n", EditError::Unusual),
            ("profiles: [\n", EditError::Unreadable),
            ("- a\n", EditError::Unreadable),
        ] {
            assert_eq!(with_profile(text, "default", &ollama()), Err(error), "{text}");
        }
    }

    fn fields(fields: Value) -> ProfileFields {
        let named = fields.as_object().unwrap().clone().into_iter().collect();
        ProfileFields { named, others: OtherFields::Keep }
    }

    #[test]
    fn a_profile_is_changed_where_it_stands() {
        let before = "profiles:\n  main: # by day\n    # the good one\n    provider: anthropic   # paid\n    \
                      model: old\n    timeouts:\n      idleSec: 9\n    apiKeyCommand:\n    - pass\n    - key\n\n  \
                      # by night\n  local:\n    provider: ollama\n";
        let changed = json!({
            "model": "claude-sonnet-4-5", "apiKeyCommand": null, "apiKeyEnv": "MY_KEY",
            "pricePerMillion": { "input": 3, "output": 15.5 },
        });
        let after = set_profile(before, "main", &fields(changed), false).unwrap();
        let expected = "profiles:\n  main: # by day\n    # the good one\n    provider: anthropic   # paid\n    \
                        model: claude-sonnet-4-5\n    timeouts:\n      idleSec: 9\n    apiKeyEnv: MY_KEY\n    \
                        pricePerMillion: { input: 3, output: 15.5 }\n\n  # by night\n  local:\n    \
                        provider: ollama\n";
        assert_eq!(after, expected);
    }

    #[test]
    fn a_profile_is_taken_out_and_another_one_takes_its_place() {
        let before = "profile: main # best\nprofiles:\n  main:\n    provider: anthropic\n\n  # by night\n  local:\n    \
                      provider: ollama\nmode: code\n";
        let after = without_profile(before, "main", Some("local")).unwrap();
        let expected =
            "profile: local # best\nprofiles:\n\n  # by night\n  local:\n    provider: ollama\nmode: code\n";
        assert_eq!(after, expected);
        assert_eq!(without_profile(&after, "local", None).unwrap(), "\n  # by night\nmode: code\n");
        assert_eq!(without_profile(before, "other", None), Err(EditError::Missing));
        assert_eq!(without_profile("", "other", None), Err(EditError::Missing));
        let flow = "profiles: { main: { provider: openai } }\n";
        assert_eq!(without_profile(flow, "main", None), Err(EditError::Unusual));
        let one_line = "profiles:\n  main: { provider: openai }\n  b: { provider: ollama }\n";
        assert_eq!(
            without_profile(one_line, "main", None).unwrap(),
            "profiles:\n  b: { provider: ollama }\n"
        );
    }

    #[test]
    fn a_profile_of_another_endpoint_keeps_no_field() {
        let before = "profiles:\n  main: # by day\n    provider: anthropic # paid\n    headers:\n      x-key: secret\n    \
                      heders: { x-key: secret }\n    temperature: 0.5\n  local:\n    provider: ollama\n";
        let mut other = fields(json!({ "provider": "openai", "model": "gpt-5", "baseUrl": null }));
        other.others = OtherFields::Drop;
        let after = set_profile(before, "main", &other, false).unwrap();
        let expected = "profiles:\n  main: # by day\n    provider: openai # paid\n    model: gpt-5\n  local:\n    \
                        provider: ollama\n";
        assert_eq!(after, expected);
    }

    #[test]
    fn a_number_sign_in_a_value_is_no_comment() {
        let before = "profiles:\n  main:\n    provider: ollama\n    model: \"a # b\" # mine\n";
        let after = set_profile(before, "main", &fields(json!({ "model": "c" })), false).unwrap();
        assert_eq!(after, before.replace("a # b", "c"));
    }

    #[test]
    fn another_profile_is_the_default_one_where_that_was_so_only_by_its_name() {
        let before = "mode: code\n# models\nprofiles:\n  default:\n    provider: openai\n  local:\n    provider: ollama\n";
        let after = without_profile(before, "default", Some("local")).unwrap();
        let expected = "mode: code\n# models\nprofile: local\nprofiles:\n  local:\n    provider: ollama\n";
        assert_eq!(after, expected);
        // The one that is taken out was not the default one.
        let left = without_profile(before, "local", Some("default")).unwrap();
        assert!(!left.contains("profile: "), "{left}");
    }

    #[test]
    fn a_profile_on_one_line_is_not_changed_by_lines() {
        let text = "profiles:\n  main: { provider: openai }\n";
        assert_eq!(
            set_profile(text, "main", &fields(json!({ "model": "gpt-5" })), false),
            Err(EditError::Unusual)
        );
    }

    proptest! {
        #[test]
        fn what_is_set_and_taken_out_again_leaves_the_rest(
            name in "[a-z]{1,6}", model in "\\PC{0,12}", before in "(# [a-z]{0,5}\n){0,2}(mode: [a-z]{1,4} # x\n)?"
        ) {
            let set = set_profile(&before, &name, &fields(json!({ "provider": "ollama", "model": model })), true);
            if let Ok(set) = set {
                prop_assert_eq!(without_profile(&set, &name, None).unwrap(), before);
            }
        }

        #[test]
        fn any_name_and_value_is_read_as_it_was_written(name in "\\PC{1,12}", model in "\\PC{0,20}") {
            if let Ok(text) = with_profile("mode: code\n", &name, &[("model", model.as_str().into())]) {
                let read = yaml::parse(&text).unwrap();
                prop_assert_eq!(&read["profiles"][&name]["model"], &Value::from(model));
                prop_assert_eq!(&read["profile"], &Value::from(name));
            }
        }
    }
}
