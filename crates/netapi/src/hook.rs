//! Webhooks: a request becomes an event.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use value::{Map, map};

use crate::api::Api;
use crate::exchange::{ReceivedRequest, Reply};
use crate::failure::Failure;

/// The tag of events of webhooks, to which the rest of the path is added.
const TAG: &str = "salt/netapi/hook";

/// The longest rest of a path, in bytes.
const LONGEST: usize = 1024;

/// Headers that prove who somebody is. Their values do not go to the bus.
const SECRET: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-auth-token"];

/// Fires the event of a request.
///
/// # Errors
/// When the request is wrong, or the event cannot be fired.
pub async fn fire(api: &Arc<Api>, request: &ReceivedRequest) -> Result<Reply, Failure> {
    if api.options.hook_login {
        request.confirmed(api).await?;
    } else if request.caller.is_none() {
        api.count_hook(request.address)?;
    }
    let tag = tag(&request.rest)?;
    let post = request.data()?.filter(value::Value::truthy).unwrap_or_else(|| Map::new().into());
    let body = String::from_utf8_lossy(&request.body).into_owned();
    api.link
        .bus
        .fire(&tag, map! { "body" => body, "post" => post, "headers" => headers(request.address, &request.headers) })
        .await?;
    Ok(map! { "success" => true }.into())
}

fn tag(rest: &str) -> Result<String, Failure> {
    if rest.is_empty() {
        return Ok(TAG.to_owned());
    }
    let is_bad = |part: &str| matches!(part, "" | "." | "..") || part.contains(char::is_control);
    if rest.len() > LONGEST || rest.split('/').any(is_bad) {
        return Err(Failure::bad_request("The path cannot be the tag of an event"));
    }
    Ok(format!("{TAG}/{rest}"))
}

fn headers(client: IpAddr, headers: &HeaderMap) -> Map {
    let mut all = map! { "Remote-Addr" => client.to_string() };
    for (name, value) in headers {
        let value = match SECRET.contains(&name.as_str()) {
            true => "***".to_owned(),
            false => String::from_utf8_lossy(value.as_bytes()).into_owned(),
        };
        // A client cannot say that it is somewhere else: reactors trust this address.
        if name != "remote-addr" {
            all.insert(title(name.as_str()), value);
        }
    }
    all
}

/// Writes the name of a header as CherryPy does.
fn title(name: &str) -> String {
    let part = |part: &str| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('-').map(part).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_path_becomes_a_tag() {
        assert_eq!(tag("").unwrap(), "salt/netapi/hook");
        assert_eq!(tag("a/b.c").unwrap(), "salt/netapi/hook/a/b.c");
        for bad in ["a//b", "../x", "a/..", "a\nb", "a\0", "/", "a/", &"a".repeat(LONGEST + 1)] {
            assert_eq!(tag(bad).unwrap_err().status, 400, "{bad:?}");
        }
    }

    #[test]
    fn no_credentials_go_to_the_bus() {
        let mut sent = HeaderMap::new();
        for name in SECRET {
            sent.insert(name, HeaderValue::from_static("secret"));
        }
        sent.insert("x-gitlab-event", HeaderValue::from_static("push"));
        sent.insert("remote-addr", HeaderValue::from_static("10.9.9.9"));
        let shown = headers("192.0.2.7".parse().unwrap(), &sent);
        assert_eq!(shown.text_keys().next(), Some("Remote-Addr"));
        assert_eq!(shown.get_str("Remote-Addr"), Some("192.0.2.7"));
        assert_eq!(shown.get_str("X-Gitlab-Event"), Some("push"));
        assert_eq!(shown.get_str("X-Auth-Token"), Some("***"));
        assert!(!format!("{shown:?}").contains("secret"));
    }
}
