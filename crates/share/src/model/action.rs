//! What the model wants to be done.

use bytes::Bytes;

use crate::{Class, Digest, Key, KeyFile, Lane, Message, Node, Record, State, To};

/// Something to do, in the order in which it was returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Give this message to the carrier.
    Send {
        /// Who gets it.
        to: To,
        /// In which lane.
        lane: Lane,
        /// The packed message.
        message: Bytes,
    },
    /// A record is new here or says something else than before: fire its events, pass it to who waits for it.
    Changed(Record),
    /// A change that was made here is not stored: the disk is full, or nobody could read it. Others do not hear of it.
    NotStored {
        /// The class of the record.
        class: Class,
        /// Its key.
        key: Key,
        /// Why it is not stored.
        reason: String,
    },
    /// Make the key files of an id say this.
    WriteKey {
        /// The minion id.
        id: Key,
        /// The state and the public key; `None` if the key is deleted.
        present: Option<(State, Bytes)>,
        /// The key that was denied beside it.
        denied: Option<Bytes>,
    },
    /// Move the key file of an id to the pending keys, and say why.
    SetAside {
        /// The minion id.
        id: Key,
        /// Why nothing was decided.
        reason: &'static str,
    },
    /// Another key file lies beside the accepted one, as from an old backup. Nothing is decided by it: say so.
    CopyBeside {
        /// The minion id.
        id: Key,
        /// The accepted key.
        accepted: Bytes,
        /// The file beside it.
        copy: KeyFile,
    },
    /// The key file of this id vanished, and no program said so in time. It counts as deleted, unless that could not be stored.
    KeyDeleted(Key),
    /// Too many key files vanished at once to be deletions. Report it, and wait for an operator to decide.
    KeysLost(Vec<Key>),
    /// Members decided differently about a key without knowing of each other.
    Conflict {
        /// [`Class::Keys`] or [`Class::Members`].
        class: Class,
        /// The key.
        key: Key,
    },
    /// Records that were sent are as safe at this member as here.
    Safe {
        /// The member.
        node: Node,
        /// Which records.
        records: Vec<(Class, Key)>,
    },
    /// A deletion of a minion key has expired and is forgotten: what keeps it elsewhere may forget it, too.
    Forgotten {
        /// The minion id.
        id: Key,
        /// What the record said.
        digest: Digest,
    },
    /// Close the link to this node: it is no member any more.
    Unlink(Node),
    /// A message that is about something else than records.
    Received {
        /// Who sent it.
        from: Node,
        /// The message.
        message: Message,
    },
    /// Copies were equal at this time of the wall clock: to be written down.
    Compared {
        /// With whom.
        node: Node,
        /// When.
        at: u64,
    },
    /// Write this to the log.
    Warn(String),
}
