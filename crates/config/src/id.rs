//! The id of this machine: from the configuration, the cached file, or the names of the machine.

use std::path::{Path, PathBuf};

use value::Value;

use crate::LoadOptions;
use crate::error::Error;
use crate::machine::Machine;
use crate::opts::Opts;
use crate::paths::join;

/// Finds the id of a minion.
pub(crate) fn settle_minion(opts: &mut Opts, load: &LoadOptions, machine: &dyn Machine) -> Result<(), Error> {
    let mut by_address = false;
    if !opts.truthy("id") {
        let id = match &load.minion_id {
            Some(id) => id.clone(),
            None => {
                let id = find(opts, load.cache_minion_id, machine)?;
                // An address with a domain behind it would be neither an address nor a name.
                by_address = is_ipv4(&id);
                id
            }
        };
        opts.set("id", id);
    }
    append_domain(opts, by_address);
    Ok(())
}

/// Finds the id of a master; `_master` is appended to one that was not configured.
pub(crate) fn settle_master(opts: &mut Opts, machine: &dyn Machine) -> Result<(), Error> {
    let given = opts.truthy("id");
    let mut by_address = false;
    if !given {
        let id = find(opts, false, machine)?;
        by_address = is_ipv4(&id);
        opts.set("id", id);
    }
    append_domain(opts, by_address);
    if !given {
        // A master and a minion on one host find the same name; with the suffix their ids differ, as in Salt.
        let id = opts.text("id") + "_master";
        opts.set("id", id);
    }
    // Keys of the master are files of this name.
    let id = opts.text("id");
    if id.contains(['/', '\0']) || id.starts_with('.') {
        return Err(opts.wrong("id", "a name without '/' that does not begin with '.'"));
    }
    Ok(())
}

fn append_domain(opts: &mut Opts, by_address: bool) {
    let (id, domain) = (opts.text("id"), opts.text("append_domain"));
    // A final dot marks a name that is complete.
    if by_address || domain.is_empty() || id.ends_with(&domain) || id.ends_with('.') {
        return;
    }
    opts.set("id", format!("{id}.{domain}"));
}

/// Appends the minion's id to these directories, for several minions on one machine.
pub(crate) fn append_to_dirs(opts: &mut Opts) {
    let names = opts.map.get("append_minionid_config_dirs").and_then(Value::as_list).unwrap_or_default().to_vec();
    let id = opts.text("id");
    for name in names.iter().filter_map(Value::as_str) {
        let path = opts.text(name);
        match name {
            // Salt supports exactly these options. Others in the list are ignored there too.
            "pki_dir" | "cachedir" | "extension_modules" => opts.set(name, join(&path, &id)),
            "default_include" => {
                let (dir, file) = split(&path);
                opts.set(name, join(&join(dir, &id), file));
            }
            "pidfile" => {
                let (dir, file) = split(&path);
                opts.set(name, join(&join(&join(dir, "salt"), &id), file));
            }
            _ => {}
        }
    }
}

fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", file)) => ("/", file),
        Some((dir, file)) => (dir, file),
        None => ("", path),
    }
}

/// Returns the file that caches a found id, below `root_dir`.
fn cache_file(opts: &Opts) -> PathBuf {
    let root = opts.text("root_dir");
    Path::new(if root.is_empty() { "/" } else { &root }).join("etc/salt/minion_id")
}

