//! The settings, with the names and defaults that users and editors write.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::argv::is_empty;
use super::price::amount;
use super::{Profile, VariablePattern};
use crate::modes::ModeSlug;
use roo_text::name_patterns::NamePatterns;

/// Everything that can be set. A missing key has its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// The version of `roo/*` that the client speaks. Without it the client gets plain LSP.
    pub protocol_version: Option<u32>,
    /// True if the client answers `roo/document/save`.
    pub document_save: bool,
    /// True if the client answers `roo/code/ask`.
    pub code_ask: bool,
    /// The slug of a new request's mode.
    #[schemars(with = "ModeSlug")]
    pub mode: String,
    /// The name of the profile for modes that have none of their own.
    pub profile: String,
    /// The profiles by name.
    pub profiles: BTreeMap<String, Profile>,
    /// Settings of single modes, by slug.
    pub modes: BTreeMap<String, ModeSettings>,
    /// Actions that may run without asking.
    pub auto_approve: AutoApprove,
    /// Paths that agents change only when asked, besides those that are protected anyway: patterns as in
    /// `.gitignore`, relative to each workspace folder.
    #[serde(deserialize_with = "patterns")]
    pub protected: Vec<String>,
    /// Rules for when a task needs a declared intent.
    pub intents: IntentSettings,
    /// How branches of a request work beside each other.
    pub delegation: DelegationSettings,
    /// Limits at which a request stops and asks.
    pub limits: Limits,
    /// Bounds of commands.
    pub sandbox: SandboxSettings,
    /// The browser in which agents look at pages.
    pub browser: BrowserSettings,
    /// Mask keys, tokens and passwords in what commands print and agents read, before models, clients and logs get it.
    pub redact_secrets: bool,
    /// Facts about the project and the machine that a task is told before it begins.
    pub system_context: SystemContext,
    /// The index by which agents search code for what a question is about (`codebase_search`).
    pub index: IndexSettings,
    /// The endpoint by which agents generate images (`generate_image`).
    pub image_generation: ImageGenerationSettings,
    /// The Unix socket at which the language server serves programs that drove Roo Code over its IPC: an absolute path, in a folder
    /// that only you can enter. `ROO_CODE_IPC_SOCKET_PATH` in the server's environment counts before it. It is read when an
    /// editor opens a workspace.
    pub ipc_socket: Option<PathBuf>,
    /// The daemon that serves the user's editors and terminals.
    pub daemon: DaemonSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            protocol_version: None,
            document_save: false,
            code_ask: false,
            mode: "new-task".to_owned(),
            profile: "default".to_owned(),
            profiles: BTreeMap::new(),
            modes: BTreeMap::new(),
            auto_approve: AutoApprove::default(),
            protected: Vec::new(),
            intents: IntentSettings::default(),
            delegation: DelegationSettings::default(),
            limits: Limits::default(),
            sandbox: SandboxSettings::default(),
            browser: BrowserSettings::default(),
            redact_secrets: true,
            system_context: SystemContext::default(),
            index: IndexSettings::default(),
            image_generation: ImageGenerationSettings::default(),
            ipc_socket: None,
            daemon: DaemonSettings::default(),
        }
    }
}

impl Settings {
    /// The profile that a mode works with, by name; none when the settings don't define it.
    pub fn profile_of(&self, mode: &str) -> (&str, Option<&Profile>) {
        let own = self.modes.get(mode).and_then(|mode| mode.profile.as_deref());
        let name = own.unwrap_or(&self.profile);
        (name, self.profiles.get(name))
    }
}

/// Settings of one mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModeSettings {
    /// The name of its profile.
    pub profile: Option<String>,
    /// The slugs of further modes to which it may delegate; `*` for all.
    pub can_delegate_to: Vec<String>,
}

/// Actions that may run without asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoApprove {
    /// Looking at files.
    pub read: bool,
    /// Changing files.
    pub write: bool,
    /// Calling tools of MCP servers.
    pub mcp: bool,
    /// Opening pages of any public host in the browser. What an agent serves itself is opened without asking anyway.
    pub browser: bool,
    /// Starting subtasks.
    pub delegate: bool,
    /// Running commands.
    pub execute: Execute,
}

impl Default for AutoApprove {
    fn default() -> Self {
        Self {
            read: true,
            write: false,
            mcp: false,
            browser: false,
            delegate: true,
            execute: Execute::default(),
        }
    }
}

