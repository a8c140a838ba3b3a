//! Policies of files and of network ports.

use exec::{Context, Result, function};
use value::{Map, Value, map};

use crate::support::{call, call_with_kwargs, over};
use crate::{Ret, args};

fn worked(said: &Value) -> bool {
    said.get("retcode").and_then(Value::as_i64) == Some(0)
}

/// Makes sure that the policy has a context for the paths that match a pattern.
#[function]
fn fcontext_policy_present(
    ctx: &Context,
    name: String,
    sel_type: Value,
    #[default("a")] filetype: Value,
    #[default(Value::Null)] sel_user: Value,
    #[default(Value::Null)] sel_level: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let kind = call(ctx, "selinux.filetype_id_to_string", args![filetype.clone()], Map::new())?;
    let policy = map! {
        "name" => name.as_str(), "filetype" => filetype, "sel_type" => sel_type.clone(), "sel_user" => sel_user,
        "sel_level" => sel_level,
    };
    let current = call_with_kwargs(ctx, "selinux.fcontext_get_policy", policy.clone())?;
    let own = current.get("sel_type").cloned().unwrap_or_default();
    if current.truthy() && own == sel_type {
        return Ok(ret.ok(format!(
            "SELinux policy for \"{name}\" already present with specified filetype \"{kind}\" and sel_type \"{sel_type}\"."
        )));
    }
    if ctx.is_test() {
        return Ok(ret.would(""));
    }
    let said = call_with_kwargs(ctx, "selinux.fcontext_add_policy", policy)?;
    if !worked(&said) {
        return Ok(ret.fail(format!("Error adding new rule: {said}")));
    }
    let (old, new) = match current.truthy() {
        true => (map! { name.as_str() => map! { "sel_type" => own } }, map! { "sel_type" => sel_type }),
        false => (Map::new(), map! { "filetype" => kind, "sel_type" => sel_type }),
    };
    Ok(ret.ok("").changed(map! { "old" => old, "new" => map! { name.as_str() => new } }))
}

/// Makes sure that the policy has no context for a pattern of paths.
#[function]
fn fcontext_policy_absent(
    ctx: &Context,
    name: String,
    #[default("a")] filetype: Value,
    #[default(Value::Null)] sel_type: Value,
    #[default(Value::Null)] sel_user: Value,
    #[default(Value::Null)] sel_level: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let policy = map! {
        "name" => name.as_str(), "filetype" => filetype.clone(), "sel_type" => sel_type.clone(), "sel_user" => sel_user,
        "sel_level" => sel_level,
    };
    let current = call_with_kwargs(ctx, "selinux.fcontext_get_policy", policy.clone())?;
    if !current.truthy() {
        return Ok(ret.ok(format!(
            "SELinux policy for \"{name}\" already absent with specified filetype \"{filetype}\" and sel_type \"{sel_type}\"."
        )));
    }
    let ret = ret.changed(map! { "old" => map! { name.as_str() => current.clone() }, "new" => Map::new() });
    if ctx.is_test() {
        return Ok(ret.would(""));
    }
    let own = current.get("sel_type").cloned().unwrap_or_default();
    let kind = map! { "sel_type" => if sel_type.truthy() { sel_type } else { own } };
    let said = call_with_kwargs(ctx, "selinux.fcontext_delete_policy", over(policy, &kind))?;
    Ok(match worked(&said) {
        true => ret.ok(""),
        false => ret.fail(format!("Error removing policy: {said}")),
    })
}

/// Makes sure that files have the contexts of the policy.
#[function]
fn fcontext_policy_applied(ctx: &Context, name: String, #[default(false)] recursive: Value) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let place = args![name.as_str(), recursive];
    if call(ctx, "selinux.fcontext_policy_is_applied", place.clone(), Map::new())?.as_str() == Some("") {
        return Ok(ret.ok(format!("SElinux policies are already applied for filespec \"{name}\"")));
    }
    if ctx.is_test() {
        return Ok(ret.would(""));
    }
    let said = call(ctx, "selinux.fcontext_apply_policy", place, Map::new())?;
    if !worked(&said) {
        return Ok(Ret { comment: said, ..ret });
    }
    let changes = said.get("changes").and_then(Value::as_map).cloned().unwrap_or_default();
    Ok(ret.ok("").changed(changes))
}

/// A port, by its name or by protocol and number.
struct Port {
    name: String,
    sel_type: Value,
    protocol: Value,
    port: Value,
}

impl Port {
    /// The arguments of the functions, with or without the type.
    fn arguments(&self, typed: bool) -> Map {
        let mut args = map! { "name" => self.name.as_str() };
        if typed {
            args.insert("sel_type", self.sel_type.clone());
        }
        args.update(map! { "protocol" => self.protocol.clone(), "port" => self.port.clone() });
        args
    }

    fn policy(&self, ctx: &Context, typed: bool) -> Result<Value> {
        call_with_kwargs(ctx, "selinux.port_get_policy", self.arguments(typed))
    }

    fn already(&self, what: &str) -> String {
        let Port { name, sel_type, protocol, port } = self;
        format!(
            "SELinux policy for \"{name}\" already {what} with specified sel_type \"{sel_type}\", protocol \"{protocol}\" \
             and port \"{port}\"."
        )
    }
}

/// Makes sure that the policy has a type for a port.
#[function]
fn port_policy_present(
    ctx: &Context,
    name: String,
    sel_type: Value,
    #[default(Value::Null)] protocol: Value,
    #[default(Value::Null)] port: Value,
    #[default(Value::Null)] sel_range: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let wish = Port { name, sel_type, protocol, port };
    if wish.policy(ctx, true)?.truthy() {
        return Ok(ret.ok(wish.already("present")));
    }
    if ctx.is_test() {
        return Ok(ret.would(""));
    }
    let old = wish.policy(ctx, false)?;
    let fun = if old.truthy() { "selinux.port_modify_policy" } else { "selinux.port_add_policy" };
    let said = call_with_kwargs(ctx, fun, over(wish.arguments(true), &map! { "sel_range" => sel_range }))?;
    if !worked(&said) {
        return Ok(ret.fail(format!("Error adding new policy: {said}")));
    }
    let new = wish.policy(ctx, true)?;
    Ok(ret.ok("").changed(map! { "old" => old, "new" => new }))
}

/// Makes sure that the policy has no type for a port.
#[function]
fn port_policy_absent(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] sel_type: Value,
    #[default(Value::Null)] protocol: Value,
    #[default(Value::Null)] port: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let wish = Port { name, sel_type, protocol, port };
    let old = wish.policy(ctx, true)?;
    if !old.truthy() {
        return Ok(ret.ok(wish.already("absent")));
    }
    if ctx.is_test() {
        return Ok(ret.would(""));
    }
    let said = call_with_kwargs(ctx, "selinux.port_delete_policy", wish.arguments(false))?;
    if !worked(&said) {
        return Ok(ret.fail(format!("Error deleting policy: {said}")));
    }
    let new = wish.policy(ctx, true)?;
    Ok(ret.ok("").changed(map! { "old" => old, "new" => new }))
}
