//! `test` — functions that prove a minion answers, and that calls, returns and failures arrive as they left.

use std::time::{Duration, Instant};

use exec::{Call, Context, Error, KwArgs, Module, Result, VarArgs, function};
use value::{BigInt, Map, Value, list, map, python};

use crate::providers::file_of;

/// The module.
pub static MODULE: Module = Module::new(
    "test",
    "Functions that prove a minion answers.",
    &[
        &ARG,
        &ARG_CLEAN,
        &ARG_REPR,
        &ARG_TYPE,
        &ASSERT_TRUE,
        &ATTR_CALL,
        &COLLATZ,
        &CONF_TEST,
        &CROSS_TEST,
        &DEPRECATION_WARNING,
        &ECHO,
        &EXCEPTION,
        &FALSE,
        &FIB,
        &GET_OPTS,
        &KWARG,
        &MODULE_REPORT,
        &NOT_LOADED,
        &OPTS_PKG,
        &OUTPUTTER,
        &PING,
        &PROVIDER,
        &PROVIDERS,
        &RAISE_EXCEPTION,
        &RAND_SLEEP,
        &RAND_STR,
        &RANDOM_HASH,
        &RETCODE,
        &SLEEP,
        &STACK,
        &TRUE,
        &TRY,
        &TTY,
        &VERSION,
        &VERSIONS,
        &VERSIONS_INFORMATION,
        &VERSIONS_REPORT,
    ],
);

/// Says that the minion is there: returns True. No ICMP is involved.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.ping
#[function]
fn ping(ctx: &Context) -> Result<bool> {
    tracing::debug!("test.ping received for minion '{}'", ctx.id());
    Ok(true)
}

/// Returns the text it was given.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.echo 'one two three'
#[function]
fn echo(text: Value) -> Result<Value> {
    Ok(text)
}

/// Returns the arguments it was given, the fields of the job among the named ones.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.arg 1 "two" 3.1 txt="hello" wow='{a: 1, b: "hello"}'
#[function]
fn arg(args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    Ok(map! { "args" => args.0, "kwargs" => kwargs.0 })
}

/// Returns the arguments it was given, without the fields of the job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.arg_clean 1 "two" txt="hello"
#[function]
fn arg_clean(args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    Ok(map! { "args" => args.0, "kwargs" => kwargs.given() })
}

/// Returns the arguments it was given as Python would write them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.arg_repr 1 "two" txt="hello"
#[function]
fn arg_repr(args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    Ok(map! { "args" => tuple(&args.0), "kwargs" => python::repr_map(&kwargs.0) })
}

/// The `repr()` of a Python tuple.
fn tuple(items: &[Value]) -> String {
    let inner: Vec<String> = items.iter().map(python::repr).collect();
    match inner.as_slice() {
        [one] => format!("({one},)"),
        all => format!("({})", all.join(", ")),
    }
}

/// Returns the types of the arguments it was given.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.arg_type 1 'int'
#[function]
fn arg_type(args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let class = |value: &Value| format!("<class '{}'>", value.type_name());
    let args: Vec<String> = args.0.iter().map(class).collect();
    let kwargs: Map = kwargs.0.iter().map(|(name, value)| (name.clone(), class(value))).collect();
    Ok(map! { "args" => args, "kwargs" => kwargs })
}

/// Returns the named arguments it was given, the fields of the job among them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.kwarg num=1 txt="two" env='{a: 1, b: "hello"}'
#[function]
fn kwarg(kwargs: KwArgs) -> Result<Map> {
    Ok(kwargs.0)
}

/// Fails unless the argument counts as true.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.assertion False
#[function(name = "assertion")]
fn assert_true(assertion: Value) -> Result<()> {
    if assertion.truthy() { Ok(()) } else { Err(Error::Other("AssertionError".into())) }
}

/// Returns the grains, by way of a call from function to function.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.attr_call
#[function]
async fn attr_call(ctx: &Context) -> Result<Value> {
    ctx.call("grains.items", Vec::new()).await
}

