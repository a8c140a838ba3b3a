//! `service` — services that run, or do not.

use std::collections::BTreeMap;
use std::path::Path;

use exec::{Call, Context};
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use value::{Map, Value, map};

use crate::config::{flat, is_on, list};
use crate::{Found, Kind, Watcher};

pub const KIND: Kind = Kind {
    name: "service",
    validate: |config, _| validate(config),
    watch: |config| Box::new(Services { config: flat(config), last: BTreeMap::new() }),
};

fn validate(config: &Value) -> Result<(), String> {
    match list(config, "service")?.get("services") {
        None => Err("Configuration for service beacon requires services.".to_owned()),
        Some(Value::Map(services)) if services.values().all(|settings| settings.as_map().is_some()) => Ok(()),
        Some(Value::Map(_)) => Err("Configuration for service beacon must be a list of dictionaries.".to_owned()),
        Some(_) => Err("Services configuration item for service beacon must be a dictionary.".to_owned()),
    }
}

struct Services {
    config: Map,
    last: BTreeMap<String, LastState>,
}

struct LastState {
    running: bool,
    /// When a change that is not reported yet began.
    since: Option<Instant>,
}

impl Watcher for Services {
    fn look<'a>(&'a mut self, ctx: &'a Context) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let services = self.config.get("services").and_then(Value::as_map).cloned().unwrap_or_default();
            let mut found = Vec::new();
            for (name, settings) in services.iter() {
                let (name, settings) = (name.to_string(), settings.as_map().cloned().unwrap_or_default());
                let call = Call { args: vec![name.as_str().into()], kwargs: Map::new() };
                let answer = ctx.call_apart("service.status", call).await;
                let running = answer.map_err(|error| error.to_string())?.truthy();
                if self.is_told(&name, &settings, running, Instant::now()) {
                    found.push(event(&name, &settings, running));
                }
            }
            Ok(found)
        })
    }
}

fn event(name: &str, settings: &Map, running: bool) -> Map {
    let mut state = map! { "running" => running };
    if let Some(file) = settings.get_str("uncleanshutdown")
        // Queried only when the service is down: a pid file of a running one proves nothing.
        && !running
    {
        state.insert("uncleanshutdown", Path::new(file).exists());
    }
    map! { name => state, "service_name" => name, "tag" => name }
}

impl Services {
    /// Returns whether the state of a service is reported now.
    fn is_told(&mut self, name: &str, settings: &Map, running: bool, now: Instant) -> bool {
        // Before the state is noted, as in Salt: a skipped look must not count as a change.
        if settings.get("is_running_state").and_then(Value::as_bool).is_some_and(|wanted| wanted != running) {
            return false;
        }
        if !is_on(settings, "onchangeonly") {
            return true;
        }
        let delay = settings.get("delay").and_then(Value::as_f64).unwrap_or(0.0);
        let changed = match self.last.get(name) {
            // A service seen for the first time counts as changed.
            None => settings.get("emitatstartup").is_none_or(Value::truthy),
            Some(last) => last.running != running,
        };
        let last = self.last.entry(name.to_owned()).or_insert(LastState { running, since: None });
        last.running = running;
        if changed && delay <= 0.0 {
            return true;
        }
        if changed {
            last.since = Some(now);
        }
        // As in Salt, whole seconds are compared, and must exceed the delay.
        last.since.take_if(|since| (now - *since).as_secs_f64().round() > delay).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn changes_are_reported_at_once_or_after_a_delay() {
        let mut services = Services { config: Map::new(), last: BTreeMap::new() };
        let now = Instant::now();
        let mut is_told = |name: &str, settings: &Map, running: bool, after: u64| {
            services.is_told(name, settings, running, now + Duration::from_secs(after))
        };
        let plain = Map::new();
        assert!(is_told("a", &plain, true, 0) && is_told("a", &plain, true, 1));
        let on_change = map! { "onchangeonly" => true, "emitatstartup" => false };
        assert!(!is_told("b", &on_change, true, 0));
        assert!(is_told("b", &on_change, false, 1));
        assert!(!is_told("b", &on_change, false, 2));
        let late = map! { "onchangeonly" => true, "delay" => 30 };
        assert!(!is_told("c", &late, true, 0));
        assert!(!is_told("c", &late, true, 30));
        assert!(is_told("c", &late, true, 31));
        assert!(!is_told("d", &map! { "is_running_state" => false }, true, 0));
    }

    #[test]
    fn an_unclean_exit_is_reported_for_stopped_services() {
        let settings = map! { "uncleanshutdown" => "/proc/self/comm" };
        let told = event("x", &settings, false);
        assert_eq!(
            told,
            map! { "x" => map! { "running" => false, "uncleanshutdown" => true }, "service_name" => "x", "tag" => "x" }
        );
        assert_eq!(event("x", &settings, true).get("x"), Some(&map! { "running" => true }.into()));
    }
}
