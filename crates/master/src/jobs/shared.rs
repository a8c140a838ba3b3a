//! Writes to the job cache what other masters of the set know: their jobs, and what their minions returned.
//!
//! It is the code of returns of this master's minions: the first return counts, and a later one that is equal changes nothing.
//! Programs that wait on this master get the same events as those on the other one.

use event::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use store::jobs::Stored;
use tracing::{debug, info};
use value::{Map, Value};
use wire::{Jid, MinionId};

use super::{expiry, keep, publish};
use crate::Shared;

/// Stores a job of another master. `own` says that only this master makes such ids. Returns whether the job is to be announced: it is
/// new here, and somebody has published it.
///
/// # Errors
/// If it could not be stored.
pub fn job(shared: &Shared, jid: &Jid, load: &Map, nocache: bool, own: bool) -> store::Result<bool> {
    let jobs = &shared.stores.jobs;
    let known = if jobs.has_load(jid.as_str())? { jobs.load(jid.as_str())? } else { None };
    // The record of what was just published here may still be under way.
    if known.as_ref().is_some_and(|known| counts(known, load, own)) {
        return Ok(false);
    }
    prepare(shared, jid, nocache)?;
    jobs.save_load(jid.as_str(), load)?;
    Ok(known.is_none_or(|known| is_of_minion(&known)) && !is_of_minion(load))
}

/// Returns whether a job in the cache stays there although another master has one with the same id.
fn counts(known: &Map, load: &Map, own: bool) -> bool {
    !is_of_minion(known) && (own || is_of_minion(load))
}

/// Returns whether a minion ran a job by itself, which names the minion then.
pub fn is_of_minion(load: &Map) -> bool {
    load.contains_key("id")
}

/// Announces a job of another master, once. `minions` are those that are expected to return.
pub fn announce(shared: &Shared, jid: &Jid, load: &Map, minions: Vec<String>) {
    if shared.announced.note_job(jid.as_str()) {
        publish::announce(shared, Source::OtherMaster, jid, load, minions, Vec::new());
    }
}

fn prepare(shared: &Shared, jid: &Jid, nocache: bool) -> store::Result<()> {
    let jobs = &shared.stores.jobs;
    if nocache || !jobs.contains(jid.as_str())? { jobs.prepare(jid.as_str(), nocache) } else { Ok(()) }
}

/// Stores from which minions a job expects returns, by syndic; the master's own are under the empty name.
///
/// # Errors
/// If they could not be stored.
pub fn expected(shared: &Shared, jid: &Jid, sets: &BTreeMap<String, BTreeSet<String>>) -> store::Result<()> {
    prepare(shared, jid, false)?;
    for (syndic, minions) in sets {
        let minions: Vec<String> = minions.iter().cloned().collect();
        let syndic = match syndic.is_empty() {
            true => None,
            false => match MinionId::new(syndic.as_str()) {
                Ok(id) => Some(id),
                Err(_) => continue,
            },
        };
        shared.stores.jobs.save_minions(jid.as_str(), &minions, syndic.as_ref())?;
    }
    Ok(())
}

/// Stores a return that another master got, and announces it if it is new here.
///
/// # Errors
/// If it could not be stored.
pub fn returned(shared: &Shared, jid: &Jid, id: &MinionId, mut load: Map) -> store::Result<()> {
    let (jobs, name) = (&shared.stores.jobs, jid.as_str());
    prepare(shared, jid, false)?;
    let stored = keep::with_lent(&mut load, |returned| jobs.store_return(name, id, returned))?;
    let news = match stored {
        Stored::Duplicate { same: false } => {
            debug!("another master has a different return of {id} for job {jid}; the first counts here");
            false
        }
        stored => keep::is_news(shared, id, name, &Ok(stored)),
    };
    if news {
        info!("Got return from {id} for job {jid}");
        load.insert("cmd", "_return");
        shared.fire_from(Source::OtherMaster, format!("salt/job/{jid}/ret/{id}"), load.clone());
        super::failed_states::announce(shared, &Source::OtherMaster, id, &load);
    }
    expiry::returned(shared, name, id);
    Ok(())
}

/// Stores when a job ended.
///
/// # Errors
/// If it could not be stored.
pub fn ended(shared: &Shared, jid: &Jid, at: SystemTime) -> store::Result<()> {
    prepare(shared, jid, false)?;
    shared.stores.jobs.set_end_time(jid.as_str(), &Jid::at(at).display_time())
}

/// Notes that a job was written here, so that other masters get it: its publication and the expected minions.
pub fn note_job(shared: &Shared, jid: &str, load: &Map, nocache: bool, minions: &[String]) {
    if let Some(outgoing) = &shared.outgoing {
        outgoing.published(jid, load, nocache, minions);
    }
}

/// Returns whether the returns of a job are not kept, as its publication says.
pub fn is_nocache(load: &Map) -> bool {
    let kwargs = load.get("kwargs").and_then(|kwargs| kwargs.get("nocache"));
    kwargs.or_else(|| load.get("nocache")).is_some_and(Value::truthy)
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn a_publication_in_the_cache_makes_way_only_for_one_of_the_master_that_makes_such_ids() {
        let [published, ran] = [map! { "fun" => "test.ping" }, map! { "fun" => "test.ping", "id" => "web1" }];
        assert!(counts(&published, &published, true), "its record is under way");
        assert!(counts(&published, &ran, false) && counts(&published, &ran, true));
        assert!(!counts(&published, &published, false), "the records say which one counts");
        assert!(!counts(&ran, &published, true) && !counts(&ran, &ran, false));
    }
}
