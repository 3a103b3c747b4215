//! The variables that a command sees: usual ones by name, and those that the user passes on. Keys and tokens of the
//! server's own environment reach none unless the user names them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use super::redaction::{holds_secret, is_secret_name, url_without_credentials};
use super::sandbox::SigningKey;
use roo_formats::config::VariablePattern;

/// Names of variables that are passed on, with `*` at the end for prefixes.
const PASSED: &[&str] = &[
    // Who and where the user is.
    "HOME LOGNAME SHELL TMPDIR TZ USER HOST HOSTNAME",
    "LANG LANGUAGE LC_*",
    "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR XDG_STATE_HOME",
    // The network: proxies, and certificates of companies.
    "ALL_PROXY FTP_PROXY HTTP_PROXY HTTPS_PROXY NO_PROXY all_proxy ftp_proxy http_proxy https_proxy no_proxy",
    "NODE_USE_ENV_PROXY NODE_USE_SYSTEM_CA AWS_CA_BUNDLE CURL_CA_BUNDLE DENO_CERT DENO_TLS_CA_STORE GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH GRPC_DEFAULT_SSL_ROOTS_FILE_PATH NIX_SSL_CERT_FILE NODE_EXTRA_CA_CERTS PIP_CERT",
    "REQUESTS_CA_BUNDLE SSL_CERT_DIR SSL_CERT_FILE UV_NATIVE_TLS UV_SYSTEM_CERTS",
    // What kind of run this is.
    "CI CONTINUOUS_INTEGRATION GITHUB_ACTIONS GITLAB_CI APP_ENV ASPNETCORE_ENVIRONMENT BABEL_ENV DOTNET_ENVIRONMENT",
    "ENVIRONMENT FLASK_APP FLASK_DEBUG FLASK_ENV MIX_ENV NODE_ENV RACK_ENV RAILS_ENV SPRING_PROFILES_ACTIVE",
    "DJANGO_SETTINGS_MODULE PORT SOURCE_DATE_EPOCH",
    "DEBUG LOGLEVEL LOG_LEVEL VERBOSE",
    "GIT_AUTHOR_EMAIL GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_NAME",
    // Compilers and what they are told.
    "AR AS CC CFLAGS CPP CPPFLAGS CXX CXXFLAGS FC FFLAGS LD LDFLAGS NM OBJC RANLIB STRIP",
    "CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH MAKEFLAGS PKG_CONFIG PKG_CONFIG_PATH SDKROOT",
    "MACOSX_DEPLOYMENT_TARGET CMAKE_* CCACHE_DIR SCCACHE_DIR",
    // Toolchains, by language.
    // Cargo's configuration, but not what it tells the programs that it runs, such as CARGO_MANIFEST_DIR.
    "CARGO_HOME CARGO_INCREMENTAL CARGO_INSTALL_ROOT CARGO_ENCODED_RUSTFLAGS CARGO_ENCODED_RUSTDOCFLAGS",
    "CARGO_BUILD_* CARGO_CACHE_* CARGO_FUTURE_INCOMPAT_REPORT_* CARGO_HTTP_* CARGO_NET_* CARGO_PROFILE_*",
    "CARGO_REGISTRIES_* CARGO_REGISTRY_* CARGO_RESOLVER_* CARGO_TARGET_* CARGO_TERM_* CARGO_UNSTABLE_*",
    "RUST_* RUSTC RUSTC_WRAPPER RUSTDOC RUSTDOCFLAGS RUSTFLAGS RUSTUP_DIST_SERVER RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN RUSTUP_UPDATE_ROOT",
    "BUN_INSTALL COREPACK_HOME DENO_DIR DENO_INSTALL FNM_DIR NODE_OPTIONS NODE_PATH NPM_CONFIG_CACHE NPM_CONFIG_REGISTRY",
    "NVM_DIR PLAYWRIGHT_BROWSERS_PATH PNPM_HOME VOLTA_HOME YARN_CACHE_FOLDER YARN_NPM_REGISTRY_SERVER npm_config_cache",
    "npm_config_registry",
    "CONDA_DEFAULT_ENV CONDA_PREFIX MAMBA_ROOT_PREFIX PIP_CACHE_DIR PIP_CONSTRAINT PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_INDEX_URL",
    "PIP_REQUIRE_VIRTUALENV PIPENV_VENV_IN_PROJECT POETRY_CACHE_DIR POETRY_HOME POETRY_VIRTUALENVS_IN_PROJECT",
    "PYENV_ROOT PYENV_VERSION PYTEST_ADDOPTS PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONOPTIMIZE",
    "PYTHONPATH PYTHONUNBUFFERED PYTHONUTF8 PYTHONWARNINGS UV_CACHE_DIR UV_DEFAULT_INDEX UV_EXTRA_INDEX_URL UV_INDEX_URL",
    "UV_PROJECT_ENVIRONMENT UV_PYTHON UV_PYTHON_INSTALL_DIR VIRTUAL_ENV",
    "CGO_CFLAGS CGO_CPPFLAGS CGO_CXXFLAGS CGO_ENABLED CGO_LDFLAGS GO111MODULE GOAMD64 GOARCH GOARM GOBIN GOCACHE GODEBUG",
    "GOENV GOEXPERIMENT GOFLAGS GOINSECURE GOMODCACHE GONOPROXY GONOSUMDB GOOS GOPATH GOPRIVATE GOPROXY GOROOT GOSUMDB",
    "GOTMPDIR GOTOOLCHAIN GOWORK",
    "GRADLE_HOME GRADLE_OPTS GRADLE_USER_HOME JAVA_HOME JAVA_OPTS JAVA_TOOL_OPTIONS JDK_HOME KOTLIN_HOME M2_HOME",
    "MAVEN_HOME MAVEN_OPTS SBT_OPTS ANDROID_HOME ANDROID_NDK_HOME ANDROID_SDK_ROOT ANDROID_USER_HOME",
    "BUNDLE_GEMFILE BUNDLE_PATH GEM_HOME GEM_PATH RBENV_ROOT RBENV_VERSION RUBYLIB",
    "COMPOSER_CACHE_DIR COMPOSER_HOME DOTNET_CLI_HOME DOTNET_ROOT NUGET_PACKAGES JULIA_DEPOT_PATH OPAMROOT",
    "OPAM_SWITCH_PREFIX",
    "ASDF_DATA_DIR ASDF_DIR HOMEBREW_CELLAR HOMEBREW_PREFIX HOMEBREW_REPOSITORY MISE_CACHE_DIR MISE_CONFIG_DIR",
    "MISE_DATA_DIR NIX_PATH NIX_PROFILES SDKMAN_DIR",
];

