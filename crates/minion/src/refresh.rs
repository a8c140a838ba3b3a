//! Reloading grains, pillar and modules, for functions and for programs on this host.

use std::sync::Arc;
use std::time::Duration;

use exec::Refresh;
use tracing::warn;
use value::{Map, Value, map};

use crate::bus::{QuestionOutcome, fire, question};
use crate::masters::Masters;

/// Fired when the pillar was compiled again.
pub const PILLAR_COMPLETE: &str = "/salt/minion/minion_pillar_refresh_complete";

/// Fired, on request, when the modules were reloaded.
pub const MODULES_COMPLETE: &str = "/salt/minion/minion_mod_refresh_complete";

/// How long a caller waits for a refresh of the pillar.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes the running minion reload something. If the minion is this process, waits until it is done; otherwise only
/// notifies it. Returns whether it was done, or the other process was notified.
///
/// # Errors
/// When the event is too large for the bus.
pub async fn refresh(masters: &Arc<Masters>, what: Refresh) -> exec::Result<bool> {
    let machine = &masters.machine;
    if machine.is_minion() {
        return Ok(here(masters, what).await);
    }
    // The rest of this call sees the modules as they are now. For anything else the call ends too soon.
    if what == Refresh::Modules {
        machine.refresh_modules();
    }
    let (tag, data) = refresh_event(what);
    fire(machine, tag, data).await
}

/// Does the same, but waits for another process, too. Returns `None` if that takes too long.
///
/// # Errors
/// When the event is too large for the bus.
pub async fn refresh_within(masters: &Arc<Masters>, what: Refresh, patience: Duration) -> exec::Result<Option<bool>> {
    let (tag, mut data) = refresh_event(what);
    let answer = match what {
        Refresh::Pillar { .. } | Refresh::Grains => PILLAR_COMPLETE,
        Refresh::Modules => MODULES_COMPLETE,
        Refresh::Beacons | Refresh::Matchers => return refresh(masters, what).await.map(Some),
    };
    if what == Refresh::Modules {
        data.insert("notify", true);
        masters.machine.refresh_modules();
    }
    Ok(match question(&masters.machine, tag, data, answer, patience).await? {
        QuestionOutcome::Answered(answer) => Some(answer.get("complete").is_some_and(Value::truthy)),
        QuestionOutcome::Late => None,
        QuestionOutcome::NoMinion => Some(false),
    })
}

/// Reloads something on every connected link, and waits for it. Returns whether everything arrived. As in Salt, grains are
/// collected together with pillar and modules.
pub async fn here(masters: &Masters, what: Refresh) -> bool {
    let machine = &masters.machine;
    match what {
        Refresh::Grains => machine.renew_grains().await,
        Refresh::Pillar { .. } | Refresh::Modules => machine.collect_grains().await,
        // These are part of the program, and there is nothing else to reload.
        Refresh::Matchers | Refresh::Beacons => return true,
    }
    // Functions are part of the program. Which of them work here may have changed.
    machine.refresh_modules();
    if what == Refresh::Modules {
        return true;
    }
    let came = refresh_pillars(masters, what == Refresh::Pillar { clean: true }).await;
    machine.say(PILLAR_COMPLETE, came);
    came
}

async fn refresh_pillars(masters: &Masters, clean: bool) -> bool {
    let live = masters.links.iter().filter(|link| link.is_live());
    // All at once: a slow master must not delay the pillar of the others.
    let came = futures_util::future::join_all(live.map(|link| link.refresh_pillar(PATIENCE, clean))).await;
    let all = came.iter().all(|came| *came);
    if !all {
        warn!("not every master has sent its pillar in time");
    }
    all
}

/// Returns the event that makes a minion reload something. As in Salt, grains are collected together with the pillar.
fn refresh_event(what: Refresh) -> (&'static str, Map) {
    match what {
        Refresh::Pillar { clean } => ("pillar_refresh", map! { "clean_cache" => clean }),
        Refresh::Grains => ("pillar_refresh", map! { "clean_cache" => false, "force_refresh" => true }),
        Refresh::Modules => ("module_refresh", Map::new()),
        Refresh::Beacons => ("beacons_refresh", Map::new()),
        Refresh::Matchers => ("matchers_refresh", Map::new()),
    }
}

/// Returns what an event asks to reload; `None` for other events.
pub fn refresh_wanted(tag: &str, data: &Map) -> Option<Refresh> {
    Some(match tag {
        "pillar_refresh" if is_set(data, "force_refresh") && !is_set(data, "clean_cache") => Refresh::Grains,
        "pillar_refresh" => Refresh::Pillar { clean: is_set(data, "clean_cache") },
        "grains_refresh" => Refresh::Grains,
        "module_refresh" => Refresh::Modules,
        "beacons_refresh" => Refresh::Beacons,
        "matchers_refresh" => Refresh::Matchers,
        _ => return None,
    })
}

fn is_set(data: &Map, name: &str) -> bool {
    data.get(name).is_some_and(Value::truthy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::TAGS;

    #[test]
    fn an_event_tells_what_is_to_be_loaded_anew() {
        use Refresh::{Beacons, Grains, Matchers, Modules, Pillar};
        for what in [Grains, Modules, Beacons, Matchers, Pillar { clean: true }, Pillar { clean: false }] {
            let (tag, data) = refresh_event(what);
            assert_eq!(refresh_wanted(tag, &data), Some(what));
            assert!(TAGS.contains(&tag), "{tag}");
        }
        assert_eq!(refresh_wanted("pillar_refresh", &Map::new()), Some(Pillar { clean: false }));
        assert_eq!(refresh_wanted("grains_refresh", &Map::new()), Some(Grains));
        assert_eq!(refresh_wanted("other", &Map::new()), None);
    }
}
