//! `loop`: execution functions are called until they return the wanted result.

use std::time::{Duration, Instant};

use exec::{Call, Context, Module, Result, function};
use targeting::{Compare, subdict_match};
use value::{Map, Value, map};

use crate::support::{has, items};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("loop", "Execution functions are called until they answer what is wanted.", &[&UNTIL, &UNTIL_NO_EVAL]);

/// The longest a pause may last, in seconds: a day.
const LONGEST: f64 = 86_400.0;

/// Seconds as a number; texts are none.
fn seconds(value: &Value) -> Option<Duration> {
    let number = match value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        // In Python a boolean is an integer.
        Value::Bool(yes) => f64::from(u8::from(*yes)),
        _ => return None,
    };
    Some(Duration::from_secs_f64(if number.is_nan() { 0.0 } else { number.clamp(0.0, LONGEST) }))
}

/// The timeout and the pause between two calls.
struct Pace {
    until: Instant,
    period: Duration,
}

impl Pace {
    fn new(timeout: Duration, period: Duration) -> Self {
        Self { until: Instant::now() + timeout, period }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    fn rest(&self, ctx: &Context) {
        ctx.sleep(self.period);
    }
}

/// Evaluates a condition on `m_ret`, and on `expected` if there is one.
fn holds(ctx: &Context, condition: &str, answer: Value, expected: Value) -> Result<bool> {
    // Salt evaluates the condition as Python, and with `eval`. A template expression covers the
    // usual conditions and cannot run code.
    let condition = as_template(condition);
    let kwargs = map! {
        "string" => format!("{{% if {condition} %}}yes{{% endif %}}"), "default_renderer" => "jinja",
        "m_ret" => answer, "expected" => expected,
    };
    let said = ctx.call_with("slsutil.renderer", Call { args: Vec::new(), kwargs })?;
    Ok(said.as_str().is_some_and(|said| said.trim() == "yes"))
}

/// Writes what Python calls `is True`, `is False` and `is None` as templates do; texts in quotes stay.
fn as_template(condition: &str) -> String {
    let mut written = String::with_capacity(condition.len());
    let (mut rest, mut quote, mut before) = (condition, None, "");
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let (part, after) = rest.split_at(word.max(first.len_utf8()));
        match (part, quote) {
            ("'" | "\"", None) => quote = Some(part),
            (_, Some(open)) if part == open => quote = None,
            _ => {}
        }
        match (part, before) {
            // Jinja has `true` as a test and `True` only as a value.
            ("True" | "False" | "None", "is" | "not") if quote.is_none() => written.push_str(&part.to_lowercase()),
            _ => written.push_str(part),
        }
        if !part.trim().is_empty() {
            before = part;
        }
        rest = after;
    }
    written
}

/// The function to call, with what.
struct FunctionCall<'a> {
    fun: &'a str,
    args: Value,
    kwargs: Value,
}

impl FunctionCall<'_> {
    fn call(&self, ctx: &Context) -> Result<Value> {
        let kwargs = self.kwargs.as_map().cloned().unwrap_or_default();
        // Permitted functions only: a state must not get round `disable_modules`.
        ctx.call_permitted(self.fun, Call { args: items(&self.args), kwargs })
    }
}

const NO_PERIOD: &str = "Period must be specified as a float in seconds";
const NO_TIMEOUT: &str = "Timeout must be specified as a float in seconds";

/// Calls the function until `condition`, an expression as in templates with the answer as `m_ret`, holds; every `period`
/// seconds, `timeout` seconds at most.
#[function]
fn until(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] m_args: Value,
    #[default(Value::Null)] m_kwargs: Value,
    condition: Option<String>,
    #[default(1)] period: Value,
    #[default(60)] timeout: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    if !has(ctx, &name) {
        return Ok(ret.fail(format!("Cannot find module {name}")));
    }
    let Some(condition) = condition else { return Ok(ret.fail("An exit condition must be specified")) };
    let Some(period) = seconds(&period) else { return Ok(ret.fail(NO_PERIOD)) };
    let Some(timeout) = seconds(&timeout) else { return Ok(ret.fail(NO_TIMEOUT)) };
    if ctx.is_test() {
        return Ok(ret.would(format!("The execution module {name} will be run")));
    }
    let (pace, asked) = (Pace::new(timeout, period), FunctionCall { fun: &name, args: m_args, kwargs: m_kwargs });
    // The deadline is checked before each call, so a timeout of 0 never calls the function.
    while !pace.is_over() {
        // Unlike in `until_no_eval` an error is not caught, as in Salt.
        let answer = asked.call(ctx)?;
        if holds(ctx, &condition, answer, Value::Null)? {
            return Ok(ret.ok(format!("Condition {condition} was met")));
        }
        pace.rest(ctx);
    }
    Ok(ret.fail(format!("Timed out while waiting for condition {condition}")))
}

