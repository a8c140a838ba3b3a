//! Tests of a whole master, from the view of minions and programs on its host.

mod access;
mod common;
mod jobs;
mod key_rotation;
mod logged;
mod login_attacks;
mod logins;
mod ports;
mod requests;
mod returns;
mod sharing;
mod sharing_commands;
mod sharing_drift;
mod sharing_events;
mod sharing_jobs;
mod sharing_once;
mod sharing_reader;
mod sharing_tokens;
mod sign_in;
mod status;
