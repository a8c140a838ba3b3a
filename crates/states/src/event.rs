//! `event`: events on the bus of the masters.

use exec::{Context, Function, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::call_with_kwargs;

/// The module.
pub static MODULE: Module =
    Module::new("event", "Events on the bus of the masters.", &[&FIRE_MASTER, &MOD_WATCH, &SEND, &WAIT]);

/// The content of an event.
struct Sending {
    data: Option<Value>,
    preload: Option<Value>,
    with_env: Value,
    with_grains: Value,
    with_pillar: Value,
    show_changed: Value,
    kwargs: Map,
}

impl Sending {
    fn send(self, ctx: &Context, name: Value) -> Result<Ret> {
        let mut ret = Ret::new(name.clone());
        if self.show_changed.truthy() {
            ret.changes = map! { "tag" => name.clone(), "data" => self.data.clone() };
        }
        if ctx.is_test() {
            return Ok(ret.would("Event would have been fired"));
        }
        let mut arguments = self.kwargs;
        arguments.update(map! {
            "tag" => name, "data" => self.data, "preload" => self.preload, "with_env" => self.with_env,
            "with_grains" => self.with_grains, "with_pillar" => self.with_pillar,
        });
        ret.result = call_with_kwargs(ctx, "event.send", arguments)?.as_bool();
        ret.comment = "Event fired".into();
        Ok(ret)
    }
}

/// Fires an event on the bus of the masters. Additional arguments are data of the event.
#[function]
fn send(
    ctx: &Context,
    name: Value,
    data: Option<Value>,
    preload: Option<Value>,
    #[default(false)] with_env: Value,
    #[default(false)] with_grains: Value,
    #[default(false)] with_pillar: Value,
    #[default(true)] show_changed: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let kwargs = kwargs.0;
    Sending { data, preload, with_env, with_grains, with_pillar, show_changed, kwargs }.send(ctx, name)
}

/// `fire_master`: the same as `send`.
static FIRE_MASTER: Function = Function { name: "fire_master", doc: "Another name of ``event.send``.", ..SEND };

/// `mod_watch`: the same as `send`.
static MOD_WATCH: Function =
    Function { name: "mod_watch", doc: "Fires the event when a watched state has changed something.", ..SEND };

/// Fires an event only when a watched state changes something.
#[function]
fn wait(name: Value, sfun: Option<Value>, data: Option<Value>) -> Result<Ret> {
    let _ = (sfun, data);
    Ok(Ret::new(name).ok(""))
}
