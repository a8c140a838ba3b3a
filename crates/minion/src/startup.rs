//! Applies states when the minion starts (`startup_states`).

use std::sync::Arc;
use std::time::Duration;

use ::schedule::Fire;
use config::MasterType;
use tracing::warn;
use value::{Map, Value, list, map};

use crate::masters::Masters;
use crate::schedule::{self, Timetable};

/// Applies the states of the options: once a master is connected, or at once if there is none to wait for.
pub fn start(masters: &Arc<Masters>, table: &Arc<Timetable>) {
    let config = &masters.machine.config;
    let Some((fun, args)) = call(&config.raw) else { return };
    let disabled = config.links.master_type == MasterType::Disable;
    // Salt's words: without a master there are no files to apply.
    if disabled && !config.is_local() {
        warn!(
            "Cannot run startup_states when 'master_type' is set to 'disable' and 'file_client' is set to 'remote'. \
             Skipping."
        );
        return;
    }
    let named = [config.raw.get("ext_job_cache"), config.raw.get("return")];
    let returners: Vec<Value> = returners::names(named.into_iter().flatten()).into_iter().map(Value::from).collect();
    let data = map! { "function" => fun, "args" => args, "returner" => returners };
    let fire = Fire { name: "startup_states".to_owned(), fun: Some(fun.to_owned()), data, late: Duration::ZERO };
    let (inside, table) = (masters.clone(), table.clone());
    masters.machine.rt.spawn(async move {
        tokio::select! {
            biased;
            () = inside.machine.stop.cancelled() => {}
            () = inside.first_live(disabled) => schedule::begin_apart(&table, fire, "highstate"),
        }
    });
}

/// Returns the function for `startup_states`, with its arguments.
fn call(opts: &Map) -> Option<(&'static str, Value)> {
    let option = |name: &str| opts.get(name).cloned().unwrap_or_default();
    let wanted = opts.get("startup_states").filter(|wanted| wanted.truthy())?;
    Some(match wanted.as_str() {
        Some("sls") => ("state.sls", list![option("sls_list")]),
        Some("top") => ("state.top", list![option("top_file")]),
        // As in Salt, any other true value is a highstate.
        _ => ("state.highstate", list![]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_stands_for_a_function() {
        assert_eq!(call(&map! { "startup_states" => "" }), None);
        let sls = map! { "startup_states" => "sls", "sls_list" => list!["a", "b"] };
        assert_eq!(call(&sls), Some(("state.sls", list![list!["a", "b"]])));
        let top = map! { "startup_states" => "top", "top_file" => "other.sls" };
        assert_eq!(call(&top), Some(("state.top", list!["other.sls"])));
        assert_eq!(call(&map! { "startup_states" => "highstate" }), Some(("state.highstate", list![])));
    }
}
