//! Runners and wheel functions that are called over the wire: permissions and answers.

use std::net::IpAddr;
use std::sync::Arc;

use exec::Call;
use logscope::Scope;
use runners::{Connected, Events, Kind, Request, RunnerContext, TABLES, call_from_low};
use targeting::acl::{self, Form, call_allowed};
use tracing::{info, warn};
use value::{Map, Value, map};

use super::{Answer, MasterRequest};
use crate::Shared;
use crate::credentials::{self, Caller};
use crate::users::Grant;

/// Handles `runner`: answers at once, with the tag of the result.
pub fn runner(ask: MasterRequest) -> Answer {
    let (shared, request, scope) = match admit(ask, Kind::Runner) {
        Ok(admitted) => admitted,
        Err(refused) => return refused.into(),
    };
    let called = || info!("Runner {} called by {} with jid {}", request.fun, request.user, request.jid);
    scope.run(called);
    let answer = map! { "tag" => Kind::Runner.tag(&request.jid), "jid" => request.jid.as_str() };
    let rt = shared.stores.rt.clone();
    Answer::Later(Box::pin(async move {
        // In a task of its own: it goes on when the asking program has gone.
        let run = Box::pin(async move { runners::run(&context(&shared), request).await });
        rt.spawn(scope.around(run));
        answer.into()
    }))
}

/// Handles `wheel`: answers with the result.
pub fn wheel(ask: MasterRequest) -> Answer {
    let (shared, request, scope) = match admit(ask, Kind::Wheel) {
        Ok(admitted) => admitted,
        Err(refused) => return refused.into(),
    };
    let run = Box::pin(async move {
        let tag = Kind::Wheel.tag(&request.jid);
        let mut data = runners::run(&context(&shared), request).await.data;
        // As in Salt, the answer lacks the arguments and has the tag twice.
        data.remove("fun_args");
        data.insert("tag", tag.as_str());
        map! { "tag" => tag, "data" => data }.into()
    });
    Answer::Later(Box::pin(scope.around(run)))
}

/// Runs a runner for a minion, and answers with its result.
pub fn for_minion(shared: Arc<Shared>, fun: String, call: Call) -> Answer {
    let user = shared.users.master_user().to_owned();
    let request = Request::new(Kind::Runner, fun, call, shared.new_jid(), user);
    Answer::Later(Box::pin(async move { runners::run(&context(&shared), request).await.ret }))
}

/// Returns the context of functions in the running master.
pub(crate) fn context(shared: &Arc<Shared>) -> RunnerContext {
    let stores = &shared.stores;
    RunnerContext::new(
        stores.config.clone(),
        stores.rt.clone(),
        Events::Bus(shared.bus.clone()),
        &TABLES,
        stores.catalogue,
    )
    .with_connected(Arc::new(Live(shared.clone())))
    .with_data(stores.data.clone())
}

struct Live(Arc<Shared>);

impl Connected for Live {
    fn new_jid(&self) -> String {
        self.0.new_jid().to_string()
    }

    fn connected(&self) -> Vec<(String, Option<IpAddr>)> {
        let presence = &self.0.presence;
        self.0.connected_anywhere().into_iter().map(|id| (id.to_string(), presence.address(&id))).collect()
    }
}

/// Returns the execution functions that a runner is told to call, here or on minions.
fn called_inside(kind: Kind, fun: &str, call: &Call) -> Vec<String> {
    // The blacklist is about functions: without this, `salt.cmd` would be a way around it.
    let place = match (kind, fun) {
        (Kind::Runner, "salt.cmd") => 0,
        (Kind::Runner, "salt.execute") => 1,
        _ => return Vec::new(),
    };
    match call.kwargs.get("fun").or_else(|| call.args.get(place)) {
        Some(Value::Str(names)) => names.split(',').map(str::to_owned).collect(),
        Some(Value::List(names)) => names.iter().map(Value::to_string).collect(),
        _ => Vec::new(),
    }
}

/// Returns the runner that a runner is told to call.
fn runner_inside(kind: Kind, fun: &str, call: &Call) -> Option<(String, Call)> {
    if (kind, fun) != (Kind::Runner, "saltern.once") {
        return None;
    }
    let mut inside = call.clone();
    let mut take = |name: &str| match inside.kwargs.remove(name) {
        Some(given) => Some(given),
        None if inside.args.is_empty() => None,
        None => Some(inside.args.remove(0)),
    };
    let (_name, fun) = (take("name"), take("fun")?);
    inside.kwargs.remove("within");
    Some((fun.to_string(), inside))
}

