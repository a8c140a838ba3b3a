//! Runners, one file per Salt name.

pub mod auth;
pub mod cache;
pub mod config;
pub mod doc;
pub mod error;
pub mod event;
pub mod fileserver;
pub mod git_pillar;
pub mod http;
pub mod jobs;
pub mod manage;
pub mod match_;
pub mod mine;
pub mod network;
pub mod pillar;
pub mod salt;
pub mod saltern;
pub mod saltutil;
pub mod state;
pub mod survey;
pub mod test;

use crate::Module;

/// All runners.
pub static RUNNERS: &[&Module] = &[
    // In alphabetical order.
    &auth::MODULE,
    &cache::MODULE,
    &config::MODULE,
    &doc::MODULE,
    &error::MODULE,
    &event::MODULE,
    &fileserver::MODULE,
    &git_pillar::MODULE,
    &http::MODULE,
    &jobs::MODULE,
    &manage::MODULE,
    &match_::MODULE,
    &mine::MODULE,
    &network::MODULE,
    &pillar::MODULE,
    &salt::MODULE,
    &saltern::MODULE,
    &saltutil::MODULE,
    &state::MODULE,
    &survey::MODULE,
    &test::MODULE,
];
