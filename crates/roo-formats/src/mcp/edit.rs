//! Changes to the text of `mcp.json`: a server is added, replaced or removed, and everything else stays as it is, with
//! comments, order and indentation.

use serde::{Deserialize as _, Serialize as _};
use serde_json::{Map, Value};

use super::file::{LIST, ServerEntry, server_objects};
use super::jsonc::{self, Member, Object};
use crate::config::yaml::Step;
use crate::problem::Problem;

/// Indentation of a text that has none.
const INDENT: &str = "  ";
/// The key of an entry that switches its server off.
const DISABLED: &str = "disabled";

/// What happens to a server of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameName {
    /// It stays, and nothing is changed.
    Keep,
    /// The new entry takes its place.
    Replace,
}

/// Reasons why a text can't be edited; it is then to be left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It is not a file of servers.
    #[error(transparent)]
    Unreadable(#[from] Problem),
    /// It has a server of this name with another entry.
    #[error("there is already a server `{0}` with another entry")]
    Exists(String),
    /// It has no server of this name.
    #[error("there is no server `{name}`{}", known(.servers))]
    Missing {
        /// The name.
        name: String,
        /// The servers that it has.
        servers: Vec<String>,
    },
    /// The change can't be made safely by span.
    #[error("the layout of the file is too unusual to be edited automatically; change it by hand")]
    Unusual,
}

fn known(servers: &[String]) -> String {
    match servers {
        [] => "; the file has none".to_owned(),
        servers => format!("; the file has {}", servers.join(", ")),
    }
}

/// Returns the entry of a server; none where the text has none that can be read.
pub fn server(text: &str, name: &str) -> Option<ServerEntry> {
    let (_, servers) = servers_of(text).ok()?;
    ServerEntry::deserialize(servers.get(name)?).ok()
}

/// Returns the text with this server, or none if it has the very same entry already.
///
/// # Errors
/// See [`EditError`].
pub fn with_server(
    text: &str,
    name: &str,
    entry: &ServerEntry,
    same_name: SameName,
) -> Result<Option<String>, EditError> {
    let (_, mut servers) = servers_of(text)?;
    let value = serde_json::to_value(entry).map_err(|_| EditError::Unusual)?;
    match servers.get(name) {
        Some(current) if *current == value => return Ok(None),
        Some(_) if same_name == SameName::Keep => return Err(EditError::Exists(name.to_owned())),
        _ => {}
    }
    let document = Document::new(text);
    let edited = match document.object(&[LIST]) {
        Some(list) => match list.member(name) {
            Some(member) => document.with_value(member, &value),
            None => document.with_member(&list, name, &value),
        },
        None => {
            let list = Value::Object(Map::from_iter([(name.to_owned(), value.clone())]));
            match document.object(&[]) {
                Some(root) => document.with_member(&root, LIST, &list),
                None => document.with_root(&Value::Object(Map::from_iter([(LIST.to_owned(), list)]))),
            }
        }
    };
    servers.insert(name.to_owned(), value);
    verified(edited, &servers).map(Some)
}

/// Returns the text without this server.
///
/// # Errors
/// See [`EditError`].
pub fn without_server(text: &str, name: &str) -> Result<String, EditError> {
    let (_, mut servers) = servers_of(text)?;
    if servers.remove(name).is_none() {
        return Err(EditError::Missing { name: name.to_owned(), servers: servers.keys().cloned().collect() });
    }
    let document = Document::new(text);
    let edited = document.object(&[LIST]).and_then(|list| document.without_member(&list, name));
    verified(edited.ok_or(EditError::Unusual)?, &servers)
}

/// Returns the text with this server switched off or on, or none if it is so already.
///
/// # Errors
/// See [`EditError`].
pub fn with_disabled(text: &str, name: &str, disabled: bool) -> Result<Option<String>, EditError> {
    let (_, mut servers) = servers_of(text)?;
    let names = servers.keys().cloned().collect();
    let Some(Value::Object(entry)) = servers.get_mut(name) else {
        return Err(EditError::Missing { name: name.to_owned(), servers: names });
    };
    let value = Value::Bool(disabled);
    match entry.get(DISABLED) {
        Some(current) if *current == value => return Ok(None),
        None if !disabled => return Ok(None),
        _ => {}
    }
    entry.insert(DISABLED.to_owned(), value.clone());
    let document = Document::new(text);
    let object = document.object(&[LIST, name]).ok_or(EditError::Unusual)?;
    let edited = match object.member(DISABLED) {
        Some(member) => document.with_value(member, &value),
        None => document.with_member(&object, DISABLED, &value),
    };
    verified(edited, &servers).map(Some)
}

