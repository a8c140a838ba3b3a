//! The time by which this master goes in its set, and what the log says about clocks that are wrong.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rt::Rt;
use share::{Moment, Node, SetClock, SetTime};
use tokio::time::Instant;
use tracing::{error, info, warn};

/// The steady clock at the start, in milliseconds: nothing is due at zero.
pub const STARTED: u64 = 1_000;

/// By how many milliseconds the clock of another master must differ to be worth a line in the log.
const NOTABLE: u64 = 60_000;

/// How often the log says of one master that its clock differs: one that changes its clock with each heartbeat must not fill the log.
const LOG_EVERY: Duration = Duration::from_secs(600);

/// The clock of this master.
pub struct Clock {
    set: Arc<SetClock>,
    rt: Rt,
    /// The zero of the steady clock, but for [`STARTED`].
    pub started: Instant,
    /// What the log says of the clocks of other masters that differ.
    logged: Mutex<BTreeMap<Node, Logged>>,
    /// The log says that the clock of this host is not followed.
    own_logged: AtomicBool,
}

/// What the log says of the clock of another master.
struct Logged {
    /// By how many milliseconds it is ahead; `None` if it agrees again.
    ahead: Option<i64>,
    at: Instant,
}

impl Clock {
    /// Creates the clock. Its steady clock begins now.
    pub fn new(set: Arc<SetClock>, rt: Rt) -> Clock {
        Clock { set, rt, started: Instant::now(), logged: Mutex::default(), own_logged: AtomicBool::new(false) }
    }

    /// Returns what the clocks of the host say.
    pub fn moment(&self) -> Moment {
        self.at(millis(self.rt.now()))
    }

    fn at(&self, wall: u64) -> Moment {
        Moment { wall, steady: self.started.elapsed().as_millis() as u64 + STARTED }
    }

    /// Returns the time by which this master goes.
    pub fn read(&self) -> SetTime {
        self.set.read(self.moment())
    }

    /// Returns the time by which this master goes when the clock of the host says this, in milliseconds since 1970.
    pub fn present(&self, wall: u64) -> u64 {
        self.set.read(self.at(wall)).present
    }

    /// Returns the time by which this master goes, as exactly as the clock of the host.
    pub fn now(&self) -> SystemTime {
        let now = self.rt.now();
        let wall = millis(now);
        let present = self.present(wall);
        let shifted = match present >= wall {
            true => now.checked_add(Duration::from_millis(present - wall)),
            false => now.checked_sub(Duration::from_millis(wall - present)),
        };
        shifted.unwrap_or(now)
    }

    /// Returns whether another master goes by another time, and nobody knows which of the two is right.
    pub fn is_disputed(&self) -> bool {
        self.set.is_disputed(self.moment())
    }

    /// Takes note of the time by which another master goes.
    pub fn hear(&self, node: Node, theirs: u64) {
        self.set.hear(node, theirs, self.moment());
    }

    /// Takes note of the clock of another master's host, and says in the log when it differs from that of this host. `called` names
    /// the master.
    pub fn hear_wall(&self, node: Node, theirs: u64, called: impl FnOnce() -> String) {
        let now = self.moment();
        self.set.hear_wall(node, theirs, now);
        let ahead = i64::try_from(i128::from(theirs) - i128::from(now.wall)).unwrap_or(i64::MAX);
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        match news(logged.get(&node), ahead, Instant::now()) {
            Some(News::Agrees) => {
                logged.entry(node).and_modify(|logged| logged.ahead = None);
                info!("the clock of the master {} agrees with the one of this host again", called());
            }
            Some(News::Differs) => {
                logged.insert(node, Logged { ahead: Some(ahead), at: Instant::now() });
                warn!("the clock of the master {} is {} the one of this host", called(), differs(ahead));
            }
            None => {}
        }
    }

    /// Says in the log when the clock of this host is not followed, and when it is again.
    pub fn report(&self) {
        let now = self.moment();
        let present = self.set.read(now).present;
        let doubted = present.abs_diff(now.wall) >= NOTABLE;
        if self.own_logged.swap(doubted, Ordering::Relaxed) == doubted {
            return;
        }
        let ahead = i64::try_from(i128::from(now.wall) - i128::from(present)).unwrap_or(i64::MAX);
        match doubted {
            true => error!(
                "the clock of this host is {} the time of the set: job ids and records follow the set until it is set right, \
                 or another master has the same time",
                differs(ahead)
            ),
            false => info!("the clock of this host is followed again"),
        }
    }
}

/// What is new about the clock of another master.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Agrees,
    Differs,
}

/// Returns what to log about the clock of another master, which is `ahead` milliseconds ahead of this one.
fn news(logged: Option<&Logged>, ahead: i64, now: Instant) -> Option<News> {
    let (differed, difference) = (logged.and_then(|logged| logged.ahead), ahead.unsigned_abs());
    if difference < NOTABLE / 2 {
        return differed.map(|_| News::Agrees);
    }
    let is_new = differed.is_none_or(|differed| differed.abs_diff(ahead) >= NOTABLE);
    let is_due = logged.is_none_or(|logged| now >= logged.at + LOG_EVERY);
    (difference >= NOTABLE && is_new && is_due).then_some(News::Differs)
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Returns in words by how many milliseconds a clock is ahead of another one, or behind it.
fn differs(ahead: i64) -> String {
    let (minutes, direction) =
        (ahead.unsigned_abs().saturating_add(30_000) / 60_000, if ahead < 0 { "behind" } else { "ahead of" });
    let (days, hours) = (minutes / 1_440, minutes / 60);
    let parts = match (days, hours) {
        (0, 0) => vec![(minutes, "minute")],
        (0, hours) => vec![(hours, "hour"), (minutes % 60, "minute")],
        (days, hours) => vec![(days, "day"), (hours % 24, "hour")],
    };
    let shown = parts.into_iter().enumerate().filter(|(place, (number, _))| *place == 0 || *number > 0);
    let shown = shown.map(|(_, (number, unit))| format!("{number} {unit}{}", if number == 1 { "" } else { "s" }));
    format!("{} {direction}", shown.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_differs_is_logged_once_and_one_that_keeps_changing_every_ten_minutes() {
        let (start, minute) = (Instant::now(), NOTABLE as i64);
        let at = |seconds| start + Duration::from_secs(seconds);
        let differs = |ahead| Logged { ahead: Some(ahead), at: start };
        assert_eq!(news(None, minute - 1, start), None);
        assert_eq!(news(None, -minute, start), Some(News::Differs));
        assert_eq!(news(Some(&differs(minute)), minute + 1, at(3_600)), None, "it has said so");
        assert_eq!(news(Some(&differs(minute)), 9 * minute, at(599)), None);
        assert_eq!(news(Some(&differs(minute)), 9 * minute, at(600)), Some(News::Differs));
        assert_eq!(news(Some(&differs(minute)), minute / 4, at(1)), Some(News::Agrees));
        let agrees = Logged { ahead: None, at: start };
        assert_eq!(news(Some(&agrees), 0, at(2)), None);
        assert_eq!(news(Some(&agrees), 9 * minute, at(599)), None, "a clock that goes to and fro");
    }

    #[test]
    fn differences_are_shown_in_two_units() {
        let minute = 60_000;
        let shown = [minute, -90 * minute, 2_880 * minute - 1, -1_500 * minute].map(differs);
        assert_eq!(shown, ["1 minute ahead of", "1 hour 30 minutes behind", "2 days ahead of", "1 day 1 hour behind"]);
    }
}
