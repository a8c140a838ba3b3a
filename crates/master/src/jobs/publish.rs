//! Publishes jobs: from a permitted request to the frame in each subscriber's queue.

use event::Source;
use std::collections::HashSet;
use std::time::Duration;

use targeting::Expected;
use transport::{Audience, Payload};
use value::escape::brief;
use value::{Map, Value, map};
use wire::loads::Ability;
use wire::{Jid, MinionId};

use super::audience::{audience, audience_of_forwarded};
use crate::Shared;
use crate::open_jobs::ledger::Offer;
use crate::open_jobs::{CannotHold, Opening, Target, field, judged_by_minions, publication};
use crate::other_masters::PublishedJob;

/// The largest number of bytes of a name in the log.
const SHOWN: usize = 256;

/// Publishes for the master itself, without authentication. `load` is a publish request without a key.
pub fn publish_for_master(shared: &Shared, load: Map) -> Value {
    let meant = Target::of(&load).expand(&shared.stores);
    publish_permitted(shared, load, meant, ReturnReader::Saltern)
}

/// The program that reads the returns of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnReader {
    /// A Saltern program, or none.
    Saltern,
    /// Possibly a program that uses Salt, such as a script with its `LocalClient`. It can read only Salt's layout.
    Salt,
}

impl ReturnReader {
    /// Reads and removes the field by which Saltern programs identify themselves.
    pub fn take(load: &mut Map) -> Self {
        load.remove(SALTERN_FIELD).map_or(ReturnReader::Salt, |_| ReturnReader::Saltern)
    }
}

/// Publishes a permitted request: job directory, events, job cache, frame. Returns the answer.
pub fn publish_permitted(shared: &Shared, mut load: Map, meant: Expected, reader: ReturnReader) -> Value {
    // With `order_masters`, minions of lower masters may match that this one does not know.
    if meant.minions.is_empty() && !shared.stores.config.jobs.order_masters {
        let target = load.get("tgt").cloned().unwrap_or_default();
        let error = format!("Master could not resolve minions for target {target}");
        return clear(map! { "jid" => Value::Null, "minions" => Value::List(Vec::new()), "error" => error });
    }
    let jid = match prepare(shared, &load, reader) {
        Ok(jid) => jid,
        Err(error) => {
            tracing::error!("failed to prepare a job: {}", crate::chain(&error));
            return clear(map! { "error" => "Master failed to assign jid" });
        }
    };
    shared.metrics.published.count(shared.metrics.functions.label(load.get("fun")));
    load.insert("jid", jid.as_str());
    let publication = publication(&shared.stores, &load);
    // Before the events: a job that cannot be held is not published at all.
    let hold = match open(shared, &jid, &load, &publication, &meant) {
        Ok(hold) => hold,
        Err(reason) => {
            return clear(map! { "jid" => Value::Null, "minions" => Value::List(Vec::new()), "error" => reason });
        }
    };
    announce(shared, Source::Host, &jid, &load, meant.minions.clone(), meant.missing.clone());
    save(shared, &jid, &load, &meant);
    // Before it is sealed nobody has it, so the first return cannot be faster than this event.
    shared.fire(format!("salt/job/{jid}/publish"), publication.clone());
    let [user, fun] = ["user", "fun"].map(|name| field(&load, name).to_string());
    let (user, fun) = (brief(&user, SHOWN), brief(&fun, SHOWN));
    tracing::info!(jid = jid.as_str(), "User {user} Published command {fun} with jid {jid}");
    // First: it has the longer way.
    forward(shared, &jid, &load, &meant, hold);
    let audience = audience(shared, &publication);
    if let Err(error) = send(shared, on_air(publication, hold, hold.is_some()), &audience) {
        tracing::error!("failed to publish job {jid}: {error}");
        return clear(map! { "error" => "Master failed to sign the publication" });
    }
    let mut answer = map! { "jid" => &jid };
    let held = hold.map(|hold| map! { "left" => hold.as_secs_f64(), "away" => away(shared, &meant.minions) });
    answer.insert("minions", meant.minions);
    answer.insert("missing", meant.missing);
    if let Some(held) = held {
        answer.insert(HELD, held);
    }
    clear(answer)
}

