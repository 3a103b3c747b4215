//! `roo-lsp demo`: a whole task on a sample project, with the real engine, gate and tools, and the
//! embedded model. No key, no network.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::arguments::{Demo, Format, OnAsk};
use super::run::{Viewer, Watch, scripted_profile};
use super::session::Surroundings;
use super::signals::Signals;
use super::{CliError, Ending};
use crate::config::{Directories, Layer, load};
use crate::engine::event::Event;
use crate::protocol::task::{TaskStartParams, TaskStartResult};
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
        let path = match keep {
            Some(path) => {
                fs::create_dir_all(&path).map_err(|error| cannot("create", &path, &error))?;
                if fs::read_dir(&path).map_err(|error| cannot("look into", &path, &error))?.next().is_some() {
                    let text = format!("{} is not empty; name a new or an empty directory", path.display());
                    return Err(CliError::Other(text));
                }
                path
            }
            None => {
                let name = format!("roo-lsp-demo-{}", uuid::Uuid::new_v4().simple());
                let path = std::env::temp_dir().join(name);
                // A place for temporary files that isn't there is a mistake, not a wish.
                fs::create_dir(&path).map_err(|error| cannot("create", &path, &error))?;
                path
            }
        };
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
        directories: Directories { config: place.join("config"), state: place.join("state"), home: None },
        folder: project.clone(),
        config_file: place.join("config.yaml"),
    };
    let mut keys = serde_json::Map::new();
    keys.insert("profiles".into(), json!({ "default": scripted_profile(&script) }));
    let settings = load([Layer::from_command_line(keys)]).map_err(super::SessionError::from)?.settings;
    let engine = surroundings.engine(settings)?;

    let mut out = io::stderr();
    writeln!(
        out,
        "A sample project with a failing test, and the embedded model. Nothing leaves this machine."
    )?;
    writeln!(
        out,
        "Reading is allowed by the settings; edits and commands are asked for, and the demo allows them.\n"
    )?;
    let signals = Signals::listen()?;
    let TaskStartResult { task_id: task, urid } =
        engine.start(TaskStartParams { prompt: PROMPT.into(), ..TaskStartParams::default() })?;
    let follower = engine.follow(&task, 0).await?;
    let viewer = Viewer::new(Format::Text, OnAsk::Allow, false);
    let ending = Watch::new(&engine, task.clone(), urid, viewer, signals).follow(follower, None).await;
    engine.shutdown().await;
    drop(engine);
    let ending = ending?;

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