/// Names of variables that are passed on where they name a Unix socket.
const LEADS_TO_SOCKET: &[&str] = &["CONTAINER_HOST", "DOCKER_HOST"];

/// Prefixes of names that pass only if they are written out in full: these variables choose programs and libraries that
/// other programs load, or lead to agents that hold keys.
const ONLY_BY_NAME: &[&str] = &[
    "BASHOPTS",
    "BASH_",
    "DBUS_",
    "DISPLAY",
    "DYLD_",
    "ENV",
    "GIT_",
    "GNUPG",
    "GPG_",
    "KRB5",
    "LD_",
    "PERL5",
    "PROMPT_COMMAND",
    "PS4",
    "ROO_",
    "RUBYOPT",
    "SHELLOPTS",
    "SSH_",
    "WAYLAND_",
    "XAUTHORITY",
    "ZDOTDIR",
];

/// Configuration that every git below a command reads last, so that no repository can undo it: a look at a repository
/// must start no program of its choosing, and keys to sign with are not the command's. What a commit starts, such as the
/// user's hooks, runs as it does for the user, in the bounds of the command.
const GIT: &[(&str, &str)] = &[
    ("commit.gpgSign", "false"),
    ("core.fsmonitor", "false"),
    // A key to sign with is named, not asked of a program.
    ("gpg.format", "openpgp"),
    ("gpg.program", NO_SIGNING),
    ("gpg.openpgp.program", NO_SIGNING),
    ("gpg.ssh.program", NO_SIGNING),
    ("gpg.x509.program", NO_SIGNING),
    ("log.showSignature", "false"),
    ("protocol.ext.allow", "never"),
    // `gc` would write `info/refs`, for servers without git, into a directory that stays as it is.
    ("repack.updateServerInfo", "false"),
    ("tag.gpgSign", "false"),
];

