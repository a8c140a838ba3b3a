//! Parses the output of the control program.

use exec::{Error, Result};
use python::splitlines;
use value::{Map, Value, map};

fn strange(what: &str, line: &str) -> Error {
    Error::Other(format!("apache: {what}: {line:?}"))
}

/// The version, of `-v`.
pub(super) fn version(text: &str) -> Result<String> {
    let first = splitlines(text).into_iter().next().unwrap_or_default();
    // The line reads `Server version: Apache/2.4.57 (Debian)`.
    let found = first.split(": ").nth(1);
    found.map(str::to_owned).ok_or_else(|| strange("the first line tells no version", first))
}

/// Versions and compile-time settings, of `-V`.
pub(super) fn full_version(text: &str) -> Map {
    let (mut found, mut compiled) = (Map::new(), Vec::<Value>::new());
    // The key holds its place: Salt puts the list before the other facts.
    found.insert("compiled_with", ());
    for line in splitlines(text) {
        if let Some((name, rest)) = line.split_once(": ") {
            let value = rest.split(": ").next().unwrap_or_default();
            found.insert(name.trim().to_lowercase().replace(' ', "_"), value.trim());
        } else if line.contains(" -D") {
            compiled.push(definition(line).into());
        }
    }
    found.insert("compiled_with", compiled);
    found
}

/// Returns the definition in a line such as ` -D APR_HAS_MMAP`; other lines stay as they are.
fn definition(line: &str) -> &str {
    let inner = line.trim_start();
    let rest =
        inner.strip_prefix("-D").filter(|rest| inner.len() < line.len() && rest.starts_with(char::is_whitespace));
    rest.map_or(line, str::trim_start)
}

/// Modules, of `-M`.
pub(super) fn modules(text: &str) -> Map {
    let of = |kind: &str| -> Vec<&str> {
        let named = splitlines(text).into_iter().filter(|line| line.contains(kind));
        named.filter_map(|line| line.split_whitespace().next()).collect()
    };
    map! { "static" => of("(static)"), "shared" => of("(shared)") }
}

/// Modules that are part of the program, of `-l`.
pub(super) fn compiled_in(text: &str) -> Vec<String> {
    splitlines(text).into_iter().filter(|line| line.contains(".c")).map(|line| line.trim().to_owned()).collect()
}

/// Returns the directives of `-L`: each name with the text on the lines below it.
pub(super) fn directives(text: &str) -> Map {
    // A directive stands at the start of a line and its description is indented with tabs below it.
    let joined = text.replace("\n\t", "\t");
    let mut found = Map::new();
    for line in splitlines(&joined).into_iter().filter(|line| !line.is_empty()) {
        let mut parts = line.split('\t');
        let name = parts.next().unwrap_or_default();
        found.insert(name, parts.collect::<Vec<_>>().join("\n"));
    }
    found
}

/// Virtual hosts by the address they share, of `-S`.
pub(super) fn virtual_hosts(text: &str) -> Result<Map> {
    let mut found = Map::new();
    let mut address = String::new();
    for line in splitlines(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first() else { continue };
        // Hosts that share an address follow this heading; each of them is one line.
        if line.contains("is a NameVirtualHost") {
            address = (*first).to_owned();
            found.insert(address.as_str(), Map::new());
            continue;
        }
        let at =
            |place: usize| words.get(place).copied().ok_or_else(|| strange("a virtual host lacks something", line));
        // The file and the line are printed in brackets.
        let conf = |place: usize| at(place).map(|word| word.replace(['(', ')'], ""));
        let (name, host) = match *first {
            "default" => ("default", map! { "vhost" => at(2)?, "conf" => conf(3)? }),
            "port" => (at(3)?, map! { "vhost" => at(3)?, "conf" => conf(4)?, "port" => at(1)? }),
            _ => continue,
        };
        let hosts = found.get_value_mut(&address.as_str().into()).and_then(Value::as_map_mut);
        hosts.ok_or_else(|| strange("a virtual host without an address", line))?.insert(name, host);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn definitions_lose_their_mark() {
        assert_eq!(definition(" -D APR_HAS_MMAP"), "APR_HAS_MMAP");
        assert_eq!(definition("\t-D  X=\"y\""), "X=\"y\"");
        assert_eq!(definition("-D X -D Y"), "-D X -D Y");
        assert_eq!(definition("with -DX"), "with -DX");
        let text = "Server version: Apache/2.4\nServer built:   2024: x\n -D BIG\nno -D\nodd";
        let expected = map! {
            "compiled_with" => list!["BIG", "no -D"], "server_version" => "Apache/2.4", "server_built" => "2024",
        };
        assert_eq!(full_version(text), expected);
    }

    #[test]
    fn a_host_without_an_address_or_a_name_is_named() {
        let said = virtual_hosts("port 80 namevhost a (x:1)").unwrap_err().to_string();
        assert!(said.contains("without an address") && said.contains("port 80"), "{said}");
        let said = virtual_hosts("*:80 is a NameVirtualHost\n default server").unwrap_err().to_string();
        assert!(said.contains("lacks something"), "{said}");
        assert_eq!(virtual_hosts("ServerRoot: \"/etc/apache2\"\n\n  \nUser: name=\"x\"").unwrap(), Map::new());
        assert!(version("").is_err());
    }
}
