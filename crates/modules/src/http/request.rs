//! The request, and the options of curl for it.

use std::path::PathBuf;

use exec::{Context, Error, Result};
use value::{Map, Value};

use super::answer::Answer;
use crate::subprocess;

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    url: String,
    pub(super) method: String,
    data: Option<String>,
    headers: Vec<(String, String)>,
    login: Option<(String, String)>,
    verify: bool,
    ca_bundle: Option<String>,
    cert: Option<(String, Option<String>)>,
    proxy: Option<String>,
    connect_timeout: f64,
    timeout: f64,
    /// The wanted parts of the answer.
    pub wants: Wants,
}

/// The wanted parts of the answer.
#[derive(Debug, Default)]
pub(super) struct Wants {
    pub status: bool,
    pub headers: bool,
    pub text: bool,
    pub decode: bool,
    pub decode_type: String,
    pub raise_error: bool,
    pub text_out: Option<PathBuf>,
    pub decode_out: Option<PathBuf>,
}

/// Arguments of Salt that are not supported, and are refused when set.
const REFUSED: [&str; 12] = [
    "header_file",
    "cookies",
    "cookie_jar",
    "persist_session",
    "session_cookie_jar",
    "data_render",
    "header_render",
    "stream",
    "streaming_callback",
    "formdata",
    "headers_out",
    "template_dict",
];

/// Arguments that have no effect here.
const IGNORED: [&str; 15] = [
    "node",
    "port",
    "opts",
    "backend",
    "handle",
    "hide_fields",
    "cookie_format",
    "data_renderer",
    "header_renderer",
    "header_callback",
    "formdata_fieldname",
    "formdata_filename",
    "decode_body",
    "request_interval",
    "wait_for",
];

impl Request {
    /// Reads the arguments. Options of the minion are the defaults.
    pub fn read(ctx: &Context, url: String, mut arguments: Map) -> Result<Self> {
        if let Some(name) = REFUSED.iter().find(|name| arguments.get(name).is_some_and(Value::truthy)) {
            return Err(Error::execution(format!("not supported: http.query {name}")));
        }
        // An argument that is refused may be present when it is false: states pass all of them.
        for name in REFUSED.iter().chain(&IGNORED) {
            arguments.remove(name);
        }
        let mut take = |name: &str| arguments.remove(name).filter(|value| !value.is_null());
        let headers = headers(take("header_dict"), take("header_list"), take("agent"));
        let params = take("params");
        let data = match take("data_file") {
            Some(path) => {
                let path = path.to_string();
                Some(std::fs::read_to_string(&path).map_err(|error| Error::io("read", &path, &error))?)
            }
            None => take("data").map(|data| match data {
                // A map is sent as a form, as the Python libraries behind Salt do.
                Value::Map(fields) => encoded(&fields),
                other => other.to_string(),
            }),
        };
        let login = match (take("auth"), take("username"), take("password")) {
            (Some(Value::List(pair)), ..) if pair.len() == 2 => Some((pair[0].to_string(), pair[1].to_string())),
            // One without the other is not a login; Salt leaves it out.
            (_, Some(user), Some(password)) => Some((user.to_string(), password.to_string())),
            _ => None,
        };
        let option = |name: &str| ctx.opt(name).cloned();
        let cert = take("cert").or_else(|| option("cert")).map(|cert| match cert {
            Value::List(pair) => {
                (pair.first().map(Value::to_string).unwrap_or_default(), pair.get(1).map(Value::to_string))
            }
            single => (single.to_string(), None),
        });
        let mut flag = |name: &str, default: bool| take(name).map_or(default, |value| value.truthy());
        let wants = Wants {
            status: flag("status", false),
            headers: flag("headers", false),
            text: flag("text", false),
            decode: flag("decode", false),
            raise_error: flag("raise_error", true),
            decode_type: take("decode_type").map_or_else(|| "auto".into(), |kind| kind.to_string()),
            text_out: take("text_out").map(|path| path.to_string().into()),
            decode_out: take("decode_out").map(|path| path.to_string().into()),
        };
        let number = |name: &str, default: f64| option(name).and_then(|value| value.as_f64()).unwrap_or(default);
        let request = Request {
            url: with_params(url, params),
            method: take("method").map_or_else(|| "GET".into(), |method| method.to_string()),
            data,
            headers,
            login,
            verify: take("verify_ssl").or_else(|| option("verify_ssl")).is_none_or(|verify| verify.truthy()),
            ca_bundle: take("ca_bundle").or_else(|| option("ca_bundle")).map(|path| path.to_string()),
            cert,
            proxy: proxy(ctx),
            connect_timeout: number("http_connect_timeout", 20.0),
            timeout: number("http_request_timeout", 3600.0),
            wants,
        };
        // As in Salt, unknown arguments do no harm.
        Ok(request)
    }

