//! Implements the services that functions may use, and creates the contexts in which they run.

mod link;
mod local;

use std::sync::Arc;

use exec::{Agent, Context, Job};
use tracing::error;
use value::Map;

use crate::local_pillar;
use crate::machine::Machine;
use crate::masters::{Link, Masters};
use link::LinkAgent;
use local::LocalAgent;

/// Returns the context for functions in a job of this master.
pub fn context(masters: &Arc<Masters>, link: &Arc<Link>, job: Job) -> Context {
    let agent = Arc::new(LinkAgent::new(masters.clone(), link.clone()));
    context_of(&masters.machine, link.opts(), link.pillar(), job, agent)
}

/// Returns the context for functions that run without a master.
pub fn local_context(masters: &Arc<Masters>, pillar: Map, job: Job) -> Context {
    let opts = Arc::new(masters.machine.config.raw.clone());
    let agent = Arc::new(LocalAgent::new(masters.clone()));
    context_of(&masters.machine, opts, Arc::new(pillar), job, agent)
}

/// Returns the context for functions that the minion runs by itself, with its first master if it has one.
pub fn own_context(masters: &Arc<Masters>, job: Job) -> Context {
    if let Some(link) = masters.first() {
        return context(masters, link, job);
    }
    let pillar = local_pillar::compile(&masters.machine, &Map::new()).unwrap_or_else(|reason| {
        error!("the pillar of a scheduled job could not be compiled: {reason}");
        Map::new()
    });
    local_context(masters, pillar, job)
}

fn context_of(machine: &Machine, opts: Arc<Map>, pillar: Arc<Map>, job: Job, agent: Arc<dyn Agent>) -> Context {
    Context { opts, grains: machine.grains(), pillar, job: Arc::new(job), agent, memo: Arc::default(), state: None }
}
