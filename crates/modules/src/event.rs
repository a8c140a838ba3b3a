//! `event` — messages on the minion's own bus and on its masters'.

use exec::{Context, KwArgs, Module, Result, function};
use value::{Map, Value, map};

/// Registers the functions of `event`.
pub static MODULE: Module =
    Module::new("event", "Messages on the minion's bus and on its masters'.", &[&FIRE, &FIRE_MASTER, &SEND]);

/// Fires an event on the minion's own bus. The bus carries maps only; for anything else the result is False.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' event.fire '{"data": "my event data"}' 'tag'
#[function]
fn fire(ctx: &Context, data: Value, tag: String) -> Result<bool> {
    match data {
        Value::Map(data) => ctx.wait(ctx.agent.fire_local(&tag, data)),
        other => {
            tracing::debug!("the event {tag} is not fired: its data are of the type {}, not a map", other.type_name());
            Ok(false)
        }
    }
}

/// Fires an event on the bus of every connected master. ``preload`` holds fields that override those of the request.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' event.fire_master '{"data": "my event data"}' 'tag'
#[function]
fn fire_master(ctx: &Context, data: Value, tag: String, preload: Option<Map>) -> Result<bool> {
    to_masters(ctx, data, &tag, preload)
}

fn to_masters(ctx: &Context, data: Value, tag: &str, preload: Option<Map>) -> Result<bool> {
    // Without a master there is no recipient. Salt warns and returns False rather than fail a state.
    if masterless(ctx) {
        tracing::warn!("Local mode detected. Event with tag {tag} will NOT be sent.");
        return Ok(false);
    }
    let mut load = map! { "id" => ctx.id(), "cmd" => "_minion_event", "pretag" => (), "data" => data, "tag" => tag };
    if let Some(preload) = preload.filter(|preload| !preload.is_empty()) {
        // A preload replaces the prefix: the caller chose the tag in full.
        load.remove("pretag");
        load.update(preload);
    }
    // Every master gets it, not only the one that sent the job.
    ctx.wait(ctx.agent.broadcast(load))
}

fn masterless(ctx: &Context) -> bool {
    let on = |name: &str| ctx.opt(name).is_some_and(Value::truthy);
    (on("local") || ctx.is_local()) && !on("use_master_when_local")
}

/// Fires an event on the bus of every connected master, or on the minion's own bus when there is no master.
///
/// The data are the named arguments and ``data``, and on demand the environment, grains and pillar: all with True, or
/// those in a list. ``with_env_opts`` adds the names of the environments in use.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' event.send myco/mytag foo=Foo bar=Bar
///     salt '*' event.send 'myco/mytag' '{foo: Foo, bar: Bar}' with_grains='[os]'
#[function]
fn send(
    ctx: &Context,
    tag: String,
    data: Option<Value>,
    preload: Option<Map>,
    #[default(false)] with_env: Value,
    #[default(false)] with_grains: Value,
    #[default(false)] with_pillar: Value,
    #[default(false)] with_env_opts: bool,
    kwargs: KwArgs,
) -> Result<bool> {
    let mut all = Map::new();
    add(&mut all, "environ", &with_env, &std::env::vars().collect());
    add(&mut all, "grains", &with_grains, &ctx.grains);
    add(&mut all, "pillar", &with_pillar, &ctx.pillar);
    if with_env_opts {
        all.insert("saltenv", ctx.opt_str("saltenv").unwrap_or("base"));
        all.insert("pillarenv", ctx.opt_str("pillarenv").map(str::to_owned));
    }
    // The order decides which value wins: the caller's own data come last.
    all.update(kwargs.0);
    if let Some(Value::Map(data)) = data {
        all.update(data);
    }
    // States use this function without a master too, where the local bus is the only one.
    if masterless(ctx) || ctx.opt_str("master_type") == Some("disable") {
        return ctx.wait(ctx.agent.fire_local(&tag, all));
    }
    to_masters(ctx, all.into(), &tag, preload)
}

/// Adds the whole of `from`, or the entries that a list names.
fn add(all: &mut Map, name: &str, wanted: &Value, from: &Map) {
    let chosen: Map = match wanted {
        Value::List(names) => from
            .iter()
            .filter(|(key, _)| names.contains(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        other if other.truthy() => from.clone(),
        _ => return,
    };
    all.insert(name, chosen);
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;
    use value::list;

    #[test]
    fn an_event_goes_to_the_masters_with_what_was_asked_for() {
        let grains = map! { "os" => "Debian", "cpu" => 1 };
        let (ctx, agent) = context(&[&MODULE], map! { "id" => "m", "saltenv" => "dev" }, grains, map! {});
        let kwargs =
            map! { "with_grains" => list!["os"], "with_env_opts" => true, "foo" => 1, "data" => map! { "foo" => 2 } };
        let call = exec::Call { args: vec!["a/b".into()], kwargs };
        assert_eq!(ctx.call_with("event.send", call).unwrap(), true.into());
        let data = map! { "grains" => map! { "os" => "Debian" }, "saltenv" => "dev", "pillarenv" => (), "foo" => 2 };
        let load = map! { "id" => "m", "cmd" => "_minion_event", "pretag" => (), "data" => data, "tag" => "a/b" };
        assert_eq!(agent.asked.lock().unwrap().as_slice(), [load]);
    }

    #[test]
    fn without_a_master_it_stays_here() {
        let (ctx, agent) = context(&[&MODULE], map! { "id" => "m", "file_client" => "local" }, map! {}, map! {});
        let fired = ctx.call("event.send", vec!["t".into(), map! { "a" => 1 }.into()]).unwrap();
        assert_eq!(fired, true.into());
        assert_eq!(agent.asked.lock().unwrap().as_slice(), [map! { "local" => "t", "a" => 1 }]);
        assert_eq!(ctx.call("event.fire_master", vec![1.into(), "t".into()]).unwrap(), false.into());
    }

    #[test]
    fn the_bus_carries_maps_only() {
        let (ctx, agent) = context(&[&MODULE], map! { "id" => "m" }, map! {}, map! {});
        for data in ["text".into(), Value::Null, list![1], 7.into()] {
            assert_eq!(ctx.call("event.fire", vec![data, "t".into()]).unwrap(), false.into());
        }
        assert_eq!(agent.asked.lock().unwrap().len(), 0);
        assert_eq!(ctx.call("event.fire", vec![map! {}.into(), "t".into()]).unwrap(), true.into());
    }
}
