//! The page for a browser, beside an editor: opened by the command `roo.openInBrowser`, it works with the engine of the
//! editor's connection and ends with it. Nothing listens before.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::services::WorkspaceServices;
use super::session::Session;
use crate::web::{Connect, PageAddress, WebServer};
use roo_protocol::ids::TaskId;

/// Returns the address of the page that shows a request, or else what is at work. A browser may open it once. The page's server is
/// started if need be.
pub(super) async fn address(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    request: Option<&TaskId>,
) -> io::Result<String> {
    let page = session.page.get_or_try_init(|| begin(session, services)).await?;
    let shown = request.map(|request| format!("&task={}", request.root())).unwrap_or_default();
    Ok(page.once() + &shown)
}

async fn begin(session: &Arc<Session>, services: &Arc<WorkspaceServices>) -> io::Result<PageAddress> {
    let server = WebServer::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None).await?;
    let page = server.page_address();
    let folders = session.negotiated().map(|negotiated| negotiated.folders.clone()).unwrap_or_default();
    let (serve_guest, directories) = (session.process.serve_guest, session.process.directories.clone());
    let (lent, ended) = (Arc::clone(services), session.ended.clone());
    let connect: Connect =
        Arc::new(move |stream| serve_guest(stream, directories.clone(), Arc::clone(&lent), ended.clone()));
    let serving = server.serve(folders, connect, session.ended.clone());
    tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(%error, "the page for a browser is not served any more");
        }
    });
    Ok(page)
}
