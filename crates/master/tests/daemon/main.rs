//! A master as a whole: what minions and programs on its host see.

mod access;
mod common;
mod jobs;
mod key_rotation;
mod logged;
mod ports;
mod requests;
mod returns;
mod sign_in;
mod status;
