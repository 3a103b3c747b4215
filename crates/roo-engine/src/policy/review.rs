//! Review of an edit: its hunks, the user's decision on each, and the edit that follows from the decisions.
//!
//! A review is made from the files as they were shown and holds the digests of the texts that it leads to. The gate makes
//! these texts again from the files as they are, and lets nothing else be written.

use std::mem;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::decision::AskReason;
use super::preview::Preview;
use super::rule::AskRule;
use roo_protocol::ids::{Digest, HunkId};
use roo_protocol::review::{Hunk, HunkAnswer, HunkDecision, HunkKind, LineRange, ReviewedHunk};
use roo_protocol::task::FilePreview;
use roo_sandbox::exec::redaction::TextMask;
use roo_text::hunks::{self, HunkChoice};
use roo_workspace::{FileEdit, Resolved};

/// The user's decisions on all hunks of an edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// Every hunk, in order.
    pub hunks: Vec<ReviewedHunk>,
    /// Every file, in order.
    files: Vec<ReviewedFile>,
}

/// A file of a reviewed edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewedFile {
    path: String,
    /// The digest of the text that it gets; none where no file is left.
    after: Option<Digest>,
}

/// An answer doesn't fit the hunks that were shown.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// No such hunk.
    #[error("the approval has no change '{0}'; roo/approval/preview lists them")]
    Unknown(HunkId),
    /// Two decisions on one hunk.
    #[error("the change '{0}' is answered twice")]
    Twice(HunkId),
    /// Another change than the one that was shown.
    #[error("the digest of the change '{0}' doesn't match; show the edit again")]
    Changed(HunkId),
    /// The lines of a file that is deleted or moved can't be replaced by this hunk.
    #[error("the change '{0}' deletes or moves a file: it can be accepted or refused")]
    NoLines(HunkId),
    /// Lines that the user put in, and that the log must not have.
    #[error(
        "the lines for the change '{0}' hold what looks like a secret, which the log would keep: put it into the file \
        yourself"
    )]
    Secret(HunkId),
    /// The resulting text is not allowed.
    #[error("{0}")]
    Text(String),
}

/// A file's edit as its user wants it.
#[derive(Clone, Debug)]
pub(crate) struct ReviewedEdit {
    pub(crate) edit: FileEdit,
    /// The text with the model's lines where the user put others; none where the user put none.
    pub(crate) model_text: Option<String>,
}

/// Standing of a review when the edit is judged again.
pub(crate) enum ReviewState {
    /// The user did not answer hunk by hunk.
    NotReviewed,
    /// The files are not as they were reviewed.
    Outdated,
    /// What the user wants; nothing of files that stay as they are.
    Reviewed(Vec<ReviewedEdit>),
}

impl ReviewState {
    /// Reason to ask the user again, whatever the settings allow.
    pub(crate) fn ask(&self) -> Option<AskReason> {
        matches!(self, Self::Outdated).then(|| AskReason {
            rule: AskRule::Policy,
            text: "the files have changed since you answered".into(),
        })
    }
}

impl ReviewedEdit {
    /// The text that a file gets, and the one with the model's lines where the user put others.
    pub(crate) fn into_text(self) -> Option<(String, Option<String>)> {
        match self.edit {
            FileEdit::Create { text, .. } => Some((text, self.model_text)),
            FileEdit::Update { after, .. } => Some((after, self.model_text)),
            FileEdit::Delete { .. } | FileEdit::Move { .. } => None,
        }
    }
}

/// Result of the decisions on one file.
struct FileOutcome {
    moved_to: Option<Resolved>,
    after: Option<String>,
    model_text: Option<String>,
    /// For each hunk, the first of its lines, counted from 0.
    lines: Vec<usize>,
}

