//! Data that returners store for a master in addition to its own job cache: events (`event_return`), publications
//! (`ext_job_cache`), and both publications and returns (`master_job_cache`).
//!
//! Nothing in the master waits for their servers. Items that cannot be stored there are logged. Except for events and
//! the returns of an `ext_job_cache`, they are in the job cache on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use config::Master;
use event::{Bus, Event, Filter, Source};
use returners::{Returner, World};
use rt::Rt;
use targeting::fnmatch;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use value::{Map, Value, map};

/// The names of the built-in job caches.
const OWN: [&str; 2] = [store::jobs::FILES, store::jobs::EMBEDDED];

/// The largest number of publications and returns that wait for a slow server.
const QUEUE: usize = 4096;

/// The largest number of gathered events, whatever `event_return_queue` says.
const MOST_EVENTS: usize = 100_000;

/// Queues publications and returns for other job caches.
pub struct ReturnerQueue {
    queue: Option<mpsc::Sender<Item>>,
    /// The queue is full; logged once.
    full: AtomicBool,
}

enum Item {
    Load(String, Map),
    Return(Map),
}

/// The returners of a master, ready to start.
pub struct ReturnerTask {
    world: World,
    /// The returner of `ext_job_cache`. It gets only publications: minions store their returns there themselves.
    external: Option<&'static dyn Returner>,
    /// The returner of `master_job_cache`.
    jobs: Option<&'static dyn Returner>,
    items: mpsc::Receiver<Item>,
}

impl ReturnerQueue {
    /// Reads the options. A returner that is missing, or stores no jobs, is logged and ignored.
    pub fn new(config: &Master, rt: &Rt) -> (Self, Option<ReturnerTask>) {
        let world = World::of_master(rt.clone(), config.raw.clone());
        let external = job_cache(&world, "external", &config.jobs.ext_job_cache);
        let jobs = job_cache(&world, "master", &config.jobs.master_job_cache);
        if external.is_none() && jobs.is_none() {
            return (ReturnerQueue { queue: None, full: AtomicBool::new(false) }, None);
        }
        let (queue, items) = mpsc::channel(QUEUE);
        let stores = ReturnerTask { world, external, jobs, items };
        (ReturnerQueue { queue: Some(queue), full: AtomicBool::new(false) }, Some(stores))
    }

    /// Queues the publication of a job.
    pub fn published(&self, jid: &str, load: &Map) {
        self.put(|| Item::Load(jid.to_owned(), load.clone()));
    }

    /// Queues a new return.
    pub fn returned(&self, load: &Map) {
        self.put(|| Item::Return(load.clone()));
    }

    fn put(&self, item: impl FnOnce() -> Item) {
        let Some(queue) = &self.queue else { return };
        // Reserved first: without a place, the load need not be copied.
        match queue.try_reserve() {
            Ok(place) => {
                place.send(item());
                self.full.store(false, Ordering::Relaxed);
            }
            // Already logged.
            Err(_) if self.full.swap(true, Ordering::Relaxed) => {}
            Err(_) => error!("the external job cache is too slow: jobs and returns are not stored there"),
        }
    }
}

fn job_cache(world: &World, which: &str, name: &str) -> Option<&'static dyn Returner> {
    if name.is_empty() || OWN.contains(&name) {
        return None;
    }
    match returners::find(world, name) {
        Ok(returner) if returner.jobs().is_some() => Some(returner),
        Ok(_) => {
            error!(
                "The specified returner used for the {which} job cache \"{name}\" does not have a save_load function!"
            );
            None
        }
        Err(error) => {
            error!("the {which} job cache \"{name}\" cannot be used: {error}");
            None
        }
    }
}

impl ReturnerTask {
    /// Stores items in their order, and removes old jobs, until told to stop; then stores the rest.
    pub async fn run(mut self, every: Duration, stop: CancellationToken) {
        // Cleaning asks a server, which a short `loop_interval` should not do every second.
        let mut tick = tokio::time::interval(every.max(Duration::from_secs(60)));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                item = self.items.recv() => match item {
                    Some(item) => self.store(item).await,
                    None => return,
                },
                _ = tick.tick() => self.clean().await,
            }
        }
        while let Ok(item) = self.items.try_recv() {
            self.store(item).await;
        }
    }

    async fn store(&self, item: Item) {
        let world = &self.world;
        match item {
            Item::Load(jid, load) => {
                for store in [self.external, self.jobs].into_iter().flatten().filter_map(Returner::jobs) {
                    if let Err(error) = store.save_load(world, &jid, &load).await {
                        error!("the publication of job {jid} was not stored: {error}");
                    }
                }
            }
            Item::Return(load) => {
                let Some(returner) = self.jobs else { return };
                if let Err(error) = returner.give(world, &load).await {
                    let jid = load.get_str("jid").unwrap_or_default();
                    error!("a return of job {jid} was not stored with {}: {error}", returner.name());
                }
            }
        }
    }

    async fn clean(&self) {
        for store in [self.external, self.jobs].into_iter().flatten().filter_map(Returner::jobs) {
            if let Err(error) = store.clean(&self.world).await {
                warn!("old jobs were not forgotten: {error}");
            }
        }
    }
}

