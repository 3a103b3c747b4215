//! `roo-lsp demo`: a whole task on a sample project, with the real engine, gate and tools, and the
//! embedded model. No key, no network.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::arguments::{Demo, Format, OnAsk};
use super::run::{Viewer, scripted_profile, watch};
use super::session::Surroundings;
use super::{CliError, Ending};
use crate::config::{Directories, Layer, load};
use crate::engine::event::Event;
use crate::protocol::task::TaskStartParams;
use crate::store::RequestLog;

/// The sample project: a boundary error in a small library, and a test that shows it.
const PROJECT: [(&str, &str); 2] = [
    ("lib/pages.sh", include_str!("demo/project/lib/pages.sh")),
    ("test.sh", include_str!("demo/project/test.sh")),
];
const SCRIPT: &str = include_str!("demo/script.yaml");
const PROMPT: &str = "A test of this project fails. Find out why, and fix it.";

/// Plays the demo. It fails when anything in it does not really work.
pub(super) async fn demo(demo: Demo) -> Result<Ending, CliError> {
    let place = Place::new(demo.keep)?;
    let ending = play(&place.path).await;
    let removed = place.finish();
    let ending = ending?;
    removed?;
    Ok(ending)
}

/// Where the demo happens.
struct Place {
    path: PathBuf,
    keep: bool,
}

impl Place {
    fn new(keep: Option<PathBuf>) -> Result<Self, CliError> {
        let kept = keep.is_some();
        let path = keep.unwrap_or_else(|| {
            std::env::temp_dir().join(format!("roo-lsp-demo-{}", uuid::Uuid::new_v4().simple()))
        });
        fs::create_dir_all(&path).map_err(|error| cannot("create", &path, &error))?;
        let path = path.canonicalize().map_err(|error| cannot("find", &path, &error))?;
        Ok(Self { path, keep: kept })
    }

    fn finish(self) -> Result<(), CliError> {
        if self.keep {
            writeln!(io::stderr(), "The project and its log are in {}.", self.path.display())?;
            return Ok(());
        }
        fs::remove_dir_all(&self.path).map_err(|error| cannot("remove", &self.path, &error))
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::Other(format!("can't {what} {}: {error}", path.display()))
}

async fn play(place: &Path) -> Result<Ending, CliError> {
    let project = place.join("project");
    for (name, text) in PROJECT {
        write(&project.join(name), text)?;
    }
    let script = place.join("script.yaml");
    write(&script, SCRIPT)?;

    let surroundings = Surroundings {
        directories: Directories { config: place.join("config"), state: place.join("state") },
        folder: project.clone(),
        config_file: place.join("config.yaml"),
    };
    let mut keys = serde_json::Map::new();
    keys.insert("profiles".into(), json!({ "default": scripted_profile(&script) }));
    let settings = load([Layer::from_command_line(keys)]).map_err(super::SessionError::from)?.settings;
    let engine = Arc::new(surroundings.engine(settings)?);

    let mut out = io::stderr();
    writeln!(
        out,
        "A sample project with a failing test, and the embedded model. Nothing leaves this machine."
    )?;
    writeln!(
        out,
        "Reading is allowed by the settings; edits and commands are asked for, and the demo allows them.\n"
    )?;
    let task = engine.start(TaskStartParams { prompt: PROMPT.into(), ..TaskStartParams::default() })?.task_id;
    let follower = engine.follow(&task, 0).await?;
    let ending = watch(&engine, &task, follower, Viewer::new(Format::Text, OnAsk::Allow, false)).await?;
    engine.shutdown().await;
    drop(engine);

    let directory = surroundings.state().request(&task);
    let loaded = RequestLog::open::<Event>(directory)?.1;
    if let Some(damage) = loaded.damage.first() {
        return Err(CliError::Other(format!("the log of the demo is damaged: {damage}")));
    }
    writeln!(out, "\nThe log holds {} events; numbers and checksums are right.", loaded.records.len())?;
    Ok(ending)
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| cannot("create", parent, &error))?;
    }
    fs::write(path, text).map_err(|error| cannot("write", path, &error))
}
