//! Functions that a minion on a master's host has that master run.
//!
//! Salt loads the master's code into the minion's job for this. Here the programs of this same file are run instead,
//! with the master's configuration in the directory of the minion's.

use std::path::{Path, PathBuf};

use exec::{Context, Error, KwArgs, Result, VarArgs, function};
use value::{Map, Value, map};

use crate::subprocess::{self, Outcome};

/// Salt's text on a machine without a master.
const ELSEWHERE: &str = "This command can only be executed on a minion that is located on the master.";

/// The directory with the master's configuration.
fn config_dir(ctx: &Context) -> Result<PathBuf> {
    let conf = Path::new(ctx.opt_str("conf_file").unwrap_or("/etc/salt/minion"));
    // The option may name the directory itself.
    let folder = if conf.is_dir() { conf } else { conf.parent().unwrap_or(Path::new("/etc/salt")) };
    let here = folder.join("master").exists() || folder.join("master.d").is_dir();
    if here { Ok(folder.to_owned()) } else { Err(Error::execution(ELSEWHERE)) }
}

/// Runs one of our programs.
fn program(ctx: &Context, program: &str, words: Vec<String>) -> Result<Outcome> {
    let folder = config_dir(ctx)?;
    // The same binary holds the master's programs, so nothing has to be found in the PATH.
    let exe =
        std::env::current_exe().map_err(|error| Error::execution(format!("failed to find this program: {error}")))?;
    let (exe, folder) = (exe.to_string_lossy().into_owned(), folder.to_string_lossy().into_owned());
    let mut all = vec![exe.as_str(), program, "--config-dir", &folder, "--out", "json", "--log-level", "quiet"];
    all.extend(words.iter().map(String::as_str));
    subprocess::quiet(ctx, &all)
}

fn failed(program: &str, outcome: Outcome) -> Error {
    let said = if outcome.stderr.trim().is_empty() { outcome.stdout } else { outcome.stderr };
    Error::execution(format!("{program} failed: {}", said.trim()))
}

/// Runs one of our programs and reads what it prints as JSON.
fn ask(ctx: &Context, name: &str, words: Vec<String>) -> Result<Value> {
    let outcome = program(ctx, name, words)?;
    match serde_json::from_str(&outcome.stdout) {
        Ok(answer) => Ok(answer),
        // A runner that returns nothing prints nothing.
        Err(_) if outcome.retcode == Some(0) && outcome.stdout.trim().is_empty() => Ok(Value::Null),
        Err(_) => Err(failed(name, outcome)),
    }
}

/// Writes an argument so that the command line reads the same value.
fn word(value: &Value) -> String {
    match value {
        // The command line is parsed as YAML again. A text that would turn into a number has to be
        // quoted.
        Value::Str(text) if yaml::args::parse_cli_arg(text) == *value => text.clone(),
        other => serde_json::to_string(other).unwrap_or_else(|_| other.to_string()),
    }
}

fn words(args: &[Value], kwargs: &Map) -> Vec<String> {
    let named = kwargs.iter().map(|(name, value)| format!("{name}={}", word(value)));
    args.iter().map(word).chain(named).collect()
}

/// Has the master on this host run a runner, and returns its result.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt 'master' saltutil.runner jobs.list_jobs
///     salt 'master' saltutil.runner manage.up arg='[]' kwarg='{timeout: 10}'
#[function]
pub fn runner(
    ctx: &Context,
    name: String,
    arg: Option<Vec<Value>>,
    kwarg: Option<Map>,
    #[default(false)] full_return: bool,
    #[default("base")] saltenv: String,
    jid: Option<String>,
    kwargs: KwArgs,
) -> Result<Value> {
    let _ = (saltenv, jid);
    let mut named = kwarg.unwrap_or_default();
    named.update(kwargs.given());
    let mut all = vec![name.clone()];
    all.extend(words(&arg.unwrap_or_default(), &named));
    let answer = ask(ctx, "salt-run", all)?;
    if full_return {
        // A failure has become an error before.
        return Ok(map! { "fun" => format!("runner.{name}"), "return" => answer, "success" => true }.into());
    }
    Ok(answer)
}

/// Has the master on this host run a wheel function, and returns the event of its result.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt 'master' saltutil.wheel key.accept jerry
///     salt 'master' saltutil.wheel key.list_all
#[function]
pub fn wheel(ctx: &Context, name: String, args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let mut all = vec![name];
    all.extend(words(&args.0, &kwargs.given()));
    let mut event = ask(ctx, "wheel", all)?.into_map().unwrap_or_default();
    // The user is known here, but not to the program that was run.
    event.insert("user", kwargs.0.get_str("__pub_user").unwrap_or("UNKNOWN"));
    Ok(event)
}

