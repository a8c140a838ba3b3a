//! The event bus of this machine's minion, or master, on the screen.

use std::io::Write;
use std::path::{Path, PathBuf};

use event::{Endpoints, Filter, Remote};
use exec::{Context, Error, Result, function};
use python::json::{Style, dumps};
use rt::Rt;
use targeting::expr_match;
use value::{Map, Value, escape};

/// Prints the events of the minion's bus as they come, a tag and JSON on each line, on the screen of the program that
/// runs the function. ``tagmatch`` is a shell glob or a regular expression; ``count`` is the number of events to wait
/// for, ``-1`` for no limit; ``quiet`` only waits; ``pretty`` puts the JSON on several lines; ``node=master`` watches
/// the bus of the master on this machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-call --local state.event pretty=True
///     salt-call state.event 'salt/job/*' count=3
#[function]
pub async fn event(
    ctx: &Context,
    #[default("*")] tagmatch: String,
    #[default(-1)] count: i64,
    #[default(false)] quiet: bool,
    sock_dir: Option<String>,
    #[default(false)] pretty: bool,
    #[default("minion")] node: String,
) -> Result<()> {
    let remote = Remote::new(Rt::real(), endpoints(&ctx.opts, sock_dir, &node)?);
    let failed = |error: event::RemoteError| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Error::execution(format!("{error}{cause}"))
    };
    let mut events = remote.listen(Filter::all()).await.map_err(failed)?;
    let mut left = count;
    while left != 0 {
        let event = events.next().await.map_err(failed)?;
        if !expr_match(event.tag(), &tagmatch) {
            tracing::debug!("Skipping event tag: {}", event.tag());
            continue;
        }
        if !quiet {
            // Tags and data come from others. Control characters in them could give commands to the
            // terminal.
            let line = format!("{}\t{}\n", escape::for_terminal(event.tag()), json(event.data(), pretty)?);
            let mut out = std::io::stdout().lock();
            if let Err(error) = out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
                return Err(Error::execution(format!("failed to print an event: {error}")));
            }
        }
        // A negative count never reaches zero, so it waits without end.
        left -= i64::from(left > 0);
    }
    Ok(())
}

/// Returns the addresses of the bus.
fn endpoints(opts: &Map, sock_dir: Option<String>, node: &str) -> Result<Endpoints> {
    let text = |name: &str| opts.get_str(name).map(str::to_owned);
    let default = if node == "master" { "/var/run/salt/master" } else { "/var/run/salt/minion" };
    let directory = PathBuf::from(sock_dir.or_else(|| text("sock_dir")).unwrap_or_else(|| default.to_owned()));
    let port = |name: &str| opts.get(name).and_then(Value::as_i64).and_then(|port| u16::try_from(port).ok());
    match node {
        "master" => Ok(Endpoints::master(&directory)),
        // TCP is for systems without Unix sockets.
        "minion" => match (text("ipc_mode").as_deref(), port("tcp_pub_port"), port("tcp_pull_port")) {
            (Some("tcp"), Some(publish), Some(pull)) => {
                Ok(Endpoints::tcp(publish, pull, opts.get("ipv6").and_then(Value::as_bool) == Some(true)))
            }
            _ => Ok(minion(opts, &directory)),
        },
        other => Err(Error::execution(format!("node must be 'minion' or 'master', not '{other}'"))),
    }
}

fn minion(opts: &Map, directory: &Path) -> Endpoints {
    // Several minions on one machine share the directory; the hash keeps their sockets apart.
    let id = opts.get_str("hash_id").or_else(|| opts.get_str("id")).unwrap_or_default();
    let kind = opts.get_str("hash_type").and_then(|name| name.parse().ok()).unwrap_or_default();
    Endpoints::minion(directory, &crypto::socket_hash(id, kind))
}

/// JSON as Python writes it; bytes that are not text are replaced.
fn json(data: &Map, pretty: bool) -> Result<String> {
    let style = Style { indent: pretty.then(|| "    ".to_owned()), sort_keys: pretty, ..Style::default() };
    let text = dumps(&printable(&Value::Map(data.clone())), &style).map_err(Error::Other)?;
    Ok(escape::in_json(&text).into_owned())
}

fn printable(value: &Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(map.iter().map(|(key, value)| (key.clone(), printable(value))).collect()),
        Value::List(items) => items.iter().map(printable).collect(),
        // JSON has no bytes.
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
        Value::DateTime(_) | Value::Constant(_) => value.to_string().into(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use event::{Bus, ServeOptions};
    use exec::testing;
    use value::{list, map};

    use super::*;

    #[test]
    fn events_are_written_as_python_writes_them() {
        let hostile = json(&map! { "a" => "\u{9b}2J\u{202e}\u{1b}" }, false).unwrap();
        assert!(!hostile.contains(value::escape::is_command), "{hostile:?}");
        let data = map! { "b" => list![1, "é"], "a" => Value::bytes(vec![b'x', 0xff]) };
        assert_eq!(json(&data, false).unwrap(), "{\"b\": [1, \"é\"], \"a\": \"x\u{fffd}\"}");
        assert_eq!(json(&map! { "b" => 1, "a" => 2 }, true).unwrap(), "{\n    \"a\": 2,\n    \"b\": 1\n}");
    }

    #[tokio::test]
    async fn it_ends_after_so_many_events_that_match() {
        let dir = tempfile::tempdir().unwrap();
        let opts = map! { "sock_dir" => dir.path().to_str().unwrap(), "id" => "web1", "hash_type" => "sha256" };
        let bus = Bus::new(Rt::real(), 1 << 20);
        let endpoints = endpoints(&opts, None, "minion").unwrap();
        let server = event::serve(&bus, &endpoints, ServeOptions::default()).await.unwrap();
        let (ctx, _) = testing::context(&[&super::super::MODULE], opts, map! {}, map! {});
        let mut watching = std::pin::pin!(event(&ctx, "a/*".into(), 2, true, None, false, "minion".into()));
        let done = loop {
            tokio::select! {
                biased;
                done = &mut watching => break done,
                () = tokio::task::yield_now() => {
                    bus.fire("b/x", map! {}).unwrap();
                    bus.fire("a/x", map! {}).unwrap();
                }
            }
        };
        done.unwrap();
        server.close().await;
    }

    #[test]
    fn other_buses_are_refused() {
        assert!(endpoints(&map! {}, None, "syndic").is_err());
    }
}
