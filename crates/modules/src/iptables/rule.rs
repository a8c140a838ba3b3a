//! Writing a rule from arguments named after options.

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value};

use super::{program, wait};

/// Options of targets, which follow the target (iptables-extensions(8), xtables-addons(8)).
const BEHIND_JUMP: &[&str] = &[
    "j",
    "jump",
    "add-set",
    "and-mark",
    "and-tos",
    "checksum-fill",
    "clamp-mss-to-pmtu",
    "clustermac",
    "ctevents",
    "ctmask",
    "del-set",
    "ecn-tcp-remove",
    "exist",
    "expevents",
    "gateway",
    "hash-init",
    "hashmode",
    "helper",
    "label",
    "local-node",
    "log-ip-options",
    "log-level",
    "log-prefix",
    "log-tcp-options",
    "log-tcp-sequence",
    "log-uid",
    "map-set",
    "mask",
    "mss",
    "new",
    "nfmask",
    "nflog-group",
    "nflog-prefix",
    "nflog-range",
    "nflog-threshold",
    "nodst",
    "notrack",
    "on-ip",
    "on-port",
    "or-mark",
    "or-tos",
    "persistent",
    "queue-balance",
    "queue-bypass",
    "queue-num",
    "random",
    "random-fully",
    "rateest-ewmalog",
    "rateest-interval",
    "rateest-name",
    "reject-with",
    "restore",
    "restore-mark",
    "sack-perm",
    "save-mark",
    "selctx",
    "set-class",
    "set-dscp",
    "set-dscp-class",
    "set-mark",
    "set-mss",
    "set-tos",
    "set-xmark",
    "strip-options",
    "timeout",
    "timestamp",
    "to",
    "to-destination",
    "to-ports",
    "to-source",
    "total-nodes",
    "tproxy-mark",
    "ttl-dec",
    "ttl-inc",
    "ttl-set",
    "type",
    "ulog-cprange",
    "ulog-nlgroup",
    "ulog-prefix",
    "ulog-qthreshold",
    "wscale",
    "xor-mark",
    "xor-tos",
    "zone",
    "zone-orig",
    "zone-reply",
    "dst-pfx",
    "hl-dec",
    "hl-inc",
    "hl-set",
    "hmark-dport-mask",
    "hmark-dst-prefix",
    "hmark-mod",
    "hmark-offset",
    "hmark-proto-mask",
    "hmark-rnd",
    "hmark-spi-mask",
    "hmark-sport-mask",
    "hmark-src-prefix",
    "hmark-tuple",
    "led-always-blink",
    "led-delay",
    "led-trigger-id",
    "queue-cpu-fanout",
    "src-pfx",
    "to-port",
    "addr",
    "and-mask",
    "delude",
    "honeypot",
    "or-mask",
    "prefix",
    "reset",
    "reuse",
    "set-mac",
    "shift",
    "static",
    "tarpit",
    "tname",
    "ttl",
];

fn is_negated(text: &str) -> bool {
    // YAML reads a leading `!` as a tag, so Salt takes the word as well. A value such as `nothing` counts as negated,
    // as in Salt.
    text.starts_with('!') || text.starts_with("not")
}

/// Removes the marks of negation, and the blank behind each.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        match rest.strip_prefix('!').or_else(|| rest.strip_prefix("not")) {
            Some(behind) => rest = behind.strip_prefix(char::is_whitespace).unwrap_or(behind),
            None => {
                out.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    out
}