/// The hunks of an edit by file. Their ids count through all files.
pub fn hunks_of(files: &[Preview]) -> Vec<Vec<Hunk>> {
    let mut count = 0;
    let mut number = |file: &Preview, kind, hunk: hunks::Hunk| {
        count += 1;
        let range = |range: &std::ops::Range<usize>| LineRange {
            start: u32::try_from(range.start).unwrap_or(u32::MAX),
            end: u32::try_from(range.end).unwrap_or(u32::MAX),
        };
        let identity = json!({
            "path": file.file.display(),
            "movedTo": file.moved_to.as_ref().map(Resolved::display),
            "kind": kind,
            "line": hunk.old.start,
            "old": hunk.old_text,
            "new": hunk.new_text,
        });
        Hunk {
            hunk_id: HunkId::new(format!("h{count}")),
            digest: Digest::of(identity.to_string()),
            kind,
            old_range: range(&hunk.old),
            new_range: range(&hunk.new),
            old_text: hunk.old_text,
            new_text: hunk.new_text,
        }
    };
    let mut all = Vec::new();
    for file in files {
        let whole = whole_file(file).map(|(kind, hunk)| number(file, kind, hunk));
        let mut found: Vec<Hunk> = whole.into_iter().collect();
        found.extend(line_hunks(file).into_iter().map(|hunk| number(file, HunkKind::Edit, hunk)));
        all.push(found);
    }
    all
}

/// The hunk of a file that comes, goes or gets another name.
fn whole_file(file: &Preview) -> Option<(HunkKind, hunks::Hunk)> {
    let lines = |text: &str| text.split_inclusive('\n').count();
    let hunk = |old: &str, new: &str| hunks::Hunk {
        old: 0..lines(old),
        new: 0..lines(new),
        old_text: old.to_owned(),
        new_text: new.to_owned(),
    };
    match (&file.before, &file.after, &file.moved_to) {
        (None, Some(after), _) => Some((HunkKind::Create, hunk("", after))),
        (Some(before), None, _) => Some((HunkKind::Delete, hunk(before, ""))),
        (_, _, Some(_)) => Some((HunkKind::Move, hunk("", ""))),
        _ => None,
    }
}

fn line_hunks(file: &Preview) -> Vec<hunks::Hunk> {
    match (&file.before, &file.after) {
        (Some(before), Some(after)) => hunks::between(before, after),
        _ => vec![],
    }
}

/// Makes of a file what the decisions on its hunks say; none where they are not as many as the file has hunks.
fn decided(file: &Preview, decisions: &[HunkDecision]) -> Option<FileOutcome> {
    let whole = whole_file(file);
    let (own, rest) = if whole.is_some() { decisions.split_at_checked(1)? } else { (&[][..], decisions) };
    let plain = |after, model_text| FileOutcome { moved_to: None, after, model_text, lines: vec![0] };
    let (before, after) = (file.before.clone(), file.after.clone());
    match (whole, own) {
        (Some((HunkKind::Create, hunk)), [decision]) => Some(match decision {
            HunkDecision::Accept => plain(after, None),
            HunkDecision::Refuse { .. } => plain(None, None),
            HunkDecision::Edit { text } => plain(Some(hunk.replacement(text)), after),
        }),
        (Some((HunkKind::Delete, _)), [decision]) => {
            Some(plain(before.filter(|_| *decision != HunkDecision::Accept), None))
        }
        (_, own) => {
            let before = before.unwrap_or_default();
            let found = line_hunks(file);
            if found.len() != rest.len() {
                return None;
            }
            let choices: Vec<HunkChoice<'_>> = rest.iter().map(choice).collect();
            let applied = hunks::apply(&before, &found, &choices);
            let is_edited = rest.iter().any(|decision| matches!(decision, HunkDecision::Edit { .. }));
            let model_text = is_edited.then(|| {
                let by_model = |choice| match choice {
                    HunkChoice::Replace(_) => HunkChoice::Take,
                    choice => choice,
                };
                let choices: Vec<HunkChoice<'_>> = choices.iter().copied().map(by_model).collect();
                hunks::apply(&before, &found, &choices).text
            });
            let moves = own.first() == Some(&HunkDecision::Accept);
            Some(FileOutcome {
                moved_to: file.moved_to.clone().filter(|_| moves),
                after: Some(applied.text),
                model_text,
                lines: own.iter().map(|_| 0).chain(applied.lines).collect(),
            })
        }
    }
}