/// The comparison of an answer with the expected one.
enum Comparison<'a> {
    Condition(&'static str),
    Function(&'a str),
    Within,
}

fn comparison<'a>(ctx: &Context, name: &'a str) -> Option<Comparison<'a>> {
    // An execution function wins over an operator of the same name.
    if has(ctx, name) {
        return Some(Comparison::Function(name));
    }
    Some(match name {
        "eq" => Comparison::Condition("m_ret == expected"),
        "ne" => Comparison::Condition("m_ret != expected"),
        "lt" => Comparison::Condition("m_ret < expected"),
        "le" => Comparison::Condition("m_ret <= expected"),
        "gt" => Comparison::Condition("m_ret > expected"),
        "ge" => Comparison::Condition("m_ret >= expected"),
        "contains" => Comparison::Condition("expected in m_ret"),
        "data.subdict_match" => Comparison::Within,
        _ => return None,
    })
}

impl Comparison<'_> {
    fn holds(&self, ctx: &Context, answer: Value, expected: &Value) -> Result<bool> {
        match self {
            Self::Condition(condition) => holds(ctx, condition, answer, expected.clone()),
            Self::Function(fun) => {
                let call = Call { args: args![answer, expected.clone()], kwargs: Map::new() };
                Ok(ctx.call_with(fun, call)?.truthy())
            }
            // The answer may be a list, whose first part is a number then.
            Self::Within => {
                Ok(subdict_match(&map! { "m_ret" => answer }, &format!("m_ret:{expected}"), ":", Compare::Glob))
            }
        }
    }
}

/// Calls the function until its answer compares with `expected` as `compare_operator` says (`eq`, `ne`, `lt`, `le`, `gt`,
/// `ge`, `contains`, `data.subdict_match`, or an execution function); every `period` seconds, `timeout` seconds at most,
/// after a first wait of `init_wait` seconds.
#[function]
fn until_no_eval(
    ctx: &Context,
    name: String,
    expected: Value,
    #[default("eq")] compare_operator: String,
    #[default(60)] timeout: Value,
    #[default(1)] period: Value,
    #[default(0)] init_wait: Value,
    #[default(Value::Null)] args: Value,
    #[default(Value::Null)] kwargs: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    if ctx.is_test() {
        return Ok(ret.would(format!("Would have waited for \"{name}\" to produce \"{expected}\".")));
    }
    if !has(ctx, &name) {
        return Ok(ret.fail(format!("Module.function \"{name}\" is unavailable.")));
    }
    let Some(period) = seconds(&period) else { return Ok(ret.fail(NO_PERIOD)) };
    let Some(timeout) = seconds(&timeout) else { return Ok(ret.fail(NO_TIMEOUT)) };
    let Some(comparison) = comparison(ctx, &compare_operator) else {
        return Ok(ret.fail(format!("Invalid operator \"{compare_operator}\" supplied.")));
    };
    // Not part of the timeout, which starts afterwards.
    ctx.sleep(seconds(&init_wait).unwrap_or_default());
    let (pace, asked, mut attempts) = (Pace::new(timeout, period), FunctionCall { fun: &name, args, kwargs }, 0);
    while !pace.is_over() {
        attempts += 1;
        let answer = match asked.call(ctx) {
            Ok(answer) => answer,
            Err(error) => {
                let text = error.to_string();
                return Ok(ret.fail(format!("Exception occurred while executing {name}: {text}")));
            }
        };
        if comparison.holds(ctx, answer, &expected)? {
            return Ok(ret.ok(format!("Call provided the expected results in {attempts} attempts")));
        }
        pace.rest(ctx);
    }
    Ok(ret.fail(format!("Call did not produce the expected result after {attempts} attempts")))
}

#[cfg(test)]
mod tests {
    use super::as_template;

    #[test]
    fn constants_of_python_are_written_as_tests_of_templates() {
        for (python, template) in [
            ("m_ret is True", "m_ret is true"),
            ("m_ret is not None and m_ret['None'] is False", "m_ret is not none and m_ret['None'] is false"),
            ("m_ret == \"it is True\" or ('is True' in m_ret)", "m_ret == \"it is True\" or ('is True' in m_ret)"),
            ("m_ret == True", "m_ret == True"),
            ("größe is None", "größe is none"),
            ("", ""),
        ] {
            assert_eq!(as_template(python), template);
        }
    }
}