/// Splits a value into the negation, which precedes the option, and the rest.
fn parted(value: &Value) -> (&'static str, Value) {
    let text = value.to_string();
    if is_negated(&text) { ("! ", plain(&text).into()) } else { ("", value.clone()) }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

/// A rule under construction.
struct Rule {
    args: Map,
    parts: Vec<String>,
}

impl Rule {
    fn take(&mut self, name: &str) -> Option<Value> {
        self.args.remove(name)
    }

    /// Takes an argument that is written as an option with a value.
    fn option(&mut self, name: &str, option: &str) {
        if let Some(value) = self.take(name) {
            let (negation, value) = parted(&value);
            self.parts.push(format!("{negation}{option} {value}"));
        }
    }

    fn need(&mut self, part: &str) {
        if !self.parts.iter().any(|known| known == part) {
            self.parts.push(part.to_owned());
        }
    }

    fn matches(&mut self) {
        let Some(given) = self.take("match") else { return };
        // The match `policy` has its own option `--proto`, which is not the protocol of the packet.
        let policy = given.as_str() == Some("policy");
        let names: Vec<String> = match &given {
            Value::List(names) => names.iter().map(Value::to_string).collect(),
            other => other.to_string().split(',').map(str::to_owned).collect(),
        };
        for name in names {
            self.parts.push(format!("-m {name}"));
            // These matches have an option `--name`, but `name` is the name of the state.
            if ["pknock", "quota2", "recent"].contains(&name.trim())
                && let Some(name) = self.take("name_")
            {
                self.parts.push(format!("--name {name}"));
            }
        }
        if policy {
            self.option("proto", "--proto");
        }
    }

    fn sets(&mut self) {
        let Some(given) = self.take("match-set") else { return };
        let sets = match given {
            Value::List(sets) => sets,
            single => vec![single],
        };
        for set in sets {
            let (negation, set) = parted(&set);
            // Each set needs the match before it: iptables takes one set per match.
            self.parts.push(format!("-m set {negation}--match-set {set}"));
        }
    }

    /// Adds a list of ports. Returns false when the protocol is missing that ports need.
    fn ports(&mut self, name: &str, protocol: bool) -> bool {
        let Some(given) = self.take(name) else { return true };
        if !self.parts.iter().any(|part| part == "-m multiport") {
            self.parts.push("-m multiport".into());
            // Only the first of the two arguments is checked, as in Salt; the match is there for the second.
            if !protocol {
                return false;
            }
        }
        let ports: Vec<String> = match given {
            Value::List(ports) => ports.iter().map(Value::to_string).collect(),
            single => vec![single.to_string()],
        };
        let negated = ports.iter().any(|port| is_negated(port));
        // The mark precedes the option and is valid for the whole list, so one negated port negates all.
        if negated {
            self.parts.push("!".into());
        }
        let ports: Vec<String> = if negated { ports.iter().map(|port| plain(port)).collect() } else { ports };
        self.parts.push(format!("--{name} {}", ports.join(",")));
        true
    }

    /// Takes the target and its options.
    fn jump(&mut self) -> Vec<String> {
        let mut parts = Vec::new();
        // In the order of the list and not of the arguments: `jump` itself must be the first.
        for name in BEHIND_JUMP {
            let Some(value) = self.take(name) else { continue };
            let text = value.to_string();
            parts.push(if is_nothing(&value) {
                format!("--{name}")
            // A prefix for the log usually ends with a blank, and the rule goes through a shell's rules for words.
            } else if text.contains([' ', '\t', '\n', '\r', '\x0b', '\x0c']) {
                format!("--{name} \"{text}\"")
            } else {
                format!("--{name} {text}")
            });
        }
        parts
    }

    /// Adds all other arguments as options.
    fn rest(&mut self) {
        for (name, value) in std::mem::take(&mut self.args) {
            let name = name.to_string();
            let (negation, value) = parted(&value);
            // States may use the short names of options.
            let dashes = if name.chars().count() == 1 { "-" } else { "--" };
            let value = if is_nothing(&value) { String::new() } else { format!(" {value}") };
            self.parts.push(format!("{negation}{dashes}{name}{value}"));
        }
    }
}

/// Writes a rule; the error is the text Salt returns in its place.
fn written(mut args: Map) -> std::result::Result<String, &'static str> {
    if let Some(target) = args.remove("target") {
        args.insert("jump", target);
    }
    let ours = |name: &str| ["name", "state", "save"].contains(&name) || state::keywords::is_internal(name);
    // Arguments that are left over would become options of iptables, so the arguments of the state must go.
    args.retain(|name, _| !name.as_str().is_some_and(ours));
    let mut rule = Rule { args, parts: Vec::new() };
    rule.option("if", "-i");
    rule.option("of", "-o");
    if rule.args.get_str("match") != Some("policy")
        && let Some(protocol) = rule.take("proto")
    {
        rule.args.insert("protocol", protocol);
    }
    let protocol = rule.args.contains_key("protocol");
    rule.option("protocol", "-p");
    rule.matches();
    rule.sets();
    if rule.args.contains_key("connstate") {
        rule.need("-m state");
        rule.option("connstate", "--state");
    }
    rule.option("dport", "--dport");
    rule.option("sport", "--sport");
    if !rule.ports("dports", protocol) || !rule.ports("sports", protocol) {
        return Err("Error: protocol must be specified");
    }
    if let Some(comment) = rule.take("comment") {
        rule.need("-m comment");
        rule.parts.push(format!("--comment \"{comment}\""));
    }
    // With a value it is the old name of `--match-set`; without one it is an option of the match `recent`, and is
    // written below.
    if rule.args.get("set").is_some_and(Value::truthy) {
        rule.option("set", "--match-set");
    }
    let jump = rule.jump();
    rule.rest();
    // The target and its options last: iptables reads the options behind a target as its own.
    rule.parts.extend(jump);
    Ok(rule.parts.join(" "))
}

/// Returns a rule in the form of iptables. Arguments are named after the long options; with these exceptions:
/// ``connstate`` is ``--state``, ``if`` and ``of`` are ``-i`` and ``-o``, ``target`` is ``jump``. Options of the target
/// without a value are given an empty text. ``!`` or ``not`` in front of a value negates it. ``full`` gives the whole
/// command; it needs table, chain and ``command`` (``A``, ``--insert``), and takes a ``position``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.build_rule match=state connstate=RELATED,ESTABLISHED jump=ACCEPT
///     salt '*' iptables.build_rule filter INPUT command=I position=3 full=True source='!127.0.0.1' jump=ACCEPT
#[function]
fn build_rule(
    ctx: &Context,
    #[default("filter")] table: Value,
    chain: Option<Value>,
    command: Option<String>,
    #[default("")] position: Value,
    full: Option<Value>,
    #[default("ipv4")] family: String,
    kwargs: KwArgs,
) -> Result<String> {
    let rule = match written(kwargs.given()) {
        Ok(rule) => rule,
        Err(why) => return Ok(why.into()),
    };
    if !full.is_some_and(|full| full.truthy()) {
        return Ok(rule);
    }
    if !table.truthy() {
        return Ok("Error: Table needs to be specified".into());
    }
    let Some(chain) = chain.filter(Value::truthy) else { return Ok(super::NO_CHAIN.into()) };
    let Some(command) = command.filter(|command| !command.is_empty()) else {
        return Ok("Error: Command needs to be specified".into());
    };
    let dashes = if "ACDIRLSFZNXPE".contains(&command) { "-" } else { "--" };
    let wait = wait(ctx, &family)?;
    Ok(format!("{} {wait} -t {table} {dashes}{command} {chain} {position} {rule}", program(ctx, &family)?))
}
