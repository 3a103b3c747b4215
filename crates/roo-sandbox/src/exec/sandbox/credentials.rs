//! Places where a user and the machine keep credentials and what is private: no command reads them.
//!
//! A place is written as in its tool's documentation: `~/` is the home directory, and `$NAME` a directory or a file that
//! this variable names; several are separated by `:`. Where the variable has a default below the home directory
//! ([`DEFAULTS`]), both count: what was there before the variable was set may still be a credential. A `*` stands for any
//! characters of one name.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Directories below the home directory that variables replace.
const DEFAULTS: &[(&str, &str)] = &[
    ("AZURE_CONFIG_DIR", ".azure"),
    ("CARGO_HOME", ".cargo"),
    ("CLAUDE_CONFIG_DIR", ".claude"),
    ("CLOUDSDK_CONFIG", ".config/gcloud"),
    ("CODEX_HOME", ".codex"),
    ("COMPOSER_HOME", ".composer"),
    ("DOCKER_CONFIG", ".docker"),
    ("GNUPGHOME", ".gnupg"),
    ("GRADLE_USER_HOME", ".gradle"),
    ("HEX_HOME", ".hex"),
    ("HF_HOME", ".cache/huggingface"),
    ("KAGGLE_CONFIG_DIR", ".kaggle"),
    ("PASSWORD_STORE_DIR", ".password-store"),
    ("PUB_CACHE", ".pub-cache"),
    ("PULUMI_HOME", ".pulumi"),
    ("STACK_ROOT", ".stack"),
    ("XDG_CACHE_HOME", ".cache"),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
];

/// Credentials of tools. A user may let commands read them.
const TOOL_CREDENTIALS: &[&str] = &[
    // Clouds and what runs there.
    "~/.aws",
    "$AWS_CONFIG_FILE",
    "$AWS_SHARED_CREDENTIALS_FILE",
    "$AZURE_CONFIG_DIR",
    "$CLOUDSDK_CONFIG",
    "$GOOGLE_APPLICATION_CREDENTIALS",
    "~/.oci",
    "~/.aliyun",
    "~/.bluemix",
    "~/.cloudflared",
    "~/.fly/config.yml",
    "$KAGGLE_CONFIG_DIR",
    "~/.ngrok2",
    "$PULUMI_HOME/credentials.json",
    "~/.railway/config.json",
    "~/.render/cli.yaml",
    "~/.supabase/access-token",
    "~/.wrangler/config",
    "$XDG_CONFIG_HOME/.wrangler/config",
    "$XDG_CONFIG_HOME/configstore/firebase-tools.json",
    "$XDG_CONFIG_HOME/doctl",
    "$XDG_CONFIG_HOME/hcloud",
    "$XDG_CONFIG_HOME/kaggle",
    "$XDG_CONFIG_HOME/linode-cli",
    "$XDG_CONFIG_HOME/netlify",
    "$XDG_CONFIG_HOME/ngrok",
    "$XDG_CONFIG_HOME/openstack",
    "$XDG_CONFIG_HOME/scw",
    "$XDG_CONFIG_HOME/stripe",
    "$XDG_DATA_HOME/com.vercel.cli",
    "$XDG_DATA_HOME/supabase",
    // Storage and data.
    "~/.s3cfg",
    "~/.boto",
    "~/.passwd-s3fs",
    "~/.mc/config.json",
    "$XDG_CONFIG_HOME/rclone",
    "~/.databrickscfg",
    "~/.dbt/profiles.yml",
    "~/.snowflake",
    "~/.snowsql/config",
    "$XDG_CONFIG_HOME/snowflake",
    "~/.huggingface/token",
    "$HF_HOME/token",
    "$HF_HOME/stored_tokens",
    // Databases.
    "~/.pgpass",
    "$PGPASSFILE",
    "~/.my.cnf",
    "~/.mylogin.cnf",
    "$MYSQL_TEST_LOGIN_FILE",
    "$XDG_DATA_HOME/DBeaverData",
    // Containers, clusters and infrastructure.
    "$DOCKER_CONFIG",
    "$REGISTRY_AUTH_FILE",
    "$XDG_CONFIG_HOME/containers/auth.json",
    "~/.kube",
    "$KUBECONFIG",
    "$XDG_CONFIG_HOME/argocd",
    "$XDG_CONFIG_HOME/helm/registry",
    "~/.terraform.d/credentials.tfrc.json",
    "~/.terraformrc",
    "$TF_CLI_CONFIG_FILE",
    // Git hosts, and logins of HTTP and mail clients.
    "~/.git-credentials",
    "$XDG_CONFIG_HOME/git/credentials",
    "$XDG_CONFIG_HOME/gh",
    "$GH_CONFIG_DIR",
    "$XDG_CONFIG_HOME/glab-cli",
    "$XDG_CONFIG_HOME/hub",
    "$XDG_CONFIG_HOME/tea",
    "~/.netrc",
    "~/_netrc",
    "$NETRC",
    "~/.authinfo*",
    // Package managers and registries.
    "~/.npmrc",
    "$NPM_CONFIG_USERCONFIG",
    "$npm_config_userconfig",
    "~/.yarnrc.yml",
    "$XDG_CONFIG_HOME/pnpm/auth.ini",
    "~/.pypirc",
    "$XDG_CONFIG_HOME/pypoetry/auth.toml",
    "$XDG_DATA_HOME/uv/credentials",
    "$CARGO_HOME/credentials",
    "$CARGO_HOME/credentials.toml",
    "~/.gem/credentials",
    "$XDG_DATA_HOME/gem/credentials",
    "~/.m2/settings.xml",
    "~/.m2/settings-security.xml",
    "$GRADLE_USER_HOME/gradle.properties",
    "~/.ivy2/.credentials",
    "~/.sbt/.credentials",
    "$COMPOSER_HOME/auth.json",
    "$XDG_CONFIG_HOME/composer/auth.json",
    "$HEX_HOME/hex.config",
    "~/.julia/servers",
    "$PUB_CACHE/credentials.json",
    "$XDG_CONFIG_HOME/dart/pub-credentials.json",
    "$STACK_ROOT/upload/credentials.json",
    "~/.sentryclirc",
];

