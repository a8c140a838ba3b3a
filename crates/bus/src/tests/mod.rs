//! Members on a bus: in memory, where everything can be lost, repeated and forged, and over real servers.

mod attacks;
mod conformance;
mod floods;
mod joining;
mod login;
mod net;
mod server;
