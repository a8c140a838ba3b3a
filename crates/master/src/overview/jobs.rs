//! Pages of jobs and of their returns.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use store::jobs::JobReturn;
use targeting::fnmatch;
use value::{Map, Value, map};
use wire::{Jid, MinionId};

use super::question::{JobFilter, ReturnFilter};
use super::tally;
use super::{Refused, page as in_page, rfc3339};
use crate::Shared;
use crate::fleet_memory::Tally;
use crate::set_requests::times;

/// The most jobs that are looked at for a page, the most ids of jobs that are gone, and the most returns of jobs that are counted for
/// the first time. A page ends there, with the cursor of the next one.
const MOST_LOOKS: usize = 2000;
const MOST_GONE: usize = 50_000;
const MOST_RETURNS: usize = 10_000;

/// The most returns of a job without a list of minions that are shown.
const MOST_UNLISTED: usize = 16;

/// The most bytes of returns in a page.
const MOST_BYTES: u64 = 8 << 20;

/// The most bytes of a text, and of other data, that is shown in brief.
const MOST_TEXT: usize = 256 << 10;
const MOST_DATA: u64 = 2 << 20;

/// How old a job is that is missing in the job cache for good: a new one may be stored in the next moment.
const STORED: Duration = Duration::from_secs(60);

/// Returns a page of jobs, the latest first.
///
/// # Errors
/// When the job cache cannot be read.
pub fn page(shared: &Shared, filter: &JobFilter) -> Result<Map, Refused> {
    let index = &shared.fleet_memory.index;
    let (mut items, mut looks, mut gone, mut returns) = (Vec::new(), 0, 0, 0);
    // Ids sort by time, so what is too late or too early need not be read.
    let mut cursor = match (&filter.before, filter.until.and_then(first_of)) {
        (Some(before), Some(until)) => Some(before.as_str().min(&until).to_owned()),
        (before, until) => before.clone().or(until),
    };
    let earliest = filter.since.and_then(first_of).unwrap_or_default();
    loop {
        let chunk = index.before(cursor.as_deref(), 64);
        if chunk.is_empty() {
            return Ok(in_page(items, None));
        }
        for jid in chunk {
            if *jid < *earliest {
                return Ok(in_page(items, None));
            }
            if items.len() >= filter.limit || looks >= MOST_LOOKS || gone >= MOST_GONE || returns >= MOST_RETURNS {
                return Ok(in_page(items, cursor));
            }
            let load = load(shared, &jid)?;
            // Ids that are nothing must not empty the page.
            *(if load.is_some() { &mut looks } else { &mut gone }) += 1;
            match load {
                Some(load) if filter.wants(&load) => {
                    let (head, looked) = head(shared, &jid, load)?;
                    returns += looked;
                    if filter.state.as_deref().is_none_or(|state| head.get_str("state") == Some(state)) {
                        items.push(head);
                    }
                }
                Some(_) => {}
                None if is_old(&jid, shared.stores.rt.now()) => index.remove(&jid),
                None => {}
            }
            cursor = Some(jid.into());
        }
    }
}

/// Returns the least job id of a time.
fn first_of(milliseconds: u64) -> Option<String> {
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds))?;
    Some(Jid::at(time).to_string())
}

fn is_old(jid: &str, now: SystemTime) -> bool {
    let began = Jid::new(jid).ok().and_then(|jid| jid.time());
    began.is_none_or(|began| now.duration_since(began).is_ok_and(|age| age > STORED))
}

fn load(shared: &Shared, jid: &str) -> Result<Option<Map>, Refused> {
    shared.stores.jobs.head(jid).map_err(|error| Refused::unreadable(&error))
}

impl JobFilter {
    fn wants(&self, load: &Map) -> bool {
        let fits = |pattern: &Option<String>, value: Option<&Value>| match (pattern, value) {
            (None, _) => true,
            (Some(pattern), Some(Value::List(items))) => {
                items.iter().any(|item| fnmatch(&item.to_string(), pattern))
                    || fnmatch(&items.iter().map(Value::to_string).collect::<Vec<_>>().join(","), pattern)
            }
            (Some(pattern), Some(value)) => fnmatch(&value.to_string(), pattern),
            (Some(_), None) => false,
        };
        let user = self.user.as_deref();
        fits(&self.fun, load.get("fun"))
            && fits(&self.tgt, load.get("tgt"))
            && user.is_none_or(|user| load.get_str("user") == Some(user))
            && self.minion.as_deref().is_none_or(|minion| {
                let ids = load.get("Minions").and_then(Value::as_list).unwrap_or_default();
                ids.iter().any(|id| id.as_str() == Some(minion))
            })
    }
}

