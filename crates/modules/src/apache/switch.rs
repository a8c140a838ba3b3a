//! The programs that turn something on and off: `a2enmod` and its like.

use exec::{Call, Context, Result};
use value::{Map, Value, map};

/// The kinds of things that can be enabled or disabled.
#[derive(Clone, Copy)]
pub(super) enum What {
    Conf,
    Mod,
    Site,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Conf => "Conf",
            What::Mod => "Mod",
            What::Site => "Site",
        }
    }

    fn program(self, on: bool) -> String {
        format!("a2{}{}", if on { "en" } else { "dis" }, self.name().to_lowercase())
    }
}

/// Turns something on or off, and reports the result. Exit codes are read as Salt reads them.
pub(super) fn turn(ctx: &Context, what: What, on: bool, name: &str) -> Result<Map> {
    let command: Value = [what.program(on).as_str(), name].into_iter().map(Value::from).collect();
    let kwargs = map! { "python_shell" => false };
    let code = ctx.call_with("cmd.retcode", Call { args: vec![command], kwargs })?;
    let kind = what.name();
    // 256 cannot be an exit code: Salt compares with the raw status of wait(2), so a module that is unknown shows its
    // number.
    let (verb, done, missing) = if on { ("Enable", "enabled", 1) } else { ("Disable", "disabled", 256) };
    let status = match code.as_i64() {
        Some(0) => format!("{kind} {name} {done}").into(),
        Some(code) if code == missing => format!("{kind} {name} Not found").into(),
        _ => code,
    };
    Ok(map! { "Name" => format!("Apache2 {verb} {kind}"), kind => name, "Status" => status })
}
