//! Decisions about keys.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::json as object;
use value::{Map, Value, map};
use wire::MinionId;

use super::{V1Request, body, json, refused};
use crate::api::Api;
use crate::failure::Failure;
use crate::fleet::{KeyQuery, KeyRow};

/// The most keys of one request.
const MOST: usize = 500;

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Accept,
    Reject,
    Delete,
}

impl Decision {
    fn of(word: &str) -> Option<Self> {
        [Decision::Accept, Decision::Reject, Decision::Delete].into_iter().find(|decision| decision.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Decision::Accept => "accept",
            Decision::Reject => "reject",
            Decision::Delete => "delete",
        }
    }

    /// Returns the state of the key afterwards.
    fn state(self) -> &'static str {
        match self {
            Decision::Accept => "accepted",
            Decision::Reject => "rejected",
            Decision::Delete => "deleted",
        }
    }

    /// Returns the wheel function, which takes ids by class: in a glob a letter of an id could mean other minions.
    fn function(self) -> &'static str {
        match self {
            Decision::Accept => "key.accept_dict",
            Decision::Reject => "key.reject_dict",
            Decision::Delete => "key.delete_dict",
        }
    }

    /// Returns the arguments of the function for a key.
    fn arguments(self, key: &KeyRow) -> Map {
        let class = match key.state.as_str() {
            "accepted" => "minions",
            "rejected" => "minions_rejected",
            "denied" => "minions_denied",
            _ => "minions_pre",
        };
        let mut arguments = map! { "match" => map! { class => vec![Value::from(key.id.as_str())] } };
        // The master compares it when it changes the key: another one may come in the meantime.
        if let Some(fingerprint) = &key.fingerprint {
            arguments.insert("fingerprints", map! { key.id.as_str() => fingerprint.as_str() });
        }
        let also = match (self, key.state.as_str()) {
            (Decision::Accept, "rejected") => Some("include_rejected"),
            (Decision::Reject, "accepted") => Some("include_accepted"),
            (Decision::Accept | Decision::Reject, "denied") => Some("include_denied"),
            _ => None,
        };
        if let Some(also) = also {
            arguments.insert(also, true);
        }
        arguments
    }
}

/// `POST /v1/keys/<id>/accept`, `reject` and `delete`
pub async fn decide(api: &Arc<Api>, request: &V1Request, decision: Decision) -> Result<Response, Failure> {
    let wanted = body::object(request, &["fingerprint"])?;
    let key = decided(api, request, decision, request.part(0), body::needed(&wanted, "fingerprint")?).await?;
    json(StatusCode::OK, &key)
}