/// Calls another function with positional arguments, as functions call each other.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.cross_test cmd.which args='[tar]'
#[function]
async fn cross_test(ctx: &Context, func: String, args: Option<Vec<Value>>) -> Result<Value> {
    ctx.call(&func, args.unwrap_or_default()).await
}

/// Calls another function with the named arguments and returns None if it fails, or the failure's text with
/// ``return_try_exception=True``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.try module=user.info name=nobody
#[function(name = "try")]
async fn try_(
    ctx: &Context,
    module: String,
    #[default(false)] return_try_exception: bool,
    kwargs: KwArgs,
) -> Result<Value> {
    let call = Call { args: Vec::new(), kwargs: kwargs.given() };
    match ctx.call_with(&module, call).await {
        Err(Error::Terminated) => Err(Error::Terminated),
        Err(Error::NotAvailable(_)) if return_try_exception => Ok(format!("KeyError('{module}')").into()),
        Err(error) if return_try_exception => Ok(error.to_string().into()),
        Err(_) => Ok(Value::Null),
        done => done,
    }
}

/// Returns the option ``test.foo``, or "unconfigured".
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.conf_test
#[function]
fn conf_test(ctx: &Context) -> Result<Value> {
    Ok(crate::util::config_get(ctx, "test.foo").unwrap_or_else(|| "unconfigured".into()))
}

/// Returns all options of this minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.get_opts
#[function]
fn get_opts(ctx: &Context) -> Result<Map> {
    Ok((*ctx.opts).clone())
}

/// Returns all options of this minion and its grains among them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.opts_pkg
#[function]
fn opts_pkg(ctx: &Context) -> Result<Map> {
    let mut opts = (*ctx.opts).clone();
    opts.insert("grains", (*ctx.grains).clone());
    Ok(opts)
}

/// Returns what it was given, for a look at an outputter.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.outputter '{a: [1, 2]}'
#[function]
fn outputter(data: Value) -> Result<Value> {
    Ok(data)
}

/// Sets the return code of the job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.retcode 3
#[function]
fn retcode(ctx: &Context, #[default(42)] code: i64) -> Result<bool> {
    ctx.set_retcode(code);
    Ok(true)
}

/// Returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.true
#[function(name = "true")]
fn true_() -> Result<bool> {
    Ok(true)
}

/// Returns False.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.false
#[function(name = "false")]
fn false_() -> Result<bool> {
    Ok(false)
}

/// Takes a number of seconds.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.sleep 20
#[function]
async fn sleep(ctx: &Context, length: Value) -> Result<bool> {
    rest(ctx, seconds(&length)?).await
}

/// Python's `int()` of an argument.
fn seconds(length: &Value) -> Result<u64> {
    let whole = match length {
        Value::Float(number) => Some(number.trunc() as i64),
        Value::Str(text) => text.trim().parse().ok(),
        other => other.as_i64(),
    };
    let wrong = || Error::Other(format!("invalid literal for int() with base 10: {}", python::repr(length)));
    match u64::try_from(whole.ok_or_else(wrong)?) {
        Ok(seconds) => Ok(seconds),
        Err(_) => Err(Error::Other("sleep length must be non-negative".into())),
    }
}

async fn rest(ctx: &Context, seconds: u64) -> Result<bool> {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds)) => Ok(true),
        () = ctx.job.cancel.cancelled() => Err(Error::Terminated),
    }
}

/// Takes a random number of seconds, up to the given one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.rand_sleep 60
#[function]
async fn rand_sleep(ctx: &Context, #[default(60)] max: u64) -> Result<bool> {
    let seconds = rand::random_range(0..=max);
    rest(ctx, seconds).await
}

/// Returns a Fibonacci number and the seconds it took to compute it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.fib 90
#[function]
async fn fib(ctx: &Context, num: i64) -> Result<Value> {
    if num < 0 {
        return Err(Error::Other("Negative number is not allowed!".into()));
    }
    let start = Instant::now();
    let (mut previous, mut current) = (BigInt::from(0), BigInt::from(1));
    for step in 1..num {
        (previous, current) = (current.clone(), previous + current);
        if step % 1000 == 0 {
            give_way(ctx).await?;
        }
    }
    let number = if num == 0 { previous } else { current };
    Ok(list![number, start.elapsed().as_secs_f64()])
}

