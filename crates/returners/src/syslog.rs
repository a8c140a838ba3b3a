//! `syslog` — sends each return as one JSON message to the local syslog.

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::error;
use value::{Map, Value, list, map};

use crate::{Error, Options, Result, Returner, World, json};

/// The socket of syslog.
const SOCKET: &str = "/dev/log";

/// The levels, with their numbers.
const LEVELS: [&str; 8] =
    ["LOG_EMERG", "LOG_ALERT", "LOG_CRIT", "LOG_ERR", "LOG_WARNING", "LOG_NOTICE", "LOG_INFO", "LOG_DEBUG"];

/// The facilities, with their numbers.
const FACILITIES: [(&str, u32); 20] = [
    ("LOG_KERN", 0),
    ("LOG_USER", 1),
    ("LOG_MAIL", 2),
    ("LOG_DAEMON", 3),
    ("LOG_AUTH", 4),
    ("LOG_SYSLOG", 5),
    ("LOG_LPR", 6),
    ("LOG_NEWS", 7),
    ("LOG_UUCP", 8),
    ("LOG_CRON", 9),
    ("LOG_AUTHPRIV", 10),
    ("LOG_FTP", 11),
    ("LOG_LOCAL0", 16),
    ("LOG_LOCAL1", 17),
    ("LOG_LOCAL2", 18),
    ("LOG_LOCAL3", 19),
    ("LOG_LOCAL4", 20),
    ("LOG_LOCAL5", 21),
    ("LOG_LOCAL6", 22),
    ("LOG_LOCAL7", 23),
];

/// The options; those about the connection have no effect, because each message has its own.
const OPTIONS: [&str; 6] = ["LOG_PID", "LOG_CONS", "LOG_NDELAY", "LOG_NOWAIT", "LOG_ODELAY", "LOG_PERROR"];

/// Sends to the socket of the local syslog.
pub struct Syslog;

impl Returner for Syslog {
    fn name(&self) -> &'static str {
        "syslog"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["syslog_return"]
    }

    fn give<'a>(&'a self, world: &'a World, ret: &'a Map) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let defaults = map! { "level" => "LOG_INFO", "facility" => "LOG_USER", "options" => list![] };
            let options =
                Options::find(world, "syslog", &["level", "facility", "tag", "options"], defaults, Some(ret))?;
            let header = match Header::of(&options) {
                Ok(header) => header,
                // As in Salt, this is logged and the return is dropped.
                Err(reason) => {
                    error!("{reason}");
                    return Ok(());
                }
            };
            let now = Timestamp::try_from(world.rt.now()).map_err(Error::failed)?;
            let message = header.message(&json(&Value::Map(ret.clone()))?, now, std::process::id());
            if header.echo {
                // The message is sent whether or not anybody reads it.
                let _ = writeln!(std::io::stderr(), "{message}");
            }
            world.rt.blocking(move || send(Path::new(SOCKET), &message)).await.map_err(Error::failed)?
        })
    }
}

fn send(socket: &Path, message: &str) -> Result<()> {
    let sent = UnixDatagram::unbound().and_then(|from| from.send_to(message.as_bytes(), socket));
    sent.map(drop).map_err(|error| Error::failed(format!("failed to write to {}: {error}", socket.display())))
}

/// The header of a message.
#[derive(Debug, PartialEq)]
struct Header {
    priority: u32,
    tag: String,
    pid: bool,
    echo: bool,
}

impl Header {
    /// Parses the options.
    ///
    /// # Errors
    /// The error in Salt's words.
    fn of(options: &Options) -> std::result::Result<Self, String> {
        let text = |name: &str| options.get(name).map(Value::to_string).unwrap_or_default();
        let (level, facility) = (text("level"), text("facility"));
        // Salt looks each name up in Python's module `syslog`, hence these words.
        let unknown = |name: &str| format!("syslog has no attribute {name}");
        let level = LEVELS.iter().position(|name| *name == level).ok_or_else(|| unknown(&level))?;
        let found = FACILITIES.iter().find(|(name, _)| *name == facility).ok_or_else(|| unknown(&facility))?;
        let wanted = options.get("options").and_then(Value::as_list).unwrap_or_default();
        let wanted: Vec<String> = wanted.iter().map(Value::to_string).collect();
        if let Some(other) = wanted.iter().find(|name| !OPTIONS.contains(&name.as_str())) {
            return Err(unknown(other));
        }
        let has = |name: &str| wanted.iter().any(|option| option == name);
        let tag = match options.get("tag") {
            None => program(),
            Some(Value::Str(tag)) if tag.chars().count() > 32 => {
                return Err("tag size is limited to 32 characters".to_owned());
            }
            Some(Value::Str(tag)) => tag.clone(),
            Some(_) => return Err("tag must be a string".to_owned()),
        };
        // The encoding of RFC 3164: eight levels per facility.
        let priority = found.1 * 8 + level as u32;
        Ok(Header { priority, tag, pid: has("LOG_PID"), echo: has("LOG_PERROR") })
    }

    /// Formats the message like the C library.
    fn message(&self, text: &str, now: Timestamp, pid: u32) -> String {
        let time = now.to_zoned(TimeZone::system()).strftime("%b %e %H:%M:%S").to_string();
        let pid = if self.pid { format!("[{pid}]") } else { String::new() };
        format!("<{}>{time} {}{pid}: {text}", self.priority, self.tag)
    }
}

/// Returns the name that this program was called by.
fn program() -> String {
    // openlog's default is the program's name.
    let name = std::env::args().next().unwrap_or_default();
    Path::new(&name).file_name().map_or_else(|| "salt-minion".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn header(opts: Map) -> std::result::Result<Header, String> {
        let defaults = map! { "level" => "LOG_INFO", "facility" => "LOG_USER", "options" => list![], "tag" => "t" };
        let names = ["level", "facility", "tag", "options"];
        Header::of(&Options::find(&testing::world(opts), "syslog", &names, defaults, None).unwrap())
    }

    #[test]
    fn options_make_the_header_of_the_message() {
        let full = map! {
            "syslog" => map! { "level" => "LOG_ERR", "facility" => "LOG_LOCAL7", "tag" => "mysalt", "options" => list!["LOG_PID"] },
        };
        let header = header(full).unwrap();
        let text = header.message("{}", Timestamp::UNIX_EPOCH, 7);
        assert!(text.starts_with("<187>") && text.ends_with(" mysalt[7]: {}"), "{text}");
    }

    #[test]
    fn invalid_options_are_reported_in_salts_words() {
        let told = |name: &str, value: Value| header(Map::from_iter([(Value::from(name), value)])).unwrap_err();
        assert_eq!(told("syslog.level", "LOG_LOUD".into()), "syslog has no attribute LOG_LOUD");
        assert_eq!(told("syslog.options", list!["LOG_ME"]), "syslog has no attribute LOG_ME");
        assert_eq!(told("syslog.tag", "x".repeat(33).into()), "tag size is limited to 32 characters");
        assert_eq!(told("syslog.tag", 1.into()), "tag must be a string");
    }

    #[test]
    fn a_message_is_one_datagram() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = UnixDatagram::bind(&path).unwrap();
        send(&path, "<14>hello").unwrap();
        let mut buffer = [0; 64];
        let len = log.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"<14>hello");
        assert!(send(&dir.path().join("none"), "x").unwrap_err().to_string().starts_with("failed to write to "));
    }
}
