//! Things a minion watches, one file per Salt beacon.
//!
//! A [`Kind`] checks a configuration and makes a [`Watcher`] of it. Who runs a watcher waits until it is [ready](Watcher::ready),
//! when the kernel or a program tells of what it watches, or for some time when nobody does, and then [looks](Watcher::look):
//! each map that comes out becomes one event. Where events go, and how often there is a look, is not known here.

mod config;
mod kinds;

use exec::Context;
use futures_util::future::BoxFuture;
use value::{Map, Value};

pub use config::{flat, option, without_options};
pub use kinds::KINDS;

/// A kind of beacon.
pub struct Kind {
    /// Its Salt name.
    pub name: &'static str,
    /// Says what is wrong with a configuration, in Salt's words.
    pub validate: fn(&Value, &Context) -> Result<(), String>,
    /// Begins to watch what a valid configuration names.
    pub watch: fn(&Value) -> Box<dyn Watcher>,
}

/// What one look finds: the data of events, with the end of the tag as `tag`, or why nothing can be found.
pub type Found = Result<Vec<Map>, String>;

/// A beacon that watches.
pub trait Watcher: Send {
    /// Looks once.
    fn look<'a>(&'a mut self, ctx: &'a Context) -> BoxFuture<'a, Found>;

    /// Waits until there may be something new. `None` when nobody tells: then it is looked at intervals.
    fn ready(&mut self) -> Option<BoxFuture<'_, ()>> {
        None
    }
}

/// Finds a kind by its name.
///
/// # Errors
/// When there is none: why, if it is one of Salt's that is not supported here.
pub fn find(name: &str) -> Result<&'static Kind, String> {
    match KINDS.iter().find(|kind| kind.name == name) {
        Some(kind) => Ok(kind),
        None if matches!(name, "watchdog" | "salt_proxy") => Err(format!("not supported: the beacon {name}")),
        None => Err(format!("there is no beacon {name}")),
    }
}

/// A watcher that only looks, made of a function and what it remembers.
struct Look<S> {
    config: Value,
    state: S,
    look: fn(&Value, &mut S) -> Found,
}

impl<S: Send> Watcher for Look<S> {
    fn look<'a>(&'a mut self, _: &'a Context) -> BoxFuture<'a, Found> {
        Box::pin(async move { (self.look)(&self.config, &mut self.state) })
    }
}

/// Makes a watcher of a function that looks.
fn looking<S: Send + Default + 'static>(config: &Value, look: fn(&Value, &mut S) -> Found) -> Box<dyn Watcher> {
    Box::new(Look { config: config.clone(), state: S::default(), look })
}
