//! What the JSON gateway of etcd answers. It leaves out fields that are empty or zero, and writes numbers as texts.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use serde::Deserialize;

use crate::banks::{Failure, Outcome};
use crate::http::Reply;

/// The codes of gRPC.
const FAILED_PRECONDITION: u32 = 9;
const UNAUTHENTICATED: u32 = 16;

/// What a server without the API may lack.
const MISSING: &str = "the server has no API of version 3 over HTTP, which Salt's driver uses; etcd has it since 3.4, unless \
                       --enable-grpc-gateway is off";

/// What every answer of etcd has, and no other program's.
#[derive(Deserialize)]
struct Header {
    #[serde(rename = "cluster_id")]
    _cluster: String,
}

/// An answer that only says that a request was obeyed.
#[derive(Deserialize)]
pub(super) struct Done {
    #[serde(rename = "header")]
    _header: Header,
}

/// An answer about what was removed.
#[derive(Deserialize)]
pub(super) struct Deleted<'a> {
    #[serde(rename = "header")]
    _header: Header,
    #[serde(default, borrow)]
    deleted: Cow<'a, str>,
}

/// An answer with keys.
#[derive(Deserialize)]
pub(super) struct Found<'a> {
    #[serde(rename = "header")]
    _header: Header,
    #[serde(default, borrow)]
    kvs: Vec<Pair<'a>>,
}

/// An answer with the values of several keys.
#[derive(Deserialize)]
pub(super) struct Read<'a> {
    #[serde(rename = "header")]
    _header: Header,
    #[serde(borrow)]
    responses: Vec<One<'a>>,
}

#[derive(Deserialize)]
struct One<'a> {
    #[serde(rename = "response_range", borrow)]
    range: Range<'a>,
}

#[derive(Deserialize)]
struct Range<'a> {
    #[serde(default, borrow)]
    kvs: Vec<Pair<'a>>,
}

/// A key with its value, in base64.
#[derive(Deserialize)]
struct Pair<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(default, borrow)]
    value: Cow<'a, str>,
}

/// An answer to a login.
#[derive(Deserialize)]
pub(super) struct Token {
    #[serde(rename = "header")]
    _header: Header,
    token: String,
}

/// An answer that says why a request was refused.
#[derive(Deserialize)]
pub(super) struct Refusal {
    code: u32,
    message: String,
}

fn parsed<'a, T: Deserialize<'a>>(reply: &'a Reply) -> Outcome<T> {
    serde_json::from_slice(&reply.body).map_err(|error| reply.malformed(error))
}

fn decoded(reply: &Reply, text: &str) -> Outcome<Vec<u8>> {
    STANDARD.decode(text).map_err(|error| reply.malformed(error))
}

impl Done {
    pub(super) fn check(reply: &Reply) -> Outcome<()> {
        parsed::<Done>(reply).map(drop)
    }
}

impl Deleted<'_> {
    /// Returns whether anything was removed.
    pub(super) fn any(reply: &Reply) -> Outcome<bool> {
        Ok(!["", "0"].contains(&&*parsed::<Deleted<'_>>(reply)?.deleted))
    }
}

impl Found<'_> {
    pub(super) fn keys(reply: &Reply) -> Outcome<Vec<Vec<u8>>> {
        parsed::<Found<'_>>(reply)?.kvs.iter().map(|pair| decoded(reply, &pair.key)).collect()
    }
}

impl Read<'_> {
    /// Returns the values of as many keys as were asked for, in their order.
    pub(super) fn values(reply: &Reply, asked: usize) -> Outcome<Vec<Option<Vec<u8>>>> {
        let responses = parsed::<Read<'_>>(reply)?.responses;
        if responses.len() != asked {
            return Err(reply.malformed(format!("there are {} answers for {asked} keys", responses.len())));
        }
        let value = |one: &One<'_>| one.range.kvs.first().map(|pair| decoded(reply, &pair.value)).transpose();
        responses.iter().map(value).collect()
    }
}

impl Token {
    /// Returns the token as it is sent. The answer is never shown.
    pub(super) fn read(reply: &Reply) -> Outcome<HeaderValue> {
        let Token { token, .. } =
            serde_json::from_slice(&reply.body).map_err(|_| Failure::new("the answer to the login has no token"))?;
        let mut token = HeaderValue::from_str(&token)
            .map_err(|_| Failure::new("the token of the login cannot be sent over HTTP"))?;
        token.set_sensitive(true);
        Ok(token)
    }
}