/// What a user keeps for nobody else: no command is ever granted it.
const PERSONAL: &[&str] = &[
    // Keys and passwords.
    "~/.ssh",
    "$GNUPGHOME",
    "$PASSWORD_STORE_DIR",
    "~/.1password",
    "~/.android/adbkey",
    "~/.lpass",
    "~/.putty",
    "~/.vault-token",
    "$SOPS_AGE_KEY_FILE",
    "$XDG_CONFIG_HOME/1Password",
    "$XDG_CONFIG_HOME/Bitwarden*",
    "$XDG_CONFIG_HOME/age",
    "$XDG_CONFIG_HOME/gopass",
    "$XDG_CONFIG_HOME/op",
    "$XDG_CONFIG_HOME/rbw",
    "$XDG_CONFIG_HOME/sops",
    "$XDG_DATA_HOME/gopass",
    "$XDG_DATA_HOME/keyrings",
    "$XDG_DATA_HOME/kwalletd",
    "$XDG_DATA_HOME/lpass",
    // Wallets.
    "~/.aptos",
    "~/.bitcoin",
    "~/.dogecoin",
    "~/.electrum",
    "~/.ethereum",
    "~/.foundry/keystores",
    "~/.litecoin",
    "~/.near-credentials",
    "~/.sui/sui_config",
    "$XDG_CONFIG_HOME/Exodus",
    "$XDG_CONFIG_HOME/solana",
    // Browsers.
    "~/.mozilla",
    "~/snap/*/common/.mozilla",
    "~/snap/*/common/chromium",
    "~/.var/app/*/.mozilla",
    "~/.var/app/*/config/BraveSoftware",
    "~/.var/app/*/config/chromium",
    "~/.var/app/*/config/google-chrome*",
    "~/.var/app/*/config/microsoft-edge*",
    "~/.var/app/*/config/opera*",
    "~/.var/app/*/config/vivaldi*",
    "$XDG_CONFIG_HOME/BraveSoftware",
    "$XDG_CONFIG_HOME/chromium",
    "$XDG_CONFIG_HOME/google-chrome*",
    "$XDG_CONFIG_HOME/microsoft-edge*",
    "$XDG_CONFIG_HOME/mozilla",
    "$XDG_CONFIG_HOME/opera*",
    "$XDG_CONFIG_HOME/vivaldi*",
    "$XDG_CACHE_HOME/BraveSoftware",
    "$XDG_CACHE_HOME/chromium",
    "$XDG_CACHE_HOME/google-chrome*",
    "$XDG_CACHE_HOME/microsoft-edge*",
    "$XDG_CACHE_HOME/mozilla",
    "$XDG_CACHE_HOME/opera*",
    "$XDG_CACHE_HOME/vivaldi*",
    // Mail and messages.
    "~/.fetchmailrc",
    "~/.mbsyncrc",
    "~/.msmtprc",
    "~/.thunderbird",
    "~/snap/*/common/.thunderbird",
    "~/.var/app/*/.thunderbird",
    "$XDG_CACHE_HOME/thunderbird",
    "$XDG_CONFIG_HOME/evolution",
    "$XDG_CONFIG_HOME/msmtp",
    "$XDG_DATA_HOME/evolution",
    "$XDG_CONFIG_HOME/Element",
    "$XDG_CONFIG_HOME/Signal",
    "$XDG_CONFIG_HOME/Slack",
    "$XDG_CONFIG_HOME/discord",
    "$XDG_DATA_HOME/TelegramDesktop",
    // Histories of shells and clients.
    "~/.bash_history",
    "~/.zsh_history",
    "~/.zhistory",
    "~/.histfile",
    "$HISTFILE",
    "$XDG_DATA_HOME/atuin",
    "$XDG_DATA_HOME/fish/fish_history",
    "$XDG_CONFIG_HOME/nushell/history*",
    "$XDG_DATA_HOME/powershell/PSReadLine",
    "$XDG_STATE_HOME/bash",
    "$XDG_STATE_HOME/zsh",
    "~/.irb_history",
    "~/.julia/logs/repl_history.jl",
    "~/.node_repl_history",
    "$NODE_REPL_HISTORY",
    "~/.php_history",
    "~/.python_history",
    "$PYTHON_HISTORY",
    "~/.ipython/profile_default/history.sqlite",
    "~/.mongodb/mongosh/mongosh_repl_history",
    "~/.mysql_history",
    "$MYSQL_HISTFILE",
    "~/.mariadb_history",
    "~/.psql_history*",
    "$PSQL_HISTORY",
    "~/.rediscli_history",
    "$REDISCLI_HISTFILE",
    "~/.sqlite_history",
    "$SQLITE_HISTORY",
    // Other agents and editors.
    "~/.aider.conf.yml",
    "~/.augment/session.json",
    "~/.claude",
    "~/.claude.json*",
    "$CLAUDE_CONFIG_DIR",
    "~/.cline",
    "~/.codeium/config.json",
    "~/.codeium/windsurf/mcp_config.json",
    "$CODEX_HOME",
    "~/.continue",
    "~/.copilot",
    "~/.cursor/mcp.json",
    "~/.factory/auth.json",
    "~/.gemini",
    "~/.qwen",
    "$XDG_CONFIG_HOME/Code*/User/globalStorage/state.vscdb*",
    "$XDG_CONFIG_HOME/Cursor/User/globalStorage/state.vscdb*",
    "$XDG_CONFIG_HOME/VSCodium/User/globalStorage/state.vscdb*",
    "$XDG_CONFIG_HOME/Windsurf/User/globalStorage/state.vscdb*",
    "$XDG_CONFIG_HOME/crush",
    "$XDG_CONFIG_HOME/cursor/auth.json",
    "$XDG_CONFIG_HOME/github-copilot",
    "$XDG_CONFIG_HOME/goose/secrets.yaml",
    "$XDG_CONFIG_HOME/io.datasette.llm/keys.json",
    "$XDG_DATA_HOME/amp/secrets.json",
    "$XDG_DATA_HOME/crush",
    "$XDG_DATA_HOME/opencode/auth.json",
    "$XDG_DATA_HOME/opencode/mcp-auth.json",
];

