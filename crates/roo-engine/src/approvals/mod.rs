//! Standing rules: what a user has allowed or refused permanently, in one workspace or in all of theirs. Each comes from
//! an answer of theirs, says in full what it is about, and can be revoked.
//!
//! Approvals that wait are state of their task; whether a rule applies to a call is for [`crate::policy`].

use std::io;
use std::path::{Path, PathBuf};

use roo_durable::PrivateFile;
use roo_protocol::rule::{RuleItem, RuleScope, RuleSubject, RuleVerdict};

/// The largest file that is read, in bytes.
const LIMIT: u64 = 4 << 20;

/// Reasons why a rule can't be kept or revoked.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// No rule of that id.
    #[error("there is no standing rule '{0}'")]
    Unknown(String),
    /// The disk refuses it.
    #[error("the standing rules in {} can't be used: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
}

/// The standing rules that count in one workspace: its own, and those of the user's for all workspaces.
pub struct StandingRules {
    workspace: RuleFile,
    /// None where only the workspace's own count.
    user: Option<RuleFile>,
}

impl StandingRules {
    /// The rules kept below the workspace's part of the state directory.
    pub fn new(state_directory: &Path) -> Self {
        Self { workspace: RuleFile::new(state_directory, "r"), user: None }
    }

    /// The same, and those for all workspaces, kept in the state directory itself.
    pub fn with_user_rules(self, state_directory: &Path) -> Self {
        Self { user: Some(RuleFile::new(state_directory, "u")), ..self }
    }

    /// All of them: the workspace's, the oldest first, then the user's.
    ///
    /// # Errors
    /// [`RuleError::Io`] when they can't be read: then none may be taken for granted, nor for absent.
    pub fn list(&self) -> Result<Vec<RuleItem>, RuleError> {
        let mut rules = self.workspace.list()?;
        if let Some(user) = &self.user {
            let of_user = user.list()?.into_iter();
            rules.extend(of_user.map(|rule| RuleItem { scope: RuleScope::User, ..rule }));
        }
        Ok(rules)
    }

    /// Makes a rule, unless there is one of that verdict on just that.
    ///
    /// # Errors
    /// [`RuleError::Io`].
    pub fn add(
        &self,
        verdict: RuleVerdict,
        subject: RuleSubject,
        by: &str,
        at: i64,
    ) -> Result<(), RuleError> {
        self.workspace.add((RuleScope::Workspace, verdict), subject, by, at)
    }

    /// Makes a rule for all of the user's workspaces; for this one alone where there is no place for the others.
    ///
    /// # Errors
    /// [`RuleError::Io`].
    pub(crate) fn add_everywhere(
        &self,
        verdict: RuleVerdict,
        subject: RuleSubject,
        by: &str,
        at: i64,
    ) -> Result<(), RuleError> {
        match &self.user {
            Some(user) => user.add((RuleScope::User, verdict), subject, by, at),
            None => self.add(verdict, subject, by, at),
        }
    }

    /// Takes a rule back.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn revoke(&self, id: &str) -> Result<(), RuleError> {
        match (self.workspace.revoke(id), &self.user) {
            (Err(RuleError::Unknown(_)), Some(user)) => user.revoke(id),
            (revoked, _) => revoked,
        }
    }
}

/// A file of rules.
struct RuleFile {
    file: PrivateFile,
    /// Prefix of ids.
    prefix: &'static str,
}

impl RuleFile {
    fn new(directory: &Path, prefix: &'static str) -> Self {
        Self::from_file(PrivateFile::new(directory.join("rules.json")), prefix)
    }

    fn from_file(file: PrivateFile, prefix: &'static str) -> Self {
        Self { file, prefix }
    }

    fn list(&self) -> Result<Vec<RuleItem>, RuleError> {
        self.read().map_err(|source| self.failed(source))
    }

    fn add(
        &self,
        (scope, verdict): (RuleScope, RuleVerdict),
        subject: RuleSubject,
        by: &str,
        at: i64,
    ) -> Result<(), RuleError> {
        self.change(|rules| {
            if rules.iter().any(|rule| rule.verdict == verdict && rule.subject == subject) {
                return Ok(());
            }
            let number = |rule: &RuleItem| rule.rule_id.strip_prefix(self.prefix)?.parse::<u64>().ok();
            let last = rules.iter().filter_map(number).max();
            let verb = match verdict {
                RuleVerdict::Allow => "Always allow",
                RuleVerdict::Deny => "Always deny",
            };
            rules.push(RuleItem {
                rule_id: format!("{}{}", self.prefix, last.unwrap_or(0) + 1),
                verdict,
                text: format!("{verb} {}", subject.text()),
                subject,
                scope,
                created_at: at,
                by: by.to_owned(),
            });
            Ok(())
        })
    }