/// Commands by the first words of their argv.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Execute {
    /// Commands that run without asking. Unset, `allow` decides, and a trusted workspace's first command that the
    /// sandbox holds asks once whether commands may run in it unasked.
    pub mode: Option<ExecuteMode>,
    /// Run without asking. An entry has at least one word, the program.
    #[serde(deserialize_with = "allowed_prefixes")]
    pub allow: Vec<Vec<String>>,
    /// Names of presets, each of which allows the usual commands of a toolchain, such as `cargo` or `git-read`.
    pub presets: Vec<String>,
    /// Never run. An entry has at least one word, the program; `*` stands for every program.
    #[serde(deserialize_with = "prefixes")]
    pub deny: Vec<Vec<String>>,
}

/// Commands that run without asking, from strict to lax. What `deny` names never runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecuteMode {
    /// None: `allow` doesn't count.
    Ask,
    /// Those that `allow` names.
    Rules,
    /// Those too that stay in the sandbox, in a trusted workspace and where the machine can hold protected names and
    /// hidden files (`namespaces`).
    Confined,
}

impl ExecuteMode {
    /// The stricter of two; unset lies between `rules` and `confined`.
    pub(super) fn stricter(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let rank = |mode: &Option<Self>| match mode {
            Some(Self::Ask) => 0,
            Some(Self::Rules) => 1,
            None => 2,
            Some(Self::Confined) => 3,
        };
        std::cmp::min_by_key(one, other, rank)
    }
}

/// Rules for when a task needs a declared intent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IntentSettings {
    /// For which tools.
    pub require: RequireIntent,
}

/// Calls that need a declared intent. Ordered from lax to strict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequireIntent {
    /// Those that change something.
    #[default]
    Destructive,
    /// Every tool but those by which a task binds an intent, asks its user or ends.
    All,
}

/// How branches of a request work beside each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DelegationSettings {
    /// Whether branches that work at the same time and may write get git worktrees of their own.
    pub worktrees: BranchWorktrees,
}

/// Whether branches that work at the same time and may write get git worktrees of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BranchWorktrees {
    /// No: all branches work in the workspace folder.
    #[default]
    Off,
    /// Yes, where the workspace is one folder in a git repository. What a branch changed is merged into the folder when the
    /// branch completes, as one edit.
    Auto,
}

/// Bounds of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxSettings {
    /// Minimum strength of the sandbox.
    pub level: SandboxLevel,
    /// Paths that commands may write besides those that their task may change, such as a repository's `.git` or a
    /// cache. Absolute paths.
    pub writable: Vec<PathBuf>,
    /// Paths that commands may read although they are likely to hold secrets. Absolute paths.
    pub readable: Vec<PathBuf>,
    /// Unix sockets of other programs that commands may connect to, such as `/run/postgresql/.s.PGSQL.5432`. What is behind
    /// one acts outside of the sandbox for them: by that of a container engine, commands can do all that it can. Absolute paths.
    pub sockets: Vec<PathBuf>,
    /// SSH keys with which git may sign commits and tags in commands, as `user.signingKey` of the git configuration names
    /// them. The server signs; commands don't see the keys.
    pub signing_keys: Vec<String>,
    /// Hosts that commands may reach, by a proxy that checks them: package managers and git hosts by name, such as `cargo`
    /// or `npm`, hosts such as `registry.example.com:443` or `*.example.com`, networks such as `10.0.0.0/8`, ports of this
    /// machine such as `127.0.0.1:5432`, or `any` for all that is public.
    pub network: Vec<String>,
    /// Environment variables that commands see besides the usual ones: names such as `DATABASE_URL`, patterns such as
    /// `AWS_*`, and what is left out, such as `!CI`. What looks like a secret by its name has to be written out in full.
    pub env: Vec<VariablePattern>,
}

/// The daemon that serves the user's editors and terminals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSettings {
    /// True if requests that were under way when the daemon was killed go on by themselves when another one begins.
    /// Else, and where settings or trust have changed meanwhile, they wait until they are resumed.
    pub resume_after_crash: bool,
    /// How `roo-lsp attach` and `roo-lsp tasks watch` notify their user when a request asks something or ends.
    pub notifications: Notifications,
}

/// A way to notify the user of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Notifications {
    /// Not at all.
    #[default]
    Off,
    /// By the escape sequence OSC 9, which the terminal shows: iTerm2, WezTerm, Windows Terminal and others.
    Osc9,
    /// By the escape sequence OSC 777, which the terminal shows: foot, Ghostty, urxvt and others.
    Osc777,
    /// By the program `notify-send`, which desktops of Linux come with.
    NotifySend,
}

/// The browser in which agents look at pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BrowserSettings {
    /// True if modes with the group `browser` get it, where there is one.
    pub enabled: bool,
    /// A Chromium, Google Chrome or the like: its name on PATH, or an absolute path outside of the workspace. Unset, the first
    /// one on PATH.
    pub program: Option<String>,
}

