//! The backend `rest`: a web server decides about passwords, and may send the entries of the user.
//!
//! The server is asked with curl, like `http.query` does, so that this crate needs no HTTP client. What is secret goes to its
//! standard input, because all users of a host can read command lines.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use value::{Map, Value};

use crate::{Error, entries};

/// The longest answer, in bytes.
const LARGEST: usize = 1 << 20;

/// What curl writes behind the body: the status and the kind of the content, each on a line. It is shorter than this.
const TRAILER: usize = 1024;

/// How long the server may take, in seconds.
const LIMIT: u32 = 10;

/// A web server that knows passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct Rest {
    url: String,
}

/// The address may contain a password.
impl std::fmt::Debug for Rest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rest(…)")
    }
}

/// What came back from the server.
#[derive(Debug)]
struct Reply {
    status: u16,
    content_type: String,
    body: Vec<u8>,
}

impl Rest {
    /// Reads the option of the backend: `^url`.
    ///
    /// # Errors
    /// When it is missing, or is no address of a web server.
    pub fn from_options(part: &Map) -> Result<Self, Error> {
        let url = part.get_str("^url").unwrap_or_default();
        let is_web = ["http://", "https://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme));
        match is_web && !url.contains(char::is_control) {
            true => Ok(Rest { url: url.to_owned() }),
            false => Err(Error::Url),
        }
    }

    /// Returns whether passwords are sent over a network without TLS.
    pub fn is_unprotected(&self) -> bool {
        let Some(rest) = self.url.strip_prefix("http://") else { return false };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        !["localhost", "127.0.0.1", "[::1]"]
            .iter()
            .any(|here| host.strip_prefix(here).is_some_and(|port| port.is_empty() || port.starts_with(':')))
    }

    /// Returns the entries that the server has for the user if the password is right. May block.
    ///
    /// # Errors
    /// When the server cannot be asked, or its answer cannot be read.
    pub fn check(&self, username: &str, password: &str) -> Result<Option<Vec<Value>>, Error> {
        let reply = self.ask(username, password).map_err(Error::Rest)?;
        reply.judge(username).map_err(Error::Rest)
    }

    fn ask(&self, username: &str, password: &str) -> Result<Reply, String> {
        let failed = |error: std::io::Error| format!("curl failed: {error}");
        // First of all `--disable`: a `.curlrc` could follow redirects, or accept any certificate.
        let mut curl = Command::new("curl")
            .args(["--disable", "--config", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => "curl is not installed".to_owned(),
                _ => failed(error),
            })?;
        let outcome = self.exchange(&mut curl, username, password).map_err(failed);
        // It ends here in any case, also in the middle of an answer that is too long.
        let _ = curl.kill();
        let _ = curl.wait();
        let (output, complaint) = outcome?;
        if output.len() > LARGEST + TRAILER {
            return Err(format!("the answer of the server has more than {LARGEST} bytes"));
        }
        Reply::read(output).ok_or_else(|| match complaint.is_empty() {
            true => "curl ended without an answer".to_owned(),
            false => value::escape::brief(complaint.trim(), 200).into_owned(),
        })
    }

    /// Returns the output of curl, and what it complains about.
    fn exchange(&self, curl: &mut Child, username: &str, password: &str) -> std::io::Result<(Vec<u8>, String)> {
        if let Some(mut input) = curl.stdin.take() {
            input.write_all(self.configuration(username, password).as_bytes())?;
        }
        let mut output = Vec::new();
        if let Some(from) = curl.stdout.take() {
            from.take((LARGEST + TRAILER + 1) as u64).read_to_end(&mut output)?;
        }
        let mut complaint = Vec::new();
        // Only after an end of the output: curl goes on writing an answer that is too long.
        if output.len() <= LARGEST + TRAILER
            && let Some(from) = curl.stderr.take()
        {
            from.take(TRAILER as u64).read_to_end(&mut complaint)?;
        }
        Ok((output, String::from_utf8_lossy(&complaint).into_owned()))
    }

    fn configuration(&self, username: &str, password: &str) -> String {
        let form = format!("username={}&password={}", encoded(username), encoded(password));
        let url = self.url.replace('\\', "\\\\").replace('"', "\\\"");
        // Redirects are not followed, because the password would be sent to another server. The certificate is checked,
        // because nothing here says otherwise.
        format!(
            "url = \"{url}\"\ndata-raw = \"{form}\"\nproto = \"=http,https\"\nmax-time = {LIMIT}\ngloboff\nsilent\nshow-error\n\
             header = \"Accept: application/json\"\nwrite-out = \"\\n%{{http_code}}\\n%{{content_type}}\"\n"
        )
    }
}

impl Reply {
    /// Reads the output of curl. `None` if there was no answer.
    fn read(mut output: Vec<u8>) -> Option<Self> {
        let mut last_line = || {
            let end = output.iter().rposition(|byte| *byte == b'\n')?;
            let line = String::from_utf8_lossy(&output[end + 1..]).into_owned();
            output.truncate(end);
            Some(line)
        };
        let (content_type, status) = (last_line()?, last_line()?);
        // curl writes 000 if it has not reached the server.
        let status = status.parse().ok().filter(|status| *status != 0)?;
        Some(Reply { status, content_type, body: output })
    }

