//! Layers of settings: each layer goes over those before it, the workspace only tightens.
//!
//! From weak to strong: built-in defaults, the user's `config.yaml`, the client's
//! `initializationOptions`, command-line flags. These are the user's own. What a workspace says
//! (`workspace/configuration`) can take away but never give; see [`tighten_by`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::SETTINGS;
use super::profile::Profile;
use super::settings::{Execute, ExecuteMode, Settings};
use super::yaml::{self, Step};
use crate::declaration::{Mismatch, MismatchKind, Part, did_you_mean, shown};
use crate::problem::{Problem, Severity};
use crate::text_range::{Position, TextRange};
use roo_durable::read_named;
use roo_text::misspelling;
use roo_text::render::exact_line;

/// The largest settings file, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// What is told of a key of a provider in the settings.
const API_KEY: &str = "API keys don't belong here, and this one is ignored: store it with `roo-lsp login PROVIDER`, or name the \
                       variable that has it in `apiKeyEnv`";
/// Settings that a workspace can tighten.
const TIGHTENED: [&str; 8] =
    ["autoApprove", "browser", "index", "intents", "limits", "protected", "redactSecrets", "sandbox"];

/// Source of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user's settings file.
    File(PathBuf),
    /// The client's `initializationOptions`.
    InitializationOptions,
    /// Command-line flags.
    CommandLine,
    /// The client's answer to `workspace/configuration`.
    Workspace,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::InitializationOptions => f.write_str("initializationOptions"),
            Self::CommandLine => f.write_str("command line"),
            Self::Workspace => f.write_str("workspace/configuration"),
        }
    }
}

/// Problem with one setting. Shown as `config.yaml:3:13: limits.requests: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsProblem {
    /// The layer.
    pub origin: Origin,
    /// The key, such as `limits.requests`; empty when the layer as a whole is meant.
    pub path: String,
    /// Problem; without a position for layers that aren't files.
    pub problem: Box<Problem>,
}

impl fmt::Display for SettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.origin)?;
        if let Some(at) = self.problem.start() {
            write!(f, "{}:{}:", at.line, at.column)?;
        }
        if !self.path.is_empty() {
            write!(f, " {}:", self.path)?;
        }
        write!(f, " {}", self.problem)
    }
}

impl std::error::Error for SettingsProblem {}

/// The settings of one origin. Keys may be missing; `null` counts as missing.
#[derive(Clone, Debug)]
pub struct Layer {
    origin: Origin,
    /// The text that the values were read from, for positions.
    text: Option<String>,
    /// True if the keys stand below `roo`.
    nested: bool,
    /// Those keys that stand beside `roo` all the same.
    beside: Vec<String>,
    keys: Map<String, Value>,
}

/// The settings, and what was ignored on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// Keys that mean nothing.
    pub warnings: Vec<SettingsProblem>,
}

impl Layer {
    /// Reads the user's settings file. A missing file is no layer.
    ///
    /// # Errors
    /// A file that can't be read or is no YAML mapping.
    pub fn read(path: &Path) -> Result<Option<Self>, SettingsProblem> {
        match read_settings(path)? {
            Some(text) => Self::from_yaml(path, &text),
            None => Ok(None),
        }
    }

    /// The settings in the text of a file. An empty file is no layer.
    ///
    /// # Errors
    /// Broken YAML, a key that is there twice, or something else than a mapping; with the position.
    pub fn from_yaml(path: &Path, text: &str) -> Result<Option<Self>, SettingsProblem> {
        let origin = Origin::File(path.to_owned());
        match yaml::parse(text) {
            Ok(Value::Null) => Ok(None),
            Ok(value) => Self::from_value(origin, Some(text), value).map(Some),
            Err(problem) => Err(SettingsProblem { origin, path: String::new(), problem: Box::new(problem) }),
        }
    }

    /// The settings in a client's `initializationOptions`: below `roo`, or at the top where a key of
    /// ours is there. Anything else is no layer, for the options may be another server's.
    ///
    /// # Errors
    /// `roo` is something else than an object.
    pub fn from_initialization_options(options: &Value) -> Result<Option<Self>, SettingsProblem> {
        let Value::Object(keys) = options else { return Ok(None) };
        let ours = to_object(&Settings::default());
        if !keys.keys().any(|key| key == "roo" || ours.contains_key(key)) {
            return Ok(None);
        }
        Self::from_value(Origin::InitializationOptions, None, options.clone()).map(Some)
    }

    /// The settings that command-line flags stand for.
    pub fn from_command_line(keys: Map<String, Value>) -> Self {
        Self { origin: Origin::CommandLine, text: None, nested: false, beside: vec![], keys }
    }

    /// The settings in a client's answer to `workspace/configuration`, for [`tighten_by`]. No
    /// object is no layer.
    ///
    /// # Errors
    /// `roo` is something else than an object.
    pub fn from_workspace(answer: &Value) -> Result<Option<Self>, SettingsProblem> {
        if !answer.is_object() {
            return Ok(None);
        }
        let mut layer = Self::from_value(Origin::Workspace, None, answer.clone())?;
        // A workspace has no say in anything else.
        layer.keys.retain(|key, _| TIGHTENED.contains(&key.as_str()));
        Ok(Some(layer))
    }

    /// Returns the settings as they were given.
    pub fn values(&self) -> &Map<String, Value> {
        &self.keys
    }

    /// Reports whether the layer sets a key, such as `limits.requests`: its origin, with the line in a file. None when
    /// it leaves the setting to weaker layers.
    pub fn tells(&self, key: &str) -> Option<String> {
        let pattern: Vec<&str> = key.split('.').collect();
        let (path, value) = values_at(&self.keys, &pattern, &[]).into_iter().next()?;
        if value.is_null() {
            return None;
        }
        Some(match self.position(&path) {
            Some(at) => format!("{}:{}", self.origin, at.line),
            None => self.origin.to_string(),
        })
    }

