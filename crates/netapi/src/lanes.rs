//! The connections to the master's request port, apart for each kind of request.
//!
//! A connection carries one request at a time, and the master answers a wrong login only after a second and a wheel function
//! only at its end. So that neither holds up jobs and tokens, each kind has connections of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use client::{RequestPort, RequestPortError, RequestPortSettings};
use rt::Rt;
use value::{Map, Value};
use wire::envelope::Envelope;

/// The number of ports of each lane. A port has up to eight connections.
const SOON: usize = 1;
const LOGINS: usize = 3;
const LONG: usize = 4;
const FLEET: usize = 2;

/// What kind of answer a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One that comes at once.
    Soon,
    /// One that takes a second if the login is wrong.
    Login,
    /// One for which the master may look at many files, or match a target.
    Fleet,
    /// One that may take as long as a function.
    Long,
}

/// The connections for all kinds.
pub struct Lanes {
    soon: Lane,
    logins: Lane,
    fleet: Lane,
    long: Lane,
}

impl Lanes {
    /// Creates them, without connecting.
    pub fn new(rt: &Rt, settings: &RequestPortSettings) -> Self {
        let lane = |ports| Lane::new(rt, settings, ports);
        Lanes { soon: lane(SOON), logins: lane(LOGINS), fleet: lane(FLEET), long: lane(LONG) }
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// When the master does not answer in time.
    pub async fn ask(&self, load: Map, timeout: Duration) -> Result<Value, RequestPortError> {
        let lane = match kind(&load) {
            Kind::Soon => &self.soon,
            Kind::Login => &self.logins,
            Kind::Fleet => &self.fleet,
            Kind::Long => &self.long,
        };
        lane.ask(load, timeout).await
    }
}

/// Returns the login in a request, if it has one: a map with `username` and `eauth`.
pub fn login(load: &Map) -> Option<&Map> {
    // As the master looks for it: a publication has its login in `kwargs`, and a token counts before a login.
    let fields = match load.get_str("cmd")? {
        "publish" => load.get("kwargs")?.as_map()?,
        "mk_token" => return Some(load),
        _ => load,
    };
    (fields.contains_key("eauth") && !fields.contains_key("token")).then_some(fields)
}

fn kind(load: &Map) -> Kind {
    match load.get_str("cmd") {
        // First: strangers send wrong logins, and long functions are those of users.
        _ if login(load).is_some() => Kind::Login,
        Some("saltern_status") => Kind::Fleet,
        Some("runner" | "wheel") => Kind::Long,
        _ => Kind::Soon,
    }
}

/// Connections for one kind.
struct Lane(Vec<(RequestPort, AtomicUsize)>);

impl Lane {
    fn new(rt: &Rt, settings: &RequestPortSettings, ports: usize) -> Self {
        let port = || (RequestPort::new(rt.clone(), settings.clone()), AtomicUsize::new(0));
        Lane(std::iter::repeat_with(port).take(ports).collect())
    }

    async fn ask(&self, load: Map, timeout: Duration) -> Result<Value, RequestPortError> {
        let least = self.0.iter().min_by_key(|(_, busy)| busy.load(Ordering::Relaxed));
        let Some((port, busy)) = least else { return Err(RequestPortError::TimedOut) };
        let _busy = Busy::new(busy);
        port.ask(Envelope::clear(load), timeout).await
    }
}

/// Counts a request as under way until it is dropped.
struct Busy<'a>(&'a AtomicUsize);

impl<'a> Busy<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Busy(count)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn slow_answers_have_connections_of_their_own() {
        let (login, token) = (map! { "eauth" => "pam", "username" => "fred" }, map! { "token" => "aa" });
        let of = |cmd: &str, proof: &Map| {
            let mut load = map! { "cmd" => cmd };
            load.update(proof.clone());
            kind(&load)
        };
        let publish = |proof: &Map| kind(&map! { "cmd" => "publish", "kwargs" => proof.clone() });
        assert_eq!((publish(&token), publish(&login)), (Kind::Soon, Kind::Login));
        assert_eq!((of("get_token", &token), of("mk_token", &login)), (Kind::Soon, Kind::Login));
        for (cmd, own) in [("runner", Kind::Long), ("wheel", Kind::Long), ("saltern_status", Kind::Fleet)] {
            assert_eq!((of(cmd, &token), of(cmd, &login)), (own, Kind::Login));
        }
        let both = map! { "eauth" => "pam", "token" => "aa" };
        assert_eq!(publish(&both), Kind::Soon);
    }
}
