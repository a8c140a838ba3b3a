//! Checks whether installed versions fulfil conditions: `>=1.2,<2`, `1.2*`.

use std::sync::LazyLock;

use exec::{Context, Result};
use regex::Regex;
use value::{Value, map};

use crate::args;
use crate::support::{call, has};

// The longer operators come first, or `>` would match before `>=`. Unknown operators are rejected later, with a
// message.
static COMPARISON: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(<=>|!=|>=|<=|>>|<<|<>|>|<|=)?\s?([^<>=]+)$").expect("the pattern is fixed"));

/// A version, and the comparison with the installed one.
pub type Condition = (String, String);

/// Splits `>=1.2,<2` into comparisons and versions.
pub fn conditions(text: &str) -> Vec<Condition> {
    let text = text.trim();
    if text.is_empty() {
        return Vec::new();
    }
    text.split(',').map(|part| condition(part.trim())).collect()
}

fn condition(text: &str) -> Condition {
    let Some(found) = COMPARISON.captures(text) else { return ("==".into(), text.into()) };
    let sign = found.get(1).map_or("", |sign| sign.as_str());
    (if ["", "="].contains(&sign) { "==" } else { sign }.to_owned(), found[2].to_owned())
}

/// Returns whether one of the versions fulfils all conditions. With `allow_updates` a newer version than a single exact one
/// does, too.
pub fn fulfilled(
    ctx: &Context,
    installed: &[String],
    wanted: &str,
    ignore_epoch: &Value,
    allow_updates: bool,
) -> Result<bool> {
    let conditions = conditions(wanted);
    'versions: for version in installed {
        for (sign, wanted) in &conditions {
            // Only a single exact version can be meant as "at least". A range states its own upper
            // bound.
            let newer = allow_updates && conditions.len() == 1 && sign == "==";
            let sign = if newer { ">=" } else { sign };
            if !fulfils(ctx, version, sign, wanted, ignore_epoch)? {
                // All conditions must hold for the same version, not each for some version.
                continue 'versions;
            }
        }
        return Ok(true);
    }
    Ok(false)
}

fn fulfils(ctx: &Context, version: &str, sign: &str, wanted: &str, ignore_epoch: &Value) -> Result<bool> {
    // Patterns such as `1.2*` are matched as text. The package manager would compare the asterisk.
    if sign == "==" && targeting::fnmatch(version, wanted) {
        return Ok(true);
    }
    let ignore_epoch = match ignore_epoch {
        // An epoch is ignored only for an exact version that has none itself. For `<` and `>` it
        // decides the order.
        Value::Null => Value::Bool(!sign.contains(['<', '>']) && !wanted.contains(':')),
        given => given.clone(),
    };
    // Logged and counted as not fulfilled, as in Salt.
    if !["<", "<=", "==", ">=", ">", "!="].contains(&sign) {
        tracing::error!("Invalid operator '{sign}' for version comparison");
        return Ok(false);
    }
    let order = if has(ctx, "pkg.version_cmp") {
        call(ctx, "pkg.version_cmp", args![version, wanted], map! { "ignore_epoch" => ignore_epoch })?
    } else {
        Value::Int(modules::pkg_resource::compare_loosely(version, wanted, ignore_epoch.truthy()))
    };
    let Some(order) = order.as_i64() else { return Ok(false) };
    Ok(match sign {
        "<" => order < 0,
        "<=" => order <= 0,
        "==" => order == 0,
        ">=" => order >= 0,
        ">" => order > 0,
        _ => order != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_split() {
        let pairs = |text: &str| -> Vec<String> {
            conditions(text).into_iter().map(|(sign, version)| format!("{sign} {version}")).collect()
        };
        assert_eq!(pairs(" >=1.2, <2 "), [">= 1.2", "< 2"]);
        assert_eq!(pairs("=1.2"), ["== 1.2"]);
        assert_eq!(pairs("1.2*"), ["== 1.2*"]);
        assert_eq!(pairs("!= 3"), ["!= 3"]);
        assert!(pairs(" ").is_empty());
    }
}
