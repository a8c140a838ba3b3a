//! Requests over HTTP, for the drivers `consul` and `etcd`.

mod tls;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url};

use crate::banks::{Answer, Failure, Outcome};
use crate::{Error, Result};

pub use tls::{Identity, Trust};

/// The number of requests to a server at the same time. Consul closes connections above 200 per client.
const AT_ONCE: usize = 32;

/// The maximum length of the answer with a value.
pub(crate) const VALUE: usize = 8 << 20;

/// The maximum length of the answer with the names in a bank, which includes the values with version 2 of etcd, and of all values that
/// are read at once.
pub(crate) const LIST: usize = 256 << 20;

/// The longest part of an answer that is shown.
const SHOWN: usize = 200;

/// The address of a server, and how both sides prove who they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its URL, without a path.
    pub url: Url,
    /// The certificates that are accepted.
    pub trust: Trust,
    /// Our own certificate.
    pub identity: Option<Identity>,
    /// The number of redirects that are followed.
    pub redirects: usize,
    /// Whether the proxies of the environment are used.
    pub proxies: bool,
}

impl Target {
    /// Returns the target at an address, with the certificates that the system trusts.
    ///
    /// # Errors
    /// If the host is not valid.
    pub fn new(scheme: &str, host: &str, port: u16) -> std::result::Result<Self, String> {
        let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
        let url = Url::parse(&format!("{scheme}://{host}:{port}/")).map_err(|error| format!("{host:?}: {error}"))?;
        let plain = url.path() == "/" && url.username().is_empty() && url.password().is_none();
        if !plain || url.query().is_some() || url.fragment().is_some() {
            return Err("must be a name or an address, and nothing else".to_owned());
        }
        Ok(Target { url, trust: Trust::System, identity: None, redirects: 0, proxies: false })
    }

    /// Returns the same target with TLS, on the same port.
    ///
    /// # Errors
    /// If there is no such address.
    pub(crate) fn with_tls(self) -> std::result::Result<Self, String> {
        // The default port of HTTP is no part of a URL, and that of HTTPS is another.
        let (host, port) =
            (self.url.host_str().unwrap_or_default(), self.url.port_or_known_default().unwrap_or_default());
        let url = Target::new("https", host, port)?.url;
        Ok(Target { url, ..self })
    }

    /// Returns the address as it is shown.
    pub fn address(&self) -> String {
        self.url.as_str().trim_end_matches('/').to_owned()
    }
}

/// A client.
pub(crate) struct Http(Client);

/// An answer that was read to its end.
pub(crate) struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Http {
    /// Returns a client that sends `headers` with each request. Nothing is connected yet.
    pub(crate) fn new(target: &Target, mut headers: HeaderMap, option: &'static str) -> Result<Self> {
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        let redirects = match target.redirects {
            0 => Policy::none(),
            most => Policy::limited(most),
        };
        let mut builder =
            Client::builder().default_headers(headers).redirect(redirects).pool_max_idle_per_host(AT_ONCE);
        if !target.proxies {
            builder = builder.no_proxy();
        }
        builder = target.trust.apply(builder)?;
        if let Some(identity) = &target.identity {
            builder = builder.identity(identity.load()?);
        }
        let client = builder.build().map_err(|error| Error::option(option, reason(error)))?;
        Ok(Http(client))
    }

    /// Begins a request for a path of the server, whose segments may contain any character.
    pub(crate) fn request<'a>(
        &self,
        method: Method,
        mut url: Url,
        path: impl IntoIterator<Item = &'a str>,
        query: &[(&str, &str)],
    ) -> RequestBuilder {
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.clear().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.0.request(method, url)
    }

    /// Sends a request that can be repeated, and reads the answer up to `most` bytes. The request is sent again if the
    /// server closed a connection that was open since an earlier one.
    pub(crate) async fn send(&self, request: RequestBuilder, most: usize) -> Outcome<Reply> {
        let again = request.try_clone();
        let response = match (request.send().await, again) {
            (Err(error), Some(again)) if error.is_request() && !error.is_connect() => again.send().await,
            (other, _) => other,
        };
        let mut response = response.map_err(|error| match error.is_connect() {
            true => Failure::unreached(reason(error)),
            false => Failure::new(reason(error)),
        })?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| Failure::new(reason(error)))? {
            if body.len() + chunk.len() > most {
                return Err(Failure::new(format!("the answer is longer than {most} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply { status, headers, body })
    }
}

impl Reply {
    /// Returns the failure that this answer is, with the beginning of its text.
    pub(crate) fn failure(&self) -> Failure {
        Failure::new(format!("the answer is HTTP {}: {:?}", self.status.as_u16(), beginning(&self.body)))
    }

    /// Returns the failure that an answer in the wrong form is.
    pub(crate) fn malformed(&self, why: impl std::fmt::Display) -> Failure {
        Failure::new(format!("the answer is not valid ({why}): {:?}", beginning(&self.body)))
    }
}

fn beginning(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).trim_end().to_owned()
}

/// Reads several values, some of them at the same time, and returns them in order.
pub(crate) async fn values(requests: Vec<Answer<'_, Option<Vec<u8>>>>) -> Outcome<Vec<Option<Vec<u8>>>> {
    let (mut all, mut length) = (Vec::with_capacity(requests.len()), 0);
    let mut answers = stream::iter(requests).buffered(AT_ONCE);
    while let Some(value) = answers.try_next().await? {
        length += value.as_ref().map_or(0, Vec::len);
        if length > LIST {
            return Err(Failure::new(format!("{} values are longer than {LIST} bytes", all.len() + 1)));
        }
        all.push(value);
    }
    Ok(all)
}

/// Returns the value of a header.
pub(crate) fn header(text: &str, option: &'static str) -> Result<HeaderValue> {
    HeaderValue::from_str(text).map_err(|_| Error::option(option, "has characters that cannot be sent over HTTP"))
}

/// Returns an error with its causes, and without the URL.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        assert_eq!(Target::new("http", "::1", 8500).unwrap().address(), "http://[::1]:8500");
        assert_eq!(Target::new("https", "consul.example", 443).unwrap().address(), "https://consul.example");
        assert_eq!(Target::new("http", "::1", 80).unwrap().with_tls().unwrap().address(), "https://[::1]:80");
        for host in ["a/b", "user:secret@a", "a?b", "a#b", "", "a b"] {
            assert!(Target::new("http", host, 1).is_err(), "{host:?}");
        }
    }

    #[test]
    fn names_stay_one_segment_of_the_path() {
        let target = Target::new("http", "a", 1).unwrap();
        let http = Http::new(&target, HeaderMap::new(), "consul.host").unwrap();
        let path = ["v1", "kv", "minions", "a/b?c#d%2e é", ""];
        let request = http.request(Method::GET, target.url, path, &[("dc", "x&y")]).build().unwrap();
        assert_eq!(request.url().as_str(), "http://a:1/v1/kv/minions/a%2Fb%3Fc%23d%252e%20%C3%A9/?dc=x%26y");
    }
}
