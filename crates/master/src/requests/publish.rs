//! `publish`: somebody on this host commands minions.

use targeting::acl::{Publication, publish_allowed};
use tracing::{error, warn};
use value::{Map, Value, map};

use super::{Answer, Ask};
use crate::Shared;
use crate::credentials::{self, Kind};
use crate::jobs::publish::{Reader, Target, allowed};
use crate::users::Grant;

/// Always allowed: the command line asks it about silent minions.
const FREE: &str = "saltutil.find_job";

/// Checks who asks for what, and publishes it.
pub fn handle(ask: Ask) -> Answer {
    let Ask { shared, mut load, .. } = ask;
    if !["fun", "arg", "tgt"].iter().all(|name| load.contains_key(name)) {
        return Answer::Plain("Some exception handling minion payload".into());
    }
    let functions = functions(&load);
    let user = load.get_str("user").unwrap_or_default().to_owned();
    if shared.users.is_blacklisted(&user, &functions) {
        error!(
            "{user} does not have permissions to run {}. Please contact your local administrator if you believe \
             this is in error.",
            functions.join(",")
        );
        return refusal("AuthorizationError", "Authorization error occurred.").into();
    }
    let reader = Reader::take(&mut load);
    let target = Target::of(&load);
    let meant = target.expand(&shared);
    let fields = load.get("kwargs").and_then(Value::as_map).cloned().unwrap_or_default();
    let caller = match credentials::check(&shared, &fields, &mut load) {
        Ok(caller) => caller,
        Err(unknown) => {
            warn!("Authentication failure of type \"{}\" occurred.", unknown.kind.word());
            return refuse(&shared, load, "AuthenticationError", "Authentication error occurred.");
        }
    };
    if let Grant::Listed(list) = &caller.grant {
        let wanted = Publication {
            functions: &functions,
            arguments: &arguments(&load),
            target: &target.tgt,
            kind: target.kind.unwrap_or_default(),
            minions: Some(&meant.minions),
        };
        let free = functions.iter().all(|function| function == FREE);
        if !free && !publish_allowed(list, &wanted, &shared.stores.checker()) {
            warn!("Authentication failure of type \"{}\" occurred.", caller.kind.word());
            return refuse(&shared, load, "AuthorizationError", "Authorization error occurred.");
        }
    }
    if caller.kind == Kind::Token {
        load.insert("user", caller.user);
    }
    forget_secrets(&mut load);
    allowed(&shared, load, meant, reader).into()
}

fn refusal(name: &str, message: &str) -> Map {
    map! { "error" => map! { "name" => name, "message" => message } }
}

/// Refuses, and tells those who listen for the job.
fn refuse(shared: &Shared, mut load: Map, name: &str, message: &str) -> Answer {
    let answer = refusal(name, message);
    if let Some(jid) = load.get("jid").map(Value::to_string) {
        forget_secrets(&mut load);
        load.update(answer.clone());
        shared.fire(wire::event::tag("salt", "job", &[&jid, "error"]), load);
    }
    answer.into()
}

/// Tokens and passwords go neither into the job cache nor on the bus.
fn forget_secrets(load: &mut Map) {
    if let Some(kwargs) = load.get_mut("kwargs").and_then(Value::as_map_mut) {
        for name in ["token", "password", "key"] {
            kwargs.remove(name);
        }
    }
}

/// The functions of a request: one, or several in a list or between commas.
fn functions(load: &Map) -> Vec<String> {
    match load.get("fun") {
        Some(Value::List(names)) => names.iter().map(Value::to_string).collect(),
        Some(Value::Str(names)) => names.split(',').map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// The arguments of each function.
fn arguments(load: &Map) -> Vec<Vec<Value>> {
    let all = load.get("arg").and_then(Value::as_list).unwrap_or_default();
    match load.get("fun") {
        Some(Value::List(_)) => all.iter().map(|part| part.as_list().unwrap_or_default().to_vec()).collect(),
        _ => vec![all.to_vec()],
    }
}
