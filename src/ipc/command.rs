//! What a client wants: `TaskCommand` of Roo Code (`packages/types/src/ipc.ts`), in the shapes of its versions. Earlier ones name the
//! task of `CancelTask` and `CloseTask`, later ones mean the current task.

use serde_json::{Map, Value};

/// A command of a client.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    StartNewTask(NewTask),
    /// Of the task of this id, or of the current one.
    CancelTask(Option<String>),
    /// Of the task of this id, or of the current one.
    CloseTask(Option<String>),
    ResumeTask(String),
    SendMessage {
        text: String,
        images: Vec<String>,
    },
    GetCommands,
    GetModes,
    GetModels,
    /// The id of a message that waits for the current task.
    DeleteQueuedMessage(String),
    /// `CancelCommand`: of the command that the current task runs.
    CancelExecution,
}

/// A task to be started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NewTask {
    /// `RooCodeSettings`.
    pub(super) configuration: Map<String, Value>,
    pub(super) text: String,
    /// Images as data URLs.
    pub(super) images: Vec<String>,
    /// True if the current task goes on beside it.
    pub(super) new_tab: bool,
}

/// Reasons why a message can't be carried out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidMessage {
    #[error("it is not JSON")]
    NotJson,
    #[error(
        "it is no message of a client: a message is an object with the type TaskCommand and the origin client"
    )]
    NotOfClient,
    #[error("there is no command '{0}'")]
    Unknown(String),
    #[error("the command {command} needs {what}")]
    Incomplete { command: &'static str, what: &'static str },
}

/// Reads a message; none for one that asks for nothing, such as `Connect`.
pub(super) fn parse(text: &str) -> Result<Option<Command>, InvalidMessage> {
    let value: Value = serde_json::from_str(text).map_err(|_| InvalidMessage::NotJson)?;
    // The event of node-ipc that carries it.
    let message = match &value["type"] {
        Value::String(kind) if kind == "message" => &value["data"],
        _ => &value,
    };
    match message["type"].as_str() {
        Some("TaskCommand") if message["origin"].as_str().is_none_or(|origin| origin == "client") => {
            command(&message["data"]).map(Some)
        }
        Some("Connect" | "Disconnect") => Ok(None),
        _ => Err(InvalidMessage::NotOfClient),
    }
}

fn command(command: &Value) -> Result<Command, InvalidMessage> {
    let name = command["commandName"].as_str().unwrap_or_default();
    let data = &command["data"];
    let id = || data.as_str().filter(|id| !id.is_empty()).map(str::to_owned);
    let incomplete = |command, what| InvalidMessage::Incomplete { command, what };
    Ok(match name {
        "StartNewTask" => {
            let text = data["text"].as_str().ok_or(incomplete("StartNewTask", "a text"))?;
            Command::StartNewTask(NewTask {
                configuration: data["configuration"].as_object().cloned().unwrap_or_default(),
                text: text.to_owned(),
                images: images(data),
                new_tab: data["newTab"].as_bool().unwrap_or_default(),
            })
        }
        "CancelTask" => Command::CancelTask(id()),
        "CloseTask" => Command::CloseTask(id()),
        "ResumeTask" => Command::ResumeTask(id().ok_or(incomplete("ResumeTask", "the id of a task"))?),
        "SendMessage" => {
            let (text, images) = (data["text"].as_str().unwrap_or_default().to_owned(), images(data));
            if text.trim().is_empty() && images.is_empty() {
                return Err(incomplete("SendMessage", "a text or images"));
            }
            Command::SendMessage { text, images }
        }
        "GetCommands" => Command::GetCommands,
        "GetModes" => Command::GetModes,
        "GetModels" => Command::GetModels,
        "DeleteQueuedMessage" => {
            let id = id().ok_or(incomplete("DeleteQueuedMessage", "the id of a message"))?;
            Command::DeleteQueuedMessage(id)
        }
        "CancelCommand" => Command::CancelExecution,
        other => return Err(InvalidMessage::Unknown(other.to_owned())),
    })
}

fn images(data: &Value) -> Vec<String> {
    let images = data["images"].as_array().into_iter().flatten();
    images.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(data: Value) -> Result<Option<Command>, InvalidMessage> {
        parse(
            &json!({ "type": "TaskCommand", "origin": "client", "clientId": "c", "data": data }).to_string(),
        )
    }

    #[test]
    fn a_command_is_read_in_both_framings() {
        let cancel = json!({ "type": "TaskCommand", "origin": "client", "clientId": "c", "data": { "commandName": "CancelTask" } });
        let wrapped = json!({ "type": "message", "data": cancel });
        for message in [cancel, wrapped] {
            assert_eq!(parse(&message.to_string()), Ok(Some(Command::CancelTask(None))));
        }
        assert_eq!(parse(r#"{"type":"Connect","origin":"client"}"#), Ok(None));
    }

    #[test]
    fn commands_are_read_in_their_old_and_new_shapes() {
        let start = json!({ "commandName": "StartNewTask", "data": {
            "configuration": { "mode": "code" }, "text": "Do it.", "images": ["data:image/png;base64,AA=="], "newTab": true,
        } });
        let Ok(Some(Command::StartNewTask(new))) = read(start) else { panic!("it starts a task") };
        assert_eq!((&*new.text, new.new_tab, new.images.len()), ("Do it.", true, 1));
        assert_eq!(new.configuration["mode"], "code");
        let least = read(json!({ "commandName": "StartNewTask", "data": { "text": "Do it." } }));
        let expected = NewTask { text: "Do it.".to_owned(), ..NewTask::default() };
        assert_eq!(least, Ok(Some(Command::StartNewTask(expected))));
        for (name, id) in
            [("CancelTask", Some("t")), ("CancelTask", None), ("CloseTask", Some("t")), ("CloseTask", None)]
        {
            let data =
                id.map_or(json!({ "commandName": name }), |id| json!({ "commandName": name, "data": id }));
            let id = id.map(str::to_owned);
            let expected =
                if name == "CancelTask" { Command::CancelTask(id) } else { Command::CloseTask(id) };
            assert_eq!(read(data), Ok(Some(expected)));
        }
        assert_eq!(read(json!({ "commandName": "CancelCommand" })), Ok(Some(Command::CancelExecution)));
        let said = read(json!({ "commandName": "SendMessage", "data": { "text": "More." } }));
        assert_eq!(said, Ok(Some(Command::SendMessage { text: "More.".to_owned(), images: vec![] })));
    }

    #[test]
    fn what_is_no_command_is_refused_with_the_reason() {
        assert_eq!(parse("{"), Err(InvalidMessage::NotJson));
        for message in
            [r#"{"type":"Ack","origin":"server"}"#, "[]", "1", r#"{"type":"TaskCommand","origin":"server"}"#]
        {
            assert_eq!(parse(message), Err(InvalidMessage::NotOfClient), "{message}");
        }
        let unknown = read(json!({ "commandName": "PressPrimaryButton" })).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no command 'PressPrimaryButton'");
        let without = read(json!({ "commandName": "ResumeTask" })).unwrap_err();
        assert_eq!(without.to_string(), "the command ResumeTask needs the id of a task");
        let empty = read(json!({ "commandName": "SendMessage", "data": { "text": " " } })).unwrap_err();
        assert_eq!(empty.to_string(), "the command SendMessage needs a text or images");
    }
}
