//! Talks to a mail server (RFC 5321), with STARTTLS and a login if they are configured.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;
use tracing::{debug, warn};

use super::mail::{address, on_the_wire};
use crate::{Error, Result};

/// The timeout of the whole dialog.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The places of the system's trusted certificates.
const TRUSTED: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The mail server, and how to talk to it.
pub struct Server {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Uses STARTTLS.
    pub tls: bool,
    /// Verifies the server's certificate.
    pub verify: bool,
    /// User and password.
    pub login: Option<(String, String)>,
}

/// Submits a mail. It is sent if at least one recipient is accepted.
///
/// # Errors
/// If the server is unreachable, or refuses anything other than some of the recipients.
pub async fn send(server: &Server, from: &str, to: &[String], text: &str) -> Result<()> {
    let place = format!("the mail server {}:{}", server.host, server.port);
    let talk = async {
        let connecting = TcpStream::connect((server.host.as_str(), server.port)).await;
        let stream =
            connecting.map_err(|error| Error::Unreachable { server: place.clone(), reason: error.to_string() })?;
        // RFC 5321 takes an address literal for a host without a name, which saves a look-up that might hang.
        let own = stream.local_addr().map_err(Error::failed)?.ip().to_canonical();
        let name = if own.is_ipv6() { format!("[IPv6:{own}]") } else { format!("[{own}]") };
        Dialog::new(stream).run(server, &name, from, to, text).await
    };
    let ended = tokio::time::timeout(TIMEOUT, talk).await;
    ended.map_err(|_| Error::Unreachable { server: place.clone(), reason: "it does not answer".into() })?.map_err(
        |error| match error {
            Error::Failed(reason) => Error::failed(format!("{place}: {reason}")),
            other => other,
        },
    )
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

struct Dialog {
    stream: BufReader<Box<dyn Stream>>,
}

/// A reply of the server: its code, and the lines of its text.
#[derive(Debug)]
struct Answer {
    code: u16,
    lines: Vec<String>,
}

impl Answer {
    /// Returns a successful reply, or an error.
    fn expect(self, doing: &str) -> Result<Self> {
        match self.code {
            200..400 => Ok(self),
            code => Err(Error::failed(format!("{doing}: {code} {}", self.lines.join(" ")))),
        }
    }

    /// Returns the parameters of an extension that the server supports.
    fn extension(&self, name: &str) -> Option<Vec<String>> {
        self.lines.iter().skip(1).find_map(|line| {
            let mut words = line.split([' ', '=']);
            let first = words.next().unwrap_or_default();
            first.eq_ignore_ascii_case(name).then(|| words.map(str::to_ascii_uppercase).collect())
        })
    }
}

impl Dialog {
    fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Dialog { stream: BufReader::new(Box::new(stream)) }
    }

    async fn run(mut self, server: &Server, name: &str, from: &str, to: &[String], text: &str) -> Result<()> {
        self.answer().await?.expect("the greeting")?;
        let mut hello = self.hello(name).await?;
        if server.tls {
            if hello.extension("STARTTLS").is_none() {
                return Err(Error::failed("STARTTLS extension not supported by server."));
            }
            self.ask("STARTTLS").await?.expect("STARTTLS")?;
            self = self.protected(server).await?;
            // Extensions announced before TLS could have been forged.
            hello = self.hello(name).await?;
        }
        if let Some((user, password)) = &server.login {
            self.login(&hello, user, password).await?;
        }
        self.ask(&format!("MAIL FROM:<{}>", address(from))).await?.expect("MAIL")?;
        let mut refused = Vec::new();
        for reader in to {
            let answer = self.ask(&format!("RCPT TO:<{}>", address(reader))).await?;
            if let Err(error) = answer.expect(reader) {
                warn!("a mail is not accepted for {error}");
                refused.push(error.to_string());
            }
        }
        // A list with one bad address still reaches the others.
        if refused.len() == to.len() {
            return Err(Error::failed(refused.join("; ")));
        }
        self.ask("DATA").await?.expect("DATA")?;
        self.write(&on_the_wire(text)).await?;
        self.answer().await?.expect("the mail")?;
        debug!("smtp_return: Message sent.");
        // The server has accepted the mail, whatever it answers to QUIT.
        let _ = self.ask("QUIT").await;
        Ok(())
    }

    async fn hello(&mut self, name: &str) -> Result<Answer> {
        let answer = self.ask(&format!("EHLO {name}")).await?;
        if (200..300).contains(&answer.code) {
            return Ok(answer);
        }
        // Servers from before ESMTP know only this.
        self.ask(&format!("HELO {name}")).await?.expect("HELO")
    }

    async fn protected(self, server: &Server) -> Result<Self> {
        // What was sent before TLS began is not trusted.
        if !self.stream.buffer().is_empty() {
            return Err(Error::failed("the server sent more than an answer to STARTTLS"));
        }
        let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(Error::failed)?;
        match TRUSTED.iter().find(|path| Path::new(path).exists()) {
            Some(path) => builder.set_ca_file(path).map_err(Error::failed)?,
            None => builder.set_default_verify_paths().map_err(Error::failed)?,
        }
        if !server.verify {
            builder.set_verify(SslVerifyMode::NONE);
        }
        let mut config = builder.build().configure().map_err(Error::failed)?;
        config.set_verify_hostname(server.verify);
        let ssl = config.into_ssl(&server.host).map_err(Error::failed)?;
        let mut stream = SslStream::new(ssl, self.stream.into_inner()).map_err(Error::failed)?;
        Pin::new(&mut stream).connect().await.map_err(|error| {
            Error::failed(format!(
                "the connection cannot be protected: {error} (smtp.tls_verify: False takes any certificate)"
            ))
        })?;
        Ok(Dialog::new(stream))
    }

    async fn login(&mut self, hello: &Answer, user: &str, password: &str) -> Result<()> {
        let known =
            hello.extension("AUTH").ok_or_else(|| Error::failed("SMTP AUTH extension not supported by server."))?;
        let has = |name: &str| known.iter().any(|known| known == name);
        let encode = |text: &str| STANDARD.encode(text);
        // In the order of Python's smtplib: CRAM-MD5 does not reveal the password to a listener.
        if has("CRAM-MD5") {
            let challenge = self.ask("AUTH CRAM-MD5").await?.expect("AUTH CRAM-MD5")?;
            let challenge = STANDARD.decode(challenge.lines.concat().trim()).map_err(Error::failed)?;
            let answer = format!("{user} {}", keyed_md5(password.as_bytes(), &challenge)?);
            return self.ask(&encode(&answer)).await?.expect("AUTH").map(drop);
        }
        if has("PLAIN") {
            let words = encode(&format!("\0{user}\0{password}"));
            return self.ask(&format!("AUTH PLAIN {words}")).await?.expect("AUTH").map(drop);
        }
        if has("LOGIN") {
            self.ask(&format!("AUTH LOGIN {}", encode(user))).await?.expect("AUTH")?;
            return self.ask(&encode(password)).await?.expect("AUTH").map(drop);
        }
        Err(Error::failed("No suitable authentication method found."))
    }

    async fn ask(&mut self, line: &str) -> Result<Answer> {
        self.write(&format!("{line}\r\n")).await?;
        self.answer().await
    }

    async fn write(&mut self, text: &str) -> Result<()> {
        self.stream.write_all(text.as_bytes()).await.map_err(Error::failed)?;
        self.stream.flush().await.map_err(Error::failed)
    }

    /// Reads a reply; all of its lines except the last have a dash after the code.
    async fn answer(&mut self) -> Result<Answer> {
        const LONGEST: u64 = 8192;
        const MOST: usize = 200;
        let mut lines = Vec::new();
        loop {
            let mut bytes = Vec::new();
            (&mut self.stream).take(LONGEST).read_until(b'\n', &mut bytes).await.map_err(Error::failed)?;
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            if bytes.is_empty() {
                return Err(Error::failed("the server closed the connection"));
            }
            let code = line.get(..3).and_then(|code| code.parse().ok());
            let code = code.ok_or_else(|| Error::failed("the answer is not understood"))?;
            lines.push(line.get(4..).unwrap_or_default().to_owned());
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(Answer { code, lines });
            }
            // A server that never ends its reply must not fill the memory.
            if lines.len() > MOST {
                return Err(Error::failed("the answer has no end"));
            }
        }
    }
}