/// Lets others run, and ends a computation whose job was killed.
async fn give_way(ctx: &Context) -> Result<()> {
    tokio::task::yield_now().await;
    if ctx.job.cancel.is_cancelled() { Err(Error::Terminated) } else { Ok(()) }
}

/// Returns the Collatz sequence of a number and the seconds it took to compute it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.collatz 27
#[function]
async fn collatz(ctx: &Context, start: i64) -> Result<Value> {
    if start < 1 {
        return Err(Error::invocation(format!("the sequence of {start} never reaches 1")));
    }
    let begin = Instant::now();
    let mut steps: Vec<Value> = Vec::new();
    // Python's division makes a float, and what follows stays one.
    let (mut number, mut halved) = (i128::from(start), false);
    while number != 1 {
        steps.push(if halved { Value::Float(number as f64) } else { Value::Int(number as i64) });
        halved |= number % 2 == 0;
        number = if number % 2 == 0 { number / 2 } else { number * 3 + 1 };
        if steps.len().is_multiple_of(1000) {
            give_way(ctx).await?;
        }
    }
    Ok(list![steps, begin.elapsed().as_secs_f64()])
}

/// Returns what provides a module on this machine, such as `systemd_service` for `service`, or nothing.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.provider service
#[function]
fn provider(ctx: &Context, module: String) -> Result<String> {
    let found = ctx.agent.registry().modules().find(|known| known.name == module);
    Ok(found.map_or_else(String::new, |known| file_of(known).to_owned()))
}

/// Returns all modules that work here, each under what provides it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.providers
#[function]
fn providers(ctx: &Context) -> Result<Map> {
    Ok(ctx.agent.registry().modules().map(|module| (file_of(module), module.name)).collect())
}

/// Returns the modules that exist but do not work on this machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.not_loaded
#[function]
fn not_loaded(ctx: &Context) -> Result<Vec<&'static str>> {
    Ok(ctx.agent.registry().absent().map(|(name, _)| name).collect())
}

/// Returns all modules and functions that can be called, and which of them cannot be reached in Salt's other ways.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.module_report
#[function]
fn module_report(ctx: &Context) -> Result<Map> {
    let modules: Vec<&str> = ctx.agent.registry().modules().map(|module| module.name).collect();
    let functions: Vec<String> = ctx.agent.registry().modules().flat_map(names).collect();
    Ok(map! {
        "functions" => functions.clone(),
        "function_attrs" => functions.clone(),
        "function_subs" => functions,
        "modules" => modules.clone(),
        "module_attrs" => modules,
        "missing_attrs" => list![],
        "missing_subs" => list![],
    })
}

fn names(module: &'static Module) -> impl Iterator<Item = String> {
    module.functions.iter().map(|function| format!("{}.{}", module.name, function.name))
}

/// Returns the hash of a random number up to ``size``. The algorithm is the option ``hash_type`` unless one is named.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.random_hash
///     salt '*' test.random_hash hash_type=sha512
#[function]
fn random_hash(ctx: &Context, #[default(9_999_999_999_i64)] size: u64, hash_type: Option<String>) -> Result<String> {
    hash_of_random(ctx, size, hash_type)
}

/// The old name of ``test.random_hash``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.rand_str
#[function]
fn rand_str(ctx: &Context, #[default(9_999_999_999_i64)] size: u64, hash_type: Option<String>) -> Result<String> {
    hash_of_random(ctx, size, hash_type)
}

fn hash_of_random(ctx: &Context, size: u64, hash_type: Option<String>) -> Result<String> {
    let name = hash_type.or_else(|| ctx.opt_str("hash_type").map(str::to_owned)).unwrap_or_else(|| "sha256".into());
    let kind: crypto::HashType =
        name.parse().map_err(|error: crypto::UnknownHashType| Error::invocation(error.to_string()))?;
    Ok(kind.hex(rand::random_range(1..=size.max(1)).to_string().as_bytes()))
}

