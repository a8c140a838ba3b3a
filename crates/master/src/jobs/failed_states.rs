//! Announces the failed states of a return one by one, as Salt does.

use event::Source;
use value::{Map, Value, map};
use wire::MinionId;

use crate::Shared;

/// The functions whose failed states are announced.
const WITH_STATES: [&str; 2] = ["state.sls", "state.highstate"];

/// The largest number of failed states of one return that are announced. Each of them is two events for every listener,
/// and a minion may return as many as it likes.
const MOST: usize = 1000;

/// The longest name of a user in an event, in bytes.
const USER: usize = 256;

/// Fires two events for each failed state of a return.
pub(super) fn announce(shared: &Shared, source: &Source, id: &MinionId, load: &Map) {
    for (announced, failed) in failed_states(id, load).enumerate() {
        if announced == MOST {
            tracing::warn!(minion = %id, "{id} returned more than {MOST} failed states; events are fired for the first {MOST} only");
            return;
        }
        // Salt has kept the first one, whose tag has no prefix, for old listeners.
        if let Some(name) = failed.old_tag() {
            shared.fire_from(source.clone(), name, failed.short());
        }
        shared.fire_from(source.clone(), failed.tag(), failed.long());
    }
}

/// A failed state. Its events are made one at a time: together they can take a thousand times the memory of the return.
struct FailedState<'a> {
    id: &'a MinionId,
    load: &'a Map,
    fun: &'a str,
    name: String,
    chunk: &'a Map,
    retcode: Value,
}

impl FailedState<'_> {
    /// Returns the tag of the event for old listeners, `file.managed`. A minion chooses the names of its states: one that is not
    /// made of two words could be the tag of somebody else's event.
    fn old_tag(&self) -> Option<String> {
        let is_word =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let (module, function) = self.name.split_once('.')?;
        (is_word(module) && is_word(function)).then(|| self.name.clone())
    }

    fn short(&self) -> Map {
        let mut data = self.chunk.clone();
        data.insert("retcode", self.retcode.clone());
        data
    }

    fn tag(&self) -> String {
        let (id, fun) = (self.id, self.fun);
        format!("salt/job/{}/sub/{id}/error/{fun}", self.jid())
    }

    fn long(&self) -> Map {
        let mut data = self.short();
        data.update(map! {
            "jid" => self.jid(), "id" => self.id, "success" => false, "return" => format!("Error: {}", self.name),
            "fun" => self.fun,
        });
        if let Some(user) = self.load.get_str("user").filter(|user| user.len() <= USER) {
            data.insert("user", user);
        }
        data
    }

    fn jid(&self) -> &str {
        self.load.get_str("jid").unwrap_or_default()
    }
}

fn failed_states<'a>(id: &'a MinionId, load: &'a Map) -> Box<dyn Iterator<Item = FailedState<'a>> + 'a> {
    let (returned, retcode) = (load.get("return"), load.get("retcode"));
    let part = |all: Option<&'a Value>, place: usize, fun: &str| match all? {
        Value::List(items) => items.get(place),
        Value::Map(items) => items.get(fun),
        other => Some(other),
    };
    match load.get("fun") {
        Some(Value::Str(fun)) => Box::new(of_function(id, load, fun, returned, retcode)),
        Some(Value::List(functions)) => {
            let each = functions.iter().enumerate().filter_map(|(place, fun)| Some((place, fun.as_str()?)));
            Box::new(each.flat_map(move |(place, fun)| {
                of_function(id, load, fun, part(returned, place, fun), part(retcode, place, fun))
            }))
        }
        _ => Box::new(std::iter::empty()),
    }
}

