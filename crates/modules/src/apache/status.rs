//! The status page of the server: `apache.server_status`.

use exec::{Call, Context, Error, Result, function};
use value::{Map, Value, map};

/// States a worker can be in.
const WORKERS: &str = "_SRWKDCLGI.";

/// Returns the page of the handler ``server-status``: numbers, and on the ``Scoreboard`` how many workers are in which
/// state; ``error`` if the server does not answer. Pillar, grains or options give the address and the credentials:
///
/// .. code-block:: yaml
///
///     apache.server-status:
///       default:
///         url: http://localhost/server-status
///         user: someuser
///         pass: password
///         timeout: 5
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.server_status
///     salt '*' apache.server_status other-profile
#[function]
fn server_status(ctx: &Context, #[default("default")] profile: String) -> Result<Value> {
    let settings = Settings::of(ctx, &profile)?;
    let Some(answer) = settings.ask(ctx)? else { return Ok("error".into()) };
    Ok(read(&answer)?.into())
}

struct Settings {
    url: String,
    user: String,
    password: String,
    timeout: Value,
}

impl Settings {
    fn of(ctx: &Context, profile: &str) -> Result<Self> {
        let setting = |name: &str, default: Value| {
            let key = format!("apache.server-status:{profile}:{name}");
            ctx.call("config.get", vec![key.into(), default])
        };
        Ok(Settings {
            url: setting("url", "http://localhost/server-status".into())?.to_string(),
            user: setting("user", "".into())?.to_string(),
            password: setting("pass", "".into())?.to_string(),
            timeout: setting("timeout", 5.into())?,
        })
    }

    /// Fetches the status page; `None` when the server does not answer.
    fn ask(&self, ctx: &Context) -> Result<Option<String>> {
        let mut kwargs = map! { "decode" => false };
        if !self.user.is_empty() && !self.password.is_empty() {
            kwargs.update(map! { "username" => self.user.as_str(), "password" => self.password.as_str() });
        }
        // `?auto` is the plain form of the page, meant for programs.
        let url = Value::from(format!("{}?auto", self.url));
        let seconds = self.timeout.as_f64().or_else(|| self.timeout.to_string().parse().ok());
        let wait = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
        let wait =
            wait.ok_or_else(|| Error::invocation(format!("timeout {} is not a number of seconds", self.timeout)))?;
        // A socket of Python with a timeout of 0 does not wait at all, so Salt never gets an answer either.
        if wait.is_zero() {
            return Ok(None);
        }
        let mut opts = (*ctx.opts).clone();
        // `http.query` has no argument for it and reads the option.
        opts.insert("http_request_timeout", wait.as_secs_f64());
        let within = Context { opts: std::sync::Arc::new(opts), ..ctx.clone() };
        let answer = within.call_with("http.query", Call { args: vec![url], kwargs })?;
        let failed = answer.get("error").is_some_and(Value::truthy);
        Ok(answer.get("body").filter(|_| !failed).map(Value::to_string))
    }
}

/// Reads an integer, a float, or else a text.
fn number(text: &str) -> Value {
    // Python's `isdigit` takes no sign, so Salt makes a float of a negative number.
    let whole = text.parse::<i64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let any = || text.parse::<f64>().ok().map(Value::from);
    whole.map(Value::from).or_else(any).unwrap_or_else(|| text.into())
}

fn read(answer: &str) -> Result<Map> {
    let mut counts = WORKERS.chars().map(|state| (state.to_string(), 0_i64)).collect::<Vec<_>>();
    // First in the map, as in Salt, and filled in at the end.
    let mut found = map! { "Scoreboard" => () };
    for line in answer.lines() {
        // The first line may be the name of the server alone.
        let Some((name, value)) = line.split_once(':') else { continue };
        let (name, value) = (name.trim(), value.trim());
        if name != "Scoreboard" {
            found.insert(name, number(value));
            continue;
        }
        for state in value.chars() {
            let known = counts.iter_mut().find(|(known, _)| known.starts_with(state));
            let unknown = || Error::execution(format!("apache tells of a worker in a state nobody knows: {state:?}"));
            known.ok_or_else(unknown)?.1 += 1;
        }
    }
    let counts: Map = counts.into_iter().map(|(state, count)| (Value::from(state), Value::from(count))).collect();
    found.insert("Scoreboard", counts);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_counted() {
        let text = "localhost\nServerVersion: Apache/2.4.6\nTotal Accesses: 12\nCPULoad: .25\nScoreboard: __W_K..\nUptime: 7\n";
        let found = read(text).unwrap();
        assert_eq!(found.get_str("ServerVersion"), Some("Apache/2.4.6"));
        assert_eq!((found.get("Total Accesses"), found.get("CPULoad")), (Some(&12.into()), Some(&0.25.into())));
        let board = found.get("Scoreboard").unwrap();
        let counts = ["_", "W", "K", ".", "S"].map(|state| board.get(state).and_then(Value::as_i64));
        assert_eq!(counts, [Some(3), Some(1), Some(1), Some(2), Some(0)]);
        assert!(read("Scoreboard: _?").unwrap_err().to_string().contains("'?'"));
    }
}
