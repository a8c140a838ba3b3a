//! `http` — requests to web servers, through curl.
//!
//! [`request`] reads the arguments and makes curl's configuration of them, [`answer`] reads what came back.

mod answer;
mod request;

use std::time::{Duration, Instant};

use exec::{Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value};

use request::Request;

/// Registers the functions of `http`.
pub static MODULE: Module =
    Module::new("http", "Functions that ask web servers.", &[&QUERY, &UPDATE_CA_BUNDLE, &WAIT_FOR_SUCCESSFUL_QUERY]);

/// Sends a request to a web server and returns its answer: the ``body``, and if wanted ``status``, ``headers``,
/// ``text`` and, with ``decode=True``, the data (``dict``).
///
/// Additional arguments: ``method``, ``params``, ``data``, ``data_file``, ``header_dict``, ``header_list``,
/// ``username``, ``password``, ``decode_type`` (json, yaml, plain), ``verify_ssl``, ``ca_bundle``, ``cert``, ``agent``,
/// ``text_out``, ``decode_out``, ``raise_error``, ``test``, ``test_url``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' http.query http://somelink.com/
///     salt '*' http.query http://somelink.com/ method=POST params='{"key1": "val1"}'
///     salt '*' http.query http://somelink.com/ method=POST data='<xml>somecontent</xml>'
#[function]
fn query(ctx: &Context, url: String, kwargs: KwArgs) -> Result<Map> {
    ask(ctx, url, kwargs.given())
}

fn ask(ctx: &Context, url: String, mut arguments: Map) -> Result<Map> {
    let mut url = url;
    let mut result = Map::new();
    let test_url = arguments.remove("test_url");
    // In test mode nothing is sent, unless the caller names an address that is safe to ask.
    if arguments.remove("test") == Some(Value::Bool(true)) {
        match test_url.filter(|url| !url.is_null()) {
            None => return Ok(Map::new()),
            Some(other) => url = other.to_string(),
        }
        result.insert("test", true);
    }
    let request = Request::read(ctx, url, arguments)?;
    let answer = request.send(ctx)?;
    answer.into_map(&request, result)
}

/// Sends a request to a web server repeatedly until it answers without an error, at most for some seconds.
/// ``request_interval`` is the time between two tries.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' http.wait_for_successful_query http://somelink.com/ wait_for=160 request_interval=1
#[function]
fn wait_for_successful_query(ctx: &Context, url: String, #[default(300)] wait_for: f64, kwargs: KwArgs) -> Result<Map> {
    let begin = Instant::now();
    let arguments = kwargs.given();
    let interval = arguments.get("request_interval").and_then(Value::as_f64).unwrap_or(0.1);
    // A negative or endless pause would panic.
    let pause = Duration::try_from_secs_f64(interval).unwrap_or(Duration::from_secs(1));
    loop {
        let tried = ask(ctx, url.clone(), arguments.clone());
        let failed = |answer: &Map| ["Error", "error"].iter().any(|key| answer.get(key).is_some_and(Value::truthy));
        match tried {
            Ok(answer) if !failed(&answer) => return Ok(answer),
            // The last attempt is returned with its error, so the caller sees why the time ran out.
            tried if begin.elapsed().as_secs_f64() > wait_for => return tried,
            _ => {}
        }
        ctx.sleep(pause);
    }
}

/// Refused: the certificates are those of the system.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' http.update_ca_bundle
#[function]
fn update_ca_bundle(target: Option<Value>, source: Option<Value>, merge_files: Option<Value>) -> Result<Value> {
    let _ = (target, source, merge_files);
    Err(Error::execution("not supported: http.update_ca_bundle; the system keeps its own certificates"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;
    use std::io::{Read, Write};
    use value::{list, map};

    /// Answers one request after the other and returns the requests.
    fn server(answers: Vec<Vec<u8>>) -> (u16, std::thread::JoinHandle<Vec<String>>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let serve = |answer: Vec<u8>| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap();
                stream.write_all(&answer).unwrap();
                String::from_utf8_lossy(&request[..length]).into_owned()
            };
            answers.into_iter().map(serve).collect()
        });
        (port, thread)
    }

    #[test]
    fn answers_are_read_as_wanted() {
        if crate::util::which("curl").is_none() {
            // Nothing to ask with on this machine.
            return;
        }
        let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\nConnection: close\r\n\r\n{\"a\": 1}";
        let gone = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope";
        let (port, asked) = server(vec![json.into(), gone.into()]);
        let (ctx, _) = context(&[&MODULE, &crate::cmd::MODULE], map! { "id" => "m" }, map! {}, map! {});
        let url = format!("http://127.0.0.1:{port}/x");
        let kwargs = map! {
            "decode" => true, "status" => true, "text" => true, "headers" => true, "params" => map! { "k" => "v w" },
            "header_dict" => map! { "X-Mine" => "yes" },
        };
        let call = exec::Call { args: vec![url.as_str().into()], kwargs };
        let answer = ctx.call_with("http.query", call).unwrap();
        assert_eq!(answer.get("dict"), Some(&map! { "a" => 1 }.into()));
        assert_eq!((answer.get("status"), answer.get("body")), (Some(&200.into()), Some(&"{\"a\": 1}".into())));
        assert_eq!(answer.traverse("headers:Content-Length", ":"), Some(&"8".into()));
        let answer = ctx.call("http.query", vec![url.into()]).unwrap();
        let expected = map! { "status" => 404, "error" => "HTTP 404: Not Found", "body" => "nope" };
        assert_eq!(answer, expected.into());
        let asked = asked.join().unwrap();
        assert!(asked[0].starts_with("GET /x?k=v+w HTTP/1.1\r\n") && asked[0].contains("X-Mine: yes\r\n"), "{asked:?}");
        // curl would send this header on its own.
        assert!(!asked[0].contains("Accept:"), "{asked:?}");
    }

    #[test]
    fn texts_have_their_encoding_and_heads_no_body() {
        if crate::util::which("curl").is_none() {
            // Nothing to ask with on this machine.
            return;
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=latin-1\r\nContent-Length: 4\r\nConnection: close\r\n\r\n";
        let (port, asked) = server(vec![[head.as_bytes(), b"h\xfc!\n"].concat(), head.into(), head.into()]);
        let (ctx, _) = context(&[&MODULE, &crate::cmd::MODULE], map! { "id" => "m" }, map! {}, map! {});
        let url = || Value::from(format!("http://127.0.0.1:{port}/"));
        assert_eq!(ctx.call("http.query", vec![url()]).unwrap(), map! { "body" => "hü!\n" }.into());
        let with = |kwargs: Map| ctx.call_with("http.query", exec::Call { args: vec![url()], kwargs });
        assert_eq!(with(map! { "method" => "HEAD" }).unwrap(), map! { "body" => "" }.into());
        // The prepared answer has no body, so curl reports that it was cut short; the request is what counts.
        let _cut_short = with(map! { "method" => "PUT", "data" => "x" }).unwrap();
        let asked = asked.join().unwrap();
        assert!(asked[2].starts_with("PUT / ") && !asked[2].contains("Content-Type:"), "{asked:?}");
    }

    #[test]
    fn a_test_asks_nobody() {
        let (ctx, _) = context(&[&MODULE], map! {}, map! {}, map! {});
        let call = exec::Call { args: list!["http://h/"].into_list().unwrap(), kwargs: map! { "test" => true } };
        assert_eq!(ctx.call_with("http.query", call).unwrap(), map! {}.into());
    }
}