    fn from_value(origin: Origin, text: Option<&str>, value: Value) -> Result<Self, SettingsProblem> {
        let mut layer =
            Self { origin, text: text.map(str::to_owned), nested: false, beside: vec![], keys: Map::new() };
        let Value::Object(mut keys) = value else {
            return Err(layer.error(&[], "expected settings as `key: value`"));
        };
        if let Some(inner) = keys.remove("roo") {
            layer.nested = true;
            let inner = match inner {
                Value::Object(keys) => keys,
                Value::Null => Map::new(),
                _ => return Err(layer.error(&[], "`roo` must hold settings as `key: value`")),
            };
            // A client may send what every client sends below `roo`, and the user's settings beside it. What is no
            // setting there is the client's own affair.
            let root = SETTINGS.root();
            let unknown = root.unknown_keys(&keys);
            let is_setting = |key: &String| unknown.iter().all(|unknown| unknown.name != key);
            layer.beside =
                keys.keys().filter(|key| is_setting(key) && !inner.contains_key(*key)).cloned().collect();
            keys.retain(|key, _| layer.beside.contains(key));
            keys.extend(inner);
        }
        layer.keys = keys;
        Ok(layer)
    }

    /// The rules of commands that the layer has of its own; none where it can't be read.
    pub fn execute(&self) -> Execute {
        let execute = self.keys.get("autoApprove").and_then(|approve| approve.get("execute"));
        execute.and_then(|execute| Execute::deserialize(execute).ok()).unwrap_or_default()
    }

    fn position(&self, path: &[Step]) -> Option<Position> {
        let text = self.text.as_deref()?;
        let is_beside =
            matches!(path.first(), Some(Step::Key(key)) if self.beside.iter().any(|beside| beside == key));
        let wrapper = (self.nested && !is_beside).then(|| Step::Key("roo".to_owned()));
        let full: Vec<Step> = wrapper.into_iter().chain(path.iter().cloned()).collect();
        // A missing key has no place; the value that lacks it has.
        (0..=full.len()).rev().find_map(|length| yaml::locate(text, &full[..length]))
    }

    fn error(&self, path: &[Step], message: impl Into<String>) -> SettingsProblem {
        let range = self.text.as_deref().zip(self.position(path)).map(|(text, at)| TextRange::at(text, at));
        let problem = Problem::error(range, message);
        SettingsProblem { origin: self.origin.clone(), path: shown(path), problem: Box::new(problem) }
    }

    /// A setting of this layer that may not be meant as it counts, where it stands.
    pub fn warning(&self, path: &[Step], message: impl Into<String>) -> SettingsProblem {
        let mut found = self.error(path, message);
        found.problem.severity = Severity::Warning;
        found
    }

    /// A value of a wrong type or one that isn't allowed, with the allowed one that it may be meant for.
    fn mismatch(&self, value: &Value, path: &[Step], message: &str) -> SettingsProblem {
        let written = value_at(value, path).and_then(Value::as_str);
        let suggestion = written.and_then(|written| SETTINGS.at(path)?.meant(written));
        let suggestion = suggestion.as_deref();
        let mut found = self.error(path, format!("{message}{}", did_you_mean(suggestion)));
        found.problem.suggestion = suggestion.map(str::to_owned);
        found
    }

    /// These keys over those of weaker layers.
    fn over(&self, mut below: Map<String, Value>) -> Result<(Map<String, Value>, Settings), SettingsProblem> {
        let allowed_before = match self.origin {
            Origin::CommandLine => allowed_commands(&mut below).cloned().unwrap_or_default(),
            _ => vec![],
        };
        overlay(&mut below, &self.keys);
        // Flags allow more for once: what is allowed anyway is not theirs to take away.
        if let Some(allowed) = allowed_commands(&mut below) {
            let more: Vec<Value> =
                allowed_before.into_iter().filter(|words| !allowed.contains(words)).collect();
            allowed.splice(0..0, more);
        }
        let merged = Value::Object(below.clone());
        let settings = typed::<Settings>(&merged, &SETTINGS.root(), false)
            .map_err(|(path, message)| self.mismatch(&merged, &path, &message))?;
        Ok((below, settings))
    }

    /// The keys that mean nothing.
    pub fn warnings(&self) -> Vec<SettingsProblem> {
        let mut unknown = Vec::new();
        collect_unknown(&self.keys, &SETTINGS.root(), &[], &mut unknown);
        let unknown = unknown.into_iter().map(|(path, meant)| {
            if is_api_key(&path) {
                return self.warning(&path, API_KEY);
            }
            let mut found = self.warning(&path, format!("unknown key, ignored{}", did_you_mean(meant)));
            found.problem.suggestion = meant.map(str::to_owned);
            found
        });
        unknown.collect()
    }
}

/// Reads the text of the user's settings file; none where there is no file.
///
/// # Errors
/// A file that can't be read.
pub fn read_settings(path: &Path) -> Result<Option<String>, SettingsProblem> {
    match read_named(path, MAX_FILE_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SettingsProblem {
            origin: Origin::File(path.to_owned()),
            path: String::new(),
            problem: Box::new(Problem::error(None, format!("can't be read: {error}"))),
        }),
    }
}

/// Puts layers over the defaults, weakest first.
///
/// Maps merge key by key; lists and whole profiles are replaced, so that a stronger layer can't
/// send a weaker layer's key to another address. The commands that flags allow are added alone.
///
/// # Errors
/// The first value of a wrong type.
pub fn load(layers: impl IntoIterator<Item = Layer>) -> Result<Loaded, SettingsProblem> {
    let mut merged = Map::new();
    let mut loaded = Loaded { settings: Settings::default(), warnings: Vec::new() };
    let layers: Vec<Layer> = layers.into_iter().collect();
    for layer in &layers {
        (merged, loaded.settings) = layer.over(merged)?;
        loaded.warnings.extend(layer.warnings());
    }
    loaded.warnings.extend(missing_profiles(&layers, &loaded.settings));
    Ok(loaded)
}

/// What settings name as a profile and isn't there.
fn missing_profiles(layers: &[Layer], settings: &Settings) -> Vec<SettingsProblem> {
    let mut named: Vec<(Vec<&str>, &Option<String>, &str)> = Vec::new();
    for (name, profile) in &settings.profiles {
        let (fallback, condense) = (&profile.fallback, &profile.condense.profile);
        named.push((vec!["profiles", name, "fallback"], fallback, "none takes over when its model fails"));
        let consequence = "its conversations can't be summarised";
        named.push((vec!["profiles", name, "condense", "profile"], condense, consequence));
    }
    named.push((vec!["index", "embeddings"], &settings.index.embeddings, "code is ranked by words alone"));
    let images = &settings.image_generation.profile;
    named.push((vec!["imageGeneration", "profile"], images, "no images can be generated"));
    let mut found = Vec::new();
    for (keys, other, consequence) in named {
        let Some(other) = other.as_deref().filter(|other| !settings.profiles.contains_key(*other)) else {
            continue;
        };
        let path: Vec<Step> = keys.into_iter().map(Step::from).collect();
        let values = |layer: &&Layer| value_in(&layer.keys, &path).is_some_and(|it| it == other);
        // A stronger layer replaces whole profiles.
        let Some(layer) = layers.iter().rev().find(values) else { continue };
        let meant = misspelling::meant(other, settings.profiles.keys().map(String::as_str));
        let message = format!("there is no profile `{}`, so {consequence}", exact_line(other));
        let mut problem = layer.warning(&path, format!("{message}{}", did_you_mean(meant)));
        problem.problem.suggestion = meant.map(str::to_owned);
        found.push(problem);
    }
    found
}

