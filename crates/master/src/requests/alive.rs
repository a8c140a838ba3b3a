//! `saltern_alive`: programs on this host ask who is there of the minions a target means. No minion hears of it.

use std::collections::HashSet;

use targeting::TargetType;
use value::{Map, Value, map};
use wire::MinionId;

use super::{Answer, Ask, held};
use crate::Shared;
use crate::open_jobs::Target;
use crate::open_jobs::ledger::Progress;

/// Tells it to users who may do everything; nothing when the minions themselves have to be asked.
pub fn handle(ask: Ask) -> Answer {
    match held::admit(ask) {
        Ok((shared, load)) => map! { "alive" => alive(&shared, &load).map_or(Value::Null, Value::from) }.into(),
        Err(refused) => refused.into(),
    }
}

/// Minions of ours are `up` when they have a connection, whose heartbeats prove them every few seconds, and else `down`. All
/// others are `unknown`: minions of Salt, those that have not come since the master started, and those whose name a connection
/// from another address claims, as one of a site with several addresses may.
///
/// Over tcp a master gets no heartbeats, and by grains and pillar the minions decide who is meant.
fn alive(shared: &Shared, load: &Map) -> Option<Map> {
    let target = Target::of(load);
    let by_id = matches!(target.kind()?, TargetType::Glob | TargetType::List | TargetType::Pcre);
    if !by_id || shared.stores.config.network.transport != config::Transport::Zeromq {
        return None;
    }
    let ours = shared.presence.ours(|_| true);
    let subscribers = shared.publisher.subscribers();
    let connected = shared.presence.connected(&subscribers);
    let claimed: HashSet<&str> = subscribers.iter().filter_map(|subscriber| subscriber.claimed.as_deref()).collect();
    let is_there = |id: &String| connected.binary_search_by(|known: &MinionId| known.as_str().cmp(id)).is_ok();
    let is_known = |id: &String| ours.contains(id.as_str()) && (is_there(id) || !claimed.contains(id.as_str()));
    let (known, unknown): (Vec<String>, Vec<String>) =
        target.expand(&shared.stores).minions.into_iter().partition(is_known);
    let (up, down): (Vec<String>, Vec<String>) = known.into_iter().partition(is_there);
    Some(map! { "up" => up, "down" => down, "unknown" => unknown })
}

/// `saltern_away`: who of the minions a job was for has no connection and has not got it, and for how long.
pub fn away(ask: Ask) -> Answer {
    match held::admit(ask) {
        Ok((shared, load)) => {
            let jid = load.get("jid").map(Value::to_string).unwrap_or_default();
            map! { "away" => of_job(&shared, &jid).map_or(Value::Null, Value::from) }.into()
        }
        Err(refused) => refused.into(),
    }
}

/// Nothing for jobs the master has forgotten, and for those that masters below pass on.
fn of_job(shared: &Shared, jid: &str) -> Option<Vec<Value>> {
    if shared.stores.config.jobs.order_masters {
        return None;
    }
    let report = shared.open_jobs.job(jid)?;
    let without = report.targets.iter().filter(|(_, progress)| *progress < Progress::Received);
    // In this order: who connects in between is on the list of subscribers.
    let left = shared.publisher.departures();
    let subscribers = shared.publisher.subscribers();
    let now = tokio::time::Instant::now();
    let absent = shared.presence.absent(without.map(|(id, _)| id.as_str()), &subscribers, &left, now);
    let one = |it: crate::presence::Absent| -> Value {
        let (gone, wait) = (it.gone.as_secs_f64(), it.wait.as_secs_f64());
        map! { "id" => it.id, "gone" => gone, "seen" => it.seen, "wait" => wait }.into()
    };
    Some(absent.into_iter().map(one).collect())
}
