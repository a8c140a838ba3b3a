//! Salt's driver `etcd`: directories and values in etcd's store of version 2, and the time of each value beside it.

mod members;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde::Deserialize;

use crate::banks::{Answer, Failure, Outcome, Place};
use crate::http::{self, Http, LIST, Reply, Target, VALUE};
use crate::{Banks, Result, stamps};
use members::Members;

/// etcd's codes of errors.
const KEY_NOT_FOUND: u32 = 100;
const NOT_A_FILE: u32 = 102;
const DIRECTORY_NOT_EMPTY: u32 = 108;

/// The maximum length of the answer with the members of the cluster.
const MACHINES: usize = 64 << 10;

/// The server, and what is sent with each request.
#[derive(Clone, PartialEq)]
pub struct Server {
    /// Its address.
    pub target: Target,
    /// The name and the password of the user.
    pub login: Option<(String, String)>,
    /// The directory of all banks, without slashes at its ends.
    pub prefix: String,
    /// The end of the keys of times.
    pub suffix: String,
    /// Whether other members of the cluster are asked when one cannot be reached.
    pub reconnect: bool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password.
        f.debug_struct("Server").field("target", &self.target).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns the driver. Nothing is connected yet.
    ///
    /// # Errors
    /// If a file with certificates cannot be used.
    pub fn banks(self) -> Result<Arc<dyn Banks>> {
        let mut headers = HeaderMap::new();
        if let Some((user, password)) = &self.login {
            let login = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
            headers.insert(AUTHORIZATION, http::header(&login, "etcd.password")?);
        }
        let http = Http::new(&self.target, headers, "etcd.host")?;
        let members = Members::new(self.target.url.clone(), self.reconnect);
        Ok(Arc::new(Etcd { http, members, server: self }))
    }
}

struct Etcd {
    http: Http,
    members: Members,
    server: Server,
}

/// An answer about a key.
#[derive(Deserialize)]
struct Found {
    node: Node,
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    dir: bool,
    value: Option<String>,
    #[serde(default)]
    nodes: Vec<Child>,
}

/// An entry of a directory. Its value is not read.
#[derive(Deserialize)]
struct Child {
    key: String,
}

/// An answer that says why a request was refused.
#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "errorCode")]
    code: u32,
    message: String,
}

impl Etcd {
    /// Sends a request about a key, or about a bank if there is no key.
    async fn ask(
        &self,
        method: Method,
        bank: &str,
        key: Option<&str>,
        query: &[(&str, &str)],
        value: Option<&str>,
    ) -> Outcome<std::result::Result<Found, Refusal>> {
        let begin = |member: Url| {
            let prefix = self.server.prefix.split('/').filter(|part| !part.is_empty());
            let path = ["v2", "keys"].into_iter().chain(prefix).chain(bank.split('/')).chain(key);
            let request = self.http.request(method.clone(), member, path, query);
            value.into_iter().fold(request, |request, value| request.form(&[("value", value)]))
        };
        let reply = self.reach(begin, if key.is_some() { VALUE } else { LIST }).await?;
        if reply.status.is_success() {
            return serde_json::from_slice(&reply.body).map(Ok).map_err(|error| reply.malformed(error));
        }
        serde_json::from_slice(&reply.body).map(Err).map_err(|_| refused_without_code(&reply))
    }

    /// Sends a request to the current member, or to the next one that can be reached.
    async fn reach(&self, begin: impl Fn(Url) -> RequestBuilder, most: usize) -> Outcome<Reply> {
        let (mut member, mut left) = self.members.current();
        loop {
            match self.http.send(begin(member.clone()), most).await {
                Err(failure) if failure.is_unreached() && left > 1 => {
                    self.members.leave(&member);
                    (member, left) = (self.members.current().0, left - 1);
                }
                Err(failure) => return Err(failure),
                Ok(reply) => {
                    self.learn(&member).await;
                    return Ok(reply);
                }
            }
        }
    }

    /// Asks a member for the others, once. Without an answer it stays the only one: a proxy may not know them.
    async fn learn(&self, member: &Url) {
        if !self.members.must_learn() {
            return;
        }
        let request = self.http.request(Method::GET, member.clone(), ["v2", "machines"], &[]);
        match self.http.send(request, MACHINES).await {
            Ok(reply) if reply.status.is_success() => {
                self.members.learn(member, &String::from_utf8_lossy(&reply.body));
            }
            Ok(reply) => tracing::debug!("etcd names no members of its cluster: {}", reply.failure()),
            Err(failure) => tracing::debug!("etcd names no members of its cluster: {failure}"),
        }
    }

