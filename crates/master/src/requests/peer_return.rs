//! `saltern_return`: the return of a job of another master, which does not take it now.
//!
//! Saltern minions send it to masters that have announced this ability. The answer is true if the return is on disk,
//! false if it is refused, and an empty text if it should be sent again.

use tracing::{debug, error};
use value::Map;
use wire::loads::ReturnForPeer;
use wire::{Jid, MinionId};

use super::return_::{once_copied, signature_passes, try_again};
use super::{Answer, MasterRequest};
use crate::Shared;
use crate::jobs::keep::{Kept, PeerReturn, is_of_the_future, keep, keep_for_peer};

/// Stores a return in place of its publisher.
pub fn handle(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id, mut load, .. } = ask;
    let Some(id) = id else { return false.into() };
    if !signature_passes(&shared, &id, &mut load) {
        return false.into();
    }
    let peer = match read(&id, load) {
        Ok(peer) => peer,
        Err(reason) => {
            error!("a return of minion {id} for another master is refused: {reason}");
            return false.into();
        }
    };
    let own = is_own(&shared, &peer);
    if !own && is_of_the_future(&peer.jid, shared.now()) {
        error!("a return of minion {id} for another master is refused: job {} is of the future", peer.jid);
        return false.into();
    }
    let kept = if own {
        debug!("minion {id} reaches this master by another address: job {} is its own", peer.jid);
        Some(keep(&shared, peer.load))
    } else {
        keep_for_peer(&shared, peer)
    };
    match kept {
        Some(Kept::Done) => true.into(),
        Some(Kept::Copying(copy)) => once_copied(vec![copy], true.into()),
        Some(Kept::Failed) => try_again(&shared, &id),
        None => false.into(),
    }
}

/// Reads the request. A minion may send only its own returns, and only those of published jobs.
fn read(id: &MinionId, load: Map) -> Result<PeerReturn, String> {
    let ReturnForPeer { publisher, job, load, .. } =
        ReturnForPeer::from_map(load).map_err(|error| error.to_string())?;
    // The load itself stays as it is, because its order is that of the event.
    if load.get_str("id") != Some(id.as_str()) {
        return Err("it is in the name of another minion".into());
    }
    if !load.contains_key("return") {
        return Err("it has no value".into());
    }
    let jid = load.get_str("jid").and_then(|jid| Jid::new(jid).ok()).ok_or("it names no job")?;
    let (publisher, job) = (publisher.0.unwrap_or_default(), job.0.unwrap_or_default());
    Ok(PeerReturn { id: id.clone(), jid, publisher, job, load })
}

/// Returns whether this master itself published the job to this minion.
fn is_own(shared: &Shared, peer: &PeerReturn) -> bool {
    let own = peer.publisher.get_str("id").is_some_and(|id| id == shared.stores.config.id);
    let expected = || shared.stores.jobs.minions(peer.jid.as_str()).unwrap_or_default();
    own && expected().iter().any(|id| id == peer.id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn a_minion_speaks_for_itself_of_published_jobs() {
        let id = MinionId::new("web1").unwrap();
        let load = |of: &str, jid: &str| map! { "load" => map! { "id" => of, "jid" => jid, "return" => 1 } };
        let good = read(&id, load("web1", "20240229131415678901")).unwrap();
        assert_eq!(good.jid.as_str(), "20240229131415678901");
        assert!(read(&id, load("web2", "20240229131415678901")).is_err());
        assert!(read(&id, load("web1", "req")).is_err());
        assert!(read(&id, load("web1", "../../x")).is_err());
        assert!(read(&id, map! { "load" => "x" }).is_err());
    }
}
