//! Converts a publish request to a publication: the target, and the fields that minions get.

use targeting::{DEFAULT_DELIMITER, Expected, TargetType};
use value::{Map, Value};

use crate::Stores;

/// The fields of `kwargs` that minions get, in the order of Salt's load.
const PASSED_ON: [&str; 6] =
    ["ret_config", "metadata", "module_executors", "executor_opts", "ret_kwargs", "state_events"];

/// The target of a publication.
pub struct Target {
    /// The expression.
    pub tgt: Value,
    /// The kind of target; `None` for kinds that only minions know.
    pub kind: Option<TargetType>,
    /// The separator of levels in grains and pillar.
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

    /// Returns the kind of target; `None` for an unknown one.
    pub fn kind(&self) -> Option<TargetType> {
        self.kind
    }

    /// Returns the targeted minions.
    pub fn expand(&self, stores: &Stores) -> Expected {
        match self.kind {
            Some(kind) => stores.expect(&self.tgt, kind, &self.delimiter),
            None => Expected::default(),
        }
    }
}

/// Returns the publication for minions, in the order of Salt's fields.
pub fn publication(stores: &Stores, load: &Map) -> Map {
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
    copy(&mut sent, "master_id", &stores.config.raw);
    copy(&mut sent, "master_id", extra);
    // As in Salt: minions assume the default one.
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
    if stores.config.jobs.order_masters {
        // Syndics check the caller's permissions again.
        copy(&mut sent, "auth_list", extra);
    }
    sent
}

pub fn field(load: &Map, name: &str) -> Value {
    load.get(name).cloned().unwrap_or_default()
}
