//! The job on a command line of `salt`: the target, the functions, their arguments.

use client::target_list;
use value::{Map, Value};
use yaml::args::{condition_input, parse_cli_arg, parse_input};

use crate::exit_codes;

/// A job, ready to be published.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// The target: text, or a list of ids.
    pub target: Value,
    /// The kind of target (`glob`, `list`, `compound`…).
    pub target_type: String,
    /// The function, or a list of functions.
    pub function: Value,
    /// The arguments; a list of lists for several functions.
    pub arguments: Vec<Value>,
}

/// A command line that is not a complete job.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Incomplete {
    /// Something is missing or does not match; the text is printed as it is.
    #[error("{0}")]
    Missing(&'static str),
    /// A usage error.
    #[error("{0}")]
    Usage(String),
}

impl Incomplete {
    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Incomplete::Missing(_) => exit_codes::INCOMPLETE,
            Incomplete::Usage(_) => exit_codes::USAGE,
        }
    }
}

const NO_TARGET: Incomplete = Incomplete::Missing("\nCannot execute command without defining a target.\n\n");
const NO_FUNCTION: Incomplete = Incomplete::Missing("\nIncomplete options passed.\n\n");
const TOO_FEW: Incomplete = Incomplete::Missing("Cannot execute compound command without defining all arguments.\n");
const TOO_MANY: Incomplete =
    Incomplete::Missing("Cannot execute compound command with more arguments than commands.\n");

/// The target flags: setting, target type, and spelling, in the order of the help.
const TARGET_FLAGS: [(&str, &str, &str); 11] = [
    ("list_hosts", "list_hosts", "--hosts"),
    ("pcre", "pcre", "--pcre"),
    ("list", "list", "--list"),
    ("grain", "grain", "--grain"),
    ("grain_pcre", "grain_pcre", "--grain-pcre"),
    ("nodegroup", "nodegroup", "--nodegroup"),
    ("range", "range", "--range"),
    ("compound", "compound", "--compound"),
    ("pillar_target", "pillar", "--pillar"),
    ("pillar_pcre", "pillar_pcre", "--pillar-pcre"),
    ("ipcidr", "ipcidr", "--ipcidr"),
];

/// Returns the target type of the flags. More than one flag is an error.
pub fn target_type(settings: &Map) -> Result<&'static str, String> {
    let chosen = TARGET_FLAGS.iter().filter(|(setting, ..)| settings.get(setting).is_some_and(Value::truthy));
    let chosen: Vec<_> = chosen.collect();
    match chosen[..] {
        [] => Ok("glob"),
        [(_, "list_hosts", _)] => Err("not supported: -H/--hosts lists the hosts of salt-ssh".into()),
        [(_, "range", _)] => Err("not supported: -R/--range needs a range server".into()),
        [(_, kind, _)] => Ok(kind),
        _ => {
            let names: Vec<&str> = chosen.iter().map(|(.., name)| *name).collect();
            Err(format!("The options {} are mutually exclusive. Please only choose one of them", names.join("/")))
        }
    }
}

/// Replaces node groups by their definitions: minions need not know the master's groups.
pub fn resolve_nodegroups(job: &mut Job, groups: &Map) -> Result<(), targeting::Error> {
    client::resolve_nodegroups(&mut job.target, &mut job.target_type, groups)
}

impl Job {
    /// Makes a job from flags and arguments.
    pub fn new(settings: &Map, arguments: &[String]) -> Result<Job, Incomplete> {
        let flag = |name: &str| settings.get(name).is_some_and(Value::truthy);
        let target_type = target_type(settings).map_err(Incomplete::Usage)?;
        let mut words = arguments.to_vec();
        if flag("preview_target") {
            // Nothing is sent; the function only has to exist.
            words.push("test.ping".into());
        }
        if flag("doc") {
            words = doc_words(words)?;
        }
        let target = words.first().ok_or(NO_TARGET)?;
        let target = if target_type == "list" { target_list(target) } else { target.as_str().into() };
        let function = words.get(1).ok_or(NO_FUNCTION)?;
        let keep = no_parse(settings);
        let keep: Vec<&str> = keep.iter().map(String::as_str).collect();
        let read = |words: &[String]| read_arguments(words, &keep);
        let (function, arguments) = if function.contains(',') {
            let functions: Vec<&str> = function.split(',').collect();
            let separator = settings.get_str("args_separator").unwrap_or(",");
            let lists = split_arguments(&words[2..], functions.len(), separator)?;
            (Value::from(functions), lists.iter().map(|list| Value::List(read(list))).collect())
        } else {
            (function.as_str().into(), read(&words[2..]))
        };
        Ok(Job { target, target_type: target_type.into(), function, arguments })
    }

    /// Returns the function if there is only one.
    pub fn single_function(&self) -> Option<&str> {
        self.function.as_str()
    }
}

/// With `-d`, the target is optional and the function is `sys.doc`.
fn doc_words(mut words: Vec<String>) -> Result<Vec<String>, Incomplete> {
    if words.is_empty() {
        // Salt's default for documentation, which any minion can give.
        words.push("*".into());
    }
    if words.get(1).is_none_or(|function| function != "sys.doc") {
        words.insert(1, "sys.doc".into());
    }
    if words.len() > 3 {
        return Err(Incomplete::Usage("You can only get documentation for one method at one time.".into()));
    }
    Ok(words)
}

