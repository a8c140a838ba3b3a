//! The settings of the whole machine: its name, its domains, and whether interfaces are set up at boot.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value};

use super::read_lines;
use crate::ip::options::{SWITCH, switch};
use crate::ip::{apply_hostname, is_test, place, waits_for_reboot, write};

const NETWORKING: &str = "/etc/default/networking";
const HOSTNAME: &str = "/etc/hostname";
const RESOLVER: &str = "/etc/resolv.conf";

/// The settings of a machine.
#[derive(Clone, Debug, Default)]
struct Settings {
    networking: String,
    hostname: String,
    domain: String,
    search: Value,
}

impl Settings {
    fn read(ctx: &Context) -> Self {
        let networking = read_lines(&place(ctx, NETWORKING));
        // The last line counts, as in a shell that reads the file.
        let networking = networking.iter().rev().find(|line| line.starts_with("CONFIGURE_INTERFACES"));
        let networking = networking.and_then(|line| line.split_once('=')).map(|(_, value)| value.trim().to_owned());
        let hostname = read_lines(&place(ctx, HOSTNAME)).first().map(|line| line.trim_end_matches('\n').to_owned());
        let (domain, search) = resolver(&read_lines(&place(ctx, RESOLVER)));
        Settings {
            networking: networking.unwrap_or_default(),
            hostname: hostname.unwrap_or_default(),
            domain,
            search: Value::from(search),
        }
    }

    /// The settings in lines.
    fn lines(&self) -> Value {
        let parts = [
            ("NETWORKING", Value::from(self.networking.as_str())),
            ("HOSTNAME", self.hostname.as_str().into()),
            ("DOMAIN", self.domain.as_str().into()),
            ("SEARCH", self.search.clone()),
        ];
        parts.iter().filter(|(_, value)| value.truthy()).map(|(name, value)| format!("{name}={value}\n")).collect()
    }
}

/// Domain and search list of a resolver's file; the last line of each counts.
fn resolver(lines: &[String]) -> (String, Vec<String>) {
    let (mut domain, mut search) = (String::new(), Vec::new());
    for line in lines {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default().to_lowercase();
        let rest: Vec<String> = words.take_while(|word| !word.starts_with(['#', ';'])).map(str::to_owned).collect();
        match (first.as_str(), rest.first()) {
            ("domain", Some(name)) => domain.clone_from(name),
            // A line without words empties the list.
            ("search", _) => search = rest,
            _ => {}
        }
    }
    (domain, search)
}

/// On newer Ubuntus the services decide whether there is a network.
fn by_services(ctx: &Context) -> bool {
    let release = ctx.grains.get("osrelease").map(Value::to_string).unwrap_or_default();
    let release: i64 = release.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    ctx.grains.get_str("osfullname") == Some("Ubuntu") && release >= 12
}

fn invalid(setting: &str, expected: &[&str]) -> Error {
    let expected = expected.join("|");
    Error::execution(format!("Invalid network setting -- Setting: {setting}, Expected: [{expected}]"))
}

fn available(ctx: &Context, service: &str) -> Result<bool> {
    ctx.call("service.available", vec![service.into()]).map(|answer| answer.truthy())
}

/// Returns the settings of the machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.get_network_settings
#[function]
fn get_network_settings(ctx: &Context) -> Result<Value> {
    let mut settings = Settings::read(ctx);
    if by_services(ctx) {
        let runs = available(ctx, "networking")? && ctx.call("service.status", vec!["networking".into()])?.truthy();
        settings.networking = if runs { "yes" } else { "no" }.into();
        // Salt leaves the search list out where services decide.
        settings.search = Value::Null;
    }
    Ok(settings.lines())
}

/// Returns the wanted settings: networking, the full host name, and the search list.
fn desired_settings(options: &Map, current: &Settings) -> Result<(bool, String, Option<Value>)> {
    let find = |wanted: &str| {
        let found = options.iter().find(|(name, _)| name.to_string().eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.clone())
    };
    // Without the argument the present setting is kept, and checked like a new one.
    let networking = find("enabled").unwrap_or_else(|| current.networking.as_str().into());
    let networking = switch(&networking).ok_or_else(|| invalid("networking", SWITCH))?;
    let hostname = find("hostname").map_or_else(|| current.hostname.clone(), |name| name.to_string());
    if hostname.is_empty() || hostname.contains(char::is_whitespace) {
        return Err(invalid("hostname", &["server1.example.com"]));
    }
    Ok((networking, hostname, find("search")))
}

