//! Scheduled runners: the master's option `schedule`. Each run happens once, on this master or on one of the set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use config::{Master, Once};
use exec::Call;
use keys::MasterKeyOptions;
use runners::{Kind, Request};
use schedule::{Facts, Fire, Moment, Schedule, Zone};
use share::duties::Occasion;
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

/// The longest name of a job that masters of a set name in messages to each other, in bytes. Jobs with longer ones run on each.
const LONGEST_NAME: usize = 200;

/// On which masters of a set a job runs: its option `on`.
#[derive(Debug, PartialEq, Eq)]
enum On {
    /// On one of those that have it.
    Any,
    /// On each.
    All,
    /// On the one with this name.
    Named(String),
    /// On none: the option is no text.
    Unreadable(String),
}

impl On {
    fn of(name: &str, data: &Map) -> On {
        // YAML reads an `on` without quotes as true.
        match data.get("on").or_else(|| data.get_value(&Value::Bool(true))) {
            _ if name.len() > LONGEST_NAME => On::All,
            None => On::Any,
            Some(Value::Str(master)) => match master.as_str() {
                "any" => On::Any,
                "all" => On::All,
                master => On::Named(master.to_owned()),
            },
            Some(other) => On::Unreadable(other.to_string()),
        }
    }
}

/// The entries of the option `schedule`.
fn entries(config: &Master) -> impl Iterator<Item = (&str, &Map)> {
    config.jobs.schedule.iter().filter_map(|(name, data)| Some((name.as_str()?, data.as_map()?)))
}

/// Returns what is wrong with the options `on` of the entries.
fn mistakes(config: &Master) -> Vec<String> {
    if config.cluster.is_none() {
        return Vec::new();
    }
    let mistake = |(name, data): (&str, &Map)| {
        // YAML reads `On` and `ON` as true as well, but not within quotes, and `oN` never.
        let misspelt = data.keys().filter_map(Value::as_str).find(|key| key.eq_ignore_ascii_case("on") && *key != "on");
        match (On::of(name, data), misspelt) {
            (On::Unreadable(found), _) => Some(format!(
                "the schedule entry {name} runs on no master: 'on' must be any, all or the name of one master, not {found}"
            )),
            (_, Some(key)) => {
                Some(format!("the schedule entry {name} has the option {key:?}, which has no effect: write on"))
            }
            _ => None,
        }
    };
    entries(config).filter_map(mistake).collect()
}

/// Returns where the entries run that members do not share with each other, for `saltern.leases`.
pub fn placed(config: &Master, is_member: impl Fn(&str) -> bool) -> Map {
    let options = MasterKeyOptions::from(config);
    let own = options.short_id();
    let place = |(name, data): (&str, &Map)| {
        let place = match On::of(name, data) {
            On::Any => return None,
            On::All => "on each master".to_owned(),
            On::Named(master) if master == own || is_member(&master) => format!("on {master}"),
            On::Named(master) => format!("on no master: no member is called {master}"),
            On::Unreadable(found) => format!("on no master: 'on' is {found}, which names none"),
        };
        Some((Value::from(name), Value::from(place)))
    };
    entries(config).filter_map(place).collect()
}

/// Returns the names of the jobs that one master of the set runs for all.
pub fn duties(config: &Master) -> Vec<String> {
    if config.cluster.as_ref().is_none_or(|cluster| cluster.once == Once::Off) {
        return Vec::new();
    }
    entries(config).filter(|(name, data)| On::of(name, data) == On::Any).map(|(name, _)| name.to_owned()).collect()
}

/// Returns the occasion for which the set is asked; `None` if this master runs the job without asking.
///
/// # Errors
/// The name of the master that runs it, if it is another one; `None` if none does.
fn occasion(config: &Master, fire: &Fire, now: SystemTime) -> Result<Option<Occasion>, Option<String>> {
    let Some(cluster) = &config.cluster else { return Ok(None) };
    match On::of(&fire.name, &fire.data) {
        On::Named(master) if master != MasterKeyOptions::from(config).short_id() => return Err(Some(master)),
        On::Unreadable(_) => return Err(None),
        On::Any if cluster.once != Once::Off => {}
        _ => return Ok(None),
    }
    let due = now.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(fire.late);
    Ok(Some(Occasion {
        duty: fire.name.clone(),
        // It is looked for a moment too late, or early if the clock was set.
        due: due.saturating_add(Duration::from_millis(500)).as_secs(),
        interval: schedule::interval_of(&fire.data).map(|every| every.as_millis() as u64),
        rerun: fire.data.get("rerun").is_some_and(Value::truthy),
    }))
}

