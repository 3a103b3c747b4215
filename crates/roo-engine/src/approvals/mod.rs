//! Standing rules: what a user has allowed or refused permanently, in one workspace or in all of theirs. Each comes from
//! an answer of theirs, says in full what it is about, and can be revoked.
//!
//! Approvals that wait are state of their task; whether a rule applies to a call is for [`crate::policy`].

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use roo_durable::{DirectoryIdentity, PrivateFile};
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
///
/// A rule of the workspace that allows or grants something holds for the directory that it was made for. It has no effect
/// where another directory is at that path, until it is made again; what a rule refuses stays refused.
pub struct StandingRules {
    workspace: RuleFile,
    /// None where only the workspace's own count.
    user: Option<RuleFile>,
}

impl StandingRules {
    /// The rules kept below the workspace's part of the state directory. `root` is its first folder.
    pub fn new(state_directory: &Path, root: Option<&Path>) -> Self {
        Self { workspace: RuleFile::new(state_directory, "r", root), user: None }
    }

    /// The same, and those for all workspaces, kept in the state directory itself.
    pub fn with_user_rules(self, state_directory: &Path) -> Self {
        Self { user: Some(RuleFile::new(state_directory, "u", None)), ..self }
    }

    /// All of them for the user: the workspace's, the oldest first, then the user's. The texts of those without effect say so.
    ///
    /// # Errors
    /// [`RuleError::Io`].
    pub fn list(&self) -> Result<Vec<RuleItem>, RuleError> {
        let shown = |kept: KeptRule| match kept.has_effect {
            true => kept.rule,
            false => RuleItem { text: format!("{} ({NO_EFFECT})", kept.rule.text), ..kept.rule },
        };
        Ok(self.read()?.into_iter().map(shown).collect())
    }

    /// Those that have an effect, in the same order.
    ///
    /// # Errors
    /// [`RuleError::Io`] when they can't be read: then none may be taken for granted, nor for absent.
    pub(crate) fn in_effect(&self) -> Result<Vec<RuleItem>, RuleError> {
        let rules = self.read()?.into_iter().filter(|kept| kept.has_effect);
        Ok(rules.map(|kept| kept.rule).collect())
    }

    /// Returns what to tell the user of rules without effect, if there are any. Those that can't be read are told of elsewhere.
    pub fn notice(&self) -> Option<String> {
        let count = self.read().ok()?.iter().filter(|kept| !kept.has_effect).count();
        let rules = match count {
            0 => return None,
            1 => "1 standing rule has".to_owned(),
            _ => format!("{count} standing rules have"),
        };
        Some(format!(
            "{rules} no effect, because this workspace's path now leads to another directory than the one that you made them \
             for; see roo-lsp policy rules"
        ))
    }

