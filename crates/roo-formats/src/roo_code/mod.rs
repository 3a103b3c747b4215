//! The settings file that Roo Code exports (`roo-code-settings.json`), read as settings of this program. Its tasks are in
//! [`tasks`].
//!
//! The format is that of the last version, 3.5x: `providerProfiles` with one flat object a profile, whose keys carry the
//! provider's name, and `globalSettings`. Keys of providers stay in the file. What would let agents do something unasked is kept
//! apart from the rest, so that nobody grants it without meaning to.

mod commands;
pub mod places;
mod providers;
pub mod tasks;
mod unmatched;

use serde_json::{Map, Value, json};

use self::providers::find;
use crate::config::{Profile, profile_of};

/// The largest export that is read, in bytes.
pub const FILE_LIMIT: u64 = 16 << 20;

/// The file that takes the text which Roo Code added to every mode's prompt, in the user's [`places::RULES`]. In Roo Code that text
/// was no rule, so that rules in a project's single files counted beside it.
pub const INSTRUCTIONS_FILE: &str = "roo-code-custom-instructions.md";

/// Most tokens of a budget for thinking that become a level of `reasoning`, below the highest that budgets are asked for.
const BUDGETS: [(u64, &str); 2] = [(2048, "low"), (8192, "medium")];

/// Range of a threshold for summaries, in percent, as settings take it.
const THRESHOLDS: std::ops::RangeInclusive<i64> = 5..=99;

/// The text is no export of Roo Code's settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// It can't be read as JSON.
    #[error("it is not valid JSON (line {line}, column {column})")]
    Json {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// It is other JSON.
    #[error(
        "it has neither `providerProfiles` nor `globalSettings`, so it is no settings export of Roo Code"
    )]
    Other,
}

/// A value for a place in the settings.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedSetting {
    /// Keys from the top.
    pub path: Vec<String>,
    /// The value.
    pub value: Value,
    /// A sentence on how it differs from what Roo Code did.
    pub remark: Option<String>,
}

impl ExportedSetting {
    fn new(path: &[&str], value: impl Into<Value>) -> Self {
        Self { path: path.iter().map(|key| (*key).to_owned()).collect(), value: value.into(), remark: None }
    }
}

/// A profile, in the keys of this program's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedProfile {
    /// Its name in Roo Code.
    pub name: String,
    /// Its fields as they are written. Values of headers may be credentials.
    pub fields: Vec<(String, Value)>,
    /// The same as settings.
    pub profile: Profile,
    /// True if the export has a key for it.
    pub has_key: bool,
    /// Sentences on what of it is not carried over, or not as it was.
    pub remarks: Vec<String>,
}

/// What an export says, as far as it means something here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportedSettings {
    /// The profiles, in the order of the file.
    pub profiles: Vec<ExportedProfile>,
    /// The name of the profile that was in use, if it is one of them.
    pub current: Option<String>,
    /// Settings that grant nothing.
    pub settings: Vec<ExportedSetting>,
    /// What was allowed without asking.
    pub approvals: Vec<ExportedSetting>,
    /// True if every call of an MCP server asked, whatever `alwaysAllow` of the server named. Here that list counts by itself.
    pub asked_for_mcp: bool,
    /// The text that was added to every mode's prompt.
    pub custom_instructions: Option<String>,
    /// The user's modes, as a file of modes has them. Those of projects stay in their `.roomodes`.
    pub modes: Vec<Value>,
    /// Sentences on profiles with mistakes.
    pub refused: Vec<String>,
    /// Sentences on what has no counterpart here.
    pub left_out: Vec<String>,
    /// The same about what was allowed without asking.
    pub left_out_approvals: Vec<String>,
}

