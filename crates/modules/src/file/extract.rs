//! Checksums in texts: in an argument, or in a file with sums of many files.

use std::path::Path;
use std::sync::LazyLock;

use exec::{Context, Error, Result, function};
use fancy_regex::Regex;
use value::{Map, Value, map};

use super::address::{self, VALID, redacted};
use super::signature::Signature;
use super::spec::Origin;
use crate::fileclient::Web;
use crate::text;

/// The kinds of checksums and how many digits they have, in Salt's order.
pub const KINDS: [(&str, usize); 6] =
    [("sha512", 128), ("sha384", 96), ("sha256", 64), ("sha224", 56), ("sha1", 40), ("md5", 32)];

/// A checksum and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Such as `sha256`.
    pub kind: String,
    /// Its digits.
    pub digits: String,
}

impl Sum {
    /// Reads the map that Salt's functions pass around; `None` if it is empty.
    pub fn from_value(value: &Value) -> Option<Self> {
        let map = value.as_map()?;
        let kind = map.get_str("hash_type").unwrap_or("sha256").to_owned();
        Some(Sum { kind, digits: map.get_str("hsum")?.to_owned() })
    }
}

impl From<Sum> for Value {
    fn from(sum: Sum) -> Value {
        map! { "hsum" => sum.digits, "hash_type" => sum.kind }.into()
    }
}

fn length_of(kind: &str) -> Option<usize> {
    KINDS.iter().find(|(name, _)| *name == kind).map(|(_, length)| *length)
}

fn kind_of(length: usize) -> Option<&'static str> {
    KINDS.iter().find(|(_, digits)| *digits == length).map(|(name, _)| *name)
}

/// The criteria for finding a checksum in a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looked<'a> {
    /// The kind; empty for any.
    pub kind: &'a str,
    /// The file on this machine.
    pub file_name: &'a str,
    /// The address of the file.
    pub source: &'a str,
    /// The name the file has in the list.
    pub source_hash_name: Option<&'a str>,
}

static DIGITS: LazyLock<Regex> =
    // The digits must stand alone, or part of a longer word such as a file name would be taken for a sum.
    LazyLock::new(|| Regex::new("(?i)(?<![a-z0-9])([a-f0-9]{32,128})(?![a-z0-9])").expect("a fixed pattern"));

fn sum_in(line: &str, length: Option<usize>) -> Option<Sum> {
    for found in DIGITS.find_iter(line).flatten() {
        if length.is_some_and(|length| found.as_str().len() != length) {
            continue;
        }
        // As in Salt only the first run of digits of a line counts.
        let kind = kind_of(found.as_str().len())?;
        return Some(Sum { kind: kind.into(), digits: found.as_str().to_owned() });
    }
    None
}

/// Returns whether a line is about a file: it ends with its name, or begins with its whole path.
fn is_about(line: &str, whole: &str, last: &str, before: impl Fn(char) -> bool) -> bool {
    match line.strip_suffix(last) {
        Some(rest) => rest.chars().next_back().is_some_and(before),
        None => line.strip_prefix(whole).is_some_and(|rest| rest.starts_with(char::is_whitespace)),
    }
}

/// Finds the checksum of a file in a list: by the given name, by the file's, by the source's, else the first one.
pub fn find(list: &str, looked: &Looked<'_>) -> Option<Sum> {
    let length = length_of(looked.kind);
    // The character before the name must separate: `*` marks binary files in the output of `sha256sum`.
    let separator = |c: char| c.is_whitespace() || "\\/*".contains(c);
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let (file_base, source) = (base(looked.file_name), address::parse(looked.source));
    // An address without a path has its name where the host stands.
    let source_base = base(if source.path.is_empty() { source.host } else { source.path });
    let mut found: [Option<Sum>; 3] = [None, None, None];
    let mut first = None;
    for line in list.lines().map(str::trim) {
        let Some(sum) = sum_in(line, length) else { continue };
        let matches = [
            looked
                .source_hash_name
                .filter(|name| !name.is_empty())
                .is_some_and(|name| is_about(line, name, name, char::is_whitespace)),
            !looked.file_name.is_empty() && is_about(line, looked.file_name, &file_base, separator),
            !looked.source.is_empty() && is_about(line, looked.source, &source_base, separator),
        ];
        for (place, _) in found.iter_mut().zip(matches).filter(|(place, matches)| *matches && place.is_none()) {
            *place = Some(sum.clone());
        }
        // If no name matches, the first sum of the list is taken: many lists hold just one.
        first.get_or_insert(sum);
    }
    // In order of certainty: the name the caller gave counts more than those that are derived.
    found.into_iter().flatten().next().or(first)
}