/// A job for other minions.
struct Publication {
    tgt: Value,
    fun: String,
    arg: Vec<Value>,
    timeout: Option<u64>,
    tgt_type: String,
    ret: String,
    kwarg: Option<Map>,
    more: Map,
}

impl Publication {
    fn publish(self, ctx: &Context) -> Result<Map> {
        let mut all = vec!["--static".to_owned()];
        all.extend(target_flag(&self.tgt_type)?);
        all.extend(self.timeout.map(|seconds| format!("--timeout={seconds}")));
        for (name, flag) in [("batch", "--batch-size"), ("subset", "--subset")] {
            all.extend(self.more.get(name).filter(|value| value.truthy()).map(|value| format!("{flag}={value}")));
        }
        if !self.ret.is_empty() {
            all.push(format!("--return={}", self.ret));
        }
        let target = match &self.tgt {
            Value::List(ids) => ids.iter().map(Value::to_string).collect::<Vec<_>>().join(","),
            other => other.to_string(),
        };
        // A target may begin with a dash.
        all.extend(["--".to_owned(), target, self.fun]);
        all.extend(words(&self.arg, &self.kwarg.unwrap_or_default()));
        let answer = ask(ctx, "salt", all)?.into_map().unwrap_or_default();
        Ok(answer.into_iter().map(|(id, result)| (id, map! { "ret" => result })).collect())
    }
}

fn target_flag(kind: &str) -> Result<Option<String>> {
    let flag = match kind {
        "glob" => return Ok(None),
        "list" => "--list",
        "pcre" => "--pcre",
        "grain" => "--grain",
        "grain_pcre" => "--grain-pcre",
        "pillar" => "--pillar",
        "pillar_pcre" => "--pillar-pcre",
        "compound" => "--compound",
        "nodegroup" => "--nodegroup",
        "ipcidr" => "--ipcidr",
        // Unknown kinds are not passed on as a glob, which could match every minion.
        other => return Err(Error::invocation(format!("there is no kind of target '{other}'"))),
    };
    Ok(Some(flag.to_owned()))
}

fn refuse_ssh(ssh: bool) -> Result<()> {
    if ssh { Err(Error::execution("not supported: ssh=True, salt-ssh is not part of this program")) } else { Ok(()) }
}

/// Has the master on this host run a function on minions, and returns their results.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt 'master' saltutil.cmd '*' test.ping
#[function]
pub fn cmd(
    ctx: &Context,
    tgt: Value,
    fun: String,
    #[default(Value::List(Vec::new()))] arg: Vec<Value>,
    timeout: Option<u64>,
    #[default("glob")] tgt_type: String,
    #[default("")] ret: String,
    kwarg: Option<Map>,
    #[default(false)] ssh: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    refuse_ssh(ssh)?;
    Publication { tgt, fun, arg, timeout, tgt_type, ret, kwarg, more: kwargs.given() }.publish(ctx)
}

/// Has the master on this host run a function on minions, and returns their results, one map each.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt 'master' saltutil.cmd_iter '*' test.ping
#[function]
pub fn cmd_iter(
    ctx: &Context,
    tgt: Value,
    fun: String,
    #[default(Value::List(Vec::new()))] arg: Vec<Value>,
    timeout: Option<u64>,
    #[default("glob")] tgt_type: String,
    #[default("")] ret: String,
    kwarg: Option<Map>,
    #[default(false)] ssh: bool,
    kwargs: KwArgs,
) -> Result<Vec<Map>> {
    refuse_ssh(ssh)?;
    let job = Publication { tgt, fun, arg, timeout, tgt_type, ret, kwarg, more: kwargs.given() };
    Ok(job.publish(ctx)?.into_iter().map(|(id, result)| map! { id => result }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;
    use value::list;

    #[test]
    fn arguments_keep_their_types_on_the_way() {
        let args = list!["plain", "12", 12, list![1], "a b", Value::Null];
        assert_eq!(
            words(args.as_list().unwrap(), &map! { "k" => true }),
            ["plain", "\"12\"", "12", "[1]", "a b", "null", "k=true"]
        );
        for value in args.as_list().unwrap() {
            assert_eq!(yaml::args::parse_cli_arg(&word(value)), *value);
        }
    }

    #[test]
    fn without_a_master_here_there_is_nobody_to_ask() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("minion");
        let (ctx, _) = context(&[], map! { "conf_file" => conf.to_str().unwrap() }, map! {}, map! {});
        let refused = wheel(&ctx, "key.list_all".into(), VarArgs::default(), KwArgs::default());
        assert_eq!(refused.unwrap_err().to_string(), ELSEWHERE);
    }
}
