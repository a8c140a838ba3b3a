//! The messages, one file per subject.
//!
//! Each type has its fields in the order in which Salt writes them, the functions `from_map` and `into_map`, and a map
//! `extra` for unknown fields: those of other releases, and those that the channel adds (`nonce`, `ts`, `tok`, `sig`).
//! They keep their order behind the known ones. If a signature covers the order of a received map, verify it on that
//! map and not on the output of these types.
//!
//! [`command`] returns the name of the command, which determines the type.

mod abilities;
mod auth;
mod event;
mod field;
mod file;
mod jobs;
mod master;
mod mine;
mod peer;
mod pillar;
mod publish;
mod r#return;

pub use abilities::{Abilities, Ability, FIELD as ABILITIES_FIELD, Sender};
pub use auth::{
    AWAIT_FIELD, AuthAccepted, AuthAnswer, AuthOutcome, AuthRefused, AuthReply, AuthRequest, TRY_AGAIN, Verdict,
    is_nonce,
};
pub use event::MinionEvent;
pub use field::{Lenient, LoadError, Nullable, Problem, Text, Texts};
pub use file::{
    DirList, FileChunk, FileEnvs, FileFind, FileFound, FileHash, FileHashAndStat, FileList, FileListEmptyDirs,
    FileReceive, FileSum, ServeFile, SymlinkList,
};
pub use jobs::{AwayMinions, DropJob, JobProgress, MissedJobs, ReceivedJobs, ReturnForPeer};
pub use master::{GetToken, MakeToken, MasterOpts, RegisterResources, RevokeAuth};
pub use mine::{MineDelete, MineGet, MineStore};
pub use peer::{PeerPublish, PeerReturns, PeerRunner};
pub use pillar::{PillarContent, PillarReply, PillarRequest, SignedPillar};
pub use publish::{Publication, PublicationError, PublicationMessage, PublishRequest, Published};
pub use r#return::Return;

use value::Map;

/// Returns the command of a load, if it has one.
pub fn command(load: &Map) -> Option<&str> {
    load.get_str("cmd")
}

#[cfg(test)]
mod tests;