/// The field of the answer for a held job: how long it is held, and which minions are not connected.
const HELD: &str = "held";

/// The field that Saltern adds to requests from its clients and to publications for its minions. Other programs ignore
/// it.
const SALTERN_FIELD: &str = "saltern";

/// The option of a request for how long to hold the job.
const HOLD: &str = "job_hold";

/// Enters the job among those that may still be delivered. Returns for how long it is held; `None` if it is not.
fn open(
    shared: &Shared,
    jid: &Jid,
    load: &Map,
    publication: &Map,
    meant: &Expected,
) -> Result<Option<Duration>, String> {
    let hold = hold(load)?;
    let opening = Opening {
        jid,
        publication,
        targets: &meant.minions,
        kind: Target::of(load).kind,
        hold,
        left: None,
        kept: !is_nocache(load),
    };
    let entered = shared.open_jobs.enter(&opening, shared.stores.rt.now());
    entered.map(|()| hold).map_err(|error: CannotHold| crate::chain(&error))
}

/// Returns for how long a job is to be held; `None` if it is not.
pub fn hold(load: &Map) -> Result<Option<Duration>, String> {
    let wished = load.get("kwargs").and_then(|kwargs| kwargs.get(HOLD)).map(config::period).transpose();
    Ok(wished.map_err(|must| format!("{HOLD}: {must}"))?.filter(|hold| !hold.is_zero()))
}

/// Returns whether the job cache keeps no returns of a job.
pub fn is_nocache(load: &Map) -> bool {
    load.get("kwargs").and_then(|kwargs| kwargs.get("nocache")).is_some_and(Value::truthy)
}

/// Has other masters of the set deliver a job to minions that are not connected here.
fn forward(shared: &Shared, jid: &Jid, load: &Map, meant: &Expected, hold: Option<Duration>) {
    let Some(others) = shared.others.get() else { return };
    let job = PublishedJob {
        jid,
        load,
        targets: &meant.minions,
        judged_by_minions: judged_by_minions(Target::of(load).kind),
        valid_for: hold.unwrap_or_else(|| shared.open_jobs.grace()),
    };
    others.forward(&job, &shared.open_jobs);
}

/// A job that another master of the set has published, and that this one delivers to some of its targets.
pub struct ForwardedJob {
    /// Its id.
    pub jid: Jid,
    /// The publish request, as the job cache keeps it.
    pub load: Map,
    /// The targets that this master delivers it to now, or when they connect.
    pub targets: Vec<String>,
    /// How long it is held, if it is.
    pub hold: Option<Duration>,
    /// How long it is valid otherwise.
    pub left: Duration,
    /// The job cache keeps no returns of it.
    pub nocache: bool,
    /// Who published it.
    pub user: String,
}

/// Why a job of another master is not published.
#[derive(Debug, thiserror::Error)]
pub enum NotPublished {
    /// It never will be.
    #[error("{0}")]
    Refused(String),
    /// The disk does not take it now.
    #[error("{0}")]
    NotStored(String),
}

impl From<String> for NotPublished {
    fn from(reason: String) -> Self {
        NotPublished::Refused(reason)
    }
}

impl From<CannotHold> for NotPublished {
    fn from(error: CannotHold) -> Self {
        match error {
            CannotHold::Full(_) => NotPublished::Refused(crate::chain(&error)),
            CannotHold::Disk(_) => NotPublished::NotStored(crate::chain(&error)),
        }
    }
}

impl From<store::Error> for NotPublished {
    fn from(error: store::Error) -> Self {
        NotPublished::NotStored(crate::chain(&error))
    }
}

