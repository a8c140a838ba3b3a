//! Users.

use exec::{Context, Result, function};
use rand::Rng;
use regex::Regex;
use value::{Map, Value};

use super::tool::{control, control_with, words};
use super::{answer, password};

fn users(ctx: &Context, runas: &Option<String>) -> Result<Map> {
    let listed = control(ctx, ["list_users", "-q"], runas)?.output()?;
    Ok(answer::by_name(&listed, answer::tags))
}

/// Returns the users, each with a list of tags.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.list_users
#[function]
fn list_users(ctx: &Context, runas: Option<String>) -> Result<Map> {
    users(ctx, &runas)
}

/// Returns whether there is a user of this name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.user_exists rabbit_user
#[function]
fn user_exists(ctx: &Context, name: String, runas: Option<String>) -> Result<bool> {
    Ok(users(ctx, &runas)?.contains_key(&name))
}

/// Adds a user, and returns the output. Without a password, password logins are impossible.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.add_user rabbit_user password
#[function]
fn add_user(ctx: &Context, name: String, password: Option<String>, runas: Option<String>) -> Result<Map> {
    let clear = password.is_none();
    // `rabbitmqctl` makes no user without a password, so one is set and removed again.
    let password = password.unwrap_or_else(passing_password);
    let said = password::control(ctx, "add_user", &name, &password, &runas)?;
    if clear && let Err(error) = cleared(ctx, &name, &runas) {
        // A user whose password is unknown is useless.
        deleted(ctx, &name, &runas)?;
        return Err(error);
    }
    said.under("Added")
}

/// Returns a temporary password: the broker requires one for a new user.
fn passing_password() -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let mut rng = rand::rng();
    (0..15).map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())])).collect()
}

fn cleared(ctx: &Context, name: &str, runas: &Option<String>) -> Result<Map> {
    control(ctx, ["clear_password", name], runas)?.under("Password Cleared")
}

fn deleted(ctx: &Context, name: &str, runas: &Option<String>) -> Result<Map> {
    control(ctx, ["delete_user", name], runas)?.under("Deleted")
}

/// Deletes a user, and returns the output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.delete_user rabbit_user
#[function]
fn delete_user(ctx: &Context, name: String, runas: Option<String>) -> Result<Map> {
    deleted(ctx, &name, &runas)
}

/// Changes the password of a user, and returns the output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.change_password rabbit_user password
#[function]
fn change_password(ctx: &Context, name: String, password: String, runas: Option<String>) -> Result<Map> {
    password::control(ctx, "change_password", &name, &password, &runas)?.under("Password Changed")
}

/// Removes the password of a user, and returns the output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.clear_password rabbit_user
#[function]
fn clear_password(ctx: &Context, name: String, runas: Option<String>) -> Result<Map> {
    cleared(ctx, &name, &runas)
}

/// Returns whether a user has this password.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.check_password rabbit_user password
#[function]
fn check_password(ctx: &Context, name: String, password: String, runas: Option<String>) -> Result<bool> {
    let program = super::tool::program(ctx)?;
    let command: Value = [program.as_str(), "status"].into_iter().map(Value::from).collect();
    let kwargs = super::tool::usual(&runas);
    let status = ctx.call_with("cmd.run", exec::Call { args: vec![command], kwargs })?.to_string();
    if !can_authenticate(&status) {
        let said = password::evaluate(ctx, &name, &password, &runas)?;
        return Ok(!said.values().any(|said| said.to_string().contains("invalid credentials")));
    }
    Ok(!password::control(ctx, "authenticate_user", &name, &password, &runas)?.failed())
}

/// Returns whether the broker has a command to check a password, which came with 3.5.7.
fn can_authenticate(status: &str) -> bool {
    // Erlang's form, until 3.7, and the human-readable one.
    const FORMS: [&str; 2] = [r#"\{rabbit,"RabbitMQ","(.+)"\}"#, r"RabbitMQ version:\s*(.+)"];
    let version = FORMS.iter().find_map(|form| {
        let found = Regex::new(form).expect("the pattern is constant").captures(status)?;
        Some(found[1].split('-').next().unwrap_or_default().to_owned())
    });
    let numbers =
        |version: String| -> Option<Vec<i64>> { version.split('.').map(|part| part.trim().parse().ok()).collect() };
    version.and_then(numbers).is_some_and(|numbers| numbers.len() >= 3 && numbers >= vec![3, 5, 7])
}

/// Replaces the tags of a user, and returns the output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.set_user_tags myadmin administrator
#[function]
fn set_user_tags(ctx: &Context, name: String, tags: Value, runas: Option<String>) -> Result<Map> {
    let tags = match tags {
        Value::List(tags) => tags,
        single => vec![single],
    };
    let mut command = words(["set_user_tags", &name]);
    command.extend(tags);
    control_with(ctx, command, &runas, Map::new())?.under("Tag(s) set")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_brokers_cannot_authenticate() {
        let old =
            |version: &str| format!("[{{pid,1}},\n {{running_applications,[{{rabbit,\"RabbitMQ\",\"{version}\"}},\n");
        for (status, can) in [
            (old("3.5.7"), true),
            (old("3.5.6"), false),
            (old("3.6"), false),
            (old("3.6.10-rc1"), true),
            ("Runtime\n\nRabbitMQ version: 3.10.8\nNode name: x".into(), true),
            ("RabbitMQ version: x.y.z".into(), false),
            ("Error: unable to connect".into(), false),
            (String::new(), false),
        ] {
            assert_eq!(can_authenticate(&status), can, "{status}");
        }
    }

    #[test]
    fn passing_passwords_are_of_letters_and_digits() {
        let made = passing_password();
        assert!(made.len() == 15 && made.bytes().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit()));
        assert_ne!(made, passing_password());
    }
}
