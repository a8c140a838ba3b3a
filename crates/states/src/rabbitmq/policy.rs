//! `rabbitmq_policy`: policies of queues and exchanges.

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

use super::{installed, with_answer};
use crate::support::{call, call_with_kwargs, equal};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("rabbitmq_policy", "Policies of queues and exchanges.", &[&ABSENT, &PRESENT]).only_if(installed);

/// The wanted policy.
struct Wish {
    pattern: Value,
    definition: Value,
    priority: Value,
    apply_to: Value,
}

impl Wish {
    /// In what a policy is another one.
    fn differences(&self, policy: &Map) -> Result<Vec<&'static str>> {
        let is = |name: &str| policy.get(name).cloned().unwrap_or_default();
        let mut found = Vec::new();
        if !equal(&is("pattern"), &self.pattern) {
            found.push("Pattern");
        }
        // Compared as data, because the broker writes its JSON with other blanks.
        if !equal(&read(&is("definition"))?, &read(&self.definition)?) {
            found.push("Definition");
        }
        // If none is given, the broker's default holds, whatever it is.
        if self.apply_to.truthy() && !equal(&is("apply_to"), &self.apply_to) {
            found.push("Applyto");
        }
        let priority = is("priority").to_string();
        let number = priority.trim().parse::<i64>();
        let number =
            number.map_err(|_| Error::Other(format!("the policy has a priority that is not a number: {priority}")))?;
        if !equal(&number.into(), &self.priority) {
            found.push("Priority");
        }
        Ok(found)
    }
}

/// Reads a definition, which is JSON or data.
fn read(definition: &Value) -> Result<Value> {
    match definition {
        Value::Str(text) if !text.is_empty() => serde_json::from_str(text)
            .map_err(|error| Error::Other(format!("the definition of a policy is not JSON: {text}: {error}"))),
        Value::Map(_) => Ok(definition.clone()),
        nothing if !nothing.truthy() => Ok("".into()),
        other => Err(Error::Other(format!("the definition of a policy is not JSON: {other}"))),
    }
}

/// Makes sure that there is a policy for all queues and exchanges of a virtual host whose names match a pattern.
#[function]
fn present(
    ctx: &Context,
    name: String,
    pattern: Value,
    definition: Value,
    #[default(0)] priority: Value,
    #[default("/")] vhost: String,
    #[default(Value::Null)] runas: Value,
    #[default(Value::Null)] apply_to: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let wish = Wish { pattern, definition, priority, apply_to };
    let policies =
        call_with_kwargs(ctx, "rabbitmq.list_policies", map! { "vhost" => vhost.as_str(), "runas" => runas.clone() })?;
    let policy = policies.get(&vhost).and_then(|policies| policies.get(&name)).and_then(Value::as_map);
    let (changes, done) = match policy.filter(|policy| !policy.is_empty()) {
        None => (map! { "old" => Map::new(), "new" => name.as_str() }, "created"),
        Some(policy) => match wish.differences(policy)? {
            none if none.is_empty() => return Ok(ret.ok(format!("Policy {vhost} {name} is already present"))),
            differences => (map! { "old" => policy.clone(), "new" => differences }, "updated"),
        },
    };
    if ctx.is_test() {
        return Ok(ret.would(format!("Policy {vhost} {name} is set to be {done}")).changed(changes));
    }
    let Wish { pattern, definition, priority, apply_to } = wish;
    let how = map! { "priority" => priority, "runas" => runas, "apply_to" => apply_to };
    let answer = call(ctx, "rabbitmq.set_policy", args![vhost, name, pattern, definition], how)?;
    Ok(with_answer(ret, &answer, "Set").changed(changes))
}

/// Makes sure that there is no policy of this name.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    #[default("/")] vhost: String,
    #[default(Value::Null)] runas: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let (place, runas) = (args![vhost.as_str(), name.as_str()], map! { "runas" => runas });
    if !call(ctx, "rabbitmq.policy_exists", place.clone(), runas.clone())?.truthy() {
        return Ok(ret.ok(format!("Policy '{vhost} {name}' is not present.")));
    }
    let changes = map! { "new" => "", "old" => name.as_str() };
    if ctx.is_test() {
        return Ok(ret.would(format!("Policy '{vhost} {name}' will be removed.")).changed(changes));
    }
    let answer = call(ctx, "rabbitmq.delete_policy", place, runas)?;
    let deleted = answer.get("Deleted").is_some();
    let ret = with_answer(ret, &answer, "Deleted");
    Ok(match ret.result {
        Some(true) => ret.ok(if deleted { "Deleted" } else { "" }).changed(changes),
        _ => ret,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_for_the_same_kind_is_the_same() {
        let policy = map! {
            "pattern" => ".*", "apply_to" => "queues", "definition" => r#"{"max-length":1}"#, "priority" => "0",
        };
        let wish = |apply_to: &str, definition: Value| {
            let wish = Wish { pattern: ".*".into(), definition, priority: 0.into(), apply_to: apply_to.into() };
            wish.differences(&policy).map_err(|error| error.to_string())
        };
        assert_eq!(wish("queues", r#"{"max-length": 1}"#.into()), Ok(vec![]));
        assert_eq!(wish("", map! { "max-length" => 1 }.into()), Ok(vec![]));
        assert_eq!(wish("all", map! { "max-length" => 2 }.into()), Ok(vec!["Definition", "Applyto"]));
        assert!(wish("", "odd".into()).unwrap_err().starts_with("the definition of a policy is not JSON: odd"));
        assert!(wish("", 5.into()).unwrap_err().ends_with("not JSON: 5"));
    }
}
