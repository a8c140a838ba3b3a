//! The protocol of Redis (RESP2), as far as a returner needs it: sends commands, parses replies.
//!
//! The format is described at <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::{TcpStream, UnixStream};

use crate::{Error, Result};

/// The timeout of each operation.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a string in bytes, which is the server's own limit.
const MOST_BYTES: usize = 512 << 20;

/// The maximum number of replies in one.
const MOST_ITEMS: usize = 10_000_000;

/// The server and the credentials.
#[derive(Clone)]
pub struct Server {
    /// Its Unix socket, if it is reached through one.
    pub socket: Option<String>,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The number of the database.
    pub db: String,
    /// The password.
    pub password: Option<String>,
}

impl Server {
    fn address(&self) -> String {
        let place = self.socket.clone().unwrap_or_else(|| format!("{}:{}", self.host, self.port));
        format!("the Redis server {place}")
    }
}

/// A reply of the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Nothing is stored under this key.
    Nothing,
    /// A status, a string or a number.
    Text(String),
    /// Several replies.
    Items(Vec<Reply>),
    /// An error.
    Refused(String),
}

impl Reply {
    /// Returns the string, if there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Reply::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the replies in it.
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Items(items) => items,
            _ => &[],
        }
    }

    /// Returns the strings in it.
    pub fn texts(&self) -> Vec<String> {
        self.items().iter().filter_map(|item| item.text().map(str::to_owned)).collect()
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An authenticated connection to the server.
pub struct Connection {
    stream: BufStream<Box<dyn Stream>>,
    address: String,
}

impl Connection {
    /// Connects, authenticates and selects the database.
    ///
    /// # Errors
    /// If the server is unreachable or refuses the login.
    pub async fn open(server: &Server) -> Result<Self> {
        let address = server.address();
        let connecting = async {
            Ok::<Box<dyn Stream>, std::io::Error>(match &server.socket {
                Some(path) => Box::new(UnixStream::connect(path).await?),
                None => Box::new(TcpStream::connect((server.host.as_str(), server.port)).await?),
            })
        };
        let unreachable = |reason: String| Error::Unreachable { server: address.clone(), reason };
        let stream = tokio::time::timeout(TIMEOUT, connecting).await;
        let stream = stream.map_err(|_| unreachable("it does not answer".into()))?;
        let stream = stream.map_err(|error| unreachable(error.to_string()))?;
        let mut connection = Connection { stream: BufStream::new(stream), address };
        if let Some(password) = &server.password {
            connection.one(&["AUTH", password]).await?;
        }
        // Database 0 is where every connection starts.
        if server.db != "0" {
            connection.one(&["SELECT", &server.db]).await?;
        }
        Ok(connection)
    }

    /// Sends one command and returns the reply.
    ///
    /// # Errors
    /// If the connection breaks or the server returns an error.
    pub async fn one(&mut self, command: &[&str]) -> Result<Reply> {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let mut replies = self.all(&[command]).await?;
        replies.pop().ok_or_else(|| Error::failed("redis: no reply"))
    }

    /// Sends all commands at once and returns the replies in order.
    ///
    /// # Errors
    /// If the connection breaks or the server returns an error for one of them; the others are executed.
    pub async fn all(&mut self, commands: &[Vec<String>]) -> Result<Vec<Reply>> {
        let talk = talk(&mut self.stream, commands);
        let replies = tokio::time::timeout(TIMEOUT, talk).await;
        let broken = |reason: String| Error::failed(format!("{}: {reason}", self.address));
        let replies = replies.map_err(|_| broken("it does not answer".into()))?;
        let replies = replies.map_err(|error| broken(error.to_string()))?;
        for (reply, command) in replies.iter().zip(commands) {
            if let Reply::Refused(reason) = reply {
                // Only the name of the command, because its arguments may be secret.
                let name = command.first().map(String::as_str).unwrap_or_default();
                return Err(broken(format!("{name}: {reason}")));
            }
        }
        Ok(replies)
    }
}

async fn talk<S: AsyncRead + AsyncWrite + Send + Unpin>(
    stream: &mut BufStream<S>,
    commands: &[Vec<String>],
) -> std::io::Result<Vec<Reply>> {
    for command in commands {
        stream.write_all(&packed(command)).await?;
    }
    stream.flush().await?;
    let mut replies = Vec::with_capacity(commands.len());
    for _ in commands {
        replies.push(reply(stream, 0).await?);
    }
    Ok(replies)
}

/// Encodes a command: a list of strings, each with its length.
fn packed(command: &[String]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(word.as_bytes());
        bytes.extend(b"\r\n");
    }
    bytes
}

