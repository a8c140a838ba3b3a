//! Publishing: from a request that was allowed to the frame in every subscriber's queue.

use targeting::{DEFAULT_DELIMITER, Expected, TargetType};
use transport::Audience;
use value::{Map, Value, map};
use wire::{Jid, MinionId};

use crate::Shared;

/// Fields of `kwargs` that minions get, in the order of the load.
const PASSED_ON: [&str; 5] = ["ret_config", "metadata", "module_executors", "executor_opts", "ret_kwargs"];

/// Whom a publication is for.
pub struct Target {
    /// The expression.
    pub tgt: Value,
    /// How it is read; none for types only minions know.
    pub kind: Option<TargetType>,
    /// Between the levels of grains and pillar.
    pub delimiter: String,
}

impl Target {
    /// Reads the target of a publish request.
    pub fn of(load: &Map) -> Self {
        let kind = load.get_str("tgt_type").unwrap_or("glob");
        let delimiter = load.get("kwargs").and_then(|kwargs| kwargs.get("delimiter")).and_then(Value::as_str);
        Target {
            tgt: load.get("tgt").cloned().unwrap_or_default(),
            kind: TargetType::from_name(kind).map_err(|error| tracing::error!("{error}")).ok(),
            delimiter: delimiter.unwrap_or(DEFAULT_DELIMITER).to_owned(),
        }
    }

    /// Returns whom it means.
    pub fn expand(&self, shared: &Shared) -> Expected {
        match self.kind {
            Some(kind) => shared.stores.expect(&self.tgt, kind, &self.delimiter),
            None => Expected::default(),
        }
    }
}

/// Publishes for the master itself: no credentials are asked for. `load` is a publish request without a key.
pub fn trusted(shared: &Shared, load: Map) -> Value {
    let meant = Target::of(&load).expand(shared);
    allowed(shared, load, meant)
}

/// Publishes a request that was allowed: job directory, events, job cache, frame. Returns the answer.
pub fn allowed(shared: &Shared, mut load: Map, meant: Expected) -> Value {
    if meant.minions.is_empty() && !shared.stores.config.jobs.order_masters {
        let target = load.get("tgt").cloned().unwrap_or_default();
        let error = format!("Master could not resolve minions for target {target}");
        return clear(map! { "jid" => Value::Null, "minions" => Value::List(Vec::new()), "error" => error });
    }
    let jid = match prepare(shared, &load) {
        Ok(jid) => jid,
        Err(error) => {
            tracing::error!("failed to prepare a job: {}", crate::chain(&error));
            return clear(map! { "error" => "Master failed to assign jid" });
        }
    };
    load.insert("jid", jid.as_str());
    announce(shared, &jid, &load, &meant);
    save(shared, &jid, &load, &meant);
    let publication = publication(shared, &load);
    // Before it is sealed nobody has it, so the first return cannot be faster than this event.
    shared.fire(format!("salt/job/{jid}/publish"), publication.clone());
    tracing::info!("User {} Published command {} with jid {jid}", field(&load, "user"), field(&load, "fun"));
    if let Err(error) = send(shared, publication) {
        tracing::error!("failed to publish job {jid}: {error}");
        return clear(map! { "error" => "Master failed to sign the publication" });
    }
    clear(map! { "jid" => jid, "minions" => meant.minions, "missing" => meant.missing })
}

fn clear(load: Map) -> Value {
    map! { "enc" => "clear", "load" => load }.into()
}

fn field(load: &Map, name: &str) -> Value {
    load.get(name).cloned().unwrap_or_default()
}

/// Makes the job's directory. A jid that was passed is used as it is, though nothing but a jid may name a directory.
fn prepare(shared: &Shared, load: &Map) -> store::Result<Jid> {
    let passed = load.get("jid").map(Value::to_string).and_then(|text| Jid::new(text).ok());
    let jid = passed.unwrap_or_else(|| shared.new_jid());
    let nocache = load.get("kwargs").and_then(|kwargs| kwargs.get("nocache")).is_some_and(Value::truthy);
    shared.stores.jobs.prepare(jid.as_str(), nocache)?;
    Ok(jid)
}

