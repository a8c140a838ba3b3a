//! Low data: what a client asks for, checked before anything is sent to the master.

use std::time::Duration;

use client::batch::Size;
use value::{Map, Value, map};
use wire::Jid;

use crate::failure::Failure;

/// The clients of Salt, in the order in which it lists them.
pub const SALTS: [&str; 10] = [
    "destroy",
    "local",
    "local_async",
    "local_batch",
    "local_subset",
    "runner",
    "runner_async",
    "ssh",
    "wheel",
    "wheel_async",
];

/// The clients that are built.
pub const BUILT: [&str; 8] =
    ["local", "local_async", "local_batch", "local_subset", "runner", "runner_async", "wheel", "wheel_async"];

/// The longest that a client may ask to wait.
const LONGEST: u64 = 24 * 3600;

/// The largest number of functions of one command. The master checks the rights for each of them.
const MOST_FUNCTIONS: usize = 100;

/// Fields of a command that say how it is carried out. They are never arguments of a function.
const CONTROL: [&str; 14] = [
    "client",
    "fun",
    "arg",
    "kwarg",
    "token",
    "eauth",
    "username",
    "password",
    "user",
    "key",
    "cmd",
    "auth_list",
    "print_event",
    "full_return",
];

/// Options of a publication that a client may set.
const OPTIONS: [&str; 6] = ["delimiter", "metadata", "module_executors", "executor_opts", "ret_config", "ret_kwargs"];

/// What a client asks for.
#[derive(Debug, PartialEq)]
pub struct Command {
    /// The fields that prove who the user is: a token, or a login.
    pub proof: Map,
    /// The work.
    pub work: Work,
}

/// The work of a command.
#[derive(Debug, PartialEq)]
pub enum Work {
    /// `local` and `local_async`.
    Local(Box<Local>),
    /// `local_batch`.
    Batch(Box<Local>, Batches),
    /// `local_subset`, with the number of minions.
    Subset(Box<Local>, usize),
    /// `runner` and `runner_async`.
    Runner(Call),
    /// `wheel` and `wheel_async`.
    Wheel(Call),
}

/// How a job is carried out in batches.
#[derive(Debug, PartialEq)]
pub struct Batches {
    /// The number of minions that run the job at a time.
    pub size: Size,
    /// How long a minion's place stays empty after its return.
    pub wait: Duration,
    /// Whether the first failure ends the run, if the client says so.
    pub failhard: Option<bool>,
    /// True for whole events instead of returns.
    pub raw: bool,
}

/// A job for minions.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    /// The target.
    pub target: Value,
    /// Its type.
    pub target_type: String,
    /// The function, or a list of them.
    pub function: Value,
    /// Its arguments.
    pub arguments: Vec<Value>,
    /// The returners.
    pub returners: String,
    /// The job id that the client chose; empty if it chose none.
    pub jid: String,
    /// Further options of the publication.
    pub options: Map,
    /// How long to wait for returns, if the client says so.
    pub timeout: Option<Duration>,
    /// How long to wait for answers to `find_job`, if the client says so.
    pub gather_timeout: Option<Duration>,
    /// True for whole returns.
    pub full_return: bool,
    /// True if returns are not waited for.
    pub detached: bool,
}

/// A call of a runner or wheel function.
#[derive(Debug, PartialEq)]
pub struct Call {
    /// The function.
    pub function: String,
    /// The arguments by place.
    pub arg: Vec<Value>,
    /// The arguments by name.
    pub kwarg: Map,
    /// How long to wait, if the client says so.
    pub timeout: Option<Duration>,
    /// True for the whole event instead of the return.
    pub full_return: bool,
    /// True if the end is not waited for.
    pub detached: bool,
}

impl Call {
    /// Calls a function with arguments by name, and waits.
    pub fn named(function: &str, kwarg: Map) -> Self {
        Call {
            function: function.to_owned(),
            arg: Vec::new(),
            kwarg,
            timeout: None,
            full_return: false,
            detached: false,
        }
    }

