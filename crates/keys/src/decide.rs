//! The table of decisions about offered keys, without files, clock or network.

use crate::KeyState;

/// The facts about an offered key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// The id may be used as a file name.
    pub valid_id: bool,
    /// `max_minions` are connected and this one is not among them.
    pub full: bool,
    /// The offered key is an RSA public key.
    pub usable: bool,
    /// The offered key has fewer bits than `minimum_key_bits`.
    pub weak: bool,
    /// There is no room for one more key that waits: `max_pending_keys`, or the share of the address it comes from.
    pub crowded: bool,
    /// Keys are not checked at all (`open_mode`).
    pub open_mode: bool,
    /// The key known for the id.
    pub stored: Option<Stored>,
    /// The id matches `autoreject_file`.
    pub auto_reject: bool,
    /// The key may be accepted without asking (`auto_accept`, `autosign_file`, a stub, grains).
    pub auto_sign: bool,
}

/// The key known for an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// What has been decided about it.
    pub state: KeyState,
    /// It is the key that is offered.
    pub same: bool,
}

/// The decision about an offered key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The rule that applied.
    pub row: Row,
    /// The change on disk.
    pub store: StoreAction,
    /// The event to fire under `salt/auth`, if any.
    pub event: Option<AuthEvent>,
    /// What to tell the minion.
    pub answer: Answer,
}

/// The rules, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
    /// The id is invalid.
    InvalidId,
    /// There are too many minions.
    Full,
    /// The offered text is not a key.
    Unusable,
    /// Keys are not checked.
    OpenMode,
    /// The stored key is rejected.
    Rejected,
    /// A new key is too short to be worth a decision.
    NewWeak,
    /// Another key is accepted.
    AcceptedOther,
    /// This key is accepted.
    AcceptedSame,
    /// A new key matches `autoreject_file`.
    NewRejected,
    /// A new key matches `autoreject_file`, and there is no room to keep it.
    NewRejectedUnkept,
    /// A new key would have to wait, and there is no room.
    NewCrowded,
    /// A new key has to wait.
    NewPending,
    /// A new key is accepted without asking.
    NewSigned,
    /// A waiting key matches `autoreject_file`.
    PendingRejected,
    /// Another key is waiting.
    PendingOther,
    /// This key is waiting still.
    PendingSame,
    /// Another key is waiting, and would be accepted now.
    PendingSignedOther,
    /// This key was waiting and is accepted now.
    PendingSigned,
}

/// A change on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAction {
    /// None.
    Nothing,
    /// The offered key becomes the key of the id, in this state.
    Put(KeyState),
    /// The stored key gets this state.
    Move(KeyState),
    /// The offered key becomes the denied key of the id.
    Deny,
}

/// The content of a `salt/auth` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthEvent {
    /// The entry `act`.
    pub act: Act,
    /// The entry `result`.
    pub result: bool,
}

/// The outcome, in the words of `salt/auth` events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The minion signed in.
    Accept,
    /// Its key waits for a decision.
    Pend,
    /// Its key is rejected.
    Reject,
    /// The id has another key.
    Denied,
    /// There are too many minions.
    Full,
    /// Something else is wrong.
    Error,
}

/// The answer to the minion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Sign in.
    Accepted,
    /// Wait and ask again (`ret: True`).
    Wait,
    /// Give up (`ret: False`).
    Refused,
    /// Try another master (`ret: "full"`).
    Full,
}

impl Act {
    /// Returns the word.
    pub fn word(self) -> &'static str {
        match self {
            Act::Accept => "accept",
            Act::Pend => "pend",
            Act::Reject => "reject",
            Act::Denied => "denied",
            Act::Full => "full",
            Act::Error => "error",
        }
    }
}

/// Decides about an offered key.
///
/// The table is Salt's, with some rows more. What is no RSA public key at all is refused and not stored, while Salt keeps
/// it, and fails when somebody tries to accept it. Short keys are refused, unless somebody has decided about them before.
/// And strangers cannot fill the disk: there is a bound on the keys they leave.
pub fn decide(situation: &Situation) -> Decision {
    use {KeyState as State, StoreAction as Do};
    let row = row(situation);
    let (store, act, answer) = match row {
        Row::InvalidId => (Do::Nothing, None, Answer::Refused),
        Row::Full => (Do::Nothing, Some(Act::Full), Answer::Full),
        Row::Unusable => (Do::Nothing, Some(Act::Error), Answer::Refused),
        Row::OpenMode => (open_mode_store(situation), Some(Act::Accept), Answer::Accepted),
        Row::Rejected => (Do::Nothing, Some(Act::Reject), Answer::Refused),
        Row::AcceptedSame => (Do::Nothing, Some(Act::Accept), Answer::Accepted),
        Row::NewWeak => (Do::Nothing, Some(Act::Error), Answer::Refused),
        Row::NewRejectedUnkept => (Do::Nothing, Some(Act::Reject), Answer::Refused),
        Row::NewCrowded => (Do::Nothing, Some(Act::Full), Answer::Full),
        Row::NewRejected => (Do::Put(State::Rejected), Some(Act::Reject), Answer::Refused),
        Row::NewPending => (Do::Put(State::Pending), Some(Act::Pend), Answer::Wait),
        Row::NewSigned => (Do::Put(State::Accepted), Some(Act::Accept), Answer::Accepted),
        Row::PendingRejected => (Do::Move(State::Rejected), Some(Act::Reject), Answer::Refused),
        Row::PendingSame => (Do::Nothing, Some(Act::Pend), Answer::Wait),
        Row::PendingSigned => (Do::Move(State::Accepted), Some(Act::Accept), Answer::Accepted),
        Row::AcceptedOther | Row::PendingOther | Row::PendingSignedOther => {
            (Do::Deny, Some(Act::Denied), Answer::Refused)
        }
    };
    let event = act.map(|act| AuthEvent { act, result: matches!(act, Act::Accept | Act::Pend) });
    Decision { row, store, event, answer }
}