/// Returns the head of a job.
///
/// # Errors
/// When there is no such job, or the job cache cannot be read.
pub fn one(shared: &Shared, jid: &Jid) -> Result<Map, Refused> {
    let load = load(shared, jid.as_str())?.ok_or_else(|| unknown(jid))?;
    head(shared, jid.as_str(), load).map(|(head, _)| head)
}

/// Returns the minions of a job that have not returned: those that run it or may still begin, and those of which nothing is known.
///
/// # Errors
/// As [`one`].
pub fn unfinished(shared: &Shared, jid: &Jid) -> Result<Map, Refused> {
    let mut load = load(shared, jid.as_str())?.ok_or_else(|| unknown(jid))?;
    let expected = expected(shared, jid.as_str(), &mut load)?;
    let (tally, _) = tally::count(shared, jid.as_str(), expected)?;
    let running = tally::running(shared, jid.as_str(), &tally);
    let silent: Vec<&str> =
        tally.missing.iter().map(String::as_str).filter(|id| running.binary_search(id).is_err()).collect();
    Ok(map! { "running" => running, "silent" => silent })
}

fn unknown(jid: &Jid) -> Refused {
    Refused::new(404, format!("The job {jid} is not in the job cache"))
}

/// Returns who is to return. Of runners and wheel functions the job cache has no list: it is whoever has returned.
fn expected(shared: &Shared, jid: &str, load: &mut Map) -> Result<Vec<String>, Refused> {
    let ids = load.remove("Minions").and_then(Value::into_list).unwrap_or_default();
    let ids: Vec<String> = ids.into_iter().filter_map(Value::into_string).collect();
    let (jobs, failed) = (&shared.stores.jobs, |error: store::Error| Refused::unreadable(&error));
    if !ids.is_empty() {
        return Ok(ids);
    }
    let returned = jobs.returned(jid).map_err(failed)?;
    Ok(if returned.len() > MOST_UNLISTED { ids } else { returned })
}

/// Describes a job. Also returns how many returns were looked for.
fn head(shared: &Shared, jid: &str, mut load: Map) -> Result<(Map, usize), Refused> {
    let expected = expected(shared, jid, &mut load)?;
    let (tally, looks) = tally::count(shared, jid, expected)?;
    let counts = tally::counts(shared, jid, &tally);
    let state = counts.state();
    let end = if state == "running" { None } else { ended(shared, jid, &tally) };
    let take = |name: &str, default: Value| load.get(name).cloned().unwrap_or(default);
    let head = map! {
        "jid" => jid, "fun" => take("fun", Value::Null), "arg" => take("arg", Value::List(Vec::new())),
        "tgt" => take("tgt", Value::Null), "tgt_type" => load.get_str("tgt_type").unwrap_or("glob"),
        "user" => load.get_str("user").unwrap_or_default(),
        "start" => Jid::new(jid).ok().and_then(|jid| jid.time()).and_then(rfc3339),
        "end" => end, "state" => state, "counts" => counts.to_map(),
    };
    Ok((head, looks))
}

/// Returns when the last return came: it was heard, or the job cache knows it (`job_cache_store_endtime`).
fn ended(shared: &Shared, jid: &str, tally: &Tally) -> Option<String> {
    if let Some(heard) = tally.heard {
        return rfc3339(heard);
    }
    let text = shared.stores.jobs.end_time(jid).ok().flatten()?;
    let milliseconds = times::since(&text.into(), shared.stores.rt.now()).ok()?;
    rfc3339(UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds))?)
}

