//! All tasks of a request in Roo Code's vocabulary.

use std::collections::{BTreeMap, HashMap};

use roo_protocol::event::{Event, EventParams, ToolStatus};
use roo_protocol::ids::{MessageId, TaskId};
use roo_protocol::message::Message;

use super::event::{Lifecycle, MessageAction, RooEvent};
use super::message::ClineMessage;
use super::names::Say;
use super::task::TaskRecord;
use crate::masking::Mask;

/// The fold of a request's events.
#[derive(Default)]
pub(crate) struct Vocabulary {
    mask: Mask,
    /// The providers of model profiles.
    providers: BTreeMap<String, String>,
    /// What is said at the beginning of the request, before anything else.
    notice: Option<String>,
    tasks: HashMap<TaskId, TaskRecord>,
}

impl Vocabulary {
    /// Nothing so far. `mask` is over all texts; `providers`: the providers of model profiles by their names.
    pub(crate) fn new(mask: Mask, providers: BTreeMap<String, String>) -> Self {
        Self { mask, providers, ..Self::default() }
    }

    /// Says something to clients at the beginning of the request that its log doesn't have.
    pub(crate) fn with_notice(self, notice: Option<String>) -> Self {
        Self { notice, ..self }
    }

    /// Applies an event, and returns what it means to clients. `result`: the message of [`Self::wanted_result`].
    pub(crate) fn apply(&mut self, params: &EventParams, result: Option<&Message>) -> Vec<RooEvent> {
        let mut told = Vec::new();
        match &params.event {
            Event::TaskCreated { parent_id, .. } => self.begin(params, parent_id.as_ref(), &mut told),
            Event::TaskForked { .. } => self.tasks.values_mut().for_each(TaskRecord::begin_fork),
            Event::ModeSwitched { mode, profile } => {
                self.switched(&params.task_id, mode.as_deref(), profile.as_deref(), &mut told);
            }
            Event::ToolFinished { tool_call_id, status, summary, .. } => {
                let record = self.tasks.entry(params.task_id.clone());
                let record = record.or_insert_with(|| TaskRecord::new(&params.task_id));
                let child = record.end_delegation(tool_call_id);
                record.apply(params, result, &self.mask, &mut told);
                if let Some(child) = child {
                    self.branch_ended(params, &child, *status, summary, &mut told);
                }
            }
            _ => {
                let record = self.tasks.entry(params.task_id.clone());
                let record = record.or_insert_with(|| TaskRecord::new(&params.task_id));
                record.apply(params, result, &self.mask, &mut told);
            }
        }
        told.iter_mut().for_each(|event| event.mask(&self.mask));
        told
    }

    /// The message of a task's snapshot that an event goes with: the log has a result of some tools whole, and the event
    /// only one line of it.
    pub(crate) fn wanted_result(&self, params: &EventParams) -> Option<MessageId> {
        let Event::ToolFinished { tool_call_id, .. } = &params.event else { return None };
        let has_result = self.tasks.get(&params.task_id)?.has_result(tool_call_id);
        has_result.then(|| MessageId::new(tool_call_id.as_str()))
    }

    /// The time at which [`Self::flush`] has something to tell, in milliseconds since the Unix epoch.
    pub(crate) fn due(&self) -> Option<i64> {
        self.tasks.values().filter_map(TaskRecord::due).min()
    }

    /// Tells what was put off until now.
    pub(crate) fn flush(&mut self, now: i64) -> Vec<RooEvent> {
        let mut told = Vec::new();
        let mut due: Vec<&mut TaskRecord> =
            self.tasks.values_mut().filter(|task| task.due().is_some_and(|due| due <= now)).collect();
        due.sort_by(|one, other| one.id().cmp(other.id()));
        due.into_iter().for_each(|task| task.tell_usage(now, &mut told));
        told
    }

    fn begin(&mut self, params: &EventParams, parent: Option<&TaskId>, told: &mut Vec<RooEvent>) {
        let task = &params.task_id;
        self.tasks.insert(task.clone(), TaskRecord::new(task));
        told.push(RooEvent::Lifecycle(Lifecycle::Created, task.clone()));
        if let Some(parent) = parent {
            let record = self.tasks.entry(parent.clone()).or_insert_with(|| TaskRecord::new(parent));
            record.begin_delegation(task, told);
        }
        told.push(RooEvent::Lifecycle(Lifecycle::Started, task.clone()));
        if let Some(notice) = self.notice.take() {
            // Everything in the log comes at this time or later.
            let message = ClineMessage::new(params.at - 1, Say::Error, Some(notice));
            let (task, action, message) = (task.clone(), MessageAction::Created, Box::new(message));
            told.push(RooEvent::Message { task, action, message });
        }
    }

    fn switched(&self, task: &TaskId, mode: Option<&str>, profile: Option<&str>, told: &mut Vec<RooEvent>) {
        if let Some(mode) = mode {
            told.push(RooEvent::TaskModeSwitched { task: task.clone(), mode: mode.to_owned() });
            // Roo Code has one mode at a time: that of the task which its user looks at.
            if task.is_root() {
                told.push(RooEvent::ModeChanged { mode: mode.to_owned() });
            }
        }
        if let Some((name, provider)) = profile.and_then(|name| self.providers.get_key_value(name)) {
            let (name, provider) = (name.clone(), provider.clone());
            told.push(RooEvent::ProviderProfileChanged { name, provider });
        }
    }

    /// A call that opened a branch has its result.
    fn branch_ended(
        &mut self,
        params: &EventParams,
        child: &TaskId,
        status: ToolStatus,
        summary: &str,
        told: &mut Vec<RooEvent>,
    ) {
        let result = self.tasks.get(child).and_then(TaskRecord::result).map(str::to_owned);
        let text = result.unwrap_or_else(|| summary.to_owned());
        if let Some(parent) = self.tasks.get_mut(&params.task_id) {
            parent.branch_ended(params, child, status == ToolStatus::Ok, text, told);
        }
    }
}
