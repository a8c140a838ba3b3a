//! Stores returns: they are checked, stored, announced, and only then acknowledged. With `cluster_return_copies: 2` another master has
//! stored them before, too.
//!
//! A return may arrive more than once: a minion repeats it until it is acknowledged. It is stored once and announced
//! once. A return of a job that another master published is stored, but never announced as a return.

use event::Source;
use std::time::{Duration, Instant, SystemTime};

use store::jobs::{JobReturn, Stored};
use store::proc_dir::ProcDir;
use tracing::{debug, error, info, warn};
use value::{Map, Value};
use wire::loads::Ability;
use wire::{Jid, MinionId};

use crate::Shared;
use crate::outgoing::copies::AwaitedCopy;

/// The result of storing.
pub enum Kept {
    /// The return need not be sent again.
    Done,
    /// Neither, once another master has it or one copy is enough.
    Copying(AwaitedCopy),
    /// It could not be written to disk, and should be sent again.
    Failed,
}

/// Stores the return of a minion. One without job, id or value is ignored.
pub fn keep(shared: &Shared, mut load: Map) -> Kept {
    let Some(id) = load.get("id").and_then(|id| MinionId::try_from(id).ok()) else { return Kept::Done };
    let (Some(job), true) = (load.get_str("jid").map(str::to_owned), load.contains_key("return")) else {
        warn!(minion = %id, "a return of {id} names no job or has no value");
        // Sent again, it would still name no job.
        return Kept::Done;
    };
    shared.bounds.cut_return(&id, &mut load);
    let unpublished = is_unpublished(shared, &job);
    // Before what is counted, since the minion sends it again.
    if unpublished && may_be_of_the_present(shared, &job) {
        error!(
            minion = %id,
            "a return of {id} for job {job} is not taken yet: by the clock of this host the job is of the future, and another \
             master has another time. Set the clock of this host right; the minion keeps the return until then"
        );
        return Kept::Failed;
    }
    if unpublished && is_of_a_runner(shared, &job) {
        warn!(minion = %id, "a return of {id} is passed over: {job} is the job of a runner");
        return Kept::Done;
    }
    if unpublished && !shared.bounds.may_add_job(&id, &load, shared.stores.rt.now()) {
        return Kept::Done;
    }
    let Some(jid) = enter(shared, &id, &job, &mut load, unpublished) else { return Kept::Done };
    let began = Instant::now();
    let stored = jid.and_then(|jid| store_return(shared, &id, &jid, &mut load));
    // Failures as well: a slow disk shows here first.
    shared.metrics.store_times.note(began.elapsed());
    shared.metrics.completed.count(shared.metrics.functions.label(load.get("fun")));
    let jid = load.get_str("jid").unwrap_or_default().to_owned();
    if is_news(shared, &id, &jid, &stored) {
        info!("Got return from {id} for job {jid}");
        shared.fire(format!("salt/job/{jid}/ret/{id}"), load.clone());
        super::failed_states::announce(shared, &Source::Host, &id, &load);
    }
    if matches!(stored, Ok(Stored::New)) {
        shared.returner_queue.returned(&load);
    }
    if stored.is_ok() {
        // After the return is stored, or a crash could end a held job without it.
        super::expiry::returned(shared, &jid, &id);
    }
    if stored.is_err() {
        shared.metrics.not_stored.count();
    }
    // A return that came before may not have got this far: the minion sends it again until it is acknowledged.
    let outgoing = shared.outgoing.as_ref();
    let copy = match stored {
        Ok(Stored::New) => outgoing.and_then(|outgoing| outgoing.returned(&jid, &id, &load, false, true)),
        Ok(Stored::Duplicate { same: true }) => {
            outgoing.and_then(|outgoing| outgoing.returned(&jid, &id, &load, false, false))
        }
        _ => None,
    };
    outcome(&id, &jid, stored, copy)
}

/// Returns whether this master did not publish the job, according to the job cache.
fn is_unpublished(shared: &Shared, job: &str) -> bool {
    !Jid::is_valid(job) || !shared.stores.jobs.has_load(job).unwrap_or(true)
}

/// Returns whether a runner or wheel function has the job id. Its record is stored at its end, and a minion must not write it before.
fn is_of_a_runner(shared: &Shared, job: &str) -> bool {
    Jid::is_valid(job) && !matches!(ProcDir::new(&shared.stores.config.paths.cachedir).get(job), Ok(None))
}

fn outcome(id: &MinionId, jid: &str, stored: store::Result<Stored>, copy: Option<AwaitedCopy>) -> Kept {
    match stored {
        Ok(_) => copy.map_or(Kept::Done, Kept::Copying),
        Err(error) => {
            error!("failed to store the return of {id} for job {jid}: {}", crate::chain(&error));
            Kept::Failed
        }
    }
}

