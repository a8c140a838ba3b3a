//! `local` — prints returns, to test that they arrive.

use futures_util::future::BoxFuture;
use value::{Map, Value};

use crate::{Result, Returner, World};

/// Prints returns as Python would.
pub struct Local;

impl Returner for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn give<'a>(&'a self, _world: &'a World, ret: &'a Map) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            // The returner exists to show what a returner gets, and Salt prints Python's representation.
            println!("{}", value::python::repr_map(ret));
            Ok(())
        })
    }

    fn events<'a>(&'a self, _world: &'a World, events: &'a [Value]) -> Option<BoxFuture<'a, Result<()>>> {
        Some(Box::pin(async move {
            println!("{}", value::python::repr(&Value::List(events.to_vec())));
            Ok(())
        }))
    }
}
