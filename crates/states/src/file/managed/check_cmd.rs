//! Commands that check a file before it is put in its place.

use exec::{Call, Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use crate::Ret;

/// A command that checks a file before it is put in its place.
pub struct CheckCmd {
    pub command: Value,
    pub tmp_dir: Option<String>,
    pub tmp_ext: String,
}

impl CheckCmd {
    /// Makes the file that the command checks.
    pub fn file(&self) -> Result<tempfile::TempPath> {
        // `tmp_ext` matters to checkers that examine the file's extension, such as the one of a web server's
        // configuration.
        let directory = self.tmp_dir.clone().map_or_else(std::env::temp_dir, Into::into);
        let made = tempfile::Builder::new().suffix(&self.tmp_ext).tempfile_in(&directory);
        made.map(tempfile::NamedTempFile::into_temp_path)
            .map_err(|error| Error::execution(format!("failed to make a file in {}: {error}", directory.display())))
    }
}

/// A command that refused a file.
pub struct Refused(String);

impl Refused {
    /// Makes the state fail with the output of the command.
    pub fn onto(self, mut ret: Ret) -> Ret {
        // The file was not changed, so a service that watches it must not restart although the
        // state failed.
        ret.more.insert("skip_watch", true);
        ret.fail(self.0)
    }
}

/// Runs a command with a file as its last word.
pub fn run_check(ctx: &Context, command: &str, file: &str) -> Result<std::result::Result<(), Refused>> {
    let mut kwargs = Map::new();
    // Salt passes the grain `shell`, the login shell of the minion's user, and not /bin/sh.
    if let Some(shell) = ctx.grains.get("shell") {
        kwargs.insert("shell", shell.clone());
    }
    // The path is put in unquoted. The temporary file is named by us, so it holds nothing a shell
    // would split unless `tmp_dir` or `tmp_ext` do.
    let call = Call { args: vec![format!("{command} {file}").into()], kwargs };
    let said = ctx.call_with("cmd.run_all", call)?;
    if said.get("retcode").and_then(Value::as_i64) == Some(0) {
        return Ok(Ok(()));
    }
    let mut comment = "check_cmd execution failed".to_owned();
    for part in ["stdout", "stderr"].iter().filter_map(|part| said.get(part)).filter(|part| part.truthy()) {
        comment.push_str(&format!("\n{part}"));
    }
    Ok(Err(Refused(comment)))
}

/// Runs a command with a file as its last word; True, or why the file is refused.
#[function]
pub fn mod_run_check_cmd(ctx: &Context, cmd: String, filename: String, check_cmd_opts: KwArgs) -> Result<Value> {
    let _ = check_cmd_opts;
    Ok(match run_check(ctx, &cmd, &filename)? {
        Ok(()) => Value::Bool(true),
        Err(refused) => map! { "comment" => refused.0, "skip_watch" => true, "result" => false }.into(),
    })
}
