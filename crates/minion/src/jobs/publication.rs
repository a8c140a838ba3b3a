//! A job as a master published it.

use value::{Map, Value};

/// A published job. The fields keep their order, and unknown ones are kept.
#[derive(Clone, Debug)]
pub struct Publication {
    load: Map,
}

/// Why a publication is not a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A required field is missing.
    #[error("the publication has no field '{0}'")]
    Missing(&'static str),
    /// The job id is not text.
    #[error("the publication's jid is not text")]
    Jid,
    /// `fun` is neither a name nor a list of names with an argument list each.
    #[error("the publication's fun and arg do not fit together")]
    Fun,
}

/// One function of a job with its argument list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FunctionCall<'a> {
    /// The name, `module.function`.
    pub fun: &'a str,
    /// Its arguments as published, keyword maps among them.
    pub arg: &'a [Value],
}

impl Publication {
    /// Reads the fields of a publication.
    ///
    /// # Errors
    /// When it is not a job. Such publications are ignored, as by Salt.
    pub fn new(load: Map) -> Result<Self, Refusal> {
        for field in ["tgt", "jid", "fun", "arg"] {
            if !load.contains_key(field) {
                return Err(Refusal::Missing(field));
            }
        }
        if load.get_str("jid").is_none() {
            return Err(Refusal::Jid);
        }
        let publication = Publication { load };
        if publication.calls().is_none() { Err(Refusal::Fun) } else { Ok(publication) }
    }

    /// Returns the fields.
    pub fn load(&self) -> &Map {
        &self.load
    }

    /// Returns the fields as functions see them (`__pub_…`), with the fields about resources that a minion of 3008
    /// adds. They are empty here.
    pub fn as_functions_see_it(&self) -> Map {
        let mut load = self.load.clone();
        load.update(value::map! {
            "resource_targets" => Value::List(Vec::new()), "pure_resource_target" => false, "minion_is_target" => true,
        });
        load
    }

    /// Returns the job's id.
    pub fn jid(&self) -> &str {
        self.load.get_str("jid").unwrap_or_default()
    }

    /// Returns the target expression.
    pub fn tgt(&self) -> &Value {
        self.load.get("tgt").unwrap_or(&Value::Null)
    }

    /// Returns the kind of target; `glob` if the field is missing.
    pub fn tgt_type(&self) -> &str {
        self.load.get_str("tgt_type").unwrap_or("glob")
    }

    /// Returns the separator of nested keys in the target.
    pub fn delimiter(&self) -> &str {
        self.load.get_str("delimiter").unwrap_or(":")
    }

    /// Returns whether several functions were published as one job.
    pub fn is_compound(&self) -> bool {
        self.load.get("fun").is_some_and(|fun| fun.as_list().is_some())
    }

    /// Returns the functions to run, in order; `None` when names and arguments do not fit together.
    pub fn calls(&self) -> Option<Vec<FunctionCall<'_>>> {
        let (fun, arg) = (self.load.get("fun")?, self.load.get("arg")?.as_list()?);
        match fun {
            Value::Str(fun) => Some(vec![FunctionCall { fun, arg }]),
            Value::List(names) => names
                .iter()
                .enumerate()
                .map(|(place, name)| {
                    // Arguments may be missing for the last functions, as in Salt.
                    let arg = arg.get(place).map_or(Some(&[] as &[Value]), Value::as_list)?;
                    Some(FunctionCall { fun: name.as_str()?, arg })
                })
                .collect(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    fn load(fun: Value, arg: Value) -> Map {
        map! { "tgt" => "*", "jid" => "20240229131415678901", "fun" => fun, "arg" => arg }
    }

    #[test]
    fn functions_see_that_no_resource_is_a_target() {
        let publication = Publication::new(load("test.ping".into(), list![])).unwrap();
        let mut expected = load("test.ping".into(), list![]);
        let added = map! { "resource_targets" => list![], "minion_is_target" => true, "pure_resource_target" => false };
        expected.extend(added);
        assert_eq!(publication.as_functions_see_it(), expected);
    }

    #[test]
    fn one_function_and_several_are_read() {
        let one = Publication::new(load("test.ping".into(), list![])).unwrap();
        assert_eq!(one.calls().unwrap(), [FunctionCall { fun: "test.ping", arg: &[] }]);
        assert_eq!((one.tgt_type(), one.delimiter()), ("glob", ":"));
        let two = Publication::new(load(list!["test.ping", "test.echo"], list![list![], list!["a"]])).unwrap();
        assert!(two.is_compound());
        assert_eq!(two.calls().unwrap()[1], FunctionCall { fun: "test.echo", arg: &[Value::from("a")] });
    }

    #[test]
    fn what_is_no_job_is_refused() {
        assert_eq!(Publication::new(map! { "tgt" => "*" }).unwrap_err(), Refusal::Missing("jid"));
        assert_eq!(Publication::new(load(Value::Int(1), list![])).unwrap_err(), Refusal::Fun);
        // Each of several functions has a list of arguments.
        assert_eq!(Publication::new(load(list!["a.b"], list!["no list"])).unwrap_err(), Refusal::Fun);
        let mut bad = load("test.ping".into(), list![]);
        bad.insert("jid", 1);
        assert_eq!(Publication::new(bad).unwrap_err(), Refusal::Jid);
    }
}
