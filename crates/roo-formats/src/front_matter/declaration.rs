//! Declarations of front matter: the keys of slash commands and skills, their values and their descriptions.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::declaration::{Declaration, Text};
use crate::modes::ModeSlug;

/// The front matter of a slash command.
pub static COMMAND: LazyLock<Declaration> = LazyLock::new(Declaration::of::<CommandKeys>);
/// The front matter of a skill.
pub static SKILL: LazyLock<Declaration> = LazyLock::new(Declaration::of::<SkillKeys>);

/// Keys of slash commands or of skills, as their reader gets them.
pub trait Keys: for<'de> Deserialize<'de> {
    /// Keys without which the file can't be used if their value is wrong. Another key is left out then.
    const ESSENTIAL: &[&str];

    /// The format.
    fn declaration() -> &'static Declaration;
}

/// Keys of a slash command. It may have other keys besides, for other programs. Texts are trimmed and not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct CommandKeys {
    /// Description of the command for people: one line of at most 1024 characters.
    #[serde(deserialize_with = "text")]
    #[schemars(with = "Option<Text>")]
    pub description: Option<String>,
    /// Hint for people about the command's arguments, such as `<file>`.
    #[serde(deserialize_with = "text")]
    #[schemars(with = "Option<Text>")]
    pub argument_hint: Option<String>,
    /// The slug of the mode to which the command switches.
    #[serde(deserialize_with = "text")]
    #[schemars(with = "Option<ModeSlug>")]
    pub mode: Option<String>,
    /// Model for other agents. It has no effect here.
    #[schemars(extend("doNotSuggest" = true))]
    pub model: Value,
}

impl Keys for CommandKeys {
    const ESSENTIAL: &[&str] = &[];

    fn declaration() -> &'static Declaration {
        &COMMAND
    }
}

/// Keys of a skill. It may have other keys besides, for other programs. Texts are trimmed and not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SkillKeys {
    /// The name of the skill's directory: lower-case letters and digits, in words with `-` between them, at most 64
    /// characters. Required.
    #[serde(deserialize_with = "text")]
    #[schemars(with = "Option<Text>")]
    pub name: Option<String>,
    /// Tells a model when to load the skill: at most 1024 characters. Required.
    #[serde(deserialize_with = "text")]
    #[schemars(with = "Option<Text>")]
    pub description: Option<String>,
    /// The slugs of the modes that have the skill. An empty list means all. Default: `mode`, and where that is missing, the
    /// mode that the directory names, as `skills-code`, or all.
    #[serde(deserialize_with = "slugs")]
    #[schemars(with = "Option<ModeSlugs>")]
    pub mode_slugs: Option<Vec<String>>,
    /// The slug of the one mode that has the skill, as older versions of Roo Code wrote it. `modeSlugs` counts instead.
    #[serde(deserialize_with = "text")]
    #[schemars(with = "Option<ModeSlug>", extend("doNotSuggest" = true))]
    pub mode: Option<String>,
}

impl Keys for SkillKeys {
    const ESSENTIAL: &[&str] = &["name", "description", "modeSlugs"];

    fn declaration() -> &'static Declaration {
        &SKILL
    }
}

/// Slugs of modes: a list, or one.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "read through its schema")]
enum ModeSlugs {
    /// Several.
    List(Vec<ModeSlug>),
    /// One.
    One(ModeSlug),
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<Text>::deserialize(deserializer)?.map(String::from);
    Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
}

fn slugs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        List(Vec<String>),
        One(String),
    }
    let slugs = match Option::<Written>::deserialize(deserializer)? {
        None => return Ok(None),
        Some(Written::List(slugs)) => slugs,
        Some(Written::One(slug)) if slug.trim().is_empty() => return Ok(None),
        Some(Written::One(slug)) => vec![slug],
    };
    let slugs = slugs.iter().map(|slug| slug.trim()).filter(|slug| !slug.is_empty());
    Ok(Some(slugs.map(str::to_owned).collect()))
}
