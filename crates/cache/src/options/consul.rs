//! The options of the driver `consul`.

use value::{Map, Value};

use super::{http_target, text};
use crate::consul::{Consistency, Server};
use crate::http::Trust;
use crate::{Error, Result};

pub(super) fn read(options: &Map) -> Result<Server> {
    let mut target = http_target(options, ["consul.scheme", "consul.host", "consul.port"], 8500)?;
    // As the client of Salt does.
    target.proxies = true;
    target.trust = match options.get("consul.verify") {
        None | Some(Value::Null | Value::Bool(true)) => Trust::System,
        Some(Value::Bool(false)) => Trust::Any,
        Some(Value::Str(_)) => match text(options, "consul.verify")? {
            Some(path) => Trust::File { option: "consul.verify", path: path.into() },
            None => Trust::System,
        },
        Some(_) => return Err(Error::option("consul.verify", "must be true, false or the path of a file")),
    };
    let consistency = match text(options, "consul.consistency")?.as_deref() {
        None | Some("default") => Consistency::Default,
        Some("consistent") => Consistency::Consistent,
        Some("stale") => Consistency::Stale,
        Some(other) => {
            let reason = format!("must be default, consistent or stale, not {other:?}");
            return Err(Error::option("consul.consistency", reason));
        }
    };
    Ok(Server {
        target,
        token: text(options, "consul.token")?,
        consistency,
        dc: text(options, "consul.dc")?,
        suffix: text(options, "consul.timestamp_suffix")?.unwrap_or_else(|| ".tstamp".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn defaults_are_those_of_salt() {
        let server = read(&map! {}).unwrap();
        assert_eq!(server.target.address(), "http://127.0.0.1:8500");
        assert_eq!((&server.token, &server.dc, server.consistency), (&None, &None, Consistency::Default));
        assert_eq!((server.suffix.as_str(), server.target.trust), (".tstamp", Trust::System));
    }

    #[test]
    fn options_are_obeyed_and_no_token_is_shown() {
        let options = map! {
            "consul.host" => "kv.example", "consul.port" => "8501", "consul.scheme" => "https",
            "consul.token" => "secret", "consul.dc" => "east", "consul.consistency" => "stale",
            "consul.verify" => "/etc/ca.pem", "consul.timestamp_suffix" => ".time",
        };
        let server = read(&options).unwrap();
        assert!(!format!("{server:?}").contains("secret"), "{server:?}");
        let ca = Trust::File { option: "consul.verify", path: "/etc/ca.pem".into() };
        assert_eq!((server.target.address().as_str(), &server.target.trust), ("https://kv.example:8501", &ca));
        assert_eq!((server.token.as_deref(), server.dc.as_deref()), (Some("secret"), Some("east")));
        assert_eq!((server.consistency, server.suffix.as_str()), (Consistency::Stale, ".time"));
        assert_eq!(read(&map! { "consul.verify" => false }).unwrap().target.trust, Trust::Any);
    }

    #[test]
    fn an_error_names_the_option() {
        for (name, value) in [
            ("consul.scheme", Value::from("ftp")),
            ("consul.host", "user@a".into()),
            ("consul.port", 70_000.into()),
            ("consul.consistency", "often".into()),
            ("consul.verify", 1.into()),
        ] {
            let mut options = map! {};
            options.insert(name, value);
            assert!(read(&options).unwrap_err().to_string().contains(name));
        }
        let error = Server { token: Some("a\nb".into()), ..read(&map! {}).unwrap() }.banks().err().unwrap().to_string();
        assert!(error.contains("'consul.token'") && !error.contains("a\nb"), "{error}");
    }
}