/// Fails with the given message.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.exception 'This went wrong'
#[function]
fn exception(#[default("Test Exception")] message: String) -> Result<()> {
    Err(Error::Other(message))
}

/// Python's built-in exceptions and Salt's own, apart from those that have a kind of their own here.
const EXCEPTIONS: [&str; 38] = [
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BlockingIOError",
    "BufferError",
    "ConnectionError",
    "EOFError",
    "EnvironmentError",
    "Exception",
    "FileExistsError",
    "FileNotFoundError",
    "FloatingPointError",
    "IOError",
    "ImportError",
    "IndexError",
    "InterruptedError",
    "IsADirectoryError",
    "KeyError",
    "LookupError",
    "MemoryError",
    "NameError",
    "NotADirectoryError",
    "NotImplementedError",
    "OSError",
    "OverflowError",
    "PermissionError",
    "ProcessLookupError",
    "RecursionError",
    "RuntimeError",
    "StopIteration",
    "SyntaxError",
    "SystemError",
    "TimeoutError",
    "UnicodeError",
    "ValueError",
    "Warning",
    "ZeroDivisionError",
    "salt.exceptions.SaltException",
];

/// Fails with the named exception, one of Python's or Salt's, and the given arguments. Returns False for a name that
/// is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.raise_exception ValueError 'not like this'
///     salt '*' test.raise_exception salt.exceptions.CommandExecutionError 'it did not work'
#[function]
fn raise_exception(name: String, args: VarArgs, kwargs: KwArgs) -> Result<bool> {
    if let Some(key) = kwargs.given().keys().next() {
        return Err(Error::Arguments(format!("{name}() takes no keyword argument {key}")));
    }
    let text = match args.0.as_slice() {
        [] => String::new(),
        [one] if name == "KeyError" => python::repr(one),
        [one] => one.to_string(),
        several => tuple(several),
    };
    match name.as_str() {
        "salt.exceptions.CommandExecutionError" => Err(Error::Execution(text)),
        "salt.exceptions.SaltInvocationError" => Err(Error::Invocation(text)),
        "salt.exceptions.CommandNotFoundError" => Err(Error::CommandNotFound(text)),
        "TypeError" => Err(Error::Arguments(text)),
        known if EXCEPTIONS.contains(&known) => Err(Error::Other(format!("{known}: {text}"))),
        unknown => {
            tracing::error!("No such exception: {unknown}");
            Ok(false)
        }
    }
}

/// Returns where in the program this function runs.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.stack
#[function]
fn stack() -> Result<String> {
    Ok(std::backtrace::Backtrace::force_capture().to_string())
}

/// Moved to ``cmd.tty``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.tty tty0 'This is a test'
#[function]
fn tty(args: VarArgs, kwargs: KwArgs) -> Result<&'static str> {
    let _ = (args, kwargs);
    Ok("ERROR: This function has been moved to cmd.tty")
}

/// Returns True and writes two warnings into the log, as functions do that will go away.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.deprecation_warning
#[function]
fn deprecation_warning() -> Result<bool> {
    tracing::warn!("This is a test deprecation warning by version.");
    tracing::warn!("This is a test deprecation warning by date very far into the future (3000-01-01).");
    Ok(true)
}

/// Returns the version: the Salt release this minion behaves like, a plus sign, and its own.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.version
#[function]
fn version() -> Result<String> {
    Ok(version_text())
}

/// The version in a form that tools made for Salt can parse.
pub fn version_text() -> String {
    format!("{}+saltern.{}", exec::SALT_LINE, exec::VERSION)
}

/// Returns the versions of this program, of what it is made of, and of the system.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.versions_information
#[function]
fn versions_information(ctx: &Context) -> Result<Map> {
    Ok(information(&ctx.grains))
}