/// Finds the checksum of a file in a file with checksums.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.extract_hash /path/to/hash/file sha512 /etc/foo
#[function]
pub fn extract_hash(
    ctx: &Context,
    hash_fn: String,
    #[default("sha256")] hash_type: String,
    #[default("")] file_name: Value,
    #[default("")] source: Value,
    source_hash_name: Option<String>,
) -> Result<Value> {
    let _ = ctx;
    let list = read_list(Path::new(&hash_fn))?;
    let (file_name, source) = (file_name.to_string(), source.to_string());
    let looked = Looked {
        kind: &hash_type,
        file_name: &file_name,
        source: &source,
        source_hash_name: source_hash_name.as_deref(),
    };
    Ok(find(&list, &looked).map_or(Value::Null, Value::from))
}

/// The largest list of checksums that is read, in bytes.
const MOST: u64 = 64 << 20;

fn read_list(path: &Path) -> Result<String> {
    // The list may come from the web, and it is read as a whole.
    let large = std::fs::metadata(path).is_ok_and(|meta| meta.len() > MOST);
    if large {
        return Err(Error::execution(format!("{} is too large for a list of checksums", path.display())));
    }
    let bytes = std::fs::read(path).map_err(|error| super::os_error(&error, &path.to_string_lossy()))?;
    Ok(text::decode(&bytes))
}

/// Finds the checksum that the source of a file should have.
///
/// # Errors
/// When there is none, or it is not a checksum.
pub fn source_sum(ctx: &Context, file_name: &str, origin: &Origin) -> Result<Sum> {
    let hash = origin.source_hash.as_str().ok_or_else(|| invalid(&origin.source_hash.to_string()))?;
    let scheme = address::parse(hash).scheme;
    let place = if hash.starts_with('/') {
        Some(Path::new(hash).to_owned())
    } else if VALID.contains(&scheme) {
        let found = crate::fileclient::cache_hashed(ctx, hash, &origin.saltenv, None, origin.web)?;
        let missing = || Error::execution(format!("Source hash file {} not found", redacted(hash)));
        let found = found.ok_or_else(missing)?;
        // Before the list is read: nothing in it counts until its signature does.
        if origin.signature.is_of_list() {
            origin.signature.check(ctx, &found, &origin.saltenv)?;
        }
        Some(found)
    // Anything else with a scheme is a mistake, not a checksum.
    } else if scheme.is_empty() {
        None
    } else {
        return Err(invalid(hash));
    };
    let sum = match place {
        Some(place) => {
            let (source, name) = (origin.source.to_string(), origin.source_hash_name.as_deref());
            let looked = Looked { kind: "", file_name, source: &source, source_hash_name: name };
            find(&read_list(&place)?, &looked).ok_or_else(|| invalid(hash))?
        }
        None => given_sum(hash)?,
    };
    Ok(Sum { digits: sum.digits.to_lowercase(), ..sum })
}

/// Reads `sha256=abc…` or the digits alone.
fn given_sum(hash: &str) -> Result<Sum> {
    let (kind, digits) = match hash.split_once('=') {
        Some((kind, digits)) => (kind.trim(), digits.trim()),
        None if !hash.is_empty() && hash.chars().all(|c| c.is_ascii_hexdigit()) => {
            (kind_of(hash.len()).ok_or_else(|| invalid(hash))?, hash)
        }
        None => return Err(invalid(hash)),
    };
    let Some(length) = length_of(kind) else {
        let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        return Err(Error::execution(format!(
            "Invalid hash type '{kind}'. Supported hash types are: {}. Either remove the hash type and simply use \
             '{digits}' as the source_hash, or change the hash type to a supported type.",
            known.join(", ")
        )));
    };
    // The message suggests what the digits could be.
    let fitting = kind_of(digits.len()).ok_or_else(|| invalid(hash))?;
    if digits.len() != length {
        return Err(Error::execution(format!(
            "Invalid length ({}) for hash type '{kind}'. Either remove the hash type and simply use '{digits}' as the \
             source_hash, or change the hash type to '{fitting}'",
            digits.len()
        )));
    }
    Ok(Sum { kind: kind.into(), digits: digits.into() })
}

