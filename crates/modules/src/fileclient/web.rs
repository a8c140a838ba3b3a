//! Files from the web, through `curl` or `wget`: whichever the machine has.
//!
//! The address goes in by standard input, since it may hold a password and everybody can read the process list.

use std::path::{Path, PathBuf};

use exec::{Context, Error, Result};
use rt::disk::Durability;

use super::remote::client;
use crate::subprocess::{self, Outcome};
use crate::util;

/// The settings for a download from the web.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Web {
    /// Requires a certificate that is valid for the name of the server.
    pub verify_ssl: bool,
    /// Fetches only if the file has changed: the `ETag` of the last answer, stored beside the file, is sent along.
    pub use_etag: bool,
}

impl Default for Web {
    fn default() -> Self {
        Self { verify_ssl: true, use_etag: false }
    }
}

/// Returns whether an address is served by HTTP, HTTPS or FTP.
pub fn is_foreign(address: &str) -> bool {
    let scheme = address.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| matches!(scheme.as_str(), "http" | "https" | "ftp"))
}

/// Fetches a file into the cache, unless it is there already with the given hash.
pub fn into_cache(ctx: &Context, address: &str, saltenv: &str, source_hash: Option<&str>, web: Web) -> Result<PathBuf> {
    let place = client(ctx)?.cache_dest(address, saltenv).map_err(super::remote::failed)?;
    // The hash is compared before any connection is made: a mirror that is down does not matter then.
    if source_hash.is_some_and(|hash| has_hash(&place, hash)) {
        return Ok(place);
    }
    let folder = place.parent().unwrap_or(Path::new("/"));
    // Closed to other users, unlike directories at a place that the caller named.
    store::disk::make_directories(folder).map_err(|error| Error::io("make the directory", folder, &error))?;
    to_place(ctx, address, &place, false, web)
}

/// Compares a file with `sha256=…`, or with digits alone, whose number determines the algorithm.
fn has_hash(place: &Path, hash: &str) -> bool {
    let digits = hash.rsplit('=').next().unwrap_or_default().trim();
    // Salt does the same: the length of a hex digest is unique among the algorithms it knows.
    let kind = crypto::HashType::from_hex_len(digits.len());
    let here = kind.and_then(|kind| Some(kind.hex(&std::fs::read(place).ok()?)));
    here.is_some_and(|here| here.eq_ignore_ascii_case(digits))
}

/// Fetches a file to a path. The file there is replaced as a whole, or not at all.
pub fn to_place(ctx: &Context, address: &str, place: &Path, makedirs: bool, web: Web) -> Result<PathBuf> {
    // The address becomes a line of curl's configuration; a quote or a line break in it could add options such as
    // `output`.
    if address.contains(['\n', '\r', '"', '\\']) {
        return Err(Error::invocation("an address cannot hold line breaks, quotes or backslashes"));
    }
    let name = address.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    // A directory as destination takes the name from the address, as `cp` would.
    let place = if place.is_dir() { place.join(name) } else { place.to_owned() };
    let folder = place.parent().unwrap_or(Path::new("/"));
    if makedirs {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("make the directory", folder, &error))?;
    }
    // In the same directory, since a rename does not cross file systems.
    let part = tempfile::Builder::new()
        .prefix(".saltern-")
        .suffix(".part")
        .tempfile_in(folder)
        .map_err(|error| Error::io("write into", folder, &error))?
        .into_temp_path();
    let tag_place = tag_place(&place);
    // A tag without its file would make the server answer 304 and leave nothing.
    let known = if web.use_etag && place.exists() { std::fs::read_to_string(&tag_place).ok() } else { None };
    let known = known.map(|tag| tag.trim().to_owned()).filter(|tag| is_tag(tag));
    let headers = download(ctx, address, &part.to_string_lossy(), known.as_deref(), web)?;
    if known.is_some() && status(&headers) == Some("304") {
        return Ok(place);
    }
    part.persist(&place).map_err(|error| Error::io("write", &place, &error.error))?;
    if web.use_etag {
        keep_tag(&tag_place, header(&headers, "etag"))?;
    }
    Ok(place)
}

/// Returns the path of the stored `ETag`, which is the one Salt uses.
fn tag_place(place: &Path) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(".etag");
    name.into()
}

