//! Declaration of a mode file: its keys, their values and their descriptions.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::declaration::{Declaration, published};
use crate::placed::Placed;
use roo_catalog::Group;

/// The format of `.roomodes` and `custom-modes.yaml`.
pub static DECLARATION: LazyLock<Declaration> = LazyLock::new(Declaration::of::<ModeFile>);

/// The JSON Schema of mode files, for editors.
pub fn schema() -> Value {
    published::<ModeFile>()
}

/// Modes of a workspace or of a user.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, title = "Modes")]
#[schemars(extend("type" = ["object", "null"], "required" = ["customModes"]))]
pub struct ModeFile {
    /// The modes of this file, at most 200. A file may have 1 MiB.
    #[schemars(with = "Option<Vec<ModeEntry>>", length(max = MODES_LIMIT))]
    pub custom_modes: Option<Placed<Vec<Value>>>,
}

/// A mode as it is written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ModeEntry {
    /// Names the mode everywhere: ASCII letters, digits and `-`. With the slug of another mode it replaces that mode.
    /// Required.
    #[schemars(with = "NewModeSlug")]
    pub slug: Option<Placed<String>>,
    /// The mode's name for people. An emoji at its start marks the mode in trees. Required.
    #[schemars(required, regex(pattern = r"\S"))]
    pub name: Option<Placed<String>>,
    /// Role of the model in this mode, in the second person. Required.
    #[schemars(required, regex(pattern = r"\S"))]
    pub role_definition: Option<Placed<String>>,
    /// Groups of tools that the mode has besides those that every mode has: read, edit, command, browser, mcp, modes.
    /// `[edit, { fileRegex: … }]` limits which files it changes, `[mcp, { servers: … }]` which servers it uses. Required;
    /// may be empty.
    #[schemars(with = "Vec<GroupEntry>")]
    pub groups: Option<Placed<Vec<Value>>>,
    /// Description of the mode for people, in one line.
    pub description: Option<Placed<String>>,
    /// Tells other modes when to delegate to it.
    pub when_to_use: Option<Placed<String>>,
    /// Instructions for the mode besides its role.
    pub custom_instructions: Option<Placed<String>>,
    /// The slugs of the modes to which it may delegate. Default: none, or those of the built-in mode with this slug.
    #[serde(default)]
    #[schemars(with = "Option<Vec<ModeSlug>>", length(max = MODES_LIMIT))]
    pub can_delegate_to: Placed<Option<Vec<Placed<String>>>>,
    /// `project` or `global`, as Roo Code writes it. It has no effect: the location of the file decides.
    #[serde(default)]
    #[schemars(extend("examples" = ["project", "global"]))]
    pub source: Value,
    /// Roo Code's own. It has no effect: rules are found by their location.
    #[serde(default)]
    #[schemars(extend("doNotSuggest" = true))]
    pub rules_files: Value,
    /// Roo Code's own. It has no effect: a mode is marked by the emoji of its name.
    #[serde(default)]
    #[schemars(extend("doNotSuggest" = true))]
    pub icon_name: Value,
}

/// The slug of the mode that is defined. Space around it doesn't count.
#[derive(JsonSchema)]
pub struct NewModeSlug(#[schemars(regex(pattern = r"^\s*[A-Za-z0-9-]+\s*$"))] pub String);

/// The slug of a mode.
#[derive(JsonSchema)]
pub struct ModeSlug(#[schemars(regex(pattern = "^[A-Za-z0-9-]+$"))] pub String);

/// A group of tools.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum GroupEntry {
    /// All of it.
    Name(GroupName),
    /// With options.
    Limited(LimitedGroup),
}

/// A group of tools and its options.
#[derive(JsonSchema)]
#[schemars(extend("minItems" = 1))]
pub struct LimitedGroup(pub GroupName, pub GroupOptions);

/// Options of a group.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct GroupOptions {
    /// A regular expression for the paths that the mode may change, relative to the workspace. It may match anywhere in
    /// the path; anchor it with `^` and `$`.
    pub file_regex: Option<Placed<FilePattern>>,
    /// Description of these files, for people and for the model.
    pub description: Option<Placed<String>>,
    /// The names of the MCP servers whose tools and resources the mode has, for the group mcp. Default: all servers.
    #[serde(default)]
    #[schemars(with = "Option<Vec<McpServerName>>", length(min = 1, max = SERVERS_LIMIT))]
    pub servers: Placed<Option<Vec<Placed<String>>>>,
}

/// Name of an MCP server.
#[derive(JsonSchema)]
pub struct McpServerName(pub String);

/// A regular expression for paths of files.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FilePattern(pub String);

/// Name of a group of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GroupName {
    /// Reads files, searches them and lists directories.
    Read,
    /// Changes files: all, or those that match `fileRegex`.
    Edit,
    /// Runs shell commands.
    Command,
    /// Steers a browser.
    Browser,
    /// Calls the tools of MCP servers: of all, or of those that `servers` names.
    Mcp,
    /// Nothing beyond what every mode has; `canDelegateTo` lists the modes to which it may delegate.
    Modes,
}

impl GroupName {
    /// The group of this name.
    pub fn parse(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }

    /// The tools that it brings; none for [`GroupName::Modes`], as every mode has what Roo's group brings.
    pub fn tools(self) -> Option<Group> {
        Some(match self {
            Self::Read => Group::Read,
            Self::Edit => Group::Edit,
            Self::Command => Group::Command,
            Self::Browser => Group::Browser,
            Self::Mcp => Group::Mcp,
            Self::Modes => return None,
        })
    }
}

/// The most modes of a file.
pub(super) const MODES_LIMIT: usize = 200;
/// The most servers of a mode.
pub(super) const SERVERS_LIMIT: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::yaml::Step;
    use crate::declaration::disagreements;

    #[test]
    fn what_is_declared_is_what_is_read() {
        let mode = [Step::from("customModes"), Step::Index(0)];
        let options = [&mode[..], &[Step::from("groups"), Step::Index(0), Step::Index(1)]].concat();
        assert_eq!(disagreements::<ModeFile>(DECLARATION.at(&[])), [""; 0]);
        assert_eq!(disagreements::<ModeEntry>(DECLARATION.at(&mode)), [""; 0]);
        assert_eq!(disagreements::<GroupOptions>(DECLARATION.at(&options)), [""; 0]);
    }

    /// Completion and hover go by these types.
    #[test]
    fn slugs_and_patterns_are_known_by_their_types() {
        let at = |path: &[Step]| {
            DECLARATION.at(&[&[Step::from("customModes"), Step::Index(0)], path].concat()).unwrap()
        };
        assert!(at(&["slug".into()]).is::<NewModeSlug>());
        assert!(at(&["canDelegateTo".into(), Step::Index(0)]).is::<ModeSlug>());
        let options = ["groups".into(), Step::Index(0), Step::Index(1), "fileRegex".into()];
        assert!(at(&options).is::<FilePattern>());
    }
}