fn find(opts: &mut Opts, keep: bool, machine: &dyn Machine) -> Result<String, Error> {
    let file = cache_file(opts);
    // The cached id wins over the names of the machine: a minion whose host is renamed must keep its key and its id.
    let caching = opts.map.get("minion_id_caching").is_none_or(Value::truthy);
    if caching && let Some(id) = machine.file(&file).and_then(|text| cached(&text)) {
        tracing::debug!(target: "salt.config", "Using cached minion ID from {}: {id}", file.display());
        return Ok(id);
    }
    if opts.truthy("id_function") {
        let function = opts.map.get("id_function").map(Value::to_string).unwrap_or_default();
        // Falling back to a guess would start the minion under an id that the operator did not want.
        let why = format!("id_function {function} names a Python function, which is not supported; set 'id'");
        return Err(Error::Id { why });
    }
    let mut id = guess(machine);
    if opts.truthy("minion_id_lowercase") {
        id = id.to_lowercase();
    }
    id = without_domain(opts.map.get("minion_id_remove_domain"), id);
    tracing::debug!(target: "salt.config", "Found minion id from generate_minion_id(): {id}");
    if keep
        && caching
        && let Err(error) = machine.keep(&file, &id)
    {
        // Only a warning: a read-only `/etc` must not keep the minion from starting.
        opts.warn(format!("Could not cache minion ID: {}: {error}", file.display()));
    }
    Ok(id)
}

/// Returns the first line, without a byte order mark; `localhost` is not an id.
fn cached(text: &str) -> Option<String> {
    // Editors on Windows write a byte order mark, and the file may have come from one.
    let line = text.lines().next()?.trim().trim_start_matches('\u{feff}');
    // A machine that had no name yet at its first start may have cached it.
    (!line.is_empty() && line != "localhost").then(|| line.to_owned())
}

fn without_domain(option: Option<&Value>, id: String) -> String {
    match option {
        Some(Value::Bool(true)) => id.split('.').next().unwrap_or_default().to_owned(),
        Some(Value::Str(domain)) if !domain.is_empty() => {
            // Domains are compared without regard to case, but the rest of the id keeps its own.
            let end = format!(".{}", domain.to_uppercase());
            // Upper and lower case of a letter may differ in length, so the cut is checked.
            if id.to_uppercase().ends_with(&end) && id.is_char_boundary(id.len().saturating_sub(domain.len() + 1)) {
                id[..id.len() - domain.len() - 1].to_owned()
            } else {
                id
            }
        }
        _ => id,
    }
}

/// Returns the first meaningful name of the machine: the full name, the host name, names in files, an address.
pub(crate) fn guess(machine: &dyn Machine) -> String {
    let hostname = machine.hostname();
    let mut names = Names::default();
    names.add(&machine.fqdn(&hostname));
    names.add(&hostname);
    for path in ["/etc/hostname", "/etc/nodename", "/etc/hosts"] {
        let text = machine.file(Path::new(path)).unwrap_or_default();
        for line in text.lines() {
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            // Only lines about this machine: other lines of a hosts file name other machines.
            let local = words.first().is_some_and(|first| first.starts_with("127.") || first.starts_with("::1"));
            if local || words.len() == 1 {
                words.iter().for_each(|word| names.add(word));
            }
        }
    }
    machine.addresses().iter().for_each(|address| names.add(address));
    names.0.into_iter().next().unwrap_or_else(|| "localhost".into())
}

#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn add(&mut self, name: &str) {
        if !name.is_empty() && !says_nothing(name) && !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
    }
}

/// Names that every machine has.
fn says_nothing(name: &str) -> bool {
    let local_v4 = name.strip_prefix("127.").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let starts = ["localhost", "ip6-", "0.0.0.0", "::1", "ipv6-", "fe00::", "fe02::"];
    local_v4
        || starts.iter().any(|start| name.starts_with(start))
        || (name.starts_with("1.0.0") && name.ends_with("ip6.arpa"))
}