fn choice(decision: &HunkDecision) -> HunkChoice<'_> {
    match decision {
        HunkDecision::Accept => HunkChoice::Take,
        HunkDecision::Refuse { .. } => HunkChoice::Leave,
        HunkDecision::Edit { text } => HunkChoice::Replace(text),
    }
}

impl Review {
    /// The review of an edit: these answers, and for all other hunks whether they are accepted. It goes into the log, so
    /// its lines have masks in place of secrets.
    ///
    /// # Errors
    /// [`ReviewError`] for an answer that doesn't fit the hunks, or that holds a secret.
    pub(super) fn new(
        files: &[Preview],
        accepts: bool,
        answers: Vec<HunkAnswer>,
        mask: &TextMask,
    ) -> Result<Self, ReviewError> {
        let hunks = hunks_of(files);
        let mut given: Vec<(Hunk, HunkDecision)> = Vec::new();
        for HunkAnswer { hunk_id, digest, decision } in answers {
            let Some(hunk) = hunks.iter().flatten().find(|hunk| hunk.hunk_id == hunk_id) else {
                return Err(ReviewError::Unknown(hunk_id));
            };
            if digest.is_some_and(|digest| digest != hunk.digest) {
                return Err(ReviewError::Changed(hunk_id));
            }
            if given.iter().any(|(known, _)| known.hunk_id == hunk_id) {
                return Err(ReviewError::Twice(hunk_id));
            }
            let decision = settled(hunk, decision)?;
            if let HunkDecision::Edit { text } = &decision
                && mask.masked(text).is_some()
            {
                return Err(ReviewError::Secret(hunk_id));
            }
            given.push((hunk.clone(), decision));
        }
        let (mut all, mut results) = (Vec::new(), Vec::new());
        for (file, hunks) in files.iter().zip(hunks) {
            let decision_on = |hunk: &Hunk| {
                let answer = given.iter().find(|(known, _)| known.hunk_id == hunk.hunk_id);
                answer.map_or_else(
                    || if accepts { HunkDecision::Accept } else { HunkDecision::Refuse { text: None } },
                    |(_, decision)| decision.clone(),
                )
            };
            let decisions: Vec<HunkDecision> = hunks.iter().map(decision_on).collect();
            // As many as there are hunks, so there is an outcome.
            let Some(outcome) = decided(file, &decisions) else { continue };
            let path = file.file.display();
            let masked = |text: &Option<String>| text.as_deref().and_then(|text| mask.masked(text));
            let (masked_before, masked_after) = (masked(&file.before), masked(&file.after));
            all.extend(hunks.into_iter().zip(decisions).zip(&outcome.lines).map(
                |((hunk, decision), line)| ReviewedHunk {
                    hunk_id: hunk.hunk_id,
                    digest: hunk.digest,
                    kind: hunk.kind,
                    path: path.clone(),
                    line: u32::try_from(*line).unwrap_or(u32::MAX).saturating_add(1),
                    old_text: masked_lines(masked_before.as_deref(), hunk.old_range, hunk.old_text),
                    new_text: masked_lines(masked_after.as_deref(), hunk.new_range, hunk.new_text),
                    decision,
                },
            ));
            results.push(ReviewedFile { path, after: outcome.after.map(Digest::of) });
        }
        Ok(Self { hunks: all, files: results })
    }

    /// Returns whether all is accepted as proposed.
    pub(crate) fn accepts_all(&self) -> bool {
        self.hunks.iter().all(|hunk| hunk.decision == HunkDecision::Accept)
    }

    /// Returns whether nothing of the edit is left.
    pub(crate) fn refuses_all(&self) -> bool {
        self.hunks.iter().all(|hunk| matches!(hunk.decision, HunkDecision::Refuse { .. }))
    }

    /// Returns whether the user put lines of their own in the place of proposed ones.
    pub(crate) fn has_edits(&self) -> bool {
        self.hunks.iter().any(|hunk| matches!(hunk.decision, HunkDecision::Edit { .. }))
    }

