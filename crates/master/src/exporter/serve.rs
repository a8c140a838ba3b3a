//! Serves the page of metrics: `GET /metrics` over HTTP, one request per connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rt::{Listen, Rt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use value::Map;

use crate::metrics::text::Page;
use crate::{Error, Shared};

/// The number of requests answered at a time; others wait in the system's queue.
const AT_ONCE: usize = 4;

/// The largest size of a request with its headers, in bytes.
const LONGEST: usize = 8 << 10;

/// The timeout for a request and its answer.
const TIME: Duration = Duration::from_secs(10);

/// Returns where to serve metrics: as in Salt, `metrics` with `enabled: True` and `exporter: prometheus`, at `host`
/// and `port` of its `prometheus`.
///
/// # Errors
/// If an option has an invalid value.
pub fn place(options: &Map) -> Result<Option<(String, u16)>, Error> {
    let Some(metrics) = options.get("metrics").and_then(|metrics| metrics.as_map()) else { return Ok(None) };
    if !metrics.get("enabled").is_some_and(value::Value::truthy) {
        return Ok(None);
    }
    // Salt's default, which needs a server of its own.
    let exporter = metrics.get_str("exporter").unwrap_or("otlp-http");
    if exporter != "prometheus" {
        warn!(
            "metrics are not exported: the exporter '{exporter}', Salt's default, is not supported. Set 'exporter: prometheus' below \
             'metrics'"
        );
        return Ok(None);
    }
    let prometheus = metrics.get("prometheus").and_then(|prometheus| prometheus.as_map());
    let part = |name: &str| prometheus.and_then(|prometheus| prometheus.get(name));
    // Salt's defaults. The page needs no password, so it is for this host only.
    let host = part("host").map_or_else(|| "127.0.0.1".to_owned(), ToString::to_string);
    let port = part("port").map_or_else(|| "9464".to_owned(), ToString::to_string);
    match port.parse() {
        Ok(port) => Ok(Some((host, port))),
        Err(_) => Err(Error::option("metrics:prometheus:port", &port)),
    }
}

/// Opens the port and serves the page until told to stop.
///
/// # Errors
/// If the port cannot be opened.
pub async fn open(shared: &Arc<Shared>, stop: CancellationToken) -> Result<Option<SocketAddr>, Error> {
    let Some((host, port)) = place(&shared.stores.config.raw)? else { return Ok(None) };
    let rt = shared.stores.rt.clone();
    let wrong = |source| Error::Interface { interface: host.clone(), source };
    let found = rt.net().resolve(&host, port).await.map_err(wrong)?;
    let at = found.into_iter().next().ok_or_else(|| wrong(std::io::ErrorKind::NotFound.into()))?;
    let refused = |source| Error::Listen { address: at, purpose: "metrics", option: "metrics", source };
    let listener = rt.net().listen(&Listen::at(at)).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    info!("Listening for requests for metrics on {address}");
    let (shared, inside) = (shared.clone(), rt.clone());
    rt.spawn(async move {
        let room = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = async {
                    // Before accepting: further connections then cost neither memory nor a file.
                    let place = room.clone().acquire_owned().await;
                    (place, listener.accept().await)
                } => accepted,
            };
            let (place, Ok(connection)) = accepted else {
                // Probably too many open files, which trying again at once would not change.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (shared, rt) = (shared.clone(), inside.clone());
            inside.spawn(async move {
                let _place = place;
                // A peer that sends nothing must not keep its place.
                let answered = tokio::time::timeout(TIME, answer(&shared, &rt, connection.stream)).await;
                if !matches!(answered, Ok(Ok(()))) {
                    debug!(peer = %connection.peer, "a request for metrics was not answered");
                }
            });
        }
    });
    Ok(Some(address))
}

async fn answer(shared: &Arc<Shared>, rt: &Rt, mut stream: rt::BoxStream) -> std::io::Result<()> {
    let Some(head) = read_head(&mut stream).await? else { return Ok(()) };
    let (status, body) = match target(&head) {
        Some(("GET" | "HEAD", "/metrics")) => {
            let shared = shared.clone();
            // In a thread: the page lists the keys, which reads a directory.
            match rt.blocking(move || super::page(&shared)).await {
                Ok(page) => ("200 OK", page),
                Err(failure) => ("500 Internal Server Error", format!("{failure}\n")),
            }
        }
        Some(("GET" | "HEAD", _)) => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        Some(_) => ("405 Method Not Allowed", "GET /metrics\n".to_owned()),
        None => ("400 Bad Request", "this is not a request\n".to_owned()),
    };
    let (kind, length) = (Page::CONTENT_TYPE, body.len());
    let head_only = target(&head).is_some_and(|(method, _)| method == "HEAD");
    let mut text =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    if !head_only {
        text.push_str(&body);
    }
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// Reads a request up to the end of its headers; `None` if it is too long or incomplete.
async fn read_head(stream: &mut rt::BoxStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut head = Vec::with_capacity(1024);
    loop {
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(head));
        }
        if head.len() >= LONGEST || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
}

/// Returns method and path of a request, without its query.
fn target(head: &[u8]) -> Option<(&str, &str)> {
    let line = std::str::from_utf8(head.split(|byte| *byte == b'\r').next()?).ok()?;
    let mut words = line.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    (version.starts_with("HTTP/1.") && words.next().is_none()).then(|| (method, path.split('?').next().unwrap_or(path)))
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn requests_are_read() {
        assert_eq!(target(b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n"), Some(("GET", "/metrics")));
        assert_eq!(target(b"GET /metrics\r\n\r\n"), None);
        assert_eq!(target(b"\xff\xfe\r\n"), None);
        assert_eq!(target(b""), None);
    }

    #[test]
    fn metrics_are_off_unless_asked_for_and_have_salts_place() {
        assert_eq!(place(&Map::new()).unwrap(), None);
        let options = |metrics: Map| map! { "metrics" => metrics };
        assert_eq!(place(&options(map! { "enabled" => true })).unwrap(), None);
        let on = map! { "enabled" => true, "exporter" => "prometheus" };
        assert_eq!(place(&options(on.clone())).unwrap(), Some(("127.0.0.1".to_owned(), 9464)));
        let mut elsewhere = on.clone();
        elsewhere.insert("prometheus", map! { "host" => "::1", "port" => 9175 });
        assert_eq!(place(&options(elsewhere)).unwrap(), Some(("::1".to_owned(), 9175)));
        let mut wrong = on;
        wrong.insert("prometheus", map! { "port" => "many" });
        assert!(place(&options(wrong)).unwrap_err().to_string().contains("metrics:prometheus:port"));
    }
}
