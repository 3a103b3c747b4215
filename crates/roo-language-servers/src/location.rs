//! Lines that a server names.

use std::path::PathBuf;

use roo_workspace::path_of;
use serde_json::Value;

/// The most locations that are kept of an answer.
const LOCATIONS: usize = 5000;

/// A line that a server names. Whether there is such a line is not checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Absolute path.
    pub path: PathBuf,
    /// Line, from 0.
    pub line: u32,
}

/// Reads one location or link.
pub(crate) fn location(value: &Value) -> Option<Location> {
    let (uri, range) = match value.get("targetUri") {
        Some(uri) => (uri, value.get("targetSelectionRange")?),
        None => (value.get("uri")?, value.get("range")?),
    };
    let line = u32::try_from(range["start"]["line"].as_u64()?).ok()?;
    Some(Location { path: path_of(uri.as_str()?)?, line })
}

/// The locations of an answer: one, several, or links. What is none of them is left out.
pub(crate) fn locations(answer: &Value) -> Vec<Location> {
    let all = match answer {
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut found: Vec<Location> = all.iter().filter_map(location).take(LOCATIONS).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn locations_come_in_three_forms_and_what_is_none_is_left_out() {
        let at = |path: &str, line| Location { path: path.into(), line };
        let range = |line: u64| json!({ "start": { "line": line, "character": 0 }, "end": {} });
        let one = json!({ "uri": "file:///w/a.rs", "range": range(3) });
        assert_eq!(locations(&one), [at("/w/a.rs", 3)]);
        let link = json!({ "targetUri": "file:///w/b%20c.rs", "targetSelectionRange": range(1) });
        let bad = [
            json!(null),
            json!({ "uri": "untitled:x", "range": range(0) }),
            json!({ "uri": "file:///w/a.rs", "range": {} }),
            json!({ "uri": "file:///w/a.rs", "range": range(u64::MAX) }),
            json!({ "uri": "file:///w/a.rs", "range": { "start": { "line": -1 } } }),
        ];
        let mut several = vec![link, one.clone(), one];
        several.extend(bad);
        assert_eq!(locations(&several.into()), [at("/w/a.rs", 3), at("/w/b c.rs", 1)]);
        assert!(locations(&Value::Null).is_empty());
    }
}
