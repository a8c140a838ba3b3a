//! Calls as an operator makes them.

use super::*;
use exec::Call;
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
    assert_eq!(call("test.arg", args(), kwargs()).await.unwrap(), map! { "args" => args(), "kwargs" => all }.into());
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
