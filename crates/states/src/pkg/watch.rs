//! The reaction of a package state to a change of a watched state: it is applied again.

use exec::{Bound, Call, Context, Function, KwArgs, Result, bind, function};
use value::{Map, Value};

use crate::Ret;

/// Applies the state again.
#[function]
fn mod_watch(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Value> {
    let mut kwargs = kwargs.0;
    let sfun = kwargs.remove("sfun").unwrap_or_default();
    let function: &Function = match sfun.as_str() {
        Some("purged") => &super::removed::PURGED,
        Some("latest") => &super::latest::LATEST,
        Some("removed") => &super::removed::REMOVED,
        Some("installed") => &super::installed::INSTALLED,
        _ => {
            let comment = format!("pkg.{sfun} does not work with the watch requisite");
            return Ok(Ret::new(name).fail(comment).into());
        }
    };
    // The name was taken out of the arguments for the call of this function.
    kwargs.insert("name", name);
    let bound: Bound = bind(function, Call { args: Vec::new(), kwargs }, &Map::new())?;
    function.call(ctx, bound)
}
