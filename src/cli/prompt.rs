//! `roo-lsp prompt`: what a model is told before a task begins, and a prompt of one's own in its place.

use std::io::{self, Write as _};
use std::sync::Arc;

use futures_util::StreamExt as _;

use super::arguments::{Common, Prompt};
use super::modes::waiting;
use super::session::{SessionContext, environment};
use super::terminal;
use super::{CliError, Ending};
use roo_catalog::ToolProtocol;
use roo_engine::engine::clock::{Clock as _, SystemClock};
use roo_engine::engine::{Governed, Instructions, ToolSources};
use roo_engine::intent_store::Orchestration;
use roo_formats::config::{Profile, Settings, UnknownProfile};
use roo_formats::modes::Mode;
use roo_model::parser::StreamEvent;
use roo_model::prompts::{self, Authoring, Environment, OVERRIDE_LIMIT, Specification, UnfitPrompt};
use roo_model::providers::{self, AssistantBlock, Finish, Item, Model, ModelRequest, Output, Rendered};
use roo_protocol::ids::Digest;
use roo_workspace::{Contents, Purpose, ReadAccess, ReadError, Resolved, Workspace};

/// The largest specification document in bytes.
const DOCUMENT_LIMIT: u64 = 256 * 1024;
/// After how many bytes of an answer progress is told.
const PROGRESS_STEP: usize = 8 * 1024;

/// Prints the prompt of a mode, or has a model write the file that takes its place.
pub(super) async fn prompt(common: Common, prompt: Prompt) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    let settings = context.settings(None)?;
    let customization = context.customization()?;
    let modes = customization.modes_by(&settings);
    let unknown = |error| CliError::Usage(format!("{error}{}", waiting(&customization)));
    let mode = modes.find(&prompt.mode).map_err(unknown)?;
    let profile = settings.profile_of(&mode.slug).1;
    let protocol = prompt.protocol.map(ToolProtocol::from);
    let protocol = protocol.or(profile.map(Profile::tool_protocol)).unwrap_or_default();
    let choice = profile.map(Profile::tools).unwrap_or_default();
    let workspace = context.workspace()?;
    let orchestration = Orchestration::new(Arc::clone(&workspace), context.state().path());
    let governed = Governed { orchestration: &orchestration, require: settings.intents.require };
    let tools = ToolSources {
        has_code_index: settings.index.enabled,
        has_image_generation: settings.generates_images(),
        ..ToolSources::built_in(&choice)
    };
    let composed =
        Instructions::new(mode, &modes, protocol, tools, &customization, governed, &workspace).system;
    if prompt.write {
        write(mode, protocol, &composed, prompt.force, &settings, &workspace).await?;
        return Ok(Ending::Done);
    }
    let mut output = terminal::stdout();
    output.write_all(composed.as_bytes())?;
    if prompt.environment {
        let model = profile.and_then(|profile| profile.model.as_deref()).unwrap_or_default();
        let now = SystemClock.zoned();
        writeln!(output, "\n{}", prompts::environment(&Environment::new(&now, mode, model)))?;
    }
    Ok(Ending::Done)
}

