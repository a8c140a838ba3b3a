//! The members of a cluster of etcd: the one that the options name, and those that it names.

use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::Url;

/// The number of members that are kept.
const MOST: usize = 32;

/// The members, of which one is asked until it cannot be reached.
pub(super) struct Members {
    cluster: Mutex<ClusterUrls>,
    /// Whether others than the first are asked.
    others: bool,
}

struct ClusterUrls {
    /// The first one is that of the options.
    urls: Vec<Url>,
    current: usize,
    /// Whether the current member was asked for the others.
    learned: bool,
}

impl Members {
    pub(super) fn new(first: Url, others: bool) -> Self {
        Members { cluster: Mutex::new(ClusterUrls { urls: vec![first], current: 0, learned: false }), others }
    }

    /// Returns the member to ask, and how many there are.
    pub(super) fn current(&self) -> (Url, usize) {
        let cluster = self.cluster();
        (cluster.urls[cluster.current].clone(), cluster.urls.len())
    }

    /// Goes on to the next member. Another request may have done so already.
    pub(super) fn leave(&self, unreached: &Url) {
        let mut cluster = self.cluster();
        if cluster.urls.len() > 1 && cluster.urls[cluster.current] == *unreached {
            cluster.current = (cluster.current + 1) % cluster.urls.len();
            cluster.learned = false;
        }
    }

    /// Returns whether the current member is to be asked for the others, and that only once.
    pub(super) fn must_learn(&self) -> bool {
        self.others && !std::mem::replace(&mut self.cluster().learned, true)
    }

    /// Takes the members that `current` names. Those with another scheme are left out: a password must not be sent without
    /// TLS because somebody says so.
    pub(super) fn learn(&self, current: &Url, named: &[String]) {
        let mut cluster = self.cluster();
        let mut urls = vec![cluster.urls[0].clone()];
        let named = named.iter().filter_map(|url| Url::parse(url).ok());
        for url in [current.clone()].into_iter().chain(named) {
            if url.scheme() == urls[0].scheme() && url.has_host() && !urls.contains(&url) && urls.len() < MOST {
                urls.push(url);
            }
        }
        cluster.current = urls.iter().position(|url| url == current).unwrap_or_default();
        cluster.urls = urls;
    }

    fn cluster(&self) -> MutexGuard<'_, ClusterUrls> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn named<const N: usize>(urls: [&str; N]) -> Vec<String> {
        urls.map(str::to_owned).to_vec()
    }

    #[test]
    fn the_next_member_is_asked_when_one_cannot_be_reached() {
        let (first, second, third) = (url("https://a:1/"), url("https://b:1/"), url("https://c:1/"));
        let members = Members::new(first.clone(), true);
        members.leave(&first);
        assert_eq!(members.current(), (first.clone(), 1), "there is no other");
        assert!(members.must_learn() && !members.must_learn());
        let urls = ["https://b:1", "https://a:1", "http://evil:1", "nonsense", "file:///etc", "https://c:1"];
        members.learn(&first, &named(urls));
        assert_eq!(members.current(), (first.clone(), 3));
        members.leave(&first);
        members.leave(&first);
        assert_eq!(members.current().0, second, "two requests failed at the same time");
        assert!(members.must_learn(), "the members may be others now");
        members.learn(&second, &named(["https://b:1", "https://c:1"]));
        assert_eq!(members.current(), (second.clone(), 3));
        members.leave(&second);
        assert_eq!(members.current().0, third);
        members.leave(&third);
        assert_eq!(members.current().0, first, "that of the options is never forgotten");
    }

    #[test]
    fn members_are_not_counted_without_end() {
        let first = url("http://a:1/");
        let members = Members::new(first.clone(), true);
        let list: Vec<String> = (0..1000).map(|n| format!("http://b{n}:1")).collect();
        members.learn(&first, &list);
        assert_eq!(members.current(), (first.clone(), MOST));
        assert!(!Members::new(first, false).must_learn());
    }
}
