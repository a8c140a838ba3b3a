//! The messages themselves, one file per subject.
//!
//! Each type has its fields in the order in which Salt writes them, `from_map` and `into_map`, and a map `extra` for
//! what it does not know: fields of other releases, and what the channel adds (`nonce`, `ts`, `tok`, `sig`). Those keep
//! their order behind the known ones. Where a signature covers the order of a received map, check it on that map, not on
//! what these types make of it.
//!
//! [`command`] says which type a received load is.

mod abilities;
mod auth;
mod event;
mod field;
mod file;
mod mine;
mod opts;
mod peer;
mod pillar;
mod publish;
mod r#return;
mod token;

pub use abilities::{Abilities, Ability, FIELD as ABILITIES_FIELD};
pub use auth::{
    AWAIT_FIELD, AuthAccepted, AuthAnswer, AuthRefused, AuthReply, AuthRequest, TRY_AGAIN, Verdict, is_nonce,
};
pub use event::{EventItem, MinionEvent, MinionEvents};
pub use field::{LoadError, Nullable, Problem};
pub use file::{
    DirList, FileChunk, FileEnvs, FileFind, FileFound, FileHash, FileHashAndStat, FileList, FileListEmptyDirs,
    FileReceive, FileSum, ServeFile, SymlinkList,
};
pub use mine::{Mine, MineDelete, MineFlush, MineGet};
pub use opts::{MasterOpts, MasterTops, RegisterResources};
pub use peer::{MinionPub, MinionPublish, MinionRunner, PubRet, RevokeAuth};
pub use pillar::{PillarContent, PillarReply, PillarRequest, SignedPillar};
pub use publish::{Publication, PublicationError, PublicationMessage, PublishRequest, Published};
pub use r#return::{Return, SyndicJob, SyndicReturn};
pub use token::{GetToken, MakeToken, RunnerRequest, WheelRequest};

use value::Map;

/// Returns the command a load asks for, if it names one.
pub fn command(load: &Map) -> Option<&str> {
    load.get_str("cmd")
}

#[cfg(test)]
mod tests;
