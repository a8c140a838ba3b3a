//! `http` — web servers, asked by the master.

use exec::{Call, KwArgs, Result, function};
use value::Value;

use crate::{Module, RunnerContext, orchestrate};

/// The functions of the runner `http`.
pub static MODULE: Module = Module::new("http", "Web servers, asked by the master.", &[&QUERY]);

/// Sends a request to a web server and returns its answer, with the arguments of the execution function ``http.query``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run http.query http://somelink.com/
///     salt-run http.query http://somelink.com/ method=POST params='key1=val1&key2=val2'
#[function]
async fn query(ctx: &RunnerContext, url: String, #[default(true)] output: Value, kwargs: KwArgs) -> Result<Value> {
    if output != Value::Bool(true) {
        tracing::warn!("Output option has been deprecated. Please use --quiet.");
    }
    let call = Call { args: vec![url.into()], kwargs: kwargs.given() };
    orchestrate::function(ctx, "http.query", call, false).await
}
