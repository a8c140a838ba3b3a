//! Files from the web, through `curl` or `wget`: whichever the machine has.
//!
//! The address goes in by standard input, since it may hold a password and everybody can read the process list.

use std::path::{Path, PathBuf};

use exec::{Context, Error, Result};

use super::remote::client;
use crate::{cmd, util};

/// Says whether an address is one of the web.
pub fn is_foreign(address: &str) -> bool {
    let scheme = address.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| matches!(scheme.as_str(), "http" | "https" | "ftp"))
}

/// Fetches a file into the cache, unless it lies there with the given hash.
pub async fn into_cache(ctx: &Context, address: &str, saltenv: &str, source_hash: Option<&str>) -> Result<PathBuf> {
    let place = client(ctx)?.cache_dest(address, saltenv).map_err(super::remote::failed)?;
    if source_hash.is_some_and(|hash| has_hash(&place, hash)) {
        return Ok(place);
    }
    to_place(ctx, address, &place, true).await
}

/// `sha256=…`, or the digits alone, whose number tells the kind.
fn has_hash(place: &Path, hash: &str) -> bool {
    let digits = hash.rsplit('=').next().unwrap_or_default().trim();
    let kind = crypto::HashType::from_hex_len(digits.len());
    let here = kind.and_then(|kind| Some(kind.hex(&std::fs::read(place).ok()?)));
    here.is_some_and(|here| here.eq_ignore_ascii_case(digits))
}

/// Fetches a file to a place, which has all of it or stays as it was.
pub async fn to_place(ctx: &Context, address: &str, place: &Path, makedirs: bool) -> Result<PathBuf> {
    if address.contains(['\n', '\r', '"', '\\']) {
        return Err(Error::invocation("an address cannot hold line breaks, quotes or backslashes"));
    }
    let name = address.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    let place = if place.is_dir() { place.join(name) } else { place.to_owned() };
    let folder = place.parent().unwrap_or(Path::new("/"));
    if makedirs {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("make the directory", folder, &error))?;
    }
    let part = tempfile::Builder::new()
        .prefix(".saltern-")
        .suffix(".part")
        .tempfile_in(folder)
        .map_err(|error| Error::io("write into", folder, &error))?
        .into_temp_path();
    download(ctx, address, &part.to_string_lossy()).await?;
    part.persist(&place).map_err(|error| Error::io("write", &place, &error.error))?;
    Ok(place)
}

async fn download(ctx: &Context, address: &str, to: &str) -> Result<()> {
    let (words, input): (Vec<&str>, String) = if util::which("curl").is_some() {
        let words = vec!["curl", "--fail", "--silent", "--show-error", "--location", "--output", to, "--config", "-"];
        (words, format!("url = \"{address}\"\n"))
    } else if util::which("wget").is_some() {
        (vec!["wget", "--quiet", "--output-document", to, "--input-file", "-"], format!("{address}\n"))
    } else {
        return Err(Error::CommandNotFound("curl or wget".into()));
    };
    let outcome = cmd::fed(ctx, &words, input.into_bytes()).await?;
    match outcome.retcode {
        Some(0) => Ok(()),
        code => {
            let (shown, code) = (without_password(address), code.unwrap_or_default());
            Err(Error::execution(format!(
                "failed to fetch {shown}: {} ended with {code}: {}",
                words[0],
                outcome.stderr.trim()
            )))
        }
    }
}

/// Says whether a server has a file, without fetching it.
pub async fn exists(ctx: &Context, address: &str) -> bool {
    if address.contains(['\n', '\r', '"', '\\']) {
        return false;
    }
    let words = ["curl", "--fail", "--silent", "--head", "--location", "--output", "/dev/null", "--config", "-"];
    let outcome = if util::which("curl").is_some() {
        cmd::fed(ctx, &words, format!("url = \"{address}\"\n").into_bytes()).await
    } else {
        cmd::fed(ctx, &["wget", "--quiet", "--spider", "--input-file", "-"], format!("{address}\n").into_bytes()).await
    };
    outcome.is_ok_and(|outcome| outcome.retcode == Some(0))
}

/// Takes user and password out of an address.
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
    use value::map;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("https://u:p@h:80/x@y"), "https://h:80/x@y");
        assert!(is_foreign("HTTP://x") && !is_foreign("salt://x") && !is_foreign("/x"));
    }

    #[tokio::test]
    async fn a_file_comes_from_the_web() {
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
        let place = into_cache(&ctx, &address, "base", None).await.unwrap();
        assert_eq!(place, dir.path().join(format!("extrn_files/base/127.0.0.1{port}/a/b.txt-x=1")));
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "hello");
        assert!(server.join().unwrap().starts_with("GET /a/b.txt?x=1 "));
        // Known by its hash it is not fetched again: the server is gone.
        let hash = "sha256=2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(into_cache(&ctx, &address, "base", Some(hash)).await.unwrap(), place);
        let gone = into_cache(&ctx, &address, "base", None).await.unwrap_err().to_string();
        assert!(gone.starts_with("failed to fetch http://127.0.0.1"), "{gone}");
    }
}