/// The servers of a text, by the key that they are under. A text without that key has none, unless it has another one
/// that may have been meant.
fn servers_of(text: &str) -> Result<(&'static str, Map<String, Value>), EditError> {
    if let Ok(Value::Object(root)) = jsonc::parse(text)
        && root.is_empty()
    {
        return Ok((LIST, Map::new()));
    }
    Ok(server_objects(text, &[LIST])?)
}

/// Checks that an edited text says what it is meant to.
fn verified(text: String, servers: &Map<String, Value>) -> Result<String, EditError> {
    match server_objects(&text, &[LIST]) {
        Ok((_, found)) if found == *servers => Ok(text),
        _ => Err(EditError::Unusual),
    }
}

/// A text that is edited by spans.
struct Document<'a> {
    text: &'a str,
    /// The text with spaces in place of comments.
    plain: std::borrow::Cow<'a, str>,
    line_end: &'static str,
    indent: &'a str,
}

impl<'a> Document<'a> {
    fn new(text: &'a str) -> Self {
        let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        // Space before the first indented line that is not a part of a comment.
        let plain = jsonc::without_comments(text);
        let indented = plain.lines().zip(text.lines()).find_map(|(plain, line)| {
            let width = plain.len() - plain.trim_start_matches([' ', '\t']).len();
            (width > 0 && width < plain.trim_end().len()).then(|| &line[..width])
        });
        let indent = indented.filter(|indent| indent.trim().is_empty()).unwrap_or(INDENT);
        Self { text, plain, line_end, indent }
    }

    fn object(&self, path: &[&str]) -> Option<Object> {
        let path: Vec<Step> = path.iter().map(|key| Step::Key((*key).to_owned())).collect();
        jsonc::object(self.text, &path)
    }

