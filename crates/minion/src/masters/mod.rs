//! The masters: one link each, sharing nothing but the functions and the facts of the machine.

mod link;
mod policy;
mod returns;
mod session;
mod settings;

pub use link::Link;
pub use policy::{AcceptanceWait, Backoff};
pub use returns::deliver;
pub use session::{follow, sign_in_once};
pub use settings::{LinkSettings, links};
