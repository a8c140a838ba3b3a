//! `saltern` — what only this program has: its masters, one by one.

use std::time::{SystemTime, UNIX_EPOCH};

use exec::{Context, MasterStatus, Module, Result, function};
use value::{Map, Value, map};

use crate::status::iso;

/// The execution module `saltern`.
pub static MODULE: Module = Module::new("saltern", "The masters of this minion.", &[&MASTERS]);

/// Returns the state of each master of this minion, by address as configured: its id (if known), its role (`hot`,
/// `active`, `standby`, `preferred`), the state of the connection (`resolving`, `connecting`, `pending`, `live`,
/// `backoff`, `idle`, `refused`) and its start, the time of the last message, the response time in milliseconds, the
/// fingerprint of its key, the number of jobs it has sent since the minion started, and the number of returns that wait
/// to be delivered to it. `asking` is the master that sent this job. Times are in UTC.
///
/// A call of `salt-call` returns the state of the running minion, if one runs; no master needs to answer then.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltern.masters
#[function]
fn masters(ctx: &Context) -> Result<Map> {
    Ok(ctx.agent.masters().into_iter().map(|status| (status.address.clone(), entry(&status))).collect())
}

fn entry(status: &MasterStatus) -> Map {
    map! {
        "id" => status.id.clone(),
        "ip" => status.ip.map(|ip| ip.to_string()),
        "role" => status.role.word(),
        "state" => status.state.word(),
        "since" => iso_time(status.since),
        "last_heard" => status.last_heard.map(iso_time),
        // Hundredths of a millisecond: finer numbers are noise.
        "round_trip_ms" => status.round_trip.map(|time| (time.as_secs_f64() * 1e5).round() / 100.0),
        "key" => status.fingerprint.clone(),
        "jobs" => status.jobs,
        "returns_waiting" => status.returns_waiting as u64,
        "asking" => status.asking,
    }
}

fn iso_time(time: SystemTime) -> Value {
    // A clock before 1970 must not fail the call.
    iso(time.duration_since(UNIX_EPOCH).unwrap_or_default()).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use exec::testing::{FakeAgent, context};
    use exec::{MasterRole, MasterState};

    #[test]
    fn each_master_is_told_of_by_its_address() {
        let status = MasterStatus {
            address: "a:4506".to_owned(),
            id: Some("a_master".to_owned()),
            role: MasterRole::Active,
            host: "a".to_owned(),
            ip: Some("10.0.0.1".parse().unwrap()),
            state: MasterState::Live,
            since: UNIX_EPOCH + Duration::from_secs(951_782_400),
            last_heard: None,
            round_trip: Some(Duration::from_micros(1_234)),
            fingerprint: Some("aa:bb".to_owned()),
            jobs: 3,
            returns_waiting: 1,
            asking: true,
        };
        let (ctx, _) = context(&[&MODULE], map! {}, map! {}, map! {});
        let agent = Arc::new(FakeAgent { masters: vec![status], ..FakeAgent::default() });
        let told = masters(&Context { agent, ..ctx }).unwrap();
        let expected = map! {
            "id" => "a_master", "ip" => "10.0.0.1", "role" => "active", "state" => "live",
            "since" => "2000-02-29T00:00:00", "last_heard" => Value::Null, "round_trip_ms" => 1.23, "key" => "aa:bb",
            "jobs" => 3, "returns_waiting" => 1, "asking" => true,
        };
        assert_eq!(told, map! { "a:4506" => expected });
    }
}
