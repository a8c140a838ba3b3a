//! Salt's driver `etcd`: directories and values in etcd's store of version 2, and the time of each value beside it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;

use super::Server;
use super::cluster::Cluster;
use crate::banks::{Answer, Failure, Outcome, Place};
use crate::http::{self, LIST, Reply, VALUE};
use crate::{Banks, Result, stamps};

/// etcd's codes of errors.
const KEY_NOT_FOUND: u32 = 100;
const NOT_A_FILE: u32 = 102;
const DIRECTORY_NOT_EMPTY: u32 = 108;

/// Returns the driver of a server.
pub(super) fn banks(server: Server, suffix: String) -> Result<Arc<dyn Banks>> {
    let mut headers = HeaderMap::new();
    if let Some((user, password)) = &server.login {
        let login = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        headers.insert(AUTHORIZATION, http::header(&login, "etcd.password")?);
    }
    let cluster = Cluster::new(&server, headers, roster)?;
    Ok(Arc::new(Etcd { cluster, prefix: server.prefix, suffix }))
}

/// Reads the members of a cluster, which are separated by commas.
fn roster(answer: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(answer).split(',').map(|url| url.trim().to_owned()).collect()
}

struct Etcd {
    cluster: Cluster,
    prefix: String,
    suffix: String,
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
            let prefix = self.prefix.split('/').filter(|part| !part.is_empty());
            let path = ["v2", "keys"].into_iter().chain(prefix).chain(bank.split('/')).chain(key);
            let request = self.cluster.http.request(method.clone(), member, path, query);
            value.into_iter().fold(request, |request, value| request.form(&[("value", value)]))
        };
        let reply = self.cluster.reach(begin, if key.is_some() { VALUE } else { LIST }).await?;
        self.cluster.learn(|member| self.cluster.http.request(Method::GET, member, ["v2", "machines"], &[])).await;
        if reply.status.is_success() {
            return serde_json::from_slice(&reply.body).map(Ok).map_err(|error| reply.malformed(error));
        }
        serde_json::from_slice(&reply.body).map(Err).map_err(|_| refused_without_code(&reply))
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
        Ok(names.filter(|name| !name.ends_with(&self.suffix)).map(str::to_owned).collect())
    }

    fn time(&self, place: &Place) -> String {
        format!("{}{}", place.key, self.suffix)
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
            stamps::refuse(&place.key, &self.suffix)?;
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
        self.cluster.leave();
    }
}