/// Returns a page of the returns of a job, in the order of the minions' ids.
///
/// # Errors
/// When there is no such job, or the job cache cannot be read.
pub fn returns(shared: &Shared, filter: &ReturnFilter) -> Result<Map, Refused> {
    let jid = filter.jid.as_str();
    let mut load = load(shared, jid)?.ok_or_else(|| unknown(&filter.jid))?;
    let mut ids = expected(shared, jid, &mut load)?;
    ids.sort_unstable();
    let first = filter.after.as_ref().map_or(0, |after| ids.partition_point(|id| id <= after));
    let (mut items, mut bytes, mut cursor): (Vec<Map>, u64, Option<String>) = (Vec::new(), 0, None);
    for id in ids.drain(first..) {
        if items.len() >= filter.limit || bytes >= MOST_BYTES {
            return Ok(in_page(items, cursor));
        }
        let before = cursor.replace(id.clone());
        let Ok(minion) = MinionId::new(id.as_str()) else { continue };
        let returned = shared.stores.jobs.return_of(jid, &minion).map_err(|error| Refused::unreadable(&error))?;
        let Some(mut returned) = returned.filter(|returned| !filter.failed || tally::has_failed(returned)) else {
            continue;
        };
        let cut = if filter.brief { cut(&mut returned.value) } else { None };
        bytes += crate::bounds::size(&returned.value);
        // One alone may be larger.
        if bytes > MOST_BYTES && !items.is_empty() {
            return Ok(in_page(items, before));
        }
        items.push(row(id, returned, cut));
    }
    Ok(in_page(items, None))
}

fn row(id: String, returned: JobReturn, cut: Option<u64>) -> Map {
    let failed = tally::has_failed(&returned);
    map! {
        "id" => id, "return" => returned.value, "retcode" => returned.retcode.unwrap_or_default(), "success" => !failed,
        "out" => returned.out.and_then(Value::into_string), "size" => cut,
    }
}

/// Cuts a large return, and returns its size. Data becomes text by that.
fn cut(value: &mut Value) -> Option<u64> {
    let size = crate::bounds::size(value);
    let text = match &mut *value {
        Value::Str(text) if text.len() > MOST_TEXT => std::mem::take(text),
        Value::Str(_) => return None,
        data if size > MOST_DATA => data.to_string(),
        _ => return None,
    };
    *value = text[..text.floor_char_boundary(MOST_TEXT)].into();
    Some(size)
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn filters_are_globs_over_functions_and_targets() {
        let load = map! {
            "fun" => list!["test.ping", "pkg.list"], "tgt" => "web*", "user" => "fred", "Minions" => list!["web1"],
        };
        let wants = |change: fn(&mut JobFilter)| {
            let mut filter = JobFilter::default();
            change(&mut filter);
            filter.wants(&load)
        };
        assert!(wants(|_| {}));
        assert!(wants(|filter| filter.fun = Some("pkg.*".into())));
        assert!(wants(|filter| filter.fun = Some("test.ping,pkg.list".into())));
        assert!(!wants(|filter| filter.fun = Some("pkg".into())));
        assert!(wants(|filter| filter.tgt = Some("web[*]".into())));
        assert!(!wants(|filter| filter.tgt = Some("db*".into())));
        assert!(wants(|filter| filter.user = Some("fred".into())));
        assert!(!wants(|filter| filter.user = Some("fre".into())));
        assert!(wants(|filter| filter.minion = Some("web1".into())));
        assert!(!wants(|filter| filter.minion = Some("web".into())));
    }

    #[test]
    fn large_returns_are_cut() {
        let cut_of = |mut value: Value| (cut(&mut value), value);
        let whole: Value = "é".repeat(MOST_TEXT / 2).into();
        assert_eq!(cut_of(whole.clone()), (None, whole));
        let (size, text) = cut_of(format!("a{}", "é".repeat(MOST_TEXT)).into());
        assert_eq!((size, text.as_str().map(str::len)), (Some(2 * MOST_TEXT as u64 + 6), Some(MOST_TEXT - 1)));
        let states: Value = vec!["x".repeat(MOST_TEXT); 4].into();
        assert_eq!(cut_of(states.clone()), (None, states), "the results of states are shown one by one");
        let (size, text) = cut_of(vec!["x".repeat(MOST_TEXT); 9].into());
        assert!(size.is_some_and(|size| size > MOST_DATA) && text.as_str().is_some_and(|text| text.len() == MOST_TEXT));
    }

    #[test]
    fn a_time_is_the_first_id_of_its_moment() {
        let first = first_of(1_793_750_400_000).unwrap();
        assert!(Jid::is_valid(&first) && first.ends_with("000000"), "{first}");
    }

    #[test]
    fn a_new_job_may_not_be_stored_yet() {
        let now = SystemTime::now();
        assert!(!is_old(Jid::at(now).as_str(), now));
        assert!(is_old(Jid::at(now - 2 * STORED).as_str(), now));
    }
}
