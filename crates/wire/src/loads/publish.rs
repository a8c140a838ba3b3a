//! Publishing a job: the request of a command line, the job itself, and the message that carries it.

use bytes::Bytes;
use value::{Map, Value};

use super::field::{Nullable, load};
use crate::msgpack::{self, Decode, Packing};

load! {
    /// A local user asks the master to publish a job (clear command `publish`).
    pub struct PublishRequest {
        cmd "publish";
        /// The target: text, or a list for the target type `list`.
        pub tgt: Value,
        /// The function, or a list of functions.
        pub fun: Value,
        /// The arguments; a list of lists for several functions.
        pub arg: Value,
        /// The local user's key; empty for external authentication.
        pub key: Value,
        /// The target type; `glob` if missing.
        pub tgt_type: Option<String>,
        /// Comma-separated returners.
        pub ret: Option<Value>,
        /// The requested job id; usually empty.
        pub jid: Option<Value>,
        /// Options of the publication, and credentials.
        pub kwargs: Option<Map>,
        /// The local user, perhaps with `sudo_` in front.
        pub user: Option<String>,
        /// Seconds syndics should wait; with `order_masters`.
        pub to: Option<Value>,
    }
}

load! {
    /// A job on its way to the minions.
    pub struct Publication {
        /// The function, or a list of functions.
        pub fun: Value,
        /// The arguments; a list of lists for several functions.
        pub arg: Value,
        /// The target: text or a list.
        pub tgt: Value,
        /// The job id.
        pub jid: String,
        /// Comma-separated returners; empty for none.
        pub ret: Option<Value>,
        /// The `master_id` of the publishing master, if it has one.
        pub master_id: Option<Value>,
        /// The delimiter in grain and pillar targets, if not `:`.
        pub delimiter: Option<String>,
        /// The minion that asked for the job, with peer publishing.
        pub id: Option<String>,
        /// The target type; `glob` if missing.
        pub tgt_type: Option<String>,
        /// Seconds syndics should wait; with `order_masters`.
        pub to: Option<Value>,
        /// Configuration for the returners.
        pub ret_config: Option<Value>,
        /// Data that the caller wants to find with the job later.
        pub metadata: Option<Value>,
        /// Executors to use instead of the minion's.
        pub module_executors: Option<Value>,
        /// Options for those executors.
        pub executor_opts: Option<Value>,
        /// Arguments for the returners.
        pub ret_kwargs: Option<Value>,
        /// Minions send an event when they start the job (3008).
        pub start_event: Option<Value>,
        /// The user who requested the job.
        pub user: Option<Value>,
        /// The permissions of the user, for syndics.
        pub auth_list: Option<Value>,
        /// The number of the publication under the master's current AES key; minions refuse repeated numbers.
        pub serial: Option<i64>,
    }
}

load! {
    /// A publication as minions receive it: the sealed [`Publication`], perhaps signed.
    pub struct PublicationMessage {
        /// Always `aes`.
        pub enc: String,
        /// The job, sealed with the master's AES key.
        pub load: Bytes,
        /// The algorithm of the signature; missing from older releases.
        pub sig_algo: Option<String>,
        /// PKCS #1 v1.5 by the master's key over `load`; missing with `sign_pub_messages: False`.
        pub sig: Option<Bytes>,
        /// The same publication as a separate payload, sealed with the key before the last rotation. Only minions of
        /// Saltern get publications with it.
        pub before: Option<Bytes>,
    }
}

impl PublicationMessage {
    /// Returns the message without a signature.
    pub fn unsigned(load: Bytes) -> Self {
        // Salt names no algorithm either when `sign_pub_messages` is off.
        PublicationMessage { enc: "aes".into(), load, sig_algo: None, sig: None, before: None, extra: Map::new() }
    }

    /// Reads the message from the payload of a publication.
    pub fn decode(payload: &Bytes) -> Result<Self, PublicationError> {
        // A minion reads this before it has checked the signature.
        Ok(Self::from_value(msgpack::unpack_within(payload, Decode::Default, MOST_VALUES)?)?)
    }

    /// Returns the payload of the publication.
    pub fn encode(&self) -> Bytes {
        msgpack::pack(&self.to_value(), Packing::Wire).into()
    }
}

/// The maximum number of values in a publication whose load is still sealed. Real ones have about ten.
const MOST_VALUES: usize = 256;

/// A payload that is not a publication.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicationError {
    /// The MessagePack is broken.
    #[error(transparent)]
    Msgpack(#[from] msgpack::Error),
    /// The fields are not those of a publication.
    #[error(transparent)]
    Load(#[from] super::LoadError),
}

load! {
    /// The answer to a [`PublishRequest`] that was allowed, inside `{"enc": "clear", "load": …}`.
    pub struct Published {
        /// The job id; `None` when the target matched no minion.
        pub jid: Nullable<String>,
        /// The minions expected to answer.
        pub minions: Vec<String>,
        /// Ids of a list target that are not accepted.
        pub missing: Option<Vec<Value>>,
        /// The reason why nothing was published.
        pub error: Option<Value>,
    }
}
