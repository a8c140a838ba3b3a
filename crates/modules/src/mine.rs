//! `mine` — results of functions that minions leave with their masters for others to read.
//!
//! With several masters the data is sent to each of them and read from the master of the job.

use exec::{Call, Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value, list, map};

use crate::{config, data};

/// Registers the functions of `mine`.
pub static MODULE: Module = Module::new(
    "mine",
    "Results that minions leave with their masters for others to read.",
    &[&DELETE, &FLUSH, &GET, &GET_DOCKER, &SEND, &UPDATE, &VALID],
);

/// The key of a masterless minion's mine in the data store.
const LOCAL: &str = "mine_cache";

/// A function whose result goes into the mine.
#[derive(Debug, Default, PartialEq)]
struct Definition {
    /// The function, when the entry has another name.
    function: Option<String>,
    args: Vec<Value>,
    kwargs: Map,
    /// The target and its type that may read the entry.
    allow_tgt: Option<Value>,
    allow_tgt_type: Option<Value>,
}

impl Definition {
    /// Reads an entry of the option `mine_functions`: a map of keyword arguments, or a list of arguments with such maps
    /// among them.
    fn read(value: &Value) -> Self {
        let mut definition = Definition::default();
        match value {
            // A map can only hold keyword arguments, a list both kinds.
            Value::Map(map) => definition.kwargs = map.clone(),
            Value::List(items) => {
                for item in items {
                    match item {
                        Value::Map(map) => definition.kwargs.update(map.clone()),
                        other => definition.args.push(other.clone()),
                    }
                }
            }
            _ => {}
        }
        definition.take_fields();
        definition
    }

    fn take_fields(&mut self) {
        // These three are settings of the mine; the function must not see them.
        let mut take = |name: &str| self.kwargs.remove(name).filter(Value::truthy);
        self.function = take("mine_function").map(|name| name.to_string());
        self.allow_tgt = take("allow_tgt");
        self.allow_tgt_type = take("allow_tgt_type");
    }

    /// Calls the function, and wraps its result with the access list if there is one.
    fn result(&self, ctx: &Context, name: &str) -> Result<Value> {
        let call = Call { args: self.args.clone(), kwargs: self.kwargs.clone() };
        // The same check as for a published job: the mine must not run what `disable_modules` forbids.
        let result = ctx.call_permitted(self.function.as_deref().unwrap_or(name), call)?;
        let Some(allowed) = &self.allow_tgt else { return Ok(result) };
        // The master looks for these names: it checks the target and hands out the data alone.
        let mut wrapped = map! { "__data__" => result, "__saltmine_acl__" => 1, "allow_tgt" => allowed.clone() };
        if let Some(kind) = &self.allow_tgt_type {
            wrapped.insert("allow_tgt_type", kind.clone());
        }
        Ok(wrapped.into())
    }
}

/// Calls the functions of the option ``mine_functions``, or the given ones, and sends their results. ``clear=True``
/// removes the old entries.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mine.update
///     salt '*' mine.update mine_functions='[network.ip_addrs]'
#[function]
fn update(ctx: &Context, #[default(false)] clear: bool, mine_functions: Option<Value>) -> Result<Value> {
    let functions = match mine_functions.filter(Value::truthy) {
        Some(Value::Map(functions)) => functions,
        Some(Value::List(names)) => names.into_iter().map(|name| (name, Map::new())).collect(),
        // Salt gives up on other kinds of values without a word.
        Some(_) => return Ok(Value::Null),
        None => match configured(ctx) {
            Some(functions) => functions,
            None => return Ok(Value::Null),
        },
    };
    let mut results = Map::new();
    for (name, value) in &functions {
        let (name, definition) = (name.to_string(), Definition::read(value));
        // One function that does not exist must not keep the others from the mine.
        if !available(ctx, definition.function.as_deref().unwrap_or(&name)) {
            continue;
        }
        match definition.result(ctx, &name) {
            Ok(result) => drop(results.insert(name, result)),
            // The old result stays with the master: it merges what arrives, unless `clear` is set.
            Err(error) => tracing::error!("Function {name} in mine.update failed to execute: {error}"),
        }
    }
    store(ctx, results, clear)
}

