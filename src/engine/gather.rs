//! What the server looks up for the model before it is asked: facts about the system, and what the
//! user's messages mention.

use super::effects::Setting;
use super::task::Gather;
use crate::hooks::ModeChange;

/// What the model gets, and the mode that a command of the user asks for.
pub(super) async fn gather(_gather: &Gather, _setting: &Setting) -> (String, Option<ModeChange>) {
    (String::new(), None)
}
