//! Calls as an operator makes them.

use super::*;
use exec::Call;
use exec::Job;
use exec::testing::context;

fn ctx() -> Context {
    let grains = map! { "kernel" => "Linux", "osfullname" => "Debian" };
    context(&[&MODULE], map! { "id" => "m", "hash_type" => "md5" }, grains, map! {}).0
}

fn call(fun: &str, args: Value, kwargs: Map) -> Result<Value> {
    let ctx = ctx();
    let job = Job::new(map! { "jid" => "1", "fun" => fun });
    let ctx = Context { job: std::sync::Arc::new(job), ..ctx };
    let call = Call { args: args.into_list().unwrap(), kwargs };
    ctx.agent.clone().registry().call(&ctx, fun, call)
}

#[test]
fn arguments_come_back_as_salt_shows_them() {
    let kwargs = || map! { "x" => 1.5 };
    let args = || list![1, "a", list![1]];
    let job = || map! { "__pub_jid" => "1", "__pub_fun" => "test.arg" };
    let mut all = kwargs();
    all.update(job());
    assert_eq!(call("test.arg", args(), kwargs()).unwrap(), map! { "args" => args(), "kwargs" => all }.into());
    let clean = call("test.arg_clean", args(), kwargs()).unwrap();
    assert_eq!(clean, map! { "args" => args(), "kwargs" => kwargs() }.into());
    let shown = call("test.arg_repr", args(), kwargs()).unwrap();
    assert_eq!(shown.get("args"), Some(&"(1, 'a', [1])".into()));
    assert_eq!(call("test.arg_repr", list![1], map! {}).unwrap().get("args"), Some(&"(1,)".into()));
    let types = call("test.arg_type", args(), kwargs()).unwrap();
    assert_eq!(types.get("args"), Some(&list!["<class 'int'>", "<class 'str'>", "<class 'list'>"]));
    assert_eq!(types.get("kwargs").unwrap().get("x"), Some(&"<class 'float'>".into()));
}

#[test]
fn numbers_are_those_of_python() {
    let number = |fun, start: i64| call(fun, list![start], map! {}).unwrap().into_list().unwrap()[0].clone();
    assert_eq!(number("test.collatz", 6), list![6, 3.0, 10.0, 5.0, 16.0, 8.0, 4.0, 2.0]);
    assert_eq!(number("test.collatz", 3), list![3, 10, 5.0, 16.0, 8.0, 4.0, 2.0]);
    assert_eq!((number("test.fib", 0), number("test.fib", 1)), (0.into(), 1.into()));
    assert_eq!(number("test.fib", 3), 2.into());
    assert_eq!(number("test.fib", 100).to_string(), "354224848179261915075");
    assert!(call("test.fib", list![-1], map! {}).is_err());
    assert!(call("test.collatz", list![0], map! {}).is_err());
}

#[test]
fn failures_have_the_kind_that_was_asked_for() {
    let fail = |args| call("test.raise_exception", args, map! {});
    let kind = "salt.exceptions.CommandExecutionError";
    assert!(matches!(fail(list![kind, "x"]), Err(Error::Execution(text)) if text == "x"));
    assert!(matches!(fail(list!["TypeError", "x"]), Err(Error::Arguments(text)) if text == "x"));
    assert!(matches!(fail(list!["KeyError", "x"]), Err(Error::Other(text)) if text == "KeyError: 'x'"));
    assert_eq!(fail(list!["print"]).unwrap(), false.into());
    assert!(matches!(call("test.exception", list![], map! {}), Err(Error::Other(text)) if text == "Test Exception"));
    assert!(call("test.assertion", list![false], map! {}).is_err());
    let tried = call("test.try", list!["foo.bar"], map! { "return_try_exception" => true }).unwrap();
    assert_eq!(tried, "KeyError('foo.bar')".into());
    assert_eq!(call("test.try", list!["foo.bar"], map! {}).unwrap(), Value::Null);
    assert_eq!(call("test.try", list!["test.echo"], map! { "text" => 1 }).unwrap(), 1.into());
}

#[test]
fn sleeping_ends_when_killed() {
    // The cancelled token must win against a sleep that would outlast the test.
    assert_eq!(call("test.sleep", list!["0"], map! {}).unwrap(), true.into());
    let ctx = ctx();
    ctx.job.cancel.cancel();
    assert!(matches!(exec::caught(|| ctx.call("test.sleep", vec![1000.into()])), Err(Error::Terminated)));
    assert!(call("test.sleep", list!["soon"], map! {}).is_err());
}

#[test]
fn hashes_follow_the_option() {
    let length = |kwargs| call("test.random_hash", list![], kwargs).map(|hash| hash.to_string().len());
    assert_eq!(length(map! {}).unwrap(), 32);
    assert_eq!(length(map! { "hash_type" => "sha512" }).unwrap(), 128);
    assert!(length(map! { "hash_type" => "nope" }).is_err());
}

#[test]
fn versions_can_be_read_by_tools_and_people() {
    let version = call("test.version", list![], map! {}).unwrap().to_string();
    assert!(version.starts_with("3008.5+saltern."), "{version}");
    let report = call("test.versions_report", list![], map! {}).unwrap().to_string();
    // Tools made for Salt cut the version at the plus sign, so the Salt release stands first.
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines[0], "Salt Version:");
    assert_eq!(lines[1], format!("          Salt: {version}"));
    assert!(lines.contains(&"        Python: Not Installed"));
    assert!(lines.contains(&"        system: Linux"));
}

#[test]
fn the_return_code_is_set() {
    let ctx = ctx();
    retcode(&ctx, 3).unwrap();
    assert_eq!(ctx.job.retcode(), 3);
}
