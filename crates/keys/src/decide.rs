//! The table of decisions about offered keys, without files, clock or network.

use wire::loads::AuthOutcome;

use crate::KeyState;

/// The facts about an offered key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// `max_minions` are connected and this one is not among them.
    pub full: bool,
    /// The offered key is an RSA public key.
    pub usable: bool,
    /// The offered key has fewer bits than `minimum_key_bits`.
    pub weak: bool,
    /// There is no room for another pending key: `max_pending_keys` is reached, or the limit of the address the key
    /// comes from.
    pub crowded: bool,
    /// Keys are not checked at all (`open_mode`).
    pub open_mode: bool,
    /// The key known for the id.
    pub stored: Option<Stored>,
    /// The id matches `autoreject_file`.
    pub auto_reject: bool,
    /// The key may be accepted automatically (`auto_accept`, `autosign_file`, a stub, grains).
    pub auto_sign: bool,
}

/// The key known for an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// What has been decided about it.
    pub state: KeyState,
    /// True if it is the offered key.
    pub same: bool,
}

/// The decision about an offered key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The rule that applied.
    pub row: Row,
    /// The change on disk.
    pub store: StoreAction,
    /// What it means for the minion.
    pub outcome: AuthOutcome,
}

/// The rules, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
    /// There are too many minions.
    Full,
    /// The offered text is not a key.
    Unusable,
    /// Keys are not checked.
    OpenMode,
    /// The stored key is rejected.
    Rejected,
    /// A new key is too short (`minimum_key_bits`).
    NewWeak,
    /// Another key is accepted.
    AcceptedOther,
    /// This key is accepted.
    AcceptedSame,
    /// A new key matches `autoreject_file`.
    NewRejected,
    /// A new key matches `autoreject_file`, and there is no room to keep it.
    NewRejectedUnkept,
    /// A new key would be pending, and there is no room.
    NewCrowded,
    /// A new key becomes pending.
    NewPending,
    /// A new key is accepted automatically.
    NewSigned,
    /// A pending key matches `autoreject_file`.
    PendingRejected,
    /// Another key is pending for the id.
    PendingOther,
    /// This key is still pending.
    PendingSame,
    /// Another key is pending for the id, and would be accepted automatically now.
    PendingSignedOther,
    /// This key was pending and is now accepted automatically.
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

/// Decides about an offered key.
///
/// The table is Salt's with a few more rows. Text that is not an RSA public key is refused and not stored; Salt stores
/// it, and fails when an operator tries to accept it. Short keys are refused, unless an operator has already decided
/// about them. The number of pending keys is limited, so strangers cannot fill the disk.
pub fn decide(situation: &Situation) -> Decision {
    use {AuthOutcome as Outcome, KeyState as State, StoreAction as Do};
    let row = row(situation);
    let (store, outcome) = match row {
        Row::Full => (Do::Nothing, Outcome::Full),
        Row::Unusable => (Do::Nothing, Outcome::Unusable),
        Row::OpenMode => (open_mode_store(situation), Outcome::Accepted),
        Row::Rejected => (Do::Nothing, Outcome::Rejected),
        Row::AcceptedSame => (Do::Nothing, Outcome::Accepted),
        Row::NewWeak => (Do::Nothing, Outcome::Unusable),
        Row::NewRejectedUnkept => (Do::Nothing, Outcome::Rejected),
        Row::NewCrowded => (Do::Nothing, Outcome::Full),
        Row::NewRejected => (Do::Put(State::Rejected), Outcome::Rejected),
        Row::NewPending => (Do::Put(State::Pending), Outcome::Pending),
        Row::NewSigned => (Do::Put(State::Accepted), Outcome::Accepted),
        Row::PendingRejected => (Do::Move(State::Rejected), Outcome::Rejected),
        Row::PendingSame => (Do::Nothing, Outcome::Pending),
        Row::PendingSigned => (Do::Move(State::Accepted), Outcome::Accepted),
        Row::AcceptedOther | Row::PendingOther | Row::PendingSignedOther => (Do::Deny, Outcome::Denied),
    };
    Decision { row, store, outcome }
}

