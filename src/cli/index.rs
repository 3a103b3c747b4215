//! `roo-lsp index`: the code index of the workspace, looked at, built and removed.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::arguments::{Common, IndexCommand};
use super::session::SessionContext;
use super::signals::{Signal, Signals};
use super::{CliError, Ending, terminal};
use crate::code_index::code_index;
use roo_formats::config::Settings;
use roo_index::{CodeIndex, IndexStatus, Mask, SearchError};
use roo_sandbox::exec::redaction::TextMask;
use roo_sandbox::exec::{Environment, known_secrets};
use roo_text::render::exact_line;
use roo_workspace::Workspace;

/// Runs one of the subcommands of `index`.
pub(super) async fn index(common: Common, command: IndexCommand) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    let settings = Arc::new(context.settings(None)?);
    let parts = context.parts(Arc::new(Arc::clone(&settings)))?;
    let index = code_index(&parts);
    match command {
        IndexCommand::Status { json } => {
            let status = index.status().map_err(failed)?;
            let text = match json {
                true => json_of(status.as_ref()),
                false => page(status.as_ref(), settings.index.enabled),
            };
            terminal::stdout().write_all(text.as_bytes())?;
            Ok(Ending::Done)
        }
        IndexCommand::Build => build(&index, &settings, parts.workspace).await,
        IndexCommand::Clear => {
            let text = match index.clear().map_err(failed)? {
                true => "the index is removed\n",
                false => "there was no index\n",
            };
            terminal::stdout().write_all(text.as_bytes())?;
            Ok(Ending::Done)
        }
    }
}

fn failed(error: SearchError) -> CliError {
    CliError::Other(error.to_string())
}

async fn build(
    index: &CodeIndex,
    settings: &Settings,
    workspace: Arc<Workspace>,
) -> Result<Ending, CliError> {
    if !settings.index.enabled {
        return Err(CliError::Other("the index is off: `index.enabled` is false in the settings".to_owned()));
    }
    let mut signals = Signals::listen()?;
    let redact_secrets = settings.redact_secrets;
    let mask = TextMask::new(redact_secrets, || {
        known_secrets(&Environment::inherited(), workspace.roots().paths(), &[])
    });
    let mask: Mask = Arc::new(move |text: &str| mask.masked(text));
    let tenths = AtomicUsize::new(0);
    let report = |done: usize, total: usize| {
        let now = done * 10 / total;
        if tenths.fetch_max(now, Ordering::Relaxed) < now {
            // It doesn't matter if nobody can read it.
            let _ = writeln!(terminal::stderr(), "{done} of {total} files");
        }
    };
    let cancel = CancellationToken::new();
    let built = index.build(mask, &cancel, &report);
    let mut built = std::pin::pin!(built);
    let signal = tokio::select! {
        built = &mut built => return show_built(index, built.map_err(failed)?),
        signal = signals.next() => signal,
    };
    cancel.cancel();
    match built.await {
        // It was done by then.
        Ok(fault) => return show_built(index, fault),
        Err(SearchError::Cancelled) => {}
        Err(error) => return Err(failed(error)),
    }
    Ok(match signal {
        Signal::Interrupt => Ending::Interrupted,
        Signal::Terminate => Ending::Terminated,
    })
}

/// Shows what has been built.
fn show_built(index: &CodeIndex, embedder_fault: Option<String>) -> Result<Ending, CliError> {
    let status = index.status().map_err(failed)?;
    terminal::stdout().write_all(page(status.as_ref(), true).as_bytes())?;
    let Some(fault) = embedder_fault else { return Ok(Ending::Done) };
    writeln!(terminal::stderr(), "roo-lsp: code is ranked by words alone: {}", exact_line(&fault))?;
    Ok(Ending::Failed)
}

fn page(status: Option<&IndexStatus>, is_enabled: bool) -> String {
    let Some(status) = status else {
        return match is_enabled {
            true => {
                "there is no index yet: it is built when an agent searches, or by `roo-lsp index build`\n"
            }
            false => "there is no index, and none is built: `index.enabled` is false in the settings\n",
        }
        .to_owned();
    };
    let IndexStatus { files, total, left_out, chunks, vectors, bytes, is_complete } = status;
    let state = match is_complete {
        true => "complete".to_owned(),
        false => format!("{} % complete", status.percent()),
    };
    let mut text =
        format!("state    {state}\nfiles    {files} of {total}\nchunks   {chunks}\nvectors  {vectors}\n");
    text.push_str(&format!("size     {:.1} MiB\n", *bytes as f64 / f64::from(1 << 20)));
    if *left_out > 0 {
        text.push_str(&format!("left out {left_out} files: the workspace is too large\n"));
    }
    text
}

fn json_of(status: Option<&IndexStatus>) -> String {
    let value = status.map(|status| {
        json!({
            "isComplete": status.is_complete,
            "files": status.files,
            "total": status.total,
            "leftOut": status.left_out,
            "chunks": status.chunks,
            "vectors": status.vectors,
            "bytes": status.bytes,
        })
    });
    format!("{}\n", value.unwrap_or(json!(null)))
}
