//! `roo-lsp worker`: requests that others submit.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use roo_formats::config::{Directories, Layer, Settings};
use roo_text::render::exact_line;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::arguments::{self, Common, Remote};
use super::session::{SessionContext, SessionError, named_settings};
use super::signals::{Signal, Signals};
use super::{CliError, Ending, nats, run, terminal};
use crate::nats::Storage;
use crate::worker::{self, RepositoryAddress, SubmittedLimits, WhenAsked, WorkerSetup};
use roo_engine::engine::Engine;

/// Works until a signal.
pub(super) async fn worker(common: Common, worker: arguments::Worker) -> Result<Ending, CliError> {
    let mut signals = Signals::listen()?;
    let mut directories =
        Directories::from_environment(|name| std::env::var_os(name)).map_err(SessionError::from)?;
    if let Some(path) = &common.config {
        directories.settings_file = Some(named_settings(path)?);
    }
    let name = worker_name();
    let repositories = worker.allow_repository.iter().map(|address| {
        let parsed = RepositoryAddress::parse(address);
        // It may hold a password.
        parsed.map_err(|error| {
            CliError::Usage(format!("an address after --allow-repository can't be used: {error}"))
        })
    });
    let repositories: Vec<RepositoryAddress> = repositories.collect::<Result<_, _>>()?;
    let connection = nats::connect(&worker.nats, &format!("roo-lsp worker {name}")).await?;
    let storage = Storage::open(&connection).await?;
    let allowed = run::allowed(&worker.allow);
    let (state, own) = (directories.state.clone(), directories.clone());
    let open = move |folder: &Path, limits: SubmittedLimits| {
        open(&own, folder, &allowed, limits).map_err(|error| error.to_string())
    };
    let setup = WorkerSetup {
        name: name.clone(),
        queue: worker.queue.clone(),
        directory: worker.directory,
        state,
        jobs: usize::from(worker.jobs),
        when_asked: match worker.on_ask {
            Remote::Ask => WhenAsked::Ask,
            Remote::Deny => WhenAsked::Deny,
            Remote::Allow => WhenAsked::Allow,
        },
        answer_time: Duration::from_secs(worker.answer_time),
        patience: Duration::from_secs(worker.patience),
        deliveries: worker.deliveries,
        repositories,
        open: Arc::new(open),
    };
    writeln!(
        terminal::stderr(),
        "roo-lsp: the worker {} takes work of the queue {}",
        exact_line(&name),
        worker.queue
    )?;
    let drain = CancellationToken::new();
    let told_to_end = {
        let drain = drain.clone();
        async move {
            let signal = signals.next().await;
            drain.cancel();
            signal
        }
    };
    let told_to_end = tokio::spawn(told_to_end);
    worker::serve(storage, setup, drain).await?;
    Ok(match told_to_end.await {
        Ok(Signal::Interrupt) => Ending::Interrupted,
        Ok(Signal::Terminate) => Ending::Terminated,
        Err(_) => Ending::Done,
    })
}

/// The machine's name and the number of the process.
fn worker_name() -> String {
    let machine = rustix::system::uname();
    format!("{}-{}", machine.nodename().to_string_lossy(), std::process::id())
}

/// The engine of a checkout. The user's settings count, and no limit of a submission that is laxer.
fn open(
    directories: &Directories,
    folder: &Path,
    allowed: &Map<String, Value>,
    limits: SubmittedLimits,
) -> Result<Engine, CliError> {
    let context = SessionContext { directories: directories.clone(), folder: folder.to_owned() };
    let mut flags = allowed.clone();
    let own = context.load(None).map_err(SessionError::from)?.settings;
    let tighter = tighter(&own, limits);
    if !tighter.is_empty() {
        flags.insert("limits".to_owned(), Value::Object(tighter));
    }
    let settings = context.live_settings(Layer::from_command_line(flags))?;
    Ok(context.engine(settings)?)
}

/// The limits that a submission tightens.
fn tighter(settings: &Settings, limits: SubmittedLimits) -> Map<String, Value> {
    let requests = limits.requests.filter(|requests| *requests < settings.limits.requests);
    let cost = limits.cost_usd.filter(|cost| *cost >= 0.0 && *cost < settings.limits.cost_usd);
    let entries =
        [("requests", requests.map(|number| json!(number))), ("costUsd", cost.map(|cost| json!(cost)))];
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submission_tightens_limits_and_loosens_none() {
        let settings = Settings::default();
        let limits = SubmittedLimits { requests: Some(10), cost_usd: Some(1000.0) };
        assert_eq!(Value::Object(tighter(&settings, limits)), json!({ "requests": 10 }));
        let limits = SubmittedLimits { requests: Some(100_000), cost_usd: Some(-1.0) };
        assert!(tighter(&settings, limits).is_empty());
    }
}