/// The number of unfinished runs of each job.
type Running = Arc<Mutex<BTreeMap<String, usize>>>;

/// Runs what is due until told to stop.
pub async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let (rt, config) = (&shared.stores.rt, &shared.stores.config);
    // A simulation must not depend on the zone of the machine.
    let zone = if rt.is_simulated() { Zone::Utc } else { Zone::Machine };
    let begun = Instant::now();
    let moment = || Moment { wall: zone.wall(shared.now()), mono: begun.elapsed() };
    let window = config.jobs.loop_interval.max(Duration::from_secs(1));
    let options = Value::Map(config.jobs.schedule.clone());
    let mut schedule = match Schedule::new(&options, window, moment().wall.date()) {
        Ok(schedule) => schedule,
        Err(reason) => return error!("the option 'schedule' is not used: {reason}"),
    };
    for mistake in mistakes(config) {
        error!("{mistake}");
    }
    let running = Running::default();
    let mut unknown = BTreeSet::new();
    loop {
        let wait = look(&shared, &mut schedule, moment(), &running, &mut unknown);
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Starts what is due. Returns the time until something else is due. `unknown` has the names of masters that the log has called no
/// members, each with its entry.
fn look(
    shared: &Arc<Shared>,
    schedule: &mut Schedule,
    now: Moment,
    running: &Running,
    unknown: &mut BTreeSet<(String, String)>,
) -> Duration {
    // Copied, so that starting a run can count it.
    let counts = running.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let pick = |low: i64, high: i64| {
        let bound = u64::try_from(high.saturating_sub(low)).unwrap_or(0).saturating_add(1);
        low.saturating_add(i64::try_from(shared.stores.rt.below(bound)).unwrap_or(0))
    };
    let facts = Facts { now, pick: &pick, running: &|name| counts.get(name).copied().unwrap_or(0) };
    for fire in schedule.due(&facts) {
        if let Err(master) = begin(shared, &fire, running) {
            warn_if_unknown(shared, fire.name, master, unknown);
        }
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

/// Warns once that an entry names a master that is no member: it never runs. When it is due, and not at the start, because members may
/// not be known then.
fn warn_if_unknown(shared: &Shared, entry: String, master: String, unknown: &mut BTreeSet<(String, String)>) {
    let is_member = shared.others.get().is_none_or(|others| others.is_member(&master));
    if is_member || !unknown.insert((entry.clone(), master.clone())) {
        return debug!("Job {entry} is run by the master {master}.");
    }
    warn!("the schedule entry {entry} runs on no master: no member is called {master} (on: {master})");
}

/// Starts a run, if it is this master's.
///
/// # Errors
/// The name of the master that runs it, if it is another one.
fn begin(shared: &Arc<Shared>, fire: &Fire, running: &Running) -> Result<(), String> {
    if fire.data.get("dry_run").is_some_and(Value::truthy) {
        debug!("Job {} has 'dry_run' set to True. Not running it.", fire.name);
        return Ok(());
    }
    let Some(fun) = fire.fun.clone() else {
        warn!("Invalid function: None in scheduled job {}.", fire.name);
        return Ok(());
    };
    let occasion = match occasion(&shared.stores.config, fire, shared.now()) {
        Ok(occasion) => occasion,
        Err(Some(master)) => return Err(master),
        // An error at the start has said so.
        Err(None) => return Ok(()),
    };
    let (fire, running, inside) = (fire.clone(), running.clone(), shared.clone());
    // What the set is not asked for is counted at once.
    let counted = occasion.is_none().then(|| Counted::new(&running, &fire.name));
    shared.stores.rt.spawn(async move {
        let turn = match (occasion, inside.others.get()) {
            (Some(occasion), Some(others)) => match others.turn(occasion).await {
                Some(turn) => Some(turn),
                None => return debug!("Job {} is not run by this master.", fire.name),
            },
            _ => None,
        };
        let counted = counted.unwrap_or_else(|| Counted::new(&running, &fire.name));
        let jid = inside.new_jid();
        info!("Running scheduled job: {} with jid {jid}", fire.name);
        let user = inside.users.master_user().to_owned();
        let request = Request::new(Kind::Runner, fun.as_str(), call_of(&fire.data), jid.to_string(), user);
        let context = functions::context(&inside);
        let context = match &turn {
            Some(turn) => context.with_guard(turn.guard()),
            None => context,
        };
        let outcome = runners::run(&context, request).await;
        // Before the event: whoever sees it must not find the run among the unfinished ones.
        drop((counted, turn));
        tell(&inside, &fire, &fun, outcome);
    });
    Ok(())
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
        "jid" => if nocache { "nocache" } else { "req" }, "pid" => shared.stores.rt.process_id(), "return" => outcome.ret,
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

    fn config(more: Map) -> Master {
        let mut all = map! { "id" => "m1_master", "root_dir" => "/tmp/x", "cluster_id" => "prod" };
        all.update(more);
        Master::from_options(all).unwrap()
    }

    #[test]
    fn a_job_names_the_masters_of_the_set_on_which_it_runs() {
        let mut bare = Map::new();
        bare.insert(true, "all");
        assert_eq!(On::of("a", &bare), On::All, "as YAML reads it without quotes");
        assert_eq!([On::of("a", &Map::new()), On::of("a", &map! { "on" => "any" })], [On::Any, On::Any]);
        assert_eq!(On::of("a", &map! { "on" => "m2" }), On::Named("m2".into()));
        assert_eq!(On::of(&"x".repeat(201), &Map::new()), On::All);
        let jobs = map! { "a" => map! { "seconds" => 5 }, "b" => map! { "on" => "all" }, "c" => map! { "on" => "m1" } };
        let with = |once: &str| config(map! { "schedule" => jobs.clone(), "cluster_once" => once });
        assert_eq!((duties(&with("auto")), duties(&with("off"))), (vec!["a".to_owned()], vec![]));
    }

    #[test]
    fn an_entry_that_runs_nowhere_is_reported() {
        let mut quoted = map! { "seconds" => 5 };
        quoted.insert("On", "all");
        let jobs = map! {
            "a" => map! { "on" => list!["c1", "c2"] }, "b" => map! { "on" => "nosuch" }, "c" => map! { "on" => "m2" },
            "d" => map! { "on" => "all" }, "e" => quoted, "f" => map! { "on" => "m1" },
        };
        let config = config(map! { "schedule" => jobs });
        let mistakes = mistakes(&config);
        assert_eq!(mistakes.len(), 2, "{mistakes:?}");
        assert!(mistakes[0].contains("entry a runs on no master") && mistakes[0].contains("c1"), "{mistakes:?}");
        assert!(mistakes[1].contains("entry e has the option \"On\""), "{mistakes:?}");
        let placed = placed(&config, |name| name == "m2");
        let place = |name: &str| placed.get_str(name).unwrap_or_default();
        assert!(place("a").starts_with("on no master: 'on' is") && place("b").contains("no member is called nosuch"));
        assert_eq!(["c", "d", "e", "f"].map(place), ["on m2", "on each master", "", "on m1"]);
    }

    #[test]
    fn an_occasion_is_the_second_at_which_a_job_was_due() {
        let config = config(map! {});
        let fire = |data: Map, late: u64| Fire { name: "a".into(), fun: None, data, late: Duration::from_millis(late) };
        let now = UNIX_EPOCH + Duration::from_millis(100_020);
        let of = |data: Map, late: u64| occasion(&config, &fire(data, late), now);
        let cron = of(map! { "cron" => "* * * * *" }, 30).unwrap().unwrap();
        assert_eq!((cron.due, cron.interval, cron.rerun), (100, None, false));
        let every = of(map! { "minutes" => 2, "rerun" => true }, 0).unwrap().unwrap();
        assert_eq!((every.interval, every.rerun), (Some(120_000), true));
        assert_eq!(of(map! { "on" => "all" }, 0), Ok(None));
        assert_eq!([of(map! { "on" => "m1" }, 0), of(map! { "on" => "m2" }, 0)], [Ok(None), Err(Some("m2".into()))]);
        assert_eq!(of(map! { "on" => list!["m1", "m2"] }, 0), Err(None));
        let alone = Master::from_options(map! { "id" => "m1_master" }).unwrap();
        assert_eq!(occasion(&alone, &fire(Map::new(), 0), now), Ok(None));
    }

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