/// Credentials of the machine, which no command is ever granted either.
const MACHINE_CREDENTIALS: &[&str] =
    &["/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"];

/// Returns the places that exist where a user and the machine keep credentials, for [`super::Confinement::hidden`]. Links
/// are resolved: what is hidden is what they lead to. Reads the disk.
pub fn credentials(home: Option<&Path>) -> Vec<PathBuf> {
    let lookup = |name: &str| env::var_os(name);
    let mut found = existing(TOOL_CREDENTIALS, home, lookup);
    found.extend(never_granted(home));
    found.sort();
    found.dedup();
    found
}

/// Returns those of [`credentials`] that no command is ever granted.
pub fn never_granted(home: Option<&Path>) -> Vec<PathBuf> {
    let machine = MACHINE_CREDENTIALS.iter().filter_map(|path| Path::new(path).canonicalize().ok());
    existing(PERSONAL, home, |name| env::var_os(name)).into_iter().chain(machine).collect()
}

/// The real paths of those places that exist. `lookup` reads an environment variable.
fn existing(places: &[&str], home: Option<&Path>, lookup: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let real_home = home.and_then(|home| home.canonicalize().ok());
    let below = |place: &str| match place.strip_prefix("~/") {
        Some(below) => home.map(|home| home.join(below)).into_iter().collect(),
        None => by_variable(place, home, &lookup),
    };
    let found = places.iter().flat_map(|place| below(place)).flat_map(|path| matching(&path));
    // A variable may name a device, or more than credentials.
    let is_meant = |path: &PathBuf| {
        (path.is_file() || path.is_dir()) && !real_home.as_ref().is_some_and(|home| home.starts_with(path))
    };
    found.filter_map(|path| path.canonicalize().ok()).filter(is_meant).collect()
}