/// Placeholder for the programs that sign. It can't be there; git tells its name where it was to sign or to check a
/// signature.
pub const NO_SIGNING: &str = "/dev/null/signing-needs-a-grant";

/// The same for git that the server starts by itself, which nothing bounds: it runs nothing for a repository.
const CAUTIOUS_GIT: &[(&str, &str)] = &[("core.hooksPath", "/dev/null"), ("safe.bareRepository", "explicit")];

/// Keeps git from fetching what a partial clone lacks. It is for commands without a network; who lets a command
/// reach it was asked.
pub(super) const NO_LAZY_FETCH: &str = "GIT_NO_LAZY_FETCH";

/// The user's choice of variables of the server's own environment that commands see besides the usual ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentRules {
    patterns: Vec<VariablePattern>,
}

impl EnvironmentRules {
    /// Creates rules from patterns. An exclusion wins over every other pattern.
    pub fn new(patterns: Vec<VariablePattern>) -> Self {
        Self { patterns }
    }

    /// Reports whether the user has left a variable out, or it is one that is only passed where the user has written its
    /// name: it leads to programs, or to agents that hold keys.
    pub fn excludes(&self, name: &str) -> bool {
        let is_excluded = self.patterns.iter().any(|pattern| pattern.excludes() && pattern.matches(name));
        is_excluded || ONLY_BY_NAME.iter().any(|begin| name.starts_with(begin))
    }

    /// Returns the value that a command sees of a variable; none if it doesn't see it.
    ///
    /// A name that is written out in full passes as it is. Usual names, and those that match a pattern, pass if neither
    /// name nor value looks like a secret; credentials are removed from URLs in the values of usual names.
    fn passed(&self, name: &str, value: &OsStr) -> Option<OsString> {
        let is_meant = |pattern: &&VariablePattern| pattern.matches(name);
        if self.patterns.iter().filter(|pattern| pattern.excludes()).any(|pattern| is_meant(&pattern)) {
            return None;
        }
        let mut meant =
            self.patterns.iter().filter(|pattern| !pattern.excludes()).filter(is_meant).peekable();
        let is_usual =
            PASSED.iter().flat_map(|names| names.split(' ')).any(|usual| match usual.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => name == usual,
            });
        let is_meant = meant.peek().is_some();
        if meant.any(VariablePattern::is_exact) {
            return Some(value.to_owned());
        }
        // A container engine of this machine is reached by its socket, which is granted by its path.
        let is_usual = is_usual
            || (LEADS_TO_SOCKET.contains(&name) && value.as_encoded_bytes().starts_with(b"unix:///"));
        let by_pattern = is_meant && !ONLY_BY_NAME.iter().any(|begin| name.starts_with(begin));
        if !(is_usual || by_pattern) || is_secret_name(name) {
            return None;
        }
        let text = value.to_string_lossy();
        match url_without_credentials(&text) {
            Some(_) if !is_usual => None,
            Some(without) if holds_secret(&without) => None,
            Some(without) => Some(without.into()),
            None if holds_secret(&text) => None,
            None => Some(value.to_owned()),
        }
    }
}

/// The environment of a command.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