/// Takes from the settings what a workspace does not allow; nothing else of what it says counts. Returns the keys
/// that mean nothing, or nothing yet.
///
/// # Errors
/// A value of a wrong type; the settings are unchanged then.
pub fn tighten_by(
    settings: &mut Settings,
    workspace: &Layer,
) -> Result<Vec<SettingsProblem>, SettingsProblem> {
    // What the workspace leaves out must not count as the default, which may be stricter.
    let (_, wanted) = workspace.over(to_object(settings))?;
    tighten(settings, &wanted);
    Ok(workspace.warnings())
}

/// Takes from `settings` what `other` does not allow: flags are and'ed, allow lists intersected,
/// deny lists and protected names united, limits are the lower ones. Nothing else of `other` counts.
fn tighten(settings: &mut Settings, other: &Settings) {
    let (ours, theirs) = (&mut settings.auto_approve, &other.auto_approve);
    ours.read &= theirs.read;
    ours.write &= theirs.write;
    ours.mcp &= theirs.mcp;
    ours.browser &= theirs.browser;
    ours.delegate &= theirs.delegate;
    ours.execute = Execute {
        mode: ExecuteMode::stricter(ours.execute.mode, theirs.execute.mode),
        allow: in_both(&ours.execute.allow, &theirs.execute.allow),
        presets: ours
            .execute
            .presets
            .iter()
            .filter(|name| theirs.execute.presets.contains(name))
            .cloned()
            .collect(),
        deny: in_either(&ours.execute.deny, &theirs.execute.deny),
    };

    let added = other.protected.iter().filter(|pattern| !settings.protected.contains(pattern)).cloned();
    let added: Vec<String> = added.collect();
    settings.protected.extend(added);

    settings.intents.require = settings.intents.require.max(other.intents.require);

    let (ours, theirs) = (&mut settings.sandbox, &other.sandbox);
    ours.level = ours.level.max(theirs.level);
    ours.writable.retain(|path| theirs.writable.contains(path));
    ours.readable.retain(|path| theirs.readable.contains(path));
    ours.sockets.retain(|path| theirs.sockets.contains(path));
    ours.signing_keys.retain(|key| theirs.signing_keys.contains(key));
    ours.network.retain(|host| theirs.network.contains(host));
    // What is left out stays so, and more may be.
    ours.env.retain(|pattern| pattern.excludes() || theirs.env.contains(pattern));
    let more = theirs.env.iter().filter(|pattern| pattern.excludes() && !ours.env.contains(pattern));
    let more: Vec<_> = more.cloned().collect();
    ours.env.extend(more);

    settings.redact_secrets |= other.redact_secrets;
    settings.browser.enabled &= other.browser.enabled;

    // Where code is sent is the user's own choice, and so is where images come from.
    settings.index.enabled &= other.index.enabled;

    let (ours, theirs) = (&mut settings.limits, &other.limits);
    ours.requests = ours.requests.min(theirs.requests);
    ours.cost_usd = ours.cost_usd.min(theirs.cost_usd);
    ours.mistakes = ours.mistakes.min(theirs.mistakes);
    ours.depth = ours.depth.min(theirs.depth);
    ours.branches = ours.branches.min(theirs.branches);
    ours.command_timeout_sec =
        [ours.command_timeout_sec, theirs.command_timeout_sec].into_iter().flatten().min();
}

/// The command prefixes that both lists allow: of two that begin alike, the longer one.
fn in_both(ours: &[Vec<String>], theirs: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut both = Vec::new();
    for our in ours {
        for their in theirs {
            let narrower = if our.starts_with(their) {
                our
            } else if their.starts_with(our) {
                their
            } else {
                continue;
            };
            if !both.contains(narrower) {
                both.push(narrower.clone());
            }
        }
    }
    both
}

fn in_either(ours: &[Vec<String>], theirs: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut either = ours.to_vec();
    either.extend(theirs.iter().filter(|their| !ours.contains(their)).cloned());
    either
}

/// Puts keys over others.
fn overlay(below: &mut Map<String, Value>, above: &Map<String, Value>) {
    for (key, value) in above {
        match (below.get_mut(key), value) {
            (_, Value::Null) => {}
            (Some(Value::Object(below)), Value::Object(above)) if key == "profiles" => {
                below.extend(without_null(above));
            }
            (Some(Value::Object(below)), Value::Object(above)) => overlay(below, above),
            _ => {
                let value = match value {
                    Value::Object(keys) => Value::Object(without_null(keys)),
                    other => other.clone(),
                };
                below.insert(key.clone(), value);
            }
        }
    }
}

/// The list of commands that run without asking, if the keys have one.
fn allowed_commands(keys: &mut Map<String, Value>) -> Option<&mut Vec<Value>> {
    keys.get_mut("autoApprove")?.pointer_mut("/execute/allow")?.as_array_mut()
}

/// Clients send `null` for what their user left unset.
fn without_null(keys: &Map<String, Value>) -> Map<String, Value> {
    let mut set = Map::new();
    overlay(&mut set, keys);
    set
}

/// Adds the keys that aren't declared, each with its path and the key that it may be meant for.
fn collect_unknown<'a>(
    given: &Map<String, Value>,
    known: &Part<'a>,
    above: &[Step],
    unknown: &mut Vec<(Vec<Step>, Option<&'a str>)>,
) {
    let undeclared = known.unknown_keys(given);
    for (key, value) in given {
        if let Some(key) = undeclared.iter().find(|undeclared| undeclared.name == key) {
            let path = [above, &[Step::Name(key.name.to_owned())]].concat();
            // A client sends `null` for what its user left unset.
            unknown.extend((!value.is_null()).then_some((path, key.meant)));
            continue;
        }
        let step = Step::Key(key.clone());
        if let (Value::Object(given), Some(known)) = (value, known.step(&step).filter(Part::has_keys)) {
            collect_unknown(given, &known, &[above, &[step]].concat(), unknown);
        }
    }
}