/// Returns whether a return was not yet announced.
pub(super) fn is_news(shared: &Shared, id: &MinionId, jid: &str, stored: &store::Result<Stored>) -> bool {
    match stored {
        // That of a stock minion may have been announced when the disk would not take it.
        Ok(Stored::New) => !shared.announced.contains(jid, id),
        Ok(Stored::Duplicate { same: false }) => true,
        Ok(Stored::Duplicate { same: true }) => shared.stores.jobs.take_copy_mark(jid, id).unwrap_or_else(|error| {
            warn!("{}", crate::chain(&error));
            false
        }),
        // A minion that keeps its returns sends this one until it is stored; from others it may be the last that is heard.
        Err(_) if shared.presence.can(id, Ability::PeerReturns) => false,
        Ok(Stored::NotKept | Stored::UnknownJob) | Err(_) => shared.announced.note(jid, id),
    }
}

/// A return of a job that another master published.
pub struct PeerReturn {
    /// The minion.
    pub id: MinionId,
    /// The job.
    pub jid: Jid,
    /// The master that published it: `id` and `address`.
    pub publisher: Map,
    /// Fields of the publication that the return lacks.
    pub job: Map,
    /// The return.
    pub load: Map,
}

/// Stores a return in place of the master that published the job, and announces it with a tag of its own. Returns
/// `None` if this master stores no returns, or none of this job.
pub fn keep_for_peer(shared: &Shared, mut peer: PeerReturn) -> Option<Kept> {
    let (id, jid) = (peer.id.clone(), peer.jid.clone());
    shared.bounds.cut_return(&id, &mut peer.load);
    if is_of_a_runner(shared, jid.as_str()) {
        warn!(minion = %id, "a copy of a return of {id} is passed over: {jid} is the job of a runner");
        return None;
    }
    // The job was published elsewhere, so its size counts like that of the minion's own jobs.
    if !shared.bounds.may_add_job(&id, &peer.load, shared.stores.rt.now()) {
        return None;
    }
    let stored = store_copy(shared, &mut peer);
    let outgoing = shared.outgoing.as_ref().filter(|_| matches!(stored, Ok(Stored::New)));
    let copy = outgoing.and_then(|outgoing| outgoing.returned(jid.as_str(), &id, &peer.load, true, true));
    match stored {
        Ok(Stored::NotKept | Stored::UnknownJob) => return None,
        Ok(Stored::New) => {
            let name = peer.publisher.get_str("id").unwrap_or_default();
            info!("Got return from {id} for job {jid} of the master {name:?}, which does not take it now");
            let mut event = peer.load;
            event.insert("publisher", peer.publisher);
            shared.fire(format!("saltern/job/{jid}/peer/{id}"), event);
        }
        _ => {}
    }
    Some(outcome(&id, jid.as_str(), stored, copy))
}

fn store_copy(shared: &Shared, peer: &mut PeerReturn) -> store::Result<Stored> {
    let (jobs, settings, jid) = (&shared.stores.jobs, &shared.stores.config.jobs, peer.jid.as_str());
    // With an external job cache, the minion has stored the return there itself.
    if !settings.job_cache || !settings.ext_job_cache.is_empty() {
        return Ok(Stored::NotKept);
    }
    if !jobs.contains(jid)? {
        jobs.prepare(jid, false)?;
    }
    complete(&mut peer.load);
    if !jobs.has_load(jid)? {
        jobs.save_load(jid, &publication_of(peer))?;
    }
    let stored = jobs.store_copy(jid, &peer.id, &JobReturn::from_load(&peer.load))?;
    if stored == (Stored::Duplicate { same: false }) {
        warn!("minion {} sent a copy of a return for job {jid} that differs from the return that is known", peer.id);
    }
    Ok(stored)
}

/// Returns the record of a job that another master published, as far as this minion's return describes it. The other
/// targets are added when their copies arrive.
fn publication_of(peer: &PeerReturn) -> Map {
    let mut load = Map::new();
    let from = |load: &Map, name: &str| load.get(name).cloned();
    let arguments = from(&peer.load, "fun_args").or_else(|| from(&peer.load, "arg"));
    load.insert("fun", from(&peer.load, "fun"));
    load.insert("arg", arguments.unwrap_or_else(|| Value::List(Vec::new())));
    load.insert("tgt", &peer.id);
    load.insert("jid", &peer.jid);
    load.insert("ret", from(&peer.job, "ret").unwrap_or_else(|| "".into()));
    load.insert("tgt_type", "glob");
    for name in ["user", "metadata", "master_id"] {
        if let Some(value) = from(&peer.load, name) {
            load.insert(name, value);
        }
    }
    load
}

/// Finds the job of a return: an existing one, or a new one if the minion requests it (`req`). Returns `None` for an
/// invalid job id, and for a job in the future that only the minion knows.
fn enter(shared: &Shared, id: &MinionId, job: &str, load: &mut Map, unpublished: bool) -> Option<store::Result<Jid>> {
    if job == "req" {
        return Some(new_job(shared, id, load));
    }
    match Jid::new(job) {
        // A job that was published here counts whatever its id says: operators choose ids, and clocks are set back.
        Ok(jid) if unpublished && is_of_the_future(&jid, shared.now()) => {
            warn!(minion = %id, "a return of {id} is passed over: job {jid} is of the future");
            None
        }
        Ok(jid) => Some(Ok(jid)),
        Err(error) => {
            warn!(minion = %id, "a return of {id} is passed over: {error}");
            None
        }
    }
}

