//! Detects replays of encrypted requests.
//!
//! An attacker on the network path could send a minion's request again, to fire its event twice or to replace new
//! grains and mine data with old ones. A minion's requests carry the time by its own clock and a nonce. For each minion
//! the nonces of the last few minutes are remembered, and older requests are refused. Age is measured by the minion's
//! own clock, which may be wrong but moves forward. If it was set back, the minion gets a new session key with its next
//! sign-in. Old requests cannot be decrypted with that key, so any time is accepted again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::command::Repeat;
use wire::{Command, MinionId};

/// How long nonces are remembered, in seconds. Every release gives up on a request long before that.
const WINDOW: i64 = 300;

/// The largest number of nonces of one minion. If there are more within the window, requests older than the oldest
/// remembered one are refused.
const MOST: usize = 1024;

/// The shortest time between two session keys that a minion gets because of its clock, in seconds.
const RENEWAL: i64 = 60;

/// The parts of an encrypted request that identify it.
pub struct Sent<'a> {
    /// The authenticated sender.
    pub id: &'a MinionId,
    /// When it was sent, by the sender's clock.
    pub ts: i64,
    /// Its nonce.
    pub nonce: &'a str,
    /// What it asks for. `None` if no master knows the command.
    pub command: Option<Command>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The same request was received before.
    Again,
    /// It is much older than other requests of this minion.
    Old,
}

/// What minions sent recently.
pub struct Replays {
    /// When this master started. Requests sent long before may have been accepted by the previous process.
    started: i64,
    minions: Mutex<HashMap<MinionId, Lately>>,
}

struct Lately {
    newest: i64,
    /// Anything older is refused.
    floor: i64,
    /// When each remembered request was sent, and half of its nonce. A minion that sends many requests has a thousand of
    /// them to look through for each one; 64 random bits are enough to tell its own requests apart.
    times: VecDeque<i64>,
    nonces: VecDeque<u64>,
    /// An older request was received, so the session key should be replaced.
    suspect: bool,
    /// When it was last replaced, by the master's clock.
    renewed: Option<i64>,
}

impl Replays {
    /// Creates an empty memory.
    pub fn new(started: i64) -> Self {
        Replays { started, minions: Mutex::default() }
    }

    /// Accepts a request unless it is a replay.
    pub fn admit(&self, sent: &Sent<'_>) -> Result<(), Replay> {
        let mut minions = self.minions();
        if let Some(lately) = minions.get_mut(sent.id) {
            return lately.admit(sent);
        }
        let floor = self.started.saturating_sub(WINDOW);
        minions.entry(sent.id.clone()).or_insert_with(|| Lately::new(floor)).admit(sent)
    }

    /// Returns whether the data in a request that may be repeated may be stored: once for each nonce. Otherwise a
    /// replayed request would replace new data with old data.
    pub fn may_store(&self, id: &MinionId, nonce: &str) -> bool {
        let mut minions = self.minions();
        // Every request that proves its sender was admitted. Old releases prove nothing, and need no memory.
        let Some(lately) = minions.get_mut(id) else { return true };
        lately.remember(lately.newest, nonce)
    }

    /// Returns whether a minion that signs in should get a new session key. If so, accepts any time from the minion
    /// again.
    pub fn renew(&self, id: &MinionId, now: i64) -> bool {
        let mut minions = self.minions();
        let Some(lately) = minions.get_mut(id).filter(|lately| lately.suspect) else { return false };
        // Anybody can send a sign-in, so this must not make a new key each time.
        if lately.renewed.is_some_and(|last| now.saturating_sub(last) < RENEWAL) {
            return false;
        }
        // Nothing was sent yet with the session key that follows, so any time is accepted.
        *lately = Lately {
            renewed: Some(now),
            times: std::mem::take(&mut lately.times),
            nonces: std::mem::take(&mut lately.nonces),
            ..Lately::new(i64::MIN)
        };
        true
    }