fn invalid(hash: &str) -> Error {
    let mut kinds = KINDS;
    // The message lists them from the shortest, unlike the table.
    kinds.sort_by_key(|(_, length)| *length);
    let lengths: Vec<String> = kinds.iter().map(|(name, length)| format!("{name} ({length})")).collect();
    Error::execution(format!(
        "Source hash {} format is invalid. The supported formats are: 1) a hash, 2) an expression in the format \
         <hash_type>=<hash>, or 3) either a path to a local file containing hashes, or a URI of a remote hash file. \
         Supported protocols for remote hash files are: {}. The hash may also not be of a valid length, the following \
         are supported hash types and lengths: {}.",
        redacted(hash),
        VALID.join(", "),
        lengths.join(", ")
    ))
}

/// Returns the checksum of a source, and its algorithm.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_source_sum /tmp/foo.tar.gz source=http://mydomain.tld/foo.tar.gz source_hash=499ae16dcae71eeb7c3a30c75ea7a1a6
#[function]
pub fn get_source_sum(
    ctx: &Context,
    #[default("")] file_name: Value,
    #[default("")] source: Value,
    #[default(Value::Null)] source_hash: Value,
    source_hash_name: Option<String>,
    #[default("base")] saltenv: String,
    #[default(true)] verify_ssl: bool,
    #[default(Value::Null)] source_hash_sig: Value,
    #[default(Value::Null)] signed_by_any: Value,
    #[default(Value::Null)] signed_by_all: Value,
    #[default(Value::Null)] keyring: Value,
    #[default(Value::Null)] gnupghome: Value,
    #[default("gpg")] sig_backend: String,
) -> Result<Map> {
    let origin = Origin {
        source: source.to_string().into(),
        source_hash,
        source_hash_name,
        saltenv,
        skip_verify: false,
        web: Web { verify_ssl, ..Web::default() },
        signature: Signature {
            signature: Value::Null,
            source_hash_sig,
            signed_by_any,
            signed_by_all,
            keyring,
            gnupghome,
            sig_backend,
        },
    };
    let sum = source_sum(ctx, &file_name.to_string(), &origin)?;
    Ok(map! { "hsum" => sum.digits, "hash_type" => sum.kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_from_arguments() {
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        assert_eq!(given_sum(md5).unwrap().kind, "md5");
        assert_eq!(given_sum(&format!("md5 = {md5}")).unwrap().digits, md5);
        assert!(given_sum(&format!("sha1={md5}")).unwrap_err().to_string().starts_with("Invalid length (32)"));
        assert!(given_sum(&format!("crc={md5}")).unwrap_err().to_string().starts_with("Invalid hash type 'crc'"));
        assert!(given_sum("xyz").unwrap_err().to_string().starts_with("Source hash xyz format is invalid"));
    }

    #[test]
    fn sums_are_found_in_lists() {
        let list = "d41d8cd98f00b204e9800998ecf8427e  a.txt\n0cc175b9c0f1b6a831c399e269772661 *sub/b.txt\n";
        let digits = |looked: Looked<'_>| find(list, &looked).unwrap().digits;
        assert!(digits(Looked { file_name: "/x/b.txt", ..Looked::default() }).starts_with("0cc1"));
        assert!(digits(Looked { source: "http://h/a.txt", ..Looked::default() }).starts_with("d41d"));
        // No line names this file, so the first sum counts.
        assert!(digits(Looked { source: "http://h/c.txt", ..Looked::default() }).starts_with("d41d"));
        assert!(find("nothing", &Looked::default()).is_none());
        assert!(find(list, &Looked { kind: "sha1", ..Looked::default() }).is_none());
    }
}
