//! Comparisons of two copies in memory, message by message.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::records::{MemoryRecords, Records};
use crate::sums::{Sum, Sums, leaf_of};
use crate::{Digest, record};

/// A copy of which only the digests exist, so that a million records fit.
#[derive(Clone, Default)]
struct Digests {
    sums: BTreeMap<Class, Sums>,
    items: BTreeMap<(Class, u32, Key), Digest>,
}

impl Digests {
    fn add(&mut self, class: Class, key: Key, digest: Digest) {
        let leaf = leaf_of(class, &key);
        self.sums.entry(class).or_default().add(leaf, ItemHash::of(class, &key, digest));
        self.items.insert((class, leaf, key), digest);
    }
}

impl Index for Digests {
    fn root(&self, class: Class, since: u32) -> Sum {
        self.sums.get(&class).map_or_else(Sum::default, |sums| sums.root(since))
    }

    fn parts(&self, class: Class, level: Level, within: RangeInclusive<u32>) -> Vec<(u32, Sum)> {
        self.sums.get(&class).map_or_else(Vec::new, |sums| sums.parts(level, within))
    }

    fn items(&self, class: Class, within: RangeInclusive<u32>) -> Vec<(Key, Digest)> {
        let from = self.items.range((class, *within.start(), Key::first())..);
        let inside = from.take_while(|((found, leaf, _), _)| *found == class && leaf <= within.end());
        inside.map(|((.., key), digest)| (key.clone(), *digest)).collect()
    }
}

/// A copy that can be told to take what the other one has.
trait Copies: Index {
    fn copy_from(&mut self, other: &Self, class: Class, key: &Key);
}

impl Copies for Digests {
    fn copy_from(&mut self, other: &Self, class: Class, key: &Key) {
        let digest = other.items[&(class, leaf_of(class, key), key.clone())];
        self.add(class, key.clone(), digest);
    }
}

impl Copies for MemoryRecords {
    fn copy_from(&mut self, other: &Self, class: Class, key: &Key) {
        let theirs = other.get(class, key).expect("a named record is there");
        let merged = self.get(class, key).map_or(theirs.clone(), |mine| mine.merge(&theirs));
        self.put(merged, 0);
    }
}

#[derive(Debug, Default)]
struct Costs {
    messages: usize,
    sums: usize,
    hashes: usize,
    delivered: usize,
    fetched: usize,
}

/// Sends a message through its bytes.
fn carried(message: &Message, costs: &mut Costs) -> Message {
    let packed = message.encode();
    costs.messages += 1;
    match message {
        Message::Items(_) | Message::Missing(_) | Message::Fetch(_) => costs.hashes += packed.len(),
        _ => costs.sums += packed.len(),
    }
    Message::decode(&packed).expect("what we send can be read").expect("what we send is known")
}

/// How many records answer a question.
const MOST_IN_ONE_ANSWER: usize = 3_000;

/// Compares until the end, and lets both take what they lack.
fn compare<C: Copies>(asker: &mut C, answerer: &mut C, since: (u32, u32)) -> (Outcome, Costs) {
    let mut costs = Costs::default();
    let (mut comparison, root) = Comparison::start(asker, 7, since.0, Classes::ALL);
    let (mut step, mut fetches) = (Step::Send(root), VecDeque::new());
    loop {
        step = match step {
            Step::Send(message) => match carried(&message, &mut costs) {
                Message::Fetch(fetch) => {
                    fetches.push_back(fetch);
                    while let Some(message) = comparison.ask_ahead() {
                        let Message::Fetch(ahead) = carried(&message, &mut costs) else {
                            panic!("it asks for records")
                        };
                        fetches.push_back(ahead);
                    }
                    assert!(fetches.len() <= FETCHES_AHEAD);
                    Step::Wait
                }
                question => {
                    let answer = match &question {
                        Message::Root(root) => answer_root(answerer, since.1, Classes::ALL, root),
                        Message::Parts(parts) => answer_parts(answerer, parts),
                        Message::Items(items) => answer_items(answerer, items),
                        other => panic!("no question of a comparison: {other:?}"),
                    };
                    match carried(&answer, &mut costs) {
                        Message::Root(root) => comparison.hear_root(asker, &root),
                        Message::Differ(differ) => comparison.hear_differ(asker, &differ),
                        Message::Missing(missing) => comparison.hear_missing(asker, &missing),
                        other => panic!("no answer of a comparison: {other:?}"),
                    }
                }
            },
            Step::Wait => {
                let fetch = fetches.pop_front().expect("an answer is under way");
                let mut keys = fetched(answerer, &fetch);
                // The size of an answer is limited, so it may lack some of the records.
                keys.truncate(MOST_IN_ONE_ANSWER);
                costs.fetched += keys.len();
                keys.iter().flatten().for_each(|key| asker.copy_from(answerer, fetch.class, key));
                comparison.hear_served(asker, fetch.round, keys.len())
            }
            Step::Deliver(class, keys) => {
                costs.delivered += keys.len();
                keys.iter().for_each(|key| answerer.copy_from(asker, class, key));
                comparison.proceed(asker)
            }
            Step::Over(outcome) => {
                assert!(fetches.is_empty(), "all questions are answered");
                return (outcome, costs);
            }
            Step::Ignore => panic!("an answer is ignored"),
        };
        assert!(costs.messages < 100_000, "a comparison ends");
    }
}

