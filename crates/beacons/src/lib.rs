//! Beacons, one file per Salt beacon.
//!
//! A [`Kind`] checks a configuration and creates a [`Watcher`]. The caller waits until the watcher is [ready](Watcher::ready), when
//! the kernel or a program reports something, or for an interval, and then [looks](Watcher::look): each returned map becomes one
//! event. The caller decides about intervals and where events go.

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
    /// Checks a configuration; the error is in Salt's words.
    pub validate: fn(&Value, &Context) -> Result<(), String>,
    /// Starts to watch what a valid configuration names.
    pub watch: fn(&Value) -> Box<dyn Watcher>,
}

/// The result of a look: the data of events, with the end of the tag as `tag`, or an error.
pub type Found = Result<Vec<Map>, String>;

/// A running beacon.
pub trait Watcher: Send {
    /// Checks once.
    fn look<'a>(&'a mut self, ctx: &'a Context) -> BoxFuture<'a, Found>;

    /// Waits until there may be something new. `None` if nothing reports that: then the caller checks at intervals.
    fn ready(&mut self) -> Option<BoxFuture<'_, ()>> {
        None
    }
}

/// Finds a beacon by its name.
///
/// # Errors
/// If there is none; the error mentions if it is one of Salt's that is not supported.
pub fn find(name: &str) -> Result<&'static Kind, String> {
    match KINDS.iter().find(|kind| kind.name == name) {
        Some(kind) => Ok(kind),
        // Told apart from a misspelt name: these exist in Salt.
        None if matches!(name, "watchdog" | "salt_proxy") => Err(format!("not supported: the beacon {name}")),
        None => Err(format!("there is no beacon {name}")),
    }
}

/// A watcher that only looks: a function with its state.
struct FnWatcher<S> {
    config: Value,
    state: S,
    look: fn(&Value, &mut S) -> Found,
}

impl<S: Send> Watcher for FnWatcher<S> {
    fn look<'a>(&'a mut self, _: &'a Context) -> BoxFuture<'a, Found> {
        Box::pin(async move { (self.look)(&self.config, &mut self.state) })
    }
}

/// Creates a watcher from a function.
fn looking<S: Send + Default + 'static>(config: &Value, look: fn(&Value, &mut S) -> Found) -> Box<dyn Watcher> {
    Box::new(FnWatcher { config: config.clone(), state: S::default(), look })
}
