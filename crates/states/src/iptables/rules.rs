//! `append`, `insert` and `delete`: single rules, or all rules of a run in one state.

use exec::{Context, Error, KwArgs, Result, function};
use modules::util::is_internal;
use value::{Map, Value, map};

use super::{file_to_save, required, save};
use crate::support::{call, call_with_kwargs, equal, over};
use crate::{Ret, args};

#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Append,
    Insert,
    Delete,
}

/// A rule with its table, chain and family.
struct Rule {
    name: String,
    table: String,
    family: String,
    args: Map,
    /// The rule as iptables takes it, and the whole command.
    text: Value,
    command: String,
}

impl Rule {
    fn build(ctx: &Context, doing: Doing, mut given: Map) -> Result<Rule> {
        let text = |name: &str, default: &str, given: &mut Map| {
            given.remove(name).map_or_else(|| default.to_owned(), |value| value.to_string())
        };
        let name = given.remove("name").ok_or_else(|| Error::Other("'name'".into()))?.to_string();
        let (table, family) = (text("table", "filter", &mut given), text("family", "ipv4", &mut given));
        // Arguments of the state system must not end up in the rule.
        let ours = |name: &str| name == "__agg__" || is_internal(name);
        given.retain(|name, _| !name.as_str().is_some_and(ours));
        given.update(map! { "name" => name.as_str(), "table" => table.as_str() });
        let base = map! { "family" => family.as_str() };
        let rule = call_with_kwargs(ctx, "iptables.build_rule", over(base.clone(), &given))?;
        let full = match doing {
            // Salt passes a text here and booleans below. Both are truthy.
            Doing::Append => map! { "full" => "True", "family" => family.as_str(), "command" => "A" },
            Doing::Insert => map! { "full" => true, "family" => family.as_str(), "command" => "I" },
            Doing::Delete => map! { "full" => true, "family" => family.as_str(), "command" => "D" },
        };
        let command = call_with_kwargs(ctx, "iptables.build_rule", over(full, &given))?.to_string().trim().to_owned();
        Ok(Rule { name, table, family, args: given, text: rule, command })
    }

    fn is_there(&self, ctx: &Context) -> Result<bool> {
        let place = args![self.table.as_str(), required(&self.args, "chain")?, self.text.clone(), self.family.as_str()];
        Ok(call(ctx, "iptables.check", place, Map::new())? == Value::Bool(true))
    }

    /// Saves the rules when the file differs from the active rules; returns a message about it.
    fn save_if_new(&self, ctx: &Context) -> Result<String> {
        let Some(file) = file_to_save(&self.args) else { return Ok(String::new()) };
        let family = self.family.as_str();
        let saved = map! { "conf_file" => file.clone(), "family" => family };
        let saved = all_rules(&call_with_kwargs(ctx, "iptables.get_saved_rules", saved)?);
        let now = all_rules(&call_with_kwargs(ctx, "iptables.get_rules", map! { "family" => family })?);
        if equal(&now, &saved) {
            return Ok(String::new());
        }
        let said = save(ctx, file, family)?;
        Ok(format!("\nSaved iptables rule {} for {family}\n{}\n{said}", self.name, self.command))
    }

    /// Finishes a state after a rule was set or deleted. Saves the rules if requested.
    fn done(&self, ctx: &Context, ret: Ret, saved: &str, unsaved: String) -> Result<Ret> {
        let ret = ret.changed(map! { "locale" => self.name.as_str() });
        let Some(file) = file_to_save(&self.args) else { return Ok(ret.ok(unsaved)) };
        let said = save(ctx, file, &self.family)?;
        Ok(ret.ok(format!("{saved} iptables rule {} for {}\n{}\n{said}", self.name, self.family, self.command)))
    }
}

/// The rules of all chains, without the names and counters of these.
fn all_rules(tables: &Value) -> Value {
    let tables = tables.as_map().into_iter().flat_map(Map::values);
    let chains = tables.filter_map(Value::as_map).flat_map(Map::values);
    chains.map(|chain| chain.get("rules").cloned().unwrap_or_default()).collect()
}

fn appended(ctx: &Context, given: Map) -> Result<Ret> {
    let rule = Rule::build(ctx, Doing::Append, given)?;
    let Rule { name, table, family, command, .. } = &rule;
    let ret = Ret::new(name.as_str());
    if rule.is_there(ctx)? {
        let text = format!("iptables rule for {name} already set ({command}) for {family}");
        return Ok(ret.ok(text + &rule.save_if_new(ctx)?));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("iptables rule for {name} needs to be set ({command}) for {family}")));
    }
    let place = args![table.as_str(), required(&rule.args, "chain")?, rule.text.clone(), family.as_str()];
    // `append` returns True for success, `insert` and `delete` return the output.
    if call(ctx, "iptables.append", place, Map::new())?.truthy() {
        let text = format!("Set iptables rule for {name} to: {command} for {family}");
        return rule.done(ctx, ret, "Set and saved", text);
    }
    Ok(ret.fail(format!("Failed to set iptables rule for {name}.\nAttempted rule was {command} for {family}")))
}