fn announce(shared: &Shared, jid: &Jid, load: &Map, meant: &Expected) {
    let mut event = map! { "jid" => jid };
    for name in ["tgt_type", "tgt", "user", "fun", "arg"] {
        event.insert(name, field(load, name));
    }
    event.insert("minions", meant.minions.clone());
    event.insert("missing", meant.missing.clone());
    shared.fire(format!("salt/job/{jid}/new"), event);
}

fn save(shared: &Shared, jid: &Jid, load: &Map, meant: &Expected) {
    let jobs = &shared.stores.jobs;
    let saved = jobs.save_load(jid.as_str(), load).and_then(|()| jobs.save_minions(jid.as_str(), &meant.minions, None));
    if let Err(error) = saved {
        tracing::error!("Could not write job invocation cache file of {jid}: {}", crate::chain(&error));
    }
}

/// Returns what minions get, in the order of Salt's fields.
fn publication(shared: &Shared, load: &Map) -> Map {
    let empty = Map::new();
    let extra = load.get("kwargs").and_then(Value::as_map).unwrap_or(&empty);
    let mut sent = Map::new();
    for name in ["fun", "arg", "tgt", "jid"] {
        sent.insert(name, field(load, name));
    }
    sent.insert("ret", load.get("ret").cloned().unwrap_or_else(|| "".into()));
    let copy = |sent: &mut Map, name: &str, from: &Map| {
        if let Some(value) = from.get(name) {
            sent.insert(name, value.clone());
        }
    };
    copy(&mut sent, "master_id", &shared.stores.config.raw);
    copy(&mut sent, "master_id", extra);
    if extra.get_str("delimiter").is_some_and(|delimiter| delimiter != DEFAULT_DELIMITER) {
        copy(&mut sent, "delimiter", extra);
    }
    copy(&mut sent, "id", extra);
    copy(&mut sent, "tgt_type", load);
    copy(&mut sent, "to", load);
    for name in PASSED_ON {
        copy(&mut sent, name, extra);
    }
    if extra.get("start_event").is_some_and(Value::truthy) {
        copy(&mut sent, "start_event", extra);
    }
    copy(&mut sent, "user", load);
    if shared.stores.config.jobs.order_masters {
        copy(&mut sent, "auth_list", extra);
    }
    sent
}

/// Seals a publication once and puts it into the queues of those who listen.
fn send(shared: &Shared, publication: Map) -> Result<(), crypto::RsaError> {
    let audience = audience(shared, &publication);
    let (turn, number) = shared.order.take(|| shared.channel.number_publication());
    let payload = shared.channel.seal_publication(publication, &number)?;
    let delivery = turn.pass(|| shared.publisher.publish(&payload, &audience));
    tracing::debug!("publication is queued for {} subscribers, dropped for {}", delivery.queued, delivery.dropped);
    Ok(())
}

/// With `zmq_filtering` a list is sent to its minions and to syndics, everything else to everybody.
fn audience(shared: &Shared, publication: &Map) -> Audience {
    let network = &shared.stores.config.network;
    if network.transport != config::Transport::Zeromq || !network.zmq_filtering {
        return Audience::All;
    }
    let topic = |topic: wire::topic::Topic| topic.to_bytes();
    let ids = match (publication.get_str("tgt_type"), publication.get("tgt")) {
        (Some("list"), Some(Value::List(ids))) => ids.iter().filter_map(|id| MinionId::try_from(id).ok()).collect(),
        (Some("list"), Some(Value::Str(ids))) => {
            ids.split(',').filter_map(|id| MinionId::new(id.trim()).ok()).collect::<Vec<_>>()
        }
        _ => return Audience::Topics(vec![topic(wire::topic::Topic::Broadcast)]),
    };
    let mut topics = vec![topic(wire::topic::Topic::Syndic)];
    topics.extend(ids.iter().map(|id| topic(crypto::filter_topic(id))));
    Audience::Topics(topics)
}
