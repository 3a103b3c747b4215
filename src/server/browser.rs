//! The page for a browser, beside an editor: opened by the command `roo.openInBrowser`, it works with the engine of the
//! editor's connection and ends with it. Nothing listens before.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::lifecycle::serve_guest;
use super::services::WorkspaceServices;
use super::session::Session;
use crate::web::{Access, Connect, WebServer};
use roo_protocol::ids::TaskId;

/// The page of a connection.
#[derive(Default)]
pub(super) struct Browser(OnceCell<Page>);

struct Page {
    address: String,
    access: Arc<Access>,
}

/// Returns the address of the page that shows a request, or else what is at work. A browser may open it once. The page's server is
/// started if need be.
pub(super) async fn address(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    request: Option<&TaskId>,
) -> io::Result<String> {
    let page = session.browser.0.get_or_try_init(|| begin(session, services)).await?;
    let shown = request.map(|request| format!("&task={}", request.root())).unwrap_or_default();
    Ok(format!("{}#token={}{shown}", page.address, page.access.ticket()))
}

async fn begin(session: &Arc<Session>, services: &Arc<WorkspaceServices>) -> io::Result<Page> {
    let server = WebServer::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None).await?;
    let page = Page { address: server.address(), access: Arc::clone(server.access()) };
    let folders = session.negotiated().map(|negotiated| negotiated.folders.clone()).unwrap_or_default();
    let (directories, ended) = (session.process.directories.clone(), session.ended.clone());
    let lent = Arc::clone(services);
    let connect: Connect = Arc::new(move |stream| {
        let (directories, services) = (directories.clone(), Arc::clone(&lent));
        let ended = ended.clone().cancelled_owned();
        Box::pin(async move { serve_guest(stream, directories, services, ended).await })
    });
    let serving = server.serve(folders, connect, session.ended.clone());
    tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(%error, "the page for a browser is not served any more");
        }
    });
    Ok(page)
}