fn configured(ctx: &Context) -> Option<Map> {
    let option = config::merged_option(ctx, "mine_functions", [false; 3])?;
    match option {
        Value::Map(functions) => Some(functions).filter(|functions| !functions.is_empty()),
        Value::List(names) => Some(names.into_iter().map(|name| (name, Map::new())).collect()),
        _ => None,
    }
}

fn available(ctx: &Context, function: &str) -> bool {
    let found = ctx.agent.registry().find_permitted(function).is_ok();
    if !found {
        tracing::error!("Function {function} in mine_functions not available");
    }
    found
}

fn store(ctx: &Context, results: Map, clear: bool) -> Result<Value> {
    if ctx.is_local() {
        // A masterless minion keeps its mine in the data store, so that its states can read it.
        let mut all = if clear { Map::new() } else { local(ctx) };
        all.update(results);
        data::put(ctx, LOCAL.into(), all.into())?;
        return Ok(true.into());
    }
    broadcast(ctx, map! { "cmd" => "_mine", "data" => results, "id" => ctx.id(), "clear" => clear })
}

fn broadcast(ctx: &Context, load: Map) -> Result<Value> {
    Ok(ctx.wait(ctx.agent.broadcast(load))?.into())
}

fn local(ctx: &Context) -> Map {
    data::read(ctx).get(LOCAL).and_then(Value::as_map).cloned().unwrap_or_default()
}

/// Calls a function and sends its result under a name: its own, or another with ``mine_function``. ``allow_tgt`` and
/// ``allow_tgt_type`` say which minions may read it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mine.send network.ip_addrs eth0
///     salt '*' mine.send front_ips mine_function=network.ip_addrs interface=eth0 allow_tgt='lb*'
#[function]
fn send(ctx: &Context, name: String, args: exec::VarArgs, kwargs: KwArgs) -> Result<Value> {
    let mut definition = Definition { args: args.0, kwargs: kwargs.given(), ..Definition::default() };
    definition.take_fields();
    match definition.result(ctx, &name) {
        Ok(result) => store(ctx, map! { name => result }, false),
        Err(error) => {
            tracing::error!("Function {name} in mine.send failed to execute: {error}");
            Ok(false.into())
        }
    }
}

/// Returns the mine data of the targeted minions under a name: a map from minion to result. For several names, a list
/// or text with commas, a map of such maps.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mine.get 'web*' network.ip_addrs
///     salt '*' mine.get 'os:Debian' '[network.ip_addrs, disk.usage]' grain exclude_minion=True
#[function]
fn get(
    ctx: &Context,
    tgt: Value,
    fun: Value,
    #[default("glob")] tgt_type: String,
    #[default(false)] exclude_minion: bool,
) -> Result<Value> {
    if ctx.is_local() {
        return local_answer(ctx, tgt, &fun, &tgt_type);
    }
    let load = map! { "cmd" => "_mine_get", "id" => ctx.id(), "tgt" => tgt, "fun" => fun, "tgt_type" => tgt_type };
    let mut answer = ctx.wait(ctx.agent.request(load, None))?;
    if let Some(map) = answer.as_map_mut().filter(|_| exclude_minion) {
        // The request has no field for this, so the minion drops its own entry from the answer.
        map.remove(ctx.id());
    }
    Ok(answer)
}

