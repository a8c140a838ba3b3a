//! Requests to a cluster of etcd: to the member that answers, whichever that is.

use reqwest::header::HeaderMap;
use reqwest::{RequestBuilder, Url};

use super::Server;
use super::members::Members;
use crate::Result;
use crate::banks::Outcome;
use crate::http::{Http, Reply};

/// The maximum length of the answer with the members of the cluster.
const ROSTER: usize = 64 << 10;

/// A client, and the members that it can ask.
pub(super) struct Cluster {
    pub(super) http: Http,
    members: Members,
    /// Reads the addresses of the members from an answer.
    roster: fn(&[u8]) -> Vec<String>,
}

impl Cluster {
    pub(super) fn new(server: &Server, headers: HeaderMap, roster: fn(&[u8]) -> Vec<String>) -> Result<Self> {
        let http = Http::new(&server.target, headers, "etcd.host")?;
        let members = Members::new(server.target.url.clone(), server.reconnect);
        Ok(Cluster { http, members, roster })
    }

    /// Sends a request to the current member, or to the next one that can be reached.
    pub(super) async fn reach(&self, begin: impl Fn(Url) -> RequestBuilder, most: usize) -> Outcome<Reply> {
        let (mut member, mut left) = self.members.current();
        loop {
            match self.http.send(begin(member.clone()), most).await {
                Err(failure) if failure.is_unreached() && left > 1 => {
                    self.members.leave(&member);
                    (member, left) = (self.members.current().0, left - 1);
                }
                answer => return answer,
            }
        }
    }

    /// Asks the current member for the others, once. Without an answer it stays the only one: a proxy may not know them.
    pub(super) async fn learn(&self, begin: impl Fn(Url) -> RequestBuilder) {
        if !self.members.must_learn() {
            return;
        }
        let (member, _) = self.members.current();
        match self.http.send(begin(member.clone()), ROSTER).await {
            Ok(reply) if reply.status.is_success() => self.members.learn(&member, &(self.roster)(&reply.body)),
            Ok(reply) => tracing::debug!("etcd names no members of its cluster: {}", reply.failure()),
            Err(failure) => tracing::debug!("etcd names no members of its cluster: {failure}"),
        }
    }

    /// Asks another member from now on: the current one took too long. Its connection was closed with the request.
    pub(super) fn leave(&self) {
        self.members.leave(&self.members.current().0);
    }
}
