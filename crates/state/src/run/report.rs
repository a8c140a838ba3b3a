//! Reports of a run while it runs: log lines and progress events.

use exec::Call;
use value::{Map, Value, map};

use super::Run;
use super::stamp::Stamp;
use crate::tag;

impl Run {
    /// Logs a finished chunk, fires its event, and records the results of its parts (`sub_state_run`) as results of
    /// their own.
    pub(super) fn report(&mut self, tag: &str, index: usize) {
        let Some(ret) = self.running.get(tag).and_then(Value::as_map).cloned() else {
            return;
        };
        self.show(tag);
        self.fire(&ret, index);
        if let Some(Value::List(parts)) = ret.get("sub_state_run") {
            for part in parts.clone() {
                self.add_part(index, part);
            }
            if let Some(ret) = self.running.get_mut(tag).and_then(Value::as_map_mut) {
                ret.remove("sub_state_run");
            }
        }
    }

    /// Fires the event of a result: progress, or the event that `fire_event` requests.
    fn fire(&self, ret: &Map, index: usize) {
        if self.ctx.opt("local").is_some_and(Value::truthy) {
            return;
        }
        let asked = self.chunks.graph.chunk(index).get("fire_event").cloned().unwrap_or_default();
        let (Some(jid), id) = (self.how.jid.as_deref(), self.ctx.id()) else {
            return;
        };
        let named = match &asked {
            Value::Bool(true) => Some(ret.get("name").map(Value::to_string).unwrap_or_default()),
            Value::Str(name) if !name.is_empty() => Some(name.clone()),
            _ => None,
        };
        match named {
            Some(name) => {
                let tag = format!("salt/state_result/{jid}/{id}/{name}");
                let kwargs = map! { "preload" => map! { "jid" => jid } };
                let call = Call { args: vec![map! { "ret" => ret.clone() }.into(), tag.into()], kwargs };
                if let Err(error) = self.ctx.call_with("event.fire_master", call) {
                    tracing::warn!("the event of a state could not be fired: {error}");
                }
            }
            None if self.ctx.opt("state_events").is_some_and(Value::truthy) => {
                self.ctx.progress(map! { "ret" => ret.clone(), "len" => self.chunks.order.len() }.into());
            }
            None => {}
        }
    }

    /// Records a part of a result (`sub_state_run`) as the result of a separate state.
    fn add_part(&mut self, index: usize, part: Value) {
        let Some(part) = part.as_map() else { return };
        let Some(low) = part.get("low").and_then(Value::as_map) else { return };
        let mut ret = Map::new();
        Stamp::now(self.world.utc_offset()).write(&mut ret);
        for key in ["changes", "result", "duration", "start_time"] {
            if let Some(value) = part.get(key) {
                ret.insert(key, value.clone());
            }
        }
        ret.insert("comment", part.get("comment").cloned().unwrap_or_else(|| "".into()));
        ret.insert("__state_ran__", true);
        // As in Salt, raised before its use: the part shares its number with the next state.
        self.number += 1;
        ret.insert("__run_num__", self.number);
        let own = self.chunks.graph.chunk(index);
        for key in ["__sls__", "__id__", "name"] {
            ret.insert(key, own.get(key).cloned().unwrap_or_default());
        }
        self.running.insert(tag::of(low), ret);
    }
}
