//! The browser's program: where it is, its arguments, and what the caller hands over when it has started it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use roo_catalog::ScreenSize;

/// Programs that are a browser with this protocol, the preferred one first.
const PROGRAMS: &[&str] = &[
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "brave-browser",
];

/// Arguments whatever the task: no window, no port, nothing of the user's, nothing that the browser fetches by itself.
const ARGUMENTS: &[&str] = &[
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--no-service-autorun",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-hang-monitor",
    "--disable-notifications",
    "--disable-popup-blocking",
    "--disable-prompt-on-repost",
    "--disable-quic",
    "--disable-renderer-backgrounding",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--deny-permission-prompts",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--use-mock-keychain",
    "--disable-features=AutofillServerCommunication,CertificateTransparencyComponentUpdater,DialMediaRouteProvider,\
     MediaRouter,OptimizationHints,Translate,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable",
    // What the network of a sandbox doesn't block by itself.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
];

/// Properties of the place where a browser runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchOptions {
    /// Directory for its profile, which is empty and private.
    pub profile: PathBuf,
    /// Port of the proxy through which it reaches everything, this machine too.
    pub proxy: u16,
    /// Size of what is visible at first.
    pub viewport: ScreenSize,
    /// True if it can have no sandbox of its own: within that of commands, where it may not make the namespaces that it needs.
    pub is_confined: bool,
}

impl LaunchOptions {
    /// Returns the arguments of the program.
    pub fn arguments(&self) -> Vec<String> {
        let ScreenSize { width, height } = self.viewport;
        let mut arguments: Vec<String> = ARGUMENTS.iter().map(|&argument| argument.to_owned()).collect();
        arguments.extend([
            format!("--user-data-dir={}", self.profile.display()),
            format!("--window-size={width},{height}"),
            format!("--proxy-server=http://127.0.0.1:{}", self.proxy),
            // Without this, addresses of the loopback go past the proxy.
            "--proxy-bypass-list=<-loopback>".to_owned(),
        ]);
        if self.is_confined {
            arguments.push("--no-sandbox".to_owned());
            // There is no shared memory of the machine's.
            arguments.push("--disable-dev-shm-usage".to_owned());
        }
        arguments
    }
}

/// A browser that was started with [`LaunchOptions::arguments`].
pub struct LaunchedBrowser {
    /// Its descriptor 4: what it says.
    pub reader: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Its descriptor 3: what it is told.
    pub writer: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Its standard error.
    pub stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    pub process: Box<dyn BrowserProcess>,
}

/// A running browser and everything that it started. Dropping it kills all of that.
pub trait BrowserProcess: Send + Sync {
    /// Ends it, and what was made for it.
    fn end(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Returns the browser of a name or an absolute path, or else a known one, in the directories of `search_path`. A program
/// in a workspace folder counts as not there, since the workspace could have brought it. Reads the disk.
///
/// # Errors
/// There is none, in words for the user.
pub fn find_program(
    wanted: Option<&str>,
    search_path: &std::ffi::OsStr,
    folders: &[PathBuf],
) -> Result<PathBuf, String> {
    let directories: Vec<PathBuf> =
        std::env::split_paths(search_path).filter(|directory| directory.is_absolute()).collect();
    let find = |name: &str| match name.contains('/') {
        true => Some(PathBuf::from(name)).filter(|path| path.is_absolute() && is_program(path, folders)),
        false => {
            directories.iter().map(|directory| directory.join(name)).find(|path| is_program(path, folders))
        }
    };
    match wanted {
        Some(name) => find(name).ok_or_else(|| {
            format!("the browser that browser.program names, {name}, is not a program outside of the workspace")
        }),
        None => PROGRAMS.iter().copied().find_map(find).ok_or_else(|| {
            "there is no Chromium on PATH: install chromium or Google Chrome, or name one in browser.program".to_owned()
        }),
    }
}

/// Returns whether a path is that of a program, and neither it nor what it leads to is in a folder.
fn is_program(path: &Path, folders: &[PathBuf]) -> bool {
    // It is looked for before each request, and most places have none: that costs one call of the system each.
    if !path.exists() {
        return false;
    }
    let Ok(real) = path.canonicalize() else { return false };
    let Some(Ok(directory)) = path.parent().map(Path::canonicalize) else { return false };
    let is_inside = |folder: &PathBuf| real.starts_with(folder) || directory.starts_with(folder);
    let runs = |found: std::fs::Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
    !folders.iter().any(is_inside) && real.metadata().is_ok_and(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_a_program_of_the_user_and_not_of_the_workspace() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (workspace, bin) = (root.join("w"), root.join("bin"));
        for path in [workspace.join("chromium"), bin.join("google-chrome"), bin.join("mine")] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let search = std::env::join_paths([&workspace, &bin]).unwrap();
        let find = |wanted: Option<&str>| find_program(wanted, &search, std::slice::from_ref(&workspace));
        assert_eq!(find(None), Ok(bin.join("google-chrome")));
        assert_eq!(find(Some("mine")), Ok(bin.join("mine")));
        assert_eq!(find(Some(bin.join("mine").to_str().unwrap())), Ok(bin.join("mine")));
        assert!(find(Some(workspace.join("chromium").to_str().unwrap())).is_err());
        let none = find_program(None, "".as_ref(), &[]).unwrap_err();
        assert!(none.contains("browser.program"), "{none}");
    }

    #[test]
    fn nothing_goes_past_the_proxy_and_no_port_is_opened() {
        let options = LaunchOptions {
            profile: "/tmp/profile".into(),
            proxy: 1234,
            viewport: ScreenSize { width: 900, height: 600 },
            is_confined: true,
        };
        let arguments = options.arguments();
        for needed in [
            "--remote-debugging-pipe",
            "--proxy-server=http://127.0.0.1:1234",
            "--proxy-bypass-list=<-loopback>",
        ] {
            assert!(arguments.iter().any(|argument| argument == needed), "{needed}");
        }
        assert!(!arguments.iter().any(|argument| argument.starts_with("--remote-debugging-port")));
    }
}
