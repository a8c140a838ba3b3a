//! Limits the share of the log that peers may fill.
//!
//! Each group of peers has a separate table, so that no group can silence another. Within a table each peer has a share
//! of bytes per window, and its first message is written even when all others have used up the table's share.
//! Suppressed lines are counted, and reported when the window ends. The caller passes the time; nothing here reads a
//! clock.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::level::Level;

/// The length of a window.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);

/// The size of a line without its message, in bytes: time, logger, level.
const FRAME: usize = 96;

/// Whose bytes cause a message, and how grave it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Peers that have not proved who they are.
    Strangers,
    /// Minions with an accepted key, and users of this host.
    Known,
    /// Warnings and errors about those.
    Warnings,
    /// Peers that have not proved who they are and claim to be a minion with an accepted key. Their share has that minion's name.
    Claimed,
    /// Warnings and errors about those.
    ClaimedWarnings,
}

/// The bounds of a table.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Bytes of one peer in a window.
    share: usize,
    /// Bytes of all peers in a window, but for the first message of each.
    all: usize,
    /// The maximum number of peers with separate shares; all others share one.
    peers: usize,
    /// The longest message, in bytes.
    message: usize,
}

impl Group {
    const ALL: [Group; 5] = [Group::Strangers, Group::Known, Group::Warnings, Group::Claimed, Group::ClaimedWarnings];

    fn bounds(self) -> Bounds {
        match self {
            // Strangers can have any number of addresses.
            Group::Strangers => Bounds { share: 16 << 10, all: 64 << 10, peers: 256, message: 512 },
            // There are as many of them as an operator has accepted.
            Group::Known => Bounds { share: 24 << 10, all: 16 << 20, peers: 65_536, message: 4096 },
            Group::Warnings => Bounds { share: 24 << 10, all: 1 << 20, peers: 65_536, message: 4096 },
            // A line for each sign-in of a large cluster; a stranger can claim one name after the other.
            Group::Claimed => Bounds { share: 4 << 10, all: 16 << 20, peers: 65_536, message: 512 },
            Group::ClaimedWarnings => Bounds { share: 4 << 10, all: 1 << 20, peers: 65_536, message: 512 },
        }
    }

    /// The longest message, in bytes.
    pub(crate) fn longest(self) -> usize {
        self.bounds().message
    }
}

/// Messages about a peer that were not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suppressed {
    /// The peer; `None` for those that share one share.
    pub(crate) peer: Option<String>,
    /// The number of lines.
    pub(crate) count: u64,
    /// The level of the gravest of them.
    pub(crate) level: Level,
}

/// Decides which messages of peers are written.
#[derive(Debug, Default)]
pub(crate) struct Limiter([Table; Group::ALL.len()]);

#[derive(Debug, Default)]
struct Table {
    /// When the window began; `None` before the first message.
    begun: Option<Instant>,
    used: usize,
    peers: HashMap<String, Share>,
    others: Share,
    has_suppressed: bool,
}

#[derive(Debug, Default)]
struct Share {
    used: usize,
    suppressed: u64,
    level: Option<Level>,
}

impl Limiter {
    /// Returns whether a message about a peer is to be written. [`Limiter::end_windows`] comes first.
    pub(crate) fn admit(&mut self, group: Group, peer: &str, message: (Level, usize), now: Instant) -> bool {
        let bounds = group.bounds();
        let (level, size) = (message.0, message.1 + FRAME);
        let table = &mut self.0[group as usize];
        table.begun.get_or_insert(now);
        let room = table.used + size <= bounds.all;
        let share = table.share_of(peer, bounds.peers);
        let is_first = share.used == 0;
        if is_first || (room && share.used + size <= bounds.share) {
            share.used += size;
            table.used += if is_first { 0 } else { size };
            return true;
        }
        share.suppressed += 1;
        share.level = share.level.max(Some(level));
        table.has_suppressed = true;
        false
    }

    /// Ends the windows whose time has passed. Returns what was suppressed in them, in the order of the peers.
    pub(crate) fn end_windows(&mut self, now: Instant) -> Vec<Suppressed> {
        let mut suppressed = Vec::new();
        for table in &mut self.0 {
            if table.begun.is_some_and(|begun| now.saturating_duration_since(begun) >= WINDOW) {
                suppressed.extend(std::mem::take(table).suppressed());
            }
        }
        suppressed
    }

    /// Returns when a window ends in which something was suppressed.
    pub(crate) fn next_report(&self) -> Option<Instant> {
        let waiting = self.0.iter().filter(|table| table.has_suppressed);
        waiting.filter_map(|table| table.begun).min().map(|begun| begun + WINDOW)
    }
}

