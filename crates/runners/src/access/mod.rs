//! Explains permissions: which entry of `external_auth` or `publisher_acl` grants a call, or why none does.
//!
//! Each entry is judged alone, by the code with which the master judges a request.

mod report;
mod warnings;

use targeting::acl::{self, Form, Publication, call_allowed, functions_allowed, publish_allowed, target_covers};
use targeting::{Checker, DEFAULT_DELIMITER, TargetType, expr_match};
use value::{Map, Value, map};

pub use report::{Question, report};
pub use warnings::FunctionNames;

/// The place of local users beside the backends of `external_auth`.
pub const LOCAL_USERS: &str = "publisher_acl";

/// Always granted, because `salt` uses it to ask minions that have not returned.
const FREE: &str = "saltutil.find_job";

/// A user.
#[derive(Debug)]
pub struct User {
    /// The name.
    pub name: String,
    /// The groups, which only the backend knows.
    pub groups: Vec<String>,
}

/// A function and its arguments.
#[derive(Debug)]
pub struct Call {
    /// `None` for a job of minions.
    pub form: Option<Form>,
    /// Its name.
    pub function: String,
    /// Its arguments.
    pub arguments: Vec<Value>,
    /// The target, and its type.
    pub target: (Value, TargetType),
}

/// The entries of one key of a backend.
type Entries<'a> = (&'a str, &'a [Value]);

/// Returns the keys that mean a user, with their entries, and whether entries of `*` are left out.
///
/// These are the entries of [`acl::entries_for`], with their keys.
fn keys_of<'a>(part: &'a Map, user: &User, permissive: bool) -> (Vec<Entries<'a>>, bool) {
    let means = |key: &str| match key.strip_suffix('%') {
        Some(_) => user.groups.iter().any(|group| group == key.trim_end_matches('%')),
        None => key != "*" && expr_match(&user.name, key),
    };
    let listed = |key: &'a str| (key, part.get(key).and_then(Value::as_list).unwrap_or_default());
    let mut keys: Vec<_> = part.text_keys().filter(|key| means(key)).map(listed).collect();
    // Groups do not count here, as in Salt.
    let has_own = keys.iter().any(|(key, _)| !key.ends_with('%'));
    let everybody = part.contains_key("*");
    if everybody && (permissive || !has_own) {
        keys.push(listed("*"));
    }
    (keys, everybody && has_own && !permissive)
}

/// Returns what a backend grants to a user: the keys that mean the user, and whether a call is granted and why.
pub fn explain(
    part: &Map,
    user: &User,
    call: Option<&Call>,
    permissive: bool,
    known: &FunctionNames,
    checker: &Checker,
) -> Map {
    let (keys, without_everybody) = keys_of(part, user, permissive);
    let shown: Vec<Value> = keys.iter().map(|(key, entries)| map! { *key => entries.to_vec() }.into()).collect();
    let mut answer = map! { "entries" => shown };
    let Some(call) = call else { return answer };
    let (granted, mut reason) = judge(&keys, call, checker);
    if !granted && let Some(hint) = as_other_client(&keys, call, known, checker) {
        reason.push_str(&hint);
    }
    if !granted && without_everybody {
        reason.push_str("; the entries of '*' are only for users without a key of their own (permissive_acl)");
    }
    let (target, kind) = &call.target;
    let means_nobody = || checker.expect(target, *kind, DEFAULT_DELIMITER).is_ok_and(|meant| meant.minions.is_empty());
    // Each entry covers all minions of such a target.
    if call.form.is_none() && means_nobody() {
        reason.push_str("; the target means no accepted minion");
    }
    answer.update(map! { "granted" => granted, "reason" => reason });
    answer
}

