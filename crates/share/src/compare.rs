//! Comparing two copies: from sums to the few records that differ.
//!
//! One member asks and keeps account; the other only answers from what it has. Roots are compared first, then parts of them, then
//! short hashes of single records. Each question waits for its answer, so a lost message ends a comparison and harms nothing. Only
//! records are asked for ahead, so that one member reads them while the other one stores those before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use crate::message::{Differ, Fetch, Items, MOST_PARTS, Message, Missing, Parts, Root};
use crate::records::Index;
use crate::sums::{ItemHash, Level};
use crate::{Class, Classes, Key};

/// How many parts are divided further in one message.
const PARTS_AT_ONCE: usize = 64;

/// Roughly how many records are named in one message. A single part may have more.
const ITEMS_AT_ONCE: usize = 16_384;

/// How many records that this member lacks are asked for after one answer. What is beyond that is found by the next comparison.
const MOST_WANTED: usize = 1_000_000;

/// How many records are fetched by one message, and how many such messages wait for their answers.
const FETCHED_AT_ONCE: usize = 4_096;
const FETCHES_AHEAD: usize = 2;

/// A comparison with one member, on the side that asks.
#[derive(Clone, Debug)]
pub struct Comparison {
    round: u64,
    /// The first minute of jobs that is compared: what is older, one of the two may have dropped.
    since: u32,
    /// What this member shares.
    shared: Classes,
    /// Classes that differ and were not looked at yet.
    classes: VecDeque<Class>,
    class: Option<Class>,
    /// Parts that differ, the newest first.
    parts: VecDeque<(Level, u32)>,
    /// The parts whose records are compared now.
    leaves: Vec<u32>,
    outgoing: VecDeque<Key>,
    wanted: VecDeque<u64>,
    /// What was asked for, by message.
    fetching: VecDeque<Vec<u64>>,
    /// Everything was exchanged, and roots are compared once more.
    closing: bool,
    awaited: Awaited,
}

/// The answer that a comparison waits for. Others are not asked for, and dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Awaited {
    Nothing,
    Root,
    /// Which parts of a level differ, within coarser ones.
    Differ(Level, Option<(Level, Vec<u32>)>),
    Missing,
    Served,
}

impl Awaited {
    fn answer_to(message: &Message) -> Awaited {
        match message {
            Message::Root(_) => Awaited::Root,
            Message::Parts(parts) => Awaited::Differ(parts.level, parts.within.clone()),
            Message::Items(_) => Awaited::Missing,
            Message::Fetch(_) => Awaited::Served,
            _ => Awaited::Nothing,
        }
    }
}

/// What a comparison needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this and wait for the answer.
    Send(Message),
    /// Send these records, then ask again.
    Deliver(Class, Vec<Key>),
    /// More answers are under way.
    Wait,
    /// The comparison has ended.
    Over(Outcome),
    /// The answer belongs to another comparison.
    Ignore,
}

/// How a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// All copies are equal.
    pub equal: bool,
    /// Equal is at least what is not about single jobs: of jobs there is always one under way.
    pub same_but_jobs: bool,
}

impl Comparison {
    /// Starts a comparison of what is at least as young as the minute `since`, in the classes that this member shares.
    pub fn start(index: &impl Index, round: u64, since: u32, shared: Classes) -> (Comparison, Message) {
        let comparison = Comparison {
            round,
            since,
            shared,
            classes: VecDeque::new(),
            class: None,
            parts: VecDeque::new(),
            leaves: Vec::new(),
            outgoing: VecDeque::new(),
            wanted: VecDeque::new(),
            fetching: VecDeque::new(),
            closing: false,
            awaited: Awaited::Root,
        };
        let root = comparison.root(index);
        (comparison, root)
    }

