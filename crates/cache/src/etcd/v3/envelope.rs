//! A value with the time at which it was written, as Salt's driver `etcd3` packs both: `{"d": value, "t": seconds}`.

use bytes::Bytes;
use value::Value;
use wire::msgpack::{
    Decode, Packing, fields, most_values, pack_bytes_header, pack_into, pack_map_header, unpack_bytes,
};

const VALUE: &str = "d";
const TIME: &str = "t";

/// Wraps a packed value.
pub(super) fn packed(value: &[u8], now: i64) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 16);
    let name = |out: &mut Vec<u8>, name: &str| {
        pack_bytes_header(out, name.len(), Packing::Wire);
        out.extend_from_slice(name.as_bytes());
    };
    pack_map_header(&mut out, 2);
    name(&mut out, VALUE);
    out.extend_from_slice(value);
    name(&mut out, TIME);
    pack_into(&mut out, &Value::Int(now), Packing::Wire);
    out
}

/// Returns the packed value in an envelope, or why there is none.
pub(super) fn value(envelope: &Bytes) -> Result<Bytes, String> {
    let found = fields(envelope, [VALUE, TIME], most_values(envelope.len())).map_err(|error| error.to_string())?;
    match found {
        Some([Some((value, _)), Some(_)]) => Ok(value),
        _ => Err("it is not a map of a value (d) and its time (t)".to_owned()),
    }
}

/// Returns the time in an envelope. Anything else counts as no time.
pub(super) fn time(envelope: &Bytes) -> Option<i64> {
    let [time] = fields(envelope, [TIME], most_values(envelope.len())).ok()??;
    unpack_bytes(&time?.0, Decode::Default).ok()?.as_i64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `salt.payload.dumps` of Salt 3008.5 makes of `{"d": {"os": "Debian", "n": [1, None]}, "t": 1700000000}`.
    const OF_SALT: &[u8] = b"\x82\xa1d\x82\xa2os\xa6Debian\xa1n\x92\x01\xc0\xa1t\xce\x65\x53\xf1\x00";

    #[test]
    fn an_envelope_is_that_of_salt() {
        let inner = Bytes::from_static(&OF_SALT[3..OF_SALT.len() - 7]);
        assert_eq!(packed(&inner, 1_700_000_000), OF_SALT);
        let envelope = Bytes::from_static(OF_SALT);
        assert_eq!(value(&envelope), Ok(inner));
        assert_eq!(time(&envelope), Some(1_700_000_000));
    }

    #[test]
    fn anything_else_is_no_value() {
        let cases: [&[u8]; 9] = [
            b"",
            b"\xc1",
            b"\xc0",
            b"\x81\xa1d\x01",
            b"\x81\xa1t\x01",
            b"\x82\xa1d\x01\xa1x\x02",
            b"\x92\xa1d\x01",
            &OF_SALT[..OF_SALT.len() - 1],
            b"\x82\xa1d\xdd\xff\xff\xff\xff\xa1t\x01",
        ];
        for case in cases {
            assert!(value(&Bytes::from_static(case)).is_err(), "{case:?}");
        }
        assert_eq!(time(&Bytes::from_static(b"\x82\xa1d\x01\xa1t\xa1x")), None);
        assert_eq!(time(&Bytes::from_static(b"\x81\xa1d\x01")), None);
    }
}
