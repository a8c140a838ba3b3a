//! Contents of records, class by class: their fields, and which of two copies counts.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use value::{Map, Value};
use wire::msgpack::{Decode, most_values, unpack_within};

use super::Record;
use crate::fields::{self, Fields, MAX_NAME, Malformed};
use crate::{Class, Digest, Entry, Key, Node, SignedDecision};

/// What a record says.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// What was decided about a member or a minion key.
    Decided(Class, Entry),
    /// The last public key that was refused because its id has another one.
    Denied(Bytes),
    /// A published job.
    Job {
        /// The packed load.
        load: Bytes,
        /// The job cache keeps no returns of it.
        nocache: bool,
    },
    /// The minions from which a job expects returns, by the syndic that named them; the master's own are under the empty name.
    Expected(BTreeMap<String, BTreeSet<String>>),
    /// What a minion returned for a job.
    Return(Return),
    /// When a job ended, in milliseconds since 1970.
    End(u64),
    /// Packed grains, pillar or mine of a minion; `None` once they were dropped.
    Data(Option<Bytes>),
    /// A token of external authentication.
    Token {
        /// The packed token; `None` once it was revoked.
        token: Option<Bytes>,
        /// Until when it counts, in milliseconds since 1970.
        expires: u64,
    },
    /// Something that must happen once in the set.
    Claim(Claim),
}

/// What a minion returned for a job.
#[derive(Clone, PartialEq, Eq)]
pub struct Return {
    /// The packed return.
    pub packed: Bytes,
    /// The outputter that the minion named.
    pub out: Option<String>,
    /// The member that published the job to this minion.
    pub publisher: Node,
    /// Another master than the publisher got the return from the minion.
    pub copy: bool,
}

/// Who takes care of something that must happen once in the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The member that does it.
    pub node: Node,
    /// When it began, in milliseconds since 1970.
    pub begun: u64,
    /// When it was done.
    pub done: Option<u64>,
}

/// Shows no content: returns and tokens are confidential.
impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Content({})", self.class())
    }
}

impl Content {
    /// Returns the class.
    pub fn class(&self) -> Class {
        match self {
            Content::Decided(class, _) => *class,
            Content::Denied(_) => Class::Denied,
            Content::Job { .. } => Class::Job,
            Content::Expected(_) => Class::Expected,
            Content::Return(_) => Class::Return,
            Content::End(_) => Class::End,
            Content::Data(_) => Class::Data,
            Content::Token { .. } => Class::Token,
            Content::Claim(_) => Class::Claim,
        }
    }

    /// Returns the digest of what is compared. What only decides which copy counts is left out, such as who sent a return.
    pub(super) fn digest(&self) -> Digest {
        match self {
            Content::Decided(_, entry) => entry.digest(),
            // `out`, publisher and copy mark are left out: a minion that sends to two masters makes two returns that are equal to
            // everybody.
            Content::Return(Return { packed, .. }) => Digest::of(&[packed]),
            _ => Digest::of(&[&self.pack()]),
        }
    }

    /// Returns whether every member can make the digest, so that there is no need to believe another one. A merged content needs
    /// a digest of its own; the others are kept in a form that may differ from the one that was sent.
    pub(super) fn is_canonical(&self) -> bool {
        !matches!(self, Content::Return(_) | Content::Data(_) | Content::Token { .. })
    }

    /// Returns whether a job was published by a master. A minion that ran a job by itself is named in its load.
    ///
    /// Minions choose the ids of such jobs, so one must never take the place of a job that somebody published.
    pub fn is_published(&self) -> bool {
        // Salt writes `id` into loads that minions store for jobs of their own, and into no others.
        self.load().is_some_and(|load| !load.contains_key("id"))
    }

    /// Returns whether this and another publication with the same id are parts of one batch: a batch publishes the same to some minions
    /// after others.
    pub fn is_of_same_batch(&self, other: &Content) -> bool {
        let (Content::Job { nocache: mine, .. }, Content::Job { nocache: theirs, .. }) = (self, other) else {
            return false;
        };
        let (Some(load), Some(other)) = (self.load(), other.load()) else { return false };
        let same = |names: &[&str]| names.iter().all(|name| load.get(name) == other.get(name));
        mine == theirs && same(&["id", "user", "fun", "arg"]) && !same(&["tgt", "tgt_type"]) && !load.contains_key("id")
    }

    fn load(&self) -> Option<Map> {
        let Content::Job { load, .. } = self else { return None };
        unpack_within(load, Decode::Default, most_values(load.len())).ok()?.into_map()
    }

