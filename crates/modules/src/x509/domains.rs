//! Names of machines in certificates: checked, and with other letters than ASCII in the form of RFC 3492.

use exec::{Error, Result};

/// The special beginnings that are allowed for a name.
#[derive(Clone, Copy, Debug)]
pub struct Allow {
    /// A dot: all names below.
    pub dot: bool,
    /// An asterisk in place of the first label.
    pub wildcard: bool,
}

/// Checks a name and puts it into letters of ASCII.
///
/// # Errors
/// The name is not a valid domain.
pub fn encode(name: &str, allow: Allow) -> Result<String> {
    // Name constraints begin with a dot, certificates for whole domains with `*.`. IDNA supports neither.
    let (prefix, rest) = if name.starts_with('.') {
        if !allow.dot {
            return Err(Error::execution("Leading dots are not allowed in this context"));
        }
        (".", name.trim_start_matches('.'))
    } else {
        ("", name)
    };
    let (prefix, rest) = match rest.strip_prefix("*.") {
        Some(_) if !allow.wildcard => return Err(Error::execution("Wildcards are not allowed in this context")),
        Some(_) if prefix == "." => {
            return Err(Error::execution("Wildcards and leading dots cannot be present together"));
        }
        Some(rest) if rest.starts_with('.') => return Err(Error::execution("Empty label")),
        Some(rest) => ("*.", rest),
        None => (prefix, rest),
    };
    let (body, dot) = rest.strip_suffix('.').map_or((rest, ""), |body| (body, "."));
    if body.is_empty() {
        return Err(Error::execution("Empty domain"));
    }
    // IDNA takes the full stops of East Asian scripts for dots.
    let labels: Vec<String> = body.split(['.', '。', '．', '｡']).map(label).collect::<Result<_>>()?;
    let joined = labels.join(".");
    if joined.len() > 253 {
        return Err(Error::execution("Domain too long"));
    }
    Ok(format!("{prefix}{joined}{dot}"))
}

fn label(text: &str) -> Result<String> {
    if text.is_empty() {
        return Err(Error::execution("Empty Label"));
    }
    let lower = if text.is_ascii() { text.to_ascii_lowercase() } else { text.to_owned() };
    // These places are reserved for prefixes such as `xn--`.
    if lower.get(2..4) == Some("--") && !lower.starts_with("xn--") {
        return Err(Error::execution("Label has disallowed hyphens in 3rd and 4th position"));
    }
    if lower.starts_with('-') || lower.ends_with('-') {
        return Err(Error::execution("Label must not start or end with a hyphen"));
    }
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || (!c.is_ascii() && is_letter(c));
    if let Some((place, c)) = lower.chars().enumerate().find(|(_, c)| !is_fine(*c)) {
        let text = if text.is_ascii() { &lower } else { text };
        return Err(Error::execution(format!(
            "Codepoint U+{:04X} at position {} of '{text}' not allowed",
            u32::from(c),
            place + 1
        )));
    }
    // The case of an ASCII name is kept, as Salt keeps it.
    let encoded = if text.is_ascii() { text.to_owned() } else { format!("xn--{}", punycode(text)) };
    if encoded.len() > 63 { Err(Error::execution("Label too long")) } else { Ok(encoded) }
}

/// Letters that need no encoding: no capitals, no signs.
fn is_letter(c: char) -> bool {
    c.is_alphanumeric() && c.to_lowercase().eq([c])
}

/// The letters of ASCII first, then where the others belong (RFC 3492, section 6.3).
fn punycode(text: &str) -> String {
    // Punycode (RFC 3492, 6.3), with the parameters of its section 5. There is no need for a whole
    // crate.
    const INITIAL: u32 = 128;
    let mut out: String = text.chars().filter(char::is_ascii).collect();
    let basic = out.len() as u32;
    let mut handled = basic;
    if basic > 0 {
        out.push('-');
    }
    let (mut n, mut delta, mut bias) = (INITIAL, 0_u32, 72);
    let total = text.chars().count() as u32;
    while handled < total {
        let next = text.chars().map(u32::from).filter(|c| *c >= n).min().expect("some are left");
        delta = delta.wrapping_add((next - n).wrapping_mul(handled + 1));
        n = next;
        for c in text.chars().map(u32::from) {
            if c < n {
                delta = delta.wrapping_add(1);
            }
            if c == n {
                push_number(&mut out, delta, bias);
                bias = adapted(delta, handled + 1, handled == basic);
                delta = 0;
                handled += 1;
            }
        }
        delta = delta.wrapping_add(1);
        n += 1;
    }
    out
}

fn push_number(out: &mut String, mut rest: u32, bias: u32) {
    let digit = |value: u32| char::from(if value < 26 { b'a' + value as u8 } else { b'0' + (value - 26) as u8 });
    let mut k = 36;
    loop {
        let threshold = k.max(bias + 1).saturating_sub(bias).clamp(1, 26);
        if rest < threshold {
            out.push(digit(rest));
            return;
        }
        out.push(digit(threshold + (rest - threshold) % (36 - threshold)));
        rest = (rest - threshold) / (36 - threshold);
        k += 36;
    }
}

fn adapted(delta: u32, points: u32, first: bool) -> u32 {
    let mut delta = if first { delta / 700 } else { delta / 2 };
    delta += delta / points;
    let mut k = 0;
    while delta > 455 {
        delta /= 35;
        k += 36;
    }
    k + 36 * delta / (delta + 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Allow = Allow { dot: true, wildcard: true };

    #[test]
    fn other_letters_are_put_into_ascii() {
        let cases = [
            ("bücher.de", "xn--bcher-kva.de"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
            ("почта.рф", "xn--80a1acny.xn--p1ai"),
            ("Foo.de.", "Foo.de."),
            ("*.foo", "*.foo"),
            (".foo", ".foo"),
        ];
        for (name, expected) in cases {
            assert_eq!(encode(name, ALL).unwrap(), expected);
        }
    }

    #[test]
    fn wrong_names_are_told_as_salt_tells_them() {
        let cases = [
            ("BÜCHER.de", "Codepoint U+0042 at position 1 of 'BÜCHER' not allowed"),
            ("a_b.de", "Codepoint U+005F at position 2 of 'a_b' not allowed"),
            ("-a.de", "Label must not start or end with a hyphen"),
            ("a..de", "Empty Label"),
            ("", "Empty domain"),
            ("*..de", "Empty label"),
        ];
        for (name, expected) in cases {
            assert_eq!(encode(name, ALL).unwrap_err().to_string(), expected);
        }
        assert_eq!(encode(&"a".repeat(64), ALL).unwrap_err().to_string(), "Label too long");
    }
}