    /// Returns the fields of the request to the master.
    pub fn fields(self, command: &str, proof: Map) -> Map {
        let mut load = map! { "cmd" => command, "fun" => self.function, "arg" => self.arg, "kwarg" => self.kwarg };
        load.update(proof);
        load
    }
}

/// Checks a command. `token` is that of the session, which counts instead of all credentials in the command; `today` is the
/// date of job ids that a client may choose.
///
/// # Errors
/// When the command is not acceptable.
pub fn read(command: Map, token: Option<&str>, enabled: &[String], today: &str) -> Result<Command, Failure> {
    let mut command = command;
    let client = client(command.get("client"), enabled)?;
    let proof = match token {
        Some(token) => map! { "token" => token },
        None => credentials(&command)?,
    };
    if command.get("raw_shell").is_some_and(Value::truthy) {
        return Err(Failure::new(401, "Raw shell option not allowed."));
    }
    let work = match client.as_str() {
        "local" | "local_async" => Work::Local(Box::new(local(&mut command, client == "local_async", today)?)),
        "local_batch" => {
            let how = batches(&command)?;
            // Salt chooses the id of a batch itself.
            command.remove("jid");
            Work::Batch(Box::new(local(&mut command, false, today)?), how)
        }
        "local_subset" => {
            let count = subset(&command)?;
            Work::Subset(Box::new(local(&mut command, false, today)?), count)
        }
        "runner" | "runner_async" => Work::Runner(call(command, client == "runner_async")?),
        "wheel" | "wheel_async" => Work::Wheel(call(command, client == "wheel_async")?),
        _ => return Err(Failure::new(501, format!("The client '{client}' is not supported: there is no salt-ssh"))),
    };
    Ok(Command { proof, work })
}

fn client(name: Option<&Value>, enabled: &[String]) -> Result<String, Failure> {
    let text = name.map_or_else(|| "None".to_owned(), Value::to_string);
    let Some(name) = name.and_then(Value::as_str).filter(|name| SALTS.contains(name)) else {
        return Err(Failure::bad_request(format!("Invalid client specified: '{}'", value::escape::brief(&text, 100))));
    };
    check_enabled(name, enabled)?;
    Ok(name.to_owned())
}

/// Refuses a client that the operator has not enabled.
///
/// # Errors
/// When it is not enabled.
pub fn check_enabled(client: &str, enabled: &[String]) -> Result<(), Failure> {
    if client != "destroy" && enabled.iter().any(|enabled| enabled == client) {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "Client disabled: '{client}'. Add to 'netapi_enable_clients' master config option to enable."
    )))
}

/// Returns the credentials in a command.
///
/// # Errors
/// When there are none, or they cannot be right.
pub fn credentials(command: &Map) -> Result<Map, Failure> {
    if let Some(token) = command.get("token") {
        let token = token.as_str().filter(|token| is_hex(token)).ok_or_else(|| Failure::new(401, "Invalid token"))?;
        return Ok(map! { "token" => token });
    }
    if !command.contains_key("eauth") {
        return Err(Failure::no_credentials());
    }
    let mut proof = Map::new();
    for name in ["eauth", "username", "password"] {
        if let Some(value) = command.get(name) {
            let text = value.as_str().ok_or_else(|| Failure::bad_request(format!("'{name}' must be a text")))?;
            proof.insert(name, text);
        }
    }
    Ok(proof)
}