    /// As in Salt, only a 200 with data means that the password is right. `null` is data: there are no entries.
    fn judge(&self, username: &str) -> Result<Option<Vec<Value>>, String> {
        match self.status {
            200 => {}
            // Another status deserves a line in the log: it may be a wrong address.
            400 | 401 | 403 => return Ok(None),
            status => return Err(format!("the server answered with status {status}")),
        }
        // As in Salt, this is the default, and a page that says something else is no answer.
        if !self.content_type.is_empty() && !self.content_type.contains("json") {
            return Err("the server answered with something else than application/json".to_owned());
        }
        let unreadable = |why: String| format!("the answer of the server cannot be read: {why}");
        let text = std::str::from_utf8(&self.body).map_err(|error| unreadable(error.to_string()))?;
        match python::json::loads(text).map_err(unreadable)? {
            Value::Null => Ok(Some(Vec::new())),
            Value::List(listed) => Ok(Some(entries::granting(&listed))),
            // As in Salt, this is a yes, and only the entries of the configuration count.
            Value::Map(_) => {
                let name = value::escape::brief(username, 60);
                tracing::warn!(
                    "external_auth: rest: the server has sent a map and no list for {name}, which is ignored"
                );
                Ok(Some(Vec::new()))
            }
            _ => Err("the answer of the server is neither a list nor null".to_owned()),
        }
    }
}

/// Encodes a field of a form.
fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use value::{list, map};

    use super::*;

    fn rest(url: &str) -> Rest {
        Rest::from_options(&map! { "^url" => url }).unwrap()
    }

