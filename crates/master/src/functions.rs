//! Runners and wheel functions, asked for over the wire: who may call them, their events, their answers.

use std::sync::Arc;

use exec::Call;
use futures_util::future::BoxFuture;
use targeting::acl::{self, Form, call_allowed};
use tracing::{error, info};
use value::{Map, Value, map};
use wire::Jid;

use crate::Shared;
use crate::credentials::{self, Kind};
use crate::requests::{Answer, Ask};
use crate::users::Grant;

/// A function of the master that is to be called.
#[derive(Clone, Debug)]
pub struct Order {
    /// Its name, `module.function`.
    pub fun: String,
    /// Its arguments.
    pub call: Call,
    /// Who asked.
    pub user: String,
    /// The number of the call.
    pub jid: Jid,
    /// What its events begin with: `salt/run/<jid>` or `salt/wheel/<jid>`.
    pub tag: String,
}

/// How functions are called. An error is what the caller is shown as the return of a failed call.
pub type Caller = fn(Arc<Shared>, Order) -> BoxFuture<'static, Result<Value, exec::Error>>;

/// The functions a master has.
#[derive(Clone, Copy)]
pub struct Functions {
    /// `salt-run`.
    pub runners: Caller,
    /// `wheel`.
    pub wheel: Caller,
}

impl Order {
    fn new(shared: &Shared, form: Form, fun: String, call: Call, user: String) -> Self {
        let jid = shared.new_jid();
        let word = if form == Form::Runner { "run" } else { "wheel" };
        Order { fun, call, user, tag: format!("salt/{word}/{jid}"), jid }
    }

    /// The data of its events.
    fn describe(&self, form: Form) -> Map {
        let word = if form == Form::Runner { "runner" } else { "wheel" };
        let mut arguments = self.call.args.clone();
        if !self.call.kwargs.is_empty() {
            arguments.push(self.call.kwargs.clone().into());
        }
        map! {
            "fun" => format!("{word}.{}", self.fun), "jid" => &self.jid, "user" => self.user.as_str(),
            "fun_args" => arguments,
        }
    }
}

/// Calls a function and fires its events. Returns the data of the last one.
async fn run(shared: Arc<Shared>, form: Form, order: Order) -> Map {
    let (caller, word) = match form {
        Form::Runner => (shared.functions.runners, "runner"),
        Form::Wheel => (shared.functions.wheel, "wheel"),
    };
    let (fun, tag, mut data) = (order.fun.clone(), order.tag.clone(), order.describe(form));
    shared.fire(format!("{tag}/new"), data.clone());
    // In a task of its own, so that a bug in a function ends that call alone.
    let outcome = tokio::spawn(caller(shared.clone(), order)).await;
    let (returned, success) = match outcome {
        Ok(Ok(value)) => (value, true),
        Ok(Err(failure)) => (format!("Exception occurred in {word} {fun}: {failure}").into(), false),
        Err(panic) => (format!("Exception occurred in {word} {fun}: {panic}").into(), false),
    };
    if !success {
        error!("{returned}");
    }
    data.insert("return", returned);
    data.insert("success", success);
    shared.fire(format!("{tag}/ret"), data.clone());
    data
}

/// `runner`: answers with the tag of the result at once.
pub fn runner(ask: Ask) -> Answer {
    let (shared, order) = match admit(ask, Form::Runner) {
        Ok(admitted) => admitted,
        Err(refused) => return refused.into(),
    };
    info!("Runner {} called by {} with jid {}", order.fun, order.user, order.jid);
    let answer = map! { "tag" => order.tag.as_str(), "jid" => &order.jid };
    let begun = async move {
        tokio::spawn(run(shared, Form::Runner, order));
        answer.into()
    };
    Answer::Later(Box::pin(begun))
}

/// `wheel`: answers with the result.
pub fn wheel(ask: Ask) -> Answer {
    let (shared, order) = match admit(ask, Form::Wheel) {
        Ok(admitted) => admitted,
        Err(refused) => return refused.into(),
    };
    Answer::Later(Box::pin(async move {
        let tag = order.tag.clone();
        let mut data = run(shared, Form::Wheel, order).await;
        data.remove("fun_args");
        data.insert("tag", tag.as_str());
        map! { "tag" => tag, "data" => data }.into()
    }))
}