/// Stores the events of the bus with the returners of `event_return`, until told to stop.
pub async fn keep_events(bus: Bus, config: Arc<Master>, rt: Rt, stop: CancellationToken) {
    let events = &config.events;
    let world = World::of_master(rt, config.raw.clone());
    let stores: Vec<&'static dyn Returner> =
        events.event_return.iter().filter_map(|name| event_store(&world, name)).collect();
    if stores.is_empty() {
        return;
    }
    let most = events.event_return_queue.clamp(1, MOST_EVENTS);
    // How long events may wait even if the queue is not full; 0 is for ever.
    let age = config.raw.get("event_return_queue_max_seconds").and_then(Value::as_i64).unwrap_or(0);
    let age = u64::try_from(age).ok().filter(|age| *age > 0).map(Duration::from_secs);
    let mut reader = bus.subscribe(Filter::all());
    let mut waiting: Vec<Value> = Vec::new();
    let mut due: Option<Instant> = None;
    loop {
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            event = reader.next() => event,
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                flush(&world, &stores, &mut waiting).await;
                due = None;
                continue;
            }
        };
        let Some(event) = next else { break };
        // The master on which it was born stores it.
        let is_own = *event.source() != Source::OtherMaster;
        if is_own && is_stored(event.tag(), &events.event_return_whitelist, &events.event_return_blacklist) {
            waiting.push(as_value(&event));
            // The age of the oldest event counts.
            due = due.or_else(|| age.map(|age| Instant::now() + age));
        }
        if waiting.len() >= most {
            flush(&world, &stores, &mut waiting).await;
            due = None;
        }
        let lost = reader.take_lost();
        if lost > 0 {
            warn!("{lost} events were not stored: the returners of event_return are too slow");
        }
    }
    // When the master stops, these are the last events.
    flush(&world, &stores, &mut waiting).await;
}

fn event_store(world: &World, name: &str) -> Option<&'static dyn Returner> {
    let found = returners::find(world, name).ok().filter(|returner| returner.events(world, &[]).is_some());
    if found.is_none() {
        error!(
            "EventReturn: the following configured event_return returner(s) were not found and events will NOT be \
             stored: ['{name}']."
        );
    }
    found
}

fn as_value(event: &Event) -> Value {
    map! { "data" => event.data().clone(), "tag" => event.tag() }.into()
}

/// Returns whether to store events with a tag.
fn is_stored(tag: &str, allow: &[String], deny: &[String]) -> bool {
    let on = |list: &[String]| list.iter().any(|glob| fnmatch(tag, glob));
    (allow.is_empty() || on(allow)) && !on(deny)
}

async fn flush(world: &World, stores: &[&'static dyn Returner], waiting: &mut Vec<Value>) {
    if waiting.is_empty() {
        return;
    }
    for store in stores {
        let Some(storing) = store.events(world, waiting) else { continue };
        if let Err(error) = storing.await {
            error!("Could not store events - returner '{}.event_return' raised exception: {error}", store.name());
        }
    }
    // Even after a failure: a server that is away would otherwise make the list grow without end.
    waiting.clear();
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn tags_are_wanted_or_not() {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert!(is_stored("salt/auth", &[], &[]));
        assert!(is_stored("salt/job/1/new", &list(&["salt/job/*"]), &[]));
        assert!(!is_stored("salt/auth", &list(&["salt/job/*"]), &[]));
        assert!(!is_stored("salt/job/1/ret/a", &list(&["salt/job/*"]), &list(&["*/ret/*"])));
    }

    async fn stored(options: Map, events: usize) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("events");
        let mut all = map! { "event_return" => "rawfile_json", "rawfile_json.filename" => file.to_str().unwrap() };
        all.update(options);
        let config = Arc::new(Master::from_options(all).unwrap());
        let (rt, stop) = (Rt::real(), CancellationToken::new());
        let bus = Bus::new(rt.clone(), 1 << 20);
        let keeping = tokio::spawn(keep_events(bus.clone(), config, rt, stop.clone()));
        // Events before the subscription are rightly missing.
        while bus.subscribers() == 0 {
            tokio::task::yield_now().await;
        }
        for number in 0..events {
            bus.fire(format!("a/{number}"), map! { "n" => number }).unwrap();
        }
        while events > 0 && !file.exists() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        keeping.await.unwrap();
        std::fs::read_to_string(&file).unwrap()
    }

    #[tokio::test]
    async fn events_are_stored_when_enough_of_them_wait_and_at_the_end() {
        let text = stored(map! { "event_return_queue" => 2, "event_return_blacklist" => list!["a/0"] }, 3).await;
        let tags: Vec<&str> = text.lines().map(|line| line.rsplit('"').nth(1).unwrap()).collect();
        assert_eq!(tags, ["a/1", "a/2"]);
        assert!(text.contains("\"n\": 1, \"_stamp\": "), "{text}");
    }

    #[test]
    fn job_caches_that_keep_no_jobs_are_passed_over() {
        let of = |name: &str| {
            let config = Master::from_options(map! { "master_job_cache" => name }).unwrap();
            ReturnerQueue::new(&config, &Rt::real()).1.is_some()
        };
        assert_eq!([of("local_cache"), of("syslog"), of("mysql"), of("pgjsonb")], [false, false, false, true]);
    }
}
