//! The reasons why a session with a master ended, or could not start.

use std::time::Duration;

use channel::client::Error as ChannelError;
use config::MasterAddress;
use exec::MasterState;

/// The log line for a rejected minion.
pub const REJECTION: &str = "The Salt Master has rejected this minion's public key! To repair this issue, delete the public key for \
                         this minion on the Salt Master (salt-key -d)";

/// The log line for a minion above `max_minions`.
pub const FULL: &str = "The Salt Master has as many minions as it allows";

/// Why a session with a master ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The name has no address.
    #[error("{0}")]
    Unresolved(std::io::Error),
    /// No address accepts connections.
    #[error("{0}")]
    Unreachable(std::io::Error),
    /// A sign-in or an encrypted request failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The connection failed.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// Our key is pending, and the caller does not wait for it.
    #[error("Minion failed to authenticate with the master {0}, has the minion key been accepted?")]
    Pending(MasterAddress),
    /// The master refuses us.
    #[error("{0}")]
    Refused(&'static str),
    /// The master has said that it stops. A minion with nothing to deliver reconnects within this time.
    #[error("it said goodbye")]
    Goodbye(Duration),
}

impl Ended {
    /// Returns the state of a link afterwards.
    pub fn state(&self) -> MasterState {
        match self {
            Ended::Refused(_) | Ended::Channel(ChannelError::Distrust(_)) => MasterState::Refused,
            _ => MasterState::Backoff,
        }
    }
}
