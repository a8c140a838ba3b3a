//! Events of masters that share: a program beside each of them fires some, and hears those of all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Endpoints, Filter, Listening, Remote};
use rt::Rt;
use rt::sim::Sim;
use tokio::time::{Instant, sleep, timeout_at};
use value::{Value, map};

use crate::ledger::{LINKED, Ledger, RECOVERY};

/// The tag of all of them.
const TAG: &str = "storm/event";

/// How often each program fires one.
const EVERY: Duration = Duration::from_secs(20);

/// How long a program waits before it connects again.
const AGAIN: Duration = Duration::from_secs(1);

/// What the programs have fired and heard.
#[derive(Default)]
pub struct Events(Mutex<Log>);

#[derive(Default)]
struct Log {
    /// Each event that was fired, by number: its master, and when.
    fired: Vec<(String, Duration)>,
    /// When an event was heard, by number and master.
    heard: BTreeMap<(usize, String), Vec<Duration>>,
    /// When the program beside a master connected.
    connected: Vec<(String, Duration)>,
}

impl Events {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fire(&self, host: &str, at: Duration) -> usize {
        let mut log = self.log();
        log.fired.push((host.to_owned(), at));
        log.fired.len() - 1
    }

    fn hear(&self, host: &str, number: usize, at: Duration) {
        self.log().heard.entry((number, host.to_owned())).or_default().push(at);
    }

    /// Returns what was wrong until now, in words.
    pub fn wrongs(&self, masters: &[String], ledger: &Ledger, now: Duration) -> Vec<String> {
        let (log, mut wrongs) = (self.log(), Vec::new());
        for ((number, host), times) in log.heard.iter().filter(|(_, times)| times.len() > 1) {
            wrongs.push(format!("{host} got event {number} more than once: {times:?}"));
        }
        // What was fired a moment ago may be on its way.
        let told = log.fired.iter().enumerate().filter(|(_, (_, at))| *at + LINKED <= now);
        for (number, (from, at)) in told {
            for host in masters {
                if !log.heard.contains_key(&(number, host.clone())) && log.could_hear(ledger, host, from, *at) {
                    wrongs.push(format!("event {number} of {from}, fired at {at:?}, did not come to {host}"));
                }
            }
        }
        wrongs
    }
}

impl Log {
    /// Returns whether a master was linked with another one for so long that each event reaches it.
    fn could_hear(&self, ledger: &Ledger, host: &str, from: &str, at: Duration) -> bool {
        let (before, after) = (at.saturating_sub(RECOVERY), at + LINKED);
        // The program itself misses what is fired before it has connected.
        let connects = |who: &str| self.connected.iter().any(|(host, at)| host == who && (before..=after).contains(at));
        let is_calm = |who: &str| !ledger.died(who, before, after) && !connects(who);
        ledger.calm(host, from, before, after) && is_calm(host) && is_calm(from)
    }
}

/// Fires and hears events on the bus of a master until its host is killed.
pub async fn run(sim: Sim, rt: Rt, host: String, events: Arc<Events>) {
    loop {
        let mut bus = Remote::new(rt.clone(), Endpoints::tcp(4512, 4513, false));
        if let Ok(mut listening) = bus.listen(Filter::prefix(TAG)).await {
            events.log().connected.push((host.clone(), sim.elapsed()));
            while hear_until(&sim, &mut listening, &host, &events).await {
                let number = events.fire(&host, sim.elapsed());
                if bus.fire(TAG, map! { "number" => number as i64 }).await.is_err() {
                    break;
                }
            }
        }
        sleep(AGAIN).await;
    }
}

/// Hears events until the next one is to be fired. Returns false if the connection has ended before.
async fn hear_until(sim: &Sim, listening: &mut Listening, host: &str, events: &Events) -> bool {
    let end = Instant::now() + EVERY;
    loop {
        match timeout_at(end, listening.next()).await {
            Ok(Ok(event)) => {
                let number = event.data().get("number").and_then(Value::as_i64).expect("all with this tag have one");
                events.hear(host, number as usize, sim.elapsed());
            }
            Ok(Err(_)) => return false,
            Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns the number of violations when `m1` fires an event at 100 s and `m2` gets it `heard` times.
    fn wrongs(ledger: &Ledger, heard: usize, connected: u64) -> usize {
        let events = Events::default();
        let number = events.fire("m1", at(100));
        events.hear("m1", number, at(100));
        (0..heard).for_each(|_| events.hear("m2", number, at(101)));
        events.log().connected.push(("m2".to_owned(), at(connected)));
        events.wrongs(&["m1".to_owned(), "m2".to_owned()], ledger, at(200)).len()
    }

    #[test]
    fn an_event_comes_to_each_linked_master_once() {
        let calm = Ledger::default();
        assert_eq!([0, 1, 2].map(|heard| wrongs(&calm, heard, 0)), [1, 0, 1]);
        assert_eq!(wrongs(&calm, 0, 100), 0, "the program was not there");
        let mut cut = Ledger::default();
        cut.trouble("m1-m2", at(99));
        assert_eq!([0, 1, 2].map(|heard| wrongs(&cut, heard, 0)), [0, 0, 1]);
        let mut dead = Ledger::default();
        dead.death("m2", at(103));
        assert_eq!(wrongs(&dead, 0, 0), 0);
    }
}
