//! The HTTP server: connections, TLS, limits.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use openssl::ssl::{Ssl, SslAcceptor, SslFiletype, SslMethod};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_openssl::SslStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower_service::Service;
use wire::Network;

use crate::exchange::Peer;
use crate::options::TlsFiles;
use crate::slow_reader::SlowReader;

/// The largest head of a request, in bytes.
const MOST_HEAD: usize = 32 << 10;

/// How long the head of a request, or the handshake of TLS, may take.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// The largest number of connections, of all and of each address.
const MOST: usize = 2000;
const MOST_OF_ONE: usize = 500;

/// What the system may keep of answers that a client does not read, in bytes for each connection. Without it, it may be megabytes.
const SEND_BUFFER: usize = 128 << 10;

/// How long requests may take to end when the program stops.
const GRACE: Duration = Duration::from_secs(5);

/// Pauses after a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Files of TLS that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("rest_cherrypy: the {what} {path} cannot be used: {reason}")]
pub struct TlsError {
    what: &'static str,
    path: String,
    reason: String,
}

/// Fails in plain words for a file that cannot be opened, of which OpenSSL says where in its source it noticed.
fn readable(what: &'static str, path: &std::path::Path) -> Result<(), TlsError> {
    std::fs::File::open(path).map(drop).map_err(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "no such file; create it, or set disable_ssl for a proxy with TLS".to_owned()
            }
            _ => error.to_string(),
        };
        TlsError { what, path: path.display().to_string(), reason }
    })
}

/// Loads the files of TLS.
///
/// # Errors
/// When one cannot be used.
pub fn acceptor(files: &TlsFiles) -> Result<SslAcceptor, TlsError> {
    let failed = |what, path: &std::path::Path| {
        let path = path.display().to_string();
        move |reason: openssl::error::ErrorStack| TlsError { what, path, reason: reason.to_string() }
    };
    let (certificate, key) = (&files.certificate, &files.key);
    readable("certificate", certificate)?;
    readable("key", key)?;
    let mut builder =
        SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).map_err(failed("certificate", certificate))?;
    builder.set_certificate_chain_file(certificate).map_err(failed("certificate", certificate))?;
    builder.set_private_key_file(key, SslFiletype::PEM).map_err(failed("key", key))?;
    builder.check_private_key().map_err(failed("key", key))?;
    if let Some(chain) = &files.chain {
        let failed = || failed("chain", chain);
        let wrong = |reason: String| TlsError { what: "chain", path: chain.display().to_string(), reason };
        let text = std::fs::read(chain).map_err(|error| wrong(error.to_string()))?;
        let certificates = openssl::x509::X509::stack_from_pem(&text).map_err(failed())?;
        // Text without a certificate is an empty list for OpenSSL.
        if certificates.is_empty() {
            return Err(wrong("it has no certificate".to_owned()));
        }
        for certificate in certificates {
            builder.add_extra_chain_cert(certificate).map_err(failed())?;
        }
    }
    Ok(builder.build())
}

/// Serves connections until it is told to stop.
pub async fn serve(listener: TcpListener, tls: Option<SslAcceptor>, router: Router, stop: CancellationToken) {
    let (places, tasks) = (Arc::new(Places::default()), TaskTracker::new());
    // Connections have it from the socket that listens.
    if let Err(error) = SockRef::from(&listener).set_send_buffer_size(SEND_BUFFER) {
        tracing::warn!("failed to bound what the system keeps for slow clients: {error}");
    }
    loop {
        let (stream, peer) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("failed to accept a connection: {error}");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
        };
        // Without a place the connection is closed at once.
        let Some(place) = Places::take(&places, peer.ip()) else {
            tracing::debug!("too many connections; one of {} is closed", peer.ip());
            continue;
        };
        let kept = Kept { _place: Arc::new(place), _running: tasks.token(), stop: stop.clone() };
        tasks.spawn(connection(stream, peer, tls.clone(), router.clone(), kept));
    }
    tasks.close();
    if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
        tracing::debug!("requests are cut off");
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, tls: Option<SslAcceptor>, router: Router, kept: Kept) {
    // Answers are written whole.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return requests(stream, peer, router, kept).await };
    match tokio::time::timeout(HEAD_TIME, handshake(stream, &tls)).await {
        Ok(Ok(stream)) => requests(stream, peer, router, kept).await,
        Ok(Err(error)) => tracing::debug!("{}: the handshake of TLS failed: {error}", peer.ip()),
        Err(_) => tracing::debug!("{}: the handshake of TLS took too long", peer.ip()),
    }
}

async fn handshake(stream: TcpStream, tls: &SslAcceptor) -> Result<SslStream<TcpStream>, openssl::ssl::Error> {
    let mut stream = SslStream::new(Ssl::new(tls.context())?, stream)?;
    Pin::new(&mut stream).accept().await?;
    Ok(stream)
}

async fn requests<S>(stream: S, peer: SocketAddr, router: Router, kept: Kept)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stop = kept.stop.clone();
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(Peer(peer.ip().to_canonical()));
        request.extensions_mut().insert(kept.clone());
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MOST_HEAD)
        .serve_connection(TokioIo::new(SlowReader::new(stream)), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("{}: the connection failed: {error}", peer.ip());
    }
}

/// What belongs to a connection as long as it is open, also when it has become a WebSocket.
#[derive(Clone)]
pub struct Kept {
    _place: Arc<Place>,
    /// The program waits for it when it stops.
    _running: TaskTrackerToken,
    /// Tells that the program stops.
    pub stop: CancellationToken,
}