    /// Answers one request, and returns it.
    fn serve(answer: &[u8]) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/login", listener.local_addr().unwrap());
        let answer = answer.to_vec();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut part) = (Vec::new(), [0; 4096]);
            // The form is the end of the request.
            while !String::from_utf8_lossy(&request).contains("password=") {
                let length = stream.read(&mut part).unwrap();
                assert_ne!(length, 0, "the request ended early");
                request.extend_from_slice(&part[..length]);
            }
            // A client that has enough closes the connection.
            let _ = stream.write_all(&answer);
            String::from_utf8_lossy(&request).into_owned()
        });
        (url, thread)
    }

    fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}")
            .into_bytes()
    }

    const JSON: &str = "Content-Type: application/json; charset=utf-8\r\n";

    fn has_curl() -> bool {
        Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_ok()
    }

    #[test]
    fn a_web_server_decides() {
        if !has_curl() {
            eprintln!("skipped: curl is not installed");
            return;
        }
        let entries = r#"["test.*", "", {"web*": ["pkg.*"]}, 7]"#;
        let granted: Vec<Value> = vec!["test.*".into(), map! { "web*" => list!["pkg.*"] }.into()];
        for (status, headers, body, expected) in [
            ("200 OK", JSON, entries, Some(granted)),
            ("200 OK", JSON, "null", Some(vec![])),
            ("200 OK", "", "[]", Some(vec![])),
            ("200 OK", JSON, "{\"web*\": [\".*\"]}", Some(vec![])),
            ("401 Unauthorized", JSON, "[\".*\"]", None),
        ] {
            let (url, asked) = serve(&answer(status, headers, body));
            assert_eq!(rest(&url).check("fred & co", "a\"b\\c\n+ü%").unwrap(), expected, "{status} {body}");
            let request = asked.join().unwrap();
            assert!(request.starts_with("POST /login HTTP/1.1\r\n"), "{request}");
            assert!(request.contains("\r\nContent-Type: application/x-www-form-urlencoded\r\n"), "{request}");
            let form = "\r\n\r\nusername=fred%20%26%20co&password=a%22b%5Cc%0A%2B%C3%BC%25";
            assert!(request.ends_with(form), "{request}");
        }
    }

    #[test]
    fn other_answers_let_nobody_in() {
        if !has_curl() {
            eprintln!("skipped: curl is not installed");
            return;
        }
        let long = format!("[\"{}\"]", "x".repeat(LARGEST + TRAILER));
        let elsewhere = "Location: http://127.0.0.1:9/\r\n";
        for (status, headers, body, reason) in [
            ("201 Created", JSON, "[\".*\"]", "status 201"),
            ("302 Found", elsewhere, "[\".*\"]", "status 302"),
            ("500 Oh", JSON, "[\".*\"]", "status 500"),
            ("200 OK", JSON, "", "cannot be read"),
            ("200 OK", JSON, "[\".*\"", "cannot be read"),
            ("200 OK", JSON, "\"yes\"", "neither a list nor null"),
            ("200 OK", JSON, "true", "neither a list nor null"),
            ("200 OK", "Content-Type: text/html\r\n", "[\".*\"]", "application/json"),
            ("200 OK", JSON, long.as_str(), "more than 1048576 bytes"),
        ] {
            let (url, asked) = serve(&answer(status, headers, body));
            let refused = rest(&url).check("fred", "never-told").unwrap_err().to_string();
            assert!(refused.starts_with("external_auth: the backend 'rest': "), "{refused}");
            assert!(refused.contains(reason) && !refused.contains("never-told"), "{status}: {refused}");
            asked.join().unwrap();
        }
        // Nobody is there; and a server without TLS is not taken for one with it.
        let refused = rest("http://127.0.0.1:9/").check("fred", "never-told").unwrap_err().to_string();
        assert!(refused.contains("curl: (7)"), "{refused}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let plain = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut hello = [0; 4096];
            let length = stream.read(&mut hello).unwrap();
            stream.write_all(&answer("200 OK", JSON, "[\".*\"]")).unwrap();
            String::from_utf8_lossy(&hello[..length]).into_owned()
        });
        let refused = rest(&url).check("fred", "never-told").unwrap_err().to_string();
        assert!(refused.contains("curl: (35)"), "{refused}");
        assert!(!plain.join().unwrap().contains("never-told"));
    }

    /// Returns a server with a certificate that it has made itself.
    fn impostor() -> openssl::ssl::SslAcceptor {
        use openssl::asn1::Asn1Time;
        use openssl::hash::MessageDigest;
        use openssl::pkey::PKey;
        use openssl::ssl::{SslAcceptor, SslMethod};
        use openssl::x509::{X509, X509Name};
        let group = openssl::ec::EcGroup::from_curve_name(openssl::nid::Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(openssl::ec::EcKey::generate(&group).unwrap()).unwrap();
        let mut name = X509Name::builder().unwrap();
        name.append_entry_by_text("CN", "127.0.0.1").unwrap();
        let name = name.build();
        let mut certificate = X509::builder().unwrap();
        certificate.set_subject_name(&name).unwrap();
        certificate.set_issuer_name(&name).unwrap();
        certificate.set_pubkey(&key).unwrap();
        certificate.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
        certificate.set_not_after(&Asn1Time::days_from_now(2).unwrap()).unwrap();
        certificate.sign(&key, MessageDigest::sha256()).unwrap();
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
        acceptor.set_private_key(&key).unwrap();
        acceptor.set_certificate(&certificate.build()).unwrap();
        acceptor.build()
    }

    #[test]
    fn no_impostor_gets_a_password() {
        if !has_curl() {
            eprintln!("skipped: curl is not installed");
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut received = String::new();
            // The client may refuse the certificate during the handshake, or close the connection after it.
            if let Ok(mut stream) = impostor().accept(stream) {
                let _ = stream.read_to_string(&mut received);
            }
            received
        });
        let refused = rest(&url).check("fred", "never-told").unwrap_err().to_string();
        assert!(refused.contains("curl: (60)"), "{refused}");
        assert_eq!(server.join().unwrap(), "");
    }

    #[test]
    fn the_address_must_be_one_of_a_web_server() {
        for bad in
            [Value::Null, "".into(), "http://".into(), "file:///etc/shadow".into(), "https://x\n/".into(), 7.into()]
        {
            assert!(matches!(Rest::from_options(&map! { "^url" => bad.clone() }), Err(Error::Url)), "{bad}");
        }
        for unprotected in
            ["http://auth.example.com/", "http://10.0.0.1:80", "http://localhost.example.com/", "http://localhost@x/"]
        {
            assert!(rest(unprotected).is_unprotected(), "{unprotected}");
        }
        for protected in
            ["https://auth.example.com/", "http://localhost:8000/x", "http://127.0.0.1/", "http://[::1]:80"]
        {
            assert!(!rest(protected).is_unprotected(), "{protected}");
        }
        assert_eq!(format!("{:?}", rest("https://me:secret@x/")), "Rest(…)");
    }
}
