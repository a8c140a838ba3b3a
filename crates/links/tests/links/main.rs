//! Links between members, over simulated hosts and over sockets.

mod attacks;
mod conformance;
mod copies;
mod faults;
mod joining;
mod strangers;
mod support;
