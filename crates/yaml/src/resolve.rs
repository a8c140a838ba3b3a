//! The types of plain scalars: the rules of YAML 1.1 as in PyYAML's patterns.

/// Text.
pub(crate) const STR: &str = "tag:yaml.org,2002:str";
/// List.
pub(crate) const SEQ: &str = "tag:yaml.org,2002:seq";
/// Map.
pub(crate) const MAP: &str = "tag:yaml.org,2002:map";
/// `true`, `yes`, `on`…
pub(crate) const BOOL: &str = "tag:yaml.org,2002:bool";
/// Float.
pub(crate) const FLOAT: &str = "tag:yaml.org,2002:float";
/// Integer.
pub(crate) const INT: &str = "tag:yaml.org,2002:int";
/// `<<`.
pub(crate) const MERGE: &str = "tag:yaml.org,2002:merge";
/// `null`, `~`, nothing.
pub(crate) const NULL: &str = "tag:yaml.org,2002:null";
/// Date or time.
pub(crate) const TIMESTAMP: &str = "tag:yaml.org,2002:timestamp";
/// `=`.
pub(crate) const VALUE: &str = "tag:yaml.org,2002:value";
/// Base64.
pub(crate) const BINARY: &str = "tag:yaml.org,2002:binary";

/// Returns the tag of a plain scalar.
pub(crate) fn plain(value: &str) -> &'static str {
    let Some(&first) = value.as_bytes().first() else {
        return NULL;
    };
    // Python's `$` also matches before a final line break.
    let text = value.strip_suffix('\n').unwrap_or(value).as_bytes();
    // The order of PyYAML's resolvers for each first character. A match must be complete: `1.2.3` is text.
    match first {
        b'0'..=b'9' if is_float(text) => FLOAT,
        b'0'..=b'9' if is_int(text) => INT,
        b'0'..=b'9' if is_timestamp(text) => TIMESTAMP,
        b'-' | b'+' | b'.' if is_float(text) => FLOAT,
        b'-' | b'+' if is_int(text) => INT,
        b'<' if text == b"<<" => MERGE,
        b'=' if text == b"=" => VALUE,
        b'~' if text == b"~" => NULL,
        // PyYAML has this resolver, although no plain scalar can begin with one of these signs.
        b'!' | b'&' | b'*' if text.len() == 1 => "tag:yaml.org,2002:yaml",
        _ => word(text),
    }
}

fn word(text: &[u8]) -> &'static str {
    match text {
        b"yes" | b"Yes" | b"YES" | b"no" | b"No" | b"NO" | b"true" | b"True" | b"TRUE" | b"false" | b"False"
        | b"FALSE" | b"on" | b"On" | b"ON" | b"off" | b"Off" | b"OFF" => BOOL,
        b"null" | b"Null" | b"NULL" => NULL,
        _ => STR,
    }
}