    /// Returns roughly how many bytes the packed content takes.
    pub(super) fn size(&self) -> usize {
        match self {
            Content::Decided(_, entry) => entry.decisions().iter().map(|one| one.packed().len() + 72).sum(),
            Content::Denied(key) => key.len(),
            Content::Job { load, .. } => load.len(),
            Content::Expected(sets) => sets.values().flatten().map(|minion| minion.len() + 2).sum(),
            Content::Return(Return { packed, .. }) => packed.len() + 16,
            Content::Data(value) => value.as_ref().map_or(0, Bytes::len),
            Content::Token { token, .. } => token.as_ref().map_or(0, Bytes::len) + 16,
            Content::End(_) | Content::Claim(_) => 32,
        }
    }

    pub(super) fn pack(&self) -> Bytes {
        let fields = match self {
            Content::Decided(_, entry) => entry.decisions().iter().map(|decision| decision_value(decision)).collect(),
            Content::Denied(key) => vec![Value::bytes(key.clone())],
            Content::Job { load, nocache } => vec![Value::bytes(load.clone()), Value::Bool(*nocache)],
            Content::Expected(sets) => sets.iter().map(expected_value).collect(),
            Content::Return(Return { packed, out, publisher, copy }) => vec![
                Value::bytes(packed.clone()),
                out.as_deref().map_or(Value::Null, Value::from),
                fields::node(*publisher),
                Value::Bool(*copy),
            ],
            Content::End(time) => vec![fields::number(*time)],
            Content::Data(value) => vec![fields::optional(value.as_ref())],
            Content::Token { token, expires } => vec![fields::optional(token.as_ref()), fields::number(*expires)],
            Content::Claim(Claim { node, begun, done }) => {
                let done = done.map_or(Value::Null, fields::number);
                vec![fields::node(*node), fields::number(*begun), done]
            }
        };
        fields::packed(fields)
    }

    pub(super) fn unpack(class: Class, key: &Key, packed: &Bytes) -> Result<Content, Malformed> {
        const WHAT: &str = "the content of a record";
        // Only sets of minions have many values. They are counted while they are read: each occupies far more memory than bytes.
        let most = if class == Class::Expected { VALUES_OF_EXPECTED } else { 4 * Entry::MAX_DECISIONS };
        let mut fields = Fields::open(packed, most, WHAT)?;
        let max = Record::MAX_CONTENT;
        Ok(match class {
            Class::Members | Class::Keys => Content::Decided(class, read_entry(class, key, fields)?),
            Class::Denied => Content::Denied(fields.bytes(WHAT, crate::MAX_CONTENT)?),
            Class::Job => Content::Job { load: fields.bytes(WHAT, max)?, nocache: fields.flag(WHAT)? },
            Class::Expected => Content::Expected(read_expected(fields)?),
            Class::Return => Content::Return(Return {
                packed: fields.bytes(WHAT, max)?,
                out: fields.optional_text("an outputter", MAX_NAME)?,
                publisher: fields.node()?,
                copy: fields.flag(WHAT)?,
            }),
            Class::End => Content::End(fields.number(WHAT)?),
            Class::Data => Content::Data(fields.optional_bytes(WHAT, max)?),
            Class::Token => {
                Content::Token { token: fields.optional_bytes(WHAT, max)?, expires: fields.number("an expiry")? }
            }
            Class::Claim => Content::Claim(Claim {
                node: fields.node()?,
                begun: fields.number("the begin of a claim")?,
                done: fields.optional_number("the end of a claim")?,
            }),
        })
    }
}

fn decision_value(decision: &SignedDecision) -> Value {
    let signature = Value::bytes(Bytes::copy_from_slice(decision.signature()));
    Value::List(vec![Value::bytes(decision.packed().clone()), signature])
}

fn read_entry(class: Class, key: &Key, mut list: Fields) -> Result<Entry, Malformed> {
    if list.left() == 0 || list.left() > Entry::MAX_DECISIONS {
        return Err(Malformed("an entry"));
    }
    let mut decisions = Vec::with_capacity(list.left());
    while list.left() > 0 {
        let mut pair = list.list("a decision", 8)?;
        let packed = pair.bytes("a decision", crate::MAX_DECISION)?;
        let decision = SignedDecision::unpack(packed, pair.array("a signature")?)?;
        if decision.class != class || decision.key != *key {
            return Err(Malformed("a decision about another key"));
        }
        decisions.push(decision);
    }
    Ok(Entry::new(decisions))
}

