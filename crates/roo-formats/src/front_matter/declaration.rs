//! Declarations of front matter: the keys of slash commands and skills, their values and their descriptions.

use std::sync::LazyLock;

use schemars::JsonSchema;

use crate::declaration::Declaration;
use crate::modes::ModeSlug;

/// The front matter of a slash command.
pub static COMMAND: LazyLock<Declaration> = LazyLock::new(Declaration::of::<CommandKeys>);
/// The front matter of a skill.
pub static SKILL: LazyLock<Declaration> = LazyLock::new(Declaration::of::<SkillKeys>);

/// Keys of a slash command. It may have other keys besides, for other programs.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
pub struct CommandKeys {
    /// Description of the command for people: one line of at most 1024 characters.
    pub description: Option<String>,
    /// Hint for people about the command's arguments, such as `<file>`.
    pub argument_hint: Option<String>,
    /// The slug of the mode to which the command switches.
    pub mode: Option<ModeSlug>,
}

/// Keys of a skill. It may have other keys besides, for other programs.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct SkillKeys {
    /// The name of the skill's directory: lower-case letters and digits, in words with `-` between them, at most 64
    /// characters. Required.
    pub name: String,
    /// Tells a model when to load the skill: at most 1024 characters. Required.
    pub description: String,
    /// The slugs of the modes that have the skill. Default: all.
    pub mode_slugs: Option<ModeSlugs>,
}

/// Slugs of modes: a list, or one.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum ModeSlugs {
    /// Several.
    List(Vec<ModeSlug>),
    /// One.
    One(ModeSlug),
}