/// The connections by address.
#[derive(Default)]
struct Places(Mutex<HashMap<Network, usize>>);

struct Place {
    places: Arc<Places>,
    network: Network,
}

impl Places {
    fn take(places: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        let network = Network::from(address);
        let mut taken = places.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let count = taken.get(&network).copied().unwrap_or_default();
        // A web server in front has the address of this host.
        let most = if address.is_loopback() { MOST } else { MOST_OF_ONE };
        if all >= MOST || count >= most {
            return None;
        }
        taken.insert(network, count + 1);
        Some(Place { places: places.clone(), network })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use openssl::asn1::Asn1Time;
    use openssl::ec::{EcGroup, EcKey};
    use openssl::hash::MessageDigest;
    use openssl::nid::Nid;
    use openssl::pkey::PKey;
    use openssl::x509::X509;
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Writes a key and a certificate of it.
    fn write_pair(key_path: &Path, certificate_path: &Path) {
        let key =
            PKey::from_ec_key(EcKey::generate(&EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap()).unwrap());
        let key = key.unwrap();
        let mut certificate = X509::builder().unwrap();
        certificate.set_pubkey(&key).unwrap();
        certificate.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
        certificate.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
        certificate.sign(&key, MessageDigest::sha256()).unwrap();
        std::fs::write(key_path, key.private_key_to_pem_pkcs8().unwrap()).unwrap();
        std::fs::write(certificate_path, certificate.build().to_pem().unwrap()).unwrap();
    }

    #[test]
    fn a_wrong_file_of_tls_is_named() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        write_pair(&path("key"), &path("crt"));
        write_pair(&path("other.key"), &path("chain"));
        std::fs::write(path("junk"), "junk").unwrap();
        let refused = |certificate: &str, key: &str, chain: Option<&str>| {
            let files = TlsFiles { certificate: path(certificate), key: path(key), chain: chain.map(path) };
            acceptor(&files).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refused("crt", "key", None), "");
        assert_eq!(refused("crt", "key", Some("chain")), "");
        let missing = refused("nosuch", "key", None);
        assert!(
            missing
                .ends_with("/nosuch cannot be used: no such file; create it, or set disable_ssl for a proxy with TLS"),
            "{missing}"
        );
        for (certificate, key, chain, named) in [
            ("crt", "other.key", None, "the key"),
            ("crt", "nosuch", None, "the key"),
            ("crt", "junk", None, "the key"),
            ("junk", "key", None, "the certificate"),
            ("nosuch", "key", None, "the certificate"),
            ("crt", "key", Some("junk"), "the chain"),
            ("crt", "key", Some("nosuch"), "the chain"),
        ] {
            let error = refused(certificate, key, chain);
            let wrong = [certificate, key, chain.unwrap_or_default()]
                .into_iter()
                .find(|name| matches!(*name, "junk" | "nosuch" | "other.key"));
            let expected = format!("rest_cherrypy: {named} {} cannot be used: ", path(wrong.unwrap()).display());
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_no_answer_does_not_keep_its_place() {
        let (mut client, stream) = tokio::io::duplex(1024);
        let router = Router::new().fallback(async || "x".repeat(100));
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let served = tokio::spawn(requests(stream, peer, router, kept(peer)));
        // Until the server closes: it stops to read when it cannot write.
        while client.write_all(b"GET /nosuch HTTP/1.1\r\nHost: a\r\n\r\n").await.is_ok() {}
        served.await.unwrap();
    }

    fn kept(peer: SocketAddr) -> Kept {
        let place = Places::take(&Arc::default(), peer.ip()).unwrap();
        Kept { _place: Arc::new(place), _running: TaskTracker::new().token(), stop: CancellationToken::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_comes_byte_by_byte_ends_the_connection() {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: {}", "x".repeat(200));
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let began = tokio::time::Instant::now();
        let (mut client, stream) = tokio::io::duplex(64);
        let served = tokio::spawn(requests(stream, peer, Router::new(), kept(peer)));
        for byte in head.bytes() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if client.write_all(&[byte]).await.is_err() {
                break;
            }
        }
        served.await.unwrap();
        assert!(began.elapsed() < HEAD_TIME + Duration::from_secs(5), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_head_of_ten_megabytes_is_not_read_to_its_end() {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let (mut client, stream) = tokio::io::duplex(4096);
        let served = tokio::spawn(requests(stream, peer, Router::new(), kept(peer)));
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ").await.unwrap();
        let mut sent = 0;
        while sent < 10 << 20 && client.write_all(&[b'x'; 4096]).await.is_ok() {
            sent += 4096;
        }
        served.await.unwrap();
        assert!(sent < 2 * MOST_HEAD + (16 << 10), "{sent} bytes were taken");
    }

    #[test]
    fn nobody_takes_all_connections() {
        let places = Arc::new(Places::default());
        let take = |address: &str| Places::take(&places, address.parse().unwrap());
        let of_one: Vec<Place> = std::iter::from_fn(|| take("10.0.0.1")).collect();
        assert_eq!(of_one.len(), MOST_OF_ONE);
        assert!(take("::ffff:10.0.0.1").is_none(), "the same address in another form");
        assert!(take("10.0.0.2").is_some());
        let rest: Vec<Place> = std::iter::from_fn(|| take("127.0.0.1")).collect();
        assert_eq!(of_one.len() + rest.len(), MOST);
        assert!(take("10.0.0.2").is_none());
        drop((of_one, rest));
        assert!(places.0.lock().unwrap().is_empty());
    }
}
