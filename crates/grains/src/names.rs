//! Names of the machine: `fqdn`, `host`, `domain`, `localhost`, `fqdn_ip4`, `fqdn_ip6`, `fqdns`.
//!
//! The resolver may be slow or dead, so all its questions are asked in parallel, with a common timeout.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use value::{Map, map};

use crate::system;

/// The timeout of all look-ups together. The C library gives up on a dead name server only after ten seconds or more.
const LIMIT: Duration = Duration::from_secs(5);

/// The number of parallel look-ups.
const WORKERS: usize = 16;

/// Look-ups in progress.
pub struct Lookups {
    hostname: String,
    deadline: Instant,
    named: Receiver<Named>,
    reverse: Option<Receiver<Option<String>>>,
}

/// The resolver's answers about the host's own name.
struct Named {
    fqdn: String,
    addresses: Vec<IpAddr>,
}

impl Lookups {
    /// Starts to look up the host's full name and its addresses, and, if wanted, the names of `addresses`.
    pub fn start(hostname: String, addresses: Option<Vec<IpAddr>>) -> Self {
        let (sender, named) = channel();
        let host = hostname.clone();
        in_background(move || {
            let fqdn = system::canonical_name(&host).unwrap_or(host);
            let addresses = addresses_of(&fqdn);
            // After the timeout there is no receiver any more.
            let _ = sender.send(Named { fqdn, addresses });
        });
        let reverse = addresses.map(names_of);
        // The deadline counts from here; the other grains are collected at the same time.
        Lookups { hostname, deadline: Instant::now() + LIMIT, named, reverse }
    }

    /// Returns the grains, and waits for the answers until the timeout. `has_v4` and `has_v6` are the types of
    /// addresses that the machine has at all.
    pub fn finish(self, has_v4: bool, has_v6: bool) -> Map {
        let named = self.named.recv_timeout(left(self.deadline)).unwrap_or_else(|_| {
            tracing::warn!("the name of this host was not resolved within {LIMIT:?}; taking {}", self.hostname);
            Named { fqdn: self.hostname.clone(), addresses: Vec::new() }
        });
        let mut grains = own_names(&self.hostname, &named, has_v4, has_v6);
        grains.insert("fqdns", collect(self.reverse, self.deadline));
        grains
    }
}

/// Starts to look up the names of addresses; several in parallel, but not hundreds.
fn names_of(addresses: Vec<IpAddr>) -> Receiver<Option<String>> {
    let (sender, names) = channel();
    // A machine with thousands of addresses (a router, a Kubernetes node) must not start thousands of threads.
    let workers = addresses.len().min(WORKERS);
    let open = Arc::new(Mutex::new(addresses.into_iter()));
    for _ in 0..workers {
        let (sender, open) = (sender.clone(), open.clone());
        in_background(move || {
            let next = || open.lock().map_or(None, |mut addresses| addresses.next());
            while let Some(address) = next() {
                if sender.send(full_name_of(address)).is_err() {
                    // There is no receiver any more.
                    return;
                }
            }
        });
    }
    names
}

/// Runs a call that cannot be interrupted on a thread. If no thread can be created, the look-up stays unanswered.
fn in_background(work: impl FnOnce() + Send + 'static) {
    // A small stack: the call is a C function, and there may be many.
    if let Err(error) = std::thread::Builder::new().name("lookup".into()).stack_size(1024 * 1024).spawn(work) {
        tracing::warn!("failed to start a thread for a look-up: {error}");
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn own_names(hostname: &str, named: &Named, has_v4: bool, has_v6: bool) -> Map {
    let (host, domain) = named.fqdn.split_once('.').unwrap_or((&named.fqdn, ""));
    // Salt leaves out addresses of a family that no interface has: the resolver may know them from `/etc/hosts`.
    let texts = |wanted: bool, v6: bool| -> Vec<String> {
        let of_kind = named.addresses.iter().filter(|address| wanted && address.is_ipv6() == v6);
        of_kind.map(IpAddr::to_string).collect()
    };
    map! {
        "localhost" => hostname,
        "fqdn" => named.fqdn.as_str(),
        "host" => host,
        "domain" => domain,
        "fqdn_ip4" => texts(has_v4, false),
        "fqdn_ip6" => texts(has_v6, true),
    }
}

fn addresses_of(host: &str) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for socket in (host, 0).to_socket_addrs().into_iter().flatten() {
        if !found.contains(&socket.ip()) {
            found.push(socket.ip());
        }
    }
    found
}

/// Returns the name of an address, in its full form if the resolver knows one.
pub fn full_name_of(address: IpAddr) -> Option<String> {
    let name = system::name_of(address)?;
    if name.contains('.') {
        return Some(name);
    }
    // `/etc/hosts` may list the short name first.
    Some(system::canonical_name(&name).filter(|full| full.contains('.')).unwrap_or(name))
}

/// Returns the resolver's name of the first address of a host, like Python's `socket.getfqdn`.
pub fn full_name_of_host(host: &str) -> Option<String> {
    full_name_of(*addresses_of(host).first()?)
}

fn collect(names: Option<Receiver<Option<String>>>, deadline: Instant) -> Vec<String> {
    let mut found = Vec::new();
    let Some(names) = names else { return found };
    while let Ok(name) = names.recv_timeout(left(deadline)) {
        found.extend(name);
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::Value;

    #[test]
    fn a_full_name_is_split_into_host_and_domain() {
        let named = Named {
            fqdn: "web1.example.org".into(),
            addresses: vec!["192.0.2.1".parse().unwrap(), "::1".parse().unwrap()],
        };
        let grains = own_names("web1", &named, true, false);
        assert_eq!(grains.get_str("host"), Some("web1"));
        assert_eq!(grains.get_str("domain"), Some("example.org"));
        assert_eq!(grains.get("fqdn_ip4"), Some(&value::list!["192.0.2.1"]));
        assert_eq!(grains.get("fqdn_ip6"), Some(&value::list![]));
    }

    #[test]
    fn late_names_are_omitted() {
        let (sender, names) = channel();
        sender.send(Some("b".to_owned())).unwrap();
        sender.send(Some("a".to_owned())).unwrap();
        sender.send(None).unwrap();
        assert_eq!(collect(Some(names), Instant::now() + Duration::from_millis(5)), ["a", "b"]);
        assert!(collect(None, Instant::now()).is_empty());
        // Dropped only now: a closed channel would have ended the wait at once.
        drop(sender);
    }

    #[test]
    fn without_reverse_look_ups_there_are_no_names() {
        let grains = Lookups::start("localhost".into(), None).finish(true, true);
        assert_eq!(grains.get_str("localhost"), Some("localhost"));
        assert_eq!(grains.get("fqdns"), Some(&Value::List(Vec::new())));
    }
}