fn keyed_md5(key: &[u8], text: &[u8]) -> Result<String> {
    let key = PKey::hmac(key).map_err(Error::failed)?;
    let mut signer = Signer::new(MessageDigest::md5(), &key).map_err(Error::failed)?;
    let digest = signer.sign_oneshot_to_vec(text).map_err(Error::failed)?;
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    fn server(login: Option<(&str, &str)>) -> Server {
        let login = login.map(|(user, password)| (user.to_owned(), password.to_owned()));
        Server { host: "h".into(), port: 25, tls: false, verify: true, login }
    }

    /// Plays a server that sends these lines, whatever it receives, and returns what it received.
    async fn play(server: &Server, says: &str) -> (Result<()>, String) {
        let (ours, mut theirs) = duplex(1 << 16);
        theirs.write_all(says.as_bytes()).await.unwrap();
        theirs.shutdown().await.unwrap();
        let to = ["c@d".to_owned(), "e@f".to_owned()];
        let done = Dialog::new(ours).run(server, "[127.0.0.1]", "Me <a@b>", &to, "hi\n.\n").await;
        let mut told = String::new();
        theirs.read_to_string(&mut told).await.unwrap();
        (done, told)
    }

    const HELLO: &str = "220 x\r\n250-x\r\n250-SIZE 1\r\n250 AUTH PLAIN LOGIN\r\n";

    #[tokio::test]
    async fn a_mail_is_submitted() {
        let (done, told) =
            play(&server(None), &format!("{HELLO}250 a\r\n250 b\r\n550 no\r\n354 go\r\n250 ok\r\n221 bye\r\n")).await;
        done.unwrap();
        let expected = "EHLO [127.0.0.1]\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\nhi\r\n..\r\n.\r\nQUIT\r\n";
        assert_eq!(told, expected);
    }

    #[tokio::test]
    async fn a_refused_login_is_reported_without_the_password() {
        let (done, told) = play(&server(Some(("me", "secret"))), &format!("{HELLO}535 wrong\r\n")).await;
        assert_eq!(done.unwrap_err().to_string(), "AUTH: 535 wrong");
        assert!(told.ends_with("AUTH PLAIN AG1lAHNlY3JldA==\r\n"), "{told}");
    }

    #[tokio::test]
    async fn refusals_and_malformed_replies_are_errors() {
        let refused = play(&server(None), &format!("{HELLO}250 a\r\n550 no\r\n550 nor you\r\n")).await.0;
        assert_eq!(refused.unwrap_err().to_string(), "c@d: 550 no; e@f: 550 nor you");
        // Never without protection if it was asked for.
        let told = play(&Server { tls: true, ..server(None) }, HELLO).await.0.unwrap_err().to_string();
        assert_eq!(told, "STARTTLS extension not supported by server.");
        for says in ["", "hello\r\n", "22", &"220-x\r\n".repeat(300), "554 go away\r\n"] {
            assert!(play(&server(None), says).await.0.is_err());
        }
    }

    #[test]
    fn the_keyed_digest_is_that_of_the_rfc() {
        // The example of RFC 2195.
        let answer = keyed_md5(b"tanstaaftanstaaf", b"<1896.697170952@postoffice.reston.mci.net>").unwrap();
        assert_eq!(answer, "b913a602c7eda7a495b4e6e7334d3890");
    }
}