/// Names only: a value may be a secret that the user passes on.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Environment {
    /// Selects the usual variables of the server's own environment.
    pub fn inherited() -> Self {
        Self::inherited_by(&EnvironmentRules::default())
    }

    /// Selects the variables of the server's own environment that the rules pass.
    pub fn inherited_by(rules: &EnvironmentRules) -> Self {
        Self::chosen_by(rules, std::env::vars_os())
    }

    /// Selects the usual ones of the given variables.
    pub fn chosen(from: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self::chosen_by(&EnvironmentRules::default(), from)
    }

    /// Selects the given variables that the rules pass.
    pub(crate) fn chosen_by(
        rules: &EnvironmentRules,
        from: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let mut variables = BTreeMap::new();
        let mut path = OsString::new();
        for (name, value) in from {
            if name == "PATH" {
                path = absolute_entries(&value);
            } else if let Some(value) = name.to_str().and_then(|name| rules.passed(name, &value)) {
                variables.insert(name, value);
            }
        }
        let mut set = |name: &str, value: &OsStr| variables.insert(name.into(), value.into());
        if path.is_empty() {
            path = "/usr/local/bin:/usr/bin:/bin".into();
        }
        set("PATH", &path);
        set("TERM", OsStr::new("dumb"));
        set("NO_COLOR", OsStr::new("1"));
        set("ROO_ACTIVE", OsStr::new("true"));
        // Before any editor or pager of a configuration. There is nobody to edit: texts stay as proposed.
        set("GIT_EDITOR", OsStr::new("true"));
        set("GIT_SEQUENCE_EDITOR", OsStr::new("true"));
        set("GIT_PAGER", OsStr::new("cat"));
        // Nobody is there to be asked for a password, and no program of the repository either.
        set("GIT_TERMINAL_PROMPT", OsStr::new("0"));
        set("GIT_ASKPASS", OsStr::new(""));
        // What a partial clone lacks would be asked of a program that its configuration names.
        set(NO_LAZY_FETCH, OsStr::new("1"));
        if !["LC_ALL", "LC_CTYPE", "LANG"].iter().any(|name| variables.contains_key(OsStr::new(name))) {
            variables.insert("LANG".into(), "C.UTF-8".into());
        }
        let mut environment = Self { variables };
        environment.set_git(GIT);
        environment
    }

    /// For git that the server starts by itself: it reads no configuration of the system, and runs no hook.
    #[must_use]
    pub fn cautious_git(mut self) -> Self {
        self.set_git(&[GIT, CAUTIOUS_GIT].concat());
        self.set("GIT_CONFIG_NOSYSTEM", "1");
        self
    }

    /// For git that signs with an SSH key by this program, as its configuration says.
    #[must_use]
    pub fn with_git_signing(mut self, key: &SigningKey, program: &Path, commits: bool, tags: bool) -> Self {
        let key = if key.is_literal { format!("key::{}", key.key) } else { key.key.clone() };
        let program = program.to_string_lossy();
        let switch = |is_on: bool| if is_on { "true" } else { "false" };
        let signing = [
            ("commit.gpgSign", switch(commits)),
            ("tag.gpgSign", switch(tags)),
            ("gpg.format", "ssh"),
            ("gpg.ssh.program", &*program),
            ("user.signingKey", key.as_str()),
        ];
        let others = GIT.iter().filter(|(name, _)| !signing.iter().any(|(own, _)| own == name));
        self.set_git(&others.copied().chain(signing).collect::<Vec<_>>());
        self
    }

    /// Has git read this configuration last.
    fn set_git(&mut self, configuration: &[(&str, &str)]) {
        self.set("GIT_CONFIG_COUNT", configuration.len().to_string());
        for (index, (key, value)) in configuration.iter().enumerate() {
            self.set(&format!("GIT_CONFIG_KEY_{index}"), key);
            self.set(&format!("GIT_CONFIG_VALUE_{index}"), value);
        }
    }

    /// With more variables, in place of those of the same names. A search path counts as far as it is absolute.
    #[must_use]
    pub fn with(mut self, variables: &BTreeMap<String, String>) -> Self {
        for (name, value) in variables {
            let value = match name.as_str() {
                "PATH" => absolute_entries(value.as_ref()),
                _ => value.into(),
            };
            if name != "PATH" || !value.is_empty() {
                self.set(name, value);
            }
        }
        self
    }

    /// Without a variable.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.remove(name);
        self
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Gives a variable a value, whatever it had.
    pub(super) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Takes a variable out.
    pub(super) fn remove(&mut self, name: &str) {
        self.variables.remove(OsStr::new(name));
    }

    /// Names and values, in the order of names.
    pub fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

