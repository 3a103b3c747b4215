//! Code actions as any feature of the server makes them, and as the client gets them.

use serde_json::{Value, json};

use crate::server::session::Session;

/// LSP's kind of actions that repair something.
pub(in crate::server) const QUICK_FIX: &str = "quickfix";

/// Something that a user can choose.
pub(in crate::server) struct Action {
    pub(in crate::server) title: String,
    pub(in crate::server) kind: &'static str,
    pub(in crate::server) effect: Effect,
    /// The finding that it is about, as the editor sent it.
    pub(in crate::server) fixes: Option<Value>,
}

/// Effect of a code action.
pub(in crate::server) enum Effect {
    /// A command of the server.
    Command { name: &'static str, argument: Value },
    /// A `WorkspaceEdit`, which the client applies.
    Edit(Value),
}

/// As the client knows them: whole, or as bare commands.
pub(in crate::server) fn wire(session: &Session, actions: Vec<Action>) -> Value {
    let whole = session.negotiated().is_some_and(|negotiated| negotiated.action_literals);
    let wire = |action: Action| {
        let Action { title, kind, effect, fixes } = action;
        let mut literal = json!({ "title": title, "kind": kind });
        match effect {
            Effect::Command { name, argument } => {
                let command = json!({ "title": title, "command": name, "arguments": [argument] });
                if !whole {
                    return Some(command);
                }
                literal["command"] = command;
            }
            Effect::Edit(_) if !whole => return None,
            Effect::Edit(edit) => {
                literal["edit"] = edit;
                literal["isPreferred"] = true.into();
            }
        }
        if let Some(finding) = fixes {
            literal["diagnostics"] = json!([finding]);
        }
        Some(literal)
    };
    actions.into_iter().filter_map(wire).collect()
}