impl ExportedSettings {
    /// Reads the text of an export.
    ///
    /// # Errors
    /// See [`ExportError`]. What is in the file, keys among it, is in none of them.
    pub fn read(text: &str) -> Result<Self, ExportError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let export: Value = serde_json::from_str(text)
            .map_err(|error| ExportError::Json { line: error.line(), column: error.column() })?;
        let part = |key: &str| export.get(key).and_then(Value::as_object);
        let (profiles, global) = (part("providerProfiles"), part("globalSettings"));
        if profiles.is_none() && global.is_none() {
            return Err(ExportError::Other);
        }
        let empty = Map::new();
        let mut read = Self::default();
        read.read_profiles(profiles.unwrap_or(&empty), global.unwrap_or(&empty));
        read.read_global(global.unwrap_or(&empty));
        read.asked_for_mcp = global.is_some_and(|global| !runs_unasked(global, "alwaysAllowMcp"));
        Ok(read)
    }

    fn read_profiles(&mut self, profiles: &Map<String, Value>, global: &Map<String, Value>) {
        let configs = profiles.get("apiConfigs").and_then(Value::as_object);
        let configs: Vec<(&String, &Map<String, Value>)> = configs
            .into_iter()
            .flatten()
            .filter_map(|(name, config)| Some((name, config.as_object()?)))
            .collect();
        for (name, config) in &configs {
            match read_profile(name, config, global) {
                Ok(Some(profile)) => self.profiles.push(profile),
                Ok(None) => {}
                Err(Unreadable::Provider(reason)) => {
                    self.left_out.push(format!("profile `{name}`: {reason}"));
                }
                Err(Unreadable::Mistake(reason)) => self.refused.push(format!("profile `{name}`: {reason}")),
            }
        }
        let in_use = profiles.get("currentApiConfigName").and_then(Value::as_str);
        let is_read = |name: &str| self.profiles.iter().any(|profile| profile.name == name);
        let current = in_use.filter(|name| is_read(name));
        self.current = current.map(str::to_owned);
        let by_id = |id: &Value| {
            let config = configs.iter().find(|(_, config)| config.get("id") == Some(id));
            config.map(|(name, _)| name.as_str())
        };
        let of_modes = profiles.get("modeApiConfigs").and_then(Value::as_object);
        let of_modes = of_modes.into_iter().flatten().filter_map(|(mode, id)| Some((mode, by_id(id)?)));
        for (mode, name) in of_modes.filter(|(_, name)| in_use != Some(*name)) {
            match is_read(name) {
                true => self.settings.push(ExportedSetting::new(&["modes", mode, "profile"], name)),
                false => self.left_out.push(without_profile(mode, name)),
            }
        }
        // A limit of every request here.
        let current = configs.iter().find(|(name, _)| Some(name.as_str()) == current);
        let mistakes = current.and_then(|(_, config)| config.get("consecutiveMistakeLimit")?.as_u64());
        // 0 is no limit in both programs.
        if let Some(mistakes) = mistakes {
            self.settings.push(ExportedSetting::new(&["limits", "mistakes"], mistakes));
        }
    }

    /// Leaves a profile out that was read and can't be written. Modes that had it are told.
    pub fn leave_out_profile(&mut self, name: &str, reason: &str) {
        self.refused.push(format!("profile `{name}`: {reason}"));
        let left_out = &mut self.left_out;
        self.settings.retain(|setting| match &*setting.path {
            [modes, mode, key] if modes == "modes" && key == "profile" && setting.value == *name => {
                left_out.push(without_profile(mode, name));
                false
            }
            _ => true,
        });
        self.profiles.retain(|profile| profile.name != name);
    }

    fn read_global(&mut self, global: &Map<String, Value>) {
        for (key, name) in
            [("allowedMaxRequests", "requests"), ("commandExecutionTimeout", "commandTimeoutSec")]
        {
            if let Some(limit) = positive(global, key) {
                self.settings.push(ExportedSetting::new(&["limits", name], limit));
            }
        }
        let cost = global.get("allowedMaxCost").and_then(Value::as_f64);
        if let Some(cost) = cost.filter(|cost| *cost > 0.0) {
            self.settings.push(ExportedSetting::new(&["limits", "costUsd"], cost));
        }
        let denied = commands::denied(global, runs_unasked(global, "alwaysAllowExecute"));
        self.left_out.extend(denied.left_out);
        if !denied.rules.is_empty() {
            let setting = ExportedSetting::new(&["autoApprove", "execute", "deny"], json!(denied.rules));
            self.settings.push(ExportedSetting { remark: denied.remark, ..setting });
        }
        self.read_approvals(global);
        self.left_out.extend(unmatched::left_out(global, runs_unasked(global, "autoApprovalEnabled")));
        let instructions = text(global, "customInstructions").map(str::trim).filter(|text| !text.is_empty());
        self.custom_instructions = instructions.map(str::to_owned);
        let prompts = global.get("customModePrompts").and_then(Value::as_object);
        let changed: Vec<&str> = prompts
            .into_iter()
            .flatten()
            .filter(|(_, prompt)| prompt.as_object().is_some_and(|parts| parts.values().any(is_text)))
            .map(|(mode, _)| mode.as_str())
            .collect();
        if !changed.is_empty() {
            self.left_out.push(format!(
                "your changes to the prompts of these modes: {}; write a mode of that slug into custom_modes.yaml",
                changed.join(", ")
            ));
        }
        let modes = global.get("customModes").and_then(Value::as_array);
        let of_project = |mode: &&Value| mode.get("source").and_then(Value::as_str) == Some("project");
        let (project, own): (Vec<&Value>, Vec<&Value>) = modes.into_iter().flatten().partition(of_project);
        self.modes = own.into_iter().cloned().collect();
        let project: Vec<&str> = project.into_iter().filter_map(|mode| mode.get("slug")?.as_str()).collect();
        if !project.is_empty() {
            self.left_out.push(format!(
                "the modes {} of a project: they count from its .roomodes, once you trust it",
                project.join(", ")
            ));
        }
    }

    fn read_approvals(&mut self, global: &Map<String, Value>) {
        let Some(is_enabled) = global.get("autoApprovalEnabled").and_then(Value::as_bool) else { return };
        // On by default here.
        for (key, name) in [("alwaysAllowReadOnly", "read"), ("alwaysAllowSubtasks", "delegate")] {
            if !is_enabled || global.get(key) == Some(&json!(false)) {
                self.settings.push(ExportedSetting::new(&["autoApprove", name], false));
            }
        }
        if !is_enabled {
            return;
        }
        for (key, name) in [("alwaysAllowWrite", "write"), ("alwaysAllowBrowser", "browser")] {
            if runs_unasked(global, key) {
                self.approvals.push(ExportedSetting::new(&["autoApprove", name], true));
            }
        }
        // There it lets the lists of servers count; `autoApprove.mcp` would let every tool of every server run.
        if runs_unasked(global, "alwaysAllowMcp") {
            self.left_out.push(
                "`alwaysAllowMcp`: it let those tools run unasked that `alwaysAllow` of their server names; these lists come with the \
                 servers, by `roo-lsp import roo --approvals --replace` without a file. Reading resources asks"
                    .to_owned(),
            );
        }
        let switch = global.get("alwaysAllowModeSwitch").and_then(Value::as_bool);
        if switch.is_some_and(|switch| switch != runs_unasked(global, "alwaysAllowSubtasks")) {
            self.left_out.push(
                "`alwaysAllowModeSwitch`: `autoApprove.delegate` decides on subtasks and on changes of mode together".to_owned(),
            );
        }
        if runs_unasked(global, "alwaysAllowExecute") {
            let allowed = commands::allowed(global);
            self.left_out_approvals.extend(allowed.left_out);
            if !allowed.rules.is_empty() {
                let path = ["autoApprove", "execute", "allow"];
                self.approvals.push(ExportedSetting::new(&path, json!(allowed.rules)));
            }
        }
    }
}