fn local_answer(ctx: &Context, target: Value, fun: &Value, kind: &str) -> Result<Value> {
    // Without a master there is one minion that can match.
    let me = ctx.call(&format!("match.{kind}"), vec![target])?;
    let (names, several): (Vec<String>, bool) = match fun {
        Value::Str(text) => {
            // Several functions change the shape of the answer: one map more, with the functions on top.
            let names: Vec<String> = text.split(',').map(str::to_owned).collect();
            let several = names.len() > 1;
            (names, several)
        }
        Value::List(items) => (items.iter().map(Value::to_string).collect(), true),
        _ => return Ok(Map::new().into()),
    };
    let mut answer = Map::new();
    if !me.truthy() {
        return Ok(answer.into());
    }
    let all = local(ctx);
    for name in names {
        let Some(entry) = all.get(&name) else { continue };
        // The only reader is the owner, so the access list is taken off without a check.
        let plain = entry.get("__saltmine_acl__").and_then(|_| entry.get("__data__")).unwrap_or(entry).clone();
        if several {
            answer.insert(name, map! { ctx.id() => plain });
        } else {
            answer.insert(ctx.id(), plain);
        }
    }
    Ok(answer.into())
}

/// Deletes an entry of this minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mine.delete network.ip_addrs
#[function]
fn delete(ctx: &Context, fun: String) -> Result<Value> {
    if ctx.is_local() {
        let mut all = local(ctx);
        all.remove(&fun);
        data::put(ctx, LOCAL.into(), all.into())?;
        return Ok(true.into());
    }
    broadcast(ctx, map! { "cmd" => "_mine_delete", "id" => ctx.id(), "fun" => fun })
}

/// Deletes all entries of this minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mine.flush
#[function]
fn flush(ctx: &Context) -> Result<Value> {
    if ctx.is_local() {
        data::put(ctx, LOCAL.into(), Map::new().into())?;
        return Ok(true.into());
    }
    broadcast(ctx, map! { "cmd" => "_mine_flush", "id" => ctx.id() })
}

/// Returns the entries of the option ``mine_functions`` whose functions exist here.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mine.valid
#[function]
fn valid(ctx: &Context) -> Result<Option<Map>> {
    let Some(functions) = configured(ctx) else { return Ok(None) };
    let mut valid = Map::new();
    for (name, value) in &functions {
        let (name, definition) = (name.to_string(), Definition::read(value));
        if !available(ctx, definition.function.as_deref().unwrap_or(&name)) {
            continue;
        }
        let shown = match &definition.function {
            Some(function) => {
                let named =
                    definition.kwargs.iter().map(|(key, value)| Value::from(map! { key.clone() => value.clone() }));
                let arguments: Value = definition.args.iter().cloned().chain(named).collect();
                map! { function => arguments }.into()
            }
            None if value.as_map().is_some() => definition.kwargs.into(),
            None => value.clone(),
        };
        valid.insert(name, shown);
    }
    Ok(Some(valid))
}

/// Returns the public ports of the containers of minions with ``docker.ps`` in their mine, by image.
///
/// ``interfaces`` and ``cidrs`` choose which addresses of a host count. ``with_container_id`` adds the container.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mine.get_docker
///     salt '*' mine.get_docker interfaces='[eth0]' cidrs='[10.0.0.0/8]'
#[function]
fn get_docker(
    ctx: &Context,
    interfaces: Option<Vec<String>>,
    cidrs: Option<Vec<String>>,
    #[default(false)] with_container_id: bool,
) -> Result<Map> {
    let hosts = get(ctx, "*".into(), "docker.ps".into(), "glob".into(), false)?;
    let wanted = Addresses { interfaces: interfaces.unwrap_or_default(), cidrs: cidrs.unwrap_or_default() };
    let mut images = Map::new();
    for containers in hosts.as_map().into_iter().flat_map(Map::values).filter_map(Value::as_map) {
        let host = containers.get("host").map(|host| wanted.of(host)).transpose()?.unwrap_or_default();
        for (name, container) in containers {
            if name.as_str() != Some("host") {
                add_ports(&mut images, container, &host, with_container_id);
            }
        }
    }
    Ok(images)
}

/// The addresses of a host to use.
struct Addresses {
    interfaces: Vec<String>,
    cidrs: Vec<String>,
}

