//! `webutil` — files of passwords for web servers, through the program `htpasswd`.

use std::path::Path;

use exec::{Call, Context, Error, Module, Result, function};
use python::splitlines;
use value::{Value, map};

use crate::util;

/// The module.
pub static MODULE: Module =
    Module::new("webutil", "Functions that change files of passwords for web servers.", &[&USERADD, &USERDEL, &VERIFY])
        .only_if(|_| match util::which("htpasswd") {
            Some(_) => Ok(()),
            None => Err("The htpasswd execution mdule cannot be loaded: htpasswd binary not in path.".into()),
        });

/// Runs `htpasswd` with letters of options. The password goes to its standard input, where no other process sees it.
fn fed(ctx: &Context, letters: String, file: &str, user: &str, password: &str, runas: Option<String>) -> Result<Value> {
    // `htpasswd -i` reads one line, and the rest would silently be lost.
    if password.contains(['\n', '\0']) {
        return Err(Error::invocation("a password for htpasswd is one line"));
    }
    let command: Value = ["htpasswd", &letters, file, user].into_iter().map(Value::from).collect();
    let kwargs = map! {
        "runas" => runas, "python_shell" => false, "stdin" => password, "stdin_raw_newlines" => true,
    };
    ctx.call_with("cmd.run_all", Call { args: vec![command], kwargs })
}

/// Adds a user to a password file, or changes its password; the file is made if there is none. ``opts`` are letters for
/// ``htpasswd``: n (show, do not write), m (MD5), d (crypt), p (plain text), s (SHA1).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' webutil.useradd /etc/httpd/htpasswd larry badpassword
///     salt '*' webutil.useradd /etc/httpd/htpasswd larry badpass opts=ns
#[function]
fn useradd(
    ctx: &Context,
    pwfile: String,
    user: String,
    password: String,
    #[default("")] opts: String,
    runas: Option<String>,
) -> Result<Value> {
    // `-c` would empty an existing file.
    let create = if Path::new(&pwfile).exists() { "" } else { "c" };
    fed(ctx, format!("-i{opts}{create}"), &pwfile, &user, &password, runas)
}

/// Removes a user from a password file, and returns the output; with ``all_results=True`` the exit code, too.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' webutil.userdel /etc/httpd/htpasswd larry
#[function]
fn userdel(
    ctx: &Context,
    pwfile: String,
    user: String,
    runas: Option<String>,
    #[default(false)] all_results: Value,
) -> Result<Value> {
    if !Path::new(&pwfile).exists() {
        return Ok("Error: The specified htpasswd file does not exist".into());
    }
    let command: Value = ["htpasswd", "-D", &pwfile, &user].into_iter().map(Value::from).collect();
    let call = Call { args: vec![command], kwargs: map! { "runas" => runas, "python_shell" => false } };
    if all_results.truthy() {
        return ctx.call_with("cmd.run_all", call);
    }
    let printed = ctx.call_with("cmd.run", call)?.to_string();
    Ok(splitlines(&printed).into_iter().collect())
}

/// Returns whether a user is in a password file with this password.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' webutil.verify /etc/httpd/htpasswd larry maybepassword
///     salt '*' webutil.verify /etc/httpd/htpasswd larry maybepassword opts=ns
#[function]
fn verify(
    ctx: &Context,
    pwfile: String,
    user: String,
    password: String,
    #[default("")] opts: String,
    runas: Option<String>,
) -> Result<bool> {
    if !Path::new(&pwfile).exists() {
        return Ok(false);
    }
    let said = fed(ctx, format!("-iv{opts}"), &pwfile, &user, &password, runas)?;
    Ok(said.get("retcode").and_then(Value::as_i64) == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::KwArgs;

    /// Returns what it was asked.
    #[function]
    fn run_all(cmd: Value, kwargs: KwArgs) -> Result<Value> {
        Ok(map! { "retcode" => 0, "cmd" => cmd, "stdin" => kwargs.given().get("stdin").cloned() }.into())
    }

    static CMD: Module = Module::new("cmd", "", &[&RUN_ALL]);

    #[test]
    fn passwords_are_no_arguments_of_programs() {
        static ALWAYS: Module = Module::new("webutil", "", &[&USERADD, &VERIFY]);
        let (ctx, _agent) = exec::testing::context(&[&ALWAYS, &CMD], map! {}, map! {}, map! {});
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("htpasswd").to_string_lossy().into_owned();
        let add = |opts: &str| {
            let args = [file.as_str(), "ann", "s3cret\\n", opts].into_iter().map(Value::from).collect();
            ctx.call("webutil.useradd", args).unwrap()
        };
        let asked = |said: &Value| (said.get("cmd").cloned().unwrap(), said.get("stdin").cloned().unwrap());
        let command = |letters: &str| ["htpasswd", letters, &file, "ann"].into_iter().collect::<Value>();
        assert_eq!(asked(&add("s")), (command("-isc"), "s3cret\\n".into()));
        std::fs::write(&file, "").unwrap();
        assert_eq!(asked(&add("")), (command("-i"), "s3cret\\n".into()));
        let args = [file.as_str(), "ann", "two\nlines"].into_iter().map(Value::from).collect();
        let said = ctx.call("webutil.verify", args).unwrap_err().to_string();
        assert_eq!(said, "a password for htpasswd is one line");
    }
}