/// Returns whether a profile has an API key there, as users write it.
fn is_api_key(path: &[Step]) -> bool {
    let [Step::Key(profiles), _, Step::Name(key)] = path else { return false };
    profiles == "profiles" && key.replace(['-', '_'], "").eq_ignore_ascii_case("apikey")
}

/// The values whose place fits the pattern, each with its path.
fn values_at<'a>(
    keys: &'a Map<String, Value>,
    pattern: &[&str],
    above: &[Step],
) -> Vec<(Vec<Step>, &'a Value)> {
    let Some((&first, rest)) = pattern.split_first() else { return vec![] };
    let fitting = keys.iter().filter(|(key, _)| first == "*" || first == key.as_str());
    let values = fitting.flat_map(|(key, value)| {
        let path = [above, &[Step::Key(key.clone())]].concat();
        match value {
            value if rest.is_empty() => vec![(path, value)],
            Value::Object(keys) => values_at(keys, rest, &path),
            _ => vec![],
        }
    });
    values.collect()
}

fn to_object(settings: &Settings) -> Map<String, Value> {
    // Plain data with text keys: writing it can't fail.
    match serde_json::to_value(settings) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// Reads a profile from its fields.
///
/// # Errors
/// A sentence that names the field, without a value that may be a secret.
pub fn profile_of(fields: &Map<String, Value>) -> Result<Profile, String> {
    let part = SETTINGS.at(&["profiles".into(), "*".into()]).unwrap_or_else(|| SETTINGS.root());
    typed(&Value::Object(fields.clone()), &part, true).map_err(|(path, message)| match path.as_slice() {
        [] => message,
        path => format!("{} {message}", shown(path)),
    })
}

fn value_in<'v>(keys: &'v Map<String, Value>, path: &[Step]) -> Option<&'v Value> {
    match path.split_first()? {
        (Step::Key(key) | Step::Name(key), rest) => value_at(keys.get(key)?, rest),
        (Step::Index(_), _) => None,
    }
}

fn value_at<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) | Step::Name(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

/// Reads a value that is declared by `part`. An error has the path of what is wrong, and a sentence about it. What a
/// profile has, or all of a value that `is_profile`, is not repeated: who puts a key in the wrong place must not find it
/// in messages and logs.
fn typed<T: DeserializeOwned>(
    value: &Value,
    part: &Part<'_>,
    is_profile: bool,
) -> Result<T, (Vec<Step>, String)> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        use serde_path_to_error::Segment;
        let mut path: Vec<Step> = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                Segment::Map { key } => Some(Step::Key(key.clone())),
                Segment::Seq { index } => Some(Step::Index(*index)),
                Segment::Enum { .. } | Segment::Unknown => None,
            })
            .collect();
        let is_secret = is_profile || matches!(path.first(), Some(Step::Key(key)) if key == "profiles");
        let part_at = |path: &[Step]| path.iter().try_fold(part.clone(), |part, step| part.step(step));
        let refusal = |path: &[Step]| part_at(path)?.refusal(value_at(value, path)?, is_secret);
        if let Some(message) = refusal(&path) {
            return (path, message);
        }
        // The reader of some values names their outermost part only.
        let within = part_at(&path).zip(value_at(value, &path)).and_then(|(part, value)| {
            let found = part.mismatches(value, None).into_iter();
            found.into_iter().find(|found| found.kind != MismatchKind::UnknownKey)
        });
        if let Some(Mismatch { path: inner, kind, message, .. }) = within {
            path.extend(inner);
            let message = match kind {
                MismatchKind::Missing => message,
                _ => refusal(&path).unwrap_or(message),
            };
            return (path, message);
        }
        let message = error.into_inner().to_string();
        (path, if is_secret { without_value(&message) } else { message })
    })
}

