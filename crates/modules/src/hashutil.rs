//! `hashutil` — checksums, signatures and base64.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, STANDARD};
use exec::{Context, Error, Module, Result, function};
use openssl::hash::hash;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use value::Value;

use crate::file::hash as files;

/// Registers the functions of `hashutil`.
pub static MODULE: Module = Module::new(
    "hashutil",
    "Functions for checksums, signatures and base64.",
    &[
        &BASE64_B64DECODE,
        &BASE64_B64ENCODE,
        &BASE64_DECODEFILE,
        &BASE64_DECODESTRING,
        &BASE64_ENCODEFILE,
        &BASE64_ENCODESTRING,
        &DIGEST,
        &DIGEST_FILE,
        &GITHUB_SIGNATURE,
        &HMAC_COMPUTE,
        &HMAC_SIGNATURE,
        &MD5_DIGEST,
        &SHA256_DIGEST,
        &SHA512_DIGEST,
    ],
);

/// Decodes letters without padding, and ignores the bits that make no whole byte.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&base64::alphabet::STANDARD, NO_PAD.with_decode_allow_trailing_bits(true));

fn bytes_of(value: &Value) -> Vec<u8> {
    value.as_bytes().map_or_else(|| value.to_string().into_bytes(), <[u8]>::to_vec)
}

/// Returns valid UTF-8 as text, anything else as bytes.
fn text_or_bytes(bytes: Vec<u8>) -> Value {
    String::from_utf8(bytes).map_or_else(|error| Value::from(error.as_bytes()), Value::Str)
}

/// Returns the checksum of bytes in hexadecimal digits.
pub fn hex_digest(form: &str, content: &[u8]) -> Result<String> {
    let unknown = || Error::execution(format!("Hash func '{form}' is not supported."));
    let digest = hash(files::digest(form).ok_or_else(unknown)?, content);
    digest.map(hex::encode).map_err(|error| Error::Other(error.to_string()))
}

fn hmac(form: &str, key: &[u8], content: &[u8]) -> Result<Vec<u8>> {
    let unknown = || Error::execution(format!("Hash func '{form}' is not supported."));
    let digest = files::digest(form).ok_or_else(unknown)?;
    let signed = PKey::hmac(key).and_then(|key| Signer::new(digest, &key)?.sign_oneshot_to_vec(content));
    signed.map_err(|error| Error::Other(error.to_string()))
}

/// Decodes base64 as Python does: signs outside of the alphabet are skipped, and what follows the padding is ignored.
fn decoded(text: &Value) -> Result<Vec<u8>> {
    let mut letters = Vec::new();
    let mut padding = 0;
    for byte in bytes_of(text) {
        // Padding counts only after two or three letters of a group; before, it is passed over like any other sign.
        let open = letters.len() % 4;
        if byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/' {
            letters.push(byte);
            // A letter behind an equals sign makes it a stray sign again.
            padding = 0;
        } else if byte == b'=' && open > 1 {
            padding += 1;
            if open + padding == 4 {
                return Ok(LENIENT.decode(letters).expect("these are letters of base64 and no single one is left"));
            }
        }
    }
    match letters.len() % 4 {
        0 => Ok(LENIENT.decode(letters).expect("these are letters of base64 and no single one is left")),
        1 => {
            let why = format!("number of data characters ({}) cannot be 1 more than a multiple of 4", letters.len());
            Err(Error::Other(format!("Invalid base64-encoded string: {why}")))
        }
        _ => Err(Error::Other("Incorrect padding".into())),
    }
}

/// Encodes base64 in lines of 76 characters, each with a line feed.
fn in_lines(content: &[u8]) -> String {
    // 57 bytes are 76 letters: the longest line MIME allows.
    let lines = content.chunks(57).map(|chunk| STANDARD.encode(chunk) + "\n");
    lines.collect()
}

/// Reads base64.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.base64_b64decode 'Z2V0IHNhbHRlZA=='
#[function]
fn base64_b64decode(instr: Value) -> Result<Value> {
    decoded(&instr).map(text_or_bytes)
}

/// Writes base64.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.base64_b64encode 'get salted'
#[function]
fn base64_b64encode(instr: Value) -> Result<String> {
    Ok(STANDARD.encode(bytes_of(&instr)))
}

/// Reads base64 into a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.base64_decodefile instr='Z2V0IHNhbHRlZAo=' outfile='/path/to/binary_file'
#[function]
fn base64_decodefile(ctx: &Context, instr: Value, outfile: String) -> Result<bool> {
    let content = decoded(&instr)?;
    ctx.blocking(move || fs::write(&outfile, content).map_err(|error| Error::io("write", &outfile, &error)))?;
    Ok(true)
}

/// Reads base64 with line ends.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.base64_decodestring instr='Z2V0IHNhbHRlZAo='
#[function]
fn base64_decodestring(instr: Value) -> Result<Value> {
    decoded(&instr).map(text_or_bytes)
}

/// Writes a file as base64 with line ends.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.base64_encodefile /path/to/binary_file
#[function]
fn base64_encodefile(ctx: &Context, fname: String) -> Result<String> {
    let read = move || fs::read(&fname).map_err(|error| Error::io("read", &fname, &error));
    Ok(in_lines(&ctx.blocking(read)?))
}

