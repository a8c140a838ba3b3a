//! The fingerprints of member keys in the option `cluster_pub_fingerprint`.

use value::Value;

use crate::error::Error;
use crate::opts::Opts;

const NAME: &str = "cluster_pub_fingerprint";

/// The maximum number of fingerprints: a set has 99 members, some of which were replaced.
const MOST: usize = 256;

/// What a fingerprint looks like, for errors.
const FORM: &str = "a fingerprint of a member key, as 'salt-run saltern.masters' and 'saltern.waiting' show it: \
                    64 hex digits, with or without colons between pairs, in quotes";

/// The SHA-256 of a raw public member key.
type Fingerprint = [u8; 32];

/// Reads one fingerprint or a list of them.
pub(crate) fn read(opts: &Opts) -> Result<Vec<Fingerprint>, Error> {
    let entries = match opts.map.get(NAME) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Str(text)) if text.is_empty() => return Ok(Vec::new()),
        Some(Value::List(entries)) => entries,
        Some(one) => std::slice::from_ref(one),
    };
    if entries.len() > MOST {
        return Err(opts.wrong(NAME, format!("a list of at most {MOST} fingerprints")));
    }
    let entry = |entry| fingerprint(entry).ok_or_else(|| opts.wrong_value(NAME, FORM, entry));
    entries.iter().map(entry).collect()
}

fn fingerprint(entry: &Value) -> Option<Fingerprint> {
    let Value::Str(text) = entry else { return None };
    let text = text.trim();
    let pairs: Vec<&[u8]> = match text.contains(':') {
        true => text.split(':').map(str::as_bytes).collect(),
        false => text.as_bytes().chunks(2).collect(),
    };
    let bytes: Option<Vec<u8>> = pairs.into_iter().map(byte).collect();
    bytes?.try_into().ok()
}

fn byte(pair: &[u8]) -> Option<u8> {
    let &[high, low] = pair else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;
    use crate::Master;

    fn read(value: impl Into<Value>) -> Result<Vec<Fingerprint>, String> {
        let mut options = map! { "id" => "m1", "root_dir" => "/tmp/x", "cluster_id" => "prod" };
        options.insert(NAME, value.into());
        let config = Master::from_options(options).map_err(|error| error.to_string())?;
        Ok(config.cluster.unwrap().pinned)
    }

    #[test]
    fn fingerprints_are_read_as_they_are_shown_and_as_people_write_them() {
        let shown = ["5b", "0F"].repeat(16).join(":");
        let expected: Fingerprint = [[0x5b, 0x0f]; 16].concat().try_into().unwrap();
        for text in
            [shown.clone(), shown.to_uppercase(), shown.to_lowercase(), shown.replace(':', ""), format!(" {shown}\n")]
        {
            assert_eq!(read(text.as_str()), Ok(vec![expected]), "{text}");
        }
        assert_eq!(read(list![shown.as_str(), "07".repeat(32)]), Ok(vec![expected, [7; 32]]));
        for nothing in [Value::Null, "".into(), list![]] {
            assert_eq!(read(nothing), Ok(vec![]));
        }
    }

    #[test]
    fn what_is_no_fingerprint_is_named() {
        let shown = vec!["5b"; 32].join(":");
        for wrong in [
            Value::from("aa"),
            shown[3..].into(),
            format!("{shown}:00").into(),
            shown.replace('b', "g").into(),
            shown.replacen("5b:5b", "5:b5b", 1).into(),
            "é".repeat(32).into(),
            Value::from(5),
            Value::from(map! { "m2" => shown.as_str() }),
            list![shown.as_str(), "m2"],
        ] {
            let error = read(wrong.clone()).unwrap_err();
            assert!(error.contains("'cluster_pub_fingerprint' must be a fingerprint of a member key"), "{error}");
        }
        assert!(read(list!["m2"]).unwrap_err().ends_with("not 'm2'"), "the entry that is wrong");
        assert!(read(vec![shown; 257]).unwrap_err().contains("at most 256"));
    }
}