/// The message of a reader without the value that it repeats at its end.
fn without_value(message: &str) -> String {
    let ends = [", got ", ", not "].into_iter().filter_map(|before| message.find(before));
    message[..ends.min().unwrap_or(message.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{RequireIntent, SandboxLevel, Timeouts};
    use roo_catalog::ToolProtocol;

    fn yaml(text: &str) -> Layer {
        Layer::from_yaml(Path::new("/c/config.yaml"), text).unwrap().unwrap()
    }

    fn options(value: Value) -> Layer {
        Layer::from_initialization_options(&value).unwrap().unwrap()
    }

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn argv(lists: &[&[&str]]) -> Vec<Vec<String>> {
        lists.iter().map(|list| list.iter().map(|&word| word.to_owned()).collect()).collect()
    }

    #[test]
    fn without_layers_there_are_the_defaults() {
        assert_eq!(load([]).unwrap(), Loaded { settings: Settings::default(), warnings: vec![] });
    }

    #[test]
    fn stronger_layers_win_key_by_key() {
        let file = yaml("mode: ask\nlimits: {requests: 10, depth: 2}\nautoApprove: {write: true}\n");
        let client = options(
            json!({ "roo": { "protocolVersion": 1, "mode": "debug", "limits": { "requests": 20 } } }),
        );
        let flags = Layer::from_command_line(object(json!({ "mode": "architect" })));
        let settings = load([file, client, flags]).unwrap().settings;
        assert_eq!(settings.mode, "architect");
        assert_eq!((settings.limits.requests, settings.limits.depth, settings.limits.mistakes), (20, 2, 3));
        assert!(settings.auto_approve.write && settings.auto_approve.read);
        assert_eq!(settings.protocol_version, Some(1));
    }

    #[test]
    fn flags_add_to_the_commands_that_are_allowed() {
        let file = || yaml("autoApprove: {execute: {allow: [[make], [just, test]], presets: [rust]}}\n");
        let flags = |value| Layer::from_command_line(object(value));
        let more = flags(json!({ "autoApprove": { "execute": { "allow": [["npm", "test"], ["make"]] } } }));
        let execute = load([file(), more]).unwrap().settings.auto_approve.execute;
        assert_eq!(execute.allow, argv(&[&["just", "test"], &["npm", "test"], &["make"]]));
        assert_eq!(execute.presets.len(), 1);
        let other = load([file(), flags(json!({ "autoApprove": { "write": true } }))]).unwrap().settings;
        assert_eq!(other.auto_approve.execute.allow, argv(&[&["make"], &["just", "test"]]));
    }

    #[test]
    fn every_documented_key_is_read() {
        let text = r#"
protocolVersion: 1
documentSave: true
codeAsk: true
mode: code
profile: main
profiles:
  main:
    provider: anthropic
    baseUrl: "http://127.0.0.1:8080"
    model: name
    apiKeyEnv: NAME
    apiKeyCommand: [pass, show, key]
    headers: { X-Team: red }
    toolProtocol: xml
    contextWindow: 200000
    maxTokens: 8192
    condense: { threshold: 80, profile: main }
    reasoning: medium
    temperature: 0.5
    pricePerMillion: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 }
    timeouts: { firstByteSec: 5 }
    script: turns.yaml
modes: { code: { profile: main } }
autoApprove: { read: true, write: false, mcp: true, delegate: true, execute: { mode: confined, allow: [[cargo, test]], deny: [[rm]] } }
intents: { require: all }
limits: { requests: 200, costUsd: 5.0, mistakes: 3, depth: 8, branches: 64, commandTimeoutSec: 30 }
sandbox: { level: staged, writable: [/w], readable: [/r], sockets: [/run/db.sock], signingKeys: [~/.ssh/k.pub], env: [DATABASE_URL, "AWS_*", "!AWS_SECRET*"] }
redactSecrets: false
"#;
        let loaded = load([yaml(text)]).unwrap();
        let unknown = |problem: &SettingsProblem| problem.problem.message.contains("unknown key");
        assert!(!loaded.warnings.iter().any(unknown), "{:?}", loaded.warnings);
        let profile = &loaded.settings.profiles["main"];
        assert_eq!(profile.tool_protocol(), ToolProtocol::Xml);
        assert_eq!((profile.timeouts.first_byte_sec, profile.timeouts.idle_sec), (Some(5), None));
        assert_eq!(profile.price_per_million.unwrap().cache_write, 3.75);
        assert_eq!(loaded.settings.intents.require, RequireIntent::All);
        assert_eq!(loaded.settings.limits.command_timeout_sec, Some(30));
        assert_eq!(loaded.settings.auto_approve.execute.allow, argv(&[&["cargo", "test"]]));
        let env: Vec<String> = loaded.settings.sandbox.env.iter().map(ToString::to_string).collect();
        assert_eq!(env, ["DATABASE_URL", "AWS_*", "!AWS_SECRET*"]);
        assert!(!loaded.settings.redact_secrets);
    }

    /// What is told of each of these texts.
    fn told(texts: &[&str]) -> String {
        let told = |text: &&str| load([yaml(text)]).unwrap_err().to_string();
        texts.iter().map(told).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_wrong_value_is_an_error_with_place_key_and_what_is_allowed() {
        insta::assert_snapshot!(told(&[
            "mode: code\nlimits:\n  requests: many\n",
            "limits: { requests: -1 }\n",
            "limits: { depth: 1.5 }\n",
            "limits: { depth: 5000000000 }\n",
            "limits: { costUsd: -1 }\n",
            "limits: 3\n",
            "autoApprove: { write: \"yes\" }\n",
            "autoApprove: yes\n",
            "autoApprove: { execute: { allow: [rm] } }\n",
            "autoApprove: { execute: { allow: [npm test] } }\n",
            "autoApprove: { execute: { allow: npm test } }\n",
            "autoApprove: { execute: { allow: ['echo $A'] } }\n",
            "autoApprove: { execute: { mode: al } }\n",
            "sandbox: { level: best1 }\n",
            "protected: infra/\n",
            "protected: my dir/secret.txt\n",
            "sandbox: { writable: ~/my dir }\n",
            "autoApprove: { execute: { presets: 'cargo, git-write' } }\n",
            "mode: 3\n",
            "mode: [code]\n",
            "modes: { code: fast }\n",
            "intents: { require: alll }\n",
            "redactSecrets: no way\n",
            "roo:\n  profiles:\n    main:\n      model: x\n",
        ]), @r#"
        /c/config.yaml:3:13: limits.requests: must be a whole number, not the string "many"
        /c/config.yaml:1:21: limits.requests: must be a number of at least 0, not -1
        /c/config.yaml:1:18: limits.depth: must be a whole number, not 1.5
        /c/config.yaml:1:18: limits.depth: must be a number of at least 0 and at most 4294967295, not 5000000000
        /c/config.yaml:1:20: limits.costUsd: must be an amount of 0 or more, not -1
        /c/config.yaml:1:9: limits: must have keys below it, such as `requests: 200`, and is 3
        /c/config.yaml:1:23: autoApprove.write: must be true or false, not the string "yes"
        /c/config.yaml:1:14: autoApprove: must have keys below it, such as `read: true`, and is the string "yes"
        /c/config.yaml:1:35: autoApprove.execute.allow[0]: must be a list, not the string "rm"; write each word by itself: [rm]
        /c/config.yaml:1:35: autoApprove.execute.allow[0]: must be a list, not the string "npm test"; write each word by itself: [npm, test]
        /c/config.yaml:1:34: autoApprove.execute.allow: must be a list, not the string "npm test"; write each word by itself: [[npm, test]]
        /c/config.yaml:1:35: autoApprove.execute.allow[0]: must be a list, not the string "echo $A"; write each word by itself: [echo, "$A"]
        /c/config.yaml:1:33: autoApprove.execute.mode: must be one of `ask`, `rules`, `confined`, not "al"
        /c/config.yaml:1:19: sandbox.level: must be one of `off`, `best`, `L2`, `namespaces`, `staged`, not "best1"; did you mean `best`?
        /c/config.yaml:1:12: protected: must be a list, not the string "infra/"; write it as: [infra/]
        /c/config.yaml:1:12: protected: must be a list, not the string "my dir/secret.txt"; write it as: ["my dir/secret.txt"]
        /c/config.yaml:1:22: sandbox.writable: must be a list, not the string "~/my dir"; write it as: ["~/my dir"]
        /c/config.yaml:1:36: autoApprove.execute.presets: must be a list, not the string "cargo, git-write"; write it as: [cargo, git-write]
        /c/config.yaml:1:7: mode: must be a string, not 3; put it in quotes
        /c/config.yaml:1:7: mode: must be a string, not a list
        /c/config.yaml:1:16: modes.code: must have keys below it, and is the string "fast"
        /c/config.yaml:1:21: intents.require: must be one of `destructive`, `all`, not "alll"; did you mean `all`?
        /c/config.yaml:1:16: redactSecrets: must be true or false, not the string "no way"
        /c/config.yaml:4:7: profiles.main: `provider` is missing
        "#);
        let error = load([options(json!({ "roo": { "autoApprove": { "execute": { "allow": ["rm"] } } } }))]);
        assert!(
            error
                .unwrap_err()
                .to_string()
                .starts_with("initializationOptions: autoApprove.execute.allow[0]: ")
        );
    }

    #[test]
    fn what_stands_in_a_profile_is_not_repeated_where_it_is_wrong() {
        let told = told(&[
            "profiles: sk-\"1\n",
            "profiles: {x: sk-1}\n",
            "profiles: {x: {headers: sk-1}}\n",
            "profiles: {x: {provider: openai, headers: sk-1}}\n",
            "profiles: {x: {provider: openai, headers: [sk-1]}}\n",
            "profiles: {x: {provider: openai, headers: {a: [sk-1]}}}\n",
            "profiles: {x: {provider: openai, maxTokens: sk-1}}\n",
            "profiles: {x: {provider: openai, maxTokens: -123456}}\n",
            "profiles: {x: {provider: openai, apiKeyEnv: 123456}}\n",
            "profiles: {x: {provider: openai, apiKeyCommand: []}}\n",
            "profiles: {x: {provider: openai, pricePerMillion: {input: -123456}}}\n",
            "profiles: {x: {provider: openai, condense: sk-1}}\n",
            "profiles: {x: {provider: openai, condense: {threshold: 123456}}}\n",
            "profiles: {x: {provider: openai, reasoning: hig}}\n",
            "profiles: {x: {provider: sk-1}}\n",
        ]);
        assert!(!told.contains("sk-") && !told.contains("123456"), "{told}");
        insta::assert_snapshot!(told, @r#"
        /c/config.yaml:1:11: profiles: must have keys below it, and is a string
        /c/config.yaml:1:15: profiles.x: must have keys below it, and is a string
        /c/config.yaml:1:25: profiles.x.headers: must have keys below it, and is a string
        /c/config.yaml:1:43: profiles.x.headers: must have keys below it, and is a string
        /c/config.yaml:1:43: profiles.x.headers: must have keys below it, and is a list
        /c/config.yaml:1:47: profiles.x.headers.a: must be a string, not a list
        /c/config.yaml:1:45: profiles.x.maxTokens: must be a whole number, not a string
        /c/config.yaml:1:45: profiles.x.maxTokens: must be a number of at least 0
        /c/config.yaml:1:45: profiles.x.apiKeyEnv: must be a string, not a number; put it in quotes
        /c/config.yaml:1:49: profiles.x.apiKeyCommand: must name a program, then its arguments
        /c/config.yaml:1:59: profiles.x.pricePerMillion.input: must be an amount of 0 or more
        /c/config.yaml:1:44: profiles.x.condense: must be one of `auto`, `off`, or an object
        /c/config.yaml:1:56: profiles.x.condense.threshold: must be a number of at least 5 and at most 100
        /c/config.yaml:1:45: profiles.x.reasoning: must be one of `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`; did you mean `high`?
        /c/config.yaml:1:26: profiles.x.provider: must be one of `anthropic`, `openai`, `openai-responses`, `gemini`, `openrouter`, `ollama`, `lm-studio`, `llama-cpp`, `vllm`, `litellm`, `scripted`
        "#);
        let fields = object(json!({ "provider": "openai", "headers": "sk-1" }));
        assert_eq!(profile_of(&fields).unwrap_err(), "headers must have keys below it, and is a string");
    }

    #[test]
    fn a_profile_that_is_named_and_not_there_is_told() {
        let file = yaml(
            "profiles:\n  a: { provider: openai, fallback: spar }\n  b: { provider: openai, condense: { profile: writer } }\n",
        );
        let client = options(json!({ "roo": { "profiles": {
            "spare": { "provider": "openai" }, "d": { "provider": "openai", "fallback": "a" },
        } } }));
        let told: Vec<String> =
            load([file, client]).unwrap().warnings.iter().map(SettingsProblem::to_string).collect();
        let expected = [
            "/c/config.yaml:2:36: profiles.a.fallback: there is no profile `spar`, so none takes over when its model fails; \
             did you mean `spare`?",
            "/c/config.yaml:3:47: profiles.b.condense.profile: there is no profile `writer`, so its conversations \
             can't be summarised",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_number_beyond_all_bounds_is_told_in_plain_words() {
        for number in ["99999999999999999999", "-99999999999999999999"] {
            let error =
                Layer::from_yaml(Path::new("/c/config.yaml"), &format!("limits: {{requests: {number}}}\n"));
            assert_eq!(
                error.unwrap_err().to_string(),
                "/c/config.yaml:1:20: limits.requests: this number is too large"
            );
        }
    }

    #[test]
    fn an_empty_command_prefix_is_refused() {
        // It would allow every command.
        let error = load([yaml("autoApprove: {execute: {allow: [[ls], []]}}\n")]).unwrap_err();
        assert_eq!(error.path, "autoApprove.execute.allow");
        assert_eq!(error.problem.message, "entry 2 doesn't name a program");
    }

    #[test]
    fn a_star_denies_every_command_and_allows_none() {
        let error = load([yaml("autoApprove: {execute: {allow: [[ls], ['*']]}}\n")]).unwrap_err();
        assert_eq!(error.path, "autoApprove.execute.allow");
        assert!(error.problem.message.contains("entry 2 would match every command"), "{error}");
        assert!(load([yaml("autoApprove: {execute: {deny: [['*']]}}\n")]).is_ok());
    }

    #[test]
    fn a_variable_with_its_value_is_an_error_that_does_not_repeat_it() {
        let error = load([yaml("sandbox:\n  env: [CI, TOKEN=sk-1]\n")]).unwrap_err();
        assert_eq!(
            (error.problem.start(), error.path.as_str()),
            (Some(Position { line: 2, column: 13 }), "sandbox.env[1]")
        );
        assert!(
            error.problem.message.starts_with("expected the name of a variable without a value"),
            "{error}"
        );
        assert!(!error.to_string().contains("sk-1"));
    }

    #[test]
    fn a_workspace_tightens_which_commands_ask_and_never_loosens_it() {
        let unset = String::new();
        for (user, workspace, expected) in [
            ("confined", "ask", "ask"),
            ("confined", "rules", "rules"),
            ("confined", "confined", "confined"),
            ("rules", "confined", "rules"),
            ("rules", "ask", "ask"),
            ("ask", "confined", "ask"),
            ("ask", "rules", "ask"),
            // An unset mode lets the user be asked for the project; a workspace can forbid that, not answer it.
            ("", "confined", ""),
            ("", "rules", "rules"),
            ("confined", "", "confined"),
            ("ask", "", "ask"),
        ] {
            let keys = |mode: &str| match mode {
                "" => json!({ "autoApprove": { "execute": { "mode": null } } }),
                mode => json!({ "autoApprove": { "execute": { "mode": mode } } }),
            };
            let mut settings = load([Layer::from_command_line(object(keys(user)))]).unwrap().settings;
            tighten_by(&mut settings, &Layer::from_workspace(&keys(workspace)).unwrap().unwrap()).unwrap();
            let found = serde_json::to_value(settings.auto_approve.execute.mode).unwrap();
            assert_eq!(found.as_str().unwrap_or(&unset), expected, "{user} tightened by {workspace}");
        }
    }

    #[test]
    fn a_workspace_takes_variables_away_and_masks_more() {
        let tightened = |workspace: Value| {
            let mut settings =
                load([yaml("sandbox: {env: [A, 'B_*', '!B_C']}\nredactSecrets: false\n")]).unwrap().settings;
            tighten_by(&mut settings, &Layer::from_workspace(&workspace).unwrap().unwrap()).unwrap();
            let env: Vec<String> = settings.sandbox.env.iter().map(ToString::to_string).collect();
            (env.join(" "), settings.redact_secrets)
        };
        assert_eq!(tightened(json!({})), ("A B_* !B_C".to_owned(), false));
        assert_eq!(tightened(json!({ "sandbox": { "env": ["A", "X", "*"] } })), ("A !B_C".to_owned(), false));
        assert_eq!(tightened(json!({ "sandbox": { "env": ["A", "!D"] } })), ("A !B_C !D".to_owned(), false));
        assert_eq!(tightened(json!({ "redactSecrets": true })), ("A B_* !B_C".to_owned(), true));
    }

    #[test]
    fn a_workspace_turns_the_browser_off_and_never_on() {
        for (user, workspace, expected) in [(true, false, false), (false, true, false), (true, true, true)] {
            let mut settings = load([yaml(&format!("browser: {{enabled: {user}}}\n"))]).unwrap().settings;
            let answer = json!({ "browser": { "enabled": workspace } });
            tighten_by(&mut settings, &Layer::from_workspace(&answer).unwrap().unwrap()).unwrap();
            assert_eq!(settings.browser.enabled, expected);
        }
    }

    #[test]
    fn a_limit_on_cost_is_a_real_amount() {
        for text in ["limits: {costUsd: -1}\n", "limits: {costUsd: x}\n"] {
            assert_eq!(load([yaml(text)]).unwrap_err().path, "limits.costUsd");
        }
    }

    #[test]
    fn a_broken_file_is_an_error_with_place() {
        let error = Layer::from_yaml(Path::new("/c/config.yaml"), "mode: ask\nmode: code\n").unwrap_err();
        assert_eq!(error.to_string(), "/c/config.yaml:2:1: duplicate key 'mode'; keep one");
        for text in ["mode: code\nlimits:\n\trequests: 3\n", "mode: code\nlimits:\n  \trequests: 3\n"] {
            let error = Layer::from_yaml(Path::new("/c/config.yaml"), text).unwrap_err().to_string();
            assert!(error.starts_with("/c/config.yaml:3:"), "{error}");
            assert!(error.ends_with(": line 3 begins with a tab; YAML takes spaces only"), "{error}");
        }
        let error = Layer::from_yaml(Path::new("/c/config.yaml"), "- mode\n").unwrap_err();
        assert_eq!(error.to_string(), "/c/config.yaml:1:1: expected settings as `key: value`");
    }

    #[test]
    fn settings_count_below_roo_and_beside_it() {
        let text = "roo:\n  mode: ask\nprofile: own\nlimits:\n  requests: x\n";
        let problem = load([yaml(text)]).unwrap_err();
        assert_eq!(problem.problem.start(), Some(Position { line: 5, column: 13 }), "beside `roo`");
        let options =
            options(json!({ "roo": { "mode": "ask" }, "profile": "own", "mode": "code", "other": 1 }));
        let settings = load([options]).unwrap().settings;
        assert_eq!((settings.mode.as_str(), settings.profile.as_str()), ("ask", "own"));
    }

    #[test]
    fn unknown_keys_are_warnings() {
        let loaded = load([
            yaml("modes: {code: {profil: x}}\nlimts: {}\n"),
            options(json!({ "roo": { "mode": "ask", "extra": null, "limits": { "a": 1 } }, "other": 1 })),
        ])
        .unwrap();
        let warnings: Vec<String> =
            loaded.warnings.iter().map(|w| format!("{}: {}", w.origin, w.path)).collect();
        assert_eq!(
            warnings,
            ["/c/config.yaml: modes.code.profil", "/c/config.yaml: limts", "initializationOptions: limits.a",]
        );
        assert_eq!(loaded.warnings[1].problem.start(), Some(Position { line: 2, column: 1 }));
    }

    #[test]
    fn the_defaults_are_known_settings() {
        let defaults = to_object(&Settings::default());
        assert_eq!(load([Layer::from_command_line(defaults)]).unwrap().warnings, []);
    }

    #[test]
    fn a_profile_is_replaced_as_a_whole() {
        let file = yaml("profiles: {a: {provider: openai, apiKeyEnv: KEY}, b: {provider: scripted}}\n");
        let client =
            options(json!({ "profiles": { "a": { "provider": "openai", "baseUrl": "http://evil" } } }));
        let settings = load([file, client]).unwrap().settings;
        assert_eq!(settings.profiles["a"].api_key_env, None);
        assert!(settings.profiles.contains_key("b"));
    }

    #[test]
    fn a_layer_tells_where_it_sets_something() {
        let file = yaml("limits:\n  requests: 10\n  depth: null\n");
        assert_eq!(file.tells("limits.requests").as_deref(), Some("/c/config.yaml:2"));
        assert_eq!((file.tells("limits.depth"), file.tells("limits.branches")), (None, None));
        let flags = Layer::from_command_line(object(json!({ "autoApprove": { "write": true } })));
        assert_eq!(flags.tells("autoApprove.write").as_deref(), Some("command line"));
    }

    #[test]
    fn null_counts_as_missing() {
        let file = yaml("profiles: {b: {provider: scripted}}\n");
        let client = options(json!({ "roo": {
            "mode": null, "limits": { "depth": null },
            "profiles": { "a": { "provider": "openai", "timeouts": null }, "b": null },
        } }));
        let settings = load([file, client]).unwrap().settings;
        assert_eq!((settings.mode.as_str(), settings.limits.depth), ("new-task", 8));
        assert_eq!(settings.profiles["a"].timeouts, Timeouts::default());
    }

    #[test]
    fn options_of_another_server_are_no_layer() {
        for value in [json!(null), json!({}), json!({ "cargo": {} }), json!([1])] {
            assert!(Layer::from_initialization_options(&value).unwrap().is_none(), "{value}");
        }
        assert!(Layer::from_initialization_options(&json!({ "roo": 1 })).is_err());
        assert!(Layer::from_initialization_options(&json!({ "roo": {} })).unwrap().is_some());
    }

    #[test]
    fn a_missing_or_empty_file_is_no_layer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        assert!(Layer::read(&path).unwrap().is_none());
        std::fs::write(&path, "# mode: ask\n").unwrap();
        assert!(Layer::read(&path).unwrap().is_none());
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(Layer::read(&path).unwrap_err().problem.message.starts_with("can't be read"));
        std::fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let refused = Layer::read(&path).unwrap_err().problem.message;
        assert_eq!(refused, "can't be read: it is not a regular file");
    }

    #[test]
    fn a_workspace_can_take_away() {
        let mut settings = load([yaml(
            "autoApprove: {write: true, execute: {allow: [[cargo], [git, log, -p], [make]], deny: [[rm]]}}\n\
             limits: {commandTimeoutSec: 60}\nprotected: [infra/]\n",
        )])
        .unwrap()
        .settings;
        let answer = json!({
            "autoApprove": {
                "read": false,
                "execute": { "allow": [["cargo", "test"], ["git", "log"], ["ls"]], "deny": [["curl"]] },
            },
            "intents": { "require": "all" },
            "limits": { "requests": 5, "commandTimeoutSec": 90 },
            "protected": ["deploy/", "infra/"],
            "sandbox": { "level": "staged" },
            "index": { "enabled": false },
        });
        let workspace = Layer::from_workspace(&answer).unwrap().unwrap();
        tighten_by(&mut settings, &workspace).unwrap();
        assert!(!settings.auto_approve.read);
        assert!(settings.auto_approve.write, "what the workspace leaves out stays");
        let execute = &settings.auto_approve.execute;
        assert_eq!(execute.allow, argv(&[&["cargo", "test"], &["git", "log", "-p"]]));
        assert_eq!(execute.deny, argv(&[&["rm"], &["curl"]]));
        assert_eq!(settings.intents.require, RequireIntent::All);
        assert_eq!((settings.limits.requests, settings.limits.command_timeout_sec), (5, Some(60)));
        assert_eq!(settings.protected, ["infra/", "deploy/"]);
        assert_eq!(settings.sandbox.level, SandboxLevel::Staged);
        assert!(!settings.index.enabled);
    }

    #[test]
    fn a_misspelt_key_is_told_with_the_one_that_it_may_be_meant_for() {
        let text = "profils: {default: {provider: scripted}}\nmodes: {code: {profil: x}}\ncolour: red\n";
        let told: Vec<String> =
            load([yaml(text)]).unwrap().warnings.iter().map(SettingsProblem::to_string).collect();
        let expected = [
            "/c/config.yaml:1:1: profils: unknown key, ignored; did you mean `profiles`?",
            "/c/config.yaml:2:16: modes.code.profil: unknown key, ignored; did you mean `profile`?",
            "/c/config.yaml:3:1: colour: unknown key, ignored",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn where_keys_of_providers_go_is_told_without_the_key() {
        for key in ["apiKey", "api_key", "apikey"] {
            let text = format!("profiles: {{ a: {{ provider: openai, {key}: sk-1 }} }}\n");
            let told: Vec<String> =
                load([yaml(&text)]).unwrap().warnings.iter().map(SettingsProblem::to_string).collect();
            let expected = format!("/c/config.yaml:1:36: profiles.a.{key}: {API_KEY}");
            assert_eq!(told, [expected]);
        }
    }

    #[test]
    fn protected_names_are_patterns() {
        let error = load([yaml("protected: [infra/, 'a{']\n")]).unwrap_err().to_string();
        assert!(
            error.starts_with("/c/config.yaml:1:12: protected: entry 2 is not a valid pattern: "),
            "{error}"
        );
        let error = load([yaml("protected: [' ']\n")]).unwrap_err().to_string();
        assert!(error.ends_with("protected: entry 1 is not a pattern"), "{error}");
    }

    #[test]
    fn a_workspace_can_not_give() {
        let before =
            load([yaml("limits: {requests: 5, depth: 1}\nintents: {require: all}\nprotected: [infra/]\nindex: {enabled: false}\n")])
                .unwrap()
                .settings;
        let mut settings = before.clone();
        let answer = json!({
            "mode": "debug", "profile": "evil", "profiles": { "evil": { "provider": "openai" } },
            "autoApprove": { "write": true, "mcp": true, "execute": { "allow": [["sh"]], "deny": [] } },
            "intents": { "require": "destructive" },
            "limits": { "requests": 1000, "costUsd": 99, "mistakes": 9, "depth": 9, "branches": 999 },
            "protected": [],
            "sandbox": { "level": "off", "writable": ["/"], "readable": ["/"], "env": ["*"] },
            "redactSecrets": false,
            "index": { "enabled": true, "embeddings": "evil" },
            "imageGeneration": { "profile": "evil", "api": "chat" },
            "ipcSocket": "/evil/roo.sock",
            "daemon": { "resumeAfterCrash": true, "notifications": "notify-send" },
        });
        let workspace = Layer::from_workspace(&answer).unwrap().unwrap();
        tighten_by(&mut settings, &workspace).unwrap();
        assert_eq!(settings, before);
    }
}
