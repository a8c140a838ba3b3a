//! Requests by which minions command other minions: `minion_pub`, `minion_publish`, `minion_runner`, `pub_ret`.

use std::collections::HashSet;
use std::time::Duration;

use event::Filter;
use exec::Call;
use targeting::acl::{
    Publication, everything_allowed, function_matches, functions_allowed, peer_entries, publish_allowed,
};
use targeting::{Expected, TargetType};
use tokio::time::Instant;
use tracing::{error, warn};
use value::escape::brief;
use value::{Map, Value, map};
use wire::loads::{PeerPublish, PeerReturns, PeerRunner, Texts};
use wire::{Jid, MinionId};

use super::guarded::{Guarded, granting, guarded, name_minions};
use super::{Answer, MasterRequest, nothing, read};
use crate::Shared;
use crate::bounds::{WAITING_OF_ALL, WAITING_OF_ONE};
use crate::jobs::publish::{ReturnReader, publish_permitted};
use crate::open_jobs::Target;
use crate::senders::Sender;

/// Seconds to wait for returns if the request has no timeout.
const PATIENCE: f64 = 5.0;

/// `minion_pub`: publishes and answers with the job.
pub fn publish(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id: Some(id), load, .. } = ask else { return nothing() };
    let Some(wanted) = read(load, PeerPublish::from_map) else { return nothing() };
    match checked_publication(&shared, &id, wanted) {
        Some(publication) => published(&shared, &id, publication).map_or_else(nothing, |(answer, _)| answer.into()),
        None => nothing(),
    }
}

/// `minion_publish`: publishes, and answers with the returns that arrive in time.
pub fn publish_and_wait(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id: Some(id), load, .. } = ask else { return nothing() };
    let Some(wanted) = read(load, PeerPublish::from_map) else { return nothing() };
    let tmo = wanted.tmo.as_ref().and_then(Value::as_f64).filter(|tmo| (0.0..=86400.0).contains(tmo));
    let patience = Duration::from_secs_f64(tmo.unwrap_or(PATIENCE));
    let full = wanted.form.0.as_deref() == Some("full");
    let Some(publication) = checked_publication(&shared, &id, wanted) else { return nothing() };
    let sender = Sender::Minion(id.clone());
    let Ok(place) = shared.peers_waiting.try_enter(&sender) else {
        warn!(
            "too many publications of minions wait for returns, {WAITING_OF_ONE} of one minion or {WAITING_OF_ALL} in all; one of {id} is not answered"
        );
        return Answer::Silence;
    };
    // Listening begins before the first return can come.
    let returns = shared.bus.subscribe(Filter::prefix("salt/job/"));
    let Some((_, published)) = published(&shared, &id, publication) else { return nothing() };
    Answer::WhileAwaited(Box::pin(async move {
        let _place = place;
        gather(returns, published, patience, full).await
    }))
}

#[derive(Default)]
struct Published {
    jid: String,
    minions: HashSet<String>,
}

async fn gather(mut returns: event::Subscription, job: Published, patience: Duration, full: bool) -> Value {
    let (prefix, end) = (format!("salt/job/{}/ret/", job.jid), Instant::now() + patience);
    let mut found = Map::new();
    while found.len() < job.minions.len() {
        let Some(event) = returns.next_within(end.saturating_duration_since(Instant::now())).await else { break };
        let Some(id) = event.tag().strip_prefix(&prefix).filter(|id| job.minions.contains(*id)) else { continue };
        let data = event.data();
        let returned = data.get("return").cloned().unwrap_or_default();
        let value: Value = match full {
            true => {
                let mut whole = map! { "ret" => returned };
                if let Some(out) = data.get("out") {
                    whole.insert("out", out.clone());
                }
                whole.into()
            }
            false => returned,
        };
        found.insert(id, value);
    }
    found.into()
}

fn published(shared: &Shared, id: &MinionId, (load, meant): (Map, Expected)) -> Option<(Map, Published)> {
    if meant.minions.is_empty() && !shared.stores.config.jobs.order_masters {
        // Salt tells by the fields that the order was allowed; an empty answer means that it was not.
        return Some((map! { "jid" => 0, "minions" => Vec::<Value>::new() }, Published::default()));
    }
    let answer = publish_permitted(shared, load, meant, ReturnReader::Saltern);
    let answer = answer.get("load")?;
    let jid = answer.get("jid")?.as_str()?.to_owned();
    if let Err(failure) = Jid::new(jid.as_str())
        .map_err(|_| None)
        .and_then(|jid| shared.stores.publish_auth.store(&jid, id).map_err(Some))
    {
        let reason = failure.map(|failure| crate::chain(&failure)).unwrap_or_default();
        error!(minion = %id, "minion {id} will not be able to read the returns of job {jid}: {reason}");
    }
    let minions = answer.get("minions")?.as_list()?;
    let job = Published { jid: jid.clone(), minions: minions.iter().map(Value::to_string).collect() };
    Some((map! { "jid" => jid, "minions" => minions.to_vec() }, job))
}

