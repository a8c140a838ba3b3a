//! Writing a rule from arguments.

use exec::{Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::family_name;

/// A rule as it grows.
struct Rule {
    args: Map,
    text: String,
}

impl Rule {
    fn add(&mut self, name: &str, write: impl FnOnce(&Value) -> String) {
        if let Some(value) = self.args.remove(name) {
            self.text.push_str(&write(&value));
        }
    }

    /// The first of two arguments that is given.
    fn either(&mut self, names: [&str; 2], write: impl FnOnce(&Value) -> String) {
        let found = names.map(|name| self.args.remove(name));
        if found.iter().any(Option::is_some) {
            let [first, second] = found.map(Option::unwrap_or_default);
            self.text.push_str(&write(if first.truthy() { &first } else { &second }));
        }
    }

    /// Several ports, the highest first, as `nft` sorts them.
    fn ports(&mut self, name: &str, what: &str) -> Result<()> {
        let Some(given) = self.args.remove(name) else { return Ok(()) };
        let texts: Vec<String> = match &given {
            Value::List(ports) => ports.iter().map(Value::to_string).collect(),
            other => other.to_string().split(',').map(str::to_owned).collect(),
        };
        let ports = texts.iter().map(|port| {
            port.trim().parse::<u32>().map_err(|_| Error::Other(format!("'{port}' of {name} is not a port")))
        });
        let mut ports: Vec<u32> = ports.collect::<Result<_>>()?;
        // Highest first: Salt builds the rule this way, and it is compared as text later.
        ports.sort_unstable_by(|a, b| b.cmp(a));
        let ports = ports.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        self.text.push_str(&format!("{what} {{ {ports} }} "));
        Ok(())
    }
}

/// The rule, from its arguments.
fn written(args: Map, family: &str) -> Result<String> {
    let mut rule = Rule { args, text: String::new() };
    if let Some(target) = rule.args.remove("target") {
        rule.args.insert("jump", target);
    }
    let protocol = rule.args.get("proto").map(Value::to_string).unwrap_or_default();
    rule.add("if", |name| format!("meta iifname {name} "));
    rule.add("of", |name| format!("meta oifname {name} "));
    rule.add("connstate", |state| format!("ct state {{ {state} }} "));
    rule.add("icmp-type", |kind| format!("icmp type {{ {kind} }} "));
    rule.add("icmpv6-type", |kind| format!("icmpv6 type {{ {kind} }} "));
    rule.add("pkttype", |kind| format!("meta pkttype {{ {kind} }} "));
    rule.add("counter", |_| "counter ".to_owned());
    rule.either(["saddr", "source"], |address| format!("{family} saddr {address} "));
    rule.either(["daddr", "destination"], |address| format!("{family} daddr {address} "));
    rule.add("dport", |port| format!("dport {{ {} }} ", port.to_string().replace(':', "-")));
    rule.add("sport", |port| format!("sport {{ {} }} ", port.to_string().replace(':', "-")));
    rule.ports("dports", "dport")?;
    rule.ports("sports", "sport")?;
    rule.add("jump", |target| format!("{target} "));
    rule.add("j", |target| format!("{target} "));
    rule.either(["redirect-to", "to-port"], |port| format!("redirect to {port} "));
    rule.add("to-ports", |ports| format!("--to-ports {ports} "));
    rule.add("to-source", |address| format!("{address} "));
    rule.add("to-destination", |address| format!("{address} "));
    rule.add("reject-with", |how| format!("reject with {how} "));
    let text = rule.text.trim();
    // Salt puts the protocol in by replacing text, so it also hits `dport` in a name.
    Ok(text.replace("dport", &format!("{protocol} dport")).replace("sport", &format!("{protocol} sport")))
}

/// Returns a rule in the form nft takes. Arguments: ``if``, ``of``, ``proto``, ``connstate``, ``icmp-type``,
/// ``icmpv6-type``, ``pkttype``, ``counter``, ``source``, ``destination``, ``dport``, ``sport``, ``dports``, ``sports``,
/// ``jump`` or ``target``, ``redirect-to``, ``to-port``, ``to-ports``, ``to-source``, ``to-destination``,
/// ``reject-with``. ``full='True'`` gives the whole command; it needs table, chain and ``command``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.build_rule match=state connstate=RELATED,ESTABLISHED jump=ACCEPT
///     salt '*' nftables.build_rule filter input command=insert position=3 full=True connstate=new jump=accept
#[function]
fn build_rule(
    table: Option<String>,
    chain: Option<String>,
    command: Option<String>,
    #[default("")] position: Value,
    full: Option<Value>,
    #[default("ipv4")] family: String,
    kwargs: KwArgs,
) -> Result<Map> {
    let family = family_name(&family)?;
    let rule = written(kwargs.given(), family)?;
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (table, chain, command) = (given(table), given(chain), given(command));
    // Salt compares with the texts "True" and "true", so the boolean does not count.
    let whole = matches!(full.as_ref().and_then(Value::as_str), Some("True" | "true"));
    let refused = |why: &str| Ok(map! { "comment" => why, "rule" => rule.as_str(), "result" => false });
    let rule = if whole {
        let Some(table) = table else { return refused("Table needs to be specified") };
        let Some(chain) = chain else { return refused("Chain needs to be specified") };
        let Some(command) = command else { return refused("Command needs to be specified") };
        let inserts = ["Insert", "insert", "INSERT"].contains(&command.as_str());
        match (inserts, position.truthy()) {
            (true, true) => format!("nft insert rule {family} {table} {chain} position {position} {rule}"),
            (true, false) => format!("nft insert rule {family} {table} {chain} {rule}"),
            (false, _) => format!("nft {command} rule {family} {table} {chain} {rule}"),
        }
    } else {
        rule
    };
    let comment = if rule.is_empty() { "" } else { "Successfully built rule" };
    Ok(map! { "comment" => comment, "rule" => rule, "result" => true })
}