/// Checks who the caller is and what they may do. Also returns the scope of the log in which the function runs.
fn admit(ask: MasterRequest, kind: Kind) -> Result<(Arc<Shared>, Request, Scope), Map> {
    let MasterRequest { shared, login, mut load, .. } = ask;
    let fields = load.clone();
    let caller = credentials::check(&shared, login, &fields, &mut load).map_err(|unknown| {
        unknown.log();
        unknown.answer()
    })?;
    let scope = Scope::of(caller.peer());
    let _peer = logscope::enter(caller.peer());
    let fun = load.get_str("fun").unwrap_or_default().to_owned();
    // A function that does not exist takes nothing, and the call says so with the events around it.
    let call = TABLES.find(kind, &fun).map(|function| call_from_low(function, &load)).unwrap_or_default();
    authorise(&shared, &caller, kind, &fun, &call)?;
    let user = match caller.user {
        // A user with sudo acts as the master's user.
        Some(user) if caller.kind != credentials::Kind::User || !user.starts_with("sudo_") => user,
        _ => shared.users.master_user().to_owned(),
    };
    let request = Request::new(kind, fun, call, shared.new_jid(), user);
    Ok((shared, request, scope))
}

/// Returns whether a caller may call a function. A refusal is no event for the log: consoles ask for all that they could show.
pub fn is_granted(shared: &Shared, caller: &Caller, kind: Kind, fun: &str, call: &Call) -> bool {
    if shared.users.is_blacklisted(caller.user.as_deref().unwrap_or_default(), &[fun.to_owned()]) {
        return false;
    }
    let Grant::Listed(list) = &caller.grant else { return true };
    call_allowed(list, &acl_call(kind, fun, call)) == Ok(true)
}

fn acl_call<'a>(kind: Kind, fun: &'a str, call: &'a Call) -> acl::Call<'a> {
    let form = if kind == Kind::Runner { Form::Runner } else { Form::Wheel };
    acl::Call { form, function: fun, arguments: &call.args, keywords: Some(&call.kwargs) }
}

/// A key of the master itself permits everything; other callers are limited to their list, with entries such as
/// `@runner`. The key of a user in `publisher_acl` never permits more than their list.
fn authorise(shared: &Shared, caller: &Caller, kind: Kind, fun: &str, call: &Call) -> Result<(), Map> {
    let mut functions = vec![fun.to_owned()];
    functions.extend(called_inside(kind, fun, call));
    // What it runs is another call.
    if let Some((fun, call)) = runner_inside(kind, fun, call) {
        authorise(shared, caller, kind, &fun, &call)?;
    }
    // Before anything else, since it applies to everybody.
    if shared.users.is_blacklisted(caller.user.as_deref().unwrap_or_default(), &functions) {
        warn!("{} does not have permissions to run {}", caller.name(), functions.join(","));
        let error = map! { "name" => "AuthorizationError", "message" => "Authorization error occurred." };
        return Err(map! { "error" => error });
    }
    let Grant::Listed(list) = &caller.grant else { return Ok(()) };
    match call_allowed(list, &acl_call(kind, fun, call)) {
        Ok(true) => Ok(()),
        Ok(false) => {
            warn!("{} may not call the {} function {fun}: their list does not name it", caller.name(), kind.word());
            Err(credentials::Unknown { kind: caller.kind, user: caller.user.clone() }.answer())
        }
        Err(syntax) => {
            let error = map! { "name" => "SaltInvocationError", "message" => syntax.to_string() };
            Err(map! { "error" => Value::from(error) })
        }
    }
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn what_a_runner_runs_once_is_a_call_that_needs_a_permission_too() {
        let inside = |args: Value, kwargs: Map| {
            let call = Call { args: args.into_list().unwrap_or_default(), kwargs };
            runner_inside(Kind::Runner, "saltern.once", &call)
        };
        let wanted = Call { args: vec!["orch.a".into()], kwargs: map! { "x" => 1 } };
        let positional = inside(list!["a", "state.orchestrate", "orch.a"], map! { "x" => 1, "within" => 90 });
        assert_eq!(positional, Some(("state.orchestrate".to_owned(), wanted.clone())));
        let named = inside(list!["orch.a"], map! { "name" => "a", "fun" => "state.orchestrate", "x" => 1 });
        assert_eq!(named, Some(("state.orchestrate".to_owned(), wanted)));
        assert_eq!(inside(list!["a"], Map::new()), None, "it lacks the function");
        assert_eq!(runner_inside(Kind::Runner, "test.arg", &Call::default()), None);
    }
}