/// What to say of a mode whose profile is not imported.
fn without_profile(mode: &str, profile: &str) -> String {
    format!("profile of mode `{mode}`: `{profile}` is not imported, so the mode has the default profile")
}

/// Why a profile can't be read.
enum Unreadable {
    /// Its provider is none of ours.
    Provider(&'static str),
    /// Something in it is wrong.
    Mistake(String),
}

/// A profile; none where there is nothing in it, as in a fresh installation.
fn read_profile(
    name: &str,
    config: &Map<String, Value>,
    global: &Map<String, Value>,
) -> Result<Option<ExportedProfile>, Unreadable> {
    let Some(provider) = text(config, "apiProvider") else { return Ok(None) };
    let provider = find(provider).ok_or_else(|| {
        let known = providers::reason_against(provider);
        Unreadable::Provider(known.unwrap_or("its provider is not known here"))
    })?;
    let mut fields = vec![("provider".to_owned(), Value::from(provider.here))];
    let mut put = |key: &str, value: Value| {
        fields.retain(|(before, _)| before != key);
        fields.push((key.to_owned(), value));
    };
    if let Some(url) = provider.base_url(config) {
        put("baseUrl", url.into());
    }
    let (mut has_level, mut remarks) = (false, vec![]);
    match text(config, provider.model) {
        // A suffix of Roo Code's own.
        Some(model) => match model.strip_suffix(":thinking").filter(|_| provider.here == "anthropic") {
            Some(model) => {
                put("model", model.into());
                put("reasoning", "high".into());
                has_level = true;
            }
            None => put("model", model.into()),
        },
        None => {
            remarks.push(
                "it names no model, Roo Code used its default: set `model`, or run `roo-lsp setup`"
                    .to_owned(),
            );
        }
    }
    let headers = config.get("openAiHeaders").filter(|_| provider.roo == "openai");
    if let Some(headers) = headers.and_then(Value::as_object).filter(|headers| !headers.is_empty()) {
        put("headers", headers.clone().into());
    }
    let info = config.get("openAiCustomModelInfo").filter(|_| provider.roo == "openai");
    let info = info.and_then(Value::as_object);
    let window = match provider.roo {
        "ollama" => positive(config, "ollamaNumCtx"),
        _ => info.and_then(|info| positive(info, "contextWindow")),
    };
    if let Some(tokens) = window {
        put("contextWindow", tokens.into());
    }
    let most = positive(config, "modelMaxTokens").or_else(|| positive(info?, "maxTokens"));
    if let Some(tokens) = most {
        put("maxTokens", tokens.into());
    }
    let thinks = config.get("enableReasoningEffort").and_then(Value::as_bool);
    let effort = text(config, "reasoningEffort").filter(|_| thinks != Some(false));
    if let Some(effort) = effort {
        let effort = if effort == "disable" { "none" } else { effort };
        put("reasoning", effort.into());
    } else if thinks == Some(true) {
        // Models that have no levels in Roo Code have a budget.
        match positive(config, "modelMaxThinkingTokens") {
            Some(tokens) => {
                let level = level_of(tokens);
                put("reasoning", level.into());
                remarks
                    .push(format!("its budget of {tokens} tokens for thinking became `reasoning: {level}`"));
            }
            None if !has_level => remarks.push(
                "it was to think as much as Roo Code's default for the model; set `reasoning`".to_owned(),
            ),
            None => {}
        }
    }
    if let Some(temperature) = config.get("modelTemperature").and_then(Value::as_f64) {
        put("temperature", temperature.into());
    }
    if let Some(seconds) = positive(config, "rateLimitSeconds") {
        put("rateLimitSeconds", seconds.into());
    }
    if let Some(condense) = condense(config, global) {
        put("condense", condense);
    }
    if let Some(prices) = info.and_then(prices) {
        put("pricePerMillion", prices);
    }
    remarks.extend(unmatched::left_out_of_profile(config, provider.roo));
    let profile = profile_of(&fields.iter().cloned().collect()).map_err(Unreadable::Mistake)?;
    let is_key = |key: &str| key == "apiKey" || key.ends_with("ApiKey");
    let has_key = config.iter().any(|(key, value)| is_key(key) && is_text(value));
    Ok(Some(ExportedProfile { name: name.to_owned(), fields, profile, has_key, remarks }))
}

/// Returns whether Roo Code did something without asking: the switch for it is on, and so is that for all of them.
fn runs_unasked(global: &Map<String, Value>, key: &str) -> bool {
    ["autoApprovalEnabled", key].iter().all(|key| global.get(*key) == Some(&json!(true)))
}

/// The level of thinking that is nearest to a budget.
fn level_of(tokens: u64) -> &'static str {
    let level = BUDGETS.iter().find(|(most, _)| tokens <= *most);
    level.map_or("high", |(_, level)| level)
}