/// Publishes a job of another master. Minions that are connected to that master have it already, and those to which it was sent
/// here before do not get it once more: the other master sends it again when it does not know whether it has arrived.
///
/// # Errors
/// When its id is that of another job, or it cannot be held or stored.
pub fn publish_forwarded(
    shared: &Shared,
    job: ForwardedJob,
    master: &str,
    connected_there: &HashSet<MinionId>,
) -> Result<(), NotPublished> {
    let ForwardedJob { jid, load, targets, hold, left, nocache, user } = job;
    enter_load(shared, &jid, &load, &targets, nocache)?;
    let targets = match shared.open_jobs.lacking(&jid, &targets) {
        None => targets,
        Some(lacking) => unreturned(shared, &jid, lacking)?,
    };
    if targets.is_empty() && shared.open_jobs.job(jid.as_str()).is_some() {
        tracing::debug!("the job {jid} of the master {master} is published here already");
        return Ok(());
    }
    let publication = publication(&shared.stores, &load);
    let kind = Target::of(&load).kind;
    let (now, kept) = (shared.stores.rt.now(), !nocache);
    let opening =
        Opening { jid: &jid, publication: &publication, targets: &targets, kind, hold, left: Some(left), kept };
    // Before it is sent: a minion that connects in between must not miss it.
    shared.open_jobs.enter(&opening, now)?;
    shared.metrics.published.count(shared.metrics.functions.label(load.get("fun")));
    shared.fire_from(Source::OtherMaster, format!("salt/job/{jid}/publish"), publication.clone());
    let fun = field(&load, "fun").to_string();
    let (user, fun) = (brief(&user, SHOWN), brief(&fun, SHOWN));
    tracing::info!(jid = jid.as_str(), "User {user} of the master {master} Published command {fun} with jid {jid}");
    let targets = targets.iter().filter_map(|id| MinionId::new(id.as_str()).ok()).collect();
    let judged = judged_by_minions(kind);
    let audience = audience_of_forwarded(shared, &publication, &targets, judged.then_some(connected_there));
    send(shared, on_air(publication, hold, hold.is_some()), &audience).map_err(|error| error.to_string())?;
    Ok(())
}

/// Returns those minions whose return is not in the job cache.
fn unreturned(shared: &Shared, jid: &Jid, ids: Vec<String>) -> store::Result<Vec<String>> {
    let mut waiting = Vec::new();
    for id in ids {
        let returned = match MinionId::new(id.as_str()) {
            Ok(minion) => shared.stores.jobs.return_of(jid.as_str(), &minion)?.is_some(),
            Err(_) => false,
        };
        if !returned {
            waiting.push(id);
        }
    }
    Ok(waiting)
}

/// Writes a job of another master into the job cache, unless it is there.
fn enter_load(shared: &Shared, jid: &Jid, load: &Map, targets: &[String], nocache: bool) -> Result<(), NotPublished> {
    let jobs = &shared.stores.jobs;
    let known = jobs.load(jid.as_str())?;
    if let Some(known) = known.filter(|known| !super::shared::is_of_minion(known)) {
        // The parts of a batch share a job id. Nobody may run something else under it.
        let same = ["user", "fun", "arg"].iter().all(|name| known.get(name) == load.get(name));
        return if same { Ok(()) } else { Err("another job has this id here".to_owned().into()) };
    }
    jobs.prepare(jid.as_str(), nocache)?;
    jobs.save_load(jid.as_str(), load)?;
    jobs.save_minions(jid.as_str(), targets, None)?;
    super::shared::announce(shared, jid, load, all_targets(Target::of(load).expand(&shared.stores).minions, targets));
    Ok(())
}

/// Returns all targets of a job of another master, for programs that count returns. The message names only those that this master may
/// deliver it to; the target, expanded with the keys and data that the masters share, names the others as well.
fn all_targets(mut expanded: Vec<String>, named: &[String]) -> Vec<String> {
    // What the masters know may differ for a moment.
    let known: HashSet<&str> = expanded.iter().map(String::as_str).collect();
    let more: Vec<String> = named.iter().filter(|id| !known.contains(id.as_str())).cloned().collect();
    expanded.extend(more);
    expanded
}