    fn minions(&self) -> MutexGuard<'_, HashMap<MinionId, Lately>> {
        self.minions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lately {
    fn new(floor: i64) -> Self {
        Lately {
            newest: i64::MIN,
            floor,
            times: VecDeque::new(),
            nonces: VecDeque::new(),
            suspect: false,
            renewed: None,
        }
    }

    fn admit(&mut self, sent: &Sent<'_>) -> Result<(), Replay> {
        if sent.ts < self.floor {
            // Either a replay or a clock that was set back. The next sign-in settles it.
            self.suspect = true;
            return Err(Replay::Old);
        }
        if sent.command.map(Command::repeat) == Some(Repeat::Answered) {
            // They move the window all the same: their time is as good as that of other requests.
            self.advance(sent.ts);
            return Ok(());
        }
        if !self.remember(sent.ts, sent.nonce) {
            return Err(Replay::Again);
        }
        self.advance(sent.ts);
        Ok(())
    }

    /// Remembers a nonce until no request of this time is accepted any more. Returns false if the nonce is already
    /// known.
    fn remember(&mut self, ts: i64, nonce: &str) -> bool {
        // It was checked to be 32 hexadecimal digits.
        let nonce = u128::from_str_radix(nonce, 16).unwrap_or_default();
        // A UUID has fixed bits in both halves, but 60 random ones in the lower.
        let nonce = nonce as u64;
        if self.nonces.contains(&nonce) {
            return false;
        }
        self.times.push_back(ts);
        self.nonces.push_back(nonce);
        while self.nonces.len() > MOST {
            let oldest = self.forget_oldest();
            self.floor = self.floor.max(oldest);
        }
        true
    }

    fn advance(&mut self, ts: i64) {
        if ts <= self.newest {
            return;
        }
        self.newest = ts;
        // By the newest time the minion itself has used, not by ours: its clock may be wrong.
        self.floor = self.floor.max(ts.saturating_sub(WINDOW));
        while self.times.front().is_some_and(|ts| *ts < self.floor) {
            self.forget_oldest();
        }
    }

    /// Forgets the request that was remembered first. Returns when it was sent.
    fn forget_oldest(&mut self) -> i64 {
        self.nonces.pop_front();
        self.times.pop_front().unwrap_or(i64::MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_700_000_000;

    struct Master(Replays, MinionId);

    impl Master {
        fn new() -> Self {
            Master(Replays::new(START), MinionId::new("web1").unwrap())
        }

        fn take(&self, ts: i64, nonce: u128, command: Command) -> Result<(), Replay> {
            self.0.admit(&Sent { id: &self.1, ts, nonce: &format!("{nonce:032x}"), command: Some(command) })
        }

        fn event(&self, ts: i64, nonce: u128) -> Result<(), Replay> {
            self.take(ts, nonce, Command::MinionEvent)
        }
    }

    #[test]
    fn the_same_request_counts_once() {
        let master = Master::new();
        assert_eq!(master.event(START, 1), Ok(()));
        assert_eq!(master.event(START, 1), Err(Replay::Again));
        assert_eq!(master.event(START, 2), Ok(()));
        for _ in 0..2 {
            assert_eq!(master.take(START, 3, Command::Pillar), Ok(()), "Salt repeats it when the answer is late");
        }
    }

    #[test]
    fn data_of_a_repeated_question_is_stored_once() {
        let master = Master::new();
        let ask = |ts, nonce: u128| {
            master.take(ts, nonce, Command::Pillar).map(|()| master.0.may_store(&master.1, &format!("{nonce:032x}")))
        };
        assert_eq!(ask(START, 1), Ok(true));
        assert_eq!(ask(START, 2), Ok(true), "two refreshes in one second");
        assert_eq!(ask(START, 1), Ok(false), "captured");
        assert_eq!(ask(START + WINDOW, 3), Ok(true));
        assert_eq!(ask(START, 1), Ok(false), "it is remembered as long as it is accepted");
        assert_eq!(ask(START + WINDOW + 1, 4), Ok(true));
        assert_eq!(ask(START, 1), Err(Replay::Old));
        // A first attempt that is lost before anything is stored leaves the retry free to do so.
        assert_eq!(master.take(START + WINDOW, 5, Command::Pillar), Ok(()));
        assert_eq!(ask(START + WINDOW, 5), Ok(true));
    }

    #[test]
    fn what_is_old_is_refused_also_after_a_start_of_the_master() {
        let master = Master::new();
        assert_eq!(master.event(START - WINDOW - 1, 1), Err(Replay::Old), "sent to this master before it started");
        assert_eq!(master.event(START + 10_000, 2), Ok(()));
        assert_eq!(master.event(START + 10_000 - WINDOW - 1, 3), Err(Replay::Old));
        assert_eq!(master.take(START, 4, Command::Pillar), Err(Replay::Old), "old grains");
        assert_eq!(master.event(START + 10_000 - WINDOW, 5), Ok(()), "overtaken on the way");
    }

    #[test]
    fn a_clock_that_was_set_back_costs_one_new_session() {
        let master = Master::new();
        assert!(!master.0.renew(&master.1, START), "nothing is wrong");
        master.event(START + 86_400 * 365, 1).unwrap();
        assert_eq!(master.event(START + 5, 2), Err(Replay::Old));
        assert!(master.0.renew(&master.1, START + 5));
        assert_eq!(master.event(START + 5, 2), Ok(()));
        assert_eq!(master.event(START + 5, 2), Err(Replay::Again));
        assert_eq!(master.event(START + 5 - WINDOW - 1, 9), Err(Replay::Old));
        assert!(!master.0.renew(&master.1, START + 6), "not again at once");
        assert!(master.0.renew(&master.1, START + 5 + RENEWAL));
    }

    #[test]
    fn memory_has_a_bound_that_lets_nothing_old_in() {
        let master = Master::new();
        for number in 0..3 * MOST as i64 {
            assert_eq!(master.event(START + number / 100, number as u128), Ok(()));
        }
        assert_eq!(master.0.minions()[&master.1].nonces.len(), MOST);
        for number in [0, MOST as i64, 3 * MOST as i64 - 1] {
            assert!(master.event(START + number / 100, number as u128).is_err(), "{number}");
        }
        master.event(START + 100_000, 0).unwrap();
        assert_eq!(master.0.minions()[&master.1].nonces.len(), 1, "what is past the window is forgotten");
    }
}
