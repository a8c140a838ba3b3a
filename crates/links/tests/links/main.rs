//! Links between members, over simulated hosts and over sockets.

mod attacks;
mod conformance;
mod faults;
mod joining;
mod strangers;
mod support;