/// The paths for which `$NAME/below` stands: by the variable, and by its default.
fn by_variable(place: &str, home: Option<&Path>, lookup: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let (name, below) =
        place.trim_start_matches('$').split_once('/').unwrap_or((place.trim_start_matches('$'), ""));
    let default = DEFAULTS.iter().find(|(known, _)| *known == name).map(|(_, default)| *default);
    let default = home.zip(default).map(|(home, default)| home.join(default));
    let value = lookup(name).unwrap_or_default();
    let named = env::split_paths(&value).filter(|path| path.is_absolute()).collect::<Vec<_>>();
    // Joining nothing would append a slash.
    let join = |path: PathBuf| if below.is_empty() { path } else { path.join(below) };
    named.into_iter().chain(default).map(join).collect()
}

/// The paths that a path with `*` in its names stands for; itself without any, be it missing.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    let is_pattern = |name: &OsStr| name.as_encoded_bytes().contains(&b'*');
    let mut parts = pattern.components().peekable();
    while let Some(part) = parts.next() {
        let name = part.as_os_str();
        if is_pattern(name) {
            found = found.iter().flat_map(|directory| entries_like(directory, name)).collect();
        } else {
            found.iter_mut().for_each(|path| path.push(name));
        }
        // Most are missing: they need not be resolved.
        if parts.peek().is_none() {
            found.retain(|path| path.symlink_metadata().is_ok());
        }
    }
    found
}