const EQUAL: Outcome = Outcome { equal: true, same_but_jobs: true };

/// The key of a return of the given minute and number.
fn return_key(minute: u32, number: u32) -> Key {
    let (day, hour, minute) = (minute / 1_440, minute / 60 % 24, minute % 60);
    let jid = format!("202601{:02}{hour:02}{minute:02}{:08}", day + 1, number % 60_000_000);
    Key::of_parts(&jid, &format!("web{number}")).unwrap()
}

fn everything(copy: &MemoryRecords) -> Vec<&crate::Record> {
    Class::ALL.iter().flat_map(|class| copy.all(*class)).collect()
}

#[test]
fn copies_that_differ_anyhow_become_equal() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut a, mut b) = (MemoryRecords::default(), MemoryRecords::default());
        let share = random.random_range(0.0..1.0);
        for number in 0..random.random_range(0..600) {
            let class = Class::ALL[random.random_range(0..Class::ALL.len())];
            let mut made = record::tests::any(&mut random, class);
            if class.is_timed() {
                let jid = return_key(random.random_range(0..6_000), number);
                let (jid, minion) = jid.parts().unwrap();
                made.key = if class == Class::Return { Key::of_parts(jid, minion) } else { Key::new(jid) }.unwrap();
            } else if class == Class::Data {
                made.key = Key::of_parts("grains", &format!("web{number}")).unwrap();
            }
            let other = record::tests::any(&mut random, class);
            let differing = crate::Record { key: made.key.clone(), ..other };
            if random.random_bool(share) {
                a.put(made.clone(), 0);
            }
            if random.random_bool(share) {
                b.put(if random.random_bool(0.1) { differing } else { made }, 0);
            }
        }
        let (outcome, costs) = compare(&mut a, &mut b, (0, 0));
        assert_eq!(outcome, EQUAL, "seed {seed}: {costs:?}");
        for class in Class::ALL {
            let digests =
                |copy: &MemoryRecords| copy.all(class).map(|one| (one.key.clone(), one.digest)).collect::<Vec<_>>();
            assert_eq!(digests(&a), digests(&b), "seed {seed}, {class}");
        }
        let (_, costs) = compare(&mut a, &mut b, (0, 0));
        assert_eq!(costs.messages, 2, "equal copies compare only their roots");
    }
}

#[test]
fn an_empty_copy_gets_all() {
    let mut random = StdRng::seed_from_u64(3);
    let (mut a, mut b) = (MemoryRecords::default(), MemoryRecords::default());
    for class in Class::ALL {
        b.put(record::tests::any(&mut random, class), 0);
    }
    assert_eq!(compare(&mut a, &mut b, (0, 0)).0, EQUAL);
    assert_eq!(everything(&a), everything(&b));
}

#[test]
fn what_one_member_has_dropped_is_left_alone() {
    let (mut a, mut b) = (Digests::default(), Digests::default());
    for minute in 0..3_000 {
        let key = return_key(minute, minute);
        b.add(Class::Return, key.clone(), Digest::of(&[b"return"]));
        if minute >= 2_000 && minute % 100 != 0 {
            a.add(Class::Return, key, Digest::of(&[b"return"]));
        }
    }
    let since = return_key(2_000, 0).minute().unwrap();
    for kept in [(since, 0), (0, since)] {
        let mut young = a.clone();
        let (outcome, costs) = compare(&mut young, &mut b, kept);
        assert_eq!(outcome, EQUAL);
        assert_eq!((costs.fetched, costs.delivered), (10, 0));
    }
}

