//! The list of voters as it stands in files and messages.

use std::collections::BTreeSet;

use bytes::Bytes;
use value::Value;

use super::Ballot;
use crate::Node;
use crate::fields::{self, Fields, Malformed, number};

/// As many as there may be members.
const MOST: usize = 99;

/// How many fields a packed list has at most, those inside others counted.
const MOST_FIELDS: usize = 2 * MOST + 64;

/// How many bytes they have.
const MOST_BYTES: usize = 4_096;

/// The kind of message of a roll, among those of votes.
const KIND: u64 = 20;

/// A numbered list of voters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoterList {
    /// A person has had the set begin again without its earlier lists: later than each of them, whatever their numbers.
    pub epoch: Ballot,
    /// Each list has a higher number than the one before; 0 if there never was one.
    pub number: u64,
    /// The voters; empty if the set has too few of them and leases are taken by rank.
    pub nodes: BTreeSet<Node>,
}

impl Default for VoterList {
    fn default() -> VoterList {
        VoterList { epoch: Ballot::floor(0), number: 0, nodes: BTreeSet::new() }
    }
}

impl VoterList {
    pub(super) fn fields(&self) -> Vec<Value> {
        let mut fields = ballot_fields(self.epoch);
        fields.extend([number(self.number), nodes_field(&self.nodes)]);
        fields
    }

    fn read(fields: &mut Fields) -> Result<VoterList, Malformed> {
        let epoch = read_ballot(fields)?;
        Ok(VoterList { epoch, number: fields.number("the number of a list")?, nodes: read_nodes(fields)? })
    }

    /// Returns whether this list comes after another one. Two lists that were agreed on never share a number; should it happen, the
    /// same one counts everywhere.
    pub(super) fn follows(&self, other: &VoterList) -> bool {
        (self.epoch, self.number, &self.nodes) > (other.epoch, other.number, &other.nodes)
    }
}

/// What a member has promised and accepted about the list after the present one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextList {
    /// It takes part in no attempt below this ballot.
    pub promised: Ballot,
    /// The latest proposal that it has accepted.
    pub accepted: Option<(Ballot, BTreeSet<Node>)>,
}

impl Default for NextList {
    fn default() -> NextList {
        NextList { promised: Ballot::floor(0), accepted: None }
    }
}

impl NextList {
    fn fields(&self) -> Vec<Value> {
        let mut fields = ballot_fields(self.promised);
        let (ballot, nodes) = self.accepted.clone().unwrap_or((Ballot::floor(0), BTreeSet::new()));
        fields.push(Value::Bool(self.accepted.is_some()));
        fields.extend(ballot_fields(ballot));
        fields.push(nodes_field(&nodes));
        fields
    }

    fn read(fields: &mut Fields) -> Result<NextList, Malformed> {
        let promised = read_ballot(fields)?;
        let accepts = fields.flag("whether a list is accepted")?;
        let accepted = (read_ballot(fields)?, read_nodes(fields)?);
        Ok(NextList { promised, accepted: accepts.then_some(accepted) })
    }
}

/// What a member remembers of what it promised and accepted before its last start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Everything.
    #[default]
    Whole,
    /// It has lost its file and was told a list with itself. It may have known a later one, so it does not vote yet.
    Lost,
    /// It votes again, but takes no part in the choice of the next list, for it may have accepted one.
    Recovered,
}

/// What a member writes down about voters, so that it keeps its word after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedVoters {
    /// The list that it knows.
    pub list: VoterList,
    /// What it promised about the next one.
    pub next: NextList,
    /// What it had forgotten.
    pub memory: Memory,
    /// The longest lease that it may have granted, in milliseconds.
    pub lease_time: u64,
}

impl SavedVoters {
    /// Returns the bytes for the file.
    pub fn pack(&self) -> Bytes {
        let mut fields = self.list.fields();
        fields.extend(self.next.fields());
        fields.push(number(match self.memory {
            Memory::Whole => 0,
            Memory::Lost => 1,
            Memory::Recovered => 2,
        }));
        fields.push(number(self.lease_time));
        fields::packed(fields)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn unpack(packed: &Bytes) -> Result<SavedVoters, Malformed> {
        let mut fields = Fields::open(packed, MOST_FIELDS, "a list of voters")?;
        let (list, next) = (VoterList::read(&mut fields)?, NextList::read(&mut fields)?);
        let memory = match fields.number("what a member remembers")? {
            0 => Memory::Whole,
            1 => Memory::Lost,
            2 => Memory::Recovered,
            _ => return Err(Malformed("what a member remembers")),
        };
        Ok(SavedVoters { list, next, memory, lease_time: fields.number("a lease time")? })
    }
}

/// What a member tells the others about voters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roll {
    /// The list that it knows.
    pub list: VoterList,
    /// What it promised about the next one.
    pub next: NextList,
    /// The digest of the members that may vote, as it knows them.
    pub eligible: u64,
    /// It takes part in votes.
    pub votes: bool,
    /// It takes no part in the choice of the next list.
    pub abstains: bool,
}