/// Returns whether a text can be a token.
pub fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn local(command: &mut Map, detached: bool, today: &str) -> Result<Local, Failure> {
    let function = function(command)?;
    // Older clients say `expr_form`.
    let kind = command.remove("tgt_type").or_else(|| command.remove("expr_form"));
    let target_type = match kind {
        None => "glob".to_owned(),
        Some(kind) => kind.into_string().ok_or_else(|| Failure::bad_request("'tgt_type' must be a text"))?,
    };
    let target = match command.remove("tgt") {
        // Salt asks the minions that the list names, and none of them answers.
        Some(Value::List(_)) if target_type == "glob" => {
            return Err(Failure::bad_request("'tgt' is a list: 'tgt_type' must be 'list'"));
        }
        Some(target @ (Value::Str(_) | Value::List(_))) => target,
        // A minion may be named 7, and Salt takes the number.
        Some(Value::Int(number)) => number.to_string().into(),
        Some(_) => return Err(Failure::bad_request("'tgt' must be a text or a list")),
        None => return Err(Failure::bad_request("'tgt' is missing")),
    };
    let mut options = Map::new();
    for name in OPTIONS {
        if let Some(value) = command.remove(name) {
            options.insert(name, value);
        }
    }
    let arguments = yaml::args::condition_input(arguments(command), keywords(command)?);
    if let Value::List(names) = &function {
        check_several(names, &arguments)?;
    }
    Ok(Local {
        target,
        target_type,
        function,
        arguments,
        returners: command.remove("ret").and_then(Value::into_string).unwrap_or_default(),
        jid: chosen_jid(command.get("jid"), today)?,
        options,
        timeout: seconds(command.get("timeout"))?,
        gather_timeout: seconds(command.get("gather_job_timeout"))?,
        full_return: command.get("full_return").is_some_and(Value::truthy),
        detached,
    })
}

fn batches(command: &Map) -> Result<Batches, Failure> {
    let size = command.get("batch").map_or_else(|| "10%".to_owned(), Value::to_string);
    let size = size.parse().map_err(|_| {
        let shown = value::escape::brief(&size, 100);
        Failure::bad_request(format!(
            "Invalid batch specification '{shown}': must be an integer or percentage string like '10' or '25%'."
        ))
    })?;
    Ok(Batches {
        size,
        wait: seconds(command.get("batch_wait"))?.unwrap_or_default(),
        failhard: command.get("failhard").map(Value::truthy),
        raw: command.get("raw").is_some_and(Value::truthy),
    })
}

fn subset(command: &Map) -> Result<usize, Failure> {
    // Older clients say `sub`.
    let count = match command.get("sub").or_else(|| command.get("subset")) {
        None | Some(Value::Null) => return Ok(3),
        Some(Value::Str(text)) => text.trim().parse().ok(),
        Some(value) => value.as_i64().and_then(|count| usize::try_from(count).ok()),
    };
    count.filter(|count| *count > 0).ok_or_else(|| Failure::bad_request("'subset' must be a number of minions"))
}

fn function(command: &Map) -> Result<Value, Failure> {
    match command.get("fun") {
        Some(Value::Str(name)) if !name.is_empty() => Ok(name.as_str().into()),
        Some(Value::List(names)) if !names.is_empty() && names.iter().all(|name| name.as_str().is_some()) => {
            Ok(Value::List(names.clone()))
        }
        Some(_) => Err(Failure::bad_request("'fun' must be the name of a function, or a list of names")),
        None => Err(Failure::bad_request("'fun' is missing")),
    }
}

/// Checks a command of several functions: minions ignore one whose arguments do not fit, and the client would wait for nothing.
fn check_several(names: &[Value], arguments: &[Value]) -> Result<(), Failure> {
    if names.len() > MOST_FUNCTIONS {
        return Err(Failure::bad_request(format!("'fun' must have at most {MOST_FUNCTIONS} functions")));
    }
    // Arguments may be missing for the last functions, as in Salt.
    if arguments.len() > names.len() || arguments.iter().any(|own| own.as_list().is_none()) {
        return Err(Failure::bad_request("with a list of functions, 'arg' must have a list of arguments for each"));
    }
    Ok(())
}

fn arguments(command: &mut Map) -> Vec<Value> {
    match command.remove("arg") {
        None => Vec::new(),
        Some(Value::List(items)) => items,
        Some(single) => vec![single],
    }
}

