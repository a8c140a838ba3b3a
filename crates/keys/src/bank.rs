//! The directories that can contain a minion's key.

use std::fmt;
use std::str::FromStr;

/// The state of a minion's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyState {
    /// The minion may sign in.
    Accepted,
    /// It was neither accepted nor rejected yet.
    Pending,
    /// The minion may not sign in.
    Rejected,
}

/// A directory of keys: one per state, and one for denied keys: those that were offered for an id that has another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bank {
    /// `minions`: accepted keys.
    Accepted,
    /// `minions_denied`: the last key that was refused because the id has another one.
    Denied,
    /// `minions_pre`: pending keys.
    Pending,
    /// `minions_rejected`: rejected keys.
    Rejected,
}

impl KeyState {
    /// The order in which the directories are searched for the key of an id. If there are several, the first one
    /// counts.
    // Rejected first: a file left in two directories must never let a rejected minion in.
    pub const LOOKUP: [KeyState; 3] = [KeyState::Rejected, KeyState::Pending, KeyState::Accepted];

    /// Returns the directory of keys in this state.
    pub fn bank(self) -> Bank {
        match self {
            KeyState::Accepted => Bank::Accepted,
            KeyState::Pending => Bank::Pending,
            KeyState::Rejected => Bank::Rejected,
        }
    }
}

impl Bank {
    /// All directories, in the alphabetical order of their names.
    pub const ALL: [Bank; 4] = [Bank::Accepted, Bank::Denied, Bank::Pending, Bank::Rejected];

    /// All directories, in the order in which Salt's functions return them.
    pub const LISTED: [Bank; 4] = [Bank::Pending, Bank::Rejected, Bank::Accepted, Bank::Denied];

    /// Returns the name of the directory, which is also its key in results.
    pub fn directory(self) -> &'static str {
        match self {
            Bank::Accepted => "minions",
            Bank::Denied => "minions_denied",
            Bank::Pending => "minions_pre",
            Bank::Rejected => "minions_rejected",
        }
    }

    /// Returns the word for the state in `salt/key` events and messages.
    pub fn word(self) -> &'static str {
        match self {
            Bank::Accepted => "accepted",
            Bank::Denied => "denied",
            Bank::Pending => "pending",
            Bank::Rejected => "rejected",
        }
    }

    /// Returns the state of keys in this directory; `None` for denied keys.
    pub fn state(self) -> Option<KeyState> {
        match self {
            Bank::Accepted => Some(KeyState::Accepted),
            Bank::Denied => None,
            Bank::Pending => Some(KeyState::Pending),
            Bank::Rejected => Some(KeyState::Rejected),
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Bank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.directory())
    }
}

/// An error: the text is not the name of a directory of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no kind of keys (minions, minions_denied, minions_pre, minions_rejected)")]
pub struct UnknownBank(pub String);

impl FromStr for Bank {
    type Err = UnknownBank;

    fn from_str(name: &str) -> Result<Self, UnknownBank> {
        Bank::ALL.into_iter().find(|bank| bank.directory() == name).ok_or_else(|| UnknownBank(name.to_owned()))
    }
}
