//! The escapes of string literals.

/// Resolves the escapes of a literal as Python's `unicode-escape` codec does; the error is the codec's reason.
pub(crate) fn unescape(text: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(char) = rest.chars().next() else { return Err("\\ at end of string") };
        rest = &rest[char.len_utf8()..];
        match char {
            // A backslash at the end of a line joins the lines.
            '\n' => {}
            '\\' | '\'' | '"' => out.push(char),
            'a' => out.push('\x07'),
            'b' => out.push('\x08'),
            'f' => out.push('\x0c'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'v' => out.push('\x0b'),
            '0'..='7' => {
                let more = rest.bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let digits = format!("{char}{}", &rest[..more]);
                rest = &rest[more..];
                // Up to three digits, so at most `\777`.
                push(&mut out, u32::from_str_radix(&digits, 8).unwrap_or(0));
            }
            'x' => rest = hex(&mut out, rest, 2, "truncated \\xXX escape")?,
            'u' => rest = hex(&mut out, rest, 4, "truncated \\uXXXX escape")?,
            'U' => rest = hex(&mut out, rest, 8, "truncated \\UXXXXXXXX escape")?,
            'N' if rest.starts_with('{') && rest.find('}').is_some_and(|end| end > 1) => {
                // The table of names is not carried along; COMPATIBILITY.md lists it.
                return Err("unknown Unicode character name");
            }
            'N' => return Err("malformed \\N character escape"),
            // What is not an escape stays as it is; a character beyond ASCII was escaped before, which hides the sign.
            other => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn hex<'a>(out: &mut String, rest: &'a str, digits: usize, short: &'static str) -> Result<&'a str, &'static str> {
    let have = rest.bytes().take(digits).take_while(u8::is_ascii_hexdigit).count();
    if have < digits {
        return Err(short);
    }
    let code = u32::from_str_radix(&rest[..digits], 16).unwrap_or(0);
    if code > 0x10_ffff {
        return Err("illegal Unicode character");
    }
    push(out, code);
    Ok(&rest[digits..])
}

/// Half of a pair of surrogates cannot be held in text here and becomes the replacement character.
fn push(out: &mut String, code: u32) {
    out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
}