/// Writes base64 with line ends.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.base64_encodestring 'get salted'
#[function]
fn base64_encodestring(instr: Value) -> Result<String> {
    Ok(in_lines(&bytes_of(&instr)))
}

/// Returns the checksum of a text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.digest 'get salted' sha256
#[function]
fn digest(instr: Value, #[default("md5")] checksum: String) -> Result<String> {
    hex_digest(&checksum, &bytes_of(&instr))
}

/// Returns the checksum of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.digest_file /path/to/file sha256
#[function]
fn digest_file(ctx: &Context, infile: String, #[default("md5")] checksum: String) -> Result<String> {
    ctx.blocking(move || {
        // Checked separately, since Salt has its own message for a missing file.
        if !std::path::Path::new(&infile).exists() {
            return Err(Error::execution(format!("File path '{infile}' not found.")));
        }
        files::of_file(&infile, &checksum)
    })
}

/// Returns whether a signature in the form ``sha1=…`` matches a text and a key.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.github_signature '{"ref":"main"}' 'shared secret' 'sha1=bc65…'
#[function]
fn github_signature(string: Value, shared_secret: Value, challenge_hmac: String) -> Result<bool> {
    let wrong = || Error::invocation("the signature has the form algorithm=digits");
    // GitHub sends `sha256=…`, so the sender of the request names the algorithm.
    let (form, wanted) = challenge_hmac.split_once('=').ok_or_else(wrong)?;
    let found = hex::encode(hmac(form, &bytes_of(&shared_secret), &bytes_of(&string))?);
    // In constant time: the time of a plain comparison would reveal how many digits are right.
    Ok(found.len() == wanted.len() && openssl::memcmp::eq(found.as_bytes(), wanted.as_bytes()))
}

/// Returns the signature of a text with a key (HMAC-SHA-256, in hexadecimal digits).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.hmac_compute 'get salted' 'shared secret'
#[function]
fn hmac_compute(string: Value, shared_secret: Value) -> Result<String> {
    Ok(hex::encode(hmac("sha256", &bytes_of(&shared_secret), &bytes_of(&string))?))
}

/// Returns whether a signature (HMAC-SHA-256, base64) matches a text and a key.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.hmac_signature 'get salted' 'shared secret' 'eBWf9bstXg+NiP5AOwppB5HMvZiYMPzEM9W5YMm/AmQ='
#[function]
fn hmac_signature(string: Value, shared_secret: Value, challenge_hmac: Value) -> Result<bool> {
    let found = STANDARD.encode(hmac("sha256", &bytes_of(&shared_secret), &bytes_of(&string))?).into_bytes();
    let wanted = bytes_of(&challenge_hmac);
    // The lengths first, because the comparison in constant time panics when they differ.
    Ok(found.len() == wanted.len() && openssl::memcmp::eq(&found, &wanted))
}

/// Returns the MD5 checksum of a text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.md5_digest 'get salted'
#[function]
fn md5_digest(instr: Value) -> Result<String> {
    hex_digest("md5", &bytes_of(&instr))
}

/// Returns the SHA-256 checksum of a text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.sha256_digest 'get salted'
#[function]
fn sha256_digest(instr: Value) -> Result<String> {
    hex_digest("sha256", &bytes_of(&instr))
}

/// Returns the SHA-512 checksum of a text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hashutil.sha512_digest 'get salted'
#[function]
fn sha512_digest(instr: Value) -> Result<String> {
    hex_digest("sha512", &bytes_of(&instr))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_summed_and_signed() {
        assert_eq!(hex_digest("md5", b"x").unwrap(), "9dd4e461268c8034f5c8564e155c67a6");
        assert!(hex_digest("nonsense", b"x").is_err());
        let fits =
            |signature: &str| hmac_signature("get salted".into(), "shared secret".into(), signature.into()).unwrap();
        assert!(fits("eBWf9bstXg+NiP5AOwppB5HMvZiYMPzEM9W5YMm/AmQ="));
        assert!(!fits("eBWf"));
        let signature = hex::encode(hmac("sha1", b"key", b"text").unwrap());
        assert!(github_signature("text".into(), "key".into(), format!("sha1={signature}")).unwrap());
        assert!(!github_signature("text".into(), "no".into(), format!("sha1={signature}")).unwrap());
    }

    #[test]
    fn base64_goes_both_ways() {
        let long = "x".repeat(100);
        let encoded = base64_encodestring(long.as_str().into()).unwrap();
        assert_eq!(encoded.lines().next().unwrap().len(), 76);
        assert_eq!(base64_decodestring(encoded.into()).unwrap(), long.into());
        for (text, wanted) in [
            // As Python 3.11 decodes them: other characters are skipped, and decoding continues after the padding.
            ("%", ""),
            ("Z2V0IHNh\\nbHRlZA==", "b'get sa\\x9d\\xb1\\xd1\\x95\\x90'"),
            ("YQ==YQ==", "a"),
            ("=YWI=", "ab"),
            ("YR==", "a"),
            ("YWJj=YQ==", "abca"),
            ("====", ""),
        ] {
            assert_eq!(base64_b64decode(text.into()).unwrap().to_string(), wanted, "{text}");
        }
        for text in ["Y", "YQ", "YQ=", "YWJjZ", "YW=J"] {
            assert!(base64_b64decode(text.into()).is_err(), "{text}");
        }
    }
}
