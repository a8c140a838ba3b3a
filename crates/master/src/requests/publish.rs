//! `publish`: a program on this host sends a job to minions.

use store::proc_dir::ProcDir;
use targeting::acl::{Publication, called_indirectly, everything_allowed, functions_allowed, publish_allowed};
use targeting::{Checker, Error, Expected, TargetType};
use tracing::{error, warn};
use value::{Map, Value, map};

use super::guarded::{Guarded, granting, guarded, name_minions};
use super::{Answer, MasterRequest};
use crate::Shared;
use crate::credentials::{self, Caller, Kind};
use crate::jobs::keep::is_of_the_future;
use crate::jobs::publish::{ReturnReader, hold, publish_permitted};
use crate::named_functions::{arguments, functions};
use crate::open_jobs::Target;
use crate::users::Grant;
use crate::witness;

/// Always allowed for one job id, because `salt` uses it to ask minions that have not returned.
const FREE: &str = "saltutil.find_job";

/// Longer than any job id: one with `unique_jid` has 27 characters or so.
const LONGEST_JID: usize = 40;

/// The most bytes of a free question beside its target, and of its target: the ids of 30,000 minions.
const MOST_BESIDE: usize = 8 << 10;
const MOST_TARGET: usize = 1 << 20;

/// Fields of `kwargs` that make minions do more than call the function, or do it in the name of another user.
const MORE_THAN_THE_FUNCTION: [&str; 7] =
    ["ret_config", "ret_kwargs", "module_executors", "executor_opts", "id", "master_id", "nocache"];

/// Authenticates the caller, checks their permissions and publishes the job. Nothing is computed for a caller without
/// credentials.
pub fn handle(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, login, mut load, .. } = ask;
    let functions = match functions(&load) {
        Some(functions) if ["arg", "tgt"].iter().all(|name| load.contains_key(name)) => functions,
        _ => return Answer::Plain("Some exception handling minion payload".into()),
    };
    let reader = ReturnReader::take(&mut load);
    let fields = load.get("kwargs").and_then(Value::as_map).cloned().unwrap_or_default();
    let mut caller = match credentials::check(&shared, login, &fields, &mut load) {
        Ok(caller) => caller,
        Err(unknown) => {
            unknown.log();
            return refusal("AuthenticationError", "Authentication error occurred.").into();
        }
    };
    let _peer = logscope::enter(caller.peer());
    let run: Vec<String> = functions.iter().cloned().chain(called_indirectly(&functions, &arguments(&load))).collect();
    if shared.users.is_blacklisted(caller.user.as_deref().unwrap_or_default(), &run) {
        error!(
            "{} does not have permissions to run {}. Please contact your local administrator if you believe \
             this is in error.",
            caller.user.unwrap_or_default(),
            functions.join(",")
        );
        return refusal("AuthorizationError", "Authorization error occurred.").into();
    }
    if witness::is_witness(&shared.stores.config) {
        warn!("{} may not publish {}: {}", caller.name(), functions.join(","), witness::NO_JOBS);
        return refusal("PublishError", witness::NO_JOBS).into();
    }
    take_list_of_syndic(&mut caller, &mut load);
    let target = Target::of(&load);
    let meant = match allow(&shared, &caller, &functions, &target, &load) {
        Ok((meant, by_ids)) => {
            if by_ids {
                name_minions(&mut load, &meant);
            }
            meant
        }
        // Nobody may do more: this is not about permissions.
        Err(reason) if caller.grant == Grant::All => {
            error!("{} is not published: {reason}", functions.join(","));
            return refusal("PublishError", reason).into();
        }
        Err(reason) => {
            warn!(
                "Authentication failure of type \"{}\" occurred. {} may not publish {}: {reason}",
                caller.kind.word(),
                caller.name(),
                functions.join(",")
            );
            return refuse(&shared, &caller, load);
        }
    };
    if caller.kind != Kind::User {
        load.insert("user", caller.user);
    }
    forget_secrets(&mut load);
    publish_permitted(&shared, load, meant, reader).into()
}

/// Takes the permissions of a syndic's user. A syndic publishes with the key of this master's user, and sends the
/// permissions of the user on the upper master. With `order_masters` the list is passed on to lower masters.
fn take_list_of_syndic(caller: &mut Caller, load: &mut Map) {
    let mut kwargs = load.remove("kwargs").and_then(Value::into_map).unwrap_or_default();
    let told = kwargs.remove("auth_list").and_then(|list| list.as_list().map(<[Value]>::to_vec)).unwrap_or_default();
    if caller.grant == Grant::All && !told.is_empty() {
        caller.grant = Grant::Listed(told);
    }
    let list = if let Grant::Listed(list) = &caller.grant { list.clone() } else { Vec::new() };
    kwargs.insert("auth_list", list);
    load.insert("kwargs", kwargs);
}

