//! `_return`: the return of a job.

use tracing::{error, info};
use value::{Map, Value};
use wire::MinionId;
use wire::loads::Ability;
use wire::msgpack::{Packing, pack};

use super::{Answer, MasterRequest};
use crate::Shared;
use crate::jobs::keep::{Kept, keep};
use crate::outgoing::copies::AwaitedCopy;

/// Stores a return. It is not acknowledged before it is on disk, or on two.
pub fn handle(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id, mut load, .. } = ask;
    let Some(id) = id else { return false.into() };
    if !signature_passes(&shared, &id, &mut load) {
        return false.into();
    }
    if let Some(resource) = load.remove("resource_id").filter(Value::truthy) {
        if is_minion(&shared, &resource) {
            let resource = resource.to_string();
            let resource = value::escape::brief(&resource, 256);
            error!("minion {id} sent a return in the name of minion {resource}, which is refused");
            return false.into();
        }
        load.insert("id", resource);
    }
    match keep(&shared, load) {
        Kept::Done => Value::Null.into(),
        Kept::Copying(copy) => once_copied(vec![copy], Value::Null),
        Kept::Failed => try_again(&shared, &id),
    }
}

/// Returns the answer for returns that are acknowledged once another master has them, or one copy is enough.
pub(super) fn once_copied(copies: Vec<AwaitedCopy>, answer: Value) -> Answer {
    Answer::Later(Box::pin(async move {
        // All of them wait until the same moment.
        for copy in copies {
            copy.wait().await;
        }
        answer
    }))
}

/// Returns the answer for a return that could not be stored. Saltern minions send it again after an error; Salt minions
/// take any answer as an acknowledgement, so they get none.
pub(super) fn try_again(shared: &Shared, id: &MinionId) -> Answer {
    if shared.presence.can(id, Ability::PeerReturns) { "".into() } else { Answer::Silence }
}

/// Returns whether a resource has the id of a minion. A resource returns under its own name, which must not be that of
/// another minion.
fn is_minion(shared: &Shared, resource: &Value) -> bool {
    MinionId::try_from(resource).is_ok_and(|id| !matches!(shared.stores.keys.accepted_key(&id), Ok(None)))
}

/// Checks the signature if the options require it. The signature stays in the load, as the last field.
pub(super) fn signature_passes(shared: &Shared, id: &MinionId, load: &mut Map) -> bool {
    let keys = &shared.stores.config.keys;
    let Some(signature) = load.remove("sig") else {
        if keys.require_minion_sign_messages {
            error!(
                "_return: Master is requiring minions to sign their messages, but there is no signature in this \
                 payload from {id}."
            );
        }
        return !keys.require_minion_sign_messages;
    };
    let good = is_good(shared, id, load, &signature);
    load.insert("sig", signature);
    if good {
        return true;
    }
    info!("Failed to verify event signature from minion {id}.");
    if keys.drop_messages_signature_fail {
        error!("drop_messages_signature_fail is enabled, dropping message from {id}");
    }
    !keys.drop_messages_signature_fail
}

fn is_good(shared: &Shared, id: &MinionId, load: &Map, signature: &Value) -> bool {
    let algorithm = shared.stores.config.raw.get_str("signing_algorithm").unwrap_or_default();
    let algorithm = algorithm.parse().unwrap_or_default();
    let Ok(Some(key)) = shared.stores.keys.accepted_key(id) else { return false };
    let Some(signature) = signature.as_bytes() else { return false };
    key.verify(algorithm, &pack(&load.clone().into(), Packing::Bin), signature)
}