    /// What is left of an edit; none where it is not the one that was reviewed.
    pub(super) fn apply(&self, files: &[Preview]) -> Option<Vec<ReviewedEdit>> {
        let found = hunks_of(files);
        let shown = self.hunks.iter().map(|hunk| hunk.digest);
        if self.files.len() != files.len() || !found.iter().flatten().map(|hunk| hunk.digest).eq(shown) {
            return None;
        }
        let mut decisions = self.hunks.iter().map(|hunk| hunk.decision.clone());
        let mut edits = Vec::new();
        for ((file, hunks), reviewed) in files.iter().zip(&found).zip(&self.files) {
            let decisions: Vec<HunkDecision> = decisions.by_ref().take(hunks.len()).collect();
            let FileOutcome { moved_to, after, model_text, .. } = decided(file, &decisions)?;
            if reviewed.path != file.file.display() || reviewed.after != after.as_ref().map(Digest::of) {
                return None;
            }
            let path = file.file.clone();
            let edit = match (file.before.clone(), after, moved_to) {
                (None, None, _) => continue,
                (None, Some(text), _) => FileEdit::create(path, text),
                (Some(before), None, _) => FileEdit::Delete { file: path, before },
                (Some(before), Some(after), Some(to)) => FileEdit::Move { from: path, to, before, after },
                (Some(before), Some(after), None) if before == after => continue,
                (Some(before), Some(after), None) => FileEdit::Update { file: path, before, after },
            };
            edits.push(ReviewedEdit { edit, model_text });
        }
        Some(edits)
    }

    /// The same of an edit that is judged again. `is_approved` says whether it is the one that the user was asked about.
    pub(crate) fn state(review: Option<&Self>, is_approved: bool, files: &[Preview]) -> ReviewState {
        match review {
            None => ReviewState::NotReviewed,
            Some(review) if is_approved => {
                review.apply(files).map_or(ReviewState::Outdated, ReviewState::Reviewed)
            }
            Some(_) => ReviewState::Outdated,
        }
    }
}

/// Puts masks in place of the secrets in the files that an edit is about.
pub(crate) fn mask_preview(file: &mut FilePreview, mask: &TextMask) {
    let before = file.before.as_deref().and_then(|text| mask.masked(text));
    let after = mask.masked(&file.after);
    for hunk in &mut file.hunks {
        hunk.old_text = masked_lines(before.as_deref(), hunk.old_range, mem::take(&mut hunk.old_text));
        hunk.new_text = masked_lines(after.as_deref(), hunk.new_range, mem::take(&mut hunk.new_text));
    }
    file.before = before.or(file.before.take());
    file.after = after.unwrap_or(mem::take(&mut file.after));
}

/// Returns the lines of a hunk as they stand in the masked text of the file: a mask moves no line.
fn masked_lines(masked: Option<&str>, range: LineRange, plain: String) -> String {
    let (start, end) = (range.start as usize, range.end as usize);
    match masked {
        Some(text) => text.split_inclusive('\n').take(end).skip(start).collect(),
        None => plain,
    }
}

