//! Orchestrations of a machine without a master.

use exec::{Call, Context, Error, Result, function};
use value::{Map, Value, map};

/// Applies SLS files as an orchestration does, on a machine that has no master, and returns the result in the form of
/// ``salt-run state.orchestrate``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-call --local state.orchestrate webserver
///     salt-call --local state.orchestrate webserver saltenv=dev test=True
#[function]
pub fn orchestrate(
    ctx: &Context,
    mods: Value,
    #[default("base")] saltenv: Value,
    test: Option<Value>,
    exclude: Option<Value>,
    pillar: Option<Value>,
    pillarenv: Option<Value>,
) -> Result<Map> {
    // With a master the orchestration belongs there: only the master can command other minions.
    if !ctx.is_local() {
        return Err(Error::execution(
            "not supported: state.orchestrate on a minion that has a master; run salt-run state.orchestrate there",
        ));
    }
    if pillar.as_ref().is_some_and(|pillar| pillar.as_map().is_none()) {
        return Err(Error::invocation("Pillar data must be formatted as a dictionary"));
    }
    let mut kwargs = map! {
        "mods" => mods, "saltenv" => saltenv, "test" => test, "exclude" => exclude, "pillar" => pillar,
        "pillarenv" => pillarenv,
    };
    kwargs.retain(|_, value| !value.is_null());
    let running = ctx.call_with("state.sls", Call { args: Vec::new(), kwargs })?;
    // The result holds the outcome of the states; the job itself has done its work.
    let code = i64::from(ctx.job.retcode() != 0);
    ctx.set_retcode(0);
    Ok(map! { "data" => map! { ctx.id() => running }, "outputter" => "highstate", "retcode" => code })
}

#[cfg(test)]
mod tests {
    use exec::testing;

    use super::*;

    #[test]
    fn it_is_for_machines_without_a_master() {
        let call = |opts: Map, kwargs: Map| {
            let (ctx, _) = testing::context(&[&super::super::MODULE], opts, map! {}, map! {});
            ctx.call_with("state.orchestrate", Call { args: vec!["a".into()], kwargs }).unwrap_err().to_string()
        };
        assert!(call(map! { "file_client" => "remote" }, map! {}).starts_with("not supported: "));
        let wrong = call(map! { "file_client" => "local" }, map! { "pillar" => 5 });
        assert_eq!(wrong, "Pillar data must be formatted as a dictionary");
    }
}