/// A runner a minion may run: answers with its return.
pub fn for_minion(shared: Arc<Shared>, fun: String, arguments: Vec<Value>) -> Answer {
    let user = shared.users.master_user().to_owned();
    let order = Order::new(&shared, Form::Runner, fun, Call::from_arg_list(&arguments), user);
    Answer::Later(Box::pin(async move { run(shared, Form::Runner, order).await.remove("return").unwrap_or_default() }))
}

/// Checks who asks and whether they may.
fn admit(ask: Ask, form: Form) -> Result<(Arc<Shared>, Order), Map> {
    let Ask { shared, mut load, .. } = ask;
    let fields = load.clone();
    let caller = credentials::check(&shared, &fields, &mut load).map_err(|unknown| {
        tracing::warn!("Authentication failure of type \"{}\" occurred.", unknown.kind.word());
        unknown.answer()
    })?;
    let fun = load.get_str("fun").unwrap_or_default().to_owned();
    let call = arguments(&load, form);
    if let (Grant::Listed(list), true) = (&caller.grant, caller.kind != Kind::User) {
        let wanted = acl::Call { form, function: &fun, arguments: &call.args, keywords: Some(&call.kwargs) };
        match call_allowed(list, &wanted) {
            Ok(true) => {}
            Ok(false) => return Err(credentials::Unknown { kind: caller.kind, user: caller.user }.answer()),
            Err(syntax) => {
                return Err(
                    map! { "error" => map! { "name" => "SaltInvocationError", "message" => syntax.to_string() } },
                );
            }
        }
    }
    let user = match caller.user {
        Some(user) if user.starts_with("sudo_") => shared.users.master_user().to_owned(),
        Some(user) => user,
        None => shared.users.master_user().to_owned(),
    };
    let order = Order::new(&shared, form, fun, call, user);
    Ok((shared, order))
}

/// Fields of a wheel request that are no arguments.
const RESERVED: [&str; 16] = [
    "cmd",
    "fun",
    "arg",
    "kwarg",
    "key",
    "user",
    "token",
    "eauth",
    "username",
    "password",
    "client",
    "print_event",
    "full_return",
    "jid",
    "ts",
    "id",
];

/// Runners have their arguments in `kwarg`, or there again in `arg` and `kwarg`; wheel functions also among the fields.
fn arguments(load: &Map, form: Form) -> Call {
    let inner = load.get("kwarg").and_then(Value::as_map).cloned().unwrap_or_default();
    let list = |map: &Map| map.get("arg").and_then(Value::as_list).unwrap_or_default().to_vec();
    let mut all = list(load);
    let mut named = Map::new();
    let nested = form == Form::Runner && (inner.contains_key("arg") || inner.contains_key("kwarg"));
    if nested {
        all.extend(list(&inner));
        named.update(inner.get("kwarg").and_then(Value::as_map).cloned().unwrap_or_default());
    } else {
        named.update(inner);
    }
    if form == Form::Wheel {
        // Keys like `id` are arguments of no wheel function but `match` and the like are.
        let flat = load.iter().filter(|(name, _)| name.as_str().is_some_and(|name| !RESERVED.contains(&name)));
        named.extend(flat.map(|(name, value)| (name.clone(), value.clone())));
    }
    named.retain(|name, _| name.as_str().is_some_and(|name| !name.starts_with("__")));
    let mut call = Call::from_arg_list(&all);
    call.kwargs.update(named);
    call
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn arguments_come_in_several_shapes() {
        let named = |load: Map, form| {
            let call = arguments(&load, form);
            (call.args, call.kwargs)
        };
        let flat = map! { "cmd" => "wheel", "fun" => "key.accept", "match" => "web*", "key" => "k", "user" => "root" };
        assert_eq!(named(flat, Form::Wheel), (vec![], map! { "match" => "web*" }));
        let list =
            map! { "fun" => "key.accept", "arg" => list!["web*"], "kwarg" => map! { "include_rejected" => true } };
        assert_eq!(named(list, Form::Wheel), (vec!["web*".into()], map! { "include_rejected" => true }));
        let inner = map! { "arg" => list!["1"], "kwarg" => map! { "a" => 2, "__pub_user" => "x" } };
        let runner = map! { "fun" => "test.arg", "kwarg" => inner };
        assert_eq!(named(runner, Form::Runner), (vec!["1".into()], map! { "a" => 2 }));
    }
}