    /// Space at the start of the line of a position.
    fn indent_at(&self, at: usize) -> &'a str {
        let start = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = &self.text[start..at];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    /// A value over several lines, of which all but the first begin with `indent`.
    fn lines(&self, value: &Value, indent: &str) -> String {
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(self.indent.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        // Neither values nor memory have errors.
        let _ = value.serialize(&mut serializer);
        String::from_utf8_lossy(&bytes).replace('\n', &format!("{}{indent}", self.line_end))
    }

    /// A text that had nothing but space and comments.
    fn with_root(&self, value: &Value) -> String {
        let before = self.text.trim_end();
        let line_end = if before.is_empty() { "" } else { self.line_end };
        format!("{before}{line_end}{}{}", self.lines(value, ""), self.line_end)
    }

    fn with_value(&self, member: &Member, value: &Value) -> String {
        let indent = self.indent_at(member.key.start);
        let is_one_line = !self.text[member.value.clone()].contains('\n') && self.is_inline(member);
        let shown = if is_one_line { value.to_string() } else { self.lines(value, indent) };
        format!("{}{shown}{}", &self.text[..member.value.start], &self.text[member.value.end..])
    }

    /// Returns whether something is before the member on its line.
    fn is_inline(&self, member: &Member) -> bool {
        let start = self.text[..member.key.start].rfind('\n').map_or(0, |end| end + 1);
        !self.text[start..member.key.start].trim().is_empty()
    }

    fn with_member(&self, object: &Object, name: &str, value: &Value) -> String {
        let key = Value::from(name).to_string();
        let inside = &self.text[object.open + 1..object.close];
        // What is inside ends here, be it a comment.
        let end = object.open + 1 + inside.trim_end().len();
        let last = object.members.last();
        let has_comma = last.is_some_and(|last| self.plain[last.value.end..object.close].contains(','));
        // A comma belongs right after the value, before a comment on the same line.
        let (head, tail) = match last {
            Some(last) if !has_comma => {
                (format!("{},", &self.text[..last.value.end]), &self.text[last.value.end..end])
            }
            _ => (self.text[..end].to_owned(), ""),
        };
        let rest = &self.text[end..];
        if !inside.contains('\n') && last.is_some() {
            return format!("{head}{tail} {key}: {value}{}{rest}", if has_comma { "," } else { "" });
        }
        let outer = self.indent_at(object.open);
        let indent = match last {
            Some(last) if !self.is_inline(last) => self.indent_at(last.key.start).to_owned(),
            _ => format!("{outer}{}", self.indent),
        };
        let member = format!("{indent}{key}: {}", self.lines(value, &indent));
        let comma = if has_comma { "," } else { "" };
        let line_end = self.line_end;
        let before_close = if self.text[end..object.close].contains('\n') {
            String::new()
        } else {
            format!("{line_end}{outer}")
        };
        format!("{head}{tail}{line_end}{member}{comma}{before_close}{rest}")
    }

    fn without_member(&self, object: &Object, name: &str) -> Option<String> {
        let index = object.members.iter().position(|member| member.name == name)?;
        let member = &object.members[index];
        let next = object.members.get(index + 1).map_or(object.close, |next| next.key.start);
        let comma = |from: usize, to: usize| self.plain[from..to].find(',').map(|comma| from + comma);
        let is_blank = |from: usize, to: usize| self.text[from..to].trim().is_empty();
        let (mut start, mut end) = (member.key.start, member.value.end);
        let mut cuts = Vec::new();
        let before = index.checked_sub(1).map(|before| object.members[before].value.end);
        match (comma(end, next), before.and_then(|before| comma(before, start))) {
            (Some(comma), _) if is_blank(end, comma) => end = comma + 1,
            (Some(comma), _) => cuts.push(comma..comma + 1),
            // If the last one has no comma, the comma before it would separate nothing.
            (None, Some(comma)) if is_blank(comma + 1, start) => {
                return Some(format!("{}{}", &self.text[..comma], &self.text[end..]));
            }
            (None, Some(comma)) => cuts.push(comma..comma + 1),
            (None, None) => {}
        }
        // A line that would be empty goes as a whole; otherwise the space behind it goes.
        let blank = [' ', '\t'];
        let line_start = self.text[..start].trim_end_matches(blank).len();
        let starts_line = line_start == 0 || self.text[..line_start].ends_with('\n');
        let after = self.text[end..].trim_start_matches(blank);
        match after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')) {
            Some(rest) if starts_line => (start, end) = (line_start, self.text.len() - rest.len()),
            _ => end = self.text.len() - after.len(),
        }
        cuts.push(start..end);
        cuts.sort_by_key(|cut| cut.start);
        let mut edited = String::new();
        let mut at = 0;
        for cut in cuts {
            edited.push_str(self.text.get(at..cut.start)?);
            at = cut.end;
        }
        edited.push_str(&self.text[at..]);
        Some(edited)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn entry(value: Value) -> ServerEntry {
        serde_json::from_value(value).unwrap()
    }

    fn add(text: &str, name: &str) -> String {
        let edited =
            with_server(text, name, &entry(json!({ "command": "x", "args": ["y"] })), SameName::Keep);
        edited.unwrap().unwrap()
    }

    #[test]
    fn a_server_is_added_behind_the_others_and_their_comments_stay() {
        let text = "// ours\n{\n    \"mcpServers\": {\n        // mail\n        \"mail\": { \"command\": \"m\" } // slow\n    }\n}\n";
        insta::assert_snapshot!(add(text, "new"), @r#"
        // ours
        {
            "mcpServers": {
                // mail
                "mail": { "command": "m" }, // slow
                "new": {
                    "command": "x",
                    "args": [
                        "y"
                    ]
                }
            }
        }
        "#);
    }

    #[test]
    fn a_trailing_comma_tabs_and_the_line_ends_of_windows_are_kept() {
        let text = "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {\"command\": \"a\"},\r\n\t},\r\n}\r\n";
        let expected = "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {\"command\": \"a\"},\r\n\t\t\"b\": {\r\n\t\t\t\"command\": \"x\",\
                        \r\n\t\t\t\"args\": [\r\n\t\t\t\t\"y\"\r\n\t\t\t]\r\n\t\t},\r\n\t},\r\n}\r\n";
        assert_eq!(add(text, "b"), expected);
    }

    #[test]
    fn a_list_on_one_line_stays_on_one_line() {
        let one = r#"{"mcpServers": {"a": {"command": "a"}}}"#;
        let two = r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command":"x","args":["y"]}}}"#;
        assert_eq!(add(one, "b"), two);
        assert_eq!(without_server(two, "b").unwrap(), one);
        assert_eq!(without_server(two, "a").unwrap(), two.replace(r#""a": {"command": "a"}, "#, ""));
    }

    #[test]
    fn the_list_is_made_where_there_is_none() {
        let made = "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\",\n      \"args\": [\n        \"y\"\n      ]\n    }\n  }\n}";
        for (text, expected) in [
            ("", format!("{made}\n")),
            ("// mine\n", format!("// mine\n{made}\n")),
            ("{}", made.to_owned()),
            ("\u{feff}{\n}\n", format!("\u{feff}{made}\n")),
            ("{\n  \"mcpServers\": {}\n}", made.to_owned()),
        ] {
            assert_eq!(add(text, "a"), expected, "{text:?}");
        }
        insta::assert_snapshot!(add("{\n  \"mcpServers\": {\n    // none yet\n  }\n}", "a"), @r#"
        {
          "mcpServers": {
            // none yet
            "a": {
              "command": "x",
              "args": [
                "y"
              ]
            }
          }
        }
        "#);
    }

    #[test]
    fn a_server_of_the_same_name_is_replaced_only_when_asked_for() {
        let text = "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"old\" }, // one\n    \"b\": { \"command\": \"b\" }\n  }\n}\n";
        let new = entry(json!({ "command": "new" }));
        let refused = with_server(text, "a", &new, SameName::Keep).unwrap_err();
        assert_eq!(refused, EditError::Exists("a".to_owned()));
        let replaced = with_server(text, "a", &new, SameName::Replace).unwrap().unwrap();
        assert_eq!(
            replaced,
            text.replace("{ \"command\": \"old\" }", "{\n      \"command\": \"new\"\n    }")
        );
        assert_eq!(with_server(&replaced, "a", &new, SameName::Keep).unwrap(), None);
    }

    #[test]
    fn a_removed_server_takes_its_line_along_and_no_comment_of_others() {
        let text = "{\n  \"mcpServers\": {\n    // first\n    \"a\": {\n      \"command\": \"a\" // its own\n    },\n    // second\n    \"b\": { \"command\": \"b\" }\n  }\n}\n";
        insta::assert_snapshot!(without_server(text, "a").unwrap(), @r#"
        {
          "mcpServers": {
            // first
            // second
            "b": { "command": "b" }
          }
        }
        "#);
        insta::assert_snapshot!(without_server(text, "b").unwrap(), @r#"
        {
          "mcpServers": {
            // first
            "a": {
              "command": "a" // its own
            }
            // second
          }
        }
        "#);
        let missing = without_server(text, "c").unwrap_err().to_string();
        assert_eq!(missing, "there is no server `c`; the file has a, b");
    }

    #[test]
    fn a_server_is_switched_off_and_on_by_one_key() {
        let text =
            "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"a\" // its own\n    }\n  }\n}\n";
        let off = with_disabled(text, "a", true).unwrap().unwrap();
        let expected =
            text.replace("\"a\" //", "\"a\", //").replace("own\n", "own\n      \"disabled\": true\n");
        assert_eq!(off, expected);
        assert_eq!(with_disabled(&off, "a", true).unwrap(), None);
        assert_eq!(with_disabled(&off, "a", false).unwrap().unwrap(), off.replace("true", "false"));
        assert_eq!(with_disabled(text, "a", false).unwrap(), None);
        assert!(matches!(with_disabled(text, "b", true), Err(EditError::Missing { .. })));
    }

    #[test]
    fn what_is_no_file_of_servers_is_left_alone() {
        for text in ["{", "[]", "{\"mcpServer\": {}}", "{\"mcpServers\": []}", "{\"a\": 1}"] {
            let edited = with_server(text, "a", &entry(json!({ "command": "x" })), SameName::Replace);
            assert!(matches!(edited, Err(EditError::Unreadable(_))), "{text}: {edited:?}");
        }
    }

    /// Files as people write them: with comments and trailing commas in any place.
    fn file() -> impl Strategy<Value = String> {
        let gap = prop::sample::select(vec!["", " ", "\n", "\n  ", " /* , } */ ", " // \"{\n", "\r\n\t"]);
        // A comment within an entry goes with it.
        let inside = prop::sample::select(vec!["", " ", "\n"]);
        let server = (gap.clone(), inside, gap.clone());
        (prop::collection::vec(server, 0..4), gap.clone(), gap.clone(), gap, any::<bool>()).prop_map(
            |(servers, before, inner, after, trailing)| {
                let count = servers.len();
                let servers = servers.into_iter().enumerate().map(|(index, (a, b, c))| {
                    let comma = if index + 1 < count || trailing { "," } else { "" };
                    format!("{a}\"s{index}\"{b}: {{ \"command\": \"c{index}\" }}{c}{comma}")
                });
                format!(
                    "{before}{{{inner}\"mcpServers\": {{{}{after}}}{before}}}{after}",
                    servers.collect::<String>()
                )
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_added_can_be_removed_and_no_other_server_changes(text in file(), removed in 0_usize..4) {
            let before = servers_of(&text).unwrap().1;
            let with = add(&text, "new");
            let mut expected = before.clone();
            expected.insert("new".to_owned(), json!({ "command": "x", "args": ["y"] }));
            prop_assert_eq!(&servers_of(&with).unwrap().1, &expected);
            prop_assert_eq!(jsonc::comments(&with).len(), jsonc::comments(&text).len());
            let without = without_server(&with, "new").unwrap();
            prop_assert_eq!(&servers_of(&without).unwrap().1, &before);
            let name = format!("s{removed}");
            if before.contains_key(&name) {
                let left = without_server(&with, &name).unwrap();
                prop_assert_eq!(servers_of(&left).unwrap().1.len(), before.len());
                prop_assert_eq!(jsonc::comments(&left).len(), jsonc::comments(&text).len());
            }
        }
    }
}