/// Returns a hint if a call is not granted on minions, but would be in the master: whoever names no client may mean that.
fn as_other_client(keys: &[Entries<'_>], call: &Call, known: &FunctionNames, checker: &Checker) -> Option<String> {
    let forms = [(Form::Runner, "runner", &known.runners), (Form::Wheel, "wheel", &known.wheel)];
    let is_granted = |form| {
        let (function, arguments) = (call.function.clone(), call.arguments.clone());
        judge(keys, &Call { form: Some(form), function, arguments, target: call.target.clone() }, checker).0
    };
    let mut forms = forms.into_iter().filter(|(.., names)| call.form.is_none() && names.contains(&call.function));
    let (_, client, _) = forms.find(|(form, ..)| is_granted(*form))?;
    Some(format!("; as a {client} function it is granted (client={client})"))
}

fn judge(keys: &[Entries<'_>], call: &Call, checker: &Checker) -> (bool, String) {
    if call.form.is_none() && call.function == FREE {
        return (true, format!("{FREE} is free for everybody who has logged in"));
    }
    if keys.is_empty() {
        return (false, "no entry matches this user".to_owned());
    }
    let mut nearly = None;
    for (key, entry) in keys.iter().flat_map(|(key, entries)| entries.iter().map(move |entry| (key, entry))) {
        let shown = || value::escape::brief(&value::python::repr(entry), 200).into_owned();
        match verdict(entry, call, checker) {
            Verdict::Granted => return (true, format!("granted by the entry {} of '{key}'", shown())),
            Verdict::Nearly(why) => nearly = nearly.or_else(|| Some(format!("the entry {} of '{key}' {why}", shown()))),
            Verdict::Other => {}
        }
    }
    let function = &call.function;
    (false, nearly.unwrap_or_else(|| format!("no entry grants {function}")))
}

/// What an entry says about a call.
enum Verdict {
    Granted,
    /// It is about the function, but this is why it does not grant the call.
    Nearly(&'static str),
    /// It is about something else.
    Other,
}

fn verdict(entry: &Value, call: &Call, checker: &Checker) -> Verdict {
    let alone = std::slice::from_ref(entry);
    let Some(form) = call.form else { return published(entry, call, checker) };
    let wanted = |arguments| acl::Call { form, function: &call.function, arguments, keywords: None };
    match call_allowed(alone, &wanted(&call.arguments)) {
        Ok(true) => Verdict::Granted,
        Err(_) => Verdict::Nearly("cannot grant it: the name must be one of the form module.function"),
        Ok(false) if call_allowed(&without_demands(entry), &wanted(&[])) == Ok(true) => {
            Verdict::Nearly("demands other arguments")
        }
        Ok(false) => Verdict::Other,
    }
}

fn published(entry: &Value, call: &Call, checker: &Checker) -> Verdict {
    let alone = std::slice::from_ref(entry);
    let (functions, arguments) = ([call.function.clone()], [call.arguments.clone()]);
    let (target, kind) = &call.target;
    let delimiter = DEFAULT_DELIMITER;
    let wanted =
        Publication { functions: &functions, arguments: &arguments, target, kind: *kind, delimiter, minions: None };
    if publish_allowed(alone, &wanted, checker) {
        return Verdict::Granted;
    }
    if !functions_allowed(alone, &functions) {
        return Verdict::Other;
    }
    let covered = entry.as_map().and_then(|map| map.text_keys().next());
    match covered.is_some_and(|covered| !target_covers(covered, &wanted, checker)) {
        true => Verdict::Nearly("does not cover all minions of the target"),
        false => Verdict::Nearly("demands other arguments"),
    }
}

/// Returns an entry without its demands on arguments.
fn without_demands(entry: &Value) -> Vec<Value> {
    let patterns = |conditions: &[Value]| -> Vec<Value> {
        let pattern = |condition: &Value| match condition {
            Value::Map(map) => map.keys().next().cloned().unwrap_or_default(),
            other => other.clone(),
        };
        conditions.iter().map(pattern).collect()
    };
    let Some((key, conditions)) = entry.as_map().and_then(|map| map.iter().next()) else { return vec![entry.clone()] };
    let conditions = conditions.as_list().map(<[Value]>::to_vec).unwrap_or_else(|| vec![conditions.clone()]);
    vec![Map::from_iter([(key.clone(), Value::List(patterns(&conditions)))]).into()]
}

/// Returns a list that was given as a list, or as a text with commas.
pub fn names(given: Option<Value>) -> Vec<String> {
    match given {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::List(names)) => names.iter().map(Value::to_string).collect(),
        Some(single) => {
            single.to_string().split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        }
    }
}

/// Returns arguments that were given as a list, or as the only one.
pub fn arguments(given: Option<Value>) -> Vec<Value> {
    match given {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::List(arguments)) => arguments,
        Some(single) => vec![single],
    }
}