/// Returns the targeted minions if the caller may publish, and whether the job goes to them by their ids; or the reason if not.
fn allow(
    shared: &Shared,
    caller: &Caller,
    functions: &[String],
    target: &Target,
    load: &Map,
) -> Result<(Expected, bool), &'static str> {
    let Grant::Listed(list) = &caller.grant else { return Ok((unrestricted(shared, target)?, false)) };
    // Held jobs take room from those of others, and wait for minions that are away.
    let free = asks_for_a_job(functions, &arguments(load), target) && is_short(load) && matches!(hold(load), Ok(None));
    if !free && !functions_allowed(list, functions) {
        return Err("their list does not name it");
    }
    let (checker, order_masters) = (shared.stores.checker(), shared.stores.config.jobs.order_masters);
    // `Target::of` has logged an unknown kind. Nobody has it.
    let asked = target.kind.unwrap_or_default();
    let Guarded { kind, by_ids } = guarded(target, asked, list, &checker, order_masters)?;
    let meant = meant_by(target, target.kind.map(|_| kind), &checker)?;
    let list = granting(list, &meant, kind, order_masters);
    let wanted = Publication {
        functions,
        arguments: &arguments(load),
        target: &target.tgt,
        // It is not read: the minions are known.
        kind,
        delimiter: &target.delimiter,
        minions: Some(&meant.minions),
    };
    if !free && !publish_allowed(&list, &wanted, &checker) {
        return Err("their list does not grant it with these arguments, or on these minions");
    }
    if asks_for_more(load) && !everything_allowed(&list, &wanted, &checker) {
        return Err("returners and executors of their choice are for those who may do everything");
    }
    check_jid(shared, caller, load)?;
    Ok((meant, by_ids))
}

/// Returns whether it is the question of `salt` whether minions still run a job: one job id, and minions by their ids. What else
/// `saltutil.find_job` takes is not for everybody: large arguments fill the bus, and targets tell which data minions have.
fn asks_for_a_job(functions: &[String], arguments: &[Vec<Value>], target: &Target) -> bool {
    let by_id = matches!(target.kind, Some(TargetType::Glob | TargetType::List));
    let may_be_jid = |jid: &Value| matches!(jid, Value::Str(_) | Value::Int(_)) && jid.to_string().len() <= LONGEST_JID;
    let one_jid = matches!(arguments, [arguments] if matches!(&arguments[..], [jid] if may_be_jid(jid)));
    matches!(functions, [function] if function == FREE) && by_id && one_jid
}

/// Fields whose size is limited by themselves, or is the master's doing.
const OF_ITS_OWN: [&str; 3] = ["tgt", "kwargs", "auth_list"];

/// Returns whether a publication has no more than its target: what is large goes into the job cache and to everybody who reads
/// events.
fn is_short(load: &Map) -> bool {
    let others = |map: &Map| {
        let others = map.iter().filter(|(name, _)| name.as_str().is_none_or(|name| !OF_ITS_OWN.contains(&name)));
        others.map(|(name, value)| weight(name) + weight(value)).sum::<usize>()
    };
    let kwargs = load.get("kwargs").and_then(Value::as_map).map_or(0, others);
    let target = load.get("tgt").map_or(0, weight);
    others(load) + kwargs <= MOST_BESIDE && target <= MOST_TARGET
}

/// Returns about how many bytes a value has.
fn weight(value: &Value) -> usize {
    match value {
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.iter().map(|item| weight(item) + 1).sum(),
        Value::Map(map) => map.iter().map(|(name, value)| weight(name) + weight(value) + 1).sum(),
        _ => 8,
    }
}

/// Returns the targeted minions for a caller who may do everything, or why they are not known. With `order_masters` the job goes
/// to lower masters even so.
fn unrestricted(shared: &Shared, target: &Target) -> Result<Expected, &'static str> {
    match shared.stores.config.jobs.order_masters {
        true => Ok(target.expand(&shared.stores)),
        false => meant_by(target, target.kind, &shared.stores.checker()),
    }
}

/// Refuses a job id that a listed user may not choose. `prepare` replaces one that is not valid.
fn check_jid(shared: &Shared, caller: &Caller, load: &Map) -> Result<(), &'static str> {
    let Some(jid) = load.get("jid").and_then(|jid| wire::Jid::new(jid.to_string()).ok()) else { return Ok(()) };
    if is_of_another(shared, caller, jid.as_str(), load) {
        return Err("the job is another one");
    }
    // Lists of jobs begin with the newest id: one of the year 2099 would stay on top of everybody's for ever.
    if is_of_the_future(&jid, shared.now()) {
        return Err("the job id is of the future");
    }
    Ok(())
}

