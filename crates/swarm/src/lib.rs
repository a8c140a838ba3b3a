//! Thousands of minions in one process, to put a master under load.
//!
//! A [`Swarm`] speaks the real wire: each of its minions signs in with a key of its own or of a pool, decrypts what is published, judges
//! targets, and sends sealed returns; against masters of ours and of Salt alike. What its minions do beyond that (grains, pillar,
//! files, signing in anew, churn, loss, slowness) is chosen with [`Options`], and follows from a seed. What came of it is
//! counted and timed on this side of the wire ([`Report`]).
//!
//! The minions run nothing: they answer a handful of functions with made-up values ([`functions`]). A minion is one task
//! beside those its connections have.

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
pub use rsa::{Operations, RsaSpeed};
pub use sources::{Sources, SourcesError};
pub use stats::{Counts, Histogram, Request, Summary};
pub use swarm::{StartError, Swarm};
pub use transport::Kind as Transport;
pub use watch::Watch;
