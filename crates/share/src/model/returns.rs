//! Which of two returns of a minion for one job counts if a reader is involved.
//!
//! Records of returns are not signed, and their stamps can be invented: with an early stamp, a return takes the place of another one on
//! all members. Masters are trusted with that, as they can command all minions anyway. A reader may only add what is missing.

use super::Model;
use crate::member::Role;
use crate::records::Records;
use crate::{Content, Node, Record};

/// What becomes of a return of another member beside the one that is here.
pub(super) enum ReturnVerdict {
    /// The rules for all records decide.
    Merge,
    /// It takes the place of the one that is here.
    Replace,
    /// It is not taken. `differs` says whether it says something else.
    Keep { differs: bool },
}

impl<R: Records> Model<R> {
    /// Judges a return that a member sent. Masters do not take another one of a reader, and a reader takes that of a master, so that
    /// copies become equal.
    pub(super) fn judge_return(&self, from: Node, before: &Record, record: &Record) -> ReturnVerdict {
        let reads = |node: Node| self.members.role(node) == Some(Role::Reader);
        match (reads(from), reads(self.node)) {
            _ if before.digest == record.digest => ReturnVerdict::Merge,
            (true, false) => ReturnVerdict::Keep { differs: packed(before) != packed(record) },
            (false, true) => ReturnVerdict::Replace,
            _ => ReturnVerdict::Merge,
        }
    }
}

fn packed(record: &Record) -> Option<&[u8]> {
    match &record.content {
        Content::Return(returned) => Some(&returned.packed),
        _ => None,
    }
}
