//! Settings: their shape and defaults, the layers they come from, and where files live.
//!
//! Values only: the one file that is read is the user's `config.yaml`. How a profile becomes a model is in
//! `roo_model::providers`; what a limit or an approval rule leads to is decided where it is asked.

mod argv;
mod condense;
mod directories;
pub mod edit;
mod flow_depth;
mod layers;
mod model_catalogue;
mod model_version;
mod price;
mod profile;
mod provider;
mod settings;
mod settings_file;
mod source;
mod unknown_profile;
mod variables;
pub mod yaml;

use std::sync::LazyLock;

use crate::declaration::Declaration;

pub use condense::Condense;
pub use directories::{Directories, NoHome};
pub use layers::{Layer, Loaded, Origin, SettingsProblem, load, profile_of, read_settings, tighten_by};
pub use model_catalogue::CatalogueModel;
pub use model_version::ModelVersion;
pub use price::Price;
pub use profile::{Headers, Profile, Reasoning, Timeouts, ToolChoice};
pub use provider::{PROVIDERS, Provider, ProviderSpec, WireFormat};
pub use settings::{
    AutoApprove, BranchWorktrees, BrowserSettings, CONTEXT_COMMAND, DaemonSettings, DelegationSettings,
    Execute, ExecuteMode, ImageApi, ImageGenerationSettings, IndexSettings, IntentSettings, Limits,
    ModeSettings, Notifications, RequireIntent, RunContext, SandboxLevel, SandboxSettings, Settings,
    SystemContext,
};
pub use settings_file::SettingsFile;
pub use source::SettingsSource;
pub use unknown_profile::UnknownProfile;
pub use variables::{InvalidVariable, VariablePattern};

/// The format of `config.yaml`.
pub static SETTINGS: LazyLock<Declaration> = LazyLock::new(Declaration::of::<Settings>);

/// The JSON Schema of the settings, for editors.
pub fn settings_schema() -> serde_json::Value {
    schemars::schema_for!(Settings).into()
}
