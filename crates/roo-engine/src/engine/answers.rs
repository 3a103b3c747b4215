//! Answers of users to approvals and questions, the approvals that wait, and the previews of what they are about. Which
//! calls need an approval is decided by [`crate::policy`].

use std::sync::Arc;

use super::actor_message::{Command, Reply};
use super::task::{Choice, Decider, NewRule, Task};
use super::{Engine, EngineError, worktrees};
use crate::customization::Grant;
use crate::policy::{Preview, Review, hunks_of, mask_preview};
use roo_catalog::Effect;
use roo_protocol::ids::{ApprovalId, Digest, QuestionId, TaskId};
use roo_protocol::review::Hunk;
use roo_protocol::rule::{RuleScope, RuleSubject};
use roo_protocol::task::{
    AnswerResult, ApprovalRespondParams, FilePreview, PendingApproval, QuestionAnswerParams, WaitingApproval,
};

impl Engine {
    /// The approvals that wait, in the one order in which clients show them.
    ///
    /// # Errors
    /// [`EngineError::Store`] when the state directory can't be read.
    pub async fn waiting_approvals(&self) -> Result<Vec<WaitingApproval>, EngineError> {
        let mut items = self.list_all().await?;
        items.retain(|item| !item.state.is_final());
        // Ids of requests begin with the time.
        items.sort_by(|one, other| one.task_id.cmp(&other.task_id));
        let mut all = Vec::new();
        for item in items {
            let tree = match self.read_as_it_is(&item.task_id).await {
                Ok(tree) => tree,
                // Deleted in between.
                Err(EngineError::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            let asked =
                |task: &Task| Some((task.id.clone(), task.title().to_owned(), task.approval()?.clone()));
            let mut waiting: Vec<(TaskId, String, PendingApproval)> =
                tree.tasks().iter().filter_map(asked).collect();
            waiting.sort_by_key(|(_, _, approval)| approval.approval_id.number());
            let interrupted = tree.root().is_interrupted();
            for (task_id, task_title, approval) in waiting {
                let number = u32::try_from(all.len()).unwrap_or(u32::MAX).saturating_add(1);
                let root_id = item.task_id.clone();
                all.push(WaitingApproval { root_id, task_id, task_title, number, interrupted, approval });
            }
        }
        Ok(all)
    }

    /// Answers an approval. The first answer counts.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Mismatch`] for another digest or an unknown option.
    pub async fn respond(
        &self,
        params: ApprovalRespondParams,
        by: impl Into<Decider>,
    ) -> Result<AnswerResult, EngineError> {
        let by = by.into();
        let approval_id = params.approval_id.to_string();
        let task = owner("approval", &approval_id)?;
        let (option_id, review) = self.review(&params).await?;
        let ApprovalRespondParams { digest, opened, text, .. } = params;
        let author = by.to_string();
        let command = Command::Respond { approval_id, digest, option_id, opened, text, review, by };
        match self.command(&task, command).await? {
            Reply::Rule(answer, NewRule { scope, verdict, subject, trusts }) => {
                let (rules, now) = (&self.services.rules, self.now());
                let made = subject.clone();
                let added = match scope {
                    RuleScope::Workspace => rules.add(verdict, subject, &author, now),
                    RuleScope::User => rules.add_everywhere(verdict, subject, &author, now),
                };
                // What was answered holds for this call, whatever becomes of the rule.
                if let Err(error) = added {
                    tracing::error!(%error, "a standing rule was not kept");
                }
                if let Some(brings) = trusts
                    && let Err(error) = self.services.customization.grant(&Grant::AsShown { brings })
                {
                    tracing::error!(%error, "the workspace was not trusted");
                }
                self.reconsider(&made).await;
                Ok(answer)
            }
            Reply::Answer(answer) => Ok(answer),
            Reply::Done | Reply::GivenUp(_) => {
                Err(EngineError::Mismatch { problem: "no answer was wanted".into() })
            }
        }
    }

    /// Applies a new standing rule to approvals that wait in the requests that live here.
    async fn reconsider(&self, subject: &RuleSubject) {
        let requests: Vec<TaskId> = self.registry.live().keys().cloned().collect();
        for request in requests {
            let command = Command::Reconsider(subject.clone());
            if let Err(error) = self.command(&request, command).await {
                tracing::warn!(%request, %error, "a standing rule was not applied to what waits");
            }
        }
    }

    /// The review that answers hunk by hunk, and the option that it comes to: what leaves nothing of an edit refuses it.
    async fn review(
        &self,
        params: &ApprovalRespondParams,
    ) -> Result<(String, Option<Arc<Review>>), EngineError> {
        let as_a_whole = || (params.option_id.clone(), None);
        if params.hunks.is_empty() {
            return Ok(as_a_whole());
        }
        let mismatch = |problem: String| EngineError::Mismatch { problem };
        let accepts = match Choice::parse(&params.option_id) {
            Some(Choice::AllowOnce) => true,
            Some(Choice::RejectOnce) => false,
            _ => {
                let problem = "single changes are answered by the options allow_once and reject_once";
                return Err(mismatch(problem.to_owned()));
            }
        };
        let files = match self.previews(&params.approval_id).await {
            Ok((digest, files)) if digest == params.digest => files,
            // Somebody else has answered, or it is about something else: the actor says so.
            Ok(_) | Err(EngineError::NotFound { .. }) => return Ok(as_a_whole()),
            Err(error) => return Err(error),
        };
        if files.is_empty() {
            return Err(mismatch("the approval is not about an edit, so it has no changes".to_owned()));
        }
        let (services, answers) = (self.current.read().await, params.hunks.clone());
        let reviewing = roo_durable::spawn_blocking(move || services.gate.review(&files, accepts, answers));
        let review = reviewing.await.map_err(|_| mismatch("the server is shutting down".to_owned()))?;
        let review = review.map_err(|error| mismatch(error.to_string()))?;
        let option = if review.refuses_all() { Choice::RejectOnce } else { Choice::AllowOnce };
        let review = (!review.accepts_all()).then(|| Arc::new(review));
        Ok((option.id().to_owned(), review))
    }

    /// The files that a waiting approval is about, before and after; none when it isn't about files.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when it doesn't wait, [`EngineError::Mismatch`] when its file has changed so
    /// that the edit no longer fits.
    pub async fn preview(&self, approval: &ApprovalId) -> Result<Vec<FilePreview>, EngineError> {
        let (_, files) = self.previews(approval).await?;
        let hunks = hunks_of(&files);
        let shown = |(preview, hunks): (Preview, Vec<Hunk>)| {
            let open = self.workspace().documents().at(preview.file.absolute());
            FilePreview {
                uri: open.map_or_else(|| preview.file.uri(), |document| document.uri),
                moved_to: preview.moved_to.map(|to| to.uri()),
                before: preview.before,
                deleted: preview.after.is_none(),
                after: preview.after.unwrap_or_default(),
                hunks,
            }
        };
        Ok(files.into_iter().zip(hunks).map(shown).collect())
    }

    /// As [`Engine::preview`], with masks in place of secrets: for what is written to disk.
    ///
    /// # Errors
    /// As [`Engine::preview`].
    pub async fn masked_preview(&self, approval: &ApprovalId) -> Result<Vec<FilePreview>, EngineError> {
        let mut files = self.preview(approval).await?;
        let services = self.current.newest();
        let masked = roo_durable::spawn_blocking(move || {
            let mask = services.gate.mask();
            files.iter_mut().for_each(|file| mask_preview(file, &mask));
            files
        });
        masked.await.map_err(|_| EngineError::Ending)
    }

    /// The digest of a waiting approval, and the files that it is about.
    async fn previews(&self, approval: &ApprovalId) -> Result<(Digest, Vec<Preview>), EngineError> {
        let id = owner("approval", approval.as_str())?;
        let tree = self.read_as_it_is(&id).await?;
        let task = tree
            .task(&id)
            .filter(|task| task.approval().is_some_and(|waiting| waiting.approval_id == *approval));
        let not_found = || EngineError::NotFound { what: "approval", id: approval.to_string() };
        let task = task.ok_or_else(not_found)?;
        let digest = task.approval().ok_or_else(not_found)?.digest;
        let Some(call) = task.call_as_it_runs() else { return Ok((digest, vec![])) };
        let services = self.current.read().await;
        let files = if task.merges() {
            worktrees::preview_merge(task, &services.for_task(&tree, task)).await
        } else if call.effect() == Effect::Write {
            services.for_task(&tree, task).gate.preview(&call, &task.files.at_hand()).await
        } else {
            return Ok((digest, vec![]));
        };
        let Some(files) = files else {
            let problem = "its file has changed since; your answer leads to a new question".to_owned();
            return Err(EngineError::Mismatch { problem });
        };
        Ok((digest, files))
    }

    /// Answers a question. The first answer counts. `/condense` is no answer: earlier turns are summarised before the next
    /// request, and the question still waits.
    ///
    /// # Errors
    /// [`EngineError::NotFound`].
    pub async fn answer(
        &self,
        params: QuestionAnswerParams,
        by: impl Into<Decider>,
    ) -> Result<AnswerResult, EngineError> {
        let by = by.into();
        let task = owner("question", params.question_id.as_str())?;
        let QuestionAnswerParams { question_id, text, images } = params;
        let question_id: QuestionId = question_id;
        let condense = self.is_condense(&text, &images).await;
        self.answered(&task, Command::Answer { question_id, text, images, condense, by }).await
    }

    async fn answered(&self, task: &TaskId, command: Command) -> Result<AnswerResult, EngineError> {
        match self.command(task, command).await? {
            Reply::Answer(answer) | Reply::Rule(answer, ..) => Ok(answer),
            Reply::Done | Reply::GivenUp(_) => Err(EngineError::Ending),
        }
    }
}

/// The root task in the id of one of its approvals or questions.
fn owner(what: &'static str, id: &str) -> Result<TaskId, EngineError> {
    match id.rsplit_once('.') {
        Some((task, _)) => Ok(TaskId::new(task)),
        None => Err(EngineError::NotFound { what, id: id.to_owned() }),
    }
}
