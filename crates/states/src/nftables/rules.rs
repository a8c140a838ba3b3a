//! `append`, `insert` and `delete`.

use exec::{Context, KwArgs, Result, function};
use modules::util::is_internal;
use value::{Map, Value, map};

use super::{comment, done, is_so, required};
use crate::support::{call, call_with_kwargs, over};
use crate::{Ret, args};

/// A rule, and the place it belongs to.
struct Rule {
    name: String,
    family: String,
    args: Map,
    text: Value,
    command: String,
}

impl Rule {
    /// Builds the rule. The inner error is the comment on a wrong one.
    fn build(
        ctx: &Context,
        name: String,
        family: String,
        more: KwArgs,
        command: &str,
    ) -> Result<std::result::Result<Rule, String>> {
        let mut args = more.given();
        args.retain(|name, _| !name.as_str().is_some_and(is_internal));
        let base = map! { "family" => family.as_str() };
        let full = map! { "full" => true, "family" => family.as_str(), "command" => command };
        let mut built = Vec::new();
        // The bare rule is for the check, the full command for the comments.
        for more in [base, full] {
            let said = call_with_kwargs(ctx, "nftables.build_rule", over(more, &args))?;
            if !is_so(&said) {
                return Ok(Err(comment(&said)));
            }
            built.push(said.get("rule").cloned().unwrap_or_default());
        }
        let command = built.pop().map(|rule| rule.to_string().trim().to_owned()).unwrap_or_default();
        let text = built.pop().unwrap_or_default();
        Ok(Ok(Rule { name, family, args, text, command }))
    }

    fn place(&self) -> Result<Vec<Value>> {
        Ok(args![required(&self.args, "table")?, required(&self.args, "chain")?])
    }

    fn is_there(&self, ctx: &Context) -> Result<bool> {
        let mut place = self.place()?;
        place.extend([self.text.clone(), self.family.as_str().into()]);
        Ok(is_so(&call(ctx, "nftables.check", place, Map::new())?))
    }

    /// Saves the rules if requested; returns whether they were saved.
    fn saved(&self, ctx: &Context) -> Result<bool> {
        let wanted = self.args.get("save").is_some_and(Value::truthy);
        if wanted {
            call_with_kwargs(ctx, "nftables.save", map! { "filename" => (), "family" => self.family.as_str() })?;
        }
        Ok(wanted)
    }
}

/// Makes sure that a chain has a rule; a new one is appended.
#[function]
fn append(ctx: &Context, name: String, #[default("ipv4")] family: String, kwargs: KwArgs) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let rule = match Rule::build(ctx, name, family, kwargs, "add")? {
        Ok(rule) => rule,
        Err(why) => return Ok(ret.fail(why)),
    };
    let Rule { name, family, command, .. } = &rule;
    if rule.is_there(ctx)? {
        return Ok(ret.ok(format!("nftables rule for {name} already set ({command}) for {family}")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("nftables rule for {name} needs to be set ({command}) for {family}")));
    }
    let mut place = rule.place()?;
    place.extend([rule.text.clone(), family.as_str().into()]);
    let said = call(ctx, "nftables.append", place, Map::new())?;
    if !is_so(&said) {
        let why = said.get("comment").cloned().unwrap_or_default();
        return Ok(ret.fail(format!(
            "Failed to set nftables rule for {name}.\nAttempted rule was {command} for {family}.\n{why}"
        )));
    }
    let how = if rule.saved(ctx)? { "Set and Saved" } else { "Set" };
    Ok(done(ret, name, format!("{how} nftables rule for {name} to: {command} for {family}")))
}

/// Makes sure that a chain has a rule; a new one is inserted at the given position.
#[function]
fn insert(ctx: &Context, name: String, #[default("ipv4")] family: String, kwargs: KwArgs) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let rule = match Rule::build(ctx, name, family, kwargs, "insert")? {
        Ok(rule) => rule,
        Err(why) => return Ok(ret.fail(why)),
    };
    let Rule { name, family, command, .. } = &rule;
    if rule.is_there(ctx)? {
        return Ok(ret.ok(format!("nftables rule for {name} already set for {family} ({command})")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("nftables rule for {name} needs to be set for {family} ({command})")));
    }
    let mut place = rule.place()?;
    place.extend([required(&rule.args, "position")?, rule.text.clone(), family.as_str().into()]);
    if !is_so(&call(ctx, "nftables.insert", place, Map::new())?) {
        return Ok(ret.fail(format!("Failed to set nftables rule for {name}.\nAttempted rule was {command}")));
    }
    let how = if rule.saved(ctx)? { "Set and Saved" } else { "Set" };
    Ok(done(ret, name, format!("{how} nftables rule for {name} to: {command} for {family}")))
}

/// Makes sure that a chain does not have a rule.
#[function]
fn delete(ctx: &Context, name: String, #[default("ipv4")] family: String, kwargs: KwArgs) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let rule = match Rule::build(ctx, name, family, kwargs, "D")? {
        Ok(rule) => rule,
        Err(why) => return Ok(ret.fail(why)),
    };
    let Rule { name, family, command, .. } = &rule;
    if !rule.is_there(ctx)? {
        return Ok(ret.ok(format!("nftables rule for {name} already absent for {family} ({command})")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("nftables rule for {name} needs to be deleted for {family} ({command})")));
    }
    let which = match rule.args.get("position") {
        Some(position) => map! { "family" => family.as_str(), "position" => position.clone() },
        None => map! { "family" => family.as_str(), "rule" => rule.text.clone() },
    };
    if !is_so(&call(ctx, "nftables.delete", rule.place()?, which)?) {
        return Ok(ret.fail(format!("Failed to delete nftables rule for {name}.\nAttempted rule was {command}")));
    }
    let text = match rule.saved(ctx)? {
        true => format!("Deleted and Saved nftables rule for {name} for {command}{family}"),
        false => format!("Delete nftables rule for {name} {command}"),
    };
    Ok(done(ret, name, text))
}