/// Returns whether a text can be sent as a tag: no control characters, and of bounded length.
fn is_tag(text: &str) -> bool {
    !text.is_empty() && text.len() < 4096 && !text.contains(|c: char| c.is_control() || c == '\\')
}

/// Stores the tag of a file. Without a new tag, an older one is removed.
fn keep_tag(place: &Path, tag: Option<&str>) -> Result<()> {
    let done = match tag.filter(|tag| is_tag(tag)) {
        Some(tag) => rt::disk::replace(place, tag.as_bytes(), 0o640, Durability::Process),
        None => std::fs::remove_file(place).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        }),
    };
    done.map_err(|error| Error::io("write", place, &error))
}

/// Returns the status of the last answer in a dump of headers.
fn status(headers: &str) -> Option<&str> {
    // Redirects and proxies leave the headers of several answers in one dump; only the last belongs to the file.
    let last = headers.lines().rev().find(|line| line.trim_start().starts_with("HTTP/"))?;
    last.split_whitespace().nth(1)
}

/// Returns a header of the last answer in a dump of headers.
fn header<'a>(headers: &'a str, name: &str) -> Option<&'a str> {
    let lines = headers.lines().rev().map(str::trim).take_while(|line| !line.starts_with("HTTP/"));
    let mut pairs = lines.filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Fetches an address into a file, and returns the headers of all answers.
fn download(ctx: &Context, address: &str, to: &str, tag: Option<&str>, web: Web) -> Result<String> {
    let (curl, wget) = (util::which("curl").is_some(), util::which("wget").is_some());
    // A conditional request instead of `--etag-compare`, which curl has only since 7.68.
    let asked = tag.map(|tag| format!("If-None-Match: {tag}"));
    let (words, input): (Vec<&str>, String) = if curl {
        let mut words = vec!["curl", "--fail", "--silent", "--show-error", "--location", "--output", to];
        words.extend(["--dump-header", "-", "--config", "-"]);
        let header = asked.map(|line| format!("header = \"{}\"\n", line.replace('"', "\\\"")));
        (
            words,
            format!(
                "url = \"{address}\"\n{}{}",
                header.unwrap_or_default(),
                if web.verify_ssl { "" } else { "insecure\n" }
            ),
        )
    } else if wget {
        let mut words = vec!["wget", "--no-verbose", "--server-response", "--output-document", to, "--input-file", "-"];
        // A tag is no secret, so the command line may hold it; wget cannot read headers from its input.
        words.extend(asked.as_deref().into_iter().flat_map(|line| ["--header", line]));
        words.extend((!web.verify_ssl).then_some("--no-check-certificate"));
        return finished(&words, address, subprocess::fed(ctx, &words, format!("{address}\n").into_bytes())?);
    } else {
        return Err(Error::CommandNotFound("curl or wget".into()));
    };
    finished(&words, address, subprocess::fed(ctx, &words, input.into_bytes())?)
}

/// Returns the headers of a successful fetch. `wget` reports an unchanged file as an error.
fn finished(words: &[&str], address: &str, outcome: Outcome) -> Result<String> {
    let headers = if words[0] == "curl" { outcome.stdout } else { outcome.stderr.clone() };
    match outcome.retcode {
        Some(0) => Ok(headers),
        // 8 means that the server answered with an error, and wget counts 304 among these.
        Some(8) if words[0] == "wget" && status(&headers) == Some("304") => Ok(headers),
        code => {
            let (shown, code) = (without_password(address), code.unwrap_or_default());
            // curl and wget repeat the address in their messages, password included.
            let said = outcome.stderr.replace(address, &shown);
            Err(Error::execution(format!("failed to fetch {shown}: {} ended with {code}: {}", words[0], said.trim())))
        }
    }
}

/// Returns whether a server has a file, without fetching it.
pub fn exists(ctx: &Context, address: &str) -> bool {
    if address.contains(['\n', '\r', '"', '\\']) {
        return false;
    }
    let words = ["curl", "--fail", "--silent", "--head", "--location", "--output", "/dev/null", "--config", "-"];
    let outcome = if util::which("curl").is_some() {
        subprocess::fed(ctx, &words, format!("url = \"{address}\"\n").into_bytes())
    } else {
        subprocess::fed(ctx, &["wget", "--quiet", "--spider", "--input-file", "-"], format!("{address}\n").into_bytes())
    };
    outcome.is_ok_and(|outcome| outcome.retcode == Some(0))
}