/// A reader of the bytes of a scalar, with one method per piece of a pattern.
struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    fn one(&mut self, accept: impl Fn(u8) -> bool) -> bool {
        match self.0 {
            [first, rest @ ..] if accept(*first) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn many(&mut self, accept: impl Fn(u8) -> bool + Copy) -> usize {
        let mut count = 0;
        while self.one(accept) {
            count += 1;
        }
        count
    }

    fn byte(&mut self, wanted: u8) -> bool {
        self.one(|byte| byte == wanted)
    }

    fn sign(&mut self) -> bool {
        self.one(|byte| byte == b'-' || byte == b'+')
    }

    fn digits(&mut self, range: std::ops::RangeInclusive<usize>) -> bool {
        let mut count = 0;
        while count < *range.end() && self.one(digit) {
            count += 1;
        }
        range.contains(&count)
    }

    fn done(&self) -> bool {
        self.0.is_empty()
    }
}

fn digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

fn digit_or_line(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'_'
}

fn is_int(text: &[u8]) -> bool {
    let mut scan = Scan(text);
    scan.sign();
    match scan.0 {
        [b'0'] => true,
        [b'0', b'b', rest @ ..] => !rest.is_empty() && rest.iter().all(|b| matches!(b, b'0' | b'1' | b'_')),
        [b'0', b'x', rest @ ..] => !rest.is_empty() && rest.iter().all(|b| b.is_ascii_hexdigit() || *b == b'_'),
        // YAML 1.1 takes this for octal. With a digit 8 or 9 it is text: `08`.
        [b'0', rest @ ..] => rest.iter().all(|b| matches!(b, b'0'..=b'7' | b'_')),
        [b'1'..=b'9', ..] => {
            scan.many(digit_or_line);
            scan.done() || (sixties(&mut scan) && scan.done())
        }
        _ => false,
    }
}

/// `(?::[0-5]?[0-9])+`
fn sixties(scan: &mut Scan<'_>) -> bool {
    let mut any = false;
    while scan.byte(b':') {
        match scan.0 {
            [b'0'..=b'5', b'0'..=b'9', rest @ ..] | [b'0'..=b'9', rest @ ..] => scan.0 = rest,
            _ => return false,
        }
        any = true;
    }
    any
}

fn is_float(text: &[u8]) -> bool {
    let mut scan = Scan(text);
    let signed = scan.sign();
    if matches!(scan.0, b".inf" | b".Inf" | b".INF") {
        return true;
    }
    if !signed && matches!(scan.0, b".nan" | b".NaN" | b".NAN") {
        return true;
    }
    if scan.byte(b'.') {
        // Without a leading digit there is no sign.
        return !signed && scan.one(digit) && (scan.many(digit_or_line), exponent(&mut scan)).1;
    }
    if !scan.one(digit) {
        return false;
    }
    scan.many(digit_or_line);
    let base_sixty = scan.0.first() == Some(&b':');
    if base_sixty && !sixties(&mut scan) || !scan.byte(b'.') {
        return false;
    }
    scan.many(digit_or_line);
    if base_sixty { scan.done() } else { exponent(&mut scan) }
}

/// Matches an optional exponent with its sign up to the end of the text.
fn exponent(scan: &mut Scan<'_>) -> bool {
    // YAML 1.1 requires the sign: `1e3` is text, `1e+3` would need a point, too.
    if scan.one(|byte| byte == b'e' || byte == b'E') && !(scan.sign() && scan.many(digit) > 0) {
        return false;
    }
    scan.done()
}

fn is_timestamp(text: &[u8]) -> bool {
    let mut scan = Scan(text);
    if !(scan.digits(4..=4) && scan.byte(b'-')) {
        return false;
    }
    // A bare date needs two digits each; with a time of day one is enough.
    if matches!(scan.0, [a, b, b'-', c, d] if [a, b, c, d].into_iter().all(|b| b.is_ascii_digit())) {
        return true;
    }
    scan.digits(1..=2) && scan.byte(b'-') && scan.digits(1..=2) && time_of_day(&mut scan)
}

fn blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn time_of_day(scan: &mut Scan<'_>) -> bool {
    let separated = scan.one(|byte| byte == b'T' || byte == b't') || scan.many(blank) > 0;
    let clock = separated
        && scan.digits(1..=2)
        && scan.byte(b':')
        && scan.digits(2..=2)
        && scan.byte(b':')
        && scan.digits(2..=2);
    if !clock {
        return false;
    }
    if scan.byte(b'.') {
        scan.many(digit);
    }
    if scan.done() {
        return true;
    }
    scan.many(blank);
    if scan.byte(b'Z') { scan.done() } else { zone_offset(scan) }
}

fn zone_offset(scan: &mut Scan<'_>) -> bool {
    scan.sign() && scan.digits(1..=2) && (scan.done() || (scan.byte(b':') && scan.digits(2..=2) && scan.done()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_get_the_types_of_yaml_1_1() {
        let cases: &[(&str, &[&str])] = &[
            (INT, &["0", "-0", "12", "+1_000", "0644", "0b1_0", "0xfF", "190:20:30", "0_"]),
            (FLOAT, &["1.", "1_0.5", ".5", "1.5e+3", "-.inf", ".nan", "1:30.5", "-1.0", "1.e-2"]),
            (STR, &["1e3", "-.5", "1.5e3", "0o17", "08", "1:60", "-.nan", "0x", "yEs", "y", "n", "1:2:", "a"]),
            (NULL, &["", "~", "null", "Null", "NULL"]),
            (BOOL, &["yes", "Off", "TRUE"]),
            (TIMESTAMP, &["2001-12-14", "2001-1-4 1:02:03", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43 Z"]),
            (STR, &["2001-1-4", "2001-12-14 21:59", "2001-12-14T", "1:.5", "2001-12-14 21:59:43 +"]),
            (MERGE, &["<<"]),
            (VALUE, &["="]),
        ];
        for (tag, texts) in cases {
            for text in *texts {
                assert_eq!(plain(text), *tag, "{text:?}");
            }
        }
    }
}