    /// Returns the number of the comparison, which all its messages carry.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Takes the answer to [`Message::Root`].
    pub fn hear_root(&mut self, index: &impl Index, theirs: &Root) -> Step {
        if theirs.round != self.round || self.awaited != Awaited::Root {
            return Step::Ignore;
        }
        self.awaited = Awaited::Nothing;
        // What one of the two has dropped by its own `keep_jobs_seconds` would differ for ever, and be sent at each comparison.
        self.since = self.since.max(theirs.since);
        // What only one of the two shares is not compared.
        let unequal = |&&(class, sum): &&(Class, _)| {
            self.shared.contains(class) && index.root(class, first_leaf(class, self.since)) != sum
        };
        let differing: Vec<Class> = theirs.sums.iter().filter(unequal).map(|(class, _)| *class).collect();
        // Roots are asked for twice only. Records come in all the time, so a third round could go on for ever.
        if differing.is_empty() || self.closing {
            let same_but_jobs = differing.iter().all(|class| class.is_timed());
            return Step::Over(Outcome { equal: differing.is_empty(), same_but_jobs });
        }
        // In the order of the enum: members and keys come first, for without them the decisions and data that follow are refused.
        self.classes = Class::ALL.into_iter().filter(|class| differing.contains(class)).collect();
        self.proceed(index)
    }

    /// Takes the answer to [`Message::Parts`].
    pub fn hear_differ(&mut self, index: &impl Index, theirs: &Differ) -> Step {
        if theirs.round != self.round {
            return Step::Ignore;
        }
        let within = match &self.awaited {
            Awaited::Differ(level, within) if *level == theirs.level => within.clone(),
            _ => return Step::Ignore,
        };
        self.awaited = Awaited::Nothing;
        let asked = |part: &u32| match &within {
            Some((coarse, within)) => within.contains(&coarse.part_of(*theirs.level.leaves(*part).start())),
            None => true,
        };
        let parts: BTreeSet<u32> = theirs.parts.iter().copied().filter(asked).collect();
        // Pushed to the front in ascending order: the newest comes first.
        parts.into_iter().for_each(|part| self.parts.push_front((theirs.level, part)));
        self.proceed(index)
    }

    /// Takes the answer to [`Message::Items`].
    pub fn hear_missing(&mut self, index: &impl Index, theirs: &Missing) -> Step {
        let (Some(class), true) = (self.class, theirs.round == self.round) else { return Step::Ignore };
        if self.awaited != Awaited::Missing {
            return Step::Ignore;
        }
        self.awaited = Awaited::Nothing;
        let own = by_hash(index, class, self.since, &self.leaves);
        let here: BTreeSet<u64> = theirs.here.iter().copied().collect();
        // A member that names what is here as missing would have it sent again and again.
        let there: BTreeSet<u64> = theirs.there.iter().copied().filter(|hash| !own.contains_key(hash)).collect();
        self.outgoing = here.iter().filter_map(|hash| own.get(hash).cloned()).collect();
        self.wanted = there.into_iter().take(MOST_WANTED).collect();
        self.proceed(index)
    }

    /// Takes note that the answer to the earliest [`Message::Fetch`] is complete, as far as this many of its records.
    pub fn hear_served(&mut self, index: &impl Index, round: u64, served: usize) -> Step {
        if self.awaited != Awaited::Served || round != self.round {
            return Step::Ignore;
        }
        let Some(mut asked) = self.fetching.pop_front() else { return Step::Ignore };
        // One at least: a member that serves nothing must not be asked for the same for ever.
        let left = asked.split_off(served.max(1).min(asked.len()));
        self.wanted.extend(left);
        if self.fetching.is_empty() {
            self.awaited = Awaited::Nothing;
        }
        self.proceed(index)
    }

    /// Returns a question for further records, to be sent although an earlier one is not answered.
    pub fn ask_ahead(&mut self) -> Option<Message> {
        let class = self.class.filter(|_| self.awaited == Awaited::Served)?;
        let may = !self.wanted.is_empty() && self.fetching.len() < FETCHES_AHEAD;
        may.then(|| self.fetch(class))
    }

    /// Returns what comes next, after an answer or after [`Step::Deliver`].
    pub fn proceed(&mut self, index: &impl Index) -> Step {
        let step = self.next(index);
        if let Step::Send(message) = &step {
            self.awaited = Awaited::answer_to(message);
        }
        step
    }

