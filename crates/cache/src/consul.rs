//! Salt's driver `consul`: a value per key in Consul's store, and the time of each under the same key with a suffix.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};

use crate::banks::{Answer, Outcome, Place};
use crate::http::{self, Http, LIST, Reply, Target, VALUE};
use crate::{Banks, Result, stamps};

/// How current the answers of Consul are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Consistency {
    /// Almost always current: the leader answers without asking the other servers.
    Default,
    /// Always current.
    Consistent,
    /// Any server answers from what it has.
    Stale,
}

/// The agent of Consul, and what is sent with each request.
#[derive(Clone, PartialEq)]
pub struct Server {
    /// Its address.
    pub target: Target,
    /// The token.
    pub token: Option<String>,
    /// How current answers are.
    pub consistency: Consistency,
    /// The data centre; that of the agent by default.
    pub dc: Option<String>,
    /// The end of the keys of times.
    pub suffix: String,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the token.
        f.debug_struct("Server").field("target", &self.target).field("dc", &self.dc).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns the driver. Nothing is connected yet.
    ///
    /// # Errors
    /// If a file with certificates cannot be used.
    pub fn banks(self) -> Result<Arc<dyn Banks>> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.token {
            headers.insert("x-consul-token", http::header(token, "consul.token")?);
        }
        let http = Http::new(&self.target, headers, "consul.host")?;
        Ok(Arc::new(Consul { http, server: self }))
    }
}

struct Consul {
    http: Http,
    server: Server,
}

impl Consul {
    /// Sends a request about a key, or about all keys that begin with `bank/` if the name is empty.
    async fn ask(
        &self,
        method: Method,
        (bank, name): (&str, &str),
        query: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Outcome<Reply> {
        let mut all = query.to_vec();
        all.extend(self.server.dc.as_deref().map(|dc| ("dc", dc)));
        match self.server.consistency {
            Consistency::Consistent if method == Method::GET => all.push(("consistent", "")),
            Consistency::Stale if method == Method::GET => all.push(("stale", "")),
            _ => {}
        }
        let most = if query.iter().any(|(name, _)| *name == "keys") { LIST } else { VALUE };
        let path = ["v1", "kv"].into_iter().chain(bank.split('/')).chain([name]);
        let request = self.http.request(method, self.server.target.url.clone(), path, &all);
        self.http.send(body.into_iter().fold(request, reqwest::RequestBuilder::body), most).await
    }

    /// Changes a key. Consul answers with `true` whether it existed or not.
    async fn change(
        &self,
        method: Method,
        key: (&str, &str),
        query: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Outcome<()> {
        let reply = self.ask(method, key, query, body).await?;
        match reply.status {
            StatusCode::OK if reply.body.trim_ascii() == b"true" => Ok(()),
            StatusCode::OK => Err(reply.malformed("`true` was expected")),
            _ => Err(reply.failure()),
        }
    }

    /// Reads a key, or the names of keys.
    async fn read(&self, key: (&str, &str), query: &[(&str, &str)]) -> Outcome<Option<Reply>> {
        let reply = self.ask(Method::GET, key, query, None).await?;
        // Other programs answer 404, too, and that does not mean that there is no value.
        let is_consul = reply.headers.contains_key("x-consul-index");
        match reply.status {
            StatusCode::OK if is_consul => Ok(Some(reply)),
            StatusCode::NOT_FOUND if is_consul => Ok(None),
            StatusCode::OK => Err(reply.malformed("it has no index of Consul")),
            _ => Err(reply.failure()),
        }
    }

    async fn value(&self, bank: &str, name: &str) -> Outcome<Option<Vec<u8>>> {
        Ok(self.read((bank, name), &[("raw", "")]).await?.map(|reply| reply.body))
    }

    async fn names(&self, bank: &str) -> Outcome<Vec<String>> {
        let Some(reply) = self.read((bank, ""), &[("keys", ""), ("separator", "/")]).await? else {
            return Ok(Vec::new());
        };
        let keys: Vec<String> = serde_json::from_slice(&reply.body).map_err(|error| reply.malformed(error))?;
        let below = keys.iter().filter_map(|key| key.strip_prefix(bank)?.strip_prefix('/'));
        // A key can have a value, and keys below it.
        let names: BTreeSet<&str> = below.map(|name| name.trim_end_matches('/')).collect();
        let names = names.into_iter().filter(|name| !name.is_empty() && !name.ends_with(&self.server.suffix));
        Ok(names.map(str::to_owned).collect())
    }

    fn time(&self, place: &Place) -> String {
        format!("{}{}", place.key, self.server.suffix)
    }
}

impl Banks for Consul {
    fn store<'a>(&'a self, place: &'a Place, value: Vec<u8>, now: i64) -> Answer<'a, ()> {
        Box::pin(async move {
            stamps::refuse(&place.key, &self.server.suffix)?;
            self.change(Method::PUT, (&place.bank, &place.key), &[], Some(value)).await?;
            let now = stamps::packed(now);
            self.change(Method::PUT, (&place.bank, &self.time(place)), &[], Some(now)).await
        })
    }

    fn fetch<'a>(&'a self, places: &'a [Place]) -> Answer<'a, Vec<Option<Vec<u8>>>> {
        let value = |place: &'a Place| -> Answer<'a, _> { Box::pin(self.value(&place.bank, &place.key)) };
        Box::pin(http::values(places.iter().map(value).collect()))
    }

    fn updated<'a>(&'a self, place: &'a Place) -> Answer<'a, Option<i64>> {
        Box::pin(async move { Ok(stamps::unpacked(self.value(&place.bank, &self.time(place)).await?)) })
    }

    fn flush<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(async move {
            let existed = self.contains(place).await?;
            self.change(Method::DELETE, (&place.bank, &self.time(place)), &[], None).await?;
            self.change(Method::DELETE, (&place.bank, &place.key), &[], None).await?;
            Ok(existed)
        })
    }

    fn flush_bank<'a>(&'a self, bank: &'a str) -> Answer<'a, bool> {
        Box::pin(async move {
            let existed = !self.names(bank).await?.is_empty();
            // With the slash, so that no bank is removed whose name only begins like this one's.
            self.change(Method::DELETE, (bank, ""), &[("recurse", "")], None).await?;
            Ok(existed)
        })
    }

    fn list<'a>(&'a self, bank: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(self.names(bank))
    }

    fn contains<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(async move { Ok(self.value(&place.bank, &place.key).await?.is_some()) })
    }

    fn reconnect(&self) {
        // A connection whose request was abandoned is closed with it.
    }
}