fn expected_value((syndic, minions): (&String, &BTreeSet<String>)) -> Value {
    let minions = minions.iter().map(|minion| Value::from(minion.as_str())).collect();
    Value::List(vec![Value::from(syndic.as_str()), Value::List(minions)])
}

fn read_expected(mut list: Fields) -> Result<BTreeMap<String, BTreeSet<String>>, Malformed> {
    let (mut sets, mut count) = (BTreeMap::new(), 0);
    while list.left() > 0 {
        let mut pair = list.list("expected minions", 8)?;
        let syndic = pair.text("a syndic", MAX_NAME)?;
        let mut minions = pair.list("expected minions", usize::MAX)?;
        count += minions.left();
        if count > MOST_EXPECTED {
            return Err(Malformed("expected minions"));
        }
        let set: &mut BTreeSet<String> = sets.entry(syndic).or_default();
        while minions.left() > 0 {
            set.insert(minions.text("a minion", MAX_NAME)?);
        }
        if sets.len() > MOST_SYNDICS {
            return Err(Malformed("expected minions"));
        }
    }
    Ok(sets)
}

/// The maximum number of minions from which a job expects returns: as many names as fit into a message.
const MOST_EXPECTED: usize = 200_000;

/// The maximum number of syndics below which a job expects returns. Each has a file of its own in the job cache.
const MOST_SYNDICS: usize = 1_000;

/// How many values such a content has at most: the list, and a pair with a name and a list for each syndic.
const VALUES_OF_EXPECTED: usize = 1 + 3 * (MOST_SYNDICS + 1) + MOST_EXPECTED;

/// Forgets the syndics and the minions that come last, so that the result is the same whoever merges what first.
fn limit_expected(sets: &mut BTreeMap<String, BTreeSet<String>>) {
    if let Some(first) = sets.keys().nth(MOST_SYNDICS).cloned() {
        sets.split_off(&first);
    }
    let mut left = MOST_EXPECTED;
    for minions in sets.values_mut() {
        if let Some(first) = minions.iter().nth(left).cloned() {
            minions.split_off(&first);
        }
        left -= minions.len();
    }
}

/// Returns what two copies make together: for most classes the one that comes first in the order of [`precedence`].
pub(super) fn merge(a: &Record, b: &Record) -> Record {
    match (&a.content, &b.content) {
        (Content::Decided(class, mine), Content::Decided(_, theirs)) => {
            // The stamp of a merged entry is the later one, which both sides compute alike: it decides nothing, but clocks follow it.
            let entry = mine.merge(theirs);
            Record::new(a.key.clone(), a.stamp.max(b.stamp), Content::Decided(*class, entry))
        }
        (Content::Expected(mine), Content::Expected(theirs)) => {
            let mut sets = mine.clone();
            for (syndic, minions) in theirs {
                sets.entry(syndic.clone()).or_default().extend(minions.iter().cloned());
            }
            limit_expected(&mut sets);
            Record::new(a.key.clone(), a.stamp.min(b.stamp), Content::Expected(sets))
        }
        // Copies that are equal in all that is compared here differ in nothing that anybody would notice.
        _ if precedence(a, b) == Ordering::Greater => b.clone(),
        _ => a.clone(),
    }
}

/// Compares two copies by which of them counts: the lesser one does.
fn precedence(a: &Record, b: &Record) -> Ordering {
    let first = || a.stamp.cmp(&b.stamp);
    let by_class = match (&a.content, &b.content) {
        // The publisher's own row before that of a master which only passed it on: its events and its job belong together.
        (Content::Return(mine), Content::Return(theirs)) => mine.copy.cmp(&theirs.copy).then_with(first),
        // A master writes it with each return, as Salt does.
        (Content::End(mine), Content::End(theirs)) => theirs.cmp(mine).then_with(first),
        (Content::Claim(mine), Content::Claim(theirs)) => {
            mine.done.is_none().cmp(&theirs.done.is_none()).then_with(first)
        }
        // Two that say the same need not be unpacked to see which of them was published.
        (Content::Job { .. }, _) if a.digest == b.digest => first(),
        (Content::Job { .. }, _) => b.content.is_published().cmp(&a.content.is_published()).then_with(first),
        // The latest counts.
        _ => first().reverse(),
    };
    // Two contents with one stamp are a mistake of their writer, which must not keep copies apart.
    by_class.then_with(|| a.digest.cmp(&b.digest)).then_with(|| a.content.pack().cmp(&b.content.pack()))
}
