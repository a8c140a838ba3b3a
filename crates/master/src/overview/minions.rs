//! Pages of minions.

use std::collections::HashSet;

use cache::Part;
use keys::{Bank, Listing};
use targeting::TargetType;
use tokio::time::Instant;
use value::{Map, Value, map};
use wire::MinionId;

use super::matching::matched;
use super::question::MinionFilter;
use super::{Refused, granted, page as in_page, rfc3339};
use crate::Shared;
use crate::credentials::Caller;
use crate::set_requests::SetRequest;

/// The classes of keys, and how their minions are called. A minion can have a denied key beside another one, and is listed once.
const CLASSES: [(Bank, &str); 4] =
    [(Bank::Accepted, "accepted"), (Bank::Pending, "pending"), (Bank::Rejected, "rejected"), (Bank::Denied, "denied")];

/// Returns a page of minions, without the masters to which they are connected.
///
/// # Errors
/// When the target cannot be read, or the keys cannot.
pub fn page(shared: &Shared, caller: &Caller, filter: &MinionFilter) -> Result<Map, Refused> {
    let listing = shared.stores.keys.list().map_err(|error| Refused::unreadable(&error))?;
    let connected = shared.connected_anywhere();
    let meant = match &filter.target {
        Some(target) => Some(matching_minions(shared, caller, target)?),
        None => None,
    };
    let is_up = |id: &MinionId| connected.binary_search(id).is_ok();
    let status = |id: &MinionId, class: &'static str| match (class, is_up(id)) {
        ("accepted", true) => "up",
        ("accepted", false) => "down",
        (class, _) => class,
    };
    let mut all: Vec<(&MinionId, &'static str)> = each(&listing)
        .map(|(id, class)| (id, status(id, class)))
        .filter(|(id, status)| {
            filter.id.as_deref().is_none_or(|wanted| wanted == id.as_str())
                && filter.q.as_deref().is_none_or(|part| id.as_str().contains(part))
                && filter.status.as_deref().is_none_or(|wanted| wanted == *status)
                && meant.as_ref().is_none_or(|meant| meant.contains(id.as_str()))
        })
        .collect();
    all.sort_unstable();
    if filter.reverse {
        all.reverse();
    }
    let behind = |id: &MinionId, after: &String| match filter.reverse {
        true => id.as_str() < after.as_str(),
        false => id.as_str() > after.as_str(),
    };
    all.retain(|(id, _)| filter.after.as_ref().is_none_or(|after| behind(id, after)));
    let more = all.len() > filter.limit;
    all.truncate(filter.limit);
    let next = all.last().filter(|_| more).map(|(id, _)| id.to_string());
    let recalled = shared.fleet_memory.highstates.recall(all.iter().map(|(id, _)| *id), &shared.stores.jobs);
    recalled.map_err(|error| Refused::unreadable(&error))?;
    let left = shared.publisher.departures();
    let rows = all.into_iter().map(|(id, status)| row(shared, id, status, left.names.get(id.as_str())));
    Ok(in_page(rows.collect(), next))
}

/// Returns each minion with a key once, with the class of its key.
fn each(listing: &Listing) -> impl Iterator<Item = (&MinionId, &'static str)> {
    let mut seen = HashSet::new();
    CLASSES
        .into_iter()
        .flat_map(|(bank, class)| listing.ids(bank).iter().map(move |id| (id, class)))
        .filter(move |(id, _)| seen.insert(*id))
}

/// Returns the minions that a compound target means.
fn matching_minions(shared: &Shared, caller: &Caller, target: &str) -> Result<HashSet<String>, Refused> {
    let ids = matched(&granted(caller), &shared.stores.checker(), &target.into(), TargetType::Compound);
    let ids = ids.map_err(|error| Refused::new(400, format!("'target' cannot be matched: {error}")))?;
    Ok(ids.into_iter().collect())
}

fn row(shared: &Shared, id: &MinionId, status: &'static str, left: Option<&Instant>) -> Map {
    let (now, up) = (shared.stores.rt.now(), status == "up");
    let last_seen = match left {
        _ if up => rfc3339(now),
        Some(left) => now.checked_sub(left.elapsed()).and_then(rfc3339),
        None => None,
    };
    let known = matches!(status, "up" | "down");
    // Of a minion whose key is not accepted the grains may be those of an earlier one.
    let grains = known.then(|| targeting::MinionData::grains(&*shared.stores, id.as_str())).flatten();
    let grain = |name: &str| grains.as_ref().and_then(|grains| grains.get_str(name)).map(str::to_owned);
    let os = match (grain("os"), grain("osrelease")) {
        (Some(os), Some(release)) => Some(format!("{os} {release}")),
        (os, _) => os,
    };
    let highstate = if known { shared.fleet_memory.highstates.of(id.as_str()) } else { None };
    map! {
        "id" => id.as_str(), "status" => status, "masters" => Vec::<Value>::new(), "last_seen" => last_seen,
        "version" => grain("saltversion"), "os" => os, "highstate" => highstate,
    }
}

/// Returns what is cached of a minion; nothing if the master does not keep it, as the old files may be.
///
/// # Errors
/// When it cannot be read.
pub fn cached(shared: &Shared, part: Part, id: &MinionId) -> Result<Map, Refused> {
    let (data, jobs) = (&shared.stores.data, &shared.stores.config.jobs);
    let known = match part {
        Part::Mine if jobs.minion_data_cache || jobs.enforce_mine_cache => data.mine(id),
        Part::Grains if jobs.minion_data_cache => data.grains(id),
        Part::Pillar if jobs.minion_data_cache => data.pillar(id),
        Part::Grains | Part::Pillar | Part::Mine => return Ok(Map::new()),
    };
    let known = known.map_err(|error| Refused::unreadable(&error))?;
    Ok(known.map(|known| (*known).clone()).unwrap_or_default())
}

/// Adds the names of the masters to which the minions of a page are connected.
pub async fn with_masters(shared: &Shared, mut page: Map) -> Value {
    let mut items = page.remove("items").and_then(Value::into_list).unwrap_or_default();
    for row in items.iter_mut().filter_map(Value::as_map_mut) {
        if row.get_str("status") != Some("up") {
            continue;
        }
        let masters = match (shared.sharing.get(), row.get_str("id")) {
            (Some(sharing), Some(id)) => sharing.ask(SetRequest::Who(id.to_owned())).await.unwrap_or_else(|reason| {
                tracing::debug!("the masters of a minion are not known: {reason}");
                Value::List(Vec::new())
            }),
            _ => Value::List(vec![shared.stores.config.id.as_str().into()]),
        };
        row.insert("masters", masters);
    }
    page.insert("items", items);
    page.into()
}