/// Checks the publication that a minion requests. Returns the publish request and the targeted minions; `None` if
/// `peer` does not allow it. The functions are checked before the target is expanded.
fn checked_publication(shared: &Shared, id: &MinionId, wanted: PeerPublish) -> Option<(Map, Expected)> {
    let (functions, single) = functions(&wanted.fun)?;
    if functions.iter().any(|function| function.starts_with("publish.")) {
        return None;
    }
    let refused = |reason: &str| {
        let functions = functions.join(",");
        warn!("Minion {id} is not allowed to publish {} (option 'peer'): {reason}", brief(&functions, 256));
    };
    let list = peer_entries(&shared.stores.config.access.peer, id.as_str());
    if !functions_allowed(&list, &functions) {
        refused("its list does not name it");
        return None;
    }
    let arguments = arguments(wanted.arg.clone(), &wanted.no_parse, functions.len(), single);
    let mut request = request(shared, id, &wanted, &functions, &arguments)?;
    let (target, checker) = (Target::of(&request), shared.stores.checker());
    let order_masters = shared.stores.config.jobs.order_masters;
    let Guarded { kind, by_ids } = match guarded(&target, target.kind?, &list, &checker, order_masters) {
        Ok(guarded) => guarded,
        Err(reason) => {
            refused(reason);
            return None;
        }
    };
    let meant = match checker.expect(&target.tgt, kind, &target.delimiter) {
        Ok(meant) => meant,
        Err(error) => {
            refused(&error.to_string());
            return None;
        }
    };
    let list = granting(&list, &meant, kind, order_masters);
    let publication = Publication {
        functions: &functions,
        arguments: &arguments,
        target: &target.tgt,
        kind,
        delimiter: &target.delimiter,
        minions: Some(&meant.minions),
    };
    if !publish_allowed(&list, &publication, &checker) {
        refused("its list does not grant it with these arguments, or on these minions");
        return None;
    }
    if request.get("ret").is_some_and(Value::truthy) && !everything_allowed(&list, &publication, &checker) {
        refused("returners are for those that may do everything");
        return None;
    }
    if by_ids {
        name_minions(&mut request, &meant);
    }
    Some((request, meant))
}

/// Makes a publish request with only those fields that Salt's peer interface passes on. With others, a peer that may
/// call one function could make minions write files or choose executors.
fn request(
    shared: &Shared,
    id: &MinionId,
    wanted: &PeerPublish,
    functions: &[String],
    arguments: &[Vec<Value>],
) -> Option<Map> {
    let (tgt, kind) = target(shared, wanted)?;
    let lists = |parts: &[Vec<Value>]| Value::List(parts.iter().map(|part| Value::List(part.clone())).collect());
    let (fun, arg) = match (functions, arguments) {
        ([fun], [arg]) => (fun.as_str().into(), Value::List(arg.clone())),
        _ => (Value::from(functions.to_vec()), lists(arguments)),
    };
    let ret = if wanted.ret.truthy() { wanted.ret.as_str().unwrap_or("?") } else { "" };
    Some(map! {
        "cmd" => "publish", "tgt" => tgt, "fun" => fun, "arg" => arg, "tgt_type" => kind, "ret" => ret, "jid" => "",
        "kwargs" => map! { "id" => id }, "user" => shared.users.master_user(),
    })
}

/// Returns the target and its kind. Minions may use the master's node groups.
fn target(shared: &Shared, wanted: &PeerPublish) -> Option<(Value, String)> {
    let kind = wanted.tgt_type.0.as_deref().unwrap_or("glob");
    if !kind.starts_with("node") {
        TargetType::from_name(kind).ok()?;
        return Some((wanted.tgt.clone(), kind.to_owned()));
    }
    let groups = &shared.stores.config.nodegroups;
    let words = targeting::expand_nodegroup(wanted.tgt.as_str()?, groups).ok()?;
    Some((words.join(" ").into(), "compound".to_owned()))
}

