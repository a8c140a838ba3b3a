//! `doc` — documentation of all kinds of functions.

use exec::{Result, function};
use value::{Map, Value};

use crate::local::Ask;
use crate::{Module, RunnerContext, docs};

/// The functions of the runner `doc`.
pub static MODULE: Module =
    Module::new("doc", "Documentation of all kinds of functions.", &[&EXECUTION, &RUNNER, &WHEEL]);

/// Returns the documentation of all runners.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run doc.runner
#[function]
async fn runner(ctx: &RunnerContext) -> Result<Map> {
    Ok(docs(ctx.tables.runners, ""))
}

/// Returns the documentation of all wheel functions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run doc.wheel
#[function]
async fn wheel(ctx: &RunnerContext) -> Result<Map> {
    Ok(docs(ctx.tables.wheel, ""))
}

/// Returns the documentation of all execution functions that any minion has.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run doc.execution
#[function]
async fn execution(ctx: &RunnerContext) -> Result<Value> {
    let Some(answers) = Ask::new(ctx, "*", "glob", "sys.doc").run_or_print(ctx).await else {
        return Ok(Value::List(Vec::new()));
    };
    let mut all = Map::new();
    for mut answer in answers.returned {
        if let Some(Value::Map(docs)) = answer.data.remove("return") {
            all.update(docs);
        }
    }
    Ok(all.into())
}
