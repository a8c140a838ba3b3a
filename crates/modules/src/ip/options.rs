//! Values of options that all families share.

use std::net::{Ipv4Addr, Ipv6Addr};

use exec::{Error, Result};
use value::Value;

// `true` and `True` are both listed: Salt's list holds the text and the Python value.
/// The words for yes and no, as messages list them.
pub const SWITCH: &[&str] = &["yes", "on", "true", "1", "True", "no", "off", "false", "0", "False"];

/// Reads a word that means yes or no.
pub fn switch(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(set) => Some(*set),
        // YAML may turn the word into a boolean or a number before it arrives here.
        Value::Int(1) => Some(true),
        Value::Int(0) => Some(false),
        Value::Str(word) => match word.as_str() {
            "yes" | "on" | "true" | "1" => Some(true),
            "no" | "off" | "false" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Words the error of an option with an invalid value.
pub fn invalid(interface: &str, option: &str, expected: &[&str]) -> Error {
    let expected = expected.join("|");
    Error::execution(format!("Invalid option -- Interface: {interface}, Option: {option}, Expected: [{expected}]"))
}

/// Reads an option that is yes or no.
pub fn switched(interface: &str, option: &str, value: &Value) -> Result<bool> {
    switch(value).ok_or_else(|| invalid(interface, option, SWITCH))
}

/// Reads an integer, also from text.
pub fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Bool(set) => Some(i64::from(*set)),
        // Python's `int()` cuts off the fraction.
        Value::Float(number) => Some(*number as i64),
        Value::Str(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Returns whether a text is an address, with or without a prefix length.
pub fn is_address(text: &str, six: bool) -> bool {
    let width = if six { 128 } else { 32 };
    let (address, prefix) = match text.rsplit_once('/') {
        Some((address, prefix)) => (address, prefix.parse().ok()),
        None => (text, Some(width)),
    };
    let known = if six { address.parse::<Ipv6Addr>().is_ok() } else { address.parse::<Ipv4Addr>().is_ok() };
    known && prefix.is_some_and(|prefix| (1..=width).contains(&prefix))
}

/// Returns whether a text is a MAC address: six numbers with the same separator.
pub fn is_mac(text: &str) -> bool {
    ['-', ':', '.'].into_iter().any(|sign| {
        let parts: Vec<&str> = text.split(sign).collect();
        let is_part = |part: &&str| (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        // One digit is enough for a part, as in Salt's check.
        parts.len() == 6 && parts.iter().all(is_part)
    })
}