/// The entries of a directory whose names are like a pattern with one `*`.
fn entries_like(directory: &Path, pattern: &OsStr) -> Vec<PathBuf> {
    let pattern = pattern.to_string_lossy();
    let (begin, end) = pattern.split_once('*').unwrap_or((&pattern, ""));
    let is_like =
        |name: &str| name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end);
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| is_like(&entry.file_name().to_string_lossy())).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A home directory with files, and variables whose values are below it.
    struct Case {
        directory: tempfile::TempDir,
        variables: Vec<(&'static str, &'static str)>,
    }

    impl Case {
        fn new(files: &[&str]) -> Self {
            let case = Self { directory: tempfile::tempdir().unwrap(), variables: vec![] };
            for name in files {
                let path = case.home().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "x").unwrap();
            }
            case
        }

        fn with(mut self, variables: &[(&'static str, &'static str)]) -> Self {
            self.variables = variables.to_vec();
            self
        }

        fn home(&self) -> PathBuf {
            self.directory.path().canonicalize().unwrap()
        }

        /// The places that are found, below the home directory.
        fn found(&self) -> Vec<String> {
            let lookup = |wanted: &str| {
                let (_, value) = self.variables.iter().find(|(name, _)| *name == wanted)?;
                let place = |place: &str| self.home().join(place);
                env::join_paths(value.split(':').map(place)).ok()
            };
            let home = self.home();
            let places = [TOOL_CREDENTIALS, PERSONAL].concat();
            let mut found: Vec<String> = existing(&places, Some(&home), lookup)
                .iter()
                .map(|path| {
                    path.strip_prefix(&home).map_or(path.clone(), Path::to_path_buf).display().to_string()
                })
                .collect();
            found.sort();
            found.dedup();
            found
        }
    }

    #[test]
    fn what_exists_is_found_where_it_really_is() {
        let case = Case::new(&["keys/id", ".netrc", "readable.txt"]);
        symlink("keys", case.home().join(".ssh")).unwrap();
        assert_eq!(case.found(), [".netrc", "keys"]);
    }

    #[test]
    fn a_variable_moves_a_place_and_the_default_counts_too() {
        let files =
            ["cargo/credentials.toml", ".cargo/credentials.toml", "c/gh/hosts.yml", "k/one", "k/two", "n/rc"];
        let case = Case::new(&files).with(&[
            ("CARGO_HOME", "cargo"),
            ("XDG_CONFIG_HOME", "c"),
            ("KUBECONFIG", "k/one:k/two"),
            ("NPM_CONFIG_USERCONFIG", "n/rc"),
        ]);
        assert_eq!(
            case.found(),
            [".cargo/credentials.toml", "c/gh", "cargo/credentials.toml", "k/one", "k/two", "n/rc"]
        );
    }

    #[test]
    fn a_star_stands_for_any_name() {
        let case = Case::new(&[
            "snap/firefox/common/.mozilla/x",
            ".var/app/org.x.y/config/google-chrome-beta/x",
            ".claude.json.backup",
            ".psql_history-app",
            ".config/chrome/x",
        ]);
        assert_eq!(
            case.found(),
            [
                ".claude.json.backup",
                ".psql_history-app",
                ".var/app/org.x.y/config/google-chrome-beta",
                "snap/firefox/common/.mozilla"
            ]
        );
    }

    #[test]
    fn a_variable_hides_neither_a_device_nor_the_home_directory_nor_what_is_above_it() {
        let case = Case::new(&["x"]);
        let lookup = |value: &'static str| move |_: &str| Some(OsString::from(value));
        let places = ["$HISTFILE", "$GNUPGHOME"];
        for value in ["/dev/null", "/", "relative"] {
            assert!(existing(&places, Some(&case.home()), lookup(value)).is_empty(), "{value}");
        }
        let case = case.with(&[("GNUPGHOME", "")]);
        assert_eq!(case.found(), [""; 0]);
    }

    #[test]
    fn every_place_begins_at_home_or_with_a_variable() {
        for place in TOOL_CREDENTIALS.iter().chain(PERSONAL) {
            assert!(place.starts_with("~/") || place.starts_with('$'), "{place}");
            assert!(place.split('/').all(|name| name.matches('*').count() < 2), "{place}");
            let variable = place.strip_prefix('$').and_then(|rest| rest.split_once('/'));
            assert!(
                variable.is_none_or(|(name, _)| DEFAULTS.iter().any(|(known, _)| *known == name)),
                "{place}: without a default, the variable names the place itself"
            );
        }
    }
}
