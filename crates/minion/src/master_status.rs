//! Lets `salt-call` ask the running minion about its masters, over the minion's event bus.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use event::{Filter, Remote};
use exec::{MasterRole, MasterState, MasterStatus};
use rt::Rt;
use tracing::debug;
use value::{Map, Value, map};

use crate::bus;

/// The tag of the request. Its data contain the tag of the answer.
pub const ASK: &str = "saltern/masters/ask";

/// The beginning of the answer's tag.
const ANSWER: &str = "saltern/masters/answer";

/// How long a call waits for the answer. A running minion answers at once unless the host is busy; one that hangs must
/// not delay the call.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the running minion with these options about its masters; `None` if it does not answer.
pub async fn ask(rt: &Rt, config: &config::Minion) -> Option<Vec<MasterStatus>> {
    match tokio::time::timeout(PATIENCE, ask_patiently(rt, config)).await {
        Ok(Ok(known)) => Some(known),
        Ok(Err(reason)) => {
            debug!("the minion was not asked for its masters: {reason}");
            None
        }
        Err(_) => {
            debug!("the minion did not tell its masters in time");
            None
        }
    }
}

async fn ask_patiently(rt: &Rt, config: &config::Minion) -> Result<Vec<MasterStatus>, event::RemoteError> {
    let mut remote = Remote::new(rt.clone(), bus::endpoints(config));
    // A tag of its own, so that two calls at the same time do not take each other's answer.
    let tag = format!("{ANSWER}/{}", rt.nonce());
    let mut answers = remote.listen(Filter::prefix(&tag)).await?;
    remote.fire(ASK, map! { "answer" => tag.as_str() }).await?;
    let answer = answers.next().await?;
    let known = answer.data().get("masters").and_then(Value::as_list).unwrap_or_default();
    Ok(known.iter().filter_map(Value::as_map).filter_map(from_map).collect())
}

/// Returns the answer to a question: its tag and data. `None` if the request asks for an answer with a tag of another
/// kind.
pub fn answer(question: &Map, known: &[MasterStatus]) -> Option<(String, Map)> {
    // Any program may put a tag there; the minion must not fire, say, `fire_master` for it.
    let tag = question.get_str("answer").filter(|tag| tag.starts_with(ANSWER))?;
    let masters: Vec<Value> = known.iter().map(|status| to_map(status).into()).collect();
    Some((tag.to_owned(), map! { "masters" => masters }))
}

fn to_map(status: &MasterStatus) -> Map {
    map! {
        "address" => status.address.as_str(),
        "id" => status.id.clone(),
        "role" => status.role.word(),
        "host" => status.host.as_str(),
        "ip" => status.ip.map(|ip| ip.to_string()),
        "state" => status.state.word(),
        "since" => seconds(status.since),
        "last_heard" => status.last_heard.map(seconds),
        "round_trip" => status.round_trip.map(|time| time.as_secs_f64()),
        "fingerprint" => status.fingerprint.clone(),
        "jobs" => status.jobs,
        "returns_waiting" => status.returns_waiting as u64,
    }
}

/// Parses a status; `None` if it is malformed.
fn from_map(map: &Map) -> Option<MasterStatus> {
    let text = |name: &str| map.get_str(name).map(str::to_owned);
    let number = |name: &str| map.get(name).and_then(Value::as_f64);
    let count = |name: &str| map.get(name).and_then(Value::as_i64).and_then(|count| u64::try_from(count).ok());
    Some(MasterStatus {
        address: text("address")?,
        id: text("id"),
        role: MasterRole::ALL.into_iter().find(|role| map.get_str("role") == Some(role.word()))?,
        host: text("host")?,
        ip: map.get_str("ip").and_then(|ip| ip.parse().ok()),
        state: MasterState::ALL.into_iter().find(|state| map.get_str("state") == Some(state.word()))?,
        since: time(number("since")?),
        last_heard: number("last_heard").map(time),
        round_trip: number("round_trip").and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        fingerprint: text("fingerprint"),
        jobs: count("jobs").unwrap_or_default(),
        returns_waiting: count("returns_waiting").and_then(|count| count.try_into().ok()).unwrap_or_default(),
        asking: false,
    })
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn time(seconds: f64) -> SystemTime {
    let since = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn what_is_told_is_understood() {
        let status = MasterStatus {
            address: "a:4506".to_owned(),
            id: Some("a_master".to_owned()),
            role: MasterRole::Standby,
            host: "a".to_owned(),
            ip: Some("::1".parse().unwrap()),
            state: MasterState::Idle,
            since: UNIX_EPOCH + Duration::from_secs(9),
            last_heard: None,
            round_trip: Some(Duration::from_millis(250)),
            fingerprint: None,
            jobs: 7,
            returns_waiting: 2,
            asking: false,
        };
        let tag = format!("{ANSWER}/1");
        let (said, data) = answer(&map! { "answer" => tag.as_str() }, std::slice::from_ref(&status)).unwrap();
        assert_eq!(said, tag);
        let understood = from_map(data.get("masters").unwrap().as_list().unwrap()[0].as_map().unwrap());
        assert_eq!(format!("{:?}", understood.unwrap()), format!("{status:?}"));
        // Whoever asks names the tag of the answer, which must not forge another event.
        assert!(answer(&map! { "answer" => "salt/job/1/ret/x" }, &[]).is_none());
        assert!(from_map(&map! { "address" => list![1] }).is_none());
    }
}
