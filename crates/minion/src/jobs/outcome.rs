//! The result of a job, and the return made of it.

use value::{Map, Value, map};

use super::Publication;

/// The result of one function.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The value, or the text of the failure.
    pub value: Value,
    /// 0 after success.
    pub retcode: i64,
    /// The outputter for the value.
    pub out: Option<String>,
}

impl Outcome {
    /// Creates the result of a function that returned a value, with the return code that it set. A map that reports a
    /// failure (`result` or `success` not true) turns code 0 into 1.
    pub fn returned(value: Value, retcode: i64, out: Option<&str>) -> Self {
        let says_failed = ["result", "success"].iter().any(|key| value.get(key).is_some_and(|flag| !flag.truthy()));
        let retcode = if retcode == 0 && says_failed { 1 } else { retcode };
        Outcome { value, retcode, out: out.map(str::to_owned) }
    }

    /// Creates a failure.
    pub fn failed(text: impl Into<Value>) -> Self {
        Outcome { value: text.into(), retcode: 1, out: Some("nested".to_owned()) }
    }

    fn success(&self) -> bool {
        self.retcode == 0
    }
}

/// Builds the return of a job, its fields in the order Salt writes them. For several functions, the values are maps by
/// function, or lists with `multifunc_ordered`.
pub fn return_load(id: &str, job: &Publication, outcomes: Vec<Outcome>, ordered: bool) -> Map {
    // The order of the fields is Salt's: the job cache and returners store them as they are.
    let mut load = map! { "cmd" => "_return", "id" => id };
    if job.is_compound() {
        add_many(&mut load, job, outcomes, ordered);
    } else if let Some(outcome) = outcomes.into_iter().next() {
        load.insert("success", outcome.success());
        load.insert("return", outcome.value);
        load.insert("retcode", outcome.retcode);
        add_job(&mut load, job);
        if let Some(out) = outcome.out {
            load.insert("out", out);
        }
    }
    load
}

fn add_many(load: &mut Map, job: &Publication, outcomes: Vec<Outcome>, ordered: bool) {
    let names: Vec<Value> = job.calls().unwrap_or_default().iter().map(|call| Value::from(call.fun)).collect();
    let gather = |part: &dyn Fn(&Outcome) -> Value| -> Value {
        if ordered {
            return outcomes.iter().map(part).collect();
        }
        Value::Map(names.iter().cloned().zip(outcomes.iter().map(part)).collect())
    };
    load.insert("return", gather(&|outcome| outcome.value.clone()));
    load.insert("retcode", gather(&|outcome| outcome.retcode.into()));
    load.insert("success", gather(&|outcome| outcome.success().into()));
    add_job(load, job);
}

fn add_job(load: &mut Map, job: &Publication) {
    let fields = [("jid", "jid"), ("fun", "fun"), ("arg", "fun_args")];
    for (from, to) in fields {
        load.insert(to, job.load().get(from).cloned());
    }
    // Only if the publication has them: a return with an empty field would look different to returners.
    for field in ["user", "master_id", "metadata"] {
        if let Some(value) = job.load().get(field) {
            load.insert(field, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    fn job(fun: Value, arg: Value) -> Publication {
        Publication::new(
            map! { "tgt" => "*", "jid" => "20240229131415678901", "fun" => fun, "arg" => arg, "user" => "root" },
        )
        .unwrap()
    }

    #[test]
    fn the_fields_come_in_salts_order() {
        let load = return_load(
            "web1",
            &job("test.ping".into(), list![]),
            vec![Outcome::returned(true.into(), 0, None)],
            false,
        );
        let keys: Vec<_> = load.text_keys().collect();
        // The order shows in the event and in what outputters print.
        assert_eq!(keys, ["cmd", "id", "success", "return", "retcode", "jid", "fun", "fun_args", "user"]);
    }

    #[test]
    fn a_map_that_says_it_failed_sets_the_return_code() {
        assert_eq!(Outcome::returned(map! { "result" => false }.into(), 0, None).retcode, 1);
        assert_eq!(Outcome::returned(map! { "result" => Value::Null }.into(), 0, None).retcode, 1);
        assert_eq!(Outcome::returned(map! { "result" => true }.into(), 0, None).retcode, 0);
        assert_eq!(Outcome::returned(map! { "success" => false }.into(), 3, None).retcode, 3);
    }

    #[test]
    fn several_functions_return_maps_or_lists() {
        let job = job(list!["test.ping", "no.such"], list![list![], list![]]);
        let outcomes = vec![Outcome::returned(true.into(), 0, None), Outcome::failed("'no.such' is not available.")];
        let load = return_load("web1", &job, outcomes.clone(), false);
        assert_eq!(load.get("retcode"), Some(&map! { "test.ping" => 0, "no.such" => 1 }.into()));
        let load = return_load("web1", &job, outcomes, true);
        assert_eq!(load.get("success"), Some(&list![true, false]));
    }
}
