//! Thousands of minions in one process, to put a master under load.
//!
//! A [`Swarm`] speaks the real protocol, with Saltern and Salt masters alike: each minion signs in with a key of its own or from
//! a pool, decrypts publications, matches targets, and sends encrypted returns. [`Options`] choose what else minions do (grains,
//! pillar, files, repeated sign-ins, churn, loss, slowness); all randomness follows from a seed. The [`Report`] has what was
//! counted and timed on the minions' side.
//!
//! The minions run nothing: they answer a handful of functions with made-up values ([`functions`]). A minion is one task, besides
//! those of its connections.

mod chance;
pub mod functions;
mod grains;
mod keys;
mod limits;
mod minion;
mod options;
mod report;
mod rsa;
mod sources;
mod stats;
mod swarm;
mod trust;
mod watch;

pub use crypto::PrivateKey;
pub use keys::{KeyError, KeyPool, place};
pub use limits::{LimitError, raise_open_files};
pub use options::{Behaviour, Kind, Options};
pub use report::{ErrorReport, JobReport, Report, RequestReport, RsaReport, SignInReport, WatchReport};
pub use rsa::{Operations, RsaSpeed, SigningCost};
pub use sources::{Sources, SourcesError};
pub use stats::{Counts, Histogram, Request, Summary};
pub use swarm::{StartError, Swarm};
pub use transport::Kind as Transport;
pub use watch::Watch;