fn of_function<'a>(
    id: &'a MinionId,
    load: &'a Map,
    fun: &'a str,
    returned: Option<&'a Value>,
    retcode: Option<&'a Value>,
) -> impl Iterator<Item = FailedState<'a>> {
    let chunks = returned.and_then(Value::as_map).filter(|_| WITH_STATES.contains(&fun));
    let retcode = retcode.filter(|retcode| retcode.truthy());
    let states = chunks.zip(retcode).into_iter().flat_map(|(chunks, retcode)| {
        // It is copied into each event.
        let retcode = if retcode.as_f64().is_some() { retcode.clone() } else { 1.into() };
        chunks.iter().map(move |(tag, chunk)| (tag, chunk, retcode.clone()))
    });
    states.filter_map(move |(tag, chunk, retcode)| {
        // `None` is a state that would change something in a test run: it has not failed.
        if chunk.get("result").and_then(Value::as_bool) != Some(false) {
            return None;
        }
        let tag = tag.as_str()?;
        let name = format!("{}.{}", tag.split("_|-").next()?, tag.rsplit("_|-").next()?);
        Some(FailedState { id, load, fun, name, chunk: chunk.as_map()?, retcode })
    })
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    fn states() -> Map {
        let chunk = |result: bool| map! { "result" => result, "comment" => "c" };
        map! {
            "file_|-/a_|-/a_|-managed" => chunk(false),
            "pkg_|-vim_|-vim_|-installed" => chunk(true),
        }
    }

    fn load(fun: impl Into<Value>, returned: Map, retcode: impl Into<Value>) -> Map {
        map! {
            "jid" => "20240229131415678901", "fun" => fun, "return" => returned, "retcode" => retcode, "user" => "root",
        }
    }

    /// Returns the tags and the data of all events.
    fn events(load: &Map) -> Vec<(String, Map)> {
        let id = MinionId::new("web1").unwrap();
        let both = |failed: FailedState<'_>| {
            let old = failed.old_tag().map(|tag| (tag, failed.short()));
            old.into_iter().chain([(failed.tag(), failed.long())]).collect::<Vec<_>>()
        };
        failed_states(&id, load).flat_map(both).collect()
    }

    #[test]
    fn failed_states_are_announced_with_name_and_job() {
        let single = events(&load("state.sls", states(), 2));
        let tags: Vec<&str> = single.iter().map(|(tag, _)| tag.as_str()).collect();
        assert_eq!(tags, ["file.managed", "salt/job/20240229131415678901/sub/web1/error/state.sls"]);
        assert_eq!(single[1].1.get_str("return"), Some("Error: file.managed"));
        assert_eq!(single[1].1.get("retcode"), Some(&2.into()));
        let several = map! { "test.ping" => true, "state.highstate" => states() };
        let codes = map! { "test.ping" => 0, "state.highstate" => 2 };
        assert_eq!(events(&load(list!["test.ping", "state.highstate"], several, codes)).len(), 2);
        // As in Salt, which lists two functions and forgets this one.
        assert!(events(&load("state.apply", states(), 2)).is_empty());
        assert!(events(&load("state.sls", states(), 0)).is_empty());
    }

    #[test]
    fn a_minion_does_not_choose_the_tag_of_an_event() {
        let names = [
            "salt/job/20240229131415678901/ret/web2_|-x_|-y_|-example.com",
            "minion/refresh/web2_|-x_|-y_|-example",
            "a\nb_|-x_|-y_|-c",
            "_|-x_|-y_|-",
            "file_|-x_|-y_|-a.b",
        ];
        let returned = names.into_iter().map(|name| (name, map! { "result" => false })).collect::<Map>();
        let tags: Vec<String> = events(&load("state.sls", returned, 1)).into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(tags.len(), names.len());
        assert!(tags.iter().all(|tag| tag == "salt/job/20240229131415678901/sub/web1/error/state.sls"), "{tags:?}");
    }

    #[test]
    fn what_is_copied_into_each_event_is_small() {
        let many = Value::List(vec![1.into(); 10_000]);
        let mut load = load("state.sls", states(), many);
        load.insert("user", "u".repeat(10_000));
        let announced = events(&load);
        assert_eq!(announced[0].1.get("retcode"), Some(&1.into()));
        assert!(!announced[1].1.contains_key("user"));
    }
}