pub(crate) fn is_ipv4(id: &str) -> bool {
    id.parse::<std::net::Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use value::map;

    use super::*;

    #[derive(Default)]
    struct Fake {
        hostname: &'static str,
        fqdn: &'static str,
        files: HashMap<&'static str, &'static str>,
        addresses: Vec<&'static str>,
        kept: RefCell<Vec<(PathBuf, String)>>,
    }

    impl Machine for Fake {
        fn hostname(&self) -> String {
            self.hostname.into()
        }
        fn fqdn(&self, hostname: &str) -> String {
            if self.fqdn.is_empty() { hostname.into() } else { self.fqdn.into() }
        }
        fn file(&self, path: &Path) -> Option<String> {
            self.files.get(path.to_str()?).map(|text| (*text).to_owned())
        }
        fn addresses(&self) -> Vec<String> {
            self.addresses.iter().map(|&address| address.into()).collect()
        }
        fn keep(&self, path: &Path, text: &str) -> std::io::Result<()> {
            self.kept.borrow_mut().push((path.into(), text.into()));
            Ok(())
        }
    }

    #[test]
    fn the_most_complete_name_is_the_id() {
        let full = Fake { hostname: "web1", fqdn: "web1.example.com", ..Fake::default() };
        assert_eq!(guess(&full), "web1.example.com");
        let files = [("/etc/hosts", "10.0.0.1 other\n127.0.1.1 db1.local db1 # x\n")].into();
        let hosts = Fake { hostname: "localhost", files, ..Fake::default() };
        assert_eq!(guess(&hosts), "db1.local");
        let address = Fake { hostname: "localhost.localdomain", addresses: vec!["10.1.2.3"], ..Fake::default() };
        assert_eq!(guess(&address), "10.1.2.3");
        assert_eq!(guess(&Fake::default()), "localhost");
    }

    fn settled_id(options: value::Map, machine: &Fake) -> String {
        let mut opts = Opts { map: options, ..Opts::default() };
        let load = LoadOptions { cache_minion_id: true, ..LoadOptions::default() };
        settle_minion(&mut opts, &load, machine).unwrap();
        opts.text("id")
    }

    #[test]
    fn a_cached_id_takes_precedence_and_a_found_one_is_cached() {
        let files = [("/r/etc/salt/minion_id", "\u{feff}kept\n")].into();
        let machine = Fake { hostname: "web1", files, ..Fake::default() };
        assert_eq!(settled_id(map! { "root_dir" => "/r" }, &machine), "kept");
        assert_eq!(settled_id(map! { "root_dir" => "/r", "minion_id_caching" => false }, &machine), "web1");
        assert!(machine.kept.borrow().is_empty());
        assert_eq!(settled_id(map! { "root_dir" => "/q" }, &machine), "web1");
        assert_eq!(machine.kept.borrow()[0], ("/q/etc/salt/minion_id".into(), "web1".into()));
    }

    #[test]
    fn names_are_shaped_by_options() {
        let machine = Fake { hostname: "Web1.Example.com", ..Fake::default() };
        assert_eq!(settled_id(map! { "minion_id_lowercase" => true }, &machine), "web1.example.com");
        assert_eq!(settled_id(map! { "minion_id_remove_domain" => true }, &machine), "Web1");
        assert_eq!(settled_id(map! { "minion_id_remove_domain" => "example.COM" }, &machine), "Web1");
        assert_eq!(settled_id(map! { "minion_id_remove_domain" => "other" }, &machine), "Web1.Example.com");
        assert_eq!(settled_id(map! { "id" => "a", "append_domain" => "b.c" }, &machine), "a.b.c");
        assert_eq!(settled_id(map! { "id" => "a.b.c", "append_domain" => "b.c" }, &machine), "a.b.c");
        let address = Fake { addresses: vec!["10.1.2.3"], ..Fake::default() };
        assert_eq!(settled_id(map! { "append_domain" => "b.c" }, &address), "10.1.2.3");
    }

    #[test]
    fn a_python_function_for_the_id_is_refused() {
        let mut opts = Opts { map: map! { "id_function" => "test.echo" }, ..Opts::default() };
        let error = settle_minion(&mut opts, &LoadOptions::default(), &Fake::default()).unwrap_err();
        assert!(error.to_string().contains("id_function test.echo"), "{error}");
    }
}
