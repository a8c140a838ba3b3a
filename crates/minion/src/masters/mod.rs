//! The masters: one link each, sharing nothing but the functions and the facts of the machine.
//!
//! All of them are followed at the same time ([`follow`]), or one of them is ([`follow_one`]), as [`plan`] says.

mod choice;
mod connect;
mod driver;
mod func;
mod link;
mod policy;
mod session;
mod settings;
mod trust;

pub use choice::{Place, Rules, distribute, shuffle};
pub use connect::ping;
pub use driver::follow_one;
pub use func::masters as named;
pub use link::Link;
pub use policy::{AcceptanceWait, Backoff};
pub use session::{follow, sign_in_apart, sign_in_once};
pub use settings::{LinkSettings, Plan, links, plan, warn_of_misunderstandings};
