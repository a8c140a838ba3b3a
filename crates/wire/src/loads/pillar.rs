//! The pillar request and its private reply.

use bytes::Bytes;
use value::{Map, Value};

use super::field::load;
use crate::MinionId;

load! {
    /// A minion asks for its pillar.
    pub struct PillarRequest {
        /// The minion.
        pub id: MinionId,
        /// The minion's grains.
        pub grains: Map,
        /// The environment, or `None`.
        pub saltenv: Option<Value>,
        /// The pillar environment, or `None`.
        pub pillarenv: Option<Value>,
        /// Pillar given on the command line, or `None`.
        pub pillar_override: Option<Value>,
        /// Values for external pillars.
        pub extra_minion_data: Option<Value>,
        /// `"2"`: the answer may be a private reply.
        pub ver: Option<Value>,
        cmd "_pillar";
        /// External pillars to use instead of the master's.
        pub ext: Option<Value>,
        /// Drop the master's cached pillar first.
        pub clean_cache: Option<bool>,
    }
}

load! {
    /// The private reply, sealed with a key made for this message only.
    pub struct PillarReply {
        /// The one-time key, encrypted to the minion.
        pub key: Bytes,
        /// A [`SignedPillar`] (or, for version 1, the pillar itself), sealed with that key.
        pub pillar: Bytes,
    }
}

load! {
    /// The content of the private reply.
    pub struct SignedPillar {
        /// A packed [`PillarContent`].
        pub data: Bytes,
        /// PKCS #1 v1.5 by the master's key over `data`.
        pub sig: Bytes,
    }
}

load! {
    /// The data that the master signs.
    pub struct PillarContent {
        /// The same bytes as [`PillarReply::key`].
        pub key: Bytes,
        /// The pillar.
        pub pillar: Value,
        /// The nonce of the request.
        pub nonce: String,
    }
}
