//! The minion's side of the channel.

mod credentials;
mod error;
mod master_channel;
mod publications;
mod serials;
mod sign_in;
mod trust;

pub use credentials::Credentials;
pub use error::Error;
pub use master_channel::{MasterChannel, MinionIdentity, Settings, Signatures};
pub use serials::{KeyDigest, Serials};
pub use sign_in::SignIn;
pub use trust::{Change, Distrust, FileTrust, Judgement, Keep, OfferedKey, Trust, TrustSettings, judge};
