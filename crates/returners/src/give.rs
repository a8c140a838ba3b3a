//! Passes the return of a minion to returners.

use tracing::{error, info};
use value::{Map, Value};

use crate::{Error, Result, World, find};

/// Returns the return as returners get it: with Salt's fields in order, without those that only the master reads.
///
/// `job` is the publication, which may name another configuration (`ret_config`) and arguments (`ret_kwargs`).
pub fn returned(load: &Map, job: &Map) -> Map {
    let mut ret = Map::new();
    // As in Salt, only the outputter of a failure is included; the minion adds others when it sends the return.
    let out = load.get("out").filter(|out| out.as_str() == Some("nested"));
    for (name, value) in load.iter().filter(|(name, _)| !matches!(name.as_str(), Some("cmd" | "id" | "out"))) {
        ret.insert(name.clone(), value.clone());
        if let Some(out) = out.filter(|_| name.as_str() == Some("retcode")) {
            ret.insert("out", out.clone());
        }
    }
    for name in ["ret_config", "ret_kwargs"] {
        if let Some(value) = job.get(name).filter(|value| value.truthy()) {
            ret.insert(name, value.clone());
        }
    }
    ret.insert("id", load.get("id").cloned());
    ret
}

/// Returns the returners that a job and an option name, each once.
pub fn names<'a>(named: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for value in named {
        let list: Vec<String> = match value {
            Value::Str(text) => text.split(',').map(|name| name.trim().to_owned()).collect(),
            Value::List(list) => list.iter().map(Value::to_string).collect(),
            _ => Vec::new(),
        };
        for name in list {
            // A returner that the option and the job both name would store the return twice.
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Stores a return with each of the returners. A failure is logged in Salt's words, and does not affect the others.
pub async fn give(world: &World, names: &[String], ret: &Map) {
    let jid = ret.get_str("jid").unwrap_or_default();
    for name in names {
        match give_one(world, name, ret).await {
            Ok(()) => info!("job {jid} was returned with {name}"),
            Err(error @ Error::Unknown { .. }) => error!("Returner {name}.returner could not be loaded: {error}"),
            Err(error) => error!("The return failed for job {jid}: {name}: {error}"),
        }
    }
}

async fn give_one(world: &World, name: &str, ret: &Map) -> Result<()> {
    find(world, name)?.give(world, ret).await
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn returners_get_what_salts_minion_gives_them() {
        // `out` is not passed on here: only that of a failure is.
        let load = map! {
            "cmd" => "_return", "id" => "web1", "success" => true, "return" => true, "retcode" => 0, "jid" => "1",
            "fun" => "state.apply", "fun_args" => list![], "out" => "highstate",
        };
        let ret = returned(&load, &map! { "ret_config" => "x", "ret_kwargs" => map! {} });
        let keys: Vec<&str> = ret.text_keys().collect();
        assert_eq!(keys, ["success", "return", "retcode", "jid", "fun", "fun_args", "ret_config", "id"]);
        let failed = map! { "id" => "web1", "return" => "no", "retcode" => 1, "jid" => "1", "out" => "nested" };
        let failed = returned(&failed, &map! {});
        assert_eq!(failed.text_keys().collect::<Vec<_>>(), ["return", "retcode", "out", "jid", "id"]);
    }

    #[test]
    fn each_returner_is_used_once() {
        let named = [Value::from("redis,smtp"), list!["smtp", "syslog"], Value::Null, "".into()];
        assert_eq!(names(&named), ["redis", "smtp", "syslog"]);
    }
}
