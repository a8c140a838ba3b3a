//! `state` — applying states on this machine, and showing what would be applied.
//!
//! The crate `state` compiles and runs states; this module provides its files, options, pillar and callers.

mod apply;
mod disabled;
mod event;
mod files;
mod holders;
mod orchestrate;
mod package;
mod pauses;
mod requests;
mod session;
mod show;

use exec::Module;

use apply::{APPLY, HIGH, HIGHSTATE, LOW, SINGLE, SLS, SLS_ID, TEMPLATE, TEMPLATE_STR, TEST, TOP};
use disabled::{DISABLE, ENABLE, LIST_DISABLED};
use event::EVENT;
use orchestrate::ORCHESTRATE;
use package::PKG;
use pauses::{GET_PAUSES, PAUSE, RESUME, RUNNING, SOFT_KILL};
use requests::{CHECK_REQUEST, CLEAR_CACHE, CLEAR_REQUEST, REQUEST, RUN_REQUEST};
use show::{
    GRAPH, GRAPH_HIGHSTATE, ID_EXISTS, SHOW_HIGHSTATE, SHOW_LOW_SLS, SHOW_LOWSTATE, SHOW_SLS, SHOW_STATE_USAGE,
    SHOW_STATES, SHOW_TOP, SLS_EXISTS,
};

/// The execution module `state`.
pub static MODULE: Module = Module::new(
    "state",
    "Applying states on this machine, and showing what would be applied.",
    &[
        &APPLY,
        &CHECK_REQUEST,
        &CLEAR_CACHE,
        &CLEAR_REQUEST,
        &DISABLE,
        &ENABLE,
        &EVENT,
        &GET_PAUSES,
        &GRAPH,
        &GRAPH_HIGHSTATE,
        &HIGH,
        &HIGHSTATE,
        &ID_EXISTS,
        &LIST_DISABLED,
        &LOW,
        &ORCHESTRATE,
        &PAUSE,
        &PKG,
        &REQUEST,
        &RESUME,
        &RUN_REQUEST,
        &RUNNING,
        &SHOW_HIGHSTATE,
        &SHOW_LOW_SLS,
        &SHOW_LOWSTATE,
        &SHOW_SLS,
        &SHOW_STATE_USAGE,
        &SHOW_STATES,
        &SHOW_TOP,
        &SINGLE,
        &SLS,
        &SLS_EXISTS,
        &SLS_ID,
        &SOFT_KILL,
        &TEMPLATE,
        &TEMPLATE_STR,
        &TEST,
        &TOP,
    ],
);
