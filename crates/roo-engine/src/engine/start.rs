//! Starting a request: its ids, its directory, and the first events of its log.

use super::error::unknown_profile;
use super::event::Event;
use super::services::EngineServices;
use super::task::{self, Task};
use super::tree::Tree;
use super::{Engine, EngineError, context};
use roo_durable::RequestLog;
use roo_formats::config::RunContext;
use roo_formats::modes;
use roo_model::prompts::{self, Brief, Place};
use roo_protocol::event::Event as WireEvent;
use roo_protocol::ids::{MessageId, TaskId, Urid};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::task::{TaskStartParams, TaskStartResult};
use roo_text::render;
use roo_workspace::DirectoryError;

/// Number of attempts to draw a free id. Each draw has 32 random bits.
const MAX_URID_DRAWS: u32 = 8;

impl Engine {
    /// Starts a request.
    ///
    /// # Errors
    /// [`EngineError::Configuration`] for an unknown mode or profile, an empty prompt, or settings or a hooks file that can't be
    /// used, [`EngineError::Store`] when its log can't be made.
    pub fn start(&self, params: TaskStartParams) -> Result<TaskStartResult, EngineError> {
        self.start_as(self.draw_id(), params)
    }

    /// Returns an id for a request that is started later. Until then, nothing is kept of it.
    pub fn draw_id(&self) -> TaskId {
        TaskId::new(self.services.clock.ordered().to_string())
    }

    /// Starts a request under an id that was drawn for it.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_as(&self, id: TaskId, params: TaskStartParams) -> Result<TaskStartResult, EngineError> {
        let services = self.current.read_blocking();
        let settings = &services.settings;
        if params.prompt.trim().is_empty() {
            return Err(EngineError::Configuration("the prompt is empty".into()));
        }
        check_faults(&services)?;
        let mode = params.mode.unwrap_or_else(|| settings.mode.clone());
        let modes = services.modes();
        let mode = modes.find(&mode).map_err(|error| EngineError::Configuration(error.to_string()))?;
        let pinned = params.profile.is_some();
        let profile_name = match params.profile {
            Some(name) => name,
            None => settings.profile_of(&mode.slug).0.to_owned(),
        };
        let profile = settings.find_profile(&profile_name).map_err(unknown_profile)?;
        let (urid, task_directory) = self.draw_urid();
        let log = RequestLog::create(self.directory.request(&id))?;
        let created = Event::Created {
            parent: None,
            urid: urid.clone(),
            mode: mode.slug.clone(),
            profile: profile_name,
            protocol: profile.tool_protocol(),
            title: render::one_line(params.prompt.trim(), task::TITLE),
            limits: settings.limits,
            emoji: mode.emoji.clone(),
            gather: mode.gathers_context && settings.system_context.run == RunContext::Native,
            unread: vec![],
            pinned,
            intent: None,
            within: vec![],
            worktree: false,
        };
        let (task_directory, trouble) = match task_directory {
            Ok(directory) => (directory, None),
            Err(error) => (None, Some(error)),
        };
        let places: Vec<Place> =
            params.context.iter().map(|item| context::place(&self.services.workspace, item)).collect();
        let brief = prompts::brief(&Brief {
            prompt: &params.prompt,
            urid: &urid,
            task_directory: task_directory.as_deref(),
            context: &places,
        });
        let mentions = task::may_mention(&params.prompt);
        let message = Message {
            id: MessageId::new("m1"),
            kind: MessageKind::Say(Say::Text),
            text: params.prompt,
            images: params.images,
        };
        let said = Event::UserSaid { message, text: brief, mentions, hooks: false };
        let first = vec![(id.clone(), created.clone()), (id.clone(), said)];
        // The machine's first event makes its state; the actor folds it again without effect.
        let Some(task) = Task::created(id.clone(), &created, 0, self.services.clock.now()) else {
            return Err(EngineError::NotFound { what: "task", id: id.to_string() });
        };
        let journal = self.registry.journal(&id, log.directory(), 0);
        if let Some(error) = trouble {
            let reason = format!("the request's directory can't be created: {error}");
            journal.warn(self.now(), WireEvent::ServerDegraded { reason, until: None });
        }
        // Whoever started it follows it.
        self.spawn(log, Tree::new(task), journal, first);
        Ok(TaskStartResult { task_id: id, urid })
    }

    /// An id for a request, and its directory, which is made with it; none where there is no root, and why not
    /// where it can't be made. One that is there already is another request's.
    pub(super) fn draw_urid(&self) -> (Urid, Result<Option<String>, DirectoryError>) {
        let draw = || modes::urid(self.services.clock.zoned().datetime(), self.services.clock.random());
        let mut urid = draw();
        if self.workspace().roots().paths().next().is_none() {
            return (urid, Ok(None));
        }
        for _ in 0..MAX_URID_DRAWS {
            let directory = modes::task_directory(&urid);
            match self.workspace().create_directory(&directory) {
                Ok(true) => {
                    self.current.newest().gate.exclude_private_files();
                    return (urid, Ok(Some(directory)));
                }
                Ok(false) => urid = draw(),
                Err(error) => return (urid, Err(error)),
            }
        }
        let directory = modes::task_directory(&urid);
        (urid, Ok(Some(directory)))
    }
}

/// Refuses to let agents work without settings or hooks that are meant to count.
pub(super) fn check_faults(services: &EngineServices) -> Result<(), EngineError> {
    services.fault().map_or(Ok(()), |fault| Err(EngineError::Configuration(fault)))
}
