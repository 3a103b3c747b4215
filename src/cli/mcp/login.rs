//! `roo-lsp mcp login` and `logout`: a login to one server, in the user's browser.

use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;

use roo_engine::customization::McpServer;
use roo_formats::mcp::Level;
use roo_mcp::ClientIdentity;
use roo_mcp::login::{CredentialKey, GivenClient, LoginRequest, discover};
use roo_sandbox::egress::SystemResolver;
use roo_text::render::exact_line;

use crate::cli::arguments::McpLogin;
use crate::cli::dialogue::Dialogue;
use crate::cli::session::SessionContext;
use crate::cli::{CliError, Ending, terminal};
use crate::mcp::{LoginPlace, LoginTarget, Logins, LoginsError};

/// The program that opens an address in the user's browser.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Logs in to a server.
pub(super) async fn login(context: &SessionContext, arguments: McpLogin) -> Result<Ending, CliError> {
    let McpLogin { name, no_browser, file, scope, client_id, client_secret, port } = arguments;
    let server = find(context, &name)?;
    let level = server.configured.level;
    let root = root(context)?;
    let LoginTarget { remote, policy, key, sse } =
        LoginTarget::new(&server, &root).map_err(|reason| CliError::Other(failure(&name, &reason)))?;
    let logins = Logins::new(&context.directories);
    let place = if file { LoginPlace::File } else { LoginPlace::Keyring };
    if place == LoginPlace::Keyring {
        // Before the user has done anything in the browser.
        logins.check_keyring(&key).await.map_err(|error| without_keyring(&logins, &name, &error))?;
    }
    let secret = match client_secret {
        true => Some(Dialogue::new().ask_secret("Secret of the client (it is not shown):")?),
        false => None,
    };
    // Those of an earlier login stay, so that one for a further scope takes none away.
    let mut scopes: Vec<String> =
        scope.iter().flat_map(|scopes| scopes.split_whitespace()).map(str::to_owned).collect();
    scopes.extend(logins.scopes(&key).await);
    let request = LoginRequest {
        policy,
        client: client_id.map(|id| GivenClient { id, secret }),
        scopes,
        port,
        server: remote,
        sse,
    };
    let identity =
        ClientIdentity { name: "roo-lsp".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let failed = |error: roo_mcp::login::LoginError| CliError::Other(failure(&name, &error.to_string()));
    let found = discover(request, &identity, Arc::new(SystemResolver)).await.map_err(failed)?;
    show(&server, &found)?;
    let pending = found.begin().await.map_err(failed)?;
    let mut out = terminal::stderr();
    writeln!(out, "\nopen this address in a browser to log in:\n\n  {}\n", pending.address())?;
    if !no_browser && let Err(error) = open(pending.address().as_str()) {
        writeln!(out, "roo-lsp: {OPENER} could not be run ({error}); open the address yourself")?;
    }
    writeln!(out, "roo-lsp: waiting for the answer of the browser; press Ctrl-C to give up")?;
    let credentials = pending.finish().await.map_err(failed)?;
    let refreshes = credentials.refresh_token.is_some();
    let workspace = (level == Level::Workspace).then_some(root);
    let kept = logins.keep(&key, &name, workspace, credentials, place).await;
    kept.map_err(|error| match place {
        LoginPlace::Keyring => without_keyring(&logins, &name, &error),
        LoginPlace::File => CliError::Other(failure(&name, &error.to_string())),
    })?;
    let place = place_of(&logins, &key, place);
    writeln!(terminal::stdout(), "{}: logged in; the tokens are in {place}", exact_line(&name))?;
    if !refreshes {
        writeln!(out, "roo-lsp: this login can't be refreshed; when it ends, log in again")?;
    }
    if level == Level::Workspace {
        writeln!(out, "roo-lsp: it is for the server of this workspace alone")?;
    }
    Ok(Ending::Done)
}

/// Forgets the logins to servers of a name, whether one of that name is still configured or not.
pub(super) async fn logout(context: &SessionContext, name: &str) -> Result<Ending, CliError> {
    let logins = Logins::new(&context.directories);
    let failed = |error: LoginsError| CliError::Other(failure(name, &error.to_string()));
    let keys = logins.named(name, &root(context)?).map_err(failed)?;
    if keys.is_empty() {
        find(context, name)?;
        writeln!(terminal::stdout(), "{}: there was no login", exact_line(name))?;
    }
    for key in keys {
        if let Some(issuer) = logins.remove(&key).await.map_err(failed)? {
            let (name, issuer) = (exact_line(name), exact_line(&issuer));
            writeln!(
                terminal::stdout(),
                "{name}: logged out; {issuer} may list the grant until you revoke it there"
            )?;
        }
    }
    Ok(Ending::Done)
}

/// The workspace folder as servers are given it.
pub(super) fn root(context: &SessionContext) -> Result<String, CliError> {
    let workspace = context.workspace()?;
    Ok(workspace.roots().paths().next().map(|root| root.display().to_string()).unwrap_or_default())
}

fn find(context: &SessionContext, name: &str) -> Result<McpServer, CliError> {
    let configured = context.customization()?.mcp_servers();
    let names: Vec<&str> = configured.iter().map(|server| server.configured.server.name.as_str()).collect();
    let known = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
    let found = configured.iter().find(|server| server.configured.server.name == name);
    found
        .cloned()
        .ok_or_else(|| CliError::Usage(exact_line(&format!("there is no MCP server '{name}' here: {known}"))))
}

/// Shows who is involved in a login.
fn show(server: &McpServer, found: &roo_mcp::login::DiscoveredLogin) -> Result<(), CliError> {
    let whose = match server.configured.level {
        Level::User => "your own",
        Level::Workspace => "of the workspace",
    };
    let scopes = match found.scopes() {
        [] => "those that it gives by itself".to_owned(),
        scopes => scopes.join(" "),
    };
    let hosts: Vec<String> = found.hosts().into_iter().collect();
    for (title, text) in [
        ("server", format!("{} ({whose})", server.configured.server.name)),
        ("authorization server", found.issuer().to_owned()),
        ("its hosts", hosts.join(", ")),
        ("scopes", scopes),
    ] {
        writeln!(terminal::stderr(), "{:<22}{}", format!("{title}:"), exact_line(&text))?;
    }
    Ok(())
}

/// Opens an address. What becomes of the browser is left to the user.
fn open(address: &str) -> std::io::Result<()> {
    let mut command = tokio::process::Command::new(OPENER);
    // Ctrl-C is for the login alone.
    command.arg(address).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}

fn place_of(logins: &Logins, key: &CredentialKey, place: LoginPlace) -> String {
    match place {
        LoginPlace::Keyring => "the keyring".to_owned(),
        LoginPlace::File => {
            let file = logins.directory().join(format!("{key}.json"));
            format!("{} (mode 0600)", exact_line(&file.to_string_lossy()))
        }
    }
}

fn failure(name: &str, reason: &str) -> String {
    exact_line(&format!("MCP server '{name}': {reason}"))
}

fn without_keyring(logins: &Logins, name: &str, error: &LoginsError) -> CliError {
    let directory = logins.directory().display();
    let advice = format!("; --file keeps the tokens in a file below {directory} that only you can read");
    CliError::Other(failure(name, &format!("{error}{advice}")))
}