/// Returns the targeted minions: none if the target cannot be read, as in Salt, so that the caller gets the same answer as for a target
/// that matches nobody. It says nothing about minions that the caller may not see.
///
/// # Errors
/// If they cannot be found out.
fn meant_by(target: &Target, kind: Option<TargetType>, checker: &Checker<'_>) -> Result<Expected, &'static str> {
    // `Target::of` has logged an unknown kind.
    let Some(kind) = kind else { return Ok(Expected::default()) };
    match checker.expect(&target.tgt, kind, &target.delimiter) {
        Ok(meant) => Ok(meant),
        // A permission that cannot be checked is not granted.
        Err(Error::TooExpensive) => Err("the target is too expensive to match"),
        Err(Error::DataUnavailable) => Err("the minion data cache gives no answer"),
        Err(error) => {
            crate::stores::log_unreadable_target(&target.tgt, kind, &error);
            Ok(Expected::default())
        }
    }
}

/// Returns whether the job id belongs to another job. The parts of a batch share a job id, but a caller must not overwrite the
/// job of another user. The name alone does not tell: users of different backends may have the same one.
fn is_of_another(shared: &Shared, caller: &Caller, jid: &str, load: &Map) -> bool {
    // Runs of runners are stored at their end.
    if !matches!(ProcDir::new(&shared.stores.config.paths.cachedir).get(jid), Ok(None)) {
        return true;
    }
    match shared.stores.jobs.load(jid) {
        Ok(Some(known)) => {
            let differs = |name: &str| known.get(name) != load.get(name);
            known.get_str("user") != caller.user.as_deref() || ["fun", "arg"].into_iter().any(differs)
        }
        Ok(None) => false,
        Err(_) => true,
    }
}

fn asks_for_more(load: &Map) -> bool {
    let set = |value: Option<&Value>| value.is_some_and(Value::truthy);
    let kwargs = load.get("kwargs").and_then(Value::as_map);
    set(load.get("ret")) || kwargs.is_some_and(|kwargs| MORE_THAN_THE_FUNCTION.iter().any(|name| set(kwargs.get(name))))
}

fn refusal(name: &str, message: &str) -> Map {
    map! { "error" => map! { "name" => name, "message" => message } }
}

/// Fields of a refused publish request that are in the event for programs that listen for its job.
const TOLD: [&str; 7] = ["cmd", "tgt", "fun", "arg", "tgt_type", "ret", "user"];

/// Refuses the request of an authenticated caller. Fires an event for programs that listen for the job, unless it
/// belongs to another user.
fn refuse(shared: &Shared, caller: &Caller, load: Map) -> Answer {
    let answer = refusal("AuthorizationError", "Authorization error occurred.");
    let jid = load.get_str("jid").filter(|jid| wire::Jid::is_valid(jid) && !is_of_another(shared, caller, jid, &load));
    if let Some(jid) = jid {
        let mut event = map! { "jid" => jid };
        event.extend(TOLD.iter().filter_map(|name| Some((Value::from(*name), load.get(name)?.clone()))));
        event.update(answer.clone());
        shared.fire(wire::event::tag("salt", "job", &[jid, "error"]), event);
    }
    answer.into()
}

/// Removes tokens and passwords, which must not appear in the job cache or on the bus.
fn forget_secrets(load: &mut Map) {
    let secrets = ["token", "password", "key"];
    for name in secrets {
        load.remove(name);
    }
    if let Some(kwargs) = load.get_mut("kwargs").and_then(Value::as_map_mut) {
        for name in secrets {
            kwargs.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {

    use targeting::TargetType;
    use value::list;

    use super::*;
    use crate::minion_ids::Ids;

    #[test]
    fn a_target_that_cannot_be_read_matches_nobody() {
        let (ids, groups) = (Ids::of(&["web1", "db1"]), Map::new());
        let meant = |tgt: &str, kind: &str| {
            let target = Target::of(&map! { "tgt" => tgt, "tgt_type" => kind });
            meant_by(&target, target.kind, &Checker::new(&ids, &groups, true))
        };
        for (tgt, kind) in [("[", "pcre"), ("web1 and", "compound"), ("web1", "bogus"), ("1.2.3", "ipcidr")] {
            assert_eq!(meant(tgt, kind), Ok(Expected::default()), "{kind} {tgt}");
        }
        assert_eq!(meant("web*", "glob").unwrap().minions, ["web1"]);
        // An entry for some minions grants what reaches nobody, so the answer is that of a target without minions.
        let list = [map! { "web*" => list!["test.ping"] }.into()];
        let checker = Checker::new(&ids, &groups, true);
        let allowed = |function: &str, minions: &[String]| {
            let (tgt, functions) = ("[".into(), [function.to_owned()]);
            let (target, kind, delimiter) = (&tgt, TargetType::Pcre, ":");
            let (functions, arguments) = (&functions[..], &[Vec::new()][..]);
            let wanted = Publication { functions, arguments, target, kind, delimiter, minions: Some(minions) };
            publish_allowed(&list, &wanted, &checker)
        };
        assert!(allowed("test.ping", &[]) && !allowed("cmd.run", &[]) && !allowed("test.ping", &["db1".to_owned()]));
    }

    #[test]
    fn what_everybody_may_publish_is_short() {
        let load = |name: &str, value: Value, kwargs: Map| {
            let mut load =
                map! { "fun" => FREE, "arg" => list!["20261126160511953300"], "tgt" => "*", "kwargs" => kwargs };
            load.insert(name, value);
            is_short(&load)
        };
        let large = || Value::from("x".repeat(MOST_BESIDE));
        let many =
            |count: usize| Value::List((0..count).map(|number| format!("host{number:05}.example").into()).collect());
        assert!(load("tgt", many(30_000), map! { "auth_list" => list![large()], "delimiter" => ":" }));
        assert!(!load("tgt", many(200_000), map! {}));
        assert!(!load("x", large(), map! {}) && !load("metadata", map! { "a" => list![large()] }.into(), map! {}));
        for name in ["metadata", "delimiter", "x"] {
            assert!(!load("user", "fred".into(), map! { name => large() }), "{name}");
        }
    }

    #[test]
    fn only_texts_name_functions() {
        let names = |fun: Value| functions(&map! { "fun" => fun });
        assert_eq!(names("test.ping".into()), Some(vec!["test.ping".to_owned()]));
        assert_eq!(names(list!["a.b", "c.d"]), Some(vec!["a.b".to_owned(), "c.d".to_owned()]));
        let bytes = Value::from(b"test.ping".to_vec());
        for bad in
            [1.into(), map! { "test.ping" => 1 }.into(), bytes, list![], list![1], list![list!["x"]], Value::Null]
        {
            assert_eq!(names(bad.clone()), None, "{bad:?}");
        }
    }

    #[test]
    fn returners_and_executors_are_more_than_the_function() {
        let load = |ret: &str, kwargs: Map| asks_for_more(&map! { "ret" => ret, "kwargs" => kwargs });
        assert!(!load("", map! { "delimiter" => "|", "metadata" => 1, "ret_config" => "", "state_events" => true }));
        assert!(load("rawfile_json", map! {}));
        for name in MORE_THAN_THE_FUNCTION {
            assert!(load("", map! { name => "x" }), "{name}");
        }
    }

    #[test]
    fn a_syndic_brings_the_list_of_its_user() {
        let granted = |grant: Grant, told: Value| {
            let mut caller = Caller { kind: Kind::User, user: None, grant };
            let mut load = map! { "kwargs" => map! { "auth_list" => told } };
            take_list_of_syndic(&mut caller, &mut load);
            (caller.grant, load.get("kwargs").and_then(|kwargs| kwargs.get("auth_list")).cloned())
        };
        let listed = |list: Value| Grant::Listed(list.as_list().unwrap().to_vec());
        assert_eq!(granted(Grant::All, list![]), (Grant::All, Some(list![])));
        assert_eq!(granted(Grant::All, list!["test.*"]), (listed(list!["test.*"]), Some(list!["test.*"])));
        let own = list!["test.ping"];
        assert_eq!(
            granted(listed(own.clone()), list![".*"]),
            (listed(own.clone()), Some(own)),
            "nobody widens their own"
        );
    }

    #[test]
    fn only_the_question_for_one_job_on_named_minions_is_free() {
        let free = |functions: &[&str], arguments: Value, kind: &str| {
            let target = Target::of(&map! { "tgt" => "web*", "tgt_type" => kind });
            let arguments = arguments.into_list().unwrap_or_default();
            asks_for_a_job(&functions.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), &[arguments], &target)
        };
        assert!(free(&[FREE], list!["20261127093050601620"], "list") && free(&[FREE], list![20_261_127], "glob"));
        for kind in ["pillar", "grain", "compound", "pcre", "nodegroup"] {
            assert!(!free(&[FREE], list!["20261127093050601620"], kind), "{kind}");
        }
        for arguments in [list![], list!["1", "2"], list!["x".repeat(41)], list![list!["1"]]] {
            assert!(!free(&[FREE], arguments, "list"));
        }
        assert!(!free(&[FREE, FREE], list!["1"], "list") && !free(&["test.ping"], list!["1"], "list"));
    }
}
