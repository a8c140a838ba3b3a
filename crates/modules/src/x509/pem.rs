//! PEM texts, put in order.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use exec::{Error, Result, function};
use fancy_regex::Regex;
use value::{Map, Value};

use super::load;

/// Matches any label of a PEM.
const ANY: &str = "[0-9A-Z ]+";
/// Matches the labels of private keys.
pub const PRIVATE_KEY: &str = "(?:(RSA|ENCRYPTED) )?PRIVATE KEY";

/// Finds the first PEM of a type, a regular expression, and puts it in order: lines of 64 letters, no other space.
///
/// # Errors
/// There is none.
pub fn entry(text: &str, pem_type: Option<&str>) -> Result<String> {
    // Pillars and the command line often contain PEM with literal `\n` or in one line.
    let text = unfolded(&text.replace("\\n", "\n"));
    let invalid = || {
        Error::invocation(match pem_type {
            Some(pem_type) => format!("PEM does not contain a single entry of type {pem_type}:\n{}", hidden(&text)),
            None => format!("PEM text not valid:\n{}", hidden(&text)),
        })
    };
    let pem_type = pem_type.unwrap_or(ANY);
    let pattern = format!(
        r"(?s)\s*(?P<header>-----BEGIN {pem_type}-----)\s+(?:(?P<proc>Proc-Type: 4,ENCRYPTED)\s*)?(?:(?P<dek>DEK-Info: (?:DES-[3A-Z\-]+,[0-9A-F]{{16}}|[0-9A-Z\-]+,[0-9A-F]{{32}}))\s*)?(?P<body>.+?)\s+(?P<footer>-----END {pem_type}-----)\s*"
    );
    let regex = Regex::new(&pattern).map_err(|error| Error::invocation(format!("pem_type is wrong: {error}")))?;
    let found = regex.captures(&text).map_err(|error| Error::execution(error.to_string()))?.ok_or_else(invalid)?;
    let part = |name: &str| found.name(name).map(|part| part.as_str());
    let mut out = format!("{}\n", part("header").unwrap_or_default());
    if let Some(line) = part("proc") {
        out += &format!("{line}\n");
    }
    if let Some(line) = part("dek") {
        out += &format!("{line}\n\n");
    }
    let body: String = part("body").unwrap_or_default().split_whitespace().collect();
    // OpenSSL insists on lines of at most 64 characters.
    let letters: Vec<char> = body.chars().collect();
    for line in letters.chunks(64) {
        out.extend(line);
        out.push('\n');
    }
    out += &format!("{}\n", part("footer").unwrap_or_default());
    if out.is_ascii() { Ok(out) } else { Err(invalid()) }
}

/// A text for a message; what may be a private key is not repeated.
fn hidden(text: &str) -> &str {
    // Errors end up in logs and in the job cache of the master.
    if text.contains("PRIVATE KEY") { "(a private key)" } else { text }
}

/// A PEM that was put in one line, as the mine does, in several again.
fn unfolded(text: &str) -> String {
    if text.lines().count() != 1 || !text.starts_with("-----") || !text.ends_with("-----") {
        return text.to_owned();
    }
    let mut lines: Vec<&str> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = match rest.strip_prefix("-----") {
            Some(inside) => inside.find("-----").map_or(rest.len(), |place| place + 10),
            None => rest.char_indices().skip(1).find(|(_, c)| *c == '-').map_or(rest.len(), |(place, _)| place),
        };
        let (line, after) = rest.split_at(end);
        lines.push(line);
        rest = after;
    }
    lines.join("\n")
}

/// Returns a PEM with normalized lines and spaces, from a text or a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.get_pem_entry "-----BEGIN CERTIFICATE REQUEST-----MIICyzCC Ar8CAQI...-----END CERTIFICATE REQUEST"
#[function]
pub fn get_pem_entry(text: Value, pem_type: Option<String>) -> Result<Value> {
    let bytes = load::bytes(&text)?;
    let text = String::from_utf8(bytes).map_err(|error| Error::Other(error.to_string()))?;
    entry(&text, pem_type.as_deref()).map(|pem| Value::bytes(pem.into_bytes()))
}

/// Returns the PEM of each file that matches a pattern.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.get_pem_entries "/etc/pki/*.crt"
#[function]
fn get_pem_entries(glob_path: String) -> Result<Map> {
    let mut found = Map::new();
    for path in super::matching(&glob_path) {
        let pem = get_pem_entry(path.as_str().into(), None)?;
        found.insert(path, pem);
    }
    Ok(found)
}

/// Writes a normalized PEM to a file.
///
/// Without ``overwrite`` a private key and DH parameters that are in the file of a ``CERTIFICATE`` stay.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.write_pem "-----BEGIN CERTIFICATE-----MIIGMzCCBBugA..." path=/etc/pki/mycert.crt
#[function]
pub fn write_pem(
    text: Value,
    path: String,
    #[default(true)] overwrite: bool,
    pem_type: Option<String>,
) -> Result<String> {
    let bytes = load::bytes(&text)?;
    let text = String::from_utf8(bytes).map_err(|error| Error::Other(error.to_string()))?;
    let pem = entry(&text, pem_type.as_deref())?;
    let mut content = String::new();
    let is_certificate = pem_type.as_deref() == Some("CERTIFICATE");
    let before = if is_certificate && !overwrite { std::fs::read_to_string(&path).ok() } else { None };
    let kept = |pem_type: &str| before.as_ref().and_then(|before| entry(before, Some(pem_type)).ok());
    // Web servers like key, certificate and DH parameters in one file. Replacing the certificate
    // must not lose the others.
    content.extend(kept("(?:RSA )?PRIVATE KEY"));
    content += &pem;
    content.extend(kept("DH PARAMETERS"));
    write(&path, content.as_bytes(), 0o600)?;
    Ok(format!("PEM written to {path}"))
}

/// Writes a file in place. `mode` is the mode of a new file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &str, content: &[u8], mode: u32) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    let written = options.open(Path::new(path)).and_then(|mut file| file.write_all(content));
    written.map_err(|error| crate::file::os_error(&error, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_in_order() {
        let body = "A".repeat(70);
        let folded = format!("-----BEGIN X-----{body}-----END X-----");
        let expected = format!("-----BEGIN X-----\n{}\n{}\n-----END X-----\n", &body[..64], &body[64..]);
        assert_eq!(entry(&folded, None).unwrap(), expected);
        let spaced = format!("before -----BEGIN X-----\n  {} {}\n\n-----END X----- after", &body[..10], &body[10..]);
        assert_eq!(entry(&spaced, Some("X")).unwrap(), expected);
        assert!(entry(&spaced, Some("Y")).is_err());
        assert!(entry("-----BEGIN X-----A-B--C-----END Y-----", Some("X")).is_err());
    }

    #[test]
    fn a_broken_private_key_is_not_repeated() {
        let error = entry("-----BEGIN PRIVATE KEY-----\nsecret", None).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