    fn next(&mut self, index: &impl Index) -> Step {
        if let Some(class) = self.class {
            // Fetched first: of a record that both have, what is delivered is then what both make together.
            if !self.wanted.is_empty() {
                return Step::Send(self.fetch(class));
            }
            if !self.fetching.is_empty() {
                return Step::Wait;
            }
            if !self.outgoing.is_empty() {
                return Step::Deliver(class, self.outgoing.drain(..).collect());
            }
            if let Some((level, _)) = self.parts.front().copied() {
                return Step::Send(match level.finer() {
                    Some(finer) => self.divide(index, class, level, finer),
                    None => self.name(index, class, level),
                });
            }
        }
        self.class = self.classes.pop_front();
        let Some(class) = self.class else {
            self.closing = true;
            return Step::Send(self.root(index));
        };
        let level = Level::first(class);
        let sums = index.parts(class, level, first_leaf(class, self.since)..=u32::MAX);
        Step::Send(Message::Parts(Parts { round: self.round, class, since: self.since, level, within: None, sums }))
    }

    fn root(&self, index: &impl Index) -> Message {
        Message::Root(Root {
            round: self.round,
            since: self.since,
            answer: false,
            sums: roots(index, self.since, self.shared),
        })
    }

    fn fetch(&mut self, class: Class) -> Message {
        let count = self.wanted.len().min(FETCHED_AT_ONCE);
        let hashes: Vec<u64> = self.wanted.drain(..count).collect();
        self.fetching.push_back(hashes.clone());
        let (round, since, leaves) = (self.round, self.since, self.leaves.clone());
        Message::Fetch(Fetch { round, class, since, leaves, hashes })
    }

    /// Asks which finer parts of the next parts differ.
    fn divide(&mut self, index: &impl Index, class: Class, level: Level, finer: Level) -> Message {
        let mut within = Vec::new();
        while within.len() < PARTS_AT_ONCE && self.parts.front().is_some_and(|(next, _)| *next == level) {
            within.extend(self.parts.pop_front().map(|(_, part)| part));
        }
        let sums = finer_parts(index, class, self.since, level, finer, &within);
        let within = Some((level, within));
        Message::Parts(Parts { round: self.round, class, since: self.since, level: finer, within, sums })
    }

    /// Names the records of the next parts.
    fn name(&mut self, index: &impl Index, class: Class, level: Level) -> Message {
        let mut hashes = Vec::new();
        self.leaves.clear();
        while hashes.len() < ITEMS_AT_ONCE && self.leaves.len() < MOST_PARTS {
            match self.parts.front() {
                Some((next, leaf)) if *next == level => {
                    let leaf = *leaf;
                    self.parts.pop_front();
                    self.leaves.push(leaf);
                    hashes.extend(short_hashes(index, class, self.since, leaf));
                }
                _ => break,
            }
        }
        let (round, since, leaves) = (self.round, self.since, self.leaves.clone());
        Message::Items(Items { round, class, since, leaves, hashes })
    }
}

/// Answers [`Message::Root`]. `since` is the first minute of jobs that this member still has, `shared` what it shares.
pub fn answer_root(index: &impl Index, since: u32, shared: Classes, theirs: &Root) -> Message {
    let since = since.max(theirs.since);
    Message::Root(Root { round: theirs.round, since, answer: true, sums: roots(index, since, shared) })
}

/// Returns whether the copies of both members are equal, but for what is about single jobs, by the sums that one of them sent.
pub fn are_same_but_jobs(index: &impl Index, shared: Classes, theirs: &Root) -> bool {
    // Of jobs something is always under way, so between busy masters whole roots are hardly ever equal.
    let sums = theirs.sums.iter().filter(|(class, _)| shared.contains(*class) && !class.is_timed());
    sums.into_iter().all(|(class, sum)| index.root(*class, 0) == *sum)
}

