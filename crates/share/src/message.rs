//! Messages between members: MessagePack lists whose first element is the kind.
//!
//! A member of a later version may send kinds and further fields that this one does not know. They are passed over. Everything
//! else that is not as it should be makes the whole message an error: it comes from a member whose identity is proven.

use bytes::Bytes;
use value::Value;

use crate::fields::{self, Fields, MAX_NAME, Malformed};
use crate::{Class, Digest, Key, Node, Record, Stamp};

mod codec;
mod compare;
mod here;

pub(crate) use compare::MOST_PARTS;
pub use compare::{Differ, Fetch, Items, Missing, Parts, Root};
pub use here::{Here, HereChange};

/// The maximum length of a message that a carrier takes, in bytes. Larger ones are sent as [`Part`]s.
pub const MAX_MESSAGE: usize = 512 * 1024;

/// The maximum length of a message that is put together from parts, in bytes: a record and what travels beside it fit into it.
pub const MAX_WHOLE: usize = Record::MAX_CONTENT + (1 << 20);

/// What one member tells another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Records.
    Put(Put),
    /// Records of a `put` are as safe as the receiver's own.
    Stored(Stored),
    /// Records that the sender has, without their contents.
    Have(Vec<Have>),
    /// Asks for records by their keys.
    Want(Vec<(Class, Key)>),
    /// The sums of all classes: the start of a comparison, its end, and the answer to both.
    Root(Root),
    /// The sums of parts of a class.
    Parts(Parts),
    /// Which of these parts differ.
    Differ(Differ),
    /// Short hashes of the records of some parts.
    Items(Items),
    /// Which of these records one of the two lacks.
    Missing(Missing),
    /// Asks for records by their short hashes.
    Fetch(Fetch),
    /// A job to publish.
    Job(Job),
    /// How far publications have come.
    Progress(Vec<Progress>),
    /// A held job that an operator dropped: nobody delivers it any more.
    Drop(String),
    /// Events for the bus of the receiver.
    Events(Vec<Event>),
    /// Minions that are connected to the sender.
    Here(Here),
    /// Digests of what members compare: files, pillar and configuration, and which minions are connected.
    Digests(Vec<NamedDigest>),
    /// A question.
    Ask(Ask),
    /// The answer to a question.
    Answer(Answer),
    /// A message about leases, packed by the votes.
    Vote(Bytes),
    /// A part of a message that is too large for a carrier.
    Part(Part),
}

/// Records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// By which the answer names the message.
    pub number: u64,
    /// The records, each with for how long it has been known in milliseconds.
    pub records: Vec<(Record, u64)>,
    /// Places of records that could not be read, and why; no reason for those of a later version. Only what was read has them.
    pub unreadable: Vec<(u64, Option<Malformed>)>,
    /// Set in the last message that answers [`Message::Fetch`]: the comparison, and how many of its hashes are dealt with.
    pub served: Option<(u64, u64)>,
}

/// Records of a `put` are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The number of the `put`.
    pub number: u64,
    /// Places of records that were refused, and why.
    pub refused: Vec<(u64, String)>,
    /// Places of records that the receiver does not keep: they are too old for it, or of a class that it does not share.
    pub not_kept: Vec<u64>,
}

/// A record that the sender has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Have {
    /// Its class.
    pub class: Class,
    /// Its key.
    pub key: Key,
    /// Its digest.
    pub digest: Digest,
    /// When it was written.
    pub stamp: Stamp,
}

/// A job that the receiver publishes to minions that are connected to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The load, as the job cache keeps it. The receiver makes the publication of it, so that what its log and job cache say is
    /// what minions get.
    pub load: Record,
    /// The targets that are connected to the receiver.
    pub yours: Vec<String>,
    /// The targets that are connected to no member.
    pub rest: Vec<String>,
    /// For how long the job is valid, in milliseconds.
    pub valid_for: u64,
    /// Who published it.
    pub user: String,
    /// The member at which it was published.
    pub origin: Node,
    /// When it was sent, by the clock of that member that never jumps; `None` from earlier versions.
    pub sent: Option<u64>,
}

/// How far the publication of a job to a minion has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The job.
    pub jid: String,
    /// The minion.
    pub minion: String,
    /// How far. The numbers are those of the routes.
    pub how_far: u64,
}

/// An event for the bus of the receiver.
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    /// Its tag.
    pub tag: String,
    /// Its data, packed.
    pub data: Bytes,
    /// The minion that it came from.
    pub minion: Option<String>,
    /// When it was fired.
    pub stamp: Stamp,
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Event({:?}, {} bytes)", self.tag, self.data.len())
    }
}

/// The digest of one thing that members compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDigest {
    /// What it is: `files`, `pillar`, `config`, `presence`.
    pub kind: String,
    /// Which one: an environment, a remote. May be empty.
    pub name: String,
    /// Its digest.
    pub digest: Digest,
}

/// A question to another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// By which the answer names the question.
    pub number: u64,
    /// What is asked.
    pub question: String,
    /// Its arguments, packed.
    pub arguments: Bytes,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The number of the question.
    pub number: u64,
    /// The answer, packed.
    pub value: Bytes,
}

/// A part of a message that is too large for a carrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// By which the parts of a message belong together.
    pub id: u64,
    /// Which part this is, from 0.
    pub place: u64,
    /// How many there are.
    pub of: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

impl Message {
    /// Packs the message.
    pub fn encode(&self) -> Bytes {
        let (kind, mut rest) = codec::to_fields(self);
        rest.insert(0, Value::from(kind));
        fields::packed(rest)
    }

    /// Reads a message; `None` if it is of a kind that this version does not know.
    pub fn decode(packed: &Bytes) -> Result<Option<Message>, Malformed> {
        if packed.len() > MAX_WHOLE {
            return Err(Malformed("a message"));
        }
        // Lists of ids have the most values: an id of one character takes two bytes.
        let most = (1_024 + packed.len() / 2).min(2 << 20);
        let mut fields = Fields::open(packed, most, "a message")?;
        let kind = fields.text("the kind of a message", MAX_NAME)?;
        codec::from_fields(&kind, fields)
    }
}

#[cfg(test)]
mod tests;