/// Returns whether a job id is in the future. A minion must not store returns for an id that may be used later. The
/// tolerance of one day is for wrong clocks of minions.
pub fn is_of_the_future(jid: &Jid, now: SystemTime) -> bool {
    jid.time().is_some_and(|time| time > now + Duration::from_secs(24 * 3600))
}

/// Returns whether a job seems to be of the future while nobody knows whether the clock of this master is right.
fn may_be_of_the_present(shared: &Shared, job: &str) -> bool {
    let disputed = shared.clock.get().is_some_and(|clock| clock.is_disputed());
    disputed && Jid::new(job).is_ok_and(|jid| is_of_the_future(&jid, shared.now()))
}

/// Creates a job that was not published: the minion ran it by itself, for example from its schedule.
fn new_job(shared: &Shared, id: &MinionId, load: &mut Map) -> store::Result<Jid> {
    let jid = shared.new_jid();
    let arguments = load.get("arg").or_else(|| load.get("fun_args")).cloned();
    load.insert("arg", arguments.unwrap_or_else(|| Value::List(Vec::new())));
    load.insert("tgt_type", "glob");
    load.insert("tgt", id);
    load.insert("jid", &jid);
    let nocache = load.get("nocache").is_some_and(Value::truthy);
    shared.stores.jobs.prepare(jid.as_str(), nocache)?;
    save_own_job(shared, id, &jid, load, nocache)?;
    Ok(jid)
}

/// Stores what a minion ran by itself.
fn save_own_job(shared: &Shared, id: &MinionId, jid: &Jid, load: &Map, nocache: bool) -> store::Result<()> {
    let (record, minions) = (record_of(id, load), [id.to_string()]);
    shared.stores.jobs.save_load(jid.as_str(), &record)?;
    // Nobody else was to run it.
    shared.stores.jobs.save_minions(jid.as_str(), &minions, None)?;
    super::shared::note_job(shared, jid.as_str(), &record, nocache, &minions);
    Ok(())
}

fn store_return(shared: &Shared, id: &MinionId, jid: &Jid, load: &mut Map) -> store::Result<Stored> {
    let (jobs, settings) = (&shared.stores.jobs, &shared.stores.config.jobs);
    if !jobs.contains(jid.as_str())? {
        jobs.prepare(jid.as_str(), false)?;
    }
    // With an external job cache the minions store their returns there themselves.
    if !settings.job_cache || !settings.ext_job_cache.is_empty() {
        return Ok(Stored::NotKept);
    }
    complete(load);
    if !jobs.has_load(jid.as_str())? {
        save_own_job(shared, id, jid, load, false)?;
    }
    let stored = with_lent(load, |returned| jobs.store_return(jid.as_str(), id, returned))?;
    match stored {
        Stored::Duplicate { same: false } => {
            error!(
                "An extra return was detected from minion {id}, please verify the minion, this could be a replay attack"
            );
        }
        Stored::Duplicate { same: true } => debug!("minion {id} sent its return for job {jid} again"),
        Stored::New if settings.job_cache_store_endtime => {
            let now = shared.stores.rt.now();
            jobs.set_end_time(jid.as_str(), &Jid::at(now).display_time())?;
            shared.outgoing.iter().for_each(|outgoing| outgoing.ended(jid.as_str(), now));
        }
        Stored::New | Stored::NotKept | Stored::UnknownJob => {}
    }
    Ok(stored)
}

/// Returns the record of a job that this master did not publish, for example from `salt-call` or a schedule. The minion
/// may report which function it ran, but only as a job that targets itself. The result is stored as its return.
fn record_of(id: &MinionId, load: &Map) -> Map {
    let mut record = Map::new();
    for (name, value) in load {
        if !matches!(name.as_str(), Some("return" | "sig" | "cmd")) {
            record.insert(name.clone(), value.clone());
        }
    }
    let arguments = load.get("arg").or_else(|| load.get("fun_args")).cloned();
    record.insert("arg", arguments.unwrap_or_else(|| Value::List(Vec::new())));
    record.insert("tgt", id);
    record.insert("tgt_type", "glob");
    record
}

/// Calls `store` with the return in `load`. The value is moved out of the load and back instead of being copied,
/// because results are large.
pub(super) fn with_lent<T>(load: &mut Map, store: impl FnOnce(&JobReturn) -> T) -> T {
    let value = load.get_mut("return").map(std::mem::take).unwrap_or_default();
    let returned = JobReturn { value, ..JobReturn::from_load(load) };
    let outcome = store(&returned);
    if let Some(place) = load.get_mut("return") {
        *place = returned.value;
    }
    outcome
}

/// Adds function and user from inside the value, where some returns contain them.
fn complete(load: &mut Map) {
    if load.contains_key("fun") {
        return;
    }
    let inside = |name: &str| load.get("return").and_then(|value| value.get(name)).cloned();
    let found = [("fun", inside("fun")), ("user", inside("user"))];
    for (name, value) in found {
        if let Some(value) = value {
            load.insert(name, value);
        }
    }
}
