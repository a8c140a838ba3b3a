//! Scheduled runners: the master's option `schedule`. Each run happens once, on this master.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use exec::Call;
use runners::{Kind, Request};
use schedule::{Facts, Fire, Moment, Schedule, Zone};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};
use value::{Map, Value, map};

use crate::Shared;
use crate::requests::functions;

/// The longest sleep; checking once a day does no harm.
const DAY: Duration = Duration::from_secs(86400);

/// The return code of a failed runner in Salt's scheduler.
const FAILED: i64 = 254;

/// The number of unfinished runs of each job.
type Running = Arc<Mutex<BTreeMap<String, usize>>>;

/// Runs what is due until told to stop.
pub async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let (rt, config) = (&shared.stores.rt, &shared.stores.config);
    // A simulation must not depend on the zone of the machine.
    let zone = if rt.is_simulated() { Zone::Utc } else { Zone::Machine };
    let begun = Instant::now();
    let moment = || Moment { wall: zone.wall(rt.now()), mono: begun.elapsed() };
    let window = config.jobs.loop_interval.max(Duration::from_secs(1));
    let options = Value::Map(config.jobs.schedule.clone());
    let mut schedule = match Schedule::new(&options, window, moment().wall.date()) {
        Ok(schedule) => schedule,
        Err(reason) => return error!("the option 'schedule' is not used: {reason}"),
    };
    let running = Running::default();
    loop {
        let wait = look(&shared, &mut schedule, moment(), &running);
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Starts what is due. Returns the time until something else is due.
fn look(shared: &Arc<Shared>, schedule: &mut Schedule, now: Moment, running: &Running) -> Duration {
    // Copied, so that starting a run can count it.
    let counts = running.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let pick = |low: i64, high: i64| {
        let bound = u64::try_from(high.saturating_sub(low)).unwrap_or(0).saturating_add(1);
        low.saturating_add(i64::try_from(shared.stores.rt.below(bound)).unwrap_or(0))
    };
    let facts = Facts { now, pick: &pick, running: &|name| counts.get(name).copied().unwrap_or(0) };
    for fire in schedule.due(&facts) {
        begin(shared, fire, running);
    }
    schedule.wake(now).unwrap_or(DAY).min(DAY)
}

/// Counts a run until it is dropped.
struct Counted(Running, String);

impl Counted {
    fn new(running: &Running, name: &str) -> Self {
        *running.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default() += 1;
        Counted(running.clone(), name.to_owned())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = running.get_mut(&self.1) {
            *count = count.saturating_sub(1);
        }
    }
}

fn begin(shared: &Arc<Shared>, fire: Fire, running: &Running) {
    if fire.data.get("dry_run").is_some_and(Value::truthy) {
        debug!("Job {} has 'dry_run' set to True. Not running it.", fire.name);
        return;
    }
    let Some(fun) = fire.fun.clone() else {
        return warn!("Invalid function: None in scheduled job {}.", fire.name);
    };
    let jid = shared.new_jid();
    info!("Running scheduled job: {} with jid {jid}", fire.name);
    let counted = Counted::new(running, &fire.name);
    let inside = shared.clone();
    shared.stores.rt.spawn(async move {
        let user = inside.users.master_user().to_owned();
        let request = Request::new(Kind::Runner, fun.as_str(), call_of(&fire.data), jid.to_string(), user);
        let outcome = runners::run(&functions::context(&inside), request).await;
        // Before the event: whoever sees it must not find the run among the unfinished ones.
        drop(counted);
        tell(&inside, &fire, &fun, outcome);
    });
}

/// Returns the arguments of a job.
fn call_of(data: &Map) -> Call {
    let args = data.get("args").and_then(Value::as_list).unwrap_or_default().to_vec();
    Call { args, kwargs: data.get("kwargs").and_then(Value::as_map).cloned().unwrap_or_default() }
}

/// Fires the result of a job on the master's bus.
fn tell(shared: &Shared, fire: &Fire, fun: &str, outcome: runners::Outcome) {
    let wanted = fire.data.get("return_job");
    if wanted.is_some_and(|wanted| !wanted.truthy()) {
        return;
    }
    let nocache = wanted.and_then(Value::as_str) == Some("nocache");
    let id = shared.stores.config.id.as_str();
    let mut fun_args = fire.data.get("args").and_then(Value::as_list).unwrap_or_default().to_vec();
    // As in Salt, the keyword arguments are one more positional one here.
    fun_args.extend(fire.data.get("kwargs").cloned());
    let mut load = map! {
        "cmd" => "_return", "id" => id, "fun" => fun, "fun_args" => fun_args,
        "schedule" => fire.data.get("name").cloned().unwrap_or_else(|| fire.name.as_str().into()),
        // As in Salt: `req` is a job that still needs an id, `nocache` one that is not to be stored.
        "jid" => if nocache { "nocache" } else { "req" }, "pid" => std::process::id(), "return" => outcome.ret,
        "success" => outcome.success,
    };
    if !outcome.success {
        load.insert("retcode", FAILED);
    }
    shared.fire("__schedule_return", load);
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn arguments_and_counts_are_those_of_the_job() {
        let call = call_of(&map! { "args" => list![1], "kwargs" => map! { "x" => 2 } });
        assert_eq!((call.args, call.kwargs), (vec![1.into()], map! { "x" => 2 }));
        let running = Running::default();
        let (one, two) = (Counted::new(&running, "a"), Counted::new(&running, "a"));
        drop(one);
        assert_eq!(running.lock().unwrap().get("a"), Some(&1));
        drop(two);
        assert_eq!(running.lock().unwrap().get("a"), Some(&0));
    }
}