fn row(situation: &Situation) -> Row {
    if !situation.valid_id {
        return Row::InvalidId;
    }
    // Before the key is looked at: a full master does as little as possible for each attempt.
    if situation.full {
        return Row::Full;
    }
    if !situation.usable {
        return Row::Unusable;
    }
    if situation.open_mode {
        return Row::OpenMode;
    }
    let Some(stored) = situation.stored else {
        return new_row(situation);
    };
    match (stored.state, stored.same) {
        // Whatever key is offered: a rejected id cannot come back with a new key.
        (KeyState::Rejected, _) => Row::Rejected,
        (KeyState::Accepted, false) => Row::AcceptedOther,
        (KeyState::Accepted, true) => Row::AcceptedSame,
        (KeyState::Pending, _) if situation.auto_reject => Row::PendingRejected,
        // Signing applies to the key that waits. Another key under the same id is denied, or a stranger could use up
        // the stub of a minion.
        (KeyState::Pending, false) if situation.auto_sign => Row::PendingSignedOther,
        (KeyState::Pending, true) if situation.auto_sign => Row::PendingSigned,
        (KeyState::Pending, false) => Row::PendingOther,
        (KeyState::Pending, true) => Row::PendingSame,
    }
}

fn new_row(situation: &Situation) -> Row {
    match (situation.auto_reject, situation.auto_sign) {
        // Also before `autoreject_file`: a short key leaves no file in either case.
        _ if situation.weak => Row::NewWeak,
        (true, _) if situation.crowded => Row::NewRejectedUnkept,
        (true, _) => Row::NewRejected,
        (false, true) => Row::NewSigned,
        (false, false) if situation.crowded => Row::NewCrowded,
        (false, false) => Row::NewPending,
    }
}