/// Returns the minions of the list that are connected to no master of the set now.
pub fn away(shared: &Shared, minions: &[String]) -> Vec<String> {
    let connected = shared.connected_anywhere();
    let is_away = |id: &&String| connected.binary_search_by(|known| known.as_str().cmp(id)).is_err();
    minions.iter().filter(is_away).cloned().collect()
}

/// Returns the publication. For a held job, adds the field that tells Saltern minions for how much longer they may
/// start it, and that they must confirm it.
fn on_air(mut publication: Map, left: Option<Duration>, receipt: bool) -> Map {
    if let Some(left) = left.filter(|_| receipt) {
        publication.insert(SALTERN_FIELD, map! { "left" => left.as_secs_f64(), "receipt" => true });
    }
    publication
}

/// Resends the jobs that a connection lost to a full queue. Blocks the thread.
pub fn send_lost(shared: &Shared, connection: u64) {
    loop {
        let mut offers = shared.open_jobs.lost_by(connection).into_iter();
        let mut full = false;
        for Offer { publication, left, held } in offers.by_ref() {
            let jid = publication.get_str("jid").unwrap_or_default().to_owned();
            let audience = audience(shared, &publication);
            let load = on_air((*publication).clone(), Some(left), held);
            let sent =
                seal_in_order(shared, load, |payload| shared.publisher.publish_to(connection, payload, &audience));
            match sent {
                Ok(delivery) if delivery.dropped > 0 => {
                    shared.open_jobs.lose(&[connection], &jid);
                    full = true;
                    break;
                }
                Ok(delivery) if delivery.queued > 0 => {
                    tracing::info!("job {jid} is sent again to connection {connection}")
                }
                Ok(_) => {}
                Err(error) => tracing::error!("failed to publish job {jid} again: {error}"),
            }
        }
        for offer in offers {
            shared.open_jobs.lose(&[connection], offer.publication.get_str("jid").unwrap_or_default());
        }
        // An empty queue is reported later, unless it has become empty just now.
        if !full || !shared.publisher.watch_queue(connection) {
            return;
        }
    }
}

/// Sends all Saltern minions a notice, which is not a job. Blocks the thread.
///
/// Salt minions do not get it: one that has not yet learnt of a key rotation would sign in just to read it.
pub fn tell_minions(shared: &Shared, notice: Map) -> Result<(), crypto::RsaError> {
    tell(shared, notice, shared.presence.all_that_can(Ability::Goodbye))
}

/// Sends a minion a notice, if it is one of Saltern. Blocks the thread.
pub fn tell_minion(shared: &Shared, notice: Map, id: &MinionId) -> Result<(), crypto::RsaError> {
    let ours = shared.presence.can(id, Ability::Goodbye).then(|| id.clone());
    tell(shared, notice, ours.into_iter().collect())
}

fn tell(shared: &Shared, notice: Map, ours: HashSet<MinionId>) -> Result<(), crypto::RsaError> {
    if ours.is_empty() {
        return Ok(());
    }
    let (turn, number) = shared.order.take(|| shared.channel.number_notice());
    let payload = shared.channel.seal_publication(map! { SALTERN_FIELD => notice }, &number)?;
    turn.pass(|| shared.publisher.publish(&payload.into(), &Audience::Minions(ours)));
    Ok(())
}

/// Sends connections that are behind a notice without a target, encrypted with the current key, so that their minions
/// sign in to read it. Returns how many were behind. Blocks the thread.
pub fn catch_up(shared: &Shared, connections: &[u64]) -> Result<usize, crypto::RsaError> {
    let (turn, number) = shared.order.take(|| shared.channel.unnumbered());
    let sealed = shared.channel.seal_publication(map! { SALTERN_FIELD => map! { "renewed" => true } }, &number)?;
    Ok(turn.pass(|| shared.publisher.catch_up(connections, &sealed)))
}

fn clear(load: Map) -> Value {
    map! { "enc" => "clear", "load" => load }.into()
}

