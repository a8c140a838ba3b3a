//! The faults of a storm.

use rand::Rng;
use rand::rngs::StdRng;

use super::network::SECOND;

/// Something that is wrong for a while.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: Kind,
    pub begins: u64,
    pub ends: u64,
}

#[derive(Clone, Debug)]
pub enum Kind {
    /// Nothing passes on these ways.
    Cut(Vec<(usize, usize)>),
    /// This many percent of all packets are lost.
    Loss(u32),
    /// Packets take up to two seconds, and overtake each other.
    Slow,
    /// A member does nothing, and then goes on as if no time had passed.
    Pause(usize),
    /// A member is gone, and then starts without memory.
    Restart(usize),
}

/// Returns the faults of three minutes.
pub fn faults(random: &mut StdRng, members: usize, length: u64) -> Vec<Fault> {
    let count = random.random_range(4..20);
    (0..count).map(|_| fault(random, members, length)).collect()
}

fn fault(random: &mut StdRng, members: usize, length: u64) -> Fault {
    let one = random.random_range(0..members);
    let other = (one + random.random_range(1..members)) % members;
    let (kind, longest) = match random.random_range(0..9) {
        0 => (Kind::Cut(vec![(one, other)]), 20),
        1 => (Kind::Cut(vec![(one, other), (other, one)]), 20),
        2 => (Kind::Cut(ways(members, |from, to| (from == one) != (to == one))), 30),
        3 => {
            let side: Vec<bool> = (0..members).map(|_| random.random()).collect();
            (Kind::Cut(ways(members, |from, to| side[from] != side[to])), 30)
        }
        4 => (Kind::Loss(random.random_range(5..45)), 30),
        5 => (Kind::Slow, 20),
        6 => (Kind::Pause(one), 15),
        _ => (Kind::Restart(one), 8),
    };
    let begins = random.random_range(0..length);
    let ends = (begins + random.random_range(SECOND / 10..longest * SECOND)).min(length);
    Fault { kind, begins, ends }
}

fn ways(members: usize, cut: impl Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    let all = (0..members).flat_map(|from| (0..members).map(move |to| (from, to)));
    all.filter(|(from, to)| from != to && cut(*from, *to)).collect()
}
