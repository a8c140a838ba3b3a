//! The functions that minions of a swarm answer, with made-up values.

use value::{Map, Value, list, map};

/// A function call.
pub struct Question<'a> {
    /// Its name.
    pub fun: &'a str,
    /// The arguments as published, including keyword maps.
    pub arg: &'a [Value],
    /// Returns the minion's grains.
    pub grains: &'a dyn Fn() -> Map,
    /// The publications of the jobs that run on the minion.
    pub running: &'a [Map],
    /// The approximate size of a made-up highstate return in bytes.
    pub return_size: usize,
}

/// The result of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The value, or the error text.
    pub value: Value,
    /// 0 on success.
    pub retcode: i64,
    /// The outputter of the value.
    pub out: Option<&'static str>,
}

impl Answer {
    fn value(value: impl Into<Value>) -> Self {
        Answer { value: value.into(), retcode: 0, out: None }
    }
}

/// Returns whether a function takes the time of a job. Questions about jobs are answered at once.
pub fn takes_time(fun: &str) -> bool {
    // Masters ask `saltutil.find_job` to see if a job still runs. If these questions took as long as the job, `salt`
    // would take the minion for dead.
    !fun.starts_with("saltutil.")
}

/// Answers a call.
pub fn answer(question: &Question) -> Answer {
    let (positional, keywords) = split(question.arg);
    let texts = || positional.iter().filter_map(|value| value.as_str());
    match question.fun {
        "test.ping" => Answer::value(true),
        "test.echo" => Answer::value(positional.first().map(|value| (*value).clone()).unwrap_or_default()),
        "test.arg" => {
            let args: Vec<Value> = positional.into_iter().cloned().collect();
            Answer::value(map! { "args" => args, "kwargs" => keywords })
        }
        // As Salt does: the job's publication if it runs, an empty map otherwise.
        "saltutil.find_job" => {
            let wanted = positional.first().and_then(|value| value.as_str());
            let found = question.running.iter().find(|job| job.get_str("jid") == wanted);
            Answer::value(found.cloned().unwrap_or_default())
        }
        "saltutil.running" => Answer::value(question.running.iter().cloned().map(Value::from).collect::<Vec<Value>>()),
        "grains.items" => Answer::value((question.grains)()),
        "grains.item" => {
            let grains = (question.grains)();
            let found = texts().map(|name| (Value::from(name), grains.get(name).cloned().unwrap_or(Value::from(""))));
            Answer::value(found.collect::<Map>())
        }
        // A missing grain is an empty string in Salt, for `grains.item` as well.
        "grains.get" => {
            let grains = Value::from((question.grains)());
            let found = texts().next().and_then(|path| grains.traverse(path, targeting::DEFAULT_DELIMITER).cloned());
            Answer::value(found.unwrap_or(Value::from("")))
        }
        // Salt minions name this outputter in the return; without it `salt` would print the states as nested data.
        "state.highstate" | "state.apply" | "state.sls" => {
            Answer { value: highstate(question.return_size), retcode: 0, out: Some("highstate") }
        }
        // The text, the code and the outputter of a Salt minion for an unknown function.
        fun => Answer { value: format!("'{fun}' is not available.").into(), retcode: 1, out: Some("nested") },
    }
}

fn split(arg: &[Value]) -> (Vec<&Value>, Map) {
    let (mut positional, mut keywords) = (Vec::new(), Map::new());
    for value in arg {
        match value.as_map().filter(|map| map.get("__kwarg__").is_some_and(Value::truthy)) {
            // Keyword arguments travel as maps with the marker `__kwarg__` at the end of the list. A map without the
            // marker is a positional argument.
            None => positional.push(value),
            Some(map) => {
                let given = map.iter().filter(|(key, _)| key.as_str() != Some("__kwarg__"));
                keywords.update(given.map(|(key, value)| (key.clone(), value.clone())).collect());
            }
        }
    }
    (positional, keywords)
}

/// Returns the results of invented states, at least one, with a packed size of about `size` bytes.
fn highstate(size: usize) -> Value {
    // The size of a state's result without its text, measured in the protocol.
    const BARE: usize = 250;
    const TEXT: usize = 250;
    let states = (size / (BARE + TEXT)).max(1);
    let text = size.saturating_sub(states * BARE) / states;
    (0..states).map(|number| result(number, text)).collect::<Map>().into()
}

fn result(number: usize, text: usize) -> (Value, Value) {
    let name = format!("/etc/swarm/{number:05}.conf");
    let key = format!("file_|-{name}_|-{name}_|-managed");
    let comment: String = "The file is as it should be. ".chars().cycle().take(text).collect();
    let result = map! {
        "name" => name,
        "changes" => map! {},
        "result" => true,
        "comment" => comment,
        "__sls__" => "swarm",
        "__run_num__" => number as i64,
        "start_time" => "12:00:00.000000",
        "duration" => 1.5,
        "__id__" => format!("swarm {number}"),
        "__saltfunc__" => list!["managed"],
    };
    (key.into(), result.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::msgpack::{Packing, pack};

    fn ask_with(fun: &str, arg: &[Value], running: &[Map]) -> Answer {
        let grains = || map! { "os" => "Debian", "deep" => map! { "er" => 1 } };
        answer(&Question { fun, arg, grains: &grains, running, return_size: 50_000 })
    }

    fn ask(fun: &str, arg: &[Value]) -> Value {
        ask_with(fun, arg, &[]).value
    }

    #[test]
    fn arguments_come_back() {
        let keyword: Value = map! { "__kwarg__" => true, "a" => 2 }.into();
        assert_eq!(ask("test.ping", &[]), Value::from(true));
        assert_eq!(ask("test.echo", &["x".into()]), Value::from("x"));
        let both = ask("test.arg", &[1.into(), keyword]);
        assert_eq!(both, map! { "args" => list![1], "kwargs" => map! { "a" => 2 } }.into());
    }

    #[test]
    fn running_jobs_are_found() {
        let running = [map! { "jid" => "7", "fun" => "state.apply" }];
        let find = |jid: &str| ask_with("saltutil.find_job", &[jid.into()], &running).value;
        assert_eq!(find("7"), running[0].clone().into());
        assert_eq!(find("8"), Map::new().into());
        assert_eq!(ask_with("saltutil.running", &[], &running).value.as_list().unwrap().len(), 1);
        assert!(!takes_time("saltutil.find_job") && takes_time("test.ping"));
    }

    #[test]
    fn grains_are_found_by_name_and_path() {
        assert_eq!(ask("grains.item", &["os".into(), "no".into()]), map! { "os" => "Debian", "no" => "" }.into());
        assert_eq!(ask("grains.get", &["deep:er".into()]), Value::from(1));
        assert_eq!(ask("grains.items", &[]).as_map().unwrap().len(), 2);
    }

    #[test]
    fn a_highstate_is_about_as_large_as_was_asked_for() {
        for size in [500, 1000, 10_000, 50_000, 1 << 20] {
            let packed = pack(&highstate(size), Packing::Wire).len();
            // The size is the load on the master that a benchmark is configured with; an eighth is close enough to
            // compare runs.
            assert!(packed.abs_diff(size) <= size / 8, "{size}: {packed}");
        }
        assert!(pack(&highstate(1), Packing::Wire).len() < 300, "one state at the least");
    }

    #[test]
    fn everything_else_is_not_available() {
        let refused = ask_with("cmd.run", &["id".into()], &[]);
        assert_eq!((refused.value, refused.retcode), (Value::from("'cmd.run' is not available."), 1));
    }
}
