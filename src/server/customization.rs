//! Modes and trust for clients: questions to [`crate::customization`] where they may block, and its problems
//! as diagnostics on the files themselves.

use std::path::PathBuf;
use std::sync::Arc;

use tower_lsp::jsonrpc::{Error, Result};
use tower_lsp::ls_types::{Diagnostic, DiagnosticSeverity, Uri};

use super::configuration::diagnostic_at;
use super::failure;
use super::session::{House, Session};
use crate::customization::{Customization, Grant, Problem, TrustError};
use crate::modes::Severity;
use crate::protocol::customization::TrustReport;
use crate::protocol::error::ErrorKind;
use crate::workspace::file_uri;

/// Asks something that reads the disk.
pub(super) async fn ask<T: Send + 'static>(
    house: &House,
    question: impl FnOnce(&Customization) -> T + Send + 'static,
) -> Result<T> {
    let customization = Arc::clone(&house.customization);
    let answer = tokio::task::spawn_blocking(move || question(&customization)).await;
    answer.map_err(|_| Error::internal_error())
}

/// Grants trust, and shows what is then wrong with the files that count.
pub(super) async fn grant(session: &Arc<Session>, house: &Arc<House>, grant: Grant) -> Result<TrustReport> {
    changed(session, house, move |customization| customization.grant(&grant)).await
}

/// Takes back the trust.
pub(super) async fn revoke(session: &Arc<Session>, house: &Arc<House>) -> Result<TrustReport> {
    changed(session, house, Customization::revoke).await
}

async fn changed(
    session: &Arc<Session>,
    house: &Arc<House>,
    change: impl FnOnce(&Customization) -> std::result::Result<TrustReport, TrustError> + Send + 'static,
) -> Result<TrustReport> {
    let report = ask(house, change).await?.map_err(|error| {
        let (kind, hint) = match &error {
            TrustError::NoFolder => (ErrorKind::WrongState, "Open a folder."),
            TrustError::NothingPending { .. } => (ErrorKind::NotFound, "roo/trust/get shows what waits."),
            TrustError::Changed { .. } => (ErrorKind::Mismatch, "Show the file again and ask again."),
            TrustError::Damaged { .. } | TrustError::Write { .. } => {
                (ErrorKind::Storage, "Look at the disk and the rights of the state directory.")
            }
        };
        failure(kind, error.to_string(), None, hint)
    })?;
    let (this, house) = (Arc::clone(session), Arc::clone(house));
    session.spawn(async move { publish_problems(&this, &house).await });
    Ok(report)
}

/// A document was saved: if it brings modes, it is looked at again.
pub(super) fn saved(session: &Arc<Session>, path: PathBuf) {
    let this = Arc::clone(session);
    session.spawn(async move {
        if let Ok(house) = this.house().await
            && house.customization.mode_files().contains(&path)
        {
            publish_problems(&this, house).await;
        }
    });
}

/// Shows what is wrong with each file that brings modes, in that file.
pub(super) async fn publish_problems(session: &Session, house: &House) {
    let found = ask(house, |customization| {
        let problems = customization.problems();
        let of = |path: &PathBuf| {
            problems.iter().filter(|problem| problem.file == *path).map(diagnostic).collect()
        };
        let mut files = customization.mode_files();
        files.retain(|path| path.exists());
        files.into_iter().map(|path| (of(&path), path)).collect()
    });
    let Ok(found): Result<Vec<(Vec<Diagnostic>, PathBuf)>> = found.await else { return };
    for (diagnostics, path) in found {
        if let Ok(uri) = file_uri(&path).parse::<Uri>() {
            session.client.publish_diagnostics(uri, diagnostics, None).await;
        }
    }
}

fn diagnostic(problem: &Problem) -> Diagnostic {
    let severity = match problem.severity {
        Severity::Error => DiagnosticSeverity::ERROR,
        Severity::Warning => DiagnosticSeverity::WARNING,
    };
    diagnostic_at(problem.position, severity, problem.message.clone())
}
