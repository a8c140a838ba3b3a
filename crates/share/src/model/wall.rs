//! Which wall time stamps follow.
//!
//! A clock that is far ahead for a minute must not lead the stamps away: others refuse them, and all later ones of this member
//! would be above them.

use super::Moment;

/// By how many milliseconds the wall clock may jump and be followed at once. Stamps of others are believed up to a day ahead.
const MOST_JUMP: u128 = 43_200_000;

/// For how long a clock must have stayed where it jumped to, in milliseconds, before it is followed further than that.
const SETTLED_AFTER: u64 = 600_000;

/// The wall clock, as far as it is believed.
#[derive(Clone, Debug, Default)]
pub(super) struct WallClock {
    /// How far it is ahead of the steady clock, as it was last believed.
    ahead: Option<i128>,
    /// When a large jump was first seen, by the steady clock.
    jumped: Option<u64>,
}

impl WallClock {
    /// Takes note of the clocks, and returns the wall time for stamps.
    pub fn read(&mut self, now: Moment) -> u64 {
        let ahead = i128::from(now.wall) - i128::from(now.steady);
        let believed = *self.ahead.get_or_insert(ahead);
        if (ahead - believed).unsigned_abs() > MOST_JUMP {
            let jumped = *self.jumped.get_or_insert(now.steady);
            if now.steady < jumped + SETTLED_AFTER {
                return u64::try_from(i128::from(now.steady) + believed).unwrap_or(now.wall);
            }
        }
        (self.ahead, self.jumped) = (Some(ahead), None);
        now.wall
    }
}