/// Answers [`Message::Parts`].
pub fn answer_parts(index: &impl Index, theirs: &Parts) -> Message {
    let Parts { round, class, since, level, within, sums } = theirs;
    let own = match within {
        None => index.parts(*class, *level, first_leaf(*class, *since)..=u32::MAX),
        Some((coarse, within)) => finer_parts(index, *class, *since, *coarse, *level, within),
    };
    let own: BTreeMap<u32, _> = own.into_iter().collect();
    let theirs: BTreeMap<u32, _> = sums.iter().copied().collect();
    let all: BTreeSet<u32> = own.keys().chain(theirs.keys()).copied().collect();
    let mut parts: Vec<u32> = all.into_iter().filter(|part| own.get(part) != theirs.get(part)).collect();
    // What does not fit is found by the next comparison: the newest comes first here, too.
    let excess = parts.len().saturating_sub(MOST_PARTS);
    parts.drain(..excess);
    Message::Differ(Differ { round: *round, level: *level, parts })
}

/// Answers [`Message::Items`].
pub fn answer_items(index: &impl Index, theirs: &Items) -> Message {
    // A part that is named a thousand times would be looked up a thousand times.
    let leaves: BTreeSet<&u32> = theirs.leaves.iter().collect();
    let own: BTreeSet<u64> =
        leaves.into_iter().flat_map(|leaf| short_hashes(index, theirs.class, theirs.since, *leaf)).collect();
    let asked: BTreeSet<u64> = theirs.hashes.iter().copied().collect();
    let here = asked.difference(&own).copied().collect();
    let there = own.difference(&asked).copied().collect();
    Message::Missing(Missing { round: theirs.round, here, there })
}

/// Returns the keys that [`Message::Fetch`] asks for, in its order; `None` for a record that is no longer as it was.
pub fn fetched(index: &impl Index, theirs: &Fetch) -> Vec<Option<Key>> {
    let mut own = by_hash(index, theirs.class, theirs.since, &theirs.leaves);
    // Each is sent once, however often it is named.
    theirs.hashes.iter().take(FETCHED_AT_ONCE).map(|hash| own.remove(hash)).collect()
}

fn roots(index: &impl Index, since: u32, shared: Classes) -> Vec<(Class, crate::Sum)> {
    shared.iter().map(|class| (class, index.root(class, first_leaf(class, since)))).collect()
}

/// Returns the first finest part of a class that is compared.
fn first_leaf(class: Class, since: u32) -> u32 {
    if class.is_timed() { since } else { 0 }
}

fn clipped(class: Class, since: u32, leaves: RangeInclusive<u32>) -> RangeInclusive<u32> {
    first_leaf(class, since).max(*leaves.start())..=*leaves.end()
}

fn finer_parts(
    index: &impl Index,
    class: Class,
    since: u32,
    coarse: Level,
    finer: Level,
    within: &[u32],
) -> Vec<(u32, crate::Sum)> {
    let within: BTreeSet<&u32> = within.iter().collect();
    let ranges = within.into_iter().map(|part| clipped(class, since, coarse.leaves(*part)));
    ranges.flat_map(|range| index.parts(class, finer, range)).collect()
}

fn items(index: &impl Index, class: Class, since: u32, leaf: u32) -> Vec<(Key, crate::Digest)> {
    let range = clipped(class, since, leaf..=leaf);
    if range.is_empty() { Vec::new() } else { index.items(class, range) }
}

fn short_hashes(index: &impl Index, class: Class, since: u32, leaf: u32) -> Vec<u64> {
    let found = items(index, class, since, leaf);
    found.into_iter().map(|(key, digest)| ItemHash::of(class, &key, digest).short()).collect()
}

fn by_hash(index: &impl Index, class: Class, since: u32, leaves: &[u32]) -> BTreeMap<u64, Key> {
    let leaves: BTreeSet<&u32> = leaves.iter().collect();
    let found = leaves.into_iter().flat_map(|leaf| items(index, class, since, *leaf));
    found.map(|(key, digest)| (ItemHash::of(class, &key, digest).short(), key)).collect()
}

#[cfg(test)]
mod tests;
