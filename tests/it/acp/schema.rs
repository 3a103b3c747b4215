//! The published schema of the protocol, by the methods of its messages.

use agent_client_protocol::v1::schema as acp;
use jsonschema::Validator;
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

fn validator<T: JsonSchema>() -> Validator {
    jsonschema::validator_for(schema_for!(T).as_value()).unwrap()
}

/// Schemas of what an agent sends.
pub struct Schemas {
    params: Vec<(&'static str, Validator)>,
    results: Vec<(&'static str, Validator)>,
    error: Validator,
}

impl Schemas {
    pub fn new() -> Self {
        Self {
            params: vec![
                ("session/update", validator::<acp::SessionNotification>()),
                ("session/request_permission", validator::<acp::RequestPermissionRequest>()),
                ("elicitation/create", validator::<acp::CreateElicitationRequest>()),
                ("fs/read_text_file", validator::<acp::ReadTextFileRequest>()),
                ("fs/write_text_file", validator::<acp::WriteTextFileRequest>()),
                ("$/cancel_request", validator::<acp::CancelRequestNotification>()),
            ],
            results: vec![
                ("initialize", validator::<acp::InitializeResponse>()),
                ("authenticate", validator::<acp::AuthenticateResponse>()),
                ("session/new", validator::<acp::NewSessionResponse>()),
                ("session/load", validator::<acp::LoadSessionResponse>()),
                ("session/resume", validator::<acp::ResumeSessionResponse>()),
                ("session/fork", validator::<acp::ForkSessionResponse>()),
                ("session/list", validator::<acp::ListSessionsResponse>()),
                ("session/close", validator::<acp::CloseSessionResponse>()),
                ("session/delete", validator::<acp::DeleteSessionResponse>()),
                ("session/prompt", validator::<acp::PromptResponse>()),
                ("session/set_mode", validator::<acp::SetSessionModeResponse>()),
                ("session/set_config_option", validator::<acp::SetSessionConfigOptionResponse>()),
            ],
            error: validator::<acp::Error>(),
        }
    }

    #[track_caller]
    pub fn check_params(&self, method: &str, params: &Value) {
        check(find(&self.params, method), params, method);
    }

    #[track_caller]
    pub fn check_result(&self, method: &str, result: &Value) {
        check(find(&self.results, method), result, method);
    }

    #[track_caller]
    pub fn check_error(&self, error: &Value) {
        check(&self.error, error, "an error");
    }
}

#[track_caller]
fn find<'s>(schemas: &'s [(&str, Validator)], method: &str) -> &'s Validator {
    let found = schemas.iter().find(|(known, _)| *known == method);
    &found.unwrap_or_else(|| panic!("{method} is no method of an agent")).1
}

#[track_caller]
fn check(schema: &Validator, value: &Value, what: &str) {
    let problems: Vec<String> = schema.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{what}: {problems:?}: {value:#}");
}