impl Refusal {
    /// Reads why a request was refused.
    pub(super) fn read(reply: &Reply) -> Outcome<Self> {
        serde_json::from_slice(&reply.body).map_err(|_| match reply.status {
            StatusCode::NOT_FOUND => Failure::new(MISSING),
            _ => reply.failure(),
        })
    }

    /// Reads why a login was refused. An answer that may repeat the password is not shown.
    pub(super) fn of_login(reply: &Reply, password: &str) -> Outcome<Self> {
        serde_json::from_slice(&reply.body)
            .ok()
            .filter(|refusal: &Refusal| !refusal.message.contains(password))
            .ok_or_else(|| match reply.status {
                StatusCode::NOT_FOUND => Failure::new(MISSING),
                status => Failure::new(format!("the answer to the login is HTTP {}", status.as_u16())),
            })
    }

    /// Returns whether a new login may help: the token has expired, or the server was restarted, or its users changed.
    pub(super) fn wants_login(&self) -> bool {
        self.code == UNAUTHENTICATED
            || ["user name is empty", "auth store is old"].iter().any(|words| self.message.contains(words))
    }

    /// Returns whether the server has no users.
    pub(super) fn says_no_logins(&self) -> bool {
        self.code == FAILED_PRECONDITION && self.message.contains("authentication is not enabled")
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let message: String = refusal.message.chars().take(200).collect();
        Failure::new(format!("error {} of etcd: {message:?}", refusal.code))
    }
}

/// Reads the addresses of the members of a cluster. Those that only learn do not answer.
pub(super) fn members(answer: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Members {
        #[serde(default)]
        members: Vec<Member>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Member {
        #[serde(rename = "clientURLs", default)]
        urls: Vec<String>,
        #[serde(default)]
        is_learner: bool,
    }
    let Members { members } = serde_json::from_slice(answer).unwrap_or(Members { members: Vec::new() });
    members.into_iter().filter(|member| !member.is_learner).flat_map(|member| member.urls).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status: StatusCode::from_u16(status).unwrap(), headers: Default::default(), body: body.into() }
    }

    const HEADER: &str = r#""header":{"cluster_id":"1","member_id":"2","revision":"3","raft_term":"2"}"#;

    #[test]
    fn values_are_in_the_order_of_the_keys() {
        let pair = r#"{"key":"L2E=","create_revision":"2","version":"1","value":"AAH/"}"#;
        let body = format!(
            r#"{{{HEADER},"succeeded":true,"responses":[{{"response_range":{{"header":{{"revision":"2"}}}}}},{{"response_range":{{"kvs":[{pair}],"count":"1"}}}}]}}"#
        );
        let reply = reply(200, &body);
        assert_eq!(Read::values(&reply, 2).unwrap(), [None, Some(vec![0, 1, 255])]);
        assert!(Read::values(&reply, 3).unwrap_err().to_string().contains("2 answers for 3 keys"));
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let (nothing, two) = (format!("{{{HEADER}}}"), format!(r#"{{{HEADER},"deleted":"2"}}"#));
        assert_eq!(Found::keys(&reply(200, &nothing)).unwrap(), Vec::<Vec<u8>>::new());
        assert!(!Deleted::any(&reply(200, &nothing)).unwrap() && Deleted::any(&reply(200, &two)).unwrap());
        assert!(Done::check(&reply(200, "{}")).is_err(), "that is not etcd");
    }

    #[test]
    fn members_that_only_learn_are_left_out() {
        let answer =
            br#"{"members":[{"ID":"1","clientURLs":["http://a:1","http://b:1"]},{"ID":"2","peerURLs":["http://c:2"]},
            {"clientURLs":["http://d:1"],"isLearner":true}]}"#;
        assert_eq!(members(answer), ["http://a:1", "http://b:1"]);
        assert_eq!(members(b"<html>"), Vec::<String>::new());
    }

    #[test]
    fn a_refusal_says_whether_to_log_in() {
        let refusal = |status, body: &str| Refusal::read(&reply(status, body)).unwrap();
        let wanted = refusal(401, r#"{"error":"x","message":"etcdserver: invalid auth token","code":16}"#);
        assert!(wanted.wants_login() && !wanted.says_no_logins());
        assert!(refusal(400, r#"{"code":3,"message":"etcdserver: user name is empty","details":[]}"#).wants_login());
        assert!(!refusal(403, r#"{"code":7,"message":"etcdserver: permission denied"}"#).wants_login());
        assert!(refusal(412, r#"{"message":"etcdserver: authentication is not enabled","code":9}"#).says_no_logins());
        assert!(Refusal::read(&reply(404, "404 page not found\n")).err().unwrap().to_string().contains("version 3"));
    }
}