    fn read(&self) -> Result<Vec<KeptRule>, RuleError> {
        let mut rules = self.workspace.list()?;
        if let Some(user) = &self.user {
            let of_user = user.list()?.into_iter();
            rules.extend(
                of_user
                    .map(|kept| KeptRule { rule: RuleItem { scope: RuleScope::User, ..kept.rule }, ..kept }),
            );
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

    /// Takes over the rules that are kept of the same workspace under an earlier path. What they refuse is refused here too;
    /// what they allow, only where this is the directory that they were made for. Those that don't tell are left out.
    ///
    /// # Errors
    /// [`RuleError::Io`]: the rules are kept where they were, and perhaps here too.
    pub fn adopt(&self, earlier_state_directory: &Path) -> Result<(), RuleError> {
        let earlier = RuleFile::new(earlier_state_directory, "r", None);
        let rules = earlier.read().map_err(|source| earlier.failed(source))?;
        self.workspace.take_over(rules)?;
        earlier.file.remove().map_err(|source| earlier.failed(source))?;
        Ok(())
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

/// What the text of a rule without effect says besides.
const NO_EFFECT: &str = "no effect: made for another directory at this path";

/// A rule in a sentence.
fn sentence(verdict: RuleVerdict, subject: &RuleSubject) -> String {
    match (verdict, subject) {
        // The commands themselves are still asked about.
        (RuleVerdict::Deny, RuleSubject::ConfinedCommands | RuleSubject::TrustAndConfinedCommands { .. }) => {
            "No offer to run commands in the sandbox without asking".to_owned()
        }
        (RuleVerdict::Allow, _) => format!("Always allow {}", subject.text()),
        (RuleVerdict::Deny, _) => format!("Always deny {}", subject.text()),
    }
}

/// A rule as it was read.
struct KeptRule {
    rule: RuleItem,
    has_effect: bool,
}

/// A rule as it is kept.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct StoredRule {
    #[serde(flatten)]
    rule: RuleItem,
    /// The workspace's directory that it was made for; none for all workspaces, and where an earlier version has kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<DirectoryIdentity>,
}

impl StoredRule {
    fn has_effect(&self, directory: Option<DirectoryIdentity>) -> bool {
        let is_same = |kept: DirectoryIdentity| directory.is_some_and(|found| found.is_same(kept));
        self.rule.verdict == RuleVerdict::Deny || self.directory.is_none_or(is_same)
    }
}

struct RuleFile {
    file: PrivateFile,
    /// Prefix of ids.
    prefix: &'static str,
    /// The directory that the rules are for; none where they are for all.
    root: Option<PathBuf>,
}

impl RuleFile {
    fn new(directory: &Path, prefix: &'static str, root: Option<&Path>) -> Self {
        Self {
            root: root.map(Path::to_owned),
            ..Self::from_file(PrivateFile::new(directory.join("rules.json")), prefix)
        }
    }

    fn from_file(file: PrivateFile, prefix: &'static str) -> Self {
        Self { file, prefix, root: None }
    }

    fn list(&self) -> Result<Vec<KeptRule>, RuleError> {
        let rules = self.read().map_err(|source| self.failed(source))?;
        // Where it can't be looked at, it is not the one that a rule was made for.
        let directory = self.directory().ok().flatten();
        let kept = |stored: StoredRule| {
            let has_effect = stored.has_effect(directory);
            // An earlier version may have described it in other words.
            let text = sentence(stored.rule.verdict, &stored.rule.subject);
            KeptRule { has_effect, rule: RuleItem { text, ..stored.rule } }
        };
        Ok(rules.into_iter().map(kept).collect())
    }

    fn directory(&self) -> io::Result<Option<DirectoryIdentity>> {
        self.root.as_deref().map(DirectoryIdentity::read).transpose()
    }

    fn add(
        &self,
        (scope, verdict): (RuleScope, RuleVerdict),
        subject: RuleSubject,
        by: &str,
        at: i64,
    ) -> Result<(), RuleError> {
        let directory = self.directory().map_err(|source| self.failed(source))?;
        self.change(|rules| {
            let is_that =
                |stored: &StoredRule| stored.rule.verdict == verdict && stored.rule.subject == subject;
            if rules.iter().any(|stored| is_that(stored) && stored.has_effect(directory)) {
                return Ok(());
            }
            let rule_id = self.next_id(rules);
            rules.retain(|stored| !is_that(stored));
            let rule = RuleItem {
                rule_id,
                verdict,
                text: sentence(verdict, &subject),
                subject: subject.clone(),
                scope,
                created_at: at,
                by: by.to_owned(),
            };
            rules.push(StoredRule { rule, directory });
            Ok(())
        })
    }

    /// Adds rules as they were kept elsewhere, unless there are such.
    fn take_over(&self, earlier: Vec<StoredRule>) -> Result<(), RuleError> {
        self.change(|rules| {
            for stored in earlier {
                let tells = stored.directory.is_some() || stored.rule.verdict == RuleVerdict::Deny;
                let is_that = |known: &StoredRule| {
                    known.rule.verdict == stored.rule.verdict && known.rule.subject == stored.rule.subject
                };
                if tells && !rules.iter().any(is_that) {
                    let rule = RuleItem { rule_id: self.next_id(rules), ..stored.rule };
                    rules.push(StoredRule { rule, ..stored });
                }
            }
            Ok(())
        })
    }

    /// Returns an id that is greater than all others.
    fn next_id(&self, rules: &[StoredRule]) -> String {
        let number = |stored: &StoredRule| stored.rule.rule_id.strip_prefix(self.prefix)?.parse::<u64>().ok();
        let last = rules.iter().filter_map(number).max();
        format!("{}{}", self.prefix, last.unwrap_or(0) + 1)
    }

    fn revoke(&self, id: &str) -> Result<(), RuleError> {
        self.change(|rules| {
            let before = rules.len();
            rules.retain(|stored| stored.rule.rule_id != id);
            if rules.len() == before { Err(RuleError::Unknown(id.to_owned())) } else { Ok(()) }
        })
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Vec<StoredRule>) -> Result<(), RuleError>,
    ) -> Result<(), RuleError> {
        // Servers and the command line share the file: what one takes back, no other may write again.
        let _lock = self.file.lock().map_err(|source| self.failed(source))?;
        let mut rules = self.read().map_err(|source| self.failed(source))?;
        let before = rules.clone();
        change(&mut rules)?;
        if rules == before {
            return Ok(());
        }
        // Those of an earlier version are from now on for the directory for which they count.
        if let Ok(Some(directory)) = self.directory() {
            let counting =
                rules.iter_mut().filter(|stored| stored.directory.is_none_or(|kept| directory.is_same(kept)));
            counting.for_each(|stored| stored.directory = Some(directory));
        }
        let bytes = serde_json::to_vec_pretty(&rules).map_err(|error| self.failed(error.into()))?;
        self.file.replace(&bytes).map_err(|source| self.failed(source))
    }

    fn read(&self) -> io::Result<Vec<StoredRule>> {
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

    /// The rules that are in effect, with their ids.
    fn texts(rules: &StandingRules) -> Vec<String> {
        let rules = rules.in_effect().unwrap().into_iter();
        rules.map(|rule| format!("{} {}", rule.rule_id, rule.text)).collect()
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
        let rules = StandingRules::new(directory.path(), None);
        assert_eq!(rules.list().unwrap(), []);
        rules.add(RuleVerdict::Allow, command(&["cargo", "test", "a b"]), "nvim", 1).unwrap();
        rules.add(RuleVerdict::Allow, command(&["cargo", "test", "a b"]), "helix", 2).unwrap();
        rules.add(RuleVerdict::Deny, RuleSubject::Edits, "nvim", 3).unwrap();
        let rules = StandingRules::new(directory.path(), None);
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
        let of = |name: &str| {
            StandingRules::new(&directory.path().join(name), None).with_user_rules(directory.path())
        };
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
            StandingRules::new(directory.path(), None)
                .add(RuleVerdict::Allow, command(&[id]), "nvim", 1)
                .unwrap();
        }
        let start = std::sync::Barrier::new(ids.len());
        std::thread::scope(|threads| {
            for id in &ids {
                // Each as a process has it: with nothing in common but the file.
                threads.spawn(|| {
                    let rules = StandingRules::new(directory.path(), None);
                    start.wait();
                    rules.revoke(id).unwrap();
                });
            }
        });
        assert_eq!(StandingRules::new(directory.path(), None).list().unwrap(), []);
    }

    #[test]
    fn rules_that_allow_hold_for_their_directory_and_those_that_refuse_for_its_path() {
        let place = tempfile::tempdir().unwrap();
        let (state, root) = (place.path().join("state"), place.path().join("work"));
        std::fs::create_dir(&root).unwrap();
        // As an earlier version has kept it.
        StandingRules::new(&state, None).add(RuleVerdict::Allow, command(&["old"]), "nvim", 1).unwrap();
        let rules = StandingRules::new(&state, Some(&root));
        assert_eq!(rules.in_effect().unwrap().len(), 1);
        rules.add(RuleVerdict::Allow, command(&["make"]), "nvim", 2).unwrap();
        rules.add(RuleVerdict::Deny, RuleSubject::Edits, "nvim", 3).unwrap();
        let in_effect = || texts(&rules);
        let (make, edits) = ("r2 Always allow `make`", "r3 Always deny edits of this workspace's files");
        assert_eq!(
            (in_effect(), rules.notice()),
            (vec!["r1 Always allow `old`".into(), make.into(), edits.into()], None)
        );

        std::fs::rename(&root, place.path().join("moved")).unwrap();
        assert_eq!(in_effect(), [edits], "there is none at its path");
        std::fs::create_dir(&root).unwrap();
        assert_eq!(in_effect(), [edits]);
        assert!(rules.notice().unwrap().starts_with("2 standing rules have no effect"));
        let shown: Vec<String> = rules.list().unwrap().into_iter().map(|rule| rule.text).collect();
        assert_eq!(shown[1], "Always allow `make` (no effect: made for another directory at this path)");

        rules.add(RuleVerdict::Allow, command(&["make"]), "nvim", 4).unwrap();
        assert_eq!(in_effect(), [edits, "r4 Always allow `make`"], "made again");
        rules.revoke("r1").unwrap();
        assert_eq!((rules.list().unwrap().len(), rules.notice()), (2, None));
    }

    #[test]
    fn rules_of_a_moved_workspace_are_taken_over() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let (earlier, state) = (at("earlier"), at("state"));
        std::fs::create_dir(at("before")).unwrap();
        // One doesn't tell for which directory it was made.
        StandingRules::new(&earlier, None).add(RuleVerdict::Allow, command(&["old"]), "nvim", 1).unwrap();
        let old = std::fs::read(earlier.join("rules.json")).unwrap();
        let mut old: Vec<serde_json::Value> = serde_json::from_slice(&old).unwrap();
        std::fs::remove_file(earlier.join("rules.json")).unwrap();
        let before = StandingRules::new(&earlier, Some(&at("before")));
        before.add(RuleVerdict::Allow, command(&["make"]), "nvim", 1).unwrap();
        before.add(RuleVerdict::Deny, RuleSubject::Edits, "nvim", 2).unwrap();
        let kept = std::fs::read(earlier.join("rules.json")).unwrap();
        old.extend(serde_json::from_slice::<Vec<serde_json::Value>>(&kept).unwrap());
        let kept = serde_json::to_vec(&old).unwrap();
        let (make, edits) = ("Always allow `make`", "Always deny edits of this workspace's files");

        // The same directory under another name, which has a rule of its own by now.
        std::fs::rename(at("before"), at("now")).unwrap();
        std::fs::write(earlier.join("rules.json"), &kept).unwrap();
        let now = StandingRules::new(&state, Some(&at("now")));
        now.add(RuleVerdict::Allow, RuleSubject::Reads, "nvim", 3).unwrap();
        let reads = texts(&now)[0].clone();
        now.adopt(&earlier).unwrap();
        assert!(!earlier.join("rules.json").exists());
        assert_eq!(texts(&now), [reads.clone(), format!("r2 {make}"), format!("r3 {edits}")]);
        // One that was cut off is done again.
        std::fs::write(earlier.join("rules.json"), &kept).unwrap();
        now.adopt(&earlier).unwrap();
        assert_eq!(texts(&now).len(), 3);

        // Another directory, as a copy is.
        std::fs::write(earlier.join("rules.json"), &kept).unwrap();
        std::fs::create_dir(at("copy")).unwrap();
        let copy = StandingRules::new(&at("state of the copy"), Some(&at("copy")));
        copy.adopt(&earlier).unwrap();
        assert_eq!(texts(&copy), [format!("r2 {edits}")]);
        assert!(copy.notice().is_some(), "what was allowed has no effect, and that is said");
    }

    #[test]
    fn a_damaged_file_is_neither_used_nor_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("rules.json"), "{").unwrap();
        let rules = StandingRules::new(directory.path(), None);
        assert!(rules.list().is_err());
        assert!(rules.add(RuleVerdict::Allow, RuleSubject::Edits, "x", 1).is_err());
        assert_eq!(std::fs::read_to_string(directory.path().join("rules.json")).unwrap(), "{");
    }
}
