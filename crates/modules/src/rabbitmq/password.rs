//! Commands that need a password.
//!
//! Since 3.8 `rabbitmqctl` reads a password from its standard input, where other users of the machine do not see it; older
//! ones, which have no command `version` either, take it as an argument.

use std::sync::Mutex;

use exec::{Context, Result};
use python::splitlines;
use value::{Map, map};

use super::answer;
use super::tool::{ToolOutput, control_with, unlogged, words};

/// The prompt of `rabbitmqctl`.
const PROMPT: &str = "Password: ";

/// The cached answer to whether `rabbitmqctl` reads passwords from its standard input.
#[derive(Default)]
struct Reads(Mutex<Option<bool>>);

fn reads_passwords(ctx: &Context, runas: &Option<String>) -> Result<bool> {
    let known = ctx.memo.get::<Reads>();
    let lock = || known.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(reads) = *lock() {
        return Ok(reads);
    }
    let mut more = unlogged();
    // Older versions do not know `version` and fail, which is an answer, too.
    more.insert("ignore_retcode", true);
    let said = control_with(ctx, words(["version"]), runas, more)?;
    let version = splitlines(&said.stdout).last().and_then(|line| answer::version(line));
    // Since 3.8 `rabbitmqctl` reads a missing password from standard input, where no list of
    // processes shows it.
    let reads = said.code == 0 && version.is_some_and(|version| version >= vec![3, 8]);
    *lock() = Some(reads);
    Ok(reads)
}

/// Runs a command about a user with a password.
pub(super) fn control(
    ctx: &Context,
    command: &str,
    name: &str,
    password: &str,
    runas: &Option<String>,
) -> Result<ToolOutput> {
    // Nothing, or more than a line, cannot be read from the standard input.
    let readable = !password.is_empty() && !password.contains(['\n', '\r']);
    if !readable || !reads_passwords(ctx, runas)? {
        return control_with(ctx, words([command, name, password]), runas, unlogged());
    }
    let mut more = unlogged();
    more.update(map! { "stdin" => password, "stdin_raw_newlines" => true });
    let mut said = control_with(ctx, words([command, name]), runas, more)?;
    said.stdout = without_prompt(&said.stdout);
    Ok(said)
}

/// Removes the prompt, so that the output is the same whichever way the password went.
fn without_prompt(printed: &str) -> String {
    let lines = splitlines(printed).into_iter();
    let told = lines.map(|line| line.strip_prefix(PROMPT).unwrap_or(line)).filter(|line| *line != PROMPT.trim_end());
    let told: Vec<&str> = told.filter(|line| !line.is_empty()).collect();
    told.join("\n")
}

/// Evaluates the check of a password within the broker, for versions before 3.5.7.
pub(super) fn evaluate(ctx: &Context, name: &str, password: &str, runas: &Option<String>) -> Result<Map> {
    // Before 3.5.7 there is no `authenticate_user`, so the broker's own function is called in
    // Erlang.
    let said = control_with(ctx, words(["eval", &check(name, password)]), runas, unlogged())?;
    said.under("password-check")
}

/// The check as an Erlang term, in which names and passwords stay texts whatever they contain.
fn check(name: &str, password: &str) -> String {
    // The quotes of Erlang. A password must not become code.
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "rabbit_auth_backend_internal:check_user_login(<<\"{}\">>, [{{password, <<\"{}\">>}}]).",
        quoted(name),
        quoted(password)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_stays_a_text() {
        let expected = r#"rabbit_auth_backend_internal:check_user_login(<<"ann">>, [{password, <<"a\\\"b">>}])."#;
        assert_eq!(check("ann", r#"a\"b"#), expected);
    }

    #[test]
    fn the_question_for_a_password_is_not_told() {
        assert_eq!(without_prompt("Adding user \"ann\" ...\nPassword: \nDone."), "Adding user \"ann\" ...\nDone.");
        assert_eq!(
            without_prompt("Changing password for user \"ann\" ...\nPassword:"),
            "Changing password for user \"ann\" ..."
        );
        assert_eq!(without_prompt("Password: Done."), "Done.");
    }
}