/// A search path without empty and relative entries: those would find programs in whatever directory
/// a command runs in.
fn absolute_entries(path: &OsStr) -> OsString {
    let entries = std::env::split_paths(path).filter(|entry| Path::is_absolute(entry));
    std::env::join_paths(entries).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(from: &[(&str, &str)]) -> BTreeMap<String, String> {
        let from = from.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Environment::chosen(from)
            .variables()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .collect()
    }

    #[test]
    fn more_variables_come_over_those_and_no_search_path_begins_where_a_command_runs() {
        let base = || Environment::chosen([("PATH".into(), "/bin".into()), ("HOME".into(), "/h".into())]);
        let with = |name: &str, value: &str| base().with(&[(name.to_owned(), value.to_owned())].into());
        assert_eq!(with("HOME", "/x").get("HOME"), Some(OsStr::new("/x")));
        assert_eq!(with("STAGE", "test").get("STAGE"), Some(OsStr::new("test")));
        assert_eq!(with("PATH", "./bin:/opt/bin::/bin").get("PATH"), Some(OsStr::new("/opt/bin:/bin")));
        assert_eq!(with("PATH", "./bin").get("PATH"), Some(OsStr::new("/bin")));
    }

    #[test]
    fn only_named_variables_pass() {
        let seen = chosen(&[("HOME", "/home/ada"), ("CARGO_HOME", "/c"), ("ANTHROPIC_API_KEY", "secret")]);
        assert_eq!(seen.get("HOME").map(String::as_str), Some("/home/ada"));
        assert_eq!(seen.get("CARGO_HOME").map(String::as_str), Some("/c"));
        assert!(!seen.values().any(|value| value == "secret"));
    }

    /// Returns the variables that pass by these patterns, as `NAME=value`.
    fn passed(patterns: &[&str], from: &[(&str, &str)]) -> Vec<String> {
        let rules = EnvironmentRules::new(patterns.iter().map(|pattern| pattern.parse().unwrap()).collect());
        let owned = from.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let environment = Environment::chosen_by(&rules, owned);
        let found = from
            .iter()
            .filter_map(|(name, _)| Some(format!("{name}={}", environment.get(name)?.to_string_lossy())));
        found.collect()
    }

    #[test]
    fn what_builds_and_tests_usually_need_passes() {
        for name in "HTTPS_PROXY no_proxy NODE_EXTRA_CA_CERTS SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO \
                     AWS_CA_BUNDLE LC_PAPER CI NODE_ENV RUST_BACKTRACE CARGO_BUILD_JOBS PYTHONPATH GOFLAGS JAVA_HOME CC CXXFLAGS \
                     PIP_INDEX_URL npm_config_registry DEBUG LOG_LEVEL PORT HOST DJANGO_SETTINGS_MODULE RAILS_ENV"
            .split_whitespace()
        {
            assert_eq!(passed(&[], &[(name, "value")]), [format!("{name}=value")], "{name}");
        }
    }

    #[test]
    fn what_cargo_tells_the_programs_that_it_runs_does_not_pass() {
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_BIN_EXE_roo-lsp"] {
            assert_eq!(passed(&[], &[(name, "value")]), [""; 0], "{name}");
        }
    }

    #[test]
    fn no_usual_name_looks_like_a_secret() {
        for name in PASSED.iter().flat_map(|names| names.split(' ')) {
            assert!(!name.is_empty() && !is_secret_name(name), "{name:?}");
        }
    }

    #[test]
    fn secrets_do_not_pass_unnamed() {
        let secrets = [
            ("CARGO_REGISTRY_TOKEN", "x"),
            ("CARGO_REGISTRIES_MINE_TOKEN", "x"),
            ("DATABASE_URL", "postgres://db/app"),
            ("GITHUB_TOKEN", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            // By their values.
            ("RUST_TEST_X", "ghp_a7Kq2Lm9Zx4Tr0Vb8Nc1Wd6Yf3Hg5Js7Kq2L"),
            ("GRADLE_OPTS", "-Dpassword=x7Kq2Lm9Zx4T"),
        ];
        assert_eq!(passed(&[], &secrets), [""; 0]);
        assert_eq!(passed(&["*"], &secrets), [""; 0]);
        assert_eq!(passed(&["DATABASE_URL", "GITHUB_*"], &secrets), ["DATABASE_URL=postgres://db/app"]);
        assert_eq!(passed(&["GITHUB_TOKEN"], &secrets), ["GITHUB_TOKEN=x"]);
    }

    #[test]
    fn a_container_engine_passes_where_it_is_a_socket() {
        let socket = ("DOCKER_HOST", "unix:///run/user/1000/docker.sock");
        assert_eq!(passed(&[], &[socket]), ["DOCKER_HOST=unix:///run/user/1000/docker.sock"]);
        assert_eq!(passed(&["!DOCKER_*"], &[socket]), [""; 0]);
        assert_eq!(passed(&[], &[("DOCKER_HOST", "ssh://ada@host")]), [""; 0]);
        assert_eq!(passed(&[], &[("DOCKER_HOST", "tcp://10.0.0.1:2375")]), [""; 0]);
    }

    #[test]
    fn urls_pass_without_the_login_in_them() {
        let from = [
            ("HTTPS_PROXY", "http://ada:secret@proxy:3128"),
            ("PIP_INDEX_URL", "https://token@pypi.corp.example/simple"),
            ("GOPROXY", "https://a:b@goproxy.corp.example,https://proxy.golang.org,direct"),
        ];
        let without = [
            "HTTPS_PROXY=http://proxy:3128",
            "PIP_INDEX_URL=https://pypi.corp.example/simple",
            "GOPROXY=https://goproxy.corp.example,https://proxy.golang.org,direct",
        ];
        assert_eq!(passed(&[], &from), without);
        assert_eq!(passed(&["*_PROXY", "P*"], &from), without);
        assert_eq!(passed(&["HTTPS_PROXY"], &from[..1]), ["HTTPS_PROXY=http://ada:secret@proxy:3128"]);
        // What only a pattern stands for isn't changed: it passes or not.
        let other = [("MY_URL", "https://ada:secret@host/"), ("MY_HOST", "host")];
        assert_eq!(passed(&["MY_*"], &other), ["MY_HOST=host"]);
    }

    #[test]
    fn patterns_add_and_leave_out() {
        let from =
            [("AWS_REGION", "eu"), ("AWS_SECRET_X", "s"), ("AWS_PROFILE", "p"), ("CI", "1"), ("STAGE", "t")];
        assert_eq!(passed(&[], &from), ["CI=1"]);
        assert_eq!(passed(&["AWS_*", "STAGE"], &from), ["AWS_REGION=eu", "AWS_PROFILE=p", "CI=1", "STAGE=t"]);
        assert_eq!(passed(&["AWS_*", "!AWS_P*", "!CI"], &from), ["AWS_REGION=eu"]);
        assert_eq!(passed(&["AWS_PROFILE", "!AWS_*"], &from), ["CI=1"], "what is left out stays out");
    }

    #[test]
    fn what_loads_programs_and_leads_to_agents_passes_by_its_name_alone() {
        let from = [
            ("LD_PRELOAD", "x.so"),
            ("BASH_ENV", "x"),
            ("BASH_FUNC_x%%", "() { y; }"),
            ("GIT_DIR", "x"),
            ("SSH_AUTH_SOCK", "/s"),
            ("DYLD_INSERT_LIBRARIES", "x"),
            ("LD_LIBRARY_PATH", "/lib"),
        ];
        assert_eq!(passed(&["*"], &from), [""; 0]);
        assert_eq!(
            passed(&["LD_LIBRARY_PATH", "SSH_AUTH_SOCK"], &from),
            ["SSH_AUTH_SOCK=/s", "LD_LIBRARY_PATH=/lib"]
        );
        // Variables that every command gets keep their values, whichever are passed through.
        assert_eq!(
            passed(&["TERM", "GIT_PAGER"], &[("TERM", "xterm"), ("GIT_PAGER", "x")]),
            ["TERM=dumb", "GIT_PAGER=cat"]
        );
    }

    #[test]
    fn values_are_not_for_logs() {
        let environment = Environment::chosen([("HOME".into(), "/home/ada".into())]);
        let shown = format!("{environment:?}");
        assert!(shown.contains("HOME") && !shown.contains("ada"), "{shown}");
    }

    #[test]
    fn the_search_path_holds_absolute_directories_only() {
        assert_eq!(chosen(&[("PATH", ".:/usr/bin::bin:/bin:")])["PATH"], "/usr/bin:/bin");
        assert_eq!(chosen(&[("PATH", ".:")])["PATH"], "/usr/local/bin:/usr/bin:/bin");
    }

    #[test]
    fn what_is_set_can_not_be_overridden() {
        let seen = chosen(&[("GIT_CONFIG_COUNT", "0"), ("TERM", "xterm")]);
        assert_eq!(
            (seen["GIT_CONFIG_COUNT"].as_str(), seen["TERM"].as_str()),
            (GIT.len().to_string().as_str(), "dumb")
        );
        assert_eq!((seen["NO_COLOR"].as_str(), seen["ROO_ACTIVE"].as_str()), ("1", "true"));
        assert_eq!(
            (seen["GIT_CONFIG_KEY_0"].as_str(), seen["GIT_CONFIG_VALUE_0"].as_str()),
            ("commit.gpgSign", "false")
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_repository_chooses_no_signing_program_or_editor() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().expect("a directory");
        let git = |line: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let environment = Environment::chosen([("PATH".into(), path)]);
            let identity = ["NAME", "EMAIL"]
                .iter()
                .flat_map(|what| ["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_{what}"), "ada")));
            std::process::Command::new("/bin/sh")
                .args(["-c", line])
                .current_dir(directory.path())
                .env_clear()
                .envs(environment.variables())
                .envs(identity)
                .output()
                .expect("a shell")
        };
        let trap = directory.path().join("trap.sh");
        std::fs::write(&trap, "#!/bin/sh\ntouch \"$(dirname \"$0\")/trapped\"\n").expect("a file");
        std::fs::set_permissions(&trap, std::fs::Permissions::from_mode(0o755)).expect("a program");
        let trap = trap.display();
        let setup = format!(
            "git init -q && git config commit.gpgSign true && git config tag.gpgSign true && \
             for key in gpg.program gpg.ssh.program core.editor sequence.editor core.pager core.fsmonitor \
             core.askPass; \
             do git config $key {trap}; done && echo a >a && git add a && git commit -q -m one"
        );
        let output = git(&setup);
        assert!(output.status.success(), "{output:?}");
        for line in [
            "echo b >>a; git commit -a -m two",
            "echo c >>a; git commit -a",
            "git commit --amend",
            "git tag -m x v1",
            "git tag -s -m x v2",
            "git branch --edit-description",
            "git log --show-signature --format=%G?",
            "git status",
            "git rebase -i HEAD~1",
            // A key of SSH to sign with comes from a program.
            &format!(
                "git config gpg.format ssh; git config gpg.ssh.defaultKeyCommand {trap}; git tag -s x -m y"
            ),
            // What a partial clone lacks comes from a remote's program.
            &format!(
                "git config core.repositoryformatversion 1; git config extensions.partialClone origin; \
                 git config remote.origin.url .; git config remote.origin.promisor true; \
                 git config remote.origin.uploadpack {trap}; lost=$(git rev-parse HEAD:a); \
                 rm -f .git/objects/$(echo $lost | sed 's,^..,&/,'); git cat-file -p $lost"
            ),
            r"printf 'protocol=https\nhost=example.invalid\n\n' | git credential fill",
        ] {
            let output = git(line);
            assert!(!directory.path().join("trapped").exists(), "{line}: {output:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn git_that_the_server_starts_runs_no_hook() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().expect("a directory");
        let inherited = || Environment::chosen(std::env::vars_os());
        let git = |environment: Environment, line: &str| {
            let mut git = std::process::Command::new("git");
            let identity = ["-c", "user.name=ada", "-c", "user.email=ada"];
            git.args(identity).args(line.split(' ')).current_dir(directory.path()).env_clear();
            let output = git.envs(environment.variables()).output().expect("git");
            assert!(output.status.success(), "{line}: {output:?}");
        };
        git(inherited(), "init -q");
        let hook = directory.path().join(".git/hooks/pre-commit");
        std::fs::write(&hook, "#!/bin/sh\necho >>ran\n").expect("a file");
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("a program");
        git(inherited().cautious_git(), "commit -q --allow-empty -m one");
        assert!(!directory.path().join("ran").exists());
        git(inherited(), "commit -q --allow-empty -m two");
        assert!(directory.path().join("ran").exists(), "a command's does");
    }

    #[test]
    fn text_is_utf_8_unless_the_user_says_otherwise() {
        assert_eq!(chosen(&[])["LANG"], "C.UTF-8");
        assert_eq!(chosen(&[("LANG", "de_DE.UTF-8")])["LANG"], "de_DE.UTF-8");
        assert!(!chosen(&[("LC_ALL", "C")]).contains_key("LANG"));
    }
}
