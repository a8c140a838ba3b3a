//! Formats the changes of a state.

use ::value::{Map, Value};

use super::super::settings::Settings;
use super::super::{WrongShape, nested, text};

/// The changes of one state.
pub struct Changes {
    /// True if there are any.
    pub any: bool,
    /// The text after `Changes:`.
    pub text: String,
}

impl Changes {
    /// Formats the changes of a state. A highstate in them (from an orchestration) is printed as one.
    pub fn of(state: &Map, settings: &Settings, level: usize) -> Result<Self, WrongShape> {
        let changes = state.get("changes").ok_or(WrongShape)?;
        // Salt recognises orchestrated runs by the name of the function.
        let orchestrated = matches!(state.get_str("name"), Some("state.orch" | "state.orchestrate" | "state.sls"));
        if orchestrated {
            let nested = super::output(changes, settings, level + 1)?;
            let blank = " ".repeat(14 * level);
            let lines = format!("\n{nested}");
            let lines: Vec<String> = lines.split('\n').map(|line| format!("{blank}{line}")).collect();
            return Ok(Changes { any: true, text: lines.join("\n") });
        }
        if !changes.truthy() {
            return Ok(Changes { any: false, text: String::new() });
        }
        let Some(map) = changes.as_map() else {
            return Ok(Changes { any: true, text: format!("Invalid Changes data: {changes}") });
        };
        match map.get("ret").and_then(Value::as_map) {
            // `salt.state` in an orchestration returns the highstates of its minions like this.
            Some(hosts) if map.get_str("out") == Some("highstate") => of_hosts(hosts, settings),
            _ => Ok(Changes { any: true, text: as_nested(changes, settings) }),
        }
    }

    /// Returns how many changes the summary counts for an entry. `folded` is the number of states in it: several equal states
    /// may be one entry.
    pub fn count(&self, state: &Map, folded: usize) -> usize {
        let inner = state.get("changes").and_then(|changes| changes.get("compressed changes")).and_then(Value::as_map);
        match (self.any, folded > 1) {
            (false, _) => 0,
            (true, true) => inner.map_or(0, Map::len).max(1),
            (true, false) => 1,
        }
    }
}

fn as_nested(changes: &Value, settings: &Settings) -> String {
    format!("\n{}", text::trim_end(&nested::output(changes, settings, 0, 14)))
}

fn of_hosts(hosts: &Map, settings: &Settings) -> Result<Changes, WrongShape> {
    let mut all = Changes { any: false, text: String::new() };
    for (host, results) in hosts {
        let (lines, changed) = super::format_host(&host.to_string(), results, settings, 1)?;
        for line in text::lines(&lines) {
            all.text.push_str(&format!("\n{:14}{line}", ""));
        }
        all.any |= changed;
    }
    Ok(all)
}