/// Creates the job's directory. A jid in the request is used unchanged, but must be valid, since it becomes a path.
fn prepare(shared: &Shared, load: &Map, reader: ReturnReader) -> store::Result<Jid> {
    let passed = load.get("jid").map(Value::to_string).and_then(|text| Jid::new(text).ok());
    let jid = passed.unwrap_or_else(|| shared.new_jid());
    let nocache = is_nocache(load);
    match reader {
        ReturnReader::Saltern => shared.stores.jobs.prepare(jid.as_str(), nocache)?,
        ReturnReader::Salt => shared.stores.jobs.prepare_for_salt(jid.as_str(), nocache)?,
    }
    Ok(jid)
}

/// Fires the event of a new job.
pub(super) fn announce(
    shared: &Shared,
    source: Source,
    jid: &Jid,
    load: &Map,
    minions: Vec<String>,
    missing: Vec<String>,
) {
    let mut event = map! { "jid" => jid };
    for name in ["tgt_type", "tgt", "user", "fun", "arg"] {
        event.insert(name, field(load, name));
    }
    event.insert("minions", minions);
    event.insert("missing", missing);
    shared.fire_from(source, format!("salt/job/{jid}/new"), event);
}

fn save(shared: &Shared, jid: &Jid, load: &Map, meant: &Expected) {
    let jobs = &shared.stores.jobs;
    let saved = jobs.save_load(jid.as_str(), load).and_then(|()| jobs.save_minions(jid.as_str(), &meant.minions, None));
    let nocache = is_nocache(load);
    if !nocache {
        shared.returner_queue.published(jid.as_str(), load);
    }
    match saved {
        Ok(()) => super::shared::note_job(shared, jid.as_str(), load, nocache, &meant.minions),
        Err(error) => {
            tracing::error!("Could not write job invocation cache file of {jid}: {}", crate::chain(&error));
        }
    }
}

/// Encrypts a publication once and adds it to the subscribers' queues.
fn send(shared: &Shared, publication: Map, audience: &Audience) -> Result<(), crypto::RsaError> {
    let jid = publication.get_str("jid").map(str::to_owned);
    let delivery = seal_in_order(shared, publication, |payload| shared.publisher.publish(payload, audience))?;
    tracing::debug!("publication is queued for {} subscribers, dropped for {}", delivery.queued, delivery.dropped);
    shared.metrics.slow.add(delivery.dropped as u64);
    let Some(jid) = jid.filter(|_| !delivery.lost.is_empty()) else { return Ok(()) };
    shared.open_jobs.lose(&delivery.lost, &jid);
    for connection in delivery.lost {
        // A queue that is empty already will not be reported, so its lost jobs are sent now.
        if shared.publisher.watch_queue(connection) {
            send_lost(shared, connection);
        }
    }
    Ok(())
}

/// Numbers and encrypts a load, also for subscribers that are behind, and passes the payload on after all payloads with
/// lower numbers.
fn seal_in_order<T>(shared: &Shared, load: Map, hand_over: impl FnOnce(&Payload) -> T) -> Result<T, crypto::RsaError> {
    let channel = &shared.channel;
    // Another operation with the private key, so only if somebody needs it.
    let behind = || channel.aes().previous().is_some() && shared.publisher.any_behind();
    let number = || (channel.number_publication(), behind().then(|| channel.number_before()).flatten());
    let (turn, (number, before)) = shared.order.take(number);
    let before = before.map(|number| channel.seal_publication(load.clone(), &number)).transpose()?;
    let payload = Payload { current: channel.seal_publication(load, &number)?, before };
    Ok(turn.pass(|| hand_over(&payload)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarded_job_is_announced_with_the_minions_of_all_masters() {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(all_targets(ids(&["db1", "web1"]), &ids(&["web1"])), ["db1", "web1"]);
        assert_eq!(all_targets(ids(&["db1"]), &ids(&["web1"])), ["db1", "web1"], "of which this master knows no data");
    }
}
