//! The configuration that a client sends with a new task, Roo Code's `RooCodeSettings`. It chooses a mode and a model profile by
//! their names. What agents may do is the user's to say: nothing that a client sends allows more than their settings.

use serde_json::{Map, Value};

/// The most keys that are named in a notice.
const NAMED: usize = 12;
/// Keys that allow what would be asked about, besides those that begin with `alwaysAllow`.
const ALLOWING: &[&str] = &["alwaysApproveResubmit", "autoApprovalEnabled"];
/// Lists and limits that allow more the longer or higher they are.
const WIDENING: &[&str] = &["allowedCommands", "allowedMaxRequests", "allowedMaxCost"];

/// What a client's configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientConfiguration {
    /// The slug of a mode.
    pub(super) mode: Option<String>,
    /// The name of a model profile.
    pub(super) profile: Option<String>,
    /// Keys that would allow something.
    refused: Vec<String>,
}

impl ClientConfiguration {
    pub(super) fn new(configuration: &Map<String, Value>) -> Self {
        let name = |key: &str| {
            let name = configuration.get(key).and_then(Value::as_str);
            name.filter(|name| !name.is_empty()).map(str::to_owned)
        };
        let mut refused: Vec<String> = configuration
            .iter()
            .filter(|(key, value)| allows(key, value))
            .map(|(key, _)| key.clone())
            .collect();
        refused.sort();
        Self { mode: name("mode"), profile: name("currentApiConfigName"), refused }
    }

    /// Tells what has no effect, if anything would have allowed more than the user does.
    pub(super) fn notice(&self) -> Option<String> {
        let named: Vec<&str> = self.refused.iter().take(NAMED).map(String::as_str).collect();
        if named.is_empty() {
            return None;
        }
        let more = match self.refused.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "These settings of the IPC client have no effect: {}{more}. What agents may do without asking is set in \
             config.yaml, or by the options of roo-lsp ipc.",
            named.join(", ")
        ))
    }
}

fn allows(key: &str, value: &Value) -> bool {
    let is_on = match value {
        Value::Bool(on) => *on,
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Number(_) | Value::String(_) | Value::Object(_) => true,
    };
    let is_permission = key.starts_with("alwaysAllow") || ALLOWING.contains(&key) || WIDENING.contains(&key);
    is_permission && is_on
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configuration(value: Value) -> ClientConfiguration {
        let Value::Object(map) = value else { panic!("a configuration is an object") };
        ClientConfiguration::new(&map)
    }

    #[test]
    fn mode_and_profile_are_chosen_by_name() {
        let chosen = configuration(
            json!({ "mode": "architect", "currentApiConfigName": "local", "apiProvider": "x" }),
        );
        assert_eq!((chosen.mode.as_deref(), chosen.profile.as_deref()), (Some("architect"), Some("local")));
        assert_eq!(chosen.notice(), None);
        assert_eq!(configuration(json!({ "mode": "" })), ClientConfiguration::default());
    }

    #[test]
    fn permissions_are_refused_by_their_names() {
        let chosen = configuration(json!({
            "alwaysAllowWrite": true, "alwaysAllowExecute": false, "allowedCommands": ["*"], "autoApprovalEnabled": true,
            "alwaysAllowMcp": null, "allowedMaxRequests": 100,
        }));
        assert_eq!(
            chosen.notice().unwrap(),
            "These settings of the IPC client have no effect: allowedCommands, allowedMaxRequests, alwaysAllowWrite, \
             autoApprovalEnabled. What agents may do without asking is set in config.yaml, or by the options of roo-lsp ipc."
        );
    }

    #[test]
    fn a_notice_names_so_many_keys_and_counts_the_rest() {
        let keys = (0..20).map(|number| (format!("alwaysAllow{number:02}"), Value::Bool(true)));
        let notice = ClientConfiguration::new(&keys.collect()).notice().unwrap();
        assert!(notice.contains("alwaysAllow11 and 8 more."), "{notice}");
    }
}