fn inserted(ctx: &Context, given: Map) -> Result<Ret> {
    let rule = Rule::build(ctx, Doing::Insert, given)?;
    let Rule { name, table, family, command, .. } = &rule;
    let ret = Ret::new(name.as_str());
    if rule.is_there(ctx)? {
        let text = format!("iptables rule for {name} already set for {family} ({command})");
        // The rule is active, but the file may be older than it.
        return Ok(ret.ok(text + &rule.save_if_new(ctx)?));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("iptables rule for {name} needs to be set for {family} ({command})")));
    }
    let (chain, position) = (required(&rule.args, "chain")?, required(&rule.args, "position")?);
    let place = args![table.as_str(), chain, position, rule.text.clone(), family.as_str()];
    if call(ctx, "iptables.insert", place, Map::new())?.truthy() {
        return Ok(ret.fail(format!("Failed to set iptables rule for {name}.\nAttempted rule was {command}")));
    }
    let text = format!("Set iptables rule for {name} to: {command} for {family}");
    rule.done(ctx, ret, "Set and saved", text)
}

fn deleted(ctx: &Context, given: Map) -> Result<Ret> {
    let rule = Rule::build(ctx, Doing::Delete, given)?;
    let Rule { name, table, family, command, .. } = &rule;
    let ret = Ret::new(name.as_str());
    let position = rule.args.get("position");
    // A position names a rule without its text, so nothing can be looked up.
    if !rule.is_there(ctx)? && position.is_none() {
        return Ok(ret.ok(format!("iptables rule for {name} already absent for {family} ({command})")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("iptables rule for {name} needs to be deleted for {family} ({command})")));
    }
    let which = match position {
        Some(position) => map! { "family" => family.as_str(), "position" => position.clone() },
        None => map! { "family" => family.as_str(), "rule" => rule.text.clone() },
    };
    let place = args![table.as_str(), required(&rule.args, "chain")?];
    if call(ctx, "iptables.delete", place, which)?.truthy() {
        return Ok(ret.fail(format!("Failed to delete iptables rule for {name}.\nAttempted rule was {command}")));
    }
    rule.done(ctx, ret, "Deleted and saved", format!("Delete iptables rule for {name} {command}"))
}

fn single(ctx: &Context, doing: Doing, given: Map) -> Result<Ret> {
    match doing {
        Doing::Append => appended(ctx, given),
        Doing::Insert => inserted(ctx, given),
        Doing::Delete => deleted(ctx, given),
    }
}

/// Applies all rules of a list, and saves them once.
fn several(ctx: &Context, doing: Doing, name: &str, family: &str, rules: &[Value]) -> Result<Ret> {
    let mut ret = Ret { result: None, ..Ret::new(name) };
    let (mut done, mut comments, mut file) = (Vec::new(), Vec::new(), None);
    for rule in rules {
        let mut rule = rule.as_map().cloned().ok_or_else(|| Error::Other(format!("{rule} is not a rule")))?;
        // A chunk may itself have been joined before; its list must not be set again.
        rule.remove("rules");
        if let Some(wanted) = file_to_save(&rule) {
            file = Some(wanted);
            // Saved once at the end and not after each rule.
            rule.insert("save", false);
        }
        let one = single(ctx, doing, rule)?;
        done.extend(one.changes.get("locale").cloned());
        comments.push(one.comment.to_string());
        // The last rule decides, as in Salt.
        ret.result = one.result;
    }
    // Rules that are deleted all at once are not saved, as in Salt.
    if let Some(file) = file.filter(|_| doing != Doing::Delete) {
        save(ctx, file, family)?;
    }
    if !done.is_empty() {
        ret.changes.insert("locale", done);
    }
    ret.comment = comments.join("\n").into();
    Ok(ret)
}

fn ruled(ctx: &Context, doing: Doing, name: String, table: String, family: String, more: KwArgs) -> Result<Ret> {
    let given = more.given();
    if let Some(rules) = given.get("rules").and_then(Value::as_list) {
        return several(ctx, doing, &name, &family, rules);
    }
    single(ctx, doing, over(map! { "name" => name, "table" => table, "family" => family }, &given))
}

/// Makes sure that a chain has a rule; a new one is appended.
#[function]
fn append(
    ctx: &Context,
    name: String,
    #[default("filter")] table: String,
    #[default("ipv4")] family: String,
    kwargs: KwArgs,
) -> Result<Ret> {
    ruled(ctx, Doing::Append, name, table, family, kwargs)
}

/// Makes sure that a chain has a rule; a new one is inserted at the given position.
#[function]
fn insert(
    ctx: &Context,
    name: String,
    #[default("filter")] table: String,
    #[default("ipv4")] family: String,
    kwargs: KwArgs,
) -> Result<Ret> {
    ruled(ctx, Doing::Insert, name, table, family, kwargs)
}

/// Makes sure that a chain does not have a rule.
#[function]
fn delete(
    ctx: &Context,
    name: String,
    #[default("filter")] table: String,
    #[default("ipv4")] family: String,
    kwargs: KwArgs,
) -> Result<Ret> {
    ruled(ctx, Doing::Delete, name, table, family, kwargs)
}