/// Reads the names in `--no-parse`.
pub fn no_parse(settings: &Map) -> Vec<String> {
    let names = settings.get_str("no_parse").unwrap_or_default();
    names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Reads arguments as YAML, named ones last.
pub fn read_arguments(words: &[String], no_parse: &[&str]) -> Vec<Value> {
    let (positional, named) = parse_input(words.iter().map(String::as_str), no_parse);
    condition_input(positional, named)
}

/// Reads the value of a flag such as `--metadata`: YAML, if there is anything.
pub fn flag_value(settings: &Map, name: &str) -> Option<Value> {
    match settings.get(name)? {
        Value::Str(text) if text.is_empty() => None,
        Value::Str(text) => Some(parse_cli_arg(text)),
        other => other.truthy().then(|| other.clone()),
    }
}

/// Distributes arguments among several functions. The separator is a separate argument or, in the old form, part of
/// one.
fn split_arguments(words: &[String], functions: usize, separator: &str) -> Result<Vec<Vec<String>>, Incomplete> {
    if words.iter().filter(|word| *word == separator).count() == functions - 1 {
        return Ok(words.split(|word| word == separator).map(<[String]>::to_vec).collect());
    }
    let mut lists = vec![Vec::new()];
    for word in words {
        for (place, part) in word.split(separator).enumerate() {
            if place > 0 {
                lists.push(Vec::new());
            }
            let whole = !word.contains(separator);
            // As in Salt, an empty text between two separators is not an argument.
            if let Some(list) = lists.last_mut().filter(|_| whole || !part.is_empty()) {
                list.push(part.to_owned());
            }
        }
    }
    match lists.len().cmp(&functions) {
        std::cmp::Ordering::Less => Err(TOO_FEW),
        std::cmp::Ordering::Greater => Err(TOO_MANY),
        std::cmp::Ordering::Equal => Ok(lists),
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;
    use crate::args::{Program, parse};

    fn job(line: &[&str]) -> Result<Job, Incomplete> {
        let parsed = parse(Program::Salt, line.iter().map(|word| (*word).to_owned()).collect()).unwrap();
        Job::new(&parsed.settings, &parsed.arguments)
    }

    #[test]
    fn arguments_are_read_as_yaml() {
        let job = job(&["*", "test.arg", "1", "a b", "[1, 2]", "x=true", "y=1"]).unwrap();
        assert_eq!(job.target, Value::from("*"));
        assert_eq!(job.single_function(), Some("test.arg"));
        let named = map! { "x" => true, "y" => 1, "__kwarg__" => true };
        assert_eq!(job.arguments[..3], [Value::Int(1), "a b".into(), list![1, 2]]);
        assert!(value::python::equal(&job.arguments[3], &named.into()), "{:?}", job.arguments[3]);
    }

    #[test]
    fn named_arguments_may_stay_text() {
        let job = job(&["*", "test.kwarg", "a=1", "b=2", "--no-parse", "a"]).unwrap();
        assert_eq!(job.arguments[0].get("a"), Some(&"1".into()));
        assert_eq!(job.arguments[0].get("b"), Some(&Value::Int(2)));
    }

    #[test]
    fn lists_have_commas_or_blanks() {
        assert_eq!(job(&["-L", "a, b,c", "test.ping"]).unwrap().target, list!["a", "b", "c"]);
        assert_eq!(job(&["-L", "a b", "test.ping"]).unwrap().target, list!["a", "b"]);
    }

    #[test]
    fn several_functions_share_the_arguments() {
        let compound = job(&["*", "test.arg,cmd.run,test.ping", "a", "b", ",", "ls -l", ","]).unwrap();
        assert_eq!(compound.function, list!["test.arg", "cmd.run", "test.ping"]);
        assert_eq!(compound.arguments, [list!["a", "b"], list!["ls -l"], list![]]);
        let old = job(&["*", "test.arg,cmd.run", "a,ls -l"]).unwrap();
        assert_eq!(old.arguments, [list!["a"], list!["ls -l"]]);
        let other = job(&["*", "test.arg,cmd.run", "a,b", ";", "ls", "--args-separator", ";"]).unwrap();
        assert_eq!(other.arguments, [list!["a,b"], list!["ls"]]);
        assert_eq!(job(&["*", "test.arg,cmd.run,test.ping", "a,b"]).unwrap_err(), TOO_FEW);
        assert_eq!(job(&["*", "test.arg,cmd.run", "a,b,c"]).unwrap_err(), TOO_MANY);
    }

    #[test]
    fn documentation_needs_no_target() {
        assert_eq!(job(&["-d"]).unwrap().function, "sys.doc".into());
        let one = job(&["-d", "*", "test.ping"]).unwrap();
        assert_eq!((one.function, one.arguments), ("sys.doc".into(), vec!["test.ping".into()]));
        assert_eq!(job(&["-d", "*", "a", "b"]).unwrap_err().code(), exit_codes::USAGE);
    }

    #[test]
    fn what_is_missing_is_told() {
        assert_eq!(job(&[]).unwrap_err(), NO_TARGET);
        assert_eq!(job(&["*"]).unwrap_err(), NO_FUNCTION);
        assert_eq!(job(&["*", "--preview-target"]).unwrap().single_function(), Some("test.ping"));
    }

    #[test]
    fn one_kind_of_target_at_a_time() {
        let error = job(&["-EG", "a", "b"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "The options --pcre/--grain are mutually exclusive. Please only choose one of them"
        );
        assert_eq!(job(&["-I", "a:b", "test.ping"]).unwrap().target_type, "pillar");
    }
}
