//! Git's configuration for a directory, with all its files and what they include: what is signed and how, and where
//! hooks are.
//!
//! Which changes of a configuration may stay is in [`super::config`].

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::program::git;
use roo_sandbox::exec::sandbox::SigningKey;
use roo_sandbox::exec::{Environment, find_program};

/// The values of a configuration, in the order in which git reads them: the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct EffectiveConfiguration {
    entries: Vec<Entry>,
    /// Files that it comes from; some relative to the top of the work tree.
    pub(super) files: BTreeSet<PathBuf>,
    home: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// True if it comes from the user's or the machine's files, and not from the repository's.
    is_users: bool,
    key: String,
    value: String,
}

/// Objects that git signs by its configuration, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// True if every commit is signed.
    pub commits: bool,
    /// True if every tag is signed.
    pub tags: bool,
    pub method: SigningMethod,
}

/// Methods of signing of git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningMethod {
    /// With an SSH key.
    Ssh(SigningKey),
    /// With an SSH key that the configuration doesn't name in full.
    UnknownSshKey,
    /// With GnuPG or by certificates: the value of `gpg.format`.
    Other(String),
}

impl EffectiveConfiguration {
    /// Reads it as git in this directory does. Runs git, and takes no program of the workspace folders `roots`.
    ///
    /// # Errors
    /// When git can't be run, or can't read it.
    pub(in super::super) fn read(directory: &Path, roots: &[PathBuf]) -> io::Result<Self> {
        let words = ["config", "--list", "--show-scope", "--show-origin", "--null"];
        let output = git(directory, roots)?.args(words).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        Ok(Self::parse(&String::from_utf8_lossy(&output.stdout), home))
    }

    fn parse(listed: &str, home: Option<PathBuf>) -> Self {
        let mut parts = listed.split_terminator('\0');
        let (mut entries, mut files) = (Vec::new(), BTreeSet::new());
        while let (Some(scope), Some(origin), Some(entry)) = (parts.next(), parts.next(), parts.next()) {
            files.extend(origin.strip_prefix("file:").map(PathBuf::from));
            // A key without a value means true.
            let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
            // What is set for one command is what the server sets.
            if scope != "command" {
                let is_users = matches!(scope, "system" | "global");
                entries.push(Entry { is_users, key: key.to_owned(), value: value.to_owned() });
            }
        }
        Self { entries, files, home }
    }

    fn get(&self, key: &str) -> Option<&str> {
        let mut entries = self.entries.iter().rev();
        entries.find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    }

    /// A value that no repository can set.
    fn get_users(&self, key: &str) -> Option<&str> {
        let mut entries = self.entries.iter().rev().filter(|entry| entry.is_users);
        entries.find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    }

    fn is_set(&self, key: &str) -> bool {
        let value = self.get(key).unwrap_or_default().to_ascii_lowercase();
        matches!(value.as_str(), "true" | "yes" | "on")
            || value.parse::<i64>().is_ok_and(|number| number != 0)
    }

    /// Returns what is signed, and how: by no program of the workspace folders.
    pub(in super::super) fn signing(&self, roots: &[PathBuf]) -> Signing {
        let method = match self.get("gpg.format") {
            Some("ssh") => self.ssh_key(roots).map_or(SigningMethod::UnknownSshKey, SigningMethod::Ssh),
            other => SigningMethod::Other(other.unwrap_or("openpgp").to_owned()),
        };
        Signing { commits: self.is_set("commit.gpgsign"), tags: self.is_set("tag.gpgsign"), method }
    }

    fn ssh_key(&self, roots: &[PathBuf]) -> Option<SigningKey> {
        let named = self.get("user.signingkey")?;
        let literal = named.strip_prefix("key::").or_else(|| named.starts_with("ssh-").then_some(named));
        let key = match literal {
            Some(key) => key.to_owned(),
            None => self.expand(named).filter(|path| path.is_absolute())?.to_str()?.to_owned(),
        };
        // It runs outside of the sandbox.
        let program = self.get_users("gpg.ssh.program").unwrap_or("ssh-keygen");
        let program =
            find_program(&Environment::inherited(), self.expand(program)?.to_str()?, roots)?.into_os_string();
        Some(SigningKey { key, is_literal: literal.is_some(), program })
    }

