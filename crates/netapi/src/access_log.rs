//! The files of `log_access_file` and `log_error_file`: a line for each request in Apache's combined form, as CherryPy writes it,
//! and a line for each request that the program failed to answer.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use axum::body::HttpBody as _;
use axum::extract::Request;

use axum::response::Response;
use logging::LogFile;
use rt::Rt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use value::escape;

use crate::exchange::{Peer, text};
use crate::options::Options;

/// The lines that may wait to be written, and how many are written at a time.
const WAITING: usize = 8192;
const TOGETHER: usize = 512;

/// The longest text of a client in a line, in bytes.
const LONGEST: usize = 2000;

/// The files.
#[derive(Clone)]
pub struct AccessLog {
    rt: Rt,
    access: Option<mpsc::Sender<String>>,
    errors: Option<mpsc::Sender<String>>,
}

/// What the line of a request says before there is an answer.
pub struct Received {
    address: Option<IpAddr>,
    request: String,
    referer: String,
    agent: String,
}

impl AccessLog {
    /// Opens the files that the options name. Returns the tasks that write them as well: they end when all copies of the log are gone
    /// and all lines are written.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub fn open(rt: &Rt, options: &Options) -> Result<(Self, Vec<JoinHandle<()>>), logging::Error> {
        let mut tasks = Vec::new();
        let mut opened = |path: &Option<PathBuf>| {
            let Some(path) = path else { return Ok(None) };
            let (lines, task) = writer(rt, path)?;
            tasks.push(task);
            Ok::<_, logging::Error>(Some(lines))
        };
        let (access, errors) = (opened(&options.access_file)?, opened(&options.error_file)?);
        Ok((AccessLog { rt: rt.clone(), access, errors }, tasks))
    }

    /// Notes that the program listens.
    pub fn started(&self, url: &str) {
        self.error(|| format!("ENGINE Serving on {url}"));
    }

    /// Reads what a line needs; nothing without files.
    pub fn receive(&self, request: &Request) -> Option<Received> {
        (self.access.is_some() || self.errors.is_some()).then(|| Received::of(request))
    }

    /// Notes a request and its answer.
    pub fn answered(&self, received: &Received, response: &Response) {
        let status = response.status();
        if let Some(access) = &self.access {
            let size = response.body().size_hint().exact();
            push(access, received.line(&self.time(), status.as_u16(), size));
        }
        if status.is_server_error() {
            self.error(|| format!("HTTP {}: {status}", received.request));
        }
    }

    fn error(&self, line: impl FnOnce() -> String) {
        if let Some(errors) = &self.errors {
            push(errors, format!("{} {}", self.time(), line()));
        }
    }

    fn time(&self) -> String {
        time(self.rt.now())
    }
}

impl Received {
    fn of(request: &Request) -> Self {
        let header = |name: &str| escape_quoted(text(request.headers(), name).unwrap_or_default());
        // The id of a session may follow `/ws`, and a token may be in a query.
        let path = request.uri().path();
        let path = match path.find("/ws/") {
            Some(place) => &path[..place + "/ws/".len()],
            None => path,
        };
        Received {
            address: request.extensions().get::<Peer>().map(|peer| peer.0),
            request: format!("{} {} {:?}", request.method(), escape_quoted(path), request.version()),
            referer: without_query(header("referer")),
            agent: header("user-agent"),
        }
    }

    fn line(&self, time: &str, status: u16, size: Option<u64>) -> String {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let (address, size) = (self.address.map(|address| address.to_string()), size.map(|size| size.to_string()));
        let Received { request, referer, agent, .. } = self;
        format!("{} - - {time} \"{request}\" {status} {} \"{referer}\" \"{agent}\"", or_dash(address), or_dash(size))
    }
}

fn without_query(address: String) -> String {
    address.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// Returns a text of a client, escaped for a place between quotes.
fn escape_quoted(text: &str) -> String {
    escape::escaped(&escape::brief(text, LONGEST)).replace('"', "\\\"")
}

fn time(now: SystemTime) -> String {
    let now =
        jiff::Timestamp::try_from(now).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_zoned(jiff::tz::TimeZone::system());
    now.strftime("[%d/%b/%Y:%H:%M:%S]").to_string()
}

/// Hands a line to the writer. Requests do not wait for a slow disk.
fn push(lines: &mpsc::Sender<String>, line: String) {
    if let Err(mpsc::error::TrySendError::Full(_)) = lines.try_send(line) {
        tracing::debug!("a line is missing in log_access_file or log_error_file: the disk is too slow");
    }
}

/// Opens a file, and starts the task that writes its lines.
fn writer(rt: &Rt, path: &Path) -> Result<(mpsc::Sender<String>, JoinHandle<()>), logging::Error> {
    let file = Arc::new(Mutex::new(LogFile::open(path, 0, 0, None)?));
    let (sender, mut lines) = mpsc::channel::<String>(WAITING);
    let (own, path) = (rt.clone(), path.to_owned());
    let write = async move {
        let (mut some, mut failing) = (Vec::new(), false);
        while lines.recv_many(&mut some, TOGETHER).await > 0 {
            let (file, batch) = (file.clone(), std::mem::take(&mut some));
            let written = own.blocking(move || {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                batch.iter().try_for_each(|line| file.write(line))
            });
            match written.await {
                Ok(Ok(())) => failing = false,
                Ok(Err(error)) if !failing => {
                    tracing::error!("failed to write {}: {error}", path.display());
                    failing = true;
                }
                Ok(Err(_)) => {}
                // The program stops.
                Err(_) => return,
            }
        }
    };
    Ok((sender, rt.spawn(write)))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn lines_have_the_combined_form_and_no_secrets() {
        let line = |uri: &str, agent: &str| {
            let request =
                Request::builder().uri(uri).header("user-agent", agent).header("referer", "http://x/y?token=s");
            let mut request = request.body(Body::empty()).unwrap();
            request.extensions_mut().insert(Peer([192, 0, 2, 1].into()));
            Received::of(&request).line("[27/Nov/2026:14:30:25]", 200, Some(12))
        };
        let expected = r#"192.0.2.1 - - [27/Nov/2026:14:30:25] "GET /jobs HTTP/1.1" 200 12 "http://x/y" "curl/8""#;
        assert_eq!(line("/jobs?token=secret", "curl/8"), expected);
        assert!(!line("/ws/0123456789abcdef", "x").contains("0123456789abcdef"));
        assert!(line("/", "a\" b").contains(r#" "a\" b""#), "{}", line("/", "a\" b"));
        assert!(!line("/", "a\u{9b}b").contains('\u{9b}'));
    }

    #[test]
    fn times_are_those_of_apache() {
        let shown = time(SystemTime::UNIX_EPOCH);
        assert!(
            shown.starts_with('[') && shown.ends_with(']') && shown.len() == "[01/Jan/1970:00:00:00]".len(),
            "{shown}"
        );
    }
}
