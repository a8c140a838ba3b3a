//! `salt.function`.

use exec::{Call, Context, Error, KwArgs, Result, function};
use value::{Map, Value, list, map};

use super::{fails_hard, minions, note_jid};
use crate::Ret;

/// Has minions run an execution function, the name of the state. It fails if the function sets a return code or returns
/// False; ``fail_function`` names a function that checks the return. Minions in ``fail_minions`` do not count.
#[function]
fn function(
    ctx: &Context,
    name: Value,
    tgt: Value,
    #[default(false)] ssh: Value,
    #[default("glob")] tgt_type: Value,
    #[default("")] ret: Value,
    ret_config: Option<Value>,
    ret_kwargs: Option<Value>,
    #[default(false)] expect_minions: Value,
    fail_minions: Option<Value>,
    fail_function: Option<String>,
    arg: Option<Value>,
    kwarg: Option<Value>,
    timeout: Option<Value>,
    batch: Option<Value>,
    subset: Option<Value>,
    failhard: Option<Value>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let mut state = Ret::new(name.clone()).ok("");
    let arg = match arg.filter(Value::truthy) {
        None => list![],
        // Salt splits the text at blanks, so a quoted argument falls apart. Hence the warning.
        Some(Value::Str(text)) => {
            state.more.insert("warnings", list!["Please specify 'arg' as a list of arguments."]);
            text.split_whitespace().collect()
        }
        Some(other) => other,
    };
    if ctx.is_test() {
        let text = format!("Function {name} would be executed on target {tgt}");
        return Ok(state.would(text));
    }
    let mut command = map! {
        "arg" => arg, "kwarg" => kwarg.unwrap_or_else(|| Map::new().into()), "ret" => ret, "timeout" => timeout,
        // `_cmd_meta` makes the answer carry each minion's return code.
        "tgt_type" => tgt_type, "ssh" => ssh, "expect_minions" => expect_minions, "_cmd_meta" => true,
    };
    // A number is accepted as text, because the client parses `10%` and `10` alike.
    let batch = batch.map(|batch| Value::from(batch.to_string()));
    let hard = fails_hard(ctx, failhard.as_ref()).then(|| Value::from(true));
    for (key, value) in [
        ("batch", batch),
        ("subset", subset),
        ("roster", kwargs.0.get("roster").cloned()),
        ("failhard", hard),
        ("ret_config", ret_config.filter(Value::truthy)),
        ("ret_kwargs", ret_kwargs.filter(Value::truthy)),
    ] {
        if let Some(value) = value {
            command.insert(key, value);
        }
    }
    let call = Call { args: vec![tgt, name.clone()], kwargs: command };
    let returns = match ctx.call_with("saltutil.cmd", call) {
        Ok(returns) => returns.into_map().unwrap_or_default(),
        Err(error) => return Ok(state.fail(error.to_string())),
    };
    note_jid(&mut state, &returns);
    let forgiven = minions(fail_minions, &mut state);
    if returns.is_empty() {
        return Ok(state.fail("No minions responded"));
    }
    let (mut changes, mut failed) = (Map::new(), Vec::new());
    for (minion, data) in returns.iter() {
        let minion = minion.to_string();
        let (ret, good) = judged(ctx, data, fail_function.as_deref())?;
        // A return code other than 0 counts as a failure even for minions in `fail_minions`.
        let by_code = data.get("retcode").is_some_and(Value::truthy);
        if by_code || (!good && !forgiven.contains(&minion)) {
            failed.push(minion.clone());
        }
        changes.insert(minion, ret);
    }
    let ran = changes.keys().map(Value::to_string).collect::<Vec<_>>().join(", ");
    let text = match failed.is_empty() {
        true => "Function ran successfully.".to_owned(),
        false => format!("Running function {name} failed on minions: {}", failed.join(", ")),
    };
    state.result = Some(failed.is_empty());
    state.comment = format!("{text} Function {name} ran on {ran}.").into();
    state.changes = map! { "ret" => changes };
    Ok(state)
}

/// Returns the return of a minion, and whether it counts as a success.
fn judged(ctx: &Context, data: &Value, judge: Option<&str>) -> Result<(Value, bool)> {
    if data.get("failed").is_some_and(Value::truthy) {
        return Ok((false.into(), false));
    }
    let ret = data.get("ret").or_else(|| data.get("return")).cloned();
    let ret = ret.ok_or_else(|| Error::Other("a minion's return has no 'ret'".into()))?;
    let good = match judge.filter(|fun| !fun.is_empty()) {
        Some(fun) => ctx.call(fun, vec![ret.clone()])?.truthy(),
        None => true,
    };
    // Judged in this order, so that the function of the user runs even if the return is False.
    let good = good && ret != Value::Bool(false);
    Ok((ret, good))
}