    /// A path as git takes it: from the home directory where it begins with `~/`.
    fn expand(&self, path: &str) -> Option<PathBuf> {
        match path.strip_prefix("~/") {
            Some(below) => Some(self.home.as_ref()?.join(below)),
            None => Some(path.into()),
        }
    }

    /// The directory of hooks where that is not the repository's own; relative to the top of the work tree.
    pub(in super::super) fn hooks_path(&self) -> Option<PathBuf> {
        self.get("core.hookspath").filter(|path| !path.is_empty()).and_then(|path| self.expand(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(entries: &[(&str, &str)]) -> EffectiveConfiguration {
        let listed: String =
            entries.iter().map(|(scope, entry)| format!("{scope}\0file:c\0{entry}\0")).collect();
        EffectiveConfiguration::parse(&listed, Some("/h".into()))
    }

    #[test]
    #[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
    fn the_key_and_what_it_signs_are_as_git_takes_them() {
        let found = configuration(&[
            ("global", "gpg.format\nssh"),
            ("global", "user.signingkey\n~/.ssh/id.pub"),
            ("global", "commit.gpgsign\nfalse"),
            ("local", "commit.gpgsign"),
            ("command", "commit.gpgsign\nfalse"),
        ]);
        let program = find_program(&Environment::inherited(), "ssh-keygen", &[]).unwrap().into();
        let key = SigningKey { key: "/h/.ssh/id.pub".into(), is_literal: false, program };
        assert_eq!(
            found.signing(&[]),
            Signing { commits: true, tags: false, method: SigningMethod::Ssh(key) }
        );
        for (value, literal) in [("key::ssh-ed25519 A", "ssh-ed25519 A"), ("ssh-rsa B", "ssh-rsa B")] {
            let entry = format!("user.signingkey\n{value}");
            let found = configuration(&[("global", "gpg.format\nssh"), ("local", &entry)]).signing(&[]);
            let SigningMethod::Ssh(key) = found.method else { panic!("{value}") };
            assert_eq!((key.key.as_str(), key.is_literal), (literal, true));
        }
    }

    #[test]
    fn a_repository_names_no_program_that_signs() {
        let found = configuration(&[
            ("global", "gpg.format\nssh"),
            ("global", "gpg.ssh.program\n/bin/sh"),
            ("local", "gpg.ssh.program\n./evil"),
            ("local", "user.signingkey\n/k"),
        ]);
        assert_eq!(found.signing(&["/".into()]).method, SigningMethod::UnknownSshKey);
        let SigningMethod::Ssh(key) = found.signing(&[]).method else { panic!() };
        assert_eq!(key.program, "/bin/sh");
    }

    #[test]
    fn what_names_no_ssh_key_is_told_apart() {
        let of = |entries: &[(&str, &str)]| configuration(entries).signing(&[]).method;
        assert_eq!(of(&[]), SigningMethod::Other("openpgp".into()));
        assert_eq!(of(&[("global", "gpg.format\nx509")]), SigningMethod::Other("x509".into()));
        for key in ["user.signingkey\nid.pub", "user.name\nx"] {
            assert_eq!(of(&[("global", "gpg.format\nssh"), ("global", key)]), SigningMethod::UnknownSshKey);
        }
    }

    #[test]
    fn the_directory_of_hooks_is_the_last_one_named() {
        assert_eq!(configuration(&[]).hooks_path(), None);
        let both = [("global", "core.hookspath\n~/hooks"), ("local", "core.hookspath\n.githooks")];
        assert_eq!(configuration(&both[..1]).hooks_path(), Some("/h/hooks".into()));
        assert_eq!(configuration(&both).hooks_path(), Some(".githooks".into()));
    }
}