fn keywords(command: &mut Map) -> Result<Map, Failure> {
    match command.remove("kwarg") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Map(named)) => Ok(named),
        Some(_) => Err(Failure::bad_request("'kwarg' must be a map")),
    }
}

fn call(mut command: Map, detached: bool) -> Result<Call, Failure> {
    let function = match function(&command)? {
        Value::Str(name) => name,
        _ => return Err(Failure::bad_request("'fun' must be the name of a function")),
    };
    let (arg, named) = (arguments(&mut command), keywords(&mut command)?);
    let timeout = seconds(command.remove("timeout").as_ref())?;
    let full_return = command.get("full_return").is_some_and(Value::truthy);
    let mut kwarg = named;
    kwarg.retain(|name, _| name.as_str().is_some_and(|name| !name.starts_with("__")));
    for (name, value) in command {
        // Fields beside `fun` are arguments, too.
        let is_argument = |name: &str| !CONTROL.contains(&name) && !name.starts_with("__") && !kwarg.contains_key(name);
        if name.as_str().is_some_and(is_argument) {
            kwarg.insert(name, value);
        }
    }
    Ok(Call { function, arg, kwarg, timeout, full_return, detached })
}

/// Reads a job id that a client chose. Only one of today can be new.
fn chosen_jid(jid: Option<&Value>, today: &str) -> Result<String, Failure> {
    match jid {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::Str(jid)) if jid.is_empty() => Ok(String::new()),
        Some(Value::Str(jid)) if Jid::is_valid(jid) && jid.starts_with(today) => Ok(jid.clone()),
        Some(_) => Err(Failure::bad_request("'jid' must be a job id of today")),
    }
}