impl Addresses {
    fn of(&self, host: &Value) -> Result<Vec<String>> {
        let interfaces = host.get("interfaces").and_then(Value::as_map);
        let chosen = interfaces.into_iter().flatten().filter(|(name, _)| {
            self.interfaces.is_empty() || self.interfaces.iter().any(|wanted| name.as_str() == Some(wanted))
        });
        let entries = chosen.filter_map(|(_, interface)| interface.get("inet")?.as_list()).flatten();
        let mut addresses: Vec<String> =
            entries.filter_map(|entry| entry.get("address")?.as_str().map(str::to_owned)).collect();
        // Salt collects the addresses in a set; sorted, two calls give the same answer.
        addresses.sort();
        addresses.dedup();
        if self.cidrs.is_empty() {
            return Ok(addresses);
        }
        let mut kept = Vec::new();
        for address in addresses {
            if self.in_network(&address)? {
                kept.push(address);
            }
        }
        Ok(kept)
    }

    fn in_network(&self, address: &str) -> Result<bool> {
        let grains = map! { "ipv4" => list![address], "ipv6" => list![address] };
        let facts = targeting::Facts { id: "", grains: &grains, pillar: &Map::new() };
        for cidr in &self.cidrs {
            let kind = targeting::TargetType::Ipcidr;
            let network = targeting::Compiled::new(&cidr.into(), kind, &targeting::Context::default())
                .map_err(|error| Error::invocation(format!("'{cidr}' is not a network: {error}")))?;
            if network.matches(&facts) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn add_ports(images: &mut Map, container: &Value, host: &[String], with_id: bool) {
    let image = container.get("Image").cloned().unwrap_or_default();
    let id = container.get("Info").and_then(|info| info.get("Id")).cloned().unwrap_or_default();
    let entry = images.entry_or_insert_with(image, || Map::new().into());
    for port in container.get("Ports").and_then(Value::as_list).unwrap_or_default() {
        let (Some(private), Some(public)) = (port.get("PrivatePort"), port.get("PublicPort")) else { continue };
        let addresses = match port.get("IP").and_then(Value::as_str) {
            // A port that is open on all addresses is reachable under each of the host's.
            Some("0.0.0.0") => host.to_vec(),
            Some(address) if !address.is_empty() => vec![address.to_owned()],
            _ => continue,
        };
        let Some(entry) = entry.as_map_mut() else { continue };
        let Some(ipv4) = entry.entry_or_insert_with("ipv4", || Map::new().into()).as_map_mut() else { continue };
        let Value::List(found) = ipv4.entry_or_insert_with(private.clone(), || list![]) else { continue };
        for address in addresses {
            let footprint = format!("{address}:{public}");
            let value = if with_id { list![footprint, id.clone()] } else { footprint.into() };
            if !found.contains(&value) {
                found.push(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::{FakeAgent, context};
    use std::sync::Arc;

    fn setting(opts: Map) -> (Context, Arc<FakeAgent>) {
        let mut all = map! { "id" => "m" };
        all.update(opts);
        context(&[&MODULE, &crate::test::MODULE, &crate::match_::MODULE], all, map! {}, map! {})
    }

    fn call(ctx: &Context, fun: &str, args: Value, kwargs: Map) -> Value {
        let call = Call { args: args.into_list().unwrap(), kwargs };
        ctx.call_with(&format!("mine.{fun}"), call).unwrap()
    }

    #[test]
    fn results_go_to_all_masters() {
        let functions = map! {
            "test.ping" => list![],
            "said" => list![map! { "mine_function" => "test.echo" }, "hi"],
            "secret" => list![map! { "mine_function" => "test.echo", "allow_tgt" => "lb*", "allow_tgt_type" => "glob" }, 1],
            // A function that fails, or that does not exist, must not keep the others from the master.
            "test.exception" => list![],
            "no.such" => list![],
        };
        let (ctx, agent) = setting(map! { "mine_functions" => functions });
        assert_eq!(call(&ctx, "update", list![], map! {}), true.into());
        let secret =
            map! { "__data__" => 1, "__saltmine_acl__" => 1, "allow_tgt" => "lb*", "allow_tgt_type" => "glob" };
        let data = map! { "test.ping" => true, "said" => "hi", "secret" => secret };
        let load = map! { "cmd" => "_mine", "data" => data, "id" => "m", "clear" => false };
        assert_eq!(agent.asked.lock().unwrap().as_slice(), [load]);
        let valid = call(&ctx, "valid", list![], map! {});
        assert_eq!(valid.get("said"), Some(&map! { "test.echo" => list!["hi"] }.into()));
        assert_eq!(valid.get("no.such"), None);
    }

    #[test]
    fn nothing_configured_is_nothing_sent() {
        let (ctx, agent) = setting(map! {});
        assert_eq!(call(&ctx, "update", list![], map! {}), Value::Null);
        assert_eq!(call(&ctx, "valid", list![], map! {}), Value::Null);
        assert!(agent.asked.lock().unwrap().is_empty());
        assert_eq!(call(&ctx, "send", list!["test.exception"], map! {}), false.into());
    }

    #[test]
    fn reading_asks_the_master_of_the_job() {
        let (ctx, agent) = setting(map! {});
        agent.answers.lock().unwrap().push_back(map! { "m" => 1, "n" => 2 }.into());
        let answer = call(&ctx, "get", list!["*", "x"], map! { "exclude_minion" => true });
        assert_eq!(answer, map! { "n" => 2 }.into());
        let load = map! { "cmd" => "_mine_get", "id" => "m", "tgt" => "*", "fun" => "x", "tgt_type" => "glob" };
        assert_eq!(agent.asked.lock().unwrap()[0], load);
    }

    #[test]
    fn without_a_master_the_store_is_here() {
        let dir = tempfile::tempdir().unwrap();
        let (ctx, _) = setting(map! { "file_client" => "local", "cachedir" => dir.path().to_str().unwrap() });
        let kwargs = map! { "mine_function" => "test.echo", "allow_tgt" => "*" };
        call(&ctx, "send", list!["a", 1], kwargs);
        call(&ctx, "send", list!["test.ping"], map! {});
        assert_eq!(call(&ctx, "get", list!["*", "a"], map! {}), map! { "m" => 1 }.into());
        let both = map! { "a" => map! { "m" => 1 }, "test.ping" => map! { "m" => true } };
        assert_eq!(call(&ctx, "get", list!["*", "a,test.ping"], map! {}), both.into());
        assert_eq!(call(&ctx, "get", list!["other", "a"], map! {}), map! {}.into());
        call(&ctx, "delete", list!["a"], map! {});
        assert_eq!(call(&ctx, "get", list!["*", "a"], map! {}), map! {}.into());
        call(&ctx, "flush", list![], map! {});
        assert_eq!(call(&ctx, "get", list!["*", "test.ping"], map! {}), map! {}.into());
    }

    #[test]
    fn ports_of_containers_are_gathered() {
        let (ctx, agent) = setting(map! {});
        let inet = list![map! { "address" => "10.0.0.1" }, map! { "address" => "192.168.0.1" }];
        let host = map! { "interfaces" => map! { "eth0" => map! { "inet" => inet } } };
        let port = map! { "IP" => "0.0.0.0", "PrivatePort" => 80, "PublicPort" => 8080 };
        let container = map! { "Image" => "web:1", "Info" => map! { "Id" => "c1" }, "Ports" => list![port] };
        agent.answers.lock().unwrap().push_back(map! { "h" => map! { "host" => host, "c" => container } }.into());
        let found = call(&ctx, "get_docker", list![], map! { "cidrs" => "10.0.0.0/8" });
        assert_eq!(found, map! { "web:1" => map! { "ipv4" => map! { 80 => list!["10.0.0.1:8080"] } } }.into());
    }
}
