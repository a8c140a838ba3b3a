//! `saltern_sharing`: programs on this host ask about the masters that this one shares with, and remove them.

use value::{Map, Value, map};

use super::{Answer, MasterRequest, held};
use crate::set_requests::SetRequest;

/// Answers users who may do everything.
pub fn handle(ask: MasterRequest) -> Answer {
    let (shared, load) = match held::admit(ask) {
        Ok(admitted) => admitted,
        Err(refused) => return refused.into(),
    };
    let Some(sharing) = shared.sharing.get().cloned() else {
        return failed("this master shares nothing with others: the option cluster_id is not set").into();
    };
    let user = load.get_str("user").unwrap_or_else(|| shared.users.master_user());
    match SetRequest::of(&load, user, shared.stores.rt.now()) {
        Ok(request) => Answer::Later(Box::pin(async move {
            match sharing.ask(request).await {
                Ok(value) => map! { "sharing" => value }.into(),
                Err(reason) => Value::from(failed(&reason)),
            }
        })),
        Err(reason) => failed(&reason).into(),
    }
}

fn failed(reason: &str) -> Map {
    map! { "error" => map! { "name" => "SaltInvocationError", "message" => reason } }
}