impl Default for BrowserSettings {
    fn default() -> Self {
        Self { enabled: true, program: None }
    }
}

/// Minimum strength of the sandbox, from lax to strict. A level that the machine lacks means that no command runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum SandboxLevel {
    /// No sandbox: a command that is allowed can do what its user can.
    #[serde(rename = "off")]
    Off,
    /// The best that the machine has; without any, every command asks.
    #[default]
    #[serde(rename = "best")]
    Best,
    /// Writing and the network are bounded.
    L2,
    /// That, and protected names and hidden files within what may be written.
    #[serde(rename = "namespaces")]
    Namespaces,
    /// That, and nothing of the workspace changes before a command has ended: then what its task may change is
    /// brought there, where nobody else has changed it meanwhile, and the rest is kept for the user.
    #[serde(rename = "staged")]
    Staged,
}

/// The command by which a request learns about the project and the machine, in the workflow of the modes.
pub const CONTEXT_COMMAND: &str = "pwd && tree --gitignore && npx -y envinfo --markdown && npm run";

/// Facts about the project and the machine that a task is told before it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemContext {
    /// The command that stands for it.
    pub command: String,
    /// Server that answers that command.
    pub run: RunContext,
}

impl Default for SystemContext {
    fn default() -> Self {
        Self { command: CONTEXT_COMMAND.to_owned(), run: RunContext::default() }
    }
}

/// Server that answers the command for the system context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunContext {
    /// The server, by looking for itself; nothing is run.
    #[default]
    Native,
    /// A shell, like any other command.
    Shell,
}

/// The index by which agents search code for what a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IndexSettings {
    /// False for no index: agents don't get `codebase_search`. With it, the index of a workspace is built when an agent
    /// searches for the first time, and kept in the state directory.
    pub enabled: bool,
    /// The name of a profile whose endpoint and model turn texts into vectors, such as `nomic-embed-text` of Ollama. All
    /// code of a workspace that agents may read is sent there, secrets masked. Without it nothing is sent, and code is
    /// ranked by its words. The endpoint has to be OpenAI-compatible.
    pub embeddings: Option<String>,
}

impl Default for IndexSettings {
    fn default() -> Self {
        Self { enabled: true, embeddings: None }
    }
}

/// The endpoint by which agents generate images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageGenerationSettings {
    /// The name of a profile whose endpoint and model make images, such as `gpt-image-1` of OpenAI. What an agent wants to see,
    /// and the image that it wants changed, is sent there. Without it agents don't get `generate_image`. The endpoint has to be
    /// OpenAI-compatible; it has the profile's `timeouts.firstByteSec`, and three minutes at least.
    pub profile: Option<String>,
    /// How the endpoint is asked. Unset, `chat` for OpenRouter and `images` for all others.
    pub api: Option<ImageApi>,
}

/// Ways to ask an endpoint for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageApi {
    /// `POST /images/generations`.
    Images,
    /// `POST /chat/completions`, with images in the answer.
    Chat,
}

impl Settings {
    /// Returns whether the profile is there that makes images.
    pub fn generates_images(&self) -> bool {
        self.image_generation.profile.as_ref().is_some_and(|name| self.profiles.contains_key(name))
    }
}

impl ImageGenerationSettings {
    /// How the endpoint of a profile is asked.
    pub fn api_of(&self, profile: &Profile) -> ImageApi {
        self.api.unwrap_or(match profile.provider.as_str() {
            "openrouter" => ImageApi::Chat,
            _ => ImageApi::Images,
        })
    }
}

/// Limits at which a request stops and asks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Model requests.
    pub requests: u32,
    /// US dollars.
    #[serde(deserialize_with = "amount")]
    pub cost_usd: f64,
    /// Mistakes in a row.
    pub mistakes: u32,
    /// Maximum depth of delegation.
    pub depth: u32,
    /// Branches that begin between two messages of the user, those that still work included.
    pub branches: u32,
    /// Seconds after which a command is ended, in the background too; none for no limit. Without one, a command that has
    /// printed nothing for 10 minutes goes to the background, or is ended where it can't go there.
    pub command_timeout_sec: Option<u64>,
    /// Seconds after which a command that still runs goes to the background; 0 for never by itself.
    pub background_after_sec: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 200,
            cost_usd: 5.0,
            mistakes: 3,
            depth: 8,
            branches: 64,
            command_timeout_sec: None,
            background_after_sec: 30,
        }
    }
}

