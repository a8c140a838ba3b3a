//! `salt-api`: the HTTP interface of a master, as `rest_cherrypy` of Salt has it.
//!
//! The program is a client of the master on the same host. It has one subscription to the event bus and one pool of connections to
//! the request port for all HTTP clients, proves nothing itself, and decides about no command: each goes to the master with the
//! token or the login of its user. It checks one right itself: that to get a token from `/token`.
//!
//! Decisions are pure functions: `accept` (the form of answers), `body` (bodies), `low` (commands), `options`, `mistakes`
//! (warnings about them), `origin` (pages of other sites). `files` opens what browsers may read, `link` talks to the master, `server` to
//! HTTP clients, and `routes` is in between. `console` makes pages for people, who read them in a browser.

mod accept;
mod access_log;
mod addresses;
mod api;
mod body;
mod body_room;
mod bus;
mod console;
mod cookie;
mod events;
mod exchange;
mod failure;
mod feed;
mod figures;
mod files;
mod fleet;
mod handlers;
mod health;
mod hook;
mod idempotent;
mod incoming;
mod json;
mod keys;
mod lanes;
mod last_answer;
mod limits;
mod link;
mod logins;
mod low;
mod mistakes;
mod open_streams;
mod options;
mod origin;
mod own_jobs;
mod pack;
mod perms;
mod problem;
mod ring;
mod routes;
mod rows;
mod server;
mod session_files;
mod sessions;
mod slow_reader;
mod stream_event;
mod stream_log;
mod templates;
mod v1;
mod websocket;

use std::sync::Arc;

use rt::Rt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
pub use crate::options::Options;

/// How long the last lines of `log_access_file` may take.
const LAST_LINES: std::time::Duration = std::time::Duration::from_secs(1);

/// Why the program cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option cannot be obeyed.
    #[error(transparent)]
    Options(#[from] options::Error),
    /// Files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] server::TlsError),
    /// A file of requests cannot be opened.
    #[error(transparent)]
    Log(#[from] logging::Error),
    /// The port is not free.
    #[error("failed to listen on {host}:{port}")]
    Listen {
        /// The address.
        host: String,
        /// The port.
        port: u16,
        /// The reason.
        source: std::io::Error,
    },
}

/// Serves HTTP clients until it is told to stop. Calls `ready` with the address once it listens.
///
/// # Errors
/// When an option cannot be obeyed, or the port is not free.
pub async fn run(
    config: &config::Master,
    rt: Rt,
    stop: CancellationToken,
    ready: impl FnOnce(std::net::SocketAddr),
) -> Result<(), Error> {
    let (options, warnings) = Options::read(&config.raw)?;
    for warning in warnings.into_iter().chain(mistakes::warnings(&options)) {
        tracing::warn!("{warning}");
    }
    let tls = options.tls.as_ref().map(server::acceptor).transpose()?;
    let (log, writers) = access_log::AccessLog::open(&rt, &options)?;
    if let Some(files) = options.files.as_ref().filter(|files| !files.place.is_dir()) {
        tracing::warn!("rest_cherrypy: the option 'static' names no directory: {}", files.place.display());
    }
    let named =
        options.app.iter().map(|app| ("app", &app.file)).chain(options.favicon.iter().map(|icon| ("favicon", icon)));
    for (option, file) in named.filter(|(_, file)| !file.is_file()) {
        tracing::warn!("rest_cherrypy: the option '{option}' names no file: {}", file.display());
    }
    if options.clients.is_empty() {
        tracing::warn!("netapi_enable_clients is empty: no client may command anything");
    }
    let (host, port) = (options.host.clone(), options.port);
    let failed = |source| Error::Listen { host: host.clone(), port, source };
    // IPv6 addresses may be written with brackets.
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let listener = TcpListener::bind((bare, port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    if tls.is_none() && !address.ip().is_loopback() {
        tracing::warn!(
            "passwords and tokens travel in the clear: disable_ssl is set, and {address} is reachable from outside"
        );
    }
    let api = Arc::new(Api::new(rt.clone(), config, options));
    let following = tokio_util::task::AbortOnDropHandle::new(rt.spawn(api.link.clone().follow_bus()));
    let source = config::Source { path: config.paths.conf_file.clone() };
    let access = tokio_util::task::AbortOnDropHandle::new(rt.spawn(api.clone().follow_access(source)));
    let cleaning = tokio_util::task::AbortOnDropHandle::new(rt.spawn(api.clone().clean_sessions()));
    tracing::info!("salt-api listens on {address}");
    log.started(&format!("{}://{address}", if tls.is_some() { "https" } else { "http" }));
    ready(address);
    server::serve(listener, tls, routes::router(api, log), stop).await;
    drop((following, access, cleaning));
    for writer in writers {
        // A connection that does not end must not keep the program.
        let _ = tokio::time::timeout(LAST_LINES, writer).await;
    }
    Ok(())
}