    async fn write(&self, bank: &str, key: &str, value: &str) -> Outcome<()> {
        match self.ask(Method::PUT, bank, Some(key), &[], Some(value)).await? {
            Ok(_) => Ok(()),
            Err(refusal) => Err(refusal.into()),
        }
    }

    async fn value(&self, bank: &str, key: &str) -> Outcome<Option<String>> {
        match self.ask(Method::GET, bank, Some(key), &[], None).await? {
            Ok(found) => Ok(found.node.value.filter(|_| !found.node.dir)),
            Err(refusal) if refusal.code == KEY_NOT_FOUND => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    async fn decoded(&self, place: &Place) -> Outcome<Option<Vec<u8>>> {
        let Some(text) = self.value(&place.bank, &place.key).await? else { return Ok(None) };
        // A value that is not base64 cannot be unpacked either; the caller says so and reads the others.
        Ok(Some(STANDARD.decode(&text).unwrap_or_else(|_| text.into_bytes())))
    }

    /// Removes a key or a bank. Returns whether it existed; what does not fit the query is kept.
    async fn remove(&self, bank: &str, key: Option<&str>, query: &[(&str, &str)]) -> Outcome<bool> {
        match self.ask(Method::DELETE, bank, key, query, None).await? {
            Ok(_) => Ok(true),
            Err(refusal) if [KEY_NOT_FOUND, NOT_A_FILE, DIRECTORY_NOT_EMPTY].contains(&refusal.code) => Ok(false),
            Err(refusal) => Err(refusal.into()),
        }
    }

    async fn names(&self, bank: &str) -> Outcome<Vec<String>> {
        let found = match self.ask(Method::GET, bank, None, &[], None).await? {
            Ok(found) => found,
            Err(refusal) if refusal.code == KEY_NOT_FOUND => return Ok(Vec::new()),
            Err(refusal) => return Err(refusal.into()),
        };
        let names = found.node.nodes.iter().filter_map(|child| child.key.rsplit('/').next());
        Ok(names.filter(|name| !name.ends_with(&self.server.suffix)).map(str::to_owned).collect())
    }

    fn time(&self, place: &Place) -> String {
        format!("{}{}", place.key, self.server.suffix)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let message: String = refusal.message.chars().take(200).collect();
        Failure::new(format!("error {} of etcd: {message:?}", refusal.code))
    }
}

fn refused_without_code(reply: &Reply) -> Failure {
    match reply.status {
        StatusCode::NOT_FOUND => Failure::new(
            "the server has no API of version 2, which Salt's driver uses; etcd 3.4 and 3.5 have it with --enable-v2",
        ),
        _ => reply.failure(),
    }
}

impl Banks for Etcd {
    fn store<'a>(&'a self, place: &'a Place, value: Vec<u8>, now: i64) -> Answer<'a, ()> {
        Box::pin(async move {
            stamps::refuse(&place.key, &self.server.suffix)?;
            self.write(&place.bank, &place.key, &STANDARD.encode(value)).await?;
            self.write(&place.bank, &self.time(place), &now.to_string()).await
        })
    }

    fn fetch<'a>(&'a self, places: &'a [Place]) -> Answer<'a, Vec<Option<Vec<u8>>>> {
        let value = |place: &'a Place| -> Answer<'a, _> { Box::pin(self.decoded(place)) };
        Box::pin(http::values(places.iter().map(value).collect()))
    }

    fn updated<'a>(&'a self, place: &'a Place) -> Answer<'a, Option<i64>> {
        Box::pin(async move {
            let time = self.value(&place.bank, &self.time(place)).await?;
            Ok(time.and_then(|time| time.trim().parse().ok()))
        })
    }

    fn flush<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(async move {
            self.remove(&place.bank, Some(&self.time(place)), &[]).await?;
            let existed = self.remove(&place.bank, Some(&place.key), &[]).await?;
            // An empty directory would still be listed as a bank. etcd keeps those that are not empty.
            self.remove(&place.bank, None, &[("dir", "true")]).await?;
            Ok(existed)
        })
    }

    fn flush_bank<'a>(&'a self, bank: &'a str) -> Answer<'a, bool> {
        Box::pin(self.remove(bank, None, &[("recursive", "true")]))
    }

    fn list<'a>(&'a self, bank: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(self.names(bank))
    }

    fn contains<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(async move { Ok(self.value(&place.bank, &place.key).await?.is_some()) })
    }

    fn reconnect(&self) {
        // The connection was closed with its request, which took too long. Another member may be faster.
        self.members.leave(&self.members.current().0);
    }
}