    /// Sends it. Secrets go to curl's standard input.
    pub fn send(&self, ctx: &Context) -> Result<Answer> {
        if crate::util::which("curl").is_none() {
            return Err(Error::CommandNotFound("curl".into()));
        }
        // The directory is readable for its owner alone: the body may be secret.
        let folder = tempfile::tempdir().map_err(|error| Error::io("make a directory in", "/tmp", &error))?;
        let (head, body) = (folder.path().join("head"), folder.path().join("body"));
        let words = [
            "curl",
            "--silent",
            "--show-error",
            "--location",
            "--max-redirs",
            "5",
            "--dump-header",
            &head.to_string_lossy(),
            "--output",
            &body.to_string_lossy(),
            "--config",
            "-",
        ];
        let outcome = subprocess::fed(ctx, &words, self.configuration().into_bytes())?;
        Ok(Answer {
            code: outcome.retcode.unwrap_or(1),
            error: outcome.stderr.trim().to_owned(),
            head: std::fs::read_to_string(&head).unwrap_or_default(),
            body: std::fs::read(&body).unwrap_or_default(),
        })
    }

    fn configuration(&self) -> String {
        let mut lines = vec![line("url", &self.url), line("request", &self.method)];
        // With a request of this name alone curl would wait for a body that never arrives.
        if self.method == "HEAD" {
            lines.push("head".into());
        }
        if let Some(data) = &self.data {
            // `data` would take a leading `@` for the name of a file.
            lines.push(line("data-raw", data));
        }
        lines.extend(self.headers.iter().map(|(name, value)| line("header", &format!("{name}: {value}"))));
        // The headers that curl would add by itself.
        let form = self.data.is_some() && self.method == "POST";
        for (name, stays) in [("Accept", false), ("Content-Type", form)] {
            if !stays && !self.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
                lines.push(line("header", &format!("{name}:")));
            }
        }
        if let Some((user, password)) = &self.login {
            lines.push(line("user", &format!("{user}:{password}")));
        }
        if !self.verify {
            lines.push("insecure".into());
        }
        if let Some(path) = &self.ca_bundle {
            lines.push(line("cacert", path));
        }
        if let Some((cert, key)) = &self.cert {
            lines.push(line("cert", cert));
            lines.extend(key.as_ref().map(|key| line("key", key)));
        }
        lines.extend(self.proxy.as_ref().map(|proxy| line("proxy", proxy)));
        lines.push(format!("connect-timeout = {}", self.connect_timeout));
        lines.push(format!("max-time = {}", self.timeout));
        lines.join("\n") + "\n"
    }
}

/// A line of curl's configuration.
fn line(name: &str, value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    for letter in value.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    format!("{name} = \"{quoted}\"")
}

fn headers(dict: Option<Value>, list: Option<Value>, agent: Option<Value>) -> Vec<(String, String)> {
    let mut found = Map::new();
    if let Some(Value::Map(dict)) = dict {
        found.update(dict);
    }
    for header in list.and_then(Value::into_list).unwrap_or_default() {
        if let Some((name, value)) = header.to_string().split_once(':') {
            // Salt splits at every colon and keeps the second part: a header with an address in it loses the rest.
            found.insert(name.trim(), value.split(':').next().unwrap_or_default().trim());
        }
    }
    let own = || format!("Salt/{} http.query()", exec::SALT_LINE).into();
    // After the others, so that a header of this name in the arguments does not win, as in Salt.
    found.insert("User-agent", agent.unwrap_or_else(own));
    found.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn encoded(fields: &Map) -> String {
    let pair =
        |(name, value): (&Value, &Value)| format!("{}={}", quoted(&name.to_string()), quoted(&value.to_string()));
    fields.iter().map(pair).collect::<Vec<_>>().join("&")
}

fn quoted(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b' ' => "+".to_owned(),
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

fn with_params(url: String, params: Option<Value>) -> String {
    let fields = match params {
        Some(Value::Map(fields)) if !fields.is_empty() => encoded(&fields),
        _ => return url,
    };
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}{fields}")
}

fn proxy(ctx: &Context) -> Option<String> {
    let host = ctx.opt_str("proxy_host").filter(|host| !host.is_empty())?;
    // Salt uses a proxy only when both options are set.
    let port = ctx.opt("proxy_port").filter(|port| port.truthy())?;
    let login = match (ctx.opt_str("proxy_username"), ctx.opt_str("proxy_password")) {
        (Some(user), Some(password)) if !user.is_empty() => format!("{}:{}@", quoted(user), quoted(password)),
        _ => String::new(),
    };
    Some(format!("http://{login}{host}:{port}"))
}