/// Command prefixes. An empty one would match every command.
fn prefixes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<String>>, D::Error> {
    let prefixes = Vec::<Vec<String>>::deserialize(deserializer)?;
    match prefixes.iter().position(|prefix| is_empty(prefix)) {
        Some(index) => Err(D::Error::custom(format!("entry {} doesn't name a program", index + 1))),
        None => Ok(prefixes),
    }
}

/// Patterns of names.
fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let patterns = Vec::<String>::deserialize(deserializer)?;
    if let Some(index) =
        patterns.iter().position(|pattern| pattern.trim().is_empty() || pattern.contains('\n'))
    {
        return Err(D::Error::custom(format!("entry {} is not a pattern", index + 1)));
    }
    match NamePatterns::parse(patterns.iter().map(String::as_str)) {
        Ok(_) => Ok(patterns),
        Err(errors) => {
            let told = errors
                .iter()
                .map(|error| format!("entry {} is not a valid pattern: {error}", error.line + 1));
            Err(D::Error::custom(told.collect::<Vec<_>>().join("; ")))
        }
    }
}

/// The same for what is allowed. A wildcard has no meaning there, and must not be taken to have one.
fn allowed_prefixes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<String>>, D::Error> {
    let prefixes = prefixes(deserializer)?;
    match prefixes.iter().position(|prefix| prefix.first().is_some_and(|program| program == "*")) {
        Some(index) => Err(D::Error::custom(format!(
            "entry {} would match every command, which no rule may allow; name programs, such as [cargo, test]",
            index + 1
        ))),
        None => Ok(prefixes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let expected = serde_json::json!({
            "protocolVersion": null,
            "documentSave": false,
            "codeAsk": false,
            "mode": "new-task",
            "profile": "default",
            "profiles": {},
            "modes": {},
            "autoApprove": {
                "read": true, "write": false, "mcp": false, "browser": false, "delegate": true,
                "execute": { "mode": null, "allow": [], "presets": [], "deny": [] },
            },
            "protected": [],
            "intents": { "require": "destructive" },
            "delegation": { "worktrees": "off" },
            "limits": {
                "requests": 200, "costUsd": 5.0, "mistakes": 3, "depth": 8, "branches": 64,
                "commandTimeoutSec": null, "backgroundAfterSec": 30,
            },
            "sandbox": { "level": "best", "writable": [], "readable": [], "sockets": [], "signingKeys": [], "network": [], "env": [] },
            "browser": { "enabled": true, "program": null },
            "redactSecrets": true,
            "systemContext": {
                "command": "pwd && tree --gitignore && npx -y envinfo --markdown && npm run",
                "run": "native",
            },
            "index": { "enabled": true, "embeddings": null },
            "imageGeneration": { "profile": null, "api": null },
            "ipcSocket": null,
            "daemon": { "resumeAfterCrash": false, "notifications": "off" },
        });
        assert_eq!(serde_json::to_value(Settings::default()).unwrap(), expected);
        assert_eq!(serde_json::from_str::<Settings>("{}").unwrap(), Settings::default());
    }

    #[test]
    fn a_mode_has_its_own_profile_or_the_common_one() {
        let settings: Settings = serde_json::from_value(serde_json::json!({
            "profiles": { "fast": { "provider": "scripted" } },
            "modes": { "code": { "profile": "fast" } },
        }))
        .unwrap();
        let (name, profile) = settings.profile_of("code");
        assert_eq!((name, profile.unwrap().provider.as_str()), ("fast", "scripted"));
        assert_eq!(settings.profile_of("ask"), ("default", None));
    }

    #[test]
    fn open_router_makes_images_in_chats_unless_the_user_says_otherwise() {
        let api = |provider: &str, api: serde_json::Value| {
            let profile: Profile =
                serde_json::from_value(serde_json::json!({ "provider": provider })).unwrap();
            let given = serde_json::json!({ "profile": "p", "api": api });
            serde_json::from_value::<ImageGenerationSettings>(given).unwrap().api_of(&profile)
        };
        assert_eq!(api("openai", serde_json::Value::Null), ImageApi::Images);
        assert_eq!(api("openrouter", serde_json::Value::Null), ImageApi::Chat);
        assert_eq!(api("openrouter", "images".into()), ImageApi::Images);
    }

    #[test]
    fn the_values_of_headers_are_not_for_logs() {
        let profile: Profile = serde_json::from_value(serde_json::json!({
            "provider": "openai", "headers": { "Authorization": "Bearer secret" },
        }))
        .unwrap();
        let shown = format!("{profile:?}");
        assert!(shown.contains("Authorization") && !shown.contains("secret"), "{shown}");
    }
}
