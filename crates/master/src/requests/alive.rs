//! `saltern_alive` and `saltern_away`: programs on this host ask which minions are connected, without asking the
//! minions.

use std::collections::HashSet;

use targeting::TargetType;
use value::{Map, Value, map};
use wire::MinionId;
use wire::loads::AwayMinions;

use super::{Answer, MasterRequest, held, read};
use crate::Shared;
use crate::open_jobs::Target;
use crate::open_jobs::ledger::Progress;

/// Answers users with all permissions. The answer is empty if the minions themselves must be asked.
pub fn handle(ask: MasterRequest) -> Answer {
    match held::admit(ask) {
        Ok((shared, load)) => map! { "alive" => alive(&shared, &load).map_or(Value::Null, Value::from) }.into(),
        Err(refused) => refused.into(),
    }
}

/// Returns the minions of a target by state. Saltern minions are `up` if they have a connection to a master of the set,
/// which heartbeats check every few seconds, and otherwise `down`. All others are `unknown`: Salt minions, minions that have
/// not connected to this master since it started, and minions whose name is claimed by a connection from another address, which may be
/// theirs at a site with several addresses.
///
/// Returns `None` over tcp, where a master gets no heartbeats, and for targets by grains and pillar, about which the
/// minions decide.
fn alive(shared: &Shared, load: &Map) -> Option<Map> {
    let target = Target::of(load);
    let by_id = matches!(target.kind()?, TargetType::Glob | TargetType::List | TargetType::Pcre);
    if !by_id || shared.stores.config.network.transport != config::Transport::Zeromq {
        return None;
    }
    let ours = shared.presence.ours(|_| true);
    let subscribers = shared.publisher.subscribers();
    let mut connected = shared.presence.connected(&subscribers);
    if let Some(others) = shared.others.get() {
        connected = others.with_those_elsewhere(connected);
    }
    let claimed: HashSet<&str> = subscribers.iter().filter_map(|subscriber| subscriber.claimed.as_deref()).collect();
    let is_there = |id: &String| connected.binary_search_by(|known: &MinionId| known.as_str().cmp(id)).is_ok();
    let is_known = |id: &String| ours.contains(id.as_str()) && (is_there(id) || !claimed.contains(id.as_str()));
    let (known, unknown): (Vec<String>, Vec<String>) =
        target.expand(&shared.stores).minions.into_iter().partition(is_known);
    let (up, down): (Vec<String>, Vec<String>) = known.into_iter().partition(is_there);
    Some(map! { "up" => up, "down" => down, "unknown" => unknown })
}

/// `saltern_away`: the targets of a job that are not connected and did not get it, and for how long.
pub fn away(ask: MasterRequest) -> Answer {
    match held::admit(ask) {
        Ok((shared, load)) => {
            let away = read(load, AwayMinions::from_map).and_then(|wanted| of_job(&shared, wanted.jid.as_str()));
            map! { "away" => away.map_or(Value::Null, Value::from) }.into()
        }
        Err(refused) => refused.into(),
    }
}

/// Returns `None` for jobs that the master has forgotten, and for those that lower masters pass on.
fn of_job(shared: &Shared, jid: &str) -> Option<Vec<Value>> {
    if shared.stores.config.jobs.order_masters {
        return None;
    }
    let report = shared.open_jobs.job(jid)?;
    let without = report.targets.iter().filter(|(_, progress)| *progress < Progress::Received);
    let elsewhere = |id: &str| shared.others.get().is_some_and(|others| others.may_be_elsewhere(id));
    let without = without.filter(|(id, _)| !elsewhere(id));
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