#[test]
fn answers_of_another_comparison_are_ignored() {
    let (mut comparison, _) = Comparison::start(&Digests::default(), 7, 0, Classes::ALL);
    let root = Root { round: 6, since: 0, answer: true, sums: Vec::new() };
    assert_eq!(comparison.hear_root(&Digests::default(), &root), Step::Ignore);
    let missing = Missing { round: 7, here: vec![1], there: vec![2] };
    assert_eq!(comparison.hear_missing(&Digests::default(), &missing), Step::Ignore);
    assert_eq!(comparison.hear_served(&Digests::default(), 7, 1), Step::Ignore);
}

#[test]
fn answers_that_were_not_asked_for_are_dropped() {
    let mut own = Digests::default();
    own.add(Class::Keys, Key::new("web1").unwrap(), Digest([1; 16]));
    let (mut comparison, _) = Comparison::start(&own, 7, 0, Classes::ALL);
    let (level, part) = (Level::Byte, leaf_of(Class::Keys, &Key::new("web1").unwrap()));
    let root = Root { round: 7, since: 0, answer: true, sums: vec![(Class::Keys, crate::Sum::default())] };
    let differ = Differ { round: 7, level, parts: vec![part, part] };
    let missing = Missing { round: 7, here: vec![], there: vec![5, 5] };
    assert_eq!(comparison.hear_differ(&own, &differ), Step::Ignore);
    assert!(matches!(comparison.hear_root(&own, &root), Step::Send(Message::Parts(_))));
    assert_eq!(comparison.hear_root(&own, &root), Step::Ignore, "a second time");
    assert_eq!(comparison.hear_missing(&own, &missing), Step::Ignore);
    assert_eq!(comparison.hear_differ(&own, &Differ { level: Level::Day, ..differ.clone() }), Step::Ignore);
    let Step::Send(Message::Items(items)) = comparison.hear_differ(&own, &differ) else { panic!("records are next") };
    assert_eq!(items.leaves, [part], "a part that is named twice is one");
    assert_eq!(comparison.hear_differ(&own, &differ), Step::Ignore);
    assert_eq!(comparison.hear_served(&own, 7, 1), Step::Ignore);
    let Step::Send(Message::Fetch(fetch)) = comparison.hear_missing(&own, &missing) else { panic!("it lacks one") };
    assert_eq!(fetch.hashes, [5]);
    assert!(matches!(comparison.hear_served(&own, 7, 4_000), Step::Send(Message::Root(_))));
}

#[test]
fn finer_parts_are_taken_only_within_those_that_were_asked_about() {
    let mut own = Digests::default();
    own.add(Class::End, Key::new("20240229131415678901").unwrap(), Digest([1; 16]));
    let minute = Key::new("20240229131415678901").unwrap().minute().unwrap();
    let (mut comparison, _) = Comparison::start(&own, 7, 0, Classes::ALL);
    let root = Root { round: 7, since: 0, answer: true, sums: vec![(Class::End, crate::Sum::default())] };
    comparison.hear_root(&own, &root);
    let day = Differ { round: 7, level: Level::Day, parts: vec![minute / 1_440] };
    assert!(matches!(comparison.hear_differ(&own, &day), Step::Send(Message::Parts(_))));
    let hours = Differ { round: 7, level: Level::Hour, parts: vec![0, minute / 60, u32::MAX] };
    let Step::Send(Message::Parts(parts)) = comparison.hear_differ(&own, &hours) else { panic!("minutes are next") };
    assert_eq!(parts.within, Some((Level::Hour, vec![minute / 60])));
}