impl Roll {
    /// Returns the bytes for [`Message::Vote`](crate::Message::Vote).
    pub fn pack(&self) -> Bytes {
        let mut known = self.list.fields();
        known.extend(self.next.fields());
        known.push(Value::Bool(self.abstains));
        fields::packed(vec![
            // As in other messages about votes, so that versions that do not know it pass it over.
            Value::from(""),
            Value::bytes(Bytes::copy_from_slice(&self.eligible.to_be_bytes())),
            number(KIND),
            number(0),
            fields::node(Node([0; 8])),
            number(u64::from(self.votes)),
            // One field: those versions read no message of more than a few.
            Value::bytes(fields::packed(known)),
        ])
    }

    /// Reads the bytes of another member; `None` if they are something else.
    ///
    /// # Errors
    /// If they are malformed.
    pub fn unpack(packed: &Bytes) -> Result<Option<Roll>, Malformed> {
        let mut fields = Fields::open(packed, 32, "a vote")?;
        fields.text("the name of a lease", super::voter::MAX_NAME)?;
        let eligible = u64::from_be_bytes(fields.array("the digest of voters")?);
        if fields.number("the kind of a vote")? != KIND {
            return Ok(None);
        }
        fields.number("a round")?;
        fields.node()?;
        let votes = fields.number("whether a member votes")? == 1;
        let known = fields.bytes("a list of voters", MOST_BYTES)?;
        let mut known = Fields::open(&known, MOST_FIELDS, "a list of voters")?;
        let (list, next) = (VoterList::read(&mut known)?, NextList::read(&mut known)?);
        let abstains = known.flag("whether a member abstains")?;
        Ok(Some(Roll { list, next, eligible, votes, abstains }))
    }
}

fn ballot_fields(ballot: Ballot) -> Vec<Value> {
    vec![number(ballot.round), fields::node(ballot.node)]
}

fn read_ballot(fields: &mut Fields) -> Result<Ballot, Malformed> {
    Ok(Ballot { round: fields.number("a round")?, node: fields.node()? })
}

fn nodes_field(nodes: &BTreeSet<Node>) -> Value {
    Value::List(nodes.iter().map(|node| fields::node(*node)).collect())
}

fn read_nodes(fields: &mut Fields) -> Result<BTreeSet<Node>, Malformed> {
    let mut list = fields.list("voters", MOST)?;
    let mut nodes = BTreeSet::new();
    while list.left() > 0 {
        nodes.insert(list.node()?);
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::super::{Vote, VoteMessage};
    use super::*;

    fn node(number: u8) -> Node {
        Node([number; 8])
    }

    #[test]
    fn rolls_and_files_come_back_as_they_were() {
        let ballot = |round| Ballot { round, node: node(9) };
        let list = VoterList { epoch: ballot(3), number: 7, nodes: [node(1), node(2)].into() };
        let next = NextList { promised: ballot(5), accepted: Some((ballot(4), [node(1)].into())) };
        for memory in [Memory::Whole, Memory::Lost, Memory::Recovered] {
            let saved = SavedVoters { list: list.clone(), next: next.clone(), memory, lease_time: 6_000 };
            assert_eq!(SavedVoters::unpack(&saved.pack()), Ok(saved));
        }
        let roll = Roll { list, next, eligible: u64::MAX - 1, votes: true, abstains: true };
        let packed = roll.pack();
        assert_eq!(Roll::unpack(&packed), Ok(Some(roll)));
        for length in 0..packed.len() {
            assert!(Roll::unpack(&packed.slice(..length)).is_err(), "{length} bytes");
        }
        let vote = VoteMessage { lease: "a".into(), voters: 1, vote: Vote::Who };
        assert_eq!(Roll::unpack(&vote.pack()), Ok(None));
    }

    #[test]
    fn the_largest_list_is_read_and_one_that_is_larger_is_not() {
        let saved = |count| {
            let nodes: BTreeSet<Node> = (0..count).map(node).collect();
            let list = VoterList { nodes: nodes.clone(), ..VoterList::default() };
            let next = NextList { accepted: Some((Ballot::floor(1), nodes)), ..NextList::default() };
            SavedVoters { list, next, ..SavedVoters::default() }
        };
        assert_eq!(SavedVoters::unpack(&saved(99).pack()), Ok(saved(99)));
        let SavedVoters { list, next, .. } = saved(99);
        let roll = Roll { list, next, eligible: 1, votes: true, abstains: false };
        assert_eq!(VoteMessage::unpack(&roll.pack()), Ok(None), "an earlier version passes it over");
        assert_eq!(Roll::unpack(&roll.pack()), Ok(Some(roll)));
        assert!(SavedVoters::unpack(&saved(100).pack()).is_err());
    }
}