impl Table {
    fn share_of(&mut self, peer: &str, most: usize) -> &mut Share {
        if self.peers.contains_key(peer) || self.peers.len() < most {
            self.peers.entry(peer.to_owned()).or_default()
        } else {
            &mut self.others
        }
    }

    fn suppressed(self) -> Vec<Suppressed> {
        let one = |(peer, share): (Option<String>, Share)| {
            Some(Suppressed { peer, count: share.suppressed, level: share.level? })
        };
        let mut named: Vec<_> =
            self.peers.into_iter().map(|(peer, share)| (Some(peer), share)).filter_map(one).collect();
        named.sort_by(|one, other| one.peer.cmp(&other.peer));
        named.extend(one((None, self.others)));
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random and are the same in each run.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % end
        }
    }

    /// Sends messages of random peers, sizes and groups in five windows, and passes each decision to `check`. Returns how many
    /// were suppressed, and how many were reported.
    fn walk(seed: u64, mut check: impl FnMut(Group, &str, usize, bool)) -> (u64, u64) {
        let (mut numbers, mut limiter, start) = (Numbers(seed), Limiter::default(), Instant::now());
        let (mut refused, mut reported) = (0, 0);
        let mut now = start;
        let steps = 20_000;
        for step in 0..steps {
            if step % 5_000 == 4_999 {
                now += WINDOW;
            }
            reported += limiter.end_windows(now).iter().map(|it| it.count).sum::<u64>();
            let group = Group::ALL[numbers.below(Group::ALL.len())];
            let crowd = if numbers.below(2) == 0 { 4 } else { 1000 };
            let peer = format!("peer{}", numbers.below(crowd));
            let size = numbers.below(10_000).min(group.longest());
            let admitted = limiter.admit(group, &peer, (Level::WARNING, size), now);
            refused += u64::from(!admitted);
            check(group, &peer, size, admitted);
        }
        reported += limiter.end_windows(now + WINDOW).iter().map(|it| it.count).sum::<u64>();
        (refused, reported)
    }

    #[test]
    fn all_that_is_suppressed_is_reported_once() {
        for seed in 0..20 {
            let (refused, reported) = walk(seed, |_, _, _, _| {});
            assert!(refused > 0, "seed {seed}");
            assert_eq!(refused, reported, "seed {seed}");
        }
    }

    #[test]
    fn what_is_written_is_bounded() {
        for seed in 0..20 {
            let mut written = HashMap::<(usize, String), usize>::new();
            walk(seed, |group, peer, size, admitted| {
                if admitted {
                    *written.entry((group as usize, peer.to_owned())).or_default() += size + FRAME;
                }
            });
            let windows = 5;
            for ((group, peer), bytes) in &written {
                let bounds = Group::ALL[*group].bounds();
                assert!(*bytes <= windows * (bounds.share + bounds.message + FRAME), "seed {seed}: {peer} {bytes}");
            }
            let of_strangers: usize =
                written.iter().filter(|((group, _), _)| *group == 0).map(|(_, bytes)| bytes).sum();
            let bounds = Group::Strangers.bounds();
            let first = (bounds.peers + 1) * (bounds.message + FRAME);
            assert!(of_strangers <= windows * (bounds.all + first), "seed {seed}: {of_strangers}");
        }
    }

    #[test]
    fn no_group_and_no_peer_silences_another() {
        for flooding in Group::ALL {
            let (mut limiter, now) = (Limiter::default(), Instant::now());
            for message in 0..64 {
                for peer in 0..64 {
                    let _ = (message, limiter.admit(flooding, &format!("peer{peer}"), (Level::INFO, 400), now));
                }
            }
            for group in Group::ALL {
                assert!(limiter.admit(group, "another", (Level::WARNING, 400), now), "{flooding:?} silences {group:?}");
            }
        }
    }

    #[test]
    fn peers_are_told_apart_up_to_a_bound() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let bounds = Group::Strangers.bounds();
        for peer in 0..10 * bounds.peers {
            limiter.admit(Group::Strangers, &format!("peer{peer}"), (Level::INFO, 10), now);
        }
        assert_eq!(limiter.0[0].peers.len(), bounds.peers);
        assert!(limiter.next_report().is_some_and(|end| end == now + WINDOW));
        let reported = limiter.end_windows(now + WINDOW);
        assert_eq!((reported.len(), reported[0].peer.is_none(), reported[0].level), (1, true, Level::INFO));
        assert_eq!((limiter.next_report(), limiter.end_windows(now + 2 * WINDOW)), (None, vec![]));
        assert!(limiter.admit(Group::Strangers, "peer9999", (Level::INFO, 10), now + WINDOW), "a new window");
    }
}