/// Reasons why no prompt was written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteFailure {
    #[error(
        "{} not found in {folder}; a prompt is written from README.md, SYSTEM-PROMPTS.md and {specification}",
        names.join(", ")
    )]
    Missing { names: Vec<String>, folder: String, specification: String },
    #[error("{name} points outside the workspace and is not read")]
    Outside { name: String },
    #[error("{name} is hidden by .rooignore, or leads to a file that is, and is not sent to a model")]
    Ignored { name: String },
    #[error("{name} leads to {target}, which has the name of a secret, and is not sent to a model")]
    Secret { name: String, target: String },
    #[error("{name} has {size} bytes; a specification document may have {DOCUMENT_LIMIT}")]
    TooLarge { name: String, size: u64 },
    #[error("{name} is not a text file")]
    NotText { name: String },
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    #[error("{name} exists; --force replaces it")]
    Exists { name: String },
    #[error("{name} is a symlink or its path goes through one, so it is not written")]
    Linked { name: String },
    #[error("the mode '{mode}' can't work: {unknown}")]
    NoProfile { mode: String, unknown: UnknownProfile },
    #[error(transparent)]
    Model(#[from] providers::ModelError),
    #[error("the model's answer was cut off before its end; nothing was written")]
    Cut,
    #[error("the model's answer reached the output limit; raise `maxTokens` of the profile")]
    Length,
    #[error("the model refused to answer")]
    Refused,
    #[error("{0}; nothing was written")]
    Unfit(#[from] UnfitPrompt),
    #[error(transparent)]
    Path(#[from] roo_workspace::PathError),
    #[error(transparent)]
    Write(#[from] roo_workspace::WriteError),
}

/// Has the mode's model write the override from the documents, and puts it in its place.
async fn write(
    mode: &Mode,
    protocol: ToolProtocol,
    composed: &str,
    force: bool,
    settings: &Settings,
    workspace: &Workspace,
) -> Result<(), CliError> {
    let name = format!(".roo/system-prompt-{}", mode.slug);
    let (target, before) = target(workspace, &name, force).await?;
    let documents = documents(workspace, &mode.slug).await?;
    let model = model(settings, &mode.slug)?;
    let read: Vec<&str> = documents.iter().map(|(name, _)| name.as_str()).collect();
    progress(format_args!("{} writes {name} from {}", model.origin(), read.join(", ")))?;

    let documents: Vec<Specification<'_>> =
        documents.iter().map(|(name, text)| Specification { name, text }).collect();
    let request = prompts::authoring(mode, protocol, &documents, composed);
    let text = author(&*model, mode, request).await?;
    workspace.write(&target, before, &text, "roo-lsp prompt").await.map_err(WriteFailure::from)?;
    progress(format_args!("{} bytes written", text.len()))?;
    writeln!(terminal::stdout(), "{name}")?;
    Ok(())
}

/// The file to write, and the digest of what is there.
async fn target(
    workspace: &Workspace,
    name: &str,
    force: bool,
) -> Result<(Resolved, Option<Digest>), WriteFailure> {
    let target = workspace.resolve(name, Purpose::Write)?;
    // What a link points at was not named by the user.
    if target.display() != name {
        return Err(WriteFailure::Linked { name: name.to_owned() });
    }
    match workspace.read(&target).await {
        Err(ReadError::NotFound { .. }) => Ok((target, None)),
        Ok(_) if !force => Err(WriteFailure::Exists { name: name.to_owned() }),
        Ok(there) => Ok((target, Some(there.digest()))),
        Err(error) => Err(error.into()),
    }
}

/// The specification of a mode: name and text of each document.
async fn documents(workspace: &Workspace, slug: &str) -> Result<Vec<(String, String)>, WriteFailure> {
    let specification = format!("{}-MODE.md", slug.to_ascii_uppercase());
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in ["README.md", "SYSTEM-PROMPTS.md", &specification] {
        let name = name.to_owned();
        let place = workspace.resolve(&name, Purpose::Read)?;
        match workspace.read_access(&place) {
            ReadAccess::Free => {}
            ReadAccess::Ignored => return Err(WriteFailure::Ignored { name }),
            ReadAccess::Secret => return Err(WriteFailure::Secret { name, target: place.display() }),
            ReadAccess::Outside => return Err(WriteFailure::Outside { name }),
        }
        match workspace.read(&place).await {
            Ok(Contents::Text(text)) if text.lossy || !text.encoding.is_utf8() => {
                return Err(WriteFailure::NotText { name });
            }
            Ok(Contents::Text(text)) if text.text.len() as u64 > DOCUMENT_LIMIT => {
                return Err(WriteFailure::TooLarge { name, size: text.text.len() as u64 });
            }
            Ok(Contents::Text(text)) => found.push((name, text.text)),
            Ok(Contents::Binary { .. }) => return Err(WriteFailure::NotText { name }),
            Err(ReadError::NotFound { .. }) => missing.push(name),
            Err(ReadError::TooLarge { size, .. }) => return Err(WriteFailure::TooLarge { name, size }),
            Err(error) => return Err(error.into()),
        }
    }
    if missing.is_empty() {
        return Ok(found);
    }
    let folder = workspace.roots().paths().next().map(|path| path.display().to_string()).unwrap_or_default();
    Err(WriteFailure::Missing { names: missing, folder, specification })
}

fn model(settings: &Settings, slug: &str) -> Result<Arc<dyn Model>, WriteFailure> {
    let profile = settings.find_profile(settings.profile_of(slug).0);
    let profile = profile.map_err(|unknown| WriteFailure::NoProfile { mode: slug.to_owned(), unknown })?;
    Ok(providers::connect(profile, &environment)?)
}

/// A prompt that can be used. An answer with a fault is sent back once.
async fn author(model: &dyn Model, mode: &Mode, request: Authoring) -> Result<String, CliError> {
    let system: Arc<str> = request.system.into();
    let mut items = vec![Item::User { text: request.message, images: Vec::new() }];
    let first = ask(model, mode, Arc::clone(&system), items.clone()).await?;
    let unfit = match prompts::checked_override(&first, mode) {
        Ok(text) => return Ok(text),
        Err(unfit) => unfit,
    };
    let Some(correction) = unfit.correction() else { return Err(WriteFailure::from(unfit).into()) };
    progress(format_args!("{unfit}; asking once more"))?;
    items.push(Item::Assistant { blocks: vec![AssistantBlock::Text { text: first }], tail: None });
    items.push(Item::User { text: correction, images: Vec::new() });
    let second = ask(model, mode, system, items).await?;
    Ok(prompts::checked_override(&second, mode).map_err(WriteFailure::from)?)
}

/// The text of the model's answer. It is taken as it comes: the calls that it shows are examples.
async fn ask(model: &dyn Model, mode: &Mode, system: Arc<str>, items: Vec<Item>) -> Result<String, CliError> {
    let mut stream = model.stream(ModelRequest {
        system,
        items: items.into(),
        rendered: Rendered::default(),
        tail: None,
        tools: Arc::new([]),
        protocol: ToolProtocol::Native,
        mode: mode.slug.clone(),
        max_tokens: None,
        leaves_out_images: false,
    });
    let mut answer = String::new();
    let mut told = 0;
    while let Some(output) = stream.next().await {
        match output.map_err(WriteFailure::from)? {
            Output::Event(StreamEvent::Text(text)) => answer.push_str(&text),
            Output::Event(_) | Output::Usage(_) => {}
            Output::Finished(Finish::Done) => return Ok(answer),
            Output::Finished(Finish::Length) => return Err(WriteFailure::Length.into()),
            Output::Finished(Finish::Refused) => return Err(WriteFailure::Refused.into()),
        }
        if answer.len() > OVERRIDE_LIMIT {
            return Err(WriteFailure::from(UnfitPrompt::TooLarge { size: answer.len() }).into());
        }
        if answer.len() - told >= PROGRESS_STEP {
            told = answer.len();
            progress(format_args!("{told} bytes received"))?;
        }
    }
    Err(WriteFailure::Cut.into())
}

/// A line for whoever watches.
fn progress(text: std::fmt::Arguments<'_>) -> io::Result<()> {
    writeln!(terminal::stderr(), "roo-lsp: {text}")
}
