//! `salt_monitor` — results of functions.

use exec::{Call, Context};
use futures_util::future::BoxFuture;
use value::{Map, Value, map};

use crate::config::flat;
use crate::{Found, Kind, Watcher};

pub const KIND: Kind = Kind {
    name: "salt_monitor",
    validate: |config, ctx| calls(config).and_then(|calls| exist(&calls, ctx)),
    watch: |config| Box::new(Monitor(config.clone())),
};

struct Monitor(Value);

struct WatchedCall {
    fun: String,
    call: Call,
}

fn exist(calls: &[WatchedCall], ctx: &Context) -> Result<(), String> {
    let agent = ctx.agent.clone();
    // The names are from the configuration, so the options that forbid modules count.
    match calls.iter().find(|wanted| agent.registry().find_permitted(&wanted.fun).is_err()) {
        Some(wanted) => Err(format!("{} not in __salt__", wanted.fun)),
        None => Ok(()),
    }
}

/// Returns the calls in a configuration.
fn calls(config: &Value) -> Result<Vec<WatchedCall>, String> {
    let plain = |fun: &Value| WatchedCall { fun: fun.to_string(), call: Call::default() };
    match flat(config).get("salt_fun") {
        None => Err("Configuration for salt_monitor beacon requires salt_fun.".to_owned()),
        Some(Value::List(entries)) => entries
            .iter()
            .map(|entry| match entry {
                Value::Map(entry) => {
                    let (fun, arguments) = entry.iter().next().ok_or("a function has no name")?;
                    Ok(WatchedCall { fun: fun.to_string(), call: arguments_of(&fun.to_string(), arguments)? })
                }
                other => Ok(plain(other)),
            })
            .collect(),
        Some(fun) => Ok(vec![plain(fun)]),
    }
}

fn arguments_of(fun: &str, arguments: &Value) -> Result<Call, String> {
    let mut call = Call::default();
    let Some(arguments) = arguments.as_map() else { return Ok(call) };
    for (key, value) in arguments.iter() {
        match key.as_str() {
            Some("args") => {
                call.args = value.as_list().ok_or_else(|| format!("args key for fun {fun} must be list"))?.to_vec();
            }
            Some("kwargs") => {
                let pairs = value.as_list();
                let pairs = pairs.ok_or_else(|| format!("kwargs key for fun {fun} must be list of key value pairs"))?;
                for pair in pairs {
                    let pair = pair.as_map().ok_or_else(|| format!("{pair} is not a key / value pair"))?;
                    call.kwargs.update(pair.clone());
                }
            }
            _ => return Err(format!("key {key} not allowed under fun {fun}")),
        }
    }
    Ok(call)
}

impl Watcher for Monitor {
    fn look<'a>(&'a mut self, ctx: &'a Context) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            // A single function, written as text, is reported whatever it returns.
            let always = flat(&self.0).get("salt_fun").is_some_and(|fun| fun.as_list().is_none());
            let mut found = Vec::new();
            for WatchedCall { fun, call } in calls(&self.0)? {
                let (args, kwargs) = (call.args.clone(), call.kwargs.clone());
                let named = fun.clone();
                let returned = ctx.apart(move |ctx| ctx.call_permitted(&named, call)).await;
                let returned = returned.map_err(|error| error.to_string())?;
                if returned.truthy() || always {
                    found.push(event(fun, returned, args, kwargs));
                }
            }
            Ok(found)
        })
    }
}

fn event(fun: String, returned: Value, args: Vec<Value>, kwargs: Map) -> Map {
    let mut event = map! { "salt_fun" => fun, "ret" => returned };
    if !args.is_empty() {
        event.insert("args", args);
    }
    if !kwargs.is_empty() {
        event.insert("kwargs", kwargs);
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn calls_are_read() {
        let config: Value = list![
            map! { "salt_fun" => list!["a.b", map! { "c.d" => map! { "args" => list![1], "kwargs" => list![map! { "x" => 2 }] } }] }
        ];
        let calls = super::calls(&config).unwrap();
        assert_eq!((calls[0].fun.as_str(), calls[1].fun.as_str()), ("a.b", "c.d"));
        assert_eq!((calls[1].call.args.len(), calls[1].call.kwargs.get("x")), (1, Some(&2.into())));
        assert!(super::calls(&list![map! { "salt_fun" => list![map! { "c.d" => map! { "args" => 1 } }] }]).is_err());
    }
}