/// Open mode accepts any key, whatever was decided about it before. Salt 3008 leaves a key that waits or is rejected where
/// it is although it lets the minion in, which then cannot be targeted.
fn open_mode_store(situation: &Situation) -> StoreAction {
    match situation.stored {
        Some(Stored { same: true, state: KeyState::Accepted }) => StoreAction::Nothing,
        _ => StoreAction::Put(KeyState::Accepted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new, good key at a master without any automatism.
    const NEW: Situation = Situation {
        valid_id: true,
        full: false,
        usable: true,
        weak: false,
        crowded: false,
        open_mode: false,
        stored: None,
        auto_reject: false,
        auto_sign: false,
    };

    fn stored(state: KeyState, same: bool) -> Situation {
        Situation { stored: Some(Stored { state, same }), ..NEW }
    }

    type Example = (Situation, Row, StoreAction, Option<(Act, bool)>, Answer);

    /// Each rule: the situation, and what follows from it in the words of the protocol.
    fn table() -> Vec<Example> {
        use Act::*;
        use KeyState::{Accepted, Pending, Rejected};
        use StoreAction::*;
        let sign = |situation: Situation| Situation { auto_sign: true, ..situation };
        let reject = |situation: Situation| Situation { auto_reject: true, ..situation };
        let open = |situation: Situation| Situation { open_mode: true, ..situation };
        let weak = |situation: Situation| Situation { weak: true, ..situation };
        let crowded = |situation: Situation| Situation { crowded: true, ..situation };
        vec![
            (Situation { valid_id: false, ..open(NEW) }, Row::InvalidId, Nothing, None, Answer::Refused),
            (Situation { full: true, ..open(NEW) }, Row::Full, Nothing, Some((Full, false)), Answer::Full),
            (Situation { usable: false, ..open(NEW) }, Row::Unusable, Nothing, Some((Error, false)), Answer::Refused),
            (open(NEW), Row::OpenMode, Put(Accepted), Some((Accept, true)), Answer::Accepted),
            (open(stored(Rejected, false)), Row::OpenMode, Put(Accepted), Some((Accept, true)), Answer::Accepted),
            (open(stored(Rejected, true)), Row::OpenMode, Put(Accepted), Some((Accept, true)), Answer::Accepted),
            (open(stored(Accepted, true)), Row::OpenMode, Nothing, Some((Accept, true)), Answer::Accepted),
            (sign(stored(Rejected, true)), Row::Rejected, Nothing, Some((Reject, false)), Answer::Refused),
            (sign(stored(Rejected, false)), Row::Rejected, Nothing, Some((Reject, false)), Answer::Refused),
            (sign(stored(Accepted, false)), Row::AcceptedOther, Deny, Some((Denied, false)), Answer::Refused),
            (reject(stored(Accepted, true)), Row::AcceptedSame, Nothing, Some((Accept, true)), Answer::Accepted),
            (weak(sign(NEW)), Row::NewWeak, Nothing, Some((Error, false)), Answer::Refused),
            (weak(stored(Accepted, true)), Row::AcceptedSame, Nothing, Some((Accept, true)), Answer::Accepted),
            (crowded(NEW), Row::NewCrowded, Nothing, Some((Full, false)), Answer::Full),
            (crowded(reject(NEW)), Row::NewRejectedUnkept, Nothing, Some((Reject, false)), Answer::Refused),
            (crowded(sign(NEW)), Row::NewSigned, Put(Accepted), Some((Accept, true)), Answer::Accepted),
            (crowded(stored(Pending, true)), Row::PendingSame, Nothing, Some((Pend, true)), Answer::Wait),
            (reject(sign(NEW)), Row::NewRejected, Put(Rejected), Some((Reject, false)), Answer::Refused),
            (NEW, Row::NewPending, Put(Pending), Some((Pend, true)), Answer::Wait),
            (sign(NEW), Row::NewSigned, Put(Accepted), Some((Accept, true)), Answer::Accepted),
            (
                reject(sign(stored(Pending, false))),
                Row::PendingRejected,
                Move(Rejected),
                Some((Reject, false)),
                Answer::Refused,
            ),
            (stored(Pending, false), Row::PendingOther, Deny, Some((Denied, false)), Answer::Refused),
            (stored(Pending, true), Row::PendingSame, Nothing, Some((Pend, true)), Answer::Wait),
            (sign(stored(Pending, false)), Row::PendingSignedOther, Deny, Some((Denied, false)), Answer::Refused),
            (sign(stored(Pending, true)), Row::PendingSigned, Move(Accepted), Some((Accept, true)), Answer::Accepted),
        ]
    }

    #[test]
    fn every_row_of_the_table() {
        let mut seen = std::collections::HashSet::new();
        for (situation, row, store, event, answer) in table() {
            let event = event.map(|(act, result)| AuthEvent { act, result });
            assert_eq!(decide(&situation), Decision { row, store, event, answer }, "{situation:?}");
            seen.insert(row);
        }
        // A new row must be added to the table of examples.
        assert_eq!(seen.len(), 18, "a rule has no example");
    }

    fn every_situation() -> impl Iterator<Item = Situation> {
        use KeyState::{Accepted, Pending, Rejected};
        let states = [None, Some(Accepted), Some(Pending), Some(Rejected)];
        (0..4 * 512).map(move |bits: usize| {
            let bit = |place: usize| bits >> place & 1 == 1;
            let state = states[bits >> 9];
            Situation {
                valid_id: bit(0),
                full: bit(1),
                usable: bit(2),
                open_mode: bit(3),
                auto_reject: bit(4),
                auto_sign: bit(5),
                stored: state.map(|state| Stored { state, same: bit(6) }),
                weak: bit(7),
                crowded: bit(8),
            }
        })
    }

    #[test]
    fn in_no_situation_is_a_stranger_let_in_or_a_decision_undone() {
        for situation in every_situation() {
            let decision = decide(&situation);
            let known = situation.stored.filter(|stored| stored.same).map(|stored| stored.state);
            if decision.answer == Answer::Accepted {
                assert!(situation.valid_id && situation.usable && !situation.full, "{situation:?}");
                let trusted = known == Some(KeyState::Accepted) || situation.auto_sign || situation.open_mode;
                assert!(trusted, "{situation:?}");
            }
            if situation.stored.is_some_and(|stored| stored.state == KeyState::Accepted) && !situation.open_mode {
                assert!(matches!(decision.store, StoreAction::Nothing | StoreAction::Deny), "{situation:?}");
            }
            if situation.crowded && situation.stored.is_none() {
                let left = [StoreAction::Put(KeyState::Pending), StoreAction::Put(KeyState::Rejected)];
                assert!(!left.contains(&decision.store), "{situation:?}");
            }
            let agrees = decision
                .event
                .is_none_or(|event| event.result == matches!(decision.answer, Answer::Accepted | Answer::Wait));
            assert!(agrees, "{situation:?}");
        }
    }
}
