//! Requests and answers between the routes and their handlers.

use std::fmt;
use std::net::IpAddr;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{HeaderMap, HeaderName};
use axum::http::{Method, StatusCode};
use bytes::Bytes;
use value::{Map, Value, escape};

use crate::api::{Api, Caller};
use crate::failure::Failure;
use crate::files::Opened;

/// The address of the client.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Who sent a request, for the log.
pub struct Client {
    address: Option<IpAddr>,
    user: Option<String>,
}

impl Client {
    /// Returns the sender of a request, of whom nothing but the address is known yet.
    pub fn of(request: &Request) -> Self {
        Client { address: request.extensions().get::<Peer>().map(|peer| peer.0), user: None }
    }

    /// Notes who it is, if there is a session.
    pub fn note(&mut self, caller: Option<&Caller>) {
        self.user = caller.map(|caller| caller.session.user.clone());
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.address, &self.user) {
            (Some(address), Some(user)) => write!(f, "{address} ({}): ", escape::escaped(&escape::brief(user, 60))),
            (Some(address), None) => write!(f, "{address}: "),
            (None, _) => Ok(()),
        }
    }
}

/// A thing with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// `/`
    Root,
    /// `/login`
    Login,
    /// `/logout`
    Logout,
    /// `/minions`
    Minions,
    /// `/jobs`
    Jobs,
    /// `/keys`
    Keys,
    /// `/run`
    Run,
    /// `/token`
    Token,
    /// `/events`
    Events,
    /// `/ws`
    WebSocket,
    /// The webhook.
    Hook,
    /// `/stats`
    Stats,
    /// A file of the directory `static`.
    Static,
    /// The page `app`.
    App,
    /// `/favicon.ico`
    Favicon,
}

impl Resource {
    /// Returns the methods that work, as the header `Allow` has them.
    pub fn allow(self) -> &'static str {
        match self {
            Resource::Root | Resource::Login | Resource::Minions | Resource::Keys | Resource::Run => "GET, HEAD, POST",
            Resource::Logout | Resource::Token | Resource::Hook => "POST",
            Resource::WebSocket => "GET",
            Resource::Events
            | Resource::Jobs
            | Resource::Stats
            | Resource::Static
            | Resource::App
            | Resource::Favicon => "GET, HEAD",
        }
    }

    /// Returns its name in the figures.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Root => "/",
            Resource::Login => "/login",
            Resource::Logout => "/logout",
            Resource::Minions => "/minions",
            Resource::Jobs => "/jobs",
            Resource::Keys => "/keys",
            Resource::Run => "/run",
            Resource::Token => "/token",
            Resource::Events => "/events",
            Resource::WebSocket => "/ws",
            Resource::Hook => "hook",
            Resource::Stats => "/stats",
            Resource::Static => "static",
            Resource::App => "app",
            Resource::Favicon => "/favicon.ico",
        }
    }

    /// Returns whether the answer is data, in the form that the client likes best.
    pub fn is_data(self, method: &Method) -> bool {
        // A new pair of keys is an archive.
        let archive = self == Resource::Keys && method == Method::POST;
        !(archive || self.is_stream() || self.is_file())
    }

    /// Returns whether the answer is a stream of events, which is never a page.
    pub fn is_stream(self) -> bool {
        matches!(self, Resource::Events | Resource::WebSocket)
    }

    /// Returns whether the answer is a file, whose form the client cannot choose.
    pub fn is_file(self) -> bool {
        matches!(self, Resource::Static | Resource::App | Resource::Favicon)
    }

    /// Returns whether a method works.
    pub fn allows(self, method: &Method) -> bool {
        self.allow().split(", ").any(|name| name == method.as_str())
    }
}

/// A request, after its body has arrived.
pub struct ReceivedRequest {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: String,
    /// The rest of the path.
    pub rest: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Who sends it, if they have logged in.
    pub caller: Option<Caller>,
    /// The address of the client.
    pub address: IpAddr,
}

impl ReceivedRequest {
    /// Returns a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        text(&self.headers, name)
    }

    /// Parses the body.
    pub fn data(&self) -> Result<Option<Value>, Failure> {
        crate::body::parse(self.header("content-type"), &self.body)
    }

    /// Returns the commands in the body.
    pub fn commands(&self) -> Result<Vec<Map>, Failure> {
        crate::body::commands(self.data()?)
    }

    /// Returns who has logged in.
    pub fn logged_in(&self) -> Result<&Caller, Failure> {
        self.caller.as_ref().ok_or_else(Failure::no_session)
    }

    /// Returns who has logged in, for what the master does not check: a token may be revoked before it expires.
    ///
    /// # Errors
    /// When nobody has, or the master cannot be asked.
    pub async fn confirmed(&self, api: &Api) -> Result<&Caller, Failure> {
        let caller = self.logged_in()?;
        match api.is_confirmed(caller).await? {
            true => Ok(caller),
            false => Err(Failure::no_session()),
        }
    }
}

/// The answer of a handler.
pub enum Reply {
    /// Data, with a status and further headers.
    Data(StatusCode, Value, Vec<(HeaderName, String)>),
    /// Bytes of a media type, with further headers.
    Bytes(&'static str, Bytes, Vec<(HeaderName, String)>),
    /// A stream of events.
    Stream(Body),
    /// A file, and the time of its last change.
    File(Opened, Option<String>),
    /// A file that has not changed since the time that the client named.
    Unchanged(String),
}

impl From<Map> for Reply {
    fn from(map: Map) -> Self {
        Reply::Data(StatusCode::OK, map.into(), Vec::new())
    }
}

/// Returns a header, if it is text.
pub fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
