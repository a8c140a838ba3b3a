//! `http`: what web servers answer, watched over.

use std::time::{Duration, Instant};

use exec::{Call, Context, Error, KwArgs, Module, Result, function};
use regex::Regex;
use value::{Map, Value, map};

use crate::Ret;

/// The module.
pub static MODULE: Module =
    Module::new("http", "What web servers answer, watched over.", &[&QUERY, &WAIT_FOR_SUCCESSFUL_QUERY]);

/// The conditions for an answer.
struct Expected {
    matching: Option<Value>,
    match_type: String,
    status: Option<Value>,
    status_type: String,
    wait_for: Option<Value>,
}

/// Sends a request to a web server and checks its answer: a text or pattern in it (``match``, ``match_type`` string or
/// pcre), its status (``status``, ``status_type`` string, pcre or list), or both.
#[function]
fn query(
    ctx: &Context,
    name: Value,
    r#match: Option<Value>,
    #[default("string")] match_type: String,
    status: Option<Value>,
    #[default("string")] status_type: String,
    wait_for: Option<Value>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let expected = Expected { matching: r#match, match_type, status, status_type, wait_for };
    expected.check(ctx, name, kwargs.0)
}

fn found(pattern: &Value, text: &str) -> Result<bool> {
    let pattern = Regex::new(&pattern.to_string())
        .map_err(|error| Error::Other(format!("'{pattern}' is not a pattern: {error}")))?;
    Ok(pattern.is_match(text))
}

impl Expected {
    fn check(&self, ctx: &Context, name: Value, kwargs: Map) -> Result<Ret> {
        let mut ret = Ret::new(name.clone());
        ret.result = None;
        ret.more.insert("data", Map::new());
        if self.matching.is_none() && self.status.is_none() {
            return Ok(ret.fail(" Either match text (match) or a status code (status) is required."));
        }
        let test_url = kwargs.get("test_url").cloned();
        let data = self.ask(ctx, &name, kwargs)?;
        let part = |key: &str| data.get(key).map(Value::to_string).unwrap_or_default();
        let mut text = String::new();
        if let Some(wanted) = &self.matching {
            let (kind, hit) = match self.match_type.as_str() {
                "string" => ("text", Some(part("text").contains(&wanted.to_string()))),
                "pcre" => ("pattern", Some(found(wanted, &part("text"))?)),
                _ => ("", None),
            };
            if let Some(hit) = hit {
                ret.result = Some(hit);
                text.push_str(&format!(" Match {kind} \"{wanted}\" was {}found.", if hit { "" } else { "not " }));
            }
        }
        if let Some(wanted) = &self.status {
            self.check_status(wanted, &part("status"), &mut ret, &mut text)?;
        }
        let mut text = text.trim().to_owned();
        if ctx.is_test() {
            ret.result = None;
            text.push_str(" (TEST MODE");
            if let Some(url) = test_url {
                text.push_str(&format!(", TEST URL WAS: {url}"));
            }
            text.push(')');
        }
        ret.comment = text.into();
        ret.more.insert("data", data);
        Ok(ret)
    }

    fn ask(&self, ctx: &Context, name: &Value, mut kwargs: Map) -> Result<Map> {
        kwargs.entry_or_insert_with("decode", || false.into());
        kwargs.update(map! { "text" => true, "status" => true });
        if ctx.is_test() {
            kwargs.insert("test", true);
        }
        let waits = self.wait_for.as_ref().filter(|time| time.truthy());
        let fun = if waits.is_some() { "http.wait_for_successful_query" } else { "http.query" };
        if let Some(time) = waits {
            kwargs.insert("wait_for", time.clone());
        }
        let answer = ctx.call_with(fun, Call { args: vec![name.clone()], kwargs })?;
        Ok(answer.into_map().unwrap_or_default())
    }

    fn check_status(&self, wanted: &Value, status: &str, ret: &mut Ret, text: &mut String) -> Result<()> {
        let mut judge = |hit: bool, what: String| {
            text.push_str(&format!(" {what} was {}found.", if hit { "" } else { "not " }));
            match (hit, ret.result) {
                (true, None) => ret.result = Some(true),
                (false, _) => ret.result = Some(false),
                _ => {}
            }
        };
        match self.status_type.as_str() {
            "string" => judge(wanted.to_string() == status, format!("Status {wanted}")),
            "pcre" => judge(found(wanted, status)?, format!("Status pattern \"{wanted}\"")),
            "list" => {
                for one in wanted.as_list().unwrap_or_default().iter().filter(|one| one.to_string() == status) {
                    judge(true, format!("Status {one}"));
                }
                if ret.result != Some(true) {
                    text.push_str(&format!(" Statuses {wanted} were not found."));
                    ret.result = Some(false);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Sends a request to a web server repeatedly until its answer is as expected, at most for some seconds.
/// ``request_interval`` is the time between two tries.
#[function]
fn wait_for_successful_query(ctx: &Context, name: Value, #[default(300)] wait_for: f64, kwargs: KwArgs) -> Result<Ret> {
    let begin = Instant::now();
    let interval = kwargs.0.get("request_interval").and_then(Value::as_f64).unwrap_or(0.1);
    let pause = Duration::try_from_secs_f64(interval).unwrap_or(Duration::from_secs(1));
    loop {
        let call = Call { args: vec![name.clone()], kwargs: kwargs.0.clone() };
        match ctx.call_state("http.query", call) {
            Ok(ret) if ret.get("result").is_some_and(Value::truthy) => return Ok(Ret::from_value(ret)),
            tried if begin.elapsed().as_secs_f64() > wait_for => return tried.map(Ret::from_value),
            _ => {}
        }
        ctx.sleep(pause);
    }
}