/// The file that returns whether interfaces are set up at the start.
fn networking_file(networking: bool) -> String {
    let word = if networking { "yes" } else { "no" };
    [
        "# Configuration for networking init script being run during",
        "# the boot sequence",
        "",
        "# Set to 'no' to skip interfaces configuration on boot",
        &format!("CONFIGURE_INTERFACES={word}"),
        "",
        "# Don't configure these interfaces. Shell wildcards supported/",
        "#EXCLUDE_INTERFACES=",
        "",
        "# Set to 'yes' to enable additional verbosity",
        "#VERBOSE=no",
    ]
    .join("\n")
}

/// Writes the settings of the machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.build_network_settings <settings>
#[function]
fn build_network_settings(ctx: &Context, settings: KwArgs) -> Result<Value> {
    let options = settings.given();
    let current = Settings::read(ctx);
    let (networking, hostname, search) = desired_settings(&options, &current)?;
    let test = is_test(&options);
    if by_services(ctx) {
        let fun = if networking { "service.enable" } else { "service.disable" };
        // A machine has either; the missing one is skipped.
        for service in ["NetworkManager", "networking"] {
            if !test && available(ctx, service)? {
                ctx.call(fun, vec![service.into()])?;
            }
        }
    } else {
        let text = networking_file(networking);
        if test {
            return Ok(text.split_inclusive('\n').collect());
        }
        write(&place(ctx, NETWORKING), &text, 0o644)?;
    }
    // The host's own name is the first part; the rest goes to the resolver.
    let (short, domain) = match hostname.split_once('.') {
        Some((short, domain)) => (short.to_owned(), domain.to_owned()),
        None => (hostname, current.domain.clone()),
    };
    let search = search.unwrap_or_else(|| current.search.clone());
    // An unchanged file is not written, since resolvconf or DHCP may own it.
    if !test && (domain != current.domain || search != current.search) {
        write_resolver(ctx, &domain, &search)?;
    }
    let networking = if networking { "yes" } else { "no" }.to_owned();
    Ok(Settings { networking, hostname: short, domain, search }.lines())
}

/// Writes domain and search list, and leaves all other lines as they are.
fn write_resolver(ctx: &Context, domain: &str, search: &Value) -> Result<()> {
    let path = place(ctx, RESOLVER);
    if !path.exists() {
        let path = path.display();
        return Err(Error::execution(format!(
            "{path} cannot be written. {path} does not exist and create is setto False"
        )));
    }
    let search = match search {
        Value::List(domains) => domains.iter().map(Value::to_string).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    let mut lines: Vec<String> = read_lines(&path).iter().map(|line| line.trim_end_matches('\n').to_owned()).collect();
    for (place, (word, value)) in [("domain", domain), ("search", search.as_str())].into_iter().enumerate() {
        if value.is_empty() {
            continue;
        }
        let is_such = |line: &String| line.strip_prefix(word).is_some_and(|rest| rest.starts_with(char::is_whitespace));
        let line = format!("{word} {value}");
        match lines.iter_mut().find(|line| is_such(line)) {
            Some(known) => *known = line,
            // New lines stand at the top: resolv.conf(5) lets the last of the two count, and Salt writes the search
            // list second.
            None => lines.insert(place.min(lines.len()), line),
        }
    }
    write(&path, &(lines.join("\n") + "\n"), 0o644)
}

/// Applies the settings: sets the host name with ``apply_hostname``, and restarts the network unless ``require_reboot``
/// is set.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.apply_network_settings
#[function]
fn apply_network_settings(ctx: &Context, settings: KwArgs) -> Result<bool> {
    let options = settings.given();
    let named = apply_hostname(ctx, &options)?;
    if waits_for_reboot(&options) {
        return Ok(named);
    }
    let call = |fun: &'static str| ctx.call(fun, vec!["networking".into()]);
    // Stopped and started apart, as in Salt, so that a failed stop is noticed.
    let restarted = call("service.stop")?.truthy() && call("service.start")?.truthy();
    Ok(named && restarted)
}
