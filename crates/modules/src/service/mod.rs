//! `service` — what runs in the background, by the init system that runs it.

pub mod systemd;