    fn revoke(&self, id: &str) -> Result<(), RuleError> {
        self.change(|rules| {
            let before = rules.len();
            rules.retain(|rule| rule.rule_id != id);
            if rules.len() == before { Err(RuleError::Unknown(id.to_owned())) } else { Ok(()) }
        })
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Vec<RuleItem>) -> Result<(), RuleError>,
    ) -> Result<(), RuleError> {
        // Servers and the command line share the file: what one takes back, no other may write again.
        let _lock = self.file.lock().map_err(|source| self.failed(source))?;
        let mut rules = self.list()?;
        let before = rules.clone();
        change(&mut rules)?;
        if rules == before {
            return Ok(());
        }
        let bytes = serde_json::to_vec_pretty(&rules).map_err(|error| self.failed(error.into()))?;
        self.file.replace(&bytes).map_err(|source| self.failed(source))
    }

    fn read(&self) -> io::Result<Vec<RuleItem>> {
        match self.file.read(LIMIT)? {
            Some(bytes) => Ok(serde_json::from_slice(&bytes)?),
            None => Ok(vec![]),
        }
    }

    fn failed(&self, source: io::Error) -> RuleError {
        RuleError::Io { path: self.file.path().to_owned(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use roo_durable::simulated_disk::{SimulatedDisk, assert_old_or_new};
    use roo_protocol::rule::SandboxAccess;

    type Change = fn(&StandingRules) -> Result<(), RuleError>;

    fn rules_on(disk: &SimulatedDisk) -> StandingRules {
        let file = PrivateFile::on(Arc::new(disk.clone()), "/state/rules.json");
        StandingRules { workspace: RuleFile::from_file(file, "r"), user: None }
    }

    #[test]
    fn a_loss_of_power_or_a_full_disk_leaves_the_old_rules_or_the_new_ones() {
        let changes: [Change; 2] =
            [|rules| rules.add(RuleVerdict::Deny, RuleSubject::Edits, "nvim", 2), |rules| rules.revoke("r1")];
        for change in changes {
            assert_old_or_new(
                |disk| {
                    rules_on(disk).add(RuleVerdict::Allow, command(&["cargo", "test"]), "nvim", 1).unwrap()
                },
                |disk| change(&rules_on(disk)),
                |disk| rules_on(disk).list().unwrap(),
            );
        }
    }

    fn command(words: &[&str]) -> RuleSubject {
        RuleSubject::Commands { commands: vec![words.iter().map(|word| (*word).to_owned()).collect()] }
    }

    #[test]
    fn rules_are_kept_told_in_full_and_taken_back() {
        let directory = tempfile::tempdir().unwrap();
        let rules = StandingRules::new(directory.path());
        assert_eq!(rules.list().unwrap(), []);
        rules.add(RuleVerdict::Allow, command(&["cargo", "test", "a b"]), "nvim", 1).unwrap();
        rules.add(RuleVerdict::Allow, command(&["cargo", "test", "a b"]), "helix", 2).unwrap();
        rules.add(RuleVerdict::Deny, RuleSubject::Edits, "nvim", 3).unwrap();
        let rules = StandingRules::new(directory.path());
        let told: Vec<String> =
            rules.list().unwrap().into_iter().map(|rule| format!("{} {}", rule.rule_id, rule.text)).collect();
        assert_eq!(
            told,
            ["r1 Always allow `cargo test \"a b\"`", "r2 Always deny edits of this workspace's files"]
        );
        rules.revoke("r1").unwrap();
        assert!(matches!(rules.revoke("r1"), Err(RuleError::Unknown(_))));
        rules.add(RuleVerdict::Allow, RuleSubject::Reads, "nvim", 4).unwrap();
        assert_eq!(rules.list().unwrap().last().unwrap().rule_id, "r3", "ids don't come twice in a row");
    }

    #[test]
    fn rules_for_all_workspaces_count_in_each_and_are_taken_back_in_any() {
        let directory = tempfile::tempdir().unwrap();
        let of =
            |name: &str| StandingRules::new(&directory.path().join(name)).with_user_rules(directory.path());
        let paths = SandboxAccess { readable: vec!["/h/.npmrc".into()], ..SandboxAccess::default() };
        let paths = RuleSubject::SandboxAccess(Box::new(paths));
        of("one").add(RuleVerdict::Allow, RuleSubject::ConfinedCommands, "nvim", 1).unwrap();
        of("one").add_everywhere(RuleVerdict::Allow, paths, "nvim", 2).unwrap();
        let told = |name: &str| -> Vec<String> {
            let told = |rule: RuleItem| format!("{} {:?} {}", rule.rule_id, rule.scope, rule.text);
            of(name).list().unwrap().into_iter().map(told).collect()
        };
        let (own, all) = (
            "r1 Workspace Always allow commands that stay in the sandbox",
            "u1 User Always allow commands to read `/h/.npmrc`",
        );
        assert_eq!(told("one"), [own, all]);
        assert_eq!(told("two"), [all]);
        of("two").revoke("u1").unwrap();
        assert!(matches!(of("two").revoke("r1"), Err(RuleError::Unknown(_))));
        assert_eq!(told("one"), [own]);
    }

    #[test]
    fn of_many_that_take_rules_back_at_once_none_brings_a_rule_back() {
        let directory = tempfile::tempdir().unwrap();
        let ids: Vec<String> = (1..=24).map(|number| format!("r{number}")).collect();
        for id in &ids {
            StandingRules::new(directory.path()).add(RuleVerdict::Allow, command(&[id]), "nvim", 1).unwrap();
        }
        let start = std::sync::Barrier::new(ids.len());
        std::thread::scope(|threads| {
            for id in &ids {
                // Each as a process has it: with nothing in common but the file.
                threads.spawn(|| {
                    let rules = StandingRules::new(directory.path());
                    start.wait();
                    rules.revoke(id).unwrap();
                });
            }
        });
        assert_eq!(StandingRules::new(directory.path()).list().unwrap(), []);
    }

    #[test]
    fn a_damaged_file_is_neither_used_nor_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("rules.json"), "{").unwrap();
        let rules = StandingRules::new(directory.path());
        assert!(rules.list().is_err());
        assert!(rules.add(RuleVerdict::Allow, RuleSubject::Edits, "x", 1).is_err());
        assert_eq!(std::fs::read_to_string(directory.path().join("rules.json")).unwrap(), "{");
    }
}
