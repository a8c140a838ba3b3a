//! What members send each other about leases.

use bytes::Bytes;
use value::Value;

use super::Ballot;
use super::voter::MAX_NAME;
use crate::fields::{self, Fields, Malformed, number};

/// A message about one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoteMessage {
    /// The name of the lease.
    pub lease: Box<str>,
    /// The digest of the voters that the sender knows: [`Voters::digest`](super::Voters::digest).
    pub voters: u64,
    /// The vote.
    pub vote: Vote,
}

/// What a message says. The first six belong to the mode `majority`, the others to the mode `available`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// A candidate asks for a promise.
    Prepare(Ballot),
    /// The voter has seen no higher ballot and has granted the lease to nobody else.
    Promise(Ballot),
    /// A candidate with the promises of a majority asks for the lease, for this many milliseconds.
    Accept(Ballot, u64),
    /// The voter has granted the lease for this many milliseconds from now on.
    Accepted(Ballot, u64),
    /// The voter does not take part in this attempt, and why.
    Refused(Ballot, Refusal),
    /// The candidate needs none of the grants up to this ballot any more.
    Release(Ballot),
    /// A member that wants the lease asks a member ranked behind it who has it.
    Who,
    /// The sender holds the lease, and its current run is not over.
    Holding,
    /// The sender does not hold the lease.
    Free,
    /// The sender holds the lease and is ranked before the receiver.
    Mine,
}

/// Why a voter refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has promised to ignore ballots of rounds below this one.
    Outdated(u64),
    /// It has granted the lease to another member, for this many more milliseconds.
    Held(u64),
    /// It knows other voters than the candidate.
    OtherVoters,
    /// It keeps count of too many leases already.
    TooManyLeases,
}

impl VoteMessage {
    /// Returns the bytes for [`Message::Vote`](crate::Message::Vote).
    pub fn pack(&self) -> Bytes {
        let (kind, ballot, detail) = self.vote.parts();
        let ballot = ballot.unwrap_or(Ballot::floor(0));
        fields::packed(vec![
            Value::from(&*self.lease),
            Value::bytes(Bytes::copy_from_slice(&self.voters.to_be_bytes())),
            number(kind),
            number(ballot.round),
            fields::node(ballot.node),
            number(detail.min(i64::MAX as u64)),
        ])
    }

    /// Reads the bytes of another member; `None` if they are a vote of a later version.
    pub fn unpack(packed: &Bytes) -> Result<Option<VoteMessage>, Malformed> {
        let mut fields = Fields::open(packed, 32, "a vote")?;
        let lease = fields.text("the name of a lease", MAX_NAME)?.into();
        let voters = u64::from_be_bytes(fields.array("the digest of voters")?);
        let kind = fields.number("the kind of a vote")?;
        let ballot = Ballot { round: fields.number("a round")?, node: fields.node()? };
        let vote = Vote::of_parts(kind, ballot, fields.number("the detail of a vote")?);
        Ok(vote.map(|vote| VoteMessage { lease, voters, vote }))
    }
}

impl Vote {
    fn parts(self) -> (u64, Option<Ballot>, u64) {
        match self {
            Vote::Prepare(ballot) => (1, Some(ballot), 0),
            Vote::Promise(ballot) => (2, Some(ballot), 0),
            Vote::Accept(ballot, time) => (3, Some(ballot), time),
            Vote::Accepted(ballot, time) => (4, Some(ballot), time),
            Vote::Release(ballot) => (5, Some(ballot), 0),
            Vote::Who => (6, None, 0),
            Vote::Holding => (7, None, 0),
            Vote::Free => (8, None, 0),
            Vote::Mine => (9, None, 0),
            Vote::Refused(ballot, Refusal::Outdated(round)) => (10, Some(ballot), round),
            Vote::Refused(ballot, Refusal::Held(left)) => (11, Some(ballot), left),
            Vote::Refused(ballot, Refusal::OtherVoters) => (12, Some(ballot), 0),
            Vote::Refused(ballot, Refusal::TooManyLeases) => (13, Some(ballot), 0),
        }
    }

    fn of_parts(kind: u64, ballot: Ballot, detail: u64) -> Option<Vote> {
        Some(match kind {
            1 => Vote::Prepare(ballot),
            2 => Vote::Promise(ballot),
            3 => Vote::Accept(ballot, detail),
            4 => Vote::Accepted(ballot, detail),
            5 => Vote::Release(ballot),
            6 => Vote::Who,
            7 => Vote::Holding,
            8 => Vote::Free,
            9 => Vote::Mine,
            10 => Vote::Refused(ballot, Refusal::Outdated(detail)),
            11 => Vote::Refused(ballot, Refusal::Held(detail)),
            12 => Vote::Refused(ballot, Refusal::OtherVoters),
            13 => Vote::Refused(ballot, Refusal::TooManyLeases),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Node;

    #[test]
    fn votes_are_the_same_after_packing() {
        let ballot = Ballot { round: (1 << 62) + 5, node: Node([7; 8]) };
        let votes: Vec<Vote> = (1..=13).filter_map(|kind| Vote::of_parts(kind, ballot, 6_000)).collect();
        assert_eq!(votes.len(), 13);
        for vote in votes {
            let message = VoteMessage { lease: "schedule".into(), voters: u64::MAX - 3, vote };
            assert_eq!(VoteMessage::unpack(&message.pack()), Ok(Some(message)));
        }
    }

    #[test]
    fn bytes_that_are_no_vote_are_errors_and_later_votes_are_passed_over() {
        let vote = VoteMessage { lease: "schedule".into(), voters: 1, vote: Vote::Who };
        let packed = vote.pack();
        for length in 0..packed.len() {
            assert!(VoteMessage::unpack(&packed.slice(..length)).is_err(), "{length} bytes");
        }
        let long = VoteMessage { lease: "x".repeat(MAX_NAME + 1).into(), ..vote };
        assert_eq!(VoteMessage::unpack(&long.pack()), Err(Malformed("the name of a lease")));
        let node = fields::node(Node([7; 8]));
        let digest = Value::bytes(Bytes::from_static(&[0; 8]));
        let later = vec![Value::from("schedule"), digest, number(99), number(1), node, number(0), Value::Null];
        assert_eq!(VoteMessage::unpack(&fields::packed(later)), Ok(None));
    }
}