/// A text that is not empty.
fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str().filter(|text| !text.trim().is_empty())
}

/// The prices of a model that the user described; none where it was free, as Roo Code assumes where nothing is said.
fn prices(info: &Map<String, Value>) -> Option<Value> {
    let known = [
        ("inputPrice", "input"),
        ("outputPrice", "output"),
        ("cacheReadsPrice", "cacheRead"),
        ("cacheWritesPrice", "cacheWrite"),
    ];
    let prices = known.iter().filter_map(|(key, name)| {
        let price = info.get(*key)?.as_f64().filter(|price| *price > 0.0)?;
        Some(((*name).to_owned(), price.into()))
    });
    let prices: Map<String, Value> = prices.collect();
    (!prices.is_empty()).then_some(prices.into())
}

/// A whole number above 0; Roo Code has 0 and -1 for none.
fn positive(object: &Map<String, Value>, key: &str) -> Option<u64> {
    object.get(key)?.as_u64().filter(|number| *number > 0)
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// `condense` of a profile: its own threshold, where it has one, before that of all.
fn condense(config: &Map<String, Value>, global: &Map<String, Value>) -> Option<Value> {
    if global.get("autoCondenseContext") == Some(&json!(false)) {
        return Some("off".into());
    }
    let own = global.get("profileThresholds").and_then(|all| all.get(config.get("id")?.as_str()?));
    // -1 stands for the threshold of all.
    let own = own.and_then(Value::as_i64).filter(|threshold| *threshold > 0);
    let threshold = own.or_else(|| global.get("autoCondenseContextPercent")?.as_i64())?;
    THRESHOLDS.contains(&threshold).then(|| json!({ "threshold": threshold }))
}

#[cfg(test)]
mod tests;