/// Returns the functions, and whether the request names a single one. `None` if a name is not text.
fn functions(fun: &Value) -> Option<(Vec<String>, bool)> {
    match fun {
        Value::List(names) if !names.is_empty() => {
            let names: Option<Vec<String>> = names.iter().map(|name| name.as_str().map(str::to_owned)).collect();
            Some((names?, false))
        }
        Value::Str(text) if text.contains(',') => Some((text.split(',').map(str::to_owned).collect(), false)),
        Value::Str(text) => Some((vec![text.to_string()], true)),
        _ => None,
    }
}

/// Returns the arguments of each function, parsed as on the command line.
fn arguments(arg: Value, no_parse: &Texts, count: usize, single: bool) -> Vec<Vec<Value>> {
    let plain: Vec<&str> = no_parse.0.iter().map(String::as_str).collect();
    let given = match arg {
        Value::List(given) => given,
        Value::Null => Vec::new(),
        other => vec![other],
    };
    if single {
        return vec![listed(parse(given, &plain))];
    }
    let part = |place: usize| match given.get(place) {
        Some(Value::Str(text)) => text.split_whitespace().map(Value::from).collect(),
        Some(Value::List(words)) => words.clone(),
        Some(other) => vec![other.clone()],
        None => Vec::new(),
    };
    (0..count).map(|place| listed(parse(part(place), &plain))).collect()
}

/// Parses texts as the command line does; `name=value` becomes a keyword argument.
fn parse(words: Vec<Value>, plain: &[&str]) -> Call {
    let mut call = Call::default();
    for word in words {
        match word.as_str() {
            Some(text) => {
                let (positional, named) = yaml::args::parse_input([text], plain);
                call.args.extend(positional);
                call.kwargs.update(named);
            }
            None => call.args.push(word),
        }
    }
    call
}

/// Puts arguments into the list that a publication carries.
fn listed(call: Call) -> Vec<Value> {
    yaml::args::condition_input(call.args, call.kwargs)
}

/// `minion_runner`: runs a runner if `peer_run` allows it.
pub fn runner(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id: Some(id), load, .. } = ask else { return nothing() };
    let Some(PeerRunner { fun, arg, .. }) = read(load, PeerRunner::from_map) else { return nothing() };
    let rules = peer_entries(&shared.stores.config.access.peer_run, id.as_str());
    if !rules.iter().filter_map(Value::as_str).any(|pattern| function_matches(pattern, &fun)) {
        warn!("Minion {id} is not allowed to run the runner {} (option 'peer_run')", brief(&fun, 256));
        return nothing();
    }
    let words = match arg {
        Value::List(words) => words,
        other => vec![other],
    };
    super::functions::for_minion(shared, fun, parse(words, &[]))
}

/// `pub_ret`: the returns of a job the minion published.
pub fn returns(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id: Some(id), load, .. } = ask else { return nothing() };
    let Some(PeerReturns { jid, .. }) = read(load, PeerReturns::from_map) else { return nothing() };
    let Ok(jid) = Jid::new(jid.as_str()) else { return nothing() };
    let stores = &shared.stores;
    match stores.publish_auth.published(&jid, &id) {
        Ok(true) => {}
        Ok(false) => return nothing(),
        Err(failure) => {
            error!(minion = %id, "failed to read who published job {jid}: {}", crate::chain(&failure));
            return nothing();
        }
    }
    match stores.jobs.returns(jid.as_str()) {
        Ok(returns) => returns.into_iter().map(|(id, returned)| (id, return_map(returned))).collect::<Map>().into(),
        Err(failure) => {
            error!("failed to read the returns of job {jid}: {}", crate::chain(&failure));
            "".into()
        }
    }
}

fn return_map(returned: store::jobs::JobReturn) -> Value {
    let mut shown = map! { "ret" => returned.value };
    if let Some(out) = returned.out {
        shown.insert("out", out);
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn arguments_are_read_as_on_the_command_line() {
        let (arg, plain) = (list!["1", "a=2", "b=x y", "plain=3"], ["plain"].into_iter().collect());
        let named = map! { "a" => 2, "b" => "x y", "plain" => "3", "__kwarg__" => true };
        assert_eq!(arguments(arg, &plain, 1, true), [vec![1.into(), named.into()]]);
        assert_eq!(arguments(list!["one two", ""], &plain, 2, false), [vec!["one".into(), "two".into()], vec![]]);
    }

    #[test]
    fn several_functions_come_between_commas() {
        assert_eq!(functions(&"test.ping".into()), Some((vec!["test.ping".to_owned()], true)));
        assert_eq!(functions(&"a.b,c.d".into()), Some((vec!["a.b".to_owned(), "c.d".to_owned()], false)));
        for bad in [1.into(), list![], list![1], map! { "a.b" => 1 }.into()] {
            assert_eq!(functions(&bad), None, "{bad:?}");
        }
    }
}