fn seconds(value: Option<&Value>) -> Result<Option<Duration>, Failure> {
    let wrong = || Failure::bad_request(format!("a timeout must be a number of seconds up to {LONGEST}"));
    let seconds = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Str(text)) => text.trim().parse::<f64>().map_err(|_| wrong())?,
        Some(value @ (Value::Int(_) | Value::Float(_))) => value.as_f64().ok_or_else(wrong)?,
        Some(_) => return Err(wrong()),
    };
    if !(0.0..=LONGEST as f64).contains(&seconds) {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    fn enabled() -> Vec<String> {
        SALTS.map(str::to_owned).to_vec()
    }

    fn refused(command: Map) -> Failure {
        read(command, Some("aa"), &enabled(), "20261126").unwrap_err()
    }

    fn work(command: Map) -> Work {
        let Command { proof, work } = read(command, Some("aa"), &enabled(), "20261126").unwrap();
        assert_eq!(proof, map! { "token" => "aa" });
        work
    }

    #[test]
    fn only_clients_that_are_enabled_count() {
        let client = |client: Value| map! { "client" => client, "fun" => "test.ping", "tgt" => "*" };
        for name in ["nosuch", "__init__", "_prep_auth_info", "run", "opts"] {
            assert_eq!(refused(client(name.into())).message, format!("Invalid client specified: '{name}'"));
        }
        assert_eq!(refused(map! { "fun" => "test.ping" }).message, "Invalid client specified: 'None'");
        for strange in [list!["local"], map! { "local" => 1 }.into(), Value::Null, 1.into()] {
            assert_eq!(refused(client(strange)).status, 400);
        }
        let disabled = "Client disabled: 'destroy'. Add to 'netapi_enable_clients' master config option to enable.";
        assert_eq!(refused(client("destroy".into())), Failure::bad_request(disabled));
        let none = read(client("local".into()), Some("aa"), &[], "20261126").unwrap_err();
        assert!(none.message.starts_with("Client disabled: 'local'."), "{none:?}");
        assert_eq!(refused(client("ssh".into())).status, 501);
    }

    #[test]
    fn credentials_are_a_token_or_a_login() {
        let read = |command: Map| {
            let mut command = command;
            command.insert("client", "runner");
            command.insert("fun", "manage.up");
            read(command, None, &enabled(), "20261126")
        };
        assert_eq!(read(map! { "token" => "0aF" }).unwrap().proof, map! { "token" => "0aF" });
        let login = map! { "eauth" => "auto", "username" => "fred", "password" => "x" };
        assert_eq!(read(login.clone()).unwrap().proof, login);
        assert_eq!(read(Map::new()).unwrap_err(), Failure::no_credentials());
        assert_eq!(read(map! { "username" => "fred", "password" => "x" }).unwrap_err(), Failure::no_credentials());
        for bad in [Value::from("hello"), Value::Null, "".into(), "a".repeat(257).into(), 7.into()] {
            assert_eq!(read(map! { "token" => bad }).unwrap_err(), Failure::new(401, "Invalid token"));
        }
        assert_eq!(read(map! { "eauth" => list!["auto"] }).unwrap_err().status, 400);
    }

    #[test]
    fn a_job_is_read() {
        let command = map! {
            "client" => "local", "tgt" => "a,b", "tgt_type" => "list", "fun" => "test.arg", "arg" => list![1],
            "kwarg" => map! { "x" => 2 }, "timeout" => "3", "full_return" => true, "delimiter" => "|", "nonsense" => 1,
        };
        let Work::Local(job) = work(command) else { panic!("not a job") };
        assert_eq!(job.target, "a,b".into(), "lists of jobs show it as it was given");
        assert_eq!(job.arguments, [1.into(), map! { "x" => 2, "__kwarg__" => true }.into()]);
        assert_eq!((job.timeout, job.full_return, job.detached), (Some(Duration::from_secs(3)), true, false));
        assert_eq!(job.options, map! { "delimiter" => "|" });
        let Work::Local(job) = work(map! { "client" => "local", "tgt" => 7, "fun" => "test.ping" }) else {
            panic!("not a job")
        };
        assert_eq!(job.target, "7".into());
        let form = map! { "client" => "local_async", "tgt" => "os:x", "expr_form" => "grain", "fun" => list!["a.b"] };
        let Work::Local(job) = work(form) else { panic!("not a job") };
        assert_eq!((job.target_type.as_str(), job.detached, &job.function), ("grain", true, &list!["a.b"]));
    }

    #[test]
    fn batches_and_subsets_have_sizes() {
        let job = |more: Map| {
            let mut job = map! { "tgt" => "*", "fun" => "test.ping" };
            job.update(more);
            job
        };
        let Work::Batch(_, how) = work(job(map! { "client" => "local_batch" })) else { panic!("not in batches") };
        assert_eq!(how, Batches { size: Size::Percent(10.0), wait: Duration::ZERO, failhard: None, raw: false });
        let more =
            map! { "client" => "local_batch", "batch" => 3, "batch_wait" => "2", "failhard" => true, "jid" => "x" };
        let Work::Batch(job_, how) = work(job(more)) else { panic!("not in batches") };
        assert_eq!((how.size, how.wait, how.failhard), (Size::Count(3), Duration::from_secs(2), Some(true)));
        assert_eq!(job_.jid, "", "the id of a batch is never chosen");
        for (fields, expected) in
            [(Map::new(), 3), (map! { "subset" => "2" }, 2), (map! { "sub" => 1, "subset" => 9 }, 1)]
        {
            let mut subset = job(fields);
            subset.insert("client", "local_subset");
            let Work::Subset(_, count) = work(subset) else { panic!("not a subset") };
            assert_eq!(count, expected);
        }
        for bad in [
            map! { "client" => "local_batch", "batch" => "many" },
            map! { "client" => "local_batch", "batch" => list![] },
            map! { "client" => "local_batch", "batch_wait" => -1 },
            map! { "client" => "local_subset", "subset" => 0 },
            map! { "client" => "local_subset", "subset" => "few" },
        ] {
            assert_eq!(refused(job(bad.clone())).status, 400, "{bad:?}");
        }
    }

    #[test]
    fn an_incomplete_job_is_refused_with_the_reason() {
        let job = |more: Map| {
            let mut job = map! { "client" => "local", "tgt" => "*", "fun" => "test.ping" };
            job.update(more);
            job
        };
        assert_eq!(refused(map! { "client" => "local", "fun" => "test.ping" }).message, "'tgt' is missing");
        assert_eq!(refused(map! { "client" => "local", "tgt" => "*" }).message, "'fun' is missing");
        for bad in [
            map! { "timeout" => -1 },
            map! { "timeout" => 1e300 },
            map! { "timeout" => "nan" },
            map! { "timeout" => list![] },
            map! { "jid" => "../../x" },
            map! { "jid" => "20200101000000000000" },
            map! { "jid" => 2_026_112_600 },
            map! { "kwarg" => "x" },
            map! { "tgt" => map! {} },
            map! { "tgt_type" => list![] },
            map! { "tgt_type" => Value::Null },
            map! { "tgt" => list!["a", "b"] },
            map! { "fun" => list![1] },
            map! { "fun" => "" },
            map! { "fun" => list!["test.ping"], "arg" => list!["id"] },
            map! { "fun" => list!["test.ping"], "arg" => list![list![], list![]] },
            map! { "fun" => list!["test.ping"], "kwarg" => map! { "a" => 1 } },
            map! { "fun" => vec![Value::from("test.ping"); MOST_FUNCTIONS + 1] },
        ] {
            assert_eq!(refused(job(bad.clone())).status, 400, "{bad:?}");
        }
        let several = map! { "fun" => list!["test.arg", "test.ping"], "arg" => list![list!["a"]] };
        assert!(matches!(work(job(several)), Work::Local(_)), "the last arguments may be missing");
        let Work::Local(job) = work(job(map! { "jid" => "20261126000000000000" })) else { panic!("not a job") };
        assert_eq!(job.jid, "20261126000000000000");
    }

    #[test]
    fn fields_beside_the_function_are_arguments_of_runners() {
        let command = map! {
            "client" => "runner", "fun" => "test.arg", "arg" => "a", "kwarg" => map! { "b" => 1, "__user__" => "root" }, "c" => 2,
            "jid" => "x", "timeout" => 1.5,
        };
        let Work::Runner(call) = work(command) else { panic!("not a runner") };
        assert_eq!(call.arg, ["a".into()]);
        assert_eq!(call.kwarg, map! { "c" => 2, "jid" => "x", "b" => 1 });
        assert_eq!(call.timeout, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn nobody_says_who_they_are_beside_the_credentials() {
        let hostile = map! {
            "client" => "wheel", "fun" => "key.list_all", "user" => "root", "key" => "k", "cmd" => "publish", "id" => "m",
            "auth_list" => list![".*"], "print_event" => false, "__user__" => "root", "__kwarg__" => true, "match" => "a",
        };
        let Work::Wheel(call) = work(hostile) else { panic!("not a wheel function") };
        assert_eq!(call.kwarg, map! { "id" => "m", "match" => "a" });
        let load = call.fields("wheel", map! { "token" => "aa" });
        let expected = map! {
            "cmd" => "wheel", "fun" => "key.list_all", "arg" => list![], "kwarg" => map! { "id" => "m", "match" => "a" },
            "token" => "aa",
        };
        assert_eq!(load, expected);
        let hostile = map! {
            "client" => "local", "tgt" => "*", "fun" => "test.ping", "user" => "root", "key" => "k", "id" => "m",
            "__kwarg__" => true, "auth_list" => list![".*"],
        };
        let Work::Local(job) = work(hostile) else { panic!("not a job") };
        assert!(job.options.is_empty() && job.arguments.is_empty());
    }
}