#[test]
fn a_part_or_record_that_is_named_often_is_answered_once() {
    let mut own = MemoryRecords::default();
    let mut random = StdRng::seed_from_u64(3);
    let made = record::tests::any(&mut random, Class::End);
    let leaf = leaf_of(Class::End, &made.key);
    let hash = crate::ItemHash::of(Class::End, &made.key, made.digest).short();
    own.put(made.clone(), 0);
    let (class, leaves, hashes) = (Class::End, vec![leaf; 8_192], vec![hash; 3]);
    let fetch = Fetch { round: 1, class, since: 0, leaves: leaves.clone(), hashes };
    assert_eq!(fetched(&own, &fetch), [Some(made.key.clone()), None, None]);
    let many = Fetch { hashes: vec![hash; 100_000], ..fetch };
    assert!(fetched(&own, &many).len() <= 4_096);
    let day = vec![leaf / 1_440; 8_192];
    let parts = Parts { round: 1, class, since: 0, level: Level::Hour, within: Some((Level::Day, day)), sums: vec![] };
    let Message::Differ(differ) = answer_parts(&own, &parts) else { panic!("the answer") };
    assert_eq!(differ.parts, [leaf / 60]);
}

/// Compares `all` returns of a day, of which each side lacks some in a part of the minutes. Returns the costs.
fn a_day(all: u32, missing: u32) -> Costs {
    let minutes = 1_440;
    let affected = 200;
    let (mut a, mut b) = (Digests::default(), Digests::default());
    let digest = Digest::of(&[b"return"]);
    let mut random = StdRng::seed_from_u64(1);
    // Every missing return is one of the affected minutes, on one of the sides.
    let each = all / minutes;
    let mut lacking: BTreeSet<u32> = BTreeSet::new();
    while lacking.len() < missing as usize {
        lacking.insert(random.random_range(0..affected) * 7 % minutes * each + random.random_range(0..each));
    }
    for number in 0..all {
        let key = return_key((number / each).min(minutes - 1), number);
        let lacks = lacking.contains(&number);
        if !lacks || number % 2 == 0 {
            a.add(Class::Return, key.clone(), digest);
        }
        if !lacks || number % 2 == 1 {
            b.add(Class::Return, key, digest);
        }
    }
    let begun = std::time::Instant::now();
    let (outcome, costs) = compare(&mut a, &mut b, (0, 0));
    println!("{all} returns, {missing} missing: {costs:?}, {:?}", begun.elapsed());
    assert_eq!(outcome, EQUAL);
    assert_eq!(costs.fetched + costs.delivered, missing as usize, "exactly what is missing is sent");
    assert_eq!(a.items.len(), all as usize);
    assert_eq!(a.items, b.items);
    costs
}

#[test]
fn comparing_finds_exactly_what_is_missing() {
    // The full run uses the size that the design was measured with.
    let full = std::env::var_os("SALTERN_HISTORIES").is_some();
    let (all, missing) = if full { (1_000_000, 3_100) } else { (100_000, 310) };
    let costs = a_day(all, missing);
    assert!(costs.sums < 100_000, "the sums of a day stay small: {costs:?}");
    assert!(costs.hashes < 3 * all as usize, "only parts that differ are named: {costs:?}");
}

#[test]
fn a_member_that_was_away_gets_the_keys_and_the_returns_of_100_000_minions() {
    const MINIONS: u32 = 100_000;
    let (mut whole, mut behind) = (Digests::default(), Digests::default());
    let digest = Digest::of(&[b"content"]);
    for number in 0..MINIONS {
        let key = Key::new(&format!("web{number}")).unwrap();
        whole.add(Class::Keys, key.clone(), digest);
        // It was away when every two hundredth minion was accepted.
        if number % 200 != 0 {
            behind.add(Class::Keys, key, digest);
        }
    }
    // Two jobs for all of them, each within one minute: the finest part has more returns than fit into a message.
    for number in 0..2 * MINIONS {
        let key = return_key(number / MINIONS * 60, number);
        whole.add(Class::Return, key.clone(), digest);
        if number < MINIONS {
            behind.add(Class::Return, key, digest);
        }
    }
    let (outcome, costs) = compare(&mut behind, &mut whole, (0, 0));
    assert_eq!(outcome, EQUAL);
    assert_eq!((costs.fetched, costs.delivered), ((MINIONS + MINIONS / 200) as usize, 0), "exactly what is missing");
    assert_eq!(behind.items, whole.items);
    // A hash of eight bytes for each missing return and key, twice, and for the keys beside them.
    assert!(costs.hashes < 40 * MINIONS as usize && costs.sums < 100_000, "{costs:?}");
}
