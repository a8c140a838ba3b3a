//! All scenarios in one program: they take turns at the slots without a rest between subjects, and are linked once.

mod alternating;
mod beside;
mod certificates;
mod clients;
mod crash;
mod daemon;
mod eight_masters;
mod environments;
mod failover;
mod gitfs;
mod grains;
mod held;
mod highstate;
mod log_texts;
mod low;
mod matrix;
mod mixed;
mod packages;
mod permissions;
mod returns;
mod salt_call;
mod schedule;
mod signals;
mod states;
mod strangers;
mod swarm;
