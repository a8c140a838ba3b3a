//! Types of network ports.

use exec::{Context, Error, Result, function};
use regex::Regex;
use value::{Value, map};

use super::{quotable, shell};

/// Protocol and port from a name such as "tcp/8080" or "udp/20-21", else as they are given.
fn parted(name: &str, protocol: &Value, port: &Value) -> Result<(String, String)> {
    // Salt's pattern, which wants two digits at least.
    let pattern = Regex::new(r"^(tcp|udp)/([0-9]+-?[0-9]+)$").expect("the pattern is constant");
    let given = format!("{protocol}/{port}");
    let found = pattern.captures(name).or_else(|| pattern.captures(&given)).ok_or_else(|| {
        Error::invocation(format!(
            "Invalid name \"{name}\" format and protocol and port not provided or invalid: \"{protocol}\" \"{port}\"."
        ))
    })?;
    Ok((found[1].to_owned(), found[2].to_owned()))
}

/// Returns type, protocol and ports of the policy that has a port; None if there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.port_get_policy tcp/80
///     salt '*' selinux.port_get_policy foobar protocol=tcp port=80
#[function]
fn port_get_policy(
    ctx: &Context,
    name: String,
    sel_type: Option<String>,
    #[default(Value::Null)] protocol: Value,
    #[default(Value::Null)] port: Value,
) -> Result<Value> {
    let (protocol, port) = parted(&name, &protocol, &port)?;
    let kind = quotable(sel_type)?.unwrap_or_else(|| r"\w+".into());
    // A type may own several ports in one row, parted by commas.
    let line = format!("semanage port --list | grep -E '^{kind}[ ]+{protocol}[ ]+((.*)*)[ ]{port}($|,)'");
    let text = shell(ctx, line)?;
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let pattern = Regex::new(r"^(\w+)[ ]+(\w+)[ ]+([\d\-, ]+)").expect("the pattern is constant");
    let unread = || Error::execution(format!("Port policy {text} did not match expected format"));
    let found = pattern.captures(&text).ok_or_else(unread)?;
    Ok(map! { "sel_type" => &found[1], "protocol" => &found[2], "port" => found[3].trim() }.into())
}

struct Change {
    doing: &'static str,
    name: String,
    sel_type: Option<String>,
    protocol: Value,
    port: Value,
    sel_range: Option<String>,
}

fn change(ctx: &Context, change: Change) -> Result<Value> {
    let Change { doing, name, sel_type, protocol, port, sel_range } = change;
    let (sel_type, sel_range) = (quotable(sel_type)?, quotable(sel_range)?);
    if doing == "add" && sel_type.is_none() {
        return Err(Error::invocation("SELinux Type is required to add a policy"));
    }
    let (protocol, port) = parted(&name, &protocol, &port)?;
    let mut line = format!("semanage port --{doing} --proto {protocol}");
    line.extend(sel_type.map(|kind| format!(" --type {kind}")));
    line.extend(sel_range.map(|range| format!(" --range {range}")));
    line.push_str(&format!(" {port}"));
    ctx.call("cmd.run_all", vec![line.into()])
}

/// Sets the type of a port; returns the output of ``semanage``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.port_add_policy tcp/8080 http_port_t
///     salt '*' selinux.port_add_policy foobar http_port_t protocol=tcp port=8091
#[function]
fn port_add_policy(
    ctx: &Context,
    name: String,
    sel_type: Option<String>,
    #[default(Value::Null)] protocol: Value,
    #[default(Value::Null)] port: Value,
    sel_range: Option<String>,
) -> Result<Value> {
    change(ctx, Change { doing: "add", name, sel_type, protocol, port, sel_range })
}

/// Changes the type of a port that has one; returns the output of ``semanage``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.port_modify_policy tcp/8080 http_port_t
#[function]
fn port_modify_policy(
    ctx: &Context,
    name: String,
    sel_type: Option<String>,
    #[default(Value::Null)] protocol: Value,
    #[default(Value::Null)] port: Value,
    sel_range: Option<String>,
) -> Result<Value> {
    change(ctx, Change { doing: "modify", name, sel_type, protocol, port, sel_range })
}

/// Deletes the type of a port; returns the output of ``semanage``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.port_delete_policy tcp/8080
#[function]
fn port_delete_policy(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] protocol: Value,
    #[default(Value::Null)] port: Value,
) -> Result<Value> {
    change(ctx, Change { doing: "delete", name, sel_type: None, protocol, port, sel_range: None })
}