fn information(grains: &Map) -> Map {
    let grain = |name: &str| grains.get(name).map(Value::to_string).unwrap_or_default();
    let join = |names: &[&str]| {
        let parts: Vec<String> = names.iter().map(|name| grain(name)).filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    };
    map! {
        "Salt Version" => map! { "Salt" => version_text(), "Saltern" => exec::VERSION },
        "Python Version" => map! { "Python" => () },
        "Dependency Versions" => map! { "OpenSSL" => openssl::version::version() },
        "System Versions" => map! {
            "system" => grain("kernel"),
            "dist" => join(&["osfullname", "osrelease", "oscodename"]).to_lowercase(),
            "release" => grain("kernelrelease"),
            "machine" => grain("cpuarch"),
            "version" => join(&["osfullname", "osrelease", "oscodename"]),
            "locale" => "utf-8",
        },
        "Salt Package Information" => map! { "Package Type" => () },
    }
}

/// Returns the versions of this program, of what it is made of, and of the system, as a text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.versions_report
#[function]
fn versions_report(ctx: &Context) -> Result<String> {
    Ok(report(&information(&ctx.grains)))
}

/// The same as ``test.versions_report``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.versions
#[function]
fn versions(ctx: &Context) -> Result<String> {
    Ok(report(&information(&ctx.grains)))
}