/// What became of a key in a request about many.
#[derive(Debug, Serialize)]
struct Outcome {
    id: String,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum What {
    Done { status: u16, state: String, fingerprint: Option<String> },
    Failed { status: u16, detail: String },
}

/// `POST /v1/keys:batch`
pub async fn batch(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    let wanted = body::object(request, &["action", "keys"])?;
    let decision = Decision::of(body::needed(&wanted, "action")?)
        .ok_or_else(|| Failure::bad_request("'action' must be accept, reject or delete"))?;
    let wrong = || Failure::bad_request(format!("'keys' must be a list of 1 to {MOST} of {{id, fingerprint}}"));
    let keys = wanted.get("keys").and_then(Value::as_list).ok_or_else(wrong)?;
    if keys.is_empty() || keys.len() > MOST {
        return Err(wrong());
    }
    // All are read before the first is decided.
    let keys: Option<Vec<(&str, &str)>> = keys
        .iter()
        .map(|key| {
            let key = key.as_map().filter(|key| key.len() == 2)?;
            Some((key.get_str("id")?, key.get_str("fingerprint")?))
        })
        .collect();
    let mut outcomes = Vec::new();
    for (id, fingerprint) in keys.ok_or_else(wrong)? {
        let what = match decided(api, request, decision, id, fingerprint).await {
            Ok(KeyRow { state, fingerprint, .. }) => What::Done { status: 200, state, fingerprint },
            // Nothing of the others can be decided either.
            Err(failure) if matches!(failure.status, 401 | 403 | 503) => return Err(failure),
            Err(Failure { status, message }) => What::Failed { status, detail: message },
        };
        outcomes.push(Outcome { id: id.to_owned(), what });
    }
    json(StatusCode::OK, &object!({ "keys": outcomes }))
}

/// Decides about the key of a minion that has a fingerprint. Returns the key afterwards.
async fn decided(
    api: &Arc<Api>,
    request: &V1Request,
    decision: Decision,
    id: &str,
    fingerprint: &str,
) -> Result<KeyRow, Failure> {
    let id = MinionId::new(id).map_err(|_| Failure::bad_request("This is not the id of a minion"))?;
    let keys = keys_of(api, request, &id).await?;
    if keys.is_empty() {
        return Err(Failure::new(404, format!("The minion {id} has no key here")));
    }
    let meant = |key: &&KeyRow| key.fingerprint.as_deref().is_some_and(|known| known.eq_ignore_ascii_case(fingerprint));
    let Some(key) = keys.iter().find(meant) else {
        return Err(Failure::new(409, format!("No key of {id} has this fingerprint: look at the key again")));
    };
    if key.state == decision.state() {
        return Ok(key.clone());
    }
    let function = decision.function();
    let event = match api.call(&request.caller.session.token, "wheel", function, decision.arguments(key)).await {
        Ok(event) => event,
        Err(failure) => return Err(refused(api, request, failure, &format!("the wheel function {function}")).await),
    };
    let data = event.get("data").cloned().unwrap_or_default();
    if data.get("success").and_then(Value::as_bool) == Some(false) {
        let reason = data.get("return").map(Value::to_string).unwrap_or_default();
        return Err(Failure::new(409, format!("The key could not be changed: {reason}")));
    }
    let changed = data.get("return").and_then(|done| done.get("changed")).and_then(Value::as_list);
    if changed.is_some_and(|ids| ids.is_empty()) {
        return Err(Failure::new(409, format!("The key of {id} was replaced in the meantime: look at it again")));
    }
    let mut after = keys_of(api, request, &id).await?.into_iter();
    let changed = after.find(|now| now.fingerprint == key.fingerprint && now.state == decision.state());
    match (decision, changed) {
        (Decision::Delete, _) => Ok(KeyRow { state: decision.state().to_owned(), ..key.clone() }),
        (_, Some(changed)) => Ok(changed),
        // Such as a file that has no valid key.
        (_, None) => Err(Failure::new(409, format!("The master has not changed the key of {id}: see its log"))),
    }
}

async fn keys_of(api: &Arc<Api>, request: &V1Request, id: &MinionId) -> Result<Vec<KeyRow>, Failure> {
    let query = KeyQuery { id: Some(id.to_string()), ..KeyQuery::default() };
    Ok(request.fleet(api).keys(&query).await?.items)
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn a_key_is_named_by_its_class_and_never_by_a_pattern() {
        let key = |state: &str| KeyRow { id: "web*".to_owned(), state: state.to_owned(), fingerprint: None };
        let known = KeyRow { fingerprint: Some("aa:bb".to_owned()), ..key("pending") };
        let fingerprints = Decision::Accept.arguments(&known).remove("fingerprints");
        assert_eq!(fingerprints, Some(map! { "web*" => "aa:bb" }.into()));
        let pending = map! { "match" => map! { "minions_pre" => list!["web*"] } };
        assert_eq!(Decision::Accept.arguments(&key("pending")), pending);
        assert_eq!(Decision::Delete.arguments(&key("pending")), pending);
        let rejected = map! { "match" => map! { "minions_rejected" => list!["web*"] }, "include_rejected" => true };
        assert_eq!(Decision::Accept.arguments(&key("rejected")), rejected);
        let denied = map! { "match" => map! { "minions_denied" => list!["web*"] }, "include_denied" => true };
        assert_eq!(Decision::Reject.arguments(&key("denied")), denied);
        assert_eq!(Decision::of("accept"), Some(Decision::Accept));
        assert_eq!(Decision::of("destroy"), None);
    }
}
