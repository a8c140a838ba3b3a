//! Policies.

use exec::{Context, Error, Result, function};
use python::json::{Style, dumps};
use value::{Map, Value, map};

use super::answer;
use super::tool::{control, control_with, words};

/// The version of the package, as numbers.
fn version(ctx: &Context) -> Result<String> {
    let free_bsd = ctx.grains.get_str("os_family") == Some("FreeBSD");
    let package = if free_bsd { "rabbitmq" } else { "rabbitmq-server" };
    Ok(ctx.call("pkg.version", vec![package.into()])?.to_string())
}

fn policies(ctx: &Context, vhost: &str, runas: &Option<String>) -> Result<Map> {
    let listed = control(ctx, ["list_policies", "-q", "-p", vhost], runas)?.output()?;
    let version = version(ctx)?;
    let mut found = Map::new();
    for line in answer::lines(&listed) {
        let columns: Vec<&str> = line.split('\t').collect();
        // Salt skips what is not a policy. Very old versions have no column "apply to".
        if !(5..=6).contains(&columns.len()) {
            continue;
        }
        let unknown =
            || Error::Other(format!("the package of RabbitMQ has no version to read policies by: {version:?}"));
        // 3.7 exchanged the columns `pattern` and `apply-to`, and only the version tells them apart.
        let switched = answer::version(&version).ok_or_else(unknown)? >= vec![3, 7];
        let policy =
            policy(&columns[2..], switched).ok_or_else(|| Error::Other(format!("a policy lacks something: {line}")))?;
        if let Value::Map(of_host) = found.entry_or_insert_with(columns[0], || Map::new().into()) {
            of_host.insert(columns[1], policy);
        }
    }
    Ok(found)
}

/// A policy of the columns behind its name. With 3.7 pattern and kind changed places; long before there was no kind.
fn policy(columns: &[&str], switched: bool) -> Option<Map> {
    Some(match (switched, columns) {
        (true, [pattern, kind, definition, priority]) => map! {
            "pattern" => *pattern, "apply_to" => *kind, "definition" => *definition, "priority" => *priority,
        },
        (false, [kind, pattern, definition, priority]) => map! {
            "apply_to" => *kind, "pattern" => *pattern, "definition" => *definition, "priority" => *priority,
        },
        (false, [pattern, definition, priority]) => map! {
            "pattern" => *pattern, "definition" => *definition, "priority" => *priority,
        },
        _ => return None,
    })
}

/// Returns the policies of a virtual host, by the host and their names.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.list_policies
#[function]
fn list_policies(ctx: &Context, #[default("/")] vhost: String, runas: Option<String>) -> Result<Map> {
    policies(ctx, &vhost, &runas)
}

/// Sets a policy for all queues and exchanges of a virtual host whose names match a pattern, and returns the output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.set_policy / HA '.*' '{"ha-mode":"all"}'
#[function]
fn set_policy(
    ctx: &Context,
    vhost: String,
    name: String,
    pattern: String,
    definition: Value,
    #[default(Value::Null)] priority: Value,
    runas: Option<String>,
    #[default(Value::Null)] apply_to: Value,
) -> Result<Map> {
    let definition = match definition {
        Value::Map(_) => dumps(&definition, &Style::default()).map_err(Error::Other)?,
        Value::Str(text) => text.to_string(),
        _ => return Err(Error::invocation("The 'definition' argument must be a dictionary or JSON string")),
    };
    let mut command = words(["set_policy", "-p", &vhost]);
    for (flag, value) in [("--priority", priority), ("--apply-to", apply_to)] {
        if value.truthy() {
            command.extend([flag.into(), value]);
        }
    }
    command.extend(words([name.as_str(), &pattern, &definition]));
    let said = control_with(ctx, command, &runas, Map::new())?;
    tracing::debug!("Set policy: {}", said.stdout);
    said.under("Set")
}

/// Deletes a policy, and returns the output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.delete_policy / HA
#[function]
fn delete_policy(ctx: &Context, vhost: String, name: String, runas: Option<String>) -> Result<Map> {
    let said = control(ctx, ["clear_policy", "-p", &vhost, &name], &runas)?;
    tracing::debug!("Delete policy: {}", said.stdout);
    said.under("Deleted")
}

/// Returns whether a virtual host has a policy of this name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.policy_exists / HA
#[function]
fn policy_exists(ctx: &Context, vhost: String, name: String, runas: Option<String>) -> Result<bool> {
    let policies = policies(ctx, &vhost, &runas)?;
    Ok(policies.get(&vhost).and_then(Value::as_map).is_some_and(|policies| policies.contains_key(&name)))
}
