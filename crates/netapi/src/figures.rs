//! The work of this program in numbers, as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The numbers.
#[derive(Default)]
pub struct Figures {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// By route, method and status. All three have few values: routes are those of the table, not paths of clients.
    requests: BTreeMap<(&'static str, &'static str, u16), u64>,
    /// Seconds and number of requests by route.
    times: BTreeMap<&'static str, (f64, u64)>,
    /// By backend and result.
    logins: BTreeMap<(String, &'static str), u64>,
}

impl Figures {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an answer.
    pub fn answered(&self, route: &'static str, method: &axum::http::Method, status: u16, time: Duration) {
        let method = match method.as_str() {
            "GET" => "GET",
            "HEAD" => "HEAD",
            "POST" => "POST",
            "DELETE" => "DELETE",
            "OPTIONS" => "OPTIONS",
            _ => "other",
        };
        let mut counts = self.counts();
        *counts.requests.entry((route, method, status)).or_default() += 1;
        let (seconds, number) = counts.times.entry(route).or_default();
        *seconds += time.as_secs_f64();
        *number += 1;
    }

    /// Counts a login. `backend` must be one of the configuration.
    pub fn logged_in(&self, backend: &str, result: &'static str) {
        *self.counts().logins.entry((backend.to_owned(), result)).or_default() += 1;
    }

    /// Writes the page.
    pub fn page(&self, sessions: usize, streams: usize, waiting: usize) -> String {
        let (counts, mut page) = (self.counts(), String::new());
        let head = |page: &mut String, name: &str, kind: &str, about: &str| {
            // Writing to a text never fails.
            let _ = writeln!(page, "# HELP saltern_api_{name} {about}\n# TYPE saltern_api_{name} {kind}");
        };
        head(&mut page, "requests_total", "counter", "Requests by route, method and status.");
        for ((route, method, status), count) in &counts.requests {
            let labels = format!("route=\"{}\",method=\"{method}\",status=\"{status}\"", escaped(route));
            let _ = writeln!(page, "saltern_api_requests_total{{{labels}}} {count}");
        }
        head(&mut page, "request_seconds", "summary", "How long requests took until their answer began.");
        for (route, (seconds, count)) in &counts.times {
            let route = escaped(route);
            let _ = writeln!(page, "saltern_api_request_seconds_sum{{route=\"{route}\"}} {seconds}");
            let _ = writeln!(page, "saltern_api_request_seconds_count{{route=\"{route}\"}} {count}");
        }
        head(&mut page, "logins_total", "counter", "Logins by backend and result.");
        for ((backend, result), count) in &counts.logins {
            let backend = escaped(backend);
            let _ = writeln!(page, "saltern_api_logins_total{{eauth=\"{backend}\",result=\"{result}\"}} {count}");
        }
        head(&mut page, "streams", "gauge", "Open streams of events.");
        let _ = writeln!(page, "saltern_api_streams {streams}");
        head(&mut page, "waiting_requests", "gauge", "Requests that wait for events of the master, such as returns.");
        let _ = writeln!(page, "saltern_api_waiting_requests {waiting}");
        head(&mut page, "sessions", "gauge", "Sessions in memory.");
        let _ = writeln!(page, "saltern_api_sessions {sessions}");
        page
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;

    #[test]
    fn the_page_has_all_numbers() {
        let figures = Figures::default();
        for status in [200, 200, 403] {
            figures.answered("/v1/jobs", &Method::GET, status, Duration::from_millis(250));
        }
        figures.answered("/v1/jobs", &"BREW".parse().unwrap(), 405, Duration::from_millis(250));
        figures.logged_in("fi\"le", "granted");
        let page = figures.page(7, 1, 3);
        for line in [
            "# TYPE saltern_api_requests_total counter",
            "saltern_api_requests_total{route=\"/v1/jobs\",method=\"GET\",status=\"200\"} 2",
            "saltern_api_requests_total{route=\"/v1/jobs\",method=\"other\",status=\"405\"} 1",
            "saltern_api_request_seconds_sum{route=\"/v1/jobs\"} 1",
            "saltern_api_request_seconds_count{route=\"/v1/jobs\"} 4",
            "saltern_api_logins_total{eauth=\"fi\\\"le\",result=\"granted\"} 1",
            "saltern_api_streams 1",
            "saltern_api_waiting_requests 3",
            "saltern_api_sessions 7",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
