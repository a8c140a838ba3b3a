//! The queries of `rpm -q` for information about packages, and their answers.

use exec::{Error, Result};
use value::{Map, Value};

use crate::packages::Loose;

/// The fields that can be queried, in this order.
fn fields(long_size: bool) -> Vec<(&'static str, &'static str)> {
    let size = if long_size { "%{LONGSIZE}" } else { "%{SIZE}" };
    let time = "%|INSTALLTIME?{%{INSTALLTIME}}:{(not installed)}|";
    vec![
        ("name", "%{NAME}"),
        ("relocations", "%|PREFIXES?{[%{PREFIXES} ]}:{(not relocatable)}|"),
        ("version", "%{VERSION}"),
        ("vendor", "%{VENDOR}"),
        ("release", "%{RELEASE}"),
        ("epoch", "%{EPOCH}"),
        ("build_date_time_t", "%{BUILDTIME}"),
        ("build_date", "%{BUILDTIME}"),
        ("install_date_time_t", time),
        ("install_date", time),
        ("build_host", "%{BUILDHOST}"),
        ("group", "%{GROUP}"),
        ("source_rpm", "%{SOURCERPM}"),
        ("size", size),
        ("arch", "%{ARCH}"),
        ("license", "%{LICENSE}"),
        (
            "signature",
            "%|DSAHEADER?{%{DSAHEADER:pgpsig}}:{%|RSAHEADER?{%{RSAHEADER:pgpsig}}:\
             {%|SIGGPG?{%{SIGGPG:pgpsig}}:{%|SIGPGP?{%{SIGPGP:pgpsig}}:{(none)}|}|}|}|",
        ),
        ("packager", "%{PACKAGER}"),
        ("url", "%{URL}"),
        ("summary", "%{SUMMARY}"),
        ("edition", "%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}"),
    ]
}

/// Fields that are left out when they are not set.
const OPTIONAL: [&str; 4] = ["epoch", "license", "packager", "url"];

/// The line that ends each package.
const END: &str = "-----";

/// Builds the query format for the named fields, or for all.
///
/// # Errors
/// When none of the names is one of a field.
pub fn query(attr: Option<&[String]>, long_size: bool) -> Result<String> {
    let fields = fields(long_size);
    let line = |(name, format): &(&str, &str)| match OPTIONAL.contains(name) {
        // rpm prints `(none)` for a field that is not set; the condition leaves the line out.
        true => format!("%|{}?{{{name}: {format}\\n}}|", name.to_uppercase()),
        false => format!("{name}: {format}\\n"),
    };
    let find = |wanted: &str| fields.iter().find(|(name, _)| *name == wanted);
    let mut lines: Vec<String> = match attr {
        None => fields.iter().map(line).collect(),
        Some(names) => names.iter().filter_map(|name| find(name)).map(line).collect(),
    };
    if let Some(names) = attr {
        if lines.is_empty() {
            return Err(Error::execution("No valid attributes found."));
        }
        // These two are needed to parse the answer even if the caller did not ask for them.
        let missing = ["name", "edition"].into_iter().filter(|name| !names.iter().any(|other| other == name));
        lines.extend(missing.filter_map(find).map(line));
    }
    // The description has several lines and must be the last field.
    if attr.is_none_or(|names| names.iter().any(|name| name == "description")) {
        lines.push("description:\\n%{DESCRIPTION}\\n".to_owned());
    }
    lines.push(format!("{END}\\n"));
    Ok(lines.concat())
}

/// Reads the answer. Of several versions of a package the newest is returned, or all of them.
pub fn parsed(text: &str, described: bool, all_versions: bool) -> Map {
    let mut packages: Vec<(String, Map)> = parts(text).iter().filter_map(|part| package(part, described)).collect();
    packages.sort_by_key(|(_, info)| Loose(info.get_str("edition").unwrap_or_default().to_owned()));
    let mut found = Map::new();
    // Keys for signatures are stored as packages. From the newest on, so that the first of each name is kept.
    for (name, mut info) in packages.into_iter().rev().filter(|(name, _)| !name.starts_with("gpg-pubkey")) {
        if !all_versions {
            info.remove("edition");
            found.entry_or_insert_with(name, || info.into());
        } else if let Value::List(versions) = found.entry_or_insert_with(name, || Value::List(Vec::new())) {
            versions.push(info.into());
        }
    }
    found
}

/// Splits the answer at lines of dashes.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        // Any line of dashes ends a package, as in Salt; a description with one is cut there.
        let is_end = line.len() >= 3 && line.chars().all(|c| c == '-');
        match parts.last_mut() {
            Some(part) if !is_end => {
                part.push_str(line);
                part.push('\n');
            }
            _ => parts.push(String::new()),
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn package(text: &str, described: bool) -> Option<(String, Map)> {
    let mut lines: Vec<&str> = text.trim().lines().collect();
    if lines.last().is_some_and(|line| line.to_lowercase().starts_with("distribution")) {
        lines.pop();
    }
    let mut info = Map::new();
    let mut name = None;
    let mut rest = lines.iter();
    for line in rest.by_ref() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        match key {
            "description" => break,
            "name" => name = Some(value.to_owned()),
            "build_date" | "install_date" => drop(date(value).map(|date| info.insert(key, date))),
            "build_date_time_t" | "install_date_time_t" => {
                drop(value.parse::<i64>().ok().map(|time| info.insert(key, time)));
            }
            _ if !value.is_empty() => drop(info.insert(key, value)),
            _ => {}
        }
    }
    if described {
        info.insert("description", rest.copied().collect::<Vec<_>>().join("\n"));
    }
    Some((name?, info))
}

fn date(seconds: &str) -> Option<String> {
    let time = jiff::Timestamp::from_second(seconds.parse().ok()?).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_versions_the_newest_is_told() {
        // 162 is newer than 70, though not as text; a description may hold lines that look like fields; and rpm keeps
        // signing keys as packages.
        let text = "name: kernel\nversion: 5.14.0\nedition: 5.14.0-70.el9\ndescription:\nold\n-----\n\
                    name: kernel\nversion: 5.14.0\nbuild_date: 1700000000\nedition: 5.14.0-162.el9\ndescription:\na: b\n\nc\n-----\n\
                    name: gpg-pubkey\nedition: 1-1\n-----\n";
        let found = parsed(text, true, false);
        assert_eq!(found.len(), 1);
        let kernel = found.get("kernel").unwrap();
        assert_eq!(kernel.get("description").and_then(Value::as_str), Some("a: b\n\nc"));
        assert_eq!(kernel.get("build_date").and_then(Value::as_str), Some("2023-11-14T22:13:20Z"));
        let all = parsed(text, false, true);
        assert_eq!(all.get("kernel").and_then(Value::as_list).map(<[Value]>::len), Some(2));
    }

    #[test]
    fn fields_are_asked_for_by_name() {
        let names = ["version".to_owned(), "url".into()];
        let text = query(Some(&names), false).unwrap();
        let expected = "version: %{VERSION}\\n%|URL?{url: %{URL}\\n}|name: %{NAME}\\n\
                        edition: %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n-----\\n";
        assert_eq!(text, expected);
        assert!(query(Some(&["x".to_owned()]), false).is_err());
    }
}