/// Removes user and password from an address.
fn without_password(address: &str) -> String {
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            format!("{scheme}://{}{path}", host.rsplit('@').next().unwrap_or_default())
        }
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt as _;
    use value::map;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("https://u:p@h:80/x@y"), "https://h:80/x@y");
        assert!(is_foreign("HTTP://x") && !is_foreign("salt://x") && !is_foreign("/x"));
    }

    #[test]
    fn a_file_comes_from_the_web() {
        if util::which("curl").is_none() && util::which("wget").is_none() {
            // Nothing to fetch with on this machine.
            return;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let len = stream.read(&mut request).unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
            String::from_utf8_lossy(&request[..len]).into_owned()
        });
        let dir = tempfile::tempdir().unwrap();
        let (ctx, _) = context(&[], map! { "cachedir" => dir.path().to_str().unwrap() }, map! {}, map! {});
        let address = format!("http://127.0.0.1:{port}/a/b.txt?x=1");
        let place = into_cache(&ctx, &address, "base", None, Web::default()).unwrap();
        assert_eq!(place, dir.path().join(format!("extrn_files/base/127.0.0.1{port}/a/b.txt-x=1")));
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "hello");
        assert!(server.join().unwrap().starts_with("GET /a/b.txt?x=1 "));
        // Known by its hash it is not fetched again: the server is gone.
        let hash = "sha256=2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(into_cache(&ctx, &address, "base", Some(hash), Web::default()).unwrap(), place);
        let gone = into_cache(&ctx, &address, "base", None, Web::default()).unwrap_err().to_string();
        assert!(gone.starts_with("failed to fetch http://127.0.0.1"), "{gone}");
    }

    #[test]
    fn headers_are_those_of_the_last_answer() {
        let chain = "HTTP/1.1 302 Found\r\nETag: \"old\"\r\n\r\nHTTP/2 200 \r\netag: W/\"new\"\r\nx: y\r\n\r\n";
        assert_eq!((status(chain), header(chain, "ETag")), (Some("200"), Some("W/\"new\"")));
        assert_eq!((status("  HTTP/1.1 304 Not Modified\n"), header("", "etag")), (Some("304"), None));
        assert!(is_tag("\"a\"") && !is_tag("a\nHost: x") && !is_tag(""));
    }

    /// Answers with a tag, and with 304 to requests with that tag; returns the requests.
    fn tagged(listener: std::net::TcpListener, answers: usize) -> Vec<String> {
        let one = |_| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let len = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..len]).into_owned();
            let answer = if request.contains("If-None-Match: \"one\"") {
                "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n"
            } else {
                "HTTP/1.1 200 OK\r\nConnection: close\r\nETag: \"one\"\r\nContent-Length: 5\r\n\r\nhello"
            };
            stream.write_all(answer.as_bytes()).unwrap();
            request
        };
        (0..answers).map(one).collect()
    }

    #[test]
    fn what_has_not_changed_is_not_fetched_again() {
        if util::which("curl").is_none() && util::which("wget").is_none() {
            // Nothing to fetch with on this machine.
            return;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/f", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || tagged(listener, 3));
        let dir = tempfile::tempdir().unwrap();
        let (ctx, _) = context(&[], map! { "cachedir" => dir.path().to_str().unwrap() }, map! {}, map! {});
        let web = Web { use_etag: true, ..Web::default() };
        let place = into_cache(&ctx, &address, "base", None, web).unwrap();
        assert_eq!(std::fs::read_to_string(tag_place(&place)).unwrap(), "\"one\"");
        for path in [&place, &tag_place(&place), place.parent().unwrap(), place.ancestors().nth(2).unwrap()] {
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o027, 0, "{} is open to other users", path.display());
        }
        std::fs::write(&place, "known").unwrap();
        into_cache(&ctx, &address, "base", None, web).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "known");
        into_cache(&ctx, &address, "base", None, Web::default()).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "hello");
        let asked = server.join().unwrap();
        let with_tag: Vec<bool> = asked.iter().map(|request| request.contains("If-None-Match")).collect();
        assert_eq!(with_tag, [false, true, false]);
    }
}