fn row(situation: &Situation) -> Row {
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

/// Open mode accepts any key, whatever was decided about it before. Salt 3008 lets the minion in but leaves a pending
/// or rejected key in its directory, so that minion cannot be targeted.
fn open_mode_store(situation: &Situation) -> StoreAction {
    match situation.stored {
        Some(Stored { same: true, state: KeyState::Accepted }) => StoreAction::Nothing,
        _ => StoreAction::Put(KeyState::Accepted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new valid key at a master without automatic acceptance or rejection.
    const NEW: Situation = Situation {
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

    type Example = (Situation, Row, StoreAction, AuthOutcome);

    /// Each rule: the situation, and what follows from it in the words of the protocol.
    fn table() -> Vec<Example> {
        use AuthOutcome as Is;
        use KeyState::{Accepted, Pending, Rejected};
        use StoreAction::*;
        let sign = |situation: Situation| Situation { auto_sign: true, ..situation };
        let reject = |situation: Situation| Situation { auto_reject: true, ..situation };
        let open = |situation: Situation| Situation { open_mode: true, ..situation };
        let weak = |situation: Situation| Situation { weak: true, ..situation };
        let crowded = |situation: Situation| Situation { crowded: true, ..situation };
        vec![
            (Situation { full: true, ..open(NEW) }, Row::Full, Nothing, Is::Full),
            (Situation { usable: false, ..open(NEW) }, Row::Unusable, Nothing, Is::Unusable),
            (open(NEW), Row::OpenMode, Put(Accepted), Is::Accepted),
            (open(stored(Rejected, false)), Row::OpenMode, Put(Accepted), Is::Accepted),
            (open(stored(Rejected, true)), Row::OpenMode, Put(Accepted), Is::Accepted),
            (open(stored(Accepted, true)), Row::OpenMode, Nothing, Is::Accepted),
            (sign(stored(Rejected, true)), Row::Rejected, Nothing, Is::Rejected),
            (sign(stored(Rejected, false)), Row::Rejected, Nothing, Is::Rejected),
            (sign(stored(Accepted, false)), Row::AcceptedOther, Deny, Is::Denied),
            (reject(stored(Accepted, true)), Row::AcceptedSame, Nothing, Is::Accepted),
            (weak(sign(NEW)), Row::NewWeak, Nothing, Is::Unusable),
            (weak(stored(Accepted, true)), Row::AcceptedSame, Nothing, Is::Accepted),
            (crowded(NEW), Row::NewCrowded, Nothing, Is::Full),
            (crowded(reject(NEW)), Row::NewRejectedUnkept, Nothing, Is::Rejected),
            (crowded(sign(NEW)), Row::NewSigned, Put(Accepted), Is::Accepted),
            (crowded(stored(Pending, true)), Row::PendingSame, Nothing, Is::Pending),
            (reject(sign(NEW)), Row::NewRejected, Put(Rejected), Is::Rejected),
            (NEW, Row::NewPending, Put(Pending), Is::Pending),
            (sign(NEW), Row::NewSigned, Put(Accepted), Is::Accepted),
            (reject(sign(stored(Pending, false))), Row::PendingRejected, Move(Rejected), Is::Rejected),
            (stored(Pending, false), Row::PendingOther, Deny, Is::Denied),
            (stored(Pending, true), Row::PendingSame, Nothing, Is::Pending),
            (sign(stored(Pending, false)), Row::PendingSignedOther, Deny, Is::Denied),
            (sign(stored(Pending, true)), Row::PendingSigned, Move(Accepted), Is::Accepted),
        ]
    }

    #[test]
    fn every_row_of_the_table() {
        let mut seen = std::collections::HashSet::new();
        for (situation, row, store, outcome) in table() {
            assert_eq!(decide(&situation), Decision { row, store, outcome }, "{situation:?}");
            seen.insert(row);
        }
        assert_eq!(seen.len(), 17, "a rule has no example");
    }

    fn every_situation() -> impl Iterator<Item = Situation> {
        use KeyState::{Accepted, Pending, Rejected};
        let states = [None, Some(Accepted), Some(Pending), Some(Rejected)];
        (0..4 * 256).map(move |bits: usize| {
            let bit = |place: usize| bits >> place & 1 == 1;
            let state = states[bits >> 8];
            Situation {
                full: bit(1),
                usable: bit(2),
                open_mode: bit(3),
                auto_reject: bit(4),
                auto_sign: bit(5),
                stored: state.map(|state| Stored { state, same: bit(6) }),
                weak: bit(0),
                crowded: bit(7),
            }
        })
    }

    #[test]
    fn in_no_situation_is_a_stranger_let_in_or_a_decision_undone() {
        for situation in every_situation() {
            let decision = decide(&situation);
            let known = situation.stored.filter(|stored| stored.same).map(|stored| stored.state);
            if decision.outcome == AuthOutcome::Accepted {
                assert!(situation.usable && !situation.full, "{situation:?}");
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
        }
    }
}
