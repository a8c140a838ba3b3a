//! Salt's driver `etcd3`: each value with its time under one key in etcd's store of version 3, over its JSON gateway.

mod answers;
mod envelope;
mod keys;
mod session;

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Url};
use serde_json::{Value as Json, json};

use super::Server;
use super::cluster::Cluster;
use crate::banks::{Answer, Outcome, Place};
use crate::http::{LIST, Reply, VALUE};
use crate::{Banks, Result};
use answers::{Deleted, Done, Found, Read, Refusal, Token};
use keys::Keys;
use session::{Session, Sessions};

/// The number of values that are read with one request. etcd allows 128 operations in a transaction by default.
const AT_ONCE: usize = 125;

/// The maximum length of the answers without values.
const SHORT: usize = 64 << 10;

/// Returns the driver of a server.
pub(super) fn banks(server: Server) -> Result<Arc<dyn Banks>> {
    let cluster = Cluster::new(&server, HeaderMap::new(), answers::members)?;
    Ok(Arc::new(Etcd3 { cluster, sessions: Sessions::default(), login: server.login, keys: Keys::new(&server.prefix) }))
}

struct Etcd3 {
    cluster: Cluster,
    sessions: Sessions,
    login: Option<(String, String)>,
    keys: Keys,
}

impl Etcd3 {
    /// Calls a method. Logs in before if that is needed, also when the server has forgotten the token.
    async fn call(&self, method: &str, request: &Json, most: usize) -> Outcome<Reply> {
        let session = self.sessions.current();
        let refusal = match self.send(method, request, self.token(&session).await?, most).await? {
            Ok(reply) => return Ok(reply),
            Err(refusal) => refusal,
        };
        if self.login.is_none() || !refusal.wants_login() {
            return Err(refusal.into());
        }
        let session = self.sessions.after(&session);
        Ok(self.send(method, request, self.token(&session).await?, most).await??)
    }

    /// Sends a request, and asks for the members of the cluster after the first one.
    async fn send(
        &self,
        method: &str,
        request: &Json,
        token: Option<&HeaderValue>,
        most: usize,
    ) -> Outcome<std::result::Result<Reply, Refusal>> {
        let reply = self.post(method, request, token, most).await?;
        if !reply.status.is_success() {
            return Refusal::read(&reply).map(Err);
        }
        // With the token: etcd may name its members to users only.
        let nothing = Bytes::from_static(b"{}");
        self.cluster.learn(|member| self.request(member, "cluster/member/list", nothing.clone(), token)).await;
        Ok(Ok(reply))
    }

    /// Sends a request, with the token of a user if there is one.
    async fn post(&self, method: &str, request: &Json, token: Option<&HeaderValue>, most: usize) -> Outcome<Reply> {
        let body = Bytes::from(request.to_string());
        self.cluster.reach(|member| self.request(member, method, body.clone(), token), most).await
    }

    fn request(&self, member: Url, method: &str, body: Bytes, token: Option<&HeaderValue>) -> RequestBuilder {
        let path = ["v3"].into_iter().chain(method.split('/'));
        let request = self.cluster.http.request(Method::POST, member, path, &[]).body(body);
        token.into_iter().fold(request, |request, token| request.header(AUTHORIZATION, token))
    }

    /// Returns the token of a session. All requests of the session wait for one login.
    async fn token<'s>(&self, session: &'s Session) -> Outcome<Option<&'s HeaderValue>> {
        let Some(login) = &self.login else { return Ok(None) };
        Ok(session.get_or_try_init(|| self.log_in(login)).await?.as_ref())
    }

    async fn log_in(&self, (user, password): &(String, String)) -> Outcome<Option<HeaderValue>> {
        let reply = self.post("auth/authenticate", &json!({"name": user, "password": password}), None, SHORT).await?;
        if reply.status.is_success() {
            return Token::read(&reply).map(Some);
        }
        match Refusal::of_login(&reply, password)? {
            // As with etcd's own clients, so that logins can be turned on while masters run.
            refusal if refusal.says_no_logins() => Ok(None),
            refusal => Err(refusal.into()),
        }
    }

    /// Reads what is stored under some keys.
    async fn read(&self, places: &[Place]) -> Outcome<Vec<Option<Vec<u8>>>> {
        let (mut all, mut room) = (Vec::with_capacity(places.len()), LIST);
        for places in places.chunks(AT_ONCE) {
            let reads: Vec<Json> = places.iter().map(|place| json!({"request_range": self.keys.of(place)})).collect();
            let most = room.min(VALUE * places.len());
            let reply = self.call("kv/txn", &json!({"success": reads}), most).await?;
            room -= reply.body.len();
            all.extend(Read::values(&reply, places.len())?);
        }
        Ok(all)
    }

    /// Removes keys. Returns whether there was one.
    async fn delete(&self, keys: Json) -> Outcome<bool> {
        Deleted::any(&self.call("kv/deleterange", &keys, SHORT).await?)
    }
}

impl Banks for Etcd3 {
    fn store<'a>(&'a self, place: &'a Place, value: Vec<u8>, now: i64) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut request = self.keys.of(place);
            request["value"] = STANDARD.encode(envelope::packed(&value, now)).into();
            // Without a lease: the value stays even if the one that it replaces would have expired.
            Done::check(&self.call("kv/put", &request, SHORT).await?)
        })
    }

    fn fetch<'a>(&'a self, places: &'a [Place]) -> Answer<'a, Vec<Option<Vec<u8>>>> {
        Box::pin(self.read(places))
    }

    fn value(&self, stored: Bytes) -> std::result::Result<Bytes, String> {
        envelope::value(&stored)
    }

    fn updated<'a>(&'a self, place: &'a Place) -> Answer<'a, Option<i64>> {
        Box::pin(async move {
            let stored = self.read(std::slice::from_ref(place)).await?.pop().flatten();
            Ok(stored.and_then(|stored| envelope::time(&Bytes::from(stored))))
        })
    }

    fn flush<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(self.delete(self.keys.of(place)))
    }

    fn flush_bank<'a>(&'a self, bank: &'a str) -> Answer<'a, bool> {
        Box::pin(self.delete(self.keys.below(bank)))
    }

    fn list<'a>(&'a self, bank: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(async move {
            let mut request = self.keys.below(bank);
            request["keys_only"] = true.into();
            let reply = self.call("kv/range", &request, LIST).await?;
            // A key can have a value, and keys below it.
            let names: BTreeSet<String> =
                Found::keys(&reply)?.iter().filter_map(|key| self.keys.name(bank, key)).collect();
            Ok(names.into_iter().collect())
        })
    }

    fn contains<'a>(&'a self, place: &'a Place) -> Answer<'a, bool> {
        Box::pin(async move {
            let mut request = self.keys.of(place);
            request["keys_only"] = true.into();
            Ok(!Found::keys(&self.call("kv/range", &request, SHORT).await?)?.is_empty())
        })
    }

    fn reconnect(&self) {
        self.cluster.leave();
    }
}
