//! `roo/intent/*`.

use std::sync::Arc;

use tower_lsp::jsonrpc::{Error, Result};

use super::task::done;
use super::{Params, Server};
use crate::server::failure;
use roo_engine::intent_store::{ChangeError, Orchestration};
use roo_formats::intents::{Change, NewIntent, Status};
use roo_protocol::error::ErrorKind;
use roo_protocol::ids::Digest;
use roo_protocol::intent::{
    IntentChangeResult, IntentCreateParams, IntentExpandParams, IntentListParams, IntentListResult,
    IntentSelectParams, IntentUpdateParams,
};
use roo_protocol::task::Done;

pub(super) async fn list(
    server: &Server,
    Params(IntentListParams {}): Params<IntentListParams>,
) -> Result<IntentListResult> {
    let services = server.session.typed().await?;
    let orchestration = Arc::clone(services.engine.orchestration());
    let listed = tokio::task::spawn_blocking(move || orchestration.list()).await;
    listed.map_err(|_| Error::internal_error())
}

pub(super) async fn select(server: &Server, Params(params): Params<IntentSelectParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    let selected = services.engine.select_intent(&params.task_id, &params.intent_id, params.digest).await;
    done(selected, &params.task_id)
}

pub(super) async fn create(server: &Server, Params(params): Params<IntentCreateParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    let new = NewIntent {
        id: params.intent_id,
        name: params.name,
        owned_scope: params.owned_scope,
        constraints: params.constraints,
        acceptance_criteria: params.acceptance_criteria,
    };
    services.engine.orchestration().create(&new).await.map_err(refused)?;
    Ok(Done {})
}

pub(super) async fn update(
    server: &Server,
    Params(params): Params<IntentUpdateParams>,
) -> Result<IntentChangeResult> {
    let services = server.session.typed().await?;
    let mut changes: Vec<Change> = params.name.into_iter().map(Change::Name).collect();
    if let Some(word) = &params.status {
        let status = Status::parse(word);
        changes.push(Change::Status(
            status.ok_or_else(|| Error::invalid_params(format!("status: there is no status '{word}'")))?,
        ));
    }
    let add = |list| move |text| Change::Add { list, text };
    let remove = |list| move |text| Change::Remove { list, text };
    changes.extend(params.remove_scope.into_iter().map(remove("owned_scope")));
    changes.extend(params.add_constraints.into_iter().map(add("constraints")));
    changes.extend(params.remove_constraints.into_iter().map(remove("constraints")));
    change(services.engine.orchestration(), &params.intent_id, &changes, params.accept).await
}

pub(super) async fn expand(
    server: &Server,
    Params(params): Params<IntentExpandParams>,
) -> Result<IntentChangeResult> {
    let services = server.session.typed().await?;
    let changes: Vec<Change> =
        params.patterns.into_iter().map(|text| Change::Add { list: "owned_scope", text }).collect();
    change(services.engine.orchestration(), &params.intent_id, &changes, params.accept).await
}

async fn change(
    orchestration: &Orchestration,
    id: &str,
    changes: &[Change],
    accept: Option<Digest>,
) -> Result<IntentChangeResult> {
    match orchestration.update(id, changes, accept).await {
        Ok(intent) => Ok(IntentChangeResult { changed: true, loosens: vec![], digest: intent.digest() }),
        Err(ChangeError::Loosens(loosens)) => {
            let (_, after) = orchestration.preview(id, changes).await.map_err(refused)?;
            Ok(IntentChangeResult { changed: false, loosens, digest: after.digest() })
        }
        Err(error) => Err(refused(error)),
    }
}

fn refused(error: ChangeError) -> Error {
    let (kind, hint) = match &error {
        ChangeError::Edit(roo_formats::intents::EditError::Unknown(_)) => {
            (ErrorKind::NotFound, "roo/intent/list lists them.")
        }
        ChangeError::Edit(_) | ChangeError::Loosens(_) => {
            (ErrorKind::Mismatch, "Correct the values or the file.")
        }
        ChangeError::Changed => (ErrorKind::Mismatch, "Show the intent again and repeat the request."),
        ChangeError::Read(_) | ChangeError::Path(_) | ChangeError::Write(_) | ChangeError::Keep(_) => {
            (ErrorKind::Storage, "Check the intents file and the state directory.")
        }
    };
    failure(kind, error.to_string(), None, hint)
}