fn wrong(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, format!("the answer is not understood: {what}"))
}

fn reply<'a, S: AsyncBufReadExt + Send + Unpin>(
    stream: &'a mut S,
    depth: usize,
) -> BoxFuture<'a, std::io::Result<Reply>> {
    Box::pin(async move {
        // Bytes of a stranger on that port must not exhaust the stack. Replies to our commands are two levels deep.
        if depth > 8 {
            return Err(wrong("too deep"));
        }
        let line = line(stream).await?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| wrong("an empty line"))?;
        match kind {
            "+" | ":" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Refused(rest.to_owned())),
            "$" => match count(rest, MOST_BYTES)? {
                None => Ok(Reply::Nothing),
                Some(length) => text(stream, length).await.map(Reply::Text),
            },
            "*" => match count(rest, MOST_ITEMS)? {
                None => Ok(Reply::Nothing),
                Some(items) => {
                    // Memory is reserved in small steps, not for what is merely announced.
                    let mut all = Vec::with_capacity(items.min(64));
                    for _ in 0..items {
                        all.push(reply(stream, depth + 1).await?);
                    }
                    Ok(Reply::Items(all))
                }
            },
            other => Err(wrong(&format!("it begins with {other:?}"))),
        }
    })
}

/// Reads a length; -1 means null.
fn count(text: &str, most: usize) -> std::io::Result<Option<usize>> {
    if text == "-1" {
        return Ok(None);
    }
    let count = text.parse::<usize>().ok().filter(|count| *count <= most);
    count.map(Some).ok_or_else(|| wrong("a length"))
}

async fn line<S: AsyncBufReadExt + Send + Unpin>(stream: &mut S) -> std::io::Result<String> {
    const LONGEST: u64 = 64 * 1024;
    let mut bytes = Vec::new();
    stream.take(LONGEST).read_until(b'\n', &mut bytes).await?;
    match bytes.strip_suffix(b"\r\n") {
        Some(line) => String::from_utf8(line.to_vec()).map_err(|_| wrong("a line that is not UTF-8")),
        None if bytes.is_empty() => Err(std::io::ErrorKind::UnexpectedEof.into()),
        None => Err(wrong("a line without an end")),
    }
}

async fn text<S: AsyncBufReadExt + Send + Unpin>(stream: &mut S, length: usize) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    // Grows with what arrives; the length is only announced.
    stream.take(length as u64 + 2).read_to_end(&mut bytes).await?;
    if bytes.len() != length + 2 || !bytes.ends_with(b"\r\n") {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| wrong("a text that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &str) -> std::io::Result<Reply> {
        reply(&mut bytes.as_bytes(), 0).await
    }

    #[tokio::test]
    async fn replies_of_all_kinds_are_read() {
        assert_eq!(read("+OK\r\n").await.unwrap(), Reply::Text("OK".into()));
        assert_eq!(read(":12\r\n").await.unwrap(), Reply::Text("12".into()));
        assert_eq!(read("$-1\r\n").await.unwrap(), Reply::Nothing);
        assert_eq!(read("-ERR no\r\n").await.unwrap(), Reply::Refused("ERR no".into()));
        let scan = read("*2\r\n$1\r\n0\r\n*2\r\n$3\r\na\r\n\r\n$2\r\n\u{e4}\r\n").await.unwrap();
        assert_eq!(scan.items()[0].text(), Some("0"));
        assert_eq!(scan.items()[1].texts(), ["a\r\n", "ä"]);
    }

    #[tokio::test]
    async fn announced_sizes_reserve_no_memory_and_end_in_an_error() {
        for bytes in ["$536870912\r\nabc", "*10000000\r\n", "$99999999999999\r\n", "?\r\n", "", "\r\n", "+OK"] {
            assert!(read(bytes).await.is_err(), "{bytes:?}");
        }
        assert!(read(&"*1\r\n".repeat(50)).await.is_err());
    }

    #[tokio::test]
    async fn commands_are_pipelined_and_errors_name_only_the_command() {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let mut connection =
            Connection { stream: BufStream::new(Box::new(ours)), address: "the Redis server x".into() };
        theirs.write_all(b"-WRONGPASS invalid\r\n").await.unwrap();
        // An error with the arguments in it would put the password into the log.
        let error = connection.one(&["AUTH", "geheim"]).await.unwrap_err();
        assert_eq!(error.to_string(), "the Redis server x: AUTH: WRONGPASS invalid");
        let mut sent = vec![0; 26];
        theirs.read_exact(&mut sent).await.unwrap();
        assert_eq!(sent, b"*2\r\n$4\r\nAUTH\r\n$6\r\ngeheim\r\n");
    }
}
