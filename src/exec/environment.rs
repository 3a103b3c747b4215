//! The variables that a command sees: named ones only, so that keys and tokens of the server's own
//! environment never reach one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Variables that are passed on as they are: who and where the user is, and where toolchains live.
const PASSED: &str = "\
    HOME LOGNAME SHELL TMPDIR TZ USER LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_NUMERIC \
    LC_TIME XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR XDG_STATE_HOME NIX_PROFILES \
    NIX_SSL_CERT_FILE SSL_CERT_DIR SSL_CERT_FILE \
    ANDROID_HOME ANDROID_SDK_ROOT BUN_INSTALL CARGO_HOME CARGO_TARGET_DIR CONDA_PREFIX COREPACK_HOME \
    DENO_DIR DENO_INSTALL DOTNET_ROOT FNM_DIR GEM_HOME GEM_PATH GOBIN GOCACHE GOMODCACHE GOPATH \
    GOROOT GRADLE_HOME GRADLE_USER_HOME HOMEBREW_PREFIX JAVA_HOME JULIA_DEPOT_PATH M2_HOME MAVEN_HOME \
    NVM_DIR OPAM_SWITCH_PREFIX PKG_CONFIG_PATH PNPM_HOME POETRY_HOME PYENV_ROOT RBENV_ROOT \
    RUSTUP_HOME RUSTUP_TOOLCHAIN SDKROOT VIRTUAL_ENV VOLTA_HOME";

/// Configuration that every git below a command reads last, so that no repository can undo it: a look at a repository
/// must start no program of its choosing, and keys to sign with are not the command's. What a commit starts, such as the
/// user's hooks, runs as it does for the user, in the bounds of the command.
const GIT: &[(&str, &str)] = &[
    ("commit.gpgSign", "false"),
    ("core.fsmonitor", "false"),
    // A key to sign with is named, not asked of a program.
    ("gpg.format", "openpgp"),
    ("gpg.program", "/dev/null"),
    ("gpg.openpgp.program", "/dev/null"),
    ("gpg.ssh.program", "/dev/null"),
    ("gpg.x509.program", "/dev/null"),
    ("log.showSignature", "false"),
    ("protocol.ext.allow", "never"),
    ("tag.gpgSign", "false"),
];

/// The same for git that the server starts by itself, which nothing bounds: it runs nothing for a repository.
const CAUTIOUS_GIT: &[(&str, &str)] = &[("core.hooksPath", "/dev/null"), ("safe.bareRepository", "explicit")];

/// Keeps git from fetching what a partial clone lacks. It is for commands without a network; who lets a command
/// reach it was asked.
pub(super) const NO_LAZY_FETCH: &str = "GIT_NO_LAZY_FETCH";

/// The environment of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// Chosen from the server's own environment.
    pub fn inherited() -> Self {
        Self::chosen(std::env::vars_os())
    }

    /// Chosen from the given variables.
    pub fn chosen(from: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut variables = BTreeMap::new();
        let mut path = OsString::new();
        for (name, value) in from {
            if name == "PATH" {
                path = absolute_entries(&value);
            } else if PASSED.split(' ').any(|passed| name == passed) {
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
