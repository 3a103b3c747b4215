//! The features of a connection that begin by themselves, once its engine is there: what is shown of tasks, diagnostics, and the
//! words to its user about settings, folders and what an earlier server left.

use std::sync::Arc;

use tokio::sync::watch;
use tower_lsp::ls_types::MessageType;
use tower_lsp::ls_types::notification::Notification;

use super::configuration::SettingsReport;
use super::session::{Session, WorkspaceServices};
use super::subscription::Requests;
use super::{config_files, delivery, progress};
use crate::live_settings::Configured;
use roo_protocol::PROTOCOL_VERSION;
use roo_protocol::settings::SettingsChangedParams;

/// Starts all of them. `lost` says which folders can't be used.
pub(super) fn begin(session: &Arc<Session>, services: &Arc<WorkspaceServices>, lost: Vec<String>) {
    accompany(session, services);
    session.spawn(Arc::clone(&services.settings).follow_saving());
    // Before anybody can change them.
    let (changes, first) = (services.settings.changes(), services.settings.newest());
    let (session, services) = (Arc::clone(session), Arc::clone(services));
    tokio::spawn(async move {
        let mut report = SettingsReport::default();
        introduce(&session, &first, &mut report, lost).await;
        if let Some(problem) = &services.ipc.problem {
            session.tell(MessageType::WARNING, problem).await;
        }
        if let Some(notice) = services.engine.rules().notice() {
            session.tell(MessageType::WARNING, &notice).await;
        }
        recover(&session, &services).await;
        config_files::refresh(&session, &services).await;
        config_files::watch(&session).await;
        let this = Arc::clone(&session);
        session.spawn(async move { follow_settings(&this, &services, &first, changes, report).await });
    });
}

/// Starts what every client, and what a plain one, is shown of itself.
fn accompany(session: &Arc<Session>, services: &Arc<WorkspaceServices>) {
    let Some(negotiated) = session.negotiated() else { return };
    if negotiated.progress {
        // From before the first task, so that none is missed.
        let requests = Requests::new(&services.engine);
        session.spawn(progress::accompany(Arc::clone(session), Arc::clone(services), requests));
    }
    if !negotiated.typed {
        let requests = Requests::new(&services.engine);
        session.spawn(delivery::accompany(Arc::clone(session), Arc::clone(services), requests));
    }
}

/// Tells the user what is wrong with the settings, the folders or the protocol's version.
async fn introduce(
    session: &Session,
    configured: &Configured,
    report: &mut SettingsReport,
    lost: Vec<String>,
) {
    if let Some(notice) = &session.process.notice {
        session.tell(MessageType::WARNING, notice).await;
    }
    report.tell(configured, &session.client).await;
    if let Some(fault) = &configured.fault {
        session.tell(MessageType::ERROR, fault).await;
    }
    for folder in lost {
        let message = format!("the workspace folder {folder} and was ignored");
        session.tell(MessageType::WARNING, &message).await;
    }
    for folder in session.negotiated().iter().flat_map(|negotiated| &negotiated.folders) {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        if let Some(what) = session.process.directories.too_wide(&real) {
            let message =
                format!("the workspace folder {} is {what}: agents work on all of it", folder.display());
            session.tell(MessageType::WARNING, &message).await;
        }
    }
    if let Some(version) = session.negotiated().and_then(|negotiated| negotiated.unknown_version.as_ref()) {
        let message = format!(
            "this server speaks version {PROTOCOL_VERSION} of roo/*, not {version}; only plain LSP is on"
        );
        session.tell(MessageType::WARNING, &message).await;
    }
}

/// Tells of each change of the settings: a typed client of the change, the user of what is wrong with it.
async fn follow_settings(
    session: &Session,
    services: &WorkspaceServices,
    first: &Configured,
    mut changes: watch::Receiver<u64>,
    mut report: SettingsReport,
) {
    let mut fault = first.fault.clone();
    while changes.changed().await.is_ok() {
        let configured = services.settings.read().await;
        let is_new = report.is_new(&configured);
        report.tell(&configured, &session.client).await;
        if configured.fault != fault {
            fault.clone_from(&configured.fault);
            if let Some(fault) = &fault {
                session.tell(MessageType::ERROR, fault).await;
            }
        } else if let Some(path) = configured.has_file_errors().filter(|_| is_new) {
            let message = format!(
                "{} is invalid, so the settings from before stay in force; see its diagnostics",
                path.display()
            );
            session.tell(MessageType::ERROR, &message).await;
        }
        config_files::refresh(session, services).await;
        if session.is_typed() {
            let problems = configured.problems().map(ToString::to_string).collect();
            let params = SettingsChangedParams { problems };
            session.client.send_notification::<SettingsChanged>(params).await;
        }
    }
}

/// Settles what an earlier server left half done, and tells the user what can't be settled.
async fn recover(session: &Session, services: &WorkspaceServices) {
    for stopped in services.engine.workspace().recover().await {
        session.tell(MessageType::ERROR, &stopped.to_string()).await;
    }
}

/// `roo/settings/changed`.
enum SettingsChanged {}

impl Notification for SettingsChanged {
    type Params = SettingsChangedParams;
    const METHOD: &'static str = "roo/settings/changed";
}