/// Lays versions out as `salt --versions-report` does: names right-aligned to the longest of all.
fn report(information: &Map) -> String {
    let order =
        ["Salt Version", "Python Version", "Dependency Versions", "Salt Package Information", "System Versions"];
    let sections =
        || order.iter().filter_map(|name| information.get(name).and_then(Value::as_map).map(|map| (name, map)));
    let width = sections().flat_map(|(_, section)| section.text_keys()).map(str::len).max().unwrap_or_default();
    let mut lines = Vec::new();
    for (name, section) in sections() {
        lines.push(format!("{name}:"));
        let mut entries: Vec<(&Value, &Value)> = section.iter().collect();
        entries.sort_by_key(|(name, _)| name.to_string().to_lowercase());
        for (name, version) in entries {
            let shown = if version.is_null() { "Not Installed".to_owned() } else { version.to_string() };
            lines.push(format!("{:>1$}: {shown}", name.to_string(), width + 2));
        }
        lines.push(" ".into());
    }
    lines.pop();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::Job;
    use exec::testing::context;

    fn ctx() -> Context {
        let grains = map! { "kernel" => "Linux", "osfullname" => "Debian" };
        context(&[&MODULE], map! { "id" => "m", "hash_type" => "md5" }, grains, map! {}).0
    }

    async fn call(fun: &str, args: Value, kwargs: Map) -> Result<Value> {
        let ctx = ctx();
        let job = Job::new(map! { "jid" => "1", "fun" => fun });
        let ctx = Context { job: std::sync::Arc::new(job), ..ctx };
        let call = Call { args: args.into_list().unwrap(), kwargs };
        ctx.agent.clone().registry().call(&ctx, fun, call).await
    }

    #[tokio::test]
    async fn arguments_come_back_as_salt_shows_them() {
        let kwargs = || map! { "x" => 1.5 };
        let args = || list![1, "a", list![1]];
        let job = || map! { "__pub_jid" => "1", "__pub_fun" => "test.arg" };
        let mut all = kwargs();
        all.update(job());
        assert_eq!(
            call("test.arg", args(), kwargs()).await.unwrap(),
            map! { "args" => args(), "kwargs" => all }.into()
        );
        let clean = call("test.arg_clean", args(), kwargs()).await.unwrap();
        assert_eq!(clean, map! { "args" => args(), "kwargs" => kwargs() }.into());
        let shown = call("test.arg_repr", args(), kwargs()).await.unwrap();
        assert_eq!(shown.get("args"), Some(&"(1, 'a', [1])".into()));
        assert_eq!(call("test.arg_repr", list![1], map! {}).await.unwrap().get("args"), Some(&"(1,)".into()));
        let types = call("test.arg_type", args(), kwargs()).await.unwrap();
        assert_eq!(types.get("args"), Some(&list!["<class 'int'>", "<class 'str'>", "<class 'list'>"]));
        assert_eq!(types.get("kwargs").unwrap().get("x"), Some(&"<class 'float'>".into()));
    }

    #[tokio::test]
    async fn numbers_are_those_of_python() {
        let number =
            async |fun, start: i64| call(fun, list![start], map! {}).await.unwrap().into_list().unwrap()[0].clone();
        assert_eq!(number("test.collatz", 6).await, list![6, 3.0, 10.0, 5.0, 16.0, 8.0, 4.0, 2.0]);
        assert_eq!(number("test.collatz", 3).await, list![3, 10, 5.0, 16.0, 8.0, 4.0, 2.0]);
        assert_eq!((number("test.fib", 0).await, number("test.fib", 1).await), (0.into(), 1.into()));
        assert_eq!(number("test.fib", 3).await, 2.into());
        assert_eq!(number("test.fib", 100).await.to_string(), "354224848179261915075");
        assert!(call("test.fib", list![-1], map! {}).await.is_err());
        assert!(call("test.collatz", list![0], map! {}).await.is_err());
    }

    #[tokio::test]
    async fn failures_have_the_kind_that_was_asked_for() {
        let fail = async |args| call("test.raise_exception", args, map! {}).await;
        let kind = "salt.exceptions.CommandExecutionError";
        assert!(matches!(fail(list![kind, "x"]).await, Err(Error::Execution(text)) if text == "x"));
        assert!(matches!(fail(list!["TypeError", "x"]).await, Err(Error::Arguments(text)) if text == "x"));
        assert!(matches!(fail(list!["KeyError", "x"]).await, Err(Error::Other(text)) if text == "KeyError: 'x'"));
        assert_eq!(fail(list!["print"]).await.unwrap(), false.into());
        assert!(
            matches!(call("test.exception", list![], map! {}).await, Err(Error::Other(text)) if text == "Test Exception")
        );
        assert!(call("test.assertion", list![false], map! {}).await.is_err());
        let tried = call("test.try", list!["foo.bar"], map! { "return_try_exception" => true }).await.unwrap();
        assert_eq!(tried, "KeyError('foo.bar')".into());
        assert_eq!(call("test.try", list!["foo.bar"], map! {}).await.unwrap(), Value::Null);
        assert_eq!(call("test.try", list!["test.echo"], map! { "text" => 1 }).await.unwrap(), 1.into());
    }

    #[tokio::test]
    async fn sleeping_ends_when_killed() {
        assert_eq!(call("test.sleep", list!["0"], map! {}).await.unwrap(), true.into());
        let ctx = ctx();
        ctx.job.cancel.cancel();
        assert!(matches!(sleep(&ctx, 1000.into()).await, Err(Error::Terminated)));
        assert!(call("test.sleep", list!["soon"], map! {}).await.is_err());
    }

    #[tokio::test]
    async fn hashes_follow_the_option() {
        let length = async |kwargs| call("test.random_hash", list![], kwargs).await.map(|hash| hash.to_string().len());
        assert_eq!(length(map! {}).await.unwrap(), 32);
        assert_eq!(length(map! { "hash_type" => "sha512" }).await.unwrap(), 128);
        assert!(length(map! { "hash_type" => "nope" }).await.is_err());
    }

    #[tokio::test]
    async fn versions_can_be_read_by_tools_and_people() {
        let version = call("test.version", list![], map! {}).await.unwrap().to_string();
        assert!(version.starts_with("3008.5+saltern."), "{version}");
        let report = call("test.versions_report", list![], map! {}).await.unwrap().to_string();
        let lines: Vec<&str> = report.lines().collect();
        assert_eq!(lines[0], "Salt Version:");
        assert_eq!(lines[1], format!("          Salt: {version}"));
        assert!(lines.contains(&"        Python: Not Installed"));
        assert!(lines.contains(&"        system: Linux"));
    }

    #[tokio::test]
    async fn the_return_code_is_set() {
        let ctx = ctx();
        retcode(&ctx, 3).unwrap();
        assert_eq!(ctx.job.retcode(), 3);
    }
}