/// A decision in its one form: lines that the user left as they were proposed are accepted, and those that they put back are
/// refused.
fn settled(hunk: &Hunk, decision: HunkDecision) -> Result<HunkDecision, ReviewError> {
    let lines = hunks::Hunk {
        old: 0..0,
        new: 0..0,
        old_text: hunk.old_text.clone(),
        new_text: hunk.new_text.clone(),
    };
    Ok(match decision {
        HunkDecision::Accept => HunkDecision::Accept,
        HunkDecision::Refuse { text } => {
            HunkDecision::Refuse { text: text.filter(|text| !text.trim().is_empty()) }
        }
        HunkDecision::Edit { text } => match (hunk.kind, lines.replacement(&text)) {
            (HunkKind::Delete | HunkKind::Move, _) => return Err(ReviewError::NoLines(hunk.hunk_id.clone())),
            (_, text) if text == hunk.new_text => HunkDecision::Accept,
            (HunkKind::Edit, text) if text == hunk.old_text => HunkDecision::Refuse { text: None },
            (_, text) => HunkDecision::Edit { text },
        },
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;
    use roo_sandbox::exec::redaction::ExactValues;
    use roo_text::position::Encoding;
    use roo_workspace::{Purpose, Setup, Workspace};

    struct Fixture {
        workspace: Workspace,
        _directory: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().join("w");
            std::fs::create_dir(&root).unwrap();
            let workspace = Workspace::open(Setup {
                folders: vec![root],
                state_directory: directory.path().join("state"),
                documents: std::sync::Arc::default(),
                editor: None,
                encoding: Encoding::Utf16,
            });
            Self { workspace: workspace.unwrap(), _directory: directory }
        }
    }

    fn place(fixture: &Fixture, name: &str) -> Resolved {
        fixture.workspace.resolve(name, Purpose::Write).unwrap()
    }

    fn answer(id: &str, decision: HunkDecision) -> HunkAnswer {
        HunkAnswer { hunk_id: HunkId::new(id), digest: None, decision }
    }

    fn edited(fixture: &Fixture, before: &str, after: &str) -> Preview {
        Preview {
            file: place(fixture, "a.rs"),
            moved_to: None,
            before: Some(before.to_owned()),
            after: Some(after.to_owned()),
        }
    }

    fn review(files: &[Preview], accepts: bool, answers: Vec<HunkAnswer>) -> Result<Review, ReviewError> {
        Review::new(files, accepts, answers, &TextMask::new(true, ExactValues::default))
    }

    #[test]
    fn no_secret_comes_into_a_review() {
        let fixture = Fixture::new();
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
        let files = [edited(&fixture, &format!("a\nt={token}\nb\n"), "a\nt=none\nb\n")];
        let reviewed = review(&files, true, vec![]).unwrap();
        assert_eq!(reviewed.hunks[0].old_text, "t=[masked: GitHub token]\n");
        let written = serde_json::to_string(&reviewed).unwrap();
        assert!(!written.contains(&token), "{written}");
        assert_eq!(reviewed.apply(&files).unwrap()[0].edit.after(), Some("a\nt=none\nb\n"));
        let own = answer("h1", HunkDecision::Edit { text: format!("t={token}") });
        assert!(review(&files, true, vec![own]).is_ok(), "the line as it was is a refusal");
        let own = answer("h1", HunkDecision::Edit { text: format!("token={token}") });
        assert!(matches!(review(&files, true, vec![own]), Err(ReviewError::Secret(_))));
    }

    #[test]
    fn each_hunk_of_each_file_has_its_own_id() {
        let fixture = Fixture::new();
        let files = [
            edited(&fixture, "a\nkeep\nb\n", "A\nkeep\nB\n"),
            Preview {
                file: place(&fixture, "old.rs"),
                moved_to: Some(place(&fixture, "new.rs")),
                before: Some("x\n".into()),
                after: Some("y\n".into()),
            },
            Preview { file: place(&fixture, "n"), moved_to: None, before: None, after: Some("n\n".into()) },
        ];
        let found: Vec<(String, HunkKind)> =
            hunks_of(&files).iter().flatten().map(|hunk| (hunk.hunk_id.to_string(), hunk.kind)).collect();
        let expected = [
            ("h1", HunkKind::Edit),
            ("h2", HunkKind::Edit),
            ("h3", HunkKind::Move),
            ("h4", HunkKind::Edit),
            ("h5", HunkKind::Create),
        ];
        assert_eq!(found, expected.map(|(id, kind)| (id.to_owned(), kind)));
    }

    #[test]
    fn a_move_can_be_refused_and_its_lines_taken() {
        let fixture = Fixture::new();
        let file = Preview {
            file: place(&fixture, "old.rs"),
            moved_to: Some(place(&fixture, "new.rs")),
            before: Some("x\n".into()),
            after: Some("y\n".into()),
        };
        let refused = answer("h1", HunkDecision::Refuse { text: None });
        let review = review(std::slice::from_ref(&file), true, vec![refused]).unwrap();
        let edits = review.apply(&[file]).unwrap();
        assert!(matches!(&edits[0].edit, FileEdit::Update { after, .. } if after == "y\n"), "{edits:?}");
    }

    #[test]
    fn answers_that_do_not_fit_are_refused() {
        let fixture = Fixture::new();
        let files = [edited(&fixture, "a\n", "b\n")];
        let new = |answers| review(&files, true, answers).unwrap_err();
        let accept = || answer("h1", HunkDecision::Accept);
        assert!(matches!(new(vec![answer("h2", HunkDecision::Accept)]), ReviewError::Unknown(_)));
        assert!(matches!(new(vec![accept(), accept()]), ReviewError::Twice(_)));
        let other = HunkAnswer { digest: Some(Digest::of("other")), ..accept() };
        assert!(matches!(new(vec![other]), ReviewError::Changed(_)));
        let deleted = [Preview { after: None, ..files[0].clone() }];
        let edit = answer("h1", HunkDecision::Edit { text: "x".into() });
        assert!(matches!(review(&deleted, true, vec![edit]), Err(ReviewError::NoLines(_))));
    }

    #[test]
    fn an_edit_back_to_the_old_or_the_proposed_lines_is_none() {
        let fixture = Fixture::new();
        let files = [edited(&fixture, "a\nkeep\nb\n", "A\nkeep\nB\n")];
        let edit = |id, text: &str| answer(id, HunkDecision::Edit { text: text.into() });
        let review = review(&files, true, vec![edit("h1", "A"), edit("h2", "b")]).unwrap();
        let decisions: Vec<_> = review.hunks.into_iter().map(|hunk| hunk.decision).collect();
        assert_eq!(decisions, [HunkDecision::Accept, HunkDecision::Refuse { text: None }]);
    }

    #[test]
    fn a_review_counts_only_for_the_files_that_were_shown() {
        let fixture = Fixture::new();
        let shown = [edited(&fixture, "a\nkeep\nb\n", "A\nkeep\nB\n")];
        let refuse = answer("h2", HunkDecision::Refuse { text: Some("No.".into()) });
        let review = review(&shown, true, vec![refuse]).unwrap();
        assert_eq!(review.apply(&shown).unwrap()[0].edit.after(), Some("A\nkeep\nb\n"));
        let other = [edited(&fixture, "a\nkeep\nc\n", "A\nkeep\nB\n")];
        assert!(review.apply(&other).is_none());
        assert!(matches!(Review::state(Some(&review), false, &shown), ReviewState::Outdated));
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_was_answered(
            before in "([abc]\n){0,9}", after in "([abc]\n){0,9}",
            fates in prop::collection::vec(0..3_u8, 9),
        ) {
            prop_assume!(before != after);
            let fixture = Fixture::new();
            let files = [edited(&fixture, &before, &after)];
            let answers = hunks_of(&files).into_iter().flatten().zip(fates).map(|(hunk, fate)| HunkAnswer {
                hunk_id: hunk.hunk_id,
                digest: Some(hunk.digest),
                decision: match fate {
                    0 => HunkDecision::Accept,
                    1 => HunkDecision::Refuse { text: Some("why".into()) },
                    _ => HunkDecision::Edit { text: "mine".into() },
                },
            });
            let review = review(&files, false, answers.collect()).unwrap();
            let written: Vec<u8> = serde_json::to_vec(&review).unwrap();
            let read: Review = serde_json::from_slice(&written).unwrap();
            prop_assert_eq!(&read, &review);
            let edits = read.apply(&files).unwrap();
            match edits.as_slice() {
                [] => prop_assert!(review.refuses_all()),
                [one] => {
                    let text = one.edit.after().unwrap();
                    for hunk in &review.hunks {
                        let lines = match &hunk.decision {
                            HunkDecision::Accept => &hunk.new_text,
                            HunkDecision::Refuse { .. } => &hunk.old_text,
                            HunkDecision::Edit { text } => text,
                        };
                        let from: String =
                            text.split_inclusive('\n').skip(hunk.line as usize - 1).collect();
                        prop_assert!(from.starts_with(lines.as_str()), "{} in {:?}", hunk.hunk_id, text);
                    }
                    prop_assert_eq!(review.accepts_all(), text == after);
                    prop_assert_eq!(one.model_text.is_some(), review.has_edits());
                }
                more => prop_assert!(false, "{more:?}"),
            }
        }
    }
}
