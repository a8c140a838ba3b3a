//! Checksums of files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use exec::{Context, Error, Result, function};
use openssl::hash::{Hasher, MessageDigest};
use value::Value;

use super::os_error;
use super::paths::expand_user;

/// The kinds of checksums and how many hexadecimal digits they have, by length.
const LENGTHS: [(usize, &str); 6] =
    [(32, "md5"), (40, "sha1"), (56, "sha224"), (64, "sha256"), (96, "sha384"), (128, "sha512")];

/// Returns the algorithm of a name, as Python's `hashlib` knows it.
pub fn digest(form: &str) -> Option<MessageDigest> {
    Some(match form.to_lowercase().replace('-', "_").as_str() {
        "md5" => MessageDigest::md5(),
        "sha1" => MessageDigest::sha1(),
        "sha224" => MessageDigest::sha224(),
        "sha256" => MessageDigest::sha256(),
        "sha384" => MessageDigest::sha384(),
        "sha512" => MessageDigest::sha512(),
        "sha3_224" => MessageDigest::sha3_224(),
        "sha3_256" => MessageDigest::sha3_256(),
        "sha3_384" => MessageDigest::sha3_384(),
        "sha3_512" => MessageDigest::sha3_512(),
        // Whatever else the library has, as `hashlib.new` would find it.
        name => return MessageDigest::from_name(name),
    })
}

/// Returns the checksum of a file in hexadecimal digits.
///
/// # Errors
/// For unknown algorithms and files that cannot be read.
pub fn of_file(path: &str, form: &str) -> Result<String> {
    let unknown = || Error::Other(format!("Invalid hash type: {form}"));
    let mut file = File::open(path).map_err(|error| os_error(&error, path))?;
    let mut hasher = Hasher::new(digest(form).ok_or_else(unknown)?).map_err(|error| Error::Other(error.to_string()))?;
    // In pieces: the file may be larger than the memory.
    let mut chunk = [0; 16 * 1024];
    loop {
        let length = file.read(&mut chunk).map_err(|error| os_error(&error, path))?;
        if length == 0 {
            break;
        }
        hasher.update(&chunk[..length]).map_err(|error| Error::Other(error.to_string()))?;
    }
    Ok(hex::encode(hasher.finish().map_err(|error| Error::Other(error.to_string()))?))
}

/// Splits "sha256:abc…" or "sha256=abc…"; without a name the length determines the algorithm.
fn split_hash(hash: &str) -> Result<(String, &str)> {
    // A colon counts before an equals sign, wherever they stand.
    if let Some(place) = hash.find(':').or_else(|| hash.find('=')) {
        return Ok((hash[..place].to_owned(), &hash[place + 1..]));
    }
    let found = LENGTHS.iter().find(|(length, _)| *length == hash.len());
    found.map(|(_, form)| ((*form).to_owned(), hash)).ok_or_else(|| {
        let known: Vec<String> = LENGTHS.iter().map(|(length, form)| format!("{form} ({length})")).collect();
        Error::invocation(format!(
            "Hash {hash} (length: {}) could not be matched to a supported hash type. The supported hash types and \
             lengths are: {}",
            hash.len(),
            known.join(", ")
        ))
    })
}

/// Returns whether a file has a checksum; its algorithm precedes it, or follows from its length.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.check_hash /etc/fstab md5:d41d8cd98f00b204e9800998ecf8427e
#[function]
pub fn check_hash(ctx: &Context, path: String, file_hash: Value) -> Result<bool> {
    let Value::Str(wanted) = file_hash else { return Err(Error::invocation("hash must be a string")) };
    let (form, sum) = split_hash(&wanted)?;
    let sum = sum.to_owned();
    ctx.blocking(move || Ok(of_file(&expand_user(&path), &form)? == sum))
}

/// Returns the checksum of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_hash /etc/shadow
///     salt '*' file.get_hash /etc/shadow md5
#[function]
pub fn get_hash(
    ctx: &Context,
    path: String,
    #[default("sha256")] form: String,
    #[default(65536)] chunk_size: i64,
) -> Result<String> {
    // The size of a piece does not change the result.
    let _ = chunk_size;
    ctx.blocking(move || of_file(&expand_user(&path), &form))
}

/// Returns the checksum of a file, or an error if there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_sum /etc/passwd sha512
#[function]
pub fn get_sum(ctx: &Context, path: String, #[default("sha256")] form: String) -> Result<String> {
    ctx.blocking(move || {
        let path = expand_user(&path);
        if Path::new(&path).is_file() { of_file(&path, &form) } else { Ok("File not found".into()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_algorithm_stands_before_the_sum_or_follows_from_its_length() {
        assert_eq!(split_hash("sha1=ab").unwrap(), ("sha1".into(), "ab"));
        let sum = "d41d8cd98f00b204e9800998ecf8427e";
        assert_eq!(split_hash(sum).unwrap(), ("md5".into(), sum));
        assert!(split_hash("abc").unwrap_err().to_string().starts_with("Hash abc (length: 3) could not be matched"));
    }

    #[test]
    fn files_are_summed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(of_file(path, "sha256").unwrap(), empty);
        assert_eq!(of_file(path, "nonsense").unwrap_err().to_string(), "Invalid hash type: nonsense");
    }
}
